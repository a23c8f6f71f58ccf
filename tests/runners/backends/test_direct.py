"""Test requests to a model server from a thread that waits: limits, cancelling, and what a server never ends."""

import contextlib
import socket
import threading

import agent_model_server as scripted
import pytest
from model_tasks import model_task, waited_outcome_of
from wait_until import until

from understudy.model.config.delegators import Limits, ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends import direct
from understudy.runners.driver.source import THREAD
from understudy.runners.runner import Outcome

KEY = "sk-test-SECRET/SECRET+SECRET1234567"


@pytest.fixture(scope="module")
def server():
    with scripted.ModelServer() as running:
        yield running


def entry(server) -> ModelServer:
    return ModelServer(name="scripted", kind="custom", base_url=server.base_url)


@pytest.mark.parametrize("model", ["good", "odd_chunks", "thinking", "429_once", "refuse_once", "echo_key"])
def test_answers_arrive_whole(server, tmp_path, model):
    outcome, events = waited_outcome_of(model_task(entry(server), tmp_path, model=model, key=lambda: KEY))
    assert isinstance(outcome, Outcome), outcome
    assert model == "echo_key" or outcome.text == scripted.TEXT
    assert "SECRET" not in f"{outcome} {events}"


@pytest.mark.parametrize(
    ("model", "limits", "kind"),
    [
        ("silent", {"total_seconds": 0.3}, "timed_out"),
        ("slow", {"total_seconds": 0.3}, "timed_out"),
        ("silent", {"first_event_seconds": 0.3}, "stalled"),
        ("comments", {"idle_seconds": 0.3}, "stalled"),
        ("good", {"max_tokens": 20}, "budget_exhausted"),
        ("cut", {}, "stream_truncated"),
        ("401", {}, "auth_failed"),
        ("redirect", {}, "connection_failed"),
    ],
)
def test_every_fault_is_its_own_kind(server, tmp_path, model, limits, kind):
    limits = Limits(**({"total_seconds": 60, "first_event_seconds": 60, "idle_seconds": 60} | limits))
    error, _ = waited_outcome_of(model_task(entry(server), tmp_path, model=model, limits=limits))
    assert isinstance(error, UnderstudyError), error
    assert error.kind == kind


@pytest.mark.parametrize("model", ["stall", "silent", "500"])
def test_a_request_ends_when_it_is_cancelled(server, tmp_path, model):
    sent = len(server.requests)
    with pytest.raises(UnderstudyError) as caught:
        direct.answer(
            model_task(entry(server), tmp_path, model=model, limits=Limits()),
            lambda _: None,
            lambda: len(server.requests) > sent,
            backoff_seconds=60.0,
        )
    assert caught.value.kind is ErrorKind.CANCELLED
    until(lambda: not any(one.name == THREAD for one in threading.enumerate()))
    assert len(server.requests) == sent + 1


def test_connecting_ends_when_it_is_cancelled(tmp_path):
    with contextlib.ExitStack() as opened:
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # the system accepts for it, up to its backlog
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        server = ModelServer(name="s", kind="custom", base_url=f"http://127.0.0.1:{full.getsockname()[1]}/v1")
        with pytest.raises(UnderstudyError) as caught:
            direct.answer(
                model_task(server, tmp_path), lambda _: None, iter([False, False, False, False, True]).__next__
            )
    assert caught.value.kind is ErrorKind.CANCELLED
