/* A code page in memory: what codepage.c and the generated codepage_437.c share. */
#ifndef PYEXFAT_FAT_CODEPAGE_H
#define PYEXFAT_FAT_CODEPAGE_H

#include <stdint.h>

#include "fat/fat.h"

/* A code is a byte, or lead << 8 | trail. Pages in which nothing is mapped are NULL. */
struct fat_codepage {
    const uint16_t *units[256]; /* by lead byte, then trail; [0]: by single byte. 0xFFFF: none */
    const uint16_t *codes[256]; /* by high byte of the unit, then low byte. 0: none */
    uint16_t *memory;           /* of all pages; NULL: they are constant data */
};
extern const struct fat_codepage fat_codepage_437;

#endif
