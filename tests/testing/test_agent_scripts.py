"""Test the scripts for agents: each turn calls what the agent offers, and the request alone decides which is next."""

import json

import httpx
import pytest
from agent_model_server import ModelServer


@pytest.fixture
def server():
    with ModelServer() as running:
        yield running


def tool(name: str, *required: str, **properties: str) -> dict:
    schema = {"type": "object", "properties": {one: {"type": kind} for one, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": {**schema, "required": list(required)}}}


def ask(server: ModelServer, scenario: str, tools: list, *rounds: dict) -> httpx.Response:
    start = [
        {"role": "system", "content": "You work in the working directory: /tree"},
        {"role": "user", "content": "x"},
    ]
    body = {"model": "m", "messages": [*start, *rounds], "tools": tools}
    return httpx.post(f"http://127.0.0.1:{server.port}/s/{scenario}/v1/chat/completions", json=body)


@pytest.mark.parametrize(
    ("offered", "name", "arguments"),
    [
        (
            tool("write_file", file_path="string", content="string"),
            "write_file",
            {"file_path": "/tree/hello.txt", "content": "hello from the scripted model\n"},
        ),
        (
            tool("write", "filePath", "why", filePath="string", content="string", why="string"),
            "write",
            {"filePath": "/tree/hello.txt", "content": "hello from the scripted model\n", "why": "As asked"},
        ),
    ],
)
def test_a_call_uses_the_names_that_are_offered(server, offered, name, arguments):
    [call] = ask(server, "edits", [offered]).json()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == name
    assert json.loads(call["function"]["arguments"]) == arguments


def test_results_lead_to_the_next_turn_and_late_faults(server):
    offered = [tool("bash", command="string")]
    done = [{"role": "assistant", "content": ""}, {"role": "tool", "content": "ok", "tool_call_id": "1"}]
    assert ask(server, "shell", offered, *done).json()["choices"][0]["message"]["content"].startswith("Done")
    assert ask(server, "late_500", offered).status_code == 200
    assert ask(server, "late_500", offered, *done).status_code == 500
    assert ask(server, "429", offered).headers["retry-after"] == "0"
    assert ask(server, "shell", []).json()["choices"][0]["message"]["content"] == "I need a command."
