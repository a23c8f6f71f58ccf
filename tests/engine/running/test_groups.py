"""A group is created, joined, listed, waited for and cancelled as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from understudy.api.handlers import delegations
from understudy.model.delegation.events import Note
from understudy.model.errors import ErrorKind, UnderstudyError

QUICK = 'sys.stdin.read()\npathlib.Path("new.txt").write_text("x")\nsay(type="result", ok=True, text="Done.")'


def test_a_group_is_waited_for_in_order(project):
    project.program("quick", QUICK)
    group = project.call("groups/create", kind="batch")
    ids = [project.start("implement", delegator="quick", task=str(number), groupId=group.id) for number in range(2)]
    alone = project.start("implement", delegator="quick", task="alone")
    done = project.call("groups/wait", id=group.id, timeoutSeconds=60).delegations
    assert [(one.id, one.state, one.group_id) for one in done] == [(id_, "finished", group.id) for id_ in ids]
    listed = project.call("delegations/list", groupId=group.id).delegations
    assert sorted(one.id for one in listed) == sorted(ids)
    assert done[0].asked_by.frontend == "cli"
    project.finish(alone)

    again = project.call("delegations/retry", id=ids[0]).id
    assert project.call("groups/get", id=group.id).delegations == [*ids, again], "a retry joins the group"
    assert project.finish(again).group_id == group.id


def test_a_start_with_a_key_that_was_killed_before_the_group_joins_it_when_repeated(project):
    project.program("quick", QUICK)
    group = project.call("groups/create", kind="batch").id
    params = {"recipe": "implement", "delegator": "quick", "task": "x", "groupId": group, "idempotencyKey": "one"}
    params["workspace"] = str(project.top)
    script = f"""
import pathlib
from understudy.api import method_table
from understudy.api.caller import TerminalCaller

method_table.call("delegations/start", {params!r}, TerminalCaller(pathlib.Path.cwd()))
"""
    environment = {**os.environ, "UNDERSTUDY_FAILPOINT": "before the group:1"}
    killed = subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert project.call("groups/get", id=group).delegations == []

    ids = [project.call("delegations/start", **params).id for _ in range(2)]
    assert ids[0] == ids[1]
    assert project.call("groups/get", id=group).delegations == [ids[0]]
    [done] = project.call("groups/wait", id=group, timeoutSeconds=60).delegations
    assert (done.id, done.group_id, done.verdict) == (ids[0], group, "interrupted")


def test_a_group_is_cancelled_as_one(project):
    project.program("slow", "time.sleep(600)")
    group = project.call("groups/create", kind="compare")
    ids = [project.start("implement", delegator="slow", task="x", groupId=group.id) for _ in range(2)]
    ended = project.call("groups/cancel", id=group.id).delegations
    assert [(one.id, one.verdict) for one in ended] == [(id_, "cancelled") for id_ in ids]


@pytest.mark.parametrize("name", ["20261121-004512-k3f9q", "../slots", ""])
def test_a_group_that_does_not_exist_is_not_joined(project, name):
    project.program("quick", QUICK)
    for call, params in (
        ("groups/get", {"id": name}),
        ("delegations/start", {"recipe": "implement", "task": "x", "workspace": str(project.top), "groupId": name}),
    ):
        with pytest.raises(UnderstudyError) as caught:
            project.call(call, **params)
        assert caught.value.kind is ErrorKind.UNKNOWN_GROUP


def test_one_member_that_cannot_be_cancelled_does_not_stop_the_others(project, monkeypatch):
    project.program("slow", "sys.stdin.read()\ntime.sleep(60)")
    group = project.call("groups/create", kind="batch")
    ids = [project.start("implement", delegator="slow", task="x", groupId=group.id) for _ in range(3)]
    cancel = delegations.cancel

    def fail_once(caller, params):
        if params.id == ids[0]:
            raise UnderstudyError(ErrorKind.DISK_FULL, "The disk is full.")
        return cancel(caller, params)

    with monkeypatch.context() as patch:
        patch.setattr(delegations, "cancel", fail_once)
        with pytest.raises(UnderstudyError) as caught:
            project.call("groups/cancel", id=group.id)
    assert caught.value.kind is ErrorKind.DISK_FULL
    assert [project.finish(one).verdict for one in ids[1:]] == ["cancelled"] * 2
    project.call("delegations/cancel", id=ids[0])


def test_a_password_of_a_proxy_does_not_reach_the_journal(project, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://someone:hunter2hunter2@proxy.invalid:3128")
    project.program("curious", 'sys.stdin.read()\nsay(type="result", ok=True, text=os.environ["HTTPS_PROXY"])')
    done = project.finish(project.start("ask", delegator="curious", task="x"))
    assert done.result.text == "http://proxy.invalid:3128"
    (note,) = [event for event in project.events(done.id) if isinstance(event, Note)]
    assert "HTTPS_PROXY" in note.text
    file = project.config / "delegators" / "curious.toml"
    env = 'env = { HTTPS_PROXY = { from_env = "HTTPS_PROXY" } }'
    file.write_text(file.read_text().replace("[launch]", env + "\n[launch]"))
    done = project.finish(project.start("ask", delegator="curious", task="x"))
    assert not [event for event in project.events(done.id) if isinstance(event, Note)]
    assert done.result.text == "<secret:HTTPS_PROXY>"
