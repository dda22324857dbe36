"""The C core as Python sees it: low level, one call one C function. People use pyexfat's classes.

Paths are str with '/' between the parts, or objects that have one; lone surrogates are kept. Times
are nanoseconds since 1970 UTC; sizes and offsets are bytes.

Errors, everywhere: OSError with errno and path (FileNotFoundError and the rest by themselves),
CorruptImageError, UnsupportedFeatureError, ValueError for a bad argument and for a closed object,
MemoryError. What a Python file object, clock or progress function raises comes out as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, final, overload

from typing_extensions import Buffer, disjoint_base

from pyexfat._records import Detected, Extent, LogEntry, PartitionTable, Usage
from pyexfat._types import PathArgument

_Sync: TypeAlias = Literal["lazy", "dirsync", "sync"]
# (second since 1970 UTC, minutes east from then on); the first one's offset holds before it too.
_Zone: TypeAlias = Iterable[tuple[int, int]]
_Op: TypeAlias = Literal["read", "write", "flush", "discard"]
_Scheme: TypeAlias = Literal["mbr", "gpt"]

# Flags of Volume.open_file.
OPEN_READ: Final = 1
OPEN_WRITE: Final = 2
OPEN_CREATE: Final = 4
OPEN_EXCLUSIVE: Final = 8  # with OPEN_CREATE: FileExistsError when it exists
OPEN_TRUNCATE: Final = 16
OPEN_APPEND: Final = 32  # every write goes to the end

# Attribute bits (exFAT specification 7.4.4); the first three and ARCHIVE can be set.
ATTR_READ_ONLY: Final = 0x01
ATTR_HIDDEN: Final = 0x02
ATTR_SYSTEM: Final = 0x04
ATTR_DIRECTORY: Final = 0x10
ATTR_ARCHIVE: Final = 0x20

# Results of Volume.kind.
KIND_NONE: Final = 0
KIND_FILE: Final = 1
KIND_DIRECTORY: Final = 2

STRUCTURES: Final[tuple[str, ...]]  # names of what a write can hold, as in LogEntry.structure
FILE_SYSTEMS: Final[tuple[str, ...]]  # what mount and format know

@disjoint_base
class Device:
    """A row of sectors. Made by a class method, as an instance of the class it is called on.

    slice(), branch() and Recorder.at() return an instance of ``_device_class``, record() of
    ``_recorder_class``, faults() of ``_faults_class``; a subclass sets them to its own.
    """

    _device_class: ClassVar[type[Device]]
    _recorder_class: ClassVar[type[Recorder]]
    _faults_class: ClassVar[type[Faults]]

    @classmethod
    def memory(cls, size: int, sector_size: int = 512) -> Self: ...
    @classmethod
    def file(
        cls,
        path: str | bytes | PathLike[str] | PathLike[bytes],
        writable: bool = False,
        create: bool = False,
        sector_size: int = 0,  # 0: the block device's, 512 for a file
    ) -> Self: ...
    @classmethod
    def fd(cls, fd: int, writable: bool = False, sector_size: int = 0) -> Self: ...
    @classmethod
    def buffer(cls, obj: Buffer, writable: bool | None = None, sector_size: int = 512) -> Self: ...
    @classmethod
    def wrap(
        cls,
        fileobj: Any,
        writable: bool | None = None,  # None: ask it
        size: int | None = None,  # None: seek to its end
        sector_size: int = 512,
    ) -> Self: ...
    def slice(self, offset: int, length: int) -> Device: ...
    def branch(self) -> Device: ...
    def commit(self) -> None: ...  # a branch only: ValueError for others
    def rollback(self) -> None: ...  # a branch only
    def record(self) -> Recorder: ...
    def faults(self) -> Faults: ...
    def pread(self, length: int, offset: int, /) -> bytes: ...  # whole sectors
    def pwrite(self, data: Buffer, offset: int, /) -> int: ...
    def zero(self, offset: int, length: int, /) -> None: ...
    def flush(self) -> None: ...
    def discard(self, offset: int, length: int, /) -> None: ...
    def resize(self, size: int, /) -> None: ...
    def close(self) -> None: ...  # flushes; twice is fine
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def sector_size(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def kind(self) -> str: ...  # memory, file, buffer, object, slice, branch, recorder, faults
    @property
    def name(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def is_block(self) -> bool: ...  # a raw block device of the system
    @property
    def held(self) -> int: ...  # memory device: bytes really held; else 0
    @property
    def changed(self) -> int: ...  # branch: bytes held; else 0
    @property
    def parent(self) -> Device | None: ...  # the device it stands on
    @property
    def source(self) -> Any: ...  # the buffer or file object behind it, or None

class Recorder(Device):
    """Passes everything through and keeps an ordered log."""

    def __new__(cls, device: Device) -> Self: ...
    def __len__(self) -> int: ...
    def entry(self, index: int, /) -> LogEntry: ...
    def data(self, index: int, /) -> bytes: ...  # of a write; b"" for the rest
    def at(self, count: int, /) -> Device: ...  # as it was after the first `count` entries
    def clear(self) -> None: ...

class Faults(Device):
    """Fails, tears or drops operations by rules; the first rule that matches decides."""

    def __new__(cls, device: Device) -> Self: ...
    def add(
        self,
        ops: _Op | Iterable[_Op] = "write",
        nth: int = 0,  # 0: every matching operation
        times: int = 0,  # 0: one when nth is given, else for ever
        offset: int = 0,
        length: int = 0,  # 0: anywhere
        structure: str | None = None,  # one of STRUCTURES
        action: Literal["fail", "tear", "drop", "die"] = "fail",
        error: int = ...,  # errno, EIO
        keep: int = 0,  # tear: bytes that are stored
    ) -> None: ...
    def clear(self) -> None: ...
    def count(self, op: _Op, /) -> int: ...

@final
class Env:
    """Clock and random numbers: the system's, or with seed and a fixed clock repeatable ones."""

    def __new__(
        cls, seed: int | None = None, clock: int | Callable[[], int] | None = None, tick: int = 0
    ) -> Self: ...
    def now(self) -> int: ...
    def random(self, n: int, /) -> bytes: ...

@final
class Pool:
    """A memory budget over many volumes."""

    def __new__(cls, budget: int) -> Self: ...
    @property
    def budget(self) -> int: ...
    @budget.setter
    def budget(self, value: int, /) -> None: ...
    @property
    def held(self) -> int: ...
    @property
    def peak(self) -> int: ...

@final
class Stat:
    """What is known of one file or directory; the first ten items are os.stat_result's."""

    @property
    def st_mode(self) -> int: ...  # 0o644 / 0o755, without the write bits when read-only
    @property
    def st_ino(self) -> int: ...
    @property
    def st_dev(self) -> int: ...  # the volume's serial number
    @property
    def st_nlink(self) -> int: ...
    @property
    def st_uid(self) -> int: ...
    @property
    def st_gid(self) -> int: ...
    @property
    def st_rdev(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_atime(self) -> float: ...
    @property
    def st_mtime(self) -> float: ...
    @property
    def st_ctime(self) -> float: ...  # as st_mtime
    @property
    def st_birthtime(self) -> float: ...
    @property
    def st_atime_ns(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ctime_ns(self) -> int: ...
    @property
    def st_birthtime_ns(self) -> int: ...
    @property
    def st_blksize(self) -> int: ...  # cluster
    @property
    def st_blocks(self) -> int: ...  # of 512 bytes
    @property
    def st_file_attributes(self) -> int: ...  # stat.FILE_ATTRIBUTE_* bits
    @property
    def is_dir(self) -> bool: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def hidden(self) -> bool: ...
    @property
    def system(self) -> bool: ...
    @property
    def archive(self) -> bool: ...
    @property
    def valid_size(self) -> int: ...  # what follows reads as zeros (exFAT: ValidDataLength)
    @property
    def allocated(self) -> int: ...  # bytes of clusters
    @property
    def first_cluster(self) -> int: ...  # 0: none
    @property
    def contiguous(self) -> bool: ...  # NoFatChain
    @property
    def entry_offset(self) -> int: ...  # of its first directory entry; 0: none
    @property
    def entry_count(self) -> int: ...
    @property
    def created_offset(self) -> int | None: ...  # minutes east of UTC, None: the stamp has none
    @property
    def modified_offset(self) -> int | None: ...
    @property
    def accessed_offset(self) -> int | None: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[int, ...]: ...
    def __iter__(self) -> Iterator[int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @classmethod
    def _restore(cls, *fields: int) -> Self: ...  # from a pickle

@disjoint_base
class Volume:
    """An open volume. Dropping it without close() writes nothing more, as a power cut would."""

    def __init__(
        self,
        device: Device,
        *,
        fs: str | None = None,  # None: detect
        writable: bool = False,
        use_backup: bool = False,
        sync: _Sync = "lazy",
        policy: Mapping[str, Any] | None = None,  # keys as of get_policy()
        env: Env | None = None,
        pool: Pool | None = None,
        utc_offset: int | None = None,  # minutes: shorthand for a zone that never changes
        zone: _Zone | None = None,  # None: UTC, or local_zone() where times are local (FAT)
        local_zone: Callable[[], _Zone] | None = None,
        codepage: Buffer | None = None,  # struct volume_codepage; None: 437
    ) -> None: ...
    # ---- by path ----
    def stat(self, path: PathArgument, /) -> Stat: ...
    def kind(self, path: PathArgument, /) -> int: ...  # KIND_NONE also below a file
    def mkdir(self, path: PathArgument, /) -> None: ...
    def rmdir(self, path: PathArgument, /) -> None: ...
    def unlink(self, path: PathArgument, /) -> None: ...
    def rename(self, src: PathArgument, dst: PathArgument, noreplace: bool = False) -> None: ...
    def touch(self, path: PathArgument, exist_ok: bool = True) -> None: ...
    def setattr(
        self,
        path: PathArgument,
        *,
        created: int | None = None,
        modified: int | None = None,
        accessed: int | None = None,
        attributes: int | None = None,  # the settable ATTR_ bits, which replace the old ones
    ) -> None: ...
    def truncate(self, path: PathArgument, size: int) -> None: ...
    def fallocate(
        self, path: PathArgument, offset: int, length: int, keep_size: bool = False
    ) -> None: ...
    def extents(self, path: PathArgument, /) -> list[Extent]: ...
    def stored_name(self, path: PathArgument, /) -> str: ...  # as it is on the disk
    # Benign secondary entries (exFAT specification 7.8 and 7.9): 32 bytes, and what is in the
    # clusters; FirstCluster, DataLength and flags are made anew when written.
    def get_vendor_entries(self, path: PathArgument, /) -> list[tuple[bytes, bytes | None]]: ...
    def set_vendor_entries(
        self, path: PathArgument, entries: Iterable[tuple[Buffer, Buffer | None]], /
    ) -> None: ...
    def listdir(self, path: PathArgument, /) -> list[str]: ...  # disk order
    def scandir_batch(
        self, path: PathArgument, cursor: int, limit: int, /
    ) -> tuple[
        list[tuple[str, Stat]], int, bool, OSError | None
    ]: ...  # next cursor, no more, damage
    # OSError of these two has an attribute `done`: how many names went well before it.
    def create_many(self, directory: PathArgument, names: Iterable[str], /) -> int: ...
    def remove_many(self, directory: PathArgument, names: Iterable[str], /) -> int: ...
    def open_file(self, path: PathArgument, flags: int, /) -> Handle: ...
    # ---- the whole ----
    def statfs(self) -> Usage: ...
    def count_bad_clusters(self) -> int: ...  # reads the whole FAT
    def sync(self) -> None: ...
    def close(self) -> None: ...  # syncs, marks clean; twice is fine
    def abandon(self) -> None: ...  # ends without writing anything
    def trim(self, min_length: int = 0) -> int: ...  # bytes
    def get_counters(self) -> dict[str, Any]: ...  # "cache" and "names" are dicts
    def counters_reset(self) -> None: ...
    def shrink(self, bytes: int, /) -> int: ...  # memory given back
    def set_policy(self, policy: Mapping[str, Any], /) -> None: ...  # the rest stays
    def get_policy(self) -> dict[str, Any]: ...
    def set_sync(self, sync: _Sync, /) -> None: ...
    def read_raw(self, length: int, offset: int, /) -> bytes: ...  # as the caches see the volume
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    @property
    def label(self) -> str: ...
    @label.setter
    def label(self, value: str, /) -> None: ...
    @property
    def serial(self) -> int: ...
    @serial.setter
    def serial(self, value: int, /) -> None: ...
    @property
    def uuid_bytes(self) -> bytes | None: ...  # 16, as on the disk
    @property
    def memory_held(self) -> int: ...
    @property
    def sync_mode(self) -> str: ...
    @property
    def fs(self) -> str: ...
    @property
    def cluster_size(self) -> int: ...
    @property
    def sector_size(self) -> int: ...
    @property
    def size(self) -> int: ...  # bytes, as the boot sector says
    @property
    def readonly(self) -> bool: ...
    @property
    def was_dirty(self) -> bool: ...
    @property
    def media_failure(self) -> bool: ...
    @property
    def from_backup(self) -> bool: ...
    @property
    def utc_offset(self) -> int | None: ...  # None: it changes
    @property
    def zone(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def closed(self) -> bool: ...
    @property
    def device(self) -> Device: ...
    @property
    def env(self) -> Env | None: ...

@final
class Handle:
    """An open file, without a position. Made by Volume.open_file."""

    def pread(self, length: int, offset: int, /) -> bytes: ...  # shorter at the end of the file
    def preadinto(self, buffer: Buffer, offset: int, /) -> int: ...
    def pwrite(self, data: Buffer, offset: int, /) -> int: ...
    def append(self, data: Buffer, /) -> tuple[int, int]: ...  # (written, size after it)
    def resize(self, size: int, /) -> None: ...
    def allocate(self, offset: int, length: int, keep_size: bool = False) -> None: ...
    def stat(self) -> Stat: ...
    def size(self) -> int: ...  # of the file, now
    def setattr(
        self,
        *,
        created: int | None = None,
        modified: int | None = None,
        accessed: int | None = None,
        attributes: int | None = None,
    ) -> None: ...
    def extents(self) -> list[Extent]: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...  # twice is fine
    @property
    def closed(self) -> bool: ...
    @property
    def flags(self) -> int: ...
    @property
    def path(self) -> str: ...  # as it was given to open_file
    @property
    def volume(self) -> Volume: ...

def mount(
    device: Device,
    *,
    fs: str | None = None,
    writable: bool = False,
    use_backup: bool = False,
    sync: _Sync = "lazy",
    policy: Mapping[str, Any] | None = None,
    env: Env | None = None,
    pool: Pool | None = None,
    utc_offset: int | None = None,
    zone: _Zone | None = None,
    local_zone: Callable[[], _Zone] | None = None,
    codepage: Buffer | None = None,
) -> Volume: ...
def detect(device: Device, /) -> Detected | None: ...
def format(
    device: Device,
    *,
    fs: str = "exfat",
    size: int = 0,  # 0: to the end of the device
    sector_size: int = 0,  # 0: the device's
    cluster_size: int = 0,  # 0: the default for the size
    label: str = "",
    serial: int | None = None,
    uuid: Buffer | None = None,  # 16 bytes: write a Volume GUID entry
    partition_offset: int = 0,
    alignment: int = 0,
    fats: int = 0,
    pack_bitmap: bool = False,
    full: bool = False,
    env: Env | None = None,
    progress: Callable[[int, int], object] | None = None,  # (done, total) bytes, of a full format
    utc_offset: int | None = None,
    zone: _Zone | None = None,
    codepage: Buffer | None = None,
    fat: dict[str, Any] | None = None,  # as FatOptions.as_dict()
    rehearse: bool = False,  # says what is wrong, and writes nothing
) -> None: ...
def partitions(device: Device, /) -> PartitionTable: ...
def write_partition_table(
    device: Device,
    scheme: _Scheme,
    *,
    align: int = 1048576,
    mbr_type: int = 0x07,
    type_guid: Buffer | None = None,  # 16 bytes as on the disk; None: Microsoft basic data
    env: Env | None = None,
) -> tuple[int, int]: ...  # offset and length of the one partition
def default_policy() -> dict[str, Any]: ...
