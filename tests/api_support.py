"""What the tests of the Python surface share."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from conftest import require_tool

import pyexfat as px

CLOCK = 1_700_000_000 * 10**9  # 2023-11-14 22:13:20 UTC, an even second that exFAT can hold


def env(seed: int = 1) -> px.Env:
    """A clock that stands still and repeatable random numbers."""
    return px.Env(seed=seed, clock=CLOCK)


def make_volume(size: str = "16 MiB", **options: Any) -> px.Volume:
    """A new volume in memory."""
    return px.format(px.Device.memory(size), env=env(), **options)


def assert_clean(image: Path | str) -> None:
    """fsck.exfat finds nothing wrong with an image file."""
    fsck = require_tool("fsck.exfat")
    run = subprocess.run([fsck, "-n", str(image)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "clean" in run.stdout, run.stdout


def pattern(n: int, seed: int = 1) -> bytes:
    """``n`` bytes that differ at every place (xorshift), so that a shifted or torn copy shows."""
    out = bytearray()
    x = seed * 2654435761 % 2**32 or 1
    while len(out) < n:
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        out += x.to_bytes(4, "little")
    return bytes(out[:n])


def make_tree(make_directory: Any, make_file: Any) -> None:
    """A small tree, by whatever makes directories and files."""
    for path in ("t", "t/a", "t/a/x", "t/b", "t/empty"):
        make_directory(path)
    for path in ("t/1", "t/2", "t/a/3", "t/a/x/4", "t/b/5"):
        make_file(path)
