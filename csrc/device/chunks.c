/* Chunks in a map, and sets of chunk numbers. */
#include "device/chunks.h"
#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int device_chunks_drop(struct base_map *m, uint64_t first, uint64_t last, void (*release)(void *))
{
    struct base_map kept;
    size_t cursor = 0, stay = 0;
    uint64_t key;
    void *chunk;

    if (first >= last || m->count == 0) {
        return 0;
    }
    if (last - first <= m->count) {
        for (uint64_t k = first; k < last; k++) {
            if ((chunk = base_map_remove(m, k))) {
                release(chunk);
            }
        }
        return 0;
    }
    /* Those that stay move to a new table, since a table cannot shrink while it is gone through. */
    while (base_map_next(m, &cursor, &key)) {
        stay += key < first || key >= last;
    }
    base_map_init(&kept);
    if (base_map_reserve(&kept, stay) != 0) {
        return -ENOMEM;
    }
    cursor = 0;
    while ((chunk = base_map_next(m, &cursor, &key))) {
        if ((key < first || key >= last) && base_map_put(&kept, key, chunk) != 0) {
            base_map_free(&kept);
            return -ENOMEM;
        }
    }
    cursor = 0;
    while ((chunk = base_map_next(m, &cursor, &key))) {
        if (key >= first && key < last) {
            release(chunk);
        }
    }
    base_map_free(m);
    *m = kept;
    return 0;
}

void device_chunks_drop_all(struct base_map *m, void (*release)(void *))
{
    size_t cursor = 0;
    void *chunk;

    while ((chunk = base_map_next(m, &cursor, NULL))) {
        release(chunk);
    }
    base_map_free(m);
}

int device_ranges_reserve(struct device_ranges *r)
{
    struct device_range *v = base_grow(r->v, r->n, 1, &r->cap, 8, sizeof *v);

    if (!v) {
        return -ENOMEM;
    }
    r->v = v;
    return 0;
}

/* The first range that ends at or after k. */
static size_t lower_bound(const struct device_ranges *r, uint64_t k)
{
    size_t low = 0, high = r->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (r->v[middle].last < k) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void device_ranges_add(struct device_ranges *r, uint64_t first, uint64_t last)
{
    size_t at = lower_bound(r, first), end = at;

    if (first >= last) {
        return;
    }
    while (end < r->n && r->v[end].first <= last) {
        first = base_min(first, r->v[end].first);
        last = base_max(last, r->v[end].last);
        end++;
    }
    /* One range takes the place of at..end-1. */
    memmove(&r->v[at + 1], &r->v[end], (r->n - end) * sizeof *r->v);
    r->v[at] = (struct device_range){first, last};
    r->n = r->n - (end - at) + 1;
}

bool device_ranges_contain(const struct device_ranges *r, uint64_t k)
{
    size_t i = r->n ? lower_bound(r, k + 1) : 0;

    return i < r->n && r->v[i].first <= k;
}

uint64_t device_ranges_total(const struct device_ranges *r)
{
    uint64_t total = 0;

    for (size_t i = 0; i < r->n; i++) {
        total += r->v[i].last - r->v[i].first;
    }
    return total;
}

void device_ranges_free(struct device_ranges *r)
{
    free(r->v);
    memset(r, 0, sizeof *r);
}
