"""Walks of directory trees that end, whatever a damaged volume holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

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


def walk(
    volume: Volume,
    top: str,
    *,
    arrange: Arrange | None = None,
    depth: int | None = None,
    failed: Failed | None = None,
) -> Iterator[Step]:
    """The tree under ``top`` and itself, depth first, as steps; ``depth`` is how far down to go.

    No recursion, and each directory is entered once: one that damage has put into a second place or
    into itself fails.
    """
    stat = volume.stat(top)
    base = "/" + top.strip("/")
    if not stat.is_dir:
        yield Step("file", base, "", stat, 0, True)
        return
    guard = _Guard(volume, arrange, failed)
    guard.enter(base, stat)
    yield Step("enter", base, "", stat, 0, True)
    stack = [(Step("leave", base, "", stat, 0, True), guard.numbered(base))]
    while stack:
        directory, rest = stack[-1]
        item = next(rest, None)
        if item is None:
            stack.pop()
            yield directory
            continue
        name, stat, last = item
        path, below = join(directory.path, name), directory.depth + 1
        if not stat.is_dir:
            yield Step("file", path, name, stat, below, last)
            continue
        yield Step("enter", path, name, stat, below, last)
        leave = Step("leave", path, name, stat, below, last)
        if (depth is None or below < depth) and guard.enter(path, stat):
            stack.append((leave, guard.numbered(path)))
        else:
            yield leave


def directories(
    volume: Volume, top: str, *, arrange: Arrange | None = None, failed: Failed | None = None
) -> Iterator[tuple[str, list[Row]]]:
    """The directory ``top`` and all below it with their entries, each before those in it; ends as
    walk() does.
    """
    guard = _Guard(volume, arrange, failed)
    guard.enter(top, volume.stat(top))
    pending = [top]
    while pending:
        directory = pending.pop()
        rows = guard.rows(directory)
        yield directory, rows
        below = [(join(directory, name), stat) for name, stat in rows if stat.is_dir]
        pending += [path for path, stat in reversed(below) if guard.enter(path, stat)]


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

    def numbered(self, path: str) -> Iterator[tuple[str, Stat, bool]]:
        """The rows with a mark on the last."""
        rows = self.rows(path)
        for i, (name, stat) in enumerate(rows, 1):
            yield name, stat, i == len(rows)

    def _fail(self, path: str, error: OSError) -> None:
        if self._failed is None:
            raise error
        self._failed(path, error)
