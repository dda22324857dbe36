/* Blocks: look-up, loading, pins and eviction, and copies over any number of blocks.
 *
 * Look-up is the hot path of every driver: the latest block is remembered, and the rest is one
 * probe of an open-addressing table. The LRU is a second-chance list, so that a hit only sets a
 * flag. Dirty blocks are not in it.
 *
 * Where the device is memory itself, a block is read sector by sector as they are needed; and once
 * the cache is full, what is only read is not copied into it.
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
    c->cheap_reads = device_has(d, DEVICE_CHEAP_READ);
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
    cache_frames_trim(c);
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
    cache_frames_trim(c);
    device_unref(c->device);
    free(c->slots);
    free(c->scratch);
    free(c->sorted);
    free(c);
}

void cache_set_budget(struct cache *c, size_t bytes)
{
    c->budget = bytes;
    cache_evict(c, false);
}

size_t cache_held(const struct cache *c)
{
    return c->memory + c->count * 2 * sizeof(struct cache_slot);
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
    cache_frame_free(c, b);
}

static bool has_room(const struct cache *c, bool one_more)
{
    return cache_held(c) + (one_more ? cache_frame_cost(c) : 0) <= c->budget;
}

void cache_evict(struct cache *c, bool one_more)
{
    /* Twice round at most: the first time takes away second chances. */
    for (size_t steps = 2 * c->lru.count; steps > 0 && c->lru.tail != NULL; steps--) {
        if (has_room(c, one_more)) {
            return;
        }
        struct cache_block *b = c->lru.tail;
        if (b->prev != NULL) { /* the next one's neighbour */
            __builtin_prefetch(b->prev->prev);
        }
        if (b->pins == 0 && !b->used) {
            cache_drop(c, b);
            c->counters->evictions++;
            if (!one_more) {
                cache_frames_trim(c);
            }
            continue;
        }
        b->used = false;
        cache_list_remove(&c->lru, b);
        cache_list_push(&c->lru, b);
    }
    if (!has_room(c, one_more)) {
        cache_frames_trim(c);
    }
}

/* Reads the sectors in `want` that are missing, or all of a block where that costs no more. */
static int fill(struct cache *c, struct cache_block *b, uint8_t want)
{
    uint32_t left = c->cheap_reads ? b->missing & want : b->missing;
    while (left != 0) {
        uint32_t first = (uint32_t)__builtin_ctz(left);
        uint32_t count = (uint32_t)__builtin_ctz(~(left >> first));
        size_t from = (size_t)first << c->sector_shift, n = (size_t)count << c->sector_shift;
        int r = cache_device_read(c, cache_block_offset(c, b) + from, b->data + from, n);
        if (r < 0) {
            return r;
        }
        uint32_t mask = ((1u << count) - 1u) << first;
        b->missing = (uint8_t)(b->missing & ~mask);
        left &= ~mask;
    }
    return 0;
}

int cache_load(struct cache *c, uint64_t number, uint8_t want, struct cache_block **out)
{
    uint64_t offset = number << c->block_shift;
    if (number > c->size >> c->block_shift || offset >= c->size) {
        return -EINVAL;
    }
    cache_evict(c, true);
    struct cache_block *b = cache_frame_new(c);
    if (b == NULL) {
        return -ENOMEM;
    }
    b->number = number;
    b->size = (uint32_t)base_min(c->block_size, c->size - offset);
    b->missing = cache_all_sectors(c, b);
    int r = want != 0 ? fill(c, b, want) : 0;
    if (r == 0) {
        r = table_insert(c, b);
    }
    if (r < 0) {
        cache_frame_free(c, b);
        return r;
    }
    cache_list_push(&c->lru, b);
    *out = b;
    return 0;
}

/* The block if it is there, or NULL. */
static struct cache_block *look_up(struct cache *c, uint64_t number)
{
    struct cache_block *b = c->last;
    return b != NULL && b->number == number ? b : cache_find(c, number);
}

/* The block with at least the sectors in `want`; a new one with those in `load`. */
static int get_block(struct cache *c, uint64_t number, uint8_t want, uint8_t load,
                     struct cache_block **out)
{
    struct cache_block *b = look_up(c, number);
    if (b == NULL) {
        int r = cache_load(c, number, load, &b);
        if (r < 0) {
            return r;
        }
        c->counters->misses++;
    } else {
        int r = (b->missing & want) != 0 ? fill(c, b, want) : 0;
        if (r < 0) {
            return r;
        }
        c->counters->hits++;
    }
    b->used = true;
    c->last = b;
    *out = b;
    return 0;
}

int cache_get(struct cache *c, uint64_t offset, struct cache_ref *out)
{
    struct cache_block *b;
    out->block = NULL;
    if (offset >= c->size) {
        return -EINVAL;
    }
    uint64_t number = offset >> c->block_shift;
    size_t within = (size_t)(offset & (c->block_size - 1));
    /* Of a block that is there in part, no more than is asked for. */
    int r = get_block(c, number, cache_sector_mask(c, within, within + 1), UINT8_MAX, &b);
    if (r < 0) {
        return r;
    }
    uint32_t behind = (uint32_t)b->missing & (UINT32_MAX << (within >> c->sector_shift));
    size_t end = behind == 0 ? b->size : (size_t)__builtin_ctz(behind) << c->sector_shift;
    b->pins++;
    out->block = b;
    out->data = b->data + within;
    out->available = end - within;
    out->offset = offset;
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

/* Within one block. A cache of memory is not turned over for what is only read. */
static int read_block(struct cache *c, uint64_t offset, uint8_t *to, size_t n)
{
    uint64_t number = offset >> c->block_shift;
    size_t within = (size_t)(offset & (c->block_size - 1));
    struct cache_block *b = look_up(c, number);
    if (b == NULL && c->cheap_reads && !has_room(c, true)) {
        c->counters->misses++;
        return cache_device_read(c, offset, to, n);
    }
    int r = get_block(c, number, cache_sector_mask(c, within, within + n), UINT8_MAX, &b);
    if (r == 0) {
        memcpy(to, b->data + within, n);
    }
    return r;
}

int cache_read(struct cache *c, uint64_t offset, void *buffer, size_t n)
{
    uint8_t *to = buffer;
    if (!cache_range_ok(c, offset, n)) {
        return -EINVAL;
    }
    while (n > 0) {
        size_t step = c->block_size - (size_t)(offset & (c->block_size - 1));
        step = (size_t)base_min(n, step);
        int r = read_block(c, offset, to, step);
        if (r < 0) {
            return r;
        }
        to += step;
        offset += step;
        n -= step;
    }
    return 0;
}

/* Sectors that must be known before bytes [from, to) of a block are written: those of which a part
 * stays, or all of the block where reading it costs no more. */
static uint8_t kept_sectors(const struct cache *c, size_t from, size_t to)
{
    uint8_t kept = 0;
    if (!c->cheap_reads) {
        return UINT8_MAX;
    }
    if ((from & (c->sector_size - 1)) != 0) {
        kept = cache_sector_mask(c, from, from + 1);
    }
    if ((to & (c->sector_size - 1)) != 0) {
        kept |= cache_sector_mask(c, to - 1, to);
    }
    return kept;
}

static int put_bytes(struct cache *c, struct cache_block *b, size_t within, const uint8_t *from,
                     size_t n, unsigned tier, enum device_structure what)
{
    uint8_t mask = cache_sector_mask(c, within, within + n);
    b->pins++;
    int r = cache_dirty_block(c, b, mask, (enum cache_tier)tier, what);
    b->pins--;
    if (r == 0) {
        memcpy(b->data + within, from, n);
        b->missing = (uint8_t)(b->missing & ~mask);
    }
    return r;
}

/* Writes within one block. What is replaced as a whole need not be read. */
static int write_block(struct cache *c, uint64_t offset, const uint8_t *from, size_t n,
                       enum cache_tier tier, enum device_structure what)
{
    uint64_t number = offset >> c->block_shift;
    size_t within = (size_t)(offset & (c->block_size - 1));
    struct cache_block *b = look_up(c, number);
    bool whole = within == 0 && (n == c->block_size || offset + n == c->size);
    bool blank = b == NULL && whole;
    uint8_t kept = kept_sectors(c, within, within + n);
    int r = blank ? cache_load(c, number, 0, &b) : get_block(c, number, kept, kept, &b);
    if (r < 0) {
        return r;
    }
    r = put_bytes(c, b, within, from, n, tier, what);
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
    struct cache_block *b;
    size_t within = (size_t)(offset & (c->block_size - 1));
    if (!cache_range_ok(c, offset, n) || n > c->block_size - within) {
        return -EINVAL;
    }
    if (n == 0) {
        return 0;
    }
    uint8_t kept = kept_sectors(c, within, within + n);
    int r = get_block(c, offset >> c->block_shift, kept, kept, &b);
    return r < 0 ? r : put_bytes(c, b, within, buffer, n, b->dirty ? b->tier : tier, what);
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
        if (cache_load(c, number, 0, &b) < 0) {
            return 0;
        }
        memcpy(b->data, c->scratch + ((number - first) << c->block_shift), b->size);
        b->missing = 0;
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
