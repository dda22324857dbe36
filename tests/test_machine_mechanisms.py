"""Hints, holes, filters and indexes of directories against brute force, after each step."""

from __future__ import annotations

import random

import pytest
from model.drivers import EXFAT, FAT12, FAT16, FAT32
from model.mechanisms import MechanismMachine
from model.profiles import machine_settings
from model.rawexfat import RawVolume, read_image

import pyexfat as px


class ExfatMechanisms(MechanismMachine):
    """With devices that fail."""

    driver = EXFAT


class ExfatMechanismsWithoutFaults(MechanismMachine):
    """Where nothing fails, the image must be perfect in the end."""

    driver = EXFAT
    with_faults = False


class Fat12Mechanisms(MechanismMachine):
    """Entries of FAT that lie across sectors."""

    driver = FAT12


class Fat16Mechanisms(MechanismMachine):
    """The same with two marks."""

    driver = FAT16


class Fat32Mechanisms(MechanismMachine):
    """The same with FSInfo and a root that grows."""

    driver = FAT32


class Fat32MechanismsWithoutFaults(MechanismMachine):
    """The same, perfect in the end."""

    driver = FAT32
    with_faults = False


TestMechanisms = ExfatMechanisms.TestCase
TestMechanisms.settings = machine_settings(examples=40, steps=40)
TestMechanismsWithoutFaults = ExfatMechanismsWithoutFaults.TestCase
TestMechanismsWithoutFaults.settings = machine_settings(examples=40, steps=40)
TestMechanismsFat12 = Fat12Mechanisms.TestCase
TestMechanismsFat16 = Fat16Mechanisms.TestCase
TestMechanismsFat32 = Fat32Mechanisms.TestCase
TestMechanismsFat32WithoutFaults = Fat32MechanismsWithoutFaults.TestCase
TestMechanismsFat12.settings = machine_settings(12, 40)
TestMechanismsFat16.settings = machine_settings(4, 40)
TestMechanismsFat32.settings = machine_settings(12, 40)
TestMechanismsFat32WithoutFaults.settings = machine_settings(12, 40)


@pytest.mark.parametrize(
    ("hint", "budget"),
    [("off", 1 << 20), ("one-shot", 1 << 20), *(("retained", n) for n in (0, 4096, 1 << 20))],
)
def test_more_holes_than_are_remembered(hint: str, budget: int) -> None:
    """A bounded list forgets holes; they are found again before the directory grows."""
    rng = random.Random(7)
    policy = {"empty_hint": hint, "memory_budget": budget}
    with (
        px.Device.memory(2 << 20) as device,
        px.format(device, cluster_size=512, policy=policy) as vol,
    ):
        vol.mkdir("/d")
        names = [f"{i} {'n' * rng.randrange(60)}" for i in range(800)]
        vol.create_many("/d", names)
        rng.shuffle(names)
        gone, names = names[:400], names[400:]
        vol.remove_many("/d", gone)
        for step in range(120):
            if step % 3 == 2:
                vol.unlink(f"/d/{names.pop(rng.randrange(len(names)))}")
                continue
            name = f"new {step} {'x' * rng.randrange(90)}"
            raw = read_image(vol.read_raw(device.size, 0), contents=False)
            vol.touch(f"/d/{name}")
            names.append(name)
            need = 2 + -(-len(name) // 15)
            grown = vol.stat("/d").st_size - raw.tree["/d"].size
            assert (grown > 0) == (longest_run(raw) < need)
        raw = read_image(vol.read_raw(device.size, 0), contents=False)
        assert sorted(raw.children["/d"]) == sorted(names)
        for name in names:
            assert vol.stat(f"/d/{name}").entry_offset == raw.tree[f"/d/{name}"].offset


def longest_run(raw: RawVolume) -> int:
    """Free entries in a row in ``/d``, the end included."""
    at, longest = 0, 0
    entries = (raw.tree[f"/d/{name}"] for name in raw.children["/d"])
    for entry in sorted(entries, key=lambda e: e.index):
        longest = max(longest, entry.index - at)
        at = entry.index + entry.entries
    return max(longest, raw.tree["/d"].size // 32 - at)
