"""What the machines must know of a file system; another one joins by one more Driver."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from model import rawexfat

MIB = 1 << 20


@dataclass(frozen=True)
class Driver:
    """A file system as the machines see it."""

    name: str
    geometries: st.SearchStrategy[dict[str, Any]]  # arguments of format()
    names: st.SearchStrategy[str]
    read: Callable[[bytes], Any]  # an independent reader of its images
    fsck: Callable[[bytes, dict[str, Any]], str | None]  # what a peer finds wrong, or None
    time_step: int  # ns that creation and change are rounded down to
    access_step: int
    growth: int  # clusters that a directory may need to take one more name


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
    with tempfile.NamedTemporaryFile(suffix=".img") as file:
        file.write(image)
        file.flush()
        run = subprocess.run(
            ["fsck.exfat", "-n", file.name], capture_output=True, text=True, check=False
        )
    return None if run.returncode == 0 else run.stdout + run.stderr


EXFAT = Driver(
    name="exfat",
    geometries=exfat_geometries(),
    names=exfat_names(),
    read=rawexfat.read_image,
    fsck=exfat_fsck,
    time_step=10_000_000,
    access_step=2_000_000_000,
    growth=2,  # 19 entries, and 16 fit into the smallest cluster
)


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
