"""Code pages as the core takes them: what each byte or pair of bytes means, by Python's codecs."""

from __future__ import annotations

import codecs
import string
from array import array
from functools import lru_cache

CodePage = str | int
"""What ``codepage=`` takes: a number (``932``), or the name of a codec (``"cp932"``)."""

DEFAULT = 437  # built into the core

_UNMAPPED = 0xFFFF
_CODES = 0x10000
# What the driver itself writes into short names, so that it must be what it is in ASCII.
_PLAIN = string.ascii_letters + string.digits + " ~_.-"
# Rows of cp932 that repeat IBM's characters: Windows reads them but writes IBM's own codes, which
# are higher. Python's codec writes the lower ones.
_NEC_SELECTED = (0xED, 0xEE)
_FIRST_LEAD, _FIRST_TRAIL = 0x80, 0x21


def codepage_table(codepage: CodePage | None) -> bytes | None:
    """The table for the core's ``codepage``; None for 437, which needs none.

    Raises ValueError that names codepage for one that Python does not have, or that is no code page
    of one or two bytes for each character with ASCII in it, and TypeError for another type.
    """
    if codepage is None:
        return None
    if isinstance(codepage, bool) or not isinstance(codepage, (str, int)):
        raise TypeError(f"codepage must be a str or an int, not {type(codepage).__name__}")
    name = _codec_name(codepage)
    return None if name == f"cp{DEFAULT}" else _table(name)


def _codec_name(codepage: CodePage) -> str:
    text = str(codepage).strip()
    is_number = isinstance(codepage, int) or (text.isascii() and text.isdigit())
    name = f"cp{text}" if is_number else text
    try:
        found = codecs.lookup(name)
        b"A".decode(found.name, "ignore")  # some codecs are not for text
    except (LookupError, ValueError):
        raise ValueError(f"codepage: Python has no code page {codepage!r}") from None
    return found.name


@lru_cache(maxsize=8)
def _table(name: str) -> bytes:
    """unit[] and preferred[] of struct volume_codepage, each of 65,536 numbers of 16 bits."""
    units = array("H", [_UNMAPPED]) * _CODES
    for byte in range(0x100):
        units[byte] = _unit(name, bytes((byte,)))
    if any(units[ord(character)] != ord(character) for character in _PLAIN):
        raise ValueError(f"codepage {name!r} does not contain ASCII")
    for lead in range(_FIRST_LEAD, 0x100):
        if units[lead] == _UNMAPPED:
            for trail in range(_FIRST_TRAIL, 0x100):
                units[lead << 8 | trail] = _unit(name, bytes((lead, trail)))
    return units.tobytes() + _preferred(name, units).tobytes()


def _unit(name: str, code: bytes) -> int:
    """The unit that ``code`` means, or that it means none. ValueError when it is only a part."""
    decoder = codecs.getincrementaldecoder(name)("strict")
    try:
        text = decoder.decode(code)
        if not text and (len(code) > 1 or code[0] < _FIRST_LEAD):
            raise ValueError(f"codepage {name!r} is not one of one or two bytes a character")
        text += decoder.decode(b"", True)
    except UnicodeError:
        return _UNMAPPED
    return ord(text) if len(text) == 1 and ord(text) < _UNMAPPED else _UNMAPPED


def _preferred(name: str, units: array[int]) -> array[int]:
    """The code to write for each unit that has several, where it is not the lowest; else 0."""
    preferred = array("H", [0]) * _CODES
    lowest: dict[int, int] = {}
    for code, unit in enumerate(units):
        if unit == _UNMAPPED or lowest.setdefault(unit, code) == code:
            continue
        wanted = int.from_bytes(chr(unit).encode(name), "big")
        if name == "cp932" and wanted >> 8 in _NEC_SELECTED:
            wanted = code
        preferred[unit] = wanted
    return preferred
