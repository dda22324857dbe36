/* The recommended up-case table of the exFAT specification [exFAT 7.2.5.1]: Windows' simple case
 * folding of UTF-16 units. */
#ifndef PYEXFAT_BASE_UPCASE_H
#define PYEXFAT_BASE_UPCASE_H

#include <stdint.h>

#define BASE_UPCASE_BYTES 5836u
extern const uint16_t base_upcase_table[BASE_UPCASE_BYTES / 2]; /* compressed form, host order */
extern const uint16_t *const base_upcase_pages[256];            /* NULL: the page maps to itself */

static inline uint16_t base_upcase(uint16_t c)
{
    const uint16_t *page = base_upcase_pages[c >> 8];
    return page ? page[c & 0xFF] : c;
}

#endif
