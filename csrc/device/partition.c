/* Reading a partition table: what the first sector is, and the chain of logical partitions.
 *
 * A first sector with 55 AA may be an MBR or the boot sector of a file system, whose code or text
 * lies where the MBR has its entries. It is an MBR when it does not name exFAT or NTFS and when
 * what should be entries are plausible ones: flags 00 or 80, a start, a length, no overlap. FAT
 * boot sectors have no sure mark, so one that looks like that must in addition have its partitions
 * inside the device.
 */
#include "device/partition.h"

#include "device/partition_internal.h"

#include <string.h>

#define SLOTS 4u
#define EBRS_MAX DEVICE_PARTITIONS_MAX

int device_partition_read_bytes(struct device *d, uint64_t offset, void *buffer, size_t n)
{
    uint8_t sectors[2 * 4096];
    uint64_t start = offset - offset % d->sector_size;
    uint64_t end;
    int rc;

    if (n > 4096) {
        return -EINVAL;
    }
    if (base_add_overflows(offset, n, &end) || end > d->size) {
        return -EIO;
    }
    end = base_round_up(end, d->sector_size);
    rc = device_read(d, start, sectors, (size_t)(end - start));
    if (rc == 0) {
        memcpy(buffer, sectors + (offset - start), n);
    }
    return rc;
}

int device_partition_add(struct device_partition_table *t, const struct device_partition *p,
                         struct base_error *e)
{
    if (t->count == DEVICE_PARTITIONS_MAX) {
        return base_unsupported(e, "partition table", "it has more than 256 partitions");
    }
    t->v[t->count++] = *p;
    return 0;
}

static bool is_extended(uint8_t type)
{
    return type == 0x05 || type == 0x0F || type == 0x85;
}

/* Is there a FAT boot sector's parameter block (jump, sector and cluster size, reserved sectors,
 * FATs)? */
static bool looks_like_fat(const uint8_t *s)
{
    uint16_t sector = base_le16(s + 11);

    return (s[0] == 0xEB || s[0] == 0xE9) && base_is_power_of_two(sector) && sector >= 512 &&
           sector <= 4096 && base_is_power_of_two(s[13]) && base_le16(s + 14) != 0 && s[16] != 0;
}

static bool overlap(const struct mbr_entry *a, const struct mbr_entry *b)
{
    return a->start < (uint64_t)b->start + b->count && b->start < (uint64_t)a->start + a->count;
}

static bool entry_is_plausible(const uint8_t *sector, unsigned i, uint64_t sectors)
{
    struct mbr_entry p = mbr_entry(sector, i);

    if (p.boot != 0 && p.boot != 0x80) {
        return false;
    }
    if (p.type == 0) {
        return true;
    }
    if (p.start == 0 || p.count == 0 || p.start > sectors || p.count > sectors - p.start) {
        return false;
    }
    for (unsigned k = 0; k < i; k++) {
        struct mbr_entry o = mbr_entry(sector, k);

        /* A hybrid MBR's protective entry may lie over others. */
        if (o.type != 0 && o.type != MBR_TYPE_PROTECTIVE && p.type != MBR_TYPE_PROTECTIVE &&
            overlap(&p, &o)) {
            return false;
        }
    }
    return true;
}

static bool is_mbr(const struct device *d, const uint8_t *sector)
{
    /* A device of one sector has no room for a file system, and is a boot record by itself. */
    bool bounded = looks_like_fat(sector) && d->size > d->sector_size;
    uint64_t sectors = bounded ? d->size / d->sector_size : UINT64_MAX;
    bool used = false;

    if (!mbr_signed(sector) || memcmp(sector + 3, "EXFAT   ", 8) == 0 ||
        memcmp(sector + 3, "NTFS    ", 8) == 0) {
        return false;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        used = used || mbr_entry(sector, i).type != 0;
        if (!entry_is_plausible(sector, i, sectors)) {
            return false;
        }
    }
    return used;
}

static int add_mbr(struct device *d, struct device_partition_table *t, uint32_t number,
                   uint64_t base, const struct mbr_entry *entry, struct base_error *e)
{
    struct device_partition p = {.number = number,
                                 .offset = (base + entry->start) * d->sector_size,
                                 .length = (uint64_t)entry->count * d->sector_size,
                                 .type = entry->type,
                                 .bootable = entry->boot == 0x80};

    return device_partition_add(t, &p, e);
}

static bool is_all_zeros(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

/* Follows the EBRs of an extended partition. Each has a logical partition, relative to itself, and
 * a link, relative to the extended partition; in either order. Whoever came here twice is in a
 * loop. */
static int read_logical(struct device *d, struct device_partition_table *t, uint64_t extended,
                        uint32_t *number, struct base_error *e)
{
    uint64_t visited[EBRS_MAX], here = extended;
    uint8_t sector[MBR_SIZE];

    for (unsigned n = 0; n < EBRS_MAX; n++) {
        uint64_t next = 0, offset = here * d->sector_size;
        int rc;

        for (unsigned i = 0; i < n; i++) {
            if (visited[i] == here) {
                return base_damage(e, "EBR", offset, "next", here, 0,
                                   "the chain of logical partitions is a loop");
            }
        }
        visited[n] = here;
        if (offset >= d->size) {
            return 0; /* an image that was cut short: the first partitions are of use */
        }
        rc = device_partition_read_bytes(d, offset, sector, sizeof sector);
        if (rc) {
            return rc;
        }
        if (!mbr_signed(sector)) {
            if (is_all_zeros(sector, sizeof sector)) {
                return 0; /* an extended partition without logical ones */
            }
            return base_damage(e, "EBR", offset + MBR_SIGNATURE, "signature",
                               base_le16(sector + MBR_SIGNATURE), 0xAA55,
                               "an extended boot record has no signature");
        }
        for (unsigned i = 0; i < 2 && rc == 0; i++) {
            struct mbr_entry p = mbr_entry(sector, i);

            if (is_extended(p.type)) {
                next = p.start;
            } else if (p.type != 0 && p.count != 0) {
                rc = add_mbr(d, t, (*number)++, here, &p, e);
            }
        }
        if (rc || next == 0) {
            return rc;
        }
        here = extended + next;
    }
    return base_unsupported(e, "partition table", "it has more than 256 logical partitions");
}

static int read_mbr(struct device *d, const uint8_t *sector, struct device_partition_table *t,
                    struct base_error *e)
{
    uint32_t logical = SLOTS + 1;
    int rc = 0;

    t->scheme = DEVICE_SCHEME_MBR;
    t->disk_signature = base_le32(sector + MBR_DISK_SIGNATURE);
    for (unsigned i = 0; i < SLOTS && rc == 0; i++) {
        struct mbr_entry p = mbr_entry(sector, i);

        if (p.type != 0 && p.type != MBR_TYPE_PROTECTIVE && !is_extended(p.type)) {
            rc = add_mbr(d, t, i + 1, 0, &p, e);
        }
    }
    for (unsigned i = 0; i < SLOTS && rc == 0; i++) {
        struct mbr_entry p = mbr_entry(sector, i);

        if (is_extended(p.type)) {
            rc = read_logical(d, t, p.start, &logical, e);
        }
    }
    return rc;
}

/* With a protective entry the disk has a GPT; only when there is no trace of one, an MBR with other
 * entries is taken for what it says. */
static int read_protected(struct device *d, const uint8_t *sector, struct device_partition_table *t,
                          struct base_error *e)
{
    bool others = false;
    int rc = device_partition_read_gpt(d, t, e);

    if (rc || t->scheme == DEVICE_SCHEME_GPT) {
        return rc;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        uint8_t type = mbr_entry(sector, i).type;

        others = others || (type != 0 && type != MBR_TYPE_PROTECTIVE);
    }
    if (others) {
        return read_mbr(d, sector, t, e);
    }
    return base_damage(e, "GPT header", d->sector_size, "Signature", 0, 0,
                       "the MBR announces a GPT, but there is none");
}

int device_partitions_read(struct device *d, struct device_partition_table *out,
                           struct base_error *e)
{
    uint8_t sector[MBR_SIZE];
    int rc;

    memset(out, 0, sizeof *out);
    if (d->size < sizeof sector) {
        return 0;
    }
    rc = device_partition_read_bytes(d, 0, sector, sizeof sector);
    if (rc || !is_mbr(d, sector)) {
        return rc;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (mbr_entry(sector, i).type == MBR_TYPE_PROTECTIVE) {
            return read_protected(d, sector, out, e);
        }
    }
    return read_mbr(d, sector, out, e);
}
