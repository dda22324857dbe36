/* Chains of clusters: mapped lazily, extended, cut.
 *
 * A contiguous chain (NoFatChain) is arithmetic. Another is walked in the FAT as far as somebody
 * needed it, and what was seen is kept as runs, so that no position is walked to twice. Memory for
 * runs is bounded: a chain in more pieces than that keeps only the newest piece and starts over
 * when an earlier position is wanted. A walk never takes more steps than the owner's length
 * accounts for, nor than the volume has clusters.
 */
#include "clusters/clusters.h"

#include <errno.h>
#include <stdlib.h>

enum { RUNS_LEAST = 256, RUNS_MOST = 1 << 20 };

void clusters_chain_init(struct clusters_chain *c, uint32_t first, bool contiguous, uint32_t count)
{
    c->first = first;
    c->contiguous = contiguous && first != 0;
    c->complete = first == 0 || c->contiguous;
    c->count = c->contiguous ? count : 0;
    c->limit = count;
    base_runs_init(&c->runs);
}

void clusters_chain_free(struct clusters_chain *c)
{
    base_runs_free(&c->runs);
}

static int chain_damage(struct clusters *h, const char *what, uint32_t cluster, uint64_t found,
                        const char *why)
{
    return base_damage(h->volume->error, what, h->ops->fat_offset(h, cluster), "FatEntry", found,
                       CLUSTERS_END, why);
}

static uint32_t last_mapped(const struct clusters_chain *c)
{
    const struct base_run *r = &c->runs.v[c->runs.n - 1];
    return (uint32_t)(r->disk_block + r->count - 1);
}

static int map_one(struct clusters *h, struct clusters_chain *c, uint32_t cluster)
{
    uint64_t most =
        base_min(h->volume->policy.memory_budget / 4 / sizeof(struct base_run), RUNS_MOST);
    if (c->runs.n >= base_max(most, RUNS_LEAST)) {
        base_runs_forget(&c->runs);
    }
    return base_runs_append(&c->runs, cluster, 1);
}

/* The first cluster, where a walk begins. */
static int map_first(struct clusters *h, struct clusters_chain *c, const char *what)
{
    if (c->runs.n > 0) {
        return 0;
    }
    if (!clusters_valid(h, c->first)) {
        return base_damage(h->volume->error, what, 0, "FirstCluster", c->first, 0,
                           "the first cluster is outside the cluster heap");
    }
    return map_one(h, c, c->first);
}

/* Maps clusters until `until` of them are known or the chain ends. */
static int map_until(struct clusters *h, struct clusters_chain *c, uint64_t until, const char *what)
{
    int rc = map_first(h, c, what);
    if (rc < 0) {
        return rc;
    }
    uint32_t cluster = last_mapped(c);
    uint32_t mark =
        cluster; /* Brent's way to notice a loop: the mark moves on after 1, 2, 4, 8… steps */
    uint64_t steps = 0, stride = 1;
    while (c->runs.covered < until) {
        if (!c->complete && c->limit != 0 && c->runs.covered >= c->limit) {
            c->complete = true;
            c->count = c->limit;
            return 0;
        }
        uint32_t next;
        if ((rc = h->ops->next(h, cluster, &next)) < 0) {
            return rc;
        }
        if (next == CLUSTERS_END && !c->complete) {
            c->complete = true;
            c->count = (uint32_t)c->runs.covered;
            return 0;
        }
        if (!clusters_valid(h, next)) {
            return chain_damage(h, what, cluster, next,
                                next == CLUSTERS_BAD ? "the chain runs into a bad cluster"
                                                     : "the chain leaves the cluster heap");
        }
        if (next == mark || c->runs.covered >= h->count) {
            return chain_damage(h, what, cluster, next, "the chain has a loop");
        }
        if ((rc = map_one(h, c, next)) < 0) {
            return rc;
        }
        cluster = next;
        if (++steps == stride) {
            mark = cluster;
            stride *= 2;
            steps = 0;
        }
    }
    return 0;
}

int clusters_chain_find(struct clusters *h, struct clusters_chain *c, uint64_t index,
                        uint32_t *cluster, uint64_t *piece, const char *what)
{
    uint64_t disk;
    if (c->complete && index >= c->count) {
        return -ERANGE;
    }
    if (c->contiguous) {
        *cluster = c->first + (uint32_t)index;
        *piece = c->count - index;
        return 0;
    }
    if (!base_runs_find(&c->runs, index, &disk, piece)) {
        if (index < c->runs.covered) { /* forgotten: from the start again */
            base_runs_truncate(&c->runs, 0);
        }
        int rc = map_until(h, c, index + 1, what);
        if (rc < 0) {
            return rc;
        }
        if (!base_runs_find(&c->runs, index, &disk, piece)) {
            return -ERANGE;
        }
    }
    *cluster = (uint32_t)disk;
    return 0;
}

int clusters_chain_measure(struct clusters *h, struct clusters_chain *c, uint64_t limit,
                           const char *what)
{
    if (!c->complete) {
        int rc = map_until(h, c, c->limit != 0 ? c->limit + 1ull : limit + 1, what);
        if (rc < 0) {
            return rc;
        }
        if (!c->complete) {
            return chain_damage(h, what, last_mapped(c), 0, "the chain is longer than it may be");
        }
    }
    return 0;
}

/* The last cluster of a chain whose count is known; 0: it has none. Maps all of it. */
static int last_cluster(struct clusters *h, struct clusters_chain *c, uint32_t *last,
                        const char *what)
{
    uint64_t piece;
    *last = 0;
    return c->count == 0 ? 0 : clusters_chain_find(h, c, c->count - 1, last, &piece, what);
}

/* Writes the FAT entries that a contiguous chain did without, and keeps its clusters as one run. */
static int to_fat_chain(struct clusters *h, struct clusters_chain *c)
{
    int rc = h->ops->link(h, c->first, c->count, CLUSTERS_END, CACHE_CHAIN);
    if (rc == 0) {
        rc = base_runs_append(&c->runs, c->first, c->count);
    }
    if (rc == 0) {
        c->contiguous = false;
    }
    return rc;
}

/* The old way of FAT drivers, kept for comparison: two steps for each cluster, which is marked as
 * the end of a chain and then linked to; in sync mode each is made durable by itself. */
static bool one_by_one(const struct clusters *h)
{
    return !h->volume->policy.preallocate && !h->plain_runs;
}

static int end_step(struct clusters *h)
{
    return one_by_one(h) && h->volume->sync == VOLUME_SYNC
               ? cache_commit(h->volume->cache, CACHE_CHAIN, true)
               : 0;
}

/* Adds one piece that the bitmap has given behind the last cluster. */
static int append_piece(struct clusters *h, struct clusters_chain *c, uint32_t last, uint32_t first,
                        uint32_t got, enum cache_tier tier)
{
    if (c->count == 0 && h->plain_runs) {
        c->first = first;
        c->contiguous = true;
        c->count = got;
        return 0;
    }
    if (c->contiguous && first == last + 1) {
        c->count += got;
        return 0;
    }
    int rc = c->contiguous ? to_fat_chain(h, c) : 0;
    if (rc == 0) {
        rc = h->ops->link(h, first, got, CLUSTERS_END, CACHE_CHAIN);
    }
    if (rc == 0) {
        rc = end_step(h);
    }
    if (rc == 0) {
        rc = base_runs_append(&c->runs, first, got);
    }
    if (rc == 0 && c->count == 0) {
        c->first = first;
    } else if (rc == 0) {
        rc = h->ops->link(h, last, 1, first, tier);
        if (rc < 0) {
            base_runs_truncate(&c->runs, c->count);
        }
    }
    if (rc == 0) {
        c->count += got;
    }
    return rc;
}

int clusters_chain_extend(struct clusters *h, struct clusters_chain *c, uint32_t need,
                          enum cache_tier link_tier, const char *what)
{
    int rc = clusters_chain_measure(h, c, h->count, what);
    uint32_t old = c->count, last = 0;
    if (rc == 0) {
        rc = last_cluster(h, c, &last, what);
    }
    if (rc == 0 && clusters_cut_pending(h, last)) {
        /* The old tail behind it is still what the entry on the device counts on. */
        rc = clusters_commit(h);
    }
    while (rc == 0 && need > 0) {
        uint32_t first, got;
        if ((rc = last_cluster(h, c, &last, what)) < 0) {
            break;
        }
        rc = clusters_take(h, last ? last + 1 : 0, one_by_one(h) ? 1 : need, &first, &got);
        if (rc < 0) {
            break;
        }
        rc = append_piece(h, c, last, first, got, link_tier);
        if (rc < 0) {
            if (clusters_free_now(h, first, got) < 0) {
                h->volume->failed = true; /* they are lost: the volume must not be called clean */
            }
            break;
        }
        need -= got;
        rc = end_step(h);
    }
    if (rc < 0 && c->count > old) {
        /* What was added was never pointed to by an entry, so it goes back at once. */
        int undo = clusters_chain_cut(h, c, old, true, what);
        h->volume->failed |= undo < 0;
        return undo < 0 && rc == -ENOSPC ? undo : rc;
    }
    return rc;
}

static int remember_cut(struct clusters *h, uint32_t cluster, uint32_t old_next, bool at_once)
{
    if (at_once) {
        return h->ops->link(h, cluster, 1, CLUSTERS_END, CACHE_CHAIN);
    }
    return clusters_cut_later(h, cluster, old_next);
}

/* Frees the clusters from index keep on, piece by piece. */
static int free_tail(struct clusters *h, struct clusters_chain *c, uint32_t keep, bool at_once,
                     const char *what)
{
    uint64_t index = keep;
    while (index < c->count) {
        uint32_t cluster;
        uint64_t piece;
        int rc = clusters_chain_find(h, c, index, &cluster, &piece, what);
        if (rc == 0) {
            rc = at_once ? clusters_free_now(h, cluster, (uint32_t)piece)
                         : clusters_free_later(h, cluster, (uint32_t)piece);
        }
        if (rc < 0) {
            return rc;
        }
        index += piece;
    }
    return 0;
}

int clusters_chain_check_used(struct clusters *h, struct clusters_chain *c, uint32_t from,
                              const char *what)
{
    int rc = clusters_chain_measure(h, c, h->count, what);
    for (uint64_t index = from; rc == 0 && index < c->count;) {
        uint32_t cluster;
        uint64_t piece;
        rc = clusters_chain_find(h, c, index, &cluster, &piece, what);
        if (rc == 0) {
            rc = clusters_check_used(h, cluster, (uint32_t)piece);
            index += piece;
        }
    }
    return rc;
}

int clusters_chain_cut(struct clusters *h, struct clusters_chain *c, uint32_t keep, bool at_once,
                       const char *what)
{
    int rc = clusters_chain_check_used(h, c, keep, what);
    if (rc < 0 || keep >= c->count) {
        return rc;
    }
    if (!c->contiguous && keep > 0) {
        uint32_t last, next;
        uint64_t piece;
        if ((rc = clusters_chain_find(h, c, keep - 1, &last, &piece, what)) < 0 ||
            (rc = clusters_chain_find(h, c, keep, &next, &piece, what)) < 0 ||
            (rc = remember_cut(h, last, next, at_once)) < 0) {
            return rc;
        }
    }
    if ((rc = free_tail(h, c, keep, at_once, what)) < 0) {
        return rc;
    }
    if (!c->contiguous) {
        base_runs_truncate(&c->runs, keep);
    }
    c->count = keep;
    if (keep == 0) {
        clusters_chain_free(c);
        clusters_chain_init(c, 0, false, 0);
    }
    return 0;
}
