/* What can be done with a device. */
#include "python/core.h"

#include <errno.h>
#include <string.h>

#include "python/args.h"
#include "python/device_type.h"
#include "python/errors.h"
#include "python/gil.h"

static PyObject *none_or_raise(struct py_device *self, int rc)
{
    return rc < 0 ? py_device_raise(self, rc) : Py_NewRef(Py_None);
}

/* ---- devices on top of this one ---- */

/* A device of the class self->_device_class on top of this one. */
static PyObject *stack(PyObject *op, struct device *d, const char *kind)
{
    struct py_device *self = py_device_of(op);
    PyObject *class = py_device_class(op, "_device_class", self->state->device_type);
    PyObject *made;

    if (!class) {
        py_device_discard(d);
        return NULL;
    }
    made = py_device_new(self->state, class, d, kind, op, NULL);
    Py_DECREF(class);
    return made;
}

static PyObject *device_slice(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "slice", 2, 2, "offset", "length");
    struct py_device *self = py_device_of(op);
    struct device *d, *made = NULL;
    PyObject *in[2];
    uint64_t offset = 0, length = 0;
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_u64(in[0], "offset", &offset) ||
        !py_u64(in[1], "length", &length)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    rc = device_slice_new(d, offset, length, &made);
    py_device_leave(self);
    if (rc == -EINVAL) {
        PyErr_SetString(PyExc_ValueError,
                        "offset and length must be whole sectors within the device");
        return NULL;
    }
    return rc < 0 ? py_device_raise(self, rc) : stack(op, made, "slice");
}

static PyObject *device_branch(PyObject *op, PyObject *unused)
{
    struct py_device *self = py_device_of(op);
    struct device *d = py_device_enter(self), *made = NULL;
    int rc;

    (void)unused;
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, device_branch_new(d, &made));
    py_device_leave(self);
    return rc < 0 ? py_device_raise(self, rc) : stack(op, made, "branch");
}

static PyObject *shim(PyObject *op, const char *attribute, PyTypeObject *type)
{
    PyObject *class = py_device_class(op, attribute, type), *made = NULL;

    if (class) {
        made = PyObject_CallFunctionObjArgs(class, op, NULL);
        Py_DECREF(class);
    }
    return made;
}

static PyObject *device_record(PyObject *op, PyObject *unused)
{
    (void)unused;
    return shim(op, "_recorder_class", py_device_of(op)->state->recorder_type);
}

static PyObject *device_faults(PyObject *op, PyObject *unused)
{
    (void)unused;
    return shim(op, "_faults_class", py_device_of(op)->state->faults_type);
}

/* ---- operations ---- */

static PyObject *on_branch(PyObject *op, int (*function)(struct device *))
{
    struct py_device *self = py_device_of(op);
    struct device *d;
    int rc;

    if (strcmp(self->kind, "branch") != 0) {
        PyErr_SetString(PyExc_ValueError, "only a branch can be committed or rolled back");
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, function(d));
    py_device_leave(self);
    return none_or_raise(self, rc);
}

static PyObject *device_commit(PyObject *op, PyObject *unused)
{
    (void)unused;
    return on_branch(op, device_branch_commit);
}

static PyObject *device_rollback(PyObject *op, PyObject *unused)
{
    (void)unused;
    return on_branch(op, device_branch_discard);
}

/* Whole sectors within the device; ValueError otherwise. */
static bool check_range(const struct device *d, uint64_t offset, uint64_t n)
{
    uint64_t size = __atomic_load_n(&d->size, __ATOMIC_RELAXED);

    if ((offset | n) % d->sector_size != 0) {
        PyErr_Format(PyExc_ValueError, "offset and length must be multiples of %u bytes",
                     (unsigned)d->sector_size);
        return false;
    }
    if (offset > size || n > size - offset) {
        PyErr_SetString(PyExc_ValueError, "offset and length reach beyond the end of the device");
        return false;
    }
    return true;
}

static PyObject *device_pread(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_device *self = py_device_of(op);
    PyObject *bytes = NULL;
    struct device *d;
    size_t length = 0;
    uint64_t offset = 0;
    int rc = 0;

    if (!py_args_count("pread", n, 2, 2) || !py_size(args[0], "length", &length) ||
        !py_u64(args[1], "offset", &offset)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    if (check_range(d, offset, length)) {
        bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    }
    if (bytes) {
        char *to = PyBytes_AsString(bytes);

        PY_CALL(rc, device_read(d, offset, to, length));
    }
    py_device_leave(self);
    if (rc < 0) {
        Py_DECREF(bytes);
        return py_device_raise(self, rc);
    }
    return bytes;
}

static PyObject *device_pwrite(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_device *self = py_device_of(op);
    uint64_t offset = 0;
    struct device *d;
    Py_buffer view;
    Py_ssize_t length;
    bool ok;
    int rc = 0;

    if (!py_args_count("pwrite", n, 2, 2) || !py_u64(args[1], "offset", &offset) ||
        PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE)) {
        return NULL;
    }
    length = view.len;
    d = py_device_enter(self);
    ok = d && check_range(d, offset, (uint64_t)length);
    if (ok) {
        PY_CALL(rc, device_write(d, offset, view.buf, (size_t)length, NULL));
    }
    if (d) {
        py_device_leave(self);
    }
    PyBuffer_Release(&view);
    if (rc < 0) {
        return py_device_raise(self, rc);
    }
    return ok ? PyLong_FromSsize_t(length) : NULL;
}

typedef int range_function(struct device *, uint64_t, uint64_t, const struct device_tag *);

static PyObject *on_range(PyObject *op, PyObject *const *args, Py_ssize_t n, const char *name,
                          range_function *function)
{
    struct py_device *self = py_device_of(op);
    uint64_t offset = 0, length = 0;
    struct device *d;
    bool ok;
    int rc = 0;

    if (!py_args_count(name, n, 2, 2) || !py_u64(args[0], "offset", &offset) ||
        !py_u64(args[1], "length", &length)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    ok = check_range(d, offset, length);
    if (ok) {
        PY_CALL(rc, function(d, offset, length, NULL));
    }
    py_device_leave(self);
    return ok ? none_or_raise(self, rc) : NULL;
}

static PyObject *device_zero_range(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    return on_range(op, args, n, "zero", device_zero);
}

static PyObject *device_discard_range(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    return on_range(op, args, n, "discard", device_discard);
}

static PyObject *device_flush_all(PyObject *op, PyObject *unused)
{
    struct py_device *self = py_device_of(op);
    struct device *d = py_device_enter(self);
    int rc;

    (void)unused;
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, device_flush(d));
    py_device_leave(self);
    return none_or_raise(self, rc);
}

static PyObject *device_set_size(PyObject *op, PyObject *arg)
{
    struct py_device *self = py_device_of(op);
    struct device *d;
    uint64_t size = 0;
    int rc;

    if (!py_u64(arg, "size", &size)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    if (size % d->sector_size != 0) {
        PyErr_Format(PyExc_ValueError, "size must be a multiple of %u bytes",
                     (unsigned)d->sector_size);
        py_device_leave(self);
        return NULL;
    }
    PY_CALL(rc, device_resize(d, size));
    py_device_note(self, d);
    py_device_leave(self);
    return none_or_raise(self, rc);
}

/* Marked as closed before the core is asked, so that a call in another thread that finds it closed
 * knows why. */
static PyObject *device_shut(PyObject *op, PyObject *unused)
{
    struct py_device *self = py_device_of(op);
    struct device *d = NULL;
    int rc;

    (void)unused;
    if (py_device_is_inherited(self)) {
        py_device_close_inherited(self);
    } else if (!py_device_was_closed(self)) {
        d = py_device_enter(self);
    }
    if (!d) {
        PyErr_Clear();
        return Py_NewRef(Py_None);
    }
    if (__atomic_fetch_or(&self->users, 1, __ATOMIC_ACQ_REL) & 1) {
        py_device_leave(self); /* another thread was faster */
        return Py_NewRef(Py_None);
    }
    PY_CALL(rc, device_close(d));
    if (rc == -EDEADLK) { /* refused: it is in use by this very thread */
        __atomic_fetch_and(&self->users, ~1u, __ATOMIC_ACQ_REL);
    }
    py_device_leave(self);
    return rc < 0 ? py_raise(self->state, rc, NULL, NULL, NULL) : Py_NewRef(Py_None);
}

static PyObject *device_enter(PyObject *op, PyObject *unused)
{
    (void)unused;
    if (py_device_was_closed(py_device_of(op))) {
        return py_device_raise_closed(py_device_of(op));
    }
    return Py_NewRef(op);
}

/* By name, because a subclass may have its own close. */
static PyObject *device_exit(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    (void)n;
    return PyObject_CallMethod(op, "close", NULL);
}

#define CLASS_METHOD (METH_METHOD | METH_FASTCALL | METH_KEYWORDS | METH_CLASS)

PyMethodDef py_device_methods[] = {
    {"memory", PY_METHOD(py_make_memory), CLASS_METHOD,
     PY_DOC("memory($type, /, size, sector_size=512)",
            "Memory that reads as zeros and is taken only where something was written.")},
    {"file", PY_METHOD(py_make_file), CLASS_METHOD,
     PY_DOC("file($type, /, path, writable=False, create=False, sector_size=0)",
            "An image file or a block device.\n\nA second writer, or a mounted block device, is "
            "refused with OSError(EBUSY).\nsector_size 0: what the device says, 512 for a file.")},
    {"fd", PY_METHOD(py_make_fd), CLASS_METHOD,
     PY_DOC("fd($type, /, fd, writable=False, sector_size=0)",
            "An open file descriptor, which stays the caller's.")},
    {"buffer", PY_METHOD(py_make_buffer), CLASS_METHOD,
     PY_DOC("buffer($type, /, obj, writable=None, sector_size=512)",
            "The bytes of a buffer, in place.\n\nwritable None: as the buffer is. The buffer can't "
            "be resized until the device is closed.")},
    {"wrap", PY_METHOD(py_make_wrap), CLASS_METHOD,
     PY_DOC("wrap($type, /, fileobj, writable=None, size=None, sector_size=512)",
            "A seekable binary file object.\n\nwritable None: what its writable() says. What its "
            "methods raise comes out of the call that\nneeded them. It is not closed.")},
    {"slice", PY_METHOD(device_slice), METH_FASTCALL | METH_KEYWORDS,
     PY_DOC("slice($self, /, offset, length)", "A part of the device, as a device.")},
    {"branch", device_branch, METH_NOARGS,
     PY_DOC(
         "branch($self, /)",
         "A copy-on-write child: it sees the device as it is now, whatever is written to either.")},
    {"commit", device_commit, METH_NOARGS,
     PY_DOC("commit($self, /)", "Writes the changes of a branch to the device below.")},
    {"rollback", device_rollback, METH_NOARGS,
     PY_DOC("rollback($self, /)",
            "Forgets the changes of a branch; it shows the device as it is now.")},
    {"record", device_record, METH_NOARGS,
     PY_DOC("record($self, /)", "A Recorder on top of the device.")},
    {"faults", device_faults, METH_NOARGS,
     PY_DOC("faults($self, /)", "A Faults on top of the device, without rules.")},
    {"pread", PY_METHOD(device_pread), METH_FASTCALL,
     PY_DOC("pread($self, length, offset, /)", "Reads whole sectors.")},
    {"pwrite", PY_METHOD(device_pwrite), METH_FASTCALL,
     PY_DOC("pwrite($self, data, offset, /)", "Writes whole sectors; returns how many bytes.")},
    {"zero", PY_METHOD(device_zero_range), METH_FASTCALL,
     PY_DOC("zero($self, offset, length, /)",
            "Writes zeros, without work where that is possible.")},
    {"discard", PY_METHOD(device_discard_range), METH_FASTCALL,
     PY_DOC("discard($self, offset, length, /)", "Says that the content is not needed any more.")},
    {"flush", device_flush_all, METH_NOARGS,
     PY_DOC("flush($self, /)", "Makes all that was written durable.")},
    {"resize", device_set_size, METH_O, PY_DOC("resize($self, size, /)", "Changes the size.")},
    {"close", device_shut, METH_NOARGS,
     PY_DOC("close($self, /)", "Flushes and refuses further use. Twice is fine.")},
    PY_NO_PICKLE,
    {"__enter__", device_enter, METH_NOARGS, PY_DOC("__enter__($self, /)", "Itself.")},
    {"__exit__", PY_METHOD(device_exit), METH_FASTCALL,
     PY_DOC("__exit__($self, exc_type, exc, traceback, /)", "Closes the device.")},
    {NULL, NULL, 0, NULL},
};
