"""Test that accepting changed tests confirms them, and the requests about evidence."""

from __future__ import annotations

import json

import pytest
from project_python import project_python

from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError

TESTS = "from calc import add, clamp\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\ndef test_clamp():\n    assert clamp(5, 0, 3) == 3\n"
CHANGED = TESTS.replace("clamp(5, 0, 3) == 3", "clamp(5, 0, 3) == 4")
CODE = "def add(a, b):\n    return a + b\n\n\ndef clamp(x, low, high):\n    return high + 1 if x > high else x\n"
CI = """
    [environment]
    python = "{python}"

    [[checks]]
    name = "ci"
    argv = ["{{python}}", "-m", "pytest", "-q"]
"""


@pytest.fixture
def asked(project):
    """A project with a result whose only reservation is that a test expects something else than before."""
    project.write("tests/test_calc.py", TESTS)
    project.commit()
    project.trust()
    project.settings(CI.format(python=project_python()))
    project.program(
        "doer",
        f"pathlib.Path('calc.py').write_text({CODE!r})\n"
        f"pathlib.Path('tests/test_calc.py').write_text({CHANGED!r})\nsay(type='result', ok=True, text='done')",
    )
    done = project.run("implement", "calc.py", delegator="doer", task="clamp one above the limit")
    assert (done.verdict, done.reservations) == ("unverified", ["tests_changed"]), done.checks
    project.id = done.id
    return project


def accept(project, path):
    diff = project.call("delegations/diff", id=project.id)
    hunks = next(file.hunks for file in diff.files if file.path == path)
    return project.call(
        "delegations/decide",
        id=project.id,
        decisions=[{"path": path, "hunk": hunk.id, "decision": "accept"} for hunk in hunks],
    )


def state(project):
    found = project.call("delegations/get", id=project.id)
    return found.verdict, found.reservations, found.confirmed_tests


@pytest.mark.heavy
def test_changed_tests_are_confirmed_until_their_accept_is_undone_or_the_checks_run_again(asked):
    page = asked.call("delegations/evidence", id=asked.id).markdown
    assert "# Unverified" in page
    assert "the result with the base's files" in page
    assert ": tests notice" in page
    assert r"test\_clamp: failed → passed" in page
    reports = delegation_folder.open_folder(asked.id).path.glob("mutation-report*.json")
    assert [json.loads(path.read_text())["schemaVersion"] for path in reports] == ["2.0"]

    accept(asked, "calc.py")
    assert state(asked) == ("unverified", ["tests_changed"], 0)
    done = accept(asked, "tests/test_calc.py")
    assert state(asked) == ("verified", [], 1)
    asked.call("delegations/undo", undoToken=done.undo_token)
    assert state(asked) == ("unverified", ["tests_changed"], 0)
    accept(asked, "tests/test_calc.py")
    assert state(asked)[0] == "verified"

    # A dismissed change is left out from then on.
    [check] = asked.call("delegations/get", id=asked.id).checks
    survivors = [mutant for mutant in check.mutation.mutants if mutant.status == "Survived"]
    assert survivors, "the test has a case only above the limit"
    with pytest.raises(UnderstudyError) as caught:
        asked.call("delegations/dismiss", id=asked.id, mutants=["000000000000"])
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    asked.call("delegations/dismiss", id=asked.id, mutants=[survivors[0].id])
    asked.call("delegations/check", id=asked.id)
    assert state(asked) == ("unverified", ["tests_changed"], 0)
    [again] = asked.call("delegations/get", id=asked.id).checks
    assert again.mutation.dismissed == 1
    assert survivors[0].id not in {mutant.id for mutant in again.mutation.mutants}
    assert again.mutation.total == check.mutation.total - 1
