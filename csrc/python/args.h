/* Arguments: from Python objects to C, with errors that name the argument.
 *
 * Every converter takes NULL for "not given" and then leaves *out, the default, alone. All return
 * false with an exception set: TypeError for the wrong type, ValueError for a number that can't be.
 */
#ifndef PYEXFAT_PYTHON_ARGS_H
#define PYEXFAT_PYTHON_ARGS_H

#include "python/core.h"

#include "base/env.h"

struct py_signature {
    const char *function;
    const char *const *names; /* of all arguments */
    int count, required;
    int positional; /* how many may be given by position */
};
#define PY_SIGNATURE(variable, function_name, need, by_position, ...)                              \
    static const char *const variable##_names[] = {__VA_ARGS__};                                   \
    static const struct py_signature variable = {function_name, variable##_names,                  \
                                                 (int)(sizeof variable##_names / sizeof(char *)),  \
                                                 need, by_position}

/* Sorts a vectorcall's arguments into out[count], borrowed; NULL where not given. */
bool py_args(const struct py_signature *s, PyObject *const *args, Py_ssize_t n, PyObject *keywords,
             PyObject **out);
/* The same for tp_new and tp_init. */
bool py_args_call(const struct py_signature *s, PyObject *args, PyObject *keywords, PyObject **out);
/* For methods that take positional arguments only. */
bool py_args_count(const char *function, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most);

bool py_u64(PyObject *o, const char *name, uint64_t *out);
bool py_u32(PyObject *o, const char *name, uint32_t *out);
bool py_size(PyObject *o, const char *name, size_t *out); /* at most PY_SSIZE_T_MAX */
bool py_i64(PyObject *o, const char *name, int64_t *out);
bool py_i16(PyObject *o, const char *name, int16_t *out);
bool py_bool(PyObject *o, bool *out);
/* The index of a str among n words. */
bool py_word(PyObject *o, const char *name, const char *const *words, int n, int *out);
/* The buffer of an object to write into; TypeError that names the argument when it has none. */
bool py_writable_buffer(PyObject *o, const char *name, Py_buffer *view);
/* An object's 16 bytes; None: *given stays as it is. */
bool py_guid(PyObject *o, const char *name, uint8_t out[16], bool *given);

/* A str as UTF-8 without NUL, lone surrogates as three bytes. */
struct py_text {
    const char *s;
    Py_ssize_t n;
    PyObject *keep; /* what holds s, when the str does not */
};
bool py_text(PyObject *o, const char *name, struct py_text *out);
/* The same of a path: a str, something with __vfspath__() (a place on a volume), or os.PathLike. */
bool py_path(PyObject *o, const char *name, struct py_text *out);
PyObject *py_path_str(PyObject *o, const char *name); /* a new reference to the str */
void py_text_done(struct py_text *t);
PyObject *py_text_new(const char *s, size_t n); /* the way back */

/* Instances of our classes; None: NULL where allowed. Borrowed. */
struct py_device;
struct py_device *py_arg_device(struct py_state *st, PyObject *o);
bool py_arg_env(struct py_state *st, PyObject *o, struct env **out);

#endif
