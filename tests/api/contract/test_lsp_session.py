"""The contract over LSP: the golden messages get the answers that `understudy rpc` gives, and a whole session its own.

`python tests/contract/test_contract_lsp.py` records the session anew after a change that is meant.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "protocol" / "examples"
RECORDED = EXAMPLES / "lsp-session.jsonl"
REQUESTS = [
    json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(EXAMPLES.glob("*.json"))
    if not path.name.startswith("notification.")
]
SECONDS = 60
CHANGING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d{8}-\d{6}-[a-z0-9]{5}|\d[\d.]* (?:[kMG]i?B|MB)\b")
"""Times, ids, and how much room is left on the disk."""


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
    """One message a line."""

    def __init__(self, stdin: Any, stdout: Any) -> None:
        self._stdin, self._stdout = stdin, stdout

    def write(self, body: bytes) -> None:
        self._stdin.write(body + b"\n")
        self._stdin.flush()

    def read(self) -> Any:
        return json.loads(self._stdout.readline())


def server(face: str, home: Path) -> subprocess.Popen[bytes]:
    home.mkdir(parents=True, exist_ok=True)
    places = {"HOME": home, "UNDERSTUDY_STATE": home / "state", "UNDERSTUDY_CONFIG": home / "config"}
    return subprocess.Popen(
        [sys.executable, "-m", "understudy", face],
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

    def begin(face: str) -> Any:
        process = server(face, tmp_path / face)
        processes.append(process)
        return (Frames if face == "serve" else Lines)(process.stdin, process.stdout)

    yield begin
    for process in processes:
        process.kill()
        process.communicate(timeout=SECONDS)


def answers(talk: Any, home: Path) -> dict[int, Any]:
    """Return the answers to all golden requests, without what differs from one moment to the next."""
    found = {}
    for number, example in enumerate(REQUESTS):
        message = {"jsonrpc": "2.0", "id": number, "method": example["method"]}
        talk.write(json.dumps(message | {key: example[key] for key in ("params",) if key in example}).encode())
        while "method" in (answer := talk.read()):
            pass
        text = CHANGING.sub("…", json.dumps(answer, sort_keys=True).replace(str(home), "~"))
        text = re.sub(r'("(?:seconds|pid|bytes|revision)": )("[^"]*"|[\d.]+)', r"\1…", text)
        found[number] = text
    return found


def test_both_faces_give_the_same_answers(start: Callable[[str], Any], tmp_path: Path):
    lsp = start("serve")
    lsp.write(b'{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"capabilities":{}}}')
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
    {"jsonrpc": "2.0", "id": 7, "method": "textDocument/hover", "params": {}},
    {"jsonrpc": "2.0", "id": 8, "method": "understudy/delegations/subscribe", "params": {}},
    '{"jsonrpc": "2.0", "id": 9, "method"',
    {"jsonrpc": "2.0", "id": 10, "method": "initialize", "params": {"capabilities": {}}},
    {"jsonrpc": "2.0", "id": 11, "method": "shutdown"},
    {"jsonrpc": "2.0", "id": 12, "method": "understudy/version"},
    {"jsonrpc": "2.0", "method": "exit"},
]


def played(sent: list[bytes], home: Path) -> tuple[list[Any], int]:
    """Send each message, waiting for the answer where one is due; return what was said and the exit code."""
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


def test_the_session_goes_as_it_was_recorded(tmp_path: Path):
    entries = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    sent = [entry["client"].encode() for entry in entries if "client" in entry]
    said, code = played(sent, tmp_path / "home")
    assert said == [entry["server"] for entry in entries if "server" in entry], "meant? then record it anew"
    assert code == 0


def record() -> None:
    """Write the session as it goes now."""
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
