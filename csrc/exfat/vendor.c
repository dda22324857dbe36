/* Vendor extension and vendor allocation entries [7.8, 7.9], and any other benign secondary entry
 * of a set: read out with what their clusters hold, and written into another set. */
#include "exfat/exfat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Copies the clusters of one allocation into memory. */
static int read_allocation(struct exfat *x, const struct exfat_secondary *s, uint8_t **out)
{
    if (s->length > VOLUME_EXTRA_MAX) {
        return -EFBIG;
    }
    struct clusters_chain chain;
    clusters_chain_init(&chain, s->first_cluster, s->contiguous,
                        (uint32_t)clusters_for(&x->heap, s->length));
    uint8_t *data = malloc((size_t)s->length);
    int rc = data ? 0 : -ENOMEM;
    for (uint64_t done = 0; rc == 0 && done < s->length;) {
        uint32_t cluster;
        uint64_t piece;
        rc = clusters_chain_find(&x->heap, &chain, done >> x->g.cluster_shift, &cluster, &piece,
                                 "vendor allocation");
        if (rc == -ERANGE) {
            rc = base_damage(x->heap.volume->error, "vendor allocation", 0, "DataLength", s->length,
                             (uint64_t)chain.count << x->g.cluster_shift,
                             "the cluster chain is shorter than its data");
        }
        if (rc == 0) {
            uint64_t here = base_min(s->length - done, piece << x->g.cluster_shift);
            rc = cache_read_data(x->heap.volume->cache, clusters_offset(&x->heap, cluster),
                                 data + done, (size_t)here);
            done += here;
        }
    }
    clusters_chain_free(&chain);
    if (rc < 0) {
        free(data);
        data = NULL;
    }
    *out = data;
    return rc;
}

int exfat_get_extras(struct volume_node *node, struct volume_extras *out)
{
    struct clusters_node *n = clusters_node_of(node);
    struct exfat *x = exfat_of(node->volume);
    struct exfat_name name;
    struct exfat_set set;
    int rc = exfat_set_read(clusters_node_of(node->parent), n->index, &set);
    if (rc == 0) {
        rc = exfat_set_validate(x, &set, &name);
    }
    if (rc < 0) {
        return rc;
    }
    uint32_t cursor = 0;
    struct exfat_secondary s;
    bool more = exfat_set_next_allocation(&set, &cursor, &s);
    for (uint32_t i = 2 + exfat_name_entries(name.length); rc == 0 && i < set.count; i++) {
        uint8_t *data = NULL;
        uint64_t length = 0;
        if (more && s.index == i) {
            length = s.length;
            rc = read_allocation(x, &s, &data);
            more = exfat_set_next_allocation(&set, &cursor, &s);
        }
        if (rc == 0) {
            rc = volume_extras_add(out, set.entry + (size_t)i * EXFAT_ENTRY_SIZE, data, length);
        }
    }
    return rc;
}

/* Clusters with data for one entry. */
static int write_allocation(struct exfat *x, const struct volume_extra *extra, uint8_t *entry)
{
    struct clusters_chain chain;
    clusters_chain_init(&chain, 0, false, 0);
    int rc =
        clusters_chain_extend(&x->heap, &chain, (uint32_t)clusters_for(&x->heap, extra->length),
                              CACHE_CHAIN, "vendor allocation");
    for (uint64_t done = 0; rc == 0 && done < extra->length;) {
        uint32_t cluster;
        uint64_t piece;
        rc = clusters_chain_find(&x->heap, &chain, done >> x->g.cluster_shift, &cluster, &piece,
                                 "vendor allocation");
        if (rc == 0) {
            uint64_t here = base_min(extra->length - done, piece << x->g.cluster_shift);
            rc = cache_write_data(x->heap.volume->cache, clusters_offset(&x->heap, cluster),
                                  extra->data + done, (size_t)here);
            done += here;
        }
    }
    if (rc < 0 && chain.count > 0) {
        (void)clusters_chain_cut(&x->heap, &chain, 0, true, "vendor allocation");
    }
    if (rc == 0) {
        entry[1] =
            (uint8_t)(EXFAT_ALLOCATION_POSSIBLE | (chain.contiguous ? EXFAT_NO_FAT_CHAIN : 0));
        base_put_le32(entry + EXFAT_ENTRY_FIRST_CLUSTER, chain.first);
        base_put_le64(entry + EXFAT_ENTRY_DATA_LENGTH, extra->length);
    }
    clusters_chain_free(&chain);
    return rc;
}

static int append_extra(struct exfat *x, struct exfat_set *set, const struct volume_extra *extra)
{
    uint8_t *entry = set->entry + (size_t)set->count * EXFAT_ENTRY_SIZE;
    uint8_t benign = EXFAT_TYPE_IN_USE | EXFAT_TYPE_SECONDARY | EXFAT_TYPE_BENIGN;
    if ((extra->entry[0] & benign) != benign) {
        return base_bad_argument(x->heap.volume->error, "entries",
                                 "an entry is not a benign secondary one");
    }
    if (set->count == EXFAT_SET_MAX) {
        return base_bad_argument(x->heap.volume->error, "entries", "more than a set can hold");
    }
    memcpy(entry, extra->entry, EXFAT_ENTRY_SIZE);
    if (extra->length > 0) {
        int rc = write_allocation(x, extra, entry);
        if (rc < 0) {
            return rc;
        }
    } else if ((entry[1] & EXFAT_ALLOCATION_POSSIBLE) != 0) {
        entry[1] = EXFAT_ALLOCATION_POSSIBLE; /* the clusters it names are another file's */
        memset(entry + EXFAT_ENTRY_FIRST_CLUSTER, 0, EXFAT_ENTRY_SIZE - EXFAT_ENTRY_FIRST_CLUSTER);
    }
    set->count++;
    return 0;
}

int exfat_set_extras(struct volume_node *node, const struct volume_extras *in)
{
    struct clusters_node *n = clusters_node_of(node), *dir = clusters_node_of(node->parent);
    struct exfat *x = exfat_of(node->volume);
    struct exfat_name name;
    struct exfat_set old, set;
    int rc = exfat_set_read(dir, n->index, &old);
    if (rc < 0 || (rc = exfat_set_validate(x, &old, &name)) < 0 ||
        (rc = exfat_mark_dirty(&x->heap)) < 0) {
        return rc;
    }
    exfat_set_build(&set, &name, n);
    for (size_t i = 0; rc == 0 && i < in->n; i++) {
        rc = append_extra(x, &set, &in->v[i]);
    }
    set.entry[EXFAT_FILE_SECONDARY_COUNT] = (uint8_t)(set.count - 1);
    if (rc == 0 && set.count == old.count && exfat_set_in_one_sector(x, &old)) {
        set.dir = dir;
        set.index = old.index;
        rc = exfat_set_write(&set, CACHE_ENTRY);
    } else if (rc == 0) {
        rc = exfat_rename_by_copy(n, dir, &old, &set, &name, &name, NULL);
    }
    /* Whichever set is not on the disk now gives its clusters back. */
    int freed = exfat_free_allocations(x, rc == 0 ? &old : &set);
    if (rc == 0) {
        volume_node_mark_clean(node);
    }
    return rc < 0 ? rc : freed;
}
