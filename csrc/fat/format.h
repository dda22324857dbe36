/* What the files that make a FAT volume share: layout.c, floppy.c, stub.c, format.c. */
#ifndef PYEXFAT_FAT_FORMAT_H
#define PYEXFAT_FAT_FORMAT_H

#include "fat/fat.h"

enum { FAT_BOOT_BYTES = 512 }; /* the boot sector's content, whatever the sector size */

/* A volume to be made. */
struct fat_plan {
    struct fat_geometry g; /* all but label, dirty and hard_error */
    uint32_t heads, sectors_per_track;
    uint8_t drive;
    bool atari, has_label;
    uint8_t label[FAT_LABEL_BYTES]; /* "NO NAME    " when it has none */
};
int fat_plan_make(const struct device *d, const struct volume_format *f, struct fat_plan *p,
                  struct base_error *e);

/* ---- floppy.c ---- */
/* What a medium of a size usually has. */
struct fat_usual {
    uint32_t heads, sectors_per_track;
    uint32_t per_cluster; /* sectors, to begin with, of FAT12 and FAT16 */
    uint32_t root_entries;
    uint8_t media;
};
void fat_usual_geometry(uint64_t size, uint64_t sectors, bool atari, struct fat_usual *out);

/* ---- stub.c ---- */
/* Jump and boot code that prints a message. at: where the code begins; end: where it must end. */
int fat_stub_build(uint8_t *boot, uint32_t at, uint32_t end, const char *message,
                   struct base_error *e);

#endif
