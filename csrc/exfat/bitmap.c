/* Allocation bitmap [7.1] as a map of free clusters: read and changed through the cache, never
 * whole. */
#include "exfat/exfat.h"

#include <errno.h>

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
    int rc = clusters_chain_find(&x->heap, &b->chain, byte >> x->g.cluster_shift, &cluster, &piece,
                                 bitmap_name);
    if (rc == -ERANGE) {
        return base_damage(x->heap.volume->error, bitmap_name, 0, "DataLength", b->size,
                           (x->g.clusters + 7ull) / 8,
                           "the cluster chain of the bitmap is shorter than the bitmap");
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t in_cluster = byte & (x->heap.size - 1);
    uint64_t bytes = (piece << x->g.cluster_shift) - in_cluster;
    rc = cache_get(x->heap.volume->cache, clusters_offset(&x->heap, cluster) + in_cluster, ref);
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
void exfat_bitmap_read_ahead(struct clusters *h, uint32_t bit, uint32_t end, bool first)
{
    struct exfat *x = (struct exfat *)h;
    uint64_t byte = bit >> 3, wanted = (end - bit) / 8;
    uint32_t cluster;
    uint64_t piece;
    if ((first || (byte & (READ_AHEAD - 1)) == 0) && wanted > 4096 &&
        clusters_chain_find(&x->heap, &x->bitmap[0].chain, byte >> x->g.cluster_shift, &cluster,
                            &piece, bitmap_name) == 0) {
        uint64_t in_cluster = byte & (x->heap.size - 1);
        uint64_t left = READ_AHEAD - (byte & (READ_AHEAD - 1));
        left = base_min(base_min(left, wanted), (piece << x->g.cluster_shift) - in_cluster);
        cache_read_ahead(x->heap.volume->cache, clusters_offset(&x->heap, cluster) + in_cluster,
                         left);
    }
}

uint64_t exfat_bitmap_offset(struct clusters *h, uint32_t bit)
{
    struct exfat *x = (struct exfat *)h;
    uint32_t cluster;
    uint64_t piece, byte = bit >> 3;
    if (clusters_chain_find(h, &x->bitmap[0].chain, byte >> x->g.cluster_shift, &cluster, &piece,
                            bitmap_name) < 0) {
        return 0;
    }
    return clusters_offset(h, cluster) + (byte & (h->size - 1));
}

int exfat_bitmap_pin(struct clusters *h, uint32_t bit, struct clusters_part *out)
{
    int rc = pin((struct exfat *)h, 0, bit, &out->ref, &out->count);
    if (rc == 0) {
        out->bits = out->ref.data;
    }
    return rc;
}

static int set_copy(struct exfat *x, unsigned copy, uint32_t bit, uint32_t n, bool used,
                    uint32_t *changed)
{
    struct cache *c = x->heap.volume->cache;
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
            *changed += clusters_fill_bits(ref.data, bit & 7, here, used);
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

int exfat_bitmap_mark(struct clusters *h, uint32_t bit, uint32_t n, bool used, uint32_t *changed)
{
    struct exfat *x = (struct exfat *)h;
    uint32_t other;
    int rc = set_copy(x, 0, bit, n, used, changed);
    if (rc == 0 && x->bitmap[1].size != 0) {
        rc = set_copy(x, 1, bit, n, used, &other);
    }
    return rc;
}
