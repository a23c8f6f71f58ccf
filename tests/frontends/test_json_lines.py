"""From bytes to messages: whatever arrives, in whatever pieces."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.frontends.json_lines import Lines, Malformed, parse


@given(st.lists(st.binary(max_size=30)), st.lists(st.integers(0, 200)))
def test_lines_do_not_depend_on_where_the_pieces_are_cut(parts: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(parts)
    lines = Lines(longest=20)
    found: list[bytes | None] = []
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in pairwise(places):
        found += lines.feed(data[start:end])
    found += lines.end()
    expected = [None if len(line) > 20 else line for line in data.split(b"\n")]
    if expected and expected[-1] == b"":
        expected.pop()
    assert found == expected


def test_a_line_without_end_is_not_kept() -> None:
    lines = Lines(longest=1000)
    for _ in range(1000):
        assert lines.feed(b"x" * 1000) == []
        assert len(lines._kept) <= 1000
    assert lines.feed(b"\nnext\n") == [None, b"next"]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b'{"a":Infinity}',
        b"1e999",
        b"9" * 5000,
        b'"\xed\xa0\x80"',
        b'"a\x00b"',
        b'{"id":1,"id":2}',
        b'[{"a":{"b":1,"b":1}}]',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"{} {}",
        b"'a'",
        "{\uff02a\uff02:1}".encode(),
    ],
)
def test_what_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(Malformed):
        parse(line)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(values)
def test_what_is_json_is_understood(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value
