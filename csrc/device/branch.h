/* The inside of a branch, for branch.c and branch_commit.c. */
#ifndef PYEXFAT_DEVICE_BRANCH_H
#define PYEXFAT_DEVICE_BRANCH_H

#include "device/chunks.h"
#include "device/internal.h"

#define CHUNK DEVICE_CHUNK
#define UNIT 512u /* what a bit of `changed` stands for */

struct chunk {
    uint8_t changed;
    bool hollow; /* made for a write that will fill it whole */
    uint8_t data[CHUNK];
};

struct branch {
    struct device d;
    struct device *store;
    uint64_t base;    /* where the branch begins in the store */
    uint64_t visible; /* bytes of the parent that the branch shows */
    struct base_map chunks;
    struct device_ranges zeroed; /* chunk numbers */
};

/* The branch behind d, or NULL: another kind of device. */
struct branch *device_branch_of(struct device *d);
/* On and off the list of the store, whose lock is held. */
void device_branch_link(struct branch *b);
void device_branch_unlink(struct branch *b);
/* Empties the tables; the lock of the store is held, or nobody else knows the branch. */
void device_branch_empty(struct branch *b);

#endif
