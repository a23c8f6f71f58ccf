"""Test tool calls in the three dialects: however a server splits them, the same calls result, and go back as wanted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.runners.backends.content.tool_calls import CallResult, ToolSpec
from understudy.runners.backends.dialects import anthropic_messages, openai_chat, openai_responses
from understudy.secrets import Redactor

PATCH = {"path": "a.py", "content": 'print("ü 🎉")\n\\'}
READ = {"path": "b.py"}


def answer_of(dialect, events: list[dict[str, Any]]):
    answer = dialect.Dialect().answer("scripted", Redactor({}))
    answer.tools_offered = True
    for event in events:
        answer.data(json.dumps(event))
    return answer


def chat(*deltas: dict[str, Any], finish: str = "tool_calls") -> list[dict[str, Any]]:
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    return [{"choices": [one]} for one in [*choices, {"index": 0, "delta": {}, "finish_reason": finish}]]


def delta(index: int | None, **more: Any) -> dict[str, Any]:
    function = {name: more.pop(name) for name in ("name", "arguments") if name in more}
    place = {} if index is None else {"index": index}
    return {"tool_calls": [{**place, **more, "function": function}]}


def cut_into(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


cuts = st.lists(st.integers(1, 60), max_size=8)


@settings(max_examples=examples(60), deadline=None)
@given(first=cuts, second=cuts, interleaved=st.booleans())
def test_any_split_of_chat_arguments_gives_the_same_calls(first, second, interleaved):
    one = [delta(0, arguments=piece) for piece in cut_into(json.dumps(PATCH), first)]
    two = [delta(1, arguments=piece) for piece in cut_into(json.dumps(READ), second)]
    body = [x for pair in zip(one, two, strict=False) for x in pair] if interleaved else [*one, *two]
    rest = [*one[len(two) :], *two[len(one) :]] if interleaved else []
    begin = [delta(0, id="c1", name="write_file", arguments=""), delta(1, id="c2", name="read_file")]
    answer = answer_of(openai_chat, chat(*begin, *body, *rest))
    found = [(call.call_id, call.name, call.arguments, call.problem) for call in answer.calls()]
    assert found == [("c1", "write_file", PATCH, None), ("c2", "read_file", READ, None)]
    sent = answer.history()[0]["tool_calls"]
    assert [json.loads(one["function"]["arguments"]) for one in sent] == [PATCH, READ]


@settings(max_examples=examples(60), deadline=None)
@given(places=cuts)
def test_any_split_of_messages_arguments_gives_the_same_call(places):
    block = {"type": "tool_use", "id": "t1", "name": "write_file", "input": {}}
    pieces = [
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in cut_into(json.dumps(PATCH), places)
    ]
    events = [{"type": "content_block_start", "index": 1, "content_block": block}, *pieces]
    answer = answer_of(anthropic_messages, [*events, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}])
    assert [(call.name, call.arguments) for call in answer.calls()] == [("write_file", PATCH)]
    assert answer.history() == [{"role": "assistant", "content": [{**block, "input": PATCH}]}]


@pytest.mark.parametrize(
    "deltas",
    [
        [delta(0, id="a", name="x", arguments="{}"), delta(0, id="b", name="y", arguments="{}")],
        [delta(None, id="a", name="x", arguments="{}"), delta(None, id="b", name="y", arguments="{}")],
        [delta(None, name="x", arguments="{"), delta(None, arguments="}"), delta(None, name="y", arguments="{}")],
        [delta(0, arguments="{}"), delta(0, id="a", name="x"), delta(1, name="y", arguments=" {} ")],
        [delta(0, name="x", arguments={}), delta(1, id="b", name="y", arguments="")],
        [delta(0, id="same", name="x"), delta(1, id="same", name="y")],
    ],
    ids=["index always 0", "no index", "neither index nor id", "name after arguments", "an object", "the same id"],
)
def test_the_ways_of_servers_to_split_chat_calls(deltas):
    answer = answer_of(openai_chat, chat(*deltas))
    calls = answer.calls()
    assert [(call.name, call.arguments, call.problem) for call in calls] == [("x", {}, None), ("y", {}, None)]
    assert len({call.call_id for call in calls}) == 2
    assert [one["id"] for one in answer.history()[0]["tool_calls"]] == [call.call_id for call in calls]


@pytest.mark.parametrize("arguments", ['{"path": "a.p', "[1]", "not json", '{"a": 1}}'])
def test_arguments_that_are_no_json_object_are_never_arguments(arguments):
    answers = [
        answer_of(openai_chat, chat(delta(0, id="a", name="x", arguments=arguments))),
        answer_of(
            anthropic_messages,
            [
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "tool_use", "id": "a", "name": "x"},
                },
                {"type": "content_block_delta", "index": 0, "delta": {"partial_json": arguments}},
                {"type": "message_stop"},
            ],
        ),
        answer_of(
            openai_responses,
            [
                {
                    "type": "response.output_item.done",
                    "output_index": 0,
                    "item": {"type": "function_call", "call_id": "a", "name": "x", "arguments": arguments},
                },
                {"type": "response.completed", "response": {"status": "completed"}},
            ],
        ),
    ]
    for answer in answers:
        [call] = answer.calls()
        assert call.problem
        assert call.arguments == {}
        assert arguments not in json.dumps(answer.history()), "servers parse the arguments that they get back"


def test_thoughts_go_back_in_the_field_that_they_came_in():
    call = delta(0, id="a", name="x", arguments="{}", extra_content={"google": {"thought_signature": "c2ln"}})
    dialect = openai_chat.Dialect()
    first = answer_of(openai_chat, chat({"reasoning_content": ""}, call)).history()
    assert first[0]["reasoning_content"] == "", "DeepSeek asks for it even if it is empty"
    assert first[0]["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
    dialect.extend(body, first, [CallResult(call_id="a", text="ok", ok=True)], None)
    second = answer_of(openai_chat, chat(delta(0, id="b", name="x", arguments="{}"))).history()
    assert "reasoning_content" not in second[0]
    dialect.extend(body, second, [CallResult(call_id="b", text="ok", ok=True)], None)
    assert body["messages"][3]["reasoning_content"] == ""


def test_reasoning_that_a_server_misses_is_added():
    dialect = openai_chat.Dialect()
    body: dict[str, Any] = {"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]}
    assert dialect.relax(body, 400, "The reasoning_content in the thinking mode must be passed back to the API.")
    assert body["messages"][0]["reasoning_content"] == ""
    assert not dialect.relax(body, 400, "The reasoning_content in the thinking mode must be passed back to the API.")


def test_pieces_of_signed_details_are_put_together():
    details = [
        {"type": "reasoning.text", "index": 0, "text": "Let "},
        {"type": "reasoning.text", "index": 0, "text": "me", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]
    answer = answer_of(openai_chat, chat(*({"reasoning_details": [one]} for one in details)))
    assert answer.history()[0]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Let me", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]


def test_signed_empty_and_redacted_blocks_go_back_as_they_came():
    redacted = {"type": "redacted_thinking", "data": "opaque"}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_start", "index": 1, "content_block": redacted},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "t", "name": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]
    [message] = answer_of(anthropic_messages, events).history()
    assert message["content"] == [
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
        redacted,
        {"type": "tool_use", "id": "t", "name": "x", "input": {}},
    ]


def test_encrypted_reasoning_goes_back_with_its_call():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"}
    bare = {"type": "reasoning", "id": "rs_2", "summary": []}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "x", "arguments": "{}"}
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate([thought, bare, call])
    ]
    added = {"type": "response.output_item.added", "output_index": 2, "item": {**call, "arguments": ""}}
    events = [added, *done, {"type": "response.completed", "response": {"status": "completed"}}]
    answer = answer_of(openai_responses, events)
    assert [(one.call_id, one.name) for one in answer.calls()] == [("c1", "x")]
    assert answer.history() == [thought, call]


@pytest.mark.parametrize("dialect", [openai_chat, openai_responses, anthropic_messages])
def test_a_conversation_only_grows(dialect):
    spoken = dialect.Dialect()
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Fix it."}], "input": "Fix it.", "system": "You are careful."
    }  # fmt: skip
    spoken.offer(body, [ToolSpec(name="x", description="Do it.", parameters={"type": "object"})])
    before = without_marks(body)
    for number in range(3):
        result = CallResult(call_id=str(number), text="done", ok=False)
        added = spoken.extend(
            body, [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}], [result], "Go on."
        )
        assert [one[spoken.result_field] for one in added] == ["done"]
        now = without_marks(body)
        for name in ("messages", "input"):
            assert now[name][: len(before[name])] == before[name]
        assert now["tools"] == before["tools"]
        before = now
    assert json.dumps(body).count("cache_control") == (2 if dialect is anthropic_messages else 0)


def without_marks(body: dict[str, Any]) -> dict[str, Any]:
    copy = json.loads(json.dumps(body))
    for message in copy["messages"]:
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            block.pop("cache_control", None)
    return copy


@pytest.mark.parametrize(
    ("refusal", "is_one"),
    [
        ("registry.ollama.ai/library/gemma:2b does not support tools", True),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', True),
        ("tools param requires --jinja flag", True),
        ("No endpoints found that support tool use.", True),
        ("Unknown field: tools", True),
        ("Function calling is not enabled, unrecognized request argument: function_call", True),
        ("This model's maximum context length is 8192 tokens.", False),
        ("Something is wrong with the request.", False),
    ],
)
def test_a_refusal_of_tools_is_known_by_its_words(refusal, is_one):
    assert openai_chat.Dialect().refuses_tools(400, refusal) is is_one
    assert not openai_chat.Dialect().refuses_tools(401, refusal)
