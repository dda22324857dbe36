/* Map of used clusters: a bit each, made from the FAT in parts of 32,768 clusters when somebody
 * looks there, and kept up by what is taken and freed. So a search on a nearly full volume is a
 * scan of words, and no volume's map is made whole unless needed. Memory is bounded: beyond a
 * quarter of the budget a part takes another's place.
 */
#include "fat/fat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PART_SHIFT = 15, PART_BITS = 1 << PART_SHIFT, PART_BYTES = PART_BITS / 8 };

void fat_map_free(struct fat *f)
{
    for (uint32_t i = 0; f->part && i < f->parts; i++) {
        free(f->part[i]);
    }
    free(f->part);
    f->part = NULL;
    f->parts_held = 0;
}

size_t fat_map_bytes(const struct fat *f)
{
    return f->part ? f->parts * sizeof *f->part + (size_t)f->parts_held * PART_BYTES : 0;
}

/* Sets the bits of the clusters in use. */
static int fill(struct fat *f, uint32_t part, uint8_t *bits)
{
    uint32_t first = part << PART_SHIFT;
    uint32_t count = (uint32_t)base_min(PART_BITS, f->heap.count - first);
    memset(bits, 0, PART_BYTES);
    f->heap.volume->counters.fat_entries_read += count;
    return fat_table_used(f, first + CLUSTERS_FIRST, count, bits);
}

/* Makes room for one more part by taking another's memory. */
static uint8_t *take_other(struct fat *f)
{
    while (!f->part[f->parts_victim]) {
        f->parts_victim = (f->parts_victim + 1) % f->parts;
    }
    uint8_t *bits = f->part[f->parts_victim];
    f->part[f->parts_victim] = NULL;
    return bits;
}

static int get_part(struct fat *f, uint32_t part, uint8_t **out)
{
    if (!f->part) {
        f->parts = (f->heap.count + PART_BITS - 1) >> PART_SHIFT;
        f->part = calloc(f->parts, sizeof *f->part);
        if (!f->part) {
            return -ENOMEM;
        }
        f->parts_victim = 0;
    }
    if (!f->part[part]) {
        uint64_t most = f->heap.volume->policy.memory_budget / 4 / PART_BYTES;
        bool full = f->parts_held > 0 && f->parts_held >= most;
        uint8_t *bits = full ? take_other(f) : malloc(PART_BYTES);
        if (!bits) {
            return -ENOMEM;
        }
        int rc = fill(f, part, bits);
        if (rc < 0) {
            free(bits);
            f->parts_held -= full;
            return rc;
        }
        f->parts_held += !full;
        f->part[part] = bits;
    }
    *out = f->part[part];
    return 0;
}

int fat_map_pin(struct clusters *h, uint32_t bit, struct clusters_part *out)
{
    struct fat *f = (struct fat *)h;
    uint32_t in_part = bit & (PART_BITS - 1);
    uint8_t *bits;
    int rc = get_part(f, bit >> PART_SHIFT, &bits);
    if (rc < 0) {
        return rc;
    }
    memset(&out->ref, 0, sizeof out->ref);
    out->bits = bits + in_part / 8;
    out->count = (uint32_t)base_min(PART_BITS - in_part, h->count - bit);
    return 0;
}

/* Clusters that are taken get their FAT entries when they are linked; freed ones are cleared here.
 */
int fat_map_mark(struct clusters *h, uint32_t bit, uint32_t n, bool used, uint32_t *changed)
{
    struct fat *f = (struct fat *)h;
    *changed = 0;
    int rc = used ? 0 : fat_table_clear(h, bit + CLUSTERS_FIRST, n, CACHE_CHAIN);
    while (rc == 0 && n > 0) {
        uint32_t in_part = bit & (PART_BITS - 1), here = (uint32_t)base_min(n, PART_BITS - in_part);
        uint8_t *bits;
        bool known = f->part && f->part[bit >> PART_SHIFT];
        rc = get_part(f, bit >> PART_SHIFT, &bits);
        if (rc == 0) {
            uint32_t flipped = clusters_fill_bits(bits, in_part, here, used);
            *changed += known || used ? flipped : here; /* the part was just read as it is now */
        }
        bit += here;
        n -= here;
    }
    return rc;
}

uint64_t fat_map_offset(struct clusters *h, uint32_t bit)
{
    return fat_table_offset(h, bit + CLUSTERS_FIRST);
}
