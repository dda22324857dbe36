/* Free runs between the entries of a directory.
 *
 * Two trees over one array of runs: by position, to join neighbours and to find the first that is
 * long enough (the one that a walk would come to), and by size, to know the shortest. They are
 * treaps whose priorities are hashes of the position, so that balance needs no bookkeeping. At most
 * NAMES_HOLES_MAX runs are kept, the longest; of the others the list remembers how long the longest
 * was.
 *
 * In the tree by position each run has a bound: no run in its subtree is longer. Changes leave
 * bounds that are too high, and searches that they mislead lower them.
 */
#include "names/internal.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16u

enum { BY_POSITION = 0, BY_SIZE = 1 };

/* ---- trees ---- */

static uint64_t key_of(const struct names_hole *n, int tree)
{
    return tree == BY_SIZE ? (uint64_t)n->count << 32 | n->position : n->position;
}

static uint32_t priority(const struct names_hole *n)
{
    uint32_t x = (n->position ^ n->position >> 16) * 0x7feb352du;
    return (x ^ x >> 15) * 0x846ca68bu;
}

static void raise_bound(struct names_hole *n, int tree, uint32_t count)
{
    if (tree == BY_POSITION) {
        n->bound = (uint32_t)base_max(n->bound, count);
    }
}

static void insert(struct names_holes *h, int tree, uint32_t n)
{
    struct names_hole *v = h->v;
    uint64_t key = key_of(&v[n], tree);
    uint32_t *link = &h->root[tree];
    while (*link != 0 && priority(&v[*link]) >= priority(&v[n])) {
        raise_bound(&v[*link], tree, v[n].count);
        link = &v[*link].child[tree][key > key_of(&v[*link], tree)];
    }
    /* What hangs here is split by the key into the new node's two subtrees. */
    uint32_t rest = *link;
    raise_bound(&v[n], tree, rest != 0 ? v[rest].bound : 0);
    uint32_t *below = &v[n].child[tree][0], *above = &v[n].child[tree][1];
    *link = n;
    while (rest != 0) {
        if (key_of(&v[rest], tree) < key) {
            *below = rest;
            below = &v[rest].child[tree][1];
            rest = *below;
        } else {
            *above = rest;
            above = &v[rest].child[tree][0];
            rest = *above;
        }
    }
    *below = *above = 0;
}

static void extract(struct names_holes *h, int tree, uint32_t n)
{
    struct names_hole *v = h->v;
    uint64_t key = key_of(&v[n], tree);
    uint32_t *link = &h->root[tree];
    while (*link != n) {
        link = &v[*link].child[tree][key > key_of(&v[*link], tree)];
    }
    uint32_t a = v[n].child[tree][0], b = v[n].child[tree][1];
    while (a != 0 && b != 0) {
        if (priority(&v[a]) >= priority(&v[b])) {
            raise_bound(&v[a], tree, v[b].bound);
            *link = a;
            link = &v[a].child[tree][1];
            a = *link;
        } else {
            raise_bound(&v[b], tree, v[a].bound);
            *link = b;
            link = &v[b].child[tree][0];
            b = *link;
        }
    }
    *link = a != 0 ? a : b;
}

/* The node with the greatest key <= key, or 0. */
static uint32_t last_up_to(const struct names_holes *h, int tree, uint64_t key)
{
    uint32_t found = 0;
    for (uint32_t n = h->root[tree]; n != 0;) {
        bool fits = key_of(&h->v[n], tree) <= key;
        found = fits ? n : found;
        n = h->v[n].child[tree][fits];
    }
    return found;
}

/* The node with the least key >= key, or 0. */
static uint32_t first_from(const struct names_holes *h, int tree, uint64_t key)
{
    uint32_t found = 0;
    for (uint32_t n = h->root[tree]; n != 0;) {
        bool fits = key_of(&h->v[n], tree) >= key;
        found = fits ? n : found;
        n = h->v[n].child[tree][!fits];
    }
    return found;
}

/* The longest run that a subtree may hold, by its children's bounds. */
static uint32_t bound_of(const struct names_hole *v, uint32_t n)
{
    uint32_t left = v[n].child[BY_POSITION][0], right = v[n].child[BY_POSITION][1];
    uint64_t most = base_max(v[n].count, left != 0 ? v[left].bound : 0);
    return (uint32_t)base_max(most, right != 0 ? v[right].bound : 0);
}

/* The first run, by position, of at least `need` entries, or 0. Each search in vain lowers a bound,
 * and each change has raised but a few. */
static uint32_t first_fit(struct names_holes *h, uint32_t need)
{
    struct names_hole *v = h->v;
    uint32_t n = h->root[BY_POSITION];
    while (n != 0 && v[n].bound >= need) {
        uint32_t left = v[n].child[BY_POSITION][0], right = v[n].child[BY_POSITION][1];
        if (left != 0 && v[left].bound >= need) {
            n = left;
        } else if (v[n].count >= need) {
            return n;
        } else if (right != 0 && v[right].bound >= need) {
            n = right;
        } else {
            v[n].bound = bound_of(v, n);
            n = h->root[BY_POSITION];
        }
    }
    return 0;
}

/* ---- runs ---- */

static bool grow(struct names_dir *d)
{
    struct names_holes *h = &d->holes;
    uint32_t capacity = h->capacity == 0 ? FIRST_CAPACITY : h->capacity * 2;
    size_t old = h->capacity * sizeof *h->v, bytes = capacity * sizeof *h->v;
    if (capacity > NAMES_HOLES_MAX || !names_reserve(d, bytes)) {
        return false;
    }
    struct names_hole *v = realloc(h->v, bytes);
    if (v == NULL) {
        names_release(d, bytes);
        return false;
    }
    names_release(d, old);
    h->v = v;
    h->capacity = capacity;
    h->used = h->used == 0 ? 1 : h->used;
    return true;
}

static void remove_run(struct names_holes *h, uint32_t n)
{
    extract(h, BY_POSITION, n);
    extract(h, BY_SIZE, n);
    h->v[n].child[0][0] = h->free;
    h->free = n;
}

static void forget_run(struct names_dir *d, uint32_t count)
{
    d->holes.forgotten = (uint32_t)base_max(d->holes.forgotten, count);
    names_counters_of(d)->hole_drops++;
}

/* A run that touches no other. When the list is full the shortest run goes, be it this one. */
static void put_run(struct names_dir *d, uint32_t position, uint32_t count)
{
    struct names_holes *h = &d->holes;
    if (h->free == 0 && h->used >= h->capacity && !grow(d)) {
        uint32_t shortest = first_from(h, BY_SIZE, 0);
        if (shortest == 0 || h->v[shortest].count >= count) {
            forget_run(d, count);
            return;
        }
        forget_run(d, h->v[shortest].count);
        remove_run(h, shortest);
    }
    uint32_t n = h->free;
    if (n != 0) {
        h->free = h->v[n].child[0][0];
    } else {
        n = h->used++;
    }
    h->v[n] = (struct names_hole){.position = position, .count = count, .bound = count};
    insert(h, BY_POSITION, n);
    insert(h, BY_SIZE, n);
}

void names_hole_add(struct names_dir *d, uint32_t position, uint32_t count)
{
    struct names_holes *h = &d->holes;
    uint64_t start = position, end = start + count;
    uint32_t n;
    if (count == 0 || end > UINT32_MAX || !names_policy_of(d)->holes) {
        return;
    }
    while ((n = last_up_to(h, BY_POSITION, end)) != 0 &&
           (uint64_t)h->v[n].position + h->v[n].count >= start) {
        start = base_min(start, h->v[n].position);
        end = base_max(end, (uint64_t)h->v[n].position + h->v[n].count);
        remove_run(h, n);
    }
    put_run(d, (uint32_t)start, (uint32_t)(end - start));
}

bool names_hole_take(struct names_dir *d, uint32_t need, uint32_t *position, uint32_t *count)
{
    struct names_holes *h = &d->holes;
    uint32_t n = first_fit(h, need);
    if (n == 0) {
        return false;
    }
    *position = h->v[n].position;
    *count = h->v[n].count;
    remove_run(h, n);
    names_counters_of(d)->hole_hits++;
    return true;
}

bool names_hole_take_before(struct names_dir *d, uint32_t end, uint32_t *count)
{
    struct names_holes *h = &d->holes;
    uint32_t n = end > 0 ? last_up_to(h, BY_POSITION, end - 1) : 0;
    if (n == 0 || h->v[n].position + h->v[n].count != end) {
        return false;
    }
    *count = h->v[n].count;
    remove_run(h, n);
    return true;
}

void names_hole_cut(struct names_dir *d, uint32_t position, uint32_t count)
{
    struct names_holes *h = &d->holes;
    uint64_t start = position, end = start + count;
    uint32_t n;
    while (count > 0 && (n = last_up_to(h, BY_POSITION, end - 1)) != 0) {
        uint64_t from = h->v[n].position, to = from + h->v[n].count;
        if (to <= start) {
            return;
        }
        remove_run(h, n);
        if (to > end) {
            put_run(d, (uint32_t)end, (uint32_t)(to - end));
        }
        if (from < start) {
            put_run(d, (uint32_t)from, (uint32_t)(start - from));
        }
    }
}

bool names_holes_kept(const struct names_dir *d)
{
    return d->holes.known;
}

void names_holes_known(struct names_dir *d)
{
    struct names_holes *h = &d->holes;
    h->known = names_policy_of(d)->holes;
    h->missing = h->forgotten;
    h->forgotten = 0;
}

bool names_holes_complete_for(const struct names_dir *d, uint32_t need)
{
    const struct names_holes *h = &d->holes;
    return h->known && h->missing < need && h->forgotten < need;
}

bool names_holes_complete(const struct names_dir *d)
{
    return names_holes_complete_for(d, 1);
}

uint32_t names_holes_largest(const struct names_dir *d)
{
    uint32_t n = last_up_to(&d->holes, BY_SIZE, UINT64_MAX);
    return n != 0 ? d->holes.v[n].count : 0;
}

void names_holes_drop(struct names_dir *d)
{
    names_holes_free(d);
}

void names_holes_free(struct names_dir *d)
{
    struct names_holes *h = &d->holes;
    if (h->v != NULL) {
        free(h->v);
        names_release(d, h->capacity * sizeof *h->v);
    }
    *h = (struct names_holes){0};
}
