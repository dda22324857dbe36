/* File data: whole sectors of large transfers go straight between the caller and the device, the
 * rest through blocks.
 *
 * Coherence: a direct read is overlaid with what is dirty (clean blocks equal the device); a direct
 * write drops or updates the blocks it covers. Small reads in sequence pull in what follows.
 */
#include "cache/internal.h"

#include "base/bytes.h"

#include <errno.h>
#include <string.h>

/* ---- blocks within a range ---- */

struct range {
    uint64_t offset, end;
    const uint8_t *source; /* what was written to the range; NULL: zeros */
};

typedef void (*visit_block)(struct cache *c, struct cache_block *b, const struct range *r);

static void visit_list(struct cache *c, struct cache_list *l, visit_block visit,
                       const struct range *r)
{
    uint64_t first = r->offset >> c->block_shift, last = (r->end - 1) >> c->block_shift;
    struct cache_block *next;
    for (struct cache_block *b = l->head; b != NULL; b = next) {
        next = b->next;
        if (b->number >= first && b->number <= last) {
            visit(c, b, r);
        }
    }
}

/* Every cached block that overlaps the range; costs the lesser of the range and the cache. */
static void visit_range(struct cache *c, visit_block visit, const struct range *r)
{
    uint64_t first = r->offset >> c->block_shift, last = (r->end - 1) >> c->block_shift;
    if (r->offset == r->end || c->count == 0) {
        return;
    }
    if (last - first > 2 * (uint64_t)c->count) {
        visit_list(c, &c->lru, visit, r);
        for (size_t t = 0; t < CACHE_TIERS; t++) {
            visit_list(c, &c->tiers[t], visit, r);
        }
        return;
    }
    for (uint64_t number = first; number <= last; number++) {
        struct cache_block *b = cache_find(c, number);
        if (b != NULL) {
            visit(c, b, r);
        }
    }
}

/* The part of a block that lies in the range, as bytes of the block. */
static void part_of(const struct cache *c, const struct cache_block *b, const struct range *r,
                    size_t *from, size_t *to)
{
    uint64_t base = cache_block_offset(c, b);
    *from = (size_t)(base_max(base, r->offset) - base);
    *to = (size_t)(base_min(base + b->size, r->end) - base);
}

/* Sectors that lie in [from, to) as a whole. */
static uint8_t whole_sectors(const struct cache *c, size_t from, size_t to)
{
    from = (size_t)base_round_up(from, c->sector_size);
    to &= ~((size_t)c->sector_size - 1);
    return from < to ? cache_sector_mask(c, from, to) : 0;
}

/* The device holds the range anew. */
static void overwritten(struct cache *c, struct cache_block *b, const struct range *r)
{
    size_t from, to;
    part_of(c, b, r, &from, &to);
    cache_undirty(c, b, whole_sectors(c, from, to));
    if (b->pins == 0 && from == 0 && to == b->size) {
        cache_drop(c, b);
        return;
    }
    if (r->source != NULL) {
        memcpy(b->data + from, r->source + (cache_block_offset(c, b) + from - r->offset),
               to - from);
    } else {
        memset(b->data + from, 0, to - from);
    }
    b->missing = (uint8_t)(b->missing & ~whole_sectors(c, from, to));
}

/* Nobody wants the range any more. */
static void forgotten(struct cache *c, struct cache_block *b, const struct range *r)
{
    size_t from, to;
    part_of(c, b, r, &from, &to);
    cache_undirty(c, b, whole_sectors(c, from, to));
    if (b->pins == 0 && b->dirty == 0) {
        cache_drop(c, b);
    }
}

/* ---- reading ---- */

/* Through blocks. A miss right behind a cached block is taken for a sequence. */
static int read_blocks(struct cache *c, uint64_t offset, uint8_t *to, size_t n)
{
    while (n > 0) {
        uint64_t number = offset >> c->block_shift;
        struct cache_ref ref;
        if (number > 0 && (c->last == NULL || c->last->number != number) &&
            cache_find(c, number) == NULL && cache_find(c, number - 1) != NULL) {
            cache_read_ahead(c, offset, CACHE_AHEAD_MAX);
        }
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

/* Whole sectors. */
static void overlay(const struct cache *c, uint64_t offset, uint8_t *to, size_t n)
{
    struct range r = {offset, offset + n, NULL};
    uint64_t last = (r.end - 1) >> c->block_shift;
    for (uint64_t number = offset >> c->block_shift; number <= last; number++) {
        const struct cache_block *b = cache_find(c, number);
        if (b != NULL && b->dirty != 0) {
            size_t from, end;
            part_of(c, b, &r, &from, &end);
            for (; from < end; from += c->sector_size) {
                if ((b->dirty & cache_sector_mask(c, from, from + 1)) != 0) {
                    memcpy(to + (cache_block_offset(c, b) + from - offset), b->data + from,
                           c->sector_size);
                }
            }
        }
    }
}

int cache_read_data(struct cache *c, uint64_t offset, void *buffer, size_t n)
{
    uint8_t *to = buffer;
    uint64_t start = base_round_up(offset, c->sector_size);
    uint64_t end = (offset + n) & ~((uint64_t)c->sector_size - 1);
    if (!cache_range_ok(c, offset, n)) {
        return -EINVAL;
    }
    bool large = n >= c->block_size && start < end && end - start >= c->block_size;
    if (!large || (n == c->block_size && cache_find(c, offset >> c->block_shift) != NULL)) {
        return read_blocks(c, offset, to, n);
    }
    int r = read_blocks(c, offset, to, (size_t)(start - offset));
    if (r == 0) {
        r = cache_device_read(c, start, to + (start - offset), (size_t)(end - start));
    }
    if (r < 0) {
        return r;
    }
    if (c->dirty > 0) {
        overlay(c, start, to + (start - offset), (size_t)(end - start));
    }
    return read_blocks(c, end, to + (end - offset), (size_t)(offset + n - end));
}

/* ---- writing ---- */

int cache_write_data(struct cache *c, uint64_t offset, const void *buffer, size_t n)
{
    const uint8_t *from = buffer;
    uint64_t start = base_round_up(offset, c->sector_size);
    uint64_t end = (offset + n) & ~((uint64_t)c->sector_size - 1);
    if (!cache_range_ok(c, offset, n)) {
        return -EINVAL;
    }
    if (n < c->block_size || start >= end || end - start < c->block_size) {
        return cache_write(c, offset, from, n, CACHE_CONTENT, DEVICE_DATA);
    }
    int r = cache_write(c, offset, from, (size_t)(start - offset), CACHE_CONTENT, DEVICE_DATA);
    if (r == 0) {
        r = cache_before_direct(c);
    }
    if (r < 0) {
        return r;
    }
    struct device_tag tag = {.op = c->op, .object = c->object, .structure = DEVICE_DATA};
    struct range range = {start, end, from + (start - offset)};
    r = cache_device_write(c, start, range.source, (size_t)(end - start), CACHE_CONTENT, &tag);
    if (r < 0) {
        return r;
    }
    visit_range(c, overwritten, &range);
    return cache_write(c, end, from + (end - offset), (size_t)(offset + n - end), CACHE_CONTENT,
                       DEVICE_DATA);
}

/* Whole sectors, on the device at once. */
static int zero_direct(struct cache *c, uint64_t offset, uint64_t n, enum device_structure what)
{
    struct device_tag tag = {.op = c->op, .object = c->object, .structure = (uint32_t)what};
    struct range range = {offset, offset + n, NULL};
    int r = cache_before_direct(c);
    if (r == 0) {
        r = cache_device_zero(c, offset, n, CACHE_CONTENT, &tag);
    }
    if (r == 0) {
        visit_range(c, overwritten, &range);
    }
    return r;
}

/* Zeros through blocks, from a small constant. */
static int zero_blocks(struct cache *c, uint64_t offset, uint64_t n)
{
    static const uint8_t zeros[CACHE_BLOCK_MIN];
    while (n > 0) {
        uint64_t step = base_min(n, c->block_size - (offset & (c->block_size - 1)));
        step = base_min(step, sizeof zeros);
        int r = cache_write(c, offset, zeros, (size_t)step, CACHE_CONTENT, DEVICE_DATA);
        if (r < 0) {
            return r;
        }
        offset += step;
        n -= step;
    }
    return 0;
}

int cache_zero_data(struct cache *c, uint64_t offset, uint64_t n)
{
    uint64_t start = base_round_up(offset, c->sector_size);
    uint64_t end = (offset + n) & ~((uint64_t)c->sector_size - 1);
    if (!cache_range_ok(c, offset, n)) {
        return -EINVAL;
    }
    bool cheap = device_has(c->device, DEVICE_CHEAP_ZERO) && start < end;
    if (start >= end || end - start < (cheap ? c->block_size : CACHE_FRESH_MAX)) {
        return zero_blocks(c, offset, n);
    }
    int r = zero_blocks(c, offset, start - offset);
    if (r == 0) {
        r = zero_direct(c, start, end - start, DEVICE_ZEROING);
    }
    return r < 0 ? r : zero_blocks(c, end, offset + n - end);
}

/* ---- new clusters ---- */

/* One block's share of a new cluster: zeroed, dirty, and exempt from the order until it is written.
 */
static int fresh_block(struct cache *c, uint64_t number, const struct range *range,
                       enum device_structure what)
{
    struct cache_block *b = cache_find(c, number);
    uint64_t base = number << c->block_shift;
    bool whole = base >= range->offset && base_min(base + c->block_size, c->size) <= range->end;
    bool made = b == NULL;
    size_t from, to;
    int r = made ? cache_load(c, number, whole || c->cheap_reads ? 0 : UINT8_MAX, &b) : 0;
    if (r < 0) {
        return r;
    }
    part_of(c, b, range, &from, &to);
    uint8_t mask = cache_sector_mask(c, from, to);
    cache_undirty(c, b, mask); /* what was there belongs to nobody */
    r = cache_dirty_block(c, b, mask, CACHE_CONTENT, what);
    if (r < 0) {
        if (made) {
            cache_drop(c, b);
        }
        return r;
    }
    b->fresh |= mask;
    b->missing = (uint8_t)(b->missing & ~mask);
    memset(b->data + from, 0, to - from);
    return 0;
}

/* Zeroed on the device already: known without reading. Only blocks of the range as a whole, and no
 * error if not. */
static void remember_zeros(struct cache *c, const struct range *range)
{
    uint64_t number = base_div_up(range->offset, c->block_size);
    for (; (number + 1) << c->block_shift <= range->end; number++) {
        struct cache_block *b;
        if (cache_find(c, number) == NULL) {
            if (cache_load(c, number, 0, &b) < 0) {
                return;
            }
            memset(b->data, 0, b->size);
            b->missing = 0;
        }
    }
}

int cache_write_fresh_zeros(struct cache *c, uint64_t offset, uint64_t n,
                            enum device_structure what)
{
    struct range range = {offset, offset + n, NULL};
    if (!cache_range_ok(c, offset, n) || ((offset | n) & (c->sector_size - 1)) != 0) {
        return -EINVAL;
    }
    bool cheap = device_has(c->device, DEVICE_CHEAP_ZERO);
    if (cheap || n > CACHE_FRESH_MAX) {
        int r = n > 0 ? zero_direct(c, offset, n, what) : 0;
        if (r == 0 && n <= CACHE_FRESH_MAX) {
            remember_zeros(c, &range);
        }
        return r;
    }
    for (uint64_t number = offset >> c->block_shift; number << c->block_shift < range.end;
         number++) {
        int r = fresh_block(c, number, &range, what);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int cache_write_plain_zeros(struct cache *c, uint64_t offset, uint64_t n,
                            enum device_structure what)
{
    static const uint8_t zeros[CACHE_BLOCK_MIN];
    struct device_tag tag = {.op = c->op, .object = c->object, .structure = (uint32_t)what};
    struct range range = {offset, offset + n, NULL};
    if (!cache_range_ok(c, offset, n) || ((offset | n) & (c->sector_size - 1)) != 0) {
        return -EINVAL;
    }
    int r = cache_before_direct(c);
    for (uint64_t done = 0; done < n && r == 0;) {
        size_t piece = (size_t)base_min(n - done, sizeof zeros);
        r = cache_device_write(c, offset + done, zeros, piece, CACHE_CONTENT, &tag);
        done += piece;
    }
    if (r == 0) {
        visit_range(c, overwritten, &range);
        if (n <= CACHE_FRESH_MAX) {
            remember_zeros(c, &range);
        }
    }
    return r;
}

/* ---- marks ---- */

int cache_put_bits(struct cache *c, uint64_t offset, uint8_t clear, uint8_t set,
                   enum device_structure what)
{
    struct device_tag tag = {.op = c->op, .object = c->object, .structure = (uint32_t)what};
    uint64_t start = offset & ~((uint64_t)c->sector_size - 1);
    if (!cache_range_ok(c, offset, 1)) {
        return -EINVAL;
    }
    if (cache_scratch(c, c->sector_size) < c->sector_size) {
        return -ENOMEM;
    }
    /* The sector as it is on the device: what is dirty in its block waits for its turn. */
    int r = cache_device_read(c, start, c->scratch, c->sector_size);
    uint8_t *byte = c->scratch + (offset - start), old = *byte;
    *byte = (uint8_t)((old & ~clear) | set);
    if (r == 0 && *byte != old) {
        r = cache_device_write(c, start, c->scratch, c->sector_size, CACHE_MARK, &tag);
    }
    struct cache_block *b = r == 0 ? cache_find(c, offset >> c->block_shift) : NULL;
    if (b != NULL) {
        byte = b->data + (offset & (c->block_size - 1));
        *byte = (uint8_t)((*byte & ~clear) | set);
    }
    return r;
}

/* ---- free space ---- */

void cache_forget(struct cache *c, uint64_t offset, uint64_t n)
{
    if (cache_range_ok(c, offset, n)) {
        struct range range = {offset, offset + n, NULL};
        visit_range(c, forgotten, &range);
    }
}

int cache_discard(struct cache *c, uint64_t offset, uint64_t n)
{
    struct device_tag tag = {.op = c->op, .object = c->object, .structure = DEVICE_OTHER};
    if (!cache_range_ok(c, offset, n)) {
        return -EINVAL;
    }
    cache_forget(c, offset, n);
    if (!device_has(c->device, DEVICE_DISCARDS) || n == 0) {
        return 0;
    }
    int r = device_discard(c->device, offset, n, &tag);
    if (r == 0) {
        c->counters->device_discards++;
    }
    return r;
}
