/* Names: UTF-16 as on the disk, up-cased for comparing, hashed. */
#include "base/checksum.h"
#include "base/unicode.h"
#include "exfat/exfat.h"

#include <errno.h>
#include <string.h>

void exfat_name_finish(const struct exfat *x, struct exfat_name *name)
{
    uint16_t sum = 0;
    for (uint32_t i = 0; i < name->length; i++) {
        uint16_t u = exfat_upcase_unit(&x->upcase, name->unit[i]);
        name->upper[i] = u;
        sum = base_ror16_add(base_ror16_add(sum, u & 0xFF), u >> 8);
    }
    name->hash16 = sum;
    name->hash = base_hash64(name->upper, name->length * sizeof name->upper[0], x->hash_seed);
}

int exfat_name_parse(const struct exfat *x, const char *s, size_t n, bool for_create,
                     struct exfat_name *out)
{
    int length = base_utf8_to_utf16(s, n, out->unit, EXFAT_NAME_MAX);
    if (length < 0) {
        return length;
    }
    if (length == 0) {
        return -EINVAL;
    }
    out->length = (uint32_t)length;
    exfat_name_finish(x, out);
    return for_create ? clusters_check_name(x->heap.volume, out->unit, out->length) : 0;
}

bool exfat_name_equal(const struct exfat_name *a, const struct exfat_name *b)
{
    return a->length == b->length &&
           memcmp(a->upper, b->upper, a->length * sizeof a->upper[0]) == 0;
}
