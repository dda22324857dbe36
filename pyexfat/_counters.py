"""What a volume counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Counters(dict[str, Any]):
    """What a volume has done so far; numbers by name, some of them in groups.

    A name can be written as an attribute, and two of them subtracted:
    ``(vol.counters - before).cache.device_writes``.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        """From plain dicts."""
        super().__init__(
            (name, Counters(value) if isinstance(value, Mapping) else value)
            for name, value in values.items()
        )

    def __getattr__(self, name: str) -> Any:
        """The counter of that name."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no counter {name!r}") from None

    def __sub__(self, earlier: Mapping[str, Any]) -> Counters:
        """What was counted since ``earlier``."""
        return Counters({name: value - earlier[name] for name, value in self.items()})
