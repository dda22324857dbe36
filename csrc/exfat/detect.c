/* Recognizing a volume and its label without mounting it. */
#include "exfat/exfat.h"

#include <stdlib.h>

enum {
    PIECE = 4096,           /* of the root directory, read at a time */
    ROOT_BUDGET = 8 * 1024, /* beside the boot region of at most 48 KiB and its first look */
};

/* Reads whole sectors of the device around [offset, offset + n), n <= PIECE; *at: where offset is
 * in buffer. */
static int read_around(struct device *d, uint64_t offset, size_t n, uint8_t *buffer, size_t *at)
{
    uint64_t sector = d->sector_size;
    uint64_t start = offset / sector * sector;
    uint64_t end = base_round_up(offset + n, sector);

    if (end > d->size) {
        return -EIO;
    }
    *at = (size_t)(offset - start);
    return device_read(d, start, buffer, (size_t)(end - start));
}

static int next_cluster(struct device *d, const struct exfat_geometry *g, uint32_t *cluster,
                        uint8_t *buffer)
{
    uint64_t fat = g->fat_offset;
    size_t at;
    int err;

    if (g->volume_flags & EXFAT_FLAG_ACTIVE_FAT) {
        fat += g->fat_length;
    }
    err = read_around(d, (fat << g->sector_shift) + (uint64_t)*cluster * 4, 4, buffer, &at);
    if (!err) {
        *cluster = base_le32(buffer + at);
    }
    return err;
}

/* Takes what it knows from n bytes of entries; false when the directory ends there or all is found.
 */
static bool take_entries(const uint8_t *p, size_t n, struct volume_detected *out, bool *has_label)
{
    for (size_t i = 0; i + EXFAT_ENTRY_SIZE <= n; i += EXFAT_ENTRY_SIZE) {
        const uint8_t *entry = p + i;

        if (entry[0] == EXFAT_TYPE_END) {
            return false;
        }
        if (entry[0] == EXFAT_TYPE_LABEL && !*has_label) {
            int length = exfat_label_text(entry, out->label, sizeof out->label - 1);

            out->label[length > 0 ? length : 0] = '\0';
            *has_label = true;
        }
        if (entry[0] == EXFAT_TYPE_GUID && !out->has_uuid) {
            memcpy(out->uuid, entry + EXFAT_GUID_VALUE, sizeof out->uuid);
            out->has_uuid = true;
        }
    }
    return !*has_label || !out->has_uuid;
}

/* The start of the root directory, as far as the budget goes. What cannot be read stays unknown. */
static void read_root(struct device *d, const struct exfat_geometry *g, struct volume_detected *out,
                      uint8_t *buffer)
{
    uint64_t cluster_size = UINT64_C(1) << g->cluster_shift, within = 0;
    size_t n = (size_t)base_min(cluster_size, PIECE);
    uint32_t cluster = g->root_cluster;
    bool has_label = false;

    for (size_t left = ROOT_BUDGET; left >= n; left -= n) {
        uint64_t offset = (uint64_t)g->heap_offset << g->sector_shift;
        size_t at;

        if (cluster < EXFAT_FIRST_CLUSTER || cluster - EXFAT_FIRST_CLUSTER >= g->clusters) {
            return;
        }
        offset += ((uint64_t)(cluster - EXFAT_FIRST_CLUSTER) << g->cluster_shift) + within;
        if (read_around(d, offset, n, buffer, &at) != 0 ||
            !take_entries(buffer + at, n, out, &has_label)) {
            return;
        }
        within += n;
        if (within == cluster_size) {
            within = 0;
            if (left < 2 * n || next_cluster(d, g, &cluster, buffer) != 0) {
                return;
            }
        }
    }
}

/* The name stands in the first sector whatever else is wrong. */
static int find_name(struct device *d, uint8_t *buffer)
{
    int err;

    if (d->size < d->sector_size) {
        return 0;
    }
    err = device_read(d, 0, buffer, d->sector_size);
    return err ? err : memcmp(buffer + EXFAT_BOOT_NAME, "EXFAT   ", 8) == 0;
}

int exfat_detect(struct device *d, struct volume_detected *out)
{
    struct exfat_geometry g;
    uint8_t *buffer = malloc(2 * PIECE);
    uint32_t shift;
    int found, err;

    if (!buffer) {
        return -ENOMEM;
    }
    found = find_name(d, buffer);
    if (found != 1) {
        goto out;
    }
    memset(out, 0, sizeof *out);
    memcpy(out->fs, "exfat", sizeof "exfat");
    out->serial = base_le32(buffer + EXFAT_BOOT_SERIAL);
    out->has_serial = true;
    shift = buffer[EXFAT_BOOT_SECTOR_SHIFT];
    if (shift <= EXFAT_SECTOR_SHIFT_MAX) {
        uint64_t length = base_le64(buffer + EXFAT_BOOT_VOLUME_LENGTH);

        out->size = length > UINT64_MAX >> shift ? 0 : length << shift;
    }
    err = exfat_boot_read(d, false, &g, NULL);
    if (err == -BASE_ECORRUPT) {
        out->damaged = true;
    } else if (err == 0) {
        read_root(d, &g, out, buffer);
    } else if (err != -BASE_EUNSUPPORTED) {
        found = err;
    }
out:
    free(buffer);
    return found;
}
