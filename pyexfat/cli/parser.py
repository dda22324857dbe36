"""The argument parser: groups of commands, and how a command is declared."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from textwrap import fill, wrap
from typing import Any, NoReturn, TypeAlias

from pyexfat._text import visible

from .errors import USAGE
from .render import encodable

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What add_parser() of a group is given."""

Run = Callable[[argparse.Namespace], int]

# Modules with add_parser(subparsers), in the order of the help: a new group of commands is a line.
GROUPS = (
    "pyexfat.cli.making",
    "pyexfat.cli.describing",
    "pyexfat.cli.listing",
    "pyexfat.cli.copying",
    "pyexfat.cli.changing",
    "pyexfat.cli.space",
    "pyexfat.bench",
)

_EPILOG = """\
places:
  card.img:/DCIM/a.jpg     a path inside the volume of an image or raw device
  card.img:                its root directory
  disk.img@2:/DCIM         in partition 2 of a partitioned disk
  ./a:b                    a host file, as is everything that exists on the host or has no ":/"

exit codes:
  0 done   1 something failed (one line on standard error for each)   2 wrong usage
  130 interrupted   141 whoever read the output went away

examples:
  pyexfat format card.img --size 64M --label CARD --from photos/
  pyexfat ls -l card.img:/
  pyexfat cp card.img:/DCIM/a.jpg .

"pyexfat COMMAND --help" shows more, with examples."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=30, **options)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Ends the program: exit code 2."""
        # "argument -s/--size: …" is about --size
        what = visible(re.sub(r"^argument (?:-\w/)*", "", message))
        what = re.sub(r": invalid \w+ value: ", ": no number: ", what)  # argparse names functions
        self.exit(USAGE, encodable(f'{self.prog}: {what} (see "{self.prog} --help")\n', sys.stderr))


def command(
    subparsers: Subparsers,
    name: str,
    run: Run,
    *,
    summary: str,
    examples: Sequence[str],
    description: str = "",
    keys: str = "",
) -> argparse.ArgumentParser:
    """Declares a command: ``run(args)`` returns the exit code.

    ``examples`` are lines of the shell; ``keys`` says what ``--json`` prints, and without it there
    is no ``--json``.
    """
    lines = ["examples:", *(f"  {line}" for line in examples)]
    if keys:
        lines += ["", "with --json:"]
        for line in keys.splitlines():
            lines += wrap(line, 78, initial_indent="  ", subsequent_indent="    ")
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=fill(
            " ".join((description or f"{summary[0].upper()}{summary[1:]}.").split()), 78
        ),
        epilog="\n".join(lines).replace("%", "%%"),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    if keys:
        parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    from pyexfat import __version__

    parser = _Parser(
        prog="pyexfat",
        description="Make, fill, read and change exFAT and FAT images and cards, "
        "without root or mounting.",
        epilog=_EPILOG,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pyexfat {__version__}")
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for group in GROUPS:
        import_module(group).add_parser(subparsers)
    return parser
