"""A model without an agent calls the relay tools directly: no MCP server is needed."""

from __future__ import annotations

import json

import pytest
from agent_model_server import ModelServer

from understudy.model.delegation import events as e

TURNS = [
    {"calls": [{"name": "report_progress", "arguments": {"text": "Thinking"}}]},
    {"calls": [{"name": "ask_human", "arguments": {"question": "Which?", "choices": ["a", "b"]}}]},
    {"calls": [{"name": "delegate", "arguments": {"task": "x", "delegator": "nowhere"}}]},
    {"calls": [{"name": "write_file", "arguments": {"path": "chosen.txt", "content": "b\n"}}]},
    {"text": "Done."},
]


@pytest.mark.parametrize("relay", [True, False])
def test_a_model_asks_the_user(project, relay):
    with ModelServer(answers={"scripted": {"loop": TURNS}}) as server:
        for folder in ("model-servers", "delegators"):
            (project.config / folder).mkdir(parents=True, exist_ok=True)
        (project.config / "model-servers/near.toml").write_text(f'kind = "custom"\nbase_url = "{server.base_url}"\n')
        text = f'model_server = "near"\nmodel = "scripted"\nlaunch = {{ relay = {json.dumps(relay)} }}\n'
        (project.config / "delegators/loop.toml").write_text(text)
        identifier = project.start("implement", delegator="loop", task="Choose.")
        if relay:
            asking = project.until(identifier, lambda one: one.waiting_for is not None).waiting_for
            project.call("delegations/answer", id=identifier, requestId=asking.request_id, option="choice2")
        done = project.finish(identifier)
        offered = [one["function"]["name"] for one in server.requests[0].body["tools"]]
    results = [event for event in project.events(identifier) if isinstance(event, e.ToolResult)]
    assert ("ask_human" in offered) is relay
    assert [one.ok for one in results] == [relay, relay, False, True]
    if relay:
        assert '"answer":"b"' in results[1].output
        assert "nowhere" in results[2].output, "an unknown delegator is named"
    else:
        assert "There is no tool 'ask_human'" in results[1].output
    assert [one.path for one in done.result.files] == ["chosen.txt"]
