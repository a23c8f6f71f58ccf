"""The queue is paused, resumed and reordered, and keeps that on disk."""

from __future__ import annotations

import pytest

from understudy.engine.queueing import launcher
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.store import store

QUICK = """
sys.stdin.read()
with open(ORDER, "a") as file: file.write(os.environ["UNDERSTUDY_DELEGATION"] + "\\n")
say(type="result", ok=True, text="Done.")
"""


@pytest.mark.heavy
def test_what_waits_starts_in_the_order_of_the_user_once_the_queue_goes_on(project, tmp_path):
    order = tmp_path / "order.txt"
    project.program("quick", f"ORDER = {str(order)!r}\n{QUICK}")
    project.settings("[limits]\nslots = 1\n")
    assert project.call("queue/pause", paused=True).paused
    first, second, third = [project.start("ask", delegator="quick", task=str(number)) for number in range(3)]
    root = delegation_folder.state_root()
    assert not launcher.start_waiting(root)
    found = project.call("queue/get")
    assert (found.paused, [one.id for one in found.delegations]) == (True, [first, second, third])

    assert [one.id for one in project.call("queue/move", id=third, position=1).delegations] == [third, first, second]
    assert store.position(root, first) == 2
    assert [one.id for one in project.call("queue/move", id=third, position=99).delegations] == [first, second, third]
    project.call("queue/move", id=second, position=1)
    later = project.start("ask", delegator="quick", task="later")

    assert not project.call("queue/pause", paused=False).paused
    for identifier in (first, second, third, later):
        assert project.finish(identifier).verdict == "answered"
    assert order.read_text().split() == [second, first, third, later]
    assert project.call("queue/get").delegations == []


def test_what_does_not_wait_is_not_moved(project):
    project.program("quick", "sys.stdin.read()\nsay(type='result', ok=True, text='Done.')")
    done = project.run("ask", delegator="quick", task="x")
    with pytest.raises(UnderstudyError) as caught:
        project.call("queue/move", id=done.id, position=1)
    assert caught.value.kind is ErrorKind.CONFLICT


def test_a_paused_delegation_can_be_cancelled(project):
    project.program("quick", "sys.stdin.read()\nsay(type='result', ok=True, text='Done.')")
    project.call("queue/pause", paused=True)
    waiting = project.start("ask", delegator="quick", task="x")
    assert project.call("delegations/cancel", id=waiting).verdict == "cancelled"
    project.call("queue/pause", paused=False)
