"""Plain records that the core returns."""

from __future__ import annotations

from typing import NamedTuple


class Detected(NamedTuple):
    """A file system that was recognised at the start of a device."""

    fs: str
    """``"exfat"``, ``"fat12"``, ``"fat16"``, ``"fat32"``, ``"xfs"``."""
    size: int
    """Bytes, as the file system itself says."""
    serial: int | None
    label: str
    uuid: bytes | None
    """16 bytes, or None."""
    damaged: bool
    """The name fits but the checksum or geometry of the main boot region does not."""


class Partition(NamedTuple):
    """One entry of a partition table; offset and length are bytes from the start of the disk."""

    number: int
    """As Linux counts: 1 to 4 of an MBR, logical ones from 5; GPT slot + 1."""
    offset: int
    length: int
    type: int
    """Type byte of an MBR entry; 0 for GPT."""
    type_guid: bytes | None
    """16 bytes as on the disk (``uuid.UUID(bytes_le=…)``); None for MBR."""
    guid: bytes | None
    name: str
    bootable: bool


class PartitionTable(NamedTuple):
    """The partitions of a disk."""

    scheme: str | None
    """``"mbr"``, ``"gpt"``, or None when there is no table."""
    partitions: list[Partition]
    from_backup: bool
    """The primary GPT header was bad, and the backup was read."""
    disk_signature: int
    """32 bits of the MBR."""


class Extent(NamedTuple):
    """A piece of a file that lies in one piece on the volume; bytes."""

    file_offset: int
    device_offset: int
    """From the start of the volume."""
    length: int
    written: bool
    """False beyond ValidDataLength: reads as zeros, whatever is on the device."""


class Usage(NamedTuple):
    """Space of a volume; total, used and free are bytes of the cluster heap."""

    total: int
    used: int
    free: int
    cluster_size: int
    sector_size: int
    clusters: int
    free_clusters: int
    name_max: int
    """Longest name, in UTF-16 units."""


class LogEntry(NamedTuple):
    """One operation that a recorder saw."""

    kind: str
    """``"write"``, ``"zero"``, ``"discard"`` or ``"flush"``."""
    offset: int
    length: int
    op: int
    """Number of the call that caused it; 0 when it came from no volume."""
    structure: str
    """What was written: one of ``STRUCTURES``."""
    object: str | None
    """Path of the file or directory that it belongs to."""
    call: str | None
    """Name of the call."""
    path: str | None
    """Path that the call was given."""
