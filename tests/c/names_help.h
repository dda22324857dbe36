/* A cache of names with one directory in use, for the tests of csrc/names. */
#ifndef PYEXFAT_TESTS_NAMES_HELP_H
#define PYEXFAT_TESTS_NAMES_HELP_H

#include "names/names.h"

#include "check.h"

#include <string.h>

struct rig {
    struct names_cache *cache;
    struct names_dir *dir;
    struct names_counters n;
};

static inline void rig_up(struct rig *r, size_t budget, const struct names_policy *policy)
{
    memset(r, 0, sizeof *r);
    r->cache = names_cache_new(NULL, budget, policy, &r->n);
    CHECK(r->cache != NULL);
    r->dir = names_dir_new(r->cache);
    CHECK(r->dir != NULL);
    names_dir_use(r->dir);
}

static inline void rig_down(struct rig *r)
{
    names_dir_unuse(r->dir);
    names_dir_delete(r->dir);
    CHECK(names_cache_held(r->cache) == 0);
    names_cache_delete(r->cache);
}

#endif
