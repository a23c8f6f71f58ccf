"""The pauses of delegators, which all processes share, and tasks that start after others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import msgspec
import pytest
import wait_until

from understudy.engine.queueing import launcher, start_conditions
from understudy.journal import delegation_folder, worker_files
from understudy.model.config.config_entries import CircuitState, Pause
from understudy.model.config.delegators import Delegator
from understudy.model.delegation.spec import PauseBounds
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.store import store

ASKS = """
import sys
from understudy.engine.queueing import start_conditions
from understudy.journal import delegation_folder
from understudy.model.config.delegators import Delegator
sys.stdin.readline()
root = delegation_folder.state_root()
admission = start_conditions.admit_attempt(root, Delegator(name="d", tool="generic"), None)
print("admitted" if admission.pause is None else "refused", flush=True)
sys.stdin.readline()
"""
WAITING = """
sys.stdin.read()
while not os.path.exists(GO): time.sleep(0.02)
with open(ORDER, "a") as file: file.write(os.environ["UNDERSTUDY_DELEGATION"] + "\\n")
say(type="result", ok=True, text="Done.")
"""


def answers_of(number: int) -> list[str]:
    """Let real processes ask at once, all of them alive until the last has its answer."""
    started = [
        subprocess.Popen([sys.executable, "-c", ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    try:
        for one in started:
            one.stdin.write("ask\n")
            one.stdin.flush()
        return [one.stdout.readline().strip() for one in started]
    finally:
        for one in started:
            one.communicate("end\n", timeout=60)


def test_of_several_processes_one_probes(own_home) -> None:
    """Real processes ask at the same time, when the pause is over."""
    delegator, root = Delegator(name="d", tool="generic"), delegation_folder.state_root()
    for _ in range(3):
        error = ErrorInfo(ErrorKind.OVERLOADED, "Busy.")
        start_conditions.attempt_failed(root, delegator, None, error, PauseBounds(outage_pause_seconds=1e-9))
    assert sorted(answers_of(4)) == ["admitted"] + ["refused"] * 3
    admission = start_conditions.admit_attempt(root, delegator, None)
    assert admission.pause is None, "they have ended, so the next one probes"
    assert admission.is_probe
    [pause] = start_conditions.pauses(root, delegator, None)
    assert pause.state is CircuitState.HALF_OPEN


def test_a_pause_is_described_in_the_same_words_everywhere() -> None:
    pause = Pause(
        failure="rate_limit", state=CircuitState.OPEN, failures=1, until="2026-01-01T00:00:00Z", message="No."
    )
    assert start_conditions.described(pause) == "until 2026-01-01T00:00:00Z (rate limit, once): No."
    probed = msgspec.structs.replace(pause, state=CircuitState.HALF_OPEN, failures=2)
    assert start_conditions.described(probed) == "while it is tried again (rate limit, 2 times): No."


def test_no_failure_is_lost_between_threads(own_home) -> None:
    delegator, root = Delegator(name="d", tool="generic"), delegation_folder.state_root()
    error = ErrorInfo(ErrorKind.AUTH_FAILED, "No.")
    bounds = PauseBounds(failures=1000)

    def fail() -> None:
        for _ in range(10):
            start_conditions.attempt_failed(root, delegator, None, error, bounds)

    threads = [threading.Thread(target=fail) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    start_conditions.attempt_failed(root, delegator, None, error, PauseBounds(failures=41))
    [pause] = start_conditions.pauses(root, delegator, None)
    assert pause.failures == 41


@pytest.fixture
def go(project, tmp_path):
    """Two delegators: ``patient`` ends when the returned file exists, ``failing`` fails at once."""
    project.program("patient", f"GO, ORDER = {str(tmp_path / 'go')!r}, {str(tmp_path / 'order')!r}\n{WAITING}")
    project.program("failing", "sys.stdin.read()\nsys.exit(3)")
    return tmp_path / "go"


def task(project, name: str, *after: str, delegator: str = "patient") -> dict:
    given = {"name": name, "recipe": "ask", "task": name, "delegator": delegator, "workspace": str(project.top)}
    return given | ({"after": list(after)} if after else {})


def start(project, *tasks: dict) -> list[str]:
    started = project.call("groups/start", tasks=list(tasks)).group
    group = project.call("groups/get", id=started.id)
    assert group.delegations == sorted(group.delegations), "the ids have the order of the file"
    return group.delegations


def running(project, identifier: str) -> None:
    project.until(identifier, lambda one: one.state == "running")


def test_tasks_start_after_those_that_they_name_in_any_order_of_the_file(project, go, tmp_path):
    last, first, middle, free = start(
        project, task(project, "last", "middle", "first"), task(project, "first"), task(project, "middle", "first"),
        task(project, "free"),
    )  # fmt: skip
    running(project, first)
    running(project, free)
    waits = project.call("queue/get").delegations
    assert [(one.id, one.after) for one in waits] == [(last, [first, middle]), (middle, [first])]
    assert all(one.attempts == [] for one in waits)
    go.touch()
    assert [project.finish(one).verdict for one in (last, first, middle, free)] == ["answered"] * 4
    order = (tmp_path / "order").read_text().split()
    assert [one for one in order if one != free] == [first, middle, last]
    assert store.queued(delegation_folder.state_root()) == []


def test_a_task_does_not_start_after_one_that_failed_and_says_why(project, go):
    failed, dependent, third, other = start(
        project, task(project, "failed", delegator="failing"), task(project, "dependent", "failed"),
        task(project, "third", "dependent"), task(project, "other"),
    )  # fmt: skip
    assert project.finish(failed).verdict == "failed"
    for identifier, named in ((dependent, failed), (third, dependent)):
        done = project.finish(identifier)
        assert (done.verdict, done.error.kind, done.attempts) == ("failed", ErrorKind.DEPENDENCY_FAILED, [])
        assert named in done.error.message
    go.touch()
    assert project.finish(other).verdict == "answered"
    assert store.queued(delegation_folder.state_root()) == []


def test_what_comes_after_a_cancelled_task_is_cancelled(project, go):
    first, second, third = start(
        project, task(project, "first"), task(project, "second", "first"), task(project, "third", "second")
    )
    running(project, first)
    assert project.call("delegations/cancel", id=first).verdict == "cancelled"
    ended = [project.finish(one) for one in (second, third)]
    assert [(one.verdict, one.error.kind) for one in ended] == [("cancelled", ErrorKind.DEPENDENCY_FAILED)] * 2


def test_a_task_whose_predecessor_was_killed_ends_with_its_reason(project, go):
    first, second = start(project, task(project, "first"), task(project, "second", "first"))
    running(project, first)
    holder = worker_files.read_holder(delegation_folder.open_folder(first))
    os.kill(holder.identity.pid, signal.SIGKILL)
    done = project.finish(second)
    assert (done.verdict, done.error.kind) == ("failed", ErrorKind.DEPENDENCY_FAILED)
    assert project.finish(first).verdict == "interrupted"


@pytest.mark.parametrize(
    "content", [b"no database" * 1000, *(pytest.param(content, marks=pytest.mark.heavy) for content in (None, b""))]
)
def test_a_store_that_was_removed_or_damaged_loses_no_task_and_starts_none_early(project, go, content):
    first, second = start(project, task(project, "first"), task(project, "second", "first"))
    running(project, first)
    root = delegation_folder.state_root()
    for path in root.glob("store.sqlite*"):
        path.unlink()
    if content is not None:
        (root / store.NAME).write_bytes(content)

    def is_held_again() -> bool:
        launcher.start_waiting(root)  # does nothing while another process records the base
        return store.awaited(root) == [first]

    wait_until.until(is_held_again)
    assert project.call("delegations/get", id=second).state == "queued"
    assert (store.queued(root), store.waiting(root)) == ([second], [])
    go.touch()
    assert project.finish(second).verdict == "answered"


@pytest.mark.heavy
def test_a_store_that_was_removed_while_a_task_is_locked_lets_it_wait_later(project, go):
    first, second = start(project, task(project, "first"), task(project, "second", "first"))
    running(project, first)
    root = delegation_folder.state_root()
    lock = wait_until.until(lambda: worker_files.try_lock(delegation_folder.open_folder(second)))
    try:
        for path in root.glob("store.sqlite*"):
            path.unlink()
        launcher.start_waiting(root)
        assert store.awaited(root) == []
    finally:
        os.close(lock)
    launcher.start_waiting(root)
    assert store.awaited(root) == [first]
    go.touch()
    assert project.finish(second).verdict == "answered"


@pytest.mark.heavy
def test_a_start_that_is_killed_ends_the_tasks_that_it_did_not_submit(project, go):
    tasks = [task(project, "third", "second"), task(project, "second", "first"), task(project, "first")]
    script = f"""
import pathlib
from understudy.api import method_table
from understudy.api.caller import TerminalCaller

method_table.call("groups/start", {{"tasks": {tasks!r}}}, TerminalCaller(pathlib.Path.cwd()))
"""
    # Tasks are submitted after those that they come after: the third one was not.
    environment = {**os.environ, "UNDERSTUDY_FAILPOINT": "queued:1"}
    killed = subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    first, second, third = sorted(project.call("delegations/list").delegations, key=lambda one: one.title)
    assert third.verdict == "interrupted"
    go.touch()
    assert [project.finish(one.id).verdict for one in (first, second)] == ["answered"] * 2


@pytest.mark.parametrize(
    ("after", "order"),
    [
        ([[], [0], []], [0, 1, 2]),
        ([[2], [], []], [1, 2, 0]),
        ([[1], [2], [3], []], [3, 2, 1, 0]),
        ([[], [3], [0], [2], []], [0, 2, 3, 1, 4]),
    ],
)
def test_tasks_are_submitted_after_those_that_they_come_after(after, order):
    assert start_conditions.submission_order(after) == order


@pytest.mark.heavy
def test_retries_wait_for_each_other_as_their_tasks_did(project, go, tmp_path):
    failed, dependent, third = start(
        project, task(project, "failed", delegator="failing"), task(project, "dependent", "failed"),
        task(project, "third", "dependent"),
    )  # fmt: skip
    project.finish(third)
    project.call("delegations/retry", id=failed)  # fails again
    again = [project.call("delegations/retry", id=failed, delegator="patient").id]
    again += [project.call("delegations/retry", id=one).id for one in (dependent, third)]
    waits = {one.id: one.after for one in project.call("queue/get").delegations}
    assert waits == {again[1]: [again[0]], again[2]: [again[1]]}
    go.touch()
    assert [project.finish(one).verdict for one in again] == ["answered"] * 3
    assert (tmp_path / "order").read_text().split() == again


def test_a_retry_of_a_task_does_not_wait_for_what_has_ended(project, go):
    failed, dependent = start(
        project, task(project, "failed", delegator="failing"), task(project, "dependent", "failed")
    )
    project.finish(failed)
    project.finish(dependent)
    go.touch()
    again = project.finish(project.call("delegations/retry", id=dependent).id)
    assert (again.verdict, again.after) == ("answered", [])


def test_a_retry_of_what_ended_before_its_base_starts_from_the_files_as_they_are(project, go):
    """A task can fail with the one that it comes after before another process has recorded its base."""
    failed, dependent = start(
        project, task(project, "failed", delegator="failing"), task(project, "dependent", "failed")
    )
    project.finish(failed)
    project.finish(dependent)
    (delegation_folder.open_folder(dependent).path / "worktree.json").unlink(missing_ok=True)
    go.touch()
    again = project.finish(project.call("delegations/retry", id=dependent).id)
    assert (again.verdict, again.base is not None) == ("answered", True)


@pytest.mark.parametrize(
    ("names", "after", "parameter", "says"),
    [
        (["one", "two"], [None, ["ome"]], "tasks[1].after", "There is no task 'ome'. Did you mean `one`?"),
        ([None, None], [None, ["one"]], "tasks[1].after", "There is no task 'one'. Give the other task a name"),
        (["one", "one"], [None, None], "tasks[1].name", "Two tasks have the name 'one'."),
        ([" "], [None], "tasks[0].name", "The name of a task is empty."),
        (["one"], [["one"]], "tasks[0].after", "Tasks wait for each other: 'one' → 'one'."),
        (
            ["zero", "one", "two", "three"],
            [["three"], ["two", "zero"], ["one"], None],
            "tasks[1].after",
            "Tasks wait for each other: 'one' → 'two' → 'one'.",
        ),
    ],
)
def test_names_that_cannot_be_followed_are_refused(names, after, parameter, says):
    with pytest.raises(UnderstudyError) as caught:
        start_conditions.resolve_after(names, after)
    assert (caught.value.kind, caught.value.parameter) == (ErrorKind.INVALID_PARAMS, parameter)
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_a_long_chain_and_a_wide_one_are_resolved():
    names = [str(number) for number in range(200)]
    chain = [[], *([number] for number in range(199))]
    assert start_conditions.resolve_after(names, [[names[one] for one in others] for others in chain]) == chain
    wide = [[names[-1]]] * 199 + [None]
    assert start_conditions.resolve_after(names, wide) == [[199]] * 199 + [[]]


def test_ids_that_are_made_together_are_in_order():
    made = delegation_folder.new_ids(1000)
    assert made == sorted(set(made))
