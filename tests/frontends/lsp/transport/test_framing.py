"""Test that bodies are found however the stream is split, and that every request gets exactly one answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pygls.lsp.server import LanguageServer

from understudy.frontends.lsp.pygls_server import StrictProtocol
from understudy.frontends.lsp.server import Server
from understudy.frontends.lsp.transport import framing
from understudy.frontends.lsp.transport.outbox import Outbox

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(JSON, max_size=5), st.lists(st.integers(0, 10_000), max_size=20))
def test_whole_frames_are_returned_unchanged(values: list[Any], places: list[int]):
    bodies = [json.dumps(value).encode() for value in values]
    frames = framing.Frames()
    stream = b"".join(framing.frame(body) for body in bodies)
    assert [body for piece in cut(stream, places) for body in frames.feed(piece)] == bodies


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([b"Content-Length: 7", b"\r\n", b"\r\n\r\n", b"{}"]), max_size=8)
)
def test_the_stream_recovers_from_any_bytes(pieces: list[bytes]):
    frames = framing.Frames()
    for piece in pieces:
        for body in frames.feed(piece):
            if not isinstance(body, framing.Broken) and not is_json(body):
                frames.give_back(body)
    # The Content-Length of a preceding frame may include, or cut, one message, but not two.
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    seen = []
    for _ in range(3):
        for body in frames.feed(framing.frame(ping)):
            if isinstance(body, framing.Broken):
                continue
            if is_json(body):
                seen.append(body)
            else:
                frames.give_back(body)
    assert ping in seen


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


# -- every request gets exactly one answer -----------------------------------------------------------------------------

METHODS = st.sampled_from(
    [
        "understudy/version",
        "understudy/delegations/get",
        "understudy/delegations/list",
        "understudy/nothing",
        "textDocument/codeAction",
        "textDocument/didOpen",
        "textDocument/didChange",
        "textDocument/codeLens",
        "codeAction/resolve",
        "workspace/executeCommand",
        "workspace/didChangeWorkspaceFolders",
        "window/workDoneProgress/cancel",
        "initialize",
        "initialized",
        "shutdown",
        "$/cancelRequest",
        "$/setTrace",
        "$/progress",
        "no/such",
    ]
)
PARAMS = JSON | st.sampled_from(
    [
        {"textDocument": {"uri": "file:///x.py", "languageId": "python", "version": 1, "text": "x"}},
        {"textDocument": {"uri": "file:///x.py", "version": 2}, "contentChanges": [{"text": "y"}]},
        {
            "textDocument": {"uri": "file:///x.py"},
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 9}},
            "context": {"diagnostics": []},
        },
        {"textDocument": {"uri": "file:///x.py"}, "position": {"line": 0, "character": 0}},
        {"command": "understudy/version", "arguments": []},
        {"command": "understudy/version", "arguments": [{}, {}, 3]},
        {"title": "x", "data": {"by": "unknown"}},
        {"id": 3},
        {"capabilities": {}},
    ]
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0"]), "method": METHODS},
    optional={"params": PARAMS, "id": st.integers(0, 5) | st.text(max_size=2) | JSON},
)


class Session:
    """A server on two pipes in this process."""

    def __init__(self) -> None:
        self.server = Server()
        reading, self._writing = os.pipe()
        self._heard, writing = os.pipe()
        self._loop = asyncio.new_event_loop()
        self._done = threading.Thread(target=self._run, args=(reading, writing), daemon=True)
        self._done.start()
        self.answers = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _run(self, reading: int, writing: int) -> None:
        self.code = self._loop.run_until_complete(self.server.serve(reading, writing))
        self._loop.close()
        os.close(reading)
        os.close(writing)

    def _read(self) -> None:
        while data := os.read(self._heard, 65536):
            self.answers += data

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._writing, data) :]

    def end(self) -> list[Any]:
        """Close the stream; return all messages of the server."""
        os.close(self._writing)
        self._done.join(60)
        self._reader.join(60)
        os.close(self._heard)
        assert not self._done.is_alive()
        frames = framing.Frames()
        return [json.loads(body) for body in frames.feed(self.answers)]


def key_of(identifier: Any) -> str:
    return json.dumps(identifier) if isinstance(identifier, str | int) and not isinstance(identifier, bool) else "null"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.lists(MESSAGES | JSON, max_size=25))
def test_every_request_gets_exactly_one_answer(greeted: bool, messages: list[Any]):
    session = Session()
    expected: Counter[str] = Counter()
    if greeted:
        hello = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {"capabilities": {}}}
        session.write(framing.frame(json.dumps(hello).encode()))
        expected['"hello"'] += 1
    for message in messages:
        session.write(framing.frame(json.dumps(message).encode()))
        if not isinstance(message, dict):
            expected["null"] += 1
        elif "method" in message:
            if "id" in message:
                expected[key_of(message["id"])] += 1
        elif not ("result" in message or "error" in message) or message.get("jsonrpc") != "2.0":
            expected["null"] += 1
    # Answers come from threads, so wait for all of them before the last request.
    for _ in range(200):
        frames = framing.Frames()
        said = [json.loads(body) for body in frames.feed(session.answers)]
        if sum(1 for message in said if "method" not in message) >= sum(expected.values()):
            break
        threading.Event().wait(0.02)
    said = session.end()
    assert Counter(key_of(message["id"]) for message in said if "method" not in message) == expected
    assert not [m for m in said if "error" in m and "Traceback" in json.dumps(m)]


# -- outbox ------------------------------------------------------------------------------------------------------------


def test_messages_of_many_threads_are_whole_and_in_order():
    reading, writing = os.pipe()
    outbox = Outbox(writing)

    def talk(number: int) -> None:
        for turn in range(200):
            outbox.send_when_room(framing.frame(json.dumps([number, turn, "x" * (turn * 37 % 9000)]).encode()))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    frames, heard = framing.Frames(), []
    while len(heard) < 1200:
        heard += [json.loads(body) for body in frames.feed(os.read(reading, 65536))]
    for thread in threads:
        thread.join(60)
    outbox.close()
    for number in range(6):
        assert [turn for who, turn, _ in heard if who == number] == list(range(200))
    os.close(reading)
    os.close(writing)


def test_a_disconnected_client_is_noticed():
    reading, writing = os.pipe()
    outbox = Outbox(writing)
    os.close(reading)
    outbox.send(b"x" * 100_000)
    outbox.close()
    assert outbox.gone
    with pytest.raises(BrokenPipeError):
        outbox.send_when_room(b"x")
    os.close(writing)


def test_closing_waits_for_a_slow_reader():
    reading, writing = os.pipe()
    outbox = Outbox(writing)
    outbox.send(b"x" * 500_000)
    heard = []

    def read() -> None:
        while sum(map(len, heard)) < 500_000:
            heard.append(os.read(reading, 65536))

    reader = threading.Thread(target=read)
    reader.start()
    outbox.close()
    reader.join(60)
    assert sum(map(len, heard)) == 500_000
    os.close(reading)
    os.close(writing)


def test_overridden_methods_of_pygls_still_exist() -> None:
    """If an upgrade of pygls renames a method, our override would never be called."""
    theirs = LanguageServer("x", "1").protocol
    overridden = {"_send_data", "_send_response", "_send_handler_result", "_get_handler"}
    overridden |= {name for name in vars(StrictProtocol) if name.startswith("lsp_")}
    used = {"_handle_request", "_request_futures", "_converter", "fm", "get_message_type"}
    assert overridden <= set(vars(StrictProtocol))
    assert [name for name in sorted(overridden | used) if not hasattr(theirs, name)] == []
