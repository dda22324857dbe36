/* The boot sector: where everything lies, and which of the three widths the FAT has.
 *
 * The layout decides before the count does: a volume whose 16-bit FAT size is zero and whose 32-bit
 * one is not is FAT32, however few clusters it has (so does Linux; Windows and the specification
 * go by the count alone). Of the other two, more than 4084 clusters make it FAT16. No end mark is
 * asked for, since Atari's volumes have none; what is checked is all that the layout depends on.
 */
#include "fat/fat.h"

#include <string.h>

enum {
    RECORD = 512, /* bytes that hold every field, whatever the sector size */
    SECTOR_MIN = 512,
    SECTOR_MAX = 32768,
    DEVICE_SECTOR_MAX = 4096,
    END_MARK = 0xAA55,
    BACKUP_USUAL = 6,
    MEDIA_REMOVABLE = 0xF0,
    MEDIA_FIXED = 0xF8, /* and all above */
    ENTRY_SHIFT = 5,    /* directory entries of 32 bytes */
};

/* A sector under examination: where it is, and where complaints go. */
struct sector {
    const uint8_t *p;
    uint64_t offset; /* bytes from the start of the volume */
    const char *name;
    struct base_error *e;
};

static int damage(const struct sector *s, uint32_t at, const char *field, uint64_t found,
                  uint64_t expected, const char *detail)
{
    return base_damage(s->e, s->name, s->offset + at, field, found, expected, detail);
}

/* ---- fields ---- */

static bool is_sector_size(uint32_t n)
{
    return base_is_power_of_two(n) && n >= SECTOR_MIN && n <= SECTOR_MAX;
}

static bool is_media(uint8_t media)
{
    return media == MEDIA_REMOVABLE || media >= MEDIA_FIXED;
}

static int check_units(const struct sector *s)
{
    const uint8_t *p = s->p;
    uint32_t size = base_le16(p + FAT_BPB_BYTES_PER_SECTOR);

    if (!is_sector_size(size)) {
        return damage(s, FAT_BPB_BYTES_PER_SECTOR, "BytesPerSector", size, 512,
                      "must be a power of two from 512 to 32768");
    }
    if (!base_is_power_of_two(p[FAT_BPB_SECTORS_PER_CLUSTER])) {
        return damage(s, FAT_BPB_SECTORS_PER_CLUSTER, "SectorsPerCluster",
                      p[FAT_BPB_SECTORS_PER_CLUSTER], 0, "must be a power of two from 1 to 128");
    }
    if (base_le16(p + FAT_BPB_RESERVED_SECTORS) == 0) {
        return damage(s, FAT_BPB_RESERVED_SECTORS, "ReservedSectors", 0, 1,
                      "the boot sector itself is one reserved sector");
    }
    if (p[FAT_BPB_FATS] == 0) {
        return damage(s, FAT_BPB_FATS, "NumberOfFats", 0, 2, "there must be a FAT");
    }
    if (!is_media(p[FAT_BPB_MEDIA])) {
        return damage(s, FAT_BPB_MEDIA, "Media", p[FAT_BPB_MEDIA], MEDIA_FIXED,
                      "must be F0 or from F8 to FF");
    }
    return 0;
}

static void take_fields(const uint8_t *p, struct fat_geometry *g)
{
    uint32_t fat_sectors16 = base_le16(p + FAT_BPB_FAT_SIZE16);
    uint32_t sectors16 = base_le16(p + FAT_BPB_TOTAL_SECTORS16);

    memset(g, 0, sizeof *g);
    g->sector_size = base_le16(p + FAT_BPB_BYTES_PER_SECTOR);
    g->cluster_size = g->sector_size * p[FAT_BPB_SECTORS_PER_CLUSTER];
    g->sectors = sectors16 ? sectors16 : base_le32(p + FAT_BPB_TOTAL_SECTORS32);
    g->reserved_sectors = base_le16(p + FAT_BPB_RESERVED_SECTORS);
    g->fats = p[FAT_BPB_FATS];
    g->mirror = true;
    g->bits = fat_sectors16 ? 0 : 32;
    g->fat_sectors = fat_sectors16 ? fat_sectors16 : base_le32(p + FAT_BPB_FAT_SIZE32);
    g->root_entries = base_le16(p + FAT_BPB_ROOT_ENTRIES);
    g->media = p[FAT_BPB_MEDIA];
}

/* Drive state, serial number and label: only there when a signature says so. */
static void take_extended(const uint8_t *p, struct fat_geometry *g)
{
    uint32_t base = g->bits == 32 ? FAT_BS32_DRIVE : FAT_BS16_DRIVE;
    const uint8_t *dirty = p + base + (FAT_BS16_DIRTY - FAT_BS16_DRIVE);
    const uint8_t *signature = p + base + (FAT_BS16_SIGNATURE - FAT_BS16_DRIVE);
    const uint8_t *serial = p + base + (FAT_BS16_SERIAL - FAT_BS16_DRIVE);
    const uint8_t *label = p + base + (FAT_BS16_LABEL - FAT_BS16_DRIVE);

    g->has_extended =
        *signature == FAT_EXTENDED_SIGNATURE || *signature == FAT_EXTENDED_SIGNATURE_OLD;
    memset(g->label, ' ', sizeof g->label);
    if (*signature == FAT_EXTENDED_SIGNATURE) {
        memcpy(g->label, label, sizeof g->label);
    }
    if (g->has_extended) {
        g->has_serial = true;
        g->serial = base_le32(serial);
        g->dirty = (*dirty & FAT_BS_DIRTY) != 0;
        g->hard_error = (*dirty & FAT_BS_HARD_ERROR) != 0;
    }
    /* Before the extended record came, the field had two bytes. */
    g->hidden_sectors = g->has_extended || g->bits == 32 ? base_le32(p + FAT_BPB_HIDDEN_SECTORS)
                                                         : base_le16(p + FAT_BPB_HIDDEN_SECTORS);
}

/* ---- layout ---- */

static uint32_t sectors_at(const uint8_t *p)
{
    return base_le16(p + FAT_BPB_TOTAL_SECTORS16) ? FAT_BPB_TOTAL_SECTORS16
                                                  : FAT_BPB_TOTAL_SECTORS32;
}

static uint32_t fat_sectors_at(const uint8_t *p)
{
    return base_le16(p + FAT_BPB_FAT_SIZE16) ? FAT_BPB_FAT_SIZE16 : FAT_BPB_FAT_SIZE32;
}

static uint64_t clusters_in_fat(const struct fat_geometry *g)
{
    return (uint64_t)g->fat_sectors * g->sector_size * 8 / g->bits;
}

/* Width by count, and no cluster that has no entry: FATs that are too short for the volume came
 * with cards from the factory. */
static int count_clusters(const struct sector *s, struct fat_geometry *g, uint64_t data_at)
{
    uint64_t fitting = (g->sectors - data_at) / (g->cluster_size / g->sector_size);
    uint64_t entries;

    if (fitting == 0) {
        return damage(s, sectors_at(s->p), "TotalSectors", g->sectors,
                      data_at + g->cluster_size / g->sector_size,
                      "the volume has no room for a cluster");
    }
    if (g->bits == 0) {
        g->bits = fitting > FAT12_CLUSTERS_MAX ? 16 : 12;
    }
    entries = clusters_in_fat(g);
    if (entries <= CLUSTERS_FIRST) {
        return damage(s, fat_sectors_at(s->p), "FatSize", g->fat_sectors, 1,
                      "the FAT has no room for a cluster");
    }
    fitting = base_min(fitting, entries - CLUSTERS_FIRST);
    if (g->bits == 16 && fitting > FAT16_CLUSTERS_MAX) {
        return damage(s, sectors_at(s->p), "TotalSectors", g->sectors,
                      data_at + FAT16_CLUSTERS_MAX * (g->cluster_size / g->sector_size),
                      "a FAT16 volume has at most 65524 clusters");
    }
    g->clusters = (uint32_t)base_min(fitting, FAT32_CLUSTERS_MAX);
    return 0;
}

static int lay_out(const struct sector *s, struct fat_geometry *g)
{
    uint64_t root_sectors = base_div_up((uint64_t)g->root_entries << ENTRY_SHIFT, g->sector_size);
    uint64_t root_at = g->reserved_sectors + (uint64_t)g->fats * g->fat_sectors;
    uint64_t data_at = root_at + root_sectors;

    if (g->fat_sectors == 0) {
        return damage(s, FAT_BPB_FAT_SIZE16, "FatSize", 0, 1, "the FAT has no length");
    }
    if (g->sectors == 0) {
        return damage(s, FAT_BPB_TOTAL_SECTORS32, "TotalSectors", 0, data_at + 1,
                      "the volume has no length");
    }
    if (g->bits != 32 && g->root_entries == 0) {
        return damage(s, FAT_BPB_ROOT_ENTRIES, "RootEntries", 0, 512,
                      "the root directory of FAT12 and FAT16 has entries");
    }
    if (data_at >= g->sectors) {
        return damage(s, sectors_at(s->p), "TotalSectors", g->sectors, data_at + 1,
                      "the volume ends before its first cluster");
    }
    g->root_offset = g->bits == 32 ? 0 : root_at * g->sector_size;
    g->heap_offset = data_at * g->sector_size;
    return count_clusters(s, g, data_at);
}

static int take_fat32(const struct sector *s, struct fat_geometry *g)
{
    const uint8_t *p = s->p;
    uint32_t flags = base_le16(p + FAT_BPB_EXT_FLAGS);
    uint32_t fsinfo = base_le16(p + FAT_BPB_FSINFO), backup = base_le16(p + FAT_BPB_BACKUP_BOOT);

    if (base_le16(p + FAT_BPB_VERSION) != 0) {
        return base_unsupported(s->e, "file system version", "only version 0.0 of FAT32 is known");
    }
    if (flags & FAT_EXT_NO_MIRROR) {
        g->mirror = false;
        g->active_fat = flags & FAT_EXT_ACTIVE;
        if (g->active_fat >= g->fats) {
            return damage(s, FAT_BPB_EXT_FLAGS, "ExtFlags", flags, FAT_EXT_NO_MIRROR,
                          "the active FAT is none of those that are there");
        }
    }
    g->root_cluster = base_le32(p + FAT_BPB_ROOT_CLUSTER);
    if (g->root_cluster < CLUSTERS_FIRST || g->root_cluster - CLUSTERS_FIRST >= g->clusters) {
        return damage(s, FAT_BPB_ROOT_CLUSTER, "RootCluster", g->root_cluster, CLUSTERS_FIRST,
                      "the root directory begins outside the clusters");
    }
    /* 0 stands for the usual place; whether something is there, its signatures tell. */
    fsinfo = fsinfo ? fsinfo : 1;
    g->fsinfo_sector = fsinfo < g->reserved_sectors ? fsinfo : 0;
    g->backup_sector = backup < g->reserved_sectors ? backup : 0;
    return 0;
}

static int check_device(const struct sector *s, const struct fat_geometry *g,
                        const struct device *d)
{
    uint64_t there = d->size / g->sector_size;

    if (g->sectors > there) {
        return damage(s, sectors_at(s->p), "TotalSectors", g->sectors, there,
                      "the device ends before the volume does");
    }
    return 0;
}

static int parse(const struct sector *s, const struct device *d, struct fat_geometry *g)
{
    int err = check_units(s);

    if (err) {
        return err;
    }
    take_fields(s->p, g);
    if (g->sector_size < d->sector_size) {
        return base_unsupported(s->e, "sector size",
                                "the volume's sectors are smaller than the device's");
    }
    err = lay_out(s, g);
    if (!err && g->bits == 32) {
        err = take_fat32(s, g);
    }
    if (!err) {
        take_extended(s->p, g);
        err = check_device(s, g, d);
    }
    return err;
}

/* ---- floppies of DOS 1 ---- */

/* They have no parameters at all: the first byte of the FAT tells the format. */
static const struct {
    uint16_t sectors;
    uint8_t media, per_cluster, fat_sectors, root_entries;
} old_floppies[] = {
    {320, 0xFE, 1, 1, 64},
    {360, 0xFC, 1, 2, 64},
    {640, 0xFF, 2, 1, 112},
    {720, 0xFD, 2, 2, 112},
};

/* 1: it is one. Only asked where the parameters make no sense. */
static int read_old_floppy(struct device *d, uint8_t *buffer, struct fat_geometry *g)
{
    const uint8_t *fat = buffer + SECTOR_MIN;
    int err;

    if (d->sector_size != SECTOR_MIN) {
        return 0;
    }
    for (size_t i = 0; i < sizeof old_floppies / sizeof *old_floppies; i++) {
        if (d->size != (uint64_t)old_floppies[i].sectors * SECTOR_MIN) {
            continue;
        }
        err = device_read(d, 0, buffer, (size_t)2 * SECTOR_MIN);
        if (err) {
            return err;
        }
        if (fat[0] != old_floppies[i].media || fat[1] != 0xFF || fat[2] != 0xFF) {
            continue;
        }
        *g = (struct fat_geometry){
            .bits = 12,
            .sector_size = SECTOR_MIN,
            .cluster_size = SECTOR_MIN * (uint32_t)old_floppies[i].per_cluster,
            .sectors = old_floppies[i].sectors,
            .reserved_sectors = 1,
            .fats = 2,
            .mirror = true,
            .fat_sectors = old_floppies[i].fat_sectors,
            .root_entries = old_floppies[i].root_entries,
            .media = old_floppies[i].media,
        };
        g->root_offset = (1 + 2 * (uint64_t)g->fat_sectors) * SECTOR_MIN;
        g->heap_offset = g->root_offset + ((uint64_t)g->root_entries << ENTRY_SHIFT);
        g->clusters = (uint32_t)((d->size - g->heap_offset) / g->cluster_size);
        memset(g->label, ' ', sizeof g->label);
        return 1;
    }
    return 0;
}

/* ---- reading ---- */

/* As many of the device's sectors as hold the fields. */
static int read_sector(struct device *d, const struct sector *s, uint8_t *buffer)
{
    size_t n = d->sector_size > RECORD ? d->sector_size : RECORD;

    if (s->offset > d->size || n > d->size - s->offset) {
        return damage(s, 0, "TotalSectors", d->size, s->offset + n,
                      "the device ends inside the boot sector");
    }
    return device_read(d, s->offset, buffer, n);
}

static int read_main(struct device *d, uint8_t *buffer, struct fat_geometry *g,
                     struct base_error *e)
{
    struct sector s = {buffer, 0, "boot sector", e}, quiet = s;
    int err = read_sector(d, &s, buffer);

    if (err) {
        return err;
    }
    quiet.e = NULL;
    if (check_units(&quiet) != 0) {
        err = read_old_floppy(d, buffer, g);
        if (err != 0) {
            return err < 0 ? err : 0;
        }
        /* The buffer still begins with the boot sector. */
    }
    return parse(&s, d, g);
}

/* A backup at sector `number` of `size` bytes. */
static int read_copy(struct device *d, uint8_t *buffer, uint32_t number, uint32_t size,
                     struct fat_geometry *g, struct base_error *e)
{
    struct sector s = {buffer, (uint64_t)number * size, "backup boot sector", e};
    uint32_t found;
    int err = read_sector(d, &s, buffer);

    if (err) {
        return err;
    }
    if (base_le16(buffer + FAT_BS_END_MARK) != END_MARK) {
        return damage(&s, FAT_BS_END_MARK, "EndMark", base_le16(buffer + FAT_BS_END_MARK), END_MARK,
                      "there is no backup boot sector");
    }
    found = base_le16(buffer + FAT_BPB_BYTES_PER_SECTOR);
    if (found != size) {
        return damage(&s, FAT_BPB_BYTES_PER_SECTOR, "BytesPerSector", found, size,
                      "the backup is not where its sector size puts it");
    }
    err = parse(&s, d, g);
    if (!err && g->bits != 32) {
        err = damage(&s, FAT_BPB_FAT_SIZE16, "FatSize", g->fat_sectors, 0,
                     "only FAT32 has a backup boot sector");
    }
    return err;
}

/* Where a sound main sector says, else at the usual place for each sector size in turn. */
static int read_backup(struct device *d, uint8_t *buffer, struct fat_geometry *g,
                       struct base_error *e)
{
    struct base_error first;
    int first_err = 0, err = read_main(d, buffer, g, NULL);

    if (err == 0 && g->bits != 32) {
        return base_unsupported(e, "backup boot sector", "FAT12 and FAT16 have none");
    }
    if (err == 0 && g->backup_sector != 0) {
        return read_copy(d, buffer, g->backup_sector, g->sector_size, g, e);
    }
    base_error_clear(&first);
    for (uint32_t size = SECTOR_MIN; size <= SECTOR_MAX; size <<= 1) {
        if (size < d->sector_size) {
            continue;
        }
        err = read_copy(d, buffer, BACKUP_USUAL, size, g, &first);
        if (err == 0 || (err != -BASE_ECORRUPT && err != -BASE_EUNSUPPORTED)) {
            return err;
        }
        first_err = first_err ? first_err : err;
    }
    if (e && e->kind == BASE_ERROR_NONE) {
        *e = first;
    }
    return first_err;
}

int fat_boot_read(struct device *d, bool backup, struct fat_geometry *g, struct base_error *e)
{
    uint8_t buffer[DEVICE_SECTOR_MAX];

    return backup ? read_backup(d, buffer, g, e) : read_main(d, buffer, g, e);
}
