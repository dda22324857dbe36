/* Recognizing a volume and its label without mounting it. */
#include "exfat/exfat.h"

#include <stdlib.h>

#include "volume/peek.h"

/* 0, which is no cluster, when there is no telling. */
static uint32_t next_cluster(struct volume_peek *r, const struct exfat_geometry *g,
                             uint32_t cluster)
{
    uint64_t fat = g->fat_offset;
    const uint8_t *p;

    if (g->volume_flags & EXFAT_FLAG_ACTIVE_FAT) {
        fat += g->fat_length;
    }
    p = volume_peek_at(r, (fat << g->sector_shift) + (uint64_t)cluster * 4, 4);
    return p ? base_le32(p) : 0;
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

/* The root directory as far as the budget goes. What cannot be read stays unknown. */
static void read_root(struct volume_peek *r, const struct exfat_geometry *g,
                      struct volume_detected *out)
{
    uint64_t cluster_size = UINT64_C(1) << g->cluster_shift, within = 0;
    size_t n = (size_t)base_min(cluster_size, VOLUME_PEEK);
    uint32_t cluster = g->root_cluster;
    bool has_label = false;

    while (cluster >= EXFAT_FIRST_CLUSTER && cluster - EXFAT_FIRST_CLUSTER < g->clusters) {
        uint64_t offset = (uint64_t)g->heap_offset << g->sector_shift;
        const uint8_t *p;

        offset += ((uint64_t)(cluster - EXFAT_FIRST_CLUSTER) << g->cluster_shift) + within;
        p = volume_peek_at(r, offset, n);
        if (!p || !take_entries(p, n, out, &has_label)) {
            return;
        }
        within += n;
        if (within == cluster_size) {
            within = 0;
            cluster = next_cluster(r, g, cluster);
        }
    }
}

/* What the first sector says, whatever else is wrong. 1: the name stands there. */
static int read_first(struct volume_peek *r, struct volume_detected *out)
{
    const uint8_t *p = r->buffer;
    uint64_t length;
    int err;

    if (r->d->size < r->d->sector_size) {
        return 0;
    }
    err = device_read(r->d, 0, r->buffer, r->d->sector_size);
    if (err) {
        return err;
    }
    if (memcmp(p + EXFAT_BOOT_NAME, "EXFAT   ", 8) != 0) {
        return 0;
    }
    memset(out, 0, sizeof *out);
    memcpy(out->fs, "exfat", sizeof "exfat");
    out->serial = base_le32(p + EXFAT_BOOT_SERIAL);
    out->has_serial = true;
    length = base_le64(p + EXFAT_BOOT_VOLUME_LENGTH);
    if (p[EXFAT_BOOT_SECTOR_SHIFT] <= EXFAT_SECTOR_SHIFT_MAX &&
        length <= UINT64_MAX >> p[EXFAT_BOOT_SECTOR_SHIFT]) {
        out->size = length << p[EXFAT_BOOT_SECTOR_SHIFT];
    }
    return 1;
}

int exfat_detect(struct device *d, struct volume_detected *out)
{
    struct exfat_geometry g;
    struct volume_peek *r = malloc(sizeof *r);
    int found, err;

    if (!r) {
        return -ENOMEM;
    }
    r->d = d;
    found = read_first(r, out);
    if (found != 1) {
        goto out;
    }
    err = exfat_boot_read(d, false, &g, NULL);
    if (err == -BASE_ECORRUPT) {
        out->damaged = true;
    } else if (err == 0) {
        r->left =
            VOLUME_PEEK_BUDGET - d->sector_size - ((uint64_t)EXFAT_BOOT_SECTORS << g.sector_shift);
        read_root(r, &g, out);
    } else if (err != -BASE_EUNSUPPORTED) {
        found = err;
    }
out:
    free(r);
    return found;
}

bool exfat_has_backup(struct device *d)
{
    struct exfat_geometry g;

    return exfat_boot_read(d, true, &g, NULL) == 0;
}
