"""Tool calls of a model: what is offered, the pieces of a streamed call, and what goes back.

Servers differ in how they split a call, so the rules are: a call is known by its index; a new id on a used index begins
another call; without an index the id decides, and without both the piece belongs to the last call. Arguments are parsed
only when the answer is complete.
"""

from __future__ import annotations

from typing import Any

import msgspec

from understudy.model.text import foreign_json

MAX_CALLS = 2000
"""Calls of one answer that are kept; the pieces of further ones are dropped."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it is described to the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of its arguments."""


class RequestedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A complete call."""

    call_id: str
    """The server's id, made unique within its answer; its result has the same."""
    name: str
    arguments: dict[str, Any]
    problem: str | None = None
    """Why it must not be executed: its arguments are not a JSON object."""


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a call returned, as the model gets it."""

    call_id: str
    text: str
    ok: bool


class PartialCall(msgspec.Struct):
    """A call, as far as it has been received."""

    call_id: str = ""
    name: str = ""
    pieces: list[str] = msgspec.field(default_factory=list)
    more: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields that only the provider understands, such as a signature of its thoughts; they go back unchanged."""

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)


class CallAssembler:
    """Puts the calls of one answer together from their pieces."""

    def __init__(self) -> None:
        """Begin without calls."""
        self.calls: list[PartialCall] = []
        self._by_index: dict[int, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}

    def add(
        self, *, index: Any = None, call_id: Any = None, name: Any = None, arguments: Any = None, whole: bool = False
    ) -> PartialCall | None:
        """Take a piece and return its call; None if there are too many. ``whole``: it replaces earlier arguments."""
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        call_id = call_id if isinstance(call_id, str) else ""
        call = self._place(index, call_id, begins=isinstance(name, str) and bool(name))
        if call is None:
            return None
        if call_id and not call.call_id:
            call.call_id = call_id
            self._by_id[call_id] = call
        if isinstance(name, str) and name and not call.name:
            call.name = name
        if isinstance(arguments, dict):  # as some servers send them, against the protocol
            arguments, whole = msgspec.json.encode(arguments).decode(), True
        if isinstance(arguments, str) and arguments:
            if whole:
                call.pieces.clear()
            call.pieces.append(arguments)
        return call

    def complete(self) -> list[RequestedCall]:
        """Return the calls with their arguments, and a unique id for each."""
        used: set[str] = set()
        requested = []
        for number, call in enumerate(self.calls):
            if not call.call_id or call.call_id in used:
                call.call_id = _free_id(number, used)
            used.add(call.call_id)
            arguments, problem = parse_arguments(call.text)
            requested.append(RequestedCall(call_id=call.call_id, name=call.name, arguments=arguments, problem=problem))
        return requested

    def _place(self, index: int | None, call_id: str, *, begins: bool) -> PartialCall | None:
        call = self._by_index.get(index) if index is not None else self._by_id.get(call_id)
        if index is None and call is None and not call_id and self.calls and not (begins and self.calls[-1].name):
            call = self.calls[-1]
        if call is not None and call_id and call.call_id and call.call_id != call_id:
            call = self._by_id.get(call_id)
            if call is None:
                return self._new(index)
        return call or self._new(index)

    def _new(self, index: int | None) -> PartialCall | None:
        if len(self.calls) >= MAX_CALLS:
            return None
        call = PartialCall()
        self.calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """Return the arguments in ``text``, and why they cannot be used; a call without arguments may have no text."""
    if not text.strip():
        return {}, None
    try:
        value = foreign_json.decode(text)
    except foreign_json.UNREADABLE:
        return {}, "its arguments are not valid JSON; they may have been cut off"
    if not isinstance(value, dict):
        return {}, "its arguments are not a JSON object"
    return value, None


def _free_id(number: int, used: set[str]) -> str:
    candidate = f"call_{number}"
    while candidate in used:
        candidate += "_"
    return candidate
