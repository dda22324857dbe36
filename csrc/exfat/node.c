/* From entry sets to nodes, and back. */
#include "exfat/exfat.h"

#include <errno.h>

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

/* A changed set whose parts that change are in two sectors goes to another place, since it could
 * not be changed at once. */
static int move_set(struct clusters_node *n, struct exfat_set *set)
{
    struct exfat_name name;
    struct exfat_set old = *set;
    int rc = exfat_set_name(exfat_of(n->base.volume), set, &name);
    if (rc < 0) {
        return rc;
    }
    exfat_set_update(set, n);
    return exfat_rename_by_copy(n, set->dir, &old, set, &name, &name, NULL);
}

int exfat_write_node(struct volume_node *node)
{
    struct clusters_node *n = clusters_node_of(node);
    struct exfat_set set;
    int rc = 0;
    if (!clusters_is_root(n) && !node->unlinked) {
        struct clusters_node *dir = clusters_node_of(node->parent);
        rc = exfat_set_read(dir, n->index, &set);
        bool moved = false;
        /* Not a directory's: it is written while it grows, for a set that is being placed in it. */
        if (rc == 0 && node->kind == VOLUME_FILE && exfat_set_is_torn(dir, n->index)) {
            rc = move_set(n, &set);
            moved = rc == 0;
            rc = rc == -ENOSPC ? exfat_set_read(dir, n->index, &set) : rc;
        }
        if (rc == 0 && !moved) {
            exfat_set_update(&set, n);
            rc = exfat_set_write(&set, CACHE_ENTRY);
        }
    }
    if (rc == 0) {
        volume_node_mark_clean(node);
    }
    return rc;
}
