"""Start workers: the oldest waiting delegation gets the next free slot.

No process is in charge of the queue. ``start_waiting`` is called by each start, by each worker that ends, by each
process that releases the lock of a waiting delegation, and by frontends when they begin and while they follow a
delegation. What a killed process left undone, the next call does.

The queue is in the ``store``; a process takes a slot (a lock that the kernel frees), then the lock of the first
delegation that may have it, and passes both to the worker. One that finds a delegation's lock taken passes it over: its
holder calls ``start_waiting`` after it has released it. One that gives a slot back looks once more for entries that
were added meanwhile, because their starts found that slot taken.

What the store says is checked with the journal before it has an effect, so a store that lacks the last moments before a
power cut, or all, starts nothing twice or early.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from understudy.config.discovery import declarations
from understudy.engine.queueing import start_conditions
from understudy.engine.queueing.start_conditions import Slot, take_slot
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.journal import change_notifications, delegation_folder, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing import dead_workers
from understudy.journal.writing.writer import Writer
from understudy.model.delegation.events import Finished, Phase, Queued
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Verdict
from understudy.process import unguarded
from understudy.process.program_spec import OWN, Program
from understudy.store import store
from understudy.store.store import Entry

MOST_LAUNCHES = 3
"""The most worker starts for a delegation whose worker dies before it writes ``started``."""

TIMER_SECONDS = 20.0
"""The longest time without a look at the clock while something waits for a moment."""

_AGAIN_SECONDS = 0.5
"""The shortest time between two looks."""
_TIMER_TOPIC = "moments"
"""Notified when the moments that something waits for change."""

NOT_STARTED = frozenset({State.PREPARING, State.QUEUED})
"""The states of a delegation with an entry."""


_VERDICTS = {
    ErrorKind.INTERRUPTED: Verdict.INTERRUPTED,
    ErrorKind.BUDGET_EXHAUSTED: Verdict.BUDGET_EXHAUSTED,
}

_REFUSED = ErrorInfo(
    ErrorKind.DISK_FULL, "Its start was refused because the disk was full.", "Free some space, then retry."
)

_MAY_PASS = frozenset({ErrorKind.DISK_FULL, ErrorKind.STATE_UNAVAILABLE})
"""Problems of the machine, after which a waiting delegation can still start."""


@dataclass(frozen=True)
class Claim:
    """A delegation that this process may start: it holds the delegation's lock."""

    folder: Folder
    lock: int


def submit(folder: Folder, lock: int) -> None:
    """Start a new delegation's worker, or let the delegation wait; this closes ``lock``, which locks the folder.

    If this raises, such as ``disk_full``, the delegation has ended with that error, or the next reader ends it.
    """
    root = delegation_folder.state_root()
    try:
        spec = delegation_folder.read_spec(folder)
        names, digest = start_conditions.needed_keys(spec, os.environ)
        try:
            store.add(root, Entry(folder.id, spec.slots, 0, names, digest), record=needs_worktree(spec))
            failpoint("entry added")
            claim = Claim(folder, lock)
            if start_conditions.awaits_something(spec):
                _settle(root, claim, spec)
            if start_waiting(root, claim):
                return
            with Writer(folder, lock) as writer:
                if writer.delegation.state in NOT_STARTED:
                    writer.append(Queued(position=store.position(root, folder.id)), attempt=0)
                    if spec.start_at is not None:
                        moment = datetime.fromisoformat(spec.start_at).astimezone()
                        writer.append(Phase(text=f"waiting until {moment:%Y-%m-%d %H:%M}"), attempt=0)
        except (UnderstudyError, OSError) as error:
            # The store may be unable to remove the entry now: what was refused must not start later all the same.
            if not _finish(Claim(folder, lock), _typed(error, root).info()):
                refuse(folder)
            leave(root, folder.id)
            raise
        failpoint("queued")
    finally:
        os.close(lock)
    if digest and (held := start_conditions.lock_key_holder(root, digest)) is not None:
        _spawn_helper(root, ["--hold-keys", digest], held)
    start_waiting(root)


def start_waiting(root: Path, mine: Claim | None = None, *, problems: dict[str, UnderstudyError] | None = None) -> bool:
    """Start as many waiting delegations as there are free slots, oldest first; return whether ``mine`` was started.

    Cheap when there is nothing to do. Also start a process that records bases, if none does and some are missing.
    Raises an error only if ``mine`` can neither start nor wait: what is left undone now, a later call does. A full disk
    and the like are added to ``problems``, by the delegation that cannot start, or by "" if none can.
    """
    launched_mine = False
    seen: set[str] = set()
    try:
        _look(root, problems)
        while (taken := _take_next(root, seen, mine)) is not None:
            slot, claim, entry = taken
            try:
                if _may_launch(root, claim, entry):
                    spawn_worker(claim.folder, claim.lock, slot=slot)
                    launched_mine = launched_mine or claim is mine
            except (UnderstudyError, OSError) as error:
                if claim is mine:
                    raise
                _add(problems, claim.folder.id, error, root)
                _give_up(root, claim, error)
            finally:
                slot.close()
                if claim is not mine:
                    os.close(claim.lock)
        ensure_recorder(root)
        ensure_timer(root)
    except (UnderstudyError, OSError) as error:
        if mine is not None and not launched_mine:
            raise
        _add(problems, "", error, root)
    return launched_mine


def next_for(root: Path, slot: Slot) -> Claim | None:
    """Return the oldest waiting delegation that may have ``slot``, for this process to run; None: give the slot up."""
    seen: set[str] = set()
    with contextlib.suppress(UnderstudyError, OSError):  # a later call tries again
        _look(root)
        while (taken := _take_next(root, seen, free=slot)) is not None:
            _, claim, entry = taken
            try:
                if _may_launch(root, claim, entry):
                    return claim
            except (UnderstudyError, OSError) as error:
                _give_up(root, claim, error)
            os.close(claim.lock)
    return None


def ensure_entry(folder: Folder) -> bool:
    """Let a delegation that waits without an entry wait with one: the store was removed, or lost its last moments.

    Return False if another process has locked it, so that it must be looked at again.
    """
    root = delegation_folder.state_root()
    if store.contains(root, folder.id):
        return True
    if (lock := worker_files.try_lock(folder)) is None:
        return False
    try:
        if reader.load(folder).state is State.QUEUED and not store.contains(root, folder.id):
            store.add(root, Entry(folder.id, delegation_folder.read_spec(folder).slots), record=False)
    except UnderstudyError as error:
        _give_up(root, Claim(folder, lock), error)
    finally:
        os.close(lock)
    return True


def refuse(folder: Folder) -> None:
    """Keep a delegation from starting whose end cannot be written now; the next one that serves the queue ends it."""
    with contextlib.suppress(OSError):
        folder.refused.touch(durable.PRIVATE_FILE)


def leave(root: Path, identifier: str) -> None:
    """Take a delegation out of the queue that started or ended; if that fails now, the next one that serves it does."""
    with contextlib.suppress(UnderstudyError):
        store.leave(root, identifier)
        if durable.is_locked(_timer_lock(root)):
            change_notifications.notify(_TIMER_TOPIC)


class SpareSlot:
    """A slot that a delegation holds beside its own, as long as no other delegation waits for one."""

    def __init__(self, root: Path, slot: Slot) -> None:
        """Hold what ``take_slot`` returned."""
        self._root = root
        self._slot: Slot | None = slot

    @property
    def wanted(self) -> bool:
        """Return whether a delegation waits."""
        return bool(store.waiting(self._root))

    def close(self) -> None:
        """Free it and start what waits; do nothing if it is free."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.close()
            start_waiting(self._root)


def spare_slot(root: Path, slots: int) -> SpareSlot | None:
    """Return a free slot if there is one and no delegation waits for it."""
    if store.waiting(root) or (slot := take_slot(root, slots)) is None:
        return None
    spare = SpareSlot(root, slot)
    if spare.wanted:
        # It was added meanwhile, and its start found this slot taken.
        spare.close()
        return None
    return spare


def needs_worktree(spec: Spec) -> bool:
    """Return whether a run needs a worktree: for every recipe that changes files, and for every agent CLI."""
    return spec.recipe.returns != "text" or any(
        declarations.require_capabilities(
            candidate.delegator, candidate.model_server, candidate.tool_definition
        ).process_in_worktree
        for candidate in spec.candidates
    )


def spawn_worker(folder: Folder, lock: int, *, slot: Slot | None = None, only_check: bool = False) -> None:
    """Start ``understudy worker`` for a locked folder, and pass it the lock (and a slot)."""
    arguments, descriptors = [folder.id, str(lock)], [lock]
    if slot is not None:
        arguments.append(f"--slot={slot.number}:{slot.descriptor}")
        descriptors.append(slot.descriptor)
    if only_check:
        arguments.append("--check")
    _spawn(arguments, descriptors, folder.path / "worker.log")


def ensure_recorder(root: Path) -> None:
    """Start a process that records the missing bases of delegations without a worker, unless one is running.

    A worker records the base of its delegation itself, as early as another process could.
    """
    if not store.unrecorded(root) or durable.is_locked(_recorder_lock(root)):
        return
    held = lock_recorder(root)
    if held is not None:
        _spawn_helper(root, ["--record-bases"], held)


def ensure_timer(root: Path) -> None:
    """Start a process that serves the queue when the next moment has come that something waits for, unless one runs."""
    if start_conditions.next_moment(root) is None or durable.is_locked(_timer_lock(root)):
        return
    held = durable.try_lock(_timer_lock(root))
    if held is not None:
        _spawn_helper(root, ["--timer"], held)


def serve_moments(root: Path, lock: int) -> None:
    """Serve the queue at each moment that something waits for, until there is none; this closes ``lock``.

    It looks at the clock at least every ``TIMER_SECONDS``: a machine that slept, or whose clock was set, is late by no
    more than that. What cannot start at its moment, for example on a full disk, is tried again and again, with pauses.
    """
    with change_notifications.ChangeListener(only=[_TIMER_TOPIC]) as listener:
        while (moment := start_conditions.next_moment(root)) is not None:
            listener.wait(min(TIMER_SECONDS, max(_AGAIN_SECONDS, moment - time.time())))
            start_waiting(root)
    os.close(lock)
    ensure_timer(root)  # for what was added before the lock was free


def lock_recorder(root: Path) -> int | None:
    """Return the descriptor of the lock that a new recorder inherits; None when there is one."""
    place = _recorder_lock(root)
    with durable.named_failures(place):
        place.parent.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
        return durable.try_lock(place)


def _timer_lock(root: Path) -> Path:
    place = root / "queue" / "timer.lock"
    place.parent.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
    return place


def _recorder_lock(root: Path) -> Path:
    return root / "queue" / "recorder.lock"


def _look(root: Path, problems: dict[str, UnderstudyError] | None = None) -> None:
    """Bring the queue up to date: fill a new store, let the delegations of dead workers wait again, release others."""
    if store.is_new(root):
        _fill(root)
    _take_back(root, problems)
    _look_at_awaited(root)


def _fill(root: Path) -> None:
    """Let everything wait of which the journals say so."""
    identifiers = delegation_folder.ids()
    if not identifiers:
        return
    is_whole = True
    for identifier in identifiers:
        folder = _folder(identifier)
        with contextlib.suppress(UnderstudyError):  # it cannot be read: a request for it reports why
            if folder is not None and reader.peek(folder).state is State.QUEUED:
                is_whole &= ensure_entry(folder)
    if is_whole:
        store.mark_filled(root)


def _take_next(
    root: Path, seen: set[str], mine: Claim | None = None, free: Slot | None = None
) -> tuple[Slot, Claim, Entry] | None:
    """Return a free slot (``free``, if given) with the first delegation that may have it; the caller closes both.

    Ids that were looked at are added to ``seen`` and passed over in later calls.
    """
    above = free.number if free is not None else 0
    while (entry := store.next_waiting(root, above, seen)) is not None:
        slot = free or take_slot(root, entry.slots)
        if slot is None:
            above = entry.slots  # another one may be allowed more slots
            continue
        with contextlib.ExitStack() as stack:
            if free is None:
                stack.callback(slot.close)
            seen.add(entry.id)
            claim = mine if mine is not None and mine.folder.id == entry.id else _claim(root, entry.id)
            if claim is None:
                continue
            if claim is not mine:
                stack.callback(os.close, claim.lock)
            if _is_kept_for_holder(root, entry):
                return None  # the holder takes the slot: what came later must not
            stack.pop_all()
            return slot, claim, entry
    return None


def _claim(root: Path, identifier: str) -> Claim | None:
    """Lock a delegation that has not started, unless it is locked; remove the entry of one that has."""
    folder = _folder(identifier)
    if folder is None:
        store.leave(root, identifier)
        return None
    if worker_files.is_held(folder) or (lock := worker_files.try_lock(folder)) is None:
        return None
    claim = Claim(folder, lock)
    try:
        if reader.load(folder).state in NOT_STARTED:
            if not folder.refused.exists():
                return claim
            _finish(claim, _REFUSED)
        store.leave(root, identifier)
    except UnderstudyError as error:
        _give_up(root, claim, error)
    os.close(lock)
    return None


def _folder(identifier: str) -> Folder | None:
    """Return the folder of a delegation, None if it was removed."""
    try:
        return delegation_folder.open_folder(identifier)
    except UnderstudyError as error:
        if error.kind is ErrorKind.UNKNOWN_DELEGATION:
            return None
        raise


def _is_kept_for_holder(root: Path, entry: Entry) -> bool:
    """Return whether a holder of keys must start this delegation, and notify it."""
    if (
        not entry.key_digest
        or start_conditions.has_keys(entry, os.environ)
        or not start_conditions.keys_are_held(root, entry.key_digest)
    ):
        return False
    change_notifications.notify(start_conditions.KEYS_TOPIC)
    return True


def _may_launch(root: Path, claim: Claim, entry: Entry) -> bool:
    """Mark a delegation as launched; return False, with its end written, if it may not start.

    That is so if its workers died too often, or the budget of its group is spent. One that comes after others which
    have not ended is held.
    """
    spec = delegation_folder.read_spec(claim.folder)
    if start_conditions.awaits_something(spec) and not _settle(root, claim, spec):
        return False
    spent = start_conditions.exceeded_group_budget(spec.group_id)
    error = spent.info() if spent is not None else None
    if entry.launches >= MOST_LAUNCHES:
        error = ErrorInfo(ErrorKind.INTERRUPTED, f"Its worker died {MOST_LAUNCHES} times.")
    if error is not None:
        _finish(claim, error)
        store.leave(root, entry.id)
        return False
    store.launch(root, entry.id)
    failpoint("launched")
    return True


def _settle(root: Path, claim: Claim, spec: Spec) -> bool:
    """Return whether those that a delegation comes after have succeeded; hold it or end it otherwise."""
    try:
        others = start_conditions.unended_predecessors(spec)
    except start_conditions.Blocked as blocked:
        _finish(claim, blocked.error, blocked.verdict)
        failpoint("blocked")
        store.leave(root, claim.folder.id)
        return False
    store.hold(root, claim.folder.id, others)
    failpoint("held")
    return not others


def _look_at_awaited(root: Path) -> None:
    """Release what comes after delegations that have ended; end what can never start.

    One that ends may be what another comes after, so this looks again until nothing changes.
    """
    looked: set[str] = set()
    while awaited := set(store.awaited(root)) - looked:
        looked |= awaited
        for other in sorted(awaited):
            if start_conditions.has_ended(other):
                for identifier in store.release(root, other):
                    # One that is locked is looked at when it is its turn; so are those after a kill of this process.
                    with contextlib.suppress(UnderstudyError), _claimed(root, identifier) as claim:
                        if claim is not None:
                            _settle(root, claim, delegation_folder.read_spec(claim.folder))


def _take_back(root: Path, problems: dict[str, UnderstudyError] | None) -> None:
    """Let delegations wait again whose worker died before it wrote ``started``."""
    for identifier in store.launched(root):
        with _claimed(root, identifier) as claim:
            if claim is not None:
                try:
                    dead_workers.end_leftovers(claim.folder)
                    store.wait_again(root, identifier)
                except UnderstudyError as error:
                    _add(problems, identifier, error, root)
                    _give_up(root, claim, error)


@contextlib.contextmanager
def _claimed(root: Path, identifier: str) -> Iterator[Claim | None]:
    claim = _claim(root, identifier)
    try:
        yield claim
    finally:
        if claim is not None:
            os.close(claim.lock)


def _give_up(root: Path, claim: Claim, error: Exception) -> None:
    """End a delegation that cannot be started, so that it does not block others; with a full disk, it waits on."""
    info = _typed(error, root).info()
    if info.kind in _MAY_PASS and not _is_damaged(claim.folder):
        with contextlib.suppress(UnderstudyError):  # else the next call of _take_back() does it
            store.wait_again(root, claim.folder.id, was_started=False)
        return
    _finish(claim, info)
    leave(root, claim.folder.id)


def _add(problems: dict[str, UnderstudyError] | None, identifier: str, error: Exception, root: Path) -> None:
    typed = _typed(error, root)
    if problems is not None and typed.kind in _MAY_PASS:
        problems[identifier] = typed


def _typed(error: Exception, root: Path) -> UnderstudyError:
    if isinstance(error, OSError):
        return durable.failure(error, root)
    return error if isinstance(error, UnderstudyError) else UnderstudyError(ErrorKind.INTERNAL, str(error))


def _is_damaged(folder: Folder) -> bool:
    """Return whether the delegation can never be started: its specification is gone or cannot be decoded."""
    try:
        delegation_folder.read_spec(folder)
    except UnderstudyError as error:
        reason = error.__cause__
        return not isinstance(reason, OSError) or isinstance(reason, FileNotFoundError)
    return False


def _finish(claim: Claim, error: ErrorInfo, verdict: Verdict | None = None) -> bool:
    """End a delegation that has not started; return False if its journal cannot be written."""
    verdict = verdict or _VERDICTS.get(error.kind, Verdict.FAILED)
    with contextlib.suppress(UnderstudyError), Writer(claim.folder, claim.lock) as writer:
        if writer.delegation.state in NOT_STARTED:
            attempt = max((attempt_entry.number for attempt_entry in writer.delegation.attempts), default=0)
            writer.append(Finished(verdict=verdict, reservations=[], error=error), attempt=attempt)
        return True
    return False


def _spawn_helper(root: Path, arguments: list[str], lock: int) -> None:
    """Start a worker process that serves the queue and runs no delegation; this closes ``lock``, which it inherits."""
    try:
        _spawn([*arguments, str(lock)], [lock], root / "queue" / "worker.log")
    finally:
        os.close(lock)


def _spawn(arguments: list[str], descriptors: list[int], log: Path) -> None:
    """Start a worker process with Understudy's own environment, because it resolves keys by name.

    Programs that it starts get an environment made from an allow-list.
    """
    argv = [sys.executable, "-P", "-m", "understudy", "worker", *arguments]
    environment = dict(os.environ) | {"UNDERSTUDY_STATE": str(delegation_folder.state_root())}
    unguarded.start_detached(Program(argv, Path("/"), environment, OWN, stdout_log=log), pass_fds=tuple(descriptors))
