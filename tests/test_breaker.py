"""What attempts to break it have broken: each once more."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from typing import Any

import pytest

import pyexfat as px

SECTOR = 512


def entry_set_sum(image: bytearray, at: int) -> None:
    """Puts the SetChecksum of the entry set at a byte right (exFAT specification 6.3.3)."""
    total = 0
    for i, byte in enumerate(image[at : at + (image[at + 1] + 1) * 32]):
        if i not in (2, 3):
            total = ((total >> 1) | (total << 15)) + byte & 0xFFFF
    image[at + 2 : at + 4] = total.to_bytes(2, "little")


@pytest.mark.parametrize("what", ["touch", "mkdir", "rename", "rename directory"])
@pytest.mark.parametrize("hint", ["off", "one-shot", "retained"])
def test_a_file_that_owns_the_clusters_of_a_directory(what: str, hint: str) -> None:
    """Zeros over the entry of an open file, and then a new name in its place."""
    image = bytearray(2 << 20)
    with px.format(image, cluster_size=SECTOR) as vol:
        vol.mkdir("/D")
        vol.touch("/D/open")
        vol.write_bytes("/F", b"f" * SECTOR)
        vol.touch("/file")
        vol.mkdir("/directory")
        cluster = vol.stat("/D").first_cluster
        at = vol.stat("/F").entry_offset
    image[at + 32 + 20 : at + 32 + 24] = cluster.to_bytes(4, "little")
    entry_set_sum(image, at)
    work: dict[str, Callable[[px.Volume], object]] = {
        "touch": lambda vol: vol.touch("/D/new"),
        "mkdir": lambda vol: vol.mkdir("/D/new"),
        "rename": lambda vol: vol.rename("/file", "/D/open"),
        "rename directory": lambda vol: vol.rename("/directory", "/D/new"),
    }
    policy = {"empty_hint": hint, "name_index": False, "name_filter": False}
    with px.open(image, "r+", policy=policy) as vol:
        opened = vol.open("/D/open", "rb")
        with vol.open("/F", "r+b", buffering=0) as file:
            file.write(bytes(SECTOR))
        with pytest.raises(px.CorruptImageError, match="shared"):
            work[what](vol)
        assert vol.listdir("/D") == []
        assert {"file", "directory"} < set(vol.listdir("/"))
        opened.close()


def test_directories_that_share_their_clusters() -> None:
    """A move from one to the other is none."""
    image = bytearray(2 << 20)
    with px.format(image, cluster_size=SECTOR) as vol:
        for name in ("one", "two"):
            vol.mkdir(name)
        vol.touch("one/f")
        one, two = (vol.stat(name).entry_offset for name in ("one", "two"))
    image[two + 32 + 20 : two + 32 + 24] = image[one + 32 + 20 : one + 32 + 24]
    entry_set_sum(image, two)
    with px.open(image, "r+") as vol:
        assert vol.listdir("two") == ["f"]
        with vol.open("one/f"):
            for old, new in (("one/f", "two/f"), ("two/f", "two/g"), ("two/f", "one/f")):
                with pytest.raises(px.CorruptImageError, match="same clusters"):
                    vol.rename(old, new)
            vol.rename("one/f", "one/g")


@pytest.mark.parametrize(
    ("fs", "size"), [("fat12", 1440 << 10), ("fat32", 40 << 20), ("exfat", 2 << 20)]
)
def test_entries_behind_the_end_of_a_directory(fs: str, size: int) -> None:
    """They are not read, and no new name brings them to life."""
    image = bytearray(size)
    with px.format(image, fs, cluster_size=SECTOR) as vol:
        vol.mkdir("d")
        for name in ("A", "B", "C", "D"):
            vol.touch(f"d/{name}")
        first, second, third = (vol.stat(f"d/{name}").entry_offset for name in "ABC")
    behind = bytes(image[third : third + 64])
    image[second:third] = bytes(third - second)
    with px.open(image, "r+") as vol:
        assert vol.listdir("d") == ["A"]
        assert not vol.exists("d/C")
        for work in (lambda: vol.touch("d/E"), lambda: vol.mkdir("d/E")):
            with pytest.raises(px.CorruptImageError, match="follows the end") as error:
                work()
            assert error.value.where.offset == third
        vol.unlink("d/A")
        vol.touch("d/F")  # the place of A
        assert vol.stat("d/F").entry_offset == first
        assert vol.listdir("d") == ["F"]
    assert image[third : third + 64] == behind


@pytest.mark.parametrize(("fs", "size"), [("fat12", 1440 << 10), ("fat16", 16 << 20)])
def test_extents_of_a_fat_root_that_is_no_chain(fs: str, size: int) -> None:
    """It is one piece right behind the FATs, as the boot sector says."""
    image = bytearray(size)
    with px.format(image, fs) as vol:
        found = vol.extents("/")
    reserved, fats = int.from_bytes(image[14:16], "little"), image[16]
    entries, sectors = (int.from_bytes(image[at : at + 2], "little") for at in (17, 22))
    assert found == [(0, (reserved + fats * sectors) * SECTOR, entries * 32, True)]


@pytest.mark.parametrize(("fs", "size"), [("fat12", 1440 << 10), ("exfat", 2 << 20)])
def test_extents_of_a_directory_before_anyone_has_looked_into_it(fs: str, size: int) -> None:
    """FAT has no size of a directory in its entry."""
    image = bytearray(size)
    with px.format(image, fs) as vol:
        vol.mkdir("/d")
        cluster = vol.cluster_size
    with px.open(image) as vol:
        assert [extent.length for extent in vol.extents("/d")] == [cluster]


@pytest.mark.parametrize(("fs", "size_at"), [("fat12", 28), ("exfat", 32 + 24)])
def test_a_chain_that_is_shorter_than_its_file(fs: str, size_at: int) -> None:
    """The report leads to the entry that says how long it is."""
    image = bytearray(1440 << 10 if fs == "fat12" else 2 << 20)
    with px.format(image, fs, cluster_size=SECTOR) as vol:
        vol.write_bytes("before", b"x" * SECTOR)
        vol.write_bytes("f", b"x" * SECTOR)
        with vol.open("before", "ab") as file:  # in pieces, so that exFAT has a chain, too
            file.write(b"x" * SECTOR)
        stat = vol.stat("before")
        assert fs == "fat12" or not stat.contiguous
    at = stat.entry_offset
    while fs == "fat12" and image[at + 11] == 0x0F:
        at += 32  # entries of the long name
    image[at + size_at : at + size_at + 4] = (20 * SECTOR).to_bytes(4, "little")
    if fs == "exfat":
        image[at + 32 + 8 : at + 32 + 12] = (20 * SECTOR).to_bytes(4, "little")
        entry_set_sum(image, at)
    with px.open(image) as vol:
        with pytest.raises(px.CorruptImageError, match="shorter than the file") as error:
            vol.read_bytes("before")
        assert error.value.where == px.Where(
            error.value.where.structure, stat.entry_offset, "DataLength", 20 * SECTOR,
            2 * SECTOR, "the cluster chain is shorter than the file",
        )  # fmt: skip


class Liar(io.BytesIO):
    """A file that says it has done more than it was asked for, or less than nothing."""

    answer: Any = 0

    def readinto(self, _: Any, /) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [-1, 0, 1 << 20, 1 << 70, -(1 << 70), None, "1", 0.5])
def test_counts_that_can_not_be_from_a_file_object(answer: Any) -> None:
    """An OSError, whatever it says."""
    liar = Liar(bytes(1 << 20))
    device = px.Device.wrap(liar)
    liar.answer = answer
    with pytest.raises(OSError, match="returned"):
        device.pread(SECTOR, 0)


def test_wrong_types_are_type_errors() -> None:
    """Not AttributeError, BufferError or what else lies below."""
    vol = px.format(px.Device.memory("1 MiB"))
    vol.write_bytes("/f", b"data")
    no_str: Any = 5
    nothing: Any = object()
    with vol.open("/f", "r+b", buffering=0) as file:
        with pytest.raises(TypeError):
            file.seek(no_str + 0.5)
        with pytest.raises(TypeError):
            file.truncate(nothing)
        with pytest.raises(TypeError, match="buffer"):
            file.readinto(b"read-only")  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="pattern"):
        vol.glob(no_str)
    with pytest.raises(TypeError, match="pattern"):
        (vol / "f").match(no_str)
    with pytest.raises(TypeError, match="src"):
        vol.copy_in(nothing, "/g")
    for policy in (b"", [1], ("a",)):
        with pytest.raises(TypeError, match="policy"):
            vol.set_policy(policy)  # type: ignore[arg-type]
    for fileobj in (None, nothing, type("Half", (), {"seek": 1})()):
        with pytest.raises(TypeError, match="fileobj"):
            px.Device.wrap(fileobj)
    with pytest.raises(TypeError, match="obj"):
        px.Device.buffer(b"read-only", True)
    with pytest.raises(TypeError, match="fs"):
        px.format(px.Device.memory("1 MiB"), nothing)
    with pytest.raises(TypeError):
        px.format(px.Device.memory("1 MiB"), populate=nothing)
    with pytest.raises(ValueError, match="tz"):
        px.format(px.Device.memory("1 MiB"), tz="a/" * 3000)
    vol.close()


def test_ctrl_c_stops_the_making_of_many_files() -> None:
    """Between two pieces of the work; what is made by then is whole."""

    class StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise StopError

    names = [f"a name and a number {i}" for i in range(5 << 16)]
    before = signal.signal(signal.SIGALRM, stop)
    with px.format(px.Device.memory("512 MiB")) as vol:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(StopError):
                vol.create_many("/", names)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        made = vol.listdir("/")
        assert len(made) < len(names)
        assert made == names[: len(made)]
        vol.create_many("/", names[len(made) :])
