"""What exfat-fuse writes, we read and change; then it reads, changes, and we read again."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from model.rawexfat import read_image
from peers import trees
from peers.tools import KIB, MIB, fsck_counts, fuse, made_by_mkfs
from peers.trees import NAMES, Item, Tree, digest, ns

import pyexfat as px


class HostFiller:
    """Writes files through the operating system and keeps what must be there."""

    def __init__(self, top: Path, seed: int) -> None:
        """``top`` is a mounted volume."""
        self.top = top
        self.chance = random.Random(seed)
        self.tree: Tree = {}

    def write(self, path: str, length: int, mode: str = "wb") -> None:
        """A new file, or bytes at the end of one."""
        data = self.chance.randbytes(length)
        with (self.top / path).open(mode) as file:
            file.write(data)
        whole = (self.top / path).read_bytes()
        assert whole.endswith(data)
        self.tree[path] = Item(False, len(whole), digest(whole), 0)

    def mkdir(self, path: str) -> None:
        """A directory."""
        (self.top / path).mkdir()
        self.tree[path] = Item(True, 0, "", 0)

    def unlink(self, path: str) -> None:
        """Removes a file."""
        (self.top / path).unlink()
        del self.tree[path]

    def rename(self, old: str, new: str) -> None:
        """Moves a file."""
        (self.top / old).rename(self.top / new)
        self.tree[new] = self.tree.pop(old)

    def stamps(self) -> None:
        """Times of whole seconds, to which exfat-fuse is bound."""
        for i, path in enumerate(sorted(self.tree, reverse=True)):
            moment = ns(1990, 3, 4) + i * 3_456_789 * 10**9
            os.utime(self.top / path, ns=(moment, moment))
            self.tree[path] = replace(self.tree[path], modified=moment)


def fill(top: Path, cluster: int) -> Tree:
    """Names, sizes, fragments, holes and moves, by the operating system's calls."""
    filler = HostFiller(top, cluster)
    for directory in ("names", "many", "deep", "deep/er", "empty"):
        filler.mkdir(directory)
    for i, name in enumerate(NAMES):
        filler.write(f"names/{name}", i)
    for length in (0, 1, cluster - 1, cluster, cluster + 1, 3 * cluster + 100):
        filler.write(f"{length} bytes", length)
    for _ in range(6):
        filler.write("deep/a", cluster + 1, "ab")
        filler.write("deep/er/b", 100, "ab")
    for i in range(200):
        filler.write(f"many/{i:03}", i % 3)
        if i % 20 == 0:
            filler.write(f"between {i}", 30)
    for i in range(0, 200, 3):
        filler.unlink(f"many/{i:03}")
    for i in range(1, 200, 30):
        filler.rename(f"many/{i:03}", f"many/{i} has a longer name than it had before")
    filler.rename("deep/er/b", "moved")
    filler.stamps()
    return filler.tree


@pytest.mark.parametrize("cluster", [512, 4 * KIB, 64 * KIB])
def test_exchange_with_exfat_fuse(tmp_path: Path, cluster: int) -> None:
    image = made_by_mkfs(tmp_path / "image", 40 * MIB, "-c", str(cluster))
    where = tmp_path / "mounted"
    with fuse(image, where) as mounted:
        tree = fill(mounted, cluster)
    with px.open(image, "r+") as volume:
        assert trees.of_volume(volume) == tree
        assert not volume.was_dirty
        changed = trees.change(volume, tree, seed=cluster)
    assert [str(one) for one in read_image(image.read_bytes()).violations] == []
    count = sum(item.is_dir for item in changed.tree.values())
    assert fsck_counts(image) == (1 + count, len(changed.tree) - count)

    padded = changed.padded
    with fuse(image, where) as mounted:
        seen = trees.of_host(mounted)
        assert trees.as_fuse_sees(seen, padded) == trees.as_fuse_sees(changed.tree, padded)
        more = HostFiller(mounted, 1)
        for i in range(60):
            more.write(f"many/after us {i}", 5)
        for path in [p for p in changed.tree if p.startswith("added by us/")]:
            (mounted / path).unlink()
        (mounted / "added by us").rmdir()
        more.write("deep/a longer", 3 * cluster, "ab")
        more.stamps()
    with px.open(image) as volume:
        last = trees.of_volume(volume)
    kept = {p: item for p, item in changed.tree.items() if not p.startswith("added by us")}
    assert set(last) == set(kept) | set(more.tree)
    # It gives directories a new time, which is not known here, and forgets parts of seconds.
    files = {p: item for p, item in {**kept, **more.tree}.items() if not item.is_dir}
    last = {p: item for p, item in last.items() if not item.is_dir}
    assert trees.as_fuse_sees(last) == trees.as_fuse_sees(files)
