"""Requests about groups (create, get, list, wait, cancel, compare) and about the queue (get, pause, move)."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator

import msgspec

from understudy.api import messages, review_messages
from understudy.api.caller import Caller
from understudy.api.handlers import delegations
from understudy.engine.queueing import launcher, start_conditions
from understudy.engine.running import supervision
from understudy.journal import delegation_folder, groups
from understudy.model.delegation.compared_results import ComparedResult
from understudy.model.delegation.delegations import Group
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.wire import camel, timestamp
from understudy.store import store

_LISTED = 20


def create(caller: Caller, params: messages.GroupCreateParams) -> Group:
    """Create an empty group of delegations."""
    return groups.create(params.kind, caller.asked_by(), timestamp())


def start(caller: Caller, params: messages.GroupStartParams) -> messages.GroupStartResult:
    """Start several tasks as one group, from one base and with one budget; return at once.

    None is started before all are found valid.
    """
    from understudy.engine.planning.plan import plan
    from understudy.engine.running import start

    start.require_budget(params.budget)
    if not 1 <= len(params.tasks) <= start.MAX_TASKS:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"A group is started with 1 to {start.MAX_TASKS} tasks, not {len(params.tasks)}.",
            hint="Start several groups.",
            parameter="tasks",
        )
    after = start_conditions.resolve_after([task.name for task in params.tasks], [task.after for task in params.tasks])
    documents, opened = dict(caller.documents()), caller.opened()
    plans = []
    for number, task in enumerate(params.tasks):
        with _naming(number):
            for name in ("group_id", "idempotency_key", "buffers", "work_done_token"):
                if getattr(task, name) is not None:
                    raise UnderstudyError(
                        ErrorKind.INVALID_PARAMS,
                        f"`{camel(name)}` belongs to a single start, not to a task of a group.",
                        hint="Leave it out; `buffers` may be given for the whole group.",
                        parameter=camel(name),
                    )
            asked = msgspec.structs.replace(task.single(), buffers=params.buffers)
            if params.kind == "compare" and task.fallback is None:
                asked.fallback = []  # each result is to be that of its own delegator
            decided = plan(asked, documents, caller.folder(), opened=opened)
            if decided.draft.in_checkout:
                raise UnderstudyError(
                    ErrorKind.INVALID_PARAMS,
                    f"{decided.draft.explain.delegator} works in your checkout, where one delegation works at a time.",
                    hint="Let it work in a worktree: `launch.useWorktree` = true.",
                    parameter="delegator",
                )
            plans.append(decided)
    group = start.start_group(
        plans,
        params.kind,
        timestamp(),
        caller.asked_by(),
        params.budget,
        key=params.idempotency_key,
        after=after,
    )
    return messages.GroupStartResult(group=group, explanations=[planned.draft.explain for planned in plans])


@contextlib.contextmanager
def _naming(number: int) -> Iterator[None]:
    """Name the task in an error about it; ``parameter`` begins with ``tasks[N]``."""
    try:
        yield
    except UnderstudyError as error:
        error.parameter = f"tasks[{number}]" + (f".{error.parameter}" if error.parameter else "")
        raise


def get(caller: Caller, params: messages.IdParams) -> Group:
    """Return a group with the IDs of its members."""
    return groups.read(params.id)


def list_newest(caller: Caller, params: messages.GroupListParams) -> messages.GroupListResult:
    """Return the newest groups, each with how many members are in which state."""
    overviews = []
    for group in groups.newest(delegations.page_limit(params.limit, default=_LISTED, hint="Name a smaller one.")):
        members = _result(group.id).delegations
        states = Counter(str(member.verdict or member.state) for member in members)
        title = members[0].title if members else None
        overviews.append(messages.GroupOverview(group=group, title=title, states=dict(states)))
    return messages.GroupListResult(groups=overviews)


def wait(caller: Caller, params: messages.GroupWaitParams) -> messages.GroupResult:
    """Wait for the end of every member; a timeout is not an error: check each `state`.

    Members that join meanwhile are waited for, too.
    """
    seconds = delegations.wait_seconds(params.timeout_seconds)
    deadline = time.monotonic() + seconds
    waited: set[str] = set()
    while left := [member for member in groups.read(params.id).delegations if member not in waited]:
        for member in left:
            waited.add(member)
            remaining = max(0.0, deadline - time.monotonic())
            with _skip_removed():
                delegations.wait(caller, messages.WaitParams(id=member, timeout_seconds=remaining))
        if time.monotonic() >= deadline:
            break
    return _result(params.id)


def cancel(caller: Caller, params: messages.IdParams) -> messages.GroupResult:
    """Cancel every unfinished member; its partial work is kept. Idempotent. A run cancels only what it delegated.

    Members that join meanwhile are cancelled, too; afterwards the first error that one caused is raised.
    """
    tried: set[str] = set()
    failure: UnderstudyError | None = None
    while left := [member for member in groups.read(params.id).delegations if member not in tried]:
        for member in left:
            tried.add(member)
            try:
                with _skip_removed():
                    delegations.cancel(caller, messages.CancelParams(id=member))
            except UnderstudyError as error:
                failure = failure or error
    if failure is not None:
        raise failure
    return _result(params.id)


def compare(caller: Caller, params: messages.IdParams) -> review_messages.CompareResult:
    """Return the results of a group side by side, hunk by hunk: where they agree, where they differ, what is accepted.

    Results that were sent back are left out; those that continue them are compared.
    """
    from understudy.engine.review import compare_results

    results: list[ComparedResult] = []
    comparable = []
    for delegation in _result(params.id).delegations:
        if delegation.superseded_by is not None:
            continue
        problem = None
        try:
            comparable.append(
                compare_results.read(delegations.folder_of(delegation.id), delegations.head_of(delegation))
            )
        except UnderstudyError as error:
            problem = error.message
        results.append(ComparedResult(delegation=delegation, compared=problem is None, problem=problem))
    return review_messages.CompareResult(results=results, files=compare_results.compare(comparable))


def _result(group: str) -> messages.GroupResult:
    members = []
    for member in groups.read(group).delegations:
        with _skip_removed():
            members.append(supervision.current(delegations.folder_of(member)))
    return messages.GroupResult(delegations=members)


@contextlib.contextmanager
def _skip_removed():  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    """Skip a member whose journal has expired."""
    try:
        yield
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNKNOWN_DELEGATION:
            raise


def get_queue(caller: Caller, params: messages.NoParams) -> messages.QueueResult:
    """Return the delegations that wait for a slot, in the order in which they start.

    Starts what can start.
    """
    root = delegation_folder.state_root()
    launcher.start_waiting(root)
    waiting = []
    for identifier in store.queued(root):
        with contextlib.suppress(UnderstudyError):  # it was removed meanwhile
            delegation = supervision.current(delegations.folder_of(identifier))
            if delegation.state is not State.FINISHED:
                waiting.append(delegation)
    return messages.QueueResult(paused=store.is_paused(root), delegations=waiting)


def pause(caller: Caller, params: messages.QueuePauseParams) -> messages.QueueResult:
    """Let nothing that waits start, or let it start again."""
    store.pause(delegation_folder.state_root(), paused=params.paused)
    return get_queue(caller, messages.NoParams())


def move(caller: Caller, params: messages.QueueMoveParams) -> messages.QueueResult:
    """Let a waiting delegation start earlier or later than others.

    Errors: ``conflict`` if it no longer waits.
    """
    root = delegation_folder.state_root()
    identifier = delegations.folder_of(params.id).id
    if params.position < 1:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`position` is {params.position}, but the first place is 1.",
            hint="Use 1 for the next to start.",
        )
    if not store.move(root, identifier, params.position):
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} does not wait for a slot.",
            hint="`understudy queue` shows what waits.",
        )
    return get_queue(caller, messages.NoParams())
