"""The whole API on exFAT volumes of random geometry against a volume made of dicts.

Every run ends with close(), and the image is then read by an independent reader of bytes, and now
and then judged by fsck.exfat.
"""

from __future__ import annotations

from conftest import require_tool
from model.drivers import EXFAT
from model.machine import VolumeMachine
from model.profiles import machine_settings


class ExfatMachine(VolumeMachine):
    """The machine with the exFAT driver."""

    driver = EXFAT

    def __init__(self) -> None:
        """Needs fsck.exfat."""
        require_tool("fsck.exfat")
        super().__init__()


TestExfat = ExfatMachine.TestCase
TestExfat.settings = machine_settings(examples=100, steps=40)
