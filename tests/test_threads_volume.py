"""Many threads on one volume, and closing it while they work: results or clean errors, no crash."""

from __future__ import annotations

import errno
import io
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model.drivers import DRIVERS, EXFAT, FAT12, Driver

import pyexfat as px

pytestmark = pytest.mark.threads

SIZE = 4 << 20
SECONDS = 60  # a thread that takes longer hangs

# Every file system where names and clusters are at stake, exFAT alone where handles are.
each_driver = pytest.mark.parametrize("driver", DRIVERS, ids=str)


def new_volume(device: px.Device, driver: Driver, cluster: int = 1024, **options: Any) -> px.Volume:
    """A new volume."""
    return px.format(device, driver.name, **driver.small(cluster, SIZE)[1], **options)


def memory(driver: Driver, cluster: int = 1024) -> px.Device:
    """A device for it."""
    return px.Device.memory(driver.small(cluster, SIZE)[0])


def read(driver: Driver, device: px.Device) -> Any:
    """What an independent reader finds."""
    return driver.read(device.pread(device.size, 0))


def run_all(workers: list[Callable[[], None]], meanwhile: Callable[[], None] | None = None) -> None:
    """Runs them side by side; what one of them raises is raised here."""
    failed: list[BaseException] = []
    start = threading.Barrier(len(workers) + 1)

    def guarded(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(w,), daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    start.wait()
    if meanwhile is not None:
        meanwhile()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "a thread hangs"
    for error in failed:
        raise error


def clean(error: BaseException) -> bool:
    """What a call may say when its volume, file or device goes away under it."""
    if isinstance(error, ValueError):
        return "closed" in str(error)
    return isinstance(error, OSError) and error.errno == errno.EBADF


@each_driver
def test_each_thread_in_its_own_directory(driver: Driver) -> None:
    """All calls at once; each thread finds its own things as it left them."""
    with memory(driver) as device:
        vol = new_volume(device, driver)

        def work(k: int) -> None:
            rng = random.Random(k)
            home = f"/home {k}"
            vol.mkdir(home)
            mine: dict[str, bytes] = {}
            for i in range(150):
                name = f"{home}/f{rng.randrange(20)}"
                choice = rng.randrange(7)
                if choice <= 1 or name not in mine:
                    mine[name] = rng.randbytes(rng.randrange(5000))
                    vol.write_bytes(name, mine[name])
                elif choice == 2:
                    vol.unlink(name)
                    del mine[name]
                elif choice == 3:
                    new = f"{home}/f{rng.randrange(20)}"
                    vol.rename(name, new)
                    if new != name:
                        mine[new] = mine.pop(name)
                elif choice == 4:
                    with vol.open(name, "ab") as f:
                        f.write(b"more")
                    mine[name] += b"more"
                else:
                    assert vol.read_bytes(name) == mine[name]
                if i % 50 == 0:
                    vol.sync()
                    vol.shrink(1 << 20)
            assert set(vol.listdir(home)) == {n.rpartition("/")[2] for n in mine}
            for name, data in mine.items():
                assert vol.read_bytes(name) == data

        run_all([lambda k=k: work(k) for k in range(6)])  # type: ignore[misc]
        vol.close()
        assert read(driver, device).violations == []


@each_driver
def test_all_threads_in_one_directory(driver: Driver) -> None:
    """Names that others take and give: each create succeeds in one thread only."""
    with memory(driver, 512) as device:
        vol = new_volume(device, driver, 512)
        made = [0] * 6
        gone = [0] * 6

        def work(k: int) -> None:
            rng = random.Random(k)
            for _ in range(400):
                path = f"/shared {rng.randrange(30)}"
                try:
                    if rng.random() < 0.5:
                        vol.touch(path, exist_ok=False)
                        made[k] += 1
                    elif rng.random() < 0.5:
                        vol.unlink(path)
                        gone[k] += 1
                    else:
                        vol.rename(path, f"/shared {rng.randrange(30)}", noreplace=True)
                except (FileExistsError, FileNotFoundError):
                    pass
                names = vol.listdir("/")
                assert len({name.upper() for name in names}) == len(names)

        run_all([lambda k=k: work(k) for k in range(6)])  # type: ignore[misc]
        assert len(vol.listdir("/")) == sum(made) - sum(gone)
        vol.close()
        raw = read(driver, device)
        assert raw.violations == []
        assert len(raw.children["/"]) == sum(made) - sum(gone)


@pytest.mark.parametrize("driver", [EXFAT, FAT12], ids=str)
def test_one_file_from_many_threads(driver: Driver) -> None:
    """Appends are whole and none is lost; a reader sees whole records only."""
    with memory(driver, 512) as device, new_volume(device, driver, 512) as vol:
        vol.touch("/log")
        count, threads = 200, 6

        def writer(k: int) -> None:
            handle = vol.open_file("/log", 2 | 32)
            for i in range(count):
                record = bytes([k]) * 15 + bytes([i % 256])
                written, end = handle.append(record)
                assert written == 16
                assert end % 16 == 0
            handle.close()

        def reader() -> None:
            while True:
                data = vol.read_bytes("/log")
                assert len(data) % 16 == 0
                for at in range(0, len(data), 16):
                    assert data[at : at + 15] == data[at : at + 1] * 15
                if len(data) == 16 * count * threads:
                    return

        run_all([*(lambda k=k: writer(k) for k in range(threads)), reader])  # type: ignore[misc]
        data = vol.read_bytes("/log")
        for k in range(threads):
            rows = [data[i + 15] for i in range(0, len(data), 16) if data[i] == k]
            assert rows == [i % 256 for i in range(count)]


ACTIONS: list[Callable[[px.Volume, random.Random], Any]] = [
    lambda v, r: v.write_bytes(f"/f{r.randrange(9)}", r.randbytes(3000)),
    lambda v, r: v.read_bytes(f"/f{r.randrange(9)}"),
    lambda v, r: v.unlink(f"/f{r.randrange(9)}"),
    lambda v, r: v.create_many("/d", [f"n{r.randrange(10**9)}" for _ in range(50)]),
    lambda v, r: v.listdir("/d"),
    lambda v, r: [e.stat() for e in v.scandir("/d")],
    lambda v, r: v.rename(f"/f{r.randrange(9)}", f"/f{r.randrange(9)}"),
    lambda v, r: v.sync(),
    lambda v, r: v.usage(),
    lambda v, r: v.shrink(1 << 30),
    lambda v, r: setattr(v, "policy", {"name_index": r.random() < 0.5}),
    lambda v, r: setattr(v, "label", f"L{r.randrange(99)}"),
    lambda v, r: v.counters,
    lambda v, r: v.extents("/keep"),
    lambda v, r: v.trim(),
]


def busy(vol: px.Volume, k: int) -> Callable[[], None]:
    """Does this and that until the volume is closed."""

    def work() -> None:
        rng = random.Random(k)
        handle = None
        try:
            handle = vol.open_file("/keep", 3)
            while True:
                try:
                    handle.pwrite(rng.randbytes(700), rng.randrange(20000))
                    handle.pread(5000, rng.randrange(20000))
                    rng.choice(ACTIONS)(vol, rng)
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ENOSPC, errno.EEXIST):
                        raise
                    if error.errno == errno.ENOSPC:
                        vol.remove_many("/d", vol.listdir("/d")[:500])
        except (ValueError, OSError) as error:
            if not clean(error):
                raise
        finally:
            if handle is not None:
                try:
                    handle.close()
                except OSError as error:  # what could not be written any more is reported here
                    if not clean(error):
                        raise

    return work


@each_driver
@pytest.mark.parametrize("how", ["close", "abandon"])
@pytest.mark.parametrize("seed", range(4))
def test_closed_while_they_work(driver: Driver, how: str, seed: int) -> None:
    """The volume ends under its users; what was closed is consistent to the byte."""
    with memory(driver) as device:
        vol = new_volume(device, driver)
        vol.mkdir("/d")
        vol.touch("/keep")

        def end() -> None:
            time.sleep(0.02 * (seed + 1))
            vol.close() if how == "close" else vol.abandon()

        run_all([busy(vol, 10 * seed + k) for k in range(5)], end)
        assert vol.closed
        raw = read(driver, device)
        if how == "close":
            assert raw.violations == []
        else:
            allowed = {"orphan", "chain long", "cross link", "duplicate", "backup", "label"}
            half = {"set checksum", "broken set", "stray entry", "long name", "duplicate short"}
            assert raw.kinds() <= allowed | half | driver.unclean


@each_driver
def test_closed_by_several_threads_at_once(driver: Driver) -> None:
    """Each close() returns, and the volume is clean."""
    for _ in range(20 if driver is EXFAT else 5):
        with memory(driver) as device:
            vol = new_volume(device, driver)
            vol.write_bytes("/a", b"x" * 9000)
            run_all([vol.close] * 4)
            assert read(driver, device).violations == []


@pytest.mark.parametrize("seed", range(3))
def test_device_closed_while_they_work(seed: int) -> None:
    """The device goes away under the volume: errors, and the volume can still be ended."""
    device = px.Device.memory(SIZE)
    vol = px.format(device, cluster_size=1024)
    vol.mkdir("/d")
    vol.touch("/keep")

    def end() -> None:
        time.sleep(0.02 * (seed + 1))
        device.close()

    stop = threading.Timer(0.5, vol.abandon)  # caches may serve some threads for ever
    stop.start()
    try:
        run_all([busy(vol, k) for k in range(4)], end)
    finally:
        stop.join()
    assert device.closed
    with pytest.raises(ValueError, match="closed"):
        vol.listdir("/")


def test_files_closed_while_they_are_read() -> None:
    """A stream and a handle end under their users."""
    with px.Device.memory(SIZE) as device, px.format(device) as vol:
        vol.write_bytes("/a", b"abc" * 50000)
        for _ in range(10):
            raw = vol.open("/a", "rb", buffering=0)
            handle = vol.open_file("/a", 1)

            def use(raw: Any = raw, handle: Any = handle) -> None:
                try:
                    while True:
                        data = raw.read(3000)
                        if not data:
                            raw.seek(0)
                        assert handle.pread(6, 3) == b"abcabc"
                except (ValueError, OSError) as error:
                    if not clean(error):
                        raise

            def end(raw: Any = raw, handle: Any = handle) -> None:
                time.sleep(0.005)
                raw.close()
                handle.close()

            run_all([use] * 4, end)


def test_two_volumes_on_two_partitions(tmp_path: Path) -> None:
    """Slices of one device are independent of each other."""
    device = px.Device.memory(2 * SIZE)
    slices = [device.slice(0, SIZE), device.slice(SIZE, SIZE)]
    vols = [px.format(s, cluster_size=1024, label=f"P{i}") for i, s in enumerate(slices)]

    def work(vol: px.Volume, k: int) -> None:
        rng = random.Random(k)
        vol.mkdir(f"/{k}")
        for i in range(100):
            vol.write_bytes(f"/{k}/{i}", bytes([k]) * rng.randrange(3000))
            if i % 10 == 0:
                vol.sync()
        for i in range(100):
            assert set(vol.read_bytes(f"/{k}/{i}")) <= {k}

    run_all([lambda v=v, k=k: work(v, k) for k, v in enumerate(vols * 2)])  # type: ignore[misc]
    for i, vol in enumerate(vols):
        assert vol.label == f"P{i}"
        vol.close()
        raw = EXFAT.read(device.pread(SIZE, i * SIZE))
        assert raw.violations == []
        assert len(raw.tree) == 203
    for part in slices:
        part.close()
    device.close()


class SlowFile(io.BytesIO):
    """A file object of Python that lets other threads run in the middle of a call."""

    def read(self, n: int | None = -1, /) -> bytes:
        """As usual, after a pause."""
        time.sleep(0)
        return super().read(n)

    def write(self, data: Any, /) -> int:
        """As usual, after a pause."""
        time.sleep(0)
        return super().write(data)


def test_device_made_of_a_python_file() -> None:
    """The volume's lock and the interpreter's never wait for each other."""
    file = SlowFile(bytes(SIZE))
    vol = px.format(px.Device.wrap(file), cluster_size=1024)
    vol.mkdir("/d")
    vol.touch("/keep")

    def end() -> None:
        time.sleep(0.3)
        vol.close()

    run_all([busy(vol, k) for k in range(4)], end)
    assert EXFAT.read(file.getvalue()).violations == []


@each_driver
def test_handles_dropped_in_other_threads(driver: Driver) -> None:
    """The last reference of a file may go anywhere, also while the volume is busy."""
    with memory(driver) as device:
        vol = new_volume(device, driver)
        for k in range(4):
            vol.touch(f"/{k}")

        def work(k: int) -> None:
            for i in range(200):
                handle = vol.open_file(f"/{k}", 3)
                handle.pwrite(b"x", i)
                del handle
                vol.unlink(f"/{k}")
                vol.touch(f"/{k}")

        run_all([lambda k=k: work(k) for k in range(4)])  # type: ignore[misc]
        vol.close()
        assert read(driver, device).violations == []
