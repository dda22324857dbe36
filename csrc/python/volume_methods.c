/* Volume: what concerns the whole of it, and the table of its methods. */
#include "python/core.h"

#include <errno.h>

#include "python/convert.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/volume_type.h"

static PyObject *none_or_raise(struct py_volume *self, int rc, const struct base_error *e)
{
    return rc < 0 ? py_volume_raise(self, rc, e, NULL, NULL) : Py_NewRef(Py_None);
}

/* ---- life ---- */

static PyObject *volume_sync_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    int rc;

    (void)unused;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_sync(self->volume, &e));
    return none_or_raise(self, rc, &e);
}

/* Marked as closed before the core is asked, so that a call in another thread that finds it closed
 * knows why. */
static bool mark_closed(struct py_volume *self)
{
    return !py_volume_is_closed(self) &&
           __atomic_exchange_n(&self->closed, 1, __ATOMIC_ACQ_REL) == 0;
}

static PyObject *after_close(struct py_volume *self, int rc, const struct base_error *e)
{
    if (rc == -EDEADLK) { /* refused: it is in use by this very thread */
        __atomic_store_n(&self->closed, 0, __ATOMIC_RELEASE);
    }
    return rc < 0 ? py_raise(self->state, rc, e, NULL, NULL) : Py_NewRef(Py_None);
}

static PyObject *volume_close_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    int rc;

    (void)unused;
    if (!mark_closed(self)) {
        return Py_NewRef(Py_None);
    }
    PY_CALL(rc, volume_close(self->volume, &e));
    return after_close(self, rc, &e);
}

static PyObject *volume_abandon_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    int rc;

    (void)unused;
    if (!mark_closed(self)) {
        return Py_NewRef(Py_None);
    }
    PY_CALL(rc, volume_abandon(self->volume));
    return after_close(self, rc, NULL);
}

static PyObject *volume_enter(PyObject *op, PyObject *unused)
{
    (void)unused;
    return py_volume_ready(py_volume_of(op)) ? Py_NewRef(op) : NULL;
}

/* By name, because a subclass may have its own close. */
static PyObject *volume_exit(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    (void)n;
    return PyObject_CallMethod(op, "close", NULL);
}

/* ---- space and memory ---- */

static PyObject *volume_statfs_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct volume_statfs s;
    int rc;

    (void)unused;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_statfs_get(self->volume, &s, &e));
    return rc < 0 ? py_volume_raise(self, rc, &e, NULL, NULL) : py_statfs(self->state, &s);
}

static PyObject *volume_count_bad_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    uint32_t bad = 0;
    int rc;

    (void)unused;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_count_bad(self->volume, &bad, &e));
    return rc < 0 ? py_volume_raise(self, rc, &e, NULL, NULL) : PyLong_FromUnsignedLong(bad);
}

static PyObject *volume_trim_method(PyObject *op, PyObject *const *args, Py_ssize_t n,
                                    PyObject *keywords)
{
    PY_SIGNATURE(signature, "trim", 0, 1, "min_length");
    struct py_volume *self = py_volume_of(op);
    uint64_t least = 0, trimmed = 0;
    struct base_error e = {0};
    PyObject *in[1];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !py_u64(in[0], "min_length", &least) ||
        !py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_trim(self->volume, least, &trimmed, &e));
    return rc < 0 ? py_volume_raise(self, rc, &e, NULL, NULL)
                  : PyLong_FromUnsignedLongLong(trimmed);
}

static PyObject *volume_shrink_method(PyObject *op, PyObject *arg)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    size_t bytes = 0, freed = 0;
    int rc;

    if (!py_size(arg, "bytes", &bytes) || !py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_shrink(self->volume, bytes, &freed, &e));
    return rc < 0 ? py_volume_raise(self, rc, &e, NULL, NULL) : PyLong_FromSize_t(freed);
}

static PyObject *volume_read_raw_method(PyObject *op, PyObject *const *args, Py_ssize_t n)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    PyObject *bytes;
    size_t length = 0;
    uint64_t offset = 0;
    char *to;
    int rc;

    if (!py_args_count("read_raw", n, 2, 2) || !py_size(args[0], "length", &length) ||
        !py_u64(args[1], "offset", &offset) || !py_volume_ready(self)) {
        return NULL;
    }
    if (offset > self->volume->size || length > self->volume->size - offset) {
        PyErr_SetString(PyExc_ValueError, "offset and length reach beyond the end of the volume");
        return NULL;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (!bytes) {
        return NULL;
    }
    to = PyBytes_AsString(bytes);
    PY_CALL(rc, volume_read_raw(self->volume, offset, to, length, &e));
    if (rc < 0) {
        Py_DECREF(bytes);
        return py_volume_raise(self, rc, &e, NULL, NULL);
    }
    return bytes;
}

/* ---- counters and policy ---- */

static PyObject *volume_counters_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    struct volume_counters counters;
    struct base_error e = {0};
    int rc;

    (void)unused;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_counters_get(self->volume, &counters, &e));
    return rc < 0 ? py_volume_raise(self, rc, &e, NULL, NULL) : py_counters(&counters);
}

static PyObject *volume_counters_reset_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    int rc;

    (void)unused;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_counters_reset(self->volume, &e));
    return none_or_raise(self, rc, &e);
}

static PyObject *volume_policy_method(PyObject *op, PyObject *unused)
{
    struct py_volume *self = py_volume_of(op);
    struct volume_policy policy;
    struct base_error e = {0};
    int rc;

    (void)unused;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_policy_get(self->volume, &policy, &e));
    return rc < 0 ? none_or_raise(self, rc, &e) : py_policy_dict(&policy);
}

static PyObject *volume_set_policy_method(PyObject *op, PyObject *arg)
{
    struct py_volume *self = py_volume_of(op);
    struct volume_policy policy;
    struct base_error e = {0};
    int rc;

    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_policy_get(self->volume, &policy, &e));
    if (rc < 0) {
        return none_or_raise(self, rc, &e);
    }
    if (!py_policy_arg(arg, &policy)) {
        return NULL;
    }
    PY_CALL(rc, volume_set_policy(self->volume, &policy, &e));
    return none_or_raise(self, rc, &e);
}

static PyObject *volume_set_sync_method(PyObject *op, PyObject *arg)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    int sync = 0, rc;

    if (!py_word(arg, "sync", py_sync_names, 3, &sync) || !py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_set_sync(self->volume, (enum volume_sync)sync, &e));
    return none_or_raise(self, rc, &e);
}

/* ---- the table ---- */

#define FAST METH_FASTCALL
#define NAMED (METH_FASTCALL | METH_KEYWORDS)

PyMethodDef py_volume_methods[] = {
    {"stat", py_path_stat, METH_O, PY_DOC("stat($self, path, /)", "What is known of a path.")},
    {"kind", py_path_kind, METH_O,
     PY_DOC("kind($self, path, /)", "KIND_FILE, KIND_DIRECTORY, or KIND_NONE when it is absent.")},
    {"mkdir", py_path_mkdir, METH_O, PY_DOC("mkdir($self, path, /)", "Makes a directory.")},
    {"rmdir", py_path_rmdir, METH_O,
     PY_DOC("rmdir($self, path, /)", "Removes an empty directory.")},
    {"unlink", py_path_unlink, METH_O,
     PY_DOC("unlink($self, path, /)", "Removes a file; open handles keep its content.")},
    {"rename", PY_METHOD(py_path_rename), NAMED,
     PY_DOC(
         "rename($self, /, src, dst, noreplace=False)",
         "Renames or moves, over a file or an empty directory of the same kind if there is one.")},
    {"touch", PY_METHOD(py_path_touch), NAMED,
     PY_DOC("touch($self, /, path, exist_ok=True)",
            "Makes an empty file, or sets its times to now.")},
    {"setattr", PY_METHOD(py_path_setattr), NAMED,
     PY_DOC("setattr($self, /, path, *, created=None, modified=None, accessed=None, "
            "attributes=None)",
            "Sets times (nanoseconds) and attribute bits; None leaves them.")},
    {"truncate", PY_METHOD(py_path_truncate), NAMED,
     PY_DOC("truncate($self, /, path, size)", "Sets a file's size; what is new reads as zeros.")},
    {"fallocate", PY_METHOD(py_path_fallocate), NAMED,
     PY_DOC("fallocate($self, /, path, offset, length, keep_size=False)",
            "Makes sure that a range has clusters.")},
    {"extents", py_path_extents, METH_O,
     PY_DOC("extents($self, path, /)", "Where a file or directory lies: a list of Extent.")},
    {"stored_name", py_path_stored_name, METH_O,
     PY_DOC("stored_name($self, path, /)", "The last part of the path as it is on the disk.")},
    {"listdir", py_path_listdir, METH_O,
     PY_DOC("listdir($self, path, /)", "The names in a directory, in disk order.")},
    {"scandir_batch", PY_METHOD(py_path_scandir), FAST,
     PY_DOC("scandir_batch($self, path, cursor, limit, /)",
            "Up to limit names with their Stat: ([(name, stat)], next cursor, whether that was "
            "all).\n\ncursor 0 starts.")},
    {"create_many", PY_METHOD(py_path_create_many), FAST,
     PY_DOC("create_many($self, directory, names, /)",
            "Makes empty files in one go; returns how many.\n\nWhat was made before an error "
            "stays: the exception has its number as `done`.")},
    {"remove_many", PY_METHOD(py_path_remove_many), FAST,
     PY_DOC("remove_many($self, directory, names, /)",
            "Removes files in one go; returns how many.\n\nWhat was removed before an error is "
            "gone: the exception has its number as `done`.")},
    {"get_vendor_entries", py_path_get_extras, METH_O,
     PY_DOC("get_vendor_entries($self, path, /)",
            "The benign secondary entries of a file: a list of (32 bytes, data or None).")},
    {"set_vendor_entries", PY_METHOD(py_path_set_extras), FAST,
     PY_DOC("set_vendor_entries($self, path, entries, /)",
            "Replaces them; clusters are taken for the data.")},
    {"open_file", PY_METHOD(py_path_open), FAST,
     PY_DOC("open_file($self, path, flags, /)", "Opens a file by OPEN_ flags: a Handle.")},
    {"statfs", volume_statfs_method, METH_NOARGS,
     PY_DOC("statfs($self, /)", "Space and sizes: Usage.")},
    {"count_bad_clusters", volume_count_bad_method, METH_NOARGS,
     PY_DOC("count_bad_clusters($self, /)",
            "Clusters that are marked as bad; reads the whole FAT.")},
    {"sync", volume_sync_method, METH_NOARGS,
     PY_DOC("sync($self, /)", "Makes all changes durable.")},
    {"close", volume_close_method, METH_NOARGS,
     PY_DOC("close($self, /)",
            "Syncs, marks the volume clean and ends it, after calls under way. Twice is fine.")},
    {"abandon", volume_abandon_method, METH_NOARGS,
     PY_DOC("abandon($self, /)", "Ends it without writing anything, as a power cut would.")},
    {"trim", PY_METHOD(volume_trim_method), NAMED,
     PY_DOC("trim($self, /, min_length=0)", "Discards free space; returns how many bytes.")},
    {"get_counters", volume_counters_method, METH_NOARGS,
     PY_DOC("get_counters($self, /)", "What was counted so far, as nested dicts.")},
    {"counters_reset", volume_counters_reset_method, METH_NOARGS,
     PY_DOC("counters_reset($self, /)", "Sets all counters to 0.")},
    {"shrink", volume_shrink_method, METH_O,
     PY_DOC("shrink($self, bytes, /)", "Gives memory of the caches back; returns how many bytes.")},
    {"get_policy", volume_policy_method, METH_NOARGS,
     PY_DOC("get_policy($self, /)", "Which mechanisms are on, as a dict.")},
    {"set_policy", volume_set_policy_method, METH_O,
     PY_DOC("set_policy($self, policy, /)", "Switches mechanisms; what is left out stays.")},
    {"set_sync", volume_set_sync_method, METH_O,
     PY_DOC("set_sync($self, sync, /)", "'lazy', 'dirsync' or 'sync'.")},
    {"read_raw", PY_METHOD(volume_read_raw_method), FAST,
     PY_DOC("read_raw($self, length, offset, /)", "Bytes of the volume as its caches see them.")},
    PY_NO_PICKLE,
    {"__enter__", volume_enter, METH_NOARGS, PY_DOC("__enter__($self, /)", "Itself.")},
    {"__exit__", PY_METHOD(volume_exit), FAST,
     PY_DOC("__exit__($self, exc_type, exc, traceback, /)", "Closes the volume.")},
    {NULL, NULL, 0, NULL},
};
