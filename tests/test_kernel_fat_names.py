"""Short names as the kernel shows them in each of its modes and code pages, written by us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import missing
from model.rawfat import RawEntry, read_image
from peers import fat, trees
from peers.fat import MIB, SHORT_NAMES, Geometry, fsck, made, raw
from peers.guest import ask, letter
from peers.trees import Tree
from test_kernel_fat import PAGES, VFAT

import pyexfat as px

# What mount's option shortname= makes of a name without long entries.
MODES: dict[str, Callable[[RawEntry], str]] = {
    "lower": lambda entry: entry.short.lower(),
    "win95": lambda entry: entry.short,
    "winnt": lambda entry: entry.name,
    "mixed": lambda entry: entry.name,
}
LONG = ["Mixed.Text", "x.y.z", "with two words", "n" * 200, "Ünïcödé 😀"]


def shown(tree: Tree, image: Path, mode: str) -> Tree:
    """The tree with names as that mode has them."""
    found = read_image(image.read_bytes())
    names: dict[str, str] = {"": ""}
    for path in sorted(tree):
        entry = found.tree[f"/{path}"]
        above = names[path.rpartition("/")[0]]
        names[path] = f"{above}/{entry.name if entry.has_long else MODES[mode](entry)}".lstrip("/")
    return {names[path]: item for path, item in tree.items()}


def without_long_names(image: Path, page: int) -> None:
    """Long entries are deleted: what is left of names is in the code page."""
    content = bytearray(image.read_bytes())
    found = read_image(content, codepage=f"cp{page}")
    for entry in found.tree.values():
        for i in range(entry.entries - 1 if entry.has_long else 0):
            content[entry.offset + 32 * i] = 0xE5
    image.write_bytes(content)


@pytest.mark.guest
def test_short_names_as_the_kernel_shows_them(tmp_path: Path) -> None:
    modes = made(tmp_path / "modes", Geometry(16, 24 * MIB, per_cluster=2))
    with px.open(modes, "r+", tz="utc") as volume:
        for directory in ("/", "/lower.dir", "/UPPER.DIR"):
            if directory != "/":
                volume.mkdir(directory)
            for name in [*SHORT_NAMES, *LONG]:
                volume.write_bytes(f"{directory}/{name}", name.encode())
        tree = fat.as_fat(trees.of_volume(volume))
    script = "".join(f"show a {mode} shortname={mode}\n" for mode in MODES)

    pages, ours = {}, {}
    for number, (page, names) in enumerate(PAGES.items(), 1):
        pages[page] = image = made(tmp_path / str(page), Geometry(16, 24 * MIB, per_cluster=2))
        with px.open(image, "r+", tz="utc", codepage=page) as volume:
            volume.mkdir("/DIR")
            for name in names:
                volume.write_bytes(f"/{name}", name.encode())
                volume.write_bytes(f"/DIR/{name}", name.encode())
        raw(image, codepage=f"cp{page}")
        without_long_names(image, page)
        with px.open(image, tz="utc", codepage=page) as volume:
            ours[page] = trees.of_volume(volume)
            assert {name for name in names if name == name.upper()} <= set(volume.listdir())
        if page != 932:  # fsck.fat takes the second byte of a pair for a character
            assert fsck(image) == len(ours[page])
        script += f"show {letter(number)} {page} codepage={page}\n"
    answers = ask(VFAT + _with_pages(script), [modes, *pages.values()], tmp_path)

    for mode in MODES:
        assert answers.tree(mode) == shown(tree, modes, mode), mode
    assert answers.tree("lower") != answers.tree("win95") != answers.tree("mixed")
    if len(answers.files["pages"].split()) != len(PAGES):
        missing("a module for the code pages of the guest's kernel (tests/guest/fetch-modules)")
    for page, expected in ours.items():
        assert answers.tree(str(page)) == expected, page


def _with_pages(script: str) -> str:
    """What needs a code page is only done where the guest has it."""
    lines = (
        line
        if "codepage=" not in line
        else f"[ -f /modules/nls_cp{line.split('=')[1]}.ko ] && {line} || :"
        for line in script.splitlines()
    )
    return "\n".join(lines) + "\n"
