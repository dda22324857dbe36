/* Time stamps: DOS date and time, 10 ms, UTC offset in quarter hours [7.4.8 to 7.4.10]. */
#include "clusters/clusters.h"

#include "base/time.h"

#define NS_PER_TEN_MS INT64_C(10000000)
#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_MINUTE (60 * NS_PER_SECOND)
#define NS_PER_DAY (24 * 60 * NS_PER_MINUTE)
#define STAMP_FIRST (INT64_C(315532800) * NS_PER_SECOND) /* 1980-01-01 00:00:00 */
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

int64_t clusters_stamp_ns(const struct clusters_stamp *s, int16_t default_offset,
                          int16_t *offset_minutes)
{
    int32_t ten_ms = clamp(s->ten_ms, 0, 199);
    struct base_civil c = {
        .year = 1980 + (int32_t)(s->raw >> 25),
        .month = clamp((int32_t)(s->raw >> 21 & 0xF), 1, 12),
        .day = clamp((int32_t)(s->raw >> 16 & 0x1F), 1, 31),
        .hour = clamp((int32_t)(s->raw >> 11 & 0x1F), 0, 23),
        .minute = clamp((int32_t)(s->raw >> 5 & 0x3F), 0, 59),
        .second = clamp((int32_t)(s->raw & 0x1F), 0, 29) * 2 + ten_ms / 100,
        .nanosecond = ten_ms % 100 * (int32_t)NS_PER_TEN_MS,
    };
    int16_t minutes = default_offset == VOLUME_NO_OFFSET ? 0 : default_offset;
    int64_t ns;

    *offset_minutes = VOLUME_NO_OFFSET;
    if (s->offset & OFFSET_VALID) {
        minutes = offset_minutes_of(s->offset);
        *offset_minutes = minutes;
    }
    /* Only a day past the end of its month can be wrong now: February 31 is its last day. */
    while (!base_ns_from_civil(&c, &ns) && c.day > 28) {
        c.day--;
    }
    return ns - minutes * NS_PER_MINUTE;
}

struct clusters_stamp clusters_stamp_make(int64_t ns, int16_t offset_minutes, bool access)
{
    struct clusters_stamp s = {0, 0, 0};
    struct base_civil c;
    int32_t quarters = 0;

    if (offset_minutes != VOLUME_NO_OFFSET) {
        int32_t half = offset_minutes < 0 ? -7 : 7; /* to the nearest quarter */

        quarters = clamp((offset_minutes + half) / MINUTES_PER_QUARTER, QUARTERS_MIN, QUARTERS_MAX);
        s.offset = (uint8_t)(OFFSET_VALID | (quarters & 0x7F));
    }
    /* Into the neighbourhood first, so that the offset cannot overflow. */
    ns = ns < STAMP_FIRST - NS_PER_DAY ? STAMP_FIRST - NS_PER_DAY : ns;
    ns = ns > STAMP_LAST + NS_PER_DAY ? STAMP_LAST + NS_PER_DAY : ns;
    ns += quarters * MINUTES_PER_QUARTER * NS_PER_MINUTE;
    ns = ns < STAMP_FIRST ? STAMP_FIRST : ns > STAMP_LAST ? STAMP_LAST : ns;

    base_civil_from_ns(ns, &c);
    s.raw = (uint32_t)(c.year - 1980) << 25 | (uint32_t)c.month << 21 | (uint32_t)c.day << 16 |
            (uint32_t)c.hour << 11 | (uint32_t)c.minute << 5 | (uint32_t)c.second / 2;
    if (!access) {
        s.ten_ms = (uint8_t)(c.second % 2 * 100 + c.nanosecond / NS_PER_TEN_MS);
    }
    return s;
}
