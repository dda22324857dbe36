/* What the kinds of device share; for csrc/device only. */
#ifndef PYEXFAT_DEVICE_INTERNAL_H
#define PYEXFAT_DEVICE_INTERNAL_H

#include "base/os.h"
#include "device/device.h"

/* Fills in the common part of a new device with one reference; takes a reference to below (may be
 * NULL). -EINVAL: the sector size is not one of 512 to 4096. On failure nothing is held. */
int device_setup(struct device *d, const struct device_ops *ops, struct device *below,
                 uint64_t size, uint32_t sector_size, uint32_t flags, const char *name);

/* Takes device_setup back, for a device that nobody else has seen. */
void device_setup_undo(struct device *d);

/* The lock of a device: always one device at a time or from the upper to the lower one. */
int device_lock(struct device *d); /* -EDEADLK: this thread holds it already; -EBADF: inherited */
void device_unlock(struct device *d);

/* Does d hand everything to what is below (slice, recorder, faults)? */
static inline bool device_is_shim(const struct device *d)
{
    return d->below && !d->ops->preserve;
}

/* The device that holds the bytes of d, below all shims; *offset is where d begins in it. */
struct device *device_store(struct device *d, uint64_t *offset);

/* Has every branch of d keep what offset, n holds now. The lock of d is held. */
int device_preserve(struct device *d, uint64_t offset, uint64_t n);

/* Flags that a shim has from what is below it. */
static inline uint32_t device_shim_flags(const struct device *below)
{
    return __atomic_load_n(&below->flags, __ATOMIC_RELAXED) & ~(uint32_t)DEVICE_FRESH;
}

/* Made before a fork whose child this process is. */
static inline bool device_is_inherited(const struct device *d)
{
    return d->process != os_process_id();
}

static inline bool device_is_closed(const struct device *d)
{
    return __atomic_load_n(&d->closed, __ATOMIC_ACQUIRE) != 0 || device_is_inherited(d);
}

#endif
