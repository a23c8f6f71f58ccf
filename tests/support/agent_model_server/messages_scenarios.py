"""The Anthropic Messages half of the scripted model server; the package's docstring lists the scenarios.

An answer is a *script*: a list of turns, each with ``thinking``, ``text`` and ``tools`` (``{"name", "input"}``). The
request alone determines the next turn (by the tool results since the last user message), so one server serves any
number of conversations. ``{cwd}`` in an input is the working folder that the client names in its prompt.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from agent_model_server.agent_scripts import ENDS, calls
from understudy.testing.model_server.responses import TEXT, Answer, pieces

MESSAGE_USAGE = {
    "input_tokens": 1000,
    "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 200,
    "output_tokens": 50,
}
"""The usage that every answer reports; in the Messages API, ``input_tokens`` excludes both cache counts."""

_FINISHES = {"length": "max_tokens", "filter": "refusal"}
_CWD = re.compile(r"[Ww]orking directory(?: is)?: *`?(/[^\s`<\"\\]+)")

_WRITE = {"name": "Write", "input": {"file_path": "{cwd}/hello.txt", "content": "hello from the scripted model\n"}}
_EDIT = {
    "name": "Edit",
    "input": {"file_path": "{cwd}/hello.txt", "old_string": "hello", "new_string": "good morning"},
}
# Agents run file commands (`touch`) without asking where they may edit; they ask about arbitrary programs.
_SHELL = {
    "name": "Bash",
    "input": {"command": "python3 -c \"open('asked.txt', 'w').close()\"", "description": "Make asked.txt"},
}
_SECOND = {
    "name": "Bash",
    "input": {"command": "python3 -c \"open('second.txt', 'w').close()\"", "description": "And another"},
}
_DONE_FILE = ".understudy-run/done.md"
_REPORT = {
    "name": "Bash",
    "input": {
        "command": f"printf 'I wrote nothing.' > {_DONE_FILE}.tmp && mv {_DONE_FILE}.tmp {_DONE_FILE}",
        "description": "Report the end",
    },
}
_LONG_SHELL = {"name": "Bash", "input": {"command": "tail -f /dev/null", "description": "Wait forever"}}
_OUTSIDE = {"name": "Write", "input": {"file_path": "/tmp/understudy-outside.txt", "content": "outside\n"}}
_DONE = {"text": "Done: it is as you asked."}

SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "good": [{"text": TEXT}],
    "reasoning": [{"thinking": "Let me think.", "text": TEXT}],
    "write": [{"text": "I will write the file now.", "tools": [_WRITE]}, _DONE],
    "edits": [{"tools": [_WRITE]}, {"tools": [{"name": "Read", "input": {"file_path": "{cwd}/hello.txt"}}]},
              {"tools": [_EDIT]}, _DONE],
    "shell": [{"text": "I need a command.", "tools": [_SHELL]}, _DONE],
    "report": [{"tools": [_REPORT]}, _DONE],
    "two_shells": [{"tools": [_SHELL, _SECOND]}, _DONE],
    "long_shell": [{"tools": [_LONG_SHELL]}, _DONE],
    "outside": [{"tools": [_OUTSIDE]}, _DONE],
    "endless_tools": [{"tools": [_SHELL]}] * 1000,
    "empty": [{"text": ""}],
    **ENDS,
}  # fmt: skip
"""Scenario → its turns."""


def send_messages(answer: Answer) -> None:
    """Answer a request of the Messages API: a count, a script or an error."""
    path = answer.request.path.split("?")[0]
    if path.endswith("/count_tokens"):
        answer.json(200, {"input_tokens": len(json.dumps(answer.body)) // 4})
        return
    match = re.match(r"/s/([^/]+)/", path)
    name = match[1] if match else answer.model
    if name in answer.owner.answers:
        scripted = answer.owner.answers[name]
        turns = _turns_of(scripted, answer.body)
        play(answer, turns, float(scripted.get("delay_seconds", 0)) if isinstance(scripted, dict) else 0.0)
    elif name in FAULTS:
        FAULTS[name](answer)
    elif name in SCRIPTS:
        play(answer, SCRIPTS[name])
    else:
        refuse(answer, 404, "not_found_error", f"model: {answer.model}")


def play(answer: Answer, turns: list[dict[str, Any]], delay_seconds: float = 0.0) -> None:
    """Send the next turn; after the last turn, send its text again."""
    if not answer.body.get("tools"):
        # Clients request titles and summaries on the side, without tools.
        turn: dict[str, Any] = {"text": "Scripted title"} if any("tools" in turn for turn in turns) else turns[0]
    else:
        turn = turns[min(turn_due(answer.body), len(turns) - 1)]
    match = _CWD.search(json.dumps(answer.body))
    blocks = list(_blocks(turn, match[1] if match else "/nonexistent"))
    finish = _FINISHES.get(str(turn.get("finish")))
    if answer.body.get("stream"):
        answer.head()
        for kind, value in stream(answer.model, blocks):
            if delay_seconds and kind == "content_block_delta":
                time.sleep(delay_seconds)
            if kind == "message_delta":
                value["delta"]["stop_reason"] = finish or value["delta"]["stop_reason"]
            answer.raw(named_event(kind, value))
    else:
        whole = message(answer.model, blocks)
        answer.json(200, {**whole, "stop_reason": finish or whole["stop_reason"]})


def turn_due(body: dict[str, Any]) -> int:
    """Return the number of rounds of tool results since the last user message."""
    rounds = 0
    for item in body.get("messages") or []:
        if item.get("role") != "user":
            continue
        content = item.get("content")
        results = isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)
        rounds = rounds + 1 if results else 0
    return rounds


def stream(model: str, blocks: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the events of a streamed message, including a ping."""
    whole = message(model, blocks)
    started = {**whole, "content": [], "stop_reason": None, "usage": {**MESSAGE_USAGE, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": started}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(blocks):
        empty, deltas = _deltas(block)
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": MESSAGE_USAGE}
    yield "message_stop", {"type": "message_stop"}


def message(model: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a whole message."""
    return {
        "id": f"msg_{time.monotonic_ns():x}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn",
        "stop_sequence": None,
        "usage": MESSAGE_USAGE,
    }


def named_event(kind: str, value: dict[str, Any]) -> bytes:
    """Return one named server-sent event."""
    return f"event: {kind}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode("utf-8", "backslashreplace")


def refuse(answer: Answer, status: int, kind: str, text: str, **headers: str) -> None:
    """Send an error as Anthropic does."""
    answer.json(status, {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}, **headers)


def _turns_of(scripted: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the turns of a test's own answer; those of a script call the tools that the request offers."""
    if not isinstance(scripted, dict) or not ({"turns", "script"} & scripted.keys()):
        return [_plain(scripted)]
    if "turns" in scripted:
        return list(scripted["turns"])
    offered, request_text = body.get("tools") or [], json.dumps(body)
    return [
        {**turn, "tools": [{"name": name, "input": values} for name, values in calls(turn, offered, request_text)]}
        if "tools" in turn
        else turn
        for turn in scripted["script"]
    ]


def _plain(scripted: Any) -> dict[str, Any]:
    return {"text": TEXT, **scripted} if isinstance(scripted, dict) else {"text": str(scripted)}


def _blocks(turn: dict[str, Any], cwd: str) -> Iterator[dict[str, Any]]:
    if turn.get("thinking"):
        yield {"type": "thinking", "thinking": turn["thinking"], "signature": "c2lnbmVk"}
    if turn.get("text") or not turn.get("tools"):
        yield {"type": "text", "text": turn.get("text", "")}
    for number, tool in enumerate(turn.get("tools", ())):
        filled = json.loads(json.dumps(tool["input"]).replace("{cwd}", json.dumps(cwd)[1:-1]))
        identifier = f"toolu_{time.monotonic_ns():x}{number}"
        yield {"type": "tool_use", "id": identifier, "name": tool["name"], "input": filled}


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"], 20)]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if block["type"] == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], 20)]
        return {"type": "text", "text": ""}, deltas
    parts = pieces(json.dumps(block["input"]), 40)
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


FAULTS: dict[str, Callable[[Answer], None]] = {}
"""Scenario → error; ``late_<name>``: only after the first round of tools."""

_STATUSES = {
    "401": (401, "authentication_error", "invalid x-api-key"),
    "403": (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "404": (404, "not_found_error", "model: scripted"),
    "413": (413, "request_too_large", "Request exceeds the maximum size"),
    "429": (429, "rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    "500": (500, "api_error", "Internal server error"),
    "529": (529, "overloaded_error", "Overloaded"),
    "quota": (
        429,
        "rate_limit_error",
        "You have reached your specified API usage limits; access is back on 1 May.",
    ),
    "credit": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "context": (400, "invalid_request_error", "prompt is too long: 201234 tokens > 200000 maximum"),
    "400": (400, "invalid_request_error", "messages.0: something is wrong"),
    "model_id": (400, "invalid_request_error", "scripted is not a valid model ID"),
}


def _status(answer: Answer, name: str) -> None:
    status, kind, text = _STATUSES[name]
    refuse(answer, status, kind, text, **({"retry_after": "0"} if status == 429 else {}))


def _fault(name: str) -> Callable[[Callable[[Answer], None]], Callable[[Answer], None]]:
    def register(function: Callable[[Answer], None]) -> Callable[[Answer], None]:
        FAULTS[name] = function
        return function

    return register


def _half(answer: Answer) -> None:
    if not answer.body.get("stream"):
        answer.head(200, "application/json", Content_Length="4000")
        answer.raw(json.dumps(message(answer.model, [{"type": "text", "text": TEXT}])).encode()[:100])
        return
    answer.head()
    for kind, value in list(stream(answer.model, [{"type": "text", "text": TEXT}]))[:5]:
        answer.raw(named_event(kind, value))


@_fault("cut")
def cut(answer: Answer) -> None:
    """End in the middle of a message, cleanly."""
    _half(answer)


@_fault("reset")
def reset(answer: Answer) -> None:
    """Reset the connection in the middle of a message."""
    _half(answer)
    time.sleep(0.1)
    answer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    answer.connection.close()


@_fault("stall")
def stall(answer: Answer) -> None:
    """Stop in the middle of a message and keep the connection."""
    _half(answer)
    answer.owner.wait()


@_fault("silent")
def silent(answer: Answer) -> None:
    """Accept the request and never answer."""
    answer.owner.wait()


@_fault("error_midstream")
def error_midstream(answer: Answer) -> None:
    """Report an overload in the middle of a message."""
    if not answer.body.get("stream"):
        _status(answer, "529")
        return
    _half(answer)
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answer.raw(named_event("error", error))


@_fault("slow")
def slow(answer: Answer) -> None:
    """Send sixty words, one every tenth of a second."""
    play(answer, [{"text": " ".join(f"number {word:012d}" for word in range(60))}], 0.1)


@_fault("429_once")
def limited_once(answer: Answer) -> None:
    """Refuse the first request of this model only."""
    if answer.before:
        play(answer, SCRIPTS["good"])
    else:
        _status(answer, "429")


def _late(name: str) -> Callable[[Answer], None]:
    def late(answer: Answer) -> None:
        if answer.body.get("tools") and turn_due(answer.body) == 0:
            play(answer, SCRIPTS["write"])
        else:
            FAULTS[name](answer)

    return late


for _name in _STATUSES:
    FAULTS[_name] = lambda answer, name=_name: _status(answer, name)  # type: ignore[misc]
for _name in ("500", "context", "cut"):
    FAULTS[f"late_{_name}"] = _late(_name)
