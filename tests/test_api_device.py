"""Devices as people make and stack them; the core's own tests go deeper."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from api_support import env

import pyexfat as px


def test_sizes_are_written_as_people_do() -> None:
    with px.Device.memory("1 MiB") as device:
        assert device.size == 1 << 20
        assert device.held == 0
        device.resize("2 MiB")
        assert device.size == 2 << 20
        part = device.slice("1 MiB", "4K")
        assert (part.size, type(part)) == (4096, px.Device)
        part.pwrite(b"x" * 512, 0)
        assert device.pread(512, 1 << 20) == b"x" * 512
    with pytest.raises(ValueError, match="size"):
        px.Device.memory("much")
    with pytest.raises(ValueError, match="offset"):
        px.Device.memory("1M").slice("x", 512)


def test_every_device_is_one() -> None:
    device = px.Device.memory("1 MiB")
    recorder = device.record()
    faults = device.faults()
    assert type(recorder) is px.Recorder
    assert type(faults) is px.Faults
    for one in (recorder, faults, device.branch(), recorder.at(0), recorder.branch()):
        assert isinstance(one, px.Device)
        assert one.size == 1 << 20
    assert isinstance(recorder.record().faults().branch(), px.Device)


def test_a_branch_keeps_its_changes_to_itself() -> None:
    device = px.Device.memory("1 MiB")
    device.pwrite(b"a" * 512, 0)
    branch = device.branch()
    branch.pwrite(b"b" * 512, 0)
    assert device.pread(512, 0) == b"a" * 512
    branch.rollback()
    assert branch.pread(512, 0) == b"a" * 512
    branch.pwrite(b"c" * 512, 0)
    branch.commit()
    assert device.pread(512, 0) == b"c" * 512


def test_a_volume_on_a_branch() -> None:
    device = px.Device.memory("8 MiB")
    with px.format(device, env=env()) as vol:
        vol.write_bytes("f", b"base")
    with px.open(device.branch(), "r+") as vol:
        vol.write_bytes("f", b"changed")
        vol.touch("g")
    with px.open(device) as vol:
        assert vol.read_bytes("f") == b"base"
        assert vol.listdir() == ["f"]


def test_a_recorder_knows_who_wrote_what() -> None:
    recorder = px.Device.memory("8 MiB").record()
    with px.format(recorder, env=env()) as vol:
        recorder.clear()
        vol.write_bytes("/f", bytes(512))
    entries = [recorder.entry(i) for i in range(len(recorder))]
    data = [e for e in entries if e.structure == "data"]
    assert [e.object for e in data] == ["/f"]
    assert any(e.structure == "entry set" for e in entries)
    # As of any point the device can be opened again.
    with px.open(recorder.at(len(recorder))) as vol:
        assert vol.stat("f").st_size == 512
    with px.open(recorder.at(0)) as vol:
        assert vol.listdir() == []


def test_faults_take_a_first_rule() -> None:
    device = px.Device.memory("1 MiB").faults(["write", "flush"], nth=2, error=28)
    device.pwrite(bytes(512), 0)
    with pytest.raises(OSError, match="space"):
        device.flush()
    device.pwrite(bytes(512), 0)
    assert device.count("write") == 2
    device = px.Device.memory("1 MiB").faults(action="die")
    with pytest.raises(OSError, match="error"):
        device.pwrite(bytes(512), 0)


def test_wrapped_objects() -> None:
    stream = io.BytesIO(bytes(4096))
    device = px.Device.wrap(stream, size="2K")
    assert (device.size, device.source) == (2048, stream)
    device.pwrite(b"y" * 512, 512)
    assert stream.getvalue()[512:1024] == b"y" * 512
    device.close()
    assert not stream.closed


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.img"
    with px.Device.file(path, writable=True, create=True) as device:
        device.resize("1M")
    assert path.stat().st_size == 1 << 20
    with px.Device.file(str(path)) as device:
        assert device.readonly
        assert repr(device) == "<Device 'a.img' 1 MiB read-only>"
        with pytest.raises(OSError, match=r"Read-only|Bad"):
            device.pwrite(bytes(512), 0)
    assert repr(device) == "<Device 'a.img' closed>"
    with pytest.raises(ValueError, match="closed"):
        device.pread(512, 0)
    with pytest.raises(FileNotFoundError):
        px.Device.file(tmp_path / "none")
