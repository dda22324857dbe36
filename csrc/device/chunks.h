/* Chunked storage of the memory device and of branches: parts of a range, chunks in a map, sets of
 * chunk numbers. */
#ifndef PYEXFAT_DEVICE_CHUNKS_H
#define PYEXFAT_DEVICE_CHUNKS_H

#include "base/bytes.h"
#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Small, so that a little volume touches little memory; big enough that a map entry is nothing
 * beside it. */
#define DEVICE_CHUNK 4096u

/* The part of offset, n that lies in one chunk, and where in the chunk it begins. */
static inline size_t device_chunk_part(uint64_t offset, uint64_t n, size_t *start)
{
    *start = (size_t)(offset % DEVICE_CHUNK);
    return (size_t)base_min(n, DEVICE_CHUNK - *start);
}

/* Takes the chunks first..last-1 out of the map, in time of the smaller of the range and the map,
 * and gives each to release. 0, or -ENOMEM with nothing taken. */
int device_chunks_drop(struct base_map *m, uint64_t first, uint64_t last, void (*release)(void *));
/* Gives every chunk to release and empties the map. */
void device_chunks_drop_all(struct base_map *m, void (*release)(void *));

/* A set of numbers as sorted ranges that do not touch. */
struct device_range {
    uint64_t first, last; /* last is not in it */
};
struct device_ranges {
    struct device_range *v;
    size_t n, cap;
};
int device_ranges_reserve(struct device_ranges *r); /* room for one more add; 0 or -ENOMEM */
void device_ranges_add(struct device_ranges *r, uint64_t first,
                       uint64_t last); /* after a reserve */
bool device_ranges_contain(const struct device_ranges *r, uint64_t k);
uint64_t device_ranges_total(const struct device_ranges *r);
void device_ranges_free(struct device_ranges *r);

#endif
