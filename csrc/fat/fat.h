/* FAT12, FAT16 and FAT32 in memory, shared by the files of this driver. */
#ifndef PYEXFAT_FAT_FAT_H
#define PYEXFAT_FAT_FAT_H

#include "clusters/clusters.h"
#include "fat/ondisk.h"

/* ---- boot sector (boot.c) ---- */
struct fat_geometry {
    uint32_t bits;         /* 12, 16, 32: width of a FAT entry */
    uint32_t sector_size;  /* bytes, 512..32768 */
    uint32_t cluster_size; /* bytes */
    uint64_t sectors;      /* of the volume */
    uint32_t reserved_sectors;
    uint32_t fats;                         /* 1.. */
    uint32_t active_fat;                   /* ExtFlags */
    bool mirror;                           /* all FATs are written alike */
    uint32_t fat_sectors;                  /* of one FAT */
    uint32_t root_entries;                 /* FAT12/16 */
    uint32_t root_cluster;                 /* FAT32 */
    uint64_t root_offset;                  /* bytes; FAT12/16 */
    uint64_t heap_offset;                  /* bytes: cluster 2 */
    uint32_t clusters;                     /* as many as the FAT and the volume hold */
    uint32_t fsinfo_sector, backup_sector; /* FAT32; 0: none */
    uint32_t hidden_sectors;
    uint32_t serial;
    bool has_serial,
        has_extended; /* extended boot record (0x28, 0x29): dirty byte, serial, label */
    uint8_t media;
    bool dirty, hard_error;      /* from the boot sector's byte */
    char label[FAT_LABEL_BYTES]; /* as on the disk */
};
/* Reads and validates (base_damage names the field and byte). backup: from the FAT32 backup boot
 * sector (6, or where a sound main sector says). */
int fat_boot_read(struct device *d, bool backup, struct fat_geometry *g, struct base_error *e);

/* ---- code page (codepage.c) ---- */
struct fat_codepage;
/* NULL: 437. The table is copied. */
int fat_codepage_new(const struct volume_codepage *table, struct fat_codepage **out);
void fat_codepage_delete(struct fat_codepage *c);
/* n bytes of an 8.3 part to UTF-16; unmapped bytes become U+FFFD. Returns units written (<= n). */
uint32_t fat_codepage_decode(const struct fat_codepage *c, const uint8_t *s, uint32_t n,
                             uint16_t *out);
/* One unit to 1 or 2 bytes, which decode to this unit again; 0: it has none. */
uint32_t fat_codepage_encode(const struct fat_codepage *c, uint16_t unit, uint8_t out[2]);

enum { FAT_READ_AHEAD = 128 << 10 }; /* bytes of a FAT that are read at a time */

/* A beginning of short names whose ~1 to ~4 are all taken in a directory. */
struct fat_full {
    uint64_t dir;                 /* key of its node; 0: none */
    uint8_t name[FAT_NAME_BYTES]; /* the one with ~1 */
};
enum { FAT_FULL_MOST = 64 };

struct fat_sequence { /* blocks that are visited one after the other */
    uint64_t block;   /* byte offset of the latest */
    uint64_t ahead;   /* read ahead up to here */
};

struct fat {
    struct clusters heap; /* first */
    struct fat_geometry g;
    uint64_t table;       /* byte offset of FAT 0 */
    uint64_t table_bytes; /* of one FAT */
    struct fat_codepage *codepage;
    uint64_t hash_seed;
    bool marked;
    struct fat_sequence walk;            /* chains that are followed */
    struct fat_sequence writes;          /* ends of runs that are written, within a FAT */
    struct fat_full full[FAT_FULL_MOST]; /* by hash; for directories without an index */
    /* map of used clusters, made part by part (32,768 clusters) from the FAT */
    uint8_t **part;
    uint32_t parts, parts_held, parts_most, parts_victim;
};
static inline struct fat *fat_of(const struct volume *v)
{
    return v->private;
}

/* ---- FAT (table.c, map.c), for struct clusters_ops ---- */
int fat_table_get(struct fat *f, uint32_t cluster,
                  uint32_t *value); /* raw entry, without the top nibble */
/* Sets bit i for each entry cluster + i that is not free. */
int fat_table_used(struct fat *f, uint32_t cluster, uint32_t count, uint8_t *bits);
int fat_table_next(struct clusters *h, uint32_t cluster, uint32_t *next);
int fat_table_link(struct clusters *h, uint32_t first, uint32_t count, uint32_t next,
                   enum cache_tier tier);
int fat_table_clear(struct clusters *h, uint32_t first, uint32_t count,
                    enum cache_tier tier); /* free */
uint64_t fat_table_offset(const struct clusters *h, uint32_t cluster);
int fat_table_marks(struct fat *f, bool clean,
                    enum cache_tier tier); /* the clean bit of FAT[1], all copies */
int fat_table_failure(struct fat *f);      /* the bit for hard errors, past the cache's order */
int fat_map_pin(struct clusters *h, uint32_t bit, struct clusters_part *out);
int fat_map_mark(struct clusters *h, uint32_t bit, uint32_t n, bool used, uint32_t *changed);
uint64_t fat_map_offset(struct clusters *h, uint32_t bit);
void fat_map_free(struct fat *f);
size_t fat_map_bytes(const struct fat *f);

/* ---- names (name.c, short.c) ---- */
struct fat_name {
    uint16_t unit[FAT_NAME_MAX];
    uint16_t upper[FAT_NAME_MAX];
    uint32_t length;
    uint64_t hash; /* for csrc/names */
};
int fat_name_parse(const struct fat *f, const char *s, size_t n, bool for_create,
                   struct fat_name *out);
void fat_name_finish(const struct fat *f, struct fat_name *name); /* unit, length set: the rest */
/* Case-insensitively; of b the units are enough. */
bool fat_name_equal(const struct fat_name *a, const struct fat_name *b);
/* The 11 bytes of an entry as the units of a name, not finished; with_case: the NT bits count. */
void fat_name_from_short(const struct fat *f, const uint8_t *entry, bool with_case,
                         struct fat_name *out);
uint8_t fat_short_checksum(const uint8_t name[FAT_NAME_BYTES]);
/* Short name for a long one. *case_bits: NT bits; *needs_long: an LFN must be written too. -EEXIST
 * when nothing is free. */
int fat_short_make(struct clusters_node *dir, const struct fat_name *name,
                   uint8_t out[FAT_NAME_BYTES], uint8_t *case_bits, bool *needs_long);

/* An entry with this short name is gone; or any that was in a directory may be. */
void fat_short_freed(struct clusters_node *dir, const uint8_t name[FAT_NAME_BYTES]);
void fat_short_forget(struct fat *f);

/* ---- entry sets (set.c) ---- long name entries and the short one */
struct fat_set {
    struct clusters_node *dir;
    uint32_t index, count;
    uint8_t entry[(FAT_LFN_ENTRIES_MAX + 1) * CLUSTERS_ENTRY_SIZE];
};
static inline uint8_t *fat_set_short(struct fat_set *set)
{
    return set->entry + (size_t)(set->count - 1) * CLUSTERS_ENTRY_SIZE;
}
static inline const uint8_t *fat_set_short_const(const struct fat_set *set)
{
    return set->entry + (size_t)(set->count - 1) * CLUSTERS_ENTRY_SIZE;
}
static inline bool fat_is_long(const uint8_t *entry) /* of one in use */
{
    return (entry[FAT_DIR_ATTRIBUTES] & FAT_ATTR_LONG_NAME_MASK) == FAT_ATTR_LONG_NAME;
}
/* Puts entries together while they pass by; an entry that does not fit starts anew. */
struct fat_collector {
    uint32_t start, left; /* first long entry; long entries still to come */
    uint32_t count;       /* long entries */
    uint8_t checksum;
    bool any; /* long entries are under way */
    struct fat_name name;
};
void fat_collect_reset(struct fat_collector *c);
/* true: `entry` at index is a short entry of a file or directory; *start, *count: its set; c->name
 * its name (long when it has one), not finished. */
bool fat_collect(const struct fat *f, struct fat_collector *c, uint32_t index, const uint8_t *entry,
                 uint32_t *start, uint32_t *count);
int fat_set_read(struct clusters_node *dir, uint32_t index,
                 struct fat_set *set); /* from its first entry */
void fat_set_name(const struct fat *f, const struct fat_set *set, struct fat_name *name);
/* Whether its long or its short name is this one. */
bool fat_set_answers(const struct fat *f, const struct fat_set *set, const struct fat_name *name);
void fat_set_build(struct fat_set *set, const struct fat_name *name,
                   const uint8_t short_name[FAT_NAME_BYTES], uint8_t case_bits, bool with_long,
                   const struct clusters_node *node);
void fat_set_update(struct fat_set *set, const struct clusters_node *node);
int fat_set_to_node(const struct fat_set *set,
                    struct clusters_node *node); /* -EUCLEAN: a cluster outside the heap */
int fat_set_write(struct fat_set *set, enum cache_tier tier);
int fat_set_erase(const struct fat_set *set, enum cache_tier tier);
/* Roll-backs: the set as it is here; or none, whatever of it is in. */
void fat_set_restore(const struct fat_set *set, enum cache_tier tier);
void fat_set_revoke(const struct fat_set *set, enum cache_tier tier);

/* ---- directories (lookup.c) ---- */
int fat_dir_lookup(struct clusters_node *dir, const struct fat_name *name, uint32_t need,
                   struct fat_set *set);
int fat_dir_scan_free(struct clusters_node *dir, uint32_t need);

/* ---- operations ---- */
int fat_node_from_set(struct clusters_node *dir, const struct fat_set *set,
                      struct clusters_node **out);
int fat_write_node(struct volume_node *node);
int fat_mark_dirty(struct clusters *h);
int fat_mark_clean(struct clusters *h);
int fat_mark_failure(struct volume *v);
int fat_lookup(struct volume_node *dir, const char *name, size_t n, struct volume_node **out);
int fat_list(struct volume_node *dir, uint64_t *cursor, struct volume_list *list, bool *end);
int fat_create(struct volume_node *dir, const char *name, size_t n, enum volume_kind kind,
               uint32_t attributes, struct volume_node **out);
int fat_remove(struct volume_node *node);
int fat_rename(struct volume_node *node, struct volume_node *dir, const char *name, size_t n,
               struct volume_node *replaced);
int fat_name_of(struct volume_node *node, char *buffer, size_t cap);
int fat_mount(struct volume *v);
void fat_unmount(struct volume *v);

/* ---- label.c ---- */
/* UTF-8 to 11 bytes: 1, or 0 and "NO NAME" when it is empty, blank or that. -EINVAL:
 * it can't be, *e says why. */
int fat_label_parse(const struct fat_codepage *c, const char *label, size_t n,
                    uint8_t out[FAT_LABEL_BYTES], struct base_error *e);
/* 11 bytes without the blanks at their end to UTF-8; returns the length, or -ENAMETOOLONG. */
int fat_label_text(const struct fat_codepage *c, const uint8_t label[FAT_LABEL_BYTES], char *buffer,
                   size_t cap);
bool fat_label_is_none(const uint8_t label[FAT_LABEL_BYTES]); /* in the boot sector */
bool fat_label_is_entry(const uint8_t entry[CLUSTERS_ENTRY_SIZE]);
void fat_label_build(uint8_t entry[CLUSTERS_ENTRY_SIZE], const uint8_t label[FAT_LABEL_BYTES],
                     const struct clusters_stamp *stamp);
void fat_label_of_entry(const uint8_t entry[CLUSTERS_ENTRY_SIZE], uint8_t out[FAT_LABEL_BYTES]);
int fat_get_label(struct volume *v, char *buffer, size_t cap);
int fat_set_label(struct volume *v, const char *label, size_t n);
int fat_set_serial(struct volume *v, uint32_t serial);

#endif
