"""Walks, patterns and removals of trees, and what they make of damage."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_support import make_tree, make_volume

import pyexfat as px

SECOND = 10**9


@pytest.fixture
def vol() -> Iterator[px.Volume]:
    with make_volume() as volume:
        yield volume


# ---- trees ----


@pytest.fixture
def twin(vol: px.Volume, tmp_path: Path) -> Path:
    """A directory of the host with the same tree as the volume."""
    make_tree(vol.mkdir, vol.touch)
    make_tree(lambda p: (tmp_path / p).mkdir(), lambda p: (tmp_path / p).touch())
    return tmp_path


def normal(walk: Any, prefix: str) -> list[tuple[str, list[str], list[str]]]:
    return [(top.removeprefix(prefix), sorted(dirs), sorted(files)) for top, dirs, files in walk]


@pytest.mark.parametrize("topdown", [True, False])
def test_walk(vol: px.Volume, twin: Path, topdown: bool) -> None:
    ours = normal(vol.walk("t", topdown), "")
    theirs = normal(os.walk(twin / "t", topdown), f"{twin}/")
    assert sorted(ours) == sorted(theirs)
    order = [top for top, _, _ in ours]
    for directory in order:
        parent = directory.rpartition("/")[0]
        if parent:
            assert (order.index(parent) < order.index(directory)) == topdown
    assert next(vol.walk())[0] == "/"


def test_walk_goes_where_it_is_told(vol: px.Volume, twin: Path) -> None:
    seen = []
    for top, dirs, _ in vol.walk("/t"):
        seen.append(top)
        dirs[:] = [name for name in dirs if name != "a"]
    assert sorted(seen) == ["/t", "/t/b", "/t/empty"]


def test_walk_and_errors(vol: px.Volume) -> None:
    assert list(vol.walk("none")) == []
    errors: list[OSError] = []
    assert list(vol.walk("none", onerror=errors.append)) == []
    assert isinstance(errors[0], FileNotFoundError)
    vol.makedirs("a/b")
    for top, dirs, _ in vol.walk("a"):
        if dirs:
            vol.rmdir(f"{top}/b")
    assert vol.listdir("a") == []


def test_rmtree(vol: px.Volume, twin: Path) -> None:
    vol.touch("other")
    vol.chmod("t/a/3", 0o444)
    free = vol.usage().free
    vol.write_bytes("t/a/x/4", bytes(100_000))
    vol.rmtree("t")
    assert vol.listdir() == ["other"]
    assert vol.usage().free > free
    with pytest.raises(FileNotFoundError):
        vol.rmtree("t")
    vol.rmtree("t", ignore_errors=True)
    with pytest.raises(NotADirectoryError):
        vol.rmtree("other")
    seen: list[tuple[str, type]] = []
    vol.rmtree("t", onexc=lambda function, path, error: seen.append((path, type(error))))
    assert seen == [("t", FileNotFoundError)]


def test_rmtree_removes_what_it_can(tmp_path: Path) -> None:
    """Of a tree with damaged files the rest; the directories that hold them stay."""
    image = bytearray(4 << 20)
    with px.format(image) as vol:
        vol.makedirs("t/a/x")
        vol.makedirs("t/b")
        for name in ("t/1", "t/bad", "t/2", "t/a/x/bad", "t/a/x/3", "t/a/4", "t/b/5"):
            vol.write_bytes(name, b"x")
        places = [vol.stat(name).entry_offset for name in ("t/bad", "t/a/x/bad")]
    for at in places:
        image[at + 32 + 20] ^= 1  # FirstCluster: the checksum of the set is wrong now
    with px.open(image, "r+") as vol:
        with pytest.raises(px.CorruptImageError):
            vol.rmtree("t")
        seen: list[tuple[str, str]] = []
        vol.rmtree("t", onexc=lambda call, path, error: seen.append((call.__name__, path)))
        assert seen == [("scandir", "t"), ("scandir", "t/a/x")]
        left: list[OSError] = []
        names = [(path, dirs, files) for path, dirs, files in vol.walk("t", onerror=left.append)]
        assert names == [("t", ["a"], []), ("t/a", ["x"], [])]
        assert len(left) == 2
        vol.rmtree("t", ignore_errors=True, onexc=lambda *args: pytest.fail("not asked"))


def test_rmtree_never_takes_the_root(vol: px.Volume, twin: Path) -> None:
    for root in ("/", ".", "t/.."):
        with pytest.raises(OSError, match="busy") as error:
            vol.rmtree(root)
        assert error.value.errno == errno.EBUSY
    assert vol.exists("t/a/x/4")


def test_deep_trees_need_no_recursion(vol: px.Volume) -> None:
    depth, path = 1500, ""
    for _ in range(depth):
        path += "/d"
        vol.mkdir(path)
    assert sum(1 for _ in vol.walk()) == depth + 1
    assert len(vol.glob("**/d")) == depth
    vol.rmtree("d")
    assert vol.listdir() == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", ["/t"]),
        ("t/*", ["/t/1", "/t/2", "/t/a", "/t/b", "/t/empty"]),
        ("T/*", ["/T/1", "/T/2", "/T/a", "/T/b", "/T/empty"]),
        ("t/[0-9]", ["/t/1", "/t/2"]),
        ("t/[!0-9]", ["/t/a", "/t/b"]),
        ("t/?", ["/t/1", "/t/2", "/t/a", "/t/b"]),
        ("t/*/", ["/t/a", "/t/b", "/t/empty"]),
        ("t/*/*", ["/t/a/3", "/t/a/x", "/t/b/5"]),
        ("**/4", ["/t/a/x/4"]),
        ("**/X", ["/t/a/x"]),
        ("t/**/", ["/t", "/t/a", "/t/a/x", "/t/b", "/t/empty"]),
        ("t/a/**", ["/t/a", "/t/a/3", "/t/a/x", "/t/a/x/4"]),
        ("**/a/**/*", ["/t/a/3", "/t/a/x", "/t/a/x/4"]),
        ("**/**/5", ["/t/b/5"]),
        ("t/a/none", []),
        ("t/1/*", []),
        ("E*", []),
        ("t/E*", ["/t/empty"]),
    ],
)
def test_glob(vol: px.Volume, pattern: str, expected: list[str]) -> None:
    make_tree(vol.mkdir, vol.touch)
    assert sorted(vol.glob(pattern)) == expected


def test_glob_options(vol: px.Volume) -> None:
    make_tree(vol.mkdir, vol.touch)
    assert vol.glob("*", root_dir="/t/b") == ["/t/b/5"]
    assert vol.glob("t/E*", case_sensitive=True) == []
    assert vol.glob("T", case_sensitive=True) == []
    assert vol.glob("t", case_sensitive=True) == ["/t"]
    with pytest.raises(ValueError, match="pattern"):
        vol.glob("")


# ---- damage ----


def directory_loop() -> bytearray:
    """An image whose directory /a/b says that its clusters are those of /a."""
    image = bytearray(8 << 20)
    with px.format(image, cluster_size=4096) as vol:
        vol.makedirs("a/b")
        vol.touch("a/b/f")
        a, b = vol.stat("a"), vol.stat("a/b")
        entry = b.entry_offset
        first = a.first_cluster
    entries = image[entry : entry + 32 * b.entry_count]
    struct.pack_into("<I", entries, 32 + 20, first)
    # The checksum of the set leaves out its own two bytes (section 6.3.3).
    checksum = 0
    for i, byte in enumerate(entries):
        if i not in (2, 3):
            checksum = ((checksum & 1) << 15 | checksum >> 1) + byte & 0xFFFF
    struct.pack_into("<H", entries, 2, checksum)
    image[entry : entry + len(entries)] = entries
    return image


def test_walks_end_on_a_loop_and_say_so(tmp_path: Path) -> None:
    image = directory_loop()
    with px.open(image, "r+") as vol:
        for call in (
            lambda: list(vol.walk()),
            lambda: list(vol.walk("/", topdown=False)),
            lambda: vol.glob("**/f"),
            lambda: vol.copy_out("/", tmp_path / "out"),
            lambda: vol.rmtree("a"),
        ):
            with pytest.raises(px.CorruptImageError) as damage:
                call()
            assert damage.value.errno == errno.EUCLEAN
            assert damage.value.where is not None
        errors: list[OSError] = []
        assert [top for top, _, _ in vol.walk(onerror=errors.append)][:2] == ["/", "/a"]
        assert isinstance(errors[0], px.CorruptImageError)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)


def test_a_damaged_entry_is_reported_after_the_others(tmp_path: Path) -> None:
    image = bytearray(8 << 20)
    with px.format(image) as vol:
        vol.mkdir("d")
        vol.create_many("d", [f"{i}" for i in range(1000)])
        offset = vol.stat("d/500").entry_offset
    image[offset + 12] ^= 0xFF  # a time stamp: only the checksum tells (section 6.3.3)
    others = [f"{i}" for i in range(1000) if i != 500]
    with px.open(image, "r+") as vol:
        seen = []
        with pytest.raises(px.CorruptImageError) as damage:
            for entry in vol.scandir("d"):
                seen.append(entry.name)
        assert seen == others
        assert damage.value.filename == "d"
        assert damage.value.where is not None
        assert damage.value.where.offset == offset + 2  # where SetChecksum lies
        for call in (
            lambda: vol.listdir("d"),
            lambda: vol.stat("d/500"),
            lambda: vol.exists("d/500"),
            lambda: list(vol.walk()),
            lambda: vol.glob("d/*"),
            lambda: vol.copy_out("d", tmp_path / "out"),
            lambda: vol.rmtree("d"),
        ):
            with pytest.raises(px.CorruptImageError):
                call()
        errors: list[OSError] = []
        walked = list(vol.walk("d", onerror=errors.append))
        assert walked == [("d", [], others)]
        assert len(errors) == 1
        assert vol.isfile("d/499")
    assert not (tmp_path / "out").exists()
