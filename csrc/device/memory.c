/* Sparse memory. Chunks that were never written, or were zeroed whole, are not there and read as
 * zeros; so a device of any size is made at once and costs what was written to it.
 *
 * A range of OS_LARGE bytes has its chunks one by one while few of them are there, and is one large
 * page once half of them are: then a byte is found without looking for its chunk, and by one entry
 * of the processor's tables instead of hundreds.
 */
#include "base/os.h"
#include "device/chunks.h"
#include "device/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK DEVICE_CHUNK
#define CHUNKS ((uint32_t)(OS_LARGE / CHUNK)) /* of a range */
#define GROUP 64u                             /* chunks whose pointers lie together */
#define DENSE_FROM (CHUNKS / 2)               /* chunks there */
#define SPARSE_FROM (CHUNKS / 8)

struct group {
    uint8_t *chunk[GROUP];
    uint32_t count;
};

struct range {
    struct memory *owner;
    uint8_t *dense; /* OS_LARGE bytes, or NULL: groups */
    struct group *groups[CHUNKS / GROUP];
    uint64_t present[CHUNKS / 64]; /* when dense: a bit for each chunk that is there */
    uint32_t count;                /* chunks there */
};

struct memory {
    struct device d;
    struct os_mutex *lock;  /* the innermost one: guards the ranges and what they hold */
    struct base_map ranges; /* by offset / OS_LARGE */
    uint64_t held;          /* bytes of ranges, groups and chunks */
};

static struct memory *memory_of(struct device *d)
{
    return (struct memory *)d;
}

/* ---- chunks ---- k: of all the device's; i: of a range's */

static struct range *range_at(const struct memory *m, uint64_t k)
{
    return base_map_get(&m->ranges, k / CHUNKS);
}

static uint8_t *chunk_in(const struct range *r, uint32_t i)
{
    if (r->dense) { /* zeros where none was written */
        return r->dense + (size_t)i * CHUNK;
    }
    return r->groups[i / GROUP] ? r->groups[i / GROUP]->chunk[i % GROUP] : NULL;
}

static uint8_t *chunk_at(const struct memory *m, uint64_t offset)
{
    const struct range *r = range_at(m, offset / CHUNK);

    return r ? chunk_in(r, (uint32_t)(offset / CHUNK % CHUNKS)) : NULL;
}

static void free_groups(struct range *r)
{
    for (uint32_t g = 0; g < CHUNKS / GROUP; g++) {
        struct group *group = r->groups[g];

        for (uint32_t i = 0; group && i < GROUP; i++) {
            r->owner->held -= group->chunk[i] ? CHUNK : 0;
            free(group->chunk[i]);
        }
        r->owner->held -= group ? sizeof *group : 0;
        free(group);
        r->groups[g] = NULL;
    }
}

static void free_dense(struct range *r)
{
    if (r->dense) {
        os_unreserve(r->dense, OS_LARGE);
        r->owner->held -= OS_LARGE;
        r->dense = NULL;
    }
}

static void free_range(void *range)
{
    struct range *r = range;

    free_groups(r);
    free_dense(r);
    r->owner->held -= sizeof *r;
    free(r);
}

/* Puts a chunk into a range that has chunks one by one. */
static bool add_chunk(struct range *r, uint32_t i)
{
    struct group **group = &r->groups[i / GROUP];

    if (!*group) {
        *group = calloc(1, sizeof **group);
        r->owner->held += *group ? sizeof **group : 0;
    }
    if (!*group || !((*group)->chunk[i % GROUP] = calloc(1, CHUNK))) {
        return false;
    }
    (*group)->count++;
    r->owner->held += CHUNK;
    return true;
}

/* From chunks to a large page, where there is one. */
static void make_dense(struct range *r)
{
    uint8_t *dense = os_reserve(OS_LARGE);

    if (!dense || !os_commit(dense, OS_LARGE)) {
        if (dense) {
            os_unreserve(dense, OS_LARGE);
        }
        return;
    }
    memset(r->present, 0, sizeof r->present);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const uint8_t *chunk = chunk_in(r, i);

        if (chunk) {
            memcpy(dense + (size_t)i * CHUNK, chunk, CHUNK);
            r->present[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
    free_groups(r);
    r->dense = dense;
    r->owner->held += OS_LARGE;
}

/* And back; without memory for that it stays. */
static void make_sparse(struct range *r)
{
    uint8_t *dense = r->dense;

    for (uint32_t i = 0; i < CHUNKS; i++) {
        if (!(r->present[i / 64] >> i % 64 & 1)) {
            continue;
        }
        if (!add_chunk(r, i)) {
            free_groups(r);
            return;
        }
        memcpy(r->groups[i / GROUP]->chunk[i % GROUP], dense + (size_t)i * CHUNK, CHUNK);
    }
    free_dense(r);
}

static int make_chunk(struct memory *m, uint64_t k)
{
    uint32_t i = (uint32_t)(k % CHUNKS);
    struct range *r = range_at(m, k);
    bool made = !r;

    if (made) {
        r = calloc(1, sizeof *r);
        if (!r || base_map_put(&m->ranges, k / CHUNKS, r) != 0) {
            free(r);
            return -ENOMEM;
        }
        r->owner = m;
        m->held += sizeof *r;
    }
    if (r->dense) {
        uint64_t bit = UINT64_C(1) << i % 64;

        r->count += !(r->present[i / 64] & bit);
        r->present[i / 64] |= bit;
    } else if (!chunk_in(r, i)) {
        if (!add_chunk(r, i)) {
            if (made) {
                base_map_remove(&m->ranges, k / CHUNKS);
                free_range(r);
            }
            return -ENOMEM;
        }
        r->count++;
        if (r->count >= DENSE_FROM) {
            make_dense(r);
        }
    }
    return 0;
}

/* Makes the chunks of a range first, so that a failure leaves the content as it was. */
static int make_chunks(struct memory *m, uint64_t offset, uint64_t n)
{
    int rc = 0;

    for (uint64_t k = offset / CHUNK; k <= (offset + n - 1) / CHUNK && rc == 0; k++) {
        rc = make_chunk(m, k);
    }
    return rc;
}

static void drop_chunk(struct range *r, uint32_t i)
{
    struct group *group = r->groups[i / GROUP];
    uint64_t bit = UINT64_C(1) << i % 64;

    if (r->dense) {
        if (r->present[i / 64] & bit) {
            memset(r->dense + (size_t)i * CHUNK, 0, CHUNK);
            r->present[i / 64] &= ~bit;
            r->count--;
        }
    } else if (group && group->chunk[i % GROUP]) {
        free(group->chunk[i % GROUP]);
        group->chunk[i % GROUP] = NULL;
        r->owner->held -= CHUNK;
        r->count--;
        if (--group->count == 0) {
            r->owner->held -= sizeof *group;
            free(group);
            r->groups[i / GROUP] = NULL;
        }
    }
}

/* Chunks first..last-1, which lie in one range. */
static void drop_part(struct memory *m, uint64_t first, uint64_t last)
{
    struct range *r = first < last ? range_at(m, first) : NULL;

    if (!r) {
        return;
    }
    for (uint64_t k = first; k < last; k++) {
        drop_chunk(r, (uint32_t)(k % CHUNKS));
    }
    if (r->count == 0) {
        base_map_remove(&m->ranges, first / CHUNKS);
        free_range(r);
    } else if (r->dense && r->count < SPARSE_FROM) {
        make_sparse(r);
    }
}

/* -ENOMEM with nothing dropped. */
static int drop_chunks(struct memory *m, uint64_t first, uint64_t last)
{
    uint64_t from = base_div_up(first, CHUNKS), to = last / CHUNKS;
    int rc;

    if (from > to) { /* within one range */
        drop_part(m, first, last);
        return 0;
    }
    rc = device_chunks_drop(&m->ranges, from, to, free_range);
    if (rc == 0) {
        drop_part(m, first, from * CHUNKS);
        drop_part(m, to * CHUNKS, last);
    }
    if (m->ranges.count == 0) {
        base_map_free(&m->ranges);
    }
    return rc;
}

/* ---- the device ---- memmove, which is memcpy but for compilers that make one instruction of it
 * that is slow where memory is */

static int memory_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    struct memory *m = memory_of(d);
    uint8_t *out = buffer;

    os_mutex_lock(m->lock);
    while (n > 0) {
        size_t start, part = device_chunk_part(offset, n, &start);
        const uint8_t *chunk = chunk_at(m, offset);

        if (chunk) {
            memmove(out, chunk + start, part);
        } else {
            memset(out, 0, part);
        }
        out += part;
        offset += part;
        n -= part;
    }
    os_mutex_unlock(m->lock);
    return 0;
}

static int memory_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                        const struct device_tag *tag)
{
    struct memory *m = memory_of(d);
    const uint8_t *in = buffer;
    int rc;

    (void)tag;
    os_mutex_lock(m->lock);
    rc = make_chunks(m, offset, n);
    while (rc == 0 && n > 0) {
        size_t start, part = device_chunk_part(offset, n, &start);

        memmove(chunk_at(m, offset) + start, in, part);
        in += part;
        offset += part;
        n -= part;
    }
    os_mutex_unlock(m->lock);
    return rc;
}

static void clear_part(struct memory *m, uint64_t offset, uint64_t end)
{
    uint8_t *chunk = offset < end ? chunk_at(m, offset) : NULL;

    if (chunk) {
        memset(chunk + offset % CHUNK, 0, (size_t)(end - offset));
    }
}

static int zero_range(struct memory *m, uint64_t offset, uint64_t end)
{
    uint64_t first = base_div_up(offset, CHUNK), last = end / CHUNK;
    int rc;

    if (first > last) { /* within one chunk */
        clear_part(m, offset, end);
        return 0;
    }
    rc = drop_chunks(m, first, last);
    if (rc == 0) {
        clear_part(m, offset, first * CHUNK);
        clear_part(m, last * CHUNK, end);
    }
    return rc;
}

static int memory_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    struct memory *m = memory_of(d);
    int rc;

    (void)tag;
    os_mutex_lock(m->lock);
    rc = zero_range(m, offset, offset + n);
    os_mutex_unlock(m->lock);
    return rc;
}

static int memory_resize(struct device *d, uint64_t size)
{
    return size < d->size ? memory_zero(d, size, d->size - size, NULL) : 0;
}

static void memory_destroy(struct device *d)
{
    struct memory *m = memory_of(d);

    device_chunks_drop_all(&m->ranges, free_range);
    os_mutex_delete(m->lock);
    free(m);
}

static const struct device_ops memory_ops = {
    .read = memory_read,
    .write = memory_write,
    .zero = memory_zero,
    .discard = memory_zero,
    .resize = memory_resize,
    .destroy = memory_destroy,
};

int device_memory_new(uint64_t size, uint32_t sector_size, struct device **out)
{
    struct memory *m;
    int rc;

    if (sector_size == 0) {
        sector_size = 512;
    }
    if (size % sector_size != 0) {
        return -EINVAL;
    }
    m = malloc(sizeof *m);
    if (!m) {
        return -ENOMEM;
    }
    rc = device_setup(&m->d, &memory_ops, NULL, size, sector_size,
                      DEVICE_DISCARDS | DEVICE_CHEAP_ZERO | DEVICE_CHEAP_READ | DEVICE_FRESH,
                      "memory");
    if (rc) {
        free(m);
        return rc;
    }
    base_map_init(&m->ranges);
    m->held = 0;
    m->lock = os_mutex_new();
    if (!m->lock) {
        device_setup_undo(&m->d);
        free(m);
        return -ENOMEM;
    }
    *out = &m->d;
    return 0;
}

size_t device_memory_held(struct device *d)
{
    struct memory *m = memory_of(d);
    size_t held;

    if (d->ops != &memory_ops) {
        return 0;
    }
    os_mutex_lock(m->lock);
    held = (size_t)m->held + base_map_bytes(&m->ranges);
    os_mutex_unlock(m->lock);
    return held;
}
