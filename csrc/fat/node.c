/* From entry sets to nodes, and back. */
#include "fat/fat.h"

static int load(const void *set, struct clusters_node *n)
{
    return fat_set_to_node(set, n);
}

int fat_node_from_set(struct clusters_node *dir, const struct fat_set *set,
                      struct clusters_node **out)
{
    return clusters_node_get(dir, set->index, load, set, out);
}

int fat_write_node(struct volume_node *node)
{
    struct clusters_node *n = clusters_node_of(node);
    struct fat_set set;
    int rc = 0;
    if (!clusters_is_root(n) && !node->unlinked) {
        rc = clusters_fill(n);
        if (rc == 0) {
            rc = fat_set_read(clusters_node_of(node->parent), n->index, &set);
        }
        if (rc == 0) {
            fat_set_update(&set, n);
            /* Only the short entry says anything that changes. */
            uint32_t last = set.count - 1;
            rc = clusters_dir_write(set.dir, set.index + last, 1, fat_set_short(&set), CACHE_ENTRY);
        }
    }
    if (rc == 0) {
        volume_node_mark_clean(node);
    }
    return rc;
}
