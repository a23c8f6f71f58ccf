"""A client that is killed loses nothing, and the next one does nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys

CLIENT = """
import asyncio, json, os, sys
from mcp import Client, StdioServerParameters, stdio_client

TASKS = [{"task": f"Task {number}", "delegator": "patient"} for number in range(3)]
SERVER = StdioServerParameters(command=sys.executable, args=["-m", "understudy", "mcp"], env=dict(os.environ))


async def main():
    async with Client(stdio_client(SERVER)) as client:
        found = json.loads((await client.call_tool("batch", {"tasks": TASKS})).content[0].text)
        print(found["id"], flush=True)
        text = '"status":"running"'
        while '"status":"running"' in text:
            text = (await client.call_tool("wait", {"id": found["id"]})).content[0].text
        print(text, flush=True)


asyncio.run(main())
"""


def client(stage) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT], cwd=stage.top, env=dict(os.environ), stdout=subprocess.PIPE, text=True
    )


def test_the_next_client_gets_the_work_of_a_killed_one(stage) -> None:
    with client(stage) as first:
        group = first.stdout.readline()
        first.kill()
    stage.go()
    with client(stage) as second:
        assert second.stdout.readline() == group
        assert second.stdout.readline().startswith('{"status":"finished"')
        assert second.wait(60) == 0
    assert stage.starts == 3
    assert len(stage.call("delegations/list").delegations) == 3
    assert len(stage.call("groups/list").groups) == 1
