"""Where the structures of a volume lie, and which clusters are taken: what a picture needs beyond
the files.

Reads through ``read(offset, length)`` only, from the start of the volume, and trusts nothing that
it reads: what can't be is left out.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import unpack_from

Read = Callable[[int, int], bytes]
Run = tuple[int, int]
"""First cluster counted from the start of the heap, and how many."""

_PIECE = 1 << 20  # bytes of a bitmap at a time
_LAST_CLUSTER = 0xFFFFFFF6
_BITMAP, _UPCASE = 0x81, 0x82  # entry types
_DIRECTORY = 256 << 20  # the longest directory (section 7.4)
_UPCASE_MOST = 128 << 10  # 65,536 units, not compressed (section 7.2.5)


@dataclass(frozen=True)
class Layout:
    """The cluster heap of a volume; ``system`` are the runs of structures that no path leads to, by
    name.
    """

    heap_offset: int
    cluster_size: int
    clusters: int
    system: list[tuple[str, Run]]
    bitmap: list[Run]
    read: Read
    table: tuple[int, int] | None = None
    """FAT12/16/32 have no bitmap: byte offset of the active FAT and bits of an entry."""

    def taken(self) -> Iterator[tuple[int, bytes]]:
        """The allocation bitmap in order: index of the first cluster (a multiple of 8), and its
        bytes.
        """
        if self.table is not None:
            yield from _taken_by_fat(self.read, *self.table, self.clusters)
        position, end = 0, -(-self.clusters // 8)
        for first, count in self.bitmap:
            start = self.heap_offset + first * self.cluster_size
            length = min(count * self.cluster_size, end - position)
            for at in range(0, length, _PIECE):
                piece = self.read(start + at, min(_PIECE, length - at))
                yield (position + at) * 8, piece
            position += length


def exfat_layout(read: Read, boot_offset: int = 0) -> Layout:
    """The layout of an exFAT volume by the boot sector at ``boot_offset`` (exFAT specification,
    section 3.1).

    Raises ValueError when there is no exFAT boot sector.
    """
    boot = read(boot_offset, 512)
    if boot[3:11] != b"EXFAT   ":
        raise ValueError("no exFAT boot sector")
    fat_at, fat_length, heap_at, clusters, root = unpack_from("<IIIII", boot, 80)
    active = unpack_from("<H", boot, 106)[0] & 1 if boot[110] == 2 else 0
    sector_shift, cluster_shift = boot[108], boot[109]
    if not 9 <= sector_shift <= 12 or cluster_shift > 25 - sector_shift:
        raise ValueError("no sector or cluster size that exFAT has")
    sector, cluster = 1 << sector_shift, 1 << (sector_shift + cluster_shift)
    chains = _Chains(read, (fat_at + active * fat_length) * sector, clusters)
    heap = heap_at * sector
    system: list[tuple[str, Run]] = []
    bitmaps: dict[int, list[Run]] = {}
    directory = chains.runs(root, -(-_DIRECTORY // cluster))
    for kind, flags, first, length in _root_structures(read, heap, cluster, directory):
        # What is longer than it can be is cut, since its chain may be a loop.
        most = -(-clusters // 8) if kind == _BITMAP else _UPCASE_MOST
        runs = chains.runs(first, -(-min(length, most) // cluster))
        name = "allocation bitmap" if kind == _BITMAP else "up-case table"
        system += [(name, run) for run in runs]
        if kind == _BITMAP:
            bitmaps.setdefault(flags & 1, runs)
    bitmap = bitmaps.get(active) or bitmaps.get(0) or []
    return Layout(heap, cluster, clusters, system, bitmap, read)


def fat_layout(read: Read, clusters: int, cluster_size: int, bits: int) -> Layout:
    """The layout of a FAT volume that the driver has opened: so many clusters of this size, and so
    many bits in an entry of the FAT.
    """
    boot = read(0, 512)
    sector = unpack_from("<H", boot, 11)[0]
    reserved, fats, root_entries = unpack_from("<HBH", boot, 14)
    length = unpack_from("<H", boot, 22)[0] or unpack_from("<I", boot, 36)[0]
    flags = unpack_from("<H", boot, 40)[0] if bits == 32 else 0
    active = flags & 15 if flags & 0x80 else 0
    root = -(-root_entries * 32 // sector) if bits != 32 and sector else 0
    heap = (reserved + fats * length + root) * sector
    table = ((reserved + active * length) * sector, bits)
    return Layout(heap, cluster_size, clusters, [], [], read, table)


def _taken_by_fat(read: Read, offset: int, bits: int, clusters: int) -> Iterator[tuple[int, bytes]]:
    """A bit for each cluster whose entry in the FAT is not 0, some thousands at a time."""
    step = 1 << 15
    for first in range(0, clusters, step):
        count = min(step, clusters - first)
        begin, end = (first + 2) * bits, (first + count + 2) * bits  # in bits of the FAT
        block = read(offset + begin // 8, -(-end // 8) - begin // 8)
        taken = bytearray(-(-count // 8))
        for index, value in enumerate(_entries(block, bits, count)):
            if value:
                taken[index >> 3] |= 1 << (index & 7)
        yield first, bytes(taken)


def _entries(block: bytes, bits: int, count: int) -> Iterator[int]:
    if bits == 12:  # an even first entry begins a byte
        for index in range(count):
            at = index * 3 // 2
            pair = int.from_bytes(block[at : at + 2], "little")
            yield pair >> 4 if index % 2 else pair & 0xFFF
        return
    values = array("H" if bits == 16 else "I", block)
    if sys.byteorder == "big":
        values.byteswap()
    mask = 0xFFFF if bits == 16 else 0x0FFFFFFF
    for value in values[:count]:
        yield value & mask


def _root_structures(
    read: Read, heap: int, cluster: int, runs: list[Run]
) -> Iterator[tuple[int, int, int, int]]:
    """Type, flags, first cluster and length of the bitmap and up-case entries (sections 7.1 and
    7.2).
    """
    piece = min(4096, cluster)
    for first, count in runs:
        for at in range(0, count * cluster, piece):
            block = read(heap + first * cluster + at, piece)
            for entry in range(0, len(block) - 31, 32):
                kind, flags = block[entry], block[entry + 1]
                if kind == 0:
                    return
                if kind in (_BITMAP, _UPCASE):
                    yield kind, flags, *unpack_from("<IQ", block, entry + 20)


class _Chains:
    """Chains of a FAT (section 4.1), read a block at a time."""

    _BLOCK = 1 << 16

    def __init__(self, read: Read, offset: int, clusters: int) -> None:
        self._read = read
        self._offset = offset
        self._clusters = clusters
        self._at = -1
        self._block = b""

    def _next(self, cluster: int) -> int:
        at, within = divmod(cluster * 4, self._BLOCK)
        if at != self._at:
            length = min(self._BLOCK, (self._clusters + 2) * 4 - at * self._BLOCK)
            self._at, self._block = at, self._read(self._offset + at * self._BLOCK, length)
        return int.from_bytes(self._block[within : within + 4], "little")

    def runs(self, first: int, limit: int) -> list[Run]:
        """The chain from ``first`` as runs, at most ``limit`` clusters and never more than there
        are.
        """
        runs: list[Run] = []
        cluster = first
        left = min(limit, self._clusters)
        while left > 0 and 2 <= cluster <= min(self._clusters + 1, _LAST_CLUSTER):
            start, count = runs[-1] if runs else (-1, 0)
            if runs and start + count == cluster - 2:
                runs[-1] = (start, count + 1)
            else:
                runs.append((cluster - 2, 1))
            left -= 1
            cluster = self._next(cluster)
        return runs
