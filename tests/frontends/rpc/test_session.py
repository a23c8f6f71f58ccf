"""`understudy rpc` as a program meets it: one answer for each request, whatever arrives."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import forked
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.api import method_table
from understudy.frontends.json_lines import Malformed, parse
from understudy.frontends.rpc import session
from understudy.model.delegation import events as e

VERSION = {"jsonrpc": "2.0", "id": 1, "method": "understudy/version"}


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Direct:
    """A session in this process: what it is fed, and what it sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.session = session.Session(self.sent.append, session.Peer(None, None, {}))

    def answers(self) -> list[Any]:
        return [json.loads(message) for message in self.sent]


def served(*messages: bytes) -> list[Any]:
    direct = Direct()
    for message in messages:
        direct.session.feed(message)
    direct.session.end()
    assert all(message.endswith(b"\n") and message.count(b"\n") == 1 for message in direct.sent)
    return direct.answers()


def test_a_program_gets_its_answer_and_the_server_ends_with_its_client(rpc) -> None:
    client = rpc()
    client.ask("a", "version")
    answer = client.next()
    assert answer["id"] == "a"
    assert answer["result"]["protocolVersion"] == method_table.PROTOCOL_VERSION
    assert client.end() == []


@pytest.mark.parametrize("params", [{}, None, []])
def test_no_parameters_can_be_said_in_every_way(params: Any) -> None:
    assert "result" in served(line(VERSION | {"params": params}))[0]
    assert "result" in served(line(VERSION))[0]


@pytest.mark.parametrize(
    ("message", "code", "identifier"),
    [
        (b"{", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"understudy/version"}', -32700, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        (b"null", -32600, None),
        (b'{"id":5,"method":"understudy/version"}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":{},"method":"understudy/version"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"understudy/version"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":5,"method":"understudy/version","params":"x"}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"understudy/nothing"}', -32601, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"version"}', -32601, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"__missing__"}', -32601, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"$/cancelRequest","params":{"id":1}}', -32601, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"understudy/version","params":[1]}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"understudy/version","params":{"x":1}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"understudy/version","params":{"caller":1,"self":2}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"understudy/delegations/get","params":{"id":7}}', -32602, 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"understudy/delegations/get","params":{"id":"zzzzz"}}', 1001, 5),
        (b'{"jsonrpc":"2.0","id":null,"method":"understudy/nothing"}', -32601, None),
    ],
)
def test_each_mistake_has_its_code(message: bytes, code: int, identifier: Any) -> None:
    (answer,) = served(message + b"\n")
    assert (answer["error"]["code"], answer["id"]) == (code, identifier)


def test_our_errors_carry_kind_and_hint_and_near_names() -> None:
    (answer,) = served(line(VERSION | {"method": "understudy/delegations/lst"}))
    assert answer["error"]["data"]["kind"] == "unknown_method"
    assert "delegations/list" in answer["error"]["data"]["names"]


def test_a_batch_is_answered_as_one() -> None:
    batch = [
        VERSION,
        5,
        VERSION | {"id": 2, "method": "x"},
        {"jsonrpc": "2.0", "method": "understudy/version"},
        VERSION | {"id": 3},
    ]
    (answers,) = served(line(batch))
    assert Counter(str(answer["id"]) for answer in answers) == Counter(["1", "None", "2", "3"])


def test_notifications_and_responses_and_blank_lines_get_no_answer() -> None:
    notification = {"jsonrpc": "2.0", "method": "understudy/version"}
    assert (
        served(line(notification), line([notification]), b"\n \r\n", line({"jsonrpc": "2.0", "id": 1, "result": 2}))
        == []
    )


def test_too_long_a_batch_is_one_mistake() -> None:
    (answer,) = served(line([1] * 10_000))
    assert answer["error"]["code"] == -32600


def test_a_message_that_is_too_long_is_skipped_and_the_next_one_served() -> None:
    refused, answer = served(b'{"jsonrpc":"' + b"x" * 5_000_000 + b'"}\n' + line(VERSION))
    assert refused["error"]["code"] == -32700
    assert answer["id"] == 1


def test_the_same_id_twice_is_two_requests() -> None:
    assert [answer["id"] for answer in served(line(VERSION), line(VERSION))] == [1, 1]


def test_a_last_line_without_newline_counts() -> None:
    assert served(json.dumps(VERSION).encode())[0]["id"] == 1


def test_a_fault_is_answered_in_a_sentence_and_kept_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.jsonrpcserver, "dispatch_to_serializable", lambda *_, **__: {"text": object()})
    (answer,) = served(line(VERSION))
    assert answer["error"]["data"]["kind"] == "internal"
    assert "Traceback" not in json.dumps(answer)
    assert answer["error"]["data"]["logPaths"][0].endswith("internal-errors.log")


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
ids = scalars | st.lists(scalars, max_size=1)
requests = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2.0, None]),
        "id": ids,
        "method": st.sampled_from(["understudy/version", "understudy/x", "version", "$/cancelRequest", "", 7]),
        "params": scalars | st.dictionaries(st.text(max_size=3), scalars, max_size=2) | st.lists(scalars, max_size=2),
        "result": scalars,
        "extra": scalars,
    },
)
messages = requests | scalars | st.lists(requests | scalars, max_size=4)
lines = st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")) | messages.map(
    lambda found: json.dumps(found).encode()
)


def due(message: Any) -> list[Any] | None:
    """The ids that must be answered for one message, by the specification; None: no answer at all."""
    if isinstance(message, list) and message:
        found = [identifier for item in message for identifier in (due_one(item) or [])]
        return found or None
    return due_one(message)


def due_one(message: Any) -> list[Any] | None:
    if not isinstance(message, dict):
        return [None]
    if "method" not in message and "result" in message:
        return None
    identifier = message.get("id")
    is_id = identifier is None or (isinstance(identifier, str | int | float) and not isinstance(identifier, bool))
    well = message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str) and is_id
    well = well and isinstance(message.get("params"), dict | list | None)
    if message.get("method") == "$/cancelRequest" and "id" not in message:
        return None
    if well and "id" not in message:
        return None
    return [identifier if is_id else None]


@settings(max_examples=150, deadline=None)
@given(st.lists(lines, max_size=6), st.integers(1, 50))
def test_whatever_arrives_every_request_gets_exactly_one_answer(sent: list[bytes], piece: int) -> None:
    data = b"\n".join(sent)
    direct = Direct()
    for start in range(0, len(data), piece):
        direct.session.feed(data[start : start + piece])
    direct.session.end()
    expected: Counter[str] = Counter()
    for raw in data.split(b"\n"):
        if not raw.strip():
            continue
        try:
            owed = due(parse(raw))
        except Malformed:
            owed = [None]
        expected.update(json.dumps(identifier) for identifier in owed or [])
    answers = [one for answer in direct.answers() for one in (answer if isinstance(answer, list) else [answer])]
    assert Counter(json.dumps(answer["id"]) for answer in answers) == expected
    assert all(("result" in answer) != ("error" in answer) and answer["jsonrpc"] == "2.0" for answer in answers)


def test_many_requests_at_once_are_all_answered(rpc) -> None:
    client = rpc()
    client.write(b"".join(line(VERSION | {"id": number}) for number in range(3000)))
    answers = client.end()
    assert sorted(answer["id"] for answer in answers) == list(range(3000))
    assert all("result" in answer for answer in answers)


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00", "\\ud83d\\ud83d\\ude00"])
def test_a_request_with_half_a_surrogate_pair_is_answered_by_its_id(rpc, half) -> None:
    client = rpc()
    params = {"text": f"?{half}", "id": half}
    message = {"jsonrpc": "2.0", "id": 7, "method": "understudy/delegations/get", "params": params}
    client.write(json.dumps(message).replace("\\\\", "\\").encode() + b"\n")
    answer = client.next()
    assert (answer["id"], answer["error"]["data"]["kind"]) == (7, "invalid_params")
    client.ask(8, "version")
    assert client.next()["id"] == 8
    assert client.end() == []


def test_a_request_that_waits_can_be_withdrawn(rpc, journal) -> None:
    writer = journal()
    client = rpc()
    client.ask(7, "delegations/wait", {"id": writer.folder.id})
    client.write(line({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 99}}))
    client.write(line({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 7}}))
    answer = client.next()
    assert (answer["id"], answer["error"]["code"]) == (7, -32800)
    assert client.end() == []


def test_a_hundred_waits_do_not_keep_a_quick_request_waiting(rpc, journal) -> None:
    writer = journal()
    client = rpc()
    for number in range(100):
        client.ask(number, "delegations/wait", {"id": writer.folder.id})
    client.ask("quick", "version")
    assert client.next()["id"] == "quick"
    writer.append(e.Finished(verdict="cancelled", reservations=[]), attempt=0)
    # A worker that has ended holds no lock.
    fcntl.flock(writer._lock, fcntl.LOCK_UN)
    assert {client.next()["id"] for _ in range(100)} == set(range(100))
    assert client.end() == []


def test_running_requests_are_finished_or_cancelled_at_the_end_of_the_stream(rpc, journal, monkeypatch) -> None:
    monkeypatch.setattr(session, "FINISH_SECONDS", 0.2)
    writer = journal()
    started = time.monotonic()
    (answer,) = served(
        line({"jsonrpc": "2.0", "id": 3, "method": "understudy/delegations/wait", "params": {"id": writer.folder.id}})
    )
    assert answer["error"]["code"] == -32800
    assert time.monotonic() - started < 60


def test_a_request_that_ignores_cancellation_is_answered_exactly_once(monkeypatch) -> None:
    monkeypatch.setattr(session, "FINISH_SECONDS", 0.1)
    monkeypatch.setattr(session, "CANCEL_SECONDS", 0.1)
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def stubborn(message: Any, caller: Any) -> bytes:
        begun.set()
        release.wait(20)
        return line({"jsonrpc": "2.0", "id": 1, "result": {}})

    monkeypatch.setattr(session, "answer", stubborn)
    finish = session.Request.finish

    def watched(request: Any, response: bytes | None, error: Any = None) -> None:
        finish(request, response, error)
        if response is not None:
            ended.set()

    monkeypatch.setattr(session.Request, "finish", watched)
    direct = Direct()
    direct.session.feed(line(VERSION))
    assert begun.wait(20)
    direct.session.end()
    release.set()
    assert ended.wait(20)
    assert [answer["error"]["code"] for answer in direct.answers()] == [-32800]


def test_nothing_that_is_printed_comes_between_two_messages(tmp_path: Path) -> None:
    program = (
        "import os,sys; from understudy.frontends import rpc; from understudy.api.handlers.setup import overview as i\n"
    )
    program += "import functools; real = i.version\n@functools.wraps(real)\n"
    program += "def loud(caller, params):\n print('oops'); os.write(1, b'oops'); os.system('echo oops'); return real(caller, params)\n"
    program += "i.version = loud\nsys.exit(rpc.serve_stdio())\n"
    found = subprocess.run(
        [sys.executable, "-c", program], input=line(VERSION), capture_output=True, timeout=60, check=True
    )
    assert json.loads(found.stdout)["id"] == 1
    assert found.stdout.count(b"\n") == 1
    assert found.stderr.count(b"oops") == 3


def test_a_client_that_goes_away_ends_the_server(journal) -> None:
    waits = line(VERSION | {"method": "understudy/delegations/wait", "params": {"id": journal().folder.id}})
    reading, writing = os.pipe()
    # It must not give the request the time that it would get at the end of the stream.
    program = "import sys; from understudy.frontends import rpc; from understudy.frontends.rpc import session\n"
    program += "session.FINISH_SECONDS = 600.0\nsys.exit(rpc.serve_stdio())\n"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE
    ) as server:
        os.close(writing)
        os.close(reading)
        server.stdin.write(waits + line(VERSION))
        server.stdin.close()
        assert server.wait(timeout=60) == 0
        assert b"Traceback" not in server.stderr.read()


@pytest.fixture
def serving(rpc, tmp_path: Path):
    path = tmp_path / "own" / "s"
    client = rpc("--socket", str(path))
    assert b"Listening" in client.process.stderr.readline()
    return client, path


def asked(path: Path, message: bytes = line(VERSION)) -> Any:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while data := connection.recv(65536):
            found += data
        return json.loads(found)


def test_the_socket_is_its_owners_alone_and_goes_with_its_server(serving) -> None:
    client, path = serving
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert asked(path)["id"] == 1
    assert asked(path)["id"] == 1
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(timeout=60) == 0
    assert not path.exists()


def run_rpc(path: Path) -> subprocess.CompletedProcess[bytes]:
    command = ["rpc", "--socket", str(path)]
    return forked.run(command, capture_output=True, timeout=60, check=False)


def test_a_living_server_keeps_its_socket(serving) -> None:
    _, path = serving
    refused = run_rpc(path)
    assert refused.returncode == 8
    assert b"A server is already listening on this socket" in refused.stderr
    assert asked(path)["id"] == 1


def test_the_socket_of_a_dead_server_is_replaced(serving, rpc) -> None:
    client, path = serving
    client.process.kill()
    client.process.wait()
    assert path.exists()
    second = rpc("--socket", str(path))
    assert b"Listening" in second.process.stderr.readline()
    assert asked(path)["id"] == 1


def test_a_file_is_no_socket_and_a_shared_folder_no_place(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    assert b"not a socket" in run_rpc(precious).stderr
    assert precious.read_text() == "x"
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert b"Other users can write" in run_rpc(shared / "s").stderr
    assert run_rpc(tmp_path / ("x" * 120)).returncode == 8


def test_a_stranger_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.frontends.rpc import listeners
    from understudy.process import identity

    ours, theirs = socket.socketpair(socket.AF_UNIX)
    assert identity.peer_uid(ours) == os.getuid()
    monkeypatch.setattr(listeners.caller, "peer_uid", lambda _: os.getuid() + 1)
    listeners._admit(ours, threading.BoundedSemaphore(1))
    theirs.settimeout(5)
    assert theirs.recv(1) == b""
    theirs.close()
