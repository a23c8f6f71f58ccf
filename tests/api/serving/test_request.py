"""A request is started once, answered once, and cancellable at any time; their number is limited."""

from __future__ import annotations

import json
import threading

from wait_until import until

from understudy.api import method_table
from understudy.api.serving import request as pending
from understudy.frontends.rpc import session
from understudy.model.errors import ErrorKind, UnderstudyError


class Asked(pending.InFlightRequest):
    def __init__(self) -> None:
        super().__init__()
        self.answers: list[ErrorKind] = []

    def refuse(self, error: UnderstudyError) -> None:
        if self.first_to_answer():
            self.answers.append(error.kind)


def test_what_has_not_begun_is_answered_at_once_when_it_is_taken_back():
    asked = Asked()
    asked.cancel()
    assert asked.answers == [ErrorKind.CANCELLED]
    assert asked.finished
    assert not asked.begins()


def test_what_runs_is_told_that_it_is_taken_back_and_answers_itself():
    asked = Asked()
    assert asked.begins()
    assert not asked.cancelled()
    asked.cancel()
    assert asked.cancelled()
    assert asked.answers == []
    assert asked.first_to_answer()
    assert not asked.first_to_answer()


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
