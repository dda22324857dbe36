"""A volume made of dicts: what must be on the real one, by the rules of os, io and the format."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

READ_ONLY, HIDDEN, SYSTEM, DIRECTORY, ARCHIVE = 0x01, 0x02, 0x04, 0x10, 0x20


class Node:
    """A file or directory."""

    def __init__(self, is_dir: bool, name: str, parent: Node | None, now: int) -> None:
        """Made at ``now`` (ns)."""
        self.is_dir = is_dir
        self.name = name
        self.parent = parent
        self.children: dict[tuple[int, ...], Node] = {}
        self.data = bytearray()
        self.created = self.modified = self.accessed = now
        self.attributes = DIRECTORY if is_dir else ARCHIVE
        self.alias: str | None = None  # a second name that it answers to
        self.handles = 0
        self.unlinked = False
        self.reserved = False  # clusters may lie beyond the size
        self.pinned = False  # … until the volume is closed, not only until the file is

    @property
    def path(self) -> str:
        """Absolute; "/" for the root."""
        parts: list[str] = []
        node: Node = self
        while node.parent is not None:
            parts.append(node.name)
            node = node.parent
        return "/" + "/".join(reversed(parts))

    def below(self) -> Iterator[Node]:
        """All under a directory, parents first."""
        for child in self.children.values():
            yield child
            yield from child.below()

    def is_within(self, other: Node) -> bool:
        """Whether it is ``other`` or below it."""
        node: Node | None = self
        while node is not None:
            if node is other:
                return True
            node = node.parent
        return False

    def wrote(self, now: int) -> None:
        """Its content has changed."""
        self.modified = now
        if not self.is_dir:
            self.attributes |= ARCHIVE


class Model:
    """The tree, and what each call makes of it. Calls return the errno that is due, or 0."""

    def __init__(self, fold: Callable[[str], tuple[int, ...]]) -> None:
        """``fold``: a name as the volume compares it."""
        self.fold = fold
        self.root = Node(True, "", None, 0)

    def nodes(self) -> list[Node]:
        """All but the root, in a stable order."""
        return list(self.root.below())

    def files(self) -> list[Node]:
        """All files with a name."""
        return [n for n in self.root.below() if not n.is_dir]

    def directories(self) -> list[Node]:
        """The root and all others."""
        return [self.root, *(n for n in self.root.below() if n.is_dir)]

    def child(self, directory: Node, name: str) -> Node | None:
        """What has that name there, however it is spelled, as first or second name."""
        key = self.fold(name)
        node = directory.children.get(key)
        if node is None:
            others = (c for c in directory.children.values() if c.alias is not None)
            node = next((c for c in others if self.fold(c.alias or "") == key), None)
        return node

    def add(self, directory: Node, name: str, is_dir: bool, now: int) -> Node:
        """A new entry; the name must be free."""
        node = Node(is_dir, name, directory, now)
        directory.children[self.fold(name)] = node
        directory.wrote(now)
        return node

    def drop(self, node: Node, now: int) -> None:
        """Takes a node out of its directory."""
        assert node.parent is not None
        del node.parent.children[self.fold(node.name)]
        node.parent.wrote(now)
        node.unlinked = True

    def rename_error(self, node: Node, directory: Node, name: str) -> int:
        """What rename(2) says to it."""
        there = self.child(directory, name)
        if there is node:
            return 0
        if node.is_dir and directory.is_within(node):
            return errno.EINVAL
        if there is None:
            return 0
        assert node.parent is not None
        if node.parent.is_within(there):
            return errno.ENOTEMPTY
        if there.is_dir and not node.is_dir:
            return errno.EISDIR
        if not there.is_dir and node.is_dir:
            return errno.ENOTDIR
        return errno.ENOTEMPTY if there.children else 0

    def rename(self, node: Node, directory: Node, name: str, now: int) -> None:
        """Gives it the name, in place of what has it."""
        there = self.child(directory, name)
        if there is node and name == node.name:
            return  # nothing to do, says rename(2)
        if there is not None and there is not node:
            self.drop(there, now)
        assert node.parent is not None
        del node.parent.children[self.fold(node.name)]
        node.parent.wrote(now)
        directory.wrote(now)
        node.name, node.parent = name, directory
        directory.children[self.fold(name)] = node
