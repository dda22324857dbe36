"""Figures that the authors of five mechanisms published, as data.

Seconds are those of their machines and cards: what carries over are the ratios, how cost grows, and
(table 2) the bytes written.
"""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """Seconds before and after a mechanism was added; None: not published."""

    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """How many times faster it became."""
        if self.before is None or self.after is None:
            return None
        return self.before / self.after


class Written(NamedTuple):
    """KiB written to the card, before and after; None: not published."""

    before: int | None
    after: int | None


class Step(NamedTuple):
    """A row of a table: what was done, its seconds, and what it wrote where that was published."""

    seconds: Pair
    written: Written | None = None


EMPTY_SLOTS: dict[str, Step] = {
    "1-1000": Step(Pair(25.360, 22.168)),
    "1001-2000": Step(Pair(38.242, 28.72)),
    "2001-3000": Step(Pair(49.134, 35.037)),
    "3001-4000": Step(Pair(62.042, 41.624)),
    "4001-5000": Step(Pair(73.629, 46.772)),
}
"""Table 1: 5 x 1,000 files in one directory, synced after each 1,000, class-4 SD card."""

ENTRY_SETS: dict[tuple[str, int, str], Step] = {
    ("dirsync", 15, "create"): Step(Pair(30.637, 11.456), Written(3500, 562)),
    ("dirsync", 15, "unlink"): Step(Pair(21.740, 11.032), Written(2000, 562)),
    ("dirsync", 120, "create"): Step(Pair(45.393, 13.282), Written(7573, 1092)),
    ("dirsync", 120, "unlink"): Step(Pair(37.395, 12.432), Written(5500, 752)),
    ("dirsync", 255, "create"): Step(Pair(67.211, 15.826), Written(12335, 2170)),
    ("dirsync", 255, "unlink"): Step(Pair(58.517, 13.387), Written(10004, 1063)),
    ("lazy", 15, "create"): Step(Pair(None, 10.260), Written(None, 191)),
    ("lazy", 15, "unlink"): Step(Pair(None, 9.829), Written(None, 96)),
    ("lazy", 120, "create"): Step(Pair(None, 10.840), Written(None, 644)),
    ("lazy", 120, "unlink"): Step(Pair(None, 9.961), Written(None, 315)),
    ("lazy", 255, "create"): Step(Pair(None, 11.549), Written(None, 1028)),
    ("lazy", 255, "unlink"): Step(Pair(None, 9.994), Written(None, 594)),
}
"""Table 2: 1,000 creates, then 1,000 unlinks in a fresh directory, class-10 SDXC card; by sync
mode, length of the names and call."""

PREALLOCATE: dict[tuple[int, int, str, str, bool], Pair] = {
    (16, 512, "256 MiB", "ftruncate", False): Pair(9.576, 5.345),
    (16, 512, "256 MiB", "fallocate", False): Pair(9.634, 5.640),
    (16, 512, "1 MiB", "ftruncate", True): Pair(58.66, 0.362),
    (16, 512, "1 MiB", "fallocate", True): Pair(61.36, 0.390),
    (128, 512, "512 KiB", "ftruncate", False): Pair(0.433, 0.352),
    (128, 512, "512 KiB", "fallocate", False): Pair(0.446, 0.393),
    (128, 512, "64 KiB", "ftruncate", True): Pair(31.32, 0.429),
    (128, 512, "64 KiB", "fallocate", True): Pair(29.59, 0.410),
    (16, 4096, "256 MiB", "ftruncate", False): Pair(5.181, 4.417),
    (16, 4096, "256 MiB", "fallocate", False): Pair(5.166, 4.442),
    (16, 4096, "1 MiB", "ftruncate", True): Pair(9.294, 0.111),
    (16, 4096, "1 MiB", "fallocate", True): Pair(8.710, 0.110),
}
"""Table 3 (FAT): files, cluster size, length, call and whether it was synced."""

LARGE_DIRECTORY: dict[str, Pair] = {
    "real": Pair(589.48, 30.27),
    "user": Pair(4.72, 3.40),
    "sys": Pair(584.63, 26.83),
}
"""Table 5: 20,000 files, 4 GiB image, 32 KiB clusters, in an emulator with 4 processors."""
