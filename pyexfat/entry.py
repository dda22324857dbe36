"""Entries of directories: what ``scandir()`` yields, and what a Path knows of its place."""

from __future__ import annotations

import errno
import stat as _stat
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from ._errors import CorruptImageError, Where

if TYPE_CHECKING:
    from ._core import Stat
    from .volume import Volume

_BATCH = 512  # entries fetched in one call


def join(directory: str, name: str) -> str:
    """The path of a name in a directory."""
    return directory + name if directory.endswith("/") else f"{directory}/{name}"


_Place = tuple["_Place | None", str]
"""A path as the one above and what comes behind that."""


class Once:
    """Lets a walk into each directory once, so that it ends on a damaged volume, too.

    A walk that goes depth first makes it keep no more than the name of each directory.
    """

    def __init__(self, volume: Volume) -> None:
        """For one walk of ``volume``."""
        self._volume = volume
        self._seen: dict[int, _Place] = {}
        self._last = ""
        self._above: list[tuple[int, _Place]] = []  # on the way to the last; lengths of the paths

    def enter(self, path: str, status: Stat) -> None:
        """Raises CorruptImageError when its clusters are those of another one seen before."""
        first = status.first_cluster
        if not first:
            return  # empty: no way to anywhere
        other = self._seen.get(first)
        if other is None or not self._still_there(_written_out(other), path, first):
            self._seen[first] = self._place(path)
            return
        detail = "Directory has the clusters of another"
        error = CorruptImageError(errno.EUCLEAN, detail, path)
        error.where = Where("directory", status.entry_offset, "FirstCluster", first, 0, detail)
        raise error

    def _place(self, path: str) -> _Place:
        place: _Place = (None, path)
        while self._above:
            length, above = self._above[-1]
            if len(path) > length and path.startswith(self._last[:length]):
                place = (above, path[length:])
                break
            self._above.pop()
        self._above.append((len(path), place))
        self._last = path
        return place

    def _still_there(self, other: str, path: str, first: int) -> bool:
        # It may have been removed since, and its clusters given to a new one.
        try:
            return other != path and self._volume.stat(other).first_cluster == first
        except (FileNotFoundError, NotADirectoryError):
            return False


def _written_out(place: _Place | None) -> str:
    parts: list[str] = []
    while place:
        place, part = place
        parts.append(part)
    return "".join(reversed(parts))


class PathInfo:
    """Kind and times of a place, looked up at most once (pathlib.types.PathInfo)."""

    __slots__ = ("_path", "_stat", "_volume")

    def __init__(self, volume: Volume, path: str, known: Stat | None = None) -> None:
        """``known`` is the stat() of the place where it is known already."""
        self._volume = volume
        self._path = path
        self._stat: Stat | bool | None = known

    def _look(self) -> Stat | None:
        if self._stat is None:
            try:
                self._stat = self._volume.stat(self._path)
            except (FileNotFoundError, NotADirectoryError):
                self._stat = False
        return None if isinstance(self._stat, bool) else self._stat

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there was something."""
        return self._look() is not None

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it was a directory."""
        found = self._look()
        return found is not None and found.is_dir

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it was a file."""
        found = self._look()
        return found is not None and not found.is_dir

    def is_symlink(self) -> bool:
        """Always false."""
        return False

    # What pathlib's copy(preserve_metadata=True) asks for where it is offered.

    def _existing(self) -> Stat:
        found = self._look()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self._path)
        return found

    def _posix_permissions(self, *, follow_symlinks: bool = True) -> int:
        return _stat.S_IMODE(self._existing().st_mode)

    def _access_time_ns(self, *, follow_symlinks: bool = True) -> int:
        return self._existing().st_atime_ns

    def _mod_time_ns(self, *, follow_symlinks: bool = True) -> int:
        return self._existing().st_mtime_ns

    def __repr__(self) -> str:
        """The path it belongs to."""
        return f"<PathInfo {self._path!r}>"


class DirEntry:
    """One entry of a directory, as os.DirEntry: what it says was true when the directory was read.

    It is no os.PathLike, as it lies in a volume; Volume methods take it as a path.
    """

    __slots__ = ("_directory", "_stat", "name")

    name: str
    """The name as it is stored."""

    def __init__(self, directory: str, name: str, known: Stat) -> None:
        """An entry called ``name`` in ``directory``."""
        self.name = name
        self._directory = directory
        self._stat = known

    @property
    def path(self) -> str:
        """The directory as it was given to scandir(), and the name."""
        return join(self._directory, self.name)

    def __vfspath__(self) -> str:
        """The path inside the volume."""
        return self.path

    def stat(self, *, follow_symlinks: bool = True) -> Stat:
        """Everything known of it; costs nothing more."""
        return self._stat

    def inode(self) -> int:
        """``stat().st_ino``."""
        return self._stat.st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""
        return self._stat.is_dir

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return not self._stat.is_dir

    def is_symlink(self) -> bool:
        """Always false."""
        return False

    def is_junction(self) -> bool:
        """Always false."""
        return False

    def __repr__(self) -> str:
        """As os.DirEntry."""
        return f"<DirEntry {self.name!r}>"

    def __reduce__(self) -> NoReturn:
        """Refused, as for os.DirEntry."""
        raise TypeError("cannot pickle 'DirEntry' object")


class ScandirIterator:
    """Iterator over a directory's entries in the order of the disk, read a batch at a time.

    Entries removed or made while it runs may be seen or not; all others are seen exactly once.
    Where an entry is damaged, all others come first, and then CorruptImageError is raised.
    """

    def __init__(self, volume: Volume, path: str) -> None:
        """Reads the first batch, so that a wrong path is reported at once."""
        self._volume = volume
        self._directory = path
        self._cursor = 0
        self._batch: list[tuple[str, Stat]] = []
        self._end = False
        self._damage: OSError | None = None
        self._fill()

    def _fill(self) -> None:
        batch, self._cursor, self._end, damage = self._volume.scandir_batch(
            self._directory, self._cursor, _BATCH
        )
        self._damage = self._damage or damage
        batch.reverse()
        self._batch = batch

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> DirEntry:
        """The next entry."""
        while True:
            try:
                name, known = self._batch.pop()
            except IndexError:
                if self._end:
                    damage, self._damage = self._damage, None
                    if damage is not None:
                        raise damage from None
                    raise StopIteration from None
            else:
                return DirEntry(self._directory, name, known)
            try:
                self._fill()
            except FileNotFoundError:  # removed in the meantime: there is nothing more in it
                self._end = True

    def close(self) -> None:
        """Ends the iteration."""
        self._batch, self._end, self._damage = [], True, None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Ends the iteration."""
        self.close()
