/* What only FAT has of the arguments of format: a dict. */
#ifndef PYEXFAT_PYTHON_FAT_OPTIONS_H
#define PYEXFAT_PYTHON_FAT_OPTIONS_H

#include "python/args.h"
#include "volume/volume.h"

/* What the options point to. */
struct py_fat_options {
    struct py_text oem_name, boot_message;
    uint64_t *bad_blocks;
};

/* NULL and None: none are given. ValueError where the file system is not FAT. */
bool py_fat_options(PyObject *dict, struct volume_format *f, struct py_fat_options *keep);
void py_fat_options_done(struct py_fat_options *keep);

#endif
