"""Code pages: what short names mean and how they are written, against iconv, mtools and Python."""

from __future__ import annotations

import os
import struct
import subprocess
from array import array
from pathlib import Path

import pytest
from cli_tools import Cli
from conftest import require_tool

import pyexfat as px
from pyexfat import _core
from pyexfat._codepage import codepage_table

UNMAPPED = 0xFFFF
PREFERRED = 0x10000  # the second half of a table


def table(codepage: str | int) -> array[int]:
    made = codepage_table(codepage)
    assert made is not None
    assert len(made) == 2 * 2 * 0x10000
    return array("H", made)


def iconv(source: str, target: str, data: bytes) -> bytes:
    command = [require_tool("iconv"), "-c", "-f", source, "-t", target]
    return subprocess.run(command, input=data, capture_output=True, check=False).stdout


def code_bytes(code: int) -> bytes:
    return code.to_bytes(2 if code > 0xFF else 1, "big")


# ---- tables ----


@pytest.mark.parametrize("number", [850, 852, 866, 932, 936, 949, 1251])
def test_tables_are_those_of_iconv(number: int) -> None:
    units = table(number)[:PREFERRED]
    # iconv does not know what Python makes of the bytes of 932 that mean nothing there
    known = [c for c, unit in enumerate(units) if unit != UNMAPPED and c not in (10, *range(0x80))]
    if number == 932:
        known = [code for code in known if code not in (0x80, 0xA0, 0xFD, 0xFE, 0xFF)]
    lines = b"".join(code_bytes(code) + b"\n" for code in known)
    texts = iconv(f"CP{number}", "UTF-16LE", lines).decode("utf-16-le").split("\n")
    assert texts == [*(chr(units[code]) for code in known), ""]


def test_what_is_written_of_several_codes_is_what_iconv_writes() -> None:
    made = table(932)
    units = [unit for unit in range(PREFERRED) if made[PREFERRED + unit]]
    assert len(units) > 300
    lines = iconv("UTF-16LE", "CP932", "".join(f"{chr(u)}\n" for u in units).encode("utf-16-le"))
    assert [made[PREFERRED + unit] for unit in units] == [
        int.from_bytes(line, "big") for line in lines.split(b"\n")[:-1]
    ]


@pytest.mark.parametrize("name", [437, "437", "cp437", "IBM437", " 437 ", None])
def test_437_is_built_in(name: str | int | None) -> None:
    assert codepage_table(name) is None


@pytest.mark.parametrize(
    ("name", "same"), [("850", 850), ("ibm850", 850), ("cp932", 932), ("ms932", 932), ("gbk", 936)]
)
def test_names_of_code_pages(name: str, same: int) -> None:
    assert codepage_table(name) == codepage_table(same)


@pytest.mark.parametrize("name", ["koi8-r", "cp1250", "big5", 950, "johab", 1258, 864, 874])
def test_other_codecs_of_one_or_two_bytes(name: str | int) -> None:
    units = table(name)[:PREFERRED]
    codec = f"cp{name}" if isinstance(name, int) else name
    for code, unit in enumerate(units):
        if unit != UNMAPPED:
            assert code_bytes(code).decode(codec) == chr(unit)
    assert sum(unit != UNMAPPED for unit in units) > 200


@pytest.mark.parametrize(
    "name",
    [
        *("utf-8", "utf-7", "utf-16", "utf-16-le", "utf-32", 65001, "gb18030", "euc-jp", "hz"),
        *("iso2022_jp", "iso2022_kr", "cp037", 500, "shift_jis_2004", "base64", "rot13", "bz2"),
        *("nix", "", "idna", "undefined", 10**30, -437, "ü", "437.5"),
    ],
)
def test_what_is_no_code_page(name: str | int) -> None:
    with pytest.raises(ValueError, match="codepage"):
        codepage_table(name)


@pytest.mark.parametrize("name", [True, 437.0, b"437", ["437"]])
def test_a_code_page_is_a_number_or_a_name(name: object) -> None:
    with pytest.raises(TypeError, match="codepage"):
        codepage_table(name)  # type: ignore[arg-type]


# ---- volumes ----


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An empty FAT16 volume of mkfs.fat."""
    path = tmp_path / "fat.img"
    command = [require_tool("mkfs.fat"), "-C", "-F", "16", "-s", "1", str(path), "8192"]
    subprocess.run(command, check=True, capture_output=True)
    return path


def root_offset(image: bytes | bytearray) -> int:
    """Where the root directory of a FAT16 volume begins [fatgen103: FirstRootDirSecNum]."""
    sector, _, reserved, fats = struct.unpack_from("<HBHB", image, 11)
    (fat_size,) = struct.unpack_from("<H", image, 22)
    return int((reserved + fats * fat_size) * sector)


def put_entry(path: Path, name: bytes) -> None:
    """Makes the short entry of an empty file the first of the root directory."""
    assert len(name) == 11
    image = bytearray(path.read_bytes())
    start = root_offset(image)
    image[start : start + 32] = name + b"\x20" + bytes(20)
    path.write_bytes(image)


def short_names(path: Path) -> list[bytes]:
    """The 11 bytes of each short entry in the root directory."""
    image = path.read_bytes()
    start = root_offset(image)
    entries = (image[at : at + 32] for at in range(start, start + 512 * 32, 32))
    return [bytes(e[:11]) for e in entries if e[0] not in (0, 0xE5) and e[11] & 0x3F != 0x0F]


@pytest.mark.parametrize(
    ("codepage", "stored", "name"),
    [
        (None, b"GR\x99SSE  TXT", "GRÖSSE.TXT"),
        (437, b"\xa8\x9b\x9e     TXT", "¿¢₧.TXT"),
        (850, b"\xa8\xbd\x9b     TXT", "¿¢ø.TXT"),
        (852, b"\xa8\x9d\x8d     TXT", "ĘŁŹ.TXT"),
        (866, b"\x8f\x90\x88\x82\x85\x92  TXT", "ПРИВЕТ.TXT"),
        (932, b"\x83\x5c\x81\x5b\x83\x58  TXT", "ソース.TXT"),  # a backslash and a bracket inside
        (932, b"\xed\x40\xfa\x5c    TXT", "纊纊.TXT"),
        (850, b"\x05BC     TXT", "ÕBC.TXT"),  # 05 stands for E5
        (852, b"\x05BC     TXT", "ňBC.TXT"),
        (874, b"\xa1\xdb      TXT", "ก\ufffd.TXT"),  # DB means nothing
    ],
)
def test_reading(image: Path, codepage: int | None, stored: bytes, name: str) -> None:
    put_entry(image, stored)
    with px.open(image, codepage=codepage) as volume:
        assert volume.listdir("/") == [name]
        assert volume.stat("/" + name).st_size == 0


@pytest.mark.parametrize(
    ("codepage", "name", "stored"),
    [
        (None, "GRÖSSE.TXT", b"GR\x99SSE"),
        (850, "ØÐÞ.TXT", b"\x9d\xd1\xe8"),
        (852, "ĘŁŹ.TXT", b"\xa8\x9d\x8d"),
        (866, "ПРИВЕТ.TXT", b"\x8f\x90\x88\x82\x85\x92"),
        (932, "ソース.TXT", b"\x83\x5c\x81\x5b\x83\x58"),
        (932, "纊.TXT", b"\xfa\x5c"),
        (936, "文件.TXT", b"\xce\xc4\xbc\xfe"),
    ],
)
def test_writing(image: Path, codepage: int | None, name: str, stored: bytes) -> None:
    with px.open(image, "r+", codepage=codepage) as volume:
        volume.touch("/" + name)
    (short,) = short_names(image)
    # With or without a number behind it, for a name that also has a long entry.
    assert short[:8].rstrip(b" ") in (stored, stored[:6] + b"~1")
    with px.open(image, codepage=codepage) as volume:
        assert volume.listdir("/") == [name]


def test_what_the_code_page_lacks_is_not_in_the_short_name(image: Path) -> None:
    with px.open(image, "r+", codepage=437) as volume:
        volume.touch("/ŁÓDŹ.TXT")
        assert volume.listdir("/") == ["ŁÓDŹ.TXT"]
    (short,) = short_names(image)
    assert max(short[:8]) < 0x80  # not Ó either: 437 has ó alone


@pytest.mark.parametrize(("number", "name"), [(850, "ÅÐØ"), (866, "ПРИВЕТ"), (437, "ÄÖÜ")])
def test_mtools_reads_the_short_name(image: Path, tmp_path: Path, number: int, name: str) -> None:
    with px.open(image, "r+", codepage=number) as volume:
        volume.touch(f"/{name}.TXT")
    config = tmp_path / "mtoolsrc"
    config.write_text(f"default_codepage={number}\n")
    environment = {**os.environ, "MTOOLSRC": str(config), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    command = [require_tool("mdir"), "-i", str(image), "::/"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (line,) = (line for line in shown.stdout.splitlines() if "TXT" in line)
    assert line.startswith((name.ljust(8) + " TXT", f"{name[:6]}~1".ljust(8) + " TXT"))


# ---- arguments ----


def test_open_and_format_name_the_argument(tmp_path: Path) -> None:
    path = tmp_path / "image"
    with pytest.raises(ValueError, match="codepage"):
        px.format(path, size="8 MiB", codepage="utf-8")
    assert not path.exists()
    px.format(path, size="8 MiB", codepage=850).close()
    with pytest.raises(ValueError, match="codepage"):
        px.open(path, codepage=1)
    with px.open(path, codepage=932) as volume:  # means nothing in exFAT
        assert volume.listdir("/") == []


@pytest.mark.parametrize("size", [0, 1, 262143, 262145])
def test_core_takes_whole_tables_only(size: int) -> None:
    device = _core.Device.memory(8 << 20)
    _core.format(device)
    with pytest.raises(ValueError, match="codepage"):
        _core.Volume(device, codepage=bytes(size))
    with pytest.raises(ValueError, match="codepage"):
        _core.format(device, codepage=bytes(size))
    with pytest.raises(TypeError):
        _core.Volume(device, codepage=850)  # type: ignore[arg-type]


def test_an_empty_table_is_no_harm(image: Path) -> None:
    put_entry(image, b"A\x80      TXT")
    device = _core.Device.file(str(image))
    volume = _core.Volume(device, codepage=memoryview(bytes(4 * 0x10000)))
    assert volume.listdir("/") == ["\ufffd\ufffd.\ufffd\ufffd\ufffd"]
    volume.close()
    device.close()


def test_command_line(image: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    cli = Cli(capsysbinary)
    put_entry(image, b"\x8f\x90\x88\x82\x85\x92  TXT")
    assert cli("ls", "--codepage", "866", str(image)).out.split() == ["ПРИВЕТ.TXT"]
    assert cli("ls", str(image)).out.split() == ["ÅÉêéàÆ.TXT"]
    assert "codepage" in cli("ls", "--codepage", "utf-8", str(image), code=2).err
    cli("touch", "--codepage", "cp866", f"{image}:/ПРИВЕД.TXT")
    assert short_names(image)[1][:6] == b"\x8f\x90\x88\x82\x85\x84"
