"""What the machines must know of a file system; another one joins by one more Driver."""

from __future__ import annotations

import re
import subprocess
import tempfile
from calendar import timegm
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from model import rawexfat, rawfat

MIB = 1 << 20
START = 1_700_000_000 * 10**9
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Driver:
    """A file system as the machines see it."""

    name: str  # as format() takes it
    geometries: st.SearchStrategy[dict[str, Any]]  # arguments of format()
    small: Callable[..., tuple[int, dict[str, Any]]]  # (cluster, size): size and arguments
    names: st.SearchStrategy[str]
    labels: st.SearchStrategy[str]
    read: Callable[..., Any]  # an independent reader of its images
    fsck: Callable[[bytes, dict[str, Any]], str | None]  # what a peer finds wrong, or None
    created_step: int  # ns that times are rounded down to
    modified_step: int
    access_step: int
    growth: int  # clusters that a directory may need to take one more name
    entries: Callable[[str], int]  # of a directory that a new name takes
    system: Callable[[int, int, dict[str, Any]], int]  # (clusters, their size, geometry): not free
    unclean: frozenset[str]  # what only a clean volume must have right
    root_room: Callable[[Any, bytes], int | None]  # free entries in a row in a root that can't grow
    root_in_heap: bool = True
    first_index: int = 0  # of the first name in a directory
    second_names: bool = False  # each entry answers to a short name, too
    has_valid_size: bool = True  # zeros at the end of a file are never written
    options: dict[str, Any] = field(default_factory=dict)  # of open() and format()
    offsets: tuple[int, ...] = (0,)  # minutes east of UTC that open() may be given
    zone: ZoneInfo | None = None  # whose local time stamps are, which say no offset
    start: int = START  # when the machines begin

    def open_options(self, east: int) -> dict[str, Any]:
        """Arguments of open() for a place that is ``east`` minutes ahead of UTC."""
        return {**self.options, **({"utc_offset": east} if len(self.offsets) > 1 else {})}

    def on_disk(self, ns: int, step: int) -> int:
        """A stamp in that many ns, as who takes local time for UTC reads it."""
        if self.zone is not None:
            local = datetime.fromtimestamp(ns // 10**9, self.zone)
            ns = timegm(local.timetuple()) * 10**9 + ns % 10**9
        return ns - ns % step

    def kept(self, ns: int, step: int) -> int:
        """What such a stamp comes back as: the first of the times that have it on the wall."""
        stored = self.on_disk(ns, step)
        if self.zone is None:
            return stored
        wall = _EPOCH + timedelta(seconds=stored // 10**9)
        return int(wall.replace(tzinfo=self.zone).timestamp()) * 10**9 + stored % 10**9

    def __str__(self) -> str:
        """For names of tests."""
        return self.name if self.zone is None else f"{self.name}-{self.zone.key}"


def units(name: str) -> int:
    """Length in UTF-16."""
    return len(name.encode("utf-16-le", "surrogatepass")) // 2


def run_fsck(image: bytes, *command: str) -> str | None:
    """Output of a program that judges an image when it finds anything."""
    with tempfile.NamedTemporaryFile(suffix=".img") as file:
        file.write(image)
        file.flush()
        run = subprocess.run([*command, file.name], capture_output=True, text=True, check=False)
    return None if run.returncode == 0 else run.stdout + run.stderr


# ---- exFAT ----

# Pairs that differ in case only, lengths at the borders of an entry, names of two surrogates and of
# one, characters whose case is special, spaces and dots at the ends.
_CHOSEN = [
    *[
        "a",
        "A",
        "b.txt",
        "B.TXT",
        "ä",
        "Ä",
        "straße.txt",
        "STRASSE.TXT",
        "ﬀ",
        "\u0131",
        "İ",
        "ǆ",
        "ǅ",
        "Ǆ",
    ],
    *("y" * 15, "y" * 16, "y" * 30, "y" * 31, "x" * 255, "X" * 255, "z" * 240),
    *("😀.png", "\ud800lone", "lone\udfff", "\udc80", "𐐨", "𐐀"),
    *("trailing.", "trailing..", "trailing ", " lead", "...", ".hidden", "a.", "a "),
]
# Each row has the same NameHash [7.6.4] for names of the same length (found by trying).
_COLLIDING = ["AAB", "AEA", "aad0", "aa05", "file0001", "file0040"]


def exfat_names() -> st.SearchStrategy[str]:
    """Names that may be created on exFAT."""
    free = st.text(alphabet="abAB. éÉßç😀\ud800", min_size=1, max_size=40)
    return st.one_of(
        st.sampled_from(_CHOSEN + _COLLIDING),
        st.sampled_from([f"n{i}" for i in range(8)]),
        free.filter(lambda name: name not in (".", "..")),
    )


@st.composite
def exfat_geometries(draw: st.DrawFn) -> dict[str, Any]:
    """Sector 512 to 4096, cluster 512 to 64 KiB, one or two FATs, 1 to 16 MiB."""
    sector = draw(st.sampled_from([512, 512, 1024, 2048, 4096]))
    clusters = [512 << i for i in range(8) if 512 << i >= sector]
    return {
        "sector_size": sector,
        "cluster_size": draw(st.sampled_from(clusters)),
        "size": draw(st.sampled_from([1, 1, 2, 3, 16])) * MIB,
        "fats": draw(st.sampled_from([1, 1, 1, 2])),
        "pack_bitmap": draw(st.booleans()),
        "label": draw(st.sampled_from(["", "CARD", "ÄÖÜ 12345678"[:11]])),
    }


def exfat_fsck(image: bytes, geometry: dict[str, Any]) -> str | None:
    """Output of ``fsck.exfat -n`` when it finds anything, None when clean or not to be asked."""
    if geometry["fats"] != 1:
        return None  # it knows no TexFAT
    return run_fsck(image, "fsck.exfat", "-n")


def exfat_small(cluster: int = 512, size: int = MIB) -> tuple[int, dict[str, Any]]:
    """Any cluster goes with any size."""
    return size, {"cluster_size": cluster}


def exfat_system(clusters: int, size: int, geometry: dict[str, Any]) -> int:
    """The bitmaps and the up-case table."""
    bitmap = -(-clusters // 8)
    return -(-bitmap // size) * int(geometry["fats"]) + -(-5836 // size)


EXFAT = Driver(
    name="exfat",
    geometries=exfat_geometries(),
    small=exfat_small,
    names=exfat_names(),
    labels=st.sampled_from(["", "A", "LABEL 12345", "ÄÖÜß", "😀"]),
    read=rawexfat.read_image,
    fsck=exfat_fsck,
    created_step=10_000_000,
    modified_step=10_000_000,
    access_step=2_000_000_000,
    growth=2,  # 19 entries, and 16 fit into the smallest cluster
    entries=lambda name: 2 + -(-units(name) // 15),
    system=exfat_system,
    unclean=frozenset({"dirty", "percent", "second fat", "second bitmap"}),
    root_room=lambda raw, image: None,
    offsets=(0, 60, -570, 345, -720),
)


# ---- FAT ----

# Names that are short or nearly so, and names that are the short ones of others.
_SHORT = [
    *("A.B", "lower.txt", "UPPER.TXT", "lower.UPP", "UPPER.low", "Mixed.Txt", "12345678.123"),
    *("longer name.txt", "longer name 2.txt", "Longer Names.txt", "LONGER~1.TXT", "longer~2.txt"),
    *("Longer~1.txt", "LONGER~3.TXT", "a b", "A+B", "AB~1", "Ab~1", "A_B~1", "ab~2", "a,b", "ÀÉ"),
    *("straße", "STRASS~1", "yyyyyy~1", "YYYYYY~2", "trailing", "TRAILI~1", "TRAILI~2.   "),
]
_PLAIN = re.compile(r"[!#$%&'()@^_`{}~0-9A-Za-z-]{1,8}(\.[!#$%&'()@^_`{}~0-9A-Za-z-]{1,3})?")
DAY = 86400 * 10**9


def fat_names() -> st.SearchStrategy[str]:
    """Names that may be created on FAT."""
    free = st.text(alphabet="abAB. ~1éÉßç+😀\ud800", min_size=1, max_size=40)
    return st.one_of(
        st.sampled_from(_SHORT),
        st.sampled_from(_CHOSEN),
        st.sampled_from([f"n{i}" for i in range(8)]),
        free.filter(lambda name: name not in (".", "..")),
    )


def fat_entries(name: str) -> int:
    """One where 8.3 and the case bits say all of it."""
    parts = name.split(".")
    if _PLAIN.fullmatch(name) and all(p in (p.upper(), p.lower()) for p in parts):
        return 1
    return 1 + -(-units(name) // 13)


def fat_small(bits: int, cluster: int = 512, size: int = MIB) -> tuple[int, dict[str, Any]]:
    """Clusters as large and a volume as small as the type allows, or as they should be."""
    while bits == 12 and size // cluster > 4000:
        cluster *= 2
    if bits == 16:
        size = max(size, 4300 * cluster)
    return size, {"cluster_size": cluster, "tz": "utc"}


@st.composite
def fat_geometries(draw: st.DrawFn, bits: int) -> dict[str, Any]:
    """Sectors of 512 to 4096, one to three FATs, roots of a sector or two, volumes to 16 MiB."""
    sector = draw(st.sampled_from([512, 512, 1024, 2048, 4096] if bits != 16 else [512, 512, 1024]))
    most = {12: 32768, 16: 1024, 32: 16384}[bits]
    cluster = draw(st.sampled_from([512 << i for i in range(8) if sector <= 512 << i <= most]))
    size = draw(st.sampled_from([1, 1, 2, 3, 8])) * MIB
    size, options = fat_small(bits, cluster, min(size, 8192 * cluster))
    options |= {
        "size": size,
        "sector_size": sector,
        "fats": draw(st.sampled_from([2, 2, 1, 3])),
        "alignment": draw(st.sampled_from([None, sector])),
        "label": draw(st.sampled_from(["", "CARD", "ÄÖÜ 1234567"])),
    }
    if bits != 32:
        options["fat"] = {"root_entries": draw(st.sampled_from([0, 16, 64, 112]))}
    return options


def fat_fsck(image: bytes, geometry: dict[str, Any]) -> str | None:
    """Output of ``fsck.fat -n`` when it finds more than a volume left marked dirty."""
    if geometry["fats"] > 2 or not geometry["label"].isascii():
        return None  # it knows no such volumes
    raw = rawfat.read_image(image, contents=False)
    unmarked = bytearray(image)
    unmarked[65 if raw.bits == 32 else 37] &= 0xFE
    for at in raw.fat_at if raw.bits != 12 else []:
        unmarked[at + raw.bits // 4 - 1] |= {16: 0x80, 32: 0x08}[raw.bits]
    said = run_fsck(bytes(unmarked), "fsck.fat", "-n")
    return None if said and raw.dirty and _ONLY_SUMMARY.fullmatch(said) else said


_ONLY_SUMMARY = re.compile(
    r"fsck.*\nFree cluster summary wrong .*\n  Auto-correcting\.\n"
    r"\nLeaving filesystem unchanged\.\n.*\n(Warning: (.*\n){3})?"
)


def fat_root_room(raw: Any, image: bytes) -> int | None:
    """The longest run of free entries in a root of fixed size; None in one that can grow."""
    if raw.bits == 32:
        return None
    at, total = raw.root_at, raw.tree["/"].size // 32
    marks = bytes(image[at + 32 * i] for i in range(total))
    ended = marks.find(0)
    if ended >= 0:  # what follows the end is free
        marks = marks[:ended].ljust(total, b"\xe5")
    return max(map(len, re.findall(b"\xe5*", marks)))


def fat_driver(bits: int) -> Driver:
    """FAT12, FAT16 or FAT32."""
    return Driver(
        name=f"fat{bits}",
        geometries=fat_geometries(bits),
        small=partial(fat_small, bits),
        names=fat_names(),
        labels=st.sampled_from(["", "A", "LABEL 12345", "ÄÖÜß", "E5 Σ"]),
        read=rawfat.read_image,
        fsck=fat_fsck,
        created_step=10_000_000,
        modified_step=2_000_000_000,
        access_step=DAY,
        growth=2,  # 21 entries, and 16 fit into the smallest cluster
        entries=fat_entries,
        system=lambda clusters, size, geometry: 0,
        unclean=frozenset({"dirty", "fsinfo free", "fat copies", "mark copies"}),
        root_room=fat_root_room,
        root_in_heap=bits == 32,
        first_index=2,
        second_names=True,
        has_valid_size=False,
        options={"tz": "utc"},
    )


FAT12, FAT16, FAT32 = fat_driver(12), fat_driver(16), fat_driver(32)
FAT_DRIVERS = [FAT12, FAT16, FAT32]
DRIVERS = [EXFAT, *FAT_DRIVERS]


def in_zone(driver: Driver, name: str, *change: int) -> Driver:
    """The driver with stamps in another zone, from half an hour before a change of its clocks."""
    start = timegm((*change, 0, 0)) * 10**9 - 1800 * 10**9
    zone, options = ZoneInfo(name), {**driver.options, "tz": name}
    return replace(driver, zone=zone, start=start, options=options)


# An hour that comes twice, a midnight that does not come, and a change by half an hour.
ZONED = [
    in_zone(FAT12, "Europe/Berlin", 2024, 10, 27, 1),
    in_zone(FAT16, "America/Sao_Paulo", 2018, 11, 4, 3),
    in_zone(FAT32, "Australia/Lord_Howe", 2024, 4, 6, 15),
]


# ---- what all have in common ----


def policies() -> st.SearchStrategy[dict[str, Any]]:
    """Every combination of the mechanisms, with budgets from none to plenty."""
    return st.fixed_dictionaries(
        {
            "empty_hint": st.sampled_from(["off", "one-shot", "retained"]),
            "name_filter": st.booleans(),
            "name_index": st.booleans(),
            "entry_sync": st.sampled_from(["entry", "set"]),
            "preallocate": st.booleans(),
            "free_scan": st.sampled_from(["element", "block", "index"]),
            "discard": st.booleans(),
            "memory_budget": st.sampled_from([64 << 20, 0, 64 << 10, 1 << 20]),
        }
    )


SYNC_MODES = st.sampled_from(["lazy", "lazy", "dirsync", "sync"])
