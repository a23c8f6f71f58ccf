"""The Gemini API for agent CLIs: a base URL with ``/s/<scenario>`` plays a script of ``agent_scripts``.

As in ``chat_agents``, the request alone determines the next turn.
"""

from __future__ import annotations

import re
from typing import Any

from agent_model_server.agent_scripts import calls, fault_of, script_of, text_of
from understudy.testing.model_server.responses import Answer, event, pieces

GEMINI_USAGE = {
    "promptTokenCount": 1200,
    "cachedContentTokenCount": 200,
    "candidatesTokenCount": 50,
    "thoughtsTokenCount": 7,
    "totalTokenCount": 1257,
}
"""The usage that every answer reports; the prompt includes what was cached."""

_FINISHES = {"length": "MAX_TOKENS", "filter": "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    529: "UNAVAILABLE",
}
_TYPES = "type.googleapis.com/google.rpc."
_DETAILS = {
    "429": [{"@type": f"{_TYPES}RetryInfo", "retryDelay": "0.1s"}],
    "quota": [{"@type": f"{_TYPES}QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}],
}
"""Scenario → what its refusal says besides the message."""


def send_gemini(answer: Answer) -> None:
    """Answer ``models/<model>:streamGenerateContent`` and ``:generateContent``."""
    match = re.match(r"/s/([^/]+)/", answer.request.path)
    name, rounds = match[1] if match else answer.model, _rounds(answer.body)
    if (fault := fault_of(name, rounds)) is not None:
        status, text, _ = fault
        error = {"code": status, "message": text, "status": _STATUSES[status]}
        answer.json(status, {"error": {**error, "details": _DETAILS.get(name.removeprefix("late_"), [])}})
        return
    turns = script_of(name) or script_of("good") or []
    offered = [
        declaration for tool in answer.body.get("tools") or () for declaration in tool.get("functionDeclarations") or ()
    ]
    # Clients request titles and summaries on the side, without tools.
    turn = turns[min(rounds, len(turns) - 1)] if offered else {"text": "Scripted title"}
    parts: list[dict[str, Any]] = [
        {"thought": True, "text": piece} for piece in pieces(str(turn.get("thinking", "")), 20)
    ]
    parts += [{"text": piece} for piece in pieces(str(turn.get("text", "")), 20)]
    parts += [
        {"functionCall": {"name": tool, "args": arguments}}
        for tool, arguments in calls(turn, offered, text_of(answer.body))
    ]
    finish = _FINISHES.get(str(turn.get("finish")), "STOP")
    if ":streamGenerateContent" not in answer.request.path:
        answer.json(200, _response(parts, finish))
        return
    # A length that is never reached: the connection breaks off where it is cut.
    answer.head(200, **({"Content_Length": "100000"} if name == "cut" else {}))
    for part in parts[:1] if name == "cut" else parts:
        answer.raw(event(_response([part])))
    if name != "cut":
        answer.raw(event(_response([], finish)))


def _response(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish is None:
        return {"candidates": [candidate]}
    return {"candidates": [{**candidate, "finishReason": finish}], "usageMetadata": GEMINI_USAGE}


def _rounds(body: dict[str, Any]) -> int:
    """Return the number of rounds of tool results since the last user message."""
    rounds = 0
    for content in body.get("contents") or ():
        if content.get("role") == "user":
            has_result = any("functionResponse" in part for part in content.get("parts") or ())
            rounds = rounds + 1 if has_result else 0
    return rounds
