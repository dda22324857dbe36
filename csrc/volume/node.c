/* Nodes: the files and directories that somebody refers to, found by key.
 *
 * A file's node goes with its last reference, unless its entry cannot be written just then. A
 * directory's stays for a while (idle), since its name tables hang on it; an idle directory still
 * refers to its parent, so that the way up never breaks. What is removed goes at once.
 */
#include <assert.h>

#include "volume/internal.h"

/* Idle directories kept at most, and how much of the memory budget stands for one of them. */
enum { IDLE_MOST = 4096, IDLE_LEAST = 16, IDLE_BYTES = 16384 };

size_t volume_idle_limit(const struct volume *v)
{
    uint64_t n = v->policy.memory_budget / IDLE_BYTES;
    return n > IDLE_MOST ? IDLE_MOST : n < IDLE_LEAST ? IDLE_LEAST : (size_t)n;
}

static void idle_add(struct volume_node *node)
{
    struct volume *v = node->volume;
    node->idle = true;
    node->idle_next = NULL;
    node->idle_prev = v->idle_last;
    if (v->idle_last)
        v->idle_last->idle_next = node;
    else
        v->idle_first = node;
    v->idle_last = node;
    v->idle_count++;
}

static void idle_remove(struct volume_node *node)
{
    struct volume *v = node->volume;
    if (node->idle_prev)
        node->idle_prev->idle_next = node->idle_next;
    else
        v->idle_first = node->idle_next;
    if (node->idle_next)
        node->idle_next->idle_prev = node->idle_prev;
    else
        v->idle_last = node->idle_prev;
    node->idle_next = node->idle_prev = NULL;
    node->idle = false;
    v->idle_count--;
}

struct volume_node *volume_node_ref(struct volume_node *node)
{
    if (node->idle)
        idle_remove(node);
    node->refs++;
    return node;
}

struct volume_node *volume_node_find(struct volume *v, uint64_t key)
{
    struct volume_node *node = base_map_get(&v->nodes, key);
    return node ? volume_node_ref(node) : NULL;
}

int volume_node_enter(struct volume *v, struct volume_node *node, struct volume_node *parent,
                      uint64_t key, enum volume_kind kind)
{
    assert(!base_map_get(&v->nodes, key));
    int rc = base_map_put(&v->nodes, key, node);
    if (rc < 0)
        return rc;
    node->volume = v;
    node->parent = parent ? volume_node_ref(parent) : NULL;
    node->key = key;
    node->kind = kind;
    node->refs = 1;
    node->handles = 0;
    node->unlinked = node->dirty = node->idle = false;
    node->dirty_op = 0;
    node->dirty_next = node->dirty_prev = NULL;
    node->idle_next = node->idle_prev = NULL;
    return 0;
}

int volume_node_rekey(struct volume_node *node, uint64_t key)
{
    struct volume *v = node->volume;
    if (key == node->key)
        return 0;
    int rc = base_map_put(&v->nodes, key, node);
    if (rc < 0)
        return rc;
    volume_node_forget(node);
    node->key = key;
    return 0;
}

void volume_node_forget(struct volume_node *node)
{
    /* The key of a removed file may be another's by now. */
    if (base_map_get(&node->volume->nodes, node->key) == node)
        base_map_remove(&node->volume->nodes, node->key);
}

void volume_node_set_parent(struct volume_node *node, struct volume_node *parent)
{
    struct volume_node *old = node->parent;
    node->parent = parent ? volume_node_ref(parent) : NULL;
    if (old)
        volume_node_unref(old);
}

bool volume_node_is_within(const struct volume_node *node, const struct volume_node *ancestor)
{
    for (; node; node = node->parent)
        if (node == ancestor)
            return true;
    return false;
}

/* ---- end ---- */

/* Its entry is on its way to the device; false: that failed, and the node is all there is. */
static bool node_saved(struct volume_node *node, int *rc)
{
    struct volume *v = node->volume;
    if (!node->dirty || node->unlinked || v->closed)
        return true;
    int r = v->driver->write_node(node);
    if (r < 0 && *rc == 0)
        *rc = r;
    return r >= 0;
}

/* Frees one node without references; returns its parent, with the reference that the node held. */
static struct volume_node *node_free(struct volume_node *node, int *rc)
{
    struct volume *v = node->volume;
    struct volume_node *parent = node->parent;
    if (node->idle)
        idle_remove(node);
    if (v->closed)
        node->unlinked = false; /* its space stays taken: giving it back would be a write */
    volume_node_mark_clean(node);
    volume_node_forget(node);
    int r = v->driver->release(node);
    if (r < 0 && *rc == 0)
        *rc = r;
    return parent;
}

/* The node has lost a reference: up the path, frees what nobody needs. */
static int node_drop(struct volume_node *node)
{
    int rc = 0;
    while (node && --node->refs == 0) {
        if ((node->kind == VOLUME_DIRECTORY && !node->unlinked) || !node_saved(node, &rc)) {
            idle_add(node);
            break;
        }
        node = node_free(node, &rc);
    }
    return rc;
}

static int trim(struct volume *v, size_t keep)
{
    int rc = 0;
    size_t stuck = 0; /* nodes in a row that could not be written */
    while (v->idle_count > keep && stuck < v->idle_count) {
        struct volume_node *node = v->idle_first;
        if (!node_saved(node, &rc)) {
            idle_remove(node);
            idle_add(node);
            stuck++;
            continue;
        }
        stuck = 0;
        node = node_free(node, &rc);
        int r = node ? node_drop(node) : 0;
        if (r < 0 && rc == 0)
            rc = r;
    }
    return rc;
}

int volume_node_unref(struct volume_node *node)
{
    struct volume *v = node->volume;
    if (node->refs > 1) {
        node->refs--;
        return 0;
    }
    int rc = node_drop(node);
    volume_defer(v, rc);
    return rc;
}

void volume_nodes_trim(struct volume *v, size_t keep)
{
    volume_defer(v, trim(v, keep));
}

void volume_nodes_end(struct volume *v)
{
    while (v->dirty)
        volume_node_mark_clean(v->dirty);
    if (v->root)
        volume_node_unref(v->root);
    v->root = NULL;
    volume_nodes_trim(v, 0);
    /* What a driver still refers to goes in any order: by now a node is memory and nothing else. */
    struct volume_node *node;
    size_t cursor = 0;
    uint64_t key;
    while ((node = base_map_next(&v->nodes, &cursor, &key)) != NULL) {
        int rc = 0;
        node->parent = NULL;
        node_free(node, &rc);
        cursor = 0;
    }
}

void volume_node_removed(struct volume_node *node)
{
    volume_node_mark_clean(node);
    volume_node_forget(node);
    if (node->kind == VOLUME_DIRECTORY)
        volume_walk_forget_directory(node->volume, node);
}

/* ---- entries to be written ---- */

/* The latest change comes first: a call finds its own at the front. */
static void dirty_add(struct volume_node *node)
{
    struct volume *v = node->volume;
    node->dirty = true;
    node->dirty_prev = NULL;
    node->dirty_next = v->dirty;
    if (v->dirty)
        v->dirty->dirty_prev = node;
    v->dirty = node;
}

static void dirty_remove(struct volume_node *node)
{
    if (node->dirty_prev)
        node->dirty_prev->dirty_next = node->dirty_next;
    else
        node->volume->dirty = node->dirty_next;
    if (node->dirty_next)
        node->dirty_next->dirty_prev = node->dirty_prev;
    node->dirty_next = node->dirty_prev = NULL;
    node->dirty = false;
}

void volume_node_mark_dirty(struct volume_node *node)
{
    uint64_t op = node->volume->op;
    if (node->unlinked || (node->dirty && node->dirty_op == op))
        return;
    if (node->dirty)
        dirty_remove(node);
    node->dirty_op = op;
    dirty_add(node);
}

/* Behind the front, so that what a call must make durable stays together there. */
void volume_node_mark_touched(struct volume_node *node)
{
    if (node->unlinked || node->dirty)
        return;
    dirty_add(node);
    struct volume_node *front = node->dirty_next;
    if (front) {
        dirty_remove(front);
        dirty_add(front);
    }
}

void volume_node_mark_clean(struct volume_node *node)
{
    if (node->dirty)
        dirty_remove(node);
    node->dirty_op = 0;
}

/* Writes the entries of the front of the list; one that fails stays, and keeps no other from being
 * written. */
static int write_front(struct volume *v, bool all)
{
    int rc = 0;
    struct volume_node *next;
    for (struct volume_node *node = v->dirty; node; node = next) {
        next = node->dirty_next;
        if (!all && node->dirty_op != v->op)
            break;
        int r = v->driver->write_node(node);
        if (r >= 0)
            volume_node_mark_clean(node);
        else if (rc == 0)
            rc = r;
    }
    if (rc < 0)
        v->failed = true;
    return rc;
}

int volume_write_dirty_nodes(struct volume *v)
{
    int rc = 0;
    /* Writing a directory may change the one above it: again, once for each of a chain of them. */
    for (size_t pass = 0; v->dirty && rc == 0 && pass <= v->nodes.count; pass++)
        rc = write_front(v, true);
    return rc;
}

int volume_write_changed_nodes(struct volume *v)
{
    return v->dirty ? write_front(v, false) : 0;
}
