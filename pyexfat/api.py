"""format, open, detect and partitions: from what a person points at to a volume."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

from . import _core
from ._codepage import CodePage, codepage_table
from ._records import Partition
from ._zone import TimeZone, Zone, local_zone, zone_of
from .device import Device
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


# ---- from a target to a device ----


class _Target:
    """The device of one call, and what to close when the call fails or its volume is closed."""

    def __init__(self, whole: _core.Device, owned: bool, image: tuple[int, int] | None) -> None:
        self.whole = whole
        self.owned = [whole] if owned else []
        self.image = image

    def part(self, offset: int, length: int | None) -> _core.Device:
        """The device from ``offset`` on. ValueError names the argument when it is not all there."""
        size = self.whole.size
        if length is None:
            length = size - offset
        if offset == 0 and length == size:
            return self.whole
        if offset >= size:
            raise ValueError(f"offset {offset} is not inside the target ({size} bytes)")
        if length <= 0 or length > size - offset:
            raise ValueError(
                f"length {length} at offset {offset} is not inside the target ({size} bytes)"
            )
        sector = self.whole.sector_size
        for name, value in (("offset", offset), ("length", length)):
            if value % sector:
                raise ValueError(f"{name} {value} is no multiple of the sector size ({sector})")
        device = self.whole.slice(offset, length)
        self.owned.append(device)
        return device

    def close(self) -> None:
        """Closes what is ours."""
        for device in reversed(self.owned):
            device.close()


def _open_target(target: Any, writable: bool, sector_size: int, *, create: bool = False) -> _Target:
    """A device for anything that may be pointed at. TypeError for what it can't be."""
    if isinstance(target, _core.Device):
        return _Target(target, False, None)
    if isinstance(target, Path):
        stream = target.open("r+b" if writable else "rb")
        try:
            return _Target(_StreamDevice.of(stream, writable, sector_size), True, None)
        except BaseException:
            stream.close()
            raise
    if isinstance(target, (str, os.PathLike)):
        device = Device.file(target, writable, create, sector_size)
        try:
            status = os.stat(target)
        except OSError:
            return _Target(device, True, None)
        return _Target(device, True, (status.st_dev, status.st_ino))
    try:
        view = memoryview(target)
    except TypeError:
        pass
    else:
        with view:
            if writable and view.readonly:
                raise TypeError(f"a {type(target).__name__} can't be written to (open it with 'r')")
        return _Target(Device.buffer(target, writable, sector_size or 512), True, None)
    if hasattr(target, "read") and hasattr(target, "seek"):
        if writable and hasattr(target, "writable") and not target.writable():
            raise UnsupportedOperation("the target is a file that is not open for writing")
        return _Target(Device.wrap(target, writable, None, sector_size or 512), True, None)
    raise TypeError(
        "target must be a path, a buffer, a seekable binary file or a Device, "
        f"not {type(target).__name__}"
    )


class _StreamDevice(Device):
    """A device over a file of another volume, which is closed with it."""

    __slots__ = ()

    @classmethod
    def of(cls, stream: Any, writable: bool, sector_size: int) -> _StreamDevice:
        """Takes ``stream`` over."""
        return cls.wrap(stream, writable, None, sector_size or 512)

    def close(self) -> None:
        """Closes the device and the file."""
        stream = self.source
        super().close()
        if stream is not None:
            stream.close()


@contextmanager
def _naming(target: Any) -> Iterator[None]:
    """Adds the image's path to errors that have none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and isinstance(target, (str, os.PathLike)):
            error.filename = os.fspath(target)
        raise


@contextmanager
def _borrowed(target: Any, sector_size: int) -> Iterator[_core.Device]:
    """A device to look at for a moment; a file object's position is put back."""
    is_stream = not isinstance(target, (_core.Device, Path)) and hasattr(target, "tell")
    position = target.tell() if is_stream else None
    opened = _open_target(target, False, sector_size)
    try:
        with _naming(target):
            yield opened.whole
    finally:
        opened.close()
        if position is not None:
            target.seek(position)


# ---- detect and partitions ----


def detect(target: Any, *, sector_size: int = 0) -> Detected | None:
    """Which file system is there: at the start of the target, or in the first partition with one.

    Reads at most 64 KiB for each place it looks at and writes nothing; None when nothing is known
    there. Targets are those of open(). Raises OSError when the target can't be read.
    """
    with _borrowed(target, sector_size) as device:
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
    with _borrowed(target, sector_size) as device:
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
    opened = _open_target(target, writable, sector_size)
    try:
        with _naming(target):
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
    opened: _Target, fs: str | None, partition: int | None, offset: int, length: int | None
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
    whole = partition is None and not start and count is None
    with _naming(target), ExitStack() as undo:
        unit = geometry["sector_size"]
        opened = _make_target(target, wanted, unit if unit <= _SECTOR_MOST else 0, whole, undo)
        device, place = _place(opened, partition_table, partition, start, count, env)
        _core.format(
            device,
            fs=fs,
            label=label,
            serial=serial,
            uuid=_uuid_bytes(uuid),
            partition_offset=place,
            fats=fats,
            pack_bitmap=pack_bitmap,
            full=full,
            env=env,
            progress=None if progress is None else _formatting(progress),
            utc_offset=utc_offset,
            zone=zone,
            codepage=table,
            fat=options,
            **geometry,
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


def _populate(
    volume: Volume,
    directory: str | os.PathLike[str],
    epoch: int | None,
    progress: Callable[[int, int, str], object] | None,
) -> None:
    from .copying import build_times, copy_into_volume

    if not stat.S_ISDIR(os.stat(os.fspath(directory)).st_mode):
        code = errno.ENOTDIR
        raise NotADirectoryError(code, os.strerror(code), os.fspath(directory))
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
            raise ValueError(f"uuid is none: {value!r}") from None
    if len(value) != 16:
        raise ValueError(f"uuid must have 16 bytes, not {len(value)}")
    return bytes(value)


def _make_target(
    target: Any, size: int | None, sector_size: int, whole: bool, undo: ExitStack
) -> _Target:
    """The device to format, brought to its size; ``undo`` closes it and removes a new file."""
    is_path = isinstance(target, (str, os.PathLike)) and not isinstance(target, Path)
    new = is_path and not os.path.exists(target)
    if size == 0:
        raise ValueError("size must be more than 0")
    if new and size is None:
        raise ValueError(f"size must be given to make a new image: {os.fspath(target)!r}")
    if new and not whole:
        raise ValueError("partition, offset and length need an image that exists")
    opened = _open_target(target, True, sector_size, create=new)
    if new:
        undo.callback(os.unlink, target)
    undo.callback(opened.close)
    if size is None:
        return opened
    device = opened.whole
    if is_path and not device.is_block:
        if whole and not new:
            device.resize(0)  # so that nothing of the old content stays
        if whole or device.size < size:
            device.resize(size)
    elif device.size != size:
        if device.is_block:
            have = format_size(device.size)
            raise ValueError(f"size can't be chosen for a block device (it has {have}; see length)")
        device.resize(size)
    return opened


def _place(
    opened: _Target,
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
