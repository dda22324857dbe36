"""File objects, clocks and progress functions that fail, or that call the core from within."""

from __future__ import annotations

import errno
import gc
import io
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from pyexfat import _core

SECTOR = 512
SIZE = 8 << 20
NEW = _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE


@pytest.fixture
def device() -> _core.Device:
    device = _core.Device.memory(SIZE)
    _core.format(device)
    return device


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
