"""info, detect, label and df."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyexfat
from pyexfat import Detected, Device, Partition, Volume, _core
from pyexfat._text import visible
from pyexfat.sizes import format_size

from .errors import CommandError, UsageError
from .options import add_reading, add_writing, place
from .parser import Subparsers, command
from .places import Place
from .render import Cell
from .session import Session

VOLUME_KEYS = (
    "fs label serial uuid offset size sector_size cluster_size clusters free_clusters "
    "bad_clusters total used free dirty media_failure from_backup"
)
_DETECTED_KEYS = "image partition fs label serial uuid offset size damaged"


def add_parser(subparsers: Subparsers) -> None:
    """Declares the commands of this module."""
    parser = command(
        subparsers, "info", run_info,
        summary="show what an image holds: partitions and volumes",
        examples=[
            "pyexfat info card.img",
            "pyexfat info --json disk.img@2",
            "pyexfat info --backup damaged.img     # by the backup boot region",
        ],
        keys="a list, for each image: image size sector_size scheme partitions volumes;\n"
        "each partition: number offset length type name bootable fs label;\n"
        f"each volume: partition {VOLUME_KEYS}",
    )  # fmt: skip
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE")
    add_reading(parser)
    parser = command(
        subparsers, "detect", run_detect,
        summary="name the file systems of images and of their partitions",
        description="Name the file systems of images and of their partitions. Exits with 1 when an "
        "image has none that is known.",
        examples=["pyexfat detect card.img disk.img", "pyexfat detect --json /dev/sdb"],
        keys=f"a list of what was found: {_DETECTED_KEYS}",
    )  # fmt: skip
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE")
    parser = command(
        subparsers, "label", run_label,
        summary="show or set the label of a volume",
        examples=[
            "pyexfat label card.img",
            "pyexfat label card.img HOLIDAY",
            'pyexfat label card.img ""             # none',
        ],
        keys="image partition label",
    )  # fmt: skip
    parser.add_argument("place", type=place, metavar="IMAGE")
    parser.add_argument("label", nargs="?", help='the new label, "" for none')
    add_writing(parser, backup=True)
    parser = command(
        subparsers, "df", run_df,
        summary="show used and free space of volumes",
        examples=["pyexfat df -H card.img disk.img@2", "pyexfat df --json card.img"],
        keys="a list, for each volume: image partition label fs total used free used_percent\n"
        "cluster_size clusters free_clusters",
    )  # fmt: skip
    parser.add_argument("places", nargs="+", type=place, metavar="IMAGE")
    parser.add_argument("-H", "--human", action="store_true", help="sizes as 1.5 MiB")
    add_reading(parser)


def show_serial(serial: int | None) -> str | None:
    """A serial number as ``1234-ABCD``."""
    return None if serial is None else f"{serial >> 16:04X}-{serial & 0xFFFF:04X}"


def volume_record(volume: Volume, offset: int, *, any_bad: bool = True) -> dict[str, Any]:
    """The JSON record of a volume (VOLUME_KEYS) that starts at byte ``offset`` of its image.

    any_bad=False: it is known to have no bad clusters, for which the whole FAT would be read.
    """
    usage = volume.usage()
    return {
        "fs": volume.fs,
        "label": volume.label,
        "serial": show_serial(volume.serial),
        "uuid": None if volume.uuid is None else str(volume.uuid),
        "offset": offset,
        "size": volume.size,
        "sector_size": volume.sector_size,
        "cluster_size": volume.cluster_size,
        "clusters": usage.clusters,
        "free_clusters": usage.free_clusters,
        "bad_clusters": volume.count_bad_clusters() if any_bad else 0,
        "total": usage.total,
        "used": usage.used,
        "free": usage.free,
        "dirty": volume.was_dirty,
        "media_failure": volume.media_failure,
        "from_backup": volume.from_backup,
    }


def volume_fields(record: dict[str, Any]) -> Iterator[tuple[str, Cell]]:
    """A volume's record as lines for people."""
    yield "file system", record["fs"]
    yield "label", visible(record["label"]) or "none"
    yield "serial number", record["serial"]
    if record["uuid"]:
        yield "GUID", record["uuid"]
    yield "size", f"{record['size']} ({format_size(record['size'])}) at byte {record['offset']}"
    yield "sectors", format_size(record["sector_size"])
    yield "clusters", f"{record['clusters']} of {format_size(record['cluster_size'])}"
    yield "used", f"{record['used']} ({format_size(record['used'])}, {_percent(record)} %)"
    yield "free", f"{record['free']} ({format_size(record['free'])})"
    if record["bad_clusters"]:
        yield "bad clusters", (str(record["bad_clusters"]), "red")
    notes = {
        "dirty": "not closed properly the last time: it may need a check",
        "media_failure": "a failure of the medium was noted",
        "from_backup": "read by the backup boot region; the main one is damaged",
    }
    for key, note in notes.items():
        if record[key]:
            yield "note", (note, "yellow")


def _percent(record: dict[str, Any]) -> int:
    """Share that is used, rounded up as df does."""
    return -(-100 * int(record["used"]) // max(1, int(record["total"])))


def partition_at(device: _core.Device, number: int) -> Partition:
    """The partition of that number.

    Raises ValueError when there is none.
    """
    for partition in pyexfat.partitions(device):
        if partition.number == number:
            return partition
    raise ValueError(f"there is no partition {number}")


def volume_offset(device: Device, partition: int | None, offset: int) -> int:
    """Where in its image a volume starts that was opened with these arguments."""
    if partition is not None:
        return partition_at(device, partition).offset
    found = None if offset else pyexfat.detect(device)
    return offset if found is None else found.offset


def run_info(args: argparse.Namespace) -> int:
    """The command ``info``."""
    with Session(args) as session:
        records: list[dict[str, Any]] = []
        for number, where in enumerate(args.places):
            with session.attempt(where.image):
                record = _image_record(session, where)
                records.append(record)
                if not args.json:
                    if number:
                        session.out.line("")
                    _show_image(session, record)
        if args.json:
            session.out.json(records)
    return session.status


def _image_record(session: Session, where: Place) -> dict[str, Any]:
    device = session.device(where.image)
    record: dict[str, Any] = {
        "image": where.image,
        "size": device.size,
        "sector_size": device.sector_size,
        "scheme": None,
        "partitions": [],
        "volumes": [],
    }
    places = [where]
    if not session.args.offset and not _is_volume(device):
        table = _core.partitions(device)
        record["scheme"] = table.scheme
        record["partitions"] = [_partition_record(device, one) for one in table.partitions]
        if where.partition is None and table.partitions:
            places = [
                replace(where, partition=one["number"])
                for one in record["partitions"]
                if one["fs"] in _core.FILE_SYSTEMS
            ]
    for one in places:
        with session.attempt(one.volume_name):
            volume = session.volume(one)
            offset = volume_offset(device, one.partition, session.args.offset)
            record["volumes"].append({"partition": one.partition} | volume_record(volume, offset))
    return record


def _is_volume(device: Device) -> bool:
    """Whether a file system starts at the very beginning, where a table would be."""
    found = pyexfat.detect(device)
    return found is not None and found.partition is None


def _partition_record(device: Device, partition: Partition) -> dict[str, Any]:
    found = _detect_in(device, partition)
    kind = f"0x{partition.type:02x}"
    if partition.type_guid is not None:
        kind = str(UUID(bytes_le=partition.type_guid))
    return {
        "number": partition.number,
        "offset": partition.offset,
        "length": partition.length,
        "type": kind,
        "name": partition.name,
        "bootable": partition.bootable,
        "fs": None if found is None else found.fs,
        "label": None if found is None else found.label,
    }


def _detect_in(device: Device, partition: Partition) -> Detected | None:
    length = min(partition.length, device.size - partition.offset)
    if length <= 0:
        return None
    with device.slice(partition.offset, length) as part:
        return pyexfat.detect(part)


def _show_image(session: Session, record: dict[str, Any]) -> None:
    out = session.out
    size = record["size"]
    scheme = f", {record['scheme'].upper()} partition table" if record["scheme"] else ""
    name = visible(record["image"])
    out.line((name, "bold"), f": {size} bytes ({format_size(size)}){scheme}")
    if record["partitions"]:
        rows = [
            [str(one["number"]), str(one["offset"]), str(one["length"]), format_size(one["length"]),
             one["type"], one["fs"] or "?", visible(one["label"] or ""), visible(one["name"])]
            for one in record["partitions"]
        ]  # fmt: skip
        headings = ["#", "at byte", "bytes", "size", "type", "fs", "label", "name"]
        out.line("")
        out.table(headings, rows, right=range(4))
    for volume in record["volumes"]:
        out.line("")
        if volume["partition"] is not None:
            out.line((f"partition {volume['partition']}", "bold"))
        out.fields(volume_fields(volume))


def run_detect(args: argparse.Namespace) -> int:
    """The command ``detect``."""
    with Session(args) as session:
        records: list[dict[str, Any]] = []
        for where in args.places:
            with session.attempt(where.image):
                found = list(_detected(session.device(where.image), where))
                if not found:
                    raise CommandError(where.volume_name, "no file system that is known")
                records += found
                if not args.json:
                    for record in found:
                        _show_detected(session, record)
        if args.json:
            session.out.json(records)
    return session.status


def _detected(device: Device, where: Place) -> Iterator[dict[str, Any]]:
    """What is at the start of the image, or else in each partition."""
    if where.partition is None and _is_volume(device):
        yield _detected_record(where, pyexfat.detect(device), 0)
        return
    for one in pyexfat.partitions(device):
        found = _detect_in(device, one)
        if found is not None and where.partition in (None, one.number):
            yield _detected_record(replace(where, partition=one.number), found, one.offset)


def _detected_record(where: Place, found: Detected | None, offset: int) -> dict[str, Any]:
    assert found is not None
    return {
        "image": where.image,
        "partition": where.partition,
        "fs": found.fs,
        "label": found.label,
        "serial": show_serial(found.serial),
        "uuid": None if found.uuid is None else str(found.uuid),
        "offset": offset,
        "size": found.size,
        "damaged": found.damaged,
    }


def _show_detected(session: Session, record: dict[str, Any]) -> None:
    name = Place(record["image"], record["partition"], "/").volume_name
    parts = [record["fs"], format_size(record["size"])]
    parts += [f'label "{visible(record["label"])}"'] if record["label"] else []
    parts += [f"serial {record['serial']}"] if record["serial"] else []
    parts += [f"at byte {record['offset']}"] if record["offset"] else []
    parts += ["main boot region damaged"] if record["damaged"] else []
    session.out.line((visible(name), "bold"), ": ", ", ".join(parts))


def run_label(args: argparse.Namespace) -> int:
    """The command ``label``."""
    where: Place = args.place
    if args.backup and args.label is not None:
        raise UsageError("--backup is for reading: it can't set a label", where.volume_name)
    writes = [] if args.label is None else [where]
    with Session(args, writes=writes) as session:
        volume = session.volume(where)
        with session.attempt(where.volume_name):
            if args.label is not None:
                volume.label = args.label
            if args.json:
                place = {"image": where.image, "partition": where.partition}
                session.out.json(place | {"label": volume.label})
            elif args.label is None:
                session.out.line(visible(volume.label))
    return session.status


def run_df(args: argparse.Namespace) -> int:
    """The command ``df``."""
    with Session(args) as session:
        records: list[dict[str, Any]] = []
        for where in args.places:
            with session.attempt(where.volume_name):
                records.append(_usage_record(where, session.volume(where)))
        if args.json:
            session.out.json(records)
        elif records:
            _show_usage(session, records, args.human)
    return session.status


def _usage_record(where: Place, volume: Volume) -> dict[str, Any]:
    usage = volume.usage()
    record = {
        "image": where.image,
        "partition": where.partition,
        "label": volume.label,
        "fs": volume.fs,
        "total": usage.total,
        "used": usage.used,
        "free": usage.free,
        "cluster_size": usage.cluster_size,
        "clusters": usage.clusters,
        "free_clusters": usage.free_clusters,
    }
    return record | {"used_percent": _percent(record)}


def _show_usage(session: Session, records: list[dict[str, Any]], human: bool) -> None:
    show = format_size if human else str
    rows: list[list[Cell]] = [
        [
            visible(Place(one["image"], one["partition"], "/").volume_name),
            *(show(one[key]) for key in ("total", "used", "free")),
            (f"{one['used_percent']} %", "red" if one["used_percent"] >= 95 else ""),
            visible(one["label"]),
        ]
        for one in records
    ]
    headings = ["image", "total", "used", "free", "used", "label"]
    session.out.table(headings, rows, right=range(1, 5))
