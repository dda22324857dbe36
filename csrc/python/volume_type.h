/* Volume. */
#ifndef PYEXFAT_PYTHON_VOLUME_TYPE_H
#define PYEXFAT_PYTHON_VOLUME_TYPE_H

#include "python/core.h"

#include "python/args.h"
#include "volume/volume.h"

struct py_volume {
    PyObject_HEAD struct py_state *state;
    struct volume
        *volume; /* set once by __init__; the C object stays until dealloc, closed or not */
    PyObject *device, *env; /* what it stands on; env may be NULL */
    uint32_t closed;        /* atomic */
    uint32_t serial;        /* atomic; the C object's is changed under its lock */
};

static inline struct py_volume *py_volume_of(PyObject *op)
{
    return (struct py_volume *)op;
}

bool py_volume_is_closed(struct py_volume *self);
/* False with ValueError when it is closed or was never opened. */
bool py_volume_ready(struct py_volume *self);
/* Raises what rc means; always returns NULL. */
PyObject *py_volume_raise(struct py_volume *self, int rc, const struct base_error *e,
                          PyObject *path, PyObject *path2);
PyObject *py_volume_stat(struct py_volume *self, const struct volume_stat *s);
/* created, modified, accessed (ns) and attributes, each None or not given: not changed. */
bool py_setattr_args(PyObject *const in[4], struct volume_setattr *how);
#define PY_SETATTR_NAMES "created", "modified", "accessed", "attributes"

extern PyMethodDef py_volume_methods[]; /* volume_methods.c */
/* Methods that take paths (volume_paths.c). */
typedef PyObject *py_path_method(PyObject *op, PyObject *path);
typedef PyObject *py_fast_method(PyObject *op, PyObject *const *args, Py_ssize_t n);
typedef PyObject *py_keyword_method(PyObject *op, PyObject *const *args, Py_ssize_t n,
                                    PyObject *keywords);
py_path_method py_path_stat, py_path_kind, py_path_mkdir, py_path_rmdir, py_path_unlink,
    py_path_extents, py_path_stored_name, py_path_listdir,
    py_path_get_extras; /* the extras: volume_extras.c */
py_fast_method py_path_scandir, py_path_create_many, py_path_remove_many, py_path_open,
    py_path_set_extras;
py_keyword_method py_path_rename, py_path_touch, py_path_setattr, py_path_truncate,
    py_path_fallocate;

/* A new Handle over h, which it takes over. */
PyObject *py_handle_new(struct py_state *st, PyObject *volume, struct volume_handle *h,
                        PyObject *path, uint32_t flags);
void py_handle_discard(struct volume_handle *h); /* that nobody wants */

#endif
