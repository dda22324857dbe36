/* Sparse memory. Chunks that were never written, or were zeroed whole, are not there and read as
 * zeros; so a device of any size is made at once and costs what was written to it. */
#include "base/os.h"
#include "device/chunks.h"
#include "device/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK DEVICE_CHUNK

struct memory {
    struct device d;
    struct os_mutex *lock; /* the innermost one: guards the chunks and what they hold */
    struct base_map chunks;
};

static struct memory *memory_of(struct device *d)
{
    return (struct memory *)d;
}

static int memory_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    struct memory *m = memory_of(d);
    uint8_t *out = buffer;

    os_mutex_lock(m->lock);
    while (n > 0) {
        size_t start, part = device_chunk_part(offset, n, &start);
        const uint8_t *chunk = base_map_get(&m->chunks, offset / CHUNK);

        if (chunk) {
            memcpy(out, chunk + start, part);
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

/* Makes the chunks of a range first, so that a failure leaves the content as it was. */
static int make_chunks(struct memory *m, uint64_t offset, uint64_t n)
{
    for (uint64_t k = offset / CHUNK; k <= (offset + n - 1) / CHUNK; k++) {
        if (!base_map_get(&m->chunks, k)) {
            void *chunk = calloc(1, CHUNK);

            if (!chunk) {
                return -ENOMEM;
            }
            if (base_map_put(&m->chunks, k, chunk) != 0) {
                free(chunk);
                return -ENOMEM;
            }
        }
    }
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
        uint8_t *chunk = base_map_get(&m->chunks, offset / CHUNK);

        memcpy(chunk + start, in, part);
        in += part;
        offset += part;
        n -= part;
    }
    os_mutex_unlock(m->lock);
    return rc;
}

static void clear_part(struct memory *m, uint64_t offset, uint64_t end)
{
    uint8_t *chunk = offset < end ? base_map_get(&m->chunks, offset / CHUNK) : NULL;

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
    rc = device_chunks_drop(&m->chunks, first, last, free);
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

    device_chunks_drop_all(&m->chunks, free);
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
                      DEVICE_DISCARDS | DEVICE_CHEAP_ZERO | DEVICE_FRESH, "memory");
    if (rc) {
        free(m);
        return rc;
    }
    base_map_init(&m->chunks);
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
    held = m->chunks.count * CHUNK + base_map_bytes(&m->chunks);
    os_mutex_unlock(m->lock);
    return held;
}
