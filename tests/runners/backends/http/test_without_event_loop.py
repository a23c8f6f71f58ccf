"""Test requests to model servers without an event loop: the same endings, and connections that are used again."""

import contextlib
import socket
import threading
import time

import pytest
from msgspec import structs
from wait_until import until

from understudy.model.config.delegators import Delegator, Limits, ModelServer, Scope
from understudy.model.config.recipes import AppliesTo, Recipe
from understudy.model.delegation.events import Note
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends.http import blocking_http
from understudy.runners.driver import clock
from understudy.runners.model_loop.loop_runner import Runner
from understudy.runners.runner import Outcome, Task
from understudy.testing import model_server as scripted

KEY = "sk-test-SECRET/SECRET+SECRET1234567"
PATIENT = Limits(total_seconds=60, idle_seconds=60, first_event_seconds=60)


@pytest.fixture(scope="module")
def server():
    with scripted.ModelServer() as running:
        yield running


def a_task(server, model, tmp_path, **more) -> Task:
    entry = more.pop("model_server", None) or ModelServer(name="scripted", kind="custom", base_url=server.base_url)
    values = {
        "delegation_id": "d1",
        "recipe": Recipe(
            name="ask", title="Ask", returns="text", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
        ),
        "prompt": "What is this?",
        "prompt_file": tmp_path / "prompt.md",
        "worktree": None,
        "delegator": Delegator(name="cheap", model=model, model_server="scripted"),
        "model_server": entry,
        "limits": PATIENT,
        "key": lambda: KEY,
    }
    return Task(**(values | more))


def ask(task, backoff=0.01, look=None):
    events = []
    try:
        return clock.run_alone(Runner(backoff_seconds=backoff).run(task, events.append), look), events
    except UnderstudyError as error:
        return error, events


@pytest.mark.parametrize(
    "model",
    [
        *("good", "no_done", "done_only", "not_streamed", "odd_chunks", "crlf", "split", "slow_headers", "thinking"),
        *("no_stream_options", "zero_events", "error_first", "429_once", "500_once", "refuse_once"),
    ],
)
def test_answers_arrive_whole(server, tmp_path, model):
    outcome, _ = ask(a_task(server, model, tmp_path))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == scripted.TEXT


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("cut", "stream_truncated"),
        ("cut_clean", "stream_truncated"),
        ("reset", "stream_truncated"),
        ("zero_forever", "stream_truncated"),
        ("stall", "stalled"),
        ("comments", "stalled"),
        ("slow_loris", "timed_out"),
        ("silent", "timed_out"),
        ("silent_comments", "timed_out"),
        ("error_midstream", "overloaded"),
        ("length", "output_truncated"),
        ("401", "auth_failed"),
        ("429", "rate_limited"),
        ("500", "overloaded"),
        ("html", "malformed_output"),
        ("redirect", "connection_failed"),
        ("endless_line", "malformed_output"),
        ("endless_events", "malformed_output"),
        ("huge_header", "malformed_output"),
        ("bad_json", "malformed_output"),
    ],
)
def test_every_fault_is_its_own_kind(server, tmp_path, model, kind):
    server.times.clear()
    limits = PATIENT
    if model in {"stall", "comments"}:
        limits = structs.replace(limits, idle_seconds=0.4)
    elif model in {"slow_loris", "silent", "silent_comments"}:
        limits = structs.replace(limits, first_event_seconds=1)
    error, _ = ask(a_task(server, model, tmp_path, limits=limits))
    assert isinstance(error, UnderstudyError), error
    assert error.kind == kind
    assert "SECRET" not in f"{error.message} {error.hint}"
    expected = 3 if model in {"zero_forever", "429", "500"} else 1
    until(lambda: server.times[model] >= expected)
    assert server.times[model] == expected


@pytest.mark.parametrize("model", ["slow_loris", "slow", "500", "silent"])
def test_a_total_limit_ends_pauses_and_streams_alike(server, tmp_path, model):
    limits = Limits(total_seconds=0.3, first_event_seconds=30, idle_seconds=30)
    error, _ = ask(a_task(server, model, tmp_path, limits=limits), backoff=30.0)
    assert isinstance(error, UnderstudyError)
    assert (error.kind, "total_seconds" in error.message) == (ErrorKind.TIMED_OUT, True)


@pytest.mark.parametrize("model", ["stall", "silent", "500"])
def test_a_request_ends_when_it_is_cancelled(server, tmp_path, model):
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    with pytest.raises(clock.Stopped):
        ask(a_task(server, model, tmp_path), backoff=60.0, look=stop.is_set)
    assert time.monotonic() - began < 20


def test_connecting_ends_when_it_is_cancelled(server, tmp_path):
    with contextlib.ExitStack() as opened:
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # the system accepts for it, up to its backlog
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        entry = ModelServer(name="s", kind="custom", base_url=f"http://127.0.0.1:{full.getsockname()[1]}/v1")
        with pytest.raises(clock.Stopped):
            ask(a_task(server, "good", tmp_path, model_server=entry), look=iter([False, False, True]).__next__)


class KeepsAlive:
    """A server that answers many requests on one connection, and keeps what it got."""

    def __init__(self, answers_before_closing: int = 1000, then: bytes = b"") -> None:
        self.requests: list[tuple[int, dict[str, str]]] = []
        """Number of the connection, and the headers."""
        self._most, self._then = answers_before_closing, then
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(len(self._open), connection), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, number: int, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            for number_of_request in range(1000):
                if number_of_request == self._most and not self._then:
                    return
                first = reader.readline()
                if not first:
                    return
                headers = {}
                while (line := reader.readline()) not in {b"\r\n", b""}:
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                reader.read(int(headers.get("content-length", 0)))
                self.requests.append((number, headers))
                if number_of_request == self._most:
                    connection.sendall(self._then)
                    return
                event = b'data: {"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nSet-Cookie: who=first; Path=/\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n" + f"{len(event):x}\r\n".encode() + event + b"\r\n0\r\n\r\n"
                )

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def entry(self, name="s", host="127.0.0.1", **more) -> ModelServer:
        return ModelServer(name=name, kind="custom", base_url=f"http://{host}:{self.port}/v1", **more)


@pytest.fixture
def kept():
    running = KeepsAlive()
    yield running
    running.close()


def test_connections_are_used_again_and_share_nothing_of_a_request(kept, tmp_path):
    for key, name in (("sk-first-KEY-1234567890", "first"), ("sk-second-KEY-1234567890", "second"), (None, "none")):
        delegator = Delegator(name=name, model="any", model_server="s")
        outcome, _ = ask(
            a_task(None, "any", tmp_path, delegator=delegator, model_server=kept.entry(), key=lambda key=key: key)
        )
        assert outcome.text == "Yes."
    assert [number for number, _ in kept.requests] == [1, 1, 1]
    sent = [headers.get("authorization") for _, headers in kept.requests]
    assert sent == ["Bearer sk-first-KEY-1234567890", "Bearer sk-second-KEY-1234567890", None]
    assert [headers for _, headers in kept.requests if "cookie" in headers] == []


def test_requests_at_once_have_connections_of_their_own(kept, tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(a_task(None, "any", tmp_path, model_server=kept.entry()))))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [outcome.text for outcome, _ in found] == ["Yes."] * 12


def test_another_name_or_environment_is_another_client(kept, tmp_path, monkeypatch):
    ask(a_task(None, "any", tmp_path, model_server=kept.entry()))
    ask(a_task(None, "any", tmp_path, model_server=kept.entry(host="localhost")))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    ask(a_task(None, "any", tmp_path, model_server=kept.entry()))
    numbers = [number for number, _ in kept.requests]
    assert len(set(numbers)) == 3
    assert [headers["host"].partition(":")[0] for _, headers in kept.requests] == [
        *("127.0.0.1", "localhost", "127.0.0.1")
    ]


def test_a_connection_that_the_server_closed_meanwhile_is_replaced_unseen(tmp_path):
    closing = KeepsAlive(answers_before_closing=1)
    try:
        for _ in range(4):
            outcome, events = ask(a_task(None, "any", tmp_path, model_server=closing.entry()))
            assert outcome.text == "Yes."
            assert not any(isinstance(event, Note) for event in events)
    finally:
        closing.close()
    assert len(closing.requests) == 4


def test_an_answer_that_is_not_http_is_not_asked_for_again(tmp_path):
    odd = KeepsAlive(answers_before_closing=1, then=b"this is not HTTP\r\n\r\n")
    try:
        assert ask(a_task(None, "any", tmp_path, model_server=odd.entry()))[0].text == "Yes."
        error, _ = ask(a_task(None, "any", tmp_path, model_server=odd.entry()))
    finally:
        odd.close()
    assert error.kind is ErrorKind.MALFORMED_OUTPUT
    assert [number for number, _ in odd.requests] == [1, 1]


def test_a_server_that_answers_nothing_is_asked_as_often_as_allowed(tmp_path):
    silent = KeepsAlive(answers_before_closing=0)
    try:
        error, events = ask(a_task(None, "any", tmp_path, model_server=silent.entry()))
    finally:
        silent.close()
    assert error.kind is ErrorKind.CONNECTION_FAILED
    assert sum(isinstance(event, Note) for event in events) == 2


def test_few_clients_are_kept(kept, tmp_path):
    for number in range(blocking_http.MOST_CLIENTS + 3):
        entry = kept.entry(host=f"number{number}.localhost")
        assert ask(a_task(None, "any", tmp_path, model_server=entry))[0].text == "Yes."
    assert len(blocking_http._clients) == blocking_http.MOST_CLIENTS


def test_a_proxy_of_the_environment_is_used_for_other_machines(kept, tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{kept.port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    entry = ModelServer(name="s", kind="custom", base_url="http://192.0.2.7:9/v1")
    outcome, _ = ask(a_task(None, "any", tmp_path, model_server=entry))
    assert outcome.text == "Yes."
    assert kept.requests[0][1]["host"] == "192.0.2.7:9"
    assert KEY in kept.requests[0][1]["authorization"]
