"""Scripts for our own tool loop, in all three dialects: ``answers.json`` maps a model to ``{"loop": [turn, …]}``.

A turn is ``{"text", "thinking", "calls": [{"name", "arguments", "id", "namespace"}], "finish", "piece", "usage"}``,
``{"refuse": [status, message]}``, or ``{"scenario": name}``, a built-in scenario of the dialect. ``arguments`` may be
a text, to send invalid JSON. Each request of a model takes the next turn, and the last one repeats.

In a test, an answer may also be a function, which gets the body of a request and returns the turn; a base URL with
``/s/<name>`` selects it, too. A call with a ``namespace``, and the call ``tool_search``, are those of Codex.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agent_model_server.messages_scenarios import MESSAGE_USAGE, message, named_event
from agent_model_server.responses_scenarios import RESPONSE_USAGE
from understudy.testing.model_server.responses import USAGE, Answer, event, pieces


def send_turn(answer: Answer) -> bool:
    """Send the next turn of the model's script; return whether it has one."""
    scenario = re.match(r"/s/([^/]+)/", answer.request.path)
    script = answer.owner.answers.get(scenario[1] if scenario else answer.model)
    turn: dict[str, Any]
    if callable(script):
        turn = script(answer.body)
    elif isinstance(script, dict) and "loop" in script:
        turn = script["loop"][min(answer.before, len(script["loop"]) - 1)]
    else:
        return False
    if "refuse" in turn:
        status, message = turn["refuse"]
        answer.refuse(status, message, None, retry_after="0")
        return True
    if "scenario" in turn:
        answer.model = str(turn["scenario"])  # the rest of the server goes by the model's name
        return False
    calls = [_Call(number, call) for number, call in enumerate(turn.get("calls", ()))]
    path = answer.request.path.split("?")[0]
    answer.head()
    if path.endswith("/messages"):
        _send_message(answer, turn, calls)
    elif path.endswith("/responses"):
        _send_response(answer, turn, calls)
    else:
        _send_chat(answer, turn, calls)
    return True


class _Call:
    """A call of a turn."""

    def __init__(self, number: int, call: dict[str, Any]) -> None:
        arguments = call.get("arguments", {})
        self.name = str(call.get("name", ""))
        self.call_id = str(call.get("id", f"call_{number}"))  # the same ids in each turn, as some servers do
        self.given = arguments
        self.text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        self.namespace = call.get("namespace")


def _send_chat(answer: Answer, turn: dict[str, Any], calls: list[_Call]) -> None:
    size = int(turn.get("piece", 20))
    answer.chunk({"role": "assistant", "content": ""})
    if "thinking" in turn:
        answer.chunk({"reasoning_content": turn["thinking"]})
    for piece in pieces(str(turn.get("text", "")), size):
        answer.chunk({"content": piece})
    for number, call in enumerate(calls):
        begin = {"index": number, "id": call.call_id, "type": "function", "function": {"name": call.name}}
        answer.chunk({"tool_calls": [begin]})
        for piece in pieces(call.text, size):
            answer.chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    answer.end(str(turn.get("finish", "tool_calls" if calls else "stop")), turn.get("usage", USAGE))


def _send_message(answer: Answer, turn: dict[str, Any], calls: list[_Call]) -> None:
    def send(kind: str, **value: Any) -> None:
        answer.raw(named_event(kind, {"type": kind, **value}))

    size = int(turn.get("piece", 20))
    begun = message(answer.model, [])
    send("message_start", message={**begun, "stop_reason": None, "usage": {**MESSAGE_USAGE, "output_tokens": 1}})
    index = 0
    if "thinking" in turn:
        send("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""})
        send("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": turn["thinking"]})
        send("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "c2lnbmVk"})
        send("content_block_stop", index=0)
        index += 1
    if turn.get("text"):
        send("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for piece in pieces(str(turn["text"]), size):
            send("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
        send("content_block_stop", index=index)
        index += 1
    for number, call in enumerate(calls, index):
        block = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
        send("content_block_start", index=number, content_block=block)
        for piece in pieces(call.text, size):
            send("content_block_delta", index=number, delta={"type": "input_json_delta", "partial_json": piece})
        send("content_block_stop", index=number)
    finish = {"length": "max_tokens"}.get(str(turn.get("finish")), "tool_use" if calls else "end_turn")
    send("message_delta", delta={"stop_reason": finish}, usage=turn.get("usage", MESSAGE_USAGE))
    send("message_stop")


def _send_response(answer: Answer, turn: dict[str, Any], calls: list[_Call]) -> None:
    def send(kind: str, **value: Any) -> None:
        answer.raw(event({"type": kind, **value}))

    index = 0
    if "thinking" in turn:
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": turn["thinking"]}
        send("response.output_item.done", output_index=0, item=item)
        index += 1
    if turn.get("text"):
        for piece in pieces(str(turn["text"]), 20):
            send("response.output_text.delta", output_index=index, delta=piece)
        content = [{"type": "output_text", "text": turn["text"], "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        send("response.output_item.done", output_index=index, item=item)
        index += 1
    for number, call in enumerate(calls, index):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": call.call_id, "name": call.name}
        if call.name == "tool_search":
            search = {"type": "tool_search_call", "execution": "client", "arguments": call.given}
            send("response.output_item.done", output_index=number, item={**search, "call_id": call.call_id})
            continue
        if call.namespace is not None:
            item["namespace"] = call.namespace
        send("response.output_item.added", output_index=number, item={**item, "arguments": ""})
        for piece in pieces(call.text, int(turn.get("piece", 20))):
            send("response.function_call_arguments.delta", output_index=number, delta=piece)
        send("response.output_item.done", output_index=number, item={**item, "arguments": call.text})
    cut = turn.get("finish") == "length"
    ending = {"incomplete_details": {"reason": "max_output_tokens"}} if cut else {}
    status = "incomplete" if cut else "completed"
    usage = turn.get("usage", RESPONSE_USAGE)
    send("response.completed", response={"id": "resp_1", "status": status, "usage": usage, **ending})
