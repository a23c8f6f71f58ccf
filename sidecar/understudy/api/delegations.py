"""Requests about delegations: start, look, wait, stop, read the result."""

from __future__ import annotations

import base64
import contextlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from understudy.api import messages as m
from understudy.api.caller import Caller
from understudy.engine import leases, queue
from understudy.git import diff as git_diff
from understudy.git import names
from understudy.journal import bell as bells
from understudy.journal import control, locks, reader, recover, store, summary
from understudy.model import events as event_types
from understudy.model.delegations import Delegation, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import NEEDS_HOLDER, State, Verdict

CANCEL_SECONDS = 4.0
"""A cancel that the worker has not taken by then is carried out from here."""
LEAVING_SECONDS = 3.0
EVENTS_AT_ONCE = 1000
EVENTS_WAIT_SECONDS = 60.0
WAIT_SECONDS = 3600.0
WAIT_AT_MOST_SECONDS = 86_400.0
PAGE = 100
PAGE_AT_MOST = 1000


def start(caller: Caller, params: StartParams) -> m.StartResult:
    """Start a delegation; it is under way when this returns."""
    from understudy.engine import start as starting  # noqa: PLC0415 - reading commands do not need the engine
    from understudy.engine.resolve import plan  # noqa: PLC0415

    decided = plan(params, caller.documents(), caller.folder())
    identifier = starting.begin(decided, _now(), params.idempotency_key)
    return m.StartResult(id=identifier, explain=decided.explain)


def preview(caller: Caller, params: StartParams) -> m.PreviewResult:
    """Build exactly what a start would send, and send nothing."""
    from understudy.engine.resolve import plan  # noqa: PLC0415 - as above

    decided = plan(params, caller.documents(), caller.folder(), only_look=True)
    prompt = decided.prompt()
    return m.PreviewResult(
        prompt=prompt.shown,
        files=[
            m.PreviewFile(path=names.quote(os.fsencode(f.path)), bytes=f.size, tokens=f.tokens, withheld=f.withheld)
            for f in prompt.files
        ],
        tokens=prompt.tokens,
        explain=decided.explain,
    )


def get(caller: Caller, params: m.IdParams) -> Delegation:
    """Return a delegation as it stands now; one whose worker died is ended first."""
    _ = caller
    return _current(_folder(params.id))


def list_page(caller: Caller, params: m.ListParams) -> m.ListResult:
    """Return a page, newest first."""
    _ = caller
    limit = PAGE if params.limit is None else params.limit
    if not 1 <= limit <= PAGE_AT_MOST:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`limit` is {limit}; it must be 1 to {PAGE_AT_MOST}.",
            hint="Use `cursor` for more.",
        )
    workspace = params.workspace
    if workspace is not None:
        from understudy.engine import places  # noqa: PLC0415 - only when a list is narrowed to a workspace

        workspace = str(places.workspace_of([], workspace, None))
    found, cursor = summary.page(
        states=params.states,
        workspace=workspace,
        delegator=params.delegator,
        text=params.text,
        limit=limit,
        cursor=params.cursor,
    )
    fresh = []
    for item in found:
        try:
            fresh.append(_attended(item))
        except UnderstudyError:
            fresh.append(item)  # a full disk must not hide the list; whoever looks next tries again
    queue.start_next(store.state_root())
    return m.ListResult(delegations=fresh, cursor=cursor)


def wait(caller: Caller, params: m.WaitParams) -> Delegation:
    """Wait for the end of a delegation, or until the limit."""
    seconds = WAIT_SECONDS if params.timeout_seconds is None else params.timeout_seconds
    if not 0 <= seconds <= WAIT_AT_MOST_SECONDS:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`timeoutSeconds` is {seconds:g}; it must be 0 to {WAIT_AT_MOST_SECONDS:g}.",
            hint="Call wait again for more.",
        )
    folder = _folder(params.id)

    def ended() -> bool:
        # While its worker holds the lock, an end was written by somebody else.
        return caller.cancelled() or (_current(folder).state is State.FINISHED and not locks.is_held(folder))

    with bells.Bell() as bell:
        bells.wait_for(ended, bell, seconds)
    if caller.cancelled():
        raise UnderstudyError(ErrorKind.CANCELLED, f"Waiting for {folder.id} was withdrawn.", hint="It goes on.")
    return _current(folder)


def events(caller: Caller, params: m.EventsParams) -> m.EventsResult:
    """Return events after a sequence number, waiting for the next one if asked to."""
    limit = EVENTS_AT_ONCE if params.limit is None else params.limit
    seconds = params.wait_seconds or 0.0
    if params.after < 0 or not 1 <= limit <= EVENTS_AT_ONCE or not 0 <= seconds <= EVENTS_WAIT_SECONDS:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`after` must be 0 or more, `limit` 1 to {EVENTS_AT_ONCE}, `waitSeconds` 0 to {EVENTS_WAIT_SECONDS:g}.",
            hint="Call again with the last `seq` as `after`.",
        )
    folder = _folder(params.id)
    found = reader.read_events(folder, params.after, limit)
    if not found and seconds:

        def more() -> bool:
            _current(folder)
            found.extend(reader.read_events(folder, params.after, limit))
            return bool(found) or caller.cancelled()

        with bells.Bell() as bell:
            bells.wait_for(more, bell, seconds)
    return m.EventsResult(
        events=cast("list[event_types.AnyEvent]", found), last=found[-1].seq if found else params.after
    )


def subscribe(caller: Caller, params: m.SubscribeParams) -> m.Done:
    """Follow one delegation or all of them."""
    identifier = None if params.id is None else _folder(params.id).id
    caller.follow(identifier, params.after)
    return m.Done()


def unsubscribe(caller: Caller, params: m.UnsubscribeParams) -> m.Done:
    """Stop following."""
    caller.unfollow(None if params.id is None else _folder(params.id).id)
    return m.Done()


def cancel(caller: Caller, params: m.IdParams) -> Delegation:
    """Stop a delegation; it has an end when this returns."""
    folder = _folder(params.id)
    if _current(folder).state is State.FINISHED and not locks.is_held(folder):
        return _current(folder)
    control.append_control(folder, control.Cancel(by=caller.name, at=_now()))
    with bells.Bell() as bell:
        bells.wait_for(lambda: _ended_or_queued(folder), bell, CANCEL_SECONDS)
    if summary.load(folder).state is not State.FINISHED or locks.is_held(folder):
        recover.end_and_finish(folder, Verdict.CANCELLED)
    queue.unmark(store.state_root(), folder.id)
    queue.start_next(store.state_root())
    return summary.load(folder)


def file(caller: Caller, params: m.FileParams) -> m.FileResult:
    """Return one file of the base or of the result."""
    from understudy.engine import ground  # noqa: PLC0415 - as above

    _ = caller
    folder = _folder(params.id)
    record, objects = ground.load(folder)
    commit = record.base_commit if params.side == "base" else _head(_current(folder))
    found = git_diff.read_file(objects, commit, names.unquote(params.path))
    if found is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{params.path} is not in the {params.side} of {folder.id}.",
            hint="delegations/diff lists the files, spelled as they must be here.",
        )
    content, mode = found
    with contextlib.suppress(UnicodeDecodeError):
        return m.FileResult(text=content.decode("utf-8"), mode=mode)
    return m.FileResult(base64=base64.b64encode(content).decode("ascii"), mode=mode)


def check(caller: Caller, params: m.IdParams) -> Delegation:
    """Run the checks again in a worker of their own, and return the delegation with its new verdict."""
    from understudy.config import trust  # noqa: PLC0415 - as above
    from understudy.engine import ground  # noqa: PLC0415
    from understudy.engine import start as starting  # noqa: PLC0415

    folder = _folder(params.id)
    before = _current(folder)
    if before.state is not State.FINISHED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{folder.id} is {before.state}; its checks run at its end anyway.",
            hint="Wait for it: understudy wait " + folder.id,
        )
    ground.load(folder)
    workspace = Path(before.workspace)
    if not trust.status(workspace, store.state_root()).trusted:
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{workspace} is not trusted, so no check may run.",
            hint=f"Look at what it allows: understudy trust {workspace}",
        )
    lock = _lock_soon(folder)
    if lock is None:
        raise UnderstudyError(
            ErrorKind.CONFLICT, f"Somebody else is at work on {folder.id}.", hint="Try again when it has finished."
        )
    try:
        starting.spawn_worker(folder, lock, only_check=True)
    finally:
        os.close(lock)

    # The lock went from here to the worker, so a free one means that the worker is gone.
    with bells.Bell() as bell:
        done = bells.wait_for(lambda: caller.cancelled() or not locks.is_held(folder), bell, WAIT_SECONDS)
    if caller.cancelled():
        raise UnderstudyError(ErrorKind.CANCELLED, f"Waiting for {folder.id} was withdrawn.", hint="It goes on.")
    if not done:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT, f"The checks of {folder.id} still run.", hint="understudy watch " + folder.id
        )
    after = _current(folder)
    if after.last_seq == before.last_seq:
        raise UnderstudyError(
            ErrorKind.INTERRUPTED,
            f"The worker that was to check {folder.id} ended before it began.",
            hint=f"What it said is in {folder.path / 'worker.log'}.",
        )
    return after


def _folder(identifier: str) -> store.Folder:
    return store.open_folder(store.resolve_id(identifier))


def _current(folder: store.Folder) -> Delegation:
    """Return the delegation, after ending it if its worker died, or starting it if its turn has come."""
    found = summary.load(folder)
    if found.state is State.QUEUED:
        queue.start_next(store.state_root())
    return _attended(found, folder)


def _attended(found: Delegation, folder: store.Folder | None = None) -> Delegation:
    folder = folder or store.Folder(found.id, store.delegations_root() / found.id)
    if ((folder.path / "decide.json").exists() or _waits_in_vain(found)) and not locks.is_held(folder):
        from understudy.engine import settling  # noqa: PLC0415 - a decision whose process died: rare

        if settling.attend(folder):
            found = summary.load(folder)
    if found.state not in NEEDS_HOLDER:
        return found
    if locks.is_held(folder):
        return found
    if recover.recover(folder):
        queue.start_next(store.state_root())
    return summary.load(folder)


def _waits_in_vain(found: Delegation) -> bool:
    """Tell whether the follow-up that was to have its tree came to nothing: a look at one small file."""
    if found.worktree is None or found.state is not State.FINISHED or found.review.pending:
        return False
    return leases.lapsed(Path(found.worktree).parent, found.id)


def _lock_soon(folder: store.Folder) -> int | None:
    """Take the lock; a worker that has just finished lets go of it within a moment."""
    deadline = time.monotonic() + LEAVING_SECONDS
    while (lock := locks.try_lock(folder)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return lock


def _ended_or_queued(folder: store.Folder) -> bool:
    """Tell whether the end is written; for a delegation in the queue, which has no worker, write it here."""
    found = _current(folder)
    if found.state is State.QUEUED and not locks.is_held(folder):
        recover.end_and_finish(folder, Verdict.CANCELLED)
        return True
    return found.state is State.FINISHED and not locks.is_held(folder)


def _head(delegation: Delegation) -> str:
    if delegation.head is not None:
        return delegation.head
    if delegation.state is not State.FINISHED:
        raise UnderstudyError(
            ErrorKind.CONFLICT, f"{delegation.id} has no result to show yet.", hint=f"understudy wait {delegation.id}"
        )
    if delegation.worktree is not None and delegation.result is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"What {delegation.id} left in its tree was not collected; it ended {delegation.verdict}.",
            hint=f"`understudy check {delegation.id}` collects it; the tree is {delegation.worktree}.",
        )
    raise UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"{delegation.id} has no changes to show; it ended {delegation.verdict}.",
        hint=f"understudy show {delegation.id}",
    )


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
