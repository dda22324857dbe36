#include "python/errors.h"

#include <stdio.h>
#include <string.h>

#include "python/args.h"
#include "python/gil.h"

PyObject *py_raise_closed(const char *what)
{
    PyErr_Format(PyExc_ValueError, "I/O operation on closed %s", what);
    return NULL;
}

PyObject *py_raise_inherited(const char *what)
{
    PyErr_Format(
        PyExc_ValueError,
        "I/O operation on a %s that was opened before a fork, and is the parent's: open it "
        "again in this process",
        what);
    return NULL;
}

/* A path as a message should show it: the text of a place on a volume. New reference. */
static PyObject *shown(PyObject *path)
{
    return PyObject_HasAttrString(path, "__vfspath__") ? py_path_str(path, "path")
                                                       : Py_NewRef(path);
}

static PyObject *new_error(PyObject *class, int code, PyObject *message, PyObject *path,
                           PyObject *path2)
{
    PyObject *one = path ? shown(path) : NULL, *two = path && path2 ? shown(path2) : NULL;
    PyObject *error = NULL;

    if (!path) {
        error = PyObject_CallFunction(class, "iO", code, message);
    } else if (!path2 && one) {
        error = PyObject_CallFunction(class, "iOO", code, message, one);
    } else if (one && two) {
        error = PyObject_CallFunction(class, "iOOOO", code, message, one, Py_None, two);
    }
    Py_XDECREF(one);
    Py_XDECREF(two);
    return error;
}

/* Small numbers as people count, large ones as they are looked for in a dump. */
static PyObject *value_text(const char *word, uint64_t v)
{
    char text[64]; /* PyUnicode_FromFormat knows no %llx before Python 3.12 */

    (void)snprintf(text, sizeof text, v < 65536 ? "%s %llu" : "%s 0x%llx", word,
                   (unsigned long long)v);
    return PyUnicode_FromString(text);
}

/* "entry set at byte 4096, SetChecksum: does not match (found 0x1234, expected 0x4321)"; an
 * expected 0 says that no single value is right. */
static PyObject *damage_message(const struct base_error *e)
{
    const char *detail = e->detail[0] ? e->detail : "damaged";
    PyObject *found, *expected, *message = NULL;

    if (!e->field[0] || (e->found == 0 && e->expected == 0)) {
        return PyUnicode_FromFormat("%s at byte %llu%s%s: %s", e->structure,
                                    (unsigned long long)e->offset, e->field[0] ? ", " : "",
                                    e->field, detail);
    }
    found = value_text("found", e->found);
    expected = e->expected ? value_text(", expected", e->expected) : PyUnicode_FromString("");
    if (found && expected) {
        message =
            PyUnicode_FromFormat("%s at byte %llu, %s: %s (%U%U)", e->structure,
                                 (unsigned long long)e->offset, e->field, detail, found, expected);
    }
    Py_XDECREF(found);
    Py_XDECREF(expected);
    return message;
}

static PyObject *new_damage(struct py_state *st, int code, const struct base_error *e,
                            PyObject *path, PyObject *path2)
{
    PyObject *message = damage_message(e), *exception = NULL, *where = NULL;

    if (message) {
        exception = new_error(st->corrupt_error, code, message, path, path2);
    }
    if (exception) {
        where = PyObject_CallFunction(
            st->where, "sKsKKs", e->structure, (unsigned long long)e->offset, e->field,
            (unsigned long long)e->found, (unsigned long long)e->expected, e->detail);
    }
    if (!where || PyObject_SetAttrString(exception, "where", where)) {
        Py_CLEAR(exception);
    }
    Py_XDECREF(where);
    Py_XDECREF(message);
    return exception;
}

static PyObject *new_unsupported(struct py_state *st, int code, const struct base_error *e,
                                 PyObject *path, PyObject *path2)
{
    PyObject *feature = PyUnicode_FromString(e->structure), *exception = NULL, *message = NULL;

    if (feature) {
        message = e->detail[0] ? PyUnicode_FromFormat("%U: %s", feature, e->detail)
                               : PyUnicode_FromFormat("%U is not supported", feature);
    }
    if (message) {
        exception = new_error(st->unsupported_error, code, message, path, path2);
    }
    if (exception && PyObject_SetAttrString(exception, "feature", feature)) {
        Py_CLEAR(exception);
    }
    Py_XDECREF(message);
    Py_XDECREF(feature);
    return exception;
}

static PyObject *new_plain(int code, const char *why, PyObject *path, PyObject *path2)
{
    PyObject *message = PyUnicode_FromString(why), *exception = NULL;

    if (message) {
        exception = new_error(PyExc_OSError, code, message, path, path2);
    }
    Py_XDECREF(message);
    return exception;
}

PyObject *py_raise(struct py_state *st, int rc, const struct base_error *e, PyObject *path,
                   PyObject *path2)
{
    enum base_error_kind kind = e ? e->kind : BASE_ERROR_NONE;
    PyObject *exception, *cause;
    int code = -rc;

    if (PyErr_Occurred()) {
        return NULL;
    }
    if (code == ENOMEM) {
        return PyErr_NoMemory();
    }
    if (kind == BASE_ERROR_ARGUMENT && code == EINVAL) {
        PyErr_Format(PyExc_ValueError, "%s: %s", e->field, e->detail);
        return NULL;
    }
    cause = py_take_cause();
    if (kind == BASE_ERROR_DAMAGE && code == BASE_ECORRUPT) {
        exception = new_damage(st, code, e, path, path2);
    } else if (kind == BASE_ERROR_UNSUPPORTED && code == BASE_EUNSUPPORTED) {
        exception = new_unsupported(st, code, e, path, path2);
    } else {
        bool refused = kind == BASE_ERROR_REFUSED && e->found == (uint64_t)code;

        exception = new_plain(code, refused ? e->detail : strerror(code), path, path2);
    }
    if (exception) {
        if (cause) {
            PyException_SetCause(exception, cause);
            cause = NULL;
        }
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    Py_XDECREF(cause);
    return NULL;
}
