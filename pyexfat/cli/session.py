"""The volumes that one command has open, and the failures it has met so far."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

import pyexfat
from pyexfat import Device, Volume

from .errors import CommandError, UsageError, report
from .options import policy
from .places import Place
from .render import Output

Key = tuple[str, int | None]


class Session:
    """Opens each volume once, however many arguments lie in it, and closes all at the end.

    ``writes`` are the places that will be changed: their volumes are opened for writing at their
    first use. A failure of one argument is reported and remembered (``status``), and the others go
    on.
    """

    def __init__(self, args: argparse.Namespace, writes: list[Place] | None = None) -> None:
        self.out = Output()
        self.status = 0
        self.args = args
        self._writes = writes or []
        self._volumes: dict[Key, Volume] = {}
        self._devices: dict[str, Device] = {}
        self._numbers: dict[str, int | None] = {}
        try:
            self._policy = policy(getattr(args, "policy", []))
        except ValueError as error:
            raise UsageError(str(error)) from None
        self.image_files: set[tuple[object, ...]] = set()
        """Identities of the host files under the volumes, as ends.Status has them."""

    def volume(self, place: Place) -> Volume:
        """The open volume of a place.

        Raises CommandError that names the image.
        """
        key = self._key(place)
        if key not in self._volumes:
            writing = any(self._key(one) == key for one in self._writes)
            try:
                self._volumes[key] = self._open(place, writing)
            except (OSError, ValueError) as error:
                raise CommandError(place.volume_name, error) from error
        return self._volumes[key]

    def same_volume(self, one: Place, other: Place) -> bool:
        """Whether two places lie in the same volume, however it is called."""
        return self._key(one) == self._key(other)

    def _key(self, place: Place) -> Key:
        """The image and the number of the partition, also where it is the only one, left out."""
        path, number = os.path.realpath(place.image), place.partition
        if number is None and not self.args.offset:
            if path not in self._numbers:
                self._numbers[path] = self._only_partition(place)
            number = self._numbers[path]
        return path, number

    def _only_partition(self, place: Place) -> int | None:
        try:
            found = pyexfat.detect(self.device(place.image))
        except (OSError, ValueError) as error:
            raise CommandError(place.volume_name, error) from error
        return None if found is None else found.partition

    def _open(self, place: Place, writing: bool) -> Volume:
        options = self.args
        if not writing:
            return pyexfat.open(
                self.device(place.image),
                partition=place.partition,
                offset=options.offset,
                use_backup=getattr(options, "backup", False),
                tz=options.tz,
                codepage=options.codepage,
            )
        return pyexfat.open(
            self.device(place.image),
            "r+",
            partition=place.partition,
            offset=options.offset,
            sync=options.sync,
            policy=self._policy,
            tz=options.tz,
            codepage=options.codepage,
        )

    def device(self, image: str) -> Device:
        """The device of an image file, one for all of its partitions."""
        path = os.path.realpath(image)
        if path not in self._devices:
            writing = any(os.path.realpath(one.image) == path for one in self._writes)
            device = Device.file(image, writable=writing)
            self._devices[path] = device
            status = os.stat(path)
            self.image_files.add(("host", status.st_dev, status.st_ino))
        return self._devices[path]

    @contextmanager
    def attempt(self, where: str | Place) -> Iterator[None]:
        """Reports a failure inside the block as one of ``where`` and goes on after it."""
        try:
            yield
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except (CommandError, OSError, ValueError) as error:
            self.failed(where, error)

    def failed(self, where: str | Place, error: BaseException) -> None:
        """Reports a failure."""
        report(error, str(where))
        self.status = max(self.status, error.status if isinstance(error, CommandError) else 1)

    def failed_in(self, top: Place) -> Callable[[str, OSError], None]:
        """A call-back for walks of a volume, that takes a path in it."""
        return lambda path, error: self.failed(replace(top, path=path), error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for (image, number), volume in self._volumes.items():
            with self.attempt(Place(image, number, "/").volume_name):
                volume.close()
        for path, device in self._devices.items():
            with self.attempt(path):
                device.close()
