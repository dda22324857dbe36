"""The command line as a whole: help, examples, exit codes, terminals."""

from __future__ import annotations

import argparse
import gzip
import io
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tools import Cli, run

import pyexfat as px
from pyexfat.cli import listing, main, progress
from pyexfat.cli.parser import build_parser


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(capsysbinary)


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    (action,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return dict(action.choices)


MINE = (
    "format", "info", "detect", "label", "df", "ls", "tree", "stat", "cp", "cat", "mkdir", "rmdir",
    "touch", "rm", "mv", "extents", "map",
)  # fmt: skip


def test_the_commands_are_there() -> None:
    assert set(MINE) <= set(commands())


def examples(name: str) -> list[str]:
    epilog = (commands()[name].epilog or "").replace("%%", "%")
    block = epilog.partition("examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


@pytest.mark.parametrize("name", MINE)
def test_help_teaches_by_example(cli: Cli, name: str) -> None:
    text = cli(name, "--help").out
    lines = examples(name)
    assert 2 <= len(lines) <= 4
    assert all(line in text for line in lines)
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.fixture
def _sandbox() -> None:
    """What the examples speak of."""
    for directory in ("photos", "rootfs/etc", "src"):
        os.makedirs(directory)
    for path in ("a.jpg", "b.jpg", "photos/p.jpg", "rootfs/etc/conf", "src/main.c"):
        Path(path).write_text(path)
    with px.format("card.img", size="64 MiB") as volume:
        volume.makedirs("/DCIM/100")
        volume.makedirs("/notes")
        for path in ("/DCIM/a.jpg", "/notes.txt", "/a.txt", "/b.txt", "/a.jpg", "/src.tar"):
            volume.write_bytes(path, b"x" * 5000)
        volume.makedirs("/old")
    px.format("other.img", size="16 MiB").close()
    with open("disk.img", "wb") as f:
        f.truncate(64 << 20)
    script = "label: dos\nstart=2048, size=32768, type=7\nstart=40960, size=65536, type=7\n"
    subprocess.run(["/usr/sbin/sfdisk", "-q", "disk.img"], input=script.encode(), check=True)
    px.format("disk.img", partition=1).close()
    with px.format("disk.img", partition=2) as volume:
        volume.makedirs("/DCIM")
        volume.write_bytes("/a.gz", gzip.compress(b"zipped\n"))
    with px.format("damaged.img", size="8 MiB"):
        pass
    with open("damaged.img", "r+b") as f:
        f.write(bytes(512))


SETUP = {  # what an example needs to be so before it
    "format": "rm card.img",
    "rmdir": "pyexfat mkdir card.img:/a card.img:/b",
    "touch": "rm -f nothing",
    "mkdir": "pyexfat rm -r card.img:/DCIM",
}


@pytest.mark.usefixtures("_sandbox")
@pytest.mark.parametrize(
    ("name", "number"), [(n, i) for n in MINE for i in range(len(examples(n)))]
)
def test_examples_are_true(name: str, number: int) -> None:
    line = examples(name)[number].replace("/dev/sdb", "other.img")
    shell = f'set -eo pipefail; pyexfat() {{ "{sys.executable}" -m pyexfat "$@"; }}\n'
    shell += f"{SETUP.get(name, ':')}\n{line}\n"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), (line, done.stdout)


def test_top_help_and_version(cli: Cli) -> None:
    text = cli("--help").out
    for word in ("exit codes:", "places:", "card.img:/DCIM/a.jpg", "examples:"):
        assert word in text
    assert cli("--version").out == f"pyexfat {px.__version__}\n"


@pytest.mark.parametrize("args", [[], ["fly"], ["ls"], ["ls", "--sort", "x.img"], ["ls", ":/x"]])
def test_wrong_usage_is_2(cli: Cli, args: list[str]) -> None:
    result = cli(*args, code=2)
    assert result.out == ""
    assert result.err.startswith("pyexfat")
    assert result.err.count("\n") == 1
    assert result.err.endswith(' --help")\n')


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["map", "--rows", "x", "card.img"], "--rows: no number: 'x'"),
        (["tree", "-L", "many", "card.img"], "-L: no number: 'many'"),
        (["format", "--seed", "x", "card.img"], "--seed: no number: 'x'"),
        (["bench", "scale", "--sizes", "x"], "--sizes: no number: 'x'"),
        (["mkdir", "--policy", "fast", "card.img:/d"], "--policy takes before or NAME=VALUE"),
        (["mkdir", "--policy", "discard=maybe", "card.img:/d"], "discard is on or off"),
    ],
)
def test_bad_values_are_wrong_usage(cli: Cli, args: list[str], said: str) -> None:
    px.format("card.img", size="8 MiB").close()
    result = cli(*args, code=2)
    assert said in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--from", "--bad-blocks", "--boot-message"])
@pytest.mark.parametrize("name", ["nothing", "/no/such/thing"])
def test_a_file_of_the_host_is_named_as_such(cli: Cli, option: str, name: str) -> None:
    error = cli.fails("format", "card.img", "--size", "2M", "--fs", "fat", option, name)
    assert error == f"{name}: No such file or directory"
    assert not Path("card.img").exists()


def test_wrong_usage_names_the_option(cli: Cli) -> None:
    result = cli("format", "card.img", "-s", "much", code=2)
    assert result.err.startswith("pyexfat format: --size: ")
    assert result.err.endswith(' (see "pyexfat format --help")\n')
    result = cli("mkdir", "a\x1b[2J:/x", "--\x1b[2J", code=2)
    assert "\x1b" not in result.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ""),
        (b"\0" * 4096, ""),
        (b"\xeb\x76\x90EXFAT   " + b"\xff" * 5000, ""),
        (b"x" * 99, ""),
    ],
)
def test_what_is_no_image(cli: Cli, content: bytes, said: str) -> None:
    Path("bad.img").write_bytes(content)
    for command in ("ls", "info", "df", "tree", "map"):
        error = cli.fails(command, "bad.img")
        assert error.startswith("bad.img: ")
    assert Path("bad.img").read_bytes() == content


def test_a_directory_is_no_image(cli: Cli) -> None:
    os.mkdir("folder")
    assert cli.fails("ls", "folder").startswith("folder: ")
    assert cli.fails("format", "folder", "--size", "8M").startswith("folder: ")


def test_reading_writes_nothing(cli: Cli) -> None:
    px.format("card.img", size="8 MiB").close()
    os.chmod("card.img", 0o444)
    before = Path("card.img").read_bytes()
    for command in ("info", "detect", "ls", "tree", "stat", "df", "label", "map", "extents"):
        cli(command, "card.img")
    assert Path("card.img").read_bytes() == before


def test_interrupted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    px.format("card.img", size="8 MiB").close()

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "entries", interrupt)
    assert cli.fails("ls", "card.img", code=130) == "interrupted"


@pytest.mark.parametrize("command", [["ls", "-l"], ["tree"], ["info", "--json"], ["cat"], ["map"]])
def test_standard_output_is_full(command: list[str]) -> None:
    with px.format("card.img", size="8 MiB") as volume:
        volume.create_many("/", [f"a file with a rather long name {n}" for n in range(500)])
        volume.write_bytes("/data", bytes(1 << 20))
    place = "card.img:/data" if command == ["cat"] else "card.img"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pyexfat", *command, place],
            stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == b"pyexfat: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("ls card.img >&-", 1, "standard output: Bad file descriptor"),
        ("stat --json card.img >&-", 1, "standard output: Bad file descriptor"),
        ("cat card.img:/data >&-", 1, "standard output: Bad file descriptor"),
        ("cp card.img:/data - <&- >&-", 1, "standard output: Bad file descriptor"),
        ("cp - card.img:/new <&-", 1, "standard input: Bad file descriptor"),
        ("touch card.img:/new <&- >&-", 0, ""),
        ("ls card.img:/none 2>&-", 1, ""),
        ("touch card.img:/new <&- >&- 2>&-", 0, ""),
    ],
)
def test_streams_that_are_closed(command: str, code: int, said: str) -> None:
    """No traceback, and no image gets the number of a standard stream."""
    with px.format("card.img", size="8 MiB") as volume:
        volume.write_bytes("/data", b"data")
    done = subprocess.run(
        ["sh", "-c", f'"$1" -m pyexfat {command}', "sh", sys.executable],
        stderr=subprocess.PIPE, check=False, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, said and f"pyexfat: {said}\n")
    with px.open("card.img") as volume:
        assert volume.listdir() == (["data", "new"] if "touch" in command else ["data"])
        assert volume.read_bytes("data") == b"data"


def test_busy(cli: Cli) -> None:
    with px.format("card.img", size="8 MiB"):
        error = cli.fails("mkdir", "card.img:/d")
    assert error.startswith("card.img: ")
    assert "is using it" in error


def terminal(*args: str, **environment: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    leader, follower = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLORTERM")}
    env |= {"TERM": "xterm-256color", "COLUMNS": "80"} | environment
    process = subprocess.Popen(
        [sys.executable, "-m", "pyexfat", *args], stdout=follower, stderr=follower, env=env
    )
    os.close(follower)
    out = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        out += piece
    os.close(leader)
    assert process.wait(60) == 0, out
    return out.decode().replace("\r\n", "\n")


_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_colours_on_a_terminal_unless_no_color() -> None:
    pytest.importorskip("rich")
    with px.format("card.img", size="8 MiB") as volume:
        volume.makedirs("/directory")
        volume.write_bytes("/[red]not markup", b"x" * 100_000)
    coloured = terminal("ls", "-l", "card.img")
    plain = run("ls", "-l", "card.img").stdout.decode()
    assert "\x1b[" in coloured
    assert _ESCAPE.sub("", coloured) == plain
    assert "[red]not markup" in plain
    assert "\x1b[3" not in terminal("ls", "-l", "card.img", NO_COLOR="1")
    assert "\x1b" not in terminal("ls", "-l", "card.img", TERM="dumb")
    assert terminal("ls", "card.img", NO_COLOR="1", TERM="dumb").split("  ") == [
        "[red]not markup", "directory\n",
    ]  # fmt: skip
    picture = terminal("map", "card.img")
    assert "█" in picture
    assert "█" not in terminal("map", "card.img", NO_COLOR="1")


def test_json_on_a_terminal_has_no_colours() -> None:
    px.format("card.img", size="8 MiB").close()
    assert "\x1b" not in terminal("info", "--json", "card.img")


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    Path("big").write_bytes(bytes(20 << 20))
    px.format("card.img", size="64 MiB").close()
    monkeypatch.setattr(progress, "DELAY", 0)
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(["cp", "big", "card.img:/"]) == 0
    assert "copy: " in screen.getvalue()
    assert "20.0M" in screen.getvalue()
    screen.truncate(0)
    assert main(["cp", "-q", "big", "card.img:/again"]) == 0
    assert main(["format", "full.img", "--size", "64M", "--full", "-q"]) == 0
    assert screen.getvalue() == ""
    assert main(["format", "full.img", "--size", "64M", "--full", "--force"]) == 0
    assert "format: " in screen.getvalue()


def test_works_without_rich_and_tqdm(tmp_path: Path) -> None:
    px.format("card.img", size="8 MiB", label="X").close()
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("rich", "tqdm"):
        (blocked / f"{name}.py").write_text("raise ImportError")
    path = os.pathsep.join([str(blocked), *sys.path[:0], os.environ.get("PYTHONPATH", "")])
    assert "X" in terminal("info", "card.img", PYTHONPATH=path)
    assert "\x1b" not in terminal("ls", "card.img", PYTHONPATH=path)


def test_ascii_terminal() -> None:
    with px.format("card.img", size="8 MiB") as volume:
        volume.makedirs("/Größe/x")
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = run("tree", "card.img", env=env)
    assert done.stdout.splitlines()[1:3] == [b"`-- Gr\\xf6\\xdfe", b"    `-- x"]
