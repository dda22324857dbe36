/* Geometry and media by size: floppies as DOS made them, else what the SD Association's and LBA
 * translation's tables give. */
#include "fat/format.h"

#include <stddef.h>

enum { KIB = 1024, FIXED_MEDIA = 0xF8, FIXED_ROOT = 512, FIXED_CLUSTER = 4 };

static const struct {
    uint16_t kib;
    uint8_t sides, track, media, per_cluster, root;
} floppies[] = {
    {160, 1, 8, 0xFE, 1, 64},    {180, 1, 9, 0xFC, 1, 64},    {320, 2, 8, 0xFF, 2, 112},
    {360, 2, 9, 0xFD, 2, 112},   {720, 2, 9, 0xF9, 2, 112},   {1200, 2, 15, 0xF9, 1, 224},
    {1440, 2, 18, 0xF0, 1, 224}, {2880, 2, 36, 0xF0, 2, 224},
};

/* Sectors up to which a geometry is used. */
static const struct {
    uint32_t sectors;
    uint8_t heads, track;
} fixed[] = {
    {4096, 2, 16},     {32768, 2, 32},    {65536, 4, 32},    {262144, 8, 32},    {524288, 16, 32},
    {1032192, 16, 63}, {2064384, 32, 63}, {4128768, 64, 63}, {8257536, 128, 63},
};

void fat_usual_geometry(uint64_t size, uint64_t sectors, bool atari, struct fat_usual *out)
{
    *out = (struct fat_usual){255, 63, FIXED_CLUSTER, FIXED_ROOT, FIXED_MEDIA};
    for (size_t i = 0; i < sizeof floppies / sizeof *floppies; i++) {
        if (size / KIB == floppies[i].kib) {
            out->heads = floppies[i].sides;
            out->sectors_per_track = floppies[i].track;
            out->media = floppies[i].media;
            out->per_cluster = atari ? 2 : floppies[i].per_cluster;
            out->root_entries = floppies[i].root;
            return;
        }
    }
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (sectors <= fixed[i].sectors) {
            out->heads = fixed[i].heads;
            out->sectors_per_track = fixed[i].track;
            return;
        }
    }
}
