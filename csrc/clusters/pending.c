/* Space on its way to be free: not before the entries that named it are gone from the device. And
 * what concerns the whole volume: sync, usage, trim.
 */
#include "base/grow.h"
#include "clusters/clusters.h"

#include <errno.h>
#include <stdlib.h>

enum { FAT_AHEAD = 128 << 10 }; /* bytes of a FAT that are read at a time */

int clusters_free_now(struct clusters *h, uint32_t first, uint32_t count)
{
    cache_forget(h->volume->cache, clusters_offset(h, first), (uint64_t)count << h->shift);
    int rc = clusters_mark(h, first, count, false);
    if (rc == 0) {
        h->next_free = (uint32_t)base_min(h->next_free, first);
        h->volume->counters.clusters_freed += count;
    }
    return rc;
}

int clusters_free_later(struct clusters *h, uint32_t first, uint32_t count)
{
    int rc = clusters_apply_pending(h);
    if (rc < 0) {
        return rc;
    }
    cache_forget(h->volume->cache, clusters_offset(h, first), (uint64_t)count << h->shift);
    h->pending_epoch = cache_epoch(h->volume->cache);
    h->pending_clusters += count;
    struct clusters_pending *last = h->pending_n ? &h->pending[h->pending_n - 1] : NULL;
    if (last && last->first + last->count == first) {
        last->count += count;
        return 0;
    }
    struct clusters_pending *v =
        base_grow(h->pending, h->pending_n, 1, &h->pending_cap, 64, sizeof *v);
    if (!v) {
        h->pending_clusters -= count;
        return -ENOMEM;
    }
    h->pending = v;
    h->pending[h->pending_n++] = (struct clusters_pending){first, count};
    return 0;
}

int clusters_cut_later(struct clusters *h, uint32_t cluster, uint32_t old_next)
{
    int rc = clusters_apply_pending(h); /* those before, whose epoch may have passed */
    if (rc < 0) {
        return rc;
    }
    h->pending_epoch = cache_epoch(h->volume->cache);
    struct clusters_cut *v = base_grow(h->cuts, h->cuts_n, 1, &h->cuts_cap, 16, sizeof *v);
    if (!v) {
        return -ENOMEM;
    }
    h->cuts = v;
    h->cuts[h->cuts_n++] = (struct clusters_cut){cluster, old_next};
    return 0;
}

bool clusters_cut_pending(const struct clusters *h, uint32_t cluster)
{
    for (size_t i = 0; i < h->cuts_n; i++) {
        if (h->cuts[i].cluster == cluster) {
            return true;
        }
    }
    return false;
}

static int apply(struct clusters *h)
{
    for (size_t i = 0; i < h->cuts_n; i++) { /* unless something was linked there since */
        uint32_t next;
        int rc = h->ops->next(h, h->cuts[i].cluster, &next);
        if (rc == 0 && next == h->cuts[i].old_next) {
            rc = h->ops->link(h, h->cuts[i].cluster, 1, CLUSTERS_END, CACHE_CHAIN);
        }
        if (rc < 0) {
            return rc;
        }
    }
    h->cuts_n = 0;
    while (h->pending_n > 0) {
        struct clusters_pending p = h->pending[h->pending_n - 1];
        int rc = clusters_free_now(h, p.first, p.count);
        if (rc < 0) {
            return rc;
        }
        if (h->volume->policy.discard) {
            rc = cache_discard(h->volume->cache, clusters_offset(h, p.first),
                               (uint64_t)p.count << h->shift);
            if (rc < 0 && rc != -EOPNOTSUPP) {
                return rc;
            }
        }
        h->pending_clusters -= p.count;
        h->pending_n--;
    }
    return 0;
}

int clusters_apply_pending(struct clusters *h)
{
    if ((h->pending_n == 0 && h->cuts_n == 0) ||
        cache_epoch(h->volume->cache) <= h->pending_epoch) {
        return 0;
    }
    return apply(h);
}

int clusters_commit(struct clusters *h)
{
    int rc = cache_commit(h->volume->cache, CACHE_REMOVAL, true);
    return rc < 0 ? rc : apply(h);
}

int clusters_sync(struct volume *v, bool clean, int (*mark_clean)(struct clusters *h))
{
    struct clusters *h = clusters_of(v);
    int rc = 0;
    while (clean && rc == 0 && h->pins_n > 0) {
        rc = clusters_unpin(h->pins[h->pins_n - 1]);
    }
    if (rc == 0) {
        rc = volume_write_dirty_nodes(v);
    }
    if (rc == 0) {
        rc = cache_commit(v->cache, CACHE_REMOVAL, true);
    }
    if (rc == 0) {
        rc = clusters_apply_pending(h);
    }
    if (rc == 0 && clean) {
        rc = cache_commit(v->cache, CACHE_REMOVAL, false);
    }
    if (rc == 0 && clean) {
        rc = mark_clean(h);
    }
    return rc < 0 ? rc : cache_commit(v->cache, CACHE_CLEAN, true);
}

int clusters_statfs(struct volume *v, struct volume_statfs *out)
{
    struct clusters *h = clusters_of(v);
    uint32_t free_clusters;
    int rc = clusters_count_free(h, &free_clusters);
    if (rc < 0) {
        return rc;
    }
    uint64_t all_free = base_min(free_clusters + h->pending_clusters, h->count);
    out->clusters = h->count;
    out->free_clusters = all_free;
    out->total = out->clusters << h->shift;
    out->free = all_free << h->shift;
    out->used = out->total - out->free;
    out->cluster_size = h->size;
    out->sector_size = v->sector_size;
    out->name_max = 255;
    return 0;
}

int clusters_count_bad(struct volume *v, uint32_t *bad)
{
    struct clusters *h = clusters_of(v);
    uint64_t ahead = 0;
    *bad = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        uint64_t at = h->ops->fat_offset(h, i + CLUSTERS_FIRST);
        uint32_t next;
        if (at >= ahead) {
            cache_read_ahead(v->cache, at, FAT_AHEAD);
            ahead = at + FAT_AHEAD;
        }
        int rc = h->ops->next(h, i + CLUSTERS_FIRST, &next);
        if (rc < 0) {
            return rc;
        }
        *bad += next == CLUSTERS_BAD;
    }
    return 0;
}

int clusters_trim_volume(struct volume *v, uint64_t min_length, uint64_t *trimmed)
{
    struct clusters *h = clusters_of(v);
    /* Only what is free on the device may be discarded. */
    int rc = volume_write_dirty_nodes(v);
    if (rc == 0) {
        rc = clusters_commit(h);
    }
    if (rc == 0) {
        rc = cache_commit(v->cache, CACHE_REMOVAL, true);
    }
    return rc < 0 ? rc : clusters_trim(h, min_length, trimmed);
}

size_t clusters_memory_held(const struct clusters *h)
{
    size_t held = h->pending_cap * sizeof *h->pending + h->cuts_cap * sizeof *h->cuts +
                  h->pins_cap * sizeof *h->pins;
    return held + (h->block_free ? clusters_summaries(h) * sizeof *h->block_free : 0);
}

void clusters_free(struct clusters *h)
{
    free(h->block_free);
    free(h->pending);
    free(h->cuts);
    free(h->pins);
}

/* What is cheap to make again: the map's summaries. */
size_t clusters_shrink(struct volume *v, size_t bytes)
{
    struct clusters *h = clusters_of(v);
    size_t before = clusters_memory_held(h);
    if (bytes == 0) {
        return 0;
    }
    free(h->block_free);
    h->block_free = NULL;
    return before - clusters_memory_held(h);
}

/* Hints are valid under the policy that made them. */
void clusters_policy_changed(struct volume *v)
{
    struct volume_node *node;
    size_t cursor = 0;
    uint64_t key;
    while ((node = base_map_next(&v->nodes, &cursor, &key)) != NULL) {
        clusters_node_of(node)->hint.valid = false;
        clusters_node_of(node)->walked = false;
    }
}
