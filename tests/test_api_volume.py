"""Volume methods beside those of os, on a memory device; where os has the rule, both must agree."""

from __future__ import annotations

import errno
import pathlib
import pickle
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_support import CLOCK, assert_clean, make_tree, make_volume, pattern

import pyexfat as px

SECOND = 10**9


@pytest.fixture
def vol() -> Iterator[px.Volume]:
    with make_volume() as volume:
        yield volume


# ---- directories ----


def test_mkdir_rmdir_listdir(vol: px.Volume) -> None:
    vol.mkdir("/a")
    vol.mkdir("a/b", 0o700)
    assert vol.listdir() == vol.listdir("/") == vol.listdir(".") == ["a"]
    assert vol.listdir("a") == ["b"]
    with pytest.raises(FileExistsError):
        vol.mkdir("A")
    with pytest.raises(FileNotFoundError) as missing:
        vol.mkdir("x/y")
    assert missing.value.filename == "x/y"
    with pytest.raises(OSError, match="not empty") as full:
        vol.rmdir("a")
    assert full.value.errno == errno.ENOTEMPTY
    vol.rmdir("a/b")
    vol.rmdir("a")
    assert vol.listdir() == []
    with pytest.raises(FileNotFoundError):
        vol.rmdir("a")
    vol.touch("f")
    with pytest.raises(NotADirectoryError):
        vol.rmdir("f")
    with pytest.raises(NotADirectoryError):
        vol.listdir("f")
    with pytest.raises(OSError, match=r"."):
        vol.rmdir("/")
    with pytest.raises(OSError, match=r"."):
        vol.mkdir("/")


def test_makedirs(vol: px.Volume) -> None:
    vol.makedirs("/a/b/c")
    assert vol.isdir("a/b/c")
    with pytest.raises(FileExistsError):
        vol.makedirs("a/b/c")
    vol.makedirs("a/b/c", exist_ok=True)
    vol.makedirs("a/b/d/e/", exist_ok=True)
    assert vol.listdir("a/b") == ["c", "d"]
    vol.touch("a/f")
    with pytest.raises(FileExistsError):
        vol.makedirs("a/f", exist_ok=True)
    with pytest.raises(NotADirectoryError):
        vol.makedirs("a/f/g/h")
    vol.makedirs("/", exist_ok=True)


def test_removedirs(vol: px.Volume) -> None:
    vol.makedirs("a/b/c/d")
    vol.touch("a/keep")
    vol.removedirs("/a/b/c/d")
    assert vol.listdir("a") == ["keep"]
    with pytest.raises(OSError, match="not empty"):
        vol.removedirs("a")


def test_scandir(vol: px.Volume) -> None:
    vol.mkdir("d")
    vol.write_bytes("d/f", b"12345")
    vol.mkdir("d/sub")
    with vol.scandir("d") as entries:
        found = list(entries)
        assert list(entries) == []
    assert [(e.name, e.path, e.is_dir(), e.is_file()) for e in found] == [
        ("f", "d/f", False, True),
        ("sub", "d/sub", True, False),
    ]
    assert found[0].stat().st_size == 5
    assert found[0].inode() == vol.stat("d/f").st_ino
    assert found[0].is_symlink() is False
    assert repr(found[0]) == "<DirEntry 'f'>"
    assert not hasattr(found[0], "__fspath__")
    assert vol.read_bytes(found[0]) == b"12345"
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(found[0])
    assert [e.path for e in vol.scandir()] == ["/d"]
    for bad, error in (("none", FileNotFoundError), ("d/f", NotADirectoryError)):
        with pytest.raises(error):
            vol.scandir(bad)
    scan = vol.scandir("d")
    next(scan)
    scan.close()
    assert list(scan) == []


def test_scandir_of_many_and_while_removing(vol: px.Volume) -> None:
    names = [f"file number {i}" for i in range(2000)]
    vol.mkdir("d")
    vol.create_many("d", names)
    assert [e.name for e in vol.scandir("d")] == names
    seen = []
    for entry in vol.scandir("d"):
        seen.append(entry.name)
        vol.remove(entry.path)
    assert seen == names
    vol.create_many("d", names)
    scan = vol.scandir("d")
    next(scan)
    vol.rmtree("d")
    assert len(list(scan)) < 2000


def test_create_many_and_remove_many(vol: px.Volume) -> None:
    vol.mkdir("d")
    assert vol.create_many("d", (f"{i}" for i in range(300))) == 300
    assert vol.listdir("d") == [f"{i}" for i in range(300)]
    with pytest.raises(FileExistsError) as error:
        vol.create_many("d", ["x", "y", "7", "z"])
    assert error.value.done == 2  # type: ignore[attr-defined]
    assert vol.exists("d/y")
    assert not vol.exists("d/z")
    assert vol.remove_many("d", [f"{i}" for i in range(300)]) == 300
    assert sorted(vol.listdir("d")) == ["x", "y"]
    with pytest.raises(FileNotFoundError) as error2:
        vol.remove_many("d", ["x", "none", "y"])
    assert error2.value.done == 1  # type: ignore[attr-defined]


# ---- names ----


def test_case_is_kept_and_does_not_matter(vol: px.Volume) -> None:
    vol.mkdir("Dir")
    vol.write_bytes("Dir/Über.TXT", b"x")
    assert vol.read_bytes("DIR/üBER.txt") == b"x"
    assert vol.listdir("dIR") == ["Über.TXT"]
    assert vol.stored_name("dir/ÜBER.txt") == "Über.TXT"
    vol.rename("dir/über.txt", "DIR/ÜBER.txt")
    assert vol.listdir("Dir") == ["ÜBER.txt"]


def test_paths_are_read_as_posix_does(vol: px.Volume) -> None:
    vol.makedirs("a/b")
    vol.touch("a/b/f")
    for path in ("/a/b/f", "a//b/f", "./a/./b/f", "a/b/../b/f", "/../a/b/f", "///a/b/f"):
        assert vol.isfile(path), path
    assert vol.isdir("a/b/")
    assert vol.isdir("/")
    assert not vol.exists("")
    assert not vol.exists("a/f/..f")
    inside = vol.path("a", "b", "f")
    assert vol.stat(inside).st_ino == vol.stat("a/b/f").st_ino
    vol.touch(inside)
    assert vol.isfile(inside)
    vol.touch(pathlib.PurePosixPath("a/g"))
    assert vol.listdir(vol / "a") == ["b", "g"]
    vol.rename(vol / "a" / "g", "a/h")
    assert vol.create_many(vol / "a" / "b", ["x", "y"]) == 2
    assert [vol.isfile(entry) for entry in vol.scandir("a/b")] == [True] * 3
    for call in (
        lambda: vol.stat(vol / "none"),
        lambda: vol.rename(vol / "none", "x"),
        lambda: vol.remove_many(vol.path("/"), ["none"]),
    ):
        with pytest.raises(FileNotFoundError) as missing:
            call()
        assert missing.value.filename == "/none"
    with pytest.raises(TypeError, match="path"):
        vol.stat(b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        vol.stat(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="null"):
        vol.stat("a\0b")


@pytest.mark.parametrize("c", ['"', *"*:<>?\\|\x01\x1f"])
def test_names_that_the_format_forbids(vol: px.Volume, c: str) -> None:
    with pytest.raises(OSError, match=r".") as error:
        vol.touch(f"a{c}b")
    assert error.value.errno == errno.EINVAL
    assert vol.listdir() == []
    assert vol.exists(f"a{c}b") is False


def test_names_of_all_lengths_and_planes(vol: px.Volume) -> None:
    names = ["x" * 255, "€" * 255, "𝄞" * 127, "\ud800", "a\udfffb", "日本語", "e\u0301"]
    for name in names:
        vol.touch(name)
        assert vol.exists(name)
    assert vol.listdir() == names
    for name in ("x" * 256, "𝄞" * 128):
        with pytest.raises(OSError, match="too long") as error:
            vol.touch(name)
        assert error.value.errno == errno.ENAMETOOLONG


# ---- stat ----


def test_stat(vol: px.Volume) -> None:
    vol.write_bytes("f", bytes(5000))
    vol.mkdir("d")
    status = vol.stat("f")
    assert stat.S_ISREG(status.st_mode)
    assert status.st_mode & 0o222
    assert (status.st_size, status.st_nlink, status.is_dir) == (5000, 1, False)
    cluster = vol.cluster_size
    assert status.allocated == -(-5000 // cluster) * cluster == status.st_blocks * 512
    assert status.st_blksize == cluster
    assert status.valid_size == 5000
    assert status.contiguous
    assert status.archive
    assert status.st_mtime_ns == CLOCK == status.st_birthtime_ns
    assert status.st_mtime == CLOCK / SECOND
    assert tuple(status)[6] == status[6] == 5000
    assert len(tuple(status)) == 10
    directory = vol.stat("d")
    assert stat.S_ISDIR(directory.st_mode)
    assert directory.is_dir
    assert len({vol.stat(p).st_ino for p in ("/", "f", "d")}) == 3
    assert vol.lstat("f") == status
    with pytest.raises(FileNotFoundError) as missing:
        vol.stat("d/none")
    assert missing.value.filename == "d/none"
    with pytest.raises(NotADirectoryError):
        vol.stat("f/x")


def test_exists_isdir_isfile(vol: px.Volume) -> None:
    vol.mkdir("d")
    vol.touch("f")
    for path, expected in (
        ("d", (True, True, False)),
        ("f", (True, False, True)),
        ("none", (False, False, False)),
        ("f/x", (False, False, False)),
        ("none/x", (False, False, False)),
        ("/", (True, True, False)),
    ):
        assert (vol.exists(path), vol.isdir(path), vol.isfile(path)) == expected


def test_times(vol: px.Volume) -> None:
    vol.touch("f")
    vol.utime("f", (1_600_000_001.5, 1_600_000_003.25))
    status = vol.stat("f")
    # 10 ms for changes, 2 s for access, rounded down (sections 7.4.8 and 7.4.9).
    assert status.st_mtime_ns == 1_600_000_003_250_000_000
    assert status.st_atime_ns == 1_600_000_000_000_000_000
    vol.utime("f", ns=(CLOCK + 3, CLOCK + 19_999_999))
    assert vol.stat("f").st_atime_ns == CLOCK
    assert vol.stat("f").st_mtime_ns == CLOCK + 10_000_000
    vol.utime("f", (10**9, 10**9))
    assert vol.stat("f").st_mtime == 10**9
    vol.utime("f")
    assert vol.stat("f").st_mtime_ns == CLOCK
    vol.utime("f", created_ns=CLOCK - 20 * SECOND)
    status = vol.stat("f")
    assert (status.st_birthtime_ns, status.st_mtime_ns) == (CLOCK - 20 * SECOND, CLOCK)
    with pytest.raises(ValueError, match="both"):
        vol.utime("f", (1, 1), ns=(1, 1))
    with pytest.raises(TypeError, match="times"):
        vol.utime("f", 5)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        vol.utime("none")


def test_times_of_the_system_are_now() -> None:
    with px.format(px.Device.memory("4 MiB")) as vol:
        before = time.time_ns()
        vol.touch("f")
        vol.utime("f")
        after = time.time_ns()
        assert before - 10_000_000 <= vol.stat("f").st_mtime_ns <= after


def test_touch(vol: px.Volume) -> None:
    vol.touch("f")
    with pytest.raises(FileExistsError):
        vol.touch("f", exist_ok=False)
    vol.utime("f", (10**9, 10**9))
    vol.write_bytes("f", b"x")
    vol.utime("f", (10**9, 10**9))
    vol.touch("f")
    assert vol.stat("f").st_mtime_ns == CLOCK
    assert vol.read_bytes("f") == b"x"


def test_chmod_and_attributes(vol: px.Volume) -> None:
    vol.touch("f")
    vol.chmod("f", 0o444)
    status = vol.stat("f")
    assert status.read_only
    assert status.archive
    assert status.st_mode & 0o222 == 0
    for mode in ("w", "a", "r+"):
        with pytest.raises(PermissionError):
            vol.open("f", mode)
    vol.open("f").close()
    vol.chmod("f", 0o200)
    assert not vol.stat("f").read_only
    vol.set_attributes("f", hidden=True, system=True, archive=False)
    status = vol.stat("f")
    assert (status.hidden, status.system, status.archive, status.read_only) == (
        True, True, False, False,
    )  # fmt: skip
    assert status.st_file_attributes == stat.FILE_ATTRIBUTE_HIDDEN | stat.FILE_ATTRIBUTE_SYSTEM
    vol.set_attributes("f", hidden=False)
    assert vol.stat("f").system
    vol.mkdir("d")
    vol.chmod("d", 0o555)
    assert vol.stat("d").read_only
    assert vol.isdir("d")


# ---- renames and removals ----


def test_rename(vol: px.Volume) -> None:
    vol.makedirs("a/b")
    vol.mkdir("c")
    vol.write_bytes("f", b"f")
    vol.write_bytes("g", b"g")
    vol.rename("f", "a/b/f2")
    vol.replace("g", "a/b/f2")
    assert vol.read_bytes("a/b/f2") == b"g"
    vol.rename("a/b", "c")  # an empty directory is replaced
    assert vol.read_bytes("c/f2") == b"g"
    for src, dst, error in (
        ("none", "x", FileNotFoundError),
        ("c/f2", "none/x", FileNotFoundError),
        ("c/f2", "a", IsADirectoryError),
        ("a", "c/f2", NotADirectoryError),
    ):
        with pytest.raises(error):
            vol.rename(src, dst)
    with pytest.raises(OSError, match=r".") as into_itself:
        vol.rename("c", "c/d")
    assert into_itself.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="not empty"):
        vol.rename("a", "c")
    assert vol.read_bytes("c/f2") == b"g"
    with pytest.raises(FileNotFoundError) as both:
        vol.rename("none", "x")
    assert (both.value.filename, both.value.filename2) == ("none", "x")


def test_remove(vol: px.Volume) -> None:
    vol.touch("f")
    vol.mkdir("d")
    vol.remove("f")
    with pytest.raises(FileNotFoundError):
        vol.unlink("f")
    with pytest.raises(OSError, match=r".") as error:
        vol.remove("d")
    assert error.value.errno in (errno.EISDIR, errno.EPERM)
    assert vol.isdir("d")


def test_links_are_refused(vol: px.Volume) -> None:
    vol.touch("f")
    for call in (lambda: vol.link("f", "g"), lambda: vol.symlink("f", "g")):
        with pytest.raises(PermissionError) as error:
            call()
        assert error.value.errno == errno.EPERM
    with pytest.raises(OSError, match="Invalid") as error2:
        vol.readlink("f")
    assert error2.value.errno == errno.EINVAL
    with pytest.raises(FileNotFoundError):
        vol.readlink("none")
    assert vol.listdir() == ["f"]


# ---- space ----


def test_truncate_and_fallocate(vol: px.Volume) -> None:
    vol.write_bytes("f", b"abc")
    vol.truncate("f", "1 MiB")
    status = vol.stat("f")
    assert (status.st_size, status.valid_size) == (1 << 20, 3)
    assert vol.read_bytes("f") == b"abc" + bytes((1 << 20) - 3)
    vol.truncate("f", 2)
    assert vol.read_bytes("f") == b"ab"
    vol.fallocate("f", 0, "2 MiB", keep_size=True)
    assert vol.stat("f").st_size == 2
    assert vol.stat("f").allocated >= 2 << 20
    vol.fallocate("f", 0, "1M")
    assert vol.stat("f").st_size == 1 << 20
    for call in (
        lambda: vol.truncate("f", -1),
        lambda: vol.truncate("f", "x"),
        lambda: vol.fallocate("f", -1, 5),
        lambda: vol.fallocate("f", 0, "x"),
    ):
        with pytest.raises(ValueError, match=r"size|offset|length"):
            call()
    with pytest.raises(IsADirectoryError):
        vol.truncate("/", 0)
    with pytest.raises(OSError, match="space"):
        vol.truncate("f", "1 GiB")
    assert vol.stat("f").st_size == 1 << 20


def test_extents(vol: px.Volume, tmp_path: Path) -> None:
    cluster = vol.cluster_size
    data = pattern(3 * cluster)
    vol.write_bytes("f", data)
    vol.sync()
    extents = vol.extents("f")
    assert sum(e.length for e in extents) == len(data)
    got = b"".join(vol.device.pread(e.length, e.device_offset) for e in extents)
    assert got == data
    assert [e.file_offset for e in extents] == sorted(e.file_offset for e in extents)
    vol.truncate("f", 10 * cluster)
    last = vol.extents("f")[-1]
    assert last.written is False
    vol.touch("empty")
    assert vol.extents("empty") == []


def test_usage(vol: px.Volume) -> None:
    before = vol.usage()
    assert before.total == before.used + before.free
    assert before.clusters * before.cluster_size == before.total
    vol.write_bytes("f", bytes(10 * before.cluster_size))
    after = vol.usage()
    assert after.used - before.used == 10 * before.cluster_size
    assert before.free_clusters - after.free_clusters == 10
    vol.unlink("f")
    assert vol.usage() == before
    assert isinstance(before, px.Usage)


def test_label_and_serial() -> None:
    device = px.Device.memory("8 MiB")
    with px.format(device, label="OLD", serial=1) as vol:
        vol.label = "Neu €"
        vol.serial = 0xFFFFFFFF
        assert (vol.label, vol.serial) == ("Neu €", 0xFFFFFFFF)
    with px.open(device, "r+") as vol:
        assert (vol.label, vol.serial) == ("Neu €", 0xFFFFFFFF)
        vol.label = ""
        with pytest.raises((ValueError, OSError), match=r"label|too long"):
            vol.label = "twelve units"
        with pytest.raises((ValueError, OverflowError)):
            vol.serial = 1 << 32
    with px.open(device) as vol:
        assert vol.label == ""


def test_trim_and_shrink(vol: px.Volume) -> None:
    vol.write_bytes("f", bytes(1 << 20))
    vol.unlink("f")
    assert vol.trim() >= 1 << 20
    assert vol.trim(min_length="1 GiB") == 0
    vol.create_many("/", [f"{i}" for i in range(1000)])
    held = vol.memory_held
    assert held > 0
    assert vol.shrink("1 GiB") > 0
    assert vol.memory_held < held
    assert vol.exists("999")


def test_what_a_volume_knows_of_itself(vol: px.Volume) -> None:
    assert vol.fs == "exfat"
    assert vol.readonly is False
    assert vol.size == 16 << 20
    assert vol.device.size == 16 << 20
    assert vol.sector_size == 512
    assert vol.was_dirty is vol.media_failure is vol.from_backup is False
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(vol)


def test_whole_files(vol: px.Volume) -> None:
    assert vol.write_bytes("f", bytearray(b"abc")) == 3
    assert vol.write_bytes("f", memoryview(b"de")) == 2
    assert vol.read_bytes("f") == b"de"
    assert vol.write_bytes("f", b"") == 0
    assert vol.read_bytes("f") == b""
    with pytest.raises(TypeError):
        vol.write_bytes("f", "text")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        vol.read_bytes("none")
    with pytest.raises(IsADirectoryError):
        vol.read_bytes("/")


def test_everything_leaves_a_clean_image(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="16 MiB") as vol:
        make_tree(vol.mkdir, vol.touch)
        vol.create_many("t/b", [f"name {i}" for i in range(500)])
        vol.write_bytes("t/1", pattern(123_456))
        vol.fallocate("t/2", 0, 1 << 20, keep_size=True)
        vol.truncate("t/a/3", 500_000)
        vol.set_attributes("t/b", hidden=True)
        vol.rename("t/a/x", "t/empty")
        vol.remove_many("t/b", [f"name {i}" for i in range(0, 500, 3)])
        vol.rmtree("t/a")
    assert_clean(image)


# ---- no room, no encoding ----


def fill(vol: px.Volume) -> None:
    """Leaves three clusters."""
    free = vol.usage().free_clusters - 3
    vol.write_bytes("fill", bytes(free * vol.cluster_size))
    assert vol.usage().free_clusters == 3


@pytest.mark.parametrize("fs", ["exfat", "fat12", "fat"])
def test_write_bytes_without_room(fs: str) -> None:
    with make_volume("8 MiB" if fs != "fat" else "32 MiB", fs=fs) as vol:
        unit = vol.cluster_size
        old = pattern(2 * unit + 1)
        vol.write_bytes("old", old)
        vol.chmod("old", 0o444)
        vol.chmod("old", 0o666)
        fill(vol)
        names, status = vol.listdir(), vol.stat("old")
        with pytest.raises(OSError, match="space") as caught:
            vol.write_bytes("new", bytes(4 * unit))
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(OSError, match="space"):
            vol.write_bytes("old", bytes(6 * unit + 1))
        with pytest.raises(OSError, match="space"):
            (vol / "old").write_text("x" * (6 * unit + 1))
        with pytest.raises(OSError, match="space"):
            (vol / "new").write_text("x" * (4 * unit))
        assert vol.listdir() == names
        assert vol.read_bytes("old") == old
        assert vol.stat("old").st_mtime_ns == status.st_mtime_ns
        assert vol.usage().free_clusters == 3
        new = pattern(6 * unit, 2)  # fits only with the clusters that the file has already
        assert vol.write_bytes("old", new) == 6 * unit
        assert vol.read_bytes("old") == new
        assert vol.usage().free_clusters == 0
        assert vol.write_bytes("old", b"short") == 5
        assert vol.read_bytes("old") == b"short"
        assert vol.usage().free_clusters == 5


def test_write_text_that_cannot_be_encoded(vol: px.Volume) -> None:
    path = vol / "f"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        path.write_text("ä", encoding="ascii")
    assert path.read_text() == "old"
