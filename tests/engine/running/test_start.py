"""Several tasks start as one group: from one base, with one budget, all of them or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from wait_until import until

from understudy.engine.bases import base_recorder
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.store import store

QUICK = 'sys.stdin.read()\npathlib.Path("new.txt").write_text("x")\nsay(type="result", ok=True, text="Done.")'
SPENDING = """
sys.stdin.read()
say(type="usage", inputTokens=600, outputTokens=0)
say(type="result", ok=True, text="Done.")
"""


def tasks(project, count: int, delegator: str = "quick", recipe: str = "implement") -> list[dict]:
    return [
        {"recipe": recipe, "task": f"task {number}", "delegator": delegator, "workspace": str(project.top)}
        for number in range(count)
    ]


def wait(project, group: str) -> list:
    return project.call("groups/wait", id=group, timeoutSeconds=90).delegations


def test_the_tasks_of_a_group_begin_with_one_commit_and_one_set_of_unsaved_texts(project):
    project.program("quick", QUICK)
    project.settings("[limits]\nslots = 1\n")
    unsaved = [{"uri": str(project.top / "calc.py"), "text": "# unsaved\n"}]
    started = project.call("groups/start", tasks=tasks(project, 3), buffers=unsaved)
    project.write("calc.py", "# written after the start\n")
    project.write("later.py", "# written after the start\n")
    done = wait(project, started.group.id)
    assert [(one.id, one.verdict) for one in done] == [(id_, "unverified") for id_ in started.group.delegations]
    assert [one.title for one in done] == [f"task {number}" for number in range(3)], "the order of the tasks"
    assert len({one.base for one in done}) == 1
    assert project.call("delegations/file", id=done[2].id, path="calc.py", side="base").text == "# unsaved\n"
    with pytest.raises(UnderstudyError, match=r"later\.py is not in the base"):
        project.call("delegations/file", id=done[0].id, path="later.py", side="base")
    assert len(started.explanations) == 3


def test_an_error_in_one_task_starts_none(project):
    project.program("quick", QUICK)
    wrong = [*tasks(project, 2), tasks(project, 1, delegator="missing")[0]]
    with pytest.raises(UnderstudyError) as caught:
        project.call("groups/start", tasks=wrong)
    assert (caught.value.kind, caught.value.parameter) == (ErrorKind.UNKNOWN_DELEGATOR, "tasks[2]")
    assert delegation_folder.ids() == []
    assert not base_recorder.has_snapshots(delegation_folder.state_root())


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"groupId": "20261121-004512-k3f9q"}, "tasks[1].groupId"),
        ({"idempotencyKey": "x"}, "tasks[1].idempotencyKey"),
        ({"launch": {"useWorktree": False}}, "tasks[1].delegator"),
    ],
)
def test_what_belongs_to_a_single_start_is_refused(project, changed, parameter):
    project.program("quick", QUICK)
    both = tasks(project, 2)
    both[1] |= changed
    with pytest.raises(UnderstudyError) as caught:
        project.call("groups/start", tasks=both)
    assert (caught.value.kind, caught.value.parameter) == (ErrorKind.INVALID_PARAMS, parameter)


@pytest.mark.parametrize("budget", [{"maxTokens": 0}, {"maxUsd": "a lot"}])
def test_a_budget_that_is_none_is_refused(project, budget):
    project.program("quick", QUICK)
    with pytest.raises(UnderstudyError) as caught:
        project.call("groups/start", tasks=tasks(project, 1), budget=budget)
    assert (caught.value.kind, caught.value.parameter) == (ErrorKind.INVALID_PARAMS, "budget")


@pytest.mark.heavy
def test_what_waits_does_not_start_when_the_budget_is_spent(project):
    project.program("spending", SPENDING)
    project.settings("[limits]\nslots = 1\n")
    started = project.call("groups/start", tasks=tasks(project, 3, "spending", "ask"), budget={"maxTokens": 600})
    done = wait(project, started.group.id)
    assert [one.verdict for one in done] == ["answered", "budget_exhausted", "budget_exhausted"]
    assert done[2].error.kind == "budget_exhausted"
    assert "600 of 600 tokens" in done[2].error.message
    assert done[2].attempts == []


def test_what_runs_is_stopped_when_the_budget_is_spent(project):
    project.program("spending", SPENDING)
    project.program("endless", 'sys.stdin.read()\nsay(type="usage", inputTokens=9000, outputTokens=0)\ntime.sleep(600)')
    both = [*tasks(project, 1, "spending", "ask"), *tasks(project, 1, "endless", "ask")]
    started = project.call("groups/start", tasks=both, budget={"maxTokens": 5000})
    done = wait(project, started.group.id)
    assert done[1].verdict == "budget_exhausted"
    assert "of 5000 tokens" in done[1].error.message


@pytest.mark.heavy
def test_one_of_eight_that_crashes_leaves_the_others_as_they_are(project):
    project.program("quick", QUICK)
    project.program("crashing", "sys.stdin.read()\nos.kill(os.getpid(), 9)")
    eight = tasks(project, 8)
    eight[3]["delegator"] = "crashing"
    started = project.call("groups/start", tasks=eight, kind="compare")
    done = wait(project, started.group.id)
    assert [one.verdict for one in done] == ["failed" if number == 3 else "unverified" for number in range(8)]
    assert len({one.worktree for one in done}) == 8


def test_one_member_is_cancelled_and_the_others_go_on(project, tmp_path):
    go = tmp_path / "go"
    waiting = f"sys.stdin.read()\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n{QUICK}"
    project.program("patient", waiting)
    started = project.call("groups/start", tasks=tasks(project, 2, "patient"))
    first, second = started.group.delegations
    assert project.call("delegations/cancel", id=first).verdict == "cancelled"
    go.touch()
    assert [one.verdict for one in wait(project, started.group.id)] == ["cancelled", "unverified"]
    assert project.call("groups/get", id=started.group.id).delegations == [first, second]


def test_a_start_that_is_killed_leaves_no_member_without_an_end(project):
    project.program("quick", QUICK)
    script = f"""
import pathlib
from understudy.api import method_table
from understudy.api.caller import TerminalCaller

method_table.call("groups/start", {{"tasks": {tasks(project, 3)!r}}}, TerminalCaller(pathlib.Path.cwd()))
"""
    environment = {**os.environ, "UNDERSTUDY_FAILPOINT": "group created:1"}
    killed = subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    found = project.call("delegations/list").delegations
    assert [one.verdict for one in found] == ["interrupted"] * 3
    root = delegation_folder.state_root()
    assert store.queued(root) == []
    project.run("implement", delegator="quick", task="x")
    until(lambda: not base_recorder.has_snapshots(root), "the next worker removes what is left")


def test_of_equal_starts_with_a_key_only_one_starts_something(project):
    project.program("quick", QUICK)

    def start(key):
        return project.call("groups/start", tasks=tasks(project, 2), idempotencyKey=key).group.id

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(start, ["k"] * 4))
    assert len(found) == 1
    other = start("another")
    assert {other} != found
    for group in (*found, other):
        assert [one.verdict for one in wait(project, group)] == ["unverified"] * 2
    assert len(project.call("delegations/list").delegations) == 4
