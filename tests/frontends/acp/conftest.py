"""The SDK's client, the real agent as a process, and a project with scripted delegators."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from acp.client.connection import ClientSideConnection
from forked import Forked

from understudy.api import method_table
from understudy.api.caller import TerminalCaller

ASKING_AGENT = Path(__file__).parents[2] / "runners" / "agent_clis" / "acp_agent.py"
PATIENCE = 120.0
Answer = Callable[[schema.ToolCallUpdate, list[schema.PermissionOption]], Any]


class Stage:
    """A trusted repository, and what its delegators do."""

    def __init__(self, tmp_path: Path, config: Path) -> None:
        self.folder = tmp_path
        self.config = config
        self.top = tmp_path / "project"
        self.top.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write("calc.py", "def add(a, b):\n    return a + b\n")
        self.write("lines.txt", "".join(f"line {number}\n" for number in range(1, 41)))
        self.git("add", "-A")
        self.git("commit", "-qm", "all")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.top, check=True)

    def write(self, name: str, text: str) -> Path:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def script(self, name: str, steps: list[dict[str, Any]]) -> None:
        """Make a delegator whose agent follows a scenario."""
        scenario = self.folder / f"{name}.json"
        scenario.write_text(json.dumps({"steps": steps}))
        self.delegator(name, [sys.executable, "-m", "understudy.testing.agent", str(scenario)])

    def delegator(self, name: str, command: list[str], *, mode: str | None = None) -> None:
        folder = self.config / "delegators"
        folder.mkdir(parents=True, exist_ok=True)
        text = f'name = "{name}"\ntool = "generic"\n'
        text += f'mode = "{mode}"\n[launch]\n' if mode is not None else '[launch]\noutput = "events"\n'
        (folder / f"{name}.toml").write_text(f"{text}command = {json.dumps(command)}\n")

    def asking(self, name: str) -> None:
        """Make a delegator that is itself driven over ACP, plans, and asks before it writes a file."""
        self.delegator(name, [sys.executable, str(ASKING_AGENT), "asks"], mode="acp")

    def call(self, method: str, **params: Any) -> Any:
        return method_table.call(method, params, TerminalCaller(self.top))

    def delegations(self) -> list[Any]:
        return list(self.call("delegations/list").delegations)


class Editor:
    """What an editor has of the agent, and how the user of it answers."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.questions: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.answers: list[Any] = []
        """What is chosen, in order: a kind, the name of an option, or a future; later ones stay unanswered."""
        self.connection: ClientSideConnection
        self.process: Forked
        self.stream: asyncio.StreamWriter
        self._changed = asyncio.Condition()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self._changed:
            self.updates.append((session_id, update))
            self._changed.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        async with self._changed:
            self.questions.append((tool_call, options))
            self._changed.notify_all()
        wanted = self.answers.pop(0) if self.answers else None
        if isinstance(wanted, asyncio.Future):
            wanted = await wanted
        chosen = next((one for one in options if wanted in {one.kind, one.name}), None)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for an update or a question with which a condition is true."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    def of(self, kind: type, session: str | None = None) -> list[Any]:
        return [one for at, one in self.updates if isinstance(one, kind) and session in {None, at}]

    def text(self, session: str | None = None) -> str:
        return "".join(one.content.text for one in self.of(schema.AgentMessageChunk, session))

    def thoughts(self) -> str:
        return "".join(one.content.text for one in self.of(schema.AgentThoughtChunk))

    def diffs(self, session: str | None = None) -> list[schema.FileEditToolCallContent]:
        calls = self.of(schema.ToolCallStart, session)
        contents = [part for one in calls for part in one.content or []]
        return [one for one in contents if isinstance(one, schema.FileEditToolCallContent)]

    async def open(self, folder: Path, **values: str) -> str:
        """Open a session and choose options."""
        made = await self.connection.new_session(cwd=str(folder), mcp_servers=[])
        for option, value in values.items():
            await self.connection.set_config_option(config_id=option, session_id=made.session_id, value=value)
        return made.session_id

    async def say(self, session: str, *blocks: Any) -> schema.PromptResponse:
        content = [schema.TextContentBlock(type="text", text=one) if isinstance(one, str) else one for one in blocks]
        async with asyncio.timeout(PATIENCE):
            return await self.connection.prompt(session_id=session, prompt=content)


Connect = Callable[..., contextlib.AbstractAsyncContextManager[Editor]]


@pytest.fixture
def stage(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    config = own_home / "config" / "understudy"
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(config))
    made = Stage(tmp_path, config)
    made.call("workspace/trust", workspace=str(made.top), trusted=True)
    return made


@pytest.fixture
def connect(stage: Stage) -> Connect:
    @contextlib.asynccontextmanager
    async def open_editor() -> AsyncIterator[Editor]:
        editor = Editor()
        ours, theirs = socket.socketpair()
        with theirs:
            editor.process = Forked(["acp"], stdin=theirs, stdout=theirs, cwd=stage.folder)
        reading, editor.stream = await asyncio.open_connection(sock=ours, limit=1 << 26)
        editor.connection = ClientSideConnection(editor, editor.stream, reading, use_unstable_protocol=True)
        try:
            info = schema.Implementation(name="editor", version="1")
            found = await editor.connection.initialize(protocol_version=1, client_info=info)
            assert found.agent_capabilities.load_session
            yield editor
        finally:
            await editor.connection.close()
            editor.stream.close()
            await asyncio.to_thread(editor.process.wait, PATIENCE)

    return open_editor
