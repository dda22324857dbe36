"""Costs on FAT: of making files large, and those that must not grow with a file, with where it is
read, and with a directory.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from statistics import median

import pyexfat as px
from pyexfat import Device, Policy, Volume, _core
from pyexfat.sizes import format_size

from .io import Finding, Said
from .workloads import Sample, Stage, difference, env, touch_all, unlink_all

MIB = 1 << 20
_APPEND = _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE | _core.OPEN_APPEND
_SLICES = 50
"""A tenth is timed in so many parts: their median is not the machine's other work."""


@dataclass
class Part:
    """One of several equal parts of a work."""

    calls: int
    seconds: float
    """The median of a call."""
    counters: dict[str, int]


# ---- files that are made large ----


def enlarged(length: int, *, files: int = 16, cluster: int = 512) -> Part:
    """Files that grow from nothing to ``length`` in one call each, and a sync; processor time."""
    size = files * length * 5 // 4 + 70_000 * cluster
    with ExitStack() as stack:
        volume = stack.enter_context(
            Stage().volume(size=size, cluster_size=cluster, policy=Policy(), fs="fat32")
        )
        handles = [
            stack.enter_context(closing(volume.open_file(f"/{n}", _APPEND))) for n in range(files)
        ]
        volume.sync()
        before, start = volume.get_counters(), time.process_time()
        for handle in handles:
            handle.resize(length)
        volume.sync()
        taken = time.process_time() - start
        return Part(files, taken / files, difference(volume.get_counters(), before))


# ---- a file that grows ----


def appends(
    total: int, *, cluster: int = 512, chunk: int = 4096, parts: int = 10, warm: bool = False
) -> list[Part]:
    """A file that grows to ``total`` bytes by ``chunk`` at a time, in equal parts.

    warm: its clusters have been written before, so that no time goes into the device's memory.
    """
    result = []
    data = bytes(range(256)) * (chunk // 256)
    calls = total // chunk // parts
    size = total // MIB * MIB * 5 // 4 + 64 * MIB + 70_000 * cluster
    with (
        Stage().volume(size=size, cluster_size=cluster, policy=Policy(), fs="fat32") as volume,
        closing(volume.open_file("/a", _APPEND)) as file,
    ):
        append = file.append
        if warm:
            for _ in range(-(-total // MIB)):
                append(bytes(MIB))
            file.resize(0)
            volume.sync()
        for _ in range(parts):
            before, slices = volume.get_counters(), []
            for number in range(_SLICES):
                count = calls * (number + 1) // _SLICES - calls * number // _SLICES
                start = time.perf_counter()
                for _ in range(count):
                    append(data)
                slices.append((time.perf_counter() - start) / max(count, 1))
            counters = difference(volume.get_counters(), before)
            result.append(Part(calls, median(slices), counters))
    return result


# ---- a file in pieces ----


@contextmanager
def fragmented(fragments: int, length: int, cluster: int = 512) -> Iterator[Volume]:
    """A volume with ``/a`` of about ``length`` bytes in so many pieces, opened afresh."""
    piece = max(cluster, length // fragments // cluster * cluster)
    size = fragments * (piece + cluster) // 8 // MIB * 9 * MIB + 64 * MIB + 70_000 * cluster
    device = Device.memory(size)
    px.format(device, "fat32", cluster_size=cluster, env=env()).close()
    with (
        px.open(device, "r+", env=env()) as volume,
        closing(volume.open_file("/a", _APPEND)) as a,
        closing(volume.open_file("/b", _APPEND)) as b,
    ):
        for number in range(1, fragments + 1):
            a.resize(number * piece)
            b.resize(number * cluster)  # takes the cluster behind it
    with px.open(device, "r", env=env()) as volume:
        yield volume


def random_reads(volume: Volume, *, reads: int, length: int = MIB) -> tuple[Part, list[Part]]:
    """Reads of ``length`` bytes of ``/a``: the first, at its end, and then ``reads`` at random in
    each quarter of the file.
    """
    chance = random.Random(1)
    with closing(volume.open_file("/a", _core.OPEN_READ)) as file:
        last = file.size() - length

        def part(offsets: Sequence[int]) -> Part:
            before, each = volume.get_counters(), []
            for offset in offsets:
                start = time.perf_counter()
                file.pread(length, offset)
                each.append(time.perf_counter() - start)
            counters = difference(volume.get_counters(), before)
            return Part(len(offsets), median(each), counters)

        first = part([last])
        quarters = [(last * n // 4, last * (n + 1) // 4) for n in range(4)]
        return first, [part([chance.randint(*quarter) for _ in range(reads)])
                       for quarter in quarters]  # fmt: skip


# ---- a directory ----


def directory(files: int, calls: int, name: Callable[[int], str] = str) -> dict[str, Sample]:
    """Creates, lookups and deletions among so many files; ``name`` gives their names."""
    chance = random.Random(files)
    stage = Stage()
    with stage.volume(size=1 << 30, cluster_size=4096, policy=Policy(), fs="fat32") as volume:
        result: dict[str, Sample] = {}

        def do(step: str, work: Callable[[], object]) -> None:
            result[step] = stage.measure(volume, step, calls, work, at=files)

        volume.mkdir("/d")
        volume.create_many("/d", [name(n) for n in range(files)])
        found = [f"/d/{name(n)}" for n in chance.sample(range(files), calls)]
        new = [f"/d/{name(files + n)}" for n in range(calls)]
        absent = [f"/d/{name(2 * files + n)}" for n in range(calls)]
        do("create", lambda: touch_all(volume, new))
        do("hit", lambda: _each(volume.stat, found))
        do("miss", lambda: _each(volume.kind, absent))
        do("delete", lambda: unlink_all(volume, found))
        do("create in holes", lambda: touch_all(volume, found))
    return result


def _each(call: Callable[[str], object], paths: Sequence[str]) -> None:
    for path in paths:
        call(path)


# ---- findings ----


def _enlarged(length: int, runs: int) -> list[Finding]:
    done = [enlarged(length) for _ in range(runs)]
    files, entries = done[0].calls, done[0].counters["clusters_allocated"]
    fewest = 2 * 512 * -(-entries // 128)  # 128 entries in a sector of each of two FATs
    what = f"{files} files of {format_size(length)}"
    note = f"{entries:,} clusters of 512 bytes, {done[0].counters['fat_writes']} writes"
    return [
        Finding(f"{what}, FAT written / the fewest sectors", done[0].counters["fat_bytes"] / fewest,
                "x", 1.05, note),
        Finding(f"{what}, processor seconds", min(one.seconds for one in done) * files, "s", 1.0,
                "with a sync"),
    ]  # fmt: skip


def _appends(total: int, runs: int) -> list[Finding]:
    cold = appends(total)
    first, last = cold[0], cold[-1]
    done = [appends(total, warm=True) for _ in range(runs)]
    found = []
    for key, word in (("fat_entries_written", "FAT entries written"), ("misses", "cache misses")):
        ratio = last.counters[key] / max(first.counters[key], 1)
        note = f"{last.counters[key] / last.calls:.3g} an append"
        found.append(Finding(f"append, last tenth / first, {word}", ratio, "x", 1.1, note))
    least = [min(run[at].seconds for run in done) for at in (0, -1)]
    note = f"{least[1] * 1e6:.2f} us an append, {format_size(total)} in 512-byte clusters"
    found.append(
        Finding("append, last tenth / first, seconds", least[1] / least[0], "x", 1.1, note)
    )
    read = max(part.counters["fat_entries_read"] for part in cold)
    bound = last.calls * 8 + 32768
    found.append(Finding("append, FAT entries read in a tenth", read, "", bound,
                         "the map, once for each cluster"))  # fmt: skip
    return found


def _random_reads(fragments: int, length: int, runs: int) -> list[Finding]:
    with fragmented(fragments, length) as volume:
        pieces = len(volume.extents("/a"))
    with fragmented(fragments, length) as volume:
        first, quarters = random_reads(volume, reads=20 * runs)
    note = f"{pieces:,} pieces, {first.counters['fat_entries_read']:,} entries read by the first"
    read = sum(part.counters["fat_entries_read"] for part in quarters)
    ratio = quarters[-1].seconds / quarters[0].seconds
    text = f"{quarters[-1].seconds * 1e6:.0f} us a read"
    return [
        Finding("reads of 1 MiB after the first, FAT entries read", read, "", 0, note),
        Finding("reads of 1 MiB, last quarter / first, seconds", ratio, "x", 1.25, text),
    ]


def _directories(files: int, runs: int) -> list[Finding]:
    found = []
    calls = min(1000, files // 20)
    small, large = (
        [directory(count, calls) for _ in range(runs)] for count in (files // 10, files)
    )
    for step, sample in large[0].items():
        few, many = (one.counters["entries_visited"] / one.files
                     for one in (small[0][step], sample))  # fmt: skip
        ratio = max(many, 1e-3) / max(few, 1e-3)
        least = [min(run[step].seconds for run in one) / sample.files for one in (small, large)]
        note = f"{many:.3g} entries; {least[0] * 1e9:,.0f} > {least[1] * 1e9:,.0f} ns"
        found.append(Finding(f"{step}, {files:,} files / {files // 10:,}, entries visited", ratio,
                             "x", 1.25, note))  # fmt: skip
    return found


def run(
    *,
    total: int = 1 << 30,
    fragments: int = 100_000,
    length: int = 2 << 30,
    files: int = 60_000,
    runs: int = 3,
    said: Said | None = None,
) -> list[Finding]:
    """All of it: what was measured and what it may be."""
    findings: list[Finding] = []
    parts: dict[str, Callable[[], list[Finding]]] = {
        "large files": lambda: _enlarged(total // 4, runs),
        "appends": lambda: _appends(total, runs),
        "fragments": lambda: _random_reads(fragments, length, runs),
        "directories": lambda: _directories(files, runs),
    }
    for name, work in parts.items():
        if said is not None:
            said(name)
        findings += work()
    return findings
