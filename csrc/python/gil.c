#include "python/gil.h"

#include <errno.h>
#include <stdlib.h>

/* An object to let go of later. */
struct later {
    struct later *next;
    void (*unref)(void *);
    void *object;
    PyInterpreterState *interpreter;
};

struct py_thread {
    PyThreadState *detached;         /* not NULL: this thread has let go of the GIL in py_leave */
    PyInterpreterState *interpreter; /* of the innermost callback */
    unsigned depth;                  /* callbacks under way */
    struct later *later;
    PyObject *failure; /* what a callback has raised */
    int failure_rc;    /* what the core was told */
    bool failure_always;
    PyObject *cause;
};

/* ThreadSanitizer takes it for a race when the C library frees the dynamic thread-local memory of a
 * thread that has ended. */
#ifdef __SANITIZE_THREAD__
#define TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define TLS_MODEL
#endif

static _Thread_local struct py_thread this_thread TLS_MODEL;

struct py_thread *py_leave(void)
{
    struct py_thread *t = &this_thread;

    Py_CLEAR(t->cause);
    t->detached = PyEval_SaveThread();
    return t;
}

static void let_go(struct py_thread *t)
{
    PyInterpreterState *mine = PyThreadState_GetInterpreter(t->detached);
    struct later **at = &t->later;

    if (t->depth > 0 && t->interpreter == mine) {
        return;
    }
    while (*at) {
        struct later *l = *at;

        if (l->interpreter != mine) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        l->unref(l->object);
        free(l);
        at = &t->later; /* unref may have called back, and more may have come */
    }
}

static int settle(struct py_thread *t, int rc)
{
    PyObject *failure = t->failure;

    t->failure = NULL;
    if (t->failure_always || (rc < 0 && rc == t->failure_rc)) {
        PyErr_SetObject((PyObject *)Py_TYPE(failure), failure);
        Py_DECREF(failure);
        return rc < 0 ? rc : -ECANCELED;
    }
    if (rc < 0) {
        t->cause = failure; /* py_leave has cleared it */
        return rc;
    }
    Py_DECREF(failure); /* the core could do without what failed */
    return rc;
}

int py_return(struct py_thread *t, int rc)
{
    if (t->later) {
        let_go(t);
    }
    PyEval_RestoreThread(t->detached);
    t->detached = NULL;
    return t->failure ? settle(t, rc) : rc;
}

PyObject *py_take_cause(void)
{
    PyObject *cause = this_thread.cause;

    this_thread.cause = NULL;
    return cause;
}

void py_discard(void (*unref)(void *), void *object)
{
    struct py_thread *t = &this_thread;
    PyObject *type, *value, *traceback;

    if (t->depth > 0 && t->interpreter == PyInterpreterState_Get()) {
        struct later *l = malloc(sizeof *l);

        if (l) { /* else it is lost, which is better than a dead lock */
            *l = (struct later){t->later, unref, object, t->interpreter};
            t->later = l;
        }
        return;
    }
    PyErr_Fetch(&type, &value, &traceback);
    py_leave();
    unref(object);
    py_return(t, 0);
    PyErr_Restore(type, value, traceback);
}

/* ---- callbacks ---- */

void py_callback_begin(struct py_callback *c)
{
    struct py_thread *t = &this_thread;

    *c = (struct py_callback){
        .thread = t,
        .interpreter = t->interpreter,
        .detached = t->detached != NULL,
        .failure = t->failure,
        .failure_rc = t->failure_rc,
        .failure_always = t->failure_always,
    };
    if (c->detached) {
        PyEval_RestoreThread(t->detached);
        t->detached = NULL;
    }
    t->interpreter = PyInterpreterState_Get();
    t->failure = NULL; /* calls made from the callback have their own */
    t->depth++;
}

void py_callback_end(struct py_callback *c)
{
    struct py_thread *t = c->thread;

    t->depth--;
    t->interpreter = c->interpreter;
    t->failure = c->failure;
    t->failure_rc = c->failure_rc;
    t->failure_always = c->failure_always;
    if (c->detached) {
        t->detached = PyEval_SaveThread();
    }
}

/* Only what the core may act on; ENOENT of a file object, say, must not look like a missing
 * directory entry. */
static int errno_for_core(PyObject *exception)
{
    static const int known[] = {ENOSPC, EROFS, EDEADLK};
    PyObject *number;
    long code = 0;

    if (PyErr_GivenExceptionMatches(exception, PyExc_MemoryError)) {
        return -ENOMEM;
    }
    if (!PyErr_GivenExceptionMatches(exception, PyExc_OSError)) {
        return -ECANCELED; /* no failure of a medium: Ctrl-C, a file object that is closed */
    }
    number = PyObject_GetAttrString(exception, "errno");
    if (number && PyLong_Check(number)) {
        code = PyLong_AsLong(number);
    }
    Py_XDECREF(number);
    PyErr_Clear();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (code == known[i]) {
            return -known[i];
        }
    }
    return -EIO;
}

int py_callback_failed(struct py_callback *c, bool always)
{
    PyObject *type, *value, *traceback, *old = NULL;
    int rc;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) {
        PyException_SetTraceback(value, traceback);
    }
    /* Ctrl-C and exit are never swallowed. */
    always = always || !PyErr_GivenExceptionMatches(value, PyExc_Exception);
    rc = errno_for_core(value);
    if (!c->failure || (always && !c->failure_always)) {
        old = c->failure;
        c->failure = value;
        c->failure_rc = rc;
        c->failure_always = always;
        value = NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    Py_XDECREF(old);
    return rc;
}
