"""One line for each thing that can go wrong: where, what, and the place on the disk where there is
one.
"""

from __future__ import annotations

import errno
import os
import sys

from pyexfat import CorruptImageError, UnsupportedFeatureError
from pyexfat._text import visible

from .render import encodable

FAILURE = 1
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
OUTPUT_CLOSED = 141  # 128 + SIGPIPE

_SHOWN = 1000  # characters of a path

_HINTS = {
    errno.EBUSY: "another program or mount is using it",
    errno.EROFS: "opened for reading only",
}


class CommandError(Exception):
    """A failure with the place that it concerns; shown as ``pyexfat: where: what``."""

    def __init__(self, where: str, what: str | BaseException, status: int = FAILURE) -> None:
        super().__init__(where, what)
        self.where = where
        self.what = what
        self.status = status


class UsageError(CommandError):
    """A command line that makes no sense although each argument does."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(where, what, USAGE)


def describe(error: BaseException, where: str = "") -> str:
    """``where: what (detail)`` in one line, without control characters; ``where`` falls back to the
    error's path.
    """
    if isinstance(error, CommandError):
        if isinstance(error.what, BaseException):
            return describe(error.what, error.where)
        return _join(error.where, error.what)
    if isinstance(error, CorruptImageError):
        return _join(where or _paths(error), _corrupt(error))
    if isinstance(error, UnsupportedFeatureError):
        return _join(where or _paths(error), error.strerror or str(error))
    if isinstance(error, OSError):
        what = error.strerror or str(error) or type(error).__name__
        hint = _HINTS.get(error.errno or 0)
        return _join(where or _paths(error), f"{what} ({hint})" if hint else what)
    if isinstance(error, UnicodeError):
        return _join(where, "the name can't be written in the host's encoding")
    if isinstance(error, MemoryError):
        return _join(where, "out of memory")
    return _join(where, str(error) or type(error).__name__)


def _join(where: str, what: str) -> str:
    if len(where) > _SHOWN:  # damage can nest directories as deep as a path can be long
        where = f"{where[: _SHOWN // 2]} ... {where[-_SHOWN // 2 :]}"
    return visible(f"{where}: {what}" if where else what)


def _paths(error: OSError) -> str:
    names = [
        os.fsdecode(n) for n in (error.filename, error.filename2) if isinstance(n, str | bytes)
    ]
    return " -> ".join(names)


def _corrupt(error: CorruptImageError) -> str:
    where = error.where
    if where is None:
        return error.strerror or "the image is damaged"
    parts = [where.structure, f"byte {where.offset}"]
    if where.field and where.expected:
        parts.append(f"{where.field} is {where.found}, expected {where.expected}")
    elif where.field and where.found:  # a range is right, or none at all: the detail says it
        parts.append(f"{where.field} is {where.found}")
    elif where.field:
        parts.append(where.field)
    detail = where.detail.replace("use_backup", "--backup")
    return f"{detail or error.strerror} ({', '.join(parts)})"


def report(error: BaseException, where: str = "") -> None:
    """Prints the line on standard error."""
    print(encodable(f"pyexfat: {describe(error, where)}", sys.stderr), file=sys.stderr)
