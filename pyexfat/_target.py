"""From what a person points at to a device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from typing import Any

from . import _core
from .device import Device
from .path import Path


class Target:
    """The device of one call, and what to close when the call fails or its volume is closed."""

    def __init__(self, whole: _core.Device, owned: bool, image: tuple[int, int] | None) -> None:
        self.whole = whole
        self.owned = [whole] if owned else []
        self.image = image

    def part(self, offset: int, length: int | None) -> _core.Device:
        """The device from ``offset`` on. ValueError names the argument when it is not all there."""
        size = self.whole.size
        if length is None:
            length = size - offset
        if offset == 0 and length == size:
            return self.whole
        if offset >= size:
            raise ValueError(f"offset {offset} is not inside the target ({size} bytes)")
        if length <= 0 or length > size - offset:
            raise ValueError(
                f"length {length} at offset {offset} is not inside the target ({size} bytes)"
            )
        sector = self.whole.sector_size
        for name, value in (("offset", offset), ("length", length)):
            if value % sector:
                raise ValueError(f"{name} {value} is no multiple of the sector size ({sector})")
        device = self.whole.slice(offset, length)
        self.owned.append(device)
        return device

    def close(self) -> None:
        """Closes what is ours."""
        for device in reversed(self.owned):
            device.close()


def open_target(target: Any, writable: bool, sector_size: int, *, create: bool = False) -> Target:
    """A device for anything that may be pointed at. TypeError for what it can't be."""
    if isinstance(target, _core.Device):
        return Target(target, False, None)
    if isinstance(target, Path):
        stream = target.open("r+b" if writable else "rb")
        try:
            return Target(_StreamDevice.of(stream, writable, sector_size), True, None)
        except BaseException:
            stream.close()
            raise
    if isinstance(target, (str, os.PathLike)):
        device = Device.file(target, writable, create, sector_size)
        try:
            status = os.stat(target)
        except OSError:
            return Target(device, True, None)
        return Target(device, True, (status.st_dev, status.st_ino))
    try:
        view = memoryview(target)
    except TypeError:
        pass
    else:
        with view:
            if writable and view.readonly:
                raise TypeError(f"a {type(target).__name__} can't be written to (open it with 'r')")
        return Target(Device.buffer(target, writable, sector_size or 512), True, None)
    if hasattr(target, "read") and hasattr(target, "seek"):
        if writable and hasattr(target, "writable") and not target.writable():
            raise UnsupportedOperation("the target is a file that is not open for writing")
        return Target(Device.wrap(target, writable, None, sector_size or 512), True, None)
    raise TypeError(
        "target must be a path, a buffer, a seekable binary file or a Device, "
        f"not {type(target).__name__}"
    )


class _StreamDevice(Device):
    """A device over a file of another volume, which is closed with it."""

    __slots__ = ()

    @classmethod
    def of(cls, stream: Any, writable: bool, sector_size: int) -> _StreamDevice:
        """Takes ``stream`` over."""
        return cls.wrap(stream, writable, None, sector_size or 512)

    def close(self) -> None:
        """Closes the device and the file."""
        stream = self.source
        super().close()
        if stream is not None:
            stream.close()


@contextmanager
def naming(target: Any) -> Iterator[None]:
    """Adds the image's path to errors that have none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and isinstance(target, (str, os.PathLike)):
            error.filename = os.fspath(target)
        raise


@contextmanager
def borrowed(target: Any, sector_size: int) -> Iterator[_core.Device]:
    """A device to look at for a moment; a file object's position is put back."""
    is_stream = not isinstance(target, (_core.Device, Path)) and hasattr(target, "tell")
    position = target.tell() if is_stream else None
    opened = open_target(target, False, sector_size)
    try:
        with naming(target):
            yield opened.whole
    finally:
        opened.close()
        if position is not None:
            target.seek(position)
