"""Which mechanisms of a volume are at work.

Each can be set back to the old way, to measure what it is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from .sizes import Size, parse_size

EmptyHint = Literal["off", "one-shot", "retained"]
EntrySync = Literal["entry", "set"]
FreeScan = Literal["element", "block", "index"]

MEMORY_BUDGET = 64 << 20
"""Default of Policy.memory_budget, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The switches of a volume; the defaults are the best there is.

    A policy never changes what is on the disk in the end, only how much work it takes to get there.
    Raises ValueError that names the field for a setting that does not exist.
    """

    empty_hint: EmptyHint = "retained"
    """Where a directory has room: "off" walks it for every new name, "one-shot" remembers one
    place for the next create, "retained" keeps it over creates and deletions."""
    name_filter: bool = True
    """A Bloom filter for each directory that says which names are certainly absent."""
    name_index: bool = True
    """A table for each directory from a name's hash to the place of its entry."""
    entry_sync: EntrySync = "set"
    """Whether the entries of a file reach the device one by one or as a set."""
    preallocate: bool = True
    """Growing a file takes all clusters that it needs in one go."""
    free_scan: FreeScan = "index"
    """Free clusters are looked for bit by bit ("element"), a block of the bitmap at a time
    ("block"), or with the help of a summary over the blocks ("index")."""
    discard: bool = False
    """Tells the device of freed clusters whenever changes are committed."""
    memory_budget: Size = MEMORY_BUDGET
    """Bytes that all caches of the volume may hold, 0 included; an int or ``"64 MiB"``."""

    def __post_init__(self) -> None:
        """Checks the fields and turns ``memory_budget`` into bytes."""
        choices = {"empty_hint": EmptyHint, "entry_sync": EntrySync, "free_scan": FreeScan}
        for name, kinds in choices.items():
            if getattr(self, name) not in get_args(kinds):
                allowed = ", ".join(map(repr, get_args(kinds)))
                raise ValueError(f"{name} must be one of {allowed}, not {getattr(self, name)!r}")
        for name in ("name_filter", "name_index", "preallocate", "discard"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        budget = parse_size(self.memory_budget, "memory_budget")
        object.__setattr__(self, "memory_budget", budget)

    @classmethod
    def before(cls) -> Policy:
        """All mechanisms off, as drivers were before they had any of them."""
        return cls(
            empty_hint="off",
            name_filter=False,
            name_index=False,
            entry_sync="entry",
            preallocate=False,
            free_scan="element",
        )

    def replace(self, **changes: Any) -> Policy:
        """A copy with some fields changed: ``policy.replace(name_filter=False)``."""
        return replace(self, **changes)

    def as_dict(self) -> dict[str, str | bool | int]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
