/* Names in directories: lookup, create, remove, rename, list. */
#include "base/unicode.h"
#include "exfat/exfat.h"

#include <errno.h>
#include <string.h>

static uint32_t entries_of(const struct exfat_name *name)
{
    return 2 + exfat_name_entries(name->length);
}

int exfat_lookup(struct volume_node *dir, const char *s, size_t n, struct volume_node **out)
{
    struct clusters_node *d = clusters_node_of(dir), *found;
    struct exfat_name name;
    struct exfat_set set;
    int rc = exfat_name_parse(exfat_of(dir->volume), s, n, false, &name);
    if (rc == 0) {
        rc = exfat_dir_lookup(d, &name, entries_of(&name), &set);
    }
    if (rc == 0 && (rc = exfat_node_from_set(d, &set, &found)) == 0) {
        *out = &found->base;
    }
    return rc;
}

/* Whether the File entry and the Stream Extension of a set at index are in two sectors. What
 * changes in the life of a file is in these two, and a power cut may come between the sectors. */
bool exfat_set_is_torn(struct clusters_node *dir, uint32_t index)
{
    struct exfat *x = exfat_of(dir->base.volume);
    uint64_t offset;
    uint32_t piece;
    uint32_t sector = 1u << x->g.sector_shift;
    return clusters_dir_find(dir, index, &offset, &piece) == 0 &&
           (offset & (sector - 1)) == sector - EXFAT_ENTRY_SIZE;
}

/* Room matters more in the second half of the largest directory: there sets lie side by side. */
enum { PACKED_FROM = (int)(EXFAT_DIRECTORY_MAX / EXFAT_ENTRY_SIZE / 2) };

/* A place for a set, one entry further where it would be torn and there is room for that. */
static int find_place(struct clusters_node *dir, uint32_t need, struct clusters_slot *slot)
{
    int rc = clusters_slot_find(dir, need, slot);
    if (rc == 0 && slot->run > need && slot->index < PACKED_FROM &&
        exfat_set_is_torn(dir, slot->index)) {
        slot->skip = 1;
    }
    return rc;
}

/* An entry that no set will begin with must not be the end of the directory. */
static int mark_passed(struct clusters_node *dir, uint32_t index)
{
    uint8_t entry[EXFAT_ENTRY_SIZE];
    int rc = clusters_dir_read(dir, index, 1, entry);
    if (rc < 0 || entry[0] != EXFAT_TYPE_END) {
        return rc;
    }
    entry[0] = EXFAT_TYPE_FILE & ~EXFAT_TYPE_IN_USE;
    return clusters_dir_write(dir, index, 1, entry, CACHE_ENTRY);
}

/* The entry before the set, when it is passed over; and the one behind it where the next set would
 * be torn: now, in the sector that is written anyway. */
static int mark_around(struct clusters_node *dir, const struct clusters_slot *slot, uint32_t count)
{
    uint32_t behind = clusters_slot_at(slot) + count;
    int rc = slot->skip == 0 ? 0 : mark_passed(dir, slot->index);
    if (rc == 0 && slot->at_tail && slot->run > slot->skip + count && behind < PACKED_FROM &&
        exfat_set_is_torn(dir, behind)) {
        rc = mark_passed(dir, behind);
    }
    return rc;
}

/* Puts a built set into a free place of dir; the hint and the tables change only when the set is
 * in. */
static int insert_set(struct clusters_node *dir, struct exfat_set *set,
                      const struct exfat_name *name, const struct clusters_slot *slot)
{
    set->dir = dir;
    set->index = clusters_slot_at(slot);
    names_dir_use(dir->names);
    int rc = mark_around(dir, slot, set->count);
    if (rc == 0) {
        rc = exfat_set_write(set, CACHE_ENTRY);
    }
    if (rc < 0) {
        names_uncertain(dir->names); /* the name may have reached the device */
        exfat_set_revoke(set, CACHE_ENTRY);
        clusters_slot_cancel(dir, slot);
    } else {
        clusters_set_written(dir, slot, set->count, &name->hash, 1);
    }
    names_dir_unuse(dir->names);
    return rc;
}

/* A new directory has one zeroed cluster. */
static int first_cluster(struct clusters_node *n)
{
    struct volume *v = n->base.volume;
    struct exfat *x = exfat_of(v);
    int rc = clusters_chain_extend(&x->heap, &n->chain, 1, CACHE_CHAIN, "directory");
    if (rc < 0) {
        return rc;
    }
    rc = clusters_dir_zero(n, 0, 1);
    if (rc < 0) {
        (void)clusters_chain_cut(&x->heap, &n->chain, 0, true, "directory");
        return rc;
    }
    n->size = n->valid = x->heap.size;
    return 0;
}

int exfat_create(struct volume_node *dir, const char *s, size_t length, enum volume_kind kind,
                 uint32_t attributes, struct volume_node **out)
{
    struct volume *v = dir->volume;
    struct exfat *x = exfat_of(v);
    struct clusters_node *d = clusters_node_of(dir), *n = NULL;
    struct exfat_name name;
    struct exfat_set set;
    struct clusters_slot slot;
    bool written = false;
    int rc = exfat_name_parse(x, s, length, true, &name);
    if (rc < 0 || (rc = exfat_mark_dirty(&x->heap)) < 0 || (rc = clusters_node_new(v, &n)) < 0) {
        return rc;
    }
    names_expect(d->names, name.hash);
    n->attributes = (uint16_t)(attributes & VOLUME_SETTABLE_ATTRIBUTES);
    n->attributes |= kind == VOLUME_DIRECTORY ? VOLUME_ATTR_DIRECTORY : VOLUME_ARCHIVE;
    clusters_stamp_all(n);
    /* First what can fail without a trace, so that a full volume leaves everything as it was. */
    if ((kind == VOLUME_DIRECTORY && (rc = first_cluster(n)) < 0) ||
        (rc = find_place(d, entries_of(&name), &slot)) < 0) {
        goto out;
    }
    n->index = clusters_slot_at(&slot);
    n->entries = entries_of(&name);
    exfat_set_build(&set, &name, n);
    written = true;
    if ((rc = insert_set(d, &set, &name, &slot)) < 0) {
        goto out;
    }
    if ((rc = clusters_node_enter(n, d, kind)) < 0) { /* no memory: the name goes again */
        exfat_set_revoke(&set, CACHE_ENTRY);
        clusters_set_rolled_back(d);
        goto out;
    }
    *out = &n->base;
    return exfat_set_touch_dir(d, 2);
out:
    if (n->chain.first != 0) { /* a set that failed may be on the device for a while */
        (void)clusters_chain_cut(&x->heap, &n->chain, 0, !written, "directory");
    }
    clusters_node_destroy(n);
    return rc;
}

/* Clusters of benign secondary entries go with the set that owns them [8.2]. */
int exfat_free_allocations(struct exfat *x, const struct exfat_set *set)
{
    struct exfat_secondary s;
    uint32_t cursor = 0;
    int rc = 0;
    while (rc == 0 && exfat_set_next_allocation(set, &cursor, &s)) {
        struct clusters_chain c;
        uint32_t count = (uint32_t)clusters_for(&x->heap, s.length);
        clusters_chain_init(&c, s.first_cluster, s.contiguous, count);
        rc = clusters_chain_cut(&x->heap, &c, 0, false, "vendor allocation");
        clusters_chain_free(&c);
    }
    return rc;
}

/* Takes a set out of its directory: entries, tables, hints, and what its secondaries own. */
static int erase_entry(struct clusters_node *n, const struct exfat_set *set,
                       const struct exfat_name *name, bool owned, enum cache_tier tier)
{
    struct clusters_node *dir = clusters_node_of(n->base.parent);
    names_dir_use(dir->names);
    int rc = exfat_set_erase(set, tier);
    if (rc < 0) {
        names_uncertain(dir->names);
    } else {
        clusters_set_erased(dir, set->index, set->count, &name->hash, 1);
        if (owned) {
            rc = exfat_free_allocations(exfat_of(n->base.volume), set);
        }
    }
    names_dir_unuse(dir->names);
    return rc;
}

int exfat_remove(struct volume_node *node)
{
    struct clusters_node *n = clusters_node_of(node);
    struct exfat *x = exfat_of(node->volume);
    struct exfat_name name;
    struct exfat_set set;
    int rc = node->kind == VOLUME_DIRECTORY ? clusters_dir_check_empty(n) : 0;
    if (rc < 0 || (rc = exfat_set_read(clusters_node_of(node->parent), n->index, &set)) < 0 ||
        (rc = exfat_set_name(x, &set, &name)) < 0 ||
        (rc = clusters_chain_check_used(&x->heap, &n->chain, 0, clusters_owner(n))) < 0 ||
        (rc = exfat_mark_dirty(&x->heap)) < 0) {
        return rc;
    }
    rc = erase_entry(n, &set, &name, true, CACHE_ENTRY);
    if (rc == 0) {
        node->unlinked = true;
        rc = clusters_unpin(n);
    }
    return rc < 0 ? rc : exfat_set_touch_dir(clusters_node_of(node->parent), 1);
}

/* A copy of a set under another name: what follows the name (vendor entries) is kept. */
static int renamed_set(const struct exfat_set *old, const struct exfat_name *old_name,
                       const struct exfat_name *name, struct clusters_node *n,
                       struct exfat_set *out)
{
    uint32_t extra_at = entries_of(old_name), extra = old->count - extra_at;
    exfat_set_build(out, name, n);
    if (out->count + extra > EXFAT_SET_MAX) {
        return -ENAMETOOLONG;
    }
    memcpy(out->entry + (size_t)out->count * EXFAT_ENTRY_SIZE,
           old->entry + (size_t)extra_at * EXFAT_ENTRY_SIZE, (size_t)extra * EXFAT_ENTRY_SIZE);
    out->count += extra;
    out->entry[EXFAT_FILE_SECONDARY_COUNT] = (uint8_t)(out->count - 1);
    return 0;
}

/* A set that lies within one sector is written all or not at all, so it may change its name in
 * place. */
bool exfat_set_in_one_sector(const struct exfat *x, const struct exfat_set *set)
{
    uint64_t first = exfat_set_offset(set);
    uint64_t last = first + (uint64_t)set->count * EXFAT_ENTRY_SIZE - 1;
    return first >> x->g.sector_shift == last >> x->g.sector_shift;
}

static int rename_in_place(struct exfat_set *old, struct exfat_set *set,
                           const struct exfat_name *old_name, const struct exfat_name *name)
{
    struct clusters_node *dir = old->dir;
    set->dir = dir;
    set->index = old->index;
    names_dir_use(dir->names);
    int rc = exfat_set_write(set, CACHE_ENTRY);
    if (rc < 0) {
        names_uncertain(dir->names);
        exfat_set_restore(old, CACHE_ENTRY);
    } else {
        clusters_set_renamed(dir, old->index, &old_name->hash, 1, &name->hash, 1);
    }
    names_dir_unuse(dir->names);
    return rc;
}

/* The general way: the new name is written first; the old one (and that of a replaced file) goes
 * once it is on the device. */
int exfat_rename_by_copy(struct clusters_node *n, struct clusters_node *dir,
                         const struct exfat_set *old, struct exfat_set *set,
                         const struct exfat_name *old_name, const struct exfat_name *name,
                         struct clusters_node *replaced)
{
    struct clusters_slot slot;
    struct exfat_set gone;
    struct exfat_name its_name;
    int rc = 0;
    if (replaced) {
        rc = exfat_set_read(clusters_node_of(replaced->base.parent), replaced->index, &gone);
        rc = rc < 0 ? rc : exfat_set_name(exfat_of(n->base.volume), &gone, &its_name);
    }
    if (rc < 0 || (rc = find_place(dir, set->count, &slot)) < 0 ||
        (rc = insert_set(dir, set, name, &slot)) < 0) {
        return rc;
    }
    rc = erase_entry(n, old, old_name, false, CACHE_REMOVAL);
    if (rc == 0 && replaced) {
        rc = erase_entry(replaced, &gone, &its_name, true, CACHE_REMOVAL);
        if (rc < 0) { /* the old name comes back, and its place is not free after all */
            exfat_set_restore(old, CACHE_REMOVAL);
            clusters_set_rolled_back(old->dir);
        } else {
            replaced->base.unlinked = true;
            volume_node_forget(&replaced->base);
            rc = clusters_unpin(replaced);
        }
    }
    if (rc < 0 && !(replaced && replaced->base.unlinked)) { /* as before: the new name goes */
        exfat_set_revoke(set, CACHE_ENTRY);
        clusters_set_rolled_back(dir);
        return rc;
    }
    int late = rc;
    rc = clusters_node_moved(n, dir, set->index, set->count);
    return rc < 0 ? rc : late;
}

int exfat_rename(struct volume_node *node, struct volume_node *to, const char *s, size_t length,
                 struct volume_node *replaced)
{
    struct clusters_node *n = clusters_node_of(node), *dir = clusters_node_of(to);
    struct exfat *x = exfat_of(node->volume);
    struct exfat_name name, old_name;
    struct exfat_set old, set;
    bool other = replaced && replaced != node;
    struct clusters_node *from = clusters_node_of(node->parent);
    int rc = exfat_name_parse(x, s, length, true, &name);
    if (rc == 0 && other) {
        rc = clusters_check_replaced(replaced);
    }
    if (rc < 0 || (rc = exfat_set_read(clusters_node_of(node->parent), n->index, &old)) < 0 ||
        (rc = exfat_set_validate(x, &old, &old_name)) < 0 ||
        (rc = renamed_set(&old, &old_name, &name, n, &set)) < 0 ||
        (rc = exfat_mark_dirty(&x->heap)) < 0) {
        return rc;
    }
    if (!other && node->parent == to && set.count == old.count &&
        exfat_set_in_one_sector(x, &old)) {
        rc = rename_in_place(&old, &set, &old_name, &name);
    } else {
        rc = exfat_rename_by_copy(n, dir, &old, &set, &old_name, &name,
                                  other ? clusters_node_of(replaced) : NULL);
    }
    if (rc == 0) {
        volume_node_mark_clean(node); /* its fields went with the new set */
        rc = exfat_set_touch_dir(dir, 1);
    }
    if (rc == 0 && from != dir) {
        rc = exfat_set_touch_dir(from, 1);
    }
    return rc;
}

int exfat_name_of(struct volume_node *node, char *buffer, size_t cap)
{
    struct clusters_node *n = clusters_node_of(node);
    struct exfat_name name;
    struct exfat_set set;
    if (clusters_is_root(n)) {
        return 0;
    }
    int rc = exfat_set_read(clusters_node_of(node->parent), n->index, &set);
    if (rc == 0) {
        rc = exfat_set_name(exfat_of(node->volume), &set, &name);
    }
    return rc < 0 ? rc : base_utf16_to_utf8(name.unit, name.length, buffer, cap);
}

/* One set into the list. A node that is in memory knows better than its entries. */
static int list_one(struct clusters_node *dir, const struct exfat_set *set,
                    const struct exfat_name *name, struct volume_list *list)
{
    struct volume *v = dir->base.volume;
    struct clusters_node plain = {.base = {.volume = v, .parent = &dir->base}};
    struct volume_stat st;
    char text[BASE_UTF8_MAX(EXFAT_NAME_MAX)];
    uint64_t offset = exfat_set_offset(set);
    int n = base_utf16_to_utf8(name->unit, name->length, text, sizeof text);
    if (n < 0) {
        return n;
    }
    struct volume_node *known = volume_node_find(v, clusters_node_key(offset));
    if (known) {
        clusters_stat_node(clusters_node_of(known), offset, &st);
        int rc = volume_node_unref(known);
        if (rc < 0) {
            return rc;
        }
    } else {
        plain.base.key = clusters_node_key(offset);
        exfat_set_to_node(set, &plain);
        clusters_stat_node(&plain, offset, &st);
        clusters_chain_free(&plain.chain);
    }
    return volume_list_add(list, &st, text, (size_t)n);
}

/* The entry at `index` begins something: 0 and *next after it, 1 at the end of the directory. */
static int list_step(struct clusters_node *dir, uint32_t index, struct volume_list *list,
                     uint32_t *next)
{
    struct volume *v = dir->base.volume;
    struct exfat_name name;
    struct exfat_set set;
    uint8_t entry[EXFAT_ENTRY_SIZE];
    int rc = clusters_dir_read(dir, index, 1, entry);
    *next = index + 1;
    v->counters.entries_visited++;
    if (rc < 0 || entry[0] == EXFAT_TYPE_END) {
        return rc < 0 ? rc : 1;
    }
    if (entry[0] != EXFAT_TYPE_FILE) {
        bool critical_primary = (entry[0] & EXFAT_TYPE_IN_USE) &&
                                !(entry[0] & (EXFAT_TYPE_SECONDARY | EXFAT_TYPE_BENIGN));
        if (critical_primary && !clusters_is_root(dir)) {
            uint64_t offset = clusters_dir_offset(dir, index);
            (void)base_damage(v->error, "directory", offset, "EntryType", entry[0], EXFAT_TYPE_FILE,
                              "a critical entry that does not belong here");
            volume_list_damaged(list, v->error);
        }
        return 0;
    }
    rc = exfat_set_read(dir, index, &set);
    if (rc == 0) {
        rc = exfat_set_validate(exfat_of(v), &set, &name);
    }
    if (rc == -BASE_ECORRUPT || rc == -BASE_EUNSUPPORTED) {
        volume_list_damaged(list, v->error);
        return 0;
    }
    if (rc == 0) {
        *next = index + set.count;
        v->counters.entries_visited += set.count - 1;
        rc = list_one(dir, &set, &name, list);
    }
    return rc;
}

int exfat_list(struct volume_node *dir, uint64_t *cursor, struct volume_list *list, bool *end)
{
    struct clusters_node *d = clusters_node_of(dir);
    uint32_t total;
    int rc = clusters_dir_entries(d, &total);
    *end = false;
    while (rc == 0 && *cursor < total && list->n < list->limit) {
        uint32_t next;
        rc = list_step(d, (uint32_t)*cursor, list, &next);
        if (rc == 1) {
            *cursor = total;
            rc = 0;
        } else if (rc == 0) {
            *cursor = next;
        }
    }
    *end = rc == 0 && *cursor >= total;
    return rc;
}
