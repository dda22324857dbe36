"""format, info, detect, label and df."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from cli_tools import MIB, Cli, run
from conftest import require_tool

import pyexfat as px


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(capsysbinary)


@pytest.fixture(autouse=True)
def _in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


def fsck(image: str | Path) -> None:
    done = subprocess.run(
        [require_tool("fsck.exfat"), "-n", str(image)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def dump(image: str) -> dict[str, str]:
    """What dump.exfat says of the volume, by its own names."""
    text = subprocess.run(
        [require_tool("dump.exfat"), image], capture_output=True, check=True, text=True
    ).stdout
    rows = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in rows}


def test_format_makes_a_volume(cli: Cli) -> None:
    result = cli(
        "format", "card.img", "--size", "64M", "--label", "CARD", "--serial", "12ab-34CD",
        "-c", "32k",
    )  # fmt: skip
    # 64 MiB less 2 MiB (FAT at 1 MiB, heap at 2 MiB) in clusters of 32 KiB.
    expected = 'card.img: exfat, 64 MiB, 1984 clusters of 32 KiB, serial 12AB-34CD, label "CARD"'
    assert result.lines == [expected]
    assert Path("card.img").stat().st_size == 64 * MIB
    fsck("card.img")
    seen = dump("card.img")
    assert seen["Volume label"] == "CARD"
    assert seen["Volume Serial"] == "0x12ab34cd"
    assert seen["Sector per Cluster bits"] == "6"


def test_format_says_what_it_made_in_json(cli: Cli) -> None:
    made = cli("format", "card.img", "-s", "8M", "--json", "--uuid", "random").json
    assert set(made) == {
        "image", "partition", "fs", "label", "serial", "uuid", "offset", "size", "sector_size",
        "cluster_size", "clusters", "free_clusters", "bad_clusters", "total", "used", "free",
        "dirty", "media_failure", "from_backup",
    }  # fmt: skip
    assert made["uuid"][14] == "4"  # a random one by RFC 9562
    assert (made["image"], made["size"], made["offset"]) == ("card.img", 8 * MIB, 0)
    assert made["total"] == made["used"] + made["free"] == made["clusters"] * made["cluster_size"]
    assert cli("info", "card.img", "--json").json[0]["volumes"][0]["uuid"] == made["uuid"]


def test_quiet(cli: Cli) -> None:
    assert cli("format", "card.img", "-q", "-s", "8M").raw == b""


def test_format_overwrites_only_with_force(cli: Cli) -> None:
    cli("format", "card.img", "-s", "8M", "-L", "FIRST")
    before = Path("card.img").read_bytes()
    error = cli.fails("format", "card.img", "-L", "SECOND")
    assert error == 'card.img: holds exfat, label "FIRST" (--force overwrites it)'
    assert Path("card.img").read_bytes() == before
    cli("format", "card.img", "-L", "SECOND", "--force")
    assert cli("label", "card.img").out == "SECOND\n"

    Path("thesis.txt").write_bytes(b"years of work " * 10000)
    assert cli.fails("format", "thesis.txt") == "thesis.txt: holds data (--force overwrites it)"
    assert Path("thesis.txt").read_bytes().startswith(b"years of work")

    cli("format", "disk.img", "-s", "8M", "--partition-table", "mbr")
    error = cli.fails("format", "disk.img")
    assert error == "disk.img: holds exfat in partition 1 (--force overwrites it)"
    Path("blank.img").write_bytes(bytes(8 * MIB))
    cli("format", "blank.img")

    # A table with nothing in its partition yet.
    Path("table.img").write_bytes(bytes(8 * MIB))
    script = b"label: dos\nstart=2048, type=7\n"
    subprocess.run([require_tool("sfdisk"), "-q", "table.img"], input=script, check=True)
    error = cli.fails("format", "table.img")
    assert error == "table.img: has a partition table (--force overwrites it)"
    cli("format", "table.img@1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "lots"], "size is no size"),
        (["--size", "8M", "--serial", "12"], "serial number"),
        (["--size", "8M", "--fats", "5"], "--fats"),
        (["--size", "8M", "--clock", "tomorrow"], "no time"),
        (["--bogus"], "unrecognized"),
        ([], "--size is needed"),
    ],
)
def test_wrong_usage(cli: Cli, options: list[str], said: str) -> None:
    result = cli("format", "card.img", *options, code=2)
    assert said in result.err
    assert not Path("card.img").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cluster-size", "3000"], "cluster_size"),
        (["--label", "much too long a label"], "label"),
        (["--uuid", "12"], "uuid"),
        (["--sector-size", "600"], "sector"),
        (["--policy", "speed=9"], "--policy takes before or NAME=VALUE"),
        (["--policy", "name_filter=perhaps"], "on or off"),
    ],
)
def test_values_that_the_format_has_not(cli: Cli, options: list[str], said: str) -> None:
    assert said in cli.fails("format", "card.img", "--size", "8M", *options, code=2)
    assert not Path("card.img").exists()


def test_size_that_is_too_small(cli: Cli) -> None:
    assert "size" in cli.fails("format", "card.img", "--size", "5", code=2)
    assert not Path("card.img").exists()


def test_from_nowhere(cli: Cli) -> None:
    error = cli.fails("format", "card.img", "--size", "8M", "--from", "nowhere")
    assert "nowhere: No such file or directory" in error
    assert not Path("card.img").exists()


@pytest.mark.parametrize("scheme", ["mbr", "gpt"])
def test_partition_table(cli: Cli, scheme: str) -> None:
    result = cli("format", "disk.img", "-s", "16M", "--partition-table", scheme, "-L", "PART")
    assert " at byte 1048576," in result.out
    table = json.loads(
        subprocess.run(
            [require_tool("sfdisk"), "-J", "disk.img"], capture_output=True, check=True
        ).stdout
    )["partitiontable"]
    assert table["label"] == ("dos" if scheme == "mbr" else "gpt")
    assert len(table["partitions"]) == 1
    assert table["partitions"][0]["start"] == 2048

    cli("mkdir", "disk.img:/a", "disk.img@1:/b")
    assert cli("ls", "disk.img@1").lines == ["a", "b"]
    info = cli("info", "disk.img", "--json").json[0]
    assert info["scheme"] == scheme
    assert [(one["number"], one["fs"], one["label"]) for one in info["partitions"]] == [
        (1, "exfat", "PART")
    ]
    assert info["volumes"][0]["partition"] == 1
    assert info["volumes"][0]["offset"] == 1048576
    text = cli("info", "disk.img").out
    assert f"{scheme.upper()} partition table" in text
    assert "partition 1\n" in text
    assert cli.fails("ls", "disk.img@2").startswith("disk.img@2: partition 2 does not exist")
    length = table["partitions"][0]["size"] * 512
    Path("part.img").write_bytes(Path("disk.img").read_bytes()[MIB : MIB + length])
    fsck("part.img")


def test_one_partition_of_several(cli: Cli) -> None:
    Path("disk.img").write_bytes(bytes(64 * MIB))
    script = "label: dos\nstart=2048, size=32768, type=7\nstart=40960, size=65536, type=7\n"
    subprocess.run([require_tool("sfdisk"), "-q", "disk.img"], input=script.encode(), check=True)
    cli("format", "disk.img@1", "-L", "ONE")
    cli("format", "disk.img@2", "-L", "TWO", "--json")
    assert cli("label", "disk.img@2").out == "TWO\n"
    assert cli("df", "--json", "disk.img@1").json[0]["label"] == "ONE"
    assert cli.fails("ls", "disk.img").startswith("disk.img: partition must be given")
    found = cli("detect", "disk.img", "--json").json
    assert [(one["partition"], one["label"], one["offset"]) for one in found] == [
        (1, "ONE", 2048 * 512),
        (2, "TWO", 40960 * 512),
    ]
    assert cli("detect", "disk.img@2").out.startswith('disk.img@2: exfat, 32 MiB, label "TWO"')
    # Both partitions of one file at once, one of them written to.
    cli("mkdir", "disk.img@1:/only here")
    cli("cp", "-r", "disk.img@1:/only here", "disk.img@2:/")
    assert cli("ls", "disk.img@2").lines == ["only here"]
    assert "holds exfat" in cli.fails("format", "disk.img@2")


def test_offset(cli: Cli) -> None:
    Path("big.img").write_bytes(bytes(16 * MIB))
    cli("format", "big.img", "--offset", "4M", "--length", "8M", "-L", "INSIDE")
    assert cli("label", "big.img", "--offset", "4M").out == "INSIDE\n"
    cli("mkdir", "--offset", "4M", "big.img:/d")
    assert cli("ls", "--offset", "4194304", "big.img").lines == ["d"]
    info = cli("info", "--json", "--offset", "4M", "big.img").json[0]["volumes"][0]
    assert (info["offset"], info["size"]) == (4 * MIB, 8 * MIB)
    content = Path("big.img").read_bytes()
    assert not any(content[: 4 * MIB])
    assert not any(content[12 * MIB :])
    assert "holds exfat" in cli.fails("format", "big.img", "--offset", "4M")
    Path("inside.img").write_bytes(content[4 * MIB : 12 * MIB])
    fsck("inside.img")


def test_populate_and_the_same_bytes_each_time(cli: Cli) -> None:
    Path("tree/sub/deeper").mkdir(parents=True)
    Path("tree/a.txt").write_text("hello")
    Path("tree/sub/deeper/b.bin").write_bytes(bytes(range(256)) * 500)
    for image in ("one.img", "two.img"):
        cli("format", image, "-s", "16M", "--from", "tree", "--reproducible")
    assert Path("one.img").read_bytes() == Path("two.img").read_bytes()
    fsck("one.img")
    assert cli("tree", "one.img").lines == [
        "one.img:/",
        "├── a.txt",
        "└── sub",
        "    └── deeper",
        "        └── b.bin",
        "",
        "2 directories, 2 files",
    ]
    assert cli("cat", "one.img:/sub/deeper/b.bin").raw == bytes(range(256)) * 500
    cli(
        "format",
        "three.img",
        "-s",
        "16M",
        "--from",
        "tree",
        "--seed",
        "7",
        "--clock",
        "@1000000000",
    )
    assert Path("three.img").read_bytes() != Path("one.img").read_bytes()


def test_source_date_epoch(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for image in ("one.img", "two.img"):
        cli("format", image, "-s", "8M")
    assert Path("one.img").read_bytes() == Path("two.img").read_bytes()


def test_info_for_people(cli: Cli) -> None:
    cli("format", "card.img", "-s", "16M", "--serial", "0000-0001", "-c", "4k")
    text = cli("info", "card.img").out
    assert "card.img: 16777216 bytes (16 MiB)" in text
    assert "serial number:  0000-0001" in text
    assert "of 4 KiB" in text
    assert "note:" not in text


def test_info_of_several_images(cli: Cli) -> None:
    cli("format", "a.img", "-s", "8M")
    result = cli("info", "--json", "a.img", "nowhere.img", code=1)
    assert [one["image"] for one in result.json] == ["a.img"]
    assert result.err == "pyexfat: nowhere.img: No such file or directory\n"


def test_a_dirty_volume_says_so(cli: Cli) -> None:
    cli("format", "card.img", "-s", "8M")
    with open("card.img", "r+b") as f:  # VolumeFlags: VolumeDirty and MediaFailure (section 3.1.13)
        f.seek(106)
        f.write(b"\x06")
    volume = cli("info", "card.img", "--json").json[0]["volumes"][0]
    assert (volume["dirty"], volume["media_failure"]) == (True, True)
    text = cli("info", "card.img").out
    assert "not closed properly" in text
    assert "failure of the medium" in text


def test_the_backup_boot_region(cli: Cli) -> None:
    cli("format", "card.img", "-s", "8M", "-L", "SAVED")
    cli("mkdir", "card.img:/d")
    with open("card.img", "r+b") as f:
        f.write(bytes(512 * 12))
    cli.fails("ls", "card.img")
    cli.fails("info", "card.img")
    assert cli("ls", "--backup", "card.img").lines == ["d"]
    assert cli("label", "-o", "card.img").out == "SAVED\n"
    info = cli("info", "--backup", "card.img", "--json").json[0]["volumes"][0]
    assert info["from_backup"] is True
    assert "main one is damaged" in cli("info", "--backup", "card.img").out
    totals = cli("map", "--backup", "--json", "card.img").json["totals"]
    assert totals["directory"] == 2


def test_damage_is_told_in_one_line_with_its_place(cli: Cli) -> None:
    cli("format", "card.img", "-s", "8M")
    with open("card.img", "r+b") as f:
        f.seek(108)  # BytesPerSectorShift
        f.write(b"\x20")
    error = cli.fails("ls", "card.img")
    assert error.endswith(" (main boot region, byte 108, BytesPerSectorShift is 32)")
    with open(
        "card.img", "r+b"
    ) as f:  # right again, but another serial number than in the checksum
        f.seek(100)
        f.write(b"\0\0\0\0")
        f.seek(108)
        f.write(b"\x09")
    assert re.fullmatch(
        r"card\.img: .+ \(main boot region, byte 5632, Checksum is \d+, expected \d+\)",
        cli.fails("ls", "card.img"),
    )
    assert "main boot region damaged" in cli("detect", "card.img").out


def test_detect(cli: Cli) -> None:
    cli("format", "card.img", "-s", "8M", "-L", "X", "--serial", "89AB-CDEF")
    assert cli("detect", "card.img").lines == [
        'card.img: exfat, 8 MiB, label "X", serial 89AB-CDEF'
    ]
    Path("zeros").write_bytes(bytes(MIB))
    assert cli.fails("detect", "zeros") == "zeros: no file system that is known"
    assert cli.fails("ls", "zeros").startswith("zeros: ")
    Path("empty").touch()
    assert cli.fails("detect", "empty") == "empty: no file system that is known"


def test_label(cli: Cli) -> None:
    cli("format", "card.img", "-s", "8M")
    assert cli("label", "card.img").out == "\n"
    assert cli("label", "card.img", "Größe").out == ""
    assert cli("label", "--json", "card.img").json == {
        "image": "card.img", "partition": None, "label": "Größe",
    }  # fmt: skip
    assert dump("card.img")["Volume label"] == "Größe"
    error = cli.fails("label", "card.img", "twelve units")
    assert error == "card.img: label: a label has at most 11 UTF-16 units"
    error = cli.fails("label", "--backup", "card.img", "NEW", code=2)
    assert error == "card.img: --backup is for reading: it can't set a label"
    assert cli("label", "--backup", "card.img").out == "Größe\n"
    cli("label", "card.img", "")
    assert cli("label", "card.img").out == "\n"
    fsck("card.img")


def test_df(cli: Cli) -> None:
    cli("format", "card.img", "-s", "16M", "-c", "4k", "-L", "HALF")
    total = cli("df", "--json", "card.img").json[0]["total"]
    with px.open("card.img", "r+") as volume:
        volume.write_bytes("/big", bytes(total // 2))
    one = cli("df", "--json", "card.img").json[0]
    assert one["used"] + one["free"] == one["total"] == total
    assert one["used_percent"] == -(-100 * one["used"] // total)
    assert 50 <= one["used_percent"] <= 52
    headings, row = cli("df", "card.img").lines
    assert headings.split() == ["image", "total", "used", "free", "used", "label"]
    assert row.split() == [
        "card.img", str(total), str(one["used"]), str(one["free"]), str(one["used_percent"]), "%",
        "HALF",
    ]  # fmt: skip
    assert cli("df", "-H", "card.img").lines[1].split()[1:3] == px.format_size(total).split()


def test_as_a_module() -> None:
    done = run("format", "card.img", "--size", "8M", "--label", "M")
    assert (done.returncode, done.stderr) == (0, b"")
    done = run("label", "card.img")
    assert done.stdout == b"M\n"
    done = run("ls", "nowhere.img")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"pyexfat: nowhere.img: No such file or directory\n"
