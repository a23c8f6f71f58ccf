"""A model server that fails late, in the four protocols of agents; it shares no code with ``understudy.testing``.

The first request with tools gets a call of the agent's own shell, or half a text; what follows is the failure:

- ``cut``: the connection ends in the middle of the first text.
- ``cut_after_tool``: it ends in the middle of the text after the tool's result.
- ``limited_after_tool``: status 429 after the tool's result.
- ``unpaid_after_tool``: status 402 after the tool's result.
- ``garbage``: lines that are not JSON in the first stream, which then ends as streams do.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

FAILURES = ("cut", "cut_after_tool", "limited_after_tool", "unpaid_after_tool", "garbage")
_SHELLS = frozenset({"Bash", "bash", "shell", "exec_command", "run_shell_command"})
_RESULTS = re.compile(r'"tool_result"|"role": ?"tool"|"function_call_output"|"functionResponse"')
_REFUSALS = {
    "limited_after_tool": (429, "Rate limit reached for requests per day", "rate_limit_exceeded"),
    "unpaid_after_tool": (402, "This request requires more credits", "insufficient_quota"),
}
_GARBAGE = b'data: {"half": \n\ndata: \x00\xff\xfe not JSON\n\nevent: ???\ndata: [[[[\n\n'
_USAGE = {"input_tokens": 5, "output_tokens": 5}


def _tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for tool in body.get("tools") or []:
        found += tool.get("functionDeclarations") or [tool.get("function") or tool]
    return found


def _call(body: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return a call of the agent's shell as its own schema describes it; None if it offers none."""
    for tool in _tools(body):
        if tool.get("name") not in _SHELLS:
            continue
        schema = next((tool[key] for key in ("input_schema", "parameters", "parametersJsonSchema") if key in tool), {})
        properties = schema.get("properties") or {}
        values: dict[str, Any] = {}
        for name in {*schema.get("required", ()), *({"command", "cmd"} & set(properties))}:
            kind = str(properties.get(name, {}).get("type", "string")).lower()
            text = "echo hi" if name in {"command", "cmd"} else "Say hi"
            values[name] = {"array": ["sh", "-c", "echo hi"], "boolean": False, "integer": 1, "number": 1}.get(
                kind, text
            )
        return tool["name"], values
    return None


def _messages(call: tuple[str, dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": _USAGE}
    yield {"type": "message_start", "message": message}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "I begin"}
    if call is not None:
        block = {"type": "tool_use", "id": "toolu_1", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = "end_turn" if call is None else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": _USAGE}
    yield {"type": "message_stop"}


def _chat(call: tuple[str, dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": choices}

    yield chunk({"role": "assistant", "content": ""})
    delta: dict[str, Any] = {"content": "I begin"}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        delta = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    yield chunk(delta)
    yield chunk({}, "stop" if call is None else "tool_calls")
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    yield {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": [], "usage": usage}


def _responses(call: tuple[str, dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    response = {"id": "r1", "object": "response", "created_at": 1, "model": "x", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
    done = item | {"status": "completed", "content": [{"type": "output_text", "text": "I begin", "annotations": []}]}
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "content_index": 0, "delta": "I begin"}
    item["content"] = []
    if call is not None:
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": call[0], "arguments": ""}
        done = item | {"arguments": json.dumps(call[1]), "status": "completed"}
        delta = {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": json.dumps(call[1])}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"output_index": 0, **delta}
    yield {"type": "response.output_item.done", "output_index": 0, "item": done}
    usage = {**_USAGE, "total_tokens": 10, "input_tokens_details": {"cached_tokens": 0}}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    yield {
        "type": "response.completed",
        "response": response | {"status": "completed", "output": [done], "usage": usage},
    }


def _gemini(call: tuple[str, dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    part: dict[str, Any] = {"text": "I begin"}
    if call is not None:
        part = {"functionCall": {"name": call[0], "args": call[1]}}
    yield {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10}
    end = {"index": 0, "content": {"role": "model", "parts": []}, "finishReason": "STOP"}
    yield {"candidates": [end], "usageMetadata": usage}


_STREAMS = {"messages": _messages, "completions": _chat, "responses": _responses, "gemini": _gemini}
_HALF = {"messages": 3, "completions": 2, "responses": 3, "gemini": 1}
"""How many events come before the connection ends in the middle of a text."""


@contextlib.contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve HTTP on loopback until the end of the block; yield the port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def failing(failure: str) -> Iterator[int]:
    """Serve on a port of loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._json(200, {"object": "list", "data": [{"id": "x", "object": "model"}]})

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", "replace")
            path = self.path.partition("?")[0]
            if path.endswith("count_tokens"):
                self._json(200, {"input_tokens": 5})
                return
            body = json.loads(text or "{}")
            kind = next((name for name in _STREAMS if path.endswith(name)), "gemini")
            call = _call(body)
            answered = bool(_RESULTS.search(text))
            if call is None:  # a title, or another small question
                self._stream(kind, list(_STREAMS[kind](None)))
            elif failure == "garbage":
                self._stream(kind, [*_STREAMS[kind](None)][: _HALF[kind] - 1], after=_GARBAGE)
            elif failure == "cut" or (answered and failure == "cut_after_tool"):
                self._stream(kind, [*_STREAMS[kind](None)][: _HALF[kind]], cut=True)
            elif answered:
                status, message, code = _REFUSALS[failure]
                self._json(status, {"error": {"message": message, "type": code, "code": code}})
            else:
                self._stream(kind, list(_STREAMS[kind](call)))

        def _json(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self._begin(status, "application/json", len(data))
            self.wfile.write(data)

        def _stream(self, kind: str, events: list[dict[str, Any]], *, after: bytes = b"", cut: bool = False) -> None:
            lines = b"".join(
                (f"event: {event['type']}\n" if "type" in event else "").encode()
                + b"data: "
                + json.dumps(event).encode()
                + b"\n\n"
                for event in events
            )
            lines += after + (b"data: [DONE]\n\n" if kind == "completions" and not cut else b"")
            self._begin(200, "text/event-stream", len(lines) + (1000 if cut else 0))
            self.wfile.write(lines)
            self.wfile.flush()
            self.close_connection = True

        def _begin(self, status: int, kind: str, length: int) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(length))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with served(Handler) as port:
        yield port
