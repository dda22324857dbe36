"""The ``pyexfat`` command.

``main`` parses, runs one command and turns whatever goes wrong into a line on standard error and an
exit code; the commands themselves live in the modules that ``parser.GROUPS`` names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .errors import FAILURE, INTERRUPTED, OUTPUT_CLOSED, CommandError, report
from .parser import build_parser
from .render import OutputError, writing

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv`` (default: the program's own arguments) and returns the exit
    code.

    0: done; 1: something failed; 2: wrong usage; 130: interrupted; 141: the reader of the output
    went away.
    """
    _stand_in_for_closed_streams()
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed the help or the mistake
        return stop.code if isinstance(stop.code, int) else FAILURE
    try:
        status: int = args.run(args)
        with writing():
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("pyexfat: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return OUTPUT_CLOSED
    except OutputError as error:
        report(error.__cause__ or error, "standard output")
        _forget_output()
        return FAILURE
    except CommandError as error:
        report(error)
        return error.status
    except (OSError, ValueError, MemoryError) as error:
        report(error)
        return FAILURE
    return status


def _forget_output() -> None:
    """Points standard output to nowhere, so that the last flush does not fail again."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass


def _stand_in_for_closed_streams() -> None:
    """What the shell has closed (``>&-``) fails where it is used, and no image gets its number.

    Error messages go nowhere then.
    """
    for name, access, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, access), mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
