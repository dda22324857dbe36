/* The front of all devices: checks arguments, takes the lock around what changes the device, and
 * keeps for the branches what is about to change. References, closing and the claims of writers are
 * here too. */
#include "device/device.h"

#include "base/bytes.h"
#include "base/os.h"
#include "device/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZEROS 65536u
#define ZEROS_MOST (1u << 20) /* where a command costs more than its bytes */

struct device_claim {
    const struct device *who;
    uint64_t start, end;
    struct device_claim *next;
};

const char *device_structure_name(enum device_structure s)
{
    static const char *const names[DEVICE_STRUCTURES] = {
        [DEVICE_OTHER] = "other",
        [DEVICE_BOOT] = "boot region",
        [DEVICE_BACKUP_BOOT] = "backup boot region",
        [DEVICE_FAT] = "FAT",
        [DEVICE_BITMAP] = "allocation bitmap",
        [DEVICE_UPCASE] = "up-case table",
        [DEVICE_DIRECTORY] = "directory",
        [DEVICE_ENTRY_SET] = "entry set",
        [DEVICE_DATA] = "data",
        [DEVICE_LABEL] = "volume label",
        [DEVICE_PARTITION] = "partition table",
        [DEVICE_ZEROING] = "zeros",
    };

    return (unsigned)s < DEVICE_STRUCTURES ? names[s] : names[DEVICE_OTHER];
}

/* ---- life ---- */

int device_setup(struct device *d, const struct device_ops *ops, struct device *below,
                 uint64_t size, uint32_t sector_size, uint32_t flags, const char *name)
{
    if (sector_size < 512 || sector_size > 4096 || !base_is_power_of_two(sector_size)) {
        return -EINVAL;
    }
    memset(d, 0, sizeof *d);
    d->lock = os_mutex_new();
    if (!d->lock) {
        return -ENOMEM;
    }
    d->ops = ops;
    d->size = size - size % sector_size;
    d->sector_size = sector_size;
    d->flags = flags;
    d->refs = 1;
    d->process = os_process_id();
    d->below = below ? device_ref(below) : NULL;
    snprintf(d->name, sizeof d->name, "%s", name);
    return 0;
}

void device_setup_undo(struct device *d)
{
    os_mutex_delete(d->lock);
    device_unref(d->below);
}

struct device *device_ref(struct device *d)
{
    __atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
    return d;
}

static void destroy(struct device *d)
{
    struct os_mutex *lock = d->lock;

    while (d->claims) {
        struct device_claim *c = d->claims;

        d->claims = c->next;
        free(c);
    }
    d->ops->destroy(d);
    os_mutex_delete(lock);
}

/* No thread was changing d or what it stands on when the process forked. */
static bool was_quiet(struct device *d)
{
    for (; d; d = d->below) {
        if (!os_mutex_trylock(d->lock)) {
            return false;
        }
        os_mutex_unlock(d->lock);
    }
    return true;
}

/* For a device of the parent: nothing is written, and the parent keeps its lock on the file. */
static void give_up(struct device *d)
{
    if (!__atomic_exchange_n(&d->closed, 1, __ATOMIC_ACQ_REL) && d->ops->close) {
        d->ops->close(d);
    }
}

/* A loop and not a recursion, because shims may be stacked as deep as one likes. */
void device_unref(struct device *d)
{
    while (d && __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        struct device *below = d->below;

        if (!device_is_inherited(d) || was_quiet(d)) {
            destroy(d);
        } else {
            give_up(d); /* its tables are as a thread of the parent has left them half-way */
        }
        d = below;
    }
}

int device_lock(struct device *d)
{
    uint64_t me = os_thread_id();

    if (__atomic_load_n(&d->owner, __ATOMIC_RELAXED) == me) {
        return -EDEADLK;
    }
    if (device_is_inherited(d)) {
        return -EBADF; /* whoever holds it is in another process */
    }
    os_mutex_lock(d->lock);
    __atomic_store_n(&d->owner, me, __ATOMIC_RELAXED);
    return 0;
}

void device_unlock(struct device *d)
{
    __atomic_store_n(&d->owner, 0, __ATOMIC_RELAXED);
    os_mutex_unlock(d->lock);
}

int device_close(struct device *d)
{
    int rc = 0, locked;

    if (device_is_inherited(d)) {
        give_up(d);
    }
    if (device_is_closed(d)) {
        return 0;
    }
    locked = device_lock(d);
    if (locked) {
        return locked;
    }
    device_unlock(d);
    if (!device_has(d, DEVICE_READONLY)) {
        rc = device_flush(d);
    }
    if (device_lock(d) == 0) {
        if (!__atomic_exchange_n(&d->closed, 1, __ATOMIC_ACQ_REL) && d->ops->close) {
            d->ops->close(d);
        }
        device_unlock(d);
    }
    return rc;
}

struct device *device_store(struct device *d, uint64_t *offset)
{
    *offset = 0;
    while (device_is_shim(d)) {
        *offset += d->below_offset;
        d = d->below;
    }
    return d;
}

/* ---- reading and writing ---- */

static int check_range(const struct device *d, uint64_t offset, uint64_t n, bool write)
{
    uint64_t size = __atomic_load_n(&d->size, __ATOMIC_RELAXED);

    if (device_is_closed(d)) {
        return -EBADF;
    }
    if (write && device_has(d, DEVICE_READONLY)) {
        return -EROFS;
    }
    if (((offset | n) & (d->sector_size - 1)) && (write || !device_has(d, DEVICE_CHEAP_READ))) {
        return -EINVAL;
    }
    if (offset > size || n > size - offset) {
        return write ? -EINVAL : -EIO;
    }
    return 0;
}

int device_read(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    int rc = check_range(d, offset, n, false);

    if (rc || n == 0) {
        return rc;
    }
    return d->ops->read(d, offset, buffer, n);
}

/* One more reference, unless the last one is gone and the device is on its way out. */
static bool ref_if_alive(struct device *d)
{
    uint32_t refs = __atomic_load_n(&d->refs, __ATOMIC_RELAXED);

    while (refs != 0) {
        if (__atomic_compare_exchange_n(&d->refs, &refs, refs + 1, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return false;
}

int device_preserve(struct device *d, uint64_t offset, uint64_t n)
{
    struct device *b = d->branches;
    int rc = 0;

    while (b && rc == 0) {
        struct device *next;
        /* A reference, because a call-back may drop the branch that it is read for. */
        bool alive = ref_if_alive(b);

        rc = alive ? b->ops->preserve(b, offset, n) : 0;
        next = b->next_branch;
        if (alive) {
            device_unref(b);
        }
        b = next;
    }
    return rc;
}

/* Takes the lock to change offset, n. On success it is held and every branch has what it needs. */
static int begin_change(struct device *d, uint64_t offset, uint64_t n)
{
    int rc = device_lock(d);

    if (rc) {
        return rc;
    }
    rc = device_is_closed(d) ? -EBADF : device_preserve(d, offset, n);
    if (rc) {
        device_unlock(d);
        return rc;
    }
    if (device_has(d, DEVICE_FRESH)) {
        __atomic_and_fetch(&d->flags, ~(uint32_t)DEVICE_FRESH, __ATOMIC_RELAXED);
    }
    return 0;
}

int device_write(struct device *d, uint64_t offset, const void *buffer, size_t n,
                 const struct device_tag *tag)
{
    int rc = check_range(d, offset, n, true);

    if (rc || n == 0) {
        return rc;
    }
    rc = begin_change(d, offset, n);
    if (rc) {
        return rc;
    }
    rc = d->ops->write(d, offset, buffer, n, tag);
    device_unlock(d);
    return rc;
}

static int write_zeros(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    static const uint8_t zeros[ZEROS];
    size_t most = (size_t)base_min(n, ZEROS_MOST);
    uint8_t *more = most > ZEROS ? calloc(1, most) : NULL; /* without it in smaller writes */
    int rc = 0;

    if (!more) {
        most = ZEROS;
    }
    while (n > 0 && rc == 0) {
        size_t part = (size_t)base_min(n, most);

        rc = d->ops->write(d, offset, more ? more : zeros, part, tag);
        offset += part;
        n -= part;
    }
    free(more);
    return rc;
}

int device_zero(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    int rc = check_range(d, offset, n, true);

    if (rc || n == 0) {
        return rc;
    }
    rc = begin_change(d, offset, n);
    if (rc) {
        return rc;
    }
    rc = d->ops->zero ? d->ops->zero(d, offset, n, tag) : -EOPNOTSUPP;
    if (rc == -EOPNOTSUPP) {
        rc = write_zeros(d, offset, n, tag);
    }
    device_unlock(d);
    return rc;
}

int device_discard(struct device *d, uint64_t offset, uint64_t n, const struct device_tag *tag)
{
    int rc = check_range(d, offset, n, true);

    if (rc || n == 0 || !d->ops->discard) {
        return rc;
    }
    rc = begin_change(d, offset, n);
    if (rc) {
        return rc;
    }
    rc = d->ops->discard(d, offset, n, tag);
    device_unlock(d);
    return rc;
}

int device_flush(struct device *d)
{
    if (device_is_closed(d)) {
        return -EBADF;
    }
    return d->ops->flush ? d->ops->flush(d) : 0;
}

/* Whether a volume writes to what is behind `size`. */
static bool cuts_claim(const struct device *d, uint64_t size)
{
    for (const struct device_claim *c = d->claims; c && size < d->size; c = c->next) {
        if (c->end > size) {
            return true;
        }
    }
    return false;
}

int device_resize(struct device *d, uint64_t size)
{
    int rc = check_range(d, 0, 0, true);

    if (rc) {
        return rc;
    }
    if (size % d->sector_size != 0) {
        return -EINVAL;
    }
    if (!d->ops->resize) {
        return -EOPNOTSUPP;
    }
    rc = device_lock(d);
    if (rc) {
        return rc;
    }
    if (d->branches) {
        rc = -EBUSY; /* what is cut off would have to be kept for them */
    } else if (cuts_claim(d, size)) {
        rc = -EBUSY;
    } else if (device_is_closed(d)) {
        rc = -EBADF;
    } else {
        rc = d->ops->resize(d, size);
    }
    if (rc == 0) {
        __atomic_store_n(&d->size, size, __ATOMIC_RELAXED);
    }
    device_unlock(d);
    return rc;
}

uint64_t device_begin(struct device *d, const char *call, const char *path)
{
    return d->ops->begin ? d->ops->begin(d, call, path) : 0;
}

uint64_t device_object(struct device *d, const char *path)
{
    return d->ops->object ? d->ops->object(d, path) : 0;
}

/* ---- claims ---- */

int device_claim(struct device *d)
{
    uint64_t offset;
    struct device *store = device_store(d, &offset);
    struct device_claim *c = malloc(sizeof *c);
    int rc;

    if (!c) {
        return -ENOMEM;
    }
    rc = device_lock(store);
    if (rc) {
        free(c);
        return rc;
    }
    c->who = d;
    c->start = offset;
    /* All of a device stays all of it when it grows. */
    c->end = offset == 0 && d->size >= store->size ? UINT64_MAX : offset + d->size;
    for (const struct device_claim *o = store->claims; o && rc == 0; o = o->next) {
        rc = o->start < c->end && c->start < o->end ? -EBUSY : 0;
    }
    if (rc == 0) {
        c->next = store->claims;
        store->claims = c;
        c = NULL;
    }
    device_unlock(store);
    free(c);
    return rc;
}

void device_release(struct device *d)
{
    uint64_t offset;
    struct device *store = device_store(d, &offset);
    struct device_claim **at, *c = NULL;

    if (device_lock(store)) {
        return;
    }
    for (at = &store->claims; *at; at = &(*at)->next) {
        if ((*at)->who == d) {
            c = *at;
            *at = c->next;
            break;
        }
    }
    device_unlock(store);
    free(c);
}
