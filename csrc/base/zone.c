/* Offsets by binary search. */
#include "base/zone.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_SECOND INT64_C(1000000000)
/* Some ten thousand years, so that adding a day can't overflow. */
#define SECONDS_MAX (INT64_C(1) << 40)

static bool are_sound(const struct base_zone_change *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].minutes < -BASE_ZONE_MINUTES_MAX || items[i].minutes > BASE_ZONE_MINUTES_MAX ||
            items[i].from < -SECONDS_MAX || items[i].from > SECONDS_MAX ||
            (i > 0 && items[i].from <= items[i - 1].from)) {
            return false;
        }
    }
    return n > 0 && n <= BASE_ZONE_CHANGES_MAX;
}

static int allocate(struct base_zone *z, int16_t first, uint32_t count)
{
    *z = (struct base_zone){.first = first};
    if (count == 0) {
        return 0;
    }
    z->utc = malloc(count * (2 * sizeof *z->utc + sizeof *z->minutes));
    if (!z->utc) {
        return -ENOMEM;
    }
    z->count = count;
    z->local = z->utc + count;
    z->minutes = (int16_t *)(z->local + count);
    return 0;
}

int base_zone_init(struct base_zone *z, const struct base_zone_change *items, size_t n)
{
    int64_t last = INT64_MIN;
    int rc;

    *z = (struct base_zone){0};
    if (!are_sound(items, n)) {
        return -EINVAL;
    }
    rc = allocate(z, items[0].minutes, (uint32_t)(n - 1));
    for (uint32_t i = 0; i < z->count; i++) {
        int16_t before = items[i].minutes, after = items[i + 1].minutes;
        /* The old offset holds until the time that is skipped, or comes twice, is over. */
        int64_t local = items[i + 1].from + INT64_C(60) * (before > after ? before : after);

        /* Changes within a day of each other could come in the other order in local time. */
        last = local > last ? local : last;
        z->utc[i] = items[i + 1].from;
        z->local[i] = last;
        z->minutes[i] = after;
    }
    return rc;
}

int base_zone_copy(struct base_zone *z, const struct base_zone *from)
{
    int rc = allocate(z, from->first, from->count);

    if (z->count > 0) {
        memcpy(z->utc, from->utc, z->count * sizeof *z->utc);
        memcpy(z->local, from->local, z->count * sizeof *z->local);
        memcpy(z->minutes, from->minutes, z->count * sizeof *z->minutes);
    }
    return rc;
}

void base_zone_free(struct base_zone *z)
{
    free(z->utc);
    *z = (struct base_zone){0};
}

static int16_t offset_at(const struct base_zone *z, const int64_t *starts, int64_t ns)
{
    int64_t second;
    uint32_t low = 0, high = z->count; /* changes below low have come, those from high on not */

    if (high == 0) { /* as most zones of images */
        return z->first;
    }
    second = ns / NS_PER_SECOND - (ns % NS_PER_SECOND < 0 ? 1 : 0);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (starts[middle] <= second) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? z->minutes[low - 1] : z->first;
}

int16_t base_zone_offset_utc(const struct base_zone *z, int64_t ns)
{
    return offset_at(z, z->utc, ns);
}

int16_t base_zone_offset_local(const struct base_zone *z, int64_t local_ns)
{
    return offset_at(z, z->local, local_ns);
}
