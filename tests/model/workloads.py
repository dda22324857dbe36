"""Short workloads for sweeps of failures and power cuts."""

from __future__ import annotations

from model import crash
from model.crash import Plan, Step


def _text(letter: str, n: int) -> bytes:
    return (letter.encode() * 7 + b"%d " % n) * (n // 8 + 1)


def _sized(letter: str, n: int) -> bytes:
    return _text(letter, n)[:n]


def creating() -> list[Step]:
    """Directories that grow, names that cross sectors and clusters."""
    names = [f"file {i:02} {'n' * (i * 9 % 80)}" for i in range(12)]
    return [
        crash.mkdir("/d"),
        crash.create_many("/d", names[:6]),
        crash.sync(),
        crash.create_many("/d", names[6:]),
        crash.mkdir("/d/sub"),
        crash.touch("/d/sub/x"),
        crash.write("/d/sub/y", _sized("y", 700)),
        crash.sync(),
        crash.create_many("/", [f"root {i:02} {'r' * 30}" for i in range(6)]),
    ]


def writing() -> list[Step]:
    """Content: grown, in pieces, cut, overwritten; chains that become fragmented."""
    return [
        crash.write("/a", _sized("a", 1300)),
        crash.write("/b", _sized("b", 400)),
        crash.sync(),
        crash.append("/a", _sized("A", 900)),
        crash.append("/b", _sized("B", 1500)),
        crash.append("/a", _sized("c", 1100)),
        crash.sync(),
        crash.truncate("/a", 700),
        crash.write("/c", _sized("C", 2500)),
        crash.append("/a", _sized("d", 1500)),
        crash.sync(),
        crash.overwrite("/b", 300, _sized("o", 900)),
        crash.truncate("/c", 5000),
        crash.overwrite("/c", 4000, _sized("g", 300)),
        crash.write("/b", _sized("n", 600)),
    ]


def renaming() -> list[Step]:
    """Within a directory, across, over another file, of case only, whole directories."""
    return [
        crash.mkdir("/d"),
        crash.mkdir("/e"),
        crash.write("/d/one", _sized("1", 900)),
        crash.write("/e/two", _sized("2", 900)),
        crash.write("/three " + "3" * 40, _sized("3", 600)),
        crash.sync(),
        crash.rename("/d/one", "/d/eins"),
        crash.rename("/e/two", "/d/zwei " + "z" * 60),
        crash.sync(),
        crash.rename("/d/eins", "/three " + "3" * 40),
        crash.sync(),
        crash.rename("/three " + "3" * 40, "/THREE " + "3" * 40),
        crash.rename("/d", "/e/d"),
        crash.touch("/d"),
    ]


def deleting() -> list[Step]:
    """What is freed is used again at once."""
    names = [f"f{i}" for i in range(10)]
    return [
        crash.mkdir("/d"),
        crash.create_many("/d", names),
        crash.write("/big", _sized("x", 4000)),
        crash.write("/d/f3", _sized("3", 600)),
        crash.sync(),
        crash.unlink("/big"),
        crash.write("/new", _sized("N", 3000)),
        crash.remove_many("/d", names[:5]),
        crash.write("/d/f9", _sized("9", 800)),
        crash.sync(),
        crash.remove_many("/d", names[5:]),
        crash.rmdir("/d"),
        crash.mkdir("/d"),
        crash.write("/d/again", _sized("d", 600)),
    ]


def replacing() -> list[Step]:
    """Files in the place of others, whose clusters are used again at once; directories move."""
    steps = [crash.mkdir("/d"), crash.mkdir("/e"), crash.mkdir("/d/in"), crash.touch("/d/in/x")]
    for i in range(4):
        steps += [crash.write(f"/e/old {i}", _sized("o", 2500 + i))]
        steps += [crash.write(f"/d/new {i}", _sized("n", 300 + i))]
    steps.append(crash.sync())
    for i in range(4):
        steps.append(crash.rename(f"/d/new {i}", f"/e/old {i}"))
        steps.append(crash.write(f"/more {i}", _sized("m", 2500 + i)))
    for old, new in (("/d/in", "/e/in"), ("/e/in", "/in"), ("/in", "/d/again")):
        steps += [crash.sync(), crash.rename(old, new)]
    return steps


def growing() -> list[Step]:
    """Sizes that grow before there is content, and what makes their entries be written."""
    held = crash.Held()
    return [
        crash.write("/a", _sized("a", 1300)),
        crash.write("/b", _sized("b", 400)),
        crash.sync(),
        held.open("/a"),
        held.resize("/a", 6000),
        held.overwrite("/a", 3000, _sized("x", 300)),
        crash.touch("/other"),
        crash.sync(),
        held.allocate("/a", 9000),
        crash.rename("/a", "/moved"),
        held.resize("/moved", 12_000),
        crash.unlink("/b"),
        crash.write("/c", _sized("c", 2000)),
        held.resize("/moved", 7000),
        held.allocate("/moved", 8000),
        crash.utime("/moved"),
        crash.truncate("/c", 4500),
        held.resize("/moved", 9500),
        held.overwrite("/moved", 8000, _sized("y", 1500)),
        held.reserve("/moved", 14_000),
        crash.sync(),
        held.overwrite("/moved", 9500, _sized("z", 1000)),
        held.close("/moved"),
    ]


def updating(names: list[str]) -> list[Step]:
    """Sizes and times of files that are on the device already."""
    return [
        *(crash.write(name, _sized("u", 100 + 90 * i)) for i, name in enumerate(names)),
        crash.sync(),
        *(crash.append(name, _sized("v", 600)) for name in names),
        crash.sync(),
        *(crash.truncate(name, 50) for name in names[::2]),
        crash.sync(),
    ]


def updating_plain() -> list[Step]:
    """Names may lie across sectors, but what is updated does not: File and Stream Extension."""
    return updating([f"/u{i} {'u' * (i * 5 % 40)}" for i in range(12)])


def updating_across() -> list[Step]:
    """Sets of three from entry 3 on: the sixth has its File entry at the end of a sector."""
    return updating([f"/u{i}" for i in range(7)])


WORKLOADS = {
    "creating": creating,
    "writing": writing,
    "renaming": renaming,
    "deleting": deleting,
    "replacing": replacing,
    "growing": growing,
    "updating": updating_plain,
}


def plan_of(name: str) -> Plan:
    """A workload by its name."""
    return Plan({**WORKLOADS, "updating across": updating_across}[name]())
