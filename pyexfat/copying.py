"""Copies of files and trees: into a volume, out of it, and between volumes.

A source (host, volume, or anything like pathlib) says what there is and reads it; a sink (host or
volume) makes it. ``transfer`` goes through the source twice: once to add up the sizes and to find
what can't be copied, before anything is written, then to copy. In each directory names go in sorted
order, so that a tree gives the same image wherever it is read.

Files are never left half written: a new one is removed when its copy fails, and on a volume one
that was there before keeps its content until the new one is whole. Directories and files copied
before the failure stay.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

from . import _core
from .entry import Once, join
from .path import Path
from .volume import Volume

Progress = Callable[[int, int, str], object]
"""Called with (bytes done, bytes in all, path of the source); what it raises stops the copy."""

CHUNK = 256 << 10  # bytes moved in one call: the processor's cache holds them, and that is faster
_TEMPORARY = ".pyexfat-copy-{}.tmp"


class Entry:
    """A file or directory to be copied."""

    __slots__ = ("identity", "is_dir", "name", "place", "size", "stat", "volume", "where")

    volume: Volume | None
    """Where it lies, when it lies on one."""

    def __init__(
        self,
        place: Any,
        name: str,
        is_dir: bool,
        size: int,
        status: Any = None,
        identity: object = None,
    ) -> None:
        """``identity`` tells a directory that was seen before; ``status`` is a stat result."""
        self.place = place
        self.name = name
        self.is_dir = is_dir
        self.size = size
        self.stat = status
        self.volume = None
        self.identity = identity
        self.where = str(place)


class Reader(Protocol):
    """The content of an open file, by offset."""

    data_size: int
    """Bytes up to the end of what is really stored; zeros follow up to the size."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fills the buffer from ``offset`` on; 0 at the end."""
        ...

    def close(self) -> None:
        """Gives it back."""
        ...


class Source(Protocol):
    """Where a copy comes from."""

    def start(self) -> None:
        """A walk through the tree begins."""
        ...

    def list(self, entry: Entry) -> list[Entry]:
        """What is in a directory, sorted by name."""
        ...

    def open(self, entry: Entry) -> Reader:
        """Opens a file."""
        ...


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
        if self._progress is not None:
            self._progress(self._done, self._total, entry.where)


# ---- sources ----


class HostSource:
    """Files of the operating system."""

    def __init__(self, follow_symlinks: bool = True, image: tuple[int, int] | None = None) -> None:
        """``image`` is (st_dev, st_ino) of a file that must not be copied into itself.

        Links are followed, or left out when follow_symlinks is false.
        """
        self._follow = follow_symlinks
        self._image = image
        self._directories: dict[tuple[int, int], os.stat_result] = {}

    def start(self) -> None:
        """Nothing to prepare."""

    def look(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> Entry:
        """The entry of a path that a user gave."""
        text = os.fsdecode(path)
        return self._entry(text, os.path.basename(os.path.abspath(text)), os.stat(text))

    def _entry(self, path: str, name: str, status: os.stat_result) -> Entry:
        identity = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            # As first seen: listing a directory changes its time of access.
            status = self._directories.setdefault(identity, status)
            return Entry(path, name, True, 0, status, identity)
        if not stat.S_ISREG(status.st_mode):
            kind = _special_kind(status.st_mode)
            raise OSError(errno.EOPNOTSUPP, f"Neither a file nor a directory but {kind}", path)
        if identity == self._image:
            raise OSError(errno.EINVAL, "The image can't be copied into itself", path)
        return Entry(path, name, False, status.st_size, status, identity)

    def list(self, entry: Entry) -> list[Entry]:
        """What is in a directory, sorted by name."""
        found: list[Entry] = []
        with os.scandir(entry.place) as entries:
            for one in entries:
                if not self._follow and one.is_symlink():
                    continue
                found.append(self._entry(one.path, one.name, os.stat(one.path)))
        found.sort(key=_by_name)
        return found

    def open(self, entry: Entry) -> Reader:
        """Opens a file."""
        return _HostReader(entry)


class _HostReader:
    def __init__(self, entry: Entry) -> None:
        self._fd = os.open(entry.place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.data_size = self._end_of_data(entry)
        except BaseException:
            self.close()
            raise

    def _end_of_data(self, entry: Entry) -> int:
        """Where the hole at the end of a sparse file starts."""
        size = entry.size
        if not hasattr(os, "SEEK_HOLE") or entry.stat.st_blocks * 512 >= size:
            return size
        end = 0
        try:
            while end < size:
                end = os.lseek(self._fd, os.lseek(self._fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            # ENXIO: no data after `end`; anything else: a file system that can't tell.
            return end if error.errno == errno.ENXIO else size
        return min(end, size)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        return os.preadv(self._fd, [buffer], offset)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class VolumeSource:
    """Files of a volume."""

    def __init__(self, volume: Volume) -> None:
        """Reads from ``volume``."""
        self._volume = volume
        self._once = Once(volume)

    def start(self) -> None:
        """Forgets which directories were seen."""
        self._once = Once(self._volume)

    def look(self, path: str) -> Entry:
        """The entry of a path that a user gave."""
        status = self._volume.stat(path)
        text = str(Path(self._volume, path).resolve())
        name = self._volume.stored_name(text) if text != "/" else ""
        return self._entry(text, name, status)

    def _entry(self, path: str, name: str, status: _core.Stat) -> Entry:
        size = 0 if status.is_dir else status.st_size
        identity = (id(self._volume), status.st_ino)
        entry = Entry(path, name, status.is_dir, size, status, identity)
        entry.volume = self._volume
        return entry

    def list(self, entry: Entry) -> list[Entry]:
        """What is in a directory, sorted by name."""
        self._once.enter(entry.place, entry.stat)
        with self._volume.scandir(entry.place) as entries:
            found = [self._entry(one.path, one.name, one.stat()) for one in entries]
        found.sort(key=_by_name)
        return found

    def open(self, entry: Entry) -> Reader:
        """Opens a file."""
        return _VolumeReader(self._volume, entry)


class _VolumeReader:
    def __init__(self, volume: Volume, entry: Entry) -> None:
        self._handle = volume.open_file(entry.place, _core.OPEN_READ)
        self.data_size = min(self._handle.stat().valid_size, entry.size)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        return self._handle.preadinto(buffer, offset)

    def close(self) -> None:
        self._handle.close()


class ForeignSource:
    """Anything with pathlib's ``info``, ``iterdir()`` and a way to open it."""

    def start(self) -> None:
        """Nothing to prepare."""

    def look(self, path: Any) -> Entry:
        """The entry of a path that a user gave."""
        return self._entry(path)

    def _entry(self, path: Any) -> Entry:
        info = path.info
        if not info.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if not (info.is_dir() or info.is_file()):
            raise OSError(errno.EOPNOTSUPP, "Neither a file nor a directory", str(path))
        return Entry(path, path.name, info.is_dir(), 0)

    def list(self, entry: Entry) -> list[Entry]:
        """What is in a directory, sorted by name."""
        return sorted(map(self._entry, entry.place.iterdir()), key=_by_name)

    def open(self, entry: Entry) -> Reader:
        """Opens a file."""
        place = entry.place
        opened = place.__open_rb__() if hasattr(place, "__open_rb__") else place.__open_reader__()
        return StreamReader(opened, owned=True)


class StreamReader:
    """The rest of a readable binary file object, however long it is."""

    def __init__(self, stream: BinaryIO, owned: bool = False) -> None:
        """``owned``: close it at the end."""
        self._stream = stream
        self._owned = owned
        self.data_size = 1 << 62  # unknown: up to the first empty read

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """The next bytes; ``offset`` only ever goes on."""
        readinto = getattr(self._stream, "readinto", None)
        if readinto is not None:
            return readinto(buffer) or 0
        data = self._stream.read(len(buffer))
        if isinstance(data, str):
            raise TypeError("the source must be a binary file, not a text file")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the stream when it is owned."""
        if self._owned:
            self._stream.close()


def _by_name(entry: Entry) -> str:
    return entry.name


def _special_kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


# ---- sinks ----


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


class HostSink:
    """Writes files of the operating system."""

    def __init__(self, preserve: bool = True) -> None:
        """``preserve``: times and the read-only attribute."""
        self._preserve = preserve

    def join(self, place: str, name: str) -> str:
        """A place in a directory; refuses names of a hostile volume that would lead out of it."""
        bad = {"/", "\0", os.sep, os.altsep or os.sep}
        if name in ("", ".", "..") or any(c in name for c in bad):
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
        except FileExistsError:
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


# ---- the copy ----

_FILE, _ENTER, _LEAVE = range(3)


def _walk(source: Source, top: Entry) -> Iterator[tuple[int, Entry]]:
    """Goes through a tree in order. OSError (ELOOP) for a link to a directory above it."""
    source.start()
    if not top.is_dir:
        yield _FILE, top
        return
    yield _ENTER, top
    stack = [(top, iter(source.list(top)))]
    above = {top.identity} - {None}
    while stack:
        directory, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            above.discard(directory.identity)
            yield _LEAVE, directory
        elif not entry.is_dir:
            yield _FILE, entry
        else:
            if entry.identity in above:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), entry.where)
            if entry.identity is not None:
                above.add(entry.identity)
            yield _ENTER, entry
            stack.append((entry, iter(source.list(entry))))


def transfer(
    source: Source,
    top: Entry,
    sink: Sink,
    place: str,
    *,
    progress: Progress | None = None,
    exist_ok: bool = True,
) -> None:
    """Copies ``top`` and all below it to ``place``; exist_ok: into directories that are there."""
    total = sum(entry.size for kind, entry in _walk(source, top) if kind == _FILE)
    move = Move(total, progress)
    places: list[tuple[str, bool]] = []
    for kind, entry in _walk(source, top):
        if kind == _LEAVE:
            sink.finish_directory(places.pop()[0], entry)
            continue
        where = sink.join(places[-1][0], entry.name) if places else place
        fresh = places[-1][1] if places else False
        if kind == _ENTER:
            places.append((where, sink.make_directory(where, exist_ok and not fresh)))
            continue
        reader = source.open(entry)
        try:
            sink.write_file(where, entry, reader, move, fresh)
        finally:
            reader.close()


def _refuse_own_inside(source: VolumeSource, top: Entry, volume: Volume, place: str) -> None:
    """A directory can't be copied into itself, nor a file onto itself: OSError (EINVAL)."""
    target = Path(volume, place).resolve()
    for path in (target, *target.parents):
        if volume.exists(str(path)):
            if (id(volume), volume.stat(str(path)).st_ino) == top.identity:
                raise OSError(errno.EINVAL, "Can't be copied into itself", top.where, None, place)
            if not top.is_dir:
                return


def copy_into_volume(
    volume: Volume,
    src: Any,
    dst: str,
    *,
    progress: Progress | None = None,
    follow_symlinks: bool = True,
    preserve: bool = True,
    exist_ok: bool = True,
    times_of: Callable[[Any], dict[str, int]] | None = None,
    into: bool = True,
) -> str:
    """Copies from the host, a volume, a path of any kind or a file; see Volume.copy_in()."""
    sink = VolumeSink(volume, preserve, times_of)
    source: Any
    if hasattr(src, "read") and not hasattr(src, "info"):
        move = Move(0, progress)
        name = getattr(src, "name", "")
        entry = Entry(name if isinstance(name, str) else "", "", False, 0)
        sink.write_file(dst, entry, StreamReader(src), move, fresh=False)
        return dst
    if isinstance(src, Path):
        source = VolumeSource(src.volume)
        top = source.look(str(src))
    elif isinstance(src, (str, bytes)) or hasattr(src, "__fspath__"):
        source = HostSource(follow_symlinks, volume._image)
        top = source.look(src)
    elif not hasattr(src, "info"):
        raise TypeError(f"src must be a path or a binary file, not {type(src).__name__}")
    else:
        source = ForeignSource()
        top = source.look(src)
    if into and not top.is_dir and (dst.endswith("/") or volume.isdir(dst)):
        dst = sink.join(dst, top.name)
    if isinstance(source, VolumeSource):
        _refuse_own_inside(source, top, volume, dst)
    transfer(source, top, sink, dst, progress=progress, exist_ok=exist_ok)
    return dst


def copy_out_of_volume(
    volume: Volume,
    src: str,
    dst: Any,
    *,
    progress: Progress | None = None,
    preserve: bool = True,
    exist_ok: bool = True,
    into: bool = True,
) -> Any:
    """Copies to the host or into a file object; see Volume.copy_out()."""
    source = VolumeSource(volume)
    top = source.look(src)
    if hasattr(dst, "write"):
        _copy_to_stream(source, top, dst, progress)
        return dst
    sink = HostSink(preserve)
    place = os.fsdecode(dst)
    if into and not top.is_dir and (place.endswith(os.sep) or os.path.isdir(place)):
        place = sink.join(place, top.name)
    transfer(source, top, sink, place, progress=progress, exist_ok=exist_ok)
    return place


def _copy_to_stream(
    source: VolumeSource, top: Entry, stream: BinaryIO, progress: Progress | None
) -> None:
    if top.is_dir:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), top.where)
    reader = source.open(top)
    try:
        end = 0
        for offset, piece in Move(top.size, progress).pieces(reader, top):
            end = offset + len(piece)
            while piece:
                done = stream.write(piece)
                piece = piece[len(piece) if done is None else done :]
        while end < top.size:  # beyond what is stored there are zeros
            end += stream.write(bytes(min(CHUNK, top.size - end)))
    finally:
        reader.close()


def copy_path(source: Any, target: Any, *, preserve: bool, follow_symlinks: bool = True) -> None:
    """pathlib's copy(): exactly to ``target``; a directory must not exist yet."""
    if isinstance(target, Path):
        copy_into_volume(
            target.volume,
            source,
            str(target),
            follow_symlinks=follow_symlinks,
            preserve=preserve,
            exist_ok=False,
            into=False,
        )
        return
    copy_out_of_volume(
        source.volume, str(source), target, preserve=preserve, exist_ok=False, into=False
    )
