/* Calendar arithmetic in the proleptic Gregorian calendar, no time zone database. */
#ifndef PYEXFAT_BASE_TIME_H
#define PYEXFAT_BASE_TIME_H

#include <stdint.h>

struct base_civil {
    int32_t year, month, day;     /* month 1..12, day 1..31 */
    int32_t hour, minute, second; /* 0..23, 0..59, 0..59 */
    int32_t nanosecond;           /* 0..999999999 */
};

void base_civil_from_ns(int64_t ns, struct base_civil *out); /* ns since 1970-01-01, any sign */

#endif
