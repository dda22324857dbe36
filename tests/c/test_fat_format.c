/* Making FAT volumes: sizes that always fit, write order, wishes that are refused. */
#include "fat/format.h"

#include "base/env.h"
#include "check.h"

#include <errno.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

static struct env clock_and_dice;

static struct volume_format wish(const char *fs)
{
    struct volume_format f;

    volume_format_init(&f);
    env_init_fixed(&clock_and_dice, 1, INT64_C(1426325213) * 1000000000, 0);
    f.fs = fs;
    f.env = &clock_and_dice;
    return f;
}

static struct device *memory(uint64_t size)
{
    struct device *d;

    CHECK(device_memory_new(size, 512, &d) == 0);
    return d;
}

/* ---- the layout, by the formulas of the specification ---- */

/* What anybody computes from the boot sector's fields [FAT]. */
static void check_plan(const struct fat_plan *p, uint64_t size, bool small_ok)
{
    const struct fat_geometry *g = &p->g;
    uint64_t root = ((uint64_t)g->root_entries * 32 + g->sector_size - 1) / g->sector_size;
    uint64_t data = g->sectors - (g->reserved_sectors + (uint64_t)g->fats * g->fat_sectors + root);
    uint64_t clusters = data / (g->cluster_size / g->sector_size);

    CHECK(g->sectors * g->sector_size <= size);
    CHECK(g->reserved_sectors + (uint64_t)g->fats * g->fat_sectors + root < g->sectors);
    CHECK(clusters == g->clusters && clusters > 0);
    CHECK((uint64_t)g->fat_sectors * g->sector_size * 8 / g->bits >= clusters + 2);
    CHECK(g->reserved_sectors <= 65535 && g->root_entries <= 65535);
    switch (g->bits) {
    case 12:
        CHECK(clusters <= 4084);
        break;
    case 16:
        CHECK(clusters >= 4087 && clusters <= 65524 && g->fat_sectors <= 65535);
        break;
    default:
        CHECK(g->bits == 32 && g->root_entries == 0 && clusters <= 268435444);
        CHECK(clusters >= 65525 || small_ok);
    }
}

/* Each number of sectors from the least to 40 MiB: a volume of that width, or a refusal. */
static void test_every_size(void)
{
    static const char *const names[] = {"fat", "fat12", "fat16", "fat32"};
    static const uint32_t wanted[] = {0, 12, 16, 32};
    struct device *d = memory(40 * MIB);

    for (int i = 0; i < 4; i++) {
        struct volume_format f = wish(names[i]);
        uint32_t made = 0, least = 0;

        for (uint64_t n = 1; n <= 40 * MIB / 512; n++) {
            struct fat_plan p;
            int err;

            f.size = n * 512;
            f.fats = n % 4 == 0 ? 1 : 2;
            err = fat_plan_make(d, &f, &p, NULL);
            CHECK(err == 0 || err == -EINVAL);
            if (err) {
                /* With smaller clusters than these there is no gap above the least size. */
                CHECK(made == 0 || i == 2 || n < least + 600);
                continue;
            }
            least = made++ == 0 ? (uint32_t)n : least;
            CHECK(wanted[i] == 0 || p.g.bits == wanted[i]);
            CHECK(p.g.fats == f.fats);
            check_plan(&p, f.size, i == 3);
        }
        CHECK(made > 40000);
    }
    device_unref(d);
}

static void test_powers_of_two(void)
{
    struct device *d = memory(4096 * GIB);

    for (int i = 0; i < 4; i++) {
        struct volume_format f = wish(i == 0   ? "fat"
                                      : i == 1 ? "fat12"
                                      : i == 2 ? "fat16"
                                               : "fat32");

        for (uint64_t size = MIB; size <= 2048 * GIB; size *= 2) {
            for (int delta = -1; delta <= 1; delta++) {
                for (uint32_t fats = 1; fats <= 4; fats++) {
                    struct fat_plan p;

                    f.size = size + (uint64_t)(delta * 512);
                    f.fats = fats;
                    f.alignment = fats == 3 ? 512 : fats == 4 ? MIB / 2 : 0;
                    if (fat_plan_make(d, &f, &p, NULL) == 0) {
                        check_plan(&p, f.size, i == 3);
                        CHECK(fats != 4 || p.g.heap_offset % (MIB / 2) == 0);
                    } else {
                        CHECK(i != 0 || fats == 4);
                    }
                }
            }
        }
    }
    device_unref(d);
}

/* Two FATs of 252 sectors hold 32,256 entries: the last size at which they are enough. */
static void test_the_fat_grows_in_time(void)
{
    struct device *d = memory(64 * MIB);
    struct volume_format f = wish("fat32");
    struct fat_plan p;

    f.size = 64 * MIB; /* 131,072 sectors, of which 32 are reserved */
    CHECK(fat_plan_make(d, &f, &p, NULL) == 0);
    CHECK(p.g.fat_sectors == 1009 && p.g.clusters == 131072 - 32 - 2 * 1009);
    CHECK(p.g.clusters + 2 <= 1009 * 128);
    device_unref(d);
}

/* ---- wishes that can't be ---- */

static int refused(const struct volume_format *f, uint64_t size, const char *field)
{
    struct device *d = memory(size);
    struct base_error e = {0};
    struct fat_plan p;
    int err = fat_plan_make(d, f, &p, &e);
    bool same = strcmp(e.field, field) == 0;

    if (!same) {
        fprintf(stderr, "%d %s: %s\n", err, e.field, e.detail);
    }
    device_unref(d);
    return err == -EINVAL && e.kind == BASE_ERROR_ARGUMENT && same;
}

static void test_refusals(void)
{
    struct volume_format f = wish("fat");

#define REFUSED(change, size, field)                                                               \
    do {                                                                                           \
        f = wish("fat");                                                                           \
        change;                                                                                    \
        CHECK(refused(&f, size, field));                                                           \
    } while (0)
    REFUSED(f.fs = "fat64", MIB, "fs");
    REFUSED(f.sector_size = 768, MIB, "sector_size");
    REFUSED(f.sector_size = 65536, MIB, "sector_size");
    REFUSED(f.size = 2 * MIB, MIB, "size");
    REFUSED(f.fats = 5, MIB, "fats");
    REFUSED(f.cluster_size = 256, MIB, "cluster_size");
    REFUSED(f.cluster_size = 3 * 512, MIB, "cluster_size");
    REFUSED(f.cluster_size = 256 * 512, 4 * MIB, "cluster_size");
    REFUSED((f.fs = "fat12", f.cluster_size = 512), 8 * MIB, "cluster_size");
    REFUSED((f.fs = "fat16", f.cluster_size = 512), 40 * MIB, "cluster_size");
    REFUSED(f.fs = "fat16", MIB, "size");
    REFUSED(f.fs = "fat16", 5 * GIB, "size");
    REFUSED(f.fs = "fat12", GIB, "size");
    REFUSED((void)0, 8 * KIB, "size");
    REFUSED(f.has_uuid = true, MIB, "uuid");
    REFUSED(f.pack_bitmap = true, MIB, "pack_bitmap");
    REFUSED(f.alignment = 700, MIB, "alignment");
    REFUSED(f.alignment = 4 * MIB, 4 * MIB, "alignment");
    REFUSED(f.partition_offset = 100, MIB, "partition_offset");
    REFUSED(f.fat.media = 0xF4, MIB, "media");
    REFUSED(f.fat.heads = 4, MIB, "geometry");
    REFUSED(f.fat.root_entries = 8, MIB, "root_entries");
    REFUSED((f.fs = "fat32", f.fat.root_entries = 512), 64 * MIB, "root_entries");
    REFUSED(f.fat.reserved_sectors = 65536, MIB, "reserved_sectors");
    REFUSED(f.fat.reserved_sectors = 2047, MIB, "reserved_sectors");
    REFUSED((f.fs = "fat32", f.fat.reserved_sectors = 1), 64 * MIB, "reserved_sectors");
    REFUSED((f.fs = "fat32", f.fat.has_backup = true, f.fat.backup_sector = 1), 64 * MIB,
            "backup_sector");
    REFUSED((f.fs = "fat32", f.fat.has_backup = true, f.fat.backup_sector = 32), 64 * MIB,
            "backup_sector");
    REFUSED((f.fs = "fat12", f.fat.has_backup = true), MIB, "backup_sector");
    REFUSED((f.fat.atari = true, f.fat.mbr = true), MIB, "mbr");
    REFUSED((f.fat.atari = true, f.fs = "fat16"), MIB, "fs");
#undef REFUSED
}

static void test_refusals_leave_the_device_alone(void)
{
    static char long_text[600];
    static const uint64_t early[] = {1}, late[] = {1023}, fine[] = {1022};
    struct device *d = memory(MIB);
    uint8_t before[512], after[512];
    struct base_error e;
    struct volume_format f;

    memset(before, 0x5A, sizeof before);
    memset(long_text, 'x', 500);
    CHECK(device_write(d, 0, before, sizeof before, NULL) == 0);
#define REFUSED(change, what)                                                                      \
    do {                                                                                           \
        f = wish("fat");                                                                           \
        base_error_clear(&e);                                                                      \
        change;                                                                                    \
        CHECK(fat_format(d, &f, &e) < 0);                                                          \
        CHECK(strcmp(e.field, what) == 0);                                                         \
        CHECK(device_read(d, 0, after, sizeof after) == 0);                                        \
        CHECK(memcmp(before, after, sizeof after) == 0);                                           \
    } while (0)
    REFUSED(f.label = "A*B", "label");
    REFUSED(f.label = "TWELVE CHARS", "label");
    REFUSED(f.label = " X", "label");
    REFUSED(f.label = "\xFF", "label");
    REFUSED(f.label = "\xE2\x82\xAC", "label"); /* the euro sign: 437 has none */
    REFUSED(f.fat.oem_name = "NINECHARS", "oem_name");
    REFUSED(f.fat.boot_message = long_text, "boot_message");
    REFUSED((f.fat.bad_blocks = early, f.fat.bad_blocks_n = 1), "bad_blocks");
    REFUSED((f.size = 1023 * KIB, f.fat.bad_blocks = late, f.fat.bad_blocks_n = 1), "bad_blocks");
#undef REFUSED
    f = wish("fat");
    f.size = 1023 * KIB;
    f.fat.bad_blocks = fine;
    f.fat.bad_blocks_n = 1;
    CHECK(fat_format(d, &f, &e) == 0);
    device_unref(d);
}

/* ---- what is written ---- */

static int only_reports(void *context, uint64_t done, uint64_t total)
{
    uint64_t *last = context;

    CHECK(done > *last && done <= total);
    *last = done;
    return 0;
}

static int stops(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)done;
    (void)total;
    return 1;
}

/* On a device with old content: the old boot sector goes first, durably; the new one comes last. */
static void test_order(void)
{
    struct device *below = memory(64 * MIB), *d;
    struct volume_format f = wish("fat32");
    uint8_t old[4096];
    struct device_log_entry first, entry;
    size_t n;
    int flushes = 0;

    memset(old, 0xEE, sizeof old);
    for (uint64_t at = 0; at < 8 * MIB; at += sizeof old) {
        CHECK(device_write(below, at, old, sizeof old, NULL) == 0);
    }
    CHECK(device_recorder_new(below, &d) == 0);
    f.label = "ORDER";
    CHECK(fat_format(d, &f, NULL) == 0);
    n = device_recorder_count(d);
    CHECK(n <= 16);
    CHECK(device_recorder_entry(d, 0, &first) == 0);
    CHECK(first.kind == DEVICE_LOG_ZERO && first.offset == 0 && first.n == 32 * 512);
    CHECK(device_recorder_entry(d, 1, &entry) == 0 && entry.kind == DEVICE_LOG_FLUSH);
    for (size_t i = 2; i < n; i++) {
        CHECK(device_recorder_entry(d, i, &entry) == 0);
        flushes += entry.kind == DEVICE_LOG_FLUSH;
        /* Nothing but the last write touches the first sector again. */
        CHECK(i == n - 2 || entry.kind == DEVICE_LOG_FLUSH || entry.offset >= 512);
    }
    CHECK(flushes == 2);
    CHECK(device_recorder_entry(d, n - 2, &entry) == 0 && entry.offset == 0 && entry.n == 512);
    CHECK(entry.tag.structure == DEVICE_BOOT);
    CHECK(device_recorder_entry(d, n - 1, &entry) == 0 && entry.kind == DEVICE_LOG_FLUSH);
    device_unref(d);
    device_unref(below);
}

/* A fresh device is not zeroed: two FATs, root, FSInfo, backup and its FSInfo, boot sector. */
static void test_fresh(void)
{
    struct device *below = memory(GIB), *d;
    struct volume_format f = wish("fat32");
    size_t writes = 0, bytes = 0;

    CHECK(device_has(below, DEVICE_FRESH));
    CHECK(device_recorder_new(below, &d) == 0);
    f.label = "FRESH";
    CHECK(fat_format(d, &f, NULL) == 0);
    for (size_t i = 0; i < device_recorder_count(d); i++) {
        struct device_log_entry entry;

        CHECK(device_recorder_entry(d, i, &entry) == 0);
        if (entry.kind != DEVICE_LOG_FLUSH && device_has(below, DEVICE_FRESH)) {
            CHECK(entry.kind == DEVICE_LOG_WRITE);
        }
        writes += entry.kind == DEVICE_LOG_WRITE;
        bytes += entry.kind == DEVICE_LOG_WRITE ? entry.n : 0;
    }
    CHECK(writes == 7 && bytes == 7 * 512);
    device_unref(d);
    device_unref(below);
}

static void test_full(void)
{
    struct device *d = memory(40 * MIB);
    struct volume_format f = wish("fat16");
    uint8_t sector[512];
    uint64_t last = 0;

    memset(sector, 1, sizeof sector);
    CHECK(device_write(d, 39 * MIB, sector, sizeof sector, NULL) == 0);
    f.full = true;
    f.progress = only_reports;
    f.progress_context = &last;
    CHECK(fat_format(d, &f, NULL) == 0);
    CHECK(last == 40 * MIB);
    CHECK(device_read(d, 39 * MIB, sector, sizeof sector) == 0);
    for (size_t i = 0; i < sizeof sector; i++) {
        CHECK(sector[i] == 0);
    }
    f.progress = stops;
    CHECK(fat_format(d, &f, NULL) == -EINTR);
    device_unref(d);
}

/* What has been made is read as what was planned, for each sector size. */
static void test_read_back(void)
{
    static const char *const names[] = {"fat12", "fat16", "fat32"};

    for (int i = 0; i < 3; i++) {
        for (uint32_t sector = 512; sector <= 32768; sector *= 2) {
            struct volume_format f = wish(names[i]);
            struct device *d;
            struct fat_geometry g;
            struct fat_plan p;
            struct base_error e = {0};

            f.sector_size = sector;
            f.cluster_size = sector;
            f.size = (i == 0 ? UINT64_C(2000) : i == 1 ? 20000 : 70000) * sector;
            f.label = "READ BACK";
            f.has_serial = true;
            f.serial = 0xCAFEBABE;
            d = memory(f.size);
            CHECK(fat_plan_make(d, &f, &p, &e) == 0);
            CHECK(fat_format(d, &f, &e) == 0);
            CHECK(fat_boot_read(d, false, &g, &e) == 0);
            CHECK(g.bits == p.g.bits && g.sector_size == sector && g.cluster_size == sector);
            CHECK(g.sectors == p.g.sectors && g.clusters == p.g.clusters);
            CHECK(g.fat_sectors == p.g.fat_sectors && g.fats == 2 && g.mirror);
            CHECK(g.root_offset == p.g.root_offset && g.heap_offset == p.g.heap_offset);
            CHECK(g.root_entries == p.g.root_entries && g.root_cluster == p.g.root_cluster);
            CHECK(g.fsinfo_sector == p.g.fsinfo_sector && g.backup_sector == p.g.backup_sector);
            CHECK(g.serial == 0xCAFEBABE && g.media == 0xF8 && !g.dirty && !g.hard_error);
            CHECK(memcmp(g.label, "READ BACK  ", 11) == 0);
            CHECK(fat_boot_read(d, true, &g, NULL) == (i == 2 ? 0 : -BASE_EUNSUPPORTED));
            device_unref(d);
        }
    }
}

static uint32_t fat32_entry(struct device *d, const struct fat_geometry *g, uint32_t copy,
                            uint32_t cluster)
{
    uint8_t sector[512];
    uint64_t at = (g->reserved_sectors + (uint64_t)copy * g->fat_sectors) * 512 + cluster * 4;

    CHECK(device_read(d, at / 512 * 512, sector, sizeof sector) == 0);
    return base_le32(sector + at % 512);
}

/* Clusters far apart, the root pushed away from bad ones, all copies alike. */
static void test_bad_blocks(void)
{
    struct device *d = memory(512 * MIB);
    struct volume_format f = wish("fat32");
    struct fat_geometry g;
    uint64_t blocks[4], heap;
    uint8_t info[512];

    f.cluster_size = 512;
    f.fats = 3;
    f.alignment = 512;
    CHECK(fat_format(d, &f, NULL) == 0 && fat_boot_read(d, false, &g, NULL) == 0);
    heap = g.heap_offset;
    blocks[0] = 500000;
    blocks[1] = (heap + 1023) / 1024;
    blocks[2] = 100000;
    blocks[3] = 100000; /* twice */
    f.fat.bad_blocks = blocks;
    f.fat.bad_blocks_n = 4;
    CHECK(fat_format(d, &f, NULL) == 0 && fat_boot_read(d, false, &g, NULL) == 0);
    CHECK(g.root_cluster == (heap % 1024 == 0 ? 4u : 2u));
    for (uint32_t copy = 0; copy < 3; copy++) {
        for (int i = 0; i < 3; i++) {
            uint32_t cluster = 2 + (uint32_t)((blocks[i] * 1024 - heap) / 512);

            CHECK(fat32_entry(d, &g, copy, cluster) == 0x0FFFFFF7);
            CHECK(fat32_entry(d, &g, copy, cluster + 1) == 0x0FFFFFF7);
            CHECK(fat32_entry(d, &g, copy, cluster + 2) != 0x0FFFFFF7);
        }
        CHECK(fat32_entry(d, &g, copy, 0) == 0x0FFFFFF8 &&
              fat32_entry(d, &g, copy, 1) == 0x0FFFFFFF);
        CHECK(fat32_entry(d, &g, copy, g.root_cluster) == 0x0FFFFFF8);
    }
    CHECK(device_read(d, 512, info, sizeof info) == 0);
    CHECK(base_le32(info + 488) == g.clusters - 1 - 6); /* root, and three blocks of two clusters */
    device_unref(d);
}

int main(void)
{
    test_every_size();
    test_powers_of_two();
    test_the_fat_grows_in_time();
    test_refusals();
    test_refusals_leave_the_device_alone();
    test_order();
    test_fresh();
    test_full();
    test_read_back();
    test_bad_blocks();
    return 0;
}
