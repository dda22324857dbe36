"""FAT images made by others (Windows, DOS, macOS, cameras, test suites) and broken on purpose."""

from __future__ import annotations

import faulthandler
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from model.rawfat import RawVolume, read_image
from peers import fat, trees
from peers.fat import MIB, fsck
from peers.images import row, unpack
from peers.tools import run

import pyexfat as px

# Good ones and their labels; what is against the rules all the same is in KNOWN.
SMALL = {
    "dfir-fat12": "",
    "dfir-fat16": "",
    "dfir-fat16_moved": "",
    "dfir-fat32_small": "",
    "dfir-fat_unusual_cluster": "",
    "fatfs-golden-fmt12": "",
    "fatforensic-fat12": "FAT12",
    "rustfatfs-fat12": "Test!",
    "rustfatfs-fat16": "Test!",
    "simplefatfs-minfs": "TEST FS",
    "simplefatfs-fat12": "",
    "velociraptor-small": "",
    "keramics-fat16": "FAT16_TEST",
    "hatari-blank-a": "",
    "msx-ktst31": "",
    "freedos-virtualxt": "FD13-BOOT",
    "freedos722": "FREEDOS",
    "hxc-fat720": "",
    "hxc-fat1440": "",
    "fat32lib-fat32": "testdisk",
    "fat32lib-umlauts-label": "XÄÖÜÄÖÜX",
    "gofat-fat32-invalid-sectors-per-cluster": "",
    "blkid-fat32_xp_label1": "LABEL1",
    "blkid-fat32_xp_none_mlabel_label1": "LABEL1",
    **{f"syz-vfat_{n}": "SYZKALLER" for n in (0, 3, 7, 9, 11, 14, 28, 31, 44)},
    "syz-msdos_0": "SYZKALLER",
    "syz-msdos_2": "SYZKALLER",
    "dosfstools-mkfs-fat32_1_bad_block": "TESTFAT32",
}
MIDDLE = {
    "dfir-fat_deleted_dir": "",
    "dfir-fat_lfn_test": "",
    "dfir-fat32_loop": "",
    "fatfs-golden-fmt32": "",
    "fatfs-golden-torture32": "",
    "keramics-fat32": "FAT32_TEST",
    "jnode-fat32": "",
    "asyncfatfs-fat16_100mb": "BLANKTEST",
}
LARGE = {
    "debugfatfs-fat32": "CCCCCCCCCCC",
    "gofat-fat32": "",
    "dosfstools-referenceFAT16": "TESTFAT16",
    "dosfstools-referenceFAT32": "TESTFAT32",
    "dosfstools-referenceFAT32mbr": "TESTFAT32",
    "dosfstools-mkfs-fat32_2_res_sects": "TESTFAT32",
    "dosfstools-mkfs-fat32_4K": "TEST4K",
    "asyncfatfs-fat16_2gb": "BLANKIMAGE",
}
GOOD = SMALL | MIDDLE | LARGE
KNOWN = {
    "fat32lib-umlauts-label": {"label"},  # the boot sector has another
    "blkid-fat32_xp_label1": {"label"},
    "freedos722": {"label"},
    "simplefatfs-fat12": {"dirty"},
    "dfir-fat_lfn_test": {"long name"},
    "dfir-fat32_loop": {"after end", "chain long", "dot entries"},
}
# fls goes on behind the end of a directory, where two more names are.
BEHIND_THE_END = {"dfir-fat32_loop": 2}
# FAT32 by the layout, FAT12 by the count, by which mtools goes.
FEW_CLUSTERS = {"dfir-fat32_small", "dosfstools-mkfs-fat32_1_bad_block"} | {
    f"syz-vfat_{n}" for n in (3, 9, 14, 28, 44)
}
NO_ROOM = {"dfir-fat12", "dfir-fat16", "syz-vfat_11"}  # in the root directory, or at all
BROKEN = [
    "gofat-fat16-invalid-files",
    "dosfstools-check-fat12_first_cluster",
    "dosfstools-check-fat32_first_cluster",
    "dosfstools-check-fat32_dos_cln_shut",
    "dosfstools-check-label-different",
    "dosfstools-check-duplicate_names",
    "dosfstools-check-encryption_with_duplicate_dirent",
    "dosfstools-check-huge",
    "syzrepro-vfat-20c4a7b5a6f4",
    "syzrepro-vfat-304bc4c76f40",
    "syzrepro-vfat-607ad2b77fe8",
    "syzrepro-vfat-6a8731e10e1b",
    "syzrepro-vfat-7431ef792b4c",
    "syzrepro-msdos-ea432eadbc95",
    "jnode-makeboot",
]


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Whatever is on an image, nothing may take for ever."""
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def raw(image: Path, name: str = "") -> RawVolume:
    offset = fat.facts(name).offset if name else 0
    return read_image(image.read_bytes()[offset:])


def digest_of(image: Path) -> str:
    with image.open("rb") as file:
        return trees.hash_stream(file.read)


# ---- good ones ----


@pytest.mark.parametrize("name", GOOD)
def test_good_images_agree_with_the_index(name: str, tmp_path: Path) -> None:
    known = fat.facts(name)
    image = unpack(name, tmp_path)
    with px.open(image, tz="utc") as volume:
        usage = volume.usage()
        assert volume.sector_size == known.sector
        assert volume.cluster_size == known.sector * known.per_cluster
        assert usage.clusters == known.clusters
        assert volume.label == GOOD[name]
        count = sum(len(below) + len(names) for _, below, names in volume.walk())
    live = re.search(r"fls: rc=0 (\d+) live", row(name)["peers_say"])
    if live is not None:  # the label is one more to it
        behind = BEHIND_THE_END.get(name, 0)
        assert count == int(live[1]) - behind - (GOOD[name] != "")
    found = px.detect(image)
    assert found is not None
    assert (found.offset, found.damaged) == (known.offset, False)
    assert found.fs in ("fat12", "fat16", "fat32")


@pytest.mark.parametrize("name", SMALL | MIDDLE)
def test_good_images_agree_with_an_independent_reader(name: str, tmp_path: Path) -> None:
    """Names, content, all three times, attributes, chains, free clusters, marks."""
    image = unpack(name, tmp_path)
    found = raw(image, name)
    assert found.kinds() == KNOWN.get(name, set())
    with px.open(image, tz="utc") as volume:
        assert volume.usage().free_clusters == found.free
        assert (volume.was_dirty, volume.media_failure) == (found.dirty, found.hard_error)
        tree = trees.of_volume(volume)
        assert {path.strip("/") for path in found.tree} - {""} == set(tree)
        for path, item in tree.items():
            entry, status = found.tree[f"/{path}"], volume.stat(path)
            if entry.modified:
                assert status.st_mtime_ns == entry.modified, path
            if entry.created:
                assert status.st_birthtime_ns == entry.created, path
            if entry.accessed:
                assert status.st_atime_ns == entry.accessed, path
            assert status.first_cluster == entry.first_cluster
            assert status.read_only == bool(entry.attributes & 1)
            if not item.is_dir:
                assert item.size == entry.size, path
                assert item.digest == trees.digest(entry.data), path
        for directory, names in found.children.items():
            assert volume.listdir(directory) == names


@pytest.mark.parametrize("name", sorted(SMALL.keys() - FEW_CLUSTERS))
def test_good_images_agree_with_mtools(name: str, tmp_path: Path) -> None:
    image = unpack(name, tmp_path)
    with px.open(image, tz="utc") as volume:
        ours = trees.of_volume(volume)
    seen = fat.mtools_tree(image, tmp_path / "out")

    def plain(tree: trees.Tree) -> dict[str, tuple[bool, int, str]]:
        return {p.lower(): (i.is_dir, i.size, i.digest) for p, i in tree.items()}

    assert plain(seen) == plain(ours)


@pytest.mark.parametrize("name", sorted(SMALL.keys() - NO_ROOM))
def test_good_images_stay_good_when_changed(name: str, tmp_path: Path) -> None:
    image = unpack(name, tmp_path)
    original = raw(image)
    was_clean = run("fsck.fat", "-n", image).returncode == 0
    with px.open(image, "r+", tz="utc") as volume:
        if volume.usage().free < 200_000:
            pytest.skip("there is no room to change much")
        before = trees.of_volume(volume)
        changed = trees.change(volume, before, seed=1)
    want = fat.as_fat(changed.tree)
    with px.open(image, tz="utc") as volume:
        assert trees.of_volume(volume) == want
    after = raw(image)
    assert after.kinds() <= original.kinds()
    assert fat.of_raw(after) == want
    if was_clean and "label" not in original.kinds():
        assert fsck(image) == len(want) + (1 if GOOD[name] else 0)
    if name not in FEW_CLUSTERS:
        again = fat.mtools_tree(image, tmp_path / "out")
        assert fat.as_mtools_sees(again) == fat.as_mtools_sees(want)


@pytest.mark.parametrize("name", SMALL | MIDDLE)
def test_reading_writes_nothing(name: str, tmp_path: Path) -> None:
    image = unpack(name, tmp_path)
    before = digest_of(image)
    assert read_all(image) == []
    assert digest_of(image) == before


def test_two_partitions(tmp_path: Path) -> None:
    image = unpack("sdmmc-disk", tmp_path)
    one, two = px.partitions(image)
    assert (one.offset, two.offset) == (1048576, 135266304)
    with px.open(image, partition=1) as first, px.open(image, partition=2) as second:
        assert first.usage().clusters == 65399
        names = [sorted(volume.listdir()) for volume in (first, second)]
    assert names[0]
    assert names[1]


def test_the_smallest_volume(tmp_path: Path) -> None:
    """Five sectors, one cluster."""
    image = unpack("simplefatfs-minfs", tmp_path)
    with px.open(image, "r+") as volume:
        volume.write_bytes("/A", b"x" * 512)
        with pytest.raises(OSError, match="space"):
            volume.write_bytes("/B", b"x")
        volume.unlink("/A")
        volume.write_bytes("/C", b"y")
    found = raw(image)
    assert found.kinds() == set()
    assert found.children["/"] == ["C"]


# ---- labels [dosfstools#191, #69] ----


@pytest.mark.parametrize(
    ("name", "page", "label"),
    [
        ("fat32lib-umlauts-label", 437, "XÄÖÜÄÖÜX"),
        ("fat32lib-umlauts-label", 850, "XÄÖÜÄÖÜX"),
    ],
)
def test_labels_beyond_ascii(name: str, page: int, label: str, tmp_path: Path) -> None:
    image = unpack(name, tmp_path)
    with px.open(image, "r+", codepage=page) as volume:
        assert volume.label == label
        volume.label = "ÜÄÖ"
        volume.label = label
    assert raw(image).label == label
    assert "label" not in raw(image).kinds()  # ours is in both places


# ---- broken ones ----


def read_all(image: Any, **options: Any) -> list[OSError]:
    """Opens and reads everything there is; what failed."""
    failed: list[OSError] = []
    try:
        volume = px.open(image, **options)
    except OSError as error:
        return [error]
    with volume:
        for directory, _, names in volume.walk(onerror=failed.append):
            for name in names:
                if "\0" in name or "/" in name:
                    continue  # no path can have these
                path = f"{directory.rstrip('/')}/{name}"
                try:
                    with volume.open(path, "rb") as file:
                        trees.hash_stream(file.read)
                    volume.extents(path)
                except OSError as error:
                    failed.append(error)
        with suppress(px.CorruptImageError):
            volume.usage()
    return failed


@pytest.mark.parametrize("name", BROKEN)
def test_reading_never_writes_and_never_crashes(name: str, tmp_path: Path) -> None:
    image = unpack(name, tmp_path)
    if image.stat().st_size > 300 * MIB:
        with image.open("r+b") as file:
            file.truncate(300 * MIB)  # what is beyond is empty, and then missing
    before = digest_of(image)
    for options in ({}, {"use_backup": True}, {"fs": "fat"}, {"fs": "fat", "use_backup": True}):
        for error in read_all(image, **options):
            assert isinstance(error, px.ImageError), repr(error)
            if isinstance(error, px.CorruptImageError):
                assert error.where is not None
                assert error.where.structure
                assert error.where.field
    assert digest_of(image) == before


@pytest.mark.parametrize("name", [*BROKEN, *SMALL])
def test_changing_a_broken_image_never_crashes(name: str, tmp_path: Path) -> None:
    """All that may happen is an OSError, in memory as on a file."""
    content = bytearray(unpack(name, tmp_path).read_bytes()[: 110 * MIB])
    try:
        volume = px.open(content, "r+", fs="fat")
    except OSError:
        return
    with volume:
        for directory, below, names in volume.walk(topdown=False, onerror=lambda _: None):
            for path in (f"{directory.rstrip('/')}/{one}" for one in names + below):
                with suppress(OSError, ValueError):
                    volume.write_bytes(f"{directory}/new", b"something")
                with suppress(OSError, ValueError):
                    volume.truncate(path, 5000)
                with suppress(OSError, ValueError):
                    volume.rename(path, path + "!")
                with suppress(OSError, ValueError):
                    volume.remove(path + "!")
        with suppress(OSError):
            volume.sync()


@pytest.mark.parametrize("bits", [12, 32])
def test_heads_of_the_fat_are_wrong(bits: int, tmp_path: Path) -> None:
    """FAT[0] = 0 in both copies: "Giving up" says fsck.fat; the files are all there [#22]."""
    image = unpack(f"dosfstools-check-fat{bits}_first_cluster", tmp_path)
    with px.open(image, "r+") as volume:
        volume.write_bytes("/file", b"content")
        volume.mkdir("/dir")
    with px.open(image) as volume:
        assert volume.listdir() == ["file", "dir"]
        assert volume.read_bytes("/file") == b"content"


def test_a_volume_that_was_not_shut_down(tmp_path: Path) -> None:
    image = unpack("dosfstools-check-fat32_dos_cln_shut", tmp_path)
    (tmp_path / "fixed").mkdir()
    fixed = unpack("dosfstools-check-fat32_dos_cln_shut-fixed", tmp_path / "fixed")
    with px.open(image) as volume:
        assert volume.was_dirty
    with px.open(fixed) as volume:
        assert not volume.was_dirty


def test_an_image_that_is_cut_off(tmp_path: Path) -> None:
    """The boot sector says 80 GB; a gigabyte of FAT is not read for that."""
    image = unpack("dosfstools-check-huge", tmp_path)
    with pytest.raises(px.CorruptImageError) as caught:
        px.open(image)
    where = caught.value.where
    assert where is not None
    assert (where.structure, where.field, where.offset) == ("boot sector", "TotalSectors", 32)
    assert where.found == 0x0A000021


def test_duplicate_names(tmp_path: Path) -> None:
    """The first is found; both can be removed, one after the other."""
    image = unpack("dosfstools-check-duplicate_names", tmp_path)
    found = raw(image)
    assert {"duplicate", "duplicate short"} <= found.kinds()
    with px.open(image, "r+") as volume:
        (name, again) = volume.listdir()
        assert name == again
        free = volume.usage().free_clusters
        volume.unlink(f"/{name}")
        assert volume.listdir() == [name]
        volume.unlink(f"/{name}")
        assert volume.listdir() == []
        assert volume.usage().free_clusters >= free
    assert raw(image).kinds() == set()


def test_a_chain_that_is_shorter_than_its_file(tmp_path: Path) -> None:
    image = unpack("gofat-fat16-invalid-files", tmp_path)
    with px.open(image) as volume:
        with pytest.raises(px.CorruptImageError, match="shorter") as caught:
            volume.read_bytes("/DoNotEdit_tests/README.md")
        where = caught.value.where
        assert where is not None
        assert (where.structure, where.found, where.expected) == ("file", 10513, 2048)
        others = sum(len(names) for _, _, names in volume.walk())
        assert others > 2
