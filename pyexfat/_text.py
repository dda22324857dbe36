"""Text from disks, made safe to show: names may hold anything that sixteen bits can."""

from __future__ import annotations

import unicodedata

# Marks that turn the direction of what follows; a name with one can pose as another.
_DIRECTION = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_NO_CHARACTERS = {0xFFFE, 0xFFFF}
_HIDDEN_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}


def visible(text: str) -> str:
    r"""``text`` with control characters, direction marks and lone surrogates as ``\x1b``,
    ``\u202e``, ``\udc80``.

    What comes out is safe for a terminal, and made of characters that XML allows.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def _visible_character(c: str) -> str:
    code = ord(c)
    if (
        unicodedata.category(c) in _HIDDEN_CATEGORIES
        or code in _DIRECTION
        or code in _NO_CHARACTERS
    ):
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return c


def width(text: str) -> int:
    """Terminal cells that ``text`` takes: two for wide East Asian characters, none for combining
    marks.
    """
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(c: str) -> int:
    if unicodedata.combining(c) or unicodedata.category(c) in ("Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1
