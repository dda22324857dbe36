/* Nodes: a file or directory in memory. */
#include "base/grow.h"
#include "clusters/clusters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *clusters_owner(const struct clusters_node *n)
{
    if (clusters_is_root(n)) {
        return "root directory";
    }
    return n->base.kind == VOLUME_DIRECTORY ? "directory" : "file";
}

int clusters_node_new(struct volume *v, struct clusters_node **out)
{
    struct clusters_node *n = malloc(sizeof *n); /* calloc would pass by what was freed last */
    if (!n) {
        return -ENOMEM;
    }
    memset(n, 0, sizeof *n);
    n->base.volume = v;
    clusters_chain_init(&n->chain, 0, false, 0);
    *out = n;
    return 0;
}

void clusters_node_destroy(struct clusters_node *n)
{
    if (n) {
        clusters_chain_free(&n->chain);
        if (n->names) {
            names_dir_delete(n->names);
        }
        free(n);
    }
}

uint64_t clusters_node_key(uint64_t entry_offset)
{
    return entry_offset >> CLUSTERS_ENTRY_SHIFT;
}

int clusters_check_unused(struct volume *v, uint64_t entry_offset)
{
    if (!base_map_get(&v->nodes, clusters_node_key(entry_offset))) {
        return 0;
    }
    return base_damage(v->error, "directory", entry_offset, "EntryType", 0, 0,
                       "the place of a file in use has become free: clusters are shared");
}

/* dir and where its set begins; NULL: the root. */
static int enter_at(struct clusters_node *n, struct clusters_node *dir, uint64_t offset,
                    enum volume_kind kind)
{
    struct volume *v = n->base.volume;
    int rc = dir ? clusters_check_unused(v, offset) : 0;
    if (rc == 0 && kind == VOLUME_DIRECTORY && !(n->names = names_dir_new(v->names))) {
        rc = -ENOMEM;
    }
    if (rc == 0) {
        rc = volume_node_enter(v, &n->base, dir ? &dir->base : NULL,
                               dir ? clusters_node_key(offset) : 1, kind);
    }
    return rc;
}

int clusters_node_enter(struct clusters_node *n, struct clusters_node *dir, enum volume_kind kind)
{
    uint64_t offset = 0;
    uint32_t piece;
    int rc = dir ? clusters_dir_find(dir, n->index, &offset, &piece) : 0;
    return rc < 0 ? rc : enter_at(n, dir, offset, kind);
}

void clusters_stamp_all(struct clusters_node *n)
{
    struct volume *v = n->base.volume;
    int64_t now = v->env->now(v->env);
    n->created = clusters_stamp_for(v, now, CLUSTERS_CREATED);
    n->modified = clusters_stamp_for(v, now, CLUSTERS_MODIFIED);
    n->accessed = clusters_stamp_for(v, now, CLUSTERS_ACCESSED);
}

void clusters_touch_dir(struct clusters_node *dir)
{
    struct volume *v = dir->base.volume;
    if (!clusters_is_root(dir)) {
        dir->modified = clusters_stamp_for(v, v->env->now(v->env), CLUSTERS_MODIFIED);
        volume_node_mark_touched(&dir->base);
    }
}

/* A directory whose clusters are those of one above it would be a loop. */
static int check_loop(const struct clusters_node *n, const struct clusters_node *dir)
{
    for (const struct volume_node *up = &dir->base; n->chain.first != 0 && up; up = up->parent) {
        const struct clusters_node *above = (const struct clusters_node *)up;
        if (above->chain.first == n->chain.first) {
            uint64_t offset = clusters_dir_offset((struct clusters_node *)dir, n->index);
            return base_damage(n->base.volume->error, "directory", offset, "FirstCluster",
                               n->chain.first, 0, "a directory that contains itself");
        }
    }
    return 0;
}

int clusters_node_get(struct clusters_node *dir, uint32_t index,
                      int (*load)(const void *set, struct clusters_node *n), const void *set,
                      struct clusters_node **out)
{
    struct volume *v = dir->base.volume;
    uint64_t offset;
    uint32_t piece;
    int rc = clusters_dir_find(dir, index, &offset, &piece);
    if (rc < 0) {
        return rc;
    }
    struct volume_node *known = volume_node_find(v, clusters_node_key(offset));
    if (known) {
        *out = clusters_node_of(known);
        return 0;
    }
    struct clusters_node *n;
    if ((rc = clusters_node_new(v, &n)) < 0) {
        return rc;
    }
    rc = load(set, n);
    bool directory = (n->attributes & VOLUME_ATTR_DIRECTORY) != 0;
    if (rc == 0 && directory) {
        rc = check_loop(n, dir);
    }
    if (rc == 0) {
        rc = enter_at(n, dir, offset, directory ? VOLUME_DIRECTORY : VOLUME_FILE);
    }
    if (rc < 0) {
        clusters_node_destroy(n);
        return rc;
    }
    *out = n;
    return 0;
}

int clusters_node_moved(struct clusters_node *n, struct clusters_node *dir, uint32_t index,
                        uint32_t entries)
{
    uint64_t offset;
    uint32_t piece;
    int rc = clusters_dir_find(dir, index, &offset, &piece);
    if (rc < 0) {
        return rc;
    }
    n->index = index;
    n->entries = entries;
    volume_node_set_parent(&n->base, &dir->base);
    return volume_node_rekey(&n->base, clusters_node_key(offset));
}

int clusters_check_replaced(struct volume_node *replaced)
{
    struct clusters_node *gone = clusters_node_of(replaced);
    int rc = replaced->kind == VOLUME_DIRECTORY ? clusters_dir_check_empty(gone) : 0;
    return rc < 0 ? rc
                  : clusters_chain_check_used(clusters_of(replaced->volume), &gone->chain, 0,
                                              clusters_owner(gone));
}

int clusters_setattr(struct volume_node *node, const struct volume_setattr *how)
{
    struct clusters_node *n = clusters_node_of(node);
    struct volume *v = node->volume;
    if (clusters_is_root(n)) {
        return -EPERM; /* no entry to write to */
    }
    int rc = clusters_of(v)->ops->mark_dirty(clusters_of(v));
    if (rc < 0) {
        return rc;
    }
    if (how->mask & VOLUME_SET_CREATED) {
        n->created = clusters_stamp_for(v, how->created, CLUSTERS_CREATED);
    }
    if (how->mask & VOLUME_SET_MODIFIED) {
        n->modified = clusters_stamp_for(v, how->modified, CLUSTERS_MODIFIED);
    }
    if (how->mask & VOLUME_SET_ACCESSED) {
        n->accessed = clusters_stamp_for(v, how->accessed, CLUSTERS_ACCESSED);
    }
    if (how->mask & VOLUME_SET_ATTRIBUTES) {
        uint32_t kept = n->attributes & ~(uint32_t)VOLUME_SETTABLE_ATTRIBUTES;
        n->attributes = (uint16_t)(kept | (how->attributes & VOLUME_SETTABLE_ATTRIBUTES));
    }
    return v->driver->write_node(node);
}

int clusters_drop_reserved(struct clusters_node *n)
{
    struct clusters *h = clusters_of(n->base.volume);
    if (n->reserved == 0) {
        return 0;
    }
    n->reserved = 0;
    /* No entry counts them as part of the file, but a FAT chain on the device may lead there:
     * pending, as all that was in use. */
    return clusters_chain_cut(h, &n->chain, (uint32_t)clusters_for(h, n->size), false,
                              clusters_owner(n));
}

/* Reserved clusters of a file that nobody has open: the node stays in memory for them. */
int clusters_pin(struct clusters_node *n)
{
    struct clusters *h = clusters_of(n->base.volume);
    if (n->pinned) {
        return 0;
    }
    struct clusters_node **v = base_grow(h->pins, h->pins_n, 1, &h->pins_cap, 8, sizeof *v);
    if (!v) {
        return -ENOMEM;
    }
    h->pins = v;
    h->pins[h->pins_n++] = n;
    n->pinned = true;
    volume_node_ref(&n->base);
    return 0;
}

int clusters_unpin(struct clusters_node *n)
{
    struct clusters *h = clusters_of(n->base.volume);
    if (!n->pinned) {
        return 0;
    }
    for (size_t i = 0; i < h->pins_n; i++) {
        if (h->pins[i] == n) {
            h->pins[i] = h->pins[--h->pins_n];
            break;
        }
    }
    n->pinned = false;
    int rc = n->base.handles == 0 ? clusters_drop_reserved(n) : 0;
    int unref = volume_node_unref(&n->base);
    return rc < 0 ? rc : unref;
}

int clusters_release(struct volume_node *node)
{
    struct clusters_node *n = clusters_node_of(node);
    struct volume *v = node->volume;
    int rc = 0;
    if (v->writable && !v->closed && v->private) {
        if (node->unlinked && n->chain.first != 0) {
            rc = clusters_chain_cut(clusters_of(v), &n->chain, 0, false, clusters_owner(n));
        } else if (n->reserved != 0) {
            rc = clusters_drop_reserved(n);
        }
    }
    clusters_node_destroy(n);
    return rc;
}

void clusters_stat_node(const struct clusters_node *n, uint64_t entry_offset,
                        struct volume_stat *out)
{
    const struct volume *v = n->base.volume;
    struct clusters *h = clusters_of(v);
    memset(out, 0, sizeof *out);
    out->kind = clusters_is_root(n) || (n->attributes & VOLUME_ATTR_DIRECTORY) ? VOLUME_DIRECTORY
                                                                               : VOLUME_FILE;
    out->attributes = n->attributes;
    out->nlink = n->base.unlinked ? 0 : 1;
    out->inode = n->base.key;
    out->size = n->size;
    out->valid_size = n->valid;
    out->allocated = (clusters_for(h, n->size) + n->reserved) << h->shift;
    out->created = clusters_stamp_ns(&n->created, &v->zone, &out->created_offset);
    out->modified = clusters_stamp_ns(&n->modified, &v->zone, &out->modified_offset);
    out->accessed = clusters_stamp_ns(&n->accessed, &v->zone, &out->accessed_offset);
    out->first_cluster = n->chain.first;
    out->contiguous = n->chain.contiguous && n->size != 0;
    out->entry_offset = entry_offset;
    out->entry_count = n->entries;
}

int clusters_stat(struct volume_node *node, struct volume_stat *out)
{
    struct clusters_node *n = clusters_node_of(node);
    uint64_t offset = 0;
    uint32_t entries;
    int rc = 0;
    if (clusters_is_root(n)) {
        rc = clusters_dir_entries(n, &entries);
        clusters_stat_node(n, 0, out);
        out->attributes |= VOLUME_ATTR_DIRECTORY;
        /* The root directory has no time stamps. */
        out->created = out->modified = out->accessed = 0;
        return rc;
    }
    if (!node->unlinked) {
        offset = node->key << CLUSTERS_ENTRY_SHIFT;
    }
    if (node->kind == VOLUME_DIRECTORY) {
        rc = clusters_dir_entries(n, &entries); /* where its entry does not say the size */
    }
    clusters_stat_node(n, offset, out);
    return rc;
}
