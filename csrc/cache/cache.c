/* Blocks: look-up, loading, pins and eviction, and copies over any number of blocks.
 *
 * Look-up is the hot path of every driver: the latest block is remembered, and the rest is one
 * probe of an open-addressing table. The LRU is a second-chance list, so that a hit only sets a
 * flag. Dirty blocks are not in it.
 */
#include "cache/internal.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u

void cache_list_remove(struct cache_list *l, struct cache_block *b)
{
    *(b->prev != NULL ? &b->prev->next : &l->head) = b->next;
    *(b->next != NULL ? &b->next->prev : &l->tail) = b->prev;
    b->prev = b->next = NULL;
    l->count--;
}

void cache_list_push(struct cache_list *l, struct cache_block *b)
{
    b->prev = NULL;
    b->next = l->head;
    *(l->head != NULL ? &l->head->prev : &l->tail) = b;
    l->head = b;
    l->count++;
}

/* ---- the table ---- */

static int make_table(struct cache *c, size_t capacity)
{
    struct cache_slot *old = c->slots;
    size_t old_capacity = old != NULL ? c->mask + 1 : 0;
    struct cache_slot *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return -ENOMEM;
    }
    c->slots = slots;
    c->mask = capacity - 1;
    c->hash_shift = 64 - base_log2(capacity);
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].block != NULL) {
            size_t j = (size_t)((old[i].number * CACHE_HASH) >> c->hash_shift);
            while (slots[j].block != NULL) {
                j = (j + 1) & c->mask;
            }
            slots[j] = old[i];
        }
    }
    free(old);
    return 0;
}

static int table_insert(struct cache *c, struct cache_block *b)
{
    if (2 * (c->count + 1) > c->mask + 1) {
        int r = make_table(c, 2 * (c->mask + 1));
        if (r < 0) {
            return r;
        }
    }
    size_t i = (size_t)((b->number * CACHE_HASH) >> c->hash_shift);
    while (c->slots[i].block != NULL) {
        i = (i + 1) & c->mask;
    }
    c->slots[i] = (struct cache_slot){b->number, b};
    c->count++;
    return 0;
}

/* Closes the gap behind a removed slot, so that no tombstones are needed. */
static void table_remove(struct cache *c, const struct cache_block *b)
{
    size_t gap = (size_t)((b->number * CACHE_HASH) >> c->hash_shift);
    while (c->slots[gap].block != b) {
        gap = (gap + 1) & c->mask;
    }
    for (size_t i = (gap + 1) & c->mask; c->slots[i].block != NULL; i = (i + 1) & c->mask) {
        size_t home = (size_t)((c->slots[i].number * CACHE_HASH) >> c->hash_shift);
        if (((i - home) & c->mask) >= ((i - gap) & c->mask)) {
            c->slots[gap] = c->slots[i];
            gap = i;
        }
    }
    c->slots[gap].block = NULL;
    c->count--;
}

/* ---- life of a cache ---- */

int cache_open(struct device *d, size_t budget, struct cache_counters *counters, struct cache **out)
{
    *out = NULL;
    if (!base_is_power_of_two(d->sector_size)) {
        return -EINVAL;
    }
    struct cache *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return -ENOMEM;
    }
    c->sector_size = d->sector_size;
    c->sector_shift = base_log2(d->sector_size);
    c->block_size = (uint32_t)base_max(CACHE_BLOCK_MIN, d->sector_size);
    if (c->block_size / c->sector_size > 8) {
        c->block_size = c->sector_size * 8; /* tiny sectors: the mask of a block has eight bits */
    }
    c->block_shift = base_log2(c->block_size);
    c->size = d->size - d->size % d->sector_size;
    c->budget = budget;
    c->counters = counters;
    int r = make_table(c, FIRST_SLOTS);
    if (r < 0) {
        free(c);
        return r;
    }
    c->device = device_ref(d);
    *out = c;
    return 0;
}

void cache_abandon(struct cache *c)
{
    struct cache_list *lists[CACHE_TIERS + 1] = {&c->lru};
    for (size_t i = 0; i < CACHE_TIERS; i++) {
        lists[i + 1] = &c->tiers[i];
    }
    for (size_t i = 0; i <= CACHE_TIERS; i++) {
        struct cache_block *next;
        for (struct cache_block *b = lists[i]->head; b != NULL; b = next) {
            next = b->next;
            cache_undirty(c, b, b->dirty);
            if (b->pins == 0) {
                cache_drop(c, b);
            }
        }
    }
    c->unflushed = 0;
}

void cache_close(struct cache *c)
{
    if (c == NULL) {
        return;
    }
    cache_abandon(c);
    while (c->lru.head !=
           NULL) { /* pinned: the caller forgot a cache_put, the memory goes all the same */
        cache_drop(c, c->lru.head);
    }
    device_unref(c->device);
    free(c->slots);
    free(c->scratch);
    free(c->sorted);
    free(c);
}

void cache_set_budget(struct cache *c, size_t bytes)
{
    c->budget = bytes;
    cache_evict(c, 0);
}

size_t cache_held(const struct cache *c)
{
    return c->count * cache_footprint(c);
}

size_t cache_block_size(const struct cache *c)
{
    return c->block_size;
}

void cache_set_operation(struct cache *c, uint64_t op, uint64_t object)
{
    c->op = op;
    c->object = object;
}

uint64_t cache_epoch(const struct cache *c)
{
    return c->epoch;
}

size_t cache_scratch(struct cache *c, size_t want)
{
    want = (size_t)base_min(want, CACHE_SCRATCH_MAX);
    if (c->scratch_size < want) {
        uint8_t *p = realloc(c->scratch, want);
        if (p == NULL) {
            return c->scratch_size;
        }
        c->scratch = p;
        c->scratch_size = want;
    }
    return want;
}

/* ---- blocks come and go ---- */

void cache_drop(struct cache *c, struct cache_block *b)
{
    cache_undirty(c, b, b->dirty);
    cache_list_remove(&c->lru, b);
    table_remove(c, b);
    if (c->last == b) {
        c->last = NULL;
    }
    free(b);
}

void cache_evict(struct cache *c, size_t room)
{
    /* Twice round at most: the first time takes away second chances. */
    for (size_t steps = 2 * c->lru.count; steps > 0; steps--) {
        if (cache_held(c) + room <= c->budget || c->lru.tail == NULL) {
            return;
        }
        struct cache_block *b = c->lru.tail;
        if (b->pins == 0 && !b->used) {
            cache_drop(c, b);
            c->counters->evictions++;
            continue;
        }
        b->used = false;
        cache_list_remove(&c->lru, b);
        cache_list_push(&c->lru, b);
    }
}

int cache_load(struct cache *c, uint64_t number, bool read, struct cache_block **out)
{
    uint64_t offset = number << c->block_shift;
    if (number > c->size >> c->block_shift || offset >= c->size) {
        return -EINVAL;
    }
    cache_evict(c, cache_footprint(c));
    struct cache_block *b = malloc(cache_footprint(c));
    if (b == NULL) {
        return -ENOMEM;
    }
    *b = (struct cache_block){.number = number};
    b->size = (uint32_t)base_min(c->block_size, c->size - offset);
    int r = read ? cache_device_read(c, offset, b->data, b->size) : 0;
    if (r == 0) {
        r = table_insert(c, b);
    }
    if (r < 0) {
        free(b);
        return r;
    }
    cache_list_push(&c->lru, b);
    *out = b;
    return 0;
}

static void pin(struct cache *c, struct cache_block *b, uint64_t offset, struct cache_ref *out)
{
    size_t within = (size_t)(offset & (c->block_size - 1));
    b->used = true;
    b->pins++;
    c->last = b;
    out->block = b;
    out->data = b->data + within;
    out->available = b->size - within;
    out->offset = offset;
}

int cache_get(struct cache *c, uint64_t offset, struct cache_ref *out)
{
    uint64_t number = offset >> c->block_shift;
    struct cache_block *b = c->last;
    out->block = NULL;
    if (offset >= c->size) {
        return -EINVAL;
    }
    if (b == NULL || b->number != number) {
        b = cache_find(c, number);
    }
    if (b != NULL) {
        c->counters->hits++;
    } else {
        int r = cache_load(c, number, true, &b);
        if (r < 0) {
            return r;
        }
        c->counters->misses++;
    }
    pin(c, b, offset, out);
    return 0;
}

void cache_put(struct cache *c, struct cache_ref *ref)
{
    (void)c;
    if (ref->block != NULL) {
        ref->block->pins--;
        ref->block = NULL;
    }
}

/* ---- copies ---- */

int cache_read(struct cache *c, uint64_t offset, void *buffer, size_t n)
{
    uint8_t *to = buffer;
    if (!cache_range_ok(c, offset, n)) {
        return -EINVAL;
    }
    while (n > 0) {
        struct cache_ref ref;
        int r = cache_get(c, offset, &ref);
        if (r < 0) {
            return r;
        }
        size_t step = (size_t)base_min(n, ref.available);
        memcpy(to, ref.data, step);
        cache_put(c, &ref);
        to += step;
        offset += step;
        n -= step;
    }
    return 0;
}

/* Writes within one block. A block that is replaced as a whole need not be read. */
static int write_block(struct cache *c, uint64_t offset, const uint8_t *from, size_t n,
                       enum cache_tier tier, enum device_structure what)
{
    struct cache_block *b = cache_find(c, offset >> c->block_shift);
    bool whole =
        (offset & (c->block_size - 1)) == 0 && (n == c->block_size || offset + n == c->size);
    bool blank = b == NULL && whole;
    struct cache_ref ref;
    int r;
    if (blank) {
        r = cache_load(c, offset >> c->block_shift, false, &b);
        if (r < 0) {
            return r;
        }
        pin(c, b, offset, &ref);
    } else {
        r = cache_get(c, offset, &ref);
        if (r < 0) {
            return r;
        }
    }
    b = ref.block;
    r = cache_edit(c, &ref, n, tier, what);
    if (r == 0) {
        memcpy(ref.data, from, n);
    }
    cache_put(c, &ref);
    if (r < 0 && blank) {
        cache_drop(c, b);
    }
    return r;
}

int cache_write(struct cache *c, uint64_t offset, const void *buffer, size_t n,
                enum cache_tier tier, enum device_structure what)
{
    const uint8_t *from = buffer;
    if (!cache_range_ok(c, offset, n)) {
        return -EINVAL;
    }
    while (n > 0) {
        size_t step = c->block_size - (size_t)(offset & (c->block_size - 1));
        step = (size_t)base_min(n, step);
        int r = write_block(c, offset, from, step, tier, what);
        if (r < 0) {
            return r;
        }
        from += step;
        offset += step;
        n -= step;
    }
    return 0;
}

int cache_amend(struct cache *c, uint64_t offset, const void *buffer, size_t n,
                enum cache_tier tier, enum device_structure what)
{
    struct cache_ref ref;
    int r = cache_get(c, offset, &ref);
    if (r < 0) {
        return r;
    }
    r = cache_edit(c, &ref, n, ref.block->dirty ? (enum cache_tier)ref.block->tier : tier, what);
    if (r == 0) {
        memcpy(ref.data, buffer, n);
    }
    cache_put(c, &ref);
    return r;
}

/* Reads the run of missing blocks that starts at `first`; returns the block after it, or 0 when
 * that failed. */
static uint64_t read_missing(struct cache *c, uint64_t first, uint64_t end)
{
    size_t most = cache_scratch(c, CACHE_AHEAD_MAX) >> c->block_shift;
    uint64_t after = first;
    while (after < end && after - first < most && cache_find(c, after) == NULL) {
        after++;
    }
    uint64_t offset = first << c->block_shift;
    size_t n = (size_t)base_min((after - first) << c->block_shift, c->size - offset);
    if (after == first || cache_device_read(c, offset, c->scratch, n) < 0) {
        return 0;
    }
    for (uint64_t number = first; number < after; number++) {
        struct cache_block *b;
        if (cache_load(c, number, false, &b) < 0) {
            return 0;
        }
        memcpy(b->data, c->scratch + ((number - first) << c->block_shift), b->size);
    }
    return after;
}

void cache_read_ahead(struct cache *c, uint64_t offset, uint64_t n)
{
    if (offset >= c->size || n == 0) {
        return;
    }
    /* More than a quarter of the budget would push itself out again. */
    n = base_min(base_min(n, c->size - offset), c->budget / 4);
    uint64_t number = offset >> c->block_shift;
    uint64_t end = n > 0 ? ((offset + n - 1) >> c->block_shift) + 1 : 0;
    while (number < end) {
        if (cache_find(c, number) != NULL) {
            number++;
            continue;
        }
        number = read_missing(c, number, end);
        if (number == 0) {
            return;
        }
    }
}
