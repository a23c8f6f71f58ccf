"""Transcripts, diffs, evidence and answers of delegations, as resources that a client can read when it needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from understudy.api import result_files
from understudy.frontends.mcp.tools.tool_caller import ToolCaller
from understudy.model import wire
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.text import patches

PREFIX = "understudy://delegations/"
MOST_LISTED = 20
MOST_CHARACTERS = 8_000_000
"""The longest resource; a longer transcript ends with its newest events."""
_PAGE = 1000


@dataclass(frozen=True)
class Kind:
    """One kind of resource that every delegation has, or has once it is finished."""

    name: str
    title: str
    mime_type: str
    read: Callable[[ToolCaller, Delegation], str]
    at_end: bool = True


@dataclass(frozen=True)
class Entry:
    """One resource."""

    uri: str
    title: str
    mime_type: str


def _transcript(caller: ToolCaller, delegation: Delegation) -> str:
    lines: list[str] = []
    after, size = 0, 0
    while True:
        page = caller.call("delegations/events", id=delegation.id, after=after)
        if not page.events:
            return "".join(lines)
        for event in page.events:
            lines.append(wire.encode(event).decode() + "\n")
            size += len(lines[-1])
            while size > MOST_CHARACTERS:
                size -= len(lines.pop(0))
        after = page.last


def _diff(caller: ToolCaller, delegation: Delegation) -> str:
    _ = caller
    return patches.without_notes(result_files.read_review(delegation.id)).decode("utf-8", "replace")[:MOST_CHARACTERS]


def _evidence(caller: ToolCaller, delegation: Delegation) -> str:
    return str(caller.call("delegations/evidence", id=delegation.id).markdown)[:MOST_CHARACTERS]


def _answer(caller: ToolCaller, delegation: Delegation) -> str:
    _ = caller
    result = delegation.result
    return ((result.text or result.summary) if result is not None else None) or ""


KINDS: dict[str, Kind] = {
    one.name: one
    for one in (
        Kind("transcript", "Every event, one JSON object a line", "application/jsonl", _transcript, at_end=False),
        Kind("diff", "The result as a patch", "text/x-diff", _diff),
        Kind("evidence", "What the verdict rests on", "text/markdown", _evidence),
        Kind("answer", "What the agent answered", "text/markdown", _answer),
    )
}


def listed(caller: ToolCaller) -> list[Entry]:
    """Return the resources of the newest delegations."""
    delegations = caller.call("delegations/list", limit=MOST_LISTED).delegations
    return [entry for delegation in delegations for entry in _of(delegation)]


def read(caller: ToolCaller, uri: str) -> tuple[Kind, str]:
    """Return a resource. Errors: ``invalid_params`` for an address that none has, and those of its request."""
    identifier, _, name = uri.removeprefix(PREFIX).partition("/")
    if not uri.startswith(PREFIX) or name not in KINDS:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"There is no resource {uri[:200]!r}.",
            hint=f"Read {PREFIX}ID/{{{','.join(KINDS)}}}.",
        )
    return KINDS[name], KINDS[name].read(caller, caller.call("delegations/get", id=identifier))


def _of(delegation: Delegation) -> Iterator[Entry]:
    for kind in KINDS.values():
        if delegation.state is State.FINISHED or not kind.at_end:
            yield Entry(f"{PREFIX}{delegation.id}/{kind.name}", f"{kind.name}: {delegation.title}", kind.mime_type)
