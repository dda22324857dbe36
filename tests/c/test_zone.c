/* Time zones, and the stamps that are made and read in them. */
#include <errno.h>
#include <string.h>

#include "base/zone.h"
#include "check.h"
#include "clusters/clusters.h"

#define SECOND INT64_C(1000000000)

/* date -u says 1711846800 of 2024-03-31 01:00, 1729990800 of 2024-10-27 01:00 */
#define SPRING INT64_C(1711846800)
#define AUTUMN INT64_C(1729990800)

static struct base_zone fixed(int16_t minutes)
{
    struct base_zone z;

    CHECK(base_zone_init(&z, &(struct base_zone_change){0, minutes}, 1) == 0);
    CHECK(base_zone_is_fixed(&z));
    return z;
}

/* Berlin in 2024: +1:00, +2:00 in summer. */
static struct base_zone berlin(void)
{
    const struct base_zone_change items[] = {{0, 60}, {SPRING, 120}, {AUTUMN, 60}};
    struct base_zone z;

    CHECK(base_zone_init(&z, items, 3) == 0);
    CHECK(!base_zone_is_fixed(&z));
    return z;
}

static void test_fixed(void)
{
    struct base_zone utc = {0}, z = fixed(-210);

    CHECK(base_zone_offset_utc(&utc, INT64_MIN) == 0 && base_zone_offset_local(&utc, 0) == 0);
    CHECK(base_zone_offset_utc(&z, INT64_MAX) == -210 && base_zone_offset_local(&z, -1) == -210);
    base_zone_free(&z);
    CHECK(base_zone_offset_utc(&z, 0) == 0);
}

static void test_changing(void)
{
    struct base_zone z = berlin();

    CHECK(base_zone_offset_utc(&z, INT64_MIN) == 60);
    CHECK(base_zone_offset_utc(&z, SPRING * SECOND - 1) == 60);
    CHECK(base_zone_offset_utc(&z, SPRING * SECOND) == 120);
    CHECK(base_zone_offset_utc(&z, AUTUMN * SECOND - 1) == 120);
    CHECK(base_zone_offset_utc(&z, AUTUMN * SECOND) == 60);
    CHECK(base_zone_offset_utc(&z, INT64_MAX) == 60);
    base_zone_free(&z);
}

/* The clock goes from 2:00 to 3:00 in spring and from 3:00 to 2:00 in autumn. */
static void test_local(void)
{
    struct base_zone z = berlin();
    int64_t two = (SPRING + 3600) * SECOND, three = (SPRING + 7200) * SECOND;

    CHECK(base_zone_offset_local(&z, two - 1) == 60);
    CHECK(base_zone_offset_local(&z, two) == 60); /* 2:00 is skipped: 1:00 UTC, which is 3:00 */
    CHECK(base_zone_offset_local(&z, three - 1) == 60);
    CHECK(base_zone_offset_local(&z, three) == 120);

    two = (AUTUMN + 3600) * SECOND;
    three = (AUTUMN + 7200) * SECOND;
    CHECK(base_zone_offset_local(&z, two - 1) == 120);
    CHECK(base_zone_offset_local(&z, two) == 120); /* 2:00 comes twice: the first is meant */
    CHECK(base_zone_offset_local(&z, three - 1) == 120);
    CHECK(base_zone_offset_local(&z, three) == 60);
    base_zone_free(&z);
}

/* Before 1970, where whole seconds are not found by cutting off. */
static void test_negative(void)
{
    const struct base_zone_change items[] = {{-1000, 0}, {-10, 30}};
    struct base_zone z;

    CHECK(base_zone_init(&z, items, 2) == 0);
    CHECK(base_zone_offset_utc(&z, -10 * SECOND) == 30);
    CHECK(base_zone_offset_utc(&z, -10 * SECOND - 1) == 0);
    CHECK(base_zone_offset_utc(&z, -11 * SECOND) == 0);
    base_zone_free(&z);
}

/* Local times of changes within a day come in the other order: each moment has one answer still. */
static void test_crowded(void)
{
    const struct base_zone_change items[] = {{0, 0}, {1000, 720}, {2000, -720}, {3000, -700}};
    struct base_zone z;

    CHECK(base_zone_init(&z, items, 4) == 0);
    CHECK(base_zone_offset_utc(&z, 1999 * SECOND) == 720);
    CHECK(base_zone_offset_utc(&z, 2000 * SECOND) == -720);
    /* 1000 + 43200 is the first, and 2000 + 43200 the second change's local time. The third's would
     * be 3000 - 42000: it waits for the second. */
    CHECK(base_zone_offset_local(&z, 44199 * SECOND) == 0);
    CHECK(base_zone_offset_local(&z, 44200 * SECOND) == 720);
    CHECK(base_zone_offset_local(&z, 45199 * SECOND) == 720);
    CHECK(base_zone_offset_local(&z, 45200 * SECOND) == -700);
    base_zone_free(&z);
}

static void test_refused(void)
{
    const struct base_zone_change same[] = {{5, 0}, {5, 60}}, back[] = {{5, 0}, {4, 60}};
    const struct base_zone_change day = {0, 1440}, ages = {INT64_MAX, 0};
    struct base_zone z;

    CHECK(base_zone_init(&z, same, 2) == -EINVAL);
    CHECK(base_zone_init(&z, back, 2) == -EINVAL);
    CHECK(base_zone_init(&z, &day, 1) == -EINVAL);
    CHECK(base_zone_init(&z, &ages, 1) == -EINVAL);
    CHECK(base_zone_init(&z, same, 0) == -EINVAL);
    base_zone_free(&z); /* it is UTC */
    CHECK(z.first == 0 && z.count == 0);
}

static void test_copy(void)
{
    struct base_zone z = berlin(), copy;

    CHECK(base_zone_copy(&copy, &z) == 0);
    base_zone_free(&z);
    CHECK(base_zone_offset_utc(&copy, SPRING * SECOND) == 120);
    CHECK(base_zone_offset_local(&copy, (AUTUMN + 3600) * SECOND) == 120);
    base_zone_free(&copy);
    z = fixed(7);
    CHECK(base_zone_copy(&copy, &z) == 0 && base_zone_offset_utc(&copy, 0) == 7);
}

/* ---- stamps in local time ---- */

static void check_local(int64_t ns, const struct base_zone *z, uint32_t date, uint32_t time,
                        uint8_t ten_ms)
{
    struct clusters_stamp s = clusters_stamp_make_local(ns, z, CLUSTERS_CREATED);

    CHECK(s.raw == (date << 16 | time) && s.ten_ms == ten_ms && s.offset == 0);
    s = clusters_stamp_make_local(ns, z, CLUSTERS_MODIFIED);
    CHECK(s.raw == (date << 16 | time) && s.ten_ms == 0 && s.offset == 0);
    s = clusters_stamp_make_local(ns, z, CLUSTERS_ACCESSED);
    CHECK(s.raw == date << 16 && s.ten_ms == 0 && s.offset == 0);
}

static int64_t read_local(uint32_t date, uint32_t time, uint8_t ten_ms, const struct base_zone *z)
{
    const struct clusters_stamp s = {date << 16 | time, ten_ms, 0};
    int16_t minutes;
    int64_t ns = clusters_stamp_ns(&s, z, &minutes);

    CHECK(minutes == VOLUME_NO_OFFSET);
    return ns;
}

/* A date is (year - 1980) * 512 + month * 32 + day, a time hour * 2048 + minute * 32 + second / 2.
 * The moments are what date -u -d '…' +%s says; the cases are those that the kernel tests itself
 * with. */
static void test_kernel_cases(void)
{
    static const struct {
        int64_t second;
        uint32_t date, time;
        int16_t minutes; /* of the zone, east of UTC */
        uint8_t ten_ms;
    } cases[] = {
        {315532800, 33, 0, 0, 0},            /* 1980-01-01 00:00:00: 0 * 512 + 32 + 1 */
        {4354819198, 65439, 49021, 0, 0},    /* 2107-12-31 23:59:58: 65024 + 384 + 31 */
        {315493200, 33, 0, 11 * 60, 0},      /* 1979-12-31 13:00 UTC, eleven hours on */
        {4354858798, 65439, 49021, -660, 0}, /* 2108-01-01 10:59:58 UTC, eleven hours back */
        {825552000, 8285, 0, 0, 0},          /* 1996-02-29: 8192 + 64 + 29 */
        {951782400, 10333, 0, 0, 0},         /* 2000-02-29: 10240 + 64 + 29 */
        {4107542400, 61537, 0, 0, 0},        /* 2100-03-01, no leap year: 61440 + 96 + 1 */
        {1078014600, 12380, 48064, -60, 0},  /* 2004-02-29 00:30 UTC is 02-28 23:30 there */
        {1078097400, 12385, 960, 60, 0},     /* 2004-02-29 23:30 UTC is 03-01 00:30 there */
        {946684799, 10143, 49021, 0, 100},   /* 1999-12-31 23:59:59: 9728 + 384 + 31 */
        {315532800, 33, 0, 0, 1},            /* 1980-01-01 00:00:00.010 */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_zone z = fixed(cases[i].minutes);
        int64_t ns = cases[i].second * SECOND + cases[i].ten_ms % 100 * INT64_C(10000000);

        check_local(ns, &z, cases[i].date, cases[i].time, cases[i].ten_ms);
        CHECK(read_local(cases[i].date, cases[i].time, cases[i].ten_ms, &z) == ns);
    }
    /* The day before 2100-03-01 is 02-28 (61440 + 64 + 28), and 2000-02-29 has one behind it. */
    check_local((4107542400 - 1) * SECOND, &(struct base_zone){0}, 61532, 49021, 100);
    check_local((951782400 + 86400) * SECOND, &(struct base_zone){0}, 10337, 0, 0);
}

static void test_limits(void)
{
    struct base_zone utc = {0}, east = fixed(1439), west = fixed(-1439);

    check_local(INT64_MIN, &utc, 33, 0, 0);
    check_local(INT64_MAX, &utc, 65439, 49021, 199);
    check_local(315532799 * SECOND, &utc, 33, 0, 0);
    check_local(315532800 * SECOND, &west, 33, 0, 0);
    check_local(INT64_C(4354819200) * SECOND, &utc, 65439, 49021, 199);
    check_local(INT64_C(4354819199) * SECOND, &east, 65439, 49021, 199);
    /* A minute less than a day before 1980 in UTC. */
    check_local((315532800 - 1439 * 60) * SECOND, &east, 33, 0, 0);
    CHECK(read_local(33, 0, 0, &east) == (315532800 - 1439 * 60) * SECOND);
    /* No stamp at all (zeros) is the first moment; 23:59:58 with 1.99 s the last. */
    CHECK(read_local(0, 0, 0, &utc) == 315532800 * SECOND);
    CHECK(read_local(65439, 49021, 199, &utc) == INT64_C(4354819199) * SECOND + 990000000);
}

/* What is finer than the stamp is cut off. */
static void test_fine(void)
{
    struct base_zone z = fixed(5 * 60 + 37);              /* no quarter of an hour */
    int64_t ns = (951782400 + 3601) * SECOND + 237999999; /* 2000-02-29 01:00:01 UTC: 06:37:01 */

    /* 6 * 2048 + 37 * 32 = 13472 */
    check_local(ns, &z, 10333, 13472, 123);
    CHECK(read_local(10333, 13472, 123, &z) == ns - 7999999);
    /* The access time is the midnight before, in local time. */
    CHECK(read_local(10333, 0, 0, &z) == (951782400 - (5 * 60 + 37) * 60) * SECOND);
}

static void test_summer(void)
{
    struct base_zone z = berlin();
    /* 2024-07-01 10:00 UTC is 12:00, 2024-12-01 10:00 UTC is 11:00. Dates: 22528 + 224 + 1, 22528 +
     * 384 + 1 */
    const int64_t july = INT64_C(1719828000), december = INT64_C(1733047200);

    check_local(july * SECOND, &z, 22753, 12 * 2048, 0);
    check_local(december * SECOND, &z, 22913, 11 * 2048, 0);
    CHECK(read_local(22753, 12 * 2048, 0, &z) == july * SECOND);
    CHECK(read_local(22913, 11 * 2048, 0, &z) == december * SECOND);
    /* 2024-10-27 02:30 comes at 00:30 and 01:30 UTC: read as the first. 22528 + 320 + 27 */
    check_local((AUTUMN - 1800) * SECOND, &z, 22875, 2 * 2048 + 960, 0);
    check_local((AUTUMN + 1800) * SECOND, &z, 22875, 2 * 2048 + 960, 0);
    CHECK(read_local(22875, 2 * 2048 + 960, 0, &z) == (AUTUMN - 1800) * SECOND);
    /* 2024-03-31 02:30 is skipped: read as 03:30, which is 01:30 UTC. 22528 + 96 + 31 */
    CHECK(read_local(22655, 2 * 2048 + 960, 0, &z) == (SPRING + 1800) * SECOND);
    check_local((SPRING + 1800) * SECOND, &z, 22655, 3 * 2048 + 960, 0);
    base_zone_free(&z);
}

int main(void)
{
    test_fixed();
    test_changing();
    test_local();
    test_negative();
    test_crowded();
    test_refused();
    test_copy();
    test_kernel_cases();
    test_limits();
    test_fine();
    test_summer();
    return 0;
}
