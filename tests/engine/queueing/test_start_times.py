"""A delegation that starts later: at a moment, or at the end of the first pause of those that can do it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
import wait_until

from understudy.engine.queueing import launcher, start_conditions
from understudy.journal import delegation_folder, reader
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.wire import timestamp
from understudy.store import store

QUICK = "sys.stdin.read()\nsay(type='result', ok=True, text='Done.')"
BUSY = """
    sys.stdin.read()
    say(type="result", ok=False, error={"kind": "quota_exhausted", "message": "No credit."})
"""


@pytest.fixture
def quick(project):
    project.program("quick", QUICK)
    return project


def later(**amount):
    return timestamp(datetime.now(UTC) + timedelta(**amount), "seconds")


def start(project, **params):
    return project.start("ask", delegator="quick", task="x", **params)


def test_it_waits_until_its_moment_and_starts_although_no_client_lives(quick):
    moment = datetime.now(UTC) + timedelta(seconds=3)
    identifier = start(quick, startAt=timestamp(moment, "seconds"))
    waiting = quick.call("delegations/get", id=identifier)
    assert (waiting.state, waiting.start_at) == ("queued", timestamp(moment, "seconds"))
    assert waiting.activity.startswith("waiting until ")
    folder = delegation_folder.open_folder(identifier)
    wait_until.until(lambda: reader.peek(folder).state is State.FINISHED, "the timer starts it")
    done = quick.finish(identifier)
    assert done.verdict == "answered"
    began = datetime.fromisoformat(done.attempts[0].started_at)
    assert began >= moment.replace(microsecond=0), "the process of the queue started it, and not before"


def test_a_moment_in_the_past_is_now(quick):
    done = quick.finish(start(quick, startAt=later(hours=-1)))
    assert (done.verdict, done.start_at) == ("answered", None)


def test_what_waits_for_a_moment_takes_no_slot_from_others(quick):
    quick.settings("[limits]\nslots = 1\n")
    waits = start(quick, startAt=later(days=2))
    assert quick.finish(start(quick)).verdict == "answered"
    assert quick.call("delegations/cancel", id=waits).verdict == "cancelled"
    root = delegation_folder.state_root()
    assert start_conditions.next_moment(root) is None


def test_the_moments_are_known_again_after_the_store_was_lost(quick):
    waits = start(quick, startAt=later(days=2))
    root = delegation_folder.state_root()
    (root / store.NAME).unlink()
    launcher.start_waiting(root)
    assert start_conditions.next_moment(root) > time.time() + 24 * 3600
    assert quick.call("delegations/get", id=waits).state == "queued", "it did not start early"
    quick.call("delegations/cancel", id=waits)


def test_what_cannot_start_at_its_moment_is_not_tried_in_a_loop(own_home, monkeypatch):
    root, moments, waited = delegation_folder.state_root(), [time.time() - 60, time.time() - 60, None, None], []
    monkeypatch.setattr(start_conditions, "next_moment", lambda _: moments.pop(0))
    monkeypatch.setattr(launcher, "start_waiting", lambda _: False)
    monkeypatch.setattr(launcher.change_notifications.ChangeListener, "wait", lambda _, seconds: waited.append(seconds))
    launcher.serve_moments(root, launcher.durable.try_lock(launcher._timer_lock(root)))
    assert len(waited) == 2
    assert min(waited) > 0.1


@pytest.mark.parametrize("text", ["22:00", "2026-11-21", "soon", "2026-11-21T22:00:00", "9999-01-01T00:00:00Z"])
def test_a_time_that_is_not_one_is_refused(quick, text):
    with pytest.raises(UnderstudyError) as caught:
        start(quick, startAt=text)
    assert (caught.value.kind, caught.value.parameter) == (ErrorKind.INVALID_PARAMS, "startAt")


def paused(project, name):
    project.program(name, BUSY)
    for _ in range(3):
        project.run("ask", delegator=name, task="x", fallback=[])
    [entry] = [one for one in project.call("delegators/list").delegators if one.delegator.name == name]
    [pause] = entry.state.pauses
    return pause.until


def test_while_all_are_paused_it_waits_for_the_end_of_the_first_pause(quick):
    until = paused(quick, "empty")
    at_once = quick.call("delegations/preview", recipe="ask", task="x", delegator="empty", workspace=str(quick.top))
    assert "waits" not in at_once.explain.reason
    waits = quick.start("ask", delegator="empty", task="x", when="quota")
    waiting = quick.call("delegations/get", id=waits)
    assert (waiting.state, waiting.start_at) == ("queued", until)
    quick.call("delegations/cancel", id=waits)
    followed = quick.start("ask", delegator="empty", fallback=["quick"], task="x", when="quota")
    assert quick.finish(followed).attempts[-1].delegator == "quick", "another one can do it now"


def test_a_route_can_wait(quick):
    paused(quick, "empty")
    routes = quick.config / "routes"
    routes.mkdir()
    (routes / "patient.toml").write_text('candidates = ["empty"]\nwait = true\n')
    shown = quick.call("delegations/preview", recipe="ask", task="x", delegator="patient", workspace=str(quick.top))
    assert "all that can do it are paused, so it waits until" in shown.explain.reason
    waits = quick.start("ask", delegator="patient", task="x")
    waiting = quick.call("delegations/get", id=waits)
    assert waiting.state == "queued"
    quick.call("delegations/cancel", id=waits)


def test_a_retry_starts_at_once(quick):
    waits = start(quick, startAt=later(days=2))
    quick.call("delegations/cancel", id=waits)
    again = quick.call("delegations/retry", id=waits).id
    assert quick.finish(again).verdict == "answered"
