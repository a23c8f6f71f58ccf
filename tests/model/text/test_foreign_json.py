"""JSON of other programs is read, whatever its texts contain."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.model import wire
from understudy.model.text import foreign_json

TEXTS = st.text(st.characters(codec=None) | st.sampled_from('\ud83d\ude00\\u"d8'))  # surrogates, too
VALUES = st.recursive(
    TEXTS | st.integers(-(2**53), 2**53) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(VALUES)
def test_halves_of_pairs_are_replaced_and_all_else_stays(value):
    assert foreign_json.decode(json.dumps(value)) == wire.whole(json.loads(json.dumps(value)))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\uD83D\uD83D\uDE00"', "\ufffd\U0001f600"),
        (rb'"\\ud83d\\\ud83d"', "\\ud83d\\\ufffd"),
        (rb'"\ude00\ud83d\u0041\"\ud83d"', '\ufffd\ufffdA"\ufffd'),
        (b'"\xff\xed\xa0\xbd"', "\ufffd" * 4),
        ('"\ud83d"', "?"),
    ],
)
def test_what_no_text_contains_is_replaced(data, text):
    assert foreign_json.decode(data) == text


@pytest.mark.parametrize("data", [b"", b"{", rb'{"a": "\ud83d', rb'"\ud8"', b"[" * 200_000, rb'{"a": "\ud83d"} x'])
def test_what_is_not_json_is_refused(data):
    with pytest.raises(foreign_json.UNREADABLE):
        foreign_json.decode(data)


def test_another_structure_is_refused():
    with pytest.raises(msgspec.ValidationError):
        foreign_json.decode(b"5", msgspec.json.Decoder(str).decode)
