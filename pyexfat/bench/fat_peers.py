"""Peers for FAT: mtools, Python packages, and the kernel's vfat driver.

All names begin with the same six letters, so that each needs a short name that another has.
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import Any

import pyexfat as px
from pyexfat import Policy

from .peers import (
    BATCHES,
    STEPS,
    Calls,
    Setting,
    SkippedError,
    Times,
    Work,
    do_work,
    fattools,
    guest,
    kernel,
    make_image,
    needs,
    ours,
    run_program,
    timed,
    volume_calls,
)
from .workloads import env


def _names(files: int) -> list[str]:
    return [f"file-{n:05d}.txt" for n in range(1, files + 1)]


# The directory's name is in upper case: pyfatfs does not see Windows NT's bits for lower case.
FAT32 = Setting("fat32", "vfat", 128 << 20, 1024, _names, "D", "file-$((100000 + i)).txt")


def _in_memory(folder: str, files: int) -> Times:
    """As the packages have it that keep the image in memory and sync nothing."""
    with open(make_image(folder, FAT32), "rb") as file:
        image = bytearray(file.read())
    with px.open(image, "r+", env=env()) as volume:
        return do_work(volume_calls(volume, f"/{FAT32.directory}/"), files, FAT32)


def _mtools(folder: str, files: int) -> Times:
    needs("mcopy", "mdel")
    image = make_image(folder, FAT32)
    every = _names(files)
    for name in every:
        with open(os.path.join(folder, name), "wb"):
            pass
    size = files // BATCHES
    result: Times = {}
    for batch in range(BATCHES):
        part = [os.path.join(folder, name) for name in every[batch * size : (batch + 1) * size]]
        copy = ("mcopy", "-i", image, *part, f"::/{FAT32.directory}/")
        result[STEPS[batch]] = timed(lambda copy=copy: run_program(*copy))  # type: ignore[misc]
    made = [f"::/{FAT32.directory}/{name}" for name in every[: size * BATCHES]]
    result["unlink"] = timed(lambda: run_program("mdel", "-i", image, *made))
    return result


def _pyfatfs(folder: str, files: int) -> Times:
    try:
        with warnings.catch_warnings():  # of what it stands on
            warnings.simplefilter("ignore")
            opener = import_module("pyfatfs.PyFatFS").PyFatFS
    except ImportError:
        raise SkippedError("pyfatfs can't be imported") from None
    volume: Any = opener(make_image(folder, FAT32))
    top = f"/{FAT32.directory}/"
    try:
        return do_work(
            Calls(
                create=lambda name: volume.create(top + name),
                sync=volume.fs.flush_fat,
                stat=lambda name: volume.getinfo(top + name),
                absent=lambda name: volume.exists(top + name),
                unlink=lambda name: volume.remove(top + name),
            ),
            files,
            FAT32,
        )
    finally:
        volume.close()


def _fatfs(folder: str, files: int) -> Times:
    try:
        fatfs: Any = import_module("fatfs")
        extended = fatfs.PartitionExtended
    except (ImportError, AttributeError):
        raise SkippedError("fatfs-ng can't be imported") from None
    with open(make_image(folder, FAT32), "rb") as file:
        disk = fatfs.RamDisk(bytearray(file.read()), sector_size=512)
    partition: Any = fatfs.Partition(disk)
    partition.mount()
    volume: Any = extended(partition)
    top = f"/{FAT32.directory}/"
    try:
        return do_work(
            Calls(
                create=lambda name: partition.open(top + name, "w").close(),
                sync=lambda: None,  # each close has done it
                stat=lambda name: volume.stat(top + name),
                absent=lambda name: volume.exists(top + name),
                unlink=lambda name: volume.remove(top + name),
            ),
            files,
            FAT32,
        )
    finally:
        partition.unmount()


PEERS: dict[str, tuple[str, Work]] = {
    "pyexfat": ("this package, all defaults", ours(Policy(), FAT32)),
    "pyexfat in memory": ("the same, the image in memory", _in_memory),
    "pyexfat before": ("this package, all mechanisms off", ours(Policy.before(), FAT32)),
    "mtools": ("mcopy of each batch and mdel of all, a process each", _mtools),
    "kernel": ("this kernel's driver, on a loop device", kernel(FAT32)),
    "kernel in qemu": ("emulated: only how it grows can be compared", guest(FAT32)),
    "FATtools": ("Python; writes nothing before it ends", fattools(FAT32)),
    "fatfs-ng": ("C behind Python, the image in memory", _fatfs),
    "pyfatfs": ("Python", _pyfatfs),
}
"""What each is, and how it works."""
