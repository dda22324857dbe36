"""Where an argument of the command line points to: into an image, to the host, or to a standard
stream.

The rules, in this order:

- ``-`` is standard input or output (``./-`` is a file of that name);
- an argument that exists on the host as it stands is a host path;
- otherwise the first ``:/`` divides the image from the path inside it, and a trailing ``:`` means
  the root;
- ``image@2`` is partition 2 of the image, unless a file of the whole name exists;
- everything else is a host path; ``./a:b`` has no ``:/`` and is therefore one.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass

_PARTITION = re.compile(r"(?P<image>.+)@(?P<number>[1-9][0-9]{0,2})", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """A path inside the volume of an image; ``partition`` counts from 1, None: the whole image or
    its only one.
    """

    image: str
    partition: int | None
    path: str

    def __str__(self) -> str:
        number = "" if self.partition is None else f"@{self.partition}"
        return f"{self.image}{number}:{self.path}"

    @property
    def volume_name(self) -> str:
        """The image and partition without the path, for messages about the whole volume."""
        return self.image if self.partition is None else f"{self.image}@{self.partition}"

    def child(self, name: str) -> Place:
        """The place of ``name`` in this directory."""
        return Place(self.image, self.partition, posixpath.join(self.path, name))


@dataclass(frozen=True)
class HostPath:
    """A path of the host's file system."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class Stream:
    """Standard input as a source, standard output as a destination."""

    def __str__(self) -> str:
        return "-"


Location = Place | HostPath | Stream


def parse_location(text: str) -> Location:
    """Host path, place in an image, or stream: for the arguments of cp.

    Raises ValueError for an empty argument or an empty image name.
    """
    if not text:
        raise ValueError("an empty path")
    if text == "-":
        return Stream()
    if os.path.lexists(text):
        return HostPath(text)
    divided = _divide(text)
    return HostPath(text) if divided is None else _place(text, *divided)


def parse_place(text: str) -> Place:
    """A place in an image, for commands that work in images only: there ``disk.img`` alone means
    its root.

    Raises ValueError for an empty argument or an empty image name.
    """
    if not text:
        raise ValueError("an empty path")
    divided = None if os.path.lexists(text) else _divide(text)
    return _place(text, *(divided or (text, "/")))


def _divide(text: str) -> tuple[str, str] | None:
    image, found, rest = text.partition(":/")
    if found:
        return image, "/" + rest
    if text.endswith(":"):
        return text[:-1], "/"
    return None


def _place(text: str, image: str, path: str) -> Place:
    if not image:
        raise ValueError(f"no image before the colon: {text}")
    match = _PARTITION.fullmatch(image)
    if match is None or os.path.lexists(image):
        return Place(image, None, path)
    return Place(match["image"], int(match["number"]), path)


def base_name(path: str) -> str:
    """The last part of a path with ``/``, after ``.`` and ``..`` are resolved by name; "" for the
    root.
    """
    return posixpath.basename(posixpath.normpath("/" + path))
