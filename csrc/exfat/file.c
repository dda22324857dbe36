/* Contents of files: read, write, resize, allocate, extents.
 *
 * Three lengths: `size` (DataLength), `valid` (ValidDataLength: what follows reads as zeros), and
 * the clusters of the chain, which may reach beyond the size while a file is open (reserved by
 * allocate with keep_size).
 */
#include "exfat/exfat.h"

#include <errno.h>
#include <string.h>

static int too_short(struct exfat_node *n)
{
    struct exfat *x = exfat_of(n->base.volume);
    return base_damage(x->volume->error, exfat_owner(n), 0, "DataLength", n->size,
                       (uint64_t)n->chain.count << x->g.cluster_shift,
                       "the cluster chain is shorter than the file");
}

/* The piece of the device that holds file bytes from offset on. */
static int find_piece(struct exfat_node *n, uint64_t offset, uint64_t *device, uint64_t *length)
{
    struct exfat *x = exfat_of(n->base.volume);
    uint32_t cluster;
    uint64_t clusters;
    int rc = exfat_chain_find(x, &n->chain, offset >> x->g.cluster_shift, &cluster, &clusters,
                              exfat_owner(n));
    if (rc < 0) {
        return rc == -ERANGE ? too_short(n) : rc;
    }
    uint64_t in_cluster = offset & (x->cluster_size - 1);
    *device = exfat_cluster_offset(x, cluster) + in_cluster;
    *length = (clusters << x->g.cluster_shift) - in_cluster;
    return 0;
}

/* A walk that maps the chain only one cluster at a time would make a read per cluster of what is
 * one piece on the disk. */
static int map_ahead(struct exfat_node *n, uint64_t offset, uint64_t bytes)
{
    uint64_t device, length;
    if (n->chain.contiguous || n->chain.complete || bytes == 0) {
        return 0;
    }
    return find_piece(n, offset + bytes - 1, &device, &length);
}

int exfat_read(struct volume_node *node, uint64_t offset, void *buffer, size_t bytes, size_t *done)
{
    struct exfat_node *n = exfat_node_of(node);
    uint8_t *out = buffer;
    *done = 0;
    if (offset >= n->size) {
        return 0;
    }
    uint64_t want = base_min(bytes, n->size - offset);
    uint64_t from_disk = offset < n->valid ? base_min(want, n->valid - offset) : 0;
    int rc = map_ahead(n, offset, from_disk);
    while (rc == 0 && from_disk > 0) {
        uint64_t device, piece;
        if ((rc = find_piece(n, offset, &device, &piece)) < 0) {
            break;
        }
        size_t here = (size_t)base_min(piece, from_disk);
        if ((rc = cache_read_data(node->volume->cache, device, out, here)) < 0) {
            break;
        }
        out += here;
        offset += here;
        want -= here;
        from_disk -= here;
        *done += here;
    }
    if (rc == 0) {
        memset(out, 0, (size_t)want);
        *done += (size_t)want;
    }
    return *done > 0 && rc != -BASE_ECORRUPT ? 0 : rc;
}

/* Clusters up to `clusters`, with all or nothing; those reserved before count. */
static int want_clusters(struct exfat_node *n, uint64_t clusters)
{
    struct exfat *x = exfat_of(n->base.volume);
    if (n->chain.first != 0 && !n->chain.complete) {
        int rc = exfat_chain_measure(x, &n->chain, x->g.clusters, exfat_owner(n));
        if (rc < 0) {
            return rc;
        }
    }
    if (clusters <= n->chain.count) {
        return 0;
    }
    if (clusters - n->chain.count > x->g.clusters) {
        return -ENOSPC;
    }
    if (n->epoch_cut == cache_epoch(x->volume->cache) + 1) {
        /* The old tail of its FAT chain is still what the device's entry counts on. */
        int rc = exfat_commit(x);
        if (rc < 0) {
            return rc;
        }
    }
    return exfat_chain_extend(x, &n->chain, (uint32_t)(clusters - n->chain.count), CACHE_CHAIN,
                              exfat_owner(n));
}

/* After a change of size: what the chain holds beyond it stays reserved only if it was. */
static void set_size(struct exfat_node *n, uint64_t size)
{
    struct exfat *x = exfat_of(n->base.volume);
    n->size = size;
    uint64_t used = exfat_clusters_for(x, size);
    n->reserved = n->chain.count > used ? n->chain.count - used : 0;
}

static void touched(struct exfat_node *n)
{
    struct volume *v = n->base.volume;
    n->modified = exfat_stamp_make(v->env->now(v->env), v->utc_offset, false);
    n->attributes |= VOLUME_ARCHIVE;
    volume_node_mark_dirty(&n->base);
}

/* Zeros or data over a range of allocated clusters. buffer NULL: zeros. */
static int put_range(struct exfat_node *n, uint64_t offset, const uint8_t *buffer, uint64_t bytes)
{
    struct cache *c = n->base.volume->cache;
    while (bytes > 0) {
        uint64_t device, piece;
        int rc = find_piece(n, offset, &device, &piece);
        if (rc < 0) {
            return rc;
        }
        uint64_t here = base_min(piece, bytes);
        rc = buffer ? cache_write_data(c, device, buffer, (size_t)here)
                    : cache_zero_data(c, device, here);
        if (rc < 0) {
            return rc;
        }
        buffer = buffer ? buffer + here : NULL;
        offset += here;
        bytes -= here;
    }
    return 0;
}

/* Sets `valid` to `to`: the gap before it becomes zeros on the disk. */
static int fill_gap(struct exfat_node *n, uint64_t to)
{
    if (to <= n->valid) {
        return 0;
    }
    int rc = put_range(n, n->valid, NULL, to - n->valid);
    if (rc == 0) {
        n->valid = to;
    }
    return rc;
}

int exfat_write(struct volume_node *node, uint64_t offset, const void *buffer, size_t bytes,
                size_t *done)
{
    struct exfat_node *n = exfat_node_of(node);
    struct exfat *x = exfat_of(node->volume);
    uint64_t end;
    *done = 0;
    if (bytes == 0) {
        return 0;
    }
    if (base_add_overflows(offset, bytes, &end) || end > INT64_MAX) {
        return -EFBIG;
    }
    int rc = exfat_mark_dirty(x);
    if (rc < 0) {
        return rc;
    }
    uint64_t old_clusters = n->chain.complete ? n->chain.count : UINT64_MAX;
    if (end > n->size && (rc = want_clusters(n, exfat_clusters_for(x, end))) < 0) {
        return rc;
    }
    if (offset > n->valid) {
        rc = fill_gap(n, offset);
    }
    if (rc == 0) {
        rc = put_range(n, offset, buffer, bytes);
    }
    if (rc < 0) {
        /* Clusters that were taken for nothing go back; what was overwritten before the error
         * stays. */
        if (end > n->size && old_clusters != UINT64_MAX && n->chain.count > old_clusters) {
            (void)exfat_chain_cut(x, &n->chain, (uint32_t)old_clusters, true, exfat_owner(n));
        }
        n->valid = base_min(n->valid, n->size);
        return rc;
    }
    n->valid = base_max(n->valid, end);
    set_size(n, base_max(n->size, end));
    touched(n);
    *done = bytes;
    return 0;
}

int exfat_resize(struct volume_node *node, uint64_t size)
{
    struct exfat_node *n = exfat_node_of(node);
    struct exfat *x = exfat_of(node->volume);
    if (size > INT64_MAX) {
        return -EFBIG;
    }
    int rc = exfat_mark_dirty(x);
    if (rc < 0) {
        return rc;
    }
    if (size >= n->size) {
        if (size > n->size && (rc = want_clusters(n, exfat_clusters_for(x, size))) < 0) {
            return rc;
        }
        if (size == n->size && n->reserved != 0 && (rc = exfat_drop_reserved(n)) < 0) {
            return rc;
        }
        set_size(n, size);
        touched(n);
        return 0;
    }
    uint64_t keep = exfat_clusters_for(x, size);
    bool fat_chain = n->chain.first != 0 && !n->chain.contiguous;
    rc = exfat_chain_cut(x, &n->chain, (uint32_t)keep, false, exfat_owner(n));
    if (rc < 0) {
        return rc;
    }
    n->valid = base_min(n->valid, size);
    set_size(n, size);
    touched(n);
    /* Now, not with the other dirty nodes: the clusters become free once what is in the cache is on
     * the device. The epoch is asked for after the edit, which may have committed what was before
     * it. */
    rc = exfat_write_node(node);
    x->pending_epoch = cache_epoch(node->volume->cache);
    if (fat_chain) {
        n->epoch_cut = x->pending_epoch + 1;
    }
    return rc;
}

int exfat_allocate(struct volume_node *node, uint64_t offset, uint64_t bytes, bool keep_size)
{
    struct exfat_node *n = exfat_node_of(node);
    struct exfat *x = exfat_of(node->volume);
    uint64_t end;
    if (bytes == 0) {
        return -EINVAL;
    }
    if (base_add_overflows(offset, bytes, &end) || end > INT64_MAX) {
        return -EFBIG;
    }
    if (end <= n->size) {
        return 0; /* exFAT has no holes */
    }
    int rc = exfat_mark_dirty(x);
    if (rc == 0) {
        rc = want_clusters(n, exfat_clusters_for(x, end));
    }
    if (rc < 0) {
        return rc;
    }
    set_size(n, keep_size ? n->size : end);
    if (!keep_size) {
        touched(n);
    } else if (node->handles == 0) {
        return exfat_pin(n);
    }
    return 0;
}

int exfat_extents(struct volume_node *node, struct volume_extents *out)
{
    struct exfat_node *n = exfat_node_of(node);
    uint64_t offset = 0;
    uint32_t entries;
    int rc = exfat_is_root(n) ? exfat_dir_entries(n, &entries) : 0;
    if (rc == 0) {
        rc = map_ahead(n, 0, n->size);
    }
    while (rc == 0 && offset < n->size) {
        uint64_t device, piece;
        if ((rc = find_piece(n, offset, &device, &piece)) < 0) {
            break;
        }
        piece = base_min(piece, n->size - offset);
        uint64_t written = offset < n->valid ? base_min(piece, n->valid - offset) : 0;
        if (written > 0) {
            rc = volume_extents_add(out, offset, device, written, true);
        }
        if (rc == 0 && piece > written) {
            rc =
                volume_extents_add(out, offset + written, device + written, piece - written, false);
        }
        offset += piece;
    }
    return rc;
}
