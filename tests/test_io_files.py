"""Open files against io.open(): modes, positions, errors, buffers, text.

Where a rule is io's own, the same steps are made with io.open() on a file of the host, and both
must agree.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_support import make_volume, pattern
from hypothesis import given
from hypothesis import strategies as st

import pyexfat as px
from pyexfat.files import RawFile


@pytest.fixture
def vol() -> Iterator[px.Volume]:
    with make_volume() as volume:
        yield volume


@pytest.fixture(params=["volume", "host"])
def opener(request: pytest.FixtureRequest, vol: px.Volume, tmp_path: Path) -> Callable[..., Any]:
    """open() for a directory in the volume, and the same of the host, which says what is right."""
    if request.param == "volume":
        return vol.open

    def open_host(path: str, *args: Any, **kwargs: Any) -> Any:
        return open(tmp_path / path.lstrip("/"), *args, **kwargs)

    return open_host


# ---- modes ----

GOOD_MODES = [
    "r", "w", "x", "a", "rb", "wb", "xb", "ab", "r+", "w+", "x+", "a+", "r+b", "rb+", "w+b", "wb+",
    "x+b", "xb+", "a+b", "ab+", "rt", "wt", "r+t", "b+r", "+wb", "ta",
]  # fmt: skip
BAD_MODES = ["", "b", "t", "+", "rw", "ra", "wx", "rr", "r++", "rbt", "U", "rU", "z", "rb ", "R"]


@pytest.mark.parametrize("mode", GOOD_MODES)
def test_what_a_mode_gives(opener: Callable[..., Any], mode: str) -> None:
    if "x" not in mode:
        with opener("f", "wb") as f:
            f.write(b"abcdef")
    with opener("f", mode) as f:
        assert f.readable() == ("r" in mode or "+" in mode)
        assert f.writable() == ("r" not in mode or "+" in mode)
        assert f.seekable()
        assert f.tell() == (6 if "a" in mode else 0)
        assert isinstance(f, io.TextIOBase) == ("b" not in mode)
        if "b" not in mode:
            assert f.mode == mode
            f = f.buffer
        kind = io.BufferedReader if not f.writable() else io.BufferedWriter
        if f.readable() and f.writable():
            kind = io.BufferedRandom
        assert type(f) is kind
        raw_modes = {"r": "rb", "w": "wb", "x": "xb", "a": "ab"}
        plus = {"r": "rb+", "w": "rb+", "x": "xb+", "a": "ab+"}
        letter = next(c for c in mode if c in "rwxa")
        assert f.raw.mode == f.mode == (plus if "+" in mode else raw_modes)[letter]


@pytest.mark.parametrize("mode", BAD_MODES)
def test_a_bad_mode_is_refused_and_nothing_made(vol: px.Volume, tmp_path: Path, mode: str) -> None:
    with pytest.raises(ValueError) as ours:  # noqa: PT011 - the text is compared with io's
        vol.open("f", mode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError) as theirs:  # noqa: PT011
            open(tmp_path / "f", mode)
    assert str(ours.value).casefold() == str(theirs.value).casefold()
    assert not vol.exists("f")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("rb",), {"encoding": "utf-8"}),
        (("rb",), {"errors": "strict"}),
        (("rb",), {"newline": "\n"}),
        (("r", 0), {}),
        (("w",), {"newline": "x"}),
    ],
)
def test_arguments_that_do_not_fit(vol: px.Volume, tmp_path: Path, args: Any, kwargs: Any) -> None:
    vol.write_bytes("f", b"x")
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(ValueError) as ours:  # noqa: PT011
        vol.open("f", *args, **kwargs)
    with pytest.raises(ValueError) as theirs:  # noqa: PT011
        open(tmp_path / "f", *args, **kwargs)
    assert str(ours.value) == str(theirs.value)
    assert vol.read_bytes("f") == b"x"


def test_types_of_arguments(vol: px.Volume) -> None:
    with pytest.raises(TypeError):
        vol.open(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        vol.open(b"f")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        vol.open("f", 7)  # type: ignore[call-overload]


def test_missing_existing_and_directories(opener: Callable[..., Any], vol: px.Volume) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        opener("none", "r")
    assert str(missing.value.filename).endswith("none")
    with pytest.raises(FileNotFoundError):
        opener("no/file", "w")
    opener("f", "xb").close()
    with pytest.raises(FileExistsError):
        opener("f", "x")


def test_a_directory_is_no_file(vol: px.Volume) -> None:
    vol.mkdir("d")
    for mode in ("r", "w", "r+", "a"):
        with pytest.raises(IsADirectoryError):
            vol.open("d", mode)
    with pytest.raises(FileExistsError):
        vol.open("d", "x")
    with pytest.raises(NotADirectoryError):
        vol.write_bytes("f", b"")
        vol.open("f/g", "w")


def test_buffering(vol: px.Volume) -> None:
    raw = vol.open("f", "wb", 0)
    assert isinstance(raw, RawFile)
    raw.write(b"hello\nworld\n")
    assert vol.stat("f").st_size == 12
    raw.close()
    with vol.open("f", "wb", 16) as f:
        f.write(b"0123456789")
        assert vol.stat("f").st_size == 0
        f.write(b"0123456789")
        assert vol.stat("f").st_size >= 10
    with vol.open("f", "w", 1) as text:
        text.write("a line\nhalf")
        assert vol.stat("f").st_size >= 7
    with pytest.warns(RuntimeWarning, match="line buffering"):
        vol.open("f", "rb", 1).close()


def test_the_buffer_is_as_large_as_a_cluster_within_bounds() -> None:
    for cluster, expected in (
        (512, io.DEFAULT_BUFFER_SIZE),
        (128 << 10, 128 << 10),
        (4 << 20, 1 << 20),
    ):
        with make_volume("128 MiB", cluster_size=cluster) as vol:
            vol.write_bytes("f", bytes(3 << 20))
            with vol.open("f", "rb") as f:
                assert f.read(1) == b"\0"
                assert f.raw.tell() == expected


# ---- reading and writing ----


def test_read_write_seek_truncate_as_the_host(opener: Callable[..., Any]) -> None:
    with opener("f", "w+b") as f:
        assert f.write(b"0123456789") == 10
        assert f.seek(3) == 3
        assert f.read(2) == b"34"
        assert f.seek(-2, os.SEEK_END) == 8
        assert f.read() == b"89"
        assert f.read() == b""
        assert f.seek(-1, os.SEEK_CUR) == 9
        assert f.truncate(5) == 5
        assert f.tell() == 9
        f.write(b"X")
        assert f.seek(0) == 0
        assert f.read() == b"01234\0\0\0\0X"
        f.seek(2)
        assert f.truncate() == 2
        f.seek(0)
        assert f.read() == b"01"
        assert f.truncate(6) == 6
        f.seek(0)
        assert f.read() == b"01\0\0\0\0"
        buffer = bytearray(b"......")
        f.seek(1)
        assert f.readinto(buffer) == 5
        assert buffer == b"1\0\0\0\0."
        with pytest.raises(OSError, match="Invalid argument"):
            f.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            f.seek(0, 9)
        with pytest.raises(OSError, match="Invalid argument"):
            f.truncate(-1)


@pytest.mark.parametrize("buffering", [0, -1])
def test_seek_beyond_the_end_and_write(opener: Callable[..., Any], buffering: int) -> None:
    with opener("f", "wb", buffering) as f:
        f.write(b"abc")
        assert f.seek(100_000) == 100_000
        f.write(b"xyz")
    with opener("f", "rb", buffering) as f:
        data = f.read()
        assert data == b"abc" + bytes(99_997) + b"xyz"
        f.seek(200_000)
        assert f.read() == b""
        assert f.read(10) == b""


def test_append_always_writes_at_the_end(opener: Callable[..., Any]) -> None:
    with opener("f", "ab") as f:
        f.write(b"one")
    with opener("f", "a+b", 0) as f:
        assert f.tell() == 3
        f.seek(0)
        assert f.read(2) == b"on"
        f.write(b"two")
        assert f.tell() == 6
        f.seek(0)
        f.write(b"three")
        assert f.tell() == 11
        f.seek(0)
        assert f.read() == b"onetwothree"


def test_two_appenders_do_not_overwrite_each_other(vol: px.Volume) -> None:
    with vol.open("f", "ab", 0) as one, vol.open("f", "ab", 0) as two:
        one.write(b"1")
        two.write(b"22")
        one.write(b"333")
    assert vol.read_bytes("f") == b"122333"


def test_write_mode_empties_and_exclusive_does_not_touch(vol: px.Volume) -> None:
    vol.write_bytes("f", b"old content")
    with pytest.raises(FileExistsError):
        vol.open("f", "xb")
    assert vol.read_bytes("f") == b"old content"
    vol.open("f", "wb").close()
    assert vol.stat("f").st_size == 0


def test_what_the_mode_forbids(opener: Callable[..., Any]) -> None:
    with opener("f", "wb") as f:
        f.write(b"x")
        for call in (lambda: f.read(), lambda: f.readinto(bytearray(1)), lambda: f.readline()):
            with pytest.raises(io.UnsupportedOperation):
                call()
    with opener("f", "rb") as f:
        for call in (lambda: f.write(b"y"), lambda: f.truncate(0)):
            with pytest.raises(io.UnsupportedOperation):
                call()
    with opener("f", "rb", 0) as f:
        for call in (lambda: f.write(b"y"), lambda: f.truncate(0)):
            with pytest.raises(io.UnsupportedOperation):
                call()
    with opener("f", "wb", 0) as f:
        for call in (
            lambda: f.read(),
            lambda: f.read(1),
            lambda: f.readinto(bytearray(1)),
        ):
            with pytest.raises(io.UnsupportedOperation):
                call()


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_closed_file(opener: Callable[..., Any], buffering: int) -> None:
    f = opener("f", "w+b", buffering)
    assert f.closed is False
    f.close()
    f.close()
    assert f.closed is True
    for call in (
        lambda: f.read(),
        lambda: f.read(1),
        lambda: f.write(b""),
        lambda: f.seek(0),
        lambda: f.tell(),
        lambda: f.truncate(),
        lambda: f.readinto(bytearray(1)),
        lambda: f.readable(),
        lambda: f.writable(),
        lambda: f.seekable(),
        lambda: f.isatty(),
        lambda: f.flush(),
        lambda: next(f),
        lambda: f.__enter__(),
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_no_descriptor_no_terminal_no_pickle(vol: px.Volume) -> None:
    for buffering in (0, -1):
        with vol.open("f", "wb", buffering) as f:
            with pytest.raises(io.UnsupportedOperation):
                f.fileno()
            assert f.isatty() is False
            with pytest.raises(TypeError, match="pickle"):
                pickle.dumps(f)


def test_names_and_representation(vol: px.Volume) -> None:
    with vol.open("/f", "w") as f:
        assert f.name == f.buffer.name == f.buffer.raw.name == "/f"
        assert "mode='w'" in repr(f)
        assert "'/f'" in repr(f)
        raw = f.buffer.raw
        assert repr(raw) == "<pyexfat.files.RawFile name='/f' mode='wb'>"
    assert repr(raw) == "<pyexfat.files.RawFile [closed]>"


def test_lines_and_iteration(opener: Callable[..., Any]) -> None:
    with opener("f", "wb") as f:
        f.writelines([b"one\n", b"two\n", b"three"])
    for buffering in (0, -1):
        with opener("f", "rb", buffering) as f:
            assert f.readline() == b"one\n"
            assert list(f) == [b"two\n", b"three"]
            f.seek(0)
            assert f.readlines() == [b"one\n", b"two\n", b"three"]
            f.seek(0)
            assert f.readline(2) == b"on"


def test_buffers_of_other_types(vol: px.Volume) -> None:
    from array import array

    numbers = array("I", [1, 2, 3])
    with vol.open("f", "w+b", 0) as f:
        assert f.write(numbers) == 12
        assert f.write(memoryview(b"abcdef")[::1]) == 6
        f.seek(0)
        back = array("I", [0, 0, 0])
        assert f.readinto(back) == 12
        assert back == numbers
        with pytest.raises(TypeError):
            f.write("text")
        with pytest.raises((TypeError, BufferError)):
            f.readinto(b"immutable")


def test_text_with_encodings_and_newlines(opener: Callable[..., Any]) -> None:
    with opener("t", "w", encoding="utf-16", newline="\r\n") as f:
        f.write("äöü\n€𝄞\n")
    with opener("t", "rb") as f:
        assert f.read() == b"\xff\xfe" + "äöü\r\n€𝄞\r\n".encode("utf-16-le")
    with opener("t", "r", encoding="utf-16") as f:
        assert f.read() == "äöü\n€𝄞\n"
        f.seek(0)
        assert list(f) == ["äöü\n", "€𝄞\n"]
    with opener("t", "w", encoding="ascii", errors="backslashreplace") as f:
        f.write("é")
    with opener("t", "r+", encoding="utf-8") as f:
        assert f.read() == "\\xe9"
        f.write("!")
        f.seek(0)
        assert f.read() == "\\xe9!"
    with pytest.raises(LookupError):
        opener("t", "r", encoding="no-such-encoding")


def test_large_pieces(vol: px.Volume) -> None:
    data = pattern(5_000_001)
    with vol.open("big", "wb") as f:
        assert f.write(data) == len(data)
    with vol.open("big", "rb") as f:
        assert f.read() == data
        f.seek(1)
        assert f.read(3_000_000) == data[1:3_000_001]
        buffer = bytearray(2_500_000)
        f.seek(999_999)
        assert f.readinto(buffer) == 2_500_000
        assert buffer == data[999_999:3_499_999]
    with vol.open("big", "rb", 0) as raw:
        raw.seek(4_000_000)
        assert raw.readall() == data[4_000_000:]
        assert raw.readall() == b""


def test_peek_and_read1(vol: px.Volume) -> None:
    vol.write_bytes("f", b"abcdef")
    with vol.open("f", "rb") as f:
        assert f.peek(1)[:1] == b"a"
        assert f.read1(3) == b"abc"
        assert f.read() == b"def"


# ---- the end of a file's life ----


def test_a_leaked_file_warns_and_what_it_holds_is_not_lost(vol: px.Volume) -> None:
    f = vol.open("f", "wb")
    f.write(b"in the buffer")
    with pytest.warns(ResourceWarning, match="unclosed file .*'f'"):
        del f
        gc.collect()
    assert vol.read_bytes("f") == b"in the buffer"


@pytest.mark.parametrize("mode", ["r", "rb", "r+b", "w"])
def test_a_leaked_file_warns_once(vol: px.Volume, mode: str) -> None:
    vol.write_bytes("f", b"x")
    for buffering in (-1, 0) if "b" in mode else (-1,):
        f = vol.open("f", mode, buffering)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del f
            gc.collect()
        assert [w.category for w in caught] == [ResourceWarning]


def test_a_file_that_was_not_opened_does_not_warn(vol: px.Volume) -> None:
    with pytest.raises(FileNotFoundError):
        vol.open("none", "rb")
    gc.collect()


def test_closing_the_volume_closes_its_files() -> None:
    device = px.Device.memory("16 MiB")
    vol = px.format(device)
    text = vol.open("t", "w")
    text.write("never flushed by hand")
    reader = vol.open("t", "rb")
    vol.close()
    assert text.closed
    assert reader.closed
    with px.open(device) as again:
        assert again.read_bytes("t") == b"never flushed by hand"


def test_an_open_file_lives_on_when_removed(vol: px.Volume) -> None:
    with vol.open("f", "w+b") as f:
        f.write(b"still here")
        f.flush()
        vol.remove("f")
        assert not vol.exists("f")
        f.write(b"!")
        f.seek(0)
        assert f.read() == b"still here!"
        vol.write_bytes("f", b"another")
        f.seek(0)
        assert f.read() == b"still here!"
    assert vol.read_bytes("f") == b"another"


def test_a_file_follows_its_rename(vol: px.Volume) -> None:
    vol.mkdir("d")
    with vol.open("f", "wb", 0) as f:
        f.write(b"1")
        vol.rename("f", "d/g")
        f.write(b"2")
    assert vol.read_bytes("d/g") == b"12"


def test_two_files_see_each_other(vol: px.Volume) -> None:
    with vol.open("f", "wb", 0) as writer, vol.open("f", "rb", 0) as reader:
        writer.write(b"abc")
        assert reader.read() == b"abc"
        writer.truncate(1)
        assert reader.read() == b""
        reader.seek(0)
        assert reader.read() == b"a"


def test_a_full_volume_says_so_and_keeps_what_was_there() -> None:
    device = px.Device.memory("2 MiB")
    with px.format(device, cluster_size=4096) as vol:
        vol.write_bytes("small", b"x")
        with pytest.raises(OSError, match="No space left") as full:
            vol.write_bytes("big", bytes(4 << 20))
        assert full.value.errno == 28
        assert vol.read_bytes("small") == b"x"
        with pytest.raises(OSError, match="No space left"), vol.open("big", "wb") as f:
            for _ in range(64):
                f.write(bytes(65536))


# ---- the raw file against a bytearray ----

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 40_000), st.binary(max_size=9_000)),
        st.tuples(st.just("read"), st.integers(0, 60_000), st.integers(0, 20_000)),
        st.tuples(st.just("truncate"), st.integers(0, 50_000), st.none()),
    ),
    max_size=25,
)


@given(STEPS, st.sampled_from([0, 100, -1]), st.sampled_from([512, 4096, 32768]))
def test_any_steps_leave_what_a_bytearray_would_hold(
    steps: list[tuple[str, int, Any]], buffering: int, cluster: int
) -> None:
    model = bytearray()
    with make_volume("4 MiB", cluster_size=cluster) as vol:
        with vol.open("f", "w+b", buffering) as f:
            for what, at, argument in steps:
                f.seek(at)
                if what == "write":
                    assert f.write(argument) == len(argument)
                    if argument:
                        model.extend(bytes(max(0, at - len(model))))
                        model[at : at + len(argument)] = argument
                elif what == "read":
                    assert f.read(argument) == model[at : at + argument]
                else:
                    assert f.truncate(at) == at
                    del model[at:]
                    model.extend(bytes(at - len(model)))
        assert vol.read_bytes("f") == model
        assert vol.stat("f").st_size == len(model)
