#include "python/env_type.h"

#include "python/args.h"
#include "python/gil.h"

/* ---- Env ---- */

struct py_env {
    PyObject_HEAD struct env env; /* what the core gets: the two functions below */
    struct env system, fixed;
    bool seeded, has_clock;
    PyObject *clock; /* callable, or NULL */
};

static struct py_env *env_of(PyObject *op)
{
    return (struct py_env *)op;
}

struct env *py_env_c(PyObject *op)
{
    return &env_of(op)->env;
}

static bool call_clock(PyObject *clock, int64_t *out)
{
    PyObject *now = PyObject_CallNoArgs(clock);
    bool ok = now && py_i64(now, "clock()", out);

    Py_XDECREF(now);
    return ok;
}

/* The core can't be told that a clock failed, so it goes on with the system's and the call raises
 * at its end. */
static int64_t env_now(struct env *e)
{
    struct py_env *self = e->context;
    int64_t now = 0;

    if (self->clock) {
        struct py_callback c;
        bool ok;

        py_callback_begin(&c);
        ok = self->clock && call_clock(self->clock, &now);
        if (PyErr_Occurred()) {
            py_callback_failed(&c, true);
        }
        py_callback_end(&c);
        return ok ? now : self->system.now(&self->system);
    }
    if (!self->has_clock) {
        return self->system.now(&self->system);
    }
    return self->fixed.now(&self->fixed);
}

static void env_random(struct env *e, void *buffer, size_t n)
{
    struct py_env *self = e->context;

    struct env *use = self->seeded ? &self->fixed : &self->system;

    use->random(use, buffer, n);
}

/* None: the system's clock; an int; or a callable. */
static bool clock_arg(PyObject *o, struct py_env *self, int64_t *fixed)
{
    if (!o || o == Py_None) {
        return true;
    }
    if (PyCallable_Check(o)) {
        self->clock = Py_NewRef(o);
        return true;
    }
    self->has_clock = true;
    return py_i64(o, "clock", fixed);
}

static PyObject *env_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PY_SIGNATURE(signature, "Env", 0, 3, "seed", "clock", "tick");
    int64_t now = 0, tick = 0;
    uint64_t seed = 0;
    struct py_env *self;
    PyObject *in[3], *op;

    if (!py_args_call(&signature, args, keywords, in)) {
        return NULL;
    }
    op = py_alloc(type);
    if (!op) {
        return NULL;
    }
    self = env_of(op);
    self->seeded = in[0] && in[0] != Py_None;
    if ((self->seeded && !py_u64(in[0], "seed", &seed)) || !clock_arg(in[1], self, &now) ||
        !py_i64(in[2], "tick", &tick)) {
        Py_DECREF(op);
        return NULL;
    }
    env_init_system(&self->system);
    env_init_fixed(&self->fixed, seed, now, tick);
    self->env = (struct env){.now = env_now, .random = env_random, .context = self};
    return op;
}

static int env_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(env_of(op)->clock);
    return 0;
}

static int env_clear(PyObject *op)
{
    Py_CLEAR(env_of(op)->clock);
    return 0;
}

static void env_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    env_clear(op);
    py_free(op);
}

static PyObject *env_now_method(PyObject *op, PyObject *unused)
{
    struct py_thread *t = py_leave();
    int64_t now = env_now(py_env_c(op));

    (void)unused;
    if (py_return(t, 0) < 0) {
        return NULL;
    }
    return PyLong_FromLongLong(now);
}

static PyObject *env_random_method(PyObject *op, PyObject *arg)
{
    PyObject *bytes;
    size_t n = 0;

    if (!py_size(arg, "n", &n)) {
        return NULL;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
    if (bytes) {
        char *to = PyBytes_AsString(bytes);
        struct py_thread *t = py_leave();

        env_random(py_env_c(op), to, n);
        py_return(t, 0);
    }
    return bytes;
}

static PyMethodDef env_methods[] = {
    PY_NO_PICKLE,
    {"now", env_now_method, METH_NOARGS, PY_DOC("now($self, /)", "Nanoseconds since 1970 UTC.")},
    {"random", env_random_method, METH_O, PY_DOC("random($self, n, /)", "n random bytes.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot env_slots[] = {
    PY_SLOT(Py_tp_doc,
            "Env(seed=None, clock=None, tick=0)\n--\n\n"
            "Clock and random numbers, the only ways in for what is not repeatable.\n\n"
            "seed None: the system's random numbers. clock None: the system's; an int is a fixed "
            "time in\nnanoseconds, to which each look at the clock adds tick; or a function that "
            "returns nanoseconds."),
    PY_SLOT(Py_tp_new, env_new),
    PY_SLOT(Py_tp_dealloc, env_dealloc),
    PY_SLOT(Py_tp_traverse, env_traverse),
    PY_SLOT(Py_tp_clear, env_clear),
    PY_SLOT(Py_tp_methods, env_methods),
    {0, NULL},
};

static PyType_Spec env_spec = {
    .name = "pyexfat._core.Env",
    .basicsize = sizeof(struct py_env),
    .flags = PY_TYPE_FLAGS | Py_TPFLAGS_HAVE_GC,
    .slots = env_slots,
};

/* ---- Pool ---- */

struct py_pool {
    PyObject_HEAD struct names_pool *pool;
    size_t budget;
};

static struct py_pool *pool_of(PyObject *op)
{
    return (struct py_pool *)op;
}

struct names_pool *py_pool_c(PyObject *op)
{
    return pool_of(op)->pool;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PY_SIGNATURE(signature, "Pool", 1, 1, "budget");
    PyObject *in[1], *op;
    size_t budget = 0;

    if (!py_args_call(&signature, args, keywords, in) || !py_size(in[0], "budget", &budget)) {
        return NULL;
    }
    op = py_alloc(type);
    if (!op) {
        return NULL;
    }
    pool_of(op)->budget = budget;
    pool_of(op)->pool = names_pool_new(budget);
    if (!pool_of(op)->pool) {
        Py_DECREF(op);
        return PyErr_NoMemory();
    }
    return op;
}

static void pool_dealloc(PyObject *op)
{
    if (pool_of(op)->pool) {
        names_pool_unref(pool_of(op)->pool);
    }
    py_free(op);
}

static PyObject *pool_get_budget(PyObject *op, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(__atomic_load_n(&pool_of(op)->budget, __ATOMIC_RELAXED));
}

static int pool_set_budget(PyObject *op, PyObject *value, void *closure)
{
    size_t budget = 0;
    struct py_thread *t;

    (void)closure;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "budget can't be deleted");
        return -1;
    }
    if (!py_size(value, "budget", &budget)) {
        return -1;
    }
    t = py_leave();
    names_pool_set_budget(pool_of(op)->pool, budget);
    py_return(t, 0);
    __atomic_store_n(&pool_of(op)->budget, budget, __ATOMIC_RELAXED);
    return 0;
}

static PyObject *pool_ask(PyObject *op, size_t (*ask)(struct names_pool *))
{
    struct py_thread *t = py_leave();
    size_t n = ask(pool_of(op)->pool);

    py_return(t, 0);
    return PyLong_FromSize_t(n);
}

static PyObject *pool_get_held(PyObject *op, void *closure)
{
    (void)closure;
    return pool_ask(op, names_pool_held);
}

static PyObject *pool_get_peak(PyObject *op, void *closure)
{
    (void)closure;
    return pool_ask(op, names_pool_peak);
}

static PyMethodDef pool_methods[] = {
    PY_NO_PICKLE,
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef pool_getset[] = {
    {"budget", pool_get_budget, pool_set_budget, PyDoc_STR("bytes, over all its volumes"), NULL},
    {"held", pool_get_held, NULL, PyDoc_STR("bytes held now"), NULL},
    {"peak", pool_get_peak, NULL, PyDoc_STR("the most bytes that were held"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pool_slots[] = {
    PY_SLOT(Py_tp_doc, "Pool(budget)\n--\n\nA memory budget, in bytes, for what many volumes "
                       "remember of their directories."),
    PY_SLOT(Py_tp_new, pool_new),
    PY_SLOT(Py_tp_dealloc, pool_dealloc),
    PY_SLOT(Py_tp_methods, pool_methods),
    PY_SLOT(Py_tp_getset, pool_getset),
    {0, NULL},
};

static PyType_Spec pool_spec = {
    .name = "pyexfat._core.Pool",
    .basicsize = sizeof(struct py_pool),
    .flags = PY_TYPE_FLAGS,
    .slots = pool_slots,
};

int py_env_setup(PyObject *module, struct py_state *st)
{
    st->env_type = py_add_type(module, &env_spec, NULL);
    st->pool_type = py_add_type(module, &pool_spec, NULL);
    return st->env_type && st->pool_type ? 0 : -1;
}
