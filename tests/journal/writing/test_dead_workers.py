"""Test that a delegation whose worker died is finished exactly once, whichever process notices."""

from __future__ import annotations

import json
import os
import signal

import msgspec
import pytest
from wait_until import until

from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.writing import dead_workers
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Verdict
from understudy.process import identity

WORKER = """
lock = int(sys.argv[2])
import subprocess
child = subprocess.Popen(
    [sys.executable, '-c', 'import time; time.sleep(120)'], start_new_session=True, stdout=subprocess.DEVNULL,
    env={**os.environ, 'UNDERSTUDY_DELEGATION': sys.argv[1] if MARKED else ''})
worker_files.write_holder(lock, identity.current(), [identity.of(child.pid)] if NAMED else [])
writer = Writer(folder(), lock)
writer.append(events.Started(delegator='quick', model='m', reason='w'), attempt=1)
say('ready', child.pid)
time.sleep(120)
"""


def worker_code(*, named: bool = True, marked: bool = True) -> str:
    return f"NAMED, MARKED = {named}, {marked}\n" + WORKER


def ends(folder: delegation_folder.Folder) -> list[events.Event]:
    return [one for one in reader.read_events(folder, limit=10**6) if isinstance(one, events.Finished)]


@pytest.mark.parametrize(("named", "marked"), [(True, True), (False, True), (True, False)])
def test_processes_of_a_dead_worker_are_killed(make, second, eventually, named: bool, marked: bool) -> None:
    folder, lock = make()
    worker = second(folder, worker_code(named=named, marked=marked), lock=lock)
    os.close(lock)
    _, child = worker.line().split()
    left = identity.of(int(child))
    assert dead_workers.recover(folder) is False
    assert identity.alive(left)
    worker.kill()
    assert dead_workers.recover(folder) is True
    eventually(lambda: not identity.alive(left))
    (end,) = ends(folder)
    assert end.verdict is Verdict.INTERRUPTED
    assert end.error.kind is ErrorKind.INTERRUPTED
    delegation = reader.peek(folder)
    assert (delegation.state, delegation.verdict) == (State.FINISHED, Verdict.INTERRUPTED)
    assert delegation.attempts[0].finished_at
    assert not worker_files.is_held(folder)


def test_many_recoverers_write_one_end(make, second) -> None:
    code = "sys.stdin.readline()\ntry: say(dead_workers.recover(folder()))\nexcept UnderstudyError as e: say(e.kind)"
    for _ in range(3):
        folder, lock = make()
        with Writer(folder, lock) as writer:
            writer.append(events.Started(delegator="q", model="m", reason="w"), attempt=1)
        with folder.events.open("ab") as file:
            file.write(b'{"type":"finished","verdict":"ver')
        racers = [second(folder, code) for _ in range(4)]
        os.close(lock)
        for racer in racers:
            racer.process.stdin.write("go\n")
            racer.process.stdin.flush()
        assert sorted(racer.line() for racer in racers) == ["False", "False", "False", "True"]
        assert len(ends(folder)) == 1


def test_an_end_written_between_the_look_and_the_lock_stays_the_only_one(make, second, monkeypatch) -> None:
    real = worker_files.try_lock
    for call in (dead_workers.recover, dead_workers.end_and_finish):
        folder, lock = make()
        os.close(lock)

        def overtaken(asked: delegation_folder.Folder) -> int | None:
            assert second(asked, "say(dead_workers.recover(folder()))").line() == "True"
            monkeypatch.setattr(worker_files, "try_lock", real)
            until(lambda: not worker_files.is_held(asked))
            return real(asked)

        monkeypatch.setattr(worker_files, "try_lock", overtaken)
        assert call(folder) is False
        assert len(ends(folder)) == 1


def test_a_new_delegation_whose_creator_died_is_finished(make) -> None:
    folder, lock = make()
    assert dead_workers.recover(folder) is False
    os.close(lock)
    assert dead_workers.recover(folder) is True
    assert ends(folder)[0].attempt == 0


def test_queued_and_finished_delegations_need_no_worker(make) -> None:
    queued, lock = make()
    with Writer(queued, lock) as writer:
        writer.append(events.Queued(position=1), attempt=0)
    os.close(lock)
    done, lock = make()
    with Writer(done, lock) as writer:
        writer.append(events.Finished(verdict=Verdict.CANCELLED, reservations=[]), attempt=0)
    os.close(lock)
    assert not dead_workers.recover(queued)
    assert not dead_workers.recover(done)


def test_an_end_whose_summary_was_lost_is_not_written_twice(make) -> None:
    folder, lock = make()
    old = folder.summary.read_bytes()
    with Writer(folder, lock) as writer:
        writer.append(events.Finished(verdict=Verdict.FAILED, reservations=[]), attempt=0)
    os.close(lock)
    folder.summary.write_bytes(old)
    assert reader.peek(folder).state is State.PREPARING
    assert not dead_workers.recover(folder)
    assert reader.load(folder).verdict is Verdict.FAILED
    assert len(ends(folder)) == 1


def test_after_a_reboot_no_process_is_signalled(make, second) -> None:
    folder, lock = make()
    innocent = second(folder, "say('here'); time.sleep(60)")
    assert innocent.line() == "here"
    one = identity.of(innocent.pid)
    worker_files.write_holder(
        lock, msgspec.structs.replace(one, boot_id="another"), [msgspec.structs.replace(one, boot_id="another")]
    )
    os.close(lock)
    assert dead_workers.recover(folder)
    assert identity.alive(one)


def test_a_reused_pid_is_not_our_process(make, second) -> None:
    folder, lock = make()
    innocent = second(folder, "say('here'); time.sleep(60)")
    assert innocent.line() == "here"
    one = identity.of(innocent.pid)
    stale = msgspec.structs.replace(one, start_time=one.start_time - 1)
    worker_files.write_holder(lock, stale, [stale])
    os.close(lock)
    assert dead_workers.recover(folder)
    assert identity.alive(one)


@pytest.mark.parametrize("how", ["busy", "stopped"])
def test_a_worker_that_does_not_react_is_ended_and_its_delegation_cancelled(make, second, eventually, how: str) -> None:
    folder, lock = make()
    worker = second(folder, worker_code(), lock=lock)
    os.close(lock)
    _, child = worker.line().split()
    left = identity.of(int(child))
    if how == "stopped":
        os.kill(worker.pid, signal.SIGSTOP)
    assert dead_workers.end_and_finish(folder) is True
    assert worker.wait() == -signal.SIGKILL
    eventually(lambda: not identity.alive(left))
    (end,) = ends(folder)
    assert (end.verdict, end.error.kind) == (Verdict.CANCELLED, ErrorKind.CANCELLED)
    assert dead_workers.end_and_finish(folder) is False
    assert len(ends(folder)) == 1


def test_cancelling_a_queued_delegation(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(events.Queued(position=1), attempt=0)
    os.close(lock)
    assert dead_workers.end_and_finish(folder)
    assert reader.peek(folder).verdict is Verdict.CANCELLED


def test_cancel_and_recover_at_once_end_it_once(make, second) -> None:
    for _ in range(3):
        folder, lock = make()
        worker = second(folder, worker_code(), lock=lock)
        os.close(lock)
        worker.line()
        racers = [
            second(folder, f"sys.stdin.readline()\nsay(dead_workers.{call})")
            for call in ("end_and_finish(folder())", "end_and_finish(folder())", "recover(folder())")
        ]
        for racer in racers:
            racer.process.stdin.write("go\n")
            racer.process.stdin.flush()
        assert sorted(racer.line() for racer in racers) == ["False", "False", "True"]
        assert len(ends(folder)) == 1


def test_an_unknown_holder_is_waited_for_and_then_reported(make) -> None:
    folder, _ = make()
    with pytest.raises(UnderstudyError) as caught:
        dead_workers.end_and_finish(folder, seconds=0.05)
    assert caught.value.kind is ErrorKind.TIMED_OUT
    assert caught.value.hint
    assert ends(folder) == []


def test_a_full_disk_leaves_it_to_the_next(make, second) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        for _ in range(10):
            writer.append(events.Phase(text="x" * 9000), attempt=0)
    os.close(lock)
    poor = second(
        folder,
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "try: dead_workers.recover(folder())\nexcept UnderstudyError as e: say(e.kind)",
    )
    assert poor.line() == "disk_full"
    assert ends(folder) == []
    assert dead_workers.recover(folder)
    assert len(ends(folder)) == 1


def test_the_lock_file_reads_as_documented(make) -> None:
    folder, lock = make()
    me = identity.current()
    worker_files.write_holder(lock, me, [me, me])
    worker_files.write_holder(lock, me, [])
    assert json.loads(folder.lock.read_bytes()) == {"pid": me.pid, "startTime": me.start_time, "bootId": me.boot_id}
