"""Damaged, huge and planted files of groups and of the queue: nothing hangs, nothing else is lost or changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from wait_until import until

from understudy.engine.queueing import launcher
from understudy.journal import delegation_folder, worker_files
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.store import store
from understudy.store.store import Entry

QUICK = 'sys.stdin.read()\nsay(type="result", ok=True, text="Done.")'
PATIENT = (
    'sys.stdin.read()\nwhile not os.path.exists({go!r}): time.sleep(0.02)\nsay(type="result", ok=True, text="Done.")'
)


def tasks(project, count: int, delegator: str) -> list[dict]:
    common = {"recipe": "ask", "delegator": delegator, "workspace": str(project.top)}
    return [{**common, "task": f"task {number}"} for number in range(count)]


def started(project, count: int, delegator: str) -> tuple[str, list[str]]:
    group = project.call("groups/start", tasks=tasks(project, count, delegator)).group.id
    return group, project.call("groups/get", id=group).delegations


@pytest.fixture
def go(project, tmp_path):
    """One slot, and a delegator that ends when the returned file exists."""
    project.program("patient", PATIENT.format(go=str(tmp_path / "go")))
    settings = project.config / "config.toml"
    settings.write_text(settings.read_text() + "\n[limits]\nslots = 1\n")
    return tmp_path / "go"


def test_groups_that_start_in_several_processes_at_once_are_whole(project):
    project.program("quick", QUICK)
    script = f"""
import pathlib, sys
from understudy.api import method_table
from understudy.api.caller import TerminalCaller
print(method_table.call("groups/start", {{"tasks": {tasks(project, 2, "quick")!r}}},
                        TerminalCaller(pathlib.Path.cwd())).group.id)
"""
    starting = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    groups = [one.communicate(timeout=120)[0].strip() for one in starting]
    assert len(set(groups)) == 2
    seen: list[str] = []
    for group in groups:
        found = project.call("groups/wait", id=group, timeoutSeconds=120).delegations
        assert [(one.title, one.verdict) for one in found] == [(f"task {number}", "answered") for number in range(2)]
        seen += [one.id for one in found]
    assert len(set(seen)) == 4


def test_the_queue_of_a_group_goes_on_after_everything_was_killed(project, go):
    group, (first, *others) = started(project, 3, "patient")
    project.until(first, lambda one: one.state == "running")
    holder = worker_files.read_holder(delegation_folder.open_folder(first))
    for one in (holder.identity, *holder.children):
        os.kill(one.pid, signal.SIGKILL)
    go.touch()
    # As a command does that is typed after a restart of the machine: no server is left.
    assert project.finish(first).verdict == "interrupted"
    project.call("delegations/list")
    found = project.call("groups/wait", id=group, timeoutSeconds=120).delegations
    assert [(one.id, one.verdict) for one in found] == [
        (first, "interrupted"),
        *((one, "answered") for one in others),
    ]


def test_a_paused_queue_is_still_paused_for_another_process(project, go):
    project.call("queue/pause", paused=True)
    go.touch()
    _, members = started(project, 2, "patient")
    listed = subprocess.run(
        [sys.executable, "-m", "understudy", "queue", "list", "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(listed.stdout)
    assert (found["paused"], [one["id"] for one in found["delegations"]]) == (True, members)
    project.call("queue/move", id=members[1], position=1)
    # While a base is recorded, its delegation is passed over.
    until(lambda: not store.unrecorded(delegation_folder.state_root()), "all bases")
    until(lambda: not any(worker_files.is_held(delegation_folder.open_folder(one)) for one in members), "free locks")
    project.call("queue/pause", paused=False)
    assert [project.finish(one).verdict for one in members] == ["answered"] * 2
    begun = [next(one.at for one in project.events(member) if type(one).__name__ == "Started") for member in members]
    assert begun[1] < begun[0], "the order of the user"


def _junk(place, secret) -> list:
    return [
        lambda: place.write_bytes(b""),
        lambda: place.write_bytes(b'{"id": 7'),
        lambda: place.write_bytes(b'{"id": {}, "delegations": null}'),
        lambda: place.write_bytes(b"[" * 3_000_000),
        lambda: place.write_bytes(b'{"delegations": ["../../../etc/passwd"]}'),
        lambda: place.symlink_to(secret),
        lambda: place.symlink_to(place),
        lambda: os.mkfifo(place),
        place.mkdir,
    ]


def test_a_damaged_group_is_named_and_its_members_are_unharmed(project, go, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret content")
    group, members = started(project, 2, "patient")
    place = delegation_folder.state_root() / "groups" / f"{group}.json"
    for number, damage in enumerate(_junk(place, secret)):
        place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()
        damage()
        for method in ("groups/get", "groups/cancel"):
            with pytest.raises(UnderstudyError) as caught:
                project.call(method, id=group)
            assert caught.value.kind in {ErrorKind.STATE_UNAVAILABLE, ErrorKind.UNKNOWN_GROUP}, number
            assert "secret content" not in str(caught.value), number
        assert project.call("groups/list", limit=10).groups == [], number
    go.touch()
    assert [project.finish(one).verdict for one in members] == ["answered"] * 2
    assert secret.read_text() == "secret content"


@pytest.mark.parametrize("number", [0, 7, *(pytest.param(number, marks=pytest.mark.heavy) for number in (3, 5, 6))])
def test_a_store_that_is_planted_stops_nothing(project, go, tmp_path, number):
    secret = tmp_path / "secret"
    secret.write_text("secret content")
    first, second = started(project, 2, "patient")[1]
    project.until(first, lambda one: one.state == "running")
    place = delegation_folder.state_root() / store.NAME
    place.unlink()
    _junk(place, secret)[number]()
    go.touch()
    launcher.start_waiting(delegation_folder.state_root())
    assert project.call("queue/get").paused is False
    assert [project.finish(one).verdict for one in (first, second)] == ["answered"] * 2
    assert secret.read_text() == "secret content"


def test_planted_rows_of_the_queue_stop_nothing(project, go):
    first, second = started(project, 2, "patient")[1]
    project.until(first, lambda one: one.state == "running")
    root = delegation_folder.state_root()
    for identifier in (first[:-5] + "zzzzz", "../../etc", "", "0" * 1_000_000):
        store.add(root, Entry(identifier, 2, key_names=("PATH",), key_digest="../../../../tmp"), record=True)
        store.hold(root, identifier, [first, "../" + second, identifier])
    go.touch()
    assert [project.finish(one).verdict for one in (first, second)] == ["answered"] * 2
    assert sorted(one.id for one in project.call("delegations/list").delegations) == sorted([first, second])
