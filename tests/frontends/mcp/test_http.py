"""`understudy mcp --http` as the official client meets it: only with the token, only from this machine."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import textwrap

import forked
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_tools import Tools

TOKEN = "t" * 32


@pytest.fixture
def address(stage, tmp_path):
    """A server with a token from a file; its address."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    with serving(stage, "--token-file", str(file)) as found:
        yield found


@contextlib.contextmanager
def serving(stage, *arguments, environment=()):
    command = ["mcp", "--http", "0", *arguments]
    env = {**os.environ, **dict(environment)}
    with forked.Forked(command, cwd=stage.top, env=env, stderr=subprocess.PIPE, text=True) as server:
        line = server.stderr.readline()
        assert line.startswith("Serving http://127.0.0.1:"), line
        yield line.split()[1]
        server.terminate()
        assert server.wait(60) == 0
        assert "Traceback" not in server.stderr.read()


@contextlib.asynccontextmanager
async def connected(address, **options):
    web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
    async with web, Client(streamable_http_client(address, http_client=web), **options) as client:
        yield Tools(client)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_work_is_started_and_read_over_http(stage, address, mode) -> None:
    async with connected(address, mode=mode) as tools:
        begun = await tools("start", task="Write done.txt", delegator="patient")
        assert begun["status"] == "running"
    stage.go()
    async with connected(address, mode=mode) as tools:  # another connection picks it up
        same = await tools("start", task="Write done.txt", delegator="patient")
        assert same["id"] == begun["id"]
        done = await tools.until(begun["id"], "finished")
        assert done["files"][0]["path"] == "done.txt"
    asked_by = stage.call("delegations/get", id=begun["id"]).asked_by
    assert (asked_by.frontend, asked_by.pid) == ("mcp", None)
    assert stage.starts == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 421),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"}, 403),
    ],
)
def test_others_are_refused(address, headers, status) -> None:
    host = address.removeprefix("http://").partition("/")[0]
    connection = http.client.HTTPConnection(host, timeout=60)
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    whole = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    connection.request("POST", "/mcp", body, whole)
    assert connection.getresponse().status == status
    connection.close()


async def test_a_token_may_be_in_the_environment(stage) -> None:
    with serving(stage, environment={"UNDERSTUDY_MCP_TOKEN": TOKEN}) as address:
        async with connected(address) as tools:
            assert "patient" in await tools.text("list_delegators")


@pytest.mark.parametrize("token", ["", "short", "with blanks in it, but long"])
def test_without_a_good_private_token_nothing_is_served(stage, tmp_path, token) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(0o600)
    command = ["mcp", "--http", "0"]
    for arguments in ([], ["--token-file", str(file)], ["--token-file", str(tmp_path / "none")]):
        done = forked.run([*command, *arguments], cwd=stage.top, capture_output=True, text=True)
        assert done.returncode == 8
        assert "token" in done.stderr


def test_a_token_that_others_can_read_is_refused(stage, tmp_path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o640)
    command = ["mcp", "--http", "0", "--token-file", str(file)]
    done = forked.run(command, cwd=stage.top, capture_output=True, text=True)
    assert done.returncode == 8
    assert f"chmod 600 {file}" in done.stderr


def test_a_missing_token_is_reported_before_the_sdk_and_uvicorn_are_imported() -> None:
    program = textwrap.dedent("""
        import sys
        from understudy.frontends import mcp
        try:
            mcp.serve_http((), 0, "/nonexistent/token", print)
        except Exception as error:
            print(error.kind, [name for name in ("mcp", "uvicorn") if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "secret_withheld []\n"
