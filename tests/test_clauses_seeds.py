"""Regression tests for the clauses of systems 1, 2 and 5 (empty slots, entry sets, large
directories), each named after its clause.

Clusters of 512 bytes hold 16 entries. A name of up to 15 units takes a set of 3, and one more for
each 15 units beyond. No set begins with the last entry of a sector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

import pyexfat as px
from pyexfat import Device, Policy, Volume
from pyexfat.bench.workloads import difference, env

CLUSTER = 16
"""Entries of a cluster."""
WALKS = Policy(name_index=False, name_filter=False)
"""Lookups walk, so that what they see of free entries is all there is."""
LISTLESS = Policy(memory_budget=0)
"""No memory for a list of holes: the hint alone."""


def name_of(entries: int, letter: str = "n") -> str:
    """A name whose set has so many entries."""
    return letter * (15 * (entries - 2))


class Ground:
    """A volume with one directory, whose first entry is known."""

    def __init__(self, policy: Policy = WALKS, sync: str = "lazy") -> None:
        self.device = Device.memory(2 << 20)
        px.format(self.device, cluster_size=512, env=env()).close()
        self.options: dict[str, Any] = {"policy": policy, "sync": sync, "env": env()}
        self.vol: Volume = px.open(self.device, "r+", **self.options)
        self.vol.mkdir("/d")
        self.vol.touch("/d/first")
        self.base = self.vol.stat("/d/first").entry_offset

    def reopen(self) -> None:
        """So that nothing is remembered."""
        self.vol.close()
        self.vol = px.open(self.device, "r+", **self.options)

    def touch(self, name: str) -> int:
        """Makes a file and says at which entry; of a directory in one piece."""
        self.vol.touch(f"/d/{name}")
        return self.index(name)

    def index(self, name: str) -> int:
        """The first entry of a file."""
        return (self.vol.stat(f"/d/{name}").entry_offset - self.base) // 32

    def counted(self, work: Callable[[], object]) -> dict[str, int]:
        """What the work adds to the counters."""
        before = self.vol.get_counters()
        work()
        return difference(self.vol.get_counters(), before)

    def entries(self) -> int:
        """Entries that the directory's clusters hold."""
        return self.vol.stat("/d").st_size // 32


Make = Callable[..., Ground]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes a ground, which is closed in the end."""
    made: list[Ground] = []

    def one(policy: Policy = WALKS, sync: str = "lazy") -> Ground:
        made.append(Ground(policy, sync))
        return made[-1]

    yield one
    for ground in made:
        ground.vol.close()


# ---- 1: the empty slots at the end of a directory ----


@pytest.mark.parametrize("hint", ["one-shot", "retained"])
def test_1_a_run_of_deleted_entries_is_hinted_once_it_is_long_enough(make: Make, hint: str) -> None:
    ground = make(WALKS.replace(empty_hint=hint))
    assert [ground.touch(name) for name in ("a", name_of(5, "b"), "c")] == [3, 6, 11]
    ground.vol.unlink(f"/d/{name_of(5, 'b')}")
    ground.reopen()
    counted = ground.counted(lambda: ground.vol.touch("/d/" + name_of(5, "e")))
    assert ground.index(name_of(5, "e")) == 6
    # The walk of the lookup is the only one: the root's (4 entries at most), 14 in use or free up
    # to the end and that, and the 5 that are covered.
    assert counted["entries_visited"] <= 3 * 4 + 15 + 5
    ground.vol.unlink(f"/d/{name_of(5, 'e')}")
    ground.reopen()
    assert ground.touch(name_of(6, "f")) == 14  # five are not long enough


def test_1_an_unused_entry_ends_the_directory_and_all_behind_it_is_free(make: Make) -> None:
    ground = make()
    ground.reopen()
    counted = ground.counted(lambda: ground.vol.touch("/d/" + name_of(CLUSTER - 3)))
    assert ground.index(name_of(CLUSTER - 3)) == 3
    assert counted["clusters_allocated"] == 0
    assert ground.entries() == CLUSTER


@pytest.mark.parametrize("hint", ["one-shot", "retained"])
def test_1_a_trailing_run_that_is_too_short_grows_by_a_new_cluster(make: Make, hint: str) -> None:
    ground = make(WALKS.replace(empty_hint=hint))
    ground.reopen()
    counted = ground.counted(lambda: ground.vol.touch("/d/" + name_of(CLUSTER - 2)))
    assert ground.index(name_of(CLUSTER - 2)) == 3  # thirteen of the old, one of the new
    assert counted["clusters_allocated"] == 1
    assert ground.entries() == 2 * CLUSTER


def test_1_trailing_deleted_entries_touch_the_end_as_well(make: Make) -> None:
    ground = make()
    ground.touch(name_of(CLUSTER - 3))  # up to the end of the chain
    ground.vol.unlink("/d/" + name_of(CLUSTER - 3))
    ground.reopen()
    assert ground.touch(name_of(CLUSTER - 2, "m")) == 3
    assert ground.entries() == 2 * CLUSTER


def test_1_nothing_free_means_the_end_of_the_chain(make: Make) -> None:
    ground = make()
    assert ground.touch(name_of(CLUSTER - 3)) == 3
    ground.reopen()
    counted = ground.counted(lambda: ground.vol.touch("/d/next"))
    assert ground.index("next") == CLUSTER
    assert counted["clusters_allocated"] == 1


def test_1_a_run_at_the_end_that_is_too_short_grows_at_once_without_a_rescan(make: Make) -> None:
    ground = make(Policy())
    for n in range(204):  # with the first one 41 sectors of five sets: one entry remains
        ground.touch(f"{n:03d}")
    assert ground.entries() == 41 * CLUSTER
    counted = ground.counted(lambda: ground.vol.touch("/d/next"))
    assert counted["hint_misses"] == 0
    assert counted["clusters_allocated"] == 1
    assert counted["entries_visited"] <= 5


def test_1_a_new_cluster_adds_its_entries_to_the_run(make: Make) -> None:
    ground = make(Policy())
    for n in range(4):
        ground.touch(f"{n:03d}")

    def more() -> None:
        for n in range(4, 204):
            ground.vol.touch(f"/d/{n:03d}")

    counted = ground.counted(more)
    assert counted["clusters_allocated"] == 40  # and none of them is left out
    assert counted["hint_misses"] == 0
    assert counted["entries_visited"] <= 4 * 200
    assert sorted(ground.vol.listdir("/d")) == [*(f"{n:03d}" for n in range(204)), "first"]


def test_1_growth_that_turns_a_directory_in_one_piece_into_a_chain(make: Make) -> None:
    ground = make(Policy())
    for n in range(4):
        ground.touch(f"{n:03d}")
    ground.vol.write_bytes("/in the way", b"x" * 512)
    assert ground.vol.stat("/d").contiguous

    def more() -> None:
        for n in range(4, 44):
            ground.vol.touch(f"/d/{n:03d}")

    counted = ground.counted(more)
    assert not ground.vol.stat("/d").contiguous
    assert counted["hint_misses"] == 0
    assert counted["entries_visited"] <= 4 * 40
    ground.reopen()
    assert sorted(ground.vol.listdir("/d")) == [*(f"{n:03d}" for n in range(44)), "first"]
    assert ground.vol.read_bytes("/in the way") == b"x" * 512


# ---- 2: an entry set at a time ----


def test_2_a_set_across_sectors_and_clusters_is_read_changed_and_removed_whole(make: Make) -> None:
    ground = make(sync="dirsync")
    ground.touch(name_of(8, "a"))
    long = name_of(19, "s")[:255]  # 11 to 29: three clusters would be too many, two it is
    assert ground.touch(long) == 11
    ground.reopen()
    ground.vol.write_bytes(f"/d/{long}", b"content")
    ground.reopen()
    assert ground.vol.read_bytes(f"/d/{long}") == b"content"
    counted = ground.counted(lambda: ground.vol.unlink(f"/d/{long}"))
    assert counted["sets_written"] == 1
    assert counted["entries_written"] == 19
    assert ground.vol.listdir("/d") == ["first", name_of(8, "a")]


@pytest.mark.parametrize("call", ["touch", "unlink"])
def test_2_a_set_is_written_once_and_synced_once(make: Make, call: str) -> None:
    ground = make(sync="dirsync")
    if call == "unlink":
        ground.touch("file")
    counted = ground.counted(lambda: getattr(ground.vol, call)("/d/file"))
    assert counted["device_writes"] == 1
    assert counted["bytes_written"] == 512
    assert counted["device_flushes"] == 1
    assert (counted["sets_written"], counted["entries_written"]) == (1, 3)


def test_2_no_sync_of_the_directory_for_a_mere_timestamp(make: Make) -> None:
    ground = make(sync="sync")
    ground.vol.sync()
    counted = ground.counted(lambda: ground.vol.utime("/d/first", ns=(10**18, 10**18)))
    assert counted["sets_written"] == 1
    assert counted["bytes_written"] == 512  # the sector of the file's set
    assert counted["device_flushes"] <= 1


def test_2_no_second_update_of_the_directory(make: Make) -> None:
    ground = make(sync="sync")
    ground.vol.sync()
    counted = ground.counted(lambda: ground.vol.touch("/d/new"))
    assert counted["sets_written"] == 2  # the file's and, with its times, the directory's


def test_2_clusters_are_freed_outside_of_the_set_s_initialisation(make: Make) -> None:
    ground = make(sync="dirsync")
    ground.vol.write_bytes("/d/file", b"x" * 5120)
    ground.vol.sync()
    counted = ground.counted(lambda: ground.vol.unlink("/d/file"))
    assert counted["entries_written"] == 3
    assert counted["sets_written"] == 1
    free = ground.vol.statfs().free
    ground.vol.sync()
    assert ground.vol.statfs().free == free
    ground.vol.write_bytes("/d/again", b"x" * 5120)
    assert ground.vol.statfs().free == free - 5120


def test_2_a_deleted_entry_may_follow_an_unused_one(make: Make) -> None:
    ground = make()
    ground.vol.close()
    sector = bytearray(ground.device.pread(512, ground.base))
    assert sector[3 * 32] == 0
    sector[7 * 32] = 0x05  # a File entry that is not in use
    ground.device.pwrite(bytes(sector), ground.base)
    ground.vol = px.open(ground.device, "r+", **ground.options)
    assert ground.vol.listdir("/d") == ["first"]
    assert [ground.touch(name) for name in ("a", "b", "c")] == [3, 6, 9]
    ground.reopen()
    assert ground.vol.listdir("/d") == ["first", "a", "b", "c"]


# ---- 5.1: the filter ----


FILTER = Policy(name_index=False)


def names_counters(work: dict[str, int]) -> tuple[int, int]:
    """Filters built and dropped."""
    return work["filter_builds"], work["filter_drops"]


def test_5_1_a_filter_that_is_full_is_dropped_and_built_again_by_the_next_negative_lookup(
    make: Make,
) -> None:
    ground = make(FILTER)
    ground.reopen()
    ground.vol.exists("/d/none")

    def fill() -> None:
        ground.vol.create_many("/d", [f"{n:05d}" for n in range(2000)])

    built, dropped = names_counters(ground.counted(fill))
    assert dropped >= 1  # 512 bytes: a third of the bits is set by 500 names or so
    assert built >= dropped - 1
    ground.vol.exists("/d/none")
    counted = ground.counted(lambda: ground.vol.exists("/d/absent too"))
    assert counted["filter_rejects"] + counted["filter_false_positives"] >= 1
    for n in range(0, 2000, 97):
        assert ground.vol.exists(f"/d/{n:05d}")


def test_5_1_names_of_exactly_255_units_are_entered_too(make: Make) -> None:
    ground = make(FILTER)
    longest, other = "l" * 255, "m" * 255
    ground.touch(longest)
    ground.reopen()
    assert not ground.vol.exists("/d/none")  # the walk that makes it
    counted = ground.counted(lambda: ground.vol.exists(f"/d/{longest}"))
    assert counted["filter_rejects"] == 0
    assert ground.vol.exists(f"/d/{longest}")
    assert not ground.vol.exists(f"/d/{other}")
    assert ground.vol.exists(f"/d/{longest.upper()}")
    ground.touch(other)
    assert ground.vol.exists(f"/d/{other}")


def failing(ground: Ground) -> px.Faults:
    """The same volume on a device whose writes of entry sets fail until the rules are cleared."""
    ground.vol.close()
    faults = ground.device.faults("write", structure="entry set")
    faults.clear()
    ground.vol = px.open(faults, "r+", **ground.options)
    assert not ground.vol.exists("/d/none")
    return faults


@pytest.mark.parametrize("policy", [FILTER, Policy()])
@pytest.mark.parametrize(
    "call",
    [
        lambda vol: vol.touch("/d/new"),
        lambda vol: vol.rename("/d/first", "/d/new"),
        lambda vol: vol.rename("/outside", "/d/new"),
    ],
    ids=["create", "rename", "move"],
)
def test_5_1_after_a_failed_commit_no_filter_rejects_what_may_be_on_the_disk(
    make: Make, call: Callable[[Volume], object], policy: Policy
) -> None:
    ground = make(policy, sync="dirsync")
    ground.vol.touch("/outside")
    faults = failing(ground)
    faults.add("write", structure="entry set", error=5)
    with pytest.raises(OSError, match="error"):
        call(ground.vol)
    faults.clear()
    # Whatever is there is found by name, and nothing else.
    names = ground.vol.listdir("/d")
    for name in ("first", "new"):
        assert ground.vol.exists(f"/d/{name}") == (name in names)
    ground.vol.touch("/d/later")
    assert ground.vol.exists("/d/later")


@pytest.mark.parametrize(
    "call",
    [lambda vol: vol.touch("/d/new"), lambda vol: vol.rename("/outside", "/d/new")],
    ids=["create", "move"],
)
def test_5_1_a_set_that_is_not_written_whole_drops_the_filter_before_the_roll_back(
    make: Make, call: Callable[[Volume], object]
) -> None:
    ground = make(FILTER.replace(entry_sync="entry"), sync="dirsync")
    ground.vol.touch("/outside")
    faults = failing(ground)  # and the filter is there
    faults.add("write", structure="entry set", error=5)

    def fails() -> None:
        with pytest.raises(OSError, match="error"):
            call(ground.vol)

    assert ground.counted(fails)["filter_drops"] >= 1
    faults.clear()
    assert ground.vol.listdir("/d") == ["first"]
    assert ground.counted(lambda: ground.vol.exists("/d/new"))["filter_builds"] == 1


# ---- 5.2: the hint is kept ----


@pytest.mark.parametrize("entry_sync", ["set", "entry"])
@pytest.mark.parametrize("policy", [WALKS, LISTLESS, Policy()], ids=["walks", "listless", "ours"])
def test_5_2_a_failure_after_allocation_skips_no_free_slot(
    make: Make, policy: Policy, entry_sync: Literal["set", "entry"]
) -> None:
    ground = make(policy.replace(entry_sync=entry_sync), sync="dirsync")
    faults = failing(ground)
    faults.add("write", structure="entry set", error=5)
    with pytest.raises(OSError, match="error"):
        ground.vol.touch("/d/new")
    faults.clear()
    # A whole set waits in the cache for the next commit, and is there; of one that is written
    # entry by entry nothing is left, and its place is the next one's.
    there = "new" in ground.vol.listdir("/d")
    assert there == (entry_sync == "set")
    assert ground.touch("other") == (6 if there else 3)


@pytest.mark.parametrize("policy", [WALKS, LISTLESS, Policy()], ids=["walks", "listless", "ours"])
def test_5_2_a_failure_gives_the_hole_back(make: Make, policy: Policy) -> None:
    ground = make(policy.replace(entry_sync="entry"), sync="dirsync")
    for name in ("a", "b"):
        ground.touch(name)
    ground.vol.unlink("/d/a")
    faults = failing(ground)
    faults.add("write", structure="entry set", error=5)
    with pytest.raises(OSError, match="error"):
        ground.vol.touch("/d/new")
    faults.clear()
    counted = ground.counted(lambda: ground.vol.touch("/d/other"))
    assert ground.index("other") == 3
    if policy == Policy():
        assert counted["hole_hits"] == 1
        assert counted["hint_misses"] <= 1  # what is not known any more is walked for once


def test_5_2_a_growth_that_fails_skips_no_free_slot(make: Make) -> None:
    ground = make(Policy(), sync="dirsync")
    ground.touch(name_of(CLUSTER - 3))
    faults = failing(ground)
    free = ground.vol.statfs().free
    faults.add("write", structure="directory", error=5)  # the zeros of the new cluster
    with pytest.raises(OSError, match="error"):
        ground.vol.touch("/d/new")
    faults.clear()
    assert ground.entries() == CLUSTER
    ground.vol.sync()
    assert ground.vol.statfs().free == free
    assert ground.touch("other") == CLUSTER


def replace_by_move(vol: Volume) -> None:
    """Moves the file over one that is elsewhere."""
    vol.touch("/x")
    vol.replace("/d/a", "/x")


FREEING: dict[str, Callable[[Volume], object]] = {
    "unlink": lambda vol: vol.unlink("/d/a"),
    "rename away": lambda vol: vol.rename("/d/a", "/moved"),
    "rename longer": lambda vol: vol.rename("/d/a", "/d/" + "longer" * 5),
    "replaced by a move": replace_by_move,
    "rmdir": lambda vol: vol.rmdir("/d/s"),
}


@pytest.mark.parametrize("policy", [WALKS, LISTLESS, Policy()], ids=["walks", "listless", "ours"])
@pytest.mark.parametrize("path", FREEING)
def test_5_2_every_path_that_frees_entries_lets_them_be_used_again(
    make: Make, path: str, policy: Policy
) -> None:
    ground = make(policy)
    assert ground.touch("a") == 3
    ground.vol.mkdir("/d/s")
    assert ground.index("s") == 6
    assert ground.touch("c") == 9
    FREEING[path](ground.vol)
    assert ground.touch("new") == (6 if path == "rmdir" else 3)


@pytest.mark.parametrize("hint", ["one-shot", "retained"])
def test_5_2_a_positive_lookup_leaves_no_hint(make: Make, hint: str) -> None:
    ground = make(WALKS.replace(empty_hint=hint, memory_budget=0))
    for name in ("a", "b", "c", "e"):
        ground.touch(name)
    ground.vol.unlink("/d/a")
    ground.vol.unlink("/d/c")
    ground.reopen()
    assert ground.vol.exists("/d/b")  # has seen the first hole, and not the end
    assert ground.touch(name_of(6, "l")) == 16  # in neither, and not with the sector's last entry
    assert ground.vol.exists("/d/b")
    assert ground.touch("new") == 3
    assert ground.vol.exists("/d/b")
    assert ground.touch("newer") == 9


@pytest.mark.parametrize("hint", ["one-shot", "retained"])
def test_5_2_a_positive_lookup_does_not_take_its_own_end_for_the_directory_s(
    make: Make, hint: str
) -> None:
    ground = make(WALKS.replace(empty_hint=hint))
    for name in ("a", "b", "c", "e"):
        ground.touch(name)
    ground.vol.unlink("/d/c")
    ground.reopen()
    assert ground.vol.exists("/d/b")  # ends before the hole
    assert ground.touch(name_of(6, "l")) == 16
    assert ground.touch("new") == 9


@pytest.mark.parametrize("policy", [WALKS, LISTLESS, Policy()])
def test_5_2_a_shorter_set_may_use_a_hole_that_a_longer_one_could_not(
    make: Make, policy: Policy
) -> None:
    ground = make(policy)
    for name in ("a", "b"):
        ground.touch(name)
    ground.vol.unlink("/d/a")
    ground.reopen()
    assert ground.touch(name_of(6, "l")) == 9  # the hole at 3 is too short
    assert ground.touch("short") == 3


def test_5_2_the_search_for_a_label_knows_the_whole_root_chain() -> None:
    with px.Device.memory(2 << 20) as device:
        with px.format(device, cluster_size=512, env=env()) as vol:
            for n in range(30):  # several clusters
                vol.touch(f"/{n:02d}")
            vol.label = "LABEL"
        with px.open(device, "r+", env=env()) as vol:
            assert vol.label == "LABEL"
            vol.touch("/after the label")
            vol.label = ""
            vol.label = "AGAIN"
        with px.open(device, "r", env=env()) as vol:
            assert vol.label == "AGAIN"
            assert sorted(vol.listdir("/")) == [*(f"{n:02d}" for n in range(30)), "after the label"]


# ---- 5.3: tables in one list, given back when memory is wanted ----


def test_5_3_tables_are_given_back_and_an_empty_list_ends_at_once() -> None:
    pool = px.Pool(1 << 20)
    device = Device.memory(2 << 20)
    px.format(device, cluster_size=512, env=env()).close()
    with px.open(device, "r+", pool=pool, env=env()) as vol:
        for name in "abc":
            vol.mkdir(f"/{name}")
            vol.touch(f"/{name}/file")
        held = pool.held
        assert held > 0
        vol.shrink(1 << 30)
        assert pool.held == 0
        assert vol.shrink(1 << 30) >= 0  # nothing is left in it
        assert pool.held == 0
        for name in "abc":
            assert vol.exists(f"/{name}/file")
        assert 0 < pool.held <= 1 << 20


def test_5_3_a_directory_that_goes_takes_its_tables_along() -> None:
    pool = px.Pool(1 << 20)
    device = Device.memory(2 << 20)
    px.format(device, cluster_size=512, env=env()).close()
    with px.open(device, "r+", pool=pool, env=env()) as vol:
        vol.touch("/file")
        held = pool.held
        for _ in range(50):
            vol.mkdir("/d")
            vol.touch("/d/file")
            assert pool.held > held
            vol.unlink("/d/file")
            vol.rmdir("/d")
        assert pool.held <= held + 4096  # holes of the root directory
    assert pool.held == 0
