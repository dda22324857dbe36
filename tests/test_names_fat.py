"""Names on FAT: 8.3 and case bits, aliases, code pages, long names in pieces, orphans."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from model.rawfat import read_image, short_checksum
from peers.fat import MIB, exact, facts, fsck, made, raw, small
from peers.images import unpack

import pyexfat as px


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An empty FAT16 volume."""
    return small(16, tmp_path / "image")


def write(image: Path, names: list[str], directory: str = "/", **options: Any) -> None:
    """Each name with itself as content."""
    with px.open(image, "r+", tz="utc", **options) as volume:
        for name in names:
            volume.write_bytes(f"{directory}/{name}", name.encode("utf-8", "surrogatepass"))


# ---- 8.3 ----


@pytest.mark.parametrize(
    ("name", "short", "case"),
    [
        ("README.TXT", b"README  TXT", 0),
        ("readme.txt", b"README  TXT", 0x18),
        ("readme.TXT", b"README  TXT", 0x08),
        ("README.txt", b"README  TXT", 0x10),
        ("readme", b"README     ", 0x08),
        ("README", b"README     ", 0),
        ("12345678.123", b"12345678123", 0),
        ("a1.b2", b"A1      B2 ", 0x18),
        ("~!@#$%^&.{}_", b"~!@#$%^&{}_", 0),
        ("A'(-)`", b"A'(-)`     ", 0),
    ],
)
def test_what_fits_needs_one_entry(image: Path, name: str, short: bytes, case: int) -> None:
    write(image, [name])
    entry = raw(image).tree[f"/{name}"]
    assert (entry.raw_short, entry.case, entry.entries) == (short, case, 1)
    assert fsck(image) == 1


# Worked out by the rules of Windows: spaces and dots but the last go, what has no place becomes
# '_', six characters and ~1; the extension keeps three.
@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ReadMe.txt", b"README  TXT"),
        ("readme.Txt", b"README  TXT"),
        ("longer name.txt", b"LONGER~1TXT"),
        ("123456789", b"123456~1   "),
        ("a.html", b"A~1     HTM"),
        ("a.dtbo", b"A~1     DTB"),
        (".profile", b"PROFIL~1   "),
        ("..x", b"X~1        "),
        ("a.b.c", b"AB~1    C  "),
        ("a b", b"AB~1       "),
        ("a+b.c=d", b"A_B~1   C_D"),
        ("a,;[].x", b"A____~1 X  "),
        ("x.", b"X~1        "),
        ("日本.txt", b"__~1    TXT"),
        ("é.txt", b"\x90       TXT"),  # É in 437
        ("ÄÖÜß.äöü", b"\x8e\x99\x9a\xe1    \x8e\x99\x9a"),
        ("ÄÖÜß und mehr", b"\x8e\x99\x9a\xe1UN~1   "),
        ("bundle.jar-embedded", b"BUNDLE~1JAR"),
    ],
)
def test_what_does_not_fit_gets_an_alias(image: Path, name: str, short: bytes) -> None:
    write(image, [name])
    entry = raw(image).tree[f"/{name}"]
    assert (entry.raw_short, entry.case) == (short, 0)
    assert entry.entries == 1 + -(-len(name) // 13)
    assert fsck(image) == 1
    with px.open(image) as volume:
        assert volume.listdir() == [name]
        assert volume.read_bytes(f"/{entry.short.lower()}").decode() == name


@pytest.mark.parametrize("name", ["", ".", "..", "a:b", 'a"b', "a*b", "a?b", "a<b", "a|b", "a\\b"])
def test_names_that_can_not_be(image: Path, name: str) -> None:
    before = image.read_bytes()
    with px.open(image, "r+") as volume, pytest.raises((OSError, ValueError)):
        volume.write_bytes(f"/{name}", b"")
    assert raw(image).tree.keys() == {"/"}
    assert len(before) == image.stat().st_size


def test_control_characters_can_not_be(image: Path) -> None:
    with px.open(image, "r+") as volume:
        for code in range(1, 0x20):
            with pytest.raises((OSError, ValueError)):
                volume.touch(f"/a{chr(code)}b")
        assert volume.listdir() == []


def test_nt_case_bits_are_read(image: Path) -> None:
    """Whatever the other bits of that byte are; a long name does not care for them."""
    write(image, ["AAAAAAAA.TXT", "BBBBBBBB.TXT", "CCCCCCCC.TXT", "long name of it"])
    content = bytearray(image.read_bytes())
    for name, bits in (("AAAAAAAA.TXT", 0x08), ("BBBBBBBB.TXT", 0x10), ("CCCCCCCC.TXT", 0xFF)):
        content[raw(image).tree[f"/{name}"].offset + 12] = bits
    at = raw(image).tree["/long name of it"].offset + 2 * 32
    content[at + 12] = 0x18
    with px.open(bytes(content)) as volume:
        assert volume.listdir() == [
            "aaaaaaaa.TXT",
            "BBBBBBBB.txt",
            "cccccccc.txt",
            "long name of it",
        ]
        assert volume.read_bytes("/CCCCCCCC.TXT") == b"CCCCCCCC.TXT"


def test_change_of_case_alone(image: Path) -> None:
    write(image, ["name.txt", "A longer name.txt"])
    with px.open(image, "r+", tz="utc") as volume:
        for new in ("NAME.TXT", "Name.Txt", "nAME.tXT", "name.TXT", "name.txt"):
            volume.rename("/name.txt", f"/{new}")
            assert new in volume.listdir()
            assert volume.read_bytes("/NAME.txt") == b"name.txt"
        for new in ("a LONGER name.txt", "A longer name.txt"):
            volume.rename("/a longer name.txt", f"/{new}")
            assert new in volume.listdir()
    found = raw(image)
    assert found.tree["/name.txt"].entries == 1
    assert found.tree["/A longer name.txt"].raw_short == b"ALONGE~1TXT"
    assert fsck(image) == 2


# ---- no two names that differ in case only ----


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("BOOTX64.EFI", "bootx64.efi"),
        ("name.txt", "NAME.TXT"),
        ("A long name", "a LONG name"),
        ("Übung.txt", "üBUNG.TXT"),
        ("ИМЯ файла", "имя ФАЙЛА"),
        ("Mixed.Txt", "MIXED.TXT"),
        ("straße.txt", "STRAßE.TXT"),
    ],
)
def test_go_diskfs_238_case_only(image: Path, one: str, other: str) -> None:
    write(image, [one])
    with px.open(image, "r+", tz="utc") as volume:
        with pytest.raises(FileExistsError):
            volume.mkdir(f"/{other}")
        with pytest.raises(FileExistsError):
            volume.open(f"/{other}", "xb")
        volume.write_bytes("/third", b"")
        volume.rename("/third", f"/{other}")  # replaces
        assert volume.listdir() == [other]
    raw(image)
    assert fsck(image) == 1


def test_case_only_across_directories(image: Path) -> None:
    with px.open(image, "r+", tz="utc") as volume:
        volume.makedirs("/Dir/Below")
        volume.write_bytes("/dir/BELOW/File", b"1")
        assert volume.read_bytes("/DIR/below/fILE") == b"1"
        assert volume.listdir("/") == ["Dir"]
        assert volume.stat("/dir").entry_offset == volume.stat("/DIR").entry_offset


# ---- first bytes, code pages ----


def test_0xe5_and_0x05(tmp_path: Path) -> None:
    """A short name that begins with 0xE5 is stored with 0x05 and is not deleted."""
    image = small(16, tmp_path / "image")
    names = {850: "ÕÕÕ.TXT", 866: "хвост.длн", 932: b"\xe5\x40.TXT".decode("cp932")}
    for page, name in names.items():
        write(image, [name], codepage=page)
        found = read_image(image.read_bytes(), codepage=f"cp{page}")
        entry = next(e for e in found.tree.values() if e.name == name)
        if page == 850:
            assert entry.raw_short == b"\x05\xe5\xe5     TXT"
        if page == 932:
            assert entry.raw_short == b"\x05@      TXT"
        with px.open(image, codepage=page) as volume:
            assert volume.read_bytes(f"/{name}").decode() == name
            assert volume.read_bytes(f"/{entry.short}").decode() == name
    assert len(raw_names(image)) == 3


def raw_names(image: Path) -> list[str]:
    return read_image(image.read_bytes()).children["/"]


@pytest.mark.parametrize(
    ("page", "name", "short"),
    [
        (437, "ÑANDÚ", "ÑAND_~1"),  # Ú is not in 437
        (850, "ÑANDÚ", "ÑANDÚ"),
        (852, "ŁÓDŹ.TXT", "ŁÓDŹ.TXT"),
        (866, "привет.txt", "ПРИВЕТ.TXT"),
        (866, "привет мир.txt", "ПРИВЕТ~1.TXT"),
        (932, "日本語.txt", "日本語.TXT"),
        (932, "日本語日本語.txt", "日本語~1.TXT"),
        (932, "表示ソース", "表示ソ~1"),
        (932, "ｱｲｳｴｵｶｷｸ", "ｱｲｳｴｵｶｷｸ"),
        (1252, "Œuvre", "ŒUVRE"),
    ],
)
def test_code_pages(image: Path, page: int, name: str, short: str) -> None:
    write(image, [name], codepage=page)
    entry = raw(image, codepage=f"cp{page}").tree[f"/{name}"]
    assert entry.short == short
    assert entry.has_long  # for who has another code page
    with px.open(image, codepage=page) as volume:
        for spelling in (name, name.upper(), short, short.lower()):
            assert volume.read_bytes(f"/{spelling}").decode() == name
    with px.open(image, codepage=437) as volume:
        assert volume.listdir() == [name]


@pytest.mark.parametrize("page", [437, 850, 852, 866, 932])
def test_short_names_alone_are_in_the_code_page(image: Path, page: int) -> None:
    """Written by a driver without long names: every byte that the page has."""
    codec = f"cp{page}"
    letters = []
    for byte in range(0x80, 0x100):
        try:
            letter = bytes([byte]).decode(codec)
        except UnicodeDecodeError:
            continue
        if letter.upper() == letter and letter.isalpha() and byte != 0xE5:
            letters.append(byte)
    content = bytearray(image.read_bytes())
    at = read_image(content).root_at
    for i, byte in enumerate(letters):
        name = bytes([byte, 0x41 + i % 26]) + b"%06d" % i + b"DAT"
        content[at + i * 32 : at + i * 32 + 12] = name + b"\x20"
    with px.open(content, "r+", codepage=page) as volume:
        names = volume.listdir()
        assert len(names) == len(letters) >= 16
        for byte, name in zip(letters, names, strict=True):
            assert name[0] == bytes([byte]).decode(codec)
            assert volume.read_bytes(f"/{name.lower()}") == b""
        for name in names:
            volume.unlink(f"/{name}")
        assert volume.listdir() == []


# ---- long names ----


@pytest.mark.parametrize("length", [1, 12, 13, 14, 25, 26, 27, 246, 247, 248, 254, 255])
def test_lengths_of_long_names(image: Path, length: int) -> None:
    """In units, around the borders of entries: a terminator only where there is room."""
    name = "ü" + "x" * (length - 1)
    write(image, [name])
    entry = raw(image).tree[f"/{name}"]
    assert entry.entries == 1 + -(-length // 13)
    assert fsck(image) == 1
    with px.open(image) as volume:
        assert volume.listdir() == [name]


def test_256_units_are_too_many(image: Path) -> None:
    with px.open(image, "r+") as volume:
        for name in ("x" * 256, "😀" * 128, "é" * 300):
            with pytest.raises(OSError, match="too long") as caught:
                volume.write_bytes(f"/{name}", b"")
            assert caught.value.errno == 36
        volume.write_bytes("/" + "😀" * 127 + "x", b"")
        assert len(volume.listdir()) == 1


def test_embedded_sdmmc_12_surrogates(image: Path) -> None:
    """Pairs at every place of an entry, and halves, as Windows writes them."""
    names = ["x" * i + "😀.txt" for i in range(16)]
    names += ["\ud83d half", "other \ude00", "\ude00\ud83d"]
    write(image, names)
    found = raw(image)
    assert found.children["/"] == names
    with px.open(image) as volume:
        assert volume.listdir() == names
        assert volume.read_bytes(f"/{names[5].upper()}").decode() == names[5]
    smiley = found.tree["/😀.txt"]
    entry = image.read_bytes()[smiley.offset : smiley.offset + 11]
    # As a Windows 11 has it: D83D DE00, then the dot.
    assert entry[1:11] == struct.pack("<5H", 0xD83D, 0xDE00, ord("."), ord("t"), ord("x"))


def long_entries(name: str, short: bytes) -> list[bytes]:
    """By hand, last part first."""
    units = list(struct.unpack(f"<{len(name)}H", name.encode("utf-16-le")))
    parts = -(-len(units) // 13)
    units += ([0] + [0xFFFF] * 13)[: parts * 13 - len(units)]
    out = []
    for order in range(parts, 0, -1):
        part = units[(order - 1) * 13 : order * 13]
        out.append(
            struct.pack(
                "<B5HBBB6HH2H",
                order | (0x40 if order == parts else 0),
                *part[:5],
                *(0x0F, 0, short_checksum(short)),
                *part[5:11],
                0,
                *part[11:],
            )
        )
    return out


def short_entry(short: bytes) -> bytes:
    return short + b"\x20" + bytes(20)


NAME, SHORT = "a name of three entries by hand", b"ANAMEO~1   "


def directory_with(image: Path, entries: list[bytes]) -> bytearray:
    """The root directory made of these entries."""
    content = bytearray(image.read_bytes())
    at = read_image(content).root_at
    raw_entries = b"".join(entries)
    content[at : at + len(raw_entries)] = raw_entries
    return content


def test_long_entries_by_hand(image: Path) -> None:
    """That what follows is broken by what is done to it, and nothing else."""
    content = directory_with(image, [*long_entries(NAME, SHORT), short_entry(SHORT)])
    assert read_image(content).children["/"] == [NAME]
    with px.open(content) as volume:
        assert volume.listdir() == [NAME]


def broken_sets() -> dict[str, list[bytes]]:
    """Entries of which no long name may be made; the short entry is always there."""
    good = long_entries(NAME, SHORT)
    short = short_entry(SHORT)
    other = long_entries(NAME, b"OTHER   TXT")
    deleted = [b"\xe5" + good[1][1:]]
    return {
        "checksum of another": [*other, short],
        "one checksum of another": [good[0], other[1], good[2], short],
        "first missing": [*good[1:], short],
        "last missing": [*good[:-1], short],
        "middle missing": [good[0], good[2], short],
        "twice": [good[0], good[1], good[1], good[2], short],
        "wrong way round": [*reversed(good), short],
        "one is deleted": [good[0], *deleted, good[2], short],
        "deleted in between": [*good, *deleted, short],
        "label in between": [*good, b"A LABEL    \x08" + bytes(20), short],
        "order 0": [b"\x40" + good[0][1:], *good[1:], short],
        "order 21": [b"\x55" + good[0][1:], *good[1:], short],
        "order 63": [b"\x7f" + good[0][1:], *good[1:], short],
        "terminator in the middle": [good[0], good[1][:1] + b"\0\0" + good[1][3:], good[2], short],
        "empty": [b"\x41\0\0" + good[0][3:], short],
    }


def test_sleuthkit_2617_a_name_behind_long_entries_of_nobody(image: Path) -> None:
    """Whatever comes to lie there is not taken for their file, even if the checksum fits."""
    orphans = long_entries(NAME, b"OTHER   TXT")
    content = directory_with(image, [*orphans, b"\xe5" + short_entry(b"GONE       ")[1:]])
    with px.open(content, "r+") as volume:
        volume.write_bytes("/other.txt", b"created")
        assert volume.listdir() == ["other.txt"]
        volume.rename("/other.txt", "/1.txt")
        volume.write_bytes("/2.txt", b"2")
        volume.rename("/1.txt", "/other.txt")
        assert set(volume.listdir()) == {"other.txt", "2.txt"}
    found = read_image(content)
    assert found.tree["/other.txt"].data == b"created"
    assert found.kinds() == {"long name"}
    content = directory_with(image, [*orphans, short_entry(b"SOME       ")])
    with px.open(content, "r+") as volume:
        volume.rename("/SOME", "/OTHER.TXT")
        assert volume.listdir() == ["OTHER.TXT"]
    assert read_image(content).children["/"] == ["OTHER.TXT"]


@pytest.mark.parametrize("what", broken_sets())
def test_sleuthkit_2617_long_entries_of_nobody(image: Path, what: str) -> None:
    """The file has its short name; the long entries are nobody's, and stay where they are."""
    content = directory_with(image, [*broken_sets()[what], short_entry(b"LAST       ")])
    before = bytes(content)
    with px.open(content) as volume:
        assert volume.listdir() == ["ANAMEO~1", "LAST"]
        assert volume.read_bytes("/anameo~1") == b""
        with pytest.raises(FileNotFoundError):
            volume.stat(f"/{NAME}")
    assert bytes(content) == before
    assert read_image(content).kinds() - {"label"} == {"long name"}
    with px.open(content, "r+") as volume:
        volume.write_bytes("/ANAMEO~1", b"content")
        volume.write_bytes("/a new name for it", b"")
        volume.unlink("/LAST")
        volume.rename("/ANAMEO~1", "/other.txt")
        assert set(volume.listdir()) == {"other.txt", "a new name for it"}
        assert volume.read_bytes("/OTHER.TXT") == b"content"
    found = read_image(content)
    assert set(found.children["/"]) == {"other.txt", "a new name for it"}
    assert found.kinds() <= {"long name", "label"}


def test_an_image_with_an_orphan(tmp_path: Path) -> None:
    """A driver of short names deleted long_name_test.txt and put SHORT.TXT there."""
    image = unpack("dfir-fat_lfn_test", tmp_path)
    with px.open(image) as volume:
        names = volume.listdir()
        assert volume.usage().clusters == facts("dfir-fat_lfn_test").clusters
        assert "SHORT.TXT" in names
        assert "long_name_test.txt" not in names
        assert len(names) == 17
    found = read_image(image.read_bytes())
    assert "long name" in found.kinds()
    assert found.children["/"] == names


def test_random_names(tmp_path: Path) -> None:
    """Whatever may be a name comes back as it was; aliases are legal and unique."""
    chance = random.Random(3)
    alphabet = "abcXYZ019. _-~+,;=[]{}éÜßИ日😀"
    image = made(tmp_path / "image", _geometry())
    kept: dict[str, bytes] = {}
    with px.open(image, "r+", tz="utc") as volume:
        volume.mkdir("/d")
        for i in range(1500):
            name = "".join(chance.choices(alphabet, k=chance.choice([1, 3, 8, 9, 13, 14, 30])))
            if name in (".", "..") or volume.exists(f"/d/{name}"):
                continue
            kept[name] = b"%d" % i
            volume.write_bytes(f"/d/{name}", kept[name])
    found = raw(image)
    assert set(found.children["/d"]) == set(kept)
    with px.open(image) as volume:
        for name, content in kept.items():
            entry = found.tree[f"/d/{name}"]
            assert volume.read_bytes(f"/d/{entry.short}") == content
            if "ß" not in name:  # whose capital letter is two in Python
                assert volume.read_bytes(f"/d/{name.swapcase()}") == content
    assert fsck(image) == 1 + len(kept)


def _geometry() -> Any:
    from peers.fat import Geometry

    return Geometry(16, 24 * MIB)


def test_exact_volumes_are_what_they_claim(tmp_path: Path) -> None:
    """Of the helper that makes them: fsck.fat has nothing against them."""
    for bits, clusters in ((12, 100), (12, 4084), (16, 4085), (16, 4087), (32, 65525)):
        image = exact(tmp_path / "image", bits, clusters)
        assert fsck(image) == 0
        assert (raw(image).bits, raw(image).clusters) == (bits, clusters)
