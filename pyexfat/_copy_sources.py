"""Where copies come from: the host, a volume, anything like pathlib, or an open file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from . import _core
from .entry import Once
from .path import Path
from .volume import Volume

Failed = Callable[[OSError], object]
"""Takes what could not be read, so that the rest can go on."""


class Entry:
    """A file or directory to be copied."""

    __slots__ = ("identity", "is_dir", "name", "place", "size", "stat", "volume")

    place: Any
    """Where the source finds it. On a volume it is known only while the copy is there: the
    directory's and the name."""
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

    @property
    def where(self) -> str:
        """The place for people."""
        return self.name if self.place is None else str(self.place)


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

    def list(self, entry: Entry, failed: Failed | None = None) -> list[Entry]:
        """What is in a directory, sorted by name; with ``failed`` also where some of it is not to
        be copied.
        """
        ...

    def open(self, entry: Entry) -> Reader:
        """Opens a file."""
        ...


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

    def list(self, entry: Entry, failed: Failed | None = None) -> list[Entry]:
        """What is in a directory, sorted by name."""
        found: list[Entry] = []
        with os.scandir(entry.place) as entries:
            kept = [one for one in entries if self._follow or not one.is_symlink()]
        for one in sorted(kept, key=_by_name):
            try:
                found.append(self._entry(one.path, one.name, os.stat(one.path)))
            except OSError as error:
                if failed is None:
                    raise
                failed(error)
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

    def _entry(self, path: str | None, name: str, status: _core.Stat) -> Entry:
        size = 0 if status.is_dir else status.st_size
        identity = (id(self._volume), status.st_ino)
        entry = Entry(path, name, status.is_dir, size, status, identity)
        entry.volume = self._volume
        return entry

    def list(self, entry: Entry, failed: Failed | None = None) -> list[Entry]:
        """What is in a directory, sorted by name."""
        found: list[Entry] = []
        self._once.enter(entry.place, entry.stat)
        try:
            with self._volume.scandir(entry.place) as entries:
                found.extend(self._entry(None, one.name, one.stat()) for one in entries)
        except OSError as error:
            if failed is None:
                raise
            failed(error)  # of a damaged directory the rest
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

    def list(self, entry: Entry, failed: Failed | None = None) -> list[Entry]:
        """What is in a directory, sorted by name."""
        found: list[Entry] = []
        for one in entry.place.iterdir():
            try:
                found.append(self._entry(one))
            except OSError as error:
                if failed is None:
                    raise
                failed(error)
        found.sort(key=_by_name)
        return found

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


def _by_name(entry: Entry | os.DirEntry[str]) -> str:
    return entry.name


def _special_kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")
