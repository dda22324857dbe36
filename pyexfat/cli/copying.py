"""cp and cat."""

from __future__ import annotations

import argparse
from typing import cast

from .copier import Copier
from .errors import UsageError
from .options import add_reading, add_writing, location, place
from .parser import Subparsers, command
from .places import Location, Place, Stream
from .progress import Progress
from .render import BinaryOutput
from .session import Session

_CP = """\
Copy into, out of, within and between volumes. The last argument is a new name or an existing
directory to copy into; "-" is standard input or output. Times are kept, and attributes as far as
the other side has them. What fails is reported, and the rest copied."""


def add_parser(subparsers: Subparsers) -> None:
    """Declares the commands of this module."""
    _add_cp(subparsers)
    parser = command(
        subparsers,
        "cat",
        run_cat,
        summary="write files to standard output",
        examples=["pyexfat cat card.img:/notes.txt", "pyexfat cat disk.img@2:/a.gz | gunzip"],
    )
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE:/PATH")
    add_reading(parser)


def _add_cp(subparsers: Subparsers) -> None:
    parser = command(
        subparsers,
        "cp",
        run_cp,
        summary="copy into, out of and between volumes",
        description=_CP,
        examples=[
            "pyexfat cp a.jpg b.jpg card.img:/DCIM/",
            "pyexfat cp -r card.img:/DCIM photos/          # out of the image",
            "tar c src | pyexfat cp - card.img:/src.tar",
            "pyexfat cp -r disk.img@1:/ other.img:/        # all that is in a volume",
        ],
        keys="a list of what was copied: source destination type size",
    )
    parser.add_argument(
        "paths", nargs="+", type=location, metavar="PATH", help="sources, then the destination"
    )
    parser.add_argument(
        "-r", "-R", "--recursive", action="store_true", help="directories and all in them"
    )
    parser.add_argument(
        "-n", "--no-clobber", action="store_true", help="leave existing files alone"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is done")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    parser.add_argument(
        "-P", "--no-links", action="store_true",
        help="leave out symbolic links in directories (else what they point to is copied)",
    )  # fmt: skip
    parser.add_argument(
        "--escape", action="store_true",
        help="out of an image: write names that the host can't hold with %%XX, and cut them",
    )  # fmt: skip
    times = parser.add_mutually_exclusive_group()
    times.add_argument(
        "-p", "--preserve", action="store_true", help="accepted; times are kept anyway"
    )
    times.add_argument("--no-preserve", action="store_true", help="new times, no attributes")
    add_writing(parser, backup=True)


def run_cat(args: argparse.Namespace) -> int:
    """The command ``cat``."""
    with Session(args) as session:
        write_to_output(session, args.places)
    return session.status


def write_to_output(session: Session, places: list[Place]) -> None:
    """Files one after the other to standard output."""
    output = BinaryOutput()
    for where in places:
        with session.attempt(where):
            session.volume(where).copy_out(where.path, output)
    output.flush()


def run_cp(args: argparse.Namespace) -> int:
    """The command ``cp``."""
    sources: list[Location] = args.paths[:-1]
    target: Location = args.paths[-1]
    if not sources:
        raise UsageError("cp takes a source and a destination")
    for one in sources:
        _refuse_pair(one, target)
    writes = [target] if isinstance(target, Place) else []
    with (
        Session(args, writes=writes) as session,
        Progress("copy", quiet=args.quiet or isinstance(target, Stream)) as progress,
    ):
        if args.backup and isinstance(target, Place):
            _refuse_backup(session, sources, target)
        copier = Copier(session, args, progress)
        if isinstance(target, Stream):
            write_to_output(session, cast("list[Place]", sources))
        else:
            copier.copy(sources, target)
        if args.json and not isinstance(target, Stream):
            session.out.json(copier.copied)
    return session.status


def _refuse_pair(source: Location, target: Location) -> None:
    if not isinstance(source, Place) and not isinstance(target, Place):
        names = f"neither {source} nor {target}"
        raise UsageError(f"{names} is in an image (a place in one is written image:/path)")


def _refuse_backup(session: Session, sources: list[Location], target: Place) -> None:
    """The backup boot region is for volumes that are only read: here there is none."""
    for one in sources:
        if isinstance(one, Place) and not session.same_volume(one, target):
            return
    raise UsageError("--backup is for reading: it can't be copied to", target.volume_name)
