/* Giving the changes of a branch to its parent, or forgetting them. */
#include "device/branch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMMIT_BUFFER 262144u

struct entry {
    uint64_t key;
    const struct chunk *chunk;
};

static int compare_entries(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->key, y = ((const struct entry *)b)->key;

    return (x > y) - (x < y);
}

/* All chunks of the branch in order. Those that were changed stay as long as nobody writes here. */
static int list_chunks(struct branch *b, struct entry **list, size_t *n)
{
    size_t cursor = 0;
    const struct chunk *c;
    uint64_t key;
    int rc = device_lock(b->store);

    if (rc) {
        return rc;
    }
    *n = 0;
    *list = malloc((b->chunks.count + 1) * sizeof **list);
    if (*list) {
        while ((c = base_map_next(&b->chunks, &cursor, &key))) {
            (*list)[(*n)++] = (struct entry){key, c};
        }
    }
    device_unlock(b->store);
    if (!*list) {
        return -ENOMEM;
    }
    qsort(*list, *n, sizeof **list, compare_entries);
    return 0;
}

/* Changed bytes that follow one another, gathered into one write. */
struct gathered {
    struct branch *b;
    uint8_t *buffer;
    uint64_t offset;
    size_t n;
};

static int write_gathered(struct gathered *g)
{
    static const struct device_tag tag = {0, 0, DEVICE_OTHER};
    int rc = device_write(g->b->d.below, g->offset, g->buffer, g->n, &tag);

    g->n = 0;
    return rc;
}

static int write_chunk(struct gathered *g, const struct entry *e)
{
    int rc = 0;

    for (unsigned i = 0; i < CHUNK / UNIT && rc == 0; i++) {
        uint64_t offset = e->key * CHUNK + i * UNIT;

        if (!(e->chunk->changed >> i & 1) || offset >= g->b->d.size) {
            continue;
        }
        if (g->n && (g->offset + g->n != offset || g->n == COMMIT_BUFFER)) {
            rc = write_gathered(g);
        }
        if (g->n == 0) {
            g->offset = offset;
        }
        memcpy(g->buffer + g->n, e->chunk->data + i * UNIT, UNIT);
        g->n += UNIT;
    }
    return rc;
}

static int write_changes(struct branch *b, const struct entry *list, size_t n)
{
    static const struct device_tag tag = {0, 0, DEVICE_ZEROING};
    struct gathered g = {b, malloc(COMMIT_BUFFER), 0, 0};
    int rc = g.buffer ? 0 : -ENOMEM;

    for (size_t i = 0; i < b->zeroed.n && rc == 0; i++) {
        uint64_t start = b->zeroed.v[i].first * CHUNK;
        uint64_t end = base_min(b->zeroed.v[i].last * CHUNK, b->d.size);

        rc = start < end ? device_zero(b->d.below, start, end - start, &tag) : 0;
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = write_chunk(&g, &list[i]);
    }
    if (rc == 0 && g.n) {
        rc = write_gathered(&g);
    }
    free(g.buffer);
    return rc;
}

/* The branch itself must not be in the way; others that stand on the parent are. */
static int resize_parent(struct branch *b)
{
    int rc = device_lock(b->store);

    if (rc) {
        return rc;
    }
    device_branch_unlink(b);
    device_unlock(b->store);
    rc = device_resize(b->d.below, b->d.size);
    if (device_lock(b->store) == 0) {
        b->visible = base_min(b->visible, b->d.below->size);
        device_branch_link(b);
        device_unlock(b->store);
    }
    return rc;
}

/* Before the branch shows the parent again: its own branches keep what they see. Own lock held. */
static int preserve_for_children(struct branch *b, const struct entry *list, size_t n)
{
    int rc = 0;

    if (!b->d.branches) {
        return 0;
    }
    if (b->d.size != b->d.below->size) {
        return -EBUSY;
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = device_preserve(&b->d, list[i].key * CHUNK, CHUNK);
    }
    for (size_t i = 0; i < b->zeroed.n && rc == 0; i++) {
        const struct device_range *z = &b->zeroed.v[i];

        rc = device_preserve(&b->d, z->first * CHUNK, (z->last - z->first) * CHUNK);
    }
    return rc;
}

static int forget_all(struct branch *b)
{
    int rc = device_lock(b->store);

    if (rc) {
        return rc;
    }
    device_branch_empty(b);
    b->visible = b->d.below->size;
    __atomic_store_n(&b->d.size, b->visible, __ATOMIC_RELAXED);
    device_unlock(b->store);
    return 0;
}

static int finish(struct device *branch, bool commit)
{
    struct branch *b = device_branch_of(branch);
    struct entry *list = NULL;
    size_t n = 0;
    int rc;

    if (!b) {
        return -EINVAL;
    }
    if (device_is_closed(branch)) {
        return -EBADF;
    }
    rc = device_lock(branch); /* nobody writes here meanwhile */
    if (rc) {
        return rc;
    }
    rc = list_chunks(b, &list, &n);
    if (rc == 0) {
        rc = preserve_for_children(b, list, n);
    }
    if (rc == 0 && commit && branch->size != branch->below->size) {
        rc = resize_parent(b);
    }
    if (rc == 0 && commit) {
        rc = write_changes(b, list, n);
    }
    if (rc == 0 && commit) {
        rc = device_flush(branch->below);
    }
    if (rc == 0) {
        rc = forget_all(b);
    }
    device_unlock(branch);
    free(list);
    return rc;
}

int device_branch_commit(struct device *branch)
{
    return finish(branch, true);
}

int device_branch_discard(struct device *branch)
{
    return finish(branch, false);
}

uint64_t device_branch_changed(struct device *branch)
{
    struct branch *b = device_branch_of(branch);
    const struct chunk *c;
    uint64_t bytes;
    size_t cursor = 0;

    if (!b || device_lock(b->store) != 0) {
        return 0;
    }
    bytes = device_ranges_total(&b->zeroed) * CHUNK;
    while ((c = base_map_next(&b->chunks, &cursor, NULL))) {
        bytes += (uint64_t)__builtin_popcount(c->changed) * UNIT;
    }
    device_unlock(b->store);
    return bytes;
}
