"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from pyexfat import Policy
from pyexfat._codepage import codepage_table
from pyexfat._zone import zone_of
from pyexfat.sizes import parse_size

from .places import Location, Place, parse_location, parse_place


def size(text: str) -> int:
    """An argument in bytes: ``64M``, ``4KiB``, ``8MB``."""
    return cast("int", _argument(parse_size)(text))


def place(text: str) -> Place:
    """An argument that is a place in an image."""
    return cast("Place", _argument(parse_place)(text))


def location(text: str) -> Location:
    """An argument of cp: a place in an image, a host path or a stream."""
    return cast("Location", _argument(parse_location)(text))


def _argument(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def policy(texts: list[str]) -> Policy | None:
    """The policy that the ``--policy`` options describe, None without any.

    Raises ValueError for a mechanism or setting that does not exist.
    """
    if not texts:
        return None
    result = Policy.before() if "before" in texts else Policy()
    changes: dict[str, Any] = {}
    for text in texts:
        if text == "before":
            continue
        name, equals, value = text.partition("=")
        name = name.replace("-", "_")
        present = result.as_dict()
        if not equals or name not in present:
            raise ValueError(
                f"--policy takes before or NAME=VALUE, NAME one of {', '.join(present)}"
            )
        changes[name] = _on_off(name, value) if isinstance(present[name], bool) else value
    return result.replace(**changes)


def _on_off(name: str, value: str) -> bool:
    word = value.lower()
    if word in ("on", "yes", "true", "1"):
        return True
    if word in ("off", "no", "false", "0"):
        return False
    raise ValueError(f"{name} is on or off, not {value!r}")


def time_zone(text: str) -> str:
    """An argument that is a time zone, as ``tz=`` takes it."""
    _argument(zone_of)(text)
    return text


def codepage(text: str) -> str:
    """An argument that is a code page, as ``codepage=`` takes it."""
    _argument(codepage_table)(text)
    return text


def time_ns(text: str) -> int:
    """An argument that is a time: ISO 8601 (local where it has no offset) or ``@seconds``; ns since
    1970 UTC.
    """
    try:
        if text.startswith("@"):
            whole, _, fraction = text[1:].partition(".")
            return int(whole) * 10**9 + int(fraction[:9].ljust(9, "0") or "0")
        moment = datetime.fromisoformat(text)
        return int(moment.astimezone().replace(microsecond=0).timestamp()) * 10**9 + (
            moment.microsecond * 1000
        )
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"no time: {text!r} (write 2026-05-01, 2026-05-01T12:30:00+02:00 or @1777631400)"
        ) from None


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Options of every command that opens a volume."""
    group = parser.add_argument_group("opening")
    group.add_argument(
        "--offset",
        type=size,
        default=0,
        metavar="BYTES",
        help="where the volume begins in the image",
    )
    group.add_argument(
        "-o", "--backup", action="store_true",
        help="read by the backup boot region, when the main one is damaged",
    )  # fmt: skip
    add_regional(group)


def add_regional(group: argparse._ArgumentGroup) -> None:
    """How local times and old names are read and written."""
    group.add_argument(
        "--tz", type=time_zone, metavar="ZONE",
        help="time zone of the volume's times: local, utc, Europe/Berlin, or --tz=-05:00 "
        "(default: local in FAT, utc in exFAT)",
    )  # fmt: skip
    group.add_argument(
        "--codepage", type=codepage, metavar="NUMBER",
        help="code page of FAT's short names and label (default: 437)",
    )  # fmt: skip


def add_writing(parser: argparse.ArgumentParser, *, backup: bool = False) -> None:
    """Options of every command that changes a volume; ``backup``: some of what it opens is only
    read.
    """
    if backup:
        add_reading(parser)
    group = parser.add_argument_group("writing")
    if not backup:
        group.add_argument(
            "--offset", type=size, default=0, metavar="BYTES",
            help="where the volume begins in the image",
        )  # fmt: skip
        add_regional(group)
    group.add_argument(
        "--sync", choices=("lazy", "dirsync", "sync"), default="lazy",
        help="what is safe after each step: nothing yet, directories, everything (default: lazy)",
    )  # fmt: skip
    group.add_argument(
        "--policy", action="append", default=[], metavar="NAME=VALUE",
        help='set a mechanism, as name_filter=off; "before" switches all of them off',
    )  # fmt: skip


def add_times(parser: argparse.ArgumentParser) -> None:
    """Choice of the time zone that people read."""
    parser.add_argument("--utc", action="store_true", help="show times in UTC, not in local time")
