"""What a delegation is after its events: one pure fold, the file that caches it, and the list of many."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Callable, Collection
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from understudy.journal import disk, reader, store
from understudy.journal.store import Folder
from understudy.model import events
from understudy.model.delegations import (
    Attempt,
    Delegation,
    DelegationResult,
    PermissionRequest,
    Review,
    Usage,
    no_usage,
)
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.events import STATE_AFTER, Event
from understudy.model.spec import initial
from understudy.model.states import TRANSITIONS, State, Verdict
from understudy.model.wire import ready

MOST_ATTEMPTS = 1000
"""Attempts and checks kept in a summary: far above what policy allows, so only a damaged journal meets it."""
ACTIVITY_CHARACTERS = 160
DEFAULT_PAGE = 100
LARGEST_PAGE = 1000

_SUMMARY_LIMIT = 64 * 1024 * 1024

_LARGEST_COUNT = 2**53
"""What every reader of JSON can hold; only a damaged journal counts so far."""
_USAGE_FIELDS = Usage.__struct_fields__

_decoder = msgspec.json.Decoder(ready(Delegation))

_Change = dict[str, Any]


def fold(delegation: Delegation, event: Event) -> Delegation:
    """Return the delegation after ``event``; the one given is not changed. Never raises.

    A move that ``TRANSITIONS`` does not know leaves the state as it is; everything else of the event counts.
    """
    change: _Change = {"last_seq": event.seq}
    state = state_after(delegation.state, event)
    if state is not None and state is not delegation.state:
        change["state"] = state
        if delegation.state is State.FINISHED:
            # Judged again: until the new verdict is there, the old one does not hold.
            change.update(verdict=None, reservations=[], finished_at=None, error=None)
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(delegation, event, change)
    return msgspec.structs.replace(delegation, **change)


def state_after(state: State, event: Event) -> State | None:
    """Return the state after ``event``; None when the move is not legal."""
    target = STATE_AFTER.get(type(event))
    if target is None or target is state:
        return state
    return target if target in TRANSITIONS[state] else None


def load(folder: Folder) -> Delegation:
    """Return the delegation as its journal says: from ``summary.json``, brought up to date where it is behind.

    Raises ``store_unavailable`` when neither file allows an answer, ``unknown_delegation`` when all are gone.
    """
    delegation = _cached(folder)
    if delegation is not None and not (_agrees(folder, delegation.last_seq) and _ended_so(folder, delegation)):
        delegation = None
    if delegation is None:
        if not folder.path.is_dir():
            return _gone(folder)
        delegation = initial(store.read_spec(folder))
    tail = reader.Tail(folder, after=delegation.last_seq)
    while found := tail.read():
        for event in found:
            delegation = fold(delegation, event)
    return delegation


def peek(folder: Folder) -> Delegation:
    """Return what ``summary.json`` says, at most one second old while a worker lives; ``load`` where it is missing.

    That a delegation has ended, and how, is believed only of the journal.
    """
    delegation = _cached(folder)
    return delegation if delegation is not None and _ended_so(folder, delegation) else load(folder)


def save(folder: Folder, delegation: Delegation) -> None:
    """Replace ``summary.json``; only the holder of the lock may. Raises ``OSError``: it is a cache, decide there."""
    disk.replace(folder.summary, msgspec.json.encode(delegation))


def page(
    *,
    states: Collection[State] | None = None,
    workspace: str | None = None,
    delegator: str | None = None,
    text: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> tuple[list[Delegation], str | None]:
    """Return delegations, newest first, and the cursor of the next page (None: there is none).

    ``workspace`` is compared as it stands in the specification; ``delegator`` with the chosen one and with those of
    all attempts; ``text`` is looked for in id, title, recipe and result, without case. Summaries are read only
    until the page is full. A cursor names the last delegation looked at, so what starts between two pages
    neither shifts nor repeats anything. Folders that cannot be read are left out. ``invalid_params`` for
    a cursor that is none, or a limit below 1; a limit above ``LARGEST_PAGE`` counts as that.
    """
    wanted = DEFAULT_PAGE if limit is None else min(limit, LARGEST_PAGE)
    if wanted < 1:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"A limit of {limit} is no page.", hint="Give 1 or more.")
    below = None if cursor is None else _decode_cursor(cursor)
    needle = text.casefold() if text else None
    root = store.delegations_root()
    found: list[Delegation] = []
    names = store.ids()
    start = 0 if below is None else _first_below(names, below)
    for place in range(start, len(names)):
        folder = Folder(names[place], root / names[place])
        try:
            delegation = peek(folder)
        except (UnderstudyError, OSError):
            continue
        if not _fits(delegation, states, workspace, delegator, needle):
            continue
        found.append(delegation)
        if len(found) == wanted:
            more = place + 1 < len(names)
            return found, _encode_cursor(names[place]) if more else None
    return found, None


def _fits(
    delegation: Delegation,
    states: Collection[State] | None,
    workspace: str | None,
    delegator: str | None,
    needle: str | None,
) -> bool:
    if states and delegation.state not in states:
        return False
    if workspace is not None and delegation.workspace != workspace:
        return False
    if (
        delegator is not None
        and delegation.delegator != delegator
        and all(attempt.delegator != delegator for attempt in delegation.attempts)
    ):
        return False
    if needle is None:
        return True
    result = delegation.result
    texts = [delegation.id, delegation.title, delegation.recipe]
    if result is not None:
        texts += [result.summary or "", result.text or ""]
    return any(needle in candidate.casefold() for candidate in texts)


def _cached(folder: Folder) -> Delegation | None:
    try:
        # Plain calls: a page reads a hundred of these.
        descriptor = os.open(f"{folder.path}/summary.json", os.O_RDONLY | disk.OPEN_FLAGS)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size > _SUMMARY_LIMIT:
            return None
        delegation = _decoder.decode(os.read(descriptor, size + 1))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return delegation if delegation.id == folder.id and delegation.last_seq >= 0 else None


_END_BYTES = 32 * 1024
"""Where the last ``finished`` is looked for; one that lies further back is found by folding the journal."""


def _agrees(folder: Folder, seq: int) -> bool:
    """Tell whether the journal has at least ``seq`` lines; else the summary is of another journal."""
    return seq == 0 or reader.last_seq(folder) >= seq


def _ended_so(folder: Folder, delegation: Delegation) -> bool:
    """Tell whether the end that a summary tells of is the journal's last one; true for one that has not ended.

    ``summary.json`` is a cache that whoever runs as the user can write: an agent must not be able to say the verdict
    on itself. The end stands among the journal's last lines, before decisions.
    """
    if delegation.state is not State.FINISHED:
        return True
    try:
        descriptor = os.open(f"{folder.path}/events.jsonl", os.O_RDONLY | disk.OPEN_FLAGS)
    except OSError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _END_BYTES, max(0, size - _END_BYTES))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    for line in reversed(tail.split(b"\n")):
        if b'"finished"' in line:
            event = reader.decode(line, 0)
            if isinstance(event, events.Finished):
                return event.verdict == delegation.verdict and event.reservations == delegation.reservations
    return False


def _gone(folder: Folder) -> Delegation:
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATION,
        f"The folder of delegation {folder.id} is gone.",
        hint="`understudy list` shows the ids.",
    )


def _first_below(names: list[str], below: str) -> int:
    """Return the place of the first name, newest first, that is older than ``below``."""
    low, high = 0, len(names)
    while low < high:
        middle = (low + high) // 2
        if names[middle] < below:
            high = middle
        else:
            low = middle + 1
    return low


def _encode_cursor(last: str) -> str:
    return base64.urlsafe_b64encode(b"1:" + last.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> str:
    with contextlib.suppress(binascii.Error, UnicodeError, ValueError):
        plain = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        version, _, last = plain.partition(":")
        if version == "1" and store.is_id(last):
            return last
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        "The cursor is none that a list has returned.",
        hint="Leave it out to begin with the newest.",
    )


def _clip(text: str) -> str:
    line = " ".join(text[: ACTIVITY_CHARACTERS * 4].split())
    return line if len(line) <= ACTIVITY_CHARACTERS else line[: ACTIVITY_CHARACTERS - 1] + "…"


def _kind(name: str) -> ErrorKind:
    try:
        return ErrorKind(name)
    except ValueError:
        return ErrorKind.INTERNAL


def _change_attempt(delegation: Delegation, event: Event, change: _Change, **fields: Any) -> None:
    attempts: list[Attempt] = change.get("attempts", delegation.attempts)
    for place in range(len(attempts) - 1, -1, -1):
        if attempts[place].n == event.attempt:
            changed = msgspec.structs.replace(attempts[place], **fields)
            change["attempts"] = [*attempts[:place], changed, *attempts[place + 1 :]]
            return


def _money(amount: str | None) -> Decimal | None:
    if amount is None:
        return None
    try:
        number = Decimal(amount)
    except InvalidOperation:
        return None
    # A journal may hold anything; a sum with an exponent of a million digits is not for printing.
    return number if number.is_finite() and abs(number.adjusted()) < 30 and len(amount) <= 64 else None


def _count_costs(delegation: Delegation, change: _Change) -> None:
    attempts: list[Attempt] = change.get("attempts", delegation.attempts)
    costs = [_money(attempt.cost_usd) for attempt in attempts]
    known = [cost for cost in costs if cost is not None]
    change["cost_usd"] = format(sum(known, Decimal(0)), "f") if known else None
    change["cost_known"] = (
        bool(attempts) and len(known) == len(costs) and not any(attempt.cost_estimated for attempt in attempts)
    )


def _base(_: Delegation, event: events.Base, change: _Change) -> None:
    change["base"] = event.commit


def _worktree(_: Delegation, event: events.Worktree, change: _Change) -> None:
    change["worktree"] = event.path
    change["rescue_ref"] = None


def _queued(_: Delegation, event: events.Queued, change: _Change) -> None:
    change["activity"] = f"waiting for a slot, number {event.position}"


def _started(delegation: Delegation, event: events.Started, change: _Change) -> None:
    change["waiting_for"] = None
    change["activity"] = _clip(f"starting {event.delegator}")
    attempts = delegation.attempts
    if any(attempt.n == event.attempt for attempt in attempts):
        _change_attempt(
            delegation,
            event,
            change,
            delegator=event.delegator,
            tool=event.tool,
            model=event.model,
            finished_at=None,
            failure=None,
        )
    elif len(attempts) < MOST_ATTEMPTS:
        # An attempt that says nothing about its end has ended when the next one begins.
        earlier = [
            attempt if attempt.finished_at else msgspec.structs.replace(attempt, finished_at=event.at)
            for attempt in attempts
        ]
        last = attempts[-1].to if attempts and attempts[-1].to else delegation.base
        attempt = Attempt(
            n=event.attempt,
            delegator=event.delegator,
            tool=event.tool,
            model=event.model,
            started_at=event.at,
            from_=last or "",
            usage=no_usage(),
        )
        change["attempts"] = [*earlier, attempt]
    change["confined"] = event.confined and (delegation.confined or not attempts)
    _count_costs(delegation, change)


def _phase(_: Delegation, event: events.Phase, change: _Change) -> None:
    change["activity"] = _clip(event.text)


def _prompt(_: Delegation, __: events.Prompt, change: _Change) -> None:
    change["activity"] = "waiting for the first answer"


def _text(_: Delegation, __: Event, change: _Change) -> None:
    change["activity"] = "answering"


def _thinking(_: Delegation, __: Event, change: _Change) -> None:
    change["activity"] = "thinking"


def _tool_call(_: Delegation, event: events.ToolCall, change: _Change) -> None:
    change["activity"] = _clip(event.title or event.name)


def _file(_: Delegation, event: events.File, change: _Change) -> None:
    change["activity"] = _clip(f"{event.change} {event.path}")


def _usage(delegation: Delegation, event: events.UsageReport, change: _Change) -> None:
    usage = Usage(**{name: getattr(event, name) for name in _USAGE_FIELDS})
    cost = event.cost_usd if _money(event.cost_usd) is not None else None
    _change_attempt(delegation, event, change, usage=usage, cost_usd=cost, cost_estimated=event.estimated)
    attempts: list[Attempt] = change.get("attempts", delegation.attempts)
    if len(attempts) == 1:
        change["usage"] = attempts[0].usage
    else:
        change["usage"] = Usage(
            **{
                name: min(sum(getattr(attempt.usage, name) for attempt in attempts), _LARGEST_COUNT)
                for name in _USAGE_FIELDS
            }
        )
    _count_costs(delegation, change)


def _session(delegation: Delegation, event: events.Session, change: _Change) -> None:
    _change_attempt(delegation, event, change, session_id=event.session_id)


def _permission(_: Delegation, event: events.Permission, change: _Change) -> None:
    change["waiting_for"] = PermissionRequest(
        request_id=event.request_id,
        attempt=event.attempt,
        title=event.title,
        detail=event.detail,
        options=event.options,
        deadline=event.deadline,
        on_deadline=event.on_deadline,
    )
    change["activity"] = _clip(f"asks: {event.title}")


def _permission_answered(delegation: Delegation, event: events.PermissionAnswered, change: _Change) -> None:
    waiting = delegation.waiting_for
    if waiting is not None and waiting.request_id == event.request_id:
        change["waiting_for"] = None
    change["activity"] = _clip(f"answered by {event.by}")


def _attempt_failed(delegation: Delegation, event: events.AttemptFailed, change: _Change) -> None:
    failure = ErrorInfo(_kind(event.kind), event.message, event.hint)
    _change_attempt(delegation, event, change, failure=failure, finished_at=event.at)
    change["waiting_for"] = None
    change["activity"] = _clip(event.message)


def _checkpoint(delegation: Delegation, event: events.Checkpoint, change: _Change) -> None:
    _change_attempt(delegation, event, change, to=event.commit)
    change["head"] = event.commit


def _result(delegation: Delegation, event: events.Result, change: _Change) -> None:
    change["result"] = DelegationResult(text=event.text, summary=event.summary, files=event.files)
    change["review"] = Review(pending=max(0, event.hunks), accepted=0, rejected=0)
    fields: _Change = {"finished_at": event.at}
    if event.head is not None:
        change["head"] = event.head
        fields["to"] = event.head
    _change_attempt(delegation, event, change, **fields)


def _check_started(_: Delegation, event: events.CheckStarted, change: _Change) -> None:
    change["waiting_for"] = None
    change["activity"] = _clip(f"checking: {event.name}")


def _check_finished(delegation: Delegation, event: events.CheckFinished, change: _Change) -> None:
    result = event.check_result()
    checks = delegation.checks
    for place, earlier in enumerate(checks):
        if earlier.name == result.name:
            change["checks"] = [*checks[:place], result, *checks[place + 1 :]]
            break
    else:
        change["checks"] = [*checks, result][:MOST_ATTEMPTS]
    change["activity"] = _clip(f"checked: {event.name}, {'passed' if event.ok else 'failed'}")


def _note(_: Delegation, event: events.Note, change: _Change) -> None:
    change["activity"] = _clip(event.text)


def _finished(delegation: Delegation, event: events.Finished, change: _Change) -> None:
    change.update(
        verdict=event.verdict,
        reservations=event.reservations,
        error=event.error,
        finished_at=event.at,
        waiting_for=None,
        activity=None,
    )
    if any(attempt.finished_at is None for attempt in delegation.attempts):
        change["attempts"] = [
            attempt if attempt.finished_at else msgspec.structs.replace(attempt, finished_at=event.at)
            for attempt in delegation.attempts
        ]


_COUNTERS = {"pending": "pending", "accept": "accepted", "reject": "rejected"}


def _decided(delegation: Delegation, event: events.Decided, change: _Change) -> None:
    if event.decision == event.was:
        return
    review = delegation.review
    after = _COUNTERS[event.decision]
    counts = {after: getattr(review, after) + 1}
    if event.was != "superseded":  # those are not counted
        before = _COUNTERS[event.was]
        counts[before] = max(0, getattr(review, before) - 1)
    else:
        change["superseded_by"] = None
    change["review"] = msgspec.structs.replace(review, **counts)


def _amended(delegation: Delegation, event: events.Amended, change: _Change) -> None:
    change["head"] = event.head
    if event.review is not None:
        change["review"] = event.review
    if delegation.verdict in {Verdict.VERIFIED, Verdict.CHECKS_FAILED}:
        # The checks judged another tree.
        change["verdict"] = Verdict.UNVERIFIED


def _discarded(_: Delegation, event: events.Discarded, change: _Change) -> None:
    change["worktree"] = None
    change["rescue_ref"] = event.rescue_ref


def _superseded(delegation: Delegation, event: events.Superseded, change: _Change) -> None:
    change["superseded_by"] = event.by
    change["review"] = msgspec.structs.replace(delegation.review, pending=0)


_HANDLERS: dict[type[Event], Callable[[Delegation, Any, _Change], None]] = {
    events.Base: _base,
    events.Worktree: _worktree,
    events.Queued: _queued,
    events.Started: _started,
    events.Phase: _phase,
    events.Prompt: _prompt,
    events.Text: _text,
    events.Thinking: _thinking,
    events.ToolCall: _tool_call,
    events.File: _file,
    events.UsageReport: _usage,
    events.Session: _session,
    events.Permission: _permission,
    events.PermissionAnswered: _permission_answered,
    events.AttemptFailed: _attempt_failed,
    events.Checkpoint: _checkpoint,
    events.Result: _result,
    events.CheckStarted: _check_started,
    events.CheckFinished: _check_finished,
    events.Note: _note,
    events.Finished: _finished,
    events.Decided: _decided,
    events.Amended: _amended,
    events.Discarded: _discarded,
    events.Superseded: _superseded,
}
"""Not listed: ``tool_result, plan`` (too much for a line), ``applied, undone`` (``decided`` counts), ``unknown``."""
