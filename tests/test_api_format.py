"""format(): targets, sizes, tables, populate, and images that come out the same bit for bit."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from api_support import CLOCK, assert_clean, env, pattern
from conftest import require_tool

import pyexfat as px

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


def dump(image: Path) -> str:
    """What dump.exfat says of an image."""
    tool = require_tool("dump.exfat")
    return subprocess.run([tool, str(image)], capture_output=True, text=True, check=True).stdout


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- the image ----


def test_a_new_image_is_made_with_its_size(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="64 MiB", label="CARD", serial=0x1234ABCD) as vol:
        assert (vol.fs, vol.label, vol.serial) == ("exfat", "CARD", 0x1234ABCD)
        assert vol.readonly is False
        assert vol.listdir() == []
        assert vol.was_dirty is False
    assert image.stat().st_size == 64 * MIB
    assert_clean(image)
    assert "1234abcd" in dump(image).casefold()
    with px.open(image) as vol:
        assert (vol.label, vol.serial, vol.was_dirty) == ("CARD", 0x1234ABCD, False)


def test_str_and_pathlike_are_paths(tmp_path: Path) -> None:
    px.format(str(tmp_path / "a"), size="4 MiB").close()
    px.format(tmp_path / "b", size=4 * MIB).close()
    assert (tmp_path / "a").stat().st_size == (tmp_path / "b").stat().st_size == 4 * MIB


def test_a_new_image_needs_a_size(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="size"):
        px.format(tmp_path / "a.img")
    assert not (tmp_path / "a.img").exists()


def test_an_image_that_exists_keeps_its_size_or_gets_another(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    image.write_bytes(pattern(8 * MIB))
    with px.format(image, label="ONE") as vol:
        vol.write_bytes("f", b"x")
    assert image.stat().st_size == 8 * MIB
    with px.format(image, size="16 MiB", label="TWO") as vol:
        assert vol.listdir() == []
        assert vol.label == "TWO"
    assert image.stat().st_size == 16 * MIB
    assert_clean(image)
    px.format(image, size="4 MiB").close()
    assert image.stat().st_size == 4 * MIB
    assert_clean(image)


def test_nothing_old_stays_when_a_size_is_given(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    image.write_bytes(b"SECRET: " * MIB)
    px.format(image, size="8 MiB").close()
    assert b"SECRET" not in image.read_bytes()


def test_full_writes_zeros(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    image.write_bytes(b"SECRET: " * (MIB // 2))
    steps: list[tuple[int, int, str]] = []
    px.format(image, full=True, progress=lambda *step: steps.append(step)).close()
    assert b"SECRET" not in image.read_bytes()
    assert_clean(image)
    assert steps[-1][0] == steps[-1][1]
    assert {step[2] for step in steps} == {"format"}


def test_a_failed_format_removes_the_file_it_made(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with pytest.raises((ValueError, OSError)):
        px.format(image, size="64 MiB", cluster_size=3000)
    assert not image.exists()
    with pytest.raises((ValueError, OSError)):
        px.format(image, size="64 MiB", label="x" * 12)
    assert not image.exists()
    with pytest.raises(FileNotFoundError):
        px.format(image, size="64 MiB", populate=tmp_path / "nothing")
    assert not image.exists()
    with pytest.raises(FileNotFoundError):
        px.format(tmp_path / "no" / "a.img", size="64 MiB")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("size", "big"),
        ("size", 0),
        ("size", -1),
        ("cluster_size", "tiny"),
        ("cluster_size", 3000),
        ("cluster_size", "64 MiB"),
        ("sector_size", 1000),
        ("sector_size", 8192),
        ("alignment", 3000),
        ("fats", 3),
        ("label", "twelve units"),
        ("serial", 1 << 32),
        ("serial", -1),
        ("uuid", "none"),
        ("uuid", b"short"),
        ("partition_table", "bsd"),
        ("offset", -1),
        ("length", "x"),
    ],
)
def test_a_bad_argument_is_named(tmp_path: Path, argument: str, value: Any) -> None:
    image = tmp_path / "a.img"
    options = {"size": "64 MiB", argument: value}
    with pytest.raises(ValueError, match=argument):
        px.format(image, **options)
    assert not image.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"label": "twelve units"},
        {"label": "a:b"},
        {"cluster_size": "64 MiB"},
        {"cluster_size": 3000},
        {"sector_size": 1000},
        {"alignment": "1 GiB"},
        {"fats": 5},
        {"uuid": "none"},
        {"serial": -1},
        {"populate": "nowhere"},
        {"populate": __file__},
        {"sync": "always"},
        {"policy": {"speed": 9}},
        {"policy": {"empty_hint": "perhaps"}},
        {"pool": 5},
        {"env": 5},
        {"progress": 5},
        {"fat": {"reserved_sectors": -1}},
        {"fat": {"boot_message": "x" * 450}},
        {"codepage": "klingon"},
        {"tz": "Mars/Base"},
        {"utc_offset": 100_000},
    ],
    ids=lambda options: "-".join(options),
)
def test_a_format_that_can_not_be_changes_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="4 MiB") as vol:
        vol.write_bytes("kept", b"kept")
    before = image.read_bytes()
    for fs, size, table in product(
        ("exfat", "fat16", "fat32"), (None, "40 MiB", "100 MiB"), (None, "mbr", "gpt")
    ):
        with pytest.raises((ValueError, TypeError, LookupError, OSError)):
            px.format(image, fs, size=size, partition_table=table, **options)
        assert image.read_bytes() == before


@pytest.mark.parametrize("options", [{"size": 512}, {"size": "1 MiB", "partition_table": "gpt"}])
def test_a_size_that_can_not_be_changes_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    image = tmp_path / "a.img"
    px.format(image, size="4 MiB").close()
    before = image.read_bytes()
    with pytest.raises(ValueError, match="size"):
        px.format(image, **options)
    assert image.read_bytes() == before


def test_a_volume_that_is_open_keeps_its_first_sectors() -> None:
    """No partition table is written over it."""
    device = px.Device.memory("64 MiB")
    with px.format(device) as vol:
        before = device.pread(64 << 10, 0)
        for table in ("mbr", "gpt"):
            with pytest.raises(OSError, match="busy"):
                px.format(device, partition_table=table)  # type: ignore[arg-type]
        assert device.pread(64 << 10, 0) == before
        vol.touch("x")


def test_one_place_at_a_time(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    image.write_bytes(bytes(8 * MIB))
    for options in (
        {"partition_table": "mbr", "offset": MIB},
        {"partition_table": "gpt", "partition": 1},
        {"partition": 1, "length": MIB},
    ):
        with pytest.raises(ValueError, match="only one"):
            px.format(image, **options)
    assert image.read_bytes() == bytes(8 * MIB)


def test_an_unknown_file_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises((ValueError, OSError)):
        px.format(tmp_path / "a.img", "ntfs", size="64 MiB")
    assert not (tmp_path / "a.img").exists()


def test_an_image_in_use_is_refused(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="8 MiB") as vol:
        vol.write_bytes("f", b"x")
        with pytest.raises(OSError, match="busy") as busy:
            px.format(image, size="8 MiB")
        assert busy.value.errno == 16
        assert vol.read_bytes("f") == b"x"
    assert_clean(image)


def test_other_targets(tmp_path: Path) -> None:
    buffer = bytearray(4 * MIB)
    px.format(buffer, label="BUFFER").close()
    assert buffer[3:11] == b"EXFAT   "
    stream = io.BytesIO(bytes(4 * MIB))
    px.format(stream, label="STREAM").close()
    assert not stream.closed
    assert stream.getvalue()[3:11] == b"EXFAT   "
    device = px.Device.memory("4 MiB")
    px.format(device, label="DEVICE").close()
    assert device.pread(512, 0)[3:11] == b"EXFAT   "
    for name, data in (("buffer", buffer), ("stream", stream.getvalue())):
        (tmp_path / name).write_bytes(data)
        assert_clean(tmp_path / name)


def test_read_only_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="bytes"):
        px.format(bytes(4 * MIB))
    with pytest.raises(TypeError, match="target"):
        px.format(42)
    image = tmp_path / "a.img"
    image.write_bytes(bytes(4 * MIB))
    with image.open("rb") as stream, pytest.raises(io.UnsupportedOperation, match="writing"):
        px.format(stream)
    assert image.read_bytes() == bytes(4 * MIB)


def test_size_resizes_a_device_that_can_be() -> None:
    device = px.Device.memory("4 MiB")
    with px.format(device, size="32 MiB") as vol:
        assert device.size == 32 * MIB
        assert vol.size == 32 * MIB
    with pytest.raises((OSError, ValueError)):
        px.format(bytearray(4 * MIB), size="8 MiB")


def test_geometry(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="256 MiB", cluster_size="64K", alignment="4 MiB", fats=1) as vol:
        assert vol.cluster_size == 64 << 10
        assert vol.usage().cluster_size == 64 << 10
    assert_clean(image)
    boot = image.read_bytes()[:512]
    heap_offset = int.from_bytes(boot[88:92], "little") * 512  # section 3.1.6
    assert heap_offset % (4 * MIB) == 0
    assert boot[109] == 7  # 128 sectors to the cluster (section 3.1.15)


@pytest.mark.parametrize("sector", [512, 1024, 2048, 4096])
def test_sector_sizes(tmp_path: Path, sector: int) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="64 MiB", sector_size=sector) as vol:
        assert vol.sector_size == sector
        vol.write_bytes("f", pattern(10_000))
    assert image.read_bytes()[108] == sector.bit_length() - 1
    assert_clean(image)
    with px.open(image) as vol:
        assert vol.sector_size == sector
        assert vol.read_bytes("f") == pattern(10_000)


def test_uuid(tmp_path: Path) -> None:
    wanted = UUID("12345678-9abc-def0-1234-56789abcdef0")
    for given in (wanted, str(wanted), wanted.bytes):
        with px.format(px.Device.memory("4 MiB"), uuid=given) as vol:
            assert vol.uuid == wanted
    with px.format(px.Device.memory("4 MiB")) as vol:
        assert vol.uuid is None


def test_a_huge_sparse_image_costs_little(tmp_path: Path) -> None:
    image = tmp_path / "huge.img"
    with px.format(image, size="8 TiB") as vol:
        assert vol.usage().total > 7 << 40
    assert image.stat().st_size == 8 << 40
    assert image.stat().st_blocks * 512 < 64 * MIB


# ---- tables ----


@pytest.mark.parametrize("scheme", ["mbr", "gpt"])
def test_a_partition_table(tmp_path: Path, scheme: str) -> None:
    image = tmp_path / "disk.img"
    with px.format(image, size="64 MiB", partition_table=scheme, label="PART") as vol:
        vol.write_bytes("f", b"in a partition")
    parts = px.partitions(image)
    assert [(p.number, p.offset) for p in parts] == [(1, MIB)]
    data = image.read_bytes()
    assert data[510:512] == b"\x55\xaa"
    assert data[MIB + 3 : MIB + 11] == b"EXFAT   "
    # PartitionOffset is in sectors of the volume (section 3.1.3).
    assert int.from_bytes(data[MIB + 64 : MIB + 72], "little") == MIB // 512
    if scheme == "mbr":
        assert parts[0].type == 7
        assert data[450] == 7
    else:
        assert data[512:520] == b"EFI PART"
        assert UUID(bytes_le=parts[0].type_guid) == UUID("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7")
    sfdisk = require_tool("sfdisk")
    run = subprocess.run([sfdisk, "-V", image], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    volume = tmp_path / "part.img"
    volume.write_bytes(data[MIB : MIB + parts[0].length])
    assert_clean(volume)
    for options in ({}, {"partition": 1}, {"offset": MIB, "length": parts[0].length}):
        with px.open(image, **options) as vol:
            assert vol.label == "PART"
            assert vol.read_bytes("f") == b"in a partition"


def test_a_partition_is_formatted_again_and_the_rest_left_alone(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    px.format(image, size="64 MiB", partition_table="mbr", label="OLD").close()
    before = image.read_bytes()[:MIB]
    px.format(image, partition=1, label="NEW").close()
    assert image.read_bytes()[:MIB] == before
    with px.open(image) as vol:
        assert vol.label == "NEW"
    with pytest.raises(ValueError, match=r"partition 3 does not exist \(there are: 1\)"):
        px.format(image, partition=3)


def test_a_part_of_an_image(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(b"\xee" * (16 * MIB))
    px.format(image, offset="2 MiB", length="8 MiB", label="INSIDE").close()
    data = image.read_bytes()
    assert data[: 2 * MIB] == b"\xee" * (2 * MIB)
    assert data[10 * MIB :] == b"\xee" * (6 * MIB)
    with px.open(image, offset="2 MiB", length="8 MiB") as vol:
        assert vol.label == "INSIDE"
        assert vol.size <= 8 * MIB
    part = tmp_path / "part"
    part.write_bytes(data[2 * MIB : 10 * MIB])
    assert_clean(part)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"offset": "64 MiB"}, "offset"),
        ({"offset": 100}, "offset"),
        ({"offset": MIB, "length": "8 MiB"}, "length"),
        ({"length": 1000}, "length"),
        ({"length": 0}, "length"),
    ],
)
def test_a_part_that_is_not_there(tmp_path: Path, options: dict[str, Any], word: str) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(8 * MIB))
    with pytest.raises(ValueError, match=word):
        px.format(image, **options)
    assert image.read_bytes() == bytes(8 * MIB)


# ---- populate ----


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "b.txt").write_bytes(b"b")
    (root / "a.bin").write_bytes(pattern(200_000))
    (root / "sub" / "Übung €.txt").write_text("ü", encoding="utf-8")
    (root / "sub" / "deep" / "zero").write_bytes(b"")
    for i, path in enumerate(sorted(root.rglob("*"))):
        os.utime(path, ns=(CLOCK + i * 2 * 10**9, CLOCK - (i + 1) * 2 * 10**9))
    return root


def test_populate(tmp_path: Path, tree: Path) -> None:
    image = tmp_path / "a.img"
    seen: list[tuple[int, int, str]] = []
    with px.format(
        image, size="8 MiB", populate=tree, progress=lambda *step: seen.append(step)
    ) as vol:
        assert vol.listdir("/") == ["a.bin", "b.txt", "empty", "sub"]
        assert vol.listdir("/sub") == ["deep", "Übung €.txt"]
        assert vol.read_bytes("a.bin") == pattern(200_000)
        assert vol.stat("/sub/deep/zero").st_size == 0
        assert vol.isdir("/empty")
        for path in tree.rglob("*"):
            inside = vol.stat("/" + path.relative_to(tree).as_posix())
            modified = path.stat().st_mtime_ns
            assert inside.st_mtime_ns == modified
            assert inside.st_atime_ns == modified
            assert inside.st_birthtime_ns == modified
    assert_clean(image)
    assert seen[-1][:2] == (200_003, 200_003)


def test_populate_wants_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        px.format(tmp_path / "a.img", size="8 MiB", populate=tmp_path / "file")
    assert not (tmp_path / "a.img").exists()


def test_an_image_in_the_directory_it_is_made_of(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(OSError, match="into itself") as error:
        px.format(tmp_path / "a.img", size="8 MiB", populate=tmp_path)
    assert error.value.errno == 22
    assert str(error.value.filename).endswith("a.img")
    assert not (tmp_path / "a.img").exists()


def test_populate_that_does_not_fit_leaves_no_image(tmp_path: Path, tree: Path) -> None:
    (tree / "large").write_bytes(bytes(10 * MIB))
    with pytest.raises(OSError, match="No space left"):
        px.format(tmp_path / "a.img", size="8 MiB", populate=tree)
    assert not (tmp_path / "a.img").exists()


# ---- bit for bit ----


def test_the_same_env_gives_the_same_image(tmp_path: Path, tree: Path) -> None:
    images = [tmp_path / "1.img", tmp_path / "2.img"]
    for image in images:
        px.format(image, size="8 MiB", label="SAME", populate=tree, env=env()).close()
        for path in tree.rglob("*"):  # reading must not matter, nor must access times
            os.utime(path, ns=(CLOCK + 10**12, path.stat().st_mtime_ns))
    assert digest(images[0]) == digest(images[1])
    px.format(images[1], size="8 MiB", label="SAME", populate=tree, env=env(seed=2)).close()
    assert digest(images[0]) != digest(images[1])


def test_the_same_env_gives_the_same_image_after_other_work(tmp_path: Path) -> None:
    def work(image: Path) -> str:
        with px.format(image, size="8 MiB", env=env(), partition_table="gpt") as vol:
            vol.makedirs("a/b/c")
            vol.create_many("a", [f"f{i}" for i in range(100)])
            vol.write_bytes("a/b/c/x", pattern(100_000))
            vol.rename("a/f7", "a/b/g")
            vol.rmtree("a/b/c")
            vol.label = "NEW"
        return digest(image)

    assert work(tmp_path / "1.img") == work(tmp_path / "2.img")


def test_source_date_epoch(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = CLOCK // 10**9 - 4
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(epoch))
    images = [tmp_path / "1.img", tmp_path / "2.img"]
    for image in images:
        with px.format(image, size="8 MiB", populate=tree) as vol:
            times = [vol.stat(str(path)).st_mtime_ns for path in vol.path("/").rglob("*")]
            # Newer times are brought down to it, older ones stay.
            assert max(times) == epoch * 10**9
            assert min(times) == min(p.stat().st_mtime_ns for p in tree.rglob("*"))
            vol.touch("made later")
            assert vol.stat("made later").st_mtime_ns == epoch * 10**9
    assert digest(images[0]) == digest(images[1])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(epoch + 2))
    px.format(images[1], size="8 MiB", populate=tree).close()
    assert digest(images[0]) != digest(images[1])


@pytest.mark.parametrize("text", ["yesterday", "-5", "1.5", "9" * 12])
def test_a_bad_source_date_epoch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH"):
        px.format(tmp_path / "a.img", size="8 MiB")
    assert not (tmp_path / "a.img").exists()


def test_an_env_comes_before_source_date_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    px.format(tmp_path / "1.img", size="8 MiB", env=env()).close()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    px.format(tmp_path / "2.img", size="8 MiB", env=env()).close()
    assert digest(tmp_path / "1.img") == digest(tmp_path / "2.img")


def test_without_either_two_images_differ(tmp_path: Path) -> None:
    serials = set()
    for name in "ab":
        with px.format(tmp_path / name, size="4 MiB") as vol:
            serials.add(vol.serial)
    assert len(serials) == 2
