/* Formatting: which width, which cluster size, and where everything lies.
 *
 * The rules are those of mkfs.fat, so that the same wishes give the same bytes: the reserved
 * sectors, each FAT and the root directory fill whole clusters unless the volume is small, and the
 * volume ends with a track. What is made is always read again as the width it was made for.
 */
#include "fat/format.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"

#define MIB (UINT64_C(1) << 20)
#define FAT32_FROM (512 * MIB) /* bytes from which FAT32 is the choice */

enum {
    SECTOR_MIN = 512,
    SECTOR_MAX = 32768,
    PER_CLUSTER_MAX = 128,
    SMALL = 8192,           /* sectors up to which nothing is aligned */
    FAT16_CLEAR_MIN = 4087, /* some systems take the next two smaller counts for FAT12 */
    FAT32_CLUSTERS_MIN = FAT16_CLUSTERS_MAX + 1,
    RESERVED_FAT32 = 32,
    BACKUP_USUAL = 6,
    FSINFO = 1,
    ROOT_MIN = 16,
    ROOT_MAX = 32768,
    FIELD16_MAX = 65535,
    FIXED_MEDIA = 0xF8,
    REMOVABLE_MEDIA = 0xF0,
    FIXED_DRIVE = 0x80,
    FATS_MAX = 4,
    ATARI_SECTORS_MAX = 65531,
    ATARI_SECTOR_MAX = 16384,
    ATARI_SPARE_NUMBERS = 16, /* at the end of a FAT's range */
    ATARI_SERIAL = 0xFFFFFF,
};

enum align { ALIGN_NONE, ALIGN_CLUSTERS, ALIGN_HEAP };

struct layout {
    const struct volume_format *f;
    struct base_error *e;
    struct fat_usual usual;
    uint32_t wanted_bits; /* 0: any */
    bool wanted_by_user;
    uint64_t size; /* bytes */
    uint64_t sectors, sector_size;
    uint64_t all_sectors;                  /* before they are cut to whole tracks */
    uint64_t reserved, fats, root_entries; /* as wished */
    enum align align;
};

/* One way to lay it out. */
struct candidate {
    uint32_t bits, per_cluster;
    uint64_t reserved, root, fat, clusters; /* sectors; clusters 0: it can't be */
};

/* ---- wishes ---- */

static int choose_width(struct layout *l)
{
    const char *fs = l->f->fs;

    l->wanted_bits = strcmp(fs, "fat12") == 0   ? 12
                     : strcmp(fs, "fat16") == 0 ? 16
                     : strcmp(fs, "fat32") == 0 ? 32
                                                : 0;
    l->wanted_by_user = l->wanted_bits != 0;
    if (!l->wanted_by_user && strcmp(fs, "fat") != 0) {
        return base_bad_argument(l->e, "fs", "must be fat, fat12, fat16 or fat32");
    }
    if (!l->wanted_by_user && l->size >= FAT32_FROM) {
        l->wanted_bits = 32;
    }
    return 0;
}

static int choose_sectors(struct layout *l, const struct device *d)
{
    const struct volume_format *f = l->f;

    l->sector_size = f->sector_size ? f->sector_size : d->sector_size;
    if (!base_is_power_of_two(l->sector_size) || l->sector_size < SECTOR_MIN ||
        l->sector_size > SECTOR_MAX) {
        return base_bad_argument(l->e, "sector_size", "must be a power of two from 512 to 32768");
    }
    if (l->sector_size < d->sector_size) {
        return base_bad_argument(l->e, "sector_size", "smaller than the device's sectors");
    }
    if (f->size > d->size) {
        return base_bad_argument(l->e, "size", "the device is smaller than that");
    }
    if (f->partition_offset % l->sector_size != 0) {
        return base_bad_argument(l->e, "partition_offset", "must be a multiple of the sector size");
    }
    l->size = f->size ? f->size : d->size;
    l->all_sectors = base_min(l->size / l->sector_size, UINT32_MAX);
    l->sectors = l->all_sectors;
    return 0;
}

static int check_fields(const struct layout *l)
{
    const struct volume_format_fat *fat = &l->f->fat;

    if (l->f->has_uuid) {
        return base_bad_argument(l->e, "uuid", "FAT has no volume GUID");
    }
    if (l->f->pack_bitmap) {
        return base_bad_argument(l->e, "pack_bitmap", "FAT has no allocation bitmap");
    }
    if (l->f->fats > FATS_MAX) {
        return base_bad_argument(l->e, "fats", "must be from 1 to 4");
    }
    if (fat->media != 0 && fat->media != REMOVABLE_MEDIA && fat->media < FIXED_MEDIA) {
        return base_bad_argument(l->e, "media", "must be 0xF0 or from 0xF8 to 0xFF");
    }
    if ((fat->heads == 0) != (fat->sectors_per_track == 0) || fat->heads > FIELD16_MAX ||
        fat->sectors_per_track > FIELD16_MAX) {
        return base_bad_argument(l->e, "geometry",
                                 "heads and sectors per track must be from 1 to 65535");
    }
    if (fat->root_entries != 0 && (fat->root_entries < ROOT_MIN || fat->root_entries > ROOT_MAX)) {
        return base_bad_argument(l->e, "root_entries", "must be from 16 to 32768");
    }
    if (fat->root_entries != 0 && l->wanted_by_user && l->wanted_bits == 32) {
        return base_bad_argument(l->e, "root_entries", "FAT32's root directory has no limit");
    }
    if (fat->reserved_sectors > FIELD16_MAX) {
        return base_bad_argument(l->e, "reserved_sectors", "must be at most 65535");
    }
    if (fat->has_backup && l->wanted_by_user && l->wanted_bits != 32) {
        return base_bad_argument(l->e, "backup_sector", "only FAT32 has a backup boot sector");
    }
    if (fat->mbr && fat->atari) {
        return base_bad_argument(l->e, "mbr", "Atari's boot sector has no room for it");
    }
    return 0;
}

static int choose_alignment(struct layout *l)
{
    uint64_t wish = l->f->alignment;

    if (wish % l->sector_size != 0) {
        return base_bad_argument(l->e, "alignment", "must be a multiple of the sector size");
    }
    l->align = wish == 0 ? ALIGN_CLUSTERS : wish == l->sector_size ? ALIGN_NONE : ALIGN_HEAP;
    if (l->align == ALIGN_CLUSTERS) {
        l->sectors -= l->sectors % l->usual.sectors_per_track;
        if (l->sectors <= SMALL || l->f->fat.atari) {
            l->align = ALIGN_NONE;
        }
    }
    return 0;
}

static int take_wishes(struct layout *l, const struct device *d)
{
    const struct volume_format_fat *fat = &l->f->fat;
    int err = choose_sectors(l, d);

    if (!err) {
        err = choose_width(l);
    }
    if (!err) {
        err = check_fields(l);
    }
    if (err) {
        return err;
    }
    fat_usual_geometry(l->size, l->sectors, fat->atari, &l->usual);
    if (fat->heads != 0) {
        l->usual.heads = fat->heads;
        l->usual.sectors_per_track = fat->sectors_per_track;
    }
    l->fats = l->f->fats ? l->f->fats : 2;
    l->root_entries = fat->root_entries ? fat->root_entries : l->usual.root_entries;
    l->reserved = fat->reserved_sectors;
    return choose_alignment(l);
}

/* ---- candidates ---- */

static uint64_t reserved_for(const struct layout *l, uint32_t bits)
{
    return l->reserved ? l->reserved : bits == 32 ? RESERVED_FAT32 : 1;
}

static uint64_t aligned(const struct layout *l, uint64_t sectors, uint32_t per_cluster)
{
    return l->align == ALIGN_CLUSTERS ? base_round_up(sectors, per_cluster) : sectors;
}

/* More reserved sectors, until cluster 2 lies on the boundary that was asked for. */
static void align_heap(const struct layout *l, struct candidate *c)
{
    uint64_t heap = c->reserved + l->fats * c->fat + c->root;
    uint64_t start = l->f->partition_offset / l->sector_size;
    uint64_t unit = l->f->alignment / l->sector_size;

    c->reserved += base_round_up(start + heap, unit) - (start + heap);
}

static bool is_count_of(const struct layout *l, uint32_t bits, uint64_t clusters)
{
    switch (bits) {
    case 12:
        return clusters <= FAT12_CLUSTERS_MAX;
    case 16:
        return clusters >= FAT16_CLEAR_MIN && clusters <= FAT16_CLUSTERS_MAX;
    default:
        return (l->wanted_by_user || clusters >= FAT32_CLUSTERS_MIN) &&
               clusters <= FAT32_CLUSTERS_MAX;
    }
}

/* Sectors from there on hold clusters; 0 when the candidate can't be. */
static void count_clusters(const struct layout *l, struct candidate *c)
{
    uint64_t heap = c->reserved + l->fats * c->fat + c->root;

    c->clusters = heap < l->sectors ? (l->sectors - heap) / c->per_cluster : 0;
    if (!is_count_of(l, c->bits, c->clusters) || c->reserved > FIELD16_MAX ||
        c->fat * l->sector_size * 8 / c->bits < c->clusters + CLUSTERS_FIRST) {
        c->clusters = 0;
    }
}

/* The FAT is as long as a first guess at the clusters needs, which is never too few. */
static struct candidate try(const struct layout *l, uint32_t bits, uint32_t per_cluster)
{
    struct candidate c = {.bits = bits, .per_cluster = per_cluster};
    uint64_t pair = bits / 4; /* bytes of two entries */
    uint64_t room, guess;

    c.reserved = aligned(l, reserved_for(l, bits), per_cluster);
    if (bits != 32) {
        c.root = base_div_up(l->root_entries * CLUSTERS_ENTRY_SIZE, l->sector_size);
        /* Rounded up only as far as the field that counts the entries goes. */
        if (aligned(l, c.root, per_cluster) * l->sector_size / CLUSTERS_ENTRY_SIZE <= FIELD16_MAX) {
            c.root = aligned(l, c.root, per_cluster);
        }
    }
    if (c.reserved + c.root >= l->sectors) {
        return c;
    }
    room = (l->sectors - c.reserved - c.root) * l->sector_size + l->fats * pair;
    guess = 2 * room / (2 * per_cluster * l->sector_size + l->fats * pair);
    c.fat = base_div_up(((guess + CLUSTERS_FIRST) * pair + 1) / 2, l->sector_size);
    c.fat = aligned(l, c.fat, per_cluster);
    if (l->align == ALIGN_HEAP) {
        align_heap(l, &c);
    }
    count_clusters(l, &c);
    return c;
}

/* Windows' sizes, in sectors. */
static uint32_t fat32_cluster(uint64_t sectors)
{
    return sectors > 67108864   ? 64
           : sectors > 33554432 ? 32
           : sectors > 16777216 ? 16
           : sectors > 532480   ? 8
                                : 1;
}

static bool search(const struct layout *l, uint32_t bits, struct candidate *out)
{
    uint32_t wish = (uint32_t)(l->f->cluster_size / l->sector_size);
    uint32_t first = wish         ? wish
                     : bits == 32 ? fat32_cluster(l->all_sectors)
                                  : l->usual.per_cluster;
    uint32_t last = wish ? wish : PER_CLUSTER_MAX;

    for (uint32_t n = first; n <= last; n *= 2) {
        struct candidate c12 = {.clusters = 0}, c16 = {.clusters = 0};

        if (bits == 32) {
            *out = try(l, 32, n);
        } else {
            c12 = bits == 16 ? c12 : try(l, 12, n);
            c16 = bits == 12 ? c16 : try(l, 16, n);
            *out = c16.clusters > c12.clusters ? c16 : c12;
        }
        if (out->clusters != 0) {
            return true;
        }
    }
    return false;
}

/* Says which wish is to blame. */
static int explain_no_room(struct layout *l)
{
    static const char *const counts[] = {
        "a FAT12 volume has from 1 to 4084 clusters",
        "a FAT16 volume has from 4087 to 65524 clusters",
        "a FAT32 volume has from 65525 to 268435444 clusters, or fewer when it is asked for",
        "no width of the FAT gives a number of clusters that it can have",
    };
    uint32_t bits = l->wanted_bits;
    const char *count = counts[bits == 12 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3];
    struct volume_format plain = *l->f;
    struct layout other = *l;
    struct candidate c;

    other.f = &plain;
    if (l->f->cluster_size != 0) {
        plain.cluster_size = 0;
        if (search(&other, bits, &c)) {
            return base_bad_argument(l->e, "cluster_size", count);
        }
    }
    if (l->align == ALIGN_HEAP) {
        other.align = ALIGN_NONE;
        if (search(&other, bits, &c)) {
            return base_bad_argument(l->e, "alignment", "too large for the volume");
        }
    }
    if (l->reserved != 0) {
        other.reserved = 0;
        if (search(&other, bits, &c)) {
            return base_bad_argument(l->e, "reserved_sectors", "too many for the volume");
        }
    }
    return base_bad_argument(l->e, "size", count);
}

static int choose(struct layout *l, struct candidate *c)
{
    uint64_t cluster = l->f->cluster_size;

    if (cluster != 0 && (!base_is_power_of_two(cluster) || cluster < l->sector_size ||
                         cluster > PER_CLUSTER_MAX * l->sector_size)) {
        return base_bad_argument(l->e, "cluster_size",
                                 "must be a power of two from 1 to 128 sectors");
    }
    if (search(l, l->wanted_bits, c)) {
        return 0;
    }
    if (!l->wanted_by_user && l->wanted_bits == 32 && search(l, 0, c)) {
        return 0;
    }
    return explain_no_room(l);
}

/* ---- Atari ---- */

/* GEMDOS wants clusters of two sectors and few sectors, so that sectors grow with the volume. */
static bool try_atari(const struct layout *l, uint32_t bits, struct candidate *c)
{
    uint64_t most = bits == 32 ? FAT32_CLUSTERS_MAX + CLUSTERS_FIRST
                               : (UINT64_C(1) << bits) - ATARI_SPARE_NUMBERS;
    uint64_t entry = l->fats * bits / 8, head = 2 * l->fats * bits / 8; /* bytes in all FATs */
    uint64_t room, entries;

    c->bits = bits;
    c->per_cluster = l->f->cluster_size ? (uint32_t)(l->f->cluster_size / l->sector_size) : 2;
    c->reserved = reserved_for(l, bits);
    c->root = bits == 32 ? 0 : base_div_up(l->root_entries * CLUSTERS_ENTRY_SIZE, l->sector_size);
    if (c->reserved + c->root >= l->sectors || c->per_cluster == 0) {
        return false;
    }
    room = (l->sectors - c->reserved - c->root) * l->sector_size;
    if (room <= head) {
        return false;
    }
    c->clusters = 2 * (room - head) / (2 * (c->per_cluster * l->sector_size + entry));
    c->fat = base_div_up((c->clusters + CLUSTERS_FIRST) * bits / 8, l->sector_size);
    if (c->reserved + c->root + l->fats * c->fat >= l->sectors) {
        return false;
    }
    room = l->sectors - c->reserved - c->root - l->fats * c->fat;
    c->clusters = room / c->per_cluster;
    entries = c->fat * l->sector_size * 8 / bits;
    return entries <= most && c->clusters > 0 && c->clusters + CLUSTERS_FIRST <= entries;
}

static bool search_atari(struct layout *l, uint32_t bits, struct candidate *c)
{
    bool fixed = l->f->sector_size != 0 || l->f->cluster_size != 0;

    while (!fixed && l->sectors > ATARI_SECTORS_MAX) {
        l->sectors /= 2;
        l->sector_size *= 2;
    }
    for (; l->sector_size <= ATARI_SECTOR_MAX && l->sectors > 0; l->sector_size *= 2) {
        if (try_atari(l, bits, c)) {
            return l->sectors < ATARI_SECTORS_MAX;
        }
        if (fixed) {
            return false;
        }
        l->sectors /= 2;
    }
    return false;
}

static int choose_atari(struct layout *l, struct candidate *c)
{
    uint64_t n = l->sectors;
    uint32_t bits = l->wanted_bits;
    struct layout small = *l;

    if (bits == 0) {
        bits = n == 1440 || n == 2400 || n == 2880 || n == 5760 ? 12 : 16;
    }
    if (!search_atari(l, bits, c)) {
        return base_bad_argument(l->e, "size", "no room, or more than Atari's GEMDOS can have");
    }
    /* GEMDOS tells the width by the kind of disk; by the count, as anybody else does, this would
     * be FAT12. */
    if (bits == 16 && c->clusters <= FAT12_CLUSTERS_MAX) {
        if (!l->wanted_by_user && search_atari(&small, 12, c)) {
            *l = small;
            return 0;
        }
        return base_bad_argument(l->e, "fs", "with so few clusters it would be taken for FAT12");
    }
    return 0;
}

/* ---- the result ---- */

static int place_backup(const struct layout *l, struct fat_geometry *g)
{
    const struct volume_format_fat *fat = &l->f->fat;
    uint32_t reserved = g->reserved_sectors;

    g->fsinfo_sector = FSINFO;
    g->backup_sector = reserved > BACKUP_USUAL ? BACKUP_USUAL
                       : reserved >= 4         ? reserved - 2
                       : reserved == 3         ? 2
                                               : 0;
    if (fat->has_backup) {
        g->backup_sector = fat->backup_sector;
        if (g->backup_sector == FSINFO || g->backup_sector >= reserved) {
            return base_bad_argument(l->e, "backup_sector",
                                     "must be a reserved sector, not the first two");
        }
    }
    return 0;
}

static void set_serial(const struct layout *l, struct fat_geometry *g)
{
    const struct volume_format *f = l->f;
    struct env system, *env = f->env;

    g->serial = f->serial;
    if (!f->has_serial) {
        if (!env) {
            env_init_system(&system);
            env = &system;
        }
        g->serial = env_random32(env);
    }
    if (f->fat.atari) {
        g->serial &= ATARI_SERIAL;
    }
    g->has_serial = true;
}

static int fill_plan(const struct layout *l, const struct candidate *c, struct fat_plan *p)
{
    const struct volume_format_fat *fat = &l->f->fat;
    struct fat_geometry *g = &p->g;
    uint64_t before = l->f->partition_offset / l->sector_size;

    memset(p, 0, sizeof *p);
    p->atari = fat->atari;
    p->heads = l->usual.heads;
    p->sectors_per_track = l->usual.sectors_per_track;
    g->bits = c->bits;
    g->sector_size = (uint32_t)l->sector_size;
    g->cluster_size = (uint32_t)(c->per_cluster * l->sector_size);
    g->sectors = l->sectors;
    g->reserved_sectors = (uint32_t)c->reserved;
    g->fats = (uint32_t)l->fats;
    g->mirror = true;
    g->fat_sectors = (uint32_t)c->fat;
    g->clusters = (uint32_t)c->clusters;
    g->heap_offset = (c->reserved + l->fats * c->fat + c->root) * l->sector_size;
    g->media = fat->media ? fat->media : l->usual.media;
    g->hidden_sectors =
        fat->has_hidden ? fat->hidden_sectors : (uint32_t)(before > UINT32_MAX ? 0 : before);
    p->drive = fat->has_drive ? fat->drive : g->media == FIXED_MEDIA ? FIXED_DRIVE : 0;
    set_serial(l, g);
    if (g->bits != 32) {
        g->root_offset = (c->reserved + l->fats * c->fat) * l->sector_size;
        g->root_entries = l->align == ALIGN_CLUSTERS
                              ? (uint32_t)(c->root * l->sector_size / CLUSTERS_ENTRY_SIZE)
                              : (uint32_t)l->root_entries;
        if (p->atari && g->hidden_sectors > FIELD16_MAX) {
            return base_bad_argument(l->e, "hidden_sectors", "Atari's field has 16 bits");
        }
        return 0;
    }
    g->root_cluster = CLUSTERS_FIRST;
    if (g->reserved_sectors < 2) {
        return base_bad_argument(l->e, "reserved_sectors", "FAT32 needs 2");
    }
    return place_backup(l, g);
}

int fat_plan_make(const struct device *d, const struct volume_format *f, struct fat_plan *p,
                  struct base_error *e)
{
    struct layout l = {.f = f, .e = e};
    struct candidate c = {.clusters = 0};
    int err = take_wishes(&l, d);

    if (!err) {
        err = f->fat.atari ? choose_atari(&l, &c) : choose(&l, &c);
    }
    return err ? err : fill_plan(&l, &c, p);
}
