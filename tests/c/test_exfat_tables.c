/* Up-case tables and time stamps, against values worked out by hand. */
#include "exfat/exfat.h"

#include "base/checksum.h"
#include "check.h"

#include <errno.h>

#define SECOND INT64_C(1000000000)

/* ---- up-case tables ---- */

enum { PLAIN_BYTES = 0x20000 };

static uint8_t standard[BASE_UPCASE_BYTES];

/* The first 128 mappings, which every table has, in compressed form: identity up to U+0060, then A
 * to Z, then identity. */
static size_t put_ascii(uint8_t *p)
{
    size_t n = 0;

    base_put_le16(p + 2 * n++, 0xFFFF);
    base_put_le16(p + 2 * n++, 0x61);
    for (uint16_t c = 'A'; c <= 'Z'; c++) {
        base_put_le16(p + 2 * n++, c);
    }
    base_put_le16(p + 2 * n++, 0xFFFF);
    base_put_le16(p + 2 * n++, 5);
    return 2 * n;
}

static int load(struct exfat_upcase *u, const uint8_t *table, size_t n, struct base_error *e)
{
    base_error_clear(e);
    return exfat_upcase_init(u, table, n, base_ror32_sum(0, table, n), 4096, e);
}

static void refuse(const uint8_t *table, size_t n, const char *field)
{
    struct exfat_upcase u;
    struct base_error e = {0};

    CHECK(load(&u, table, n, &e) == -EUCLEAN);
    CHECK(e.kind == BASE_ERROR_DAMAGE && strcmp(e.structure, "up-case table") == 0);
    CHECK(strcmp(e.field, field) == 0);
    CHECK(u.owned == NULL);
    exfat_upcase_free(&u);
}

static void test_standard(void)
{
    struct exfat_upcase u, by_name;
    struct base_error e = {0};

    for (size_t i = 0; i < sizeof standard / 2; i++) {
        base_put_le16(standard + 2 * i, base_upcase_table[i]);
    }
    CHECK(base_ror32_sum(0, standard, sizeof standard) == 0xE619D30D); /* [7.2.5.1] */
    CHECK(load(&u, standard, sizeof standard, &e) == 0);
    CHECK(u.owned == NULL);
    CHECK(exfat_upcase_unit(&u, 'a') == 'A' && exfat_upcase_unit(&u, 'z') == 'Z');
    CHECK(exfat_upcase_unit(&u, '`') == '`' && exfat_upcase_unit(&u, '{') == '{');
    CHECK(exfat_upcase_unit(&u, 0x00E4) == 0x00C4); /* a with diaeresis */
    CHECK(exfat_upcase_unit(&u, 0x00DF) == 0x00DF); /* sharp s has no capital here */
    CHECK(exfat_upcase_unit(&u, 0x00FF) == 0x0178);
    CHECK(exfat_upcase_unit(&u, 0x03B1) == 0x0391); /* alpha */
    CHECK(exfat_upcase_unit(&u, 0x044F) == 0x042F); /* ya */
    CHECK(exfat_upcase_unit(&u, 0xFB00) == 0xFB00); /* ligature ff */
    CHECK(exfat_upcase_unit(&u, 0xFF5A) == 0xFF3A); /* full-width z */
    CHECK(exfat_upcase_unit(&u, 0xFFFF) == 0xFFFF);
    exfat_upcase_init_standard(&by_name);
    CHECK(memcmp(&u, &by_name, sizeof u) == 0);

    base_error_clear(&e);
    CHECK(exfat_upcase_init(&u, standard, sizeof standard, 0xE619D30C, 0, &e) == -EUCLEAN);
    CHECK(strcmp(e.field, "TableChecksum") == 0 && e.expected == 0xE619D30D);
}

/* The generated pages say what the compressed table says, which here goes through the reader of
 * other tables. */
static void test_pages(void)
{
    static uint8_t table[BASE_UPCASE_BYTES];
    struct exfat_upcase constant, read;
    struct base_error e = {0};

    memcpy(table, standard, sizeof table);
    /* The last two mappings, U+FFFE and U+FFFF, become a run: other bytes with the same meaning. */
    base_put_le16(table + sizeof table - 4, 0xFFFF);
    base_put_le16(table + sizeof table - 2, 2);
    exfat_upcase_init_standard(&constant);
    CHECK(load(&read, table, sizeof table, &e) == 0);
    CHECK(read.owned != NULL);
    for (uint32_t c = 0; c < 0x10000; c++) {
        CHECK(exfat_upcase_unit(&constant, (uint16_t)c) == exfat_upcase_unit(&read, (uint16_t)c));
    }
    exfat_upcase_free(&read);
}

static void test_plain(void)
{
    static uint8_t table[PLAIN_BYTES + 2];
    struct exfat_upcase constant, read;
    struct base_error e = {0};

    exfat_upcase_init_standard(&constant);
    for (uint32_t c = 0; c < 0x10000; c++) {
        base_put_le16(table + 2 * c, exfat_upcase_unit(&constant, (uint16_t)c));
    }
    CHECK(load(&read, table, PLAIN_BYTES, &e) == 0);
    for (uint32_t c = 0; c < 0x10000; c++) {
        CHECK(exfat_upcase_unit(&constant, (uint16_t)c) == exfat_upcase_unit(&read, (uint16_t)c));
    }
    exfat_upcase_free(&read);
    refuse(table, PLAIN_BYTES + 2, "DataLength");
}

static void test_short(void)
{
    uint8_t table[256];
    struct exfat_upcase u;
    struct base_error e = {0};
    size_t n = put_ascii(table);

    CHECK(load(&u, table, n, &e) == 0); /* 128 mappings are enough; all others are the identity */
    CHECK(exfat_upcase_unit(&u, 'q') == 'Q' && exfat_upcase_unit(&u, 0xE4) == 0xE4);
    CHECK(u.page[0] != NULL && u.page[1] == NULL && u.page[255] == NULL);
    exfat_upcase_free(&u);

    for (uint16_t c = 0; c < 128; c++) { /* the same, plain */
        base_put_le16(table + 2 * c, c >= 'a' && c <= 'z' ? (uint16_t)(c - 32) : c);
    }
    CHECK(load(&u, table, 256, &e) == 0);
    CHECK(exfat_upcase_unit(&u, 'a') == 'A' && exfat_upcase_unit(&u, 0x80) == 0x80);
    exfat_upcase_free(&u);
    refuse(table, 254, "UpcaseTable");
    base_put_le16(table + 2 * 'b', 'b');
    refuse(table, 256, "UpcaseTable");
}

static void test_bad_tables(void)
{
    uint8_t table[256];
    struct exfat_upcase u;
    struct base_error e = {0};
    size_t n = put_ascii(table);

    refuse(table, 0, "DataLength");
    refuse(table, n - 1, "DataLength");
    refuse(table, n - 2, "UpcaseTable"); /* ends where a count should be */
    CHECK(exfat_upcase_init(&u, table, n, 1, 0, &e) == -EUCLEAN);
    base_put_le16(table + n - 2, 0xFFFF); /* a run past the last unit: 123 + 65535 */
    refuse(table, n, "UpcaseTable");
    base_put_le16(table + n - 2, 0x10000 - 123); /* up to the last unit is right … */
    CHECK(load(&u, table, n, &e) == 0);
    exfat_upcase_free(&u);
    base_put_le16(table + n, 0x1234); /* … and then nothing may follow */
    refuse(table, n + 2, "UpcaseTable");
}

/* ---- time stamps ---- */

static uint32_t raw(unsigned year, unsigned month, unsigned day, unsigned hour, unsigned minute,
                    unsigned two_seconds)
{
    return (year - 1980) << 25 | month << 21 | day << 16 | hour << 11 | minute << 5 | two_seconds;
}

static void check_read(uint32_t bits, uint8_t ten_ms, uint8_t offset, int16_t fallback, int64_t ns,
                       int16_t minutes)
{
    struct clusters_stamp s = {bits, ten_ms, offset};
    struct base_zone zone;
    int16_t got;

    CHECK(base_zone_init(&zone, &(struct base_zone_change){0, fallback}, 1) == 0);
    CHECK(clusters_stamp_ns(&s, &zone, &got) == ns);
    CHECK(got == minutes);
}

static void test_stamp_read(void)
{
    /* date -u -d '…' +%s says 315532800, 1709164799, 1709164800, 951782400, 4354819199 */
    check_read(raw(1980, 1, 1, 0, 0, 0), 0, 0x80, 90, 315532800 * SECOND, 0);
    check_read(raw(2024, 2, 28, 23, 59, 29), 199, 0x80, 0, 1709164799 * SECOND + 990000000, 0);
    check_read(raw(2024, 2, 29, 0, 0, 0), 0, 0x80, 0, 1709164800 * SECOND, 0);
    check_read(raw(2107, 12, 31, 23, 59, 29), 199, 0x80, 0,
               INT64_C(4354819199) * SECOND + 990000000, 0);
    /* 2000-02-29 00:00 in India, California, at the ends of the seven bits, and without an offset
     */
    check_read(raw(2000, 2, 29, 0, 0, 0), 0, 0x80 | 22, 0, (951782400 - 19800) * SECOND, 330);
    check_read(raw(2000, 2, 29, 0, 0, 0), 0, 0xE0, 0, (951782400 + 28800) * SECOND, -480);
    check_read(raw(2000, 2, 29, 0, 0, 0), 0, 0xBF, 0, (951782400 - 56700) * SECOND, 945);
    check_read(raw(2000, 2, 29, 0, 0, 0), 0, 0xC0, 0, (951782400 + 57600) * SECOND, -960);
    check_read(raw(2000, 2, 29, 0, 0, 0), 0, 0x16, -60, (951782400 + 3600) * SECOND,
               VOLUME_NO_OFFSET);
    check_read(raw(2000, 2, 29, 0, 0, 0), 0, 0, 0, 951782400 * SECOND, VOLUME_NO_OFFSET);
    /* Out of range: the nearest that is in it. 2001-02-31 is 2001-02-28 (983318400). */
    check_read(raw(2001, 2, 31, 0, 0, 0), 0, 0x80, 0, 983318400 * SECOND, 0);
    check_read(raw(1980, 0, 0, 0, 0, 0), 0, 0x80, 0, 315532800 * SECOND, 0);
    check_read(raw(2107, 15, 31, 31, 63, 31), 255, 0x80, 0,
               INT64_C(4354819199) * SECOND + 990000000, 0);
    check_read(UINT32_MAX, 255, 0x80, 0, INT64_C(4354819199) * SECOND + 990000000, 0);
    check_read(0, 255, 0x80, 0, 315532801 * SECOND + 990000000, 0);
}

static void check_make(int64_t ns, int16_t minutes, uint32_t bits, uint8_t ten_ms, uint8_t offset)
{
    struct clusters_stamp s = clusters_stamp_make(ns, minutes, CLUSTERS_MODIFIED);

    CHECK(s.raw == bits && s.ten_ms == ten_ms && s.offset == offset);
    s = clusters_stamp_make(ns, minutes, CLUSTERS_ACCESSED);
    CHECK(s.raw == bits && s.ten_ms == 0 && s.offset == offset);
}

static void test_stamp_make(void)
{
    check_make(1709164799 * SECOND + 999999999, 0, raw(2024, 2, 28, 23, 59, 29), 199, 0x80);
    check_make(1709164800 * SECOND + 9999999, 0, raw(2024, 2, 29, 0, 0, 0), 0, 0x80);
    check_make(1709164800 * SECOND + 10000000, 0, raw(2024, 2, 29, 0, 0, 0), 1, 0x80);
    check_make((951782400 - 19800) * SECOND, 330, raw(2000, 2, 29, 0, 0, 0), 0, 0x96);
    check_make((951782400 + 28800) * SECOND, -480, raw(2000, 2, 29, 0, 0, 0), 0, 0xE0);
    /* Offsets between quarters go to the nearest, and the moment stays the same. */
    check_make((951782400 - 900) * SECOND, 20, raw(2000, 2, 29, 0, 0, 0), 0, 0x81);
    check_make((951782400 + 900) * SECOND, -8, raw(2000, 2, 29, 0, 0, 0), 0, 0xFF);
    check_make(951782400 * SECOND, -7, raw(2000, 2, 29, 0, 0, 0), 0, 0x80);
    /* Before 1980 and after 2107. */
    check_make(0, 0, raw(1980, 1, 1, 0, 0, 0), 0, 0x80);
    check_make(INT64_MIN, -960, raw(1980, 1, 1, 0, 0, 0), 0, 0xC0);
    check_make(INT64_MAX, 32767, raw(2107, 12, 31, 23, 59, 29), 199, 0xBF);
    check_make(315532800 * SECOND, -60, raw(1980, 1, 1, 0, 0, 0), 0, 0xFC);
}

static void test_stamp_round_trip(void)
{
    const struct base_zone utc = {0};
    int64_t last = INT64_C(4354819199) * SECOND;

    for (int64_t ns = 315532800 * SECOND + 86400 * SECOND; ns < last - 86400 * SECOND;
         ns += 40009 * 1009 * SECOND / 7 / 10000000 * 10000000) {
        for (int16_t minutes = -960; minutes <= 945; minutes = (int16_t)(minutes + 15)) {
            struct clusters_stamp s = clusters_stamp_make(ns, minutes, CLUSTERS_MODIFIED);
            int16_t got;

            CHECK(clusters_stamp_ns(&s, &utc, &got) == ns);
            CHECK(got == minutes);
        }
    }
}

int main(void)
{
    test_standard();
    test_pages();
    test_plain();
    test_short();
    test_bad_tables();
    test_stamp_read();
    test_stamp_make();
    test_stamp_round_trip();
    return 0;
}
