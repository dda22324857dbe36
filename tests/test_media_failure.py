"""A medium that fails is marked so on the volume: FAT's hard errors, exFAT's MediaFailure."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from typing import Any

import pytest
from model.drivers import DRIVERS, FAT16, FAT32, Driver

import pyexfat as px

CONTENT = bytes(range(256)) * 64


@pytest.fixture(params=DRIVERS, ids=str)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each of the file systems."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def device(driver: Driver) -> Iterator[px.Device]:
    """A volume with a file."""
    size, options = driver.small(4096)
    with px.Device.memory(size) as made:
        with px.format(made, driver.name, **options) as vol:
            vol.write_bytes("/file", CONTENT)
        yield made


def raw(driver: Driver, device: px.Device) -> Any:
    """What is on the device."""
    return driver.read(device.pread(device.size, 0))


def data_at(device: px.Device) -> tuple[int, int]:
    """Where the file lies."""
    with px.open(device, tz="utc") as vol:
        (extent,) = vol.extents("/file")
    return extent.device_offset, extent.length


def test_a_read_that_fails(driver: Driver, device: px.Device) -> None:
    at, length = data_at(device)
    with device.faults() as faults, px.open(faults, "r+", **driver.open_options(0)) as vol:
        faults.add("read", offset=at, length=length)
        assert not vol.media_failure
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            vol.read_bytes("/file")
        assert vol.media_failure
        assert raw(driver, device).hard_error  # at once
        faults.clear()
        assert vol.read_bytes("/file") == CONTENT
        writes = faults.count("write")
        vol.read_bytes("/file")
        assert faults.count("write") == writes  # once is enough
    found = raw(driver, device)
    assert found.kinds() == {"hard error"}
    with px.open(device, "r+", **driver.open_options(0)) as vol:
        assert (vol.was_dirty, vol.media_failure) == (False, True)
        vol.write_bytes("/more", b"more")
    assert raw(driver, device).kinds() == {"hard error"}  # who checks the disk takes it away


def test_all_copies_are_marked(device: px.Device, driver: Driver) -> None:
    """In each FAT, and in the boot sector."""
    at, length = data_at(device)
    before = device.pread(device.size, 0)
    with device.faults() as faults, px.open(faults, "r+") as vol:
        faults.add("read", offset=at, length=length)
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            vol.read_bytes("/file")
    after = device.pread(device.size, 0)
    changed = {i: before[i] ^ after[i] for i in range(len(before)) if before[i] != after[i]}
    if driver.name == "exfat":
        assert changed == {106: 4}
        return
    found = raw(driver, device)
    assert found.fats == 2
    expected = {65 if found.bits == 32 else 37: 2}
    if found.bits != 12:  # FAT12 has no room for marks
        place, bit = {16: (3, 0x40), 32: (7, 0x04)}[found.bits]
        expected |= {at + place: bit for at in found.fat_at}
    assert changed == expected


@pytest.mark.parametrize("active", [0, 1])
def test_only_the_active_fat_where_there_is_no_mirror(active: int) -> None:
    size, options = FAT32.small(4096)
    with px.Device.memory(size) as device:
        with px.format(device, "fat32", **options) as vol:
            vol.write_bytes("/file", CONTENT)
        at, length = data_at(device)
        boot = bytearray(device.pread(512, 0))
        boot[40:42] = (0x80 | active).to_bytes(2, "little")  # BPB_ExtFlags
        device.pwrite(boot, 0)
        with device.faults() as faults, px.open(faults, "r+") as vol:
            faults.add("read", offset=at, length=length)
            with pytest.raises(OSError, match=r"\[Errno 5\]"):
                vol.read_bytes("/file")
        image = device.pread(size, 0)
        found = FAT32.read(image)
        assert [image[at + 7] & 4 == 0 for at in found.fat_at] == [active == 0, active == 1]


def test_a_write_that_fails(driver: Driver, device: px.Device) -> None:
    """The rest of the device takes writes; and the volume stays marked dirty."""
    at, length = data_at(device)
    with device.faults() as faults:
        faults.add("write", offset=at, length=length)
        vol = px.open(faults, "r+", **driver.open_options(0))
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            vol.write_bytes("/file", CONTENT[::-1])
        assert vol.media_failure
        vol.abandon()
    found = raw(driver, device)
    assert found.hard_error
    assert found.dirty


@pytest.mark.parametrize("op", ["write", "flush"])
def test_what_fails_in_close(driver: Driver, device: px.Device, op: Any) -> None:
    with device.faults() as faults:
        vol = px.open(faults, "r+", **driver.open_options(0))
        vol.touch("/new")
        faults.add(op, nth=faults.count(op) + 1)
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            vol.close()
    assert raw(driver, device).hard_error


def test_a_device_that_takes_it_later(driver: Driver, device: px.Device) -> None:
    """Nothing can be written for a while: the next sync() tries again, other calls do not."""
    at, length = data_at(device)
    with device.faults() as faults, px.open(faults, "r+", **driver.open_options(0)) as vol:
        faults.add("read", offset=at, length=length)
        faults.add("write")
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            vol.read_bytes("/file")
        assert not vol.media_failure
        faults.clear()
        faults.add("write")
        tried = faults.count("write")
        vol.read_bytes("/file")
        assert faults.count("write") == tried
        faults.clear()
        assert not raw(driver, device).hard_error
        vol.sync()
        assert vol.media_failure
        assert raw(driver, device).hard_error


def test_a_device_that_is_dead(driver: Driver, device: px.Device) -> None:
    before = device.pread(device.size, 0)
    with device.faults() as faults:
        vol = px.open(faults, "r+", **driver.open_options(0))
        faults.add(["read", "write", "flush"], action="die")
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            vol.read_bytes("/file")
        assert not vol.media_failure
        vol.close()  # nothing was changed
        faults.clear()
    assert device.pread(device.size, 0) == before


def test_who_only_reads_marks_nothing(driver: Driver, device: px.Device) -> None:
    at, length = data_at(device)
    before = device.pread(device.size, 0)
    with device.faults() as faults, px.open(faults, **driver.open_options(0)) as vol:
        faults.add("read", offset=at, length=length)
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            vol.read_bytes("/file")
        assert not vol.media_failure
    assert device.pread(device.size, 0) == before


def test_a_full_store_is_no_failure(driver: Driver, device: px.Device) -> None:
    at, length = data_at(device)
    with device.faults() as faults:
        faults.add("write", nth=1, offset=at, length=length, error=errno.ENOSPC)
        vol = px.open(faults, "r+", **driver.open_options(0))
        with pytest.raises(OSError, match="No space left"):
            vol.write_bytes("/file", CONTENT[::-1])
        assert not vol.media_failure
        vol.abandon()
    assert not raw(driver, device).hard_error


class Breaking(io.BytesIO):
    """A file object whose reads raise."""

    due: BaseException | None = None

    def readinto(self, buffer: Any) -> int:
        if self.due is not None:
            raise self.due
        return super().readinto(buffer)


@pytest.mark.parametrize(
    ("due", "marked"),
    [
        (OSError(errno.EIO, "broken"), True),
        (ConnectionResetError(errno.ECONNRESET, "gone"), True),
        (ValueError("closed"), False),
        (KeyboardInterrupt(), False),
        (MemoryError(), False),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, BaseException) else str(v),
)
def test_file_objects(due: BaseException, marked: bool) -> None:
    """What is no error of input and output says nothing about the medium."""
    size, options = FAT16.small(4096)
    file = Breaking(bytes(size))
    with px.format(file, "fat16", **options) as vol:
        vol.write_bytes("/file", CONTENT)
    with px.open(file, "r+", tz="utc") as vol:
        file.due = due
        with pytest.raises(type(due)):
            vol.read_bytes("/file")
        file.due = None
        vol.sync()
        assert vol.media_failure == marked
    assert FAT16.read(file.getvalue()).hard_error == marked
