"""cp and cat: in, out, within and between volumes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_tools import MIB, Cli, run
from conftest import require_tool

import pyexfat as px

NOON = 1_777_636_800 * 10**9


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(capsysbinary)


@pytest.fixture(autouse=True)
def _sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    px.format("card.img", size="16 MiB", cluster_size="4K").close()
    px.format("other.img", size="4 MiB", cluster_size="8K").close()
    Path("tree/sub/empty").mkdir(parents=True)
    Path("tree/a.txt").write_text("hello")
    Path("tree/sub/b.bin").write_bytes(os.urandom(100_000))
    for path in ("tree/a.txt", "tree/sub/b.bin", "tree/sub/empty", "tree/sub", "tree"):
        os.utime(path, ns=(NOON, NOON))
    yield
    for image in ("card.img", "other.img"):
        done = subprocess.run(
            [require_tool("fsck.exfat"), "-n", image], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def read(place: str) -> bytes:
    image, _, path = place.partition(":")
    with px.open(image) as volume:
        return volume.read_bytes(path)


def listing(place: str) -> list[str]:
    image, _, path = place.partition(":")
    with px.open(image) as volume:
        return sorted(volume.listdir(path))


def same(left: Path, right: Path) -> None:
    done = subprocess.run(["diff", "-r", left, right], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def test_into_a_directory_and_to_a_name(cli: Cli) -> None:
    cli("mkdir", "card.img:/d")
    cli("cp", "tree/a.txt", "tree/sub/b.bin", "card.img:/d")
    assert listing("card.img:/d") == ["a.txt", "b.bin"]
    cli("cp", "tree/a.txt", "card.img:/d/new.txt")
    cli("cp", "tree/a.txt", "card.img:")
    assert read("card.img:/d/new.txt") == read("card.img:/a.txt") == b"hello"
    assert read("card.img:/d/b.bin") == Path("tree/sub/b.bin").read_bytes()
    with px.open("card.img") as volume:
        assert volume.stat("/a.txt").st_mtime_ns == NOON


def test_out_to_a_name_and_into_a_directory(cli: Cli) -> None:
    cli("cp", "-r", "tree", "card.img:/")
    cli("cp", "card.img:/tree/a.txt", "copy.txt")
    assert Path("copy.txt").read_text() == "hello"
    assert os.stat("copy.txt").st_mtime_ns == NOON
    os.mkdir("into")
    cli("cp", "card.img:/tree/a.txt", "card.img:/tree/sub/b.bin", "into")
    assert sorted(os.listdir("into")) == ["a.txt", "b.bin"]


def test_a_tree_there_and_back(cli: Cli) -> None:
    cli("cp", "-r", "tree", "card.img:/")
    cli("cp", "-r", "tree", "card.img:/renamed")
    cli("cp", "-r", "tree/.", "card.img:/")
    assert listing("card.img:/") == ["a.txt", "renamed", "sub", "tree"]
    cli("cp", "-r", "card.img:/tree", "back")
    same(Path("tree"), Path("back"))
    assert os.stat("back/sub/empty").st_mtime_ns == os.stat("back/sub").st_mtime_ns == NOON
    os.mkdir("into")
    cli("cp", "-r", "card.img:/renamed", "into")
    same(Path("tree"), Path("into/renamed"))
    cli("cp", "-r", "card.img:/tree/.", "into/flat")
    same(Path("tree"), Path("into/flat"))
    cli("cp", "-r", "card.img:/", "whole")
    assert sorted(os.listdir("whole")) == ["a.txt", "renamed", "sub", "tree"]


def test_between_volumes_and_within_one(cli: Cli) -> None:
    cli("cp", "-r", "tree", "card.img:/")
    cli("cp", "-r", "card.img:/", "other.img:/")
    cli("cp", "-r", "card.img:/tree/sub", "other.img:/again")
    cli("cp", "other.img:/tree/a.txt", "other.img:/b.txt")
    cli("cp", "-r", "other.img:/tree", "other.img:/again/")
    assert listing("other.img:/again") == ["b.bin", "empty", "tree"]
    cli("cp", "-r", "other.img:/again/tree", "back")
    same(Path("tree"), Path("back"))
    with px.open("other.img", "r+") as volume:
        assert volume.stat("/b.txt").st_mtime_ns == NOON
        volume.set_attributes("/b.txt", hidden=True, system=True)
    cli("cp", "other.img:/b.txt", "card.img:/hidden")
    with px.open("card.img") as volume:
        stat = volume.stat("/hidden")
        assert (stat.hidden, stat.system, stat.read_only) == (True, True, False)


def test_directories_only_with_r(cli: Cli) -> None:
    error = cli.fails("cp", "tree", "card.img:/")
    assert error == "tree: is a directory (-r copies directories)"
    cli("mkdir", "card.img:/d")
    error = cli.fails("cp", "card.img:/d", "out")
    assert error == "card.img:/d: is a directory (-r copies directories)"
    assert not Path("out").exists()


def test_what_fails_does_not_stop_the_rest(cli: Cli) -> None:
    result = cli("cp", "nothing", "tree/a.txt", "card.img:/absent", "card.img:/", code=1)
    assert result.err.splitlines() == [
        "pyexfat: nothing: No such file or directory",
        "pyexfat: card.img:/absent: No such file or directory",
    ]
    assert listing("card.img:/") == ["a.txt"]


def test_special_files_and_links(cli: Cli) -> None:
    os.mkfifo("tree/pipe")
    Path("tree/link").symlink_to("a.txt")
    Path("tree/dangling").symlink_to("nowhere")
    result = cli("cp", "-r", "tree", "card.img:/", code=1)
    assert result.err.splitlines() == [
        "pyexfat: tree/dangling: No such file or directory",
        "pyexfat: tree/pipe: Neither a file nor a directory but a named pipe",
    ]
    assert listing("card.img:/tree") == ["a.txt", "link", "sub"]
    assert read("card.img:/tree/link") == b"hello"
    os.unlink("tree/pipe")
    cli("cp", "-rP", "tree", "card.img:/without")
    assert listing("card.img:/without") == ["a.txt", "sub"]


def test_a_loop_of_links_ends(cli: Cli) -> None:
    Path("tree/sub/up").symlink_to("..")
    Path("tree/twice").symlink_to("sub/empty")
    result = cli("cp", "-r", "tree", "card.img:/", code=1)
    assert result.err.count("\n") == 1
    assert "tree/sub/up" in result.err
    assert listing("card.img:/tree") == ["a.txt", "sub", "twice"]


def test_no_clobber(cli: Cli) -> None:
    cli("cp", "tree/a.txt", "card.img:/")
    Path("tree/a.txt").write_text("changed")
    cli("cp", "-n", "tree/a.txt", "card.img:/")
    cli("cp", "-rn", "tree/.", "card.img:/")
    assert read("card.img:/a.txt") == b"hello"
    assert listing("card.img:/") == ["a.txt", "sub"]
    cli("cp", "tree/a.txt", "card.img:/A.TXT")
    assert read("card.img:/a.txt") == b"changed"
    Path("out").write_text("kept")
    cli("cp", "-n", "card.img:/a.txt", "out")
    assert Path("out").read_text() == "kept"


def test_into_itself(cli: Cli) -> None:
    cli("cp", "-r", "tree", "card.img:/")
    for source, target in (
        ("card.img:/tree", "card.img:/tree/sub"),
        ("card.img:/tree", "card.img:/TREE/sub/deep/new"),
        ("card.img:/", "card.img:/tree"),
        ("card.img:/tree", "card.img:/tree/../tree/x"),
    ):
        assert "copied into itself" in cli.fails("cp", "-r", source, target), target
    error = cli.fails("cp", "card.img:/tree/a.txt", "card.img:/tree/A.TXT")
    assert error == "card.img:/tree/a.txt: is the same file as the destination"
    error = cli.fails("cp", "card.img:/tree/a.txt", "card.img:/tree")
    assert "is the same file" in error
    assert read("card.img:/tree/a.txt") == b"hello"
    cli("cp", "-r", "card.img:/tree", "card.img:/tree2")
    assert listing("card.img:/tree2") == ["a.txt", "sub"]


def test_the_image_itself(cli: Cli) -> None:
    before = Path("card.img").read_bytes()
    for args in (
        ["card.img", "card.img:/"],
        ["-r", ".", "card.img:/all"],
    ):
        result = cli("cp", *args, code=1)
        assert result.err.startswith("pyexfat: ")
        assert "card.img: is an image that this copy has open" in result.err
    assert listing("card.img:/all") == ["other.img", "tree"]
    cli("rm", "-r", "card.img:/all")
    cli("cp", "tree/a.txt", "card.img:/")
    assert "open" in cli.fails("cp", "card.img:/a.txt", "card.img")
    assert Path("card.img").stat().st_size == len(before)
    assert read("card.img:/a.txt") == b"hello"


def test_two_names_that_the_volume_takes_for_one(cli: Cli) -> None:
    Path("case").mkdir()
    Path("case/A").write_text("upper")
    Path("case/a").write_text("lower")
    error = cli.fails("cp", "-r", "case", "card.img:/")
    assert "differ only in case" in error
    assert read("card.img:/case/a") == b"upper"
    error = cli.fails("cp", "case/A", "case/a", "card.img:/")
    assert error == "card.img:/a: was made by an argument before this one"
    assert read("card.img:/a") == b"upper"


def test_where_a_directory_is_needed_or_in_the_way(cli: Cli) -> None:
    cli("cp", "tree/a.txt", "card.img:/file")
    cli("mkdir", "-p", "card.img:/d/a.txt")
    error = cli.fails("cp", "tree/a.txt", "tree/sub/b.bin", "card.img:/file")
    assert error == "card.img:/file: is not a directory"
    assert "is not a directory" in cli.fails("cp", "tree/a.txt", "card.img:/absent/")
    assert cli.fails("cp", "tree/a.txt", "card.img:/d") == "card.img:/d/a.txt: Is a directory"
    assert "card.img:/no/x" in cli.fails("cp", "tree/a.txt", "card.img:/no/x")
    result = cli("cp", "-r", "tree", "card.img:/file", code=1)
    assert result.err.startswith("pyexfat: card.img:/file: ")
    assert read("card.img:/file") == b"hello"


def test_no_preserve(cli: Cli) -> None:
    cli("cp", "--no-preserve", "-r", "tree", "card.img:/")
    with px.open("card.img") as volume:
        assert volume.stat("/tree/a.txt").st_mtime_ns != NOON
        assert volume.stat("/tree").st_mtime_ns != NOON


def test_verbose_and_json(cli: Cli) -> None:
    assert cli("cp", "-v", "tree/a.txt", "card.img:/").lines == ["tree/a.txt -> card.img:/a.txt"]
    assert cli("cp", "-rv", "tree", "other.img:/t").lines == [
        "tree -> other.img:/t",
        "tree/a.txt -> other.img:/t/a.txt",
        "tree/sub -> other.img:/t/sub",
        "tree/sub/b.bin -> other.img:/t/sub/b.bin",
        "tree/sub/empty -> other.img:/t/sub/empty",
    ]
    assert cli("cp", "--json", "card.img:/a.txt", "out").json == [
        {"source": "card.img:/a.txt", "destination": "out", "type": "file", "size": 5}
    ]


def test_from_standard_input_and_to_standard_output(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 * MIB + 7)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    cli("cp", "-", "card.img:/from stdin")
    assert read("card.img:/from stdin") == data
    assert cli("cp", "card.img:/from stdin", "-").raw == data
    assert cli("cat", "card.img:/from stdin", "card.img:/FROM STDIN").raw == data + data
    assert "has no name" in cli.fails("cp", "-", "card.img:/")
    assert "no such" in cli.fails("cat", "card.img:/none").lower()


def test_a_pipe_both_ways() -> None:
    data = os.urandom(2 * MIB)
    done = run("cp", "-", "card.img:/x", input=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert run("cat", "card.img:/x").stdout == data


def test_a_reader_that_goes_away() -> None:
    assert run("cp", "-", "card.img:/x", input=bytes(4 * MIB)).returncode == 0
    command = (
        f"{sys.executable} -m pyexfat cat card.img:/x | head -c 10 | wc -c; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.stdout.split() == [b"10", b"141"]
    assert done.stderr == b""


def test_neither_side_is_in_an_image(cli: Cli) -> None:
    assert "neither" in cli.fails("cp", "tree/a.txt", "elsewhere", code=2)
    assert "neither" in cli.fails("cp", "-", "elsewhere", code=2)
    assert "neither" in cli.fails("cp", "-", "-", code=2)
    assert "source and a destination" in cli.fails("cp", "card.img:/", code=2)


def test_the_volume_is_full(cli: Cli) -> None:
    Path("big").write_bytes(bytes(20 * MIB))
    Path("small").write_bytes(b"fits")
    result = cli("cp", "big", "small", "card.img:/", code=1)
    assert result.err == "pyexfat: card.img:/big: No space left on device\n"
    assert listing("card.img:/") == ["small"]


def test_nothing_is_written_outside_the_destination(cli: Cli) -> None:
    cli("mkdir", "card.img:/d")
    cli("cp", "tree/a.txt", "card.img:/d/..._x")
    # The name becomes "../../x" on the disk: units in the name entry, checksum, hash.
    with px.open("card.img") as volume:
        stat = volume.stat("/d/..._x")
    with open("card.img", "r+b") as f:
        f.seek(stat.entry_offset)
        entries = bytearray(f.read(32 * stat.entry_count))
        name = "../_x".replace("_", "/")
        entries[64 + 2 : 64 + 2 + 10] = name.encode("utf-16-le")
        entries[32 + 4 : 32 + 6] = name_hash(name).to_bytes(2, "little")
        entries[2:4] = set_checksum(entries).to_bytes(2, "little")
        f.seek(stat.entry_offset)
        f.write(entries)
    os.mkdir("out")
    result = cli("cp", "-r", "card.img:/d", "out/", code=1)
    assert result.err.startswith("pyexfat: ")
    assert sorted(os.listdir(".")) == ["card.img", "other.img", "out", "tree"]
    assert os.listdir("out/d") == []
    px.format("card.img", size="16 MiB").close()  # fsck has no liking for that name


def name_hash(name: str) -> int:
    """NameHash of an up-cased name (section 7.6.4)."""
    value = 0
    for byte in name.upper().encode("utf-16-le"):
        value = ((value >> 1) | (value << 15 & 0x8000)) + byte & 0xFFFF
    return value


def set_checksum(entries: bytearray) -> int:
    """SetChecksum (section 6.3.3)."""
    value = 0
    for i, byte in enumerate(entries):
        if i not in (2, 3):
            value = ((value >> 1) | (value << 15 & 0x8000)) + byte & 0xFFFF
    return value


def test_names_that_the_host_can_not_hold(cli: Cli) -> None:
    """One line for each, the rest is copied; --escape writes them otherwise."""
    with px.open("card.img", "r+") as vol:
        for name in ("good", "\ud800", "長" * 100):
            vol.makedirs(f"names/{name}")
            vol.write_bytes(f"names/{name}/f", b"x")
    result = cli("cp", "-r", "card.img:/names", "out", code=1)
    lines = sorted(line.split(": ")[1] for line in result.err.splitlines())
    assert lines == [r"card.img:/names/\ud800", "out/" + "長" * 100]
    assert os.listdir("out") == ["good"]
    cli("cp", "-r", "--escape", "card.img:/names", "escaped")
    assert sorted(os.listdir("escaped"))[:2] == ["%ED%A0%80", "good"]
    assert len(list(Path("escaped").rglob("f"))) == 3


def test_what_is_sound_of_a_damaged_directory(cli: Cli) -> None:
    with px.format("hurt.img", size="4 MiB") as vol:
        vol.mkdir("half")
        for name in ("a", "bad", "c"):
            vol.touch(f"half/{name}")
        at = vol.stat("half/bad").entry_offset
    with open("hurt.img", "r+b") as image:
        image.seek(at + 32 + 4)
        image.write(b"\xff\xff")  # NameHash: the checksum of the set is wrong now
    assert cli.fails("cp", "-r", "hurt.img:/half", "out").startswith("hurt.img:/half: ")
    assert sorted(os.listdir("out")) == ["a", "c"]


def test_by_the_backup_boot_region(cli: Cli) -> None:
    """What is read, that is; what is written must be whole."""
    with px.format("hurt.img", size="4 MiB") as vol:
        vol.write_bytes("f", b"by the backup")
    with open("hurt.img", "r+b") as image:
        image.write(bytes(512))
    assert "no known file system" in cli.fails("cp", "hurt.img:/f", "card.img:/")
    cli("cp", "--backup", "hurt.img:/f", "card.img:/")
    assert read("card.img:/f") == b"by the backup"
    line = cli.fails("cp", "--backup", "tree/a.txt", "hurt.img:/", code=2)
    assert line == "hurt.img: --backup is for reading: it can't be copied to"
    cli.fails("cp", "--backup", "hurt.img:/f", "hurt.img:/g", code=2)
    cli.fails("cp", "--backup", "tree/a.txt", "card.img:/", code=2)
