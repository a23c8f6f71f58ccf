"""Test rounds and ``strengthen``: an agent sees what its tests do not notice, and what is not better is dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from project_python import project_python

from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError

WEAK = "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\n\ndef test_clamp():\n    assert calc.clamp(1, 0, 3) is not None\n"
BETTER = WEAK + "\n\ndef test_low():\n    assert calc.clamp(-5, 0, 3) == 0\n"
BEST = (
    BETTER
    + "\n\ndef test_high():\n    assert calc.clamp(9, 0, 3) == 3\n\n\ndef test_middle():\n    assert calc.clamp(2, 0, 3) == 2\n"
    + "\n\ndef test_zero():\n    assert calc.add(5, 0) == 5 and calc.add(0, 5) == 5\n"
)
GUTTED = "import calc\n\n\ndef test_low():\n    assert calc.clamp(-5, 0, 3) == 0\n\n\ndef test_high():\n    assert calc.clamp(9, 0, 3) == 3\n"
MISTAKES = "would also pass if the code were wrong"


def agent(project, *steps, name="writer", **extra):
    """Make an agent that writes the next of ``steps`` each time; a step that is not text is Python code to run.

    It continues a session only if it is started with it, and then counts its turns in a file beside its program.
    """
    count = project.config / f"{name}.count"
    project.program(
        name,
        f"""
        prompt = sys.stdin.read()
        count = pathlib.Path({str(count)!r})
        number = int(count.read_text()) if count.exists() else 0
        count.write_text(str(number + 1))
        pathlib.Path(f"{{count}}.{{number}}").write_text(json.dumps([sys.argv[1:], prompt]))
        say(type="session", sessionId="s-1")
        say(type="usage", inputTokens=100, outputTokens=10, turns=3)
        step = {[*steps]!r}[number]
        if isinstance(step, list):
            exec(step[0])
        elif step:
            pathlib.Path("tests").mkdir(exist_ok=True)
            pathlib.Path("tests/test_calc.py").write_text(step)
        say(type="result", ok=True, text=f"Turn {{number}}.")
        """,
    )
    file = project.config / "delegators" / f"{name}.toml"
    text = file.read_text().replace(f'{name}.py"', f'{name}.py", "{{sessionId}}"')
    file.write_text(text)
    return name


def calls(project, name="writer"):
    """Return the arguments and the prompt of each start of the agent."""
    found = []
    while (file := project.config / f"{name}.count.{len(found)}").exists():
        found.append(json.loads(file.read_text()))
    return found


def scores(done):
    return [(one.number, one.kept) for one in done.rounds], [one.killed for one in done.rounds if one.kept]


@pytest.mark.heavy
def test_the_score_rises_with_each_round_until_nothing_is_missed(project):
    agent(project, WEAK, BETTER, BEST, BEST)
    done = project.run("tests", "calc.py", delegator="writer", rounds=5)
    numbers, killed = scores(done)
    assert numbers[:3] == [(0, True), (1, True), (2, True)], done.rounds
    assert killed == sorted(set(killed)), killed
    assert done.verdict == "verified", done.reservations
    assert done.result.summary in {None, "Turn 2."}
    started = calls(project)
    assert [arguments for arguments, _ in started][:3] == [[], ["s-1"], ["s-1"]]
    assert MISTAKES not in started[0][1]
    assert MISTAKES in started[1][1]
    assert "- if value < low:\n+ if value <= low:" in started[1][1] or "- return low" in started[1][1]
    assert project.call("delegations/file", id=done.id, path="tests/test_calc.py", side="result").text == BEST
    assert [attempt.number for attempt in done.attempts] == list(range(1, len(started) + 1))
    [check] = done.checks
    assert check.mutation.killed == max(killed)


@pytest.mark.heavy
def test_a_changed_place_without_a_test_is_asked_for(project):
    code = "calc = pathlib.Path('calc.py')\ncalc.write_text(calc.read_text() + '\\n\\ndef twice(a):\\n    return 2 * a\\n')"
    test = "tests = pathlib.Path('tests')\ntests.mkdir(exist_ok=True)\n(tests / 'test_twice.py').write_text('import calc\\n\\n\\ndef test_twice():\\n    assert calc.twice(4) == 8\\n')"
    agent(project, [code], [test])
    project.write("tests/test_calc.py", BEST)
    project.commit()
    project.settings('[[checks]]\nname = "suite"\nargv = ["{python}", "-m", "pytest", "-q"]\n')
    project.trust()
    done = project.run("implement", "calc.py", delegator="writer", task="Add twice.", rounds=2)
    assert done.verdict == "verified", (done.reservations, done.places)
    started = calls(project)
    assert len(started) == 2
    assert "- `calc.py`, line 14, in `twice`: no test" in started[1][1]
    assert [place.evidence for place in done.places if place.function == "twice"] == ["noticed"]


def text_of(project, done):
    return project.call("delegations/file", id=done.id, path="tests/test_calc.py", side="result").text


def in_tree(done):
    return (Path(done.worktree) / "tests" / "test_calc.py").read_text()


@pytest.mark.heavy
def test_a_round_that_loses_a_kill_is_dropped(project):
    agent(project, BETTER, GUTTED)
    done = project.run("tests", "calc.py", delegator="writer", rounds=3)
    first, second = done.rounds
    assert (first.kept, second.kept) == (True, False), done.rounds
    assert "its tests no longer notice" in second.why
    assert "calc.py:6" in second.why
    assert text_of(project, done) == in_tree(done) == BETTER
    assert done.checks[0].mutation.killed == first.killed
    assert done.verdict == "verified"
    assert len(calls(project)) == 2, "a round that brings nothing is the last"
    assert not (delegation_folder.open_folder(done.id).path / "round").exists()
    page = project.call("delegations/evidence", id=done.id).markdown
    assert f"- First result: {first.killed} of {first.viable} small changes noticed\n" in page
    assert "; not kept: its tests no longer notice" in page


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("step", "why"),
    [
        (BETTER + "\n\ndef test_red():\n    assert calc.add(1, 1) == 3\n", "a check fails"),
        (["pathlib.Path('calc.py').write_text(pathlib.Path('calc.py').read_text() + '\\n')"], "it adds outside_scope"),
        (BETTER.replace("-5", "-6"), "its tests notice nothing more"),
        (["say(type='result', ok=False, error={'kind': 'overloaded', 'message': 'Busy.'}); sys.exit()"], "Busy"),
        ("", "the agent changed nothing"),
    ],
    ids=["red", "scope", "no gain", "failure", "no change"],
)
def test_a_round_that_is_not_better_is_dropped(project, step, why):
    agent(project, BETTER, step)
    done = project.run("tests", "calc.py", delegator="writer", rounds=1)
    assert [one.kept for one in done.rounds] == [True, False]
    assert done.rounds[1].why == why
    assert text_of(project, done) == in_tree(done) == BETTER
    assert (done.verdict, done.error) == ("verified", None)


@pytest.mark.heavy
def test_the_budget_of_the_delegation_ends_the_rounds(project):
    agent(project, WEAK, BETTER, BEST)
    done = project.run("tests", "calc.py", delegator="writer", rounds=5, limits={"maxTokens": 220})
    assert [one.kept for one in done.rounds] == [True, True, False]
    assert done.rounds[2].why == "the limit `max_tokens` of 220 is used up"
    assert len(done.attempts) == 2
    assert text_of(project, done) == BETTER


@pytest.mark.heavy
def test_a_cancel_in_a_round_leaves_the_result_before_it(project):
    agent(project, BETTER, ["pathlib.Path('tests/test_calc.py').write_text('half'); time.sleep(600)"])
    identifier = project.start("tests", "calc.py", delegator="writer", rounds=1)
    project.until(identifier, lambda found: len(found.attempts) == 2 and found.attempts[1].session_id)
    project.call("delegations/cancel", id=identifier)
    done = project.finish(identifier)
    assert done.verdict == "cancelled"
    assert text_of(project, done) == in_tree(done) == BETTER


@pytest.mark.heavy
def test_strengthen_sends_what_was_missed_to_the_same_session(project):
    agent(project, WEAK, BEST)
    first = project.run("tests", "calc.py", delegator="writer")
    assert first.rounds == []
    child = project.finish(project.call("delegations/strengthen", id=first.id).id)
    assert (child.parent_id, child.recipe, child.title) == (first.id, "tests", "Write tests: calc.py (round 2)")
    assert child.checks[0].mutation.killed > first.checks[0].mutation.killed
    (arguments, prompt) = calls(project)[1]
    assert arguments == ["s-1"]
    assert MISTAKES in prompt
    assert "\n- `tests/test_calc.py::test_clamp`\n" in prompt
    missed = [one for one in first.checks[0].mutation.mutants if one.status == "Survived"]
    assert missed
    assert all(f"- {one.before}\n+ {one.after}\n" in prompt for one in missed)
    assert "mutant" not in prompt.partition("# What is asked for now")[2]
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/strengthen", id=first.id)
    assert caught.value.kind is ErrorKind.CONFLICT


@pytest.mark.heavy
def test_strengthen_says_why_it_cannot(project):
    project.write("calc.py", "def double(value):\n    return value + value\n")
    project.commit()
    good = "import calc\n\n\ndef test_it():\n    assert calc.double(2) == 4\n    assert calc.double(3) == 6\n"
    agent(project, good, ["sys.exit(3)"], ["time.sleep(600)"])
    done = project.run("tests", "calc.py", delegator="writer")
    missed = [one for one in done.checks[0].mutation.mutants if one.status == "Survived"]
    assert not missed
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/strengthen", id=done.id)
    assert caught.value.kind is ErrorKind.INPUT_EMPTY
    assert "understudy reply" in caught.value.hint
    failed = project.run("tests", "calc.py", delegator="writer")
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/strengthen", id=failed.id)
    assert caught.value.kind is ErrorKind.INPUT_EMPTY
    assert "not mutation-tested" in caught.value.message
    running = project.start("tests", "calc.py", delegator="writer")
    project.until(running, lambda found: found.attempts and found.attempts[0].session_id)
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/strengthen", id=running)
    assert caught.value.kind is ErrorKind.CONFLICT
    project.call("delegations/cancel", id=running)


@pytest.mark.parametrize(
    ("recipe", "rounds", "message"),
    [
        ("tests", 11, "`rounds` must be from 0 to 10."),
        ("tests", -1, "`rounds` must be from 0 to 10."),
        ("ask", 1, "`rounds` has no effect on a recipe that returns a text."),
    ],
)
def test_rounds_that_make_no_sense_are_refused(project, recipe, rounds, message):
    project.program("idle", "")
    with pytest.raises(UnderstudyError) as caught:
        project.start(recipe, "calc.py", delegator="idle", rounds=rounds, task="Why?")
    assert (caught.value.kind, caught.value.message) == (ErrorKind.INVALID_PARAMS, message)


def test_a_recipe_can_ask_for_rounds(project):
    recipes = project.top / ".understudy" / "recipes"
    recipes.mkdir(parents=True)
    text = '+++\ntitle = "More"\nreturns = "tree"\nrounds = {}\n+++\nWrite tests.\n'
    (recipes / "more.md").write_text(text.format(2))
    project.trust()
    project.program("idle", "say(type='result', ok=True)")
    started = project.start("more", "calc.py", delegator="idle")
    assert delegation_folder.read_spec(delegation_folder.open_folder(started)).rounds == 2
    project.finish(started)
    (recipes / "more.md").write_text(text.format(99))
    project.trust()
    with pytest.raises(UnderstudyError):
        project.start("more", "calc.py", delegator="idle")


@pytest.mark.heavy
def test_changed_code_gets_tests_for_its_changed_lines(project):
    project.write("tests/test_old.py", "import calc\n\n\ndef test_old():\n    assert calc.add(1, 2) == 3\n")
    project.commit()
    project.settings(
        f"""
        [environment]
        python = "{project_python()}"
        [[checks]]
        name = "tests"
        argv = ["{{python}}", "-m", "pytest", "-q"]
        """
    )
    code = "pathlib.Path('calc.py').write_text(pathlib.Path('calc.py').read_text() + '\\n\\ndef half(value):\\n    return value / 2\\n')"
    test = "import calc\n\n\ndef test_half():\n    assert calc.half(3) == 1.5\n"
    agent(project, [code], test)
    first = project.run("implement", "calc.py", delegator="writer", task="Add half.")
    assert first.reservations == ["change_not_tested"]
    child = project.finish(project.call("delegations/strengthen", id=first.id).id)
    assert "they execute none of the lines that you changed" in calls(project)[1][1]
    assert child.verdict == "verified", child.reservations
    assert [one.path for one in child.result.files] == ["calc.py", "tests/test_calc.py"]
