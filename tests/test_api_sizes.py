"""Sizes that people write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyexfat as px


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("512B", 512),
        ("4K", 4096),
        ("4k", 4096),
        ("4KiB", 4096),
        ("4 kib", 4096),
        ("8MB", 8_000_000),
        ("8 mb", 8_000_000),
        ("64 MiB", 67_108_864),
        ("64M", 67_108_864),
        ("1G", 1 << 30),
        ("1GB", 10**9),
        ("64 TiB", 1 << 46),
        ("1.5 MiB", 1_572_864),
        ("0.5K", 512),
        ("1.33 GB", 1_330_000_000),
        ("1_000_000", 1_000_000),
        ("  7  ", 7),
        ("7E", 7 << 60),
    ],
)
def test_parse_size_reads_text(text: str, size: int) -> None:
    assert px.parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", " ", "K", "x", "1x", "1 KiBB", "1.", ".5K", "1e3", "0x10", "1 2", "٣", "1,5M", "+1"],
)
def test_parse_size_refuses_text_and_names_the_argument(text: str) -> None:
    with pytest.raises(ValueError, match="cluster_size"):
        px.parse_size(text, "cluster_size")


@pytest.mark.parametrize("text", ["-1", "-4K", "8E", "16 EiB", "1.5", "0.1 B"])
def test_parse_size_refuses_what_is_no_amount_of_bytes(text: str) -> None:
    with pytest.raises(ValueError, match=r"^length "):
        px.parse_size(text, "length")


def test_parse_size_takes_integers_and_what_acts_as_one() -> None:
    class Index:
        def __index__(self) -> int:
            return 9

    assert px.parse_size(123) == 123
    assert px.parse_size(Index()) == 9
    assert px.parse_size((1 << 63) - 1) == (1 << 63) - 1
    for bad in (-1, 1 << 63):
        with pytest.raises(ValueError, match="size"):
            px.parse_size(bad)


@pytest.mark.parametrize("bad", [1.5, None, True, b"4K", [1]])
def test_parse_size_refuses_other_types(bad: object) -> None:
    with pytest.raises(TypeError, match="offset"):
        px.parse_size(bad, "offset")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1 MiB"),
        ((1 << 20) - 1, "1 MiB"),
        (101 << 20, "101 MiB"),
        (10**12, "931 GiB"),
        (-2048, "-2 KiB"),
        (1 << 60, "1 EiB"),
    ],
)
def test_format_size(size: int, text: str) -> None:
    assert px.format_size(size) == text


@given(st.integers(0, (1 << 63) - 1))
def test_format_size_is_near_and_can_be_read_again(size: int) -> None:
    text = px.format_size(size)
    if text == "8 EiB":  # rounded up to what is too much for a size
        assert size > (8 << 60) * 0.995
        return
    assert abs(px.parse_size(text) - size) <= size * 0.005


@given(st.integers(0, 1 << 40), st.sampled_from(["K", "M", "kib", "MiB"]))
def test_whole_numbers_of_a_unit_are_exact(n: int, unit: str) -> None:
    scale = 1024 if unit[0] in "Kk" else 1024**2
    assert px.parse_size(f"{n} {unit}") == n * scale
