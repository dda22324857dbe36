"""Where the structures of a volume lie, against what mkfs.exfat made and dump.exfat says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_tools import MIB
from conftest import require_tool

import pyexfat as px
from pyexfat._layout import exfat_layout
from pyexfat.picture import cluster_map


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "card.img"
    with open(path, "wb") as f:
        f.truncate(64 * MIB)
    subprocess.run(
        [require_tool("mkfs.exfat"), "-c", "4096", str(path)], check=True, capture_output=True
    )
    return path


def reader(data: bytes | bytearray) -> Callable[[int, int], bytes]:
    return lambda offset, length: bytes(data[offset : offset + length])


def dumped(path: Path) -> dict[str, int]:
    text = subprocess.run(
        [require_tool("dump.exfat"), str(path)], check=True, capture_output=True, text=True
    ).stdout
    rows = (line.partition(":") for line in text.splitlines())
    return {key.strip(): int(value) for key, _, value in rows if value.strip().isdigit()}


def test_the_layout_is_what_dump_exfat_says(image: Path) -> None:
    told = dumped(image)
    layout = exfat_layout(reader(image.read_bytes()))
    assert layout.heap_offset == told["Cluster Heap Offset (sector offset)"] * 512
    assert layout.clusters == told["Cluster Count"]
    assert layout.cluster_size == 4096
    clusters = -(-told["Bitmap size"] // 4096)
    assert layout.bitmap == [(told["Bitmap start cluster"] - 2, clusters)]
    table = (told["Upcase table start cluster"] - 2, -(-told["Upcase table size"] // 4096))
    assert layout.system == [("allocation bitmap", layout.bitmap[0]), ("up-case table", table)]
    taken = sum(int.from_bytes(piece, "little").bit_count() for _, piece in layout.taken())
    assert taken == told["Total Clusters"] - told["Free Clusters"]


def test_the_backup_boot_sector_says_the_same(image: Path) -> None:
    data = image.read_bytes()
    whole = exfat_layout(reader(data))
    backup = exfat_layout(reader(bytes(512) + data[512:]), 12 * 512)
    assert (backup.heap_offset, backup.system) == (whole.heap_offset, whole.system)
    with pytest.raises(ValueError, match="no exFAT boot sector"):
        exfat_layout(reader(bytes(512) + data[512:]))


def test_the_picture_of_an_empty_volume(image: Path) -> None:
    told = dumped(image)
    with px.open(image) as volume:
        picture = cluster_map(volume)
    assert picture.totals["free"] == told["Free Clusters"]
    assert picture.totals["directory"] == 1
    assert picture.totals["unowned"] == 0
    assert picture.totals["system"] == told["Total Clusters"] - told["Free Clusters"] - 1


def test_a_chain_that_is_a_loop_ends(image: Path) -> None:
    told = dumped(image)
    data = bytearray(image.read_bytes())
    fat = told["FAT Offset(sector offset)"] * 512
    for cluster in (told["Bitmap start cluster"], told["Root Cluster (cluster offset)"]):
        data[fat + cluster * 4 : fat + cluster * 4 + 4] = cluster.to_bytes(4, "little")
    layout = exfat_layout(reader(data))
    clusters = sum(count for _, count in layout.bitmap)
    assert clusters == 1 or clusters <= -(-told["Cluster Count"] // 8 // 4096) + 1
    assert sum(len(piece) for _, piece in layout.taken()) <= -(-told["Cluster Count"] // 8)


@pytest.mark.parametrize(
    ("at", "value"), [(108, 8), (108, 13), (109, 30)], ids=["sector", "large sector", "cluster"]
)
def test_sizes_that_can_not_be(image: Path, at: int, value: int) -> None:
    data = bytearray(image.read_bytes())
    data[at] = value
    with pytest.raises(ValueError, match="sector or cluster size"):
        exfat_layout(reader(data))


@pytest.mark.parametrize("width", [12, 16, 32])
def test_map_of_fat(width: int) -> None:
    """Clusters by owner; what the FAT says of them adds up."""
    size = {12: 4 << 20, 16: 16 << 20, 32: 64 << 20}[width]
    with px.format(px.Device.memory(size), fs=f"fat{width}", cluster_size=512 * 2) as vol:
        vol.mkdir("/d")
        vol.write_bytes("/d/a", bytes(10 * vol.cluster_size))
        vol.write_bytes("/b", bytes(3))
        vol.sync()
        picture = cluster_map(vol, cells=64)
        usage = vol.usage()
        totals = picture.totals
        assert totals["file"] == 11
        assert totals["directory"] == (2 if width == 32 else 1)
        assert totals["unowned"] == 0
        assert totals["free"] == usage.free_clusters
        assert sum(totals.values()) == usage.clusters
