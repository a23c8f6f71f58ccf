"""Chat completions for agent CLIs: a base URL with ``/s/<scenario>`` plays a script of ``agent_scripts``.

The request alone determines the next turn: by the rounds of tool results since the last user message.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

from agent_model_server.agent_scripts import SUBMITS, calls, fault_of, script_of, text_of, without_tools
from understudy.testing.model_server.responses import Answer, pieces

CHAT_USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 50,
    "total_tokens": 1250,
    "prompt_tokens_details": {"cached_tokens": 200},
    "completion_tokens_details": {"reasoning_tokens": 7},
}
"""The usage that every answer reports."""
_FINISHES = {"length": "length", "filter": "content_filter"}


def send_agent_chat(answer: Answer) -> bool:
    """Answer a request whose path names a scenario; return whether it does."""
    match = re.match(r"/s/([^/]+)/", answer.request.path)
    if match is None:
        return False
    name, rounds = match[1], _rounds(answer.body)
    if (fault := fault_of(name, rounds)) is not None:
        status, text, code = fault
        answer.refuse(status, text, code, **({"retry_after": "0"} if status == 429 else {}))
        return True
    turns = script_of(name, answer.owner.answers) or script_of("good") or []
    offered = [tool["function"] for tool in answer.body.get("tools") or () if "function" in tool]
    request_text = text_of(answer.body)
    turn = turns[min(rounds, len(turns) - 1)]
    if not offered:  # clients request titles and summaries on the side; aider has no tools at all
        turn = {**turn, "tools": (), "text": without_tools(name, turn, request_text)}
    elif SUBMITS in request_text and turn.get("text") and not turn.get("tools"):
        turn = {**turn, "tools": [("shell", {"command": f"echo {SUBMITS}; echo '{turn['text']}'"})]}
    tool_calls = [
        {"id": f"call_{time.monotonic_ns():x}{number}", "type": "function",
         "function": {"name": tool, "arguments": json.dumps(arguments)}}
        for number, (tool, arguments) in enumerate(calls(turn, offered, request_text))
    ]  # fmt: skip
    _send(answer, turn, tool_calls, cut=name == "cut")
    return True


def _send(answer: Answer, turn: dict[str, Any], tool_calls: list[dict[str, Any]], *, cut: bool) -> None:
    text = str(turn.get("text", ""))
    finish = _FINISHES.get(str(turn.get("finish")), "tool_calls" if tool_calls else "stop")
    if not answer.body.get("stream"):
        message = {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {})}
        if turn.get("thinking"):
            message["reasoning_content"] = turn["thinking"]
        choice = {"index": 0, "message": message, "finish_reason": finish}
        if cut:
            answer.head(200, "application/json", Content_Length="100000")
            answer.raw(b'{"id": "chatcmpl-1", "choices": [')
            return
        answer.json(200, {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": answer.model,
                          "choices": [choice], "usage": CHAT_USAGE})  # fmt: skip
        return
    # A length that is never reached: the connection breaks off where it is cut.
    length = {"Content_Length": "100000"} if cut else {}
    answer.head(200, **length)
    answer.chunk({"role": "assistant", "content": ""})
    for piece in pieces(str(turn.get("thinking", "")), 20):
        answer.chunk({"reasoning_content": piece})
    for number, piece in enumerate(pieces(text, 20)):
        if cut and number == 1:
            return
        answer.chunk({"content": piece})
    for number, call in enumerate(tool_calls):
        answer.chunk({"tool_calls": [{"index": number, **call}]})
    answer.end(finish, CHAT_USAGE)


def _rounds(body: dict[str, Any]) -> int:
    """Return the number of rounds of tool results since the last user message."""
    rounds, before = 0, ""
    for message in body.get("messages") or ():
        role = str(message.get("role"))
        if role == "user":
            rounds = 0
        elif role == "tool" and before != "tool":
            rounds += 1
        before = role
    return rounds
