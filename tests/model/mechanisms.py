"""A state machine for what is remembered about directories: hints, holes, filters and indexes.

After each step every directory is read by force, from the bytes as the volume's caches see them,
and compared with what the volume finds by hints, filter and index. The truth is always what is in
the bytes; where nothing failed it is the model's, too.
"""

from __future__ import annotations

import errno
import random
import sys
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import pyexfat as px
from model.drivers import SYNC_MODES, Driver, policies

DIRECTORIES = ["/", "/one", "/two"]
# One to 17 name entries, so that holes of one size meet sets of another; case pairs among them.
NAMES = [
    *(f"f{i}" for i in range(24)),
    *(f"long {i} {'l' * (7 + 13 * i)}" for i in range(12)),
    *(f"F{i}" for i in range(0, 24, 3)),
]
PICKS = st.integers(0, 1 << 16)


class MechanismMachine(RuleBasedStateMachine):
    """Creates, deletes, renames, grows, fails, shrinks and remounts under any policy."""

    driver: ClassVar[Driver]
    with_faults: ClassVar[bool] = True

    def __init__(self) -> None:
        """Nothing is formatted yet."""
        super().__init__()
        self.device: px.Device | None = None
        self.faults: px.Faults | None = None
        self.vol: px.Volume | None = None
        self.failed = False  # an injected error has been reported since the last mount
        self.leaky = False  # … or ever
        self.shaken = False  # the device was made to fail, whether or not anybody noticed
        self.marked = False  # the volume was left marked dirty

    @initialize(
        cluster=st.sampled_from([512, 1024, 4096]),
        fats=st.sampled_from([1, 1, 2]),
        policy=policies(),
        sync=SYNC_MODES,
        full=st.booleans(),
    )
    def begin(self, cluster: int, fats: int, policy: dict[str, Any], sync: str, full: bool) -> None:
        """A small volume with three directories, and little room in some."""
        size, options = self.driver.small(cluster)
        self.device = px.Device.memory(size)
        self.faults = self.device.faults()
        with px.format(self.faults, self.driver.name, fats=fats, **options) as vol:
            for directory in DIRECTORIES[1:]:
                vol.mkdir(directory)
            if full:  # directories soon find no room to grow
                vol.touch("/f0")
                vol.truncate("/f0", (vol.usage().free_clusters - 3) * vol.usage().cluster_size)
        self.open(policy, sync)
        self.names = {d: set() for d in DIRECTORIES}
        if full:
            self.names["/"].add("f0")

    def open(self, policy: dict[str, Any], sync: str) -> None:
        options = self.driver.open_options(0)
        self.vol = px.open(self.faults, "r+", policy=policy, sync=sync, **options)
        self.failed = False

    @property
    def forgiven(self) -> set[str]:
        """What an unclean volume may have; a mirror is only as good as the write that failed."""
        return {"orphan", *(["hard error"] if self.shaken else []), *self.driver.unclean}

    def raw(self, from_device: bool) -> Any:
        """By force: from the device, or as the caches see it."""
        assert self.device is not None
        assert self.vol is not None
        if from_device:
            image = self.device.pread(self.device.size, 0)
        else:
            image = self.vol.read_raw(self.vol.size, 0)
        return self.driver.read(image, contents=False)

    # ---- steps ----

    def change(self, call: Any, due: set[int]) -> int:
        """The errno of a call, 0 if none; it must be one that is due, or ENOSPC."""
        try:
            call()
        except OSError as error:
            if error.errno not in due | {errno.ENOSPC}:
                raise AssertionError(f"due was {due}") from error
            return int(error.errno or -1)
        assert due <= {0}, f"should have failed with {due}"
        return 0

    def there(self, directory: str, name: str) -> str | None:
        """The name as it is stored, if it is there."""
        folded = name.upper()
        return next((n for n in self.names[directory] if n.upper() == folded), None)

    @rule(where=st.sampled_from(DIRECTORIES), name=st.sampled_from(NAMES))
    def create(self, where: str, name: str) -> None:
        """One file."""
        assert self.vol is not None
        vol, path = self.vol, f"{where}/{name}"
        due = {errno.EEXIST} if self.there(where, name) else {0}
        before = self.raw(from_device=False)
        if self.change(lambda: vol.touch(path, exist_ok=False), due) == 0:
            self.names[where].add(name)
            self.check_growth(where, self.driver.entries(name), before)

    def check_growth(self, where: str, need: int, before: Any) -> None:
        """A directory grows only when none of its holes, nor its end, had room for the name."""
        if where == "/":
            return  # it has entries that are not in the tree
        size = before.tree[where].size
        sets = [before.tree[f"{where}/{name}"] for name in before.children[where]]
        at, longest = self.driver.first_index, 0
        for entry in sorted(sets, key=lambda e: e.index):
            longest = max(longest, entry.index - at)
            at = entry.index + entry.entries
        longest = max(longest, size // 32 - at)
        grown = self.raw(from_device=False).tree[where].size > size
        assert grown == (longest < need), f"grown: {grown}, room for {longest}, needed {need}"

    @rule(where=st.sampled_from(DIRECTORIES), which=PICKS, count=st.integers(1, 30))
    def create_many(self, where: str, which: int, count: int) -> None:
        """A row of files."""
        assert self.vol is not None
        chosen = random.Random(which).sample(NAMES, min(count, len(NAMES)))
        fresh: dict[str, str] = {}
        for name in chosen:
            if not self.there(where, name):
                fresh.setdefault(name.upper(), name)
        names = list(fresh.values())
        done = len(names)
        try:
            self.vol.create_many(where, names)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            done = error.done  # type: ignore[attr-defined]
        self.names[where].update(names[:done])

    @rule(where=st.sampled_from(DIRECTORIES), which=PICKS)
    def remove(self, where: str, which: int) -> None:
        """One file."""
        assert self.vol is not None
        vol, names = self.vol, sorted(self.names[where])
        if names:
            name = names[which % len(names)]
            assert self.change(lambda: vol.unlink(f"{where}/{name}"), {0}) == 0
            self.names[where].discard(name)

    @rule(where=st.sampled_from(DIRECTORIES), which=PICKS, count=st.integers(1, 30))
    def remove_many(self, where: str, which: int, count: int) -> None:
        """Some, in any order: runs of free entries grow from all sides."""
        assert self.vol is not None
        names = sorted(self.names[where])
        random.Random(which).shuffle(names)
        self.vol.remove_many(where, names[:count])
        self.names[where].difference_update(names[:count])

    @rule(
        where=st.sampled_from(DIRECTORIES),
        to=st.sampled_from(DIRECTORIES),
        which=PICKS,
        name=st.sampled_from(NAMES),
    )
    def rename(self, where: str, to: str, which: int, name: str) -> None:
        """Within a directory and to another, over what is there."""
        assert self.vol is not None
        vol, names = self.vol, sorted(self.names[where])
        if not names:
            return
        old = names[which % len(names)]
        replaced = self.there(to, name)
        if self.change(lambda: vol.rename(f"{where}/{old}", f"{to}/{name}"), {0}) == 0:
            if replaced is not None:
                self.names[to].discard(replaced)
            self.names[where].discard(old)
            self.names[to].add(name)

    @rule(where=st.sampled_from(DIRECTORIES[1:]), name=st.sampled_from(NAMES[:24]))
    def make_directory(self, where: str, name: str) -> None:
        """A directory comes and goes: its clusters hold old entries when they are used again."""
        assert self.vol is not None
        vol, path = self.vol, f"{where}/{name}"
        if self.there(where, name):
            return
        if self.change(lambda: vol.mkdir(path), {0}) == 0:
            row = [f"in {i}" for i in range(20)]
            done = len(row)
            try:
                vol.create_many(path, row)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                done = error.done  # type: ignore[attr-defined]
            vol.remove_many(path, row[:done])
            vol.rmdir(path)

    # ---- failures ----

    @rule(
        where=st.sampled_from(DIRECTORIES),
        to=st.sampled_from(DIRECTORIES),
        which=PICKS,
        name=st.sampled_from(NAMES),
        kind=st.integers(0, 3),
        op=st.sampled_from(["write", "write", "flush", "read"]),
        nth=st.integers(1, 6),
        error=st.sampled_from([errno.EIO, errno.ENOSPC]),
        torn=st.booleans(),
    )
    def fail(
        self,
        where: str,
        to: str,
        which: int,
        name: str,
        kind: int,
        op: Any,
        nth: int,
        error: int,
        torn: bool,
    ) -> None:
        """A change in whose middle the device fails; what it left behind is found out by force."""
        if not self.with_faults:
            return
        assert self.vol is not None
        assert self.faults is not None
        vol, names = self.vol, sorted(self.names[where])
        old = names[which % len(names)] if names else "none"
        if op == "read":
            vol.shrink(1 << 30)
        self.shaken = True
        action: Any = "tear" if torn and op == "write" else "fail"
        self.faults.add(op, nth=nth, times=50, action=action, error=error, keep=512)
        try:
            if kind == 0:
                vol.touch(f"{where}/{name}")
            elif kind == 1:
                vol.unlink(f"{where}/{old}")
            elif kind == 2:
                vol.rename(f"{where}/{old}", f"{to}/{name}")
            else:
                vol.sync()
        except OSError as failure:
            if failure.errno not in (errno.ENOENT, errno.EEXIST):
                self.failed = self.leaky = True
        finally:
            self.faults.clear()
        self.take_over()

    def take_over(self) -> None:
        """The model takes what is there for the truth; directories are never lost."""
        raw = self.raw(from_device=False)
        for directory in DIRECTORIES:
            assert directory in raw.children
            self.names[directory] = {
                n for n in raw.children[directory] if f"/{n}" not in DIRECTORIES
            }

    # ---- the whole ----

    @rule(n=st.sampled_from([0, 1, 1000, 1 << 30]))
    def shrink(self, n: int) -> None:
        """Tables go."""
        assert self.vol is not None
        self.vol.shrink(n)

    @rule(policy=policies())
    def set_policy(self, policy: dict[str, Any]) -> None:
        """Mechanisms come and go."""
        assert self.vol is not None
        self.vol.policy = policy

    @rule()
    def sync(self) -> None:
        """And the device is compared, too."""
        assert self.vol is not None
        self.vol.sync()
        self.compare(self.raw(from_device=True))

    @rule(policy=policies(), sync=SYNC_MODES)
    def remount(self, policy: dict[str, Any], sync: str) -> None:
        """Nothing is remembered after it."""
        self.close()
        self.open(policy, sync)

    def close(self) -> None:
        """Closes; the device is right then, whatever failed before."""
        assert self.vol is not None
        self.vol.close()
        raw = self.raw_device()
        forgiven = self.forgiven if self.leaky else {"hard error"} if self.shaken else set()
        wrong = [str(v) for v in raw.violations if v.kind not in forgiven]
        assert wrong == [], wrong
        self.compare_names(raw)

    def raw_device(self) -> Any:
        assert self.device is not None
        return self.driver.read(self.device.pread(self.device.size, 0), contents=False)

    def teardown(self) -> None:
        """Closes and compares, unless something has failed already."""
        try:
            if self.vol is not None and sys.exc_info()[0] is None:
                self.close()
        finally:
            if self.vol is not None and not self.vol.closed:
                self.vol.abandon()
            if self.device is not None:
                assert self.faults is not None
                self.faults.close()
                self.device.close()

    # ---- comparing ----

    @invariant()
    def same_by_force_and_by_memory(self) -> None:
        """The heart of it."""
        if self.vol is None or self.vol.closed:
            return
        self.compare(self.raw(from_device=False))

    def compare(self, raw: Any) -> None:
        """Listing, present names and absent ones, each with its place."""
        assert self.vol is not None
        wrong = [v for v in raw.violations if v.kind not in self.forgiven]
        assert wrong == [], list(map(str, wrong))
        self.compare_names(raw)
        for directory in DIRECTORIES:
            names = raw.children[directory]
            assert self.vol.listdir(directory) == names
            folded = {name.upper() for name in names}
            for name in names:
                path = f"{directory.rstrip('/')}/{name}"
                found = self.vol.stat(f"{directory}/{name.swapcase()}")
                assert found.entry_offset == raw.tree[path].offset, path
                if self.driver.second_names:
                    found = self.vol.stat(f"{directory}/{raw.tree[path].short.lower()}")
                    assert found.entry_offset == raw.tree[path].offset, path
            for name in NAMES:
                if name.upper() not in folded:
                    assert not self.vol.exists(f"{directory}/{name}"), f"{directory}/{name}"

    def compare_names(self, raw: Any) -> None:
        """What was found by force is what the model has."""
        for directory in DIRECTORIES:
            names = {n for n in raw.children[directory] if f"/{n}" not in DIRECTORIES}
            assert names == self.names[directory], directory
