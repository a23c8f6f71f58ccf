"""Whatever a backend sends, the caller gets one outcome, in time, of a known kind, and no file is damaged.

``UNDERSTUDY_EXAMPLES=1000`` tries that many new examples instead of the same few.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_tasks import model_task, outcome_of, waited_outcome_of

from understudy.config import locations
from understudy.frontends.cli import app
from understudy.model.config.delegators import Limits, ModelServer
from understudy.model.delegation.events import File, Result, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.model_loop.loop_runner import Runner as LoopRunner
from understudy.runners.runner import Outcome

EXAMPLES = int(os.environ.get("UNDERSTUDY_EXAMPLES", "0"))
LIMITS = Limits(total_seconds=0.8, idle_seconds=0.15, first_event_seconds=0.15)
GRACE_SECONDS = 15.0
"""Above the limits, for a machine that is busy with other tests."""
BEFORE = "precious = True\n"

_OPENAI = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"x = 1\\n"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"y = 2"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}\n\n',
    b"data: [DONE]\n\n",
)
_ANTHROPIC = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n',
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x = 1"}}\n\n',
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}\n\n',
    b'data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"}}\n\n',
    b'data: {"type":"message_stop"}\n\n',
    b'data: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n',
)
_RESPONSES = (
    b'data: {"type":"response.output_text.delta","delta":"x = 1"}\n\n',
    b'data: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":3,"output_tokens":2}}}\n\n',
    b'data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}\n\n',
    b'data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"no"}}}\n\n',
)
WRITTEN = "x = 1\n"
"""What the calls below write, if they arrive whole."""
_CALLS = {
    "openai": (
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"write_file","arguments":""}}]}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"path\\": \\"target.py\\", \\"con"}}]}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"tent\\": \\"x = 1\\\\n\\"}"}}]}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"Done."},"finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
    ),
    "anthropic": (
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"write_file"}}\n\n',
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"path\\": \\"target.py\\", \\"con"}}\n\n',
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"tent\\": \\"x = 1\\\\n\\"}"}}\n\n',
        b'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}\n\n',
        b'data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"}}\n\n',
        b'data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Done."}}\n\n',
        b'data: {"type":"message_stop"}\n\n',
    ),
    "responses": (
        b'data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c1","name":"write_file"}}\n\n',
        b'data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\\"path\\": \\"target.py\\", \\"con"}\n\n',
        b'data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"tent\\": \\"x = 1\\\\n\\"}"}\n\n',
        b'data: {"type":"response.completed","response":{"status":"completed"}}\n\n',
        b'data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}\n\n',
        b'data: {"type":"response.output_text.delta","delta":"Done."}\n\n',
        b'data: {"type":"response.failed","response":{"status":"failed"}}\n\n',
    ),
}
"""Pieces of an answer that calls a tool, in order; then ends and other things, in any order."""
_JUNK = (
    b": ping\n\n",
    b"data: null\n\n",
    b"data: [1, 2]\n\n",
    b'data: {"error": {"message": "rate limit", "code": 429}}\n\n',
    b'data: {"choices": [null], "usage": {"prompt_tokens": -1, "completion_tokens": 1e400}}\n\n',
    b'data: {"type": 7, "delta": [], "message": "x", "response": 3, "content_block": null}\n\n',
    b"data: " + b"[" * 5000 + b"\n\n",
    b"data: \xff\xfe\n\n",
    b"<html>login</html>",
    b"\xef\xbb\xbf",
    b"\r\n",
)
PROTOCOLS = {"openai": _OPENAI, "anthropic": _ANTHROPIC, "responses": _RESPONSES}

HEADERS = st.sampled_from(
    [
        "Content-Type: text/event-stream",
        "Content-Type: application/json",
        "Content-Type: text/html",
        "Content-Type:",
        "Content-Encoding: gzip",
        "Retry-After: 0",
        "Retry-After: 86400",
        "Retry-After: soon",
        "Retry-After-Ms: 1e9",
        "X-Should-Retry: true",
        "Content-Length: 7",
        "Content-Length: -1",
        "Transfer-Encoding: chunked",
        "Location: http://127.0.0.1:1/",
        "broken header",
        "X: " + "y" * 70_000,
    ]
)


@st.composite
def replies(draw: st.DrawFn, *, calls: bool = False) -> tuple[str, list[bytes | float]]:
    """Return a protocol, and what the server writes on each connection: bytes, or a pause in seconds.

    With ``calls``, most answers call a tool.
    """
    protocol = draw(st.sampled_from(sorted(PROTOCOLS)))
    status = draw(
        st.sampled_from(
            [b"200 OK"] * 6
            + [
                b"400 No",
                b"401 No",
                b"404 No",
                b"413 No",
                b"429 Slow",
                b"500 No",
                b"529",
                b"302 Go",
                b"100 Go",
                b"99",
                b"204 No",
            ]
        )
    )
    headers = draw(st.lists(HEADERS, max_size=3))
    if draw(st.booleans()):
        headers = ["Content-Type: text/event-stream", *headers]
    head = b"HTTP/1.1 " + status + b"\r\n" + "".join(f"{one}\r\n" for one in headers).encode() + b"\r\n"
    pieces = st.one_of(
        st.sampled_from(PROTOCOLS[protocol]),
        st.sampled_from(PROTOCOLS[protocol]),
        st.sampled_from(_JUNK),
        st.binary(max_size=40),
    )
    body = b"".join(draw(st.lists(pieces, max_size=8)))
    if calls:
        whole_call = b"".join(_CALLS[protocol][:3])
        some = st.sampled_from([whole_call, whole_call, *_CALLS[protocol], *_CALLS[protocol][3:]])
        body = b"".join(draw(st.lists(some, max_size=6))) + draw(st.sampled_from([body, b"", b""]))
    if draw(st.integers(0, 9)) == 0:
        head = draw(st.binary(max_size=30))
    whole = head + body
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    if cuts and draw(st.booleans()):
        whole = whole[: cuts[-1]]
    parts: list[bytes | float] = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        parts.append(whole[start:end])
        pause = draw(st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.01, 0.2]))
        if pause:
            parts.append(pause)
    return protocol, parts


@contextlib.asynccontextmanager
async def backend(parts: list[bytes | float]) -> AsyncIterator[str]:
    """Serve ``parts`` on every connection of a real loopback socket, and hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
                for part in parts:
                    if isinstance(part, float):
                        await asyncio.sleep(part)
                    else:
                        writer.write(part)
                        await writer.drain()
            writer.write_eof()
            async with asyncio.timeout(5):
                await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    serving: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        # A server that is closed between accepting a connection and making its transport leaves that one open. The
        # client has ended: a few rounds of the loop accept all that it began.
        for _ in range(10):
            await asyncio.sleep(0)
        server.close()
        await asyncio.gather(*serving)


async def outcome_from(
    protocol: str, parts: list[bytes | float], folder: Path, limits: Limits = LIMITS, *, alone: bool = False
) -> Outcome | UnderstudyError:
    """Ask such a backend for a file; check everything that must hold."""
    tree = folder / "tree"
    tree.mkdir()
    (tree / "kept.py").write_text(BEFORE)
    (tree / "target.py").write_text(BEFORE)
    async with backend(parts) as url:
        server = ModelServer(name="any", kind="custom", base_url=url, protocols=[protocol])
        task = model_task(server, folder, returns="file", worktree=tree, target="target.py", limits=limits)
        started = time.monotonic()
        async with asyncio.timeout(limits.total_seconds + GRACE_SECONDS):
            asked = asyncio.to_thread(waited_outcome_of, task, retries=1) if alone else outcome_of(task, retries=1)
            outcome, events = await asked
    assert time.monotonic() - started < limits.total_seconds + GRACE_SECONDS
    assert (tree / "kept.py").read_text() == BEFORE
    assert sorted(path.name for path in tree.iterdir()) == ["kept.py", "target.py"]
    written = (tree / "target.py").read_text()
    if isinstance(outcome, UnderstudyError):
        assert isinstance(outcome.kind, ErrorKind)
        assert outcome.kind is not ErrorKind.INTERNAL, outcome
        assert outcome.message.strip()
        assert written == BEFORE, "a failed answer never becomes a file"
    else:
        assert written.strip() == outcome.text.strip() != ""
    assert not any(isinstance(event, Result) for event in events), "only the worker announces a result"
    for report in [event for event in events if isinstance(event, UsageReport)]:
        assert min(report.input_tokens, report.output_tokens, report.cache_read_tokens) >= 0
    return outcome


def many(number: int) -> settings:
    """Return the settings for a property that needs a server for each example."""
    return settings(
        deadline=None,
        max_examples=EXAMPLES or examples(number),
        derandomize=not EXAMPLES,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


@many(40)
@given(replies(), st.booleans())
def test_whatever_a_backend_sends_there_is_one_outcome_in_time(
    own_home: Path, reply: tuple[str, list[bytes | float]], alone: bool
) -> None:
    _ = own_home
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(outcome_from(*reply, Path(folder), alone=alone))


async def loop_outcome_from(
    protocol: str, parts: list[bytes | float], folder: Path, limits: Limits = LIMITS
) -> tuple[Outcome | UnderstudyError, str]:
    """Let such a backend work with tools; check everything that must hold. Return what is in its target, too."""
    tree = folder / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "kept.py").write_text(BEFORE)
    (tree / "target.py").write_text(BEFORE)
    async with backend(parts) as url:
        server = ModelServer(name="any", kind="custom", base_url=url, protocols=[protocol])
        task = model_task(server, folder, returns="tree", worktree=tree, limits=limits)
        started = time.monotonic()
        async with asyncio.timeout(limits.total_seconds + GRACE_SECONDS):
            outcome, events = await outcome_of(task, retries=1, runner=LoopRunner)
    assert time.monotonic() - started < limits.total_seconds + GRACE_SECONDS
    assert (tree / "kept.py").read_text() == BEFORE
    assert sorted(path.name for path in tree.iterdir()) == [".git", "kept.py", "target.py"]
    written = (tree / "target.py").read_text()
    assert written in {BEFORE, WRITTEN}, "a part of a call is never executed"
    assert (written == WRITTEN) == any(isinstance(event, File) for event in events)
    calls = [event.call_id for event in events if isinstance(event, ToolCall)]
    done = [event.call_id for event in events if isinstance(event, ToolResult)]
    assert done == calls[: len(done)]
    assert len(calls) - len(done) <= 1, "at most the one that a limit ended"
    if isinstance(outcome, UnderstudyError):
        assert outcome.kind is not ErrorKind.INTERNAL, outcome
        assert outcome.message.strip()
    for report in [event for event in events if isinstance(event, UsageReport)]:
        assert min(report.input_tokens, report.output_tokens, report.cache_read_tokens) >= 0
    return outcome, written


@many(40)
@given(replies(calls=True))
def test_whatever_a_backend_calls_there_is_one_outcome_and_no_half_file(
    own_home: Path, reply: tuple[str, list[bytes | float]]
) -> None:
    _ = own_home
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(loop_outcome_from(*reply, Path(folder)))


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
async def test_the_property_can_see_a_call(protocol: str, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    limits = Limits(total_seconds=60, idle_seconds=60, first_event_seconds=60, max_turns=2)
    parts: list[bytes | float] = [
        head,
        *_CALLS[protocol][:4],
        *(_CALLS[protocol][6:] if protocol != "responses" else ()),
    ]
    outcome, written = await loop_outcome_from(protocol, parts, tmp_path, limits)
    assert isinstance(outcome, UnderstudyError)
    assert (outcome.kind, written) == (ErrorKind.BUDGET_EXHAUSTED, WRITTEN)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
async def test_the_property_can_see_an_answer(protocol: str, tmp_path: Path, alone: bool) -> None:
    good = {"openai": _OPENAI[:3], "anthropic": (*_ANTHROPIC[:3], _ANTHROPIC[4]), "responses": _RESPONSES[:2]}[protocol]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    limits = Limits(total_seconds=60, idle_seconds=60, first_event_seconds=60)
    outcome = await outcome_from(protocol, [head, *good], tmp_path, limits, alone=alone)
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text.startswith("x = 1")


@contextlib.contextmanager
def backend_in_thread(parts: list[bytes | float]) -> Iterator[str]:
    """Serve ``parts`` from another thread, for a caller that has a loop of its own."""
    address: list[str] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with backend(parts) as url:
            address.append(url)
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(GRACE_SECONDS)
        yield address[0]
    finally:
        ended.set()
        thread.join(GRACE_SECONDS)


@many(12)
@given(replies(), st.booleans())
def test_whatever_a_backend_sends_the_target_of_write_is_whole(
    own_home: Path, reply: tuple[str, list[bytes | float]], existing: bool
) -> None:
    _ = own_home
    protocol, parts = reply
    with tempfile.TemporaryDirectory() as folder, backend_in_thread(parts) as url:
        config, target = locations.user_folder(), Path(folder) / "target.py"
        if existing:
            target.write_text(BEFORE)
        for kind, name, values in (
            ("model-servers", "any", {"kind": "custom", "base_url": url, "protocols": [protocol]}),
            ("delegators", "asked", {"model_server": "any", "model": "m"}),
        ):
            (config / kind).mkdir(parents=True, exist_ok=True)
            text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in ({"name": name} | values).items())
            text += "[limits]\nidle_seconds = 1\nfirst_event_seconds = 1\n" if kind == "delegators" else ""
            (config / kind / f"{name}.toml").write_text(text)
        arguments = ["write", "--json", "-t", "A file.", "-d", "asked", "--force", "--total-seconds", "2"]
        found = CliRunner().invoke(_main, ["--", *arguments, "--target", str(target)], standalone_mode=False)
        assert found.exception is None, found.exception
        (line,) = found.stdout.splitlines()
        envelope = json.loads(line)
        assert envelope["ok"] == (found.return_value == 0)
        assert [path.name for path in Path(folder).iterdir()] == (["target.py"] if existing or envelope["ok"] else [])
        if envelope["ok"]:
            written = target.read_text()
            assert written.strip()
            assert written != BEFORE
        else:
            assert envelope["error"]["kind"] in {kind.value for kind in ErrorKind} - {ErrorKind.INTERNAL}
            assert not existing or target.read_text() == BEFORE


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _main(arguments: tuple[str, ...]) -> int:
    return app.main(arguments)
