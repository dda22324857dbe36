/* Copy-on-write branches.
 *
 * A branch shows its parent as it was when the branch was made, with the changes made through the
 * branch. To make one, it is only put on the list of the store: the device below all shims whose
 * bytes it shows. From then on, whatever is about to change in the store, by whichever way, is
 * first kept in the branch (preserve), chunk by chunk, once. So the bytes of a chunk are found
 *   1. in the map of the branch: kept from before, or changed (a bit for each 512 bytes says
 * which);
 *   2. else, when the chunk is in a zeroed range, they are zeros;
 *   3. else in the parent, where they have not changed since.
 *
 * What was kept is not a change: commit writes to the parent only what was changed through the
 * branch; discard forgets both, and the branch then shows the parent as it is now. Kept chunks that
 * are all zeros share one chunk, which makes branches of sparse devices cheap.
 *
 * The other side of it: while a device has branches, zeroing it costs a look at each chunk of the
 * range.
 *
 * All tables of a branch are guarded by the lock of its store, since the store's writers fill them.
 * Its own lock guards the tables of its own branches. Locks go from the branch down to the store.
 */
#include "device/branch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_CHANGED 0xFFu

static const struct chunk zero_chunk; /* what chunks that are all zeros share */

static struct branch *branch_of(struct device *d)
{
    return (struct branch *)d;
}

static void release_chunk(void *chunk)
{
    if (chunk != &zero_chunk) {
        free(chunk);
    }
}

/* ---- reading ---- */

static int read_below(struct branch *b, uint64_t offset, uint8_t *out, size_t n)
{
    size_t there = offset < b->visible ? (size_t)base_min(n, b->visible - offset) : 0;

    memset(out + there, 0, n - there);
    return there ? device_read(b->d.below, offset, out, there) : 0;
}

/* Copies what the branch has of the beginning of a range; returns how much, 0: it is in the parent.
 */
static size_t read_own(struct branch *b, uint64_t offset, uint8_t *out, size_t n)
{
    size_t start, part = device_chunk_part(offset, n, &start);
    const struct chunk *c = base_map_get(&b->chunks, offset / CHUNK);

    if (c) {
        memcpy(out, c->data + start, part);
    } else if (device_ranges_contain(&b->zeroed, offset / CHUNK)) {
        memset(out, 0, part);
    } else {
        part = 0;
    }
    return part;
}

static int read_locked(struct branch *b, uint64_t offset, uint8_t *out, size_t n)
{
    size_t pending = 0; /* bytes before out that are still to be read from the parent, in one go */
    int rc = 0;

    while (n > 0 && rc == 0) {
        size_t start, part = read_own(b, offset, out, n);

        if (part == 0) {
            part = device_chunk_part(offset, n, &start);
            pending += part;
        } else if (pending) {
            rc = read_below(b, offset - pending, out - pending, pending);
            pending = 0;
        }
        out += part;
        offset += part;
        n -= part;
    }
    return rc || pending == 0 ? rc : read_below(b, offset - pending, out - pending, pending);
}

static int branch_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    struct branch *b = branch_of(d);
    int rc = device_lock(b->store);

    if (rc == 0) {
        rc = read_locked(b, offset, buffer, n);
        device_unlock(b->store);
    }
    return rc;
}

/* ---- writing ---- */

/* Gives the branch a chunk of its own; a hollow one when all of it will be written. */
static int make_chunk(struct branch *b, uint64_t k, bool whole)
{
    struct chunk *c = base_map_get(&b->chunks, k);
    bool zeros = c == &zero_chunk || device_ranges_contain(&b->zeroed, k);
    int rc = 0;

    if (c && c != &zero_chunk) {
        return 0;
    }
    c = malloc(sizeof *c);
    if (!c) {
        return -ENOMEM;
    }
    c->changed = 0;
    c->hollow = false;
    if (zeros) {
        memset(c->data, 0, CHUNK);
    } else if (whole) {
        c->hollow = true;
    } else {
        rc = read_below(b, k * CHUNK, c->data, CHUNK);
    }
    if (rc == 0) {
        rc = base_map_put(&b->chunks, k, c);
    }
    if (rc) {
        free(c);
    }
    return rc;
}

/* Makes the chunks of a range. After a failure the branch shows what it showed before. */
static int make_chunks(struct branch *b, uint64_t offset, uint64_t n)
{
    uint64_t first = offset / CHUNK, last = base_div_up(offset + n, CHUNK), k;
    int rc = 0;

    for (k = first; k < last && rc == 0; k++) {
        rc = make_chunk(b, k, k * CHUNK >= offset && k * CHUNK + CHUNK <= offset + n);
    }
    while (rc && k > first) {
        struct chunk *c = base_map_get(&b->chunks, --k);

        if (c && c->hollow) {
            free(base_map_remove(&b->chunks, k));
        }
    }
    return rc;
}

/* Stores into chunks that are there; in == NULL: zeros. */
static void store_bytes(struct branch *b, uint64_t offset, const uint8_t *in, uint64_t n)
{
    while (n > 0) {
        size_t start, part = device_chunk_part(offset, n, &start);
        struct chunk *c = base_map_get(&b->chunks, offset / CHUNK);
        unsigned first = (unsigned)(start / UNIT), count = (unsigned)(part / UNIT);

        if (in) {
            memcpy(c->data + start, in, part);
            in += part;
        } else {
            memset(c->data + start, 0, part);
        }
        c->changed = (uint8_t)(c->changed | (ALL_CHANGED >> (8 - count)) << first);
        c->hollow = false;
        offset += part;
        n -= part;
    }
}

static int branch_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                        const struct device_tag *tag)
{
    struct branch *b = branch_of(d);
    int rc = device_lock(b->store);

    (void)tag;
    if (rc) {
        return rc;
    }
    rc = make_chunks(b, offset, n);
    if (rc == 0) {
        store_bytes(b, offset, buffer, n);
    }
    device_unlock(b->store);
    return rc;
}

/* Whole chunks become a range, the ends of it are written. */
static int zero_locked(struct branch *b, uint64_t offset, uint64_t end)
{
    uint64_t first = base_div_up(offset, CHUNK), last = end / CHUNK;
    uint64_t head = base_min(first * CHUNK, end) - offset;
    uint64_t tail = first <= last ? end - last * CHUNK : 0;
    int rc = device_ranges_reserve(&b->zeroed);

    if (rc == 0 && head) {
        rc = make_chunks(b, offset, head);
    }
    if (rc == 0 && tail) {
        rc = make_chunks(b, end - tail, tail);
    }
    if (rc == 0) {
        rc = device_chunks_drop(&b->chunks, first, last, release_chunk);
    }
    if (rc == 0) {
        device_ranges_add(&b->zeroed, first, last);
        store_bytes(b, offset, NULL, head);
        store_bytes(b, end - tail, NULL, tail);
    }
    return rc;
}

static int branch_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    struct branch *b = branch_of(d);
    int rc = device_lock(b->store);

    (void)tag;
    if (rc == 0) {
        rc = zero_locked(b, offset, offset + n);
        device_unlock(b->store);
    }
    return rc;
}

/* What is cut off is zeroed, so that it does not come back when the branch grows again. */
static int branch_resize(struct device *d, uint64_t size)
{
    if (size < d->size) {
        return branch_zero(d, size, base_round_up(d->size, CHUNK) - size, NULL);
    }
    return 0;
}

/* ---- what the store is about to change ---- */

static int preserve_chunk(struct branch *b, uint64_t k)
{
    struct chunk *c = (struct chunk *)&zero_chunk;
    uint8_t data[CHUNK];
    size_t n = (size_t)base_min(CHUNK, b->visible - k * CHUNK);
    int rc;

    if (base_map_get(&b->chunks, k) || device_ranges_contain(&b->zeroed, k)) {
        return 0;
    }
    memset(data + n, 0, CHUNK - n);
    /* Not by the front: the lock is held, and faults of shims are for their users. */
    rc = b->store->ops->read(b->store, b->base + k * CHUNK, data, n);
    if (rc) {
        return rc;
    }
    if (memcmp(data, zero_chunk.data, CHUNK) != 0) {
        c = malloc(sizeof *c);
        if (!c) {
            return -ENOMEM;
        }
        c->changed = 0;
        c->hollow = false;
        memcpy(c->data, data, CHUNK);
    }
    rc = base_map_put(&b->chunks, k, c);
    if (rc) {
        release_chunk(c);
    }
    return rc;
}

static int branch_preserve(struct device *d, uint64_t offset, uint64_t n)
{
    struct branch *b = branch_of(d);
    uint64_t start = base_max(offset, b->base);
    uint64_t end = base_min(offset + n, b->base + b->visible);
    int rc = 0;

    if (start >= end) {
        return 0;
    }
    for (uint64_t k = (start - b->base) / CHUNK; k * CHUNK < end - b->base && rc == 0; k++) {
        rc = preserve_chunk(b, k);
    }
    return rc;
}

/* ---- making and dropping ---- */

void device_branch_unlink(struct branch *b)
{
    struct device **at = &b->store->branches;

    while (*at && *at != &b->d) {
        at = &(*at)->next_branch;
    }
    if (*at) {
        *at = b->d.next_branch;
    }
}

void device_branch_link(struct branch *b)
{
    b->d.next_branch = b->store->branches;
    b->store->branches = &b->d;
}

void device_branch_empty(struct branch *b)
{
    device_chunks_drop_all(&b->chunks, release_chunk);
    device_ranges_free(&b->zeroed);
}

static void branch_destroy(struct device *d)
{
    struct branch *b = branch_of(d);
    int rc = device_lock(b->store);

    /* -EDEADLK: dropped in a call-back of the store, whose lock is this thread's already. */
    device_branch_unlink(b);
    if (rc == 0) {
        device_unlock(b->store);
    }
    device_branch_empty(b);
    free(b);
}

static const struct device_ops branch_ops = {
    .read = branch_read,
    .write = branch_write,
    .zero = branch_zero,
    .resize = branch_resize,
    .preserve = branch_preserve,
    .destroy = branch_destroy,
};

struct branch *device_branch_of(struct device *d)
{
    return d->ops == &branch_ops ? branch_of(d) : NULL;
}

int device_branch_new(struct device *below, struct device **out)
{
    struct branch *b;
    int rc;

    if (device_is_closed(below)) {
        return -EBADF;
    }
    b = calloc(1, sizeof *b);
    if (!b) {
        return -ENOMEM;
    }
    rc = device_setup(&b->d, &branch_ops, below, below->size, below->sector_size, DEVICE_CHEAP_ZERO,
                      "branch");
    if (rc) {
        free(b);
        return rc;
    }
    b->store = device_store(below, &b->base);
    rc = device_lock(b->store);
    if (rc) {
        device_setup_undo(&b->d);
        free(b);
        return rc;
    }
    b->d.size = b->visible = below->size;
    if (device_has(b->store, DEVICE_FRESH)) {
        b->d.flags |= DEVICE_FRESH;
    }
    if (device_has(below, DEVICE_CHEAP_READ)) {
        b->d.flags |= DEVICE_CHEAP_READ;
    }
    device_branch_link(b);
    device_unlock(b->store);
    *out = &b->d;
    return 0;
}
