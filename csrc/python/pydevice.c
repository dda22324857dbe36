#include "python/pydevice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/os.h"
#include "python/args.h"
#include "python/errors.h"
#include "python/gil.h"

#define PIECE (1u << 20) /* bytes that go through one Python call at most */

static void source_free(struct py_source *s)
{
    if (s->view.obj) {
        PyBuffer_Release(&s->view);
    }
    Py_XDECREF(s->file);
    Py_XDECREF(s->fsync);
    os_mutex_delete(s->lock);
    free(s);
}

/* The C device is being destroyed. */
static void source_release(void *owner)
{
    struct py_callback c;

    py_callback_begin(&c);
    source_free(owner);
    py_callback_end(&c);
}

static struct py_source *source_new(struct py_state *st)
{
    struct py_source *s = calloc(1, sizeof *s);

    if (s) {
        s->state = st;
        s->lock = os_mutex_new();
    }
    if (!s || !s->lock) {
        free(s);
        PyErr_NoMemory();
        return NULL;
    }
    return s;
}

PyObject *py_source_object(const struct py_source *s)
{
    PyObject *o = s ? (s->file ? s->file : s->view.obj) : NULL;

    return Py_NewRef(o ? o : Py_None);
}

/* ---- buffers ---- */

struct device *py_buffer_device(struct py_state *st, PyObject *o, int writable,
                                uint32_t sector_size, struct py_source **source)
{
    struct py_source *s = source_new(st);
    struct device *d = NULL;
    int rc;

    if (!s) {
        return NULL;
    }
    if (writable < 0) {
        writable = PyObject_GetBuffer(o, &s->view, PyBUF_WRITABLE) == 0;
        if (!writable) {
            PyErr_Clear();
            memset(&s->view, 0, sizeof s->view);
        }
    } else if (writable && !py_writable_buffer(o, "obj", &s->view)) {
        memset(&s->view, 0, sizeof s->view);
        goto failed;
    }
    if (!s->view.obj && PyObject_GetBuffer(o, &s->view, PyBUF_SIMPLE)) {
        goto failed;
    }
    rc = device_buffer_new(s->view.buf, (uint64_t)s->view.len, writable != 0, sector_size,
                           source_release, s, &d);
    if (rc) {
        py_raise(st, rc, NULL, NULL, NULL);
        goto failed;
    }
    *source = s;
    return d;
failed:
    source_free(s);
    return NULL;
}

/* ---- file objects: Python ---- */

static PyObject *name_of(const struct py_source *s, enum py_name name)
{
    return s->state->names[name];
}

static bool seek_to(struct py_source *s, uint64_t offset)
{
    PyObject *position = PyLong_FromUnsignedLongLong(offset), *result = NULL;

    if (position) {
        result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_SEEK), position, NULL);
        Py_DECREF(position);
    }
    Py_XDECREF(result);
    return result != NULL;
}

/* How many bytes a read or write says it has done: 1..n, or 0 with an exception. */
static size_t done_of(PyObject *result, size_t n, const char *call)
{
    size_t done;

    if (!result) {
        return 0;
    }
    done = PyLong_Check(result) ? PyLong_AsSize_t(result) : 0;
    PyErr_Clear(); /* negative or huge */
    if (done == 0 || done > n) {
        PyErr_Format(PyExc_OSError, "%s() of the file object returned %R for %zu bytes", call,
                     result, n);
        return 0;
    }
    return done;
}

/* A copy in between, because the file object may keep what it is given, for as long as it likes. */
static size_t read_into(struct py_source *s, uint8_t *out, size_t n)
{
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)n), *result = NULL;
    size_t done = 0;

    if (bytes) {
        result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_READINTO), bytes, NULL);
    }
    done = done_of(result, n, "readinto");
    if (done > (size_t)(bytes ? PyByteArray_Size(bytes) : 0)) {
        PyErr_SetString(PyExc_OSError, "readinto() of the file object changed its buffer's size");
        done = 0;
    }
    if (done) {
        memcpy(out, PyByteArray_AsString(bytes), done);
    }
    Py_XDECREF(result);
    Py_XDECREF(bytes);
    return done;
}

static size_t read_copy(struct py_source *s, uint8_t *out, size_t n)
{
    PyObject *count = PyLong_FromSize_t(n), *result = NULL;
    Py_buffer view;
    size_t done = 0;

    if (count) {
        result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_READ), count, NULL);
        Py_DECREF(count);
    }
    if (!result) {
        return 0;
    }
    if (PyObject_GetBuffer(result, &view, PyBUF_SIMPLE) == 0) {
        done = (size_t)view.len;
        if (done == 0 || done > n) {
            PyErr_Format(PyExc_OSError, "read(%zu) of the file object returned %zu bytes", n, done);
            done = 0;
        }
        memcpy(out, view.buf, done);
        PyBuffer_Release(&view);
    }
    Py_DECREF(result);
    return done;
}

static size_t write_copy(struct py_source *s, const uint8_t *in, size_t n)
{
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)in, (Py_ssize_t)n), *result = NULL;
    size_t done;

    if (bytes) {
        result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_WRITE), bytes, NULL);
        Py_DECREF(bytes);
    }
    /* Objects that are only nearly files return None when they have taken it all. */
    done = result == Py_None ? n : done_of(result, n, "write");
    Py_XDECREF(result);
    return done;
}

static bool call_flush(struct py_source *s)
{
    PyObject *result = NULL;

    if (s->has_flush) {
        result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_FLUSH), NULL);
        if (!result) {
            return false;
        }
        Py_DECREF(result);
    }
    if (s->fsync) {
        result = PyObject_CallFunctionObjArgs(s->fsync, s->file, NULL);
        if (!result) {
            return false;
        }
        Py_DECREF(result);
    }
    return true;
}

static bool call_truncate(struct py_source *s, uint64_t size)
{
    PyObject *number = PyLong_FromUnsignedLongLong(size), *result = NULL;

    if (number) {
        result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_TRUNCATE), number, NULL);
        Py_DECREF(number);
    }
    Py_XDECREF(result);
    return result != NULL;
}

/* ---- file objects: what the C device calls, without the GIL ---- */

struct visit { /* of the file object by one thread */
    struct py_source *source;
    struct py_callback callback;
};

/* -EDEADLK when this thread is in there already: a file object that uses the volume that lies on
 * it. */
static int visit_begin(struct visit *v, struct py_source *s)
{
    uint64_t me = os_thread_id();
    int rc = 0;

    if (__atomic_load_n(&s->owner, __ATOMIC_RELAXED) == me) {
        return -EDEADLK;
    }
    os_mutex_lock(s->lock);
    __atomic_store_n(&s->owner, me, __ATOMIC_RELAXED);
    v->source = s;
    py_callback_begin(&v->callback);
    if (!s->file) {
        rc = -EBADF; /* the garbage collector has been here */
    }
    return rc;
}

static int visit_end(struct visit *v, bool ok, int rc)
{
    if (!ok) {
        rc = py_callback_failed(&v->callback, false);
    }
    py_callback_end(&v->callback);
    __atomic_store_n(&v->source->owner, 0, __ATOMIC_RELAXED);
    os_mutex_unlock(v->source->lock);
    return rc;
}

static int file_read(void *owner, uint64_t offset, void *buffer, size_t n)
{
    struct py_source *s = owner;
    struct visit v;
    uint8_t *at = buffer;
    bool ok = true;
    int rc = visit_begin(&v, s);

    if (rc == -EDEADLK) {
        return rc;
    }
    ok = rc || seek_to(s, offset);
    while (rc == 0 && ok && n > 0) {
        size_t want = (size_t)base_min(n, PIECE);
        size_t done = s->has_readinto ? read_into(s, at, want) : read_copy(s, at, want);

        ok = done > 0;
        at += done;
        n -= done;
    }
    return visit_end(&v, ok, rc);
}

static int file_write(void *owner, uint64_t offset, const void *buffer, size_t n)
{
    struct py_source *s = owner;
    struct visit v;
    const uint8_t *at = buffer;
    bool ok = true;
    int rc = visit_begin(&v, s);

    if (rc == -EDEADLK) {
        return rc;
    }
    ok = rc || seek_to(s, offset);
    while (rc == 0 && ok && n > 0) {
        size_t done = write_copy(s, at, (size_t)base_min(n, PIECE));

        ok = done > 0;
        at += done;
        n -= done;
    }
    return visit_end(&v, ok, rc);
}

static int file_flush(void *owner)
{
    struct visit v;
    int rc = visit_begin(&v, owner);

    if (rc == -EDEADLK) {
        return rc;
    }
    return visit_end(&v, rc || call_flush(owner), rc);
}

static int file_resize(void *owner, uint64_t size)
{
    struct visit v;
    int rc = visit_begin(&v, owner);

    if (rc == -EDEADLK) {
        return rc;
    }
    return visit_end(&v, rc || call_truncate(owner, size), rc);
}

/* ---- file objects: making the device ---- */

static int has(PyObject *o, PyObject *name)
{
    PyObject *attribute = PyObject_GetAttr(o, name);

    if (attribute) {
        Py_DECREF(attribute);
        return attribute != Py_None;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

static int ask_writable(struct py_source *s)
{
    int found = has(s->file, name_of(s, PY_NAME_WRITABLE)), v = -1;
    PyObject *result;

    if (found <= 0) {
        return found < 0 ? -1 : has(s->file, name_of(s, PY_NAME_WRITE));
    }
    result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_WRITABLE), NULL);
    if (result) {
        v = PyObject_IsTrue(result);
        Py_DECREF(result);
    }
    return v;
}

static bool ask_size(struct py_source *s, uint64_t *size)
{
    PyObject *end, *zero = PyLong_FromLong(0), *two = PyLong_FromLong(2), *position = NULL;
    bool ok = false;

    end = zero && two
              ? PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_SEEK), zero, two, NULL)
              : NULL;
    if (end) {
        position = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_TELL), NULL);
    }
    ok = position && py_u64(position, "tell()", size);
    Py_XDECREF(position);
    Py_XDECREF(end);
    Py_XDECREF(zero);
    Py_XDECREF(two);
    return ok;
}

/* Text would come back as str. */
static bool check_binary(struct py_source *s)
{
    PyObject *zero = PyLong_FromLong(0), *result = NULL;
    bool text = true;

    if (zero) {
        result = PyObject_CallMethodObjArgs(s->file, name_of(s, PY_NAME_READ), zero, NULL);
        Py_DECREF(zero);
    }
    if (!result) {
        return false;
    }
    text = PyUnicode_Check(result);
    Py_DECREF(result);
    if (text) {
        PyErr_SetString(PyExc_TypeError, "fileobj must be binary, not text");
    }
    return !text;
}

/* Files of the system are as durable as fsync makes them. Others are not asked for a descriptor: to
 * some of them (SpooledTemporaryFile) the question does something. */
static bool find_fsync(struct py_source *s)
{
    static const char *const classes[] = {"FileIO", "BufferedRandom", "BufferedWriter"};
    PyObject *io = PyImport_ImportModule("io"), *os = NULL, *number = NULL;
    int found = io ? 0 : -1;

    for (size_t i = 0; found == 0 && i < sizeof classes / sizeof *classes; i++) {
        PyObject *class = PyObject_GetAttrString(io, classes[i]);

        found = class ? PyObject_IsInstance(s->file, class) : -1;
        Py_XDECREF(class);
    }
    Py_XDECREF(io);
    if (found <= 0) {
        return found == 0;
    }
    number = PyObject_CallMethod(s->file, "fileno", NULL);
    if (!number) { /* a buffer over something that is no file */
        PyErr_Clear();
        return true;
    }
    Py_DECREF(number);
    os = PyImport_ImportModule("os");
    s->fsync = os ? PyObject_GetAttrString(os, "fsync") : NULL;
    Py_XDECREF(os);
    return s->fsync != NULL;
}

static bool ask(struct py_source *s, int *writable, uint64_t *size)
{
    static const enum py_name names[] = {PY_NAME_SEEK, PY_NAME_FLUSH, PY_NAME_READINTO,
                                         PY_NAME_READ};
    int found[sizeof names / sizeof *names];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found[i] = has(s->file, name_of(s, names[i]));
        if (found[i] < 0) {
            return false;
        }
    }
    s->has_flush = found[1] > 0;
    s->has_readinto = found[2] > 0;
    if (!found[0] || !(found[2] || found[3])) {
        PyErr_SetString(PyExc_TypeError, "fileobj must be a seekable binary file object");
        return false;
    }
    if (!s->has_readinto && !check_binary(s)) {
        return false;
    }
    if (*writable < 0) {
        *writable = ask_writable(s);
        if (*writable < 0) {
            return false;
        }
    }
    return (*size != UINT64_MAX || ask_size(s, size)) && (!*writable || find_fsync(s));
}

struct device *py_file_device(struct py_state *st, PyObject *o, int writable, uint64_t size,
                              uint32_t sector_size, struct py_source **source)
{
    struct device_callbacks calls = {
        .read = file_read,
        .write = file_write,
        .flush = file_flush,
        .resize = file_resize,
        .release = source_release,
    };
    struct py_source *s = source_new(st);
    struct device *d = NULL;
    int rc;

    if (!s) {
        return NULL;
    }
    s->file = Py_NewRef(o);
    if (!ask(s, &writable, &size)) {
        goto failed;
    }
    if (!writable) {
        calls.write = NULL;
        calls.resize = NULL;
    }
    rc = device_callbacks_new(&calls, s, size, sector_size, &d);
    if (rc) {
        py_raise(st, rc, NULL, NULL, NULL);
        goto failed;
    }
    *source = s;
    return d;
failed:
    source_free(s);
    return NULL;
}
