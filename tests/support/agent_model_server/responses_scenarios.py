"""The Responses half of the scripted model server; the package's docstring lists the scenarios.

As in ``messages_scenarios``, an answer is a script of turns, and the request alone determines the next one. The tools
are those that Codex offers: ``exec_command`` takes JSON, ``apply_patch`` a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from agent_model_server.agent_scripts import ENDS, FAULTS
from understudy.testing.model_server.responses import TEXT, Answer, pieces

RESPONSE_USAGE = {
    "input_tokens": 1200,
    "input_tokens_details": {"cached_tokens": 200},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 7},
    "total_tokens": 1250,
}
"""The usage that every answer reports; the input includes what was cached."""

_REASONS = {"length": "max_output_tokens", "filter": "content_filter"}
_ADD = "*** Begin Patch\n*** Add File: hello.txt\n+hello from the scripted model\n*** End Patch\n"
_UPDATE = (
    "*** Begin Patch\n*** Update File: hello.txt\n@@\n-hello from the scripted model\n+good morning\n*** End Patch\n"
)
_SHELL = {"cmd": "python3 -c \"open('asked.txt', 'w').close()\""}
_DONE_FILE = ".understudy-run/done.md"
_REPORT = {"cmd": f"printf 'I wrote nothing.' > {_DONE_FILE}.tmp && mv {_DONE_FILE}.tmp {_DONE_FILE}"}
_LONG_SHELL = {"cmd": "tail -f /dev/null", "yield_time_ms": 30000}
_DONE = {"text": "Done: it is as you asked."}

SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "good": [{"text": TEXT}],
    "edits": [{"tools": [{"name": "apply_patch", "input": _ADD}]},
              {"tools": [{"name": "apply_patch", "input": _UPDATE}]}, _DONE],
    "shell": [{"text": "I need a command.", "tools": [{"name": "exec_command", "input": _SHELL}]}, _DONE],
    "report": [{"tools": [{"name": "exec_command", "input": _REPORT}]}, _DONE],
    "failing_shell": [{"tools": [{"name": "exec_command", "input": {"cmd": "echo oops >&2; exit 3"}}]}, _DONE],
    "long_shell": [{"tools": [{"name": "exec_command", "input": _LONG_SHELL}]}, _DONE],
    "empty": [{"text": ""}],
    **ENDS,
}  # fmt: skip
"""Scenario → its turns."""

_FAULTS = FAULTS | {"context": (400, "Your input exceeds the context window of this model.", "context_length_exceeded")}


def send_responses(answer: Answer) -> None:
    """Answer a request of the Responses API: a script or an error."""
    match = re.match(r"/s/([^/]+)/", answer.request.path)
    name = match[1] if match else answer.model
    if name.removeprefix("late_") in _FAULTS and (not name.startswith("late_") or turn_due(answer.body)):
        status, text, code = _FAULTS[name.removeprefix("late_")]
        answer.refuse(status, text, code, **({"retry_after": "0"} if status == 429 else {}))
        return
    turns = SCRIPTS.get("edits" if name.startswith("late_") else name, SCRIPTS["good"])
    events = list(_events(answer.model, turns[min(turn_due(answer.body), len(turns) - 1)]))
    if not answer.body.get("stream"):
        answer.json(200, events[-1]["response"])
        return
    answer.head()
    for number, value in enumerate(events[:3] if name == "cut" else events):
        data = json.dumps({**value, "sequence_number": number}, ensure_ascii=False)
        answer.raw(f"event: {value['type']}\ndata: {data}\n\n".encode())


def turn_due(body: dict[str, Any]) -> int:
    """Return the number of rounds of tool results since the last user message."""
    rounds, before = 0, ""
    sent = body.get("input")
    for item in sent if isinstance(sent, list) else ():
        kind = str(item.get("type"))
        if kind == "message" and item.get("role") == "user":
            rounds = 0
        elif kind.endswith("_output") and not before.endswith("_output"):
            rounds += 1
        before = kind
    return rounds


def _events(model: str, turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    base: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "model": model,
        "output": [],
        "error": None,
        "incomplete_details": None,
    }
    yield {"type": "response.created", "response": {**base, "status": "in_progress"}}
    items = list(_items(turn))
    for index, item in enumerate(items):
        if item["type"] == "message":
            empty = {**item, "status": "in_progress", "content": []}
            yield {"type": "response.output_item.added", "output_index": index, "item": empty}
            for piece in pieces(item["content"][0]["text"], 20):
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                yield {"type": "response.output_text.delta", **place, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    whole = {**base, "status": "completed", "output": items, "usage": RESPONSE_USAGE}
    if (reason := _REASONS.get(str(turn.get("finish")))) is not None:
        ended = {**whole, "status": "incomplete", "incomplete_details": {"reason": reason}}
        yield {"type": "response.incomplete", "response": ended}
        return
    yield {"type": "response.completed", "response": whole}


def _items(turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if turn.get("text") or not turn.get("tools"):
        part = {"type": "output_text", "text": turn.get("text", ""), "annotations": []}
        yield {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    for number, tool in enumerate(turn.get("tools", ())):
        common = {"call_id": f"call_{number}", "name": tool["name"], "status": "completed"}
        if isinstance(tool["input"], str):
            yield {"id": f"ctc_{number}", "type": "custom_tool_call", "input": tool["input"], **common}
        else:
            arguments = json.dumps(tool["input"])
            yield {"id": f"fc_{number}", "type": "function_call", "arguments": arguments, **common}
