"""Agents that delegate endlessly: never more than the bounds allow, and all end with their parents."""

from __future__ import annotations

import os
import signal
import time

import pytest

from understudy.journal import delegation_folder, worker_files

pytestmark = pytest.mark.heavy


def tree_of(project, root: str) -> dict[str, int]:
    """Return the delegations under ``root``, with their depths."""
    found = project.call("delegations/list", limit=1000).delegations
    assert all(one.id == root or one.asked_by.parent in {other.id for other in found} for one in found)
    return {one.id: one.asked_by.depth for one in found}


def settled(project, seconds: float = 60) -> list:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = project.call("delegations/list", limit=1000).delegations
        if all(one.state == "finished" for one in found):
            return found
        time.sleep(0.2)
    raise AssertionError([(one.id, one.state, one.activity) for one in found])


@pytest.mark.parametrize(("depth", "count"), [(1, 2), (9, 4)])
def test_no_more_than_the_bounds_allow_are_started(project, relayed, depth, count):
    project.settings(f"[relay]\nmax_depth = {depth}\nmax_delegations = {count}\n[limits]\nslots = 1\n")
    relayed("forever", "forever")
    root = project.start("implement", delegator="forever", task="Delegate this.")
    done = project.finish(root, 300)
    found = settled(project)
    depths = tree_of(project, root)
    assert len(found) - 1 == (count if depth else 0)
    assert max(depths.values()) <= depth
    assert {one.verdict for one in found} <= {"no_changes", "cancelled"}
    assert done.verdict == "no_changes"
    if depth:
        [group] = {one.group_id for one in found}
        assert set(project.call("groups/get", id=group).delegations) == set(depths)


@pytest.mark.parametrize("how", ["cancel", "kill", "end"])
def test_all_end_with_their_parent(project, relayed, how, monkeypatch):
    """Cancelled, killed, or finished: what its agent delegated ends, and so does what that delegated."""
    project.settings("[relay]\nmax_depth = 2\nmax_delegations = 4\n")
    relayed("forever", "restless")
    scenario = "restless"
    if how == "end":
        call = {"call": "delegate", "arguments": {"task": "Delegate this.", "delegator": "forever"}}
        peers = {"call": "report_progress", "arguments": {"text": "x"}}
        scenario = [call, *[peers] * 40]
    relayed("boss", scenario)
    root = project.start("implement", delegator="boss", task="Delegate this.")
    deadline = time.monotonic() + 120
    while len(project.call("delegations/list").delegations) < (2 if how == "end" else 5):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    if how == "cancel":
        began = time.monotonic()
        assert project.call("delegations/cancel", id=root).verdict == "cancelled"
        assert time.monotonic() - began < 30
    elif how == "kill":
        holder = worker_files.read_holder(delegation_folder.open_folder(root))
        os.kill(holder.pid, signal.SIGKILL)
    found = settled(project)
    verdicts = {one.id: str(one.verdict) for one in found}
    assert verdicts.pop(root) == {"cancel": "cancelled", "kill": "interrupted", "end": "no_changes"}[how]
    # A worker that is killed may have been starting one.
    assert set(verdicts.values()) <= ({"cancelled", "interrupted"} if how == "kill" else {"cancelled"})


def test_a_budget_holds_for_all(project, relayed):
    """Each delegation uses 100 tokens; after the second, nothing starts."""
    project.settings("[relay]\nmax_tokens = 200\nmax_delegations = 50\n")
    usage = 'say(type="usage", inputTokens=60, outputTokens=40, turns=1)\n'
    project.program("spender", "sys.stdin.read()\n" + usage + 'say(type="result", ok=True, text="Done.")')
    call = {"call": "delegate", "arguments": {"task": "Spend.", "delegator": "spender"}}
    wait = {"call": "wait", "arguments": {"id": "@child@"}}
    relayed("boss", [call, wait] * 3)
    root = project.run("implement", delegator="boss", task="x")
    found = settled(project)
    assert len(found) == 1 + 2
    assert root.verdict == "no_changes"
