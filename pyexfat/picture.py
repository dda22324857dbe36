"""A volume's clusters as a picture: what each holds, for the terminal and as SVG.

``cluster_map(volume)`` walks the tree once, reads the allocation bitmap and sums both up in a
bounded number of cells, so that a picture of a big volume is no bigger than one of a small volume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args
from xml.sax.saxutils import escape

from ._layout import Layout, Run, exfat_layout, fat_layout
from ._text import visible
from ._tree import walk
from .sizes import format_size

if TYPE_CHECKING:
    from .volume import Volume

Kind = Literal["chosen", "directory", "fragmented", "file", "system", "unowned", "free"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a cluster can hold; where a cell holds several, the largest share gives its colour."""

MEANING: dict[Kind, str] = {
    "chosen": "the file asked for",
    "directory": "directories",
    "fragmented": "files in several pieces",
    "file": "files in one piece",
    "system": "bitmap and up-case table",
    "unowned": "taken, but owned by no file",
    "free": "free",
}
_LETTERS: dict[Kind, str] = {
    "chosen": "@", "directory": "d", "fragmented": "%", "file": "#", "system": "s",
    "unowned": "?", "free": ".",
}  # fmt: skip
_COLOURS: dict[Kind, tuple[str, str]] = {  # on light and on dark ground
    "chosen": ("#d6336c", "#ff6b9d"),
    "directory": ("#e8890c", "#ffb454"),
    "fragmented": ("#b8336a", "#d982ff"),
    "file": ("#1f77b4", "#6cb6ff"),
    "system": ("#6b7280", "#a3acb9"),
    "unowned": ("#c92a2a", "#ff5f56"),
    "free": ("#e9ecef", "#2d333b"),
}
_SHADES = " \u2591\u2592\u2593\u2588"


@dataclass
class MapCell:
    """Some neighbouring clusters: how many are of each kind, and who owns them."""

    first: int
    """Number of the first cluster, as the format counts (the first of the heap is 2)."""
    count: int
    clusters: dict[Kind, int] = field(default_factory=dict)
    owner: str | None = None
    """Path of one owner."""
    owners: int = 0
    """How many files, directories and structures have a part in the cell."""

    @property
    def kind(self) -> Kind:
        """ "free" when all are, otherwise the kind of most of those that are not."""
        if "chosen" in self.clusters:
            return "chosen"
        return max(self.clusters, key=lambda kind: self.clusters[kind], default="free")

    @property
    def used(self) -> float:
        """Share of the clusters that are not free, 0 to 1."""
        return min(1.0, sum(self.clusters.values()) / self.count)


@dataclass
class ClusterMap:
    """A picture of a volume; ``print(map)`` shows it as text, Jupyter as SVG."""

    title: str
    cluster_size: int
    clusters: int
    """How many the volume has."""
    clusters_per_cell: int
    cells: list[MapCell]
    totals: dict[Kind, int]
    """Clusters of each kind on the whole volume."""

    def rows(self, columns: int = 64) -> Iterator[list[MapCell]]:
        """The cells in lines of ``columns``."""
        for start in range(0, len(self.cells), columns):
            yield self.cells[start : start + columns]

    def to_text(self, columns: int = 64) -> str:
        """The picture with a letter for each cell, and the legend; ASCII but for names."""
        lines = ["".join(letter(cell) for cell in row) for row in self.rows(columns)]
        lines += ["", *(f"{_LETTERS[kind]}  {text}" for kind, text in self.legend())]
        return "\n".join([*lines, "", self.scale()])

    def legend(self) -> list[tuple[Kind, str]]:
        """The kinds that occur, with their meaning, clusters and size."""
        return [
            (kind, f"{MEANING[kind]}: {n} ({format_size(n * self.cluster_size)})")
            for kind in KINDS
            if (n := self.totals.get(kind, 0))
        ]

    def scale(self) -> str:
        """How much one cell stands for."""
        size = format_size(self.clusters_per_cell * self.cluster_size)
        noun = "cluster" if self.clusters_per_cell == 1 else "clusters"
        return f"a cell is {self.clusters_per_cell} {noun} ({size})"

    def to_svg(self, columns: int = 64, cell: int = 12) -> str:
        """The picture as an SVG document that stands alone, with the owners as tooltips; cells
        ``cell`` pixels wide.
        """
        return _svg(self, columns, cell)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __str__(self) -> str:
        """The picture as text."""
        return self.to_text()


def letter(cell: MapCell) -> str:
    """One ASCII character for a cell."""
    return _LETTERS[cell.kind]


def shade(cell: MapCell) -> str:
    """One block character for a cell, the fuller the more of it is in use."""
    used = cell.used
    return "\u00b7" if used == 0 else _SHADES[1 + min(3, int(used * 4))]


def colour(kind: Kind) -> str:
    """The colour of a kind on dark ground, as ``#rrggbb``."""
    return _COLOURS[kind][1]


def cluster_map(
    volume: Volume,
    path: str | None = None,
    *,
    cells: int = 1024,
    failed: Callable[[str, OSError], None] | None = None,
) -> ClusterMap:
    """The picture of a volume in at most ``cells`` cells; what belongs to ``path`` and below is
    marked as chosen.

    What can't be read on a damaged volume goes to ``failed`` with its path, and without one is
    raised as OSError; the same for a ``path`` that does not exist.
    """
    if cells < 1:
        raise ValueError("cells must be at least 1")
    layout = _layout_of(volume)
    per_cell = 1
    while per_cell * cells < layout.clusters:
        per_cell *= 2
    result = ClusterMap(
        title=volume.label or f"{volume.fs} volume",
        cluster_size=layout.cluster_size,
        clusters=layout.clusters,
        clusters_per_cell=per_cell,
        cells=[
            MapCell(at + 2, min(per_cell, layout.clusters - at))
            for at in range(0, layout.clusters, per_cell)
        ],
        totals={},
    )
    for name, run in layout.system:
        _add(result, "system", name, [run])
    chosen = None if path is None else _identities(volume, path)
    for step in walk(volume, "/", failed=failed):
        if step.what == "leave":
            continue
        try:
            runs = _runs(volume, step.path, layout)
        except OSError as error:
            if failed is None:
                raise
            failed(step.path, error)
            continue
        kind: Kind = "fragmented" if len(runs) > 1 else "file"
        if step.what == "enter":
            kind = "directory"
        if chosen and step.stat.st_ino in chosen:
            kind = "chosen"
        _add(result, kind, step.path, runs)
    _add_free(result, layout)
    return result


def _layout_of(volume: Volume) -> Layout:
    def read(offset: int, length: int) -> bytes:
        return volume.read_raw(length, offset)

    if volume.fs != "exfat":
        clusters, width = volume.usage().clusters, int(volume.fs.removeprefix("fat"))
        return fat_layout(read, clusters, volume.cluster_size, width)
    return exfat_layout(read, 12 * volume.sector_size if volume.from_backup else 0)


def _identities(volume: Volume, path: str) -> set[int]:
    return {step.stat.st_ino for step in walk(volume, path)}


def _runs(volume: Volume, path: str, layout: Layout) -> list[Run]:
    """The clusters of a file, neighbours joined, clipped to the heap."""
    runs: list[Run] = []
    for extent in volume.extents(path):
        start = (extent.device_offset - layout.heap_offset) // layout.cluster_size
        end = extent.device_offset + extent.length - layout.heap_offset
        end = -(-end // layout.cluster_size)
        start, end = max(0, start), min(end, layout.clusters)
        if runs and sum(runs[-1]) >= start >= runs[-1][0]:
            runs[-1] = (runs[-1][0], max(end, sum(runs[-1])) - runs[-1][0])
        elif end > start:
            runs.append((start, end - start))
    return runs


def _add(result: ClusterMap, kind: Kind, owner: str, runs: list[Run]) -> None:
    seen = -1
    for start, count in runs:
        result.totals[kind] = result.totals.get(kind, 0) + count
        for index, n in _shares(result, start, count):
            cell = result.cells[index]
            cell.clusters[kind] = cell.clusters.get(kind, 0) + n
            cell.owner = cell.owner or owner
            cell.owners += index != seen
            seen = index


def _shares(result: ClusterMap, start: int, count: int) -> Iterator[tuple[int, int]]:
    """Index of each cell that a run touches, and how many of its clusters are there."""
    per_cell, end = result.clusters_per_cell, start + count
    for index in range(start // per_cell, -(-end // per_cell)):
        first = index * per_cell
        yield index, min(end, first + per_cell) - max(start, first)


def _add_free(result: ClusterMap, layout: Layout) -> None:
    """Compares the bitmap with what has an owner: the rest of what is taken is unowned."""
    taken = [0] * len(result.cells)
    for first, piece in layout.taken():
        for index, n in _shares(result, first, min(len(piece) * 8, layout.clusters - first)):
            start = max(index * result.clusters_per_cell, first) - first
            bits = int.from_bytes(piece[start // 8 : -(-(start + n) // 8)], "little") >> start % 8
            taken[index] += (bits & ((1 << n) - 1)).bit_count()
    unowned = 0
    for cell, n in zip(result.cells, taken, strict=True):
        missing = n - sum(cell.clusters.values())
        if missing > 0:
            cell.clusters["unowned"] = missing
            unowned += missing
    result.totals["unowned"] = unowned
    result.totals["free"] = max(0, layout.clusters - sum(taken))


def _svg(picture: ClusterMap, columns: int, cell: int) -> str:
    legend = picture.legend()
    lines = -(-len(picture.cells) // columns)
    top, line = 2 * cell + 8, 18
    wide = max(columns * cell, 360)
    tall = top + lines * cell + 12 + line * (len(legend) + 1)
    title = escape(visible(picture.title))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" '
        f'height="{tall}" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f"<style>{_css()}</style>",
        f'<text x="0" y="{cell + 2}" class="text" font-weight="bold">{title}</text>',
    ]
    for number, row in enumerate(picture.rows(columns)):
        y = top + number * cell
        for at, length in _equal(row):
            out.append(_bar(row[at : at + length], at * cell, y, cell))
    y = top + lines * cell + 12
    for kind, text in legend:
        out.append(f'<rect x="0" y="{y}" width="12" height="12" class="{kind}"/>')
        out.append(f'<text x="18" y="{y + 11}" class="text">{escape(text)}</text>')
        y += line
    out.append(f'<text x="0" y="{y + 11}" class="text">{escape(picture.scale())}</text>')
    return "\n".join([*out, "</svg>\n"])


def _equal(row: list[MapCell]) -> Iterator[tuple[int, int]]:
    """Start and length of neighbours that look alike and say the same, so that the file stays
    small.
    """
    start = 0
    for i in range(1, len(row) + 1):
        if i == len(row) or _look(row[i]) != _look(row[start]):
            yield start, i - start
            start = i


def _look(cell: MapCell) -> tuple[Kind, int, str | None, int]:
    return cell.kind, round(cell.used * 10), cell.owner, cell.owners


def _bar(cells: list[MapCell], x: int, y: int, cell: int) -> str:
    first, last = cells[0].first, cells[-1].first + cells[-1].count - 1
    kind, tenths, owner, owners = _look(cells[0])
    tip = [f"clusters {first} to {last}" if last > first else f"cluster {first}"]
    tip.append(kind if owner is None else visible(owner))
    if owners > 1:
        tip[-1] += f" and {owners - 1} more"
    opacity = "" if kind == "free" else f' fill-opacity="{max(0.25, tenths / 10):g}"'
    right = x + len(cells) * cell
    # One subpath for each cell: they stay apart to the eye without an element for each.
    squares = "".join(
        f"M{at} {y}h{cell - 1}v{cell - 1}h{1 - cell}z" for at in range(x, right, cell)
    )
    title = escape(": ".join(tip))
    return f'<path d="{squares}" class="{kind}"{opacity}><title>{title}</title></path>'


def _css() -> str:
    light = "".join(f".{kind}{{fill:{pair[0]}}}" for kind, pair in _COLOURS.items())
    dark = "".join(f".{kind}{{fill:{pair[1]}}}" for kind, pair in _COLOURS.items())
    return (
        f".text{{fill:#222}}{light}@media (prefers-color-scheme:dark){{.text{{fill:#ddd}}{dark}}}"
    )
