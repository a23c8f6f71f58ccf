"""The queue as a state machine: starts, ends, cancels, and kills of any process at any step."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from examples import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from journals import spec_of_a_test

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.engine.queueing import launcher, start_conditions
from understudy.engine.queueing.start_conditions import Slot, take_slot
from understudy.engine.running import supervision
from understudy.files import durable
from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.config.delegators import Delegator, EnvReference, Limits
from understudy.model.delegation.events import Finished, Started
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Verdict
from understudy.store import store
from understudy.store.store import Entry

MOST_SLOTS = 3
TRY_LOCK = worker_files.try_lock
CONNECT = sqlite3.connect


class Killed(BaseException):
    """A simulated SIGKILL: nothing handles it, and the kernel closes the descriptors."""


@dataclass
class Worker:
    folder: Folder
    lock: int
    slot: Slot | None
    has_started: bool = False

    def die(self) -> None:
        os.close(self.lock)
        if self.slot is not None:
            self.slot.close()


def slots_of(identifier: str) -> int:
    return delegation_folder.read_spec(delegation_folder.open_folder(identifier)).slots


def may_start(identifier: str) -> bool:
    """Return whether all that a delegation comes after have succeeded."""
    others = delegation_folder.read_spec(delegation_folder.open_folder(identifier)).after
    verdicts = {reader.load(delegation_folder.open_folder(other)).verdict for other in others}
    return verdicts <= start_conditions.SUCCEEDED


@dataclass
class Machine:
    """Processes without processes: workers and the recorder are the descriptors that they hold."""

    workers: dict[str, Worker] = field(default_factory=dict)
    locks: list[tuple[int, int]] = field(default_factory=list)
    """What the current process locked: descriptor and inode."""
    recorder: int | None = None
    kill_at: str | int | None = None
    """A failpoint, or the number of begun and ended transactions after which the process is killed."""

    def spawn_worker(self, folder: Folder, lock: int, *, slot: Slot, only_check: bool = False) -> None:
        assert not only_check
        root = delegation_folder.state_root()
        spec = delegation_folder.read_spec(folder)
        older = [name for name in store.waiting(root) if name < folder.id and slots_of(name) == spec.slots]
        assert not any(map(may_start, older)), "the oldest of those with the same number of slots is first"
        assert may_start(folder.id), "what it comes after has succeeded"
        assert folder.id not in self.workers
        assert slot.number < spec.slots
        self.workers[folder.id] = Worker(folder, os.dup(lock), Slot(slot.number, os.dup(slot.descriptor)))

    def spawn_helper(self, root: Path, arguments: list[str], lock: int) -> None:
        assert arguments == ["--record-bases"]
        assert self.recorder is None, "one recorder at a time"
        self.recorder = lock

    def failpoint(self, name: str) -> None:
        if name == self.kill_at:
            self.kill_at = None
            raise Killed

    def connect(self, *args: object, **keywords: object) -> sqlite3.Connection:
        machine = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
                if isinstance(machine.kill_at, int) and sql in {"BEGIN IMMEDIATE", "COMMIT"}:
                    if machine.kill_at == 0:
                        machine.kill_at = None
                        raise Killed
                    machine.kill_at -= 1
                return super().execute(sql, *parameters)

        return CONNECT(*args, factory=Connection, **keywords)

    def try_lock(self, folder: Folder) -> int | None:
        lock = TRY_LOCK(folder)
        if lock is not None:
            self.locks.append((lock, os.fstat(lock).st_ino))
        return lock

    def close_locks(self) -> None:
        """Do what the kernel does for a killed process."""
        passed_on = {worker.lock for worker in self.workers.values()}
        for lock, number in self.locks:
            with contextlib.suppress(OSError):
                if lock not in passed_on and os.fstat(lock).st_ino == number:
                    os.close(lock)

    def kill_all(self) -> None:
        for worker in self.workers.values():
            worker.die()
        self.workers.clear()
        if self.recorder is not None:
            os.close(self.recorder)
            self.recorder = None


KILLS = st.one_of(
    st.none(),
    st.sampled_from(["entry added", "launched", "queued", "held", "blocked"]),
    st.integers(0, 20),
)


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.folder = Path(tempfile.mkdtemp())
        self.patch.setenv("UNDERSTUDY_STATE", str(self.folder / "state"))
        self.patch.setenv("XDG_RUNTIME_DIR", str(self.folder))
        self.machine = Machine()
        self.patch.setattr(launcher, "spawn_worker", self.machine.spawn_worker)
        self.patch.setattr(launcher, "_spawn_helper", self.machine.spawn_helper)
        self.patch.setattr(launcher, "failpoint", self.machine.failpoint)
        self.patch.setattr(worker_files, "try_lock", self.machine.try_lock)
        self.patch.setattr(worker_files, "time", SimpleNamespace(sleep=lambda seconds: None))
        self.patch.setattr(sqlite3, "connect", self.machine.connect)
        self.root = delegation_folder.state_root()
        self.known: list[Folder] = []
        self.earlier = self.folder / "earlier.sqlite"

    def teardown(self) -> None:
        self.machine.kill_at = None
        try:
            self.drain()
        finally:
            self.machine.kill_all()
            self.patch.undo()
            shutil.rmtree(self.folder)

    # -- what happens ------------------------------------------------------------------------------------------

    @rule(slots=st.sampled_from([1, MOST_SLOTS]), kill_at=KILLS, data=st.data())
    def start(self, slots: int, kill_at: str | int | None, data: st.DataObject) -> None:
        after: list[str] = []
        if self.known:
            others = st.sampled_from([folder.id for folder in self.known[-6:]])
            after = data.draw(st.lists(others, max_size=3, unique=True))
        folder, lock = delegation_folder.create(lambda name: spec_of_a_test(name, slots=slots, after=after), {})
        self.known.append(folder)
        with self.killed(kill_at, lock):
            launcher.submit(folder, lock)

    @rule(slots=st.sampled_from([1, MOST_SLOTS]), kill_at=KILLS, order=st.permutations(range(4)))
    def start_a_chain(self, slots: int, kill_at: str | int | None, order: list[int]) -> None:
        """As a group does: all exist, and are locked, before the first is submitted, in the order of the file."""
        ids = delegation_folder.new_ids(len(order))
        claims: dict[str, tuple[Folder, int]] = {}
        for place, number in sorted(enumerate(order), key=lambda one: one[1]):
            after = [ids[order[place - 1]]] if place else []
            claims[ids[number]] = delegation_folder.create(
                lambda name, after=after: spec_of_a_test(name, slots=slots, after=after), {}, identifier=ids[number]
            )
        self.known += [folder for folder, _ in claims.values()]
        with self.killed(kill_at, *(lock for _, lock in claims.values())):
            for identifier in ids:
                launcher.submit(*claims[identifier])

    @precondition(lambda self: self.machine.workers)
    @rule(data=st.data(), kill_at=KILLS)
    def worker_writes_started(self, data: st.DataObject, kill_at: str | int | None) -> None:
        worker = self.any_worker(data)
        if not worker.has_started:
            self.start_work(worker, kill_at)

    @precondition(lambda self: self.machine.workers)
    @rule(
        data=st.data(),
        then=st.sampled_from(["exits", "runs the next", "is killed"]),
        verdict=st.sampled_from([Verdict.VERIFIED, Verdict.VERIFIED, Verdict.FAILED]),
        kill_at=KILLS,
    )
    def worker_ends(self, data: st.DataObject, then: str, verdict: Verdict, kill_at: str | int | None) -> None:
        worker = self.any_worker(data)
        if not worker.has_started:
            self.start_work(worker)
        self.end_work(worker, then, verdict, kill_at)

    @precondition(lambda self: self.machine.workers)
    @rule(data=st.data())
    def worker_is_killed(self, data: st.DataObject) -> None:
        worker = self.any_worker(data)
        del self.machine.workers[worker.folder.id]
        worker.die()

    @rule()
    def all_are_killed(self) -> None:
        self.machine.kill_all()

    @rule(kill_at=KILLS)
    def a_process_serves(self, kill_at: str | int | None) -> None:
        with self.killed(kill_at):
            launcher.start_waiting(self.root)

    @rule()
    def the_disk_is_written(self) -> None:
        if (self.root / store.NAME).exists():
            self.earlier.unlink(missing_ok=True)
            now, copy = CONNECT(self.root / store.NAME), CONNECT(self.earlier)
            with contextlib.closing(now), contextlib.closing(copy):
                now.backup(copy)

    @rule(lost=st.sampled_from(["nothing", "the last transactions", "the store"]))
    def the_machine_restarts(self, lost: str) -> None:
        """What was not written to the disk may be gone."""
        self.machine.kill_all()
        if lost == "the store" or (lost == "the last transactions" and self.earlier.exists()):
            for path in self.root.glob("store.sqlite*"):
                path.unlink()
        if lost == "the last transactions" and self.earlier.exists():
            shutil.copyfile(self.earlier, self.root / store.NAME)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def a_frontend_looks(self, data: st.DataObject) -> None:
        supervision.current(data.draw(st.sampled_from(self.known)))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), kill_at=KILLS)
    def a_waiting_one_is_cancelled(self, data: st.DataObject, kill_at: str | int | None) -> None:
        folder = data.draw(st.sampled_from(self.known))
        if reader.load(folder).state is State.QUEUED and folder.id not in self.machine.workers:
            with self.killed(kill_at):
                done = supervision.cancel(folder, by="test", at="2026-11-21T00:45:12.000Z")
                assert done.verdict is Verdict.CANCELLED or folder.id in self.machine.workers
                assert done.verdict is None or not store.contains(self.root, folder.id)

    @precondition(lambda self: self.machine.recorder is not None)
    @rule(dies=st.booleans())
    def recorder_works(self, dies: bool) -> None:
        for identifier in [] if dies else store.unrecorded(self.root):
            if not worker_files.is_held(delegation_folder.open_folder(identifier)):
                store.recorded(self.root, identifier)
        os.close(self.machine.recorder)
        self.machine.recorder = None

    # -- what is always true -----------------------------------------------------------------------------------

    @invariant()
    def no_more_run_than_there_are_slots(self) -> None:
        assert len(self.machine.workers) <= MOST_SLOTS

    @invariant()
    def no_two_workers_have_one_slot(self) -> None:
        numbers = [worker.slot.number for worker in self.machine.workers.values()]
        assert len(set(numbers)) == len(numbers)

    def drain(self) -> None:
        """After anything that happened, reading and ending workers finishes every delegation, each exactly once."""
        for _ in range(20 + 4 * len(self.known)):
            for folder in self.known:
                supervision.current(folder)
            if self.machine.recorder is not None:
                self.recorder_works(dies=False)
            for worker in list(self.machine.workers.values()):
                if not worker.has_started:
                    self.start_work(worker)
                self.end_work(worker, "exits")
        for folder in self.known:
            ends = [event for event in reader.read_events(folder, 0, 1000) if isinstance(event, Finished)]
            assert len(ends) == 1, (folder.id, reader.load(folder).state)
            assert ends[0].verdict is not Verdict.VERIFIED or may_start(folder.id)
        # A process that serves the queue removes what killed ones left.
        launcher.start_waiting(self.root)
        if self.machine.recorder is not None:
            self.recorder_works(dies=False)
        assert [*store.queued(self.root), *store.launched(self.root), *store.awaited(self.root)] == []

    # -- parts -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def killed(self, kill_at: str | int | None, *locks: int) -> Iterator[None]:
        self.machine.kill_at = kill_at
        self.machine.locks[:] = [(lock, os.fstat(lock).st_ino) for lock in locks]
        try:
            yield
        except Killed:
            self.machine.close_locks()
        finally:
            self.machine.kill_at = None

    def any_worker(self, data: st.DataObject) -> Worker:
        return self.machine.workers[data.draw(st.sampled_from(sorted(self.machine.workers)))]

    def start_work(self, worker: Worker, kill_at: str | int | None = None) -> None:
        worker.has_started = True
        with self.killed(kill_at):
            with Writer(worker.folder, worker.lock) as writer:
                if writer.delegation.state in launcher.NOT_STARTED:
                    writer.append(Started(delegator="quick", model="m", reason="asked"), attempt=1)
            launcher.leave(self.root, worker.folder.id)
            return
        del self.machine.workers[worker.folder.id]
        worker.die()

    def end_work(
        self,
        worker: Worker,
        then: str,
        verdict: Verdict = Verdict.VERIFIED,
        kill_at: str | int | None = None,
    ) -> None:
        del self.machine.workers[worker.folder.id]
        with self.killed(kill_at, worker.lock):
            with Writer(worker.folder, worker.lock) as writer:
                writer.append(Finished(verdict=verdict, reservations=[]), attempt=1)
            launcher.leave(self.root, worker.folder.id)
            os.close(worker.lock)
            if then == "runs the next" and (claim := launcher.next_for(self.root, worker.slot)) is not None:
                self.machine.workers[claim.folder.id] = Worker(claim.folder, claim.lock, worker.slot)
                return
            worker.slot.close()
            if then != "is killed":
                launcher.start_waiting(self.root)
            return
        worker.slot.close()


@pytest.mark.hypothesis
def test_nothing_is_lost_and_the_order_is_kept() -> None:
    run_state_machine_as_test(
        Queue,
        settings=settings(
            max_examples=examples(25), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


class Chosen:
    """Stands for what Hypothesis draws."""

    def __init__(self, value: object) -> None:
        self.value = value

    def draw(self, strategy: object) -> object:
        return self.value


def started(queue: Queue, slots: int, *after: Folder, kill_at: str | int | None = None) -> Folder:
    queue.start(slots, kill_at, Chosen([folder.id for folder in after]))
    return queue.known[-1]


@pytest.mark.parametrize("kill_at", ["entry added", "held", 1, 3, 5, 7])
@pytest.mark.parametrize("killed", ["before it started", "after it started", "while it was added"])
def test_a_killed_start_after_others_of_which_one_was_killed_leaves_nothing(kill_at, killed) -> None:
    queue = Queue()
    first = started(queue, 1, kill_at=6 if killed == "while it was added" else None)
    others = [first, started(queue, 1), started(queue, 1)]
    if killed == "after it started":
        queue.worker_writes_started(Chosen(first.id), None)
    queue.the_machine_restarts("nothing")
    started(queue, 3, *others, kill_at=kill_at)
    queue.teardown()


@pytest.mark.parametrize(("then", "verdict"), [("runs the next", Verdict.VERIFIED), ("exits", Verdict.FAILED)])
def test_a_process_that_is_killed_while_it_looks_at_what_comes_after_leaves_nothing(then, verdict) -> None:
    for kill_at in range(30):
        queue = Queue()
        first, second = started(queue, 1), started(queue, 3)
        both = started(queue, 1, first, second)
        started(queue, 1, first)
        started(queue, 1, both)
        queue.worker_ends(Chosen(second.id), "is killed", Verdict.VERIFIED, None)
        queue.worker_ends(Chosen(first.id), then, verdict, kill_at)
        queue.teardown()


def test_what_comes_after_a_task_that_was_not_submitted_waits_for_its_end(alone) -> None:
    root = delegation_folder.state_root()
    first, lock_of_first = new_delegation()
    second, lock = delegation_folder.create(lambda name: spec_of_a_test(name, slots=1, after=[first.id]), {})
    launcher.submit(second, lock)
    assert store.queued(root) == [second.id]
    assert not alone.workers
    os.close(lock_of_first)  # the process that would have submitted it was killed
    assert supervision.current(first).verdict is Verdict.INTERRUPTED
    assert supervision.current(second).error.kind is ErrorKind.DEPENDENCY_FAILED


# -- problems of the machine ---------------------------------------------------------------------------------------


def full(*args: object, **keywords: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def new_delegation() -> tuple[Folder, int]:
    return delegation_folder.create(lambda name: spec_of_a_test(name, slots=1), {})


@pytest.mark.parametrize("function", ["add", "launch", "position"])
def test_a_start_that_the_disk_refuses_leaves_nothing_in_the_queue(alone, monkeypatch, function) -> None:
    root = delegation_folder.state_root()
    folder, lock = new_delegation()
    busy = take_slot(root, 1) if function == "position" else None
    with monkeypatch.context() as patch:
        patch.setattr(store, function, full)
        with pytest.raises(OSError, match="No space"):
            launcher.submit(folder, lock)
    assert not store.contains(root, folder.id)
    assert supervision.current(folder).error.kind is ErrorKind.DISK_FULL
    assert not alone.workers
    if busy is not None:
        busy.close()


@pytest.mark.parametrize("writable", [True, False])
def test_a_refused_start_does_not_run_later_though_its_entry_stays(alone, monkeypatch, writable) -> None:
    root = delegation_folder.state_root()
    folder, lock = new_delegation()
    with monkeypatch.context() as patch:
        patch.setattr(store, "launch", full)
        patch.setattr(launcher, "leave", lambda *_: None)  # the store is on the full disk, too
        if not writable:
            patch.setattr(launcher, "Writer", lambda *_: full_store())
        with pytest.raises(OSError, match="No space"):
            launcher.submit(folder, lock)
    assert store.contains(root, folder.id)
    assert supervision.current(folder).error.kind is ErrorKind.DISK_FULL
    assert not launcher.start_waiting(root)
    assert not alone.workers


def test_a_worker_that_the_disk_ended_is_a_problem_of_its_delegation(alone, monkeypatch) -> None:
    root = delegation_folder.state_root()
    folder, lock = new_delegation()
    store.add(root, Entry(folder.id, 1), record=False)
    store.launch(root, folder.id)
    os.close(lock)  # the worker has ended before it wrote anything
    with monkeypatch.context() as patch:
        patch.setattr(store, "wait_again", lambda *_, **__: full_store())
        with pytest.raises(UnderstudyError, match=f"{folder.id} cannot start yet. No space") as caught:
            supervision.current(folder, raise_problem=True)
    assert "starts by itself" in caught.value.hint
    assert f"understudy cancel {folder.id}" in caught.value.hint


def test_what_a_full_disk_cannot_cancel_does_not_start_either(alone, monkeypatch) -> None:
    root = delegation_folder.state_root()
    busy = take_slot(root, 1)
    folder, lock = new_delegation()
    launcher.submit(folder, lock)
    with monkeypatch.context() as patch:
        patch.setattr(worker_files, "append_request", lambda *_: full_store())
        with pytest.raises(UnderstudyError, match="No space"):
            supervision.cancel(folder, by="cli", at="2026-11-27T10:15:00.000Z")
    busy.close()
    assert supervision.current(folder).error.kind is ErrorKind.DISK_FULL
    assert not alone.workers


def full_store() -> None:
    raise durable.failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), delegation_folder.state_root())


@pytest.mark.parametrize("function", ["launch", "spawn_worker", "take_slot"])
def test_what_waits_survives_a_full_disk(alone, monkeypatch, function) -> None:
    root = delegation_folder.state_root()
    busy = take_slot(root, 1)
    folder, lock = new_delegation()
    launcher.submit(folder, lock)
    with monkeypatch.context() as patch:
        patch.setattr(store if function == "launch" else launcher, function, full)
        if function == "launch":
            assert launcher.next_for(root, busy) is None
        busy.close()
        for _ in range(launcher.MOST_LAUNCHES + 1):
            assert not launcher.start_waiting(root)
            assert store.waiting(root) == [folder.id]
        assert supervision.current(folder).state is State.QUEUED
        with pytest.raises(UnderstudyError, match=f"{folder.id} cannot start yet. No space") as caught:
            supervision.current(folder, raise_problem=True)
        assert caught.value.kind is ErrorKind.DISK_FULL
        assert f"understudy watch {folder.id}" in caught.value.hint
    assert supervision.current(folder, raise_problem=True).state is State.QUEUED
    assert list(alone.workers) == [folder.id]


def test_what_hinders_another_delegation_is_no_problem_of_this_one(alone, monkeypatch) -> None:
    root = delegation_folder.state_root()
    busy = take_slot(root, 1)
    (first, lock), (second, other) = new_delegation(), new_delegation()
    launcher.submit(first, lock)
    launcher.submit(second, other)
    busy.close()
    launch = store.launch
    started: list[str] = []

    def full_for_first(root: Path, identifier: str) -> None:
        full() if identifier == first.id else launch(root, identifier)

    with monkeypatch.context() as patch:
        patch.setattr(store, "launch", full_for_first)
        patch.setattr(launcher, "spawn_worker", lambda folder, lock, *, slot: started.append(folder.id))
        assert supervision.current(second, raise_problem=True).state is State.QUEUED
        assert started == [second.id]
        with pytest.raises(UnderstudyError, match=first.id):
            supervision.current(first, raise_problem=True)


def test_a_worker_records_its_own_base_and_a_recorder_those_that_wait(monkeypatch) -> None:
    root, machine = delegation_folder.state_root(), Machine()
    monkeypatch.setattr(launcher, "spawn_worker", machine.spawn_worker)
    monkeypatch.setattr(launcher, "_spawn_helper", machine.spawn_helper)
    monkeypatch.setattr(launcher, "needs_worktree", lambda spec: True)
    first, second = new_delegation(), new_delegation()
    launcher.submit(*first)
    assert store.launched(root) == [first[0].id]
    assert machine.recorder is None
    launcher.submit(*second)
    assert store.waiting(root) == [*store.unrecorded(root)] == [second[0].id]
    assert machine.recorder is not None
    machine.kill_all()


def test_serving_a_slot_looks_at_no_other_delegation_that_waits(alone, monkeypatch) -> None:
    root = delegation_folder.state_root()
    busy = take_slot(root, 1)
    waiting = [new_delegation() for _ in range(60)]
    for folder, lock in waiting:
        store.add(root, Entry(folder.id, 1), record=False)
        os.close(lock)
    launcher.start_waiting(root)
    looked: list[str] = []
    for module, name in ((reader, "load"), (delegation_folder, "read_spec"), (worker_files, "try_lock")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda folder, real=real: (looked.append(folder.id), real(folder))[1])
    launcher.start_waiting(root)
    assert looked == [], "no slot is free"
    busy.close()
    launcher.start_waiting(root)
    assert list(alone.workers) == [waiting[0][0].id]
    assert set(looked) == {waiting[0][0].id}


class DiskCalls:
    """Counts what is opened and listed, and the names in the listings, while it is entered."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("open", "stat", "listdir"):
            patch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **keywords: object) -> object:
            found = real(*args, **keywords)
            self.count += 1 + (len(found) if isinstance(found, list) else 0)
            return found

        return call


def hold_many(root: Path, first: str, count: int, shape: str) -> None:
    """Hold delegations that come after ``first``: each after the one before (``chain``), or all after it (``fan``)."""
    other = first
    for identifier in delegation_folder.new_ids(count):
        launcher.submit(
            *delegation_folder.create(
                lambda name, other=other: spec_of_a_test(name, slots=1, after=[other]), {}, identifier=identifier
            )
        )
        if shape == "chain":
            other = identifier


@pytest.mark.parametrize("shape", ["chain", "fan"])
@pytest.mark.parametrize(
    "counts", [(10, 100), pytest.param((10, 1000, 5000), marks=[pytest.mark.heavy, pytest.mark.timeout(900)])]
)
def test_serving_a_slot_costs_the_same_however_many_are_held(alone, monkeypatch, shape, counts) -> None:
    root = delegation_folder.state_root()
    # For thousands of starts, these take minutes.
    monkeypatch.setattr(store, "position", lambda *args: 1)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    first, lock = delegation_folder.create(lambda name: spec_of_a_test(name, slots=2), {})
    launcher.submit(first, lock)
    with Writer(first, alone.workers[first.id].lock) as writer:
        writer.append(Started(delegator="quick", model="m", reason="asked"), attempt=1)
    launcher.leave(root, first.id)
    costs = []
    for count in counts:
        hold_many(root, first.id, count - len(store.queued(root)), shape)
        launcher.start_waiting(root)
        folder, lock = delegation_folder.create(lambda name: spec_of_a_test(name, slots=2), {})
        os.close(lock)
        store.add(root, Entry(folder.id, 2), record=False)
        with monkeypatch.context() as patch:
            calls = DiskCalls(patch)
            launcher.start_waiting(root)
            costs.append(calls.count)
        assert folder.id in alone.workers
        alone.workers.pop(folder.id).die()
        launcher.leave(root, folder.id)
    assert len(store.queued(root)) == counts[-1]
    assert len(set(costs)) == 1


def test_a_recorder_that_cannot_start_does_not_fail_a_start(alone, monkeypatch) -> None:
    monkeypatch.setattr(launcher, "ensure_recorder", full)
    folder, lock = new_delegation()
    launcher.submit(folder, lock)
    assert list(alone.workers) == [folder.id]
    assert not launcher.start_waiting(delegation_folder.state_root())


def test_a_cancel_does_not_start_what_waits(alone) -> None:
    busy = take_slot(delegation_folder.state_root(), 1)
    folder, lock = new_delegation()
    launcher.submit(folder, lock)
    busy.close()
    assert supervision.cancel(folder, by="test", at="2026-11-21T00:45:12.000Z").verdict is Verdict.CANCELLED
    assert not alone.workers


# -- no server is left --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["list", "get"])
def test_a_command_goes_on_with_the_queue_when_every_server_was_closed(alone, tmp_path, method) -> None:
    busy = take_slot(delegation_folder.state_root(), 1)
    folder, lock = new_delegation()
    launcher.submit(folder, lock)
    listed = method_table.call("delegations/list", {}, TerminalCaller(tmp_path))
    assert [one.state for one in listed.delegations] == [State.QUEUED]
    busy.close()
    method_table.call(f"delegations/{method}", {"id": folder.id} if method == "get" else {}, TerminalCaller(tmp_path))
    assert list(alone.workers) == [folder.id]


# -- keys ----------------------------------------------------------------------------------------------------------


def keyed_spec(name: str):
    delegator = Delegator(name="keyed", model="m", env={"TOKEN": EnvReference(from_env="KEY_OF_A_TEST")})
    return spec_of_a_test(name, slots=1, candidates=[SpecCandidate(delegator=delegator, limits=Limits())])


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(launcher, "spawn_worker", machine.spawn_worker)
    monkeypatch.setattr(launcher, "ensure_recorder", lambda root: None)
    yield machine
    machine.kill_all()


def test_only_a_process_that_has_the_keys_starts_what_needs_them(alone, monkeypatch) -> None:
    root, helpers = delegation_folder.state_root(), []
    monkeypatch.setattr(launcher, "_spawn_helper", lambda root, arguments, lock: helpers.append((arguments, lock)))
    monkeypatch.setenv("KEY_OF_A_TEST", "0123456789")
    busy = take_slot(root, 1)
    folder, lock = delegation_folder.create(keyed_spec, {})
    launcher.submit(folder, lock)
    later, lock = delegation_folder.create(keyed_spec, {})
    launcher.submit(later, lock)
    plain, lock = delegation_folder.create(lambda name: spec_of_a_test(name, slots=1), {})
    launcher.submit(plain, lock)
    [([option, digest], held)] = helpers
    assert option == "--hold-keys", "one holder for all who need the same keys"
    assert "0123456789" not in "".join(str(path) for path in root.rglob("*"))

    monkeypatch.delenv("KEY_OF_A_TEST")
    busy.close()
    launcher.start_waiting(root)
    assert not alone.workers, "the holder starts it"
    monkeypatch.setenv("KEY_OF_A_TEST", "0123456789")
    launcher.start_waiting(root)
    assert list(alone.workers) == [folder.id]
    assert store.needs_keys(root, digest)

    monkeypatch.delenv("KEY_OF_A_TEST")
    alone.kill_all()
    os.close(held)
    launcher.start_waiting(root)
    assert list(alone.workers) == [folder.id], "without its holder, any process starts it and reports the missing key"


def test_a_holder_that_hangs_does_not_stop_the_queue(alone, monkeypatch) -> None:
    root, helpers = delegation_folder.state_root(), []
    monkeypatch.setattr(launcher, "_spawn_helper", lambda root, arguments, lock: helpers.append(lock))
    busy = take_slot(root, 1)
    monkeypatch.setenv("KEY_OF_A_TEST", "0123456789")
    folder, lock = delegation_folder.create(keyed_spec, {})
    launcher.submit(folder, lock)
    monkeypatch.delenv("KEY_OF_A_TEST")
    busy.close()
    launcher.start_waiting(root)
    assert not alone.workers
    long_ago = 1_000_000_000 - start_conditions.KEY_HOLDER_HANGS_SECONDS
    os.utime(helpers[0], (long_ago, long_ago))
    launcher.start_waiting(root)
    assert list(alone.workers) == [folder.id]
    os.close(helpers[0])
