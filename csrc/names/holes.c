/* Free runs between the entries of a directory.
 *
 * A B+ tree by position: to join neighbours, and to find the first run that is long enough (the one
 * that a walk would come to). Nodes are a few cache lines and few deep, so that much fewer of them
 * are looked at than of a binary tree. Beside each child stand the longest and the shortest run in
 * it. At most NAMES_HOLES_MAX runs are kept, the longest; of the others the list remembers how long
 * the longest was.
 */
#include "names/internal.h"

#include <stdlib.h>
#include <string.h>

enum { LEAF_MOST = NAMES_HOLES_LEAF, INNER_MOST = NAMES_HOLES_INNER, FIRST_CAPACITY = 2 };
enum { HEIGHT_MOST = 12 }; /* each level has at least a quarter of the most, but for the root */

/* Where something is: at each level, from the leaf (0) up to the root, a node and a place in it. */
struct path {
    uint32_t node[HEIGHT_MOST + 1], at[HEIGHT_MOST + 1];
};

/* ---- nodes ---- */

/* How many of the sorted values are not above the key. */
static uint32_t count_up_to(const uint32_t *v, uint32_t n, uint32_t key)
{
    uint32_t below = 0;
    while (n > 0) {
        uint32_t half = (n + 1) / 2;
        below += v[below + half - 1] <= key ? half : 0;
        n -= half;
    }
    return below;
}

static bool has(const uint32_t *v, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++) {
        if (v[i] == value) {
            return true;
        }
    }
    return false;
}

static uint32_t greatest(const uint32_t *v, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        most = v[i] > most ? v[i] : most;
    }
    return most;
}

static uint32_t least(const uint32_t *v, uint32_t n)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        found = v[i] < found ? v[i] : found;
    }
    return found;
}

static void shift(uint32_t *v, uint32_t n, uint32_t from, uint32_t to)
{
    memmove(v + to, v + from, (n - from) * sizeof *v);
}

static void shift_inner(struct names_inner *p, uint32_t n, uint32_t from, uint32_t to)
{
    shift(p->first, n, from, to);
    shift(p->most, n, from, to);
    shift(p->least, n, from, to);
    shift(p->child, n, from, to);
}

static bool is_full(const struct names_holes *h, uint32_t node, uint32_t level)
{
    return h->v[node].n == (level == 0 ? LEAF_MOST : INNER_MOST);
}

static uint32_t longest_in(const struct names_holes *h, uint32_t node, uint32_t level)
{
    const struct names_node *x = &h->v[node];
    return greatest(level == 0 ? x->u.leaf.count : x->u.inner.most, x->n);
}

static uint32_t shortest_in(const struct names_holes *h, uint32_t node, uint32_t level)
{
    const struct names_node *x = &h->v[node];
    return least(level == 0 ? x->u.leaf.count : x->u.inner.least, x->n);
}

static uint32_t take_node(struct names_holes *h)
{
    uint32_t node = h->free;
    if (node != 0) {
        h->free = h->v[node].n;
        h->free_count--;
    } else {
        node = h->used++;
    }
    h->v[node].n = 0;
    return node;
}

static void give_node(struct names_holes *h, uint32_t node)
{
    h->v[node].n = h->free;
    h->free = node;
    h->free_count++;
}

/* ---- finding ---- */

static void descend(const struct names_holes *h, uint32_t key, struct path *p)
{
    uint32_t node = h->root;
    for (uint32_t level = h->height; level > 0; level--) {
        const struct names_node *x = &h->v[node];
        uint32_t up_to = count_up_to(x->u.inner.first, x->n, key);
        p->node[level] = node;
        p->at[level] = up_to > 0 ? up_to - 1 : 0;
        node = x->u.inner.child[p->at[level]];
    }
    p->node[0] = node;
    p->at[0] = count_up_to(h->v[node].u.leaf.position, h->v[node].n, key);
}

static uint32_t position_at(const struct names_holes *h, const struct path *p)
{
    return h->v[p->node[0]].u.leaf.position[p->at[0]];
}

static uint32_t count_at(const struct names_holes *h, const struct path *p)
{
    return h->v[p->node[0]].u.leaf.count[p->at[0]];
}

/* The last run at or before the position; false: none. */
static bool last_up_to(const struct names_holes *h, uint64_t position, struct path *p)
{
    if (h->runs == 0) {
        return false;
    }
    descend(h, (uint32_t)base_min(position, UINT32_MAX), p);
    if (p->at[0]-- > 0) {
        return true;
    }
    /* The last one of the leaf before. */
    uint32_t level = 1;
    while (level <= h->height && p->at[level] == 0) {
        level++;
    }
    if (level > h->height) {
        return false;
    }
    p->at[level]--;
    for (; level > 0; level--) {
        p->node[level - 1] = h->v[p->node[level]].u.inner.child[p->at[level]];
        p->at[level - 1] = h->v[p->node[level - 1]].n - 1;
    }
    return true;
}

/* The first run, by position, of at least `need` entries. */
static bool first_fit(const struct names_holes *h, uint32_t need, struct path *p)
{
    uint32_t node = h->root;
    if (h->runs == 0) {
        return false;
    }
    for (uint32_t level = h->height + 1; level-- > 0;) {
        const struct names_node *x = &h->v[node];
        const uint32_t *lengths = level == 0 ? x->u.leaf.count : x->u.inner.most;
        uint32_t at = 0;
        while (at < x->n && lengths[at] < need) {
            at++;
        }
        if (at == x->n) {
            return false; /* in the root, that is */
        }
        p->node[level] = node;
        p->at[level] = at;
        node = level == 0 ? 0 : x->u.inner.child[at];
    }
    return true;
}

/* The shortest run, and the first of those. */
static bool find_shortest(const struct names_holes *h, struct path *p)
{
    uint32_t node = h->root;
    if (h->runs == 0) {
        return false;
    }
    for (uint32_t level = h->height + 1; level-- > 0;) {
        const struct names_node *x = &h->v[node];
        const uint32_t *lengths = level == 0 ? x->u.leaf.count : x->u.inner.least;
        uint32_t value = least(lengths, x->n), at = 0;
        while (lengths[at] != value) {
            at++;
        }
        p->node[level] = node;
        p->at[level] = at;
        node = level == 0 ? 0 : x->u.inner.child[at];
    }
    return true;
}

/* ---- inserting ---- */

static void summarize(struct names_holes *h, uint32_t parent, uint32_t at, uint32_t level)
{
    struct names_inner *p = &h->v[parent].u.inner;
    p->most[at] = longest_in(h, p->child[at], level - 1);
    p->least[at] = shortest_in(h, p->child[at], level - 1);
}

/* The upper half of a full child goes to a new one behind it; only the last of it where the run is
 * put behind all others, as by a walk. */
static void split(struct names_holes *h, uint32_t parent, uint32_t at, uint32_t level,
                  uint32_t position)
{
    uint32_t right = take_node(h), left = h->v[parent].u.inner.child[at];
    struct names_node *a = &h->v[left], *b = &h->v[right], *p = &h->v[parent];
    uint32_t last = (level - 1 == 0 ? a->u.leaf.position : a->u.inner.first)[a->n - 1];
    uint32_t kept = at + 1 == p->n && last <= position ? a->n - 1 : a->n / 2;
    b->n = a->n - kept;
    if (level - 1 == 0) {
        memcpy(b->u.leaf.position, a->u.leaf.position + kept, b->n * sizeof(uint32_t));
        memcpy(b->u.leaf.count, a->u.leaf.count + kept, b->n * sizeof(uint32_t));
    } else {
        memcpy(b->u.inner.first, a->u.inner.first + kept, b->n * sizeof(uint32_t));
        memcpy(b->u.inner.most, a->u.inner.most + kept, b->n * sizeof(uint32_t));
        memcpy(b->u.inner.least, a->u.inner.least + kept, b->n * sizeof(uint32_t));
        memcpy(b->u.inner.child, a->u.inner.child + kept, b->n * sizeof(uint32_t));
    }
    a->n = kept;
    shift_inner(&p->u.inner, p->n, at + 1, at + 2);
    p->n++;
    p->u.inner.first[at + 1] = level - 1 == 0 ? b->u.leaf.position[0] : b->u.inner.first[0];
    p->u.inner.child[at + 1] = right;
    summarize(h, parent, at, level);
    summarize(h, parent, at + 1, level);
}

/* A new root over the old one. */
static void raise_root(struct names_holes *h)
{
    uint32_t root = take_node(h);
    struct names_node *x = &h->v[root];
    x->n = 1;
    x->u.inner.first[0] = 0;
    x->u.inner.child[0] = h->root;
    h->root = root;
    h->height++;
    summarize(h, root, 0, h->height);
}

/* There are nodes for one split at each level and a new root. Full nodes are split on the way down,
 * so that there is always room above. */
static void insert(struct names_holes *h, uint32_t position, uint32_t count)
{
    if (h->root == 0) {
        h->root = take_node(h);
    }
    if (is_full(h, h->root, h->height)) {
        raise_root(h);
    }
    uint32_t node = h->root;
    for (uint32_t level = h->height; level > 0; level--) {
        struct names_inner *p = &h->v[node].u.inner;
        uint32_t up_to = count_up_to(p->first, h->v[node].n, position);
        uint32_t at = up_to > 0 ? up_to - 1 : 0;
        p->first[at] = (uint32_t)base_min(p->first[at], position);
        if (is_full(h, p->child[at], level - 1)) {
            split(h, node, at, level, position);
            at += p->first[at + 1] <= position;
        }
        p->most[at] = (uint32_t)base_max(p->most[at], count);
        p->least[at] = (uint32_t)base_min(p->least[at], count);
        node = p->child[at];
    }
    struct names_node *x = &h->v[node];
    uint32_t at = count_up_to(x->u.leaf.position, x->n, position);
    shift(x->u.leaf.position, x->n, at, at + 1);
    shift(x->u.leaf.count, x->n, at, at + 1);
    x->u.leaf.position[at] = position;
    x->u.leaf.count[at] = count;
    x->n++;
    h->runs++;
}

/* ---- removing ---- */

static void drop_child(struct names_holes *h, uint32_t parent, uint32_t at)
{
    struct names_node *p = &h->v[parent];
    give_node(h, p->u.inner.child[at]);
    shift_inner(&p->u.inner, p->n, at + 1, at);
    p->n--;
}

/* Two neighbours into one where that leaves room for more. */
static bool merge(struct names_holes *h, uint32_t parent, uint32_t at, uint32_t level)
{
    struct names_node *p = &h->v[parent];
    uint32_t most = level - 1 == 0 ? LEAF_MOST : INNER_MOST;
    if (at + 1 >= p->n) {
        return false;
    }
    struct names_node *a = &h->v[p->u.inner.child[at]], *b = &h->v[p->u.inner.child[at + 1]];
    if (a->n + b->n > most / 4 * 3) {
        return false;
    }
    if (level - 1 == 0) {
        memcpy(a->u.leaf.position + a->n, b->u.leaf.position, b->n * sizeof(uint32_t));
        memcpy(a->u.leaf.count + a->n, b->u.leaf.count, b->n * sizeof(uint32_t));
    } else {
        memcpy(a->u.inner.first + a->n, b->u.inner.first, b->n * sizeof(uint32_t));
        memcpy(a->u.inner.most + a->n, b->u.inner.most, b->n * sizeof(uint32_t));
        memcpy(a->u.inner.least + a->n, b->u.inner.least, b->n * sizeof(uint32_t));
        memcpy(a->u.inner.child + a->n, b->u.inner.child, b->n * sizeof(uint32_t));
    }
    a->n += b->n;
    drop_child(h, parent, at + 1);
    summarize(h, parent, at, level);
    return true;
}

/* A child has lost a run of this length: what its parent says of it, and whether it stays. */
static void child_lost(struct names_holes *h, uint32_t parent, uint32_t at, uint32_t level,
                       uint32_t count)
{
    struct names_inner *p = &h->v[parent].u.inner;
    const struct names_node *x = &h->v[p->child[at]];
    uint32_t most = level - 1 == 0 ? LEAF_MOST : INNER_MOST;
    if (x->n == 0) {
        drop_child(h, parent, at);
        return;
    }
    if (x->n < most / 4 &&
        (merge(h, parent, at, level) || (at > 0 && merge(h, parent, at - 1, level)))) {
        return;
    }
    const uint32_t *longest = level - 1 == 0 ? x->u.leaf.count : x->u.inner.most;
    const uint32_t *shortest = level - 1 == 0 ? x->u.leaf.count : x->u.inner.least;
    if ((count == p->most[at] && !has(longest, x->n, count)) ||
        (count == p->least[at] && !has(shortest, x->n, count))) {
        summarize(h, parent, at, level);
    }
}

static void remove_at(struct names_holes *h, const struct path *p)
{
    struct names_node *leaf = &h->v[p->node[0]];
    uint32_t count = count_at(h, p);
    shift(leaf->u.leaf.position, leaf->n, p->at[0] + 1, p->at[0]);
    shift(leaf->u.leaf.count, leaf->n, p->at[0] + 1, p->at[0]);
    leaf->n--;
    h->runs--;
    for (uint32_t level = 1; level <= h->height; level++) {
        child_lost(h, p->node[level], p->at[level], level, count);
    }
    while (h->height > 0 && h->v[h->root].n <= 1) {
        uint32_t root = h->root;
        h->root = h->v[root].n == 1 ? h->v[root].u.inner.child[0] : 0;
        h->height = h->root != 0 ? h->height - 1 : 0;
        give_node(h, root);
    }
}

/* ---- runs ---- */

/* Nodes that it takes to put a run in: one for each full node on the way, and a new root. */
static uint32_t nodes_for(const struct names_holes *h, uint32_t position)
{
    struct path p;
    uint32_t nodes = 0;
    if (h->root == 0) {
        return 1;
    }
    descend(h, position, &p);
    for (uint32_t level = 0; level <= h->height; level++) {
        nodes += is_full(h, p.node[level], level);
    }
    return nodes + is_full(h, h->root, h->height);
}

static bool make_room(struct names_dir *d, uint32_t position)
{
    struct names_holes *h = &d->holes;
    uint32_t there = h->free_count + (h->capacity - h->used);
    if (h->runs == NAMES_HOLES_MAX) {
        return false;
    }
    if (there >= h->height + 2 || there >= nodes_for(h, position)) {
        return true;
    }
    uint32_t capacity = h->capacity == 0 ? FIRST_CAPACITY : h->capacity + (h->capacity + 1) / 2 + 1;
    size_t old = h->capacity * sizeof *h->v, bytes = capacity * sizeof *h->v;
    if (!names_reserve(d, bytes)) {
        return false;
    }
    struct names_node *v = realloc(h->v, bytes);
    if (v == NULL) {
        names_release(d, bytes);
        return false;
    }
    names_release(d, old);
    h->v = v;
    h->capacity = capacity;
    h->used = h->used == 0 ? 1 : h->used;
    return h->free_count + (h->capacity - h->used) >= nodes_for(h, position);
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
    struct path p;
    if (!make_room(d, position)) {
        if (!find_shortest(h, &p) || count_at(h, &p) >= count) {
            forget_run(d, count);
            return;
        }
        forget_run(d, count_at(h, &p));
        remove_at(h, &p);
        if (!make_room(d, position)) {
            forget_run(d, count);
            return;
        }
    }
    insert(h, position, count);
}

void names_hole_add(struct names_dir *d, uint32_t position, uint32_t count)
{
    struct names_holes *h = &d->holes;
    uint64_t start = position, end = start + count;
    struct path p;
    if (count == 0 || end > UINT32_MAX || !names_policy_of(d)->holes) {
        return;
    }
    while (last_up_to(h, end, &p) && (uint64_t)position_at(h, &p) + count_at(h, &p) >= start) {
        start = base_min(start, position_at(h, &p));
        end = base_max(end, (uint64_t)position_at(h, &p) + count_at(h, &p));
        remove_at(h, &p);
    }
    put_run(d, (uint32_t)start, (uint32_t)(end - start));
}

bool names_hole_take(struct names_dir *d, uint32_t need, uint32_t *position, uint32_t *count)
{
    struct names_holes *h = &d->holes;
    struct path p;
    if (!first_fit(h, need, &p)) {
        return false;
    }
    *position = position_at(h, &p);
    *count = count_at(h, &p);
    remove_at(h, &p);
    names_counters_of(d)->hole_hits++;
    return true;
}

bool names_hole_take_before(struct names_dir *d, uint32_t end, uint32_t *count)
{
    struct names_holes *h = &d->holes;
    struct path p;
    if (end == 0 || !last_up_to(h, end - 1, &p) ||
        (uint64_t)position_at(h, &p) + count_at(h, &p) != end) {
        return false;
    }
    *count = count_at(h, &p);
    remove_at(h, &p);
    return true;
}

void names_hole_cut(struct names_dir *d, uint32_t position, uint32_t count)
{
    struct names_holes *h = &d->holes;
    uint64_t start = position, end = start + count;
    struct path p;
    while (count > 0 && last_up_to(h, end - 1, &p)) {
        uint64_t from = position_at(h, &p), to = from + count_at(h, &p);
        if (to <= start) {
            return;
        }
        remove_at(h, &p);
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
    const struct names_holes *h = &d->holes;
    return h->runs > 0 ? longest_in(h, h->root, h->height) : 0;
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
