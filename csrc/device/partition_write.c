/* Writing a partition table with one partition: an MBR, or a GPT with its backup and protective
 * MBR. */
#include "device/partition.h"

#include "base/checksum.h"
#include "device/partition_internal.h"

#include <string.h>

#define SECTOR_MAX 4096u
#define GPT_COUNT 128u
#define GPT_ARRAY_SIZE (GPT_COUNT * GPT_ENTRY_LEAST)
#define HEADS 255u
#define SECTORS_PER_TRACK 63u

static const struct device_tag tag = {0, 0, DEVICE_PARTITION};

/* Cylinder, head and sector as old software wants them; the largest ones when they cannot say it.
 */
static void put_chs(uint8_t p[3], uint64_t lba)
{
    uint64_t cylinder = lba / (HEADS * SECTORS_PER_TRACK);

    if (cylinder > 1023) {
        p[0] = 0xFE;
        p[1] = 0xFF;
        p[2] = 0xFF;
        return;
    }
    p[0] = (uint8_t)(lba / SECTORS_PER_TRACK % HEADS);
    p[1] = (uint8_t)((lba % SECTORS_PER_TRACK + 1) | (cylinder >> 8 & 3) << 6);
    p[2] = (uint8_t)cylinder;
}

static void put_mbr_entry(uint8_t *sector, uint8_t type, uint64_t start, uint64_t count)
{
    uint8_t *p = sector + MBR_ENTRIES;

    p[4] = type;
    put_chs(p + 1, start);
    put_chs(p + 5, start + count - 1);
    base_put_le32(p + 8, (uint32_t)start);
    base_put_le32(p + 12, (uint32_t)count);
    sector[MBR_SIGNATURE] = 0x55;
    sector[MBR_SIGNATURE + 1] = 0xAA;
}

static int write_sector(struct device *d, uint64_t lba, const uint8_t *sector)
{
    return device_write(d, lba * d->sector_size, sector, d->sector_size, &tag);
}

/* A GPT header that stayed behind would make others see two tables. */
static int wipe_gpt_header(struct device *d, uint64_t lba)
{
    uint8_t sector[SECTOR_MAX];
    int rc = device_read(d, lba * d->sector_size, sector, d->sector_size);

    if (rc == 0 && memcmp(sector + GPT_SIGNATURE, GPT_MAGIC, 8) == 0) {
        memset(sector, 0, d->sector_size);
        rc = write_sector(d, lba, sector);
    }
    return rc;
}

static int write_mbr(struct device *d, uint8_t type, uint64_t start, uint64_t count,
                     struct env *env)
{
    uint64_t last = d->size / d->sector_size - 1;
    uint8_t sector[SECTOR_MAX] = {0};
    uint32_t signature;
    int rc = wipe_gpt_header(d, 1);

    if (rc == 0) {
        rc = wipe_gpt_header(d, last);
    }
    if (rc) {
        return rc;
    }
    signature = env_random32(env);
    base_put_le32(sector + MBR_DISK_SIGNATURE, signature ? signature : 1);
    put_mbr_entry(sector, type, start, count);
    return write_sector(d, 0, sector);
}

/* A GUID as it is on the disk: its first three fields are little-endian. */
static void new_guid(struct env *env, uint8_t out[16])
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    uint8_t uuid[16];

    env_uuid4(env, uuid);
    for (unsigned i = 0; i < 16; i++) {
        out[i] = uuid[order[i]];
    }
}

/* Where the parts of a GPT are, in sectors. */
struct layout {
    uint64_t array_sectors, last;
    uint64_t first_usable, last_usable;
};

static struct layout layout_of(const struct device *d)
{
    struct layout l;

    l.array_sectors = base_div_up(GPT_ARRAY_SIZE, d->sector_size);
    l.last = d->size / d->sector_size - 1;
    l.first_usable = 2 + l.array_sectors;
    l.last_usable = l.last - l.array_sectors - 1;
    return l;
}

static int write_header(struct device *d, const struct layout *l, bool backup,
                        const uint8_t guid[16], uint32_t array_crc)
{
    uint8_t h[SECTOR_MAX] = {0};

    memcpy(h + GPT_SIGNATURE, GPT_MAGIC, 8);
    base_put_le32(h + GPT_REVISION, 0x00010000);
    base_put_le32(h + GPT_HEADER_SIZE, GPT_HEADER_END);
    base_put_le64(h + GPT_MY_LBA, backup ? l->last : 1);
    base_put_le64(h + GPT_OTHER_LBA, backup ? 1 : l->last);
    base_put_le64(h + GPT_FIRST_USABLE, l->first_usable);
    base_put_le64(h + GPT_LAST_USABLE, l->last_usable);
    memcpy(h + GPT_DISK_GUID, guid, 16);
    base_put_le64(h + GPT_ARRAY_LBA, backup ? l->last - l->array_sectors : 2);
    base_put_le32(h + GPT_ARRAY_COUNT, GPT_COUNT);
    base_put_le32(h + GPT_ENTRY_SIZE, GPT_ENTRY_LEAST);
    base_put_le32(h + GPT_ARRAY_CRC, array_crc);
    base_put_le32(h + GPT_HEADER_CRC, base_crc32(0, h, GPT_HEADER_END));
    return write_sector(d, backup ? l->last : 1, h);
}

/* The backup first and the MBR last: what announces the table comes when the table is there. */
static int write_gpt(struct device *d, const uint8_t type_guid[16], uint64_t start, uint64_t count,
                     struct env *env)
{
    static const uint8_t basic_data[16] = {0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44,
                                           0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7};
    struct layout l = layout_of(d);
    uint8_t array[GPT_ARRAY_SIZE] = {0}, guid[16], mbr[SECTOR_MAX] = {0};
    uint32_t crc;
    int rc;

    memcpy(array + GPT_ENTRY_TYPE, type_guid ? type_guid : basic_data, 16);
    new_guid(env, guid);
    new_guid(env, array + GPT_ENTRY_GUID);
    base_put_le64(array + GPT_ENTRY_FIRST, start);
    base_put_le64(array + GPT_ENTRY_LAST, start + count - 1);
    crc = base_crc32(0, array, sizeof array);
    put_mbr_entry(mbr, MBR_TYPE_PROTECTIVE, 1, base_min(l.last, UINT32_MAX));

    rc = device_write(d, (l.last - l.array_sectors) * d->sector_size, array, sizeof array, &tag);
    if (rc == 0) {
        rc = write_header(d, &l, true, guid, crc);
    }
    if (rc == 0) {
        rc = device_write(d, (uint64_t)2 * d->sector_size, array, sizeof array, &tag);
    }
    if (rc == 0) {
        rc = write_header(d, &l, false, guid, crc);
    }
    return rc ? rc : write_sector(d, 0, mbr);
}

/* First sector of the partition and how many; or the argument that does not fit. */
static int place(const struct device *d, enum device_scheme scheme, uint64_t align, uint64_t *start,
                 uint64_t *count, struct base_error *e)
{
    uint64_t sectors = d->size / d->sector_size, first = 1, end = sectors, step;

    if (align == 0 || align % d->sector_size != 0) {
        return base_bad_argument(e, "align", "it must be a multiple of the sector size");
    }
    if (scheme == DEVICE_SCHEME_GPT) {
        struct layout l = layout_of(d);

        if (sectors < 2 * (l.array_sectors + 2)) {
            return base_bad_argument(e, "size", "the disk is too small for a GPT");
        }
        first = l.first_usable;
        end = l.last_usable + 1;
    }
    step = align / d->sector_size;
    if (step < first) {
        return base_bad_argument(e, "align", "the partition would lie over the partition table");
    }
    end -= end % step;
    if (end <= step) {
        return base_bad_argument(e, "size", "the disk has no room for a partition");
    }
    if (scheme == DEVICE_SCHEME_MBR && (step > UINT32_MAX || end - step > UINT32_MAX)) {
        return base_bad_argument(e, "size", "an MBR cannot describe so many sectors; use a GPT");
    }
    *start = step;
    *count = end - step;
    return 0;
}

int device_partitions_write(struct device *d, enum device_scheme scheme, uint8_t mbr_type,
                            const uint8_t type_guid[16], uint64_t align, struct env *env,
                            uint64_t *offset, uint64_t *length, struct base_error *e)
{
    uint64_t start = 0, count = 0;
    struct env own;
    int rc;

    if (scheme != DEVICE_SCHEME_MBR && scheme != DEVICE_SCHEME_GPT) {
        return base_bad_argument(e, "scheme", "it must be MBR or GPT");
    }
    rc = place(d, scheme, align, &start, &count, e);
    if (rc) {
        return rc;
    }
    *offset = start * d->sector_size;
    *length = count * d->sector_size;
    if (!env) {
        env_init_system(&own);
        env = &own;
    }
    rc = device_claim(d); /* a volume that is open there would lose its first sectors */
    if (rc == 0) {
        rc = scheme == DEVICE_SCHEME_GPT ? write_gpt(d, type_guid, start, count, env)
                                         : write_mbr(d, mbr_type, start, count, env);
        device_release(d);
    }
    return rc;
}
