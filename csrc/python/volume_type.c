/* Volume: life and attributes. */
#include "python/volume_type.h"

#include <errno.h>

#include "python/convert.h"
#include "python/device_type.h"
#include "python/env_type.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/regional.h"
#include "python/stat_type.h"

static bool was_closed(struct py_volume *self)
{
    return !__atomic_load_n(&self->volume, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&self->closed, __ATOMIC_ACQUIRE);
}

bool py_volume_is_closed(struct py_volume *self)
{
    return was_closed(self) || volume_is_inherited(self->volume);
}

static PyObject *raise_closed(struct py_volume *self)
{
    return was_closed(self) ? py_raise_closed("volume") : py_raise_inherited("volume");
}

bool py_volume_ready(struct py_volume *self)
{
    if (py_volume_is_closed(self)) {
        raise_closed(self);
        return false;
    }
    return true;
}

PyObject *py_volume_raise(struct py_volume *self, int rc, const struct base_error *e,
                          PyObject *path, PyObject *path2)
{
    if (rc == -EBADF && !PyErr_Occurred()) {
        if (py_volume_is_closed(self)) {
            return raise_closed(self);
        }
        if (py_device_is_closed(py_device_of(self->device))) {
            return py_device_raise_closed(py_device_of(self->device));
        }
    }
    return py_raise(self->state, rc, e, path, path2);
}

PyObject *py_volume_stat(struct py_volume *self, const struct volume_stat *s)
{
    return py_stat_new(self->state, s, self->volume->cluster_size,
                       __atomic_load_n(&self->serial, __ATOMIC_RELAXED));
}

bool py_setattr_args(PyObject *const in[4], struct volume_setattr *how)
{
    static const uint32_t bits[] = {VOLUME_SET_CREATED, VOLUME_SET_MODIFIED, VOLUME_SET_ACCESSED,
                                    VOLUME_SET_ATTRIBUTES};

    *how = (struct volume_setattr){0};
    for (int i = 0; i < 4; i++) {
        how->mask |= in[i] && in[i] != Py_None ? bits[i] : 0;
    }
    return (!(how->mask & VOLUME_SET_CREATED) || py_i64(in[0], "created", &how->created)) &&
           (!(how->mask & VOLUME_SET_MODIFIED) || py_i64(in[1], "modified", &how->modified)) &&
           (!(how->mask & VOLUME_SET_ACCESSED) || py_i64(in[2], "accessed", &how->accessed)) &&
           (!(how->mask & VOLUME_SET_ATTRIBUTES) || py_u32(in[3], "attributes", &how->attributes));
}

/* ---- opening ---- */

static void unref(void *v)
{
    volume_unref(v);
}

enum {
    DEVICE,
    FS,
    WRITABLE,
    BACKUP,
    SYNC,
    POLICY,
    ENV,
    POOL,
    UTC,
    ZONE,
    LOCAL_ZONE,
    CODEPAGE,
    INIT_ARGS
};

static bool regional_args(PyObject *const *in, struct volume_options *o, struct py_regional *r)
{
    bool given = false;

    if (!py_arg_zone_or_offset(in[ZONE], in[UTC], r, &given) || !py_arg_codepage(in[CODEPAGE], r)) {
        return false;
    }
    if (in[LOCAL_ZONE] && in[LOCAL_ZONE] != Py_None) {
        if (!PyCallable_Check(in[LOCAL_ZONE])) {
            PyErr_SetString(PyExc_TypeError, "local_zone must be callable or None");
            return false;
        }
        r->local_zone = in[LOCAL_ZONE];
        o->local_zone = py_call_local_zone;
        o->local_zone_context = r;
    }
    o->zone = given ? &r->zone : NULL;
    o->codepage = r->codepage;
    return true;
}

static bool init_args(struct py_state *st, PyObject *const *in, struct volume_options *o,
                      struct py_regional *r)
{
    int sync = (int)o->sync;

    if (!py_bool(in[WRITABLE], &o->writable) || !py_bool(in[BACKUP], &o->use_backup) ||
        !py_word(in[SYNC], "sync", py_sync_names, 3, &sync) ||
        !py_policy_arg(in[POLICY], &o->policy) || !py_arg_env(st, in[ENV], &o->env) ||
        !regional_args(in, o, r)) {
        return false;
    }
    o->sync = (enum volume_sync)sync;
    if (in[POOL] && in[POOL] != Py_None) {
        if (!PyObject_TypeCheck(in[POOL], st->pool_type)) {
            PyErr_SetString(PyExc_TypeError, "pool must be a Pool or None");
            return false;
        }
        o->pool = py_pool_c(in[POOL]);
    }
    return true;
}

/* Gives v to self, unless another thread has just done so. */
static int adopt(struct py_volume *self, struct volume *v)
{
    struct volume *none = NULL;

    __atomic_store_n(&self->serial, v->serial, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&self->volume, &none, v, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        return 0;
    }
    py_discard(unref, v);
    PyErr_SetString(PyExc_ValueError, "the volume is open already");
    return -1;
}

static int open_with(struct py_volume *self, PyObject *const *in, const char *fs,
                     const struct volume_options *o)
{
    struct py_device *device = py_device_of(in[DEVICE]);
    struct base_error e = {0};
    struct volume *v = NULL;
    struct device *d = py_device_enter(device);
    int rc;

    if (!d) {
        return -1;
    }
    PY_CALL(rc, volume_open(d, fs, o, &v, &e));
    py_device_leave(device);
    if (rc < 0) {
        if (v) {
            py_discard(unref, v);
        }
        if (rc == -EBADF && py_device_is_closed(device) && !PyErr_Occurred()) {
            py_device_raise_closed(device);
        } else {
            py_raise(self->state, rc, &e, NULL, NULL);
        }
        return -1;
    }
    self->device = Py_NewRef(in[DEVICE]);
    self->env = o->env ? Py_NewRef(in[ENV]) : NULL;
    return adopt(self, v);
}

static int open_volume(struct py_volume *self, PyObject *const *in, const char *fs)
{
    struct py_regional regional = {0};
    struct volume_options o;
    int rc = -1;

    volume_options_init(&o);
    if (py_arg_device(self->state, in[DEVICE]) && init_args(self->state, in, &o, &regional)) {
        rc = open_with(self, in, fs, &o);
    }
    py_regional_done(&regional);
    return rc;
}

static int volume_init(PyObject *op, PyObject *args, PyObject *keywords)
{
    PY_SIGNATURE(signature, "Volume", 1, 1, "device", "fs", "writable", "use_backup", "sync",
                 "policy", "env", "pool", "utc_offset", "zone", "local_zone", "codepage");
    struct py_volume *self = py_volume_of(op);
    struct py_text fs = {0};
    PyObject *in[INIT_ARGS];
    int rc;

    if (self->device) {
        PyErr_SetString(PyExc_ValueError, "the volume is open already");
        return -1;
    }
    self->state = py_state_of_subtype(Py_TYPE(op));
    if (!self->state || !py_args_call(&signature, args, keywords, in) ||
        (in[FS] && in[FS] != Py_None && !py_text(in[FS], "fs", &fs))) {
        return -1;
    }
    rc = open_volume(self, in, fs.s);
    py_text_done(&fs);
    return rc;
}

static int volume_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(py_volume_of(op)->device);
    Py_VISIT(py_volume_of(op)->env);
    return 0;
}

/* No tp_clear: a cycle through a volume goes through a file object, a clock or a subclass's
 * attributes, which are cleared. */
static void volume_dealloc(PyObject *op)
{
    struct py_volume *self = py_volume_of(op);

    PyObject_GC_UnTrack(op);
    if (self->volume) {
        py_discard(unref, self->volume);
    }
    Py_CLEAR(self->device);
    Py_CLEAR(self->env);
    py_free(op);
}

/* ---- attributes ---- */

/* Of the mounted volume; they never change, and can be asked when it is closed too. */
static const struct volume *opened(PyObject *op)
{
    const struct volume *v = __atomic_load_n(&py_volume_of(op)->volume, __ATOMIC_ACQUIRE);

    if (!v) {
        py_raise_closed("volume");
    }
    return v;
}

static PyObject *get_fs(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyUnicode_FromString(v->fs) : NULL;
}

static PyObject *get_cluster_size(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyLong_FromUnsignedLong(v->cluster_size) : NULL;
}

static PyObject *get_sector_size(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyLong_FromUnsignedLong(v->sector_size) : NULL;
}

static PyObject *get_size(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyLong_FromUnsignedLongLong(v->size) : NULL;
}

static PyObject *get_readonly(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyBool_FromLong(!v->writable) : NULL;
}

static PyObject *get_was_dirty(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyBool_FromLong(v->was_dirty) : NULL;
}

static PyObject *get_media_failure(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyBool_FromLong(v->media_failure) : NULL;
}

static PyObject *get_from_backup(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyBool_FromLong(v->from_backup) : NULL;
}

static PyObject *get_utc_offset(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    if (!v) {
        return NULL;
    }
    return base_zone_is_fixed(&v->zone) ? PyLong_FromLong(v->zone.first) : Py_NewRef(Py_None);
}

static PyObject *get_zone(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? py_zone_new(&v->zone) : NULL;
}

static PyObject *get_uuid(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    if (!v) {
        return NULL;
    }
    return v->has_uuid ? PyBytes_FromStringAndSize((const char *)v->uuid, 16) : Py_NewRef(Py_None);
}

static PyObject *get_closed(PyObject *op, void *closure)
{
    (void)closure;
    return PyBool_FromLong(py_volume_is_closed(py_volume_of(op)));
}

static PyObject *get_device(PyObject *op, void *closure)
{
    (void)closure;
    return opened(op) ? Py_NewRef(py_volume_of(op)->device) : NULL;
}

static PyObject *get_env(PyObject *op, void *closure)
{
    PyObject *env = py_volume_of(op)->env;

    (void)closure;
    return Py_NewRef(env ? env : Py_None);
}

static PyObject *get_sync_mode(PyObject *op, void *closure)
{
    const struct volume *v = opened(op);

    (void)closure;
    return v ? PyUnicode_FromString(py_sync_names[__atomic_load_n(&v->sync, __ATOMIC_RELAXED)])
             : NULL;
}

static PyObject *get_memory_held(PyObject *op, void *closure)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    size_t n = 0;
    int rc;

    (void)closure;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_memory_held(self->volume, &n, &e));
    return rc < 0 ? py_volume_raise(self, rc, &e, NULL, NULL) : PyLong_FromSize_t(n);
}

/* ---- label and serial number ---- */

static PyObject *get_label(PyObject *op, void *closure)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    char label[256];
    int rc;

    (void)closure;
    if (!py_volume_ready(self)) {
        return NULL;
    }
    PY_CALL(rc, volume_label_get(self->volume, label, sizeof label, &e));
    return rc < 0 ? py_volume_raise(self, rc, &e, NULL, NULL) : py_text_new(label, (size_t)rc);
}

static int no_delete(PyObject *value)
{
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "it can be set but not deleted");
        return -1;
    }
    return 0;
}

static int set_label(PyObject *op, PyObject *value, void *closure)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    struct py_text label;
    int rc;

    (void)closure;
    if (no_delete(value) || !py_volume_ready(self) || !py_text(value, "label", &label)) {
        return -1;
    }
    PY_CALL(rc, volume_label_set(self->volume, label.s, (size_t)label.n, &e));
    py_text_done(&label);
    if (rc < 0) {
        py_volume_raise(self, rc, &e, NULL, NULL);
        return -1;
    }
    return 0;
}

static PyObject *get_serial(PyObject *op, void *closure)
{
    (void)closure;
    return opened(op) ? PyLong_FromUnsignedLong(
                            __atomic_load_n(&py_volume_of(op)->serial, __ATOMIC_RELAXED))
                      : NULL;
}

static int set_serial(PyObject *op, PyObject *value, void *closure)
{
    struct py_volume *self = py_volume_of(op);
    struct base_error e = {0};
    uint32_t serial = 0;
    int rc;

    (void)closure;
    if (no_delete(value) || !py_volume_ready(self) || !py_u32(value, "serial", &serial)) {
        return -1;
    }
    PY_CALL(rc, volume_serial_set(self->volume, serial, &e));
    if (rc < 0) {
        py_volume_raise(self, rc, &e, NULL, NULL);
        return -1;
    }
    __atomic_store_n(&self->serial, serial, __ATOMIC_RELAXED);
    return 0;
}

/* ---- the type ---- */

#define GET(name, function, doc)                                                                   \
    {                                                                                              \
        name, function, NULL, PyDoc_STR(doc), NULL                                                 \
    }
static PyGetSetDef volume_getset[] = {
    GET("fs", get_fs, "name of the file system"),
    GET("cluster_size", get_cluster_size, "bytes"),
    GET("sector_size", get_sector_size, "bytes"),
    GET("size", get_size, "bytes, as the boot sector says"),
    GET("readonly", get_readonly, "whether it was opened for reading only"),
    GET("was_dirty", get_was_dirty, "whether it was marked dirty when it was opened"),
    GET("media_failure", get_media_failure, "whether it is marked as having failed media"),
    GET("from_backup", get_from_backup, "whether it was opened by its backup boot region"),
    GET("utc_offset", get_utc_offset, "minutes, for time stamps; None when it changes"),
    GET("zone", get_zone, "the time zone: pairs of a second and the minutes from then on"),
    GET("uuid_bytes", get_uuid, "16 bytes, or None"),
    GET("closed", get_closed, "whether it is closed"),
    GET("device", get_device, "the Device that it lies on"),
    GET("env", get_env, "its Env, or None for the system's"),
    GET("sync_mode", get_sync_mode, "'lazy', 'dirsync' or 'sync'"),
    GET("memory_held", get_memory_held, "bytes of memory that its caches hold"),
    {"label", get_label, set_label, PyDoc_STR("the volume label; may be set"), NULL},
    {"serial", get_serial, set_serial, PyDoc_STR("the serial number, 32 bits; may be set"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot volume_slots[] = {
    PY_SLOT(
        Py_tp_doc,
        "Volume(device, *, fs=None, writable=False, use_backup=False, sync='lazy', policy=None, "
        "env=None, pool=None, utc_offset=None, zone=None, local_zone=None, codepage=None)\n--\n\n"
        "An open volume.\n\nDropping it without close() writes nothing more, as a power cut "
        "would."),
    PY_SLOT(Py_tp_new, PyType_GenericNew),
    PY_SLOT(Py_tp_init, volume_init),
    PY_SLOT(Py_tp_dealloc, volume_dealloc),
    PY_SLOT(Py_tp_traverse, volume_traverse),
    PY_SLOT(Py_tp_methods, py_volume_methods),
    PY_SLOT(Py_tp_getset, volume_getset),
    {0, NULL},
};

static PyType_Spec volume_spec = {
    .name = "pyexfat._core.Volume",
    .basicsize = sizeof(struct py_volume),
    .flags = PY_TYPE_FLAGS | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = volume_slots,
};

int py_volume_setup(PyObject *module, struct py_state *st)
{
    st->volume_type = py_add_type(module, &volume_spec, NULL);
    return st->volume_type ? 0 : -1;
}
