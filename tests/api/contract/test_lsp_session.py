"""Test the protocol over LSP: the examples get the same answers as from `understudy rpc`, a recorded session the same.

`python tests/api/contract/test_lsp_session.py` records the session again after an intended change.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forked
import pytest

EXAMPLES = Path(__file__).parents[3] / "protocol" / "examples"
RECORDED = EXAMPLES / "lsp-session.jsonl"
REQUESTS = [
    json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(EXAMPLES.glob("*.json"))
    if not path.name.startswith("notification.")
]
SECONDS = 240
CHANGING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d{8}-\d{6}-[a-z0-9]{5}|\d[\d.]* (?:[kMG]i?B|MB)\b")
"""Matches times, ids and free disk space."""


class Frames:
    """LSP's base protocol."""

    def __init__(self, stdin: Any, stdout: Any) -> None:
        self._stdin, self._stdout = stdin, stdout

    def write(self, body: bytes) -> None:
        self._stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._stdin.flush()

    def read(self) -> Any:
        length = 0
        while (line := self._stdout.readline()).strip():
            length = int(line.partition(b":")[2])
        return json.loads(self._stdout.read(length))


class Lines:
    """JSON Lines."""

    def __init__(self, stdin: Any, stdout: Any) -> None:
        self._stdin, self._stdout = stdin, stdout

    def write(self, body: bytes) -> None:
        self._stdin.write(body + b"\n")
        self._stdin.flush()

    def read(self) -> Any:
        return json.loads(self._stdout.readline())


def server(frontend: str, home: Path) -> subprocess.Popen[bytes]:
    home.mkdir(parents=True, exist_ok=True)
    places = {"HOME": home, "UNDERSTUDY_STATE": home / "state", "UNDERSTUDY_CONFIG": home / "config"}
    return forked.Forked(
        [frontend],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=home,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "UNDERSTUDY_"))},
            **{name: str(place) for name, place in places.items()},
            "TZ": "UTC",
        },
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    processes = []

    def begin(frontend: str) -> Any:
        process = server(frontend, tmp_path / frontend)
        processes.append(process)
        return (Frames if frontend == "serve" else Lines)(process.stdin, process.stdout)

    yield begin
    for process in processes:
        process.kill()
        process.communicate(timeout=SECONDS)


def answers(talk: Any, home: Path) -> dict[int, Any]:
    """Return the answers to the requests of all examples, without values that differ in every run."""
    found = {}
    for number, example in enumerate(REQUESTS):
        message = {"jsonrpc": "2.0", "id": number, "method": example["method"]}
        talk.write(json.dumps(message | {key: example[key] for key in ("params",) if key in example}).encode())
        while "method" in (answer := talk.read()):
            pass
        text = CHANGING.sub("…", json.dumps(answer, sort_keys=True).replace(str(home), "~"))
        text = re.sub(r'("(?:seconds|pid|bytes|revision)": )("[^"]*"|[\d.]+)', r"\1…", text)
        text = re.sub(r'("askedBy": )\{[^{}]*\}', r"\1…", text)  # It names the frontend.
        found[number] = text
    return found


def test_both_frontends_give_the_same_answers(start: Callable[[str], Any], tmp_path: Path):
    lsp = start("serve")
    folder = (tmp_path / "serve").as_uri()  # of `rpc`, it is the one it is started in
    parameters = {"capabilities": {}, "rootUri": folder}
    hello = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": parameters}
    lsp.write(json.dumps(hello).encode())
    assert lsp.read()["id"] == "hello"
    over_lsp, over_rpc = answers(lsp, tmp_path / "serve"), answers(start("rpc"), tmp_path / "rpc")
    for number, example in enumerate(REQUESTS):
        assert over_lsp[number] == over_rpc[number], example["title"]


# -- a whole session -----------------------------------------------------------------------------------------------

CLIENT: list[str | dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 0, "method": "understudy/version"},
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "processId": None,
            "clientInfo": {"name": "an editor", "version": "1.0"},
            "rootUri": None,
            "capabilities": {"general": {"positionEncodings": ["utf-8", "utf-16"]}},
            "initializationOptions": {"trusted": True},
        },
    },
    {"jsonrpc": "2.0", "method": "initialized", "params": {}},
    {"jsonrpc": "2.0", "id": 2, "method": "understudy/version"},
    {"jsonrpc": "2.0", "id": "three", "method": "understudy/delegations/list", "params": {"limit": 10}},
    {"jsonrpc": "2.0", "id": 4, "method": "understudy/delegations/get", "params": {"id": "20200101-000000-zzzzz"}},
    {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "workspace/executeCommand",
        "params": {"command": "understudy/delegations/list", "arguments": [{"limit": 10}]},
    },
    {"jsonrpc": "2.0", "id": 6, "method": "understudy/delegations/strat", "params": {}},
    {"jsonrpc": "2.0", "id": 7, "method": "textDocument/codeLens", "params": {}},
    {"jsonrpc": "2.0", "id": 8, "method": "understudy/delegations/subscribe", "params": {}},
    '{"jsonrpc": "2.0", "id": 9, "method"',
    {"jsonrpc": "2.0", "id": 10, "method": "initialize", "params": {"capabilities": {}}},
    {"jsonrpc": "2.0", "id": 11, "method": "shutdown"},
    {"jsonrpc": "2.0", "id": 12, "method": "understudy/version"},
    {"jsonrpc": "2.0", "method": "exit"},
]


def played(sent: list[bytes], home: Path) -> tuple[list[Any], int]:
    """Send each message and wait for its answer, if it gets one; return all answers and the exit code."""
    process = server("serve", home)
    talk = Frames(process.stdin, process.stdout)
    said = []
    for body in sent:
        talk.write(body)
        if b'"id"' in body:
            said.append(talk.read())
    left, _ = process.communicate(timeout=SECONDS)
    assert left == b""
    return said, process.returncode


def test_the_recorded_session_gets_the_same_answers(tmp_path: Path):
    entries = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    sent = [entry["client"].encode() for entry in entries if "client" in entry]
    said, code = played(sent, tmp_path / "home")
    assert said == [entry["server"] for entry in entries if "server" in entry], (
        "record the session again if this change is intended"
    )
    assert code == 0


def record() -> None:
    """Record the session with the current server."""
    bodies = [entry if isinstance(entry, str) else json.dumps(entry) for entry in CLIENT]
    with tempfile.TemporaryDirectory() as home:
        said, _ = played([body.encode() for body in bodies], Path(home))
    lines = []
    for body in bodies:
        lines.append({"client": body})
        if '"id"' in body:
            lines.append({"server": said.pop(0)})
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    RECORDED.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    record()
