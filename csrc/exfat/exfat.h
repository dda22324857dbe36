/* exFAT in memory, shared by the files of this driver. */
#ifndef PYEXFAT_EXFAT_EXFAT_H
#define PYEXFAT_EXFAT_EXFAT_H

#include <string.h>

#include "base/bytes.h"
#include "base/runs.h"
#include "cache/cache.h"
#include "exfat/ondisk.h"
#include "names/names.h"
#include "volume/volume.h"

struct exfat;
struct exfat_node;

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
#define EXFAT_UPCASE_STANDARD_BYTES 5836u
#define EXFAT_UPCASE_STANDARD_CHECKSUM 0xE619D30Du
extern const uint16_t
    exfat_upcase_standard[EXFAT_UPCASE_STANDARD_BYTES / 2]; /* compressed form, host order */
extern const uint16_t *const exfat_upcase_standard_pages[256];
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

/* ---- clusters ---- */
/* Clusters of a file, directory, bitmap…; mapped as far as somebody needed them. */
struct exfat_chain {
    uint32_t first;  /* 0: none */
    bool contiguous; /* NoFatChain */
    bool complete;   /* count is known */
    uint32_t count;  /* clusters, when complete */
    uint32_t limit;  /* clusters that the owner's length accounts for: no walk goes further; 0: not
                        known */
    struct base_runs runs; /* as far as mapped; unused when contiguous */
};

struct exfat_bitmap {
    struct exfat_chain chain;
    uint64_t size; /* DataLength */
};

struct exfat_pending { /* clusters that become free with the next commit */
    uint32_t first, count;
};
struct exfat_cut { /* FAT entry that becomes the end of a chain with the next commit */
    uint32_t cluster, old_next;
};

struct exfat {
    struct volume *volume;
    struct exfat_geometry g;
    uint32_t cluster_size;
    uint64_t heap;                 /* byte offset of cluster 2 */
    uint64_t fat[2];               /* byte offset of the active FAT, and of the other (0: none) */
    struct exfat_bitmap bitmap[2]; /* active, and the other (size 0: none) */
    struct exfat_upcase upcase;
    uint64_t hash_seed;      /* so that nobody can make a disk whose names share one hash */
    bool marked;             /* the dirty mark is set in the cache or on the device */
    bool mark_durable;       /* … and on the device, flushed */
    bool allocation_changed; /* PercentInUse is to be written */
    bool free_known;
    uint32_t free_clusters; /* when free_known: without those pending */
    uint32_t next_free;     /* no free cluster below it */
    uint32_t *block_free; /* free clusters in each 4 KiB of bitmap, UINT32_MAX: not known; NULL: not
                             made yet */
    struct exfat_pending *pending;
    size_t pending_n, pending_cap;
    uint64_t pending_clusters;
    struct exfat_cut *cuts;
    size_t cuts_n, cuts_cap;
    uint64_t pending_epoch; /* cache epoch in which the newest pending record was made */
    uint32_t upcase_cluster;
    struct exfat_node **pins; /* files with reserved clusters that nobody has open */
    size_t pins_n, pins_cap;
};

static inline struct exfat *exfat_of(const struct volume *v)
{
    return v->private;
}
static inline bool exfat_cluster_valid(const struct exfat *x, uint32_t c)
{
    return c >= EXFAT_FIRST_CLUSTER && c - EXFAT_FIRST_CLUSTER < x->g.clusters;
}
static inline uint64_t exfat_cluster_offset(const struct exfat *x, uint32_t c)
{
    return x->heap + ((uint64_t)(c - EXFAT_FIRST_CLUSTER) << x->g.cluster_shift);
}
static inline uint64_t exfat_clusters_for(const struct exfat *x, uint64_t bytes)
{
    return (bytes >> x->g.cluster_shift) + ((bytes & (x->cluster_size - 1)) != 0);
}

/* ---- FAT (fat.c) ---- */
int exfat_fat_get(struct exfat *x, uint32_t cluster, uint32_t *next);
int exfat_fat_set(struct exfat *x, uint32_t cluster, uint32_t next, enum cache_tier tier);
/* first -> first+1 -> … -> first+count-1 -> next, each FAT sector changed once. */
int exfat_fat_link(struct exfat *x, uint32_t first, uint32_t count, uint32_t next,
                   enum cache_tier tier);

/* ---- chains (chain.c) ---- */
/* count: clusters by the owner's length, 0 when it has none (the root directory). */
void exfat_chain_init(struct exfat_chain *c, uint32_t first, bool contiguous, uint32_t count);
void exfat_chain_free(struct exfat_chain *c);
/* Cluster number `index` of the chain and how many follow it in one piece; `what` names the owner
 * in damage reports. -EUCLEAN when the chain ends early, loops, or leaves the heap. */
int exfat_chain_find(struct exfat *x, struct exfat_chain *c, uint64_t index, uint32_t *cluster,
                     uint64_t *piece, const char *what);
/* Makes count known. -EUCLEAN when the chain has no length of its own and is longer than limit
 * clusters. */
int exfat_chain_measure(struct exfat *x, struct exfat_chain *c, uint64_t limit, const char *what);
/* Takes `need` more clusters; on failure nothing has changed. May turn contiguous into a FAT chain.
 * link_tier: tier of the FAT entry that makes the new clusters reachable. */
int exfat_chain_extend(struct exfat *x, struct exfat_chain *c, uint32_t need,
                       enum cache_tier link_tier, const char *what);
/* -EUCLEAN when a cluster from index `from` on is marked free: to be known before an entry that
 * names it goes. */
int exfat_chain_check_used(struct exfat *x, struct exfat_chain *c, uint32_t from, const char *what);
/* Gives back all clusters from index keep on. at_once: nothing on the device points to them. */
int exfat_chain_cut(struct exfat *x, struct exfat_chain *c, uint32_t keep, bool at_once,
                    const char *what);

/* ---- allocation bitmap (bitmap.c) ---- */
/* Finds and takes up to want clusters in one piece: at hint when free there (hint 0: none), else
 * the first piece that is long enough, else the longest found. -ENOSPC when nothing is free. */
int exfat_bitmap_take(struct exfat *x, uint32_t hint, uint32_t want, uint32_t *first,
                      uint32_t *got);
int exfat_bitmap_set(struct exfat *x, uint32_t first, uint32_t count, bool used);
int exfat_bitmap_get(struct exfat *x, uint32_t cluster, bool *used,
                     uint32_t *same); /* same: run of equal bits, >= 1 */
/* -EUCLEAN when one of these clusters, which a file owns, is marked free. */
int exfat_bitmap_check_used(struct exfat *x, uint32_t first, uint32_t count);
int exfat_bitmap_count(struct exfat *x, uint32_t *free_clusters);
int exfat_free_later(struct exfat *x, uint32_t first,
                     uint32_t count); /* free after the next commit */
int exfat_free_now(struct exfat *x, uint32_t first, uint32_t count);
/* Frees what was pending if its epoch has passed. */
int exfat_apply_pending(struct exfat *x);
/* Commits everything and then frees what was pending. */
int exfat_commit(struct exfat *x);
int exfat_bitmap_trim(struct exfat *x, uint64_t min_length, uint64_t *trimmed);

/* ---- time stamps (stamp.c) ---- raw: DOS date << 16 | time */
struct exfat_stamp {
    uint32_t raw;
    uint8_t ten_ms; /* 0..199; 0 for access */
    uint8_t offset; /* OffsetValid | quarter hours [7.4.10] */
};
int64_t exfat_stamp_ns(const struct exfat_stamp *s, int16_t default_offset,
                       int16_t *offset_minutes);
/* Clamps to 1980-01-01 … 2107-12-31 and rounds down to 10 ms (access: 2 s). */
struct exfat_stamp exfat_stamp_make(int64_t ns, int16_t offset_minutes, bool access);

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
/* Not allowed in names and labels [7.7.3]. */
static inline bool exfat_unit_forbidden(uint16_t c)
{
    return c < 0x20 || (c < 0x80 && strchr("\"*/:<>?\\|", c));
}
static inline uint32_t exfat_name_entries(uint32_t units)
{
    return (units + EXFAT_NAME_UNITS - 1) / EXFAT_NAME_UNITS;
}

/* ---- entry sets (set.c) ---- a copy of a whole set; changed there, written once */
struct exfat_set {
    struct exfat_node *dir;
    uint32_t index; /* of the first entry in the directory */
    uint32_t count; /* entries */
    uint8_t entry[EXFAT_SET_MAX * EXFAT_ENTRY_SIZE];
};
/* Reads SecondaryCount + 1 entries without judging them. */
int exfat_set_read(struct exfat_node *dir, uint32_t index, struct exfat_set *set);
/* Judges: types, order, checksum, name length and hash, sizes, clusters; -EUCLEAN says what. name
 * may be NULL. */
int exfat_set_validate(struct exfat *x, const struct exfat_set *set, struct exfat_name *name);
/* Only what a search needs: the name, whatever else may be wrong. -EUCLEAN when there is no usable
 * name. */
int exfat_set_name(struct exfat *x, const struct exfat_set *set, struct exfat_name *name);
void exfat_set_build(struct exfat_set *set, const struct exfat_name *name,
                     const struct exfat_node *node);
void exfat_set_update(
    struct exfat_set *set,
    const struct exfat_node *node); /* node's fields into file and stream entries */
void exfat_set_checksum(struct exfat_set *set);
void exfat_set_to_node(const struct exfat_set *set, struct exfat_node *node);
/* Writes the set (checksum computed here); the policy decides: whole, or entry by entry. */
int exfat_set_write(struct exfat_set *set, enum cache_tier tier);
/* Marks a set that was read from there as not in use; when that fails, it is whole again in the cache. */
int exfat_set_erase(const struct exfat_set *set, enum cache_tier tier);
/* For roll-backs, in the cache alone, so that a failing device is no hindrance: a set is as it was
 * read, or a new one is no longer in use. */
void exfat_set_restore(const struct exfat_set *set, enum cache_tier tier);
void exfat_set_revoke(struct exfat_set *set, enum cache_tier tier);
/* A directory's time of modification after a change in it. Its own entry is written with the next
 * sync; the old way wrote it at once, old_updates times. */
int exfat_set_touch_dir(struct exfat_node *dir, unsigned old_updates);
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

/* ---- directories (dir.c, slot.c) ---- */
struct exfat_hint {
    bool valid;
    uint32_t index;    /* first entry of the free run */
    uint32_t count;    /* free entries from there */
    uint32_t min_need; /* smallest set for which no earlier run fits */
    uint32_t seen;     /* entries of the run before this one are known to be free */
};

struct exfat_node {
    struct volume_node base;
    uint32_t index;   /* first entry in the parent */
    uint32_t entries; /* entries of the set */
    uint16_t attributes;
    struct exfat_stamp created, modified, accessed;
    uint64_t size, valid;
    struct exfat_chain chain;
    uint64_t reserved; /* clusters in chain beyond size, kept for later writes (keep_size) */
    bool
        pinned; /* reserved clusters without a handle: in exfat.pins until the volume syncs clean */
    uint64_t epoch_cut; /* cache epoch + 1 in which clusters were cut from its FAT chain; 0: none */
    /* directories */
    struct names_dir *names;
    struct exfat_hint hint;
    bool walked; /* a whole walk has been made, and found no room for an index */
};
static inline struct exfat_node *exfat_node_of(struct volume_node *n)
{
    return (struct exfat_node *)n;
}
static inline bool exfat_is_root(const struct exfat_node *n)
{
    return n->base.parent == NULL;
}

/* Entries that the directory's clusters hold. */
int exfat_dir_entries(struct exfat_node *dir, uint32_t *entries);
/* Byte offset of entry `index`, and how many entries follow it in one piece. -ERANGE past the end.
 */
int exfat_dir_find(struct exfat_node *dir, uint32_t index, uint64_t *offset, uint32_t *piece);
int exfat_dir_read(struct exfat_node *dir, uint32_t index, uint32_t count, uint8_t *out);
int exfat_dir_write(struct exfat_node *dir, uint32_t index, uint32_t count, const uint8_t *in,
                    enum cache_tier tier);

/* Steps through the entries one by one; the pointer is valid until the next step. */
struct exfat_walk {
    struct exfat_node *dir;
    uint32_t index; /* of the next entry */
    uint32_t total;
    bool whole;     /* from the first entry: what follows is read ahead */
    uint64_t ahead; /* read ahead up to here */
    uint64_t piece_offset;
    uint32_t piece_left; /* entries left in the piece of clusters */
    struct cache_ref ref;
    uint32_t ref_left; /* entries left in the block */
};
int exfat_walk_begin(struct exfat_walk *w, struct exfat_node *dir, uint32_t index);
int exfat_walk_next(struct exfat_walk *w,
                    const uint8_t **entry); /* 1: an entry; 0: end of the clusters */
void exfat_walk_end(struct exfat_walk *w);

/* Finds the set of a name. 0 and *set filled; -ENOENT; need: entries of the set that a create would
 * want (0: none). */
int exfat_dir_lookup(struct exfat_node *dir, const struct exfat_name *name, uint32_t need,
                     struct exfat_set *set);
/* Walks the whole directory for a run of `need` free entries: leaves hint, holes and tables. */
int exfat_dir_scan_free(struct exfat_node *dir, uint32_t need);
/* -ENOTEMPTY when a file or directory is in it. */
int exfat_dir_check_empty(struct exfat_node *dir);
/* Zeros over clusters [from, to) of a directory's chain, new ones: nothing points to them yet. */
int exfat_dir_zero(struct exfat_node *dir, uint32_t from, uint32_t to);
/* A place for `need` entries; grows the directory when there is none. The place is not used until
 * exfat_slot_commit. */
struct exfat_slot {
    uint32_t index;
    uint32_t run; /* free entries from index on, >= need */
    bool from_hole, at_tail;
};
int exfat_slot_find(struct exfat_node *dir, uint32_t need, struct exfat_slot *slot);
void exfat_slot_commit(struct exfat_node *dir, const struct exfat_slot *slot,
                       uint32_t need); /* the set is written */
void exfat_slot_cancel(struct exfat_node *dir, const struct exfat_slot *slot);
void exfat_slot_freed(struct exfat_node *dir, uint32_t index,
                      uint32_t count); /* entries were deleted */
/* Free entries seen by a walk. */
struct exfat_gap {
    uint32_t start, count; /* run of free entries under way */
    uint32_t need;
    struct exfat_hint hint;
};

/* ---- nodes and operations ---- */
int exfat_node_from_set(struct exfat_node *dir, const struct exfat_set *set,
                        struct exfat_node **out);
int exfat_node_new(struct volume *v, struct exfat_node **out); /* not yet entered */
void exfat_node_destroy(struct exfat_node *n);
int exfat_node_enter(struct exfat_node *n, struct exfat_node *dir, enum volume_kind kind);
uint64_t exfat_node_key(uint64_t entry_offset);
int exfat_write_node(struct volume_node *node); /* its set into the cache */
int exfat_mark_dirty(struct exfat *x);          /* before the first change */
int exfat_mark_clean(struct exfat *x);
const char *
exfat_owner(const struct exfat_node *n); /* "root directory", "directory", "file" for reports */

int exfat_lookup(struct volume_node *dir, const char *name, size_t n, struct volume_node **out);
int exfat_list(struct volume_node *dir, uint64_t *cursor, struct volume_list *list, bool *end);
int exfat_create(struct volume_node *dir, const char *name, size_t n, enum volume_kind kind,
                 uint32_t attributes, struct volume_node **out);
int exfat_remove(struct volume_node *node);
int exfat_rename(struct volume_node *node, struct volume_node *dir, const char *name, size_t n,
                 struct volume_node *replaced);
/* The parts of rename that other changes of a whole set need (namei.c). */
int exfat_rename_by_copy(struct exfat_node *n, struct exfat_node *dir, const struct exfat_set *old,
                         struct exfat_set *set, const struct exfat_name *old_name,
                         const struct exfat_name *name, struct exfat_node *replaced);
bool exfat_set_in_one_sector(const struct exfat *x, const struct exfat_set *set);
int exfat_free_allocations(struct exfat *x, const struct exfat_set *set);
int exfat_get_extras(struct volume_node *node, struct volume_extras *out);
int exfat_set_extras(struct volume_node *node, const struct volume_extras *in);
int exfat_stat(struct volume_node *node, struct volume_stat *out);
void exfat_stat_node(const struct exfat_node *node, uint64_t entry_offset, struct volume_stat *out);
int exfat_setattr(struct volume_node *node, const struct volume_setattr *how);
int exfat_name_of(struct volume_node *node, char *buffer, size_t cap);
int exfat_read(struct volume_node *node, uint64_t offset, void *buffer, size_t n, size_t *done);
int exfat_write(struct volume_node *node, uint64_t offset, const void *buffer, size_t n,
                size_t *done);
int exfat_resize(struct volume_node *node, uint64_t size);
int exfat_allocate(struct volume_node *node, uint64_t offset, uint64_t n, bool keep_size);
int exfat_extents(struct volume_node *node, struct volume_extents *out);
int exfat_release(struct volume_node *node);
int exfat_pin(struct exfat_node *n);
int exfat_unpin(struct exfat_node *n);
int exfat_drop_reserved(struct exfat_node *n); /* clusters kept beyond the size go back */

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
