/* Functions of the module: what is done with a device before or without a volume. */
#include "python/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/args.h"
#include "python/convert.h"
#include "python/device_type.h"
#include "python/errors.h"
#include "python/fat_options.h"
#include "python/gil.h"
#include "python/regional.h"

/* ---- looking ---- */

static PyObject *image_detect(PyObject *module, PyObject *arg)
{
    struct py_state *st = py_state_of(module);
    struct py_device *device = py_arg_device(st, arg);
    struct device *d = device ? py_device_enter(device) : NULL;
    struct volume_detected found;
    int rc;

    if (!d) {
        return NULL;
    }
    memset(&found, 0, sizeof found);
    PY_CALL(rc, volume_detect(d, &found));
    py_device_leave(device);
    if (rc < 0) {
        return py_device_raise(device, rc);
    }
    return rc == 0 ? Py_NewRef(Py_None) : py_detected(st, &found);
}

static PyObject *image_partitions(PyObject *module, PyObject *arg)
{
    struct py_state *st = py_state_of(module);
    struct py_device *device = py_arg_device(st, arg);
    struct device *d = device ? py_device_enter(device) : NULL;
    struct device_partition_table *table;
    struct base_error e = {0};
    PyObject *out = NULL;
    int rc = -ENOMEM;

    if (!d) {
        return NULL;
    }
    table = calloc(1, sizeof *table);
    if (table) {
        PY_CALL(rc, device_partitions_read(d, table, &e));
    }
    py_device_leave(device);
    out = rc < 0 ? py_raise(st, rc, &e, NULL, NULL) : py_partition_table(st, table);
    free(table);
    return out;
}

static PyObject *image_write_table(PyObject *module, PyObject *const *args, Py_ssize_t n,
                                   PyObject *keywords)
{
    PY_SIGNATURE(signature, "write_partition_table", 2, 2, "device", "scheme", "align", "mbr_type",
                 "type_guid", "env");
    static const char *const schemes[] = {NULL, "mbr", "gpt"};
    /* EBD0A0A2-B9E5-4433-87C0-68B6B72699C7, Microsoft basic data, as on the disk */
    uint8_t type_guid[16] = {0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44,
                             0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7};
    struct py_state *st = py_state_of(module);
    uint64_t align = 1u << 20, offset = 0, length = 0;
    struct base_error e = {0};
    struct py_device *device;
    struct env *env = NULL;
    struct device *d;
    uint32_t mbr_type = 7;
    int scheme = 0, rc;
    bool given = false;
    PyObject *in[6];

    if (!py_args(&signature, args, n, keywords, in) ||
        !py_word(in[1], "scheme", schemes, 3, &scheme) || !py_u64(in[2], "align", &align) ||
        !py_u32(in[3], "mbr_type", &mbr_type) || !py_guid(in[4], "type_guid", type_guid, &given) ||
        !py_arg_env(st, in[5], &env)) {
        return NULL;
    }
    if (mbr_type == 0 || mbr_type > 255) {
        PyErr_SetString(PyExc_ValueError, "mbr_type must be 1 to 255");
        return NULL;
    }
    device = py_arg_device(st, in[0]);
    d = device ? py_device_enter(device) : NULL;
    if (!d) {
        return NULL;
    }
    PY_CALL(rc, device_partitions_write(d, (enum device_scheme)scheme, (uint8_t)mbr_type, type_guid,
                                        align, env, &offset, &length, &e));
    py_device_leave(device);
    if (rc < 0) {
        return py_raise(st, rc, &e, NULL, NULL);
    }
    return Py_BuildValue("KK", (unsigned long long)offset, (unsigned long long)length);
}

/* ---- formatting ---- */

/* Ctrl-C stops a long format also when nobody wants to see the progress. */
static int progress(void *context, uint64_t done, uint64_t total)
{
    PyObject *function = context, *result = NULL;
    struct py_callback c;
    int stop = 0;

    py_callback_begin(&c);
    if (PyErr_CheckSignals() == 0 && function) {
        result = PyObject_CallFunction(function, "KK", (unsigned long long)done,
                                       (unsigned long long)total);
        Py_XDECREF(result);
    }
    if (PyErr_Occurred()) {
        py_callback_failed(&c, true);
        stop = 1;
    }
    py_callback_end(&c);
    return stop;
}

enum {
    DEVICE,
    FS,
    SIZE,
    SECTOR,
    CLUSTER,
    LABEL,
    SERIAL,
    UUID,
    PARTITION,
    ALIGNMENT,
    FATS,
    PACK,
    FULL,
    ENV,
    PROGRESS,
    UTC,
    ZONE,
    CODEPAGE,
    FAT,
    REHEARSE,
    FORMAT_ARGS
};

static bool format_args(struct py_state *st, PyObject *const *in, struct volume_format *f,
                        struct py_text *fs, struct py_text *label, struct py_regional *r)
{
    bool zoned = false;

    if (in[FS] && !py_text(in[FS], "fs", fs)) {
        return false;
    }
    if (in[LABEL] && !py_text(in[LABEL], "label", label)) {
        return false;
    }
    f->has_serial = in[SERIAL] && in[SERIAL] != Py_None;
    if (f->has_serial && !py_u32(in[SERIAL], "serial", &f->serial)) {
        return false;
    }
    if (!py_arg_zone_or_offset(in[ZONE], in[UTC], r, &zoned) || !py_arg_codepage(in[CODEPAGE], r)) {
        return false;
    }
    f->zone = zoned ? &r->zone : NULL;
    f->codepage = r->codepage;
    if (in[PROGRESS] && in[PROGRESS] != Py_None && !PyCallable_Check(in[PROGRESS])) {
        PyErr_SetString(PyExc_TypeError, "progress must be callable or None");
        return false;
    }
    f->fs = in[FS] ? fs->s : "exfat";
    f->label = in[LABEL] ? label->s : NULL;
    f->progress = progress;
    f->progress_context = in[PROGRESS] == Py_None ? NULL : in[PROGRESS];
    return py_u64(in[SIZE], "size", &f->size) &&
           py_u32(in[SECTOR], "sector_size", &f->sector_size) &&
           py_u32(in[CLUSTER], "cluster_size", &f->cluster_size) &&
           py_guid(in[UUID], "uuid", f->uuid, &f->has_uuid) &&
           py_u64(in[PARTITION], "partition_offset", &f->partition_offset) &&
           py_u64(in[ALIGNMENT], "alignment", &f->alignment) &&
           py_u32(in[FATS], "fats", &f->fats) && py_bool(in[PACK], &f->pack_bitmap) &&
           py_bool(in[FULL], &f->full) && py_bool(in[REHEARSE], &f->rehearse) &&
           py_arg_env(st, in[ENV], &f->env);
}

static PyObject *image_format(PyObject *module, PyObject *const *args, Py_ssize_t n,
                              PyObject *keywords)
{
    PY_SIGNATURE(signature, "format", 1, 1, "device", "fs", "size", "sector_size", "cluster_size",
                 "label", "serial", "uuid", "partition_offset", "alignment", "fats", "pack_bitmap",
                 "full", "env", "progress", "utc_offset", "zone", "codepage", "fat", "rehearse");
    struct py_state *st = py_state_of(module);
    struct py_text fs = {0}, label = {0};
    struct py_fat_options fat = {0};
    struct py_regional regional = {0};
    struct base_error e = {0};
    PyObject *in[FORMAT_ARGS], *out = NULL;
    struct py_device *device;
    struct volume_format f;
    struct device *d;
    int rc;

    volume_format_init(&f);
    if (!py_args(&signature, args, n, keywords, in)) {
        return NULL;
    }
    if (!format_args(st, in, &f, &fs, &label, &regional) || !py_fat_options(in[FAT], &f, &fat)) {
        goto out;
    }
    device = py_arg_device(st, in[DEVICE]);
    d = device ? py_device_enter(device) : NULL;
    if (!d) {
        goto out;
    }
    PY_CALL(rc, volume_format_device(d, &f, &e));
    py_device_leave(device);
    out = rc < 0 ? py_raise(st, rc, &e, NULL, NULL) : Py_NewRef(Py_None);
out:
    py_text_done(&fs);
    py_text_done(&label);
    py_regional_done(&regional);
    py_fat_options_done(&fat);
    return out;
}

/* ---- the rest ---- */

static PyObject *image_mount(PyObject *module, PyObject *args, PyObject *keywords)
{
    return PyObject_Call((PyObject *)py_state_of(module)->volume_type, args, keywords);
}

static PyObject *image_default_policy(PyObject *module, PyObject *unused)
{
    struct volume_options o;

    (void)module;
    (void)unused;
    volume_options_init(&o);
    return py_policy_dict(&o.policy);
}

static int add_tuple(PyObject *module, const char *name, const char *const *words, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    int rc;

    for (Py_ssize_t i = 0; tuple && i < n; i++) {
        PyObject *word = PyUnicode_FromString(words[i]);

        if (!word || PyTuple_SetItem(tuple, i, word)) {
            Py_CLEAR(tuple);
        }
    }
    rc = tuple ? PyModule_AddObjectRef(module, name, tuple) : -1;
    Py_XDECREF(tuple);
    return rc;
}

int py_image_setup(PyObject *module)
{
    const char *structures[DEVICE_STRUCTURES], *systems[] = {"exfat", "fat12", "fat16", "fat32"};

    for (int i = 0; i < DEVICE_STRUCTURES; i++) {
        structures[i] = device_structure_name((enum device_structure)i);
    }
    if (add_tuple(module, "STRUCTURES", structures, DEVICE_STRUCTURES)) {
        return -1;
    }
    return add_tuple(module, "FILE_SYSTEMS", systems, sizeof systems / sizeof *systems);
}

PyMethodDef py_module_methods[] = {
    {"mount", PY_METHOD(image_mount), METH_VARARGS | METH_KEYWORDS,
     PY_DOC("mount($module, /, device, *, fs=None, writable=False, use_backup=False, sync='lazy', "
            "policy=None, env=None, pool=None, utc_offset=None, zone=None, local_zone=None, "
            "codepage=None)",
            "Opens the file system on a device: Volume(device, ...).")},
    {"detect", image_detect, METH_O,
     PY_DOC("detect($module, device, /)",
            "What file system starts at the device's first byte: Detected, or None.\n\nReads at "
            "most 64 KiB.")},
    {"format", PY_METHOD(image_format), METH_FASTCALL | METH_KEYWORDS,
     PY_DOC(
         "format($module, /, device, *, fs='exfat', size=0, sector_size=0, cluster_size=0, "
         "label='', serial=None, uuid=None, partition_offset=0, alignment=0, fats=0, "
         "pack_bitmap=False, full=False, env=None, progress=None, utc_offset=None, zone=None, "
         "codepage=None, fat=None, rehearse=False)",
         "Makes a new file system on a device; sizes are bytes, 0 means the default.\n\n"
         "fat: a dict of what only FAT has. full writes zeros over all of it and calls "
         "progress(done, total) now and then. rehearse says what is wrong, and writes nothing.")},
    {"partitions", image_partitions, METH_O,
     PY_DOC("partitions($module, device, /)",
            "The partition table of a disk (MBR with logical partitions, or GPT).")},
    {"write_partition_table", PY_METHOD(image_write_table), METH_FASTCALL | METH_KEYWORDS,
     PY_DOC("write_partition_table($module, /, device, scheme, *, align=1048576, mbr_type=7, "
            "type_guid=None, env=None)",
            "Writes a table with one partition over the whole disk; returns (offset, length).\n\n"
            "type_guid None: Microsoft basic data.")},
    {"default_policy", image_default_policy, METH_NOARGS,
     PY_DOC("default_policy($module, /)", "The policy of a volume that is given none.")},
    {NULL, NULL, 0, NULL},
};
