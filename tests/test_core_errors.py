"""Errors of the core from Python: classes and texts, closed objects, calls from within."""

from __future__ import annotations

import errno
import gc
import io
import os
import pickle
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyexfat import _core
from pyexfat._errors import CorruptImageError, ImageError, UnsupportedFeatureError, Where

SECTOR = 512
SIZE = 8 << 20
NEW = _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE


@pytest.fixture
def device() -> _core.Device:
    device = _core.Device.memory(SIZE)
    _core.format(device)
    return device


@pytest.fixture
def volume(device: _core.Device) -> Iterator[_core.Volume]:
    volume = _core.Volume(device, writable=True)
    volume.mkdir("/dir")
    volume.touch("/dir/file")
    yield volume
    volume.close()


def patched(device: _core.Device, offset: int, data: bytes) -> _core.Device:
    """A branch with some bytes changed."""
    branch = device.branch()
    start = offset // SECTOR * SECTOR
    sector = bytearray(branch.pread(SECTOR, start))
    sector[offset - start : offset - start + len(data)] = data
    branch.pwrite(sector, start)
    return branch


# ---- errors of the system by number ----


@pytest.mark.parametrize(
    ("number", "kind", "call"),
    [
        (errno.ENOENT, FileNotFoundError, lambda v: v.stat("/none")),
        (errno.ENOENT, FileNotFoundError, lambda v: v.open_file("/none/x", _core.OPEN_READ)),
        (errno.ENOENT, FileNotFoundError, lambda v: v.unlink("/dir/none")),
        (errno.ENOENT, FileNotFoundError, lambda v: v.truncate("/none", 1)),
        (errno.ENOENT, FileNotFoundError, lambda v: v.listdir("/none")),
        (errno.ENOENT, FileNotFoundError, lambda v: v.create_many("/none", ["x"])),
        (errno.ENOTDIR, NotADirectoryError, lambda v: v.stat("/dir/file/x")),
        (errno.ENOTDIR, NotADirectoryError, lambda v: v.listdir("/dir/file")),
        (errno.ENOTDIR, NotADirectoryError, lambda v: v.scandir_batch("/dir/file", 0, 1)),
        (errno.ENOTDIR, NotADirectoryError, lambda v: v.rmdir("/dir/file")),
        (errno.EISDIR, IsADirectoryError, lambda v: v.open_file("/dir", _core.OPEN_WRITE)),
        (errno.EISDIR, IsADirectoryError, lambda v: v.unlink("/dir")),
        (errno.EISDIR, IsADirectoryError, lambda v: v.truncate("/dir", 0)),
        (errno.EEXIST, FileExistsError, lambda v: v.mkdir("/dir")),
        (errno.EEXIST, FileExistsError, lambda v: v.touch("/dir/file", exist_ok=False)),
        (
            errno.EEXIST,
            FileExistsError,
            lambda v: v.open_file("/dir/file", NEW | _core.OPEN_EXCLUSIVE),
        ),
        (errno.ENOTEMPTY, OSError, lambda v: v.rmdir("/dir")),
        (errno.EINVAL, OSError, lambda v: v.touch("/a:b")),
        (errno.ENAMETOOLONG, OSError, lambda v: v.mkdir("/" + "x" * 256)),
        (errno.ENOSPC, OSError, lambda v: v.truncate("/dir/file", 1 << 40)),
    ],
)
def test_the_right_oserror(
    volume: _core.Volume, number: int, kind: type[OSError], call: Callable[[_core.Volume], Any]
) -> None:
    with pytest.raises(OSError, match=r".") as failed:
        call(volume)
    assert type(failed.value) is kind
    assert failed.value.errno == number
    assert failed.value.strerror == os.strerror(number)
    assert str(failed.value.filename).startswith("/")


def test_both_paths_of_a_rename(volume: _core.Volume) -> None:
    volume.touch("/other")
    with pytest.raises(FileExistsError) as failed:
        volume.rename("/other", "/dir/file", noreplace=True)
    assert (failed.value.filename, failed.value.filename2) == ("/other", "/dir/file")
    with pytest.raises(OSError, match="Invalid argument"):
        volume.rename("/dir", "/dir/sub")


def test_how_many_went_well(volume: _core.Volume) -> None:
    with pytest.raises(FileExistsError) as failed:
        volume.create_many("/dir", ["a", "b", "file", "c"])
    assert failed.value.filename == "/dir/file"
    assert failed.value.done == 2  # type: ignore[attr-defined]
    assert sorted(volume.listdir("/dir")) == ["a", "b", "file"]
    with pytest.raises(FileNotFoundError) as missing:
        volume.remove_many("/dir/", iter(["a", "x"]))
    assert missing.value.filename == "/dir/x"
    assert missing.value.done == 1  # type: ignore[attr-defined]


def test_read_only_volume(device: _core.Device) -> None:
    volume = _core.Volume(device)
    for call in (
        lambda: volume.mkdir("/x"),
        lambda: volume.touch("/x"),
        lambda: volume.rename("/x", "/y"),
        lambda: volume.create_many("/", ["x"]),
        lambda: volume.open_file("/x", NEW),
        lambda: setattr(volume, "label", "X"),
        lambda: setattr(volume, "serial", 1),
    ):
        with pytest.raises(OSError, match=r"[Rr]ead-only") as failed:
            call()
        assert failed.value.errno == errno.EROFS


# ---- damage and features ----


def test_damage_says_where(device: _core.Device) -> None:
    bad = patched(
        device, 11 * SECTOR + 4, b"\x00\x00\x00\x00"
    )  # checksum sector, specification 3.4
    with pytest.raises(CorruptImageError) as failed:
        _core.Volume(bad)
    error = failed.value
    assert isinstance(error, ImageError)
    assert isinstance(error, OSError)
    assert error.errno == errno.EUCLEAN
    assert isinstance(error.where, Where)
    assert (error.where.structure, error.where.field) == ("main boot region", "Checksum")
    assert 11 * SECTOR <= error.where.offset < 12 * SECTOR
    assert error.where.found != error.where.expected
    assert "main boot region at byte" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert again.where == error.where
    assert again.errno == error.errno
    assert _core.Volume(bad, use_backup=True).from_backup


def test_damage_below_names_the_path(device: _core.Device) -> None:
    volume = _core.Volume(device, writable=True)
    volume.touch("/victim")
    offset = volume.stat("/victim").entry_offset
    volume.close()
    bad = _core.Volume(patched(device, offset + 2, b"\xff\xff"))  # SetChecksum, specification 7.4.2
    with pytest.raises(CorruptImageError) as failed:
        bad.stat("/victim")
    where = failed.value.where
    assert where is not None
    assert where.offset in range(offset, offset + 96)
    assert failed.value.filename == "/victim"
    with pytest.raises(CorruptImageError):
        bad.kind("/victim")  # damage is not absence


def test_unknown_features(device: _core.Device) -> None:
    with pytest.raises(UnsupportedFeatureError) as failed:
        _core.Volume(device, fs="xfs")
    assert failed.value.errno == errno.EOPNOTSUPP
    assert "xfs" in failed.value.feature
    assert isinstance(failed.value, io.UnsupportedOperation)
    assert isinstance(failed.value, ImageError)


# ---- bad arguments ----


@pytest.mark.parametrize(
    ("kind", "name", "call"),
    [
        (TypeError, "path", lambda v: v.stat(b"/x")),
        (TypeError, "path", lambda v: v.kind(None)),
        (TypeError, "path", lambda v: v.touch(3)),
        (TypeError, "dst", lambda v: v.rename("/x", 3)),
        (ValueError, "path: embedded null", lambda v: v.mkdir("/a\0b")),
        (ValueError, "src: embedded null", lambda v: v.rename("\0", "/b")),
        (TypeError, "missing argument 'dst'", lambda v: v.rename("/x")),
        (TypeError, "at most 2 positional", lambda v: v.touch("/x", True, 3)),
        (TypeError, "unexpected keyword argument 'mode'", lambda v: v.touch("/x", mode=3)),
        (TypeError, "multiple values for argument 'path'", lambda v: v.touch("/x", path="/y")),
        (ValueError, "size must not be negative", lambda v: v.truncate("/dir/file", -1)),
        (ValueError, "size is too large", lambda v: v.truncate("/dir/file", 1 << 64)),
        (TypeError, "size must be an int, not float", lambda v: v.truncate("/dir/file", 1.0)),
        (ValueError, "length", lambda v: v.fallocate("/dir/file", 0, 0)),
        (ValueError, "created is out of range", lambda v: v.setattr("/dir", created=1 << 63)),
        (TypeError, "modified", lambda v: v.setattr("/dir", modified="now")),
        (ValueError, "attributes", lambda v: v.setattr("/dir", attributes=_core.ATTR_DIRECTORY)),
        (ValueError, "attributes is too large", lambda v: v.setattr("/dir", attributes=1 << 32)),
        (TypeError, "names must be several", lambda v: v.create_many("/dir", "abc")),
        (TypeError, r"names\[1\] must be a str", lambda v: v.create_many("/dir", ["a", 7])),
        (ValueError, "names", lambda v: v.create_many("/dir", ["a/b"])),
        (TypeError, "iterable", lambda v: v.create_many("/dir", 7)),
        (ValueError, "limit", lambda v: v.scandir_batch("/dir", 0, 0)),
        (ValueError, "mode", lambda v: v.open_file("/dir/file", 0)),
        (TypeError, "open_file", lambda v: v.open_file("/dir/file")),
        (ValueError, "policy", lambda v: v.set_policy({"speed": 9})),
        (ValueError, "empty_hint", lambda v: v.set_policy({"empty_hint": "maybe"})),
        (ValueError, "memory_budget", lambda v: v.set_policy({"memory_budget": -1})),
        (TypeError, "policy", lambda v: v.set_policy("fast")),
        (ValueError, "sync", lambda v: v.set_sync("never")),
        (ValueError, "reach beyond", lambda v: v.read_raw(SIZE, SECTOR)),
        (TypeError, "label", lambda v: setattr(v, "label", 5)),
        (ValueError, "serial", lambda v: setattr(v, "serial", 1 << 32)),
        (AttributeError, "deleted", lambda v: delattr(v, "label")),
        (AttributeError, "deleted", lambda v: delattr(v, "serial")),
        (RuntimeError, "open already", lambda v: v.__init__(v.device)),
    ],
)
def test_arguments_are_named(
    volume: _core.Volume, kind: type[Exception], name: str, call: Callable[[Any], Any]
) -> None:
    before = sorted(volume.listdir("/dir"))
    with pytest.raises(kind, match=name):
        call(volume)
    assert sorted(volume.listdir("/dir")) == before


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        (TypeError, "fs", {"fs": 3}),
        (ValueError, "sync", {"sync": "often"}),
        (TypeError, "env must be an Env", {"env": 5}),
        (TypeError, "pool must be a Pool", {"pool": 5}),
        (ValueError, "utc_offset", {"utc_offset": 1 << 20}),
        (ValueError, "backup", {"use_backup": True, "writable": True}),
        (TypeError, "unexpected keyword", {"mode": "r"}),
    ],
)
def test_arguments_of_a_mount(
    device: _core.Device, kind: type[Exception], name: str, options: dict[str, Any]
) -> None:
    with pytest.raises(kind, match=name):
        _core.Volume(device, **options)
    with pytest.raises(kind, match=name):
        _core.mount(device, **options)


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        (ValueError, "cluster_size", {"cluster_size": 1000}),
        (ValueError, "size", {"size": 4096}),
        (ValueError, "label", {"label": "far too long a label"}),
        (ValueError, "serial", {"serial": -1}),
        (ValueError, "uuid must be 16 bytes", {"uuid": b"123"}),
        (TypeError, "uuid|buffer|bytes-like", {"uuid": "123"}),
        (TypeError, "progress", {"progress": 3}),
        (TypeError, "label", {"label": None}),
        (ValueError, "fs: embedded null", {"fs": "exfat\0"}),
    ],
)
def test_arguments_of_format(kind: type[Exception], name: str, options: dict[str, Any]) -> None:
    device = _core.Device.memory(SIZE)
    with pytest.raises(kind, match=name):
        _core.format(device, **options)
    assert device.held == 0  # nothing written


def test_other_classes() -> None:
    for call in (
        lambda: _core.Volume("image"),  # type: ignore[arg-type]
        lambda: _core.detect("image"),  # type: ignore[arg-type]
        lambda: _core.format(None),  # type: ignore[arg-type]
        lambda: _core.Recorder(3),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="device must be a Device"):
            call()
    for kind in (_core.Stat, _core.Handle):
        with pytest.raises(TypeError, match="cannot create"):
            kind()
    with pytest.raises(ValueError, match="closed volume"):
        _core.Volume.__new__(_core.Volume).stat("/")
    with pytest.raises(ValueError, match="closed volume"):
        _ = _core.Volume.__new__(_core.Volume).cluster_size
    with pytest.raises(ValueError, match="seed"):
        _core.Env(seed=-1)
    with pytest.raises(TypeError, match="clock"):
        _core.Env(clock="noon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="budget"):
        _core.Pool(-1)


def test_more_memory_than_there_is(volume: _core.Volume) -> None:
    with pytest.raises(MemoryError):
        _core.Device.memory(1 << 62).pread(1 << 61, 0)
    handle = volume.open_file("/dir/file", _core.OPEN_READ)
    assert handle.pread(1 << 62, 0) == b""  # as much as there is
    assert handle.pread(1 << 62, 1 << 62) == b""


# ---- closed objects ----


def test_closed_volume(device: _core.Device) -> None:
    volume = _core.Volume(device, writable=True)
    handle = volume.open_file("/file", NEW)
    with volume as entered:
        assert entered is volume
    assert volume.closed
    assert handle.closed
    volume.close()
    volume.abandon()
    handle.close()
    for name in ("stat", "kind", "mkdir", "rmdir", "unlink", "extents", "stored_name", "listdir"):
        with pytest.raises(ValueError, match="closed volume"):
            getattr(volume, name)("/file")
    for call in (
        lambda: volume.rename("/file", "/x"),
        lambda: volume.touch("/x"),
        lambda: volume.setattr("/x"),
        lambda: volume.truncate("/x", 0),
        lambda: volume.fallocate("/x", 0, 1),
        lambda: volume.scandir_batch("/", 0, 1),
        lambda: volume.create_many("/", ["x"]),
        lambda: volume.open_file("/file", _core.OPEN_READ),
        volume.statfs,
        volume.sync,
        volume.trim,
        volume.get_counters,
        volume.counters_reset,
        lambda: volume.shrink(1),
        lambda: volume.set_policy({}),
        volume.get_policy,
        lambda: volume.set_sync("sync"),
        lambda: volume.read_raw(1, 0),
        lambda: volume.label,
        lambda: setattr(volume, "label", "X"),
        lambda: setattr(volume, "serial", 1),
        lambda: volume.memory_held,
        volume.__enter__,
        lambda: handle.pread(1, 0),
        lambda: handle.preadinto(bytearray(1), 0),
        lambda: handle.pwrite(b"x", 0),
        lambda: handle.resize(1),
        lambda: handle.allocate(0, 1),
        handle.stat,
        handle.size,
        handle.setattr,
        handle.extents,
        handle.sync,
    ):
        with pytest.raises(ValueError, match=r"closed (volume|file)"):
            call()
    # What is known without the volume stays known.
    assert volume.fs == "exfat"
    assert volume.size == SIZE
    assert volume.device is device


def test_closed_file(volume: _core.Volume) -> None:
    handle = volume.open_file("/dir/file", NEW)
    assert not handle.closed
    assert handle.path == "/dir/file"
    assert handle.volume is volume
    handle.close()
    handle.close()
    assert handle.closed
    with pytest.raises(ValueError, match="closed file"):
        handle.pread(1, 0)
    with pytest.raises(ValueError, match="closed file"):
        handle.pwrite(b"x", 0)


def test_closed_device_below_a_volume(device: _core.Device) -> None:
    volume = _core.Volume(device.slice(0, SIZE), writable=True)
    volume.mkdir("/dir")
    device.close()
    with pytest.raises(ValueError, match="closed device"):
        volume.sync()
    volume.abandon()


def test_rights_of_a_handle(volume: _core.Volume) -> None:
    reader = volume.open_file("/dir/file", _core.OPEN_READ)
    writer = volume.open_file("/dir/file", _core.OPEN_WRITE)
    for call in (
        lambda: reader.pwrite(b"x", 0),
        lambda: reader.resize(1),
        lambda: writer.pread(1, 0),
    ):
        with pytest.raises(OSError, match="descriptor") as failed:
            call()
        assert failed.value.errno == errno.EBADF  # open, but not for this
    with pytest.raises(ValueError, match="OPEN_APPEND"):
        writer.append(b"x")


# ---- file objects that fail ----


class Trap(io.BytesIO):
    """A file object that does something of its own at its n-th call of a method."""

    def __init__(self, size: int = SIZE) -> None:
        super().__init__(bytes(size))
        self.armed: dict[str, Callable[[], Any]] = {}

    def _spring(self, name: str) -> None:
        if name in self.armed:
            self.armed.pop(name)()

    def readinto(self, buffer: Any) -> int:
        self._spring("read")
        return super().readinto(buffer)

    def write(self, data: Any) -> int:
        self._spring("write")
        return super().write(data)

    def seek(self, *args: int) -> int:
        self._spring("seek")
        return super().seek(*args)

    def flush(self) -> None:
        self._spring("flush")
        super().flush()


class BrokenError(Exception):
    pass


def fails(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.fixture
def trap() -> Trap:
    return Trap()


@pytest.mark.parametrize("method", ["read", "seek"])
def test_the_original_exception_of_a_read(trap: Trap, method: str) -> None:
    device = _core.Device.wrap(trap)
    error = BrokenError("the reason")
    trap.armed[method] = fails(error)
    with pytest.raises(BrokenError) as failed:
        device.pread(SECTOR, 0)
    assert failed.value is error
    names = [frame.name for frame in traceback.extract_tb(failed.value.__traceback__)]
    assert "fail" in names  # where it was raised
    assert device.pread(SECTOR, 0) == bytes(SECTOR)


def test_the_original_exception_of_a_volume(trap: Trap) -> None:
    device = _core.Device.wrap(trap)
    error = FileNotFoundError(errno.ENOENT, "gone", "card.img")
    for call in (
        lambda: _core.format(device),
        lambda: _core.detect(device),
        lambda: _core.partitions(device),
        lambda: _core.Volume(device),
    ):
        trap.armed = {"read": fails(error), "write": fails(error)}
        with pytest.raises(FileNotFoundError) as failed:
            call()
        assert failed.value is error
        trap.armed = {}
        _core.format(device)


def test_an_absent_image_is_not_an_absent_file(trap: Trap) -> None:
    """ENOENT of the file object must not be taken for a missing directory entry."""
    device = _core.Device.wrap(trap)
    _core.format(device)
    volume = _core.Volume(device, writable=True)
    volume.open_file("/big", NEW).allocate(0, 4 << 20)  # so that read-ahead does not get there
    volume.mkdir("/dir")
    volume.close()
    volume = _core.Volume(device, writable=True)

    def gone() -> None:
        trap.armed["read"] = gone  # again and again, for a read that was only ahead is forgiven
        raise FileNotFoundError(errno.ENOENT, "gone")

    for call in (volume.kind, volume.touch, volume.mkdir):
        trap.armed["read"] = gone
        with pytest.raises(FileNotFoundError, match="gone"):
            call("/dir/anything")
    trap.armed.clear()
    assert volume.kind("/dir/anything") == _core.KIND_NONE
    volume.close()


def test_a_failing_write_comes_out_at_sync(trap: Trap) -> None:
    device = _core.Device.wrap(trap)
    _core.format(device)
    volume = _core.Volume(device, writable=True)
    volume.mkdir("/dir")
    error = BrokenError("no ink")
    trap.armed["write"] = fails(error)
    with pytest.raises(BrokenError) as failed:
        volume.sync()
    assert failed.value is error
    volume.sync()  # now it works
    volume.close()
    assert _core.Volume(device).listdir("/") == ["dir"]


def test_full_file_object(trap: Trap) -> None:
    device = _core.Device.wrap(trap)
    trap.armed["write"] = fails(OSError(errno.ENOSPC, "the quota"))
    with pytest.raises(OSError, match="the quota") as failed:
        device.pwrite(bytes(SECTOR), 0)
    assert failed.value.errno == errno.ENOSPC


def test_interrupts_are_not_swallowed(trap: Trap) -> None:
    device = _core.Device.wrap(trap)
    _core.format(device)
    for error in (KeyboardInterrupt("now"), SystemExit(3)):
        trap.armed["read"] = fails(error)
        with pytest.raises(type(error)) as failed:
            _core.Volume(device)
        assert failed.value is error


@pytest.mark.parametrize("result", ["text", -1, 0, SECTOR + 1, None, 1.5, 10**30])
def test_nonsense_from_a_file_object(result: Any) -> None:
    class Liar(Trap):
        def readinto(self, buffer: Any) -> Any:
            return result

    device = _core.Device.wrap(Liar())
    with pytest.raises((OSError, OverflowError, ValueError)):
        device.pread(SECTOR, 0)

    class Writer(Trap):
        def write(self, data: Any) -> Any:
            return result

    device = _core.Device.wrap(Writer())
    if result is not None:
        with pytest.raises((OSError, OverflowError, ValueError)):
            device.pwrite(bytes(SECTOR), 0)


def test_a_buffer_that_was_kept_is_harmless(trap: Trap) -> None:
    kept: list[memoryview] = []

    class Keeper(Trap):
        def readinto(self, buffer: Any) -> int:
            kept.append(memoryview(buffer))
            return super().readinto(buffer)

    device = _core.Device.wrap(Keeper())
    data = device.pread(SECTOR, 0)
    kept[0][:] = b"\xff" * SECTOR
    assert data == bytes(SECTOR)


def test_a_file_object_that_resizes_its_buffer() -> None:
    class Shrinker(Trap):
        def readinto(self, buffer: Any) -> int:
            n = len(buffer)
            buffer.clear()
            return n

    with pytest.raises(OSError, match="changed its buffer's size"):
        _core.Device.wrap(Shrinker()).pread(SECTOR, 0)


# ---- calls from within ----


def collect(into: list[Any], *calls: Callable[[], Any]) -> Callable[[], None]:
    """Makes calls that are expected to fail; keeps what they raise, or that they did not."""

    def run() -> None:
        for call in calls:
            try:
                call()
            except OSError as error:
                into.append(error.errno)
            else:
                into.append("no error")

    return run


def test_a_device_is_not_entered_twice(trap: Trap) -> None:
    device = _core.Device.wrap(trap)
    found: list[Any] = []
    trap.armed["read"] = collect(
        found,
        lambda: device.pread(SECTOR, 0),
        lambda: device.pwrite(bytes(SECTOR), 0),
        lambda: device.resize(SECTOR),
        device.flush,
    )
    assert device.pread(SECTOR, 0) == bytes(SECTOR)
    trap.armed["write"] = collect(
        found,
        lambda: device.pread(SECTOR, 0),
        lambda: device.pwrite(bytes(SECTOR), 0),
        device.branch,
        device.close,
    )
    device.pwrite(bytes(SECTOR), 0)
    assert found == [errno.EDEADLK] * 8
    assert not device.closed
    assert device.size == SIZE
    trap.armed["read"] = lambda: device.pread(SECTOR, 0)
    with pytest.raises(OSError, match=r"[Dd]eadlock") as failed:
        device.pread(SECTOR, 0)
    assert failed.value.errno == errno.EDEADLK


def test_a_volume_is_not_entered_twice(trap: Trap) -> None:
    device = _core.Device.wrap(trap)
    _core.format(device)
    volume = _core.Volume(device, writable=True)
    handle = volume.open_file("/open", NEW)
    handle.pwrite(b"x" * 5000, 0)
    volume.sync()
    found: list[Any] = []
    trap.armed["write"] = collect(
        found,
        lambda: volume.stat("/"),
        lambda: volume.touch("/x"),
        lambda: volume.listdir("/"),
        lambda: handle.pread(1, 0),
        lambda: volume.label,
        volume.sync,
        volume.abandon,
        volume.close,
        handle.close,
    )
    volume.mkdir("/dir")
    volume.sync()
    assert found == [errno.EDEADLK] * 9
    assert not volume.closed
    assert not handle.closed
    assert handle.pread(5, 0) == b"xxxxx"
    volume.close()


def test_objects_may_die_within(trap: Trap) -> None:
    """Handles and branches that lose their last reference while the volume works."""
    device = _core.Device.wrap(trap)
    _core.format(device)
    volume = _core.Volume(device, writable=True)
    rubbish: list[Any] = [volume.open_file(f"/{n}", NEW) for n in range(5)]
    for n in range(5):
        rubbish[n].pwrite(b"x" * 10000, 0)
    volume.sync()
    for n in range(5):
        volume.unlink(f"/{n}")
    rubbish += [device.branch() for _ in range(3)]
    rubbish += [device.record(), device.faults(), device.slice(0, SECTOR)]
    used = volume.statfs().used

    def drop() -> None:
        rubbish.clear()
        gc.collect()

    trap.armed["write"] = drop
    volume.sync()
    assert not rubbish
    volume.sync()
    assert used - volume.statfs().used == 5 * 3 * volume.cluster_size
    volume.close()
    assert _core.Volume(device).listdir("/") == []


def test_the_clock_is_a_callback(device: _core.Device) -> None:
    found: list[Any] = []
    clock_calls: list[Callable[[], Any]] = []

    def clock() -> int:
        if clock_calls:
            collect(found, *clock_calls)()
        return 1_600_000_000_000_000_000

    volume = _core.Volume(device, writable=True, env=_core.Env(clock=clock))
    clock_calls += [lambda: volume.stat("/"), volume.close]
    volume.touch("/x")
    assert found[:2] == [errno.EDEADLK] * 2
    clock_calls.clear()
    assert volume.stat("/x").st_mtime_ns == 1_600_000_000_000_000_000
    volume.close()


def test_a_clock_that_fails(device: _core.Device) -> None:
    wrong: list[Any] = []

    def clock() -> Any:
        if wrong and isinstance(wrong[0], BaseException):
            raise wrong[0]
        return wrong[0] if wrong else 0

    env = _core.Env(clock=clock)
    assert env.now() == 0
    volume = _core.Volume(device, writable=True, env=env)
    wrong.append(BrokenError("stopped"))
    for call in (
        env.now,
        lambda: volume.touch("/a"),
        lambda: volume.open_file("/b", NEW),
        lambda: volume.create_many("/", ["c"]),
    ):
        with pytest.raises(BrokenError) as failed:
            call()
        assert failed.value is wrong[0]
    for bad, kind in (("noon", TypeError), (1 << 70, ValueError), (None, TypeError)):
        wrong[:] = [bad]
        with pytest.raises(kind, match=r"clock\(\)"):
            volume.touch("/d")
    wrong.clear()
    volume.close()
    assert _core.Volume(device, writable=True).kind("/a") == _core.KIND_FILE


def test_progress_is_called_and_stops() -> None:
    device = _core.Device.memory(64 << 20)
    calls: list[tuple[int, int]] = []
    _core.format(device, full=True, progress=lambda done, total: calls.append((done, total)))
    assert calls
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] == calls[0][1] > 60 << 20
    error = BrokenError("enough")
    with pytest.raises(BrokenError) as failed:
        _core.format(device, full=True, progress=lambda done, total: fails(error)())
    assert failed.value is error
    inner: list[Any] = []
    _core.format(device, full=True, progress=lambda done, total: inner.append(device.size))
    assert set(inner) == {64 << 20}


def test_a_failure_that_did_no_harm(trap: Trap) -> None:
    """A read that was only ahead is forgiven; an error for another reason names it as its cause."""
    device = _core.Device.wrap(trap)
    _core.format(device)
    volume = _core.Volume(device, writable=True)
    volume.open_file("/big", NEW).allocate(0, 4 << 20)  # so that mounting reads neither directory
    volume.mkdir("/one")
    volume.touch("/one/file")
    volume.open_file("/more", NEW).allocate(0, 2 << 20)
    volume.mkdir("/two")
    volume.close()
    volume = _core.Volume(device)
    trap.armed["read"] = fails(BrokenError("flaky"))
    assert volume.kind("/one/file") == _core.KIND_FILE
    assert not trap.armed
    error = BrokenError("flaky again")
    trap.armed["read"] = fails(error)
    with pytest.raises(FileNotFoundError) as failed:
        volume.stat("/two/none")
    assert failed.value.__cause__ is error
    with pytest.raises(FileNotFoundError) as clean:
        volume.stat("/two/none")
    assert clean.value.__cause__ is None


def test_no_memory_in_a_file_object(trap: Trap) -> None:
    device = _core.Device.wrap(trap)
    error = MemoryError("theirs")
    trap.armed["read"] = fails(error)
    with pytest.raises(MemoryError) as failed:
        device.pread(SECTOR, 0)
    assert failed.value is error


# ---- threads ----


class Workers:
    """Threads that use a volume and its device until they are told that one is closed."""

    def __init__(self, device: _core.Device, volume: _core.Volume, handle: _core.Handle) -> None:
        self.device, self.volume, self.handle = device, volume, handle
        self.start = threading.Barrier(4)
        self.odd: list[BaseException] = []
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(3)]

    def run(self, number: int) -> None:
        self.start.wait()
        try:
            for n in range(10_000):
                self.volume.touch(f"/{number}-{n % 50}")
                self.handle.pread(1000, n)
                self.volume.listdir("/")
                self.device.pread(SECTOR, 0)
            raise AssertionError("it was never closed")
        except ValueError as error:
            if "closed" not in str(error):
                self.odd.append(error)
        except BaseException as error:
            self.odd.append(error)


@pytest.mark.threads
@pytest.mark.parametrize("what", ["volume", "device"])
def test_closing_while_others_work(what: str) -> None:
    """Results or clean errors, whatever is closed at whatever time."""
    for _ in range(10):
        memory = bytearray(SIZE)
        device = _core.Device.buffer(memory)
        _core.format(device)
        volume = _core.Volume(device, writable=True)
        handle = volume.open_file("/file", NEW)
        handle.pwrite(b"x" * 100_000, 0)
        workers = Workers(device, volume, handle)
        for thread in workers.threads:
            thread.start()
        workers.start.wait()
        if what == "device":
            device.close()
            volume.abandon()
        else:
            volume.close()
            device.close()
        for thread in workers.threads:
            thread.join()
        assert not workers.odd
        memory.append(0)  # nobody holds it any more
