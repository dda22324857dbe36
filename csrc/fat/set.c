/* Entry sets: long name entries, last part first, and the short entry behind them [LFN]. Long
 * entries belong to the short entry that follows them only when order and checksum say so;
 * otherwise they are nobody's.
 */
#include "fat/fat.h"

#include <errno.h>
#include <string.h>

static const uint8_t unit_at[FAT_LFN_UNITS] = {1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30};

enum { USUAL_ENTRIES = 4 }; /* what is read of a set before its length is known */

void fat_collect_reset(struct fat_collector *c)
{
    c->any = false;
}

/* The units of one long entry into their place; the part at the end of the name says how long it
 * is. */
static bool take_units(struct fat_collector *c, uint32_t order, const uint8_t *entry)
{
    uint32_t at = (order - 1) * FAT_LFN_UNITS;
    bool last = order == c->count;
    for (uint32_t i = 0; i < FAT_LFN_UNITS; i++) {
        uint16_t unit = base_le16(entry + unit_at[i]);
        if (unit == 0) {
            c->name.length = last ? at + i : 0;
            return last && at + i > 0;
        }
        if (at + i >= FAT_NAME_MAX) {
            return false;
        }
        c->name.unit[at + i] = unit;
    }
    if (last) {
        c->name.length = at + FAT_LFN_UNITS;
    }
    return true;
}

static void collect_long(struct fat_collector *c, uint32_t index, const uint8_t *entry)
{
    uint32_t order = entry[FAT_LFN_ORDER] & ~(unsigned)FAT_LFN_LAST;
    if ((entry[FAT_LFN_ORDER] & FAT_LFN_LAST) != 0) {
        c->any = order >= 1 && order <= FAT_LFN_ENTRIES_MAX;
        c->start = index;
        c->count = c->left = order;
        c->checksum = entry[FAT_LFN_CHECKSUM];
    } else if (c->any &&
               (order != c->left || entry[FAT_LFN_CHECKSUM] != c->checksum || order == 0)) {
        c->any = false;
    }
    if (c->any) {
        c->left--;
        c->any = take_units(c, order, entry);
    }
}

bool fat_collect(const struct fat *f, struct fat_collector *c, uint32_t index, const uint8_t *entry,
                 uint32_t *start, uint32_t *count)
{
    if (fat_is_long(entry)) {
        collect_long(c, index, entry);
        return false;
    }
    bool with_long = c->any && c->left == 0 && c->checksum == fat_short_checksum(entry);
    c->any = false;
    if ((entry[FAT_DIR_ATTRIBUTES] & FAT_ATTR_VOLUME_ID) != 0 ||
        memcmp(entry, ".          ", 11) == 0 || memcmp(entry, "..         ", 11) == 0) {
        return false;
    }
    if (with_long) {
        *start = c->start;
        *count = c->count + 1;
    } else {
        *start = index;
        *count = 1;
        fat_name_from_short(f, entry, true, &c->name);
    }
    return true;
}

int fat_set_read(struct clusters_node *dir, uint32_t index, struct fat_set *set)
{
    struct volume *v = dir->base.volume;
    set->dir = dir;
    set->index = index;
    set->count = 1;
    uint32_t total, got;
    int rc = clusters_dir_entries(dir, &total);
    if (rc == 0) {
        rc = clusters_dir_peek(dir, index, USUAL_ENTRIES, set->entry, &got);
    }
    if (rc < 0 || !fat_is_long(set->entry)) {
        return rc;
    }
    uint32_t longs = set->entry[0] & ~(unsigned)FAT_LFN_LAST;
    if (longs == 0 || longs > FAT_LFN_ENTRIES_MAX || longs >= total - index) {
        return base_damage(v->error, "directory entry", clusters_dir_offset(dir, index), "LDIR_Ord",
                           set->entry[0], 0,
                           "the long name runs past what a name or the directory can hold");
    }
    set->count = longs + 1;
    return set->count <= got ? 0
                             : clusters_dir_read(dir, index + got, set->count - got,
                                                 set->entry + (size_t)got * CLUSTERS_ENTRY_SIZE);
}

/* The name of a set into the collector; of none when it is another's by now. */
static void collect_set(const struct fat *f, const struct fat_set *set, struct fat_collector *c)
{
    uint32_t start, count;
    bool found = false;
    fat_collect_reset(c);
    for (uint32_t i = 0; i < set->count; i++) {
        found = fat_collect(f, c, i, set->entry + (size_t)i * CLUSTERS_ENTRY_SIZE, &start, &count);
    }
    if (!found) {
        c->name.length = 0;
    }
}

void fat_set_name(const struct fat *f, const struct fat_set *set, struct fat_name *name)
{
    struct fat_collector c;
    collect_set(f, set, &c);
    fat_name_finish(f, &c.name);
    *name = c.name;
}

bool fat_set_answers(const struct fat *f, const struct fat_set *set, const struct fat_name *name)
{
    struct fat_collector c;
    collect_set(f, set, &c);
    if (fat_name_equal(name, &c.name)) {
        return true;
    }
    fat_name_from_short(f, fat_set_short_const(set), false, &c.name);
    return fat_name_equal(name, &c.name);
}

void fat_set_update(struct fat_set *set, const struct clusters_node *node)
{
    struct fat *f = fat_of(node->base.volume);
    uint8_t *e = fat_set_short(set);
    e[FAT_DIR_ATTRIBUTES] = (uint8_t)node->attributes;
    e[FAT_DIR_CREATED_TENTH] = node->created.ten_ms;
    base_put_le32(e + FAT_DIR_CREATED_TIME, node->created.raw);
    base_put_le16(e + FAT_DIR_ACCESSED_DATE, (uint16_t)(node->accessed.raw >> 16));
    base_put_le32(e + FAT_DIR_MODIFIED_TIME, node->modified.raw);
    bool directory = (node->attributes & VOLUME_ATTR_DIRECTORY) != 0;
    /* Clusters set aside for an empty file go back without the entry being written again. */
    bool aside = !directory && node->size == 0 && node->reserved != 0;
    uint32_t first = aside ? 0 : node->chain.first;
    base_put_le16(e + FAT_DIR_FIRST_CLUSTER_LOW, (uint16_t)first);
    if (f->g.bits == 32) { /* elsewhere the field is not a cluster's */
        base_put_le16(e + FAT_DIR_FIRST_CLUSTER_HIGH, (uint16_t)(first >> 16));
    }
    base_put_le32(e + FAT_DIR_SIZE, directory ? 0 : (uint32_t)node->size);
}

void fat_set_build(struct fat_set *set, const struct fat_name *name,
                   const uint8_t short_name[FAT_NAME_BYTES], uint8_t case_bits, bool with_long,
                   const struct clusters_node *node)
{
    uint32_t longs = with_long ? (name->length + FAT_LFN_UNITS - 1) / FAT_LFN_UNITS : 0;
    set->count = longs + 1;
    memset(set->entry, 0, (size_t)set->count * CLUSTERS_ENTRY_SIZE);
    for (uint32_t i = 0; i < longs; i++) {
        uint8_t *e = set->entry + (size_t)i * CLUSTERS_ENTRY_SIZE;
        uint32_t order = longs - i, at = (order - 1) * FAT_LFN_UNITS;
        e[FAT_LFN_ORDER] = (uint8_t)(order | (i == 0 ? FAT_LFN_LAST : 0));
        e[FAT_DIR_ATTRIBUTES] = FAT_ATTR_LONG_NAME;
        e[FAT_LFN_CHECKSUM] = fat_short_checksum(short_name);
        for (uint32_t u = 0; u < FAT_LFN_UNITS; u++) {
            uint16_t unit = at + u < name->length    ? name->unit[at + u]
                            : at + u == name->length ? 0
                                                     : 0xFFFF;
            base_put_le16(e + unit_at[u], unit);
        }
    }
    uint8_t *e = fat_set_short(set);
    memcpy(e, short_name, FAT_NAME_BYTES);
    e[FAT_DIR_CASE] = case_bits;
    fat_set_update(set, node);
}

int fat_set_to_node(const struct fat_set *set, struct clusters_node *node)
{
    struct volume *v = set->dir->base.volume;
    struct fat *f = fat_of(v);
    const uint8_t *e = fat_set_short_const(set);
    uint32_t first = base_le16(e + FAT_DIR_FIRST_CLUSTER_LOW);
    if (f->g.bits == 32) {
        first |= (uint32_t)base_le16(e + FAT_DIR_FIRST_CLUSTER_HIGH) << 16;
    }
    node->index = set->index;
    node->entries = set->count;
    node->attributes = e[FAT_DIR_ATTRIBUTES];
    node->created =
        (struct clusters_stamp){base_le32(e + FAT_DIR_CREATED_TIME), e[FAT_DIR_CREATED_TENTH], 0};
    node->modified = (struct clusters_stamp){base_le32(e + FAT_DIR_MODIFIED_TIME), 0, 0};
    node->accessed =
        (struct clusters_stamp){(uint32_t)base_le16(e + FAT_DIR_ACCESSED_DATE) << 16, 0, 0};
    bool directory = (node->attributes & VOLUME_ATTR_DIRECTORY) != 0;
    node->size = node->valid = directory ? 0 : base_le32(e + FAT_DIR_SIZE);
    clusters_chain_init(&node->chain, first, false, (uint32_t)clusters_for(&f->heap, node->size));
    if (first != 0 ? clusters_valid(&f->heap, first) : !directory) {
        return 0;
    }
    uint64_t offset = clusters_dir_offset(set->dir, set->index + set->count - 1);
    return base_damage(v->error, "directory entry", offset + FAT_DIR_FIRST_CLUSTER_LOW,
                       "DIR_FstClusLO", first, 0, "the first cluster is not one of the volume");
}

int fat_set_write(struct fat_set *set, enum cache_tier tier)
{
    struct volume_counters *counters = &set->dir->base.volume->counters;
    counters->sets_written++;
    counters->entries_written += set->count;
    return clusters_dir_write(set->dir, set->index, set->count, set->entry, tier);
}

static void mark_deleted(const struct fat_set *set, struct fat_set *gone)
{
    *gone = *set;
    for (uint32_t i = 0; i < gone->count; i++) {
        gone->entry[(size_t)i * CLUSTERS_ENTRY_SIZE] = FAT_DELETED;
    }
}

int fat_set_erase(const struct fat_set *set, enum cache_tier tier)
{
    struct fat_set gone;
    mark_deleted(set, &gone);
    int rc = fat_set_write(&gone, tier);
    if (rc < 0) { /* not half of it, in the cache at least */
        fat_set_restore(set, tier);
    }
    return rc;
}

void fat_set_restore(const struct fat_set *set, enum cache_tier tier)
{
    clusters_dir_put_back(set->dir, set->index, set->count, set->entry, tier);
}

void fat_set_revoke(const struct fat_set *set, enum cache_tier tier)
{
    struct fat_set gone;
    mark_deleted(set, &gone);
    fat_set_restore(&gone, tier);
}
