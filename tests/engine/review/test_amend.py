"""Test that new tests that notice nothing are dropped from the result only, and nothing else is."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from understudy.engine.review import decisions
from understudy.frontends.cli import app
from understudy.git import verification
from understudy.journal import delegation_folder
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import CheckResult, JudgedMutant, MutantStatus, MutationResult
from understudy.model.verdicts import Verdict

GOOD = '''"""Tests of sums."""

import calc
import pytest


def test_add():
    assert calc.add(1, 2) == 3
'''
NOTHING = '''

# It only runs.
def test_runs():
    calc.clamp(2, 0, 9)


class TestIdle:
    """Nothing to see."""

    @pytest.mark.parametrize("value", [1, 2])
    def test_clamp_runs(self, value):
        calc.clamp(value, 0, 9)
'''
PARTLY = """

@pytest.mark.parametrize(("value", "found"), [(5, None), (-1, 0), (99, 9)])
def test_clamp(value, found):
    assert found is None or calc.clamp(value, 0, 9) == found
    calc.clamp(value, 0, 9)
"""
OLD = "import calc\n\n\ndef test_old():\n    calc.clamp(1, 1, 2)\n"
ALONE = "import calc\n\nLIMIT = 9\n\n\ndef test_alone():\n    calc.clamp(1, 0, LIMIT)\n"


IDLE = [
    "tests/test_alone.py::test_alone",
    "tests/test_calc.py::TestIdle::test_clamp_runs[1]",
    "tests/test_calc.py::TestIdle::test_clamp_runs[2]",
    "tests/test_calc.py::test_clamp[5-None]",
    "tests/test_calc.py::test_runs",
    "tests/test_old.py::test_low",
]
KILLER = "tests/test_calc.py::test_clamp[99-9]"
FILES = {
    "tests/test_calc.py": GOOD + NOTHING + PARTLY,
    "tests/test_old.py": OLD + "\n\ndef test_more():\n    pass\n\n\ndef test_low(): calc.clamp(0, 0, 9)\n",
    "tests/test_alone.py": ALONE,
}


def judge(project, *idle):
    """Write to the journal what a check would show that runs on the result as it is."""
    with decisions.lock_result(delegation_folder.open_folder(project.id)) as at:
        mutant = JudgedMutant(
            id="0" * 12,
            path="calc.py",
            line=11,
            function="clamp",
            operator="return",
            before="a",
            after="b",
            status=MutantStatus.KILLED,
            killed_by=[KILLER],
        )
        result = CheckResult(
            name="suite",
            argv=[],
            seconds=1.0,
            tree=verification.tree_of(at.store, at.head),
            output_tail="",
            mutation=MutationResult(killed=1, viable=2, mutants=[mutant], idle=list(idle)),
            flaky=False,
            fails_on_base=False,
            ok=True,
            required=True,
        )
        at.writer.append(events.CheckFinished.of(result), attempt=0)
        at.writer.append(events.Finished(verdict=Verdict.VERIFIED, reservations=[]), attempt=0)


@pytest.fixture
def reviewed(project):
    project.write("tests/test_old.py", OLD)
    project.commit()
    writing = f"for name, text in {FILES!r}.items(): pathlib.Path(name).write_text(text)"
    project.program("writer", f"{writing}\nsay(type='result', ok=True)")
    project.id = project.run("implement", "calc.py", delegator="writer", task="Write tests.").id
    judge(project, *IDLE)
    return project


def result(project, path):
    return project.call("delegations/file", id=project.id, path=path, side="result").text


def refused(kind, project, *tests):
    before = len(project.events(project.id))
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/drop", id=project.id, tests=list(tests))
    assert caught.value.kind is kind
    assert len(project.events(project.id)) == before
    return caught.value


def test_all_that_notice_nothing_go_and_nothing_else(reviewed):
    mine = reviewed.fingerprint()
    done = reviewed.call("delegations/drop", id=reviewed.id)
    assert done.files == ["tests/test_alone.py", "tests/test_calc.py", "tests/test_old.py"]
    assert [(one.test, one.why) for one in done.kept] == [(IDLE[3], f"is also {KILLER}, which may notice something")]
    assert done.dropped == [*IDLE[:3], *IDLE[4:]]
    assert result(reviewed, "tests/test_calc.py") == GOOD + PARTLY
    assert result(reviewed, "tests/test_old.py") == OLD + "\n\ndef test_more():\n    pass\n"
    after = reviewed.call("delegations/get", id=reviewed.id)
    assert (after.verdict, after.reservations, after.head) == ("unverified", ["checks_outdated"], done.head)
    diff = reviewed.call("delegations/diff", id=reviewed.id)
    assert [file.path for file in diff.files] == ["tests/test_calc.py", "tests/test_old.py"]
    assert after.review.pending == 2
    assert sum(isinstance(event, events.Amended) for event in reviewed.events(reviewed.id)) == 3
    assert "test_alone" not in delegation_folder.open_folder(reviewed.id).review.read_text()
    assert reviewed.fingerprint() == mine
    assert not (reviewed.top / "tests" / "test_calc.py").exists()
    assert f"understudy check {reviewed.id}" in str(refused(ErrorKind.CONFLICT, reviewed).hint)


def test_an_amend_restores_what_was_dropped(reviewed):
    done = reviewed.call("delegations/drop", id=reviewed.id, tests=[IDLE[0], IDLE[4]])
    assert done.dropped == [IDLE[0], IDLE[4]]
    head = done.head
    for path in done.files:
        head = reviewed.call("delegations/amend", id=reviewed.id, path=path, text=FILES[path], head=head).head
    assert [result(reviewed, path) for path in FILES] == list(FILES.values())
    judge(reviewed, *IDLE)
    reviewed.call("delegations/drop", id=reviewed.id, tests=[IDLE[0]])
    assert "tests/test_alone.py" not in [file.path for file in reviewed.call("delegations/diff", id=reviewed.id).files]


def test_what_cannot_be_dropped_is_named_and_nothing_changes(reviewed):
    error = refused(ErrorKind.INVALID_PARAMS, reviewed, KILLER)
    assert "not among those that notice nothing" in error.message
    error = refused(ErrorKind.INVALID_PARAMS, reviewed, IDLE[0], IDLE[3])
    assert f"{IDLE[3]} is also {KILLER}" in error.message
    judge(reviewed, "tests/test_old.py::test_old", IDLE[0])
    error = refused(ErrorKind.INVALID_PARAMS, reviewed, "tests/test_old.py::test_old")
    assert "exists in the base" in error.message
    judge(reviewed, "tests/test_old.py::test_old")
    assert "exists in the base" in refused(ErrorKind.INPUT_EMPTY, reviewed).message
    made = "tests/test_calc.py::test_made_by_a_loop"
    judge(reviewed, IDLE[0], made)
    for tests in ([], [made]):
        error = refused(ErrorKind.INVALID_PARAMS, reviewed, *tests)
        assert error.names == [made]
        assert "was not found" in error.message
    judge(reviewed)
    refused(ErrorKind.INPUT_EMPTY, reviewed)


def test_a_method_that_another_class_inherits_stays(project):
    text = "import calc\n\n\nclass {}:\n    def test_it(self):\n        calc.clamp(1, 0, 2)\n"
    files = {
        "test_a.py": text.format("TestA"),
        "test_b.py": "from test_a import TestA\n\n\nclass TestB(TestA):\n    pass\n",
    }
    writing = f"for name, text in {files!r}.items(): pathlib.Path(name).write_text(text)"
    project.program("writer", f"{writing}\nsay(type='result', ok=True)")
    project.id = project.run("implement", "calc.py", delegator="writer", task="Write tests.").id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.KILLER", "test_b.py::TestB::test_it")
        judge(project, "test_a.py::TestA::test_it")
    error = refused(ErrorKind.INPUT_EMPTY, project)
    assert "may be inherited as test_b.py::TestB::test_it" in error.message


@pytest.mark.heavy
def test_the_command_drops_and_checks_again(project):
    text = GOOD + NOTHING
    project.program("writer", f"pathlib.Path('test_calc.py').write_text({text!r}); say(type='result', ok=True)")
    project.id = project.run("tests", "calc.py", delegator="writer").id
    done = CliRunner().invoke(app.group, ["drop", project.id, "--check"])
    assert done.exit_code == 0, done.output
    dropped = sorted(line for line in done.output.splitlines() if line.startswith("dropped: "))
    names = ["TestIdle::test_clamp_runs[1]", "TestIdle::test_clamp_runs[2]", "test_runs"]
    assert dropped == [f"dropped: test_calc.py::{name}" for name in names]
    assert "verified" in done.output
    assert "notices nothing" not in done.output
    assert result(project, "test_calc.py") == GOOD
    again = CliRunner().invoke(app.group, ["drop", project.id])
    assert isinstance(again.exception, UnderstudyError)
    assert again.exception.kind is ErrorKind.INPUT_EMPTY
