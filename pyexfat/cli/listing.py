"""ls, tree and stat."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from pyexfat._core import Stat
from pyexfat._text import visible
from pyexfat._tree import Row, Step, directories, entries, walk
from pyexfat.sizes import format_size

from .options import add_reading, add_times, place
from .parser import Subparsers, command
from .places import Place, base_name
from .records import (
    ENTRY_KEYS,
    attributes,
    entry_record,
    flags,
    kind,
    place_record,
    plural,
    show_time,
)
from .render import Cell
from .session import Session


def add_parser(subparsers: Subparsers) -> None:
    """Declares the commands of this module."""
    _add_ls(subparsers)
    _add_tree(subparsers)
    parser = command(
        subparsers,
        "stat",
        run_stat,
        summary="show all that is known of files and directories",
        examples=[
            "pyexfat stat card.img:/DCIM/a.jpg",
            "pyexfat stat --json card.img:/DCIM card.img:/",
        ],
        keys="a list, for each place: image partition entry_offset entry_count cluster_size\n"
        f"{ENTRY_KEYS}",
    )
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE:/PATH")
    add_times(parser)
    add_reading(parser)


def _add_ls(subparsers: Subparsers) -> None:
    parser = command(
        subparsers,
        "ls",
        run_ls,
        summary="list directories",
        description="List directories. Nothing is hidden from it, whatever its attributes.",
        examples=[
            "pyexfat ls card.img:/DCIM",
            "pyexfat ls -lt disk.img@2:/        # newest first, with attributes, size and time",
            "pyexfat ls -R --json card.img",
        ],
        keys=f"a list, for each directory: image partition path entries;\neach entry: {ENTRY_KEYS}",
    )
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE[:/PATH]")
    parser.add_argument(
        "-l", "--long", action="store_true",
        help="attributes (directory, read-only, hidden, system, archive), size, time of change",
    )  # fmt: skip
    parser.add_argument("-a", "--all", action="store_true", help="accepted; all is shown anyway")
    parser.add_argument("-R", "--recursive", action="store_true", help="directories below, too")
    parser.add_argument("-d", "--directory", action="store_true", help="directories as such")
    parser.add_argument("-H", "--human", action="store_true", help="sizes as 1.5 MiB")
    parser.add_argument("-F", "--classify", action="store_true", help="a slash after directories")
    parser.add_argument("-1", dest="single", action="store_true", help="one name a line")
    parser.add_argument("-r", "--reverse", action="store_true", help="last first")
    order = parser.add_mutually_exclusive_group()
    order.add_argument("-S", dest="order", action="store_const", const="size", help="largest first")
    order.add_argument("-t", dest="order", action="store_const", const="time", help="newest first")
    order.add_argument("-U", dest="order", action="store_const", const="disk", help="in disk order")
    add_times(parser)
    add_reading(parser)


def _add_tree(subparsers: Subparsers) -> None:
    parser = command(
        subparsers,
        "tree",
        run_tree,
        summary="show directories and files as a tree",
        examples=["pyexfat tree card.img", "pyexfat tree -s -L 2 card.img:/DCIM"],
        keys=f"a list, for each place: image partition path directories files entries;\n"
        f"each entry, in the order of the tree: depth {ENTRY_KEYS}",
    )
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE[:/PATH]")
    parser.add_argument("-L", dest="depth", type=_depth, metavar="N", help="at most N levels down")
    parser.add_argument("-d", "--directories", action="store_true", help="directories only")
    parser.add_argument("-s", "--sizes", action="store_true", help="the size of each file")
    add_reading(parser)


def _depth(text: str) -> int:
    depth = int(text)
    if depth < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return depth


def by_name(row: Row) -> tuple[str, str]:
    """Order of names: case counts only where nothing else differs."""
    return row[0].casefold(), row[0]


def sorted_by_name(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=by_name)


def _arrange(args: argparse.Namespace, rows: Iterable[Row]) -> list[Row]:
    """Rows in the order that the options ask for."""
    kept = list(rows)
    if args.order != "disk":
        kept.sort(key=by_name)
    if args.order == "size":
        kept.sort(key=lambda row: -row[1].st_size)
    elif args.order == "time":
        kept.sort(key=lambda row: -row[1].st_mtime_ns)
    return kept[::-1] if args.reverse else kept


def run_ls(args: argparse.Namespace) -> int:
    """The command ``ls``."""
    with Session(args) as session:
        files: list[tuple[Place, Stat]] = []
        directories: list[Place] = []
        for where in args.places:
            with session.attempt(where):
                stat = session.volume(where).stat(where.path)
                if stat.is_dir and not args.directory:
                    directories.append(where)
                else:
                    files.append((where, stat))
        if args.json:
            listings = [(where, [(base_name(where.path), stat)]) for where, stat in files]
            records = [_listing_record(where, rows, where.path) for where, rows in listings]
            for top in directories:
                for where, rows in _directories(session, args, top):
                    records.append(_listing_record(where, rows))
            session.out.json(records)
            return session.status
        _show(session, args, _arrange(args, ((str(where), stat) for where, stat in files)))
        headings = args.recursive or len(args.places) > 1
        blank = bool(files)
        for top in directories:
            for where, rows in _directories(session, args, top):
                if headings:
                    if blank:
                        session.out.line("")
                    session.out.line(f"{visible(str(where))}:")
                _show(session, args, rows)
                blank = True
        return session.status


def _directories(
    session: Session, args: argparse.Namespace, top: Place
) -> Iterator[tuple[Place, list[Row]]]:
    """A directory with its rows, and with -R those below it."""
    volume = session.volume(top)
    if not args.recursive:
        with session.attempt(top):
            yield top, _arrange(args, entries(volume, top.path))
        return
    found = directories(
        volume, top.path, arrange=partial(_arrange, args), failed=session.failed_in(top)
    )
    for path, rows in found:
        yield replace(top, path=path), rows


def _listing_record(where: Place, rows: list[Row], path: str | None = None) -> dict[str, Any]:
    base = where.path.rstrip("/")
    records = [entry_record(path or f"{base}/{name}", name, stat) for name, stat in rows]
    return place_record(where) | {"entries": records}


def _show(session: Session, args: argparse.Namespace, rows: list[Row]) -> None:
    """Rows as people want them: in columns, or a line each."""
    if not args.long:
        names = [_name(name, stat, args.classify) for name, stat in rows]
        if args.single:
            for name in names:
                session.out.line(name)
        else:
            session.out.in_columns(names)
        return
    session.out.aligned(
        (
            [
                flags(stat),
                format_size(stat.st_size) if args.human else str(stat.st_size),
                show_time(stat.st_mtime_ns, args.utc),
                _name(name, stat, args.classify),
            ]
            for name, stat in rows
        ),
        right=[1],
    )


def _name(name: str, stat: Stat, classify: bool = False) -> Cell:
    text = visible(name) + ("/" if classify and stat.is_dir else "")
    if stat.is_dir:
        return text, "bold blue"
    return (text, "dim") if stat.hidden or stat.system else text


def run_tree(args: argparse.Namespace) -> int:
    """The command ``tree``."""
    with Session(args) as session:
        records: list[dict[str, Any]] = []
        for number, where in enumerate(args.places):
            with session.attempt(where):
                steps = walk(
                    session.volume(where), where.path, depth=args.depth,
                    arrange=_only_directories if args.directories else sorted_by_name,
                    failed=session.failed_in(where),
                )  # fmt: skip
                if args.json:
                    records.append(_tree_record(where, steps))
                else:
                    if number:
                        session.out.line("")
                    _show_tree(session, where, steps, args.sizes)
        if args.json:
            session.out.json(records)
        return session.status


def _only_directories(rows: list[Row]) -> list[Row]:
    return [row for row in sorted_by_name(rows) if row[1].is_dir]


def _tree_record(where: Place, steps: Iterable[Step]) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    counts = {"directory": 0, "file": 0}
    for step in steps:
        if step.what == "leave":
            continue
        name = step.name or base_name(step.path)
        found.append({"depth": step.depth} | entry_record(step.path, name, step.stat))
        counts[kind(step.stat)] += step.depth > 0
    numbers = {"directories": counts["directory"], "files": counts["file"]}
    return place_record(where) | numbers | {"entries": found}


def _show_tree(session: Session, where: Place, steps: Iterable[Step], sizes: bool) -> None:
    tee, corner, bar = ("|-- ", "`-- ", "|   ")
    if session.out.unicode:
        tee, corner, bar = ("\u251c\u2500\u2500 ", "\u2514\u2500\u2500 ", "\u2502   ")
    counts = {"directory": 0, "file": 0}
    lead: list[str] = []  # what stands before the branch, one piece for each open directory
    for step in steps:
        if step.what == "leave":
            if step.depth:
                lead.pop()
            continue
        if step.depth == 0:
            session.out.line((visible(str(where)), "bold blue" if step.stat.is_dir else ""))
            continue
        size: Cell = ""
        if sizes and not step.stat.is_dir:
            size = (f"[{format_size(step.stat.st_size)}] ", "green")
        branch = "".join(lead) + (corner if step.last else tee)
        session.out.line((branch, "dim"), size, _name(step.name, step.stat))
        counts[kind(step.stat)] += 1
        if step.what == "enter":
            lead.append("    " if step.last else bar)
    numbers = [plural(counts["directory"], "directory", "directories")]
    numbers.append(plural(counts["file"], "file"))
    session.out.line("")
    session.out.line(", ".join(numbers))


def run_stat(args: argparse.Namespace) -> int:
    """The command ``stat``."""
    with Session(args) as session:
        records: list[dict[str, Any]] = []
        for where in args.places:
            with session.attempt(where):
                volume = session.volume(where)
                stat = volume.stat(where.path)
                if args.json:
                    records.append(
                        place_record(where)
                        | entry_record(where.path, base_name(where.path), stat)
                        | {
                            "entry_offset": stat.entry_offset,
                            "entry_count": stat.entry_count,
                            "cluster_size": volume.cluster_size,
                        }
                    )
                else:
                    session.out.fields(_stat_fields(where, stat, args.utc))
        if args.json:
            session.out.json(records)
        return session.status


def _stat_fields(where: Place, stat: Stat, utc: bool) -> Iterator[tuple[str, Cell]]:
    yield "path", (visible(str(where)), "bold")
    yield "type", kind(stat)
    yield "size", f"{stat.st_size} ({format_size(stat.st_size)})"
    if stat.valid_size != stat.st_size:
        yield "valid data", f"{stat.valid_size}; what follows reads as zeros"
    yield "allocated", f"{stat.allocated} ({format_size(stat.allocated)})"
    yield "attributes", ", ".join(attributes(stat)).replace("_", "-") or "none"
    yield "created", show_time(stat.st_birthtime_ns, utc, precise=True)
    yield "modified", show_time(stat.st_mtime_ns, utc, precise=True)
    yield "accessed", show_time(stat.st_atime_ns, utc, precise=True)
    if stat.first_cluster:
        chain = "in one piece" if stat.contiguous else "by its FAT chain"
        yield "clusters", f"from {stat.first_cluster} on, {chain}"
    if stat.entry_offset:
        yield "entry", f"{plural(stat.entry_count, 'entry', 'entries')} at byte {stat.entry_offset}"
