"""A request is started once, answered once, and cancellable at any time; their number is limited."""

from __future__ import annotations

import json
import threading

from wait_until import until

from understudy.api import method_table
from understudy.api.serving import request as pending
from understudy.frontends.rpc import session
from understudy.model.errors import ErrorKind


def asked(answers: list[ErrorKind]) -> pending.InFlightRequest:
    return pending.InFlightRequest("understudy/version", {}, lambda _, error: answers.append(error and error.kind))


def test_what_has_not_begun_is_answered_at_once_when_it_is_taken_back():
    answers: list[ErrorKind] = []
    request = asked(answers)
    request.cancel()
    assert answers == [ErrorKind.CANCELLED]
    assert request.finished
    request.run()
    assert answers == [ErrorKind.CANCELLED]


def test_what_runs_is_told_that_it_is_taken_back_and_answers_itself(monkeypatch):
    answers: list[ErrorKind] = []
    request = asked(answers)

    def handler(name: str, params: object, caller: pending.InFlightRequest) -> None:
        assert not caller.cancelled()
        caller.cancel()
        assert caller.cancelled()
        assert answers == []

    monkeypatch.setattr(method_table, "call", handler)
    request.run()
    request.finish(None, pending.cancelled_error())
    assert answers == [None]


def test_requests_beyond_the_limit_are_refused(monkeypatch):
    go = threading.Event()
    monkeypatch.setattr(method_table, "call", lambda *_: go.wait(30))
    monkeypatch.setattr(pending, "MAX_IN_FLIGHT", 3)
    monkeypatch.setattr(session, "ROOM_SECONDS", 0.01)
    lines: list[bytes] = []
    client = session.Session(lines.append, session.Peer(None, None, {}))
    for number in range(4):
        request = {"jsonrpc": "2.0", "id": number, "method": "understudy/version", "params": {}}
        client.feed(json.dumps(request).encode() + b"\n")
    until(lambda: lines, "a refusal")
    [answer] = [json.loads(line) for line in lines]
    assert (answer["id"], answer["error"]["data"]["kind"]) == (3, "overloaded")
    go.set()
    client.end()
    assert sorted(json.loads(line)["id"] for line in lines) == [0, 1, 2, 3]
