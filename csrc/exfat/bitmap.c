/* Allocation bitmap [7.1]: finding, taking and counting clusters. Never read whole at mount: only
 * the blocks somebody needs.
 *
 * Bit numbers here count from 0 (cluster 2). Summaries of 32,768 bits each (4 KiB of bitmap)
 * remember how many are free, so that a search steps over full parts of a large volume without
 * reading them.
 */
#include "exfat/exfat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SUMMARY_SHIFT = 15 };
#define SUMMARY_BITS (1u << SUMMARY_SHIFT)
#define SUMMARY_UNKNOWN UINT32_MAX
/* A search for a long piece settles for the longest seen after looking at this many bits. */
#define SEARCH_BITS (16u << 20)

/* A walk over the bitmap asks for so many bytes at a time. */
#define READ_AHEAD (128u << 10)

static const char bitmap_name[] = "allocation bitmap";

/* Pins the part of a bitmap copy that holds `bit`; *bits: how many bits from there are in this
 * part. */
static int pin(struct exfat *x, unsigned copy, uint32_t bit, struct cache_ref *ref, uint32_t *bits)
{
    struct exfat_bitmap *b = &x->bitmap[copy];
    uint64_t byte = bit >> 3;
    uint32_t cluster;
    uint64_t piece;
    int rc =
        exfat_chain_find(x, &b->chain, byte >> x->g.cluster_shift, &cluster, &piece, bitmap_name);
    if (rc == -ERANGE) {
        return base_damage(x->volume->error, bitmap_name, 0, "DataLength", b->size,
                           (x->g.clusters + 7ull) / 8,
                           "the cluster chain of the bitmap is shorter than the bitmap");
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t in_cluster = byte & (x->cluster_size - 1);
    uint64_t bytes = (piece << x->g.cluster_shift) - in_cluster;
    rc = cache_get(x->volume->cache, exfat_cluster_offset(x, cluster) + in_cluster, ref);
    if (rc < 0) {
        return rc;
    }
    bytes = base_min(bytes, ref->available);
    uint64_t n = bytes * 8 - (bit & 7);
    *bits = (uint32_t)base_min(n, x->g.clusters - bit);
    return 0;
}

/* For walks: a walk that has come to the part at `bit`, and does not stop in it, will want what
 * follows. */
static void read_ahead(struct exfat *x, uint32_t bit, uint32_t end, bool first)
{
    uint64_t byte = bit >> 3, wanted = (end - bit) / 8;
    uint32_t cluster;
    uint64_t piece;
    if ((first || (byte & (READ_AHEAD - 1)) == 0) && wanted > 4096 &&
        exfat_chain_find(x, &x->bitmap[0].chain, byte >> x->g.cluster_shift, &cluster, &piece,
                         bitmap_name) == 0) {
        uint64_t in_cluster = byte & (x->cluster_size - 1);
        uint64_t left = READ_AHEAD - (byte & (READ_AHEAD - 1));
        left = base_min(base_min(left, wanted), (piece << x->g.cluster_shift) - in_cluster);
        cache_read_ahead(x->volume->cache, exfat_cluster_offset(x, cluster) + in_cluster, left);
    }
}

/* 64 bits from the first of p on; bits past `bytes` read as used. */
static uint64_t load_word(const uint8_t *p, size_t bytes)
{
    if (bytes >= 8) {
        return base_le64(p);
    }
    uint8_t word[8];
    memset(word, 0xFF, sizeof word);
    memcpy(word, p, bytes);
    return base_le64(word);
}

/* Within one pinned part: first bit with value `used` among bits [skip, skip + n) of p, or n. */
static uint32_t find_in_part(struct exfat *x, const uint8_t *p, uint32_t skip, uint32_t n,
                             bool used)
{
    uint32_t pos = skip, end = skip + n;
    uint64_t words = 0;
    uint32_t found = end;
    while (pos < end) {
        uint32_t base = pos & ~63u;
        uint64_t w = load_word(p + base / 8, (end - base + 7) / 8);
        w = used ? w : ~w;
        w &= ~0ull << (pos & 63);
        words++;
        if (w != 0) {
            found = base + (uint32_t)__builtin_ctzll(w);
            break;
        }
        pos = base + 64;
    }
    x->volume->counters.free_words_scanned += words;
    return (found < end ? found : end) - skip;
}

/* First bit with value `used` in [bit, end); end when there is none. */
static int find_next(struct exfat *x, uint32_t bit, uint32_t end, bool used, uint32_t *out)
{
    unsigned parts = 0;
    while (bit < end) {
        uint32_t *summary = x->block_free ? &x->block_free[bit >> SUMMARY_SHIFT] : NULL;
        if (!used && summary && *summary == 0) {
            bit = (bit | (SUMMARY_BITS - 1)) + 1;
            if (bit == 0) {
                break;
            }
            continue;
        }
        struct cache_ref ref;
        uint32_t bits;
        if (parts++ > 0) { /* most searches end in their first part */
            read_ahead(x, bit, end, parts == 2);
        }
        int rc = pin(x, 0, bit, &ref, &bits);
        if (rc < 0) {
            return rc;
        }
        uint32_t n = (uint32_t)base_min(bits, end - bit);
        uint32_t skip = find_in_part(x, ref.data, bit & 7, n, used);
        cache_put(x->volume->cache, &ref);
        if (skip < n) {
            *out = bit + skip;
            return 0;
        }
        if (!used && summary && (bit & (SUMMARY_BITS - 1)) == 0 && n >= SUMMARY_BITS) {
            *summary = 0;
        }
        bit += n;
    }
    *out = end;
    return 0;
}

static uint32_t count_bits(const uint8_t *p, size_t bytes)
{
    uint32_t n = 0;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        n += (uint32_t)__builtin_popcountll(base_le64(p));
    }
    while (bytes-- > 0) {
        n += (uint32_t)__builtin_popcount(*p++);
    }
    return n;
}

/* Sets or clears bits [bit, bit + n) of p; returns how many were otherwise before. */
static uint32_t fill_bits(uint8_t *p, uint32_t bit, uint32_t n, bool used)
{
    size_t first = bit >> 3, last = (bit + n - 1) >> 3, bytes = last - first + 1;
    uint32_t before = count_bits(p + first, bytes);
    for (size_t i = first; i <= last;) {
        uint8_t mask = 0xFF;
        if (i == first) {
            mask &= (uint8_t)(0xFFu << (bit & 7));
        }
        if (i == last) {
            mask &= (uint8_t)(0xFFu >> (7 - ((bit + n - 1) & 7)));
        }
        if (mask == 0xFF) { /* whole bytes up to the last, which may be partial */
            size_t whole = i == last ? 1 : last - i;
            memset(p + i, used ? 0xFF : 0, whole);
            i += whole;
            continue;
        }
        p[i] = (uint8_t)(used ? p[i] | mask : p[i] & ~mask);
        i++;
    }
    uint32_t after = count_bits(p + first, bytes);
    return used ? after - before : before - after;
}

static void adjust_summary(struct exfat *x, uint32_t bit, uint32_t n, bool used)
{
    while (x->block_free && n > 0) {
        uint32_t *summary = &x->block_free[bit >> SUMMARY_SHIFT];
        uint32_t here = (uint32_t)base_min(n, SUMMARY_BITS - (bit & (SUMMARY_BITS - 1)));
        if (*summary != SUMMARY_UNKNOWN) {
            uint32_t left = *summary > here ? *summary - here : 0;
            *summary = used ? left : *summary + here;
        }
        bit += here;
        n -= here;
    }
}

static int set_copy(struct exfat *x, unsigned copy, uint32_t bit, uint32_t n, bool used,
                    uint32_t *changed)
{
    struct cache *c = x->volume->cache;
    *changed = 0;
    while (n > 0) {
        struct cache_ref ref;
        uint32_t bits;
        int rc = pin(x, copy, bit, &ref, &bits);
        if (rc < 0) {
            return rc;
        }
        uint32_t here = (uint32_t)base_min(n, bits);
        rc = cache_edit(c, &ref, ((bit & 7) + here + 7) / 8, CACHE_CONTENT, DEVICE_BITMAP);
        if (rc == 0) {
            *changed += fill_bits(ref.data, bit & 7, here, used);
        }
        cache_put(c, &ref);
        if (rc < 0) {
            return rc;
        }
        bit += here;
        n -= here;
        if (n > 0 && (rc = cache_balance_within(c)) < 0) {
            return rc;
        }
    }
    return 0;
}

int exfat_bitmap_set(struct exfat *x, uint32_t first, uint32_t count, bool used)
{
    uint32_t bit = first - EXFAT_FIRST_CLUSTER;
    uint32_t changed, other;
    int rc = set_copy(x, 0, bit, count, used, &changed);
    if (rc == 0 && x->bitmap[1].size != 0) {
        rc = set_copy(x, 1, bit, count, used, &other);
    }
    if (rc < 0) {
        return rc;
    }
    adjust_summary(x, bit, count, used);
    x->allocation_changed = true;
    if (x->free_known) { /* what a damaged volume frees twice counts once */
        x->free_clusters += used ? -changed : changed;
    }
    return 0;
}

int exfat_bitmap_get(struct exfat *x, uint32_t cluster, bool *used, uint32_t *same)
{
    uint32_t bit = cluster - EXFAT_FIRST_CLUSTER;
    uint32_t next_used, end = x->g.clusters;
    int rc = find_next(x, bit, end, true, &next_used);
    if (rc < 0) {
        return rc;
    }
    *used = next_used == bit;
    uint32_t other = next_used;
    if (*used) {
        rc = find_next(x, bit, end, false, &other);
    }
    *same = other - bit;
    return rc;
}

int exfat_bitmap_check_used(struct exfat *x, uint32_t first, uint32_t count)
{
    uint32_t bit = first - EXFAT_FIRST_CLUSTER, free_bit;
    int rc = find_next(x, bit, bit + count, false, &free_bit);
    if (rc == 0 && free_bit < bit + count) {
        uint32_t cluster = 0;
        uint64_t piece, in = (free_bit >> 3) & (x->cluster_size - 1);
        (void)exfat_chain_find(x, &x->bitmap[0].chain,
                               (uint64_t)free_bit >> 3 >> x->g.cluster_shift, &cluster, &piece,
                               bitmap_name);
        rc = base_damage(x->volume->error, bitmap_name,
                         cluster ? exfat_cluster_offset(x, cluster) + in : 0, "BitmapEntry", 0, 1,
                         "a cluster that is part of a file is marked free");
    }
    return rc;
}

static void make_summary(struct exfat *x)
{
    uint32_t blocks = (x->g.clusters >> SUMMARY_SHIFT) + 1;
    if (x->block_free || blocks < 4) {
        return;
    }
    x->block_free = malloc(blocks * sizeof *x->block_free);
    if (x->block_free) { /* without memory for it a search is merely slower */
        memset(x->block_free, 0xFF, blocks * sizeof *x->block_free);
    }
}

/* The piece for a new chain: the first one of at least `want`, or the longest. *got == 0: nothing
 * is free. */
static int search(struct exfat *x, uint32_t want, uint32_t *first, uint32_t *got)
{
    uint32_t end = x->g.clusters, bit = x->next_free - EXFAT_FIRST_CLUSTER;
    uint32_t best = 0, best_bit = 0, start = bit;
    bool lowest = true;
    while (bit < end) {
        uint32_t free_bit, used_bit;
        int rc = find_next(x, bit, end, false, &free_bit);
        if (rc < 0) {
            return rc;
        }
        if (lowest) { /* whatever is chosen, nothing below is free */
            x->next_free = free_bit + EXFAT_FIRST_CLUSTER;
            lowest = false;
        }
        if (free_bit >= end) {
            break;
        }
        uint32_t stop = (uint32_t)base_min((uint64_t)free_bit + want, end);
        if ((rc = find_next(x, free_bit, stop, true, &used_bit)) < 0) {
            return rc;
        }
        if (used_bit - free_bit > best) {
            best = used_bit - free_bit;
            best_bit = free_bit;
        }
        if (best >= want || (best > 0 && used_bit - start > SEARCH_BITS)) {
            break;
        }
        bit = used_bit;
    }
    *first = best_bit + EXFAT_FIRST_CLUSTER;
    *got = best;
    return 0;
}

static int try_take(struct exfat *x, uint32_t hint, uint32_t want, uint32_t *first, uint32_t *got)
{
    int rc;
    *got = 0;
    if (hint != 0 && exfat_cluster_valid(x, hint)) {
        uint32_t bit = hint - EXFAT_FIRST_CLUSTER, used_bit;
        uint32_t stop = (uint32_t)base_min((uint64_t)bit + want, x->g.clusters);
        if ((rc = find_next(x, bit, stop, true, &used_bit)) < 0) {
            return rc;
        }
        *first = hint;
        *got = used_bit - bit;
    }
    if (*got == 0 && (rc = search(x, want, first, got)) < 0) {
        return rc;
    }
    return *got == 0 ? -ENOSPC : 0;
}

int exfat_bitmap_take(struct exfat *x, uint32_t hint, uint32_t want, uint32_t *first, uint32_t *got)
{
    make_summary(x);
    int rc = exfat_apply_pending(x);
    if (rc == 0) {
        rc = try_take(x, hint, want, first, got);
    }
    if (rc == -ENOSPC && x->pending_n > 0) {
        rc = exfat_commit(x);
        if (rc == 0) {
            rc = try_take(x, hint, want, first, got);
        }
    }
    if (rc == 0) {
        rc = exfat_bitmap_set(x, *first, *got, true);
    }
    if (rc < 0) {
        return rc;
    }
    if (*first == x->next_free) {
        x->next_free = *first + *got;
    }
    x->volume->counters.clusters_allocated += *got;
    return 0;
}

int exfat_bitmap_count(struct exfat *x, uint32_t *free_clusters)
{
    if (!x->free_known) {
        make_summary(x);
        uint64_t used = 0;
        uint32_t bit = 0;
        while (bit < x->g.clusters) {
            struct cache_ref ref;
            uint32_t bits;
            read_ahead(x, bit, x->g.clusters, bit == 0);
            int rc = pin(x, 0, bit, &ref, &bits);
            if (rc < 0) {
                return rc;
            }
            for (uint32_t i = 0; i < bits; i += 64) {
                uint64_t w = load_word(ref.data + i / 8, (bits - i + 7) / 8);
                if (bits - i < 64) { /* what lies past the last cluster does not count */
                    w &= (1ull << (bits - i)) - 1;
                }
                used += (uint64_t)__builtin_popcountll(w);
            }
            cache_put(x->volume->cache, &ref);
            bit += bits;
            if ((rc = cache_balance_within(x->volume->cache)) < 0) {
                return rc;
            }
        }
        x->free_clusters = (uint32_t)(x->g.clusters - used);
        x->free_known = true;
    }
    *free_clusters = x->free_clusters;
    return 0;
}

int exfat_free_now(struct exfat *x, uint32_t first, uint32_t count)
{
    cache_forget(x->volume->cache, exfat_cluster_offset(x, first),
                 (uint64_t)count << x->g.cluster_shift);
    int rc = exfat_bitmap_set(x, first, count, false);
    if (rc == 0) {
        x->next_free = (uint32_t)base_min(x->next_free, first);
        x->volume->counters.clusters_freed += count;
    }
    return rc;
}

int exfat_free_later(struct exfat *x, uint32_t first, uint32_t count)
{
    int rc = exfat_apply_pending(x);
    if (rc < 0) {
        return rc;
    }
    cache_forget(x->volume->cache, exfat_cluster_offset(x, first),
                 (uint64_t)count << x->g.cluster_shift);
    x->pending_epoch = cache_epoch(x->volume->cache);
    x->pending_clusters += count;
    struct exfat_pending *last = x->pending_n ? &x->pending[x->pending_n - 1] : NULL;
    if (last && last->first + last->count == first) {
        last->count += count;
        return 0;
    }
    if (x->pending_n == x->pending_cap) {
        size_t cap = x->pending_cap ? x->pending_cap * 2 : 64;
        struct exfat_pending *v = realloc(x->pending, cap * sizeof *v);
        if (!v) {
            x->pending_clusters -= count;
            return -ENOMEM;
        }
        x->pending = v;
        x->pending_cap = cap;
    }
    x->pending[x->pending_n++] = (struct exfat_pending){first, count};
    return 0;
}

static int apply(struct exfat *x)
{
    for (size_t i = 0; i < x->cuts_n; i++) { /* unless something was linked there since */
        uint32_t next;
        int rc = exfat_fat_get(x, x->cuts[i].cluster, &next);
        if (rc == 0 && next == x->cuts[i].old_next) {
            rc = exfat_fat_set(x, x->cuts[i].cluster, EXFAT_FAT_END, CACHE_CHAIN);
        }
        if (rc < 0) {
            return rc;
        }
    }
    x->cuts_n = 0;
    while (x->pending_n > 0) {
        struct exfat_pending p = x->pending[x->pending_n - 1];
        int rc = exfat_free_now(x, p.first, p.count);
        if (rc < 0) {
            return rc;
        }
        if (x->volume->policy.discard) {
            rc = cache_discard(x->volume->cache, exfat_cluster_offset(x, p.first),
                               (uint64_t)p.count << x->g.cluster_shift);
            if (rc < 0 && rc != -EOPNOTSUPP) {
                return rc;
            }
        }
        x->pending_clusters -= p.count;
        x->pending_n--;
    }
    return 0;
}

int exfat_apply_pending(struct exfat *x)
{
    if ((x->pending_n == 0 && x->cuts_n == 0) ||
        cache_epoch(x->volume->cache) <= x->pending_epoch) {
        return 0;
    }
    return apply(x);
}

int exfat_commit(struct exfat *x)
{
    int rc = cache_commit(x->volume->cache, CACHE_REMOVAL, true);
    return rc < 0 ? rc : apply(x);
}

int exfat_bitmap_trim(struct exfat *x, uint64_t min_length, uint64_t *trimmed)
{
    *trimmed = 0;
    for (uint32_t bit = 0; bit < x->g.clusters;) {
        uint32_t first, end;
        int rc = find_next(x, bit, x->g.clusters, false, &first);
        if (rc == 0 && first < x->g.clusters) {
            rc = find_next(x, first, x->g.clusters, true, &end);
        } else {
            end = x->g.clusters;
        }
        if (rc < 0) {
            return rc;
        }
        uint64_t bytes = (uint64_t)(end - first) << x->g.cluster_shift;
        if (first < end && bytes >= min_length) {
            rc = cache_discard(x->volume->cache,
                               exfat_cluster_offset(x, first + EXFAT_FIRST_CLUSTER), bytes);
            if (rc < 0) {
                return rc;
            }
            *trimmed += bytes;
        }
        bit = end;
    }
    return 0;
}
