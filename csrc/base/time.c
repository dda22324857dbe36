/* Days and dates. The year is taken to begin in March, so that the leap day is its last day. */
#include "base/time.h"

#define NS_PER_SECOND INT64_C(1000000000)
#define SECONDS_PER_DAY INT64_C(86400)
#define DAYS_PER_ERA 146097 /* of 400 years, after which the calendar repeats */
#define DAYS_TO_1970 719468 /* from 0000-03-01 to 1970-01-01 */

/* Quotient rounded down; *rest is never negative. */
static int64_t floor_div(int64_t a, int64_t b, int64_t *rest)
{
    int64_t q = a / b;

    *rest = a % b;
    if (*rest < 0) {
        *rest += b;
        q--;
    }
    return q;
}

void base_civil_from_ns(int64_t ns, struct base_civil *out)
{
    int64_t nanosecond, second, day, year_of_era, day_of_year, march_month;
    int64_t days = floor_div(floor_div(ns, NS_PER_SECOND, &nanosecond), SECONDS_PER_DAY, &second);
    int64_t era = floor_div(days + DAYS_TO_1970, DAYS_PER_ERA, &day);

    year_of_era = (day - day / 1460 + day / 36524 - day / (DAYS_PER_ERA - 1)) / 365;
    day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    march_month = (5 * day_of_year + 2) / 153; /* five months from March have 153 days */

    out->day = (int32_t)(day_of_year - (153 * march_month + 2) / 5 + 1);
    out->month = (int32_t)(march_month < 10 ? march_month + 3 : march_month - 9);
    out->year = (int32_t)(era * 400 + year_of_era + (out->month <= 2 ? 1 : 0));
    out->hour = (int32_t)(second / 3600);
    out->minute = (int32_t)(second / 60 % 60);
    out->second = (int32_t)(second % 60);
    out->nanosecond = (int32_t)nanosecond;
}

static int32_t days_in_month(int32_t year, int32_t month)
{
    static const int8_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

static bool civil_is_valid(const struct base_civil *c)
{
    return c->month >= 1 && c->month <= 12 && c->day >= 1 &&
           c->day <= days_in_month(c->year, c->month) && c->hour >= 0 && c->hour <= 23 &&
           c->minute >= 0 && c->minute <= 59 && c->second >= 0 && c->second <= 59 &&
           c->nanosecond >= 0 && c->nanosecond < NS_PER_SECOND;
}

bool base_ns_from_civil(const struct base_civil *c, int64_t *ns)
{
    int64_t year, era, year_of_era, march_month, day_of_year, days, seconds;

    if (!civil_is_valid(c)) {
        return false;
    }
    year = (int64_t)c->year - (c->month <= 2 ? 1 : 0);
    era = floor_div(year, 400, &year_of_era);
    march_month = c->month > 2 ? c->month - 3 : c->month + 9;
    day_of_year = (153 * march_month + 2) / 5 + c->day - 1;
    days = era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
           day_of_year - DAYS_TO_1970;
    seconds = days * SECONDS_PER_DAY + c->hour * 3600 + c->minute * 60 + c->second;
    /* The first second of the range begins before the smallest number: step around it. */
    if (seconds < 0) {
        return !__builtin_mul_overflow(seconds + 1, NS_PER_SECOND, ns) &&
               !__builtin_add_overflow(*ns, c->nanosecond - NS_PER_SECOND, ns);
    }
    return !__builtin_mul_overflow(seconds, NS_PER_SECOND, ns) &&
           !__builtin_add_overflow(*ns, (int64_t)c->nanosecond, ns);
}
