"""Devices on what Python has: buffers and file objects, and how long those are kept."""

from __future__ import annotations

import gc
import io
import mmap
import os
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import fsspec
import pytest
from core_support import LETTERS, SECTOR, SIZE, Plain, content, fill, fsck

from pyexfat import _core

# ---- buffers ----


def test_buffer_is_used_in_place() -> None:
    memory = bytearray(SIZE)
    device = _core.Device.buffer(memory)
    device.pwrite(LETTERS[0], SECTOR)
    assert memory[SECTOR : 2 * SECTOR] == LETTERS[0]
    memory[:SECTOR] = LETTERS[1]
    assert device.pread(SECTOR, 0) == LETTERS[1]
    assert device.source is memory
    with pytest.raises(BufferError):
        memory.append(0)
    device.close()
    memory.append(0)
    assert device.source is None


def test_buffer_is_free_when_the_volume_and_device_are_closed() -> None:
    memory = bytearray(SIZE)
    device = _core.Device.buffer(memory)
    fill(device)
    volume = _core.Volume(device)
    handle = volume.open_file("/dir/file", _core.OPEN_READ)
    device.close()
    with pytest.raises(BufferError):
        memory.append(0)
    volume.close()
    memory.append(0)  # although handle, volume and device are still there
    assert handle.closed
    assert volume.closed
    assert device.closed


def test_read_only_buffers() -> None:
    device = _core.Device.buffer(bytes(SIZE))
    assert device.readonly
    with pytest.raises(OSError, match=r"[Rr]ead-only"):
        device.pwrite(LETTERS[0], 0)
    with pytest.raises(TypeError, match="writable"):
        _core.Device.buffer(bytes(SIZE), writable=True)
    assert _core.Device.buffer(bytearray(SIZE), writable=False).readonly
    with pytest.raises(TypeError):
        _core.Device.buffer("text")  # type: ignore[arg-type]


def test_odd_tail_is_left_out() -> None:
    assert _core.Device.buffer(bytearray(1000)).size == 512
    assert _core.Device.wrap(io.BytesIO(bytes(1000))).size == 512


def test_mmap(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        device = _core.Device.buffer(mapped)
        fill(device)
        device.close()
    assert content(_core.Device.file(path)) == b"content"
    fsck(path.read_bytes(), tmp_path)


# ---- file objects ----


def test_a_poor_file_object_is_enough(tmp_path: Path) -> None:
    file = Plain(SIZE)
    device = _core.Device.wrap(file)
    assert device.source is file
    assert device.kind == "object"
    fill(device)
    assert content(device) == b"content"
    fsck(file.data, tmp_path)
    with pytest.raises(AttributeError, match="truncate"):
        device.resize(SIZE // 2)


def test_write_that_returns_none_has_written_all() -> None:
    class Silent(Plain):
        def write(self, data: bytes) -> None:  # type: ignore[override]
            self.data[self.position : self.position + len(data)] = data

    file = Silent(SIZE)
    _core.Device.wrap(file).pwrite(LETTERS[0], SECTOR)
    assert file.data[SECTOR : 2 * SECTOR] == LETTERS[0]


def test_bytesio_grows_by_resize() -> None:
    file = io.BytesIO(bytes(SIZE))
    device = _core.Device.wrap(file)
    device.resize(SIZE // 2)
    assert len(file.getvalue()) == SIZE // 2 == device.size


def test_size_may_be_given() -> None:
    device = _core.Device.wrap(io.BytesIO(b"".join(LETTERS)), size=1024)
    assert device.size == 1024
    assert device.pread(1024, 0) == LETTERS[0] + LETTERS[1]
    short = _core.Device.wrap(io.BytesIO(bytes(SECTOR)), size=1024)
    with pytest.raises(OSError, match="returned 0 for 512 bytes"):
        short.pread(SECTOR, SECTOR)


def test_writable_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(SIZE))
    with path.open("rb") as file:
        assert _core.Device.wrap(file).readonly
    with path.open("r+b") as file:
        device = _core.Device.wrap(file)
        assert not device.readonly
        device.pwrite(LETTERS[0], 0)
        device.flush()
        assert path.read_bytes()[:SECTOR] == LETTERS[0]
    with path.open("r+b") as file:
        assert _core.Device.wrap(file, writable=False).readonly
    with path.open() as text, pytest.raises(TypeError, match="binary"):
        _core.Device.wrap(text)
    with pytest.raises(TypeError, match="fileobj"):
        _core.Device.wrap(object())


def test_flush_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Any] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    path = tmp_path / "image"
    path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        _core.Device.wrap(file).flush()
    assert synced == [file]
    with tempfile.SpooledTemporaryFile() as spool:
        spool.write(bytes(SIZE))
        _core.Device.wrap(spool).flush()
        assert spool._rolled is False  # type: ignore[attr-defined]  # fileno() was not asked
    assert synced == [file]


def test_fsspec_file() -> None:
    memory = fsspec.filesystem("memory")
    with memory.open("/core-image", "wb") as file:
        file.write(bytes(SIZE))
    with memory.open("/core-image", "r+b") as file:
        device = _core.Device.wrap(file)
        fill(device)
        device.close()
    with memory.open("/core-image", "rb") as file:
        assert content(_core.Device.wrap(file)) == b"content"
    memory.rm("/core-image")


def test_volume_in_a_file_of_a_volume(tmp_path: Path) -> None:
    """A device whose callbacks use another volume: two locks, one thread."""
    outer_device = _core.Device.memory(64 << 20)
    _core.format(outer_device)
    outer = _core.Volume(outer_device, writable=True)
    handle = outer.open_file("/inner.img", _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE)
    handle.resize(SIZE)

    class Inner(io.RawIOBase):
        position = 0

        def seek(self, offset: int, whence: int = 0) -> int:
            self.position = offset + (handle.size() if whence == 2 else 0)
            return self.position

        def tell(self) -> int:
            return self.position

        def readinto(self, buffer: Any) -> int:
            return handle.preadinto(buffer, self.position)

        def write(self, data: Any) -> int:
            return handle.pwrite(data, self.position)

        def writable(self) -> bool:
            return True

    device = _core.Device.wrap(Inner())
    fill(device)
    assert content(device) == b"content"
    fsck(handle.pread(SIZE, 0), tmp_path)
    outer.close()


@pytest.mark.threads
def test_threads_on_one_file_object() -> None:
    """Seek and read belong together, also when several threads read."""
    file = io.BytesIO(b"".join(bytes([n % 251]) * SECTOR for n in range(256)))
    device = _core.Device.wrap(file)
    wrong: list[int] = []

    def read(start: int) -> None:
        for n in range(start, start + 300):
            sector = n * 7 % 256
            if device.pread(SECTOR, sector * SECTOR) != bytes([sector % 251]) * SECTOR:
                wrong.append(sector)

    threads = [threading.Thread(target=read, args=(n * 31,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- who keeps what alive ----


def test_everything_goes_when_nobody_has_it() -> None:
    file = io.BytesIO(bytes(SIZE))
    gone = weakref.ref(file)
    device = _core.Device.wrap(file)
    fill(device)
    volume = _core.Volume(device.slice(0, SIZE))
    handle = volume.open_file("/dir/file", _core.OPEN_READ)
    del file, device, volume
    gc.collect()
    assert gone() is not None
    assert handle.pread(7, 0) == b"content"
    del handle
    gc.collect()
    assert gone() is None


def test_cycles_are_collected() -> None:
    class File(io.BytesIO):
        keep: Any

    class Buffer(bytearray):
        keep: Any

    class Clock:
        keep: Any

        def __call__(self) -> int:
            return 0

    class Mine(_core.Volume):
        keep: Any

    file, clock = File(bytes(SIZE)), Clock()
    device = _core.Device.wrap(file)
    _core.format(device)
    volume = Mine(device.branch(), writable=True, env=_core.Env(clock=clock))
    volume.keep = volume.open_file("/x", _core.OPEN_WRITE | _core.OPEN_CREATE)
    file.keep = volume
    clock.keep = volume
    buffer = Buffer(SIZE)
    buffer.keep = _core.Device.buffer(buffer).record()
    gone = [weakref.ref(o) for o in (file, clock, volume, buffer)]
    del file, clock, device, volume, buffer
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4
