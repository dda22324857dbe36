"""Tools of others for FAT (mkfs.fat, fsck.fat, mtools), and trees as they see them."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from conftest import require_tool
from model.rawfat import RawVolume, read_image

from peers import trees
from peers.images import row
from peers.tools import MIB, new_image, run, run_well
from peers.trees import SECOND, Item, Tree

# What mtools is told: no complaint about odd geometries, local time is UTC, any name as UTF-8.
_MTOOLS = {"MTOOLS_SKIP_CHECK": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", "MTOOLSRC": os.devnull}


@dataclass(frozen=True)
class Geometry:
    """Arguments of mkfs.fat."""

    bits: int
    size: int
    sector: int = 512
    per_cluster: int = 1
    fats: int = 2
    root_entries: int = 0

    def __str__(self) -> str:
        """For names of tests."""
        return f"fat{self.bits}-{self.sector}x{self.per_cluster}-{self.fats}"


# Names that fit 8.3, or nearly.
SHORT_NAMES = ["A.B", "lower.txt", "UPPER.TXT", "lower.UPP", "UPPER.low", "Mixed.Txt", "a", "x.y.z"]

# All types, sector sizes, cluster sizes and numbers of FATs, if not each with each.
GEOMETRIES = [
    Geometry(12, 1 * MIB),
    Geometry(12, 2 * MIB, per_cluster=2, fats=1),
    Geometry(12, 16 * MIB, sector=1024, per_cluster=8, fats=3),
    Geometry(12, 64 * MIB, sector=4096, per_cluster=16, fats=4),
    Geometry(16, 4 * MIB, fats=1),
    Geometry(16, 24 * MIB, per_cluster=4),
    Geometry(16, 64 * MIB, sector=2048, per_cluster=2, fats=3),
    Geometry(16, 300 * MIB, per_cluster=128, fats=2),
    Geometry(16, 400 * MIB, sector=4096, per_cluster=16),
    Geometry(32, 36 * MIB),
    Geometry(32, 70 * MIB, sector=1024, fats=1),
    Geometry(32, 300 * MIB, per_cluster=8, fats=3),
    Geometry(32, 300 * MIB, sector=4096, fats=4),
]


def made(path: Path, geometry: Geometry, *options: str) -> Path:
    """An image of this geometry by mkfs.fat."""
    command = [require_tool("mkfs.fat"), "-F", str(geometry.bits), "-S", str(geometry.sector)]
    command += ["-s", str(geometry.per_cluster), "-f", str(geometry.fats)]
    if geometry.root_entries:
        command += ["-r", str(geometry.root_entries)]
    run_well(*command, *options, new_image(path, geometry.size))
    return path


def small(bits: int, path: Path, clusters: int | None = None, per_cluster: int = 1) -> Path:
    """A volume of few clusters of 512 bytes (and of exactly that many) of the type ``bits``."""
    if clusters is None:
        clusters = {12: 2000, 16: 5000, 32: 66000}[bits]
    # mkfs.fat would round and align, so the boot sector is written here.
    return exact(path, bits, clusters, per_cluster=per_cluster)


def exact(
    path: Path,
    bits: int,
    clusters: int,
    *,
    sector: int = 512,
    per_cluster: int = 1,
    fats: int = 2,
    root_entries: int = 512,
    fat_sectors: int = 0,
) -> Path:
    """An empty volume with exactly that many clusters; byte for byte from the specification."""
    root_entries = 0 if bits == 32 else root_entries
    reserved = 32 if bits == 32 else 1
    need = -(-(clusters + 2) * bits // 8)
    fat_sectors = fat_sectors or -(-need // sector)
    root_sectors = -(-root_entries * 32 // sector)
    total = reserved + fats * fat_sectors + root_sectors + clusters * per_cluster
    boot = bytearray(sector)
    boot[0:11] = b"\xeb\x58\x90MSWIN4.1"
    total16 = total if bits != 32 and total < 65536 else 0
    struct.pack_into(
        "<HBHBHHBHHHII",
        boot,
        11,
        *(sector, per_cluster, reserved, fats, root_entries, total16, 0xF8),
        *(0 if bits == 32 else fat_sectors, 63, 255, 0, 0 if total16 else total),
    )
    at = 36
    if bits == 32:
        struct.pack_into("<IHHIHH", boot, 36, fat_sectors, 0, 0, 2, 1, 6)
        at = 64
    struct.pack_into("<BBBI11s8s", boot, at, 0x80, 0, 0x29, 0xC0FFEE42, b"NO NAME    ", b"FAT     ")
    boot[at + 18 : at + 26] = f"FAT{bits}   ".encode()
    boot[510:512] = b"\x55\xaa"
    head = {12: b"\xf8\xff\xff", 16: b"\xf8\xff\xff\xff"}.get(bits) or struct.pack(
        "<III", 0x0FFFFFF8, 0x0FFFFFFF, 0x0FFFFFFF
    )
    new_image(path, total * sector)
    with path.open("r+b") as image:
        image.write(boot)
        if bits == 32:
            info = bytearray(sector)
            struct.pack_into("<I", info, 0, 0x41615252)
            struct.pack_into("<III", info, 484, 0x61417272, clusters - 1, 2)
            struct.pack_into("<I", info, 508, 0xAA550000)
            for number, content in ((1, info), (6, boot), (7, info)):
                image.seek(number * sector)
                image.write(content)
        for copy in range(fats):
            image.seek((reserved + copy * fat_sectors) * sector)
            image.write(head)
    return path


def raw(image: Path, **options: object) -> RawVolume:
    """What the independent reader finds, which must break no rule."""
    found = read_image(image.read_bytes(), **options)  # type: ignore[arg-type]
    assert [str(violation) for violation in found.violations] == []
    return found


# ---- fsck.fat ----


def fsck(image: Path) -> int:
    """Files that fsck.fat counts, directories too; it must have no complaint."""
    said = run_well(require_tool("fsck.fat"), "-n", image)
    lines = said.splitlines()
    assert len(lines) == 2, said
    found = re.search(r": (\d+) files, (\d+)/(\d+) clusters$", lines[1])
    assert found is not None, said
    return int(found[1])


def fsck_allows(image: Path) -> bool:
    """Whether fsck.fat takes this number of FATs: it knows one and two."""
    with image.open("rb") as file:
        return file.read(17)[16] <= 2


# ---- mtools ----


def mtools(name: str, *arguments: str | Path) -> str:
    """What a command of mtools prints, which must end well."""
    return run_well(require_tool(name), *arguments, env=_MTOOLS)


def mtools_fails(name: str, *arguments: str | Path) -> str:
    """What it prints when it must fail."""
    ended = run(require_tool(name), *arguments, env=_MTOOLS)
    assert ended.returncode != 0, ended.stdout
    return ended.stdout + ended.stderr


def mtools_tree(image: Path, scratch: Path) -> Tree:
    """What ``mcopy -s -p -m`` takes out: names, content, times, the read-only attribute."""
    scratch.mkdir()
    names = mtools("mdir", "-i", image, "-b", "-a", "::/").splitlines()
    if names:
        mtools("mcopy", "-s", "-p", "-m", "-n", "-i", image, "::/*", scratch)
    return trees.of_host(scratch)


_ROW = re.compile(
    r"^(?P<base>.{8})(?: (?P<ext>.{3})|    ) +(?P<size><DIR>|[\d ]+?) +"
    r"(?P<stamp>\d{4}-\d\d-\d\d +\d+:\d\d) *(?: (?P<long>.*))?$"
)


def mdir(image: Path, directory: str = "/") -> dict[str, tuple[str, int]]:
    """The lines of mdir: short name -> (long name or "", size or -1 of a directory)."""
    found = {}
    for line in mtools("mdir", "-a", "-i", image, f"::{directory}").splitlines():
        match = _ROW.match(line)
        if match is None:
            continue
        base, extension = match["base"].rstrip(), (match["ext"] or "").rstrip()
        short = f"{base}.{extension}" if extension else base
        size = -1 if match["size"] == "<DIR>" else int(match["size"].replace(" ", ""))
        found[short] = ((match["long"] or "").strip(), size)
    return found


def minfo(image: Path) -> dict[str, str]:
    """The fields that minfo prints."""
    said = mtools("minfo", "-i", image)
    pairs = re.findall(r"^([^:=\n]+?)[:=] *(.*)$", said, re.MULTILINE)
    return {name.strip(): value.strip() for name, value in pairs}


def mshowfat(image: Path, path: str) -> list[int]:
    """The clusters of a file, by mshowfat."""
    said = mtools("mshowfat", "-i", image, f"::{path}")
    clusters: list[int] = []
    for first, last in re.findall(r"<(\d+)(?:-(\d+))?>", said):
        clusters.extend(range(int(first), int(last or first) + 1))
    return clusters


# ---- trees ----


def as_fat(tree: Tree) -> Tree:
    """The tree as FAT holds it: a step of two seconds."""
    return {
        path: replace(item, modified=item.modified // (2 * SECOND) * (2 * SECOND))
        for path, item in tree.items()
    }


def as_mtools_sees(tree: Tree) -> Tree:
    """The tree as far as mcopy gives it to the host: no attributes; 2100 is a leap year to it."""
    return {
        path: replace(item, modified=min(item.modified, trees.ns(2100, 1, 1)), read_only=False)
        for path, item in as_fat(tree).items()
    }


def of_raw(found: RawVolume) -> Tree:
    """The tree of the independent reader."""
    return {
        path.strip("/"): Item(
            entry.is_dir,
            0 if entry.is_dir else entry.size,
            "" if entry.is_dir else trees.digest(entry.data),
            entry.modified,
            bool(entry.attributes & 1),
        )
        for path, entry in found.tree.items()
        if path != "/"
    }


class Filler(trees.Filler):
    """One of everything, but for names that mtools can't spell or that end it."""

    def names(self) -> None:
        """Without surrogates and without names that are too long for the host."""
        self.directory("names")
        for i, name in enumerate([*trees.NAMES, *SHORT_NAMES]):
            if len(name.encode()) <= 255 and all(c < "\U00010000" for c in name):
                self.file(f"names/{name}", i)


# ---- the index of images ----


@dataclass(frozen=True)
class Facts:
    """What others found on a FAT image."""

    sector: int
    per_cluster: int
    fats: int
    clusters: int
    offset: int


def facts(name: str) -> Facts:
    """The numbers in the column on_disk_facts, of the first volume."""
    text = row(name)["on_disk_facts"]
    match = re.search(
        r"(?:@(\d+) )?FAT OEM .*? sector (\d+) spc (\d+) reserved \d+ FATs (\d+) .*?"
        r"clusters (\d+)",
        text,
    )
    assert match is not None, text
    offset, sector, per_cluster, fats, clusters = match.groups()
    return Facts(int(sector), int(per_cluster), int(fats), int(clusters), int(offset or 0))
