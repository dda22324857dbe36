/* Code pages: bytes to UTF-16 and back, of the built-in one and of tables. */
#include <string.h>

#include "check.h"
#include "fat/fat.h"

/* Microsoft's table of code page 437. */
static const struct {
    uint8_t byte;
    uint16_t unit;
} known[] = {
    {0x20, 0x0020}, {0x41, 0x0041}, {0x7E, 0x007E}, {0x80, 0x00C7}, {0x82, 0x00E9}, {0x84, 0x00E4},
    {0x98, 0x00FF}, {0x9B, 0x00A2}, {0x9E, 0x20A7}, {0x9F, 0x0192}, {0xA9, 0x2310}, {0xB0, 0x2591},
    {0xDB, 0x2588}, {0xE0, 0x03B1}, {0xE1, 0x00DF}, {0xE2, 0x0393}, {0xE3, 0x03C0}, {0xE5, 0x03C3},
    {0xE6, 0x00B5}, {0xEC, 0x221E}, {0xF3, 0x2264}, {0xFB, 0x221A}, {0xFE, 0x25A0}, {0xFF, 0x00A0},
};

static struct volume_codepage *table_new(void)
{
    struct volume_codepage *t = malloc(sizeof *t);

    CHECK(t);
    memset(t->unit, 0xFF, sizeof t->unit);
    memset(t->preferred, 0, sizeof t->preferred);
    for (uint16_t i = 0; i < 0x80; i++) {
        t->unit[i] = i;
    }
    return t;
}

static struct fat_codepage *made(const struct volume_codepage *t)
{
    struct fat_codepage *c;

    CHECK(fat_codepage_new(t, &c) == 0);
    return c;
}

static void check_decode(const struct fat_codepage *c, const char *bytes, uint32_t n,
                         const uint16_t *units, uint32_t count)
{
    uint16_t out[16];

    CHECK(fat_codepage_decode(c, (const uint8_t *)bytes, n, out) == count);
    CHECK(memcmp(out, units, count * sizeof *out) == 0);
}

/* 0: the unit has no code. */
static uint32_t encoded(const struct fat_codepage *c, uint16_t unit)
{
    uint8_t out[2] = {0, 0};
    uint32_t n = fat_codepage_encode(c, unit, out);

    return n == 0 ? 0 : n == 1 ? out[0] : (uint32_t)out[0] << 8 | out[1];
}

/* Whatever can be written is read as the same again. Returns how many units that are. */
static uint32_t check_lossless(const struct fat_codepage *c)
{
    uint32_t count = 0;

    for (uint32_t unit = 0; unit <= UINT16_MAX; unit++) {
        uint8_t bytes[2];
        uint16_t back[2];
        uint32_t n = fat_codepage_encode(c, (uint16_t)unit, bytes);

        CHECK(n <= 2);
        if (n > 0) {
            CHECK(fat_codepage_decode(c, bytes, n, back) == 1);
            CHECK(back[0] == unit);
            count++;
        }
    }
    return count;
}

static void test_437(void)
{
    struct fat_codepage *c = made(NULL);

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char byte = (char)known[i].byte;

        check_decode(c, &byte, 1, &known[i].unit, 1);
        CHECK(encoded(c, known[i].unit) == known[i].byte);
    }
    CHECK(check_lossless(c) == 255); /* all but byte 0 */
    CHECK(encoded(c, 0) == 0 && encoded(c, 0x20AC) == 0 && encoded(c, 0xFFFD) == 0 &&
          encoded(c, 0xFFFF) == 0 && encoded(c, 0xD83D) == 0);
    check_decode(c, "\0A", 2, (const uint16_t[]){0xFFFD, 'A'}, 2);
    check_decode(c, "", 0, (const uint16_t[]){0}, 0);
    fat_codepage_delete(c);
}

/* Like 932: あ is 82 A0, and 7E8A has two codes of which Windows writes the second. */
static void test_pairs(void)
{
    struct volume_codepage *t = table_new();
    struct fat_codepage *c;

    t->unit[0xB1] = 0xFF71;
    t->unit[0x82A0] = 0x3042;
    t->unit[0x825C] = 0x8868; /* its second byte is a backslash by itself */
    t->unit[0xED40] = t->unit[0xFA5C] = 0x7E8A;
    t->unit[0xEEEF] = t->unit[0xFA40] = 0x2170;
    t->preferred[0x7E8A] = 0xFA5C;
    c = made(t);
    free(t); /* it was copied */

    check_decode(c, "A\x82\xA0\xB1", 4, (const uint16_t[]){'A', 0x3042, 0xFF71}, 3);
    check_decode(c, "\x82\\x", 3, (const uint16_t[]){0x8868, 'x'}, 2);
    check_decode(c, "\xED\x40\xFA\x5C", 4, (const uint16_t[]){0x7E8A, 0x7E8A}, 2);
    CHECK(encoded(c, 0x3042) == 0x82A0 && encoded(c, 0xFF71) == 0xB1);
    CHECK(encoded(c, 0x7E8A) == 0xFA5C);
    CHECK(encoded(c, 0x2170) == 0xEEEF); /* nothing is preferred: the lowest */
    CHECK(check_lossless(c) == 127 + 5);
    fat_codepage_delete(c);
}

/* A lead byte with a wrong byte or nothing behind it, and bytes that mean nothing. */
static void test_broken_pairs(void)
{
    struct volume_codepage *t = table_new();
    struct fat_codepage *c;

    t->unit[0x82A0] = 0x3042;
    c = made(t);
    free(t);
    check_decode(c,
                 "\x82"
                 "A",
                 2, (const uint16_t[]){0xFFFD, 'A'}, 2);
    check_decode(c, "A\x82", 2, (const uint16_t[]){'A', 0xFFFD}, 2);
    check_decode(c, "\x82\x82\xA0", 3, (const uint16_t[]){0xFFFD, 0x3042}, 2);
    check_decode(c, "\xA0\xFF", 2, (const uint16_t[]){0xFFFD, 0xFFFD}, 2);
    fat_codepage_delete(c);
}

/* A table that contradicts itself never makes a code that means something else. */
static void test_bad_table(void)
{
    struct volume_codepage *t = table_new();
    struct fat_codepage *c;

    t->unit[0x90] = 0x00E9; /* a byte by itself, so that 90 41 is no pair */
    t->unit[0x9041] = 0x3042;
    t->unit[0x9120] = 0x3044; /* a blank at the end of a name would be lost */
    t->unit[0x9142] = 0xFFFD; /* it stands for what is not known */
    t->unit[0x9143] = 0;
    t->preferred[0x00E9] = 0x9143; /* wrong: means another unit */
    t->preferred[0x20AC] = 0x80;   /* wrong: unmapped */
    c = made(t);
    free(t);
    check_decode(c,
                 "\x90"
                 "A",
                 2, (const uint16_t[]){0x00E9, 'A'}, 2);
    CHECK(encoded(c, 0x3042) == 0 && encoded(c, 0x3044) == 0 && encoded(c, 0xFFFD) == 0);
    CHECK(encoded(c, 0x00E9) == 0x90 && encoded(c, 0x20AC) == 0);
    CHECK(check_lossless(c) == 127 + 1);
    fat_codepage_delete(c);
    fat_codepage_delete(NULL);
}

/* Every byte leads somewhere: as much memory as there can be. */
static void test_full_table(void)
{
    struct volume_codepage *t = table_new();
    struct fat_codepage *c;

    for (uint32_t code = 0x8000; code < VOLUME_CODEPAGE_CODES; code++) {
        t->unit[code] = (uint16_t)code;
    }
    c = made(t);
    free(t);
    CHECK(encoded(c, 0xABCD) == 0xABCD);
    /* 127 bytes, and 128 leads with the trails 0x21 to 0xFF, without U+FFFD and U+FFFF */
    CHECK(check_lossless(c) == 127 + 128 * 223 - 2);
    fat_codepage_delete(c);
}

int main(void)
{
    test_437();
    test_pairs();
    test_broken_pairs();
    test_bad_table();
    test_full_table();
    return 0;
}
