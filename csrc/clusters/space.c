/* Free space: finding, taking and counting clusters in a driver's map, of which only the parts
 * somebody needs are looked at.
 *
 * Bit numbers here count from 0 (cluster 2). Summaries of 32,768 bits each remember how many are
 * free, so that a search steps over full parts of a large volume without reading them.
 */
#include "clusters/clusters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SUMMARY_BITS (1u << CLUSTERS_SUMMARY_SHIFT)
#define SUMMARY_UNKNOWN UINT32_MAX
/* A search for a long piece settles for the longest seen after looking at this many bits. */
#define SEARCH_BITS (16u << 20)

static void unpin(struct clusters *h, struct clusters_part *part)
{
    cache_put(h->volume->cache, &part->ref);
}

static void read_ahead(struct clusters *h, uint32_t bit, uint32_t end, bool first)
{
    if (h->ops->read_ahead) {
        h->ops->read_ahead(h, bit, end, first);
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
static uint32_t find_in_part(struct clusters *h, const uint8_t *p, uint32_t skip, uint32_t n,
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
    h->volume->counters.free_words_scanned += words;
    return (found < end ? found : end) - skip;
}

/* First bit with value `used` in [bit, end); end when there is none. */
static int find_next(struct clusters *h, uint32_t bit, uint32_t end, bool used, uint32_t *out)
{
    unsigned parts = 0;
    while (bit < end) {
        uint32_t *summary = h->block_free ? &h->block_free[bit >> CLUSTERS_SUMMARY_SHIFT] : NULL;
        if (!used && summary && *summary == 0) {
            bit = (bit | (SUMMARY_BITS - 1)) + 1;
            if (bit == 0) {
                break;
            }
            continue;
        }
        struct clusters_part part;
        if (parts++ > 0) { /* most searches end in their first part */
            read_ahead(h, bit, end, parts == 2);
        }
        int rc = h->ops->pin(h, bit, &part);
        if (rc < 0) {
            return rc;
        }
        uint32_t n = (uint32_t)base_min(part.count, end - bit);
        uint32_t skip = find_in_part(h, part.bits, bit & 7, n, used);
        unpin(h, &part);
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

uint32_t clusters_fill_bits(uint8_t *p, uint32_t bit, uint32_t n, bool used)
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

static void adjust_summary(struct clusters *h, uint32_t bit, uint32_t n, bool used)
{
    while (h->block_free && n > 0) {
        uint32_t *summary = &h->block_free[bit >> CLUSTERS_SUMMARY_SHIFT];
        uint32_t here = (uint32_t)base_min(n, SUMMARY_BITS - (bit & (SUMMARY_BITS - 1)));
        if (*summary != SUMMARY_UNKNOWN) {
            uint32_t left = *summary > here ? *summary - here : 0;
            *summary = used ? left : *summary + here;
        }
        bit += here;
        n -= here;
    }
}

int clusters_mark(struct clusters *h, uint32_t first, uint32_t count, bool used)
{
    uint32_t bit = first - CLUSTERS_FIRST;
    uint32_t changed;
    int rc = h->ops->mark(h, bit, count, used, &changed);
    if (rc < 0) {
        return rc;
    }
    adjust_summary(h, bit, count, used);
    h->changed = true;
    if (h->free_known) { /* what a damaged volume frees twice counts once */
        h->free_known = changed <= (used ? h->free_clusters : h->count - h->free_clusters);
        h->free_clusters += used ? -changed : changed;
    }
    return 0;
}

int clusters_check_used(struct clusters *h, uint32_t first, uint32_t count)
{
    uint32_t bit = first - CLUSTERS_FIRST, free_bit;
    int rc = find_next(h, bit, bit + count, false, &free_bit);
    if (rc == 0 && free_bit < bit + count) {
        rc = base_damage(h->volume->error, h->map_name, h->ops->bit_offset(h, free_bit), "cluster",
                         0, 1, "a cluster that is part of a file is marked free");
    }
    return rc;
}

static void make_summary(struct clusters *h)
{
    uint32_t blocks = clusters_summaries(h);
    if (h->block_free || blocks < 4) {
        return;
    }
    h->block_free = malloc(blocks * sizeof *h->block_free);
    if (h->block_free) { /* without memory for it a search is merely slower */
        memset(h->block_free, 0xFF, blocks * sizeof *h->block_free);
    }
}

/* In sync mode a growth writes its FAT sectors at once, and would share the first and the last with
 * others. Clusters to pass over, fewer than `want` and than a sector has entries, so that it writes
 * as few as so many entries can lie in; smaller files find the hole. */
static uint32_t to_sector(const struct clusters *h, uint32_t bit, uint32_t want)
{
    uint32_t row = h->sector_links;
    if (row == 0 || h->volume->sync != VOLUME_SYNC) {
        return 0;
    }
    uint32_t at = (bit + CLUSTERS_FIRST) % row, last = (want - 1) % row; /* in their sectors */
    return at + last >= row ? row - at : 0;
}

/* The piece for a new chain: the first one of at least `want`, or the longest. *got == 0: nothing
 * is free. */
static int search(struct clusters *h, uint32_t want, uint32_t *first, uint32_t *got)
{
    uint32_t end = h->count, bit = h->next_free - CLUSTERS_FIRST;
    uint32_t best = 0, best_bit = 0, start = bit;
    bool lowest = true;
    while (bit < end) {
        uint32_t free_bit, used_bit;
        int rc = find_next(h, bit, end, false, &free_bit);
        if (rc < 0) {
            return rc;
        }
        if (lowest) { /* whatever is chosen, nothing below is free */
            h->next_free = free_bit + CLUSTERS_FIRST;
            lowest = false;
        }
        if (free_bit >= end) {
            break;
        }
        uint32_t skip = to_sector(h, free_bit, want);
        uint32_t stop = (uint32_t)base_min((uint64_t)free_bit + skip + want, end);
        if ((rc = find_next(h, free_bit, stop, true, &used_bit)) < 0) {
            return rc;
        }
        if (used_bit - free_bit < (uint64_t)skip + want) { /* there is no room to pass over any */
            skip = 0;
        }
        uint32_t room = (uint32_t)base_min(used_bit - free_bit - skip, want);
        if (room > best) {
            best = room;
            best_bit = free_bit + skip;
        }
        if (best >= want || (best > 0 && used_bit - start > SEARCH_BITS)) {
            break;
        }
        bit = used_bit;
    }
    if (best < want && h->guessed) {
        h->guessed = false;
        h->next_free = CLUSTERS_FIRST;
        return search(h, want, first, got);
    }
    *first = best_bit + CLUSTERS_FIRST;
    *got = best;
    return 0;
}

static int try_take(struct clusters *h, uint32_t hint, uint32_t want, uint32_t *first,
                    uint32_t *got)
{
    int rc;
    *got = 0;
    if (hint != 0 && clusters_valid(h, hint)) {
        uint32_t bit = hint - CLUSTERS_FIRST, used_bit;
        uint32_t stop = (uint32_t)base_min((uint64_t)bit + want, h->count);
        if ((rc = find_next(h, bit, stop, true, &used_bit)) < 0) {
            return rc;
        }
        *first = hint;
        *got = used_bit - bit;
    }
    if (*got == 0 && (rc = search(h, want, first, got)) < 0) {
        return rc;
    }
    return *got == 0 ? -ENOSPC : 0;
}

int clusters_take(struct clusters *h, uint32_t hint, uint32_t want, uint32_t *first, uint32_t *got)
{
    make_summary(h);
    int rc = clusters_apply_pending(h);
    if (rc == 0) {
        rc = try_take(h, hint, want, first, got);
    }
    if (rc == -ENOSPC && h->pending_n > 0) {
        rc = clusters_commit(h);
        if (rc == 0) {
            rc = try_take(h, hint, want, first, got);
        }
    }
    if (rc == -ENOSPC && h->free_clusters != 0) {
        h->free_known = false; /* the volume's own count, that was believed, is wrong */
    }
    if (rc == 0) {
        rc = clusters_mark(h, *first, *got, true);
    }
    if (rc < 0) {
        return rc;
    }
    if (*first == h->next_free) {
        h->next_free = *first + *got;
    }
    h->volume->counters.clusters_allocated += *got;
    return 0;
}

int clusters_count_free(struct clusters *h, uint32_t *free_clusters)
{
    if (!h->free_known) {
        make_summary(h);
        uint64_t used = 0;
        uint32_t bit = 0;
        while (bit < h->count) {
            struct clusters_part part;
            read_ahead(h, bit, h->count, bit == 0);
            int rc = h->ops->pin(h, bit, &part);
            if (rc < 0) {
                return rc;
            }
            uint32_t end = part.count + (bit & 7); /* bits of the part, from its first byte on */
            for (uint32_t i = 0; i < end; i += 64) {
                uint64_t w = load_word(part.bits + i / 8, (end - i + 7) / 8);
                if (end - i < 64) { /* what lies past the last cluster does not count */
                    w &= (1ull << (end - i)) - 1;
                }
                if (i == 0) {
                    w &= ~0ull << (bit & 7);
                }
                used += (uint64_t)__builtin_popcountll(w);
            }
            unpin(h, &part);
            bit += part.count;
            if ((rc = cache_balance_within(h->volume->cache)) < 0) {
                return rc;
            }
        }
        h->free_clusters = (uint32_t)(h->count - used);
        h->free_known = true;
    }
    *free_clusters = h->free_clusters;
    return 0;
}

int clusters_trim(struct clusters *h, uint64_t min_length, uint64_t *trimmed)
{
    *trimmed = 0;
    for (uint32_t bit = 0; bit < h->count;) {
        uint32_t first, end;
        int rc = find_next(h, bit, h->count, false, &first);
        if (rc == 0 && first < h->count) {
            rc = find_next(h, first, h->count, true, &end);
        } else {
            end = h->count;
        }
        if (rc < 0) {
            return rc;
        }
        uint64_t bytes = (uint64_t)(end - first) << h->shift;
        if (first < end && bytes >= min_length) {
            rc = cache_discard(h->volume->cache, clusters_offset(h, first + CLUSTERS_FIRST), bytes);
            if (rc < 0) {
                return rc;
            }
            *trimmed += bytes;
        }
        bit = end;
    }
    return 0;
}
