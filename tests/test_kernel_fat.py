"""The kernel's vfat and msdos drivers read what we write; we read and change what they write."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import missing
from peers import fat, trees
from peers.fat import GEOMETRIES, MIB, Geometry, fsck, fsck_allows, made, raw
from peers.guest import Answers, ask, letter
from peers.trees import Filler, Tree
from test_kernel_exchange import NAMES, WRITE, input_disk

import pyexfat as px

# Over the functions of the same name, which mount exFAT.
VFAT = """
for page in 850 852 866 932; do
    [ -f /modules/nls_cp$page.ko ] && insmod /modules/nls_cp$page.ko && echo $page >>/out/pages
done
>>/out/pages
common=tz=UTC,utf8=1,iocharset=ascii
# show DISK NAME [OPTIONS]: the tree as it is shown with names in UTF-8, times in UTC.
show() {
    mount -t vfat -o "ro,$common${3:+,$3}" "/dev/vd$1" /mnt
    list /mnt "$2"
    stat -f -c '%b %f %S' /mnt >"/out/$2.space"
    umount /mnt
}
# short DISK NAME: files in ASCII as the driver without long names has them.
short() {
    mount -t msdos -o ro,tz=UTC "/dev/vd$1" /mnt
    (cd /mnt && find . -type f -print0 | xargs -0 -r sha256sum | grep -v '[^ -~]' >"/out/$2.short")
    umount /mnt
}
"""
END = """
dmesg | grep 'FAT-fs' >/out/fat_log || :
"""
FILL = WRITE.replace("mount -t exfat", "mount -t vfat -o $common,$options")


def assert_space(found: tuple[int, int, int], volume: px.Volume) -> None:
    usage = volume.usage()
    assert found == (usage.clusters, usage.free_clusters, usage.cluster_size)


def short_sums(answers: Answers, name: str) -> dict[str, str]:
    """Path in short names, in lower case as msdos has them -> digest."""
    lines = answers.files[f"{name}.short"].splitlines()
    pairs = (line.split("  ") for line in lines)
    return {path.removeprefix("./"): digest for digest, path in pairs}


def short_paths(found: fat.RawVolume) -> dict[str, str]:
    """The same from the independent reader, as far as names are ASCII."""
    shorts: dict[str, str] = {"/": ""}
    sums = {}
    for path, entry in found.tree.items():
        if path == "/":
            continue
        above = shorts[path.rpartition("/")[0] or "/"]
        shorts[path] = f"{above}/{entry.short.lower()}".lstrip("/")
        if not entry.is_dir and shorts[path].isascii():
            sums[shorts[path]] = trees.digest(entry.data)
    return sums


@pytest.mark.guest
def test_the_kernel_reads_what_we_write(tmp_path: Path) -> None:
    images, made_by_us, script = [], {}, VFAT
    for seed, geometry in enumerate(GEOMETRIES):
        name = str(geometry)
        image = made(tmp_path / name, geometry)
        with px.open(image, "r+", tz="utc") as volume:
            filler = Filler(volume, seed)
            made_by_us[name] = fat.as_fat(filler.fill(many=100))
        images.append(image)
        script += f"show {letter(seed)} {name}\n"
        if geometry.fats == 2:
            script += f"short {letter(seed)} {name}\n"
    answers = ask(script + END, images, tmp_path)
    for image, name in zip(images, made_by_us, strict=True):
        assert answers.tree(name) == made_by_us[name], name
        with px.open(image) as volume:
            assert_space(answers.space(name), volume)
        if f"{name}.short" in answers.files:
            known = short_paths(raw(image))
            assert len(known) > 100
            assert short_sums(answers, name) == known, name
    assert answers.files["fat_log"] == ""


LIMITS = [
    *((12, 4084), (16, 4085), (16, 4086), (16, 65524), (32, 65524), (32, 65525)),
]


@pytest.mark.guest
def test_the_kernel_agrees_at_each_limit(tmp_path: Path) -> None:
    """Full volumes of as many clusters as a type may have, or one more, and their last cluster."""
    images, last, script = [], {}, VFAT
    for sector in (512, 4096):
        for bits, clusters in LIMITS:
            name = f"fat{bits}-{clusters}-{sector}"
            images.append(image := fat.exact(tmp_path / name, bits, clusters, sector=sector))
            last[name] = bytes([len(images)]) * sector
            with px.open(image, "r+", tz="utc") as volume:
                volume.touch("/rest")
                volume.fallocate("/rest", 0, (volume.usage().free_clusters - 1) * sector)
                volume.write_bytes("/last", last[name])
                assert volume.usage().free_clusters == 0
            assert raw(image).tree["/last"].clusters == [clusters + 1]
            script += f"""
mount -t vfat -o ro,$common /dev/vd{letter(len(images) - 1)} /mnt
stat -f -c '%b %f %S' /mnt >/out/{name}.space
stat -c %s /mnt/rest >/out/{name}.size
cat /mnt/last >/out/{name}.last
umount /mnt
"""
    answers = ask(script + END, images, tmp_path)
    for image, name in zip(images, last, strict=True):
        with px.open(image) as volume:
            assert_space(answers.space(name), volume)
            assert int(answers.files[f"{name}.size"]) == volume.stat("/rest").st_size
        assert answers.files[f"{name}.last"].encode() == last[name]
    assert answers.files["fat_log"] == ""


# ---- what the kernel writes ----

THEIRS = {
    "fat12": (Geometry(12, 4 * MIB, per_cluster=4), "shortname=mixed"),
    "fat16": (Geometry(16, 24 * MIB, per_cluster=2), "shortname=winnt"),
    "fat32": (Geometry(32, 40 * MIB), "shortname=win95"),
    "lower": (Geometry(16, 24 * MIB, sector=2048), "shortname=lower"),
    "tail": (Geometry(16, 24 * MIB, sector=1024, fats=1), "nonumtail"),
    "four": (Geometry(32, 300 * MIB, sector=4096, fats=4), "shortname=mixed,flush"),
}
# Names by code page that have short names with bytes beyond ASCII.
PAGES = {
    850: ["ÜBER.TXT", "ØRE", "Ñandú largo.txt", "ÀÉ.Ô"],
    852: ["ŁÓDŹ.TXT", "Příliš žluťoučký.txt", "ČÁP"],
    866: ["ПРИВЕТ.ЖЫЛ", "привет мир.txt", "Ёлка"],
    932: ["日本.TXT", "日本語の長い名前.txt", "ｱｲｳ.TXT", "表.ソ"],
}
WRITE_PAGES = "".join(
    f"""
mkdir -p /tmp/names
mount -t vfat -o $common,codepage={page} /dev/vd%({page})s /mnt
{"".join(f"echo '{name}' >'/mnt/{name}'; mkdir '/mnt/d {name}';" for name in names)}
umount /mnt
show %({page})s {page} codepage={page}
"""
    for page, names in PAGES.items()
)
CUT = """
mount -t vfat -o $common /dev/vd%(used)s /mnt
cp /in/big /mnt/big
mkdir /mnt/dir
cp /in/files/600 /mnt/dir/file
sync
list /mnt cut
dd if=/dev/vd%(used)s of=/dev/vd%(cut)s bs=1M 2>/dev/null
umount /mnt
"""


def check_and_change(image: Path, name: str, seen: Tree, space: tuple[int, int, int]) -> Tree:
    """We see what the kernel saw; then we change it, and get the tree that it must see next."""
    with px.open(image, "r+", tz="utc") as volume:
        assert trees.of_volume(volume) == seen, name
        assert_space(space, volume)
        changed = fat.as_fat(trees.change(volume, seen, seed=len(seen)).tree)
    # The kernel leaves mixed case in long entries to nobody, but rules unbroken.
    assert fat.of_raw(raw(image)) == changed
    if fsck_allows(image):
        assert fsck(image) == len(changed)
    return changed


def check_page(image: Path, page: int, seen: Tree) -> Tree:
    """Names of a code page: the same long and short ones; then ours beside them."""
    found = raw(image, codepage=f"cp{page}")
    with px.open(image, "r+", codepage=page, tz="utc") as volume:
        assert trees.of_volume(volume) == seen
        for path, entry in found.tree.items():
            if path != "/":
                assert volume.stat(f"/{entry.short}").entry_offset == entry.offset, path
        for name in PAGES[page]:
            volume.write_bytes(f"/d {name}/{name}", name.encode())
            volume.rename(f"/{name}", f"/our {name}")
        tree = trees.of_volume(volume)
    after = raw(image, codepage=f"cp{page}")
    assert sum("~" not in entry.short for entry in found.tree.values()) >= 3
    for name in PAGES[page]:
        inside, before = after.tree[f"/d {name}/{name}"], found.tree[f"/{name}"]
        if len(name) <= 8 and name == name.upper():
            # Both have the name as it is, or a tail after it.
            assert inside.short.rstrip("1").rstrip("~")[:2] == before.short[:2], name
    if page != 932:  # fsck.fat takes the second byte of a pair for a character
        assert fsck(image) == len(tree)
    return tree


@pytest.mark.guest
def test_we_change_what_the_kernel_writes(tmp_path: Path) -> None:
    images = {name: made(tmp_path / name, geometry) for name, (geometry, _) in THEIRS.items()}
    for page in PAGES:
        images[str(page)] = made(tmp_path / str(page), Geometry(16, 24 * MIB, per_cluster=2))
    for name in ("used", "cut"):
        images[name] = made(tmp_path / name, Geometry(32, 36 * MIB))
    images["input"] = input_disk(tmp_path / "input")
    disks = {name: letter(i) for i, name in enumerate(images)}
    fills = "\n".join(
        f"options={options}; fill {disks[name]} {name}" for name, (_, options) in THEIRS.items()
    )
    script = (NAMES + FILL) % disks + fills + CUT % disks
    pages = "if [ $(grep -c . /out/pages) = 4 ]; then" + WRITE_PAGES % disks + "\nfi\n"
    paths = list(images.values())
    first = ask(VFAT + script + pages + END, paths, tmp_path)
    has_pages = len(first.files["pages"].split()) == len(PAGES)

    expected = {}
    for name in THEIRS:
        seen = first.tree(name)
        assert len(seen) > 150, seen
        expected[name] = check_and_change(images[name], name, seen, first.space(name))
    for page in PAGES if has_pages else []:
        expected[str(page)] = check_page(images[str(page)], page, first.tree(str(page)))
    with px.open(images["cut"], "r+", tz="utc") as volume:
        assert volume.was_dirty
        assert trees.of_volume(volume) == first.tree("cut")
        expected["cut"] = fat.as_fat(trees.change(volume, first.tree("cut"), seed=3).tree)
    assert fat.read_image(images["cut"].read_bytes()).kinds() <= {"dirty"}

    shows = "\n".join(
        f"show {disks[name]} {name} {f'codepage={name}' if name.isdigit() else ''}"
        for name in expected
    )
    second = ask(VFAT + shows + END, paths, tmp_path)
    for name, tree in expected.items():
        assert second.tree(name) == tree, name
    log = [line for line in second.files["fat_log"].splitlines() if "not properly" not in line]
    assert log == []
    if not has_pages:  # all else is as it should be
        missing("a module for the code pages of the guest's kernel (tests/guest/fetch-modules)")


@pytest.mark.guest
def test_names_as_the_kernel_finds_and_makes_them(tmp_path: Path) -> None:
    """Aliases: both find a file by its long and by its short name, in any case."""
    ours = ["FirstNet", "FirstNet_American_Samoa", "lower.txt", "Mixed.Txt", "ÄÖü.txt", "x.y.z"]
    image = made(tmp_path / "image", Geometry(16, 24 * MIB))
    with px.open(image, "r+", tz="utc") as volume:
        for name in ours:
            volume.write_bytes(f"/{name}", name.encode())
    found = raw(image)
    asked = [entry.short for path, entry in found.tree.items() if path != "/"]
    asked += ["FIRSTNET", "firstnet", "LOWER.TXT", "mixed.txt", "FIRSTNET_AMERICAN_SAMOA", "X.Y.Z"]
    script = "mount -t vfat -o $common /dev/vda /mnt\n"
    script += "".join(f"cat '/mnt/{name}' >'/out/found {i}'\n" for i, name in enumerate(asked))
    names = [f"kernel names with one beginning {i}" for i in range(12)]
    script += "".join(f"echo '{name}' >'/mnt/{name}'\n" for name in names)
    script += "umount /mnt\n"
    answers = ask(VFAT + script, [image], tmp_path)
    with px.open(image, "r+", tz="utc") as volume:
        for i, name in enumerate(asked):
            assert answers.files[f"found {i}"].encode() == volume.read_bytes(f"/{name}"), name
        after = raw(image)
        shorts = {after.tree[f"/{name}"].short: name for name in names}
        assert len(shorts) == len(names)
        for short, name in shorts.items():
            assert volume.read_bytes(f"/{short.lower()}") == f"{name}\n".encode()
        for i in range(12):  # aliases of both kinds of tails are evaded
            volume.write_bytes(f"/kernel names with one beginning, ours {i}", b"")
    assert fsck(image) == len(ours) + len(names) + 12
    raw(image)
