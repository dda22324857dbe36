"""Power cuts at every write: at worst the device has space that nobody owns and the dirty mark.

A recorder logs what a workload writes. The device is then rebuilt as of every point of the log,
with the last write torn, and with writes since the last flush lost in any order, as a disk's own
cache may lose them; an independent reader says what is on it.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

import pytest
from model.crash import AT_WORST, Plan, judge
from model.drivers import DRIVERS, EXFAT, FAT12, FAT16, FAT32, Driver
from model.profiles import profile_name
from model.workloads import WORKLOADS, plan_of

import pyexfat as px

SHUFFLES = {"dev": 3, "ci": 6, "soak": 60}.get(profile_name(), 1)


@dataclass
class Recorded:
    """What a workload wrote, and where in the log each step ended."""

    driver: Driver
    plan: Plan
    base: bytes
    log: list[Any]  # (kind, offset, length, data)
    ends: list[int]

    def position(self, count: int, sync_mode: str) -> tuple[int, int, int]:
        """At a prefix: last durable step, step that wrote last, last step with durable names."""
        current = bisect_left(self.ends, count)
        durable = names = -1
        for i in range(bisect_right(self.ends, count)):  # those that have returned
            step = self.plan.steps[i]
            if step.syncs or sync_mode == "sync":
                durable = names = i
            elif sync_mode == "dirsync" and step.names:
                names = i
        return durable, current, names


def record(
    driver: Driver, workload: str, policy: dict[str, Any], sync_mode: str, fats: int
) -> Recorded:
    """Runs the workload on a recorder."""
    plan = plan_of(workload)
    size, options = driver.small()
    with px.Device.memory(size) as device:
        device.pwrite(b"\xa5" * size, 0)  # what was there before must not come to light
        px.format(device, driver.name, fats=fats, **options).close()
        base = device.pread(size, 0)
        options = driver.open_options(0) | {"policy": policy}
        recorder = device.record()
        ends = []
        with px.open(recorder, "r+", sync=sync_mode, **options) as vol:
            for step in plan.steps:
                step.call(vol)
                ends.append(len(recorder))
        log = []
        for i in range(len(recorder)):
            entry = recorder.entry(i)
            data = recorder.data(i) if entry.kind == "write" else bytes(entry.length)
            log.append((entry.kind, entry.offset, entry.length, data))
        assert bytes(device.pread(size, 0)) == bytes(apply(base, log))
        recorder.close()
    return Recorded(driver, plan, base, log, ends)


def apply(image: bytes | bytearray, entries: list[Any]) -> bytearray:
    """The image after these writes."""
    out = bytearray(image)
    for kind, offset, length, data in entries:
        if kind in ("write", "zero"):
            out[offset : offset + length] = data
    return out


def check(
    recorded: Recorded, image: bytes | bytearray, count: int, sync_mode: str, what: str
) -> None:
    """One state of the device."""
    durable, current, names = recorded.position(count, sync_mode)
    raw = recorded.driver.read(image)
    wrong = judge(recorded.plan, raw, durable, current, names)
    under_way = [s.text for s in recorded.plan.steps[durable + 1 : current + 1]]
    assert wrong == [], f"{what} {count}/{len(recorded.log)} in {under_way}: {wrong}"


POLICIES = {
    "ours": {},
    "before": px.Policy.before().as_dict(),
    "no memory": {"memory_budget": 0},
}
WAYS = [
    ("lazy", "ours", 1),
    ("lazy", "ours", 2),
    ("lazy", "before", 1),
    ("lazy", "no memory", 1),
    ("dirsync", "ours", 1),
    ("sync", "ours", 1),
]
MODES = [
    *((EXFAT, *way) for way in WAYS),
    *((FAT12, *way) for way in (WAYS[0], WAYS[5])),
    *((FAT16, *way) for way in (WAYS[1], WAYS[2])),
    *((FAT32, *way) for way in (WAYS[1], WAYS[3], WAYS[4])),
]


@pytest.fixture(
    params=[(w, *m) for w in WORKLOADS for m in MODES], ids=lambda p: "-".join(map(str, p))
)
def recorded(request: pytest.FixtureRequest) -> tuple[Recorded, str]:
    """A workload's log in one mode."""
    workload, driver, sync_mode, policy, fats = request.param
    return record(driver, workload, POLICIES[policy], sync_mode, fats), sync_mode


def test_after_every_write(recorded: tuple[Recorded, str]) -> None:
    """The device is cut between two writes."""
    work, sync_mode = recorded
    image = bytearray(work.base)
    check(work, image, 0, sync_mode, "cut")
    for count, entry in enumerate(work.log, 1):
        kind, offset, length, data = entry
        for torn in {512, length // 1024 * 512, length - 512} if kind == "write" else ():
            if 0 < torn < length:
                part = apply(image, [(kind, offset, torn, data[:torn])])
                check(work, part, count, sync_mode, f"torn after {torn}")
        image = apply(image, [entry])
        if kind != "flush":
            check(work, image, count, sync_mode, "cut")
    final = work.driver.read(image)
    assert final.violations == []
    assert {
        p: None if e.is_dir else e.data for p, e in final.tree.items() if p != "/"
    } == work.plan.end


@pytest.mark.parametrize("driver", DRIVERS, ids=str)
@pytest.mark.parametrize("sync_mode", ["lazy", "sync"])
def test_update_of_a_set_that_lies_across_sectors(driver: Driver, sync_mode: str) -> None:
    """A file that is on the device stays whole when it is changed, wherever its entries are."""
    work = record(driver, "updating across", {}, sync_mode, 1)
    image = bytearray(work.base)
    for count, entry in enumerate(work.log, 1):
        image = apply(image, [entry])
        if entry[0] != "flush":
            check(work, image, count, sync_mode, "cut")


def test_writes_since_the_last_flush_in_any_order(recorded: tuple[Recorded, str]) -> None:
    """Some of them are lost, the others are there."""
    work, sync_mode = recorded
    rng = random.Random(1)
    image, window, start = bytearray(work.base), [], 0
    for count, entry in enumerate(work.log, 1):
        if entry[0] != "flush":
            window.append(entry)
            continue
        for _ in range(SHUFFLES if len(window) > 1 else 0):
            kept = [e for e in window if rng.random() < 0.5]
            # Before the flush has returned nothing that was written since the last one is durable.
            what = f"some lost from {start} on,"
            check(work, apply(image, kept), count - 1, sync_mode, what)
        image = apply(image, window)
        window, start = [], count


def test_reopened_after_a_cut(recorded: tuple[Recorded, str]) -> None:
    """A volume that was cut off opens, says that it is dirty, and can be worked with."""
    work, _ = recorded
    image = bytearray(work.base)
    step = max(1, len(work.log) // 12)
    for count, entry in enumerate(work.log, 1):
        image = apply(image, [entry])
        if count % step:
            continue
        raw = work.driver.read(image)
        if raw.kinds() - AT_WORST:
            continue  # both names of a rename: nothing for a volume to repair by itself
        again = bytearray(image)
        with px.open(again, "r+", **work.driver.open_options(0)) as vol:
            assert vol.was_dirty == raw.dirty
            vol.write_bytes("/after the cut", b"works" * 300)
            for path, entry_found in raw.tree.items():
                if not entry_found.is_dir:
                    assert vol.read_bytes(path) == entry_found.data
                    vol.unlink(path)
        after = work.driver.read(again)
        assert after.kinds() <= AT_WORST
        assert after.dirty == raw.dirty
        assert after.tree["/after the cut"].data == b"works" * 300
