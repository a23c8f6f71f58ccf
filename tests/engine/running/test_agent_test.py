"""A delegator is tried with a real round trip: its program, asked for one word in an empty repository."""

from __future__ import annotations

import pytest

ANSWERS = """
    for line in sys.stdin:
        pass
    pathlib.Path("left-behind").write_text("")
    say(type="text", text="ready")
    say(type="result", ok=True, summary="")
"""


def tried(project, name):
    found = project.call("delegators/test", name=name)
    return found.ok, [step.name for step in found.steps], found.steps[-1].message


def test_an_agent_is_asked_and_answers(project):
    ok, steps, message = tried(project, project.program("quick", ANSWERS))
    assert (ok, steps) == (True, ["configuration", "binary", "round_trip"]), message
    assert "ready" in message
    assert not (project.top / "left-behind").exists(), "it works in a repository of its own"


def test_it_works_in_a_repository(project):
    source = """
        say(type="text", text=str((pathlib.Path(".git") / "HEAD").exists()) + " " + str(sorted(os.listdir("."))))
        say(type="result", ok=True, summary="")
    """
    assert "True ['.git']" in tried(project, project.program("where", source))[2]


@pytest.mark.parametrize(("scenario", "says"), [("crash", "3"), ("error", ""), ("no_end", "")])
def test_an_agent_that_fails_says_why(project, scenario, says):
    ok, steps, message = tried(project, project.agent("failing", scenario))
    assert (ok, steps[-1]) == (False, "round_trip")
    assert says in message


def test_an_agent_that_never_answers_is_given_up(project):
    project.delegator("mute", "sleep", "60", extra="[limits]\ntotal_seconds = 1\n")
    ok, _, message = tried(project, "mute")
    assert not ok
    assert "1 s" in message


def test_whoever_asked_may_go_away(project, monkeypatch):
    project.delegator("mute", "sleep", "60")
    monkeypatch.setattr(project.caller, "cancelled", lambda: True, raising=False)
    ok, _, message = tried(project, "mute")
    assert (ok, message) == (False, "The trial was cancelled.")


def test_what_is_not_there_is_not_asked(project):
    project.delegator("gone", "/nowhere/agent")
    ok, steps, _ = tried(project, "gone")
    assert (ok, steps[-1]) == (False, "binary")


def test_ghostwriter_asks_nobody(project):
    ok, steps, message = tried(project, "ghostwriter")
    assert (ok, steps[-1]) == (True, "round_trip"), message
    assert "no model" in message
