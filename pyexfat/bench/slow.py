"""A card that is slower than this machine: each operation costs time, by a clock or by waiting.

The model is the simplest that tells the mechanisms apart: so much for each command, so much for
each byte, and so much for a flush. By the clock, a run takes no longer than on the device below,
and its seconds are those of the processor plus those that the card would have taken.
"""

from __future__ import annotations

import io
import os
import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pyexfat import Device

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class Card:
    """What a card takes, in seconds: for each read, write and flush, and for each byte of them."""

    name: str
    read: float
    write: float
    flush: float
    read_byte: float
    write_byte: float


CARDS = {
    "class4": Card("class4", 0.0006, 0.0012, 0.0040, 1 / 15e6, 1 / 4e6),
    "class10": Card("class10", 0.0004, 0.0006, 0.0022, 1 / 40e6, 1 / 10e6),
    "usb": Card("usb", 0.0002, 0.0002, 0.0010, 1 / 100e6, 1 / 40e6),
    "ssd": Card("ssd", 0.0001, 0.0001, 0.0007, 1 / 500e6, 1 / 400e6),
}
"""Models by name. They are rounded guesses at such hardware, and not measured from one piece; the
"ssd" takes 1.8 ms for two times two writes and a flush, as table 3 took for each cluster before."""


def parse_card(text: str) -> Card:
    """``"class10"``, or a model with changes in milliseconds: ``"class4,flush=8,write=2"``.

    Raises ValueError for a model or a cost that does not exist.
    """
    name, *changes = text.split(",")
    if name not in CARDS:
        raise ValueError(f"no card {name!r}: there are {', '.join(CARDS)}")
    card = CARDS[name]
    values: dict[str, Any] = {one.name: getattr(card, one.name) for one in fields(card)}
    for change in changes:
        key, equals, number = change.partition("=")
        if not equals or key not in ("read", "write", "flush"):
            raise ValueError(f"a cost is read=, write= or flush= with milliseconds, not {change!r}")
        values[key] = float(number) / 1000
        if not 0 <= values[key] < 60:
            raise ValueError(f"no cost of a card: {change!r}")
    values["name"] = text
    return Card(**values)


@dataclass
class Clock:
    """The time that a card has taken so far; with ``sleeps`` it is really spent."""

    sleeps: bool = False
    seconds: float = field(default=0.0)

    def spend(self, seconds: float) -> None:
        """Adds to the time."""
        if self.sleeps:
            time.sleep(seconds)
        else:
            self.seconds += seconds


class SlowFile(io.RawIOBase):
    """A file object over a device, for Device.wrap(), that charges a clock what a card costs."""

    def __init__(self, device: Device, card: Card, clock: Clock) -> None:
        """Takes nothing over: the device is closed by whoever opened it."""
        super().__init__()
        self._device = device
        self._card = card
        self._clock = clock
        self._position = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """Whether the device is."""
        return not self._device.readonly

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """As io does."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._device.size}
        self._position = base[whence] + offset
        return self._position

    def tell(self) -> int:
        """The position, in bytes."""
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Reads from the position on."""
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._device.size - self._position))
        view[:length] = self._device.pread(length, self._position)
        self._clock.spend(self._card.read + length * self._card.read_byte)
        self._position += length
        return length

    def write(self, data: Buffer, /) -> int:
        """Writes at the position."""
        length = self._device.pwrite(data, self._position)
        self._clock.spend(self._card.write + length * self._card.write_byte)
        self._position += length
        return length

    def flush(self) -> None:
        """Makes durable what was written."""
        if self.closed:
            return
        self._device.flush()
        self._clock.spend(self._card.flush)
