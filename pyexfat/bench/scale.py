"""How cost grows with a directory: creates, lookups and deletions among more and more files."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyexfat as px
from pyexfat import Device, Policy, Volume

from .report import Grid, chart, page, three, times
from .workloads import Sample, Spread, Stage, env, touch_all, unlink_all

SIZES = (10_000, 100_000, 1_000_000)
MOST = 2_700_000
"""Files with short names in the largest directory that there can be: 256 MiB are 524,288 sectors,
each with five sets of three entries; some room is left for more."""
OPERATIONS = (
    "create_many", "create", "hit", "miss", "delete in order", "delete at random", "churn",
)  # fmt: skip


@dataclass
class Point:
    """One operation in a directory of one size."""

    operation: str
    files: int
    each: Spread
    """Seconds for one call."""
    visited: float
    """Directory entries visited by one call."""

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "operation": self.operation,
            "files": self.files,
            "seconds_each": self.each.record(),
            "entries_visited_each": self.visited,
        }


def _name(number: int) -> str:
    return f"/d/{number:08d}"


def _lookup_all(volume: Volume, paths: Sequence[str]) -> None:
    stat = volume.stat
    for path in paths:
        stat(path)


def _miss_all(volume: Volume, paths: Sequence[str]) -> None:
    kind = volume.kind
    for path in paths:
        kind(path)


def _churn(volume: Volume, pairs: Sequence[tuple[str, str]]) -> None:
    unlink, touch = volume.unlink, volume.touch
    for old, new in pairs:
        unlink(old)
        touch(new)


def measure(stage: Stage, files: int, sample: int, policy: Policy) -> list[Sample]:
    """Fills a directory with ``files`` and does each operation at most ``sample`` times in it.

    Every operation leaves as many files as it found, but for creates, whose files go again in the
    deletions that follow.
    """
    count = min(sample, max(1, files // 4))
    chance = random.Random(files)
    samples: list[Sample] = []
    with stage.volume(size=8 << 30, cluster_size=32768, policy=policy) as volume:

        def do(name: str, calls: int, work: Callable[[], object]) -> None:
            samples.append(stage.measure(volume, name, calls, work, at=files))

        volume.mkdir("/d")
        every = [f"{number:08d}" for number in range(files)]
        do("create_many", files, lambda: volume.create_many("/d", every))
        new = [_name(files + n) for n in range(count)]
        do("create", count, lambda: touch_all(volume, new))
        found = [_name(n) for n in chance.sample(range(files), count)]
        do("hit", count, lambda: _lookup_all(volume, found))
        absent = [f"/d/m{n:07d}" for n in range(count)]
        do("miss", count, lambda: _miss_all(volume, absent))
        do("delete in order", count, lambda: unlink_all(volume, new))
        do("delete at random", count, lambda: unlink_all(volume, found))
        volume.create_many("/d", [path[3:] for path in found])
        pairs = [(old, f"/d/n{n:07d}") for n, old in enumerate(found)]
        do("churn", count, lambda: _churn(volume, pairs))
    return samples


def run(
    stage: Stage,
    *,
    sizes: Sequence[int] = SIZES,
    runs: int = 3,
    sample: int = 20_000,
    policy: Policy | None = None,
    said: Callable[[str], object] | None = None,
) -> list[Point]:
    """Measures each size ``runs`` times, turn by turn."""
    done: dict[int, list[list[Sample]]] = {size: [] for size in sizes}
    for _ in range(runs):
        for size in sizes:
            if said is not None:
                said(f"{size:,} files")
            done[size].append(measure(stage, size, sample, policy or Policy()))
    points = []
    for size, all_runs in done.items():
        for i, first in enumerate(all_runs[-1]):
            each = Spread([one[i].seconds / one[i].files for one in all_runs])
            visited = first.counters["entries_visited"] / first.files
            points.append(Point(first.name, size, each, visited))
    return points


@dataclass
class RoundRobin:
    """What came of going round many directories under a small budget."""

    lookups: int
    wrong: int
    """Answers that were not right."""
    names_peak: int
    """Bytes that names tables held at most, at any time."""
    held_most: int
    """Bytes that the volume held after each visit, at most."""
    seconds: float

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return vars(self).copy()


def round_robin(
    *, directories: int = 1000, files: int = 5000, rounds: int = 2, budget: int = 1 << 20
) -> RoundRobin:
    """Visits directory after directory: two names that are there and two that are not."""
    device = Device.memory(max(1 << 30, directories * files * 128))
    px.format(device, cluster_size=32768, env=env()).close()
    pool = px.Pool(budget)
    policy = Policy(memory_budget=budget)
    result = RoundRobin(0, 0, 0, 0, 0.0)
    start = time.perf_counter()
    with px.open(device, "r+", policy=policy, pool=pool, env=env()) as volume:
        for directory in range(directories):
            volume.mkdir(f"/{directory:04d}")
            volume.create_many(f"/{directory:04d}", [f"{n:06d}" for n in range(files)])
        for turn in range(rounds):
            for directory in range(directories):
                n = (directory * 7919 + turn) % files
                asked = {
                    f"{n:06d}": 1,
                    f"{files - 1 - n:06d}": 1,
                    f"a{n:05d}": 0,
                    f"{files:06d}": 0,
                }
                for name, kind in asked.items():
                    result.lookups += 1
                    result.wrong += volume.kind(f"/{directory:04d}/{name}") != kind
                result.held_most = max(result.held_most, volume.memory_held)
    result.names_peak = pool.peak
    result.seconds = time.perf_counter() - start
    return result


def of(points: Sequence[Point], operation: str) -> list[Point]:
    """The points of one operation, by size."""
    return [point for point in points if point.operation == operation]


def grid(points: Sequence[Point]) -> Grid:
    """Nanoseconds and entries visited for each size, and how much the largest costs more."""
    sizes = sorted({point.files for point in points})
    headings = ["", *(f"{size:,}" for size in sizes), "largest / least"]
    headings += [f"entries at {size:,}" for size in sizes]
    rows = []
    for operation in OPERATIONS:
        row = of(points, operation)
        rows.append(
            [
                operation,
                *(f"{point.each.median * 1e9:,.0f} ns" for point in row),
                times(row[-1].each.median / max(row[0].each.median, 1e-12)),
                *(three(point.visited) for point in row),
            ]
        )
    return headings, rows


def html(points: Sequence[Point]) -> str:
    """The page with curves."""
    from .report import html_table

    cost = {
        operation: [(point.files, point.each.median * 1e9) for point in of(points, operation)]
        for operation in OPERATIONS
    }
    visited = {
        operation: [(point.files, max(point.visited, 0.01)) for point in of(points, operation)]
        for operation in OPERATIONS
    }
    content = chart("nanoseconds a call", "files in the directory", cost)
    content += chart("entries visited a call", "files in the directory", visited)
    text = "One directory that grows. A level line is what is wanted."
    return page("pyexfat bench scale", [("Scale", text, content + html_table(grid(points)))])


def record(points: Sequence[Point]) -> dict[str, Any]:
    """For JSON."""
    return {"version": px.__version__, "points": [point.record() for point in points]}
