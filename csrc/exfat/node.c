/* From entry sets to nodes, and back. */
#include "exfat/exfat.h"

static int load(const void *set, struct clusters_node *n)
{
    const struct exfat_set *s = set;
    int rc = exfat_set_validate(exfat_of(n->base.volume), s, NULL);
    if (rc == 0) {
        exfat_set_to_node(s, n);
    }
    return rc;
}

int exfat_node_from_set(struct clusters_node *dir, const struct exfat_set *set,
                        struct clusters_node **out)
{
    return clusters_node_get(dir, set->index, load, set, out);
}

int exfat_write_node(struct volume_node *node)
{
    struct clusters_node *n = clusters_node_of(node);
    struct exfat_set set;
    int rc = 0;
    if (!clusters_is_root(n) && !node->unlinked) {
        rc = exfat_set_read(clusters_node_of(node->parent), n->index, &set);
        if (rc == 0) {
            exfat_set_update(&set, n);
            rc = exfat_set_write(&set, CACHE_ENTRY);
        }
    }
    if (rc == 0) {
        volume_node_mark_clean(node);
    }
    return rc;
}
