/* Names: long ones in UTF-16, short ones (8.3) in the code page; both compared case-insensitively.
 */
#include "base/checksum.h"
#include "base/unicode.h"
#include "base/upcase.h"
#include "fat/fat.h"

#include <errno.h>
#include <string.h>

void fat_name_finish(const struct fat *f, struct fat_name *name)
{
    for (uint32_t i = 0; i < name->length; i++) {
        name->upper[i] = base_upcase(name->unit[i]);
    }
    name->hash = base_hash64(name->upper, name->length * sizeof name->upper[0], f->hash_seed);
}

int fat_name_parse(const struct fat *f, const char *s, size_t n, bool for_create,
                   struct fat_name *out)
{
    int length = base_utf8_to_utf16(s, n, out->unit, FAT_NAME_MAX);
    if (length <= 0) {
        return length < 0 ? length : -EINVAL;
    }
    out->length = (uint32_t)length;
    fat_name_finish(f, out);
    return for_create ? clusters_check_name(f->heap.volume, out->unit, out->length) : 0;
}

bool fat_name_equal(const struct fat_name *a, const struct fat_name *b)
{
    if (a->length != b->length) {
        return false;
    }
    for (uint32_t i = 0; i < a->length; i++) {
        if (a->upper[i] != base_upcase(b->unit[i])) {
            return false;
        }
    }
    return true;
}

/* One part of a short name, without the spaces that fill it up. */
static uint32_t decode_part(const struct fat *f, const uint8_t *part, uint32_t width, bool lower,
                            uint16_t *out)
{
    while (width > 0 && part[width - 1] == ' ') {
        width--;
    }
    uint32_t n = fat_codepage_decode(f->codepage, part, width, out);
    for (uint32_t i = 0; lower && i < n; i++) {
        if (out[i] >= 'A' && out[i] <= 'Z') {
            out[i] = (uint16_t)(out[i] + 'a' - 'A');
        }
    }
    return n;
}

void fat_name_from_short(const struct fat *f, const uint8_t *entry, bool with_case,
                         struct fat_name *out)
{
    uint8_t bytes[FAT_NAME_BYTES];
    uint8_t bits = with_case ? entry[FAT_DIR_CASE] : 0;
    memcpy(bytes, entry, sizeof bytes);
    if (bytes[0] == FAT_KANJI_E5) {
        bytes[0] = FAT_DELETED;
    }
    out->length = decode_part(f, bytes, 8, bits & FAT_CASE_BASE, out->unit);
    out->unit[out->length] = '.';
    uint32_t n =
        decode_part(f, bytes + 8, 3, bits & FAT_CASE_EXTENSION, out->unit + out->length + 1);
    out->length += n > 0 ? n + 1 : 0;
}

uint8_t fat_short_checksum(const uint8_t name[FAT_NAME_BYTES])
{
    uint8_t sum = 0;
    for (unsigned i = 0; i < FAT_NAME_BYTES; i++) {
        sum = (uint8_t)((sum << 7 | sum >> 1) + name[i]);
    }
    return sum;
}
