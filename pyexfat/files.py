"""Open files, made of the parts of the io module.

``RawFile`` is to a file of a volume what io.FileIO is to one of the operating system; buffers and
text stand on it as they do in io.open(), whose rules for modes and arguments hold to the letter.
"""

from __future__ import annotations

import errno
import io
import os
import warnings
from operator import index
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

from . import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from .volume import Volume

_BUFFER_LIMIT = 1 << 20
_READALL_PIECE = 64 << 20
_OFFSET_LIMIT = 1 << 63


class RawFile(io.RawIOBase):
    """An open file without a buffer: every read and write goes to the volume.

    Raises ValueError once it is closed or its volume is, io.UnsupportedOperation for what the mode
    does not allow.
    """

    name: str
    """The path that it was opened with."""
    mode: str
    """As io.FileIO writes it: "rb", "wb", "xb", "ab", "rb+", …"""

    def __init__(self, volume: Volume, path: str, flags: int, mode: str) -> None:
        """Opens ``path`` with the ``OPEN_`` flags of the core."""
        self._handle: _core.Handle | None = None  # close() must work when opening fails
        self._volume = volume
        self.name = path
        self.mode = mode
        self._readable = bool(flags & _core.OPEN_READ)
        self._writable = bool(flags & _core.OPEN_WRITE)
        self._append = bool(flags & _core.OPEN_APPEND)
        self._position = 0
        self._handle = volume.open_file(path, flags)
        if self._append:
            self._position = self._handle.size()

    def _open(self) -> _core.Handle:
        handle = self._handle
        if handle is None:
            raise ValueError("I/O operation on closed file")
        return handle

    def _check(self, allowed: bool, doing: str) -> _core.Handle:
        handle = self._open()
        if not allowed:
            raise io.UnsupportedOperation(f"File not open for {doing}")
        return handle

    @property
    def volume(self) -> Volume:
        """The volume that the file is on."""
        return self._volume

    @property
    def handle(self) -> _core.Handle:
        """The core's open file (pread, pwrite …), without a position. ValueError when closed."""
        return self._open()

    def readable(self) -> bool:
        """Whether the mode allows to read."""
        self._open()
        return self._readable

    def writable(self) -> bool:
        """Whether the mode allows to write."""
        self._open()
        return self._writable

    def seekable(self) -> bool:
        """Always true while open."""
        self._open()
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills ``buffer`` from the position on; returns how many bytes, 0 at the end."""
        done = self._check(self._readable, "reading").preadinto(buffer, self._position)
        self._position += done
        return done

    def read(self, size: int | None = -1, /) -> bytes:
        """At most ``size`` bytes, all that are left for -1 or None."""
        if size is None or size < 0:
            return self.readall()
        data = self._check(self._readable, "reading").pread(size, self._position)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """All bytes from the position on."""
        handle = self._check(self._readable, "reading")
        pieces: list[bytes] = []
        while (left := handle.size() - self._position) > 0:
            piece = handle.pread(min(left, _READALL_PIECE), self._position)
            if not piece:
                break
            pieces.append(piece)
            self._position += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write(self, data: Buffer, /) -> int:
        """Writes at the position, or at the end in append mode; returns how many bytes."""
        handle = self._check(self._writable, "writing")
        if self._append:
            done, self._position = handle.append(data)
        else:
            done = handle.pwrite(data, self._position)
            self._position += done
        return done

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position and returns it. OSError (EINVAL) for one below 0 or beyond 2**63."""
        handle = self._open()
        if whence == os.SEEK_SET:
            start = 0
        elif whence == os.SEEK_CUR:
            start = self._position
        elif whence == os.SEEK_END:
            start = handle.size()
        else:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        position = start + index(offset)
        if not 0 <= position < _OFFSET_LIMIT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        self._position = position
        return position

    def tell(self) -> int:
        """The position."""
        self._open()
        return self._position

    def truncate(self, size: int | None = None, /) -> int:
        """Makes the file ``size`` bytes long (None: the position); new bytes read as zeros."""
        handle = self._check(self._writable, "writing")
        wanted = self._position if size is None else index(size)
        if not 0 <= wanted < _OFFSET_LIMIT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        handle.resize(wanted)
        return wanted

    def close(self) -> None:
        """Closes the file; twice is fine."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            handle, self._handle = self._handle, None
            if handle is not None:
                handle.close()

    def _dealloc_warn(self, source: object) -> None:
        # The name that io's own classes call on a file which is collected while open. In the child
        # of a fork it is the parent's.
        if self._handle is not None and not self._handle.closed:
            warnings.warn(f"unclosed file {source!r}", ResourceWarning, 2, source=source)

    def __del__(self) -> None:
        """Warns (ResourceWarning) when it was not closed."""
        if getattr(self, "_handle", None) is not None:
            self._dealloc_warn(self)
            self.close()

    def __getstate__(self) -> NoReturn:
        """Refused, as for io.FileIO."""
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __repr__(self) -> str:
        """As io.FileIO."""
        state = "[closed]" if self.closed else f"name={self.name!r} mode={self.mode!r}"
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}>"


def parse_mode(mode: str) -> tuple[int, str, bool]:
    """The core's flags, FileIO's way to write the mode, and whether it is text.

    Raises TypeError and ValueError as io.open() does.
    """
    if not isinstance(mode, str):
        raise TypeError(f"invalid mode: {mode!r}")
    letters = set(mode)
    if letters - set("axrwb+t") or len(mode) > len(letters):
        raise ValueError(f"invalid mode: {mode!r}")
    if letters >= {"t", "b"}:
        raise ValueError("can't have text and binary mode at once")
    kinds = letters & set("rwax")
    if len(kinds) > 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    if not kinds:
        raise ValueError(
            "Must have exactly one of create/read/write/append mode and at most one plus"
        )
    kind, plus = kinds.pop(), "+" in letters
    flags = {
        "r": 0,
        "w": _core.OPEN_CREATE | _core.OPEN_TRUNCATE,
        "x": _core.OPEN_CREATE | _core.OPEN_EXCLUSIVE,
        "a": _core.OPEN_CREATE | _core.OPEN_APPEND,
    }[kind]
    if kind == "r" or plus:
        flags |= _core.OPEN_READ
    if kind != "r" or plus:
        flags |= _core.OPEN_WRITE
    raw_mode = "rb+" if kind == "w" and plus else kind + "b" + ("+" if plus else "")
    return flags, raw_mode, "b" not in letters


def open_file(
    volume: Volume,
    path: str,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> IO[Any]:
    """io.open() on a volume: the raw file and what stands on it."""
    flags, raw_mode, text = parse_mode(mode)
    if not text:
        for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
            if value is not None:
                raise ValueError(f"binary mode doesn't take {_an(name)} argument")
        if buffering == 1:
            warnings.warn(
                "line buffering (buffering=1) isn't supported in binary mode, "
                "the default buffer size will be used",
                RuntimeWarning,
                stacklevel=3,
            )
    if newline not in (None, "", "\n", "\r", "\r\n"):
        raise ValueError(f"illegal newline value: {newline}")
    if text and buffering == 0:
        raise ValueError("can't have unbuffered text I/O")
    raw = RawFile(volume, path, flags, raw_mode)
    result: io.IOBase = raw
    try:
        if buffering == 0:
            return cast("IO[Any]", raw)
        size = buffering
        if size < 0 or size == 1:
            size = max(io.DEFAULT_BUFFER_SIZE, min(volume.cluster_size, _BUFFER_LIMIT))
        buffer = _buffer_class(flags)(raw, size)
        result = buffer
        if not text:
            return cast("IO[Any]", buffer)
        wrapper = io.TextIOWrapper(
            cast("Any", buffer), encoding, errors, newline, line_buffering=buffering == 1
        )
        result = wrapper
        wrapper.mode = mode  # type: ignore[misc]
        return wrapper
    except BaseException:
        result.close()
        raise


def _an(name: str) -> str:
    return ("a " if name == "newline" else "an ") + name


def _buffer_class(flags: int) -> Callable[[io.RawIOBase, int], io.BufferedIOBase]:
    if not flags & _core.OPEN_WRITE:
        return io.BufferedReader
    if not flags & _core.OPEN_READ:
        return io.BufferedWriter
    return io.BufferedRandom
