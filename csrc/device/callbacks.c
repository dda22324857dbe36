/* A device behind call-backs. */
#include "device/internal.h"

#include <errno.h>
#include <stdlib.h>

struct callbacks {
    struct device d;
    struct device_callbacks call;
    void *owner;
};

static struct callbacks *callbacks_of(struct device *d)
{
    return (struct callbacks *)d;
}

static int callbacks_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    struct callbacks *c = callbacks_of(d);

    return c->call.read(c->owner, offset, buffer, n);
}

static int callbacks_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                           const struct device_tag *tag)
{
    struct callbacks *c = callbacks_of(d);

    (void)tag;
    return c->call.write(c->owner, offset, buffer, n);
}

static int callbacks_flush(struct device *d)
{
    struct callbacks *c = callbacks_of(d);

    return c->call.flush ? c->call.flush(c->owner) : 0;
}

static int callbacks_resize(struct device *d, uint64_t size)
{
    struct callbacks *c = callbacks_of(d);

    return c->call.resize ? c->call.resize(c->owner, size) : -EOPNOTSUPP;
}

static void callbacks_destroy(struct device *d)
{
    struct callbacks *c = callbacks_of(d);

    if (c->call.release) {
        c->call.release(c->owner);
    }
    free(c);
}

static const struct device_ops callbacks_ops = {
    .read = callbacks_read,
    .write = callbacks_write,
    .flush = callbacks_flush,
    .resize = callbacks_resize,
    .destroy = callbacks_destroy,
};

int device_callbacks_new(const struct device_callbacks *call, void *owner, uint64_t size,
                         uint32_t sector_size, struct device **out)
{
    struct callbacks *c;
    int rc;

    if (!call->read) {
        return -EINVAL;
    }
    c = malloc(sizeof *c);
    if (!c) {
        return -ENOMEM;
    }
    rc = device_setup(&c->d, &callbacks_ops, NULL, size, sector_size ? sector_size : 512,
                      call->write ? 0 : DEVICE_READONLY, "object");
    if (rc) {
        free(c);
        return rc;
    }
    c->call = *call;
    c->owner = owner;
    *out = &c->d;
    return 0;
}
