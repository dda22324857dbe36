"""More bugs that people reported of other implementations of FAT; each test names the report.

Others are in test_cases_fat.py, test_cases_fat_limits.py and test_names_fat*.py, by the same names.
"""

from __future__ import annotations

import importlib.metadata
import struct
from pathlib import Path

import pytest
from model.rawfat import RawVolume, read_image
from peers.fat import MIB, Geometry, fsck, made, mdir, mtools, raw, small

import pyexfat as px

ALL = [12, 16, 32]
TIB = 1 << 40


@pytest.fixture(params=ALL, ids="fat{}".format)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An empty small volume of each type."""
    return small(request.param, tmp_path / "image")


def fsinfo(image: Path, found: RawVolume) -> tuple[int, int]:
    """Free clusters and the next free one as FSInfo has them."""
    content = image.read_bytes()[found.sector_size :][:512]
    assert content[:4] == b"RRaA"
    return struct.unpack_from("<II", content, 488)


def test_pyfatfs_41_nothing_else_is_needed() -> None:
    """A dependency of others did not go with new Pythons; here are none but for extras."""
    needed = importlib.metadata.requires("pyexfat") or []
    assert [line for line in needed if "extra ==" not in line] == []


# ---- many and large ----


def test_dosfstools_219_108_million_clusters() -> None:
    """1.7 TB, for which others have no memory or no time: nothing is read whole."""
    size = 108_000_000 * 16384
    with px.Device.memory(size) as device:
        with px.format(device, "fat32", cluster_size=16384, tz="utc") as volume:
            assert volume.usage().clusters > 107_900_000
            volume.mkdir("/d")
            volume.write_bytes("/d/file", b"content" * 10_000)
        with px.open(device, "r+", tz="utc") as volume:
            free = volume.usage().free_clusters
            volume.touch("/d/large")
            volume.truncate("/d/large", (4 << 30) - 1)
            volume.write_bytes("/last", b"x")
            assert volume.usage().free_clusters == free - (4 << 30) // 16384 - 1
            assert volume.read_bytes("/d/file") == b"content" * 10_000
            assert volume.memory_held < 64 * MIB
            read = volume.counters.cache.bytes_read
        assert read < 8 * MIB  # of 432 MB that each FAT has
        assert device.held < 64 * MIB


@pytest.mark.parametrize("sync", ["lazy", "dirsync"])
def test_genimage_142_shredos_120_1000_files_leave_a_clean_volume(
    tmp_path: Path, sync: str
) -> None:
    """mcopy -b left them dirty, and 4.0.32 gives up at 1,000 files with "size too big"."""
    image = made(tmp_path / "image", Geometry(32, 64 * MIB))
    folder = tmp_path / "folder"
    folder.mkdir()
    for i in range(1000):
        (folder / f"file-{i:05}.txt").write_bytes(b"%d" % i * 100)
    with px.open(image, "r+", tz="utc", sync=sync) as volume:  # type: ignore[call-overload]
        volume.copy_in(folder, "/folder")
    found = raw(image)  # no mark is left, and no two short names are alike
    assert not found.dirty
    assert len(found.children["/folder"]) == 1000
    assert found.tree["/folder/file-00999.txt"].data == b"999" * 100
    assert fsck(image) == 1001
    assert sum(name.startswith("FI") for name in mdir(image, "/folder")) == 1000


def test_rust_fatfs_32_small_writes_are_put_together(image: Path) -> None:
    """A byte at a time, each by a call of its own."""
    with px.open(image, "r+", tz="utc") as volume:
        with volume.open("/file", "wb", buffering=0) as file:
            for i in range(5000):
                file.write(bytes([i % 256]))
        volume.sync()
        wrote = volume.counters.cache
        assert wrote.device_writes < 40
        assert wrote.bytes_written < 20_000
    assert raw(image).tree["/file"].data == bytes(i % 256 for i in range(5000))


# ---- directories ----


def test_mender_1021_nixpkgs_51158_rust_fatfs_100_dot_entries(image: Path) -> None:
    """The first two of a directory, with no long name in front; each field as it must be."""
    env = px.Env(seed=1, clock=1_600_000_000 * 10**9)  # 2020-09-13 12:26:40
    with px.open(image, "r+", tz="utc", env=env) as volume:
        volume.makedirs("/a directory with a long name/below/Below")
    found = raw(image)
    content = image.read_bytes()
    stamp = struct.pack(
        "<BHHH", 0, 12 << 11 | 26 << 5 | 20, 40 << 9 | 9 << 5 | 13, 40 << 9 | 9 << 5 | 13
    )
    above = 0
    for path in ("/a directory with a long name", "/a directory with a long name/below"):
        entry = found.tree[path]
        at = found.heap + (entry.first_cluster - 2) * found.cluster_size
        for i, (name, cluster) in enumerate(((b".", entry.first_cluster), (b"..", above))):
            high = cluster >> 16 if found.bits == 32 else 0
            expected = name.ljust(11) + b"\x10\0" + stamp + struct.pack("<H", high)
            expected += stamp[1:5] + struct.pack("<HI", cluster & 0xFFFF, 0)
            assert content[at + 32 * i :][:32] == expected, (path, name)
        above = entry.first_cluster
    assert fsck(image) == 3


# ---- FSInfo ----


def test_rust_fatfs_108_fsinfo_after_format(tmp_path: Path) -> None:
    """Right from the start, after changes, and in the copy behind the backup boot sector."""
    image = tmp_path / "image"
    with px.format(image, "fat32", size=40 * MIB, label="LABEL", tz="utc"):
        pass
    found = raw(image)
    assert fsinfo(image, found) == (found.free, 2)
    assert found.free == found.clusters - 1
    content = image.read_bytes()
    assert content[7 * 512 : 8 * 512] == content[512:1024]
    with px.open(image, "r+", tz="utc") as volume:
        volume.makedirs("/a/b")
        volume.write_bytes("/a/b/c", b"x" * 100_000)
        volume.unlink("/a/b/c")
        volume.write_bytes("/d", b"y" * 5000)
    found = raw(image)
    free, following = fsinfo(image, found)
    assert free == found.free == found.clusters - 3 - 10
    assert found.fat[following] == 0
    assert fsck(image) == 3 + 1  # and the label


def test_rusefi_8762_fsinfo_saves_the_scan(tmp_path: Path) -> None:
    """R0.15a of FatFs reads the whole FAT at each start."""
    image = made(tmp_path / "image", Geometry(32, 300 * MIB))
    with px.open(image, "r+", tz="utc") as volume:
        free = volume.usage().free_clusters
        assert free > 500_000
        volume.write_bytes("/file", b"x" * 5000)
    with px.open(image, "r+", tz="utc") as volume:
        assert volume.usage().free_clusters == free - 10
        volume.write_bytes("/another", b"x" * 5000)
        # What is looked at is the part of the map where the hint points.
        assert volume.counters.fat_entries_read <= 32768 + 64
        assert (
            volume.extents("/another")[0].device_offset > volume.extents("/file")[0].device_offset
        )


# ---- files ----


def test_go_diskfs_419_an_empty_file_has_no_cluster(image: Path, tmp_path: Path) -> None:
    """Start cluster 0, ours and others'; it can be read, and gets one when it is written."""
    (tmp_path / "empty").write_bytes(b"")
    mtools("mcopy", "-i", image, tmp_path / "empty", "::/THEIRS")
    with px.open(image, "r+", tz="utc") as volume:
        volume.touch("/ours")
        volume.write_bytes("/emptied", b"x" * 3000)
        volume.truncate("/emptied", 0)
    found = raw(image)
    for name in ("THEIRS", "ours", "emptied"):
        assert (found.tree[f"/{name}"].size, found.tree[f"/{name}"].first_cluster) == (0, 0)
    with px.open(image, "r+", tz="utc") as volume:
        for name in ("THEIRS", "ours", "emptied"):
            assert volume.read_bytes(f"/{name}") == b""
            assert volume.stat(f"/{name}").first_cluster == 0
            with volume.open(f"/{name}", "ab") as file:
                file.write(name.encode())
    found = read_image(image.read_bytes())
    for name in ("THEIRS", "ours", "emptied"):
        assert found.tree[f"/{name}"].data == name.encode()
        assert found.tree[f"/{name}"].first_cluster >= 2
    assert fsck(image) == 3
