"""Raw block devices: loop devices, with partitions and large sectors; who else holds them."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import require_tool
from peers import trees
from peers.tools import MIB, dumped, fsck_counts, fuse, loop_device, new_image, run, run_well
from peers.trees import Filler

import pyexfat as px


@contextmanager
def held(device: Path) -> Iterator[None]:
    """Somebody else has the block device for itself, as a mount has."""
    holder = os.open(device, os.O_RDWR | os.O_EXCL)
    try:
        yield
    finally:
        os.close(holder)


@pytest.mark.parametrize("sector", [512, 4096])
def test_format_and_fill(tmp_path: Path, sector: int) -> None:
    image = new_image(tmp_path / "image", 48 * MIB)
    with loop_device(image, sector) as device:
        with px.format(device, label="raw") as volume:
            assert (volume.sector_size, volume.device.is_block) == (sector, True)
            assert volume.device.sector_size == sector
            filler = Filler(volume, sector)
            filler.fill()
        counts = fsck_counts(device)
        assert counts[0] + counts[1] == 1 + len(filler.tree)
        assert dumped(device)["Volume label"] == "raw"
        with px.open(device) as volume:
            assert trees.of_volume(volume) == filler.tree
            assert volume.size == 48 * MIB
    # What was written to the device is in the file behind it.
    with px.open(image) as volume:
        assert trees.of_volume(volume) == filler.tree


def test_a_device_in_use_is_refused(tmp_path: Path) -> None:
    image = new_image(tmp_path / "image", 8 * MIB)
    with loop_device(image) as device:
        px.format(device).close()
        before = hashlib.sha256(image.read_bytes()).digest()
        with held(device):
            for attempt in (
                lambda: px.open(device, "r+"),
                lambda: px.format(device),
                lambda: px.Device.file(device, writable=True),
            ):
                with pytest.raises(OSError, match=str(device)) as caught:
                    attempt()
                assert caught.value.errno == errno.EBUSY
            with px.open(device) as volume:  # reading harms nobody
                assert volume.listdir() == []
        assert hashlib.sha256(image.read_bytes()).digest() == before
        with px.open(device, "r+"), pytest.raises(OSError, match=str(device)) as caught:
            px.open(device, "r+")
        assert caught.value.errno == errno.EBUSY


def test_a_mounted_device_is_refused(tmp_path: Path) -> None:
    image = new_image(tmp_path / "image", 8 * MIB)
    with loop_device(image) as device:
        px.format(device).close()
    with fuse(image, tmp_path / "mounted") as mounted:
        device = Path(
            next(
                line.split()[0]
                for line in Path("/proc/mounts").read_text().splitlines()
                if line.split()[1] == str(mounted)
            )
        )
        with pytest.raises(OSError, match=str(device)) as caught:
            px.open(device, "r+")
        assert caught.value.errno == errno.EBUSY
        with pytest.raises(OSError, match=str(device)) as caught:
            px.format(device)
        assert caught.value.errno == errno.EBUSY
        (mounted / "file").write_bytes(b"still mounted")
    with px.open(image) as volume:
        assert volume.read_bytes("/file") == b"still mounted"


@pytest.mark.parametrize("sector", [512, 4096])
@pytest.mark.parametrize("scheme", ["mbr", "gpt"])
def test_our_partition_table(tmp_path: Path, scheme: str, sector: int) -> None:
    """sfdisk reads it, and the system's own device of the partition holds the volume."""
    image = new_image(tmp_path / "image", 64 * MIB)
    with loop_device(image, sector, partitions=True) as device:
        with px.format(device, partition_table=scheme, label="part") as volume:  # type: ignore[arg-type]
            volume.write_bytes("/file", b"in a partition")
        table = run_well(require_tool("sfdisk"), "-d", device)
        assert f"label: {'dos' if scheme == 'mbr' else 'gpt'}" in table
        (partition,) = px.partitions(device)
        assert f"start={partition.offset // sector:>12}" in table
        assert f"size={partition.length // sector:>12}" in table
        with px.open(device) as volume:
            assert volume.label == "part"
        copied = tmp_path / "part"
        with image.open("rb") as disk:
            disk.seek(partition.offset)
            copied.write_bytes(disk.read(partition.length))
    assert fsck_counts(copied) == (1, 1)
    found = px.detect(image, sector_size=sector)
    assert found is not None
    assert (found.partition, found.label, found.offset) == (1, "part", partition.offset)


def test_partitions_of_sfdisk(tmp_path: Path) -> None:
    """Two volumes in partitions that another tool has made; what lies around them stays."""
    sfdisk = require_tool("sfdisk")
    image = new_image(tmp_path / "image", 64 * MIB)
    script = tmp_path / "table"
    script.write_text("label: gpt\nsize=20MiB, name=one\nsize=30MiB, name=two\n")
    with loop_device(image) as device:
        made = run("sh", "-c", f"{sfdisk} -q {device} <{script}")
        assert made.returncode == 0, made.stderr
        one, two = px.partitions(device)
        assert (one.name, one.length) == ("one", 20 * MIB)
        assert (two.name, two.length) == ("two", 30 * MIB)
        for number, label in ((1, "first"), (2, "second")):
            with px.format(device, partition=number, label=label) as volume:
                volume.write_bytes("/name", label.encode())
        with pytest.raises(ValueError, match="partition"):
            px.open(device)
        for number, content in ((1, b"first"), (2, b"second")):
            with px.open(device, partition=number) as volume:
                assert volume.read_bytes("/name") == content
        run_well(sfdisk, "--verify", device)
    for partition in (one, two):
        part = tmp_path / partition.name
        with image.open("rb") as disk:
            disk.seek(partition.offset)
            part.write_bytes(disk.read(partition.length))
        assert fsck_counts(part) == (1, 1)


def test_discarded_clusters_leave_holes(tmp_path: Path) -> None:
    """A freed file's clusters are given back by the loop device to the file system below."""
    image = new_image(tmp_path / "image", 64 * MIB)
    with loop_device(image) as device:
        with px.format(device, policy={"discard": True}) as volume:
            volume.write_bytes("/large", os.urandom(24 * MIB))
            volume.sync()
            os.sync()
            full = image.stat().st_blocks * 512
            assert full >= 24 * MIB
            volume.unlink("/large")
        os.sync()
        assert image.stat().st_blocks * 512 <= full - 20 * MIB
        assert fsck_counts(device) == (1, 0)


def test_size_is_the_device_s_own(tmp_path: Path) -> None:
    image = new_image(tmp_path / "image", 8 * MIB)
    with loop_device(image) as device, pytest.raises(ValueError, match="size"):
        px.format(device, size="4 MiB")


def test_write_protection(tmp_path: Path) -> None:
    image = new_image(tmp_path / "image", 8 * MIB)
    px.format(image, label="protected").close()
    before = image.read_bytes()
    with loop_device(image, read_only=True) as device:
        with px.open(device) as volume:
            assert (volume.label, volume.readonly) == ("protected", True)
        for attempt in (lambda: px.open(device, "r+"), lambda: px.format(device)):
            with pytest.raises(OSError, match=str(device)) as caught:
                attempt()
            assert caught.value.errno == errno.EROFS
    assert image.read_bytes() == before
