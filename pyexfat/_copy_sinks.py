"""Where copies go to: the host or a volume."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Protocol

from . import _core
from ._copy_sources import Entry, Reader
from .entry import join
from .volume import Volume

Progress = Callable[[int, int, str], object]
"""Called with (bytes done, bytes in all, path of the source); what it raises stops the copy."""

CHUNK = 256 << 10  # bytes moved in one call: the processor's cache holds them, and that is faster
_TEMPORARY = ".pyexfat-copy-{}.tmp"


class Sink(Protocol):
    """Where a copy goes to."""

    def join(self, place: str, name: str) -> str:
        """A place in a directory."""
        ...

    def make_directory(self, place: str, exist_ok: bool) -> bool:
        """Makes a directory; False when it was there."""
        ...

    def write_file(self, place: str, entry: Entry, reader: Reader, move: Move, fresh: bool) -> None:
        """Makes a file; ``fresh``: nothing of that name can be there but from this copy."""
        ...

    def finish_directory(self, place: str, entry: Entry) -> None:
        """Sets times and attributes once all is in it."""
        ...


class Move:
    """Moves bytes from a reader in large pieces and reports on it."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        """``total`` bytes in all."""
        self.stopped: BaseException | None = None
        """What the progress function has raised."""
        self._total = total
        self._progress = progress
        self._done = 0
        self._buffer: memoryview | None = None

    def pieces(self, reader: Reader, entry: Entry) -> Iterator[tuple[int, memoryview]]:
        """(offset, bytes) of all that is stored; the bytes are good until the next step."""
        offset, end = 0, reader.data_size
        while offset < end:
            buffer = self._room(end - offset)
            got = reader.read_into(buffer[: end - offset], offset)
            if not got:
                break  # it got shorter meanwhile
            yield offset, buffer[:got]
            offset += got
            if offset < end:
                self.report(got, entry)
            else:
                self._done += got
        self.report(max(0, entry.size - offset), entry)

    def _room(self, wanted: int) -> memoryview:
        size = min(CHUNK, max(wanted, 1 << 16))
        if self._buffer is None or len(self._buffer) < size:
            self._buffer = memoryview(bytearray(size))
        return self._buffer

    def report(self, n: int, entry: Entry) -> None:
        """``n`` more bytes are done."""
        self._done += n
        if self._progress is None:
            return
        try:
            self._progress(self._done, self._total, entry.where)
        except BaseException as error:
            self.stopped = error
            raise


class VolumeSink:
    """Writes into a volume."""

    def __init__(
        self,
        volume: Volume,
        preserve: bool = True,
        times_of: Callable[[Any], dict[str, int]] | None = None,
    ) -> None:
        """``preserve``: times and the read-only attribute; ``times_of`` makes times from a stat."""
        self._volume = volume
        self._preserve = preserve
        self._times_of = times_of or _times
        self._serial = 0

    def join(self, place: str, name: str) -> str:
        """A place in a directory."""
        return join(place, name)

    def make_directory(self, place: str, exist_ok: bool) -> bool:
        """Makes a directory; False when it was there."""
        try:
            self._volume.mkdir(place)
        except FileExistsError:
            if not exist_ok or not self._volume.isdir(place):
                raise
            return False
        return True

    def write_file(self, place: str, entry: Entry, reader: Reader, move: Move, fresh: bool) -> None:
        """Makes a file, under another name first when there is one already."""
        target = place
        try:
            handle = self._create(place)
        except FileExistsError as error:
            if fresh:
                raise FileExistsError(
                    errno.EEXIST, "Two names differ only in case", place
                ) from error
            if self._volume.isdir(place):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place) from error
            target, handle = self._create_temporary(place)
        try:
            try:
                self._fill(handle, entry, reader, move)
            finally:
                handle.close()
            self._keep_vendor_entries(target, entry)
            if target != place:
                self._volume.replace(target, place)
        except BaseException:
            self._discard(target)
            raise

    def _create(self, place: str) -> _core.Handle:
        flags = _core.OPEN_WRITE | _core.OPEN_CREATE | _core.OPEN_EXCLUSIVE
        return self._volume.open_file(place, flags)

    def _create_temporary(self, place: str) -> tuple[str, _core.Handle]:
        directory = place.rpartition("/")[0] or "/"
        while True:
            self._serial += 1
            target = join(directory, _TEMPORARY.format(self._serial))
            try:
                return target, self._create(target)
            except FileExistsError:
                continue

    def _discard(self, place: str) -> None:
        with suppress(OSError, ValueError):  # the first error says more
            self._volume.unlink(place)

    def _fill(self, handle: _core.Handle, entry: Entry, reader: Reader, move: Move) -> None:
        if entry.size > CHUNK:
            # All clusters in one go, so that the file lies in one piece where it can.
            handle.allocate(0, entry.size, True)
        written = 0
        for offset, piece in move.pieces(reader, entry):
            while piece:
                done = handle.pwrite(piece, offset)
                offset, piece = offset + done, piece[done:]
            written = offset
        if reader.data_size <= written < entry.size:
            handle.resize(entry.size)  # the hole at its end
        elif written < entry.size:
            handle.resize(written)  # shorter than it was: gives back what was set aside
        if self._preserve and entry.stat is not None:
            handle.setattr(attributes=_attributes(entry.stat), **self._times_of(entry.stat))

    def _keep_vendor_entries(self, place: str, entry: Entry) -> None:
        """What others have added to the entries of a file goes with it."""
        status = entry.stat
        if not isinstance(status, _core.Stat) or entry.volume is None:
            return
        # A set has two entries and one for each 15 units of the name (section 7).
        units = len(entry.name.encode("utf-16-le", "surrogatepass")) // 2
        if status.entry_count > 2 + -(-units // 15) and self._volume.fs == entry.volume.fs:
            extras = entry.volume.get_vendor_entries(entry.place)
            self._volume.set_vendor_entries(place, extras)

    def finish_directory(self, place: str, entry: Entry) -> None:
        """Sets times and attributes, but the root has none."""
        if self._preserve and entry.stat is not None and self._volume.stat(place).st_ino != 1:
            self._keep_vendor_entries(place, entry)
            attributes = _attributes(entry.stat) & ~_core.ATTR_ARCHIVE
            self._volume.setattr(place, attributes=attributes, **self._times_of(entry.stat))


def _times(status: Any) -> dict[str, int]:
    """Times of a stat result, as setattr() takes them."""
    times = {"accessed": status.st_atime_ns, "modified": status.st_mtime_ns}
    created = getattr(status, "st_birthtime_ns", None)
    if created is not None:
        times["created"] = created
    return times


def build_times(latest: int | None) -> Callable[[Any], dict[str, int]]:
    """Times for images that must come out the same: from st_mtime, none after ``latest`` (ns)."""

    def times(status: Any) -> dict[str, int]:
        modified = status.st_mtime_ns
        if latest is not None:
            modified = min(modified, latest)
        return {"created": modified, "modified": modified, "accessed": modified}

    return times


def _attributes(status: Any) -> int:
    """Attribute bits of a stat result; of another system's, read-only if nobody may write."""
    if isinstance(status, _core.Stat):
        return (
            _core.ATTR_READ_ONLY * status.read_only
            | _core.ATTR_HIDDEN * status.hidden
            | _core.ATTR_SYSTEM * status.system
            | _core.ATTR_ARCHIVE * status.archive
        )
    read_only = 0 if status.st_mode & 0o222 else _core.ATTR_READ_ONLY
    return read_only | _core.ATTR_ARCHIVE


_NEVER = {"/", "\0", os.sep, os.altsep or os.sep}
_LONGEST_NAME = 255  # bytes, on the file systems of Linux
_LONGEST_SUFFIX = 32  # that is still taken for one


def _is_fine(character: str) -> bool:
    try:
        return character not in _NEVER and bool(os.fsencode(character))
    except UnicodeEncodeError:
        return False


def escaped(name: str) -> str:
    """A name that any file system of the host can hold, made of one of a volume.

    A name that can be used stays as it is. In others ``%`` and two hexadecimal digits stand for
    each byte of what can't be, and of ``%``; what is too long is cut, before its extension, and
    gets a ``~`` with a part of its hash.
    """
    if name in (".", ".."):
        return name.replace(".", "%2E")
    if not all(map(_is_fine, name)):
        name = "".join(c if _is_fine(c) and c != "%" else _percent(c) for c in name)
    data = os.fsencode(name)
    if len(data) <= _LONGEST_NAME:
        return name
    stem, suffix = os.path.splitext(name)
    if len(os.fsencode(suffix)) > _LONGEST_SUFFIX:
        stem, suffix = name, ""
    mark = f"~{blake2b(data, digest_size=4).hexdigest()}{suffix}"
    while len(os.fsencode(stem + mark)) > _LONGEST_NAME:
        stem = stem[:-1]
    return stem + mark


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


class HostSink:
    """Writes files of the operating system."""

    def __init__(self, preserve: bool = True, escape: bool = False) -> None:
        """``preserve``: times and the read-only attribute; ``escape``: see escaped()."""
        self._preserve = preserve
        self._escape = escape

    def join(self, place: str, name: str) -> str:
        """A place in a directory; refuses names of a hostile volume that would lead out of it."""
        if self._escape:
            name = escaped(name)
        if name in ("", ".", "..") or any(c in name for c in _NEVER):
            raise OSError(errno.EINVAL, "A name that can't be used outside the volume", name)
        try:
            os.fsencode(name)
        except UnicodeEncodeError:
            raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ), name) from None
        return os.path.join(place, name)

    def make_directory(self, place: str, exist_ok: bool) -> bool:
        """Makes a directory; False when it was there."""
        try:
            os.mkdir(place)
        except FileExistsError:
            if not exist_ok or not os.path.isdir(place):
                raise
            return False
        return True

    def write_file(self, place: str, entry: Entry, reader: Reader, move: Move, fresh: bool) -> None:
        """Makes a file, or writes over the one that is there."""
        created, flags = True, os.O_WRONLY | os.O_CLOEXEC
        try:
            fd = os.open(place, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError as error:
            if fresh:
                raise FileExistsError(errno.EEXIST, "Two names are one here", place) from error
            created = False
            fd = os.open(place, flags | os.O_TRUNC)
        try:
            try:
                self._fill(fd, entry, reader, move)
            finally:
                os.close(fd)
        except BaseException:
            if created:
                os.unlink(place)
            raise

    def _fill(self, fd: int, entry: Entry, reader: Reader, move: Move) -> None:
        written = 0
        for offset, piece in move.pieces(reader, entry):
            written = offset + len(piece)
            while piece:
                piece = piece[os.write(fd, piece) :]
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
        if regular and reader.data_size <= written < entry.size:
            os.ftruncate(fd, entry.size)
        elif reader.data_size <= written < entry.size:
            zeros = bytes(min(CHUNK, entry.size - written))
            while written < entry.size:
                written += os.write(fd, zeros[: entry.size - written])
        if regular and self._preserve and entry.stat is not None:
            os.utime(fd, ns=(entry.stat.st_atime_ns, entry.stat.st_mtime_ns))
            if not entry.stat.st_mode & 0o222:
                os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) & ~0o222)

    def finish_directory(self, place: str, entry: Entry) -> None:
        """Sets the times, but for the root of a volume, which has none."""
        if self._preserve and entry.stat is not None and entry.stat.st_mtime_ns:
            os.utime(place, ns=(entry.stat.st_atime_ns, entry.stat.st_mtime_ns))
