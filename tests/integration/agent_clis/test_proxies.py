"""Test what proxies and other servers send that no scripted model server sends: a table of agents and answers."""

from __future__ import annotations

import contextlib
import http.server
from collections.abc import Iterator

import pytest
from late_failures import served

from understudy.model.config.delegators import Limits
from understudy.model.errors import ErrorKind, UnderstudyError

pytestmark = pytest.mark.heavy

ANSWERS = {
    "too_large": (413, "text/html", "<html><body><h1>413 Request Entity Too Large</h1></body></html>"),
    "login_page": (200, "text/html", "<!DOCTYPE html><html><body>Please log in to the proxy.</body></html>"),
    "no_route": (404, "text/plain", "404 page not found"),
}
"""Answer → what answers every request."""
TRUNCATED, MALFORMED = ErrorKind.STREAM_TRUNCATED, ErrorKind.MALFORMED_OUTPUT
KINDS: dict[str, dict[str, ErrorKind | None]] = {
    "too_large": dict.fromkeys(
        ("claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"), ErrorKind.CONTEXT_TOO_LONG
    ),
    # pi takes a page without an event for an empty answer; opencode asks again and again.
    "login_page": {
        "claude": TRUNCATED,
        "codex": TRUNCATED,
        "copilot": TRUNCATED,
        "gemini": MALFORMED,
        "pi": None,
        "qwen": MALFORMED,
    },
    "no_route": dict.fromkeys(
        ("claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"), ErrorKind.MODEL_NOT_FOUND
    ),
}
"""Answer → tool → the kind of its failure; None: a result without changes."""
LIMITS = Limits(total_seconds=90, first_event_seconds=60, idle_seconds=60, after_result_seconds=10)


@contextlib.contextmanager
def answering(answer: str) -> Iterator[int]:
    status, kind, text = ANSWERS[answer]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.do_GET()

        def do_GET(self) -> None:
            body = text.encode()
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with served(Handler) as port:
        yield port


@pytest.mark.parametrize(("answer", "tool"), [(answer, tool) for answer, kinds in KINDS.items() for tool in kinds])
async def test_an_answer_has_its_kind_with_every_agent(lab, answer, tool):
    models = {"gemini": "gemini-2.5-flash", "copilot": "scripted-model"}
    with answering(answer) as port:
        url = f"http://127.0.0.1:{port}"
        if tool == "claude":
            task = lab.task("none", env={"ANTHROPIC_BASE_URL": url}, limits=LIMITS)
        else:
            address = url if tool == "gemini" else f"{url}/v1"
            model, env = models.get(tool, "gpt-5.5"), {"XDG_CONFIG_HOME": None}
            task = lab.tool_task(tool, "none", model=model, url=address, limits=LIMITS, env=env)
        ended = await lab.run(task)
    kind = ended.kind if isinstance(ended, UnderstudyError) else None
    assert kind is KINDS[answer][tool], ended
