"""Exceptions that pyexfat adds to OSError's own tree."""

from __future__ import annotations

import io
from typing import NamedTuple

__all__ = ["CorruptImageError", "ImageError", "UnsupportedFeatureError", "Where"]


class Where(NamedTuple):
    """The place of a damage and what is wrong there."""

    structure: str
    """What is damaged: "allocation bitmap", "entry set", …"""
    offset: int
    """Bytes from the start of the volume."""
    field: str
    """The field's name in the specification."""
    found: int
    expected: int
    """The right value; 0 where a range is right, see detail."""
    detail: str
    """One sentence."""


class ImageError(OSError):
    """Something about the image, not about the call: see the subclasses."""


class CorruptImageError(ImageError):
    """A structure on the disk breaks a rule of its format (errno EUCLEAN)."""

    where: Where | None = None
    """The place; None only when the exception was not made by pyexfat."""


class UnsupportedFeatureError(ImageError, io.UnsupportedOperation):
    """The image is valid, but uses what pyexfat does not have (errno EOPNOTSUPP)."""

    feature: str = ""
    """Name of the feature."""
