/* Device and its subclasses Recorder and Faults. */
#ifndef PYEXFAT_PYTHON_DEVICE_TYPE_H
#define PYEXFAT_PYTHON_DEVICE_TYPE_H

#include "python/core.h"

#include "base/os.h"
#include "python/pydevice.h"

struct py_device {
    PyObject_HEAD struct py_state *state;
    /* NULL: closed, and nobody is in a call any more; what the C device stood on (a buffer, say) is
     * free again. */
    struct device *device;
    uint32_t users;           /* atomic: twice the calls under way, plus 1 when closed */
    struct py_source *source; /* the Python object behind the C device, which owns it */
    PyObject *parent;         /* the Device it stands on */
    PyObject *name;
    const char *kind;
    struct os_mutex *log_lock; /* recorder: clear() against those who look at an entry */
    uint64_t process;          /* os_process_id() of its maker */
    uint64_t size;             /* these as they were when it was made or closed */
    uint32_t sector_size, flags;
};

static inline struct py_device *py_device_of(PyObject *op)
{
    return (struct py_device *)op;
}

/* The C device, good until py_device_leave; NULL with ValueError when it is closed. */
struct device *py_device_enter(struct py_device *self);
void py_device_leave(struct py_device *self);
void py_device_note(struct py_device *self, const struct device *d); /* size and flags */
/* Gives up the descriptor, and nothing else that is the parent's. */
void py_device_close_inherited(struct py_device *self);
/* Made before a fork whose child this process is. */
static inline bool py_device_is_inherited(const struct py_device *self)
{
    return self->process != os_process_id();
}
static inline bool py_device_was_closed(struct py_device *self)
{
    return (__atomic_load_n(&self->users, __ATOMIC_ACQUIRE) & 1) || py_device_is_inherited(self);
}
PyObject *py_device_raise_closed(struct py_device *self); /* says why; returns NULL */
bool py_device_is_closed(struct py_device *self);         /* or what it stands on is */
void py_device_discard(struct device *d);                 /* a reference that nobody wants */
/* Takes over d and gives it to a new instance of type. parent may be NULL. */
PyObject *py_device_new(struct py_state *st, PyObject *type, struct device *d, const char *kind,
                        PyObject *parent, struct py_source *source);
/* Raises what rc means for a call on the device. */
PyObject *py_device_raise(struct py_device *self, int rc);

/* The class that self._device_class (or the like) names, or `fallback`; a new reference. */
PyObject *py_device_class(PyObject *self, const char *attribute, PyTypeObject *fallback);

extern PyMethodDef py_device_methods[];
/* The class methods that make devices (device_make.c). */
typedef PyObject *py_maker(PyObject *type, PyTypeObject *defining, PyObject *const *args,
                           Py_ssize_t n, PyObject *keywords);
py_maker py_make_memory, py_make_file, py_make_fd, py_make_buffer, py_make_wrap;

/* For the types of Recorder and Faults. */
int py_device_traverse(PyObject *op, visitproc visit, void *arg);
int py_device_clear(PyObject *op);
void py_device_dealloc(PyObject *op);

#endif
