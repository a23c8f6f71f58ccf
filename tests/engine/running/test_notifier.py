"""A worker sends notifications of its run, once each, and never waits for a receiver before the run has ended."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from killed_workers import processes_of
from receiver_server import serving

from understudy.engine.running import notifier
from understudy.journal import delegation_folder, worker_files
from understudy.model.config.notifications import NotificationReceiver

ANSWERS = 'sys.stdin.read()\nsay(type="result", ok=True, text="Done.")'
FAILS = 'sys.stdin.read()\nsay(type="result", ok=False, error={"kind": "overloaded", "message": "def secret(): pass"})'


@pytest.fixture
def server():
    with serving() as place:
        yield place


@pytest.fixture
def hook(project, server):
    """Add a webhook; return a function that changes it."""
    project.program("quick", ANSWERS)
    project.program("busy", FAILS)

    def add(name="hook", **fields):
        receiver = {"name": name, "kind": "webhook", "url": server.url, "allowPrivate": ["127.0.0.1"]} | fields
        project.call("notifications/create", receiver=receiver)

    return add


def states(project):
    return {entry.receiver.name: entry.state for entry in project.call("notifications/list").notifications}


def ask(project, **params):
    return project.run("ask", task="Why?", **{"delegator": "quick", **params})


def wait_for_workers():
    """Wait until every worker has left, which sends its notifications before."""
    assert not processes_of(str(delegation_folder.state_root()))


def test_the_verdict_is_sent_once_to_each_receiver_of_the_event(project, hook, server):
    hook()
    hook("failures", url=f"{server.url}/failures", events=["failure"])
    hook("other", url=f"{server.url}/other", workspaces=["/elsewhere"])
    hook("here", url=f"{server.url}/here", workspaces=[str(project.top.parent)])
    done = ask(project)
    got = {request.path: request.json for request in (server.next(), server.next())}
    assert set(got) == {"/", "/here"}
    assert got["/"] | {"key": ""} == {
        "event": "verdict",
        "title": "Answered: Why?",
        "text": "Answered: the model answered.",
        "key": "",
        "delegation": done.id,
        "verdict": "answered",
    }
    wait_for_workers()
    assert server.received.empty()


def test_a_failure_and_the_pause_after_it_are_sent_without_the_message(project, hook, server):
    project.settings("[fallback]\noutage_pause_seconds = 3600\nfailures = 1\n")
    hook()
    ask(project, delegator="busy")
    got = {request.json["event"]: request.json["text"] for request in (server.next(), server.next())}
    assert set(got) == {"pause", "failure"}
    assert got["pause"].startswith("busy keeps failing: overload.\nIt is paused until ")
    assert got["failure"] == "Failed: an error ended the work.\nReason: overloaded."
    ask(project, delegator="busy")
    assert server.next().json["event"] == "failure", "the pause is not reported again"
    wait_for_workers()
    assert server.received.empty()


def test_what_the_user_cancels_and_no_receiver_send_nothing(project, hook, server):
    ask(project)
    hook()
    project.program("slow", "import time\ntime.sleep(60)")
    identifier = project.start("ask", task="Why?", delegator="slow")
    project.until(identifier, lambda delegation: delegation.state == "running")
    project.call("delegations/cancel", id=identifier)
    project.finish(identifier)
    wait_for_workers()
    assert server.received.empty()


def test_a_receiver_that_does_not_answer_delays_no_run_and_fails_none(project, hook):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook(url=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        done = ask(project)
        assert done.verdict == "answered"
        peer, _ = silent.accept()
        with peer:
            assert b"POST / " in peer.recv(65536)
            assert ask(project).verdict == "answered", "the next run starts while the first one's is being sent"
        second, _ = silent.accept()
        second.close()
    log = delegation_folder.open_folder(done.id).path / "worker.log"
    wait_for_workers()
    assert "the notification to hook was not sent: The connection to 127.0.0.1 broke" in log.read_text()
    assert states(project)["hook"].failed == 2


def test_a_worker_that_is_killed_while_it_sends_leaves_nothing_to_send_again(project, hook, cold_workers):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook(url=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        identifier = project.start("ask", task="Why?", delegator="quick")
        peer, _ = silent.accept()
        with peer:
            assert peer.recv(65536)
            holder = worker_files.read_holder(delegation_folder.open_folder(identifier))
            os.kill(holder.identity.pid, signal.SIGKILL)
        assert project.finish(identifier).verdict == "answered"
        wait_for_workers()
        project.call("delegations/list", limit=10)
        silent.settimeout(0.2)
        with pytest.raises(TimeoutError):
            silent.accept()


def test_there_are_never_more_threads_than_allowed(monkeypatch):
    monkeypatch.setattr(notifier, "MOST_THREADS", 2)
    monkeypatch.setattr(notifier, "_threads", [])
    stop = threading.Event()
    assert [notifier._run("x", stop.wait) for _ in range(3)] == [True, True, False]
    stop.set()
    for thread in notifier._threads:
        thread.join()
    assert notifier._run("x", stop.wait)


def test_what_is_left_at_the_end_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(notifier, "_threads", [])
    monkeypatch.setattr(notifier, "_ending", threading.Event())
    stop = threading.Event()
    notifier._run("slow", stop.wait)
    try:
        notifier.finish(tmp_path, 0.01)
    finally:
        stop.set()
    from understudy.integrations.notifications import sent

    assert sent.state(tmp_path, "slow").last_error.message == "It was not sent before the worker ended."


@pytest.mark.parametrize(
    ("workspaces", "is_meant"),
    [
        ([], True),
        (["/home/ada"], True),
        (["/home/ada/calc"], True),
        (["/home/ad"], False),
        (["/home/ada/calc/x"], False),
    ],
)
def test_a_folder_stands_for_all_workspaces_below_it(workspaces, is_meant):
    receiver = NotificationReceiver(name="x", kind="desktop", workspaces=workspaces)
    assert notifier._concerns(receiver, "/home/ada/calc") is is_meant
