"""What a bench says: a table on the terminal, JSON, and a page with curves drawn as SVG."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .seeds import Result, Row
    from .workloads import Spread

    Series = Mapping[str, Sequence[tuple[float, float]]]

Grid = tuple[list[str], list[list[str]]]
"""Headings, and rows of cells: text first, then numbers."""


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


# ---- text ----


def seconds_text(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{three(seconds / size)} {unit}"
    return f"{three(seconds / 1e-9)} ns"


def three(value: float) -> str:
    """A number with three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def spread_text(spread: Spread) -> str:
    """The median, and how far measurements are from it in percent."""
    if len(spread.values) < 2 or spread.median == 0:
        return seconds_text(spread.median)
    off = max(max(spread.values) - spread.median, spread.median - min(spread.values))
    return f"{seconds_text(spread.median)} \u00b1{off / spread.median * 100:.0f}%"


def times(ratio: float | None) -> str:
    """A ratio."""
    return "" if ratio is None else f"{three(ratio)}x"


# ---- tables of seeds ----


def _published(row: Row) -> str:
    if row.step is None:
        return ""
    pair = row.step.seconds
    before = "" if pair.before is None else f"{pair.before:g} s > "
    after = "" if pair.after is None else f"{pair.after:g} s"
    return f"{before}{after} {times(pair.ratio)}".rstrip()


def seed_times(result: Result) -> Grid:
    """Seconds of each column, and ratios beside those that were published."""
    columns = list(result.table.columns)
    mechanism, *more = columns[1:]  # what the published ratio is about, and what else we have
    headings = ["", *columns, f"{mechanism} is", "published", *(f"{name} is" for name in more)]
    rows = [
        [
            row.name,
            *(spread_text(row.seconds[name]) for name in columns),
            times(row.ratio(mechanism)),
            _published(row),
            *(times(row.ratio(name)) for name in more),
        ]
        for row in result.rows
        if not row.detail
    ]
    return headings, rows


_COUNTER_HEADINGS = {
    "bytes_written": "KiB written", "bytes_zeroed": "KiB zeroed", "device_flushes": "flushes",
    "fat_writes": "FAT writes", "fat_bytes": "FAT KiB", "fat_entries_written": "FAT entries",
}  # fmt: skip


def _counts(row: Row, key: str) -> str:
    unit = 1024 if "bytes" in key else 1
    return " / ".join(f"{one[key] / unit:,.0f}" for one in row.counters.values())


def seed_counters(result: Result) -> Grid:
    """What was counted, in the order of the columns; published KiB where there are some."""
    keys = result.table.counted
    headings = ["", *(_COUNTER_HEADINGS.get(key, key.replace("_", " ")) for key in keys)]
    rows = [
        [row.name, *(_counts(row, key) for key in keys)] for row in result.rows if not row.detail
    ]
    if any(row.step is not None and row.step.written is not None for row in result.rows):
        headings.append("published KiB")
        for row, cells in zip((one for one in result.rows if not one.detail), rows, strict=True):
            written = row.step.written if row.step is not None else None
            kib = ["-" if one is None else str(one) for one in written or ()]
            cells.append(" / ".join(kib))
    return headings, rows


def seed_curves(result: Result) -> str:
    """Cost of a file against the files in the directory, where the table has such points."""
    points = [row for row in result.rows if row.at]
    if len(points) < 2:
        return ""
    times_of: dict[str, list[tuple[float, float]]] = {name: [] for name in result.table.columns}
    visits: dict[str, list[tuple[float, float]]] = {name: [] for name in result.table.columns}
    for row in points:
        for name in result.table.columns:
            each = row.seconds[name].median / row.files
            times_of[name].append((row.at, each * 1e6))
            visits[name].append((row.at, row.counters[name]["entries_visited"] / row.files))
    return chart("microseconds a file", "files in the directory", times_of) + chart(
        "entries visited a file", "files in the directory", visits
    )


# ---- SVG ----

_COLOURS = ("#d6336c", "#e8890c", "#1c7ed6", "#2b8a3e", "#7048e8", "#495057", "#0b7285")
_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 110, 28, 42


def _log_scale(values: Iterable[float], low: int, high: int) -> tuple[float, float, float]:
    """Logarithm of the least value, and pixels for a decade; at least one decade is shown."""
    kept = [value for value in values if value > 0] or [1.0]
    least, most = math.log10(min(kept)), math.log10(max(kept))
    if most - least < 1:
        middle = (least + most) / 2
        least, most = middle - 0.5, middle + 0.5
    return least, most, (high - low) / (most - least)


def _ticks(least: float, most: float) -> list[float]:
    decades = [10.0**n for n in range(math.floor(least), math.ceil(most) + 1)]
    if most - least <= 1.5:
        decades = [base * step for base in decades for step in (1, 2, 5)]
    return [tick for tick in decades if least - 1e-9 <= math.log10(tick) <= most + 1e-9]


def _short(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def chart(title: str, across: str, series: Series) -> str:
    """Curves over logarithmic axes, as one SVG element."""
    points = [point for line in series.values() for point in line]
    x0, x1, x_step = _log_scale((x for x, _ in points), _LEFT, _WIDTH - _RIGHT)
    y0, y1, y_step = _log_scale((y for _, y in points), _TOP, _HEIGHT - _BOTTOM)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + (math.log10(x) - x0) * x_step,
            _HEIGHT - _BOTTOM - (max(math.log10(max(y, 1e-12)), y0) - y0) * y_step,
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'width="{_WIDTH}" height="{_HEIGHT}"><title>{escape(title)}</title>',
        f'<text x="{_LEFT}" y="16" class="t">{escape(title)}</text>',
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{escape(across)}</text>",
    ]
    for tick in _ticks(y0, y1):
        _, y = place(10**x0, tick)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" class="g"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>'
        )
    for tick in _ticks(x0, x1):
        x, _ = place(tick, 10**y0)
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{_short(tick)}</text>"
        )
    ends: list[float] = []
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        placed = [place(x, y) for x, y in line if x > 0]
        if not placed:
            continue
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        label = placed[-1][1]
        while any(abs(label - other) < 13 for other in ends):  # labels must not overlap
            label += 13
        ends.append(label)
        parts.append(
            f'<text x="{placed[-1][0] + 8:.1f}" y="{label + 4:.1f}" class="t" '
            f'style="fill:{colour}">{escape(name)}</text>'
        )
    return "".join(parts) + "</svg>\n"


# ---- HTML ----

_STYLE = """\
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
svg text { font-size: 12px; fill: currentColor; }
svg .t { font-weight: 600; } svg .g { stroke: #8883; fill: none; }
"""


def html_table(grid: Grid) -> str:
    """A table element."""
    headings, rows = grid
    head = "".join(f"<th>{escape(one)}</th>" for one in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(one)}</td>" for one in row) + "</tr>\n" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>\n"


def page(title: str, sections: Iterable[tuple[str, str, str]]) -> str:
    """A page without anything from elsewhere; sections are (heading, text, HTML)."""
    about = ", ".join(f"{name}: {value}" for name, value in machine().items())
    body = "".join(
        f"<h2>{escape(heading)}</h2>\n<p>{escape(text)}</p>\n{content}"
        for heading, text, content in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n<p>{escape(about)}</p>\n{body}</body></html>\n"
    )


def seeds_page(results: Iterable[Result]) -> str:
    """All tables with their curves."""
    return page(
        "pyexfat bench seeds",
        (
            (
                f"Table {result.table.number}: {result.table.title}",
                result.table.setup,
                seed_curves(result)
                + html_table(seed_times(result))
                + html_table(seed_counters(result)),
            )
            for result in results
        ),
    )
