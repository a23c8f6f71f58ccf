"""Test what agents report of a server that fails in the middle of their work: a table of agents and failures.

The server shares no code with the shipped one, which the failures of other tests come from.
"""

from __future__ import annotations

import os

import pytest
from late_failures import FAILURES, failing

from understudy.model.config.delegators import Launch, Limits
from understudy.model.delegation.events import ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError

pytestmark = pytest.mark.heavy

LIMITS = Limits(total_seconds=100, first_event_seconds=40, idle_seconds=40, after_result_seconds=10)
STALL_LIMITS = Limits(total_seconds=100, first_event_seconds=40, idle_seconds=15, after_result_seconds=10)
TOOLS = ("claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen")
USUAL = {
    "cut": ErrorKind.STREAM_TRUNCATED,
    "cut_after_tool": ErrorKind.STREAM_TRUNCATED,
    "limited_after_tool": ErrorKind.RATE_LIMITED,
    "unpaid_after_tool": ErrorKind.QUOTA_EXHAUSTED,
    "garbage": ErrorKind.MALFORMED_OUTPUT,
}
OTHERS = {
    # These ask again and again, longer than the limit here, and say nothing meanwhile.
    ("cut", "opencode"): ErrorKind.STALLED,
    ("cut_after_tool", "opencode"): ErrorKind.STALLED,
    ("limited_after_tool", "opencode"): ErrorKind.STALLED,
    ("limited_after_tool", "qwen"): ErrorKind.STALLED,
    # These call an answer that they cannot read one that did not end.
    ("garbage", "claude"): ErrorKind.STREAM_TRUNCATED,
    ("garbage", "codex"): ErrorKind.STREAM_TRUNCATED,
    ("garbage", "copilot"): ErrorKind.STREAM_TRUNCATED,
}


@pytest.mark.parametrize(("failure", "tool"), [(failure, tool) for failure in FAILURES for tool in TOOLS])
async def test_a_late_failure_has_its_kind_with_every_agent(lab, failure, tool):
    models = {"gemini": "gemini-2.5-flash", "copilot": "scripted-model"}
    # Claude Code does not run as root without asking; it may run `echo`.
    launch = Launch(permission_mode="acceptEdits") if tool == "claude" and not os.getuid() else Launch(yolo=True)
    kind = OTHERS.get((failure, tool), USUAL[failure])
    limits = STALL_LIMITS if kind is ErrorKind.STALLED else LIMITS
    with failing(failure) as port:
        url = f"http://127.0.0.1:{port}"
        if tool == "claude":
            task = lab.task("none", env={"ANTHROPIC_BASE_URL": url}, limits=limits, launch=launch)
        else:
            address = url if tool == "gemini" else f"{url}/v1"
            model, env = models.get(tool, "gpt-5.5"), {"XDG_CONFIG_HOME": None}
            task = lab.tool_task(tool, "none", model=model, url=address, limits=limits, env=env, launch=launch)
        ended = await lab.run(task)
    assert isinstance(ended, UnderstudyError), ended
    assert ended.kind is kind, ended
    assert bool(lab.of(ToolResult)) == failure.endswith("_after_tool"), "the failure comes when it should"
