"""FAT at each of its limits: clusters, sizes, directories, full volumes, room that is kept."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from model.rawfat import RawVolume, read_image
from peers.fat import MIB, exact, fsck, raw, small

import pyexfat as px
from pyexfat import _core


@contextmanager
def refused(number: int) -> Iterator[None]:
    """The call fails with this errno."""
    with pytest.raises(OSError, match=r".") as caught:
        yield
    assert caught.value.errno == number, caught.value


def used(found: RawVolume) -> int:
    return found.clusters - found.free


# ---- clusters ----


@pytest.mark.parametrize("sector", [512, 4096])
@pytest.mark.parametrize("clusters", [1, 2, 4083, 4084, 4085, 4086, 4087, 65523, 65524])
def test_every_cluster_of_fat12_and_fat16(tmp_path: Path, clusters: int, sector: int) -> None:
    """The type changes between 4084 and 4085; the last cluster can be used, and not one more."""
    bits = 12 if clusters <= 4084 else 16
    image = exact(tmp_path / "image", bits, clusters, sector=sector)
    content = bytes(range(1, 256)) * (clusters * sector // 255 + 1)
    content = content[: clusters * sector]
    with px.open(image, "r+", tz="utc") as volume:
        assert volume.usage().clusters == volume.usage().free_clusters == clusters
        volume.write_bytes("/all", content)
        assert volume.usage().free_clusters == 0
        with refused(errno.ENOSPC):
            volume.write_bytes("/more", b"x")
        with refused(errno.ENOSPC):
            volume.mkdir("/directory")
        with refused(errno.ENOSPC):
            volume.truncate("/all", len(content) + 1)
    found = raw(image)
    assert (found.bits, found.clusters, found.free) == (bits, clusters, 0)
    assert found.tree["/all"].data == content
    assert found.tree["/all"].clusters[-1] == clusters + 1
    assert found.children["/"] == ["all"]
    assert fsck(image) == 1


@pytest.mark.parametrize("sector", [512, 4096])
@pytest.mark.parametrize("clusters", [65524, 65525, 65526])
def test_every_cluster_of_fat32(tmp_path: Path, clusters: int, sector: int) -> None:
    """65524 clusters are too few by the count, but the layout says what it is."""
    image = exact(tmp_path / "image", 32, clusters, sector=sector)
    with px.open(image, "r+", tz="utc") as volume:
        assert volume.usage().clusters == clusters
        assert volume.usage().free_clusters == clusters - 1
        volume.touch("/all")
        volume.fallocate("/all", 0, (clusters - 1) * sector)
        with volume.open("/all", "r+b") as file:
            file.seek(-1, 2)
            file.write(b"!")
        with refused(errno.ENOSPC):
            volume.mkdir("/directory")
    found = read_image(image.read_bytes())
    assert found.kinds() == set()
    assert (found.bits, found.clusters, found.free, found.info_free) == (32, clusters, 0, 0)
    assert found.tree["/all"].clusters[-1] == clusters + 1
    assert found.tree["/all"].data[-2:] == b"\0!"
    if clusters >= 65525:
        assert fsck(image) == 1


@pytest.mark.parametrize("sector", [8192, 16384, 32768])
@pytest.mark.parametrize(("bits", "clusters"), [(12, 500), (16, 5000), (32, 65_600)])
def test_sectors_larger_than_any_disk_has(
    tmp_path: Path, bits: int, clusters: int, sector: int
) -> None:
    """As Atari's large volumes have: they are read and changed, if not made."""
    image = exact(tmp_path / "image", bits, clusters, sector=sector)
    with px.open(image, "r+", tz="utc") as volume:
        assert (volume.sector_size, volume.cluster_size) == (sector, sector)
        volume.makedirs("/a/b")
        volume.write_bytes("/a/b/a long name", b"x" * 100_001)
        volume.create_many("/a", [f"f{i}" for i in range(600)])
        volume.label = "LARGE"
    # The independent reader takes the whole image, most of which is a hole.
    if image.stat().st_size <= 600 * MIB:
        found = raw(image)
        assert (found.bits, found.sector_size, found.label) == (bits, sector, "LARGE")
        assert len(found.children["/a"]) == 601
        assert found.tree["/a/b/a long name"].data == b"x" * 100_001
    with px.open(image) as volume:
        assert volume.read_bytes("/a/b/a long name") == b"x" * 100_001
        assert len(volume.listdir("/a")) == 601


def test_too_many_clusters_for_fat16(tmp_path: Path) -> None:
    """65525 in a layout of FAT16: refused, as it is one type by layout, another by count."""
    image = exact(tmp_path / "image", 16, 65525)
    with pytest.raises(px.CorruptImageError) as caught:
        px.open(image)
    where = caught.value.where
    assert where is not None
    assert (where.structure, where.field) == ("boot sector", "TotalSectors")


@pytest.mark.parametrize(("bits", "missing"), [(12, 4), (16, 4), (32, 4), (12, 500), (16, 3000)])
def test_dosfstools_8_a_fat_that_is_too_small(tmp_path: Path, bits: int, missing: int) -> None:
    """A card from the factory: 1973762 clusters, room for 1973758. What has no entry is unused."""
    sectors = {12: 2, 16: 20, 32: 512}[bits]
    entries = sectors * 512 * 8 // bits - 2
    image = exact(tmp_path / "image", bits, entries + missing, fat_sectors=sectors)
    known = read_image(image.read_bytes())
    assert (known.bits, known.clusters) == (bits, entries)
    with px.open(image, "r+", tz="utc") as volume:
        usage = volume.usage()
        assert usage.clusters == entries
        volume.write_bytes("/all", b"y" * (usage.free_clusters * 512))
        with refused(errno.ENOSPC):
            volume.write_bytes("/more", b"x")
        assert volume.read_bytes("/all").count(b"y") == usage.free_clusters * 512
    found = read_image(image.read_bytes())
    assert found.kinds() <= {"boot", "fsinfo free"}
    assert found.tree["/all"].clusters[-1] == entries + 1


@pytest.mark.parametrize("bits", [12, 16, 32])
@pytest.mark.parametrize("policy", [{}, {"preallocate": False}, {"free_scan": "element"}])
def test_full_to_the_last_cluster_and_free_again(
    tmp_path: Path, bits: int, policy: dict[str, object]
) -> None:
    """By small files, by one file in pieces, and with nothing lost at the end."""
    image = small(bits, tmp_path / "image", 300 if bits == 12 else None)
    with px.open(image, "r+", policy=policy, tz="utc") as volume:
        free = volume.usage().free_clusters
        volume.mkdir("/d")
        left = free - 1
        if bits != 12:
            volume.write_bytes("/most", bytes(512) * (left - 200))
            left = 200
        with (
            volume.open("/d/one", "wb", buffering=0) as one,
            volume.open("/other", "wb", buffering=0) as other,
        ):
            turn, reason = 0, 0
            while not reason:
                try:
                    (one, other)[turn % 2].write(bytes([turn % 251 + 1]) * 512)
                    turn += 1
                except OSError as error:
                    reason = error.errno or -1
        assert reason == errno.ENOSPC
        assert turn == left
        assert volume.usage().free_clusters == 0
    found = raw(image)
    assert found.free == 0
    data = found.tree["/other"].data
    assert data == b"".join(bytes([t % 251 + 1]) * 512 for t in range(1, turn, 2))
    with px.open(image, "r+", tz="utc") as volume:
        volume.rmtree("/d")
        for name in volume.listdir():
            volume.unlink(f"/{name}")
        assert volume.usage().free_clusters == free
    assert raw(image).free == free
    assert fsck(image) == 0


# ---- one write of too much [edk2#7490] ----


@pytest.mark.parametrize("bits", [12, 16, 32])
@pytest.mark.parametrize("more", [0, 1, 100])
@pytest.mark.parametrize("policy", [{}, {"preallocate": False}])
def test_edk2_7490_a_long_write_on_a_nearly_full_volume(
    tmp_path: Path, bits: int, more: int, policy: dict[str, object]
) -> None:
    image = small(bits, tmp_path / "image")
    room = 100
    with px.open(image, "r+", policy=policy, tz="utc") as volume:
        volume.write_bytes("/old", b"old" * 400)
        volume.touch("/new")
        fill = volume.usage().free_clusters - room
        volume.write_bytes("/fill", b"f" * (fill * 512))
    before = raw(image)
    with px.open(image, "r+", policy=policy, tz="utc") as volume:
        with volume.open("/new", "r+b", buffering=0) as file:
            if more:
                with refused(errno.ENOSPC):
                    file.write(b"n" * ((room + more) * 512))
            else:
                file.write(b"n" * (room * 512))
        assert volume.usage().free_clusters == (room if more else 0)
        if more:
            with refused(errno.ENOSPC):
                volume.truncate("/new", (room + more) * 512)
            with refused(errno.ENOSPC):
                volume.fallocate("/old", 0, (room + more) * 512 + 1536, keep_size=True)
            assert volume.stat("/new").st_size == 0
    found = raw(image)  # no cluster in two chains, both FATs alike
    assert found.tree["/old"].data == b"old" * 400
    assert found.tree["/new"].size == (0 if more else room * 512)
    assert found.free == (room if more else 0)
    if more:
        assert found.fat == before.fat
    assert fsck(image) == 3


# ---- directories ----


@pytest.mark.parametrize(("bits", "entries"), [(12, 16), (12, 112), (16, 512), (16, 1024)])
def test_a_fixed_root_directory_is_full(tmp_path: Path, bits: int, entries: int) -> None:
    clusters = 500 if bits == 12 else 5000
    image = exact(tmp_path / "image", bits, clusters, root_entries=entries)
    with px.open(image, "r+", tz="utc") as volume:
        for i in range(entries - 1):
            volume.touch(f"/{i}")
        with refused(errno.ENOSPC):
            volume.write_bytes("/needs a long name", b"content")
        with refused(errno.ENOSPC):
            volume.rename("/7", "/needs a long name")
        with refused(errno.ENOSPC):
            volume.mkdir("/a long name, too")
        volume.mkdir("/last")
        with refused(errno.ENOSPC):
            volume.touch("/one")
        assert volume.usage().free_clusters == clusters - 1
        assert len(volume.listdir()) == entries
        for i in range(entries - 1):
            volume.write_bytes(f"/last/{i} with a long name", b"")
        volume.unlink("/3")
        volume.touch("/placed")
        names = [*map(str, range(3)), "placed", *map(str, range(4, entries - 1)), "last"]
        assert volume.listdir() == names
    assert raw(image).children["/"] == names
    assert fsck(image) == 2 * entries - 1


@pytest.mark.parametrize("where", ["/", "/d"])
def test_a_directory_of_65536_entries(tmp_path: Path, where: str) -> None:
    """The root of FAT32 grows as others do; at the limit there is no more room."""
    image = small(32, tmp_path / "image", per_cluster=8)
    dots = 0 if where == "/" else 2
    count = (65536 - dots) // 2
    with px.open(image, "r+", tz="utc") as volume:
        if dots:
            volume.mkdir(where)
        volume.create_many(where, [f"Name {i:05}" for i in range(count)])  # two entries each
        with refused(errno.ENOSPC):
            volume.touch(f"{where}/One more")
        with refused(errno.ENOSPC):
            volume.mkdir(f"{where}/one")
        volume.unlink(f"{where}/Name 00100")
        with refused(errno.ENOSPC):
            volume.touch(f"{where}/needs more than thirteen units")
        volume.touch(f"{where}/two")
        volume.touch(f"{where}/three")
        with refused(errno.ENOSPC):
            volume.touch(f"{where}/four")
        assert len(volume.listdir(where)) == count + 1
        assert volume.stat(where).st_size == 2 << 20
        free = volume.usage().free_clusters
    found = raw(image)
    assert len(found.children[where]) == count + 1
    assert found.tree[where].size == 65536 * 32
    assert found.free == free
    assert fsck(image) == count + 1 + (1 if dots else 0)


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_embedded_fatfs_12_dot_dot_to_the_root_is_0(tmp_path: Path, bits: int) -> None:
    image = small(bits, tmp_path / "image")
    with px.open(image, "r+", tz="utc") as volume:
        volume.makedirs("/a/b/c")
        volume.makedirs("/x/y")
        volume.rename("/a/b", "/b")  # to the root
        volume.rename("/x/y", "/b/c/y")
        volume.rename("/x", "/b/x")
    found = raw(image)  # which compares all of them
    assert found.tree["/b/c/y"].is_dir
    content = image.read_bytes()

    def dot_dot(path: str) -> int:
        at = found.heap + (found.tree[path].clusters[0] - 2) * found.cluster_size + 32
        low, high = content[at + 26 : at + 28], content[at + 20 : at + 22]
        return int.from_bytes(low, "little") | int.from_bytes(high, "little") << 16

    assert dot_dot("/b") == dot_dot("/a") == 0
    assert dot_dot("/b/c") == dot_dot("/b/x") == found.tree["/b"].first_cluster
    assert dot_dot("/b/c/y") == found.tree["/b/c"].first_cluster
    assert fsck(image) == 5


def test_pyfatfs_24_the_order_of_entries_stays(tmp_path: Path) -> None:
    """IO.SYS and MSDOS.SYS stay the first two, whatever is done beside them."""
    image = small(12, tmp_path / "image")
    order = ["IO.SYS", "MSDOS.SYS", "COMMAND.COM", "B.TXT", "A.TXT"]
    with px.open(image, "r+", tz="utc") as volume:
        for name in order:
            volume.write_bytes(f"/{name}", name.encode() * 100)
    places = {name: raw(image).tree[f"/{name}"].index for name in order}
    with px.open(image, "r+", tz="utc") as volume:
        volume.mkdir("/directory")
        volume.write_bytes("/MSDOS.SYS", b"another")
        volume.truncate("/IO.SYS", 10_000)
        volume.set_attributes("/IO.SYS", hidden=True, system=True, read_only=True)
        volume.write_bytes("/long name of some file", b"")
        volume.unlink("/B.TXT")
        volume.write_bytes("/NEW.TXT", b"")
        volume.rename("/A.TXT", "/C.TXT")
        volume.utime("/COMMAND.COM", ns=(10**18, 10**18))
        volume.rmdir("/directory")
        volume.label = "DOS"
    found = raw(image)
    for name in ("IO.SYS", "MSDOS.SYS", "COMMAND.COM"):
        assert found.tree[f"/{name}"].index == places[name]
    assert found.tree["/NEW.TXT"].index == places["B.TXT"]
    assert found.tree["/C.TXT"].index == places["A.TXT"]
    assert found.children["/"][:2] == ["IO.SYS", "MSDOS.SYS"]
    assert fsck(image) == 7


# ---- sizes ----


@pytest.mark.parametrize("per_cluster", [1 << i for i in range(8)])
@pytest.mark.parametrize("bits", [12, 16])
def test_dosbox_x_1224_nuttx_29_lengths_around_clusters(
    tmp_path: Path, bits: int, per_cluster: int
) -> None:
    """k clusters for k clusters of bytes, and not one more [dosbox-x#1224, NuttX#29]."""
    image = small(bits, tmp_path / "image", 200 if bits == 12 else 4100, per_cluster)
    size = per_cluster * 512
    lengths = [0, 1, size - 1, size, size + 1, 2 * size - 1, 2 * size, 3 * size, 5 * size + 1]
    with px.open(image, "r+", tz="utc") as volume:
        for i, length in enumerate(lengths):
            volume.write_bytes(f"/{i}", b"z" * length)
            with volume.open(f"/{i}", "rb") as file:
                assert file.seek(0, 2) == length
                assert file.read() == b""
    found = raw(image)
    for i, length in enumerate(lengths):
        assert len(found.tree[f"/{i}"].clusters) == -(-length // size)
        assert (found.tree[f"/{i}"].first_cluster == 0) == (length == 0)
    assert fsck(image) == len(lengths)


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_growth_shows_nothing_that_was_there(tmp_path: Path, bits: int) -> None:
    """On a disk full of what others have left; grown in every way that there is."""
    image = small(bits, tmp_path / "image")
    with px.open(image, "r+", tz="utc") as volume:
        volume.write_bytes("/stale", b"S" * (volume.usage().free - 512 * 20))
        volume.unlink("/stale")
        volume.sync()
        volume.write_bytes("/a", b"a" * 700)
        volume.truncate("/a", 5000)
        volume.write_bytes("/b", b"b" * 100)
        volume.fallocate("/b", 0, 4000)
        with volume.open("/c", "wb") as file:
            file.seek(3000)
            file.write(b"c")
        volume.write_bytes("/d", b"d" * 10)
        volume.fallocate("/d", 0, 9000, keep_size=True)
        with volume.open("/d", "r+b") as file:
            file.seek(6000)
            file.write(b"d")
        volume.truncate("/d", 8000)
        volume.write_bytes("/e", b"e" * 3000)
        volume.truncate("/e", 100)
        volume.truncate("/e", 3000)
    found = raw(image)
    wanted = {
        "a": b"a" * 700 + bytes(4300),
        "b": b"b" * 100 + bytes(3900),
        "c": bytes(3000) + b"c",
        "d": b"d" * 10 + bytes(5990) + b"d" + bytes(1999),
        "e": b"e" * 100 + bytes(2900),
    }
    assert {name: found.tree[f"/{name}"].data for name in found.children["/"]} == wanted


# ---- zeros, room that is kept ----


def memory(tmp_path: Path, bits: int) -> tuple[px.Device, Path]:
    """A volume on a memory device."""
    image = small(bits, tmp_path / "image", 20_000 if bits == 16 else None)
    device = px.Device.memory(image.stat().st_size)
    device.pwrite(image.read_bytes(), 0)
    return device, image


@pytest.mark.parametrize("bits", [16, 32])
def test_zeros_cost_nothing_where_holes_read_as_zeros(tmp_path: Path, bits: int) -> None:
    """4 MiB of growth: no data is written, and of the FAT what the chain needs."""
    device, _ = memory(tmp_path, bits)
    size = 4 * MIB
    for way in ("truncate", "fallocate"):
        with px.open(device, "r+", tz="utc") as volume:
            volume.touch(f"/{way}")
            volume.sync()
            held, before = device.held, volume.counters.cache
            if way == "truncate":
                volume.truncate(f"/{way}", size)
            else:
                volume.fallocate(f"/{way}", 0, size)
            volume.sync()
            wrote = volume.counters.cache - before
            assert wrote.bytes_written < size // 8, wrote
            chain = size // 512 * bits // 8 * 2  # both FATs
            assert wrote.bytes_written >= chain
            assert device.held - held < 2 * chain + 256 * 1024
            assert volume.read_bytes(f"/{way}") == bytes(size)
    found = read_image(device.pread(device.size, 0))
    assert found.kinds() == set()


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_room_that_is_kept(tmp_path: Path, bits: int) -> None:
    """keep_size: later writes go there; truncate and the last close give back what is unused."""
    image = small(bits, tmp_path / "image")
    with px.open(image, "r+", tz="utc") as volume:
        free = volume.usage().free_clusters
        handle = volume.open_file("/a", _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE)
        handle.pwrite(b"1" * 100, 0)
        handle.allocate(0, 100 * 512, True)
        assert volume.usage().free_clusters == free - 100
        assert handle.stat().st_size == 100
        assert handle.stat().allocated == 100 * 512
        volume.write_bytes("/between", b"b" * 600)  # would be where /a goes on
        handle.pwrite(b"2" * 512 * 49, 512)
        assert volume.usage().free_clusters == free - 102
        assert handle.stat().allocated == 100 * 512
        extents = volume.extents("/a")
        assert len(extents) == 1
        handle.close()
        assert volume.usage().free_clusters == free - 52
        assert volume.stat("/a").allocated == 50 * 512
        # By path: kept until the volume is closed or a truncate.
        volume.fallocate("/a", 0, 80 * 512, keep_size=True)
        assert volume.stat("/a").allocated == 80 * 512
        volume.truncate("/a", 50 * 512)
        assert volume.stat("/a").allocated == 50 * 512
        volume.fallocate("/a", 0, 80 * 512, keep_size=True)
    found = raw(image)
    assert len(found.tree["/a"].clusters) == 50
    assert used(found) == 52 + (1 if bits == 32 else 0)
    assert found.tree["/a"].data == b"1" * 100 + bytes(412) + b"2" * 512 * 49
    assert fsck(image) == 2


def test_room_that_is_kept_by_a_file_without_a_name(tmp_path: Path) -> None:
    image = small(16, tmp_path / "image")
    with px.open(image, "r+", tz="utc") as volume:
        free = volume.usage().free_clusters
        with volume.open("/a", "wb") as file:
            file.write(b"content")
            file.flush()
            volume.fallocate("/a", 0, 10 * 512, keep_size=True)
            volume.unlink("/a")
            assert volume.usage().free_clusters == free - 10
        volume.sync()
        assert volume.usage().free_clusters == free
    assert raw(image).free == free


# ---- what stays free ----


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_hadris_90_overwriting_leaks_nothing(tmp_path: Path, bits: int) -> None:
    """500 times, with sizes around clusters [hadris#90]."""
    image = small(bits, tmp_path / "image")
    size = 512
    cycle = [0, 1, size - 1, size, size + 1, 5 * size, 64 * 1024]
    with px.open(image, "r+", tz="utc") as volume:
        free = volume.usage().free_clusters
        for i, length in zip(range(500), itertools.cycle(cycle), strict=False):
            volume.write_bytes("/file", bytes([i % 256]) * length)
        last = volume.stat("/file").st_size
        volume.sync()
        assert volume.usage().free_clusters == free - -(-last // size)
    found = raw(image)
    assert used(found) == -(-last // size) + (1 if bits == 32 else 0)
    assert fsck(image) == 1


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_what_is_free_is_discarded(tmp_path: Path, bits: int) -> None:
    """By trim() all of it; by the policy what is freed, once its entry is gone for good."""
    image = small(bits, tmp_path / "image")
    with px.Device.memory(image.stat().st_size) as device:
        device.pwrite(image.read_bytes(), 0)
        with (
            device.record() as log,
            px.open(log, "r+", policy={"discard": True}, tz="utc") as volume,
        ):
            volume.write_bytes("/kept", b"k" * 5000)
            volume.write_bytes("/gone", b"g" * 20_000)
            volume.sync()
            (gone,) = volume.extents("/gone")
            first = len(log)
            volume.unlink("/gone")
            volume.sync()
            later = [log.entry(i) for i in range(first, len(log))]
            (discard,) = [e for e in later if e.kind == "discard"]
            size = -(-20_000 // 512) * 512
            assert (discard.offset, discard.length) == (gone.device_offset, size)
            before = [e.kind for e in later[: later.index(discard)]]
            assert "flush" in before[before.index("write") :]
            first = len(log)
            free = volume.usage().free
            assert volume.trim() == free
            later = [log.entry(i) for i in range(first, len(log))]
            discards = [e for e in later if e.kind == "discard"]
            assert sum(e.length for e in discards) == free
        found = read_image(device.pread(device.size, 0))
        assert found.kinds() == set()
        assert found.tree["/kept"].data == b"k" * 5000
        starts = {(e.offset - found.heap) // 512 + 2: e.length // 512 for e in discards}
        for cluster, count in starts.items():
            assert not any(found.fat[cluster : cluster + count])
