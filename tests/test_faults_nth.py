"""The n-th read, write or flush fails, for every n until the workload no longer has so many.

The error surfaces at the call, or at sync() or close() at the latest; the device is consistent
then, and what sync() had returned for is there.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest
from model.crash import AT_WORST, Plan, judge
from model.drivers import DRIVERS, EXFAT, FAT12, FAT16, FAT32, Driver
from model.workloads import WORKLOADS, plan_of

import pyexfat as px

POLICIES: dict[str, dict[str, Any]] = {
    "ours": {},
    "before": px.Policy.before().as_dict(),
    "no memory": {"memory_budget": 0},
}
WAYS = [
    ("lazy", "ours"),
    ("lazy", "before"),
    ("lazy", "no memory"),
    ("dirsync", "ours"),
    ("dirsync", "before"),
    ("sync", "ours"),
]
MODES = [
    *((EXFAT, *way) for way in WAYS),
    *((FAT12, *way) for way in (WAYS[0], WAYS[4])),
    *((FAT16, *way) for way in (WAYS[2], WAYS[5])),
    *((FAT32, *way) for way in (WAYS[0], WAYS[3])),
]


class Outcome:
    """How far a workload came on a device that fails, and what it said."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.opened: dict[str, int] = {}  # operations until the volume was open
        self.step = -1  # the one under way when it ended
        self.durable = -1
        self.names = -1
        self.error: OSError | None = None
        self.close_error: OSError | None = None


def run(
    plan: Plan, faults: px.Faults, sync_mode: str, heal: bool, options: dict[str, Any]
) -> Outcome:
    """Runs the workload up to the first error and closes; ``heal``: the device works again."""
    out = Outcome()
    try:
        vol = px.open(faults, "r+", sync=sync_mode, **options)
    except OSError as error:
        out.error = error
        return out
    out.opened = {op: faults.count(op) for op in ("read", "write", "flush")}
    try:
        for i, step in enumerate(plan.steps):
            out.step = i
            step.call(vol)
            if step.syncs or sync_mode == "sync":
                out.durable = out.names = i
            elif sync_mode == "dirsync" and step.names:
                out.names = i
    except OSError as error:
        out.error = error
    finally:
        if heal and out.error is not None:
            faults.clear()
        try:
            vol.close()
        except OSError as error:
            out.close_error = error
    return out


FAILURES = [("fail", errno.EIO), ("fail", errno.ENOSPC), ("die", errno.EIO), ("tear", errno.EIO)]


@pytest.fixture(params=WORKLOADS)
def workload(request: pytest.FixtureRequest) -> str:
    """Each of the workloads."""
    return str(request.param)


@pytest.mark.parametrize(("driver", "sync_mode", "policy"), MODES, ids=lambda p: str(p))
@pytest.mark.parametrize(
    ("op", "action", "code"),
    [
        (op, action, code)
        for action, code in FAILURES
        for op in ("read", "write", "flush")
        if action != "tear" or op == "write"
    ],
)
def test_nth_operation_fails(
    workload: str, driver: Driver, sync_mode: str, policy: str, op: Any, action: Any, code: int
) -> None:
    """One by one, once or for good."""
    plan = plan_of(workload)
    size, options = driver.small()
    with px.Device.memory(size) as base:
        base.pwrite(b"\xa5" * size, 0)  # what was there before must not come to light
        px.format(base, driver.name, **options).close()
        options = driver.open_options(0) | {"policy": POLICIES[policy]}
        for n in range(1, 1000):
            with base.branch() as device, device.faults() as faults:
                faults.add(op, nth=n, action=action, error=code, keep=512)
                out = run(plan, faults, sync_mode, action != "die", options)
                reached = faults.count(op) >= n
                faults.clear()
                if not reached:
                    assert out.error is None
                    assert out.close_error is None
                    break
                assess(driver, plan, device, out, op, n, action, code, policy == "before")
    assert n > 1, "nothing was ever tried"


def assess(
    driver: Driver,
    plan: Plan,
    device: px.Device,
    out: Outcome,
    op: str,
    n: int,
    action: str,
    code: int,
    old_way: bool,
) -> None:
    """What was said, and what is on the device."""
    what = f"{op} {n}"
    said = [e for e in (out.error, out.close_error) if e is not None]
    if op != "read":  # a read ahead may fail in silence: nobody needs it
        assert said, f"{what}: nobody was told"
    assert all(e.errno == code for e in said), f"{what}: {said}"
    raw = driver.read(device.pread(device.size, 0))
    # A medium that failed is marked so where it took the mark; but nobody minds what fails while
    # the file system is being found.
    marked = bool(out.opened) and code == errno.EIO and action != "die"
    assert raw.hard_error == marked or n <= out.opened[op], what
    raw.violations = [v for v in raw.violations if v.kind != "hard error"]
    last = out.step if out.error is not None else len(plan.steps)
    if old_way and action == "die":
        return  # entry by entry a set is changed by halves: the old way could not help it
    wrong = judge(plan, raw, out.durable, last, out.names, halves=op == "read")
    assert wrong == [], f"{what} in step {out.step} {plan.steps[out.step].text}: {wrong}"
    if not said:
        assert raw.violations == []
    if not raw.dirty:
        assert raw.kinds() <= {"mark copies"}, f"{what}: marked clean with {raw.violations}"
    if raw.kinds() <= AT_WORST:
        reopen(driver, device, raw, what)


def reopen(driver: Driver, device: px.Device, raw: Any, what: str) -> None:
    """The volume can be opened and worked with; the branch goes away with all of it."""
    with px.open(device, "r+", **driver.open_options(0)) as vol:
        assert (vol.was_dirty, vol.media_failure) == (raw.dirty, raw.hard_error), what
        for path, entry in raw.tree.items():
            if not entry.is_dir:
                assert vol.read_bytes(path) == entry.data, what
        vol.write_bytes("/afterwards", b"x" * 2000)
    after = driver.read(device.pread(device.size, 0))
    assert after.kinds() <= AT_WORST | {"hard error"}, what
    assert after.hard_error == raw.hard_error, what
    assert after.tree["/afterwards"].data == b"x" * 2000


@pytest.mark.parametrize("driver", DRIVERS, ids=str)
def test_a_full_device_says_so_and_stays_as_it_was(driver: Driver) -> None:
    """ENOSPC of the volume itself, in every call that takes space."""
    size, options = driver.small(4096)
    with px.Device.memory(size) as device, px.format(device, driver.name, **options) as vol:
        vol.mkdir("/d")
        vol.write_bytes("/a", b"a" * 5000)
        vol.touch("/fill")
        free = vol.usage().free
        vol.truncate("/fill", free)
        before = {p: vol.stat(p).st_size for p in ("/a", "/fill")}
        handle = vol.open_file("/a", 2)
        room = [f"name {i} {'n' * 200}" for i in range(200)]
        for call in (
            lambda: vol.mkdir("/e"),
            lambda: vol.truncate("/a", 8193),
            lambda: vol.fallocate("/a", 0, 8193),
            lambda: vol.fallocate("/a", 0, 8193, keep_size=True),
            lambda: handle.pwrite(b"z" * 4096, 8000),
            lambda: handle.resize(size),
            lambda: vol.create_many("/d", room),
        ):
            with pytest.raises(OSError, match="No space left") as caught:
                call()
            assert caught.value.errno == errno.ENOSPC
            assert vol.usage().free == 0
        handle.close()
        assert before == {p: vol.stat(p).st_size for p in ("/a", "/fill")}
        assert vol.read_bytes("/a") == b"a" * 5000
        made = vol.listdir("/d")
        assert made == room[: len(made)]
        vol.unlink("/fill")
        assert vol.usage().free == free
        vol.close()
        assert driver.read(device.pread(size, 0)).violations == []
