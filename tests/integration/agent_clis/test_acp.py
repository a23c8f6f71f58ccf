"""Test real agents over the Agent Client Protocol, on the scripted model server: empty environment, loopback."""

import asyncio
import json

import pytest
from agent_model_server import ModelServer

from understudy.model.config.delegators import Delegator, Launch
from understudy.model.delegation.events import File, PermissionAnswered, ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.runner import Outcome, Question

pytestmark = pytest.mark.heavy

INPUTS = {
    "opencode": ("write", {"filePath": "{cwd}/hello.txt", "content": "hello\n"}),
    "copilot": ("create", {"path": "{cwd}/hello.txt", "file_text": "hello\n"}),
}
"""Agent → its tool that writes a file, and what that gets."""
SHELL = ("bash", {"command": "tail -f greeting.py", "description": "Wait", "mode": "sync"})


@pytest.fixture
def lab(lab):
    """Return the lab, with scenarios that use the tools of these agents."""
    answers = {}
    done = {"text": "Done."}
    for agent, (write, given) in INPUTS.items():
        answers[f"{agent}-write"] = {"turns": [{"text": "I write.", "tools": [{"name": write, "input": given}]}, done]}
    answers["copilot-shell"] = {"turns": [{"tools": [{"name": SHELL[0], "input": SHELL[1]}]}, done]}
    with ModelServer(answers=answers) as server:
        lab.server = server
        yield lab


def task_of(lab, agent, scenario, *, launch=None, model="", **more):
    """Return a task for an agent that is configured as a user would do it: with variables."""
    url = f"{lab.url(scenario)}/v1"
    model_of = {"name": "S", "limit": {"context": 128000, "output": 8192}, "tool_call": True}
    provider = {
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": url, "apiKey": "k"},
        "models": {"one": model_of, "two": model_of},
    }
    config = {
        "model": "lab/one",
        "small_model": "lab/one",
        "permission": {"edit": "ask"},
        "provider": {"lab": {"name": "Lab", **provider}},
    }
    names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")
    opencode = {f"OPENCODE_DISABLE_{name}": "1" for name in names}
    env = {
        "opencode": {"OPENCODE_CONFIG_CONTENT": json.dumps(config), **opencode},
        "copilot": {
            "COPILOT_PROVIDER_BASE_URL": url.removesuffix("/v1"),
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "k",
            "COPILOT_MODEL": "claude-sonnet-4-5",
            "COPILOT_OFFLINE": "true",
        },
    }[agent]
    delegator = Delegator(name=agent, tool=agent, mode="acp", model=model, launch=launch)
    return lab.task(scenario, delegator=delegator, env=env, **more)


@pytest.mark.parametrize("agent", ["opencode", "copilot"])
async def test_it_asks_works_and_resumes(lab, agent):
    asked: list[Question] = []

    async def ask(question):
        asked.append(question)
        return next(option for option in question.options if option.kind == "allow_once"), None

    model = "lab/two" if agent == "opencode" else ""
    outcome = await lab.run(task_of(lab, agent, f"{agent}-write", model=model, ask=ask))
    assert isinstance(outcome, Outcome), outcome
    assert (lab.tree / "hello.txt").read_text() == "hello\n"
    assert [(event.path, event.change) for event in lab.of(File)] == [("hello.txt", "added")]
    assert [(question.kind, question.paths) for question in asked] == [("edit", ["hello.txt"])]
    assert outcome.text == "Done."
    assert outcome.usage.output_tokens > 0
    used = {request.body["model"] for request in lab.server.requests if request.body and request.body.get("tools")}
    assert used == {"two" if agent == "opencode" else "claude-sonnet-4-5"}
    again = await lab.run(task_of(lab, agent, "good", session_id=outcome.session_id, prompt="And now?"))
    assert isinstance(again, Outcome), again
    assert again.session_id == outcome.session_id
    assert lab.of(ToolCall) == []
    last = [request.body for request in lab.server.requests if request.body and request.body.get("tools")][-1]
    said = json.dumps(last["messages"])
    assert "Do what is asked." in said
    assert "And now?" in said


async def test_a_refused_key_is_no_success_although_the_turn_ends(lab):
    failure = await lab.run(task_of(lab, "copilot", "401"))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.AUTH_FAILED, failure


async def test_a_cancel_ends_the_command_that_runs(lab):
    task = task_of(lab, "copilot", "copilot-shell", launch=Launch(yolo=True))
    work = asyncio.create_task(lab.run(task))
    while not lab.of(ToolCall):
        assert not work.done(), work.result()
        await asyncio.sleep(0.05)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work  # none_left is checked at its end
    assert lab.of(PermissionAnswered) == []
    assert [event.ok for event in lab.of(ToolResult)] in ([], [False], [True])
