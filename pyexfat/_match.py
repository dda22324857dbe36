"""Patterns as pathlib has them (``*``, ``?``, ``[a-z]``, ``**``), for volumes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import TYPE_CHECKING

from .entry import Once, join

if TYPE_CHECKING:
    from .entry import DirEntry
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


def glob(
    volume: Volume, root: str, pattern: str, ignore_case: bool
) -> Iterator[tuple[str, bool | None]]:
    """Yields (path, is a directory or None when that was not looked at) for everything that fits.

    Walks with a stack of its own; a directory that vanishes meanwhile counts as empty, while damage
    is reported. Nothing is yielded twice.
    """
    parts, directories_only = split_pattern(pattern)
    search = _Search(volume, [_matcher_or_literal(part, ignore_case) for part in parts])
    # Only with several ** can one place be reached in two ways.
    seen: set[tuple[str, int]] | None = set() if parts.count("**") > 1 else None
    stack: list[tuple[str, int]] = [(root, 0)]
    while stack:
        path, at = stack.pop()
        deeper: list[tuple[str, int]] = []
        for found, next_at, is_dir in search.step(path, at):
            if seen is not None:
                if (found, next_at) in seen:
                    continue
                seen.add((found, next_at))
            if next_at < len(parts):
                deeper.append((found, next_at))
            elif not directories_only or (volume.isdir(found) if is_dir is None else is_dir):
                yield found, is_dir
        stack.extend(reversed(deeper))


def _matcher_or_literal(part: str, ignore_case: bool) -> str | Match:
    if part in ("**", ".."):
        return part
    # A literal part is looked up by the volume, whose rule ignores case.
    if not _MAGIC.search(part) and ignore_case:
        return part
    return part_matcher(part, ignore_case)


class _Search:
    """One search: the pattern's parts, and the directories that each ``**`` has been through."""

    def __init__(self, volume: Volume, matchers: list[str | Match]) -> None:
        self._volume = volume
        self._matchers = matchers
        self._once = [Once(volume) for _ in matchers]

    def step(self, path: str, at: int) -> Iterator[tuple[str, int, bool | None]]:
        """What one part of the pattern leads to: (path, next part, is a directory)."""
        matcher, last = self._matchers[at], at + 1 == len(self._matchers)
        if matcher == "**":
            yield path, at + 1, True if last else None
            for entry in self._children(path):
                if entry.is_dir():
                    self._once[at].enter(entry.path, entry.stat())
                    yield entry.path, at, True
                elif last:
                    yield entry.path, at + 1, False
        elif isinstance(matcher, str):
            found = join(path, matcher)
            if not last or self._volume.exists(found):
                yield found, at + 1, None
        else:
            for entry in self._children(path):
                if matcher(entry.name) and (last or entry.is_dir()):
                    yield entry.path, at + 1, entry.is_dir()

    def _children(self, path: str) -> Iterator[DirEntry]:
        try:
            entries = self._volume.scandir(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        yield from entries
