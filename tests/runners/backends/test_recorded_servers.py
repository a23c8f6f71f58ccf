"""Replay what real model servers and proxies sent, byte for byte, and compare what each answer is taken for.

The recordings are whole HTTP responses of llama.cpp's server, llama-cpp-python, LiteLLM with and
without an upstream of its own, nginx before a model server, and aimock, all of which differ in what the dialects leave open.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from model_tasks import model_task

from understudy.model.config.delegators import AppliesTo, ModelServer, Recipe, Scope
from understudy.model.delegation.events import Event, Text, Thinking, ToolCall, UsageReport
from understudy.model.errors import UnderstudyError
from understudy.runners.model_loop.loop_runner import Runner
from understudy.runners.runner import Outcome

FOLDER = Path(__file__).parents[1] / "recordings" / "model_servers"


def recordings() -> dict[str, tuple[str, bytes]]:
    """Return ``server/case`` → protocol and response."""
    found = {}
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            one = json.loads(line)
            found[f"{path.stem}/{one['case']}"] = one["protocol"], one["reply"].encode()
    return found


RECORDED = recordings()


@contextlib.asynccontextmanager
async def replayed(replies: Sequence[bytes]) -> AsyncIterator[str]:
    """Serve the replies on a loopback socket, one for each connection; the last one repeats."""
    left = list(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def outcome_of(
    protocol: str, replies: Sequence[bytes], folder: Path, *, returns: str = "text"
) -> tuple[Outcome | UnderstudyError, list[Event]]:
    """Ask for a text, or work with tools."""
    events: list[Event] = []
    tree = folder / "tree"
    tree.mkdir()
    async with replayed(replies) as url:
        server = ModelServer(name="recorded", kind="custom", base_url=url, protocols=[protocol])
        recipe = Recipe(
            name="fix", title="Fix", returns=returns, applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
        )
        task = model_task(server, folder, worktree=tree, recipe=recipe)
        try:
            return await Runner(retries=0).run(task, events.append), events
        except UnderstudyError as error:
            return error, events


Counts = tuple[int, int, int]
"""Input, output and cached tokens; without them, the server reported nothing that can be used."""

# Recording → text, counts, thoughts.
ANSWERS: dict[str, tuple[str, Counts | None, str]] = {
    "aimock/chat_hello_stream": ("Hello wörld ✓ from aimock.", (11, 7, 0), ""),
    "aimock/chat_reason_stream": ("42", (10, 20, 0), "Chain of thought here."),
    "aimock/or_stream": ("openrouter says hi", (9, 4, 0), "thinking openrouter"),
    "aimock/msg_redacted_stream": ("answer", (0, 0, 0), "visible part"),
    "aimock/responses_hello_stream": ("Hello wörld ✓ from aimock.", (11, 7, 0), ""),
    "litellm-chain/chat_openai_hello_stream": ("Hello wörld ✓ from aimock.", (11, 7, 0), ""),
    "litellm-chain/chat_anthropic_hello_stream": ("Hello wörld ✓ from aimock.", (11, 7, 0), ""),
    "litellm-chain/msg_openai_hello_stream": ("Hello wörld ✓ from aimock.", (11, 7, 0), ""),
    "litellm-chain/msg_anthropic_hello_stream": ("Hello wörld ✓ from aimock.", (11, 7, 0), ""),
    "litellm-chain/msg_openai_reason_stream": ("42", (10, 20, 0), "Chain of thought here."),
    "litellm-chain/responses_stream": ("Hello wörld ✓ from aimock.", (11, 7, 0), ""),
    "litellm-keepalive/chat_slow": ("a slow but steady stream", None, ""),
    "litellm-keepalive/msg_slow": ("a slow but steady stream", (0, 0, 0), ""),
    "litellm/chat_stream_usage": ("Hello world. This is a mock reply with ünïcödé ✓.", (8, 18, 0), ""),
    "litellm/messages_stream": ("Hello world. This is a mock reply with ünïcödé ✓.", (2095, 503, 0), ""),
    "llama-cpp-python/chat_text_stream": (
        "Hello from a real llama.cpp server. Ünïcödé ✓ and an emoji 🙂 are here. Bye!",
        None,
        "",
    ),
    "llama-server/chat_text_stream": (
        "Hello from a real llama.cpp server. Ünïcödé ✓ and an emoji 🙂 are here. Bye!",
        (30, 20, 29),
        "",
    ),
    "llama-server/chat_text_stream_nousage": (
        "Hello from a real llama.cpp server. Ünïcödé ✓ and an emoji 🙂 are here. Bye!",
        None,
        "",
    ),
    "llama-server/chat_think_stream": (
        "The answer is 42.",
        (28, 24, 27),
        "The user wants an answer. I weigh the options one by one.\n",
    ),
    "llama-server/msg_text_stream": (
        "Hello from a real llama.cpp server. Ünïcödé ✓ and an emoji 🙂 are here. Bye!",
        (30, 20, 29),
        "",
    ),
    "llama-server/msg_think_stream": (
        "The answer is 42.",
        (28, 24, 27),
        "The user wants an answer. I weigh the options one by one.\n",
    ),
    "llama-server/responses_stream": (
        "Hello from a real llama.cpp server. Ünïcödé ✓ and an emoji 🙂 are here. Bye!",
        (18, 20, 17),
        "",
    ),
    "llama-server/chat_toolresult_stream": ("Done: the tool said something useful.", None, ""),
    "llama-server/msg_toolresult_stream": ("Done: the tool said something useful.", (478, 10, 397), ""),
}

# Recording → kind of the failure.
FAILURES = {
    "aimock/chat_trunc_stream": "stream_truncated",
    "aimock/chat_disc_stream": "stream_truncated",
    "aimock/or_429": "rate_limited",
    "aimock/chat_filter_stream": "content_refused",
    "aimock/msg_length_stream": "output_truncated",
    "aimock/msg_disc_stream": "stream_truncated",
    "aimock/chat_ctx_stream": "context_too_long",
    "aimock/msg_ctx_stream": "context_too_long",
    "aimock/chat_429_stream": "rate_limited",
    "aimock/msg_529_stream": "overloaded",
    "litellm-chain/chat_openai_disc_stream": "overloaded",
    "litellm-chain/chat_openai_disconnect_stream": "overloaded",
    "litellm-chain/chat_openai_malformed_stream": "empty_output",
    "litellm-chain/msg_anthropic_disc_stream": "overloaded",
    "litellm-chain/msg_anthropic_malformed_stream": "stream_truncated",
    "litellm-chain/badkey": "auth_failed",
    "litellm-chain/chat_unknown": "model_not_found",
    "litellm-chain/nokey_msg": "overloaded",
    "litellm-chain/chat_dead_stream": "overloaded",
    "litellm-chain/msg_dead_stream": "overloaded",
    "litellm-chain/chat_openai_429_stream": "rate_limited",
    "litellm-chain/msg_openai_429_stream": "rate_limited",
    "litellm-chain/chat_openai_401_stream": "auth_failed",
    "litellm-chain/msg_openai_401_stream": "auth_failed",
    "litellm-chain/chat_openai_length_stream": "output_truncated",
    "litellm-chain/msg_openai_length_stream": "output_truncated",
    "litellm-keepalive/chat_late429": "rate_limited",
    "litellm-keepalive/msg_late429": "rate_limited",
    "litellm/chat_429_stream": "rate_limited",
    "litellm/chat_500_stream": "overloaded",
    "litellm/chat_ctx_stream": "context_too_long",
    "litellm/chat_midstream_stream": "overloaded",
    "litellm/messages_429_stream": "rate_limited",
    "litellm/messages_ctx_stream": "context_too_long",
    "litellm/messages_500_stream": "overloaded",
    "litellm/chat_timeout_stream": "timed_out",
    "litellm/models_noauth": "overloaded",
    "llama-cpp-python/err_ctx_stream": "stream_truncated",
    "llama-cpp-python/chat_length_stream": "output_truncated",
    "llama-server/chat_length_stream": "output_truncated",
    "llama-server/err_ctx_stream": "context_too_long",
    "llama-server/err_ctx_msg_stream": "context_too_long",
    "llama-server/err_nokey": "auth_failed",
    "llama-server/err_badkey_msg": "auth_failed",
    "nginx/bad_gateway": "overloaded",
    "nginx/limited2": "rate_limited",
    "nginx/login": "malformed_output",
    "nginx/moved": "connection_failed",
    "nginx/too_large": "context_too_long",
    "nginx/midstream_disconnect": "stream_truncated",
    "nginx/upstream_closed_before_headers": "overloaded",
}

# Recording → calls of tools, whatever their names.
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "aimock/chat_tool_stream": [
        ("read_file", {"path": "a.py", "note": 'ünï "quoted"'}),
        ("read_file", {"path": "b.py"}),
    ],
    "aimock/chat_toolfirst_stream": [("read_file", {"path": "a.py"})],
    "aimock/msg_tool_stream": [
        ("read_file", {"path": "a.py", "note": 'ünï "quoted"'}),
        ("read_file", {"path": "b.py"}),
    ],
    "aimock/msg_toolfirst_stream": [("read_file", {"path": "a.py"})],
    "litellm-chain/chat_openai_tool_stream": [
        ("read_file", {"path": "a.py", "note": 'ünï "quoted"'}),
        ("read_file", {"path": "b.py"}),
    ],
    "litellm-chain/chat_anthropic_tool_stream": [
        ("read_file", {"path": "a.py", "note": 'ünï "quoted"'}),
        ("read_file", {"path": "b.py"}),
    ],
    "litellm-chain/msg_openai_tool_stream": [
        ("read_file", {"path": "a.py", "note": 'ünï "quoted"'}),
        ("read_file", {"path": "b.py"}),
    ],
    "litellm-chain/msg_anthropic_tool_stream": [
        ("read_file", {"path": "a.py", "note": 'ünï "quoted"'}),
        ("read_file", {"path": "b.py"}),
    ],
    "llama-server/chat_tool_stream": [("read_file", {"path": "src/app.py", "limit": 10})],
    "llama-server/chat_tool2_stream": [("read_file", {"path": "a.py"}), ("list_dir", {"path": "."})],
    "llama-server/chat_thinktool_stream": [("read_file", {"path": "b.py"})],
    "llama-server/msg_tool_stream": [("read_file", {"path": "src/app.py", "limit": 10})],
    "llama-server/msg_tool2_stream": [("read_file", {"path": "a.py"}), ("list_dir", {"path": "."})],
    "llama-server/msg_thinktool_stream": [("read_file", {"path": "b.py"})],
}


def test_every_recording_has_its_expectation():
    assert sorted(RECORDED) == sorted([*ANSWERS, *FAILURES, *CALLS])


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_is_taken_whole(name, tmp_path):
    text, counts, thoughts = ANSWERS[name]
    outcome, events = await outcome_of(RECORDED[name][0], [RECORDED[name][1]], tmp_path)
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == "".join(event.text for event in events if isinstance(event, Text)) == text
    assert "".join(event.text for event in events if isinstance(event, Thinking)) == thoughts
    (report,) = [event for event in events if isinstance(event, UsageReport)]
    assert report.estimated == (counts is None)
    assert counts in {None, (report.input_tokens, report.output_tokens, report.cache_read_tokens)}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failure_has_its_kind(name, tmp_path):
    outcome, _ = await outcome_of(RECORDED[name][0], [RECORDED[name][1]], tmp_path)
    assert isinstance(outcome, UnderstudyError), outcome
    assert outcome.kind == FAILURES[name], outcome.message
    assert outcome.hint


@pytest.mark.parametrize("name", CALLS)
async def test_calls_of_tools_are_assembled(name, tmp_path):
    protocol, reply = RECORDED[name]
    end = next(one for one in ANSWERS if RECORDED[one][0] == protocol)
    outcome, events = await outcome_of(protocol, [reply, RECORDED[end][1]], tmp_path, returns="tree")
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == ANSWERS[end][0]
    assert [(event.name, event.input) for event in events if isinstance(event, ToolCall)] == CALLS[name]
