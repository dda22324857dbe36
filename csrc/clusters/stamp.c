/* Time stamps: DOS date and time, 10 ms, UTC offset in quarter hours [7.4.8 to 7.4.10]. */
#include "clusters/clusters.h"

#include "base/time.h"

#define NS_PER_TEN_MS INT64_C(10000000)
#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_MINUTE (60 * NS_PER_SECOND)
#define NS_PER_DAY (24 * 60 * NS_PER_MINUTE)
#define STAMP_FIRST (INT64_C(315532800) * NS_PER_SECOND) /* 1980-01-01 00:00:00 */
#define DATE_MASK 0xFFFF0000u
/* 2107-12-31 23:59:59.99, the last that a stamp can say */
#define STAMP_LAST (INT64_C(4354819199) * NS_PER_SECOND + 99 * NS_PER_TEN_MS)

enum {
    OFFSET_VALID = 0x80,
    MINUTES_PER_QUARTER = 15,
    QUARTERS_MIN = -64,
    QUARTERS_MAX = 63,
};

static int32_t clamp(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Seven bits, two's complement. */
static int16_t offset_minutes_of(uint8_t offset)
{
    int quarters = offset & 0x7F;

    return (int16_t)((quarters > QUARTERS_MAX ? quarters - 128 : quarters) * MINUTES_PER_QUARTER);
}

/* Days from 1980-01-01 on; year: since 1980, to 2107. A day past the end of its month is its last.
 */
static int32_t days_since_1980(int32_t year, int32_t month, int32_t day)
{
    static const int16_t before[] = {0,   31,  59,  90,  120, 151, 181,
                                     212, 243, 273, 304, 334, 365}; /* the month, in any year */
    bool leap = year % 4 == 0 && year != 120;                       /* 2100 is none */
    int32_t length = before[month] - before[month - 1] + (month == 2 && leap);
    int32_t years = year * 365 + (year + 3) / 4 - (year > 120);

    return years + before[month - 1] + (month > 2 && leap) + (day < length ? day : length) - 1;
}

int64_t clusters_stamp_ns(const struct clusters_stamp *s, const struct base_zone *zone,
                          int16_t *offset_minutes)
{
    int32_t ten_ms = clamp(s->ten_ms, 0, 199);
    int32_t month = clamp((int32_t)(s->raw >> 21 & 0xF), 1, 12);
    int32_t day = clamp((int32_t)(s->raw >> 16 & 0x1F), 1, 31);
    int32_t hour = clamp((int32_t)(s->raw >> 11 & 0x1F), 0, 23);
    int32_t minute = clamp((int32_t)(s->raw >> 5 & 0x3F), 0, 59);
    int32_t second = clamp((int32_t)(s->raw & 0x1F), 0, 29) * 2;
    int32_t days = days_since_1980((int32_t)(s->raw >> 25), month, day);
    int64_t ns = STAMP_FIRST + days * NS_PER_DAY +
                 (hour * 3600 + minute * 60 + second) * NS_PER_SECOND + ten_ms * NS_PER_TEN_MS;

    if (s->offset & OFFSET_VALID) {
        *offset_minutes = offset_minutes_of(s->offset);
        return ns - *offset_minutes * NS_PER_MINUTE;
    }
    *offset_minutes = VOLUME_NO_OFFSET;
    return ns - base_zone_offset_local(zone, ns) * NS_PER_MINUTE;
}

/* The local time at ns, within what a stamp can say. */
static struct clusters_stamp make(int64_t ns, int32_t minutes)
{
    struct clusters_stamp s = {0, 0, 0};
    struct base_civil c;

    /* Into the neighbourhood first, so that the offset cannot overflow. */
    ns = ns < STAMP_FIRST - NS_PER_DAY ? STAMP_FIRST - NS_PER_DAY : ns;
    ns = ns > STAMP_LAST + NS_PER_DAY ? STAMP_LAST + NS_PER_DAY : ns;
    ns += minutes * NS_PER_MINUTE;
    ns = ns < STAMP_FIRST ? STAMP_FIRST : ns > STAMP_LAST ? STAMP_LAST : ns;

    base_civil_from_ns(ns, &c);
    s.raw = (uint32_t)(c.year - 1980) << 25 | (uint32_t)c.month << 21 | (uint32_t)c.day << 16 |
            (uint32_t)c.hour << 11 | (uint32_t)c.minute << 5 | (uint32_t)c.second / 2;
    s.ten_ms = (uint8_t)(c.second % 2 * 100 + c.nanosecond / NS_PER_TEN_MS);
    return s;
}

struct clusters_stamp clusters_stamp_make(int64_t ns, int16_t offset_minutes,
                                          enum clusters_stamp_kind kind)
{
    int32_t half = offset_minutes < 0 ? -7 : 7; /* to the nearest quarter */
    int32_t quarters =
        clamp((offset_minutes + half) / MINUTES_PER_QUARTER, QUARTERS_MIN, QUARTERS_MAX);
    struct clusters_stamp s = make(ns, quarters * MINUTES_PER_QUARTER);

    s.offset = (uint8_t)(OFFSET_VALID | (quarters & 0x7F));
    if (kind == CLUSTERS_ACCESSED) {
        s.ten_ms = 0;
    }
    return s;
}

struct clusters_stamp clusters_stamp_make_local(int64_t ns, const struct base_zone *zone,
                                                enum clusters_stamp_kind kind)
{
    struct clusters_stamp s = make(ns, base_zone_offset_utc(zone, ns));

    if (kind != CLUSTERS_CREATED) {
        s.ten_ms = 0;
    }
    if (kind == CLUSTERS_ACCESSED) {
        s.raw &= DATE_MASK;
    }
    return s;
}

struct clusters_stamp clusters_stamp_for(const struct volume *v, int64_t ns,
                                         enum clusters_stamp_kind kind)
{
    if (v->driver->local_times) {
        return clusters_stamp_make_local(ns, &v->zone, kind);
    }
    return clusters_stamp_make(ns, base_zone_offset_utc(&v->zone, ns), kind);
}
