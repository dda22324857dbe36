/* The one place that drops the GIL and takes it back.
 *
 * Every call of the core that may wait, touch a device or move much memory runs between py_leave
 * and py_return. A lock of the core is never waited for with the GIL held. The core may call back
 * into Python meanwhile (file objects, clocks, progress): py_callback_begin attaches the same
 * thread state again. What Python raises there travels beside the errno and comes out at py_return
 * as it was raised.
 */
#ifndef PYEXFAT_PYTHON_GIL_H
#define PYEXFAT_PYTHON_GIL_H

#include "python/core.h"

struct py_thread;

struct py_thread *py_leave(void);
/* Takes the GIL back; returns rc, or a negative number with an exception set when a callback raised
 * and the call failed for that reason. */
int py_return(struct py_thread *t, int rc);

/* rc = expression, without the GIL. When rc is negative: py_raise. */
#define PY_CALL(rc, expression)                                                                    \
    do {                                                                                           \
        struct py_thread *thread_ = py_leave();                                                    \
        int result_ = (expression);                                                                \
        (rc) = py_return(thread_, result_);                                                        \
    } while (0)

/* Lets go of a C object (the last reference may close files or wait for locks): without the GIL, at
 * once, or, inside a callback, when the call that it serves has come to its end. The current
 * exception stays. */
void py_discard(void (*unref)(void *), void *object);

/* What a failed call that had another cause than `rc` shall name as its cause; a new reference or
 * NULL. */
PyObject *py_take_cause(void);

struct py_callback {
    struct py_thread *thread;
    PyInterpreterState *interpreter;
    bool detached;
    PyObject *failure; /* the first exception of the call that is served */
    int failure_rc;    /* what the core was told */
    bool failure_always;
};
void py_callback_begin(struct py_callback *c);
void py_callback_end(struct py_callback *c);
/* Takes the current exception away and keeps it for py_return. Returns the negative errno for the
 * core; with `always` the call fails with this exception even where the core goes on. */
int py_callback_failed(struct py_callback *c, bool always);

#endif
