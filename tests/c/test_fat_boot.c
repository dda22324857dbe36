/* Boot sectors of FAT: what good ones say, which field each bad one is refused for, backups, and
 * recognizing. The sectors are written by hand, by the specification. */
#include "fat/fat.h"

#include "check.h"

#include <errno.h>
#include <string.h>

#define MIB (1024 * 1024u)

struct sector {
    uint8_t p[512];
};

/* A 1.44 MB floppy as DOS makes it: 2880 sectors, 2 FATs of 9, 224 root entries. */
static struct sector floppy(void)
{
    struct sector s = {{0xEB, 0x3C, 0x90}};

    base_put_le16(s.p + 11, 512);
    s.p[13] = 1;
    base_put_le16(s.p + 14, 1);
    s.p[16] = 2;
    base_put_le16(s.p + 17, 224);
    base_put_le16(s.p + 19, 2880);
    s.p[21] = 0xF0;
    base_put_le16(s.p + 22, 9);
    base_put_le16(s.p + 24, 18);
    base_put_le16(s.p + 26, 2);
    s.p[38] = 0x29;
    base_put_le32(s.p + 39, 0x12345678);
    memcpy(s.p + 43, "DISK 1     FAT12   ", 19);
    base_put_le16(s.p + 510, 0xAA55);
    return s;
}

/* FAT32 of 70,000 clusters of 512 bytes: 2 FATs of 547 sectors hold 70,016 entries. */
static struct sector wide(void)
{
    struct sector s = {{0xEB, 0x58, 0x90}};

    base_put_le16(s.p + 11, 512);
    s.p[13] = 1;
    base_put_le16(s.p + 14, 32);
    s.p[16] = 2;
    s.p[21] = 0xF8;
    base_put_le32(s.p + 28, 63);
    base_put_le32(s.p + 32, 32 + 2 * 547 + 70000);
    base_put_le32(s.p + 36, 547);
    base_put_le32(s.p + 44, 2);
    base_put_le16(s.p + 48, 1);
    base_put_le16(s.p + 50, 6);
    s.p[66] = 0x29;
    base_put_le32(s.p + 67, 0xCAFE);
    memcpy(s.p + 71, "NO NAME    FAT32   ", 19);
    base_put_le16(s.p + 510, 0xAA55);
    return s;
}

enum { WIDE_SIZE = (32 + 2 * 547 + 70000) * 512 };

static struct device *device_with(const struct sector *s, uint64_t size, uint32_t sector_size)
{
    static uint8_t whole[4096];
    struct device *d;

    memset(whole, 0, sizeof whole);
    memcpy(whole, s->p, sizeof s->p);
    CHECK(device_memory_new(size, sector_size, &d) == 0);
    CHECK(device_write(d, 0, whole, sector_size, NULL) == 0);
    return d;
}

static int read_sector(const struct sector *s, uint64_t size, struct fat_geometry *g,
                       struct base_error *e)
{
    struct device *d = device_with(s, size, 512);
    int err;

    base_error_clear(e);
    err = fat_boot_read(d, false, g, e);
    device_unref(d);
    return err;
}

/* ---- good ones ---- */

static void test_floppy(void)
{
    struct sector s = floppy();
    struct fat_geometry g;
    struct base_error e;

    CHECK(read_sector(&s, 1474560, &g, &e) == 0);
    CHECK(g.bits == 12 && g.sector_size == 512 && g.cluster_size == 512 && g.sectors == 2880);
    CHECK(g.reserved_sectors == 1 && g.fats == 2 && g.fat_sectors == 9 && g.root_entries == 224);
    CHECK(g.root_offset == 19 * 512 && g.heap_offset == 33 * 512 && g.clusters == 2847);
    CHECK(g.mirror && g.active_fat == 0 && g.root_cluster == 0 && g.fsinfo_sector == 0);
    CHECK(g.has_extended && g.has_serial && g.serial == 0x12345678 && g.media == 0xF0);
    CHECK(memcmp(g.label, "DISK 1     ", 11) == 0 && !g.dirty && !g.hard_error);
    s.p[37] = 1;
    CHECK(read_sector(&s, 1474560, &g, &e) == 0 && g.dirty && !g.hard_error);
    s.p[37] = 2;
    CHECK(read_sector(&s, 1474560, &g, &e) == 0 && !g.dirty && g.hard_error);
    /* The older signature: a serial number, no label. */
    s.p[38] = 0x28;
    CHECK(read_sector(&s, 1474560, &g, &e) == 0 && g.has_serial && g.hard_error);
    CHECK(memcmp(g.label, "           ", 11) == 0);
    /* None, nor an end mark, a jump or a geometry, as on Atari: all of that is not needed. */
    memset(s.p, 0, 3);
    memset(s.p + 24, 0, 12);
    s.p[28] = 5;
    s.p[30] = 9; /* above the 16 bits that the field had then */
    s.p[37] = s.p[38] = 3;
    base_put_le16(s.p + 510, 0);
    CHECK(read_sector(&s, 1474560, &g, &e) == 0);
    CHECK(!g.has_extended && !g.has_serial && g.serial == 0 && !g.dirty && !g.hard_error);
    CHECK(g.hidden_sectors == 5 && g.clusters == 2847);
}

static void test_wide(void)
{
    struct sector s = wide();
    struct fat_geometry g;
    struct base_error e;

    CHECK(read_sector(&s, WIDE_SIZE, &g, &e) == 0);
    CHECK(g.bits == 32 && g.clusters == 70000 && g.fat_sectors == 547 && g.root_entries == 0);
    CHECK(g.heap_offset == (32 + 2 * 547) * 512 && g.root_offset == 0 && g.root_cluster == 2);
    CHECK(g.fsinfo_sector == 1 && g.backup_sector == 6 && g.hidden_sectors == 63);
    CHECK(g.serial == 0xCAFE && g.mirror && memcmp(g.label, "NO NAME    ", 11) == 0);
    base_put_le16(s.p + 40, 0x81); /* no mirroring, the second FAT counts */
    s.p[65] = 3;
    CHECK(read_sector(&s, WIDE_SIZE, &g, &e) == 0);
    CHECK(!g.mirror && g.active_fat == 1 && g.dirty && g.hard_error);
    base_put_le16(s.p + 40, 0x01); /* mirrored: the number means nothing */
    CHECK(read_sector(&s, WIDE_SIZE, &g, &e) == 0 && g.mirror && g.active_fat == 0);
    base_put_le16(s.p + 48, 0); /* FSInfo may be in its usual place all the same */
    base_put_le16(s.p + 50, 0);
    CHECK(read_sector(&s, WIDE_SIZE, &g, &e) == 0);
    CHECK(g.fsinfo_sector == 1 && g.backup_sector == 0);
    base_put_le16(s.p + 48, 0xFFFF);
    base_put_le16(s.p + 50, 32); /* not reserved any more */
    CHECK(read_sector(&s, WIDE_SIZE, &g, &e) == 0);
    CHECK(g.fsinfo_sector == 0 && g.backup_sector == 0);
    /* The layout decides, not the count. */
    s = wide();
    base_put_le32(s.p + 32, 32 + 2 * 547 + 10);
    CHECK(read_sector(&s, WIDE_SIZE, &g, &e) == 0 && g.bits == 32 && g.clusters == 10);
}

static void test_limits(void)
{
    struct sector s = floppy();
    struct fat_geometry g;
    struct base_error e;

    base_put_le16(s.p + 22, 12); /* FATs of 12 sectors: 4096 entries of 12 bits, 3072 of 16 */
    base_put_le16(s.p + 19, 39 + 4084);
    CHECK(read_sector(&s, 64 * MIB, &g, &e) == 0 && g.bits == 12 && g.clusters == 4084);
    base_put_le16(s.p + 19, 39 + 4085);
    /* FAT16 by the clusters that there are; those without an entry are not used. */
    CHECK(read_sector(&s, 64 * MIB, &g, &e) == 0 && g.bits == 16 && g.clusters == 3070);
    base_put_le16(s.p + 22, 256);
    base_put_le16(s.p + 19, 0);
    base_put_le32(s.p + 32, 527 + 65524);
    CHECK(read_sector(&s, 64 * MIB, &g, &e) == 0 && g.bits == 16 && g.clusters == 65524);
    base_put_le32(s.p + 32, 527 + 65525);
    CHECK(read_sector(&s, 64 * MIB, &g, &e) == -BASE_ECORRUPT);
    CHECK(e.offset == 32 && strcmp(e.field, "TotalSectors") == 0 && e.expected == 527 + 65524);
    /* A card from the factory: 128 entries a sector, four clusters too many. */
    s = wide();
    base_put_le32(s.p + 32, 32 + 2 * 547 + 70018);
    CHECK(read_sector(&s, 64 * MIB, &g, &e) == 0 && g.clusters == 547 * 128 - 2);
}

static void test_sector_sizes(void)
{
    struct sector s = floppy();
    struct fat_geometry g;
    struct base_error e;

    for (uint32_t size = 1024; size <= 32768; size *= 2) {
        base_put_le16(s.p + 11, (uint16_t)size);
        CHECK(read_sector(&s, 2880 * (uint64_t)size, &g, &e) == 0 && g.sector_size == size);
        CHECK(g.heap_offset % size == 0);
    }
    /* 224 entries fill 1.75 sectors of 4096 bytes, and take two. */
    base_put_le16(s.p + 11, 4096);
    CHECK(read_sector(&s, 2880 * UINT64_C(4096), &g, &e) == 0);
    CHECK(g.heap_offset == (19 + 2) * 4096 && g.clusters == 2880 - 21);

    struct device *d = device_with(&s, 64 * MIB, 4096);
    CHECK(fat_boot_read(d, false, &g, &e) == 0 && g.sector_size == 4096);
    device_unref(d);
    s = floppy();
    d = device_with(&s, 64 * MIB, 4096);
    base_error_clear(&e);
    CHECK(fat_boot_read(d, false, &g, &e) == -BASE_EUNSUPPORTED);
    CHECK(strcmp(e.structure, "sector size") == 0);
    device_unref(d);
}

/* ---- bad ones ---- */

static void check_bad(struct sector s, uint32_t at, uint32_t bytes, uint32_t value,
                      const char *field, uint32_t expected_at)
{
    struct fat_geometry g;
    struct base_error e;

    for (uint32_t i = 0; i < bytes; i++) {
        s.p[at + i] = (uint8_t)(value >> 8 * i);
    }
    CHECK(read_sector(&s, 64 * MIB, &g, &e) == -BASE_ECORRUPT);
    if (e.offset != expected_at || strcmp(e.field, field) != 0) {
        fprintf(stderr, "%s at %lu\n", e.field, (unsigned long)e.offset);
    }
    CHECK(e.kind == BASE_ERROR_DAMAGE && strcmp(e.structure, "boot sector") == 0);
    CHECK(e.offset == expected_at && strcmp(e.field, field) == 0);
}

static void test_damage(void)
{
    struct sector s = floppy(), w = wide();

    check_bad(s, 11, 2, 0, "BytesPerSector", 11);
    check_bad(s, 11, 2, 256, "BytesPerSector", 11);
    check_bad(s, 11, 2, 513, "BytesPerSector", 11);
    check_bad(s, 11, 2, 0xFFFF, "BytesPerSector", 11);
    check_bad(s, 13, 1, 0, "SectorsPerCluster", 13);
    check_bad(s, 13, 1, 3, "SectorsPerCluster", 13);
    check_bad(s, 13, 1, 255, "SectorsPerCluster", 13);
    check_bad(s, 14, 2, 0, "ReservedSectors", 14);
    check_bad(s, 16, 1, 0, "NumberOfFats", 16);
    check_bad(s, 17, 2, 0, "RootEntries", 17);
    check_bad(s, 19, 2, 0, "TotalSectors", 32);
    check_bad(s, 19, 2, 33, "TotalSectors", 19);
    check_bad(s, 21, 1, 0xEF, "Media", 21);
    check_bad(s, 21, 1, 0xF7, "Media", 21);
    check_bad(s, 21, 1, 0, "Media", 21);
    check_bad(s, 22, 2, 0, "TotalSectors", 19); /* FAT32 by its layout, and a huge FAT */
    check_bad(s, 22, 2, 0xFFFF, "TotalSectors", 19);
    check_bad(s, 14, 2, 0xFFFF, "TotalSectors", 19);
    check_bad(s, 17, 2, 0xFFFF, "TotalSectors", 19);
    check_bad(w, 32, 4, 0xFFFFFFFF, "TotalSectors", 32);
    check_bad(w, 36, 4, 0xFFFFFFFF, "TotalSectors", 32);
    check_bad(w, 36, 4, 0, "FatSize", 22);
    check_bad(w, 40, 2, 0x82, "ExtFlags", 40);
    check_bad(w, 40, 2, 0x8F, "ExtFlags", 40);
    check_bad(w, 44, 4, 0, "RootCluster", 44);
    check_bad(w, 44, 4, 1, "RootCluster", 44);
    check_bad(w, 44, 4, 70002, "RootCluster", 44);
    check_bad(w, 44, 4, 0xFFFFFFFF, "RootCluster", 44);
}

static void test_short_devices(void)
{
    struct sector s = floppy(), w = wide();
    struct fat_geometry g;
    struct base_error e;

    CHECK(read_sector(&s, 1474560 - 512, &g, &e) == -BASE_ECORRUPT);
    CHECK(e.offset == 19 && strcmp(e.field, "TotalSectors") == 0);
    CHECK(e.found == 2880 && e.expected == 2879);
    CHECK(read_sector(&w, WIDE_SIZE - 1024, &g, &e) == -BASE_ECORRUPT);
    CHECK(e.offset == 32 && e.found == WIDE_SIZE / 512 && e.expected == WIDE_SIZE / 512 - 2);
    base_put_le16(w.p + 42, 1);
    CHECK(read_sector(&w, WIDE_SIZE, &g, &e) == -BASE_EUNSUPPORTED);
    CHECK(strcmp(e.structure, "file system version") == 0);

    struct device *d;
    CHECK(device_memory_new(0, 512, &d) == 0);
    base_error_clear(&e);
    CHECK(fat_boot_read(d, false, &g, &e) == -BASE_ECORRUPT);
    CHECK(fat_boot_read(d, true, &g, NULL) == -BASE_ECORRUPT);
    device_unref(d);
}

/* Any byte, any value: never anything but one of three answers, and a geometry that holds. */
static void test_every_byte(void)
{
    for (int kind = 0; kind < 2; kind++) {
        struct sector good = kind ? wide() : floppy();
        uint64_t size = kind ? WIDE_SIZE : 1474560;
        struct device *d = device_with(&good, size, 512);

        for (int at = 11; at < 90; at++) {
            for (int value = 0; value < 256; value++) {
                struct sector s = good;
                struct fat_geometry g;
                int err;

                s.p[at] = (uint8_t)value;
                CHECK(device_write(d, 0, s.p, 512, NULL) == 0);
                err = fat_boot_read(d, false, &g, NULL);
                CHECK(err == 0 || err == -BASE_ECORRUPT || err == -BASE_EUNSUPPORTED);
                if (err == 0) {
                    CHECK(g.clusters > 0 && g.sectors * g.sector_size <= size);
                    CHECK(g.heap_offset + (uint64_t)g.clusters * g.cluster_size <= size);
                    CHECK((uint64_t)g.fat_sectors * g.sector_size * 8 / g.bits >= g.clusters + 2);
                    CHECK(g.active_fat < g.fats);
                }
            }
        }
        device_unref(d);
    }
}

/* ---- floppies without parameters ---- */

static void test_old_floppies(void)
{
    static const struct {
        uint32_t sectors;
        uint8_t media;
        uint32_t root_at, heap_at, cluster, clusters;
    } rows[] = {
        {320, 0xFE, 3, 7, 512, 313},
        {360, 0xFC, 5, 9, 512, 351},
        {640, 0xFF, 3, 10, 1024, 315},
        {720, 0xFD, 5, 12, 1024, 354},
    };

    for (int i = 0; i < 4; i++) {
        struct sector boot = {{0xEB, 0x27, 0x90}};
        struct sector fat = {{rows[i].media, 0xFF, 0xFF}};
        struct device *d = device_with(&boot, rows[i].sectors * 512, 512);
        struct fat_geometry g;
        struct base_error e = {0};

        CHECK(fat_boot_read(d, false, &g, &e) == -BASE_ECORRUPT); /* no FAT yet */
        CHECK(e.offset == 11);
        CHECK(device_write(d, 512, fat.p, 512, NULL) == 0);
        CHECK(fat_boot_read(d, false, &g, NULL) == 0);
        CHECK(g.bits == 12 && g.sectors == rows[i].sectors && g.fats == 2);
        CHECK(g.root_offset == rows[i].root_at * 512 && g.heap_offset == rows[i].heap_at * 512);
        CHECK(g.cluster_size == rows[i].cluster && g.clusters == rows[i].clusters);
        CHECK(g.media == rows[i].media && !g.has_serial && !g.has_extended);
        fat.p[0] = rows[(i + 1) % 4].media; /* of another format */
        CHECK(device_write(d, 512, fat.p, 512, NULL) == 0);
        CHECK(fat_boot_read(d, false, &g, NULL) == -BASE_ECORRUPT);
        device_unref(d);
    }
}

/* ---- backups ---- */

static void put(struct device *d, uint32_t sector, const struct sector *s)
{
    CHECK(device_write(d, (uint64_t)sector * 512, s->p, 512, NULL) == 0);
}

static void test_backup(void)
{
    struct sector s = wide(), none = {{0}};
    struct device *d = device_with(&s, WIDE_SIZE, 512);
    struct fat_geometry g;
    struct base_error e = {0};

    CHECK(fat_boot_read(d, true, &g, &e) == -BASE_ECORRUPT);
    CHECK(strcmp(e.structure, "backup boot sector") == 0 && e.offset == 6 * 512 + 510);
    s.p[67] = 0x99;
    put(d, 6, &s);
    CHECK(fat_boot_read(d, true, &g, NULL) == 0 && g.serial == 0xCA99);
    CHECK(fat_boot_read(d, false, &g, NULL) == 0 && g.serial == 0xCAFE);
    CHECK(fat_has_backup(d));
    put(d, 0, &none); /* nothing says where it is: at the usual place */
    CHECK(fat_boot_read(d, false, &g, NULL) == -BASE_ECORRUPT);
    CHECK(fat_boot_read(d, true, &g, NULL) == 0 && g.serial == 0xCA99);
    /* Elsewhere, and the main sector tells. */
    put(d, 6, &none);
    put(d, 9, &s);
    CHECK(!fat_has_backup(d));
    s = wide();
    base_put_le16(s.p + 50, 9);
    put(d, 0, &s);
    CHECK(fat_boot_read(d, true, &g, NULL) == 0 && g.serial == 0xCA99);
    s = floppy();
    put(d, 0, &s);
    base_error_clear(&e);
    CHECK(fat_boot_read(d, true, &g, &e) == -BASE_EUNSUPPORTED);
    device_unref(d);
}

/* ---- recognizing ---- */

static int detect(const struct sector *s, uint64_t size, struct volume_detected *out)
{
    struct device *d = device_with(s, size, 512);
    int rc = volume_detect(d, out);

    device_unref(d);
    return rc;
}

static void test_detect(void)
{
    struct sector s = floppy();
    struct volume_detected found;

    CHECK(detect(&s, 1474560, &found) == 1);
    CHECK(strcmp(found.fs, "fat12") == 0 && found.size == 1474560 && !found.has_uuid);
    CHECK(found.has_serial && found.serial == 0x12345678 && strcmp(found.label, "DISK 1") == 0);
    CHECK(!found.damaged);
    base_put_le16(s.p + 19, 4084 + 33);
    CHECK(detect(&s, 4 * MIB, &found) == 1 && strcmp(found.fs, "fat12") == 0);
    base_put_le16(s.p + 19, 4085 + 33);
    CHECK(detect(&s, 4 * MIB, &found) == 1 && strcmp(found.fs, "fat16") == 0);
    CHECK(detect(&s, 2 * MIB, &found) == 1 && found.damaged); /* cut off */
    CHECK(found.size == (4085 + 33) * 512);
    s = floppy();
    s.p[13] = 3;
    CHECK(detect(&s, 4 * MIB, &found) == 0);
    s = floppy();
    base_put_le16(s.p + 510, 0); /* all fits together: no end mark is needed … */
    CHECK(detect(&s, 4 * MIB, &found) == 1);
    CHECK(detect(&s, MIB, &found) == 0); /* … but there it does not */
    s = wide();
    CHECK(detect(&s, WIDE_SIZE, &found) == 1);
    CHECK(strcmp(found.fs, "fat32") == 0 && found.size == WIDE_SIZE);
    CHECK(found.has_serial && found.serial == 0xCAFE && found.label[0] == 0 && !found.damaged);
    base_put_le32(s.p + 44, 0);
    CHECK(detect(&s, WIDE_SIZE, &found) == 1 && found.damaged && strcmp(found.fs, "fat32") == 0);
}

static void put_entry(struct device *d, uint64_t at, const char *name, uint8_t attributes)
{
    struct sector s = {{0}};

    CHECK(device_read(d, at / 512 * 512, s.p, 512) == 0);
    memcpy(s.p + at % 512, name, 11);
    s.p[at % 512 + 11] = attributes;
    CHECK(device_write(d, at / 512 * 512, s.p, 512, NULL) == 0);
}

/* The root directory's label counts before the boot sector's, wherever it is. */
static void test_detect_label(void)
{
    struct sector s = floppy();
    struct device *d = device_with(&s, 1474560, 512);
    struct volume_detected found;
    uint64_t root = 19 * 512;

    put_entry(d, root, "FILE    TXT", 0x20);
    put_entry(d, root + 32, "\xE5OLD LABEL ", 0x08);
    put_entry(d, root + 64, "LONG       ", 0x0F);
    put_entry(d, root + 96, "DIRECTORY  ", 0x18);
    CHECK(volume_detect(d, &found) == 1 && strcmp(found.label, "DISK 1") == 0);
    put_entry(d, root + 128,
              "\x05"
              "B\x9A\x8E LABEL",
              0x28); /* 437: sigma, B, U and A umlaut */
    CHECK(volume_detect(d, &found) == 1);
    CHECK(strcmp(found.label, "\xCF\x83"
                              "B\xC3\x9C\xC3\x84 LABEL") == 0);
    put_entry(d, root + 64, "\0          ", 0); /* the directory ends before it */
    CHECK(volume_detect(d, &found) == 1 && strcmp(found.label, "DISK 1") == 0);
    device_unref(d);

    /* FAT32: in the second cluster of a chain 2, 9. */
    s = wide();
    d = device_with(&s, WIDE_SIZE, 512);
    root = (32 + 2 * 547) * 512;
    for (uint32_t i = 0; i < 16; i++) {
        put_entry(d, root + 32 * i, "FILE       ", 0x20);
    }
    put_entry(d, root + 7 * 512, "SECOND     ", 0x08);
    memset(s.p, 0, sizeof s.p);
    CHECK(volume_detect(d, &found) == 1 && found.label[0] == 0);
    base_put_le32(s.p + 8, 0xF0000009);
    put(d, 32, &s);
    CHECK(volume_detect(d, &found) == 1 && strcmp(found.label, "SECOND") == 0);
    base_put_le32(s.p + 8, 2); /* a loop ends with the budget */
    put(d, 32, &s);
    CHECK(volume_detect(d, &found) == 1 && found.label[0] == 0);
    device_unref(d);
}

int main(void)
{
    test_floppy();
    test_wide();
    test_limits();
    test_sector_sizes();
    test_damage();
    test_short_devices();
    test_every_byte();
    test_old_floppies();
    test_backup();
    test_detect();
    test_detect_label();
    return 0;
}
