"""Trees of files as a peer sees them, and the ones that we show to peers.

A tree is a dict: path from the root ("DCIM/A.JPG") -> Item. What we write, a peer must list as it
was meant; what a peer has written and listed, we must.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyexfat as px

UTC = timezone.utc  # noqa: UP017
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 10**9


@dataclass(frozen=True)
class Item:
    """What a peer can know of a file or directory."""

    is_dir: bool
    size: int  # 0 for a directory, whose size not all peers tell
    digest: str  # SHA-256 of the content, "" for a directory
    modified: int  # ns since 1970 UTC
    read_only: bool = False


Tree = dict[str, Item]


def ns(year: int, *rest: int, ms: int = 0) -> int:
    """A time in UTC as ns since 1970."""
    moment = datetime(year, *rest, tzinfo=UTC) - _EPOCH  # type: ignore[arg-type,misc]
    return moment // timedelta(seconds=1) * SECOND + ms * 10**6


def digest(data: bytes, size: int | None = None) -> str:
    """SHA-256 of the data and, up to ``size``, of the zeros that follow it."""
    total = hashlib.sha256(data)
    rest = 0 if size is None else size - len(data)
    zeros = bytes(min(rest, 1 << 20))
    while rest > 0:
        total.update(zeros[:rest])
        rest -= len(zeros)
    return total.hexdigest()


def hash_stream(read: Callable[[int], bytes]) -> str:
    """SHA-256 of all that ``read`` gives."""
    total = hashlib.sha256()
    while piece := read(1 << 20):
        total.update(piece)
    return total.hexdigest()


def as_fuse_sees(tree: Tree, padded: Collection[str] = ()) -> Tree:
    """The tree as far as exfat-fuse 1.3 tells it.

    No attributes, whole seconds, only up to 2100, which it takes for a leap year; and what is on
    the disk where ``padded`` files have zeros.
    """
    return {
        path: replace(
            item,
            digest="" if path in padded else item.digest,
            modified=min(item.modified // SECOND * SECOND, ns(2100, 1, 1)),
            read_only=False,
        )
        for path, item in tree.items()
    }


def as_kernel_sees(tree: Tree, padded: dict[str, Item], release: str) -> Tree:
    """The tree as Linux of that release shows it: before 6.8 files end where their data does."""
    if tuple(map(int, re.findall(r"\d+", release)[:2])) >= (6, 8):
        return tree
    return {
        path: replace(item, size=padded[path].size, digest=padded[path].digest)
        if path in padded
        else item
        for path, item in tree.items()
    }


# ---- as the readers see them ----


def of_volume(volume: px.Volume, top: str = "/") -> Tree:
    """As we read it, by walk(), stat() and files."""
    tree: Tree = {}
    for directory, below, names in volume.walk(top):
        inside = directory[len(top) :].strip("/")
        for name in below + names:
            path = f"{directory.rstrip('/')}/{name}"
            status = volume.stat(path)
            content = ""
            if not status.is_dir:
                with volume.open(path, "rb") as file:
                    content = hash_stream(file.read)
            size = 0 if status.is_dir else status.st_size
            tree[f"{inside}/{name}".lstrip("/")] = Item(
                status.is_dir, size, content, status.st_mtime_ns, status.read_only
            )
    return tree


def of_host(top: Path) -> Tree:
    """As the operating system shows a mounted volume."""
    tree: Tree = {}
    for directory, below, names in os.walk(top):
        for name in below + names:
            path = Path(directory, name)
            status = path.stat()
            content = ""
            if name in names:
                with path.open("rb") as file:
                    content = hash_stream(file.read)
            size = 0 if name in below else status.st_size
            tree[str(path.relative_to(top))] = Item(
                name in below, size, content, status.st_mtime_ns, not status.st_mode & 0o222
            )
    return tree


_STAMP = re.compile(r"(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+)\.(\d{9}) ([+-])(\d\d)(\d\d)$")


def of_guest(stats: str, sums: str) -> Tree:
    """From the output of ``stat -c '%n|%F|%s|%a|%y'`` and ``sha256sum`` over ``./path``."""
    digests: dict[str, str] = {}
    for line in sums.splitlines():
        value, _, name = line.partition("  ")
        digests[name] = value
    tree: Tree = {}
    for line in stats.splitlines():
        name, kind, size, mode, stamp = line.split("|")
        is_dir = kind == "directory"
        tree[name.removeprefix("./")] = Item(
            is_dir,
            0 if is_dir else int(size),
            "" if is_dir else digests[name],
            _stamp(stamp),
            not int(mode, 8) & 0o222,
        )
    return tree


def _stamp(text: str) -> int:
    found = _STAMP.match(text)
    assert found is not None, text
    *fields, fraction, sign, hours, minutes = found.groups()
    east = (int(hours) * 60 + int(minutes)) * (-1 if sign == "-" else 1)
    return ns(*map(int, fields)) - east * 60 * SECOND + int(fraction)


# ---- what we write ----

LONG = [
    "n" * 255,
    "ß" * 254 + "é",
    "😀" * 127 + "x",  # 255 units
    "🎼" * 7 + "y",  # a pair that straddles two entries
    "y" * 15,
    "z" * 16,
    "w" * 30,
    "v" * 31,
]
NAMES = [
    *LONG,
    "two words",
    " leading",
    ".hidden",
    "comma,semi;plus+eq=[x]{y}'~!@#$%^&()-",
    "日本語.txt",
    "Ünïcödé.TXT",
    "Новый текстовый документ.txt",
    "𐐨𐑂",
    "e\u0301",  # not the same name as é
    "é",
    "CON",
]


class Filler:
    """Fills a volume with one of everything and keeps the tree that peers must see."""

    def __init__(self, volume: px.Volume, seed: int) -> None:
        """All content comes from ``seed``."""
        self.volume = volume
        self.cluster = volume.cluster_size
        self.random = random.Random(seed)
        self.tree: Tree = {}
        # Files that end in zeros which are not on the disk: what they are without the zeros.
        self.padded: dict[str, Item] = {}
        # Real data in clusters up to here; in larger ones mostly zeros that cost nothing.
        self.small = self.cluster <= 64 << 10

    def note(self, path: str, data: bytes, size: int | None = None) -> None:
        """The file ``path`` has this content and, up to ``size``, zeros."""
        length = len(data) if size is None else size
        if length > len(data):
            self.padded[path] = Item(False, len(data), digest(data), 0)
        self.tree[path] = Item(False, length, digest(data, size), 0)

    def file(self, path: str, length: int) -> None:
        """A file of random bytes."""
        data = self.random.randbytes(length)
        self.volume.write_bytes(path, data)
        self.note(path, data)

    def directory(self, path: str) -> None:
        """A directory."""
        self.volume.mkdir(path)
        self.tree[path] = Item(True, 0, "", 0)

    def fill(self, many: int = 300) -> Tree:
        """Everything; returns the tree."""
        self.sizes()
        self.beyond_valid_data()
        self.fragments()
        if self.cluster <= 4 << 20:  # some readers take seconds for each directory of one cluster
            self.names()
            self.holes(many)
            self.moved()
        self.stamps()
        return self.tree

    def sizes(self) -> None:
        """Files of no byte, of one, and around the borders of sectors and clusters."""
        self.directory("sizes")
        self.directory("sizes/empty directory")
        border = self.cluster if self.small else 4096
        for length in sorted({0, 1, 511, 512, 513, border - 1, border, border + 1, 3 * border + 7}):
            self.file(f"sizes/{length}", length)

    def beyond_valid_data(self) -> None:
        """Files that end in zeros which are not on the disk."""
        self.directory("valid")
        length = 2 * self.cluster + 5 if self.small else self.cluster + 1
        head = self.random.randbytes(1000)
        for name, data in (("head", head), ("none", b"")):
            self.volume.write_bytes(f"valid/{name}", data)
            self.volume.truncate(f"valid/{name}", length)
            self.note(f"valid/{name}", data, length)
        self.volume.write_bytes("valid/allocated", head)
        self.volume.fallocate("valid/allocated", 0, length)
        self.note("valid/allocated", head, length)
        self.volume.write_bytes("valid/kept size", head)
        self.volume.fallocate("valid/kept size", 0, length, keep_size=True)
        self.note("valid/kept size", head)
        # A write beyond the end of the valid data leaves zeros in between.
        with self.volume.open("valid/gap", "wb") as file:
            file.write(head)
            file.seek(5000)
            file.write(head)
        self.note("valid/gap", head + bytes(4000) + head)
        self.volume.write_bytes("valid/shorter", head * 3)
        self.volume.truncate("valid/shorter", 1700)
        self.volume.truncate("valid/shorter", 2500)
        self.note("valid/shorter", (head * 3)[:1700], 2500)

    def fragments(self) -> None:
        """Two files that grow in turn, so that neither lies in one piece."""
        self.directory("pieces")
        if not self.small:
            for name, clusters in (("a", 1), ("b", 1), ("a", 2)):
                if not self.volume.exists(f"pieces/{name}"):
                    self.volume.write_bytes(f"pieces/{name}", b"start")
                self.volume.truncate(f"pieces/{name}", clusters * self.cluster)
                self.note(f"pieces/{name}", b"start", clusters * self.cluster)
            return
        data = {"a": b"", "b": b""}
        for name in "abababab":
            piece = self.random.randbytes(self.cluster + 11)
            with self.volume.open(f"pieces/{name}", "ab") as file:
                file.write(piece)
            data[name] += piece
        for name, content in data.items():
            self.note(f"pieces/{name}", content)

    def names(self) -> None:
        """Names of every kind that all peers can spell."""
        self.directory("names")
        for i, name in enumerate(NAMES):
            self.file(f"names/{name}", i)

    def holes(self, many: int) -> None:
        """A directory that grows around files, loses a third of its names and gets others."""
        self.directory("many")
        for i in range(many):
            self.file(f"many/file {i:04}", i % 7)
            if i % 50 == 0:
                self.file(f"between {i}", 10)  # lies where the directory would have gone on
        gone = [f"file {i:04}" for i in range(0, many, 3)]
        self.volume.remove_many("many", gone[: many // 6])
        for name in gone[many // 6 :]:
            self.volume.unlink(f"many/{name}")
        for name in gone:
            del self.tree[f"many/{name}"]
        for i in range(0, many, 9):
            self.file(f"many/{'long name ' * (i % 5)}{i}", 3)

    def moved(self) -> None:
        """Renames: within a directory, over a file, of a directory with content, of case only."""
        self.directory("from")
        self.directory("to")
        for name in ("x", "y", "z"):
            self.file(f"from/{name}", 20)
        self.file("to/z", 30)
        self.volume.rename("from/x", "from/a much longer name than it had before")
        self.volume.rename("from/z", "to/z")
        self.volume.rename("from/y", "from/Y")
        self.volume.rename("from", "to/from")
        for old, new in (("x", "a much longer name than it had before"), ("y", "Y")):
            self.tree[f"to/from/{new}"] = self.tree.pop(f"from/{old}")
        self.tree["to/z"] = self.tree.pop("from/z")
        self.tree["to/from"] = self.tree.pop("from")

    def stamps(self) -> None:
        """A time of its own for each, to 10 ms, from the first to the last; a few attributes."""
        east = (self.volume.utc_offset or 0) * 60 * SECOND
        chosen = [
            ns(1980, 1, 1) - east,  # stamps are local time
            ns(1999, 12, 31, 23, 59, 59, ms=990),
            ns(2000, 2, 29, 12, 0, 1, ms=10),
            ns(2038, 1, 19, 3, 14, 8),
            ns(2107, 12, 31, 23, 59, 59, ms=990) - east,
        ]
        # Below first, as a directory's own time follows what is done in it.
        for i, path in enumerate(sorted(self.tree, reverse=True)):
            moment = chosen[i] if i < len(chosen) else ns(2010, 1, 1) + i * 7_654_321_010_000_000
            self.volume.utime(path, ns=(moment, moment))
            self.tree[path] = replace(self.tree[path], modified=moment)
        self.volume.set_attributes("sizes/1", read_only=True)
        self.tree["sizes/1"] = replace(self.tree["sizes/1"], read_only=True)
        self.volume.set_attributes("sizes/511", hidden=True, system=True, archive=False)


# ---- what we change in what others have written ----


def change(volume: px.Volume, tree: Tree, seed: int) -> Filler:
    """Appends, overwrites, cuts, removes, renames, adds; the result has the tree that follows.

    The content that a file had must be known to be right before.
    """
    chance = random.Random(seed)
    result = Filler(volume, seed)
    new = result.tree
    new.update(tree)
    files = sorted(path for path, item in tree.items() if not item.is_dir and not item.read_only)
    chance.shuffle(files)
    for turn, path in enumerate(files):
        if turn % 3 == 2 and turn > 8:
            continue
        data = volume.read_bytes(path)
        del new[path]
        if turn % 6 == 0:
            volume.unlink(path)
            continue
        size = None
        if turn % 6 == 1:
            extra = chance.randbytes(chance.choice([1, 600, volume.cluster_size + 3]))
            with volume.open(path, "ab") as file:
                file.write(extra)
            data += extra
        elif turn % 6 == 2:
            at = chance.randrange(len(data) + 1)
            with volume.open(path, "r+b") as file:
                file.seek(at)
                file.write(b"overwritten")
            data = data[:at] + b"overwritten" + data[at + 11 :]
        elif turn % 6 == 3:
            target = f"{path.rpartition('/')[0]}/renamed {turn} {'q' * (turn % 40)}".lstrip("/")
            volume.rename(path, target)
            path = target
        else:
            size = chance.choice([0, len(data) // 2, len(data) + 3000])
            volume.truncate(path, size)
            data = data[:size]
        result.note(path, data, size)
    result.directory("added by us")
    for name in ("ä", "x" * 200, "small"):
        result.file(f"added by us/{name}", 700 + len(name))
    result.fragments()
    for i, path in enumerate(sorted(new, reverse=True)):
        moment = ns(2015, 5, 5) + i * 1_234_560_000_000
        volume.utime(path, ns=(moment, moment))
        new[path] = replace(new[path], modified=moment)
    return result
