"""format, open, detect and partitions: from what a person points at to a volume."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from uuid import UUID

from . import _core
from ._arguments import policy_mapping
from ._codepage import CodePage, codepage_table
from ._records import Partition
from ._target import Target, borrowed, naming, open_target
from ._zone import TimeZone, Zone, local_zone, zone_of
from .env import epoch_from_environment, repeatable_env
from .fat import FatOptions, partition_type
from .path import Path
from .sizes import Size, format_size, parse_size
from .volume import Volume

if TYPE_CHECKING:
    from .policy import Policy

SyncMode = Literal["lazy", "dirsync", "sync"]
Scheme = Literal["mbr", "gpt"]

_SECTOR_MOST = 4096  # of a device; FAT's own may be larger
_PARTITION_TYPE = 446 + 4  # of the first entry of an MBR


class Detected(NamedTuple):
    """A file system that was found on a device."""

    fs: str
    """``"exfat"``, ``"fat12"``, ``"fat16"``, ``"fat32"``, ``"xfs"``."""
    offset: int
    """Where it starts, in bytes from the start of the target."""
    length: int
    """Bytes that there are for it: of the partition, or to the end of the target."""
    size: int
    """Bytes, as the file system itself says."""
    label: str
    serial: int | None
    uuid: UUID | None
    partition: int | None
    """Number of the partition that it is in, None without one."""
    damaged: bool
    """The main boot region is not as it should be."""


# ---- detect and partitions ----


def detect(target: Any, *, sector_size: int = 0) -> Detected | None:
    """Which file system is there: at the start of the target, or in the first partition with one.

    Reads at most 64 KiB for each place it looks at and writes nothing; None when nothing is known
    there. Targets are those of open(). Raises OSError when the target can't be read.
    """
    with borrowed(target, sector_size) as device:
        return next(_find(device), None)


def _find(device: _core.Device) -> Iterator[Detected]:
    """The file system at the start of the device, or else those in its partitions."""
    found = _core.detect(device)
    if found is not None:
        yield _detected(found, 0, device.size, None)
        return
    for partition in _core.partitions(device).partitions:
        length = min(partition.length, device.size - partition.offset)
        if length <= 0:
            continue
        with device.slice(partition.offset, length) as part:
            found = _core.detect(part)
        if found is not None:
            yield _detected(found, partition.offset, length, partition.number)


def _detected(found: Any, offset: int, length: int, partition: int | None) -> Detected:
    return Detected(
        fs=found.fs,
        offset=offset,
        length=length,
        size=found.size,
        label=found.label,
        serial=found.serial,
        uuid=None if found.uuid is None else UUID(bytes=found.uuid),
        partition=partition,
        damaged=found.damaged,
    )


def partitions(target: Any, *, sector_size: int = 0) -> list[Partition]:
    """The partitions of an MBR (logical ones too) or GPT; an empty list without a table.

    Raises CorruptImageError for a table that breaks the rules, and OSError when the target can't be
    read.
    """
    with borrowed(target, sector_size) as device:
        return list(_core.partitions(device).partitions)


def _partition(device: _core.Device, number: int) -> Partition:
    """The partition of that number. ValueError when there is none."""
    found = _core.partitions(device).partitions
    for partition in found:
        if partition.number == number:
            return partition
    have = ", ".join(str(partition.number) for partition in found) or "none"
    raise ValueError(f"partition {number!r} does not exist (there are: {have})")


# ---- open ----


def open(
    target: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    fs: str | None = None,
    partition: int | None = None,
    offset: Size = 0,
    length: Size | None = None,
    sector_size: int = 0,
    sync: SyncMode = "lazy",
    policy: Policy | Mapping[str, Any] | None = None,
    env: _core.Env | None = None,
    pool: _core.Pool | None = None,
    tz: TimeZone | None = None,
    utc_offset: int | None = None,
    codepage: CodePage | None = None,
    use_backup: bool = False,
) -> Volume:
    """Opens a volume to read (``"r"``, which never writes a byte) or to change (``"r+"``).

    target: a path of an image or a block device; a bytes object, bytearray, memoryview or mmap (the
    buffer itself is read and changed); a seekable binary file object; a Device; or a Path, for an
    image inside a volume.

    fs: the file system; None finds out. partition: its number; None means the whole target, or the
    only partition with a file system that is known. offset, length: where the volume lies, for
    targets without a table. sector_size: of the device, 0 for its own. sync: "lazy" writes at
    sync() and close(), "dirsync" makes changes of directories durable at once, "sync" all changes.
    use_backup: read-only, by the backup boot region. pool: a memory budget over many volumes.

    tz: the zone of times that are local (all of FAT's, where the default is the system's zone), and
    the offset that is written beside new times in exFAT (default: UTC), which goes to the nearest
    quarter of an hour without changing the time. "utc", "local", "+05:30", minutes, "Europe/Berlin"
    or a tzinfo object. utc_offset: minutes east of UTC, instead. codepage: of FAT's short names and
    label, 437 by default: a number or the name of one of Python's codecs of one or two bytes.

    Raises OSError (FileNotFoundError; EBUSY when the image is open for writing elsewhere),
    ImageError when there is no volume, CorruptImageError, UnsupportedFeatureError, and ValueError
    or TypeError for a bad argument.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"mode must be 'r' or 'r+', not {mode!r}")
    start, count = parse_size(offset, "offset"), _optional(length, "length")
    if partition is not None and (start or count is not None):
        raise ValueError("partition can't be given together with offset or length")
    writable = mode == "r+"
    opened = open_target(target, writable, sector_size)
    try:
        with naming(target):
            device = _locate(opened, fs, partition, start, count)
            return Volume(
                device,
                fs=fs,
                writable=writable,
                use_backup=use_backup,
                sync=sync,
                policy=policy,
                env=env,
                pool=pool,
                tz=tz,
                utc_offset=utc_offset,
                codepage=codepage,
                owned=opened.owned,
                image=opened.image,
            )
    except BaseException:
        opened.close()
        raise


def _optional(value: Size | None, argument: str) -> int | None:
    return None if value is None else parse_size(value, argument)


def _locate(
    opened: Target, fs: str | None, partition: int | None, offset: int, length: int | None
) -> _core.Device:
    """The device of the volume that is meant."""
    if partition is not None:
        found = _partition(opened.whole, partition)
        return opened.part(found.offset, found.length)
    if offset or length is not None:
        return opened.part(offset, length)
    if fs is not None or _core.detect(opened.whole) is not None:
        return opened.whole
    volumes = list(_find(opened.whole))
    if len(volumes) > 1:
        choice = ", ".join(f"{one.partition} ({one.fs})" for one in volumes)
        raise ValueError(f"partition must be given, as there are several: {choice}")
    if volumes:
        return opened.part(volumes[0].offset, volumes[0].length)
    return opened.whole  # mounting says what is wrong with it


# ---- format ----


def format(
    target: Any,
    fs: str = "exfat",
    *,
    size: Size | None = None,
    label: str = "",
    serial: int | None = None,
    uuid: UUID | bytes | str | None = None,
    cluster_size: Size | None = None,
    sector_size: Size = 0,
    alignment: Size | None = None,
    fats: int = 0,
    pack_bitmap: bool = False,
    full: bool = False,
    partition_table: Scheme | None = None,
    partition: int | None = None,
    offset: Size = 0,
    length: Size | None = None,
    populate: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, str], object] | None = None,
    env: _core.Env | None = None,
    sync: SyncMode = "lazy",
    policy: Policy | Mapping[str, Any] | None = None,
    pool: _core.Pool | None = None,
    tz: TimeZone | None = None,
    utc_offset: int | None = None,
    codepage: CodePage | None = None,
    fat: FatOptions | Mapping[str, Any] | None = None,
) -> Volume:
    """Makes a new, empty file system and returns it opened to be changed.

    What was there is lost. target: as for open(), but it must be writable; an image file is made
    when ``size`` is given.

    fs: "exfat", "fat12", "fat16", "fat32", or "fat" for what fits the size best. fat: a FatOptions
    or a mapping like it, of what only FAT has.

    size: bytes of the image (``"64 MiB"``). A file gets this size and loses its content, unless
    only a part of it is formatted; without it an existing file keeps its size. label: at most 11
    UTF-16 units (FAT: bytes in the code page). serial: 32 bits, random if None. uuid: the volume's
    GUID, none if None. cluster_size: None chooses by the size of the volume. sector_size: 512 to
    4096 (FAT: to 32,768). alignment: of the FAT and the heap; of FAT's heap alone, where one sector
    stands for none. fats: 1, or 2 for TexFAT (FAT: 1 to 4, by default 2). pack_bitmap: bitmap right
    behind the FAT, in front of the heap's alignment. full: writes zeros over everything.

    partition_table: "mbr" or "gpt" makes a table with one partition and formats that; partition
    formats one that there is; offset and length format a part of the target. populate: a directory
    whose content is copied in, in sorted order, with all times from its mtimes. progress: called
    with (done, total, what).

    env: clock and random numbers; with the same Env and arguments the image is the same bit for
    bit. Without one the environment variable SOURCE_DATE_EPOCH makes it so: it is the time of the
    image and the latest of its files' times, and the time zone is UTC unless another is given.

    tz, utc_offset, codepage: as for open(), also of the times and the label that are written now.

    Raises ValueError that names the argument that can't be, FileNotFoundError, OSError (EBUSY,
    ENOSPC …).
    """
    if not isinstance(fs, str):
        raise TypeError(f"fs must be a str, not {type(fs).__name__}")
    epoch = None
    if env is None:
        epoch = epoch_from_environment()
        env = None if epoch is None else repeatable_env(epoch)
        if epoch is not None and tz is None and utc_offset is None:
            tz = "utc"
    zone, table = _zone(fs, tz, utc_offset), codepage_table(codepage)
    start, count = parse_size(offset, "offset"), _optional(length, "length")
    wanted = _optional(size, "size")
    if partition_table not in (None, "mbr", "gpt"):
        raise ValueError(f"partition_table must be None, 'mbr' or 'gpt', not {partition_table!r}")
    places = (partition_table is not None) + (partition is not None) + bool(start or count)
    if places > 1:
        raise ValueError("only one of partition_table, partition and offset can be given")
    options = None if fat is None else FatOptions.of(fat).as_dict()
    geometry = {
        "sector_size": parse_size(sector_size, "sector_size"),
        "cluster_size": _optional(cluster_size, "cluster_size") or 0,
        "alignment": _optional(alignment, "alignment") or 0,
    }
    arguments: dict[str, Any] = {
        "fs": fs,
        "label": label,
        "serial": serial,
        "uuid": _uuid_bytes(uuid),
        "fats": fats,
        "pack_bitmap": pack_bitmap,
        "utc_offset": utc_offset,
        "zone": zone,
        "codepage": table,
        "fat": options,
        **geometry,
    }
    _check_the_rest(sync, policy, pool, env, progress)
    if populate is not None:
        _check_directory(populate)
    whole = partition is None and not start and count is None
    with naming(target), ExitStack() as undo:
        unit = geometry["sector_size"]
        opened = _make_target(target, wanted, unit if unit <= _SECTOR_MOST else 0, whole, undo)
        _rehearse(opened, wanted, partition_table, partition, start, count, arguments)
        if wanted is not None:
            _bring_to_size(opened, target, wanted, whole)
        device, place = _place(opened, partition_table, partition, start, count, env)
        _core.format(
            device,
            partition_offset=place,
            full=full,
            env=env,
            progress=None if progress is None else _formatting(progress),
            **arguments,
        )
        if partition_table == "mbr" and fs.startswith("fat"):
            _set_partition_type(opened.whole, device)
        volume = Volume(
            device,
            fs=fs,
            writable=True,
            sync=sync,
            policy=policy,
            env=env,
            pool=pool,
            tz=tz,
            utc_offset=utc_offset,
            codepage=codepage,
            owned=opened.owned,
            image=opened.image,
        )
        if populate is not None:
            undo.callback(volume.abandon)
            _populate(volume, populate, epoch, progress)
        undo.pop_all()
        return volume


def _set_partition_type(disk: _core.Device, volume: _core.Device) -> None:
    """Tells in the new MBR which width the FAT of its only partition has got."""
    found = _core.detect(volume)
    if found is None:
        return
    sector = bytearray(disk.pread(disk.sector_size, 0))
    sector[_PARTITION_TYPE] = partition_type(found.fs, found.size // disk.sector_size)
    disk.pwrite(sector, 0)
    disk.flush()


def _zone(fs: str, tz: TimeZone | None, utc_offset: int | None) -> Zone | None:
    """The zone in which format() writes times; ValueError before anything is written."""
    if utc_offset is not None:
        if tz is not None:
            raise ValueError("only one of tz and utc_offset can be given")
        if abs(utc_offset) >= 24 * 60:
            raise ValueError(f"utc_offset must be less than a day, not {utc_offset} minutes")
        return None
    if tz is not None:
        return zone_of(tz)
    return local_zone() if fs.startswith("fat") else None


def _formatting(progress: Callable[[int, int, str], object]) -> Callable[[int, int], object]:
    return lambda done, total: progress(done, total, "format")


def _check_directory(path: str | os.PathLike[str]) -> None:
    if not stat.S_ISDIR(os.stat(os.fspath(path)).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))


def _check_the_rest(sync: object, policy: Any, pool: object, env: object, progress: object) -> None:
    """What format() hands on must not come to light when all is written."""
    if sync not in get_args(SyncMode):
        raise ValueError(f"sync must be one of {', '.join(get_args(SyncMode))}, not {sync!r}")
    for name, value, kind in (("pool", pool, _core.Pool), ("env", env, _core.Env)):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be {kind.__name__} or None, not {type(value).__name__}")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be callable or None, not {type(progress).__name__}")
    policy_mapping(policy)


def _populate(
    volume: Volume,
    directory: str | os.PathLike[str],
    epoch: int | None,
    progress: Callable[[int, int, str], object] | None,
) -> None:
    from .copying import build_times, copy_into_volume

    copy_into_volume(volume, directory, "/", progress=progress, times_of=build_times(epoch))


def _uuid_bytes(value: UUID | bytes | str | None) -> bytes | None:
    """16 bytes. ValueError that names uuid for anything else."""
    if value is None:
        return None
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, str):
        try:
            return UUID(value).bytes
        except ValueError:
            raise ValueError(f"uuid is no UUID: {value!r}") from None
    if len(value) != 16:
        raise ValueError(f"uuid must have 16 bytes, not {len(value)}")
    return bytes(value)


def _make_target(
    target: Any, size: int | None, sector_size: int, whole: bool, undo: ExitStack
) -> Target:
    """The device to format, as it is; ``undo`` closes it and removes a new file."""
    is_path = isinstance(target, (str, os.PathLike)) and not isinstance(target, Path)
    new = is_path and not os.path.exists(target)
    if size == 0:
        raise ValueError("size must be more than 0")
    if new and size is None:
        raise ValueError(f"size must be given to make a new image: {os.fspath(target)!r}")
    if new and not whole:
        raise ValueError("partition, offset and length need an image that exists")
    opened = open_target(target, True, sector_size, create=new)
    if new:
        undo.callback(os.unlink, target)
    undo.callback(opened.close)
    device = opened.whole
    if size is not None and device.is_block and device.size != size:
        have = format_size(device.size)
        raise ValueError(f"size can't be chosen for a block device (it has {have}; see length)")
    return opened


def _rehearse(
    opened: Target,
    size: int | None,
    scheme: Scheme | None,
    number: int | None,
    offset: int,
    length: int | None,
    arguments: dict[str, Any],
) -> None:
    """Raises what is wrong with the arguments, as long as nothing is changed.

    The device that there will be is played by one of memory, which takes none.
    """
    if number is not None:
        found = _partition(opened.whole, number)
        with opened.whole.slice(found.offset, found.length) as part:
            _core.format(part, partition_offset=found.offset, rehearse=True, **arguments)
        return
    sector = opened.whole.sector_size
    if size is not None and size % sector:
        raise ValueError(f"size must be a multiple of {sector} bytes")
    if size is None or offset or length is not None:
        size = max(size or 0, opened.whole.size)
    played = Target(_core.Device.memory(size, sector), True, None)
    try:
        device, place = _place(played, scheme, None, offset, length, None)
        _core.format(device, partition_offset=place, rehearse=True, **arguments)
    finally:
        played.close()


def _bring_to_size(opened: Target, target: Any, size: int, whole: bool) -> None:
    device = opened.whole
    if isinstance(target, (str, os.PathLike)) and not isinstance(target, Path):
        if not device.is_block:
            if whole and device.size:
                device.resize(0)  # so that nothing of the old content stays
            if whole or device.size < size:
                device.resize(size)
    elif device.size != size:
        device.resize(size)


def _place(
    opened: Target,
    scheme: Scheme | None,
    number: int | None,
    offset: int,
    length: int | None,
    env: _core.Env | None,
) -> tuple[_core.Device, int]:
    """The device of the new volume, and where it starts in the target."""
    if scheme is not None:
        start, count = _core.write_partition_table(opened.whole, scheme, env=env)
        return opened.part(start, count), start
    if number is not None:
        found = _partition(opened.whole, number)
        return opened.part(found.offset, found.length), found.offset
    return opened.part(offset, length), offset
