/* The list of free runs between the entries of a directory, against plain arrays. */
#include "names/names.h"

#include "check.h"
#include "names_help.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOTS ((size_t)1 << 30)

static const struct names_policy all_on = {true, true, true};
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

static void check_take(struct names_dir *d, bool *is_free, uint32_t space, uint32_t need)
{
    uint32_t first = 0, first_count = 0, p, n;
    for (uint32_t i = 0; i < space && first_count == 0;) {
        uint32_t run = 0;
        while (i + run < space && is_free[i + run]) {
            run++;
        }
        if (run >= need) {
            first = i;
            first_count = run;
        }
        i += run + 1;
    }
    bool got = names_hole_take(d, need, &p, &n);
    CHECK(got == (first_count > 0));
    if (got) {
        CHECK(p == first && n == first_count); /* the first that fits, the whole run */
        for (uint32_t i = p; i < p + n; i++) {
            is_free[i] = false;
        }
    }
}

static void check_take_before(struct names_dir *d, bool *is_free, uint32_t space, uint32_t end)
{
    uint32_t run = 0, n;
    while (run < end && is_free[end - 1 - run]) {
        run++;
    }
    /* Only a run that ends there: one that goes on behind it is another. */
    bool there = run > 0 && !(end < space && is_free[end]);
    bool got = names_hole_take_before(d, end, &n);
    CHECK(got == there);
    if (got) {
        CHECK(n == run);
        memset(is_free + end - n, 0, n);
    }
}

/* Changes of up to `most` entries in so many entries; from few runs to thousands and back. */
static void test_holes_model(uint32_t space, uint32_t most, uint32_t steps)
{
    struct rig r;
    bool *is_free = calloc(space, sizeof *is_free);
    CHECK(is_free != NULL);
    rig_up(&r, LOTS, &all_on);
    names_holes_known(r.dir);
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t from = rnd(space - most), count = rnd(most);
        bool fill = step / (steps / 4) % 2 == 0; /* more free ones, then fewer */
        switch (rnd(fill ? 6 : 4)) {
        case 0: /* also over what is free already, and next to it */
        case 4:
        case 5:
            names_hole_add(r.dir, from, count);
            memset(is_free + from, 1, count);
            break;
        case 1:
            names_hole_cut(r.dir, from, count);
            memset(is_free + from, 0, count);
            break;
        case 2:
            check_take_before(r.dir, is_free, space, from);
            break;
        default:
            check_take(r.dir, is_free, space, 1 + rnd(most));
            break;
        }
        uint32_t largest = 0, run = 0;
        for (uint32_t i = 0; i < space; i++) {
            run = is_free[i] ? run + 1 : 0;
            largest = run > largest ? run : largest;
        }
        CHECK(names_holes_largest(r.dir) == largest);
    }
    CHECK(names_holes_complete(r.dir) && r.n.hole_drops == 0);
    names_hole_add(r.dir, UINT32_MAX, UINT32_MAX); /* nonsense is ignored */
    names_hole_cut(r.dir, UINT32_MAX, UINT32_MAX);
    uint32_t p, n, before = 0;
    while (names_hole_take(r.dir, 1, &p, &n)) { /* all that is left, in order */
        CHECK(p >= before && (p == 0 || !is_free[p - 1]));
        for (uint32_t i = before; i < p; i++) {
            CHECK(!is_free[i]);
        }
        for (before = p; before < p + n; before++) {
            CHECK(is_free[before]);
        }
    }
    for (; before < space; before++) {
        CHECK(!is_free[before]);
    }
    CHECK(names_holes_largest(r.dir) == 0 && names_holes_complete(r.dir));
    names_holes_drop(r.dir);
    CHECK(!names_holes_complete(r.dir) && names_cache_held(r.cache) == 0);
    rig_down(&r);
    free(is_free);
}

/* As creates and deletes do it: the first runs go, and others come before those that are left. */
static void test_holes_from_the_front(uint64_t seed)
{
    enum { SPACE = 30000 };
    struct rig r;
    static bool is_free[SPACE];
    memset(is_free, 0, sizeof is_free);
    state = seed;
    rig_up(&r, LOTS, &all_on);
    names_holes_known(r.dir);
    for (uint32_t i = 0; i + 8 < SPACE; i += 8) {
        names_hole_add(r.dir, i, 3);
        memset(is_free + i, 1, 3);
    }
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = rnd(600); i > 0; i--) {
            check_take(r.dir, is_free, SPACE, 1 + rnd(2));
        }
        for (uint32_t i = rnd(600), space = 5 + rnd(SPACE - 5); i > 0; i--) {
            uint32_t from = rnd(space - 2), count = 1 + rnd(2);
            names_hole_add(r.dir, from, count);
            memset(is_free + from, 1, count);
        }
    }
    CHECK(names_holes_complete(r.dir));
    while (names_holes_largest(r.dir) > 0) {
        check_take(r.dir, is_free, SPACE, 1);
    }
    check_take(r.dir, is_free, SPACE, 1);
    rig_down(&r);
}

/* More runs than are kept: the longest stay, and it is known that something is missing, and of what
 * size. */
static void test_holes_bound(void)
{
    struct rig r;
    uint32_t p, n, got = 0;
    rig_up(&r, LOTS, &all_on);
    names_holes_known(r.dir);
    for (uint32_t i = 0; i < 100000; i++) {
        names_hole_add(r.dir, i * 32, 3 + i % 2 * 4);
    }
    CHECK(!names_holes_complete(r.dir) && r.n.hole_drops > 30000);
    CHECK(names_holes_complete_for(r.dir, 4) && !names_holes_complete_for(r.dir, 3));
    CHECK(names_cache_held(r.cache) <= 2 << 20);
    names_holes_known(r.dir); /* the walk that told them ends: there are still more than are kept */
    CHECK(names_holes_complete_for(r.dir, 4) && !names_holes_complete_for(r.dir, 3));
    while (names_hole_take(r.dir, 7, &p, &n)) {
        CHECK(n == 7 && p == (got * 2 + 1) * 32);
        got++;
    }
    CHECK(got == 50000);
    /* A walk that finds everything makes it whole again. */
    names_holes_drop(r.dir);
    names_hole_add(r.dir, 32, 3);
    CHECK(!names_holes_complete(r.dir));
    names_holes_known(r.dir);
    CHECK(names_holes_complete(r.dir));
    rig_down(&r);
    /* No memory at all: nothing is kept, nothing is claimed. */
    rig_up(&r, 0, &all_on);
    names_holes_known(r.dir);
    CHECK(names_holes_complete(r.dir));
    names_hole_add(r.dir, 0, 5);
    CHECK(!names_holes_complete(r.dir) && names_holes_complete_for(r.dir, 6));
    CHECK(!names_hole_take(r.dir, 1, &p, &n) && names_cache_held(r.cache) == 0);
    rig_down(&r);
}

/* Memory for some runs only: all that is there is free. */
static void test_holes_in_little_memory(size_t budget)
{
    enum { SPACE = 20000 };
    struct rig r;
    static bool is_free[SPACE];
    uint32_t p, n, got = 0;
    memset(is_free, 0, sizeof is_free);
    rig_up(&r, budget, &all_on);
    names_holes_known(r.dir);
    for (uint32_t step = 0; step < 4000; step++) {
        uint32_t from = rnd(SPACE - 10), count = 1 + rnd(9), need = 1 + rnd(9);
        if (rnd(3) != 0) {
            names_hole_add(r.dir, from, count);
            memset(is_free + from, 1, count);
        } else if (names_holes_complete(r.dir)) {
            check_take(r.dir, is_free, SPACE, need);
        } else if (names_hole_take(r.dir, need, &p, &n)) {
            CHECK(n >= need && p + n <= SPACE);
            for (uint32_t i = p; i < p + n; i++) {
                CHECK(is_free[i]);
                is_free[i] = false;
            }
            got++;
        }
        CHECK(names_cache_held(r.cache) <= budget);
    }
    CHECK(r.n.hole_drops > 0 && (got > 0 || budget < 1024));
    rig_down(&r);
}

int main(void)
{
    test_holes_model(400, 25, 50000);
    test_holes_model(30000, 4, 20000);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        test_holes_from_the_front(seed);
    }
    test_holes_model(60000, 40, 8000);
    test_holes_bound();
    for (size_t nodes = 1; nodes <= 12; nodes++) {
        test_holes_in_little_memory(512 * nodes);
    }
    return 0;
}
