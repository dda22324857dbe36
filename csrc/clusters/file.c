/* Contents of files: read, write, resize, allocate, extents.
 *
 * Three lengths: `size` (DataLength), `valid` (ValidDataLength: what follows reads as zeros), and
 * the clusters of the chain, which may reach beyond the size while a file is open (reserved by
 * allocate with keep_size).
 */
#include "clusters/clusters.h"

#include <errno.h>
#include <string.h>

static int too_short(struct clusters_node *n)
{
    struct clusters *h = clusters_of(n->base.volume);
    uint64_t offset = 0; /* of its entry set; a file that was unlinked has none */
    if (n->base.parent && !n->base.unlinked) {
        offset = clusters_dir_offset(clusters_node_of(n->base.parent), n->index);
    }
    return base_damage(h->volume->error, clusters_owner(n), offset, "DataLength", n->size,
                       (uint64_t)n->chain.count << h->shift,
                       "the cluster chain is shorter than the file");
}

/* The piece of the device that holds file bytes from offset on. */
static int find_piece(struct clusters_node *n, uint64_t offset, uint64_t *device, uint64_t *length)
{
    struct clusters *h = clusters_of(n->base.volume);
    uint32_t cluster;
    uint64_t clusters;
    int rc = clusters_chain_find(h, &n->chain, offset >> h->shift, &cluster, &clusters,
                                 clusters_owner(n));
    if (rc < 0) {
        return rc == -ERANGE ? too_short(n) : rc;
    }
    uint64_t in_cluster = offset & (h->size - 1);
    *device = clusters_offset(h, cluster) + in_cluster;
    *length = (clusters << h->shift) - in_cluster;
    return 0;
}

/* A walk that maps the chain only one cluster at a time would make a read per cluster of what is
 * one piece on the disk. */
static int map_ahead(struct clusters_node *n, uint64_t offset, uint64_t bytes)
{
    uint64_t device, length;
    if (n->chain.contiguous || n->chain.complete || bytes == 0) {
        return 0;
    }
    return find_piece(n, offset + bytes - 1, &device, &length);
}

int clusters_read(struct volume_node *node, uint64_t offset, void *buffer, size_t bytes,
                  size_t *done)
{
    struct clusters_node *n = clusters_node_of(node);
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
static int want_clusters(struct clusters_node *n, uint64_t clusters)
{
    struct clusters *h = clusters_of(n->base.volume);
    if (n->chain.first != 0 && !n->chain.complete) {
        int rc = clusters_chain_measure(h, &n->chain, h->count, clusters_owner(n));
        if (rc < 0) {
            return rc;
        }
    }
    if (n->size == 0 && n->chain.first != 0 && n->reserved == 0) {
        volume_node_mark_dirty(&n->base); /* its entry names clusters that may soon go back */
    }
    if (clusters <= n->chain.count) {
        return 0;
    }
    if (clusters - n->chain.count > h->count) {
        return -ENOSPC;
    }
    return clusters_chain_extend(h, &n->chain, (uint32_t)(clusters - n->chain.count), CACHE_CHAIN,
                                 clusters_owner(n));
}

/* After a change of size: what the chain holds beyond it stays reserved only if it was. */
static void set_size(struct clusters_node *n, uint64_t size)
{
    struct clusters *h = clusters_of(n->base.volume);
    n->size = size;
    uint64_t used = clusters_for(h, size);
    n->reserved = n->chain.count > used ? n->chain.count - used : 0;
}

static void touched(struct clusters_node *n)
{
    struct volume *v = n->base.volume;
    n->modified = clusters_stamp_for(v, v->env->now(v->env), CLUSTERS_MODIFIED);
    n->attributes |= VOLUME_ARCHIVE;
    volume_node_mark_dirty(&n->base);
}

/* Zeros or data over a range of allocated clusters. buffer NULL: zeros. */
static int put_range(struct clusters_node *n, uint64_t offset, const uint8_t *buffer,
                     uint64_t bytes)
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
static int fill_gap(struct clusters_node *n, uint64_t to)
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

int clusters_fill(struct clusters_node *n)
{
    return clusters_of(n->base.volume)->valid_lengths ? 0 : fill_gap(n, n->size);
}

/* In sync mode what was added reaches the device before the size is another, so that a failure
 * leaves it as it was. */
static int commit_growth(struct clusters_node *n)
{
    struct volume *v = n->base.volume;
    return v->sync == VOLUME_SYNC ? cache_commit(v->cache, CACHE_CHAIN, true) : 0;
}

/* After a growth that failed: what was taken for it. */
static void give_back(struct clusters_node *n)
{
    struct clusters *h = clusters_of(n->base.volume);
    uint64_t keep = clusters_for(h, n->size) + n->reserved;
    if (n->chain.count > keep &&
        clusters_chain_cut(h, &n->chain, (uint32_t)keep, true, clusters_owner(n)) < 0) {
        h->volume->failed = true; /* they are lost: the volume must not be called clean */
    }
    n->valid = base_min(n->valid, n->size);
}

int clusters_write(struct volume_node *node, uint64_t offset, const void *buffer, size_t bytes,
                   size_t *done)
{
    struct clusters_node *n = clusters_node_of(node);
    struct clusters *h = clusters_of(node->volume);
    uint64_t end;
    *done = 0;
    if (bytes == 0) {
        return 0;
    }
    if (base_add_overflows(offset, bytes, &end) || end > h->file_max) {
        return -EFBIG;
    }
    int rc = h->ops->mark_dirty(h);
    if (rc < 0) {
        return rc;
    }
    bool grows = end > n->size;
    if (grows && (rc = want_clusters(n, clusters_for(h, end))) < 0) {
        return rc;
    }
    if (offset > n->valid) {
        rc = fill_gap(n, offset);
    }
    if (rc == 0) {
        rc = put_range(n, offset, buffer, bytes);
    }
    if (rc == 0 && grows) {
        rc = commit_growth(n);
    }
    if (rc < 0) { /* what was overwritten before the error stays */
        give_back(n);
        return rc;
    }
    n->valid = base_max(n->valid, end);
    set_size(n, base_max(n->size, end));
    touched(n);
    *done = bytes;
    return 0;
}

/* A larger size: clusters for it, and zeros where the format has no other way to say so: when the
 * entry is written (clusters_fill), which is now in sync mode, so that what was written by then is
 * written once. On failure all is as before. */
static int grow(struct clusters_node *n, uint64_t size)
{
    struct clusters *h = clusters_of(n->base.volume);
    int rc = want_clusters(n, clusters_for(h, size));
    if (rc < 0) {
        return rc;
    }
    if (!h->valid_lengths && h->volume->sync == VOLUME_SYNC) {
        rc = fill_gap(n, size);
    }
    if (rc == 0) {
        rc = commit_growth(n);
    }
    if (rc < 0) {
        give_back(n);
        return rc;
    }
    set_size(n, size);
    touched(n);
    return 0;
}

int clusters_resize(struct volume_node *node, uint64_t size)
{
    struct clusters_node *n = clusters_node_of(node);
    struct clusters *h = clusters_of(node->volume);
    if (size > h->file_max) {
        return -EFBIG;
    }
    int rc = h->ops->mark_dirty(h);
    if (rc < 0) {
        return rc;
    }
    if (size > n->size) {
        return grow(n, size);
    }
    if (size == n->size) {
        rc = clusters_drop_reserved(n);
        touched(n);
        return rc;
    }
    uint64_t keep = clusters_for(h, size);
    rc = clusters_chain_cut(h, &n->chain, (uint32_t)keep, false, clusters_owner(n));
    if (rc < 0) {
        return rc;
    }
    n->valid = base_min(n->valid, size);
    set_size(n, size);
    touched(n);
    /* Now, not with the other dirty nodes: the clusters become free once what is in the cache is on
     * the device. The epoch is asked for after the edit, which may have committed what was before
     * it. */
    rc = node->volume->driver->write_node(node);
    h->pending_epoch = cache_epoch(node->volume->cache);
    return rc;
}

int clusters_allocate(struct volume_node *node, uint64_t offset, uint64_t bytes, bool keep_size)
{
    struct clusters_node *n = clusters_node_of(node);
    struct clusters *h = clusters_of(node->volume);
    uint64_t end;
    if (bytes == 0) {
        return -EINVAL;
    }
    if (base_add_overflows(offset, bytes, &end) || end > h->file_max) {
        return -EFBIG;
    }
    if (end <= n->size) {
        return 0; /* exFAT has no holes */
    }
    int rc = h->ops->mark_dirty(h);
    if (rc < 0) {
        return rc;
    }
    if (!keep_size) {
        return grow(n, end);
    }
    rc = want_clusters(n, clusters_for(h, end));
    if (rc == 0 && (rc = commit_growth(n)) < 0) {
        give_back(n);
    }
    if (rc < 0) {
        return rc;
    }
    set_size(n, n->size);
    return node->handles == 0 ? clusters_pin(n) : 0;
}

int clusters_extents(struct volume_node *node, struct volume_extents *out)
{
    struct clusters_node *n = clusters_node_of(node);
    uint64_t offset = 0;
    uint32_t entries;
    if (n->region != 0) {
        return volume_extents_add(out, 0, n->region, n->size, true);
    }
    /* A directory's entry need not say its size. */
    int rc = node->kind == VOLUME_DIRECTORY ? clusters_dir_entries(n, &entries) : 0;
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
