"""Copies of files and trees: into a volume, out of it, and between volumes.

A source (host, volume, or anything like pathlib) says what there is and reads it; a sink (host or
volume) makes it. What the library copies is gone through twice: once to add up the sizes and to
find what can't be copied, before anything is written, then to copy. In each directory names go in
sorted order, so that a tree gives the same image wherever it is read.

Files are never left half written: a new one is removed when its copy fails, and on a volume one
that was there before keeps its content until the new one is whole. Directories and files copied
before the failure stay.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from ._copy_sinks import CHUNK, HostSink, Move, Progress, Sink, VolumeSink, build_times, escaped
from ._copy_sources import (
    Entry,
    Failed,
    ForeignSource,
    HostSource,
    Source,
    StreamReader,
    VolumeSource,
)
from .entry import join
from .path import Path
from .volume import Volume

__all__ = [
    "CHUNK", "Entry", "Failed", "HostSink", "HostSource", "Move", "Progress", "Sink", "Source",
    "StreamReader", "Transfer", "VolumeSink", "VolumeSource", "build_times", "copy_into_volume",
    "copy_out_of_volume", "copy_path", "escaped", "measure",
]  # fmt: skip


@dataclass(slots=True)
class _Frame:
    """A directory that is being copied."""

    entry: Entry
    source: Any
    """Its place in the source; where that is text, its length (see Transfer.run)."""
    target: int
    """The length of its place in the sink."""
    made: bool
    """It was not there before, so that all that is in it comes from this copy."""
    children: Iterator[Entry]


class Transfer:
    """A copy of one tree, without recursion. Subclasses may do more at each step.

    The paths of the directories above are not kept but cut off the last one, so that a deep tree
    takes no more memory than a flat one.
    """

    failures: tuple[type[Exception], ...] = (OSError,)
    """What refuse() is asked about."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        move: Move,
        *,
        exist_ok: bool = True,
        onerror: Failed | None = None,
    ) -> None:
        """``exist_ok``: into directories that are there; ``onerror``: the rest goes on."""
        self.source = source
        self.sink = sink
        self.move = move
        self.onerror = onerror
        self._exist_ok = exist_ok
        self._frames: list[_Frame] = []
        self._above: set[object] = set()  # identities of the directories on the way down

    def run(self, top: Entry, place: str) -> None:
        """Copies ``top`` and all below it to ``place``."""
        self.source.start()
        self._item(top, top.place, place, False)
        here, there = top.place, place
        while self._frames:
            frame = self._frames[-1]
            there = there[: frame.target]
            directory = here[: frame.source] if isinstance(here, str) else frame.source
            entry = next(frame.children, None)
            if entry is None:
                self._frames.pop()
                self._leave(frame.entry, directory, there)
                continue
            here = join(directory, entry.name) if entry.place is None else entry.place
            try:
                below = self.sink.join(there, entry.name)
            except self.failures as error:
                entry.place = here
                self.refuse(error, entry, there)
                continue
            self._item(entry, here, below, frame.made)
            there = below
            entry.place = None  # the list it came from still has it

    def _item(self, entry: Entry, here: Any, there: str, fresh: bool) -> None:
        entry.place = here
        try:
            if not entry.is_dir:
                self.file(entry, there, fresh)
                return
            if entry.identity is not None and entry.identity in self._above:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), entry.where)
            children = self.source.list(entry, self.onerror)
            made = self.directory(entry, there, fresh)
        except self.failures as error:
            self.refuse(error, entry, there)
            return
        self._above.add(entry.identity)
        kept = len(here) if isinstance(here, str) else here
        self._frames.append(_Frame(entry, kept, len(there), made, iter(children)))

    def _leave(self, entry: Entry, here: Any, there: str) -> None:
        self._above.discard(entry.identity)
        entry.place = here
        try:
            self.finish(entry, there)
        except self.failures as error:
            self.refuse(error, entry, there)

    def directory(self, entry: Entry, place: str, fresh: bool) -> bool:
        """Makes a directory; False when it was there."""
        return self.sink.make_directory(place, self._exist_ok and not fresh)

    def file(self, entry: Entry, place: str, fresh: bool) -> None:
        """Copies a file."""
        reader = self.source.open(entry)
        try:
            self.sink.write_file(place, entry, reader, self.move, fresh)
        finally:
            reader.close()

    def finish(self, entry: Entry, place: str) -> None:
        """All is in a directory."""
        self.sink.finish_directory(place, entry)

    def refuse(self, error: Exception, entry: Entry, place: str) -> None:
        """An entry could not be copied to a place (or, by its name, into it): raises, or reports
        it, and the rest goes on.
        """
        if self.onerror is None or not isinstance(error, OSError) or error is self.move.stopped:
            raise error
        if error.filename is None:
            error.filename = entry.where
        self.onerror(error)


class _Measure(Transfer):
    """Goes through a tree, and adds up the sizes."""

    total = 0

    def directory(self, entry: Entry, place: str, fresh: bool) -> bool:
        return False

    def file(self, entry: Entry, place: str, fresh: bool) -> None:
        self.total += entry.size

    def finish(self, entry: Entry, place: str) -> None:
        pass


class _Nowhere(HostSink):
    """For names that are not to be judged yet."""

    def join(self, place: str, name: str) -> str:
        return place


def measure(source: Source, top: Entry, onerror: Failed | None = None) -> int:
    """Bytes of the files of a tree. Raises what can't be copied, unless there is ``onerror``."""
    work = _Measure(source, _Nowhere(), Move(0, None), onerror=onerror)
    work.run(top, "")
    return work.total


def _copy(
    source: Source,
    top: Entry,
    sink: Sink,
    place: str,
    progress: Progress | None,
    exist_ok: bool,
    onerror: Failed | None,
) -> None:
    # What fails is reported when its turn comes.
    total = measure(source, top, None if onerror is None else lambda error: None)
    Transfer(source, sink, Move(total, progress), exist_ok=exist_ok, onerror=onerror).run(
        top, place
    )


def _refuse_own_inside(source: VolumeSource, top: Entry, volume: Volume, place: str) -> None:
    """A directory can't be copied into itself, nor a file onto itself: OSError (EINVAL)."""
    path = str(Path(volume, place).resolve())
    while True:
        if volume.exists(path):
            if (id(volume), volume.stat(path).st_ino) == top.identity:
                raise OSError(errno.EINVAL, "Can't be copied into itself", top.where, None, place)
            if not top.is_dir:
                return
        if path == "/":
            return
        path = path.rpartition("/")[0] or "/"


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
    onerror: Failed | None = None,
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
    _copy(source, top, sink, dst, progress, exist_ok, onerror)
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
    onerror: Failed | None = None,
    escape: bool = False,
) -> Any:
    """Copies to the host or into a file object; see Volume.copy_out()."""
    source = VolumeSource(volume)
    top = source.look(src)
    if hasattr(dst, "write"):
        _copy_to_stream(source, top, dst, progress)
        return dst
    sink = HostSink(preserve, escape)
    place = os.fsdecode(dst)
    if into and not top.is_dir and (place.endswith(os.sep) or os.path.isdir(place)):
        place = sink.join(place, top.name)
    _copy(source, top, sink, place, progress, exist_ok, onerror)
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
