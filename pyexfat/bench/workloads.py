"""Where a bench works, what it does there, and what is measured."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pyexfat as px
from pyexfat import Device, Policy, Volume

from .slow import Card, Clock, SlowFile

CLOCK = 1_700_000_000 * 10**9
"""Time of all volumes of a bench, ns since 1970: what is written is the same in every run."""

COUNTED = ("entries_visited", "device_writes", "bytes_written", "device_flushes")
"""Counters shown beside seconds."""
FAT_COUNTED = (
    "device_writes", "bytes_written", "bytes_zeroed", "device_flushes",
    "fat_writes", "fat_bytes", "fat_entries_written",
)  # fmt: skip
"""The same for what is about the FAT."""


@dataclass
class Sample:
    """One measured piece of work."""

    name: str
    files: int
    """Files or calls that it was about."""
    seconds: float
    """By the clock on the wall, and what the card of a slow device takes on top."""
    counters: dict[str, int]
    at: int = 0
    """Files in the directory at its end, for growth curves."""
    detail: bool = False
    """A point of a curve, and no row of a table."""


@dataclass
class Spread:
    """Several measurements of the same thing, in seconds."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.values)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {"median": self.median, "min": min(self.values), "max": max(self.values),
                "runs": self.values}  # fmt: skip


def env() -> px.Env:
    """A clock that stands still and repeatable random numbers."""
    return px.Env(seed=1, clock=CLOCK)


class Stage:
    """Makes a fresh volume for each piece of work.

    device: "memory", "file" (a sparse image in ``folder``), or the path of a block device or image,
    which is overwritten. card: the model of a slow device put on top.
    """

    def __init__(
        self,
        device: str = "memory",
        *,
        card: Card | None = None,
        sleeps: bool = False,
        folder: str | None = None,
    ) -> None:
        self.device = device
        self.card = card
        self.folder = folder
        self.clock = Clock(sleeps)

    @contextmanager
    def _device(self, size: int) -> Iterator[Device]:
        with ExitStack() as stack:
            if self.device == "memory":
                device = Device.memory(size)
            elif self.device == "file":
                folder = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="pyexfat-bench-", dir=self.folder)
                )
                path = os.path.join(folder, "bench.img")
                with open(path, "wb") as file:
                    file.truncate(size)
                device = Device.file(path, writable=True)
            else:
                device = Device.file(self.device, writable=True)
            stack.callback(device.close)
            if self.card is not None:
                device = Device.wrap(SlowFile(device, self.card, self.clock), True, device.size)
                stack.callback(device.close)
            yield device

    @contextmanager
    def volume(
        self,
        *,
        size: int,
        cluster_size: int,
        policy: Policy,
        sync: str = "lazy",
        fs: str = "exfat",
    ) -> Iterator[Volume]:
        """An empty volume; a device of its own size is used whole."""
        with self._device(size) as device:
            px.format(device, fs, cluster_size=cluster_size, env=env()).close()
            options: dict[str, Any] = {"policy": policy, "sync": sync, "env": env()}
            with px.open(device, "r+", **options) as volume:
                yield volume

    def measure(
        self, volume: Volume, name: str, files: int, work: Callable[[], object], **more: Any
    ) -> Sample:
        """Does the work and says what it took."""
        counters, card = volume.get_counters(), self.clock.seconds
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start + self.clock.seconds - card
        return Sample(name, files, seconds, difference(volume.get_counters(), counters), **more)


def difference(now: dict[str, Any], before: dict[str, Any]) -> dict[str, int]:
    """What was counted in between, in one flat dict; of counts by structure only the FAT's."""
    flat: dict[str, int] = {}
    for key, value in now.items():
        if isinstance(value, int):
            flat[key] = value - before[key]
        elif key.endswith("_by_structure"):
            flat["fat_" + key.partition("_")[0]] = value["FAT"] - before[key]["FAT"]
        else:
            flat |= difference(value, before[key])
    return flat


def touch_all(volume: Volume, paths: Iterable[str]) -> None:
    """Makes empty files, a call each."""
    touch = volume.touch
    for path in paths:
        touch(path)


def unlink_all(volume: Volume, paths: Iterable[str]) -> None:
    """Removes files, a call each."""
    unlink = volume.unlink
    for path in paths:
        unlink(path)


def names(count: int, length: int, start: int = 0) -> list[str]:
    """Names of the same length, different from the first letter on."""
    width = min(length, 7)
    return [f"{n:0{width}d}".ljust(length, "x") for n in range(start, start + count)]


def interleaved(
    columns: Sequence[str], runs: int, work: Callable[[str], list[Sample]]
) -> dict[str, list[list[Sample]]]:
    """Does each column's work ``runs`` times, turn by turn, so that all see the same machine.

    Returns the samples of each run by column.
    """
    result: dict[str, list[list[Sample]]] = {name: [] for name in columns}
    for run in range(runs):
        shift = run % len(columns)
        for name in (*columns[shift:], *columns[:shift]):
            result[name].append(work(name))
    return result
