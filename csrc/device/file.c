/* Image files and raw block devices.
 *
 * Reads take no lock, so closing must not pull the descriptor away under one: `users` counts the
 * reads and writes under way plus one for the open device; whoever counts it down to 0 closes. */
#include "base/bytes.h"
#include "base/os.h"
#include "device/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct file {
    struct device d;
    int fd;
    bool block_device, punches;
    uint32_t users; /* atomic */
};

static struct file *file_of(struct device *d)
{
    return (struct file *)d;
}

static int enter(struct file *f)
{
    uint32_t users = __atomic_load_n(&f->users, __ATOMIC_RELAXED);

    while (users != 0) {
        if (__atomic_compare_exchange_n(&f->users, &users, users + 1, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            return 0;
        }
    }
    return -EBADF;
}

static void leave(struct file *f)
{
    if (__atomic_sub_fetch(&f->users, 1, __ATOMIC_ACQ_REL) == 0) {
        /* What was written was flushed before, or the caller did not want to know. */
        os_file_release(f->fd);
    }
}

static void give_up(struct file *f)
{
    if (device_is_inherited(&f->d)) {
        os_file_close(f->fd); /* the lock is the parent's; so are the users */
    } else {
        leave(f);
    }
}

static int file_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    struct file *f = file_of(d);
    int rc = enter(f);

    if (rc == 0) {
        rc = os_file_read(f->fd, offset, buffer, n);
        leave(f);
    }
    return rc;
}

static int file_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                      const struct device_tag *tag)
{
    struct file *f = file_of(d);
    int rc = enter(f);

    (void)tag;
    if (rc == 0) {
        rc = os_file_write(f->fd, offset, buffer, n);
        leave(f);
    }
    return rc;
}

static int file_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    struct file *f = file_of(d);
    int rc;

    (void)tag;
    if (!f->punches) {
        return -EOPNOTSUPP;
    }
    rc = enter(f);
    if (rc == 0) {
        rc = os_file_zero(f->fd, f->block_device, offset, n);
        leave(f);
    }
    return rc;
}

/* A discard is a hint: that the medium cannot do it is no failure. */
static int file_discard(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    struct file *f = file_of(d);
    int rc;

    (void)tag;
    if (!device_has(d, DEVICE_DISCARDS)) {
        return 0;
    }
    rc = enter(f);
    if (rc == 0) {
        rc = os_file_discard(f->fd, f->block_device, offset, n);
        leave(f);
    }
    return rc == -EOPNOTSUPP ? 0 : rc;
}

static int file_flush(struct device *d)
{
    struct file *f = file_of(d);
    int rc;

    if (device_has(d, DEVICE_READONLY)) {
        return 0;
    }
    rc = enter(f);
    if (rc == 0) {
        rc = os_file_flush(f->fd);
        leave(f);
    }
    return rc;
}

static int file_resize(struct device *d, uint64_t size)
{
    struct file *f = file_of(d);
    int rc;

    if (f->block_device) {
        return -EOPNOTSUPP;
    }
    rc = enter(f);
    if (rc == 0) {
        rc = os_file_resize(f->fd, size);
        leave(f);
    }
    return rc;
}

static void file_close(struct device *d)
{
    give_up(file_of(d));
}

static void file_destroy(struct device *d)
{
    if (!__atomic_load_n(&d->closed, __ATOMIC_ACQUIRE)) {
        give_up(file_of(d));
    }
    free(d);
}

static const struct device_ops file_ops = {
    .read = file_read,
    .write = file_write,
    .zero = file_zero,
    .flush = file_flush,
    .discard = file_discard,
    .resize = file_resize,
    .close = file_close,
    .destroy = file_destroy,
};

static int make(struct file *f, const struct os_file_info *info, bool writable,
                uint32_t sector_size, const char *name)
{
    uint32_t flags = writable ? 0 : DEVICE_READONLY;

    if (info->is_block_device) {
        flags |= DEVICE_IS_BLOCK;
    }
    if (writable && info->zero_punch) {
        flags |= DEVICE_CHEAP_ZERO;
    }
    if (writable && info->can_discard) {
        flags |= DEVICE_DISCARDS;
    }
    if (writable && info->is_regular && info->size == 0) {
        flags |= DEVICE_FRESH; /* what it grows by reads as zeros */
    }
    if (sector_size == 0) {
        sector_size = info->sector_size ? info->sector_size : 512;
    }
    f->block_device = info->is_block_device;
    f->punches = info->zero_punch;
    f->users = 1;
    return device_setup(&f->d, &file_ops, NULL, info->size, sector_size, flags, name);
}

int device_file_open(const char *path, bool writable, bool create, uint32_t sector_size,
                     struct device **out)
{
    const char *slash = strrchr(path, '/');
    struct os_file_info info;
    struct file *f = calloc(1, sizeof *f);
    int rc;

    if (!f) {
        return -ENOMEM;
    }
    rc = os_file_open(path, (writable ? OS_OPEN_WRITE : 0) | (create ? OS_OPEN_CREATE : 0), &f->fd,
                      &info);
    if (rc == 0) {
        rc = make(f, &info, writable, sector_size, slash && slash[1] ? slash + 1 : path);
        if (rc) {
            os_file_release(f->fd);
        }
    }
    if (rc) {
        free(f);
        return rc;
    }
    *out = &f->d;
    return 0;
}

int device_file_adopt(int fd, bool writable, uint32_t sector_size, struct device **out)
{
    struct os_file_info info;
    struct file *f = calloc(1, sizeof *f);
    int rc;

    if (!f) {
        return -ENOMEM;
    }
    rc = os_file_adopt(fd, writable, &f->fd, &info);
    if (rc == 0) {
        rc = make(f, &info, writable, sector_size, "descriptor");
        if (rc) {
            os_file_release(f->fd);
        }
    }
    if (rc) {
        free(f);
        return rc;
    }
    *out = &f->d;
    return 0;
}
