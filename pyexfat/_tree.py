"""Walks of directory trees that end, whatever a damaged volume holds.

None is recursive, and none keeps the paths of what is still to come: that is the last path cut off
at a length, and the rest. So a walk takes memory for one path, however deep the tree.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .entry import Once, join

if TYPE_CHECKING:
    from ._core import Stat
    from .volume import Volume


class Step(NamedTuple):
    """A file, or a directory before ("enter") and after ("leave") what is in it."""

    what: Literal["file", "enter", "leave"]
    path: str
    name: str
    """"" for the top of the walk."""
    stat: Stat
    depth: int
    """0 for the top of the walk."""
    last: bool
    """No more entries follow in the same directory."""


Row = tuple[str, "Stat"]
Arrange = Callable[[list[Row]], list[Row]]
"""Sorts the entries of one directory, or leaves some out."""
Failed = Callable[[str, OSError], None]
"""Takes the path of a directory that can't be read or entered, and why; None: it is raised."""


def entries(volume: Volume, directory: str) -> Iterator[Row]:
    """Names and stats of a directory, in disk order."""
    with volume.scandir(directory) as found:
        for entry in found:
            yield entry.name, entry.stat()


def _rest(directory: str, name: str) -> str:
    """What comes behind the path of the directory in the path of a name in it."""
    return name if directory.endswith("/") else "/" + name


# ---- for listings ----


class _Frame(NamedTuple):
    """A directory whose entries are being gone through."""

    length: int
    """Of its path."""
    name: str
    stat: Stat
    last: bool
    rows: Iterator[tuple[str, Stat, bool]]


def walk(
    volume: Volume,
    top: str,
    *,
    arrange: Arrange | None = None,
    depth: int | None = None,
    failed: Failed | None = None,
) -> Iterator[Step]:
    """The tree under ``top`` and itself, depth first, as steps; ``depth`` is how far down to go.

    Each directory is entered once: one that damage has put into a second place or into itself
    fails.
    """
    stat = volume.stat(top)
    path = "/" + top.strip("/")
    if not stat.is_dir:
        yield Step("file", path, "", stat, 0, True)
        return
    guard = _Guard(volume, arrange, failed)
    guard.enter(path, stat)
    yield Step("enter", path, "", stat, 0, True)
    frames = [_Frame(len(path), "", stat, True, _marked(guard.rows(path)))]
    while frames:
        frame = frames[-1]
        path = path[: frame.length]
        item = next(frame.rows, None)
        if item is None:
            frames.pop()
            yield Step("leave", path, frame.name, frame.stat, len(frames), frame.last)
            continue
        name, stat, last = item
        path, below = join(path, name), len(frames)
        if not stat.is_dir:
            yield Step("file", path, name, stat, below, last)
            continue
        yield Step("enter", path, name, stat, below, last)
        if (depth is None or below < depth) and guard.enter(path, stat):
            frames.append(_Frame(len(path), name, stat, last, _marked(guard.rows(path))))
        else:
            yield Step("leave", path, name, stat, below, last)


def directories(
    volume: Volume, top: str, *, arrange: Arrange | None = None, failed: Failed | None = None
) -> Iterator[tuple[str, list[Row]]]:
    """The directory ``top`` and all below it with their entries, each before those in it; ends as
    walk() does.
    """
    guard = _Guard(volume, arrange, failed)
    path = ""
    pending = [(0, top, volume.stat(top))]
    while pending:
        length, rest, stat = pending.pop()
        path = path[:length] + rest
        if not guard.enter(path, stat):
            continue
        rows = guard.rows(path)
        yield path, rows
        below = [(len(path), _rest(path, name), stat) for name, stat in rows if stat.is_dir]
        pending += reversed(below)


def _marked(rows: list[Row]) -> Iterator[tuple[str, Stat, bool]]:
    """The rows with a mark on the last."""
    for i, (name, stat) in enumerate(rows, 1):
        yield name, stat, i == len(rows)


class _Guard:
    """Reads the directories of one walk, and lets it into each once."""

    def __init__(self, volume: Volume, arrange: Arrange | None, failed: Failed | None) -> None:
        self._volume = volume
        self._arrange = arrange
        self._failed = failed
        self._once = Once(volume)

    def enter(self, path: str, stat: Stat) -> bool:
        """Whether the walk may go in."""
        try:
            self._once.enter(path, stat)
        except OSError as error:
            self._fail(path, error)
            return False
        return True

    def rows(self, path: str) -> list[Row]:
        """The entries as arranged; of a damaged directory those before the damage."""
        found: list[Row] = []
        try:
            found.extend(entries(self._volume, path))
        except OSError as error:
            self._fail(path, error)
        return found if self._arrange is None else self._arrange(found)

    def _fail(self, path: str, error: OSError) -> None:
        if self._failed is None:
            raise error
        self._failed(path, error)


# ---- as the os module has them ----


def os_walk(
    volume: Volume, top: str, topdown: bool, onerror: Callable[[OSError], object] | None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Volume.walk()."""
    once = Once(volume)
    path = ""
    stack: list[tuple[int, str, tuple[list[str], list[str]] | None]] = [(0, top, None)]
    while stack:
        length, rest, known = stack.pop()
        path = path[:length] + rest
        if known is not None:
            yield path, *known
            continue
        below: list[str] = []
        names: list[str] = []
        try:
            once.enter(path, volume.stat(path))
            for entry in volume.scandir(path):
                (below if entry.is_dir() else names).append(entry.name)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            elif not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                raise
            if not below and not names:
                continue
        if topdown:
            yield path, below, names
        else:
            stack.append((len(path), "", (below, names)))
        stack.extend((len(path), _rest(path, name), None) for name in reversed(below))


Blame = Callable[[Callable[..., Any], str, OSError], object]
"""Takes the call that failed, at what, and why; what it raises ends the work."""


def remove(volume: Volume, top: str, failed: Blame) -> bool:
    """Removes a tree, or what of it can be removed; whether that was all.

    A directory in which something stays is not tried.
    """
    once = Once(volume)
    path = ""
    emptied: list[bool] = []  # for each directory on the way down: so far
    stack = [(0, top, False)]
    while stack:
        length, rest, leaving = stack.pop()
        path = path[:length] + rest
        if leaving:
            done = emptied.pop() and _attempt(volume.rmdir, path, failed)
        elif not _enter(volume, once, path, failed):
            done = False
        else:
            below, names, complete = _entries_of(volume, path, failed)
            stack.append((len(path), "", True))
            stack.extend((len(path), _rest(path, name), False) for name in reversed(below))
            emptied.append(_remove_files(volume, path, names, failed) and complete)
            continue
        if not emptied:
            return done
        emptied[-1] = emptied[-1] and done
    return True


def _attempt(call: Callable[[str], object], path: str, failed: Blame) -> bool:
    try:
        call(path)
    except OSError as error:
        failed(call, path, error)
        return False
    return True


def _enter(volume: Volume, once: Once, path: str, failed: Blame) -> bool:
    try:
        status = volume.stat(path)
        if status.st_ino == 1:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        once.enter(path, status)
    except OSError as error:
        failed(volume.scandir, path, error)
        return False
    return True


def _entries_of(volume: Volume, path: str, failed: Blame) -> tuple[list[str], list[str], bool]:
    """Directories, files, and whether that is all; of a damaged directory what is sound."""
    below: list[str] = []
    names: list[str] = []
    try:
        for entry in volume.scandir(path):
            (below if entry.is_dir() else names).append(entry.name)
    except OSError as error:
        failed(volume.scandir, path, error)
        return below, names, False
    return below, names, True


def _remove_files(volume: Volume, directory: str, names: list[str], failed: Blame) -> bool:
    """Whether none is left."""
    complete = True
    while names:
        try:
            volume.remove_many(directory, names)
            break
        except OSError as error:
            complete = False
            done = getattr(error, "done", None)
            if done is None or error.errno in (errno.EROFS, errno.EIO):
                failed(volume.unlink, directory, error)
                break
            failed(volume.unlink, join(directory, names[done]), error)
            names = names[done + 1 :]
    return complete
