/* UTF-8 to UTF-16 and back. Lone surrogates pass in both directions (as three-byte sequences,
 * Python's "surrogatepass"). */
#ifndef PYEXFAT_BASE_UNICODE_H
#define PYEXFAT_BASE_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* Both return the number of units/bytes written, or -EILSEQ (malformed UTF-8), or -ENAMETOOLONG
 * (more than cap). */
int base_utf8_to_utf16(const char *s, size_t n, uint16_t *out, size_t cap);
int base_utf16_to_utf8(const uint16_t *s, size_t n, char *out, size_t cap);

/* The most bytes that n UTF-16 units can become. */
#define BASE_UTF8_MAX(n) ((size_t)(n)*3)

#endif
