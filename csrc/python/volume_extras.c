/* Volume: benign secondary entries of a file's set, with what is in their clusters. */
#include "python/core.h"

#include <stdlib.h>
#include <string.h>

#include "python/errors.h"
#include "python/gil.h"
#include "python/volume_type.h"

static PyObject *new_pair(const struct volume_extra *extra)
{
    PyObject *entry = PyBytes_FromStringAndSize((const char *)extra->entry, sizeof extra->entry);
    PyObject *data = !entry         ? NULL
                     : !extra->data ? Py_NewRef(Py_None)
                                    : PyBytes_FromStringAndSize((const char *)extra->data,
                                                                (Py_ssize_t)extra->length);

    if (!data) {
        Py_XDECREF(entry);
        return NULL;
    }
    return Py_BuildValue("NN", entry, data);
}

static PyObject *new_list(const struct volume_extras *extras)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < extras->n; i++) {
        PyObject *pair = new_pair(&extras->v[i]);

        if (!pair || PyList_Append(list, pair)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

PyObject *py_path_get_extras(PyObject *op, PyObject *arg)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct volume_extras extras;
    struct py_text path;
    PyObject *list;
    int rc;

    if (!py_volume_ready(self) || !py_path(arg, "path", &path)) {
        return NULL;
    }
    volume_extras_init(&extras);
    PY_CALL(rc, volume_extras_get(self->volume, path.s, &extras, &e));
    py_text_done(&path);
    list = rc < 0 ? py_volume_raise(self, rc, &e, arg, NULL) : new_list(&extras);
    volume_extras_free(&extras);
    return list;
}

/* A copy of what an object with the buffer protocol holds; *out is NULL when that is nothing. */
static bool copy_data(PyObject *o, uint8_t **out, uint64_t *length)
{
    Py_buffer view;
    bool ok = true;

    *out = NULL;
    *length = 0;
    if (o == Py_None) {
        return true;
    }
    if (PyObject_GetBuffer(o, &view, PyBUF_SIMPLE)) {
        return false;
    }
    if ((uint64_t)view.len > VOLUME_EXTRA_MAX) {
        PyErr_SetString(PyExc_ValueError, "entries: more than 64 MiB of data for one entry");
        ok = false;
    } else if (view.len > 0) {
        *out = malloc((size_t)view.len);
        ok = *out != NULL;
        if (ok) {
            memcpy(*out, view.buf, (size_t)view.len);
            *length = (uint64_t)view.len;
        } else {
            PyErr_NoMemory();
        }
    }
    PyBuffer_Release(&view);
    return ok;
}

static bool add_pair(PyObject *pair, struct volume_extras *out)
{
    uint8_t entry[32], *head = NULL, *data = NULL;
    uint64_t head_length = 0, length = 0;
    PyObject *tuple = PySequence_Tuple(pair);
    bool ok = false;

    if (!tuple) {
        return false;
    }
    if (PyTuple_Size(tuple) != 2) {
        PyErr_SetString(PyExc_ValueError, "entries: each must be a pair (entry, data)");
    } else if (copy_data(PyTuple_GetItem(tuple, 0), &head, &head_length)) {
        ok = head_length == sizeof entry;
        if (!ok) {
            PyErr_SetString(PyExc_ValueError, "entries: an entry must have 32 bytes");
        }
    }
    if (ok) {
        memcpy(entry, head, sizeof entry);
        ok = copy_data(PyTuple_GetItem(tuple, 1), &data, &length);
    }
    if (ok && volume_extras_add(out, entry, data, length)) {
        PyErr_NoMemory();
        ok = false;
    }
    free(head);
    Py_DECREF(tuple);
    return ok;
}

PyObject *py_path_set_extras(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct volume_extras extras;
    struct py_text path;
    PyObject *list;
    bool ok = true;
    int rc;

    if (!py_args_count("set_vendor_entries", n, 2, 2) || !py_volume_ready(self) ||
        !py_path(args[0], "path", &path)) {
        return NULL;
    }
    volume_extras_init(&extras);
    list = PySequence_List(args[1]);
    for (Py_ssize_t i = 0; list && ok && i < PyList_Size(list); i++) {
        ok = add_pair(PyList_GetItem(list, i), &extras);
    }
    ok = ok && list;
    Py_XDECREF(list);
    if (ok) {
        PY_CALL(rc, volume_extras_set(self->volume, path.s, &extras, &e));
        if (rc < 0) {
            ok = false;
            py_volume_raise(self, rc, &e, args[0], NULL);
        }
    }
    py_text_done(&path);
    volume_extras_free(&extras);
    return ok ? Py_NewRef(Py_None) : NULL;
}
