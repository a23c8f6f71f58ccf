"""What a model reads about a delegation: short, and with the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.model.delegation.delegations import Delegation, PermissionOption, PermissionRequest
from understudy.model.states import State
from understudy.model.text import sanitize
from understudy.model.text.delegation_text import verdict_sentence
from understudy.model.verdicts import check_outcome

MOST_TEXT = 20_000
"""Characters of an answer; the rest is a resource."""
MOST_FILES = 100

Answer = dict[str, Any]


def brief(delegation: Delegation) -> Answer:
    """Return the state of a delegation; ``status`` is ``running``, ``asks`` or ``finished``."""
    answer: Answer = {
        "status": status_of(delegation),
        "id": delegation.id,
        "title": delegation.title,
        "delegator": delegation.delegator,
    }
    if delegation.state is not State.FINISHED:
        answer |= {"state": str(delegation.state), "activity": delegation.activity}
        if delegation.waiting_for is not None:
            answer |= {"question": question(delegation.waiting_for), "next": "answer"}
        else:
            answer["next"] = "wait"
        return {key: value for key, value in answer.items() if value is not None}
    answer |= {
        "verdict": str(delegation.verdict),
        "meaning": verdict_sentence(delegation),
        "cost_usd": delegation.cost_usd if delegation.cost_known else None,
        "tokens": delegation.usage.input_tokens + delegation.usage.output_tokens or None,
    }
    if delegation.result is not None:
        text = delegation.result.text if delegation.result.text is not None else delegation.result.summary
        answer |= shortened(text, delegation.id)
        answer["files"] = [
            {"path": file.path, "status": file.status, "added": file.additions, "removed": file.deletions}
            for file in delegation.result.files[:MOST_FILES]
        ] or None
    if delegation.checks:
        answer["checks"] = {check.name: check_outcome(check.ok, delegation.reservations) for check in delegation.checks}
    if delegation.error is not None:
        answer["error"] = {
            "kind": str(delegation.error.kind),
            "message": delegation.error.message,
            "hint": delegation.error.hint,
        }
    if delegation.review.pending:
        answer |= {"pending": delegation.review.pending, "next": "diff"}
    if delegation.superseded_by is not None:
        answer["continued_by"] = delegation.superseded_by
    return {key: value for key, value in answer.items() if value is not None}


def marked(answer: Answer, marks: Answer | None, *, again: bool) -> Answer:
    """Return an answer with the ``marks`` of work that an earlier call started, and how to start it once more.

    ``again``: whether the tool has that parameter.
    """
    if marks is None:
        return answer
    if again:
        steps = [answer["next"]] if "next" in answer else []
        marks = marks | {"next": ", or ".join([*steps, "the same call with `again`: true to start it once more"])}
    return answer | marks


def status_of(delegation: Delegation) -> str:
    """Return ``running``, ``asks`` or ``finished``."""
    if delegation.state is State.FINISHED:
        return "finished"
    return "asks" if delegation.waiting_for is not None else "running"


def of_group(identifier: str, members: Sequence[Delegation]) -> Answer:
    """Return the state of a group, with its members in the order of their tasks."""
    statuses = [status_of(member) for member in members]
    status = "asks" if "asks" in statuses else "running" if "running" in statuses else "finished"
    answer: Answer = {"status": status, "id": identifier, "finished": statuses.count("finished"), "of": len(members)}
    if status != "finished":
        answer["next"] = "wait" if status == "running" else "answer"
    return answer | {"results": [brief(member) for member in members]}


def question(request: PermissionRequest) -> Answer:
    """Return a permission request."""
    options: list[Answer] = [
        {"option": _named(option, request), "title": option.title}
        | ({"answer_in": "note"} if option.takes_text else {})
        for option in offered(request)
    ]
    return {
        "request_id": request.request_id,
        "title": sanitize.one_line(request.title),
        "detail": sanitize.sanitize(request.detail)[:2000],
        "options": options,
    }


def _named(option: PermissionOption, request: PermissionRequest) -> str:
    """Return what names an option: its kind, if no other one has it."""
    return option.id if sum(other.kind == option.kind for other in offered(request)) > 1 else option.kind


def offered(request: PermissionRequest) -> list[PermissionOption]:
    """Return the options for one time only: only the user allows something permanently, elsewhere."""
    return [option for option in request.options if option.kind in {"allow_once", "reject_once"}]


def shortened(text: str | None, identifier: str) -> Answer:
    """Return a text, or its beginning with the resource that has the rest."""
    if text is None or len(text) <= MOST_TEXT:
        return {"text": text}
    return {"text": text[:MOST_TEXT], "text_is_cut": True, "resource": f"understudy://delegations/{identifier}/answer"}
