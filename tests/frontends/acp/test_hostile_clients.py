"""Whatever a client sends, each of its requests gets exactly one answer, and the agent goes on."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from queue import Queue

import forked
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ASK = {"jsonrpc": "2.0", "id": "the end", "method": "initialize", "params": {"protocolVersion": 1}}
METHODS = [
    *("initialize", "authenticate", "session/new", "session/load", "session/list", "session/prompt", "session/cancel"),
    *(
        "session/set_mode",
        "session/set_config_option",
        "session/close",
        "session/resume",
        "session/fork",
        "_x",
        "",
        "?",
    ),
]


class Raw:
    """The agent, and lines of bytes."""

    def __init__(self, folder) -> None:
        self.process = forked.Forked(
            ["acp"],
            cwd=folder,
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._lines: Queue[bytes] = Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.rounds = 0

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)

    def send(self, *lines: bytes) -> None:
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def answers(self, *lines: bytes, expected: int) -> list[dict]:
        """Send lines, and return the answers to them; the agent must still answer a request after them."""
        self.rounds += 1
        end = f"end {self.rounds}"
        found: list[dict] = []
        self.send(*lines)
        while len(found) < expected:
            found.append(self._answer())
        self.send(json.dumps({**ASK, "id": end}).encode())
        last = self._answer()
        assert (last["id"], "result" in last) == (end, True), last
        return found

    def _answer(self) -> dict:
        while True:
            message = json.loads(self._lines.get(timeout=60))
            if "method" not in message:
                return message

    def close(self) -> int:
        self.process.stdin.close()
        code = self.process.wait(60)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        return code


@pytest.fixture
def raw(stage):
    made = Raw(stage.top)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One agent for all examples of a property; its homes are not those of a test, which change."""
    folder = tmp_path_factory.mktemp("agent")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "UNDERSTUDY_STATE"):
            place = folder / name.lower()
            place.mkdir(mode=0o700)
            patch.setenv(name, str(place))
        made = Raw(folder)
    yield made
    assert made.close() == 0


def request(number: object, method: object, params: object = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


JUNK = {
    "not JSON": b"{",
    "not UTF-8": b'{"id": 1, "method": "\xff"}',
    "deep": b"[" * 100_000,
    "an array": b"[]",
    "a batch": b"[" + request(1, "initialize", {"protocolVersion": 1}) + b"]",
    "a number": b"1",
    "a duplicate key": b'{"id": 1, "id": 2, "method": "initialize"}',
    "a huge number": b'{"id": 1e999, "method": "initialize"}',
    "an object as id": request({}, "initialize"),
    "null as id": request(None, "initialize"),
    "true as id": request(True, "initialize"),
    "no method": b'{"id": "x"}',
    "a number as method": request(1, 7),
    "an unknown method": request(1, "understudy/version"),
    "no parameters": request(1, "session/new"),
    "an array as parameters": request(1, "session/new", []),
    "a relative folder": request(1, "session/new", {"cwd": "..", "mcpServers": []}),
    "a NUL in the folder": request(1, "session/new", {"cwd": "/\0", "mcpServers": []}),
    "meta that names parameters": request(1, "session/new", {"cwd": "/", "mcpServers": [], "_meta": {"self": 1}}),
    "an unknown session": request(1, "session/prompt", {"sessionId": "x", "prompt": [{"type": "text", "text": "x"}]}),
    "an unknown session to load": request(1, "session/load", {"sessionId": "../x", "cwd": "/", "mcpServers": []}),
    "an unknown content": request(1, "session/prompt", {"sessionId": "x", "prompt": [{"type": "smell"}]}),
    "a login": request(1, "authenticate", {"methodId": "x"}),
    "an extension": request(1, "_x/y", {}),
}


def test_a_malformed_message_is_answered_once(raw) -> None:
    for name, message in JUNK.items():
        [answer] = raw.answers(message, expected=1)
        assert answer["error"]["message"], name
    raw.process.stdin.close()
    assert raw.process.wait(60) == 0
    assert b"Traceback" not in raw.process.stderr.read()


def test_what_needs_no_answer_gets_none(raw) -> None:
    silent = [
        b"",
        b"   ",
        b'{"method": "session/cancel", "params": {"sessionId": "x"}}',
        b'{"method": "session/cancel"}',
        b'{"method": "nothing/such"}',
        b'{"method": 7}',
        b'{"id": 99, "result": {}}',
        b'{"id": [1], "result": {}}',
        b'{"id": 99, "error": "no"}',
        b'{"result": {}}',
        b"{}",
    ]
    assert raw.answers(*silent, expected=0) == []


def test_a_message_that_is_too_long_is_skipped(raw) -> None:
    long = b'{"id": 1, "method": "' + b"x" * (17 * 1024 * 1024) + b'"}'
    [answer] = raw.answers(long, expected=1)
    assert "bytes at most" in answer["error"]["message"]


def test_two_requests_with_one_id_get_two_answers(raw) -> None:
    found = raw.answers(*[request(7, "initialize", {"protocolVersion": 1})] * 2, expected=2)
    assert [one["id"] for one in found] == [7, 7]


def test_too_many_requests_at_once_are_all_answered(raw) -> None:
    sent = [request(number, "session/new", {"cwd": "/", "mcpServers": []}) for number in range(300)]
    found = raw.answers(*sent, expected=300)
    assert sorted(one["id"] for one in found) == list(range(300))


def test_requests_before_the_end_of_the_stream_are_answered(stage) -> None:
    lines = [request(1, "session/new", {"cwd": str(stage.top), "mcpServers": []}), request(2, "session/list", {})]
    done = forked.run(
        ["acp"],
        check=False,
        input=b"\n".join(lines),
        capture_output=True,
        timeout=60,
        cwd=stage.top,
    )
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(one["id"] for one in answers if "id" in one) == [1, 2]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["cwd", "sessionId", "prompt", "mcpServers", "_meta", "type", "text", "uri", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.heavy
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(METHODS), VALUES), min_size=1, max_size=8))
def test_each_request_is_answered_once_whatever_its_parameters(shared, calls) -> None:
    sent = [request(number, method, params) for number, (method, params) in enumerate(calls)]
    found = shared.answers(*sent, expected=len(sent))
    assert sorted(one["id"] for one in found) == list(range(len(calls)))
    assert all(("result" in one) != ("error" in one) for one in found)
