"""Test that real agent CLIs call the relay tools through real MCP: the user's answer reaches their model."""

import asyncio
import json

import msgspec
import pytest
from journals import spec_of_a_test

from understudy.engine.running.relay.relay_host import RelayHost
from understudy.journal.delegation_folder import Folder
from understudy.model.config.delegators import Launch
from understudy.model.delegation.events import Phase
from understudy.model.delegation.spec import SpecCandidate
from understudy.runners.runner import Outcome

pytestmark = pytest.mark.heavy

ASKED = {"question": "Which database?", "choices": ["SQLite", "PostgreSQL"]}
REPORTED = {"text": "Choosing a database"}


@pytest.fixture
def relayed(lab):
    """Run a task whose agent has relay tools; the user answers with a text."""

    async def run(task):
        folder = Folder(task.delegation_id, lab.folder)
        candidate = SpecCandidate(delegator=task.delegator, limits=task.limits)
        spec = spec_of_a_test(folder.id, candidates=[candidate])
        asked = []

        async def ask(question):
            asked.append(question)
            return next(one for one in question.options if one.takes_text), "Use SQLite 3."

        host = RelayHost(folder, spec, lab.folder, emit=lab.take, ask=ask, in_thread=asyncio.to_thread)
        servers, config = await host.open(candidate)
        try:
            given = msgspec.structs.replace(task, relay=host, mcp_servers=servers, mcp_config=config)
            outcome = await lab.run(given)
        finally:
            await host.close()
        return outcome, asked

    return run


@pytest.mark.parametrize("mode", [None, "dontAsk"])
async def test_claude_code(lab, relayed, mode):
    lab.server.answers["relay"] = {
        "turns": [
            {"tools": [{"name": "mcp__understudy_relay__report_progress", "input": REPORTED}]},
            {"tools": [{"name": "mcp__understudy_relay__ask_human", "input": ASKED}]},
            {"text": "Done."},
        ]
    }
    outcome, asked = await relayed(lab.task("relay", launch=Launch(permission_mode=mode)))
    assert isinstance(outcome, Outcome), outcome
    assert [one.title for one in asked] == ["Which database?"]
    assert "Use SQLite 3." in json.dumps([request.body for request in lab.server.requests])
    assert [event.text for event in lab.of(Phase)] == ["reports: Choosing a database"]
    assert not (lab.home / ".claude.json").exists() or "understudy_relay" not in (lab.home / ".claude.json").read_text()
    assert sorted(path.name for path in lab.tree.iterdir()) == ["greeting.py"]


@pytest.mark.parametrize(
    ("tool", "mode", "call"),
    [
        ("codex", None, {"name": "ask_human", "namespace": "mcp__understudy_relay"}),
        ("codex", "untrusted", {"name": "ask_human", "namespace": "mcp__understudy_relay"}),
        ("opencode", None, {"name": "understudy_relay_ask_human"}),
        ("opencode", "read-only", {"name": "understudy_relay_ask_human"}),
        ("copilot", None, {"name": "understudy_relay-ask_human"}),
    ],
)
async def test_others(lab, relayed, tool, mode, call):
    """No one can be asked for permission here, so a call that needs one would fail."""
    lab.server.answers["relay"] = {"loop": [{"calls": [{**call, "arguments": ASKED}]}, {"text": "Done."}]}
    env = {"XDG_CONFIG_HOME": None} if tool == "opencode" else None
    launch = Launch(permission_mode=mode)
    outcome, asked = await relayed(lab.tool_task(tool, "relay", model="relay", launch=launch, env=env))
    assert isinstance(outcome, Outcome), outcome
    assert [one.title for one in asked] == ["Which database?"]
    assert "Use SQLite 3." in json.dumps([request.body for request in lab.server.requests])
    assert sorted(path.name for path in lab.tree.iterdir()) == ["greeting.py"]
