"""What a first user meets, for every agent CLI: each failure ends as its kind, with the provider's words and a hint."""

import asyncio
import re
from typing import Any

import pytest
from msgspec import structs

from understudy.config.discovery import declarations
from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.events import File, Phase, Text, ToolCall
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis.streams import copilot_stream, gemini_stream, pi_stream, qwen_stream
from understudy.runners.agent_clis.streams.stream_values import kind_reported

FAILURES = {
    "400": (ErrorKind.BAD_REQUEST, "[Ss]omething is wrong"),
    "401": (ErrorKind.AUTH_FAILED, "API key|Authentication failed"),
    "404": (ErrorKind.MODEL_NOT_FOUND, "does not exist|not found|selected model"),
    "429": (ErrorKind.RATE_LIMITED, "429|[Rr]ate limit"),
    "500": (ErrorKind.OVERLOADED, "500|Internal server error|high demand"),
    "529": (ErrorKind.OVERLOADED, "529|overloaded"),
    "late_500": (ErrorKind.OVERLOADED, "Internal server error|high demand"),
    "quota": (ErrorKind.QUOTA_EXHAUSTED, "billing|usage limits|daily quota"),
    "model_id": (ErrorKind.MODEL_NOT_FOUND, "not a valid model ID"),
    "length": (ErrorKind.OUTPUT_TRUNCATED, "output|limit of one answer"),
    "filter": (ErrorKind.CONTENT_REFUSED, "refused|filter|blocked"),
    "empty": (ErrorKind.EMPTY_OUTPUT, "empty"),
    "context": (ErrorKind.CONTEXT_TOO_LONG, "context (window|length)|maximum context|too long"),
    "late_context": (ErrorKind.CONTEXT_TOO_LONG, "context (window|length)|maximum context|too long|again and again"),
    "cut": (ErrorKind.STREAM_TRUNCATED, "stream closed|ECONNRESET|terminated|end of file|lost|peer closed"),
    "refused": (ErrorKind.CONNECTION_FAILED, "[Cc]onnect|fetch failed"),
    "unknown_session": (ErrorKind.BAD_REQUEST, "[Ss]ession|rollout|conversation"),
}
"""Recording → its kind, and what the message must contain of the provider's or the agent's own words."""
OPTIONAL = {"late_500", "empty", "length", "filter"}
"""Recordings that some tools do not have. Copilot, Gemini and Qwen go on after an output limit, or report a success; to
Qwen, a filtered answer is an empty one."""
RETRIES = {
    "codex": dict.fromkeys(("401", "500", "cut"), 2),
    "copilot": dict.fromkeys(("401", "429", "500", "529", "quota", "cut", "refused"), 2),
    "pi": dict.fromkeys(("429", "500", "cut", "refused"), 2),
}
"""Tool → recording → how many of its own attempts are shown."""
RETRY_TIMES = {"gemini": {"429"}, "opencode": {"429", "quota"}}
"""Tool → the recordings in which it reports when to try again."""
SERVED = {"opencode"}
"""Tools that need a model server, or their own way to name one."""
DRIVEN = sorted(
    one.name for one in declarations.tools().values() if one.runner and one.binaries and one.name != "ghostwriter"
)


INTERRUPTS: dict[str, dict[str, Any]] = {
    "codex": {"method": "turn/interrupt"},
    "pi": {"type": "abort"},
    "qwen": {"request": {"subtype": "interrupt"}},
}
"""Tool → what a cancel writes to it first, for those that can be interrupted."""


def task_of(stage: Any, recording: str, end: str = "", **more: Any) -> Any:
    server = ModelServer(name="scripted", kind="custom", base_url="http://127.0.0.1:9/v1", protocols=["openai"])
    return stage.task(recording, end, model_server=server if stage.tool in SERVED else None, **more)


@pytest.mark.parametrize("tool", DRIVEN)
def test_every_driven_agent_has_recordings_of_the_failures(stage_for, tool):
    recorded = {path.stem for path in stage_for(tool).recordings.glob("*.jsonl")}
    assert FAILURES.keys() - OPTIONAL <= recorded


@pytest.mark.parametrize("tool", DRIVEN)
@pytest.mark.parametrize("recording", FAILURES)
async def test_a_failure_ends_as_its_kind(stage_for, tool, recording):
    stage = stage_for(tool)
    if not (stage.recordings / f"{recording}.jsonl").exists():
        pytest.skip("not recorded")
    failure = await stage.run(task_of(stage, recording))
    kind, words = FAILURES[recording]
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind, failure.message
    assert re.search(words, failure.message), failure.message
    assert failure.hint
    assert failure.message not in "".join(event.text for event in stage.of(Text)), "an error is not an answer"
    if (shown := RETRIES.get(tool, {}).get(recording)) is not None:
        assert len(stage.of(Phase)) == shown
    if tool in RETRY_TIMES:
        assert (failure.retry_at is not None) == (recording in RETRY_TIMES[tool])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # Claude Code 2.1.0
        ('API Error: 500 {"type":"error","error":{"type":"api_error"}}', ErrorKind.OVERLOADED),
        # Qwen Code 0.24.4: a 413, and HTML instead of a stream
        ("Model request exceeds the endpoint request-body limit (HTTP 413) and …", ErrorKind.CONTEXT_TOO_LONG),
        ("Streaming request received a non-SSE response (HTTP 200, Content-Type: …)", ErrorKind.MALFORMED_OUTPUT),
        # Gemini CLI 0.61.0: HTML, a broken line, a proxy without this route
        ("Incomplete JSON segment at the end", ErrorKind.MALFORMED_OUTPUT),
        ("Unexpected token 'D', \"[DONE]\" is not valid JSON", ErrorKind.MALFORMED_OUTPUT),
        ("Unexpected end of JSON input", ErrorKind.MALFORMED_OUTPUT),
        ('JSON parsing failed: Text: {"half": .\nError message: JSON Parse error', ErrorKind.MALFORMED_OUTPUT),
        ("404 page not found", ErrorKind.MODEL_NOT_FOUND),
        # GitHub Copilot CLI 1.0.102: HTML, JSON instead of a stream, a broken line, a certificate
        ("Failed to finalize … stream: request ended without sending any chunks", ErrorKind.STREAM_TRUNCATED),
        ("No response was returned. Send your message again to retry.", ErrorKind.EMPTY_OUTPUT),
        ("Failed to parse … chunk: EOF while parsing a string at line 1 column 30", ErrorKind.STREAM_TRUNCATED),
        ("invalid peer certificate: UnknownIssuer", ErrorKind.CONNECTION_FAILED),
        ("Cannot read properties of undefined (reading 'x')", ErrorKind.TOOL_CRASHED),
    ],
)
def test_only_a_crash_is_a_crash(text, kind):
    assert kind_reported(text) is kind


@pytest.mark.parametrize("tool", ["copilot", "gemini", "pi", "qwen"])
def test_a_failed_request_is_no_crash_whatever_its_text_is(tool):
    text = "Something odd upstream"
    failed = {
        "copilot": lambda: copilot_stream.failure_of({"errorType": "query", "message": text}),
        "gemini": lambda: gemini_stream.failure_of(f"[API Error: {text}]", 1),
        "pi": lambda: pi_stream.failure_of(text, of_request=True),
        "qwen": lambda: qwen_stream.failure_of({"is_error": True, "error": {"message": f"[API Error: {text}]"}}),
    }[tool]()
    assert (failed.kind, failed.message.endswith(text)) == (ErrorKind.OVERLOADED, True)


@pytest.mark.parametrize("tool", DRIVEN)
@pytest.mark.parametrize(
    ("end", "kind"),
    [
        ("half", ErrorKind.MALFORMED_OUTPUT),
        ("no_result", ErrorKind.TOOL_NO_RESULT),
        ("silent", ErrorKind.STALLED),
    ],
)
async def test_an_attempt_that_does_not_end_is_a_failure(stage_for, tool, end, kind):
    stage = stage_for(tool)
    limits = structs.replace(stage.patient, idle_seconds=0.5) if end == "silent" else stage.patient
    failure = await stage.run(task_of(stage, "edits", end, limits=limits))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind, failure.message


@pytest.mark.parametrize("tool", [tool for tool in DRIVEN if tool != "claude"])  # its own test asks a question first
async def test_a_cancel_ends_it_and_interrupts_the_turn_first_where_it_can(stage_for, tool):
    stage = stage_for(tool)
    # Qwen Code's recording waits for the interrupt.
    recording, end = ("interrupted", "") if tool == "qwen" else ("edits", "silent")
    work = asyncio.create_task(stage.run(task_of(stage, recording, end)))
    async with asyncio.timeout(60):
        while not [*stage.of(ToolCall), *stage.of(File)]:
            assert not work.done(), work.result()
            await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    if tool in INTERRUPTS:
        assert stage.said_to_it()[-1].items() >= INTERRUPTS[tool].items()
