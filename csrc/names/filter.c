/* Bloom filter of the names that may exist in one directory.
 *
 * 4 bits per entry of the directory: a name takes three entries or more, so 12 bits a name, three
 * probes, 22 % of the bits set by a full directory and 1.1 % false positives; at a third of the
 * bits set, where the filter is given up, 3.7 %. Names that are removed stay in it until it is
 * built anew.
 */
#include "names/internal.h"

#include <stdlib.h>

#define PROBES 3u

size_t names_filter_size(uint32_t entries)
{
    size_t bytes = (size_t)(entries / 2); /* 4 bits each */
    bytes = (size_t)base_max(bytes, NAMES_FILTER_MIN);
    return (size_t)base_min(bytes, NAMES_FILTER_MAX);
}

bool names_filter_make(struct names_dir *d, size_t bytes)
{
    if (!names_reserve(d, bytes)) {
        return false;
    }
    uint8_t *bits = calloc(1, bytes);
    if (bits == NULL) {
        names_release(d, bytes);
        return false;
    }
    d->filter = (struct names_filter){.bits = bits, .bytes = bytes, .limit = bytes * 8 / 3};
    return true;
}

void names_filter_free(struct names_dir *d)
{
    if (d->filter.bits != NULL) {
        names_counters_of(d)->filter_drops += d->filter_complete;
        names_release(d, d->filter.bytes);
        free(d->filter.bits);
    }
    d->filter = (struct names_filter){0};
    d->filter_complete = d->building_filter = false;
}

/* Probe k of a tag, by double hashing of the mixed tag, scaled to the number of bits. */
static size_t probe(const struct names_filter *f, uint64_t mixed, uint32_t k)
{
    uint32_t x = (uint32_t)mixed + k * ((uint32_t)(mixed >> 32) | 1u);
    return (size_t)(((uint64_t)x * (f->bytes * 8)) >> 32);
}

static uint64_t mix(uint32_t tag)
{
    uint64_t x = (tag + UINT64_C(0x632be59bd9b4e019)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

void names_filter_add(struct names_filter *f, uint32_t tag)
{
    uint64_t mixed = mix(tag);
    for (uint32_t k = 0; k < PROBES; k++) {
        size_t bit = probe(f, mixed, k);
        uint8_t mask = (uint8_t)(1u << (bit & 7));
        f->set += (f->bits[bit >> 3] & mask) == 0;
        f->bits[bit >> 3] |= mask;
    }
}

bool names_filter_test(const struct names_filter *f, uint32_t tag)
{
    uint64_t mixed = mix(tag);
    for (uint32_t k = 0; k < PROBES; k++) {
        size_t bit = probe(f, mixed, k);
        if ((f->bits[bit >> 3] & (1u << (bit & 7))) == 0) {
            return false;
        }
    }
    return true;
}

/* Names of a single entry each (or more names than the largest filter has room for) set over a
 * third at once. Such a filter still rejects most misses: it is kept until half as many bits again
 * are set, which takes adds in proportion to the directory, so that building it anew costs each of
 * them a constant. */
void names_filter_settle(struct names_filter *f)
{
    f->limit = (size_t)base_max(f->bytes * 8 / 3, f->set + f->set / 2);
}
