"""Half a surrogate pair in a line of an agent does not lose its answer."""

from __future__ import annotations

import re
import shutil

import msgspec
import pytest

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Delegator
from understudy.model.delegation.events import Text, ToolResult
from understudy.runners.agent_clis.streams.event_stream import EventLines
from understudy.runners.runner import Outcome

TOOLS = ("claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen")


def with_halves(stage, recording):
    """Return a copy of a recording that has half a pair in each answer, escaped as JavaScript writes it."""
    found = (stage.recordings / f"{recording}.jsonl").read_bytes()
    # The tool's name is that of the folder.
    copy = stage.folder / stage.recordings.name / f"{recording}.jsonl"
    copy.parent.mkdir()
    copy.write_bytes(re.sub(rb'(Done: it is as you a|as asked|"asked)', rb"\1\\ud83d", found))
    assert copy.read_bytes() != found
    stage.recordings = copy.parent


@pytest.mark.parametrize("tool", TOOLS)
async def test_the_answer_of_an_agent_is_read(stage_for, tool):
    stage = stage_for(tool)
    with_halves(stage, "edits")
    delegator = Delegator(name=tool, tool=tool, model="anthropic/claude-x" if tool == "opencode" else "m")
    outcome = await stage.run(stage.task("edits", delegator=delegator))
    assert isinstance(outcome, Outcome), outcome
    assert "as you a\ufffds" in (outcome.text or "") + "".join(event.text for event in stage.of(Text))
    for event in stage.events:
        msgspec.json.encode(event)


@pytest.mark.parametrize("tool", ["claude", "copilot", "gemini", "opencode"])
async def test_the_answer_of_an_agent_over_acp_is_read(stage_for, choosing, tool):
    stage = stage_for("gemini")
    stage.recordings = stage.recordings.with_name("acp")
    with_halves(stage, f"{tool}-edit")
    program = stage.program.with_name(declarations.tools()[tool].acp_command[0])
    if not program.exists():
        shutil.copy(stage.program, program)
    delegator = Delegator(name=tool, tool=tool, mode="acp")
    outcome = await stage.run(stage.task(f"{tool}-edit", delegator=delegator, ask=choosing("allow_once")))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == "Done: I wrote hello.txt as asked\ufffd."


def test_an_event_of_a_custom_command_is_read():
    lines = EventLines()
    [done] = lines.line(rb'{"type": "result", "ok": true, "text": "cut \ud83d", "summary": "\ude00"}')
    assert (done.text, done.summary) == ("cut \ufffd", "\ufffd")
    [result] = lines.line(rb'{"type": "tool_result", "callId": "1", "ok": true, "output": "\ud83d"}')
    assert isinstance(result, ToolResult)
    assert result.output == "\ufffd"


REMEDY = b'"remedy": {"kind": "install_packages", "commands": [["rm", "-r", "x"]]}'


def test_an_agent_does_not_say_what_a_button_does():
    note = b'{"type": "note", "level": "info", "text": "t", "hint": "h", "beginsAgain": true, ' + REMEDY + b"}"
    phase = b'{"type": "phase", "text": "x", "count": {"of": "tests", "done": 1, "total": 2}}'
    end = b'{"type": "result", "ok": false, "error": {"kind": "tool_missing", "message": "m", ' + REMEDY + b"}}"
    for lines in (EventLines(), EventLines(is_ours=True)):
        [told] = lines.line(note)
        assert (told.text, told.hint, told.remedy, told.begins_again) == ("t", None, None, False)
        [counted] = lines.line(phase)
        assert counted.count is None
    [failed] = EventLines().line(end)
    assert (failed.error.message, failed.error.remedy) == ("m", None)
    [failed] = EventLines(is_ours=True).line(end)
    assert failed.error.remedy.commands == [["rm", "-r", "x"]], "the ghostwriter is ours"
