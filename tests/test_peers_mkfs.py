"""New volumes before the judges: fsck.exfat, dump.exfat, mkfs.exfat, exfat-fuse, the kernel."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import require_device, require_tool, run_guest

import pyexfat as px

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def make_empty(image: Path, size: int) -> None:
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(size)


def assert_clean(image: Path) -> None:
    checked = run(require_tool("fsck.exfat"), "-n", image)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "clean" in checked.stdout


def dumped(image: Path) -> dict[str, str]:
    """What dump.exfat says, but for the serial number."""
    shown = run(require_tool("dump.exfat"), image)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    pairs = re.findall(r"^([A-Z][^:\n]*):[ \t]*(.*)$", shown.stdout, re.MULTILINE)
    return {name.strip(): value.strip() for name, value in pairs if name != "Volume Serial"}


SIZES = [
    MIB,
    MIB + 512,
    MIB + 3 * 512,
    2 * MIB,
    3 * MIB + 4608,
    7 * MIB,
    33 * MIB + 7 * 512,
    256 * MIB,
    257 * MIB,
    2 * GIB + 512,
    32 * GIB,
    33 * GIB,
    1 * TIB,
    5 * TIB,
    15 * TIB,
]
CLUSTERS = [512 << i for i in range(17)]


@pytest.mark.parametrize("sector", [512, 1024, 2048, 4096])
def test_fsck_accepts_every_size(tmp_path: Path, sector: int) -> None:
    image = tmp_path / "image"
    for size in SIZES:
        make_empty(image, size)
        px.format(image, sector_size=sector, label="Größe").close()
        assert_clean(image)
        shown = dumped(image)
        assert shown["Volume Length(sectors)"] == str(size // sector)
        assert shown["Volume label"] == "Größe"
        with px.open(image) as volume:
            usage = volume.usage()
            assert shown["Cluster size"] == str(usage.cluster_size)
            assert shown["Total Clusters"] == str(usage.clusters)
            assert shown["Free Clusters"] == str(usage.free_clusters)


@pytest.mark.parametrize("sector", [512, 4096])
def test_fsck_accepts_every_cluster_size(tmp_path: Path, sector: int) -> None:
    image = tmp_path / "image"
    for cluster, size in itertools.product(CLUSTERS, [64 * MIB, 300 * MIB + 13 * 512]):
        # The largest cluster leaves no room for a bitmap, a table and a directory in 64 MiB.
        if cluster < sector or 4 * cluster > size:
            continue
        make_empty(image, size)
        px.format(image, sector_size=sector, cluster_size=cluster).close()
        assert_clean(image)
        assert dumped(image)["Cluster size"] == str(cluster)


def test_fsck_accepts_packed_bitmaps_and_offsets(tmp_path: Path) -> None:
    image = tmp_path / "image"
    for alignment in (512, 64 * KIB, MIB, 4 * MIB):
        make_empty(image, 100 * MIB)
        px.format(image, pack_bitmap=True, alignment=alignment).close()
        assert_clean(image)
        px.format(image, offset=63 * 512, alignment=alignment).close()
        with image.open("rb") as disk, (tmp_path / "part").open("wb") as part:
            disk.seek(63 * 512)
            part.write(disk.read())
        assert_clean(tmp_path / "part")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"label": "Any Label 9"},
        {"alignment": 4 * MIB},
        {"pack_bitmap": True},
        {"cluster_size": 64 * KIB},
    ],
    ids=str,
)
def test_layout_is_that_of_mkfs(tmp_path: Path, options: dict[str, object]) -> None:
    """Where the defaults are the same: from 32 MiB on, clusters not larger than the alignment."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    command: list[str] = []
    for name, flag in (("label", "-L"), ("alignment", "-b"), ("cluster_size", "-c")):
        if name in options:
            command += [flag, str(options[name])]
    command += ["--pack-bitmap"] * bool(options.get("pack_bitmap"))
    for size in (33 * MIB + 7 * 512, 64 * MIB, 256 * MIB, 257 * MIB, GIB, 33 * GIB, 2 * TIB):
        make_empty(ours, size)
        make_empty(theirs, size)
        px.format(ours, **options).close()  # type: ignore[arg-type]
        made = run(require_tool("mkfs.exfat"), *command, theirs)
        assert made.returncode == 0, made.stdout + made.stderr
        left, right = dumped(ours), dumped(theirs)
        # Without a label their entry is in use and empty, ours is not in use.
        left.pop("Volume entry type", None)
        right.pop("Volume entry type", None)
        if "alignment" in options:  # theirs counts clusters in the gap before the FAT
            name = "FAT Length(sectors)"
            assert int(left.pop(name)) <= int(right.pop(name))
        assert left == right


def test_what_mkfs_makes_opens(tmp_path: Path) -> None:
    image = tmp_path / "image"
    for cluster in CLUSTERS:
        make_empty(image, 400 * MIB)
        made = run(require_tool("mkfs.exfat"), "-c", str(cluster), "-L", "theirs", image)
        assert made.returncode == 0, made.stdout + made.stderr
        found = px.detect(image)
        assert found is not None
        assert (found.label, found.damaged) == ("theirs", False)
        with px.open(image, "r+") as volume:
            assert volume.cluster_size == cluster
            volume.label = "now ours"
            volume.serial = 0x01020304
        assert_clean(image)
        shown = run(require_tool("dump.exfat"), image).stdout
        assert "now ours" in shown
        assert "0x1020304" in shown


@contextmanager
def fused(image: Path, where: Path) -> Iterator[None]:
    """``image`` mounted by exfat-fuse, which wants a block device: root and a loop device."""
    require_device("/dev/fuse")
    require_device("/dev/loop-control")
    losetup, umount = require_tool("losetup"), require_tool("umount")
    made = run(losetup, "--find", "--show", image)
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    loop = made.stdout.strip()
    try:
        mounted = run(require_tool("mount.exfat-fuse"), loop, where)
        assert mounted.returncode == 0, mounted.stdout + mounted.stderr
        try:
            yield
        finally:
            assert run(umount, where).returncode == 0
    finally:
        assert run(losetup, "--detach", loop).returncode == 0


def test_exfat_fuse_reads_and_writes(tmp_path: Path) -> None:
    image, where = tmp_path / "image", tmp_path / "mounted"
    where.mkdir()
    # It knows neither two FATs nor the volume GUID entry.
    for options in ({}, {"sector_size": 4096}, {"cluster_size": 512}, {"pack_bitmap": True}):
        make_empty(image, 40 * MIB)
        with px.format(image, label="fused", **options) as volume:
            volume.write_bytes("/ours", b"from this side")
        with fused(image, where):
            assert (where / "ours").read_bytes() == b"from this side"
            (where / "theirs").write_bytes(b"from the other side")
        assert_clean(image)
        with px.open(image) as volume:
            assert volume.read_bytes("/theirs") == b"from the other side"
            assert volume.label == "fused"


GUEST = """
for disk in a b c d e f; do
    mount -t exfat /dev/vd$disk /mnt || exit 1
    mkdir /mnt/dir && echo "kernel $disk" >/mnt/dir/file || exit 2
    umount /mnt
    mount -t exfat -o ro /dev/vd$disk /mnt || exit 3
    cat /mnt/dir/file
    umount /mnt
done
dmesg | grep -i exfat || echo no complaints
"""


@pytest.mark.guest
def test_the_kernel_mounts_them(tmp_path: Path) -> None:
    kinds: list[tuple[int, dict[str, object]]] = [
        (MIB, {}),
        (64 * MIB, {"sector_size": 4096}),
        (64 * MIB, {"fats": 2, "uuid": "00112233-4455-6677-8899-aabbccddeeff"}),
        (33 * MIB + 512, {"cluster_size": 512}),
        (300 * MIB, {"cluster_size": 32 * MIB}),
        (2 * TIB, {"pack_bitmap": True, "label": "Ä b€😀"}),
    ]
    images = []
    for number, (size, options) in enumerate(kinds):
        image = tmp_path / f"image{number}"
        make_empty(image, size)
        px.format(image, **options).close()  # type: ignore[arg-type]
        images.append(image)
    said = run_guest(GUEST, *images)
    assert said.split("\n")[:6] == [f"kernel {disk}" for disk in "abcdef"]
    assert "no complaints" in said
    for number, image in enumerate(images):
        if kinds[number][1].get("fats") != 2:  # which fsck.exfat does not know
            assert_clean(image)
        with px.open(image) as volume:
            assert volume.read_bytes("/dir/file") == f"kernel {'abcdef'[number]}\n".encode()
