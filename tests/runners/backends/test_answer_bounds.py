"""Test that no answer of a hostile server takes more memory or time than its bounds, whatever its fields are."""

from __future__ import annotations

import collections
import itertools
import json
import time

import pytest

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends.dialects import anthropic_messages, openai_responses
from understudy.secrets import Redactor

BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
LONG = "x" * 500_000


def piece(**delta):
    return {"type": "content_block_delta", "index": 0, "delta": delta}


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        (anthropic_messages, itertools.chain([BLOCK], itertools.repeat(piece(signature="x" * 20)))),
        (anthropic_messages, ({**BLOCK, "index": n, "content_block": {"type": "x", "y": LONG}} for n in range(4000))),
        (
            openai_responses,
            ({"type": "response.output_item.done", "output_index": n, "item": {"y": LONG}} for n in range(4000)),
        ),
    ],
)
def test_what_is_kept_to_be_sent_back_is_bounded(dialect, events):
    answer = dialect.Dialect().answer("s", Redactor({}))
    began = time.process_time()
    with pytest.raises(UnderstudyError, match="is longer than") as caught:
        collections.deque((answer.data(json.dumps(event)) for event in events), maxlen=0)
    assert caught.value.kind is ErrorKind.MALFORMED_OUTPUT
    assert time.process_time() - began < 20


def test_pieces_of_a_block_are_joined_in_their_order():
    answer = anthropic_messages.Dialect().answer("s", Redactor({}))
    began = time.process_time()
    for event in (BLOCK, *(piece(thinking=f"{number} ") for number in range(100_000)), piece(signature="end")):
        answer.data(json.dumps(event))
    (message,) = answer.history()
    assert message["content"][0]["thinking"] == "".join(f"{number} " for number in range(100_000))
    assert answer.history() == [message], "asked again, it is the same"
    assert message["content"][0]["signature"] == "end"
    assert time.process_time() - began < 20
