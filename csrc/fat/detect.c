/* Recognizing a FAT volume and its label without mounting it.
 *
 * There is no magic number. A sound boot sector whose parameters all fit together and that the
 * device has room for is one; of those that do not, one that has the end mark, a jump and
 * parameters in their ranges is a damaged one.
 */
#include "fat/fat.h"

#include <stdlib.h>
#include <string.h>

#include "volume/peek.h"

enum { END_MARK = 0xAA55, SECTOR_MIN = 512, SECTOR_MAX = 32768, MEDIA_MIN = 0xF0 };

static const char *name_of(uint32_t bits)
{
    return bits == 12 ? "fat12" : bits == 16 ? "fat16" : "fat32";
}

static void set_name(struct volume_detected *out, uint32_t bits)
{
    memset(out, 0, sizeof *out);
    memcpy(out->fs, name_of(bits), sizeof "fat12");
}

/* ---- a damaged one ---- */

static bool looks_like_fat(const uint8_t *p)
{
    uint32_t sector = base_le16(p + FAT_BPB_BYTES_PER_SECTOR);
    bool has_jump = p[FAT_BS_JUMP] == 0xEB || p[FAT_BS_JUMP] == 0xE9;

    return has_jump && base_le16(p + FAT_BS_END_MARK) == END_MARK && base_is_power_of_two(sector) &&
           sector >= SECTOR_MIN && sector <= SECTOR_MAX &&
           base_is_power_of_two(p[FAT_BPB_SECTORS_PER_CLUSTER]) &&
           base_le16(p + FAT_BPB_RESERVED_SECTORS) != 0 && p[FAT_BPB_FATS] != 0 &&
           p[FAT_BPB_MEDIA] >= MEDIA_MIN;
}

/* Of the two narrow widths the text decides, as nothing better is at hand. */
static void take_damaged(const uint8_t *p, struct volume_detected *out)
{
    uint32_t sectors16 = base_le16(p + FAT_BPB_TOTAL_SECTORS16);
    uint64_t sectors = sectors16 ? sectors16 : base_le32(p + FAT_BPB_TOTAL_SECTORS32);
    bool wide = base_le16(p + FAT_BPB_FAT_SIZE16) == 0 && base_le32(p + FAT_BPB_FAT_SIZE32) != 0;

    set_name(out, wide ? 32 : memcmp(p + FAT_BS16_TYPE, "FAT12", 5) == 0 ? 12 : 16);
    out->size = sectors * base_le16(p + FAT_BPB_BYTES_PER_SECTOR);
    out->damaged = true;
}

/* ---- the label ---- */

/* 0, which is no cluster, when there is no telling. */
static uint32_t next_cluster(struct volume_peek *r, const struct fat_geometry *g, uint32_t cluster)
{
    uint64_t fat = g->reserved_sectors + (uint64_t)g->active_fat * g->fat_sectors;
    const uint8_t *p = volume_peek_at(r, fat * g->sector_size + (uint64_t)cluster * 4, 4);

    return p ? base_le32(p) & FAT32_ENTRY_MASK : 0;
}

/* false when the directory ends in these n bytes, or its label is among them. */
static bool take_label(const uint8_t *p, size_t n, uint8_t label[FAT_LABEL_BYTES])
{
    for (size_t i = 0; i + CLUSTERS_ENTRY_SIZE <= n; i += CLUSTERS_ENTRY_SIZE) {
        if (fat_label_is_entry(p + i)) {
            fat_label_of_entry(p + i, label);
            return false;
        }
        if (p[i] == 0) {
            return false;
        }
    }
    return true;
}

/* Bytes [at, end) of the directory; false when its label or its end was met, or no more is to be
 * had. */
static bool read_part(struct volume_peek *r, uint64_t at, uint64_t end,
                      uint8_t label[FAT_LABEL_BYTES])
{
    while (at < end) {
        size_t n = (size_t)base_min(end - at, VOLUME_PEEK);
        const uint8_t *p = volume_peek_at(r, at, n);

        if (!p || !take_label(p, n, label)) {
            return false;
        }
        at += n;
    }
    return true;
}

/* The root directory as far as the budget goes; `label` stays as it is when there is none. */
static void read_root(struct volume_peek *r, const struct fat_geometry *g,
                      uint8_t label[FAT_LABEL_BYTES])
{
    uint32_t cluster = g->root_cluster;

    if (g->bits != 32) {
        read_part(r, g->root_offset,
                  g->root_offset + (uint64_t)g->root_entries * CLUSTERS_ENTRY_SIZE, label);
        return;
    }
    while (cluster >= CLUSTERS_FIRST && cluster - CLUSTERS_FIRST < g->clusters) {
        uint64_t at = g->heap_offset + (uint64_t)(cluster - CLUSTERS_FIRST) * g->cluster_size;

        if (!read_part(r, at, at + g->cluster_size, label)) {
            return;
        }
        cluster = next_cluster(r, g, cluster);
    }
}

static int set_label(const struct fat_geometry *g, struct volume_peek *r,
                     struct volume_detected *out)
{
    uint8_t label[FAT_LABEL_BYTES];
    struct fat_codepage *c;
    int n;

    memcpy(label, g->label, sizeof label);
    if (fat_label_is_none(label)) {
        memset(label, ' ', sizeof label);
    }
    read_root(r, g, label);
    n = fat_codepage_new(NULL, &c);
    if (n) {
        return n;
    }
    n = fat_label_text(c, label, out->label, sizeof out->label - 1);
    out->label[n > 0 ? n : 0] = '\0';
    fat_codepage_delete(c);
    return 0;
}

/* ---- both ---- */

int fat_detect(struct device *d, struct volume_detected *out)
{
    struct fat_geometry g;
    struct volume_peek *r;
    const uint8_t *p;
    int err, found = 0;

    if (d->size < SECTOR_MIN) {
        return 0;
    }
    r = malloc(sizeof *r);
    if (!r) {
        return -ENOMEM;
    }
    r->d = d;
    r->left = VOLUME_PEEK_BUDGET;
    err = fat_boot_read(d, false, &g, NULL);
    if (err == 0) {
        set_name(out, g.bits);
        out->size = g.sectors * g.sector_size;
        out->serial = g.serial;
        out->has_serial = g.has_serial;
        err = set_label(&g, r, out);
        found = err ? err : 1;
    } else if (err == -BASE_ECORRUPT || err == -BASE_EUNSUPPORTED) {
        p = volume_peek_at(r, 0, SECTOR_MIN);
        if (p && looks_like_fat(p)) {
            take_damaged(p, out);
            found = 1;
        }
    } else {
        found = err;
    }
    free(r);
    return found;
}

bool fat_has_backup(struct device *d)
{
    struct fat_geometry g;

    return fat_boot_read(d, true, &g, NULL) == 0;
}
