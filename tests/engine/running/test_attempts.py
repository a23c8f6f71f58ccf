"""Several attempts of one delegation, on several candidates, in a real worker with a policy of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from understudy.engine.planning.plan import plan
from understudy.engine.worktrees import worktree_record
from understudy.git import diff
from understudy.journal import delegation_folder
from understudy.model.config.delegators import Limits
from understudy.model.delegation import events
from understudy.model.delegation.delegations import AskedBy, StartParams
from understudy.model.errors import ErrorScope

WORKER = Path(__file__).with_name("policy_worker.py")

FAILS = """
    prompt = sys.stdin.read()
    pathlib.Path("started.txt").write_text("half of the work")
    say(type="session", sessionId="session of first")
    say(type="usage", inputTokens=100, outputTokens=10, turns=1)
    say(type="result", ok=False, error={"kind": "rate_limited", "message": "Too many requests."})
"""
FINISHES = """
    prompt = sys.stdin.read()
    pathlib.Path("finished.txt").write_text("the other half")
    say(type="session", sessionId="session of second")
    say(type="usage", inputTokens=7, outputTokens=3, turns=1)
    say(type="result", ok=True, text="Done.")
"""


def run(project, names, *decisions, limits=None):
    """Run a delegation with these candidates; return it when it has finished."""
    plans = [
        plan(
            StartParams(recipe="implement", task="Do it.", delegator=name, workspace=str(project.top), limits=limits),
            {},
            project.top,
        )
        for name in names
    ]

    def build(identifier):
        spec = plans[0].spec(identifier, "2026-11-22T04:00:00.000Z", AskedBy(frontend="test", depth=0))
        candidates = [one.draft.candidates[0] for one in plans]
        return msgspec.structs.replace(spec, candidates=candidates)

    folder, lock = delegation_folder.create(build, {})
    argv = [sys.executable, str(WORKER), folder.id, str(lock), *decisions]
    worker = subprocess.Popen(argv, pass_fds=[lock], cwd="/")
    os.close(lock)
    assert worker.wait(60) == 0
    done = project.finish(folder.id)
    return done, project.events(folder.id)


def files_of(project, done, commit):

    found, objects = worktree_record.load_record(delegation_folder.open_folder(done.id))
    return sorted(path.decode() for _, path in diff.changed_paths(objects, found.base_commit, commit))


@pytest.fixture
def two(project):
    project.program("first", FAILS)
    project.program("second", FINISHES)
    return project


@pytest.mark.heavy
def test_the_second_candidate_begins_again_from_the_base(two):
    done, told = run(two, ["first", "second"], "next")
    assert (done.state, done.error) == ("finished", None)
    assert [stat.path for stat in done.result.files] == ["finished.txt"]

    first, second = done.attempts
    assert (first.number, first.delegator, second.number, second.delegator) == (1, "first", 2, "second")
    assert (first.failure.kind, second.failure) == ("rate_limited", None)
    assert first.failure.scope is ErrorScope.ACCOUNT, "the agent named no scope; the kind determines it"
    assert first.finished_at <= second.started_at <= second.finished_at

    assert first.start_commit == done.base
    assert files_of(two, done, first.end_commit) == ["started.txt"], "a checkpoint holds what the first one left"
    assert second.start_commit == first.start_commit
    assert second.end_commit == done.head

    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.turns) == (107, 13, 2)
    assert [event.commit for event in told if isinstance(event, events.Checkpoint)] == [
        first.end_commit,
        second.end_commit,
    ]
    [failed] = [event for event in told if isinstance(event, events.AttemptFailed)]
    assert (failed.attempt, failed.will_retry, failed.next_delegator) == (1, False, "second")
    assert len([event for event in told if isinstance(event, events.Finished)]) == 1
    assert len([event for event in told if isinstance(event, events.Result)]) == 1


def test_an_edit_outside_the_worktree_is_noticed_after_the_attempt_that_made_it(two):
    edited = two.write("edited.txt", "before\n")
    two.commit()
    two.program("first", f"    pathlib.Path({str(edited)!r}).write_text('after')\n{FAILS}")
    _, told = run(two, ["first", "second"], "next")
    [note] = [event for event in told if isinstance(event, events.Note) and "edited.txt" in event.text]
    assert "changed while first worked" in note.text
    assert note.attempt == 1


RESUMES = """
    sys.stdin.read()
    say(type="session", sessionId="session of " + {name!r})
    say(type="text", text="resumes " + repr(sys.argv[1:]))
    say(type="result", ok=False, text="Done.", error={{"kind": "overloaded", "message": "Busy."}})
"""


def program_that_resumes(project, name):
    project.program(name, RESUMES.format(name=name))
    file = project.config / "delegators" / f"{name}.toml"
    file.write_text(file.read_text().replace('.py"]', '.py", "{sessionId}"]'))


def test_no_session_is_resumed_in_a_fresh_worktree(project):
    """The session of an attempt whose worktree was replaced speaks of files that are gone."""
    program_that_resumes(project, "first")
    _, told = run(project, ["first", "first"], "next", "retry")
    said = [event.text for event in told if isinstance(event, events.Text)]
    assert said == ["resumes []", "resumes []", "resumes ['session of first']"]


def test_a_session_is_resumed_by_its_own_tool_only(project):
    for name in ("first", "second"):
        program_that_resumes(project, name)
    done, told = run(project, ["first", "second"], "retry", "next", "retry")
    said = [event.text for event in told if isinstance(event, events.Text)]
    assert said == [
        "resumes []",
        "resumes ['session of first']",
        "resumes []",
        "resumes ['session of second']",
    ]
    assert [attempt.session_id for attempt in done.attempts] == ["session of first"] * 2 + ["session of second"] * 2
    # A reply goes to the first delegator, and gets that one's session although another one came later.
    child = project.finish(project.call("delegations/reply", id=done.id, text="Again.").id)
    [again] = [event.text for event in project.events(child.id) if isinstance(event, events.Text)]
    assert again == "resumes ['session of first']"


@pytest.mark.heavy
def test_all_attempts_together_have_one_total_time(project):
    project.program("slow", "sys.stdin.read()\ntime.sleep(60)")
    project.program("failing", FAILS)
    done, told = run(project, ["slow"], *["retry"] * 5, limits=Limits(total_seconds=2))
    assert (done.verdict, len(done.attempts)) == ("timed_out", 1), "nothing is left for a second attempt"
    [failed] = [event for event in told if isinstance(event, events.AttemptFailed)]
    assert failed.will_retry is False

    done, _ = run(project, ["failing", "slow"], "retry:0.5", "next", limits=Limits(total_seconds=6))
    assert [attempt.delegator for attempt in done.attempts] == ["failing", "failing", "slow"]
    assert done.verdict == "timed_out"
    began, ended = done.attempts[0].started_at, done.attempts[-1].finished_at
    assert 3 < seconds_between(began, ended) < 60, "the last attempt gets the remaining time"


def test_a_pause_longer_than_what_is_left_ends_it(two):
    done, _ = run(two, ["first"], "retry:1000", limits=Limits(total_seconds=30))
    assert (done.verdict, len(done.attempts)) == ("failed", 1)
    assert done.error.kind == "rate_limited"
    assert [stat.path for stat in done.result.files] == ["started.txt"], "partial work is kept"


@pytest.mark.heavy
def test_a_policy_cannot_retry_forever(two):
    done, _ = run(two, ["first"], *["retry"] * 100)
    assert (done.verdict, len(done.attempts)) == ("failed", 20)


BAD = """
    prompt = sys.stdin.read()
    pathlib.Path("started.txt").write_text("half of the work")
    say(type="session", sessionId="session of first")
    say(type="result", ok=True, text="Done, by first.")
"""
GOOD = """
    prompt = sys.stdin.read()
    assert sys.argv[1:] == []
    assert pathlib.Path("started.txt").exists() == {continues}
    pathlib.Path("started.txt").unlink(missing_ok=True)
    pathlib.Path("finished.txt").write_text("all of the work")
    say(type="result", ok=True, text="Done, by second.")
"""


def run_until_verified(project, monkeypatch, second, *decisions, how="fresh"):
    """Run a delegation whose rules answer a verdict with the next candidate; what ``first`` does fails the check."""
    project.program("first", BAD)
    project.program("second", second)
    project.settings('[[checks]]\nname = "tidy"\nargv = ["sh", "-c", "test ! -e started.txt"]\n')
    monkeypatch.setenv("UNTIL_VERIFIED", how)
    return run(project, ["first", "second"], *decisions)


def notes(told):
    return " ".join(event.text for event in told if isinstance(event, events.Note))


@pytest.mark.parametrize("how", ["fresh", pytest.param("continuing", marks=pytest.mark.heavy)])
def test_a_verdict_can_be_answered_with_the_next_candidate(project, monkeypatch, how):
    done, told = run_until_verified(project, monkeypatch, GOOD.format(continues=how == "continuing"), how=how)
    assert [attempt.delegator for attempt in done.attempts] == ["first", "second"]
    assert done.attempts[1].reason == "the result of first is checks_failed."
    assert [stat.path for stat in done.result.files] == ["finished.txt"]
    assert (done.result.text, done.error) == ("Done, by second.", None)
    assert done.verdict != "checks_failed"
    assert done.head == done.attempts[1].end_commit
    assert (done.attempts[0].rescue_ref is None) == (how == "continuing"), "a fresh worktree replaces another one"
    assert [check.ok for check in done.checks] == [True]
    assert len([event for event in told if isinstance(event, events.Finished)]) == 1


def test_a_result_that_is_no_better_is_not_kept(project, monkeypatch):
    done, told = run_until_verified(project, monkeypatch, BAD.replace("half", "other half").replace("first", "second"))
    assert "was not kept: it is checks_failed, and the one before is checks_failed" in notes(told)
    assert (done.verdict, done.error, done.result.text) == ("checks_failed", None, "Done, by first.")
    assert (Path(done.worktree) / "started.txt").read_text() == "half of the work"
    assert files_of(project, done, done.head) == ["started.txt"]
    assert "The work of this attempt is kept as" in notes(told), "nothing is removed without a rescue reference"
    assert [check.ok for check in done.checks] == [False]


@pytest.mark.heavy
def test_a_candidate_that_fails_does_not_cost_the_result_before(project, monkeypatch):
    done, told = run_until_verified(project, monkeypatch, FAILS, "stop", "stop")
    assert (done.verdict, done.error, done.result.text) == ("checks_failed", None, "Done, by first.")
    [failed] = [event for event in told if isinstance(event, events.AttemptFailed)]
    assert (failed.attempt, failed.will_retry, failed.next_delegator) == (2, False, None)
    assert (Path(done.worktree) / "started.txt").exists()


def seconds_between(began, ended):

    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


NOT_BEFORE_THE_AGENT = (
    *("understudy.judge.judge", "understudy.judge.runs.check_run", "understudy.judge.mutation"),
    *(
        "understudy.engine.review.amend",
        "understudy.engine.running.relay",
        "understudy.engine.checkout_runs",
        "understudy.engine.planning.plan",
    ),
    *("understudy.mutants", "understudy.api", "understudy.frontends", "understudy.runners.backends"),
    *("httpx", "keyring", "platformdirs", "tree_sitter", "jsonschema", "click", "pygls", "lsprotocol", "pathspec"),
)
"""What a worker needs after the agent, or never. What judges a result takes as long to import as all of the rest."""
MOST_MODULES = 400
"""The most modules of all packages; there were 392 with Python 3.11."""


def test_a_worker_imports_only_what_it_needs_before_the_agent_starts(project, tmp_path, monkeypatch):
    monkeypatch.setenv("LIST_IMPORTS", str(tmp_path / "imports"))
    done, _ = run(project, [project.program("second", FINISHES.replace("assert", "0 and"))])
    assert done.attempts[0].session_id == "session of second"
    imported = (tmp_path / "imports").read_text().split()
    early = [name for name in imported if any(f"{name}.".startswith(f"{one}.") for one in NOT_BEFORE_THE_AGENT)]
    assert early == []
    assert "understudy.engine.running.lifecycle.delegation_run" in imported
    assert len(imported) <= MOST_MODULES, len(imported)
