"""Devices from Python: each kind, the shims on top, and what happens to the object below."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import require_device, require_tool
from core_support import LETTERS, SECTOR, SIZE, content, fill, fsck
from hypothesis import given
from hypothesis import strategies as st

from pyexfat import _core

# ---- every kind keeps sectors ----


def make(kind: str, folder: Path) -> _core.Device:
    if kind == "memory":
        return _core.Device.memory(SIZE)
    if kind == "file":
        path = folder / "device"
        path.write_bytes(bytes(SIZE))
        return _core.Device.file(path, writable=True)
    if kind == "fd":
        path = folder / "device"
        path.write_bytes(bytes(SIZE))
        return _core.Device.fd(os.open(path, os.O_RDWR), writable=True)
    if kind == "buffer":
        return _core.Device.buffer(bytearray(SIZE))
    if kind == "object":
        return _core.Device.wrap(io.BytesIO(bytes(SIZE)))
    if kind == "slice":
        return _core.Device.memory(2 * SIZE).slice(4096, SIZE)
    if kind == "branch":
        return _core.Device.memory(SIZE).branch()
    if kind == "recorder":
        return _core.Device.memory(SIZE).record()
    assert kind == "faults"
    return _core.Device.memory(SIZE).faults()


KINDS = ["memory", "file", "fd", "buffer", "object", "slice", "branch", "recorder", "faults"]


@pytest.fixture(params=KINDS)
def device(request: pytest.FixtureRequest, tmp_path: Path) -> _core.Device:
    return make(request.param, tmp_path)


def test_sectors_are_kept(device: _core.Device) -> None:
    assert (device.size, device.sector_size) == (SIZE, SECTOR)
    assert not device.readonly
    assert not device.closed
    assert not device.is_block
    assert device.pread(SECTOR, 0) == bytes(SECTOR)
    assert device.pwrite(LETTERS[0] + LETTERS[1], SECTOR) == 2 * SECTOR
    assert device.pwrite(memoryview(LETTERS[2]), SIZE - SECTOR) == SECTOR
    assert device.pread(4 * SECTOR, 0) == bytes(SECTOR) + LETTERS[0] + LETTERS[1] + bytes(SECTOR)
    device.zero(SECTOR, SECTOR)
    assert device.pread(2 * SECTOR, SECTOR) == bytes(SECTOR) + LETTERS[1]
    device.discard(0, SECTOR)
    device.flush()
    assert device.pread(SECTOR, SIZE - SECTOR) == LETTERS[2]
    assert device.pread(0, 0) == b""


def test_volume_on_every_kind(device: _core.Device, tmp_path: Path) -> None:
    fill(device)
    assert content(device) == b"content"
    found = _core.detect(device)
    assert found is not None
    assert (found.fs, found.label, found.size) == ("exfat", "CORE", SIZE)
    fsck(device.pread(SIZE, 0), tmp_path)


def test_closing(device: _core.Device) -> None:
    device.pwrite(LETTERS[0], 0)
    with device as entered:
        assert entered is device
    assert device.closed
    device.close()
    assert (device.size, device.sector_size) == (SIZE, SECTOR)
    assert "closed" in repr(device)
    for call in (
        lambda: device.pread(SECTOR, 0),
        lambda: device.pwrite(LETTERS[0], 0),
        lambda: device.zero(0, SECTOR),
        lambda: device.discard(0, SECTOR),
        device.flush,
        lambda: device.resize(SIZE),
        device.branch,
        device.record,
        device.faults,
        lambda: device.slice(0, SECTOR),
        device.__enter__,
        lambda: _core.detect(device),
        lambda: _core.partitions(device),
        lambda: _core.format(device),
        lambda: _core.Volume(device),
    ):
        with pytest.raises(ValueError, match="closed device"):
            call()


def test_ranges_are_checked(device: _core.Device) -> None:
    for length, offset in (
        (1, 0),
        (SECTOR, 1),
        (SECTOR, SIZE),
        (SIZE + SECTOR, 0),
        (SECTOR, 2**64 - 512),
    ):
        with pytest.raises(ValueError, match="offset and length"):
            device.pread(length, offset)
        with pytest.raises(ValueError, match="offset and length"):
            device.zero(offset, length)
        with pytest.raises(ValueError, match="offset and length"):
            device.discard(offset, length)
    with pytest.raises(ValueError, match="offset and length"):
        device.pwrite(b"short", 0)
    with pytest.raises(ValueError, match="length must not be negative"):
        device.pread(-SECTOR, 0)
    with pytest.raises(ValueError, match="offset is too large"):
        device.pread(SECTOR, 2**64)
    with pytest.raises(TypeError, match="offset must be an int, not str"):
        device.pread(SECTOR, "0")  # type: ignore[arg-type]
    assert device.pread(SECTOR, 0) == bytes(SECTOR)


def test_devices_are_made_by_class_methods_only() -> None:
    with pytest.raises(TypeError, match=r"made by Device\.memory"):
        _core.Device()

    class Mine(_core.Device):
        pass

    mine = Mine.memory(SIZE)
    assert type(mine) is Mine
    assert type(mine.branch()) is _core.Device
    Mine._device_class = Mine
    assert type(mine.branch()) is Mine
    assert type(mine.slice(0, SECTOR)) is Mine
    Mine._recorder_class = Mine  # type: ignore[assignment]
    with pytest.raises(TypeError, match="_recorder_class must be a subclass"):
        mine.record()
    for sector_size in (0, 100, 513, 8192, 2**32):
        with pytest.raises(ValueError, match="sector_size"):
            _core.Device.memory(SIZE, sector_size)
    assert _core.Device.memory(SIZE, 4096).sector_size == 4096


# ---- memory, files ----


def test_memory_is_sparse() -> None:
    device = _core.Device.memory(1 << 50)
    assert device.held == 0
    device.pwrite(LETTERS[0], (1 << 50) - SECTOR)
    assert 0 < device.held < 1 << 20
    device.resize(1 << 40)
    assert device.size == 1 << 40
    with pytest.raises(ValueError, match="size must be a multiple of 512"):
        device.resize(1000)


@pytest.mark.parametrize("kind", ["memory", "file", "object", "branch"])
def test_no_volume_loses_its_end(kind: str, tmp_path: Path) -> None:
    device = make(kind, tmp_path)
    _core.format(device, size=SIZE // 2)
    part = device.slice(0, SIZE // 2)
    reader = _core.Volume(device)
    volume = _core.Volume(part, writable=True)
    for size in (SIZE // 2 - SECTOR, 0):
        with pytest.raises(OSError, match=os.strerror(errno.EBUSY)) as busy:
            device.resize(size)
        assert busy.value.errno == errno.EBUSY
    assert device.size == SIZE
    device.resize(2 * SIZE)
    device.resize(SIZE // 2)
    volume.touch("/x")
    volume.close()
    assert _core.Volume(device).listdir("/") == ["x"]
    device.resize(SIZE // 4)  # a volume that is open for reading finds out
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        reader.read_raw(SECTOR, SIZE // 2 - SECTOR)


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with pytest.raises(FileNotFoundError) as failed:
        _core.Device.file(path)
    assert failed.value.filename == path
    device = _core.Device.file(path, writable=True, create=True)
    device.resize(SIZE)
    assert path.stat().st_size == SIZE
    device.pwrite(LETTERS[0], SECTOR)
    device.flush()
    assert path.read_bytes()[SECTOR : 2 * SECTOR] == LETTERS[0]
    assert path.name in device.name
    with pytest.raises(OSError, match=os.strerror(errno.EBUSY)) as busy:
        _core.Device.file(path, writable=True)
    assert busy.value.errno == errno.EBUSY
    device.close()
    reader = _core.Device.file(os.fsencode(path))
    assert reader.readonly
    with pytest.raises(OSError, match=r"[Rr]ead-only") as failed2:
        reader.pwrite(LETTERS[1], 0)
    assert failed2.value.errno == errno.EROFS
    assert path.read_bytes()[:SECTOR] == bytes(SECTOR)


def test_fd_stays_the_callers(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(SIZE))
    number = os.open(path, os.O_RDWR)
    device = _core.Device.fd(number, True)
    device.pwrite(LETTERS[0], 0)
    device.close()
    del device
    assert os.pread(number, SECTOR, 0) == LETTERS[0]
    os.close(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        _core.Device.fd(number)


# ---- slice, branch ----


def test_slice() -> None:
    whole = _core.Device.memory(16 * SECTOR)
    part = whole.slice(2 * SECTOR, 3 * SECTOR)
    assert part.parent is whole
    assert part.size == 3 * SECTOR
    part.pwrite(LETTERS[0], SECTOR)
    assert whole.pread(SECTOR, 3 * SECTOR) == LETTERS[0]
    for offset, length in ((1, SECTOR), (0, 17 * SECTOR), (15 * SECTOR, 2 * SECTOR)):
        with pytest.raises(ValueError, match="whole sectors within the device"):
            whole.slice(offset, length)
    whole.close()
    with pytest.raises(ValueError, match="closed device"):
        part.pread(SECTOR, 0)


def test_one_writer() -> None:
    device = _core.Device.memory(SIZE)
    _core.format(device)
    volume = _core.Volume(device, writable=True)
    with pytest.raises(OSError, match="busy") as busy:
        _core.Volume(device.slice(0, SIZE), writable=True)
    assert busy.value.errno == errno.EBUSY
    volume.close()
    _core.Volume(device, writable=True).close()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_branch_against_a_model(writes: list[tuple[bool, int, int]]) -> None:
    """(into the branch?, sector, letter): each side sees its own, the branch the rest as it was."""
    parent = _core.Device.memory(8 * SECTOR)
    for n in range(8):
        parent.pwrite(LETTERS[n], n * SECTOR)
    branch = parent.branch()
    below, above, changed = list(LETTERS), list(LETTERS), set()
    for to_branch, sector, letter in writes:
        (branch if to_branch else parent).pwrite(LETTERS[letter], sector * SECTOR)
        (above if to_branch else below)[sector] = LETTERS[letter]
        if to_branch:
            changed.add(sector)
    assert parent.pread(8 * SECTOR, 0) == b"".join(below)
    assert branch.pread(8 * SECTOR, 0) == b"".join(above)
    assert (branch.changed > 0) or not changed
    other = parent.branch()
    branch.commit()
    merged = [above[n] if n in changed else below[n] for n in range(8)]
    assert parent.pread(8 * SECTOR, 0) == b"".join(merged) == branch.pread(8 * SECTOR, 0)
    assert other.pread(8 * SECTOR, 0) == b"".join(below)
    other.pwrite(LETTERS[0], 0)
    other.rollback()
    assert other.pread(8 * SECTOR, 0) == b"".join(merged)


def test_only_branches_are_committed() -> None:
    device = _core.Device.memory(SIZE)
    for call in (device.commit, device.rollback, device.record().commit):
        with pytest.raises(ValueError, match="branch"):
            call()


# ---- recorder, faults ----


def test_recorder() -> None:
    below = _core.Device.memory(16 * SECTOR)
    below.pwrite(LETTERS[7], 0)
    log = below.record()
    assert len(log) == 0
    log.pwrite(LETTERS[0], 0)
    log.flush()
    log.zero(SECTOR, 2 * SECTOR)
    log.pwrite(LETTERS[1] + LETTERS[2], SECTOR)
    assert [tuple(log.entry(n)[:5]) for n in range(len(log))] == [
        ("write", 0, SECTOR, 0, "other"),
        ("flush", 0, 0, 0, "other"),
        ("zero", SECTOR, 2 * SECTOR, 0, "other"),
        ("write", SECTOR, 2 * SECTOR, 0, "other"),
    ]
    assert [log.data(n) for n in range(4)] == [LETTERS[0], b"", b"", LETTERS[1] + LETTERS[2]]
    assert log.at(0).pread(SECTOR, 0) == LETTERS[7]
    assert log.at(3).pread(2 * SECTOR, 0) == LETTERS[0] + bytes(SECTOR)
    assert log.at(4).pread(3 * SECTOR, 0) == b"".join(LETTERS[:3]) == below.pread(3 * SECTOR, 0)
    for call in (lambda: log.entry(4), lambda: log.data(4), lambda: log.at(5)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(ValueError, match="index must not be negative"):
        log.entry(-1)
    log.clear()
    assert len(log) == 0
    assert log.at(0).pread(SECTOR, 0) == LETTERS[0]


def test_recorder_names_what_was_written() -> None:
    below = _core.Device.memory(SIZE)
    _core.format(below)
    log = below.record()
    volume = _core.Volume(log, writable=True)
    volume.mkdir("/d\udc80r")
    volume.sync()
    volume.close()
    entries = [log.entry(n) for n in range(len(log))]
    named = [e for e in entries if e.kind == "write" and e.structure == "entry set"]
    assert named
    assert {e.call for e in named} == {"mkdir"}
    assert {e.path for e in named} == {"/d\udc80r"}
    assert all(e.op > 0 for e in named)
    assert {e.structure for e in entries} <= set(_core.STRUCTURES)
    # The device after all of it is the device.
    assert log.at(len(log)).pread(SIZE, 0) == below.pread(SIZE, 0)


def test_faults() -> None:
    below = _core.Device.memory(16 * SECTOR)
    device = below.faults()
    device.add("write", nth=2, error=errno.ENOSPC)
    device.pwrite(LETTERS[0], 0)
    with pytest.raises(OSError, match=r"[Nn]o space") as full:
        device.pwrite(LETTERS[1], 0)
    assert full.value.errno == errno.ENOSPC
    device.pwrite(LETTERS[2], 0)
    assert below.pread(SECTOR, 0) == LETTERS[2]
    assert (device.count("write"), device.count("read"), device.count("flush")) == (3, 0, 0)

    device.clear()
    device.add(action="tear", keep=SECTOR)
    with pytest.raises(OSError, match=r"[Ii]nput/output"):
        device.pwrite(LETTERS[3] + LETTERS[4], 0)
    assert below.pread(2 * SECTOR, 0) == LETTERS[3] + bytes(SECTOR)

    device.clear()
    device.add(["write", "discard"], offset=4 * SECTOR, length=SECTOR, action="drop")
    device.pwrite(LETTERS[5], 4 * SECTOR)
    device.pwrite(LETTERS[5], 5 * SECTOR)
    assert below.pread(2 * SECTOR, 4 * SECTOR) == bytes(SECTOR) + LETTERS[5]

    device.clear()
    device.add("flush", action="die", error=errno.ENODEV)
    device.pwrite(LETTERS[6], 0)
    for call in (
        device.flush,
        lambda: device.pread(SECTOR, 0),
        lambda: device.pwrite(LETTERS[0], 0),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.ENODEV)) as dead:
            call()
        assert dead.value.errno == errno.ENODEV


def test_faults_by_structure() -> None:
    device = _core.Device.memory(SIZE).faults()
    _core.format(device)
    volume = _core.Volume(device, writable=True)
    device.add("write", structure="allocation bitmap")
    volume.touch("/no-cluster-needed")
    volume.mkdir("/one-cluster-needed")
    with pytest.raises(OSError, match=r"[Ii]nput/output"):
        volume.sync()
    volume.abandon()


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ({"ops": "erase"}, "ops"),
        ({"ops": []}, "ops"),
        ({"ops": ["write", 7]}, "ops"),
        ({"structure": "inode"}, "structure"),
        ({"action": "explode"}, "action"),
        ({"nth": -1}, "nth"),
        ({"error": 10**6}, "error"),
        ({"keep": 2**70}, "keep"),
        ({"error": 0}, "error"),
    ],
)
def test_rules_that_cannot_be(rule: dict[str, Any], names: str) -> None:
    device = _core.Device.memory(SIZE).faults()
    with pytest.raises((ValueError, TypeError), match=names):
        device.add(**rule)


# ---- partitions ----


@pytest.mark.parametrize("scheme", ["mbr", "gpt"])
def test_partition_table(scheme: Any, tmp_path: Path) -> None:
    device = _core.Device.memory(16 << 20)
    assert _core.partitions(device) == (None, [], False, 0)
    env = _core.Env(seed=1, clock=0)
    offset, length = _core.write_partition_table(device, scheme, align=1 << 20, env=env)
    assert offset == 1 << 20
    table = _core.partitions(device)
    assert table.scheme == scheme
    assert not table.from_backup
    (found,) = table.partitions
    assert (found.number, found.offset, found.length) == (1, offset, length)
    fill(device.slice(offset, length))
    # sfdisk reads the same.
    path = tmp_path / "disk"
    path.write_bytes(device.pread(device.size, 0))
    dump = subprocess.run(
        [require_tool("sfdisk"), "--dump", str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert f"start={offset // 512:>12}, size={length // 512:>12}" in dump
    assert ("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7" if scheme == "gpt" else "type=7") in dump


def test_partition_arguments() -> None:
    device = _core.Device.memory(16 << 20)
    with pytest.raises(ValueError, match="scheme"):
        _core.write_partition_table(device, "apm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mbr_type"):
        _core.write_partition_table(device, "mbr", mbr_type=256)
    with pytest.raises(ValueError, match="type_guid must be 16 bytes"):
        _core.write_partition_table(device, "gpt", type_guid=b"short")
    assert device.pread(SECTOR, 0) == bytes(SECTOR)


# ---- block devices ----


def test_loop_device(tmp_path: Path) -> None:
    """A raw block device: its size and sector size are the system's, one writer, discard."""
    require_device("/dev/loop-control")
    losetup = require_tool("losetup")
    path = tmp_path / "backing"
    path.write_bytes(bytes(SIZE))
    made = subprocess.run(
        [losetup, "--find", "--show", "--sector-size", "4096", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    loop = made.stdout.strip()
    try:
        device = _core.Device.file(loop, writable=True)
        assert device.is_block
        assert (device.size, device.sector_size) == (SIZE, 4096)
        with pytest.raises(OSError, match="busy"):
            _core.Device.file(loop, writable=True)
        fill(device)
        device.close()
        reader = _core.Device.file(loop)
        assert content(reader) == b"content"
        reader.close()
    finally:
        subprocess.run([losetup, "--detach", loop], check=True)
    fsck(path.read_bytes(), tmp_path)


# ---- several interpreters ----


@pytest.mark.threads
@pytest.mark.skipif(sys.version_info < (3, 13), reason="needs _interpreters")
def test_own_gil_per_interpreter() -> None:
    interpreters = pytest.importorskip("_interpreters")
    code = (
        "from pyexfat import _core; import io\n"
        f"d = _core.Device.wrap(io.BytesIO(bytes({SIZE}))); _core.format(d)\n"
        "v = _core.Volume(d, writable=True); v.touch('/x'); assert v.listdir('/') == ['x']\n"
    )
    numbers = [interpreters.create("isolated") for _ in range(3)]
    failed: list[Any] = []

    def run(number: int) -> None:
        error = interpreters.run_string(number, f"import sys; sys.path[:] = {sys.path!r}\n" + code)
        if error is not None:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in numbers:
        interpreters.destroy(number)
    assert not failed


@pytest.mark.skipif(sys.version_info[:2] != (3, 12), reason="needs _xxsubinterpreters")
def test_own_gil_in_another_interpreter() -> None:
    """One at a time: 3.12 itself does not bear several that import at once."""
    interpreters = pytest.importorskip("_xxsubinterpreters")
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        f"import pyexfat as px; d = bytearray({SIZE}); px.format(d).close(); px.open(d).close()\n"
    )
    number = interpreters.create(isolated=True)
    interpreters.run_string(number, code)  # raises what the code raises
    interpreters.destroy(number)
