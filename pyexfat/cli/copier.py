"""The work of cp: the arguments one by one, and the trees; what fails is reported and the rest goes
on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyexfat._text import visible
from pyexfat.copying import Entry, Move, Sink, Source, StreamReader, Transfer, measure

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


class _TreeCopy(Transfer):
    """One argument and all below it; ``done`` is told what was copied."""

    failures = (OSError, ValueError, CommandError)

    def __init__(
        self,
        session: Session,
        route: _Route,
        move: Move,
        no_clobber: bool,
        done: Callable[[str, str, Entry], None],
    ) -> None:
        super().__init__(route.source, route.sink, move, onerror=self._unread)
        self._session = session
        self._route = route
        self._no_clobber = no_clobber
        self._done = done
        self._top: Entry | None = None

    def run(self, top: Entry, place: str) -> None:
        """Raises what fails at the top itself."""
        self._top = top
        super().run(top, place)

    def directory(self, entry: Entry, place: str, fresh: bool) -> bool:
        made = super().directory(entry, place, fresh)
        if made:
            self._tell(entry, place)
        return made

    def file(self, entry: Entry, place: str, fresh: bool) -> None:
        source, target = self._route.source_end, self._route.target_end
        status = None if fresh else target.status(place)
        if status is not None and self._no_clobber:
            return
        refuse_images(self._session, source.status_of(entry), source.show(entry.where))
        refuse_images(self._session, status, target.show(place))
        if status is not None and status.is_dir:
            raise CommandError(target.show(place), "Is a directory")
        super().file(entry, place, fresh)
        self._tell(entry, place)

    def refuse(self, error: Exception, entry: Entry, place: str) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        source, target = self._route.source_end, self._route.target_end
        if not isinstance(error, CommandError):
            error = blame(error, entry, source, target, place)
        if entry is self._top:
            raise error
        self._session.failed(source.show(entry.where), error)

    def _unread(self, error: OSError) -> None:
        name = error.filename if isinstance(error.filename, str) else ""
        self._session.failed(self._route.source_end.show(name), error)

    def _tell(self, entry: Entry, place: str) -> None:
        route = self._route
        self._done(route.source_end.show(entry.where), route.target_end.show(place), entry)


class _Input(StreamReader):
    """Standard input, whose failures are its own."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        try:
            return super().read_into(buffer, offset)
        except OSError as error:
            raise CommandError("standard input", error) from error


class Copier:
    """Copies the arguments of one command; ``copied`` are the records for JSON."""

    def __init__(self, session: Session, args: argparse.Namespace, progress: Progress) -> None:
        self.copied: list[dict[str, Any]] = []
        self._session = session
        self._args = args
        self._progress = progress
        self._move = Move(0, lambda done, total, where: progress.at(done))
        self._written: set[tuple[object, ...]] = set()  # identities of what arguments became

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
        try:
            end, path = end_of(self._session, location)
            source = end.source(not self._args.no_links)
            top = end.look(path, source)
            if top.is_dir and not self._args.recursive:
                return 0
            return measure(source, top, lambda error: None)
        except (OSError, ValueError, CommandError):
            return 0

    def _from_input(self, end: End, path: str, into: bool) -> None:
        if into:
            raise CommandError(end.show(path), "is a directory, and standard input has no name")
        if self._args.no_clobber and end.status(path) is not None:
            return
        entry = Entry("-", "-", False, 0)
        try:
            reader = _Input(sys.stdin.buffer)
            end.sink(False, self._args.escape).write_file(path, entry, reader, self._move, False)
        except (OSError, ValueError) as error:
            raise CommandError(end.show(path), error) from error
        self._done("-", end.show(path), entry)

    def _argument(self, location: HostPath | Place, end: End, path: str, into: bool) -> None:
        source_end, start = end_of(self._session, location)
        source = source_end.source(not self._args.no_links)
        sink = end.sink(not self._args.no_preserve, self._args.escape)
        route = _Route(source_end, source, end, sink)
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
        copy = _TreeCopy(self._session, route, self._move, self._args.no_clobber, self._done)
        copy.run(top, place)
        after = None if top.is_dir else end.status(place)
        if after is not None:
            self._written.add(after.identity)

    def _done(self, source: str, destination: str, entry: Entry) -> None:
        if self._args.json:
            kind = "directory" if entry.is_dir else "file"
            record = {"source": source, "destination": destination, "type": kind}
            self.copied.append(record | {"size": entry.size})
        elif self._args.verbose:
            self._session.out.line(visible(f"{source} -> {destination}"))
