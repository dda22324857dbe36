"""The commands ``pyexfat bench seeds | io | scale | fat | peers``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyexfat.cli.errors import UsageError
from pyexfat.cli.options import size
from pyexfat.cli.parser import Subparsers, command
from pyexfat.cli.render import Cell, Output

if TYPE_CHECKING:
    from .io import Finding
    from .report import Grid
    from .workloads import Stage

_SAID = "table {number}: {title}"


def add_parser(subparsers: Subparsers) -> None:
    """Declares the group."""
    bench = command(
        subparsers, "bench", _run_seeds,
        summary="measure what each mechanism is worth, before and after in one run",
        examples=[
            "pyexfat bench seeds --only 1,2",
            "pyexfat bench scale --html scale.html",
            "pyexfat bench io",
            "pyexfat bench peers",
        ],
    )  # fmt: skip
    kinds = bench.add_subparsers(title="benches", metavar="BENCH", dest="bench", required=True)
    _add_seeds(kinds)
    _add_io(kinds)
    _add_scale(kinds)
    _add_fat(kinds)
    _add_peers(kinds)


def _add_seeds(kinds: Subparsers) -> None:
    parser = command(
        kinds, "seeds", _run_seeds,
        summary="do the work of published tables again",
        description="Do the work of published tables again: the state that the mechanism found "
        "(before), that state with the one mechanism (after), and everything we have (ours), turn "
        "by turn in one run. Seconds are medians; counters are exact.",
        examples=[
            "pyexfat bench seeds",
            "pyexfat bench seeds --only 2 --slow-device class10",
            "pyexfat bench seeds --runs 5 --json --html seeds.html",
        ],
        keys="machine device card tables\neach table: table title setup columns rows growth\n"
        "each row: name files before after ours ratios published",
    )  # fmt: skip
    parser.add_argument(
        "--only", type=_tables, metavar="1,2,5", help="these tables (default: all that there are)"
    )
    parser.add_argument(
        "--files", type=_count, default=20_000, metavar="N",
        help="files of table 5 (default: 20000, as published; before takes N * N)",
    )  # fmt: skip
    _add_runs(parser)
    _add_stage(parser)
    _add_html(parser)


def _add_io(kinds: Subparsers) -> None:
    parser = command(
        kinds, "io", _run_io,
        summary="compare copies with cp, and time single calls",
        description="Compare copies into and out of an image with cp and a sync on the same disk; "
        "time sparse allocation and single calls; see what memory a large volume takes.",
        examples=["pyexfat bench io", "pyexfat bench io --size 256M --dir /mnt/disk --json"],
        keys="machine findings\neach finding: name value unit limit good note",
    )  # fmt: skip
    parser.add_argument(
        "--size", type=size, default=1 << 30, metavar="BYTES",
        help="of the file that is copied (default: 1 GiB)",
    )  # fmt: skip
    _add_runs(parser)
    _add_folder(parser)


def _add_scale(kinds: Subparsers) -> None:
    parser = command(
        kinds, "scale", _run_scale,
        summary="show how cost grows with a directory",
        description="Create, look up and delete in one directory of 10,000, 100,000 and 1,000,000 "
        "files.",
        examples=["pyexfat bench scale", "pyexfat bench scale --huge --html scale.html"],
        keys="machine version points (or round_robin)\n"
        "each point: operation files seconds_each entries_visited_each",
    )  # fmt: skip
    parser.add_argument(
        "--sizes", type=_sizes, metavar="N,N", help="other sizes (default: 10000,100000,1000000)"
    )
    parser.add_argument(
        "--huge", action="store_true", help="2,700,000 too, about the most that one directory holds"
    )
    parser.add_argument(
        "--round-robin", action="store_true",
        help="visit 1,000 directories of 5,000 files in turn under a budget of 1 MiB instead",
    )  # fmt: skip
    parser.add_argument(
        "--sample", type=_count, default=20_000, metavar="N",
        help="calls of each operation, at most (default: 20000)",
    )  # fmt: skip
    _add_runs(parser)
    _add_stage(parser)
    _add_html(parser)


def _add_fat(kinds: Subparsers) -> None:
    parser = command(
        kinds, "fat", _run_fat,
        summary="show what must not grow on FAT",
        description="On FAT32 in memory: make 16 files large (each a quarter of --size), append "
        "4 KiB at a time to one file, read 1 MiB at random in a file of many pieces, and create, "
        "look up and delete in a small and a large directory.",
        examples=["pyexfat bench fat", "pyexfat bench fat --size 64M --fragments 5000 --json"],
        keys="machine findings\neach finding: name value unit limit good note",
    )  # fmt: skip
    parser.add_argument(
        "--size", type=size, default=1 << 30, metavar="BYTES",
        help="that are appended (default: 1 GiB)",
    )  # fmt: skip
    parser.add_argument(
        "--fragments", type=_count, default=100_000, metavar="N",
        help="pieces of the file that is read (default: 100000)",
    )  # fmt: skip
    parser.add_argument(
        "--files", type=_count, default=60_000, metavar="N",
        help="files of the large directory (default: 60000)",
    )  # fmt: skip
    _add_runs(parser)


def _add_peers(kinds: Subparsers) -> None:
    parser = command(
        kinds, "peers", _run_peers,
        summary="do the same work with what else is installed",
        description="Do the same work with what else is installed: exfat-fuse, the kernel's driver "
        "(in an emulator where this kernel has none), mtools, Python packages. What can't run is "
        "skipped, and says why. Mounting needs root.",
        examples=[
            "pyexfat bench peers",
            "pyexfat bench peers --files 5000 --only exfat-fuse",
            "pyexfat bench peers --fs fat32 --files 1000 --runs 1",
        ],
        keys="machine fs files python peers\n"
        "each peer: peer about seconds_a_file (by step), or peer skipped",
    )  # fmt: skip
    parser.add_argument(
        "--files", type=_count, default=2000, metavar="N", help="files made (default: 2000)"
    )
    parser.add_argument(
        "--fs", choices=("exfat", "fat32"), default="exfat", help="on what (default: exfat)"
    )
    parser.add_argument(
        "--only", action="append", metavar="PEER", help="this one (may be given again)"
    )
    _add_runs(parser)
    _add_folder(parser)


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=_count, default=3, metavar="N", help="times each is done (default: 3)"
    )


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", metavar="FOLDER", help="where images are made (default: for temporary files)"
    )


def _add_html(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="write a page with curves to FILE")


def _add_stage(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("device")
    group.add_argument(
        "--device", default="memory", metavar="memory|file|PATH",
        help="where the volume lies (default: memory); a path needs --erase",
    )  # fmt: skip
    group.add_argument(
        "--erase", action="store_true", help="what is on the device of --device PATH may be lost"
    )
    group.add_argument(
        "--slow-device", metavar="CARD",
        help="model a card: class4, class10, usb or ssd, also with costs in ms as class4,flush=8",
    )  # fmt: skip
    group.add_argument(
        "--real-sleep", action="store_true", help="wait for the modelled card instead of counting"
    )
    _add_folder(parser)


def _tables(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _sizes(text: str) -> list[int]:
    return sorted({_count(part) for part in text.split(",")})


def _count(text: str) -> int:
    number = int(text.replace("_", ""))
    if not 0 < number <= 10_000_000:
        raise argparse.ArgumentTypeError("must be from 1 to 10000000")
    return number


# ---- what is said ----


def _said(text: str) -> None:
    """What is under way, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text} ", end="", file=sys.stderr, flush=True)


def _quiet() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(out: Output, heading: str, text: str, *grids: Grid) -> None:
    out.line((heading, "bold"))
    out.line(text)
    for headings, rows in grids:
        out.line("")
        cells: list[list[Cell]] = [[*row] for row in rows]
        out.table(headings, cells, right=range(1, len(headings)))
    out.line("")


def _stage(args: argparse.Namespace) -> Stage:
    from .slow import parse_card
    from .workloads import Stage

    if args.device not in ("memory", "file") and not args.erase:
        raise UsageError(f"{args.device} would be overwritten: say --erase if that is wanted")
    card = parse_card(args.slow_device) if args.slow_device else None
    if args.real_sleep and card is None:
        raise UsageError("--real-sleep needs --slow-device")
    return Stage(args.device, card=card, sleeps=args.real_sleep, folder=args.dir)


def _write(path: str | None, make: Callable[[], str]) -> None:
    if path is None:
        return
    text = make()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"pyexfat: wrote {os.path.abspath(path)}", file=sys.stderr)


def _run_seeds(args: argparse.Namespace) -> int:
    from . import report, seeds

    tables = seeds.make_tables(args.files)
    numbers = args.only or list(tables)
    missing = [str(number) for number in numbers if number not in tables]
    if missing:
        have = ", ".join(map(str, tables))
        raise UsageError(f"no table {', '.join(missing)} can be done here (there are {have})")
    stage = _stage(args)
    results = [seeds.run(tables[number], stage, args.runs, _said) for number in numbers]
    _quiet()
    out = Output()
    if args.json:
        record: dict[str, Any] = {"machine": report.machine(), "device": args.device}
        record |= {"card": args.slow_device, "tables": [result.record() for result in results]}
        out.json(record)
    else:
        for result in results:
            heading = _SAID.format(number=result.table.number, title=result.table.title)
            grids = (report.seed_times(result), report.seed_counters(result))
            _show(out, heading[0].upper() + heading[1:], result.table.setup, *grids)
            order = " / ".join(result.table.columns)
            out.line(f"Seconds are medians with their spread; counts are {order}.")
            out.line("")
    _write(args.html, lambda: report.seeds_page(results))
    return 0


def _run_io(args: argparse.Namespace) -> int:
    from . import io

    return _findings(args, io.run(folder=args.dir, size=args.size, runs=args.runs, said=_said))


def _run_fat(args: argparse.Namespace) -> int:
    from . import fat

    findings = fat.run(
        total=args.size,
        fragments=args.fragments,
        length=args.fragments * 42 * 512,  # 2 GiB of 100,000
        files=args.files,
        runs=args.runs,
        said=_said,
    )
    return _findings(args, findings)


def _findings(args: argparse.Namespace, findings: Sequence[Finding]) -> int:
    from . import io, report

    _quiet()
    out = Output()
    if args.json:
        out.json({"machine": report.machine(), "findings": [one.record() for one in findings]})
        return 0
    headings, rows = io.grid(findings)
    cells: list[list[Cell]] = [[*row] for row in rows]
    out.table(headings, cells, right=(1, 2))
    return 0


def _run_scale(args: argparse.Namespace) -> int:
    from . import report, scale

    if args.round_robin:
        return _run_round_robin(args)
    sizes = args.sizes or list(scale.SIZES)
    if args.huge and scale.MOST not in sizes:
        sizes.append(scale.MOST)
    points = scale.run(
        _stage(args), sizes=sizes, runs=args.runs, sample=args.sample, said=_said
    )  # fmt: skip
    _quiet()
    out = Output()
    if args.json:
        out.json({"machine": report.machine()} | scale.record(points))
    else:
        _show(out, "One directory", "Medians for one call.", scale.grid(points))
    _write(args.html, lambda: scale.html(points))
    return 0


def _run_round_robin(args: argparse.Namespace) -> int:
    from . import report, scale

    _said("1,000 directories of 5,000 files")
    outcome = scale.round_robin()
    _quiet()
    out = Output()
    if args.json:
        out.json({"machine": report.machine(), "round_robin": outcome.record()})
    else:
        out.fields((name.replace("_", " "), str(value)) for name, value in vars(outcome).items())
    return 0 if outcome.wrong == 0 else 1


def _run_peers(args: argparse.Namespace) -> int:
    from . import fat_peers, peers, report

    known = peers.PEERS if args.fs == "exfat" else fat_peers.PEERS
    unknown = [name for name in args.only or () if name not in known]
    if unknown:
        raise UsageError(f"no peer {unknown[0]!r}: there are {', '.join(known)}")
    outcomes = peers.run(
        folder=args.dir, files=args.files, runs=args.runs, only=args.only, said=_said, peers=known
    )
    _quiet()
    out = Output()
    if args.json:
        record = {"machine": report.machine(), "fs": args.fs, "files": args.files}
        out.json(record | peers.record(outcomes))
        return 0
    text = f"Microseconds a file; {args.files:,} files in one directory, a sync after each fifth."
    _show(out, "The same work", text, peers.grid(outcomes))
    return 0
