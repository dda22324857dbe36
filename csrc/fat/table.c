/* The File Allocation Table: entries of 12, 16 or 32 bits; single ones and whole runs of links. All
 * copies that mirror each other are kept alike, or the active one only where the volume says so
 * [Boot, BPB_ExtFlags].
 */
#include "fat/fat.h"

#include <errno.h>
#include <string.h>

enum { BLOCK_MOST = 4096 }; /* bytes of a block of the cache, but where sectors are larger */

static uint64_t copy_offset(const struct fat *f, uint32_t copy)
{
    return f->table + copy * f->table_bytes;
}

/* Byte offset of an entry within a FAT; of its first byte where it shares one (FAT12). */
static uint64_t entry_byte(const struct fat *f, uint32_t cluster)
{
    switch (f->g.bits) {
    case 12:
        return cluster + cluster / 2;
    case 16:
        return (uint64_t)cluster * 2;
    default:
        return (uint64_t)cluster * 4;
    }
}

uint64_t fat_table_offset(const struct clusters *h, uint32_t cluster)
{
    const struct fat *f = (const struct fat *)h;
    return copy_offset(f, f->g.active_fat) + entry_byte(f, cluster);
}

/* Width of what is read and written for one entry. */
static uint32_t entry_width(const struct fat *f)
{
    return f->g.bits == 32 ? 4 : 2;
}

static uint32_t load(const struct fat *f, uint32_t cluster, const uint8_t *p)
{
    switch (f->g.bits) {
    case 12: {
        uint32_t pair = base_le16(p);
        return cluster & 1 ? pair >> 4 : pair & 0xFFF;
    }
    case 16:
        return base_le16(p);
    default:
        return base_le32(p) & FAT32_ENTRY_MASK;
    }
}

/* What an entry shares with others stays: the neighbour's half byte, the top nibble of FAT32. */
static void store(const struct fat *f, uint32_t cluster, uint8_t *p, uint32_t value)
{
    uint32_t old;
    switch (f->g.bits) {
    case 12:
        old = base_le16(p);
        old = cluster & 1 ? (old & 0x000F) | value << 4 : (old & 0xF000) | (value & 0xFFF);
        base_put_le16(p, (uint16_t)old);
        return;
    case 16:
        base_put_le16(p, (uint16_t)value);
        return;
    default:
        base_put_le32(p, (base_le32(p) & ~FAT32_ENTRY_MASK) | (value & FAT32_ENTRY_MASK));
    }
}

int fat_table_get(struct fat *f, uint32_t cluster, uint32_t *value)
{
    struct cache *c = f->heap.volume->cache;
    uint64_t at = fat_table_offset(&f->heap, cluster);
    uint32_t width = entry_width(f);
    uint8_t bytes[4];
    struct cache_ref ref;
    int rc = cache_get(c, at, &ref);
    if (rc < 0) {
        return rc;
    }
    if (ref.available >= width) {
        *value = load(f, cluster, ref.data);
        cache_put(c, &ref);
        return 0;
    }
    cache_put(c, &ref);
    rc = cache_read(c, at, bytes, width); /* a FAT12 entry across two blocks */
    if (rc == 0) {
        *value = load(f, cluster, bytes);
    }
    return rc;
}

/* Whether `at` is in the block right behind the latest one: a sequence, of which more should be
 * read from *from on, unless that was done. */
static bool goes_on(const struct fat *f, struct fat_sequence *s, uint64_t at, uint64_t *from)
{
    uint64_t size = cache_block_size(f->heap.volume->cache), block = at & ~(size - 1);
    bool on = block == s->block + size;
    bool done = block < s->ahead && s->ahead <= block + FAT_READ_AHEAD;
    s->block = block;
    if (!on || done) {
        return false;
    }
    s->ahead = block + FAT_READ_AHEAD;
    *from = block;
    return true;
}

int fat_table_next(struct clusters *h, uint32_t cluster, uint32_t *next)
{
    struct fat *f = (struct fat *)h;
    uint64_t at;
    if (goes_on(f, &f->walk, fat_table_offset(h, cluster), &at)) {
        cache_read_ahead(h->volume->cache, at, FAT_READ_AHEAD);
    }
    uint32_t value, end = (f->g.bits == 32 ? FAT32_ENTRY_MASK : (1u << f->g.bits) - 1) & ~7u;
    int rc = fat_table_get(f, cluster, &value);
    h->volume->counters.fat_entries_read++;
    if (rc == 0) {
        *next = value >= end ? CLUSTERS_END : value == end - 1 ? CLUSTERS_BAD : value;
    }
    return rc;
}

/* Sets the bits of those entries in use that lie in one block; *done says how many were seen. */
static int used_in_block(struct fat *f, uint32_t cluster, uint32_t count, uint8_t *bits,
                         uint32_t bit, uint32_t *done)
{
    struct cache *c = f->heap.volume->cache;
    uint32_t width = entry_width(f);
    struct cache_ref ref;
    int rc = cache_get(c, fat_table_offset(&f->heap, cluster), &ref);
    if (rc < 0) {
        return rc;
    }
    uint32_t here = (uint32_t)base_min(count, ref.available / width);
    for (uint32_t n = 0; n < here; n++, bit++) {
        uint32_t used = load(f, cluster + n, ref.data + (size_t)n * width) != 0;
        bits[bit / 8] |= (uint8_t)(used << (bit & 7));
    }
    cache_put(c, &ref);
    *done = here;
    return 0;
}

int fat_table_used(struct fat *f, uint32_t cluster, uint32_t count, uint8_t *bits)
{
    struct cache *c = f->heap.volume->cache;
    uint64_t end = fat_table_offset(&f->heap, cluster + count), ahead = 0;
    for (uint32_t bit = 0; bit < count;) {
        uint64_t at = fat_table_offset(&f->heap, cluster + bit);
        uint32_t done = 1, value;
        int rc;
        if (at >= ahead) {
            ahead = base_min(at + FAT_READ_AHEAD, end);
            cache_read_ahead(c, at, ahead - at);
        }
        if (f->g.bits == 12) {
            rc = fat_table_get(f, cluster + bit, &value);
            bits[bit / 8] |= (uint8_t)((rc == 0 && value != 0) << (bit & 7));
        } else {
            rc = used_in_block(f, cluster + bit, count - bit, bits, bit, &done);
        }
        if (rc < 0) {
            return rc;
        }
        bit += done;
    }
    return 0;
}

/* What entry number i of a run becomes. next 0 with run: cleared. */
struct run {
    uint32_t first, count, next;
    bool clear;
};

static uint32_t run_value(const struct run *r, uint32_t i)
{
    if (r->clear) {
        return 0;
    }
    return i + 1 < r->count ? r->first + i + 1 : r->next;
}

/* One entry that crosses blocks, or any of FAT12. */
static int write_single(struct fat *f, uint64_t base, uint32_t cluster, uint32_t value,
                        enum cache_tier tier)
{
    struct cache *c = f->heap.volume->cache;
    uint8_t bytes[4];
    uint64_t at = base + entry_byte(f, cluster);
    int rc = cache_read(c, at, bytes, entry_width(f));
    if (rc < 0) {
        return rc;
    }
    store(f, cluster, bytes, value);
    return cache_write(c, at, bytes, entry_width(f), tier, DEVICE_FAT);
}

/* As many entries from number i on as the block has; *done says how many. */
static int write_block(struct fat *f, uint64_t base, const struct run *r, uint32_t i,
                       enum cache_tier tier, uint32_t *done)
{
    struct cache *c = f->heap.volume->cache;
    uint32_t width = entry_width(f);
    struct cache_ref ref;
    int rc = cache_get(c, base + entry_byte(f, r->first + i), &ref);
    if (rc < 0) {
        return rc;
    }
    uint32_t here = (uint32_t)base_min(r->count - i, ref.available / width);
    rc = cache_edit(c, &ref, (size_t)here * width, tier, DEVICE_FAT);
    for (uint32_t n = 0; rc == 0 && n < here; n++) {
        store(f, r->first + i + n, ref.data + (size_t)n * width, run_value(r, i + n));
    }
    cache_put(c, &ref);
    *done = here;
    return rc;
}

/* A whole block of a mirror is what the active FAT has there, so that it need not be read: *done is
 * 0 where the run does not fill one. */
static int mirror_block(struct fat *f, uint64_t base, const struct run *r, uint32_t i,
                        enum cache_tier tier, uint32_t *done)
{
    struct cache *c = f->heap.volume->cache;
    uint8_t bytes[BLOCK_MOST];
    size_t size = cache_block_size(c);
    uint64_t at = entry_byte(f, r->first + i);
    uint32_t entries = (uint32_t)(size / entry_width(f));
    *done = 0;
    if (size > sizeof bytes || ((base + at) & (size - 1)) != 0 || r->count - i < entries) {
        return 0;
    }
    int rc = cache_read(c, copy_offset(f, f->g.active_fat) + at, bytes, size);
    if (rc == 0) {
        rc = cache_write(c, base + at, bytes, size, tier, DEVICE_FAT);
    }
    *done = entries;
    return rc;
}

/* An entry keeps some bits of what was there, so that blocks of the active FAT are read even when
 * all their entries change: those of a long run many at a time. */
static void read_ahead(const struct fat *f, uint64_t base, const struct run *r, uint32_t i,
                       uint64_t *ahead)
{
    uint64_t at = base + entry_byte(f, r->first + i);
    if (at >= *ahead) {
        uint64_t end = base + entry_byte(f, r->first + r->count - 1) + entry_width(f);
        uint64_t n = base_min(FAT_READ_AHEAD, end - at);
        if (n > cache_block_size(f->heap.volume->cache)) {
            cache_read_ahead(f->heap.volume->cache, at, n);
        }
        *ahead = at + n;
    }
}

static int write_copy(struct fat *f, uint32_t copy, const struct run *r, enum cache_tier tier)
{
    uint64_t base = copy_offset(f, copy), ahead = 0;
    for (uint32_t i = 0; i < r->count;) {
        uint32_t done = 0;
        int rc = 0;
        read_ahead(f, copy_offset(f, f->g.active_fat), r, i, &ahead);
        if (f->g.bits == 12) {
            rc = write_single(f, base, r->first + i, run_value(r, i), tier);
            done = 1;
        } else if (copy != f->g.active_fat) {
            rc = mirror_block(f, base, r, i, tier, &done);
        }
        if (rc == 0 && done == 0) {
            rc = write_block(f, base, r, i, tier, &done);
        }
        if (rc < 0) {
            return rc;
        }
        i += done;
        if (i < r->count && (rc = cache_balance_within(f->heap.volume->cache)) < 0) {
            return rc;
        }
    }
    return 0;
}

/* Short runs one after the other come to the blocks of the mirrors one by one. */
static void follow_writes(struct fat *f, const struct run *r)
{
    struct cache *c = f->heap.volume->cache;
    uint64_t last = entry_byte(f, r->first + r->count - 1), from;
    bool is_short = r->count < 2 * cache_block_size(c) / entry_width(f);
    if (!goes_on(f, &f->writes, last, &from) || !is_short) {
        return;
    }
    for (uint32_t copy = 0; f->g.mirror && copy < f->g.fats; copy++) {
        if (copy != f->g.active_fat && from < f->table_bytes) {
            cache_read_ahead(c, copy_offset(f, copy) + from,
                             base_min(FAT_READ_AHEAD, f->table_bytes - from));
        }
    }
}

static int write_run(struct fat *f, const struct run *r, enum cache_tier tier)
{
    f->heap.volume->counters.fat_entries_written += r->count;
    follow_writes(f, r);
    int rc = write_copy(f, f->g.active_fat, r, tier);
    for (uint32_t copy = 0; rc == 0 && f->g.mirror && copy < f->g.fats; copy++) {
        if (copy != f->g.active_fat) {
            rc = write_copy(f, copy, r, tier);
        }
    }
    return rc;
}

int fat_table_link(struct clusters *h, uint32_t first, uint32_t count, uint32_t next,
                   enum cache_tier tier)
{
    struct run r = {first, count, next, false};
    return write_run((struct fat *)h, &r, tier);
}

int fat_table_clear(struct clusters *h, uint32_t first, uint32_t count, enum cache_tier tier)
{
    struct run r = {first, count, 0, true};
    return write_run((struct fat *)h, &r, tier);
}

int fat_table_marks(struct fat *f, bool clean, enum cache_tier tier)
{
    if (f->g.bits == 12) {
        return 0; /* has no marks */
    }
    uint32_t bit = f->g.bits == 16 ? (uint32_t)FAT16_CLEAN : FAT32_CLEAN, value;
    int rc = fat_table_get(f, 1, &value);
    if (rc < 0) {
        return rc;
    }
    struct run r = {1, 1, clean ? value | bit : value & ~bit, false};
    return write_run(f, &r, tier);
}

int fat_table_failure(struct fat *f)
{
    /* The bit is in the last byte of entry 1. */
    uint32_t bit = f->g.bits == 16 ? FAT16_NO_HARD_ERROR >> 8 : FAT32_NO_HARD_ERROR >> 24;
    int rc = 0;
    for (uint32_t copy = 0; rc == 0 && f->g.bits != 12 && copy < f->g.fats; copy++) {
        if (f->g.mirror || copy == f->g.active_fat) {
            uint64_t at = copy_offset(f, copy) + entry_byte(f, 1) + entry_width(f) - 1;
            rc = cache_put_bits(f->heap.volume->cache, at, (uint8_t)bit, 0, DEVICE_FAT);
        }
    }
    return rc;
}
