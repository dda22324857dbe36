"""Hints, holes, filters and indexes of exFAT directories against brute force, after each step."""

from __future__ import annotations

from model.drivers import EXFAT
from model.mechanisms import MechanismMachine
from model.profiles import machine_settings


class ExfatMechanisms(MechanismMachine):
    """With devices that fail."""

    driver = EXFAT


class ExfatMechanismsWithoutFaults(MechanismMachine):
    """Where nothing fails, the image must be perfect in the end."""

    driver = EXFAT
    with_faults = False


TestMechanisms = ExfatMechanisms.TestCase
TestMechanisms.settings = machine_settings(examples=40, steps=40)
TestMechanismsWithoutFaults = ExfatMechanismsWithoutFaults.TestCase
TestMechanismsWithoutFaults.settings = machine_settings(examples=40, steps=40)
