/* Boot regions: twelve sectors at the start of the volume, and the same again after them [2.1, 3].
 */
#include "exfat/exfat.h"

#include <stdlib.h>

#include "base/checksum.h"

enum {
    HEAP_AFTER = 2 * EXFAT_BOOT_SECTORS, /* sectors before the first FAT [3.1.6] */
    NAME_BYTES = 8,
    MUST_BE_ZERO_BYTES = 53,
    CODE_BYTES = 390,
    SIGNATURE = 0xAA55,
    HALT = 0xF4, /* x86: what boot code is when there is none [3.1.17] */
    FAT_ENTRY_SHIFT = 2,
};

static const uint8_t jump[3] = {0xEB, 0x76, 0x90};
static const uint8_t fs_name[NAME_BYTES] = {'E', 'X', 'F', 'A', 'T', ' ', ' ', ' '};

static const char *structure_name(bool backup)
{
    return backup ? "backup boot region" : "main boot region";
}

/* One region under examination: where it is, and where complaints go. */
struct region {
    const uint8_t *p;
    uint64_t offset; /* bytes from the start of the volume */
    bool backup;
    struct base_error *e;
};

static int damage(const struct region *r, uint32_t at, const char *field, uint64_t found,
                  uint64_t expected, const char *detail)
{
    return base_damage(r->e, structure_name(r->backup), r->offset + at, field, found, expected,
                       detail);
}

/* ---- checksum ---- */

static uint32_t region_sum(const uint8_t *region, uint32_t sector_size)
{
    /* VolumeFlags and PercentInUse change while the volume is in use and are left out [3.4]. */
    uint32_t sum = base_ror32_sum(0, region, EXFAT_BOOT_VOLUME_FLAGS);

    sum = base_ror32_sum(sum, region + EXFAT_BOOT_SECTOR_SHIFT,
                         EXFAT_BOOT_PERCENT - EXFAT_BOOT_SECTOR_SHIFT);
    return base_ror32_sum(sum, region + EXFAT_BOOT_PERCENT + 1,
                          EXFAT_CHECKSUM_SECTOR * sector_size - EXFAT_BOOT_PERCENT - 1);
}

void exfat_boot_checksum(uint8_t *region, uint32_t sector_size)
{
    uint32_t sum = region_sum(region, sector_size);
    uint8_t *out = region + EXFAT_CHECKSUM_SECTOR * sector_size;

    for (uint32_t i = 0; i < sector_size; i += 4) {
        base_put_le32(out + i, sum);
    }
}

static int check_sum(const struct region *r, uint32_t sector_size)
{
    uint32_t sum = region_sum(r->p, sector_size);
    uint32_t start = EXFAT_CHECKSUM_SECTOR * sector_size;

    for (uint32_t i = start; i < start + sector_size; i += 4) {
        if (base_le32(r->p + i) != sum) {
            return damage(r, i, "Checksum", base_le32(r->p + i), sum,
                          "the checksum does not match the boot sectors");
        }
    }
    return 0;
}

bool exfat_boot_is_valid(const uint8_t *region, uint32_t sector_size)
{
    struct region r = {region, 0, false, NULL};

    return memcmp(region + EXFAT_BOOT_NAME, fs_name, NAME_BYTES) == 0 &&
           base_le16(region + EXFAT_BOOT_SIGNATURE) == SIGNATURE &&
           region[EXFAT_BOOT_SECTOR_SHIFT] == base_log2(sector_size) &&
           check_sum(&r, sector_size) == 0;
}

/* ---- reading ---- */

/* What tells an exFAT boot sector from any other, before its numbers are believed. */
static int check_frame(const struct region *r, uint32_t *sector_shift)
{
    const uint8_t *p = r->p;

    if (memcmp(p + EXFAT_BOOT_NAME, fs_name, NAME_BYTES) != 0) {
        return damage(r, EXFAT_BOOT_NAME, "FileSystemName", base_le64(p + EXFAT_BOOT_NAME),
                      base_le64(fs_name), "this is not an exFAT volume");
    }
    if (base_le16(p + EXFAT_BOOT_SIGNATURE) != SIGNATURE) {
        return damage(r, EXFAT_BOOT_SIGNATURE, "BootSignature", base_le16(p + EXFAT_BOOT_SIGNATURE),
                      SIGNATURE, "the boot sector does not end with 55 AA");
    }
    *sector_shift = p[EXFAT_BOOT_SECTOR_SHIFT];
    if (*sector_shift < EXFAT_SECTOR_SHIFT_MIN || *sector_shift > EXFAT_SECTOR_SHIFT_MAX) {
        return damage(r, EXFAT_BOOT_SECTOR_SHIFT, "BytesPerSectorShift", *sector_shift, 0,
                      "must be from 9 to 12 (sectors of 512 to 4096 bytes)");
    }
    return 0;
}

static int check_constants(const struct region *r, uint32_t sector_size)
{
    const uint8_t *p = r->p;

    if (memcmp(p + EXFAT_BOOT_JUMP, jump, sizeof jump) != 0) {
        return damage(r, EXFAT_BOOT_JUMP, "JumpBoot", base_le32(p) & 0xFFFFFF, 0x9076EB,
                      "must be EB 76 90");
    }
    for (uint32_t i = EXFAT_BOOT_MUST_BE_ZERO; i < EXFAT_BOOT_MUST_BE_ZERO + MUST_BE_ZERO_BYTES;
         i++) {
        if (p[i] != 0) {
            return damage(r, i, "MustBeZero", p[i], 0, "bytes that a FAT volume uses must be zero");
        }
    }
    for (uint32_t i = 1; i <= EXFAT_EXTENDED_SECTORS; i++) {
        uint32_t at = (i + 1) * sector_size - 4;

        if (base_le32(p + at) != EXFAT_EXTENDED_SIGNATURE) {
            return damage(r, at, "ExtendedBootSignature", base_le32(p + at),
                          EXFAT_EXTENDED_SIGNATURE, "an extended boot sector has no signature");
        }
    }
    return 0;
}

static void take_fields(const uint8_t *p, struct exfat_geometry *g)
{
    g->sector_shift = p[EXFAT_BOOT_SECTOR_SHIFT];
    g->cluster_shift = g->sector_shift + p[EXFAT_BOOT_CLUSTER_SHIFT];
    g->volume_length = base_le64(p + EXFAT_BOOT_VOLUME_LENGTH);
    g->partition_offset = base_le64(p + EXFAT_BOOT_PARTITION_OFFSET);
    g->fat_offset = base_le32(p + EXFAT_BOOT_FAT_OFFSET);
    g->fat_length = base_le32(p + EXFAT_BOOT_FAT_LENGTH);
    g->heap_offset = base_le32(p + EXFAT_BOOT_HEAP_OFFSET);
    g->clusters = base_le32(p + EXFAT_BOOT_CLUSTER_COUNT);
    g->root_cluster = base_le32(p + EXFAT_BOOT_ROOT_CLUSTER);
    g->serial = base_le32(p + EXFAT_BOOT_SERIAL);
    g->revision = base_le16(p + EXFAT_BOOT_REVISION);
    g->volume_flags = base_le16(p + EXFAT_BOOT_VOLUME_FLAGS);
    g->fats = p[EXFAT_BOOT_FATS];
    g->percent = p[EXFAT_BOOT_PERCENT];
    g->drive_select = p[EXFAT_BOOT_DRIVE];
    /* Outside the checksum; with one FAT it can mean nothing, and no harm is done by it. */
    if (g->fats == 1) {
        g->volume_flags &= (uint16_t)~EXFAT_FLAG_ACTIVE_FAT;
    }
}

/* 1.00 to 99.99 [3.1.12] */
static bool is_revision(uint16_t revision)
{
    return revision >> 8 >= 1 && revision >> 8 <= 99 && (revision & 0xFF) <= 99;
}

static int check_units(const struct region *r, const struct exfat_geometry *g)
{
    if (g->cluster_shift > EXFAT_CLUSTER_BYTES_SHIFT_MAX) {
        return damage(r, EXFAT_BOOT_CLUSTER_SHIFT, "SectorsPerClusterShift",
                      g->cluster_shift - g->sector_shift,
                      EXFAT_CLUSTER_BYTES_SHIFT_MAX - g->sector_shift,
                      "clusters may have at most 32 MiB");
    }
    if (g->fats != 1 && g->fats != 2) {
        return damage(r, EXFAT_BOOT_FATS, "NumberOfFats", g->fats, 1, "must be 1 or 2");
    }
    if (!is_revision(g->revision)) {
        return damage(r, EXFAT_BOOT_REVISION, "FileSystemRevision", g->revision, 0x100,
                      "not a revision number");
    }
    return 0;
}

/* FAT, then heap, then end of the volume: each must hold what the fields say. Volumes of less than
 * the 1 MiB that the specification asks for [3.1.5] exist, and are as good as others. */
static int check_layout(const struct region *r, const struct exfat_geometry *g)
{
    uint64_t fat_bytes = ((uint64_t)g->clusters + EXFAT_FIRST_CLUSTER) << FAT_ENTRY_SHIFT;
    uint64_t fat_needed = base_div_up(fat_bytes, 1u << g->sector_shift);
    uint64_t fat_end = g->fat_offset + (uint64_t)g->fat_length * g->fats;
    uint64_t heap_sectors, fitting;

    if (g->fat_offset < HEAP_AFTER) {
        return damage(r, EXFAT_BOOT_FAT_OFFSET, "FatOffset", g->fat_offset, HEAP_AFTER,
                      "the FAT begins inside the boot regions");
    }
    if (g->heap_offset < fat_end) {
        return damage(r, EXFAT_BOOT_HEAP_OFFSET, "ClusterHeapOffset", g->heap_offset, fat_end,
                      "the cluster heap begins before the end of the FAT");
    }
    if (g->heap_offset >= g->volume_length) {
        return damage(r, EXFAT_BOOT_HEAP_OFFSET, "ClusterHeapOffset", g->heap_offset, fat_end,
                      "the cluster heap begins after the end of the volume");
    }
    heap_sectors = g->volume_length - g->heap_offset;
    fitting = heap_sectors >> (g->cluster_shift - g->sector_shift);
    fitting = base_min(fitting, EXFAT_CLUSTERS_MAX);
    if (g->clusters == 0 || g->clusters > fitting) {
        return damage(r, EXFAT_BOOT_CLUSTER_COUNT, "ClusterCount", g->clusters, fitting,
                      "more clusters than the volume holds, or none");
    }
    if (g->fat_length < fat_needed) {
        return damage(r, EXFAT_BOOT_FAT_LENGTH, "FatLength", g->fat_length, fat_needed,
                      "the FAT is too short for the clusters");
    }
    if (g->root_cluster < EXFAT_FIRST_CLUSTER ||
        g->root_cluster - EXFAT_FIRST_CLUSTER >= g->clusters) {
        return damage(r, EXFAT_BOOT_ROOT_CLUSTER, "FirstClusterOfRootDirectory", g->root_cluster, 0,
                      "the root directory begins outside the cluster heap");
    }
    return 0;
}

static int check_device(const struct region *r, const struct exfat_geometry *g,
                        const struct device *d)
{
    if (g->volume_length > d->size >> g->sector_shift) {
        return damage(r, EXFAT_BOOT_VOLUME_LENGTH, "VolumeLength", g->volume_length,
                      d->size >> g->sector_shift, "the device ends before the volume does");
    }
    return 0;
}

/* A complete region. A later revision may give fields another meaning: where the checksum is good,
 * the revision is judged first. */
static int parse(const struct region *r, struct exfat_geometry *g, const struct device *d)
{
    struct region quiet = *r;
    uint32_t sector_size;
    int err, sum_err;

    take_fields(r->p, g);
    sector_size = 1u << g->sector_shift;
    quiet.e = NULL;
    sum_err = check_sum(&quiet, sector_size);
    if (!sum_err && is_revision(g->revision) && g->revision >> 8 != 1) {
        return base_unsupported(r->e, "file system revision", "only revision 1 of exFAT is known");
    }
    err = check_constants(r, sector_size);
    if (!err) {
        err = check_units(r, g);
    }
    if (!err) {
        err = check_layout(r, g);
    }
    if (!err) {
        err = check_device(r, g, d);
    }
    if (!err && sum_err) {
        err = check_sum(r, sector_size);
    }
    return err;
}

static int read_region(struct device *d, const struct region *r, uint64_t offset, uint32_t n,
                       uint8_t *buffer)
{
    if (d->size < offset + n) {
        return damage(r, 0, "VolumeLength", d->size, offset + n,
                      "the device ends inside the boot region");
    }
    return device_read(d, offset, buffer, n);
}

/* Twelve of the device's own sectors nearly always are the region; of a larger one the rest
 * follows. */
static int read_main(struct device *d, uint8_t *buffer, struct exfat_geometry *g,
                     struct base_error *e)
{
    struct region r = {buffer, 0, false, e};
    uint32_t have = (uint32_t)base_min(EXFAT_BOOT_SECTORS * d->sector_size, d->size);
    uint32_t shift, whole;
    int err = read_region(d, &r, 0, have ? have : d->sector_size, buffer);

    if (!err) {
        err = check_frame(&r, &shift);
    }
    if (err) {
        return err;
    }
    if (1u << shift < d->sector_size) {
        return base_unsupported(e, "sector size",
                                "the volume's sectors are smaller than the device's");
    }
    whole = (uint32_t)EXFAT_BOOT_SECTORS << shift;
    if (whole > have) {
        err = read_region(d, &r, have, whole - have, buffer + have);
    }
    return err ? err : parse(&r, g, d);
}

/* The backup's place depends on the sector size, which only the backup itself can tell. */
static int read_backup(struct device *d, uint8_t *buffer, struct exfat_geometry *g,
                       struct base_error *e)
{
    struct base_error best, current;
    int best_err = 0;

    base_error_clear(&best);
    for (uint32_t shift = EXFAT_SECTOR_SHIFT_MIN; shift <= EXFAT_SECTOR_SHIFT_MAX; shift++) {
        uint64_t offset = (uint64_t)EXFAT_BACKUP_SECTOR << shift;
        struct region r = {buffer, offset, true, &current};
        uint32_t found;
        bool present;
        int err;

        base_error_clear(&current);
        if (1u << shift < d->sector_size) {
            continue;
        }
        err = read_region(d, &r, offset, (uint32_t)EXFAT_BOOT_SECTORS << shift, buffer);
        if (err && err != -BASE_ECORRUPT) {
            return err;
        }
        if (!err) {
            err = check_frame(&r, &found);
        }
        if (!err && found != shift) {
            err = damage(&r, EXFAT_BOOT_SECTOR_SHIFT, "BytesPerSectorShift", found, shift,
                         "the region is not where its sector size puts it");
        }
        present = !err;
        if (present) {
            err = parse(&r, g, d);
        }
        if (!err) {
            return 0;
        }
        /* A region that is there but wrong says more than one that is not there. */
        if (best_err == 0 || present) {
            best_err = err;
            best = current;
        }
    }
    if (e && e->kind == BASE_ERROR_NONE) {
        *e = best;
    }
    return best_err;
}

int exfat_boot_read(struct device *d, bool backup, struct exfat_geometry *g, struct base_error *e)
{
    uint8_t *buffer;
    int err;

    buffer = malloc((size_t)EXFAT_BOOT_SECTORS << EXFAT_SECTOR_SHIFT_MAX);
    if (!buffer) {
        return -ENOMEM;
    }
    err = backup ? read_backup(d, buffer, g, e) : read_main(d, buffer, g, e);
    free(buffer);
    return err;
}

/* ---- making ---- */

void exfat_boot_build(const struct exfat_geometry *g, uint8_t *region)
{
    uint32_t sector_size = 1u << g->sector_shift;
    uint8_t *p = region;

    memset(region, 0, (size_t)EXFAT_BOOT_SECTORS * sector_size);
    memcpy(p + EXFAT_BOOT_JUMP, jump, sizeof jump);
    memcpy(p + EXFAT_BOOT_NAME, fs_name, NAME_BYTES);
    base_put_le64(p + EXFAT_BOOT_PARTITION_OFFSET, g->partition_offset);
    base_put_le64(p + EXFAT_BOOT_VOLUME_LENGTH, g->volume_length);
    base_put_le32(p + EXFAT_BOOT_FAT_OFFSET, g->fat_offset);
    base_put_le32(p + EXFAT_BOOT_FAT_LENGTH, g->fat_length);
    base_put_le32(p + EXFAT_BOOT_HEAP_OFFSET, g->heap_offset);
    base_put_le32(p + EXFAT_BOOT_CLUSTER_COUNT, g->clusters);
    base_put_le32(p + EXFAT_BOOT_ROOT_CLUSTER, g->root_cluster);
    base_put_le32(p + EXFAT_BOOT_SERIAL, g->serial);
    base_put_le16(p + EXFAT_BOOT_REVISION, g->revision);
    base_put_le16(p + EXFAT_BOOT_VOLUME_FLAGS, g->volume_flags);
    p[EXFAT_BOOT_SECTOR_SHIFT] = (uint8_t)g->sector_shift;
    p[EXFAT_BOOT_CLUSTER_SHIFT] = (uint8_t)(g->cluster_shift - g->sector_shift);
    p[EXFAT_BOOT_FATS] = g->fats;
    p[EXFAT_BOOT_DRIVE] = g->drive_select;
    p[EXFAT_BOOT_PERCENT] = g->percent;
    memset(p + EXFAT_BOOT_CODE, HALT, CODE_BYTES);
    base_put_le16(p + EXFAT_BOOT_SIGNATURE, SIGNATURE);
    for (uint32_t i = 1; i <= EXFAT_EXTENDED_SECTORS; i++) {
        base_put_le32(region + (i + 1) * sector_size - 4, EXFAT_EXTENDED_SIGNATURE);
    }
    exfat_boot_checksum(region, sector_size);
}
