"""Patterns as pathlib has them (``*``, ``?``, ``[a-z]``, ``**``), for volumes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import TYPE_CHECKING

from .entry import Once, join

if TYPE_CHECKING:
    from ._core import Stat
    from .volume import Volume

_MAGIC = re.compile(r"[*?\[]")

Match = Callable[[str], object]


def split_pattern(pattern: str) -> tuple[list[str], bool]:
    """The parts of a pattern, and whether it ends in a slash (directories only).

    Raises ValueError for an empty pattern, and TypeError for what is no str.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str, not {type(pattern).__name__}")
    parts: list[str] = []
    for part in pattern.split("/"):
        if part and part != "." and not (part == "**" and parts[-1:] == ["**"]):
            parts.append(part)
    if not parts:
        raise ValueError(f"pattern is empty: {pattern!r}")
    return parts, pattern.endswith("/")


def part_matcher(part: str, ignore_case: bool) -> Match:
    """Tests one name against one part of a pattern."""
    return re.compile(translate(part), re.IGNORECASE if ignore_case else 0).match


def path_matches(parts: list[str], pattern: list[str], ignore_case: bool) -> bool:
    """Whether a whole path fits a whole pattern; ``**`` stands for any number of parts."""
    reachable = {0}  # how many parts of the path may have been used so far
    for piece in pattern:
        if piece == "**":
            reachable = set(range(min(reachable), len(parts) + 1))
        else:
            fits = part_matcher(piece, ignore_case)
            reachable = {i + 1 for i in reachable if i < len(parts) and fits(parts[i])}
        if not reachable:
            return False
    return len(parts) in reachable


def glob(volume: Volume, root: str, pattern: str, ignore_case: bool) -> Iterator[str]:
    """Yields the paths of everything that fits, each once, but for what ``..`` leads to again.

    A directory that vanishes meanwhile counts as empty, while damage is reported.
    """
    parts, directories_only = split_pattern(pattern)
    found: Iterator[str] = iter([root])
    while ".." in parts:
        here = parts.index("..")
        if here:
            found = _below_each(volume, found, _Search(volume, parts[:here], True, ignore_case))
        found = (join(path, "..") for path in found)
        parts = parts[here + 1 :]
    if parts:
        search = _Search(volume, parts, directories_only, ignore_case)
        found = _below_each(volume, found, search)
    return found


def _below_each(volume: Volume, tops: Iterator[str], search: _Search) -> Iterator[str]:
    for top in tops:
        yield from search.below(top)


class _Search:
    """Goes through a tree once for a pattern without ``..``.

    A place stands for itself together with the parts of the pattern that may come next there:
    several, behind a ``**``.
    """

    def __init__(
        self, volume: Volume, parts: list[str], directories_only: bool, ignore_case: bool
    ) -> None:
        self._volume = volume
        self._parts = [_matcher_or_literal(part, ignore_case) for part in parts]
        self._end = len(parts)
        self._directories_only = directories_only

    def below(self, top: str) -> Iterator[str]:
        """Everything under ``top`` that fits, in the order of the disk."""
        once = Once(self._volume)
        start = self._also_behind_stars({0})
        if self._end in start:
            yield top
        try:
            stack = [(0, top, self._volume.stat(top), start)]
        except (FileNotFoundError, NotADirectoryError):
            return
        path = top
        while stack:
            length, rest, stat, wanted = stack.pop()
            path = path[:length] + rest  # what was popped before lies in the same directory
            below: list[tuple[int, str, Stat, frozenset[int]]] = []
            for name, found, fits in self._step(once, path, stat, wanted):
                child = join(path, name)
                if self._end in fits and (found.is_dir or not self._directories_only):
                    yield child
                if found.is_dir and any(i < self._end for i in fits):
                    below.append((len(path), child[len(path) :], found, fits))
            stack.extend(reversed(below))

    def _step(
        self, once: Once, path: str, stat: Stat, wanted: frozenset[int]
    ) -> Iterator[tuple[str, Stat, frozenset[int]]]:
        """Entries of a directory that a next part fits: name, stat, and what may come then."""
        next_parts = [(i, self._parts[i]) for i in sorted(wanted) if i < self._end]
        literals = {part for _, part in next_parts if isinstance(part, str) and part != "**"}
        try:
            if len(next_parts) == 1 and literals:
                (i, part) = next_parts[0]
                found = self._volume.stat(join(path, str(part)))
                yield str(part), found, self._also_behind_stars({i + 1})
                return
            stored = {part: self._stored_name(path, part) for part in literals}
            once.enter(path, stat)
            entries = self._volume.scandir(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            fits: set[int] = set()
            for i, part in next_parts:
                if part == "**":
                    if entry.is_dir():
                        fits.add(i)
                    elif i + 1 == self._end:
                        fits.add(self._end)
                elif stored[part] == entry.name if isinstance(part, str) else part(entry.name):
                    fits.add(i + 1)
            if fits:
                yield entry.name, entry.stat(), self._also_behind_stars(fits)

    def _also_behind_stars(self, wanted: set[int]) -> frozenset[int]:
        """A ``**`` may stand for nothing."""
        for i in sorted(wanted):
            if i < self._end and self._parts[i] == "**":
                wanted.add(i + 1)
        return frozenset(wanted)

    def _stored_name(self, path: str, name: str) -> str | None:
        try:
            return self._volume.stored_name(join(path, name))
        except (FileNotFoundError, NotADirectoryError):
            return None


def _matcher_or_literal(part: str, ignore_case: bool) -> str | Match:
    # A literal part is looked up by the volume, whose rule ignores case.
    if part == "**" or (ignore_case and not _MAGIC.search(part)):
        return part
    return part_matcher(part, ignore_case)
