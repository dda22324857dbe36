/* Directories as rows of 32-byte entries: finding, reading, writing, and stepping through them. */
#include "clusters/clusters.h"

#include <errno.h>
#include <string.h>

enum { READ_AHEAD = 128 << 10 };

int clusters_dir_entries(struct clusters_node *dir, uint32_t *entries)
{
    if (dir->size == 0 &&
        dir->chain.first != 0) { /* its entry, if it has one, does not say its length */
        struct clusters *h = clusters_of(dir->base.volume);
        int rc = clusters_chain_measure(h, &dir->chain, h->directory_max >> h->shift,
                                        clusters_owner(dir));
        if (rc < 0) {
            return rc;
        }
        dir->size = dir->valid = (uint64_t)dir->chain.count << h->shift;
    }
    *entries = (uint32_t)(dir->size >> CLUSTERS_ENTRY_SHIFT);
    return 0;
}

int clusters_dir_find(struct clusters_node *dir, uint32_t index, uint64_t *offset, uint32_t *piece)
{
    struct clusters *h = clusters_of(dir->base.volume);
    uint32_t total;
    int rc = clusters_dir_entries(dir, &total);
    if (rc < 0) {
        return rc;
    }
    if (index >= total) {
        return -ERANGE;
    }
    uint64_t byte = (uint64_t)index << CLUSTERS_ENTRY_SHIFT;
    if (dir->region != 0) {
        *offset = dir->region + byte;
        *piece = total - index;
        return 0;
    }
    uint32_t cluster;
    uint64_t clusters;
    rc = clusters_chain_find(h, &dir->chain, byte >> h->shift, &cluster, &clusters,
                             clusters_owner(dir));
    if (rc == -ERANGE) {
        return base_damage(h->volume->error, clusters_owner(dir), 0, "DataLength", dir->size,
                           (uint64_t)dir->chain.count << h->shift,
                           "the cluster chain is shorter than the directory");
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t in_cluster = byte & (h->size - 1);
    uint64_t left = ((clusters << h->shift) - in_cluster) >> CLUSTERS_ENTRY_SHIFT;
    *offset = clusters_offset(h, cluster) + in_cluster;
    *piece = (uint32_t)base_min(left, total - index);
    return 0;
}

uint64_t clusters_dir_offset(struct clusters_node *dir, uint32_t index)
{
    uint64_t offset;
    uint32_t piece;
    return clusters_dir_find(dir, index, &offset, &piece) < 0 ? 0 : offset;
}

int clusters_dir_peek(struct clusters_node *dir, uint32_t index, uint32_t most, uint8_t *out,
                      uint32_t *got)
{
    struct cache *c = dir->base.volume->cache;
    uint64_t offset;
    uint32_t piece;
    int rc = clusters_dir_find(dir, index, &offset, &piece);
    if (rc < 0) {
        return rc;
    }
    uint64_t in_block = cache_block_size(c) - (offset & (cache_block_size(c) - 1));
    most = (uint32_t)base_min(most, in_block >> CLUSTERS_ENTRY_SHIFT);
    *got = (uint32_t)base_min(most, piece);
    return cache_read(c, offset, out, (size_t)*got << CLUSTERS_ENTRY_SHIFT);
}

int clusters_dir_read(struct clusters_node *dir, uint32_t index, uint32_t count, uint8_t *out)
{
    while (count > 0) {
        uint64_t offset;
        uint32_t piece;
        int rc = clusters_dir_find(dir, index, &offset, &piece);
        if (rc < 0) {
            return rc;
        }
        uint32_t here = (uint32_t)base_min(count, piece);
        size_t bytes = (size_t)here << CLUSTERS_ENTRY_SHIFT;
        if ((rc = cache_read(dir->base.volume->cache, offset, out, bytes)) < 0) {
            return rc;
        }
        index += here;
        count -= here;
        out += bytes;
    }
    return 0;
}

int clusters_dir_write(struct clusters_node *dir, uint32_t index, uint32_t count, const uint8_t *in,
                       enum cache_tier tier)
{
    while (count > 0) {
        uint64_t offset;
        uint32_t piece;
        int rc = clusters_dir_find(dir, index, &offset, &piece);
        if (rc < 0) {
            return rc;
        }
        uint32_t here = (uint32_t)base_min(count, piece);
        size_t bytes = (size_t)here << CLUSTERS_ENTRY_SHIFT;
        if ((rc = cache_write(dir->base.volume->cache, offset, in, bytes, tier, DEVICE_ENTRY_SET)) <
            0) {
            return rc;
        }
        index += here;
        count -= here;
        in += bytes;
    }
    return 0;
}

void clusters_dir_put_back(struct clusters_node *dir, uint32_t index, uint32_t count,
                           const uint8_t *in, enum cache_tier tier)
{
    struct cache *c = dir->base.volume->cache;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *entry = in + ((size_t)i << CLUSTERS_ENTRY_SHIFT);
        uint64_t offset;
        uint32_t piece;
        if (clusters_dir_find(dir, index + i, &offset, &piece) == 0) {
            (void)cache_amend(c, offset, entry, CLUSTERS_ENTRY_SIZE, tier, DEVICE_ENTRY_SET);
        }
    }
}

int clusters_dir_zero(struct clusters_node *dir, uint32_t from, uint32_t to)
{
    struct clusters *h = clusters_of(dir->base.volume);
    struct cache *c = dir->base.volume->cache;
    while (from < to) {
        uint32_t cluster;
        uint64_t piece;
        int rc = clusters_chain_find(h, &dir->chain, from, &cluster, &piece, clusters_owner(dir));
        if (rc < 0) {
            return rc;
        }
        piece = base_min(piece, to - from);
        uint64_t offset = clusters_offset(h, cluster), n = piece << h->shift;
        rc = dir->base.volume->policy.entry_sync == VOLUME_SYNC_SET
                 ? cache_write_fresh_zeros(c, offset, n, DEVICE_DIRECTORY)
                 : cache_write_plain_zeros(c, offset, n, DEVICE_DIRECTORY); /* the old way */
        if (rc < 0) {
            return rc;
        }
        from += (uint32_t)piece;
    }
    return 0;
}

int clusters_walk_begin(struct clusters_walk *w, struct clusters_node *dir, uint32_t index)
{
    memset(w, 0, sizeof *w);
    w->dir = dir;
    w->index = index;
    w->whole = index == 0;
    return clusters_dir_entries(dir, &w->total);
}

/* Pins the block that holds the next entry. */
static int walk_pin(struct clusters_walk *w)
{
    struct cache *c = w->dir->base.volume->cache;
    cache_put(c, &w->ref);
    w->ref.block = NULL;
    if (w->piece_left == 0) {
        int rc = clusters_dir_find(w->dir, w->index, &w->piece_offset, &w->piece_left);
        if (rc < 0) {
            return rc;
        }
        w->ahead = w->piece_offset;
    }
    if (w->whole && w->piece_offset >= w->ahead) {
        uint64_t n = base_min((uint64_t)w->piece_left << CLUSTERS_ENTRY_SHIFT, READ_AHEAD);
        cache_read_ahead(c, w->piece_offset, n);
        w->ahead = w->piece_offset + n;
    }
    int rc = cache_get(c, w->piece_offset, &w->ref);
    if (rc < 0) {
        w->ref.block = NULL;
        return rc;
    }
    w->ref_left = (uint32_t)base_min(w->ref.available >> CLUSTERS_ENTRY_SHIFT, w->piece_left);
    w->piece_left -= w->ref_left;
    w->piece_offset += (uint64_t)w->ref_left << CLUSTERS_ENTRY_SHIFT;
    return 0;
}

int clusters_walk_next(struct clusters_walk *w, const uint8_t **entry)
{
    if (w->index >= w->total) {
        return 0;
    }
    if (w->ref_left == 0) {
        int rc = walk_pin(w);
        if (rc < 0) {
            return rc;
        }
    } else {
        w->ref.data += CLUSTERS_ENTRY_SIZE;
    }
    w->ref_left--;
    w->index++;
    w->dir->base.volume->counters.entries_visited++;
    *entry = w->ref.data;
    return 1;
}

uint64_t clusters_walk_offset(const struct clusters_walk *w)
{
    return w->piece_offset - (((uint64_t)w->ref_left + 1) << CLUSTERS_ENTRY_SHIFT);
}

void clusters_walk_end(struct clusters_walk *w)
{
    cache_put(w->dir->base.volume->cache, &w->ref);
    w->ref.block = NULL;
}

int clusters_dir_check_empty(struct clusters_node *dir)
{
    struct clusters_walk w;
    const uint8_t *entry;
    const struct clusters_ops *ops = clusters_of(dir->base.volume)->ops;
    int rc = clusters_walk_begin(&w, dir, 0);
    if (rc < 0) {
        return rc;
    }
    while ((rc = clusters_walk_next(&w, &entry)) > 0) {
        if (entry[0] == 0) {
            rc = 0;
            break;
        }
        if (ops->entry(entry) == CLUSTERS_ENTRY_USED) { /* whatever it is, it must not be lost */
            rc = -ENOTEMPTY;
            break;
        }
    }
    clusters_walk_end(&w);
    return rc;
}
