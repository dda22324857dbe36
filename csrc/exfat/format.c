/* Formatting: sizes are chosen and checked first, then everything is written, the main boot region
 * last.
 *
 *   0        24 sectors     FatOffset             ClusterHeapOffset
 *   | boot regions |  gap  | FAT | second FAT |  gap  | bitmap(s), up-case table, root directory,
 * free … |
 *
 * FatOffset and ClusterHeapOffset lie on the alignment, counted from the start of the medium. */
#include "exfat/exfat.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/env.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define TIB (GIB * 1024)
#define OFFSET_MAX (UINT64_C(1) << 62)

enum {
    REVISION = 0x100,
    DRIVE = 0x80,
    BUFFER = 64 << 10, /* holds any boot region, up-case table and root sector */
    FAT_ENTRY = 4,
    OLD_SIGNATURES = 1 << 20, /* bytes at the start in which other file systems keep their marks */
    BITS = 8,
};

struct layout {
    struct exfat_geometry g;
    uint64_t fat_at, fat_bytes, heap_at; /* bytes; fat_bytes of one FAT */
    uint64_t bitmap_bytes;
    uint32_t bitmap_clusters, upcase_clusters;
    uint32_t upcase_cluster;
    uint32_t used; /* clusters */
};

struct job {
    struct device *d;
    const struct volume_format *f;
    struct base_error *e;
    struct layout l;
    uint64_t size, align; /* bytes */
    bool fits;            /* there is room for the structures */
    uint64_t op;
    uint16_t label[EXFAT_LABEL_UNITS];
    int label_units;
    uint8_t *buffer; /* BUFFER bytes */
};

/* ---- sizes ---- */

static int check_label(struct job *j)
{
    const char *label = j->f->label ? j->f->label : "";

    j->label_units = exfat_label_parse(label, strlen(label), j->label);
    switch (j->label_units) {
    case -ENAMETOOLONG:
        return base_bad_argument(j->e, "label", "a label has at most 11 UTF-16 units");
    case -EILSEQ:
        return base_bad_argument(j->e, "label", "not valid UTF-8");
    case -EINVAL:
        return base_bad_argument(j->e, "label",
                                 "control characters and \" * / : < > ? \\ | are not allowed");
    default:
        return 0;
    }
}

/* Sector and size of the volume. */
static int choose_volume(struct job *j)
{
    uint64_t sector = j->f->sector_size ? j->f->sector_size : j->d->sector_size;

    if (!base_is_power_of_two(sector) || sector < 1u << EXFAT_SECTOR_SHIFT_MIN ||
        sector > 1u << EXFAT_SECTOR_SHIFT_MAX) {
        return base_bad_argument(j->e, "sector_size", "must be 512, 1024, 2048 or 4096");
    }
    if (sector < j->d->sector_size) {
        return base_bad_argument(j->e, "sector_size", "smaller than the device's sectors");
    }
    if (j->f->size > j->d->size) {
        return base_bad_argument(j->e, "size", "the device is smaller than that");
    }
    j->l.g.sector_shift = base_log2(sector);
    j->size = (j->f->size ? j->f->size : j->d->size) / sector * sector;
    if (j->size < MIB) {
        return base_bad_argument(j->e, "size", "an exFAT volume has at least 1 MiB");
    }
    if (j->size > OFFSET_MAX) {
        return base_bad_argument(j->e, "size", "too large");
    }
    if (j->f->partition_offset % sector != 0 || j->f->partition_offset > OFFSET_MAX) {
        return base_bad_argument(j->e, "partition_offset", "must be a multiple of the sector size");
    }
    if (j->f->fats > 2) {
        return base_bad_argument(j->e, "fats", "must be 1 or 2");
    }
    j->l.g.fats = j->f->fats == 2 ? 2 : 1;
    j->l.g.volume_length = j->size >> j->l.g.sector_shift;
    j->l.g.partition_offset = j->f->partition_offset >> j->l.g.sector_shift;
    return 0;
}

/* 1 MiB, which suits flash and every partition table; in a small volume so much less that the gaps
 * take at most a sixteenth of it. */
static int choose_alignment(struct job *j)
{
    uint64_t sector = UINT64_C(1) << j->l.g.sector_shift;

    j->align = j->f->alignment;
    if (j->align == 0) {
        j->align = base_min(MIB, UINT64_C(1) << base_log2(j->size / 32));
    }
    if (j->align % sector != 0) {
        return base_bad_argument(j->e, "alignment", "must be a multiple of the sector size");
    }
    if (j->align > j->size) {
        return base_bad_argument(j->e, "alignment", "larger than the volume");
    }
    return 0;
}

static uint64_t align_up(const struct job *j, uint64_t at)
{
    return base_round_up(j->f->partition_offset + at, j->align) - j->f->partition_offset;
}

static uint32_t clusters_in(const struct job *j, uint64_t heap_at)
{
    uint64_t n = heap_at < j->size ? (j->size - heap_at) >> j->l.g.cluster_shift : 0;

    return (uint32_t)base_min(n, EXFAT_CLUSTERS_MAX);
}

static uint32_t bitmap_clusters_for(const struct layout *l, uint32_t clusters)
{
    return (uint32_t)base_div_up(base_div_up(clusters, BITS), UINT64_C(1) << l->g.cluster_shift);
}

/* Places everything; false when the volume has no room for its own structures. */
static bool lay_out(struct job *j)
{
    struct layout *l = &j->l;
    struct exfat_geometry *g = &l->g;
    uint64_t sector = UINT64_C(1) << g->sector_shift, cluster = UINT64_C(1) << g->cluster_shift;
    uint64_t end, bitmaps, used;

    l->fat_at = align_up(j, 2 * EXFAT_BOOT_SECTORS * sector);
    l->fat_bytes = (clusters_in(j, l->fat_at) + UINT64_C(2)) * FAT_ENTRY;
    /* Up to the next cluster where the alignment leaves that room anyway. */
    l->fat_bytes = base_round_up(l->fat_bytes, j->align >= cluster ? cluster : sector);
    end = l->fat_at + l->fat_bytes * g->fats;
    l->heap_at = align_up(j, end);
    if (j->f->pack_bitmap) {
        /* The bitmaps end where the heap would have begun, or at the next place that leaves them
         * room. */
        bitmaps = (uint64_t)bitmap_clusters_for(l, clusters_in(j, l->heap_at)) * g->fats * cluster;
        l->heap_at = align_up(j, end + bitmaps) - bitmaps;
    }
    g->clusters = clusters_in(j, l->heap_at);
    l->bitmap_bytes = base_div_up(g->clusters, BITS);
    l->bitmap_clusters = bitmap_clusters_for(l, g->clusters);
    l->upcase_clusters = (uint32_t)base_div_up(BASE_UPCASE_BYTES, cluster);
    used = (uint64_t)l->bitmap_clusters * g->fats + l->upcase_clusters + 1;
    if (used > g->clusters || l->heap_at >> g->sector_shift > UINT32_MAX) {
        return false;
    }
    l->used = (uint32_t)used;
    l->upcase_cluster = EXFAT_FIRST_CLUSTER + l->bitmap_clusters * g->fats;
    g->root_cluster = l->upcase_cluster + l->upcase_clusters;
    g->fat_offset = (uint32_t)(l->fat_at >> g->sector_shift);
    g->fat_length = (uint32_t)(l->fat_bytes >> g->sector_shift);
    g->heap_offset = (uint32_t)(l->heap_at >> g->sector_shift);
    return true;
}

/* With clusters of at least 1 << shift bytes, the smallest that keep within the limit of the count.
 */
static void grow_clusters(struct job *j, uint32_t shift)
{
    const struct layout *l = &j->l;

    for (;; shift++) {
        j->l.g.cluster_shift = shift;
        j->fits = lay_out(j);
        if (shift == EXFAT_CLUSTER_BYTES_SHIFT_MAX || l->heap_at >= j->size ||
            (j->size - l->heap_at) >> shift <= EXFAT_CLUSTERS_MAX) {
            return;
        }
    }
}

static int choose_cluster(struct job *j)
{
    uint64_t cluster = j->f->cluster_size;
    char detail[96];

    if (cluster == 0) {
        cluster = j->size <= 256 * MIB ? 4 * KIB : j->size <= 32 * GIB ? 32 * KIB : 128 * KIB;
        grow_clusters(j, base_log2(cluster));
        return 0;
    }
    if (!base_is_power_of_two(cluster) || cluster < UINT64_C(1) << j->l.g.sector_shift ||
        cluster > UINT64_C(1) << EXFAT_CLUSTER_BYTES_SHIFT_MAX) {
        return base_bad_argument(j->e, "cluster_size",
                                 "must be a power of two from a sector to 32 MiB");
    }
    grow_clusters(j, base_log2(cluster));
    if (j->l.g.cluster_shift != base_log2(cluster)) {
        snprintf(detail, sizeof detail,
                 "that makes more than 4294967285 clusters; the least that would do is %lu bytes",
                 1ul << j->l.g.cluster_shift);
        return base_bad_argument(j->e, "cluster_size", detail);
    }
    return 0;
}

/* Says which argument is to blame, and what would do. */
static int explain_no_room(struct job *j)
{
    char detail[96];

    if (j->f->alignment != 0) {
        j->align = UINT64_C(1) << j->l.g.sector_shift;
        if (lay_out(j)) {
            return base_bad_argument(j->e, "alignment", "too large for the volume");
        }
    }
    while (j->l.g.cluster_shift > j->l.g.sector_shift) {
        j->l.g.cluster_shift--;
        if (lay_out(j)) {
            snprintf(detail, sizeof detail,
                     "too large for the volume; the most that would do is %lu bytes",
                     1ul << j->l.g.cluster_shift);
            return base_bad_argument(j->e, "cluster_size", detail);
        }
    }
    return base_bad_argument(j->e, "size", "no room for the structures of an exFAT volume");
}

static void choose_serial(struct job *j)
{
    struct env system;
    struct env *env = j->f->env;

    if (j->f->has_serial) {
        j->l.g.serial = j->f->serial;
        return;
    }
    if (!env) {
        env_init_system(&system);
        env = &system;
    }
    j->l.g.serial = env_random32(env);
}

static int choose(struct job *j)
{
    int err = check_label(j);

    if (!err) {
        err = choose_volume(j);
    }
    if (!err) {
        err = choose_alignment(j);
    }
    if (!err) {
        err = choose_cluster(j);
    }
    if (!err && !j->fits) {
        err = explain_no_room(j);
    }
    if (!err) {
        j->l.g.revision = REVISION;
        j->l.g.drive_select = DRIVE;
        j->l.g.percent = (uint8_t)(UINT64_C(100) * j->l.used / j->l.g.clusters);
        choose_serial(j);
    }
    return err;
}

/* ---- writing ---- */

static uint64_t cluster_at(const struct layout *l, uint32_t cluster)
{
    return l->heap_at + ((uint64_t)(cluster - EXFAT_FIRST_CLUSTER) << l->g.cluster_shift);
}

static struct device_tag tag_of(const struct job *j, enum device_structure what)
{
    struct device_tag tag = {j->op, 0, what};

    return tag;
}

/* The buffer's first n bytes, filled up with zeros to whole sectors. */
static int put(struct job *j, uint64_t at, size_t n, enum device_structure what)
{
    struct device_tag tag = tag_of(j, what);
    size_t whole = (size_t)base_round_up(n, UINT64_C(1) << j->l.g.sector_shift);

    memset(j->buffer + n, 0, whole - n);
    return device_write(j->d, at, j->buffer, whole, &tag);
}

static int zero(struct job *j, uint64_t at, uint64_t n, enum device_structure what)
{
    struct device_tag tag = tag_of(j, what);

    n = base_min(base_round_up(n, UINT64_C(1) << j->l.g.sector_shift), j->size - at);
    return device_zero(j->d, at, n, &tag);
}

/* Takes away what was there, durably before anything new is written. */
static int erase(struct job *j)
{
    struct layout *l = &j->l;
    int err;

    if (device_has(j->d, DEVICE_FRESH)) {
        return j->f->full ? volume_format_report(j->f, j->size, j->size) : 0;
    }
    if (j->f->full) {
        err = volume_format_zero(j->d, j->f, j->size, j->op);
        return err ? err : device_flush(j->d);
    }
    err = zero(j, 0, base_min(OLD_SIGNATURES, l->fat_at), DEVICE_BOOT);
    if (!err) {
        err = device_flush(j->d);
    }
    if (!err) {
        err = zero(j, l->fat_at, l->fat_bytes * l->g.fats, DEVICE_FAT);
    }
    for (uint32_t i = 0; !err && i < l->g.fats; i++) {
        err = zero(j, cluster_at(l, EXFAT_FIRST_CLUSTER + i * l->bitmap_clusters), l->bitmap_bytes,
                   DEVICE_BITMAP);
    }
    if (!err) {
        err = zero(j, cluster_at(l, l->g.root_cluster), UINT64_C(1) << l->g.cluster_shift,
                   DEVICE_DIRECTORY);
    }
    return err;
}

/* Bitmaps, up-case table and root directory follow one another, each a chain of its own. */
static uint32_t fat_value(const struct layout *l, uint32_t i)
{
    uint32_t second = EXFAT_FIRST_CLUSTER + l->bitmap_clusters;

    if (i == 0) {
        return EXFAT_FAT_MEDIA;
    }
    if (i == 1 || i == second - 1 || i == l->upcase_cluster - 1 || i >= l->g.root_cluster - 1) {
        return EXFAT_FAT_END;
    }
    return i + 1;
}

static int write_fat(struct job *j, uint64_t at)
{
    uint32_t total = EXFAT_FIRST_CLUSTER + j->l.used;

    for (uint32_t done = 0; done < total; done += BUFFER / FAT_ENTRY) {
        uint32_t n = (uint32_t)base_min(total - done, BUFFER / FAT_ENTRY);
        int err;

        for (uint32_t i = 0; i < n; i++) {
            base_put_le32(j->buffer + i * FAT_ENTRY, fat_value(&j->l, done + i));
        }
        err = put(j, at + (uint64_t)done * FAT_ENTRY, (size_t)n * FAT_ENTRY, DEVICE_FAT);
        if (err) {
            return err;
        }
    }
    return 0;
}

static int write_bitmap(struct job *j, uint64_t at)
{
    uint32_t total = (uint32_t)base_div_up(j->l.used, BITS);

    for (uint32_t done = 0; done < total; done += BUFFER) {
        uint32_t n = (uint32_t)base_min(total - done, BUFFER);
        int err;

        memset(j->buffer, 0xFF, n);
        if (done + n == total && j->l.used % BITS != 0) {
            j->buffer[n - 1] = (uint8_t)((1u << j->l.used % BITS) - 1);
        }
        err = put(j, at + done, n, DEVICE_BITMAP);
        if (err) {
            return err;
        }
    }
    return 0;
}

static int write_upcase(struct job *j)
{
    for (uint32_t i = 0; i < BASE_UPCASE_BYTES / 2; i++) {
        base_put_le16(j->buffer + 2 * i, base_upcase_table[i]);
    }
    return put(j, cluster_at(&j->l, j->l.upcase_cluster), BASE_UPCASE_BYTES, DEVICE_UPCASE);
}

static void put_allocation(uint8_t *entry, uint8_t type, uint32_t cluster, uint64_t length)
{
    entry[0] = type;
    base_put_le32(entry + EXFAT_ENTRY_FIRST_CLUSTER, cluster);
    base_put_le64(entry + EXFAT_ENTRY_DATA_LENGTH, length);
}

static void put_guid(uint8_t *entry, const uint8_t uuid[16])
{
    uint16_t sum;

    entry[0] = EXFAT_TYPE_GUID;
    memcpy(entry + EXFAT_GUID_VALUE, uuid, 16);
    sum = base_ror16_sum(0, entry, EXFAT_GUID_CHECKSUM);
    sum = base_ror16_sum(sum, entry + EXFAT_GUID_CHECKSUM + 2,
                         EXFAT_ENTRY_SIZE - EXFAT_GUID_CHECKSUM - 2);
    base_put_le16(entry + EXFAT_GUID_CHECKSUM, sum);
}

static int write_root(struct job *j)
{
    const struct layout *l = &j->l;
    uint8_t *entry = j->buffer;

    memset(j->buffer, 0, 5 * EXFAT_ENTRY_SIZE);
    exfat_label_build(entry, j->label, j->label_units);
    for (uint8_t i = 0; i < l->g.fats; i++) {
        entry += EXFAT_ENTRY_SIZE;
        put_allocation(entry, EXFAT_TYPE_BITMAP, EXFAT_FIRST_CLUSTER + i * l->bitmap_clusters,
                       l->bitmap_bytes);
        entry[EXFAT_BITMAP_FLAGS] = i;
    }
    entry += EXFAT_ENTRY_SIZE;
    put_allocation(entry, EXFAT_TYPE_UPCASE, l->upcase_cluster, BASE_UPCASE_BYTES);
    base_put_le32(entry + EXFAT_UPCASE_CHECKSUM, EXFAT_UPCASE_STANDARD_CHECKSUM);
    if (j->f->has_uuid) {
        entry += EXFAT_ENTRY_SIZE;
        put_guid(entry, j->f->uuid);
    }
    entry += EXFAT_ENTRY_SIZE;
    return put(j, cluster_at(l, l->g.root_cluster), (size_t)(entry - j->buffer), DEVICE_DIRECTORY);
}

static int write_structures(struct job *j)
{
    int err = 0;

    for (uint32_t i = 0; !err && i < j->l.g.fats; i++) {
        err = write_fat(j, j->l.fat_at + i * j->l.fat_bytes);
    }
    for (uint32_t i = 0; !err && i < j->l.g.fats; i++) {
        err = write_bitmap(j, cluster_at(&j->l, EXFAT_FIRST_CLUSTER + i * j->l.bitmap_clusters));
    }
    if (!err) {
        err = write_upcase(j);
    }
    return err ? err : write_root(j);
}

/* The main region makes it a volume, so it goes out when all else is there. */
static int write_boot(struct job *j)
{
    size_t n = (size_t)EXFAT_BOOT_SECTORS << j->l.g.sector_shift;
    int err;

    exfat_boot_build(&j->l.g, j->buffer);
    err = put(j, n, n, DEVICE_BACKUP_BOOT);
    if (!err) {
        err = device_flush(j->d);
    }
    if (!err) {
        err = put(j, 0, n, DEVICE_BOOT);
    }
    return err ? err : device_flush(j->d);
}

int exfat_format(struct device *d, const struct volume_format *f, struct base_error *e)
{
    struct job j = {.d = d, .f = f, .e = e};
    int err = choose(&j);

    if (err || f->rehearse) {
        return err;
    }
    j.buffer = malloc(BUFFER);
    if (!j.buffer) {
        return -ENOMEM;
    }
    j.op = device_begin(d, "format", "");
    err = erase(&j);
    if (!err) {
        err = write_structures(&j);
    }
    if (!err) {
        err = write_boot(&j);
    }
    free(j.buffer);
    return err;
}
