"""How far long work has come: a tqdm bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol, Self

DELAY = 0.3
"""Seconds of work before a bar appears."""


class Bar(Protocol):
    """The part of tqdm that is used."""

    n: float
    total: float | None

    def update(self, n: float = 1) -> bool | None: ...
    def refresh(self) -> bool | None: ...
    def set_description_str(self, desc: str | None = None, refresh: bool | None = True) -> None: ...
    def close(self) -> None: ...


def _make_bar(what: str, total: int | None) -> Bar | None:
    if not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    bar: Bar = tqdm(
        total=total, desc=what, unit="B", unit_scale=True, unit_divisor=1024, leave=False,
        file=sys.stderr, dynamic_ncols=True, delay=DELAY,
    )  # fmt: skip
    return bar


class Progress:
    """Progress in bytes of one command; ``shown`` tells whether anybody sees it (and totals are
    worth counting).
    """

    def __init__(self, what: str, *, quiet: bool = False, total: int | None = None) -> None:
        self._bar = None if quiet else _make_bar(what, total)

    @property
    def shown(self) -> bool:
        return self._bar is not None

    def expect(self, total: int) -> None:
        """Says how many bytes there will be."""
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def at(self, done: int) -> None:
        """``done`` bytes are done in all."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def call(self, done: int, total: int, what: str) -> None:
        """As a progress function of the library."""
        if self._bar is not None:
            self._bar.total = total
            self.at(done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
