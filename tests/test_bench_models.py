"""The bench's parts that can be checked by hand: models, published figures, pictures, text."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

import pyexfat as px
from pyexfat import Device
from pyexfat.bench import published, report, scale, seeds, slow
from pyexfat.bench.workloads import Sample, Spread, Stage, interleaved, names

SVG = "{http://www.w3.org/2000/svg}"


# ---- the slow device ----


def card() -> slow.Card:
    return slow.Card("test", read=0.25, write=0.5, flush=2.0, read_byte=2**-10, write_byte=2**-9)


def test_a_card_charges_for_commands_bytes_and_flushes() -> None:
    clock = slow.Clock()
    below = Device.memory(1 << 20)
    device = Device.wrap(slow.SlowFile(below, card(), clock), True, below.size)
    device.pwrite(b"x" * 512, 4096)
    assert clock.seconds == 0.5 + 1.0
    device.flush()
    assert clock.seconds == 3.5
    assert device.pread(1024, 4096) == b"x" * 512 + bytes(512)
    assert clock.seconds == 3.5 + 0.25 + 1.0
    device.close()
    assert below.pread(512, 4096) == b"x" * 512


def test_a_sleeping_clock_waits_and_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(slow.time, "sleep", slept.append)
    clock = slow.Clock(sleeps=True)
    clock.spend(0.25)
    assert slept == [0.25]
    assert clock.seconds == 0


def test_modelled_seconds_are_the_counters_at_the_cards_prices() -> None:
    one = card()
    stage = Stage(card=one)
    with stage.volume(size=64 << 20, cluster_size=4096, policy=px.Policy(), sync="dirsync") as vol:
        vol.mkdir("/d")
        sample = stage.measure(vol, "w", 3, lambda: [vol.touch(f"/d/{n}") for n in range(3)])
    counters = sample.counters
    prices = counters["device_writes"] * one.write + counters["device_flushes"] * one.flush
    prices += counters["device_reads"] * one.read
    prices += counters["bytes_written"] * one.write_byte + counters["bytes_read"] * one.read_byte
    assert counters["device_flushes"] == 3
    assert prices <= sample.seconds <= prices + 1


def test_cards_by_name_and_with_changes() -> None:
    assert slow.parse_card("class10") is not None
    changed = slow.parse_card("class4,flush=8,write=2")
    assert (changed.flush, changed.write) == (0.008, 0.002)
    assert changed.read == slow.CARDS["class4"].read
    for text in ("class5", "usb,flush", "usb,erase=1", "usb,flush=-1", "usb,flush=x"):
        with pytest.raises(ValueError, match=r"card|cost|float"):
            slow.parse_card(text)


def test_the_slow_file_ends_where_its_device_ends() -> None:
    file = slow.SlowFile(Device.memory(1024), card(), slow.Clock())
    assert file.seek(0, 2) == 1024
    assert file.read(512) == b""
    assert file.seek(-512, 1) == 512
    assert file.read(4096) == bytes(512)


# ---- published figures ----


def test_published_gains_are_those_of_the_texts() -> None:
    first, *_, last = published.EMPTY_SLOTS.values()
    assert first.seconds.ratio == pytest.approx(1.14, abs=0.005)  # "14 %"
    assert last.seconds.ratio == pytest.approx(1.57, abs=0.005)  # "to 57 %"
    real = published.LARGE_DIRECTORY["real"]
    assert real.ratio == pytest.approx(19.5, abs=0.05)
    assert published.Pair(None, 1.0).ratio is None
    for pair, printed in zip(
        published.PREALLOCATE.values(),
        (1.79, 1.71, 162.15, 157.15, 1.23, 1.13, 73.0, 72.42, 1.17, 1.16, 84.06, 79.36),
        strict=True,
    ):
        assert pair.ratio == pytest.approx(printed, rel=0.02)


def test_every_published_step_is_a_row() -> None:
    tables = seeds.make_tables()
    assert list(tables) == [1, 2, 3, 5]
    assert len(tables[1].steps) == 5
    assert len(tables[2].steps) == 12
    assert len(tables[3].steps) == 12
    assert tables[3].columns["before"] == px.Policy(preallocate=False)
    assert tables[5].steps.keys() == {"20000 files"}
    assert tables[5].columns["before"] == px.Policy.before()
    assert all(table.columns["ours"] == px.Policy() for table in tables.values())
    after = tables[5].columns["after"]
    assert (after.name_filter, after.empty_hint, after.name_index) == (True, "retained", False)
    assert tables[1].columns["after"].empty_hint == "one-shot"
    assert not tables[1].columns["after"].name_filter


def test_published_growth_is_named_as_the_work_names_it() -> None:
    step = seeds.make_tables()[3].steps["16 x 1 MiB, clusters of 512, ftruncate, sync"]
    assert step.seconds == (58.66, 0.362)
    small = (2, 4096, "8 KiB", "ftruncate", False)
    samples = seeds.growth([small])(Stage(), px.Policy())
    assert [sample.name for sample in samples] == [
        "2 x 8 KiB, clusters of 4096, ftruncate",
        "2 x 8 KiB, clusters of 4096, ftruncate, then a sync",
    ]
    assert [sample.counters["clusters_allocated"] for sample in samples] == [4, 4]


# ---- order, names, words ----


def test_columns_take_turns() -> None:
    order: list[str] = []

    def work(column: str) -> list[Sample]:
        order.append(column)
        return [Sample("w", 1, 0.0, {})]

    done = interleaved(("a", "b", "c"), 3, work)
    assert "".join(order) == "abcbcacab"
    assert [len(runs) for runs in done.values()] == [3, 3, 3]


def test_names_have_the_length_asked_for_and_differ() -> None:
    for length in (15, 120, 255):
        made = names(1000, length)
        assert {len(name) for name in made} == {length}
        assert len(set(made)) == 1000
    assert names(2, 12, 5000) == ["0005000xxxxx", "0005001xxxxx"]


def test_words_for_seconds() -> None:
    for seconds, text in (
        (61.0, "61.0 s"), (1.5, "1.50 s"), (0.1234, "123 ms"), (4.2e-6, "4.20 us"),
        (3e-8, "30.0 ns"), (1234.0, "1,234 s"),
    ):  # fmt: skip
        assert report.seconds_text(seconds) == text
    assert report.spread_text(Spread([1.0, 1.0, 1.5])) == "1.00 s \u00b150%"
    assert report.times(None) == ""
    assert report.times(19.47) == "19.5x"


# ---- pictures ----


def points_of(svg: str) -> list[list[tuple[float, float]]]:
    root = ElementTree.fromstring(svg)
    lines = [one for one in root.iter(f"{SVG}path") if one.get("fill") == "none"]
    return [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", line.get("d") or "")]
        for line in lines
    ]


def test_a_chart_draws_powers_as_straight_lines() -> None:
    square = [(x, x * x) for x in (1.0, 10.0, 100.0)]
    level = [(x, 1.0) for x in (1.0, 10.0, 100.0)]
    steep, flat = points_of(report.chart("t & u", "files <n>", {"square": square, "level": level}))
    (x0, y0), (x1, y1), (x2, y2) = steep
    assert math.isclose(x1 - x0, x2 - x1, abs_tol=0.2)
    assert math.isclose(y0 - y1, y1 - y2, abs_tol=0.2)
    assert y0 > y1 > y2  # up is more
    assert len({y for _, y in flat}) == 1
    assert flat[0][1] == y0


def test_a_chart_of_one_value_and_of_nothing() -> None:
    assert len(points_of(report.chart("t", "x", {"a": [(5.0, 5.0), (5.0, 5.0)]}))) == 1
    assert points_of(report.chart("t", "x", {"a": []})) == []


def test_labels_do_not_overlap() -> None:
    same = {name: [(1.0, 1.0), (10.0, 1.0)] for name in "abcd"}
    root = ElementTree.fromstring(report.chart("t", "x", same))
    tops = [float(one.get("y") or 0) for one in root.iter(f"{SVG}text") if one.text in same]
    assert len(tops) == 4
    assert all(abs(a - b) >= 13 for i, a in enumerate(tops) for b in tops[:i])


def test_the_page_is_whole_and_escapes() -> None:
    text = report.page("a < b", [("h & i", "<script>", report.html_table((["x"], [["<y>"]])))])
    root = ElementTree.fromstring(text.partition("\n")[2])
    assert root.find(".//td").text == "<y>"  # type: ignore[union-attr]
    assert root.find(".//script") is None


# ---- results ----


def test_rows_compare_medians_and_entries() -> None:
    row = seeds.Row(
        "w", 10, 0, False,
        {"before": Spread([8.0, 9.0, 100.0]), "after": Spread([3.0]), "ours": Spread([0.9])},
        {name: {"entries_visited": n} for name, n in (("before", 600), ("after", 6), ("ours", 0))},
        published.Step(published.Pair(10.0, 5.0), published.Written(None, 7)),
    )  # fmt: skip
    assert row.ratio("after") == 3.0
    assert row.ratio("ours") == pytest.approx(10.0)
    assert row.fewer("after") == 100
    record = row.record()
    assert record["published"] == {
        "before": 10.0, "after": 5.0, "ratio": 2.0, "kib_written": {"before": None, "after": 7},
    }  # fmt: skip
    assert record["before"]["seconds"] == {
        "median": 9.0, "min": 8.0, "max": 100.0, "runs": [8.0, 9.0, 100.0],
    }  # fmt: skip


def test_growth_is_the_largest_against_the_least() -> None:
    points = [
        scale.Point(name, files, Spread([files * 1e-9]), 3.0)
        for files in (10, 1000)
        for name in scale.OPERATIONS
    ]
    headings, rows = scale.grid(points)
    assert headings[1:4] == ["10", "1,000", "largest / least"]
    assert [row[3] for row in rows] == ["100x"] * len(scale.OPERATIONS)
    assert ElementTree.fromstring(scale.html(points).partition("\n")[2]).tag == "html"
