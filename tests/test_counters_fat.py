"""What growing, reading and directories may cost on FAT, by counters: no clock is asked.

Worked out from the format: a sector of 512 bytes holds 128 entries of FAT32, there are two copies,
cluster 2 is the root's, and a file's clusters follow each other from 3 on in an empty volume.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pyexfat as px
from pyexfat import Device, _core
from pyexfat.bench import fat, published, seeds
from pyexfat.bench.workloads import Stage, difference, env
from pyexfat.sizes import parse_size

if TYPE_CHECKING:
    from typing_extensions import Buffer

CASES = tuple(published.PREALLOCATE)
SYNCED = [case for case in CASES if case[-1]]
LAZY = [case for case in CASES if not case[-1]]
OPEN = _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE
PER_SECTOR, COPIES, SECTOR = 128, 2, 512
MIB = 1 << 20


@cache
def grown(case: seeds.Growth, column: str) -> dict[str, int]:
    """Counters of one row of table 3, with the sync at its end."""
    *_, sample = seeds.growth([case])(Stage(), seeds.make_tables()[3].columns[column])
    return sample.counters


def clusters(case: seeds.Growth) -> int:
    """Of one file."""
    return parse_size(case[2], "length") // case[1]


def name(case: seeds.Growth) -> str:
    return seeds.growth_name(case).replace(" ", "")


# ---- growing ----


@pytest.mark.parametrize("case", SYNCED, ids=name)
def test_synced_growth_is_three_flushes_at_most(case: seeds.Growth) -> None:
    counters = grown(case, "ours")
    assert counters["clusters_allocated"] == case[0] * clusters(case)
    assert case[0] <= counters["device_flushes"] <= 3 * case[0]
    # Each copy of the FAT in one write, and the entry.
    assert counters["fat_writes"] == COPIES * case[0]
    assert counters["device_writes"] == (COPIES + 1) * case[0]


@pytest.mark.parametrize("case", SYNCED, ids=name)
def test_synced_growth_writes_as_few_fat_sectors_as_there_are(case: seeds.Growth) -> None:
    least = case[0] * -(-clusters(case) // PER_SECTOR) * COPIES * SECTOR
    assert grown(case, "ours")["fat_bytes"] == least


@pytest.mark.parametrize("case", SYNCED, ids=name)
def test_cluster_by_cluster_each_is_flushed(case: seeds.Growth) -> None:
    before, ours = grown(case, "before"), grown(case, "ours")
    all_clusters = case[0] * clusters(case)
    assert before["clusters_allocated"] == all_clusters
    # Marked as the end, and linked to: all but each file's first.
    steps = 2 * all_clusters - case[0]
    assert steps <= before["device_flushes"] <= steps + 3 * case[0]
    assert before["fat_writes"] >= COPIES * all_clusters
    assert before["device_flushes"] >= 100 * ours["device_flushes"]
    assert before["fat_bytes"] >= 60 * ours["fat_bytes"]


@pytest.mark.parametrize("case", LAZY, ids=name)
def test_lazy_growth_writes_as_few_fat_sectors_as_there_are(case: seeds.Growth) -> None:
    counters = grown(case, "ours")
    entries = case[0] * clusters(case)
    least = -(-entries // PER_SECTOR) * COPIES * SECTOR
    assert least <= counters["fat_bytes"] <= 1.05 * least
    assert counters["fat_entries_written"] == entries
    # Neighbours go in one write: 1 MiB or more each, but for what is left.
    assert counters["fat_writes"] <= 2 * COPIES + least // (512 << 10)
    assert counters["device_flushes"] <= 2
    # The active FAT for its map and, where files end within blocks, the mirror, 128 KiB at a time.
    assert counters["device_reads"] <= least // (128 << 10) + 16


@pytest.mark.parametrize("case", [case for case in LAZY if case[1:3] != (512, "256 MiB")], ids=name)
def test_cluster_by_cluster_links_twice(case: seeds.Growth) -> None:
    before, ours = grown(case, "before"), grown(case, "ours")
    assert before["fat_entries_written"] >= 1.9 * ours["fat_entries_written"]
    assert before["fat_writes"] >= ours["fat_writes"]
    assert before["hits"] >= 4 * ours["hits"]  # of blocks in the cache


def test_more_than_the_cache_holds_is_written_fewer_times() -> None:
    # 64 MiB of FATs under a budget of 64 MiB.
    case = (16, 512, "256 MiB", "ftruncate", False)
    before, ours = grown(case, "before"), grown(case, "ours")
    assert ours["fat_writes"] < before["fat_writes"]
    assert ours["fat_bytes"] < before["fat_bytes"]
    # One FAT is read, 128 KiB at a time; its mirror is written without having been read.
    assert ours["bytes_read"] <= 1.01 * (32 << 20)
    assert ours["device_reads"] <= 1.1 * 256


def test_the_first_growth_of_a_clean_volume_marks_it_and_has_three_flushes() -> None:
    device = Device.memory(64 * MIB)
    with px.format(device, "fat32", cluster_size=512, env=env()) as volume:
        volume.touch("/a")
    with (
        px.open(device, "r+", sync="sync", env=env()) as volume,
        closing(volume.open_file("/a", OPEN)) as file,
    ):
        before = volume.get_counters()
        file.resize(MIB)
        counters = difference(volume.get_counters(), before)
    assert counters["device_flushes"] == 3  # mark, clusters, entry
    # The sector of FAT[1] in each copy is the marks' own.
    assert counters["fat_bytes"] == (2048 // PER_SECTOR + 1) * COPIES * SECTOR
    assert counters["fat_writes"] == 2 * COPIES


def test_growing_again_goes_on_at_the_end_without_walking_there() -> None:
    with (
        Stage().volume(
            size=256 * MIB, cluster_size=512, policy=px.Policy(), fs="fat32", sync="sync"
        ) as volume,
        closing(volume.open_file("/a", OPEN)) as file,
    ):
        file.resize(16 * MIB)
        for size in range(17 * MIB, 32 * MIB, MIB):
            before = volume.get_counters()
            file.resize(size)
            counters = difference(volume.get_counters(), before)
            assert counters["fat_entries_read"] in (0, 32768)  # a part of the map
            assert counters["device_flushes"] <= 3
            # The last entry of before, which ends a sector, and the new ones.
            assert counters["fat_bytes"] == (2048 // PER_SECTOR + 1) * COPIES * SECTOR


# ---- zeros ----


def growth_on(device: Device, length: int) -> dict[str, int]:
    px.format(device, "fat32", cluster_size=512, env=env()).close()
    with px.open(device, "r+", env=env()) as volume:
        with closing(volume.open_file("/a", OPEN)) as file:
            before = volume.get_counters()
            file.resize(length)
            volume.sync()
            counters = difference(volume.get_counters(), before)
        assert volume.read_bytes("/a") == bytes(length)
    return counters


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_zeros_are_not_written_where_holes_are_zeros(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "sparse.img"
    with open(path, "wb") as file:
        file.truncate(64 * MIB)
    length = 16 * MIB
    with Device.memory(64 * MIB) if kind == "memory" else Device.file(path, True) as device:
        counters = growth_on(device, length)
        assert counters["bytes_zeroed"] == length
        # The FATs, the marks and the entry.
        assert counters["bytes_written"] <= 1.05 * length // 512 * 4 * COPIES + 16 * SECTOR
        if kind == "memory":
            assert device.held < 2 * MIB
    if kind == "file":
        assert path.stat().st_blocks * 512 < 2 * MIB


class Counting(io.BytesIO):
    """Remembers its writes."""

    def __init__(self, size: int) -> None:
        super().__init__(bytes(size))
        self.writes: list[tuple[int, int]] = []

    def write(self, data: Buffer, /) -> int:
        self.writes.append((self.tell(), memoryview(data).nbytes))
        return super().write(data)


def test_elsewhere_zeros_are_one_operation_in_large_writes() -> None:
    below = Counting(48 * MIB)
    length = 4 * MIB
    with Device.wrap(below, True, 48 * MIB) as device:
        counters = growth_on(device, length)
    assert counters["bytes_zeroed"] == 0
    assert length <= counters["bytes_written"] <= length + MIB // 4
    assert counters["device_writes"] - counters["fat_writes"] <= 6  # zeros, marks, entry
    # Down below a mebibyte at a time.
    assert [size for _, size in below.writes].count(MIB) == length // MIB
    assert len(below.writes) <= 200


def test_zeros_are_one_operation_for_each_run() -> None:
    runs, piece = 5, 256 << 10
    device = Device.wrap(Counting(48 * MIB), True, 48 * MIB)
    px.format(device, "fat32", cluster_size=512, env=env()).close()
    with px.open(device, "r+", env=env()) as volume:
        for n in range(2 * runs):
            with closing(volume.open_file(f"/{n}", OPEN)) as file:
                file.resize(piece)
        with closing(volume.open_file("/rest", OPEN)) as file:
            file.resize(volume.statfs().free)
        for n in range(0, 2 * runs, 2):
            volume.unlink(f"/{n}")
        volume.sync()
        with closing(volume.open_file("/a", OPEN)) as file:
            before = volume.get_counters()["cache"]["writes_by_structure"]["zeros"]
            file.resize(runs * piece)
            volume.sync()
            after = volume.get_counters()["cache"]["writes_by_structure"]["zeros"]
        assert len(volume.extents("/a")) == runs
        assert after - before == runs


# ---- appends ----


def near(one: float, other: float) -> bool:
    """Within a tenth, or a few where they are that few."""
    return abs(one - other) <= max(0.1 * max(one, other), 2)


@pytest.mark.parametrize("cluster", [512, 4096])
def test_appends_cost_the_same_at_the_end(cluster: int) -> None:
    parts = fat.appends(64 * MIB, cluster=cluster)
    first, last = parts[0], parts[-1]
    for key in ("fat_entries_written", "misses", "device_writes", "bytes_written",
                "clusters_allocated", "free_words_scanned"):  # fmt: skip
        assert near(first.counters[key], last.counters[key]), key
    each = 4096 // cluster
    for number, part in enumerate(parts):
        # Linked to what was there (one entry more), and never walked: what is read is the map of
        # free clusters, once for each 32,768.
        assert part.counters["fat_entries_written"] <= part.calls * (each + 1)
        maps = part.counters["fat_entries_read"] / 32768
        assert maps == int(maps) <= part.calls * each / 32768 + 1, number
        assert part.counters["misses"] <= part.calls // 50
        assert part.counters["bytes_written"] <= 1.1 * part.calls * 4096


# ---- pieces ----


def test_reads_at_random_do_not_walk() -> None:
    pieces, length = 5000, 16 * MIB
    with fat.fragmented(pieces, length) as volume:
        first, quarters = fat.random_reads(volume, reads=10, length=MIB // 4)
    with fat.fragmented(pieces, length) as volume:
        assert len(volume.extents("/a")) == pieces
        all_clusters = volume.stat("/a").st_size // 512
    # The first is at the end of the file: all of it is mapped, each entry read once.
    assert first.counters["fat_entries_read"] == all_clusters - 1
    # What follows is read as well: 128 KiB at a time, not a block of 4 KiB.
    assert first.counters["misses"] <= 5
    for quarter in quarters:
        assert quarter.counters["fat_entries_read"] == 0
        assert quarter.counters["device_reads"] <= 1.25 * quarters[0].counters["device_reads"]


# ---- directories ----


@cache
def among(files: int, entries: int) -> dict[str, tuple[float, float]]:
    """Entries visited and cache misses of a call, by step."""
    long_name = "directory entry {}.text"
    namer: Callable[[int], str] = str if entries == 1 else long_name.format
    samples = fat.directory(files, 500, namer)
    return {
        step: (one.counters["entries_visited"] / one.files, one.counters["misses"] / one.files)
        for step, one in samples.items()
    }


@pytest.mark.parametrize("entries", [1, 3])
@pytest.mark.parametrize("step", ["create", "hit", "miss", "delete", "create in holes"])
def test_directory_work_does_not_grow(step: str, entries: int) -> None:
    (few, _), (many, misses) = (among(files // entries, entries)[step] for files in (6000, 60_000))
    assert many <= 1.25 * few
    # Of its own entries, and at times of its neighbours'.
    assert many <= {"create": 1.1, "hit": 1, "miss": 0, "delete": 2, "create in holes": 1.5}[
        step
    ] * entries + 0.5 * (step != "miss")
    assert misses <= 1
