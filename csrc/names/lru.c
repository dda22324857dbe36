/* Memory of all directories: one LRU and budget per volume, and a pool over volumes.
 *
 * Memory is accounted before it is allocated, so that what is held never exceeds the budget: room
 * is made from the least recently used directories that nobody uses, or the table is not built. A
 * pool is only a number that volumes take from and give back to; a volume that finds it empty can
 * give up tables of its own alone, since those of other volumes are under their locks.
 */
#include "names/internal.h"

#include <stdlib.h>

struct names_pool { /* all fields atomic */
    size_t budget, held, peak;
    uint32_t refs;
};

struct names_cache {
    struct names_pool *pool;
    struct names_counters *counters;
    struct names_policy policy;
    size_t budget, held, peak;
    size_t busy;                       /* held by directories in use */
    struct names_dir *recent, *oldest; /* the LRU */
    struct names_dir *all;
};

/* ---- pool ---- */

struct names_pool *names_pool_new(size_t budget)
{
    struct names_pool *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->budget = budget;
        p->refs = 1;
    }
    return p;
}

struct names_pool *names_pool_ref(struct names_pool *p)
{
    if (p != NULL) {
        __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    }
    return p;
}

void names_pool_unref(struct names_pool *p)
{
    if (p != NULL && __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        free(p);
    }
}

void names_pool_set_budget(struct names_pool *p, size_t budget)
{
    __atomic_store_n(&p->budget, budget, __ATOMIC_RELAXED);
}

size_t names_pool_held(struct names_pool *p)
{
    return __atomic_load_n(&p->held, __ATOMIC_RELAXED);
}

size_t names_pool_peak(struct names_pool *p)
{
    return __atomic_load_n(&p->peak, __ATOMIC_RELAXED);
}

static size_t pool_budget(struct names_pool *p)
{
    return __atomic_load_n(&p->budget, __ATOMIC_RELAXED);
}

static bool pool_take(struct names_pool *p, size_t bytes)
{
    if (p == NULL) {
        return true;
    }
    size_t held = names_pool_held(p);
    do {
        size_t budget = pool_budget(p);
        if (held > budget || bytes > budget - held) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&p->held, &held, held + bytes, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    size_t peak = names_pool_peak(p);
    while (peak < held + bytes &&
           !__atomic_compare_exchange_n(&p->peak, &peak, held + bytes, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    return true;
}

static void pool_give(struct names_pool *p, size_t bytes)
{
    if (p != NULL) {
        __atomic_sub_fetch(&p->held, bytes, __ATOMIC_RELAXED);
    }
}

/* ---- LRU ---- */

static void unlink_dir(struct names_cache *c, struct names_dir *d)
{
    if (d->linked) {
        *(d->prev != NULL ? &d->prev->next : &c->recent) = d->next;
        *(d->next != NULL ? &d->next->prev : &c->oldest) = d->prev;
        d->prev = d->next = NULL;
        d->linked = false;
    }
}

static void link_recent(struct names_cache *c, struct names_dir *d)
{
    d->next = c->recent;
    *(c->recent != NULL ? &c->recent->prev : &c->oldest) = d;
    c->recent = d;
    d->linked = true;
}

/* Gives up the tables of the oldest idle directory but `except`; returns what that freed, 0: there
 * is none. */
static size_t evict_one(struct names_cache *c, const struct names_dir *except)
{
    struct names_dir *d = c->oldest;
    while (d != NULL && (d->uses > 0 || d == except)) {
        d = d->prev;
    }
    if (d == NULL) {
        return 0;
    }
    size_t freed = d->held;
    unlink_dir(c, d);
    names_dir_free_tables(d);
    c->counters->shrinks++;
    return freed;
}

static void enforce(struct names_cache *c)
{
    while (c->held > c->budget ||
           (c->pool != NULL && names_pool_held(c->pool) > pool_budget(c->pool))) {
        if (evict_one(c, NULL) == 0) {
            return;
        }
    }
}

/* ---- accounts ---- */

bool names_could_hold(const struct names_dir *d, size_t bytes)
{
    const struct names_cache *c = d->cache;
    size_t fixed = c->busy + (d->uses > 0 ? 0 : d->held);
    if (bytes > c->budget || fixed > c->budget - bytes) {
        return false;
    }
    if (c->pool == NULL) {
        return true;
    }
    size_t budget = pool_budget(c->pool), held = names_pool_held(c->pool);
    fixed += held - c->held; /* other volumes keep what they have */
    return bytes <= budget && fixed <= budget - bytes;
}

bool names_reserve(struct names_dir *d, size_t bytes)
{
    struct names_cache *c = d->cache;
    if (!names_could_hold(d, bytes)) {
        return false;
    }
    while (c->held + bytes > c->budget) {
        if (evict_one(c, d) == 0) {
            return false;
        }
    }
    while (!pool_take(c->pool, bytes)) {
        if (evict_one(c, d) == 0) {
            return false;
        }
    }
    c->held += bytes;
    c->peak = (size_t)base_max(c->peak, c->held);
    c->busy += d->uses > 0 ? bytes : 0;
    d->held += bytes;
    if (!d->linked) {
        link_recent(c, d);
    }
    return true;
}

void names_release(struct names_dir *d, size_t bytes)
{
    struct names_cache *c = d->cache;
    pool_give(c->pool, bytes);
    c->held -= bytes;
    c->busy -= d->uses > 0 ? bytes : 0;
    d->held -= bytes;
    if (d->held == 0) {
        unlink_dir(c, d);
    }
}

/* ---- cache ---- */

struct names_cache *names_cache_new(struct names_pool *pool, size_t budget,
                                    const struct names_policy *policy,
                                    struct names_counters *counters)
{
    struct names_cache *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->pool = names_pool_ref(pool);
        c->budget = budget;
        c->policy = *policy;
        c->counters = counters;
    }
    return c;
}

void names_cache_delete(struct names_cache *c)
{
    if (c != NULL) {
        names_pool_unref(c->pool);
        free(c);
    }
}

void names_cache_set_budget(struct names_cache *c, size_t budget)
{
    c->budget = budget;
    enforce(c);
}

void names_cache_set_policy(struct names_cache *c, const struct names_policy *policy)
{
    c->policy = *policy;
    for (struct names_dir *d = c->all; d != NULL; d = d->all_next) {
        if (!policy->filter) {
            names_filter_free(d);
        }
        if (!policy->index) {
            names_index_free(d);
        }
        if (!policy->holes) {
            names_holes_free(d);
        }
    }
}

size_t names_cache_held(const struct names_cache *c)
{
    return c->held;
}

size_t names_cache_peak(const struct names_cache *c)
{
    return c->peak;
}

size_t names_cache_shrink(struct names_cache *c, size_t bytes)
{
    size_t freed = 0;
    while (freed < bytes) {
        size_t one = evict_one(c, NULL);
        if (one == 0) {
            break;
        }
        freed += one;
    }
    return freed;
}

/* ---- directories ---- */

struct names_dir *names_dir_new(struct names_cache *c)
{
    struct names_dir *d = calloc(1, sizeof *d);
    if (d != NULL) {
        d->cache = c;
        d->all_next = c->all;
        if (c->all != NULL) {
            c->all->all_prev = d;
        }
        c->all = d;
    }
    return d;
}

void names_dir_delete(struct names_dir *d)
{
    if (d != NULL) {
        unlink_dir(d->cache, d);
        d->filter_complete = d->index_complete = false; /* closed, which is no loss to be counted */
        names_dir_free_tables(d);
        *(d->all_prev != NULL ? &d->all_prev->all_next : &d->cache->all) = d->all_next;
        if (d->all_next != NULL) {
            d->all_next->all_prev = d->all_prev;
        }
        free(d);
    }
}

void names_dir_use(struct names_dir *d)
{
    struct names_cache *c = d->cache;
    if (d->uses++ == 0) {
        c->busy += d->held;
        if (d->linked && c->recent != d) {
            unlink_dir(c, d);
            link_recent(c, d);
        }
    }
}

void names_dir_unuse(struct names_dir *d)
{
    if (--d->uses == 0) {
        d->cache->busy -= d->held;
        enforce(d->cache);
    }
}

struct names_counters *names_counters_of(const struct names_dir *d)
{
    return d->cache->counters;
}

const struct names_policy *names_policy_of(const struct names_dir *d)
{
    return &d->cache->policy;
}
