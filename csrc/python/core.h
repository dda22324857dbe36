/* The extension pyexfat._core: what its files share.
 *
 * One file per type. A method turns its arguments into C (args.h), calls the core without the GIL
 * (gil.h) and turns the result or error into Python (errors.h, convert.h). Nothing here knows a
 * file system.
 *
 * Who keeps what alive: handle -> volume -> device -> the device it stands on -> file object or
 * buffer, each by a strong reference of Python. The C objects have references of their own, so that
 * the order of destruction within a garbage cycle does not matter.
 */
#ifndef PYEXFAT_PYTHON_CORE_H
#define PYEXFAT_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/* Names of methods that are called on Python file objects, interned once. */
enum py_name {
    PY_NAME_FLUSH,
    PY_NAME_READ,
    PY_NAME_READINTO,
    PY_NAME_SEEK,
    PY_NAME_TELL,
    PY_NAME_TRUNCATE,
    PY_NAME_WRITABLE,
    PY_NAME_WRITE,
    PY_NAMES
};

struct py_state { /* of the module, one per interpreter */
    PyTypeObject *device_type, *recorder_type, *faults_type;
    PyTypeObject *volume_type, *handle_type, *stat_type, *env_type, *pool_type;
    /* Classes written in Python. */
    PyObject *corrupt_error, *unsupported_error, *where;
    PyObject *detected, *partition, *partition_table, *extent, *statfs, *log_entry;
    PyObject *names[PY_NAMES];
};

struct py_state *py_state_of(PyObject *module);
/* Of a type of ours or of a subclass written in Python; NULL with an exception. */
struct py_state *py_state_of_subtype(PyTypeObject *type);

/* Function pointers as slots, without what strict C says against them. */
#define PY_SLOT(id, value)                                                                         \
    {                                                                                              \
        id, (void *)(uintptr_t)(value)                                                             \
    }
#define PY_METHOD(f) ((PyCFunction)(void (*)(void))(f))
/* After the name of a method with a signature that inspect can read. */
#define PY_DOC(signature, text) signature "\n--\n\n" text

#define PY_TYPE_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE)

/* Each makes its types and puts them into the module. */
int py_device_setup(PyObject *module, struct py_state *st);
int py_recorder_setup(PyObject *module, struct py_state *st);
int py_faults_setup(PyObject *module, struct py_state *st);
int py_env_setup(PyObject *module, struct py_state *st);
int py_stat_setup(PyObject *module, struct py_state *st);
int py_volume_setup(PyObject *module, struct py_state *st);
int py_handle_setup(PyObject *module, struct py_state *st);
PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base);

/* Module functions and constants beside the types. */
extern PyMethodDef py_module_methods[];
int py_image_setup(PyObject *module);

/* The end of a type's dealloc. */
void py_free(PyObject *op);
/* __reduce__ of what belongs to an open thing; raises TypeError. */
PyObject *py_refuse_pickle(PyObject *op, PyObject *unused);
#define PY_NO_PICKLE                                                                               \
    {                                                                                              \
        "__reduce__", py_refuse_pickle, METH_NOARGS,                                               \
            PY_DOC("__reduce__($self, /)", "Refused: it can't be carried to another process.")     \
    }
/* A new instance of a type of ours or of a subclass; NULL with an exception, also when the module
 * is gone. */
PyObject *py_alloc(PyTypeObject *type);

#endif
