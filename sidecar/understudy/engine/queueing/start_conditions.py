"""What a start needs: a slot, keys, a budget, earlier tasks that have succeeded, and a delegator that is not paused.

A slot is a file under ``<state>/slots`` that a worker keeps locked until it exits, so a killed worker frees it.

Keys are never written to disk. A process whose own environment has the values that a delegation needs starts its
worker. For any other process there is one *holder* for each set of values: ``understudy worker --hold-keys``, which has
the environment of the process that asked and exits when no entry needs it. If it was killed, the environment of the
process that starts the worker is all there is, and the worker reports a missing key.

No process is in charge of a group. Each process that serves the queue looks at what tasks await; that is in their
specifications, so a crash or a restart changes nothing. The process that starts the next member compares what all of
them spent with the budget, and so does each running member whenever its model reports usage.

Pauses (*circuits*) are stored for a delegator's name, program, server and key: after a change of these, nothing is
known about it.
"""

from __future__ import annotations

import contextlib
import fcntl
import graphlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from understudy.config import findings
from understudy.files import durable
from understudy.journal import change_notifications, delegation_folder, groups, reader
from understudy.journal.writing import dead_workers
from understudy.model.config.config_entries import CircuitState, Pause
from understudy.model.config.delegators import Delegator, EnvReference, Limits, ModelServer
from understudy.model.delegation.delegations import Delegation, GroupBudget
from understudy.model.delegation.spec import PauseBounds, RelayBounds, Spec, SpecCandidate
from understudy.model.errors import ErrorInfo, ErrorKind, FailureClass, UnderstudyError, class_of
from understudy.model.states import STATES_WITH_WORKER, State
from understudy.model.text.delegation_text import meaning
from understudy.model.verdicts import Verdict
from understudy.model.wire import ready, retry_time
from understudy.policy import circuit as circuits
from understudy.policy.budget import COST, Budget, Shortage, Spending
from understudy.policy.circuit import Circuit
from understudy.process import identity
from understudy.store import store
from understudy.store.store import Entry

GROUP_CHECK_SECONDS = 1.0
"""How often a running member reads what the others spent; their summaries are as old as this, too."""
KEYS_TOPIC = "queue"
"""The change notification that asks holders to start what waits for their keys."""
KEY_HOLDER_HANGS_SECONDS = 10.0
"""A holder that has not touched its file for this long hangs; others no longer wait for it."""
_MOST_MESSAGE = 300
_ByClass = dict[FailureClass, Circuit]
_OF_ACCOUNT = frozenset({FailureClass.AUTH, FailureClass.QUOTA})
"""Failures of a login or key, which all delegators of its account have: too many requests are those of one model."""
_NO_PROCESS = identity.Identity(-1, -1, "")
_NOT_ITS_FAULT = frozenset({ErrorKind.TIMED_OUT, ErrorKind.CONTEXT_TOO_LONG})
"""A limit of one request, or its size, says nothing about the next one."""
SUCCEEDED = frozenset({Verdict.ANSWERED, Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.NO_CHANGES})
"""The verdicts after which a task that waited starts."""


@dataclass
class Slot:
    """A slot that this process, or a worker it started, holds."""

    number: int
    """Counted from 0. A delegation that was configured with N slots takes one below N."""
    descriptor: int
    """Holds the lock; close-on-exec. -1: given up."""

    def close(self) -> None:
        """Give up this process's hold; a worker that inherited the descriptor keeps the slot."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def take_slot(root: Path, slots: int) -> Slot | None:
    """Return a free slot below ``slots``, None when all are taken. The lowest comes first.

    So a delegation that was started after the limit was lowered waits for those that run already. Raises the errors of
    ``durable.failure``.
    """
    folder = root / "slots"
    with durable.named_failures(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(max(1, slots)):
        with durable.named_failures(folder):
            descriptor = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return Slot(number, descriptor)
    return None


class GroupBudgetWatch:
    """Compares the budget of a group, if there is one, with what its members spent, for one that runs."""

    def __init__(self, group_id: Callable[[], str | None]) -> None:
        """Watch the group whose id ``group_id`` returns; None: none now."""
        self._group_id = group_id
        self._checked = float("-inf")

    def check(self, member: Delegation) -> None:
        """Raise ``budget_exhausted`` if the budget is spent; ``member`` is the current state of this one."""
        group = self._group_id()
        if group is None or time.monotonic() - self._checked < GROUP_CHECK_SECONDS:
            return
        spent = exceeded_group_budget(group, member)
        if spent is not None:
            raise spent
        self._checked = time.monotonic()


def exceeded_group_budget(group_id: str | None, own: Delegation | None = None) -> UnderstudyError | None:
    """Return the error for the budget of a group that is spent; None if some is left or there is none.

    ``own`` is the current state of a member that runs: it may spend the last of the budget, but no more, while one that
    waits needs some left. A group that cannot be read limits nothing.
    """
    if group_id is None:
        return None
    try:
        group = groups.read(group_id)
    except UnderstudyError:
        return None
    if group.budget is None:
        return None
    budget = budget_of(group.budget)
    for member in group.delegations:
        with suppress(UnderstudyError):  # one that was removed
            delegation = (
                own if own is not None and own.id == member else reader.peek(delegation_folder.open_folder(member))
            )
            budget = budget.charge(spent_by(delegation))
    short = budget.exceeded() if own is not None else budget.reserve()
    return _spent(group_id, shortage_text(short)) if isinstance(short, Shortage) else None


def budget_of(bounds: GroupBudget | RelayBounds) -> Budget:
    """Return the budget of what several delegations spend together."""
    return Budget(Limits(max_tokens=bounds.max_tokens, max_usd=bounds.max_usd))


def spent_by(delegation: Delegation) -> Spending:
    """Return what a delegation cost; what has no known cost counts as free."""
    return Spending.of(delegation.usage, delegation.cost_usd, unknown_is_free=True)


def shortage_text(short: Shortage) -> str:
    """Return how much was spent of how much."""
    return f"{short.spent} of {short.most} {'USD' if short.limit == COST else 'tokens'}"


def _spent(group_id: str, how_much: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.BUDGET_EXHAUSTED,
        f"The budget of group {group_id} is spent: {how_much}.",
        hint="Start what is left in another group, with another budget.",
    )


def needed_keys(spec: Spec, environment: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the variables that a candidate needs from the environment of the process that asked, with their digest.

    The digest identifies their values without revealing them; it is empty if there are none.
    """
    names: set[str] = set()
    for candidate in spec.candidates:
        values = (candidate.delegator.env or {}).values()
        names |= {value.from_env for value in values if isinstance(value, EnvReference)}
        key = candidate.model_server.api_key if candidate.model_server is not None else None
        if key is not None and key.from_env is not None:
            names.add(key.from_env)
    return tuple(sorted(names)), _digest(sorted(names), environment) if names else ""


def has_keys(entry: Entry, environment: Mapping[str, str]) -> bool:
    """Return whether an environment has the values that were there when the delegation was asked for."""
    return _digest(entry.key_names, environment) == entry.key_digest


def keys_are_held(root: Path, digest: str) -> bool:
    """Return whether a holder that does not hang has these values."""
    place = _place(root, digest)
    try:
        hangs = time.time() - place.stat().st_mtime > KEY_HOLDER_HANGS_SECONDS
    except OSError:
        return False
    return not hangs and durable.is_locked(place)


def lock_key_holder(root: Path, digest: str) -> int | None:
    """Return the descriptor of the lock that a new holder inherits; None when there is a holder."""
    place = _place(root, digest)
    with durable.named_failures(place):
        place.parent.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
        descriptor = durable.try_lock(place)
        if descriptor is not None:
            os.utime(descriptor)
        return descriptor


def hold_keys(root: Path, digest: str, lock: int, start_waiting: Callable[[], object]) -> None:
    """Start what waits for these keys, with ``start_waiting()``, until nothing does; ``lock`` is the holder's."""
    held: int | None = lock
    while held is not None:
        with change_notifications.ChangeListener(only=[KEYS_TOPIC]) as listener:
            while store.needs_keys(root, digest):
                os.utime(held)
                start_waiting()
                listener.wait(change_notifications.POLL_SECONDS)
        _place(root, digest).unlink(missing_ok=True)
        os.close(held)
        # An entry that was added just now found this holder.
        held = lock_key_holder(root, digest) if store.needs_keys(root, digest) else None


def _digest(names: Iterable[str], environment: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        value = environment.get(name)
        digest.update(repr((name, value)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _place(root: Path, digest: str) -> Path:
    return root / "queue" / "holders" / digest


@dataclass(frozen=True)
class Admission:
    """Whether an attempt of this process may begin."""

    pause: Pause | None = None
    """What is against it."""
    is_probe: bool = False
    """Whether it is the one attempt that shows whether a delegator works again."""


def admit_attempt(state: Path, delegator: Delegator, server: ModelServer | None) -> Admission:
    """Let an attempt of this process begin, unless a pause is against it."""
    me, now = identity.current(), time.time()
    with _changing(state, delegator, server) as by_kind:
        for kind, circuit in by_kind.items():
            if circuits.refuses(circuit, now=now, by=me, alive=identity.alive):
                return Admission(_pause(kind, circuit))
        for kind, circuit in by_kind.items():
            by_kind[kind] = circuits.admitted(circuit, me)
        return Admission(is_probe=any(circuit.state is CircuitState.HALF_OPEN for circuit in by_kind.values()))


def attempt_succeeded(state: Path, delegator: Delegator, server: ModelServer | None) -> None:
    """Close every circuit of a delegator, after an attempt finished or when the user asks for it."""
    if not _stored(state, delegator, server):
        return  # the usual case, which needs no lock
    with _changing(state, delegator, server) as by_kind:
        by_kind.clear()


def attempt_failed(
    state: Path, delegator: Delegator, server: ModelServer | None, error: ErrorInfo, bounds: PauseBounds
) -> Pause | None:
    """Record that an attempt of this process failed, or was stopped, with ``error``.

    Return the pause if this is the first one since the delegator last worked.
    """
    pause = None
    kind = class_of(error.kind) if error.kind not in _NOT_ITS_FAULT else None
    me, now = identity.current(), time.time()
    with _changing(state, delegator, server) as by_kind:
        for other in by_kind.keys() - {kind}:
            by_kind[other] = circuits.released(by_kind[other], me)
        if kind is not None:
            before = by_kind.get(kind, Circuit())
            by_kind[kind] = circuits.failed(
                before,
                kind,
                now=now,
                message=" ".join(error.message.split())[:_MOST_MESSAGE],
                bounds=bounds,
                retry_at=_epoch(error.retry_at),
                by=me,
            )
            if before.state is CircuitState.CLOSED and by_kind[kind].state is CircuitState.OPEN:
                pause = _pause(kind, by_kind[kind])
    return pause


def pauses(state: Path, delegator: Delegator, server: ModelServer | None) -> list[Pause]:
    """Return the circuits of a delegator that would refuse an attempt of another process now."""
    by_kind, now = _stored(state, delegator, server), time.time()
    return [
        _pause(kind, circuit)
        for kind, circuit in sorted(by_kind.items())
        if circuits.refuses(circuit, now=now, by=_NO_PROCESS, alive=identity.alive)
    ]


def end_of_first_pause(state: Path, candidates: Iterable[SpecCandidate]) -> str | None:
    """Return when the first of ``candidates`` may be tried again; None if one of them may be tried now."""
    ends = [
        max((pause.until for pause in pauses(state, candidate.delegator, candidate.model_server)), default=None)
        for candidate in candidates
    ]
    return min((end for end in ends if end is not None), default=None) if None not in ends else None


def described(pause: Pause) -> str:
    """Return until when a delegator is paused and why, to follow “paused”."""
    until = "while it is tried again" if pause.state is CircuitState.HALF_OPEN else f"until {pause.until}"
    times = "once" if pause.failures == 1 else f"{pause.failures} times"
    return f"{until} ({pause.failure.replace('_', ' ')}, {times}): {pause.message}"


def _owners(delegator: Delegator, server: ModelServer | None) -> tuple[str, str]:
    """Return under which names failures of a delegator are stored, and those of its account.

    Delegators that are started alike, or with the same key, share an account, whatever their models. ``account`` tells
    two logins apart, and says that others are the same.
    """
    command = delegator.launch.command if delegator.launch is not None else None
    at = None if server is None else [server.base_url, server.api_key, server.headers]
    parts: list[Any] = [delegator.tool, delegator.mode, command, delegator.env, at]
    if delegator.account is not None:
        login: list[Any] = [delegator.tool, server.base_url if server is not None else None, delegator.account]
    else:
        login = [delegator.tool, command, delegator.env if delegator.tool is not None else None, at]
    return f"{delegator.name}/{_short_digest(parts)}", f"account/{_short_digest(login)}"


def _short_digest(parts: list[Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]


def _stored(state: Path, delegator: Delegator, server: ModelServer | None) -> _ByClass:
    parts = [_decoded(store.circuits(state, owner)) for owner in _owners(delegator, server)]
    return {**parts[0], **parts[1]}


@contextlib.contextmanager
def _changing(state: Path, delegator: Delegator, server: ModelServer | None) -> Iterator[_ByClass]:
    """Yield the circuits to change; no other process changes them meanwhile."""
    with store.circuits_to_change(state, _owners(delegator, server)) as (of_delegator, of_account):
        by_kind = {**_decoded(of_delegator.content), **_decoded(of_account.content)}
        yield by_kind
        for kept, is_account in ((of_delegator, False), (of_account, True)):
            part = {kind: circuit for kind, circuit in by_kind.items() if (kind in _OF_ACCOUNT) is is_account}
            kept.content = msgspec.json.encode(part) if part else None


def _decoded(content: bytes | None) -> _ByClass:
    """Return the circuits that are stored; none if they are of another version."""
    try:
        by_kind: _ByClass = msgspec.json.decode(content or b"{}", type=ready(_ByClass))
    except msgspec.MsgspecError:
        return {}
    return by_kind


def _pause(kind: FailureClass, circuit: Circuit) -> Pause:
    return Pause(
        failure=kind,
        state=circuit.state,
        failures=circuit.failures,
        until=retry_time(circuit.until) or "",
        message=circuit.message,
    )


def _epoch(moment: str | None) -> float | None:
    if moment is None:
        return None
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()


class Blocked(Exception):  # noqa: N818 - an outcome, not a mistake
    """A task can never start: ``verdict`` and ``error`` are its end."""

    def __init__(self, verdict: Verdict, error: ErrorInfo) -> None:
        """Store the end."""
        super().__init__(error.message)
        self.verdict = verdict
        self.error = error


def resolve_after(names: Sequence[str | None], after: Sequence[Sequence[str] | None]) -> list[list[int]]:
    """Return, for each task of a group, the numbers of the tasks that it comes after.

    ``names`` has the name of each task, ``after`` the names that each waits for. Raises ``invalid_params``, with
    ``tasks[N]…`` as its parameter, for a name that is used twice or unknown, and for tasks that wait for each other.
    """
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        if name is None:
            continue
        if not name.strip() or name in numbers:
            message = f"Two tasks have the name {name[:64]!r}." if name in numbers else "The name of a task is empty."
            raise _refused(number, "name", message, "Give each task its own name.")
        numbers[name] = number
    predecessors: list[list[int]] = []
    for number, wished in enumerate(after):
        for name in wished or ():
            if name not in numbers:
                hint = findings.near(name, numbers) or 'Give the other task a name: name = "…".'
                raise _refused(number, "after", f"There is no task {name[:64]!r}.", hint)
        predecessors.append(sorted({numbers[name] for name in wished or ()}))
    _refuse_cycles(names, predecessors)
    return predecessors


def submission_order(after: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers of tasks so that each follows those that it comes after, else in the order of the file.

    ``after`` is what ``resolve_after`` returned.
    """
    left, order = list(range(len(after))), list[int]()
    while left:
        following = next(number for number in left if set(after[number]).isdisjoint(left))
        left.remove(following)
        order.append(following)
    return order


_MOMENT = "at "
"""What a delegation awaits that may not start before a moment: this, and the moment."""


def awaits_something(spec: Spec) -> bool:
    """Return whether a delegation may have to wait for more than a slot."""
    return bool(spec.after or spec.start_at)


def next_moment(root: Path) -> float | None:
    """Return the first moment that something in the queue waits for, in seconds since the epoch."""
    moments = [_epoch(other.removeprefix(_MOMENT)) for other in store.awaited(root) if other.startswith(_MOMENT)]
    return min((moment for moment in moments if moment is not None), default=None)


def unended_predecessors(spec: Spec) -> list[str]:
    """Return what this task waits for: its moment, and those that it comes after and that have not ended.

    Raises ``Blocked`` if one of these did not succeed.
    """
    running: list[str] = []
    if spec.start_at is not None and not _has_come(spec.start_at):
        running.append(_MOMENT + spec.start_at)
    for identifier in spec.after:
        try:
            ended = _current(identifier)
        except UnderstudyError as error:
            if _may_pass(error):
                running.append(identifier)
                continue
            how = "was removed" if error.kind is ErrorKind.UNKNOWN_DELEGATION else "cannot be read"
            raise Blocked(Verdict.FAILED, _failed(identifier, how)) from None
        if ended.verdict is None or not _is_over(ended):
            running.append(identifier)
        elif ended.verdict not in SUCCEEDED:
            verdict = Verdict.CANCELLED if ended.verdict is Verdict.CANCELLED else Verdict.FAILED
            how = f"ended as “{ended.verdict.replace('_', ' ')}” ({meaning(ended.verdict, ended.error)})"
            raise Blocked(verdict, _failed(f"{ended.title} ({identifier})", how))
    return running


def has_ended(identifier: str) -> bool:
    """Return whether a task has ended, in any way, or a moment has come: what waits for it must be looked at."""
    if identifier.startswith(_MOMENT):
        return _has_come(identifier.removeprefix(_MOMENT))
    try:
        return _is_over(_current(identifier))
    except UnderstudyError as error:
        return not _may_pass(error)


def _has_come(moment: str) -> bool:
    seconds = _epoch(moment)
    return seconds is None or seconds <= time.time()


def after_retries(spec: Spec) -> list[str]:
    """Return what a retry of ``spec`` comes after: the retries of its predecessors that have not finished.

    A predecessor that has finished is not waited for, even if it failed: who asks for a retry knows that.
    """
    if not spec.after or spec.group_id is None:
        return []
    retries: dict[str, str] = {}
    with suppress(UnderstudyError):  # the group was removed
        for member in groups.read(spec.group_id).delegations:
            with suppress(UnderstudyError):
                other = delegation_folder.read_spec(delegation_folder.open_folder(member))
                if other.origin is not None and other.origin.kind == "retry":
                    retries[other.origin.parent] = member  # the last one, which is the newest
    newest_tries: list[str] = []
    for identifier in spec.after:
        newest, seen = identifier, {identifier}
        while (again := retries.get(newest)) is not None and again not in seen:
            newest = again
            seen.add(again)
        with suppress(UnderstudyError):
            if _current(newest).state is not State.FINISHED:
                newest_tries.append(newest)
    return newest_tries


def _is_over(delegation: Delegation) -> bool:
    return delegation.state is State.FINISHED and delegation.verdict is not None


def _may_pass(error: UnderstudyError) -> bool:
    """Return whether a delegation cannot be read now, but perhaps later."""
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)


def _current(identifier: str) -> Delegation:
    """Return a delegation; first end it if its worker died."""
    folder = delegation_folder.open_folder(identifier)
    delegation = reader.load(folder)
    waits = delegation.state is State.PREPARING and store.contains(delegation_folder.state_root(), identifier)
    if delegation.state in STATES_WITH_WORKER and not waits and dead_workers.recover(folder):
        delegation = reader.load(folder)
    return delegation


def _refuse_cycles(names: Sequence[str | None], after: Sequence[Sequence[int]]) -> None:
    try:
        graphlib.TopologicalSorter(dict(enumerate(after))).prepare()
    except graphlib.CycleError as error:
        cycle = error.args[1][::-1]
        shown = " → ".join(repr((names[number] or "")[:64]) for number in cycle)
        message = f"Tasks wait for each other: {shown}."
        raise _refused(cycle[0], "after", message, "Remove one of these names from `after`.") from None


def _refused(number: int, field: str, message: str, hint: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.INVALID_PARAMS, message, hint=hint, parameter=f"tasks[{number}].{field}")


def _failed(which: str, how: str) -> ErrorInfo:
    return ErrorInfo(
        ErrorKind.DEPENDENCY_FAILED,
        f"It did not start, because it comes after {which}, which {how}.",
        "Retry that one; when it has succeeded, retry this one.",
    )
