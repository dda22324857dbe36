"""mkdir, rmdir, touch, rm and mv."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_tools import Cli
from conftest import require_tool

import pyexfat as px


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(capsysbinary)


@pytest.fixture(autouse=True)
def _card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with px.format("card.img", size="8 MiB") as volume:
        volume.makedirs("/d/sub")
        for path in ("/a", "/d/b", "/d/sub/c"):
            volume.write_bytes(path, path.encode())
    yield
    done = subprocess.run(
        [require_tool("fsck.exfat"), "-n", "card.img"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def everything() -> list[str]:
    with px.open("card.img") as volume:
        return sorted(volume.glob("**/*"))


def test_mkdir(cli: Cli) -> None:
    cli("mkdir", "card.img:/new", "card.img:/d/new")
    assert {"new", "d/new"} <= {path.lstrip("/") for path in everything()}
    assert cli.fails("mkdir", "card.img:/new") == "card.img:/new: File exists"
    assert cli.fails("mkdir", "card.img:/x/y") == "card.img:/x/y: No such file or directory"
    cli("mkdir", "-p", "card.img:/x/y/z", "card.img:/new")
    assert cli("ls", "card.img:/x/y").lines == ["z"]
    assert "card.img:/a/b" in cli.fails("mkdir", "-p", "card.img:/a/b")
    assert cli("mkdir", "-v", "card.img:/v").out == "made card.img:/v\n"
    assert cli("mkdir", "--json", "card.img:/j").json == [
        {"image": "card.img", "partition": None, "path": "/j"}
    ]


def test_one_failure_and_the_others_go_on(cli: Cli) -> None:
    result = cli("mkdir", "card.img:/one", "card.img:/a", "card.img:/two", code=1)
    assert result.err == "pyexfat: card.img:/a: File exists\n"
    assert cli("ls", "card.img").lines == ["a", "d", "one", "two"]


def test_names_that_the_format_forbids(cli: Cli) -> None:
    for name in ('a"b', "a*b", "a?b", "a|b", "tab\t", "x" * 256):
        error = cli.fails("mkdir", f"card.img:/{name}")
        assert error.startswith("card.img:/")
        assert "\t" not in error


def test_rmdir(cli: Cli) -> None:
    assert cli.fails("rmdir", "card.img:/d") == "card.img:/d: Directory not empty"
    assert cli.fails("rmdir", "card.img:/a") == "card.img:/a: Not a directory"
    cli("rm", "card.img:/d/sub/c")
    cli("rmdir", "card.img:/d/sub")
    assert cli("ls", "card.img:/d").lines == ["b"]


def test_touch(cli: Cli) -> None:
    cli("touch", "-d", "2026-05-01T12:00:00.25Z", "card.img:/new", "card.img:/a")
    with px.open("card.img") as volume:
        for path in ("/new", "/a"):
            assert volume.stat(path).st_mtime_ns == 1_777_636_800_250_000_000
        assert volume.stat("/new").st_size == 0
        assert volume.read_bytes("/a") == b"/a"
    cli("touch", "card.img:/a")
    with px.open("card.img") as volume:
        assert volume.stat("/a").st_mtime_ns > 1_777_636_800_250_000_000
    assert cli("touch", "-c", "--json", "card.img:/none").json == []
    assert cli("ls", "card.img").lines == ["a", "d", "new"]
    cli("touch", "-d", "@1000000000", "card.img:/d")
    with px.open("card.img") as volume:
        assert volume.stat("/d").st_mtime_ns == 10**18
    cli("touch", "-d", "yesterday", "card.img:/a", code=2)


def test_rm(cli: Cli) -> None:
    cli("rm", "card.img:/a")
    assert cli("ls", "card.img").lines == ["d"]
    assert cli.fails("rm", "card.img:/a") == "card.img:/a: No such file or directory"
    cli("rm", "-f", "card.img:/a")
    assert cli.fails("rm", "card.img:/d") == "card.img:/d: is a directory (-r removes directories)"
    error = cli.fails("rm", "-rf", "card.img:/")
    assert error == "card.img:/: the root directory can't be removed"
    assert "root directory" in cli.fails("rm", "-r", "card.img:/d/..")
    cli("rm", "-rv", "card.img:/d")
    assert everything() == []


def test_rm_of_a_large_tree(cli: Cli) -> None:
    with px.open("card.img", "r+") as volume:
        for directory in ("/d/sub/x", "/d/sub/y"):
            volume.mkdir(directory)
            volume.create_many(directory, [f"file {n}" for n in range(1000)])
        before = volume.usage().free
    cli("rm", "-r", "card.img:/d")
    assert [path.lstrip("/") for path in everything()] == ["a"]
    with px.open("card.img") as volume:
        assert volume.usage().free > before


def test_mv(cli: Cli) -> None:
    cli("mv", "card.img:/a", "card.img:/renamed")
    cli("mv", "card.img:/renamed", "card.img:/d")
    assert cli("ls", "card.img:/d").lines == ["b", "renamed", "sub"]
    cli("mv", "card.img:/d/b", "card.img:/d/renamed", "card.img:/d/sub/")
    assert cli("ls", "card.img:/d/sub").lines == ["b", "c", "renamed"]
    assert cli("cat", "card.img:/d/sub/renamed").raw == b"/a"
    result = cli("mv", "--json", "card.img:/d/sub/c", "card.img:/d/sub/b").json
    assert result == [
        {"image": "card.img", "partition": None, "source": "/d/sub/c", "destination": "/d/sub/b"}
    ]
    assert cli("cat", "card.img:/d/sub/b").raw == b"/d/sub/c"


def test_mv_changes_the_case_of_a_name(cli: Cli) -> None:
    cli("mv", "card.img:/a", "card.img:/A")
    cli("mv", "card.img:/d", "card.img:/D")
    assert cli("ls", "card.img").lines == ["A", "D"]
    assert cli("ls", "card.img:/D").lines == ["b", "sub"]


def test_mv_that_can_not_be(cli: Cli) -> None:
    assert cli.fails("mv", "card.img:/none", "card.img:/x").startswith("card.img:/none: ")
    assert "card.img:/d" in cli.fails("mv", "card.img:/d", "card.img:/d/sub/deeper")
    error = cli.fails("mv", "card.img:/a", "card.img:/d", "card.img:/nothing")
    assert error == "card.img:/nothing: is not a directory"
    error = cli.fails("mv", "card.img:/a", "card.img:/nothing/")
    assert error == "card.img:/nothing/: is not a directory"
    assert "root directory" in cli.fails("mv", "card.img:/", "card.img:/d")
    px.format("other.img", size="8 MiB").close()
    assert "one volume" in cli.fails("mv", "card.img:/a", "other.img:/", code=2)
    assert "source and a destination" in cli.fails("mv", "card.img:/a", code=2)
    assert cli("ls", "card.img").lines == ["a", "d"]


def test_mv_no_clobber(cli: Cli) -> None:
    assert cli("mv", "-n", "--json", "card.img:/a", "card.img:/d/b").json == []
    assert cli("cat", "card.img:/d/b").raw == b"/d/b"
    cli("mv", "-n", "card.img:/a", "card.img:/A")
    assert cli("ls", "card.img").lines == ["A", "d"]


def test_sync_and_policy(cli: Cli) -> None:
    cli("mkdir", "--sync", "dirsync", "--policy", "before", "card.img:/one")
    cli("mkdir", "--policy", "name_filter=off", "--policy", "memory-budget=1M", "card.img:/two")
    cli("mkdir", "--sync", "never", "card.img:/x", code=2)
    assert "name_filter" in cli.fails("mkdir", "--policy", "speed=1", "card.img:/x", code=2)
    assert cli("ls", "card.img").lines == ["a", "d", "one", "two"]


def test_rm_takes_names_only(cli: Cli) -> None:
    """``dir/.`` and ``dir/..`` are most likely mistakes; rm of GNU says so, too."""
    with px.open("card.img", "r+") as volume:
        volume.makedirs("/keep/sub")
    for place in ("card.img:/keep/.", "card.img:/keep/sub/..", "card.img:/keep/./", "card.img:/."):
        assert "can't" in cli.fails("rm", "-r", place) or "own name" in cli.fails("rm", "-r", place)
    with px.open("card.img") as volume:
        assert volume.exists("/keep/sub")
