"""Collect the structures, enumerations and events that the method table refers to, with their docstrings."""

from __future__ import annotations

import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from understudy.api.method_table import METHODS, NOTIFICATIONS, PREFIX, PROTOCOL_VERSION, Method
from understudy.config.reference import fields
from understudy.model.delegation.events import STATE_AFTER, AnyEvent, Event
from understudy.model.errors import ErrorInfo
from understudy.model.states import TRANSITIONS, State
from understudy.model.verdicts import Reservation, Verdict

STAMPS = frozenset({"seq", "at", "attempt"})
"""Fields of every event that the journal fills in; on the wire they are always present."""


class Field(msgspec.Struct, frozen=True):
    """One field of a structure."""

    name: str
    """The name on the wire."""
    annotation: Any
    """The Python type without ``None``."""
    required: bool
    """Always present in results and events; must be present in parameters."""
    nullable: bool
    """``null`` means the same as absent."""
    default: Any
    """The default value if it is a string or number, else None."""
    doc: str


class Structure(msgspec.Struct, frozen=True):
    """One structure or event of the contract."""

    name: str
    python: type[msgspec.Struct]
    doc: str
    strict: bool
    """Unknown fields are an error."""
    tag: str | None
    """The value of ``type``, for an event."""
    fields: list[Field]


class Member(msgspec.Struct, frozen=True):
    """One value of an enumeration."""

    value: str
    doc: str


class Enumeration(msgspec.Struct, frozen=True):
    """A closed list of values."""

    name: str
    python: type[enum.Enum]
    doc: str
    members: list[Member]


class Contract(msgspec.Struct, frozen=True):
    """Everything to publish, in the order of declaration."""

    version: int
    methods: list[Method]
    notifications: dict[str, Structure]
    structures: dict[type, Structure]
    """All structures except events."""
    events: dict[type, Structure]
    enumerations: dict[type, Enumeration]
    transitions: list[tuple[str, list[str]]]
    state_after: list[tuple[str, str]]
    """Event tag → the state after it."""

    def name(self, python: type) -> str:
        """Return the published name of a class of the contract."""
        declared: Mapping[type, Structure | Enumeration] = {**self.structures, **self.events, **self.enumerations}
        return declared[python].name


def read() -> Contract:
    """Return the contract as declared."""
    event_types = typing.get_args(AnyEvent)
    roots: list[Any] = [side for method in METHODS.values() for side in (method.params, method.result)]
    roots += [*NOTIFICATIONS.values(), ErrorInfo]
    reached = _reach([*roots, *event_types, State, Verdict, Reservation])
    structures: dict[type, Structure] = {}
    events: dict[type, Structure] = {}
    enumerations: dict[type, Enumeration] = {}
    for python in reached:
        if issubclass(python, enum.Enum):
            enumerations[python] = _enumeration(python)
        elif issubclass(python, Event):
            events[python] = _structure(python, event_name(python))
        elif issubclass(python, msgspec.Struct):
            structures[python] = _structure(python, python.__name__)
    return Contract(
        version=PROTOCOL_VERSION,
        methods=list(METHODS.values()),
        notifications={PREFIX + name: structures[python] for name, python in NOTIFICATIONS.items()},
        structures=structures,
        events={python: events[python] for python in event_types},
        enumerations=enumerations,
        transitions=[
            (str(before), [str(after) for after in State if after in TRANSITIONS[before]]) for before in TRANSITIONS
        ],
        state_after=[(_tag(python) or "", str(state)) for python, state in STATE_AFTER.items()],
    )


def event_name(python: type[msgspec.Struct]) -> str:
    """Return the published name of an event: its tag in camel case, then ``Event`` (``ToolCallEvent``)."""
    return "".join(part.capitalize() for part in (_tag(python) or "").split("_")) + "Event"


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation alone."""
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        return typing.get_args(annotation)
    return (annotation,)


def is_events(annotation: Any) -> bool:
    """Return whether this is the union of all events."""
    return set(alternatives(annotation)) == set(typing.get_args(AnyEvent))


def _reach(roots: list[Any]) -> list[type]:
    """Return every Struct and Enum class that the roots refer to, directly or not, in order of first reference."""
    seen: dict[type, None] = {}
    waiting = list(reversed(roots))
    while waiting:
        annotation = waiting.pop()
        if isinstance(annotation, type) and typing.get_origin(annotation) is None:
            if annotation in seen or not issubclass(annotation, (msgspec.Struct, enum.Enum)):
                continue
            seen[annotation] = None
            if issubclass(annotation, msgspec.Struct):
                waiting += [field.type for field in reversed(msgspec.structs.fields(annotation))]
        elif typing.get_origin(annotation) is not typing.Literal:
            waiting += reversed(typing.get_args(annotation))
    return list(seen)


def _structure(python: type[msgspec.Struct], name: str) -> Structure:
    docs = fields.field_docs(python)
    described: list[Field] = []
    for field in msgspec.structs.fields(python):
        parts = alternatives(field.type)
        kept = tuple(part for part in parts if part is not type(None))
        stamp = issubclass(python, Event) and field.name in STAMPS
        plain = field.default if isinstance(field.default, (str, int, float)) and not stamp else None
        described.append(
            Field(
                name=field.encode_name,
                annotation=functools.reduce(lambda left, right: left | right, kept),
                required=field.required or stamp,
                nullable=len(kept) < len(parts),
                default=plain,
                doc=docs.get(field.name, ""),
            )
        )
    return Structure(
        name=name,
        python=python,
        doc=fields.doc_of(python),
        strict=python.__struct_config__.forbid_unknown_fields,
        tag=_tag(python),
        fields=described,
    )


def _enumeration(python: type[enum.Enum]) -> Enumeration:
    docs = fields.docs_below(python)
    members = [Member(value=str(member.value), doc=docs.get(member.name, "")) for member in python]
    return Enumeration(name=python.__name__, python=python, doc=fields.doc_of(python), members=members)


def _tag(python: type[msgspec.Struct]) -> str | None:
    tag = python.__struct_config__.tag
    return tag if isinstance(tag, str) else None
