/* Block cache: the only road from a driver to its device.
 *
 * Metadata goes through blocks (4 KiB, or a sector where that is larger) that are written back
 * later; only sectors that changed are written, and neighbours go in one device write. What must be
 * on the device before what is told by a tier: a commit writes the tiers in order and flushes
 * between two of them (only where both had something to write, and not between content and chains).
 * File data of whole blocks goes past the blocks, coherently. The volume's lock guards a cache; it
 * has none of its own.
 *
 * Conflicts. A dirty block belongs to one tier. An edit for another tier first commits what must
 * precede it; a block of a new cluster (CACHE_FRESH) is exempt and stays in its tier, since nothing
 * on the device points to it yet.
 */
#ifndef PYEXFAT_CACHE_CACHE_H
#define PYEXFAT_CACHE_CACHE_H

#include "device/device.h"

enum cache_tier {
    CACHE_MARK = 0, /* the volume's dirty mark */
    CACHE_CONTENT,  /* file data, new clusters, allocations in the bitmap */
    CACHE_CHAIN,    /* FAT entries of files; needs no flush after CONTENT */
    CACHE_ENTRY,    /* directory entries, and links that make a new directory cluster reachable */
    CACHE_PARENT, /* the ".." of a directory that moves: after its new name, before the old one goes
                   */
    CACHE_REMOVAL, /* what must wait for an entry elsewhere: second half of a rename, freed space */
    CACHE_CLEAN,   /* the clean mark */
    CACHE_TIERS
};

struct cache_counters { /* embedded in the volume's counters */
    uint64_t hits, misses, evictions, commits;
    uint64_t device_reads, device_writes, device_flushes, device_discards;
    uint64_t bytes_read, bytes_written,
        bytes_zeroed; /* zeroed: ranges zeroed without writing them */
    uint64_t writes_by_structure[DEVICE_STRUCTURES];
    uint64_t bytes_by_structure[DEVICE_STRUCTURES];
};

struct cache;
struct cache_block;
struct cache_ref { /* a pinned place in a block */
    struct cache_block *block;
    uint8_t *data; /* at the offset asked for */
    size_t
        available;   /* bytes from there, at least to the end of the sector, at most of the block */
    uint64_t offset; /* the offset asked for */
};

int cache_open(struct device *d, size_t budget, struct cache_counters *counters,
               struct cache **out);
/* Writes nothing: commit first. */
void cache_close(struct cache *c);
void cache_set_budget(struct cache *c, size_t bytes);
size_t cache_held(const struct cache *c);
size_t cache_block_size(const struct cache *c);
/* Everything written from now on is caused by this operation on this object. */
void cache_set_operation(struct cache *c, uint64_t op, uint64_t object);

/* ---- blocks ---- */
int cache_get(struct cache *c, uint64_t offset, struct cache_ref *out);
/* Declares a change of n bytes at ref->data BEFORE it is made (may commit, see Conflicts; ref stays
 * pinned). */
int cache_edit(struct cache *c, struct cache_ref *ref, size_t n, enum cache_tier tier,
               enum device_structure what);
void cache_put(struct cache *c, struct cache_ref *ref); /* NULL block: nothing */

/* ---- copies, over any number of blocks ---- */
int cache_read(struct cache *c, uint64_t offset, void *buffer, size_t n);
int cache_write(struct cache *c, uint64_t offset, const void *buffer, size_t n,
                enum cache_tier tier, enum device_structure what);
/* For roll-backs, within one block: a block that is dirty stays in its tier, so that nothing has to
 * be committed for it; `tier` is for a clean one. */
int cache_amend(struct cache *c, uint64_t offset, const void *buffer, size_t n,
                enum cache_tier tier, enum device_structure what);
/* A new cluster, in whole sectors (else -EINVAL): a device zero where that is cheap or n is large,
 * else zeros in the cache (sectors marked fresh). What the range held before is forgotten, dirty or
 * not. */
int cache_write_fresh_zeros(struct cache *c, uint64_t offset, uint64_t n,
                            enum device_structure what);
/* The same without what makes it cheap: the zeros are written out, at once. */
int cache_write_plain_zeros(struct cache *c, uint64_t offset, uint64_t n,
                            enum device_structure what);
/* Hints that n bytes from offset will be read soon. */
void cache_read_ahead(struct cache *c, uint64_t offset, uint64_t n);

/* ---- file data ---- any alignment; whole blocks go straight to the device, the rest through
 * blocks */
int cache_read_data(struct cache *c, uint64_t offset, void *buffer, size_t n);
int cache_write_data(struct cache *c, uint64_t offset, const void *buffer, size_t n);
int cache_zero_data(struct cache *c, uint64_t offset, uint64_t n);
/* The range is free now: forget its blocks, dirty or not, without writing them. */
void cache_forget(struct cache *c, uint64_t offset, uint64_t n);
int cache_discard(struct cache *c, uint64_t offset, uint64_t n); /* forget + device discard */

/* ---- write-back ---- */
/* Writes all dirty blocks of tiers <= upto in order, flushing between tiers; with flush, once more
 * at the end if anything is not yet known to be durable. On error the blocks that were not written
 * stay dirty. */
int cache_commit(struct cache *c, enum cache_tier upto, bool flush);
/* Between operations: gives memory back when over budget (commits everything first if dirty blocks
 * fill it). */
int cache_balance(struct cache *c);
/* Within a long operation: the same, but commits only tiers <= CACHE_CHAIN. */
int cache_balance_within(struct cache *c);
bool cache_is_dirty(const struct cache *c); /* any block not written, or written and not flushed */
bool cache_tier_dirty(const struct cache *c, enum cache_tier tier);
/* Counts commits that reached CACHE_REMOVAL with everything flushed: space freed in an earlier
 * epoch may be reused. Any edit may commit, so ask for the epoch of something freed after the edit
 * that frees it. */
uint64_t cache_epoch(const struct cache *c);
/* How often the device has said EIO. */
uint32_t cache_failures(const struct cache *c);
/* Bits of one byte, at once and past the tiers, on the device and in its block if there is one: for
 * a mark that must be there even where nothing else can be written. Not flushed. */
int cache_put_bits(struct cache *c, uint64_t offset, uint8_t clear, uint8_t set,
                   enum device_structure what);
/* Drops every block without writing (after a failed operation on a volume that is being abandoned).
 */
void cache_abandon(struct cache *c);

#endif
