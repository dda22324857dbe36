/* What the file systems made of clusters, chains and 32-byte directory entries share: exFAT and
 * FAT.
 *
 * A driver's private structure begins with a struct clusters, and its nodes are struct
 * clusters_node. It tells through struct clusters_ops how its FAT and its map of free clusters are
 * stored and what its entries mean; everything here is the same for both.
 */
#ifndef PYEXFAT_CLUSTERS_CLUSTERS_H
#define PYEXFAT_CLUSTERS_CLUSTERS_H

#include "base/bytes.h"
#include "base/runs.h"
#include "cache/cache.h"
#include "names/names.h"
#include "volume/volume.h"

struct clusters;
struct clusters_node;

enum { CLUSTERS_ENTRY_SIZE = 32, CLUSTERS_ENTRY_SHIFT = 5, CLUSTERS_FIRST = 2 };
enum { CLUSTERS_SUMMARY_SHIFT = 15 }; /* log2 of the clusters in a part of block_free */
/* What ops->next says of the end of a chain, and of a bad cluster; anything else outside the heap
 * is damage. */
#define CLUSTERS_END UINT32_MAX
#define CLUSTERS_BAD (UINT32_MAX - 1)

/* Part of the map of free clusters: bits[0] bit 0 stands for the cluster of (bit & ~7). */
struct clusters_part {
    struct cache_ref ref;
    const uint8_t *bits;
    uint32_t count; /* bits from the one asked for */
};

enum clusters_entry { CLUSTERS_ENTRY_FREE, CLUSTERS_ENTRY_USED, CLUSTERS_ENTRY_DOTS };

struct clusters_ops {
    /* ---- FAT ---- */
    int (*next)(struct clusters *h, uint32_t cluster, uint32_t *next);
    /* first -> first+1 -> … -> first+count-1 -> next, each FAT sector changed once. */
    int (*link)(struct clusters *h, uint32_t first, uint32_t count, uint32_t next,
                enum cache_tier tier);
    uint64_t (*fat_offset)(const struct clusters *h, uint32_t cluster); /* for reports */
    /* ---- map of free clusters; bit 0 is cluster 2 ---- */
    int (*pin)(struct clusters *h, uint32_t bit, struct clusters_part *out);
    int (*mark)(struct clusters *h, uint32_t bit, uint32_t n, bool used, uint32_t *changed);
    void (*read_ahead)(struct clusters *h, uint32_t bit, uint32_t end, bool first); /* or NULL */
    uint64_t (*bit_offset)(struct clusters *h, uint32_t bit); /* for reports */
    /* ---- the volume ---- */
    int (*mark_dirty)(struct clusters *h); /* before the first change */
    /* ---- directories ---- */
    enum clusters_entry (*entry)(const uint8_t *entry); /* not of an entry that begins with 0 */
    /* Walks the whole directory for a run of `need` free entries: leaves hint, holes, tables. */
    int (*scan_free)(struct clusters_node *dir, uint32_t need);
};

struct clusters_pending { /* clusters that become free with the next commit */
    uint32_t first, count;
};
struct clusters_cut { /* FAT entry that becomes the end of a chain with the next commit */
    uint32_t cluster, old_next;
};

struct clusters {
    const struct clusters_ops *ops;
    struct volume *volume;
    uint64_t offset;        /* byte offset of cluster 2 */
    uint32_t shift;         /* log2 of the cluster size in bytes */
    uint32_t size;          /* cluster size in bytes */
    uint32_t count;         /* clusters */
    uint64_t directory_max; /* bytes */
    uint64_t file_max;      /* bytes */
    uint32_t least_run;     /* shorter runs of free entries are not remembered: no set fits there */
    uint32_t names_per_three; /* hashes of names that three entries may have at most */
    bool plain_runs;          /* a chain in one piece needs no FAT (NoFatChain) */
    bool valid_lengths;       /* what was never written reads as zeros (ValidDataLength); else zeros
                                 are written */
    bool sized_directories;   /* a directory's entry says its length, so its chain may grow first */
    uint32_t sector_links;    /* FAT entries in a sector; 0: no whole number, or few are used */
    const char *map_name;     /* "allocation bitmap", "FAT" */
    /* free space */
    bool changed; /* clusters were taken or freed since the clean mark */
    bool free_known;
    uint32_t free_clusters; /* when free_known: without those pending */
    uint32_t next_free;     /* no free cluster below it, unless guessed */
    bool guessed;           /* next_free is what the volume said: there may be free ones below */
    uint32_t *block_free; /* free clusters in each part of 32,768 bits, UINT32_MAX: not known; NULL:
                             not made yet */
    struct clusters_pending *pending;
    size_t pending_n, pending_cap;
    uint64_t pending_clusters;
    struct clusters_cut *cuts;
    size_t cuts_n, cuts_cap;
    uint64_t pending_epoch;      /* cache epoch in which the newest pending record was made */
    struct clusters_node **pins; /* files with reserved clusters that nobody has open */
    size_t pins_n, pins_cap;
};

static inline struct clusters *clusters_of(const struct volume *v)
{
    return v->private;
}
static inline bool clusters_valid(const struct clusters *h, uint32_t c)
{
    return c >= CLUSTERS_FIRST && c - CLUSTERS_FIRST < h->count;
}
static inline uint64_t clusters_offset(const struct clusters *h, uint32_t c)
{
    return h->offset + ((uint64_t)(c - CLUSTERS_FIRST) << h->shift);
}
static inline uint64_t clusters_for(const struct clusters *h, uint64_t bytes)
{
    return (bytes >> h->shift) + ((bytes & (h->size - 1)) != 0);
}
/* How many summaries block_free has. */
static inline uint32_t clusters_summaries(const struct clusters *h)
{
    return (h->count >> CLUSTERS_SUMMARY_SHIFT) + 1;
}
void clusters_free(struct clusters *h); /* the memory of what is above */
size_t clusters_memory_held(const struct clusters *h);

/* ---- chains (chain.c) ---- mapped as far as somebody needed them */
struct clusters_chain {
    uint32_t first;  /* 0: none */
    bool contiguous; /* in one piece, without FAT entries (NoFatChain) */
    bool complete;   /* count is known */
    uint32_t count;  /* clusters, when complete */
    uint32_t limit;  /* clusters that the owner's length accounts for: no walk goes further; 0: not
                        known */
    struct base_runs runs; /* as far as mapped; unused when contiguous */
};
/* count: clusters by the owner's length, 0 when it has none. */
void clusters_chain_init(struct clusters_chain *c, uint32_t first, bool contiguous, uint32_t count);
void clusters_chain_free(struct clusters_chain *c);
/* Cluster number `index` of the chain and how many follow it in one piece; `what` names the owner
 * in damage reports. -ERANGE: the chain is not that long; -EUCLEAN: it loops or leaves the heap. */
int clusters_chain_find(struct clusters *h, struct clusters_chain *c, uint64_t index,
                        uint32_t *cluster, uint64_t *piece, const char *what);
/* Makes count known. -EUCLEAN when the chain has no length of its own and is longer than limit. */
int clusters_chain_measure(struct clusters *h, struct clusters_chain *c, uint64_t limit,
                           const char *what);
/* Takes `need` more clusters; on failure nothing has changed. May turn contiguous into a FAT chain.
 * link_tier: tier of the FAT entry that makes the new clusters reachable. */
int clusters_chain_extend(struct clusters *h, struct clusters_chain *c, uint32_t need,
                          enum cache_tier link_tier, const char *what);
/* -EUCLEAN when a cluster from index `from` on is marked free: to be known before an entry that
 * names it goes. */
int clusters_chain_check_used(struct clusters *h, struct clusters_chain *c, uint32_t from,
                              const char *what);
/* Gives back all clusters from index keep on. at_once: nothing on the device points to them. */
int clusters_chain_cut(struct clusters *h, struct clusters_chain *c, uint32_t keep, bool at_once,
                       const char *what);

/* ---- free space (space.c, pending.c) ---- */
/* Finds and takes up to want clusters in one piece: at hint when free there (hint 0: none), else
 * the first piece that is long enough, else the longest found. -ENOSPC when nothing is free. In
 * sync mode the piece begins where its FAT entries lie in as few sectors as they can. */
int clusters_take(struct clusters *h, uint32_t hint, uint32_t want, uint32_t *first, uint32_t *got);
int clusters_mark(struct clusters *h, uint32_t first, uint32_t count, bool used);
/* -EUCLEAN when one of these clusters, which a file owns, is marked free. */
int clusters_check_used(struct clusters *h, uint32_t first, uint32_t count);
int clusters_count_free(struct clusters *h, uint32_t *free_clusters);
/* For drivers' mark: sets or clears bits [bit, bit + n) of p; returns how many were otherwise. */
uint32_t clusters_fill_bits(uint8_t *p, uint32_t bit, uint32_t n, bool used);
int clusters_free_later(struct clusters *h, uint32_t first,
                        uint32_t count); /* with the next commit */
int clusters_free_now(struct clusters *h, uint32_t first, uint32_t count);
int clusters_cut_later(struct clusters *h, uint32_t cluster, uint32_t old_next);
bool clusters_cut_pending(const struct clusters *h, uint32_t cluster);
int clusters_apply_pending(struct clusters *h); /* frees what was pending if its epoch has passed */
int clusters_commit(struct clusters *h); /* commits everything, then frees what was pending */
int clusters_trim(struct clusters *h, uint64_t min_length, uint64_t *trimmed);
int clusters_sync(struct volume *v, bool clean, int (*mark_clean)(struct clusters *h));
int clusters_statfs(struct volume *v, struct volume_statfs *out);
int clusters_count_bad(struct volume *v, uint32_t *bad);
int clusters_trim_volume(struct volume *v, uint64_t min_length, uint64_t *trimmed);
size_t clusters_shrink(struct volume *v, size_t bytes);
void clusters_policy_changed(struct volume *v);

/* ---- time stamps (stamp.c) ---- raw: DOS date << 16 | time */
struct clusters_stamp {
    uint32_t raw;
    uint8_t ten_ms; /* 0..199; 0 where the format has none */
    uint8_t offset; /* exFAT 7.4.10: OffsetValid | quarter hours; 0 where the format has none */
};
/* zone: for a stamp that says no offset; *offset_minutes is VOLUME_NO_OFFSET then. */
int64_t clusters_stamp_ns(const struct clusters_stamp *s, const struct base_zone *zone,
                          int16_t *offset_minutes);
enum clusters_stamp_kind { CLUSTERS_CREATED, CLUSTERS_MODIFIED, CLUSTERS_ACCESSED };
/* All clamp to 1980-01-01 … 2107-12-31 and round down. With an offset, which is rounded to quarter
 * hours while the moment stays exact: to 10 ms, accessed to 2 s. */
struct clusters_stamp clusters_stamp_make(int64_t ns, int16_t offset_minutes,
                                          enum clusters_stamp_kind kind);
/* In local time without an offset: created to 10 ms, modified to 2 s, accessed to the day. */
struct clusters_stamp clusters_stamp_make_local(int64_t ns, const struct base_zone *zone,
                                                enum clusters_stamp_kind kind);
/* As the volume's format stores it, in the volume's zone. */
struct clusters_stamp clusters_stamp_for(const struct volume *v, int64_t ns,
                                         enum clusters_stamp_kind kind);

/* ---- nodes (node.c) ---- */
struct clusters_hint {
    bool valid;
    uint32_t index;    /* first entry of the free run */
    uint32_t count;    /* free entries from there */
    uint32_t min_need; /* smallest set for which no earlier run fits */
    uint32_t seen;     /* entries of the run before this one are known to be free */
    bool ended;        /* … and the directory's end is among them */
    bool listed;       /* holds as long as the list of holes, which has all the others, is there */
};

struct clusters_node {
    struct volume_node base;
    uint32_t index;   /* first entry in the parent */
    uint32_t entries; /* entries of the set */
    uint16_t attributes;
    struct clusters_stamp created, modified, accessed;
    uint64_t size, valid; /* valid: where a format has none, until the entry is written */
    struct clusters_chain chain;
    uint64_t reserved; /* clusters in chain beyond size, kept for later writes (keep_size) */
    bool pinned;       /* reserved clusters without a handle: in clusters.pins until a clean sync */
    /* directories */
    uint64_t region; /* byte offset of a directory that is no chain (FAT12/16 root); 0: a chain */
    struct names_dir *names;
    struct clusters_hint hint;
    bool walked; /* a whole walk has been made, and found no room for an index */
};
static inline struct clusters_node *clusters_node_of(struct volume_node *n)
{
    return (struct clusters_node *)n;
}
static inline bool clusters_is_root(const struct clusters_node *n)
{
    return n->base.parent == NULL;
}
const char *clusters_owner(const struct clusters_node *n); /* "root directory", … for reports */
int clusters_node_new(struct volume *v, struct clusters_node **out); /* not yet entered */
void clusters_node_destroy(struct clusters_node *n);
/* index is set; dir NULL: the root. */
int clusters_node_enter(struct clusters_node *n, struct clusters_node *dir, enum volume_kind kind);
/* Nothing in memory has its entries at the offset, since they are free. Damage: something else that
 * owns these clusters has overwritten them. */
int clusters_check_unused(struct volume *v, uint64_t entry_offset);
uint64_t clusters_node_key(uint64_t entry_offset);
/* The node of the set at index in dir: the one in memory, or a new one that load() fills in.
 * -EUCLEAN for a directory that contains itself. */
int clusters_node_get(struct clusters_node *dir, uint32_t index,
                      int (*load)(const void *set, struct clusters_node *n), const void *set,
                      struct clusters_node **out);
void clusters_stamp_all(struct clusters_node *n); /* created, modified, accessed: now */
/* A file or directory has its set at index in dir now. */
int clusters_node_moved(struct clusters_node *n, struct clusters_node *dir, uint32_t index,
                        uint32_t entries);
/* What must hold before a rename replaces it: empty, and its clusters are its own. */
int clusters_check_replaced(struct volume_node *replaced);
void clusters_touch_dir(struct clusters_node *dir); /* modified now; written with the next sync */
int clusters_setattr(struct volume_node *node, const struct volume_setattr *how);
int clusters_stat(struct volume_node *node, struct volume_stat *out);
void clusters_stat_node(const struct clusters_node *node, uint64_t entry_offset,
                        struct volume_stat *out);
int clusters_pin(struct clusters_node *n);
int clusters_unpin(struct clusters_node *n);
int clusters_drop_reserved(struct clusters_node *n); /* clusters kept beyond the size go back */
int clusters_release(struct volume_node *node);

/* ---- contents (file.c) ---- driver functions, as they are */
int clusters_read(struct volume_node *node, uint64_t offset, void *buffer, size_t n, size_t *done);
int clusters_write(struct volume_node *node, uint64_t offset, const void *buffer, size_t n,
                   size_t *done);
/* Before an entry that says the size is written: zeros up to it, where the format can't say that
 * they are not there yet. */
int clusters_fill(struct clusters_node *n);
int clusters_resize(struct volume_node *node, uint64_t size);
int clusters_allocate(struct volume_node *node, uint64_t offset, uint64_t n, bool keep_size);
int clusters_extents(struct volume_node *node, struct volume_extents *out);

/* ---- directories (directory.c) ---- */
/* Entries that the directory's clusters hold. */
int clusters_dir_entries(struct clusters_node *dir, uint32_t *entries);
/* Byte offset of entry `index`, and how many entries follow it in one piece; -ERANGE past the end.
 */
int clusters_dir_find(struct clusters_node *dir, uint32_t index, uint64_t *offset, uint32_t *piece);
/* The same byte offset for reports; 0 when it can't be found. */
uint64_t clusters_dir_offset(struct clusters_node *dir, uint32_t index);
int clusters_dir_read(struct clusters_node *dir, uint32_t index, uint32_t count, uint8_t *out);
/* As many of the entries from index on as one block holds, at most `most`; *got: how many, not 0.
 */
int clusters_dir_peek(struct clusters_node *dir, uint32_t index, uint32_t most, uint8_t *out,
                      uint32_t *got);
int clusters_dir_write(struct clusters_node *dir, uint32_t index, uint32_t count, const uint8_t *in,
                       enum cache_tier tier);
/* For roll-backs: entry by entry, and no commit is needed that might fail. */
void clusters_dir_put_back(struct clusters_node *dir, uint32_t index, uint32_t count,
                           const uint8_t *in, enum cache_tier tier);
/* Zeros over clusters [from, to) of a directory's chain, new ones: nothing points to them yet. */
int clusters_dir_zero(struct clusters_node *dir, uint32_t from, uint32_t to);
int clusters_dir_check_empty(struct clusters_node *dir); /* -ENOTEMPTY */

/* Steps through the entries one by one; the pointer is valid until the next step. */
struct clusters_walk {
    struct clusters_node *dir;
    uint32_t index; /* of the next entry */
    uint32_t total;
    bool whole;     /* from the first entry: what follows is read ahead */
    uint64_t ahead; /* read ahead up to here */
    uint64_t piece_offset;
    uint32_t piece_left; /* entries left in the piece of clusters */
    struct cache_ref ref;
    uint32_t ref_left; /* entries left in the block */
};
int clusters_walk_begin(struct clusters_walk *w, struct clusters_node *dir, uint32_t index);
/* 1: an entry; 0: end of the clusters */
int clusters_walk_next(struct clusters_walk *w, const uint8_t **entry);
void clusters_walk_end(struct clusters_walk *w);
/* Byte offset of the entry that clusters_walk_next gave. */
uint64_t clusters_walk_offset(const struct clusters_walk *w);

/* What the tables of csrc/names are sized by: they take a name for three entries. */
static inline uint32_t clusters_names_size(const struct clusters_node *dir, uint32_t entries)
{
    return entries * clusters_of(dir->base.volume)->names_per_three;
}

/* ---- finding a name (search.c) ---- */
struct clusters_gap {      /* free entries seen by a walk */
    uint32_t start, count; /* run of free entries under way */
    uint32_t need;
    struct clusters_hint hint;
};
struct clusters_search {
    struct clusters_node *dir;
    /* The driver's: sees each entry in use in turn, enters names (names_build_add when building),
     * and sets found, found_at. `broken`: a free entry lies before the next one. */
    void (*see)(struct clusters_search *s, uint32_t index, const uint8_t *entry);
    void (*broken)(struct clusters_search *s);
    /* Compares the name at a position: 1 it is, 0 it is not, or -errno. */
    int (*candidate)(struct clusters_search *s, uint32_t position);
    bool building, found;
    bool collect; /* hint and holes are to be made from this walk */
    uint32_t found_at;
    struct clusters_gap gap;
};
/* By filter, index or walk; need: entries of the set that a create would want (0: none). 0:
 * candidate has said yes of one; -ENOENT. */
int clusters_lookup(struct clusters_search *s, uint64_t hash, uint32_t need);
int clusters_search_free(struct clusters_search *s, uint32_t need); /* the body of ops->scan_free */

/* ---- a place for a new set (slot.c) ---- */
struct clusters_slot {
    uint32_t index;
    uint32_t run;  /* free entries from index on, >= need */
    uint32_t skip; /* 0; a driver that leaves the first one free sets it, when run > need */
    bool from_hole, at_tail;
};
static inline uint32_t clusters_slot_at(const struct clusters_slot *slot)
{
    return slot->index + slot->skip;
}
/* Neither format allows it in names, nor exFAT in labels (exFAT 7.7.3, fatgen103 "Long Names"). */
bool clusters_unit_forbidden(uint16_t unit);
int clusters_check_name(struct volume *v, const uint16_t *unit, uint32_t n); /* of a new file */
/* Grows the directory when there is none. The place is not used until clusters_slot_commit. */
int clusters_slot_find(struct clusters_node *dir, uint32_t need, struct clusters_slot *slot);
void clusters_slot_commit(struct clusters_node *dir, const struct clusters_slot *slot,
                          uint32_t need); /* the set is written */
void clusters_slot_cancel(struct clusters_node *dir, const struct clusters_slot *slot);
void clusters_slot_freed(struct clusters_node *dir, uint32_t index, uint32_t count);
/* The set with these name hashes is in place, or was erased: slot, hint and tables follow. */
void clusters_set_written(struct clusters_node *dir, const struct clusters_slot *slot,
                          uint32_t need, const uint64_t *hashes, unsigned n);
/* A set that stays in its place has other names. */
void clusters_set_renamed(struct clusters_node *dir, uint32_t index, const uint64_t *old,
                          unsigned old_n, const uint64_t *hashes, unsigned n);
/* Something was rolled back, as far as that could be done: what is in the bytes is true, and not
 * the tables, holes and hint. */
void clusters_set_rolled_back(struct clusters_node *dir);
void clusters_set_erased(struct clusters_node *dir, uint32_t index, uint32_t count,
                         const uint64_t *hashes, unsigned n);

#endif
