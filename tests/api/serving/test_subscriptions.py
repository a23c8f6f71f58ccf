"""Subscriptions: missed events first, then live ones, none twice, none lost, and a slow client costs nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import forked
import msgspec
import pytest
from wait_until import until

from understudy.api import messages as m
from understudy.api.serving import subscriptions
from understudy.config.trust import records
from understudy.journal import change_notifications, delegation_folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events as e
from understudy.model.states import State
from understudy.model.verdicts import Verdict

WRITE = """
import os, sys
from understudy.journal import delegation_folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events as e
folder = delegation_folder.open_folder(sys.argv[1])
with Writer(folder, int(sys.argv[2])) as writer:
    for number in range(int(sys.argv[3])):
        writer.append(e.Text(text=f"{number} " + "x" * 50), attempt=1)
    writer.append(e.Finished(verdict="answered", reservations=[]), attempt=1)
"""


class Client:
    """What a frontend would send, with the times."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, str, Any]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.following = subscriptions.Subscriptions(self._send)

    def _send(self, name: str, params: Any) -> None:
        self.gate.wait(30)
        self.sent.append((time.monotonic(), name, params))

    def batches(self, identifier: str | None = None) -> list[m.EventNotification]:
        found = [params for _, name, params in list(self.sent) if name == "event"]
        return [batch for batch in found if identifier in {None, batch.id}]

    def seqs(self, identifier: str) -> list[int]:
        return [event.seq for batch in self.batches(identifier) for event in batch.events]


@pytest.fixture
def client() -> Iterator[Client]:
    found = Client()
    yield found
    found.gate.set()
    found.following.close()
    thread = found.following._thread
    if thread is not None:
        thread.join(60)
        assert not thread.is_alive()


def write(writer: Writer, count: int) -> None:
    for number in range(count):
        writer.append(e.Text(text=str(number)), attempt=1)


def test_missed_events_come_first_then_live_ones(journal, client: Client) -> None:
    writer = journal()
    write(writer, 5)
    client.following.follow(writer.folder.id, {writer.folder.id: 2})
    until(lambda: client.seqs(writer.folder.id) == [3, 4, 5])
    write(writer, 3)
    until(lambda: client.seqs(writer.folder.id) == [3, 4, 5, 6, 7, 8])
    assert not client.batches("other")


def test_following_again_sends_nothing_twice_and_unfollowing_ends_it(journal, client: Client) -> None:
    writer, other = journal(), journal()
    for _ in range(3):
        client.following.follow(writer.folder.id, {})
    client.following.follow(None, {})
    write(writer, 4)
    until(lambda: client.seqs(writer.folder.id) == [1, 2, 3, 4])
    client.following.unfollow(writer.folder.id)
    write(writer, 2)
    write(other, 2)
    until(lambda: client.seqs(other.folder.id) == [1, 2])
    assert client.seqs(writer.folder.id) == [1, 2, 3, 4]


@pytest.mark.parametrize("without_socket", [False, True])
def test_everything_is_new_ones_too_and_decisions_on_ended_ones(
    journal, client: Client, without_socket: bool, monkeypatch
) -> None:
    if without_socket:
        monkeypatch.setattr(change_notifications.ChangeListener, "_bind", lambda self: None)
        monkeypatch.setattr(subscriptions, "SLOW_LOOK_SECONDS", 0.0)
    ended, running, known = journal(), journal(), journal()
    ended.append(e.Finished(verdict=Verdict.ANSWERED, reservations=[]), attempt=0)
    write(running, 2)
    write(known, 3)
    client.following.follow(None, {known.folder.id: 3})
    until(lambda: client.seqs(running.folder.id) == [1, 2])
    later = journal()
    write(later, 1)
    ended.append(e.Discarded(rescue_ref="refs/x"), attempt=0)
    write(known, 1)
    until(lambda: client.seqs(later.folder.id) == [1])
    until(lambda: client.seqs(ended.folder.id) == [2])
    until(lambda: client.seqs(known.folder.id) == [4])
    until(lambda: ended.folder.id in client.following._ended)


def test_a_delegation_that_ran_between_the_list_and_the_subscription_is_new(journal, client: Client) -> None:
    old, listed, missed = journal(), journal(), journal()
    for writer in (old, listed, missed):
        writer.append(e.Finished(verdict=Verdict.ANSWERED, reservations=[]), attempt=0)
    client.following.follow(None, {listed.folder.id: 1})
    until(lambda: client.seqs(missed.folder.id) == [1])
    until(lambda: {old.folder.id, listed.folder.id, missed.folder.id} <= client.following._ended.keys())
    assert client.seqs(old.folder.id) == client.seqs(listed.folder.id) == []


@pytest.mark.parametrize("without_socket", [False, True])
def test_two_processes_lose_nothing_and_repeat_nothing(
    journal, client: Client, without_socket: bool, monkeypatch
) -> None:
    if without_socket:
        monkeypatch.setattr(change_notifications.ChangeListener, "_bind", lambda self: None)
    writer = journal()
    writer.close()
    lock = writer._lock
    os.set_inheritable(lock, True)
    client.following.follow(None, {})
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, writer.folder.id, str(lock), "5000"], pass_fds=(lock,)
    ) as process:
        assert process.wait(timeout=60) == 0
    until(lambda: len(client.seqs(writer.folder.id)) >= 5001)
    assert client.seqs(writer.folder.id) == list(range(1, 5002))


def test_batches_are_bounded_in_size_and_in_rate(journal, client: Client) -> None:
    writer = journal()
    for _ in range(400):
        writer.append(e.Text(text="x" * 30_000), attempt=1)
    client.following.follow(writer.folder.id, {})
    until(lambda: len(client.seqs(writer.folder.id)) == 400)
    sizes = [len(msgspec.json.encode(batch.events)) for batch in client.batches()]
    assert max(sizes) <= subscriptions.BATCH_BYTES + 2
    assert min(sizes[:-1]) > subscriptions.BATCH_BYTES - 40_000  # and filled
    times = [at for at, _, _ in client.sent]
    assert len(times) > 40
    # The first of them may have waited for its thread after its time was taken.
    assert all(times[n + 30] - times[n] > 0.95 for n in range(len(times) - 30))


def test_a_slow_client_reads_later_and_nothing_grows(journal, client: Client) -> None:
    writer = journal()
    client.gate.clear()
    client.following.follow(writer.folder.id, {})
    write(writer, 1)
    until(lambda: client.following._active)
    write(writer, 3000)
    time.sleep(0.2)  # not a wait for anything: time in which a queue would have grown
    assert all(len(stream._ahead) <= 64 for stream in client.following._active.values())
    assert client.sent == []
    client.gate.set()
    until(lambda: client.seqs(writer.folder.id) == list(range(1, 3002)))


def test_a_client_that_is_gone_ends_the_thread(journal) -> None:
    def gone(name: str, params: Any) -> None:
        raise BrokenPipeError

    following = subscriptions.Subscriptions(gone)
    writer = journal()
    write(writer, 1)
    following.follow(writer.folder.id, {})
    thread = following._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    following.follow(writer.folder.id, {})


def test_a_request_that_fails_once_is_carried_out_later(journal, client: Client, monkeypatch) -> None:
    monkeypatch.setattr(change_notifications, "POLL_SECONDS", 0.01)
    listed, failed = delegation_folder.ids, threading.Event()

    def fails_once() -> list[str]:
        if not failed.is_set():
            failed.set()
            raise OSError(errno.EMFILE, "Too many open files")
        return listed()

    ended, running = journal(), journal()
    ended.append(e.Finished(verdict=Verdict.ANSWERED, reservations=[]), attempt=0)
    write(running, 1)
    monkeypatch.setattr(delegation_folder, "ids", fails_once)
    client.following.follow(None, {})
    client.following.announce_changes()
    until(lambda: client.seqs(running.folder.id) == [1])
    change_notifications.notify("configuration")
    until(lambda: any(name == "changed" for _, name, _ in client.sent))
    assert failed.is_set()
    assert client.seqs(ended.folder.id) == []


def test_a_dead_worker_is_noticed_by_whoever_follows(journal, client: Client, monkeypatch) -> None:
    monkeypatch.setattr(subscriptions, "LOOK_AFTER_WORKER_SECONDS", 0.0)
    writer = journal()
    writer.append(e.Started(delegator="quick", model="m", reason="w"), attempt=1)
    client.following.follow(writer.folder.id, {})
    until(lambda: client.seqs(writer.folder.id) == [1])
    writer.close()
    fcntl.flock(writer._lock, fcntl.LOCK_UN)
    until(lambda: isinstance(client.batches()[-1].events[-1], e.Finished))
    assert client.batches()[-1].events[-1].verdict is Verdict.INTERRUPTED


def test_changes_are_told_together(journal, client: Client) -> None:
    client.following.announce_changes()
    # Hold the thread, which listens by then, until all are sent: a busy machine would otherwise read them one by one.
    held, go = threading.Event(), threading.Event()
    client.following._order(lambda: held.set() or go.wait(60))
    assert held.wait(60)
    for name in ("configuration", "configuration", "trust", "doctor"):
        change_notifications.notify(name)
    go.set()
    until(lambda: client.sent)
    assert [(name, params.collections) for _, name, params in client.sent] == [
        ("changed", ["delegators", "modelServers", "recipes", "trust"])
    ]
    write(journal(), 1)
    until(lambda: any("delegations" in params.collections for _, _, params in client.sent))


def test_a_client_that_reads_before_it_subscribes_learns_of_the_changes_in_between(
    journal, rpc, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delegators = own_home / "config" / "understudy" / "delegators"
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(delegators.parent))
    program = rpc()
    program.ask(1, "delegators/list", {})
    assert program.next()["id"] == 1
    delegators.mkdir(parents=True)
    (delegators / "late.toml").write_text('name = "late"\ntool = "claude"\n', encoding="utf-8")
    program.ask(2, "delegations/subscribe", {})
    while (message := program.next()).get("method") != "understudy/changed":
        assert message["id"] == 2
    assert message["params"]["collections"] == ["delegators", "modelServers", "recipes", "trust"]
    program.end()


def test_trust_that_is_recorded_without_a_notification_is_a_change(
    journal, client: Client, tmp_path: Path, monkeypatch
) -> None:
    """A program with another ``XDG_RUNTIME_DIR`` records it."""
    monkeypatch.setattr(change_notifications, "POLL_SECONDS", 0.01)
    client.following.announce_changes()
    workspace, state = tmp_path / "workspace", delegation_folder.state_root()
    workspace.mkdir()
    for trusted in (True, False):
        count = len(client.sent)
        records.record(workspace, state, trusted=trusted)
        until(lambda count=count: len(client.sent) > count)
        assert "trust" in client.sent[-1][2].collections


def test_a_program_follows_a_delegation(journal, rpc) -> None:
    writer = journal()
    write(writer, 3)
    program = rpc()
    program.ask(1, "delegations/subscribe", {"id": writer.folder.id})
    seen: list[int] = []
    answered = 0
    while len(seen) < 3 or not answered:
        message = program.next()
        answered += message.get("id") == 1
        if message.get("method") == "understudy/event":
            assert message["params"]["id"] == writer.folder.id
            seen += [event["seq"] for event in message["params"]["events"]]
    write(writer, 2)
    while len(seen) < 5:
        message = program.next()
        if message.get("method") == "understudy/event":
            seen += [event["seq"] for event in message["params"]["events"]]
    assert seen == [1, 2, 3, 4, 5]
    assert all(message.get("method") == "understudy/changed" for message in program.end())


def test_a_program_that_does_not_read_gets_everything_later(journal) -> None:
    writer = journal()
    for _ in range(40):
        writer.append(e.Text(text="x" * 30_000), attempt=1)
    command = ["rpc"]
    with forked.Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "understudy/delegations/subscribe",
            "params": {"id": writer.folder.id},
        }
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        write(writer, 500)
        writer.append(e.Finished(verdict=Verdict.ANSWERED, reservations=[]), attempt=1)
        seqs: list[int] = []
        while len(seqs) < 541:
            message = json.loads(server.stdout.readline())
            if message.get("method") == "understudy/event":
                seqs += [event["seq"] for event in message["params"]["events"]]
        assert seqs == list(range(1, 542))
        server.stdin.close()
        assert server.wait(timeout=60) == 0
    assert writer.delegation.state is State.FINISHED


class Clock:
    """Stand for the module ``time``, so that a test decides how late a batch is."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic


def test_a_late_batch_does_not_delay_those_after_it(journal, monkeypatch: pytest.MonkeyPatch):
    """A worker writes thirty lines a second, and as many batches are allowed: one that is late must not add up."""
    clock = Clock()
    stream = subscriptions._Stream(journal().folder.id, 0)
    monkeypatch.setattr(subscriptions, "time", clock)
    began, sent, waited = clock.now, [], []
    for number in range(300):
        written = began + number / subscriptions.BATCHES_A_SECOND
        heard = written + (0.030 if number % 7 == 0 and number < 60 else 0.001)
        clock.now = max(heard, stream.next_at)
        waited.append(clock.now - heard)
        sent.append(clock.now)
        stream._written_at = datetime.fromtimestamp(written, UTC).isoformat()
        stream.sent()
    assert max(waited) < 0.001
    assert max(sum(moment <= other < moment + 1 for other in sent) for moment in sent) <= 31


def test_batches_of_what_was_missed_keep_the_whole_limit(journal, monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    stream = subscriptions._Stream(journal().folder.id, 0)
    monkeypatch.setattr(subscriptions, "time", clock)
    sent = []
    for _ in range(100):
        clock.now = max(clock.now, stream.next_at)
        sent.append(clock.now)
        stream._written_at = None
        stream.sent()
    assert max(sum(moment <= other < moment + 0.999 for other in sent) for moment in sent) == 30
