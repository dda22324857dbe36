/* The block cache against a device of this test's own that keeps a log and can fail, and against a
 * plain array. */
#include "cache/cache.h"

#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- a device that is watched ---- */

#define DISK (1u << 20)
#define SECTORS (DISK / 512)
#define NONE 0xff

struct disk {
    uint8_t bytes[DISK];
    unsigned reads, writes, flushes;
    uint64_t last_offset, last_n;
    unsigned fail_in; /* 1: the next write or flush fails; 0: never */
    bool fail_reads;
    /* What the test knows of each sector, by which the order of tiers is judged. */
    bool judged;
    uint8_t pending[SECTORS]; /* tier of an edit that was not written, or NONE */
    uint8_t written[SECTORS]; /* tier of a write that was not flushed, or NONE */
    unsigned pending_count[CACHE_TIERS], written_count[CACHE_TIERS];
};

static void set_tier(uint8_t *v, unsigned *counts, uint8_t tier)
{
    if (*v != NONE) {
        counts[*v]--;
    }
    *v = tier;
    if (tier != NONE) {
        counts[tier]++;
    }
}

static bool fails(struct disk *k)
{
    return k->fail_in > 0 && --k->fail_in == 0;
}

static int disk_read(void *owner, uint64_t offset, void *buffer, size_t n)
{
    struct disk *k = owner;
    if (k->fail_reads) {
        return -EIO;
    }
    k->reads++;
    memcpy(buffer, k->bytes + offset, n);
    return 0;
}

static void judge(struct disk *k, uint64_t offset, size_t n)
{
    for (size_t s = (size_t)offset / 512; s < (offset + n) / 512; s++) {
        uint8_t tier = k->pending[s] == NONE ? CACHE_CONTENT : k->pending[s];
        for (unsigned t = 0; t < tier; t++) {
            CHECK(k->pending_count[t] == 0);
            bool any_order = t == CACHE_CONTENT && tier == CACHE_CHAIN;
            CHECK(any_order || k->written_count[t] == 0);
        }
        set_tier(&k->written[s], k->written_count, tier);
        set_tier(&k->pending[s], k->pending_count, NONE);
    }
}

static int disk_write(void *owner, uint64_t offset, const void *buffer, size_t n)
{
    struct disk *k = owner;
    if (fails(k)) {
        return -EIO;
    }
    if (k->judged) {
        judge(k, offset, n);
    }
    k->writes++;
    k->last_offset = offset;
    k->last_n = n;
    memcpy(k->bytes + offset, buffer, n);
    return 0;
}

static int disk_flush(void *owner)
{
    struct disk *k = owner;
    if (fails(k)) {
        return -EIO;
    }
    k->flushes++;
    memset(k->written, NONE, sizeof k->written);
    memset(k->written_count, 0, sizeof k->written_count);
    return 0;
}

static const struct device_callbacks disk_calls = {
    .read = disk_read, .write = disk_write, .flush = disk_flush};

struct rig {
    struct disk *disk;
    struct device *device;
    struct cache *cache;
    struct cache_counters n;
};

static uint64_t state = 1;

static uint32_t rnd(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

static void rig_up_as(struct rig *r, uint64_t size, uint32_t sector, size_t budget,
                      uint32_t more_flags)
{
    memset(r, 0, sizeof *r);
    r->disk = calloc(1, sizeof *r->disk);
    CHECK(r->disk != NULL);
    for (size_t i = 0; i < DISK; i++) {
        r->disk->bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    memset(r->disk->pending, NONE, SECTORS);
    memset(r->disk->written, NONE, SECTORS);
    CHECK(device_callbacks_new(&disk_calls, r->disk, size, sector, &r->device) == 0);
    r->device->flags |= more_flags;
    CHECK(cache_open(r->device, budget, &r->n, &r->cache) == 0);
}

static void rig_up(struct rig *r, uint64_t size, uint32_t sector, size_t budget)
{
    rig_up_as(r, size, sector, budget, 0);
}

static void rig_down(struct rig *r)
{
    cache_close(r->cache);
    device_unref(r->device);
    free(r->disk);
}

/* Writes one byte through a pin. */
static int poke(struct cache *c, uint64_t offset, uint8_t v, enum cache_tier tier,
                enum device_structure what)
{
    struct cache_ref ref;
    int r = cache_get(c, offset, &ref);
    if (r == 0) {
        r = cache_edit(c, &ref, 1, tier, what);
        if (r == 0) {
            ref.data[0] = v;
        }
        cache_put(c, &ref);
    }
    return r;
}

/* ---- blocks ---- */

static void test_blocks(void)
{
    struct rig r;
    struct cache_ref a, b;
    rig_up(&r, 4096 * 4 + 1536, 512, 1 << 20);
    CHECK(cache_block_size(r.cache) == 4096);
    CHECK(cache_get(r.cache, 5000, &a) == 0);
    CHECK(a.offset == 5000 && a.available == 3192);
    CHECK(memcmp(a.data, r.disk->bytes + 5000, a.available) == 0);
    CHECK(cache_get(r.cache, 4096, &b) == 0);
    CHECK(b.block == a.block && b.data + 904 == a.data);
    CHECK(r.disk->reads == 1 && r.n.hits == 1 && r.n.misses == 1);
    CHECK(r.n.device_reads == 1 && r.n.bytes_read == 4096);
    cache_put(r.cache, &a);
    cache_put(r.cache, &b);
    cache_put(r.cache, &b);                             /* nothing in it any more */
    CHECK(cache_get(r.cache, 4096 * 4 + 100, &a) == 0); /* the short last block */
    CHECK(a.available == 1436 && r.n.bytes_read == 4096 + 1536);
    CHECK(cache_edit(r.cache, &a, 1437, CACHE_ENTRY, DEVICE_ENTRY_SET) == -EINVAL);
    cache_put(r.cache, &a);
    CHECK(cache_get(r.cache, 4096 * 4 + 1536, &a) == -EINVAL && a.block == NULL);
    CHECK(cache_get(r.cache, UINT64_MAX, &a) == -EINVAL);
    uint8_t buffer[16];
    CHECK(cache_read(r.cache, 4096 * 4 + 1530, buffer, 16) == -EINVAL);
    CHECK(cache_read(r.cache, UINT64_MAX - 3, buffer, 16) == -EINVAL);
    CHECK(cache_write(r.cache, 4096 * 4 + 1530, buffer, 16, CACHE_ENTRY, DEVICE_OTHER) == -EINVAL);
    CHECK(!cache_is_dirty(r.cache));
    r.disk->fail_reads = true;
    CHECK(cache_get(r.cache, 0, &a) == -EIO && a.block == NULL);
    r.disk->fail_reads = false;
    CHECK(cache_get(r.cache, 0, &a) == 0);
    cache_put(r.cache, &a);
    rig_down(&r);
}

static void test_merging(void)
{
    struct rig r;
    rig_up(&r, DISK, 512, 1 << 20);
    uint8_t big[65536];
    memset(big, 0xab, sizeof big);
    /* Sixteen whole blocks: one write, and no block was read for it. */
    CHECK(cache_write(r.cache, 8192, big, sizeof big, CACHE_CONTENT, DEVICE_BITMAP) == 0);
    CHECK(r.disk->reads == 0);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, false) == 0);
    CHECK(r.disk->writes == 1 && r.disk->last_offset == 8192 && r.disk->last_n == 65536);
    CHECK(r.disk->flushes == 0 && cache_is_dirty(r.cache));
    /* The end of one block and the beginning of the next: one write of two sectors. */
    CHECK(poke(r.cache, 4096 * 9, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 4096 * 9 - 1, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_commit(r.cache, CACHE_ENTRY, true) == 0);
    CHECK(r.disk->writes == 2 && r.disk->last_offset == 4096 * 9 - 512 && r.disk->last_n == 1024);
    CHECK(r.disk->flushes == 2); /* content first, then these */
    CHECK(r.n.writes_by_structure[DEVICE_ENTRY_SET] == 1);
    CHECK(r.n.bytes_by_structure[DEVICE_ENTRY_SET] == 1024);
    CHECK(r.n.bytes_by_structure[DEVICE_BITMAP] == 65536);
    CHECK(!cache_is_dirty(r.cache));
    /* Neighbours of different kinds stay apart; so do sectors with one in between. */
    CHECK(poke(r.cache, 4096 * 9, 2, CACHE_ENTRY, DEVICE_DIRECTORY) == 0);
    CHECK(poke(r.cache, 4096 * 9 - 1, 2, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 4096 * 9 + 1024, 2, CACHE_ENTRY, DEVICE_DIRECTORY) == 0);
    CHECK(cache_commit(r.cache, CACHE_ENTRY, true) == 0);
    CHECK(r.disk->writes == 5 && r.disk->flushes == 3);
    CHECK(r.n.device_writes == 5 && r.n.bytes_written == 65536 + 1024 + 3 * 512);
    /* A run that ends within a block goes on with the rest of that block. */
    CHECK(poke(r.cache, 4095, 3, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 4096, 3, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 4096 + 2048, 3, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 4096 + 4095, 3, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 4096 + 4096, 3, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_commit(r.cache, CACHE_ENTRY, true) == 0);
    CHECK(r.disk->writes == 8 && r.disk->bytes[4096 + 2048] == 3 && r.disk->bytes[8192] == 3);
    rig_down(&r);
}

static void test_order(void)
{
    struct rig r;
    rig_up(&r, DISK, 512, 1 << 20);
    /* One set, one write, one flush. */
    CHECK(poke(r.cache, 4096, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->writes == 1 && r.disk->flushes == 1 && r.n.commits == 1);
    /* Nothing to do: nothing done, but whoever waits for an epoch gets it. */
    uint64_t epoch = cache_epoch(r.cache);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->writes == 1 && r.disk->flushes == 1 && r.n.commits == 1);
    CHECK(cache_epoch(r.cache) > epoch);
    /* All tiers: a flush between every two of them (but for content and chains) and one at the end.
     */
    for (unsigned t = 0; t < CACHE_TIERS; t++) {
        CHECK(poke(r.cache, 8192 * (CACHE_TIERS - t), 9, (enum cache_tier)t, DEVICE_OTHER) == 0);
        CHECK(cache_tier_dirty(r.cache, (enum cache_tier)t));
    }
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->writes == 8 && r.disk->flushes == 7);
    /* Only what was asked for. The epoch wants entries to be durable, not merely written. */
    CHECK(poke(r.cache, 4096, 2, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 8192, 2, CACHE_REMOVAL, DEVICE_BITMAP) == 0);
    epoch = cache_epoch(r.cache);
    CHECK(cache_commit(r.cache, CACHE_CHAIN, true) == 0);
    CHECK(r.disk->writes == 8 && cache_epoch(r.cache) == epoch);
    CHECK(poke(r.cache, 32768, 2, CACHE_CONTENT, DEVICE_BITMAP) == 0);
    CHECK(cache_commit(r.cache, CACHE_CHAIN, true) == 0);
    CHECK(r.disk->writes == 9 && r.disk->flushes == 8 && cache_epoch(r.cache) == epoch);
    CHECK(cache_commit(r.cache, CACHE_ENTRY, false) == 0);
    CHECK(r.disk->writes == 10 && cache_epoch(r.cache) == epoch);
    CHECK(cache_tier_dirty(r.cache, CACHE_REMOVAL) && !cache_tier_dirty(r.cache, CACHE_ENTRY));
    /* Flushes before, for the order; but then removals are written, not durable. */
    CHECK(cache_commit(r.cache, CACHE_REMOVAL, false) == 0);
    CHECK(r.disk->writes == 11 && r.disk->flushes == 9 && cache_epoch(r.cache) == epoch);
    CHECK(cache_is_dirty(r.cache));
    CHECK(cache_commit(r.cache, CACHE_REMOVAL, true) == 0);
    CHECK(r.disk->flushes == 10 && !cache_is_dirty(r.cache) && cache_epoch(r.cache) > epoch);
    /* File data past the blocks counts as content; the mark goes before it. */
    static uint8_t data[8192];
    CHECK(poke(r.cache, 0, 2, CACHE_MARK, DEVICE_BOOT) == 0);
    CHECK(cache_write_data(r.cache, 65536, data, sizeof data) == 0);
    CHECK(r.disk->writes == 13 && r.disk->flushes == 11 && r.disk->bytes[0] == 2);
    CHECK(poke(r.cache, 4096, 3, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_commit(r.cache, CACHE_ENTRY, true) == 0);
    CHECK(r.disk->writes == 14 && r.disk->flushes == 13);
    rig_down(&r);
}

static void test_conflicts(void)
{
    struct rig r;
    struct cache_ref a;
    rig_up(&r, DISK, 512, 1 << 20);
    /* Up: the earlier tier is written first, without the new change. */
    CHECK(poke(r.cache, 4096, 0x11, CACHE_CONTENT, DEVICE_BITMAP) == 0);
    CHECK(poke(r.cache, 4096, 0x22, CACHE_REMOVAL, DEVICE_BITMAP) == 0);
    CHECK(r.disk->writes == 1 && r.disk->bytes[4096] == 0x11);
    CHECK(cache_commit(r.cache, CACHE_REMOVAL, false) == 0);
    CHECK(r.disk->writes == 2 && r.disk->flushes == 1 && r.disk->bytes[4096] == 0x22);
    /* Down: everything up to the block's tier first. */
    CHECK(poke(r.cache, 8192, 0x33, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 16384, 0x33, CACHE_CHAIN, DEVICE_FAT) == 0);
    CHECK(poke(r.cache, 8192, 0x44, CACHE_CONTENT, DEVICE_ENTRY_SET) == 0);
    CHECK(r.disk->writes == 4 && r.disk->flushes == 2);
    CHECK(r.disk->bytes[8192] == 0x33 && r.disk->bytes[16384] == 0x33);
    CHECK(cache_tier_dirty(r.cache, CACHE_CONTENT) && !cache_tier_dirty(r.cache, CACHE_ENTRY));
    /* A commit that fails refuses the edit and loses nothing. */
    CHECK(cache_get(r.cache, 8192, &a) == 0);
    r.disk->fail_in = 1;
    CHECK(cache_edit(r.cache, &a, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == -EIO);
    CHECK(a.data[0] == 0x44 && cache_tier_dirty(r.cache, CACHE_CONTENT));
    cache_put(r.cache, &a);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->bytes[8192] == 0x44);
    rig_down(&r);
}

static void test_fresh(void)
{
    struct rig r;
    rig_up(&r, DISK, 512, 1 << 20);
    /* A new cluster: zeros and its first entries in one write, before what makes it reachable. */
    CHECK(cache_write_fresh_zeros(r.cache, 32768, 32768, DEVICE_DIRECTORY) == 0);
    CHECK(poke(r.cache, 32768, 0x85, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.disk->writes == 0 && r.disk->reads == 0 && !cache_tier_dirty(r.cache, CACHE_ENTRY));
    CHECK(poke(r.cache, 4096, 0x22, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_commit(r.cache, CACHE_ENTRY, true) == 0);
    CHECK(r.n.bytes_written == 32768 + 512 && r.disk->flushes == 2);
    CHECK(r.disk->bytes[32768] == 0x85 && r.disk->bytes[32769] == 0 && r.disk->bytes[65535] == 0);
    /* Written, it is like any other. */
    CHECK(poke(r.cache, 32768, 0x86, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_tier_dirty(r.cache, CACHE_ENTRY));
    /* Clusters smaller than a block: the neighbour in the block is not exempt. */
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    unsigned writes = r.disk->writes;
    CHECK(cache_write_fresh_zeros(r.cache, 8192 + 512, 512, DEVICE_DIRECTORY) == 0);
    CHECK(poke(r.cache, 8192 + 512, 0x85, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.disk->writes == writes);
    CHECK(poke(r.cache, 8192, 0x85, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.disk->writes == writes + 1 && r.disk->last_offset == 8192 + 512);
    CHECK(r.disk->last_n == 512 && cache_tier_dirty(r.cache, CACHE_ENTRY));
    CHECK(r.disk->bytes[8192 + 1024] == (uint8_t)((8192 + 1024) * 7 + (8192 + 1024) / 251));
    /* Old content of the range, dirty in whatever tier, is not written any more. */
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(poke(r.cache, 16384, 0x77, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    writes = r.disk->writes;
    CHECK(cache_write_fresh_zeros(r.cache, 16384, 4096, DEVICE_DIRECTORY) == 0);
    CHECK(r.disk->writes == writes && !cache_tier_dirty(r.cache, CACHE_ENTRY));
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->bytes[16384] == 0);
    /* Half of a block's new sectors written when the device failed: these are exempt no more, the
     * others are. */
    CHECK(cache_write_fresh_zeros(r.cache, 24576 + 512, 512, DEVICE_DIRECTORY) == 0);
    CHECK(cache_write_fresh_zeros(r.cache, 24576 + 2048, 512, DEVICE_DIRECTORY) == 0);
    r.disk->fail_in = 2;
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == -EIO);
    writes = r.disk->writes;
    CHECK(poke(r.cache, 24576 + 2048, 0x85, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.disk->writes == writes);
    CHECK(poke(r.cache, 24576 + 512, 0x85, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.disk->writes == writes + 1 && r.disk->last_offset == 24576 + 2048);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    /* A large one goes to the device at once, however large. */
    CHECK(cache_write_fresh_zeros(r.cache, 131072, 524288, DEVICE_DIRECTORY) == 0);
    CHECK(r.disk->bytes[131072] == 0 && r.disk->bytes[131072 + 524287] == 0);
    CHECK(cache_held(r.cache) < 131072);
    CHECK(poke(r.cache, 131072, 0x85, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    unsigned flushes = r.disk->flushes;
    CHECK(cache_commit(r.cache, CACHE_ENTRY, true) == 0);
    CHECK(r.disk->flushes == flushes + 2); /* zeros durable before the entry */
    CHECK(cache_write_fresh_zeros(r.cache, 100, 512, DEVICE_DIRECTORY) == -EINVAL);
    rig_down(&r);
}

static void test_cheap_zero(void)
{
    struct device *d;
    struct cache *c;
    struct cache_counters n = {0};
    struct cache_ref a;
    static uint8_t data[65536];
    CHECK(device_memory_new(1 << 22, 512, &d) == 0);
    CHECK(cache_open(d, 1 << 20, &n, &c) == 0);
    memset(data, 0xee, sizeof data);
    CHECK(cache_write_data(c, 0, data, sizeof data) == 0);
    CHECK(cache_write_fresh_zeros(c, 0, 32768, DEVICE_DIRECTORY) == 0);
    CHECK(n.bytes_written == 65536 && n.bytes_zeroed == 32768);
    CHECK(cache_get(c, 4096, &a) == 0 && a.data[0] == 0 && n.device_reads == 0);
    cache_put(c, &a);
    CHECK(cache_zero_data(c, 40000, 10000) == 0);
    CHECK(cache_read_data(c, 0, data, sizeof data) == 0);
    CHECK(data[32767] == 0 && data[32768] == 0xee && data[39999] == 0xee);
    CHECK(data[40000] == 0 && data[49999] == 0 && data[50000] == 0xee);
    CHECK(cache_commit(c, CACHE_CLEAN, true) == 0);
    CHECK(device_read(d, 40448, data, 512) == 0 && data[0] == 0);
    CHECK(cache_discard(c, 0, 65536) == 0 && n.device_discards == 1);
    cache_close(c);
    device_unref(d);
}

static void test_budget(void)
{
    struct rig r;
    struct cache_ref a;
    rig_up(&r, DISK, 512, 10 * 4200);
    for (unsigned i = 0; i < 2000; i++) {
        CHECK(cache_get(r.cache, (uint64_t)rnd(256) * 4096, &a) == 0);
        cache_put(r.cache, &a);
        CHECK(cache_held(r.cache) <= 10 * 4200);
    }
    CHECK(r.n.evictions > 1000 && r.n.hits + r.n.misses == 2000);
    /* What is looked up all the time stays. */
    r.n.misses = 0;
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(cache_get(r.cache, 0, &a) == 0);
        cache_put(r.cache, &a);
        CHECK(cache_get(r.cache, (uint64_t)(i % 255 + 1) * 4096, &a) == 0);
        cache_put(r.cache, &a);
    }
    CHECK(r.n.misses <= 1002);
    /* Nothing at all: what is pinned or dirty is kept, and given back after. */
    cache_set_budget(r.cache, 0);
    CHECK(cache_held(r.cache) == 0);
    CHECK(poke(r.cache, 8192, 0x99, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_get(r.cache, 0, &a) == 0);
    CHECK(poke(r.cache, 4096, 0x99, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(a.data[1] == r.disk->bytes[1]);
    CHECK(cache_balance_within(r.cache) == 0); /* entries are not for it to write */
    CHECK(r.disk->writes == 0);
    CHECK(cache_balance(r.cache) == 0);
    CHECK(r.disk->writes == 2 && r.disk->flushes == 0 && r.disk->bytes[8192] == 0x99);
    cache_put(r.cache, &a);
    CHECK(cache_balance(r.cache) == 0 && cache_held(r.cache) == 0);
    rig_down(&r);
}

/* Small writes in sequence leave in large ones, without a flush. */
static void test_streams(void)
{
    struct rig r;
    uint8_t chunk[100];
    static uint8_t back[100000];
    rig_up(&r, DISK, 512, 256 * 4200);
    memset(chunk, 0x5a, sizeof chunk);
    CHECK(poke(r.cache, DISK - 4096, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    for (unsigned i = 0; i < 8000; i++) {
        CHECK(cache_write_data(r.cache, i * 100, chunk, 100) == 0);
        CHECK(cache_balance(r.cache) == 0);
    }
    CHECK(r.disk->writes <= 3 && r.disk->writes >= 1 && r.disk->flushes == 0);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->bytes[799999] == 0x5a && r.disk->bytes[800000] != 0x5a);
    cache_abandon(r.cache);
    CHECK(cache_held(r.cache) == 0);
    /* Small reads in sequence pull in what follows. */
    unsigned reads = r.disk->reads;
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(cache_read_data(r.cache, i * 100, back + i * 100, 100) == 0);
    }
    CHECK(r.disk->reads - reads <= 3);
    CHECK(memcmp(back, r.disk->bytes, sizeof back) == 0);
    /* A large one is one read whatever its length, with the caller's edges from blocks. */
    cache_abandon(r.cache);
    reads = r.disk->reads;
    CHECK(cache_read_data(r.cache, 512 * 3, back, 90112) == 0);
    CHECK(r.disk->reads == reads + 1 && memcmp(back, r.disk->bytes + 512 * 3, 90112) == 0);
    cache_read_ahead(r.cache, 0, 65536);
    CHECK(r.disk->reads == reads + 2);
    cache_read_ahead(r.cache, DISK - 100, 1 << 20);
    CHECK(r.disk->reads == reads + 3);
    rig_down(&r);
}

static void test_forget(void)
{
    struct rig r;
    uint8_t b;
    rig_up(&r, DISK, 512, 1 << 20);
    CHECK(poke(r.cache, 4096, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 8192 + 512, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(poke(r.cache, 8192, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    cache_forget(r.cache, 4096, 4096 + 512); /* a block, and a sector of the next */
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->writes == 1 && r.disk->last_offset == 8192 + 512 && r.disk->last_n == 512);
    CHECK(cache_read(r.cache, 4096, &b, 1) == 0 && b == r.disk->bytes[4096]);
    CHECK(poke(r.cache, 4096, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    cache_forget(r.cache, 0, DISK); /* by the blocks there are, not by the range */
    CHECK(!cache_is_dirty(r.cache) && cache_held(r.cache) == 0);
    CHECK(cache_discard(r.cache, 0, DISK) == 0 && r.n.device_discards == 0); /* it cannot */
    rig_down(&r);
}

/* Where the device is memory: sectors are read when they are needed, and what is only read has no
 * place in a full cache. */
static void test_cheap_reads(void)
{
    struct rig r;
    struct cache_ref a;
    uint8_t back[3000], set[96];
    rig_up_as(&r, DISK, 512, 10 * 4300, DEVICE_CHEAP_READ);
    memset(set, 0x85, sizeof set);
    /* While there is room, a block as ever. */
    CHECK(cache_read(r.cache, 4000, back, 200) == 0);
    CHECK(memcmp(back, r.disk->bytes + 4000, 200) == 0 && r.n.bytes_read == 8192);
    CHECK(cache_read(r.cache, 5000, back, 3000) == 0 && r.n.bytes_read == 8192 && r.n.hits == 1);
    /* A write within a sector reads that one; across two, these two; whole ones, none. */
    CHECK(cache_write(r.cache, 8192 + 64, set, 96, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.n.bytes_read == 8192 + 512);
    CHECK(cache_write(r.cache, 8192 + 512 - 32, set, 96, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.n.bytes_read == 8192 + 1024);
    CHECK(cache_write(r.cache, 8192 + 2048, r.disk->bytes, 1024, CACHE_ENTRY, DEVICE_OTHER) == 0);
    CHECK(r.n.bytes_read == 8192 + 1024);
    CHECK(cache_read(r.cache, 8192 + 500, back, 24) == 0 && r.n.bytes_read == 8192 + 1024);
    CHECK(back[0] == 0x85 && back[23] == 0x85);
    /* The others when somebody asks for them. */
    unsigned reads = r.disk->reads;
    CHECK(cache_read(r.cache, 8192 + 1024 + 7, back, 9) == 0 && r.n.bytes_read == 8192 + 1536);
    CHECK(memcmp(back, r.disk->bytes + 8192 + 1024 + 7, 9) == 0);
    CHECK(cache_get(r.cache, 8192 + 64, &a) == 0 && r.n.bytes_read == 8192 + 1536);
    CHECK(a.available == 1536 - 64 && a.data[0] == 0x85);
    cache_put(r.cache, &a);
    CHECK(cache_get(r.cache, 8192 + 1536, &a) == 0 && r.n.bytes_read == 8192 + 2048);
    CHECK(a.available == 1536 && memcmp(a.data, r.disk->bytes + 8192 + 1536, 512) == 0);
    cache_put(r.cache, &a);
    CHECK(cache_read(r.cache, 8192, back, 2900) == 0 && r.n.bytes_read == 8192 + 2048);
    CHECK(cache_read(r.cache, 8192 + 3000, back, 1000) == 0 && r.n.bytes_read == 3 * 4096 - 1024);
    CHECK(r.disk->reads == reads + 3);
    CHECK(memcmp(back + 72, r.disk->bytes + 8192 + 3072, 928) == 0);
    CHECK(cache_get(r.cache, 8192, &a) == 0 && a.available == 4096);
    CHECK(memcmp(a.data, r.disk->bytes + 8192, 64) == 0 && a.data[64] == 0x85);
    cache_put(r.cache, &a);
    /* Only dirty sectors are written, and lie over what is read past the blocks. */
    CHECK(cache_write(r.cache, 16384 + 512, set, 96, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_read_data(r.cache, 16384 - 4096, back, 0) == 0);
    static uint8_t large[12288];
    CHECK(cache_read_data(r.cache, 16384 - 4096, large, sizeof large) == 0);
    CHECK(memcmp(large, r.disk->bytes + 12288, 4096 + 512) == 0 && large[4096 + 512 + 95] == 0x85);
    CHECK(memcmp(large + 4608 + 96, r.disk->bytes + 16384 + 608, 4000) == 0);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.n.bytes_written == 1024 + 1024 + 512 && r.disk->bytes[16384 + 512] == 0x85);
    /* Full: only what is asked for is read, and nothing is evicted for it. */
    for (uint64_t block = 100; block < 110; block++) {
        CHECK(cache_get(r.cache, block * 4096, &a) == 0);
        cache_put(r.cache, &a);
    }
    uint64_t held = cache_held(r.cache), bytes = r.n.bytes_read, evictions = r.n.evictions;
    CHECK(evictions > 0 && held <= 10 * 4300);
    uint64_t misses = r.n.misses;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t offset = 500000 + i * 321;
        CHECK(cache_read(r.cache, offset, back, 96) == 0);
        CHECK(memcmp(back, r.disk->bytes + offset, 96) == 0);
    }
    CHECK(r.n.bytes_read == bytes + 1000 * 96 && r.n.misses >= misses + 1000);
    CHECK(cache_held(r.cache) == held && r.n.evictions == evictions);
    r.disk->fail_reads = true;
    CHECK(cache_read(r.cache, 500000, back, 96) == -EIO);
    CHECK(cache_write(r.cache, 600000, set, 96, CACHE_ENTRY, DEVICE_ENTRY_SET) == -EIO);
    r.disk->fail_reads = false;
    CHECK(cache_write(r.cache, 600000, set, 96, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_read(r.cache, 600000 - 5, back, 106) == 0 && back[5] == 0x85 && back[100] == 0x85);
    CHECK(back[4] == r.disk->bytes[599999] && back[101] == r.disk->bytes[600096]);
    rig_down(&r);
}

/* ---- against a model ---- */

/* Only an edit of nothing but sectors of new clusters is exempt from the order. */
static void note_edit(struct disk *k, bool *fresh, uint64_t offset, size_t n, enum cache_tier tier)
{
    size_t first = (size_t)offset / 512, last = (size_t)(offset + n - 1) / 512;
    bool stays = tier > CACHE_CONTENT;
    for (size_t s = first; s <= last; s++) {
        stays = stays && fresh[s] && k->pending[s] != NONE;
    }
    for (size_t s = first; s <= last; s++) {
        fresh[s] = stays;
        set_tier(&k->pending[s], k->pending_count, stays ? CACHE_CONTENT : (uint8_t)tier);
    }
}

/* A direct write: whole sectors of a large range leave nothing pending. */
static void note_direct(struct disk *k, uint64_t offset, size_t n)
{
    size_t first = (size_t)(offset + 511) / 512, last = (size_t)(offset + n) / 512;
    for (size_t s = (size_t)offset / 512; s <= (offset + n - 1) / 512; s++) {
        bool through_block =
            n < 4096 || last < first || (last - first) * 512 < 4096 || s < first || s >= last;
        set_tier(&k->pending[s], k->pending_count, through_block ? CACHE_CONTENT : NONE);
    }
}

static void random_edit(struct rig *r, uint8_t *truth, bool *fresh)
{
    struct cache_ref a;
    uint64_t offset = rnd(128) * 4096 + rnd(4096);
    enum cache_tier tier = (enum cache_tier)rnd(CACHE_TIERS);
    CHECK(cache_get(r->cache, offset, &a) == 0);
    size_t n = 1 + rnd((uint32_t)(a.available < 700 ? a.available : 700));
    int rc = cache_edit(r->cache, &a, n, tier, (enum device_structure)rnd(DEVICE_STRUCTURES));
    if (rc == 0) {
        note_edit(r->disk, fresh, offset, n, tier);
        for (size_t i = 0; i < n; i++) {
            a.data[i] = truth[offset + i] = (uint8_t)rnd(256);
        }
    } else {
        CHECK(rc == -EIO);
    }
    cache_put(r->cache, &a);
}

static void random_data(struct rig *r, uint8_t *truth, bool *fresh)
{
    static uint8_t data[40000];
    uint64_t offset = rnd(128 * 4096);
    size_t n = 1 + rnd(rnd(2) ? 40000 : 600);
    bool aligned = rnd(2) != 0;
    if (aligned) {
        offset &= ~(uint64_t)511;
        n = (n + 511) & ~(size_t)511;
        n = n > 39936 ? 39936 : n;
    }
    for (size_t i = 0; i < n; i++) {
        data[i] = (uint8_t)rnd(256);
    }
    /* Three parts of one call fall under two rules; only this one's failures leave them apart. */
    unsigned fail_in = r->disk->fail_in;
    r->disk->fail_in = 0;
    bool zero = rnd(4) == 0;
    for (size_t s = (size_t)offset / 512; s <= (offset + n - 1) / 512; s++) {
        fresh[s] = false;
    }
    r->disk->judged = false;
    CHECK(cache_commit(r->cache, CACHE_CLEAN, true) == 0);
    memset(r->disk->pending, NONE, SECTORS);
    memset(r->disk->pending_count, 0, sizeof r->disk->pending_count);
    r->disk->judged = true;
    if (zero) {
        memset(data, 0, n);
        CHECK(cache_zero_data(r->cache, offset, n) == 0);
        for (size_t s = (size_t)offset / 512; s <= (offset + n - 1) / 512; s++) {
            set_tier(&r->disk->pending[s], r->disk->pending_count, CACHE_CONTENT);
        }
    } else {
        CHECK(cache_write_data(r->cache, offset, data, n) == 0);
        note_direct(r->disk, offset, n);
    }
    memcpy(truth + offset, data, n);
    r->disk->fail_in = fail_in;
}

static void random_fresh(struct rig *r, uint8_t *truth, bool *fresh)
{
    uint64_t offset = rnd(128 * 8) * 512;
    size_t n = 512 * (1 + rnd(8 - (uint32_t)(offset / 512 % 8))); /* one block: one conflict */
    for (size_t s = (size_t)offset / 512; s < (offset + n) / 512; s++) {
        if (r->disk->pending[s] != NONE) {
            return; /* a new cluster has no unwritten past */
        }
    }
    unsigned fail_in = r->disk->fail_in;
    r->disk->fail_in = 0;
    CHECK(cache_write_fresh_zeros(r->cache, offset, n, DEVICE_DIRECTORY) == 0);
    r->disk->fail_in = fail_in;
    memset(truth + offset, 0, n);
    for (size_t s = (size_t)offset / 512; s < (offset + n) / 512; s++) {
        set_tier(&r->disk->pending[s], r->disk->pending_count, CACHE_CONTENT);
        fresh[s] = true;
    }
}

static void random_write(struct rig *r, uint8_t *truth, bool *fresh)
{
    static uint8_t data[700];
    uint64_t offset = rnd(128) * 4096 + rnd(4096);
    size_t n =
        1 + rnd(4096 - (uint32_t)(offset % 4096) < 700 ? 4096 - (uint32_t)(offset % 4096) : 700);
    enum cache_tier tier = (enum cache_tier)rnd(CACHE_TIERS);
    for (size_t i = 0; i < n; i++) {
        data[i] = (uint8_t)rnd(256);
    }
    int rc = cache_write(r->cache, offset, data, n, tier, DEVICE_ENTRY_SET);
    if (rc == 0) {
        note_edit(r->disk, fresh, offset, n, tier);
        memcpy(truth + offset, data, n);
    } else {
        CHECK(rc == -EIO);
    }
}

static void random_read(struct rig *r, const uint8_t *truth)
{
    static uint8_t back[70000];
    uint64_t offset = rnd(128 * 4096);
    size_t n = rnd(rnd(2) ? 70000 : 600);
    if (rnd(2)) {
        CHECK(cache_read_data(r->cache, offset, back, n) == 0);
    } else {
        CHECK(cache_read(r->cache, offset, back, n) == 0);
    }
    CHECK(memcmp(back, truth + offset, n) == 0);
}

static void test_model(uint64_t seed, size_t budget, bool failures, bool cheap)
{
    struct rig r;
    static uint8_t truth[DISK];
    static bool fresh[SECTORS];
    state = seed;
    rig_up_as(&r, DISK, 512, budget, cheap ? DEVICE_CHEAP_READ : 0);
    memcpy(truth, r.disk->bytes, DISK);
    memset(fresh, 0, sizeof fresh);
    r.disk->judged = true;
    for (unsigned i = 0; i < 4000; i++) {
        r.disk->fail_in = failures && rnd(3) == 0 ? 1 + rnd(6) : 0;
        uint32_t what = rnd(20);
        int rc = 0;
        if (what < 5) {
            random_edit(&r, truth, fresh);
        } else if (what < 9) {
            random_write(&r, truth, fresh);
        } else if (what < 10) {
            random_data(&r, truth, fresh);
        } else if (what < 11) {
            random_fresh(&r, truth, fresh);
        } else if (what < 16) {
            random_read(&r, truth);
        } else if (what < 17) {
            rc = cache_commit(r.cache, (enum cache_tier)rnd(CACHE_TIERS), rnd(2) != 0);
        } else {
            rc = rnd(2) ? cache_balance(r.cache) : cache_balance_within(r.cache);
        }
        CHECK(rc == 0 || (rc == -EIO && failures));
    }
    r.disk->fail_in = 0;
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(!cache_is_dirty(r.cache));
    CHECK(memcmp(r.disk->bytes, truth, DISK) == 0);
    CHECK(r.n.device_writes == r.disk->writes && r.n.device_reads == r.disk->reads);
    CHECK(r.n.device_flushes == r.disk->flushes);
    rig_down(&r);
}

/* Every write tells which operation caused it, on what, and what it holds. */
static void test_tags(void)
{
    struct device *memory, *recorder;
    struct device_log_entry e;
    struct cache *c;
    struct cache_counters n = {0};
    static const uint8_t data[4096] = {1};
    CHECK(device_memory_new(1 << 20, 512, &memory) == 0);
    CHECK(device_recorder_new(memory, &recorder) == 0);
    CHECK(cache_open(recorder, 1 << 20, &n, &c) == 0);
    cache_set_operation(c, 7, 70);
    CHECK(poke(c, 4096, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    cache_set_operation(c, 8, 80);
    CHECK(poke(c, 8192, 1, CACHE_ENTRY, DEVICE_FAT) == 0);
    cache_set_operation(c, 9, 90);
    CHECK(cache_write_data(c, 65536, data, sizeof data) == 0);
    CHECK(cache_commit(c, CACHE_CLEAN, true) == 0);
    CHECK(device_recorder_count(recorder) == 5);
    CHECK(device_recorder_entry(recorder, 0, &e) == 0);
    CHECK(e.tag.op == 9 && e.tag.object == 90 && e.tag.structure == DEVICE_DATA);
    CHECK(device_recorder_entry(recorder, 1, &e) == 0 && e.kind == DEVICE_LOG_FLUSH);
    CHECK(device_recorder_entry(recorder, 2, &e) == 0 && e.offset == 4096);
    CHECK(e.tag.op == 7 && e.tag.object == 70 && e.tag.structure == DEVICE_ENTRY_SET);
    CHECK(device_recorder_entry(recorder, 3, &e) == 0 && e.offset == 8192);
    CHECK(e.tag.op == 8 && e.tag.object == 80 && e.tag.structure == DEVICE_FAT);
    cache_close(c);
    device_unref(recorder);
    device_unref(memory);
}

/* Nothing needs to be committed for a roll-back, whatever tier the block is in. */
static void test_amend(void)
{
    struct rig r;
    uint8_t b = 0x99;
    rig_up(&r, DISK, 512, 1 << 20);
    CHECK(poke(r.cache, 4096, 1, CACHE_REMOVAL, DEVICE_ENTRY_SET) == 0);
    r.disk->fail_in = 1;
    CHECK(cache_amend(r.cache, 4100, &b, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(r.disk->fail_in == 1 && !cache_tier_dirty(r.cache, CACHE_ENTRY));
    CHECK(cache_amend(r.cache, 8192, &b, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_tier_dirty(r.cache, CACHE_ENTRY));
    CHECK(cache_amend(r.cache, 8191, &b, 2, CACHE_ENTRY, DEVICE_ENTRY_SET) == -EINVAL);
    CHECK(cache_amend(r.cache, DISK, &b, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == -EINVAL);
    r.disk->fail_in = 0;
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->bytes[4096] == 1 && r.disk->bytes[4100] == b && r.disk->bytes[8192] == b);
    rig_down(&r);
}

/* A bit on the device and in its block; what else is dirty there waits for its turn. */
static void test_put_bits(void)
{
    struct rig r;
    uint8_t b;
    rig_up(&r, DISK, 512, 1 << 20);
    r.disk->bytes[4096] = 0x0f;
    CHECK(poke(r.cache, 4097, 0x77, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    CHECK(cache_put_bits(r.cache, 4096, 0x05, 0x80, DEVICE_FAT) == 0);
    CHECK(r.disk->writes == 1 && r.disk->last_offset == 4096 && r.disk->last_n == 512);
    CHECK(r.disk->bytes[4096] == 0x8a && r.disk->bytes[4097] != 0x77);
    CHECK(cache_read(r.cache, 4096, &b, 1) == 0 && b == 0x8a);
    CHECK(cache_tier_dirty(r.cache, CACHE_ENTRY) && r.n.writes_by_structure[DEVICE_FAT] == 1);
    CHECK(cache_put_bits(r.cache, 4096, 0x05, 0x80, DEVICE_FAT) == 0); /* so it is already */
    CHECK(r.disk->writes == 1);
    CHECK(cache_put_bits(r.cache, 9000, 0xff, 0x01, DEVICE_FAT) == 0); /* in no block */
    CHECK(r.disk->writes == 2 && r.disk->bytes[9000] == 0x01 && r.disk->flushes == 0);
    CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
    CHECK(r.disk->bytes[4096] == 0x8a && r.disk->bytes[4097] == 0x77 && r.disk->flushes == 2);
    CHECK(cache_put_bits(r.cache, DISK, 1, 0, DEVICE_FAT) == -EINVAL &&
          cache_failures(r.cache) == 0);
    r.disk->fail_reads = true;
    CHECK(cache_put_bits(r.cache, 4096, 0xff, 0, DEVICE_FAT) == -EIO);
    r.disk->fail_reads = false;
    r.disk->fail_in = 1;
    CHECK(cache_put_bits(r.cache, 4096, 0xff, 0, DEVICE_FAT) == -EIO);
    CHECK(r.disk->bytes[4096] == 0x8a && cache_failures(r.cache) == 2);
    CHECK(cache_read(r.cache, 4096, &b, 1) == 0 && b == 0x8a);
    CHECK(poke(r.cache, 0, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
    for (unsigned failing = 1; failing <= 2; failing++) { /* a write, a flush */
        r.disk->fail_in = failing;
        CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == -EIO);
        CHECK(cache_failures(r.cache) == 2 + failing);
    }
    rig_down(&r);
}

static void test_sectors(void)
{
    for (uint32_t sector = 512; sector <= 4096; sector *= 2) {
        struct rig r;
        rig_up(&r, DISK, sector, 1 << 20);
        CHECK(poke(r.cache, 12345, 1, CACHE_ENTRY, DEVICE_ENTRY_SET) == 0);
        CHECK(cache_commit(r.cache, CACHE_CLEAN, true) == 0);
        CHECK(r.disk->last_n == sector && r.disk->last_offset == 12345 / sector * sector);
        CHECK(r.disk->bytes[12345] == 1);
        rig_down(&r);
    }
}

int main(void)
{
    test_blocks();
    test_merging();
    test_order();
    test_conflicts();
    test_fresh();
    test_cheap_zero();
    test_budget();
    test_streams();
    test_forget();
    test_amend();
    test_put_bits();
    test_cheap_reads();
    test_sectors();
    test_tags();
    for (uint64_t seed = 1; seed <= 5; seed++) {
        for (int cheap = 0; cheap < 2; cheap++) {
            test_model(seed, 1 << 20, false, cheap);
            test_model(seed, 20 * 4200, true, cheap);
            test_model(seed, 0, seed % 2 == 0, cheap);
        }
    }
    return 0;
}
