"""How paths are written, beside pathlib.PurePosixPath with a "/" in front."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
from api_support import make_volume
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyexfat as px

PARTS = st.lists(
    st.sampled_from(["a", "B", "c.txt", ".hidden", "x.tar.gz", "..", "ü", "name.", "a b"]),
    max_size=5,
)


@pytest.fixture(scope="module")
def vol() -> Iterator[px.Volume]:
    with make_volume("4 MiB") as volume:
        yield volume


@given(PARTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parts_and_names_as_pathlib(vol: px.Volume, parts: list[str]) -> None:
    ours, theirs = vol.path(*parts), PurePosixPath("/", *parts)
    assert str(ours) == ours.as_posix() == ours.__vfspath__() == str(theirs)
    for name in ("parts", "name", "suffix", "suffixes", "stem", "root", "anchor", "drive"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert str(ours.parent) == str(theirs.parent)
    assert list(map(str, ours.parents)) == list(map(str, theirs.parents))
    assert ours.is_absolute()
    assert hash(ours) == hash(vol.path(str(theirs)))
    assert ours == vol.path(str(theirs))


@given(PARTS, PARTS)
def test_joining_and_order_as_pathlib(one: list[str], two: list[str]) -> None:
    with make_volume("4 MiB") as vol:
        ours, theirs = vol.path(*one), PurePosixPath("/", *one)
        assert str(ours.joinpath(*two)) == str(theirs.joinpath(*two))
        assert str(ours / "/".join(two)) == str(theirs / "/".join(two))
        other, their_other = vol.path(*two), PurePosixPath("/", *two)
        assert (ours < other) == (theirs < their_other)
        assert (ours <= other) == (theirs <= their_other)
        assert (ours > other) == (theirs > their_other)
        assert (ours >= other) == (theirs >= their_other)
        assert (ours == other) == (theirs == their_other)
        assert ours.is_relative_to(other) == theirs.is_relative_to(their_other)
        if theirs.is_relative_to(their_other):
            assert ours.relative_to(other) == theirs.relative_to(their_other)
        else:
            with pytest.raises(ValueError, match="not below"):
                ours.relative_to(other)


@pytest.mark.parametrize("text", ["/a/b", "a//b", "./a/b/", "//a/./b", "///a/b"])
def test_ways_to_write_one_path(vol: px.Volume, text: str) -> None:
    assert str(vol.path(text)) == "/a/b"
    assert vol / text == vol.path("a") / "b"


def test_joins(vol: px.Volume) -> None:
    path = vol / "a"
    assert str(path / "b" / "c") == "/a/b/c"
    assert str(path / "/b") == "/b"
    assert str(path / PurePosixPath("b/c")) == "/a/b/c"
    assert str(path / vol.path("b")) == "/b"
    assert str("x" / path) == "/a"
    assert str(vol.path()) == str(vol / "") == "/"
    assert vol.path("a", "b") == path.joinpath("b")
    for bad in (3, b"b", None):
        with pytest.raises(TypeError):
            path / bad  # type: ignore[operator]
        with pytest.raises(TypeError):
            vol / bad  # type: ignore[operator]


def test_changed_names(vol: px.Volume) -> None:
    path = vol / "d" / "photo.tar.gz"
    assert str(path.with_name("x")) == "/d/x"
    assert str(path.with_stem("y")) == "/d/y.gz"
    assert str(path.with_suffix(".txt")) == "/d/photo.tar.txt"
    assert str(path.with_suffix("")) == "/d/photo.tar"
    for call in (
        lambda: vol.path().with_name("x"),
        lambda: path.with_name("a/b"),
        lambda: path.with_name(""),
        lambda: path.with_suffix("txt"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - pathlib's words
            call()


def test_relative_to_with_walk_up(vol: px.Volume) -> None:
    path = vol / "a" / "b"
    assert path.relative_to("/a/c/d", walk_up=True) == PurePosixPath("../../b")
    assert path.relative_to("/") == PurePosixPath("a/b")
    assert path.relative_to(path) == PurePosixPath(".")
    with pytest.raises(ValueError, match="not below"):
        path.relative_to("/a/../x", walk_up=True)
    # Several parts, as Python 3.11 has them.
    assert (path / "c").relative_to("a", "b") == PurePosixPath("c")
    assert path.is_relative_to("/", "a")
    assert not path.is_relative_to("a", "c")


def test_resolve(vol: px.Volume) -> None:
    assert str((vol / "a" / ".." / ".." / "b").resolve()) == "/b"
    assert (vol / "a").absolute() == vol / "a"
    with pytest.raises(FileNotFoundError):
        (vol / "none").resolve(strict=True)


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("/a/b.py", "*.py", True),
        ("/a/b.py", "*.PY", True),
        ("/a/b.py", "b.*", True),
        ("/a/b.py", "a/*.py", True),
        ("/a/b.py", "/a/*.py", True),
        ("/a/b.py", "/*.py", False),
        ("/a/b.py", "x/*.py", False),
        ("/a/b.py", "**/*.py", True),
        ("/b.py", "**/*.py", False),
        ("/a/b.py", "/a/b.py/c", False),
        ("/a/b.py", "[!a].py", True),
    ],
)
def test_match(vol: px.Volume, path: str, pattern: str, matches: bool) -> None:
    assert vol.path(path).match(pattern) is matches


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("/a/b/c.py", "a/*/c.py", True),
        ("/a/b/c.py", "**/c.py", True),
        ("/a/b/c.py", "/**", True),
        ("/a/b/c.py", "a/**", True),
        ("/a", "a/**", True),
        ("/a/b/c.py", "**/b/**/c.py", True),
        ("/a/b/c.py", "*.py", False),
        ("/a/b/c.py", "A/B/C.PY", True),
        ("/a/b/c.py", "a/**/x", False),
        ("/a/b/c.py", "a/c.py", False),
    ],
)
def test_full_match(vol: px.Volume, path: str, pattern: str, matches: bool) -> None:
    assert vol.path(path).full_match(pattern) is matches


def test_matches_with_case(vol: px.Volume) -> None:
    path = vol / "A.PY"
    assert not path.match("*.py", case_sensitive=True)
    assert path.match("*.PY", case_sensitive=True)
    assert not path.full_match("a.py", case_sensitive=True)
    for pattern in ("", "."):
        with pytest.raises(ValueError, match="pattern"):
            path.match(pattern)


def test_a_path_belongs_to_its_volume(vol: px.Volume) -> None:
    with make_volume("4 MiB") as other:
        ours, theirs = vol / "a", other / "a"
        assert ours != theirs
        assert ours.volume is vol
        assert len({ours, theirs, vol / "a"}) == 2
        with pytest.raises(TypeError):
            ours < theirs  # noqa: B015
        with pytest.raises(ValueError, match="another volume"):
            ours / theirs
        assert not ours.is_relative_to(theirs)
        assert not (vol / "").samefile(other / "")
    assert (vol / "a") != "/a"
    assert (vol / "a") != PurePosixPath("/a")


def test_a_path_is_no_path_of_the_system(vol: px.Volume) -> None:
    path = vol / "a"
    assert not hasattr(path, "__fspath__")
    assert not isinstance(path, os.PathLike)
    with pytest.raises(TypeError):
        open(path)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(path)
    assert copy.copy(path) is copy.deepcopy(path) is path
    assert repr(path).startswith("<Path '/a' on <Volume exfat ")
