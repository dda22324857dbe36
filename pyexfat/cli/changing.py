"""mkdir, rmdir, touch, rm and mv."""

from __future__ import annotations

import argparse
import posixpath
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyexfat import Volume
from pyexfat._text import visible
from pyexfat._tree import remove
from pyexfat.entry import join

from .errors import CommandError, UsageError
from .options import add_writing, place, time_ns
from .parser import Subparsers, command
from .places import Place, base_name
from .records import place_record
from .session import Session

_PLACES = "a list of the places that were done: image partition path"


def add_parser(subparsers: Subparsers) -> None:
    """Declares the commands of this module."""
    _add_mkdir(subparsers)
    _add_rmdir(subparsers)
    _add_touch(subparsers)
    _add_rm(subparsers)
    _add_mv(subparsers)


def _add_mkdir(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "mkdir", run_mkdir,
        summary="make directories",
        examples=["pyexfat mkdir card.img:/DCIM", "pyexfat mkdir -p card.img:/a/b/c card.img:/d"],
        keys=_PLACES,
    )  # fmt: skip
    parser.add_argument(
        "-p",
        "--parents",
        action="store_true",
        help="parents too; no error when it is there already",
    )
    _finish(parser, "IMAGE:/PATH")


def _add_rmdir(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "rmdir", run_rmdir,
        summary="remove empty directories",
        examples=["pyexfat rmdir card.img:/DCIM/100", "pyexfat rmdir card.img:/a card.img:/b"],
        keys=_PLACES,
    )  # fmt: skip
    _finish(parser, "IMAGE:/PATH")


def _add_touch(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "touch", run_touch,
        summary="make empty files, or set the times of existing ones",
        examples=[
            "pyexfat touch card.img:/marker",
            "pyexfat touch -c -d 2026-05-01T12:00:00Z card.img:/DCIM/a.jpg",
        ],
        keys=_PLACES,
    )  # fmt: skip
    parser.add_argument(
        "-c", "--no-create", action="store_true", help="leave out what does not exist"
    )
    parser.add_argument(
        "-d", "--date", type=time_ns, metavar="TIME",
        help="ISO 8601 (local time without an offset) or @seconds since 1970, in place of now",
    )  # fmt: skip
    _finish(parser, "IMAGE:/PATH")


def _add_rm(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "rm", run_rm,
        summary="remove files, and directories with -r",
        examples=["pyexfat rm card.img:/a.jpg", "pyexfat rm -rf card.img:/DCIM card.img:/old"],
        keys=_PLACES,
    )  # fmt: skip
    parser.add_argument(
        "-r", "-R", "--recursive", action="store_true", help="directories and all in them"
    )
    parser.add_argument(
        "-f", "--force", action="store_true", help="no error for what does not exist"
    )
    _finish(parser, "IMAGE:/PATH")


def _add_mv(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "mv", run_mv,
        summary="rename or move within a volume",
        description="Rename or move within a volume. The last argument is the new name, or a "
        "directory to move into. From one volume to another: cp -r, then rm -r.",
        examples=[
            "pyexfat mv card.img:/DCIM/a.jpg card.img:/DCIM/b.jpg",
            "pyexfat mv card.img:/a.txt card.img:/b.txt card.img:/notes/",
        ],
        keys="a list of what was moved: image partition source destination",
    )  # fmt: skip
    parser.add_argument(
        "-n", "--no-clobber", action="store_true", help="leave existing files alone"
    )
    _finish(parser, "IMAGE:/PATH")


def _finish(parser: argparse.ArgumentParser, metavar: str) -> None:
    parser.add_argument("places", nargs="+", type=place, metavar=metavar)
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is done")
    add_writing(parser)


def _each(
    args: argparse.Namespace, verb: str, act: Callable[[Session, Volume, Place], bool]
) -> int:
    """Does ``act`` to each place; it returns whether there was something to do."""
    with Session(args, writes=args.places) as session:
        done: list[dict[str, Any]] = []
        for where in args.places:
            with session.attempt(where):
                if act(session, session.volume(where), where):
                    done.append(place_record(where))
                    if args.verbose and not args.json:
                        session.out.line(f"{verb} {visible(str(where))}")
        if args.json:
            session.out.json(done)
    return session.status


def run_mkdir(args: argparse.Namespace) -> int:
    """The command ``mkdir``."""

    def act(session: Session, volume: Volume, where: Place) -> bool:
        if args.parents:
            volume.makedirs(where.path, exist_ok=True)
        else:
            volume.mkdir(where.path)
        return True

    return _each(args, "made", act)


def run_rmdir(args: argparse.Namespace) -> int:
    """The command ``rmdir``."""

    def act(session: Session, volume: Volume, where: Place) -> bool:
        volume.rmdir(where.path)
        return True

    return _each(args, "removed", act)


def run_touch(args: argparse.Namespace) -> int:
    """The command ``touch``."""

    def act(session: Session, volume: Volume, where: Place) -> bool:
        if args.no_create and not volume.exists(where.path):
            return False
        volume.touch(where.path)
        if args.date is not None:
            volume.utime(where.path, ns=(args.date, args.date))
        return True

    return _each(args, "touched", act)


def run_rm(args: argparse.Namespace) -> int:
    """The command ``rm``."""

    def act(session: Session, volume: Volume, where: Place) -> bool:
        if not base_name(where.path):
            raise CommandError(str(where), "the root directory can't be removed")
        if posixpath.basename(where.path.rstrip("/")) in (".", ".."):
            raise CommandError(str(where), "is removed by its own name only")
        try:
            stat = volume.stat(where.path)
        except FileNotFoundError:
            if args.force:
                return False
            raise
        if not stat.is_dir:
            volume.unlink(where.path)
            return True
        if not args.recursive:
            raise CommandError(str(where), "is a directory (-r removes directories)")
        return remove(
            volume,
            where.path,
            lambda call, path, error: session.failed(replace(where, path=path), error),
        )

    return _each(args, "removed", act)


def run_mv(args: argparse.Namespace) -> int:
    """The command ``mv``."""
    *sources, target = args.places
    if not sources:
        raise UsageError("mv takes a source and a destination")
    with Session(args, writes=args.places) as session:
        for where in sources:
            if not session.same_volume(where, target):
                raise UsageError(
                    "mv works within one volume (cp -r, then rm -r goes between two)", str(where)
                )
        volume = session.volume(target)
        into = volume.isdir(target.path)
        if not into and len(sources) > 1:
            raise CommandError(str(target), "is not a directory")
        moved: list[dict[str, Any]] = []
        for where in sources:
            with session.attempt(where):
                new = _move(volume, where, target, into, args.no_clobber)
                if new is None:
                    continue
                moved.append(
                    {"image": where.image, "partition": where.partition}
                    | {"source": where.path, "destination": new}
                )
                if args.verbose and not args.json:
                    arrow = f"{where} -> {replace(where, path=new)}"
                    session.out.line(f"moved {visible(arrow)}")
        if args.json:
            session.out.json(moved)
    return session.status


def _move(volume: Volume, where: Place, target: Place, into: bool, no_clobber: bool) -> str | None:
    """Renames one; the new path, or None where something stands there already and must stay."""
    name = base_name(where.path)
    if not name:
        raise CommandError(str(where), "the root directory can't be moved")
    stat = volume.stat(where.path)
    new = target.path
    if not into and new.endswith("/") and not stat.is_dir:
        raise CommandError(str(target), "is not a directory")
    # A directory's own name in other case is a new name for it, not a directory to move into.
    if into and volume.stat(target.path).st_ino != stat.st_ino:
        new = join(target.path, name)
    if no_clobber and volume.exists(new) and volume.stat(new).st_ino != stat.st_ino:
        return None
    volume.replace(where.path, new)
    return new
