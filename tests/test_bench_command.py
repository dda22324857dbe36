"""``pyexfat bench``: what its commands print and write."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import require_tool

import pyexfat as px
from pyexfat.bench import fat_peers, io, peers, scale, seeds
from pyexfat.bench.workloads import Stage
from pyexfat.cli import main

SVG = "{http://www.w3.org/2000/svg}"


def run(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["bench", *args]) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return err if code else out


# ---- seeds ----


def test_seeds_as_json_and_as_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "seeds.html"
    args = ("seeds", "--only", "5", "--files", "400", "--runs", "2", "--json", "--html", str(page))
    record: dict[str, Any] = json.loads(run(capsys, *args))
    (table,) = record["tables"]
    assert table["table"] == 5
    assert table["columns"]["before"]["name_filter"] is False
    (row,) = table["rows"]
    assert row["files"] == 400
    # All off: two walks of all sets for each create; a set has 3 entries, and may leave one free.
    assert 3 * 400 * 400 <= row["before"]["counters"]["entries_visited"] <= 3.3 * 400 * 401
    assert row["ours"]["counters"]["entries_visited"] <= 4 * 400
    assert row["ratios"]["ours"]["entries_visited"] > 100
    assert "published" not in row  # other figures than for 20,000 files
    assert len(row["ours"]["seconds"]["runs"]) == 2
    assert [point["files_at_end"] for point in table["growth"]] == list(range(40, 401, 40))
    root = ElementTree.fromstring(page.read_text().partition("\n")[2])
    assert len(list(root.iter(f"{SVG}svg"))) == 2
    assert len(list(root.iter("table"))) == 2


def test_seeds_on_the_terminal_on_a_slow_file(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(
        capsys, "seeds", "--only", "1", "--runs", "1", "--device", "file", "--slow-device", "usb"
    )
    assert "Table 1: remember the empty slots" in text
    assert "73.629 s > 46.772 s 1.57x" in text
    assert "before / after / ours" in text
    assert [line.split()[0] for line in text.splitlines() if line[:1].isdigit()].count(
        "1-1000"
    ) == 2


def test_table_two_does_every_case() -> None:
    work = seeds.entry_sets(files=20, lengths=(15,))
    samples = work(Stage(), px.Policy())
    assert [sample.name for sample in samples] == [
        "create 15 dirsync", "unlink 15 dirsync", "create 15 lazy", "unlink 15 lazy",
    ]  # fmt: skip
    assert samples[0].counters["device_flushes"] == 21


def test_table_three_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case = (3, 512, "64 KiB", "fallocate", True)
    table = seeds.make_tables()[3]
    small = replace(table, work=seeds.growth([case]))
    monkeypatch.setattr(seeds, "make_tables", lambda *_: {3: small})
    page = tmp_path / "seeds.html"
    args = ("seeds", "--runs", "2", "--html", str(page))
    record: dict[str, Any] = json.loads(run(capsys, *args, "--json"))
    (one,) = record["tables"]
    assert one["columns"]["before"]["preallocate"] is False
    assert one["columns"]["ours"] == px.Policy().as_dict()
    (row,) = one["rows"]
    assert row["name"] == "3 x 64 KiB, clusters of 512, fallocate, sync"
    before, ours = (row[name]["counters"] for name in ("before", "ours"))
    assert before["clusters_allocated"] == ours["clusters_allocated"] == 3 * 128
    assert before["device_flushes"] >= 3 * 128
    assert ours["device_flushes"] <= 3 * 3
    assert "published" not in row
    text = run(capsys, *args)
    assert "counts are before / ours" in text
    assert "after" not in text
    assert "FAT KiB" in page.read_text()


def test_table_three_without_sync_is_shown_alone_and_with_a_sync(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = (3, 512, "64 KiB", "ftruncate", False)
    small = replace(seeds.make_tables()[3], work=seeds.growth([case]))
    monkeypatch.setattr(seeds, "make_tables", lambda *_: {3: small})
    record: dict[str, Any] = json.loads(run(capsys, "seeds", "--runs", "1", "--json"))
    alone, synced = record["tables"][0]["rows"]
    assert synced["name"] == alone["name"] + ", then a sync"
    for column in ("before", "ours"):
        first, both = (row[column]["counters"] for row in (alone, synced))
        assert first["clusters_allocated"] == both["clusters_allocated"] == 3 * 128
        assert first["device_writes"] == first["bytes_zeroed"] == 0  # all of it is in memory
        assert both["bytes_zeroed"] == 3 * (64 << 10)
        assert both["device_flushes"] == 2
        assert synced[column]["seconds"]["median"] > alone[column]["seconds"]["median"]


def test_a_device_of_ones_own_is_erased_only_when_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    image = tmp_path / "mine.img"
    image.write_bytes(b"mine" * 1024)
    args = ("seeds", "--only", "5", "--files", "20", "--runs", "1", "--device", str(image))
    assert "--erase" in run(capsys, *args, code=2)
    assert image.read_bytes() == b"mine" * 1024
    os.truncate(image, 64 << 20)
    run(capsys, *args, "--erase")
    with px.open(image) as volume:
        assert len(volume.listdir("/d")) == 20


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("seeds", "--only", "4"), "1, 2, 3, 5"),
        (("seeds", "--real-sleep"), "--slow-device"),
        (("peers", "--only", "nobody"), "exfat-fuse"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], word: str) -> None:
    assert word in run(capsys, *args, code=2)


# ---- scale ----


def test_scale(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "scale.html"
    args = ("scale", "--sizes", "400,100", "--runs", "1", "--json", "--html", str(page))
    points = json.loads(run(capsys, *args))["points"]
    assert [(one["operation"], one["files"]) for one in points] == [
        (name, size) for size in (100, 400) for name in scale.OPERATIONS
    ]
    assert all(one["seconds_each"]["median"] > 0 for one in points)
    assert "create_many" in page.read_text()
    text = run(capsys, "scale", "--sizes", "100", "--runs", "1")
    assert "churn" in text


def test_what_scale_measures_leaves_the_directory_as_it_says() -> None:
    samples = {one.name: one for one in scale.measure(Stage(), 1000, 50, px.Policy())}
    assert {one.at for one in samples.values()} == {1000}
    assert samples["create_many"].files == 1000
    assert samples["churn"].files == 50
    assert samples["miss"].counters["lookups_missed"] == 50
    assert samples["hit"].counters["lookups_missed"] == 0
    assert samples["delete at random"].counters["sets_written"] == 50


def test_round_robin_counts_wrong_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scale.round_robin(directories=3, files=10, rounds=1, budget=65536).wrong == 0
    monkeypatch.setattr(px.Volume, "kind", lambda *_: 1)  # everything is there
    outcome = scale.round_robin(directories=3, files=10, rounds=1, budget=65536)
    assert (outcome.lookups, outcome.wrong) == (12, 6)


# ---- io ----


def test_copies_are_whole_and_compared(tmp_path: Path) -> None:
    found = io.copies(str(tmp_path), 4 << 20, 1)
    assert [one.unit for one in found] == ["x", "x"]
    assert all(one.value > 0 and one.limit == 1.25 for one in found)
    assert list(tmp_path.iterdir()) == []


def test_sparse_allocation_writes_no_data(tmp_path: Path) -> None:
    found = {one.name: one for one in io.sparse(str(tmp_path))}
    # 1 TiB in clusters of 128 KiB: 2^23 bits, 1 MiB of bitmap; no sector of the file.
    for call in ("fallocate", "truncate"):
        assert found[f"{call} to 1 TiB, written"].value <= (1 << 20) + (64 << 10)


def test_memory_of_a_large_volume(tmp_path: Path) -> None:
    at_open, walked, grown, _ = io.memory(str(tmp_path))
    assert at_open.good
    assert walked.good
    assert at_open.value < 8 << 20
    assert grown.value < 64 << 20
    assert walked.note == "6400 files"


def test_single_calls() -> None:
    found = io.calls(1, 200)
    assert [one.name for one in found] == [
        "touch, a new file", "touch, one that is there", "stat", "read of 4 KiB",
        "create_many, a file",
    ]  # fmt: skip
    assert all(0 < one.value < 1 for one in found)
    headings, rows = io.grid(found)
    assert len({len(row) for row in rows} | {len(headings)}) == 1


# ---- fat ----


def test_what_must_not_grow_on_fat(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("fat", "--size", "64M", "--fragments", "300", "--files", "6000", "--runs", "1")
    findings = json.loads(run(capsys, *args, "--json"))["findings"]
    assert len(findings) == 2 + 4 + 2 + 5
    counted = [one for one in findings if not one["name"].endswith("seconds")]
    assert counted[0]["name"] == "16 files of 16 MiB, FAT written / the fewest sectors"
    assert counted[0]["value"] == 4097 / 4096  # they begin with entry 3
    assert all(one["good"] for one in counted)
    reads = next(one for one in findings if one["name"].startswith("reads"))
    # 300 pieces of 42 clusters: each entry but the first is read, once.
    assert reads["note"] == "300 pieces, 12,599 entries read by the first"
    assert reads["value"] == 0
    assert "append, last tenth / first" in run(capsys, *args)


# ---- peers ----


def test_peers_say_why_they_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYEXFAT_SHARED", str(tmp_path))
    monkeypatch.setattr(peers, "_path", lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "FATtools.Volume", None)
    args = ("peers", "--files", "50", "--runs", "1", "--json")
    record = {one["peer"]: one for one in json.loads(run(capsys, *args))["peers"]}
    assert record["exfat-fuse"]["skipped"] == "mount.exfat-fuse is not installed"
    assert record["kernel"]["skipped"] == "mount is not installed"
    assert "PYEXFAT_SHARED" in record["kernel in qemu"]["skipped"]
    assert record["FATtools"]["skipped"] == "FATtools can't be imported"
    for ours in ("pyexfat", "pyexfat before"):
        assert set(record[ours]["seconds_a_file"]) == set(peers.STEPS)
    text = run(capsys, "peers", "--files", "50", "--runs", "1", "--only", "FATtools")
    assert "skipped: FATtools can't be imported" in text


def test_a_peer_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(folder: str, files: int) -> peers.Times:
        raise RuntimeError("its own mistake")

    monkeypatch.setitem(peers.PEERS, "FATtools", ("Python", broken))
    done = peers.run(folder=str(tmp_path), files=50, runs=2, only=["FATtools", "pyexfat"])
    by_name = {one.peer: one for one in done}
    assert by_name["FATtools"].skipped == "failed: RuntimeError: its own mistake"
    assert len(by_name["pyexfat"].each["stat"].values) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_work_of_peers_is_the_same_for_all() -> None:
    said: list[str] = []
    calls = peers.Calls(
        create=lambda name: said.append("+" + name),
        sync=lambda: said.append("sync"),
        stat=lambda name: said.append("?" + name),
        absent=lambda name: said.append("!" + name),
        unlink=lambda name: said.append("-" + name),
    )
    taken = peers.do_work(calls, 10)
    assert list(taken) == list(peers.STEPS)
    made = [word[1:] for word in said if word[0] == "+"]
    assert len(set(made)) == 10
    assert said[:3] == ["+" + made[0], "+" + made[1], "sync"]
    assert said.count("sync") == 6
    assert {word[1:] for word in said if word[0] == "-"} == set(made)
    assert not {word[1:] for word in said if word[0] == "!"} & set(made)


def test_peers_on_fat_say_why_they_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYEXFAT_SHARED", str(tmp_path))
    monkeypatch.setattr(peers, "_path", lambda: str(tmp_path))
    for module in ("FATtools.Volume", "pyfatfs.PyFatFS", "fatfs"):
        monkeypatch.setitem(sys.modules, module, None)
    args = ("peers", "--fs", "fat32", "--files", "50", "--runs", "1", "--json")
    record = json.loads(run(capsys, *args))
    assert record["fs"] == "fat32"
    by_name = {one["peer"]: one for one in record["peers"]}
    assert list(by_name) == list(fat_peers.PEERS)
    for name, said in {
        "mtools": "mcopy is not installed",
        "kernel": "mount is not installed",
        "FATtools": "FATtools can't be imported",
        "fatfs-ng": "fatfs-ng can't be imported",
        "pyfatfs": "pyfatfs can't be imported",
    }.items():
        assert by_name[name]["skipped"] == said
    for ours in ("pyexfat", "pyexfat in memory", "pyexfat before"):
        assert set(by_name[ours]["seconds_a_file"]) == set(peers.STEPS)


def test_mtools_makes_the_files_that_ours_makes(tmp_path: Path) -> None:
    require_tool("mcopy")
    for number, name in enumerate(("mtools", "pyexfat")):
        folder = tmp_path / str(number)
        folder.mkdir()
        taken = fat_peers.PEERS[name][1](str(folder), 20)
        assert {"create 1/5", "create 5/5", "unlink"} <= set(taken)
        with px.open(folder / "peer.img") as volume:
            assert volume.listdir("/D") == []
        # What is left of 20 short names, FILE-0~1.TXT and so on.
        assert (folder / "peer.img").read_bytes().count(b"\xe5ILE-") >= 4
        assert (folder / "peer.img").read_bytes().count(b"TXT ") >= 20
