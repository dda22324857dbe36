"""How files grow on FAT: where their clusters lie, when zeros are written, what a failure leaves.

Expected counts are worked out from the format: a sector of 512 bytes holds 128 entries of FAT32 and
256 of FAT16, and there are two copies.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from model.drivers import DRIVERS, EXFAT, FAT12, FAT16, FAT32, FAT_DRIVERS, Driver

import pyexfat as px
from pyexfat import Device, Volume, _core
from pyexfat.bench.workloads import difference

if TYPE_CHECKING:
    from typing_extensions import Buffer

MIB = 1 << 20
OPEN = _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE
PER_SECTOR = {"fat16": 256, "fat32": 128}
COPIES, SECTOR = 2, 512
STALE = 0xA5


@contextmanager
def opened(device: Device, driver: Driver, **options: Any) -> Iterator[Volume]:
    with px.open(device, "r+", **driver.open_options(0), **options) as volume:
        yield volume


def stale_device(size: int) -> Device:
    """Memory that holds something everywhere."""
    device = Device.memory(size)
    device.pwrite(bytes([STALE]) * size, 0)
    return device


def formatted(device: Device, driver: Driver) -> Device:
    _, options = driver.small(size=device.size)
    px.format(device, driver.name, **options).close()
    return device


# ---- where ----


@pytest.mark.parametrize("count", [1, 5, 100, 127, 128, 129, 255, 256, 300, 2048, 2560, 2561])
@pytest.mark.parametrize("driver", [FAT16, FAT32], ids=str)
def test_a_synced_file_begins_where_its_entries_lie_in_the_fewest_sectors(
    driver: Driver, count: int
) -> None:
    per_sector = PER_SECTOR[driver.name]
    with (
        formatted(Device.memory(4 * MIB), driver) as device,
        opened(device, driver, sync="sync") as volume,
    ):
        for used in (1, 3, 50, 77):  # whatever was taken before
            volume.write_bytes(f"/before{used}", bytes(used * 512))
            volume.touch("/a")
            with closing(volume.open_file("/a", OPEN)) as file:
                before = volume.get_counters()
                file.resize(count * 512)
                counters = difference(volume.get_counters(), before)
            assert counters["fat_entries_written"] == count
            assert counters["fat_bytes"] == -(-count // per_sector) * COPIES * SECTOR
            assert counters["fat_writes"] == COPIES
            assert counters["device_flushes"] == 2
            assert len(volume.extents("/a")) == 1
            volume.unlink("/a")


def test_what_was_passed_over_is_for_the_next_that_fits() -> None:
    with (
        formatted(Device.memory(4 * MIB), FAT32) as device,
        opened(device, FAT32, sync="sync") as volume,
    ):
        # The root has cluster 2; 3 to 127 are passed over, 125 clusters.
        volume.write_bytes("/sector", bytes(128 * 512))
        assert volume.stat("/sector").first_cluster == 128
        volume.write_bytes("/one", b"1")
        assert volume.stat("/one").first_cluster == 3
        volume.write_bytes("/rest", bytes(124 * 512))
        assert volume.stat("/rest").first_cluster == 4
        volume.write_bytes("/next", b"1")
        assert volume.stat("/next").first_cluster == 256
        # A file goes on where it ends, whatever that is within a sector.
        with volume.open("/next", "ab") as file:
            file.write(bytes(128 * 512))
        assert volume.stat("/next").first_cluster == 256
        assert len(volume.extents("/next")) == 1


@pytest.mark.parametrize("sync", ["lazy", "dirsync"])
def test_nothing_is_passed_over_where_sectors_are_shared_by_a_sync(sync: str) -> None:
    with (
        formatted(Device.memory(4 * MIB), FAT32) as device,
        opened(device, FAT32, sync=sync) as volume,
    ):
        volume.write_bytes("/sector", bytes(128 * 512))
        assert volume.stat("/sector").first_cluster == 3


@pytest.mark.parametrize("driver", [FAT16, FAT32], ids=str)
def test_a_full_volume_passes_over_nothing(driver: Driver) -> None:
    per_sector = PER_SECTOR[driver.name]
    with (
        formatted(Device.memory(4 * MIB), driver) as device,
        opened(device, driver, sync="sync") as volume,
    ):
        total = volume.usage().free_clusters
        volume.touch("/a")
        volume.truncate("/a", total * 512)  # all there is, in one piece
        assert volume.usage().free_clusters == 0
        assert len(volume.extents("/a")) == 1
        # A gap of one sector's worth that does not begin with a sector.
        volume.truncate("/a", (total - per_sector - 10) * 512)
        volume.write_bytes("/b", b"1" * 512 * 10)
        volume.write_bytes("/c", b"2" * 512 * per_sector)
        assert volume.usage().free_clusters == 0
        assert len(volume.extents("/c")) == 1
        assert volume.read_bytes("/c") == b"2" * 512 * per_sector


def test_a_full_volume_is_searched_by_words_and_the_fat_is_read_once() -> None:
    device = formatted(Device.memory(96 * MIB), FAT32)
    with opened(device, FAT32) as volume:
        volume.write_bytes("/first", b"1")
        volume.touch("/full")
        volume.fallocate("/full", 0, volume.usage().free - 512)
        volume.write_bytes("/last", b"1")
        assert volume.usage().free_clusters == 0
    with opened(device, FAT32) as volume:
        clusters = volume.usage().clusters
        volume.unlink("/first")
        volume.unlink("/last")
        volume.sync()
        scanned = []
        for n in range(20):
            before = volume.get_counters()
            volume.write_bytes("/two", b"2" * 1024)  # all of it is looked at for two in a row
            volume.unlink("/two")
            volume.sync()
            counters = difference(volume.get_counters(), before)
            scanned.append(counters["free_words_scanned"])
            # The map is made from the FAT once; and the chain of two is walked.
            assert counters["fat_entries_read"] <= (clusters if n == 0 else 0) + 4
            assert counters["misses"] <= (clusters * 4 // 4096 if n == 0 else 4)
        # From where FSInfo has it, and as that was not enough, from the start.
        assert scanned[0] <= 2 * clusters // 64 + 16
        # By then it is known which parts of 32,768 clusters have nothing: two searches, one for
        # each piece, look at the first part and at the last.
        assert max(scanned[1:]) <= 2 * 2 * (32768 // 64) + 16


@pytest.mark.parametrize("fats", [2, 3])
@pytest.mark.parametrize("reserved", [33, 34, 37])
def test_mirrors_are_alike_wherever_they_lie_in_blocks(fats: int, reserved: int) -> None:
    device = Device.memory(6 * MIB)
    options = {"cluster_size": 512, "tz": "utc", "fats": fats, "alignment": 512}
    px.format(device, "fat32", fat={"reserved_sectors": reserved}, **options).close()
    with opened(device, FAT32) as volume:
        for name, count in (("/a", 3000), ("/b", 700), ("/c", 4100)):
            volume.touch(name)
            volume.fallocate(name, 0, count * 512)
        volume.unlink("/b")
        volume.sync()
        volume.write_bytes("/d", b"d" * 512 * 600)
    raw = FAT32.read(device.pread(device.size, 0))
    assert raw.violations == []
    length = raw.fat_at[1] - raw.fat_at[0]
    copies = {device.pread(length, at) for at in raw.fat_at}
    assert len(raw.fat_at) == fats
    assert len(copies) == 1
    assert len(raw.tree["/c"].clusters) == 4100


def test_a_chain_of_exfat_in_pieces_grows_in_one_pass_too() -> None:
    with (
        formatted(Device.memory(4 * MIB), EXFAT) as device,
        opened(device, EXFAT, sync="sync") as volume,
    ):
        volume.write_bytes("/a", b"1" * 512)
        volume.write_bytes("/b", b"1")  # where /a would go on
        for size in (2001 * 512, 4001 * 512):
            with closing(volume.open_file("/a", OPEN)) as file:
                before = volume.get_counters()
                file.resize(size)
                counters = difference(volume.get_counters(), before)
            assert counters["clusters_allocated"] == 2000
            # The new ones, the one they hang on, and the first that did without at first.
            assert 2001 <= counters["fat_entries_written"] <= 2002
            assert counters["fat_bytes"] <= (2000 // 128 + 2) * SECTOR
            assert counters["fat_writes"] <= 2
            assert counters["device_flushes"] == 2
        assert not volume.stat("/a").contiguous
        assert len(volume.extents("/a")) <= 3  # the last of these is what was never written


# ---- zeros ----


class Written(io.BytesIO):
    """A device below that can only be written to: zeros cost what they weigh. Full of STALE."""

    def __init__(self, size: int) -> None:
        super().__init__(bytes([STALE]) * size)
        self.count = 0

    def write(self, data: Buffer, /) -> int:
        self.count += memoryview(data).nbytes
        return super().write(data)


def plain_device(driver: Driver, size: int = 4 * MIB) -> tuple[Device, Written]:
    below = Written(size)
    device = formatted(Device.wrap(below, True, size), driver)
    return device, below


LITTLE = 64 << 10  # of FAT, marks and entries
LENGTH = MIB


def grow(volume: Volume, call: str) -> _core.Handle:
    file = volume.open_file("/a", OPEN)
    if call == "truncate":
        file.resize(LENGTH)
    else:
        file.allocate(0, LENGTH)
    assert file.size() == LENGTH
    assert file.pread(LENGTH, 0) == bytes(LENGTH)
    return file


CALLS = pytest.mark.parametrize("call", ["truncate", "fallocate"])
ON_FAT = pytest.mark.parametrize("driver", FAT_DRIVERS, ids=str)


@CALLS
@ON_FAT
@pytest.mark.parametrize("sync", ["lazy", "dirsync"])
def test_what_is_written_after_a_growth_is_written_once(
    driver: Driver, call: str, sync: str
) -> None:
    device, below = plain_device(driver)
    data = bytes(range(1, 256)) * (LENGTH // 255 + 1)
    with device:
        with opened(device, driver, sync=sync) as volume:
            with closing(grow(volume, call)) as file:
                start = below.count
                for at in range(0, LENGTH, 50_000):
                    file.pwrite(data[at : min(at + 50_000, LENGTH)], at)
                assert below.count - start <= LENGTH + LITTLE
            volume.sync()
            assert below.count - start <= LENGTH + LITTLE
            assert volume.read_bytes("/a") == data[:LENGTH]
        assert driver.read(device.pread(device.size, 0)).tree["/a"].data == data[:LENGTH]


@CALLS
@ON_FAT
def test_zeros_for_what_nobody_wrote_come_with_the_entry(driver: Driver, call: str) -> None:
    endings: dict[str, Callable[[Volume, _core.Handle], object]] = {
        "sync": lambda volume, _: volume.sync(),
        "fsync": lambda _, file: file.sync(),
        "close": lambda _, file: file.close(),
        "rename": lambda volume, _: volume.rename("/a", "/b"),
        "move": lambda volume, _: volume.rename("/a", "/d/a"),
        "times": lambda volume, _: volume.utime("/a", ns=(0, 0)),
        "to sync mode": lambda volume, _: volume.set_sync("sync"),
    }
    for what, end in endings.items():
        device, below = plain_device(driver)
        with device, opened(device, driver) as volume:
            volume.mkdir("/d")
            volume.sync()
            start = below.count
            file = grow(volume, call)
            assert below.count - start <= LITTLE, what
            file.pwrite(b"middle", LENGTH // 2)  # half of it is before that
            assert LENGTH // 2 <= below.count - start <= LENGTH // 2 + LITTLE, what
            end(volume, file)
            assert LENGTH - 4096 <= below.count - start <= LENGTH + LITTLE, what
            file.close()
            volume.close()
            tree = driver.read(device.pread(device.size, 0)).tree
            (found,) = (tree[path] for path in ("/a", "/b", "/d/a") if path in tree)
            assert found.data == bytes(LENGTH // 2) + b"middle".ljust(LENGTH // 2, b"\0"), what


@CALLS
@ON_FAT
def test_zeros_that_nobody_will_read_are_not_written(driver: Driver, call: str) -> None:
    device, below = plain_device(driver)
    with device, opened(device, driver) as volume:
        volume.touch("/a")
        volume.sync()
        start = below.count
        with closing(grow(volume, call)) as file:
            file.resize(1000)
        with closing(grow(volume, call)) as file:
            volume.unlink("/a")
        volume.sync()
        assert below.count - start <= 2 * LITTLE


@CALLS
@ON_FAT
def test_in_sync_mode_zeros_are_there_when_the_call_returns(driver: Driver, call: str) -> None:
    device, below = plain_device(driver)
    with device, opened(device, driver, sync="sync") as volume, closing(grow(volume, call)):
        found = driver.read(below.getvalue()).tree["/a"]
        assert found.data == bytes(LENGTH)


@pytest.mark.parametrize("driver", FAT_DRIVERS, ids=str)
@pytest.mark.parametrize("budget", [64 << 20, 0])
def test_zeros_of_files_that_memory_has_no_room_for(driver: Driver, budget: int) -> None:
    """Nodes that are dropped take their zeros with them to the device, not into oblivion."""
    device = formatted(stale_device(4 * MIB), driver)
    with device:
        with opened(device, driver, policy={"memory_budget": budget}) as volume:
            volume.create_many("/", [str(n) for n in range(60)])
            for n in range(60):
                volume.truncate(f"/{n}", 7000 + n)
            for n in range(0, 60, 2):
                with volume.open(f"/{n}", "r+b") as file:
                    file.seek(3000)
                    file.write(b"here")
            for n in range(60):
                data = volume.read_bytes(f"/{n}")
                assert data == (bytes(3000) + b"here" * (n % 2 == 0)).ljust(7000 + n, b"\0")
        tree = driver.read(device.pread(device.size, 0)).tree
        for n in range(60):
            data = tree[f"/{n}"].data
            assert data == (bytes(3000) + b"here" * (n % 2 == 0)).ljust(7000 + n, b"\0")


# ---- failures ----

BEFORE, AFTER = 700, 9000
GROWTHS: dict[str, Callable[[_core.Handle], object]] = {
    "truncate": lambda file: file.resize(AFTER),
    "fallocate": lambda file: file.allocate(0, AFTER),
    "keep_size": lambda file: file.allocate(0, AFTER, True),
    "write": lambda file: file.pwrite(b"w" * (AFTER - BEFORE), BEFORE),
    "write far": lambda file: file.pwrite(b"w" * 100, AFTER - 100),
}


def in_pieces(driver: Driver) -> Device:
    """/a of two clusters, and what is free lies in pieces of one cluster, full of STALE."""
    size, _ = driver.small()
    device = formatted(stale_device(size), driver)
    with opened(device, driver) as volume:
        cluster = volume.cluster_size
        volume.write_bytes("/a", b"a" * BEFORE)
        volume.create_many("/", [str(n) for n in range(40)])
        for n in range(40):
            volume.write_bytes(f"/{n}", b"f" * cluster)
        volume.touch("/rest")
        volume.fallocate("/rest", 0, volume.usage().free)
        for n in range(0, 40, 2):
            volume.unlink(f"/{n}")
    return device


def state(volume: Volume, file: _core.Handle) -> tuple[int, int, int, int]:
    found = file.stat()
    return found.st_size, found.allocated, found.valid_size, volume.usage().free_clusters


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("sync", ["lazy", "sync"])
@pytest.mark.parametrize("op", ["read", "write", "flush"])
@pytest.mark.parametrize(
    ("driver", "preallocate"),
    [(driver, True) for driver in DRIVERS] + [(d, False) for d in DRIVERS if d is not EXFAT],
    ids=str,
)
def test_a_growth_that_fails_leaves_size_and_space(
    driver: Driver, op: Any, sync: str, growth: str, preallocate: bool
) -> None:
    """At every operation. Only what fails when the entry is on its way, as the last of all, leaves
    the new size, for the next sync to write again.
    """
    policy = {"preallocate": preallocate}
    with in_pieces(driver) as base:
        ops = 0  # of a call that succeeds
        for n in range(1000):
            with base.branch() as device, device.faults() as faults:
                with opened(faults, driver, sync=sync, policy=policy) as volume:
                    file = volume.open_file("/a", OPEN)
                    volume.usage()
                    before, done = state(volume, file), faults.count(op)
                    if n > 0:
                        faults.add(op, nth=done + n)
                    failed = fails(GROWTHS[growth], file)
                    assert not (failed and n == 0)
                    ops = ops or faults.count(op) - done
                    faults.clear()
                    entry = sync == "sync" and op != "read" and growth != "keep_size" and n == ops
                    if failed and not entry:
                        assert state(volume, file) == before
                        assert not fails(GROWTHS[growth], file)
                    assert file.size() == (BEFORE if growth == "keep_size" else AFTER)
                    file.close()
                check(driver, device, growth, failed)
            if n == ops:
                break
        assert n == ops
        if sync == "sync" and op != "read":
            assert ops >= (2 if growth == "keep_size" else 3)  # mark, clusters, entry


def fails(call: Callable[[_core.Handle], object], file: _core.Handle) -> bool:
    try:
        call(file)
    except OSError:
        return True
    return False


def check(driver: Driver, device: Device, growth: str, failed: bool) -> None:
    raw = driver.read(device.pread(device.size, 0))
    # What only a clean volume must have right; no cluster is nobody's, and no chain too long.
    allowed = driver.unclean | {"hard error"}
    assert raw.kinds() <= (allowed if failed else set())
    data = raw.tree["/a"].data
    expected = {
        "keep_size": b"a" * BEFORE,
        "write": b"a" * BEFORE + b"w" * (AFTER - BEFORE),
        "write far": (b"a" * BEFORE).ljust(AFTER - 100, b"\0") + b"w" * 100,
    }.get(growth, (b"a" * BEFORE).ljust(AFTER, b"\0"))
    assert data == expected
    assert all(set(raw.tree[f"/{n}"].data) == {ord("f")} for n in range(1, 40, 2))


@pytest.mark.parametrize("driver", [FAT12, FAT16, FAT32], ids=str)
def test_a_failure_of_late_zeros_is_told_and_made_up_for(driver: Driver) -> None:
    """They can't be written at the sync: it says so, nothing stale is led to, and the next does."""
    size, _ = driver.small()
    base = formatted(stale_device(size), driver)
    with base, base.faults() as faults, opened(faults, driver) as volume:
        file = volume.open_file("/a", OPEN)
        volume.sync()
        file.resize(AFTER)
        faults.add("write", structure="zeros")
        with pytest.raises(OSError, match="Input/output"):
            volume.sync()
        cut = driver.read(base.pread(size, 0))
        assert STALE not in cut.tree["/a"].data
        assert file.size() == AFTER
        assert file.pread(AFTER, 0) == bytes(AFTER)
        faults.clear()
        volume.sync()
        assert driver.read(base.pread(size, 0)).tree["/a"].data == bytes(AFTER)
        file.close()
