/* What is remembered about directories so that their cost does not grow: a Bloom filter of the
 * names that may exist, an index from name hash to position, and the free runs between entries; all
 * under one LRU and memory budget.
 *
 * A driver makes one names_dir per directory it has open or cached, and tells it what it does.
 * Hashes are 64-bit hashes of the whole up-cased name. Positions are entry numbers within the
 * directory (32-byte entries for exFAT and FAT). The volume's lock guards all of it, except the
 * process-wide pool, which has its own.
 */
#ifndef PYEXFAT_NAMES_NAMES_H
#define PYEXFAT_NAMES_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct names_counters { /* embedded in the volume's counters */
    uint64_t filter_tests, filter_rejects, filter_false_positives, filter_builds, filter_drops;
    uint64_t index_hits, index_misses, index_builds,
        index_drops; /* misses: absent by a complete index */
    uint64_t hole_hits, hole_drops;
    uint64_t shrinks; /* directories that lost their tables to the budget */
};

struct names_policy {
    bool filter, index, holes;
};

/* ---- budget over many volumes; NULL anywhere means no such budget ---- */
struct names_pool;
struct names_pool *names_pool_new(size_t budget);
struct names_pool *names_pool_ref(struct names_pool *p);
void names_pool_unref(struct names_pool *p);
void names_pool_set_budget(struct names_pool *p, size_t budget);
size_t names_pool_held(struct names_pool *p);
size_t names_pool_peak(struct names_pool *p);

/* ---- one per volume ---- */
struct names_cache;
struct names_cache *names_cache_new(struct names_pool *pool, size_t budget,
                                    const struct names_policy *policy,
                                    struct names_counters *counters);
void names_cache_delete(struct names_cache *c); /* after the last directory */
void names_cache_set_budget(struct names_cache *c, size_t budget);
/* Mechanisms switched off lose their tables in every directory, in use or not; those switched on
 * are built as usual. */
void names_cache_set_policy(struct names_cache *c, const struct names_policy *policy);
size_t names_cache_held(const struct names_cache *c); /* bytes, as really allocated */
size_t names_cache_peak(const struct names_cache *c);
/* Gives back at least `bytes` from the least recently used directories not in use; returns what was
 * freed. */
size_t names_cache_shrink(struct names_cache *c, size_t bytes);

/* ---- one per directory ---- */
struct names_dir;
struct names_dir *names_dir_new(struct names_cache *c); /* NULL: no memory */
void names_dir_delete(struct names_dir *d);
/* While in use (nestable) a directory is never shrunk; the first use moves it to the recent end. */
void names_dir_use(struct names_dir *d);
void names_dir_unuse(struct names_dir *d); /* the budget is enforced here */
void names_dir_drop(struct names_dir *d);  /* all tables: they may be wrong now */

/* Lookup. ABSENT is certain; MAYBE says: walk the directory. */
enum names_answer { NAMES_MAYBE = 0, NAMES_ABSENT, NAMES_CANDIDATES };
/* With a complete index: ABSENT, or CANDIDATES to be compared one by one with names_next. Else by
 * the filter. */
enum names_answer names_lookup(struct names_dir *d, uint64_t hash);
/* Steps through the positions recorded for hash; *cursor starts at 0; false: no more. */
bool names_next(struct names_dir *d, uint64_t hash, uint32_t *cursor, uint32_t *position);
/* The walk after MAYBE or CANDIDATES did not find the name: counts a false positive of the filter.
 */
void names_missed(struct names_dir *d);

/* Building, as a by-product of a walk from the first entry to the end of the directory. `entries`
 * is the directory's allocated size in entries (the filter's size follows from it: 4 bits an entry,
 * 512 bytes to 4 MiB). Returns false when nothing needs building. Adds may come between begin and
 * end/abort; only a complete walk calls end. */
bool names_build_begin(struct names_dir *d, uint32_t entries);
void names_build_add(struct names_dir *d, uint64_t hash, uint32_t position);
void names_build_end(struct names_dir *d);
void names_build_abort(struct names_dir *d);

/* Changes. `entries` as above (growth past the filter's size drops it; it is rebuilt by the next
 * complete walk). */
void names_added(struct names_dir *d, uint64_t hash, uint32_t position, uint32_t entries);
void names_removed(struct names_dir *d, uint64_t hash, uint32_t position);
void names_moved(struct names_dir *d, uint64_t hash, uint32_t from, uint32_t to);
/* A name's set may or may not have reached the disk: call before any roll-back. */
void names_uncertain(struct names_dir *d);
/* A name with this hash is about to be added: what that takes is fetched from memory meanwhile. */
void names_expect(struct names_dir *d, uint64_t hash);
bool names_index_complete(const struct names_dir *d);
bool names_filter_present(const struct names_dir *d);
size_t names_filter_bytes(const struct names_dir *d);
size_t names_filter_bits_set(const struct names_dir *d);

/* Free runs ("holes") before the end of the used part: a bounded list; the first that fits is
 * taken, as by a walk. A run that was pushed out of the bounded list is forgotten
 * (names_holes_complete turns false: a walk may find more). */
void names_hole_add(struct names_dir *d, uint32_t position, uint32_t count); /* joins neighbours */
bool names_hole_take(struct names_dir *d, uint32_t need, uint32_t *position,
                     uint32_t *count); /* the whole run, removed */
/* The run that ends just before entry `end`, removed; false: there is none. */
bool names_hole_take_before(struct names_dir *d, uint32_t end, uint32_t *count);
void names_hole_cut(struct names_dir *d, uint32_t position,
                    uint32_t count); /* these entries are used now */
/* A complete walk has just reported every run (names_holes_drop before it: what was forgotten up to
 * here then does not count). */
void names_holes_known(struct names_dir *d);
bool names_holes_kept(const struct names_dir *d); /* since then the list has not been dropped */
bool names_holes_complete(const struct names_dir *d);
/* The same for runs of at least `need` entries: no walk will find one that the list does not have.
 */
bool names_holes_complete_for(const struct names_dir *d, uint32_t need);
uint32_t names_holes_largest(const struct names_dir *d);
void names_holes_drop(struct names_dir *d);

#endif
