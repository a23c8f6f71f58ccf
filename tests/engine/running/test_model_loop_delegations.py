"""Delegate work to a model that calls tools: from the command to the verdict."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_model_server import ModelServer
from project_python import project_python
from wait_until import until

from understudy.journal import delegation_folder, worker_files

WRONG = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n    assert add(2, 2) == 4\n"
WEAK = "from calc import add\n\n\ndef test_add():\n    assert add(1, 0) == 1\n"
STRONG = "    assert add(1, 2) == 3\n"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


SIGN = {"calls": [call("edit_file", path="calc.py", old_string="a - b", new_string="a + b")]}
SCRIPTS = {
    "fixer": [
        {"calls": [call("read_file", path="calc.py"), call("list_files")]},
        {**SIGN, "text": "The sign is wrong."},
        {"calls": [call("run_command", command=f"{project_python()} -m pytest -q -p no:cacheprovider")]},
        {"text": "The sign was wrong."},
    ],
    "forgetful": [SIGN, {"text": "First."}, {"calls": [call("read_file", path="calc.py")]}, {"text": "Second."}],
    "improver": [
        {"calls": [call("write_file", path="tests/test_sum.py", content=WEAK)]},
        {"text": "Tested."},
        {"calls": [call("write_file", path="tests/test_sum.py", content=WEAK + STRONG)]},
        {"text": "Tested more."},
    ],
    "careless": [
        {"calls": [call("edit_file", path="calc.py", old_string="a - b", new_string="a * b")]},
        {"text": "It multiplies now."},
        {"calls": [call("edit_file", path="calc.py", old_string="a * b", new_string="a + b")]},
        {"text": "It adds now."},
    ],
    "hurried": [
        {"calls": [call("edit_file", path="calc.py", old_string="a - b", new_string="a * b")]},
        {"text": "It multiplies now."},
        {"calls": [call("edit_file", path="calc.py", old_string="a * b", new_string="a + b")]},
        {"text": "It adds now."},
    ],
    "stubborn": [
        {"calls": [call("edit_file", path="calc.py", old_string="a - b", new_string="a * b")]},
        {"text": "It multiplies now."},
        {"calls": [call("read_file", path="calc.py")]},
        {"text": "It is right."},
    ],
    "cheat": [
        {"calls": [call("edit_file", path="calc.py", old_string="a + b", new_string="a * b")]},
        {"text": "It multiplies now."},
        {"calls": [call("write_file", path="tests/test_calc.py", content="def test_add():\n    pass\n")]},
        {"text": "The check passes now."},
    ],
    "slow": [
        SIGN,
        {"calls": [call("run_command", command="echo y > late.txt; touch waiting; exec sleep 600")]},
        {"text": "Never."},
    ],
    "asked": [
        {"calls": [call("run_command", command="touch waiting; until test -e go; do sleep 0.05; done")]},
        {"text": "Looked."},
    ],
    "endless": [{**SIGN, "text": "On it."}, {"calls": [call("list_files")]}],
}


@pytest.fixture
def served(project):
    project.write("calc.py", WRONG)
    project.write("tests/test_calc.py", TEST)
    project.commit()
    project.settings(
        f"""
        [environment]
        python = "{project_python()}"

        [[checks]]
        name = "tests"
        argv = ["{project_python()}", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        """
    )
    with ModelServer(answers={name: {"loop": turns} for name, turns in SCRIPTS.items()}) as server:
        for folder in ("model-servers", "delegators"):
            (project.config / folder).mkdir(parents=True, exist_ok=True)
        entry = f'name = "scripted"\nkind = "custom"\nbase_url = "{server.base_url}"\n'
        (project.config / "model-servers" / "scripted.toml").write_text(entry)
        for name in SCRIPTS:
            text = f'name = "{name}"\nmodel_server = "scripted"\nmodel = "{name}"\n[limits]\nmax_turns = 6\n'
            (project.config / "delegators" / f"{name}.toml").write_text(text)
        project.server = server
        yield project


@pytest.mark.heavy
def test_a_model_fixes_a_bug_and_its_check_verifies_it(served):
    command = [sys.executable, "-m", "understudy", "start", "fix", "calc.py", "-t", "add subtracts", "-d", "fixer"]
    done = subprocess.run(command, cwd=served.top, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "verified" in (done.stdout + done.stderr).lower()
    assert served.top.joinpath("calc.py").read_text() == WRONG, "the user decides"
    [found] = served.call("delegations/list").delegations
    assert (found.verdict, found.usage.turns, found.usage.tool_calls) == ("verified", 4, 4)
    kinds = [event.__struct_config__.tag for event in served.events(found.id)]
    assert kinds.count("tool_call") == kinds.count("tool_result") == 4
    assert kinds.count("file") == 1
    assert found.sandbox is not None, "the card says how far its commands were confined"


@pytest.mark.heavy
def test_a_reply_sees_the_files_as_they_are_now(served):
    first = served.run("fix", "calc.py", delegator="forgetful", task="add subtracts")
    assert first.verdict == "verified", first.reservations
    reply = served.call("delegations/reply", id=first.id, text="Check the sign again.")
    served.finish(reply.id)
    prompt = str(served.server.requests[-2].body["messages"][1]["content"])
    assert "Check the sign again." in prompt
    assert "a + b" in prompt
    assert "a - b" not in prompt


def test_partial_work_of_a_model_that_never_ends_is_kept(served):
    done = served.run("fix", "calc.py", delegator="endless", task="add subtracts")
    assert (done.verdict, done.error.kind) == ("budget_exhausted", "budget_exhausted")
    assert served.call("delegations/file", id=done.id, path="calc.py", side="result").text.endswith("a + b\n")


@pytest.mark.heavy
def test_surviving_mutants_are_sent_back_to_the_model(served):
    served.git("rm", "-q", "tests/test_calc.py")
    served.write("calc.py", "def add(a, b):\n    return a + b\n")
    served.commit()
    done = served.run("tests", "calc.py", delegator="improver", rounds=1)
    assert done.verdict == "verified", (done.reservations, done.error)
    second = str(served.server.requests[2].body["messages"])
    assert "calc.py" in second
    assert "return a - b" in second, "the mutant that no test noticed"
    kept = served.call("delegations/file", id=done.id, path="tests/test_sum.py", side="result").text
    assert kept == WEAK + STRONG


def said_in(body: dict[str, Any]) -> list[str]:
    return [one["content"] for one in body["messages"] if one["role"] == "user"]


def test_a_check_that_fails_is_sent_back_in_the_same_conversation(served):
    done = served.run("fix", "calc.py", delegator="careless", task="add subtracts")
    assert done.verdict == "verified", (done.reservations, done.error)
    assert [one.number for one in done.attempts] == [1, 2]
    assert len({one.session_id for one in done.attempts}) == 1
    first, second = served.server.requests[1].body["messages"], served.server.requests[2].body["messages"]
    assert second[: len(first)] == first, "the server's cache keeps what it has"
    asked = said_in(served.server.requests[2].body)[-1]
    assert "`tests` (`" in asked
    assert "assert 2 == 3" in asked, "the output of the check"
    reasons = [event.reason for event in served.events(done.id) if event.__struct_config__.tag == "started"]
    assert reasons[-1] == "the check tests failed"
    assert [one.ok for one in done.checks] == [True]


@pytest.mark.parametrize(
    ("name", "base", "verdict", "reservations"),
    [
        pytest.param("stubborn", WRONG, "unverified", ["fails_on_base"], marks=pytest.mark.heavy),
        pytest.param("cheat", WRONG.replace("-", "+"), "checks_failed", [], marks=pytest.mark.heavy),
    ],
)
def test_a_repair_that_repairs_nothing_is_not_kept(served, name, base, verdict, reservations):
    served.write("calc.py", base)
    served.git("commit", "-qam", "base", check=False)
    done = served.run("fix", "calc.py", delegator=name, task="correct add")
    assert (done.verdict, done.reservations) == (verdict, reservations)
    assert len(done.attempts) == 2
    notes = [event.text for event in served.events(done.id) if event.__struct_config__.tag == "note"]
    assert any(text.startswith("The repair was not kept: ") for text in notes), notes
    result = served.call("delegations/diff", id=done.id).files
    assert [one.path for one in result] == ["calc.py"]


@pytest.mark.heavy
def test_repairs_can_be_switched_off_and_end_with_the_limits(served):
    done = served.run("fix", "calc.py", delegator="careless", task="add subtracts", rounds=0)
    assert (done.verdict, len(done.attempts)) == ("unverified", 1)
    limits = {"maxTurns": 2}
    done = served.run("fix", "calc.py", delegator="hurried", task="add subtracts", rounds=3, limits=limits)
    assert (done.verdict, len(done.attempts)) == ("unverified", 1), "its turns are used up"


def test_what_the_user_says_reaches_a_model_that_works(served):
    identifier = served.start("fix", "calc.py", delegator="asked", task="add subtracts")
    tree = served.until(identifier, lambda one: worktree_of(served, one.id) is not None) and worktree_of(
        served, identifier
    )
    until((tree / "waiting").exists)
    said = served.call("delegations/say", id=identifier, text="Look at the sign.")
    assert said.delivery == "sent"
    (tree / "go").touch()
    done = served.finish(identifier)
    assert said_in(served.server.requests[1].body)[-1] == "The user says:\n\nLook at the sign."
    assert [one.delivered for one in done.messages] == [True]


def worktree_of(project, identifier: str):
    found = [event.path for event in project.events(identifier) if event.__struct_config__.tag == "worktree"]
    return Path(found[-1]) if found else None


@pytest.mark.heavy
def test_a_killed_worker_leaves_every_turn(served):
    identifier = served.start("fix", "calc.py", delegator="slow", task="add subtracts")
    served.until(identifier, lambda one: worktree_of(served, one.id) is not None)
    until((worktree_of(served, identifier) / "waiting").exists)
    holder = worker_files.read_holder(delegation_folder.open_folder(identifier))
    os.kill(holder.identity.pid, signal.SIGKILL)
    done = served.finish(identifier)
    assert done.verdict == "interrupted"
    text = served.call("delegations/file", id=identifier, path="calc.py", side="result").text
    assert text.endswith("a + b\n"), "the turn before the one that was killed"
    served.call("delegations/check", id=identifier)
    done = served.finish(identifier)
    result = served.call("delegations/diff", id=done.id).files
    assert [one.path for one in result] == ["calc.py", "late.txt", "waiting"], "what came after it is not lost either"
