"""What every test may use: peers (tools of others that judge our images) and hypothesis profiles.

A test whose peer is not installed is skipped, or fails where PYEXFAT_REQUIRE_PEERS=1 says that
all of them must be there.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

_REPO = Path(__file__).resolve().parent.parent

# Python started by a test must find the installed package, not the sources in the current folder.
os.environ["PYTHONSAFEPATH"] = "1"
# Some distributions keep mkfs and losetup out of the ordinary user's path.
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
if shutil.which("qemu-system-x86_64"):
    os.environ["PATH"] = os.pathsep.join([str(_REPO / "tests" / "guest"), os.environ["PATH"]])

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=200, print_blob=True)
settings.register_profile("soak", deadline=None, max_examples=5000, print_blob=True)
# Under sanitizers and valgrind, where all is several times slower.
settings.register_profile(
    "slow", deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def missing(what: str) -> NoReturn:
    """Ends the test for want of ``what``: skipped, or failed where peers are required."""
    if os.environ.get("PYEXFAT_REQUIRE_PEERS") == "1":
        pytest.fail(f"{what} is missing and PYEXFAT_REQUIRE_PEERS=1", pytrace=False)
    pytest.skip(f"{what} is missing")


def require_tool(name: str) -> str:
    """The full path of the program ``name``; the test ends where it is not installed."""
    found = shutil.which(name)
    return found if found is not None else missing(name)


def require_module(name: str) -> ModuleType:
    """The module ``name`` of a peer that is a library; the test ends where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        missing(name)


def require_device(path: str) -> str:
    """``path`` (/dev/fuse, /dev/loop-control …) if it can be opened for reading and writing."""
    return path if os.access(path, os.R_OK | os.W_OK) else missing(path)


def require_shared(*parts: str) -> Path:
    """A file or folder of the collection of images and oracles that may lie beside the repository.

    It is not part of pyexfat, so a test without it is skipped, required peers or not.
    """
    root = Path(os.environ.get("PYEXFAT_SHARED") or _REPO.parent / "shared")
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def run_guest(script: str, *images: Path, seconds: int = 300) -> str:
    """What ``script`` prints when a real Linux kernel runs it with ``images`` as /dev/vda, …

    The script runs as root under busybox sh; changes are written to the images. Takes some ten
    seconds of emulation, so a test does all it has to ask in one run (and is marked ``guest``).

    Raises:
        AssertionError: the script ended with another status than 0, or the guest did not start.
    """
    guest = require_shared("oracle", "linux-guest")
    for tool in ("qemu-system-x86_64", "busybox", "cpio", "xz"):
        require_tool(tool)
    with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as file:
        file.write(script)
        file.flush()
        command = ["bash", str(guest), "-t", str(seconds), file.name, *map(str, images)]
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout
