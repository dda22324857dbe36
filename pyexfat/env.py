"""Where time and chance come from, and images that come out the same bit for bit."""

from __future__ import annotations

import os

from ._core import Env

__all__ = ["Env", "epoch_from_environment", "repeatable_env"]

_VARIABLE = "SOURCE_DATE_EPOCH"


def epoch_from_environment() -> int | None:
    """SOURCE_DATE_EPOCH in nanoseconds since 1970, or None when it is not set.

    Raises ValueError when it is set to something else than a number of seconds.
    """
    text = os.environ.get(_VARIABLE)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 11):
        raise ValueError(f"{_VARIABLE} is no number of seconds since 1970: {text!r}")
    return int(text) * 1_000_000_000


def repeatable_env(epoch: int) -> Env:
    """An Env for SOURCE_DATE_EPOCH: the clock stands still, and the seed follows from the time."""
    return Env(seed=epoch // 1_000_000_000, clock=epoch)
