"""FAT as two readers of others see it: libfsfat (a library in C) and dissect.fat (in Python)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import require_module

from peers import trees
from peers.trees import SECOND, Item, Tree

ATTRIBUTES = 0x27  # read-only, hidden, system, archive


@dataclass(frozen=True)
class Seen:
    """A file or directory as one of them tells it."""

    item: Item
    attributes: int
    short: str | None = None
    created: int = 0
    accessed: int = 0


def libfsfat(image: Path) -> tuple[dict[str, Seen], int, str]:
    """All that there is, the width of the FAT, and the label.

    Without times: version 20260826 adds a month to each, and a day in leap years.
    """
    pyfsfat = require_module("pyfsfat")
    formats = {2: 12, 3: 16, 4: 32}
    found: dict[str, Seen] = {}

    def walk(directory: Any, above: str) -> None:
        for i in range(directory.get_number_of_sub_file_entries()):
            entry = directory.get_sub_file_entry(i)
            flags, size = entry.get_file_attribute_flags(), entry.get_size()
            path = above + entry.get_name()
            if flags & 0x10:
                item = Item(True, 0, "", 0, bool(flags & 1))
                walk(entry, path + "/")
            else:
                data = entry.read_buffer(size) if size else b""
                item = Item(False, size, trees.digest(data), 0, bool(flags & 1))
            assert path not in found
            found[path] = Seen(item, flags & ATTRIBUTES)

    volume = pyfsfat.volume()
    volume.open(str(image))
    try:
        walk(volume.get_root_directory(), "")
        return found, formats[volume.get_file_system_format()], volume.get_label() or ""
    finally:
        volume.close()


def dissect(image: Path) -> tuple[dict[str, Seen], int, str, int]:
    """All that there is, the width of the FAT, label and serial number.

    Names without long entries are as they are stored: it knows nothing of the NT case bits.
    """
    fat = require_module("dissect.fat")
    found: dict[str, Seen] = {}

    def moment(stamp: Any) -> int:
        return trees.ns(*stamp.timetuple()[:6]) + stamp.microsecond * 1000

    def walk(directory: Any, above: str) -> None:
        for entry in directory.iterdir():
            if entry.name in (".", "..") or entry.is_volume_id():
                continue
            path = above + entry.name
            bits = entry.is_readonly() + 2 * entry.is_hidden()
            bits += 4 * entry.is_system() + 32 * entry.is_archive()
            modified = moment(entry.mtime)
            assert modified % (2 * SECOND) == 0
            if entry.is_directory():
                item = Item(True, 0, "", modified, bool(bits & 1))
                walk(entry, path + "/")
            else:
                data = entry.open().read()
                item = Item(False, entry.size, trees.digest(data), modified, bool(bits & 1))
            assert path not in found
            created, accessed = moment(entry.ctime), moment(entry.atime)
            found[path] = Seen(item, bits, entry.short_name, created, accessed)

    with image.open("rb") as file:
        volume = fat.FATFS(file)
        walk(volume.root, "")
        bits = int(volume.type.name.removeprefix("FAT"))
        return found, bits, volume.volume_label.rstrip(), int(volume.volume_id, 16)


def content(tree: Tree) -> dict[str, tuple[bool, int, str, bool]]:
    """A tree without times."""
    return {
        path: (item.is_dir, item.size, item.digest, item.read_only) for path, item in tree.items()
    }
