"""A plain reader of exFAT images that knows nothing of pyexfat: bytes in, tree and violations out.

It walks everything by force, remembers nothing and trusts nothing; numbers in brackets are sections
of the exFAT specification. What it finds wrong becomes a Violation, and it goes on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache

IN_USE, SECONDARY, BENIGN = 0x80, 0x40, 0x20
BITMAP, UPCASE, LABEL, FILE, GUID = 0x81, 0x82, 0x83, 0x85, 0xA0
STREAM, NAME = 0xC0, 0xC1
DIRECTORY, READ_ONLY = 0x10, 0x01
FAT_END, FAT_BAD = 0xFFFFFFFF, 0xFFFFFFF7
STANDARD_UPCASE = 0xE619D30D  # checksum of the recommended table [7.2.5.1]
FORBIDDEN = {*range(0x20), *map(ord, '"*/:<>?\\|')}
DIRECTORY_MAX = 256 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017


@dataclass(frozen=True)
class Violation:
    """A rule that the image breaks: ``kind`` is a stable word, the rest is for people."""

    kind: str
    where: str
    detail: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind} at {self.where}: {self.detail}"


@dataclass
class RawEntry:
    """One file or directory; the root has neither times nor a name."""

    path: str
    name: str
    is_dir: bool
    data: bytes = b""  # of a file; what lies past ValidDataLength is zeros
    size: int = 0
    valid: int = 0
    attributes: int = 0
    created: int = 0  # ns since 1970 UTC
    modified: int = 0
    accessed: int = 0
    first_cluster: int = 0
    contiguous: bool = False
    offset: int = 0  # of its first entry in the image
    index: int = 0  # of its first entry in the directory
    entries: int = 0
    stream_flags: int = 0
    clusters: list[int] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Either "dir" or "file"."""
        return "dir" if self.is_dir else "file"


@dataclass
class RawVolume:
    """All that was found: ``tree`` by path, ``children`` as names in the order of the disk."""

    tree: dict[str, RawEntry] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    sector_size: int = 0
    cluster_size: int = 0
    clusters: int = 0
    used: int = 0
    serial: int = 0
    label: str = ""
    guid: bytes | None = None
    flags: int = 0
    percent: int = 0
    upper: tuple[int, ...] = ()
    bitmap_length: int = 0

    @property
    def dirty(self) -> bool:
        """VolumeDirty [3.1.13.2]."""
        return bool(self.flags & 2)

    @property
    def hard_error(self) -> bool:
        """MediaFailure [3.1.13.3]."""
        return bool(self.flags & 4)

    def kinds(self) -> set[str]:
        """Words of the violations."""
        return {v.kind for v in self.violations}

    def fold(self, name: str) -> tuple[int, ...]:
        """A name as the volume compares it."""
        return tuple(self.upper[u] for u in units_of(name))


def units_of(name: str) -> tuple[int, ...]:
    """UTF-16 code units; lone surrogates stand for themselves."""
    raw = name.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(raw) // 2}H", raw)


def text_of(units: tuple[int, ...] | list[int]) -> str:
    """The str of code units."""
    return struct.pack(f"<{len(units)}H", *units).decode("utf-16-le", "surrogatepass")


def rotate_sum16(data: bytes, skip: tuple[int, ...] = ()) -> int:
    """SetChecksum [6.3.3] and NameHash [7.6.4]."""
    s = 0
    for i, byte in enumerate(data):
        if i not in skip:
            s = ((s >> 1 | s << 15) + byte) & 0xFFFF
    return s


@lru_cache(maxsize=64)
def rotate_sum32(data: bytes, skip: tuple[int, ...] = ()) -> int:
    """Checksums of the boot region [3.4] and the up-case table [7.2.2]."""
    s = 0
    for i, byte in enumerate(data):
        if i not in skip:
            s = ((s >> 1 | s << 31) + byte) & 0xFFFFFFFF
    return s


@lru_cache(maxsize=8)
def expand_upcase(table: bytes) -> tuple[int, ...]:
    """All 65,536 mappings; 0xFFFF, n stands for n units that map to themselves [7.2.5]."""
    out: list[int] = []
    raw = struct.unpack(f"<{len(table) // 2}H", table[: len(table) // 2 * 2])
    if len(raw) >= 0x10000:
        return raw[:0x10000]
    i = 0
    while i < len(raw):
        if raw[i] == 0xFFFF and i + 1 < len(raw):
            out.extend(range(len(out), len(out) + raw[i + 1]))
            i += 2
        else:
            out.append(raw[i])
            i += 1
    out.extend(range(len(out), 0x10000))
    return tuple(out[:0x10000])


@lru_cache(maxsize=4096)
def _name_hash(units: tuple[int, ...], table: bytes) -> int:
    upper = expand_upcase(table)
    return rotate_sum16(struct.pack(f"<{len(units)}H", *(upper[u] for u in units)))


def stamp_ns(stamp: int, ten_ms: int, offset: int) -> int | None:
    """ns since 1970 UTC of a time stamp [7.4.8-7.4.10]; None when it is no time."""
    try:
        local = datetime(
            1980 + (stamp >> 25),
            stamp >> 21 & 15,
            stamp >> 16 & 31,
            stamp >> 11 & 31,
            stamp >> 5 & 63,
            (stamp & 31) * 2,
            tzinfo=timezone.utc,  # noqa: UP017
        )
    except ValueError:
        return None
    if ten_ms > 199:
        return None
    quarters = 0
    if offset & 0x80:
        quarters = (offset & 0x7F) - (128 if offset & 0x40 else 0)
    local += timedelta(milliseconds=ten_ms * 10, minutes=-15 * quarters)
    since = local - _EPOCH
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000


def _set_bits(bits: int, limit: int) -> list[int]:
    """The clusters of the lowest ``limit`` set bits of an allocation bitmap."""
    found = []
    while bits and len(found) < limit:
        lowest = bits & -bits
        found.append(lowest.bit_length() + 1)
        bits ^= lowest
    return found


class UnreadableError(Exception):
    """The image has no exFAT volume that could be walked at all."""


class _Reader:
    def __init__(self, image: bytes, contents: bool) -> None:
        self.image = image
        self.contents = contents
        self.volume = RawVolume()
        self.owner: dict[int, str] = {}
        self.bitmaps: list[tuple[int, bytes]] = []  # (BitmapFlags, bits)
        self.table = b""

    def bad(self, kind: str, where: str, detail: str = "") -> None:
        self.volume.violations.append(Violation(kind, where, detail))

    # ---- boot region and FAT ----

    def boot(self) -> None:
        image, volume = self.image, self.volume
        if len(image) < 1 << 20 or image[3:11] != b"EXFAT   " or image[510:512] != b"\x55\xaa":
            raise UnreadableError("no exFAT boot sector")
        self._boot_fields(image[:512])
        sector = volume.sector_size
        main, backup = image[: 12 * sector], image[12 * sector : 24 * sector]
        for name, region in (("boot region", main), ("backup boot region", backup)):
            self._boot_region(name, region)
        stale_ok = (106, 107, 112)  # VolumeFlags, PercentInUse of the backup may be old [3.1.13]
        differing = (
            [i for i in range(11 * sector) if main[i] != backup[i] and i not in stale_ok]
            if main != backup
            else []
        )
        if differing:
            self.bad("backup", "boot region", f"differs from the backup at bytes {differing[:8]}")

    def _boot_fields(self, boot: bytes) -> None:
        volume = self.volume
        (
            self.partition_offset,
            length,
            self.fat_offset,
            self.fat_length,
            heap,
            volume.clusters,
            self.root,
            volume.serial,
            revision,
            volume.flags,
            sector_shift,
            cluster_shift,
            self.fats,
            _drive,
            volume.percent,
        ) = struct.unpack_from("<QQIIIIIIHHBBBBB", boot, 64)
        if not 9 <= sector_shift <= 12 or cluster_shift > 25 - sector_shift:
            raise UnreadableError(f"sector shift {sector_shift}, cluster shift {cluster_shift}")
        volume.sector_size = sector = 1 << sector_shift
        volume.cluster_size = sector << cluster_shift
        self.heap = heap * sector
        if boot[:3] != b"\xeb\x76\x90":
            self.bad("boot", "JumpBoot", boot[:3].hex())
        if any(boot[11:64]):
            self.bad("boot", "MustBeZero")
        if revision != 0x100:
            self.bad("boot", "FileSystemRevision", hex(revision))
        if self.fats not in (1, 2):
            raise UnreadableError(f"{self.fats} FATs")
        if length * sector > len(self.image) or length * sector < 1 << 20:
            self.bad("boot", "VolumeLength", f"{length} sectors, image {len(self.image)} bytes")
        if self.fat_offset < 24:
            self.bad("boot", "FatOffset", str(self.fat_offset))
        if self.fat_length * sector < (volume.clusters + 2) * 4:
            self.bad("boot", "FatLength", str(self.fat_length))
        if heap < self.fat_offset + self.fat_length * self.fats:
            self.bad("boot", "ClusterHeapOffset", str(heap))
        if heap + (volume.clusters << cluster_shift) > length:
            raise UnreadableError("the heap ends behind the volume")
        # As many as fit, but for fewer than one FAT's rounding would allow [3.1.9].
        if volume.clusters != min((length - heap) >> cluster_shift, 2**32 - 11):
            self.bad("boot", "ClusterCount", str(volume.clusters))
        if volume.flags & ~7:
            self.bad("flags", "VolumeFlags", hex(volume.flags))
        if volume.hard_error:
            self.bad("hard error", "VolumeFlags")
        active = volume.flags & 1
        if active and self.fats == 1:
            self.bad("flags", "ActiveFat", "there is only one FAT")
        self.fat_at = (
            self.fat_offset + self.fat_length * (active if self.fats == 2 else 0)
        ) * sector

    def _boot_region(self, name: str, region: bytes) -> None:
        sector = self.volume.sector_size
        total = rotate_sum32(region[: 11 * sector], (106, 107, 112))
        if region[11 * sector :] != struct.pack("<I", total) * (sector // 4):
            self.bad("boot checksum", name, f"computed {total:#x}")
        for i in range(1, 9):
            if region[(i + 1) * sector - 4 : (i + 1) * sector] != b"\0\0\x55\xaa":
                self.bad("boot", name, f"extended boot signature {i}")
        if any(region[10 * sector : 11 * sector]):
            self.bad("boot", name, "reserved sector")

    def fat(self, cluster: int) -> int:
        return struct.unpack_from("<I", self.image, self.fat_at + cluster * 4)[0]

    def is_cluster(self, cluster: int) -> bool:
        return 2 <= cluster < self.volume.clusters + 2

    def cluster(self, number: int) -> bytes:
        size = self.volume.cluster_size
        at = self.heap + (number - 2) * size
        return self.image[at : at + size]

    # ---- chains ----

    def chain(self, first: int, size: int | None, contiguous: bool, path: str) -> list[int]:
        """The clusters of ``size`` bytes (None: to the end of the chain), each noted as owned."""
        cluster_size = self.volume.cluster_size
        wanted = None if size is None else -(-size // cluster_size)
        if wanted == 0:
            if first:
                self.bad("first cluster", path, f"{first} of nothing")
            return []
        found: list[int] = []
        seen: set[int] = set()
        crossed = False
        at = first
        while wanted is None or len(found) < wanted:
            if not self.is_cluster(at):
                kind = "chain short" if found else "first cluster"
                self.bad(kind, path, f"{at:#x} after {len(found)} of {wanted} clusters")
                return found
            other = self.owner.setdefault(at, path)
            if other != path:
                if not crossed:
                    self.bad("cross link", path, f"cluster {at} is of {other}, too")
                crossed = True
            if at in seen:
                self.bad("loop", path, f"cluster {at} comes again")
                return found
            seen.add(at)
            found.append(at)
            if contiguous:
                at += 1
                continue
            at = self.fat(at)
            if at == FAT_END and wanted is None:
                return found
        if not contiguous and at != FAT_END:
            self.bad("chain long", path, f"goes on at {at:#x} after {wanted} clusters")
        return found

    def bytes_of(self, clusters: list[int]) -> bytes:
        size = self.volume.cluster_size
        if clusters and clusters == list(range(clusters[0], clusters[0] + len(clusters))):
            at = self.heap + (clusters[0] - 2) * size
            return self.image[at : at + len(clusters) * size]
        return b"".join(map(self.cluster, clusters))

    # ---- directories ----

    def walk(self) -> None:
        volume = self.volume
        root = RawEntry("/", "", True, attributes=DIRECTORY, first_cluster=self.root)
        root.clusters = self.chain(self.root, None, False, "/")
        root.size = root.valid = len(root.clusters) * volume.cluster_size
        volume.tree["/"] = root
        self._root_entries(self.bytes_of(root.clusters))
        pending = [root]
        while pending:
            directory = pending.pop()
            self._directory(directory, pending)

    def _root_entries(self, data: bytes) -> None:
        """Bitmap, up-case table, label and GUID must be known before the first name is."""
        labels = upcases = 0
        for i in range(0, len(data), 32):
            entry = data[i : i + 32]
            if entry[0] == 0:
                break
            first, length = struct.unpack_from("<IQ", entry, 20)
            if entry[0] == BITMAP:
                clusters = self.chain(first, length, False, "allocation bitmap")
                bits = self.bytes_of(clusters)[:length]
                self.volume.bitmap_length = length
                if length < -(-self.volume.clusters // 8):
                    self.bad("bitmap", "DataLength", str(length))
                self.bitmaps.append((entry[1], bits))
            elif entry[0] == UPCASE:
                upcases += 1
                self.table = self.bytes_of(self.chain(first, length, False, "up-case table"))[
                    :length
                ]
                stored = struct.unpack_from("<I", entry, 4)[0]
                if rotate_sum32(self.table) != stored:
                    self.bad("upcase", "TableChecksum", hex(stored))
            elif entry[0] == LABEL:
                labels += 1
                if entry[1] > 11:
                    self.bad("label", "CharacterCount", str(entry[1]))
                raw = entry[2 : 2 + 2 * min(entry[1], 11)]
                self.volume.label = raw.decode("utf-16-le", "surrogatepass")
            elif entry[0] == GUID:
                if rotate_sum16(entry, (2, 3)) != struct.unpack_from("<H", entry, 2)[0]:
                    self.bad("guid", "SetChecksum")
                self.volume.guid = entry[6:22]
        if labels > 1:
            self.bad("label", "root", f"{labels} of them")
        if upcases != 1:
            self.bad("upcase", "root", f"{upcases} tables")
        if sorted(flags & 1 for flags, _ in self.bitmaps) != list(range(self.fats)):
            self.bad("bitmap", "root", f"{len(self.bitmaps)} bitmaps for {self.fats} FATs")
        self.volume.upper = expand_upcase(self.table)

    def _directory(self, directory: RawEntry, pending: list[RawEntry]) -> None:
        volume, path = self.volume, directory.path
        data = self.bytes_of(directory.clusters)[: directory.size]
        volume.children[path] = names = []
        folded: dict[tuple[int, ...], str] = {}
        i, ended = 0, False
        total = len(data) // 32
        while i < total:
            kind = data[i * 32]
            if kind == 0:
                ended = True
                i += 1
                continue
            if not kind & IN_USE:
                i += 1
                continue
            where = f"{path}[{i}]"
            if ended:
                self.bad("after end", where, f"type {kind:#x}")
            if kind != FILE:
                known = kind in (BITMAP, UPCASE, LABEL, GUID) and path == "/"
                if not known and not (kind & BENIGN and not kind & SECONDARY):
                    self.bad("stray entry", where, f"type {kind:#x}")
                i += 1
                continue
            count = data[i * 32 + 1] + 1
            entry = self._set(directory, data, i, count, where)
            if entry is None:
                i += 1
                continue
            i += count
            if ended:
                continue
            key = volume.fold(entry.name)
            if key in folded:
                self.bad("duplicate", path, f"{folded[key]!r} and {entry.name!r}")
            folded[key] = entry.name
            names.append(entry.name)
            if entry.path in volume.tree:
                self.bad("duplicate", entry.path, "the very same name twice")
            volume.tree[entry.path] = entry
            if entry.is_dir:
                pending.append(entry)

    def _set(
        self, directory: RawEntry, data: bytes, index: int, count: int, where: str
    ) -> RawEntry | None:
        """An entry set; None when it is no whole set."""
        raw = data[index * 32 : (index + count) * 32]
        if len(raw) < count * 32 or count < 3:
            self.bad("broken set", where, f"{count} entries {self._crossing(index, count)}")
            return None
        if rotate_sum16(raw, (2, 3)) != struct.unpack_from("<H", raw, 2)[0]:
            self.bad("set checksum", where, self._crossing(index, count))
            return None
        if raw[32] != STREAM:
            detail = f"type {raw[32]:#x} where the stream should be {self._crossing(index, count)}"
            self.bad("broken set", where, detail)
            return None
        attributes, created, modified, accessed = struct.unpack_from("<HxxIII", raw, 4)
        flags, length, name_hash = struct.unpack_from("<BxBH", raw, 33)
        valid, first, size = struct.unpack_from("<QxxxxIQ", raw, 40)
        name_entries = -(-length // 15)
        types = [raw[(2 + k) * 32] for k in range(count - 2)]
        benign = types[name_entries:]
        whole = length and types[:name_entries] == [NAME] * name_entries
        if not whole or any(t & 0xE0 != 0xE0 for t in benign):
            detail = (
                f"{length} units, types {[hex(t) for t in types]} {self._crossing(index, count)}"
            )
            self.bad("broken set", where, detail)
            return None
        text = b"".join(raw[(2 + k) * 32 + 2 : (3 + k) * 32] for k in range(name_entries))
        units = struct.unpack(f"<{length}H", text[: 2 * length])
        if any(text[2 * length :]):
            self.bad("name padding", where)
        name = text_of(units)
        parent = directory.path.rstrip("/")
        entry = RawEntry(f"{parent}/{name}", name, bool(attributes & DIRECTORY))
        entry.size, entry.valid, entry.attributes = size, valid, attributes
        entry.first_cluster, entry.contiguous, entry.stream_flags = first, bool(flags & 2), flags
        entry.index, entry.entries = index, count
        per_cluster = self.volume.cluster_size // 32
        cluster = directory.clusters[index // per_cluster]
        entry.offset = self.heap + (cluster - 2) * self.volume.cluster_size
        entry.offset += index % per_cluster * 32
        self._names(entry, units, name_hash)
        self._times(entry, raw, (created, modified, accessed))
        self._stream(entry, flags)
        self._vendors(entry, raw[(2 + name_entries) * 32 :])
        return entry

    def _crossing(self, index: int, count: int) -> str:
        """Whether a set lies in several sectors, and so can't be written at once."""
        per_sector = self.volume.sector_size // 32
        return "(crosses sectors)" if index % per_sector + count > per_sector else ""

    def _names(self, entry: RawEntry, units: tuple[int, ...], name_hash: int) -> None:
        right = _name_hash(units, self.table)
        if name_hash != right:
            self.bad("name hash", entry.path, f"{name_hash:#x}, right is {right:#x}")
        if entry.name in (".", "..") or FORBIDDEN & set(units):
            self.bad("bad name", entry.path, repr(entry.name))
        if entry.attributes & ~0x37:
            self.bad("attributes", entry.path, hex(entry.attributes))

    def _times(self, entry: RawEntry, raw: bytes, stamps: tuple[int, int, int]) -> None:
        tenths, offsets = (raw[20], raw[21], 0), raw[22:25]
        found: list[int] = []
        for stamp, ten_ms, offset in zip(stamps, tenths, offsets, strict=True):
            ns = stamp_ns(stamp, ten_ms, offset)
            if ns is None:
                self.bad("time", entry.path, f"{stamp:#x} {ten_ms}")
            found.append(ns or 0)
        entry.created, entry.modified, entry.accessed = found

    def _stream(self, entry: RawEntry, flags: int) -> None:
        size, where = entry.size, entry.path
        cluster_size = self.volume.cluster_size
        if not flags & 1 or flags & ~3:
            self.bad("stream flags", where, hex(flags))
        if size == 0 and entry.contiguous:
            self.bad("stream flags", where, "NoFatChain of nothing")
        if entry.valid > size:
            self.bad("valid length", where, f"{entry.valid} > {size}")
        if entry.is_dir:
            if entry.valid != size:
                self.bad("valid length", where, f"{entry.valid} of a directory of {size}")
            if size % cluster_size or size > DIRECTORY_MAX:
                self.bad("directory size", where, str(size))
        if size > self.volume.clusters * cluster_size:
            self.bad("size", where, f"{size} is more than the heap")
            return
        entry.clusters = self.chain(entry.first_cluster, size, entry.contiguous, where)
        if self.contents and not entry.is_dir:
            written = -(-entry.valid // cluster_size)
            data = self.bytes_of(entry.clusters[:written])[: entry.valid]
            entry.data = data + bytes(size - len(data))

    def _vendors(self, entry: RawEntry, raw: bytes) -> None:
        for k in range(0, len(raw), 32):
            first, length = struct.unpack_from("<IQ", raw, k + 20)
            if raw[k] == 0xE1 and raw[k + 1] & 1 and length:
                self.chain(first, length, bool(raw[k + 1] & 2), f"{entry.path} (vendor)")

    # ---- the whole ----

    def space(self) -> None:
        volume, clusters = self.volume, self.volume.clusters
        active = volume.flags & 1
        bits = next((b for flags, b in self.bitmaps if flags & 1 == active), None)
        if bits is None:
            self.bad("bitmap", "root", "none for the active FAT")
            return
        owned = bytearray(-(-clusters // 8))
        for cluster in self.owner:
            owned[(cluster - 2) >> 3] |= 1 << ((cluster - 2) & 7)
        mask = (1 << clusters) - 1
        used = int.from_bytes(bits, "little") & mask
        mine = int.from_bytes(owned, "little")
        volume.used = used.bit_count()
        for kind, wrong in (("orphan", used & ~mine), ("lost", mine & ~used)):
            if wrong:
                some = _set_bits(wrong, 8)
                owners = [self.owner.get(c, "nobody") for c in some]
                self.bad(kind, "bitmap", f"{wrong.bit_count()} clusters: {some} of {owners}")
        if volume.percent not in (0xFF, volume.used * 100 // max(clusters, 1)):
            self.bad("percent", "PercentInUse", f"{volume.percent} for {volume.used}/{clusters}")
        if volume.dirty:
            self.bad("dirty", "VolumeFlags", "the volume is marked dirty")
        self._second_fat()

    def _second_fat(self) -> None:
        sector, at = self.volume.sector_size, self.fat_offset * self.volume.sector_size
        n = (self.volume.clusters + 2) * 4
        if self.fat(0) not in (0xFFFFFFF8, 0xFFFFFFF0) or self.fat(1) != FAT_END:
            self.bad("fat", "FatEntry[0], [1]", f"{self.fat(0):#x}, {self.fat(1):#x}")
        if self.fats == 2:
            other = at + self.fat_length * sector
            if self.image[at : at + n] != self.image[other : other + n]:
                self.bad("second fat", "FAT", "the two differ")
            if len({bits for _, bits in self.bitmaps}) > 1:
                self.bad("second bitmap", "bitmap", "the two differ")


def read_image(image: bytes | bytearray | memoryview, *, contents: bool = True) -> RawVolume:
    """The whole volume at the start of ``image``; without contents files have no ``data``.

    Raises:
        UnreadableError: there is nothing to walk.
    """
    reader = _Reader(bytes(image), contents)
    reader.boot()
    reader.walk()
    reader.space()
    return reader.volume
