"""Making FAT volumes from Python and the command line; labels, serial numbers and recognizing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from api_support import CLOCK, env
from cli_tools import Cli
from conftest import require_tool
from peers.fat import fsck, raw

import pyexfat as px
from pyexfat import _core
from pyexfat.fat import partition_type

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = {"fat12": 2 * MIB, "fat16": 20 * MIB, "fat32": 40 * MIB}
KINDS = list(SIZES)
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"


def u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def make(device: px.Device, fs: str = "fat", **options: Any) -> bytes:
    """Formats and returns the first 64 KiB (or all) of what is on the device."""
    px.format(device, fs, env=env(), tz="utc", **options).close()
    return device.pread(min(64 * KIB, device.size), 0)


def new(fs: str, **options: Any) -> px.Volume:
    return px.format(px.Device.memory(SIZES[fs]), fs, env=env(), tz="utc", **options)


def clean(device: _core.Device, tmp_path: Path) -> None:
    """fsck.fat finds nothing."""
    image = tmp_path / "judged"
    image.write_bytes(device.pread(device.size, 0))
    ended = subprocess.run(
        [require_tool("fsck.fat"), "-n", image], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout


def root_offset(boot: bytes) -> int:
    sector, fats = u16(boot, 11), boot[16]
    length = u16(boot, 22) or u32(boot, 36)
    return (u16(boot, 14) + fats * length) * sector


def label_place(fs: str) -> int:
    return 71 if fs == "fat32" else 43


# ---- what comes out ----


@pytest.mark.parametrize(
    ("kib", "media", "heads", "track", "cluster", "entries", "fat"),
    [
        (160, 0xFE, 1, 8, 512, 64, 1),
        (180, 0xFC, 1, 9, 512, 64, 2),
        (320, 0xFF, 2, 8, 1024, 112, 1),
        (360, 0xFD, 2, 9, 1024, 112, 2),
        (720, 0xF9, 2, 9, 1024, 112, 3),
        (1200, 0xF9, 2, 15, 512, 224, 7),
        (1440, 0xF0, 2, 18, 512, 224, 9),
        (2880, 0xF0, 2, 36, 1024, 224, 9),
    ],
)
def test_floppies(
    kib: int, media: int, heads: int, track: int, cluster: int, entries: int, fat: int
) -> None:
    """As DOS's FORMAT makes them."""
    device = px.Device.memory(kib * KIB)
    boot = make(device)
    assert u16(boot, 11) == 512
    assert boot[13] * 512 == cluster
    assert (u16(boot, 14), boot[16], u16(boot, 17)) == (1, 2, entries)
    assert (u16(boot, 19), boot[21], u16(boot, 22)) == (kib * 2, media, fat)
    assert (u16(boot, 24), u16(boot, 26)) == (track, heads)
    assert boot[512:516] == bytes([media, 0xFF, 0xFF, 0])
    assert px.detect(device).fs == "fat12"  # type: ignore[union-attr]
    with px.open(device) as volume:
        assert volume.fs == "fat12"
        assert volume.usage().clusters == (kib * 2 - 1 - 2 * fat - entries // 16) * 512 // cluster


@pytest.mark.parametrize(
    ("size", "fs", "cluster"),
    [
        (8 * MIB, "fat12", 2048),
        (16 * MIB, "fat16", 2048),
        (256 * MIB, "fat16", 4096),
        (511 * MIB, "fat16", 8192),
        (512 * MIB, "fat32", 4096),
        (8 * GIB, "fat32", 4096),
        (9 * GIB, "fat32", 8192),
        (17 * GIB, "fat32", 16384),
        (33 * GIB, "fat32", 32768),
    ],
)
def test_width_and_cluster_by_size(size: int, fs: str, cluster: int) -> None:
    with px.format(px.Device.memory(size), "fat") as volume:
        assert (volume.fs, volume.cluster_size) == (fs, cluster)


def test_everything_that_can_be_chosen() -> None:
    device = px.Device.memory(64 * MIB)
    data = make(
        device,
        "fat32",
        label="ALL",
        serial=0x11223344,
        fats=3,
        cluster_size=2048,
        alignment=512,
        fat={
            "reserved_sectors": 41,
            "heads": 7,
            "sectors_per_track": 11,
            "hidden_sectors": 99,
            "backup_sector": 12,
            "media": 0xFA,
            "drive": 0x81,
            "oem_name": "PYTHON",
            "boot_message": "Hello\n",
        },
    )
    assert data[3:11] == b"PYTHON  "
    assert (data[13], u16(data, 14), data[16], data[21]) == (4, 41, 3, 0xFA)
    assert (u16(data, 24), u16(data, 26), u32(data, 28)) == (11, 7, 99)
    assert (u32(data, 44), u16(data, 48), u16(data, 50)) == (2, 1, 12)
    assert (data[64], data[66], u32(data, 67)) == (0x81, 0x29, 0x11223344)
    assert data[71:90] == b"ALL        FAT32   "
    assert data[90 + 29 :].startswith(b"Hello\r\n\0")
    assert data[510:512] == b"\x55\xaa"
    assert data[12 * 512 : 13 * 512] == data[:512]
    assert data[13 * 512 : 14 * 512] == data[512:1024]  # FSInfo and its copy
    assert u32(data, 41 * 512) == 0x0FFFFFFA
    assert (data[0x200:0x204], data[0x3E4:0x3E8]) == (b"RRaA", b"rrAa")
    with px.open(device) as volume:
        usage = volume.usage()
        assert u32(data, 0x3E8) == usage.free_clusters == usage.clusters - 1
        assert volume.serial == 0x11223344


def test_alignment_counts_from_the_start_of_the_disk(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    with px.format(image, "fat32", size=100 * MIB, partition_table="mbr", alignment=MIB) as volume:
        assert volume.fs == "fat32"
        volume.write_bytes("/file", b"x")
        device = volume.device
        start = px.partitions(image)[0].offset
        boot = device.pread(512, 0)
        (extent,) = volume.extents("/file")
        heap = extent.device_offset - (2 - 1) * volume.cluster_size
        assert (start + heap) % MIB == 0
        assert u32(boot, 28) * 512 == start


@pytest.mark.parametrize(
    ("fs", "size", "kind"),
    [
        ("fat12", 8 * MIB, 0x01),
        ("fat16", 20 * MIB, 0x04),
        ("fat16", 100 * MIB, 0x0E),
        ("fat32", 100 * MIB, 0x0C),
        ("fat", 8 * MIB, 0x01),
        ("fat", 700 * MIB, 0x0C),
    ],
)
def test_partition_types(tmp_path: Path, fs: str, size: int, kind: int) -> None:
    image = tmp_path / "disk.img"
    px.format(image, fs, size=size, partition_table="mbr", label="PART").close()
    (partition,) = px.partitions(image)
    assert partition.type == kind
    with px.open(image, partition=1) as volume:
        assert volume.label == "PART"
        assert fs in (volume.fs, "fat")
    px.format(image, fs, size=size, partition_table="gpt").close()
    (partition,) = px.partitions(image)
    assert partition.type_guid == bytes.fromhex("A2A0D0EBE5B9334487C068B6B72699C7")
    assert partition_type("fat16", 65535) == 0x04


@pytest.mark.parametrize("fs", KINDS)
def test_the_same_env_makes_the_same_bytes(fs: str) -> None:
    a, b = (px.Device.memory(SIZES[fs]) for _ in range(2))
    assert make(a, fs, label="SAME") == make(b, fs, label="SAME")
    assert a.pread(a.size, 0) == b.pread(b.size, 0)
    entry = a.pread(64 * KIB, root_offset(a.pread(512, 0)) // 512 * 512)[:32]
    # 2023-11-14 22:13:20
    date, time = (2023 - 1980) << 9 | 11 << 5 | 14, 22 << 11 | 13 << 5 | 10
    assert CLOCK == 1_700_000_000 * 10**9
    assert entry[:12] == b"SAME       \x08"
    assert (u16(entry, 22), u16(entry, 24), u16(entry, 18)) == (time, date, date)


@pytest.mark.parametrize("fs", KINDS)
def test_old_content_is_gone(fs: str, tmp_path: Path) -> None:
    device = px.Device.memory(SIZES[fs])
    for at in range(0, device.size, MIB):
        device.pwrite(b"\xe5" * MIB, at)
    make(device, fs)
    with px.open(device) as volume:
        assert volume.listdir("/") == []
        assert volume.usage().used == (volume.cluster_size if fs == "fat32" else 0)
    clean(device, tmp_path)


def test_mbr_keeps_the_disk_signature() -> None:
    device = px.Device.memory(64 * MIB)
    disk = bytearray(512)
    disk[440:444] = b"SIGN"
    disk[510:] = b"\x55\xaa"
    device.pwrite(disk, 0)
    assert make(device, serial=5, fat={"mbr": True})[440:444] == b"SIGN"
    assert make(px.Device.memory(64 * MIB), serial=5, fat={"mbr": True})[440:444] == b"\5\0\0\0"


# ---- refusals ----


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"fs": "fat64"}, "fs"),
        ({"fat": {"media": 0x12}}, "media"),
        ({"fat": {"media": 256}}, "media"),
        ({"fat": {"drive": -1}}, "drive"),
        ({"fat": {"heads": 3}}, "geometry"),
        ({"fat": {"nonsense": 3}}, "nonsense"),
        ({"fat": {"oem_name": "ÄÖÜ"}}, "oem_name"),
        ({"fat": {"oem_name": "123456789"}}, "oem_name"),
        ({"fat": {"boot_message": "x" * 1000}}, "boot_message"),
        ({"fat": {"bad_blocks": [0]}}, "bad_blocks"),
        ({"fat": {"bad_blocks": [-1]}}, "bad_blocks"),
        ({"fats": 5}, "fats"),
        ({"uuid": bytes(16)}, "uuid"),
        ({"pack_bitmap": True}, "pack_bitmap"),
        ({"cluster_size": 1000}, "cluster_size"),
        ({"sector_size": 500}, "sector_size"),
        ({"label": "TWELVE CHARS"}, "label"),
        ({"label": "a/b"}, "label"),
        ({"label": "Ω𝄞"}, "label"),
        ({"label": "日本", "codepage": 437}, "label"),
        ({"fs": "exfat", "fat": {"media": 0xF8}}, "fat"),
    ],
)
def test_what_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises((ValueError, OverflowError), match=named):
        px.format(px.Device.memory(8 * MIB), **({"fs": "fat"} | options))


# ---- labels and serial numbers ----


@pytest.mark.parametrize("fs", KINDS)
def test_pyfatfs_18_labels_stand_in_both_places(fs: str, tmp_path: Path) -> None:
    volume = new(fs, label="FIRST")
    device = volume.device
    place = label_place(fs)

    def stored() -> tuple[bytes, list[bytes]]:
        volume.sync()
        boot = device.pread(8 * 512, 0)
        if fs == "fat32":
            assert boot[6 * 512 + place :][:11] == boot[place:][:11]
        at = root_offset(boot)
        root = device.pread(4096, at // 512 * 512)[at % 512 :][:512]
        labels = [root[i : i + 11] for i in range(0, 512, 32) if root[i] not in (0, 0xE5)]
        return boot[place : place + 11], labels

    assert stored() == (b"FIRST      ", [b"FIRST      "])
    volume.label = "second"
    assert volume.label == "second"
    assert stored() == (b"second     ", [b"second     "])
    volume.label = "ÄÖÜ"
    assert stored() == (b"\x8e\x99\x9a        ", [b"\x8e\x99\x9a        "])
    volume.label = SIGMA  # E5 in code page 437, which in an entry would mean that it is deleted
    assert volume.label == SIGMA
    assert stored() == (b"\xe5          ", [b"\x05          "])
    for bad in ("TWELVE CHARS", "a.b", " x", "日本", "tab\t"):
        with pytest.raises(ValueError, match="label"):
            volume.label = bad
    assert volume.label == SIGMA
    volume.label = ""
    assert volume.label == ""
    assert stored() == (b"NO NAME    ", [])
    volume.label = "NO NAME"
    assert volume.label == ""
    volume.label = "AGAIN"
    assert stored() == (b"AGAIN      ", [b"AGAIN      "])
    volume.close()
    found = px.detect(device)
    assert found is not None
    assert (found.fs, found.label, found.damaged) == (fs, "AGAIN", False)
    clean(device, tmp_path)


def test_labels_in_other_code_pages() -> None:
    volume = new("fat16", label="日本語", codepage=932)
    device = volume.device
    assert volume.label == "日本語"
    volume.close()
    assert device.pread(512, 0)[43:54] == "日本語".encode("cp932").ljust(11)
    with px.open(device, codepage=932) as volume:
        assert volume.label == "日本語"


def test_the_boot_sector_s_label_counts_when_the_root_has_none() -> None:
    volume = new("fat16", label="BOTH")
    device = volume.device
    volume.close()
    at = root_offset(device.pread(512, 0))
    sector = bytearray(device.pread(512, at))
    sector[0] = 0xE5
    device.pwrite(sector, at)
    with px.open(device) as volume:
        assert volume.label == "BOTH"
    sector[0:11] = b"ROOT ALONE "
    device.pwrite(sector, at)
    with px.open(device, "r+") as volume:
        assert volume.label == "ROOT ALONE"
        volume.label = "ROOT ALONE"  # makes them alike
    assert device.pread(512, 0)[43:54] == b"ROOT ALONE "


@pytest.mark.parametrize("fs", KINDS)
def test_serial_numbers(fs: str, tmp_path: Path) -> None:
    volume = new(fs, serial=1)
    assert volume.serial == 1
    volume.serial = 0xFEDCBA98
    assert volume.serial == 0xFEDCBA98
    device = volume.device
    volume.close()
    with px.open(device) as volume:
        assert volume.serial == 0xFEDCBA98
    if fs == "fat32":
        with px.open(device, use_backup=True) as volume:
            assert volume.serial == 0xFEDCBA98
    clean(device, tmp_path)


def test_atari_has_no_place_for_another_serial_number() -> None:
    with new("fat16", fat={"atari": True}) as volume:
        assert volume.fs == "fat16"
        with pytest.raises(px.UnsupportedFeatureError, match="serial"):
            volume.serial = 5
        volume.label = "ATARI"
        assert volume.label == "ATARI"


def test_a_full_root_has_no_room_for_a_label() -> None:
    with px.format(px.Device.memory(MIB), "fat12", fat={"root_entries": 16}) as volume:
        for i in range(16):
            volume.write_bytes(f"/F{i}", b"")
        with pytest.raises(OSError, match="space"):
            volume.label = "LABEL"
        assert volume.label == ""
        volume.remove("/F3")
        volume.label = "LABEL"
        assert volume.label == "LABEL"
        assert len(volume.listdir("/")) == 15


# ---- opening ----


def test_opening_by_name() -> None:
    volume = new("fat16")
    device = volume.device
    volume.close()
    for name in ("fat", "fat16"):
        with px.open(device, fs=name) as volume:
            assert volume.fs == "fat16"
    for name in ("fat12", "fat32"):
        with pytest.raises(ValueError, match="fs"):
            px.open(device, fs=name)
    with pytest.raises(OSError, match=r"."):
        px.open(device, fs="exfat")


def test_dosfstools_86_the_backup_opens_what_has_lost_its_first_sectors() -> None:
    volume = new("fat32", label="SAVED")
    device = volume.device
    volume.write_bytes("/file", b"content")
    volume.close()
    device.pwrite(bytes(512 * 4), 0)
    assert px.detect(device) is None
    with pytest.raises(px.CorruptImageError):
        px.open(device)
    with px.open(device, use_backup=True) as volume:
        assert (volume.fs, volume.label) == ("fat32", "SAVED")
        assert volume.read_bytes("/file") == b"content"


def test_dosfstools_99_a_shortened_image_is_damaged(tmp_path: Path) -> None:
    image = tmp_path / "short.img"
    px.format(image, "fat16", size=20 * MIB).close()
    with image.open("r+b") as file:
        file.truncate(20 * MIB - 1024)
    found = px.detect(image)
    assert found is not None
    assert (found.fs, found.damaged) == ("fat16", True)
    with pytest.raises(px.CorruptImageError, match="TotalSectors") as error:
        px.open(image)
    assert error.value.where is not None
    assert error.value.where.structure == "boot sector"
    assert error.value.where.offset == 19


# ---- with a directory in it ----


@pytest.mark.parametrize("fs", ["fat12", "fat16", "fat32"])
def test_populated_volumes_are_repeatable(fs: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub" / "a deeper directory").mkdir(parents=True)
    (tree / "README.TXT").write_bytes(b"r" * 3000)
    (tree / "sub" / "Übung with a long name").write_bytes(b"u" * 70_000)
    (tree / "sub" / "a deeper directory" / "empty").write_bytes(b"")
    for i, path in enumerate(sorted(tree.rglob("*"), reverse=True)):
        os.utime(path, ns=((1_600_000_000 + 60 * i) * 10**9,) * 2)
    images = []
    for name in ("one", "two"):
        image = tmp_path / name
        same = px.Env(seed=7, clock=1_700_000_000 * 10**9)
        options: dict[str, Any] = {"label": "TREE", "env": same, "tz": "utc", "size": SIZES[fs]}
        px.format(image, fs, populate=tree, **options).close()
        images.append(image)
    assert images[0].read_bytes() == images[1].read_bytes()
    assert content_of(images[0]) == {
        path.relative_to(tree).as_posix(): (
            b"" if path.is_dir() else path.read_bytes(),
            path.stat().st_mtime_ns,
        )
        for path in tree.rglob("*")
    }
    assert fsck(images[0]) == 5 + 1  # and the label


def content_of(image: Path) -> dict[str, tuple[bytes, int]]:
    found = raw(image)
    return {
        path.strip("/"): (entry.data, entry.modified)
        for path, entry in found.tree.items()
        if path != "/"
    }


# ---- the command line ----


def test_cli(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli = Cli(capsysbinary)
    said = cli("format", "card.img", "--size", "40M", "--fs", "fat32", "-L", "CARD")
    assert "fat32" in said.out
    assert px.detect(tmp_path / "card.img").label == "CARD"  # type: ignore[union-attr]
    (tmp_path / "message").write_text("No\n")
    (tmp_path / "bad").write_text("9000\n9001\n")
    options = "--reserved 40 --geometry 4/17 --hidden 7 --backup-boot 9 --media 0xFA --drive 0x81"
    options += " --mbr-stub --oem-name CLI --boot-message message --bad-blocks bad --fats 3"
    made = cli("format", "card.img", "--force", "--fs", "fat32", *options.split(), "--json").json
    assert made["bad_clusters"] == 4  # of 512 bytes, in two blocks of a KiB
    (seen,) = cli("info", "card.img", "--json").json
    assert seen["volumes"][0]["bad_clusters"] == 4
    assert "bad clusters" in cli("info", "card.img").out
    boot = (tmp_path / "card.img").read_bytes()[:512]
    assert (boot[3:11], u16(boot, 14), boot[16], boot[21]) == (b"CLI     ", 40, 3, 0xFA)
    assert (u16(boot, 24), u16(boot, 26), u32(boot, 28), u16(boot, 50)) == (17, 4, 7, 9)
    assert (boot[64], boot[446], boot[450]) == (0x81, 0x80, 0x0C)
    assert b"No\r\n" in boot
    cli("format", "floppy.img", "--size", "720K", "--fs", "fat", "--root-entries", "50")
    assert u16((tmp_path / "floppy.img").read_bytes(), 17) == 50
    cli("format", "atari.img", "--size", "720K", "--fs", "fat12", "--atari")
    assert (tmp_path / "atari.img").read_bytes()[:2] == b"\x60\x1c"
    said = cli("format", "x.img", "--size", "1M", "--fs", "fat16", code=2)
    assert "size" in said.err
    said = cli("format", "x.img", "--size", "1M", "--media", "0xF8", code=2)
    assert "fat" in said.err
    said = cli("format", "x.img", "--size", "1M", "--fs", "fat", "--geometry", "4", code=2)
    assert "--geometry" in said.err
