/* UTF-8 and UTF-16. Well-formed UTF-8 (Unicode table 3-7), but for surrogates, which pass as three
 * bytes. */
#include "base/unicode.h"

#include "base/bytes.h"

#include <errno.h>

/* Takes one character from s[n]; returns how many bytes it has, 0 when malformed. */
static size_t take_utf8(const unsigned char *s, size_t n, uint32_t *c)
{
    uint32_t lowest;
    size_t length;

    if (s[0] < 0x80) {
        *c = s[0];
        return 1;
    }
    if (s[0] < 0xC2) {
        return 0;
    }
    if (s[0] < 0xE0) {
        length = 2, lowest = 0x80, *c = s[0] & 0x1Fu;
    } else if (s[0] < 0xF0) {
        length = 3, lowest = 0x800, *c = s[0] & 0x0Fu;
    } else if (s[0] < 0xF5) {
        length = 4, lowest = 0x10000, *c = s[0] & 0x07u;
    } else {
        return 0;
    }
    if (n < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
        *c = *c << 6 | (s[i] & 0x3Fu);
    }
    return *c < lowest || *c > 0x10FFFF ? 0 : length;
}

/* Most names have nothing else. */
static size_t take_ascii(const unsigned char *s, size_t n, uint16_t *out)
{
    size_t i = 0;

    for (; i < n && s[i] < 0x80; i++) {
        out[i] = s[i];
    }
    return i;
}

int base_utf8_to_utf16(const char *s, size_t n, uint16_t *out, size_t cap)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t used = 0;

    while (n > 0) {
        uint32_t c;
        size_t units, length, ascii = take_ascii(p, base_min(n, cap - used), out + used);

        used += ascii;
        p += ascii;
        n -= ascii;
        if (n == 0) {
            break;
        }
        length = take_utf8(p, n, &c);
        if (length == 0) {
            return -EILSEQ;
        }
        units = c >= 0x10000 ? 2 : 1;
        if (cap - used < units) {
            return -ENAMETOOLONG;
        }
        if (units == 2) {
            out[used++] = (uint16_t)(0xD800 + ((c - 0x10000) >> 10));
            out[used++] = (uint16_t)(0xDC00 + (c & 0x3FF));
        } else {
            out[used++] = (uint16_t)c;
        }
        p += length;
        n -= length;
    }
    return (int)used;
}

static size_t put_utf8(uint32_t c, unsigned char b[4])
{
    if (c < 0x80) {
        b[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        b[0] = (unsigned char)(0xC0 | c >> 6);
        b[1] = (unsigned char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        b[0] = (unsigned char)(0xE0 | c >> 12);
        b[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
        b[2] = (unsigned char)(0x80 | (c & 0x3F));
        return 3;
    }
    b[0] = (unsigned char)(0xF0 | c >> 18);
    b[1] = (unsigned char)(0x80 | (c >> 12 & 0x3F));
    b[2] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
    b[3] = (unsigned char)(0x80 | (c & 0x3F));
    return 4;
}

int base_utf16_to_utf8(const uint16_t *s, size_t n, char *out, size_t cap)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t c = s[i];
        unsigned char b[4];
        size_t length;

        if (c >= 0xD800 && c < 0xDC00 && i + 1 < n && s[i + 1] >= 0xDC00 && s[i + 1] < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10) + (s[++i] - 0xDC00u);
        }
        length = put_utf8(c, b);
        if (cap - used < length) {
            return -ENAMETOOLONG;
        }
        for (size_t k = 0; k < length; k++) {
            out[used++] = (char)b[k];
        }
    }
    return (int)used;
}
