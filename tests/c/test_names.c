/* Name filter, index and their memory, against plain arrays. */
#include "names/names.h"

#include "check.h"
#include "names_help.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOTS ((size_t)1 << 30)

static const struct names_policy all_on = {true, true, true};
static const struct names_policy filter_only = {true, false, false};
static uint64_t state = 1;

static uint64_t rnd64(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t rnd(uint32_t below)
{
    return (uint32_t)(rnd64() % below);
}

/* The hash of name number i, as good as random and always the same. */
static uint64_t hash_of(uint64_t i)
{
    uint64_t z = (i + 1) * UINT64_C(0xd6e8feb86659fd93);
    z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return z ^ (z >> 32);
}

/* A walk over names 0..count-1 of three entries each. */
static bool walk(struct names_dir *d, uint32_t count, uint32_t entries)
{
    if (!names_build_begin(d, entries)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        names_build_add(d, hash_of(i), i * 3);
    }
    names_build_end(d);
    return true;
}

static bool has(struct names_dir *d, uint64_t hash, uint32_t position)
{
    uint32_t cursor = 0, p;
    while (names_next(d, hash, &cursor, &p)) {
        if (p == position) {
            return true;
        }
    }
    return false;
}

/* ---- filter ---- */

static void test_filter_size(void)
{
    static const struct {
        uint32_t entries;
        size_t bytes;
    } cases[] = {{0, 512},       {128, 512},          {1024, 512},           {2048, 1024},
                 {30000, 15000}, {8388608, 4u << 20}, {UINT32_MAX, 4u << 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig r;
        rig_up(&r, LOTS, &filter_only);
        CHECK(!names_filter_present(r.dir) && names_filter_bytes(r.dir) == 0);
        CHECK(names_lookup(r.dir, 1) == NAMES_MAYBE);
        CHECK(walk(r.dir, 0, cases[i].entries));
        CHECK(names_filter_present(r.dir) && names_filter_bytes(r.dir) == cases[i].bytes);
        CHECK(names_cache_held(r.cache) == cases[i].bytes);
        CHECK(names_filter_bits_set(r.dir) == 0 && names_lookup(r.dir, 1) == NAMES_ABSENT);
        CHECK(r.n.filter_builds == 1 && r.n.filter_tests == 1 && r.n.filter_rejects == 1);
        CHECK(!names_build_begin(r.dir, cases[i].entries)); /* nothing needs building */
        rig_down(&r);
        CHECK(r.n.filter_drops == 0);
    }
}

/* Full of names of three entries: a fifth of the bits, about one miss in a hundred let through, no
 * name ever rejected. */
static void test_filter_rate(uint32_t names)
{
    struct rig r;
    rig_up(&r, LOTS, &filter_only);
    CHECK(walk(r.dir, names, names * 3));
    CHECK(names_filter_bytes(r.dir) <= (size_t)names * 3 / 2 || names_filter_bytes(r.dir) == 512);
    for (uint32_t i = 0; i < names; i++) {
        CHECK(names_lookup(r.dir, hash_of(i)) == NAMES_MAYBE);
    }
    size_t bits = names_filter_bytes(r.dir) * 8, set = names_filter_bits_set(r.dir);
    double fill = (double)set / (double)bits;
    CHECK(fill < 0.23);
    memset(&r.n, 0, sizeof r.n);
    for (uint32_t i = 0; i < 100000; i++) {
        if (names_lookup(r.dir, hash_of(UINT64_C(1) << 40 | i)) == NAMES_MAYBE) {
            names_missed(r.dir);
            names_missed(r.dir); /* once per look-up */
        }
    }
    CHECK(r.n.filter_tests == 100000);
    CHECK(r.n.filter_rejects + r.n.filter_false_positives == 100000);
    double expected = fill * fill * fill * 100000;
    CHECK((double)r.n.filter_false_positives < expected * 1.2 + 100);
    CHECK((double)r.n.filter_false_positives > expected * 0.8 - 100);
    CHECK(r.n.filter_false_positives < 5000);
    rig_down(&r);
}

/* Growth: given up at a third of the bits, made again by the next walk; walks cost each create a
 * constant. */
static void test_filter_growth(void)
{
    struct rig r;
    uint64_t visited = 0;
    uint32_t total = 100000;
    rig_up(&r, LOTS, &filter_only);
    CHECK(walk(r.dir, 0, 1024));
    for (uint32_t i = 0; i < total; i++) {
        uint32_t entries = (i * 3 / 1024 + 1) * 1024;
        if (names_lookup(r.dir, hash_of(i)) == NAMES_MAYBE) {
            visited += i;
            names_missed(r.dir);
            walk(r.dir, i, entries);
        }
        CHECK(names_filter_present(r.dir));
        CHECK(names_filter_bits_set(r.dir) * 3 < names_filter_bytes(r.dir) * 8);
        names_added(r.dir, hash_of(i), i * 3, (i * 3 / 1024 + 1) * 1024);
    }
    CHECK(r.n.filter_drops >= 5 &&
          r.n.filter_drops == r.n.filter_builds - 1 + (names_filter_present(r.dir) ? 0 : 1));
    /* Besides those, one false positive in a hundred walks. */
    CHECK(visited < (uint64_t)total * 4 + r.n.filter_false_positives * total);
    CHECK(r.n.filter_builds < 20 && r.n.filter_false_positives < total / 20);
    rig_down(&r);
}

/* Names of one entry each: over a third full as soon as built. It must not be built again for every
 * name. */
static void test_filter_short_names(void)
{
    struct rig r;
    rig_up(&r, LOTS, &filter_only);
    CHECK(names_build_begin(r.dir, 65536));
    for (uint32_t i = 0; i < 65536; i++) {
        names_build_add(r.dir, hash_of(i), i);
    }
    names_build_end(r.dir);
    CHECK(names_filter_bits_set(r.dir) * 3 > names_filter_bytes(r.dir) * 8);
    for (uint32_t i = 0; i < 10000; i++) { /* churn: one is removed, another added */
        names_removed(r.dir, hash_of(i), i);
        names_added(r.dir, hash_of(70000 + i), i, 65536);
        CHECK(names_lookup(r.dir, hash_of(70000 + i)) == NAMES_MAYBE);
    }
    CHECK(names_filter_present(r.dir) && r.n.filter_drops == 0);
    for (uint32_t i = 0; i < 200000; i++) {
        names_added(r.dir, hash_of(100000 + i), i, 65536);
    }
    CHECK(!names_filter_present(r.dir) && r.n.filter_drops == 1);
    rig_down(&r);
}

static void test_uncertain(void)
{
    struct rig r;
    uint32_t p, n;
    rig_up(&r, LOTS, &all_on);
    CHECK(walk(r.dir, 1000, 3000));
    names_hole_add(r.dir, 5000, 3);
    names_holes_known(r.dir);
    names_uncertain(r.dir);
    CHECK(!names_filter_present(r.dir) && !names_index_complete(r.dir));
    CHECK(names_lookup(r.dir, hash_of(5000)) == NAMES_MAYBE);
    CHECK(!names_holes_complete(r.dir) && !names_hole_take(r.dir, 1, &p, &n));
    CHECK(r.n.filter_drops == 1 && r.n.index_drops == 1 && names_cache_held(r.cache) == 0);
    /* In the middle of a walk: that walk makes nothing. */
    CHECK(names_build_begin(r.dir, 3000));
    names_build_add(r.dir, hash_of(1), 3);
    names_uncertain(r.dir);
    names_build_add(r.dir, hash_of(2), 6);
    names_build_end(r.dir);
    CHECK(!names_filter_present(r.dir) && !names_index_complete(r.dir));
    CHECK(names_build_begin(r.dir, 3000));
    names_build_abort(r.dir);
    names_build_end(r.dir);
    CHECK(!names_filter_present(r.dir) && !names_index_complete(r.dir));
    CHECK(names_cache_held(r.cache) == 0);
    rig_down(&r);
}

/* ---- index ---- */

/* Random changes; few hashes, so that names share tags; every look-up is compared with the array.
 */
static void test_index_model(uint32_t names, uint32_t steps, uint32_t hashes)
{
    struct rig r;
    static const struct names_policy index_only = {false, true, false};
    uint32_t *position = calloc(names, sizeof *position); /* 0: absent */
    uint32_t next = 1;
    CHECK(position != NULL);
    rig_up(&r, LOTS, &index_only);
    CHECK(walk(r.dir, 0, 0) && names_index_complete(r.dir));
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t i = rnd(names);
        uint64_t h = hash_of(i % hashes);
        if (position[i] == 0) {
            position[i] = next++;
            names_added(r.dir, h, position[i], 1000);
        } else if (rnd(3) == 0) {
            names_moved(r.dir, h, position[i], next);
            position[i] = next++;
        } else {
            names_removed(r.dir, h, position[i]);
            CHECK(!has(r.dir, h, position[i]));
            position[i] = 0;
        }
        CHECK(position[i] == 0 || has(r.dir, h, position[i]));
        uint32_t j = rnd(names);
        CHECK(has(r.dir, hash_of(j % hashes), position[j] == 0 ? UINT32_MAX - 1 : position[j]) ==
              (position[j] != 0));
    }
    CHECK(names_index_complete(r.dir) && r.n.index_drops == 0);
    if (hashes == names) {
        uint32_t wrong = 0; /* by tags of 32 bits that are the same */
        for (uint32_t i = 0; i < names; i++) {
            bool found = names_lookup(r.dir, hash_of(i)) == NAMES_CANDIDATES;
            CHECK(found || position[i] == 0);
            wrong += found && position[i] == 0;
        }
        CHECK(wrong <= names / 10000);
    }
    /* A removal of what was never there shows that the index is wrong. */
    names_removed(r.dir, hash_of(0), UINT32_MAX - 5);
    CHECK(!names_index_complete(r.dir) && r.n.index_drops == 1);
    rig_down(&r);
    free(position);
}

static void test_index_memory(uint32_t names, size_t most)
{
    struct rig r;
    static const struct names_policy index_only = {false, true, false};
    rig_up(&r, LOTS, &index_only);
    CHECK(walk(r.dir, names, names * 3));
    CHECK(names_cache_held(r.cache) <= most);
    CHECK(names_cache_peak(r.cache) <= most + most / 8); /* growth never has the table twice */
    for (uint32_t i = 0; i < names; i += 97) {
        CHECK(has(r.dir, hash_of(i), i * 3));
    }
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        wrong += names_lookup(r.dir, hash_of(UINT64_C(1) << 40 | i)) != NAMES_ABSENT;
    }
    CHECK(wrong < 50);
    for (uint32_t i = 0; i < names; i++) {
        names_removed(r.dir, hash_of(i), i * 3);
    }
    CHECK(names_index_complete(r.dir) && names_lookup(r.dir, hash_of(5)) == NAMES_ABSENT);
    rig_down(&r);
}

/* Names found while an index grows, at every step of it: through all ways of being laid out. */
static void test_index_growth(uint32_t names)
{
    struct rig r;
    static const struct names_policy index_only = {false, true, false};
    rig_up(&r, LOTS, &index_only);
    CHECK(walk(r.dir, 0, 0));
    for (uint32_t i = 0; i < names; i++) {
        names_expect(r.dir, hash_of(i)); /* changes nothing */
        names_added(r.dir, hash_of(i), i * 3, 1000);
        CHECK(has(r.dir, hash_of(i), i * 3));
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t j = rnd(i + 1);
            CHECK(has(r.dir, hash_of(j), j * 3) && !has(r.dir, hash_of(j), j * 3 + 1));
        }
    }
    for (uint32_t i = 0; i < names; i++) {
        CHECK(names_lookup(r.dir, hash_of(i)) == NAMES_CANDIDATES);
        names_removed(r.dir, hash_of(i), i * 3);
    }
    CHECK(names_index_complete(r.dir) && r.n.index_hits == names && r.n.index_misses == 0);
    uint32_t position = 1, cursor = 0;
    for (uint32_t i = 0; i < names; i += 7, cursor = 0) {
        CHECK(!names_next(r.dir, hash_of(i), &cursor, &position));
    }
    rig_down(&r);
}

/* More names of one hash than can be moved together: no index, rather than one that loses some. */
static void test_index_of_one_hash(bool with_filter)
{
    struct rig r;
    uint32_t i = 0;
    rig_up(&r, LOTS, &all_on);
    CHECK(walk(r.dir, 0, with_filter ? 1000000 : 1024)); /* which is outgrown */
    for (; i < 60000; i++) {
        names_added(r.dir, hash_of(i), i * 3, 1000000);
    }
    for (; i < 63000; i++) {
        names_added(r.dir, hash_of(60000), i * 3, 1000000);
        CHECK(!names_index_complete(r.dir) || has(r.dir, hash_of(60000), i * 3));
    }
    for (; i < 200000; i++) {
        names_added(r.dir, hash_of(i), i * 3, 1000000);
    }
    CHECK(!names_index_complete(r.dir) && r.n.index_drops == 1);
    CHECK(names_filter_present(r.dir) == with_filter);
    for (uint32_t j = 0; j < 60000; j += 11) {
        CHECK(names_lookup(r.dir, hash_of(j)) == NAMES_MAYBE);
    }
    CHECK(names_lookup(r.dir, hash_of(60000)) == NAMES_MAYBE);
    rig_down(&r);
}

/* Five eighths of the default budget have room for the index of the largest directory, as it is
 * built by a walk that builds the filter as well: this gives way. */
static void test_index_of_the_largest(void)
{
    enum { ENTRIES = (256 << 20) / 32, NAMES = ENTRIES / 3 };
    struct rig r;
    rig_up(&r, (size_t)40 << 20, &all_on);
    CHECK(walk(r.dir, NAMES, ENTRIES) && names_index_complete(r.dir));
    CHECK(names_cache_peak(r.cache) <= (size_t)40 << 20);
    for (uint32_t i = 0; i < NAMES; i += 101) {
        CHECK(has(r.dir, hash_of(i), i * 3));
    }
    rig_down(&r);
}

/* Changes while a walk is under way are neither lost nor entered twice. */
static void test_changes_during_walk(void)
{
    struct rig r;
    uint32_t cursor = 0, p, found = 0;
    rig_up(&r, LOTS, &all_on);
    CHECK(names_build_begin(r.dir, 3000));
    names_build_add(r.dir, hash_of(1), 3);
    names_added(r.dir, hash_of(9), 27, 3000);
    names_removed(r.dir, hash_of(1), 3);
    names_removed(r.dir, hash_of(77), 900); /* not seen yet: no sign of an error */
    names_build_add(r.dir, hash_of(9), 27);
    names_moved(r.dir, hash_of(8), 24, 60);
    names_build_end(r.dir);
    CHECK(names_index_complete(r.dir) && names_filter_present(r.dir));
    CHECK(has(r.dir, hash_of(8), 60) && !has(r.dir, hash_of(1), 3));
    while (names_next(r.dir, hash_of(9), &cursor, &p)) {
        found++;
    }
    CHECK(found == 1 && !names_next(r.dir, hash_of(9), &cursor, &p));
    rig_down(&r);
}

/* An index that does not fit gives way to a filter, is not tried again by every walk, and is once
 * there is room. */
static void test_index_refused(void)
{
    struct rig r;
    rig_up(&r, 100 * 1024, &all_on);
    CHECK(walk(r.dir, 100000, 150000)); /* filter 75,000 bytes; index would need 1 MB */
    CHECK(names_filter_present(r.dir) && !names_index_complete(r.dir));
    CHECK(names_cache_peak(r.cache) <= 100 * 1024);
    CHECK(!names_build_begin(r.dir, 150000) && !names_build_begin(r.dir, 160000));
    names_cache_set_budget(r.cache, 2 << 20);
    CHECK(walk(r.dir, 100000, 160000) && names_index_complete(r.dir));
    names_cache_set_budget(r.cache, 0); /* in use: kept until then */
    CHECK(names_index_complete(r.dir));
    names_dir_unuse(r.dir);
    CHECK(!names_index_complete(r.dir) && !names_filter_present(r.dir));
    CHECK(names_cache_held(r.cache) == 0 && r.n.shrinks == 1);
    names_dir_use(r.dir);
    walk(r.dir, 1000, 3000);
    CHECK(names_cache_held(r.cache) == 0 && names_lookup(r.dir, hash_of(1)) == NAMES_MAYBE);
    CHECK(!names_build_begin(r.dir, 3000));
    rig_down(&r);
}

/* The same by growth: the filter is made from the index, so no name is lost and no walk is needed.
 */
static void test_index_outgrown(size_t budget, uint32_t least, uint32_t most)
{
    struct rig r;
    static const struct names_policy index_only = {false, true, false};
    rig_up(&r, budget, &index_only);
    CHECK(walk(r.dir, 0, 1024));
    names_cache_set_policy(r.cache, &all_on);
    uint32_t i = 0;
    for (; names_index_complete(r.dir); i++) {
        CHECK(i < most);
        names_added(r.dir, hash_of(i), i * 3, i * 3 + 3);
    }
    CHECK(i > least && names_filter_present(r.dir) && names_cache_peak(r.cache) <= budget);
    for (uint32_t j = 0; j < i; j++) {
        CHECK(names_lookup(r.dir, hash_of(j)) == NAMES_MAYBE);
    }
    CHECK(names_lookup(r.dir, hash_of(1 << 30)) == NAMES_ABSENT);
    rig_down(&r);
}

/* ---- memory ---- */

/* Many directories round-robin under a small budget: never more than it, never a wrong answer. */
static void test_budget(void)
{
    enum { DIRS = 100, NAMES = 2000 };
    struct names_counters n = {0};
    struct names_cache *c = names_cache_new(NULL, 256 * 1024, &all_on, &n);
    struct names_dir *d[DIRS];
    for (int i = 0; i < DIRS; i++) {
        d[i] = names_dir_new(c);
        CHECK(d[i] != NULL);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < DIRS; i++) {
            names_dir_use(d[i]);
            names_dir_use(d[i]);
            if (names_lookup(d[i], hash_of(NAMES + 1)) == NAMES_MAYBE) {
                walk(d[i], NAMES, NAMES * 3);
            }
            CHECK(names_index_complete(d[i]) && has(d[i], hash_of(7), 21));
            CHECK(names_cache_held(c) <= 256 * 1024);
            names_dir_unuse(d[i]);
            CHECK(names_index_complete(d[i]));
            names_dir_unuse(d[i]);
        }
    }
    CHECK(names_cache_peak(c) <= 256 * 1024 && n.shrinks > 100);
    /* The latest are kept, and go in order. */
    CHECK(names_index_complete(d[DIRS - 1]) && !names_index_complete(d[0]));
    int oldest = 0;
    while (!names_index_complete(d[oldest])) {
        oldest++;
    }
    names_dir_use(d[oldest]);
    names_dir_unuse(d[oldest]);
    CHECK(names_cache_shrink(c, 1) > 0);
    CHECK(names_index_complete(d[oldest]) && !names_index_complete(d[oldest + 1]));
    size_t held = names_cache_held(c);
    names_dir_use(d[DIRS - 3]);
    names_dir_unuse(d[DIRS - 3]);
    names_dir_use(d[DIRS - 2]);
    size_t freed = names_cache_shrink(c, held / 2);
    CHECK(freed >= held / 2 && names_cache_held(c) == held - freed);
    CHECK(names_index_complete(d[DIRS - 3])); /* just used */
    CHECK(names_cache_shrink(c, SIZE_MAX) > 0);
    CHECK(names_index_complete(d[DIRS - 2])); /* in use */
    CHECK(!names_index_complete(d[DIRS - 3]) && !names_index_complete(d[DIRS - 1]));
    CHECK(names_cache_shrink(c, SIZE_MAX) == 0);
    names_dir_unuse(d[DIRS - 2]);
    CHECK(names_cache_shrink(c, 1) > 0 && names_cache_held(c) == 0);
    CHECK(names_cache_shrink(c, 1) == 0); /* an empty LRU */
    for (int i = 0; i < DIRS; i++) {
        names_dir_delete(d[i]);
    }
    names_cache_delete(c);
}

/* A directory in use is not pulled from under its user, and what cannot fit is refused without
 * emptying the others. */
static void test_in_use(void)
{
    struct names_counters n = {0};
    struct names_cache *c = names_cache_new(NULL, 64 * 1024, &filter_only, &n);
    struct names_dir *a = names_dir_new(c), *b = names_dir_new(c), *e = names_dir_new(c);
    names_dir_use(a);
    CHECK(walk(a, 10, 80000)); /* 40,000 bytes */
    CHECK(walk(e, 10, 1000));
    names_dir_use(b);
    CHECK(!walk(b, 10, 60000)); /* 30,000 bytes */
    CHECK(names_filter_present(a) && names_filter_present(e) && n.shrinks == 0);
    names_dir_unuse(a);
    CHECK(walk(b, 10, 60000) && !names_filter_present(a) && names_filter_present(e));
    CHECK(names_cache_held(c) == 30000 + 512 && names_cache_peak(c) == 40000 + 512);
    names_dir_unuse(b);
    names_dir_delete(a);
    names_dir_delete(b);
    names_dir_delete(e);
    names_cache_delete(c);
}

static void test_pool(void)
{
    struct names_counters n = {0};
    struct names_pool *p = names_pool_new(64 * 1024);
    struct names_cache *c1 = names_cache_new(p, LOTS, &filter_only, &n);
    struct names_cache *c2 = names_cache_new(p, LOTS, &filter_only, &n);
    struct names_dir *a = names_dir_new(c1), *b = names_dir_new(c2), *e = names_dir_new(c2);
    CHECK(walk(a, 10, 60000) && walk(b, 10, 50000));
    CHECK(names_pool_held(p) == 55000);
    /* Full: the volume that asks gives back its own, not another's. */
    CHECK(walk(e, 10, 60000) && names_filter_present(a) && !names_filter_present(b));
    CHECK(names_pool_held(p) == 60000 && names_pool_peak(p) == 60000);
    names_dir_use(e);
    CHECK(!walk(b, 10, 20000)); /* none of its own: it goes without */
    CHECK(names_filter_present(a) && names_filter_present(e));
    names_pool_set_budget(p, 32 * 1024);
    names_dir_unuse(e); /* here it is enforced */
    CHECK(names_pool_held(p) == 30000 && !names_filter_present(e));
    names_dir_delete(a);
    names_dir_delete(b);
    names_dir_delete(e);
    names_cache_delete(c1);
    names_pool_unref(p); /* the second volume still has it */
    CHECK(names_pool_held(p) == 0);
    names_cache_delete(c2);
}

static void *pool_user(void *arg)
{
    struct names_pool *p = arg;
    struct names_counters n = {0};
    struct names_cache *c = names_cache_new(p, LOTS, &all_on, &n);
    struct names_dir *d[8];
    for (int i = 0; i < 8; i++) {
        d[i] = names_dir_new(c);
    }
    for (uint32_t i = 0; i < 400; i++) {
        struct names_dir *x = d[i % 8];
        names_dir_use(x);
        walk(x, 300 + i % 7 * 100, 3000);
        CHECK(names_pool_held(p) <= 48 * 1024);
        CHECK(names_lookup(x, hash_of(7)) != NAMES_ABSENT);
        names_dir_unuse(x);
        if (i % 5 == 0) {
            names_dir_drop(x);
        }
    }
    for (int i = 0; i < 8; i++) {
        names_dir_delete(d[i]);
    }
    names_cache_delete(c);
    return NULL;
}

static void test_pool_threads(void)
{
    struct names_pool *p = names_pool_new(48 * 1024);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&t[i], NULL, pool_user, p) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(t[i], NULL) == 0);
    }
    CHECK(names_pool_held(p) == 0 && names_pool_peak(p) <= 48 * 1024 && names_pool_peak(p) > 0);
    names_pool_unref(p);
}

/* ---- policy ---- */

static void test_policy(void)
{
    for (unsigned bits = 0; bits < 8; bits++) {
        struct names_policy policy = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
        struct rig r;
        uint32_t p, n;
        rig_up(&r, LOTS, &policy);
        CHECK(walk(r.dir, 100, 1000) == (policy.filter || policy.index));
        names_hole_add(r.dir, 600, 10);
        names_holes_known(r.dir);
        CHECK(names_filter_present(r.dir) == policy.filter);
        CHECK(names_index_complete(r.dir) == policy.index);
        CHECK(names_holes_complete(r.dir) == policy.holes);
        CHECK(names_holes_largest(r.dir) == (policy.holes ? 10 : 0));
        CHECK(names_hole_take(r.dir, 3, &p, &n) == policy.holes);
        CHECK(names_lookup(r.dir, hash_of(5000)) ==
              (policy.filter || policy.index ? NAMES_ABSENT : NAMES_MAYBE));
        static const struct names_policy off = {false, false, false};
        names_cache_set_policy(r.cache, &off);
        CHECK(names_cache_held(r.cache) == 0 && !names_holes_complete(r.dir));
        CHECK(names_lookup(r.dir, hash_of(5000)) == NAMES_MAYBE);
        rig_down(&r);
    }
}

int main(void)
{
    test_filter_size();
    test_filter_rate(100);
    test_filter_rate(20000);
    test_filter_rate(100000);
    test_filter_growth();
    test_filter_short_names();
    test_uncertain();
    test_index_model(50, 20000, 50);
    test_index_model(300, 50000, 7);
    test_index_model(20000, 200000, 20000);
    test_index_model(150000, 600000, 150000);
    test_index_growth(150000);
    test_index_of_one_hash(true);
    test_index_of_one_hash(false);
    test_index_of_the_largest();
    test_index_memory(1000000, 16 << 20);
    test_index_memory(2700000, 48 << 20);
    test_changes_during_walk();
    test_index_refused();
    test_index_outgrown(100 * 1024, 4000, 20000);
    test_index_outgrown(7 << 20, 400000, 700000);
    test_budget();
    test_in_use();
    test_pool();
    test_pool_threads();
    test_policy();
    return 0;
}
