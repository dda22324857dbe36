"""The work of cp: the arguments one by one, trees without recursion; what fails is reported and the
rest goes on.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyexfat._text import visible
from pyexfat.copying import Entry, Move, Sink, Source, StreamReader

from .ends import End, blame, end_of, refuse_images, refuse_own_inside
from .errors import CommandError
from .places import HostPath, Location, Place, Stream
from .progress import Progress
from .session import Session


@dataclass
class _Route:
    """From where to where one argument goes."""

    source_end: End
    source: Source
    target_end: End
    sink: Sink


@dataclass
class _Frame:
    """A directory that is being copied."""

    entry: Entry
    place: str
    made: bool
    """It was not there before, so that all that is in it comes from this copy."""
    children: Iterator[Entry]


class Copier:
    """Copies the arguments of one command; ``copied`` are the records for JSON."""

    def __init__(self, session: Session, args: argparse.Namespace, progress: Progress) -> None:
        self.copied: list[dict[str, Any]] = []
        self._session = session
        self._args = args
        self._progress = progress
        self._move = Move(0, lambda done, total, where: progress.at(done))
        self._written: set[tuple[object, ...]] = set()  # identities of what arguments became
        self._above: set[object] = set()  # identities of the directories on the way down

    def copy(self, sources: list[Location], target: HostPath | Place) -> None:
        """Copies all arguments.

        Raises CommandError when the target can't take them at all.
        """
        end, path = end_of(self._session, target)
        status = end.status(path)
        into = status is not None and status.is_dir
        if not into and len(sources) > 1:
            raise CommandError(str(target), "is not a directory")
        if self._progress.shown:
            self._progress.expect(sum(self._size(one) for one in sources))
        for one in sources:
            with self._session.attempt(str(one)):
                if isinstance(one, Stream):
                    self._from_input(end, path, into)
                else:
                    self._argument(one, end, path, into)

    def _size(self, location: Location) -> int:
        """Bytes that will be copied; what can't be read counts nothing and is reported later."""
        if isinstance(location, Stream):
            return 0
        total = 0
        try:
            end, path = end_of(self._session, location)
            source = end.source(not self._args.no_links, lambda path, error: None)
            pending, seen = [end.look(path, source)], set[object]()
            while pending:
                entry = pending.pop()
                total += entry.size
                if entry.is_dir and entry.identity not in seen and self._args.recursive:
                    seen.add(entry.identity)
                    pending += source.list(entry)
        except (OSError, ValueError, CommandError):
            pass
        return total

    def _from_input(self, end: End, path: str, into: bool) -> None:
        if into:
            raise CommandError(end.show(path), "is a directory, and standard input has no name")
        if self._args.no_clobber and end.status(path) is not None:
            return
        entry = Entry("-", "-", False, 0)
        try:
            reader = StreamReader(sys.stdin.buffer)
            end.sink(False).write_file(path, entry, reader, self._move, False)
        except (OSError, ValueError) as error:
            raise CommandError(end.show(path), error) from error
        self._done("-", end.show(path), entry)

    def _argument(self, location: HostPath | Place, end: End, path: str, into: bool) -> None:
        source_end, start = end_of(self._session, location)
        source = source_end.source(not self._args.no_links, self._session.failed)
        route = _Route(source_end, source, end, end.sink(not self._args.no_preserve))
        top = source_end.look(start, source)
        if not top.is_dir:
            if not into and path.endswith("/"):
                raise CommandError(end.show(path), "is not a directory")
        elif not self._args.recursive:
            raise CommandError(str(location), "is a directory (-r copies directories)")
        place = path
        if into and top.name:
            place = route.sink.join(path, top.name)
        refuse_own_inside(source_end, top, end, place)
        before = end.status(place)
        if before is not None and before.identity in self._written:
            raise CommandError(end.show(place), "was made by an argument before this one")
        self._above.clear()
        self._tree(route, top, place)
        after = None if top.is_dir else end.status(place)
        if after is not None:
            self._written.add(after.identity)

    def _tree(self, route: _Route, top: Entry, place: str) -> None:
        first = self._item(route, top, place, False)
        frames = [first] if first else []
        while frames:
            frame = frames[-1]
            entry = next(frame.children, None)
            if entry is None:
                frames.pop()
                self._above.discard(frame.entry.identity)
                with self._session.attempt(route.target_end.show(frame.place)):
                    route.sink.finish_directory(frame.place, frame.entry)
                continue
            with self._session.attempt(route.source_end.show(entry.where)):
                below = self._item(route, entry, frame.place, frame.made, entry.name)
                if below:
                    frames.append(below)

    def _item(
        self, route: _Route, entry: Entry, place: str, fresh: bool, name: str = ""
    ) -> _Frame | None:
        """Copies a file to ``place`` (to ``name`` in it), or makes a directory and says how to go
        on in it.
        """
        try:
            if name:
                place = route.sink.join(place, name)
            if entry.is_dir:
                return self._directory(route, entry, place, fresh)
            self._file(route, entry, place, fresh)
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            raise blame(error, entry, route.source_end, route.target_end, place) from error
        return None

    def _directory(self, route: _Route, entry: Entry, place: str, fresh: bool) -> _Frame:
        if entry.identity in self._above:
            raise OSError(errno.ELOOP, "Link to a directory above", entry.where)
        children = route.source.list(entry)
        made = route.sink.make_directory(place, not fresh)
        self._above.add(entry.identity)
        if made:
            self._done(route.source_end.show(entry.where), route.target_end.show(place), entry)
        return _Frame(entry, place, made, iter(children))

    def _file(self, route: _Route, entry: Entry, place: str, fresh: bool) -> None:
        status = None if fresh else route.target_end.status(place)
        if status is not None and self._args.no_clobber:
            return
        where = route.source_end.show(entry.where)
        refuse_images(self._session, route.source_end.status_of(entry), where)
        refuse_images(self._session, status, route.target_end.show(place))
        if status is not None and status.is_dir:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", place)
        reader = route.source.open(entry)
        try:
            route.sink.write_file(place, entry, reader, self._move, fresh)
        finally:
            reader.close()
        self._done(where, route.target_end.show(place), entry)

    def _done(self, source: str, destination: str, entry: Entry) -> None:
        if self._args.json:
            kind = "directory" if entry.is_dir else "file"
            record = {"source": source, "destination": destination, "type": kind}
            self.copied.append(record | {"size": entry.size})
        elif self._args.verbose:
            self._session.out.line(visible(f"{source} -> {destination}"))
