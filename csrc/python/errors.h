/* From a negative errno and struct base_error to an exception. */
#ifndef PYEXFAT_PYTHON_ERRORS_H
#define PYEXFAT_PYTHON_ERRORS_H

#include "python/core.h"

#include "base/error.h"

/* Sets the exception for rc; always returns NULL. e, path and path2 may be NULL. An exception that
 * is set already (by a callback of the failed call) stays. Damage becomes CorruptImageError, an
 * unknown feature UnsupportedFeatureError, a bad argument ValueError, ENOMEM MemoryError, all else
 * OSError. */
PyObject *py_raise(struct py_state *st, int rc, const struct base_error *e, PyObject *path,
                   PyObject *path2);
/* ValueError "I/O operation on closed …", as io does; always returns NULL. */
PyObject *py_raise_closed(const char *what);
/* The same for what was opened before a fork whose child this process is. */
PyObject *py_raise_inherited(const char *what);

#endif
