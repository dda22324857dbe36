/* What the files of csrc/names share. */
#ifndef PYEXFAT_NAMES_INTERNAL_H
#define PYEXFAT_NAMES_INTERNAL_H

#include "names/names.h"

#include "base/bytes.h"

#define NAMES_FILTER_MIN 512u
#define NAMES_FILTER_MAX (4u << 20)
#define NAMES_SEGMENTS 256u
#define NAMES_HOLES_MAX 65536u /* runs */
#define NAMES_HOLES_LEAF 63u   /* runs in a leaf: a node is 512 bytes */
#define NAMES_HOLES_INNER 31u

struct names_filter {
    uint8_t *bits; /* NULL: none */
    size_t bytes, set;
    size_t limit; /* bits set at which it is dropped */
};

struct names_arena {
    uint8_t *p;
    size_t bytes; /* accounted */
    bool region;  /* of large pages, with space to grow into */
};

struct names_index {
    struct names_arena slots; /* tag << 32 | position + 1 */
    struct names_arena marks; /* a byte a slot; 0: empty */
    uint32_t segments;        /* 0: none; 1; or NAMES_SEGMENTS by the tag's high bits */
    uint32_t capacity;        /* slots of a segment */
    uint32_t unmoved,
        old_capacity; /* segments before `unmoved` are where they were before growth */
    uint32_t count;
    bool broken;               /* by growth that failed: it does not find all names any more */
    struct names_arena counts; /* of each segment, when there are many */
};

struct names_leaf {
    uint32_t position[NAMES_HOLES_LEAF], count[NAMES_HOLES_LEAF];
};

struct names_inner {
    uint32_t first[NAMES_HOLES_INNER]; /* sorted; no run in the child is before it */
    uint32_t most[NAMES_HOLES_INNER], least[NAMES_HOLES_INNER]; /* lengths of runs in the child */
    uint32_t child[NAMES_HOLES_INNER];
};

struct names_node {
    uint32_t n; /* runs or children; the next free node when it is free */
    union {
        struct names_leaf leaf;
        struct names_inner inner;
    } u;
};

struct names_holes {
    struct names_node *v; /* v[0] is none */
    uint32_t capacity, used, free, free_count;
    uint32_t root, height; /* height 0: the root is a leaf */
    uint32_t runs;
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
    bool hitting;        /* the last look-up found a name in the index: so may the next */
    size_t index_want;   /* what an index would have needed when it was refused, 0: it was not */
    uint32_t refused_at; /* the directory's size then */
    uint32_t entries;    /* the directory's size, as it was told last */
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

/* arena.c */
bool names_arena_grow(struct names_dir *d, struct names_arena *a, size_t bytes); /* with zeros */
void names_arena_cut(struct names_dir *d, struct names_arena *a, size_t bytes);
void names_arena_free(struct names_dir *d, struct names_arena *a);

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
/* Has the processor fetch the slot, which will be looked at or filled. */
void names_index_fetch(const struct names_index *x, uint32_t tag);
void names_index_free(struct names_dir *d);
/* Ends the index and makes a filter of its names within the memory it had; without memory for that,
 * no filter. */
void names_index_to_filter(struct names_dir *d, size_t bytes);

/* holes.c */
void names_holes_free(struct names_dir *d);

/* dir.c: all tables of a directory, without a word to the counters of drops when it has none. */
void names_dir_free_tables(struct names_dir *d);

#endif
