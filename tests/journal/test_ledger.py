"""The ledger has one line per attempt, whenever the worker is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.files.durable import FAILPOINT_VARIABLE
from understudy.journal import delegation_folder, ledger, reader, worker_files
from understudy.journal.writing import dead_workers
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.delegations import no_usage
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.verdicts import Verdict


def started(**changes) -> events.Started:
    return events.Started(**{"delegator": "quick", "model": "m", "reason": ""} | changes)


def end(verdict: Verdict = Verdict.ANSWERED) -> events.Finished:
    return events.Finished(verdict=verdict, reservations=[])


def lines() -> list[tuple[str, int]]:
    return [(entry.id, entry.attempt) for entry in ledger.read()]


def test_an_attempt_is_recorded_at_the_end_with_all_its_facts(make) -> None:
    folder, lock = make(files=["src/app.py"], size=1234)
    used = msgspec.structs.asdict(no_usage()) | {"output_tokens": 7}
    with Writer(folder, lock) as writer:
        writer.append(started(tool="claude"), attempt=1)
        assert ledger.open_ids() == [folder.id]
        assert lines() == []
        writer.append(events.UsageReport(**used, cost_usd="0.25", estimated=False), attempt=1)
        writer.append(end(), attempt=1)
    (entry,) = ledger.read()
    assert (entry.id, entry.attempt, entry.recipe, entry.language) == (folder.id, 1, "tests", "python")
    assert entry.size == 1234
    assert (entry.delegator, entry.tool, entry.model, entry.workspace) == ("quick", "claude", "m", "/somewhere/project")
    assert (entry.usage.output_tokens, entry.cost_usd, entry.cost_source) == (7, "0.25", "reported")
    assert (entry.verdict, entry.failure, entry.asked_by.frontend) == ("answered", None, "cli")
    assert entry.at == reader.load(folder).finished_at
    assert entry.seconds >= 0
    assert ledger.open_ids() == []
    (path,) = ledger.months()
    assert path.stat().st_mode & 0o777 == 0o600


def test_attempts_of_one_delegator_keep_their_own_server(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(model_server="near"), attempt=1)
        writer.append(started(model_server="far"), attempt=2)
        writer.append(end(), attempt=2)
    assert [(entry.attempt, entry.model_server) for entry in ledger.read()] == [(1, "near"), (2, "far")]


def test_a_delegation_without_an_attempt_has_no_line(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(end(Verdict.CANCELLED), attempt=0)
    assert lines() == []


def test_checks_that_run_again_add_no_line(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(), attempt=1)
        writer.append(end(), attempt=1)
        writer.append(events.CheckStarted(name="pytest"), attempt=1)
        writer.append(end(), attempt=1)
    assert lines() == [(folder.id, 1)]


def test_an_earlier_attempt_is_recorded_when_the_next_one_starts(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(delegator="first"), attempt=1)
        writer.append(started(delegator="second"), attempt=2)
        assert lines() == [(folder.id, 1)]
        writer.append(end(), attempt=2)
    assert lines() == [(folder.id, 1), (folder.id, 2)]
    assert [entry.verdict for entry in ledger.read()] == [None, "answered"]


WORK = """
from understudy.model.delegation.events import *
def started(n): return Started(delegator=f"d{n}", model="m", reason="")
with Writer(folder(), int(sys.argv[2])) as writer:
    writer.append(started(1), attempt=1)
    writer.append(started(2), attempt=2)
    writer.append(Finished(verdict=Verdict.ANSWERED, reservations=[]), attempt=2)
say('done')
"""


def test_a_kill_at_any_instant_loses_and_repeats_nothing(make, second) -> None:
    """Walk every failpoint between the first attempt and the end; the recovery completes the ledger."""
    for step in range(1, 30):
        folder, lock = make()
        worker = second(folder, WORK, lock=lock, env={**os.environ, FAILPOINT_VARIABLE: f"*:{step}"})
        os.close(lock)
        said = worker.line()
        code = worker.process.wait(60)
        if step == 1:
            # Killed in the middle of the append: a torn line, as a power cut leaves one.
            with ledger.months()[0].open("ab") as file:
                file.write(b'{"version":1,"id":"' + folder.id.encode())
        dead_workers.recover(folder)
        dead_workers.recover(folder)
        recorded = sorted(attempt for identifier, attempt in lines() if identifier == folder.id)
        assert recorded == [attempt.number for attempt in reader.load(folder).attempts], step
        assert folder.id not in ledger.open_ids()
        if said == "done":
            assert code == 0
            assert step > 4, "the failpoints of the ledger are gone"
            return
        assert code == -signal.SIGKILL
    pytest.fail("the work never ended")


def test_a_worker_that_dies_in_its_attempt_is_recorded_by_the_recovery(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(), attempt=1)
    os.close(lock)
    assert dead_workers.recover(folder)
    (entry,) = ledger.read()
    assert (entry.verdict, entry.failure) == ("interrupted", "interrupted")


def test_many_processes_append_whole_lines_once(make, second) -> None:
    folders = []
    for _ in range(4):
        folder, lock = make()
        folders.append((folder, second(folder, WORK, lock=lock)))
        os.close(lock)
    assert [worker.line() for _, worker in folders] == ["done"] * 4
    assert sorted(lines()) == sorted((folder.id, attempt) for folder, _ in folders for attempt in (1, 2))
    assert all(json.loads(line) for path in ledger.months() for line in path.read_bytes().splitlines())


@settings(
    deadline=None,
    max_examples=examples(25),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(junk=st.binary(max_size=200), torn=st.binary(min_size=1, max_size=50).filter(lambda data: b"\n" not in data))
def test_foreign_lines_in_the_ledger_hide_no_entry(junk: bytes, torn: bytes, make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(), attempt=1)
        (delegation_folder.state_root() / "ledger").mkdir(exist_ok=True)
        for path in ledger.months():
            with path.open("ab") as file:
                file.write(junk + b"\n" + torn)
        writer.append(end(), attempt=1)
    assert lines().count((folder.id, 1)) == 1


def test_a_ledger_that_cannot_be_written_does_not_fail_the_delegation(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(), attempt=1)
        month = delegation_folder.state_root() / "ledger" / "lock"
        month.mkdir()
        writer.append(end(), attempt=1)
    os.close(lock)
    assert ledger.open_ids() == [folder.id]
    month.rmdir()
    assert not dead_workers.recover(folder)
    assert lines() == [(folder.id, 1)]
    assert ledger.open_ids() == []


def test_a_running_delegation_is_left_alone(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(), attempt=1)
        assert worker_files.is_held(folder)
        dead_workers.complete_ledger(folder)
        assert lines() == []


def test_a_state_folder_of_a_newer_version_is_refused() -> None:
    version = delegation_folder.state_root() / "version"
    assert version.read_text() == f"{delegation_folder.STATE_VERSION}\n"
    version.write_text("99\n")
    with pytest.raises(UnderstudyError, match="newer Understudy: its version is 99") as caught:
        delegation_folder.state_root()
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
    version.write_text("one")
    with pytest.raises(UnderstudyError, match="is not a version number"):
        delegation_folder.state_root()
    version.unlink()
    code = "from understudy.journal import delegation_folder; delegation_folder.state_root()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert version.read_text() == f"{delegation_folder.STATE_VERSION}\n"


def test_a_failure_is_recorded_by_its_kind(make) -> None:
    folder, lock = make()
    with Writer(folder, lock) as writer:
        writer.append(started(), attempt=1)
        error = ErrorInfo(ErrorKind.TIMED_OUT, "Too slow.", None)
        writer.append(events.Finished(verdict=Verdict.TIMED_OUT, reservations=[], error=error), attempt=1)
    assert [(entry.verdict, entry.failure) for entry in ledger.read()] == [("timed_out", "timed_out")]
