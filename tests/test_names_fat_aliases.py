"""Short names of long ones on FAT: no two alike, found without one walk for each ~N."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from peers.fat import fsck, raw, small
from test_names_fat import write

import pyexfat as px

# Where names are looked for: by the index, by the filter, by walks alone.
LOOKUPS: list[dict[str, Any]] = [
    {},
    {"name_index": False},
    {"name_index": False, "name_filter": False},
]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An empty FAT16 volume."""
    return small(16, tmp_path / "image")


# ---- aliases ----

LISTS = [
    ["FirstNet", "FirstNet_American_Samoa", "FirstNet_Guam_CNMI"],
    ["bundle.jar", "bundle.jar-embedded"],
    ["a.dtbo", "a.dtb", "a~1.dtb", "a.dtbx"],
    ["BBB-360-01.png", "BBB-360-02.png", "BBB-360-1.png", "BBB-36~1.PNG"],
]


@pytest.mark.parametrize("names", LISTS, ids=lambda names: names[0])
@pytest.mark.parametrize("directories", [False, True])
def test_pyfatfs_45_go_diskfs_71_aliases_in_every_order(
    tmp_path: Path, names: list[str], directories: bool
) -> None:
    """No alias is another's, nor a name that another answers to."""
    for number, order in enumerate(itertools.permutations(names)):
        image = small(12, tmp_path / f"image {number}")
        refused = []
        with px.open(image, "r+", tz="utc") as volume:
            for name in order:
                if volume.exists(f"/{name}"):  # an alias of another took it: it is that other's
                    refused.append(name)
                    with pytest.raises(FileExistsError):
                        volume.mkdir(f"/{name}")
                    continue
                if directories:
                    volume.mkdir(f"/{name}")
                    volume.write_bytes(f"/{name}/inside", name.encode())
                else:
                    volume.write_bytes(f"/{name}", name.encode())
        assert all("~" in name for name in refused)
        found = raw(image)  # which knows duplicates of long and short names
        made_names = [name for name in order if name not in refused]
        assert set(found.children["/"]) == set(made_names)
        shorts = [found.tree[f"/{name}"].short for name in made_names]
        assert len(set(shorts)) == len(made_names)
        below = "/inside" if directories else ""
        with px.open(image) as volume:
            for name, short in zip(made_names, shorts, strict=True):
                for spelling in (name, name.upper(), name.lower(), short, short.lower()):
                    assert volume.read_bytes(f"/{spelling}{below}") == name.encode(), spelling
        assert fsck(image) == len(made_names) * (2 if directories else 1)


def test_the_name_itself_is_never_an_alias(image: Path) -> None:
    """pyfatfs gave FIRSTNET to another, so that "FirstNet" opened that one."""
    write(image, ["FirstNet_Guam_CNMI", "FirstNet_American_Samoa", "FirstNet"])
    found = raw(image)
    assert found.tree["/FirstNet_Guam_CNMI"].short == "FIRSTN~1"
    assert found.tree["/FirstNet_American_Samoa"].short == "FIRSTN~2"
    assert found.tree["/FirstNet"].short == "FIRSTNET"


def test_an_alias_is_a_name_that_is_taken(image: Path) -> None:
    """One that somebody has typed, long or short, is not given to others."""
    write(image, ["LONGNA~1.TXT", "longna~2.txt", "LongNa~3.txt", "longname of it.txt"])
    found = raw(image)
    assert found.tree["/longname of it.txt"].short == "LONGNA~4.TXT"
    with px.open(image, "r+") as volume:
        # … and an alias that is taken is no free name.
        with pytest.raises(FileExistsError):
            volume.mkdir("/longna~4.TXT")
        volume.write_bytes("/LONGNA~4.TXT", b"the same file")
        assert volume.read_bytes("/longname of it.txt") == b"the same file"
        assert len(volume.listdir()) == 4
        volume.rename("/LONGNA~4.TXT", "/other.txt")
        assert sorted(volume.listdir())[-1] == "other.txt"


def test_a_long_name_that_is_anothers_alias_in_form(image: Path) -> None:
    """A long name can look like a short one whose bytes are others' (here by its case)."""
    write(image, ["Abcdef~1.Txt"])
    write(image, ["abcdefgh ijkl.txt"])
    found = raw(image)
    assert found.tree["/Abcdef~1.Txt"].short == "ABCDEF~1.TXT"
    assert found.tree["/abcdefgh ijkl.txt"].short == "ABCDEF~2.TXT"


@pytest.mark.parametrize("policy", LOOKUPS, ids=str)
def test_200_names_and_one_alias_freed_and_used_again(image: Path, policy: dict[str, Any]) -> None:
    names = [f"prefix {i:03}.txt" for i in range(200)]
    with px.open(image, "r+", tz="utc") as volume:
        volume.mkdir("/d")
    write(image, names, "/d")
    before = raw(image)
    shorts = {before.tree[f"/d/{name}"].short: name for name in names}
    assert len(shorts) == 200
    assert {"PREFIX~1.TXT", "PREFIX~2.TXT", "PREFIX~3.TXT", "PREFIX~4.TXT"} < set(shorts)
    assert all(short[:2] == "PR" and short[6] == "~" for short in shorts)
    gone = shorts["PREFIX~3.TXT"]
    with px.open(image, "r+", tz="utc", policy=policy) as volume:
        for short, name in shorts.items():
            assert volume.read_bytes(f"/d/{short}") == name.encode()
        volume.unlink(f"/d/{gone}")
        with pytest.raises(FileNotFoundError):
            volume.stat("/d/PREFIX~3.TXT")
        volume.write_bytes("/d/prefix new.txt", b"new")
        assert volume.read_bytes("/d/PREFIX~3.TXT") == b"new"
        volume.rename("/d/prefix new.txt", "/d/another.text")  # frees it, too
        volume.write_bytes("/d/prefix newer.txt", b"newer")
        assert volume.read_bytes("/d/PREFIX~3.TXT") == b"newer"
        volume.rename("/d/prefix newer.txt", "/d/other prefix.txt")  # in its place
        volume.write_bytes("/d/prefix new.txt", b"new")
        assert volume.read_bytes("/d/PREFIX~3.TXT") == b"new"
    assert raw(image).tree["/d/prefix new.txt"].short == "PREFIX~3.TXT"
    assert fsck(image) == 203


@pytest.mark.parametrize("policy", LOOKUPS, ids=str)
def test_beginnings_are_each_directory_s_own(image: Path, policy: dict[str, Any]) -> None:
    """Also of one that comes into the place of another, be that gone or moved."""

    def fill(directory: str) -> None:
        volume.mkdir(directory)
        volume.create_many(directory, [f"prefix {i}" for i in range(6)])
        for i in range(1, 5):
            assert volume.stored_name(f"{directory}/PREFIX~{i}") == f"prefix {i - 1}"
        assert not volume.exists(f"{directory}/PREFIX~5")

    with px.open(image, "r+", tz="utc", policy=policy) as volume:
        fill("/one")
        fill("/two")
        volume.rmtree("/one")
        fill("/one")
        volume.rename("/one", "/two/one")
        fill("/one")
        volume.create_many("/two/one", ["prefix x", "prefix y"])
        assert not volume.exists("/two/one/PREFIX~5")
    raw(image)


def visits(tmp_path: Path, count: int, policy: dict[str, Any]) -> list[int]:
    """Entries visited for each tenth of so many names with the same first six letters."""
    image = small(32, tmp_path / "crowd")
    with px.open(image, "r+", policy=policy, tz="utc") as volume:
        volume.mkdir("/d")
        seen = []
        for i in range(count):
            if i % (count // 10) == 0:
                seen.append(volume.counters.entries_visited)
            volume.touch(f"/d/prefix {i:05}")
        seen.append(volume.counters.entries_visited)
    found = raw(image)
    shorts = {found.tree[f"/d/prefix {i:05}"].raw_short for i in range(count)}
    assert len(shorts) == count
    return [b - a for a, b in itertools.pairwise(seen)]


def test_go_diskfs_71_10000_names_with_one_beginning(tmp_path: Path) -> None:
    """Linear with the index: each create looks at a handful of entries, the last as the first."""
    by_tenth = visits(tmp_path, 10_000, {})
    assert max(by_tenth) <= 4 * 1000


@pytest.mark.parametrize(
    ("policy", "passes"),
    [
        ({"name_index": False}, 0.2),
        ({"name_index": False, "name_filter": False}, 2.3),
    ],
)
def test_without_an_index_a_pass_finds_all_collisions(
    tmp_path: Path, policy: dict[str, Any], passes: float
) -> None:
    """One for the lookup, one for the alias, not one for each ~N; a filter saves nearly all."""
    count = 1000
    by_tenth = visits(tmp_path, count, policy)
    for tenth, seen in enumerate(by_tenth):
        entries = 3 * (tenth + 1) * count // 10  # two long entries and the short one
        assert seen <= passes * count // 10 * (entries + 32), tenth


def test_every_policy_makes_the_same_names(tmp_path: Path) -> None:
    """Hash tails depend on the name alone."""
    names = [f"prefix {i:03}" for i in range(60)]
    shorts = []
    for policy in ({}, {"name_index": False}, {"name_index": False, "name_filter": False}):
        image = small(16, tmp_path / "image")
        write(image, names, policy=policy)
        found = raw(image)
        shorts.append([found.tree[f"/{name}"].raw_short for name in names])
    assert shorts[0] == shorts[1] == shorts[2]
