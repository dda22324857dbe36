"""Paths that touch the volume, as pathlib.Path does on the host."""

from __future__ import annotations

import io
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pathlib_abc
import pytest
from api_support import CLOCK, make_volume

import pyexfat as px


@pytest.fixture
def vol() -> Iterator[px.Volume]:
    with make_volume() as volume:
        yield volume


@pytest.fixture(params=["volume", "host"])
def root(request: pytest.FixtureRequest, vol: px.Volume, tmp_path: pathlib.Path) -> Any:
    """A directory of the volume, and one of the host, for which pathlib says what is right."""
    if request.param == "host":
        return tmp_path
    vol.mkdir("root")
    return vol / "root"


def test_files(root: Any) -> None:
    f = root / "f.txt"
    assert not f.exists()
    assert f.write_text("äöü\n", encoding="utf-8") == 4
    assert f.read_text(encoding="utf-8") == "äöü\n"
    assert f.read_bytes() == "äöü\n".encode()
    assert f.write_bytes(b"12345") == 5
    assert f.stat().st_size == f.lstat().st_size == 5
    with f.open("ab") as file:
        file.write(b"6")
    with f.open() as text:
        assert text.read() == "123456"
    assert (f.exists(), f.is_file(), f.is_dir(), f.is_symlink()) == (True, True, False, False)
    others = (f.is_fifo, f.is_socket, f.is_block_device, f.is_char_device)
    assert not any(other() for other in others)
    assert not f.is_mount()
    with pytest.raises(TypeError):
        f.write_text(b"bytes")
    f.unlink()
    with pytest.raises(FileNotFoundError):
        f.unlink()
    f.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        f.read_bytes()
    assert f.write_text("a\nb", newline="\r\n") == 3
    assert f.read_bytes() == b"a\r\nb"


def test_directories(root: Any) -> None:
    d = root / "a" / "b"
    with pytest.raises(FileNotFoundError):
        d.mkdir()
    with pytest.raises(FileNotFoundError):
        d.mkdir(exist_ok=True)
    d.mkdir(parents=True)
    with pytest.raises(FileExistsError):
        d.mkdir()
    with pytest.raises(FileExistsError):
        d.mkdir(parents=True)
    d.mkdir(exist_ok=True)
    d.mkdir(parents=True, exist_ok=True)
    (d / "f").touch()
    with pytest.raises(FileExistsError):
        (d / "f").mkdir(exist_ok=True)
    assert d.is_dir()
    assert sorted(p.name for p in (root / "a").iterdir()) == ["b"]
    assert [p for p in d.iterdir()] == [d / "f"]  # noqa: C416
    with pytest.raises(OSError, match="not empty"):
        d.rmdir()
    (d / "f").unlink()
    d.rmdir()
    with pytest.raises(FileNotFoundError):
        list(d.iterdir())
    with pytest.raises(NotADirectoryError):
        (root / "g").touch()
        list((root / "g").iterdir())


def test_touch(root: Any) -> None:
    f = root / "f"
    f.touch()
    f.touch(0o600)
    with pytest.raises(FileExistsError):
        f.touch(exist_ok=False)
    assert f.read_bytes() == b""


def test_renames(root: Any) -> None:
    f = root / "f"
    f.write_bytes(b"1")
    g = f.rename(root / "g")
    assert g == root / "g"
    assert not f.exists()
    f.write_bytes(b"2")
    assert f.replace(g) == g
    assert g.read_bytes() == b"2"
    with pytest.raises(FileNotFoundError):
        f.rename(g)


def test_chmod(root: Any) -> None:
    f = root / "f"
    f.touch()
    f.chmod(0o444)
    assert not f.stat().st_mode & 0o200
    f.chmod(0o644)
    assert f.stat().st_mode & 0o200


def test_samefile(root: Any) -> None:
    f = root / "f"
    f.touch()
    (root / "g").touch()
    assert f.samefile(root / ".." / root.name / "f")
    assert not f.samefile(root / "g")
    with pytest.raises(FileNotFoundError):
        f.samefile(root / "none")


def test_walk(root: Any) -> None:
    if not hasattr(root, "walk"):
        pytest.skip("pathlib has had walk() since 3.12")
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "f").touch()
    assert list(root.walk()) == [
        (root, ["a"], []),
        (root / "a", ["b"], ["f"]),
        (root / "a" / "b", [], []),
    ]
    assert [top for top, _, _ in root.walk(top_down=False)][-1] == root
    errors: list[OSError] = []
    assert list((root / "none").walk(on_error=errors.append)) == []
    assert len(errors) == 1


def test_glob(root: Any) -> None:
    for name in ("one.txt", "two.txt", "three.bin"):
        (root / name).touch()
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "deep" / "four.txt").touch()

    def relative(paths: Any) -> list[str]:
        return sorted(str(path)[len(str(root)) :] for path in paths)

    assert relative(root.glob("*.txt")) == ["/one.txt", "/two.txt"]
    assert relative(root.rglob("*.txt")) == ["/one.txt", "/sub/deep/four.txt", "/two.txt"]
    assert relative(root.glob("sub/*")) == ["/sub/deep"]
    assert relative(root.glob("**/deep")) == ["/sub/deep"]
    assert relative(root.glob("t*.[bt]*")) == ["/three.bin", "/two.txt"]
    for bad, error in (("", ValueError), ("/x", NotImplementedError)):
        with pytest.raises(error):
            list(root.glob(bad))


def test_links(vol: px.Volume) -> None:
    path = vol / "f"
    path.touch()
    for call in (lambda: path.symlink_to("x"), lambda: path.hardlink_to(vol / "x")):
        with pytest.raises(PermissionError):
            call()
    with pytest.raises(OSError, match="Invalid"):
        path.readlink()
    assert not path.is_junction()


def test_nobody_owns_anything(vol: px.Volume) -> None:
    path = vol / "f"
    for call in (path.owner, path.group):
        with pytest.raises(NotImplementedError, match="unsupported"):
            call()
    assert path.expanduser() is path


def test_the_root(vol: px.Volume) -> None:
    root = vol.path("/")
    assert root.is_mount()
    assert root.is_dir()
    assert root.name == ""
    assert root.parent == root
    (root / "a").touch()
    assert [str(path) for path in root.iterdir()] == ["/a"]


# ---- info ----


def test_info_is_known_from_the_directory(vol: px.Volume) -> None:
    vol.mkdir("d")
    vol.create_many("d", [f"{i}" for i in range(50)])
    vol.mkdir("d/sub")
    before = vol.counters
    kinds = [(path.info.is_dir(), path.info.is_file()) for path in (vol / "d").iterdir()]
    assert kinds == [(False, True)] * 50 + [(True, False)]
    assert (vol.counters - before).operations <= 2


def test_info_is_looked_up_once(vol: px.Volume) -> None:
    path = vol / "f"
    assert not path.info.exists()
    path.touch()
    assert not path.info.exists()
    again = vol / "f"
    assert again.info.exists()
    assert again.info.is_file()
    assert not again.info.is_dir()
    assert not again.info.is_symlink()
    path.unlink()
    assert again.info.exists()
    assert not again.exists()
    assert not (vol / "f" / "below").info.exists()


# ---- copies ----


@pytest.fixture
def tree(vol: px.Volume) -> px.Path:
    (vol / "t" / "sub").mkdir(parents=True)
    (vol / "t" / "f").write_bytes(b"f")
    (vol / "t" / "sub" / "g").write_bytes(b"g")
    vol.utime("t/f", (1_600_000_000, 1_600_000_000))
    return vol / "t"


def test_copy_on_one_volume(vol: px.Volume, tree: px.Path) -> None:
    assert tree.copy("/u") == vol / "u"
    assert (vol / "u" / "sub" / "g").read_bytes() == b"g"
    assert (vol / "u" / "f").stat().st_mtime_ns == CLOCK
    (tree / "f").copy(vol / "v", preserve_metadata=True)
    assert (vol / "v").stat().st_mtime == 1_600_000_000
    with pytest.raises(FileExistsError):
        tree.copy("/u")
    with pytest.raises(IsADirectoryError):
        (tree / "f").copy("/u")
    assert (tree / "f").copy_into(vol / "u" / "sub") == vol / "u" / "sub" / "f"
    with pytest.raises(OSError, match="itself"):
        tree.copy("/t/sub/x")
    with pytest.raises(FileNotFoundError):
        (tree / "none").copy("/x")


def test_copy_between_volumes_and_to_the_host(
    vol: px.Volume, tree: px.Path, tmp_path: pathlib.Path
) -> None:
    with make_volume() as other:
        assert tree.copy(other / "u") == other / "u"
        assert (other / "u" / "sub" / "g").read_bytes() == b"g"
    assert tree.copy(tmp_path / "u", preserve_metadata=True) == tmp_path / "u"
    assert (tmp_path / "u" / "sub" / "g").read_bytes() == b"g"
    assert (tmp_path / "u" / "f").stat().st_mtime == 1_600_000_000
    assert (tree / "f").copy_into(tmp_path) == tmp_path / "f"
    with pytest.raises(FileExistsError):
        tree.copy(tmp_path / "u")


def test_the_other_end_of_a_copy(vol: px.Volume, tmp_path: pathlib.Path) -> None:
    """What pathlib's copy() calls on its target, and we on one that is no path of the system."""
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "f").write_bytes(b"f")
    (tmp_path / "h" / "link").symlink_to("f")
    (vol / "a")._copy_from(tmp_path / "h")
    assert sorted(p.name for p in (vol / "a").iterdir()) == ["f", "link"]
    (vol / "b")._copy_from(tmp_path / "h", follow_symlinks=False)
    assert sorted(p.name for p in (vol / "b").iterdir()) == ["f"]
    with pytest.raises(PermissionError):
        (vol / "c")._copy_from(tmp_path / "h" / "link", follow_symlinks=False)

    class Target:
        copied: Any = None

        def _copy_from(self, source: Any, **how: Any) -> None:
            self.copied = source, how

    target = Target()
    assert (vol / "a").copy(target, preserve_metadata=True) is target
    assert target.copied == (vol / "a", {"follow_symlinks": True, "preserve_metadata": True})


@pytest.mark.skipif(sys.version_info < (3, 14), reason="pathlib has had copy() since 3.14")
def test_pathlib_copies_both_ways(vol: px.Volume, tree: px.Path, tmp_path: pathlib.Path) -> None:
    host: Any = tmp_path / "h"
    host._copy_from(tree)
    assert (host / "sub" / "g").read_bytes() == b"g"
    host.copy(vol / "back", preserve_metadata=True)
    assert (vol / "back" / "sub" / "g").read_bytes() == b"g"


def test_move(vol: px.Volume, tree: px.Path, tmp_path: pathlib.Path) -> None:
    inode = (tree / "f").stat().st_ino
    assert (tree / "f").move("/t/f2") == vol / "t" / "f2"
    assert (vol / "t" / "f2").stat().st_size == 1
    assert inode
    (vol / "d").mkdir()
    assert tree.move_into(vol / "d") == vol / "d" / "t"
    with make_volume() as other:
        (vol / "d" / "t").move(other / "t")
        assert (other / "t" / "sub" / "g").read_bytes() == b"g"
        assert (other / "t" / "f2").stat().st_mtime == 1_600_000_000
        assert not (vol / "d" / "t").exists()
        (other / "t" / "f2").move(tmp_path / "f2")
        assert (tmp_path / "f2").read_bytes() == b"f"
        assert not (other / "t" / "f2").exists()
        (other / "t").move(tmp_path / "t")
        assert (tmp_path / "t" / "sub" / "g").read_bytes() == b"g"
        assert other.listdir() == []
    for bad in (vol.path("/"), vol / "d" / ".."):
        with pytest.raises(ValueError, match="name"):
            bad.copy_into(tmp_path)


# ---- protocols of others ----


def test_protocols(vol: px.Volume) -> None:
    path = vol / "f"
    with path.__open_writer__("w") as f:
        f.write(b"1")
    with path.__open_writer__("a") as f:
        f.write(b"2")
    with pytest.raises(FileExistsError):
        path.__open_writer__("x")
    with pytest.raises(ValueError, match="mode"):
        path.__open_writer__("r")
    with path.__open_reader__() as f:
        assert isinstance(f, io.BufferedReader)
        assert f.read() == b"12"
    with path.__open_wb__() as f:
        f.write(b"3")
    with path.__open_rb__() as f:
        assert f.read() == b"3"
    assert path.parser.join("a", "b") == "a/b"
    assert path.with_segments("x", "y") == vol / "x" / "y"


def test_pathlib_abc(vol: px.Volume, tmp_path: pathlib.Path) -> None:
    path = vol / "f"
    path.write_bytes(b"x")
    for protocol in ("JoinablePath", "ReadablePath", "WritablePath"):
        needed = getattr(pathlib_abc, protocol).__abstractmethods__
        assert all(hasattr(path, name) for name in needed), protocol
    for protocol in ("PathInfo",):
        assert isinstance(path.info, getattr(pathlib_abc, protocol))


def test_os_functions_refuse_it(vol: px.Volume) -> None:
    (vol / "f").touch()
    with pytest.raises(TypeError):
        os.stat(vol / "f")  # type: ignore[arg-type]
