"""A state machine over the whole API of a volume, for any driver."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.compared import (
    APPEND,
    CREATE,
    EXCLUSIVE,
    LEAKS,
    PICK,
    PLACE,
    READ,
    SETTABLE,
    SPELL,
    TRUNCATE,
    WRITE,
    ComparedVolume,
    Open,
    content,
)
from model.drivers import SYNC_MODES, policies
from model.volume import DIRECTORY, Node


class VolumeMachine(ComparedVolume):
    """Does the same to a volume and to dicts, and compares."""

    # ---- names that come and go ----

    @rule(where=PICK, name=st.data(), how=SPELL, way=st.integers(0, 3))
    def create(self, where: int, name: st.DataObject, how: int, way: int) -> None:
        """A new file: by open(), touch(), mkdir() or exclusively."""
        assert self.vol is not None
        vol = self.vol
        text = name.draw(self.driver.names)
        directory = self.pick(self.model.directories(), where)
        path = self.place(directory, text, how)
        there = self.model.child(directory, text)
        due = errno.EEXIST if there is not None else 0
        flags = WRITE | CREATE | EXCLUSIVE
        calls: list[Callable[[], Any]] = [
            lambda: vol.mkdir(path),
            lambda: vol.open(path, "xb").close(),
            lambda: vol.open_file(path, flags).close(),
            lambda: vol.touch(path, exist_ok=False),
        ]
        need = self.driver.growth + (way == 0)
        if self.attempt(calls[way], due, need, root=self.root_need(directory, text)):
            made = self.model.add(directory, text, way == 0, self.now)
            self.learn(made)
            self.recent.append(made)
        self.recent.append(directory)

    @rule(which=PICK, how=SPELL, as_directory=st.booleans())
    def remove(self, which: int, how: int, as_directory: bool) -> None:
        """rmdir() or unlink(), right or wrong."""
        assert self.vol is not None
        vol, node = self.vol, self.pick([*self.model.nodes(), self.model.root], which)
        path = self.spell(node, how)
        if as_directory:
            due = 0 if node.is_dir else errno.ENOTDIR
            if node is self.model.root:
                due = errno.EBUSY
            elif node.children:
                due = errno.ENOTEMPTY
            done = self.attempt(lambda: vol.rmdir(path), due, 0)
        else:
            done = self.attempt(lambda: vol.unlink(path), errno.EISDIR if node.is_dir else 0, 0)
        if done:
            self.model.drop(node, self.now)
            self.recent.append(node.parent)
        self.recent.append(node)

    @rule(which=PICK, where=PICK, name=st.data(), how=SPELL, keep=st.integers(0, 5))
    def rename(self, which: int, where: int, name: st.DataObject, how: int, keep: int) -> None:
        """Over, across, into itself, of case only."""
        assert self.vol is not None
        vol, node = self.vol, self.pick([*self.model.nodes(), self.model.root], which)
        directory = self.pick(self.model.directories(), where)
        if keep == 0 and node.parent is not None:  # case only
            directory, text = node.parent, node.name.swapcase()
            if len(text.encode("utf-16-le", "surrogatepass")) > 510 or "/" in text:
                text = node.name
        elif keep == 1 and directory.children:  # a name that is there
            text = self.pick(list(directory.children.values()), which).name
        else:
            text = name.draw(self.driver.names)
        old, new = self.spell(node, how), self.place(directory, text, how)
        if node is self.model.root:
            due = errno.EBUSY
        else:
            due = self.model.rename_error(node, directory, text)
        root = self.root_need(directory, text)
        if self.attempt(lambda: vol.rename(old, new), due, self.driver.growth, root=root):
            before = node.parent
            self.model.rename(node, directory, text, self.now)
            self.learn(node)
            self.recent += [before, directory]
        self.recent.append(node)

    @rule(where=PICK, names=st.data(), count=st.integers(1, 40))
    def create_many(self, where: int, names: st.DataObject, count: int) -> None:
        """Many files at once; the error says how many went well."""
        assert self.vol is not None
        vol, directory = self.vol, self.pick(self.model.directories(), where)
        start = names.draw(st.integers(0, 100))
        wanted = [f"many {i} {'é' * (i % 37)}" for i in range(start, start + count)]
        if names.draw(st.booleans()):
            wanted.insert(names.draw(st.integers(0, count)), names.draw(self.driver.names))
        fresh: list[str] = []
        taken: set[tuple[int, ...]] = set()
        for name in wanted:
            if self.model.fold(name) in taken or self.model.child(directory, name):
                break
            taken.add(self.model.fold(name))
            fresh.append(name)
        done = self.many(
            lambda: vol.create_many(directory.path, wanted),
            errno.EEXIST if len(fresh) < len(wanted) else 0,
            [self.root_need(directory, name) for name in wanted],
        )
        assert done <= len(fresh)
        self.learn(*[self.model.add(directory, n, False, self.now) for n in wanted[:done]])
        self.recent.append(directory)

    @rule(where=PICK, which=PICK, count=st.integers(1, 40))
    def remove_many(self, where: int, which: int, count: int) -> None:
        """Many files at once, until one that is a directory or not there."""
        assert self.vol is not None
        vol, directory = self.vol, self.pick(self.model.directories(), where)
        there = list(directory.children.values())
        random.Random(which).shuffle(there)
        chosen = there[:count]
        wanted = [node.name for node in chosen]
        due = 0
        good = next((i for i, node in enumerate(chosen) if node.is_dir), len(chosen))
        if good < len(chosen):
            due = errno.EISDIR
        elif which % 5 == 0 and self.model.child(directory, "not there") is None:
            wanted.append("not there")
            due = errno.ENOENT
        call = lambda: vol.remove_many(directory.path, wanted)  # noqa: E731
        done = self.many(call, due, [0] * len(wanted))
        assert done == good
        for node in chosen[:done]:
            self.model.drop(node, self.now)
        self.recent.append(directory)

    def many(self, call: Callable[[], int], due: int, root: list[int]) -> int:
        """How many of a row of names went well, each of which takes entries of the root."""
        assert self.vol is not None
        try:
            done = call()
        except OSError as error:
            done = int(error.done)  # type: ignore[attr-defined]
            if error.errno == errno.ENOSPC:
                few = self.vol.usage().free_clusters < self.driver.growth
                assert few or self.crowded(root[done])
            elif error.errno != due:
                raise
            return done
        assert due == 0
        assert done == len(root)
        return done

    # ---- open files ----

    @rule(
        which=PICK,
        how=SPELL,
        mode=st.sampled_from([READ, WRITE, READ | WRITE, READ | WRITE | APPEND]),
        empty=st.booleans(),
    )
    def open_file(self, which: int, how: int, mode: int, empty: bool) -> None:
        """One more handle, on a file that may be open already."""
        assert self.vol is not None
        vol, nodes = self.vol, self.model.nodes()
        if not nodes or len(self.opened) >= 6:
            return
        node = self.pick(nodes, which)
        flags = mode | (TRUNCATE if empty and mode & WRITE else 0)
        due = self.writable_error(node) if mode & WRITE or node.is_dir else 0
        path = self.spell(node, how)
        if self.attempt(lambda: vol.open_file(path, flags), due, 0):
            if flags & TRUNCATE:
                node.data.clear()
                node.wrote(self.now)
            node.handles += 1
            self.opened.append(Open(self.result, node, flags))
        self.recent.append(node)

    @precondition(lambda self: self.opened)
    @rule(which=PICK)
    def close_file(self, which: int) -> None:
        """Closes a handle."""
        one = self.opened.pop(which % len(self.opened))
        one.handle.close()
        one.node.handles -= 1
        if one.node.handles == 0:
            one.node.reserved = one.node.pinned
        self.recent.append(one.node)

    @precondition(lambda self: self.opened)
    @rule(which=PICK, at=PLACE, size=PLACE, seed=st.integers(0, 99))
    def write(self, which: int, at: tuple[int, int], size: tuple[int, int], seed: int) -> None:
        """Anywhere, in the file and beyond its end."""
        one = self.pick(self.opened, which)
        data = content(seed, self.length(size))
        offset = len(one.node.data) if one.flags & APPEND else self.length(at)
        end = offset + len(data) if data else 0
        due = 0 if one.flags & WRITE else errno.EBADF
        need = self.clusters(end) - self.clusters(len(one.node.data))
        if one.flags & APPEND:
            done = self.attempt(lambda: one.handle.append(data), due, need)
            if done:
                assert self.result == (len(data), offset + len(data))
        else:
            done = self.attempt(lambda: one.handle.pwrite(data, offset), due, need)
            if done:
                assert self.result == len(data)
        if done and data:
            stored = one.node.data
            stored.extend(bytes(max(0, end - len(stored))))
            stored[offset:end] = data
            one.node.wrote(self.now)
        self.recent.append(one.node)

    @precondition(lambda self: self.opened)
    @rule(which=PICK, at=PLACE, size=PLACE)
    def read(self, which: int, at: tuple[int, int], size: tuple[int, int]) -> None:
        """Anywhere, over the end as well."""
        one = self.pick(self.opened, which)
        offset, n = self.length(at), self.length(size)
        due = 0 if one.flags & READ else errno.EBADF
        if self.attempt(lambda: one.handle.pread(n, offset), due, 0):
            assert self.result == one.node.data[offset : offset + n]

    @precondition(lambda self: self.opened)
    @rule(which=PICK, size=PLACE)
    def resize(self, which: int, size: tuple[int, int]) -> None:
        """truncate() of an open file."""
        one = self.pick(self.opened, which)
        due = 0 if one.flags & WRITE else errno.EBADF
        self.do_resize(one.node, lambda n: one.handle.resize(n), self.length(size), due)

    @rule(which=PICK, size=PLACE, how=SPELL)
    def truncate(self, which: int, size: tuple[int, int], how: int) -> None:
        """truncate() by path."""
        assert self.vol is not None
        vol, nodes = self.vol, self.model.nodes()
        if nodes:
            node = self.pick(nodes, which)
            path, due = self.spell(node, how), self.writable_error(node)
            self.do_resize(node, lambda n: vol.truncate(path, n), self.length(size), due)

    def do_resize(self, node: Node, call: Callable[[int], Any], n: int, due: int) -> None:
        need = self.clusters(n) - self.clusters(len(node.data))
        if self.attempt(lambda: call(n), due, need):
            del node.data[n:]
            node.data.extend(bytes(n - len(node.data)))
            node.wrote(self.now)
        self.recent.append(node)

    @rule(which=PICK, at=PLACE, size=PLACE, keep=st.booleans(), by_path=st.booleans())
    def fallocate(
        self, which: int, at: tuple[int, int], size: tuple[int, int], keep: bool, by_path: bool
    ) -> None:
        """Clusters for later; the content does not change but for zeros at the end."""
        assert self.vol is not None
        vol = self.vol
        offset, n = self.length(at), self.length(size) + 1
        choices = self.model.nodes() if by_path else self.opened
        if not choices:
            return
        chosen = self.pick(choices, which)
        if by_path:
            node, due = chosen, self.writable_error(chosen)
            done = self.allocate(
                node, lambda: vol.fallocate(node.path, offset, n, keep), due, offset + n
            )
        else:
            node, due = chosen.node, 0 if chosen.flags & WRITE else errno.EBADF
            done = self.allocate(
                node, lambda: chosen.handle.allocate(offset, n, keep), due, offset + n
            )
        if done and offset + n > len(node.data):
            if keep:
                node.reserved = True
                node.pinned = node.pinned or node.handles == 0
            else:
                node.data.extend(bytes(offset + n - len(node.data)))
                node.wrote(self.now)
        self.recent.append(node)

    def allocate(self, node: Node, call: Callable[[], Any], due: int, end: int) -> bool:
        return self.attempt(call, due, self.clusters(end) - self.clusters(len(node.data)))

    # ---- whole files, attributes ----

    @rule(where=PICK, name=st.data(), size=PLACE, seed=st.integers(0, 99))
    def write_bytes(
        self, where: int, name: st.DataObject, size: tuple[int, int], seed: int
    ) -> None:
        """A buffered stream over a new file or an old one."""
        assert self.vol is not None
        directory = self.pick(self.model.directories(), where)
        text = name.draw(self.driver.names)
        node = self.model.child(directory, text)
        if node is not None and self.writable_error(node):
            return
        data = content(seed, self.length(size))
        free = self.vol.usage().free_clusters + (
            0 if node is None else self.clusters(len(node.data))
        )
        if free < self.clusters(len(data)) + self.driver.growth or (node and node.reserved):
            return  # whether it fits is what `write` tries
        path = self.place(directory, text, 0)
        if node is None and self.crowded(self.root_need(directory, text)):
            return
        with self.vol.open(path, "wb") as stream:
            for i in range(0, len(data), 1000):
                stream.write(data[i : i + 1000])
        if node is None:
            node = self.model.add(directory, text, False, self.now)
            self.learn(node)
        node.data[:] = data
        node.wrote(self.now)
        assert self.vol.read_bytes(path) == data
        self.recent.append(node)

    @rule(which=PICK, where=PICK, name=st.data())
    def copy(self, which: int, where: int, name: st.DataObject) -> None:
        """A copy within the volume has the content, times and attributes."""
        assert self.vol is not None
        vol, files = self.vol, self.model.files()
        directory = self.pick(self.model.directories(), where)
        text = name.draw(self.driver.names)
        if not files or self.model.child(directory, text) is not None:
            return
        node = self.pick(files, which)
        need = self.clusters(len(node.data)) + self.driver.growth
        path = self.place(directory, text, 0)
        root, grown = self.root_need(directory, text), self.driver.growth
        if self.attempt(lambda: vol.copy(node.path, path), 0, need, grown, root):
            made = self.model.add(directory, text, False, self.now)
            made.data[:] = node.data
            made.attributes = node.attributes
            self.learn(made)
            made.created = self.rounded_creation(node.created)
            made.modified, made.accessed = node.modified, self.rounded_access(node.accessed)
            made.modified = self.rounded(made.modified)
            self.recent.append(made)
        elif directory.parent is not None:  # a file came and went
            directory.modified = vol.stat(directory.path).st_mtime_ns
        self.recent.append(directory)

    @rule(which=PICK, how=SPELL, by=st.integers(0, 2), when=st.integers(0, 10**9), bits=PICK)
    def attributes(self, which: int, how: int, by: int, when: int, bits: int) -> None:
        """touch(), utime() and the attribute bits."""
        assert self.vol is not None
        vol, nodes = self.vol, self.model.nodes()
        if not nodes:
            return
        node = self.pick(nodes, which)
        path = self.spell(node, how)
        if by == 0:
            assert self.attempt(lambda: vol.touch(path), 0, 0)
            node.modified = node.accessed = self.now
        elif by == 1:
            start = self.driver.start
            times = (start - when * 10**8, start + when * 10**8 + 123456789)
            made = start - when * 7
            assert self.attempt(lambda: vol.utime(path, ns=times, created_ns=made), 0, 0)
            node.accessed, node.modified, node.created = *times, made
        else:
            settable = sum(bit for i, bit in enumerate(SETTABLE) if bits >> i & 1)
            assert self.attempt(lambda: vol.setattr(path, attributes=settable), 0, 0)
            node.attributes = settable | (DIRECTORY if node.is_dir else 0)
        self.recent.append(node)

    # ---- questions ----

    @rule(where=PICK, name=st.data(), how=SPELL)
    def look(self, where: int, name: st.DataObject, how: int) -> None:
        """A name that may be there, in a directory or below a file."""
        assert self.vol is not None
        vol = self.vol
        directory = self.pick([*self.model.directories(), *self.model.files()], where)
        text = name.draw(self.driver.names)
        path = self.place(directory, text, how)
        there = self.model.child(directory, text)
        due = errno.ENOENT if directory.is_dir else errno.ENOTDIR
        if self.attempt(lambda: vol.stat(path), 0 if there else due, 0):
            self.check_stat(there, self.result)
            assert vol.stored_name(path) == there.name
        assert vol.exists(path) == (there is not None)
        assert vol.isdir(path) == (there is not None and there.is_dir)

    @rule(which=PICK)
    def list_with_stat(self, which: int) -> None:
        """scandir() knows of each entry what stat() says."""
        assert self.vol is not None
        directory = self.pick(self.model.directories(), which)
        with self.vol.scandir(directory.path) as entries:
            found = {entry.name: entry.stat() for entry in entries}
        assert set(found) == {c.name for c in directory.children.values()}
        for node in directory.children.values():
            self.check_stat(node, found[node.name])

    @rule(which=PICK)
    def extents(self, which: int) -> None:
        """Extents cover a file once, in order, and hold its bytes once all is on the device."""
        assert self.vol is not None
        assert self.device is not None
        files = self.model.files()
        if not files:
            return
        node = self.pick(files, which)
        self.vol.sync()
        at, stored = 0, bytearray()
        for extent in self.vol.extents(node.path):
            assert extent.file_offset == at
            assert extent.length > 0
            at += extent.length
            start = extent.device_offset - extent.device_offset % self.device.sector_size
            end = -(-(extent.device_offset + extent.length) // self.device.sector_size)
            whole = self.device.pread(end * self.device.sector_size - start, start)
            piece = whole[extent.device_offset - start :][: extent.length]
            stored += piece if extent.written else bytes(extent.length)
        assert stored == node.data

    @rule()
    def usage(self) -> None:
        """Free space is what nobody owns."""
        assert self.vol is not None
        if self.may_leak or any(o.node.unlinked for o in self.opened):
            return
        if any(node.reserved for node in self.model.nodes()):
            return
        used = 0
        for node in self.model.nodes():
            found = self.vol.stat(node.path)
            assert node.is_dir or found.st_size == len(node.data)
            used += self.clusters(found.st_size)
        if self.driver.root_in_heap:
            used += self.clusters(self.vol.stat("/").st_size)
        usage = self.vol.usage()
        system = self.driver.system(usage.clusters, self.cluster, self.geometry)
        assert usage.clusters - usage.free_clusters == used + system

    # ---- the whole ----

    @rule(policy=policies())
    def set_policy(self, policy: dict[str, Any]) -> None:
        """Mechanisms may be switched while the volume is in use."""
        assert self.vol is not None
        self.vol.policy = policy

    @rule(n=st.sampled_from([0, 1, 4096, 1 << 30]))
    def shrink(self, n: int) -> None:
        """Caches go."""
        assert self.vol is not None
        self.vol.shrink(n)

    @rule(mode=SYNC_MODES)
    def set_sync(self, mode: str) -> None:
        """Sync modes may be switched, too."""
        assert self.vol is not None
        self.vol.set_sync(mode)

    @rule(labels=st.data())
    def set_label(self, labels: st.DataObject) -> None:
        """The label is in the root directory."""
        assert self.vol is not None
        vol, text = self.vol, labels.draw(self.driver.labels)

        def change() -> None:
            vol.label = text

        if self.attempt(change, 0, self.driver.growth, root=1):
            self.label = text
        assert vol.label == self.label

    @rule()
    def sync(self) -> None:
        """After sync() the device has all of it but the clean mark."""
        assert self.vol is not None
        self.vol.sync()
        raw = self.raw()
        forgiven = self.driver.unclean | LEAKS
        wrong = [str(v) for v in raw.violations if v.kind not in forgiven]
        assert wrong == [], wrong
        for node in self.model.files():
            assert raw.tree[node.path].data == node.data

    @rule(n=st.sampled_from([0, 4096, 1 << 20]))
    def trim(self, n: int) -> None:
        """Only what is free may be lost."""
        assert self.vol is not None
        assert self.vol.trim(n) <= self.vol.usage().free

    @rule(policy=policies(), sync=SYNC_MODES, east=st.integers(0, 100))
    def remount(self, policy: dict[str, Any], sync: str, east: int) -> None:
        """Closes with all that is open, compares, opens again."""
        self.close_volume()
        self.mount(policy, sync, self.pick(list(self.driver.offsets), east))

    @rule(policy=policies(), sync=SYNC_MODES)
    def lose_power_after_sync(self, policy: dict[str, Any], sync: str) -> None:
        """What sync() returned for is there, the volume is marked dirty and stays so."""
        assert self.vol is not None
        self.vol.sync()
        nameless = any(one.node.unlinked for one in self.opened)
        reserved = any(n.reserved for n in [*self.model.nodes(), *(o.node for o in self.opened)])
        self.may_leak = self.may_leak or nameless or reserved
        self.vol.abandon()
        for one in self.opened:
            one.handle.close()
            one.node.handles -= 1
        self.opened.clear()
        for node in self.model.nodes():
            node.reserved = node.pinned = False
        self.was_marked = self.was_marked or self.raw().dirty
        self.check_device()
        self.mount(policy, sync, 0)

    @precondition(lambda self: self.geometry["size"] <= 3 << 20)
    @rule(name=st.data(), less=st.integers(0, 3))
    def fill(self, name: st.DataObject, less: int) -> None:
        """One file takes all that is free, or almost."""
        assert self.vol is not None
        vol, text = self.vol, name.draw(self.driver.names)
        node = self.model.child(self.model.root, text)
        if node is not None or vol.usage().free_clusters < self.driver.growth:
            return
        if self.crowded(self.root_need(self.model.root, text)):
            return
        with vol.open("/" + text, "xb"):
            node = self.model.add(self.model.root, text, False, self.now)
        self.learn(node)
        n = max(0, vol.usage().free_clusters - less) * self.cluster
        assert not self.attempt(
            lambda: vol.truncate(node.path, n + (less + 1) * self.cluster),
            0,
            n // self.cluster + less + 1,
        )
        assert self.attempt(lambda: vol.truncate(node.path, n), 0, n // self.cluster)
        node.data.extend(bytes(n))
        node.wrote(self.now)
        self.recent.append(node)
