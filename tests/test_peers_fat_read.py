"""What we write to FAT, others read: fsck.fat, mtools and a reader of the specification alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from peers import fat, trees
from peers.fat import GEOMETRIES, MIB, Geometry, fsck, fsck_allows, made, raw
from peers.tools import new_image
from peers.trees import Filler, ns

import pyexfat as px

TYPES = [Geometry(12, 4 * MIB, per_cluster=4), Geometry(16, 24 * MIB), Geometry(32, 40 * MIB)]


def filled(image: Path, kind: type[Filler] = Filler, **options: Any) -> Filler:
    """One of everything on a volume that is there; times are UTC."""
    env = px.Env(seed=1, clock=ns(2022, 2, 2))
    with px.open(image, "r+", tz="utc", env=env, **options) as volume:
        filler = kind(volume, seed=volume.cluster_size + volume.sector_size)
        filler.fill()
    return filler


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_others_read_what_we_write(tmp_path: Path, geometry: Geometry) -> None:
    image = made(tmp_path / "image", geometry)
    tree = fat.as_fat(filled(image).tree)
    found = raw(image)
    assert (found.bits, found.fats) == (geometry.bits, geometry.fats)
    assert fat.of_raw(found) == tree
    if fsck_allows(image):
        assert fsck(image) == len(tree)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_mtools_reads_what_we_write(tmp_path: Path, geometry: Geometry) -> None:
    image = made(tmp_path / "image", geometry)
    tree = filled(image, fat.Filler).tree
    seen = fat.mtools_tree(image, tmp_path / "out")
    # What the host does not keep: 10-ms times it could, an attribute it can't.
    assert fat.as_mtools_sees(seen) == fat.as_mtools_sees(tree)
    with px.open(image, tz="utc") as volume:
        assert trees.of_volume(volume) == fat.as_fat(tree)
        for path in ("pieces/a", "pieces/b", "sizes/0", "many/file 0001"):
            clusters = fat.mshowfat(image, f"/{path}")
            ours = [
                offset
                for extent in volume.extents(path)
                for offset in range(
                    extent.device_offset, extent.device_offset + extent.length, volume.cluster_size
                )
            ]
            heap = raw(image).heap
            assert [(offset - heap) // volume.cluster_size + 2 for offset in ours] == clusters


@pytest.mark.parametrize("geometry", TYPES, ids=str)
def test_all_kinds_are_on_the_disk(tmp_path: Path, geometry: Geometry) -> None:
    """That the others were shown what they were meant to see."""
    image = made(tmp_path / "image", geometry)
    filler = filled(image)
    found = raw(image)
    cluster = found.cluster_size
    for name in "ab":
        steps = [b - a for a, b in pairwise(found.tree[f"/pieces/{name}"].clusters)]
        assert any(step != 1 for step in steps)
    many = found.tree["/many"]
    assert len(many.clusters) > 2
    empty = found.tree["/sizes/0"]
    assert (empty.size, empty.first_cluster, empty.clusters) == (0, 0, [])
    kept = found.tree["/valid/kept size"]
    assert (kept.size, len(kept.clusters)) == (1000, -(-1000 // cluster))
    longest = found.tree["/names/" + "n" * 255]
    assert (longest.entries, longest.short) == (1 + 20, "NNNNNN~1")
    assert found.tree["/names/" + "😀" * 127 + "x"].entries == 21
    for path, item in filler.tree.items():
        entry = found.tree[f"/{path}"]
        assert entry.modified == item.modified // (2 * 10**9) * (2 * 10**9), path
        assert entry.accessed == item.modified // (86400 * 10**9) * (86400 * 10**9), path
        assert entry.created == ns(2022, 2, 2), path
        assert bool(entry.attributes & 1) == item.read_only, path
    assert found.tree["/sizes/511"].attributes == 0x06
    assert found.info_free in (None, found.free)


@pytest.mark.parametrize("geometry", TYPES, ids=str)
def test_mtools_sees_attributes_and_numbers(tmp_path: Path, geometry: Geometry) -> None:
    image = made(tmp_path / "image", geometry, "-n", "OURS", "-i", "1234abcd")
    with px.open(image, "r+", tz="utc") as volume:
        assert (volume.label, volume.serial) == ("OURS", 0x1234ABCD)
        volume.write_bytes("/plain.txt", b"12345")
        volume.mkdir("/dir")
        volume.set_attributes("/plain.txt", read_only=True, hidden=True, archive=False)
        volume.set_attributes("/dir", system=True)
        volume.label = "ANOTHER"
        free = volume.usage().free
    listed = fat.mtools("mattrib", "-i", image, "::/plain.txt", "::/dir")
    marks = {line.split("::/")[1]: line[:9].split() for line in listed.splitlines()}
    assert {path: set("".join(found)) for path, found in marks.items()} == {
        "plain.txt": {"R", "H"},
        "dir": {"S"},
    }
    known = fat.minfo(image)
    assert known["serial number"] == "1234ABCD"
    assert known["disk label"].strip('"').strip() == "ANOTHER"
    assert fat.mtools("mlabel", "-s", "-i", image, "::").strip() == "Volume label is ANOTHER"
    said = fat.mtools("mdir", "-i", image, "::/").replace(" ", "").replace("\xa0", "")
    assert f"{free}bytesfree" in said
    assert fat.mtools("mtype", "-i", image, "::/PLAIN.TXT") == "12345"
    assert fsck(image) == 2 + 1  # and the label


def test_names_long_and_short(tmp_path: Path) -> None:
    """What mdir lists in the two columns is what the short-name rules of Windows give."""
    image = made(tmp_path / "image", TYPES[1])
    names = {
        "README.TXT": ("README.TXT", ""),
        "readme2.txt": ("readme2.txt", ""),
        "ReadMe3.txt": ("README3.TXT", "ReadMe3.txt"),
        "noext": ("noext", ""),
        "long name.text": ("LONGNA~1.TEX", "long name.text"),
        "long name.texture": ("LONGNA~2.TEX", "long name.texture"),
        ".profile": ("PROFIL~1", ".profile"),
        "a.tar.gz": ("ATAR~1.GZ", "a.tar.gz"),
        "with+plus": ("WITH_P~1", "with+plus"),
        "x y": ("XY~1", "x y"),
    }
    with px.open(image, "r+", tz="utc") as volume:
        volume.mkdir("/d")
        for name in names:
            volume.write_bytes(f"/d/{name}", name.encode())
    listed = fat.mdir(image, "/d")
    assert {k: v[0] for k, v in listed.items() if k not in (".", "..")} == dict(names.values())
    for name, (short, _) in names.items():
        assert fat.mtools("mtype", "-i", image, f"::/d/{short}") == name


@pytest.mark.parametrize("fs", ["fat12", "fat16", "fat32"])
@pytest.mark.parametrize("sector", [512, 1024, 2048, 4096])
def test_volumes_that_we_have_made(tmp_path: Path, fs: str, sector: int) -> None:
    """Formatted and filled by us."""
    size = {"fat12": 4, "fat16": 64, "fat32": 300}[fs] * MIB
    image = new_image(tmp_path / "image", size)
    with px.format(image, fs, sector_size=sector, label="MADE", tz="utc") as volume:
        filler = Filler(volume, seed=sector)
        tree = fat.as_fat(filler.fill(many=60))
    found = raw(image)
    assert (f"fat{found.bits}", found.sector_size, found.label) == (fs, sector, "MADE")
    assert fat.of_raw(found) == tree
    assert fsck(image) == len(tree) + 1  # and the label


def test_same_env_same_bytes(tmp_path: Path) -> None:
    """Two images that were made and filled alike, with all that a Filler does."""
    one, two = (tmp_path / name for name in ("one", "two"))
    for image in (one, two):
        made(image, TYPES[2], "--invariant")
        filled(image)
    assert one.read_bytes() == two.read_bytes()


def test_time_zones(tmp_path: Path) -> None:
    """Stamps are local time: of the zone that is given, and of nobody's else."""
    image = made(tmp_path / "image", TYPES[0])
    moment = ns(2020, 6, 7, 8, 9, 10)
    with px.open(image, "r+", tz="+05:45") as volume:
        volume.write_bytes("/a", b"")
        volume.utime("/a", ns=(moment, moment))
    entry = raw(image, east=345).tree["/a"]
    assert entry.modified == moment
    at = entry.offset + 22
    stamp = image.read_bytes()[at : at + 2]
    # Local time 13:54:10: hour in the bits from 11, minute from 5, seconds by two.
    assert int.from_bytes(stamp, "little") == 13 << 11 | 54 << 5 | 5
    for tz, seen in (("utc", 345), (345, 0), (-60, 405)):
        with px.open(image, tz=tz) as volume:
            assert volume.stat("/a").st_mtime_ns == moment + seen * 60 * 10**9
    assert " 13:54 " in fat.mtools("mdir", "-i", image, "::/a")


# Numbers of fs/fat's own unit tests: date and time words of local times.
@pytest.mark.parametrize(
    ("moment", "date", "time", "tenths"),
    [
        (ns(1980, 1, 1), 33, 0, 0),
        (ns(2107, 12, 31, 23, 59, 58), 65439, 49021, 0),
        (ns(2100, 2, 28, 23, 59, 59), 120 << 9 | 2 << 5 | 28, 49021, 100),
        (ns(2100, 3, 1), 120 << 9 | 3 << 5 | 1, 0, 0),  # no 29th before it
        (ns(2000, 2, 29, 12, 0, 1, ms=990), 20 << 9 | 2 << 5 | 29, 12 << 11, 199),
        (ns(1970, 1, 1), 33, 0, 0),  # clamped
        (ns(2108, 1, 1), 65439, 49021, 199),
    ],
)
def test_words_of_time_stamps(
    tmp_path: Path, moment: int, date: int, time: int, tenths: int
) -> None:
    image = made(tmp_path / "image", TYPES[0])
    with px.open(image, "r+", tz="utc") as volume:
        volume.touch("/a")
        volume.utime("/a", ns=(moment, moment))
        volume.setattr("/a", created=moment)
    at = raw(image).tree["/a"].offset
    entry = image.read_bytes()[at : at + 32]
    words = [int.from_bytes(entry[i : i + 2], "little") for i in (14, 16, 18, 22, 24)]
    assert words == [time, date, date, time, date]
    assert entry[13] == tenths


def test_4_gib(tmp_path: Path) -> None:
    """A file of the largest size that there is, on a sparse image."""
    image = made(tmp_path / "image", Geometry(32, 9 * 1024 * MIB, per_cluster=64))
    most = (1 << 32) - 1
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/big", b"head")
        volume.truncate("/big", most)
        with volume.open("/big", "r+b") as file:
            file.seek(most - 4)
            file.write(b"tail")
        with pytest.raises(OSError, match="too large") as caught:
            volume.truncate("/big", most + 1)
        assert caught.value.errno == 27
        free = volume.usage().free_clusters
        with volume.open("/big", "r+b", buffering=0) as file:
            file.seek(most)
            with pytest.raises(OSError, match="too large"):
                file.write(b"x")
        assert volume.stat("/big").st_size == most
        assert volume.usage().free_clusters == free
        with pytest.raises(OSError, match="too large"):
            volume.fallocate("/big", 1 << 32, 1, keep_size=True)
        assert volume.stat("/big").allocated == 1 << 32
    assert sum(1 for _ in fat.mshowfat(image, "/big")) == (1 << 32) // (32 << 10)
    listed = fat.mdir(image)
    assert listed["big"] == ("", most)
    with px.open(image) as volume, volume.open("/big", "rb") as file:
        assert file.read(6) == b"head\0\0"
        file.seek(-6, 2)
        assert file.read() == b"\0\0tail"
    assert image.stat().st_blocks * 512 < 200 * MIB


POLICIES: list[dict[str, Any]] = [
    {"name_index": False},
    {"name_index": False, "name_filter": False},
    {"empty_hint": "off"},
    {"empty_hint": "one-shot", "entry_sync": "entry"},
    {"preallocate": False},
    {"free_scan": "element"},
    {
        "empty_hint": "off",
        "name_index": False,
        "name_filter": False,
        "entry_sync": "entry",
        "preallocate": False,
        "free_scan": "block",
    },
]


@pytest.mark.parametrize("geometry", TYPES, ids=str)
def test_every_policy_writes_the_same_bytes(tmp_path: Path, geometry: Geometry) -> None:
    """Names, aliases, places of entries and clusters do not depend on how they were found."""
    image = made(tmp_path / "image", geometry, "--invariant")
    filled(image)
    first = image.read_bytes()
    for policy in POLICIES:
        made(image, geometry, "--invariant")
        filled(image, policy=policy)
        assert image.read_bytes() == first, policy
