"""Types of arguments."""

from __future__ import annotations

from os import PathLike
from typing import Protocol


class OnVolume(Protocol):
    """A place on a volume: a Path or a DirEntry."""

    def __vfspath__(self) -> str:
        """The path inside the volume."""
        ...


PathArgument = str | PathLike[str] | OnVolume
"""What every method of a volume takes for a path."""
