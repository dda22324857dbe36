"""What mtools writes to FAT, we read and change; then mtools and fsck.fat read it again."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from peers import fat, trees
from peers.fat import GEOMETRIES, MIB, SHORT_NAMES, Geometry, fsck, fsck_allows, made, mtools, raw
from peers.trees import Tree, ns

import pyexfat as px

TYPES = [Geometry(12, 4 * MIB, per_cluster=4), Geometry(16, 24 * MIB), Geometry(32, 40 * MIB)]
NAMES = [
    *SHORT_NAMES,
    "long name with spaces.text",
    "Ünïcödé.TXT",
    "ÄÖÜ.TXT",
    "日本語.txt",
    "Новый текстовый документ.txt",
    "n" * 120,
    "comma,semi;plus+eq=[x]{y}'~!@#$%^&()-",
    ".hidden",
    "two.dots.txt",
]


def host_tree(folder: Path, seed: int) -> None:
    """Files of the host for mcopy: names, sizes, depths, times."""
    chance = random.Random(seed)
    sizes = [0, 1, 511, 512, 513, 4096, 40_000]
    (folder / "deep" / "deeper" / "deepest").mkdir(parents=True)
    (folder / "names").mkdir()
    (folder / "empty").mkdir()
    for i, name in enumerate(NAMES):
        (folder / "names" / name).write_bytes(chance.randbytes(i * 37))
    for size in sizes:
        (folder / f"size {size}").write_bytes(chance.randbytes(size))
        (folder / "deep" / "deeper" / f"{size}.bin").write_bytes(chance.randbytes(size))
    for i, path in enumerate(sorted(folder.rglob("*"), reverse=True)):
        moment = ns(2001, 2, 3) + i * 86_400_000_000_000 + 2_000_000_000
        os.utime(path, ns=(moment, moment))


def written_by_mtools(image: Path, folder: Path) -> None:
    """Everything in the folder, then what mren, mmove, mdel and mattrib do to it."""
    entries = sorted(folder.iterdir())
    mtools("mcopy", "-s", "-p", "-m", "-Q", "-i", image, *entries, "::/")
    mtools("mren", "-i", image, "::/size 511", "::/renamed by mtools")
    mtools("mmove", "-i", image, "::/size 513", "::/deep")
    mtools("mdel", "-i", image, "::/deep/deeper/1.bin")
    mtools("mmd", "-i", image, "::/made by mmd", "::/MMD2")
    mtools("mattrib", "+r", "-i", image, "::/names/A.B")
    mtools("mattrib", "+h", "+s", "-i", image, "::/names/a")


def expected(folder: Path) -> Tree:
    """The host's tree after the same."""
    tree = trees.of_host(folder)
    tree["renamed by mtools"] = tree.pop("size 511")
    tree["deep/size 513"] = tree.pop("size 513")
    del tree["deep/deeper/1.bin"]
    for name in ("made by mmd", "MMD2"):
        tree[name] = trees.Item(True, 0, "", 0)
    return tree


def content(tree: Tree) -> dict[str, tuple[bool, int, str]]:
    """Without times and attributes."""
    return {path: (item.is_dir, item.size, item.digest) for path, item in tree.items()}


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_we_change_what_mtools_writes(tmp_path: Path, geometry: Geometry) -> None:
    image = made(tmp_path / "image", geometry)
    folder = tmp_path / "in"
    host_tree(folder, seed=geometry.bits)
    written_by_mtools(image, folder)
    tree = expected(folder)
    with px.open(image, "r+", tz="utc") as volume:
        seen = trees.of_volume(volume)
        assert content(seen) == content(tree)
        for path, item in tree.items():
            if not item.is_dir:
                assert seen[path].modified == item.modified // (2 * 10**9) * (2 * 10**9), path
        assert seen["names/A.B"].read_only
        assert volume.stat("names/a").hidden
        assert volume.stat("names/a").system
        changed = trees.change(volume, seen, seed=geometry.bits)
    want = fat.as_fat(changed.tree)
    with px.open(image, tz="utc") as volume:
        assert trees.of_volume(volume) == want
    found = raw(image)
    assert fat.of_raw(found) == want
    if fsck_allows(image):
        assert fsck(image) == len(want)
    again = fat.mtools_tree(image, tmp_path / "out")
    assert fat.as_mtools_sees(again) == fat.as_mtools_sees(want)


@pytest.mark.parametrize("geometry", TYPES, ids=str)
def test_mtools_goes_on_where_we_stopped(tmp_path: Path, geometry: Geometry) -> None:
    """Names of ours and of mtools in turn, in one directory: no alias twice, no room lost."""
    image = made(tmp_path / "image", geometry)
    file = tmp_path / "file"
    names = []
    for turn in range(8):
        file.write_bytes(bytes([turn]) * 700)
        ours, theirs = f"longer name of {turn}", f"longer name by mtools {turn}"
        with px.open(image, "r+", tz="utc") as volume:
            volume.makedirs("/d", exist_ok=True)
            volume.write_bytes(f"/d/{ours}", bytes([turn]) * 700)
        mtools("mcopy", "-i", image, file, f"::/d/{theirs}")
        names += [ours, theirs]
        if turn % 3 == 2:
            gone = names.pop(turn)
            mtools("mdel", "-i", image, f"::/d/{gone}")
            with px.open(image, "r+") as volume:
                volume.unlink(f"/d/{names.pop(0)}")
    found = raw(image)
    assert sorted(found.children["/d"]) == sorted(names)
    shorts = [found.tree[f"/d/{name}"].short for name in names]
    assert len(set(shorts)) == len(names)
    with px.open(image) as volume:
        for name, short in zip(names, shorts, strict=True):
            turn = int(name.split()[-1])
            assert volume.read_bytes(f"/d/{name}") == bytes([turn]) * 700
            assert volume.read_bytes(f"/d/{short}") == bytes([turn]) * 700
            assert mtools("mtype", "-i", image, f"::/d/{short}") == chr(turn) * 700
    assert fsck(image) == 1 + len(names)


def test_codepage_of_mtools(tmp_path: Path) -> None:
    """Short names with bytes beyond ASCII, by mtools' code page (850) and ours."""
    image = made(tmp_path / "image", TYPES[1])
    (tmp_path / "file").write_bytes(b"content")
    mtools("mcopy", "-i", image, tmp_path / "file", "::/ÜBER.TXT")
    entry = raw(image, codepage="cp850").tree["/ÜBER.TXT"]
    assert entry.raw_short == b"\x9aBER    TXT"  # Ü
    with px.open(image, "r+", codepage=850) as volume:
        assert volume.listdir() == ["ÜBER.TXT"]
        volume.write_bytes("/ØRE.TXT", b"ours")  # not in 437
        assert volume.read_bytes("/über.txt") == b"content"
    assert raw(image, codepage="cp850").tree["/ØRE.TXT"].raw_short[:1] in (b"\x9d", b"\xf8", b"R")
    assert mtools("mtype", "-i", image, "::/ØRE.TXT") == "ours"


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_a_label_of_others(tmp_path: Path, bits: int) -> None:
    image = made(tmp_path / "image", TYPES[{12: 0, 16: 1, 32: 2}[bits]], "-n", "FIRST")
    mtools("mlabel", "-i", image, "::SECOND ONE")
    with px.open(image, "r+") as volume:
        assert volume.label == "SECOND ONE"
        assert volume.listdir() == []
        volume.write_bytes("/second one", b"no label")
    assert mtools("mlabel", "-s", "-i", image, "::").strip() == "Volume label is SECOND ONE"
    assert fsck(image) == 2
