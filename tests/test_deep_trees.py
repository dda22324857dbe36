"""Trees as deep as damage can make them: what goes through them stays linear, or says it is enough.

Lookups are counted, never seconds.
"""

from __future__ import annotations

import errno
import os
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from api_support import make_volume
from hypothesis import given
from hypothesis import strategies as st

import pyexfat as px
from pyexfat import _match, _tree

DEPTH = 2000
WAY = "/d" * DEPTH
LIMIT = 32767  # UTF-16 units of a path


@pytest.fixture(params=["exfat", "fat16"])
def deep(request: pytest.FixtureRequest) -> Iterator[px.Volume]:
    with make_volume("16 MiB", fs=request.param, cluster_size=512) as vol:
        vol.makedirs(WAY)
        vol.touch(WAY + "/end")
        yield vol


def counted(vol: px.Volume, work: Callable[[], object]) -> float:
    """Lookups of the work, for each level."""
    before = vol.counters
    work()
    return (vol.counters - before).lookups / DEPTH


def test_making_is_linear() -> None:
    with make_volume("16 MiB", cluster_size=512) as vol:
        assert counted(vol, lambda: vol.makedirs(WAY)) <= 5
        assert counted(vol, lambda: vol.makedirs(WAY, exist_ok=True)) <= 1
        assert counted(vol, lambda: vol.removedirs(WAY)) <= 5
        assert vol.listdir() == []


@pytest.mark.parametrize(
    "work",
    [
        lambda vol: sum(1 for _ in vol.walk()),
        lambda vol: sum(1 for _ in vol.walk(topdown=False)),
        lambda vol: len(vol.glob("**/")),
        lambda vol: len(vol.glob("**/d/**/d/**/end")),
        lambda vol: sum(1 for _ in (vol / "/").rglob("*")),
        lambda vol: sum(1 for _ in _tree.walk(vol, "/")) // 2,
        lambda vol: sum(1 for _ in _tree.directories(vol, "/")),
    ],
)
def test_reading_is_linear(deep: px.Volume, work: Callable[[px.Volume], int]) -> None:
    found = []
    assert counted(deep, lambda: found.append(work(deep))) <= 5
    assert found[0] in (1, DEPTH + 1)


def test_removing_is_linear(deep: px.Volume) -> None:
    assert counted(deep, lambda: deep.rmtree("d")) <= 6
    assert deep.listdir() == []


def test_copying_is_linear(deep: px.Volume) -> None:
    assert counted(deep, lambda: deep.copy("/d", "/copy")) <= 16
    with make_volume("16 MiB", cluster_size=512) as other:
        assert counted(deep, lambda: other.copy_in(deep / "d", "/d")) <= 8
        assert counted(other, lambda: other.rmtree("/d")) <= 6
        assert counted(other, lambda: other.copy_in(deep / "d", "/d")) <= 8


def test_the_host_says_when_it_is_too_deep(tmp_path: Path) -> None:
    with make_volume("16 MiB", cluster_size=512) as vol:
        vol.makedirs("/dd" * 2000)
        with pytest.raises(OSError, match="long") as error:
            vol.copy_out("/", tmp_path / "out")
    assert error.value.errno == errno.ENAMETOOLONG
    assert os.path.isdir(f"{tmp_path}/out{'/dd' * 1200}")
    # What removes the folders of tests is recursive.
    subprocess.run(["rm", "-r", tmp_path / "out"], check=True)


def test_calls_by_path_begin_where_the_last_one_was(deep: px.Volume) -> None:
    deep.stat(WAY)
    before = deep.counters
    deep.stat(WAY + "/END")
    deep.touch(f"/.{WAY}/./new")
    deep.stat(WAY[:-2] + "/d/end")
    deep.stat(WAY.replace("/", "/.//", 3) + "/../d/end")
    assert (deep.counters - before).lookups <= 20


@given(st.data())
def test_the_way_is_never_wrong(data: st.DataObject) -> None:
    """Any row of paths and changes leads where a walk from the root leads."""
    names = st.sampled_from(["a", "b", "A", "..", ".", "", "f"])
    paths = st.lists(names, max_size=6).map("/".join)
    with make_volume("4 MiB") as vol:
        for path in ("a/b/a/b", "b/a", "a/a"):
            vol.makedirs(path)
        for _ in range(data.draw(st.integers(1, 12))):
            path, other = data.draw(paths), data.draw(paths)
            change = data.draw(st.sampled_from(["stat", "mkdir", "rmdir", "rename", "touch"]))
            try:
                if change == "rename":
                    vol.rename(path, other)
                else:
                    getattr(vol, change)(path)
            except OSError:
                pass
            looked_up = data.draw(paths)
            known = told(vol, looked_up)
            vol.sync()
            with px.open(vol.device) as fresh:
                assert told(fresh, looked_up) == known


def told(vol: px.Volume, path: str) -> tuple[str, object]:
    try:
        status = vol.stat(path)
    except OSError as error:
        return "error", error.errno
    return "found", (status.is_dir, status.entry_offset)


# ---- the end ----


def test_a_path_has_at_most_32767_units() -> None:
    """As many as Windows takes; a clef counts as two."""
    clef = "\N{MUSICAL SYMBOL G CLEF}"
    with make_volume("64 MiB", cluster_size=512) as vol:
        name = clef * 127 + "x"  # 255 units
        whole = "/".join([name] * 127)  # 127 * 255 + 126 slashes
        vol.makedirs(whole)
        longest = f"{whole}/{'y' * (LIMIT - 127 * 255 - 126 - 1)}"
        assert len(longest.encode("utf-16-le")) // 2 == LIMIT
        vol.touch(longest)
        assert vol.exists(longest)
        for call in (vol.touch, vol.stat, vol.mkdir, vol.open, vol.listdir):
            with pytest.raises(OSError, match="long") as error:
                call(longest + "y")
            assert error.value.errno == errno.ENAMETOOLONG


def test_a_tree_that_goes_on_beyond_the_longest_path() -> None:
    """Made by moving one deep tree below another, as damage might."""
    with make_volume("64 MiB", cluster_size=512) as vol:
        half = ("/" + "x" * 30) * 600
        vol.makedirs("/one" + half)
        vol.makedirs("/two" + half)
        vol.rename("/two", "/one" + half + "/two")
        for work in (
            lambda: list(vol.walk()),
            lambda: vol.glob("**/none"),
            lambda: vol.rmtree("/one"),
            lambda: list(_tree.walk(vol, "/")),
        ):
            with pytest.raises(OSError, match="long") as error:
                work()
            assert error.value.errno == errno.ENAMETOOLONG
        below = []
        for directory, _, _ in vol.walk(onerror=lambda error: below.append(error.errno)):
            assert len(directory) <= LIMIT
        assert below == [errno.ENAMETOOLONG]
        # What lies too deep is moved up first.
        vol.rename("/one" + half, "/three")
        vol.rmtree("/one")
        vol.rmtree("/three")
        assert vol.listdir() == []


def test_walks_keep_one_path() -> None:
    """Not that of each level, which would be the square of the depth."""
    depth = 4000
    with make_volume("16 MiB", cluster_size=512) as vol:
        vol.makedirs("/d" * depth)  # on average a path of 4,000 characters
        for work in (
            lambda: [len(path) for path, _, _ in vol.walk()],
            lambda: [len(path) for path, _, _ in vol.walk(topdown=False)],
            lambda: [len(path) for path in _match.glob(vol, "/", "**/d", True)],
            lambda: [len(step.path) for step in _tree.walk(vol, "/")],
            lambda: [len(path) for path, _ in _tree.directories(vol, "/")],
            lambda: vol.copy("/d", "/copy"),
        ):
            tracemalloc.start()
            work()
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 2500 * depth


# ---- directories that share their clusters ----


def cross_linked(levels: int) -> px.Volume:
    """Two names in each of so many directories, both with the clusters of the next one."""
    image = bytearray(8 << 20)
    with px.format(image, cluster_size=512) as vol:
        vol.makedirs("/a" * levels)
        ways = ["/a" * level for level in range(levels)]
        for way in ways:
            vol.mkdir(f"{way}/b")
        vol.touch("/a" * levels + "/end")
        pairs = [(vol.stat(way + "/a"), vol.stat(way + "/b")) for way in ways]
    for one, other in pairs:
        # Length and clusters in the Stream Extension (exFAT specification 7.6).
        stream = image[one.entry_offset + 32 : one.entry_offset + 64]
        at = other.entry_offset + 32
        image[at + 1] = stream[1]
        image[at + 8 : at + 32] = stream[8:]
        total = 0
        for i, byte in enumerate(image[at - 32 : at - 32 + 32 * other.entry_count]):
            if i not in (2, 3):
                total = ((total >> 1) | (total << 15)) + byte & 0xFFFF
        image[at - 30 : at - 28] = total.to_bytes(2, "little")
    return px.open(image)


@pytest.mark.parametrize("pattern", ["*/" * 20 + "*", "[ab]/" * 20 + "end", "**/end", "*/" * 10])
def test_patterns_go_into_each_directory_once(pattern: str) -> None:
    with cross_linked(20) as vol:
        before = vol.counters
        with pytest.raises(px.CorruptImageError, match="clusters of another"):
            vol.glob(pattern)
        assert (vol.counters - before).operations < 1000
        with pytest.raises(px.CorruptImageError, match="clusters of another"):
            list((vol / "/").glob(pattern))


def test_a_pattern_may_lead_to_a_directory_twice() -> None:
    with make_volume() as vol:
        vol.makedirs("a/x")
        vol.makedirs("b")
        found = vol.glob("*/../*/x")
        assert sorted(found) == ["/a/../a/x", "/b/../a/x"]
        assert vol.glob("a/../b/..") == ["/a/../b/.."]
        assert vol.glob("../a") == ["/../a"]
        assert [str(path) for path in (vol / "a").glob("../b")] == ["/a/../b"]


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4), max_size=8),
    st.lists(st.sampled_from(["a", "b", "*", "?", "a*", "**", "[!a]"]), min_size=1, max_size=5),
)
def test_patterns_find_what_they_fit(trees: list[list[str]], pattern: list[str]) -> None:
    with make_volume("4 MiB") as vol:
        for way in trees:
            vol.makedirs("/".join(way), exist_ok=True)
        everything = [path for path, _, _ in vol.walk()]
        parts = {path: [part for part in path.split("/") if part] for path in everything}
        wanted = _match.split_pattern("/".join(pattern))[0]
        expected = [path for path in everything if _match.path_matches(parts[path], wanted, True)]
        assert sorted(vol.glob("/".join(pattern))) == sorted(expected)
