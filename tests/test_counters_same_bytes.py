"""Old ways and new ways, and every mix of them, leave the same bytes on the disk.

What is freed may be used again after a write-back, and when those happen is a policy's own affair:
so the work syncs after everything that frees clusters. Memory for some of a directory's holes but
not for all is left out: then a name may go into another hole than the first.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

import pyexfat as px
from pyexfat import Device, Policy
from pyexfat.bench.workloads import env

POLICIES = [
    *(
        Policy(empty_hint=hint, name_filter=name_filter, name_index=index, entry_sync=sync)
        for hint, name_filter, index, sync in product(
            ("off", "one-shot", "retained"), (False, True), (False, True), ("entry", "set")
        )
    ),
    Policy.before(),
    Policy(memory_budget=0),
]
DIRECTORIES = ("/", "/d/", "/d/e/")
LENGTHS = (1, 5, 20, 40, 120, 250)


class Work:
    """The same calls for every policy, chosen by a seed."""

    def __init__(self, volume: px.Volume, seed: int) -> None:
        self.volume = volume
        self.random = random.Random(seed)
        self.files: list[str] = []
        self.made = 0

    def new_path(self) -> str:
        self.made += 1
        name = f"{self.made:05d}" + "n" * self.random.choice(LENGTHS)
        return self.random.choice(DIRECTORIES) + name

    def step(self) -> None:
        """One call of a random kind."""
        volume, chance = self.volume, self.random
        kind = chance.random()
        if kind < 0.5 or not self.files:
            path = self.new_path()
            volume.touch(path)
            self.files.append(path)
        elif kind < 0.8:
            path = self.files.pop(chance.randrange(len(self.files)))
            full = volume.stat(path).st_size > 0
            volume.unlink(path)
            if full:
                volume.sync()
        elif kind < 0.9:
            number = chance.randrange(len(self.files))
            path = self.new_path()
            volume.rename(self.files[number], path)
            self.files[number] = path
        elif kind < 0.93:
            volume.stat(chance.choice(self.files))
        elif kind < 0.96:
            assert not volume.exists(chance.choice(DIRECTORIES) + "absent")
        elif kind < 0.98:
            volume.listdir("/d")
        else:
            with volume.open(chance.choice(self.files), "wb") as file:
                file.write(bytes([self.made % 256]) * chance.randrange(20_000))
            volume.sync()


def image(policy: Policy, seed: int, sync: str, steps: int, remount: bool = False) -> bytes:
    """All bytes of a volume after the work."""
    device = Device.memory(8 << 20)
    px.format(device, cluster_size=4096, env=env()).close()
    work = None
    for part in range(2 if remount else 1):
        options = {"policy": policy, "sync": sync, "env": env()}
        with px.open(device, "r+", **options) as volume:  # type: ignore[arg-type]
            if work is None:
                volume.mkdir("/d")
                volume.mkdir("/d/e")
                work = Work(volume, seed)
            work.volume = volume
            for _ in range(steps):
                work.step()
            assert part == 0 or remount
    assert work is not None
    assert len(work.files) > steps // 10
    return device.pread(device.size, 0)


def first_difference(one: bytes, other: bytes) -> int | None:
    """Offset of the first sector that differs."""
    if one == other:
        return None
    return next(at for at in range(0, len(one), 512) if one[at : at + 512] != other[at : at + 512])


@pytest.mark.parametrize("seed", range(6))
def test_every_mix_of_policies_writes_the_same_bytes(seed: int) -> None:
    wanted = image(POLICIES[0], seed, "lazy", 400)
    for policy in POLICIES[1:]:
        assert first_difference(image(policy, seed, "lazy", 400), wanted) is None, policy


@pytest.mark.parametrize("sync", ["dirsync", "sync"])
def test_the_same_when_changes_are_durable_at_once(sync: str) -> None:
    wanted = image(Policy(), 100, sync, 250)
    for policy in POLICIES[::3]:
        assert first_difference(image(policy, 100, sync, 250), wanted) is None, policy


def test_the_same_when_the_volume_is_opened_again_in_between() -> None:
    wanted = image(Policy(), 200, "lazy", 250, remount=True)
    for policy in POLICIES[::3]:
        assert first_difference(image(policy, 200, "lazy", 250, remount=True), wanted) is None


def test_the_same_when_the_policy_changes_under_way() -> None:
    wanted = image(Policy(), 300, "lazy", 400)
    device = Device.memory(8 << 20)
    px.format(device, cluster_size=4096, env=env()).close()
    with px.open(device, "r+", env=env()) as volume:
        volume.mkdir("/d")
        volume.mkdir("/d/e")
        work = Work(volume, 300)
        for step in range(400):
            if step % 10 == 0:
                volume.policy = POLICIES[step // 10 % len(POLICIES)]
            work.step()
    assert first_difference(device.pread(device.size, 0), wanted) is None


def test_a_difference_would_show() -> None:
    assert first_difference(image(Policy(), 1, "lazy", 50), image(Policy(), 2, "lazy", 50))
