"""What every test may use: peers (tools of others that judge our images) and hypothesis profiles.

A test whose peer is not installed is skipped, or fails where PYEXFAT_REQUIRE_PEERS=1 says that
all of them must be there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

_REPO = Path(__file__).resolve().parent.parent

# Python started by a test must find the installed package, not the sources in the current folder.
os.environ["PYTHONSAFEPATH"] = "1"

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
    path = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin:/sbin"
    found = shutil.which(name, path=path)
    return found if found is not None else missing(name)


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


def require_guest() -> Path:
    """The program that runs a script in a real Linux kernel with images attached."""
    guest = require_shared("oracle", "linux-guest")
    for tool in ("qemu-system-x86_64", "busybox", "cpio"):
        require_tool(tool)
    return guest
