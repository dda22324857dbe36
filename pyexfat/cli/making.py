"""format."""

from __future__ import annotations

import argparse
import os
from typing import Any
from uuid import UUID, uuid4

import pyexfat
from pyexfat import Device, Env, Volume
from pyexfat._text import visible
from pyexfat.env import epoch_from_environment
from pyexfat.fat import FatOptions
from pyexfat.sizes import format_size

from .describing import VOLUME_KEYS, partition_at, volume_record
from .errors import FAILURE, USAGE, CommandError, UsageError
from .options import add_regional, place, policy, size, time_ns
from .parser import Subparsers, command
from .places import Place
from .progress import Progress
from .render import Output

_EPOCH = 315532800 * 10**9  # 1980, where the time stamps of the format begin
_LOOK = 1 << 16  # bytes that must be zero in what counts as blank


def add_parser(subparsers: Subparsers) -> None:
    """Declares the commands of this module."""
    parser = command(
        subparsers, "format", run_format,
        summary="make an empty volume, or one filled from a directory",
        description="Make an exFAT or FAT volume: in a new file of --size, in an existing file or "
        "device, or in one partition (IMAGE@2). What holds data already is left alone without "
        "--force.",
        examples=[
            "pyexfat format card.img --size 64M --label CARD",
            "pyexfat format card.img --size 4G --from photos/ --partition-table mbr",
            "pyexfat format card.img --size 64M --from rootfs/ --reproducible",
            "pyexfat format boot.img --size 1440K --fs fat12 --label BOOT",
        ],
        keys=f"image partition {VOLUME_KEYS}",
    )  # fmt: skip
    parser.add_argument("place", type=place, metavar="IMAGE")
    parser.add_argument(
        "--fs", default="exfat", choices=("exfat", "fat", "fat12", "fat16", "fat32"),
        help="file system; fat takes the width that fits the size (default: exfat)",
    )  # fmt: skip
    parser.add_argument("-L", "--label", default="", help="volume label, at most 11 characters")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    _add_space(parser)
    _add_structure(parser)
    _add_fat(parser)
    _add_content(parser)


def _add_space(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where and how large")
    group.add_argument(
        "-s", "--size", type=size, metavar="SIZE", help="of the image, as 64M, 4GiB, 8GB"
    )
    group.add_argument(
        "--partition-table", choices=("none", "mbr", "gpt"), default="none",
        help="make a table with one partition for the volume (default: none)",
    )  # fmt: skip
    group.add_argument(
        "--offset",
        type=size,
        default=0,
        metavar="BYTES",
        help="where the volume begins in an existing image",
    )
    group.add_argument(
        "--length",
        type=size,
        metavar="BYTES",
        help="of the volume at --offset (default: to the end)",
    )


def _add_structure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("structure")
    group.add_argument(
        "-c",
        "--cluster-size",
        type=size,
        metavar="SIZE",
        help="512 to 32M (default: by the size of the volume)",
    )
    group.add_argument(
        "--sector-size",
        type=size,
        default=0,
        metavar="SIZE",
        help="512 to 4096, FAT to 32K (default: the device's)",
    )
    group.add_argument(
        "--align",
        type=size,
        metavar="SIZE",
        help="boundary for the FAT and the cluster heap (FAT: for the heap; one sector: none)",
    )
    group.add_argument(
        "--fats",
        type=int,
        choices=(1, 2, 3, 4),
        default=0,
        help="number of FATs (default: 1, where 2 is TexFAT; FAT: 2 of up to 4)",
    )
    group.add_argument(
        "--pack-bitmap", action="store_true", help="put the bitmap in front of the aligned heap"
    )
    group.add_argument(
        "--serial",
        type=_serial,
        metavar="XXXX-XXXX",
        help="serial number, 8 hexadecimal digits (default: random)",
    )
    group.add_argument("--uuid", metavar="UUID", help='volume GUID, or "random" (default: none)')
    group.add_argument("--full", action="store_true", help="write zeros over the whole volume")
    add_regional(group)


def _number(text: str) -> int:
    """A number, hexadecimal with 0x."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"no number: {text!r}") from None


def _geometry(text: str) -> tuple[int, int]:
    heads, slash, track = text.partition("/")
    if not slash or not heads.isdecimal() or not track.isdecimal():
        raise argparse.ArgumentTypeError(f"no geometry: {text!r} (write HEADS/SECTORS)")
    return int(heads), int(track)


def _add_fat(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("of FAT only (the defaults go by the size)")
    group.add_argument(
        "--reserved", type=int, default=0, metavar="SECTORS", help="at least so many before the FAT"
    )
    group.add_argument(
        "--root-entries", type=int, default=0, metavar="N",
        help="at least so many in the root directory of FAT12 and FAT16",
    )  # fmt: skip
    group.add_argument(
        "--geometry", type=_geometry, default=(0, 0), metavar="HEADS/SECTORS",
        help="that the boot sector tells",
    )  # fmt: skip
    group.add_argument("--hidden", type=int, metavar="SECTORS", help="before the volume")
    group.add_argument(
        "--backup-boot", type=int, metavar="SECTOR",
        help="where FAT32 has its second boot sector; 0 for none (default: 6)",
    )  # fmt: skip
    group.add_argument(
        "--media", type=_number, default=0, metavar="BYTE", help="0xF0, 0xF8 to 0xFF"
    )
    group.add_argument("--drive", type=_number, metavar="BYTE", help="BIOS drive number")
    group.add_argument(
        "--mbr-stub", action="store_true",
        help="a partition table in the boot sector, over the whole volume",
    )  # fmt: skip
    group.add_argument("--atari", action="store_true", help="as Atari's GEMDOS has it")
    group.add_argument("--oem-name", metavar="NAME", help="at most 8 characters")
    group.add_argument("--boot-message", metavar="FILE", help="what the boot code prints")
    group.add_argument(
        "--bad-blocks", metavar="FILE", help="numbers of bad blocks of 1 KiB, one in a line"
    )


def _fat(args: argparse.Namespace) -> FatOptions | None:
    """The options of FAT, None when none is given."""
    message = blocks = None
    if args.boot_message is not None:
        with open(args.boot_message, encoding="ascii", newline="") as file:
            message = file.read()
    if args.bad_blocks is not None:
        with open(args.bad_blocks, encoding="ascii") as file:
            blocks = [int(line) for line in file if line.strip()]
    options = FatOptions(
        reserved_sectors=args.reserved,
        root_entries=args.root_entries,
        heads=args.geometry[0],
        sectors_per_track=args.geometry[1],
        hidden_sectors=args.hidden,
        backup_sector=args.backup_boot,
        media=args.media,
        drive=args.drive,
        mbr=args.mbr_stub,
        atari=args.atari,
        oem_name=args.oem_name,
        boot_message=message,
        bad_blocks=blocks or (),
    )
    return options if options.as_dict() else None


def _add_content(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("content")
    group.add_argument(
        "--from",
        dest="populate",
        metavar="DIR",
        help="copy what is in this directory into the volume",
    )
    group.add_argument(
        "--reproducible", action="store_true",
        help="no chance and no clock: the same arguments and files make the same bytes "
        "(SOURCE_DATE_EPOCH alone does this, too)",
    )  # fmt: skip
    group.add_argument("--seed", type=int, metavar="N", help="start of the random numbers")
    group.add_argument(
        "--clock", type=time_ns, metavar="TIME", help="the time to write, ISO 8601 or @seconds"
    )
    group.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="as in other commands, for --from",
    )


def _serial(text: str) -> int:
    digits = text.replace("-", "").removeprefix("0x")
    if len(digits) != 8:
        raise argparse.ArgumentTypeError(f"no serial number: {text!r} (write 1234-ABCD)")
    return int(digits, 16)


def run_format(args: argparse.Namespace) -> int:
    """The command ``format``."""
    where: Place = args.place
    if where.path != "/":
        raise UsageError("names a path in a volume, not an image", str(where))
    if args.length is not None and not args.offset and where.partition is None:
        raise UsageError("--length goes with --offset")
    if args.size is None and not os.path.exists(where.image):
        raise UsageError("--size is needed to make a new image", where.image)
    env = _env(args)
    try:
        if not args.force and os.path.exists(where.image):
            _refuse_used(args, where)
        with (
            Progress("format", quiet=args.quiet) as progress,
            pyexfat.format(
                where.image,
                args.fs,
                size=args.size,
                label=args.label,
                serial=args.serial,
                uuid=_uuid(args.uuid, env),
                cluster_size=args.cluster_size,
                sector_size=args.sector_size,
                alignment=args.align,
                fats=args.fats,
                pack_bitmap=args.pack_bitmap,
                full=args.full,
                partition_table=None if args.partition_table == "none" else args.partition_table,
                partition=where.partition,
                offset=args.offset,
                length=args.length,
                populate=args.populate,
                progress=progress.call if progress.shown else None,
                env=env,
                policy=policy(args.policy),
                tz=_tz(args),
                codepage=args.codepage,
                fat=_fat(args),
            ) as volume,
        ):
            any_bad = args.bad_blocks is not None
            record = volume_record(volume, _offset(args, where, volume), any_bad=any_bad)
    except (OSError, ValueError) as error:
        wrong = isinstance(error, ValueError) and not isinstance(error, UnicodeError)
        about = _concerned(error, where, {args.populate, args.bad_blocks, args.boot_message})
        raise CommandError(about, error, USAGE if wrong else FAILURE) from error
    _tell(args, where, record)
    return 0


def _offset(args: argparse.Namespace, where: Place, volume: Volume) -> int:
    """Where in the image the new volume starts."""
    whole = volume.device if volume.device.parent is None else volume.device.parent
    if args.partition_table != "none":
        return pyexfat.partitions(whole)[0].offset
    if where.partition is not None:
        return partition_at(whole, where.partition).offset
    return int(args.offset)


def _tz(args: argparse.Namespace) -> str | None:
    """The time zone; None: the library's own choice."""
    return "utc" if args.tz is None and args.reproducible else args.tz


def _env(args: argparse.Namespace) -> Env | None:
    """Clock and random numbers that the options ask for; None: the library's own choice."""
    epoch = epoch_from_environment()
    seed, clock = args.seed, args.clock
    if args.reproducible or epoch is not None:
        if seed is None and clock is None and epoch is not None:
            return None  # the library repeats images for SOURCE_DATE_EPOCH
        seed = 0 if seed is None else seed
        clock = (_EPOCH if epoch is None else epoch) if clock is None else clock
    return None if seed is None and clock is None else Env(seed=seed, clock=clock)


def _uuid(text: str | None, env: Env | None) -> UUID | str | None:
    if text != "random":
        return text
    return uuid4() if env is None else UUID(bytes=env.random(16), version=4)


def _refuse_used(args: argparse.Namespace, where: Place) -> None:
    """Stops where data would be lost.

    Raises CommandError that says what there is.
    """
    with Device.file(where.image) as device:
        start = args.offset
        if where.partition is not None:
            start = partition_at(device, where.partition).offset
        whole = start == 0 and where.partition is None
        if start >= device.size:
            return
        with device.slice(start, device.size - start) as part:
            found = pyexfat.detect(part)
            blank = not any(part.pread(min(_LOOK, part.size // 512 * 512), 0))
        if found is not None and (whole or found.partition is None):
            label = f', label "{visible(found.label)}"' if found.label else ""
            place = "" if found.partition is None else f" in partition {found.partition}"
            what = f"holds {found.fs}{place}{label}"
        elif whole and pyexfat.partitions(device):
            what = "has a partition table"
        elif not blank:
            what = "holds data"
        else:
            return
        raise CommandError(where.volume_name, f"{what} (--force overwrites it)")


def _concerned(error: OSError | ValueError, where: Place, given: set[str | None]) -> str:
    """What a failure is about: a file of the host, or the image and the path in it."""
    name = getattr(error, "filename", None)
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    if not isinstance(name, str) or name == where.image:
        return where.volume_name
    if name in given or os.path.lexists(name):
        return name
    return str(Place(where.image, where.partition, name))


def _tell(args: argparse.Namespace, where: Place, record: dict[str, Any]) -> None:
    out = Output()
    if args.json:
        out.json({"image": where.image, "partition": where.partition} | record)
    elif not args.quiet:
        label = f', label "{visible(record["label"])}"' if record["label"] else ""
        place = f" at byte {record['offset']}" if record["offset"] else ""
        out.line(
            (visible(where.volume_name), "bold"),
            f": {record['fs']}, {format_size(record['size'])}{place}, "
            f"{record['clusters']} clusters of {format_size(record['cluster_size'])}, "
            f"serial {record['serial']}{label}",
        )
