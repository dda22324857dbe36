"""What only FAT has to choose when a volume is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class FatOptions:
    """Options of FAT12, FAT16 and FAT32; None and 0 stand for what the size of the volume gives.

    The defaults are those of mkfs.fat, and so are the rules; numbers that can't be are refused by
    format() with a ValueError that names them.
    """

    reserved_sectors: int = 0
    """At least so many before the first FAT; rounded up to whole clusters. 32, or 1 for FAT12/16.
    """
    root_entries: int = 0
    """At least so many entries in the root directory of FAT12/16 (16 to 32,768)."""
    heads: int = 0
    """With sectors_per_track: the geometry that the boot sector tells."""
    sectors_per_track: int = 0
    hidden_sectors: int | None = None
    """Sectors before the volume on its disk."""
    backup_sector: int | None = None
    """Of FAT32's second boot sector; 0 for none."""
    media: int = 0
    """Media descriptor: 0xF0, or 0xF8 to 0xFF."""
    drive: int | None = None
    """BIOS drive number."""
    mbr: bool = False
    """A partition table in the boot sector itself, with one entry for the whole volume."""
    atari: bool = False
    """As Atari's GEMDOS has it."""
    oem_name: str | None = None
    """At most 8 characters of ASCII."""
    boot_message: str | None = None
    """What the boot code prints."""
    bad_blocks: Iterable[int] = ()
    """Numbers of blocks of 1 KiB whose clusters are marked bad."""

    @classmethod
    def of(cls, value: FatOptions | Mapping[str, Any]) -> FatOptions:
        """Options from themselves or a mapping. ValueError names one that does not exist."""
        if isinstance(value, FatOptions):
            return value
        known = {field.name for field in fields(cls)}
        for name in value:
            if name not in known:
                raise ValueError(
                    f"fat has no option {name!r}; there are {', '.join(sorted(known))}"
                )
        return cls(**value)

    def as_dict(self) -> dict[str, Any]:
        """What is not a default, as the core takes it."""
        result = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "bad_blocks":
                value = list(value)
            if value != field.default and value != []:
                result[field.name] = value
        return result


def partition_type(fs: str, sectors: int) -> int:
    """The type of an MBR partition for a FAT volume of so many sectors."""
    if fs == "fat32":
        return 0x0C
    if sectors >= 1 << 16:
        return 0x0E
    return 0x01 if fs == "fat12" else 0x04
