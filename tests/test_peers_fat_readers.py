"""What we write to FAT, libfsfat and dissect.fat read: names, sizes, times, attributes, bytes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from model.rawfat import RawVolume
from peers import fat, readers, trees
from peers.fat import GEOMETRIES, MIB, Geometry, made, raw
from peers.tools import new_image
from peers.trees import Filler, Tree, ns

import pyexfat as px

TYPES = [Geometry(12, 4 * MIB, per_cluster=4), Geometry(16, 24 * MIB), Geometry(32, 40 * MIB)]
CREATED = ns(2022, 2, 2, 3, 4, 5, ms=670)


def stored(found: RawVolume, path: str) -> str:
    """The path with names in upper case where they have no long entries."""
    names: list[str] = []
    at = ""
    for part in path.split("/"):
        at += f"/{part}"
        names.append(part if found.tree[at].has_long else found.tree[at].short)
    return "/".join(names)


def check(image: Path, tree: Tree, label: str = "", serial: int | None = None) -> None:
    """Both readers see the tree, and what else the independent reader finds in the entries."""
    found = raw(image)
    seen, bits, said = readers.libfsfat(image)
    assert (bits, said) == (found.bits, label)
    assert readers.content({path: one.item for path, one in seen.items()}) == readers.content(tree)
    for path, one in seen.items():
        assert one.attributes == found.tree[f"/{path}"].attributes & readers.ATTRIBUTES, path

    seen, bits, said, number = readers.dissect(image)
    assert (bits, said) == (found.bits, label or "NO NAME")
    assert serial is None or number == serial
    known = {stored(found, path): path for path in tree}
    assert {path: one.item for path, one in seen.items()} == {
        where: tree[path] for where, path in known.items()
    }
    for where, one in seen.items():
        entry = found.tree[f"/{known[where]}"]
        assert one.attributes == entry.attributes & readers.ATTRIBUTES, where
        assert (one.created, one.accessed) == (entry.created, entry.accessed), where
        if entry.short.isascii():
            assert one.short == entry.short, where


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_two_readers_see_what_we_write(tmp_path: Path, geometry: Geometry) -> None:
    image = made(tmp_path / "image", geometry, "-n", "LABEL 12345", "-i", "1234abcd")
    env = px.Env(seed=1, clock=CREATED)
    with px.open(image, "r+", tz="utc", env=env) as volume:
        filler = Filler(volume, seed=geometry.bits)
        filler.fill(many=100)
        volume.set_attributes("sizes/1", hidden=True, archive=False)
        volume.set_attributes("sizes/511", system=True, hidden=True)
        volume.set_attributes("many", hidden=True)
    check(image, fat.as_fat(filler.tree), "LABEL 12345", 0x1234ABCD)
    seen, *_ = readers.dissect(image)
    assert {one.created for one in seen.values()} == {CREATED // 10**7 * 10**7}


@pytest.mark.parametrize("geometry", TYPES, ids=str)
def test_two_readers_see_what_we_change(tmp_path: Path, geometry: Geometry) -> None:
    """Appended, overwritten, cut, removed, renamed, moved: pieces and holes everywhere."""
    image = made(tmp_path / "image", geometry)
    with px.open(image, "r+", tz="utc") as volume:
        filler = Filler(volume, seed=7)
        filler.sizes()
        filler.names()
        filler.stamps()
        changed = trees.change(volume, filler.tree, seed=8)
        # And one whose second half lies before its first, on a volume that is full.
        data = changed.random.randbytes(20_000)
        volume.write_bytes("/before", data[:10_000])
        volume.write_bytes("/behind", data[:10_000])
        volume.touch("/rest")
        volume.truncate("/rest", volume.usage().free)
        volume.unlink("/before")
        with volume.open("/behind", "ab") as file:
            file.write(data[10_000:])
        volume.unlink("/rest")
        volume.utime("/behind", ns=(0, 0))
        changed.note("behind", data)
        changed.tree["behind"] = replace(changed.tree["behind"], modified=ns(1980, 1, 1))
    check(image, fat.as_fat(changed.tree))
    clusters = [entry.clusters for entry in raw(image).tree.values()]
    assert any(b < a for row in clusters for a, b in pairwise(row))  # also backwards


@pytest.mark.parametrize("fs", ["fat12", "fat16", "fat32"])
@pytest.mark.parametrize("sector", [512, 4096])
def test_two_readers_see_volumes_that_we_have_made(tmp_path: Path, fs: str, sector: int) -> None:
    size = {"fat12": 4, "fat16": 64, "fat32": 300}[fs] * MIB
    image = new_image(tmp_path / "image", size)
    options = {"sector_size": sector, "label": "MADE", "serial": 0xFEED0042}
    with px.format(image, fs, tz="utc", **options) as volume:  # type: ignore[arg-type]
        tree = fat.as_fat(Filler(volume, seed=sector).fill(many=60))
    check(image, tree, "MADE", 0xFEED0042)
