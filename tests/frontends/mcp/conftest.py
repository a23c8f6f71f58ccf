"""The official client, the real server as a process, and a project with scripted agents."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_tools import Tools

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.frontends.mcp import mcp_server

WORKER = """
import json, pathlib, sys, time
stage = pathlib.Path({stage!r})
with (stage / "starts").open("a") as log:
    log.write("x")
pathlib.Path("done.txt").write_text("done\\n")
while not (stage / "go").exists():
    time.sleep(0.02)
print(json.dumps({{"type": "result", "text": "All done.", "ok": True}}), flush=True)
"""


class Stage:
    """A trusted repository, and what its delegators do."""

    def __init__(self, tmp_path: Path, config: Path) -> None:
        self.folder = tmp_path
        self.config = config
        self.top = tmp_path / "project"
        self.top.mkdir()
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=self.top, check=True)
        (self.top / "calc.py").write_text("def add(a, b):\n    return a + b\n")
        subprocess.run(["git", "add", "-A"], cwd=self.top, check=True)
        subprocess.run(["git", "commit", "-qm", "all"], cwd=self.top, check=True)
        self.delegator("patient", WORKER.format(stage=str(tmp_path)))

    def delegator(self, name: str, source: str) -> None:
        folder = self.config / "delegators"
        folder.mkdir(parents=True, exist_ok=True)
        command = json.dumps([sys.executable, "-c", source])
        text = f'name = "{name}"\ntool = "generic"\n[launch]\noutput = "events"\ncommand = {command}\n'
        (folder / f"{name}.toml").write_text(text)

    def trust(self) -> None:
        self.call("workspace/trust", workspace=str(self.top), trusted=True)

    def call(self, method: str, **params: Any) -> Any:
        return method_table.call(method, params, TerminalCaller(self.top))

    def go(self) -> None:
        (self.folder / "go").touch()

    @property
    def starts(self) -> int:
        path = self.folder / "starts"
        return path.stat().st_size if path.exists() else 0


Connect = Callable[..., contextlib.AbstractAsyncContextManager[Tools]]


@pytest.fixture
def stage(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    config = own_home / "config" / "understudy"
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(config))
    made = Stage(tmp_path, config)
    made.trust()
    return made


@pytest.fixture
def direct(stage: Stage) -> Connect:
    """Connect to a server in the process of the test: no messages are framed."""

    @contextlib.asynccontextmanager
    async def open_client(*tool_sets: str, here: Path | None = None, **options: Any) -> AsyncIterator[Tools]:
        server = mcp_server.new_server(tool_sets, here or stage.top, local=True)
        async with Client(server, **options) as client:
            yield Tools(client)

    return open_client


@pytest.fixture
def connect(stage: Stage) -> Connect:
    @contextlib.asynccontextmanager
    async def open_client(*arguments: str, cwd: Path | None = None, **options: Any) -> AsyncIterator[Tools]:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "understudy", "mcp", *arguments],
            env=dict(os.environ),
            cwd=cwd or stage.top,
        )
        async with Client(stdio_client(server), **options) as client:
            yield Tools(client)

    return open_client
