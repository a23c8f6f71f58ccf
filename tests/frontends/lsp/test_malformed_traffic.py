"""Whatever bytes arrive: one test for each way in which traffic can be broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LIMIT = 64 * 1024 * 1024


def started(editor: Any, *folders: Path, **params: Any) -> Any:
    editor.begin(*folders, **params)
    return editor


def answers_to_nobody(editor: Any, code: int) -> bool:
    return bool(
        editor.wait_for(lambda m: "method" not in m and m["id"] is None and m["error"]["code"] == code, what=str(code))
    )


def lives(editor: Any) -> bool:
    return editor.ask("understudy/version")["protocolVersion"] == 1


# -- parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument/codeAction", {}),
        ("textDocument/hover", {"textDocument": 5, "position": []}),
        ("workspace/executeCommand", {"command": {}, "arguments": 7}),
        ("workspace/executeCommand", {"command": "understudy/no/such"}),
        ("understudy/delegations/get", {}),
        ("understudy/delegations/get", {"id": 7}),
        ("understudy/delegations/get", ["id"]),
        ("understudy/delegations/list", {"nonsense": True}),
    ],
)
def test_wrong_parameters_are_answered(editor, method: str, params: Any):
    started(editor)
    identifier = editor.request(method, params)
    answer = editor.response_to(identifier)
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["kind"] == "invalid_params"
    assert not editor.all_of("window/showMessage")
    assert lives(editor)


def test_a_path_that_is_no_utf_8_is_answered(editor: Any):
    editor.begin()
    params = {"workspace": "file:///not/there/%ff"}
    command = {"command": "understudy/workspace/trust", "arguments": [params]}
    for _ in range(10):  # more than there are threads to answer
        for asked in (("understudy/workspace/trust", params), ("workspace/executeCommand", command)):
            found = editor.response_to(editor.request(*asked), 10)
            assert found["error"]["message"].startswith("/not/there/\ufffd is not a folder")


@pytest.mark.parametrize("extra", [{}, {"params": None}, {"params": {}}])
def test_a_request_without_parameters_is_one_with_none(editor, extra: dict[str, Any]):
    started(editor)
    editor.send({"jsonrpc": "2.0", "id": 7, "method": "understudy/version", **extra})
    assert editor.result_of(7)["protocolVersion"] == 1


def test_a_frame_inside_the_parameters_is_data(editor):
    started(editor)
    inner = {"jsonrpc": "2.0", "id": 99, "method": "shutdown"}
    identifier = editor.request("understudy/delegations/start", {"recipe": "ask", "task": "x", "input": inner})
    assert editor.response_to(identifier)["error"]["code"] == -32602
    editor.request("understudy/delegations/get", {"id": json.dumps(inner)}, identifier="text")
    assert "error" in editor.response_to("text")
    assert lives(editor)
    assert not [message for message in editor.heard if message.get("id") == 99]


def test_an_editor_of_tomorrow_is_welcome(editor):
    capabilities = {
        "workspace": {
            "symbol": {"symbolKind": {"valueSet": [1, 99]}},
            "workspaceEdit": {"resourceOperations": ["teleport"], "failureHandling": "pray"},
        },
        "textDocument": {
            "publishDiagnostics": {"tagSupport": {"valueSet": [3]}},
            "completion": {"completionItem": {"insertTextModeSupport": {"valueSet": [77]}}},
            "semanticTokens": {"formats": ["absolute"], "requests": {}, "tokenTypes": [], "tokenModifiers": []},
            "codeAction": {"codeActionLiteralSupport": 5},
        },
        "general": {"positionEncodings": ["utf-64", "utf-32"], "markdown": 3},
        "tomorrow": {"x": 1},
    }
    found = editor.begin(capabilities=capabilities, trace="extreme", tomorrow=[])
    assert found["capabilities"]["positionEncoding"] == "utf-32"
    assert lives(editor)


def test_an_enum_value_of_tomorrow_in_a_request(editor, tmp_path: Path):
    started(editor, tmp_path)
    uri = editor.open(tmp_path / "a.py", "x = 1\n")
    assert isinstance(editor.actions(uri, triggerKind=9, only=["tomorrow.kind"]), list)


# -- envelopes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
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
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_message_is_refused(editor, body: bytes, code: int):
    started(editor)
    editor.send(body)
    assert answers_to_nobody(editor, code)
    assert lives(editor)


@pytest.mark.parametrize(
    "message",
    [
        {"id": 5, "method": "understudy/version"},
        {"jsonrpc": "1.0", "id": 5, "method": "understudy/version"},
        {"jsonrpc": 2.0, "id": 5, "method": "understudy/version"},
        {"jsonrpc": "2.0", "id": 5, "method": 7},
        {"jsonrpc": "2.0", "id": 5, "method": "understudy/version", "params": "text"},
        {"jsonrpc": "2.0", "id": 5, "method": "understudy/version", "params": 0},
    ],
)
def test_a_request_that_is_none_is_answered_by_its_id(editor, message: dict[str, Any]):
    started(editor)
    editor.send(message)
    assert editor.response_to(5)["error"]["code"] == -32600
    assert lives(editor)


def test_more_members_than_known_do_no_harm(editor):
    started(editor)
    editor.send({"jsonrpc": "2.0", "id": 5, "method": "understudy/version", "params": {}, "traceparent": "00-1"})
    assert editor.result_of(5)["protocolVersion"] == 1


@pytest.mark.parametrize("method", ["no/such", "$/no/such", "understudy/no/such", "", "x" * 10_000])
def test_a_method_that_is_not_there(editor, method: str):
    started(editor)
    assert editor.response_to(editor.request(method))["error"]["code"] == -32601
    editor.notify(method, {"a": 1})
    assert lives(editor)
    assert not editor.all_of("window/showMessage")


def test_answers_that_nobody_waits_for_are_nothing(editor):
    started(editor)
    editor.send({"jsonrpc": "2.0", "id": "nobody", "result": 1})
    editor.send({"jsonrpc": "2.0", "id": 77, "error": "strange"})
    editor.send({"jsonrpc": "2.0", "id": ["x"], "result": None})
    assert lives(editor)
    assert len(editor.heard) == 2


def test_two_requests_of_one_id(editor, journal):
    started(editor)
    editor.request(*waiting("understudy/delegations/events", journal()), identifier=5)
    editor.request("understudy/version", identifier=5)
    editor.request("understudy/version", identifier="5")
    assert editor.result_of("5")["protocolVersion"] == 1
    assert editor.response_to(5)["error"]["code"] == -32600
    after = editor.mark()
    editor.notify("$/cancelRequest", {"id": 5})
    assert editor.wait_for(lambda m: m.get("id") == 5, after=after)["result"]["events"] == []


def test_half_a_character_in_a_change_is_not_lost(editor, tmp_path: Path):
    """JavaScript sends half a surrogate pair when a text is cut there."""
    started(editor, tmp_path)
    body = b'{"jsonrpc":"2.0","id":5,"method":"understudy/delegations/get","params":{"id":"\\ud83d x"}}'
    editor.send(body)
    assert "�" in editor.response_to(5)["error"]["message"]


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


def test_initialize_with_next_to_nothing(editor):
    found = editor.ask("initialize")
    assert found["capabilities"]["experimental"]["understudy"]["protocolVersion"] == 1
    assert lives(editor)


def test_an_initialize_that_cannot_be_read_is_answered(editor):
    assert editor.response_to(editor.request("initialize", {"processId": "seven"}))["error"]["code"] == -32602
    started(editor)


def test_after_shutdown_only_exit_is_taken(editor):
    started(editor)
    assert editor.ask("shutdown") is None
    assert editor.response_to(editor.request("understudy/version"))["error"]["code"] == -32600
    assert editor.response_to(editor.request("shutdown"))["error"]["code"] == -32600
    editor.notify("exit", None)
    assert editor.process.wait(10) == 0


def test_exit_without_shutdown_is_1(editor):
    started(editor)
    assert editor.leave(politely=False) == 1


def test_exit_before_anything_is_1(editor):
    assert editor.leave(politely=False) == 1


def test_the_end_of_the_stream_ends_it(editor):
    started(editor)
    editor.process.stdin.close()
    assert editor.process.wait(10) == 1
    assert editor.errors == b""


def test_the_end_of_the_stream_after_shutdown(editor):
    started(editor)
    editor.ask("shutdown")
    editor.process.stdin.close()
    assert editor.process.wait(10) == 1


@pytest.mark.parametrize("way", ["understudy/delegations/events", "workspace/executeCommand"])
def test_shutdown_while_something_waits(editor, way: str, journal):
    """pygls changes the dictionary that it iterates over, and answers shutdown with an error."""
    started(editor)
    pending = [editor.request(*waiting(way, journal()), identifier=f"w{n}") for n in range(3)]
    editor.ask("shutdown")
    for one in pending:
        answer = editor.response_to(one)
        assert answer["result"]["events"] == [] if "result" in answer else answer["error"]["code"] == -32800
    editor.notify("exit", None)
    assert editor.process.wait(10) == 0
    assert editor.errors == b""


def test_exit_while_something_waits(editor, journal):
    """pygls goes on for minutes writing to a stream that is closed."""
    started(editor)
    for n in range(3):
        editor.request(*waiting("understudy/delegations/events", journal()), identifier=f"w{n}")
    begun = time.monotonic()
    assert editor.leave(politely=False) == 1
    assert time.monotonic() - begun < 10
    assert len(editor.errors) < 2000


@pytest.mark.parametrize("way", ["understudy/delegations/events", "workspace/executeCommand"])
def test_a_request_is_taken_back(editor, way: str, journal):
    started(editor)
    pending = editor.request(*waiting(way, journal()))
    assert lives(editor)
    editor.notify("$/cancelRequest", {"id": pending})
    assert editor.result_of(pending, 10)["events"] == []
    assert lives(editor)


def test_what_was_not_begun_is_answered_as_withdrawn(editor, journal):
    started(editor)
    writer = journal()
    for n in range(70):  # more than there are threads for
        editor.request(*waiting("understudy/delegations/events", writer), identifier=f"w{n}")
    editor.notify("$/cancelRequest", {"id": "w69"})
    assert editor.response_to("w69", 10)["error"]["code"] == -32800
    assert lives(editor)


def test_strange_cancels_do_no_harm(editor):
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
def test_it_leaves_when_the_editor_is_dead_though_the_pipe_lives(editor):
    stand_in = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started(editor, processId=stand_in.pid)
    assert lives(editor)
    stand_in.stdin.close()
    stand_in.wait(10)
    assert editor.process.wait(10) == 1


@pytest.mark.parametrize("process", [None, 2**31 - 2, 0, -1])
def test_an_editor_whose_process_cannot_be_seen(editor, process: int | None):
    started(editor, processId=process)
    assert lives(editor)


def test_sigterm_ends_it_in_order(editor):
    started(editor)
    editor.process.terminate()
    assert editor.process.wait(10) == 1


# -- frames ----------------------------------------------------------------------------------------------------------

VERSION = b'{"jsonrpc":"2.0","id":"v","method":"understudy/version"}'


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Length : %d\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nX-Tomorrow: a: b\r\n\r\n",
        b"\r\n\r\nContent-Length: %d\r\n\r\n",
    ],
)
def test_headers_as_they_come(editor, header: bytes):
    started(editor)
    editor.write(header % len(VERSION) + VERSION)
    assert editor.result_of("v")["protocolVersion"] == 1


@pytest.mark.parametrize(
    "broken",
    [
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
    ],
    ids=lambda value: str(value)[:40],
)
def test_after_a_broken_frame_the_stream_goes_on(editor, broken: bytes):
    started(editor)
    editor.write(broken)
    editor.send({"jsonrpc": "2.0", "id": "next", "method": "understudy/version"})
    assert editor.result_of("next")["protocolVersion"] == 1
    assert answers_to_nobody(editor, -32700)
    assert lives(editor)


def test_a_frame_may_come_byte_by_byte(editor):
    started(editor)
    for byte in b"Content-Length: %d\r\n\r\n%b" % (len(VERSION), VERSION):
        editor.write(bytes([byte]))
    assert editor.result_of("v")["protocolVersion"] == 1


def test_a_large_document(editor, tmp_path: Path):
    started(editor, tmp_path)
    editor.open(tmp_path / "large.py", "é" * 5_000_000)
    assert lives(editor)


def test_what_stdin_is_may_be_a_file(tmp_path: Path):
    path = tmp_path / "session"
    bodies = [
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}',
        VERSION,
        b'{"jsonrpc":"2.0","id":2,"method":"shutdown"}',
        b'{"jsonrpc":"2.0","method":"exit"}',
    ]
    path.write_bytes(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies))
    with path.open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "understudy", "serve"], stdin=stream, capture_output=True, check=False, timeout=30
        )
    assert done.returncode == 0
    assert done.stdout.count(b"Content-Length") >= 2


# -- a client that does not read -------------------------------------------------------------------------------------


class Deaf:
    """A client of a server's stdio that reads when a test says so."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "understudy", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

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
        self.process.wait(10)


@pytest.fixture
def deaf():
    client = Deaf()
    yield client
    client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_client_that_asks_without_reading_is_read_no_further(deaf: Deaf):
    deaf.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}}})
    deaf.read()
    os.set_blocking(deaf.process.stdin.fileno(), False)
    before, sent = deaf.resident(), 0
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * 100_000}).encode()
    request = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    left, quiet = memoryview(request), 0
    while sent < 150_000_000 and quiet < 100:
        try:
            written = os.write(deaf.process.stdin.fileno(), left)
        except BlockingIOError:
            quiet += 1
            time.sleep(0.02)
            continue
        quiet, sent = 0, sent + written
        left = left[written:] or memoryview(request)
    assert quiet == 100, "it went on reading"
    assert deaf.resident() - before < 80_000_000


def test_a_stalled_client_hears_every_event_later(start_editor: Callable[..., Any], deaf: Deaf, journal):
    from understudy.model import events

    writer = journal()
    deaf.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}}})
    deaf.read()
    deaf.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
    deaf.send({"jsonrpc": "2.0", "id": 1, "method": "understudy/delegations/subscribe", "params": {}})
    assert deaf.read()["id"] == 1
    for number in range(3000):
        writer.append(events.Text(text=f"{number} " + "x" * 2000), attempt=1)
    deaf.send({"jsonrpc": "2.0", "id": 2, "method": "understudy/version"})
    heard: list[int] = []
    answered = False
    while len(heard) < 3000 or not answered:
        message = deaf.read()
        answered |= message.get("id") == 2
        if message.get("method") == "understudy/event":
            assert len(json.dumps(message)) < 300 * 1024
            heard += [event["seq"] for event in message["params"]["events"] if event["type"] == "text"]
    assert heard == sorted(set(heard))
    assert len(heard) == 3000


# -- descriptors ---------------------------------------------------------------------------------------------------


def test_what_a_library_prints_is_not_in_the_stream(tmp_path: Path):
    program = (
        "import os, subprocess, sys\n"
        "from understudy.faces.lsp import server\n"
        "place = server.descriptors()\n"
        "print('from a library')\n"
        "os.write(1, b'from C\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"from a child\"); print(input())'], check=False)\n"
        "os.write(place[1], b'stream')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"for the server", capture_output=True, check=True, timeout=30
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
