"""Budgets of a day: nothing new begins when one is spent, and others take over."""

from __future__ import annotations

import pytest

from understudy.engine.queueing import day_budgets
from understudy.model.config.delegators import DayBudget, Delegator
from understudy.model.errors import ErrorKind, UnderstudyError

WORKS = """
    sys.stdin.read()
    say(type="usage", inputTokens=90, outputTokens=10, turns=1, costUsd="0.30")
    say(type="result", ok=True, text="Done.")
"""
UNKNOWN = WORKS.replace(', costUsd="0.30"', "")


@pytest.fixture
def two(project):
    project.program("first", WORKS)
    project.program("second", WORKS)
    return project


def limit(project, name, text):
    file = project.config / "delegators" / f"{name}.toml"
    file.write_text(file.read_text() + f"\n[per_day]\n{text}\n")


def ask(project, **params):
    return project.run("ask", task="x", delegator="first", **params)


def test_a_delegator_that_spent_its_day_is_followed_by_the_next(two):
    limit(two, "first", 'usd = "0.50"')
    assert [ask(two, fallback=["second"]).attempts[0].delegator for _ in range(3)] == ["first", "first", "second"]
    done = ask(two)
    assert (done.verdict, done.error.kind) == ("budget_exhausted", "budget_exhausted")
    assert done.error.message == "The budget of first, 0.50 US dollars per day, is spent."


def test_the_budget_of_all_work_stops_all_work(two):
    two.settings("[per_day]\ntokens = 150\n")
    assert ask(two).verdict == "answered"
    assert ask(two).verdict == "answered", "what has begun may spend the last of it, and more"
    done = ask(two, fallback=["second"])
    assert done.verdict == "budget_exhausted"
    assert done.error.message == "The budget of all work, 150 tokens per day, is spent."
    status = two.call("status", workspace=str(two.top))
    assert (status.per_day.tokens, status.spent.attempts) == (150, 3)


def test_an_unknown_cost_may_have_been_everything(two):
    two.program("first", UNKNOWN)
    limit(two, "first", 'usd = "5"')
    assert ask(two).verdict == "answered"
    done = ask(two)
    assert done.error.message == "What was spent today is not known, and the budget of first is 5 US dollars per day."


def test_what_was_spent_before_midnight_does_not_count(two, monkeypatch):
    ask(two)
    first = Delegator(name="first", per_day=DayBudget(tokens=1))
    assert day_budgets.shortage(first, DayBudget()) is not None
    day = day_budgets.midnight()
    monkeypatch.setattr(day_budgets, "midnight", lambda: day.replace(year=day.year + 1))
    assert day_budgets.shortage(first, DayBudget()) is None


def test_without_a_budget_the_ledger_is_not_read(two, monkeypatch):
    monkeypatch.setattr(day_budgets.ledger, "read", None)
    assert day_budgets.shortage(Delegator(name="first"), DayBudget()) is None


@pytest.mark.parametrize(
    ("text", "word"), [('usd = "much"', "`usd`"), ("tokens = 0", "`tokens`"), ("money = 1", "money")]
)
def test_amounts_that_make_no_sense_are_found(two, text, word):
    limit(two, "first", text)
    found = two.call("delegators/list", workspace=str(two.top))
    [entry] = [one for one in found.delegators if one.delegator.name == "first"] or [None]
    problems = [*(entry.state.problems if entry else []), *found.problems]
    assert any(word in problem.message for problem in problems), problems


def test_a_workspace_says_nothing_about_what_work_may_cost(two):
    two.write(".understudy/config.toml", "[per_day]\ntokens = 1\n")
    two.trust()
    problems = two.call("delegators/list", workspace=str(two.top)).problems
    assert "A workspace cannot say what your work may cost." in problems[0].message


def test_require_says_what_to_do():
    with pytest.raises(UnderstudyError) as caught:
        day_budgets.require(Delegator(name="d", per_day=DayBudget(tokens=0)), DayBudget())
    assert caught.value.kind is ErrorKind.BUDGET_EXHAUSTED
    assert "midnight" in caught.value.hint
