/* From entry sets to nodes, and back. */
#include "exfat/exfat.h"

#include <errno.h>

int exfat_node_from_set(struct clusters_node *dir, const struct exfat_set *set,
                        struct clusters_node **out)
{
    struct volume *v = dir->base.volume;
    uint64_t offset;
    uint32_t piece;
    int rc = clusters_dir_find(dir, set->index, &offset, &piece);
    if (rc < 0) {
        return rc;
    }
    struct volume_node *known = volume_node_find(v, clusters_node_key(offset));
    if (known) {
        *out = clusters_node_of(known);
        return 0;
    }
    struct clusters_node *n;
    if ((rc = exfat_set_validate(exfat_of(v), set, NULL)) < 0 ||
        (rc = clusters_node_new(v, &n)) < 0) {
        return rc;
    }
    exfat_set_to_node(set, n);
    bool directory = (n->attributes & VOLUME_ATTR_DIRECTORY) != 0;
    rc = clusters_node_enter(n, dir, directory ? VOLUME_DIRECTORY : VOLUME_FILE);
    if (rc < 0) {
        clusters_node_destroy(n);
        return rc;
    }
    *out = n;
    return 0;
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

int exfat_setattr(struct volume_node *node, const struct volume_setattr *how)
{
    struct clusters_node *n = clusters_node_of(node);
    struct volume *v = node->volume;
    if (clusters_is_root(n)) {
        return -EPERM; /* no entry to write to */
    }
    int rc = exfat_mark_dirty(clusters_of(v));
    if (rc < 0) {
        return rc;
    }
    if (how->mask & VOLUME_SET_CREATED) {
        n->created = clusters_stamp_make(how->created, v->utc_offset, false);
    }
    if (how->mask & VOLUME_SET_MODIFIED) {
        n->modified = clusters_stamp_make(how->modified, v->utc_offset, false);
    }
    if (how->mask & VOLUME_SET_ACCESSED) {
        n->accessed = clusters_stamp_make(how->accessed, v->utc_offset, true);
    }
    if (how->mask & VOLUME_SET_ATTRIBUTES) {
        uint32_t kept = n->attributes & ~(uint32_t)VOLUME_SETTABLE_ATTRIBUTES;
        n->attributes = (uint16_t)(kept | (how->attributes & VOLUME_SETTABLE_ATTRIBUTES));
    }
    return exfat_write_node(node);
}
