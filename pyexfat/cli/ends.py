"""The two ends of a copy, host and volume alike: what is there, how it is read and made, how it is
called.
"""

from __future__ import annotations

import errno
import os
import posixpath
from abc import ABC, abstractmethod
from dataclasses import replace
from stat import S_ISDIR
from typing import NamedTuple

from pyexfat import Volume
from pyexfat.copying import Entry, HostSink, HostSource, Sink, Source, VolumeSink, VolumeSource

from .errors import CommandError
from .places import HostPath, Place
from .session import Session


class Status(NamedTuple):
    """What stands at a path; ``identity`` is the same for the same file however it is called."""

    is_dir: bool
    identity: tuple[object, ...]


class End(ABC):
    """Host or volume, as the side of a copy."""

    @abstractmethod
    def show(self, path: str) -> str:
        """The path as it is typed on the command line."""

    @abstractmethod
    def status(self, path: str) -> Status | None:
        """What is there, or None."""

    @abstractmethod
    def status_of(self, entry: Entry) -> Status:
        """The same of an entry of this side's source."""

    @abstractmethod
    def above(self, path: str) -> str:
        """The directory that holds a path, by name; of the root itself."""

    @abstractmethod
    def look(self, path: str, source: Source) -> Entry:
        """The entry to copy; its name is "" where what is in it is meant (``/``, ``dir/.``)."""

    @abstractmethod
    def source(self, follow: bool) -> Source: ...

    @abstractmethod
    def sink(self, preserve: bool, escape: bool) -> Sink: ...


class HostEnd(End):
    """The host's file system."""

    def show(self, path: str) -> str:
        return path

    def status(self, path: str) -> Status | None:
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Status(S_ISDIR(found.st_mode), ("host", found.st_dev, found.st_ino))

    def status_of(self, entry: Entry) -> Status:
        return Status(entry.is_dir, ("host", entry.stat.st_dev, entry.stat.st_ino))

    def above(self, path: str) -> str:
        return os.path.dirname(os.path.realpath(path))

    def look(self, path: str, source: Source) -> Entry:
        assert isinstance(source, HostSource)
        entry = source.look(path)
        if os.path.basename(path) in (".", ".."):
            entry.name = ""
        return entry

    def source(self, follow: bool) -> Source:
        return HostSource(follow)

    def sink(self, preserve: bool, escape: bool) -> Sink:
        return HostSink(preserve, escape)


class VolumeEnd(End):
    """A volume of an image."""

    def __init__(self, volume: Volume, place: Place) -> None:
        self.volume = volume
        self._place = place

    def show(self, path: str) -> str:
        return str(replace(self._place, path=path))

    def status(self, path: str) -> Status | None:
        try:
            stat = self.volume.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Status(stat.is_dir, ("volume", id(self.volume), stat.st_ino))

    def status_of(self, entry: Entry) -> Status:
        return Status(entry.is_dir, ("volume", id(self.volume), entry.stat.st_ino))

    def above(self, path: str) -> str:
        return posixpath.dirname(posixpath.normpath("/" + path.lstrip("/")))

    def look(self, path: str, source: Source) -> Entry:
        assert isinstance(source, VolumeSource)
        entry = source.look(path)
        if posixpath.basename(path) in (".", ".."):
            entry.name = ""
        return entry

    def source(self, follow: bool) -> Source:
        return VolumeSource(self.volume)

    def sink(self, preserve: bool, escape: bool) -> Sink:
        return VolumeSink(self.volume, preserve)


def end_of(session: Session, location: HostPath | Place) -> tuple[End, str]:
    """The end that a location lies on, and the path there."""
    if isinstance(location, HostPath):
        return HostEnd(), location.path
    return VolumeEnd(session.volume(location), location), location.path


def refuse_images(session: Session, status: Status | None, where: str) -> None:
    """Stops a copy that would read or write a file under a volume that is open."""
    if status is not None and status.identity in session.image_files:
        what = "is an image that this copy has open"
        raise CommandError(where, what)


def refuse_own_inside(source: End, top: Entry, target: End, path: str) -> None:
    """Stops a copy of a file onto itself and of a directory into itself.

    Raises CommandError with both names.
    """
    here = source.status_of(top)
    while True:
        there = target.status(path)
        if there is not None and there.identity == here.identity:
            what = (
                "can't be copied into itself"
                if top.is_dir
                else "is the same file as the destination"
            )
            raise CommandError(source.show(top.where), what)
        above = target.above(path)
        if above == path or not top.is_dir:
            return
        path = above


def blame(error: BaseException, entry: Entry, source: End, target: End, place: str) -> CommandError:
    """The failure with the name of the side that it came from, or of both where it does not say."""
    name = getattr(error, "filename", None)
    where = f"{source.show(entry.where)} -> {target.show(place)}"
    if name == entry.name or (name == entry.where and source is not target):
        where = source.show(entry.where)
    elif name == place or getattr(error, "errno", None) in (errno.ENOSPC, errno.EROFS):
        where = target.show(place)
    return CommandError(where, error)
