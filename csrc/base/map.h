/* Hash map from a 64-bit key to a pointer: open addressing, grows by doubling, any key but
 * UINT64_MAX. */
#ifndef PYEXFAT_BASE_MAP_H
#define PYEXFAT_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct base_map {
    struct base_map_slot *slots;
    size_t capacity; /* 0 or a power of two */
    size_t count;
};

void base_map_init(struct base_map *m);
void base_map_free(struct base_map *m); /* the values are the caller's */
void *base_map_get(const struct base_map *m, uint64_t key);
/* Room for so many in an empty map, which must be made before those of another are put into it in
 * slot order: a table that grew meanwhile would be full at its beginning. 0 or -ENOMEM. */
int base_map_reserve(struct base_map *m, size_t count);
int base_map_put(struct base_map *m, uint64_t key,
                 void *value);                           /* value != NULL; replaces; 0 or -ENOMEM */
void *base_map_remove(struct base_map *m, uint64_t key); /* what was there, or NULL */
/* Iteration in slot order; *cursor starts at 0; returns NULL at the end. No put/remove meanwhile.
 */
void *base_map_next(const struct base_map *m, size_t *cursor, uint64_t *key);
size_t base_map_bytes(const struct base_map *m);

#endif
