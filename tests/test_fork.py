"""What a fork leaves to the child: objects that say so, and an image that stays the parent's."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pyexfat as px

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
PATIENCE = 60


def in_child(work: Callable[[], object]) -> str:
    """What ``work`` returns in the child of a fork, as text; its traceback when it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                said = str(work())
            except BaseException:
                said = traceback.format_exc()
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    end = threading.Timer(PATIENCE, os.kill, (child, signal.SIGKILL))
    end.start()
    with open(reading, encoding="utf-8") as answer:
        said = answer.read()
    end.cancel()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    return said


def refusal(call: Callable[[], object]) -> str:
    """How the call was refused, in short."""
    try:
        call()
    except ValueError as error:
        return "refused" if "before a fork" in str(error) else str(error)
    return "went on"


@contextmanager
def busy(call: Callable[[], object]) -> Iterator[None]:
    """A thread that calls without a pause meanwhile."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            call()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_thread_inside_the_volume(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="8 MiB") as vol:
        vol.touch("a")
        with busy(lambda: vol.write_bytes("/t", b"x" * 3000)):
            for _ in range(20):
                assert in_child(lambda: refusal(lambda: vol.stat("/a"))) == "refused"
                time.sleep(0.001)
        assert vol.read_bytes("t") == b"x" * 3000
    with px.open(image) as vol:
        assert not vol.was_dirty
        assert vol.listdir() == ["a", "t"]


def test_everything_is_refused() -> None:
    memory = px.Device.memory("8 MiB")
    vol = px.format(memory)
    file = vol.open("f", "w+b", buffering=0)
    file.write(b"12345")
    handle = vol.open_file("f", 1)
    branch, recorder = memory.branch(), memory.record()
    faults, part = memory.faults(), memory.slice(0, 4096)
    iterator = vol.scandir("/")
    path = vol / "f"

    calls: list[Callable[[], object]] = [
        lambda: vol.stat("f"),
        lambda: vol.exists("f"),
        lambda: vol.open("f"),
        lambda: vol.label,
        lambda: vol.usage(),
        lambda: vol.sync(),
        lambda: vol.counters,
        lambda: vol.__enter__(),
        lambda: list(vol.walk("/")),
        lambda: vol.copy_in(io.BytesIO(b"x"), "g"),
        lambda: path.read_bytes(),
        lambda: file.read(1),
        lambda: file.write(b"x"),
        lambda: file.seek(0, 2),
        lambda: handle.pread(1, 0),
        lambda: handle.size(),
        lambda: memory.pread(512, 0),
        lambda: memory.pwrite(bytes(512), 0),
        lambda: memory.flush(),
        lambda: memory.resize("16 MiB"),
        lambda: memory.branch(),
        lambda: memory.record(),
        lambda: memory.__enter__(),
        lambda: px.open(memory),
        lambda: px.detect(memory),
        lambda: branch.commit(),
        lambda: branch.rollback(),
        lambda: recorder.pread(512, 0),
        lambda: recorder.entry(0),
        lambda: recorder.clear(),
        lambda: recorder.at(0),
        lambda: faults.add(),
        lambda: faults.count("read"),
        lambda: part.pread(512, 0),
    ]
    said = in_child(lambda: [refusal(call) for call in calls])
    assert said == str(["refused"] * len(calls))
    # What needs neither lock nor device can still be asked.
    told = in_child(
        lambda: (vol.closed, file.closed, handle.closed, memory.closed, memory.size, vol.fs)
    )
    assert told == str((True, False, True, True, 8 << 20, "exfat"))
    assert [entry.name for entry in iterator] == ["f"]
    file.close()
    vol.close()


def test_the_end_of_with_writes_nothing(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    vol = px.format(image, size="8 MiB")
    vol.sync()
    vol.touch("parent")
    before = image.read_bytes()

    def child() -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            vol.__exit__(None, None, None)
            vol.close()
            vol.abandon()
        return "quiet"

    assert in_child(child) == "quiet"
    assert image.read_bytes() == before
    vol.touch("more")
    vol.close()
    with px.open(image) as vol:
        assert vol.listdir() == ["parent", "more"]


def test_what_is_dropped_writes_nothing(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    vol: px.Volume | None = px.format(image, size="8 MiB")
    assert vol is not None
    files = [vol.open(f"f{i}", "wb", buffering=0) for i in range(3)]
    files[0].write(b"not yet on the disk")
    vol.unlink("f1")
    handle = vol.open_file("f2", 3)
    held: list[object] = [vol, files, handle]
    before = image.read_bytes()

    def child() -> str:
        nonlocal vol, files, handle
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            held.clear()
            vol, files = None, []
            del handle
            gc.collect()
        return str([str(one.message) for one in said if one.category is ResourceWarning])

    assert in_child(child) == "[]"
    assert image.read_bytes() == before
    for file in files:
        file.close()
    vol.close()
    with px.open(image) as vol:
        assert vol.listdir() == ["f0", "f2"]
        assert vol.read_bytes("f0") == b"not yet on the disk"


def test_what_is_dropped_while_a_thread_was_inside() -> None:
    memory = px.Device.memory("8 MiB")
    stacked = memory.branch().record().branch()
    vol = px.format(stacked)
    file = vol.open("open", "wb", buffering=0)
    held: list[object] = [memory, stacked, vol, file]

    def child() -> str:
        nonlocal memory, stacked, vol, file
        held.clear()
        del memory, stacked, vol, file
        gc.collect()
        return "done"

    volume = vol
    with busy(lambda: volume.write_bytes("/t", b"x" * 3000)):
        for _ in range(10):
            assert in_child(child) == "done"
            time.sleep(0.001)
    volume.close()


def descriptors(image: Path) -> int:
    return sum(
        os.path.samefile(f"/proc/self/fd/{fd}", image)
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    )


@pytest.mark.parametrize("how", ["close", "drop"])
def test_the_child_gives_its_descriptor_up(tmp_path: Path, how: str) -> None:
    image = tmp_path / "a.img"
    vol = px.format(image, size="8 MiB")
    held = [vol]

    def child() -> str:
        nonlocal vol
        had = descriptors(image)
        if how == "close":
            vol.close()
        held.clear()
        del vol
        gc.collect()
        return f"{had} {descriptors(image)}"

    assert in_child(child) == "1 0"
    # The lock stays the parent's until it closes, whatever the child closed.
    with pytest.raises(OSError, match="busy"):
        px.open(image, "r+")
    held.clear()
    vol.close()
    px.open(image, "r+").close()


@pytest.mark.parametrize("adopted", [False, True])
def test_the_lock_goes_with_the_parents_close(tmp_path: Path, adopted: bool) -> None:
    image = tmp_path / "a.img"
    px.format(image, size="8 MiB").close()
    with open(image, "r+b") as file:
        device = px.Device.fd(file.fileno(), True) if adopted else px.Device.file(image, True)
        vol = px.open(device, "r+")
        started, stop = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.write(started[1], b"!")
            os.read(stop[0], 1)
            os._exit(0)
        try:
            os.read(started[0], 1)
            vol.close()
            device.close()
            # The child still has its descriptors.
            px.open(image, "r+").close()
        finally:
            os.write(stop[1], b"!")
            os.waitpid(child, 0)
        for fd in (*started, *stop):
            os.close(fd)


def test_the_child_opens_its_own(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    with px.format(image, size="8 MiB") as vol:
        vol.write_bytes("f", b"from the parent")
    buffer = bytearray(8 << 20)
    px.format(buffer).close()
    old = px.open(image)

    def child() -> str:
        memory = px.Device.memory("8 MiB")
        px.format(memory).close()
        with (
            px.open(image) as vol,
            px.open(buffer, "r+") as own,
            px.open(memory.branch(), "r+") as m,
        ):
            own.touch("child")
            m.touch("child")
            return f"{vol.read_bytes('f')!r} {own.listdir()} {m.listdir()}"

    assert in_child(child) == "b'from the parent' ['child'] ['child']"
    old.close()


def test_a_fork_in_a_call_back() -> None:
    """A file object's method forks: the call fails in the child, and goes on in the parent."""

    class Forking(io.BytesIO):
        answers: int | None = None
        child = 0

        def write(self, data: object) -> int:
            if self.answers is not None and not self.child:
                reading, writing = os.pipe()
                self.answers = reading
                self.child = os.fork()
                if self.child == 0:
                    self.answers = None
                    self.writing = writing
                    self.child = -1
                else:
                    os.close(writing)
            return super().write(data)  # type: ignore[arg-type]

    medium = Forking(bytes(8 << 20))
    vol = px.format(medium)
    medium.answers = 0
    try:
        vol.touch("a")
        vol.sync()
        said = "went on"
    except ValueError as error:
        said = "refused" if "before a fork" in str(error) else str(error)
    except BaseException as error:
        said = repr(error)
    if medium.child == -1:
        os.write(medium.writing, said.encode())
        os._exit(0)
    assert medium.answers is not None
    end = threading.Timer(PATIENCE, os.kill, (medium.child, signal.SIGKILL))
    end.start()
    with open(medium.answers, encoding="utf-8") as answer:
        assert answer.read() == "refused"
    end.cancel()
    os.waitpid(medium.child, 0)
    assert said == "went on"
    assert vol.listdir() == ["a"]
    vol.close()


def _in_a_worker(vol: px.Volume, answers: multiprocessing.queues.Queue[str]) -> None:
    answers.put(refusal(lambda: vol.listdir()))


def test_multiprocessing_by_fork(tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    context = multiprocessing.get_context("fork")
    with px.format(image, size="8 MiB") as vol:
        answers = context.Queue()
        with busy(lambda: vol.touch("a")):
            worker = context.Process(target=_in_a_worker, args=(vol, answers))
            worker.start()
            assert answers.get(timeout=PATIENCE) == "refused"
            worker.join(PATIENCE)
        assert worker.exitcode == 0
    with px.open(image) as vol:
        assert not vol.was_dirty


def test_multiprocessing_by_spawn_says_why() -> None:
    context = multiprocessing.get_context("spawn")
    with px.format(px.Device.memory("8 MiB")) as vol:
        worker = context.Process(target=print, args=(vol,))
        with pytest.raises(TypeError, match="pickle"):
            worker.start()
