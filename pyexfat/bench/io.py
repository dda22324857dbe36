"""Copies beside cp, sparse allocation, single calls, and memory: each as a ratio or a bound."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyexfat as px
from pyexfat import Device, Policy

from .report import Grid, seconds_text, spread_text, three
from .workloads import Spread, env

GIB, TIB = 1 << 30, 1 << 40


@dataclass
class Finding:
    """One thing that was measured, and what it should be at most."""

    name: str
    value: float
    unit: str
    """"x" for a ratio, "s" for seconds, "bytes", "" for a count."""
    limit: float | None
    note: str = ""

    @property
    def good(self) -> bool | None:
        """Whether the limit is kept; None without one."""
        return None if self.limit is None else self.value <= self.limit

    def text(self, value: float) -> str:
        """A value of this kind in words."""
        if self.unit == "s":
            return seconds_text(value)
        if self.unit == "":
            return f"{value:,.0f}"
        return f"{three(value)}x" if self.unit == "x" else px.format_size(int(value))

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name, "value": self.value, "unit": self.unit, "limit": self.limit,
            "good": self.good, "note": self.note,
        }  # fmt: skip


Said = Callable[[str], object]


# ---- copies ----


def _durable(path: str) -> None:
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class _Copies:
    """Copies of one file, each with all of it on the disk at its end.

    Each frees what the one before has made and makes as much, so that all find memory alike.
    """

    def __init__(self, folder: str, size: int) -> None:
        self.source = os.path.join(folder, "source")
        self.image = os.path.join(folder, "copy.img")
        self.full = os.path.join(folder, "full.img")
        self.target = os.path.join(folder, "target")
        self.size = size
        block = os.urandom(1 << 20)
        with open(self.source, "wb") as file:
            for _ in range(size >> 20):
                file.write(block)
            os.fsync(file.fileno())
        with self._new_volume(self.full) as volume:
            volume.copy_in(self.source, "/file")

    def _new_volume(self, image: str) -> px.Volume:
        return px.format(image, size=self.size + (64 << 20))

    def measure(self, column: str) -> float:
        """Seconds of one copy; what it reads is in memory."""
        for path in (self.target, self.image):
            if os.path.exists(path):
                os.unlink(path)
        read = self.full if column == "out" else self.source
        with open(read, "rb", buffering=0) as file:
            while file.read(1 << 18):
                pass
        os.sync()
        if column == "cp":
            return _seconds(self._cp)
        if column == "in":
            with self._new_volume(self.image) as volume:
                return _seconds(lambda: self._copy_in(volume))
        with px.open(self.full) as volume:
            return _seconds(lambda: self._copy_out(volume))

    def _cp(self) -> None:
        subprocess.run(["cp", self.source, self.target], check=True)
        _durable(self.target)

    def _copy_in(self, volume: px.Volume) -> None:
        volume.copy_in(self.source, "/file")
        volume.sync()

    def _copy_out(self, volume: px.Volume) -> None:
        volume.copy_out("/file", self.target)
        _durable(self.target)


def copies(folder: str | None, size: int, runs: int) -> list[Finding]:
    """Ratios of copies into and out of an image to cp with a sync, on the same disk."""
    if shutil.which("cp") is None:
        return []
    with tempfile.TemporaryDirectory(prefix="pyexfat-bench-", dir=folder) as inside:
        work = _Copies(inside, size)
        seconds: dict[str, Spread] = {name: Spread() for name in ("cp", "in", "out")}
        for run in range(runs):
            order = list(seconds)
            for name in order[run % 3 :] + order[: run % 3]:
                seconds[name].values.append(work.measure(name))
    what = px.format_size(size)
    cp = seconds["cp"]
    return [
        Finding(f"copy {what} {way} an image / cp and sync",
                seconds[key].median / cp.median, "x", 1.25,
                f"{spread_text(seconds[key])}, cp {spread_text(cp)}")
        for key, way in (("in", "into"), ("out", "out of"))
    ]  # fmt: skip


# ---- sparse allocation ----


def sparse(folder: str | None) -> list[Finding]:
    """fallocate and truncate to 1 TiB on a sparse volume."""
    findings = []
    with tempfile.TemporaryDirectory(prefix="pyexfat-bench-", dir=folder) as inside:
        image = os.path.join(inside, "sparse.img")
        with px.format(image, size=4 * TIB, env=env()) as volume:
            for call in ("fallocate", "truncate"):
                volume.touch(f"/{call}")
                volume.sync()
                before = volume.counters
                if call == "fallocate":
                    seconds = _seconds(lambda: volume.fallocate("/fallocate", 0, TIB))
                else:
                    seconds = _seconds(lambda: volume.truncate("/truncate", TIB))
                volume.sync()
                done = (volume.counters - before).cache
                note = "a volume of 4 TiB in a sparse file"
                findings.append(Finding(f"{call} to 1 TiB", seconds, "s", 0.010, note))
                findings.append(
                    Finding(f"{call} to 1 TiB, written", done.bytes_written, "bytes", None,
                            "the allocation bitmap, with the sync after it")
                )  # fmt: skip
    return findings


# ---- single calls ----


def _each(call: Callable[[Any], object], arguments: Sequence[Any]) -> None:
    """A call each, whose results go at once."""
    for argument in arguments:
        call(argument)


def calls(runs: int, count: int = 20_000) -> list[Finding]:
    """Calls from Python in a directory of 1,000 files on a memory device."""
    device = Device.memory(GIB)
    with px.format(device, env=env()) as volume:
        volume.mkdir("/d")
        volume.create_many("/d", [f"file{n:04d}" for n in range(1000)])
        with volume.open("/d/file0500", "wb") as file:
            file.write(bytes(1 << 20))
        handle = volume.open_file("/d/file0500", 1)
        touch, stat, pread = volume.touch, volume.stat, handle.pread
        found = [f"/d/file{n % 1000:04d}" for n in range(count)]
        offsets = [n % 256 * 4096 for n in range(count)]
        spreads = {name: Spread() for name in ("touch", "touch again", "stat", "read", "many")}
        for run in range(runs):
            # A hundred at a time, so that it stays a directory of about a thousand.
            spent = 0.0
            many = 0.0
            for step in range(count // 100):
                new = [f"new{run:02d}{step:03d}{n:02d}" for n in range(100)]
                paths = [f"/d/{name}" for name in new]
                start = time.perf_counter()
                for path in paths:
                    touch(path)
                spent += time.perf_counter() - start
                volume.remove_many("/d", new)
                start = time.perf_counter()
                volume.create_many("/d", new)
                many += time.perf_counter() - start
                volume.remove_many("/d", new)
            spreads["touch"].values.append(spent / count)
            spreads["many"].values.append(many / count)
            for name, work in (
                ("touch again", lambda: _each(touch, found)),
                ("stat", lambda: _each(stat, found)),
                ("read", lambda: _each(lambda offset: pread(4096, offset), offsets)),
            ):
                spreads[name].values.append(_seconds(work) / count)
        handle.close()
    touched = spreads["touch"].median
    return [
        Finding("touch, a new file", touched, "s", 5e-6, spread_text(spreads["touch"])),
        Finding("touch, one that is there", spreads["touch again"].median, "s", 5e-6,
                spread_text(spreads["touch again"])),
        Finding("stat", spreads["stat"].median, "s", 2e-6, spread_text(spreads["stat"])),
        Finding("read of 4 KiB", spreads["read"].median, "s", 2e-6, spread_text(spreads["read"])),
        Finding("create_many, a file", spreads["many"].median, "s", 2.5e-6,
                f"{spread_text(spreads['many'])}, {three(spreads['many'].median / touched)} "
                "of a touch"),
    ]  # fmt: skip


# ---- memory ----

_MEMORY = """\
import sys
import pyexfat as px

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))

before = resident()
with px.open(sys.argv[1], "r+") as volume:
    held = volume.memory_held
    files = sum(len(names) for _, _, names in volume.walk("/"))
    volume.usage()
    print(held, max(held, volume.memory_held), resident() - before, files)
"""


def memory(folder: str | None) -> list[Finding]:
    """What a volume of 64 TiB takes to open, walk and count."""
    with tempfile.TemporaryDirectory(prefix="pyexfat-bench-", dir=folder) as inside:
        image = os.path.join(inside, "large.img")
        try:
            made = px.format(image, size=64 * TIB, env=env())
        except OSError:  # the file system below has no files of 64 TiB
            image = os.path.join(inside, "smaller.img")
            made = px.format(image, size=8 * TIB, env=env())
        with made as volume:
            size = volume.size
            for n in range(64):
                volume.mkdir(f"/d{n:02d}")
                volume.create_many(f"/d{n:02d}", [f"file{m:04d}" for m in range(100)])
        path = [sys.executable, "-P", "-c", _MEMORY, image]
        out = subprocess.run(path, check=True, capture_output=True, text=True).stdout
        taken = os.stat(image).st_blocks * 512
    at_open, most, grown, files = map(int, out.split())
    what = px.format_size(size)
    budget = Policy().memory_budget
    assert isinstance(budget, int)
    return [
        Finding(f"open a volume of {what}", at_open, "bytes", budget, "held by the volume"),
        Finding(f"open, walk and count {what}", most, "bytes", budget, f"{files} files"),
        Finding("the process has grown by", grown, "bytes", None, "resident, in a fresh process"),
        Finding("the image on the disk", taken, "bytes", None, "a sparse file"),
    ]


def run(*, folder: str | None, size: int, runs: int, said: Said | None = None) -> list[Finding]:
    """All of it."""
    findings: list[Finding] = []
    parts: dict[str, Callable[[], list[Finding]]] = {
        "single calls": lambda: calls(runs),
        "sparse allocation": lambda: sparse(folder),
        "memory": lambda: memory(folder),
        "copies": lambda: copies(folder, size, runs),
    }
    for name, work in parts.items():
        if said is not None:
            said(name)
        findings += work()
    return findings


def grid(findings: Sequence[Finding]) -> Grid:
    """A line each."""
    words = {True: "good", False: "over", None: ""}
    return ["", "measured", "limit", "", "note"], [
        [
            one.name,
            one.text(one.value),
            "" if one.limit is None else one.text(one.limit),
            words[one.good],
            one.note,
        ]
        for one in findings
    ]
