"""Hold tasks of a group back until the tasks that they come after have succeeded.

No process is in charge of this: each process that serves the queue looks at what others await. What a task waits for is
in its specification, so a crash or a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from understudy.config import findings
from understudy.journal import delegation_folder, groups
from understudy.journal.summaries import summary
from understudy.journal.writing import dead_workers
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.states import STATES_WITH_WORKER, State
from understudy.model.text.delegation_text import meaning
from understudy.model.verdicts import Verdict
from understudy.store import store

SUCCEEDED = frozenset({Verdict.ANSWERED, Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.NO_CHANGES})
"""The verdicts after which a task that waited starts."""


class Blocked(Exception):  # noqa: N818 - an outcome, not a mistake
    """A task can never start: ``verdict`` and ``error`` are its end."""

    def __init__(self, verdict: Verdict, error: ErrorInfo) -> None:
        """Store the end."""
        super().__init__(error.message)
        self.verdict = verdict
        self.error = error


def resolve(names: Sequence[str | None], after: Sequence[Sequence[str] | None]) -> list[list[int]]:
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

    ``after`` is what ``resolve`` returned.
    """
    left, order = list(range(len(after))), list[int]()
    while left:
        following = next(number for number in left if set(after[number]).isdisjoint(left))
        left.remove(following)
        order.append(following)
    return order


def unended(spec: Spec) -> list[str]:
    """Return those that this task comes after and that have not ended; raise ``Blocked`` if one did not succeed."""
    running: list[str] = []
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
    """Return whether a task has ended, in any way, so that those that come after it must be looked at."""
    try:
        return _is_over(_current(identifier))
    except UnderstudyError as error:
        return not _may_pass(error)


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
    delegation = summary.load(folder)
    waits = delegation.state is State.PREPARING and store.contains(delegation_folder.state_root(), identifier)
    if delegation.state in STATES_WITH_WORKER and not waits and dead_workers.recover(folder):
        delegation = summary.load(folder)
    return delegation


def _refuse_cycles(names: Sequence[str | None], after: Sequence[Sequence[int]]) -> None:
    left = {number: set(others) for number, others in enumerate(after)}
    while free := [number for number, others in left.items() if not others]:
        for number in free:
            del left[number]
        for others in left.values():
            others.difference_update(free)
    if not left:
        return
    # Every task that is left waits for another one that is left, so this walk returns to a task.
    walk = [min(left)]
    while (following := min(left[walk[-1]])) not in walk:
        walk.append(following)
    cycle = walk[walk.index(following) :]
    shown = " → ".join(repr((names[number] or "")[:64]) for number in [*cycle, following])
    raise _refused(cycle[0], "after", f"Tasks wait for each other: {shown}.", "Remove one of these names from `after`.")


def _refused(number: int, field: str, message: str, hint: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.INVALID_PARAMS, message, hint=hint, parameter=f"tasks[{number}].{field}")


def _failed(which: str, how: str) -> ErrorInfo:
    return ErrorInfo(
        ErrorKind.DEPENDENCY_FAILED,
        f"It did not start, because it comes after {which}, which {how}.",
        "Retry that one; when it has succeeded, retry this one.",
    )
