"""Many threads on one volume, and closing it while they work."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from api_support import assert_clean, pattern

import pyexfat as px

pytestmark = pytest.mark.threads


def run_all(jobs: list[Callable[[], None]]) -> list[BaseException]:
    """Starts all jobs at once; returns what they raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        barrier.wait()
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return errors


def test_each_thread_works_in_its_own_directory(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="32 MiB", cluster_size=4096) as vol:

        def job(n: int) -> Callable[[], None]:
            def work() -> None:
                vol.mkdir(f"d{n}")
                for i in range(40):
                    name = f"d{n}/f{i}"
                    with vol.open(name, "wb") as f:
                        f.write(pattern(5000, n * 100 + i + 1))
                    if i % 3 == 0:
                        vol.rename(name, name + "x")
                    elif i % 3 == 1:
                        vol.unlink(name)
                    vol.listdir(f"d{n}")

            return work

        assert run_all([job(n) for n in range(6)]) == []
        for n in range(6):
            kept = [i for i in range(40) if i % 3 != 1]
            assert len(vol.listdir(f"d{n}")) == len(kept)
            for i in kept:
                name = f"d{n}/f{i}" + ("x" if i % 3 == 0 else "")
                assert vol.read_bytes(name) == pattern(5000, n * 100 + i + 1)
    assert_clean(image)


def test_threads_race_for_the_same_names(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    made: list[str] = []
    with px.format(image, size="16 MiB") as vol:

        def work() -> None:
            for i in range(100):
                try:
                    with vol.open(f"f{i}", "xb") as f:
                        f.write(b"mine")
                    made.append(f"f{i}")
                except FileExistsError:
                    pass

        assert run_all([work] * 4) == []
        assert sorted(made) == sorted(vol.listdir()) == sorted(f"f{i}" for i in range(100))
    assert_clean(image)


def test_one_buffered_file_is_written_by_many(tmp_path: Path) -> None:
    with px.format(px.Device.memory("16 MiB")) as vol:
        with vol.open("log", "wb") as f:

            def work() -> None:
                for _ in range(500):
                    f.write(b"0123456789\n")

            assert run_all([work] * 4) == []
        assert vol.read_bytes("log") == b"0123456789\n" * 2000


@pytest.mark.parametrize("seed", range(5))
def test_closing_while_others_work(tmp_path: Path, seed: int) -> None:
    image = tmp_path / "a.img"
    vol = px.format(image, size="16 MiB")
    chance = random.Random(seed)
    delay = chance.random() * 0.05
    started = threading.Event()

    def work() -> None:
        number = threading.get_ident()
        try:
            for i in range(100_000):
                with vol.open(f"{number}-{i % 10}", "wb") as f:
                    f.write(bytes(10_000))
                started.set()
                vol.listdir()
                list(vol.walk())
                vol.stat(f"{number}-{i % 10}")
        except ValueError as error:
            assert "closed" in str(error)  # noqa: PT017

    def close() -> None:
        started.wait(10)
        threading.Event().wait(delay)
        vol.close()

    assert run_all([work, work, work, close]) == []
    assert vol.closed
    assert_clean(image)


def test_many_threads_read_one_file(tmp_path: Path) -> None:
    data = pattern(1_000_000)
    with px.format(px.Device.memory("16 MiB")) as vol:
        vol.write_bytes("f", data)

        def job(seed: int) -> Callable[[], None]:
            chance = random.Random(seed)

            def work() -> None:
                with vol.open("f", "rb") as f:
                    for _ in range(100):
                        at = chance.randrange(len(data))
                        n = chance.randrange(50_000)
                        f.seek(at)
                        assert f.read(n) == data[at : at + n]

            return work

        assert run_all([job(seed) for seed in range(6)]) == []
