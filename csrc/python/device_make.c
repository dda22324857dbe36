/* The class methods that make devices out of something else. */
#include "python/core.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "python/args.h"
#include "python/device_type.h"
#include "python/errors.h"
#include "python/gil.h"

static bool sector_size_arg(PyObject *o, uint32_t *out, bool zero_too)
{
    if (!py_u32(o, "sector_size", out)) {
        return false;
    }
    if ((zero_too && *out == 0) || (*out >= 512 && *out <= 4096 && base_is_power_of_two(*out))) {
        return true;
    }
    PyErr_SetString(PyExc_ValueError, "sector_size must be 512, 1024, 2048 or 4096");
    return false;
}

/* None: -1, ask the object. */
static bool writable_arg(PyObject *o, int *out)
{
    bool v = false;

    *out = -1;
    if (!o || o == Py_None) {
        return true;
    }
    if (!py_bool(o, &v)) {
        return false;
    }
    *out = v;
    return true;
}

/* The class method's class, when it is one of devices that stand on nothing else. */
static struct py_state *state_for(PyTypeObject *defining)
{
    return PyType_GetModuleState(defining);
}

PyObject *py_make_memory(PyObject *type, PyTypeObject *defining, PyObject *const *args,
                         Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "memory", 1, 2, "size", "sector_size");
    struct py_state *st = state_for(defining);
    PyObject *in[2];
    uint64_t size = 0;
    uint32_t sector_size = 512;
    struct device *d = NULL;
    int rc;

    if (!st || !py_args(&signature, args, n, keywords, in) || !py_u64(in[0], "size", &size) ||
        !sector_size_arg(in[1], &sector_size, false)) {
        return NULL;
    }
    rc = device_memory_new(size, sector_size, &d);
    if (rc) {
        return py_raise(st, rc, NULL, NULL, NULL);
    }
    return py_device_new(st, type, d, "memory", NULL, NULL);
}

PyObject *py_make_file(PyObject *type, PyTypeObject *defining, PyObject *const *args, Py_ssize_t n,
                       PyObject *keywords)
{
    PY_SIGNATURE(signature, "file", 1, 4, "path", "writable", "create", "sector_size");
    struct py_state *st = state_for(defining);
    PyObject *in[4], *path = NULL;
    bool writable = false, create = false;
    uint32_t sector_size = 0;
    struct device *d = NULL;
    const char *name;
    int rc;

    if (!st || !py_args(&signature, args, n, keywords, in) || !py_bool(in[1], &writable) ||
        !py_bool(in[2], &create) || !sector_size_arg(in[3], &sector_size, true) ||
        !PyUnicode_FSConverter(in[0], &path)) {
        return NULL;
    }
    name = PyBytes_AsString(path);
    PY_CALL(rc, device_file_open(name, writable, create, sector_size, &d));
    Py_DECREF(path);
    if (rc) {
        return py_raise(st, rc, NULL, in[0], NULL);
    }
    return py_device_new(st, type, d, "file", NULL, NULL);
}

PyObject *py_make_fd(PyObject *type, PyTypeObject *defining, PyObject *const *args, Py_ssize_t n,
                     PyObject *keywords)
{
    PY_SIGNATURE(signature, "fd", 1, 3, "fd", "writable", "sector_size");
    struct py_state *st = state_for(defining);
    PyObject *in[3];
    bool writable = false;
    uint32_t fd = 0, sector_size = 0;
    struct device *d = NULL;
    int rc;

    if (!st || !py_args(&signature, args, n, keywords, in) || !py_u32(in[0], "fd", &fd) ||
        !py_bool(in[1], &writable) || !sector_size_arg(in[2], &sector_size, true)) {
        return NULL;
    }
    if (fd > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "fd is too large");
        return NULL;
    }
    PY_CALL(rc, device_file_adopt((int)fd, writable, sector_size, &d));
    if (rc) {
        return py_raise(st, rc, NULL, NULL, NULL);
    }
    return py_device_new(st, type, d, "file", NULL, NULL);
}

PyObject *py_make_buffer(PyObject *type, PyTypeObject *defining, PyObject *const *args,
                         Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "buffer", 1, 3, "obj", "writable", "sector_size");
    struct py_state *st = state_for(defining);
    struct py_source *source = NULL;
    PyObject *in[3];
    uint32_t sector_size = 512;
    struct device *d;
    int writable;

    if (!st || !py_args(&signature, args, n, keywords, in) || !writable_arg(in[1], &writable) ||
        !sector_size_arg(in[2], &sector_size, false)) {
        return NULL;
    }
    d = py_buffer_device(st, in[0], writable, sector_size, &source);
    return d ? py_device_new(st, type, d, "buffer", NULL, source) : NULL;
}

PyObject *py_make_wrap(PyObject *type, PyTypeObject *defining, PyObject *const *args, Py_ssize_t n,
                       PyObject *keywords)
{
    PY_SIGNATURE(signature, "wrap", 1, 4, "fileobj", "writable", "size", "sector_size");
    struct py_state *st = state_for(defining);
    struct py_source *source = NULL;
    PyObject *in[4];
    uint64_t size = UINT64_MAX;
    uint32_t sector_size = 512;
    struct device *d;
    int writable;

    if (!st || !py_args(&signature, args, n, keywords, in) || !writable_arg(in[1], &writable) ||
        (in[2] != Py_None && !py_u64(in[2], "size", &size)) ||
        !sector_size_arg(in[3], &sector_size, false)) {
        return NULL;
    }
    d = py_file_device(st, in[0], writable, size, sector_size, &source);
    return d ? py_device_new(st, type, d, "object", NULL, source) : NULL;
}
