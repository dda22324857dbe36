"""The work of published tables, done again: before, after, and with everything that we have.

A table is a row in TABLES: another file system's joins by adding one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from pyexfat import Policy, _core
from pyexfat.sizes import parse_size

from . import published
from .published import Pair, Step
from .workloads import (
    COUNTED,
    FAT_COUNTED,
    Sample,
    Spread,
    Stage,
    interleaved,
    names,
    touch_all,
    unlink_all,
)

GIB = 1 << 30

_NEW = _core.OPEN_READ | _core.OPEN_WRITE | _core.OPEN_CREATE

Work = Callable[[Stage, Policy], list[Sample]]


@dataclass(frozen=True)
class Table:
    """A published table and how its work is done."""

    number: int
    title: str
    setup: str
    """What it is done on, in words."""
    columns: dict[str, Policy]
    work: Work
    steps: dict[str, Step]
    """Published figures by the name of the sample."""
    counted: tuple[str, ...] = COUNTED
    """Counters that are shown."""


@dataclass
class Row:
    """One row of a table: what each column took."""

    name: str
    files: int
    at: int
    detail: bool
    seconds: dict[str, Spread]
    counters: dict[str, dict[str, int]]
    step: Step | None

    def ratio(self, column: str) -> float:
        """How many times faster than before."""
        return self.seconds["before"].median / max(self.seconds[column].median, 1e-9)

    def fewer(self, column: str) -> float:
        """How many times fewer entries are visited than before."""
        visited = {name: one["entries_visited"] for name, one in self.counters.items()}
        return visited["before"] / max(visited[column], 1)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        result: dict[str, Any] = {"name": self.name, "files": self.files, "files_at_end": self.at}
        for name, spread in self.seconds.items():
            result[name] = {"seconds": spread.record(), "counters": self.counters[name]}
        result["ratios"] = {
            name: {"seconds": self.ratio(name), "entries_visited": self.fewer(name)}
            for name in self.seconds
            if name != "before"
        }
        if self.step is not None:
            pair, written = self.step
            result["published"] = {"before": pair.before, "after": pair.after, "ratio": pair.ratio}
            if written is not None:
                result["published"]["kib_written"] = written._asdict()
        return result


@dataclass
class Result:
    """What the work of a table has come to."""

    table: Table
    rows: list[Row] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "table": self.table.number,
            "title": self.table.title,
            "setup": self.table.setup,
            "columns": {name: policy.as_dict() for name, policy in self.table.columns.items()},
            "rows": [row.record() for row in self.rows if not row.detail],
            "growth": [row.record() for row in self.rows if row.at],
        }


# ---- table 1 ----


def empty_slots(batches: int = 5, files: int = 1000) -> Work:
    """Batches of files in one directory, with a sync after each."""

    def work(stage: Stage, policy: Policy) -> list[Sample]:
        samples = []
        with stage.volume(size=GIB, cluster_size=32768, policy=policy) as volume:
            volume.mkdir("/d")
            volume.sync()
            for batch in range(batches):
                start = batch * files
                paths = [f"/d/{name}" for name in names(files, 12, start)]

                def make(paths: list[str] = paths) -> None:
                    touch_all(volume, paths)
                    volume.sync()

                name = f"{start + 1}-{start + files}"
                samples.append(stage.measure(volume, name, files, make, at=start + files))
        return samples

    return work


# ---- table 2 ----


def entry_sets(files: int = 1000, lengths: Sequence[int] = (15, 120, 255)) -> Work:
    """Creates and unlinks in fresh directories, lazily and with each change made durable."""

    def work(stage: Stage, policy: Policy) -> list[Sample]:
        samples = []
        for sync in ("dirsync", "lazy"):
            for length in lengths:
                samples += _creates_and_unlinks(stage, policy, sync, length, files)
        return samples

    return work


def _creates_and_unlinks(
    stage: Stage, policy: Policy, sync: str, length: int, files: int
) -> list[Sample]:
    paths = [f"/d/{name}" for name in names(files, length)]
    samples = []
    with stage.volume(size=GIB, cluster_size=32768, policy=policy, sync=sync) as volume:
        volume.mkdir("/d")
        volume.sync()
        for call, each in (("create", touch_all), ("unlink", unlink_all)):

            def run(each: Callable[..., None] = each) -> None:
                each(volume, paths)
                volume.sync()

            samples.append(stage.measure(volume, _case(sync, length, call), files, run))
    return samples


def _case(sync: str, length: int, call: str) -> str:
    return f"{call} {length} {sync}"


# ---- table 3 ----

Growth = tuple[int, int, str, str, bool]
"""Files, bytes of a cluster, length, call and whether in sync mode."""


def growth(cases: Iterable[Growth] = tuple(published.PREALLOCATE)) -> Work:
    """Empty files of a FAT32 volume that grow in one call each. In sync mode all of it is durable
    then; else what is in memory by then, as published, and the same with a sync at its end.
    """

    def work(stage: Stage, policy: Policy) -> list[Sample]:
        return [sample for case in cases for sample in _grow(stage, policy, case)]

    return work


def growth_name(case: Growth) -> str:
    """``16 x 1 MiB, clusters of 512, ftruncate, sync``."""
    files, cluster, length, call, sync = case
    return f"{files} x {length}, clusters of {cluster}, {call}" + (", sync" if sync else "")


def synced_name(case: Growth) -> str:
    """Of the row with the sync that a row without sync mode leaves to others."""
    return growth_name(case) + ", then a sync"


def _grow(stage: Stage, policy: Policy, case: Growth) -> list[Sample]:
    files, cluster, length, call, sync = case
    count = parse_size(length, "length")
    size = max(GIB // 2, files * count * 5 // 4)  # FAT32 begins at 65,525 clusters
    with (
        stage.volume(
            size=size, cluster_size=cluster, policy=policy, fs="fat32",
            sync="sync" if sync else "lazy",
        ) as volume,
        ExitStack() as stack,
    ):  # fmt: skip
        handles = [
            stack.enter_context(closing(volume.open_file(f"/{n:04d}", _NEW))) for n in range(files)
        ]
        volume.sync()

        def run() -> None:
            for handle in handles:
                if call == "ftruncate":
                    handle.resize(count)
                else:
                    handle.allocate(0, count)
            if sync:  # nothing is left to do for it but the directory's time
                volume.sync()

        grown = stage.measure(volume, growth_name(case), files, run)
        if sync:
            return [grown]
        rest = stage.measure(volume, "", 0, volume.sync)
        return [grown, total(synced_name(case), [grown, rest])]


# ---- table 5 ----


def large_directory(files: int = 20_000, points: int = 10) -> Work:
    """Many files in one directory; a curve of what each tenth took, and the whole."""

    def work(stage: Stage, policy: Policy) -> list[Sample]:
        samples: list[Sample] = []
        with stage.volume(size=4 * GIB, cluster_size=32768, policy=policy) as volume:
            volume.mkdir("/d")
            volume.sync()
            for point in range(points):
                start, end = files * point // points, files * (point + 1) // points
                paths = [f"/d/{name}" for name in names(end - start, 12, start)]
                last = point == points - 1

                def make(paths: list[str] = paths, last: bool = last) -> None:
                    touch_all(volume, paths)
                    if last:
                        volume.sync()

                name = f"{start + 1}-{end}"
                samples.append(stage.measure(volume, name, end - start, make, at=end, detail=True))
        return [*samples, total(f"{files} files", samples)]

    return work


def total(name: str, samples: Sequence[Sample]) -> Sample:
    """All samples as one."""
    counters: dict[str, int] = {}
    for sample in samples:
        for key, value in sample.counters.items():
            counters[key] = counters.get(key, 0) + value
    files = sum(sample.files for sample in samples)
    return Sample(name, files, sum(sample.seconds for sample in samples), counters)


# ---- the tables ----

# What drivers had when table 1's mechanism was added: sets were written as sets by then.
_WALKS = Policy.before().replace(entry_sync="set")


def make_tables(large: int = 20_000) -> dict[int, Table]:
    """The tables that can be done, by their published number; ``large``: files of table 5."""
    tables = (
        Table(
            number=1,
            title="remember the empty slots at the end of a directory",
            setup="5 x 1,000 files in one directory, sync after each 1,000; 32 KiB clusters",
            columns={
                "before": _WALKS,
                "after": _WALKS.replace(empty_hint="one-shot"),
                "ours": Policy(),
            },
            work=empty_slots(),
            steps=published.EMPTY_SLOTS,
        ),
        Table(
            number=2,
            title="sync an entry set, not entry by entry",
            setup="1,000 creates, sync, 1,000 unlinks, sync, in a fresh directory; "
            "names of 15, 120 and 255 units; 32 KiB clusters",
            columns={
                "before": Policy.before(),
                "after": Policy.before().replace(entry_sync="set"),
                "ours": Policy(),
            },
            work=entry_sets(),
            steps={_case(*key): step for key, step in published.ENTRY_SETS.items()},
        ),
        Table(
            number=3,
            title="FAT: preallocate clusters before expanding a file",
            setup="empty files on FAT32 that grow in one call each; without sync mode what that "
            "takes is shown alone and with a sync at its end",
            columns={"before": Policy(preallocate=False), "ours": Policy()},
            work=growth(),
            steps={growth_name(case): Step(pair) for case, pair in published.PREALLOCATE.items()},
            counted=FAT_COUNTED,
        ),
        Table(
            number=5,
            title="large directories",
            setup=f"{large:,} files in one directory of a 4 GiB volume; 32 KiB clusters",
            columns={
                "before": Policy.before(),
                "after": _WALKS.replace(empty_hint="retained", name_filter=True),
                "ours": Policy(),
            },
            work=large_directory(large),
            steps={"20000 files": Step(Pair(*published.LARGE_DIRECTORY["real"]))},
        ),
    )
    return {table.number: table for table in tables}


def run(
    table: Table, stage: Stage, runs: int, said: Callable[[str], object] | None = None
) -> Result:
    """Does the work of a table ``runs`` times in each column."""

    def work(column: str) -> list[Sample]:
        if said is not None:
            said(f"table {table.number}: {column}")
        return table.work(stage, table.columns[column])

    done = interleaved(tuple(table.columns), runs, work)
    result = Result(table)
    for i, first in enumerate(done["before"][0]):
        result.rows.append(
            Row(
                name=first.name,
                files=first.files,
                at=first.at,
                detail=first.detail,
                seconds={
                    column: Spread([one[i].seconds for one in samples])
                    for column, samples in done.items()
                },
                counters={column: samples[-1][i].counters for column, samples in done.items()},
                step=table.steps.get(first.name),
            )
        )
    return result
