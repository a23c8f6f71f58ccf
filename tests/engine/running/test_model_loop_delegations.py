"""Delegate work to a model that calls tools: from the command to the verdict."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from project_python import project_python

from understudy.testing.model_server import ModelServer

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
