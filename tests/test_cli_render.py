"""What reaches a terminal: safe names, aligned columns."""

from __future__ import annotations

import io
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyexfat._text import visible, width
from pyexfat.cli.render import Output


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain name.txt", "plain name.txt"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("new\nline\ttab\x7f", "new\\x0aline\\x09tab\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("exe.\u202egpj", "exe.\\u202egpj"),
        ("half \ud83d", "half \\ud83d"),
        ("line\u2028end", "line\\u2028end"),
        ("gr\u00fc\u00df \u65e5\u672c \U0001f600", "gr\u00fc\u00df \u65e5\u672c \U0001f600"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),
        ("\ufffe\uffff", "\\ufffe\\uffff"),
    ],
)
def test_visible(name: str, shown: str) -> None:
    assert visible(name) == shown


# Any UTF-16 units in a row, lone surrogates and control characters included.
names = st.lists(st.integers(0, 0xFFFF), max_size=40).map(
    lambda units: b"".join(u.to_bytes(2, "little") for u in units).decode(
        "utf-16-le", "surrogatepass"
    )
)


@given(names)
def test_whatever_the_name_the_terminal_is_safe(name: str) -> None:
    shown = visible(name)
    shown.encode()  # no lone surrogates
    assert not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in shown)
    ElementTree.fromstring("<a>" + shown.replace("&", "").replace("<", "") + "</a>")


def test_width_counts_cells() -> None:
    assert width("abc") == 3
    assert width("\u65e5\u672c") == 4
    assert width("e\u0301") == 1
    assert width("") == 0


def _output(encoding: str = "utf-8") -> tuple[Output, io.BytesIO]:
    raw = io.BytesIO()
    return Output(io.TextIOWrapper(raw, encoding=encoding, write_through=True)), raw


def test_columns_are_aligned_by_cells() -> None:
    out, raw = _output()
    out.aligned([["a", "1", "x"], [("\u65e5\u672c", "red"), "1000", "y"]], right=[1])
    assert raw.getvalue().decode() == "a        1  x\n\u65e5\u672c  1000  y\n"


def test_a_plain_table_has_headings_and_no_trailing_blanks() -> None:
    out, raw = _output()
    out.table(["name", "size"], [["long name", "7"], ["b", "12345"]], right=[1])
    assert raw.getvalue().decode() == "name        size\nlong name      7\nb          12345\n"


def test_what_the_encoding_lacks_is_escaped() -> None:
    out, raw = _output("ascii")
    out.line("gr\u00fcn \U0001f600")
    assert raw.getvalue() == b"gr\\xfcn \\U0001f600\n"
    assert not out.unicode


def test_json_is_ascii_and_keeps_lone_surrogates() -> None:
    out, raw = _output("ascii")
    out.json({"name": "\ud800\u00e9"})
    assert raw.getvalue() == b'{\n  "name": "\\ud800\\u00e9"\n}\n'


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_names_go_down_and_then_across(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    raw = io.BytesIO()
    out = Output(_Terminal(raw, encoding="utf-8", write_through=True))
    monkeypatch.setattr(Output, "columns", 12)
    out.in_columns(["a", "bb", "ccc", "d", "e"])
    assert raw.getvalue().decode() == "a   ccc  e\nbb  d\n"
    raw.truncate(0)
    raw.seek(0)
    out.in_columns(["much too long for it", "b"])
    assert raw.getvalue().decode() == "much too long for it\nb\n"
    raw.truncate(0)
    raw.seek(0)
    out.in_columns([])
    assert raw.getvalue() == b""
