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
