/* Code pages: bytes of short names and labels to UTF-16 and back. */
#include "fat/codepage.h"

#include <stdlib.h>
#include <string.h>

enum {
    UNMAPPED = VOLUME_CODEPAGE_UNMAPPED,
    REPLACEMENT = 0xFFFD,
    LAST_PADDING = 0x20, /* no trail byte: it would be lost at the end of a name */
    PAGE = 256,
};

static uint16_t unit_of(const struct fat_codepage *c, uint32_t code)
{
    const uint16_t *page = c->units[code >> 8];

    return page ? page[code & 0xFF] : UNMAPPED;
}

/* ---- making one from a table ---- */

/* Whether a byte of a name can be read as this code, and what that gives can be written. */
static bool is_mapped(const struct volume_codepage *t, uint32_t code)
{
    uint16_t unit = t->unit[code];

    if (unit == 0 || unit == UNMAPPED || unit == REPLACEMENT) {
        return false;
    }
    /* A byte that means something by itself begins no pair. */
    return code < PAGE || (t->unit[code >> 8] == UNMAPPED && (code & 0xFF) > LAST_PADDING);
}

/* Which pages there must be; returns how many. */
static size_t find_pages(const struct volume_codepage *t, bool units[PAGE], bool codes[PAGE])
{
    size_t n = 0;

    memset(units, 0, PAGE * sizeof *units);
    memset(codes, 0, PAGE * sizeof *codes);
    units[0] = true;
    for (uint32_t code = 0; code < VOLUME_CODEPAGE_CODES; code++) {
        if (is_mapped(t, code)) {
            units[code >> 8] = true;
            codes[t->unit[code] >> 8] = true;
        }
    }
    for (int i = 0; i < PAGE; i++) {
        n += (units[i] ? 1u : 0) + (codes[i] ? 1u : 0);
    }
    return n;
}

static void fill(const struct volume_codepage *t, uint16_t *units[PAGE], uint16_t *codes[PAGE])
{
    /* Downwards, so that the lowest code of a unit stays. */
    for (uint32_t code = VOLUME_CODEPAGE_CODES; code-- > 0;) {
        if (is_mapped(t, code)) {
            uint16_t unit = t->unit[code];

            units[code >> 8][code & 0xFF] = unit;
            codes[unit >> 8][unit & 0xFF] = (uint16_t)code;
        }
    }
    for (uint32_t unit = 0; unit < VOLUME_CODEPAGE_CODES; unit++) {
        uint16_t code = t->preferred[unit];

        if (code != 0 && is_mapped(t, code) && t->unit[code] == unit) {
            codes[unit >> 8][unit & 0xFF] = code;
        }
    }
}

static int make_pages(const struct volume_codepage *t, struct fat_codepage *c)
{
    bool has_units[PAGE], has_codes[PAGE];
    uint16_t *units[PAGE] = {NULL}, *codes[PAGE] = {NULL}, *next;
    size_t n = find_pages(t, has_units, has_codes);

    c->memory = calloc(n, PAGE * sizeof *c->memory);
    if (!c->memory) {
        return -ENOMEM;
    }
    next = c->memory;
    for (int i = 0; i < PAGE; i++) {
        if (has_units[i]) {
            memset(next, 0xFF, PAGE * sizeof *next);
            c->units[i] = units[i] = next;
            next += PAGE;
        }
        if (has_codes[i]) {
            c->codes[i] = codes[i] = next;
            next += PAGE;
        }
    }
    fill(t, units, codes);
    return 0;
}

int fat_codepage_new(const struct volume_codepage *table, struct fat_codepage **out)
{
    struct fat_codepage *c = calloc(1, sizeof *c);
    int rc = 0;

    *out = NULL;
    if (!c) {
        return -ENOMEM;
    }
    if (table) {
        rc = make_pages(table, c);
    } else {
        *c = fat_codepage_437;
    }
    if (rc < 0) {
        fat_codepage_delete(c);
        return rc;
    }
    *out = c;
    return 0;
}

void fat_codepage_delete(struct fat_codepage *c)
{
    if (c) {
        free(c->memory);
        free(c);
    }
}

/* ---- using it ---- */

uint32_t fat_codepage_decode(const struct fat_codepage *c, const uint8_t *s, uint32_t n,
                             uint16_t *out)
{
    uint32_t length = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint16_t unit = unit_of(c, s[i]);

        /* A byte after a lead that it does not go with stands for itself. */
        if (unit == UNMAPPED && s[i] != 0 && i + 1 < n) {
            unit = unit_of(c, (uint32_t)s[i] << 8 | s[i + 1]);
            i += unit != UNMAPPED ? 1 : 0;
        }
        out[length++] = unit == UNMAPPED ? REPLACEMENT : unit;
    }
    return length;
}

uint32_t fat_codepage_encode(const struct fat_codepage *c, uint16_t unit, uint8_t out[2])
{
    const uint16_t *page = c->codes[unit >> 8];
    uint16_t code = page ? page[unit & 0xFF] : 0;

    if (code == 0) {
        return 0;
    }
    if (code < PAGE) {
        out[0] = (uint8_t)code;
        return 1;
    }
    out[0] = (uint8_t)(code >> 8);
    out[1] = (uint8_t)code;
    return 2;
}
