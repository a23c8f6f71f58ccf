"""A worker that was started in advance runs the next delegation, and whatever happens to it, nothing is lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from wait_until import until

from understudy.engine.queueing import launcher, spare_worker
from understudy.journal import state_folder

AGENT = "pathlib.Path('new.txt').write_text(str(os.getppid()))\nsay(type='result', ok=True, text='done')\n"


def spares() -> list[psutil.Process]:
    """Return the spares with this state folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if spare_worker.OPTION in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process.environ().get("UNDERSTUDY_STATE"), process))
        except psutil.Error:
            continue
    return [process for state, process in found if state == str(state_folder.state_root())]


@pytest.fixture
def kept(project: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A project in a process that keeps a worker ready."""
    environment = spare_worker.environment
    variable = {"PYTEST_CURRENT_TEST": ""}  # another one in each step of a test
    monkeypatch.setattr(spare_worker, "environment", lambda: environment() | variable)
    project.program("doer", AGENT)
    spare_worker.enable()
    spare_worker.prepare()
    until(lambda: not spare_worker.is_preparing())
    assert len(spares()) == 1
    yield project
    spare_worker.stop()
    until(lambda: not spares(), "the spare ended", 10)


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of the workers that were started as usual."""
    found: list[list[str]] = []
    spawn = launcher._spawn

    def recorded(arguments: list[str], descriptors: list[int], log: Path) -> None:
        found.append(arguments)
        spawn(arguments, descriptors, log)

    monkeypatch.setattr(launcher, "_spawn", recorded)
    return found


def run(project: Any) -> None:
    done = project.run("implement", delegator="doer", task="x")
    assert [file.path for file in done.result.files] == ["new.txt"], done.error


def test_a_spare_runs_the_next_delegation_and_is_followed_by_another(kept, spawned):
    (first,) = spares()
    run(kept)
    assert spawned == []
    until(lambda: not first.is_running())
    until(lambda: len(spares()) == 1)
    assert spares() != [first]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_spare_that_died_or_hangs_is_ended_and_a_worker_is_started(kept, spawned, number):
    (spare,) = spares()
    spare.send_signal(number)
    if number == signal.SIGKILL:
        until(lambda: not spares())
    run(kept)
    assert len(spawned) == 1
    until(lambda: spare not in spares(), seconds=10)


def test_a_spare_with_another_environment_is_not_used(kept, spawned, monkeypatch):
    (spare,) = spares()
    monkeypatch.setenv("KEY_OF_A_TEST", "set after its start")
    run(kept)
    assert len(spawned) == 1
    until(lambda: spare not in spares(), seconds=10)


OWNER = """
import sys
import time
from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.engine.queueing import spare_worker
spare_worker.enable()
spare_worker.prepare()
while spare_worker.is_preparing():
    time.sleep(0.01)
print("ready", flush=True)
sys.stdin.readline()
params = {"recipe": "implement", "delegator": "doer", "task": "x", "workspace": sys.argv[1]}
print(method_table.call("delegations/start", params, TerminalCaller()).id, flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def owner(project: Any, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that keeps a worker ready, starts a delegation for each line of input, and is killed at the end."""
    project.program("doer", AGENT)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(project.top)],
        env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def test_a_spare_dies_with_its_owner_and_a_worker_does_not(project):
    with owner(project):
        assert len(spares()) == 1
    until(lambda: not spares())

    with owner(project) as process:
        process.stdin.write(b"\n")
        identifier = process.stdout.readline().decode().strip()
    assert project.finish(identifier).result.text == "done"
    until(lambda: not spares())


@pytest.mark.parametrize("point", ["order sent", "handed over"])
def test_an_owner_that_is_killed_during_a_hand_over_loses_nothing(project, point):
    with owner(project, UNDERSTUDY_FAILPOINT=f"{point}:1") as process:
        process.stdin.write(b"\n")
        assert process.wait(60) == -signal.SIGKILL
    (identifier,) = os.listdir(state_folder.state_root() / "delegations")
    # As the next command or editor does, this starts what waits, once the lock is free.
    until(lambda: project.call("delegations/list").delegations[0].attempts)
    done = project.finish(identifier)
    assert done.result.text == "done"
    assert len(done.attempts) == 1
    until(lambda: not spares())


@pytest.mark.parametrize("message", [b"", b"{}", b'{"identifier": "x", "slot": 1}', b"\xff" * 5000])
def test_a_spare_does_nothing_on_a_message_that_is_no_order(message, monkeypatch, tmp_path):
    monkeypatch.setattr(spare_worker, "ANSWER_SECONDS", 0.2)
    ours, theirs = socket.socketpair()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(spare_worker.wait(theirs.detach())))
    thread.start()
    with ours, (tmp_path / "lock").open("w") as lock:
        assert int(ours.recv(100)) == os.getpid()
        fcntl.flock(lock, fcntl.LOCK_EX)
        if message:
            socket.send_fds(ours, [message], [lock.fileno()])
        else:
            ours.close()
        thread.join(10)
    with (tmp_path / "lock").open("w") as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it has closed its copy
    assert found == [None]


def test_a_spare_that_gets_no_order_exits(monkeypatch):
    monkeypatch.setattr(spare_worker, "IDLE_SECONDS", 0.05)
    ours, theirs = socket.socketpair()
    with ours:
        assert spare_worker.wait(theirs.detach()) is None
