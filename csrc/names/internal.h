/* What the files of csrc/names share. */
#ifndef PYEXFAT_NAMES_INTERNAL_H
#define PYEXFAT_NAMES_INTERNAL_H

#include "names/names.h"

#include "base/bytes.h"

#define NAMES_FILTER_MIN 512u
#define NAMES_FILTER_MAX (4u << 20)
#define NAMES_SEGMENTS 256u
#define NAMES_HOLES_MAX 65536u

struct names_filter {
    uint8_t *bits; /* NULL: none */
    size_t bytes, set;
    size_t limit; /* bits set at which it is dropped */
};

struct names_segment {
    uint64_t *slots; /* tag << 32 | position + 1; 0: empty */
    uint32_t capacity, count;
};

struct names_index {
    struct names_segment *segments; /* one, or NAMES_SEGMENTS by the tag's high bits; NULL: none */
    uint32_t segment_count;
    size_t bytes; /* of all tables */
};

struct names_hole {
    uint32_t position, count;
    uint32_t bound;       /* no run in the subtree by position is longer */
    uint32_t child[2][2]; /* of the tree by position and the tree by size: left, right; 0: none */
};

struct names_holes {
    struct names_hole *v; /* v[0] is not a run; free ones are linked by child[0][0] */
    uint32_t capacity, used, free, root[2];
    uint32_t forgotten; /* the longest run that was not kept since the last complete walk */
    uint32_t missing;   /* the longest run that was not kept up to that walk's end */
    bool known;         /* there was a complete walk */
};

struct names_dir {
    struct names_cache *cache;
    struct names_dir *prev, *next; /* in the LRU while it holds anything */
    struct names_dir *all_prev, *all_next;
    bool linked;
    uint32_t uses;
    size_t held;
    struct names_filter filter;
    struct names_index index;
    struct names_holes holes;
    bool filter_complete, index_complete;
    bool building_filter, building_index;
    bool filtered;       /* the last look-up was let through by the filter */
    size_t index_want;   /* what an index would have needed when it was refused, 0: it was not */
    uint32_t refused_at; /* the directory's size then */
};

/* The part of a name's hash that tables keep: a filter can be made again from an index. */
static inline uint32_t names_tag(uint64_t hash)
{
    return (uint32_t)(hash >> 32) ^ (uint32_t)hash;
}

struct names_counters *names_counters_of(const struct names_dir *d);

/* lru.c. Reserve makes room from others (never from d, nor from a directory in use) and accounts it
 * as d's; false: no. */
bool names_reserve(struct names_dir *d, size_t bytes);
void names_release(struct names_dir *d, size_t bytes);
bool names_could_hold(const struct names_dir *d,
                      size_t bytes); /* were the tables of all idle others given up */
const struct names_policy *names_policy_of(const struct names_dir *d);

/* filter.c */
size_t names_filter_size(uint32_t entries);
bool names_filter_make(struct names_dir *d, size_t bytes);
void names_filter_free(struct names_dir *d);
void names_filter_add(struct names_filter *f, uint32_t tag);
bool names_filter_test(const struct names_filter *f, uint32_t tag);
void names_filter_settle(
    struct names_filter *f); /* all names of the directory are in: decides its limit */

/* index.c */
enum names_result { NAMES_DONE = 0, NAMES_NO_ROOM, NAMES_NOT_FOUND };
enum names_result names_index_add(struct names_dir *d, uint32_t tag, uint32_t position);
enum names_result names_index_remove(struct names_index *x, uint32_t tag, uint32_t position);
bool names_index_next(const struct names_index *x, uint32_t tag, uint32_t *cursor,
                      uint32_t *position);
void names_index_free(struct names_dir *d);
/* Ends the index and makes a filter of its names within the memory it had; without memory for that,
 * no filter. */
void names_index_to_filter(struct names_dir *d, size_t bytes);

/* holes.c */
void names_holes_free(struct names_dir *d);

/* dir.c: all tables of a directory, without a word to the counters of drops when it has none. */
void names_dir_free_tables(struct names_dir *d);

#endif
