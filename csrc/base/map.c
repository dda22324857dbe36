/* Open addressing with linear probing; a slot is free when its value is NULL. Removal shifts the
 * followers back, so there are no tombstones and a lookup ends at the first free slot. */
#include "base/map.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_CAPACITY 16

struct base_map_slot {
    uint64_t key;
    void *value;
};

static size_t home_of(const struct base_map *m, uint64_t key)
{
    /* The high bits of the product depend on all bits of the key. */
    return (size_t)(key * 0x9E3779B97F4A7C15u >> (64 - base_log2(m->capacity)));
}

/* The slot with the key, or the free one where it would go. The table has a free slot. */
static size_t probe(const struct base_map *m, uint64_t key)
{
    size_t i = home_of(m, key);

    while (m->slots[i].value && m->slots[i].key != key) {
        i = (i + 1) & (m->capacity - 1);
    }
    return i;
}

void base_map_init(struct base_map *m)
{
    m->slots = NULL;
    m->capacity = 0;
    m->count = 0;
}

void base_map_free(struct base_map *m)
{
    free(m->slots);
    base_map_init(m);
}

void *base_map_get(const struct base_map *m, uint64_t key)
{
    return m->count ? m->slots[probe(m, key)].value : NULL;
}

static int grow(struct base_map *m)
{
    struct base_map bigger;

    bigger.capacity = m->capacity ? m->capacity * 2 : FIRST_CAPACITY;
    bigger.count = m->count;
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < m->capacity; i++) {
        if (m->slots[i].value) {
            bigger.slots[probe(&bigger, m->slots[i].key)] = m->slots[i];
        }
    }
    free(m->slots);
    *m = bigger;
    return 0;
}

int base_map_reserve(struct base_map *m, size_t count)
{
    int rc = 0;

    while (rc == 0 && count > m->capacity / 4 * 3) {
        rc = grow(m);
    }
    return rc;
}

int base_map_put(struct base_map *m, uint64_t key, void *value)
{
    size_t i = 0;

    if (m->capacity) {
        i = probe(m, key);
        if (m->slots[i].value) {
            m->slots[i].value = value;
            return 0;
        }
    }
    if (m->count + 1 > m->capacity / 4 * 3) {
        int rc = grow(m);

        if (rc) {
            return rc;
        }
        i = probe(m, key);
    }
    m->slots[i].key = key;
    m->slots[i].value = value;
    m->count++;
    return 0;
}

void *base_map_remove(struct base_map *m, uint64_t key)
{
    size_t mask = m->capacity - 1, hole, i;
    void *value;

    if (m->count == 0) {
        return NULL;
    }
    hole = probe(m, key);
    value = m->slots[hole].value;
    if (!value) {
        return NULL;
    }
    for (i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        size_t home = home_of(m, m->slots[i].key);

        /* It may move into the hole when its home is not between the hole and itself. */
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole].value = NULL;
    m->count--;
    return value;
}

void *base_map_next(const struct base_map *m, size_t *cursor, uint64_t *key)
{
    while (*cursor < m->capacity) {
        const struct base_map_slot *s = &m->slots[(*cursor)++];

        if (s->value) {
            if (key) {
                *key = s->key;
            }
            return s->value;
        }
    }
    return NULL;
}

size_t base_map_bytes(const struct base_map *m)
{
    return m->capacity * sizeof *m->slots;
}
