"""Time zones: what tz= means, and times in exFAT and FAT, against zoneinfo, zdump and mtools."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cli_tools import Cli
from conftest import require_tool
from hypothesis import given
from hypothesis import strategies as st

import pyexfat as px
from pyexfat import _core
from pyexfat._zone import Zone, local_zone, zone_of

SECOND = 10**9
JULY = 1_719_828_000  # date -u -d "2024-07-01 10:00" +%s
DECEMBER = 1_733_047_200  # date -u -d "2024-12-01 10:00" +%s
AUTUMN = 1_729_990_800  # 2024-10-27 01:00 UTC, when Berlin's clocks go from 3:00 to 2:00

NAMES = [
    *("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Kathmandu"),
    *("Africa/Casablanca", "Pacific/Kwajalein", "America/Caracas", "UTC", "Asia/Pyongyang"),
]


@pytest.fixture
def fat(tmp_path: Path) -> Path:
    """An empty FAT16 volume of mkfs.fat."""
    path = tmp_path / "fat.img"
    command = [require_tool("mkfs.fat"), "-C", "-F", "16", "-s", "1", str(path), "8192"]
    subprocess.run(command, check=True, capture_output=True)
    return path


def minutes_at(zone: Zone, second: int) -> int:
    return zone[max(0, bisect_right(zone, (second, 1 << 20)) - 1)][1]


# ---- what tz= means ----


@given(st.sampled_from(NAMES), st.integers(0, 4_417_977_599))
def test_zones_say_what_zoneinfo_says(name: str, second: int) -> None:
    offset = datetime.fromtimestamp(second, ZoneInfo(name)).utcoffset()
    assert offset is not None
    assert minutes_at(zone_of(name), second) == offset.total_seconds() // 60


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_those_of_zdump(name: str) -> None:
    run = subprocess.run(
        [require_tool("zdump"), "-v", "-c", "1970,2037", name],
        capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    wanted: list[tuple[int, int]] = []
    known = None
    for line in run.stdout.splitlines():
        words = line.split()
        if words[-1] == "NULL" or "gmtoff" not in line:
            continue
        moment = datetime.strptime(" ".join(words[2:6]), "%b %d %H:%M:%S %Y")
        second = int(moment.replace(tzinfo=UTC).timestamp())
        minutes = round(int(words[-1].removeprefix("gmtoff=")) / 60)
        if second >= 0 and known is not None and minutes != known:
            wanted.append((second, minutes))
        known = minutes
    got = [change for change in zone_of(name)[1:] if change[0] < 2_114_380_800]  # 2037-01-01
    assert got == [change for change in wanted if change[0] < 2_114_380_800]


@pytest.mark.parametrize(
    ("tz", "zone"),
    [
        ("utc", ((0, 0),)),
        ("UTC", ((0, 0),)),
        ("Z", ((0, 0),)),
        ("+05:30", ((0, 330),)),
        ("-0930", ((0, -570),)),
        (-90, ((0, -90),)),
        (0, ((0, 0),)),
        (UTC, ((0, 0),)),
        (timezone(timedelta(hours=14)), ((0, 840),)),
        (timezone(timedelta(seconds=89)), ((0, 1),)),
        (ZoneInfo("Etc/GMT+3"), ((0, -180),)),
        # 0:44:30 behind until 1972-01-07, when it was midnight there
        (ZoneInfo("Africa/Monrovia"), ((0, -44), (63593070, 0))),
    ],
)
def test_kinds_of_zones(tz: str | int | tzinfo, zone: Zone) -> None:
    assert zone_of(tz) == zone


class Strange(tzinfo):
    """Two changes within one week, and no hash."""

    __hash__ = None  # type: ignore[assignment]

    def utcoffset(self, dt: datetime | None) -> timedelta:
        assert dt is not None
        day = (dt.replace(tzinfo=None) - datetime(2000, 1, 10)).days
        return timedelta(hours=0 if day < 0 else 3 if day < 1 else 5)

    def fromutc(self, dt: datetime) -> datetime:
        return dt + self.utcoffset(dt)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


class Silent(tzinfo):
    def tzname(self, dt: datetime | None) -> None:
        return None

    dst = tzname

    def utcoffset(self, dt: datetime | None) -> None:
        return None

    def fromutc(self, dt: datetime) -> datetime:
        return dt


def test_zones_that_are_written_in_python() -> None:
    # date -u -d 2000-01-10 +%s, and 21 hours later, when the local day is the next
    assert zone_of(Strange()) == ((0, 0), (947462400, 180), (947538000, 300))
    with pytest.raises(ValueError, match="tz"):
        zone_of(Silent())


@pytest.mark.parametrize(
    "tz", ["Europe/Nowhere", "", "Europe", "../etc/passwd", "+5", "+24:00", 1440, -1440, 10**30]
)
def test_what_is_no_zone(tz: str | int) -> None:
    with pytest.raises(ValueError, match="tz"):
        zone_of(tz)


@pytest.mark.parametrize("tz", [True, 1.5, b"utc", timedelta(hours=1)])
def test_other_types(tz: object) -> None:
    with pytest.raises(TypeError, match="tz"):
        zone_of(tz)  # type: ignore[arg-type]


def test_the_local_zone_follows_tz(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        for name in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"):
            monkeypatch.setenv("TZ", name)
            time.tzset()
            assert local_zone() == zone_of(name) == zone_of("local")
            assert local_zone() is local_zone()
    finally:
        monkeypatch.undo()
        time.tzset()


# ---- exFAT ----


def test_exfat_writes_the_offset_of_the_moment() -> None:
    device = px.Device.memory("8 MiB")
    with px.format(device, tz="Europe/Berlin") as volume:
        for name, second in (("july", JULY), ("december", DECEMBER)):
            volume.touch(name)
            volume.utime(name, ns=(second * SECOND, second * SECOND), created_ns=second * SECOND)
    with px.open(device) as volume:
        assert volume.zone == ((0, 0),)
        for name, second, minutes in (("july", JULY, 120), ("december", DECEMBER, 60)):
            status = volume.stat(name)
            assert status.st_mtime_ns == status.st_atime_ns == second * SECOND
            assert status.st_birthtime_ns == second * SECOND
            assert status.created_offset == status.modified_offset == minutes
            assert status.accessed_offset == minutes
    assert device_time(device, "july") == (12, 0)
    assert device_time(device, "december") == (11, 0)


def entry_at(device: px.Device, name: str) -> int:
    with px.open(device) as volume:
        return volume.stat(name).entry_offset


def device_time(device: px.Device, name: str) -> tuple[int, int]:
    """Hour and minute of LastModifiedTimestamp, as they are on the disk [exFAT 7.4.8]."""
    at = entry_at(device, name) + 12
    stamp = int.from_bytes(device.pread(device.size, 0)[at : at + 2], "little")
    return stamp >> 11, stamp >> 5 & 0x3F


def test_exfat_offsets_are_quarters_and_the_moment_is_exact() -> None:
    device = px.Device.memory("8 MiB")
    for minutes, shown in ((20, 15), (23, 30), (-20, -15), (-1000, -960), (7, 0), (345, 345)):
        with px.format(device, tz=minutes) as volume:
            assert volume.utc_offset == minutes
            volume.touch("a")
            volume.utime("a", ns=(JULY * SECOND, JULY * SECOND))
            assert volume.stat("a").modified_offset == shown
            assert volume.stat("a").st_mtime_ns == JULY * SECOND


def test_exfat_stamps_without_an_offset_are_in_the_zone() -> None:
    device = px.Device.memory("8 MiB")
    with px.format(device, tz="utc") as volume:
        volume.touch("a")
        volume.utime("a", ns=(JULY * SECOND, JULY * SECOND))
    image = bytearray(device.pread(device.size, 0))
    start = entry_at(device, "a")
    entries = image[start : start + 3 * 32]
    entries[22:25] = bytes(3)  # OffsetValid is not set any more
    checksum = 0
    for at, byte in enumerate(entries):  # SetChecksum [exFAT 6.3.3]
        if at not in (2, 3):
            checksum = ((checksum << 15 | checksum >> 1) + byte) & 0xFFFF
    entries[2:4] = checksum.to_bytes(2, "little")
    image[start : start + len(entries)] = entries
    for tz, second in ((None, JULY), ("Europe/Berlin", JULY - 7200), ("-03:30", JULY + 12600)):
        with px.open(image, tz=tz) as volume:
            assert volume.stat("a").st_mtime_ns == second * SECOND
            assert volume.stat("a").modified_offset is None


def test_exfat_does_not_ask_for_the_local_zone() -> None:
    device = _core.Device.memory(8 << 20)
    _core.format(device)
    volume = _core.Volume(device, local_zone=lambda: pytest.fail("asked"))
    assert volume.utc_offset == 0


# ---- FAT ----


def mdir_times(image: Path, tz: str) -> list[str]:
    """Date and time of each file as mtools shows them where the local zone is ``tz``."""
    environment = {**os.environ, "TZ": tz, "LC_ALL": "C", "MTOOLSRC": os.devnull}
    command = [require_tool("mdir"), "-i", str(image), "::/"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [line[22:41] for line in run.stdout.splitlines() if line[9:12] == "TXT"]


def test_fat_stores_local_time(fat: Path) -> None:
    with px.open(fat, "r+", tz="Europe/Berlin") as volume:
        assert volume.utc_offset is None
        for name, second in (("A.TXT", JULY), ("B.TXT", DECEMBER)):
            volume.touch(name)
            volume.utime(name, ns=((second + 5) * SECOND,) * 2, created_ns=(second + 5) * SECOND)
    shown = [line.split() for line in mdir_times(fat, "UTC")]
    assert shown == [["2024-07-01", "12:00"], ["2024-12-01", "11:00"]]
    with px.open(fat, tz="Europe/Berlin") as volume:
        for name, second in (("A.TXT", JULY), ("B.TXT", DECEMBER)):
            status = volume.stat(name)
            assert status.modified_offset is status.created_offset is None
            assert status.accessed_offset is None
            assert status.st_mtime_ns == (second + 4) * SECOND  # to 2 s
            assert status.st_birthtime_ns == (second + 5) * SECOND  # to 10 ms
        # The midnight before, in Berlin: 12 and 11 hours back.
        assert volume.stat("A.TXT").st_atime_ns == (JULY - 12 * 3600) * SECOND
        assert volume.stat("B.TXT").st_atime_ns == (DECEMBER - 11 * 3600) * SECOND
    with px.open(fat, tz="utc") as volume:
        assert volume.stat("A.TXT").st_mtime_ns == (JULY + 7200 + 4) * SECOND
    with px.open(fat, utc_offset=-345) as volume:
        assert volume.stat("A.TXT").st_mtime_ns == (JULY + 7200 + 345 * 60 + 4) * SECOND


def test_fat_reads_what_mtools_wrote(fat: Path, tmp_path: Path) -> None:
    source = tmp_path / "A.TXT"
    source.write_bytes(b"x")
    os.utime(source, ns=(JULY * SECOND, JULY * SECOND))
    environment = {**os.environ, "TZ": "America/New_York", "MTOOLSRC": os.devnull}
    command = [require_tool("mcopy"), "-m", "-i", str(fat), str(source), "::/"]
    subprocess.run(command, check=True, env=environment)
    with px.open(fat, tz="America/New_York") as volume:
        assert volume.stat("A.TXT").st_mtime_ns == JULY * SECOND


def test_fat_hours_that_come_twice_or_not_at_all(fat: Path) -> None:
    with px.open(fat, "r+", tz="Europe/Berlin") as volume:
        volume.touch("A.TXT")
        for second in (AUTUMN - 1800, AUTUMN + 1800):  # both are 02:30
            volume.utime("A.TXT", ns=(second * SECOND, second * SECOND))
            assert volume.stat("A.TXT").st_mtime_ns == (AUTUMN - 1800) * SECOND
    with px.open(fat, "r+", tz="utc") as volume:
        second = 1_711_852_200  # date -u -d "2024-03-31 02:30" +%s
        volume.utime("A.TXT", ns=(second * SECOND, second * SECOND))
    with px.open(fat, tz="Europe/Berlin") as volume:
        moment = volume.stat("A.TXT").st_mtime_ns // SECOND
    local = datetime(2024, 3, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert moment == local.timestamp()


@given(st.sampled_from(NAMES), st.integers(315_619_200, 4_354_732_799))
def test_fat_times_come_back(name: str, second: int) -> None:
    zone = ZoneInfo(name)
    local = datetime.fromtimestamp(second, zone)
    with px.open(bytearray(EMPTY), "r+", tz=name) as volume:
        volume.touch("a")
        volume.utime("a", ns=(second * SECOND,) * 2, created_ns=second * SECOND)
        status = volume.stat("a")
    # The time on the wall is kept, and read as Python reads it: as the first when it comes twice.
    first = int(local.replace(fold=0).timestamp())
    midnight = local.replace(hour=0, minute=0, second=0, fold=0)
    assert status.st_birthtime_ns == first * SECOND
    assert status.st_mtime_ns == (first - local.second % 2) * SECOND
    assert status.st_atime_ns == int(midnight.timestamp()) * SECOND


def empty_fat() -> bytes:
    device = px.Device.memory("1 MiB")
    px.format(device, "fat12", env=px.Env(seed=1, clock=JULY * SECOND)).close()
    return device.pread(device.size, 0)


EMPTY = empty_fat()


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_fat_is_in_the_local_zone_unless_told(fat: Path, zone: str) -> None:
    program = (
        "import sys, pyexfat as px\n"
        "with px.open(sys.argv[1], 'r+') as volume:\n"
        "    volume.touch('A.TXT')\n"
        f"    volume.utime('A.TXT', ns=({JULY * SECOND},) * 2)\n"
        f"    assert volume.stat('A.TXT').st_mtime_ns == {JULY * SECOND}\n"
    )
    environment = {**os.environ, "TZ": zone}
    subprocess.run([sys.executable, "-c", program, str(fat)], check=True, env=environment)
    local = datetime.fromtimestamp(JULY, ZoneInfo(zone))
    (shown,) = mdir_times(fat, "UTC")
    assert shown.split() == [f"{local:%Y-%m-%d}", f"{local:%-H:%M}"]


def test_fat_asks_for_the_local_zone_once(fat: Path) -> None:
    device = _core.Device.file(str(fat))
    answers = [[(0, 60), (5, 90)]]
    volume = _core.Volume(device, local_zone=answers.pop)
    assert volume.zone == ((0, 60), (5, 90))
    assert _core.Volume(device, local_zone=lambda: [(0, 1)], utc_offset=5).utc_offset == 5
    assert _core.Volume(device, local_zone=lambda: [(0, 1)], zone=[(0, 6)]).utc_offset == 6
    assert _core.Volume(device).utc_offset == 0
    with pytest.raises(ZeroDivisionError):
        _core.Volume(device, local_zone=lambda: [(0, 1 // 0)])
    with pytest.raises(ValueError, match="local_zone"):
        _core.Volume(device, local_zone=list)


def test_repeatable_images_do_not_depend_on_the_local_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "from"
    source.mkdir()
    (source / "A.TXT").write_bytes(b"x")
    os.utime(source / "A.TXT", ns=(DECEMBER * SECOND, DECEMBER * SECOND))
    made = []
    for zone in ("America/New_York", "Asia/Kolkata"):
        path = tmp_path / zone[-4:]
        program = (
            "import sys, pyexfat as px\n"
            "px.format(sys.argv[1], 'fat12', size='1 MiB', label='L', populate=sys.argv[2]).close()"
        )
        environment = {**os.environ, "TZ": zone, "SOURCE_DATE_EPOCH": str(JULY)}
        command = [sys.executable, "-c", program, str(path), str(source)]
        subprocess.run(command, check=True, env=environment)
        made.append(path.read_bytes())
    assert made[0] == made[1]
    with px.open(made[0], tz="utc") as volume:
        assert volume.stat("A.TXT").st_mtime_ns == JULY * SECOND


# ---- arguments ----


@pytest.mark.parametrize(
    "zone",
    [
        *([], [(0, 1440)], [(0, -1440)], [(5, 0), (5, 1)], [(5, 0), (4, 1)], [(1 << 41, 0)]),
        *([(0,)], [(0, 1, 2)], [5], [(0, 0)] * 70000, [(1 << 70, 0)], [(0, 1 << 20)]),
    ],
)
def test_zones_that_the_core_refuses(zone: list[tuple[int, int]]) -> None:
    device = _core.Device.memory(8 << 20)
    _core.format(device)
    with pytest.raises(ValueError, match="zone"):
        _core.Volume(device, zone=zone)


def test_types_that_the_core_refuses() -> None:
    device = _core.Device.memory(8 << 20)
    _core.format(device)
    with pytest.raises(TypeError):
        _core.Volume(device, zone=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="zone"):
        _core.Volume(device, zone=[("a", 1)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="local_zone"):
        _core.Volume(device, local_zone=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="utc_offset"):
        _core.Volume(device, zone=[(0, 0)], utc_offset=0)
    with pytest.raises(ValueError, match="utc_offset"):
        _core.Volume(device, utc_offset=1440)


def test_zones_of_the_core_come_back() -> None:
    device = _core.Device.memory(8 << 20)
    _core.format(device)
    changing = ((-1000, -5), (-10, 10), (20, 30), (1 << 40, -1439))
    got = _core.Volume(device, zone=iter(changing)).zone
    assert got[1:] == changing[1:]
    assert got[0][0] < -10
    assert got[0][1] == -5
    assert _core.Volume(device, zone=got).zone == got


def test_nothing_is_written_for_a_wrong_zone(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"precious")
    wrong: list[dict[str, Any]] = [
        {"tz": "Europe/Nowhere"},
        {"tz": "utc", "utc_offset": 0},
        {"utc_offset": 9999},
    ]
    for options in wrong:
        with pytest.raises(ValueError, match=r"tz|utc_offset"):
            px.format(path, size="8 MiB", **options)
        assert path.read_bytes() == b"precious"
    px.format(path, size="8 MiB", tz=60).close()
    with pytest.raises(ValueError, match="tz"):
        px.open(path, tz="utc", utc_offset=0)


def test_command_line(
    fat: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cli = Cli(capsysbinary)
    cli("touch", "--tz=+05:30", "-d", "2024-07-01T10:00:00+00:00", f"{fat}:/A.TXT")
    assert mdir_times(fat, "UTC")[0].split() == ["2024-07-01", "15:30"]
    shown = cli("stat", "--json", "--tz", "Asia/Kolkata", f"{fat}:/A.TXT").out
    assert "2024-07-01T10:00:00" in shown or str(JULY) in shown
    assert "tz" in cli("ls", "--tz", "Europe/Nowhere", str(fat), code=2).err
