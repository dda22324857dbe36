"""Workloads step by step, and what may be on the device when one ends in the middle.

A workload is a row of steps. Each knows what it does to a volume and to a dict {path: content}
(None for a directory). After a cut the device must be between the last state that was durable and
the step under way: what is the same in all of these states must be there to the byte, what differs
may be one or the other, and no byte of a file may come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyexfat as px

State = dict[str, bytes | None]
# At worst: space that nobody owns (or that hangs on behind the end of a file), the dirty mark, and
# what only a clean volume must have right. On FAT also long entries of nobody, which are no name,
# and marks, which are written copy by copy.
AT_WORST = {
    *("dirty", "orphan", "chain long"),
    *("percent", "second fat", "second bitmap"),  # exFAT
    *("fsinfo free", "fat copies", "long name", "mark copies"),  # FAT
}


@dataclass
class Step:
    """One call. ``states`` are the states it goes through; the last one is when it has returned."""

    text: str
    call: Callable[[px.Volume], Any]
    apply: Callable[[State], Iterable[State]]
    names: bool = False  # changes a directory: durable at return under dirsync
    syncs: bool = False
    pair: tuple[str, str] | None = None  # of a rename: one of the two is always there


@dataclass
class Plan:
    """Steps with the states before and after each."""

    steps: list[Step]
    states: list[list[State]] = field(default_factory=list)  # states[i]: while step i is under way
    start: State = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Computes the states."""
        now = dict(self.start)
        for step in self.steps:
            row = [now, *step.apply(dict(now))]
            self.states.append(row)
            now = row[-1]
        self.end = now

    def between(self, durable: int, current: int) -> list[State]:
        """All states after step ``durable`` has returned (-1: none) and until ``current`` does."""
        first = self.states[durable][-1] if durable >= 0 else self.start
        out = [first]
        for i in range(durable + 1, min(current + 1, len(self.steps))):
            out += self.states[i]
        return out


# ---- steps ----


def _set(path: str, *contents: bytes | None) -> Callable[[State], Iterable[State]]:
    return lambda s: [{**s, path: content} for content in contents]


def _drop(state: State, *paths: str) -> State:
    return {p: c for p, c in state.items() if p not in paths}


def mkdir(path: str) -> Step:
    return Step(f"mkdir {path}", lambda v: v.mkdir(path), _set(path, None), names=True)


def touch(path: str) -> Step:
    return Step(f"touch {path}", lambda v: v.touch(path), lambda s: [{path: b"", **s}], names=True)


def create_many(directory: str, names: list[str]) -> Step:
    def apply(state: State) -> Iterable[State]:
        for name in names:
            state = {**state, f"{directory.rstrip('/')}/{name}": b""}
            yield state

    return Step("create_many", lambda v: v.create_many(directory, names), apply, names=True)


def remove_many(directory: str, names: list[str]) -> Step:
    def apply(state: State) -> Iterable[State]:
        for name in names:
            state = _drop(state, f"{directory}/{name}")
            yield state

    return Step("remove_many", lambda v: v.remove_many(directory, names), apply, names=True)


def write(path: str, data: bytes) -> Step:
    """A new file or new content for an old one."""
    return Step(f"write {path}", lambda v: v.write_bytes(path, data), _set(path, b"", data))


def append(path: str, data: bytes) -> Step:
    def call(vol: px.Volume) -> None:
        with vol.open(path, "ab", buffering=0) as f:
            f.write(data)

    return Step(f"append {path}", call, lambda s: [{**s, path: (s.get(path) or b"") + data}])


def overwrite(path: str, offset: int, data: bytes) -> Step:
    def call(vol: px.Volume) -> None:
        with vol.open(path, "r+b", buffering=0) as f:
            f.seek(offset)
            f.write(data)

    def apply(state: State) -> Iterable[State]:
        old = state[path] or b""
        old += bytes(max(0, offset - len(old)))
        return [{**state, path: old[:offset] + data + old[offset + len(data) :]}]

    return Step(f"overwrite {path}", call, apply)


def truncate(path: str, size: int) -> Step:
    def apply(state: State) -> Iterable[State]:
        old = state[path] or b""
        return [{**state, path: old[:size] + bytes(max(0, size - len(old)))}]

    return Step(f"truncate {path} {size}", lambda v: v.truncate(path, size), apply)


class Held:
    """A file that stays open from one step to the next."""

    def __init__(self) -> None:
        """Not yet."""
        self.handle: px.Handle | None = None

    def _step(self, text: str, path: str, call: Callable[[Any], Any], new: Callable[[bytes], bytes]
              ) -> Step:  # fmt: skip
        return Step(
            f"{text} {path}",
            lambda _: call(self.handle),
            lambda s: [{**s, path: new(s[path] or b"")}],
        )

    def open(self, path: str) -> Step:
        def call(vol: px.Volume) -> None:
            self.handle = vol.open_file(path, 3)

        return Step(f"open {path}", call, lambda s: [s])

    def resize(self, path: str, size: int) -> Step:
        return self._step(
            f"to {size}", path, lambda h: h.resize(size), lambda d: d[:size].ljust(size, b"\0")
        )

    def allocate(self, path: str, size: int) -> Step:
        return self._step(
            f"room {size}", path, lambda h: h.allocate(0, size), lambda d: d.ljust(size, b"\0")
        )

    def reserve(self, path: str, size: int) -> Step:
        return self._step(f"set aside {size}", path, lambda h: h.allocate(0, size, True), bytes)

    def overwrite(self, path: str, offset: int, data: bytes) -> Step:
        return self._step(
            f"at {offset}",
            path,
            lambda h: h.pwrite(data, offset),
            lambda d: d[:offset].ljust(offset, b"\0") + data + d[offset + len(data) :],
        )

    def close(self, path: str) -> Step:
        return self._step("close", path, lambda h: h.close(), lambda d: d)


def utime(path: str) -> Step:
    return Step(f"utime {path}", lambda v: v.utime(path, ns=(0, 10**18)), lambda s: [s])


def unlink(path: str) -> Step:
    return Step(f"rm {path}", lambda v: v.unlink(path), lambda s: [_drop(s, path)], names=True)


def rmdir(path: str) -> Step:
    return Step(f"rmdir {path}", lambda v: v.rmdir(path), lambda s: [_drop(s, path)], names=True)


def rename(old: str, new: str) -> Step:
    def apply(state: State) -> Iterable[State]:
        moved = _drop(state, old)
        for path, content in state.items():
            if path == old or path.startswith(old + "/"):
                moved.pop(path, None)
                moved[new + path[len(old) :]] = content
        return [moved]

    return Step(f"mv {old} {new}", lambda v: v.rename(old, new), apply, names=True, pair=(old, new))


def sync() -> Step:
    return Step("sync", lambda v: v.sync(), lambda s: [s], syncs=True)


# ---- judging ----


def _differences(path: str, found: bytes, allowed: list[bytes]) -> str | None:
    """What is wrong with the content of a file that may be any of these, or on the way."""
    if found in allowed:
        return None
    if not min(map(len, allowed)) <= len(found) <= max(map(len, allowed)):
        return f"{path}: {len(found)} bytes, not one of {[len(a) for a in allowed]}"
    padded = [a.ljust(len(found), b"\0") for a in allowed]
    for i, byte in enumerate(found):
        if byte and all(p[i] != byte for p in padded):
            return f"{path}: byte {i} is {byte:#x}, which was never written there"
    # What all states agree on must be there, zeros or not.
    shortest = min(map(len, allowed))
    same = [i for i in range(min(shortest, len(found))) if len({a[i] for a in allowed}) == 1]
    wrong = [i for i in same if found[i] != allowed[0][i]]
    return f"{path}: bytes {wrong[:4]} lost" if wrong else None


def judge(
    plan: Plan,
    raw: Any,
    durable: int,
    current: int,
    durable_names: int | None = None,
    halves: bool = False,
) -> list[str]:
    """All that is wrong with what was found on the device when step ``current`` was cut.

    Steps up to ``durable`` are on the device for sure, and names up to ``durable_names``.
    ``halves``: a write that said that it had failed may have changed a part of the content.
    """
    states = plan.between(durable, current)
    named = plan.between(max(durable, durable_names if durable_names is not None else -1), current)
    wrong = [str(v) for v in raw.violations if not _forgiven(plan, raw, v, durable, current)]
    wrong = _without_half_sets(wrong)
    found = {path: e for path, e in raw.tree.items() if path != "/"}
    paths = {p for state in states for p in state} | set(found)
    for path in sorted(paths):
        there = [path in state for state in named]
        if path not in found:
            if all(there):
                wrong.append(f"{path} is gone")
            continue
        if not any(path in state for state in states):
            wrong.append(f"{path} came from nowhere")
            continue
        if not any(there):
            wrong.append(f"{path} came back")
            continue
        contents = [state[path] for state in states if path in state]
        data = [content for content in contents if content is not None]
        if found[path].is_dir and len(data) == len(contents):
            wrong.append(f"{path} is a directory")
        elif not found[path].is_dir:
            bad = _differences(path, found[path].data, data) if data else f"{path} is a file"
            wrong += [bad] if bad else []
    for i in range(durable + 1, min(current + 1, len(plan.steps))):
        pair = plan.steps[i].pair
        if pair and not _pair_there(plan, i, durable, current, found):
            wrong.append(f"neither {pair[0]} nor {pair[1]} is there")
    if not raw.dirty:
        tree = {p: None if e.is_dir else e.data for p, e in found.items()}
        if halves:
            tree = _sizes(tree)
            states = [_sizes(state) for state in states]
        if raw.kinds() - {"mark copies"}:
            wrong.append("marked clean, but it is not")
        if tree not in states:
            wrong.append("marked clean in the middle of a change")
    return wrong


def _sizes(state: State) -> State:
    """The state with zeros for all content."""
    return {p: None if data is None else bytes(len(data)) for p, data in state.items()}


def _without_half_sets(wrong: list[str]) -> list[str]:
    """A new set that crosses sectors can't reach the device at once: half of it may be there.

    That it was no set of a file that was there before is seen by the names that are.
    """
    half = any("(crosses sectors)" in text for text in wrong)
    parts = ("set checksum", "broken set", "stray entry", "after end")
    strays = [text for text in wrong if text.startswith(parts)]
    # Behind an end that is still there: nobody sees them, and a later create takes no such place.
    only_strays = len(strays) == len(wrong) and not any(t.startswith(parts[:2]) for t in strays)
    return [t for t in wrong if t not in strays] if half or only_strays else wrong


def _pair_there(plan: Plan, i: int, durable: int, current: int, found: dict[str, Any]) -> bool:
    """One of a rename's names is there, unless another step makes or takes away one of them."""
    pair = plan.steps[i].pair
    assert pair is not None
    others = [plan.between(durable, i - 1), plan.between(i, current)] if i > durable + 1 else []
    before = others[0] if others else [plan.states[i][0]]
    after = plan.between(i, current)
    steady = all(pair[0] in s for s in before) and all(pair[1] in s for s in after)
    return not steady or pair[0] in found or pair[1] in found


def _forgiven(plan: Plan, raw: Any, violation: Any, durable: int, current: int) -> bool:
    if violation.kind in AT_WORST:
        return True
    if violation.kind not in ("cross link", "duplicate", "duplicate short", "dot entries"):
        return False
    # In the middle of a rename both names are there, with the same clusters, and the ".." of a
    # directory is right for one of them.
    for i in range(durable + 1, min(current + 1, len(plan.steps))):
        pair = plan.steps[i].pair
        if not pair or not any(_about(violation, name) for name in pair):
            continue
        if violation.kind != "dot entries" or _right_for_one(raw, pair):
            return True
    return False


def _right_for_one(raw: Any, pair: tuple[str, str]) -> bool:
    wrong = {v.where for v in raw.violations if v.kind == "dot entries"}
    return set(pair) <= set(raw.tree) and not set(pair) <= wrong


def _about(violation: Any, path: str) -> bool:
    parent = path.rpartition("/")[0] or "/"
    text = f"{violation.where}|{violation.detail}"
    if violation.kind in ("duplicate", "duplicate short"):
        return violation.where in (parent, path)
    return violation.where == path or violation.where.startswith(path + "/") or path in text
