"""What people do with files: archives, compression, tables and copies of the standard library."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import shutil
import sqlite3
import tarfile
import wave
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_support import make_volume, pattern

import pyexfat as px


@pytest.fixture
def vol() -> Iterator[px.Volume]:
    with make_volume() as volume:
        yield volume


@pytest.mark.parametrize("buffering", [-1, 0])
def test_zip_is_written_read_and_appended_to(
    vol: px.Volume, tmp_path: Path, buffering: int
) -> None:
    data = pattern(300_000)
    with vol.open("a.zip", "wb", buffering) as f, zipfile.ZipFile(f, "w") as z:
        z.writestr("one.txt", "eins")
        z.writestr("big.bin", data, zipfile.ZIP_DEFLATED)
    with vol.open("a.zip", "r+b", buffering) as f, zipfile.ZipFile(f, "a") as z:
        z.writestr("two.txt", "zwei")
    with vol.open("a.zip", "rb", buffering) as f, zipfile.ZipFile(f) as z:
        assert z.testzip() is None
        assert z.namelist() == ["one.txt", "big.bin", "two.txt"]
        assert z.read("big.bin") == data
    out = tmp_path / "a.zip"
    vol.copy_out("a.zip", out)
    with zipfile.ZipFile(out) as z:
        assert z.read("two.txt") == b"zwei"


@pytest.mark.parametrize("mode", ["", ":gz", ":xz", "|gz"])
def test_tar_in_both_directions(vol: px.Volume, tmp_path: Path, mode: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.bin").write_bytes(pattern(100_000))
    with vol.open("a.tar", "wb") as f, tarfile.open(fileobj=f, mode="w" + mode) as t:
        t.add(tmp_path / "in", "in")
    with vol.open("a.tar", "rb") as f, tarfile.open(fileobj=f, mode="r" + mode) as t:
        if mode == "|gz":
            names = [member.name for member in t]
        else:
            names = t.getnames()
            member = t.extractfile("in/x.bin")
            assert member is not None
            assert member.read() == pattern(100_000)
        assert names == ["in", "in/x.bin"]


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_compression(vol: px.Volume, module: object) -> None:
    data = b"compressible " * 50_000
    with vol.open("c", "wb") as f, module.open(f, "wb") as z:  # type: ignore[attr-defined]
        z.write(data)
    assert vol.stat("c").st_size < len(data) // 10
    with vol.open("c", "rb") as f, module.open(f, "rb") as z:  # type: ignore[attr-defined]
        assert z.read() == data


def test_csv(vol: px.Volume) -> None:
    rows = [["t", "v"], ["1", "a,b"], ["2", 'say "x"\nand more']]
    with vol.open("t.csv", "w", newline="") as f:
        csv.writer(f).writerows(rows)
    with vol.open("t.csv", newline="") as f:
        assert list(csv.reader(f)) == rows
    assert vol.read_bytes("t.csv").startswith(b't,v\r\n1,"a,b"\r\n')


def test_json_and_pickle(vol: px.Volume) -> None:
    thing = {"a": [1, 2, {"b": None}], "ü": "€"}
    with vol.open("j", "w", encoding="utf-8") as f:
        json.dump(thing, f)
    with vol.open("j", encoding="utf-8") as f:
        assert json.load(f) == thing
    with vol.open("p", "wb") as f:
        pickle.dump(thing, f)
    with vol.open("p", "rb") as f:
        assert pickle.load(f) == thing


def test_wave(vol: px.Volume) -> None:
    with vol.open("s.wav", "wb") as f, wave.open(f, "wb") as w:
        w.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
        w.writeframes(bytes(16_000))
    with vol.open("s.wav", "rb") as f, wave.open(f, "rb") as w:
        assert w.getnframes() == 8000


@pytest.mark.parametrize("buffering", [-1, 0])
def test_copyfileobj_in_and_out(vol: px.Volume, tmp_path: Path, buffering: int) -> None:
    data = pattern(1_500_000)
    source = tmp_path / "in"
    source.write_bytes(data)
    with source.open("rb") as i, vol.open("f", "wb", buffering) as o:
        shutil.copyfileobj(i, o)
    target = tmp_path / "out"
    with vol.open("f", "rb", buffering) as i, target.open("wb") as o:
        shutil.copyfileobj(i, o)
    assert target.read_bytes() == data


def test_a_sqlite_database_is_carried(vol: px.Volume, tmp_path: Path) -> None:
    path = tmp_path / "db"
    db = sqlite3.connect(path)
    db.execute("create table t (x)")
    db.executemany("insert into t values (?)", [(i,) for i in range(1000)])
    db.commit()
    db.close()
    vol.copy_in(path, "db")
    back = tmp_path / "back"
    vol.copy_out("db", back)
    db = sqlite3.connect(back)
    assert db.execute("select sum(x) from t").fetchone() == (499_500,)
    db.close()


def test_files_are_the_types_that_people_check_for(vol: px.Volume) -> None:
    with vol.open("f", "w") as f:
        assert isinstance(f, io.TextIOWrapper)
        assert isinstance(f.buffer.raw, io.RawIOBase)
    with vol.open("f", "r+b") as f:
        assert isinstance(f, io.BufferedRandom)
