/* The module: state, types, constants. */
#include "python/core.h"

#include <string.h>

#include "volume/volume.h"

struct py_state *py_state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

/* ---- types ---- */

PyTypeObject *py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, (PyObject *)base);

    if (type && PyModule_AddType(module, (PyTypeObject *)type)) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

PyObject *py_alloc(PyTypeObject *type)
{
    if (!type) { /* while the interpreter ends */
        PyErr_SetString(PyExc_RuntimeError, "pyexfat has been unloaded");
        return NULL;
    }
    return PyType_GenericAlloc(type, 0);
}

void py_free(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    if (PyType_GetFlags(type) & Py_TPFLAGS_HAVE_GC) {
        PyObject_GC_Del(op);
    } else {
        PyObject_Free(op);
    }
    Py_DECREF(type);
}

PyObject *py_refuse_pickle(PyObject *op, PyObject *unused)
{
    PyObject *name = PyType_GetName(Py_TYPE(op));

    (void)unused;
    if (name) {
        PyErr_Format(PyExc_TypeError, "cannot pickle %R object", name);
        Py_DECREF(name);
    }
    return NULL;
}

/* ---- state ---- */

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct py_state *st = py_state_of(module);

    Py_VISIT(st->device_type);
    Py_VISIT(st->recorder_type);
    Py_VISIT(st->faults_type);
    Py_VISIT(st->volume_type);
    Py_VISIT(st->handle_type);
    Py_VISIT(st->stat_type);
    Py_VISIT(st->env_type);
    Py_VISIT(st->pool_type);
    Py_VISIT(st->corrupt_error);
    Py_VISIT(st->unsupported_error);
    Py_VISIT(st->where);
    Py_VISIT(st->detected);
    Py_VISIT(st->partition);
    Py_VISIT(st->partition_table);
    Py_VISIT(st->extent);
    Py_VISIT(st->statfs);
    Py_VISIT(st->log_entry);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct py_state *st = py_state_of(module);

    Py_CLEAR(st->device_type);
    Py_CLEAR(st->recorder_type);
    Py_CLEAR(st->faults_type);
    Py_CLEAR(st->volume_type);
    Py_CLEAR(st->handle_type);
    Py_CLEAR(st->stat_type);
    Py_CLEAR(st->env_type);
    Py_CLEAR(st->pool_type);
    Py_CLEAR(st->corrupt_error);
    Py_CLEAR(st->unsupported_error);
    Py_CLEAR(st->where);
    Py_CLEAR(st->detected);
    Py_CLEAR(st->partition);
    Py_CLEAR(st->partition_table);
    Py_CLEAR(st->extent);
    Py_CLEAR(st->statfs);
    Py_CLEAR(st->log_entry);
    return 0;
}

static void module_free(void *module)
{
    struct py_state *st = py_state_of(module);

    module_clear(module);
    for (int i = 0; i < PY_NAMES; i++) {
        Py_CLEAR(st->names[i]);
    }
}

struct wanted {
    const char *name;
    PyObject **to;
};

static int import_names(const char *module, const struct wanted *w, size_t n)
{
    PyObject *m = PyImport_ImportModule(module);
    int rc = m ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        *w[i].to = PyObject_GetAttrString(m, w[i].name);
        rc = *w[i].to ? 0 : -1;
    }
    Py_XDECREF(m);
    return rc;
}

static int import_classes(struct py_state *st)
{
    const struct wanted errors[] = {
        {"CorruptImageError", &st->corrupt_error},
        {"UnsupportedFeatureError", &st->unsupported_error},
        {"Where", &st->where},
    };
    const struct wanted records[] = {
        {"Detected", &st->detected},
        {"Partition", &st->partition},
        {"PartitionTable", &st->partition_table},
        {"Extent", &st->extent},
        {"Usage", &st->statfs},
        {"LogEntry", &st->log_entry},
    };

    if (import_names("pyexfat._errors", errors, sizeof errors / sizeof *errors)) {
        return -1;
    }
    return import_names("pyexfat._records", records, sizeof records / sizeof *records);
}

static int intern_names(struct py_state *st)
{
    static const char *const names[PY_NAMES] = {
        [PY_NAME_FLUSH] = "flush",       [PY_NAME_READ] = "read",   [PY_NAME_READINTO] = "readinto",
        [PY_NAME_SEEK] = "seek",         [PY_NAME_TELL] = "tell",   [PY_NAME_TRUNCATE] = "truncate",
        [PY_NAME_WRITABLE] = "writable", [PY_NAME_WRITE] = "write",
    };

    for (int i = 0; i < PY_NAMES; i++) {
        st->names[i] = PyUnicode_InternFromString(names[i]);
        if (!st->names[i]) {
            return -1;
        }
    }
    return 0;
}

static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"OPEN_READ", VOLUME_OPEN_READ},
        {"OPEN_WRITE", VOLUME_OPEN_WRITE},
        {"OPEN_CREATE", VOLUME_OPEN_CREATE},
        {"OPEN_EXCLUSIVE", VOLUME_OPEN_EXCLUSIVE},
        {"OPEN_TRUNCATE", VOLUME_OPEN_TRUNCATE},
        {"OPEN_APPEND", VOLUME_OPEN_APPEND},
        {"ATTR_READ_ONLY", VOLUME_READ_ONLY},
        {"ATTR_HIDDEN", VOLUME_HIDDEN},
        {"ATTR_SYSTEM", VOLUME_SYSTEM},
        {"ATTR_DIRECTORY", VOLUME_ATTR_DIRECTORY},
        {"ATTR_ARCHIVE", VOLUME_ARCHIVE},
        {"KIND_NONE", 0},
        {"KIND_FILE", VOLUME_FILE},
        {"KIND_DIRECTORY", VOLUME_DIRECTORY},
    };

    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value)) {
            return -1;
        }
    }
    return 0;
}

static int module_exec(PyObject *module)
{
    struct py_state *st = py_state_of(module);

    if (intern_names(st) || import_classes(st) || add_constants(module) ||
        py_device_setup(module, st) || py_recorder_setup(module, st) ||
        py_faults_setup(module, st) || py_env_setup(module, st) || py_stat_setup(module, st) ||
        py_volume_setup(module, st) || py_handle_setup(module, st)) {
        return -1;
    }
    return py_image_setup(module);
}

/* ---- definition ---- */

/* Later versions of Python than the one whose stable ABI is used know more slots; they refuse none
 * of these numbers. */
#define SLOT_INTERPRETERS 3           /* Py_mod_multiple_interpreters, 3.12 */
#define OWN_GIL_SUPPORTED ((void *)2) /* Py_MOD_PER_INTERPRETER_GIL_SUPPORTED */
#define SLOT_GIL 4                    /* Py_mod_gil, 3.13 */
#define GIL_NOT_USED ((void *)1)      /* Py_MOD_GIL_NOT_USED */

static PyModuleDef_Slot slots[][4] = {
    {PY_SLOT(Py_mod_exec, module_exec)},
    {PY_SLOT(Py_mod_exec, module_exec), {SLOT_INTERPRETERS, OWN_GIL_SUPPORTED}},
    {PY_SLOT(Py_mod_exec, module_exec),
     {SLOT_INTERPRETERS, OWN_GIL_SUPPORTED},
     {SLOT_GIL, GIL_NOT_USED}},
};

#define DEFINITION(which)                                                                          \
    {                                                                                              \
        PyModuleDef_HEAD_INIT,                                                                     \
            .m_name = "pyexfat._core",                                                             \
            .m_doc = PyDoc_STR("The C core of pyexfat; see pyexfat for what people use."),         \
            .m_size = sizeof(struct py_state), .m_methods = py_module_methods,                     \
            .m_slots = slots[which], .m_traverse = module_traverse, .m_clear = module_clear,       \
            .m_free = module_free                                                                  \
    }
static PyModuleDef definitions[] = {DEFINITION(0), DEFINITION(1), DEFINITION(2)};

struct py_state *py_state_of_subtype(PyTypeObject *type)
{
    for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
        PyObject *module = PyType_GetModule(type);
        PyModuleDef *definition = module ? PyModule_GetDef(module) : NULL;

        PyErr_Clear();
        if (definition >= definitions && definition < definitions + 3) {
            return py_state_of(module);
        }
    }
    PyErr_SetString(PyExc_TypeError, "not a type of pyexfat");
    return NULL;
}

PyMODINIT_FUNC PyInit__core(void)
{
    int which = Py_Version >= 0x030D0000 ? 2 : Py_Version >= 0x030C0000 ? 1 : 0;

    return PyModuleDef_Init(&definitions[which]);
}
