"""Policies: defaults, the old way, changes while a volume is open."""

from __future__ import annotations

import dataclasses

import pytest
from api_support import make_volume

import pyexfat as px
from pyexfat import _core


def test_defaults_are_those_of_the_core() -> None:
    assert px.Policy().as_dict() == _core.default_policy()


def test_before_switches_every_mechanism_off() -> None:
    before = px.Policy.before()
    assert before.empty_hint == "off"
    assert before.name_filter is before.name_index is before.preallocate is False
    assert (before.entry_sync, before.free_scan) == ("entry", "element")


def test_a_policy_is_frozen_and_can_be_changed_into_another() -> None:
    policy = px.Policy(memory_budget="16 MiB")
    assert policy.memory_budget == 16 << 20
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.name_filter = False  # type: ignore[misc]
    other = policy.replace(name_filter=False)
    assert (policy.name_filter, other.name_filter) == (True, False)
    assert other.memory_budget == 16 << 20
    assert policy == px.Policy(memory_budget=16 << 20)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("empty_hint", "sometimes"),
        ("entry_sync", "file"),
        ("free_scan", 3),
        ("memory_budget", "lots"),
        ("memory_budget", -1),
    ],
)
def test_a_setting_that_does_not_exist_names_its_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        px.Policy(**{field: value})  # type: ignore[arg-type]


def test_a_volume_takes_a_policy_and_gives_it_back() -> None:
    policy = px.Policy.before().replace(memory_budget="2 MiB")
    with make_volume(policy=policy) as vol:
        assert vol.policy == policy
        assert vol.memory_budget == 2 << 20


def test_a_volume_takes_some_fields_as_a_dict() -> None:
    with make_volume(policy={"name_filter": False, "memory_budget": "1M"}) as vol:
        assert vol.policy == px.Policy(name_filter=False, memory_budget=1 << 20)
        vol.policy = {"name_index": False}
        assert vol.policy == px.Policy(name_filter=False, name_index=False, memory_budget=1 << 20)


def test_mechanisms_are_switched_while_files_are_there() -> None:
    with make_volume() as vol:
        names = [f"file {i:03}" for i in range(200)]
        for i, name in enumerate(names):
            if i == 100:
                vol.policy = px.Policy.before()
            vol.touch(name)
        vol.policy = px.Policy()
        assert vol.listdir("/") == names
        assert all(vol.exists(name) for name in names)
        assert not vol.exists("file 200")


def test_the_memory_budget_can_be_set() -> None:
    with make_volume() as vol:
        assert vol.memory_budget == 64 << 20
        vol.memory_budget = "3 MiB"
        assert vol.memory_budget == 3 << 20 == vol.policy.memory_budget
        with pytest.raises(ValueError, match="memory_budget"):
            vol.memory_budget = "much"


@pytest.mark.parametrize("bad", ["all", 3, [("name_filter", True)]])
def test_what_is_no_policy_is_refused(bad: object) -> None:
    with pytest.raises(TypeError, match="policy"):
        make_volume(policy=bad)


def test_an_unknown_field_is_named() -> None:
    with make_volume() as vol, pytest.raises(ValueError, match="magic"):
        vol.policy = {"magic": True}


def test_counters_are_read_by_name_and_subtracted() -> None:
    with make_volume() as vol:
        before = vol.counters
        vol.touch("a")
        vol.stat("a")
        since = vol.counters - before
        assert since.operations == since["operations"] >= 2
        assert since.sets_written >= 1
        assert isinstance(since.cache.hits, int)
        with pytest.raises(AttributeError, match="luck"):
            _ = since.luck
