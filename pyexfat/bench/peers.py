"""The same work done by what else is installed: FUSE, the kernel, and Python packages.

The work: batches of files made in one directory, each followed by a sync, then a stat of every
file, a look for as many that are not there, and their removal. A peer that cannot run says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyexfat as px
from pyexfat import Policy, Volume

from .report import Grid, three, times
from .workloads import Spread, env, names

BATCHES = 5
STEPS = (*(f"create {n + 1}/{BATCHES}" for n in range(BATCHES)), "stat", "absent", "unlink")


@dataclass(frozen=True)
class Setting:
    """The volume that all peers find, and the names of what they make in its one directory."""

    fs: str
    driver: str
    """As the kernel calls it."""
    size: int
    cluster: int
    names: Callable[[int], list[str]]
    directory: str
    name_in_shell: str
    """The same names as a POSIX shell makes them from ``$i``, which counts from 1."""


EXFAT = Setting("exfat", "exfat", 4 << 30, 32768, lambda files: names(files, 12), "d", "f$i")


class SkippedError(Exception):
    """Why a peer did not run."""


@dataclass
class Outcome:
    """What one peer took."""

    peer: str
    about: str
    each: dict[str, Spread] = field(default_factory=dict)
    """Seconds for one file, by step."""
    skipped: str = ""

    def record(self) -> dict[str, Any]:
        """For JSON."""
        if self.skipped:
            return {"peer": self.peer, "skipped": self.skipped}
        return {
            "peer": self.peer,
            "about": self.about,
            "seconds_a_file": {step: spread.record() for step, spread in self.each.items()},
        }


Times = dict[str, float]
"""Seconds by step, for all files of the step."""

Work = Callable[[str, int], Times]
"""Does it in a folder of its own, with so many files."""


@dataclass
class Calls:
    """How a peer does things; paths are names in its directory."""

    create: Callable[[str], object]
    sync: Callable[[], object]
    stat: Callable[[str], object]
    absent: Callable[[str], object]
    unlink: Callable[[str], object]


def timed(work: Callable[[], object]) -> float:
    """Seconds of it."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _all(call: Callable[[str], object], paths: list[str]) -> None:
    for path in paths:
        call(path)


def do_work(calls: Calls, files: int, setting: Setting = EXFAT) -> Times:
    """The work, step by step."""
    result: Times = {}
    every = setting.names(files)
    size = files // BATCHES
    for batch in range(BATCHES):
        part = every[batch * size : (batch + 1) * size]

        def make(part: list[str] = part) -> None:
            _all(calls.create, part)
            calls.sync()

        result[STEPS[batch]] = timed(make)
    absent = ["m" + name[1:] for name in every]
    result["stat"] = timed(lambda: _all(calls.stat, every))
    result["absent"] = timed(lambda: _all(calls.absent, absent))

    def remove() -> None:
        _all(calls.unlink, every)
        calls.sync()

    result["unlink"] = timed(remove)
    return result


# ---- ours ----


def volume_calls(volume: Volume, top: str) -> Calls:
    """Ours, below ``top``."""
    return Calls(
        create=lambda name: volume.touch(top + name),
        sync=volume.sync,
        stat=lambda name: volume.stat(top + name),
        absent=lambda name: volume.kind(top + name),
        unlink=lambda name: volume.unlink(top + name),
    )


def ours(policy: Policy, setting: Setting) -> Work:
    """This package."""

    def work(folder: str, files: int) -> Times:
        with px.open(make_image(folder, setting), "r+", policy=policy, env=env()) as volume:
            return do_work(volume_calls(volume, f"/{setting.directory}/"), files, setting)

    return work


def make_image(folder: str, setting: Setting) -> str:
    """An image with a directory, made by us: all peers find the same."""
    path = os.path.join(folder, "peer.img")
    with px.format(
        path, setting.fs, size=setting.size, cluster_size=setting.cluster, env=env()
    ) as volume:
        volume.mkdir(f"/{setting.directory}")
    return path


# ---- mounted file systems ----


def needs(*programs: str) -> None:
    """Raises SkippedError unless they are installed."""
    for program in programs:
        if shutil.which(program, path=_path()) is None:
            raise SkippedError(f"{program} is not installed")


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def run_program(*command: str) -> None:
    """Raises SkippedError with what it says when it fails."""
    program = shutil.which(command[0], path=_path()) or command[0]
    ended = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise SkippedError(f"{command[0]}: {said[-1] if said else ended.returncode}")


@contextmanager
def _loop(image: str) -> Iterator[str]:
    """A loop device over the image where there is one; else the image itself."""
    losetup = shutil.which("losetup", path=_path())
    made = None
    if losetup is not None:
        made = subprocess.run(
            [losetup, "--find", "--show", image], capture_output=True, text=True, check=False
        )
    if losetup is None or made is None or made.returncode != 0:
        yield image
        return
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run([losetup, "--detach", device], check=False, capture_output=True)


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def _mounted_work(root: str, files: int, setting: Setting) -> Times:
    top = os.path.join(root, setting.directory)
    directory = os.open(top, os.O_RDONLY)

    def at(name: str) -> str:
        return f"{top}/{name}"

    try:
        return do_work(
            Calls(
                create=lambda name: _make_file(at(name)),
                sync=os.sync,
                stat=lambda name: os.stat(at(name)),
                absent=lambda name: os.path.lexists(at(name)),
                unlink=lambda name: os.unlink(at(name)),
            ),
            files,
            setting,
        )
    finally:
        os.close(directory)


def _fuse(folder: str, files: int) -> Times:
    needs("mount.exfat-fuse", "umount")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise SkippedError("/dev/fuse can't be opened")
    with _loop(make_image(folder, EXFAT)) as device:
        return _mount(folder, files, EXFAT, "mount.exfat-fuse", device)


def kernel(setting: Setting) -> Work:
    """The driver of the kernel that runs."""

    def work(folder: str, files: int) -> Times:
        needs("mount", "umount")
        if os.geteuid() != 0:
            raise SkippedError("mounting needs root")
        if not _has_driver(setting.driver):
            raise SkippedError(f"this kernel has no {setting.driver} driver")
        with _loop(make_image(folder, setting)) as device:
            return _mount(folder, files, setting, "mount", "-t", setting.driver, device)

    return work


def _has_driver(name: str) -> bool:
    with open("/proc/filesystems", encoding="ascii") as known:
        if any(line.split()[-1:] == [name] for line in known):
            return True
    modprobe = shutil.which("modprobe", path=_path())
    return modprobe is not None and (
        subprocess.run([modprobe, name], capture_output=True, check=False).returncode == 0
    )


def _mount(folder: str, files: int, setting: Setting, *command: str) -> Times:
    root = os.path.join(folder, "mnt")
    os.mkdir(root)
    try:
        run_program(*command, root)
        try:
            return _mounted_work(root, files, setting)
        finally:
            run_program("umount", root)
    finally:
        os.rmdir(root)


# ---- a kernel in an emulator ----

# busybox's shell has no clock finer than /proc/uptime's hundredths. Redirections are built in, so
# that no step starts a program but rm, which takes all names at once.
_GUEST = """\
mount -t DRIVER /dev/vda /mnt || exit 9
cd /mnt/DIRECTORY || exit 9
now() { read up rest </proc/uptime; echo "$1 $up"; }
sync; now start
b=0; i=0
while [ $b -lt BATCHES ]; do
    b=$((b + 1))
    while [ $i -lt $((b * SIZE)) ]; do i=$((i + 1)); : >NAME; done
    sync; now "create_$b"
done
i=0; while [ $i -lt FILES ]; do i=$((i + 1)); [ -e NAME ]; done; now stat
i=0; while [ $i -lt FILES ]; do i=$((i + 1)); [ -e m$i ]; done; now absent
ls | xargs rm -f; sync; now unlink
cd /; umount /mnt
"""


# /dev/kvm may be there and not work, in a virtual machine; emulation always works.
_EMULATOR = """\
#!/bin/bash
set -- "${@/#kvm/tcg,thread=multi}"
exec PROGRAM "$@"
"""


def _guest_program() -> Path:
    """The script that runs a command file in a kernel of its own, beside the sources or where
    PYEXFAT_SHARED says.
    """
    told = os.environ.get("PYEXFAT_SHARED")
    package = Path(__file__).resolve().parents[2]
    for root in [Path(told)] if told else [package.parent / "shared", Path.cwd().parent / "shared"]:
        program = root / "oracle" / "linux-guest"
        if program.exists():
            return program
    raise SkippedError("no guest found (PYEXFAT_SHARED says where its folder is)")


def guest(setting: Setting) -> Work:
    """A kernel of its own in an emulator."""
    return lambda folder, files: _guest(folder, files, setting)


def _guest(folder: str, files: int, setting: Setting) -> Times:
    program = _guest_program()
    needs("qemu-system-x86_64", "busybox", "cpio", "xz", "bash")
    script = os.path.join(folder, "work.sh")
    text = _GUEST
    for word, value in {
        "DRIVER": setting.driver, "DIRECTORY": setting.directory, "NAME": setting.name_in_shell,
        "BATCHES": str(BATCHES), "FILES": str(files), "SIZE": str(files // BATCHES),
    }.items():  # fmt: skip
        text = text.replace(word, value)
    with open(script, "w", encoding="ascii") as file:
        file.write(text)
    emulator = os.path.join(folder, "qemu-system-x86_64")
    with open(emulator, "w", encoding="utf-8") as file:
        real = shutil.which("qemu-system-x86_64", path=_path())
        file.write(_EMULATOR.replace("PROGRAM", str(real)))
    os.chmod(emulator, 0o755)
    command = ["bash", str(program), "-t", "600", script, make_image(folder, setting)]
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": os.pathsep.join([folder, _path()])},
    )
    if ended.returncode != 0:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise SkippedError(f"the guest did not work: {said[-1] if said else ended.returncode}")
    marks = dict(line.split() for line in ended.stdout.splitlines() if len(line.split()) == 2)
    keys = ["start", *(f"create_{n + 1}" for n in range(BATCHES)), "stat", "absent", "unlink"]
    clock = [float(marks[key]) for key in keys]
    return {step: clock[i + 1] - clock[i] for i, step in enumerate(STEPS)}


# ---- Python packages ----


def fattools(setting: Setting) -> Work:
    """FATtools, which is written in Python."""
    return lambda folder, files: _fattools(folder, files, setting)


def _fattools(folder: str, files: int, setting: Setting) -> Times:
    try:
        vopen = import_module("FATtools.Volume").vopen
    except ImportError:
        raise SkippedError("FATtools can't be imported") from None
    path = make_image(folder, setting)
    top = vopen(path, "r+b", "volume")
    if isinstance(top, str):
        raise SkippedError(f"FATtools does not open the image: {top}")
    directory = top.opendir(setting.directory)
    size, date_and_time = (
        ("u64DataLength", ("dwMTime",)) if setting.fs == "exfat"
        else ("dwFileSize", ("wMDate", "wMTime"))
    )  # fmt: skip

    # By path and decoded, as the others do it; find() in a directory that is held open is a look
    # into a dict.
    def find(name: str) -> Any:
        return top.opendir(setting.directory).find(name)

    def stat(name: str) -> tuple[int, ...]:
        entry = find(name)
        return (getattr(entry, size), *(getattr(entry, field) for field in date_and_time))

    return do_work(
        Calls(
            create=lambda name: directory.create(name).close(),
            sync=directory.flush,
            stat=stat,
            absent=find,
            unlink=directory.erase,
        ),
        files,
        setting,
    )


# ---- all ----

PEERS: dict[str, tuple[str, Work]] = {
    "pyexfat": ("this package, all defaults", ours(Policy(), EXFAT)),
    "pyexfat before": ("this package, all mechanisms off", ours(Policy.before(), EXFAT)),
    "exfat-fuse": ("mounted through FUSE, on a loop device", _fuse),
    "kernel": ("this kernel's driver, on a loop device", kernel(EXFAT)),
    "kernel in qemu": ("emulated: only how it grows can be compared", guest(EXFAT)),
    "FATtools": ("Python", fattools(EXFAT)),
}


def run(
    *,
    folder: str | None,
    files: int,
    runs: int,
    only: list[str] | None = None,
    said: Callable[[str], object] | None = None,
    peers: Mapping[str, tuple[str, Work]] | None = None,
) -> list[Outcome]:
    """Every peer's work, turn by turn; what cannot run is skipped and says why.

    peers: what each is and how it works, by name; by default those for exFAT.

    The emulated kernel runs only where the real one does not.
    """
    peers = PEERS if peers is None else peers
    outcomes = [
        Outcome(name, about) for name, (about, _) in peers.items() if not only or name in only
    ]
    for turn in range(runs):
        for outcome in outcomes:
            if outcome.skipped:
                continue
            if outcome.peer == "kernel in qemu":
                if any(one.peer == "kernel" and not one.skipped for one in outcomes):
                    outcome.skipped = "the kernel itself has run"
                if turn > 0:
                    continue  # it takes long, and its clock is the emulator's
            if said is not None:
                said(outcome.peer)
            _run_one(outcome, peers[outcome.peer][1], folder, files)
    return outcomes


def _run_one(outcome: Outcome, work: Work, folder: str | None, files: int) -> None:
    if outcome.skipped:
        return
    try:
        with tempfile.TemporaryDirectory(prefix="pyexfat-bench-", dir=folder) as inside:
            taken = work(inside, files)
    except SkippedError as reason:
        outcome.skipped = str(reason)
        return
    except Exception as error:  # a peer's own failure is a finding, and the others go on
        outcome.skipped = f"failed: {type(error).__name__}: {error}"
        return
    for step, seconds in taken.items():
        count = files // BATCHES if step.startswith("create") else files
        outcome.each.setdefault(step, Spread()).values.append(seconds / count)


def grid(outcomes: list[Outcome]) -> Grid:
    """Microseconds a file for each step, and the last batch of creates against the first."""
    headings = ["", *STEPS, "last / first", ""]
    rows = []
    for one in outcomes:
        if one.skipped:
            rows.append([one.peer, *("" for _ in STEPS), "", f"skipped: {one.skipped}"])
            continue
        medians = {step: spread.median for step, spread in one.each.items()}
        grown = medians[STEPS[BATCHES - 1]] / max(medians[STEPS[0]], 1e-12)
        cells = [three(medians[step] * 1e6) if step in medians else "" for step in STEPS]
        rows.append([one.peer, *cells, times(grown), one.about])
    return headings, rows


def record(outcomes: list[Outcome]) -> dict[str, Any]:
    """For JSON."""
    return {"python": sys.version.split()[0], "peers": [one.record() for one in outcomes]}
