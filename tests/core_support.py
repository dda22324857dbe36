"""What the tests of the core's devices share: a small volume on a device, and its judge."""

from __future__ import annotations

import subprocess
from pathlib import Path

from conftest import require_tool

from pyexfat import _core

SECTOR = 512
SIZE = 8 << 20
LETTERS = [bytes([letter]) * SECTOR for letter in b"ABCDEFGH"]


def fsck(data: bytes | bytearray, folder: Path) -> None:
    """fsck.exfat finds nothing wrong with an image."""
    path = folder / "image"
    path.write_bytes(data)
    result = subprocess.run(
        [require_tool("fsck.exfat"), "-n", str(path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def fill(device: _core.Device) -> None:
    """A file system with one directory and one file."""
    _core.format(device, label="CORE")
    volume = _core.Volume(device, writable=True)
    volume.mkdir("/dir")
    handle = volume.open_file("/dir/file", _core.OPEN_WRITE | _core.OPEN_CREATE)
    assert handle.pwrite(b"content", 0) == 7
    handle.close()
    volume.close()


def content(device: _core.Device) -> bytes:
    """What fill() has written, by a new mount."""
    volume = _core.Volume(device)
    try:
        return volume.open_file("/dir/file", _core.OPEN_READ).pread(100, 0)
    finally:
        volume.close()


class Plain:
    """A file object with as little as can be: no readinto, no flush, short reads and writes."""

    def __init__(self, size: int, step: int = 1000) -> None:
        self.data = bytearray(size)
        self.position = 0
        self.step = step

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + (len(self.data) if whence == 2 else 0)
        return self.position

    def tell(self) -> int:
        return self.position

    def read(self, n: int = -1) -> bytes:
        part = bytes(self.data[self.position : self.position + min(n, self.step)])
        self.position += len(part)
        return part

    def write(self, data: bytes) -> int:
        part = data[: self.step]
        self.data[self.position : self.position + len(part)] = part
        self.position += len(part)
        return len(part)
