"""What an argument of the command line points to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyexfat.cli.places import HostPath, Place, Stream, base_name, parse_location, parse_place


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "image", "partition", "path"),
    [
        ("card.img:/DCIM/a.jpg", "card.img", None, "/DCIM/a.jpg"),
        ("card.img:/", "card.img", None, "/"),
        ("card.img:", "card.img", None, "/"),
        ("/tmp/card.img:/a:b", "/tmp/card.img", None, "/a:b"),
        ("card.img:/a:/b", "card.img", None, "/a:/b"),
        ("disk.img@2:/DCIM", "disk.img", 2, "/DCIM"),
        ("disk.img@12:", "disk.img", 12, "/"),
        ("disk@home.img:/x", "disk@home.img", None, "/x"),
        ("disk.img@0:/x", "disk.img@0", None, "/x"),
        ("a@1@2:/x", "a@1", 2, "/x"),
    ],
)
def test_a_place_in_an_image(text: str, image: str, partition: int | None, path: str) -> None:
    assert parse_location(text) == Place(image, partition, path)
    assert parse_place(text) == Place(image, partition, path)


@pytest.mark.parametrize("text", ["a.txt", "./a:b", "a:b", "/tmp/x", "./-", "disk.img@2", "::x"])
def test_a_host_path(text: str) -> None:
    assert parse_location(text) == HostPath(text)


def test_a_dash_is_a_stream() -> None:
    assert parse_location("-") == Stream()


def test_what_exists_on_the_host_is_a_host_path() -> None:
    Path("a:").mkdir()
    assert parse_location("a:/b") == Place("a", None, "/b")
    Path("a:/b").touch()
    assert parse_location("a:/b") == HostPath("a:/b")
    assert parse_location("a:") == HostPath("a:")
    Path("dangling:").symlink_to("nowhere")
    assert parse_location("dangling:") == HostPath("dangling:")


def test_without_a_path_the_root_is_meant() -> None:
    assert parse_place("card.img") == Place("card.img", None, "/")
    assert parse_place("disk.img@3") == Place("disk.img", 3, "/")
    Path("a:").mkdir()
    Path("a:/card.img").touch()
    assert parse_place("a:/card.img") == Place("a:/card.img", None, "/")


def test_a_file_whose_name_looks_like_a_partition() -> None:
    Path("disk.img@2").touch()
    assert parse_place("disk.img@2") == Place("disk.img@2", None, "/")
    assert parse_place("disk.img@2:/x") == Place("disk.img@2", None, "/x")
    assert parse_place("disk.img@2@1:/x") == Place("disk.img@2", 1, "/x")


@pytest.mark.parametrize("text", ["", ":/x", ":"])
def test_no_place_at_all(text: str) -> None:
    with pytest.raises(ValueError, match=r"empty|no image"):
        parse_location(text)
    with pytest.raises(ValueError, match=r"empty|no image"):
        parse_place(text)


def test_a_place_is_written_as_it_was_typed() -> None:
    assert str(parse_place("disk.img@2:/a/b")) == "disk.img@2:/a/b"
    assert parse_place("disk.img@2:/a/b").volume_name == "disk.img@2"
    assert str(parse_place("card.img")) == "card.img:/"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", ""),
        ("/a", "a"),
        ("/a/b/", "b"),
        ("/a/.", "a"),
        ("/a/b/..", "a"),
        ("/..", ""),
        ("", ""),
    ],
)
def test_base_name(path: str, name: str) -> None:
    assert base_name(path) == name
