"""The collected images of others: unpacked to a folder, with what the index says of them.

They are no part of pyexfat; where the collection is not beside the repository, tests are skipped.
"""

from __future__ import annotations

import csv
import lzma
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from conftest import require_shared, require_tool


@dataclass(frozen=True)
class Facts:
    """What others found on an image."""

    sector: int
    cluster: int
    clusters: int
    fats: int
    files: int
    directories: int  # without the root
    offset: int  # where the volume starts


def unpack(name: str, folder: Path) -> Path:
    """The image called ``name``, in ``folder``."""
    target = folder / name
    for suffix in (".img.tar.xz", ".img.xz", ".img.zst"):
        packed = require_shared("images") / (name + suffix)
        if not packed.exists():
            continue
        if suffix == ".img.xz":
            with lzma.open(packed) as source, target.open("wb") as image:
                shutil.copyfileobj(source, image)
        elif suffix == ".img.zst":
            command = [require_tool("zstd"), "-q", "-d", "-o", str(target), str(packed)]
            subprocess.run(command, check=True)
        else:
            with tarfile.open(packed, "r:xz") as archive:
                (member,) = archive.getmembers()
                archive.extract(member, folder, filter="data")
                (folder / member.name).rename(target)
        return target
    require_shared("images", name)  # skips
    raise AssertionError("it is there, but not packed")


def row(name: str) -> dict[str, str]:
    """The index's line for an image."""
    csv.field_size_limit(1 << 24)
    with require_shared("images", "index.tsv").open(encoding="utf-8", newline="") as index:
        for line in csv.DictReader(index, delimiter="\t"):
            if line["name"] == name:
                return line
    raise AssertionError(f"the index has no {name}")


def facts(name: str) -> Facts:
    """The numbers in the column on_disk_facts."""
    text = row(name)["on_disk_facts"]
    found = re.search(
        r"(?:@(\d+) )?exFAT sector (\d+) cluster (\d+) clusters (\d+) FATs (\d+) "
        r"files (\d+) dirs (\d+)",
        text,
    )
    assert found is not None, text
    offset, *rest = found.groups()
    return Facts(*map(int, [*rest, offset or 0]))
