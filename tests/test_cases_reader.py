"""The independent reader of exFAT images finds what is wrong, and nothing in what peers make."""

from __future__ import annotations

import lzma
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import require_shared, require_tool
from model.rawexfat import UnreadableError, read_image, rotate_sum16, rotate_sum32, stamp_ns

import pyexfat as px

MIB = 1 << 20


@pytest.mark.parametrize("cluster", ["512", "4K", "32K"])
def test_images_of_mkfs_have_no_violations(tmp_path: Path, cluster: str) -> None:
    """mkfs.exfat of exfatprogs."""
    mkfs = require_tool("mkfs.exfat")
    path = tmp_path / "a.img"
    with path.open("wb") as file:
        file.truncate(16 * MIB)
    subprocess.run([mkfs, "-c", cluster, "-L", "PEER", str(path)], check=True, capture_output=True)
    raw = read_image(path.read_bytes())
    assert raw.kinds() <= {"percent"}
    assert raw.label == "PEER"
    assert list(raw.tree) == ["/"]


@pytest.mark.parametrize(
    ("name", "kinds", "entries"),
    [
        ("dfir-exfat_win", set(), 703),  # made by Windows
        ("exfatprogs-bad_bitmap", {"orphan", "lost", "percent"}, 12),
        ("exfatprogs-bad_bitmap_size", {"bitmap"}, 1),
        ("exfatprogs-invalid_name", {"bad name"}, 42),
        ("exfatprogs-unused-dentries", {"after end", "stray entry"}, 468),
        ("exfatprogs-loop_chain", {"loop", "chain long", "orphan", "percent"}, 12),
    ],
)
def test_images_of_others(name: str, kinds: set[str], entries: int) -> None:
    """What their makers say is wrong with them."""
    packed = require_shared("images", f"{name}.img.xz")
    raw = read_image(lzma.decompress(packed.read_bytes()))
    assert raw.kinds() == kinds
    assert len(raw.tree) == entries


def test_sums_worked_by_hand() -> None:
    """Rotate right by one, add the byte."""
    assert rotate_sum16(b"\x01") == 1
    assert rotate_sum16(b"\x01\x00") == 0x8000
    assert rotate_sum16(b"\x01\x00\x05") == 0x4005
    assert rotate_sum32(b"\x01\x00") == 0x80000000
    assert rotate_sum16(b"\x01\x09\x00", (1,)) == 0x8000


def test_stamps_worked_by_hand() -> None:
    """2000-02-29 12:34:56.78 UTC+1 and the first that there is."""
    stamp = (20 << 25) | (2 << 21) | (29 << 16) | (12 << 11) | (34 << 5) | 28
    assert stamp_ns(stamp, 78, 0x84) == 951_824_096_780_000_000
    assert stamp_ns(1 << 21 | 1 << 16, 0, 0) == 315_532_800 * 10**9
    assert stamp_ns(0, 0, 0) is None


@pytest.fixture
def image() -> bytearray:
    """A volume with a file in pieces and one in one piece, a directory and a long name."""
    image = bytearray(MIB)
    with px.format(image, cluster_size=512) as vol:
        vol.mkdir("/d")
        with vol.open("/a", "ab", buffering=0) as a, vol.open("/d/b", "ab", buffering=0) as b:
            for _ in range(3):
                a.write(b"a" * 512)
                b.write(b"b" * 512)
        vol.write_bytes("/whole " + "w" * 40, b"w" * 2000)
    assert read_image(image).violations == []
    return image


def fix_set(image: bytearray, at: int) -> None:
    """A right checksum for a set that was changed."""
    n = 32 * (image[at + 1] + 1)
    image[at + 2 : at + 4] = struct.pack("<H", rotate_sum16(bytes(image[at : at + n]), (2, 3)))


def test_every_damage_is_seen(image: bytearray) -> None:
    """One byte or field at a time."""
    raw = read_image(image)
    a, b, whole = (raw.tree[p] for p in ("/a", "/d/b", "/whole " + "w" * 40))
    heap = struct.unpack_from("<I", image, 88)[0] << image[108]
    fat = struct.unpack_from("<I", image, 80)[0] << image[108]

    def seen(at: int, data: bytes, fixed: int | None = None) -> set[str]:
        copy = bytearray(image)
        copy[at : at + len(data)] = data
        if fixed is not None:
            fix_set(copy, fixed)
        return read_image(copy).kinds()

    stream = a.offset + 32
    assert "set checksum" in seen(a.offset + 8, b"\0")
    assert seen(stream + 4, b"\0\0", a.offset) == {"name hash"}
    assert seen(stream + 8, struct.pack("<Q", 1537), a.offset) == {"valid length"}
    assert "chain short" in seen(stream + 24, struct.pack("<Q", 5000), a.offset)
    assert "first cluster" in seen(stream + 20, struct.pack("<I", 1), a.offset)
    assert "cross link" in seen(stream + 20, struct.pack("<I", b.first_cluster), a.offset)
    assert seen(a.offset + 64 + 2, b"*", a.offset) >= {"bad name"}
    assert seen(a.offset + 4, b"\x60", a.offset) == {"attributes"}
    assert seen(a.offset + 12, b"\0\0\0\0", a.offset) == {"time"}
    assert seen(106, b"\x02") == {"dirty"}
    assert seen(106, b"\x04") == {"hard error"}
    assert seen(106, b"\x10") == {"flags"}
    assert seen(112, b"\x63") == {"percent"}
    assert seen(100, b"\x99") == {"boot checksum", "backup"}
    assert "backup" in seen(12 * 512 + 200, b"\x01")
    last = a.clusters[-1]
    assert "chain long" in seen(fat + 4 * last, struct.pack("<I", 900))
    assert "loop" in seen(fat + 4 * a.clusters[1], struct.pack("<I", a.clusters[0]))
    bitmap_at = heap  # the first cluster of a new volume
    assert seen(bitmap_at + 100, b"\x01") >= {"orphan"}
    bit = whole.clusters[0] - 2
    cleared = image[bitmap_at + bit // 8] & ~(1 << bit % 8)
    assert seen(bitmap_at + bit // 8, bytes([cleared])) >= {"lost"}
    assert "after end" in seen(raw.tree["/d"].offset, b"\0")


def test_names_that_differ_in_case_only(image: bytearray) -> None:
    """Made by hand, since no driver makes them."""
    with px.open(image, "r+") as vol:
        vol.touch("/x")
        vol.touch("/y")
    entry = read_image(image).tree["/y"]
    image[entry.offset + 64 + 2] = ord("X")
    hashed = rotate_sum16("X".encode("utf-16-le"))
    image[entry.offset + 36 : entry.offset + 38] = struct.pack("<H", hashed)
    fix_set(image, entry.offset)
    assert read_image(image).kinds() == {"duplicate"}


def test_what_is_no_volume() -> None:
    """Zeros and a geometry that can't be."""
    with pytest.raises(UnreadableError):
        read_image(bytes(MIB))
    image = bytearray(MIB)
    px.format(image).close()
    image[108] = 13
    with pytest.raises(UnreadableError):
        read_image(image)
