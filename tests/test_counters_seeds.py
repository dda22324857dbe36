"""What the mechanisms must save, by counters: they are exact, so no clock is asked.

Numbers of entries and sectors are worked out from the format: a set has 2 + ceil(length / 15)
entries of 32 bytes, a sector 16, a cluster of 32 KiB 1,024.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import pyexfat as px
from pyexfat.bench import published, scale, seeds
from pyexfat.bench.workloads import Sample, Stage, difference, env

LENGTHS = (15, 120, 255)


@cache
def table(number: int, column: str) -> dict[str, Sample]:
    """The work of a table once, in one column."""
    one = seeds.make_tables()[number]
    return {sample.name: sample for sample in one.work(Stage(), one.columns[column])}


def entries(length: int) -> int:
    return 2 + -(-length // 15)


def places(length: int, files: int) -> list[int]:
    """First entries of sets of this length made one after the other, and the end of them all.

    No set begins with the last entry of a sector (of 16): its File entry and its Stream Extension
    would be in two sectors, and a power cut could come between them.
    """
    starts, at = [], 0
    for _ in range(files):
        starts.append(at)
        at += entries(length)
        at += at % 16 == 15
    return [*starts, at]


def sectors_touched(length: int, files: int = 1000) -> int:
    """Sectors that sets of this length touch when they lie one behind the other."""
    n = entries(length)
    return sum((at + n - 1) // 16 - at // 16 + 1 for at in places(length, files)[:-1])


# ---- table 1 ----


def test_a_create_visits_at_most_four_entries_in_every_batch() -> None:
    batches = list(table(1, "ours").values())
    assert [batch.name for batch in batches] == list(published.EMPTY_SLOTS)
    for batch in batches:
        assert batch.counters["entries_visited"] <= 4 * 1000
    assert batches[4].counters["entries_visited"] <= batches[0].counters["entries_visited"]


def test_walking_for_each_create_costs_more_with_each_batch() -> None:
    # Before: a walk to look the name up and one for room. After: the first remembers the room.
    before, after = (list(table(1, column).values()) for column in ("before", "after"))
    for number, (walks, hinted) in enumerate(zip(before, after, strict=True)):
        middle = places(5, 1000 * number + 500)[-1]  # entries half way through the batch
        assert walks.counters["entries_visited"] / 1000 == pytest.approx(2 * middle, rel=0.01)
        assert hinted.counters["entries_visited"] / 1000 == pytest.approx(middle, rel=0.01)


# ---- table 2 ----


def test_sectors_that_sets_touch() -> None:
    # 5 sets of 3 entries lie in each sector, and its last entry is passed over.
    assert sectors_touched(15) == 1000
    # No more than sets that lie without a gap: 562, 750 and 1062 KiB.
    for length, gapless in zip(LENGTHS, (562, 750, 1062), strict=True):
        assert sectors_touched(length) / 2 <= gapless


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("call", ["create", "unlink"])
@pytest.mark.parametrize("column", ["after", "ours"])
def test_lazily_little_more_than_the_entries_is_written(
    column: str, call: str, length: int
) -> None:
    sample = table(2, column)[f"{call} {length} lazy"]
    of_entries = 1000 * entries(length) * 32
    assert of_entries <= sample.counters["bytes_written"] <= 1.1 * of_entries + 32768
    assert sample.counters["device_flushes"] <= 2


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("call", ["create", "unlink"])
@pytest.mark.parametrize("column", ["after", "ours"])
def test_by_sets_each_change_is_one_write_and_one_flush(
    column: str, call: str, length: int
) -> None:
    counters = table(2, column)[f"{call} {length} dirsync"].counters
    touched = sectors_touched(length) * 512
    assert touched <= counters["bytes_written"] <= 1.05 * touched
    written = published.ENTRY_SETS["dirsync", length, call].written
    assert written is not None
    assert written.after is not None
    assert counters["bytes_written"] <= 1.01 * 1024 * written.after
    # Growing is a flush of its own; and the sync at the end writes the directory's time.
    assert counters["device_flushes"] == 1000 + counters["clusters_allocated"] + 1


@pytest.mark.parametrize("length", LENGTHS)
def test_by_entries_at_least_what_was_published_is_written(length: int) -> None:
    rows = table(2, "before")
    create = rows[f"create {length} dirsync"].counters
    unlink = rows[f"unlink {length} dirsync"].counters
    n = entries(length)
    grown = create["clusters_allocated"]
    # File and stream entry twice, the names once, the checksum, and the directory twice; a new
    # cluster is written with zeros.
    assert create["bytes_written"] >= 1000 * (n + 2 + 1 + 2) * 512 + grown * 32768
    # Every entry, and the directory.
    assert unlink["bytes_written"] >= 1000 * (n + 1) * 512
    assert unlink["device_flushes"] >= 1000 * (n + 1)
    for call, counters in (("create", create), ("unlink", unlink)):
        written = published.ENTRY_SETS["dirsync", length, call].written
        assert written is not None
        assert written.before is not None
        # Of 10,004 KiB published for unlinks of 255 units, 20 sectors a file are 10,000; the rest
        # is no entry.
        missing = 4 if (length, call) == (255, "unlink") else 0
        assert counters["bytes_written"] >= (written.before - missing) * 1024


# ---- table 5 ----


def all_off(files: int) -> int:
    """Entries that making ``files`` visits with all mechanisms off."""
    with Stage().volume(size=1 << 30, cluster_size=32768, policy=px.Policy.before()) as volume:
        volume.mkdir("/d")
        before = volume.get_counters()
        for n in range(files):
            volume.touch(f"/d/{n:05d}")
        return difference(volume.get_counters(), before)["entries_visited"]


def two_walks(files: int) -> int:
    """Entries of two walks to the end for each create, and 5 looked at to use them."""
    return sum(2 * (at + 1) + 5 for at in places(5, files)[:-1])


@pytest.mark.parametrize("files", [250, 500, 1000])
def test_all_off_two_walks_for_each_create(files: int) -> None:
    # And a little for the directory's own name.
    assert 0 <= all_off(files) - two_walks(files) <= 20


def test_twenty_thousand_files_visit_a_thousandth() -> None:
    files = 20_000
    before = two_walks(files)  # which the test above has checked
    ours = table(5, "ours")[f"{files} files"].counters["entries_visited"]
    assert ours <= 4 * files
    assert before / ours >= 1000
    # The mechanisms as published still walk for false positives and when the filter is made anew.
    after = table(5, "after")[f"{files} files"].counters
    assert before / after["entries_visited"] >= 20
    assert after["index_builds"] == 0
    assert after["filter_rejects"] >= 0.95 * files


# ---- the filter ----


def test_the_filter_is_as_good_as_its_fill_and_as_small_as_promised() -> None:
    files = 100_000
    device = px.Device.memory(1 << 30)
    px.format(device, cluster_size=32768, env=env()).close()
    with px.open(device, "r+", env=env()) as volume:
        volume.mkdir("/d")
        volume.create_many("/d", [f"{n:06d}" for n in range(files)])
    pool = px.Pool(1 << 30)
    policy = px.Policy(name_index=False, empty_hint="off")  # what is held is the filter
    with px.open(device, "r", policy=policy, pool=pool, env=env()) as volume:
        assert volume.kind("/d/none") == 0  # the walk that makes it
        on_disk = -(-places(6, files)[-1] // 1024) * 1024
        assert 0 < pool.held <= on_disk // 2 + 512  # and that of the root directory, the least
        before = volume.get_counters()
        for n in range(100_000):
            assert volume.kind(f"/d/m{n:05d}") == 0
        counted: dict[str, Any] = difference(volume.get_counters(), before)
    assert counted["filter_tests"] >= 100_000
    assert counted["filter_rejects"] + counted["filter_false_positives"] >= 100_000
    # 3 probes into 4 bits an entry: each is set with 1 - e^(-300,000 / 1,200,128) = 0.2212, all
    # three with 0.01083; 1,083 of 100,000 give or take 33.
    assert counted["filter_false_positives"] <= 1083 + 5 * 33
    assert counted["filter_false_positives"] <= 5_000


# ---- memory ----


def test_a_lookup_in_a_full_cache_of_memory_reads_its_entries_and_nothing_else() -> None:
    files = 50_000
    device = px.Device.memory(1 << 30)
    px.format(device, cluster_size=32768, env=env()).close()
    policy = px.Policy(memory_budget=8 << 20)  # 2 MiB of blocks, of 5 MiB of entries
    with px.open(device, "r+", policy=policy, env=env()) as volume:
        volume.mkdir("/d")
        volume.create_many("/d", [f"{n:06d}" for n in range(files)])
        volume.sync()
        assert volume.kind("/d/none") == 0  # the way to the directory is known from here on
        before = volume.get_counters()
        for n in range(0, files, 5):
            volume.stat(f"/d/{n:06d}")
        counted: dict[str, Any] = difference(volume.get_counters(), before)
    assert counted["entries_visited"] == 3 * files // 5
    assert 0 < counted["device_reads"] <= files // 5
    assert counted["bytes_read"] <= 128 * counted["device_reads"]  # four entries
    assert counted["evictions"] == 0


def test_what_remains_of_a_hole_and_is_too_small_is_not_kept() -> None:
    # Of the fifth hole of each sector one entry remains, where no set shall begin.
    files = 10_000
    device = px.Device.memory(64 << 20)
    px.format(device, cluster_size=32768, env=env()).close()
    pool = px.Pool(1 << 30)
    with px.open(device, "r+", pool=pool, env=env()) as volume:
        volume.mkdir("/d")
        volume.create_many("/d", [f"{n:06d}" for n in range(files)])
        for n in range(0, files, 2):
            volume.unlink(f"/d/{n:06d}")
            volume.touch(f"/d/{n:06d}")
            if n == 0:
                held, before = pool.held, volume.get_counters()
        assert pool.held == held
        counted = difference(volume.get_counters(), before)
    assert counted["hole_hits"] == files // 2 - 1
    assert counted["clusters_allocated"] == 0


# ---- many directories, large directories ----


def test_many_directories_stay_within_a_small_budget() -> None:
    outcome = scale.round_robin(directories=200, files=500, rounds=3, budget=1 << 20)
    assert outcome.wrong == 0
    assert outcome.lookups == 3 * 200 * 4
    assert 0 < outcome.names_peak <= 1 << 20
    assert outcome.held_most <= 1 << 20


def test_a_budget_below_all_directories_still_finds_everything() -> None:
    for budget in (0, 4096, 64 << 10):
        outcome = scale.round_robin(directories=20, files=200, rounds=2, budget=budget)
        assert outcome.wrong == 0
        assert outcome.names_peak <= budget


def test_no_operation_visits_more_in_a_directory_of_a_million() -> None:
    small, large = (
        {one.name: one for one in scale.measure(Stage(), files, 1000, px.Policy())}
        for files in (10_000, 1_000_000)
    )
    for name in scale.OPERATIONS:
        few, many = (one[name].counters["entries_visited"] / one[name].files
                     for one in (small, large))  # fmt: skip
        assert many <= 1.02 * few + 0.01, name
    assert large["create"].counters["entries_visited"] <= 4 * large["create"].files
    assert large["hit"].counters["entries_visited"] <= 3 * large["hit"].files + 10
    assert large["miss"].counters["entries_visited"] == 0
    assert large["churn"].counters["entries_visited"] <= 7 * large["churn"].files
    # Churn goes into the holes that it leaves.
    assert large["churn"].counters["clusters_allocated"] == 0
