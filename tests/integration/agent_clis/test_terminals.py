"""Test real agents with ``mode = "tmux"`` on the scripted model server: empty environment, empty home, loopback."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from tmux_server import TMUX, tmux_server

from understudy.model.capabilities import DONE_NOTE
from understudy.model.config.delegators import Delegator, Limits
from understudy.model.delegation.events import AgentStarted
from understudy.model.errors import UnderstudyError
from understudy.runners.runner import Outcome

pytestmark = [pytest.mark.heavy, pytest.mark.skipif(not TMUX, reason="tmux is not installed")]

KEY = "test-key-of-nobody"
SETTLED = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}


def claude(lab):
    """As a user who has started it before, and has answered what it asks about the folder."""
    known = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": [KEY]}}
    (lab.home / ".claude.json").write_text(json.dumps({**known, "projects": {str(lab.tree): SETTLED}}))
    # What a repository configures is not used, although the user trusts the folder.
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {lab.folder}/fired"}]}]}
    (lab.tree / ".claude").mkdir()
    (lab.tree / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    return "claude-sonnet-4-5", {}


def codex(lab):
    """With a provider of the user's own."""
    (lab.home / ".codex").mkdir()
    provider = f'name = "lab"\nbase_url = "{lab.url("report")}/v1"\nwire_api = "responses"\n'
    settings = f'model_provider = "lab"\n[model_providers.lab]\n{provider}'
    (lab.home / ".codex" / "config.toml").write_text(settings)
    return "gpt-5.5", {}


def opencode(lab):
    """With a provider of the user's own."""
    models = {"scripted": {"name": "S", "tool_call": True, "limit": {"context": 128000, "output": 8192}}}
    options = {"baseURL": f"{lab.url('report')}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Lab", "options": options, "models": models}
    folder = lab.home / "opencode"
    folder.mkdir()
    (folder / "opencode.json").write_text(json.dumps({"small_model": "lab/scripted", "provider": {"lab": provider}}))
    return "lab/scripted", {"OPENCODE_DISABLE_MODELS_FETCH": "1", "XDG_CONFIG_HOME": str(lab.home)}


ANSWERS = {"Open restricted": ("Enter",), "Use existing model": ("2",)}
"""What the user answers, once each, when Codex asks about the folder, and about a newer model."""


@pytest.mark.parametrize("prepare", [claude, codex, opencode])
async def test_a_real_agent_works_in_a_pane_until_its_report(lab, prepare: Callable):
    tool = prepare.__name__
    model, env = prepare(lab)
    lab.commit()
    with tmux_server() as server:
        server("resize-window", "-t", server.first, "-x", "240", "-y", "50")
        task = lab.task(
            "report",
            delegator=Delegator(name=tool, tool=tool, mode="tmux", model=model),
            env=env,
            prompt=f"Do what is asked.{DONE_NOTE}",
            limits=Limits(total_seconds=90),
            caller_pane=server.pane,
        )
        running = asyncio.create_task(lab.run(task))
        answers = dict(ANSWERS)
        while not running.done():
            await asyncio.wait([running], timeout=0.5)
            pane = next((event.terminal.id for event in lab.of(AgentStarted)), None)
            if pane is None:
                continue
            with suppress(AssertionError):  # the pane is gone
                shown = await asyncio.to_thread(server, "capture-pane", "-p", "-t", pane)
                for question in [question for question in answers if question in shown]:
                    await asyncio.to_thread(server, "send-keys", "-t", pane, *answers.pop(question))
        outcome = running.result()
    assert isinstance(outcome, Outcome), (outcome, getattr(outcome, "hint", None))
    assert not isinstance(outcome, UnderstudyError)
    assert outcome.summary == "I wrote nothing."
    assert lab.server.requests
    assert "Read the file .understudy-run/task.md" in json.dumps([request.body for request in lab.server.requests])
    assert not (lab.folder / "fired").exists()
