/* A range of another device: a partition, or an image inside a bigger one. */
#include "device/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int slice_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    return device_read(d->below, d->below_offset + offset, buffer, n);
}

static int slice_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                       const struct device_tag *tag)
{
    return device_write(d->below, d->below_offset + offset, buffer, n, tag);
}

static int slice_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    return device_zero(d->below, d->below_offset + offset, n, tag);
}

static int slice_discard(struct device *d, uint64_t offset, uint64_t n,
                         const struct device_tag *tag)
{
    return device_discard(d->below, d->below_offset + offset, n, tag);
}

static int slice_flush(struct device *d)
{
    return device_flush(d->below);
}

static uint64_t slice_begin(struct device *d, const char *call, const char *path)
{
    return device_begin(d->below, call, path);
}

static uint64_t slice_object(struct device *d, const char *path)
{
    return device_object(d->below, path);
}

static void slice_destroy(struct device *d)
{
    free(d);
}

static const struct device_ops slice_ops = {
    .read = slice_read,
    .write = slice_write,
    .zero = slice_zero,
    .flush = slice_flush,
    .discard = slice_discard,
    .begin = slice_begin,
    .object = slice_object,
    .destroy = slice_destroy,
};

int device_slice_new(struct device *below, uint64_t offset, uint64_t length, struct device **out)
{
    char name[sizeof below->name];
    struct device *d;
    int rc;

    if ((offset | length) % below->sector_size != 0 || offset > below->size ||
        length > below->size - offset) {
        return -EINVAL;
    }
    d = malloc(sizeof *d);
    if (!d) {
        return -ENOMEM;
    }
    snprintf(name, sizeof name, "%.40s+%llu", below->name, (unsigned long long)offset);
    rc = device_setup(d, &slice_ops, below, length, below->sector_size, device_shim_flags(below),
                      name);
    if (rc) {
        free(d);
        return rc;
    }
    d->below_offset = offset;
    *out = d;
    return 0;
}
