/* Handle: an open file, without a position. */
#include "python/core.h"

#include <errno.h>
#include <stdlib.h>

#include "python/convert.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/volume_type.h"

#define READ_AT_ONCE                                                                               \
    65536 /* longer reads ask for the size first, so that no more memory is taken than there is to \
             read */

struct py_handle {
    PyObject_HEAD struct volume_handle *handle; /* stays until dealloc, closed or not */
    PyObject *volume, *path;
    uint32_t flags;
    uint32_t closed; /* atomic */
};

static struct py_handle *handle_of(PyObject *op)
{
    return (struct py_handle *)op;
}

static struct py_volume *volume_of(struct py_handle *self)
{
    return py_volume_of(self->volume);
}

static void unref(void *h)
{
    volume_file_unref(h);
}

void py_handle_discard(struct volume_handle *h)
{
    py_discard(unref, h);
}

PyObject *py_handle_new(struct py_state *st, PyObject *volume, struct volume_handle *h,
                        PyObject *path, uint32_t flags)
{
    PyObject *text = py_path_str(path, "path"), *op = text ? py_alloc(st->handle_type) : NULL;

    if (!op) {
        Py_XDECREF(text);
        py_handle_discard(h);
        return NULL;
    }
    handle_of(op)->handle = h;
    handle_of(op)->volume = Py_NewRef(volume);
    handle_of(op)->path = text;
    handle_of(op)->flags = flags;
    return op;
}

static bool was_closed(struct py_handle *self)
{
    return __atomic_load_n(&self->closed, __ATOMIC_ACQUIRE);
}

static bool ready(struct py_handle *self)
{
    if (was_closed(self)) {
        py_raise_closed("file");
        return false;
    }
    return py_volume_ready(volume_of(self));
}

static PyObject *raise_for(struct py_handle *self, int rc, const struct base_error *e)
{
    if (rc == -EBADF && was_closed(self) && !PyErr_Occurred()) {
        return py_raise_closed("file");
    }
    return py_volume_raise(volume_of(self), rc, e, self->path, NULL);
}

static PyObject *none_or_raise(struct py_handle *self, int rc, const struct base_error *e)
{
    return rc < 0 ? raise_for(self, rc, e) : Py_NewRef(Py_None);
}

/* ---- reading ---- */

static bool stat_now(struct py_handle *self, struct volume_stat *s)
{
    struct base_error e = {0};
    int rc;

    PY_CALL(rc, volume_file_stat(self->handle, s, &e));
    if (rc < 0) {
        raise_for(self, rc, &e);
    }
    return rc >= 0;
}

static PyObject *handle_pread(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_handle *self = handle_of(op);
    struct base_error e = {0};
    struct volume_stat s;
    PyObject *bytes;
    uint64_t offset = 0;
    size_t length = 0, done = 0;
    char *to;
    int rc;

    if (!py_args_count("pread", n, 2, 2) || !py_size(args[0], "length", &length) ||
        !py_u64(args[1], "offset", &offset) || !ready(self)) {
        return NULL;
    }
    if (length > READ_AT_ONCE) {
        uint64_t rest;

        if (!stat_now(self, &s)) {
            return NULL;
        }
        rest = offset < s.size ? s.size - offset : 0;
        length = rest < length ? (size_t)rest : length;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (!bytes) {
        return NULL;
    }
    to = PyBytes_AsString(bytes);
    PY_CALL(rc, volume_file_read(self->handle, offset, to, length, &done, &e));
    if (rc < 0) {
        Py_DECREF(bytes);
        return raise_for(self, rc, &e);
    }
    if (done < length) {
        PyObject *less = PyBytes_FromStringAndSize(to, (Py_ssize_t)done);

        Py_DECREF(bytes);
        return less;
    }
    return bytes;
}

static PyObject *handle_preadinto(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_handle *self = handle_of(op);
    struct base_error e = {0};
    uint64_t offset = 0;
    size_t done = 0;
    Py_buffer view;
    int rc;

    if (!py_args_count("preadinto", n, 2, 2) || !py_u64(args[1], "offset", &offset) ||
        !ready(self) || !py_writable_buffer(args[0], "buffer", &view)) {
        return NULL;
    }
    PY_CALL(rc, volume_file_read(self->handle, offset, view.buf, (size_t)view.len, &done, &e));
    PyBuffer_Release(&view);
    return rc < 0 ? raise_for(self, rc, &e) : PyLong_FromSize_t(done);
}

/* ---- writing ---- */

static bool write_buffer(struct py_handle *self, PyObject *data, uint64_t offset, size_t *done,
                         uint64_t *end)
{
    struct base_error e = {0};
    Py_buffer view;
    int rc;

    if (!ready(self) || PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) {
        return false;
    }
    PY_CALL(rc, volume_file_write(self->handle, offset, view.buf, (size_t)view.len, done, end, &e));
    PyBuffer_Release(&view);
    if (rc < 0) {
        raise_for(self, rc, &e);
    }
    return rc >= 0;
}

static PyObject *handle_pwrite(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    uint64_t offset = 0;
    size_t done = 0;

    if (!py_args_count("pwrite", n, 2, 2) || !py_u64(args[1], "offset", &offset) ||
        !write_buffer(handle_of(op), args[0], offset, &done, NULL)) {
        return NULL;
    }
    return PyLong_FromSize_t(done);
}

static PyObject *handle_append(PyObject *op, PyObject *data)
{
    struct py_handle *self = handle_of(op);
    uint64_t end = 0;
    size_t done = 0;

    if (!(self->flags & VOLUME_OPEN_APPEND)) {
        PyErr_SetString(PyExc_ValueError, "the file was not opened with OPEN_APPEND");
        return NULL;
    }
    if (!write_buffer(self, data, 0, &done, &end)) {
        return NULL;
    }
    return Py_BuildValue("nK", (Py_ssize_t)done, (unsigned long long)end);
}

static PyObject *handle_resize(PyObject *op, PyObject *arg)
{
    struct py_handle *self = handle_of(op);
    struct base_error e = {0};
    uint64_t size = 0;
    int rc;

    if (!py_u64(arg, "size", &size) || !ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_file_resize(self->handle, size, &e));
    return none_or_raise(self, rc, &e);
}

static PyObject *handle_allocate(PyObject *op, PyObject *const *args, Py_ssize_t n,
                                 PyObject *keywords)
{
    PY_SIGNATURE(signature, "allocate", 2, 3, "offset", "length", "keep_size");
    struct py_handle *self = handle_of(op);
    uint64_t offset = 0, length = 0;
    struct base_error e = {0};
    bool keep_size = false;
    PyObject *in[3];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_u64(in[0], "offset", &offset) ||
        !py_u64(in[1], "length", &length) || !py_bool(in[2], &keep_size) || !ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_file_allocate(self->handle, offset, length, keep_size, &e));
    return none_or_raise(self, rc, &e);
}

static PyObject *handle_setattr(PyObject *op, PyObject *const *args, Py_ssize_t n,
                                PyObject *keywords)
{
    PY_SIGNATURE(signature, "setattr", 0, 0, PY_SETATTR_NAMES);
    struct py_handle *self = handle_of(op);
    struct base_error e = {0};
    struct volume_setattr how;
    PyObject *in[4];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_setattr_args(in, &how) || !ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_file_setattr(self->handle, &how, &e));
    return none_or_raise(self, rc, &e);
}

/* ---- the rest ---- */

static PyObject *handle_stat(PyObject *op, PyObject *unused)
{
    struct py_handle *self = handle_of(op);
    struct volume_stat s;

    (void)unused;
    return ready(self) && stat_now(self, &s) ? py_volume_stat(volume_of(self), &s) : NULL;
}

static PyObject *handle_size(PyObject *op, PyObject *unused)
{
    struct py_handle *self = handle_of(op);
    struct volume_stat s;

    (void)unused;
    return ready(self) && stat_now(self, &s) ? PyLong_FromUnsignedLongLong(s.size) : NULL;
}

static PyObject *handle_extents(PyObject *op, PyObject *unused)
{
    struct py_handle *self = handle_of(op);
    struct volume_extents extents = {0};
    struct base_error e = {0};
    PyObject *out;
    int rc;

    (void)unused;
    if (!ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_file_extents(self->handle, &extents, &e));
    out = rc < 0 ? raise_for(self, rc, &e) : py_extents(volume_of(self)->state, &extents);
    free(extents.v);
    return out;
}

static PyObject *handle_sync(PyObject *op, PyObject *unused)
{
    struct py_handle *self = handle_of(op);
    struct base_error e = {0};
    int rc;

    (void)unused;
    if (!ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_file_sync(self->handle, &e));
    return none_or_raise(self, rc, &e);
}

/* A file of a closed volume is closed with it. */
static PyObject *handle_close(PyObject *op, PyObject *unused)
{
    struct py_handle *self = handle_of(op);
    struct base_error e = {0};
    int rc;

    (void)unused;
    if (__atomic_exchange_n(&self->closed, 1, __ATOMIC_ACQ_REL)) {
        return Py_NewRef(Py_None);
    }
    PY_CALL(rc, volume_file_close(self->handle, &e));
    if (rc == -EBADF && py_volume_is_closed(volume_of(self)) && !PyErr_Occurred()) {
        rc = 0;
    }
    if (rc == -EDEADLK) { /* refused: the volume is in use by this very thread */
        __atomic_store_n(&self->closed, 0, __ATOMIC_RELEASE);
    }
    return rc < 0 ? py_raise(volume_of(self)->state, rc, &e, self->path, NULL) : Py_NewRef(Py_None);
}

static PyObject *get_closed(PyObject *op, void *closure)
{
    struct py_handle *self = handle_of(op);

    (void)closure;
    return PyBool_FromLong(was_closed(self) || py_volume_is_closed(volume_of(self)));
}

static PyObject *get_flags(PyObject *op, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(handle_of(op)->flags);
}

static PyObject *get_path(PyObject *op, void *closure)
{
    (void)closure;
    return Py_NewRef(handle_of(op)->path);
}

static PyObject *get_volume(PyObject *op, void *closure)
{
    (void)closure;
    return Py_NewRef(handle_of(op)->volume);
}

/* ---- the type ---- */

static int handle_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(handle_of(op)->volume);
    Py_VISIT(handle_of(op)->path);
    return 0;
}

static void handle_dealloc(PyObject *op)
{
    struct py_handle *self = handle_of(op);

    PyObject_GC_UnTrack(op);
    if (self->handle) {
        py_handle_discard(self->handle);
    }
    Py_CLEAR(self->volume);
    Py_CLEAR(self->path);
    py_free(op);
}

static PyMethodDef handle_methods[] = {
    {"pread", PY_METHOD(handle_pread), METH_FASTCALL,
     PY_DOC("pread($self, length, offset, /)", "Reads; shorter at the end of the file.")},
    {"preadinto", PY_METHOD(handle_preadinto), METH_FASTCALL,
     PY_DOC("preadinto($self, buffer, offset, /)", "Reads into a buffer; returns how many bytes.")},
    {"pwrite", PY_METHOD(handle_pwrite), METH_FASTCALL,
     PY_DOC("pwrite($self, data, offset, /)", "Writes; returns how many bytes.")},
    {"append", handle_append, METH_O,
     PY_DOC("append($self, data, /)",
            "Writes at the end; returns (bytes written, size after it).")},
    {"resize", handle_resize, METH_O,
     PY_DOC("resize($self, size, /)", "Sets the size; what is new reads as zeros.")},
    {"allocate", PY_METHOD(handle_allocate), METH_FASTCALL | METH_KEYWORDS,
     PY_DOC("allocate($self, /, offset, length, keep_size=False)",
            "Makes sure that a range has clusters.")},
    {"stat", handle_stat, METH_NOARGS, PY_DOC("stat($self, /)", "What is known of the file.")},
    {"size", handle_size, METH_NOARGS, PY_DOC("size($self, /)", "Its size in bytes, now.")},
    {"setattr", PY_METHOD(handle_setattr), METH_FASTCALL | METH_KEYWORDS,
     PY_DOC("setattr($self, /, *, created=None, modified=None, accessed=None, attributes=None)",
            "Sets times (nanoseconds) and attribute bits; None leaves them.")},
    {"extents", handle_extents, METH_NOARGS,
     PY_DOC("extents($self, /)", "Where the file lies: a list of Extent.")},
    {"sync", handle_sync, METH_NOARGS, PY_DOC("sync($self, /)", "Makes the file durable.")},
    PY_NO_PICKLE,
    {"close", handle_close, METH_NOARGS, PY_DOC("close($self, /)", "Closes it. Twice is fine.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef handle_getset[] = {
    {"closed", get_closed, NULL, PyDoc_STR("whether it, or its volume, is closed"), NULL},
    {"flags", get_flags, NULL, PyDoc_STR("the OPEN_ flags"), NULL},
    {"path", get_path, NULL, PyDoc_STR("as it was given to open_file"), NULL},
    {"volume", get_volume, NULL, PyDoc_STR("the Volume"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot handle_slots[] = {
    PY_SLOT(Py_tp_doc, "An open file, without a position. Made by Volume.open_file."),
    PY_SLOT(Py_tp_dealloc, handle_dealloc),
    PY_SLOT(Py_tp_traverse, handle_traverse),
    PY_SLOT(Py_tp_methods, handle_methods),
    PY_SLOT(Py_tp_getset, handle_getset),
    {0, NULL},
};

static PyType_Spec handle_spec = {
    .name = "pyexfat._core.Handle",
    .basicsize = sizeof(struct py_handle),
    .flags = PY_TYPE_FLAGS | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = handle_slots,
};

int py_handle_setup(PyObject *module, struct py_state *st)
{
    st->handle_type = py_add_type(module, &handle_spec, NULL);
    return st->handle_type ? 0 : -1;
}
