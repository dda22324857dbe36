/* Volume: what is done by path. */
#include "python/core.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "python/convert.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/volume_type.h"

#define LIST_BATCH 4096 /* names per call of the core: others get the lock in between */

/* ---- one path ---- */

typedef int path_function(struct volume *v, const char *path, struct base_error *e);

static PyObject *on_path(PyObject *op, PyObject *arg, path_function *function)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct py_text path;
    int rc;

    if (!py_volume_ready(self) || !py_path(arg, "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, function(self->volume, path.s, &e));
    py_text_done(&path);
    return rc < 0 ? py_volume_raise(self, rc, &e, arg, NULL) : Py_NewRef(Py_None);
}

PyObject *py_path_mkdir(PyObject *op, PyObject *path)
{
    return on_path(op, path, volume_mkdir);
}

PyObject *py_path_rmdir(PyObject *op, PyObject *path)
{
    return on_path(op, path, volume_rmdir);
}

PyObject *py_path_unlink(PyObject *op, PyObject *path)
{
    return on_path(op, path, volume_unlink);
}

/* The stat of a path; rc as from the core, -1 with an exception when the argument is wrong. */
static bool stat_arg(struct py_volume *self, PyObject *arg, struct volume_stat *s,
                     struct base_error *e, int *rc)
{
    struct py_text path;

    if (!py_volume_ready(self) || !py_path(arg, "path", &path)) {
        return false;
    }
    PY_CALL(*rc, volume_stat_path(self->volume, path.s, s, e));
    py_text_done(&path);
    return true;
}

PyObject *py_path_stat(PyObject *op, PyObject *path)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct volume_stat s;
    int rc;

    if (!stat_arg(self, path, &s, &e, &rc)) {
        return NULL;
    }
    return rc < 0 ? py_volume_raise(self, rc, &e, path, NULL) : py_volume_stat(self, &s);
}

/* Absence is no error here, damage and a failing device are. */
PyObject *py_path_kind(PyObject *op, PyObject *path)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct volume_stat s;
    int rc;

    if (!stat_arg(self, path, &s, &e, &rc)) {
        return NULL;
    }
    if ((rc == -ENOENT || rc == -ENOTDIR) && !PyErr_Occurred()) {
        return PyLong_FromLong(0);
    }
    return rc < 0 ? py_volume_raise(self, rc, &e, path, NULL) : PyLong_FromLong(s.kind);
}

PyObject *py_path_extents(PyObject *op, PyObject *arg)
{
    struct py_volume *self = py_volume_of(op);
    struct volume_extents extents = {0};
    struct base_error e = {0};
    struct py_text path;
    PyObject *out;
    int rc;

    if (!py_volume_ready(self) || !py_path(arg, "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, volume_extents_path(self->volume, path.s, &extents, &e));
    py_text_done(&path);
    out = rc < 0 ? py_volume_raise(self, rc, &e, arg, NULL) : py_extents(self->state, &extents);
    free(extents.v);
    return out;
}

PyObject *py_path_stored_name(PyObject *op, PyObject *arg)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct py_text path;
    char name[1024];
    int rc;

    if (!py_volume_ready(self) || !py_path(arg, "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, volume_name_path(self->volume, path.s, name, sizeof name, &e));
    py_text_done(&path);
    return rc < 0 ? py_volume_raise(self, rc, &e, arg, NULL) : py_text_new(name, (size_t)rc);
}

/* ---- with more arguments ---- */

PyObject *py_path_rename(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "rename", 2, 3, "src", "dst", "noreplace");
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct py_text from, to;
    bool noreplace = false;
    PyObject *in[3];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_bool(in[2], &noreplace) ||
        !py_volume_ready(self) || !py_path(in[0], "src", &from)) {
        return NULL;
    }
    if (!py_path(in[1], "dst", &to)) {
        py_text_done(&from);
        return NULL;
    }
    PY_CALL(rc,
            volume_rename(self->volume, from.s, to.s, noreplace ? VOLUME_RENAME_NOREPLACE : 0, &e));
    py_text_done(&from);
    py_text_done(&to);
    return rc < 0 ? py_volume_raise(self, rc, &e, in[0], in[1]) : Py_NewRef(Py_None);
}

PyObject *py_path_touch(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "touch", 1, 2, "path", "exist_ok");
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    bool exist_ok = true;
    struct py_text path;
    PyObject *in[2];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_bool(in[1], &exist_ok) ||
        !py_volume_ready(self) || !py_path(in[0], "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, volume_touch(self->volume, path.s, exist_ok, &e));
    py_text_done(&path);
    return rc < 0 ? py_volume_raise(self, rc, &e, in[0], NULL) : Py_NewRef(Py_None);
}

PyObject *py_path_setattr(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "setattr", 1, 1, "path", PY_SETATTR_NAMES);
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct volume_setattr how;
    struct py_text path;
    PyObject *in[5];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_setattr_args(in + 1, &how) ||
        !py_volume_ready(self) || !py_path(in[0], "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, volume_setattr_path(self->volume, path.s, &how, &e));
    py_text_done(&path);
    return rc < 0 ? py_volume_raise(self, rc, &e, in[0], NULL) : Py_NewRef(Py_None);
}

PyObject *py_path_truncate(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "truncate", 2, 2, "path", "size");
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct py_text path;
    uint64_t size = 0;
    PyObject *in[2];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_u64(in[1], "size", &size) ||
        !py_volume_ready(self) || !py_path(in[0], "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, volume_truncate_path(self->volume, path.s, size, &e));
    py_text_done(&path);
    return rc < 0 ? py_volume_raise(self, rc, &e, in[0], NULL) : Py_NewRef(Py_None);
}

PyObject *py_path_fallocate(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "fallocate", 3, 4, "path", "offset", "length", "keep_size");
    struct py_volume *self = py_volume_of(op);
    uint64_t offset = 0, length = 0;
    struct base_error e = {0};
    bool keep_size = false;
    struct py_text path;
    PyObject *in[4];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_u64(in[1], "offset", &offset) ||
        !py_u64(in[2], "length", &length) || !py_bool(in[3], &keep_size) ||
        !py_volume_ready(self) || !py_path(in[0], "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, volume_fallocate_path(self->volume, path.s, offset, length, keep_size, &e));
    py_text_done(&path);
    return rc < 0 ? py_volume_raise(self, rc, &e, in[0], NULL) : Py_NewRef(Py_None);
}

PyObject *py_path_open(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_volume *self = py_volume_of(op);
    struct volume_handle *h = NULL;
    struct base_error e = {0};
    struct py_text path;
    uint32_t flags = 0;
    int rc;

    if (!py_args_count("open_file", n, 2, 2) || !py_u32(args[1], "flags", &flags) ||
        !py_volume_ready(self) || !py_path(args[0], "path", &path)) {
        return NULL;
    }
    PY_CALL(rc, volume_file_open(self->volume, path.s, flags, &h, &e));
    py_text_done(&path);
    if (rc >= 0) {
        return py_handle_new(self->state, op, h, args[0], flags);
    }
    if (h) { /* a callback's exception came after it was opened */
        py_handle_discard(h);
    }
    return py_volume_raise(self, rc, &e, args[0], NULL);
}

/* An entry of a directory could not be read: its name is not known, so the directory is named. */
static void raise_damage(struct py_volume *self, const struct base_error *damage, PyObject *path)
{
    int rc = damage->kind == BASE_ERROR_UNSUPPORTED ? -BASE_EUNSUPPORTED : -BASE_ECORRUPT;

    py_volume_raise(self, rc, damage, path, NULL);
}

/* ---- directories ---- */

PyObject *py_path_listdir(PyObject *op, PyObject *arg)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0}, damage = {0};
    struct volume_list list;
    struct py_text path;
    PyObject *names;
    uint64_t cursor = 0;
    bool end = false;
    int rc = 0;

    if (!py_volume_ready(self) || !py_path(arg, "path", &path)) {
        return NULL;
    }
    names = PyList_New(0);
    volume_list_init(&list, LIST_BATCH);
    while (names && !end) {
        volume_list_clear(&list);
        PY_CALL(rc, volume_list_path(self->volume, path.s, &cursor, &list, &end, &e));
        if (rc == 0 && list.damaged > 0 && damage.kind == BASE_ERROR_NONE) {
            damage = list.damage;
        }
        if (rc < 0) {
            py_volume_raise(self, rc, &e, arg, NULL);
            Py_CLEAR(names);
        } else if (py_add_names(names, &list)) {
            Py_CLEAR(names);
        }
    }
    volume_list_free(&list);
    py_text_done(&path);
    if (names && damage.kind != BASE_ERROR_NONE) {
        raise_damage(self, &damage, arg);
        Py_CLEAR(names);
    }
    return names;
}

/* The exception for the first entry of a batch that could not be read, or None. */
static PyObject *damage_of(struct py_volume *self, const struct volume_list *list, PyObject *path)
{
    PyObject *type, *value, *traceback;

    if (list->damaged == 0) {
        return Py_NewRef(Py_None);
    }
    raise_damage(self, &list->damage, path);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

PyObject *py_path_scandir(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct volume_list list;
    struct py_text path;
    PyObject *found = NULL, *damage = NULL;
    uint64_t cursor = 0;
    size_t limit = 0;
    bool end = false;
    int rc;

    if (!py_args_count("scandir_batch", n, 3, 3) || !py_u64(args[1], "cursor", &cursor) ||
        !py_size(args[2], "limit", &limit) || !py_volume_ready(self)) {
        return NULL;
    }
    if (limit == 0) {
        PyErr_SetString(PyExc_ValueError, "limit must be positive");
        return NULL;
    }
    if (!py_path(args[0], "path", &path)) {
        return NULL;
    }
    volume_list_init(&list, limit);
    PY_CALL(rc, volume_list_path(self->volume, path.s, &cursor, &list, &end, &e));
    py_text_done(&path);
    if (rc < 0) {
        py_volume_raise(self, rc, &e, args[0], NULL);
    } else {
        found = py_dirents(self->state, &list, self->volume->cluster_size,
                           __atomic_load_n(&self->serial, __ATOMIC_RELAXED));
    }
    damage = found ? damage_of(self, &list, args[0]) : NULL;
    volume_list_free(&list);
    if (!damage) {
        Py_XDECREF(found);
        return NULL;
    }
    return Py_BuildValue("NKON", found, (unsigned long long)cursor, end ? Py_True : Py_False,
                         damage);
}

/* ---- many names at once ---- */

#define MANY_PIECE (1u << 16) /* names of one call of the core, at most */

struct names {
    PyObject *list; /* keeps the strings alive: nobody else has it */
    struct py_text *texts;
    struct volume_name *v;
    size_t n;
};

static void names_done(struct names *names)
{
    for (size_t i = 0; names->texts && i < names->n; i++) {
        py_text_done(&names->texts[i]);
    }
    PyMem_Free(names->texts);
    PyMem_Free(names->v);
    Py_CLEAR(names->list);
}

static bool names_arg(PyObject *o, struct names *names)
{
    size_t count;

    *names = (struct names){0};
    if (PyUnicode_Check(o)) {
        PyErr_SetString(PyExc_TypeError, "names must be several names, not a str");
        return false;
    }
    names->list = PySequence_List(o);
    if (!names->list) {
        return false;
    }
    count = (size_t)PyList_Size(names->list);
    names->texts = PyMem_Calloc(count + 1, sizeof *names->texts);
    names->v = PyMem_Calloc(count + 1, sizeof *names->v);
    if (!names->texts || !names->v) {
        PyErr_NoMemory();
    }
    for (; !PyErr_Occurred() && names->n < count; names->n++) {
        PyObject *name = PyList_GetItem(names->list, (Py_ssize_t)names->n);
        struct py_text *t = &names->texts[names->n];

        if (!PyUnicode_Check(name)) {
            PyErr_Format(PyExc_TypeError, "names[%zu] must be a str, not %R", names->n, name);
            break;
        }
        if (!py_text(name, "names", t)) {
            break;
        }
        names->v[names->n] = (struct volume_name){t->s, (size_t)t->n};
    }
    if (names->n < count || PyErr_Occurred()) {
        names_done(names);
        return false;
    }
    return true;
}

/* The exception names the file that failed, and its `done` how many went well. */
static PyObject *raise_many(struct py_volume *self, int rc, const struct base_error *e,
                            PyObject *directory, const struct names *names, size_t done)
{
    PyObject *path = Py_NewRef(directory), *type, *value, *traceback, *count;

    if (done < names->n) {
        PyObject *name = PyList_GetItem(names->list, (Py_ssize_t)done);
        Py_ssize_t n = PyUnicode_GetLength(directory);
        bool slash = n == 0 || PyUnicode_ReadChar(directory, n - 1) == '/';

        Py_DECREF(path);
        path = PyUnicode_FromFormat(slash ? "%U%U" : "%U/%U", directory, name);
        if (!path) {
            return NULL;
        }
    }
    py_volume_raise(self, rc, e, path, NULL);
    Py_DECREF(path);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    count = PyLong_FromSize_t(done);
    if (!count || PyObject_SetAttrString(value, "done", count)) {
        PyErr_Clear();
    }
    Py_XDECREF(count);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

typedef int many_function(struct volume *v, const char *directory, const struct volume_name *names,
                          size_t count, size_t *done, struct base_error *e);

/* In pieces, so that Ctrl-C does not have to wait for millions of names. */
static int in_pieces(struct py_volume *self, many_function *many, const char *directory,
                     const struct names *names, size_t *done, struct base_error *e)
{
    int rc;

    do {
        size_t count = (size_t)base_min(names->n - *done, MANY_PIECE), made = 0;

        PY_CALL(rc, many(self->volume, directory, names->v + *done, count, &made, e));
        *done += made;
    } while (rc >= 0 && *done < names->n && PyErr_CheckSignals() == 0);
    return rc;
}

static PyObject *on_many(PyObject *op, PyObject *const *args, Py_ssize_t n, const char *function,
                         many_function *many)
{
    struct py_volume *self = py_volume_of(op);
    struct py_text directory;
    struct base_error e = {0};
    struct names names;
    PyObject *out, *where;
    size_t done = 0;
    int rc;

    if (!py_args_count(function, n, 2, 2) || !py_volume_ready(self)) {
        return NULL;
    }
    where = py_path_str(args[0], "directory");
    if (!where || !py_text(where, "directory", &directory)) {
        Py_XDECREF(where);
        return NULL;
    }
    if (!names_arg(args[1], &names)) {
        py_text_done(&directory);
        Py_DECREF(where);
        return NULL;
    }
    rc = in_pieces(self, many, directory.s, &names, &done, &e);
    py_text_done(&directory);
    if (rc < 0) {
        out = raise_many(self, rc, &e, where, &names, done);
    } else {
        out = PyErr_Occurred() ? NULL : PyLong_FromSize_t(done);
    }
    names_done(&names);
    Py_DECREF(where);
    return out;
}

PyObject *py_path_create_many(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    return on_many(op, args, n, "create_many", volume_create_many);
}

PyObject *py_path_remove_many(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    return on_many(op, args, n, "remove_many", volume_remove_many);
}
