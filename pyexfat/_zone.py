"""Time zones as the core takes them: pairs of a second and the minutes east of UTC from then on."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Hashable
from datetime import datetime, timezone, tzinfo
from functools import lru_cache

Zone = tuple[tuple[int, int], ...]
TimeZone = str | int | tzinfo
"""What ``tz=`` takes: ``"utc"``, ``"local"``, ``"+05:30"``, a name as ``"Europe/Berlin"``, minutes
east of UTC, or a tzinfo object."""

UTC: Zone = ((0, 0),)

_FIRST = 0  # 1970-01-01
_LAST = 4_417_977_600  # 2110-01-01
_STEP = 86_400 * 7  # no offset has been in force for a shorter time since 1970
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")


def zone_of(tz: TimeZone) -> Zone:
    """The zone that ``tz`` means, from 1970 to 2110.

    Offsets are rounded to minutes. Raises ValueError that names tz when there is no such zone or
    its offset is a day or more, and TypeError when it is something else than TimeZone says.
    """
    if isinstance(tz, str):
        return _named(tz)
    if isinstance(tz, int) and not isinstance(tz, bool):
        return _fixed(tz)
    if isinstance(tz, tzinfo):
        try:
            return _of_tzinfo(tz)
        except TypeError:  # not hashable
            return _of_tzinfo.__wrapped__(tz)
    raise TypeError(f"tz must be a str, an int (minutes) or a tzinfo, not {type(tz).__name__}")


def local_zone() -> Zone:
    """The system's zone, that time.localtime() has: of the variable TZ, or of /etc/localtime."""
    try:
        found = os.stat("/etc/localtime")
        mark = (found.st_ino, found.st_mtime_ns)
    except OSError:
        mark = (0, 0)
    return _local(mark, os.environ.get("TZ"), time.tzname, time.timezone, time.altzone)


def _named(name: str) -> Zone:
    word = name.lower()
    if word in ("utc", "z"):
        return UTC
    if word == "local":
        return local_zone()
    match = _OFFSET.fullmatch(name)
    if match:
        minutes = int(match[2]) * 60 + int(match[3])
        return _fixed(-minutes if match[1] == "-" else minutes)
    from zoneinfo import ZoneInfo  # not to be had in every interpreter with a GIL of its own

    try:
        return _of_tzinfo(ZoneInfo(name))
    except (KeyError, ValueError, OSError, RecursionError):  # the last by thousands of slashes
        raise ValueError(f"tz: there is no time zone {name!r}") from None


def _fixed(minutes: int) -> Zone:
    if abs(minutes) >= 24 * 60:
        raise ValueError(f"tz must be less than a day from UTC, not {minutes} minutes")
    return ((0, minutes),)


@lru_cache(maxsize=32)
def _of_tzinfo(tz: tzinfo) -> Zone:
    def seconds(moment: int) -> float:
        offset = datetime.fromtimestamp(moment, tz).utcoffset()
        if offset is None:
            raise ValueError(f"tz says no offset: {tz!r}")
        return offset.total_seconds()

    if isinstance(tz, timezone):
        return _fixed(round(seconds(0) / 60))
    return _scan(seconds)


@lru_cache(maxsize=4)
def _local(*marks: Hashable) -> Zone:
    """``marks`` are other ones when the zone may be another one."""
    return _scan(lambda moment: time.localtime(moment).tm_gmtoff)


def _scan(seconds: Callable[[int], float]) -> Zone:
    """All changes of an offset: a look at every week, and where it differs, halving to the second.

    A week may hold more than one change; then each is found in its turn.
    """
    known = seconds(_FIRST)
    changes = [(_FIRST, round(known / 60))]
    for end in range(_FIRST + _STEP, _LAST + _STEP, _STEP):
        if (now := seconds(end)) == known:
            continue
        low = end - _STEP
        while known != now:
            high = end
            while high - low > 1:
                middle = (low + high) // 2
                if seconds(middle) == known:
                    low = middle
                else:
                    high = middle
            low, known = high, seconds(high)
            changes.append((high, round(known / 60)))
    return tuple(changes)
