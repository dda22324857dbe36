"""The kernel reads what we write; we read and change what it writes, and it reads again."""

from __future__ import annotations

import random
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from model.rawexfat import read_image
from peers import trees
from peers.guest import ask, letter
from peers.tools import KIB, MIB, fsck_counts, made_by_mkfs, new_image
from peers.trees import Filler, Tree

import pyexfat as px

CLUSTERS = [512 << shift for shift in range(17)]
# name -> size and arguments of format(); from 8 MiB on a Filler makes few files
OURS: dict[str, tuple[int, dict[str, Any]]] = {
    **{
        f"cluster{c}": (max(24 * MIB, (400 if c <= 4 * MIB else 64) * c), {"cluster_size": c})
        for c in CLUSTERS
    },
    "sectors": (24 * MIB, {"sector_size": 4096, "cluster_size": 4 * KIB}),
    "both": (100 * MIB, {"sector_size": 2048, "cluster_size": 128 * KIB}),
    "two-fats": (24 * MIB, {"cluster_size": 1 * KIB, "fats": 2}),
    "packed": (80 * MIB, {"cluster_size": 32 * KIB, "pack_bitmap": True}),
    "zone": (24 * MIB, {"cluster_size": 8 * KIB, "utc_offset": -570}),
}


def assert_space(found: tuple[int, int, int], volume: px.Volume) -> None:
    usage = volume.usage()
    assert found == (usage.clusters, usage.free_clusters, usage.cluster_size)


@pytest.mark.guest
def test_the_kernel_reads_what_we_write(tmp_path: Path) -> None:
    images, made = [], {}
    for seed, (name, (size, options)) in enumerate(OURS.items()):
        image = new_image(tmp_path / name, size)
        with px.format(image, **options) as volume:
            made[name] = Filler(volume, seed)
            made[name].fill(many=120)
        images.append(image)
    shows = [f"show {letter(i)} {name}" for i, name in enumerate(OURS)]
    answers = ask("\n".join(shows), images, tmp_path)
    for image, name in zip(images, OURS, strict=True):
        assert answers.tree(name) == answers.expected(made[name]), name
        with px.open(image) as volume:
            assert_space(answers.space(name), volume)
    assert answers.files["dmesg"] == ""


# ---- what the kernel writes ----

NAMES = """
# names PREFIX COUNT: numbered names, for xargs -0
names() {
    seq -w 1 "$2" | sed "s,^,$1," | tr '\\n' '\\0'
}
"""

WRITE = """
tar -xf /dev/vd%(input)s -C /in
# fill DISK NAME
fill() {
    mount -t exfat "/dev/vd$1" /mnt
    cd /mnt
    cp -r /in/files .
    mkdir -p 'Empty directory' deep/deeper/deepest "$(printf 'd%%.0s' $(seq 255))"
    for i in 0 1 2 3 4 5 6 7; do
        dd if=/in/big bs=5000 skip=$i count=1 2>/dev/null >>deep/a
        dd if=/in/big bs=3000 skip=$i count=1 2>/dev/null >>deep/deeper/b
        mkdir deep/deeper/deepest/$i
    done
    mkdir many
    names 'many/file ' 240 | xargs -0 touch
    for i in 7 77 177; do cp /in/files/600 "many/file $(printf %%03d $i)"; done
    ls many | grep '[0258]$' | sed 's,^,many/,' | tr '\\n' '\\0' | xargs -0 rm
    for i in 001 051 101 151 201; do mv "many/file $i" "many/$i renamed to something longer"; done
    mv files/600 deep/moved
    mv files/1 deep/deeper/1
    mv files/511 files/512
    mv Empty\\ directory 'still empty'
    cp /in/big cut && truncate -s 12345 cut
    cp /in/files/5000 grown && truncate -s 70001 grown
    fallocate -l 50000 allocated
    dd if=/in/files/5000 of=gap bs=1 count=100 seek=40000 2>/dev/null
    dd if=/in/big of=overwritten bs=1000 count=10 2>/dev/null
    dd if=/in/files/5000 of=overwritten bs=1 count=900 seek=4000 conv=notrunc 2>/dev/null
    >zero
    for name in 'ß€😀' '日本語.txt' 'Новый документ' "$(printf '😀%%.0s' $(seq 127))x" \\
                "$(printf 'ß%%.0s' $(seq 255))" 'e\xcc\x81' ' leading' 'UPPER lower.TXT'; do
        echo "content of $name" >"$name"
    done
    touch -d '1980-01-01 00:00:00' zero
    touch -d '2107-12-31 23:59:58' gap
    touch -d '2000-02-29 01:02:03' grown deep many
    chmod a-w overwritten deep/moved
    cd /
    umount /mnt
    show "$1" "$2"
}
"""

CROWDED = """
mount -t exfat /dev/vd%(crowded)s /mnt
mkdir /mnt/d
names '/mnt/d/a name of middling length ' 1000 | xargs -0 touch
ls /mnt/d | grep -v '[07]$' | sed 's,^,/mnt/d/,' | tr '\\n' '\\0' | xargs -0 rm
umount /mnt
show %(crowded)s crowded
# A copy of a volume in use is one that lost its power.
mount -t exfat /dev/vd%(used)s /mnt
cp /in/big /mnt/big
mkdir /mnt/dir
cp /in/files/600 /mnt/dir/file
sync
mkdir /mnt/later  # marks the volume again
list /mnt cut
dd if=/dev/vd%(used)s of=/dev/vd%(cut)s bs=1M 2>/dev/null
umount /mnt
"""

AGAIN = """
show %(crowded)s crowded
mount -t exfat /dev/vd%(crowded)s /mnt
names '/mnt/d/from the kernel again ' 200 | xargs -0 touch
ls /mnt/d | grep '^ours .*[13579]$' | sed 's,^,/mnt/d/,' | tr '\\n' '\\0' | xargs -0 rm
umount /mnt
show %(crowded)s more
show %(cut)s cut
"""

THEIRS: dict[str, tuple[int, int | None]] = {  # size, and mkfs.exfat's cluster
    "k512": (16 * MIB, 512),
    "k4096": (16 * MIB, 4 * KIB),
    "k65536": (64 * MIB, 64 * KIB),
    "ours4096": (16 * MIB, None),
    "ours2": (16 * MIB, None),
}


def input_disk(path: Path) -> Path:
    """A tar archive of files that the guest is to write."""
    chance = random.Random(5)
    with path.open("wb") as disk, tarfile.open(fileobj=disk, mode="w") as archive:
        names = {"big": 60_000} | {
            f"files/{n}": n for n in (0, 1, 511, 512, 600, 4096, 5000, 40000)
        }
        for name, size in names.items():
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, BytesIO(chance.randbytes(size)))
    return path


def check_and_change(image: Path, seen: Tree, space: tuple[int, int, int], fats: int) -> Filler:
    """We see what the kernel saw; then we change it, and get the tree that it must see next."""
    with px.open(image, "r+") as volume:
        assert trees.of_volume(volume) == seen
        assert_space(space, volume)
        changed = trees.change(volume, seen, seed=len(seen))
    # The kernel keeps both FATs, but only the first bitmap.
    known = {"second bitmap"} if fats == 2 else set()
    assert [str(v) for v in read_image(image.read_bytes()).violations if v.kind not in known] == []
    if fats == 1:
        inside = sum(item.is_dir for item in changed.tree.values())
        assert fsck_counts(image) == (1 + inside, len(changed.tree) - inside)
    return changed


def kernel_images(tmp_path: Path) -> list[Path]:
    """Empty volumes for the kernel, in the order of THEIRS, then: crowded, used, cut, input."""
    images = []
    for name, (size, cluster) in THEIRS.items():
        if cluster is not None:
            images.append(made_by_mkfs(tmp_path / name, size, "-c", str(cluster)))
            continue
        options = {"fats": 2} if name == "ours2" else {"sector_size": 4096}
        images.append(new_image(tmp_path / name, size))
        px.format(images[-1], **options).close()  # type: ignore[arg-type]
    images.append(made_by_mkfs(tmp_path / "crowded", 4 * MIB, "-c", "4096"))
    images.append(made_by_mkfs(tmp_path / "used", 4 * MIB, "-c", "4096"))
    images.append(new_image(tmp_path / "cut", 4 * MIB))
    images.append(input_disk(tmp_path / "input"))
    return images


def into_the_holes(image: Path, seen: Tree) -> Tree:
    """New names take the places of those that the kernel removed: the directory does not grow."""
    tree = dict(seen)
    with px.open(image, "r+") as volume:
        assert trees.of_volume(volume) == seen
        before = volume.stat("/d")
        new = [f"ours {i:03}" for i in range(700)]
        volume.create_many("/d", new)
        for name in new:
            moment = trees.ns(2011, 11, 11, 11, 11, 11)
            volume.utime(f"/d/{name}", ns=(moment, moment))
            tree[f"d/{name}"] = trees.Item(False, 0, trees.digest(b""), moment)
        volume.utime("/d", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert volume.stat("/d").st_size == before.st_size
        offsets = [volume.stat(f"/d/{name}").entry_offset for name in new]
    inside = [entry.offset for entry in read_image(image.read_bytes()).tree.values() if entry.name]
    assert set(offsets) <= set(inside)
    assert fsck_counts(image) == (2, len(tree) - 1)
    return tree


def after_a_power_cut(image: Path, seen: Tree) -> Filler:
    """The copy is marked as in use: it opens, says so, can be changed, and stays marked."""
    assert read_image(image.read_bytes()).dirty
    with px.open(image, "r+") as volume:
        assert volume.was_dirty
        assert trees.of_volume(volume) == seen
        changed = trees.change(volume, seen, seed=3)
    found = read_image(image.read_bytes())
    assert found.kinds() == {"dirty"}
    return changed


@pytest.mark.guest
def test_we_change_what_the_kernel_writes(tmp_path: Path) -> None:
    images = kernel_images(tmp_path)
    kernel_names = list(THEIRS)
    named = dict(zip([*kernel_names, "crowded", "used", "cut", "input"], images, strict=True))
    disks = {name: letter(i) for i, name in enumerate(named)}
    fills = "\n".join(f"fill {disks[name]} {name}" for name in kernel_names)
    first = ask((NAMES + WRITE + fills + CROWDED) % disks, images, tmp_path)
    assert (
        "".join(
            line
            for line in first.files["dmesg"].splitlines()
            if "not properly unmounted" not in line
        )
        == ""
    )

    expected = {}
    for name in kernel_names:
        seen = first.tree(name)
        assert len(seen) > 150, seen
        fats = 2 if name == "ours2" else 1
        expected[name] = check_and_change(named[name], seen, first.space(name), fats)
    crowded = into_the_holes(named["crowded"], first.tree("crowded"))
    expected["cut"] = after_a_power_cut(named["cut"], first.tree("cut"))

    shows = "\n".join(f"show {disks[name]} {name}" for name in kernel_names)
    second = ask((NAMES + shows + AGAIN) % disks, images, tmp_path)
    for name, changed in expected.items():
        assert second.tree(name) == second.expected(changed), name
    assert second.tree("crowded") == crowded
    complaints = second.files["dmesg"].splitlines()
    assert len(complaints) == 1
    assert "not properly unmounted" in complaints[0]
    with px.open(named["crowded"]) as volume:
        assert trees.of_volume(volume) == second.tree("more")
        assert_space(second.space("more"), volume)
    inside = len(second.tree("more"))
    assert fsck_counts(named["crowded"]) == (2, inside - 1)
