/* Recorder: the ordered log of what was written to a device. */
#include "python/core.h"

#include <errno.h>
#include <string.h>

#include "python/args.h"
#include "python/device_type.h"
#include "python/errors.h"
#include "python/gil.h"

static const char *const kinds[] = {
    [DEVICE_LOG_WRITE] = "write",
    [DEVICE_LOG_ZERO] = "zero",
    [DEVICE_LOG_DISCARD] = "discard",
    [DEVICE_LOG_FLUSH] = "flush",
};

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PY_SIGNATURE(signature, "Recorder", 1, 1, "device");
    struct py_device *below, *self;
    struct device *d, *made = NULL;
    struct py_state *st = py_state_of_subtype(type);
    PyObject *in[1], *op;
    int rc;

    if (!st || !py_args_call(&signature, args, keywords, in)) {
        return NULL;
    }
    below = py_arg_device(st, in[0]);
    d = below ? py_device_enter(below) : NULL;
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, device_recorder_new(d, &made));
    py_device_leave(below);
    if (rc < 0) {
        return py_device_raise(below, rc);
    }
    op = py_device_new(st, (PyObject *)type, made, "recorder", in[0], NULL);
    if (op) {
        self = py_device_of(op);
        self->log_lock = os_mutex_new();
        if (!self->log_lock) {
            Py_DECREF(op);
            return PyErr_NoMemory();
        }
    }
    return op;
}

static Py_ssize_t recorder_length(PyObject *op)
{
    struct py_device *self = py_device_of(op);
    struct device *d = py_device_enter(self);
    struct py_thread *t;
    size_t n;

    if (!d) {
        return -1;
    }
    t = py_leave();
    n = device_recorder_count(d);
    py_return(t, 0);
    py_device_leave(self);
    return (Py_ssize_t)n;
}

/* ---- entries ---- the log lock keeps clear() from pulling the data of an entry away */

struct found {
    struct device_log_entry e;
    const char *call, *path, *object; /* good as long as the recorder */
};

static int find(struct py_device *self, struct device *d, size_t i, struct found *f)
{
    int rc;

    *f = (struct found){.call = NULL};
    os_mutex_lock(self->log_lock);
    rc = device_recorder_entry(d, i, &f->e);
    os_mutex_unlock(self->log_lock);
    if (rc == 0 && f->e.tag.op) {
        f->call = device_recorder_op(d, f->e.tag.op, &f->path);
    }
    if (rc == 0 && f->e.tag.object) {
        f->object = device_recorder_object(d, f->e.tag.object);
    }
    return rc;
}

static int copy_data(struct py_device *self, struct device *d, size_t i, char *out, size_t n)
{
    struct device_log_entry e;
    int rc;

    os_mutex_lock(self->log_lock);
    rc = device_recorder_entry(d, i, &e);
    if (rc == 0 && (e.kind != DEVICE_LOG_WRITE || e.n != n)) {
        rc = -ENOENT; /* cleared meanwhile, and another one has its place */
    }
    if (rc == 0) {
        memcpy(out, e.data, n);
    }
    os_mutex_unlock(self->log_lock);
    return rc;
}

static PyObject *text_or_none(const char *s)
{
    return s ? py_text_new(s, strlen(s)) : Py_NewRef(Py_None);
}

static PyObject *entry_new(struct py_state *st, const struct found *f)
{
    PyObject *object = text_or_none(f->object), *path = text_or_none(f->call ? f->path : NULL);
    PyObject *entry = NULL;

    if (object && path) {
        entry = PyObject_CallFunction(
            st->log_entry, "sKKKsOzO", kinds[f->e.kind], (unsigned long long)f->e.offset,
            (unsigned long long)f->e.n, (unsigned long long)f->e.tag.op,
            device_structure_name(f->e.tag.structure), object, f->call, path);
    }
    Py_XDECREF(object);
    Py_XDECREF(path);
    return entry;
}

static PyObject *raise_entry(struct py_device *self, int rc)
{
    if (rc == -ENOENT && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_IndexError, "there is no such entry in the log");
        return NULL;
    }
    return py_device_raise(self, rc);
}

static PyObject *recorder_entry(PyObject *op, PyObject *arg)
{
    struct py_device *self = py_device_of(op);
    struct device *d;
    struct found f;
    PyObject *entry;
    size_t i = 0;
    int rc;

    if (!py_size(arg, "index", &i)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, find(self, d, i, &f));
    entry = rc < 0 ? raise_entry(self, rc) : entry_new(self->state, &f);
    py_device_leave(self);
    return entry;
}

static PyObject *recorder_data(PyObject *op, PyObject *arg)
{
    struct py_device *self = py_device_of(op);
    PyObject *bytes = NULL;
    struct device *d;
    struct found f;
    size_t i = 0, n;
    int rc;

    if (!py_size(arg, "index", &i)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, find(self, d, i, &f));
    n = rc == 0 && f.e.kind == DEVICE_LOG_WRITE ? (size_t)f.e.n : 0;
    if (rc == 0) {
        bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
    }
    if (bytes && n > 0) {
        char *to = PyBytes_AsString(bytes);

        PY_CALL(rc, copy_data(self, d, i, to, n));
    }
    py_device_leave(self);
    if (rc < 0) {
        Py_XDECREF(bytes);
        return raise_entry(self, rc);
    }
    return bytes;
}

static PyObject *recorder_clear(PyObject *op, PyObject *unused)
{
    struct py_device *self = py_device_of(op);
    struct device *d = py_device_enter(self);
    struct py_thread *t;

    (void)unused;
    if (!d) {
        return NULL;
    }
    t = py_leave();
    os_mutex_lock(self->log_lock);
    device_recorder_clear(d);
    os_mutex_unlock(self->log_lock);
    py_return(t, 0);
    py_device_leave(self);
    return Py_NewRef(Py_None);
}

static PyObject *recorder_at(PyObject *op, PyObject *arg)
{
    struct py_device *self = py_device_of(op);
    struct device *d, *made = NULL;
    PyObject *class, *device = NULL;
    size_t count = 0;
    int rc;

    if (!py_size(arg, "count", &count)) {
        return NULL;
    }
    class = py_device_class(op, "_device_class", self->state->device_type);
    d = class ? py_device_enter(self) : NULL;
    if (!d) {
        Py_XDECREF(class);
        return NULL;
    }
    PY_CALL(rc, device_recorder_at(d, count, &made));
    py_device_leave(self);
    if (rc == -ENOENT || rc == -EINVAL) {
        PyErr_SetString(PyExc_IndexError, "the log has fewer entries than count");
    } else if (rc < 0) {
        py_device_raise(self, rc);
    } else {
        device = py_device_new(self->state, class, made, "branch", op, NULL);
    }
    Py_DECREF(class);
    return device;
}

/* ---- the type ---- */

static PyMethodDef recorder_methods[] = {
    {"entry", recorder_entry, METH_O,
     PY_DOC("entry($self, index, /)", "One operation, a LogEntry; IndexError past the end.")},
    {"data", recorder_data, METH_O,
     PY_DOC("data($self, index, /)", "The bytes of a write; empty for other operations.")},
    {"at", recorder_at, METH_O,
     PY_DOC("at($self, count, /)", "A branch: the device after the first `count` operations.")},
    {"clear", recorder_clear, METH_NOARGS,
     PY_DOC("clear($self, /)", "Forgets the log; at(0) is the device as it is now.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot recorder_slots[] = {
    PY_SLOT(Py_tp_doc,
            "Recorder(device)\n--\n\nPasses everything through and keeps an ordered log."),
    PY_SLOT(Py_tp_new, recorder_new),
    PY_SLOT(Py_tp_dealloc, py_device_dealloc),
    PY_SLOT(Py_tp_traverse, py_device_traverse),
    PY_SLOT(Py_tp_clear, py_device_clear),
    PY_SLOT(Py_tp_methods, recorder_methods),
    PY_SLOT(Py_sq_length, recorder_length),
    {0, NULL},
};

static PyType_Spec recorder_spec = {
    .name = "pyexfat._core.Recorder",
    .basicsize = sizeof(struct py_device),
    .flags = PY_TYPE_FLAGS | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = recorder_slots,
};

int py_recorder_setup(PyObject *module, struct py_state *st)
{
    st->recorder_type = py_add_type(module, &recorder_spec, st->device_type);
    return st->recorder_type ? 0 : -1;
}
