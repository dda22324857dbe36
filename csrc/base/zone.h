/* Time zones: minutes east of UTC, which may change at given seconds. */
#ifndef PYEXFAT_BASE_ZONE_H
#define PYEXFAT_BASE_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_ZONE_CHANGES_MAX 65536u
#define BASE_ZONE_MINUTES_MAX 1439 /* either side of UTC */

struct base_zone_change {
    int64_t from;    /* second since 1970 UTC from which the offset holds */
    int16_t minutes; /* east of UTC */
};

/* All zero: UTC. */
struct base_zone {
    int16_t first;  /* minutes before all changes */
    uint32_t count; /* changes */
    int64_t *utc;   /* second from which each holds; the one allocation, local and minutes follow */
    int64_t *local; /* the same in local time */
    int16_t *minutes;
};

/* The first item's offset holds before it too, so a fixed offset is one item. -EINVAL: none or too
 * many, not in order of time, or an offset of a day or more. Free with base_zone_free. */
int base_zone_init(struct base_zone *z, const struct base_zone_change *items, size_t n);
int base_zone_copy(struct base_zone *z, const struct base_zone *from);
void base_zone_free(struct base_zone *z); /* it is UTC then */

static inline bool base_zone_is_fixed(const struct base_zone *z)
{
    return z->count == 0;
}
/* Minutes at a moment; ns since 1970 UTC. */
int16_t base_zone_offset_utc(const struct base_zone *z, int64_t ns);
/* Minutes at a local time. Of a time that comes twice the first is meant; a time that is skipped is
 * counted on from before the change, so it comes out later (as datetime's fold=0 in Python). */
int16_t base_zone_offset_local(const struct base_zone *z, int64_t local_ns);

#endif
