"""The whole API on FAT12, FAT16 and FAT32 volumes against a volume made of dicts.

The machine is exFAT's: what it knows of FAT is in model/drivers.py. Every run ends with close(),
and the image is then read by an independent reader of bytes, and now and then judged by fsck.fat.
"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import require_tool
from model.drivers import FAT12, FAT16, FAT32, FAT_DRIVERS, ZONED, Driver
from model.machine import VolumeMachine
from model.profiles import machine_settings

import pyexfat as px


class FatMachine(VolumeMachine):
    """The machine with one of FAT's drivers."""

    def __init__(self) -> None:
        """Needs fsck.fat."""
        require_tool("fsck.fat")
        super().__init__()


class Fat12Machine(FatMachine):
    """Roots of fixed size, entries of 12 bits."""

    driver = FAT12


class Fat16Machine(FatMachine):
    """Roots of fixed size, and a dirty mark in the FAT as well."""

    driver = FAT16


class Fat32Machine(FatMachine):
    """Roots that grow, FSInfo, a backup boot sector."""

    driver = FAT32


class ZonedFat12Machine(FatMachine):
    """Local time in which an hour comes twice."""

    driver = ZONED[0]


class ZonedFat16Machine(FatMachine):
    """Local time in which a midnight does not come."""

    driver = ZONED[1]


class ZonedFat32Machine(FatMachine):
    """Local time that is put back by half an hour."""

    driver = ZONED[2]


TestFat12 = Fat12Machine.TestCase
TestFat16 = Fat16Machine.TestCase
TestFat32 = Fat32Machine.TestCase
TestFat12.settings = TestFat16.settings = TestFat32.settings = machine_settings(30, 40)
TestZonedFat12 = ZonedFat12Machine.TestCase
TestZonedFat16 = ZonedFat16Machine.TestCase
TestZonedFat32 = ZonedFat32Machine.TestCase
TestZonedFat12.settings = TestZonedFat16.settings = machine_settings(15, 40)
TestZonedFat32.settings = machine_settings(15, 40)


# ---- found by the machines ----


@pytest.mark.parametrize("how", ["lazy", "sync"])
@pytest.mark.parametrize("driver", [FAT12, FAT16], ids=str)
def test_room_in_a_full_root_is_found_after_its_list_has_gone(driver: Driver, how: Any) -> None:
    """64 entries: 60 of 20 names, of which the middle goes; the end has no room for the new one."""
    size, options = driver.small()
    with px.Device.memory(size) as device:
        options["fat"] = {"root_entries": 64}
        with px.format(device, driver.name, sync=how, **options) as vol:
            names = [f"many {i:03} xxxxxxxxxxxxxxx" for i in range(20)]
            vol.create_many("/", names)
            vol.remove_many("/", names[3:8])
            vol.shrink(1)
            vol.touch("/" + "n" * 60)  # 6 entries where 15 are free
            assert len(vol.listdir("/")) == 16
        assert driver.read(device.pread(size, 0)).violations == []


@pytest.mark.parametrize("driver", FAT_DRIVERS, ids=str)
def test_space_set_aside_for_an_empty_file_leaves_nothing(driver: Driver) -> None:
    """Its entry is written meanwhile, and must not name clusters that go back."""
    size, options = driver.small()
    with px.Device.memory(size) as device:
        with px.format(device, driver.name, **options) as vol:
            free = vol.usage().free
            vol.touch("/a")
            handle = vol.open_file("/a", 2)
            handle.allocate(0, 3000, True)
            vol.utime("/a", ns=(0, 10**18))
            vol.sync()
            handle.close()
            vol.sync()
            assert vol.usage().free == free
        raw = driver.read(device.pread(size, 0))
        assert raw.violations == []
        assert raw.tree["/a"].first_cluster == 0


@pytest.mark.parametrize("way", ["set aside", "too much"])
def test_empty_file_of_others_that_has_a_cluster(way: str) -> None:
    """Other systems leave such; when its cluster goes back its entry has none."""
    size, options = FAT12.small()
    with px.Device.memory(size) as device:
        with px.format(device, "fat12", **options) as vol:
            vol.write_bytes("/a", b"x" * 100)
        image = bytearray(device.pread(size, 0))
    at = FAT12.read(image).tree["/a"].offset
    image[at + 28 : at + 32] = bytes(4)
    assert FAT12.read(image).kinds() == {"chain long"}
    with px.open(image, "r+", tz="utc") as vol:
        handle = vol.open_file("/a", 2)
        if way == "set aside":
            handle.allocate(0, 3000, True)
        else:
            vol.touch("/fill")
            vol.truncate("/fill", vol.usage().free - 512)
            with pytest.raises(OSError, match="No space left"):
                handle.resize(3000)
        handle.close()
    assert FAT12.read(image).kinds() <= {"chain long"}


def test_a_set_whose_second_half_fails_leaves_nothing() -> None:
    """Over two clusters, and the block of the second one has data that the device won't take."""
    long = "/d/longer name of four entries, as it is"
    size, options = FAT12.small(512)
    with px.Device.memory(size) as device, device.faults() as faults:
        px.format(faults, "fat12", **options).close()
        with px.open(faults, "r+", tz="utc") as vol:
            names = [f"n{i}" for i in range(24)]
            vol.mkdir("/d")
            vol.write_bytes("/before", bytes(20 * 512))
            vol.create_many("/d", names)  # more than a cluster, the second one far away
            vol.write_bytes("/after", bytes(8 * 512))
            vol.remove_many("/d", names[12:20])
            vol.sync()
            for path, offset in (("/before", 19 * 512), ("/after", 0), ("/after", 512)):
                with vol.open(path, "r+b", buffering=0) as file:
                    file.seek(offset)
                    file.write(b"x" * 100)
            faults.add("write")
            with pytest.raises(OSError, match=r"\[Errno 5\]"):
                vol.touch(long)
            faults.clear()
            seen = FAT12.read(vol.read_raw(vol.size, 0), contents=False)
            assert seen.kinds() <= {"dirty", "hard error"}
            assert vol.listdir("/d") == seen.children["/d"] == names[:12] + names[20:]
            vol.touch(long)
        found = FAT12.read(device.pread(size, 0))
        assert found.kinds() <= {"dirty", "hard error"}
        assert (found.tree[long].index, found.tree[long].entries) == (14, 4)
        first, second = found.tree["/d"].clusters
        assert second - first > 8
