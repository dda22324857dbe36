#include "python/device_type.h"

#include <errno.h>
#include <string.h>

#include "python/args.h"
#include "python/errors.h"
#include "python/gil.h"

/* ---- use and closing ---- */

static void unref(void *d)
{
    device_unref(d);
}

void py_device_discard(struct device *d)
{
    py_discard(unref, d);
}

void py_device_note(struct py_device *self, const struct device *d)
{
    self->size = __atomic_load_n(&d->size, __ATOMIC_RELAXED);
    self->sector_size = d->sector_size;
    self->flags = __atomic_load_n(&d->flags, __ATOMIC_RELAXED);
}

/* Closed and out of use: what the device stands on is let go. */
static void drop(struct py_device *self)
{
    struct device *d = __atomic_exchange_n(&self->device, NULL, __ATOMIC_ACQ_REL);

    if (d) {
        self->source = NULL;
        py_device_note(self, d);
        py_device_discard(d);
    }
}

void py_device_close_inherited(struct py_device *self)
{
    struct device *d = __atomic_load_n(&self->device, __ATOMIC_ACQUIRE);

    /* The calls that are counted in users are the parent's, and never come to an end here. */
    if (!(__atomic_fetch_or(&self->users, 1, __ATOMIC_ACQ_REL) & 1) && d) {
        device_close(d);
        drop(self);
    }
}

PyObject *py_device_raise_closed(struct py_device *self)
{
    for (struct py_device *d = self; d; d = d->parent ? py_device_of(d->parent) : NULL) {
        if (__atomic_load_n(&d->users, __ATOMIC_ACQUIRE) & 1) {
            return py_raise_closed("device");
        }
    }
    return py_device_is_inherited(self) ? py_raise_inherited("device") : py_raise_closed("device");
}

struct device *py_device_enter(struct py_device *self)
{
    if (py_device_is_inherited(self)) {
        py_device_raise_closed(self);
        return NULL;
    }
    if (__atomic_fetch_add(&self->users, 2, __ATOMIC_ACQ_REL) & 1) {
        py_device_leave(self);
        py_raise_closed("device");
        return NULL;
    }
    return __atomic_load_n(&self->device, __ATOMIC_ACQUIRE);
}

void py_device_leave(struct py_device *self)
{
    if (__atomic_sub_fetch(&self->users, 2, __ATOMIC_ACQ_REL) == 1) {
        drop(self);
    }
}

bool py_device_is_closed(struct py_device *self)
{
    while (self && !py_device_was_closed(self)) {
        self = self->parent ? py_device_of(self->parent) : NULL;
    }
    return self != NULL;
}

PyObject *py_device_raise(struct py_device *self, int rc)
{
    if (rc == -EBADF && py_device_is_closed(self) && !PyErr_Occurred()) {
        return py_device_raise_closed(self);
    }
    return py_raise(self->state, rc, NULL, NULL, NULL);
}

/* ---- making ---- */

PyObject *py_device_new(struct py_state *st, PyObject *type, struct device *d, const char *kind,
                        PyObject *parent, struct py_source *source)
{
    PyObject *op = py_alloc((PyTypeObject *)type);
    struct py_device *self;

    if (!op) {
        py_device_discard(d);
        return NULL;
    }
    self = py_device_of(op);
    self->state = st;
    self->device = d;
    self->users = 0;
    self->process = os_process_id();
    py_device_note(self, d);
    self->source = source;
    self->parent = Py_XNewRef(parent);
    self->kind = kind;
    self->name = PyUnicode_DecodeUTF8(d->name, (Py_ssize_t)strlen(d->name), "replace");
    if (!self->name) {
        Py_CLEAR(op);
    }
    return op;
}

PyObject *py_device_class(PyObject *self, const char *attribute, PyTypeObject *fallback)
{
    PyObject *class = PyObject_GetAttrString((PyObject *)Py_TYPE(self), attribute);

    if (!class) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return NULL;
        }
        PyErr_Clear();
        return Py_NewRef((PyObject *)fallback);
    }
    if (!PyType_Check(class) || !PyType_IsSubtype((PyTypeObject *)class, fallback)) {
        PyErr_Format(PyExc_TypeError, "%s must be a subclass of %R", attribute, fallback);
        Py_CLEAR(class);
    }
    return class;
}

static PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)type;
    (void)args;
    (void)keywords;
    PyErr_SetString(PyExc_TypeError, "a device is made by Device.memory, file, fd, buffer or wrap");
    return NULL;
}

/* ---- attributes ---- they can be asked of a closed device too */

struct facts {
    uint64_t size;
    uint32_t sector_size, flags;
};

static struct facts facts_of(struct py_device *self)
{
    struct facts f = {self->size, self->sector_size, self->flags};
    struct device *d = NULL;

    if (!py_device_was_closed(self)) {
        d = py_device_enter(self);
        if (!d) {
            PyErr_Clear();
        }
    }
    if (d) {
        f.size = __atomic_load_n(&d->size, __ATOMIC_RELAXED);
        f.sector_size = d->sector_size;
        f.flags = __atomic_load_n(&d->flags, __ATOMIC_RELAXED);
        py_device_leave(self);
    }
    return f;
}

static PyObject *get_size(PyObject *op, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(facts_of(py_device_of(op)).size);
}

static PyObject *get_sector_size(PyObject *op, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(facts_of(py_device_of(op)).sector_size);
}

static PyObject *get_flag(PyObject *op, void *closure)
{
    return PyBool_FromLong((facts_of(py_device_of(op)).flags & (uintptr_t)closure) != 0);
}

static PyObject *get_closed(PyObject *op, void *closure)
{
    (void)closure;
    return PyBool_FromLong(py_device_was_closed(py_device_of(op)));
}

static PyObject *get_kind(PyObject *op, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(py_device_of(op)->kind);
}

static PyObject *get_name(PyObject *op, void *closure)
{
    (void)closure;
    return Py_NewRef(py_device_of(op)->name);
}

static PyObject *get_parent(PyObject *op, void *closure)
{
    PyObject *parent = py_device_of(op)->parent;

    (void)closure;
    return Py_NewRef(parent ? parent : Py_None);
}

static PyObject *get_source(PyObject *op, void *closure)
{
    struct py_device *self = py_device_of(op);
    PyObject *source;

    (void)closure;
    if (py_device_was_closed(self) || !py_device_enter(self)) {
        PyErr_Clear();
        return Py_NewRef(Py_None);
    }
    source = py_source_object(self->source);
    py_device_leave(self);
    return source;
}

/* Bytes of memory that a device of this kind holds, 0 for other kinds and closed ones. */
static PyObject *memory_of_kind(struct py_device *self, const char *kind,
                                uint64_t (*ask)(struct device *))
{
    struct device *d = NULL;
    uint64_t n = 0;

    if (strcmp(self->kind, kind) == 0 && !py_device_was_closed(self)) {
        d = py_device_enter(self);
        if (!d) {
            PyErr_Clear();
        }
    }
    if (d) {
        struct py_thread *t = py_leave();

        n = ask(d);
        py_return(t, 0);
        py_device_leave(self);
    }
    return PyLong_FromUnsignedLongLong(n);
}

static uint64_t held(struct device *d)
{
    return device_memory_held(d);
}

static PyObject *get_held(PyObject *op, void *closure)
{
    (void)closure;
    return memory_of_kind(py_device_of(op), "memory", held);
}

static PyObject *get_changed(PyObject *op, void *closure)
{
    (void)closure;
    return memory_of_kind(py_device_of(op), "branch", device_branch_changed);
}

static PyObject *device_repr(PyObject *op)
{
    struct py_device *self = py_device_of(op);
    struct facts f = facts_of(self);
    PyObject *type = PyType_GetName(Py_TYPE(op)), *text = NULL;

    if (type) {
        text = PyUnicode_FromFormat("<%U %s %R, %llu bytes%s%s>", type, self->kind, self->name,
                                    (unsigned long long)f.size,
                                    f.flags & DEVICE_READONLY ? ", read-only" : "",
                                    py_device_was_closed(self) ? ", closed" : "");
        Py_DECREF(type);
    }
    return text;
}

/* ---- the type ---- */

int py_device_traverse(PyObject *op, visitproc visit, void *arg)
{
    struct py_device *self = py_device_of(op);

    Py_VISIT(Py_TYPE(op));
    Py_VISIT(self->parent);
    /* The C device holds these; see core.h for why no other user of it can be alive when this
     * object is garbage. */
    if (self->source) {
        Py_VISIT(self->source->file);
        Py_VISIT(self->source->fsync);
        Py_VISIT(self->source->view.obj);
    }
    return 0;
}

/* Breaks cycles through a file object. Buffers stay until the device goes: somebody may look at the
 * bytes. */
int py_device_clear(PyObject *op)
{
    struct py_device *self = py_device_of(op);

    if (self->source) {
        Py_CLEAR(self->source->file);
    }
    return 0;
}

void py_device_dealloc(PyObject *op)
{
    struct py_device *self = py_device_of(op);

    PyObject_GC_UnTrack(op);
    drop(self);
    if (self->log_lock) {
        os_mutex_delete(self->log_lock);
    }
    Py_CLEAR(self->parent);
    Py_CLEAR(self->name);
    py_free(op);
}

#define GET(name, function, closure, doc)                                                          \
    {                                                                                              \
        name, function, NULL, PyDoc_STR(doc), (void *)(uintptr_t)(closure)                         \
    }
static PyGetSetDef device_getset[] = {
    GET("size", get_size, 0, "bytes"),
    GET("sector_size", get_sector_size, 0, "bytes of a sector"),
    GET("readonly", get_flag, DEVICE_READONLY, "whether writing is refused"),
    GET("is_block", get_flag, DEVICE_IS_BLOCK, "whether it is a block device of the system"),
    GET("kind", get_kind, 0,
        "what it is: memory, file, buffer, object, slice, branch, recorder, faults"),
    GET("name", get_name, 0, "for people: the file's name or the kind"),
    GET("closed", get_closed, 0, "whether it was closed"),
    GET("held", get_held, 0, "bytes of memory that a memory device really holds"),
    GET("changed", get_changed, 0, "bytes that a branch holds"),
    GET("parent", get_parent, 0, "the device it stands on, or None"),
    GET("source", get_source, 0, "the buffer or file object behind it, or None"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot device_slots[] = {
    PY_SLOT(Py_tp_doc,
            "A row of sectors that a volume stands on. Made by one of its class methods."),
    PY_SLOT(Py_tp_new, refuse_new),
    PY_SLOT(Py_tp_dealloc, py_device_dealloc),
    PY_SLOT(Py_tp_traverse, py_device_traverse),
    PY_SLOT(Py_tp_clear, py_device_clear),
    PY_SLOT(Py_tp_methods, py_device_methods),
    PY_SLOT(Py_tp_getset, device_getset),
    PY_SLOT(Py_tp_repr, device_repr),
    {0, NULL},
};

static PyType_Spec device_spec = {
    .name = "pyexfat._core.Device",
    .basicsize = sizeof(struct py_device),
    .flags = PY_TYPE_FLAGS | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = device_slots,
};

int py_device_setup(PyObject *module, struct py_state *st)
{
    st->device_type = py_add_type(module, &device_spec, NULL);
    return st->device_type ? 0 : -1;
}
