/* Looking at a device without mounting: a few reads within a budget, for the drivers' detect. */
#ifndef PYEXFAT_VOLUME_PEEK_H
#define PYEXFAT_VOLUME_PEEK_H

#include "device/device.h"

enum {
    VOLUME_PEEK = 4096,             /* bytes that may be asked for at a time */
    VOLUME_PEEK_BUDGET = 64 * 1024, /* bytes that a detection may read */
};

struct volume_peek {
    struct device *d;
    uint64_t left; /* of the budget */
    uint8_t buffer[2 * VOLUME_PEEK];
};

/* Reads the device's sectors around n bytes, n <= VOLUME_PEEK: where those are in the buffer, or
 * NULL when they cannot be had. */
const uint8_t *volume_peek_at(struct volume_peek *p, uint64_t offset, size_t n);

#endif
