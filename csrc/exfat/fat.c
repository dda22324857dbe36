/* File Allocation Table: single entries and whole runs of links. Both copies of a TexFAT pair are
 * kept alike. */
#include "exfat/exfat.h"

#include <errno.h>

static uint64_t entry_offset(const struct exfat *x, unsigned copy, uint32_t cluster)
{
    return x->fat[copy] + (uint64_t)cluster * 4;
}

uint64_t exfat_fat_offset(const struct clusters *h, uint32_t cluster)
{
    return entry_offset((const struct exfat *)h, 0, cluster);
}

int exfat_fat_next(struct clusters *h, uint32_t cluster, uint32_t *next)
{
    struct cache *c = h->volume->cache;
    struct cache_ref ref;
    int rc = cache_get(c, exfat_fat_offset(h, cluster), &ref);
    if (rc < 0) {
        return rc;
    }
    h->volume->counters.fat_entries_read++;
    uint32_t value = base_le32(ref.data);
    *next = value == EXFAT_FAT_END ? CLUSTERS_END : value == EXFAT_FAT_BAD ? CLUSTERS_BAD : value;
    cache_put(c, &ref);
    return 0;
}

/* Writes count entries from cluster on into one copy, block by block. */
static int link_copy(struct exfat *x, unsigned copy, uint32_t cluster, uint32_t count,
                     uint32_t next, enum cache_tier tier)
{
    struct cache *c = x->heap.volume->cache;
    while (count > 0) {
        struct cache_ref ref;
        int rc = cache_get(c, entry_offset(x, copy, cluster), &ref);
        if (rc < 0) {
            return rc;
        }
        uint32_t here = (uint32_t)base_min(count, ref.available / 4);
        rc = cache_edit(c, &ref, (size_t)here * 4, tier, DEVICE_FAT);
        if (rc < 0) {
            cache_put(c, &ref);
            return rc;
        }
        for (uint32_t i = 0; i < here; i++) {
            uint32_t value = i + 1 < count ? cluster + i + 1 : next;
            base_put_le32(ref.data + (size_t)i * 4, value);
        }
        cache_put(c, &ref);
        cluster += here;
        count -= here;
        if (count > 0 && (rc = cache_balance_within(c)) < 0) {
            return rc;
        }
    }
    return 0;
}

int exfat_fat_link(struct clusters *h, uint32_t first, uint32_t count, uint32_t next,
                   enum cache_tier tier)
{
    struct exfat *x = (struct exfat *)h;
    uint32_t value = next == CLUSTERS_END ? EXFAT_FAT_END : next;
    h->volume->counters.fat_entries_written += count;
    int rc = link_copy(x, 0, first, count, value, tier);
    if (rc == 0 && x->fat[1] != 0) {
        rc = link_copy(x, 1, first, count, value, tier);
    }
    return rc;
}
