"""exFAT and FAT volumes from Python: make, fill, read and change them, without mounting.

    import pyexfat as px

    with px.format("card.img", size="64 MiB", label="CARD", populate="photos") as vol:
        with vol.open("/notes.txt", "w") as f:
            f.write("hello")
    with px.open("card.img") as vol:
        print(vol.listdir("/"))

Names and meaning follow os, io and pathlib; see Volume, Path and Device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from ._core import Env, Pool, Stat
except ModuleNotFoundError as error:  # the source tree hides what is installed
    raise ImportError(
        "this is pyexfat's source tree, without its compiled core: start Python in another folder, "
        "or install with `pip install -e .`"
    ) from error
from ._counters import Counters
from ._errors import CorruptImageError, ImageError, UnsupportedFeatureError, Where
from ._records import Extent, LogEntry, Partition, Usage
from .device import Device, Faults, Recorder
from .entry import DirEntry
from .sizes import format_size, parse_size
from .volume import Volume

if TYPE_CHECKING:
    from .api import Detected, detect, format, open, partitions
    from .fat import FatOptions
    from .path import Path
    from .policy import Policy

__version__ = "0.1.0"

__all__ = [
    "CorruptImageError",
    "Counters",
    "Detected",
    "Device",
    "DirEntry",
    "Env",
    "Extent",
    "FatOptions",
    "Faults",
    "ImageError",
    "LogEntry",
    "Partition",
    "Path",
    "Policy",
    "Pool",
    "Recorder",
    "Stat",
    "UnsupportedFeatureError",
    "Usage",
    "Volume",
    "Where",
    "detect",
    "format",
    "format_size",
    "open",
    "parse_size",
    "partitions",
]

# Imported at its first use, since importing pyexfat should cost little.
_LATER = {
    "Detected": "api",
    "detect": "api",
    "format": "api",
    "open": "api",
    "partitions": "api",
    "FatOptions": "fat",
    "Path": "path",
    "Policy": "policy",
}


def __getattr__(name: str) -> Any:
    """Imports the module of a name at its first use."""
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, also those not imported yet."""
    return sorted({*globals(), *__all__})
