"""FAT volumes beside those of mkfs.fat, byte for byte, and before the judges: fsck.fat, mtools, the
kernel.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import require_tool, run_guest
from hypothesis import given
from hypothesis import strategies as st
from peers.images import unpack

import pyexfat as px

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
INVARIANT_TIME, INVARIANT_SERIAL = 1426325213, 0x1234ABCD
PAGE = 4096

Options = dict[str, Any]


def run(*command: str | Path | int) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TZ": "UTC", "LC_ALL": "C.UTF-8", "MTOOLSRC": os.devnull}
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=environment
    )


def make_empty(image: Path, size: int) -> Path:
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(size)
    return image


def content(image: Path) -> dict[int, bytes]:
    """The pages of an image that are not all zero, by offset; holes are passed over."""
    pages: dict[int, bytes] = {}
    with image.open("rb") as file:
        at, end = 0, os.fstat(file.fileno()).st_size
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA) // PAGE * PAGE
            except OSError:
                break
            page = os.pread(file.fileno(), PAGE, at)
            if any(page):
                pages[at] = page
            at += PAGE
    return pages


def theirs(image: Path, size: int, options: Options) -> str | None:
    """mkfs.fat's volume, or what it says against it."""
    command: list[str | int] = []
    for name, value in options.items():
        command += [name] if value is True else [name, value]
    ended = run(require_tool("mkfs.fat"), "--invariant", *command, make_empty(image, size))
    return ended.stderr.strip() or ended.stdout if ended.returncode else None


def translated(options: Options) -> Options:
    """Arguments of format() that mean the same."""
    out: Options = {"fs": "fat", "fat": {}}
    sector = options.get("-S", 512)
    names = {
        "-R": "reserved_sectors", "-r": "root_entries", "-h": "hidden_sectors",
        "-b": "backup_sector", "-M": "media", "-D": "drive",
    }  # fmt: skip
    for name, value in options.items():
        match name:
            case "-F":
                out["fs"] = f"fat{value}"
            case "-S":
                out["sector_size"] = value
            case "-s":
                out["cluster_size"] = value * sector
            case "-f":
                out["fats"] = value
            case "-n":
                out["label"] = value
            case "-i":
                out["serial"] = int(value, 16)
            case "-a":
                out["alignment"] = sector
            case "-A":
                out["fat"]["atari"] = True
            case "--mbr=y":
                out["fat"]["mbr"] = True
            case "-g":
                heads, track = value.split("/")
                out["fat"] |= {"heads": int(heads), "sectors_per_track": int(track)}
            case "-m":
                out["fat"]["boot_message"] = Path(value).read_text(encoding="ascii")
            case "-l":
                out["fat"]["bad_blocks"] = map(int, Path(value).read_text().split())
            case "--codepage":
                out["codepage"] = value
            case _:
                out["fat"][names[name]] = value
    return out


def ours(image: Path, size: int, options: Options) -> str | None:
    arguments: Options = {"serial": INVARIANT_SERIAL, "codepage": 850} | translated(options)
    env = px.Env(seed=1, clock=INVARIANT_TIME * 10**9)
    try:
        px.format(make_empty(image, size), tz="utc", env=env, **arguments).close()
    except ValueError as error:
        return str(error)
    return None


def assert_equal(folder: Path, size: int, options: Options, *, both: bool = True) -> bool:
    """Whether both make the volume; then all bytes are the same. ``both``: they refuse alike."""
    a, b = folder / "theirs", folder / "ours"
    refused, refusal = theirs(a, size, options), ours(b, size, options)
    if refused is not None:
        assert refusal is not None or not both, (size, options, refused)
        return False
    assert refusal is None, (size, options, refusal)
    assert content(a) == content(b), (size, options)
    return True


# ---- byte for byte ----

SIZES = [
    100 * KIB, 360 * KIB, 720 * KIB, 1200 * KIB, 1440 * KIB, 2880 * KIB, 1474560 + 512, MIB,
    2 * MIB, 4 * MIB, 4 * MIB + 512, 8 * MIB + 17 * 512, 12 * MIB, 16 * MIB, 32 * MIB - 512,
    33 * MIB + 7 * 512, 64 * MIB, 128 * MIB + 512, 260 * MIB + 512, 512 * MIB - 512, 512 * MIB,
]  # fmt: skip
LARGE = [1 * GIB, 8 * GIB, 8 * GIB + 512, 16 * GIB + 999 * 512, 33 * GIB, 1024 * GIB, 2048 * GIB]
WISHES: list[Options] = [
    {}, {"-F": 12}, {"-F": 16}, {"-F": 32}, {"-a": True}, {"-f": 1}, {"-f": 4}, {"-s": 1},
    {"-s": 8}, {"-S": 1024}, {"-S": 4096}, {"-S": 2048, "-F": 32}, {"-S": 32768, "-F": 12},
    {"-r": 100}, {"-r": 17, "-a": True}, {"-r": 32768}, {"-R": 7}, {"-R": 3, "-F": 32},
    {"-R": 2, "-F": 32, "-a": True}, {"-R": 100}, {"-M": 0xF0}, {"-h": 63, "-D": 0},
    {"-F": 32, "-b": 9}, {"-F": 32, "-b": 0}, {"-F": 32, "-b": 2, "-R": 8, "-s": 4},
    {"-g": "4/17"}, {"-n": "MY LABEL", "-i": "DEADBEEF"}, {"-n": "lower"}, {"-n": "NO NAME"},
    {"-n": "A" * 11, "-F": 32}, {"--mbr=y": True}, {"--mbr=y": True, "-F": 32, "-n": "X"},
    {"--mbr=y": True, "-g": "2/32", "-F": 16}, {"-F": 32, "-f": 3, "-s": 2, "-R": 40},
    {"-F": 16, "-f": 3, "-s": 16, "-a": True},
]  # fmt: skip


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: " ".join(map(str, wish)) or "none")
def test_the_same_wishes_give_the_same_bytes(tmp_path: Path, wish: Options) -> None:
    # Where mkfs.fat gives up on FAT32 for want of clusters we fall back to FAT16.
    made = [assert_equal(tmp_path, size, wish, both="-F" in wish) for size in SIZES]
    assert sum(made) >= (4 if wish.get("-F") in (12, 16) else 14)


@pytest.mark.parametrize("wish", [{}, {"-a": True}, {"-n": "LARGE", "-f": 1}], ids=str)
def test_large_ones(tmp_path: Path, wish: Options) -> None:
    assert all(assert_equal(tmp_path, size, wish) for size in LARGE)


@pytest.mark.parametrize("kib", [720, 1200, 1440, 2880, 20000, 31 * 1024, 64 * 1024, 600 * 1024])
@pytest.mark.parametrize("wish", [{}, {"-n": "ATARI"}, {"-f": 1}, {"-h": 9}], ids=str)
def test_atari(tmp_path: Path, kib: int, wish: Options) -> None:
    assert assert_equal(tmp_path, kib * KIB, {"-A": True} | wish)


@pytest.mark.parametrize("kib", [360, 400, 1024])
def test_atari_of_few_clusters_is_not_fat16(tmp_path: Path, kib: int) -> None:
    """mkfs.fat makes a FAT of 16 bits that everybody but GEMDOS would take for one of 12."""
    with px.format(tmp_path / "image", "fat", size=kib * KIB, fat={"atari": True}) as volume:
        assert volume.fs == "fat12"
    with pytest.raises(ValueError, match="FAT12"):
        px.format(tmp_path / "other", "fat16", size=kib * KIB, fat={"atari": True})


@pytest.mark.parametrize(
    ("kib", "options"),
    [
        (160, {"-g": "1/8", "-M": 0xFE, "-s": 1, "-r": 64}),
        (180, {"-g": "1/9", "-M": 0xFC, "-s": 1, "-r": 64}),
        (320, {"-g": "2/8", "-M": 0xFF, "-s": 2, "-r": 112}),
        (360, {}),
    ],
)
def test_old_floppies_need_no_wishes(tmp_path: Path, kib: int, options: Options) -> None:
    """mkfs.fat knows floppies from 360 KiB on; of smaller ones it must be told everything."""
    assert theirs(tmp_path / "theirs", kib * KIB, options) is None
    assert ours(tmp_path / "ours", kib * KIB, {}) is None
    assert content(tmp_path / "theirs") == content(tmp_path / "ours")


def test_boot_messages(tmp_path: Path) -> None:
    message = tmp_path / "message"
    for text in ("No system.\n", "\n\nA\tB\t\tC\r\n\n", "x" * 300, ""):
        message.write_text(text, encoding="ascii", newline="")
        for bits in (12, 32):
            assert assert_equal(tmp_path, 64 * MIB, {"-F": bits, "-m": message})


def test_labels_in_code_pages(tmp_path: Path) -> None:
    require_tool("mkfs.fat")
    for page, label in ((437, "PLAIN"), (850, "SPACES IN"), (866, "ASCII-866")):
        assert assert_equal(tmp_path, MIB, {"-n": label, "--codepage": page})


def test_bad_blocks(tmp_path: Path) -> None:
    listed = tmp_path / "list"
    for bits, size in ((12, 2 * MIB), (16, 20 * MIB), (32, 64 * MIB)):
        # The first cluster of FAT32 is the root directory; mkfs.fat 4.2 leaves it there.
        listed.write_text("\n".join(map(str, (size // KIB - 40, 1500, 1501))) + "\n")
        a, b = tmp_path / "theirs", tmp_path / "ours"
        assert theirs(a, size, {"-F": bits, "-l": listed}) is None
        assert ours(b, size, {"-F": bits, "-l": listed}) is None
        differing = [at for at, page in content(a).items() if content(b).get(at) != page]
        # 4.2 does not take the bad clusters off FSInfo's count, as fsck.fat then complains.
        assert differing == ([0] if bits == 32 else [])
        assert run(require_tool("fsck.fat"), "-n", b).returncode == 0


@given(
    sectors=st.integers(100, 3 * MIB),
    bits=st.sampled_from([None, 12, 16, 32]),
    per_cluster=st.sampled_from([None, 1, 2, 4, 8, 16, 32, 64, 128]),
    sector=st.sampled_from([None, 512, 1024, 4096]),
    fats=st.sampled_from([None, 1, 2, 3]),
    reserved=st.none() | st.integers(2, 300),
    root=st.none() | st.integers(16, 2000),
    unaligned=st.booleans(),
)
def test_any_wishes(tmp_path_factory: pytest.TempPathFactory, sectors: int, **wish: Any) -> None:
    names = {
        "bits": "-F", "per_cluster": "-s", "sector": "-S", "fats": "-f", "reserved": "-R",
        "root": "-r", "unaligned": "-a",
    }  # fmt: skip
    options = {names[name]: value for name, value in wish.items() if value}
    if options.get("-F") == 32:
        options.pop("-r", None)  # which has no effect there, and is refused by us
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    # mkfs.fat asks for some room beyond the structures.
    assert_equal(folder, sectors * 512, options, both=False)


# ---- references of dosfstools ----


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dosfstools-referenceFAT16", {"-F": 16, "-n": "TESTFAT16"}),
        ("dosfstools-referenceFAT32", {"-F": 32, "-n": "TESTFAT32"}),
        ("dosfstools-referenceFAT32mbr", {"-F": 32, "-n": "TESTFAT32", "--mbr=y": True}),
        ("dosfstools-mkfs-fat32_4K", {"-F": 32, "-n": "TEST4K", "-S": 4096}),
        (
            "dosfstools-mkfs-fat32_2_res_sects",
            {"-F": 32, "-n": "TESTFAT32", "-R": 2, "-a": True},
        ),
        ("dosfstools-mkfs-fat32_1_bad_block", {"-F": 32, "-n": "TESTFAT32", "-l": "32"}),
    ],
)
def test_references(tmp_path: Path, name: str, options: Options) -> None:
    reference = unpack(name, tmp_path)
    if "-l" in options:
        listed = tmp_path / "list"
        listed.write_text(options["-l"] + "\n")
        options = options | {"-l": listed}
    assert ours(tmp_path / "ours", reference.stat().st_size, options) is None
    assert content(tmp_path / "ours") == content(reference)


# ---- judges ----


@pytest.mark.parametrize("fs", ["fat", "fat12", "fat16", "fat32"])
@pytest.mark.parametrize("sector", [512, 1024, 2048, 4096])
def test_fsck_accepts(tmp_path: Path, fs: str, sector: int) -> None:
    fsck = require_tool("fsck.fat")
    image = tmp_path / "image"
    for size in (3 * MIB, 20 * MIB + 512 * 7, 64 * MIB, 600 * MIB, 40 * GIB):
        for alignment in (None, MIB):
            make_empty(image, size)
            try:
                options: Options = {"label": "JUDGED", "alignment": alignment}
                volume = px.format(image, fs, sector_size=sector, **options)
            except ValueError as error:
                assert re.match("size|alignment", str(error)), error  # noqa: PT017
                continue
            with volume:
                usage = volume.usage()
            checked = run(fsck, "-n", "-v", image)
            assert checked.returncode == 0, checked.stdout + checked.stderr
            assert re.search(rf"^ *{usage.cluster_size} bytes per cluster", checked.stdout, re.M)
            assert f"/{usage.clusters} clusters" in checked.stdout
            if alignment:
                start = re.search(r"Data area starts at byte (\d+)", checked.stdout)
                assert start is not None
                assert int(start[1]) % alignment == 0


def test_minfo_agrees(tmp_path: Path) -> None:
    minfo = require_tool("minfo")
    image = tmp_path / "image"
    for kib, said in (
        (160, "-t 40 -h 1 -s 8"),
        (360, "-t 40 -h 2 -s 9"),
        (1440, "-t 80 -h 2 -s 18"),
    ):
        px.format(make_empty(image, kib * KIB), "fat", label="FLOPPY", serial=0xABCD1234).close()
        ended = run(minfo, "-i", image, "::")
        assert ended.returncode == 0, ended.stderr
        assert said in ended.stdout or f"-f {kib}" in ended.stdout, ended.stdout
        assert "serial number: ABCD1234" in ended.stdout
        shown = run(require_tool("mlabel"), "-s", "-i", image, "::")
        assert "FLOPPY" in shown.stdout, shown.stdout


GUEST = r"""
set -e
mkdir -p /mnt
for disk in a b c d e f; do
    mount -t vfat /dev/vd$disk /mnt
    echo "kernel $disk" >/mnt/file
    stat -f -c "$disk %b %S" /mnt
    umount /mnt
done
if dmesg | grep -i 'fat-fs.*\(error\|not properly\|bogus\|invalid\)'; then exit 1; fi
echo no complaints
"""


@pytest.mark.guest
def test_the_kernel_mounts_them(tmp_path: Path) -> None:
    kinds: list[tuple[str, int, Options]] = [
        ("fat12", 1440 * KIB, {}),
        ("fat12", 8 * MIB, {"sector_size": 4096}),
        ("fat16", 32 * MIB, {"fats": 1}),
        ("fat16", 300 * MIB, {"label": "SIXTEEN", "alignment": MIB}),
        ("fat32", 64 * MIB, {"fats": 2, "fat": {"mbr": True}}),
        ("fat32", 600 * MIB, {"label": "THIRTYTWO", "cluster_size": 512}),
    ]
    images, clusters = [], []
    for number, (fs, size, options) in enumerate(kinds):
        image = make_empty(tmp_path / f"{number}.img", size)
        with px.format(image, fs, **options) as volume:
            clusters.append((volume.usage().clusters, volume.usage().cluster_size))
        images.append(image)
    said = run_guest(GUEST, *images)
    assert "no complaints" in said
    for number, image in enumerate(images):
        disk = "abcdef"[number]
        assert f"{disk} {clusters[number][0]} {clusters[number][1]}\n" in said
        assert run(require_tool("fsck.fat"), "-n", image).returncode == 0
        with px.open(image) as volume:
            assert volume.read_bytes("/file") == f"kernel {disk}\n".encode()
