"""Start workers: the oldest waiting delegation gets the next free slot.

No process is in charge of the queue. ``serve`` is called by each start, by each worker that ends, by each process that
releases the lock of a waiting delegation, and by frontends when they begin and while they follow a delegation. What a
killed process left undone, the next call does.

No lock is held while the queue is read. A process first takes a slot (a lock that the kernel frees), then the lock of
the oldest delegation that has no process, and passes both to the worker. One that finds a delegation's lock taken
skips it: its holder calls ``serve`` after it has released it. One that gives a slot back looks once more for entries
that were added meanwhile, because their starts found that slot taken.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.config.discovery import declarations
from understudy.engine.queueing import dependencies, group_budget, key_holder, queue_entries
from understudy.engine.queueing.slots import Slot, take_slot
from understudy.files import durable, locks
from understudy.journal import change_notifications, delegation_folder, state_folder, worker_lock
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries import summary
from understudy.journal.writing import dead_workers
from understudy.journal.writing.writer import Writer
from understudy.model.delegation.events import Finished, Queued
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.verdicts import Verdict
from understudy.process.failpoints import failpoint
from understudy.process.program import OWN, Program
from understudy.process.programs import detached

if TYPE_CHECKING:
    from understudy.engine.planning.plan import Plan

MOST_LAUNCHES = 3
"""The most worker starts for a delegation whose worker dies before it writes ``started``."""

NOT_STARTED = frozenset({State.PREPARING, State.QUEUED})
"""The states of a delegation with an entry."""


_VERDICTS = {
    ErrorKind.INTERRUPTED: Verdict.INTERRUPTED,
    ErrorKind.BUDGET_EXHAUSTED: Verdict.BUDGET_EXHAUSTED,
}

_MAY_PASS = frozenset({ErrorKind.DISK_FULL, ErrorKind.STATE_UNAVAILABLE})
"""Problems of the machine, after which a waiting delegation can still start."""


@dataclass(frozen=True)
class Claim:
    """A delegation that this process may start: it holds the delegation's lock."""

    folder: Folder
    lock: int


def submit(folder: Folder, lock: int) -> None:
    """Start a new delegation's worker, or let the delegation wait; this closes ``lock``, which locks the folder.

    If this raises, such as ``disk_full``, the delegation does not wait: the next reader ends it as interrupted.
    """
    root = state_folder.state_root()
    try:
        spec = delegation_folder.read_spec(folder)
        keys = key_holder.needed_keys(spec, os.environ)
        try:
            queue_entries.add(root, folder.id, spec.slots, keys=keys, record=needs_worktree(spec), after=spec.after)
            failpoint("entry added")
            claim = Claim(folder, lock)
            if spec.after:
                _settle(root, claim, spec)
            if serve(root, claim):
                return
            with Writer(folder, lock) as writer:
                if writer.delegation.state in NOT_STARTED:
                    writer.append(Queued(position=queue_entries.position(root, folder.id, spec.slots)), attempt=0)
        except (UnderstudyError, OSError):
            queue_entries.leave(root, folder.id)
            raise
        failpoint("queued")
    finally:
        os.close(lock)
    if keys is not None and (held := key_holder.lock_holder(root, keys.digest)) is not None:
        _spawn_helper(root, ["--hold-keys", keys.digest], held)
    serve(root)


def serve(root: Path, mine: Claim | None = None, *, problems: dict[str, UnderstudyError] | None = None) -> bool:
    """Start as many waiting delegations as there are free slots, oldest first; return whether ``mine`` was started.

    Cheap when there is nothing to do. Also start a process that records bases, if none does and some are missing.
    Raises an error only if ``mine`` can neither start nor wait: what is left undone now, a later call does. A full disk
    and the like are added to ``problems``, by the delegation that cannot start, or by "" if none can.
    """
    launched_mine = False
    seen: set[str] = set()
    try:
        _take_back(root)
        _look_at_left(root)
        while (taken := _take_next(root, seen, mine)) is not None:
            slot, claim, slots = taken
            try:
                if _may_launch(root, claim, slots):
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
    except (UnderstudyError, OSError) as error:
        if mine is not None and not launched_mine:
            raise
        _add(problems, "", error, root)
    return launched_mine


def next_for(root: Path, slot: Slot) -> Claim | None:
    """Return the oldest waiting delegation that may have ``slot``, for this process to run; None: give the slot up."""
    _take_back(root)
    _look_at_left(root)
    seen: set[str] = set()
    while (taken := _take_next(root, seen, own=slot)) is not None:
        _, claim, slots = taken
        try:
            if _may_launch(root, claim, slots):
                return claim
        except (UnderstudyError, OSError) as error:
            _give_up(root, claim, error)
        os.close(claim.lock)
    return None


def ensure_entry(folder: Folder) -> None:
    """Let a delegation that waits without an entry wait with one: a power cut, or an older version, left it."""
    root = state_folder.state_root()
    if queue_entries.contains(root, folder.id) or (lock := worker_lock.try_lock(folder)) is None:
        return
    try:
        if summary.load(folder).state is State.QUEUED and not queue_entries.contains(root, folder.id):
            spec = delegation_folder.read_spec(folder)
            queue_entries.add(root, folder.id, spec.slots, keys=None, record=False, after=spec.after)
    except UnderstudyError as error:
        _give_up(root, Claim(folder, lock), error)
    finally:
        os.close(lock)


def needs_worktree(spec: Spec | Plan) -> bool:
    """Return whether a run needs a worktree: for every recipe that changes files, and for every agent CLI."""
    return spec.recipe.returns != "text" or any(
        declarations.require_capabilities(one.delegator, one.model_server, one.tool_definition).process_in_worktree
        for one in spec.candidates
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
    missing = set(queue_entries.unrecorded(root)).difference(queue_entries.launched(root))
    if not missing or locks.is_locked(_recorder_lock(root)):
        return
    held = lock_recorder(root)
    if held is not None:
        _spawn_helper(root, ["--record-bases"], held)


def lock_recorder(root: Path) -> int | None:
    """Return the descriptor of the lock that a new recorder inherits; None when there is one."""
    place = _recorder_lock(root)
    with durable.named_failures(place):
        return locks.try_lock(place)


def _recorder_lock(root: Path) -> Path:
    return root / "queue" / "recorder.lock"


def _take_next(
    root: Path, seen: set[str], mine: Claim | None = None, own: Slot | None = None
) -> tuple[Slot, Claim, int] | None:
    """Return a free slot (``own``, if given) with the oldest delegation that may have it, and its number of slots.

    The caller closes both. Ids that were looked at are added to ``seen`` and left out in later calls. Nothing is
    returned while the queue is paused.
    """
    # An entry that was looked at may have left, or have been held until now.
    while (taken := _take_oldest(root, seen, mine, own)) is None and (released := _look_at_left(root)):
        seen -= released
    return taken


def _take_oldest(root: Path, seen: set[str], mine: Claim | None, own: Slot | None) -> tuple[Slot, Claim, int] | None:
    if queue_entries.is_paused(root):
        return None
    slot = own
    try:
        while True:
            full: set[int] = set()
            for identifier, slots in queue_entries.waiting(root):
                if identifier in seen or slots in full:
                    continue
                if slot is None or slot.number >= slots:
                    other = take_slot(root, slots) if own is None else None
                    if other is None:
                        full.add(slots)  # another one may be allowed more slots
                        continue
                    if slot is not None:
                        slot.close()
                    slot = other
                seen.add(identifier)
                claim = _claim(root, identifier, mine)
                if claim is None:
                    continue
                if not _is_kept_for_holder(root, identifier):
                    return slot, claim, slots
                if claim is not mine:
                    os.close(claim.lock)
                if slot is not own:
                    slot.close()
                return None  # the holder takes the slot: what came later must not
            if slot is None or slot is own:
                return None
            slot.close()
            slot = None
    except BaseException:
        if slot is not None and slot is not own:
            slot.close()
        raise


def _claim(root: Path, identifier: str, mine: Claim | None) -> Claim | None:
    """Lock a waiting delegation; remove its entry if it no longer waits."""
    if mine is not None and mine.folder.id == identifier:
        return mine
    try:
        folder = delegation_folder.open_folder(identifier)
        lock = worker_lock.try_lock(folder)
    except UnderstudyError as error:
        if error.kind is ErrorKind.UNKNOWN_DELEGATION:
            queue_entries.leave(root, identifier)
        return None
    if lock is None:
        return None
    claim = Claim(folder, lock)
    try:
        if summary.load(folder).state in NOT_STARTED:
            return claim
        queue_entries.leave(root, identifier)
    except UnderstudyError as error:
        _give_up(root, claim, error)
    os.close(lock)
    return None


def _is_kept_for_holder(root: Path, identifier: str) -> bool:
    """Return whether a holder of keys must start this delegation, and notify it."""
    keys = queue_entries.read(root, identifier).keys
    if keys is None or key_holder.has(keys, os.environ) or not key_holder.is_held(root, keys.digest):
        return False
    change_notifications.notify(key_holder.TOPIC)
    return True


def _may_launch(root: Path, claim: Claim, slots: int) -> bool:
    """Mark a delegation as launched; return False, with its end written, if it may not start.

    That is so if its workers died too often, or the budget of its group is spent. One that comes after others which
    have not ended waits on.
    """
    spec = delegation_folder.read_spec(claim.folder)
    if spec.after and not _settle(root, claim, spec):
        return False
    if queue_entries.read(root, claim.folder.id).launches >= MOST_LAUNCHES:
        _finish(claim, ErrorInfo(ErrorKind.INTERRUPTED, f"Its worker died {MOST_LAUNCHES} times."))
        queue_entries.leave(root, claim.folder.id)
        return False
    spent = group_budget.exceeded(spec.group_id)
    if spent is not None:
        _finish(claim, spent.info())
        queue_entries.leave(root, claim.folder.id)
        return False
    queue_entries.launch(root, claim.folder.id, slots)
    failpoint("launched")
    return True


def _settle(root: Path, claim: Claim, spec: Spec) -> bool:
    """Return whether those that a delegation comes after have succeeded; hold it or end it otherwise.

    ``queue_entries`` says why these steps have this order.
    """
    identifier = claim.folder.id
    try:
        others = dependencies.unended(spec)
        if others:
            queue_entries.mark(root, identifier, others)
            failpoint("marked")
            others = [other for other in dependencies.unended(spec) if other in others]
    except dependencies.Blocked as blocked:
        _finish(claim, blocked.error, blocked.verdict)
        failpoint("blocked")
        queue_entries.leave(root, identifier)
        queue_entries.unmark(root, identifier, spec.after)
        return False
    if others and all(queue_entries.has_entry(root, other) for other in others):
        queue_entries.hold(root, identifier, spec.slots)
    else:
        # Without an entry of its own, such as of an earlier version, nothing leads from the other to this one.
        queue_entries.release(root, identifier)
    queue_entries.unmark(root, identifier, [other for other in spec.after if other not in others])
    return not others


def _look_at_left(root: Path) -> set[str]:
    """Look at what comes after delegations that have ended; return those that are no longer held.

    One that ends may be what another comes after, so this looks again until nothing changes.
    """
    queue_entries.release_earlier(root)
    released: set[str] = set()
    looked: set[str] = set()
    while left := set(queue_entries.left(root)) - looked:
        looked |= left
        for identifier in sorted(left):
            with contextlib.suppress(UnderstudyError):  # a later call tries again
                released |= _look_after(root, identifier)
    return released


def _look_after(root: Path, identifier: str) -> set[str]:
    """Look at what comes after a delegation that has left, if it has ended, and drop its entry; return as above."""
    released: set[str] = set()
    folder = _folder(identifier)
    if folder is not None and not queue_entries.is_followed(root, identifier) and worker_lock.is_held(folder):
        return released  # it runs
    if not dependencies.has_ended(identifier):
        return released
    for follower in queue_entries.followers(root, identifier):
        with contextlib.suppress(UnderstudyError):
            if _look_at_follower(root, identifier, follower):
                released.add(follower)
    lock = worker_lock.try_lock(folder) if folder is not None else None
    if folder is not None and lock is None:
        return released
    try:
        if dependencies.has_ended(identifier):
            queue_entries.drop(root, identifier)
    finally:
        if lock is not None:
            os.close(lock)
    return released


def _look_at_follower(root: Path, other: str, identifier: str) -> bool:
    """Look at a delegation that comes after ``other``, which has ended; return whether it may be held no longer."""
    folder = _folder(identifier)
    if folder is None:
        queue_entries.leave(root, identifier)
        queue_entries.unmark(root, identifier, [other])
        return False
    if worker_lock.is_held(folder) or (lock := worker_lock.try_lock(folder)) is None:
        return False
    try:
        if summary.load(folder).state in NOT_STARTED:
            return _settle(root, Claim(folder, lock), delegation_folder.read_spec(folder))
        queue_entries.leave(root, identifier)
    except UnderstudyError:
        queue_entries.release(root, identifier)  # starting it ends it with the reason
        queue_entries.unmark(root, identifier, [other])
        return True
    else:
        queue_entries.unmark(root, identifier, [other])
        return False
    finally:
        os.close(lock)


def _folder(identifier: str) -> Folder | None:
    """Return the folder of a delegation, None if it was removed."""
    try:
        return delegation_folder.open_folder(identifier)
    except UnderstudyError as error:
        if error.kind is ErrorKind.UNKNOWN_DELEGATION:
            return None
        raise


def _take_back(root: Path) -> None:
    """Let delegations wait again whose worker died before it wrote ``started``."""
    for identifier in queue_entries.launched(root):
        claim = None
        try:
            folder = delegation_folder.open_folder(identifier)
            if worker_lock.is_held(folder) or (lock := worker_lock.try_lock(folder)) is None:
                continue
            claim = Claim(folder, lock)
            if identifier not in queue_entries.launched(root):
                continue
            if summary.load(folder).state in NOT_STARTED:
                dead_workers.end_leftovers(folder)
                queue_entries.wait_again(root, identifier, delegation_folder.read_spec(folder).slots)
            else:
                queue_entries.leave(root, identifier)
        except UnderstudyError as error:
            if claim is not None:
                _give_up(root, claim, error)
            elif error.kind is ErrorKind.UNKNOWN_DELEGATION:
                queue_entries.leave(root, identifier)
        finally:
            if claim is not None:
                os.close(claim.lock)


def _give_up(root: Path, claim: Claim, error: Exception) -> None:
    """End a delegation that cannot be started, so that it does not block others; with a full disk, it waits on."""
    info = _typed(error, root).info()
    if info.kind in _MAY_PASS and not _is_damaged(claim.folder):
        if claim.folder.id in queue_entries.launched(root):
            with contextlib.suppress(UnderstudyError):  # else the next call of _take_back() does it
                slots = delegation_folder.read_spec(claim.folder).slots
                queue_entries.wait_again(root, claim.folder.id, slots, was_started=False)
        return
    _finish(claim, info)
    queue_entries.leave(root, claim.folder.id)


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


def _finish(claim: Claim, error: ErrorInfo, verdict: Verdict | None = None) -> None:
    verdict = verdict or _VERDICTS.get(error.kind, Verdict.FAILED)
    with contextlib.suppress(UnderstudyError), Writer(claim.folder, claim.lock) as writer:
        if writer.delegation.state in NOT_STARTED:
            attempt = max((one.number for one in writer.delegation.attempts), default=0)
            writer.append(Finished(verdict=verdict, reservations=[], error=error), attempt=attempt)


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
    environment = dict(os.environ) | {"UNDERSTUDY_STATE": str(state_folder.state_root())}
    detached.start_detached(Program(argv, Path("/"), environment, OWN, stdout_log=log), pass_fds=tuple(descriptors))
