#include "python/args.h"

#include <string.h>

#include "python/device_type.h"
#include "python/env_type.h"

/* ---- sorting ---- */

static bool too_many(const struct py_signature *s, Py_ssize_t given)
{
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional argument%s (%zd given)",
                 s->function, s->positional, s->positional == 1 ? "" : "s", given);
    return false;
}

static bool put_keyword(const struct py_signature *s, PyObject *key, PyObject *value,
                        PyObject **out)
{
    for (int i = 0; i < s->count; i++) {
        if (PyUnicode_CompareWithASCIIString(key, s->names[i]) != 0) {
            continue;
        }
        if (out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", s->function,
                         s->names[i]);
            return false;
        }
        out[i] = value;
        return true;
    }
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", s->function, key);
    return false;
}

static bool all_there(const struct py_signature *s, PyObject **out)
{
    for (int i = 0; i < s->required; i++) {
        if (!out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() missing argument '%s'", s->function, s->names[i]);
            return false;
        }
    }
    return true;
}

bool py_args(const struct py_signature *s, PyObject *const *args, Py_ssize_t n, PyObject *keywords,
             PyObject **out)
{
    Py_ssize_t more = keywords ? PyTuple_Size(keywords) : 0;

    if (n > s->positional) {
        return too_many(s, n);
    }
    for (int i = 0; i < s->count; i++) {
        out[i] = i < n ? args[i] : NULL;
    }
    for (Py_ssize_t i = 0; i < more; i++) {
        if (!put_keyword(s, PyTuple_GetItem(keywords, i), args[n + i], out)) {
            return false;
        }
    }
    return all_there(s, out);
}

bool py_args_call(const struct py_signature *s, PyObject *args, PyObject *keywords, PyObject **out)
{
    Py_ssize_t n = PyTuple_Size(args), at = 0;
    PyObject *key, *value;

    if (n > s->positional) {
        return too_many(s, n);
    }
    for (int i = 0; i < s->count; i++) {
        out[i] = i < n ? PyTuple_GetItem(args, i) : NULL;
    }
    while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
        if (!put_keyword(s, key, value, out)) {
            return false;
        }
    }
    return all_there(s, out);
}

bool py_args_count(const char *function, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most)
{
    if (given >= least && given <= most) {
        return true;
    }
    PyErr_Format(PyExc_TypeError, "%s() takes %zd argument%s (%zd given)", function,
                 given < least ? least : most, (given < least ? least : most) == 1 ? "" : "s",
                 given);
    return false;
}

/* ---- numbers ---- */

static bool wrong_type(PyObject *o, const char *name, const char *wanted)
{
    PyObject *type = PyType_GetName(Py_TYPE(o));

    if (type) {
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %U", name, wanted, type);
        Py_DECREF(type);
    }
    return false;
}

/* A new reference to an int. */
static PyObject *whole_number(PyObject *o, const char *name)
{
    PyObject *number;

    if (PyLong_Check(o)) {
        return Py_NewRef(o);
    }
    number = PyNumber_Index(o);
    if (!number && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        wrong_type(o, name, "an int");
    }
    return number;
}

static bool is_negative(PyObject *number, bool *out)
{
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(number, &overflow);

    if (v == -1 && !overflow && PyErr_Occurred()) {
        return false;
    }
    *out = overflow < 0 || (overflow == 0 && v < 0);
    return true;
}

bool py_u64(PyObject *o, const char *name, uint64_t *out)
{
    PyObject *number;
    unsigned long long v;
    bool negative = false;

    if (!o) {
        return true;
    }
    number = whole_number(o, name);
    if (!number || !is_negative(number, &negative)) {
        Py_XDECREF(number);
        return false;
    }
    if (negative) {
        Py_DECREF(number);
        PyErr_Format(PyExc_ValueError, "%s must not be negative", name);
        return false;
    }
    v = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (v == (unsigned long long)-1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Format(PyExc_ValueError, "%s is too large", name);
        }
        return false;
    }
    *out = v;
    return true;
}

static bool py_up_to(PyObject *o, const char *name, uint64_t most, uint64_t *out)
{
    if (!py_u64(o, name, out)) {
        return false;
    }
    if (*out > most) {
        PyErr_Format(PyExc_ValueError, "%s is too large", name);
        return false;
    }
    return true;
}

bool py_u32(PyObject *o, const char *name, uint32_t *out)
{
    uint64_t v = *out;

    if (!py_up_to(o, name, UINT32_MAX, &v)) {
        return false;
    }
    *out = (uint32_t)v;
    return true;
}

bool py_size(PyObject *o, const char *name, size_t *out)
{
    uint64_t v = *out;

    if (!py_up_to(o, name, PY_SSIZE_T_MAX, &v)) {
        return false;
    }
    *out = (size_t)v;
    return true;
}

bool py_i64(PyObject *o, const char *name, int64_t *out)
{
    PyObject *number;
    int overflow;
    long long v;

    if (!o) {
        return true;
    }
    number = whole_number(o, name);
    if (!number) {
        return false;
    }
    v = PyLong_AsLongLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    if (overflow) {
        PyErr_Format(PyExc_ValueError, "%s is out of range", name);
        return false;
    }
    if (v == -1 && PyErr_Occurred()) {
        return false;
    }
    *out = v;
    return true;
}

bool py_i16(PyObject *o, const char *name, int16_t *out)
{
    int64_t v = *out;

    if (!py_i64(o, name, &v)) {
        return false;
    }
    if (v < INT16_MIN || v > INT16_MAX) {
        PyErr_Format(PyExc_ValueError, "%s is out of range", name);
        return false;
    }
    *out = (int16_t)v;
    return true;
}

bool py_bool(PyObject *o, bool *out)
{
    int v;

    if (!o) {
        return true;
    }
    v = PyObject_IsTrue(o);
    if (v < 0) {
        return false;
    }
    *out = v != 0;
    return true;
}

/* ---- words and bytes ---- */

bool py_word(PyObject *o, const char *name, const char *const *words, int n, int *out)
{
    if (!o) {
        return true;
    }
    if (!PyUnicode_Check(o)) {
        return wrong_type(o, name, "a str");
    }
    for (int i = 0; i < n; i++) {
        if (words[i] && PyUnicode_CompareWithASCIIString(o, words[i]) == 0) {
            *out = i;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "%s: there is no %R", name, o);
    return false;
}

bool py_writable_buffer(PyObject *o, const char *name, Py_buffer *view)
{
    if (PyObject_GetBuffer(o, view, PyBUF_WRITABLE) == 0) {
        return true;
    }
    if (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        wrong_type(o, name, "a writable buffer");
    }
    return false;
}

bool py_guid(PyObject *o, const char *name, uint8_t out[16], bool *given)
{
    Py_buffer view;
    bool fits;

    if (!o || o == Py_None) {
        return true;
    }
    if (PyObject_GetBuffer(o, &view, PyBUF_SIMPLE)) {
        return false;
    }
    fits = view.len == 16;
    if (fits) {
        memcpy(out, view.buf, 16);
        *given = true;
    }
    PyBuffer_Release(&view);
    if (!fits) {
        PyErr_Format(PyExc_ValueError, "%s must be 16 bytes long", name);
    }
    return fits;
}

bool py_text(PyObject *o, const char *name, struct py_text *out)
{
    char *bytes;

    out->keep = NULL;
    if (!PyUnicode_Check(o)) {
        return wrong_type(o, name, "a str");
    }
    out->s = PyUnicode_AsUTF8AndSize(o, &out->n);
    if (!out->s) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            return false;
        }
        PyErr_Clear();
        out->keep = PyUnicode_AsEncodedString(o, "utf-8", "surrogatepass");
        if (!out->keep || PyBytes_AsStringAndSize(out->keep, &bytes, &out->n)) {
            Py_CLEAR(out->keep);
            return false;
        }
        out->s = bytes;
    }
    if (strlen(out->s) != (size_t)out->n) {
        py_text_done(out);
        PyErr_Format(PyExc_ValueError, "%s: embedded null character", name);
        return false;
    }
    return true;
}

PyObject *py_path_str(PyObject *o, const char *name)
{
    PyObject *method, *text;

    if (PyUnicode_Check(o)) {
        return Py_NewRef(o);
    }
    method = PyObject_GetAttrString(o, "__vfspath__");
    if (method) {
        text = PyObject_CallNoArgs(method);
        Py_DECREF(method);
    } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        text = PyOS_FSPath(o);
    } else {
        return NULL;
    }
    if (!text && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        wrong_type(o, name, "a str or a path");
    } else if (text && !PyUnicode_Check(text)) {
        Py_CLEAR(text);
        wrong_type(o, name, "a str or a path");
    }
    return text;
}

bool py_path(PyObject *o, const char *name, struct py_text *out)
{
    PyObject *text;
    bool ok;

    if (PyUnicode_Check(o)) {
        return py_text(o, name, out);
    }
    text = py_path_str(o, name);
    if (!text) {
        return false;
    }
    ok = py_text(text, name, out);
    if (ok && !out->keep) {
        out->keep = text; /* out->s lies in it */
    } else {
        Py_DECREF(text);
    }
    return ok;
}

void py_text_done(struct py_text *t)
{
    Py_CLEAR(t->keep);
}

PyObject *py_text_new(const char *s, size_t n)
{
    return PyUnicode_DecodeUTF8(s, (Py_ssize_t)n, "surrogatepass");
}

/* ---- objects ---- */

struct py_device *py_arg_device(struct py_state *st, PyObject *o)
{
    if (!PyObject_TypeCheck(o, st->device_type)) {
        wrong_type(o, "device", "a Device");
        return NULL;
    }
    return py_device_of(o);
}

bool py_arg_env(struct py_state *st, PyObject *o, struct env **out)
{
    if (!o || o == Py_None) {
        *out = NULL;
        return true;
    }
    if (!PyObject_TypeCheck(o, st->env_type)) {
        return wrong_type(o, "env", "an Env or None");
    }
    *out = py_env_c(o);
    return true;
}
