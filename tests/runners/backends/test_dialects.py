"""Test the protocols of model servers: which one is used, and what its events mean."""

import json
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.config.discovery import declarations
from understudy.config.discovery.server_presets import kinds
from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.events import Text, Thinking
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends import dialects
from understudy.runners.backends.content import tool_calls
from understudy.runners.backends.dialects.anthropic_messages import MessagesStream
from understudy.runners.backends.dialects.openai_responses import ResponsesStream
from understudy.secrets import Redactor

SOURCE = '''
from understudy.runners.backends.dialects import openai_chat


class Dialect(openai_chat.Dialect):
    """Chat completions under another name."""

    protocols = frozenset({"squawk"})
    path = "/elsewhere"
'''
PATHS = {"openai": "/chat/completions", "anthropic": "/messages", "responses": "/responses"}


def a_server(*protocols: str) -> ModelServer:
    return ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:9/v1", protocols=list(protocols) or None)


def answer_of(protocol: str):
    return dialects.dialect_of(a_server(protocol)).answer("s", Redactor({}))


def test_chat_completions_are_used_unless_something_else_is_declared():
    assert dialects.dialect_of(a_server()).path == "/chat/completions"
    for protocol, path in PATHS.items():
        assert dialects.dialect_of(a_server(protocol)).path == path


def test_the_first_protocol_that_is_supported_is_used():
    assert dialects.dialect_of(a_server("squawk", "responses", "openai")).path == "/responses"
    codex, claude = declarations.tools()["codex"], declarations.tools()["claude"]
    server = a_server("openai", "responses", "anthropic")
    assert declarations.protocol_for(server, codex) == "responses"
    assert declarations.protocol_for(server, claude) == "anthropic"
    assert declarations.protocol_for(a_server("openai"), claude) is None


def test_every_kind_of_server_speaks_what_some_runner_uses():
    known = set(declarations.protocols())
    assert all(set(one.protocols) <= known and one.protocols for one in kinds().values())


def test_a_new_dialect_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UnderstudyError) as caught:
        dialects.dialect_of(a_server("squawk"))
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    (tmp_path / "own_dialect.py").write_text(SOURCE)
    monkeypatch.setattr(dialects, "__path__", [*dialects.__path__, str(tmp_path)])
    assert dialects.dialect_of(a_server("squawk")).path == "/elsewhere"


def test_addresses_are_given_with_and_without_the_version():
    messages = dialects.dialect_of(a_server("anthropic"))
    assert messages.below("/anthropic", "/messages") == "/v1/messages"
    assert messages.below("/anthropic/v1/", "/messages") == "/messages"
    assert dialects.dialect_of(a_server("openai")).below("/v2", "/models") == "/models"


WHOLE = {
    "openai": {"choices": [{"message": {"content": "Hello"}, "finish_reason": "REASON"}]},
    "anthropic": {
        "type": "message",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hello"}],
        "stop_reason": "REASON",
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3},
    },
    "responses": {
        "object": "response",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}],
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
}


_OPENAI_DETAILS = {"cached_tokens": 60, "cache_write_tokens": 30}
CACHED = {
    "openai": {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": _OPENAI_DETAILS},
    # Anthropic counts what is neither read nor written apart.
    "anthropic": {
        "input_tokens": 10,
        "output_tokens": 9,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
    },
    "responses": {"input_tokens": 100, "output_tokens": 9, "input_tokens_details": _OPENAI_DETAILS},
}


@pytest.mark.parametrize("protocol", CACHED)
def test_what_a_cache_read_and_wrote_is_counted_apart(protocol):
    answer = answer_of(protocol)
    whole = json.loads(json.dumps(WHOLE[protocol]).replace("REASON", "end_turn")) | {"usage": CACHED[protocol]}
    answer.data(json.dumps(whole))
    usage, estimated = answer.usage("prompt")
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    assert (counts, estimated) == ((100, 60, 30, 9), False)


def test_deepseeks_own_names_are_known():
    answer = answer_of("openai")
    usage = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_cache_hit_tokens": 60}
    answer.data(json.dumps(WHOLE["openai"] | {"usage": usage}))
    assert answer.usage("prompt")[0].cache_read_tokens == 60


@pytest.mark.parametrize("protocol", WHOLE)
def test_an_answer_that_is_not_streamed_is_taken_whole(protocol):
    answer = answer_of(protocol)
    events = answer.data(json.dumps(WHOLE[protocol]).replace("REASON", "end_turn"))
    assert [one.text for one in events if isinstance(one, Text)] == ["Hello"]
    assert answer.ended
    assert answer.failure() is None
    usage, estimated = answer.usage("prompt")
    assert estimated == (protocol == "openai")
    assert estimated or (usage.input_tokens, usage.output_tokens) == (7, 3)


@pytest.mark.parametrize(
    ("protocol", "events", "kind"),
    [
        ("anthropic", [{"type": "message_delta", "delta": {"stop_reason": "refusal"}}], ErrorKind.CONTENT_REFUSED),
        ("anthropic", [{"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}], ErrorKind.OUTPUT_TRUNCATED),
        ("anthropic", [{"type": "content_block_start", "content_block": {"type": "tool_use"}},
                       {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}], ErrorKind.MALFORMED_OUTPUT),
        ("anthropic", [{"type": "ping"}], ErrorKind.STREAM_TRUNCATED),
        ("responses", [{"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details":
                       {"reason": "max_output_tokens"}}}], ErrorKind.OUTPUT_TRUNCATED),
        ("responses", [{"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details":
                       {"reason": "content_filter"}}}], ErrorKind.CONTENT_REFUSED),
        ("responses", [{"type": "response.refusal.delta", "delta": "no"},
                       {"type": "response.completed", "response": {"status": "completed"}}], ErrorKind.CONTENT_REFUSED),
        ("responses", [{"type": "response.output_item.added", "item": {"type": "function_call"}},
                       {"type": "response.completed", "response": {"status": "completed"}}], ErrorKind.MALFORMED_OUTPUT),
        ("responses", [{"type": "response.failed", "response": {"status": "failed"}}], ErrorKind.OVERLOADED),
        ("responses", [{"type": "response.created", "response": {}}], ErrorKind.STREAM_TRUNCATED),
    ],
)  # fmt: skip
def test_endings_that_cannot_be_used(protocol, events, kind):
    answer = answer_of(protocol)
    for event in events:
        answer.data(json.dumps(event))
    assert answer.failure().kind is kind


@pytest.mark.parametrize(
    ("protocol", "event", "kind"),
    [
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ("anthropic", {"error": {"message": "No credit left: insufficient_quota"}}, "quota_exhausted"),
        ("responses", {"type": "error", "code": "rate_limit_exceeded", "message": "Rate limit reached"}, "rate_limited"),
        ("responses", {"type": "response.failed", "response": {"error": {"code": "server_error", "message":
                       "The server is overloaded"}}}, "overloaded"),
    ],
)  # fmt: skip
def test_an_error_inside_the_stream_has_its_kind(protocol, event, kind):
    with pytest.raises(UnderstudyError) as caught:
        answer_of(protocol).data(json.dumps(event))
    assert caught.value.kind == kind


def test_thoughts_are_not_the_answer():
    answer = answer_of("responses")
    events = answer.data(json.dumps({"type": "response.reasoning_summary_text.delta", "delta": "Hm."}))
    assert [type(one) for one in events] == [Thinking]
    assert answer.text == ""


@pytest.mark.parametrize(("tokens", "cut"), [(19, False), (20, True), (None, False)])
def test_a_response_of_all_the_tokens_asked_for_is_cut_whatever_it_says(tokens, cut):
    answer = answer_of("responses")
    answer.asked_tokens = 20
    usage = {"input_tokens": 3, "output_tokens": tokens}
    answer.data(json.dumps({"type": "response.completed", "response": {"status": "completed", "usage": usage}}))
    assert (answer.failure() is not None, answer.cut) == (cut, cut)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "type", "usage", "index", "error", "status"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(100))
@given(
    st.sampled_from(list(PATHS)),
    st.sampled_from(["message_start", "content_block_delta", "message_delta", "message", "response.completed",
                     "response.output_item.added", "response.incomplete", "error", ""]),
    st.dictionaries(st.sampled_from(["delta", "message", "response", "item", "content", "content_block", "choices",
                                     "usage", "error", "output", "object", "stop_reason", "type"]), JSON),
)  # fmt: skip
def test_an_event_of_any_shape_never_breaks_the_parser(protocol, kind, fields):
    answer = answer_of(protocol)
    try:
        answer.data(json.dumps({"type": kind, **fields}))
    except UnderstudyError:
        return
    answer.failure()
    answer.usage("prompt")


@pytest.mark.parametrize("stream", [ResponsesStream, MessagesStream])
def test_a_marker_of_chat_completions_does_not_end_another_dialect(stream):
    answer = stream("served", Redactor({}))
    answer.data("[DONE]")
    assert not answer.ended, "proxies add it to an answer that their upstream cut off"


CUT = {
    "openai": ({"choices": [{"delta": {"content": "cut ?"}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    "anthropic": (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "cut ?"}},
    ),
    "responses": ({"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": "cut ?"},),
}


@pytest.mark.parametrize("protocol", PATHS)
def test_half_a_surrogate_pair_does_not_lose_an_answer(protocol):
    stream, events = answer_of(protocol), []
    for value in CUT[protocol]:
        events += stream.data(json.dumps(value).replace("?", "\\ud83d"))
    assert [event.text for event in events if isinstance(event, Text)] == ["cut \ufffd"]


def test_an_event_that_cannot_be_read_is_named():
    with pytest.raises(UnderstudyError, match=r"is not JSON: \{\"choices\": half"):
        answer_of("openai").data('{"choices": half')


def test_half_a_surrogate_pair_does_not_lose_a_call():
    assert tool_calls.parse_arguments(r'{"path": "a\ud83d"}') == ({"path": "a\ufffd"}, None)
