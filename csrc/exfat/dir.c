/* Directories as rows of 32-byte entries: finding, reading, writing, and stepping through them. */
#include "exfat/exfat.h"

#include <errno.h>
#include <string.h>

enum { READ_AHEAD = 128 << 10 };

const char *exfat_owner(const struct exfat_node *n)
{
    if (exfat_is_root(n)) {
        return "root directory";
    }
    return n->base.kind == VOLUME_DIRECTORY ? "directory" : "file";
}

int exfat_dir_entries(struct exfat_node *dir, uint32_t *entries)
{
    if (exfat_is_root(dir) &&
        dir->size == 0) { /* the root has no entry that says its length [3.1.10] */
        struct exfat *x = exfat_of(dir->base.volume);
        int rc = exfat_chain_measure(x, &dir->chain, EXFAT_DIRECTORY_MAX >> x->g.cluster_shift,
                                     exfat_owner(dir));
        if (rc < 0) {
            return rc;
        }
        dir->size = dir->valid = (uint64_t)dir->chain.count << x->g.cluster_shift;
    }
    *entries = (uint32_t)(dir->size >> EXFAT_ENTRY_SHIFT);
    return 0;
}

int exfat_dir_find(struct exfat_node *dir, uint32_t index, uint64_t *offset, uint32_t *piece)
{
    struct exfat *x = exfat_of(dir->base.volume);
    uint32_t total;
    int rc = exfat_dir_entries(dir, &total);
    if (rc < 0) {
        return rc;
    }
    if (index >= total) {
        return -ERANGE;
    }
    uint64_t byte = (uint64_t)index << EXFAT_ENTRY_SHIFT;
    uint32_t cluster;
    uint64_t clusters;
    rc = exfat_chain_find(x, &dir->chain, byte >> x->g.cluster_shift, &cluster, &clusters,
                          exfat_owner(dir));
    if (rc == -ERANGE) {
        return base_damage(x->volume->error, exfat_owner(dir), 0, "DataLength", dir->size,
                           (uint64_t)dir->chain.count << x->g.cluster_shift,
                           "the cluster chain is shorter than the directory");
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t in_cluster = byte & (x->cluster_size - 1);
    uint64_t left = ((clusters << x->g.cluster_shift) - in_cluster) >> EXFAT_ENTRY_SHIFT;
    *offset = exfat_cluster_offset(x, cluster) + in_cluster;
    *piece = (uint32_t)base_min(left, total - index);
    return 0;
}

int exfat_dir_read(struct exfat_node *dir, uint32_t index, uint32_t count, uint8_t *out)
{
    while (count > 0) {
        uint64_t offset;
        uint32_t piece;
        int rc = exfat_dir_find(dir, index, &offset, &piece);
        if (rc < 0) {
            return rc;
        }
        uint32_t here = (uint32_t)base_min(count, piece);
        size_t bytes = (size_t)here << EXFAT_ENTRY_SHIFT;
        if ((rc = cache_read(dir->base.volume->cache, offset, out, bytes)) < 0) {
            return rc;
        }
        index += here;
        count -= here;
        out += bytes;
    }
    return 0;
}

int exfat_dir_write(struct exfat_node *dir, uint32_t index, uint32_t count, const uint8_t *in,
                    enum cache_tier tier)
{
    while (count > 0) {
        uint64_t offset;
        uint32_t piece;
        int rc = exfat_dir_find(dir, index, &offset, &piece);
        if (rc < 0) {
            return rc;
        }
        uint32_t here = (uint32_t)base_min(count, piece);
        size_t bytes = (size_t)here << EXFAT_ENTRY_SHIFT;
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

int exfat_dir_zero(struct exfat_node *dir, uint32_t from, uint32_t to)
{
    struct exfat *x = exfat_of(dir->base.volume);
    struct cache *c = dir->base.volume->cache;
    while (from < to) {
        uint32_t cluster;
        uint64_t piece;
        int rc = exfat_chain_find(x, &dir->chain, from, &cluster, &piece, exfat_owner(dir));
        if (rc < 0) {
            return rc;
        }
        piece = base_min(piece, to - from);
        uint64_t offset = exfat_cluster_offset(x, cluster), n = piece << x->g.cluster_shift;
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

int exfat_walk_begin(struct exfat_walk *w, struct exfat_node *dir, uint32_t index)
{
    memset(w, 0, sizeof *w);
    w->dir = dir;
    w->index = index;
    w->whole = index == 0;
    return exfat_dir_entries(dir, &w->total);
}

/* Pins the block that holds the next entry. */
static int walk_pin(struct exfat_walk *w)
{
    struct cache *c = w->dir->base.volume->cache;
    cache_put(c, &w->ref);
    w->ref.block = NULL;
    if (w->piece_left == 0) {
        int rc = exfat_dir_find(w->dir, w->index, &w->piece_offset, &w->piece_left);
        if (rc < 0) {
            return rc;
        }
        w->ahead = w->piece_offset;
    }
    if (w->whole && w->piece_offset >= w->ahead) {
        uint64_t n = base_min((uint64_t)w->piece_left << EXFAT_ENTRY_SHIFT, READ_AHEAD);
        cache_read_ahead(c, w->piece_offset, n);
        w->ahead = w->piece_offset + n;
    }
    int rc = cache_get(c, w->piece_offset, &w->ref);
    if (rc < 0) {
        w->ref.block = NULL;
        return rc;
    }
    w->ref_left = (uint32_t)base_min(w->ref.available >> EXFAT_ENTRY_SHIFT, w->piece_left);
    w->piece_left -= w->ref_left;
    w->piece_offset += (uint64_t)w->ref_left << EXFAT_ENTRY_SHIFT;
    return 0;
}

int exfat_walk_next(struct exfat_walk *w, const uint8_t **entry)
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
        w->ref.data += EXFAT_ENTRY_SIZE;
    }
    w->ref_left--;
    w->index++;
    w->dir->base.volume->counters.entries_visited++;
    *entry = w->ref.data;
    return 1;
}

void exfat_walk_end(struct exfat_walk *w)
{
    cache_put(w->dir->base.volume->cache, &w->ref);
    w->ref.block = NULL;
}
