"""A route that escalates: the cheap delegator works first, and better ones only while nothing is verified."""

from __future__ import annotations

import json

import pytest

from understudy.journal import ledger

SAME = '"""Tests."""\n\nimport calc\n\n\ndef test_add():\n    assert calc.add(2, 3) is not None\n'
WEAK = SAME + "\n\ndef test_clamp():\n    assert calc.clamp(4, 1, 9) is not None\n"
BEST = SAME + (
    "\n\ndef test_clamp():\n    assert [calc.clamp(value, 1, 9) for value in (0, 1, 4, 9, 10)] == [1, 1, 4, 9, 9]\n"
    "    assert (calc.add(-1, 1), calc.add(2, 3)) == (0, 5)\n"
)
RED = SAME.replace("is not None", "is None")
WRITES = """
    prompt = sys.stdin.read()
    here = pathlib.Path(__file__)
    with open(here.with_suffix(".log"), "a") as log:
        print(json.dumps(["Another agent has done this task" in prompt, "would also pass if the code were wrong" in prompt]), file=log)
    tests = pathlib.Path("tests")
    before = (tests / "test_calc.py").read_text() if (tests / "test_calc.py").exists() else ""
    with open(here.with_suffix(".seen"), "a") as seen:
        print(json.dumps(before), file=seen)
    tests.mkdir(exist_ok=True)
    (tests / "test_calc.py").write_text({text!r})
    say(type="session", sessionId="s")
    say(type="usage", inputTokens={tokens}, outputTokens=5, turns=1)
    say(type="result", ok=True, text="Done.")
"""


@pytest.fixture
def route(project):
    folder = project.config / "routes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ladder.toml").write_text('candidates = ["cheap", "strong"]\nescalate = true\n')
    return project


def writes(project, name, text, tokens=10):
    project.program(name, WRITES.format(text=text, tokens=tokens))


def seen(project, name, kind="log"):
    file = project.config / f"{name}.{kind}"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def work(project, **params):
    return project.run("tests", "calc.py", delegator="ladder", **params)


def test_a_verified_result_of_the_cheap_one_costs_nothing_more(route):
    writes(route, "cheap", BEST)
    writes(route, "strong", BEST)
    done = work(route)
    assert (done.verdict, [attempt.delegator for attempt in done.attempts]) == ("verified", ["cheap"])
    assert seen(route, "strong") == []


@pytest.mark.heavy
def test_a_weak_result_is_sent_back_once_and_then_improved_by_the_next(route):
    writes(route, "cheap", WEAK)
    writes(route, "strong", BEST)
    done = work(route)
    assert [attempt.delegator for attempt in done.attempts] == ["cheap", "cheap", "strong"]
    assert done.verdict == "verified", done.reservations
    assert seen(route, "cheap") == [[False, False], [False, True]], "it was asked once more"
    assert seen(route, "strong") == [[True, True]], "it knows what was done, and what is not good enough"
    assert seen(route, "strong", "seen") == [WEAK], "it continues the best result so far"
    assert [entry.delegator for entry in ledger.read() if entry.id == done.id] == ["cheap", "cheap", "strong"]


@pytest.mark.heavy
def test_after_a_result_that_fails_the_next_one_begins_again(route):
    writes(route, "cheap", RED)
    writes(route, "strong", BEST)
    done = work(route)
    assert done.verdict == "verified", done.reservations
    assert done.attempts[-1].delegator == "strong"
    assert seen(route, "strong", "seen") == [""]
    assert seen(route, "strong") == [[False, False]]


@pytest.mark.heavy
def test_the_best_result_counts_where_none_is_verified(route):
    writes(route, "cheap", WEAK)
    writes(route, "strong", SAME)
    done = work(route, rounds=0)
    assert [attempt.delegator for attempt in done.attempts] == ["cheap", "strong"]
    assert done.verdict == "unverified"
    assert route.call("delegations/file", id=done.id, path="tests/test_calc.py", side="result").text == WEAK


@pytest.mark.heavy
def test_it_stops_at_the_budget(route):
    writes(route, "cheap", WEAK, tokens=100)
    writes(route, "strong", BEST)
    done = work(route, rounds=0, limits={"maxTokens": 105})
    assert [attempt.delegator for attempt in done.attempts] == ["cheap"]
    assert done.verdict == "unverified"


@pytest.mark.heavy
def test_without_escalation_the_first_result_is_the_last(route):
    (route.config / "routes" / "ladder.toml").write_text('candidates = ["cheap", "strong"]\n')
    writes(route, "cheap", WEAK)
    writes(route, "strong", BEST)
    done = work(route)
    assert (done.verdict, [attempt.delegator for attempt in done.attempts]) == ("unverified", ["cheap"])
