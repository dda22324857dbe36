"""Arguments of a volume's methods, from what people give to what the core takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._types import PathArgument

if TYPE_CHECKING:
    from ._codepage import CodePage
    from ._zone import TimeZone, Zone
    from .policy import Policy


def path_text(path: PathArgument) -> str:
    """A path argument as str. TypeError for anything else, bytes included."""
    if isinstance(path, str):
        return path
    convert = getattr(path, "__vfspath__", None)
    text: object = os.fspath(path) if convert is None else convert()  # type: ignore[arg-type]
    if not isinstance(text, str):
        raise TypeError(f"path must be str, not {type(text).__name__}")
    return text


def zone(tz: TimeZone) -> Zone:
    """What the core takes for a time zone."""
    from ._zone import zone_of

    return zone_of(tz)


def local_zone() -> Zone:
    """The system's."""
    from ._zone import local_zone

    return local_zone()


def codepage_bytes(codepage: CodePage) -> bytes | None:
    """What the core takes for a code page."""
    from ._codepage import codepage_table

    return codepage_table(codepage)


def policy_mapping(policy: Policy | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What the core takes; checks a mapping as Policy does. ValueError names an unknown field."""
    if policy is None:
        return None
    from .policy import Policy

    if isinstance(policy, Policy):
        return policy.as_dict()
    if not isinstance(policy, Mapping):
        raise TypeError(f"policy must be a Policy or a mapping, not {type(policy).__name__}")
    known = Policy().as_dict()
    for name in policy:
        if name not in known:
            raise ValueError(f"policy has no field {name!r}")
    checked = Policy(**policy).as_dict()
    return {name: checked[name] for name in policy}


def pair(values: tuple[Any, Any], argument: str) -> tuple[Any, Any]:
    """Two times of utime()."""
    if not isinstance(values, tuple) or len(values) != 2:
        raise TypeError(f"utime: '{argument}' must be a tuple of two numbers")
    return values


def nanoseconds(seconds: float) -> int:
    """Rounded down, as os.utime() does."""
    if isinstance(seconds, int):
        return seconds * 1_000_000_000
    whole, rest = divmod(seconds, 1)
    return int(whole) * 1_000_000_000 + int(rest * 1_000_000_000)
