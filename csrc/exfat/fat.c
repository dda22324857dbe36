/* File Allocation Table: single entries and whole runs of links. Both copies of a TexFAT pair are
 * kept alike. */
#include "exfat/exfat.h"

#include <errno.h>

static uint64_t entry_offset(const struct exfat *x, unsigned copy, uint32_t cluster)
{
    return x->fat[copy] + (uint64_t)cluster * 4;
}

int exfat_fat_get(struct exfat *x, uint32_t cluster, uint32_t *next)
{
    struct cache *c = x->volume->cache;
    struct cache_ref ref;
    int rc = cache_get(c, entry_offset(x, 0, cluster), &ref);
    if (rc < 0) {
        return rc;
    }
    x->volume->counters.fat_entries_read++;
    *next = base_le32(ref.data);
    cache_put(c, &ref);
    return 0;
}

/* Writes count entries from cluster on into one copy, block by block. */
static int link_copy(struct exfat *x, unsigned copy, uint32_t cluster, uint32_t count,
                     uint32_t next, enum cache_tier tier)
{
    struct cache *c = x->volume->cache;
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

int exfat_fat_link(struct exfat *x, uint32_t first, uint32_t count, uint32_t next,
                   enum cache_tier tier)
{
    x->volume->counters.fat_entries_written += count;
    int rc = link_copy(x, 0, first, count, next, tier);
    if (rc == 0 && x->fat[1] != 0) {
        rc = link_copy(x, 1, first, count, next, tier);
    }
    return rc;
}

int exfat_fat_set(struct exfat *x, uint32_t cluster, uint32_t next, enum cache_tier tier)
{
    return exfat_fat_link(x, cluster, 1, next, tier);
}
