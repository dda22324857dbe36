/* Partition tables: MBR with logical partitions (EBR), and GPT; reading and writing. */
#ifndef PYEXFAT_DEVICE_PARTITION_H
#define PYEXFAT_DEVICE_PARTITION_H

#include "base/env.h"
#include "base/error.h"
#include "device/device.h"

#define DEVICE_PARTITIONS_MAX 256

enum device_scheme { DEVICE_SCHEME_NONE = 0, DEVICE_SCHEME_MBR, DEVICE_SCHEME_GPT };

struct device_partition {
    uint32_t number;         /* as Linux counts: MBR 1..4, logical from 5; GPT slot + 1 */
    uint64_t offset, length; /* bytes */
    uint8_t type;            /* MBR type byte, 0xEE.. not listed */
    uint8_t type_guid[16];   /* GPT, as on the disk */
    uint8_t guid[16];
    char name[110]; /* GPT name in UTF-8 */
    bool bootable;
};

struct device_partition_table {
    enum device_scheme scheme;
    bool from_backup; /* GPT: the primary header was bad */
    uint32_t disk_signature;
    uint32_t count;
    struct device_partition v[DEVICE_PARTITIONS_MAX];
};

/* scheme NONE and count 0 when there is no table (a file system may start at sector 0). Partitions
 * are listed as the table has them: on an image that was cut short they may reach past its end.
 * Empty slots, the container of the logical partitions and the protective entry are not listed.
 * -BASE_ECORRUPT: the table breaks its own rules (both GPT headers bad, a loop of EBRs, …);
 * -BASE_EUNSUPPORTED: more partitions than DEVICE_PARTITIONS_MAX. */
int device_partitions_read(struct device *d, struct device_partition_table *out,
                           struct base_error *e);
/* Writes a table with one partition that spans the disk from `align` bytes on, its end rounded down
 * to `align` as well; reports where it is. type_guid is as on the disk, NULL: Microsoft basic data.
 * What a former table of the other kind left is made unreadable. -EINVAL with the argument named:
 * the disk is too small, or too big for an MBR, or align does not fit. env NULL: the system's. */
int device_partitions_write(struct device *d, enum device_scheme scheme, uint8_t mbr_type,
                            const uint8_t type_guid[16], uint64_t align, struct env *env,
                            uint64_t *offset, uint64_t *length, struct base_error *e);

#endif
