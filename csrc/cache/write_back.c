/* Write-back: tiers, their order, merging, and the memory that dirty blocks may take.
 *
 * Each tier has a list of its dirty blocks, so that a commit costs what there is to write. The
 * order between tiers needs no bookkeeping per block: a mask remembers which tiers were written
 * since the device was last flushed, and a tier is written only once no lower one is in it. Within
 * a tier blocks go in the order of the device, and neighbouring dirty sectors that hold the same
 * kind of structure go in one write.
 */
#include "cache/internal.h"

#include "base/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the device, with the counters kept ---- */

/* What the device has said. */
static int heard(struct cache *c, int r)
{
    c->failures += r == -EIO;
    return r;
}

uint32_t cache_failures(const struct cache *c)
{
    return c->failures;
}

int cache_device_read(struct cache *c, uint64_t offset, void *buffer, size_t n)
{
    int r = heard(c, device_read(c->device, offset, buffer, n));
    if (r == 0) {
        c->counters->device_reads++;
        c->counters->bytes_read += n;
    }
    return r;
}

static void count_write(struct cache *c, uint32_t structure, uint64_t n)
{
    c->counters->device_writes++;
    c->counters->bytes_written += n;
    c->counters->writes_by_structure[structure]++;
    c->counters->bytes_by_structure[structure] += n;
}

/* The tier counts as written even when this fails: part of it may be on the device. */
int cache_device_write(struct cache *c, uint64_t offset, const void *buffer, size_t n,
                       enum cache_tier tier, const struct device_tag *tag)
{
    c->unflushed |= 1u << tier;
    int r = heard(c, device_write(c->device, offset, buffer, n, tag));
    if (r == 0) {
        count_write(c, tag->structure, n);
    }
    return r;
}

int cache_device_zero(struct cache *c, uint64_t offset, uint64_t n, enum cache_tier tier,
                      const struct device_tag *tag)
{
    c->unflushed |= 1u << tier;
    int r = heard(c, device_zero(c->device, offset, n, tag));
    if (r == 0 && device_has(c->device, DEVICE_CHEAP_ZERO)) {
        c->counters->bytes_zeroed += n;
    } else if (r == 0) {
        count_write(c, tag->structure, n);
    }
    return r;
}

static bool dirty_up_to(const struct cache *c, enum cache_tier upto)
{
    for (unsigned t = 0; t <= (unsigned)upto; t++) {
        if (c->tiers[t].count > 0) {
            return true;
        }
    }
    return false;
}

static int flush_device(struct cache *c)
{
    int r = heard(c, device_flush(c->device));
    if (r < 0) {
        return r;
    }
    c->counters->device_flushes++;
    c->unflushed = 0;
    if (!dirty_up_to(c, CACHE_REMOVAL)) {
        c->epoch++;
    }
    return 0;
}

/* Whatever is written as `tier` next must find all lower tiers durable; but chains and what is in
 * their clusters may come in any order, since nothing leads to either before an entry does. */
static int order_before(struct cache *c, enum cache_tier tier)
{
    uint32_t lower = (1u << tier) - 1u;
    if (tier == CACHE_CHAIN) {
        lower &= ~(1u << CACHE_CONTENT);
    }
    return (c->unflushed & lower) != 0 ? flush_device(c) : 0;
}

/* ---- dirty blocks ---- */

void cache_undirty(struct cache *c, struct cache_block *b, uint8_t mask)
{
    if (b->dirty == 0) {
        return;
    }
    b->dirty = (uint8_t)(b->dirty & ~mask);
    b->fresh = (uint8_t)(b->fresh & ~mask);
    if (b->dirty == 0) {
        b->fresh = 0;
        cache_list_remove(&c->tiers[b->tier], b);
        cache_list_push(&c->lru, b);
        c->dirty--;
    }
}

int cache_dirty_block(struct cache *c, struct cache_block *b, uint8_t mask, enum cache_tier tier,
                      enum device_structure what)
{
    bool unreachable = (mask & ~b->fresh) == 0 && b->tier < tier; /* sectors of a new cluster */
    if (b->dirty != 0 && b->tier != tier && !unreachable) {
        int r = cache_commit(c, (enum cache_tier)b->tier, false);
        if (r < 0) {
            return r;
        }
    }
    if (b->dirty == 0) {
        cache_list_remove(&c->lru, b);
        b->tier = (uint8_t)tier;
        cache_list_push(&c->tiers[tier], b);
        c->dirty++;
    }
    b->dirty |= mask;
    b->structure = (uint8_t)what;
    b->op = c->op;
    b->object = c->object;
    return 0;
}

int cache_edit(struct cache *c, struct cache_ref *ref, size_t n, enum cache_tier tier,
               enum device_structure what)
{
    if (n == 0) {
        return 0;
    }
    if (n > ref->available) {
        return -EINVAL;
    }
    size_t from = (size_t)(ref->data - ref->block->data);
    return cache_dirty_block(c, ref->block, cache_sector_mask(c, from, from + n), tier, what);
}

/* ---- one tier ---- */

struct run { /* neighbouring dirty sectors over blocks first..last of the sorted ones */
    size_t first, last;
    uint64_t offset, end;
};

/* The first dirty range of a block at or after byte `from`; false: none. */
static bool dirty_range(const struct cache *c, const struct cache_block *b, size_t from,
                        size_t *start, size_t *end)
{
    uint32_t bits = (uint32_t)b->dirty >> (from >> c->sector_shift) << (from >> c->sector_shift);
    if (from >= b->size || bits == 0) {
        return false;
    }
    uint32_t first = (uint32_t)__builtin_ctz(bits);
    uint32_t length = (uint32_t)__builtin_ctz(~(bits >> first));
    *start = (size_t)first << c->sector_shift;
    *end = *start + ((size_t)length << c->sector_shift);
    return true;
}

/* Extends a run over the following blocks while they go on where it ends. */
static void extend_run(const struct cache *c, struct cache_block *const *v, size_t n, size_t most,
                       struct run *run)
{
    size_t start, end;
    while (run->last + 1 < n) {
        const struct cache_block *b = v[run->last + 1];
        uint64_t base = cache_block_offset(c, b);
        if (base != run->end || b->structure != v[run->first]->structure ||
            !dirty_range(c, b, 0, &start, &end) || start != 0 || base + end - run->offset > most) {
            return;
        }
        run->last++;
        run->end = base + end;
    }
}

static int write_run(struct cache *c, struct cache_block *const *v, const struct run *run)
{
    const struct cache_block *b = v[run->first];
    struct device_tag tag = {.op = b->op, .object = b->object, .structure = b->structure};
    enum cache_tier tier = (enum cache_tier)b->tier;
    const uint8_t *data = b->data + (run->offset - cache_block_offset(c, b));
    if (run->last > run->first) {
        for (size_t i = run->first; i <= run->last; i++) {
            uint64_t base = cache_block_offset(c, v[i]);
            uint64_t from = base_max(run->offset, base), to = base_min(run->end, base + v[i]->size);
            memcpy(c->scratch + (from - run->offset), v[i]->data + (from - base),
                   (size_t)(to - from));
            if (v[i]->op > tag.op) { /* the latest of the causes stands for all */
                tag.op = v[i]->op;
                tag.object = v[i]->object;
            }
        }
        data = c->scratch;
    }
    int r = cache_device_write(c, run->offset, data, (size_t)(run->end - run->offset), tier, &tag);
    if (r < 0) {
        return r;
    }
    for (size_t i = run->first; i <= run->last; i++) {
        uint64_t base = cache_block_offset(c, v[i]);
        uint64_t from = base_max(run->offset, base), to = base_min(run->end, base + v[i]->size);
        cache_undirty(c, v[i], cache_sector_mask(c, (size_t)(from - base), (size_t)(to - base)));
    }
    return 0;
}

static int write_blocks(struct cache *c, struct cache_block *const *v, size_t n)
{
    size_t most = n > 1 ? cache_scratch(c, n << c->block_shift) : 0;
    size_t start, end;
    for (size_t i = 0; i < n; i++) {
        size_t from = 0;
        /* A run that ended within a later block leaves the rest of that block to the next turn. */
        while (dirty_range(c, v[i], from, &start, &end)) {
            uint64_t base = cache_block_offset(c, v[i]);
            struct run run = {i, i, base + start, base + end};
            if (end == v[i]->size) {
                extend_run(c, v, n, most, &run);
            }
            int r = write_run(c, v, &run);
            if (r < 0) {
                return r;
            }
            from = end;
        }
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = (*(struct cache_block *const *)a)->number;
    uint64_t y = (*(struct cache_block *const *)b)->number;
    return (x > y) - (x < y);
}

/* Sorted blocks of a tier; without memory for that, its blocks one at a time. */
static int write_tier(struct cache *c, enum cache_tier tier)
{
    struct cache_list *l = &c->tiers[tier];
    size_t n = 0;
    int r = 0;
    if (c->sorted_size < l->count) {
        struct cache_block **p = realloc(c->sorted, 2 * l->count * sizeof *p);
        if (p != NULL) {
            c->sorted = p;
            c->sorted_size = 2 * l->count;
        }
    }
    if (c->sorted_size < l->count) {
        while (r == 0 && l->head != NULL) {
            struct cache_block *b = l->head;
            r = write_blocks(c, &b, 1);
        }
        return r;
    }
    for (struct cache_block *b = l->tail; b != NULL; b = b->prev) {
        c->sorted[n++] = b;
    }
    for (size_t i = 1; i < n; i++) {
        if (c->sorted[i - 1]->number > c->sorted[i]->number) {
            qsort(c->sorted, n, sizeof *c->sorted, by_number);
            break;
        }
    }
    return write_blocks(c, c->sorted, n);
}

/* ---- commits ---- */

int cache_commit(struct cache *c, enum cache_tier upto, bool flush)
{
    bool work = false;
    for (unsigned t = 0; t <= (unsigned)upto; t++) {
        if (c->tiers[t].count == 0) {
            continue;
        }
        work = true;
        int r = order_before(c, (enum cache_tier)t);
        if (r == 0) {
            r = write_tier(c, (enum cache_tier)t);
        }
        if (r < 0) {
            return r;
        }
    }
    if (flush && c->unflushed != 0) {
        int r = flush_device(c);
        if (r < 0) {
            return r;
        }
        work = true;
    } else if (flush && upto >= CACHE_REMOVAL) {
        c->epoch++; /* all of it was durable already */
    }
    c->counters->commits += work;
    return 0;
}

int cache_before_direct(struct cache *c)
{
    int r = 0;
    if (c->tiers[CACHE_MARK].count > 0) {
        r = cache_commit(c, CACHE_MARK, false);
    }
    return r < 0 ? r : order_before(c, CACHE_CONTENT);
}

/* Tiers in order until at most a quarter of the budget is dirty: a stream of file data costs no
 * flush that way. */
static int balance(struct cache *c, enum cache_tier upto)
{
    int r = 0;
    if (c->dirty * cache_footprint(c) > c->budget / 2) {
        for (unsigned t = 0; r == 0 && t <= (unsigned)upto; t++) {
            if (c->dirty * cache_footprint(c) <= c->budget / 4) {
                break;
            }
            r = cache_commit(c, (enum cache_tier)t, false);
        }
    }
    cache_evict(c, false);
    return r;
}

int cache_balance(struct cache *c)
{
    return balance(c, CACHE_CLEAN);
}

int cache_balance_within(struct cache *c)
{
    return balance(c, CACHE_CHAIN);
}

bool cache_is_dirty(const struct cache *c)
{
    return c->dirty > 0 || c->unflushed != 0;
}

bool cache_tier_dirty(const struct cache *c, enum cache_tier tier)
{
    return c->tiers[tier].count > 0;
}
