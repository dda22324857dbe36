/* csrc/base: values worked out by hand, from the standards, or by the C library. */
#define _GNU_SOURCE
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/env.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/map.h"
#include "base/os.h"
#include "base/runs.h"
#include "base/time.h"
#include "base/unicode.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint32_t random_state = 1;

static uint32_t any(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

static void test_bytes(void)
{
    uint8_t b[8];
    uint64_t r;

    base_put_le64(b, 0x0102030405060708u);
    CHECK(b[0] == 8 && b[3] == 5 && b[7] == 1);
    CHECK(base_le16(b) == 0x0708 && base_le32(b) == 0x05060708);
    CHECK(base_le64(b) == 0x0102030405060708u);
    CHECK(base_add_overflows(UINT64_MAX, 1, &r) && !base_add_overflows(UINT64_MAX, 0, &r));
    CHECK(base_mul_overflows(1ull << 32, 1ull << 32, &r));
    CHECK(base_div_up(0, 7) == 0 && base_div_up(1, 7) == 1 &&
          base_div_up(UINT64_MAX, 1) == UINT64_MAX);
    CHECK(base_round_up(513, 512) == 1024 && base_round_up(512, 512) == 512);
    CHECK(base_log2(1) == 0 && base_log2(4096) == 12 && base_log2(UINT64_MAX) == 63);
    CHECK(base_is_power_of_two(1) && !base_is_power_of_two(0) && !base_is_power_of_two(6));
}

static void test_checksums(void)
{
    const uint8_t digits[] = "123456789", two[] = {1, 1}, ff[] = {0xFF, 0xFF};

    CHECK(base_crc32(0, digits, 9) == 0xCBF43926); /* the check value of CRC-32/ISO-HDLC */
    CHECK(base_crc32(base_crc32(0, digits, 4), digits + 4, 5) == 0xCBF43926);
    CHECK(base_crc32(0, digits, 0) == 0);
    CHECK(base_ror16_sum(0, two, 2) == 0x8001);       /* 1 turned right is 8000, plus 1 */
    CHECK(base_ror16_sum(0, ff, 2) == 0x807F + 0xFF); /* FF turned right is 807F */
    CHECK(base_ror16_sum(0xFFFF, two, 1) == 0);       /* all ones stay all ones, plus 1 wraps */
    CHECK(base_ror32_sum(0, two, 2) == 0x80000001);
    CHECK(base_ror32_sum(0xFFFFFFFF, two, 1) == 0); /* all ones stay all ones, plus 1 wraps */
    CHECK(base_hash64("a", 1, 0) != base_hash64("b", 1, 0));
    CHECK(base_hash64("a", 1, 0) != base_hash64("a", 1, 1));
    CHECK(base_hash64("a\0", 1, 0) != base_hash64("a\0", 2, 0));
    CHECK(base_hash64("abcdefgh", 8, 0) == base_hash64("abcdefgh", 8, 0));
}

static void test_error(void)
{
    struct base_error e;
    char longest[300];

    base_error_clear(&e);
    CHECK(base_damage(&e, "FAT", 512, "entry", 1, 2, "why") == -EUCLEAN);
    CHECK(base_bad_argument(&e, "size", "no") == -EINVAL);
    CHECK(e.kind == BASE_ERROR_DAMAGE && strcmp(e.structure, "FAT") == 0); /* the first one wins */
    CHECK(e.offset == 512 && e.found == 1 && e.expected == 2 && strcmp(e.detail, "why") == 0);
    base_error_clear(&e);
    CHECK(base_unsupported(&e, "TexFAT", "x") == -EOPNOTSUPP && e.kind == BASE_ERROR_UNSUPPORTED);
    CHECK(base_damage(NULL, "FAT", 0, "", 0, 0, "") == -EUCLEAN);
    /* Text that is too long ends at a whole character: 126 letters and a two-byte one do not fit.
     */
    memset(longest, 'a', sizeof longest);
    strcpy(longest + 126, "\xC3\xA4\xC3\xA4");
    base_error_clear(&e);
    base_bad_argument(&e, "x", longest);
    CHECK(strlen(e.detail) == 126);
}

static void test_env(void)
{
    struct env e;
    uint8_t b[13], uuid[16];
    int64_t before;

    env_init_fixed(&e, 1234567, 1000, 10);
    CHECK(e.now(&e) == 1000 && e.now(&e) == 1010);
    /* The first numbers of splitmix64 from 1234567, as its authors' code prints them. */
    e.random(&e, b, 8);
    CHECK(base_le64(b) == 6457827717110365317u);
    e.random(&e, b, 13);
    CHECK(base_le64(b) == 3203168211198807973u);
    CHECK(base_le32(b + 8) == (uint32_t)9817491932198370423u);
    env_uuid4(&e, uuid);
    CHECK(uuid[6] >> 4 == 4 && uuid[8] >> 6 == 2);
    env_init_system(&e);
    before = os_now_ns();
    CHECK(e.now(&e) >= before && before > 1700000000ll * 1000000000);
    CHECK(env_random32(&e) != env_random32(&e) || env_random32(&e) != env_random32(&e));
}

static int utf16(const char *s, uint16_t *out, size_t cap)
{
    return base_utf8_to_utf16(s, strlen(s), out, cap);
}

static void test_unicode(void)
{
    static const char *const bad[] = {
        "\x80",         "\xC0\x80",         "\xC1\xBF",         "\xC3",      "\xC3(",
        "\xE0\x80\x80", "\xE0\x9F\xBF",     "\xE2\x82",         "\xE2(\xA1", "\xF0\x8F\xBF\xBF",
        "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF",      "a\xFE",
    };
    uint16_t u[8];
    char s[8];

    CHECK(utf16("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", u, 8) == 5);
    CHECK(u[0] == 'a' && u[1] == 0xE4 && u[2] == 0x20AC && u[3] == 0xD83D && u[4] == 0xDE00);
    CHECK(base_utf16_to_utf8(u, 5, s, 8) == -ENAMETOOLONG);
    CHECK(base_utf16_to_utf8(u + 3, 2, s, 8) == 4 && memcmp(s, "\xF0\x9F\x98\x80", 4) == 0);
    CHECK(utf16("\xED\xA0\xBD", u, 8) == 1 && u[0] == 0xD83D); /* a lone surrogate, and back */
    CHECK(base_utf16_to_utf8(u, 1, s, 8) == 3 && memcmp(s, "\xED\xA0\xBD", 3) == 0);
    CHECK(utf16("ab", u, 1) == -ENAMETOOLONG);
    CHECK(utf16("\xF0\x9F\x98\x80", u, 1) == -ENAMETOOLONG);
    CHECK(utf16("", u, 0) == 0 && base_utf16_to_utf8(u, 0, s, 0) == 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(utf16(bad[i], u, 8) == -EILSEQ);
    }
    for (uint32_t c = 0; c <= 0x10FFFF; c++) { /* every code point comes back */
        uint16_t in[2] = {(uint16_t)c, 0};
        size_t n = 1;
        int length;

        if (c >= 0x10000) {
            in[0] = (uint16_t)(0xD7C0 + (c >> 10));
            in[1] = (uint16_t)(0xDC00 | (c & 0x3FF));
            n = 2;
        }
        length = base_utf16_to_utf8(in, n, s, 8);
        CHECK(length == (c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4));
        CHECK(base_utf8_to_utf16(s, (size_t)length, u, 8) == (int)n);
        CHECK(u[0] == in[0] && (n == 1 || u[1] == in[1]));
    }
}

static void check_civil(int64_t ns, int year, int month, int day, int hour, int minute, int second,
                        int nanosecond)
{
    struct base_civil c;

    base_civil_from_ns(ns, &c);
    CHECK(c.year == year && c.month == month && c.day == day);
    CHECK(c.hour == hour && c.minute == minute && c.second == second);
    CHECK(c.nanosecond == nanosecond);
}

static void test_time(void)
{
    check_civil(0, 1970, 1, 1, 0, 0, 0, 0);
    check_civil(-1, 1969, 12, 31, 23, 59, 59, 999999999);
    check_civil(315532800ll * 1000000000, 1980, 1, 1, 0, 0, 0, 0);
    check_civil(951782400ll * 1000000000, 2000, 2, 29, 0, 0, 0, 0);
    check_civil(INT64_MIN, 1677, 9, 21, 0, 12, 43, 145224192);
    check_civil(INT64_MAX, 2262, 4, 11, 23, 47, 16, 854775807);
    for (int64_t day = -100000; day < 100000; day += 7) { /* as the C library has it */
        time_t t = (time_t)(day * 86400 + day % 86400);
        struct tm tm;

        CHECK(gmtime_r(&t, &tm));
        check_civil((int64_t)t * 1000000000 + 5, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                    tm.tm_hour, tm.tm_min, tm.tm_sec, 5);
    }
}

#define KEYS 500

static void test_map(void)
{
    static char values[KEYS];
    static void *model[KEYS];
    struct base_map m;
    size_t count = 0, seen = 0, cursor = 0;
    uint64_t key;

    base_map_init(&m);
    CHECK(!base_map_get(&m, 1) && !base_map_remove(&m, 1) && !base_map_next(&m, &cursor, &key));
    for (int i = 0; i < 200000; i++) {
        uint32_t k = any(KEYS);
        uint64_t spread = k % 2 ? k : (uint64_t)k << 40; /* near and far apart */

        if (any(100) < (i / 20000 % 2 ? 30 : 60)) {
            void *value = &values[any(KEYS)];

            count += !model[k];
            model[k] = value;
            CHECK(base_map_put(&m, spread, value) == 0);
        } else {
            CHECK(base_map_remove(&m, spread) == model[k]);
            count -= !!model[k];
            model[k] = NULL;
        }
        k = any(KEYS);
        CHECK(base_map_get(&m, k % 2 ? k : (uint64_t)k << 40) == model[k]);
        CHECK(m.count == count);
    }
    cursor = 0;
    for (void *v; (v = base_map_next(&m, &cursor, &key)); seen++) {
        CHECK(model[key % 2 ? key : key >> 40] == v);
    }
    CHECK(seen == count && base_map_bytes(&m) >= count * 16);
    base_map_free(&m);
    CHECK(m.count == 0 && base_map_bytes(&m) == 0);

    CHECK(base_map_reserve(&m, 0) == 0 && base_map_bytes(&m) == 0);
    CHECK(base_map_reserve(&m, 1000) == 0 && base_map_bytes(&m) >= 1000 * 16);
    size_t reserved = base_map_bytes(&m);
    for (uint64_t k = 0; k < 1000; k++) {
        CHECK(base_map_put(&m, k, values) == 0);
    }
    CHECK(m.count == 1000 && base_map_bytes(&m) == reserved);
    base_map_free(&m);
}

static void test_grow(void)
{
    uint32_t *v = NULL, *same, seed = random_state;
    size_t cap = 0;

    for (size_t n = 0; n < 1000; n++) {
        v = base_grow(v, n, 1, &cap, 3, sizeof *v);
        CHECK(v && cap > n);
        v[n] = any(UINT32_MAX);
    }
    CHECK(cap == 3 << 9); /* 1,536: doubled nine times */
    random_state = seed;
    for (size_t n = 0; n < 1000; n++) {
        CHECK(v[n] == any(UINT32_MAX));
    }
    same = base_grow(v, 1000, 536, &cap, 3, sizeof *v);
    CHECK(same == v && cap == 1536);
    CHECK(!base_grow(v, 1000, SIZE_MAX - 999, &cap, 3, sizeof *v) && cap == 1536);
    CHECK(!base_grow(v, 1000, SIZE_MAX / 4, &cap, 3, sizeof *v) && cap == 1536);
    v = base_grow(v, 1000, 5000, &cap, 3, sizeof *v);
    CHECK(v && cap == 6000);
    free(v);
}

static void test_runs(void)
{
    struct base_runs r;
    uint64_t disk[4000], n = 0, d, c;

    base_runs_init(&r);
    CHECK(!base_runs_find(&r, 0, &d, &c));
    CHECK(base_runs_append(&r, 10, 0) == 0 && r.n == 0);
    for (int round = 0; round < 330; round++) {
        uint64_t at = any(3) ? 100000u + any(100000) : n ? disk[n - 1] + 1 : 5, count = 1 + any(10);

        CHECK(base_runs_append(&r, at, count) == 0);
        for (uint64_t i = 0; i < count; i++) {
            disk[n++] = at + i;
        }
        if (round % 50 == 49) {
            n = round % 100 == 99 ? 0 : n - any((uint32_t)n);
            base_runs_truncate(&r, n);
            base_runs_truncate(&r, n + 10);
        }
        CHECK(r.covered == n);
    }
    CHECK(n > 100 && r.n > 10);
    for (uint64_t i = 0; i < n; i++) {
        CHECK(base_runs_find(&r, i, &d, &c) && d == disk[i] && c > 0);
        for (uint64_t k = 0; k < c; k++) {
            CHECK(disk[i + k] == d + k);
        }
        CHECK(i + c == n || disk[i + c] != d + c); /* and not shorter than it is */
    }
    CHECK(!base_runs_find(&r, n, &d, &c) && base_runs_bytes(&r) > 0);
    base_runs_free(&r);
    CHECK(base_runs_append(&r, 7, 2) == 0 && base_runs_append(&r, 9, 3) == 0 && r.n == 1);
    base_runs_free(&r);
}

static void test_file(void)
{
    char path[] = "/tmp/pyexfat-base-XXXXXX";
    struct os_file_info info;
    uint8_t end[8];
    int made = mkstemp(path), fd;

    CHECK(made >= 0 && close(made) == 0);
    CHECK(os_file_open(path, OS_OPEN_WRITE, &fd, &info) == 0 && info.is_regular && info.size == 0);
    CHECK(os_file_resize(fd, 4 << 20) == 0);
    CHECK(os_file_open(path, OS_OPEN_CREATE | OS_OPEN_EXCLUSIVE, &made, &info) == -EEXIST);
    CHECK(os_file_open("/tmp", 0, &made, &info) == -EISDIR);
    CHECK(os_file_open("/dev/null", OS_OPEN_WRITE, &made, &info) == -ENOTBLK);
    CHECK(os_file_open("/tmp/no/such", 0, &made, &info) == -ENOENT);
    CHECK(os_file_read(fd, (4 << 20) - 4, end, sizeof end) == -EIO); /* the end comes in between */
    CHECK(os_file_open(path, OS_OPEN_WRITE, &made, &info) == -EBUSY);
    made = dup(fd); /* shares the lock, which goes all the same */
    CHECK(made >= 0 && os_file_release(fd) == 0);
    CHECK(os_file_open(path, OS_OPEN_WRITE, &fd, &info) == 0);
    CHECK(os_file_close(made) == 0 && os_file_close(fd) == 0 && unlink(path) == 0);
}

static void test_large_memory(void)
{
    uint8_t *p = os_reserve(4 * OS_LARGE);

    CHECK(p && (uintptr_t)p % OS_LARGE == 0);
    CHECK(os_commit(p, OS_LARGE));
    for (size_t i = 0; i < OS_LARGE; i++) {
        CHECK(p[i] == 0);
    }
    memset(p, 1, OS_LARGE);
    CHECK(os_commit(p + OS_LARGE, 2 * OS_LARGE)); /* what is there stays */
    CHECK(p[0] == 1 && p[OS_LARGE - 1] == 1 && p[OS_LARGE] == 0 && p[3 * OS_LARGE - 1] == 0);
    os_decommit(p, OS_LARGE);
    CHECK(os_commit(p, OS_LARGE) && p[0] == 0);
    os_unreserve(p, 4 * OS_LARGE);
    CHECK(os_reserve(SIZE_MAX / OS_LARGE * OS_LARGE) == NULL);
}

int main(void)
{
    test_large_memory();
    test_bytes();
    test_checksums();
    test_error();
    test_env();
    test_unicode();
    test_time();
    test_map();
    test_grow();
    test_runs();
    test_file();
    return 0;
}
