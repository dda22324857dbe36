"""Errors of the core from Python: classes and texts, closed objects, calls from within."""

from __future__ import annotations

import errno
import io
import os
import pickle
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
    with pytest.raises(
        OSError, match=r"Errno 22\] Can't be moved into itself: '/dir' -> '/dir/sub'"
    ):
        volume.rename("/dir", "/dir/sub")


@pytest.mark.parametrize(
    "call",
    [
        lambda v: v.touch("/a:b"),
        lambda v: v.mkdir("/a\x01b"),
        lambda v: v.open_file('/"', NEW),
        lambda v: v.rename("/dir/file", "/a?"),
        lambda v: v.create_many("/dir", ["a", "b|"]),
    ],
)
def test_names_that_no_file_may_have_are_refused_with_the_reason(
    volume: _core.Volume, call: Callable[[_core.Volume], Any]
) -> None:
    with pytest.raises(OSError, match="A name has no control characters and none of") as failed:
        call(volume)
    assert failed.value.errno == errno.EINVAL
    assert str(failed.value.filename).startswith("/")
    assert not volume.kind("/a:b")  # and can be looked for


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
        (ValueError, "open already", lambda v: v.__init__(v.device)),
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
