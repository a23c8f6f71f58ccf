"""Test the stream parser: any chunking of the same bytes gives the same events."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends.dialects.openai_chat import ChatStream
from understudy.runners.backends.http.http_client import EventDecoder
from understudy.secrets import Redactor

data_lines = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1, max_size=3
)


def encoded(events: list[list[str]], end: str, bom: bool) -> bytes:
    text = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in events)
    return (b"\xef\xbb\xbf" if bom else b"") + text.encode()


def decoded(data: bytes, cuts: list[int]) -> list[str]:
    decoder = EventDecoder()
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    found = []
    for start, stop in zip([0, *places], [*places, len(data)], strict=True):
        found += decoder.feed(data[start:stop])
    return found + decoder.end()


@given(
    st.lists(data_lines, max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.integers(0, 10_000), max_size=12),
)
def test_any_chunking_gives_the_same_events(events, end, bom, cuts):
    expected = ["\n".join(lines) for lines in events]
    assert decoded(encoded(events, end, bom), cuts) == expected


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_any_bytes_give_the_same_outcome_however_cut(data, cuts):
    def outcome(where):
        try:
            return decoded(data, where)
        except UnderstudyError as error:
            return error.kind

    assert outcome(cuts) == outcome([]) == outcome(list(range(len(data))))


def test_comments_names_and_odd_fields():
    data = b": ping\n\nevent: ping\ndata\n\nid: 1\nretry: 5\ndata:no space\nnonsense\n\n"
    assert EventDecoder().feed(data) == ["", "no space"]


def test_bounds():
    decoder = EventDecoder(max_bytes=100)
    for _ in range(10):
        decoder.feed(b"0123456789")
    with pytest.raises(UnderstudyError) as caught:
        decoder.feed(b"0")
    assert caught.value.kind is ErrorKind.MALFORMED_OUTPUT
    decoder = EventDecoder(max_bytes=100)
    with pytest.raises(UnderstudyError):
        decoder.feed(b"data: 0123456789\n" * 11)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "usage",
                    "error",
                    "finish_reason",
                    "index",
                    "message",
                    "prompt_tokens",
                    "type",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=6))
def test_no_chunk_breaks_the_reader(values):
    chat = ChatStream("server", Redactor({}))
    try:
        for value in values:
            chat.data(json.dumps(value))
    except UnderstudyError as error:
        msgspec.json.encode(error.info())
    chat.failure()
    usage, _ = chat.usage("prompt")
    assert usage.input_tokens >= 0
    assert usage.output_tokens >= 0
