/* Up-case tables: the recommended one costs nothing, any other is checked and expanded [7.2]. */
#include "exfat/exfat.h"

#include <stdlib.h>

#include "base/checksum.h"

enum {
    UNITS = 0x10000,
    PAGE_UNITS = 0x100,
    PAGES = UNITS / PAGE_UNITS,
    MANDATORY = 128,       /* mappings that every table shall have [7.2.5] */
    IDENTITY_RUN = 0xFFFF, /* compressed form: a count of identity mappings follows */
};

static const char *const structure = "up-case table";

void exfat_upcase_init_standard(struct exfat_upcase *u)
{
    memcpy(u->page, base_upcase_pages, sizeof u->page);
    u->owned = NULL;
}

void exfat_upcase_free(struct exfat_upcase *u)
{
    free(u->owned);
    memset(u, 0, sizeof *u);
}

static bool is_standard(const uint8_t *table, size_t n)
{
    if (n != BASE_UPCASE_BYTES) {
        return false;
    }
    for (size_t i = 0; i < n / 2; i++) {
        if (base_le16(table + 2 * i) != base_upcase_table[i]) {
            return false;
        }
    }
    return true;
}

/* Both forms into map[UNITS], which holds the identity: units past the end of a short table keep
 * it. A plain table has 0xFFFF at 0xFFFF only, where a run could not follow. */
static int expand(const uint8_t *table, size_t n, uint16_t *map, size_t *covered, uint64_t offset,
                  struct base_error *e)
{
    size_t at = 0;

    for (size_t i = 0; i + 2 <= n; i += 2) {
        uint16_t unit = base_le16(table + i);

        if (at == UNITS) {
            return base_damage(e, structure, offset + i, "UpcaseTable", n, i,
                               "the table goes on after its last mapping");
        }
        if (unit == IDENTITY_RUN && at != UNITS - 1) {
            i += 2;
            if (i == n) {
                return base_damage(e, structure, offset + i - 2, "UpcaseTable", unit, 0,
                                   "the table ends where a count should follow");
            }
            unit = base_le16(table + i);
            if (unit > UNITS - at) {
                return base_damage(e, structure, offset + i, "UpcaseTable", unit, UNITS - at,
                                   "a run of identity mappings goes past the last unit");
            }
            at += unit;
        } else {
            map[at++] = unit;
        }
    }
    *covered = at;
    return 0;
}

static bool page_is_identity(const uint16_t *map, size_t page)
{
    for (size_t i = page * PAGE_UNITS; i < (page + 1) * PAGE_UNITS; i++) {
        if (map[i] != i) {
            return false;
        }
    }
    return true;
}

static int keep_pages(struct exfat_upcase *u, const uint16_t *map)
{
    size_t wanted = 0, used = 0;

    for (size_t p = 0; p < PAGES; p++) {
        wanted += !page_is_identity(map, p);
    }
    u->owned = malloc(wanted * PAGE_UNITS * sizeof *u->owned);
    if (!u->owned) {
        return -ENOMEM;
    }
    for (size_t p = 0; p < PAGES; p++) {
        if (!page_is_identity(map, p)) {
            uint16_t *page = u->owned + PAGE_UNITS * used++;

            memcpy(page, map + p * PAGE_UNITS, PAGE_UNITS * sizeof *page);
            u->page[p] = page;
        }
    }
    return 0;
}

/* The part that is the same in every table decides whether ASCII names are found at all. */
static int check_mandatory(const uint16_t *map, size_t covered, uint64_t offset,
                           struct base_error *e)
{
    if (covered < MANDATORY) {
        return base_damage(e, structure, offset, "UpcaseTable", covered, MANDATORY,
                           "the table has fewer than the 128 mandatory mappings");
    }
    for (uint16_t i = 0; i < MANDATORY; i++) {
        uint16_t right = i >= 'a' && i <= 'z' ? (uint16_t)(i - 'a' + 'A') : i;

        if (map[i] != right) {
            return base_damage(e, structure, offset, "UpcaseTable", map[i], right,
                               "one of the 128 mandatory mappings is wrong");
        }
    }
    return 0;
}

int exfat_upcase_init(struct exfat_upcase *u, const uint8_t *table, size_t n, uint32_t checksum,
                      uint64_t offset, struct base_error *e)
{
    uint16_t *map;
    size_t covered = 0;
    uint32_t sum;
    int err;

    memset(u, 0, sizeof *u);
    if (n == 0 || n % 2 != 0 || n > UNITS * 2) {
        return base_damage(e, structure, offset, "DataLength", n, 0,
                           "the length must be even, and from 2 to 131072 bytes");
    }
    if (is_standard(table, n)) {
        if (checksum != EXFAT_UPCASE_STANDARD_CHECKSUM) {
            return base_damage(e, structure, offset, "TableChecksum", checksum,
                               EXFAT_UPCASE_STANDARD_CHECKSUM,
                               "the checksum does not match the table");
        }
        exfat_upcase_init_standard(u);
        return 0;
    }
    sum = base_ror32_sum(0, table, n);
    if (sum != checksum) {
        return base_damage(e, structure, offset, "TableChecksum", checksum, sum,
                           "the checksum does not match the table");
    }

    map = malloc(UNITS * sizeof *map);
    if (!map) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < UNITS; i++) {
        map[i] = (uint16_t)i;
    }
    err = expand(table, n, map, &covered, offset, e);
    if (!err) {
        err = check_mandatory(map, covered, offset, e);
    }
    if (!err) {
        err = keep_pages(u, map);
    }
    free(map);
    return err;
}
