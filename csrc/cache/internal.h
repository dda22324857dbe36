/* What the files of the block cache share. */
#ifndef PYEXFAT_CACHE_INTERNAL_H
#define PYEXFAT_CACHE_INTERNAL_H

#include "cache/cache.h"

#define CACHE_BLOCK_MIN 4096u
#define CACHE_SCRATCH_MAX (1u << 20) /* the longest merged write */
#define CACHE_AHEAD_MAX (128u << 10) /* one read ahead */
#define CACHE_FRESH_MAX (64u << 10)  /* new clusters up to here are zeroed in blocks */
#define CACHE_SPARES 8u              /* blocks kept for the next ones */
#define CACHE_HASH UINT64_C(0x9e3779b97f4a7c15)

struct cache_block {
    uint64_t number;                 /* offset on the device / block size */
    struct cache_block *prev, *next; /* in the LRU when clean, in its tier's list when dirty */
    uint64_t op, object;             /* of the last edit */
    uint8_t *data;
    uint32_t size; /* bytes: a whole block but for the device's last */
    uint32_t pins;
    uint8_t dirty;     /* a bit per sector */
    uint8_t fresh;     /* a bit per sector of a new cluster that was never written */
    uint8_t missing;   /* a bit per sector whose content was not read; never a dirty one */
    uint8_t tier;      /* of all that is dirty here */
    uint8_t structure; /* of the last edit */
    bool used;         /* looked up since the LRU last came by */
};

struct cache_list {
    struct cache_block *head, *tail;
    size_t count;
};

struct cache_slot {
    uint64_t number;
    struct cache_block *block; /* NULL: empty */
};

struct cache {
    struct device *device;
    struct cache_counters *counters;
    uint64_t size; /* bytes of the device, whole sectors */
    uint32_t block_size, block_shift, sector_size, sector_shift;
    struct cache_slot *slots; /* linear probing, at most half full */
    size_t mask;
    uint32_t hash_shift;
    size_t count, budget;
    bool cheap_reads;          /* of the device: sectors are read when they are needed */
    size_t memory;             /* bytes of frames and slabs */
    struct cache_slab *slabs;  /* with room for a block's head */
    struct cache_block *spare; /* blocks of nobody, with their frames, for the next ones */
    size_t spares;
    struct cache_block *last; /* of the latest look-up */
    struct cache_list lru;    /* head: recent */
    struct cache_list tiers[CACHE_TIERS];
    size_t dirty;       /* blocks in all tiers */
    uint32_t failures;  /* EIO of the device */
    uint32_t unflushed; /* tiers written since the device was last flushed, a bit each */
    uint64_t epoch, op, object;
    uint8_t *scratch; /* merged writes, reads ahead */
    size_t scratch_size;
    struct cache_block **sorted;
    size_t sorted_size;
};

static inline struct cache_block *cache_find(const struct cache *c, uint64_t number)
{
    size_t i = (size_t)((number * CACHE_HASH) >> c->hash_shift);
    for (; c->slots[i].block != NULL; i = (i + 1) & c->mask) {
        if (c->slots[i].number == number) {
            return c->slots[i].block;
        }
    }
    return NULL;
}

static inline uint64_t cache_block_offset(const struct cache *c, const struct cache_block *b)
{
    return b->number << c->block_shift;
}

/* What one more block takes: frame, head, and its share of a table that is half full. */
static inline size_t cache_footprint(const struct cache *c)
{
    return c->block_size + sizeof(struct cache_block) + 2 * sizeof(struct cache_slot);
}

/* The bits of all sectors that bytes [from, to) of a block touch; from < to. */
static inline uint8_t cache_sector_mask(const struct cache *c, size_t from, size_t to)
{
    uint32_t first = (uint32_t)(from >> c->sector_shift);
    uint32_t last = (uint32_t)((to - 1) >> c->sector_shift);
    return (uint8_t)(((2u << (last - first)) - 1u) << first);
}

static inline uint8_t cache_all_sectors(const struct cache *c, const struct cache_block *b)
{
    return cache_sector_mask(c, 0, b->size);
}

static inline bool cache_range_ok(const struct cache *c, uint64_t offset, uint64_t n)
{
    return offset <= c->size && n <= c->size - offset;
}

/* cache.c */
void cache_list_remove(struct cache_list *l, struct cache_block *b);
void cache_list_push(struct cache_list *l, struct cache_block *b);
/* Makes a block that is not in the cache. At least the sectors in `want` are read, the others are
 * missing. */
int cache_load(struct cache *c, uint64_t number, uint8_t want, struct cache_block **out);
void cache_drop(struct cache *c, struct cache_block *b);
/* Clean blocks go until the budget holds, with one more block or without. */
void cache_evict(struct cache *c, bool one_more);
size_t cache_scratch(struct cache *c,
                     size_t want); /* bytes to be had, less than wanted when out of memory */

/* frames.c */
struct cache_block *cache_frame_new(struct cache *c); /* zeros but for data; NULL: no memory */
void cache_frame_free(struct cache *c, struct cache_block *b);
size_t cache_frame_cost(const struct cache *c); /* bytes that one more block would add */
void cache_frames_trim(struct cache *c);        /* gives back the frames that no block uses */

/* write_back.c: the device with the counters kept */
int cache_device_read(struct cache *c, uint64_t offset, void *buffer, size_t n);
int cache_device_write(struct cache *c, uint64_t offset, const void *buffer, size_t n,
                       enum cache_tier tier, const struct device_tag *tag);
int cache_device_zero(struct cache *c, uint64_t offset, uint64_t n, enum cache_tier tier,
                      const struct device_tag *tag);
/* Before a write that goes past the blocks: the dirty mark must be on the device first. */
int cache_before_direct(struct cache *c);
/* Resolves conflicts and marks the sectors dirty. */
int cache_dirty_block(struct cache *c, struct cache_block *b, uint8_t mask, enum cache_tier tier,
                      enum device_structure what);
void cache_undirty(struct cache *c, struct cache_block *b, uint8_t mask);

#endif
