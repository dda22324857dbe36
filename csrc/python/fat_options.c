/* From a dict of options to struct volume_format_fat. */
#include "python/fat_options.h"

#include <string.h>

enum {
    RESERVED,
    ROOT,
    HEADS,
    TRACK,
    HIDDEN,
    BACKUP,
    MEDIA,
    DRIVE,
    MBR,
    ATARI,
    OEM,
    MESSAGE,
    BAD,
    OPTIONS
};

static bool given(PyObject *o)
{
    return o && o != Py_None;
}

static bool optional_u32(PyObject *o, const char *name, uint32_t *out)
{
    return !given(o) || py_u32(o, name, out);
}

static bool optional_byte(PyObject *o, const char *name, uint8_t *out)
{
    uint32_t value = *out;

    if (!optional_u32(o, name, &value)) {
        return false;
    }
    if (value > UINT8_MAX) {
        PyErr_Format(PyExc_ValueError, "%s must be at most 255", name);
        return false;
    }
    *out = (uint8_t)value;
    return true;
}

static bool optional_text(PyObject *o, const char *name, struct py_text *keep, const char **out)
{
    if (!given(o)) {
        return true;
    }
    if (!py_text(o, name, keep)) {
        return false;
    }
    for (const char *p = keep->s; *p; p++) {
        if ((unsigned char)*p >= 0x80) {
            PyErr_Format(PyExc_ValueError, "%s must be ASCII", name);
            return false;
        }
    }
    *out = keep->s;
    return true;
}

static bool take_bad_blocks(PyObject *o, struct volume_format_fat *fat, struct py_fat_options *keep)
{
    PyObject *list = given(o) ? PySequence_List(o) : NULL;
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    bool ok = list || !given(o);

    if (n > 0) {
        keep->bad_blocks = PyMem_Calloc((size_t)n, sizeof *keep->bad_blocks);
        ok = keep->bad_blocks != NULL;
        if (!ok) {
            PyErr_NoMemory();
        }
    }
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        ok = py_u64(PyList_GetItem(list, i), "bad_blocks", &keep->bad_blocks[i]);
    }
    fat->bad_blocks = keep->bad_blocks;
    fat->bad_blocks_n = (size_t)n;
    Py_XDECREF(list);
    return ok;
}

static bool take(PyObject *const *in, struct volume_format_fat *fat, struct py_fat_options *keep)
{
    fat->has_hidden = given(in[HIDDEN]);
    fat->has_backup = given(in[BACKUP]);
    fat->has_drive = given(in[DRIVE]);
    return optional_u32(in[RESERVED], "reserved_sectors", &fat->reserved_sectors) &&
           optional_u32(in[ROOT], "root_entries", &fat->root_entries) &&
           optional_u32(in[HEADS], "heads", &fat->heads) &&
           optional_u32(in[TRACK], "sectors_per_track", &fat->sectors_per_track) &&
           optional_u32(in[HIDDEN], "hidden_sectors", &fat->hidden_sectors) &&
           optional_u32(in[BACKUP], "backup_sector", &fat->backup_sector) &&
           optional_byte(in[MEDIA], "media", &fat->media) &&
           optional_byte(in[DRIVE], "drive", &fat->drive) && py_bool(in[MBR], &fat->mbr) &&
           py_bool(in[ATARI], &fat->atari) &&
           optional_text(in[OEM], "oem_name", &keep->oem_name, &fat->oem_name) &&
           optional_text(in[MESSAGE], "boot_message", &keep->boot_message, &fat->boot_message) &&
           take_bad_blocks(in[BAD], fat, keep);
}

bool py_fat_options(PyObject *dict, struct volume_format *f, struct py_fat_options *keep)
{
    PY_SIGNATURE(signature, "fat", 0, 0, "reserved_sectors", "root_entries", "heads",
                 "sectors_per_track", "hidden_sectors", "backup_sector", "media", "drive", "mbr",
                 "atari", "oem_name", "boot_message", "bad_blocks");
    PyObject *in[OPTIONS], *empty;
    bool ok;

    if (!given(dict)) {
        return true;
    }
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "fat must be a dict");
        return false;
    }
    if (strncmp(f->fs, "fat", 3) != 0) {
        PyErr_Format(PyExc_ValueError, "fat: %s has none of these options", f->fs);
        return false;
    }
    empty = PyTuple_New(0);
    ok = empty && py_args_call(&signature, empty, dict, in) && take(in, &f->fat, keep);
    Py_XDECREF(empty);
    return ok;
}

void py_fat_options_done(struct py_fat_options *keep)
{
    py_text_done(&keep->oem_name);
    py_text_done(&keep->boot_message);
    PyMem_Free(keep->bad_blocks);
}
