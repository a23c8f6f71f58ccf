"""Test the answer to a client's first request, which comes before the official SDK is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage

from understudy.frontends.mcp import first_answer, mcp_server

MOST_CPU_SECONDS = 0.3


def request(version: str, **changes: Any) -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": client} | changes
    return {"jsonrpc": "2.0", "id": "one", "method": "initialize", "params": params}


async def answer_of_the_sdk(sent: dict[str, Any]) -> dict[str, Any]:
    server = mcp_server.new_server((), None, local=True)
    to_server, reading = create_context_streams[SessionMessage | Exception](1)
    writing, from_server = create_context_streams[SessionMessage](1)
    async with to_server, reading, writing, from_server, anyio.create_task_group() as group:
        group.start_soon(server.run, reading, writing, server.create_initialization_options())
        await to_server.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(sent)))
        answer = await from_server.receive()
        group.cancel_scope.cancel()
    said: dict[str, Any] = json.loads(answer.message.model_dump_json(by_alias=True, exclude_unset=True))
    return said


@pytest.mark.parametrize("version", sorted(first_answer.VERSIONS))
async def test_it_is_the_answer_of_the_sdk(own_home: Path, version: str) -> None:
    sent = request(version)
    answered = first_answer.of(json.dumps(sent).encode())
    assert answered is not None
    assert json.loads(answered[1]) == await answer_of_the_sdk(sent)


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        json.dumps(request("2099-01-01")).encode(),
        json.dumps(request("2025-06-18", clientInfo={})).encode(),
        json.dumps({**request("2025-06-18"), "method": "other"}).encode(),
    ],
)
def test_everything_else_is_left_to_the_sdk(line: bytes) -> None:
    assert first_answer.of(line) is None


def test_it_comes_soon_and_once_and_the_rest_is_answered(own_home: Path) -> None:
    command = [sys.executable, "-m", "understudy", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        later = [{"jsonrpc": "2.0", "method": "notifications/initialized"}, ping]
        # All at once: what is read with the first line must not be lost.
        server.stdin.write("".join(json.dumps(one) + "\n" for one in [request("2025-06-18"), *later]).encode())
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == "one"
        facts = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        assert sum(map(int, facts[11:13])) / os.sysconf("SC_CLK_TCK") <= MOST_CPU_SECONDS
        rest, _ = server.communicate()
    assert [json.loads(line) for line in rest.splitlines()] == [{"jsonrpc": "2.0", "id": 2, "result": {}}]


def test_a_request_that_the_sdk_refuses_ends_the_server(own_home: Path) -> None:
    sent = request("2025-06-18", capabilities={"roots": {"listChanged": "x"}})
    command = [sys.executable, "-m", "understudy", "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None
        server.stdin.write(json.dumps(sent).encode() + b"\n")
        server.stdin.flush()  # and it stays open: the server must not wait for its end
        assert server.wait(timeout=60) == 1
        assert server.stderr is not None
        assert b"`initialize` request is invalid: Invalid request parameters." in server.stderr.read()
