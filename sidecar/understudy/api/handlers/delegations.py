"""Requests about delegations: start, list, wait, cancel, attach to their terminals, read files, check."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterator
from typing import cast

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.engine.queueing import launcher
from understudy.engine.running import supervision
from understudy.files import durable
from understudy.git import repository
from understudy.journal import change_notifications, delegation_folder, reader
from understudy.model.delegation import events as event_types
from understudy.model.delegation.delegations import Delegation, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.text import path_quoting
from understudy.model.wire import timestamp

EVENTS_AT_ONCE = 1000
EVENTS_WAIT_SECONDS = 60.0
WAIT_SECONDS = 3600.0
WAIT_AT_MOST_SECONDS = 86_400.0
PAGE = 100
PAGE_AT_MOST = 1000
PROMPT_BYTES = 1 << 20
"""The most of a prompt that is returned."""


def start(caller: Caller, params: StartParams) -> messages.StartResult:
    """Start a delegation; return at once, with the chosen delegator and the reason."""
    from understudy.engine.planning.plan import plan
    from understudy.engine.running import start as starting

    decided = plan(params, caller.documents(), caller.folder(), opened=caller.opened())
    identifier = starting.start_delegation(decided, timestamp(), caller.asked_by(), params.idempotency_key)
    return messages.StartResult(id=identifier, explain=decided.draft.explain)


def preview(caller: Caller, params: StartParams) -> messages.PreviewResult:
    """Return exactly what a start would send, without sending it."""
    from understudy.api.handlers import offers
    from understudy.engine.planning.plan import plan
    from understudy.engine.running import start as starting

    decided = plan(params, caller.documents(), caller.folder(), opened=caller.opened(), only_look=True)
    starting.wait_for_a_candidate(decided)
    prompt = decided.prompt()
    reads = any(
        offers.reads_prompts(candidate.delegator.tool) for candidate in decided.draft.candidates
    )  # also a fallback
    return messages.PreviewResult(
        prompt=prompt.shown if reads else "",
        files=[
            messages.PreviewFile(
                path=path_quoting.quote(os.fsencode(f.path)), bytes=f.size, tokens=f.tokens, withheld=f.withheld
            )
            for f in prompt.files
        ],
        tokens=prompt.tokens if reads else 0,
        explain=decided.draft.explain,
        lacks=decided.draft.lacks,
    )


def get(caller: Caller, params: messages.IdParams) -> Delegation:
    """Return the current state of one delegation.

    One whose worker died is ended first.
    """
    _ = caller
    return supervision.current(folder_of(params.id))


def page_limit(asked: int | None, *, default: int = PAGE, hint: str = "Use `cursor` to get more.") -> int:
    """Return how many entries a page has at most. Errors: ``invalid_params``."""
    limit = default if asked is None else asked
    if not 1 <= limit <= PAGE_AT_MOST:
        message = f"`limit` is {limit}, but must be 1 to {PAGE_AT_MOST}."
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, message, hint=hint, parameter="limit")
    return limit


def list_page(caller: Caller, params: messages.ListParams) -> messages.ListResult:
    """List delegations, newest first, page by page."""
    _ = caller
    limit = page_limit(params.limit)
    workspace = params.workspace
    if workspace is not None:
        workspace = str(repository.workspace_of([], workspace, None))
    items, cursor = reader.page(
        states=params.states,
        workspace=workspace,
        delegator=params.delegator,
        group=params.group_id,
        text=params.text,
        limit=limit,
        cursor=params.cursor,
    )
    fresh = []
    root = delegation_folder.delegations_root()
    for item in items:
        try:
            fresh.append(supervision.recover(item, delegation_folder.Folder(item.id, root / item.id)))
        except UnderstudyError:
            fresh.append(item)  # a full disk must not hide the list; the next reader tries again
    launcher.start_waiting(delegation_folder.state_root())
    return messages.ListResult(delegations=fresh, cursor=cursor)


def wait(caller: Caller, params: messages.WaitParams) -> Delegation:
    """Wait for the end of a delegation; a timeout is not an error: check `state`."""
    seconds = wait_seconds(params.timeout_seconds)
    folder = folder_of(params.id)

    def ended() -> bool:
        # A finished delegation whose lock is held is still in use, for example by checks that run again.
        return caller.cancelled() or supervision.has_ended(folder)

    with change_notifications.ChangeListener() as listener:
        change_notifications.wait_for(ended, listener, seconds)
    if caller.cancelled():
        raise UnderstudyError(
            ErrorKind.CANCELLED,
            f"Stopped waiting for {folder.id}; it is still running.",
            hint=f"Cancel it: understudy cancel {folder.id}",
        )
    return supervision.current(folder)


def wait_seconds(asked: float | None) -> float:
    """Return how long a request may wait, in seconds. Errors: ``invalid_params``."""
    seconds = WAIT_SECONDS if asked is None else asked
    if not 0 <= seconds <= WAIT_AT_MOST_SECONDS:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`timeoutSeconds` is {seconds:g}, but must be 0 to {WAIT_AT_MOST_SECONDS:g}.",
            hint="Call wait again to wait longer.",
        )
    return seconds


def events(caller: Caller, params: messages.EventsParams) -> messages.EventsResult:
    """Return events after a sequence number; may wait for the next one."""
    limit = EVENTS_AT_ONCE if params.limit is None else params.limit
    seconds = params.wait_seconds or 0.0
    if params.after < 0 or not 1 <= limit <= EVENTS_AT_ONCE or not 0 <= seconds <= EVENTS_WAIT_SECONDS:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`after` must be 0 or more, `limit` 1 to {EVENTS_AT_ONCE}, `waitSeconds` 0 to {EVENTS_WAIT_SECONDS:g}.",
            hint="Call again with the last `seq` as `after`.",
        )
    folder = folder_of(params.id)
    new_events = reader.read_events(folder, params.after, limit)
    if not new_events and seconds:

        def more() -> bool:
            supervision.current(folder, raise_problem=True)
            new_events.extend(reader.read_events(folder, params.after, limit))
            return bool(new_events) or caller.cancelled()

        with change_notifications.ChangeListener() as listener:
            change_notifications.wait_for(more, listener, seconds)
    return messages.EventsResult(
        events=cast("list[event_types.AnyEvent]", new_events), last=new_events[-1].seq if new_events else params.after
    )


def subscribe(caller: Caller, params: messages.SubscribeParams) -> messages.EmptyResult:
    """Start sending events: missed ones first, then live ones, each exactly once."""
    identifier = None if params.id is None else folder_of(params.id).id
    caller.follow(identifier, params.after)
    return messages.EmptyResult()


def unsubscribe(caller: Caller, params: messages.UnsubscribeParams) -> messages.EmptyResult:
    """Stop sending events."""
    caller.unfollow(None if params.id is None else folder_of(params.id).id)
    return messages.EmptyResult()


def cancel(caller: Caller, params: messages.CancelParams) -> Delegation:
    """Cancel a delegation within five seconds; its partial work is kept. Idempotent. A run cancels only its own.

    It has finished when this returns. With ``onlyChecks``, its agent must have ended: ``conflict``.
    """
    folder = folder_of(params.id)
    caller.refuse_inside_runs(f"Cancelling {folder.id}", except_in=_delegated_by(folder))
    return supervision.cancel(folder, by=caller.name, at=timestamp(), only_checks=params.only_checks)


def _delegated_by(folder: delegation_folder.Folder) -> Iterator[str]:
    """Yield the delegation whose agent asked for this one, the delegation above that one, and so on."""
    with contextlib.suppress(UnderstudyError):  # one of them was removed
        while (parent := delegation_folder.read_spec(folder).asked_by.parent) is not None:
            yield parent
            folder = folder_of(parent)


def file(caller: Caller, params: messages.FileParams) -> messages.FileResult:
    """Return one file of the base or of the result."""
    from understudy.engine.worktrees.worktree_record import load_record
    from understudy.git import diff as git_diff

    _ = caller
    folder = folder_of(params.id)
    record, objects = load_record(folder)
    commit = record.base_commit if params.side == "base" else head_of(supervision.current(folder))
    blob = git_diff.read_file(objects, commit, path_quoting.unquote(params.path))
    if blob is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{params.path} is not in the {params.side} of {folder.id}.",
            hint="Use a path as delegations/diff returns it.",
        )
    content, mode = blob
    with contextlib.suppress(UnicodeDecodeError):
        return messages.FileResult(text=content.decode("utf-8"), mode=mode)
    return messages.FileResult(base64=base64.b64encode(content).decode("ascii"), mode=mode)


def logs(caller: Caller, params: messages.IdParams) -> messages.LogsResult:
    """Return the prompt as it was sent, and the paths of the logs of the agent's program."""
    _ = caller
    folder = folder_of(params.id)
    prompt, omitted = None, 0
    with contextlib.suppress(FileNotFoundError):
        read = durable.read_whole(folder.prompt, PROMPT_BYTES)
        omitted = max(0, folder.prompt.stat().st_size - len(read))
        prompt = read.decode("utf-8", "replace")
    files = []
    for attempt, path in folder.logs():
        with contextlib.suppress(FileNotFoundError):
            if size := path.stat().st_size:
                files.append(messages.LogFile(attempt=attempt, path=str(path), bytes=size))
    return messages.LogsResult(prompt=prompt, prompt_omitted_bytes=omitted, files=files)


def check(caller: Caller, params: messages.IdParams) -> Delegation:
    """Run the checks of a result again and update its verdict."""
    from understudy.engine.follow_ups import follow_up

    return follow_up.recheck(folder_of(params.id), caller.cancelled, limit_seconds=WAIT_SECONDS)


def folder_of(identifier: str) -> delegation_folder.Folder:
    """Return the folder of a delegation, by its id or an unambiguous prefix of it."""
    return delegation_folder.open_folder(delegation_folder.resolve_id(identifier))


def head_of(delegation: Delegation) -> str:
    """Return the commit of the result. Errors: ``conflict``, ``base_unavailable``."""
    if delegation.head is not None:
        return delegation.head
    if delegation.state is not State.FINISHED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{delegation.id} has no result yet.",
            hint=f"Wait for it: understudy wait {delegation.id}",
        )
    if delegation.worktree is not None and delegation.result is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The partial work of {delegation.id} was not collected; its verdict is {delegation.verdict}.",
            hint=f"Run `understudy check {delegation.id}` to collect it; the worktree is {delegation.worktree}.",
        )
    raise UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"{delegation.id} has no changes; its verdict is {delegation.verdict}.",
        hint=f"Show it: understudy show {delegation.id}",
    )


def attach(caller: Caller, params: messages.AttachParams) -> messages.AttachResult:
    """Return the command that shows the terminal of an agent that runs in tmux."""
    _ = caller
    delegation = supervision.current(folder_of(params.id))
    if delegation.terminal is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The agent of {delegation.id} has no terminal: it has finished, or does not run in tmux.",
            hint=f"`understudy show {delegation.id}` shows how it is or ended.",
        )
    from understudy.config.discovery import installed_tools
    from understudy.process.terminals import tmux

    program = installed_tools.find_tmux()
    if program is None:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, "tmux was not found on PATH.", hint="Start this where tmux is on PATH."
        )
    if not tmux.exists(program, delegation.terminal):
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The pane of delegation {delegation.id} was closed.",
            hint=f"`understudy show {delegation.id}` tells how it ended.",
        )
    server, _, pane = (params.tmux or "").rpartition(" ")
    return messages.AttachResult(argv=tmux.attach_command(program, delegation.terminal, tmux.pane_of(server, pane)))
