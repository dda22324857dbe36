"""Sizes as people write them: ``"64 MiB"``, ``"4K"``, ``"8MB"``, or a number of bytes."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

Size = int | str | SupportsIndex
"""What is taken wherever a number of bytes is asked for."""

_UNITS = "KMGTPE"
_LIMIT = 1 << 63


def parse_size(value: Size, argument: str = "size") -> int:
    """Returns ``value`` in bytes.

    A bare letter and ``…iB`` count in powers of 1024, ``…B`` (``kB``, ``MB``) in powers of 1000;
    case and the space before the unit do not matter. Fractions (``"1.5 MiB"``) round down to a
    byte.

    Raises ValueError that names ``argument`` for text that is no size, a negative number, or 8 EiB
    and more, and TypeError for what is neither a string nor an integer.
    """
    if isinstance(value, str):
        size = _parse_text(value, argument)
    elif isinstance(value, bool):
        raise TypeError(f"{argument} must be a number of bytes or a string, not bool")
    else:
        try:
            size = index(value)
        except TypeError:
            raise TypeError(
                f"{argument} must be a number of bytes or a string, not {type(value).__name__}"
            ) from None
    if size < 0:
        raise ValueError(f"{argument} must not be negative: {value!r}")
    if size >= _LIMIT:
        raise ValueError(f"{argument} must be less than 8 EiB: {value!r}")
    return size


def _parse_text(text: str, argument: str) -> int:
    bad = ValueError(f'{argument} is no size: {text!r} (write 4096, "64 MiB", "4K" or "8MB")')
    stripped = text.strip()
    end = len(stripped)
    while end and not (stripped[end - 1].isdigit() or stripped[end - 1] == "."):
        end -= 1
    number, unit = stripped[:end].replace("_", ""), stripped[end:].strip().upper()
    whole, dot, fraction = number.partition(".")
    if not (whole.isascii() and whole.isdigit()) or len(number) > 40:
        raise bad
    if dot and not (fraction.isascii() and fraction.isdigit()):
        raise bad
    scale = _scale(unit)
    if scale is None:
        raise bad
    if dot and scale == 1:
        raise ValueError(f"{argument} is not a whole number of bytes: {text!r}")
    return int(int(whole + fraction) * scale // 10 ** len(fraction))


def _scale(unit: str) -> int | None:
    """Bytes in ``unit`` (upper case), or None."""
    if unit in ("", "B"):
        return 1
    power = _UNITS.find(unit[0]) + 1
    if power == 0:
        return None
    if unit[1:] in ("", "IB"):
        return int(1024**power)
    if unit[1:] == "B":
        return int(1000**power)
    return None


def format_size(size: int) -> str:
    """``size`` bytes for people, in powers of 1024: ``"512 B"``, ``"64 MiB"``, ``"1.5 GiB"``.

    What it returns is at most 0.5 % off.
    """
    if size < 0:
        return "-" + format_size(-size)
    power = max(0, min((size.bit_length() - 1) // 10, len(_UNITS)))
    if power == 0:
        return f"{size} B"
    value = size / 1024**power
    if value >= 1023.5 and power < len(_UNITS):  # would print as 1024
        value, power = value / 1024, power + 1
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {_UNITS[power - 1]}iB"
