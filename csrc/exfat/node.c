/* Nodes: a file or directory in memory, and its way back into its entry set. */
#include "exfat/exfat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int exfat_node_new(struct volume *v, struct exfat_node **out)
{
    struct exfat_node *n = calloc(1, sizeof *n);
    if (!n) {
        return -ENOMEM;
    }
    n->base.volume = v;
    exfat_chain_init(&n->chain, 0, false, 0);
    *out = n;
    return 0;
}

void exfat_node_destroy(struct exfat_node *n)
{
    if (n) {
        exfat_chain_free(&n->chain);
        if (n->names) {
            names_dir_delete(n->names);
        }
        free(n);
    }
}

uint64_t exfat_node_key(uint64_t entry_offset)
{
    return entry_offset >> EXFAT_ENTRY_SHIFT;
}

int exfat_node_enter(struct exfat_node *n, struct exfat_node *dir, enum volume_kind kind)
{
    struct volume *v = n->base.volume;
    uint64_t offset = 0;
    uint32_t piece;
    int rc = 0;
    if (dir) {
        rc = exfat_dir_find(dir, n->index, &offset, &piece);
    }
    if (rc == 0 && kind == VOLUME_DIRECTORY && !(n->names = names_dir_new(v->names))) {
        rc = -ENOMEM;
    }
    if (rc == 0) {
        rc = volume_node_enter(v, &n->base, dir ? &dir->base : NULL,
                               dir ? exfat_node_key(offset) : 1, kind);
    }
    return rc;
}

int exfat_node_from_set(struct exfat_node *dir, const struct exfat_set *set,
                        struct exfat_node **out)
{
    struct volume *v = dir->base.volume;
    uint64_t offset;
    uint32_t piece;
    int rc = exfat_dir_find(dir, set->index, &offset, &piece);
    if (rc < 0) {
        return rc;
    }
    struct volume_node *known = volume_node_find(v, exfat_node_key(offset));
    if (known) {
        *out = exfat_node_of(known);
        return 0;
    }
    struct exfat_node *n;
    if ((rc = exfat_set_validate(exfat_of(v), set, NULL)) < 0 || (rc = exfat_node_new(v, &n)) < 0) {
        return rc;
    }
    exfat_set_to_node(set, n);
    bool directory = (n->attributes & VOLUME_ATTR_DIRECTORY) != 0;
    rc = exfat_node_enter(n, dir, directory ? VOLUME_DIRECTORY : VOLUME_FILE);
    if (rc < 0) {
        exfat_node_destroy(n);
        return rc;
    }
    *out = n;
    return 0;
}

int exfat_write_node(struct volume_node *node)
{
    struct exfat_node *n = exfat_node_of(node);
    struct exfat_set set;
    int rc = 0;
    if (!exfat_is_root(n) && !node->unlinked) {
        rc = exfat_set_read(exfat_node_of(node->parent), n->index, &set);
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

int exfat_drop_reserved(struct exfat_node *n)
{
    struct exfat *x = exfat_of(n->base.volume);
    if (n->reserved == 0) {
        return 0;
    }
    n->reserved = 0;
    /* No entry counts them as part of the file, but a FAT chain on the device may lead there:
     * pending, as all that was in use. */
    return exfat_chain_cut(x, &n->chain, (uint32_t)exfat_clusters_for(x, n->size), false,
                           exfat_owner(n));
}

/* Reserved clusters of a file that nobody has open: the node stays in memory for them. */
int exfat_pin(struct exfat_node *n)
{
    struct exfat *x = exfat_of(n->base.volume);
    if (n->pinned) {
        return 0;
    }
    if (x->pins_n == x->pins_cap) {
        size_t cap = x->pins_cap ? x->pins_cap * 2 : 8;
        struct exfat_node **v = realloc(x->pins, cap * sizeof *v);
        if (!v) {
            return -ENOMEM;
        }
        x->pins = v;
        x->pins_cap = cap;
    }
    x->pins[x->pins_n++] = n;
    n->pinned = true;
    volume_node_ref(&n->base);
    return 0;
}

int exfat_unpin(struct exfat_node *n)
{
    struct exfat *x = exfat_of(n->base.volume);
    if (!n->pinned) {
        return 0;
    }
    for (size_t i = 0; i < x->pins_n; i++) {
        if (x->pins[i] == n) {
            x->pins[i] = x->pins[--x->pins_n];
            break;
        }
    }
    n->pinned = false;
    int rc = n->base.handles == 0 ? exfat_drop_reserved(n) : 0;
    int unref = volume_node_unref(&n->base);
    return rc < 0 ? rc : unref;
}

int exfat_release(struct volume_node *node)
{
    struct exfat_node *n = exfat_node_of(node);
    struct volume *v = node->volume;
    int rc = 0;
    if (v->writable && !v->closed && v->private) {
        if (node->unlinked && n->chain.first != 0) {
            rc = exfat_chain_cut(exfat_of(v), &n->chain, 0, false, exfat_owner(n));
        } else if (n->reserved != 0) {
            rc = exfat_drop_reserved(n);
        }
    }
    exfat_node_destroy(n);
    return rc;
}

void exfat_stat_node(const struct exfat_node *n, uint64_t entry_offset, struct volume_stat *out)
{
    const struct volume *v = n->base.volume;
    struct exfat *x = exfat_of(v);
    memset(out, 0, sizeof *out);
    out->kind = exfat_is_root(n) || (n->attributes & VOLUME_ATTR_DIRECTORY) ? VOLUME_DIRECTORY
                                                                            : VOLUME_FILE;
    out->attributes = n->attributes;
    out->nlink = n->base.unlinked ? 0 : 1;
    out->inode = n->base.key;
    out->size = n->size;
    out->valid_size = n->valid;
    out->allocated = (exfat_clusters_for(x, n->size) + n->reserved) << x->g.cluster_shift;
    out->created = exfat_stamp_ns(&n->created, v->utc_offset, &out->created_offset);
    out->modified = exfat_stamp_ns(&n->modified, v->utc_offset, &out->modified_offset);
    out->accessed = exfat_stamp_ns(&n->accessed, v->utc_offset, &out->accessed_offset);
    out->first_cluster = n->chain.first;
    out->contiguous = n->chain.contiguous && n->size != 0;
    out->entry_offset = entry_offset;
    out->entry_count = n->entries;
}

int exfat_stat(struct volume_node *node, struct volume_stat *out)
{
    struct exfat_node *n = exfat_node_of(node);
    uint64_t offset = 0;
    uint32_t piece, entries;
    int rc = 0;
    if (exfat_is_root(n)) {
        rc = exfat_dir_entries(n, &entries);
        exfat_stat_node(n, 0, out);
        out->attributes |= VOLUME_ATTR_DIRECTORY;
        /* The root directory has no time stamps. */
        out->created = out->modified = out->accessed = 0;
        return rc;
    }
    if (!node->unlinked) {
        rc = exfat_dir_find(exfat_node_of(node->parent), n->index, &offset, &piece);
    }
    exfat_stat_node(n, offset, out);
    return rc;
}

int exfat_setattr(struct volume_node *node, const struct volume_setattr *how)
{
    struct exfat_node *n = exfat_node_of(node);
    struct volume *v = node->volume;
    if (exfat_is_root(n)) {
        return -EPERM; /* no entry to write to */
    }
    int rc = exfat_mark_dirty(exfat_of(v));
    if (rc < 0) {
        return rc;
    }
    if (how->mask & VOLUME_SET_CREATED) {
        n->created = exfat_stamp_make(how->created, v->utc_offset, false);
    }
    if (how->mask & VOLUME_SET_MODIFIED) {
        n->modified = exfat_stamp_make(how->modified, v->utc_offset, false);
    }
    if (how->mask & VOLUME_SET_ACCESSED) {
        n->accessed = exfat_stamp_make(how->accessed, v->utc_offset, true);
    }
    if (how->mask & VOLUME_SET_ATTRIBUTES) {
        uint32_t kept = n->attributes & ~(uint32_t)VOLUME_SETTABLE_ATTRIBUTES;
        n->attributes = (uint16_t)(kept | (how->attributes & VOLUME_SETTABLE_ATTRIBUTES));
    }
    return exfat_write_node(node);
}
