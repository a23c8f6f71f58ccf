"""A delegator that keeps failing is paused; its fallback is tried instead."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from understudy.engine.queueing import start_conditions
from understudy.journal import delegation_folder
from understudy.model.delegation import events
from understudy.model.delegation.spec import PauseBounds
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.store import store

FAILS = """
    sys.stdin.read()
    say(type="result", ok=False, error={"kind": "overloaded", "message": "Busy."})
"""
FINISHES = """
    sys.stdin.read()
    pathlib.Path("finished.txt").write_text("all of the work")
    say(type="result", ok=True, text="Done.")
"""
SETTINGS = "[fallback]\noutage_pause_seconds = 3600\n"
"""On a busy machine, a pause of seconds may end before the next attempt."""
BUSY = ErrorInfo(ErrorKind.OVERLOADED, "Busy.")


@pytest.fixture
def two(project):
    project.program("first", FAILS)
    project.program("second", FINISHES)
    project.settings(SETTINGS)
    return project


def fail(project, times=1, error=BUSY, **bounds):
    """Let attempts on ``first`` fail, as this process."""
    bounds = {"outage_pause_seconds": 3600.0} | bounds
    for _ in range(times):
        start_conditions.attempt_failed(
            delegation_folder.state_root(), first(project).delegator, None, error, PauseBounds(**bounds)
        )


def first(project):
    return project.call("delegators/get", name="first", workspace=str(project.top))


def tried(project, **params):
    done = project.run("implement", task="Do it.", delegator="first", **params)
    said = [event.text for event in project.events(done.id) if isinstance(event, events.Note)]
    return done, [one.delegator for one in done.attempts], " ".join(said)


def test_a_paused_delegator_is_skipped_with_its_reason(two):
    fail(two, 2)
    done, names, _ = tried(two, fallback=["second"])
    assert names == ["first", "second"], "it is tried until the third failure"
    [pause] = first(two).state.pauses
    assert (pause.failure, pause.state, pause.failures) == ("overload", "open", 3)
    done, names, said = tried(two, fallback=["second"])
    assert names == ["second"]
    assert "first is paused until" in said
    assert "(overload, 3 times): Busy. second takes over." in said
    assert "first is paused until" in done.attempts[0].reason
    assert "understudy delegators reset first" in first(two).state.problems[0].hint


def test_a_time_to_retry_pauses_at_once_and_exactly_so_long(two):
    at = (datetime.now(UTC) + timedelta(hours=5)).isoformat(timespec="seconds").replace("+00:00", "Z")
    fail(two, error=ErrorInfo(ErrorKind.QUOTA_EXHAUSTED, "Empty.", retry_at=at))
    [pause] = first(two).state.pauses
    assert (pause.failure, pause.failures, pause.until) == ("quota", 1, at)
    assert tried(two, fallback=["second"])[1] == ["second"]


def test_without_another_delegator_a_paused_one_is_tried_all_the_same(two):
    fail(two, 3)
    two.program("first", FINISHES)
    done, names, said = tried(two)
    assert (names, done.verdict) == (["first"], "unverified")
    assert "It is tried all the same, because no other delegator can take over." in said
    assert first(two).state.pauses == [], "it works again"


def test_the_first_success_after_a_pause_ends_it(two):
    fail(two, 3, outage_pause_seconds=1e-9)
    two.program("first", FINISHES)
    assert tried(two, fallback=["second"])[1] == ["first"]
    assert first(two).state.pauses == []


@pytest.mark.heavy
def test_a_failed_probe_makes_the_next_pause_longer(two):
    fail(two, 3, outage_pause_seconds=1e-9)
    assert tried(two, fallback=["second"])[1] == ["first", "second"], "the pause is over"
    [pause] = first(two).state.pauses
    assert (pause.state, pause.failures) == ("open", 4)
    assert tried(two, fallback=["second"])[1] == ["second"], "this pause is longer"


def test_a_task_that_was_refused_pauses_no_one(two):
    fail(two, 9, ErrorInfo(ErrorKind.CONTENT_REFUSED, "No."))
    fail(two, 9, ErrorInfo(ErrorKind.TIMED_OUT, "The limit of this request."))
    assert first(two).state.pauses == []


@pytest.mark.heavy
def test_the_number_of_failures_is_configured(two):
    two.settings(SETTINGS + "failures = 1\n")
    assert tried(two, fallback=["second"])[1] == ["first", "second"]
    assert tried(two, fallback=["second"])[1] == ["second"]


def test_a_reset_ends_a_pause(two):
    fail(two, 3)
    assert two.call("status", workspace=str(two.top)).paused == ["first"]
    assert two.call("delegators/reset", name="first", workspace=str(two.top)).state.pauses == []
    assert two.call("status", workspace=str(two.top)).paused == []
    assert tried(two, fallback=["second"])[1] == ["first", "second"]


def test_another_program_of_the_same_name_is_not_paused(two):
    fail(two, 3)
    two.delegator("first", "/bin/true")
    assert first(two).state.pauses == []


def test_damaged_content_is_no_obstacle(two):
    fail(two, 3)
    with contextlib.closing(sqlite3.connect(delegation_folder.state_root() / store.NAME)) as connection, connection:
        connection.execute("""UPDATE circuits SET content = '{"overload": {"state": "ajar"}}'""")
    assert first(two).state.pauses == []
    fail(two, 3)
    assert len(first(two).state.pauses) == 1


EMPTY = ErrorInfo(ErrorKind.QUOTA_EXHAUSTED, "No credit is left.")


def paused(project, *names):
    entries = [project.call("delegators/get", name=name, workspace=str(project.top)) for name in names]
    return [[str(pause.failure) for pause in entry.state.pauses] for entry in entries]


@pytest.fixture
def claudes(two):
    """Delegators of one tool: two models of one login, and another login."""
    folder = two.config / "delegators"
    for name, text in {
        "sonnet": 'model = "sonnet"\n',
        "opus": 'model = "opus"\n',
        "work": 'model = "sonnet"\naccount = "work"\n',
        "work-opus": 'model = "opus"\naccount = "work"\n[env]\nNOTE = "also the login of work"\n',
        "other": 'model = "sonnet"\n[env]\nCLAUDE_CONFIG_DIR = "/elsewhere"\n',
    }.items():
        (folder / f"{name}.toml").write_text(f'tool = "claude"\n{text}')
    return two


def fails(project, name, error, times=3):
    delegator = project.call("delegators/get", name=name, workspace=str(project.top)).delegator
    for _ in range(times):
        start_conditions.attempt_failed(
            delegation_folder.state_root(), delegator, None, error, PauseBounds(outage_pause_seconds=3600)
        )


def test_who_shares_a_login_shares_its_spent_credit(claudes):
    fails(claudes, "sonnet", EMPTY)
    assert paused(claudes, "sonnet", "opus", "work", "work-opus", "other") == [["quota"], ["quota"], [], [], []]
    fails(claudes, "work", EMPTY)
    assert paused(claudes, "work", "work-opus", "other") == [["quota"], ["quota"], []]


def test_too_many_requests_and_outages_are_those_of_one_model(claudes):
    fails(claudes, "sonnet", ErrorInfo(ErrorKind.RATE_LIMITED, "Slower."))
    assert paused(claudes, "sonnet", "opus") == [["rate_limit"], []]
    fails(claudes, "work", BUSY)
    assert paused(claudes, "work", "work-opus") == [["overload"], []]


def test_a_success_of_one_ends_the_pause_of_all_that_share_the_login(claudes):
    fails(claudes, "sonnet", EMPTY)
    opus = claudes.call("delegators/get", name="opus", workspace=str(claudes.top)).delegator
    start_conditions.attempt_succeeded(delegation_folder.state_root(), opus, None)
    assert paused(claudes, "sonnet", "opus") == [[], []]


def test_programs_of_ones_own_share_nothing(two):
    fails(two, "first", EMPTY)
    assert paused(two, "first", "second") == [["quota"], []]
