#include "python/stat_type.h"

#define ITEMS 10 /* of os.stat_result that are reached by index */
#define NS_PER_S 1000000000

/* What a getter returns; its closure. */
enum field {
    ST_MODE, /* the first ten are the items, in their order */
    ST_INO,
    ST_DEV,
    ST_NLINK,
    ST_UID,
    ST_GID,
    ST_SIZE,
    ST_ATIME,
    ST_MTIME,
    ST_CTIME,
    ST_BLKSIZE,
    ST_BLOCKS,
    ST_FILE_ATTRIBUTES,
    VALID_SIZE,
    ALLOCATED,
    FIRST_CLUSTER,
    ENTRY_OFFSET,
    ENTRY_COUNT,
};

enum when { CREATED, MODIFIED, ACCESSED };

struct py_stat {
    PyObject_HEAD struct volume_stat s;
    uint32_t cluster_size, device;
};

static struct py_stat *stat_of(PyObject *op)
{
    return (struct py_stat *)op;
}

PyObject *py_stat_new(struct py_state *st, const struct volume_stat *s, uint32_t cluster_size,
                      uint32_t serial)
{
    PyObject *op = py_alloc(st->stat_type);

    if (op) {
        stat_of(op)->s = *s;
        stat_of(op)->cluster_size = cluster_size;
        stat_of(op)->device = serial;
    }
    return op;
}

static uint64_t mode_of(const struct volume_stat *s)
{
    uint64_t mode = s->kind == VOLUME_DIRECTORY ? 0040755 : 0100644; /* S_IFDIR, S_IFREG */

    return s->attributes & VOLUME_READ_ONLY ? mode & ~0222ull : mode;
}

static int64_t time_of(const struct volume_stat *s, enum when w)
{
    return w == CREATED ? s->created : w == MODIFIED ? s->modified : s->accessed;
}

/* Rounds down, before 1970 too. */
static int64_t seconds_of(int64_t ns)
{
    return ns / NS_PER_S - (ns % NS_PER_S < 0);
}

static PyObject *number(const struct py_stat *self, enum field f)
{
    const struct volume_stat *s = &self->s;
    uint64_t v = 0;

    switch (f) {
    case ST_MODE:
        v = mode_of(s);
        break;
    case ST_INO:
        v = s->inode;
        break;
    case ST_DEV:
        v = self->device;
        break;
    case ST_NLINK:
        v = s->nlink;
        break;
    case ST_UID:
    case ST_GID:
        break; /* the formats have no owners */
    case ST_SIZE:
        v = s->size;
        break;
    case ST_ATIME:
        return PyLong_FromLongLong(seconds_of(s->accessed));
    case ST_MTIME:
    case ST_CTIME:
        return PyLong_FromLongLong(seconds_of(s->modified));
    case ST_BLKSIZE:
        v = self->cluster_size;
        break;
    case ST_BLOCKS:
        v = s->allocated / 512;
        break;
    case ST_FILE_ATTRIBUTES:
        v = s->attributes;
        break;
    case VALID_SIZE:
        v = s->valid_size;
        break;
    case ALLOCATED:
        v = s->allocated;
        break;
    case FIRST_CLUSTER:
        v = s->first_cluster;
        break;
    case ENTRY_OFFSET:
        v = s->entry_offset;
        break;
    case ENTRY_COUNT:
        v = s->entry_count;
        break;
    }
    return PyLong_FromUnsignedLongLong(v);
}

/* ---- attributes ---- */

static PyObject *get_number(PyObject *op, void *closure)
{
    return number(stat_of(op), (enum field)(uintptr_t)closure);
}

static PyObject *get_time(PyObject *op, void *closure)
{
    int64_t ns = time_of(&stat_of(op)->s, (enum when)(uintptr_t)closure), s = seconds_of(ns);

    return PyFloat_FromDouble((double)s + 1e-9 * (double)(ns - s * NS_PER_S));
}

static PyObject *get_time_ns(PyObject *op, void *closure)
{
    return PyLong_FromLongLong(time_of(&stat_of(op)->s, (enum when)(uintptr_t)closure));
}

static PyObject *get_time_offset(PyObject *op, void *closure)
{
    const struct volume_stat *s = &stat_of(op)->s;
    enum when w = (enum when)(uintptr_t)closure;
    int16_t minutes = w == CREATED    ? s->created_offset
                      : w == MODIFIED ? s->modified_offset
                                      : s->accessed_offset;

    return minutes == VOLUME_NO_OFFSET ? Py_NewRef(Py_None) : PyLong_FromLong(minutes);
}

static PyObject *get_attribute(PyObject *op, void *closure)
{
    return PyBool_FromLong((stat_of(op)->s.attributes & (uintptr_t)closure) != 0);
}

static PyObject *get_is_dir(PyObject *op, void *closure)
{
    (void)closure;
    return PyBool_FromLong(stat_of(op)->s.kind == VOLUME_DIRECTORY);
}

static PyObject *get_contiguous(PyObject *op, void *closure)
{
    (void)closure;
    return PyBool_FromLong(stat_of(op)->s.contiguous);
}

#define GET(name, function, closure, doc)                                                          \
    {                                                                                              \
        name, function, NULL, PyDoc_STR(doc), (void *)(uintptr_t)(closure)                         \
    }
static PyGetSetDef stat_getset[] = {
    GET("st_mode", get_number, ST_MODE,
        "type and permissions: 0o644 or 0o755, less when read-only"),
    GET("st_ino", get_number, ST_INO,
        "the same for the same file until it is renamed; 1: the root"),
    GET("st_dev", get_number, ST_DEV, "serial number of the volume"),
    GET("st_nlink", get_number, ST_NLINK, "number of names"),
    GET("st_uid", get_number, ST_UID, "0"),
    GET("st_gid", get_number, ST_GID, "0"),
    GET("st_rdev", get_number, ST_UID, "0"),
    GET("st_size", get_number, ST_SIZE, "size in bytes"),
    GET("st_atime", get_time, ACCESSED, "last access, seconds since 1970 UTC"),
    GET("st_mtime", get_time, MODIFIED, "last change of the content, seconds since 1970 UTC"),
    GET("st_ctime", get_time, MODIFIED, "the same as st_mtime"),
    GET("st_birthtime", get_time, CREATED, "creation, seconds since 1970 UTC"),
    GET("st_atime_ns", get_time_ns, ACCESSED, "last access in nanoseconds"),
    GET("st_mtime_ns", get_time_ns, MODIFIED, "last change in nanoseconds"),
    GET("st_ctime_ns", get_time_ns, MODIFIED, "the same as st_mtime_ns"),
    GET("st_birthtime_ns", get_time_ns, CREATED, "creation in nanoseconds"),
    GET("st_blksize", get_number, ST_BLKSIZE, "bytes of a cluster"),
    GET("st_blocks", get_number, ST_BLOCKS, "allocated space in units of 512 bytes"),
    GET("st_file_attributes", get_number, ST_FILE_ATTRIBUTES, "bits as stat.FILE_ATTRIBUTE_*"),
    GET("is_dir", get_is_dir, 0, "whether it is a directory"),
    GET("read_only", get_attribute, VOLUME_READ_ONLY, "the read-only attribute"),
    GET("hidden", get_attribute, VOLUME_HIDDEN, "the hidden attribute"),
    GET("system", get_attribute, VOLUME_SYSTEM, "the system attribute"),
    GET("archive", get_attribute, VOLUME_ARCHIVE, "the archive attribute"),
    GET("valid_size", get_number, VALID_SIZE, "bytes that were written; the rest reads as zeros"),
    GET("allocated", get_number, ALLOCATED, "bytes of its clusters"),
    GET("first_cluster", get_number, FIRST_CLUSTER, "number of its first cluster, 0 for none"),
    GET("contiguous", get_contiguous, 0, "whether it is marked as lying in one piece"),
    GET("entry_offset", get_number, ENTRY_OFFSET, "byte offset in the volume of its first entry"),
    GET("entry_count", get_number, ENTRY_COUNT, "directory entries that describe it"),
    GET("created_offset", get_time_offset, CREATED, "UTC offset of the stamp in minutes, or None"),
    GET("modified_offset", get_time_offset, MODIFIED,
        "UTC offset of the stamp in minutes, or None"),
    GET("accessed_offset", get_time_offset, ACCESSED,
        "UTC offset of the stamp in minutes, or None"),
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- as a sequence ---- */

static Py_ssize_t stat_length(PyObject *op)
{
    (void)op;
    return ITEMS;
}

static PyObject *stat_item(PyObject *op, Py_ssize_t i)
{
    if (i < 0 || i >= ITEMS) {
        PyErr_SetString(PyExc_IndexError, "Stat index out of range");
        return NULL;
    }
    return number(stat_of(op), (enum field)i);
}

static PyObject *as_tuple(PyObject *op)
{
    PyObject *tuple = PyTuple_New(ITEMS);

    for (Py_ssize_t i = 0; tuple && i < ITEMS; i++) {
        PyObject *item = stat_item(op, i);

        if (!item || PyTuple_SetItem(tuple, i, item)) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static PyObject *stat_subscript(PyObject *op, PyObject *key)
{
    PyObject *tuple = as_tuple(op), *out = NULL;

    if (tuple) {
        out = PyObject_GetItem(tuple, key);
        Py_DECREF(tuple);
    }
    return out;
}

static PyObject *stat_iter(PyObject *op)
{
    PyObject *tuple = as_tuple(op), *out = NULL;

    if (tuple) {
        out = PyObject_GetIter(tuple);
        Py_DECREF(tuple);
    }
    return out;
}

/* ---- the rest ---- */

static bool same(const struct py_stat *a, const struct py_stat *b)
{
    const struct volume_stat *s = &a->s, *t = &b->s;

    return a->device == b->device && a->cluster_size == b->cluster_size && s->kind == t->kind &&
           s->attributes == t->attributes && s->nlink == t->nlink && s->inode == t->inode &&
           s->size == t->size && s->valid_size == t->valid_size && s->allocated == t->allocated &&
           s->created == t->created && s->modified == t->modified && s->accessed == t->accessed &&
           s->created_offset == t->created_offset && s->modified_offset == t->modified_offset &&
           s->accessed_offset == t->accessed_offset && s->first_cluster == t->first_cluster &&
           s->contiguous == t->contiguous && s->entry_offset == t->entry_offset &&
           s->entry_count == t->entry_count;
}

static PyObject *stat_compare(PyObject *op, PyObject *other, int how)
{
    if (Py_TYPE(op) != Py_TYPE(other) || (how != Py_EQ && how != Py_NE)) {
        return Py_NewRef(Py_NotImplemented);
    }
    return PyBool_FromLong(same(stat_of(op), stat_of(other)) == (how == Py_EQ));
}

static Py_hash_t stat_hash(PyObject *op)
{
    const struct volume_stat *s = &stat_of(op)->s;
    uint64_t h = (s->inode * 31 + s->size) * 31 + (uint64_t)s->modified;

    return h == (uint64_t)-1 ? -2 : (Py_hash_t)h;
}

static PyObject *stat_repr(PyObject *op)
{
    const struct volume_stat *s = &stat_of(op)->s;

    return PyUnicode_FromFormat(
        "<Stat of a %s: st_size=%llu, st_mtime_ns=%lld, first_cluster=%lu, attributes=0x%x>",
        s->kind == VOLUME_DIRECTORY ? "directory" : "file", (unsigned long long)s->size,
        (long long)s->modified, (unsigned long)s->first_cluster, (unsigned)s->attributes);
}

/* ---- pickles and copies ---- */

/* The arguments of _restore. */
static PyObject *stat_state(const struct py_stat *self)
{
    const struct volume_stat *s = &self->s;

    return Py_BuildValue(
        "(kkkkkKKKKLLLhhhkNKk)", (unsigned long)self->device, (unsigned long)self->cluster_size,
        (unsigned long)s->kind, (unsigned long)s->attributes, (unsigned long)s->nlink,
        (unsigned long long)s->inode, (unsigned long long)s->size,
        (unsigned long long)s->valid_size, (unsigned long long)s->allocated, (long long)s->created,
        (long long)s->modified, (long long)s->accessed, s->created_offset, s->modified_offset,
        s->accessed_offset, (unsigned long)s->first_cluster, PyBool_FromLong(s->contiguous),
        (unsigned long long)s->entry_offset, (unsigned long)s->entry_count);
}

static PyObject *stat_reduce(PyObject *op, PyObject *unused)
{
    PyObject *restore = PyObject_GetAttrString((PyObject *)Py_TYPE(op), "_restore");
    PyObject *state = restore ? stat_state(stat_of(op)) : NULL;

    (void)unused;
    if (!state) {
        Py_XDECREF(restore);
        return NULL;
    }
    return Py_BuildValue("(NN)", restore, state);
}

static PyObject *stat_restore(PyObject *type, PyObject *args)
{
    unsigned long device, cluster_size, kind, attributes, nlink, first_cluster, entry_count;
    unsigned long long inode, size, valid_size, allocated, entry_offset;
    long long created, modified, accessed;
    short created_offset, modified_offset, accessed_offset;
    int contiguous;
    PyObject *op;

    if (!PyArg_ParseTuple(args, "kkkkkKKKKLLLhhhkpKk", &device, &cluster_size, &kind, &attributes,
                          &nlink, &inode, &size, &valid_size, &allocated, &created, &modified,
                          &accessed, &created_offset, &modified_offset, &accessed_offset,
                          &first_cluster, &contiguous, &entry_offset, &entry_count)) {
        return NULL;
    }
    op = py_alloc((PyTypeObject *)type);
    if (op) {
        stat_of(op)->device = (uint32_t)device;
        stat_of(op)->cluster_size = (uint32_t)cluster_size;
        stat_of(op)->s = (struct volume_stat){
            .kind = kind == VOLUME_DIRECTORY ? VOLUME_DIRECTORY : VOLUME_FILE,
            .attributes = (uint32_t)attributes,
            .nlink = (uint32_t)nlink,
            .inode = inode,
            .size = size,
            .valid_size = valid_size,
            .allocated = allocated,
            .created = created,
            .modified = modified,
            .accessed = accessed,
            .created_offset = created_offset,
            .modified_offset = modified_offset,
            .accessed_offset = accessed_offset,
            .first_cluster = (uint32_t)first_cluster,
            .contiguous = contiguous != 0,
            .entry_offset = entry_offset,
            .entry_count = (uint32_t)entry_count,
        };
    }
    return op;
}

static PyMethodDef stat_methods[] = {
    {"__reduce__", stat_reduce, METH_NOARGS, PY_DOC("__reduce__($self, /)", "For pickle.")},
    {"_restore", stat_restore, METH_VARARGS | METH_CLASS,
     PY_DOC("_restore($type, /, *fields)", "What __reduce__ has taken apart.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot stat_slots[] = {
    PY_SLOT(Py_tp_doc, "What is known of one file or directory.\n\nThe attributes and the first "
                       "ten items are those of os.stat_result; times are UTC."),
    PY_SLOT(Py_tp_dealloc, py_free),
    PY_SLOT(Py_tp_methods, stat_methods),
    PY_SLOT(Py_tp_getset, stat_getset),
    PY_SLOT(Py_tp_repr, stat_repr),
    PY_SLOT(Py_tp_hash, stat_hash),
    PY_SLOT(Py_tp_richcompare, stat_compare),
    PY_SLOT(Py_tp_iter, stat_iter),
    PY_SLOT(Py_sq_length, stat_length),
    PY_SLOT(Py_sq_item, stat_item),
    PY_SLOT(Py_mp_subscript, stat_subscript),
    {0, NULL},
};

static PyType_Spec stat_spec = {
    .name = "pyexfat._core.Stat",
    .basicsize = sizeof(struct py_stat),
    .flags = PY_TYPE_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = stat_slots,
};

int py_stat_setup(PyObject *module, struct py_state *st)
{
    st->stat_type = py_add_type(module, &stat_spec, NULL);
    return st->stat_type ? 0 : -1;
}
