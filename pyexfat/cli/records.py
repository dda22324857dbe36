"""How files and times are written: for people, and as JSON records with keys that stay."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyexfat._core import Stat

from .places import Place

ENTRY_KEYS = (
    "path name type size valid_size allocated attributes created modified accessed "
    "(ISO 8601, UTC; null: none) created_ns modified_ns accessed_ns first_cluster contiguous"
)


def kind(stat: Stat) -> str:
    """ "directory" or "file"."""
    return "directory" if stat.is_dir else "file"


def attributes(stat: Stat) -> list[str]:
    """Names of the attributes that are set."""
    names = ("read_only", "hidden", "system", "archive")
    return [name for name in names if getattr(stat, name)]


def flags(stat: Stat) -> str:
    """``d`` for a directory, then ``r`` read-only, ``h`` hidden, ``s`` system, ``a`` archive, or
    dashes.
    """
    marks = ("d", stat.is_dir), ("r", stat.read_only), ("h", stat.hidden), ("s", stat.system)
    return "".join(c if on else "-" for c, on in (*marks, ("a", stat.archive)))


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // 10**9, UTC)


def iso_time(ns: int) -> str | None:
    """UTC as ISO 8601, with as many digits of a second as are not zero; None where no time is kept
    (0), as for a root directory.
    """
    if not ns:
        return None
    fraction = f"{ns % 10**9:09}".rstrip("0")
    return f"{_moment(ns):%Y-%m-%dT%H:%M:%S}{'.' + fraction if fraction else ''}Z"


def show_time(ns: int, utc: bool, *, precise: bool = False) -> str:
    """Local time (or UTC) for people, to the second; ``precise`` adds hundredths and the offset
    from UTC. "none" where no time is kept.
    """
    if not ns:
        return "none"
    moment = _moment(ns) if utc else _moment(ns).astimezone()
    hundredths = f".{ns % 10**9 // 10**7:02}" if precise else ""
    offset = f" {moment:%z}" if precise else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{hundredths}{offset}"


def entry_record(path: str, name: str, stat: Stat) -> dict[str, Any]:
    """The JSON record of a file or directory (ENTRY_KEYS)."""
    record: dict[str, Any] = {
        "path": path,
        "name": name,
        "type": kind(stat),
        "size": stat.st_size,
        "valid_size": stat.valid_size,
        "allocated": stat.allocated,
        "attributes": attributes(stat),
    }
    times = {
        "created": stat.st_birthtime_ns,
        "modified": stat.st_mtime_ns,
        "accessed": stat.st_atime_ns,
    }
    record |= {key: iso_time(ns) for key, ns in times.items()}
    record |= {f"{key}_ns": ns or None for key, ns in times.items()}
    return record | {"first_cluster": stat.first_cluster, "contiguous": stat.contiguous}


def plural(n: int, one: str, many: str = "") -> str:
    """``1 file``, ``2 files``."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def place_record(place: Place) -> dict[str, Any]:
    """The JSON keys ``image``, ``partition`` and ``path`` of a place."""
    return {"image": place.image, "partition": place.partition, "path": place.path}
