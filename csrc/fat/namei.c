/* Names in directories: lookup, create, remove, rename, list. */
#include "base/unicode.h"
#include "fat/fat.h"

#include <errno.h>
#include <string.h>

/* A set before it has a place. */
struct fresh {
    struct fat_set set;
    uint64_t hash[2]; /* of the long and the short name; the second only when it differs */
    unsigned hashes;
};

static void hash_names(const struct fat *f, const struct fat_name *name, const uint8_t *entry,
                       struct fresh *out)
{
    struct fat_name other;
    fat_name_from_short(f, entry, false, &other);
    fat_name_finish(f, &other);
    out->hash[0] = name->hash;
    out->hash[1] = other.hash;
    out->hashes = other.hash != name->hash ? 2 : 1;
}

static void build(struct fresh *out, const struct fat_name *name, const uint8_t *short_name,
                  uint8_t case_bits, bool with_long, const struct clusters_node *n)
{
    fat_set_build(&out->set, name, short_name, case_bits, with_long, n);
    hash_names(fat_of(n->base.volume), name, fat_set_short(&out->set), out);
}

/* Elsewhere than on FAT32 the upper half of the first cluster is somebody's handle of extended
 * attributes, which stays with the file. */
static void keep_handle(const struct fat *f, const uint8_t *old_short, struct fresh *fresh)
{
    if (f->g.bits != 32) {
        memcpy(fat_set_short(&fresh->set) + FAT_DIR_FIRST_CLUSTER_HIGH,
               old_short + FAT_DIR_FIRST_CLUSTER_HIGH, 2);
    }
}

/* An existing set, with its names' hashes. */
static int read_back(struct clusters_node *n, struct fresh *out)
{
    struct fat_name name;
    int rc = fat_set_read(clusters_node_of(n->base.parent), n->index, &out->set);
    if (rc == 0) {
        fat_set_name(fat_of(n->base.volume), &out->set, &name);
        hash_names(fat_of(n->base.volume), &name, fat_set_short(&out->set), out);
    }
    return rc;
}

int fat_lookup(struct volume_node *dir, const char *s, size_t n, struct volume_node **out)
{
    struct clusters_node *d = clusters_node_of(dir), *found;
    struct fat_name name;
    struct fat_set set;
    int rc = fat_name_parse(fat_of(dir->volume), s, n, false, &name);
    if (rc == 0) {
        rc = fat_dir_lookup(d, &name, 1 + (name.length + FAT_LFN_UNITS - 1) / FAT_LFN_UNITS, &set);
    }
    if (rc == 0 && (rc = fat_node_from_set(d, &set, &found)) == 0) {
        *out = &found->base;
    }
    return rc;
}

/* Puts a set into a free place; hint and tables change only when it is in. */
static int insert(struct clusters_node *dir, struct fresh *fresh, const struct clusters_slot *slot)
{
    fresh->set.dir = dir;
    fresh->set.index = slot->index;
    names_dir_use(dir->names);
    int rc = fat_set_write(&fresh->set, CACHE_ENTRY);
    if (rc < 0) {
        names_uncertain(dir->names); /* the name may have reached the device */
        fat_set_revoke(&fresh->set, CACHE_ENTRY);
        clusters_slot_cancel(dir, slot);
    } else {
        clusters_set_written(dir, slot, fresh->set.count, fresh->hash, fresh->hashes);
    }
    names_dir_unuse(dir->names);
    return rc;
}

/* Whether a long entry lies right before this one. */
static int follows_long(struct clusters_node *dir, uint32_t index, bool *out)
{
    uint8_t entry[CLUSTERS_ENTRY_SIZE];
    int rc = index == 0 ? 0 : clusters_dir_read(dir, index - 1, 1, entry);
    *out = rc == 0 && index != 0 && entry[0] != FAT_DELETED && fat_is_long(entry);
    return rc;
}

/* A place for a set. One without long entries must not lie behind some that are nobody's: if their
 * checksum happens to fit they would become its name. There it gets its own. */
static int find_place(struct clusters_node *dir, struct fresh *fresh, const struct clusters_node *n,
                      struct clusters_slot *slot)
{
    bool behind_long = false;
    int rc = clusters_slot_find(dir, fresh->set.count, slot);
    if (rc < 0 || fresh->set.count > 1) {
        return rc;
    }
    rc = follows_long(dir, slot->index, &behind_long);
    if (rc < 0 || behind_long) {
        clusters_slot_cancel(dir, slot);
    }
    if (rc == 0 && behind_long) {
        struct fat_name name;
        uint8_t plain[CLUSTERS_ENTRY_SIZE];
        fat_set_name(fat_of(dir->base.volume), &fresh->set, &name);
        memcpy(plain, fat_set_short(&fresh->set), sizeof plain);
        build(fresh, &name, plain, 0, true, n);
        keep_handle(fat_of(dir->base.volume), plain, fresh);
        rc = clusters_slot_find(dir, fresh->set.count, slot);
    }
    return rc;
}

static int erase(const struct fresh *old, enum cache_tier tier)
{
    struct clusters_node *dir = old->set.dir;
    names_dir_use(dir->names);
    int rc = fat_set_erase(&old->set, tier);
    if (rc < 0) {
        names_uncertain(dir->names);
    } else {
        clusters_set_erased(dir, old->set.index, old->set.count, old->hash, old->hashes);
        fat_short_freed(dir, fat_set_short_const(&old->set));
    }
    names_dir_unuse(dir->names);
    return rc;
}

/* First cluster of a directory as its ".." entries have it: the root is 0. */
static uint32_t dot_cluster(const struct clusters_node *dir)
{
    return clusters_is_root(dir) ? 0 : dir->chain.first;
}

static void build_dot(const struct clusters_node *n, uint32_t cluster, const char *name,
                      uint8_t *out)
{
    struct clusters_node like = *n;
    struct fat_set set = {.dir = NULL, .count = 1};
    like.attributes = VOLUME_ATTR_DIRECTORY;
    like.chain.first = cluster;
    memcpy(set.entry, name, FAT_NAME_BYTES);
    fat_set_update(&set, &like);
    memcpy(out, set.entry, CLUSTERS_ENTRY_SIZE);
}

/* A new directory: one cluster with "." and "..", the rest zeros. */
static int first_cluster(struct clusters_node *n, const struct clusters_node *parent)
{
    struct volume *v = n->base.volume;
    struct clusters *h = clusters_of(v);
    uint8_t dots[2 * CLUSTERS_ENTRY_SIZE];
    int rc = clusters_chain_extend(h, &n->chain, 1, CACHE_CHAIN, "directory");
    if (rc < 0) {
        return rc;
    }
    uint64_t offset = clusters_offset(h, n->chain.first);
    build_dot(n, n->chain.first, ".          ", dots);
    build_dot(n, dot_cluster(parent), "..         ", dots + CLUSTERS_ENTRY_SIZE);
    rc = cache_write_fresh_zeros(v->cache, offset, h->size, DEVICE_DIRECTORY);
    if (rc == 0) {
        rc = cache_write(v->cache, offset, dots, sizeof dots, CACHE_CONTENT, DEVICE_DIRECTORY);
    }
    if (rc < 0) {
        (void)clusters_chain_cut(h, &n->chain, 0, true, "directory");
    }
    return rc;
}

/* The new node's set into its directory. */
static int create_set(struct clusters_node *d, struct clusters_node *n, const struct fat_name *name,
                      enum volume_kind kind, bool *written)
{
    uint8_t short_name[FAT_NAME_BYTES], case_bits;
    bool with_long;
    struct fresh fresh;
    struct clusters_slot slot;
    int rc = fat_short_make(d, name, short_name, &case_bits, &with_long);
    /* First what can fail without a trace, so that a full volume leaves everything as it was. */
    if (rc == 0 && kind == VOLUME_DIRECTORY) {
        rc = first_cluster(n, d);
    }
    if (rc < 0) {
        return rc;
    }
    build(&fresh, name, short_name, case_bits, with_long, n);
    if ((rc = find_place(d, &fresh, n, &slot)) < 0) {
        return rc;
    }
    n->index = slot.index;
    n->entries = fresh.set.count;
    *written = true;
    if ((rc = insert(d, &fresh, &slot)) < 0) {
        return rc;
    }
    if ((rc = clusters_node_enter(n, d, kind)) < 0) { /* no memory: the name goes again */
        fat_set_revoke(&fresh.set, CACHE_ENTRY);
        clusters_set_rolled_back(d);
    }
    return rc;
}

int fat_create(struct volume_node *dir, const char *s, size_t length, enum volume_kind kind,
               uint32_t attributes, struct volume_node **out)
{
    struct volume *v = dir->volume;
    struct fat *f = fat_of(v);
    struct clusters_node *d = clusters_node_of(dir), *n = NULL;
    struct fat_name name;
    int rc = fat_name_parse(f, s, length, true, &name);
    if (rc < 0 || (rc = fat_mark_dirty(&f->heap)) < 0 || (rc = clusters_node_new(v, &n)) < 0) {
        return rc;
    }
    names_expect(d->names, name.hash);
    n->attributes = (uint16_t)(attributes & VOLUME_SETTABLE_ATTRIBUTES);
    n->attributes |= kind == VOLUME_DIRECTORY ? VOLUME_ATTR_DIRECTORY : VOLUME_ARCHIVE;
    clusters_stamp_all(n);
    bool written = false;
    rc = create_set(d, n, &name, kind, &written);
    if (rc < 0) {
        if (n->chain.first != 0) { /* a set that failed may be on the device for a while */
            (void)clusters_chain_cut(&f->heap, &n->chain, 0, !written, "directory");
        }
        clusters_node_destroy(n);
        return rc;
    }
    *out = &n->base;
    clusters_touch_dir(d);
    return 0;
}

int fat_remove(struct volume_node *node)
{
    struct clusters_node *n = clusters_node_of(node);
    struct clusters *h = clusters_of(node->volume);
    struct fresh old;
    int rc = node->kind == VOLUME_DIRECTORY ? clusters_dir_check_empty(n) : 0;
    if (rc < 0 || (rc = read_back(n, &old)) < 0 ||
        (rc = clusters_chain_check_used(h, &n->chain, 0, clusters_owner(n))) < 0 ||
        (rc = fat_mark_dirty(h)) < 0) {
        return rc;
    }
    rc = erase(&old, CACHE_ENTRY);
    if (rc == 0 && node->kind == VOLUME_DIRECTORY) {
        fat_short_forget(fat_of(node->volume));
    }
    if (rc == 0) {
        node->unlinked = true;
        clusters_touch_dir(clusters_node_of(node->parent));
        rc = clusters_unpin(n);
    }
    return rc;
}

/* A directory that moves has another parent in its ".." entry. */
static int set_parent_entry(struct clusters_node *n, const struct clusters_node *parent)
{
    uint8_t entry[CLUSTERS_ENTRY_SIZE];
    int rc = clusters_dir_read(n, 1, 1, entry);
    if (rc < 0 || memcmp(entry, "..         ", FAT_NAME_BYTES) != 0) {
        return rc == -ERANGE ? 0 : rc;
    }
    uint32_t cluster = dot_cluster(parent);
    base_put_le16(entry + FAT_DIR_FIRST_CLUSTER_LOW, (uint16_t)cluster);
    if (fat_of(n->base.volume)->g.bits == 32) {
        base_put_le16(entry + FAT_DIR_FIRST_CLUSTER_HIGH, (uint16_t)(cluster >> 16));
    }
    return clusters_dir_write(n, 1, 1, entry, CACHE_PARENT);
}

/* The name that was replaced goes once the new one is on the device. */
static int erase_replaced(struct clusters_node *replaced, const struct fresh *gone)
{
    int rc = erase(gone, CACHE_REMOVAL);
    if (rc < 0) {
        return rc;
    }
    replaced->base.unlinked = true;
    volume_node_forget(&replaced->base);
    return 0;
}

static int rename_by_copy(struct clusters_node *n, struct clusters_node *dir,
                          const struct fresh *old, struct fresh *fresh,
                          struct clusters_node *replaced)
{
    struct clusters_slot slot;
    struct fresh gone;
    int rc = replaced ? read_back(replaced, &gone) : 0;
    if (rc < 0 || (rc = find_place(dir, fresh, n, &slot)) < 0 ||
        (rc = insert(dir, fresh, &slot)) < 0) {
        return rc;
    }
    bool moved_dir = n->base.kind == VOLUME_DIRECTORY && n->base.parent != &dir->base;
    if (moved_dir) {
        rc = set_parent_entry(n, dir);
    }
    if (rc == 0) {
        rc = erase(old, CACHE_REMOVAL);
        if (rc == 0 && replaced && (rc = erase_replaced(replaced, &gone)) < 0) {
            fat_set_restore(&old->set, CACHE_REMOVAL); /* its place is not free after all */
            clusters_set_rolled_back(old->set.dir);
        }
    }
    if (rc < 0) { /* as before: the new name goes */
        fat_set_revoke(&fresh->set, CACHE_ENTRY);
        clusters_set_rolled_back(dir);
        if (moved_dir) {
            (void)set_parent_entry(n, clusters_node_of(n->base.parent));
        }
        return rc;
    }
    int late = replaced ? clusters_unpin(replaced) : 0;
    rc = clusters_node_moved(n, dir, slot.index, fresh->set.count);
    return rc < 0 ? rc : late;
}

/* A set that lies within one sector is written all or not at all, so it may change its name in
 * place; but not behind long entries of nobody. */
static bool may_change_in_place(const struct fat *f, const struct fat_set *set)
{
    uint64_t first, size = (uint64_t)set->count * CLUSTERS_ENTRY_SIZE;
    uint32_t piece;
    bool behind_long = false;
    return clusters_dir_find(set->dir, set->index, &first, &piece) == 0 && piece >= set->count &&
           first / f->g.sector_size == (first + size - 1) / f->g.sector_size &&
           (set->count > 1 ||
            (follows_long(set->dir, set->index, &behind_long) == 0 && !behind_long));
}

static int rename_in_place(const struct fresh *old, struct fresh *fresh)
{
    struct clusters_node *dir = old->set.dir;
    fresh->set.dir = dir;
    fresh->set.index = old->set.index;
    names_dir_use(dir->names);
    int rc = fat_set_write(&fresh->set, CACHE_ENTRY);
    if (rc < 0) {
        names_uncertain(dir->names);
        fat_set_restore(&old->set, CACHE_ENTRY);
    } else {
        clusters_set_renamed(dir, old->set.index, old->hash, old->hashes, fresh->hash,
                             fresh->hashes);
        fat_short_freed(dir, fat_set_short_const(&old->set));
    }
    names_dir_unuse(dir->names);
    return rc;
}

int fat_rename(struct volume_node *node, struct volume_node *to, const char *s, size_t length,
               struct volume_node *replaced)
{
    struct clusters_node *n = clusters_node_of(node), *dir = clusters_node_of(to);
    struct clusters_node *from = clusters_node_of(node->parent);
    struct fat *f = fat_of(node->volume);
    bool other = replaced && replaced != node, with_long;
    uint8_t short_name[FAT_NAME_BYTES], case_bits;
    struct fat_name name;
    struct fresh old, fresh;
    int rc = fat_name_parse(f, s, length, true, &name);
    if (rc == 0 && other) {
        rc = clusters_check_replaced(replaced);
    }
    if (rc < 0 || (rc = read_back(n, &old)) < 0 ||
        (rc = fat_short_make(dir, &name, short_name, &case_bits, &with_long)) < 0 ||
        (rc = fat_mark_dirty(&f->heap)) < 0 || (rc = clusters_fill(n)) < 0) {
        return rc;
    }
    if (replaced == node && with_long) { /* of case only: the short name is its own already */
        memcpy(short_name, fat_set_short(&old.set), sizeof short_name);
    }
    build(&fresh, &name, short_name, case_bits, with_long, n);
    keep_handle(f, fat_set_short(&old.set), &fresh);
    if (!other && from == dir && fresh.set.count == old.set.count &&
        may_change_in_place(f, &old.set)) {
        rc = rename_in_place(&old, &fresh);
    } else {
        rc = rename_by_copy(n, dir, &old, &fresh, other ? clusters_node_of(replaced) : NULL);
    }
    if (rc == 0 && node->kind == VOLUME_DIRECTORY) { /* it has another key */
        fat_short_forget(f);
    }
    if (rc == 0) {
        volume_node_mark_clean(node); /* its fields went with the new set */
        clusters_touch_dir(dir);
        if (from != dir) {
            clusters_touch_dir(from);
        }
    }
    return rc;
}

int fat_name_of(struct volume_node *node, char *buffer, size_t cap)
{
    struct clusters_node *n = clusters_node_of(node);
    struct fat_name name;
    struct fat_set set;
    if (clusters_is_root(n)) {
        return 0;
    }
    int rc = fat_set_read(clusters_node_of(node->parent), n->index, &set);
    if (rc < 0) {
        return rc;
    }
    fat_set_name(fat_of(node->volume), &set, &name);
    return base_utf16_to_utf8(name.unit, name.length, buffer, cap);
}

/* One set into the list. A node that is in memory knows better than its entries. */
static int list_one(struct clusters_node *dir, uint32_t start, uint32_t count, const uint8_t *entry,
                    const struct fat_name *name, struct volume_list *list)
{
    struct volume *v = dir->base.volume;
    struct volume_stat st;
    char text[BASE_UTF8_MAX(FAT_NAME_MAX)];
    uint64_t offset;
    uint32_t piece;
    int n = base_utf16_to_utf8(name->unit, name->length, text, sizeof text);
    int rc = n < 0 ? n : clusters_dir_find(dir, start, &offset, &piece);
    if (rc < 0) {
        return rc;
    }
    struct volume_node *known = volume_node_find(v, clusters_node_key(offset));
    if (known) {
        rc = clusters_stat(known, &st);
        int unref = volume_node_unref(known);
        rc = rc < 0 ? rc : unref;
    } else {
        struct clusters_node plain = {.base = {.volume = v, .parent = &dir->base}};
        struct fat_set set = {.dir = dir, .index = start, .count = 1};
        memcpy(set.entry, entry, CLUSTERS_ENTRY_SIZE);
        plain.base.key = clusters_node_key(offset);
        plain.base.kind =
            entry[FAT_DIR_ATTRIBUTES] & VOLUME_ATTR_DIRECTORY ? VOLUME_DIRECTORY : VOLUME_FILE;
        rc = fat_set_to_node(&set, &plain);
        plain.entries = count;
        uint32_t entries;
        if (rc == 0 && plain.base.kind == VOLUME_DIRECTORY) {
            rc = clusters_dir_entries(&plain, &entries); /* its size */
        }
        clusters_stat_node(&plain, offset, &st);
        clusters_chain_free(&plain.chain);
    }
    if (rc == -BASE_ECORRUPT) { /* the others are listed all the same */
        volume_list_damaged(list, v->error);
        return 0;
    }
    return rc < 0 ? rc : volume_list_add(list, &st, text, (size_t)n);
}

int fat_list(struct volume_node *dir, uint64_t *cursor, struct volume_list *list, bool *end)
{
    struct clusters_node *d = clusters_node_of(dir);
    const struct fat *f = fat_of(dir->volume);
    struct clusters_walk w;
    struct fat_collector c;
    const uint8_t *entry;
    fat_collect_reset(&c);
    *end = false;
    int rc = clusters_walk_begin(&w, d, (uint32_t)base_min(*cursor, UINT32_MAX));
    while (rc >= 0 && list->n < list->limit) {
        if ((rc = clusters_walk_next(&w, &entry)) <= 0 || entry[0] == 0) {
            *end = rc >= 0;
            break;
        }
        uint32_t start, count;
        if (entry[0] == FAT_DELETED) {
            fat_collect_reset(&c);
        } else if (fat_collect(f, &c, w.index - 1, entry, &start, &count)) {
            uint8_t copy[CLUSTERS_ENTRY_SIZE];
            memcpy(copy, entry, sizeof copy);
            rc = list_one(d, start, count, copy, &c.name, list);
        }
        *cursor = w.index;
    }
    clusters_walk_end(&w);
    return rc < 0 ? rc : 0;
}
