/* Faults: a device that fails, tears or drops operations by rules. */
#include "python/core.h"

#include <errno.h>

#include "python/args.h"
#include "python/device_type.h"
#include "python/errors.h"
#include "python/gil.h"

static const char *const ops[] = {"read", "write", "flush",
                                  "discard"}; /* bit i of enum device_fault_op */
static const char *const actions[] = {
    [DEVICE_FAULT_FAIL] = "fail",
    [DEVICE_FAULT_TEAR] = "tear",
    [DEVICE_FAULT_DROP] = "drop",
    [DEVICE_FAULT_DIE] = "die",
};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static PyObject *faults_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PY_SIGNATURE(signature, "Faults", 1, 1, "device");
    struct device *d, *made = NULL;
    struct py_device *below;
    struct py_state *st = py_state_of_subtype(type);
    PyObject *in[1];
    int rc;

    if (!st || !py_args_call(&signature, args, keywords, in)) {
        return NULL;
    }
    below = py_arg_device(st, in[0]);
    d = below ? py_device_enter(below) : NULL;
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, device_faults_new(d, &made));
    py_device_leave(below);
    if (rc < 0) {
        return py_device_raise(below, rc);
    }
    return py_device_new(st, (PyObject *)type, made, "faults", in[0], NULL);
}

/* A word or several words: bits. */
static bool ops_arg(PyObject *o, uint32_t *out)
{
    PyObject *iterator, *item;
    int op = 0;

    if (!o) {
        return true;
    }
    *out = 0;
    if (PyUnicode_Check(o)) {
        if (!py_word(o, "ops", ops, COUNT(ops), &op)) {
            return false;
        }
        *out = 1u << op;
        return true;
    }
    iterator = PyObject_GetIter(o);
    if (!iterator) {
        return false;
    }
    while ((item = PyIter_Next(iterator))) {
        bool ok = py_word(item, "ops", ops, COUNT(ops), &op);

        Py_DECREF(item);
        if (!ok) {
            break;
        }
        *out |= 1u << op;
    }
    Py_DECREF(iterator);
    if (!PyErr_Occurred() && *out == 0) {
        PyErr_SetString(PyExc_ValueError, "ops must not be empty");
    }
    return !PyErr_Occurred();
}

static bool structure_arg(PyObject *o, int32_t *out)
{
    const char *names[DEVICE_STRUCTURES];
    int found = -1;

    for (int i = 0; i < DEVICE_STRUCTURES; i++) {
        names[i] = device_structure_name((enum device_structure)i);
    }
    if (o && o != Py_None && !py_word(o, "structure", names, DEVICE_STRUCTURES, &found)) {
        return false;
    }
    *out = found;
    return true;
}

static bool read_rule(PyObject *const *in, struct device_fault *rule)
{
    uint32_t error = EIO;
    int action = DEVICE_FAULT_FAIL;

    *rule = (struct device_fault){.ops = DEVICE_FAULT_WRITE};
    if (!ops_arg(in[0], &rule->ops) || !py_u64(in[1], "nth", &rule->nth) ||
        !py_u64(in[2], "times", &rule->times) || !py_u64(in[3], "offset", &rule->offset) ||
        !py_u64(in[4], "length", &rule->n) || !structure_arg(in[5], &rule->structure) ||
        !py_u64(in[8], "keep", &rule->keep) || !py_u32(in[7], "error", &error) ||
        (in[6] && !py_word(in[6], "action", actions, COUNT(actions), &action))) {
        return false;
    }
    if (error > 4095) { /* the highest number of an errno */
        PyErr_SetString(PyExc_ValueError, "error must be an errno");
        return false;
    }
    rule->action = (enum device_fault_action)action;
    rule->error = (int32_t)error;
    return true;
}

static PyObject *faults_add(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PY_SIGNATURE(signature, "add", 0, 9, "ops", "nth", "times", "offset", "length", "structure",
                 "action", "error", "keep");
    struct py_device *self = py_device_of(op);
    struct device_fault rule;
    struct device *d;
    PyObject *in[9];
    int rc;

    if (!py_args(&signature, args, n, keywords, in) || !read_rule(in, &rule)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, device_faults_add(d, &rule));
    py_device_leave(self);
    if (rc == -EINVAL) {
        PyErr_SetString(PyExc_ValueError, "error must be an errno for 'fail' and 'die'");
        return NULL;
    }
    return rc < 0 ? py_device_raise(self, rc) : Py_NewRef(Py_None);
}

static PyObject *faults_clear(PyObject *op, PyObject *unused)
{
    struct py_device *self = py_device_of(op);
    struct device *d = py_device_enter(self);
    struct py_thread *t;

    (void)unused;
    if (!d) {
        return NULL;
    }
    t = py_leave();
    device_faults_clear(d);
    py_return(t, 0);
    py_device_leave(self);
    return Py_NewRef(Py_None);
}

static PyObject *faults_count(PyObject *op, PyObject *arg)
{
    struct py_device *self = py_device_of(op);
    struct device *d;
    struct py_thread *t;
    uint64_t count;
    int which = 0;

    if (!py_word(arg, "op", ops, COUNT(ops), &which)) {
        return NULL;
    }
    d = py_device_enter(self);
    if (!d) {
        return NULL;
    }
    t = py_leave();
    count = device_faults_count(d, 1u << which);
    py_return(t, 0);
    py_device_leave(self);
    return PyLong_FromUnsignedLongLong(count);
}

static PyMethodDef faults_methods[] = {
    {"add", PY_METHOD(faults_add), METH_FASTCALL | METH_KEYWORDS,
     PY_DOC("add($self, /, ops='write', nth=0, times=0, offset=0, length=0, structure=None, "
            "action='fail', error=5, keep=0)",
            "Adds a rule; the first rule that matches an operation decides.\n\n"
            "nth 0 means every matching operation; times 0 means once when nth is given, else for "
            "ever.\naction: 'fail' does nothing and reports error; 'tear' stores the first `keep` "
            "bytes of a write\nand reports error (0: success); 'drop' does nothing and reports "
            "success; 'die' fails this and all\nlater operations.")},
    {"clear", faults_clear, METH_NOARGS,
     PY_DOC("clear($self, /)", "Takes all rules away; a device that died is alive again.")},
    {"count", faults_count, METH_O,
     PY_DOC("count($self, op, /)", "How many operations of a kind there were.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot faults_slots[] = {
    PY_SLOT(Py_tp_doc, "Faults(device)\n--\n\nFails, tears or drops operations by rules."),
    PY_SLOT(Py_tp_new, faults_new),
    PY_SLOT(Py_tp_dealloc, py_device_dealloc),
    PY_SLOT(Py_tp_traverse, py_device_traverse),
    PY_SLOT(Py_tp_clear, py_device_clear),
    PY_SLOT(Py_tp_methods, faults_methods),
    {0, NULL},
};

static PyType_Spec faults_spec = {
    .name = "pyexfat._core.Faults",
    .basicsize = sizeof(struct py_device),
    .flags = PY_TYPE_FLAGS | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = faults_slots,
};

int py_faults_setup(PyObject *module, struct py_state *st)
{
    st->faults_type = py_add_type(module, &faults_spec, st->device_type);
    return st->faults_type ? 0 : -1;
}
