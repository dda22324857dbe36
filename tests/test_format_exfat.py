"""Formatting exFAT from Python: arguments, defaults, refusals, labels and serial numbers."""

from __future__ import annotations

import functools
import struct
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyexfat as px
from pyexfat import _core

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
FORBIDDEN = '"*/:<>?\\|'


def boot(device: px.Device) -> dict[str, int]:
    """Fields of the main boot sector (specification, section 3.1)."""
    sector = device.pread(device.sector_size, 0)
    names = "partition_offset length fat_offset fat_length heap_offset clusters root serial"
    values = struct.unpack_from("<QQIIIIII", sector, 64)
    fields = dict(zip(names.split(), values, strict=True))
    fields["sector"] = 1 << sector[108]
    fields["cluster"] = fields["sector"] << sector[109]
    fields["fats"] = sector[110]
    fields["percent"] = sector[112]
    return fields


def checksum(region: bytes, sector: int) -> int:
    """Boot checksum of the specification, section 3.4."""
    total = 0
    for i, byte in enumerate(region[: 11 * sector]):
        if i not in (106, 107, 112):
            total = ((total << 31 | total >> 1) + byte) & 0xFFFFFFFF
    return total


def region_serial(device: _core.Device, first_sector: int, sector: int = 512) -> int | None:
    """The serial number in a boot region, or None where the region's checksum is wrong."""
    region = device.pread(12 * sector, first_sector * sector)
    right = struct.pack("<I", checksum(region, sector)) * (sector // 4)
    return struct.unpack_from("<I", region, 100)[0] if region[-sector:] == right else None


def test_new_volume_says_what_was_asked_for() -> None:
    device = px.Device.memory(64 * MIB)
    guid = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    with px.format(
        device, label="Grüße 1", serial=0xDEADBEEF, uuid=guid, cluster_size="8 KiB", fats=2
    ) as volume:
        assert (volume.fs, volume.label, volume.serial) == ("exfat", "Grüße 1", 0xDEADBEEF)
        assert (volume.cluster_size, volume.sector_size, volume.uuid) == (8192, 512, guid)
        assert volume.listdir() == []
    fields = boot(device)
    assert fields["fats"] == 2
    assert fields["serial"] == 0xDEADBEEF
    # The sixteen bytes stand on the disk in the order of the text.
    heap = fields["heap_offset"] * 512
    root = device.pread(512, heap + (fields["root"] - 2) * 8192)
    assert root[4 * 32] == 0xA0
    assert root[4 * 32 + 6 :][:16] == guid.bytes
    found = px.detect(device)
    assert found is not None
    assert (found.fs, found.size, found.label, found.damaged) == (
        "exfat",
        64 * MIB,
        "Grüße 1",
        False,
    )


@given(
    sectors=st.integers(2048, 131072),
    sector_shift=st.integers(9, 12),
    cluster_shift=st.integers(9, 17) | st.none(),
    fats=st.integers(1, 2),
    align_shift=st.integers(9, 20) | st.none(),
    place=st.integers(0, 1 << 20),
    pack=st.booleans(),
)
def test_any_geometry_is_sound(
    sectors: int,
    sector_shift: int,
    cluster_shift: int | None,
    fats: int,
    align_shift: int | None,
    place: int,
    pack: bool,
) -> None:
    size = sectors * 512
    sector = 1 << sector_shift
    device = px.Device.memory(size)
    align = 0 if align_shift is None else max(1 << align_shift, sector)
    cluster = 0 if cluster_shift is None else max(1 << cluster_shift, sector)
    start = place * sector
    make = functools.partial(
        _core.format,
        device,
        sector_size=sector,
        cluster_size=cluster,
        fats=fats,
        alignment=align,
        partition_offset=start,
        pack_bitmap=pack,
    )
    try:
        make()
    except ValueError:
        # Only a small volume has too little room for what was asked.
        assert size < 4 * max(align, 16 * cluster)
        with pytest.raises(ValueError, match=r"^(alignment|cluster_size)"):
            make()
        return
    f = boot(device)
    cluster = f["cluster"]
    assert f["length"] == size // sector
    assert f["fat_offset"] >= 24
    assert f["fat_length"] * sector >= 4 * (f["clusters"] + 2)
    assert f["heap_offset"] >= f["fat_offset"] + fats * f["fat_length"]
    # As many clusters as fit, as section 3.1.9 has it.
    assert f["clusters"] == (f["length"] - f["heap_offset"]) * sector // cluster
    bitmap = -(-(f["clusters"] + 7) // 8 // cluster)
    used = bitmap * fats + -(-5836 // cluster) + 1
    assert f["percent"] == 100 * used // f["clusters"]
    if align:
        assert (f["fat_offset"] * sector + start) % align == 0
    with px.open(device) as volume:
        usage = volume.usage()
        assert usage.clusters == f["clusters"]
        assert usage.clusters - usage.free_clusters == used
        assert volume.listdir() == []


@pytest.mark.parametrize(
    ("size", "arguments", "argument"),
    [
        (MIB - 512, {}, "size"),
        (8 * MIB, {"sector_size": 513}, "sector_size"),
        (8 * MIB, {"cluster_size": 1000}, "cluster_size"),
        (8 * MIB, {"cluster_size": "64 MiB"}, "cluster_size"),
        (5 * TIB, {"cluster_size": 1024}, "cluster_size"),
        (8 * MIB, {"fats": 3}, "fats"),
        (8 * MIB, {"alignment": "4 MiB"}, "alignment"),
        (8 * MIB, {"label": "twelve chars"}, "label"),
        (8 * MIB, {"label": "a:b"}, "label"),
        (8 * MIB, {"label": "a\0b"}, "label"),
    ],
)
def test_bad_arguments_are_named(size: int, arguments: dict[str, object], argument: str) -> None:
    device = px.Device.memory(size)
    with pytest.raises(ValueError, match=argument):
        px.format(device, **arguments)  # type: ignore[arg-type]
    assert device.pread(4096, 0) == bytes(4096)


def test_too_many_clusters_say_what_would_do() -> None:
    device = px.Device.memory(5 * TIB)
    with pytest.raises(ValueError, match="2048 bytes"):
        px.format(device, cluster_size=1024)
    px.format(device, cluster_size=2048).close()


@pytest.mark.parametrize("size", [4 * TIB, 64 * TIB, 128 * 1024 * TIB])
def test_huge_volumes_cost_little(size: int) -> None:
    device = px.Device.memory(size)
    with px.format(device) as volume:
        assert volume.usage().total > 0.999 * size
        volume.write_bytes("/a", b"x")
    with px.open(device) as volume:
        assert volume.read_bytes("/a") == b"x"


def test_sparse_file_stays_sparse(tmp_path: Path) -> None:
    image = tmp_path / "big.img"
    with image.open("wb") as file:
        file.truncate(2 * TIB)
    for _ in range(2):  # the second time over the first volume
        px.format(image).close()
        assert image.stat().st_size == 2 * TIB
        assert image.stat().st_blocks * 512 < 4 * MIB


def test_nothing_of_the_old_volume_shows() -> None:
    device = px.Device.memory(16 * MIB)
    with px.format(device, cluster_size=512) as volume:
        for i in range(300):
            volume.write_bytes(f"/file {i}", bytes([i & 0xFF]) * 5000)
    with px.format(device, cluster_size=4096) as volume:
        assert volume.listdir() == []
        usage = volume.usage()
        assert usage.clusters - usage.free_clusters == 4
        volume.mkdir("/d")
        assert volume.listdir("/d") == []


def test_full_format_reports_and_stops() -> None:
    device = px.Device.memory(32 * MIB)
    device.pwrite(b"\xa5" * 512, 20 * MIB)
    seen: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        seen.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.format(device, full=True, progress=stop)
    assert len(seen) == 1
    assert px.detect(device) is None

    seen.clear()
    device.pwrite(b"\xa5" * 512, 20 * MIB)
    _core.format(device, full=True, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (32 * MIB, 32 * MIB)
    assert device.pread(512, 20 * MIB) == bytes(512)


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


labels = st.text(
    st.characters(codec="utf-8", exclude_characters=FORBIDDEN, min_codepoint=0x20), max_size=11
)


@given(labels, labels)
def test_labels_keep_every_character(first: str, second: str) -> None:
    device = px.Device.memory(MIB)
    if units(first) > 11:
        with pytest.raises(ValueError, match="label"):
            px.format(device, label=first)
        first = ""
    with px.format(device, label=first) as volume:
        assert volume.label == first
        if units(second) > 11:
            with pytest.raises((ValueError, OSError)):
                volume.label = second
            second = first
        else:
            volume.label = second
        assert volume.label == second
    found = px.detect(device)
    assert found is not None
    assert found.label == second
    with px.open(device) as volume:
        assert volume.label == second


@pytest.mark.parametrize("character", [*FORBIDDEN, "\0", "\x1f"])
def test_label_characters_that_are_refused(character: str) -> None:
    with px.format(px.Device.memory(MIB), label="before") as volume:
        with pytest.raises((ValueError, OSError)):
            volume.label = f"a{character}b"
        assert volume.label == "before"


def relabelled(count: int) -> px.Device:
    """A volume whose label entry says ``count`` units, all of them set."""
    device = px.Device.memory(MIB)
    px.format(device, label="x").close()
    root = boot(device)["heap_offset"] * 512 + 3 * 4096
    sector = bytearray(device.pread(512, root))
    sector[:32] = bytes([0x83, count]) + "ABCDEFGHIJKLMNO".encode("utf-16-le")
    device.pwrite(sector, root)
    return device


def test_label_that_is_too_long_is_read_as_far_as_the_entry_goes() -> None:
    device = relabelled(15)
    with px.open(device, "r+") as volume:
        assert volume.label == "ABCDEFGHIJKLMNO"
        volume.label = "ABCDEFGHIJK"
    with px.open(relabelled(16)) as volume, pytest.raises(px.CorruptImageError) as caught:
        _ = volume.label
    assert caught.value.where is not None
    assert caught.value.where.field == "CharacterCount"
    assert (caught.value.where.found, caught.value.where.expected) == (16, 11)


def test_volume_of_less_than_a_mebibyte_opens() -> None:
    device = px.Device.memory(MIB)
    px.format(device).close()
    region = bytearray(device.pread(24 * 512, 0))
    for start in (0, 12 * 512):
        struct.pack_into("<Q", region, start + 72, 2047)
        struct.pack_into("<I", region, start + 92, 239)
        right = checksum(region[start:], 512)
        region[start + 11 * 512 : start + 12 * 512] = struct.pack("<I", right) * 128
    device.pwrite(region, 0)
    with px.open(device.slice(0, MIB - 512), "r+") as volume:
        volume.write_bytes("/a", b"a")
        assert volume.usage().clusters == 239


def test_label_takes_a_place_among_files_and_gives_it_back() -> None:
    device = px.Device.memory(MIB)
    with px.format(device) as volume:
        names = [f"{i:03}" for i in range(100)]
        volume.create_many("/", names)
        for name in names[::3]:
            volume.remove(f"/{name}")
        for label in ("one", "", "two", "eleven char", ""):
            volume.label = label
            volume.write_bytes(f"/after {label}", label.encode())
        volume.label = "last"
        left = sorted(volume.listdir())
    with px.open(device) as volume:
        assert volume.label == "last"
        assert sorted(volume.listdir()) == left
        assert len(left) == 100 - 34 + 4
        assert volume.read_bytes("/after two") == b"two"


def test_label_in_a_full_root_directory() -> None:
    device = px.Device.memory(MIB)
    with px.format(device, cluster_size=512) as volume:
        # 16 entries in the first cluster: 3 are taken (one is the unused label's), 12 by 4 files.
        volume.create_many("/", ["a", "b", "c", "d"])
        volume.label = "fits"
        volume.label = ""
        volume.create_many("/", ["e"])
        volume.label = "again"
    with px.open(device) as volume:
        assert volume.label == "again"
        assert sorted(volume.listdir()) == ["a", "b", "c", "d", "e"]


def test_same_label_and_serial_write_nothing() -> None:
    device = px.Device.memory(MIB)
    px.format(device, label="same", serial=5).close()
    recorder = device.record()
    with px.open(recorder, "r+") as volume:
        volume.label = "same"
        volume.serial = 5
    assert not [e for e in map(recorder.entry, range(len(recorder))) if e.kind == "write"]


@pytest.mark.parametrize("sector", [512, 4096])
def test_serial_is_changed_in_both_regions(sector: int) -> None:
    device = px.Device.memory(2 * MIB)
    with px.format(device, sector_size=sector, serial=1) as volume:
        volume.serial = 0xFEDCBA98
        assert volume.serial == 0xFEDCBA98
    assert region_serial(device, 0, sector) == 0xFEDCBA98
    assert region_serial(device, 12, sector) == 0xFEDCBA98
    with px.open(device, use_backup=True) as volume:
        assert volume.serial == 0xFEDCBA98


def test_damaged_backup_is_left_alone() -> None:
    device = px.Device.memory(2 * MIB)
    px.format(device, serial=1).close()
    sector = bytearray(device.pread(512, 12 * 512))
    sector[200] ^= 0xFF
    device.pwrite(sector, 12 * 512)
    before = device.pread(12 * 512, 12 * 512)
    with px.open(device, "r+") as volume:
        volume.serial = 2
    assert region_serial(device, 0) == 2
    assert device.pread(12 * 512, 12 * 512) == before


def test_a_region_is_whole_at_every_cut_while_the_serial_changes() -> None:
    device = px.Device.memory(2 * MIB)
    px.format(device, serial=1).close()
    recorder = device.record()
    with px.open(recorder, "r+") as volume:
        volume.serial = 2
    for count in range(len(recorder) + 1):
        then = recorder.at(count)
        assert {region_serial(then, 0), region_serial(then, 12)} & {1, 2}
    assert region_serial(recorder.at(len(recorder)), 0) == 2


def test_random_serials_differ_and_seeded_ones_do_not() -> None:
    def serial(env: px.Env | None) -> int:
        with px.format(px.Device.memory(MIB), env=env) as volume:
            return volume.serial

    assert len({serial(None) for _ in range(8)}) == 8
    assert serial(px.Env(seed=7, clock=0)) == serial(px.Env(seed=7, clock=0))
    assert serial(px.Env(seed=7, clock=0)) != serial(px.Env(seed=8, clock=0))
