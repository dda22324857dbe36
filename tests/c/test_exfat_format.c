/* Formatting: bytes of small volumes worked out by hand, the order of writes, what is refused and
 * why, and detection. */
#include "exfat/exfat.h"

#include "base/checksum.h"
#include "base/env.h"
#include "check.h"

#include <errno.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

static struct device *memory(uint64_t size, uint32_t sector)
{
    struct device *d;

    CHECK(device_memory_new(size, sector, &d) == 0);
    return d;
}

static struct volume_format options(void)
{
    struct volume_format f;

    volume_format_init(&f);
    return f;
}

static void format(struct device *d, const struct volume_format *f)
{
    struct base_error e;

    base_error_clear(&e);
    CHECK(exfat_format(d, f, &e) == 0);
    CHECK(e.kind == BASE_ERROR_NONE);
}

static struct exfat_geometry geometry(struct device *d)
{
    struct exfat_geometry g, backup;

    memset(&g, 0, sizeof g);
    memset(&backup, 0, sizeof backup);
    CHECK(exfat_boot_read(d, false, &g, NULL) == 0);
    CHECK(exfat_boot_read(d, true, &backup, NULL) == 0);
    CHECK(memcmp(&g, &backup, sizeof g) == 0);
    return g;
}

/* Compares n bytes at an offset; the sectors around them are read. */
static void expect(struct device *d, uint64_t at, const void *bytes, size_t n)
{
    static uint8_t buffer[16384];
    uint64_t start = at - at % d->sector_size;

    CHECK(at - start + n <= sizeof buffer);
    CHECK(device_read(d, start, buffer, base_round_up(at - start + n, d->sector_size)) == 0);
    CHECK(memcmp(buffer + (at - start), bytes, n) == 0);
}

static uint64_t bytes_not_zero(struct device *d, uint64_t from, uint64_t to)
{
    uint8_t sector[4096];
    uint64_t n = 0;

    for (; from < to; from += d->sector_size) {
        CHECK(device_read(d, from, sector, d->sector_size) == 0);
        for (uint32_t i = 0; i < d->sector_size; i++) {
            n += sector[i] != 0;
        }
    }
    return n;
}

/* ---- bytes ---- */

/* 1 MiB: aligned to 32 KiB, FAT at 32 KiB, heap at 64 KiB, 240 clusters of 4 KiB: bitmap 2, table 3
 * and 4, root 5. */
static void test_smallest(void)
{
    static const uint8_t fat[24] = {
        0xF8, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
        4,    0,    0,    0,    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
    };
    static const uint8_t root[128] = {
        [0] = 0x83,  [1] = 3,  [2] = 'A',   [4] = 0xE4,  [6] = 0x20,  [7] = 0x20, /* A, a diaeresis,
                                                                                     dagger */
        [32] = 0x81, [52] = 2, [56] = 30,   [64] = 0x82, [68] = 0x0D, [69] = 0xD3, [70] = 0x19,
        [71] = 0xE6, [84] = 3, [88] = 0xCC, [89] = 0x16,
    };
    static const uint8_t bitmap[30] = {0x0F};
    struct device *d = memory(MIB, 512);
    struct volume_format f = options();
    struct exfat_geometry g;

    f.label = "A\xC3\xA4\xE2\x80\xA0";
    f.serial = 0xCAFE0001;
    f.has_serial = true;
    format(d, &f);
    g = geometry(d);
    CHECK(g.sector_shift == 9 && g.cluster_shift == 12 && g.volume_length == 2048);
    CHECK(g.partition_offset == 0 && g.fat_offset == 64 && g.fat_length == 8);
    CHECK(g.heap_offset == 128 && g.clusters == 240 && g.root_cluster == 5);
    CHECK(g.serial == 0xCAFE0001 && g.revision == 0x100 && g.volume_flags == 0);
    CHECK(g.fats == 1 && g.drive_select == 0x80 && g.percent == 1); /* 4 of 240 */
    expect(d, 32 * KIB, fat, sizeof fat);
    CHECK(bytes_not_zero(d, 32 * KIB + 512, 64 * KIB) == 0);
    expect(d, 64 * KIB, bitmap, sizeof bitmap);
    for (uint32_t i = 0; i < BASE_UPCASE_BYTES / 2; i++) {
        uint8_t unit[2] = {(uint8_t)base_upcase_table[i], (uint8_t)(base_upcase_table[i] >> 8)};

        expect(d, 68 * KIB + 2 * i, unit, 2);
    }
    expect(d, 76 * KIB, root, sizeof root);
    CHECK(bytes_not_zero(d, 80 * KIB, MIB) == 0);
    device_unref(d);
}

/* Two FATs, two bitmaps, a GUID, clusters of 512 bytes: 2 MiB, FATs at 64 KiB, each 16384 bytes;
 * heap at 128 KiB: 3840 clusters, bitmap 480 bytes. */
static void test_pair(void)
{
    static const uint8_t root[192] = {
        [0] = 0x03,   [32] = 0x81,  [52] = 2,     [56] = 0xE0, [57] = 1,     [64] = 0x81,
        [65] = 1,     [84] = 3,     [88] = 0xE0,  [89] = 1,    [96] = 0x82,  [100] = 0x0D,
        [101] = 0xD3, [102] = 0x19, [103] = 0xE6, [116] = 4,   [120] = 0xCC, [121] = 0x16,
    };
    uint8_t guid[32] = {0xA0}, fat[4 * 17];
    struct device *d = memory(2 * MIB, 512);
    struct volume_format f = options();
    struct exfat_geometry g;
    uint16_t sum = 0;

    f.fats = 2;
    f.cluster_size = 512;
    f.has_uuid = true;
    for (uint8_t i = 0; i < 16; i++) {
        f.uuid[i] = (uint8_t)(0xF0 + i);
        guid[6 + i] = f.uuid[i];
    }
    for (int i = 0; i < 32; i++) {
        if (i != 2 && i != 3) {
            sum = (uint16_t)(((sum & 1) ? 0x8000 : 0) + (sum >> 1) + guid[i]);
        }
    }
    base_put_le16(guid + 2, sum);
    format(d, &f);
    g = geometry(d);
    /* (2 MiB - 64 KiB) / 512 + 2 entries are 15880 bytes, in whole clusters 32 sectors */
    CHECK(g.fats == 2 && g.fat_offset == 128 && g.fat_length == 32 && g.heap_offset == 256);
    CHECK(g.clusters == 3840 && g.root_cluster == 16); /* table: 12 clusters from 4 on */
    for (uint32_t i = 0; i < 17; i++) {
        base_put_le32(fat + 4 * i, i == 0                         ? 0xFFFFFFF8
                                   : i <= 3 || i == 15 || i == 16 ? 0xFFFFFFFF
                                                                  : i + 1);
    }
    expect(d, 64 * KIB, fat, sizeof fat);
    expect(d, 80 * KIB, fat, sizeof fat);
    expect(d, 128 * KIB, "\xFF\x7F\0", 3); /* 15 clusters */
    expect(d, 128 * KIB + 512, "\xFF\x7F\0", 3);
    expect(d, 135 * KIB, root, 128);
    expect(d, 135 * KIB + 128, guid, 32);
    CHECK(bytes_not_zero(d, 136 * KIB, 2 * MIB) == 0);
    device_unref(d);
}

/* ---- sizes ---- */

struct sizes {
    uint64_t size;
    uint32_t sector, cluster; /* as given; 0: default */
    uint32_t cluster_shift;
    uint32_t fat_offset, fat_length, heap_offset, clusters, root;
};

/* Sectors throughout. FAT: as many entries as the volume without boot regions has clusters, and
 * two; in whole clusters where the alignment is a cluster or more. */
static const struct sizes table[] = {
    {8 * MIB, 0, 0, 12, 512, 16, 1024, 1920, 5},
    {32 * MIB, 0, 0, 12, 2048, 64, 4096, 7680, 5},
    {256 * MIB, 0, 0, 12, 2048, 512, 4096, 65024, 6}, /* 8128 bytes of bitmap */
    {256 * MIB + 512, 0, 0, 15, 2048, 64, 4096, 8128, 4},
    {32 * GIB, 0, 0, 15, 2048, 8192, 10240, 1048416, 7},
    {32 * GIB + 512, 0, 0, 17, 2048, 2048, 4096, 262128, 4},
    {64 * TIB, 0, 0, 17, 2048, 4194304, 4196352, 536854520, 515},
    {256 * TIB, 0, 0, 17, 2048, 16777216, 16779264, 2147418104, 2051},
    /* As many clusters of 128 KiB as there can be, less the FAT; and then larger ones. */
    {512 * TIB, 0, 0, 17, 2048, 33554432, 33556480, 4294836216, 4099},
    {513 * TIB, 0, 0, 18, 2048, 16809984, 16812032, 2151645116, 1029},
    {128 * 1024 * TIB, 0, 0, 25, 2048, 33554432, 33556480, 4294966783, 19},
    {MIB, 4096, 0, 12, 24, 1, 32, 224, 5},
    {300 * MIB, 4096, 4096, 12, 256, 75, 512, 76288, 7},
    {64 * MIB, 512, 16 << 20, 24, 2048, 1, 4096, 3, 4},
};

static void test_sizes(void)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct sizes *s = &table[i];
        struct device *d = memory(s->size, 512);
        struct volume_format f = options();
        struct exfat_geometry g;

        f.sector_size = s->sector;
        f.cluster_size = s->cluster;
        format(d, &f);
        g = geometry(d);
        if (g.cluster_shift != s->cluster_shift || g.fat_offset != s->fat_offset ||
            g.fat_length != s->fat_length || g.heap_offset != s->heap_offset ||
            g.clusters != s->clusters || g.root_cluster != s->root) {
            fprintf(stderr, "case %zu: shift %u fat %u+%u heap %u clusters %u root %u\n", i,
                    g.cluster_shift, g.fat_offset, g.fat_length, g.heap_offset, g.clusters,
                    g.root_cluster);
            exit(1);
        }
        CHECK(device_memory_held(d) < 4 * MIB);
        device_unref(d);
    }
}

/* The heap, or with a packed bitmap what follows the bitmap, lies on the alignment of the medium.
 */
static void test_alignment(void)
{
    for (int pack = 0; pack < 2; pack++) {
        struct device *d = memory(100 * MIB, 512);
        struct volume_format f = options();
        struct exfat_geometry g;
        uint64_t heap;

        f.partition_offset = 63 * 512;
        f.alignment = 4 * MIB;
        f.pack_bitmap = pack;
        format(d, &f);
        g = geometry(d);
        heap = ((uint64_t)g.heap_offset << 9) + f.partition_offset;
        CHECK(g.partition_offset == 63);
        CHECK((((uint64_t)g.fat_offset << 9) + f.partition_offset) % (4 * MIB) == 0);
        CHECK((heap + (pack ? 4096 : 0)) % (4 * MIB) == 0); /* the bitmap has one cluster */
        CHECK(g.heap_offset >= g.fat_offset + g.fat_length);
        device_unref(d);
    }
}

/* Part of a device only, and a size that is no multiple of the sector. */
static void test_part(void)
{
    struct device *d = memory(4 * MIB, 512);
    struct volume_format f = options();

    f.size = 3 * MIB + 511;
    format(d, &f);
    CHECK(geometry(d).volume_length == 3 * MIB / 512);
    CHECK(bytes_not_zero(d, 3 * MIB, 4 * MIB) == 0);
    device_unref(d);
}

/* ---- refusals ---- */

struct refusal {
    uint64_t device;
    uint32_t device_sector;
    struct volume_format f;
    const char *argument, *hint; /* the hint stands in the detail */
};

static const struct refusal refusals[] = {
    {MIB - 512, 512, {0}, "size", "1 MiB"},
    {8 * MIB, 512, {.size = MIB - 1}, "size", "1 MiB"},
    {8 * MIB, 512, {.size = 8 * MIB + 512}, "size", "smaller"},
    {8 * MIB, 512, {.sector_size = 513}, "sector_size", "4096"},
    {8 * MIB, 512, {.sector_size = 256}, "sector_size", "512"},
    {8 * MIB, 512, {.sector_size = 8192}, "sector_size", "4096"},
    {8 * MIB, 4096, {.sector_size = 512}, "sector_size", "device"},
    {8 * MIB, 512, {.cluster_size = 256}, "cluster_size", "power of two"},
    {8 * MIB, 512, {.cluster_size = 5000}, "cluster_size", "power of two"},
    {8 * MIB, 512, {.cluster_size = 64 << 20}, "cluster_size", "32 MiB"},
    {8 * MIB, 4096, {.cluster_size = 2048}, "cluster_size", "sector"},
    {8 * MIB, 512, {.cluster_size = 8 << 20}, "cluster_size", "2097152 bytes"},
    {5 * TIB, 512, {.cluster_size = 1024}, "cluster_size", "2048 bytes"},
    {127 * TIB, 512, {.cluster_size = 4096}, "cluster_size", "32768 bytes"},
    {8 * MIB, 512, {.fats = 3}, "fats", "1 or 2"},
    {8 * MIB, 512, {.alignment = 1000}, "alignment", "multiple"},
    {8 * MIB, 512, {.alignment = 16 * MIB}, "alignment", "larger"},
    {8 * MIB, 512, {.alignment = 4 * MIB}, "alignment", "too large"},
    {8 * MIB, 512, {.partition_offset = 100}, "partition_offset", "multiple"},
    {8 * MIB, 512, {.partition_offset = UINT64_MAX - 511}, "partition_offset", "multiple"},
    {8 * MIB, 512, {.label = "twelve units"}, "label", "11"},
    {8 * MIB, 512, {.label = "\xFF"}, "label", "UTF-8"},
    {8 * MIB, 512, {.label = "a/b"}, "label", "not allowed"},
    {8 * MIB, 512, {.label = "a\tb"}, "label", "not allowed"},
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        struct device *d = memory(r->device, r->device_sector);
        struct base_error e;

        base_error_clear(&e);
        CHECK(exfat_format(d, &r->f, &e) == -EINVAL);
        if (e.kind != BASE_ERROR_ARGUMENT || strcmp(e.field, r->argument) != 0 ||
            !strstr(e.detail, r->hint)) {
            fprintf(stderr, "case %zu: %s: %s\n", i, e.field, e.detail);
            exit(1);
        }
        CHECK(device_memory_held(d) == 0); /* nothing was written */
        device_unref(d);
    }
}

/* What a refusal recommends is accepted. */
static void test_recommended(void)
{
    static const struct {
        uint64_t size;
        uint32_t cluster;
    } good[] = {{8 * MIB, 2 << 20}, {5 * TIB, 2048}, {127 * TIB, 32768}};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct device *d = memory(good[i].size, 512);
        struct volume_format f = options();

        f.cluster_size = good[i].cluster;
        format(d, &f);
        CHECK(geometry(d).cluster_shift == base_log2(good[i].cluster));
        device_unref(d);
    }
}

/* ---- order, effort, interruption ---- */

static void test_order(void)
{
    struct device *below = memory(8 * MIB, 512), *d;
    struct volume_format f = options();
    struct device_log_entry e;
    uint64_t bytes = 0;
    size_t n, writes = 0, flushes = 0;

    CHECK(device_recorder_new(below, &d) == 0);
    format(d, &f);
    device_recorder_clear(d);
    format(d, &f); /* over an old volume */
    n = device_recorder_count(d);
    CHECK(n >= 4);
    /* First the old boot regions go, durably; last comes the new main region, and is flushed. */
    CHECK(device_recorder_entry(d, 0, &e) == 0);
    CHECK(e.kind == DEVICE_LOG_ZERO && e.offset == 0 && e.n >= 64 * KIB);
    CHECK(device_recorder_entry(d, 1, &e) == 0 && e.kind == DEVICE_LOG_FLUSH);
    CHECK(device_recorder_entry(d, n - 1, &e) == 0 && e.kind == DEVICE_LOG_FLUSH);
    CHECK(device_recorder_entry(d, n - 2, &e) == 0 && e.kind == DEVICE_LOG_WRITE);
    CHECK(e.offset == 0 && e.n == 12 * 512 && e.tag.structure == DEVICE_BOOT);
    CHECK(device_recorder_entry(d, n - 3, &e) == 0 && e.kind == DEVICE_LOG_FLUSH);
    for (size_t i = 0; i < n; i++) {
        CHECK(device_recorder_entry(d, i, &e) == 0);
        writes += e.kind == DEVICE_LOG_WRITE;
        flushes += e.kind == DEVICE_LOG_FLUSH;
        bytes += e.kind == DEVICE_LOG_WRITE ? e.n : 0;
        CHECK(e.kind == DEVICE_LOG_FLUSH || e.tag.op != 0);
        CHECK(e.kind == DEVICE_LOG_FLUSH || e.tag.structure != DEVICE_OTHER);
    }
    CHECK(writes == 6 && flushes == 3);
    /* two regions, a sector each of FAT, bitmap and root, and twelve of the table */
    CHECK(bytes == (24 + 1 + 1 + 1 + 12) * 512);
    device_unref(d);
    device_unref(below);
}

/* Power goes after any number of operations: what was formatted before is no longer a volume, or is
 * still whole, or the new one is. */
static void test_power_cut(void)
{
    struct device *below = memory(8 * MIB, 512), *d, *then;
    struct volume_format f = options();
    struct exfat_geometry g;
    size_t n;

    f.has_serial = true;
    f.serial = 1;
    format(below, &f);
    CHECK(device_recorder_new(below, &d) == 0);
    f.serial = 2;
    f.cluster_size = 512;
    format(d, &f);
    n = device_recorder_count(d);
    for (size_t i = 0; i <= n; i++) {
        int rc;

        CHECK(device_recorder_at(d, i, &then) == 0);
        rc = exfat_boot_read(then, false, &g, NULL);
        if (i == 0) {
            CHECK(rc == 0 && g.serial == 1);
        } else if (i >= n - 1) {
            CHECK(rc == 0 && g.serial == 2);
        } else {
            CHECK(rc == -EUCLEAN);
        }
        device_unref(then);
    }
    device_unref(d);
    device_unref(below);
}

/* Every operation in turn fails: the error comes back, and a retry makes a volume. */
static void test_faults(void)
{
    uint64_t op = 1;
    int rc;

    do {
        struct device *below = memory(8 * MIB, 512), *d;
        struct volume_format f = options();
        struct device_fault rule = {.ops = DEVICE_FAULT_WRITE | DEVICE_FAULT_FLUSH,
                                    .nth = op,
                                    .structure = -1,
                                    .action = DEVICE_FAULT_FAIL,
                                    .error = EIO};
        struct base_error e;

        format(below, &f);
        CHECK(device_faults_new(below, &d) == 0);
        CHECK(device_faults_add(d, &rule) == 0);
        base_error_clear(&e);
        rc = exfat_format(d, &f, &e);
        CHECK(rc == 0 || rc == -EIO);
        device_faults_clear(d);
        format(d, &f);
        geometry(d);
        device_unref(d);
        device_unref(below);
        op++;
    } while (rc != 0);
    CHECK(op > 9); /* 3 flushes, and 6 writes beside the zeros */
}

/* ---- full format ---- */

struct progress {
    uint64_t last, total;
    int calls, stop_at;
};

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    struct progress *p = context;

    CHECK(done > p->last && done <= total);
    p->last = done;
    p->total = total;
    return ++p->calls == p->stop_at;
}

static void fill(struct device *d)
{
    static uint8_t junk[65536];

    memset(junk, 0xE7, sizeof junk);
    for (uint64_t at = 0; at < d->size; at += sizeof junk) {
        CHECK(device_write(d, at, junk, sizeof junk, NULL) == 0);
    }
}

static void test_full(void)
{
    struct device *d = memory(24 * MIB, 512);
    struct volume_format f = options();
    struct progress p = {0};
    struct exfat_geometry g;
    struct base_error e;

    f.full = true;
    f.progress = on_progress;
    f.progress_context = &p;
    fill(d);
    p.stop_at = 2;
    base_error_clear(&e);
    CHECK(exfat_format(d, &f, &e) == -EINTR);
    CHECK(p.calls == 2);
    CHECK(exfat_boot_read(d, false, &g, NULL) == -EUCLEAN);

    memset(&p, 0, sizeof p);
    fill(d);
    format(d, &f);
    CHECK(p.calls >= 3 && p.last == 24 * MIB && p.total == 24 * MIB);
    g = geometry(d);
    CHECK(bytes_not_zero(d, ((uint64_t)g.heap_offset << 9) + 5 * 4096, 24 * MIB) == 0);
    device_unref(d);
}

/* A quick format leaves the data, and clears what would be read as structures. */
static void test_quick(void)
{
    struct device *d = memory(24 * MIB, 512);
    struct volume_format f = options();
    struct exfat_geometry g;
    uint64_t heap;

    fill(d);
    format(d, &f);
    g = geometry(d);
    heap = (uint64_t)g.heap_offset << 9;
    CHECK(bytes_not_zero(d, 24 * 512, (uint64_t)g.fat_offset << 9) == 0);
    CHECK(bytes_not_zero(d, ((uint64_t)g.fat_offset << 9) + 512,
                         (uint64_t)(g.fat_offset + g.fat_length) << 9) == 0);
    CHECK(bytes_not_zero(d, heap + 512, heap + base_round_up(g.clusters / 8, 512)) == 0);
    CHECK(bytes_not_zero(d, heap + 3 * 4096 + 512, heap + 4 * 4096) == 0); /* root */
    CHECK(bytes_not_zero(d, heap + 4 * 4096, heap + 5 * 4096) == 4096);
    device_unref(d);
}

static void test_repeatable(void)
{
    struct device *a = memory(2 * MIB, 512), *b = memory(2 * MIB, 512);
    static uint8_t left[2 << 20], right[2 << 20];
    struct volume_format f = options();
    struct env one, two;

    env_init_fixed(&one, 42, 0, 0);
    env_init_fixed(&two, 42, 0, 0);
    f.env = &one;
    format(a, &f);
    f.env = &two;
    format(b, &f);
    CHECK(device_read(a, 0, left, sizeof left) == 0 && device_read(b, 0, right, sizeof right) == 0);
    CHECK(memcmp(left, right, sizeof left) == 0);
    format(b, &f); /* the next number */
    CHECK(geometry(a).serial != geometry(b).serial);
    device_unref(a);
    device_unref(b);
}

int main(void)
{
    test_smallest();
    test_pair();
    test_sizes();
    test_alignment();
    test_part();
    test_refusals();
    test_recommended();
    test_order();
    test_power_cut();
    test_faults();
    test_full();
    test_quick();
    test_repeatable();
    return 0;
}
