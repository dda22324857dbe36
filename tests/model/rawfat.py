"""A plain reader of FAT12, FAT16 and FAT32 images that knows nothing of pyexfat: bytes in, tree and
violations out.

It walks everything by force, remembers nothing and trusts nothing; names in brackets are sections
of Microsoft's FAT specification. What it finds wrong becomes a Violation, and it goes on.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache

from model.rawexfat import RawVolume as ExfatVolume
from model.rawexfat import UnreadableError, Violation, text_of, units_of
from model.rawexfat import read_image as read_exfat

READ_ONLY, HIDDEN, SYSTEM, LABEL, DIRECTORY, ARCHIVE = 1, 2, 4, 8, 16, 32
LONG = 0x0F
DOT, DOTDOT = b".          ", b"..         "
FORBIDDEN = {*range(0x20), *map(ord, '"*/:<>?\\|')}
SHORT_FORBIDDEN = {*range(0x20), *b'"*+,./:;<=>?[\\]|', 0x7F}
DIRECTORY_MAX = 65536  # entries
UNIT_AT = (1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017

__all__ = ["RawEntry", "RawVolume", "UnreadableError", "Violation", "read_image", "short_checksum"]


@dataclass
class RawEntry:
    """One file or directory; the root has neither times nor a name."""

    path: str
    name: str  # the long one, else the short one as the NT bits say
    is_dir: bool
    short: str = ""  # upper case, as it is on the disk
    raw_short: bytes = b""
    has_long: bool = False
    case: int = 0  # NT bits
    data: bytes = b""
    size: int = 0
    attributes: int = 0
    created: int = 0  # ns since 1970 UTC; 0 where there is none
    modified: int = 0
    accessed: int = 0
    first_cluster: int = 0
    offset: int = 0  # of its first entry in the image
    index: int = 0  # of its first entry in the directory
    entries: int = 0
    clusters: list[int] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The word "dir" or "file"."""
        return "dir" if self.is_dir else "file"

    @property
    def valid(self) -> int:
        """All of the size: the format knows no less."""
        return self.size


@dataclass
class RawVolume:
    """All that was found: ``tree`` (the root is ``"/"``), ``children`` (names in disk order), …"""

    tree: dict[str, RawEntry] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    bits: int = 0
    sector_size: int = 0
    cluster_size: int = 0
    clusters: int = 0
    fats: int = 0
    used: int = 0  # clusters whose entry is not 0, but for those marked bad
    bad: int = 0
    free: int = 0
    serial: int | None = None
    label: str = ""  # of the root directory
    boot_label: str = ""
    media: int = 0
    dirty_boot: bool = False
    dirty_fat: bool = False
    hard_error: bool = False
    info_free: int | None = None  # FSInfo; None: there is none that could be read
    info_next: int | None = None
    fat: Sequence[int] = ()  # entries of the active FAT
    heap: int = 0  # byte offset of cluster 2
    fat_at: list[int] = field(default_factory=list)  # byte offset of each FAT
    root_at: int = 0  # byte offset of a fixed root directory

    @property
    def dirty(self) -> bool:
        """One of the marks says so."""
        return self.dirty_boot or self.dirty_fat

    def kinds(self) -> set[str]:
        """Words of the violations."""
        return {v.kind for v in self.violations}

    def fold(self, name: str) -> tuple[int, ...]:
        """A name as names are compared: unit by unit, in upper case."""
        table = upcase_table()
        return tuple(table[u] for u in units_of(name))


@lru_cache(maxsize=1)
def upcase_table() -> tuple[int, ...]:
    """The table that the exFAT specification recommends, which Windows has for FAT as well.

    It comes from an exFAT volume; its checksum is the one that the specification gives.
    """
    import pyexfat as px  # only as a source of the table, which the checksum proves

    device = px.Device.memory(4 << 20)
    with px.format(device, "exfat"):
        pass
    image = device.pread(device.size, 0)
    volume: ExfatVolume = read_exfat(image)
    heap = struct.unpack_from("<I", image, 88)[0] * volume.sector_size
    root = struct.unpack_from("<I", image, 96)[0]
    at = heap + (root - 2) * volume.cluster_size
    entries = (image[i : i + 32] for i in range(at, at + volume.cluster_size, 32))
    entry = next(e for e in entries if e[0] == 0x82)
    assert struct.unpack_from("<I", entry, 4)[0] == 0xE619D30D
    assert "upcase" not in volume.kinds()
    return volume.upper


def short_checksum(name: bytes) -> int:
    """Of the 11 bytes, as long entries have it [ChkSum]."""
    total = 0
    for byte in name:
        total = ((total & 1) << 7 | total >> 1) + byte & 0xFF
    return total


def decode(raw: bytes, codepage: str) -> str:
    """Bytes of a code page; what means nothing becomes U+FFFD."""
    return raw.decode(codepage, "replace")


def short_text(raw: bytes, codepage: str, case: int = 0) -> str:
    """The 11 bytes with their dot, in lower case where the NT bits say so."""
    if raw[0] == 0x05:
        raw = b"\xe5" + raw[1:]
    parts = []
    for part, bit in ((raw[:8], 0x08), (raw[8:11], 0x10)):
        text = decode(part.rstrip(b" "), codepage)
        if case & bit:
            text = "".join(c.lower() if "A" <= c <= "Z" else c for c in text)
        parts.append(text)
    return ".".join(parts) if parts[1] else parts[0]


def stamp_ns(date: int, time: int, ten_ms: int, east: int) -> int | None:
    """ns since 1970 UTC of a date and time ``east`` minutes east of UTC; None when it is none."""
    try:
        local = datetime(
            1980 + (date >> 9),
            date >> 5 & 15,
            date & 31,
            time >> 11,
            time >> 5 & 63,
            (time & 31) * 2,
            tzinfo=timezone.utc,  # noqa: UP017
        )
    except ValueError:
        return None
    if ten_ms > 199:
        return None
    since = local - _EPOCH
    return (since.days * 86400 + since.seconds - east * 60) * 10**9 + ten_ms * 10**7


class _Reader:
    def __init__(self, image: bytes, contents: bool, codepage: str, east: int) -> None:
        self.image = image
        self.contents = contents
        self.codepage = codepage
        self.east = east
        self.volume = RawVolume()
        self.owner: dict[int, str] = {}
        self.labels: list[bytes] = []
        self.root = 0
        self.root_entries = 0
        self.active = 0
        self.end = 0  # least value that ends a chain

    def bad(self, kind: str, where: str, detail: str = "") -> None:
        self.volume.violations.append(Violation(kind, where, detail))

    # ---- boot sector [Boot] ----

    def boot(self) -> None:
        image, volume = self.image, self.volume
        if len(image) < 512:
            raise UnreadableError("no boot sector")
        (
            sector,
            per_cluster,
            reserved,
            volume.fats,
            self.root_entries,
            total16,
            volume.media,
            size16,
        ) = struct.unpack_from("<HBHBHHBH", image, 11)
        total32, size32 = struct.unpack_from("<II", image, 32)
        if sector not in (512, 1024, 2048, 4096, 8192, 16384, 32768):
            raise UnreadableError(f"sectors of {sector} bytes")
        if per_cluster == 0 or per_cluster & (per_cluster - 1) or not volume.fats or not reserved:
            raise UnreadableError(f"{per_cluster} sectors a cluster, {volume.fats} FATs")
        volume.sector_size, volume.cluster_size = sector, sector * per_cluster
        is_32 = size16 == 0
        fat_sectors, total = size16 or size32, total16 or total32
        root_sectors = -(-self.root_entries * 32 // sector)
        data = reserved + volume.fats * fat_sectors + root_sectors
        if fat_sectors == 0 or data >= total:
            raise UnreadableError("no room for clusters")
        if total * sector > len(image):
            self.bad("boot", "TotalSectors", f"{total} sectors, image {len(image)} bytes")
        count = (total - data) // per_cluster
        volume.bits = 32 if is_32 else 16 if count > 4084 else 12
        room = fat_sectors * sector * 8 // volume.bits - 2
        if count > room:
            self.bad("boot", "FatSize", f"{room} entries for {count} clusters")
        most = {12: 4084, 16: 65524, 32: 268435444}[volume.bits]
        volume.clusters = min(count, room, most)
        self.end = {12: 0xFF8, 16: 0xFFF8, 32: 0x0FFFFFF8}[volume.bits]
        volume.heap = data * sector
        volume.root_at = (reserved + volume.fats * fat_sectors) * sector
        volume.fat_at = [(reserved + i * fat_sectors) * sector for i in range(volume.fats)]
        if volume.media != 0xF0 and volume.media < 0xF8:
            self.bad("boot", "Media", hex(volume.media))
        if is_32:
            self._fat32(reserved)
        self._extended(64 if is_32 else 36)

    def _fat32(self, reserved: int) -> None:
        flags, version, self.root, info, backup = struct.unpack_from("<HHIHH", self.image, 40)
        self.mirrored = not flags & 0x80
        if flags & 0x80:
            self.active = flags & 15
            if self.active >= self.volume.fats:
                raise UnreadableError(f"FAT {self.active} is active")
        if version:
            self.bad("boot", "Version", hex(version))
        self._info(info, reserved)
        sector = self.volume.sector_size
        if 0 < backup < reserved:
            copy = bytearray(self.image[backup * sector : (backup + 1) * sector])
            main = bytearray(self.image[:sector])
            main[65] = copy[65] = 0  # the marks of the copy may be old
            if main != copy:
                self.bad("backup", "boot sector", "differs from the backup")

    def _info(self, number: int, reserved: int) -> None:
        at = number * self.volume.sector_size
        if not 0 < number < reserved:
            return
        lead, mark = struct.unpack_from("<I480xI", self.image, at)
        trail = struct.unpack_from("<I", self.image, at + 508)[0]
        if (lead, mark, trail) != (0x41615252, 0x61417272, 0xAA550000):
            self.bad("fsinfo", "signatures", f"{lead:#x} {mark:#x} {trail:#x}")
            return
        free, following = struct.unpack_from("<II", self.image, at + 488)
        self.volume.info_free, self.volume.info_next = free, following

    def _extended(self, at: int) -> None:
        signature = self.image[at + 2]
        if signature in (0x28, 0x29):
            self.volume.dirty_boot = bool(self.image[at + 1] & 1)
            self.volume.hard_error = bool(self.image[at + 1] & 2)
            self.volume.serial = struct.unpack_from("<I", self.image, at + 3)[0]
        if signature == 0x29:
            text = decode(self.image[at + 7 : at + 18].rstrip(b" "), self.codepage)
            self.volume.boot_label = "" if text == "NO NAME" else text

    # ---- the FAT [FAT] ----

    def read_fat(self) -> None:
        volume = self.volume
        n = volume.clusters + 2
        size = -(-n * volume.bits // 8)
        raw = self.image[volume.fat_at[self.active] :][:size]
        volume.fat = active = self._entries(raw, n)
        if volume.bits != 32 or self.mirrored:
            for i, at in enumerate(volume.fat_at):
                copy = self._entries(self.image[at : at + size], n)
                if copy[:1] + copy[2:] != active[:1] + active[2:]:
                    self.bad("fat copies", f"FAT {i}", "differs from the active one")
                elif copy[1] != active[1]:
                    self.bad("mark copies", f"FAT {i}", "has other marks than the active one")
        ones = (1 << min(volume.bits, 28)) - 1
        if volume.fat[0] != (ones & ~0xFF | volume.media):
            self.bad("fat head", "FAT[0]", hex(volume.fat[0]))
        first = volume.fat[1]
        if volume.bits == 16:
            volume.dirty_fat = not first & 0x8000
            volume.hard_error |= not first & 0x4000
        elif volume.bits == 32:
            volume.dirty_fat = not first & 0x08000000
            volume.hard_error |= not first & 0x04000000
        marks = {12: 0, 16: 0xC000, 32: 0x0C000000}[volume.bits]
        if first | marks < self.end:
            self.bad("fat head", "FAT[1]", hex(first))

    def _entries(self, raw: bytes, n: int) -> list[int]:
        if self.volume.bits == 32:
            return [v & 0x0FFFFFFF for v in struct.unpack_from(f"<{n}I", raw)]
        if self.volume.bits == 16:
            return list(struct.unpack_from(f"<{n}H", raw))
        raw += b"\0"
        pairs = (struct.unpack_from("<H", raw, i + i // 2)[0] for i in range(n))
        return [v >> 4 if i & 1 else v & 0xFFF for i, v in enumerate(pairs)]

    def is_cluster(self, cluster: int) -> bool:
        return 2 <= cluster < self.volume.clusters + 2

    def chain(self, first: int, path: str) -> list[int]:
        """All clusters of a chain, each noted as owned."""
        found: list[int] = []
        seen: set[int] = set()
        at, crossed = first, False
        while True:
            if not self.is_cluster(at):
                detail = f"{at:#x} after {len(found)} clusters"
                self.bad("chain" if found else "first cluster", path, detail)
                return found
            if at in seen:
                self.bad("loop", path, f"cluster {at} comes again")
                return found
            other = self.owner.setdefault(at, path)
            if other != path and not crossed:
                self.bad("cross link", path, f"cluster {at} is of {other}, too")
                crossed = True
            seen.add(at)
            found.append(at)
            at = self.volume.fat[at]
            if at >= self.end:
                return found

    def bytes_of(self, clusters: list[int]) -> bytes:
        size, heap = self.volume.cluster_size, self.volume.heap
        if clusters and clusters == list(range(clusters[0], clusters[0] + len(clusters))):
            at = heap + (clusters[0] - 2) * size
            return self.image[at : at + len(clusters) * size]
        return b"".join(self.image[heap + (c - 2) * size : heap + (c - 1) * size] for c in clusters)

    # ---- directories [Dir] ----

    def walk(self) -> None:
        volume = self.volume
        root = RawEntry("/", "", True, attributes=DIRECTORY)
        if volume.bits == 32:
            root.first_cluster = self.root
            root.clusters = self.chain(self.root, "/")
            data = self.bytes_of(root.clusters)
        else:
            data = self.image[volume.root_at :][: self.root_entries * 32]
        volume.tree["/"] = root
        pending = [(root, root, data)]
        while pending:
            directory, parent, data = pending.pop()
            for entry in self._directory(directory, parent, data):
                pending.append((entry, directory, self.bytes_of(entry.clusters)))
        if len(self.labels) > 1:
            self.bad("label", "/", f"{len(self.labels)} of them")
        if self.labels:
            raw = self.labels[0]
            raw = b"\xe5" + raw[1:] if raw[0] == 0x05 else raw
            volume.label = decode(raw.rstrip(b" "), self.codepage)
        if self.labels and volume.serial is not None and volume.label != volume.boot_label:
            self.bad("label", "boot sector", f"{volume.boot_label!r} is not {volume.label!r}")

    def _directory(self, directory: RawEntry, parent: RawEntry, data: bytes) -> list[RawEntry]:
        path, total = directory.path, len(data) // 32
        directory.size = len(data)
        self.volume.children[path] = names = []
        below: list[RawEntry] = []
        shorts: dict[bytes, str] = {}
        folded: dict[tuple[int, ...], str] = {}
        pending: list[tuple[int, bytes]] = []  # long entries
        ended = False
        if total > DIRECTORY_MAX:
            self.bad("directory size", path, f"{total} entries")
        if path != "/":
            self._dots(directory, parent, data)
        for i in range(total):
            raw = data[i * 32 : i * 32 + 32]
            where = f"{path}[{i}]"
            if raw[0] in (0, 0xE5):
                ended = ended or raw[0] == 0
                self._nobody(pending, where)
                continue
            if ended:
                self.bad("after end", where, raw[:11].hex())
                continue
            if raw[11] & 0x3F == LONG:
                if raw[0] & 0x40:  # another name begins
                    self._nobody(pending, where)
                pending.append((i, raw))
                continue
            if raw[:11] in (DOT, DOTDOT):
                if path == "/" or i > 1:
                    self.bad("dot entries", where, "not at the start")
                self._nobody(pending, where)
                continue
            if raw[11] & LABEL:
                self._nobody(pending, where)
                if path != "/":
                    self.bad("label", where, "not in the root directory")
                else:
                    self.labels.append(raw[:11])
                continue
            entry = self._entry(directory, i, raw, pending)
            for name in {entry.name, entry.short}:
                key = self.volume.fold(name)
                if folded.setdefault(key, entry.path) != entry.path:
                    self.bad("duplicate", path, f"{folded[key]!r} and {entry.path!r}")
            if raw[:11] in shorts:
                self.bad("duplicate short", path, f"{shorts[raw[:11]]!r} and {entry.name!r}")
            shorts[raw[:11]] = entry.name
            names.append(entry.name)
            if entry.path in self.volume.tree:
                self.bad("duplicate", entry.path, "the very same name twice")
                continue
            self.volume.tree[entry.path] = entry
            if entry.is_dir:
                below.append(entry)
        self._nobody(pending, path)
        return below

    def _nobody(self, pending: list[tuple[int, bytes]], where: str) -> None:
        """Long entries that belong to no file."""
        if pending:
            self.bad("long name", where, f"{len(pending)} entries of nobody before it")
            pending.clear()

    def _dots(self, directory: RawEntry, parent: RawEntry, data: bytes) -> None:
        above = 0 if parent.path == "/" else parent.first_cluster
        wanted = ((DOT, directory.first_cluster), (DOTDOT, above))
        for i, (name, cluster) in enumerate(wanted):
            raw = data[i * 32 : i * 32 + 32]
            if raw[:11] != name:
                self.bad("dot entries", directory.path, f"{raw[:11]!r} where {name!r} should be")
            elif not raw[11] & DIRECTORY or raw[28:32] != bytes(4):
                self.bad("dot entries", directory.path, f"attributes {raw[11]:#x} or size")
            elif self._first(raw) != cluster:
                detail = f"{name.rstrip().decode()} has {self._first(raw)}, not {cluster}"
                self.bad("dot entries", directory.path, detail)

    def _first(self, raw: bytes) -> int:
        high, low = struct.unpack_from("<H4xH", raw, 20)
        return high << 16 | low if self.volume.bits == 32 else low

    def _entry(
        self, directory: RawEntry, index: int, raw: bytes, pending: list[tuple[int, bytes]]
    ) -> RawEntry:
        short = short_text(raw, self.codepage)
        long = self._long_name(directory, raw, pending)
        name = long if long is not None else short_text(raw, self.codepage, raw[12])
        entry = RawEntry(f"{directory.path.rstrip('/')}/{name}", name, bool(raw[11] & DIRECTORY))
        entry.short, entry.raw_short, entry.case = short, raw[:11], raw[12]
        entry.has_long = long is not None
        entry.entries = 1 + (len(pending) if long is not None else 0)
        entry.index = index - entry.entries + 1
        entry.attributes = raw[11]
        entry.offset = self._place(directory, entry.index)
        entry.first_cluster = self._first(raw)
        entry.size = struct.unpack_from("<I", raw, 28)[0]
        pending.clear()
        self._names(entry)
        self._times(entry, raw)
        self._content(entry)
        return entry

    def _place(self, directory: RawEntry, index: int) -> int:
        if not directory.clusters:
            return self.volume.root_at + index * 32
        per_cluster = self.volume.cluster_size // 32
        cluster = directory.clusters[index // per_cluster]
        at = self.volume.heap + (cluster - 2) * self.volume.cluster_size
        return at + index % per_cluster * 32

    def _long_name(
        self, directory: RawEntry, short: bytes, pending: list[tuple[int, bytes]]
    ) -> str | None:
        """The name that the long entries make up; None when they don't belong to this one."""
        if not pending:
            return None
        where = f"{directory.path}[{pending[0][0]}]"
        n = len(pending)
        orders = [raw[0] for _, raw in pending]
        sums = {raw[13] for _, raw in pending}
        if orders != [n | 0x40, *range(n - 1, 0, -1)] or sums != {short_checksum(short[:11])}:
            self.bad("long name", where, f"orders {orders}, checksums {sums}")
            return None
        if any(raw[12] or raw[26:28] != b"\0\0" for _, raw in pending):
            self.bad("long fields", where)
        units = [
            struct.unpack_from("<H", raw, at)[0] for _, raw in reversed(pending) for at in UNIT_AT
        ]
        length = units.index(0) if 0 in units else len(units)
        if not 13 * (n - 1) < length <= 255:
            self.bad("long name", where, f"{length} units in {n} entries")
            return None
        if any(u != 0xFFFF for u in units[length + 1 :]):
            self.bad("long padding", where)
        return text_of(units[:length])

    def _names(self, entry: RawEntry) -> None:
        units = units_of(entry.name)
        if entry.name in (".", "..") or FORBIDDEN & set(units):
            self.bad("bad name", entry.path, repr(entry.name))
        raw = entry.raw_short
        base, extension = raw[:8].rstrip(b" "), raw[8:].rstrip(b" ")
        if not base or raw[0] == 0x20:
            self.bad("bad short name", entry.path, repr(raw))
        body = base[1:] + extension if base[:1] == b"\x05" else base + extension
        if self.codepage not in ("cp932", "cp936", "cp949", "cp950"):  # bytes of pairs may be any
            lower = any(0x61 <= byte <= 0x7A for byte in body)
            if SHORT_FORBIDDEN & set(body) or lower or b" " in base + extension:
                self.bad("bad short name", entry.path, repr(raw))
        if entry.attributes & 0xC0:
            self.bad("attributes", entry.path, hex(entry.attributes))
        if entry.case & ~0x18 or (entry.has_long and entry.case):
            self.bad("case bits", entry.path, hex(entry.case))

    def _times(self, entry: RawEntry, raw: bytes) -> None:
        ten_ms, c_time, c_date, a_date, m_time, m_date = struct.unpack_from("<BHHH2xHH", raw, 13)
        stamps = (
            ("created", c_date, c_time, ten_ms),
            ("accessed", a_date, 0, 0),
            ("modified", m_date, m_time, 0),
        )
        for name, date, time, tenths in stamps:
            ns = stamp_ns(date, time, tenths, self.east)
            if ns is None and date:
                self.bad("time", entry.path, f"{name}: {date:#x} {time:#x} {tenths}")
            setattr(entry, name, ns or 0)

    def _content(self, entry: RawEntry) -> None:
        size = self.volume.cluster_size
        if entry.first_cluster or entry.is_dir:
            entry.clusters = self.chain(entry.first_cluster, entry.path)
        if entry.is_dir:
            if entry.size:
                self.bad("directory size", entry.path, f"{entry.size} in its entry")
            return
        wanted, there = -(-entry.size // size), len(entry.clusters)
        if there < wanted:
            self.bad("chain short", entry.path, f"{there} clusters of {wanted}")
        elif there > wanted:
            self.bad("chain long", entry.path, f"{there} clusters for {wanted}")
        if self.contents:
            entry.data = self.bytes_of(entry.clusters[:wanted])[: entry.size]

    # ---- the whole ----

    def space(self) -> None:
        volume = self.volume
        bad_mark = self.end - 1
        used = [c for c in range(2, volume.clusters + 2) if volume.fat[c]]
        lost = []
        for c in used:
            value = volume.fat[c]
            if c in self.owner:
                continue
            if value == bad_mark:
                volume.bad += 1
            else:
                lost.append(c)
        volume.used = len(used) - volume.bad
        volume.free = volume.clusters - len(used)
        if lost:
            self.bad("orphan", "FAT", f"{len(lost)} clusters: {lost[:8]}")
        free, following = volume.info_free, volume.info_next
        if free is not None and free not in (0xFFFFFFFF, volume.free):
            self.bad("fsinfo free", "FSInfo", f"{free}, right is {volume.free}")
        if following not in (None, 0xFFFFFFFF) and not self.is_cluster(following or 0):
            self.bad("fsinfo next", "FSInfo", str(following))
        if volume.dirty:
            marks = f"boot sector {volume.dirty_boot}, FAT {volume.dirty_fat}"
            self.bad("dirty", "marks", marks)
        if volume.hard_error:
            self.bad("hard error", "marks")


def read_image(
    image: bytes | bytearray | memoryview,
    *,
    contents: bool = True,
    codepage: str = "cp437",
    east: int = 0,
) -> RawVolume:
    """The whole volume at the start of ``image``; without contents files have no ``data``.

    ``east``: minutes by which its local time is ahead of UTC.

    Raises:
        UnreadableError: there is nothing to walk.
    """
    reader = _Reader(bytes(image), contents, codepage, east)
    reader.boot()
    reader.read_fat()
    reader.walk()
    reader.space()
    return reader.volume
