"""Running the tools of others on an image: fsck, dump, FUSE mounts and loop devices."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import missing, require_device, require_tool

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


def run(
    *command: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; ``env`` comes on top of ours, but for a sanitizer's runtime."""
    return subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | (env or {}),
    )


def run_well(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """What a program prints that must end with status 0."""
    ended = run(*command, env=env)
    assert ended.returncode == 0, f"{command}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def new_image(path: Path, size: int) -> Path:
    """An empty, sparse file of ``size`` bytes in the place of what was there."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def made_by_mkfs(path: Path, size: int, *options: str) -> Path:
    """An image formatted by mkfs.exfat."""
    run_well(require_tool("mkfs.exfat"), *options, new_image(path, size))
    return path


def fsck_counts(image: Path) -> tuple[int, int]:
    """Directories (with the root) and files that fsck.exfat counts; it must have no complaint."""
    said = run_well(require_tool("fsck.exfat"), "-n", image)
    found = re.search(r"clean\. directories (\d+), files (\d+)", said)
    assert found is not None, said
    assert "ERROR" not in said, said
    assert "WARN" not in said, said
    return int(found[1]), int(found[2])


def dumped(image: Path) -> dict[str, str]:
    """What dump.exfat says of the volume, by its own words."""
    said = run_well(require_tool("dump.exfat"), image)
    pairs = re.findall(r"^([A-Z][^:\n]*):[ \t]*(.*)$", said, re.MULTILINE)
    return {name.strip(): value.strip() for name, value in pairs}


@contextmanager
def loop_device(
    image: Path,
    sector_size: int = 512,
    *,
    offset: int = 0,
    partitions: bool = False,
    read_only: bool = False,
) -> Iterator[Path]:
    """``image`` as a block device of the system; the test ends where that can't be."""
    losetup = require_tool("losetup")
    require_device("/dev/loop-control")
    if os.geteuid() != 0:
        missing("root, for a loop device,")
    options = ["-b", str(sector_size), "-o", str(offset), *["-P"] * partitions, *["-r"] * read_only]
    made = run(losetup, "-f", "--show", *options, image)
    if made.returncode != 0:
        missing(f"a loop device with sectors of {sector_size} bytes ({made.stderr.strip()})")
    device = Path(made.stdout.strip())
    try:
        yield device
    finally:
        run_well(losetup, "-d", device)


@contextmanager
def fuse(image: Path, where: Path, *options: str, offset: int = 0) -> Iterator[Path]:
    """``image`` mounted by exfat-fuse at the folder ``where``; local time is UTC.

    By way of a loop device, as it mounts nothing else for root.
    """
    require_device("/dev/fuse")
    mount, unmount = require_tool("mount.exfat-fuse"), require_tool("fusermount3")
    where.mkdir(exist_ok=True)
    with loop_device(image, offset=offset) as device:
        run_well(mount, *(f"-o{option}" for option in options), device, where, env={"TZ": "UTC"})
        try:
            yield where
        finally:
            run_well(unmount, "-u", where)
            _wait_for_owner(device)


def _wait_for_owner(device: Path) -> None:
    """Waits until the FUSE process is gone, which still writes after the unmounting."""
    for _ in range(500):
        try:
            os.close(os.open(device, os.O_RDWR | os.O_EXCL))
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"{device} is still held")
