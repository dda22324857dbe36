/* Boot regions: what a good one says, which field each bad one is refused for, and the backup.
 * Values are worked out by hand from the specification, section 3. */
#include "exfat/exfat.h"

#include "check.h"

#include <errno.h>

enum { SIZE = 4 << 20, REGION_MAX = 12 * 4096 };

/* A volume of 4 MiB with one FAT, heap at 128 KiB and clusters of 4 KiB. */
static struct exfat_geometry good(uint32_t sector_shift)
{
    struct exfat_geometry g = {
        .sector_shift = sector_shift,
        .cluster_shift = 12,
        .volume_length = SIZE >> sector_shift,
        .partition_offset = 7,
        .fat_offset = (96u << 10) >> sector_shift,
        .fat_length = (8u << 10) >> sector_shift,
        .heap_offset = (128u << 10) >> sector_shift,
        .clusters = (SIZE - (128u << 10)) >> 12,
        .root_cluster = 5,
        .serial = 0x12345678,
        .revision = 0x100,
        .volume_flags = 0,
        .fats = 1,
        .percent = 1,
        .drive_select = 0x80,
    };

    return g;
}

static bool same(const struct exfat_geometry *a, const struct exfat_geometry *b)
{
    return a->sector_shift == b->sector_shift && a->cluster_shift == b->cluster_shift &&
           a->volume_length == b->volume_length && a->partition_offset == b->partition_offset &&
           a->fat_offset == b->fat_offset && a->fat_length == b->fat_length &&
           a->heap_offset == b->heap_offset && a->clusters == b->clusters &&
           a->root_cluster == b->root_cluster && a->serial == b->serial &&
           a->revision == b->revision && a->volume_flags == b->volume_flags && a->fats == b->fats &&
           a->percent == b->percent && a->drive_select == b->drive_select;
}

static struct device *device_with(const struct exfat_geometry *g, bool has_main, bool has_backup,
                                  uint32_t device_sector, uint64_t size)
{
    static uint8_t region[REGION_MAX];
    struct device *d;
    size_t n = (size_t)12 << g->sector_shift;

    CHECK(device_memory_new(size, device_sector, &d) == 0);
    exfat_boot_build(g, region);
    if (has_main) {
        CHECK(device_write(d, 0, region, base_round_up(n, device_sector), NULL) == 0);
    }
    if (has_backup) {
        CHECK(device_write(d, n, region, n, NULL) == 0);
    }
    return d;
}

static void poke(struct device *d, uint64_t at, const void *bytes, size_t n)
{
    uint8_t sector[4096];
    uint64_t start = at - at % d->sector_size;

    CHECK(device_read(d, start, sector, d->sector_size) == 0);
    memcpy(sector + (at - start), bytes, n);
    CHECK(device_write(d, start, sector, d->sector_size, NULL) == 0);
}

/* The checksum by the loop that the specification shows in figure 1. */
static uint32_t spec_checksum(const uint8_t *sectors, uint32_t bytes_per_sector)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < bytes_per_sector * 11; i++) {
        if (i == 106 || i == 107 || i == 112) {
            continue;
        }
        sum = ((sum & 1) ? 0x80000000u : 0) + (sum >> 1) + sectors[i];
    }
    return sum;
}

static void fix_checksum(struct device *d, uint64_t at, uint32_t sector)
{
    static uint8_t region[REGION_MAX];
    uint32_t sum;

    CHECK(device_read(d, at, region, (size_t)12 * sector) == 0);
    sum = spec_checksum(region, sector);
    for (uint32_t i = 0; i < sector; i += 4) {
        base_put_le32(region + 11 * sector + i, sum);
    }
    CHECK(device_write(d, at, region, (size_t)12 * sector, NULL) == 0);
}

static void test_bytes(void)
{
    static uint8_t r[12 * 512];
    struct exfat_geometry g = good(9);
    static const uint8_t head[12] = {0xEB, 0x76, 0x90, 'E', 'X', 'F', 'A', 'T', ' ', ' ', ' ', 0};
    static const uint8_t fields[56] = {
        7,    0,    0,    0,    0,    0, 0, 0, /* PartitionOffset */
        0,    0x20, 0,    0,    0,    0, 0, 0, /* VolumeLength 8192 */
        192,  0,    0,    0,    16,   0, 0, 0, /* FatOffset, FatLength */
        0,    1,    0,    0,    0xE0, 3, 0, 0, /* ClusterHeapOffset 256, ClusterCount 992 */
        5,    0,    0,    0,                   /* FirstClusterOfRootDirectory */
        0x78, 0x56, 0x34, 0x12,                /* VolumeSerialNumber */
        0,    1,    0,    0,                   /* FileSystemRevision 1.00, VolumeFlags */
        9,    3,    1,    0x80, 1,             /* shifts, NumberOfFats, DriveSelect, PercentInUse */
    };

    memset(r, 0xAA, sizeof r);
    exfat_boot_build(&g, r);
    CHECK(memcmp(r, head, sizeof head) == 0);
    for (int i = 11; i < 64; i++) {
        CHECK(r[i] == 0);
    }
    CHECK(memcmp(r + 64, fields, sizeof fields) == 0);
    for (int i = 120; i < 510; i++) {
        CHECK(r[i] == 0xF4);
    }
    CHECK(r[510] == 0x55 && r[511] == 0xAA);
    for (int s = 1; s <= 8; s++) {
        for (int i = 0; i < 508; i++) {
            CHECK(r[s * 512 + i] == 0);
        }
        CHECK(base_le32(r + s * 512 + 508) == 0xAA550000);
    }
    for (int i = 9 * 512; i < 11 * 512; i++) {
        CHECK(r[i] == 0);
    }
    for (int i = 11 * 512; i < 12 * 512; i += 4) {
        CHECK(base_le32(r + i) == spec_checksum(r, 512));
    }
    CHECK(exfat_boot_is_valid(r, 512) && !exfat_boot_is_valid(r, 1024));
    r[106] = 2; /* flags and percentage may change at any time */
    r[112] = 99;
    CHECK(exfat_boot_is_valid(r, 512));
    r[100] ^= 1;
    CHECK(!exfat_boot_is_valid(r, 512));
}

static void test_round_trip(void)
{
    for (uint32_t shift = 9; shift <= 12; shift++) {
        for (uint32_t device_shift = 9; device_shift <= shift; device_shift++) {
            struct exfat_geometry g = good(shift), got;
            struct device *d = device_with(&g, true, true, 1u << device_shift, SIZE);

            for (int backup = 0; backup < 2; backup++) {
                struct base_error e;

                memset(&got, 0, sizeof got);
                base_error_clear(&e);
                CHECK(exfat_boot_read(d, backup, &got, &e) == 0);
                CHECK(same(&got, &g));
                CHECK(e.kind == BASE_ERROR_NONE);
            }
            device_unref(d);
        }
    }
}

/* A field, the bytes that make it wrong, and what is said of it. */
struct wrong {
    uint32_t at, width;
    uint64_t value;
    const char *field;
    uint64_t expected;
};

static const struct wrong wrongs[] = {
    {0, 1, 0xEA, "JumpBoot", 0x9076EB},
    {3, 1, 'e', "FileSystemName", 0x2020205441465845},
    {10, 1, 0, "FileSystemName", 0x2020205441465845},
    {11, 1, 1, "MustBeZero", 0},
    {63, 1, 0x80, "MustBeZero", 0},
    {72, 8, 256, "ClusterHeapOffset", 208},
    {72, 8, 8193, "VolumeLength", 8192},
    {72, 8, UINT64_MAX, "VolumeLength", 8192},
    {80, 4, 23, "FatOffset", 24},
    {80, 4, 0, "FatOffset", 24},
    {80, 4, 241, "ClusterHeapOffset", 257},
    {84, 4, 7, "FatLength", 8}, /* 994 entries of 4 bytes */
    {84, 4, 65, "ClusterHeapOffset", 257},
    {84, 4, UINT32_MAX, "ClusterHeapOffset", 192 + UINT64_C(0xFFFFFFFF)},
    {88, 4, 207, "ClusterHeapOffset", 208},
    {88, 4, 8192, "ClusterHeapOffset", 208},
    {92, 4, 993, "ClusterCount", 992},
    {92, 4, 0, "ClusterCount", 992},
    {92, 4, UINT32_MAX, "ClusterCount", 992},
    {96, 4, 1, "FirstClusterOfRootDirectory", 0},
    {96, 4, 994, "FirstClusterOfRootDirectory", 0},
    {104, 2, 0x0001, "FileSystemRevision", 0x100},
    {104, 2, 0x0164, "FileSystemRevision", 0x100},
    {104, 2, 0x6400, "FileSystemRevision", 0x100},
    {108, 1, 8, "BytesPerSectorShift", 0},
    {108, 1, 13, "BytesPerSectorShift", 0},
    {108, 1, 255, "BytesPerSectorShift", 0},
    {109, 1, 17, "SectorsPerClusterShift", 16},
    {109, 1, 255, "SectorsPerClusterShift", 16},
    {110, 1, 0, "NumberOfFats", 1},
    {110, 1, 3, "NumberOfFats", 1},
    {510, 2, 0xAA54, "BootSignature", 0xAA55},
    {512 + 508, 4, 0, "ExtendedBootSignature", 0xAA550000},
    {8 * 512 + 508, 4, 0xAA550001, "ExtendedBootSignature", 0xAA550000},
};

static void test_each_field(void)
{
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];

        for (int mode = 0; mode < 4; mode++) { /* main or backup; checksum fits or not */
            bool backup = mode & 1, fixed = mode & 2;
            uint64_t base = backup ? 12 * 512 : 0;
            struct exfat_geometry g = good(9), got;
            struct device *d = device_with(&g, true, true, 512, SIZE);
            struct base_error e;
            uint8_t bytes[8];

            base_error_clear(&e);
            base_put_le64(bytes, w->value);
            poke(d, base + w->at, bytes, w->width);
            if (fixed) {
                fix_checksum(d, base, 512);
            }
            CHECK(exfat_boot_read(d, backup, &got, &e) == -EUCLEAN);
            CHECK(e.kind == BASE_ERROR_DAMAGE);
            CHECK(strcmp(e.structure, backup ? "backup boot region" : "main boot region") == 0);
            if (strcmp(e.field, w->field) != 0) {
                fprintf(stderr, "case %zu mode %d names %s\n", i, mode, e.field);
                exit(1);
            }
            CHECK(e.offset >= base && e.offset - base < 9 * 512);
            CHECK(e.expected == w->expected);
            CHECK(e.detail[0] != '\0');
            /* The other region is whole and says the same as ever. */
            CHECK(exfat_boot_read(d, !backup, &got, NULL) == 0);
            CHECK(same(&got, &g));
            device_unref(d);
        }
    }
}

static void test_checksum(void)
{
    static const uint32_t inside[] = {64, 100, 105, 108 + 3, 113, 200, 5 * 512, 11 * 512 - 1};
    struct exfat_geometry g = good(9), got;

    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        struct device *d = device_with(&g, true, true, 512, SIZE);
        struct base_error e;
        uint8_t byte = 0x5C;

        base_error_clear(&e);
        poke(d, inside[i], &byte, 1);
        CHECK(exfat_boot_read(d, false, &got, &e) == -EUCLEAN);
        CHECK(strcmp(e.field, "Checksum") == 0 && e.offset == 11 * 512);
        CHECK(e.found != e.expected);
        device_unref(d);
    }
    for (uint32_t at = 11 * 512; at < 12 * 512; at += 508) { /* the first and the last copy */
        struct device *d = device_with(&g, true, true, 512, SIZE);
        struct base_error e;
        uint8_t byte = 0x5C;

        base_error_clear(&e);
        poke(d, at, &byte, 1);
        CHECK(exfat_boot_read(d, false, &got, &e) == -EUCLEAN);
        CHECK(strcmp(e.field, "Checksum") == 0 && e.offset == at);
        device_unref(d);
    }
}

/* Outside the checksum, and harmless. */
static void test_flags(void)
{
    struct exfat_geometry g = good(9), got;
    struct device *d = device_with(&g, true, true, 512, SIZE);

    poke(d, 106, "\x0F\x00", 2);
    poke(d, 112, "\xFF", 1);
    CHECK(exfat_boot_read(d, false, &got, NULL) == 0);
    CHECK(got.volume_flags == 0x0E); /* the second FAT cannot be active where there is one */
    CHECK(got.percent == 0xFF);
    device_unref(d);

    g.fats = 2;
    g.volume_flags = 1;
    d = device_with(&g, true, true, 512, SIZE);
    CHECK(exfat_boot_read(d, false, &got, NULL) == 0);
    CHECK(got.volume_flags == 1 && got.fats == 2);
    device_unref(d);
}

static void test_unsupported(void)
{
    struct exfat_geometry g = good(9), got;
    struct base_error e;
    struct device *d;

    base_error_clear(&e);
    g.revision = 0x200;
    g.heap_offset = 0; /* whatever it may mean there */
    d = device_with(&g, true, true, 512, SIZE);
    CHECK(exfat_boot_read(d, false, &got, &e) == -EOPNOTSUPP);
    CHECK(e.kind == BASE_ERROR_UNSUPPORTED && strcmp(e.structure, "file system revision") == 0);
    device_unref(d);

    base_error_clear(&e);
    g = good(9);
    d = device_with(&g, true, false, 4096, SIZE);
    CHECK(exfat_boot_read(d, false, &got, &e) == -EOPNOTSUPP);
    CHECK(e.kind == BASE_ERROR_UNSUPPORTED && strcmp(e.structure, "sector size") == 0);
    device_unref(d);

    g.revision = 0x163; /* 1.99 */
    d = device_with(&g, true, true, 512, SIZE);
    CHECK(exfat_boot_read(d, false, &got, NULL) == 0);
    device_unref(d);
}

static void test_truncated(void)
{
    static const uint64_t sizes[] = {512, 1024, 11 * 512, 12 * 512, 100 << 10, SIZE - 512};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct exfat_geometry g = good(9), got;
        struct device *whole = device_with(&g, true, true, 512, SIZE), *d;
        struct base_error e;

        base_error_clear(&e);
        CHECK(device_slice_new(whole, 0, sizes[i], &d) == 0);
        CHECK(exfat_boot_read(d, false, &got, &e) == -EUCLEAN);
        CHECK(strcmp(e.field, "VolumeLength") == 0);
        device_unref(d);
        device_unref(whole);
    }
}

/* The backup is found without any help from the main region. */
static void test_backup_alone(void)
{
    for (uint32_t shift = 9; shift <= 12; shift++) {
        struct exfat_geometry g = good(shift), got;
        struct device *d = device_with(&g, false, true, 512, SIZE);
        struct base_error e;

        base_error_clear(&e);
        CHECK(exfat_boot_read(d, false, &got, &e) == -EUCLEAN);
        CHECK(strcmp(e.field, "FileSystemName") == 0);
        base_error_clear(&e);
        CHECK(exfat_boot_read(d, true, &got, &e) == 0);
        CHECK(same(&got, &g));
        CHECK(e.kind == BASE_ERROR_NONE);
        /* Its damage is what is told, and not that the other places hold nothing. */
        poke(d, (12u << shift) + 100, "\xFF", 1);
        CHECK(exfat_boot_read(d, true, &got, &e) == -EUCLEAN);
        CHECK(strcmp(e.field, "Checksum") == 0 && e.offset == 23u << shift);
        device_unref(d);
    }
}

int main(void)
{
    test_bytes();
    test_round_trip();
    test_each_field();
    test_checksum();
    test_flags();
    test_unsupported();
    test_truncated();
    test_backup_alone();
    return 0;
}
