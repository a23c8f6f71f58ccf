"""Apply an event to a delegation: a pure function, so that all readers of a journal get the same delegation."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from understudy.model.confinement import Sandbox
from understudy.model.delegation import events
from understudy.model.delegation.delegations import (
    Attempt,
    Delegation,
    DelegationResult,
    PermissionRequest,
    SentMessage,
    Usage,
    no_usage,
)
from understudy.model.delegation.events import STATE_AFTER, Event
from understudy.model.evidence.checks import Round
from understudy.model.hunks import Review
from understudy.model.places import merged
from understudy.model.states import TRANSITIONS, State
from understudy.model.verdicts import Reservation, Verdict

MOST_ATTEMPTS = 1000
"""The most attempts and checks in a summary: far above what policy allows, so only a damaged journal exceeds it."""
ACTIVITY_CHARACTERS = 160
_LARGEST_COUNT = 2**53
"""The largest integer that every JSON reader can hold; only a damaged journal exceeds it."""
_USAGE_FIELDS = Usage.__struct_fields__
_Change = dict[str, Any]


def fold(delegation: Delegation, event: Event) -> Delegation:
    """Return the delegation after ``event``; the one given is not changed. Never raises.

    A transition that ``TRANSITIONS`` does not list leaves the state unchanged; the rest of the event is applied.
    """
    change: _Change = {"last_seq": event.seq}
    state = state_after(delegation.state, event)
    if state is not None and state is not delegation.state:
        change["state"] = state
        if delegation.state is State.FINISHED:
            # The checks run again: the old verdict is invalid until there is a new one.
            change.update(verdict=None, reservations=[], reservation_facts=[], places=[], finished_at=None, error=None)
            change["rechecked_at"] = event.at
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(delegation, event, change)
    if "activity" in change:
        change.setdefault("count", None)
    return msgspec.structs.replace(delegation, **change)


def state_after(state: State, event: Event) -> State | None:
    """Return the state after ``event``; None when the transition is illegal."""
    target = STATE_AFTER.get(type(event))
    if target is None or target is state:
        return state
    return target if target in TRANSITIONS[state] else None


def _clip(text: str) -> str:
    line = " ".join(text[: ACTIVITY_CHARACTERS * 4].split())
    return line if len(line) <= ACTIVITY_CHARACTERS else line[: ACTIVITY_CHARACTERS - 1] + "…"


def _change_attempt(delegation: Delegation, event: Event, change: _Change, **fields: Any) -> None:
    attempts: list[Attempt] = change.get("attempts", delegation.attempts)
    for place in range(len(attempts) - 1, -1, -1):
        if attempts[place].number == event.attempt:
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
    # A damaged journal may contain anything; never format a sum with a huge exponent.
    return number if number.is_finite() and abs(number.adjusted()) < 30 and len(amount) <= 64 else None


def _count_costs(delegation: Delegation, change: _Change) -> None:
    attempts: list[Attempt] = change.get("attempts", delegation.attempts)
    costs = [_money(attempt.cost_usd) for attempt in attempts]
    amounts = [cost for cost in costs if cost is not None]
    change["cost_usd"] = format(sum(amounts, Decimal(0)), "f") if amounts else None
    change["cost_known"] = (
        bool(attempts) and len(amounts) == len(costs) and not any(attempt.cost_estimated for attempt in attempts)
    )


def _base(_: Delegation, event: events.Base, change: _Change) -> None:
    change["base"] = event.commit


def _worktree(_: Delegation, event: events.Worktree, change: _Change) -> None:
    change["worktree"] = event.path
    change["rescue_ref"] = None


def _queued(_: Delegation, event: events.Queued, change: _Change) -> None:
    change["activity"] = f"number {event.position} in the queue"


def _started(delegation: Delegation, event: events.Started, change: _Change) -> None:
    change["waiting_for"] = None
    change["terminal"] = None
    change["activity"] = _clip(f"starting {event.delegator}")
    attempts = delegation.attempts
    if any(attempt.number == event.attempt for attempt in attempts):
        _change_attempt(
            delegation,
            event,
            change,
            delegator=event.delegator,
            tool=event.tool,
            model_server=event.model_server,
            model=event.model,
            reason=event.reason,
            finished_at=None,
            failure=None,
        )
    elif len(attempts) < MOST_ATTEMPTS:
        # An attempt without an event for its end has ended when the next one begins.
        earlier = [
            attempt if attempt.finished_at else msgspec.structs.replace(attempt, finished_at=event.at)
            for attempt in attempts
        ]
        last = attempts[-1].end_commit if attempts and attempts[-1].end_commit else delegation.base
        attempt = Attempt(
            number=event.attempt,
            delegator=event.delegator,
            tool=event.tool,
            model_server=event.model_server,
            model=event.model,
            reason=event.reason,
            started_at=event.at,
            start_commit=event.commit or last or "",
            usage=no_usage(),
        )
        change["attempts"] = [*earlier, attempt]
        moved = event.commit is not None and delegation.head is not None and event.commit != delegation.head
        if moved and delegation.result is None:
            change["head"] = None  # a fresh worktree: what the earlier attempt changed is not part of this one
    _count_costs(delegation, change)


def _agent_started(delegation: Delegation, event: events.AgentStarted, change: _Change) -> None:
    sandbox, earlier = event.sandbox, delegation.sandbox
    if earlier is not None:
        sandbox = Sandbox(earlier.asked.weaker(sandbox.asked), earlier.reached.weaker(sandbox.reached))
    change["sandbox"] = sandbox
    change["confined"] = sandbox.reached.restricts_access
    change["terminal"] = event.terminal
    if event.terminal is not None:
        change["activity"] = "working in a terminal"


def _phase(_: Delegation, event: events.Phase, change: _Change) -> None:
    change["activity"] = _clip(event.text)
    change["count"] = event.count


def _prompt(_: Delegation, __: events.Prompt, change: _Change) -> None:
    change["activity"] = "waiting for the first answer"


def _text(delegation: Delegation, event: events.Text, change: _Change) -> None:
    change["activity"] = "answering"
    if delegation.attempts and delegation.attempts[-1].tool == events.CUSTOM_COMMAND:
        # What a command of the user prints is the only sign of its progress.
        lines = (_clip(line) for line in reversed(event.text.split("\n")))
        change["activity"] = next(filter(None, lines), "answering")


def _thinking(_: Delegation, __: Event, change: _Change) -> None:
    change["activity"] = "thinking"


def _tool_call(_: Delegation, event: events.ToolCall, change: _Change) -> None:
    change["activity"] = _clip(event.title or event.name)


def _file(_: Delegation, event: events.File, change: _Change) -> None:
    change["activity"] = _clip(f"{event.change} {event.path}")


def _usage(delegation: Delegation, event: events.UsageReport, change: _Change) -> None:
    usage = Usage(**{name: getattr(event, name) for name in _USAGE_FIELDS})
    cost = event.cost_usd if _money(event.cost_usd) is not None else None
    source = "unknown" if cost is None else event.cost_source or "reported"
    _change_attempt(
        delegation,
        event,
        change,
        usage=usage,
        cost_usd=cost,
        cost_source=source,
        price_date=None if cost is None else event.price_date,
        cost_estimated=event.estimated,
    )
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
    names = PermissionRequest.__struct_fields__
    change["waiting_for"] = PermissionRequest(**{name: getattr(event, name) for name in names})
    change["activity"] = _clip(f"asks: {event.title}")


def _permission_answered(delegation: Delegation, event: events.PermissionAnswered, change: _Change) -> None:
    waiting = delegation.waiting_for
    if waiting is not None and waiting.request_id == event.request_id:
        change["waiting_for"] = None
    change["activity"] = "no one answered in time" if event.by == "deadline" else _clip(f"answered by {event.by}")


def _user_message(delegation: Delegation, event: events.UserMessage, change: _Change) -> None:
    message = SentMessage(id=event.message_id, text=_clip(event.text), by=event.by, delivery=event.delivery)
    change["messages"] = [*delegation.messages, message][:MOST_ATTEMPTS]


def _message_delivered(delegation: Delegation, event: events.MessageDelivered, change: _Change) -> None:
    change["messages"] = [
        msgspec.structs.replace(message, delivered=True) if message.id == event.message_id else message
        for message in delegation.messages
    ]


def _grouped(_: Delegation, event: events.Grouped, change: _Change) -> None:
    change["group_id"] = event.group_id


def _attempt_failed(delegation: Delegation, event: events.AttemptFailed, change: _Change) -> None:
    _change_attempt(delegation, event, change, failure=event.error, finished_at=event.at)
    change["terminal"] = None
    change["waiting_for"] = None
    change["activity"] = _clip(event.error.message)


def _checkpoint(delegation: Delegation, event: events.Checkpoint, change: _Change) -> None:
    files = {"files": event.files} if event.files else {}
    _change_attempt(delegation, event, change, end_commit=event.commit, rescue_ref=event.rescue_ref, **files)
    change["head"] = event.commit
    change["terminal"] = None


def _result(delegation: Delegation, event: events.Result, change: _Change) -> None:
    change["result"] = DelegationResult(text=event.text, summary=event.summary, files=event.files)
    change["review"] = Review(pending=max(0, event.hunks), accepted=0, rejected=0)
    change["terminal"] = None
    change["places"] = []
    fields: _Change = {"finished_at": event.at}
    if event.head is not None:
        change["head"] = event.head
        fields["end_commit"] = event.head
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


def _places(delegation: Delegation, event: events.PlacesJudged, change: _Change) -> None:
    places = merged(delegation.places, event.places)
    change["places"] = places
    change["activity"] = f"{len(places)} of {event.total} changed places judged"
    change["count"] = delegation.count  # places are judged while something else is counted


def _round(delegation: Delegation, event: events.RoundJudged, change: _Change) -> None:
    round_ = Round(**{name: getattr(event, name) for name in Round.__struct_fields__})
    change["rounds"] = [*delegation.rounds, round_][:MOST_ATTEMPTS]
    change["activity"] = f"round {event.number}: {event.killed} of {event.viable} changes noticed"


def _note(_: Delegation, event: events.Note, change: _Change) -> None:
    change["activity"] = _clip(event.text)


def _finished(delegation: Delegation, event: events.Finished, change: _Change) -> None:
    change.update(
        verdict=event.verdict,
        reservations=event.reservations,
        reservation_facts=event.reservation_facts,
        places=event.places,
        confirmed_tests=0,
        error=event.error,
        finished_at=event.at,
        waiting_for=None,
        terminal=None,
        activity=None,
        dismissed=False,
    )
    if any(not message.delivered for message in delegation.messages):
        change["messages"] = [
            message if message.delivered else msgspec.structs.replace(message, delivery="kept")
            for message in delegation.messages
        ]
    if any(attempt.finished_at is None for attempt in delegation.attempts):
        change["attempts"] = [
            attempt if attempt.finished_at else msgspec.structs.replace(attempt, finished_at=event.at)
            for attempt in delegation.attempts
        ]


_COUNTERS = {"pending": "pending", "accept": "accepted", "reject": "rejected"}


def _decided(delegation: Delegation, event: events.Decided, change: _Change) -> None:
    conflicts = [hunk for hunk in delegation.conflicts if hunk != event.hunk]
    if event.conflict:
        conflicts.append(event.hunk)
    change["conflicts"] = conflicts[:MOST_ATTEMPTS]
    if event.decision == event.was:
        return
    review = delegation.review
    after = _COUNTERS[event.decision]
    counts = {after: getattr(review, after) + 1}
    if event.was != "superseded":  # these are not counted
        before = _COUNTERS[event.was]
        counts[before] = max(0, getattr(review, before) - 1)
    else:
        change["superseded_by"] = None
    change["review"] = msgspec.structs.replace(review, **counts)


def _confirmed(delegation: Delegation, event: events.Confirmed, change: _Change) -> None:
    if delegation.verdict is None:
        return  # only a finished delegation is reviewed
    confirmed = event.tests > 0
    change["confirmed_tests"] = event.tests
    change["verdict"] = Verdict.VERIFIED if confirmed else Verdict.UNVERIFIED
    change["reservations"] = [] if confirmed else [Reservation.TESTS_CHANGED]


def _amended(delegation: Delegation, event: events.Amended, change: _Change) -> None:
    change["head"] = event.head
    change["conflicts"] = [new for new, old in event.carried.items() if old in delegation.conflicts][:MOST_ATTEMPTS]
    if event.review is not None:
        change["review"] = event.review
    if delegation.verdict in {Verdict.VERIFIED, Verdict.CHECKS_FAILED}:
        # The checks ran on another tree.
        change["verdict"] = Verdict.UNVERIFIED


def _discarded(_: Delegation, event: events.Discarded, change: _Change) -> None:
    change["worktree"] = None
    change["rescue_ref"] = event.rescue_ref


def _dismissed(_: Delegation, __: events.Dismissed, change: _Change) -> None:
    change["dismissed"] = True


def _superseded(delegation: Delegation, event: events.Superseded, change: _Change) -> None:
    change["superseded_by"] = event.by
    change["conflicts"] = []
    change["review"] = msgspec.structs.replace(delegation.review, pending=0)


_HANDLERS: dict[type[Event], Callable[[Delegation, Any, _Change], None]] = {
    events.Base: _base,
    events.Worktree: _worktree,
    events.Queued: _queued,
    events.Started: _started,
    events.AgentStarted: _agent_started,
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
    events.UserMessage: _user_message,
    events.MessageDelivered: _message_delivered,
    events.Grouped: _grouped,
    events.AttemptFailed: _attempt_failed,
    events.Checkpoint: _checkpoint,
    events.Result: _result,
    events.CheckStarted: _check_started,
    events.CheckFinished: _check_finished,
    events.PlacesJudged: _places,
    events.RoundJudged: _round,
    events.Note: _note,
    events.Finished: _finished,
    events.Confirmed: _confirmed,
    events.Decided: _decided,
    events.Amended: _amended,
    events.Discarded: _discarded,
    events.Dismissed: _dismissed,
    events.Superseded: _superseded,
}
"""Omitted: ``tool_result``, ``plan`` (too long), ``applied``, ``undone`` (``decided`` counts them), ``unknown``."""
