"""open(), detect() and partitions(): every kind of target, and what must be refused."""

from __future__ import annotations

import errno
import io
import mmap
import os
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from api_support import env, make_volume, pattern
from conftest import require_tool

import pyexfat as px

MIB = 1 << 20


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "card.img"
    with px.format(path, size="8 MiB", label="CARD", serial=7, env=env()) as vol:
        vol.makedirs("a/b")
        vol.write_bytes("a/b/f", pattern(50_000))
    return path


# ---- targets ----


def _as_mmap(path: Path, access: int) -> mmap.mmap:
    with path.open("r+b") as f:
        return mmap.mmap(f.fileno(), 0, access=access)


READERS: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "pathlike": lambda path: path,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "mmap": lambda path: _as_mmap(path, mmap.ACCESS_READ),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "device": lambda path: px.Device.file(path),
    "branch": lambda path: px.Device.file(path).branch(),
}


@pytest.mark.parametrize("kind", READERS)
def test_every_target_can_be_read(image: Path, kind: str) -> None:
    before = image.read_bytes()
    target = READERS[kind](image)
    with px.open(target) as vol:
        assert (vol.fs, vol.label, vol.serial, vol.readonly) == ("exfat", "CARD", 7, True)
        assert vol.read_bytes("a/b/f") == pattern(50_000)
        for change in (
            lambda: vol.touch("x"),
            lambda: vol.mkdir("x"),
            lambda: vol.open("a/b/f", "r+b"),
            lambda: vol.open("x", "w"),
            lambda: vol.unlink("a/b/f"),
            lambda: vol.truncate("a/b/f", 0),
            lambda: vol.rename("a", "b"),
            lambda: vol.utime("a"),
            lambda: setattr(vol, "label", "NEW"),
        ):
            with pytest.raises(OSError, match="Read-only") as refused:
                change()
            assert refused.value.errno == errno.EROFS
    if kind in ("device", "branch"):
        assert target.closed is False
        target.close()
    assert image.read_bytes() == before


def test_buffers_are_changed_in_place(image: Path) -> None:
    for target in (
        bytearray(image.read_bytes()),
        memoryview(bytearray(image.read_bytes())),
        _as_mmap(image, mmap.ACCESS_WRITE),
        mmap.mmap(-1, 8 * MIB),
    ):
        if bytes(target[3:11]) != b"EXFAT   ":
            px.format(target).close()
        with px.open(target, "r+") as vol:
            vol.write_bytes("new", b"a content that is easy to find")
        assert b"a content that is easy to find" in bytes(target)
        with px.open(target) as vol:
            assert vol.read_bytes("new") == b"a content that is easy to find"
        if isinstance(target, mmap.mmap):
            target.close()  # nothing holds the buffer any more


def test_a_buffer_in_use_can_not_be_resized(image: Path) -> None:
    target = bytearray(image.read_bytes())
    with px.open(target), pytest.raises(BufferError):
        target.append(0)
    target.append(0)


def test_file_objects(image: Path) -> None:
    with image.open("r+b") as f:
        f.seek(100)
        with px.open(f, "r+") as vol:
            vol.write_bytes("new", b"x")
        assert f.closed is False
        with px.open(f) as vol:
            assert vol.read_bytes("new") == b"x"
    with px.open(image) as vol:
        assert vol.exists("new")


def test_an_fsspec_file(image: Path) -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/card.img", image.read_bytes())
    with fs.open("/card.img", "rb") as f, px.open(f) as vol:
        assert vol.read_bytes("a/b/f") == pattern(50_000)


def test_an_image_inside_a_volume(image: Path) -> None:
    with make_volume("32 MiB") as outer:
        outer.copy_in(image, "/inner.img")
        with px.open(outer / "inner.img", "r+") as inner:
            assert inner.read_bytes("a/b/f") == pattern(50_000)
            inner.write_bytes("new", b"deep")
        with px.open(outer / "inner.img") as inner:
            assert inner.read_bytes("new") == b"deep"
        assert px.detect(outer / "inner.img").label == "CARD"  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", [None, 3, 2.5, object(), ["a"]])
def test_what_is_no_target(bad: object) -> None:
    with pytest.raises(TypeError, match="target"):
        px.open(bad)


def test_a_text_file_is_no_target(image: Path) -> None:
    with image.open(encoding="latin-1") as f, pytest.raises((TypeError, ValueError, OSError)):
        px.open(f)


def test_bytes_can_not_be_changed(image: Path) -> None:
    with pytest.raises(TypeError, match="bytes"):
        px.open(image.read_bytes(), "r+")


# ---- arguments ----


@pytest.mark.parametrize("mode", ["w", "rb", "", "a", "r+b", None])
def test_a_bad_mode(image: Path, mode: Any) -> None:
    with pytest.raises(ValueError, match="mode"):
        px.open(image, mode)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"sync": "often"}, "sync"),
        ({"partition": 1, "offset": 512}, "partition"),
        ({"partition": 1}, "partition 1 does not exist"),
        ({"partition": 0}, "partition 0 does not exist"),
        ({"offset": 10}, "offset"),
        ({"offset": "1 GiB"}, "offset"),
        ({"length": 1 << 40}, "length"),
        ({"offset": "x"}, "offset"),
        ({"policy": {"magic": 1}}, "magic"),
        ({"utc_offset": 100_000}, "utc_offset"),
    ],
)
def test_a_bad_argument_is_named(image: Path, options: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        px.open(image, **options)
    px.format(image, size="8 MiB").close()  # and the image is not held


def test_a_file_system_that_is_not_known(image: Path) -> None:
    with pytest.raises((ValueError, px.ImageError)):
        px.open(image, fs="ntfs")


def test_missing_and_forbidden(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        px.open(tmp_path / "none.img")
    assert "none.img" in str(missing.value)
    with pytest.raises(OSError, match=r".") as directory:
        px.open(tmp_path)
    assert directory.value.errno in (errno.EISDIR, errno.EINVAL, errno.ENOTBLK)


def test_a_second_writer_is_refused(image: Path) -> None:
    with px.open(image, "r+") as vol:
        with pytest.raises(OSError, match="busy") as busy:
            px.open(image, "r+")
        assert busy.value.errno == errno.EBUSY
        vol.touch("x")
    px.open(image, "r+").close()


def test_a_second_writer_on_one_device_is_refused() -> None:
    device = px.Device.memory("8 MiB")
    with px.format(device):
        with pytest.raises(OSError, match="busy"):
            px.open(device, "r+")
        with pytest.raises(OSError, match="busy"):
            px.format(device)
    px.open(device, "r+").close()


@pytest.mark.parametrize("data", [b"", b"x", bytes(512), bytes(MIB), b"\xff" * MIB])
def test_what_is_no_volume(tmp_path: Path, data: bytes) -> None:
    for target in (data, bytearray(data)):
        with pytest.raises(OSError, match=r".") as error:
            px.open(target)
        assert not isinstance(error.value, FileNotFoundError)
        assert px.detect(target) is None
    path = tmp_path / "x.img"
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"."):
        px.open(path, "r+")
    assert path.read_bytes() == data


def test_a_truncated_image_is_damage_not_absence(image: Path) -> None:
    with pytest.raises(px.CorruptImageError) as damage:
        px.open(image.read_bytes()[: 4 * MIB])
    assert damage.value.errno == errno.EUCLEAN
    assert damage.value.where is not None


def test_a_damaged_boot_region_opens_from_the_backup(image: Path) -> None:
    data = bytearray(image.read_bytes())
    data[109] = 99  # SectorsPerClusterShift (section 3.1.15)
    with pytest.raises(px.CorruptImageError) as damage:
        px.open(data)
    assert damage.value.where is not None
    found = px.detect(data)
    assert found is not None
    assert found.damaged
    with px.open(data, use_backup=True) as vol:
        assert vol.from_backup
        assert vol.readonly
        assert vol.read_bytes("a/b/f") == pattern(50_000)


@pytest.mark.parametrize("at", [3, 109, 120])
def test_a_damaged_boot_region_whose_backup_is_sound_says_so(image: Path, at: int) -> None:
    """FileSystemName, SectorsPerClusterShift, BootCode (which only the checksum covers)."""
    data = bytearray(image.read_bytes())
    data[at] ^= 0x55
    with pytest.raises(px.CorruptImageError, match=r"its backup is sound \(use_backup\)"):
        px.open(data)
    backup = 12 * 512
    data[backup + at] ^= 0x55
    with pytest.raises(px.CorruptImageError) as damage:
        px.open(data)
    assert "sound" not in str(damage.value)
    with pytest.raises(px.CorruptImageError) as damage:
        px.open(data, use_backup=True)
    assert "sound" not in str(damage.value)


def test_reading_never_writes(image: Path) -> None:
    before = image.read_bytes()
    image.chmod(0o444)
    with px.open(image) as vol:
        list(vol.walk())
        vol.read_bytes("a/b/f")
        vol.sync()
    recorder = px.Device.memory("8 MiB").record()
    px.format(recorder, env=env()).close()
    count = len(recorder)
    with px.open(recorder) as vol:
        list(vol.walk())
        vol.sync()
    assert len(recorder) == count
    assert image.read_bytes() == before


# ---- life ----


def test_a_volume_that_was_dropped_stays_dirty_and_says_so(image: Path) -> None:
    vol = px.open(image, "r+")
    vol.touch("x")
    vol.sync()
    vol.abandon()
    with px.open(image) as again:
        assert again.was_dirty
        assert again.exists("x")


def test_a_leaked_volume_warns_and_writes_nothing_more() -> None:
    device = px.Device.memory("8 MiB")
    vol = px.format(device)
    vol.sync()
    vol.touch("x")
    with pytest.warns(ResourceWarning, match="unclosed volume"):
        del vol
    with px.open(device) as again:
        assert again.listdir() == []


def test_a_volume_that_was_only_read_may_be_dropped_without_a_word() -> None:
    device = px.Device.memory("8 MiB")
    px.format(device).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vol = px.open(device)
        vol.listdir()
        del vol


def test_close_twice_and_use_after(image: Path) -> None:
    vol = px.open(image, "r+")
    f = vol.open("a/b/f", "rb")
    path = vol / "a"
    device = vol.device
    vol.close()
    vol.close()
    assert vol.closed
    assert f.closed
    assert device.closed
    assert repr(vol) == "<Volume closed>"
    for call in (
        lambda: vol.stat("a"),
        lambda: vol.listdir("/"),
        lambda: vol.open("a/b/f"),
        lambda: vol.touch("z"),
        lambda: vol.exists("a"),
        lambda: vol.sync(),
        lambda: vol.usage(),
        lambda: vol.label,
        lambda: path.exists(),
        lambda: list(vol.walk()),
        vol.__enter__,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_only_our_own_device_is_closed(image: Path) -> None:
    with px.Device.file(image, writable=True) as device:
        with px.open(device, "r+") as vol:
            vol.touch("x")
        assert device.closed is False
        with px.open(device) as vol:
            assert vol.exists("x")
    stream = io.BytesIO(image.read_bytes())
    with px.open(stream):
        pass
    assert not stream.closed


def test_with_closes_after_an_error(image: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), px.open(image, "r+") as vol:
        vol.write_bytes("x", b"kept")
        raise RuntimeError("mine")
    assert vol.closed
    with px.open(image) as again:
        assert again.was_dirty is False
        assert again.read_bytes("x") == b"kept"


def test_open_files_of_the_process_do_not_grow(image: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for _ in range(20):
        px.open(image).close()
        px.detect(image)
        px.partitions(image)
        with pytest.raises(ValueError, match="partition"):
            px.open(image, partition=1)
        with pytest.raises(OSError, match="busy"), px.open(image, "r+"):
            px.open(image, "r+")
    assert descriptors() == before


def test_representation(image: Path) -> None:
    with px.open(image) as vol:
        assert repr(vol).startswith("<Volume exfat 'CARD' 8 MiB read-only on ")
        assert "card.img" in repr(vol)


@pytest.mark.parametrize("sync", ["lazy", "dirsync", "sync"])
def test_sync_modes(sync: Any) -> None:
    device = px.Device.memory("8 MiB")
    px.format(device).close()
    vol = px.open(device, "r+", sync=sync)
    assert vol.sync_mode == sync
    vol.touch("made")
    vol.abandon()
    with px.open(device) as again:
        assert again.exists("made") == (sync != "lazy")


# ---- detect and partitions ----


def test_detect(image: Path) -> None:
    found = px.detect(image)
    assert found is not None
    assert (found.fs, found.offset, found.length, found.size) == ("exfat", 0, 8 * MIB, 8 * MIB)
    assert (found.label, found.serial, found.uuid) == ("CARD", 7, None)
    assert (found.partition, found.damaged) == (None, False)


def test_detect_puts_the_position_back(image: Path) -> None:
    with image.open("rb") as f:
        f.seek(1234)
        assert px.detect(f) is not None
        assert f.tell() == 1234
        assert px.partitions(f) == []
        assert f.tell() == 1234


def test_detect_looks_into_partitions(tmp_path: Path) -> None:
    path = tmp_path / "disk.img"
    px.format(path, size="32 MiB", partition_table="gpt", label="INSIDE").close()
    found = px.detect(path)
    assert found is not None
    assert (found.partition, found.offset, found.label) == (1, MIB, "INSIDE")
    assert found.length == px.partitions(path)[0].length


def test_several_volumes_must_be_told_apart(tmp_path: Path) -> None:
    sfdisk = require_tool("sfdisk")
    path = tmp_path / "disk.img"
    with path.open("wb") as f:
        f.truncate(64 * MIB)
    script = (
        "label: dos\nstart=2048,size=16384,type=7\nstart=20480,size=16384,type=7\n"
        "start=40960,type=5\nstart=43008,size=16384,type=7\nstart=61440,size=16384,type=83\n"
    )
    subprocess.run([sfdisk, "-q", path], input=script, text=True, check=True, capture_output=True)
    parts = px.partitions(path)
    assert [(p.number, p.offset, p.length) for p in parts if p.type == 7] == [
        (1, MIB, 8 * MIB),
        (2, 10 * MIB, 8 * MIB),
        (5, 21 * MIB, 8 * MIB),
    ]
    assert px.detect(path) is None
    with pytest.raises(OSError, match=r"."):
        px.open(path)
    px.format(path, partition=2, label="TWO").close()
    with px.open(path) as vol:
        assert vol.label == "TWO"
    px.format(path, partition=5, label="FIVE").close()
    with pytest.raises(ValueError, match=r"partition must be given.*2 \(exfat\), 5 \(exfat\)"):
        px.open(path)
    with px.open(path, partition=5) as vol:
        assert vol.label == "FIVE"
    assert px.detect(path).partition == 2  # type: ignore[union-attr]


def test_partitions_of_what_has_none(image: Path) -> None:
    assert px.partitions(image) == []
    assert px.partitions(bytes(MIB)) == []
    with pytest.raises(FileNotFoundError):
        px.partitions("/no/such/file")


def test_other_file_systems_are_named_and_not_opened(tmp_path: Path) -> None:
    boot = bytearray(512)
    boot[3:11] = b"NTFS    "
    boot[11:13] = (512).to_bytes(2, "little")
    boot[40:48] = (8 * MIB // 512 - 1).to_bytes(8, "little")
    boot[510:] = b"\x55\xaa"
    path = tmp_path / "ntfs.img"
    path.write_bytes(bytes(boot).ljust(8 * MIB, b"\0"))
    found = px.detect(path)
    assert found is not None
    assert found.fs == "ntfs"
    before = path.read_bytes()
    with pytest.raises(px.UnsupportedFeatureError, match="ntfs") as error:
        px.open(path, "r+")
    assert "ntfs.img" in str(error.value)
    assert path.read_bytes() == before


def test_what_could_not_be_flushed_is_reported_when_all_is_closed() -> None:
    device = px.Device.memory("2 MiB")
    vol = px.format(device, cluster_size=4096)
    f = vol.open("f", "wb", 8 << 20)
    f.write(bytes(4 << 20))
    with pytest.raises(OSError, match="space"):
        vol.close()
    assert vol.closed
    assert f.closed
    assert device.closed is False
    with px.open(device) as again:
        assert again.was_dirty is False


def test_an_image_that_nothing_was_written_to_keeps_its_time(image: Path) -> None:
    os.utime(image, ns=(10**18, 10**18))
    before = image.read_bytes()
    with px.open(image, "r+") as vol:
        assert vol.read_bytes("a/b/f") == pattern(50_000)
    assert image.stat().st_mtime_ns == 10**18
    assert image.read_bytes() == before
    with px.open(image, "r+") as vol:
        vol.touch("new")
    assert image.stat().st_mtime_ns > 10**18
