"""Images made by others (Windows, macOS, cameras, test suites) and broken on purpose."""

from __future__ import annotations

import faulthandler
import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from model.rawexfat import RawVolume, read_image
from peers import trees
from peers.images import facts, unpack
from peers.tools import MIB, fsck_counts, fuse
from peers.trees import Tree

import pyexfat as px

# Good images, and their labels as the index has them.
SMALL = {
    "blkid-exfat": "Новый том",
    "dfir-exfat_win": "test123",
    "dfir-exfat_orphan": "",
    "fatforensic-exfat": "EXFATVOL",
    "jnode-exfat": "Disk Image",
    "obhq-exfat": "Test image",
}
SPARSE = {"debugfatfs-exfat": "DDDDDDDDDDD", "picrap-exfat": "Some ExFAT"}
# Longer than 11 characters, which is against the rules but all that is wrong with it.
LONG_LABEL = {"goexfat-test": "testvolumelabel"}
GOOD = SMALL | SPARSE | LONG_LABEL
# blkid-exfat is shorter than a volume may be, which stops the independent reader.
READABLE = [*SMALL, *LONG_LABEL]
READABLE.remove("blkid-exfat")
BROKEN = [
    "exfatprogs-bad_bitmap",
    "exfatprogs-bad_bitmap_size",
    "exfatprogs-bad_dentries",
    "exfatprogs-invalid_name",
    "exfatprogs-large_file_invalid_clus",
    "exfatprogs-loop_chain",
    "exfatprogs-unused-dentries",
    "dfir-win_exfat_7",
    "dfir-exfat_label_dotdot",
    "syzrepro-exfat-2cfd2a4fc18e",
    "syzrepro-exfat-b91107320911",
]


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Whatever is on an image, nothing may take for ever."""
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def raw(image: Path) -> RawVolume:
    return read_image(image.read_bytes())


def padded(found: RawVolume) -> set[str]:
    """Files that end in zeros which are not on the disk."""
    return {path.strip("/") for path, e in found.tree.items() if e.valid < e.size}


# ---- good ones ----


@pytest.mark.parametrize("name", GOOD)
def test_good_images_agree_with_the_index(name: str, tmp_path: Path) -> None:
    known = facts(name)
    image = unpack(name, tmp_path)
    with px.open(image) as volume:  # picrap-exfat is a disk with one such partition
        usage = volume.usage()
        assert (volume.sector_size, volume.cluster_size) == (known.sector, known.cluster)
        assert usage.clusters == known.clusters
        assert volume.label == GOOD[name]
        tree = trees.of_volume(volume)
    assert sum(item.is_dir for item in tree.values()) == known.directories
    assert sum(not item.is_dir for item in tree.values()) == known.files
    found = px.detect(image)
    assert found is not None
    assert (found.fs, found.label, found.offset) == ("exfat", GOOD[name], known.offset)
    if known.offset == 0:
        assert fsck_counts(image) == (known.directories + 1, known.files)


@pytest.mark.parametrize("name", READABLE)
def test_good_images_agree_with_an_independent_reader(name: str, tmp_path: Path) -> None:
    """Names, content, all three times, attributes, chains."""
    image = unpack(name, tmp_path)
    found = raw(image)
    with px.open(image) as volume:
        tree = trees.of_volume(volume)
        assert {path.strip("/") for path in found.tree} - {""} == set(tree)
        for path, item in tree.items():
            entry, status = found.tree[f"/{path}"], volume.stat(path)
            assert status.st_mtime_ns == entry.modified, path
            assert status.st_birthtime_ns == entry.created, path
            assert status.st_atime_ns == entry.accessed, path
            assert status.st_file_attributes == entry.attributes or not entry.attributes, path
            assert (status.contiguous, status.first_cluster) == (
                entry.contiguous,
                entry.first_cluster,
            )
            if not item.is_dir:
                assert (item.size, status.valid_size) == (entry.size, entry.valid), path
                assert item.digest == trees.digest(entry.data), path


@pytest.mark.parametrize("name", GOOD)
def test_good_images_agree_with_exfat_fuse(name: str, tmp_path: Path) -> None:
    known = facts(name)
    image = unpack(name, tmp_path)
    with fuse(image, tmp_path / "mounted", "ro", offset=known.offset) as mounted:
        seen = trees.of_host(mounted)
    with px.open(image) as volume:
        ours = trees.of_volume(volume)
    zeros = padded(raw(image)) if name in READABLE else set()
    assert timeless(ours, zeros) == timeless(seen, zeros)


def timeless(tree: Tree, zeros: set[str]) -> Tree:
    """Without times, as exfat-fuse 1.3 knows no offsets from UTC."""
    return {
        path: trees.Item(item.is_dir, item.size, item.digest, 0)
        for path, item in trees.as_fuse_sees(tree, zeros).items()
    }


@pytest.mark.parametrize("name", [*SMALL, "debugfatfs-exfat"])
def test_good_images_stay_good_when_changed(name: str, tmp_path: Path) -> None:
    image = unpack(name, tmp_path)
    with px.open(image, "r+") as volume:
        before = trees.of_volume(volume)
        changed = trees.change(volume, before, seed=1)
    with px.open(image) as volume:
        assert trees.of_volume(volume) == changed.tree
    count = sum(item.is_dir for item in changed.tree.values())
    assert fsck_counts(image) == (1 + count, len(changed.tree) - count)
    zeros = set(changed.padded)
    if name in READABLE:
        (tmp_path / "original").mkdir()
        original, after = raw(unpack(name, tmp_path / "original")), raw(image)
        assert after.kinds() <= original.kinds() - {"percent"}
        zeros |= padded(after)
    with fuse(image, tmp_path / "mounted", "ro") as mounted:
        seen = trees.of_host(mounted)
    assert timeless(seen, zeros) == timeless(changed.tree, zeros)


def test_fragmented_files_of_windows(tmp_path: Path) -> None:
    """Two files whose clusters alternate, and one in one piece."""
    image = unpack("picrap-exfat", tmp_path)
    with px.open(image) as volume:
        assert not volume.stat("/1M sparse 1").contiguous
        assert len(volume.extents("/1M sparse 1")) > 1
        assert len(volume.extents("/1M contiguous")) == 1
        evil = "/1M sparse 2 (the evil twin)"
        places = [
            (extent.device_offset, extent.device_offset + extent.length)
            for path in ("/1M sparse 1", evil, "/1M contiguous")
            for extent in volume.extents(path)
        ]
        places.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(places))
        assert sum(b - a for a, b in places) == 3 * MIB


def test_a_backup_boot_region_is_no_volume(tmp_path: Path) -> None:
    image = unpack("dfir-exfat_win", tmp_path)
    with pytest.raises(px.ImageError):
        px.open(image, offset=12 * 512)


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
                try:
                    with volume.open(f"{directory.rstrip('/')}/{name}", "rb") as file:
                        trees.hash_stream(file.read)
                    volume.extents(f"{directory.rstrip('/')}/{name}")
                except OSError as error:
                    failed.append(error)
        with suppress(px.CorruptImageError):
            volume.usage()
    return failed


def digest_of(image: Path) -> str:
    with image.open("rb") as file:
        return trees.hash_stream(file.read)


@pytest.mark.parametrize("name", BROKEN)
def test_reading_never_writes_and_never_crashes(name: str, tmp_path: Path) -> None:
    image = unpack(name, tmp_path)
    before = digest_of(image)
    for options in ({}, {"use_backup": True}, {"fs": "exfat"}):
        for error in read_all(image, **options):
            assert isinstance(error, px.ImageError), repr(error)
            if isinstance(error, px.CorruptImageError):
                assert error.where is not None
                assert error.where.structure
                # Behind its end where it is the end that is wrong.
                assert 0 <= error.where.offset < max(image.stat().st_size, 24 * 4096)
    assert digest_of(image) == before


@pytest.mark.parametrize("name", [*BROKEN, *SMALL])
def test_changing_a_broken_image_never_crashes(name: str, tmp_path: Path) -> None:
    """All that may happen is an OSError, in memory as on a file."""
    content = bytearray(unpack(name, tmp_path).read_bytes())
    if len(content) > 64 * MIB:
        content = content[: 64 * MIB]
    try:
        volume = px.open(content, "r+")
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


def test_a_bitmap_that_is_too_small(tmp_path: Path) -> None:
    image = unpack("exfatprogs-bad_bitmap_size", tmp_path)
    with pytest.raises(px.CorruptImageError) as caught:
        px.open(image)
    where = caught.value.where
    assert where is not None
    assert where.structure == "allocation bitmap"
    # 1262 clusters need 158 bytes; the entry is the one of type 0x81 at that place.
    assert (where.field, where.found, where.expected) == ("DataLength", 142, 158)
    entry = image.read_bytes()[where.offset :][:32]
    assert entry[0] == 0x81
    assert int.from_bytes(entry[24:32], "little") == 142


def test_damaged_entries_hide_no_others(tmp_path: Path) -> None:
    """Each directory has one damaged set between good ones; each breaks another rule.

    In fe_type the entry that should begin a set has the type of a benign one, which may stand
    anywhere [6.2.1.2]: what should follow it has no beginning, and is passed over.
    """
    image = unpack("exfatprogs-bad_dentries", tmp_path)
    found = raw(image)
    damaged = {
        "fe_count": {"file_01", "file_03"},
        "fe_count_more": {"file_01", "file_02"},
        "fe_csum": {"file_01", "file_03"},
        "ne_inv_chars": {"file_01", "file_03"},
        "ne_lack_count": {"file_01", "file_03"},
        "ne_type": {"file_01", "file_03"},
        "se_name_hash": {"file_01", "file_03"},
        "se_name_len": {"file_01", "file_03"},
        "se_name_len_less": {"file_01", "file_03"},
        "se_size": {"file_01", "file_03"},
        "se_type": {"file_01", "file_03"},
    }
    with px.open(image) as volume:
        assert set(volume.listdir("/")) == {*damaged, "random_de", "fe_type"}
        assert volume.listdir("/fe_type") == ["file_01", "file_03"]
        for directory, siblings in damaged.items():
            names = []
            with pytest.raises(px.CorruptImageError) as caught:
                for entry in volume.scandir(directory):
                    names.append(entry.name)
            assert siblings <= set(names), directory
            where = caught.value.where
            assert where is not None
            assert where.structure in ("entry set", "directory")
            place = found.tree[f"/{directory}"].clusters[0]
            start = first_byte(image, place)
            assert start <= where.offset < start + 4096, directory
            for name in siblings:
                assert volume.read_bytes(f"{directory}/{name}") == b""
            with pytest.raises(px.CorruptImageError):
                volume.listdir(directory)
        failed: list[OSError] = []
        walked = {directory for directory, _, _ in volume.walk(onerror=failed.append)}
        assert "/" in walked
        assert {str(error.filename).strip("/") for error in failed} == {*damaged, "random_de"}


def first_byte(image: Path, cluster: int) -> int:
    """Where a cluster lies (specification, 3.1.7 and 3.1.15)."""
    with image.open("rb") as file:
        boot = file.read(512)
    heap = int.from_bytes(boot[88:92], "little") << boot[108]
    return heap + (cluster - 2 << boot[108] + boot[109])


def test_forbidden_names_are_listed_and_can_be_removed(tmp_path: Path) -> None:
    image = unpack("exfatprogs-invalid_name", tmp_path)
    with px.open(image) as volume:
        names = volume.listdir()
        assert sorted(names) == sorted([*map(chr, range(32)), *'"*/:<>?\\|'])
        for name in set(names) - {"\0", "/"}:
            assert volume.stat(name).st_size == 0
    with px.open(image, "r+") as volume:
        for i, name in enumerate(sorted(set(names) - {"\0", "/"})):
            volume.rename(name, f"good {i}")
        assert len(volume.listdir()) == 41
        with pytest.raises(OSError, match="control characters") as caught:
            volume.rename("good 0", "bad?")
        assert caught.value.errno == 22


def test_a_chain_that_is_cut(tmp_path: Path) -> None:
    """192 MiB of file of which fsck.exfat finds 201,322,496 bytes in a good chain."""
    image = unpack("exfatprogs-large_file_invalid_clus", tmp_path)
    good = 201_322_496
    with px.open(image) as volume, volume.open("/file_192m", "rb", buffering=0) as file:
        digest = hashlib.sha256()
        done = 0
        while done < good:
            piece = file.read(min(MIB, good - done))
            digest.update(piece)
            done += len(piece)
        assert done == good
        with pytest.raises(px.CorruptImageError) as caught:
            file.read(1)
        where = caught.value.where
        assert where is not None
        assert where.field == "FatEntry"
        with pytest.raises(px.CorruptImageError):
            volume.read_bytes("/file_192m")
    # The number at that place is the wrong link.
    with image.open("rb") as disk:
        disk.seek(where.offset)
        assert int.from_bytes(disk.read(4), "little") == where.found


def test_a_chain_with_a_loop(tmp_path: Path) -> None:
    image = unpack("exfatprogs-loop_chain", tmp_path)
    failed = read_all(image)
    assert [error.filename for error in failed] == ["/dir_02/bad_child_02"] * len(failed)
    assert failed
    where = failed[0].where  # type: ignore[attr-defined]
    assert where.field == "FatEntry"
    with image.open("rb") as disk:
        disk.seek(where.offset)
        assert int.from_bytes(disk.read(4), "little") == where.found
    found = raw(image)
    with px.open(image) as volume:
        # Longer than its size: nothing that reading would notice.
        entry = found.tree["/dir_01/bad_child_01"]
        assert volume.read_bytes("/dir_01/bad_child_01") == entry.data
        assert len(entry.data) == 16384
        # Up to the loop, which fsck.exfat would cut off behind 8192 bytes.
        with volume.open("/dir_02/bad_child_02", "rb", buffering=0) as file:
            head = file.read(8192)
        assert head == found.tree["/dir_02/bad_child_02"].data[:8192]
        for path in ("/child_01", "/dir_01/child_04", "/dir_02/child_07"):
            assert volume.read_bytes(path) == found.tree[path].data


def test_used_clusters_that_are_marked_free(tmp_path: Path) -> None:
    image = unpack("exfatprogs-bad_bitmap", tmp_path)
    found = raw(image)
    assert found.kinds() == {"orphan", "lost", "percent"}
    with px.open(image) as volume:
        tree = trees.of_volume(volume)
    assert len(tree) == 11
    for path, item in tree.items():
        if not item.is_dir:
            assert item.digest == trees.digest(found.tree[f"/{path}"].data), path


def test_what_follows_the_end_of_a_directory_is_not_there(tmp_path: Path) -> None:
    """Used entries behind an unused one: 461 files are before it, as fsck.exfat counts."""
    image = unpack("exfatprogs-unused-dentries", tmp_path)
    known = facts("exfatprogs-unused-dentries")
    with px.open(image) as volume:
        tree = trees.of_volume(volume)
    assert sum(not item.is_dir for item in tree.values()) == known.files == 461
    assert sum(item.is_dir for item in tree.values()) == known.directories == 6


def test_what_follows_the_end_of_a_directory_stays_there() -> None:
    """Sets that are not in use, and used ones behind them: the end moves on with each new name."""
    image = bytearray(1 << 20)
    with px.format(image, cluster_size=4096) as volume:
        volume.mkdir("/d")
        volume.create_many("/d", [f"f{i}" for i in range(30)])
    sets = read_image(image).tree
    for i in range(10, 20):
        for k in range(3):
            image[sets[f"/d/f{i}"].offset + 32 * k] &= 0x7F
    at = sets["/d/f10"].offset
    image[at] = 0
    behind = bytes(image[sets["/d/f20"].offset : sets["/d/f29"].offset + 96])
    with px.open(image, "r+") as volume:
        there = volume.listdir("/d")
        assert there == [f"f{i}" for i in range(10)]
        for i in range(9):  # three entries each of thirty; and single ones are passed over
            volume.touch(f"/d/n{i}")
            there.append(f"n{i}")
            assert volume.listdir("/d") == there
        with pytest.raises(px.CorruptImageError):
            volume.touch("/d/n9")
    assert read_image(image).children["/d"] == there
    assert image[sets["/d/f20"].offset : sets["/d/f29"].offset + 96] == behind


def test_a_damaged_main_boot_region(tmp_path: Path) -> None:
    """It opens from the backup when asked to, and only to be read."""
    image = unpack("dfir-win_exfat_7", tmp_path)
    before = digest_of(image)
    for mode in ("r", "r+"):
        with pytest.raises(px.CorruptImageError) as caught:
            px.open(image, mode)
        where = caught.value.where
        assert where is not None
        # The checksum sector is the twelfth.
        assert (where.structure, where.field, where.offset) == (
            "main boot region",
            "Checksum",
            11 * 512,
        )
        assert (where.found, where.expected) == (0x80CDCBE0, 0xB743BCF8)
    found = px.detect(image)
    assert found is not None
    assert (found.fs, found.damaged) == ("exfat", True)
    with pytest.raises(ValueError, match="backup"):
        px.open(image, "r+", use_backup=True)
    with px.open(image, use_backup=True) as volume:
        assert (volume.from_backup, volume.readonly) == (True, True)
        assert (volume.serial, volume.label) == (0x947889E1, "")
        assert volume.listdir() == ["тест.txt"]
        assert volume.read_bytes("/тест.txt") == b"1234555"
        status = volume.stat("/тест.txt")
        # Quarter hours 23 and -40 east of UTC.
        assert (status.created_offset, status.modified_offset) == (345, -600)
        with pytest.raises(OSError, match="Read-only") as refused:
            volume.write_bytes("/new", b"")
        assert refused.value.errno == 30
    assert digest_of(image) == before
