"""An agent that must stop hands its work over: the next one continues with its files, and with notes of what it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.engine.planning.hand_over import FILE, MOST_BYTES
from understudy.frontends.cli.output import verdict_card
from understudy.frontends.cli.terminal.terminal import Paint
from understudy.model.delegation import events

STOPS = """
    sys.stdin.read()
    pathlib.Path("half.txt").write_text("half of the work")
    pathlib.Path("calc.py").write_text("def add(a, b):\\n    return a + b\\n")
    say(type="session", sessionId="session of first")
    say(type="tool_call", callId="1", name="Bash", title="git push origin main", input={{}})
    say(type="tool_result", callId="1", ok=True, output="Everything up-to-date")
    say(type="tool_call", callId="2", name="Bash", title="pytest -q", input={{}})
    say(type="tool_result", callId="2", ok=False, output="1 failed, 2 passed")
    say(type="plan", entries=[
        {{"content": "write half", "status": "completed"}}, {{"content": "write the rest", "status": "pending"}}])
    say(type="text", text="Half of it is done.")
    say(type="usage", inputTokens=10, outputTokens=5, turns=1)
    say(type="result", ok=False, error={{"kind": "{kind}", "message": "No credit is left."}})
"""
CONTINUES = """
    prompt = sys.stdin.read()
    assert pathlib.Path("half.txt").read_text() == "half of the work", "its files are here"
    assert sys.argv[1:] == [], "the session of the first one is not continued"
    notes = pathlib.Path(".understudy-run/handover.md").read_text()
    assert notes in prompt
    pathlib.Path("rest.txt").write_text(notes)
    say(type="usage", inputTokens=7, outputTokens=3, turns=1)
    say(type="result", ok=True, text="Done.")
"""
BEGINS = """
    prompt = sys.stdin.read()
    assert not pathlib.Path("half.txt").exists() and "The work so far" not in prompt
    pathlib.Path("rest.txt").write_text("all")
    say(type="result", ok=True, text="Done.")
"""


@pytest.fixture
def two(project):
    project.program("first", STOPS.format(kind="quota_exhausted"))
    project.program("second", CONTINUES)
    for name in ("first", "second"):
        file = project.config / "delegators" / f"{name}.toml"
        file.write_text(file.read_text().replace('.py"]', '.py", "{sessionId}"]'))
    return project


def work(project, **params):
    fallback = params.pop("fallback", ["second"])
    return project.run("implement", task="Do the whole task.", delegator="first", fallback=fallback, **params)


def test_the_next_agent_goes_on_with_the_files_and_the_notes(two):
    done = work(two)
    assert (done.verdict, done.error) == ("unverified", None)
    assert [stat.path for stat in done.result.files] == ["calc.py", "half.txt", "rest.txt"], "the result is the whole"
    first, second = done.attempts
    assert second.start_commit == first.end_commit != done.base
    assert (first.files, second.files) == (["calc.py", "half.txt"], ["rest.txt"])
    assert first.rescue_ref is None, "nothing was set aside"
    [failed] = [event for event in two.events(done.id) if isinstance(event, events.AttemptFailed)]
    assert (failed.next_delegator, failed.continues) == ("second", True)


def test_the_notes_say_what_was_done_and_what_is_open(two):
    done = work(two)
    notes = (Path(done.worktree) / "rest.txt").read_text()
    for line in (
        "- first: stopped, No credit is left.",
        "- modified calc.py",
        "- added half.txt",
        "- done (Everything up-to-date): git push origin main",
        "- failed (1 failed, 2 passed): pytest -q",
        "- [x] write half",
        "- [ ] write the rest",
        "> Half of it is done.",
        "> Do the whole task.",
    ):
        assert line in notes.splitlines()
    assert len(notes.encode()) <= MOST_BYTES
    assert FILE not in [stat.path for stat in done.result.files]


def test_a_third_agent_gets_the_notes_of_both(two):
    two.program("second", STOPS.format(kind="overloaded").replace("git push origin main", "make docs"))
    two.program("third", CONTINUES)
    done = work(two, fallback=["second", "third"])
    assert [attempt.delegator for attempt in done.attempts] == ["first", "second", "third"]
    notes = (Path(done.worktree) / "rest.txt").read_text()
    assert "git push origin main" in notes
    assert "make docs" in notes
    assert "- second: stopped" in notes


@pytest.mark.parametrize("kind", ["tool_crashed", "malformed_output"])
def test_after_an_agent_that_was_at_fault_the_next_one_begins_again(two, kind):
    two.program("first", STOPS.format(kind=kind))
    two.program("second", BEGINS)
    done = work(two)
    assert [stat.path for stat in done.result.files] == ["rest.txt"]
    assert done.attempts[0].rescue_ref is not None, "its work is kept"


def test_the_user_can_have_every_agent_begin_again(two):
    two.settings('[fallback]\nhandover = "fresh"\n')
    two.program("second", BEGINS)
    assert [stat.path for stat in work(two).result.files] == ["rest.txt"]


@pytest.mark.heavy
def test_an_agent_that_reads_no_notes_begins_again(two):
    done = two.run("tests", "calc.py", delegator="first", fallback=["ghostwriter"])
    assert "half.txt" not in [stat.path for stat in done.result.files]


def test_a_planted_link_gets_no_notes_and_stops_nothing(two, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = f"""
    import shutil
    shutil.rmtree(".understudy-run", ignore_errors=True)
    os.symlink({str(outside)!r}, ".understudy-run")
"""
    two.program("first", link + STOPS.format(kind="quota_exhausted"))
    two.program("second", CONTINUES.replace("notes = ", "notes = prompt #"))
    done = work(two)
    assert [attempt.failure and str(attempt.failure.kind) for attempt in done.attempts] == ["quota_exhausted", None]
    assert done.verdict == "unverified"
    assert list(outside.iterdir()) == []


def test_the_card_names_every_agent_and_what_it_left(two):
    done = work(two)
    card = verdict_card.card(done, Paint(on=False))
    assert "by first → second" in card
    assert "second continued with calc.py, half.txt" in card
    assert "second: changed rest.txt" in card
