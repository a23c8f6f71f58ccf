"""A byte-level editor for the real ``understudy serve``: it sends what a test defines, and keeps all it receives."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked import Forked

from understudy.api import method_table
from understudy.api.caller import TerminalCaller

PATIENCE = 60.0

CAPABLE: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {
        "workDoneProgress": True,
        "showDocument": {"support": True},
        "showMessage": {"messageActionItem": {"additionalPropertiesSupport": True}},
    },
    "workspace": {
        "applyEdit": True,
        "workspaceEdit": {"documentChanges": True},
        "workspaceFolders": True,
        "codeLens": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix", "refactor"]}},
            "resolveSupport": {"properties": ["command", "edit"]},
            "dataSupport": True,
            "disabledSupport": True,
            "isPreferredSupport": True,
        },
        "codeLens": {},
        "publishDiagnostics": {"versionSupport": True},
    },
}
"""The capabilities of an editor that supports everything."""


class LspError(Exception):
    """An error response."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Editor:
    """A server process and its messages. ``answers[method]`` answers requests of the server."""

    def __init__(self, *, cold: bool = False, **popen: Any) -> None:
        for stream in ("stdin", "stdout", "stderr"):
            popen[stream] = subprocess.PIPE
        if cold:
            self.process = subprocess.Popen([sys.executable, "-m", "understudy", "serve", "--stdio"], **popen)
        else:
            self.process = Forked(["serve", "--stdio"], **popen)
        self.heard: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self.answers: dict[str, Callable[[Any], Any]] = {
            "window/workDoneProgress/create": lambda _: None,
            "window/showDocument": lambda _: {"success": True},
            "workspace/codeLens/refresh": lambda _: None,
            "client/registerCapability": lambda _: None,
        }
        self.errors = b""
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    # -- raw -------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        with self._writing:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send(self, message: Any) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def _read(self) -> None:
        stream = self.process.stdout
        while True:
            length = None
            while (line := stream.readline()).strip():
                name, _, value = line.partition(b":")
                assert name == b"Content-Length", line
                length = int(value)
            if length is None:
                break
            message = json.loads(stream.read(length))
            with self.changed:
                self.heard.append(message)
                self.changed.notify_all()
            if "method" in message and "id" in message:
                self._answer(message)
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    def _answer(self, message: dict[str, Any]) -> None:
        answer = self.answers.get(message["method"])
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if answer is None:
            reply["error"] = {"code": -32601, "message": "unknown method"}
        else:
            try:
                result = answer(message.get("params"))
            except LspError as error:
                reply["error"] = {"code": error.code, "message": error.message}
            else:
                if result is NO_ANSWER:
                    return
                reply["result"] = result
        with contextlib.suppress(OSError, ValueError):
            self.send(reply)

    def _read_errors(self) -> None:
        for line in self.process.stderr:
            self.errors += line

    # -- for tests -------------------------------------------------------------------------------------------------

    def begin(
        self, *folders: Path, capabilities: dict[str, Any] | None = None, options: Any = None, **params: Any
    ) -> dict[str, Any]:
        """Initialize with workspace folders; return the result."""
        given = {
            "processId": os.getpid(),
            "clientInfo": {"name": "test", "version": "1"},
            "rootUri": folders[0].as_uri() if folders else None,
            "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders],
            "capabilities": CAPABLE if capabilities is None else capabilities,
            "initializationOptions": options,
            **params,
        }
        found = self.ask("initialize", given)
        self.notify("initialized", {})
        return found

    def request(self, method: str, params: Any = None, identifier: Any = None) -> Any:
        """Send a request; return its id."""
        identifier = next(self._numbers) if identifier is None else identifier
        self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": {} if params is None else params})
        return identifier

    def notify(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any = None, seconds: float = PATIENCE) -> Any:
        """Return the result of a request; raise ``LspError``."""
        return self.result_of(self.request(method, params), seconds)

    def result_of(self, identifier: Any, seconds: float = PATIENCE) -> Any:
        found = self.response_to(identifier, seconds)
        if "error" in found:
            raise LspError(found["error"])
        return found["result"]

    def response_to(self, identifier: Any, seconds: float = PATIENCE) -> dict[str, Any]:
        return self.wait_for(
            lambda message: "method" not in message and message["id"] == identifier, seconds, f"answer to {identifier}"
        )

    def wait_for(
        self, wanted: Callable[[dict[str, Any]], Any], seconds: float = PATIENCE, what: str = "message", after: int = 0
    ) -> dict[str, Any]:
        """Wait for the first message from number ``after`` on that satisfies ``wanted``, and return it."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                for message in self.heard[after:]:
                    if wanted(message):
                        return message
                left = deadline - time.monotonic()
                assert left > 0, f"no {what} within {seconds} s; heard {self.heard[-5:]!r}; {self.errors!r}"
                assert not self._closed, f"no {what}; the server ended: {self.errors!r}"
                self.changed.wait(left)

    def wait_for_method(
        self, method: str, wanted: Callable[[Any], Any] = lambda _: True, seconds: float = PATIENCE, after: int = 0
    ) -> Any:
        """Wait for a notification or request of the server that satisfies ``wanted``, and return its parameters."""
        return self.wait_for(
            lambda message: message.get("method") == method and wanted(message.get("params")), seconds, method, after
        )["params"]

    def all_of(self, method: str) -> list[Any]:
        with self.changed:
            return [message.get("params") for message in self.heard if message.get("method") == method]

    def mark(self) -> int:
        """Return how many messages were received, for ``after`` of a later wait."""
        with self.changed:
            return len(self.heard)

    def open(self, path: Path, text: str | None = None, version: int = 1, language: str = "python") -> str:
        """Open a document; return its URI."""
        uri = path.as_uri()
        found = path.read_text(encoding="utf-8") if text is None else text
        item = {"uri": uri, "languageId": language, "version": version, "text": found}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, version: int, *changes: dict[str, Any]) -> None:
        """Change a document; a change without range replaces everything."""
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    def actions(
        self, uri: str, line: int = 0, character: int = 0, end: tuple[int, int] | None = None, **context: Any
    ) -> list[dict[str, Any]]:
        """Return the code actions for a range."""
        start = {"line": line, "character": character}
        finish = start if end is None else {"line": end[0], "character": end[1]}
        params = {
            "textDocument": {"uri": uri},
            "range": {"start": start, "end": finish},
            "context": {"diagnostics": [], "triggerKind": 1, **context},
        }
        return self.ask("textDocument/codeAction", params) or []

    def run(self, action: dict[str, Any], seconds: float = PATIENCE) -> Any:
        """Execute the command of a code action like editors do."""
        command = action if isinstance(action["command"], str) else action["command"]
        params = {"command": command["command"], "arguments": command.get("arguments", [])}
        return self.ask("workspace/executeCommand", params, seconds)

    def leave(self, *, politely: bool = True, seconds: float = PATIENCE) -> int:
        """Shut the server down and return its exit code."""
        if politely:
            self.ask("shutdown")
        self.notify("exit", None)
        return self.process.wait(seconds)

    def close(self) -> None:
        """End the server, whatever its state."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise
        finally:
            for thread in self._threads:
                thread.join(PATIENCE)
            self.process.stdout.close()
            self.process.stderr.close()


NO_ANSWER = object()
"""An entry of ``answers`` returns this if the test answers later, or never."""


@pytest.fixture
def start_editor() -> Iterator[Callable[..., Editor]]:
    """Start editors and end them after the test; each server must exit when its stream ends."""
    editors: list[Editor] = []

    def start(**popen: Any) -> Editor:
        editors.append(Editor(**popen))
        return editors[-1]

    yield start
    for editor in editors:
        editor.close()


@pytest.fixture
def editor(start_editor: Callable[..., Editor]) -> Editor:
    """Start a server without initializing it."""
    return start_editor()


class Workshop:
    """A repository, and a configuration with scripted agents."""

    def __init__(self, top: Path, config: Path) -> None:
        self.top = top
        self.config = config

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        argv = ["git", "-c", "protocol.file.allow=always", *arguments]
        return subprocess.run(argv, cwd=cwd or self.top, capture_output=True, text=True, check=True).stdout

    def write(self, path: str, text: str) -> Path:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def repository(self, top: Path) -> Path:
        """Create another repository with one module."""
        top.mkdir()
        self.git("init", "-q", "-b", "main", cwd=top)
        (top / "calc.py").write_text("def add(a, b):\n    return a + b\n", encoding="utf-8")
        self.git("add", "-A", cwd=top)
        self.git("commit", "-qm", "all", cwd=top)
        return top

    def trust(self, top: Path | None = None) -> None:
        self.call("workspace/trust", workspace=str(top or self.top), trusted=True)

    def call(self, method: str, **params: Any) -> Any:
        """Call the API like another process of the same user."""
        return method_table.call(method, params, TerminalCaller(self.top))

    def agent(self, name: str, *steps: dict[str, Any] | str) -> str:
        """Create a delegator for the scripted agent, with the steps of a scenario, or the name of a shipped one."""
        folder = self.config / "delegators"
        folder.mkdir(parents=True, exist_ok=True)
        scenario = steps[0] if isinstance(steps[0], str) else str(self.config / f"{name}.json")
        if not isinstance(steps[0], str):
            Path(scenario).write_text(json.dumps({"steps": steps}), encoding="utf-8")
        command = json.dumps([sys.executable, "-m", "understudy.testing.agent", scenario])
        text = f'name = "{name}"\ntool = "generic"\n[launch]\ncommand = {command}\noutput = "events"\n'
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        return name

    def start(self, recipe: str, *files: str, **params: Any) -> str:
        """Start a delegation like another process would."""
        uris = [(self.top / file).as_uri() for file in files]
        identifier: str = self.call("delegations/start", recipe=recipe, files=uris, **params).id
        return identifier

    def file(self, identifier: str, path: str, side: str) -> str:
        """Return a file of a delegation's base or result."""
        text: str = self.call("delegations/file", id=identifier, path=path, side=side).text
        return text


@pytest.fixture
def workshop(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    """Create a trusted repository with one module; cancel live delegations after the test."""
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    made = Workshop(tmp_path / "project", own_home / "config" / "understudy")
    made.repository(made.top)
    made.trust()
    yield made
    for delegation in made.call("delegations/list").delegations:
        if delegation.state != "finished":
            made.call("delegations/cancel", id=delegation.id)
