"""Bugs that other implementations had, as cases: each test names the report it comes from.

Expected values are from the reports and the specification; images are read by model.rawexfat.
"""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest
from conftest import require_shared
from model.rawexfat import RawVolume, read_image, rotate_sum16, rotate_sum32

import pyexfat as px

MIB = 1 << 20


def raw_of(device: px.Device) -> RawVolume:
    """What is on a device, which must be perfect."""
    raw = read_image(device.pread(device.size, 0))
    assert raw.violations == []
    return raw


# ---- 3: hxyulin/hadris#116 ----


def test_case_3_data_length_is_what_was_written() -> None:
    """Not what was allocated: five bytes on clusters of 4 KiB."""
    with px.Device.memory(MIB) as device:
        with px.format(device, cluster_size=4096) as vol, vol.open("/hello", "wb") as f:
            f.write(b"hello")
        entry = raw_of(device).tree["/hello"]
        assert (entry.size, entry.valid) == (5, 5)
        assert entry.data == b"hello"


def test_case_3_an_empty_file_may_have_an_allocation() -> None:
    """FirstCluster 0, DataLength 0, and AllocationPossible set in the stream entry."""
    with px.Device.memory(MIB) as device:
        with px.format(device) as vol:
            vol.touch("/empty")
            vol.write_bytes("/emptied", b"x" * 9000)
            vol.truncate("/emptied", 0)
        raw = raw_of(device)
        for path in ("/empty", "/emptied"):
            entry = raw.tree[path]
            assert (entry.first_cluster, entry.size, entry.stream_flags) == (0, 0, 0x01)


@pytest.mark.parametrize("flags", [0x00, 0x01, 0x03])
def test_case_3_empty_files_of_others(flags: int) -> None:
    """Windows writes 0x03, Linux 0x01, others 0x00; all are empty files that can be written."""
    image = bytearray(MIB)
    with px.format(image, cluster_size=4096) as vol:
        vol.touch("/empty")
    entry = read_image(image).tree["/empty"]
    at = entry.offset
    image[at + 32 + 1] = flags
    total = rotate_sum16(bytes(image[at : at + 32 * entry.entries]), (2, 3))
    image[at + 2 : at + 4] = struct.pack("<H", total)
    with px.open(image, "r+") as vol:
        assert vol.read_bytes("/empty") == b""
        assert vol.stat("/empty").st_size == 0
        vol.write_bytes("/empty", b"y" * 5000)
    raw = read_image(image)
    assert raw.violations == []
    assert raw.tree["/empty"].data == b"y" * 5000


# ---- 5: hxyulin/hadris#90, #91 ----


@pytest.mark.parametrize("cluster_size", [512, 4096])
def test_case_5_overwriting_leaks_nothing(cluster_size: int) -> None:
    """500 times, with sizes around a cluster and of several."""
    sizes = [0, 1, cluster_size - 1, cluster_size, cluster_size + 1, 5 * cluster_size]
    with px.Device.memory(MIB) as device:
        with px.format(device, cluster_size=cluster_size) as vol:
            vol.write_bytes("/f", b"z" * 65536)
            vol.unlink("/f")
            empty = vol.usage().free_clusters
            for i in range(500):
                size = sizes[i % len(sizes)]
                vol.write_bytes("/f", bytes([i % 256]) * size)
                assert vol.usage().free_clusters == empty - -(-size // cluster_size)
        raw = raw_of(device)
        assert raw.tree["/f"].data == bytes([499 % 256]) * sizes[499 % len(sizes)]


# ---- 7: MabezDev/embedded-fatfs#69 ----


@pytest.mark.parametrize("directory", ["/", "/sub"])
@pytest.mark.parametrize("policy", [px.Policy(), px.Policy.before()], ids=["ours", "before"])
def test_case_7_directories_grow_into_clusters_that_were_used(
    directory: str, policy: px.Policy
) -> None:
    """Old content is never taken for entries, and behind the last entry there are zeros."""
    with px.Device.memory(2 * MIB) as device:
        with px.format(device, cluster_size=2048, policy=policy) as vol:
            if directory != "/":
                vol.mkdir(directory)
            vol.touch("/old")
            vol.write_bytes("/old", b"\x41" * vol.usage().free)
            vol.unlink("/old")
            names = [f"{i:03} {'n' * 36}" for i in range(300)]
            vol.create_many(directory, names)
            assert vol.listdir(directory) == names
        raw = raw_of(device)
        assert raw.children[directory] == names
        clusters = raw.tree[directory].clusters
        heap = raw.tree[f"{directory.rstrip('/')}/{names[0]}"]
        base = heap.offset - heap.index % 64 * 32 - (clusters[0] - 2) * 2048
        tail = device.pread(2048, base + (clusters[-1] - 2) * 2048)
        ends = [e for n in names if (e := raw.tree[f"{directory.rstrip('/')}/{n}"])]
        last = max(e.index + e.entries for e in ends)
        used = last - (len(clusters) - 1) * 64
        if used % 16 == 15:  # passed over: no set begins with the last entry of a sector
            assert tail[used * 32 : (used + 1) * 32] == b"\x05" + bytes(31)
            used += 1
        assert tail[used * 32 :] == bytes(2048 - used * 32)


# ---- 9: tianocore/edk2#7490 ----


@pytest.mark.parametrize("more", [0, 1, None], ids=["fits", "one too many", "twice"])
@pytest.mark.parametrize("fats", [1, 2])
def test_case_9_one_write_on_a_nearly_full_volume(more: int | None, fats: int) -> None:
    """Of n, n + 1 and 2 n clusters with n free ones; fragmented, too."""
    with px.Device.memory(MIB) as device:
        with px.format(device, cluster_size=512, fats=fats) as vol:
            vol.create_many("/", ["a", *(f"x{i}" for i in range(40))])
            for i in range(40):
                vol.write_bytes(f"/x{i}", b"x" * 512)
            vol.write_bytes("/fill", b"f" * (vol.usage().free - 20 * 512))
            vol.remove_many("/", [f"x{i}" for i in range(0, 40, 2)])
            n = vol.usage().free_clusters
            size = 512 * (n + more if more is not None else 2 * n)
            with vol.open("/a", "ab", buffering=0) as f:
                data = b"N" * size
                if more == 0:
                    assert f.write(data) == len(data)
                    assert vol.usage().free_clusters == 0
                else:
                    with pytest.raises(OSError, match="No space") as caught:
                        f.write(data)
                    assert caught.value.errno == errno.ENOSPC
                    assert vol.usage().free_clusters == n
            assert vol.read_bytes("/a") == (data if more == 0 else b"")
        raw_of(device)  # no cluster twice, the second FAT equal to the first


# ---- 11: joncampbell123/dosbox-x#1224, apache/nuttx#12615 ----


@pytest.mark.parametrize("cluster_size", [512 << i for i in range(8)])
def test_case_11_exactly_whole_clusters(cluster_size: int) -> None:
    """No cluster too many, and the end can be sought in a file opened to read."""
    with px.Device.memory(4 * MIB) as device:
        with px.format(device, cluster_size=cluster_size) as vol:
            for k in range(1, 5):
                with vol.open(f"/{k}", "wb") as f:
                    f.write(b"k" * (k * cluster_size))
            # In pieces, so that the chain is in the FAT.
            with vol.open("/a", "ab", buffering=0) as a, vol.open("/b", "ab", buffering=0) as b:
                for _ in range(3):
                    a.write(b"a" * cluster_size)
                    b.write(b"b" * cluster_size)
        raw = raw_of(device)
        for k in range(1, 5):
            assert len(raw.tree[f"/{k}"].clusters) == k
        assert len(raw.tree["/a"].clusters) == len(raw.tree["/b"].clusters) == 3
        assert not raw.tree["/a"].contiguous
        with px.open(device) as vol, vol.open("/a", "rb") as f:
            assert f.seek(0, os.SEEK_END) == 3 * cluster_size
            assert f.read() == b""


# ---- 13: micropython/micropython#4177, AgonPlatform/agon-mos#191 ----


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/test", "/test/new"),
        ("/test", "/test/b/c"),
        ("/TEST", "/test/x"),
        ("/test", "/test/new/"),
        ("/test/", "/TEST/new"),
        ("/test/b", "/test/B/b"),
    ],
)
def test_case_13_a_directory_into_itself(old: str, new: str) -> None:
    """EINVAL, and nothing has changed."""
    with px.Device.memory(MIB) as device:
        with px.format(device) as vol:
            vol.makedirs("/test/b")
            vol.write_bytes("/test/file", b"content")
        before = device.pread(MIB, 0)
        with px.open(device, "r+") as vol:
            with pytest.raises(OSError, match="moved into itself") as caught:
                vol.rename(old, new)
            assert caught.value.errno == errno.EINVAL
        assert device.pread(MIB, 0) == before


@pytest.mark.parametrize(
    ("new", "stored"), [("/test2/new", "/test2/new"), ("/TEST", "/TEST"), ("/tes", "/tes")]
)
def test_case_13_names_that_only_look_like_it(new: str, stored: str) -> None:
    """Where "test2/new" is not inside "test", and a change of case is not one of place."""
    with px.Device.memory(MIB) as device:
        with px.format(device) as vol:
            vol.mkdir("/test")
            vol.mkdir("/test2")
            vol.write_bytes("/test/file", b"content")
            vol.rename("/test", new)
        raw = raw_of(device)
        assert raw.tree[f"{stored}/file"].data == b"content"
        assert "/test" not in raw.tree


# ---- 21: relan/exfat#30, exfatprogs#290, #313 ----

NAMES = {"straße.txt": "STRAßE.TXT", "ärger": "ÄRGER", "ﬀ": "ﬀ", "ÿ": "Ÿ", "ǆ": "Ǆ"}


def hash_of(upper: str) -> int:
    """NameHash of a name that is in capitals already [7.6.4]."""
    return rotate_sum16(upper.encode("utf-16-le"))


def replace_upcase(image: bytearray, table: bytes) -> None:
    """Writes another table in the place of the standard one, with its checksum."""
    entry = image.index(b"\x82\x00\x00\x00" + struct.pack("<I", 0xE619D30D))
    first = struct.unpack_from("<I", image, entry + 20)[0]
    sector = 1 << image[108]
    heap = struct.unpack_from("<I", image, 88)[0] * sector
    at = heap + (first - 2) * (sector << image[109])
    assert len(table) <= sector << image[109]  # it stays in its first cluster
    image[at : at + 5836] = bytes(5836)
    image[at : at + len(table)] = table
    image[entry + 4 : entry + 8] = struct.pack("<I", rotate_sum32(table))
    image[entry + 24 : entry + 32] = struct.pack("<Q", len(table))


def test_case_21_the_recommended_table_is_written() -> None:
    """5,836 bytes, checksum 0xE619D30D, compressed; hashes follow from it."""
    image = bytearray(MIB)
    with px.format(image, cluster_size=4096) as vol:
        for name in NAMES:
            vol.touch("/" + name)
    raw = read_image(image)
    assert raw.violations == []
    entry = image.index(b"\x82\x00\x00\x00" + struct.pack("<I", 0xE619D30D))
    assert struct.unpack_from("<Q", image, entry + 24) == (5836,)
    for name, upper in NAMES.items():
        at = raw.tree["/" + name].offset
        assert struct.unpack_from("<H", image, at + 32 + 4) == (hash_of(upper),), name
        assert "".join(map(chr, raw.fold(name))) == upper


def test_case_21_the_smallest_table() -> None:
    """128 entries: only ASCII has case; a volume that has it works by it."""
    image = bytearray(MIB)
    px.format(image, cluster_size=8192).close()
    table = struct.pack("<128H", *(ord(chr(i).upper()) if i < 128 else i for i in range(128)))
    replace_upcase(image, table)
    with px.open(image, "r+") as vol:
        vol.touch("/straße.txt")
        vol.touch("/ärger")
        vol.touch("/ÄRGER")
        assert vol.exists("/STRAßE.TXT")
        with pytest.raises(FileExistsError):
            vol.touch("/STRAßE.txt", exist_ok=False)
        assert sorted(vol.listdir("/")) == sorted(["straße.txt", "ärger", "ÄRGER"])
    raw = read_image(image)
    assert raw.violations == []
    at = raw.tree["/ärger"].offset
    assert struct.unpack_from("<H", image, at + 32 + 4) == (hash_of("äRGER"),)


def test_case_21_the_plain_form() -> None:
    """All 65,536 units, none left out: the names are the same as with the compressed form."""
    image = bytearray(16 * MIB)
    with px.format(image, cluster_size=128 << 10) as vol:
        for name in NAMES:
            vol.touch("/" + name)
    raw = read_image(image)
    replace_upcase(image, struct.pack("<65536H", *raw.upper))
    with px.open(image, "r+") as vol:
        for name, upper in NAMES.items():
            assert vol.stored_name("/" + upper) == name
        vol.touch("/Öl")
        assert vol.exists("/öL")
    again = read_image(image)
    assert again.violations == []
    assert again.upper == raw.upper


def test_case_21_a_table_with_a_wrong_checksum() -> None:
    """Is damage, and says where."""
    image = bytearray(MIB)
    px.format(image, cluster_size=8192).close()
    at = image.index(b"\x82\x00\x00\x00" + struct.pack("<I", 0xE619D30D))
    image[at + 4] ^= 1
    with pytest.raises(px.CorruptImageError) as caught:
        px.open(image)
    assert caught.value.where is not None
    assert "up-case" in caught.value.where.structure


# ---- 25: exfatprogs#309, #281 ----


def test_case_25_more_clusters_than_there_may_be(tmp_path: Path) -> None:
    """5 TiB in clusters of 1 KiB: an error that names the limit, and nothing is left behind."""
    path = tmp_path / "huge.img"
    with pytest.raises(ValueError, match="4294967285"):
        px.format(path, size=5 << 40, cluster_size=1024)
    assert not path.exists()


def test_case_25_four_tebibytes(tmp_path: Path) -> None:
    """With 128 KiB clusters: works, and a file beyond 2 TiB is written and read."""
    path = tmp_path / "big.img"
    try:
        vol = px.format(path, size=4 << 40, cluster_size="128 KiB")
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        pytest.skip("the file system of the temporary directory has no such large files")
    with vol:
        vol.touch("/low")
        vol.truncate("/low", 3 << 40)
        vol.write_bytes("/high", b"beyond two terabytes" * 1000)
        assert vol.extents("/high")[0].device_offset > 2 << 40
        assert vol.extents("/high")[0].device_offset + 20000 < 4 << 40
    with px.open(path) as vol:
        assert vol.read_bytes("/high") == b"beyond two terabytes" * 1000
    assert os.stat(path).st_blocks * 512 < 64 * MIB


@pytest.mark.parametrize("size", [MIB, 5 * MIB, 64 * MIB])
@pytest.mark.parametrize("cluster_size", [512, 4096, 32768])
def test_case_25_a_fresh_volume_has_no_cluster_too_many(size: int, cluster_size: int) -> None:
    """Bitmap, up-case table and root directory, and nobody else."""
    with px.Device.memory(size) as device:
        px.format(device, cluster_size=cluster_size).close()
        raw = raw_of(device)
        own = [-(-raw.clusters // 8), 5836, 1]
        assert raw.used == sum(-(-n // cluster_size) for n in own)


def test_case_25_a_damaged_set_beyond_two_tebibytes(tmp_path: Path) -> None:
    """As exfatprogs' 2tb_disk: a wrong checksum there is said to be there, to the byte."""
    path = tmp_path / "big.img"
    try:
        vol = px.format(path, size=4 << 40, cluster_size="128 KiB")
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        pytest.skip("the file system of the temporary directory has no such large files")
    with vol:
        vol.touch("/low")
        vol.truncate("/low", 3 << 40)
        vol.mkdir("/far")
        vol.touch("/far/good")
        vol.touch("/far/bad")
        at = vol.stat("/far/bad").entry_offset
    assert at > 2 << 40
    with path.open("r+b") as file:
        file.seek(at + 2)
        file.write(b"\xcd\xcd")
    with px.open(path) as vol:
        assert vol.read_bytes("/far/good") == b""
        with pytest.raises(px.CorruptImageError) as caught:
            vol.stat("/far/bad")
        assert caught.value.where is not None
        assert at <= caught.value.where.offset < at + 32


# ---- 27: sleuthkit#1624, exfatprogs PR #320 ----


def with_bitmap_length(change: int) -> tuple[bytearray, int, int]:
    """An image whose bitmap entry is longer or shorter; image, DataLength, entry's place."""
    image = bytearray(2 * MIB)
    px.format(image, cluster_size=512, label="B").close()
    raw = read_image(image)
    length = -(-raw.clusters // 8)
    root = next(iter(raw.tree.values()))
    at = (struct.unpack_from("<I", image, 88)[0] << image[108]) + (root.clusters[0] - 2) * 512
    while image[at] != 0x81:
        at += 32
    assert struct.unpack_from("<Q", image, at + 24) == (length,)
    image[at + 24 : at + 32] = struct.pack("<Q", length + change)
    return image, length, at


def test_case_27_a_longer_bitmap_is_fine() -> None:
    """And what is set past the last cluster is left alone and counts for nothing."""
    image, length, at = with_bitmap_length(2)
    first = struct.unpack_from("<I", image, at + 20)[0]
    bitmap = (struct.unpack_from("<I", image, 88)[0] << image[108]) + (first - 2) * 512
    extra = b"\xff\xff"
    assert length % 512 < 510
    image[bitmap + length : bitmap + length + 2] = extra
    with px.open(image, "r+") as vol:
        free = vol.usage().free_clusters
        assert free <= vol.usage().clusters
        vol.write_bytes("/all", b"x" * (free * 512 - 512))
        vol.unlink("/all")
        assert vol.usage().free_clusters == free
    assert image[bitmap + length : bitmap + length + 2] == extra
    raw = read_image(image)
    assert raw.violations == []
    assert raw.bitmap_length == length + 2


def test_case_27_a_shorter_bitmap_is_damage() -> None:
    """It can't say of all clusters whether they are free."""
    image, length, _ = with_bitmap_length(-1)
    with pytest.raises(px.CorruptImageError) as caught:
        px.open(image, "r+")
    assert caught.value.where is not None
    assert caught.value.where.structure == "allocation bitmap"
    assert caught.value.where.found == length - 1


def test_case_27_the_short_bitmap_of_exfatprogs(tmp_path: Path) -> None:
    """Their own test image: DataLength 0x8e."""
    import lzma

    packed = require_shared("images", "exfatprogs-bad_bitmap_size.img.xz")
    image = lzma.decompress(packed.read_bytes())
    with pytest.raises(px.CorruptImageError) as caught:
        px.open(image)
    assert caught.value.where is not None
    assert caught.value.where.found == 0x8E
