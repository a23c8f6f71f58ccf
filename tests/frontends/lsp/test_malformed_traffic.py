"""Test the server with every kind of malformed traffic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest

from understudy.api.method_table import PROTOCOL_VERSION

LIMIT = 64 * 1024 * 1024


def started(editor: Any, *folders: Path, **params: Any) -> Any:
    editor.begin(*folders, **params)
    return editor


def code_without_id(editor: Any, after: int) -> int:
    """Return the code of the next error response without an id."""
    answer = editor.wait_for(lambda message: "method" not in message and message["id"] is None, after=after)
    code: int = answer["error"]["code"]
    return code


def lives(editor: Any) -> bool:
    return editor.ask("understudy/version")["protocolVersion"] == PROTOCOL_VERSION


# -- parameters ----------------------------------------------------------------------------------------------------


WRONG = [
    ("textDocument/codeAction", {}),
    ("textDocument/codeLens", {"textDocument": 5}),
    ("workspace/executeCommand", {"command": {}, "arguments": 7}),
    ("workspace/executeCommand", {"command": "understudy/no/such"}),
    ("understudy/delegations/get", {}),
    ("understudy/delegations/get", {"id": 7}),
    ("understudy/delegations/get", ["id"]),
    ("understudy/delegations/list", {"nonsense": True}),
]


def test_wrong_parameters_are_answered(editor):
    started(editor)
    for method, params in WRONG:
        error = editor.response_to(editor.request(method, params))["error"]
        assert (error["code"], error["data"]["kind"]) == (-32602, "invalid_params"), (method, params)
    assert not editor.all_of("window/showMessage")
    assert lives(editor)


def test_a_path_that_is_not_utf_8_is_answered(editor: Any):
    editor.begin()
    params = {"workspace": "file:///not/there/%ff"}
    command = {"command": "understudy/workspace/trust", "arguments": [params]}
    for _ in range(10):  # more than there are threads to answer
        for asked in (("understudy/workspace/trust", params), ("workspace/executeCommand", command)):
            found = editor.response_to(editor.request(*asked), 10)
            assert found["error"]["message"].startswith("/not/there/\ufffd is not a folder")


def test_a_request_without_parameters_is_one_with_none(editor):
    started(editor)
    for number, extra in enumerate(({}, {"params": None}, {"params": {}}, {"params": {}, "traceparent": "00-1"})):
        editor.send({"jsonrpc": "2.0", "id": 70 + number, "method": "understudy/version", **extra})
        assert editor.result_of(70 + number)["protocolVersion"] == PROTOCOL_VERSION, "unknown members are ignored"


def test_a_frame_inside_the_parameters_is_data(editor):
    started(editor)
    inner = {"jsonrpc": "2.0", "id": 99, "method": "shutdown"}
    identifier = editor.request("understudy/delegations/start", {"recipe": "ask", "task": "x", "input": inner})
    assert editor.response_to(identifier)["error"]["code"] == -32602
    editor.request("understudy/delegations/get", {"id": json.dumps(inner)}, identifier="text")
    assert "error" in editor.response_to("text")
    assert lives(editor)
    assert not [message for message in editor.heard if message.get("id") == 99]


def test_unknown_capabilities_and_options_are_ignored(editor):
    capabilities = {
        "workspace": {
            "symbol": {"symbolKind": {"valueSet": [1, 99]}},
            "workspaceEdit": {"resourceOperations": ["teleport"], "failureHandling": "pray"},
        },
        "textDocument": {
            "publishDiagnostics": {"tagSupport": {"valueSet": [3]}},
            "semanticTokens": {"formats": ["absolute"], "requests": {}, "tokenTypes": [], "tokenModifiers": []},
            "codeAction": {"codeActionLiteralSupport": 5},
        },
        "general": {"positionEncodings": ["utf-64", "utf-32"], "markdown": 3},
        "tomorrow": {"x": 1},
    }
    found = editor.begin(capabilities=capabilities, trace="extreme", tomorrow=[])
    assert found["capabilities"]["positionEncoding"] == "utf-32"
    assert lives(editor)


def test_unknown_enum_values_in_a_request_are_accepted(editor, tmp_path: Path):
    started(editor, tmp_path)
    uri = editor.open(tmp_path / "a.py", "x = 1\n")
    assert isinstance(editor.actions(uri, triggerKind=9, only=["tomorrow.kind"]), list)


# -- envelopes -----------------------------------------------------------------------------------------------------


INVALID = [
    (b"{", -32700),
    (b"", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"x","params":NaN}', -32700),
    (b"[" * 100_000, -32700),
    (b'{"a":' * 100_000, -32700),
    (b"[]", -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"understudy/version"}]', -32600),
    (b"7", -32600),
    (b"null", -32600),
    (b'"text"', -32600),
    (b"{}", -32600),
    (b'{"jsonrpc":"2.0"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"understudy/version"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"understudy/version"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"understudy/version"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"understudy/version"}', -32600),
]


def test_invalid_messages_are_refused(editor):
    started(editor)
    for body, code in INVALID:
        mark = editor.mark()
        editor.send(body)
        assert code_without_id(editor, mark) == code, body[:60]
    assert lives(editor)


INVALID_REQUESTS = [
    {"method": "understudy/version"},
    {"jsonrpc": "1.0", "method": "understudy/version"},
    {"jsonrpc": 2.0, "method": "understudy/version"},
    {"jsonrpc": "2.0", "method": 7},
    {"jsonrpc": "2.0", "method": "understudy/version", "params": "text"},
    {"jsonrpc": "2.0", "method": "understudy/version", "params": 0},
]


def test_an_invalid_request_is_answered_by_its_id(editor):
    started(editor)
    for number, message in enumerate(INVALID_REQUESTS):
        editor.send({"id": f"r{number}", **message})
        assert editor.response_to(f"r{number}")["error"]["code"] == -32600, message
    assert lives(editor)


def test_an_unknown_method(editor):
    started(editor)
    for method in ("no/such", "$/no/such", "understudy/no/such", "", "x" * 10_000):
        assert editor.response_to(editor.request(method))["error"]["code"] == -32601, method[:60]
        editor.notify(method, {"a": 1})
        assert lives(editor)
    assert not editor.all_of("window/showMessage")


def test_unexpected_responses_are_ignored(editor):
    started(editor)
    editor.send({"jsonrpc": "2.0", "id": "unknown", "result": 1})
    editor.send({"jsonrpc": "2.0", "id": 77, "error": "strange"})
    editor.send({"jsonrpc": "2.0", "id": ["x"], "result": None})
    assert lives(editor)
    assert len(editor.heard) == 2


def test_two_requests_with_the_same_id(editor, journal):
    started(editor)
    editor.request(*waiting("understudy/delegations/events", journal()), identifier=5)
    editor.request("understudy/version", identifier=5)
    editor.request("understudy/version", identifier="5")
    assert editor.result_of("5")["protocolVersion"] == PROTOCOL_VERSION
    assert editor.response_to(5)["error"]["code"] == -32600
    after = editor.mark()
    editor.notify("$/cancelRequest", {"id": 5})
    assert editor.wait_for(lambda m: m.get("id") == 5, after=after)["result"]["events"] == []


def test_half_a_character_in_a_change_is_not_lost(editor, tmp_path: Path):
    """JavaScript sends a lone surrogate if it splits a text inside a surrogate pair."""
    started(editor, tmp_path)
    body = b'{"jsonrpc":"2.0","id":5,"method":"understudy/delegations/get","params":{"id":"\\ud83d x"}}'
    editor.send(body)
    assert "�" in editor.response_to(5)["error"]["message"]


def test_standard_requests_have_a_limit(editor, workshop):
    """A request above the limit is refused at once; the others are answered in turn."""
    workshop.call("workspace/trust", workspace=str(workshop.top), trusted=False)
    no_answer = sys.modules[type(editor).__module__].NO_ANSWER
    editor.answers["window/showMessageRequest"] = lambda _: no_answer
    started(editor, workshop.top)
    params = {"recipe": "ask", "task": "x", "workspace": str(workshop.top)}
    command = {"command": "understudy/delegations/start", "arguments": [params]}
    for number in range(1000):
        editor.request("workspace/executeCommand", command, identifier=f"w{number}")
    refused = editor.response_to(editor.request("textDocument/codeLens", {}, identifier="excess"))
    assert refused["error"]["data"]["kind"] == "overloaded"
    assert lives(editor), "requests of the contract have their own limit"
    assert not [message for message in editor.heard if str(message.get("id")).startswith("w")]
    for number in range(1000):
        editor.notify("$/cancelRequest", {"id": f"w{number}"})
    for number in range(1000):
        assert editor.response_to(f"w{number}")["error"]["code"] == -32800
    answered = [message["id"] for message in editor.heard if "method" not in message]
    assert len(answered) == len(set(answered))
    assert "error" in editor.response_to(editor.request("textDocument/codeLens", {}, identifier="next"))
    assert editor.response_to("next")["error"]["code"] == -32602


# -- documents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"contentChanges": [{"text": 7}]},
        {"contentChanges": None},
        {},
        {"contentChanges": [{"range": {"start": {"line": -1, "character": 0}}, "text": ""}]},
    ],
    ids=str,
)
def test_an_unknown_text_is_not_used(editor, workshop, params: dict[str, Any]):
    """Delegating would send a text that differs from the editor's; one message says so, and what to do."""
    agent = workshop.agent("quick", "success")
    editor.begin(workshop.top)
    path = workshop.top / "calc.py"
    uri = editor.open(path, "def add(a, b):\n    return b + a\n")
    for version in (2, 3):
        editor.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, **params})
    start = {"recipe": "implement", "task": "x", "delegator": agent, "files": [uri]}
    found = editor.response_to(editor.request("understudy/delegations/start", start))
    assert found["error"]["data"]["kind"] == "base_unavailable"
    assert "calc.py" in found["error"]["message"]
    assert "open it again" in found["error"]["data"]["hint"]
    assert editor.actions(uri) == []
    told = editor.all_of("window/showMessage")
    assert len(told) == 1
    assert "calc.py" in told[0]["message"]
    editor.change(uri, 4, {"text": "def add(a, b):\n    return 2\n"})
    identifier = editor.ask("understudy/delegations/start", start)["id"]
    editor.ask("understudy/delegations/wait", {"id": identifier, "timeoutSeconds": 30})
    assert workshop.file(identifier, "calc.py", "base") == "def add(a, b):\n    return 2\n"


def test_an_unknown_text_elsewhere_does_not_affect_a_delegation(editor, workshop, tmp_path: Path):
    agent = workshop.agent("quick", "success")
    editor.begin(workshop.top)
    other = editor.open(tmp_path / "elsewhere.py", "x")
    editor.change(other, 2, {"text": 7})
    assert editor.ask("understudy/delegations/start", {"recipe": "implement", "task": "x", "delegator": agent})["id"]


def test_a_change_without_a_document_puts_all_documents_out_of_sync(editor, tmp_path: Path):
    started(editor, tmp_path)
    for name in ("a.py", "b.py"):
        editor.open(tmp_path / name, "x")
    for _ in range(2):
        editor.notify("textDocument/didChange", {"contentChanges": [{"text": "y"}]})
    assert lives(editor)
    assert len(editor.all_of("window/showMessage")) == 2


def test_a_document_opened_without_text_does_not_count_as_the_file_on_disk(editor, workshop):
    agent = workshop.agent("quick", "success")
    editor.begin(workshop.top)
    uri = (workshop.top / "calc.py").as_uri()
    editor.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "python", "version": 1}})
    start = {"recipe": "implement", "task": "x", "delegator": agent}
    with pytest.raises(Exception, match="base_unavailable"):
        editor.ask("understudy/delegations/start", start)
    editor.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert editor.ask("understudy/delegations/start", start)["id"]


# -- the session ---------------------------------------------------------------------------------------------------


def test_nothing_is_answered_before_initialize(editor):
    editor.request("understudy/version", identifier=5)
    editor.notify("initialized", {})
    assert editor.response_to(5)["error"]["code"] == -32002
    started(editor)
    assert lives(editor)


def test_a_second_initialize_is_an_error(editor):
    started(editor)
    assert editor.response_to(editor.request("initialize", {"capabilities": {}}))["error"]["code"] == -32600
    assert lives(editor)


def test_initialize_with_almost_no_parameters(editor):
    found = editor.ask("initialize")
    assert found["capabilities"]["experimental"]["understudy"]["protocolVersion"] == PROTOCOL_VERSION
    assert lives(editor)


def test_an_invalid_initialize_is_answered(editor):
    assert editor.response_to(editor.request("initialize", {"processId": "seven"}))["error"]["code"] == -32602
    started(editor)


def test_after_shutdown_only_exit_is_accepted(editor):
    started(editor)
    assert editor.ask("shutdown") is None
    assert editor.response_to(editor.request("understudy/version"))["error"]["code"] == -32600
    assert editor.response_to(editor.request("shutdown"))["error"]["code"] == -32600
    editor.notify("exit", None)
    assert editor.process.wait(60) == 0


def test_exit_without_shutdown_is_1(editor):
    started(editor)
    assert editor.leave(politely=False) == 1


def test_exit_before_anything_is_1(editor):
    assert editor.leave(politely=False) == 1


def test_the_end_of_the_stream_ends_it(editor):
    started(editor)
    editor.process.stdin.close()
    assert editor.process.wait(60) == 1
    assert editor.errors == b""


def test_the_end_of_the_stream_after_shutdown(editor):
    started(editor)
    editor.ask("shutdown")
    editor.process.stdin.close()
    assert editor.process.wait(60) == 1


@pytest.mark.parametrize("way", ["understudy/delegations/events", "workspace/executeCommand"])
def test_shutdown_while_something_waits(editor, way: str, journal):
    """pygls itself changes the dictionary over which it iterates, and answers shutdown with an error."""
    started(editor)
    pending = [editor.request(*waiting(way, journal()), identifier=f"w{n}") for n in range(3)]
    editor.ask("shutdown")
    for one in pending:
        answer = editor.response_to(one)
        assert answer["result"]["events"] == [] if "result" in answer else answer["error"]["code"] == -32800
    editor.notify("exit", None)
    assert editor.process.wait(60) == 0
    assert editor.errors == b""


def test_exit_while_something_waits(editor, journal):
    """pygls itself writes to the closed stream for minutes."""
    started(editor)
    for n in range(3):
        editor.request(*waiting("understudy/delegations/events", journal()), identifier=f"w{n}")
    assert editor.leave(politely=False, seconds=30) == 1
    assert len(editor.errors) < 2000


@pytest.mark.parametrize("way", ["understudy/delegations/events", "workspace/executeCommand"])
def test_a_request_is_cancelled(editor, way: str, journal):
    started(editor)
    pending = editor.request(*waiting(way, journal()))
    assert lives(editor)
    editor.notify("$/cancelRequest", {"id": pending})
    assert editor.result_of(pending, 30)["events"] == []
    assert lives(editor)


def test_unstarted_requests_are_answered_as_cancelled(editor, journal):
    started(editor)
    writer = journal()
    for n in range(70):  # more than there are threads for
        editor.request(*waiting("understudy/delegations/events", writer), identifier=f"w{n}")
    editor.notify("$/cancelRequest", {"id": "w69"})
    assert editor.response_to("w69")["error"]["code"] == -32800
    assert lives(editor)


def test_invalid_cancellations_are_ignored(editor):
    started(editor)
    for params in ({}, None, {"id": None}, {"id": [1]}, {"id": 12345}, {"id": "x"}):
        editor.notify("$/cancelRequest", params)
    assert lives(editor)


def waiting(way: str, writer: Any) -> tuple[str, dict[str, Any]]:
    """Return a request that waits for events of a delegation in which nothing happens."""
    params = {"id": writer.folder.id, "after": 10_000, "waitSeconds": 60}
    if way == "workspace/executeCommand":
        return way, {"command": "understudy/delegations/events", "arguments": [params]}
    return way, params


# -- the editor's process --------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open(2)")
def test_the_server_exits_when_the_editor_dies_even_if_the_pipe_stays_open(editor):
    stand_in = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started(editor, processId=stand_in.pid)
    assert lives(editor)
    stand_in.stdin.close()
    stand_in.wait(60)
    assert editor.process.wait(60) == 1


@pytest.mark.parametrize("process", [None, -1])
def test_an_editor_whose_process_cannot_be_seen(editor, process: int | None):
    started(editor, processId=process)
    assert lives(editor)


def test_sigterm_ends_the_server_cleanly(editor):
    started(editor)
    editor.process.terminate()
    assert editor.process.wait(60) == 1


# -- frames ----------------------------------------------------------------------------------------------------------

VERSION = b'{"jsonrpc":"2.0","id":"v","method":"understudy/version"}'


HEADERS = [
    b"content-length: %d\r\n\r\n",
    b"CONTENT-LENGTH:%d\r\n\r\n",
    b"Content-Length : %d\r\n\r\n",
    b"Content-Length: %d\n\n",
    b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
    b"Content-Length: %d\r\nX-Tomorrow: a: b\r\n\r\n",
    b"\r\n\r\nContent-Length: %d\r\n\r\n",
]


def test_all_valid_headers_are_accepted(editor):
    started(editor)
    for number, header in enumerate(HEADERS):
        body = VERSION.replace(b'"v"', b'"v%d"' % number)
        editor.write(header % len(body) + body)
        assert editor.result_of(f"v{number}")["protocolVersion"] == PROTOCOL_VERSION


BROKEN = [
    b"Content-Length: 0\r\n\r\n",
    b"Content-Length: -5\r\n\r\n",
    b"Content-Length: many\r\n\r\n",
    b"Content-Length: \r\n\r\n",
    b"Content-Length: %d\r\n\r\n" % 10**10,
    b"Content-Length: %d\r\n\r\n" % 10**19,
    b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"Content-Length: %d\r\n\r\n{}" % (LIMIT + 1),
    b"X-Only: this\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x00\xff\xfe garbage \r\n\r\n more ",
    b"x" * 100_000 + b"\r\n",
    b"Content-Length: 20\r\n\r\n" + VERSION,
    b"Content-Length: 200\r\n\r\n" + VERSION,
]


def test_after_a_broken_frame_the_stream_continues(editor):
    started(editor)
    for number, broken in enumerate(BROKEN):
        mark = editor.mark()
        editor.write(broken)
        editor.request("understudy/version", identifier=f"next{number}")
        assert editor.result_of(f"next{number}")["protocolVersion"] == PROTOCOL_VERSION, broken[:60]
        assert code_without_id(editor, mark) == -32700, broken[:60]
        assert lives(editor)


def test_a_frame_may_come_byte_by_byte(editor):
    started(editor)
    for byte in b"Content-Length: %d\r\n\r\n%b" % (len(VERSION), VERSION):
        editor.write(bytes([byte]))
    assert editor.result_of("v")["protocolVersion"] == PROTOCOL_VERSION


def test_a_large_document(editor, tmp_path: Path):
    started(editor, tmp_path)
    editor.open(tmp_path / "large.py", "é" * 5_000_000)
    assert lives(editor)


def test_stdin_may_be_a_file(tmp_path: Path):
    path = tmp_path / "session"
    bodies = [
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}',
        VERSION,
        b'{"jsonrpc":"2.0","id":2,"method":"shutdown"}',
        b'{"jsonrpc":"2.0","method":"exit"}',
    ]
    path.write_bytes(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies))
    with path.open("rb") as stream:
        done = forked.run(["serve"], stdin=stream, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0
    assert done.stdout.count(b"Content-Length") >= 2


# -- a client that does not read -------------------------------------------------------------------------------------


class StalledClient:
    """A client of a server's stdio that reads when a test says so."""

    def __init__(self) -> None:
        self.process = forked.Forked(["serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        os.write(self.process.stdin.fileno(), b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def read(self) -> Any:
        length = 0
        while (line := self.process.stdout.readline()).strip():
            length = int(line.partition(b":")[2])
        return json.loads(self.process.stdout.read(length))

    def resident(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)


@pytest.fixture
def stalled():
    client = StalledClient()
    yield client
    client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_server_stops_reading_from_a_client_that_does_not_read(stalled: StalledClient):
    stalled.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}}})
    stalled.read()
    os.set_blocking(stalled.process.stdin.fileno(), False)
    before, sent = stalled.resident(), 0
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * 100_000}).encode()
    request = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    left, quiet = memoryview(request), 0
    while sent < 150_000_000 and quiet < 100:
        try:
            written = os.write(stalled.process.stdin.fileno(), left)
        except BlockingIOError:
            quiet += 1
            time.sleep(0.02)
            continue
        quiet, sent = 0, sent + written
        left = left[written:] or memoryview(request)
    assert quiet == 100, "the server must keep reading"
    assert stalled.resident() - before < 80_000_000


def test_a_stalled_client_receives_every_event_later(start_editor: Callable[..., Any], stalled: StalledClient, journal):
    from understudy.model.delegation import events

    writer = journal()
    stalled.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}}})
    stalled.read()
    stalled.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
    stalled.send({"jsonrpc": "2.0", "id": 1, "method": "understudy/delegations/subscribe", "params": {}})
    assert stalled.read()["id"] == 1
    for number in range(3000):
        writer.append(events.Text(text=f"{number} " + "x" * 2000), attempt=1)
    stalled.send({"jsonrpc": "2.0", "id": 2, "method": "understudy/version"})
    heard: list[int] = []
    answered = False
    while len(heard) < 3000 or not answered:
        message = stalled.read()
        answered |= message.get("id") == 2
        if message.get("method") == "understudy/event":
            assert len(json.dumps(message)) < 300 * 1024
            heard += [event["seq"] for event in message["params"]["events"] if event["type"] == "text"]
    assert heard == sorted(set(heard))
    assert len(heard) == 3000


# -- descriptors ---------------------------------------------------------------------------------------------------


def test_output_of_libraries_is_not_in_the_stream(tmp_path: Path):
    program = (
        "import os, subprocess, sys\n"
        "from understudy.frontends import json_rpc\n"
        "place = json_rpc.take_stdio()\n"
        "print('from a library')\n"
        "os.write(1, b'from C\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"from a child\"); print(input())'], check=False)\n"
        "os.write(place[1], b'stream')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"for the server", capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"stream"
    assert b"from a library" in done.stderr
    assert b"from C" in done.stderr
    assert b"from a child" in done.stderr
    assert b"for the server" not in done.stderr


def test_no_body_is_written_to_the_log(editor, tmp_path: Path):
    started(editor, tmp_path)
    editor.open(tmp_path / "secret.py", "TOKEN = 'hunter2-hunter2'\n")
    editor.request("no/such", {"key": "hunter2-hunter2"})
    editor.send(b'{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"text":"hunter2-hunter2"}}')
    lives(editor)
    assert editor.leave() == 0
    assert b"hunter2" not in editor.errors
