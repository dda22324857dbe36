"""ls, tree, stat, extents and map."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_tools import KIB, MIB, Cli

import pyexfat as px
from pyexfat.picture import KINDS, cluster_map

ENTRY = {
    "path", "name", "type", "size", "valid_size", "allocated", "attributes", "created", "modified",
    "accessed", "created_ns", "modified_ns", "accessed_ns", "first_cluster", "contiguous",
}  # fmt: skip
NOON = 1_777_636_800 * 10**9  # 2026-05-01T12:00:00Z


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(capsysbinary)


@pytest.fixture(autouse=True)
def _card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # nine hours east all year
    time.tzset()
    with px.format("card.img", size="16 MiB", cluster_size="4K", label="CARD") as volume:
        volume.makedirs("/DCIM/100")
        volume.write_bytes("/DCIM/b.jpg", b"b" * 5000)
        volume.write_bytes("/DCIM/A.jpg", b"a" * 100)
        volume.write_bytes("/DCIM/100/deep.txt", b"")
        volume.write_bytes("/zeta", b"z" * 70000)
        volume.set_attributes("/DCIM/A.jpg", hidden=True, read_only=True)
        for path, hours in (("/DCIM/b.jpg", 0), ("/DCIM/A.jpg", 1), ("/DCIM/100", 2), ("/zeta", 3)):
            when = NOON + hours * 3600 * 10**9
            volume.utime(path, ns=(when, when), created_ns=NOON)
    yield
    monkeypatch.undo()
    time.tzset()


def test_ls(cli: Cli) -> None:
    assert cli("ls", "card.img").lines == ["DCIM", "zeta"]
    assert cli("ls", "card.img:/DCIM").lines == ["100", "A.jpg", "b.jpg"]
    assert cli("ls", "-a", "card.img:/dcim/").lines == ["100", "A.jpg", "b.jpg"]
    assert cli("ls", "-r", "card.img:/DCIM").lines == ["b.jpg", "A.jpg", "100"]
    assert cli("ls", "-F", "card.img:/DCIM").lines == ["100/", "A.jpg", "b.jpg"]
    assert cli("ls", "-U", "card.img:/DCIM").lines == ["100", "b.jpg", "A.jpg"]
    assert cli("ls", "-t", "card.img:/DCIM").lines == ["100", "A.jpg", "b.jpg"]
    assert cli("ls", "-tr", "card.img:/DCIM").lines == ["b.jpg", "A.jpg", "100"]
    sizes = {"100": 4 * KIB, "A.jpg": 100, "b.jpg": 5000}
    by_size = sorted(sizes, key=lambda name: -sizes[name])
    assert cli("ls", "-S", "card.img:/DCIM").lines == by_size


def test_ls_long_in_local_time_and_in_utc(cli: Cli) -> None:
    rows = [line.split(maxsplit=4) for line in cli("ls", "-l", "card.img:/DCIM").lines]
    assert rows[1:] == [
        ["-rh-a", "100", "2026-05-01", "22:00:00", "A.jpg"],
        ["----a", "5000", "2026-05-01", "21:00:00", "b.jpg"],
    ]
    assert rows[0][0][0] == "d"
    assert rows[0][2:] == ["2026-05-01", "23:00:00", "100"]
    assert cli("ls", "-l", "--utc", "card.img:/DCIM/b.jpg").lines == [
        "----a  5000  2026-05-01 12:00:00  card.img:/DCIM/b.jpg"
    ]
    assert " 4.88 KiB " in cli("ls", "-lH", "card.img:/DCIM").out


def test_ls_of_files_directories_and_what_is_missing(cli: Cli) -> None:
    result = cli("ls", "card.img:/DCIM/100", "card.img:/no", "card.img:/zeta", code=1)
    assert result.lines == ["card.img:/zeta", "", "card.img:/DCIM/100:", "deep.txt"]
    assert result.err == "pyexfat: card.img:/no: No such file or directory\n"
    assert cli("ls", "-d", "card.img:/DCIM").lines == ["card.img:/DCIM"]
    assert "Not a directory" in cli.fails("ls", "card.img:/zeta/x")


def test_ls_recursive(cli: Cli) -> None:
    assert cli("ls", "-R", "card.img").lines == [
        "card.img:/:", "DCIM", "zeta", "",
        "card.img:/DCIM:", "100", "A.jpg", "b.jpg", "",
        "card.img:/DCIM/100:", "deep.txt",
    ]  # fmt: skip
    listings = cli("ls", "-R", "--json", "card.img:/").json
    assert [one["path"] for one in listings] == ["/", "/DCIM", "/DCIM/100"]


def test_ls_json(cli: Cli) -> None:
    (listing,) = cli("ls", "--json", "card.img:/DCIM").json
    assert set(listing) == {"image", "partition", "path", "entries"}
    assert (listing["image"], listing["partition"], listing["path"]) == ("card.img", None, "/DCIM")
    entries = {entry["name"]: entry for entry in listing["entries"]}
    assert all(set(entry) == ENTRY for entry in entries.values())
    a = entries["A.jpg"]
    assert (a["path"], a["type"], a["size"], a["allocated"]) == ("/DCIM/A.jpg", "file", 100, 4096)
    assert a["attributes"] == ["read_only", "hidden", "archive"]
    assert a["modified"] == "2026-05-01T13:00:00Z"
    assert a["modified_ns"] == NOON + 3600 * 10**9
    assert entries["100"]["type"] == "directory"
    (single,) = cli("ls", "--json", "card.img:/zeta").json
    assert [entry["path"] for entry in single["entries"]] == ["/zeta"]


def test_names_can_do_no_harm(cli: Cli) -> None:
    name = "half \ud83d \u202ecod"
    with px.open("card.img", "r+") as volume:
        volume.write_bytes(f"/{name}", b"x")
    assert "half \\ud83d \\u202ecod" in cli("ls", "card.img").lines
    assert "half \\ud83d \\u202ecod" in cli("tree", "card.img").out
    entries = cli("ls", "--json", "card.img").json[0]["entries"]
    assert name in [entry["name"] for entry in entries]


def test_tree(cli: Cli) -> None:
    assert cli("tree", "card.img:/").lines == [
        "card.img:/",
        "├── DCIM",
        "│   ├── 100",
        "│   │   └── deep.txt",
        "│   ├── A.jpg",
        "│   └── b.jpg",
        "└── zeta",
        "",
        "2 directories, 4 files",
    ]
    assert cli("tree", "-L", "1", "-s", "card.img").lines == [
        "card.img:/",
        "├── DCIM",
        "└── [68.4 KiB] zeta",
        "",
        "1 directory, 1 file",
    ]
    assert cli("tree", "-d", "card.img:/DCIM").lines == [
        "card.img:/DCIM",
        "└── 100",
        "",
        "1 directory, 0 files",
    ]
    (one,) = cli("tree", "--json", "card.img:/DCIM").json
    assert (one["directories"], one["files"]) == (1, 3)
    assert [(entry["depth"], entry["path"]) for entry in one["entries"]] == [
        (0, "/DCIM"),
        (1, "/DCIM/100"),
        (2, "/DCIM/100/deep.txt"),
        (1, "/DCIM/A.jpg"),
        (1, "/DCIM/b.jpg"),
    ]
    assert all(set(entry) == ENTRY | {"depth"} for entry in one["entries"])
    cli("tree", "-L", "0", "card.img", code=2)


def test_a_deep_tree_needs_no_recursion(cli: Cli) -> None:
    depth = 1500
    with px.open("card.img", "r+") as volume:
        path = ""
        for _ in range(depth):
            path += "/d"
            volume.mkdir(path)
    result = cli("tree", "--json", "card.img:/d").json[0]
    assert result["directories"] == depth - 1
    assert len(cli("ls", "-R", "--json", "card.img:/d").json) == depth
    cli("rm", "-r", "card.img:/d")
    assert cli("ls", "card.img").lines == ["DCIM", "zeta"]


def test_stat(cli: Cli) -> None:
    lines = cli("stat", "--utc", "card.img:/DCIM/A.jpg").lines
    fields = dict(line.split(":", 1) for line in lines)
    values = {key: value.strip() for key, value in fields.items()}
    assert values["path"] == "card.img:/DCIM/A.jpg"
    assert values["size"] == "100 (100 B)"
    assert values["allocated"] == "4096 (4 KiB)"
    assert values["attributes"] == "read-only, hidden, archive"
    assert values["created"] == "2026-05-01 12:00:00.00 +0000"
    assert values["modified"] == "2026-05-01 13:00:00.00 +0000"
    assert values["entry"].startswith("3 entries at byte ")
    (one,) = cli("stat", "--json", "card.img:/DCIM/a.JPG").json
    assert set(one) == ENTRY | {"image", "partition", "entry_offset", "entry_count", "cluster_size"}
    # The entry is where it says: a file entry (0x85) of two secondary entries (section 7.4).
    data = Path("card.img").read_bytes()
    assert data[one["entry_offset"] : one["entry_offset"] + 2] == b"\x85\x02"
    assert one["cluster_size"] == 4096
    root = cli("stat", "card.img").out
    assert root.count("type:") == 1
    assert [line.split()[1] for line in root.splitlines() if "ed:" in line][-3:] == ["none"] * 3
    (one,) = cli("stat", "--json", "card.img").json
    times = ("created", "modified", "accessed")
    assert [one[key + end] for key in times for end in ("", "_ns")] == [None] * 6
    assert "No such file" in cli.fails("stat", "card.img:/nothing")


def test_stat_of_a_file_with_a_tail_of_zeros(cli: Cli) -> None:
    with px.open("card.img", "r+") as volume:
        volume.truncate("/zeta", 100_000)
    assert "valid data:  70000; what follows reads as zeros" in cli("stat", "card.img:/zeta").out


def test_extents(cli: Cli) -> None:
    (one,) = cli("extents", "--json", "card.img:/zeta").json
    assert set(one) == {"image", "partition", "path", "extents"}
    assert all(
        set(e) == {"file_offset", "device_offset", "length", "written"} for e in one["extents"]
    )
    assert sum(e["length"] for e in one["extents"]) in (70000, 18 * 4096)
    # The bytes are where it says.
    data = Path("card.img").read_bytes()
    for e in one["extents"]:
        start = e["device_offset"]
        length = min(e["length"], 70000 - e["file_offset"])
        assert data[start : start + length] == b"z" * length
    assert cli("extents", "card.img:/zeta").lines[0] == "card.img:/zeta: 1 extent"
    assert cli("extents", "card.img:/DCIM/100/deep.txt").lines == [
        "card.img:/DCIM/100/deep.txt: 0 extents"
    ]


def fragment() -> None:
    """A file in many pieces: every second of a row of one-cluster files makes room for it."""
    with px.open("card.img", "r+") as volume:
        usage = volume.usage()
        names = [f"{n:04}" for n in range(usage.free_clusters - 8)]
        volume.mkdir("/fill")
        for name in names:
            try:
                volume.write_bytes(f"/fill/{name}", b"f" * usage.cluster_size)
            except OSError:
                break
        for name in names[100:200:2]:
            volume.unlink(f"/fill/{name}")
        volume.write_bytes("/pieces", b"p" * (20 * usage.cluster_size))


def test_map_for_people(cli: Cli) -> None:
    lines = cli("map", "card.img").lines
    assert all(len(line) == 64 for line in lines[: lines.index("")])
    text = "\n".join(lines)
    assert "#  files in one piece: " in text
    assert "d  directories: 3 (12 KiB)" in text  # the root and two
    assert ".  free: " in text
    assert "a cell is " in lines[-1]


def test_map_json_adds_up(cli: Cli) -> None:
    fragment()
    picture = cli("map", "--json", "card.img:/DCIM").json
    usage = cli("df", "--json", "card.img").json[0]
    assert picture["clusters"] == usage["clusters"]
    assert picture["totals"]["free"] == usage["free_clusters"]
    assert picture["totals"]["fragmented"] == 20
    assert picture["totals"]["unowned"] == 0
    # A.jpg: one cluster, b.jpg: two, DCIM and 100: one each.
    assert picture["totals"]["chosen"] == 5
    assert sum(picture["totals"].values()) == usage["clusters"]
    assert set(picture["totals"]) == set(KINDS)
    cells = picture["cells"]
    assert sum(cell["count"] for cell in cells) == usage["clusters"]
    assert cells[0]["first"] == 2
    assert [cell["first"] for cell in cells[1:]] == [c["first"] + c["count"] for c in cells[:-1]]
    free = sum(cell["count"] - sum(cell["clusters"].values()) for cell in cells)
    assert free == usage["free_clusters"]


def test_what_nobody_owns(cli: Cli) -> None:
    before = cli("map", "--json", "card.img").json["totals"]
    (one,) = cli("stat", "--json", "card.img:/zeta").json
    with open("card.img", "r+b") as f:  # the file's entry becomes a deleted one (section 6.2.1)
        for n in range(one["entry_count"]):
            f.seek(one["entry_offset"] + 32 * n)
            kind = f.read(1)[0]
            f.seek(one["entry_offset"] + 32 * n)
            f.write(bytes([kind & 0x7F]))
    after = cli("map", "--json", "card.img").json["totals"]
    assert after["unowned"] == 18  # 70000 bytes in clusters of 4 KiB
    assert after["file"] == before["file"] - 18
    assert after["free"] == before["free"]


def test_map_as_svg(cli: Cli) -> None:
    with px.open("card.img", "r+") as volume:
        volume.write_bytes("/(&\u202e)", b"x" * 9000)
        volume.label = "A&B"
    assert cli("map", "card.img", "--svg", "map.svg").out == ""
    root = ElementTree.parse("map.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = Path("map.svg").read_text(encoding="utf-8")
    assert "\u202e" not in text
    assert "(&amp;\\u202e)" in text
    assert cli("map", "card.img", "--svg", "-").out == text
    tips = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("/zeta" in tip for tip in tips)


@pytest.mark.parametrize("cells", [1, 7, 64, 100_000])
def test_however_many_cells_the_sums_are_the_same(cells: int) -> None:
    with px.open("card.img") as volume:
        picture = cluster_map(volume, cells=cells)
        usage = volume.usage()
    assert len(picture.cells) <= cells
    assert picture.totals["free"] == usage.free_clusters
    for kind in KINDS[:-1]:
        assert sum(cell.clusters.get(kind, 0) for cell in picture.cells) == picture.totals.get(
            kind, 0
        )


def test_a_map_of_a_huge_volume(cli: Cli) -> None:
    with px.format("huge.img", size=1 << 42, cluster_size="4K") as volume:
        volume.touch("/x")
        volume.fallocate("/x", 0, 1 << 40)
    start = time.monotonic()
    picture = cli("map", "--json", "huge.img").json
    assert time.monotonic() - start < 20
    assert picture["totals"]["file"] == 1 << 28
    assert len(picture["cells"]) <= 1024
    assert os.stat("huge.img").st_blocks * 512 < 256 * MIB


def test_a_tree_deeper_than_a_path_can_be_long(cli: Cli) -> None:
    """The rest is shown, and one line says where it ends, in short."""
    half = ("/" + "x" * 30) * 600
    with px.format("deep.img", size="64 MiB", cluster_size=512) as volume:
        for name in ("/one", "/two"):
            volume.makedirs(name + half)
        volume.rename("/two", "/one" + half + "/two")
        volume.touch("/z")
    for command in (["ls", "-R"], ["tree"]):
        result = cli(*command, "deep.img", code=1)
        (line,) = result.err.splitlines()
        assert line.startswith("pyexfat: deep.img")
        assert line.endswith(": File name too long")
        assert len(line) < 1200
        assert "z" in result.out
