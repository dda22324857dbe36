"""extents and map: where files lie."""

from __future__ import annotations

import argparse
from typing import Any

from pyexfat._text import visible
from pyexfat.picture import KINDS, ClusterMap, Kind, MapCell, cluster_map, colour, letter, shade
from pyexfat.sizes import format_size

from .options import add_reading, place
from .parser import Subparsers, command
from .places import Place, base_name
from .records import place_record, plural
from .render import BinaryOutput, Cell
from .session import Session

_SVG_CELLS = 4096


def add_parser(subparsers: Subparsers) -> None:
    """Declares the commands of this module."""
    parser = command(
        subparsers, "extents", run_extents,
        summary="show the pieces in which files lie on the volume",
        description="Show the pieces in which files lie on the volume. Offsets are bytes; those on "
        "the volume count from its start.",
        examples=["pyexfat extents card.img:/a.jpg", "pyexfat extents --json card.img:/a.jpg"],
        keys="a list, for each place: image partition path extents;\n"
        "each extent: file_offset device_offset length written",
    )  # fmt: skip
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE:/PATH")
    add_reading(parser)
    parser = command(
        subparsers, "map", run_map,
        summary="draw what the clusters of a volume hold",
        description="Draw what the clusters of a volume hold. With a path, what belongs to it and "
        "below is marked.",
        examples=[
            "pyexfat map card.img",
            "pyexfat map card.img:/DCIM/a.jpg          # where that file lies",
            "pyexfat map --svg card.svg card.img",
        ],
        keys="image partition path cluster_size clusters clusters_per_cell cells\n"
        "totals (clusters by kind);\n"
        "each cell: first count kind clusters (by kind) owner owners\n"
        f"kinds: {' '.join(KINDS)}",
    )  # fmt: skip
    parser.add_argument("place", type=place, metavar="IMAGE[:/PATH]")
    parser.add_argument(
        "--svg", metavar="FILE", help='write an SVG picture to FILE ("-": standard output)'
    )
    parser.add_argument(
        "--rows", type=_positive, metavar="N", help="lines of the picture (default: what fits)"
    )
    parser.add_argument("--columns", type=_positive, metavar="N", help="cells in a line")
    add_reading(parser)


def _positive(text: str) -> int:
    number = int(text)
    if not 0 < number <= 10_000:
        raise argparse.ArgumentTypeError("must be from 1 to 10000")
    return number


def run_extents(args: argparse.Namespace) -> int:
    """The command ``extents``."""
    with Session(args) as session:
        records: list[dict[str, Any]] = []
        for number, where in enumerate(args.places):
            with session.attempt(where):
                extents = session.volume(where).extents(where.path)
                if args.json:
                    records.append(
                        place_record(where) | {"extents": [one._asdict() for one in extents]}
                    )
                    continue
                if number:
                    session.out.line("")
                session.out.line(
                    (visible(str(where)), "bold"), f": {plural(len(extents), 'extent')}"
                )
                if extents:
                    rows = [
                        [str(n), str(one.file_offset), str(one.device_offset), str(one.length),
                         format_size(one.length), "written" if one.written else "reads as zeros"]
                        for n, one in enumerate(extents)
                    ]  # fmt: skip
                    headings = ["#", "in the file", "on the volume", "bytes", "size", "data"]
                    session.out.table(headings, rows, right=range(5))
        if args.json:
            session.out.json(records)
    return session.status


def run_map(args: argparse.Namespace) -> int:
    """The command ``map``."""
    where: Place = args.place
    with Session(args) as session:
        volume = session.volume(where)
        columns, rows = _shape(session, args)
        chosen = where.path if base_name(where.path) else None
        with session.attempt(where):
            picture = cluster_map(
                volume, chosen, cells=columns * rows, failed=session.failed_in(where)
            )
            if args.svg:
                _write_svg(picture.to_svg(columns), args.svg)
            if args.json:
                session.out.json(place_record(where) | _record(picture))
            elif not args.svg:
                _draw(session, picture, columns)
    return session.status


def _shape(session: Session, args: argparse.Namespace) -> tuple[int, int]:
    """Columns and rows of the picture."""
    columns = args.columns or min(64, session.out.columns or 64)
    if args.rows:
        return columns, args.rows
    return columns, max(1, _SVG_CELLS // columns) if args.svg else 16


def _write_svg(text: str, path: str) -> None:
    if path == "-":
        BinaryOutput().write(text.encode("ascii", "xmlcharrefreplace"))
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _record(picture: ClusterMap) -> dict[str, Any]:
    return {
        "cluster_size": picture.cluster_size,
        "clusters": picture.clusters,
        "clusters_per_cell": picture.clusters_per_cell,
        "totals": {kind: picture.totals.get(kind, 0) for kind in KINDS},
        "cells": [
            {
                "first": cell.first,
                "count": cell.count,
                "kind": cell.kind,
                "clusters": cell.clusters,
                "owner": cell.owner,
                "owners": cell.owners,
            }
            for cell in picture.cells
        ],
    }


def _draw(session: Session, picture: ClusterMap, columns: int) -> None:
    """In colour where the terminal has it: shades of blocks; otherwise a letter a cell."""
    out = session.out
    colours = out.console is not None and not out.console.no_color and out.unicode

    def drawn(cell: MapCell) -> Cell:
        return (shade(cell), _style(cell.kind)) if colours else letter(cell)

    for row in picture.rows(columns):
        out.line(*map(drawn, row))
    out.line("")
    for kind, text in picture.legend():
        sample = MapCell(2, 1, {} if kind == "free" else {kind: 1})
        out.line(drawn(sample), "  ", text)
    out.line("")
    out.line(picture.scale())


def _style(kind: Kind) -> str:
    return "dim" if kind == "free" else colour(kind)
