"""What we write, others read: fsck.exfat, dump.exfat and exfat-fuse, with every cluster size."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from model.rawexfat import RawVolume, read_image
from peers import trees
from peers.tools import GIB, KIB, MIB, dumped, fsck_counts, fuse, new_image
from peers.trees import Filler, Tree, ns

import pyexfat as px

# Every cluster size, and every sector size with its smallest cluster and a few others.
GEOMETRIES = [
    *((512, 512 << shift) for shift in range(17)),
    *((sector, sector) for sector in (1024, 2048, 4096)),
    (1024, 32 * KIB),
    (2048, 8 * KIB),
    (4096, 128 * KIB),
    (4096, 32 * MIB),
]


def filled(image: Path, sector: int, cluster: int, **options: Any) -> Filler:
    """A new image with one of everything."""
    new_image(image, max(24 * MIB, 500 * cluster))
    # A clock that cannot be the mtime of anything by chance.
    env = px.Env(seed=cluster + sector, clock=ns(2022, 2, 2))
    with px.format(
        image, sector_size=sector, cluster_size=cluster, label="ours", env=env, **options
    ) as volume:
        filler = Filler(volume, seed=cluster + sector)
        filler.fill()
    return filler


def directories(tree: Tree) -> int:
    return 1 + sum(item.is_dir for item in tree.values())


@pytest.mark.parametrize(("sector", "cluster"), GEOMETRIES)
def test_others_read_what_we_write(tmp_path: Path, sector: int, cluster: int) -> None:
    image = tmp_path / "image"
    filler = filled(image, sector, cluster)
    tree = filler.tree
    assert fsck_counts(image) == (directories(tree), len(tree) + 1 - directories(tree))
    shown = dumped(image)
    assert shown["Cluster size"] == str(cluster)
    with px.open(image) as volume:
        assert shown["Total Clusters"] == str(volume.usage().clusters)
        assert shown["Free Clusters"] == str(volume.usage().free_clusters)
    assert shown["Volume label"] == "ours"
    if sector == 4096 and cluster == 32 * MIB:
        return  # exfat-fuse reads large directories entry by entry; once is enough
    with fuse(image, tmp_path / "mounted", "ro") as mounted:
        seen = trees.of_host(mounted)
    padded = filler.padded
    assert trees.as_fuse_sees(seen, padded) == trees.as_fuse_sees(tree, padded)


def raw(image: Path) -> RawVolume:
    found = read_image(image.read_bytes())
    assert [str(violation) for violation in found.violations] == []
    return found


@pytest.mark.parametrize(("sector", "cluster"), [(512, 512), (512, 4 * KIB), (2048, 16 * KIB)])
def test_all_kinds_are_on_the_disk(tmp_path: Path, sector: int, cluster: int) -> None:
    """That the others were shown what they were meant to see: chains, valid lengths, stamps."""
    image = tmp_path / "image"
    tree = filled(image, sector, cluster).tree
    found = raw(image)
    assert {path.strip("/") for path in found.tree} - {""} == set(tree)
    kinds = {(entry.is_dir, entry.contiguous) for entry in found.tree.values() if entry.size}
    many = found.tree["/many"]
    assert many.is_dir
    if cluster <= 4 * KIB:  # else all names have room in the first cluster
        assert kinds == {(False, False), (False, True), (True, False), (True, True)}
        assert not many.contiguous
        assert len(many.clusters) > 2
    for name in "ab":
        pieces = found.tree[f"/pieces/{name}"]
        assert not pieces.contiguous
        steps = [b - a for a, b in pairwise(pieces.clusters)]
        assert any(step != 1 for step in steps)
    head, none = found.tree["/valid/head"], found.tree["/valid/none"]
    assert (head.valid, head.size) == (1000, 2 * cluster + 5)
    assert (none.valid, none.size) == (0, 2 * cluster + 5)
    assert found.tree["/valid/allocated"].valid == 1000
    empty = found.tree["/sizes/0"]
    assert (empty.size, empty.first_cluster, empty.contiguous) == (0, 0, False)
    for path, item in tree.items():
        entry = found.tree[f"/{path}"]
        assert entry.modified == item.modified, path
        assert entry.accessed == item.modified // (2 * 10**9) * (2 * 10**9), path
        assert entry.created == ns(2022, 2, 2), path
        assert bool(entry.attributes & 0x01) == item.read_only, path
    assert found.tree["/sizes/511"].attributes == 0x06
    assert not found.dirty


def test_two_fats(tmp_path: Path) -> None:
    """Which neither fsck.exfat nor exfat-fuse knows; the kernel is asked elsewhere."""
    image = tmp_path / "image"
    tree = filled(image, 512, 4 * KIB, fats=2).tree
    found = raw(image)
    assert {path.strip("/") for path in found.tree} - {""} == set(tree)


def test_same_env_same_bytes(tmp_path: Path) -> None:
    """Two images that were made and filled alike, with all that a Filler does."""
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    for image in (one, two):
        filled(image, 512, 4 * KIB)
    assert one.read_bytes() == two.read_bytes()
    new_image(other, one.stat().st_size)
    with px.format(other, cluster_size=4 * KIB, label="ours", env=px.Env(seed=1)) as volume:
        Filler(volume, seed=4 * KIB + 512).fill()
    assert one.read_bytes() != other.read_bytes()


def test_lone_surrogates_do_not_upset_fsck(tmp_path: Path) -> None:
    image = new_image(tmp_path / "image", 8 * MIB)
    names = ["\ud800", "a\udfffb", "\udc80" * 255, "\ud83d"]
    with px.format(image) as volume:
        for name in names:
            volume.write_bytes(f"/{name}", b"content")
    assert fsck_counts(image) == (1, len(names))
    with px.open(image) as volume:
        assert sorted(volume.listdir()) == sorted(names)


def test_a_directory_of_many_clusters(tmp_path: Path) -> None:
    """Thousands of names, most of them removed again, and others in their places."""
    image = new_image(tmp_path / "image", 48 * MIB)
    names = [f"{i:05} with a name of some length" for i in range(6000)]
    gone = [name for i, name in enumerate(names) if i % 5]
    others = [f"{i:05} other" for i in range(3000)]
    with px.format(image, cluster_size=512) as volume:
        volume.mkdir("/d")
        volume.create_many("/d", names[:3000])
        volume.write_bytes("/in the way", bytes(512))
        volume.create_many("/d", names[3000:])
        grown = volume.stat("/d").st_size
        volume.remove_many("/d", gone)
        volume.create_many("/d", others)
        assert volume.stat("/d").st_size == grown
    left = sorted(set(names) - set(gone)) + others
    assert fsck_counts(image) == (2, 1 + len(left))
    with fuse(image, tmp_path / "mounted", "ro") as mounted:
        assert sorted(path.name for path in (mounted / "d").iterdir()) == sorted(left)


def test_time_zones(tmp_path: Path) -> None:
    """A stamp with an offset is the same moment; exfat-fuse shows it so where it knows offsets."""
    image = new_image(tmp_path / "image", 8 * MIB)
    moment = ns(2020, 6, 7, 8, 9, 10, ms=110)
    with px.format(image, utc_offset=345) as volume:
        volume.write_bytes("/a", b"")
        volume.utime("/a", ns=(moment, moment))
    entry = raw(image).tree["/a"]
    assert entry.modified == moment
    stamp = image.read_bytes()[entry.offset + 12 :][:4]
    # Local time 13:54:10: hour in the bits from 11, minute from 5, seconds by two.
    assert int.from_bytes(stamp[:2], "little") == 13 << 11 | 54 << 5 | 5
    assert image.read_bytes()[entry.offset + 23] == 0x80 | 345 // 15
    assert fsck_counts(image) == (1, 1)


def test_a_huge_volume(tmp_path: Path) -> None:
    """Clusters beyond 4 TiB, and a file that is larger than any disk of the machine."""
    image = new_image(tmp_path / "image", 12 * 1024 * GIB)
    with px.format(image, label="huge") as volume:
        volume.write_bytes("/first", b"first")
        volume.truncate("/first", 5 * 1024 * GIB)
        volume.write_bytes("/behind", b"behind it")
        volume.mkdir("/there")
        volume.write_bytes("/there/last", b"last")
        assert volume.extents("/behind")[0].device_offset > 5 * 1024 * GIB
    assert fsck_counts(image) == (2, 3)
    with fuse(image, tmp_path / "mounted", "ro") as mounted:
        assert (mounted / "first").stat().st_size == 5 * 1024 * GIB
        with (mounted / "first").open("rb") as file:
            assert file.read(10) == b"first" + bytes(5)
            file.seek(4 * 1024 * GIB + 1)
            assert file.read(3) == bytes(3)
        assert (mounted / "behind").read_bytes() == b"behind it"
        assert (mounted / "there" / "last").read_bytes() == b"last"
