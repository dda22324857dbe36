/* Python objects under a device: a buffer, used in place, or a file object with seek, read and
 * write. */
#ifndef PYEXFAT_PYTHON_PYDEVICE_H
#define PYEXFAT_PYTHON_PYDEVICE_H

#include "python/core.h"

/* Owned by the C device; the Device shows what it refers to to the garbage collector. */
struct py_source {
    const struct py_state *state;
    PyObject *file;        /* or NULL */
    Py_buffer view;        /* view.obj: NULL for a file object */
    struct os_mutex *lock; /* file: one seek and its read or write at a time */
    uint64_t owner;        /* atomic: thread that holds the lock */
    PyObject *fsync;       /* called with the file's descriptor after flush, or NULL */
    bool has_readinto, has_flush;
};

/* writable: -1 asks the object. Each returns NULL with an exception set. */
struct device *py_buffer_device(struct py_state *st, PyObject *o, int writable,
                                uint32_t sector_size, struct py_source **source);
/* size: UINT64_MAX asks the object. */
struct device *py_file_device(struct py_state *st, PyObject *o, int writable, uint64_t size,
                              uint32_t sector_size, struct py_source **source);
PyObject *py_source_object(const struct py_source *s); /* new reference; None when there is none */

#endif
