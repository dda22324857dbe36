"""Copies in, out and between volumes: content, times, progress, and what is left when they fail."""

from __future__ import annotations

import errno
import io
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_support import CLOCK, assert_clean, make_volume, pattern
from hypothesis import given
from hypothesis import strategies as st

import pyexfat as px
from pyexfat import copying

SECOND = 10**9


@pytest.fixture
def vol() -> Iterator[px.Volume]:
    with make_volume("64 MiB") as volume:
        yield volume


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a.bin").write_bytes(pattern(100_000))
    (root / "sub" / "b").write_bytes(pattern(10, 2))
    (root / "sub" / "deep" / "ß").write_bytes(b"")
    (root / "sub" / "b").chmod(0o444)
    for i, path in enumerate(sorted(root.rglob("*"), reverse=True)):
        os.utime(path, ns=(CLOCK - 4 * i * SECOND, CLOCK - (2 * i + 1) * SECOND))
    return root


def content(root: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


def inside(vol: px.Volume, root: str) -> dict[str, bytes | None]:
    start = vol.path(root)
    return {
        str(path.relative_to(start)): path.read_bytes() if path.is_file() else None
        for path in start.rglob("*")
        if path != start
    }


# ---- trees and files ----


def test_a_tree_in_and_out(vol: px.Volume, tree: Path, tmp_path: Path) -> None:
    paths = sorted(tree.rglob("*"))  # listing them changes the directories' times of access
    times = {path: path.stat() for path in paths}
    assert vol.copy_in(tree, "/t") == "/t"
    assert inside(vol, "t") == content(tree)
    for path, theirs in times.items():
        ours = vol.stat("t/" + path.relative_to(tree).as_posix())
        assert ours.st_mtime_ns == theirs.st_mtime_ns
        assert ours.st_atime_ns == theirs.st_atime_ns // (2 * SECOND) * (2 * SECOND)
    assert vol.stat("t/sub/b").read_only
    assert vol.stat("t/sub/b").archive
    assert not vol.stat("t/a.bin").read_only
    assert not vol.stat("t/sub").archive
    out = tmp_path / "out"
    assert vol.copy_out("/t", out) == str(out)
    assert content(out) == content(tree)
    for path in tree.rglob("*"):
        back = out / path.relative_to(tree)
        assert back.stat().st_mtime_ns == path.stat().st_mtime_ns
    assert stat.S_IMODE((out / "sub" / "b").stat().st_mode) & 0o222 == 0
    assert (out / "a.bin").stat().st_mode & 0o200


def test_without_preserve_times_are_now(vol: px.Volume, tree: Path, tmp_path: Path) -> None:
    vol.copy_in(tree, "t", preserve=False)
    for path in ("t/a.bin", "t/sub", "t/sub/b"):
        assert vol.stat(path).st_mtime_ns == CLOCK
    assert not vol.stat("t/sub/b").read_only
    vol.utime("t/a.bin", (10**9, 10**9))
    vol.copy_out("t", tmp_path / "out", preserve=False)
    assert (tmp_path / "out" / "a.bin").stat().st_mtime > 1.7e9


def test_directories_are_merged_and_files_replaced(vol: px.Volume, tree: Path) -> None:
    vol.makedirs("t/sub")
    vol.write_bytes("t/A.BIN", b"old")
    vol.write_bytes("t/sub/kept", b"kept")
    vol.copy_in(tree, "t")
    expected = content(tree) | {"sub/kept": b"kept"}
    expected["A.BIN"] = expected.pop("a.bin")
    got = inside(vol, "t")
    assert {k.casefold(): v for k, v in got.items()} == {
        k.casefold(): v for k, v in expected.items()
    }


def test_a_tree_into_the_root(vol: px.Volume, tree: Path) -> None:
    vol.copy_in(str(tree), "/")
    assert sorted(vol.listdir()) == ["a.bin", "empty", "sub"]


def test_a_file_to_a_name_or_into_a_directory(vol: px.Volume, tree: Path, tmp_path: Path) -> None:
    vol.mkdir("d")
    assert vol.copy_in(tree / "a.bin", "d") == "d/a.bin"
    assert vol.copy_in(tree / "a.bin", "/d/") == "/d/a.bin"
    assert vol.copy_in(tree / "a.bin", "d/new") == "d/new"
    assert vol.copy_in(tree / "a.bin", vol / "d" / "newer") == "/d/newer"
    assert sorted(vol.listdir("d")) == ["a.bin", "new", "newer"]
    with pytest.raises(FileNotFoundError):
        vol.copy_in(tree / "a.bin", "none/")
    with pytest.raises(FileNotFoundError):
        vol.copy_in(tree / "a.bin", "none/x")
    out = tmp_path / "out"
    out.mkdir()
    assert vol.copy_out("D/A.bin", out) == str(out / "a.bin")
    assert vol.copy_out("d/new", out / "x") == str(out / "x")
    assert sorted(os.listdir(out)) == ["a.bin", "x"]


def test_kinds_do_not_replace_each_other(vol: px.Volume, tree: Path, tmp_path: Path) -> None:
    vol.makedirs("t/a.bin")
    with pytest.raises(IsADirectoryError):
        vol.copy_in(tree, "t")
    vol.touch("f")
    with pytest.raises(FileExistsError):
        vol.copy_in(tree, "f")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        vol.copy_out("t", tmp_path / "file")


def test_missing_sources(vol: px.Volume, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        vol.copy_in(tmp_path / "none", "x")
    with pytest.raises(FileNotFoundError, match="none"):
        vol.copy_out("none", tmp_path / "x")
    assert vol.listdir() == []
    assert not (tmp_path / "x").exists()


def test_file_objects(vol: px.Volume, tmp_path: Path) -> None:
    data = pattern(20_000_000)
    vol.copy_in(io.BytesIO(data), "f")
    assert vol.read_bytes("f") == data

    class OnlyRead:
        def __init__(self) -> None:
            self.pieces = [b"one", b"two", b""]

        def read(self, n: int) -> bytes:
            return self.pieces.pop(0)

    vol.copy_in(OnlyRead(), "g")
    assert vol.read_bytes("g") == b"onetwo"
    with pytest.raises(TypeError, match="binary"):
        vol.copy_in(io.StringIO("text"), "h")
    assert not vol.exists("h")
    out = io.BytesIO()
    vol.truncate("g", 10)
    assert vol.copy_out("g", out) is out
    assert out.getvalue() == b"onetwo\0\0\0\0"
    with pytest.raises(IsADirectoryError):
        vol.copy_out("/", io.BytesIO())


def test_a_pipe_can_be_the_target(vol: px.Volume, tmp_path: Path) -> None:
    vol.write_bytes("f", b"through a pipe")
    vol.truncate("f", 20)
    read, write = os.pipe()
    vol.copy_out("f", f"/dev/fd/{write}")
    os.close(write)
    with open(read, "rb") as f:
        assert f.read() == b"through a pipe" + bytes(6)


def test_sizes_around_a_piece(vol: px.Volume, tmp_path: Path) -> None:
    for size in (copying.CHUNK - 1, copying.CHUNK, copying.CHUNK + 1, 2 * copying.CHUNK + 5):
        data = pattern(1_000_003) * (size // 1_000_003 + 1)
        (tmp_path / "f").write_bytes(data[:size])
        vol.copy_in(tmp_path / "f", "f")
        status = vol.stat("f")
        assert (status.st_size, status.valid_size, status.contiguous) == (size, size, True)
        vol.copy_out("f", tmp_path / "g")
        assert (tmp_path / "g").read_bytes() == data[:size]
        vol.unlink("f")


# ---- sparse files ----


def test_the_hole_at_the_end_is_not_written(vol: px.Volume, tmp_path: Path) -> None:
    source = tmp_path / "sparse"
    with source.open("wb") as f:
        f.write(b"start")
        f.truncate(40 << 20)
    vol.copy_in(source, "f")
    status = vol.stat("f")
    assert status.st_size == 40 << 20
    assert status.valid_size <= 1 << 20
    with vol.open("f", "rb") as f:
        assert f.read(6) == b"start\0"
    vol.copy_out("f", tmp_path / "back")
    back = (tmp_path / "back").stat()
    assert back.st_size == 40 << 20
    assert back.st_blocks * 512 <= 2 << 20
    with px.format(px.Device.memory("64 MiB")) as other:
        other.copy_in(vol / "f", "f")
        assert other.stat("f").valid_size == status.valid_size
        assert other.stat("f").st_size == 40 << 20


def test_an_all_hole_file(vol: px.Volume, tmp_path: Path) -> None:
    source = tmp_path / "hole"
    source.touch()
    os.truncate(source, 3 << 20)
    vol.copy_in(source, "f")
    assert vol.stat("f").st_size == 3 << 20
    assert vol.stat("f").valid_size == 0


# ---- progress ----


def test_progress(vol: px.Volume, tree: Path, tmp_path: Path) -> None:
    (tree / "large").write_bytes(bytes(20 << 20))
    total = (20 << 20) + 100_010
    seen: list[tuple[int, int, str]] = []
    vol.copy_in(tree, "t", lambda *step: seen.append(step))
    assert [step[0] for step in seen] == sorted(step[0] for step in seen)
    assert {step[1] for step in seen} == {total}
    assert seen[-1][0] == total
    assert {Path(step[2]).name for step in seen} == {"a.bin", "b", "ß", "large"}
    assert sum(Path(step[2]).name == "large" for step in seen) >= 3
    seen.clear()
    vol.copy_out("t", tmp_path / "out", progress=lambda *step: seen.append(step))
    assert seen[-1][:2] == (total, total)
    assert "/t/sub/deep/ß" in {step[2] for step in seen} | {"/" + step[2] for step in seen}


def test_progress_may_stop_the_copy(vol: px.Volume, tree: Path, tmp_path: Path) -> None:
    (tree / "large").write_bytes(bytes(20 << 20))

    def stop(done: int, total: int, path: str) -> None:
        if path.endswith("large"):
            raise KeyboardInterrupt

    free = vol.usage().free
    with pytest.raises(KeyboardInterrupt):
        vol.copy_in(tree, "t", stop)
    assert vol.read_bytes("t/a.bin") == pattern(100_000)
    assert not vol.exists("t/large")
    vol.rmtree("t")
    assert vol.usage().free >= free - vol.cluster_size
    vol.write_bytes("large", bytes(20 << 20))
    with pytest.raises(KeyboardInterrupt):
        vol.copy_out("large", tmp_path / "large", stop)
    assert not (tmp_path / "large").exists()


# ---- failures ----


def test_a_full_volume_keeps_no_half_file(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    source = tmp_path / "f"
    source.write_bytes(bytes(9 << 20))
    small = tmp_path / "small"
    small.write_bytes(pattern(5000))
    with px.format(image, size="8 MiB") as vol:
        free = vol.usage().free
        for path, copy_from in (("x", source), ("x", io.BytesIO(bytes(9 << 20)))):
            with pytest.raises(OSError, match="space"):
                vol.copy_in(copy_from, path)
            assert vol.listdir() == []
            assert vol.usage().free == free
        vol.copy_in(small, "x")
        for copy_from in (source, io.BytesIO(bytes(9 << 20))):
            with pytest.raises(OSError, match="space"):
                vol.copy_in(copy_from, "x")
            assert vol.listdir() == ["x"]
            assert vol.read_bytes("x") == pattern(5000)
    assert_clean(image)


def test_an_error_of_the_device_leaves_no_half_file(tmp_path: Path) -> None:
    source = tmp_path / "f"
    source.write_bytes(pattern(3 << 20))
    device = px.Device.memory("16 MiB")
    px.format(device).close()
    faulty = device.faults("write", structure="data", nth=1)
    with px.open(faulty, "r+") as vol:
        with pytest.raises(OSError, match=r".") as error:
            vol.copy_in(source, "f")
        assert error.value.errno == errno.EIO
        assert vol.listdir() == []
        vol.copy_in(source, "f")
        assert vol.read_bytes("f") == pattern(3 << 20)


def test_a_source_that_shrinks_meanwhile(vol: px.Volume, tmp_path: Path) -> None:
    source = tmp_path / "f"
    source.write_bytes(bytes(20 << 20))

    def cut(done: int, total: int, path: str) -> None:
        os.truncate(source, 10 << 20)

    vol.copy_in(source, "f", cut)
    assert vol.stat("f").st_size == 10 << 20
    assert vol.stat("f").allocated <= (10 << 20) + vol.cluster_size


def test_names_that_the_format_forbids(vol: px.Volume, tmp_path: Path) -> None:
    root = tmp_path / "r"
    root.mkdir()
    (root / "a:b").touch()
    with pytest.raises(OSError, match=r".") as error:
        vol.copy_in(root, "t")
    assert error.value.errno == errno.EINVAL
    assert "a:b" in str(error.value.filename)


def test_names_that_differ_in_case_only(vol: px.Volume, tmp_path: Path) -> None:
    root = tmp_path / "r"
    root.mkdir()
    (root / "Readme").write_bytes(b"1")
    (root / "README").write_bytes(b"2")
    with pytest.raises(FileExistsError, match="case"):
        vol.copy_in(root, "t")


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_special_files_are_refused_before_anything_is_written(
    vol: px.Volume, tree: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree / "sub")  # a short name for the socket
    if kind == "fifo":
        os.mkfifo("z")
    else:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind("z")
    with pytest.raises(OSError, match="pipe" if kind == "fifo" else "socket") as error:
        vol.copy_in(tree, "t")
    assert error.value.errno == errno.EOPNOTSUPP
    assert str(error.value.filename).endswith("sub/z")
    assert vol.listdir() == []
    with pytest.raises(OSError, match="device"):
        vol.copy_in("/dev/null", "t")


# ---- links ----


def test_links_are_followed_or_left_out(vol: px.Volume, tree: Path, tmp_path: Path) -> None:
    (tree / "link").symlink_to("a.bin")
    (tree / "directory").symlink_to("sub")
    vol.copy_in(tree, "t")
    assert vol.read_bytes("t/link") == pattern(100_000)
    assert vol.read_bytes("t/directory/b") == pattern(10, 2)
    vol.copy_in(tree, "u", follow_symlinks=False)
    assert sorted(vol.listdir("u")) == ["a.bin", "empty", "sub"]
    (tree / "broken").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="broken"):
        vol.copy_in(tree, "v")
    assert not vol.exists("v")


def test_a_loop_of_links_ends(vol: px.Volume, tree: Path) -> None:
    (tree / "sub" / "up").symlink_to("..")
    with pytest.raises(OSError, match="symbolic links") as error:
        vol.copy_in(tree, "t")
    assert error.value.errno == errno.ELOOP
    assert vol.listdir() == []


def test_two_links_to_one_directory_are_no_loop(vol: px.Volume, tree: Path) -> None:
    (tree / "1").symlink_to("sub")
    (tree / "2").symlink_to("sub")
    vol.copy_in(tree, "t")
    assert vol.read_bytes("t/1/b") == vol.read_bytes("t/2/b") == pattern(10, 2)


# ---- within and between volumes ----


def test_between_volumes(vol: px.Volume, tree: Path) -> None:
    vol.copy_in(tree, "t")
    vol.set_attributes("t/a.bin", hidden=True)
    vol.utime("t/a.bin", created_ns=CLOCK - 50 * SECOND)
    with px.format(px.Device.memory("32 MiB")) as other:
        assert other.copy_in(vol / "t", "/") == "/"
        assert inside(other, "/") == content(tree)
        status = other.stat("a.bin")
        assert status.hidden
        assert status.st_birthtime_ns == CLOCK - 50 * SECOND
        assert other.stat("sub/b").read_only
        assert other.stat("sub").st_mtime_ns == vol.stat("t/sub").st_mtime_ns


def test_within_a_volume(vol: px.Volume) -> None:
    vol.write_bytes("f", pattern(50_000))
    assert vol.copy("f", "g") == "g"
    assert vol.read_bytes("g") == pattern(50_000)
    vol.makedirs("d/e")
    vol.copy("f", "d/e")
    vol.copy("d", "d2")
    assert vol.read_bytes("d2/e/f") == pattern(50_000)
    for src, dst in (("d", "d/e/x"), ("d", "d"), ("f", "F"), ("d", "D/new"), ("/", "d/root")):
        with pytest.raises(OSError, match="into itself") as error:
            vol.copy(src, dst)
        assert error.value.errno == errno.EINVAL
    assert vol.read_bytes("f") == pattern(50_000)
    assert vol.listdir("d/e") == ["f"]


def test_foreign_paths(vol: px.Volume, tree: Path) -> None:
    """Anything with pathlib's new methods can be a source, such as a path in an archive."""

    class Info:
        def __init__(self, path: Path) -> None:
            self.path = path

        def exists(self) -> bool:
            return self.path.exists()

        def is_dir(self) -> bool:
            return self.path.is_dir()

        def is_file(self) -> bool:
            return self.path.is_file()

    class Foreign:
        def __init__(self, path: Path) -> None:
            self._path = path
            self.name = path.name
            self.info = Info(path)

        def iterdir(self) -> Iterator[Foreign]:
            return map(Foreign, self._path.iterdir())

        def __open_rb__(self, buffering: int = -1) -> Any:
            return self._path.open("rb")

        def __str__(self) -> str:
            return f"foreign:{self._path}"

    vol.copy_in(Foreign(tree), "t")
    assert inside(vol, "t") == content(tree)
    with pytest.raises(FileNotFoundError, match="foreign:"):
        vol.copy_in(Foreign(tree / "none"), "u")


def test_names_that_would_lead_out_are_refused(tmp_path: Path) -> None:
    for name in ("", ".", "..", "a/b", "../x", "a\0b"):
        with pytest.raises(OSError, match="outside") as error:
            copying.HostSink().join(str(tmp_path), name)
        assert error.value.errno == errno.EINVAL


def test_names_that_the_host_can_not_hold(vol: px.Volume, tmp_path: Path) -> None:
    vol.mkdir("d")
    vol.touch("d/\ud800")
    with pytest.raises(OSError, match=r".") as error:
        vol.copy_out("d", tmp_path / "out")
    assert error.value.errno == errno.EILSEQ


def test_names_of_undecodable_bytes_come_back(vol: px.Volume, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    raw = os.fsencode(tmp_path / "in") + b"/caf\xe9"
    with open(raw, "wb") as f:
        f.write(b"x")
    vol.copy_in(tmp_path / "in", "d")
    vol.copy_out("d", tmp_path / "out")
    assert os.listdir(os.fsencode(tmp_path / "out")) == [b"caf\xe9"]


LONG = "長" * 240  # 720 bytes


def names_that_do_not_fit(vol: px.Volume) -> None:
    for name in ("a", "\ud800", "z", LONG):
        vol.makedirs(f"d/{name}")
        vol.write_bytes(f"d/{name}/file", b"in a directory")
        vol.write_bytes(f"d/a/{name}.txt", b"text")


def test_what_the_host_can_not_hold_is_reported_and_the_rest_copied(
    vol: px.Volume, tmp_path: Path
) -> None:
    names_that_do_not_fit(vol)
    failed: list[OSError] = []
    out = vol.copy_out("d", tmp_path / "out", onerror=failed.append)
    assert out == str(tmp_path / "out")
    assert content(Path(out)) == {
        "a": None, "a/a.txt": b"text", "a/z.txt": b"text", "a/file": b"in a directory",
        "z": None, "z/file": b"in a directory",
    }  # fmt: skip
    assert sorted(error.errno or 0 for error in failed) == sorted(
        [errno.ENAMETOOLONG, errno.EILSEQ] * 2
    )
    assert all(error.filename for error in failed)


def test_what_the_host_can_not_hold_is_written_otherwise(vol: px.Volume, tmp_path: Path) -> None:
    names_that_do_not_fit(vol)
    out = Path(vol.copy_out("d", tmp_path / "out", escape=True))
    names = {path.name for path in out.rglob("*")}
    cut = {name for name in names if "~" in name}
    assert names - cut == {"a", "a.txt", "z", "z.txt", "file", "%ED%A0%80", "%ED%A0%80.txt"}
    assert {name[:60] for name in cut} == {LONG[:60]}
    assert sorted(Path(name).suffix for name in cut) == ["", ".txt"]
    assert all(len(name.encode()) <= 255 for name in cut)
    assert len(list(out.rglob("file"))) == 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain.txt", "plain.txt"),
        ("100%.txt", "100%.txt"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("a/b", "a%2Fb"),
        ("50%/b", "50%25%2Fb"),
        ("a\0", "a%00"),
        ("\udce9", "\udce9"),  # a byte that is no UTF-8, as Python has it
        ("x" * 255, "x" * 255),
    ],
)
def test_escapes(name: str, expected: str) -> None:
    assert copying.escaped(name) == expected


def test_long_names_stay_different() -> None:
    names = ["é" * 200 + end for end in ("a.jpeg", "b.jpeg", "a." + "j" * 40)]
    short = [copying.escaped(name) for name in names]
    assert len(set(short)) == 3
    assert all(250 < len(name.encode()) <= 255 for name in short)
    assert [name.endswith(".jpeg") for name in short] == [True, True, False]


def test_what_is_sound_of_a_damaged_directory_is_copied(tmp_path: Path) -> None:
    image = bytearray(4 << 20)
    with px.format(image) as vol:
        vol.makedirs("d/sub")
        for name in ("a", "bad", "d/x", "d/bad", "d/y", "d/sub/z"):
            vol.write_bytes(name, name.encode())
        places = [vol.stat(name).entry_offset for name in ("bad", "d/bad")]
    for at in places:
        image[at + 32 + 20] ^= 1  # FirstCluster: the checksum of the set is wrong now
    with px.open(image) as vol, make_volume() as other:
        with pytest.raises(px.CorruptImageError):
            vol.copy_out("/", tmp_path / "none")
        assert not (tmp_path / "none").exists()
        failed: list[OSError] = []
        vol.copy_out("/", tmp_path / "out", onerror=failed.append)
        assert content(tmp_path / "out") == {
            "a": b"a", "d": None, "d/x": b"d/x", "d/y": b"d/y",
            "d/sub": None, "d/sub/z": b"d/sub/z",
        }  # fmt: skip
        assert [type(error) for error in failed] == [px.CorruptImageError] * 2
        assert [error.filename for error in failed] == ["/", "/d"]
        other.copy_in(vol / "d", "d", onerror=failed.append)
        assert sorted(other.listdir("d")) == ["sub", "x", "y"]


def test_onerror_gets_what_can_not_be_copied_in(vol: px.Volume, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a:b").mkdir(parents=True)
    (tree / "a:b" / "inside").touch()
    (tree / "good").write_bytes(b"good")
    os.mkfifo(tree / "pipe")
    os.symlink("nowhere", tree / "link")
    failed: list[OSError] = []
    vol.copy_in(tree, "t", onerror=failed.append)
    assert inside(vol, "t") == {"good": b"good"}
    assert sorted(error.errno or 0 for error in failed) == sorted(
        [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT]
    )


def test_a_progress_function_stops_it_all_the_same(vol: px.Volume, tree: Path) -> None:
    def stop(done: int, total: int, path: str) -> None:
        raise OSError(errno.ECANCELED, "enough")

    with pytest.raises(OSError, match="enough"):
        vol.copy_in(tree, "t", stop, onerror=lambda error: None)


def test_two_names_that_are_one_on_the_host(vol: px.Volume, tmp_path: Path) -> None:
    """As on a damaged volume: the second must not replace the first."""
    (tmp_path / "out").mkdir()
    sink = copying.HostSink()
    vol.write_bytes("f", b"x")
    source = copying.VolumeSource(vol)
    for fresh in (True, False):
        entry = source.look("f")
        sink.write_file(
            str(tmp_path / "out/f"), entry, source.open(entry), copying.Move(0, None), fresh
        )
    with pytest.raises(FileExistsError, match="Two names"):
        sink.write_file(
            str(tmp_path / "out/f"), entry, source.open(entry), copying.Move(0, None), True
        )


@given(
    st.dictionaries(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join),
        st.binary(max_size=5000),
        max_size=12,
    )
)
def test_any_tree_comes_back(files: dict[str, bytes]) -> None:
    with make_volume("4 MiB") as one, make_volume("4 MiB", cluster_size=512) as two:
        kept: dict[str, bytes] = {}
        for path, data in files.items():
            try:
                one.makedirs(path.rpartition("/")[0] or "/", exist_ok=True)
                one.write_bytes(path, data)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # one path is a directory for another
            kept[path] = data
        two.copy_in(one / "/", "/")
        got = {p: d for p, d in inside(two, "/").items() if d is not None}
        assert got == kept
        assert inside(two, "/") == inside(one, "/")


def test_vendor_entries_go_with_a_copy(vol: px.Volume, tmp_path: Path) -> None:
    # Vendor extension (section 7.8) and vendor allocation (7.9), with some GUID each.
    extension = b"\xe0\x00" + b"G" * 16 + b"fourteen bytes"
    allocation = b"\xe1\x01" + b"A" * 16 + bytes(14)
    extras = [(extension, None), (allocation, pattern(40_000))]
    vol.mkdir("d")
    for path in ("d", "f"):
        if path == "f":
            vol.write_bytes("f", b"content")
        vol.set_vendor_entries(path, extras)
    vol.copy("f", "g")
    vol.rename("f", "a name that takes more entries than the old one")
    vol.copy("d", "e")
    image = tmp_path / "a.img"
    with px.format(image, size="8 MiB", cluster_size="64K") as other:
        before = other.usage()
        other.copy_in(vol / "g", "g")
        other.copy_in(vol / "e", "e")
        # A cluster for the content or the entries of each, and one for its vendor allocation.
        assert before.free_clusters - other.usage().free_clusters == 4
    assert image.read_bytes().count(pattern(40_000)) == 2
    with px.open(image) as other:
        kept = other.get_vendor_entries("g"), other.get_vendor_entries("e")
    kept += tuple(map(vol.get_vendor_entries, vol.listdir()))
    assert len(kept) == 6
    for entries in kept:
        assert entries[0] == (extension, None)
        assert entries[1][0][:1] == b"\xe1"
        assert entries[1][0][2:18] == b"A" * 16
        assert entries[1][1] == pattern(40_000)
    free = vol.usage().free
    vol.unlink("g")
    cluster = vol.cluster_size
    assert vol.usage().free - free == cluster + -(-40_000 // cluster) * cluster
    vol.set_vendor_entries("e", [])
    assert vol.get_vendor_entries("e") == []


@pytest.mark.parametrize(
    "entries",
    [
        [(bytes(32), None)],
        [(b"short", None)],
        [(b"\xe0" + bytes(31),)],
        [(b"\xc1" + bytes(31), None)],
        [(b"\xe0" + bytes(31), None)] * 254,
    ],
)
def test_bad_vendor_entries_change_nothing(vol: px.Volume, entries: Any) -> None:
    vol.touch("f")
    before = vol.stat("f")
    with pytest.raises(ValueError, match="entries"):
        vol.set_vendor_entries("f", entries)
    assert vol.stat("f") == before
    assert vol.get_vendor_entries("f") == []
