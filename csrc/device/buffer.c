/* Memory of somebody else, used in place. */
#include "base/os.h"
#include "device/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    struct device d;
    struct os_mutex *lock; /* the innermost one: guards the bytes */
    uint8_t *bytes;
    void (*release)(void *owner);
    void *owner;
};

static struct buffer *buffer_of(struct device *d)
{
    return (struct buffer *)d;
}

static int buffer_read(struct device *d, uint64_t offset, void *out, size_t n)
{
    struct buffer *b = buffer_of(d);

    os_mutex_lock(b->lock);
    memcpy(out, b->bytes + offset, n);
    os_mutex_unlock(b->lock);
    return 0;
}

static int buffer_write(struct device *d, uint64_t offset, const void *in, size_t n,
                        const struct device_tag *tag)
{
    struct buffer *b = buffer_of(d);

    (void)tag;
    os_mutex_lock(b->lock);
    memcpy(b->bytes + offset, in, n);
    os_mutex_unlock(b->lock);
    return 0;
}

static int buffer_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    struct buffer *b = buffer_of(d);

    (void)tag;
    os_mutex_lock(b->lock);
    memset(b->bytes + offset, 0, (size_t)n);
    os_mutex_unlock(b->lock);
    return 0;
}

static void buffer_destroy(struct device *d)
{
    struct buffer *b = buffer_of(d);

    if (b->release) {
        b->release(b->owner);
    }
    os_mutex_delete(b->lock);
    free(b);
}

static const struct device_ops buffer_ops = {
    .read = buffer_read,
    .write = buffer_write,
    .zero = buffer_zero,
    .destroy = buffer_destroy,
};

int device_buffer_new(void *memory, uint64_t size, bool writable, uint32_t sector_size,
                      void (*release)(void *owner), void *owner, struct device **out)
{
    struct buffer *b = malloc(sizeof *b);
    int rc;

    if (!b) {
        return -ENOMEM;
    }
    rc = device_setup(&b->d, &buffer_ops, NULL, size, sector_size ? sector_size : 512,
                      DEVICE_CHEAP_READ | (writable ? 0 : DEVICE_READONLY), "buffer");
    if (rc) {
        free(b);
        return rc;
    }
    b->lock = os_mutex_new();
    if (!b->lock) {
        device_setup_undo(&b->d);
        free(b);
        return -ENOMEM;
    }
    b->bytes = memory;
    b->release = release;
    b->owner = owner;
    *out = &b->d;
    return 0;
}
