/* Formatting: what layout.c has planned is written, the boot sector last.
 *
 *   0           reserved sectors      after the FATs           heap
 *   | boot sector, FSInfo, backups | FAT, copies | root directory of FAT12 and FAT16 | clusters … |
 */
#include "fat/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"

enum {
    CODE_AT_16 = 62, /* where boot code begins after the extended record */
    CODE_AT_32 = 90,
    CODE_END = FAT_BS_END_MARK,
    DISK_SIGNATURE = 440, /* of a partition table; code ends before it */
    PARTITION = 446,
    ACTIVE = 0x80,
    CHS_CYLINDERS = 1024,
    END_MARK = 0xAA55,
    SECTORS16_MAX = 65535,
    BAD_BLOCK = 1024, /* bytes of a block in the list of bad ones */
    PIECE = 96 << 10, /* bytes of a FAT at a time: whole sectors, and whole entries of any width */
    CHAIN_END = 0x0FFFFFF8,
    ATARI_END = 0x0FFFFFFF,
    BAD_CLUSTER = 0x0FFFFFF7,
};

static const uint8_t atari_name[6] = {'m', 'k', 'd', 'o', 's', 'f'};
static const char usual_name[] = "mkfs.fat";

struct job {
    struct device *d;
    const struct volume_format *f;
    struct base_error *e;
    struct fat_plan p;
    uint64_t size; /* bytes of the volume */
    uint64_t op;
    uint32_t *bad; /* clusters, ascending, none twice */
    size_t bad_n;
    uint32_t disk_signature;
    uint8_t boot[FAT_BOOT_BYTES];
    uint8_t *buffer; /* PIECE bytes */
};

/* ---- boot sector ---- */

static int put_name(struct job *j)
{
    const char *name = j->f->fat.oem_name ? j->f->fat.oem_name : usual_name;
    size_t n = strlen(name);

    if (j->p.atari) {
        j->boot[0] = 0x60; /* 68000: bra */
        j->boot[1] = 0x1C;
        memcpy(j->boot + 2, atari_name, sizeof atari_name);
        j->boot[8] = (uint8_t)j->p.g.serial;
        base_put_le16(j->boot + 9, (uint16_t)(j->p.g.serial >> 8));
        return 0;
    }
    if (n > 8) {
        return base_bad_argument(j->e, "oem_name", "at most 8 characters");
    }
    memset(j->boot + FAT_BS_OEM_NAME, ' ', 8);
    memcpy(j->boot + FAT_BS_OEM_NAME, name, n);
    return 0;
}

static void put_parameters(struct job *j)
{
    const struct fat_geometry *g = &j->p.g;
    uint8_t *p = j->boot;
    bool narrow = g->sectors <= SECTORS16_MAX;

    base_put_le16(p + FAT_BPB_BYTES_PER_SECTOR, (uint16_t)g->sector_size);
    p[FAT_BPB_SECTORS_PER_CLUSTER] = (uint8_t)(g->cluster_size / g->sector_size);
    base_put_le16(p + FAT_BPB_RESERVED_SECTORS, (uint16_t)g->reserved_sectors);
    p[FAT_BPB_FATS] = (uint8_t)g->fats;
    base_put_le16(p + FAT_BPB_ROOT_ENTRIES, (uint16_t)g->root_entries);
    base_put_le16(p + FAT_BPB_TOTAL_SECTORS16, (uint16_t)(narrow ? g->sectors : 0));
    p[FAT_BPB_MEDIA] = g->media;
    base_put_le16(p + FAT_BPB_FAT_SIZE16, (uint16_t)(g->bits == 32 ? 0 : g->fat_sectors));
    base_put_le16(p + FAT_BPB_SECTORS_PER_TRACK, (uint16_t)j->p.sectors_per_track);
    base_put_le16(p + FAT_BPB_HEADS, (uint16_t)j->p.heads);
    base_put_le32(p + FAT_BPB_HIDDEN_SECTORS, g->hidden_sectors);
    base_put_le32(p + FAT_BPB_TOTAL_SECTORS32, narrow ? 0 : (uint32_t)g->sectors);
    if (g->bits == 32) {
        base_put_le32(p + FAT_BPB_FAT_SIZE32, g->fat_sectors);
        base_put_le32(p + FAT_BPB_ROOT_CLUSTER, g->root_cluster);
        base_put_le16(p + FAT_BPB_FSINFO, (uint16_t)g->fsinfo_sector);
        base_put_le16(p + FAT_BPB_BACKUP_BOOT, (uint16_t)g->backup_sector);
    }
}

/* Drive, serial number, label and the width in words. Of these Atari has the drive only. */
static void put_extended(struct job *j)
{
    static const char *const types[] = {"FAT12   ", "FAT16   ", "FAT32   "};
    const struct fat_geometry *g = &j->p.g;
    uint8_t *p = j->boot + (g->bits == 32 ? FAT_BS32_DRIVE - FAT_BS16_DRIVE : 0);

    p[FAT_BS16_DRIVE] = j->p.drive;
    if (j->p.atari) {
        return;
    }
    p[FAT_BS16_SIGNATURE] = FAT_EXTENDED_SIGNATURE;
    base_put_le32(p + FAT_BS16_SERIAL, g->serial);
    memcpy(p + FAT_BS16_LABEL, j->p.label, FAT_LABEL_BYTES);
    memcpy(p + FAT_BS16_TYPE, types[g->bits == 12 ? 0 : g->bits == 16 ? 1 : 2], 8);
}

/* Cylinder, head and sector of the first sector after the volume. */
static bool put_chs(const struct fat_plan *p, uint8_t out[3])
{
    uint64_t track = p->g.sectors / p->sectors_per_track;
    uint64_t cylinder = track / p->heads, head = track % p->heads;
    uint64_t sector = p->g.sectors % p->sectors_per_track + 1;

    if (cylinder >= CHS_CYLINDERS || head > 254 || sector > 63) {
        out[0] = 0xFE;
        out[1] = out[2] = 0xFF;
        return false;
    }
    out[0] = (uint8_t)head;
    out[1] = (uint8_t)(sector | cylinder >> 8 << 6);
    out[2] = (uint8_t)cylinder;
    return true;
}

/* One partition that begins with this very sector: some systems open only what is in one. */
static void put_table(struct job *j)
{
    const struct fat_geometry *g = &j->p.g;
    uint8_t *p = j->boot + PARTITION;
    bool in_reach;

    base_put_le32(j->boot + DISK_SIGNATURE, j->disk_signature ? j->disk_signature : g->serial);
    base_put_le16(j->boot + DISK_SIGNATURE + 4, 0);
    memset(p, 0, FAT_BS_END_MARK - PARTITION);
    p[0] = ACTIVE;
    p[2] = 1; /* cylinder 0, head 0, sector 1 */
    in_reach = put_chs(&j->p, p + 5);
    if (g->bits == 32) {
        p[4] = 0x0C;
    } else if (g->sectors <= SECTORS16_MAX) {
        p[4] = g->bits == 12 ? 0x01 : 0x04;
    } else {
        p[4] = in_reach ? 0x06 : 0x0E;
    }
    base_put_le32(p + 12, (uint32_t)g->sectors);
}

static int build_boot(struct job *j)
{
    uint32_t code = j->p.g.bits == 32 ? CODE_AT_32 : CODE_AT_16;
    int err = 0;

    if (!j->p.atari) {
        err = fat_stub_build(j->boot, code, j->f->fat.mbr ? DISK_SIGNATURE : CODE_END,
                             j->f->fat.boot_message, j->e);
        base_put_le16(j->boot + FAT_BS_END_MARK, END_MARK);
    }
    if (!err) {
        err = put_name(j);
    }
    if (err) {
        return err;
    }
    put_parameters(j);
    put_extended(j);
    if (j->f->fat.mbr) {
        put_table(j);
    }
    return 0;
}

/* ---- bad blocks ---- */

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static int find_bad(struct job *j)
{
    const struct fat_geometry *g = &j->p.g;
    uint64_t end = g->heap_offset + (uint64_t)g->clusters * g->cluster_size;
    size_t n = 0, cap = j->f->fat.bad_blocks_n;

    if (cap == 0) {
        return 0;
    }
    j->bad = calloc(cap, 2 * sizeof *j->bad); /* a block may lie in two clusters */
    if (!j->bad) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < cap; i++) {
        uint64_t block = j->f->fat.bad_blocks[i];

        if (block >= j->size / BAD_BLOCK || block * BAD_BLOCK < g->heap_offset) {
            return base_bad_argument(j->e, "bad_blocks", "a block is outside the clusters");
        }
        for (uint64_t at = block * BAD_BLOCK; at < (block + 1) * BAD_BLOCK && at < end;
             at += FAT_BOOT_BYTES) {
            j->bad[n] = CLUSTERS_FIRST + (uint32_t)((at - g->heap_offset) / g->cluster_size);
            n += n == 0 || j->bad[n - 1] != j->bad[n];
        }
    }
    qsort(j->bad, n, sizeof *j->bad, compare);
    for (size_t i = 0; i < n; i++) {
        if (j->bad_n == 0 || j->bad[j->bad_n - 1] != j->bad[i]) {
            j->bad[j->bad_n++] = j->bad[i];
        }
    }
    return 0;
}

/* The root directory begins in the first cluster that is not bad. */
static int place_root(struct job *j)
{
    struct fat_geometry *g = &j->p.g;

    if (g->bits != 32) {
        return 0;
    }
    for (size_t i = 0; i < j->bad_n && j->bad[i] == g->root_cluster; i++) {
        g->root_cluster++;
    }
    if (g->root_cluster - CLUSTERS_FIRST >= g->clusters) {
        return base_bad_argument(j->e, "bad_blocks", "no cluster is left for the root directory");
    }
    return 0;
}

/* ---- writing ---- */

static uint32_t piece_entries(const struct job *j)
{
    return PIECE * 8u / j->p.g.bits;
}

static const struct base_zone *zone_of(const struct job *j)
{
    static const struct base_zone utc;

    return j->f->zone ? j->f->zone : &utc;
}

static uint64_t sectors_to(const struct job *j, uint64_t n)
{
    return n * j->p.g.sector_size;
}

/* n bytes of the buffer, filled up with zeros to whole sectors. */
static int put(struct job *j, uint64_t at, size_t n, enum device_structure what)
{
    struct device_tag tag = {j->op, 0, what};
    size_t whole = (size_t)base_round_up(n, j->p.g.sector_size);

    memset(j->buffer + n, 0, whole - n);
    return device_write(j->d, at, j->buffer, whole, &tag);
}

static int zero(struct job *j, uint64_t at, uint64_t n, enum device_structure what)
{
    struct device_tag tag = {j->op, 0, what};

    return n == 0 ? 0 : device_zero(j->d, at, n, &tag);
}

/* The disk's signature stays what it was when there was a partition table. */
static int keep_signature(struct job *j)
{
    int err;

    if (!j->f->fat.mbr) {
        return 0;
    }
    err = device_read(j->d, 0, j->buffer, j->p.g.sector_size);
    if (!err && base_le16(j->buffer + FAT_BS_END_MARK) == END_MARK) {
        j->disk_signature = base_le32(j->buffer + DISK_SIGNATURE);
    }
    return err;
}

/* Takes away what was there, durably before anything new is written. */
static int erase(struct job *j)
{
    const struct fat_geometry *g = &j->p.g;
    uint64_t fat_at = sectors_to(j, g->reserved_sectors);
    uint64_t root_at = g->heap_offset + (uint64_t)(g->root_cluster - CLUSTERS_FIRST) *
                                            (g->bits == 32 ? g->cluster_size : 0);
    int err;

    if (device_has(j->d, DEVICE_FRESH)) {
        return j->f->full ? volume_format_report(j->f, j->size, j->size) : 0;
    }
    if (j->f->full) {
        err = volume_format_zero(j->d, j->f, j->size, j->op);
        return err ? err : device_flush(j->d);
    }
    err = zero(j, 0, fat_at, DEVICE_BOOT);
    if (!err) {
        err = device_flush(j->d);
    }
    /* The FATs, and what of FAT12 and FAT16 follows at once: the root directory. */
    if (!err) {
        err = zero(j, fat_at, g->heap_offset - fat_at, DEVICE_FAT);
    }
    if (!err && g->bits == 32) {
        err = zero(j, root_at, g->cluster_size, DEVICE_DIRECTORY);
    }
    return err;
}

static void put_entry(uint8_t *p, uint32_t bits, uint32_t index, uint32_t value)
{
    switch (bits) {
    case 12:
        p += index / 2 * 3; /* two entries in three bytes */
        if (index % 2 == 0) {
            p[0] = (uint8_t)value;
            p[1] = (uint8_t)((p[1] & 0xF0) | (value >> 8 & 0x0F));
        } else {
            p[1] = (uint8_t)((p[1] & 0x0F) | value << 4);
            p[2] = (uint8_t)(value >> 4);
        }
        return;
    case 16:
        base_put_le16(p + 2 * (size_t)index, (uint16_t)value);
        return;
    default:
        base_put_le32(p + 4 * (size_t)index, value & FAT32_ENTRY_MASK);
    }
}

/* Writes the piece of every FAT that begins with entry `from`, as far as entries are in use. Bad
 * clusters from number `bad` on lie in it or after it; returns how many lie in it. */
static int write_piece(struct job *j, uint32_t from, size_t bad)
{
    const struct fat_geometry *g = &j->p.g;
    uint32_t last = 0;
    size_t n = 0;

    memset(j->buffer, 0, PIECE);
    if (from == 0) {
        put_entry(j->buffer, g->bits, 0, (UINT32_MAX << 8) | g->media);
        put_entry(j->buffer, g->bits, 1, UINT32_MAX);
        last = 1;
    }
    if (g->bits == 32 && g->root_cluster / piece_entries(j) == from / piece_entries(j)) {
        last = g->root_cluster - from;
        put_entry(j->buffer, g->bits, last, j->p.atari ? ATARI_END : CHAIN_END);
    }
    while (bad + n < j->bad_n && j->bad[bad + n] - from < piece_entries(j)) {
        uint32_t index = j->bad[bad + n++] - from;

        put_entry(j->buffer, g->bits, index, BAD_CLUSTER);
        last = index > last ? index : last;
    }
    for (uint32_t i = 0; i < g->fats; i++) {
        uint64_t fat_at = sectors_to(j, g->reserved_sectors + (uint64_t)i * g->fat_sectors);
        int err = put(j, fat_at + (uint64_t)from * g->bits / 8,
                      (size_t)base_div_up((last + UINT64_C(1)) * g->bits, 8), DEVICE_FAT);

        if (err) {
            return err;
        }
    }
    return (int)n;
}

static int write_fats(struct job *j)
{
    const struct fat_geometry *g = &j->p.g;
    uint32_t unit = piece_entries(j);
    size_t bad = 0;
    int n = write_piece(j, 0, bad);
    bool has_root = g->bits != 32 || g->root_cluster < unit;

    while (n >= 0) {
        uint32_t next = UINT32_MAX;

        bad += (size_t)n;
        if (bad < j->bad_n) {
            next = j->bad[bad] / unit;
        }
        if (!has_root && g->root_cluster / unit <= next) {
            next = g->root_cluster / unit;
            has_root = true;
        }
        if (next == UINT32_MAX) {
            return 0;
        }
        n = write_piece(j, next * unit, bad);
    }
    return n;
}

static int write_root(struct job *j)
{
    const struct fat_geometry *g = &j->p.g;
    struct env *env = j->f->env;
    struct env system;
    struct clusters_stamp now;
    uint64_t at = g->root_offset;

    if (!j->p.has_label) {
        return 0;
    }
    if (!env) {
        env_init_system(&system);
        env = &system;
    }
    now = clusters_stamp_make_local(env->now(env), zone_of(j), CLUSTERS_MODIFIED);
    if (g->bits == 32) {
        at = g->heap_offset + (uint64_t)(g->root_cluster - CLUSTERS_FIRST) * g->cluster_size;
    }
    fat_label_build(j->buffer, j->p.label, &now);
    return put(j, at, CLUSTERS_ENTRY_SIZE, DEVICE_DIRECTORY);
}

static void put_fsinfo(const struct job *j, uint8_t *p)
{
    memset(p, 0, FAT_BOOT_BYTES);
    base_put_le32(p + FAT_FSI_LEAD, FAT_FSI_LEAD_SIGNATURE);
    base_put_le32(p + FAT_FSI_STRUCT, FAT_FSI_STRUCT_SIGNATURE);
    base_put_le32(p + FAT_FSI_FREE_COUNT, j->p.g.clusters - 1 - (uint32_t)j->bad_n);
    base_put_le32(p + FAT_FSI_NEXT_FREE, j->p.g.root_cluster);
    base_put_le32(p + FAT_FSI_TRAIL, FAT_FSI_TRAIL_SIGNATURE);
}

/* FAT32: FSInfo, then the backup boot sector, followed by a copy of FSInfo where there is room. */
static int write_reserved(struct job *j)
{
    const struct fat_geometry *g = &j->p.g;
    uint32_t copy = g->backup_sector + g->fsinfo_sector;
    int err;

    if (g->bits != 32) {
        return 0;
    }
    put_fsinfo(j, j->buffer);
    err = put(j, sectors_to(j, g->fsinfo_sector), FAT_BOOT_BYTES, DEVICE_OTHER);
    if (err || g->backup_sector == 0) {
        return err;
    }
    memset(j->buffer, 0, g->sector_size);
    memcpy(j->buffer, j->boot, sizeof j->boot);
    err = put(j, sectors_to(j, g->backup_sector), FAT_BOOT_BYTES, DEVICE_BACKUP_BOOT);
    if (!err && copy < g->reserved_sectors) {
        put_fsinfo(j, j->buffer);
        err = put(j, sectors_to(j, copy), FAT_BOOT_BYTES, DEVICE_BACKUP_BOOT);
    }
    return err;
}

/* The boot sector makes it a volume, so it goes out when all else is there. */
static int write_all(struct job *j)
{
    int err = keep_signature(j);

    if (!err) {
        err = build_boot(j);
    }
    if (!err) {
        err = erase(j);
    }
    if (!err) {
        err = write_fats(j);
    }
    if (!err) {
        err = write_root(j);
    }
    if (!err) {
        err = write_reserved(j);
    }
    if (!err) {
        err = device_flush(j->d);
    }
    if (!err) {
        memcpy(j->buffer, j->boot, sizeof j->boot);
        err = put(j, 0, sizeof j->boot, DEVICE_BOOT);
    }
    return err ? err : device_flush(j->d);
}

static int take_label(struct job *j)
{
    const char *label = j->f->label ? j->f->label : "";
    struct fat_codepage *c;
    int err = fat_codepage_new(j->f->codepage, &c);

    if (err) {
        return err;
    }
    err = fat_label_parse(c, label, strlen(label), j->p.label, j->e);
    j->p.has_label = err == 1;
    fat_codepage_delete(c);
    return err < 0 ? err : 0;
}

int fat_format(struct device *d, const struct volume_format *f, struct base_error *e)
{
    struct job j = {.d = d, .f = f, .e = e};
    int err = fat_plan_make(d, f, &j.p, e);

    j.size = (f->size ? f->size : d->size) / d->sector_size * d->sector_size;
    if (!err) {
        err = take_label(&j);
    }
    if (!err) {
        err = find_bad(&j);
    }
    if (!err) {
        err = place_root(&j);
    }
    if (!err && f->rehearse) {
        err = build_boot(&j);
    }
    if (err || f->rehearse) {
        goto out;
    }
    j.buffer = malloc(PIECE);
    if (!j.buffer) {
        err = -ENOMEM;
        goto out;
    }
    j.op = device_begin(d, "format", "");
    err = write_all(&j);
out:
    free(j.buffer);
    free(j.bad);
    return err;
}
