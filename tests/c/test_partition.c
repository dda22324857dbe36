/* Partition tables, built here byte by byte. That others accept what is written is for the tests
 * that have sgdisk and sfdisk at hand. */
#include "device/partition.h"

#include "base/bytes.h"
#include "base/checksum.h"

#include "check.h"

#include <errno.h>
#include <string.h>

#define SIZE (16u << 20)

static struct device_partition_table table;
static struct base_error error;

static struct device *disk(uint32_t sector_size)
{
    struct device *d;

    CHECK(device_memory_new(SIZE, sector_size, &d) == 0);
    return d;
}

static void put(struct device *d, uint64_t offset, const void *bytes, size_t n)
{
    uint8_t b[8192];
    uint64_t start = offset - offset % d->sector_size;
    size_t whole = (size_t)(base_round_up(offset + n, d->sector_size) - start);

    CHECK(device_read(d, start, b, whole) == 0);
    memcpy(b + (offset - start), bytes, n);
    CHECK(device_write(d, start, b, whole, NULL) == 0);
}

static void put_entry(struct device *d, uint64_t sector, unsigned i, uint8_t boot, uint8_t type,
                      uint32_t start, uint32_t count)
{
    uint8_t p[16] = {boot, 0, 0, 0, type};

    base_put_le32(p + 8, start);
    base_put_le32(p + 12, count);
    put(d, sector * d->sector_size + 446 + i * 16, p, sizeof p);
    put(d, sector * d->sector_size + 510, "\x55\xAA", 2);
}

static int read_table(struct device *d)
{
    base_error_clear(&error);
    return device_partitions_read(d, &table, &error);
}

static void check_partition(unsigned i, uint32_t number, uint64_t sector, uint64_t count,
                            uint32_t sector_size)
{
    CHECK(i < table.count && table.v[i].number == number);
    CHECK(table.v[i].offset == sector * sector_size && table.v[i].length == count * sector_size);
}

static void test_mbr(void)
{
    struct device *d = disk(512);

    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE && table.count == 0);
    put(d, 510, "\x55\xAA", 2);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE); /* no entry is no table */
    put(d, 440, "\x78\x56\x34\x12", 4);
    put_entry(d, 0, 0, 0x80, 0x0C, 2048, 4096);
    put_entry(d, 0, 2, 0, 0x07, 8192, 1);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_MBR && table.count == 2);
    CHECK(table.disk_signature == 0x12345678);
    check_partition(0, 1, 2048, 4096, 512);
    check_partition(1, 3, 8192, 1, 512);
    CHECK(table.v[0].bootable && table.v[0].type == 0x0C && !table.v[1].bootable);
    /* What makes it no table. */
    put_entry(d, 0, 1, 0x41, 0x07, 9000, 1); /* text where the flag should be */
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE);
    put_entry(d, 0, 1, 0, 0x07, 0, 10); /* over the table itself */
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE);
    put_entry(d, 0, 1, 0, 0x07, 6143, 10); /* over the first one */
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE);
    put_entry(d, 0, 1, 0, 0x07, 6144, 10);
    CHECK(read_table(d) == 0 && table.count == 3);
    put(d, 3, "EXFAT   ", 8);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE);
    put(d, 3, "NTFS    ", 8);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE);
    /* A FAT boot sector may be an MBR as well, when its partitions are on the disk. */
    put(d, 0, "\xEB\x58\x90MSDOS5.0\0\x02\x08\x20\0\x02", 17);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_MBR && table.count == 3);
    put_entry(d, 0, 3, 0, 0x07, 32768 - 10, 11);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE);
    put_entry(d, 0, 3, 0, 0x07, 32768 - 10, 10);
    CHECK(read_table(d) == 0 && table.count == 4);
    device_unref(d);
    /* Sectors of 4 KiB. */
    d = disk(4096);
    put_entry(d, 0, 0, 0, 0x07, 256, 100);
    CHECK(read_table(d) == 0);
    check_partition(0, 1, 256, 100, 4096);
    device_unref(d);
    CHECK(device_memory_new(0, 512, &d) == 0);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE);
    device_unref(d);
}

static void test_logical(void)
{
    struct device *d = disk(512);

    put_entry(d, 0, 0, 0, 0x07, 64, 64);
    put_entry(d, 0, 1, 0, 0x0F, 1000, 20000);
    CHECK(read_table(d) == 0 && table.count == 1); /* nothing but zeros in it */
    put_entry(d, 1000, 0, 0, 0x07, 63, 100);
    put_entry(d, 1000, 1, 0, 0x05, 500, 600);
    put_entry(d, 1500, 0, 0, 0x0B, 63, 200);
    put_entry(d, 1500, 1, 0, 0x05, 200,
              300); /* the order on the disk need not be that of the chain */
    put_entry(d, 1200, 1, 0, 0x83, 10, 20); /* and neither that of the slots */
    CHECK(read_table(d) == 0 && table.count == 4);
    check_partition(0, 1, 64, 64, 512);
    check_partition(1, 5, 1063, 100, 512);
    check_partition(2, 6, 1563, 200, 512);
    check_partition(3, 7, 1210, 20, 512);
    put_entry(d, 1200, 0, 0, 0x05, 500, 600); /* back to 1500 */
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.structure, "EBR") == 0);
    CHECK(error.offset == 1500 * 512);
    put_entry(d, 1200, 0, 0, 0x05, 40000, 600); /* cut off: the others are of use */
    CHECK(read_table(d) == 0 && table.count == 4);
    put_entry(d, 1200, 0, 0, 0x05, 700, 600);
    put(d, 1700 * 512, "x", 1);
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.field, "signature") == 0);
    /* A chain without end. */
    put_entry(d, 0, 1, 0, 0x05, 1000, 30000);
    for (uint32_t i = 0; i < 300; i++) {
        put_entry(d, 1000 + i, 0, 0, 0x07, 1, 1);
        put_entry(d, 1000 + i, 1, 0, 0x05, i + 1, 1);
    }
    CHECK(read_table(d) == -EOPNOTSUPP && error.kind == BASE_ERROR_UNSUPPORTED);
    device_unref(d);
}

/* ---- GPT ---- */

/* Makes the checksums of a header right again. */
static void seal(struct device *d, uint64_t lba, size_t array_bytes)
{
    uint8_t h[92], part[512];
    uint64_t at = lba * d->sector_size, array;
    uint8_t sector[4096];
    uint32_t crc = 0;

    CHECK(device_read(d, at, sector, d->sector_size) == 0);
    memcpy(h, sector, sizeof h);
    array = base_le64(h + 72) * d->sector_size;
    for (size_t i = 0; i < array_bytes; i += sizeof part) {
        uint8_t big[4096];
        uint64_t start = (array + i) / d->sector_size * d->sector_size;

        CHECK(device_read(d, start, big, d->sector_size) == 0);
        memcpy(part, big + (array + i - start), sizeof part);
        crc = base_crc32(crc, part, sizeof part);
    }
    base_put_le32(h + 88, crc);
    base_put_le32(h + 16, 0);
    base_put_le32(h + 16, base_crc32(0, h, sizeof h));
    put(d, at, h, sizeof h);
}

static void put64(struct device *d, uint64_t offset, uint64_t value)
{
    uint8_t b[8];

    base_put_le64(b, value);
    put(d, offset, b, 8);
}

static void put32(struct device *d, uint64_t offset, uint32_t value)
{
    uint8_t b[4];

    base_put_le32(b, value);
    put(d, offset, b, 4);
}

static const uint8_t type_guid[16] = {1, 2, 3};

static struct device *gpt_disk(uint32_t sector_size)
{
    struct device *d = disk(sector_size);
    struct env env;
    uint64_t offset, length;

    env_init_fixed(&env, 1, 0, 0);
    CHECK(device_partitions_write(d, DEVICE_SCHEME_GPT, 0, type_guid, 1 << 20, &env, &offset,
                                  &length, &error) == 0);
    CHECK(offset == 1 << 20 && length == 14u << 20); /* the backup ends it before the last MiB */
    return d;
}

static void test_gpt(uint32_t sector_size)
{
    static const uint8_t name[] = "D\0a\0t\0\xE4\0\x3D\xD8\x00\xDE"; /* Datä and an emoji */
    struct device *d = gpt_disk(sector_size);
    uint64_t array = (uint64_t)2 * sector_size, last = SIZE / sector_size - 1;
    uint32_t first = (1u << 20) / sector_size;

    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_GPT && !table.from_backup);
    CHECK(table.count == 1 && memcmp(table.v[0].type_guid, type_guid, 16) == 0);
    check_partition(0, 1, first, 14 * first, sector_size);
    CHECK(table.v[0].guid[7] >> 4 == 4 &&
          table.v[0].guid[8] >> 6 == 2); /* version 4, on the disk */
    /* A second one in slot 7, with a name. */
    put(d, array + 6 * 128, type_guid, 16);
    put64(d, array + 6 * 128 + 32, first);
    put64(d, array + 6 * 128 + 40, first + 1);
    put(d, array + 6 * 128 + 56, name, sizeof name - 1);
    put64(d, array + 6 * 128 + 48, 4);
    CHECK(read_table(d) == 0 && table.from_backup && table.count == 1); /* not sealed */
    seal(d, 1, 128 * 128);
    CHECK(read_table(d) == 0 && !table.from_backup && table.count == 2);
    check_partition(1, 7, first, 2, sector_size);
    CHECK(strcmp(table.v[1].name, "Dat\xC3\xA4\xF0\x9F\x98\x80") == 0 && table.v[1].bootable);
    /* Hostile fields with right checksums: the backup, or damage where that has it too. */
    put64(d, array + 6 * 128 + 40, UINT64_MAX);
    seal(d, 1, 128 * 128);
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.field, "EndingLBA") == 0);
    put64(d, array + 6 * 128 + 40, first - 1);
    seal(d, 1, 128 * 128);
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.field, "StartingLBA") == 0);
    put64(d, array + 6 * 128 + 32, 1);
    seal(d, 1, 128 * 128);
    CHECK(read_table(d) == -EUCLEAN && error.offset == array + 6 * 128 + 32);
    put32(d, sector_size + 84, 64); /* entries of 64 bytes */
    seal(d, 1, 128 * 128);
    CHECK(read_table(d) == 0 && table.from_backup);
    put(d, last * sector_size, "X", 1); /* and no backup */
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.field, "SizeOfPartitionEntry") == 0);
    put32(d, sector_size + 84, 128);
    put32(d, sector_size + 80, 1u << 30);
    seal(d, 1, 0);
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.field, "NumberOfPartitionEntries") == 0);
    put32(d, sector_size + 80, 128);
    put64(d, sector_size + 72, UINT64_MAX / 2);
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.field, "HeaderCRC32") == 0);
    put(d, sector_size, "X", 1);
    CHECK(read_table(d) == -EUCLEAN && strcmp(error.field, "Signature") == 0);
    /* No GPT at all, but another entry: what is in the MBR. */
    put_entry(d, 0, 1, 0, 0x07, first, 1);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_MBR && table.count == 1);
    device_unref(d);
}

/* An image of a disk with 4 KiB sectors, opened as if it had 512. */
static void test_other_sectors(void)
{
    struct device *d = gpt_disk(4096), *low;
    static uint8_t bytes[SIZE];

    CHECK(device_read(d, 0, bytes, SIZE) == 0);
    device_unref(d);
    CHECK(device_buffer_new(bytes, SIZE, true, 512, NULL, NULL, &low) == 0);
    CHECK(read_table(low) == 0 && table.count == 1 && table.v[0].offset == 1 << 20);
    put(low, 4096, "X", 1);
    CHECK(read_table(low) == 0 && table.from_backup && table.v[0].offset == 1 << 20);
    device_unref(low);
}

static void test_too_many(void)
{
    struct device *d = gpt_disk(512);

    for (uint64_t i = 0; i < 300; i++) { /* an array of 300 entries, elsewhere */
        uint64_t at = (4u << 20) + i * 128;

        put(d, at, type_guid, 16);
        put64(d, at + 32, 2048);
        put64(d, at + 40, 2048);
    }
    put64(d, 512 + 72, (4u << 20) / 512);
    put32(d, 512 + 80, 256);
    seal(d, 1, 256 * 128);
    CHECK(read_table(d) == 0 && table.count == 256);
    put32(d, 512 + 80, 300);
    seal(d, 1, 300 * 128);
    CHECK(read_table(d) == -EOPNOTSUPP);
    device_unref(d);
}

static void test_write(void)
{
    struct device *d = gpt_disk(512), *small;
    struct env env;
    uint64_t offset, length;
    uint8_t b[512];

    env_init_fixed(&env, 1, 0, 0);
    CHECK(device_partitions_write(d, DEVICE_SCHEME_MBR, 7, NULL, 65536, &env, &offset, &length,
                                  &error) == 0);
    CHECK(offset == 65536 && length == SIZE - 65536);
    CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_MBR && table.count == 1);
    check_partition(0, 1, 128, SIZE / 512 - 128, 512);
    CHECK(table.v[0].type == 7 && table.disk_signature != 0);
    CHECK(device_read(d, 0, b, 512) == 0);
    /* Sector 128 is cylinder 0, head 2, sector 3; the last one, 32767, is 2, 10, 8. */
    CHECK(b[447] == 2 && b[448] == 3 && b[449] == 0 && b[451] == 10 && b[452] == 8 && b[453] == 2);
    CHECK(device_read(d, 512, b, 512) == 0 && b[0] == 0); /* nothing is left of the GPT */
    CHECK(device_read(d, SIZE - 512, b, 512) == 0 && b[0] == 0);
#define WRITE(device, scheme, align)                                                               \
    (base_error_clear(&error),                                                                     \
     device_partitions_write(device, scheme, 7, NULL, align, &env, &offset, &length, &error))
    CHECK(WRITE(d, DEVICE_SCHEME_NONE, 65536) == -EINVAL && strcmp(error.field, "scheme") == 0);
    CHECK(WRITE(d, DEVICE_SCHEME_MBR, 0) == -EINVAL && strcmp(error.field, "align") == 0);
    CHECK(WRITE(d, DEVICE_SCHEME_MBR, 100) == -EINVAL);
    CHECK(WRITE(d, DEVICE_SCHEME_GPT, 4096) == -EINVAL && strcmp(error.field, "align") == 0);
    CHECK(WRITE(d, DEVICE_SCHEME_MBR, SIZE) == -EINVAL && strcmp(error.field, "size") == 0);
    CHECK(WRITE(d, DEVICE_SCHEME_GPT, SIZE) == -EINVAL && strcmp(error.field, "size") == 0);
    CHECK(device_memory_new(20480, 512, &small) == 0);
    CHECK(WRITE(small, DEVICE_SCHEME_GPT, 512) == -EINVAL && strcmp(error.field, "size") == 0);
    device_unref(small);
    CHECK(device_memory_new(UINT64_C(3) << 40, 512, &small) == 0); /* 2 TiB is the end of an MBR */
    CHECK(WRITE(small, DEVICE_SCHEME_MBR, 1 << 20) == -EINVAL && strcmp(error.field, "size") == 0);
    CHECK(WRITE(small, DEVICE_SCHEME_GPT, 1 << 20) == 0);
    CHECK(read_table(small) == 0 && table.count == 1 && table.v[0].length == length);
    device_unref(small);
    device_unref(d);
}

/* Every write of the table fails once; the reader is never fooled: the table, none, or an error. */
static void test_faults(void)
{
    for (uint64_t nth = 1; nth <= 5; nth++) {
        struct device_fault rule = {.ops = DEVICE_FAULT_WRITE,
                                    .nth = nth,
                                    .structure = DEVICE_PARTITION,
                                    .action = DEVICE_FAULT_FAIL,
                                    .error = ENOSPC};
        struct device *d = disk(512), *f;
        struct env env;
        uint64_t offset, length;

        env_init_fixed(&env, 1, 0, 0);
        CHECK(device_faults_new(d, &f) == 0 && device_faults_add(f, &rule) == 0);
        CHECK(WRITE(f, DEVICE_SCHEME_GPT, 1 << 20) == -ENOSPC);
        CHECK(read_table(d) == 0 && table.scheme == DEVICE_SCHEME_NONE); /* the MBR comes last */
        CHECK(WRITE(f, DEVICE_SCHEME_GPT, 1 << 20) == 0 && read_table(d) == 0 && table.count == 1);
        rule.ops = DEVICE_FAULT_READ;
        rule.structure = -1;
        device_faults_clear(f);
        CHECK(device_faults_add(f, &rule) == 0);
        if (nth == 1) {
            CHECK(read_table(f) == -ENOSPC); /* the first sector */
        } else {
            CHECK(read_table(f) == 0 && table.from_backup); /* the primary table */
        }
        device_unref(f);
        device_unref(d);
    }
}

int main(void)
{
    test_mbr();
    test_logical();
    test_gpt(512);
    test_gpt(4096);
    test_other_sectors();
    test_too_many();
    test_write();
    test_faults();
    return 0;
}
