"""What people read: aligned columns, tables and styles; and JSON for programs.

Rich draws where it is installed and standard output is a terminal; otherwise the same content is
plain text, so that what a script reads does not depend on what happens to be installed. Names come
from disks and may hold anything: each passes ``visible()`` before it reaches a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO

from pyexfat._text import width

if TYPE_CHECKING:
    from rich.console import Console


def encodable(text: str, stream: TextIO) -> str:
    """``text`` with what the stream's encoding lacks written as escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def draws_unicode(stream: TextIO) -> bool:
    """Whether box and block characters can be written to the stream."""
    try:
        "\u2514\u2500\u2588".encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


Cell = str | tuple[str, str]
"""Text, or text and a rich style; the plain fallback leaves the style out."""


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _style(cell: Cell) -> str:
    return "" if isinstance(cell, str) else cell[1]


class OutputError(Exception):
    """Standard output takes no more; ``__cause__`` says why.

    It concerns none of the arguments, so it ends the command.
    """


@contextmanager
def writing() -> Iterator[None]:
    """Turns failures of standard output into OutputError, but for a reader that went away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError from error


class BinaryOutput:
    """Standard output for the content of files."""

    def __init__(self) -> None:
        sys.stdout.flush()

    def write(self, data: bytes | memoryview) -> int:
        """All of it, also where the stream has no buffer (python -u) and takes a part at a time."""
        rest = memoryview(data)
        with writing():
            while rest:
                rest = rest[sys.stdout.buffer.write(rest) or 0 :]
        return len(data)

    def flush(self) -> None:
        """Hands it on."""
        with writing():
            sys.stdout.buffer.flush()


class Output:
    """Standard output of one command."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream: TextIO = sys.stdout if stream is None else stream
        self.console: Console | None = _console(self.stream)

    @property
    def columns(self) -> int | None:
        """Width of the terminal, or None where output goes elsewhere."""
        if not self.stream.isatty():
            return None
        if self.console is not None:
            return self.console.width
        return get_terminal_size().columns

    @property
    def unicode(self) -> bool:
        return draws_unicode(self.stream)

    def json(self, value: Any) -> None:
        """One JSON document; lone surrogates come out as the ``\\udXXX`` escapes that JSON has for
        them.
        """
        with writing():
            json.dump(value, self.stream, indent=2, ensure_ascii=True)
            self.stream.write("\n")

    def line(self, *cells: Cell) -> None:
        """One line of cells set one after the other, never wrapped."""
        if self.console is None:
            text = "".join(map(_text, cells)).rstrip(" ")
            with writing():
                self.stream.write(encodable(text, self.stream) + "\n")
            return
        from rich.text import Text

        line = Text(no_wrap=True, overflow="ignore", end="")
        for cell in cells:
            line.append(encodable(_text(cell), self.stream), style=_style(cell) or None)
        line.rstrip()
        with writing():
            self.console.print(line, soft_wrap=True)

    def aligned(self, rows: Iterable[Sequence[Cell]], right: Iterable[int] = ()) -> None:
        """Rows of cells in columns, two spaces apart; the columns numbered in ``right`` are flush
        right.
        """
        kept = list(rows)
        if not kept:
            return
        right = set(right)
        count = max(map(len, kept))
        widths = [
            max((width(_text(row[i])) for row in kept if i < len(row)), default=0)
            for i in range(count)
        ]
        for row in kept:
            cells: list[Cell] = []
            for i, cell in enumerate(row):
                fill = " " * (widths[i] - width(_text(cell)))
                cells += [fill, cell] if i in right else [cell, fill]
                cells.append("  ")
            self.line(*cells[:-1])

    def table(
        self, headings: Sequence[str], rows: Iterable[Sequence[Cell]], right: Iterable[int] = ()
    ) -> None:
        """A table with a heading line; drawn with rules where rich draws."""
        right = set(right)
        if self.console is None:
            self.aligned([headings, *rows], right)
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for i, heading in enumerate(headings):
            table.add_column(heading, justify="right" if i in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(encodable(_text(c), self.stream), style=_style(c)) for c in row))
        with writing():
            self.console.print(table)

    def fields(self, rows: Iterable[tuple[str, Cell]]) -> None:
        """Name and value, one a line."""
        kept = [(name + ":", value) for name, value in rows]
        column = max((len(name) for name, _ in kept), default=0) + 2
        for name, value in kept:
            self.line((name.ljust(column), "bold"), value)

    def in_columns(self, cells: Sequence[Cell]) -> None:
        """Cells down and then across as ls does on a terminal; one a line elsewhere."""
        columns = self.columns
        if columns is None:
            for cell in cells:
                self.line(cell)
            return
        widths = [width(_text(cell)) + 2 for cell in cells]
        for lines in _line_counts(len(cells)):
            groups = [widths[i : i + lines] for i in range(0, len(cells), lines)]
            if sum(map(max, groups)) - 2 <= columns:
                break
        for i in range(lines if cells else 0):
            row: list[Cell] = []
            for j, cell in enumerate(cells[i::lines]):
                row += [cell, " " * (max(groups[j]) - width(_text(cell)))]
            self.line(*row[:-1])


def _line_counts(n: int) -> Iterable[int]:
    """Numbers of lines to try for ``n`` cells: each once, and few of them when there are many."""
    lines = 1
    while lines < n:
        yield lines
        lines += max(1, lines // 16)
    yield max(1, n)


def _console(stream: TextIO) -> Console | None:
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    # highlight and markup off: what is printed are names from disks.
    return Console(file=stream, highlight=False, markup=False, emoji=False)
