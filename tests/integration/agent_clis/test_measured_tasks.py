"""Do some of the tasks that scripts/measure_tasks.py measures, with each agent (all of them: that script)."""

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture(scope="module")
def measure_tasks():
    sys.path.append(str(SCRIPTS))  # it uses the script beside it
    spec = importlib.util.spec_from_file_location("measure_tasks", SCRIPTS / "measure_tasks.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]
    sys.path.remove(str(SCRIPTS))


def test_there_are_as_many_tasks_of_each_kind(measure_tasks):
    kinds = Counter(task["kind"] for task in measure_tasks.TASKS.values())
    assert kinds == {"fix": 5, "refactor": 5, "docs": 5, "tests": 5}
    for task in measure_tasks.TASKS.values():
        assert ("edit" in task) != ("write" in task)
        assert task["kind"] != "fix" or task["bug"] == task["edit"][::-1], "the model undoes the bug"
        assert task["check"].strip()


def test_the_figures_of_all_tasks_are_sums(measure_tasks):
    one = measure_tasks.Measured("a", "fix", "own", "right", requests=3, tokens=1000, largest=400, seconds=2.0)
    other = measure_tasks.Measured(
        "b", "docs", "own", "nothing changed", requests=1, tokens=50, largest=50, seconds=4.0
    )
    assert "| tool loop | all | 1 of 2 | 4 | 1,050 | 400 | 3.0 |" in measure_tasks.together([one, other])


@pytest.mark.heavy
@pytest.mark.timeout(420)
def test_every_agent_does_its_task_right(measure_tasks, programs, tmp_path):
    agents = {"own": None, "claude": programs, "opencode": programs}
    try:
        found = list(measure_tasks.measured(tmp_path, ["ordinal-fix"], agents))
        found += measure_tasks.measured(tmp_path, ["names-tests", "encode-docs"], {"own": None})
    except subprocess.SubprocessError as error:
        pytest.skip(f"requirements/packages.txt cannot be installed: {error}")
    said = "\n".join(one.row() for one in found)
    assert all(one.right for one in found), said
    assert [one.requests for one in found] == [3] * len(found), said
    assert found[0].tokens < min(one.tokens for one in found[1:3]), "our own loop sends least"
