"""Bugs that other drivers of FAT had, and volumes that are odd or damaged in one place."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from model.rawfat import RawVolume, read_image
from peers.fat import Geometry, exact, fsck, made, raw, small
from peers.tools import MIB

import pyexfat as px

ALL = [12, 16, 32]
# Byte offsets in the boot sector.
HEADS, SECTORS_PER_TRACK, EXT_FLAGS, ROOT_CLUSTER = 26, 24, 40, 44
DIRTY = {12: 37, 16: 37, 32: 65}
CLEAN_BIT = {16: 0x8000, 32: 0x08000000}
SOUND_BIT = {16: 0x4000, 32: 0x04000000}


@pytest.fixture(params=ALL, ids="fat{}".format)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small volume of each type with a few files."""
    path = small(request.param, tmp_path / "image")
    with px.open(path, "r+", tz="utc") as volume:
        volume.makedirs("/dir/below")
        volume.write_bytes("/first", b"1" * 5000)
        volume.write_bytes("/dir/A second file", b"2" * 5000)
        volume.write_bytes("/empty", b"")
    return path


def patch(image: Path, offset: int, content: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def set_fat(image: Path, clusters: int | list[int], value: int) -> None:
    """Entries of all FATs."""
    content = bytearray(image.read_bytes())
    found = read_image(content, contents=False)
    for at in found.fat_at:
        for cluster in [clusters] if isinstance(clusters, int) else clusters:
            if found.bits == 32:
                struct.pack_into("<I", content, at + cluster * 4, value)
            elif found.bits == 16:
                struct.pack_into("<H", content, at + cluster * 2, value & 0xFFFF)
            else:
                place = at + cluster + cluster // 2
                (old,) = struct.unpack_from("<H", content, place)
                new = (old & 0xF) | (value & 0xFFF) << 4
                if cluster % 2 == 0:
                    new = (old & 0xF000) | (value & 0xFFF)
                struct.pack_into("<H", content, place, new)
    image.write_bytes(content)


def short_at(image: Path, path: str) -> int:
    """Byte offset of a file's short entry."""
    entry = read_image(image.read_bytes()).tree[path]
    return entry.offset + (entry.entries - 1) * 32


def damage(action: Callable[[], object]) -> tuple[str, str, int, int]:
    """What is reported: structure, field, offset and what was found."""
    with pytest.raises(px.CorruptImageError) as caught:
        action()
    where = caught.value.where
    assert where is not None
    return where.structure, where.field, where.offset, where.found


# ---- FSInfo ----


@pytest.mark.parametrize(
    ("free", "following"),
    [
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFE, 0xDEADBEEF),
        (0, 2),
        (1, 70_000),
        (66_000, 66_001),
        (65_999, 0),
        (7, 1),
    ],
)
def test_nonsense_in_fsinfo(tmp_path: Path, free: int, following: int) -> None:
    """A hint, and no more: all clusters can be used, and in the end it is right or says nothing."""
    image = small(32, tmp_path / "image")
    patch(image, 512 + 488, struct.pack("<II", free, following))
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/all", b"x" * (65_999 * 512))
        with pytest.raises(OSError, match="space"):
            volume.write_bytes("/more", b"x")
        assert volume.usage().free_clusters == 0
        assert not volume.exists("/more")
    found = read_image(image.read_bytes())
    assert found.kinds() == set()
    assert found.info_free in (0, 0xFFFFFFFF)
    with px.open(image, "r+", tz="utc") as volume:
        volume.unlink("/all")
        volume.sync()
        assert volume.usage().free_clusters == 65_999
    assert raw(image).info_free == 65_999
    assert fsck(image) == 0


@pytest.mark.parametrize("place", [0, 484])
def test_an_fsinfo_without_its_signatures(tmp_path: Path, place: int) -> None:
    """It is not used, and what is there is not written over."""
    image = small(32, tmp_path / "image")
    patch(image, 512 + 488, struct.pack("<II", 5, 6))
    patch(image, 512 + place, b"\0\0\0\0")
    before = image.read_bytes()[512:1024]
    with px.open(image, "r+") as volume:
        assert volume.usage().free_clusters == 65_999
        volume.write_bytes("/file", b"x" * 1000)
        assert volume.usage().free_clusters == 65_997
    assert image.read_bytes()[512:1024] == before
    assert read_image(image.read_bytes()).kinds() == {"fsinfo"}


def test_the_count_of_a_dirty_volume_is_not_believed(tmp_path: Path) -> None:
    image = small(32, tmp_path / "image")
    patch(image, 512 + 488, struct.pack("<I", 5))
    patch(image, 65, b"\1")
    with px.open(image) as volume:
        assert volume.usage().free_clusters == 65_999


# ---- odd, but sound ----


def test_heads_and_tracks_of_0(image: Path) -> None:
    for sector in (0, 6) if read_image(image.read_bytes()).bits == 32 else (0,):
        patch(image, sector * 512 + SECTORS_PER_TRACK, bytes(4))
    assert px.detect(image) is not None
    with px.open(image, "r+") as volume:
        assert volume.read_bytes("/first") == b"1" * 5000
        volume.write_bytes("/more", b"")
    raw(image)


@pytest.mark.parametrize("value", [0, 0x0FFFFF00, 0xFFFFFFFF])
def test_dosfstools_22_any_fat_0(image: Path, value: int) -> None:
    set_fat(image, 0, value)
    with px.open(image, "r+") as volume:
        assert volume.read_bytes("/first") == b"1" * 5000
        volume.write_bytes("/more", b"m" * 3000)
    found = read_image(image.read_bytes())
    assert found.kinds() <= {"fat head"}
    assert found.tree["/more"].data == b"m" * 3000
    assert found.fat[0] == value & {12: 0xFFF, 16: 0xFFFF, 32: 0x0FFFFFFF}[found.bits]


def test_an_image_without_an_end_mark(image: Path) -> None:
    """Atari and MSX have none."""
    patch(image, 510, b"\0\0")
    with px.open(image, fs="fat") as volume:
        assert volume.listdir() == ["dir", "first", "empty"]


def three_fats(tmp_path: Path) -> Path:
    image = exact(tmp_path / "image", 32, 66_000, fats=3)
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/old", b"o" * 3000)
    return image


def test_all_fats_are_written(tmp_path: Path) -> None:
    found = raw(three_fats(tmp_path))  # which compares them
    assert (found.fats, found.free) == (3, 66_000 - 1 - 6)


@pytest.mark.parametrize("active", [0, 1, 2])
def test_one_fat_is_active(tmp_path: Path, active: int) -> None:
    """ExtFlags: the others are neither read nor written."""
    image = three_fats(tmp_path)
    found = raw(image)
    size = found.fat_at[1] - found.fat_at[0]
    for number, at in enumerate(found.fat_at):
        if number != active:
            patch(image, at, b"\xaa" * size)
    patch(image, EXT_FLAGS, struct.pack("<H", 0x80 | active))
    patch(image, 6 * 512 + EXT_FLAGS, struct.pack("<H", 0x80 | active))
    with px.open(image, "r+", tz="utc") as volume:
        assert volume.read_bytes("/old") == b"o" * 3000
        volume.write_bytes("/new", b"n" * 3000)
        volume.unlink("/old")
        volume.mkdir("/dir")
    found = raw(image)
    assert found.tree["/new"].data == b"n" * 3000
    content = image.read_bytes()
    for number, at in enumerate(found.fat_at):
        assert (content[at : at + size] == b"\xaa" * size) == (number != active)


def test_an_active_fat_that_is_not_there(tmp_path: Path) -> None:
    image = three_fats(tmp_path)
    patch(image, EXT_FLAGS, struct.pack("<H", 0x83))
    assert damage(lambda: px.open(image)) == ("boot sector", "ExtFlags", EXT_FLAGS, 0x83)


def test_mirrored_whatever_the_number_says(tmp_path: Path) -> None:
    """Without bit 7 the number of the active FAT means nothing."""
    image = three_fats(tmp_path)
    for sector in (0, 6):
        patch(image, sector * 512 + EXT_FLAGS, struct.pack("<H", 2))
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/new", b"n" * 3000)
    raw(image)


def test_the_top_nibble_of_fat32_stays(tmp_path: Path) -> None:
    image = small(32, tmp_path / "image")
    set_fat(image, list(range(3, 20)), 0xA0000000)
    with px.open(image, "r+", tz="utc") as volume:
        assert volume.usage().free_clusters == 65_999
        volume.write_bytes("/file", b"x" * 512 * 10)
        volume.unlink("/file")
        volume.write_bytes("/again", b"y" * 512 * 5)
    found = raw(image)
    at = found.fat_at[0]
    tops = [image.read_bytes()[at + c * 4 + 3] >> 4 for c in range(3, 20)]
    assert tops == [0xA] * 17
    assert found.tree["/again"].data == b"y" * 2560


def test_bad_clusters_are_never_used(image: Path) -> None:
    found = read_image(image.read_bytes())
    bad = [c for c in range(30, 300) if found.fat[c] == 0][::3]
    set_fat(image, bad, 0x0FFFFFF7)
    if found.bits == 32:  # the count is what a tool that marks them leaves
        patch(image, 512 + 488, struct.pack("<I", found.free - len(bad)))
    with px.open(image, "r+", tz="utc") as volume:
        free = volume.usage().free_clusters
        assert free == found.free - len(bad)
        assert volume.count_bad_clusters() == len(bad)
        volume.write_bytes("/all", b"x" * (free * 512))
        volume.unlink("/first")
        assert volume.read_bytes("/all") == b"x" * (free * 512)
    after = raw(image)
    assert after.bad == len(bad)
    assert not set(bad) & set(after.tree["/all"].clusters)


def test_end_marks_of_every_value(image: Path) -> None:
    """…FF8 to …FFF all end a chain (Atari and others write FFF)."""
    found = read_image(image.read_bytes())
    last = found.tree["/first"].clusters[-1]
    for low in range(8, 16):
        set_fat(image, last, 0x0FFFFFF0 | low)
        with px.open(image) as volume:
            assert volume.read_bytes("/first") == b"1" * 5000


@pytest.mark.parametrize("bits", [12, 16])
def test_sleuthkit_2633_first_cluster_high_means_nothing_elsewhere(
    tmp_path: Path, bits: int
) -> None:
    """OS/2 has a handle of extended attributes there [sleuthkit#2633]."""
    image = small(bits, tmp_path / "image")
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/file", b"content")
    at = short_at(image, "/file") + 20
    patch(image, at, b"\x34\x12")
    with px.open(image, "r+", tz="utc") as volume:
        assert volume.read_bytes("/file") == b"content"
        volume.write_bytes("/file", b"more of it")
        volume.rename("/file", "/other")
    raw(image)
    at = short_at(image, "/other") + 20
    assert image.read_bytes()[at : at + 2] == b"\x34\x12"


def test_sleuthkit_2632_names_with_spaces_inside(tmp_path: Path) -> None:
    """ "EA DATA. SF" of OS/2 [sleuthkit#2632]: one short entry, no long one."""
    image = small(16, tmp_path / "image")
    root = raw(image).root_at
    patch(image, root, b"EA DATA  SF\x20" + bytes(20) + b"WP ROOT  SF\x20" + bytes(20))
    with px.open(image, "r+") as volume:
        assert volume.listdir() == ["EA DATA. SF", "WP ROOT. SF"]
        volume.write_bytes("/EA DATA. SF", b"content")
        assert volume.read_bytes("/ea data. sf") == b"content"
        volume.rename("/WP ROOT. SF", "/x")
    assert read_image(image.read_bytes()).children["/"] == ["EA DATA. SF", "x"]


def test_abbrev_fatfs_10_a_fat32_of_few_clusters(tmp_path: Path) -> None:
    """32 MiB by mkfs.vfat -F 32: its type is that of its layout [abbrev/fatfs#10]."""
    image = made(tmp_path / "image", Geometry(32, 32 * MIB, per_cluster=2))
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/file", b"x" * 10_000)
        volume.mkdir("/dir")
    found = raw(image)
    assert found.bits == 32
    assert found.clusters < 65_525


# ---- marks ----


def marks(image: Path) -> tuple[bool, bool]:
    found = read_image(image.read_bytes())
    return found.dirty_boot, found.dirty_fat


def test_dirty_marks_are_set_and_cleared(image: Path) -> None:
    both = (True, read_image(image.read_bytes()).bits != 12)  # FAT12 has one
    assert marks(image) == (False, False)
    volume = px.open(image, "r+")
    assert marks(image) == (False, False)  # nothing is changed yet
    volume.write_bytes("/new", b"new")
    volume.sync()
    assert marks(image) in (both, (False, False))
    volume.write_bytes("/again", b"new")
    assert marks(image) == both
    volume.close()
    assert marks(image) == (False, False)
    with px.open(image) as volume:
        assert not volume.was_dirty
    volume = px.open(image, "r+")
    volume.write_bytes("/third", b"new")
    volume.abandon()
    assert marks(image) == both
    with px.open(image, "r+") as volume:
        assert volume.was_dirty
        volume.write_bytes("/fourth", b"new")
    assert marks(image) == both  # until it is checked
    content = image.read_bytes()
    assert content[6 * 512 + 65] == 0  # nothing happens to the backup


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("place", ["boot", "fat"])
def test_one_dirty_mark_is_enough(tmp_path: Path, bits: int, place: str) -> None:
    image = small(bits, tmp_path / "image")
    if place == "boot":
        patch(image, DIRTY[bits], b"\1")
    else:
        set_fat(image, 1, 0x0FFFFFFF & ~CLEAN_BIT[bits])
    with px.open(image, "r+") as volume:
        assert (volume.was_dirty, volume.media_failure) == (True, False)
        volume.touch("/new")
    assert marks(image) == (place == "boot", place == "fat")


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("place", ["boot", "fat"])
def test_the_mark_of_hard_errors(tmp_path: Path, bits: int, place: str) -> None:
    """Shown, and left to who checks the disk."""
    image = small(bits, tmp_path / "image")
    if place == "boot":
        patch(image, DIRTY[bits], b"\2")
    else:
        set_fat(image, 1, 0x0FFFFFFF & ~SOUND_BIT[bits])
    with px.open(image, "r+") as volume:
        assert (volume.was_dirty, volume.media_failure) == (False, True)
        volume.write_bytes("/new", b"x")
    found = read_image(image.read_bytes())
    assert found.kinds() == {"hard error"}
    with px.open(image) as volume:
        assert volume.media_failure


def test_reading_sets_no_mark(image: Path) -> None:
    before = image.read_bytes()
    with px.open(image) as volume:
        volume.read_bytes("/first")
        with pytest.raises(OSError, match="Read-only"):
            volume.write_bytes("/x", b"")
    with px.open(image, "r+") as volume:
        volume.read_bytes("/first")
    assert image.read_bytes() == before


# ---- damaged in one place ----


def test_a_chain_that_loops(image: Path) -> None:
    clusters = read_image(image.read_bytes()).tree["/first"].clusters
    set_fat(image, clusters[-1], clusters[2])
    before = image.read_bytes()
    with px.open(image) as volume:
        # Its length says how far it goes; what is behind it is for the check.
        assert volume.read_bytes("/first") == b"1" * 5000
    patch(image, short_at(image, "/first") + 28, struct.pack("<I", 50_000))
    found = read_image(before)
    with px.open(image, "r+") as volume:
        structure, field, offset, value = damage(lambda: volume.read_bytes("/first"))
        assert (structure, field) == ("file", "FatEntry")
        assert value in clusters[2:]  # that it goes round is noticed somewhere on the way
        before_it = clusters[clusters.index(value) - 1], clusters[-1]
        assert offset in [found.fat_at[0] + c * found.bits // 8 for c in before_it]
        damage(lambda: volume.unlink("/first"))
        damage(lambda: volume.truncate("/first", 1000))


@pytest.mark.parametrize("value", [0, 1, 0x0FFFFFF7, 0x0FFFFFF0, 66_002])
def test_a_chain_that_leaves_the_heap(image: Path, value: int) -> None:
    """Into a free entry, a reserved or a bad one, or past the last cluster."""
    found = read_image(image.read_bytes())
    if value == 66_002:
        value = found.clusters + 2
    clusters = found.tree["/first"].clusters
    set_fat(image, clusters[3], value)
    before = image.read_bytes()
    with px.open(image) as volume:
        structure, field, offset, _ = damage(lambda: volume.read_bytes("/first"))
        assert (structure, field) == ("file", "FatEntry")
        assert offset == found.fat_at[0] + clusters[3] * found.bits // 8
        with volume.open("/first", "rb", buffering=0) as file:
            assert file.read(4 * 512) == b"1" * 2048  # what is before it can be read
        assert volume.read_bytes("/dir/A second file") == b"2" * 5000
    assert image.read_bytes() == before


@pytest.mark.parametrize("first", [1, 0x0FFFFFF7])
def test_a_first_cluster_outside(image: Path, first: int) -> None:
    at = short_at(image, "/first")
    patch(image, at + 26, struct.pack("<H", first & 0xFFFF))
    patch(image, at + 20, struct.pack("<H", first >> 16))
    before = image.read_bytes()
    with px.open(image) as volume:
        found = damage(lambda: volume.read_bytes("/first"))
        assert found[:3] == ("directory entry", "DIR_FstClusLO", at + 26)
        assert volume.read_bytes("/dir/A second file") == b"2" * 5000
        with pytest.raises(px.CorruptImageError):
            volume.listdir()
        damaged: list[OSError] = []
        names = [name for _, _, files in volume.walk(onerror=damaged.append) for name in files]
        assert "empty" in names
        assert len(damaged) == 1
    assert image.read_bytes() == before


def test_a_size_without_clusters(image: Path) -> None:
    """First cluster 0, but a length; and the other way round: a cluster, but no length."""
    found = read_image(image.read_bytes())
    patch(image, short_at(image, "/empty") + 28, struct.pack("<I", 700))
    with px.open(image) as volume:
        with pytest.raises(px.CorruptImageError) as caught:
            volume.read_bytes("/empty")
        assert caught.value.where is not None
    patch(image, short_at(image, "/empty") + 28, bytes(4))
    patch(image, short_at(image, "/first") + 28, bytes(4))
    with px.open(image, "r+") as volume:
        assert volume.read_bytes("/first") == b""
        volume.write_bytes("/first", b"new content")
        assert volume.read_bytes("/first") == b"new content"
    after = read_image(image.read_bytes())
    assert after.kinds() <= {"chain long"}
    assert after.free >= found.free


def test_dosfstools_175_a_directory_on_a_free_cluster(image: Path) -> None:
    """dosfstools makes it an empty one without dots; we say so and change nothing [#175]."""
    entry = read_image(image.read_bytes()).tree["/dir"]
    set_fat(image, entry.clusters[0], 0)
    before = image.read_bytes()
    with px.open(image) as volume:
        structure, field, _, value = damage(lambda: volume.listdir("/dir"))
        assert (structure, field, value) == ("directory", "FatEntry", 0)
        assert volume.read_bytes("/first") == b"1" * 5000
    assert image.read_bytes() == before
    with px.open(image, "r+") as volume:
        damage(lambda: volume.write_bytes("/dir/new", b""))
        damage(lambda: volume.rmtree("/dir"))


@pytest.mark.parametrize("what", ["itself", "its parent", "root"])
def test_a_directory_that_contains_itself(image: Path, what: str) -> None:
    found = read_image(image.read_bytes())
    above = {
        "itself": found.tree["/dir/below"].first_cluster,
        "its parent": found.tree["/dir"].first_cluster,
        "root": found.tree["/"].first_cluster,
    }[what]
    if what == "root" and found.bits != 32:
        pytest.skip("that root is no chain")
    if what == "itself":  # an entry of its own within it
        cluster = found.heap + (above - 2) * found.cluster_size
        entry = image.read_bytes()[short_at(image, "/dir/below") :][:32]
        patch(image, cluster + 64, entry)
        inside = "/dir/below/below"
    else:
        at = short_at(image, "/dir/below")
        patch(image, at + 26, struct.pack("<H", above))
        inside = "/dir/below"
    with px.open(image) as volume:
        assert damage(lambda: volume.listdir(inside))[0] in ("directory", "directory entry")
        failed: list[OSError] = []
        assert len(list(volume.walk(onerror=failed.append))) < 10
        assert failed


def test_dosfstools_174_what_is_behind_the_end_of_a_directory(image: Path) -> None:
    """0x00 ends it, as for Windows, whatever follows [dosfstools#174]; nothing is put on it."""
    with px.open(image, "r+", tz="utc") as volume:
        for name in "ABCDE":
            volume.write_bytes(f"/dir/{name}", name.encode())
    at = short_at(image, "/dir/C")
    patch(image, at, b"\0")
    before = image.read_bytes()
    with px.open(image) as volume:
        assert set(volume.listdir("/dir")) == {"below", "A second file", "A", "B"}
        with pytest.raises(FileNotFoundError):
            volume.read_bytes("/dir/D")
    assert image.read_bytes() == before
    with px.open(image, "r+") as volume:
        found = damage(lambda: volume.write_bytes("/dir/new", b"x"))
        assert found[2] == at + 32
        assert found[3] == ord("D")
        volume.unlink("/dir/A")
        volume.write_bytes("/dir/N", b"n")  # in the place of A
    content = image.read_bytes()
    assert content[at : at + 96] == before[at : at + 96]


def test_dosfstools_174_what_is_behind_the_end_stays_there(image: Path) -> None:
    """Deleted entries follow the end, and live ones these: the end moves on with each new name."""
    with px.open(image, "r+", tz="utc") as volume:
        names = [f"F{i}" for i in range(30)]
        volume.create_many("/dir", names)
    for name in names[10:20]:
        patch(image, short_at(image, f"/dir/{name}"), b"\xe5")
    at = short_at(image, "/dir/F9") + 32
    patch(image, at, b"\0")
    behind = image.read_bytes()[at + 10 * 32 : at + 20 * 32]
    with px.open(image, "r+") as volume:
        there = volume.listdir("/dir")
        assert there[-1] == "F9"
        for name in ("N0", "N1", "a name of three entries"):
            volume.touch(f"/dir/{name}")
            there.append(name)
            assert volume.listdir("/dir") == there
        for name in ("N2", "N3", "N4"):
            volume.touch(f"/dir/{name}")
            there.append(name)
        assert damage(lambda: volume.touch("/dir/N5"))[3] == ord("F")  # too near
        assert volume.listdir("/dir") == there
    content = image.read_bytes()
    assert content[at + 8 * 32] == content[at + 9 * 32] == 0
    assert content[at + 10 * 32 : at + 20 * 32] == behind
    assert read_image(content).children["/dir"] == there


def test_dot_entries_that_are_wrong(image: Path) -> None:
    """mtools 4.0.19 wrote such; paths do not depend on them."""
    found = read_image(image.read_bytes())
    cluster = found.heap + (found.tree["/dir/below"].first_cluster - 2) * found.cluster_size
    patch(image, cluster, b"X          " + bytes([0x20]) + bytes(20))
    patch(image, cluster + 32 + 26, b"\x77\x00")
    with px.open(image, "r+") as volume:
        assert volume.listdir("/dir/below") == ["X"]
        volume.write_bytes("/dir/below/new", b"")
        assert volume.listdir("/dir/below/..") == volume.listdir("/dir")


def test_dosfstools_99_a_truncated_image(image: Path) -> None:
    """Shorter than its boot sector says: refused, not read as zeros [dosfstools#99]."""
    size = image.stat().st_size
    os.truncate(image, size - 512)
    structure, field, _, value = damage(lambda: px.open(image))
    assert (structure, field) == ("boot sector", "TotalSectors")
    assert value == size // 512


@pytest.mark.parametrize(
    ("offset", "content", "field"),
    [
        (11, b"\0\0", "BytesPerSector"),
        (11, b"\x01\x02", "BytesPerSector"),
        (13, b"\0", "SectorsPerCluster"),
        (13, b"\3", "SectorsPerCluster"),
        (14, b"\0\0", "ReservedSectors"),
        (16, b"\0", "NumberOfFats"),
        (21, b"\x12", "Media"),
    ],
)
def test_boot_sectors_that_can_not_be(image: Path, offset: int, content: bytes, field: str) -> None:
    patch(image, offset, content)
    structure, name, where, _ = damage(lambda: px.open(image, fs="fat"))
    assert (structure, name, where) == ("boot sector", field, offset)


@pytest.mark.parametrize("root", [0, 1, 66_002, 0xFFFFFFFF])
def test_a_root_directory_outside(tmp_path: Path, root: int) -> None:
    image = small(32, tmp_path / "image")
    patch(image, ROOT_CLUSTER, struct.pack("<I", root))
    assert damage(lambda: px.open(image, fs="fat"))[:3] == (
        "boot sector",
        "RootCluster",
        ROOT_CLUSTER,
    )
    with px.open(image, use_backup=True, fs="fat") as volume:
        assert (volume.from_backup, volume.readonly) == (True, True)
        assert volume.listdir() == []


# ---- what others did wrong ----


def test_embedded_fatfs_69_a_root_directory_that_grows_into_what_was_there(image: Path) -> None:
    """300 long names in the root and below, on a disk full of 'A' [embedded-fatfs#69]."""
    bits = read_image(image.read_bytes()).bits
    places = ["/", "/sub"] if bits == 32 else ["/sub"]  # other roots do not grow
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/dirty", b"A" * (volume.usage().free_clusters * 512))
        volume.unlink("/dirty")
        volume.sync()
        volume.mkdir("/sub")
        before = {place: volume.listdir(place) for place in places}
        names = [f"{i:03} with a name of forty characters ....." for i in range(300)]
        for place in places:
            for name in names:
                volume.touch(f"{place}/{name}")
    found = raw(image)
    for place in places:
        assert found.children[place] == before[place] + names
        content = image.read_bytes()
        data = b"".join(
            content[found.heap + (c - 2) * 512 : found.heap + (c - 1) * 512]
            for c in found.tree[place].clusters
        )
        last = max(found.tree[f"{place.rstrip('/')}/{n}"].index for n in names) + 5
        assert not any(data[last * 32 :])
    assert found.tree["/sub"].is_dir


@pytest.mark.parametrize("target", ["/test/new", "/test/a/b/c", "/TEST/x", "/test/new/"])
def test_agon_mos_191_a_directory_is_not_moved_into_itself(image: Path, target: str) -> None:
    """FatFs loses it [micropython#4177, agon-mos#191]."""
    with px.open(image, "r+", tz="utc") as volume:
        volume.makedirs("/test/a/b")
        volume.write_bytes("/test/a/b/file", b"content")
    before = read_image(image.read_bytes())
    with px.open(image, "r+", tz="utc") as volume:
        for source in ("/test", "/Test", "/test/"):
            with pytest.raises(OSError, match=r".") as caught:
                volume.rename(source, target)
            assert caught.value.errno == errno.EINVAL
        assert volume.read_bytes("/test/a/b/file") == b"content"
    after = raw(image)
    assert tree_of(after) == tree_of(before)


def tree_of(found: RawVolume) -> dict[str, bytes]:
    return {path: entry.data for path, entry in found.tree.items()}


def test_a_directory_is_moved_to_a_name_that_looks_alike(image: Path) -> None:
    with px.open(image, "r+", tz="utc") as volume:
        volume.makedirs("/test/inside")
        volume.mkdir("/test2")
        volume.rename("/test", "/test2/new")
        assert volume.listdir("/test2/new") == ["inside"]
        volume.rename("/test2", "/TEST2")
        assert "TEST2" in volume.listdir()
        volume.rename("/TEST2/new", "/test")
    raw(image)


def test_rust_fatfs_42_the_last_of_several_files(image: Path) -> None:
    """It read as zeros in one driver [rust-fatfs#42]."""
    with px.open(image, "r+", tz="utc") as volume:
        for i in range(40):
            volume.write_bytes(f"/dir/T{i}.TXT", b"%d" % i * 700)
    found = raw(image)
    with px.open(image) as volume:
        for i in range(40):
            assert volume.read_bytes(f"/dir/T{i}.TXT") == b"%d" % i * 700
            assert found.tree[f"/dir/T{i}.TXT"].data == b"%d" % i * 700


def test_go_diskfs_130_appending_costs_the_same_all_the_way(tmp_path: Path) -> None:
    """Each write of others rewrote the FAT, or walked the chain [go-diskfs#130, PR #261]."""
    image = small(16, tmp_path / "image", 60_000)
    with px.open(image, "r+", tz="utc") as volume:
        seen = []
        with volume.open("/file", "wb", buffering=0) as file:
            for i in range(10_000):
                if i % 1000 == 0:
                    seen.append(volume.counters.fat_entries_read)
                file.write(b"x" * 2048)
        seen.append(volume.counters.fat_entries_read)
        volume.sync()
        wrote = volume.counters.cache.bytes_written
    # The map of free clusters is made in parts of 32,768 when one is looked at first.
    assert seen[-1] - seen[0] <= 2 * 32_768 + 3 * 10_000
    data = 10_000 * 2048  # and 40,000 entries of two bytes in two FATs
    assert wrote <= data + 2 * 2 * 40_000 + 512 * 1024


def test_writing_in_the_hole_of_an_old_directory(image: Path) -> None:
    """A long name needs neighbours: sets never lie over entries in use."""
    with px.open(image, "r+", tz="utc") as volume:
        for i in range(40):
            volume.touch(f"/dir/{i}")
        for i in range(0, 40, 2):
            volume.unlink(f"/dir/{i}")
        volume.touch("/dir/needs three entries of them")
        for i in range(0, 20, 2):
            volume.touch(f"/dir/N{i}")
    found = raw(image)
    assert found.tree["/dir/N0"].index < found.tree["/dir/1"].index
    assert len(found.children["/dir"]) == 2 + 20 + 1 + 10


@pytest.mark.parametrize(
    "label", [b"B\xda\x8e\x9a\x8e\x9a\x8e\x9a\x8e\x9aB", b"\x05\xe5\xe5        ", b"\xff" * 11]
)
def test_dosfstools_191_69_labels_with_bytes_beyond_ascii(image: Path, label: bytes) -> None:
    """Taken for control characters elsewhere [dosfstools#191, #69]."""
    with px.open(image, "r+", codepage=850) as volume:
        volume.label = "PLACE"
    found = read_image(image.read_bytes(), codepage="cp850")
    content = image.read_bytes()
    at = content.index(b"PLACE      \x08")
    patch(image, at, label)
    text = label.replace(b"\x05", b"\xe5").decode("cp850").rstrip(" ")
    with px.open(image, "r+", codepage=850) as volume:
        assert volume.label == text
        volume.label = ""
        assert volume.label == ""
        volume.label = text
    after = raw(image, codepage="cp850")
    assert (after.label, after.boot_label) == (text, text)
    assert after.children == found.children


# Sizes in KiB with media byte, sectors per cluster, sectors of a FAT, root entries, clusters.
OLD_FLOPPIES = [
    (160, 0xFE, 1, 1, 64, 313),
    (180, 0xFC, 1, 2, 64, 351),
    (320, 0xFF, 2, 1, 112, 315),
    (360, 0xFD, 2, 2, 112, 354),
]


@pytest.mark.parametrize(
    ("kib", "media", "per_cluster", "fat_sectors", "root_entries", "clusters"), OLD_FLOPPIES
)
@pytest.mark.parametrize("boot", [b"\0" * 512, b"\xeb\x2f\x14IBM  1.1" + b"\xf6" * 501])
def test_floppies_without_parameters(
    kib: int,
    media: int,
    per_cluster: int,
    fat_sectors: int,
    root_entries: int,
    clusters: int,
    boot: bytes,
) -> None:
    """Of DOS 1: the first byte of the FAT alone tells the layout."""
    content = bytearray(kib * 1024)
    content[:512] = boot
    root = (1 + 2 * fat_sectors) * 512
    heap = root + root_entries * 32
    for at in (512, 512 + fat_sectors * 512):
        content[at : at + 3] = bytes([media, 0xFF, 0xFF])
        content[at + 3 : at + 6] = b"\x03\xf0\xff"  # 2 -> 3, 3: the end
    size = per_cluster * 512 + 1
    content[root : root + 32] = (
        b"OLD     TXT\x20" + bytes(10) + struct.pack("<HHHI", 0, 33, 2, size)
    )
    content[heap : heap + size] = b"o" * size
    original = bytes(content)
    with px.open(content, "r+", fs="fat", tz="utc") as volume:
        assert volume.usage().clusters == clusters
        assert volume.usage().free_clusters == clusters - 2
        assert volume.cluster_size == per_cluster * 512
        assert volume.listdir() == ["OLD.TXT"]
        assert volume.read_bytes("/old.txt") == b"o" * size
        volume.write_bytes("/NEW.TXT", b"n" * ((clusters - 2) * per_cluster * 512))
        with pytest.raises(OSError, match="space"):
            volume.write_bytes("/MORE", b"x")
    assert content[:512] == original[:512]  # there is nothing of ours in it
    fat = content[512:root]
    assert fat[: len(fat) // 2] == fat[len(fat) // 2 :]
    with px.open(content, fs="fat") as volume:
        assert volume.read_bytes("/NEW.TXT").count(b"n") == (clusters - 2) * per_cluster * 512
        assert not volume.was_dirty
