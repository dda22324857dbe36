"""Devices: what a volume stands on. They stack: a branch of a recorder is a device, too."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal, Self, cast

from . import _core
from .sizes import Size, format_size, parse_size

_Op = Literal["read", "write", "flush", "discard"]


class Device(_core.Device):
    """A row of sectors by byte offset; offsets and lengths are multiples of ``sector_size``.

    Made by memory(), file(), buffer() or wrap(). A device stays open until close(), also when a
    volume on it is closed; use it in a ``with`` statement. Raises ValueError once it is closed, and
    in the child of a fork.
    """

    __slots__ = ()

    @classmethod
    def memory(cls, size: Size, sector_size: int = 512) -> Self:
        """Zeros in memory, which takes as much as is written to it: ``Device.memory("64 MiB")``."""
        return super().memory(parse_size(size, "size"), sector_size)

    @classmethod
    def file(
        cls,
        path: str | bytes | PathLike[str] | PathLike[bytes],
        writable: bool = False,
        create: bool = False,
        sector_size: int = 0,
    ) -> Self:
        """An image file or a raw block device.

        An image is locked for others while it is open: OSError (EBUSY) for the second writer, and
        for a block device that is mounted. sector_size 0 means the block device's own, and 512 for
        a file.
        """
        return super().file(path, writable, create, sector_size)

    @classmethod
    def wrap(
        cls,
        fileobj: Any,
        writable: bool | None = None,
        size: Size | None = None,
        sector_size: int = 512,
    ) -> Self:
        """Any seekable binary file object, one of fsspec's too.

        writable None: as the object says; size None: up to its end. The object must not be used by
        others meanwhile, and stays open.
        """
        length = None if size is None else parse_size(size, "size")
        return super().wrap(fileobj, writable, length, sector_size)

    def branch(self) -> Device:
        """A child that sees this device as it is now and keeps its changes to itself.

        It costs nothing to make. commit() writes its changes here, rollback() forgets them.
        """
        return cast(Device, super().branch())

    def slice(self, offset: Size, length: Size) -> Device:
        """A part of this device as a device."""
        child = super().slice(parse_size(offset, "offset"), parse_size(length, "length"))
        return cast(Device, child)

    def record(self) -> Recorder:
        """A device over this one that keeps an ordered log of all that is written through it."""
        return cast(Recorder, super().record())

    def faults(self, ops: _Op | Iterable[_Op] | None = None, **rule: Any) -> Faults:
        """A device over this one whose operations can be made to fail.

        The arguments are a first rule, as for Faults.add().
        """
        device = cast(Faults, super().faults())
        if ops is not None:
            rule["ops"] = ops
        if rule:
            device.add(**rule)
        return device

    def resize(self, size: Size, /) -> None:
        """Makes the device longer or shorter. OSError (EOPNOTSUPP) where that can't be.

        OSError (EBUSY) when it has branches, or would become shorter than a volume that is open for
        writing.
        """
        super().resize(parse_size(size, "size"))

    def __repr__(self) -> str:
        """Kind, name and size."""
        if self.closed:
            return f"<{type(self).__name__} {self.name!r} closed>"
        access = "read-only" if self.readonly else "writable"
        return f"<{type(self).__name__} {self.name!r} {format_size(self.size)} {access}>"


class Recorder(_core.Recorder, Device):
    """Passes everything on to a device and keeps an ordered log of writes, discards and flushes."""

    __slots__ = ()


class Faults(_core.Faults, Device):
    """Passes operations on to a device, but for those that its rules fail, tear or drop."""

    __slots__ = ()


Device._device_class = Device
Device._recorder_class = Recorder
Device._faults_class = Faults
