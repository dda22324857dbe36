/* exFAT in memory, shared by the files of this driver. */
#ifndef PYEXFAT_EXFAT_EXFAT_H
#define PYEXFAT_EXFAT_EXFAT_H

#include <string.h>

#include "base/bytes.h"
#include "base/upcase.h"
#include "clusters/clusters.h"
#include "exfat/ondisk.h"

struct exfat;

/* ---- boot region (boot.c) ---- */
struct exfat_geometry {
    uint32_t sector_shift, cluster_shift; /* log2 of bytes; cluster_shift counts bytes too */
    uint64_t volume_length;               /* sectors */
    uint64_t partition_offset;            /* sectors */
    uint32_t fat_offset, fat_length;      /* sectors */
    uint32_t heap_offset;                 /* sectors */
    uint32_t clusters;                    /* ClusterCount */
    uint32_t root_cluster;
    uint32_t serial;
    uint16_t revision, volume_flags;
    uint8_t fats, percent, drive_select;
};
/* Reads and validates the region at 0 or, backup, at sector 12 (found by trying each sector size).
 * Checks every field's range [3.1], the checksum [3.4], and that the volume fits the device. */
int exfat_boot_read(struct device *d, bool backup, struct exfat_geometry *g, struct base_error *e);
/* Fills a whole boot region (EXFAT_BOOT_SECTORS sectors) with checksum. */
void exfat_boot_build(const struct exfat_geometry *g, uint8_t *region);
/* Recomputes the checksum sector of a region in memory. */
void exfat_boot_checksum(uint8_t *region, uint32_t sector_size);
/* A whole region in memory: name, signature and checksum are right. */
bool exfat_boot_is_valid(const uint8_t *region, uint32_t sector_size);

/* ---- up-case table (upcase.c) ---- */
struct exfat_upcase {
    const uint16_t *page[256]; /* NULL: the page maps to itself */
    uint16_t *owned;           /* memory of pages read from a volume, or NULL */
};
#define EXFAT_UPCASE_STANDARD_CHECKSUM 0xE619D30Du
void exfat_upcase_init_standard(
    struct exfat_upcase *u); /* no allocation: points to constant pages */
/* table: bytes as on the disk, compressed or not [7.2.5]. */
int exfat_upcase_init(struct exfat_upcase *u, const uint8_t *table, size_t n, uint32_t checksum,
                      uint64_t offset, struct base_error *e);
void exfat_upcase_free(struct exfat_upcase *u);
static inline uint16_t exfat_upcase_unit(const struct exfat_upcase *u, uint16_t c)
{
    const uint16_t *page = u->page[c >> 8];
    return page ? page[c & 0xFF] : c;
}

struct exfat_bitmap {
    struct clusters_chain chain;
    uint64_t size; /* DataLength */
};

struct exfat {
    struct clusters heap; /* first */
    struct exfat_geometry g;
    uint64_t fat[2];               /* byte offset of the active FAT, and of the other (0: none) */
    struct exfat_bitmap bitmap[2]; /* active, and the other (size 0: none) */
    struct exfat_upcase upcase;
    uint64_t hash_seed; /* so that nobody can make a disk whose names share one hash */
    bool marked;        /* the dirty mark is set on the device */
};

static inline struct exfat *exfat_of(const struct volume *v)
{
    return v->private;
}
/* ---- FAT and allocation bitmap, for struct clusters_ops (fat.c, bitmap.c) ---- */
int exfat_fat_next(struct clusters *h, uint32_t cluster, uint32_t *next);
int exfat_fat_link(struct clusters *h, uint32_t first, uint32_t count, uint32_t next,
                   enum cache_tier tier);
uint64_t exfat_fat_offset(const struct clusters *h, uint32_t cluster);
int exfat_bitmap_pin(struct clusters *h, uint32_t bit, struct clusters_part *out);
int exfat_bitmap_mark(struct clusters *h, uint32_t bit, uint32_t n, bool used, uint32_t *changed);
void exfat_bitmap_read_ahead(struct clusters *h, uint32_t bit, uint32_t end, bool first);
uint64_t exfat_bitmap_offset(struct clusters *h, uint32_t bit);

/* ---- names (name.c) ---- */
struct exfat_name {
    uint16_t unit[EXFAT_NAME_MAX];
    uint16_t upper[EXFAT_NAME_MAX];
    uint32_t length;
    uint16_t hash16; /* NameHash [7.6.4] */
    uint64_t hash;   /* for csrc/names */
};
/* -ENAMETOOLONG, -EILSEQ; for_create: -EINVAL for characters that the format forbids [7.7.3]. */
int exfat_name_parse(const struct exfat *x, const char *s, size_t n, bool for_create,
                     struct exfat_name *out);
void exfat_name_finish(const struct exfat *x,
                       struct exfat_name *name); /* unit, length set: the rest */
bool exfat_name_equal(const struct exfat_name *a, const struct exfat_name *b); /* up-cased */
static inline uint32_t exfat_name_entries(uint32_t units)
{
    return (units + EXFAT_NAME_UNITS - 1) / EXFAT_NAME_UNITS;
}

/* ---- entry sets (set.c) ---- a copy of a whole set; changed there, written once */
struct exfat_set {
    struct clusters_node *dir;
    uint32_t index; /* of the first entry in the directory */
    uint32_t count; /* entries */
    uint8_t entry[EXFAT_SET_MAX * EXFAT_ENTRY_SIZE];
};
/* Reads SecondaryCount + 1 entries without judging them. */
int exfat_set_read(struct clusters_node *dir, uint32_t index, struct exfat_set *set);
/* Judges: types, order, checksum, name length and hash, sizes, clusters; -EUCLEAN says what. name
 * may be NULL. */
int exfat_set_validate(struct exfat *x, const struct exfat_set *set, struct exfat_name *name);
/* Only what a search needs: the name, whatever else may be wrong. -EUCLEAN when there is no usable
 * name. */
int exfat_set_name(struct exfat *x, const struct exfat_set *set, struct exfat_name *name);
void exfat_set_build(struct exfat_set *set, const struct exfat_name *name,
                     const struct clusters_node *node);
void exfat_set_update(
    struct exfat_set *set,
    const struct clusters_node *node); /* node's fields into file and stream entries */
void exfat_set_checksum(struct exfat_set *set);
void exfat_set_to_node(const struct exfat_set *set, struct clusters_node *node);
/* Writes the set (checksum computed here); the policy decides: whole, or entry by entry. */
int exfat_set_write(struct exfat_set *set, enum cache_tier tier);
/* Marks a set that was read from there as not in use; when that fails, it is whole again in the
 * cache. */
int exfat_set_erase(const struct exfat_set *set, enum cache_tier tier);
/* For roll-backs, in the cache alone, so that a failing device is no hindrance: a set is as it was
 * read, or a new one is no longer in use. */
void exfat_set_restore(const struct exfat_set *set, enum cache_tier tier);
void exfat_set_revoke(struct exfat_set *set, enum cache_tier tier);
/* A directory's time of modification after a change in it. Its own entry is written with the next
 * sync; the old way wrote it at once, old_updates times. */
int exfat_set_touch_dir(struct clusters_node *dir, unsigned old_updates);
uint64_t
exfat_set_offset(const struct exfat_set *set); /* byte offset of the first entry, for reports */
/* Benign secondary entries with clusters: calls fn for each; used by delete and copy. */
struct exfat_secondary {
    uint32_t first_cluster;
    uint64_t length;
    bool contiguous;
    uint32_t index; /* within the set */
};
bool exfat_set_next_allocation(const struct exfat_set *set, uint32_t *cursor,
                               struct exfat_secondary *out);

/* Finds the set of a name. 0 and *set filled; -ENOENT; need: entries of the set that a create would
 * want (0: none). */
int exfat_dir_lookup(struct clusters_node *dir, const struct exfat_name *name, uint32_t need,
                     struct exfat_set *set);
/* Walks the whole directory for a run of `need` free entries: leaves hint, holes and tables. */
int exfat_dir_scan_free(struct clusters_node *dir, uint32_t need);
/* ---- nodes and operations ---- */
int exfat_node_from_set(struct clusters_node *dir, const struct exfat_set *set,
                        struct clusters_node **out);
int exfat_write_node(struct volume_node *node); /* its set into the cache */
int exfat_mark_dirty(struct clusters *h);       /* before the first change */
int exfat_mark_clean(struct clusters *h);
int exfat_mark_failure(struct volume *v);
int exfat_lookup(struct volume_node *dir, const char *name, size_t n, struct volume_node **out);
int exfat_list(struct volume_node *dir, uint64_t *cursor, struct volume_list *list, bool *end);
int exfat_create(struct volume_node *dir, const char *name, size_t n, enum volume_kind kind,
                 uint32_t attributes, struct volume_node **out);
int exfat_remove(struct volume_node *node);
int exfat_rename(struct volume_node *node, struct volume_node *dir, const char *name, size_t n,
                 struct volume_node *replaced);
/* The parts of rename that other changes of a whole set need (namei.c). */
int exfat_rename_by_copy(struct clusters_node *n, struct clusters_node *dir,
                         const struct exfat_set *old, struct exfat_set *set,
                         const struct exfat_name *old_name, const struct exfat_name *name,
                         struct clusters_node *replaced);
bool exfat_set_is_torn(struct clusters_node *dir, uint32_t index);
bool exfat_set_in_one_sector(const struct exfat *x, const struct exfat_set *set);
int exfat_free_allocations(struct exfat *x, const struct exfat_set *set);
int exfat_get_extras(struct volume_node *node, struct volume_extras *out);
int exfat_set_extras(struct volume_node *node, const struct volume_extras *in);
int exfat_name_of(struct volume_node *node, char *buffer, size_t cap);
/* ---- mount.c, label.c ---- */
int exfat_mount(struct volume *v);
void exfat_unmount(struct volume *v);
/* Units of a label, 0..EXFAT_LABEL_UNITS; -ENAMETOOLONG, -EILSEQ, or -EINVAL for a character that
 * is not allowed [7.3]. */
int exfat_label_parse(const char *label, size_t n, uint16_t units[EXFAT_LABEL_UNITS]);
/* The volume label entry; without units, one that is not in use. */
void exfat_label_build(uint8_t entry[EXFAT_ENTRY_SIZE], const uint16_t *units, int n);
/* The text of an entry as UTF-8: its length, -EUCLEAN when CharacterCount is too large,
 * -ENAMETOOLONG. */
int exfat_label_text(const uint8_t entry[EXFAT_ENTRY_SIZE], char *buffer, size_t cap);
int exfat_get_label(struct volume *v, char *buffer, size_t cap);
int exfat_set_label(struct volume *v, const char *label, size_t n);
int exfat_set_serial(struct volume *v, uint32_t serial);

#endif
