"""Running the command line inside the test's process, and small pieces that its tests share."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyexfat.cli import main

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Result:
    """What one command said."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Cli:
    """``cli("ls", "card.img:/")`` runs a command and expects it to end well, or with ``code``."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def __call__(self, *args: str | Path, code: int = 0) -> Result:
        self._capture.readouterr()
        status = main([str(arg) for arg in args])
        out, err = self._capture.readouterr()
        result = Result(status, out, err.decode("utf-8"))
        assert status == code, f"{args}: {status}\n{result.out}\n{result.err}"
        assert "Traceback" not in result.err
        if code == 0:
            assert result.err == ""
        return result

    def fails(self, *args: str | Path, code: int = 1) -> str:
        """Runs a command that fails with one line on standard error, and returns the line."""
        result = self(*args, code=code)
        assert result.err.startswith("pyexfat: "), result.err
        assert result.err.endswith("\n")
        assert result.err.count("\n") == 1, result.err
        return result.err[len("pyexfat: ") : -1]


def run(*args: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """``python -m pyexfat`` in a process of its own."""
    command = [sys.executable, "-m", "pyexfat", *map(str, args)]
    return subprocess.run(command, capture_output=True, check=False, timeout=120, **options)
