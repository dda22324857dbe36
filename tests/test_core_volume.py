"""Volume, Handle, Stat, Env and Pool as the core gives them to Python."""

from __future__ import annotations

import copy
import pickle
import stat as stat_module
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import require_tool

from pyexfat import _core
from pyexfat._records import Extent

SIZE = 8 << 20
CLUSTER = 4096
NEW = _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE
NOON = 1_600_000_000_000_000_000  # 2020-09-13 12:26:40 UTC, a multiple of 10 ms


def formatted(**options: Any) -> _core.Device:
    device = _core.Device.memory(SIZE)
    _core.format(device, cluster_size=CLUSTER, **options)
    return device


@pytest.fixture
def volume() -> Iterator[_core.Volume]:
    env = _core.Env(seed=1, clock=NOON)
    volume = _core.Volume(formatted(serial=0x1234ABCD), writable=True, env=env)
    yield volume
    volume.close()


# ---- stat ----


def test_stat_of_a_file(volume: _core.Volume) -> None:
    handle = volume.open_file("/file", NEW)
    assert handle.pwrite(b"x" * 5000, 0) == 5000
    handle.setattr(
        created=NOON + 1_230_000_000, modified=NOON + 2_000_000_000, accessed=NOON + 4_000_000_000
    )
    s = volume.stat("/FILE")
    assert s == handle.stat()
    assert hash(s) == hash(handle.stat())
    assert s != volume.stat("/")
    assert stat_module.S_ISREG(s.st_mode)
    assert s.st_mode & 0o777 == 0o644
    assert (s.st_size, s.valid_size, s.allocated, s.st_blocks) == (5000, 5000, 8192, 16)
    assert (s.st_blksize, s.st_nlink, s.st_uid, s.st_gid, s.st_rdev) == (CLUSTER, 1, 0, 0, 0)
    assert s.st_dev == 0x1234ABCD
    assert s.st_ino not in (0, volume.stat("/").st_ino)
    assert (s.st_birthtime_ns, s.st_mtime_ns) == (NOON + 1_230_000_000, NOON + 2_000_000_000)
    assert (s.st_atime_ns, s.st_ctime_ns) == (NOON + 4_000_000_000, s.st_mtime_ns)
    assert (s.st_birthtime, s.st_mtime, s.st_atime) == (1600000001.23, 1600000002.0, 1600000004.0)
    assert s.st_ctime == s.st_mtime
    assert (s.created_offset, s.modified_offset, s.accessed_offset) == (0, 0, 0)
    assert s.st_file_attributes == stat_module.FILE_ATTRIBUTE_ARCHIVE
    assert (s.archive, s.read_only, s.hidden, s.system, s.is_dir) == (
        True,
        False,
        False,
        False,
        False,
    )
    assert s.contiguous
    # The directory entries: 1 for the file, 1 for the stream, 1 for a name of four units.
    assert s.entry_count == 3
    entry = volume.read_raw(32, s.entry_offset)
    assert entry[0] == 0x85
    stream = volume.read_raw(32, s.entry_offset + 32)
    assert stream[0] == 0xC0
    assert struct.unpack_from("<I", stream, 20)[0] == s.first_cluster
    assert "5000" in repr(s)


def test_stat_is_a_sequence(volume: _core.Volume) -> None:
    volume.touch("/file")
    s = volume.stat("/file")
    ten = (s.st_mode, s.st_ino, s.st_dev, 1, 0, 0, 0, *[NOON // 10**9] * 3)
    assert tuple(s) == ten
    assert len(s) == 10
    assert s[stat_module.ST_MTIME] == int(s.st_mtime)
    assert s[-1] == s[9]
    assert s[6:8] == ten[6:8]
    for index in (10, -11):
        with pytest.raises(IndexError):
            s[index]
    with pytest.raises(TypeError):
        s["st_size"]  # type: ignore[call-overload]
    with pytest.raises(AttributeError):
        s.st_size = 5  # type: ignore[misc]


def test_stat_of_directories_and_attributes(volume: _core.Volume) -> None:
    volume.mkdir("/dir")
    s = volume.stat("/dir")
    assert stat_module.S_ISDIR(s.st_mode)
    assert s.st_mode & 0o777 == 0o755
    assert s.is_dir
    assert s.st_file_attributes == stat_module.FILE_ATTRIBUTE_DIRECTORY
    root = volume.stat("/")
    assert (root.st_ino, root.is_dir, root.entry_offset, root.entry_count) == (1, True, 0, 0)
    volume.touch("/file")
    volume.setattr("/file", attributes=_core.ATTR_READ_ONLY | _core.ATTR_HIDDEN | _core.ATTR_SYSTEM)
    s = volume.stat("/file")
    assert s.st_mode & 0o777 == 0o444
    assert (s.read_only, s.hidden, s.system, s.archive) == (True, True, True, False)
    assert s.st_birthtime_ns == NOON
    volume.setattr("/dir", attributes=_core.ATTR_READ_ONLY)
    assert volume.stat("/dir").st_mode & 0o777 == 0o555


def test_utc_offset_of_stamps() -> None:
    device = formatted()
    volume = _core.Volume(device, writable=True, utc_offset=-90, env=_core.Env(clock=NOON))
    assert volume.utc_offset == -90
    volume.touch("/file")
    s = volume.stat("/file")
    assert (s.created_offset, s.modified_offset, s.accessed_offset) == (-90, -90, -90)
    assert s.st_mtime_ns == NOON
    # Section 7.4.10: bit 7 says valid, the rest is a signed count of quarter hours: -6.
    entry = volume.read_raw(32, s.entry_offset)
    assert entry[22] == 0x80 | (-6 & 0x7F)
    volume.close()


# ---- directories ----


def test_scandir_in_batches(volume: _core.Volume) -> None:
    names = [f"n{n:03}\U0001f600\udcff" for n in range(50)]
    assert volume.create_many("/", names) == 50
    found: list[str] = []
    cursor, end, rounds = 0, False, 0
    while not end:
        batch, cursor, end, damage = volume.scandir_batch("/", cursor, 7)
        assert damage is None
        assert len(batch) <= 7
        for name, s in batch:
            assert s == volume.stat("/" + name)
            found.append(name)
        rounds += 1
    assert found == names == volume.listdir("/")
    assert rounds in (8, 9)
    assert volume.remove_many("/", reversed(names)) == 50
    assert volume.scandir_batch("/", 0, 5)[0] == volume.listdir("/") == []
    assert volume.create_many("/", []) == 0


def test_names(volume: _core.Volume) -> None:
    volume.mkdir("/Ordner")
    volume.touch("/ORDNER/Ärger.TXT")
    assert volume.stored_name("/ordner/ärger.txt") == "Ärger.TXT"
    assert volume.kind("/oRdNeR/") == _core.KIND_DIRECTORY
    assert volume.kind("ordner/./../ordner/ärger.txt") == _core.KIND_FILE
    assert volume.kind("/ordner/x") == volume.kind("/ordner/ärger.txt/x") == _core.KIND_NONE
    volume.rename("/Ordner/ärger.txt", "/other")
    volume.touch("/third")
    volume.rename("/third", "/OTHER")
    assert set(volume.listdir("/")) == {"Ordner", "OTHER"}


# ---- files ----


def test_reading_and_writing(volume: _core.Volume) -> None:
    handle = volume.open_file("/file", NEW)
    assert handle.flags == NEW
    assert handle.pwrite(memoryview(b"0123456789"), 5) == 10
    assert handle.size() == 15
    assert handle.pread(100, 0) == bytes(5) + b"0123456789"
    assert handle.pread(3, 6) == b"123"
    assert handle.pread(3, 15) == handle.pread(0, 0) == b""
    target = bytearray(b"-" * 8)
    assert handle.preadinto(target, 10) == 5
    assert target == b"56789---"
    assert handle.preadinto(memoryview(target)[:2], 5) == 2
    with pytest.raises(TypeError, match="writable"):
        handle.preadinto(b"fixed", 0)  # type: ignore[arg-type]
    handle.resize(3)
    assert handle.pread(10, 0) == bytes(3)
    handle.resize(200_000)
    assert handle.pread(1 << 20, 100_000) == bytes(100_000)
    assert handle.stat().valid_size < 200_000
    handle.sync()


def test_appending(volume: _core.Volume) -> None:
    one = volume.open_file("/log", NEW | _core.OPEN_APPEND)
    two = volume.open_file("/log", _core.OPEN_WRITE | _core.OPEN_APPEND)
    assert one.append(b"abc") == (3, 3)
    assert two.append(b"defg") == (4, 7)
    assert two.pwrite(b"h", 0) == 1
    assert one.pread(10, 0) == b"abcdefgh"


def test_opening(volume: _core.Volume) -> None:
    volume.open_file("/file", NEW).pwrite(b"content", 0)
    assert volume.open_file("/file", _core.OPEN_READ).size() == 7
    assert volume.open_file("/file", _core.OPEN_WRITE | _core.OPEN_TRUNCATE).size() == 0
    with pytest.raises(FileExistsError):
        volume.open_file("/file", NEW | _core.OPEN_EXCLUSIVE)
    volume.open_file("/new", NEW | _core.OPEN_EXCLUSIVE)
    assert sorted(volume.listdir("/")) == ["file", "new"]


def test_unlinked_but_open(volume: _core.Volume) -> None:
    handle = volume.open_file("/file", NEW)
    handle.pwrite(b"x" * 3 * CLUSTER, 0)
    free = volume.statfs().free
    volume.unlink("/file")
    assert handle.pread(5, 0) == b"xxxxx"
    handle.pwrite(b"y", 0)
    handle.close()
    volume.sync()
    assert volume.statfs().free == free + 3 * CLUSTER


def test_extents(volume: _core.Volume) -> None:
    handle = volume.open_file("/file", NEW)
    handle.pwrite(b"x" * 100, 0)
    handle.allocate(0, 3 * CLUSTER)
    s = handle.stat()
    assert (s.st_size, s.allocated) == (3 * CLUSTER, 3 * CLUSTER)
    extents = handle.extents()
    assert extents == volume.extents("/file")
    assert all(type(e) is Extent for e in extents)
    assert next((e.file_offset, e.length) for e in extents if e.written)[0] == 0
    assert sum(e.length for e in extents) == 3 * CLUSTER
    # Cluster 2 is where the heap starts (section 5): the offsets of the boot sector say where.
    boot = volume.read_raw(512, 0)
    heap = struct.unpack_from("<I", boot, 88)[0] * 512
    assert extents[0].device_offset == heap + (s.first_cluster - 2) * CLUSTER
    volume.touch("/kept")
    volume.fallocate("/kept", 0, 2 * CLUSTER, keep_size=True)
    assert (volume.stat("/kept").st_size, volume.stat("/kept").allocated) == (0, 2 * CLUSTER)
    volume.truncate("/kept", 0)
    assert volume.extents("/kept") == []


# ---- pickles ----


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_stat_can_be_carried_elsewhere(volume: _core.Volume, protocol: int) -> None:
    handle = volume.open_file("/file", NEW)
    handle.pwrite(b"x" * 5000, 0)
    handle.setattr(created=-(10**9), attributes=_core.ATTR_READ_ONLY | _core.ATTR_HIDDEN)
    for s in (handle.stat(), volume.stat("/")):
        again = pickle.loads(pickle.dumps(s, protocol))
        assert type(again) is _core.Stat
        assert again is not s
        assert again == s == copy.copy(s) == copy.deepcopy(s)
        names = [name for name in dir(s) if not name.startswith("_")]
        assert [getattr(again, name) for name in names] == [getattr(s, name) for name in names]
        assert tuple(again) == tuple(s)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_is_open_can_not(volume: _core.Volume, protocol: int) -> None:
    device = volume.device
    things = [
        (volume, "Volume"),
        (volume.open_file("/file", NEW), "Handle"),
        (device, "Device"),
        (device.record(), "Recorder"),
        (device.faults(), "Faults"),
        (_core.Env(), "Env"),
        (_core.Pool(1 << 20), "Pool"),
    ]
    for thing, name in things:
        with pytest.raises(TypeError, match=f"cannot pickle '{name}' object"):
            pickle.dumps(thing, protocol)
        with pytest.raises(TypeError, match="cannot pickle"):
            copy.copy(thing)


# ---- the whole ----


def test_label_serial_and_guid(tmp_path: Path) -> None:
    guid = bytes(range(1, 17))
    device = formatted(label="Größe", serial=0xDEADBEEF, uuid=guid)
    volume = _core.Volume(device, writable=True)
    assert (volume.label, volume.serial, volume.uuid_bytes) == ("Größe", 0xDEADBEEF, guid)
    volume.label = "new"
    volume.serial = 7
    assert (volume.label, volume.serial, volume.stat("/").st_dev) == ("new", 7, 7)
    volume.close()
    again = _core.Volume(device)
    assert (again.label, again.serial, again.uuid_bytes) == ("new", 7, guid)
    assert again.readonly
    path = tmp_path / "image"
    path.write_bytes(device.pread(SIZE, 0))
    dump = subprocess.run(
        [require_tool("dump.exfat"), str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert "Volume Serial: 0x7 Sector" in " ".join(dump.split())
    assert "new" in dump
    assert (
        subprocess.run([require_tool("fsck.exfat"), "-n", str(path)], check=False).returncode == 0
    )


def test_statfs(volume: _core.Volume) -> None:
    before = volume.statfs()
    assert before.cluster_size == volume.cluster_size == CLUSTER
    assert before.sector_size == volume.sector_size == 512
    assert before.total == before.used + before.free == before.clusters * CLUSTER
    assert before.free == before.free_clusters * CLUSTER
    assert before.name_max == 255
    assert volume.count_bad_clusters() == 0
    boot = volume.read_raw(512, 0)
    assert before.clusters == struct.unpack_from("<I", boot, 92)[0]
    volume.open_file("/x", NEW).pwrite(b"x" * (2 * CLUSTER + 1), 0)
    assert volume.statfs().used == before.used + 3 * CLUSTER


def test_counters_and_policy(volume: _core.Volume) -> None:
    assert volume.get_policy() == _core.default_policy()
    assert volume.get_policy()["memory_budget"] == 64 << 20
    volume.set_policy({"name_filter": False, "free_scan": "block", "memory_budget": 1 << 20})
    changed = volume.get_policy()
    assert (changed["name_filter"], changed["free_scan"]) == (False, "block")
    assert changed["name_index"] is True
    assert changed["memory_budget"] == 1 << 20
    before = {
        "empty_hint": "off",
        "name_filter": False,
        "name_index": False,
        "entry_sync": "entry",
        "preallocate": False,
        "free_scan": "element",
        "discard": True,
        "memory_budget": 0,
    }
    volume.set_policy(before)
    assert volume.get_policy() == before
    volume.set_policy(_core.default_policy())
    volume.counters_reset()
    volume.touch("/x")
    volume.sync()
    counters = volume.get_counters()
    assert counters["operations"] == 2
    assert counters["sets_written"] >= 1
    writes = counters["cache"]["writes_by_structure"]
    assert set(writes) == set(_core.STRUCTURES)
    assert writes["entry set"] >= 1
    assert sum(writes.values()) == counters["cache"]["device_writes"]
    assert (
        sum(counters["cache"]["bytes_by_structure"].values()) == counters["cache"]["bytes_written"]
    )
    assert volume.memory_held > 0
    assert volume.shrink(1 << 30) > 0


@pytest.mark.parametrize("sync", ["lazy", "dirsync", "sync"])
def test_sync_modes(sync: Any) -> None:
    device = formatted()
    volume = _core.Volume(device, writable=True, sync=sync)
    assert volume.sync_mode == sync
    volume.touch("/x")
    volume.abandon()
    assert volume.closed
    assert _core.Volume(device).listdir("/") == ([] if sync == "lazy" else ["x"])
    volume = _core.Volume(device, writable=True)
    assert volume.was_dirty
    volume.set_sync("sync")
    volume.touch("/y")
    volume.abandon()
    assert "y" in _core.Volume(device).listdir("/")


def test_trim_discards_free_space() -> None:
    log = formatted().record()
    volume = _core.Volume(log, writable=True)
    volume.open_file("/x", NEW).pwrite(b"x" * CLUSTER, 0)
    volume.sync()
    log.clear()
    free = volume.statfs().free
    assert volume.trim() == free
    discards = [log.entry(n) for n in range(len(log)) if log.entry(n).kind == "discard"]
    assert sum(e.length for e in discards) == free
    volume.close()


def test_mount_is_a_volume() -> None:
    volume = _core.mount(formatted(), fs="exfat", sync="sync")
    assert type(volume) is _core.Volume
    assert (volume.fs, volume.size, volume.readonly, volume.from_backup) == (
        "exfat",
        SIZE,
        True,
        False,
    )
    assert volume.env is None
    assert not volume.media_failure

    class Mine(_core.Volume):
        def __init__(self, device: _core.Device, extra: int) -> None:
            super().__init__(device)
            self.extra = extra

    with Mine(formatted(), 5) as mine:
        assert mine.extra == 5
        assert mine.listdir("/") == []
    assert mine.closed


def test_format_is_repeatable() -> None:
    images = []
    for _ in range(2):
        env = _core.Env(seed=42, clock=NOON, tick=1)
        device = formatted(env=env)
        with _core.Volume(device, writable=True, env=env) as volume:
            volume.mkdir("/dir")
            volume.touch("/dir/x")
        images.append(device.pread(SIZE, 0))
    assert images[0] == images[1]
    other = formatted(env=_core.Env(seed=43, clock=NOON))
    assert _core.Volume(other).serial != struct.unpack_from("<I", images[0], 100)[0]


# ---- Env, Pool ----


def test_env() -> None:
    env = _core.Env(seed=1, clock=100, tick=7)
    assert [env.now() for _ in range(3)] == [100, 107, 114]
    assert env.random(8) != env.random(8)
    assert _core.Env(seed=1).random(16) == _core.Env(seed=1).random(16)
    assert _core.Env(seed=1).random(16) != _core.Env(seed=2).random(16)
    assert _core.Env().random(16) != _core.Env().random(16)
    assert env.random(0) == b""
    import time

    assert abs(_core.Env().now() - time.time_ns()) < 10**10
    ticks = iter(range(5, 10))
    env = _core.Env(clock=lambda: next(ticks))
    assert [env.now(), env.now()] == [5, 6]
    assert _core.Env(clock=-5).now() == -5


def test_pool() -> None:
    pool = _core.Pool(1 << 20)
    assert (pool.budget, pool.held) == (1 << 20, 0)
    volume = _core.Volume(formatted(), writable=True, pool=pool)
    volume.create_many("/", [f"name{n}" for n in range(500)])
    assert volume.kind("/absent") == _core.KIND_NONE
    assert 0 < pool.held <= pool.peak
    pool.budget = 0
    assert pool.budget == 0
    volume.touch("/another")
    assert pool.held < pool.peak
    del pool
    volume.close()
    with pytest.raises(AttributeError, match="deleted"):
        del _core.Pool(1).budget


# ---- threads ----


@pytest.mark.threads
def test_threads_on_one_volume() -> None:
    """Four writers with files and directories of their own, in one volume."""
    device = formatted()
    volume = _core.Volume(device, writable=True)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            volume.mkdir(f"/{number}")
            handle = volume.open_file(f"/{number}/file", NEW)
            for n in range(100):
                handle.pwrite(bytes([number]) * 100, n * 100)
                volume.touch(f"/{number}/{n}")
                assert handle.pread(100, n * 100) == bytes([number]) * 100
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    volume.close()
    again = _core.Volume(device)
    for number in range(4):
        assert len(again.listdir(f"/{number}")) == 101
        data = again.open_file(f"/{number}/file", _core.OPEN_READ).pread(20_000, 0)
        assert data == bytes([number]) * 10_000


@pytest.mark.threads
def test_the_gil_is_free_while_the_core_works() -> None:
    """A file object of one thread waits for another thread, which must be able to run."""
    import io

    event = threading.Event()

    class Slow(io.BytesIO):
        def readinto(self, buffer: Any) -> int:
            assert event.wait(30)
            return super().readinto(buffer)

    device = _core.Device.wrap(Slow(bytes(SIZE)))
    fast = _core.Volume(formatted())
    done: list[bytes] = []
    thread = threading.Thread(target=lambda: done.append(device.pread(512, 0)))
    thread.start()
    assert fast.listdir("/") == []
    event.set()
    thread.join()
    assert done == [bytes(512)]
