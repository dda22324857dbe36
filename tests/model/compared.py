"""What the state machine of a volume stands on: the volume, its model, and their comparison."""

from __future__ import annotations

import errno
import hashlib
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import pyexfat as px
from model.drivers import SYNC_MODES, Driver, policies
from model.volume import ARCHIVE, DIRECTORY, HIDDEN, READ_ONLY, SYSTEM, Model, Node
from pyexfat import _core

READ, WRITE = _core.OPEN_READ, _core.OPEN_WRITE
CREATE, EXCLUSIVE = _core.OPEN_CREATE, _core.OPEN_EXCLUSIVE
TRUNCATE, APPEND = _core.OPEN_TRUNCATE, _core.OPEN_APPEND
# Space set aside beyond the size (keep_size) that no close() gave back: owned by nobody, or in a
# chain that is longer than the file.
LEAKS = {"orphan", "chain long"}
SETTABLE = [READ_ONLY, HIDDEN, SYSTEM, ARCHIVE]

PICK = st.integers(0, 1 << 16)  # which of the things there are
SPELL = st.integers(0, 4)
# Offsets and lengths around sectors and clusters: (clusters, bytes more or less).
PLACE = st.tuples(st.integers(0, 5), st.sampled_from([0, 0, 1, -1, 100, 511, 512]))


@dataclass
class Open:
    """An open file of the volume and what the model has for it."""

    handle: _core.Handle
    node: Node
    flags: int


def content(seed: int, n: int) -> bytes:
    """``n`` bytes that are different everywhere."""
    return random.Random(seed).randbytes(n)


class ComparedVolume(RuleBasedStateMachine):
    """A volume and the dicts that say what must be in it."""

    driver: ClassVar[Driver]

    def __init__(self) -> None:
        """Nothing is formatted yet."""
        super().__init__()
        self.now = self.driver.start
        self.recent: list[Node] = []
        self.opened: list[Open] = []
        self.vol: px.Volume | None = None
        self.device: px.Device | None = None
        self.was_marked = False  # an abandoned volume stays marked dirty
        self.may_leak = False  # … and what belonged to nameless files is lost to it

    # ---- setting up and ending ----

    @initialize(data=st.data(), policy=policies(), sync=SYNC_MODES, seed=st.integers(0, 1000))
    def begin(self, data: st.DataObject, policy: dict[str, Any], sync: str, seed: int) -> None:
        """Formats a volume of random geometry."""
        self.geometry = data.draw(self.driver.geometries, label="geometry")
        options = dict(self.geometry)
        size = options.pop("size")
        self.device = px.Device.memory(size, sector_size=options["sector_size"])
        self.env = px.Env(seed=seed, clock=self.clock)
        with px.format(self.device, self.driver.name, env=self.env, **options):
            pass
        self.label = options["label"]
        raw = self.raw()
        assert raw.violations == [], list(map(str, raw.violations))
        self.cluster = raw.cluster_size
        self.model = Model(raw.fold)
        self.mount(policy, sync, 0)

    def clock(self) -> int:
        """Time stands still during a call."""
        return self.now

    def mount(self, policy: dict[str, Any], sync: str, utc_offset: int) -> None:
        """Opens the volume."""
        assert self.device is not None
        options = self.driver.open_options(utc_offset)
        self.vol = px.open(self.device, "r+", policy=policy, sync=sync, env=self.env, **options)
        assert self.vol.was_dirty == self.was_marked
        assert self.vol.label == self.label

    def raw(self) -> Any:
        """What the independent reader finds on the device."""
        assert self.device is not None
        return self.driver.read(self.device.pread(self.device.size, 0))

    def close_volume(self) -> None:
        """Closes, and checks every byte of what is on the device then."""
        assert self.vol is not None
        for one in self.opened:
            one.node.handles -= 1
        self.vol.close()
        for one in self.opened:
            self.refuses_closed(one)
            one.handle.close()
        self.opened.clear()
        for node in self.model.nodes():
            node.reserved = node.pinned = False
        self.check_device()

    def refuses_closed(self, one: Open) -> None:
        """A file of a closed volume says so."""
        try:
            one.handle.stat()
        except (ValueError, OSError):
            return
        raise AssertionError("an open file outlived its volume")

    def teardown(self) -> None:
        """Closes and compares, unless something has failed already."""
        failed = sys.exc_info()[0] is not None
        try:
            if self.vol is not None and not failed:
                self.close_volume()
        finally:
            if self.vol is not None and not self.vol.closed:
                self.vol.abandon()
            if self.device is not None:
                self.device.close()

    # ---- comparing ----

    def check_device(self) -> None:
        """The tree on the device is the model's, and no rule of the format is broken."""
        raw = self.raw()
        forgiven = set(self.driver.unclean) if self.was_marked else set()
        if self.may_leak:
            forgiven |= LEAKS
        wrong = [str(v) for v in raw.violations if v.kind not in forgiven]
        assert wrong == [], wrong
        assert raw.dirty == self.was_marked
        assert raw.label == self.label
        nodes = {node.path: node for node in self.model.nodes()}
        assert set(raw.tree) - {"/"} == set(nodes)
        for path, node in nodes.items():
            found = raw.tree[path]
            assert found.is_dir == node.is_dir, path
            if not node.is_dir:
                assert found.size == len(node.data), path
                assert found.data == node.data, path
            driver = self.driver
            assert found.modified == driver.on_disk(node.modified, driver.modified_step), path
            assert found.created == driver.on_disk(node.created, driver.created_step), path
            assert found.accessed == driver.on_disk(node.accessed, driver.access_step), path
            assert found.attributes == node.attributes, path
            if self.driver.second_names:
                assert found.short == node.alias, path
        self.ask_peer()

    def ask_peer(self) -> None:
        """Now and then another program judges the image (it costs a process)."""
        assert self.device is not None
        image = self.device.pread(self.device.size, 0)
        if self.may_leak or hashlib.sha256(image).digest()[0] % 8:
            return
        wrong = self.driver.fsck(image, {**self.geometry, "label": self.label})
        assert wrong is None, wrong

    def rounded(self, ns: int) -> int:
        """A time of change, as the format can hold it."""
        return self.driver.kept(ns, self.driver.modified_step)

    def rounded_creation(self, ns: int) -> int:
        """A time of creation, as the format can hold it."""
        return self.driver.kept(ns, self.driver.created_step)

    def rounded_access(self, ns: int) -> int:
        """A time of access, as the format can hold it."""
        return self.driver.kept(ns, self.driver.access_step)

    def check_stat(self, node: Node, found: px.Stat) -> None:
        """stat() of a node."""
        assert found.is_dir == node.is_dir
        assert found.st_atime_ns == self.rounded_access(node.accessed)
        assert found.st_birthtime_ns == self.rounded_creation(node.created)
        assert found.st_mtime_ns == self.rounded(node.modified)
        bits = found.read_only * READ_ONLY + found.hidden * HIDDEN + found.system * SYSTEM
        bits += found.archive * ARCHIVE + found.is_dir * DIRECTORY
        assert bits == node.attributes
        if not node.is_dir:
            assert found.st_size == len(node.data)
            assert found.valid_size <= found.st_size <= found.allocated
            assert self.vol is not None
            # Zeros that the format can't do without may wait for the entry to be written.
            waits = self.vol.sync_mode != "sync" and (node.handles > 0 or node.pinned)
            if not self.driver.has_valid_size and not waits:
                assert found.valid_size == found.st_size

    def check_directory(self, directory: Node) -> None:
        """The listing of a directory, and nothing else is found in it."""
        assert self.vol is not None
        names = self.vol.listdir(directory.path)
        assert sorted(names) == sorted(c.name for c in directory.children.values())

    @invariant()
    def recent_is_right(self) -> None:
        """What the last step touched is as the model says."""
        if self.vol is None or self.vol.closed:
            return
        recent, self.recent = self.recent, []
        for node in recent:
            if node.unlinked:
                continue
            self.check_directory(node if node.is_dir else node.parent or self.model.root)
            if node.parent is not None:
                self.check_stat(node, self.vol.stat(node.path))
        for one in self.opened:
            assert one.handle.size() == len(one.node.data)

    # ---- doing ----

    def clusters(self, n: int) -> int:
        """How many hold ``n`` bytes."""
        return -(-n // self.cluster)

    def attempt(
        self, call: Callable[[], Any], due: int, need: int, grown: int = 0, root: int = 0
    ) -> bool:
        """Calls; the error must be ``due`` (0: none), or ENOSPC with fewer than ``need`` free.

        Whether it was done. A call for which there was no room must have changed nothing,
        but for ``grown`` clusters that a directory may have taken. ``root``: entries that the
        root directory needs for it, if any.
        """
        assert self.vol is not None
        free = self.vol.usage().free_clusters
        try:
            self.result = call()
        except OSError as error:
            if error.errno == errno.ENOSPC and due == 0:
                assert free < need or self.crowded(root), f"ENOSPC with {free} free for {need}"
                assert free - grown <= self.vol.usage().free_clusters <= free
                return False
            if error.errno != due:
                raise AssertionError(f"due was {errno.errorcode.get(due, due)}") from error
            return False
        assert due == 0, f"should have failed with {errno.errorcode[due]}"
        return True

    def crowded(self, entries: int) -> bool:
        """Whether the root directory can't grow and has no room for so many."""
        if not entries:
            return False
        room = self.driver.root_room(*self.seen())
        return room is not None and room < entries

    def seen(self) -> tuple[Any, bytes]:
        """All as the caches of the volume see it, by force; and its bytes."""
        assert self.vol is not None
        assert self.device is not None
        image = self.vol.read_raw(self.vol.size, 0)
        return self.driver.read(image, contents=False), image

    def root_need(self, directory: Node, name: str) -> int:
        """Entries of the root directory that a name takes, 0 where it is in another one."""
        return self.driver.entries(name) if directory is self.model.root else 0

    def learn(self, *nodes: Node) -> None:
        """What the second names of new entries are; they must be nobody else's."""
        if not self.driver.second_names or not nodes:
            return
        raw, _ = self.seen()
        for node in nodes:
            node.alias = raw.tree[node.path].short
            assert node.parent is not None
            for other in node.parent.children.values():
                names = {self.model.fold(n) for n in (other.name, other.alias or other.name)}
                assert other is node or self.model.fold(node.alias) not in names, node.alias

    def pick(self, choices: list[Any], which: int) -> Any:
        """One of them."""
        return choices[which % len(choices)]

    def spell(self, node: Node, how: int) -> str:
        """A path to it, spelled in one of several ways."""
        path = node.path
        if how == 1:
            swapped = path.swapcase()
            if len(swapped) == len(path) and self.model.fold(swapped) == self.model.fold(path):
                return swapped
        if how == 4 and node.alias is not None:
            return path.rpartition("/")[0] + "/" + node.alias
        if how == 2:
            return path.replace("/", "//./") if path != "/" else "//."
        if how == 3:
            return path.removeprefix("/") or "/"
        return path

    def place(self, directory: Node, name: str, how: int) -> str:
        """A path to a name in a directory."""
        return f"{self.spell(directory, how).rstrip('/')}/{name}"

    def length(self, place: tuple[int, int]) -> int:
        """Bytes of so many clusters and some."""
        return max(0, place[0] * self.cluster + place[1])

    def writable_error(self, node: Node) -> int:
        """What opening it for writing says."""
        if node.is_dir:
            return errno.EISDIR
        return errno.EACCES if node.attributes & READ_ONLY else 0

    @rule(ms=st.integers(1, 5000), halves=st.sampled_from([0, 0, 0, 1, 2, 5, 49]))
    def time_passes(self, ms: int, halves: int) -> None:
        """Not in whole steps of what stamps can hold; now and then half an hour or more."""
        self.now += ms * 1_000_003 + halves * 1800 * 10**9
