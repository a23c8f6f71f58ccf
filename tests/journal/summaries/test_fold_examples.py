"""Test the examples that hold ``fold`` and the fold of the VS Code extension to the same results.

``protocol/examples/folds.jsonl`` has one walk per line: a delegation, and events with the fields that each one changes
(null: the field is gone). They are computed from the types of the events, so a new event or field needs no change here.
After such a change, or one of ``fold``, run ``make generate``; the tests of the extension then fail until its fold
does the same.
"""

from __future__ import annotations

import enum
import itertools
import json
import random
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from understudy.journal.summaries.fold import fold
from understudy.model.confinement import Confinement, Sandbox
from understudy.model.delegation import events
from understudy.model.delegation.delegations import AskedBy, Delegation, no_usage
from understudy.model.delegation.events import AnyEvent, Event
from understudy.model.hunks import Review
from understudy.model.states import State
from understudy.model.verdicts import Verdict

EXAMPLES = Path(__file__).parents[3] / "protocol" / "examples"
PATH = EXAMPLES / "folds.jsonl"
TYPES: tuple[type[Event], ...] = typing.get_args(AnyEvent)
WALKS, STEPS = 10, 32
STAMPED = frozenset({"seq", "at", "attempt"})
"""The fields that the writer of a journal always sets."""

WORDS = ("a", "Wrap  the\n text", " \t\u2003\x1f\ufeffé", "")
TEXTS = (*WORDS, "long line " * 17, "🦉" * 161, "a" + " " * 640 + "b")
AMOUNTS = (None, "0.0042", "1.10", "0", "1e3", "-2", " 3_0.5 ", ".5", "NaN", "Infinity", "much", "", "1e30", "1e-30")
AMOUNTS += ("9999999999999999999999999999.5", "12345678901234567890.123456789", "1" * 65, "0e-29", "1e-29")
COUNTS = (0, 1, 7, 4096, 2**53 - 1)
POOLS: dict[str, tuple[Any, ...]] = {
    "attempt": (0, 1, 2, 3),
    "request_id": ("a", "b"),
    "message_id": ("a", "b"),
    "name": ("a", "b"),
    "delegator": ("a", "big-coder"),
    "commit": ("c1", "c2", "c3"),
    "head": ("c4", "c5"),
    "cost_usd": AMOUNTS,
    "hunks": (0, 1, 5, -1),
    "input_tokens": (0, 7, 2**60),
    "title": WORDS,
    "text": TEXTS,
    "message": WORDS,
    "tool": (None, "claude", "generic"),
}


class Maker:
    """Makes events from the types of their fields, the same ones every time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, values: typing.Sequence[Any]) -> Any:
        # ``random()`` is the only method whose values are the same in all versions of Python.
        return values[int(self._random.random() * len(values))]

    def event(self, kind: type[Event], seq: int, /, **given: Any) -> Event:
        return self._struct(kind, {"seq": seq, "at": f"2026-11-21T00:45:12.{seq % 1000:03}Z"} | given)

    def _struct(self, kind: type[Any], given: dict[str, Any]) -> Any:
        values = dict(given)
        for field in msgspec.structs.fields(kind):
            if field.name not in values and (field.required or field.name == "attempt" or self.pick((0, 1))):
                values[field.name] = self.value(field.name, field.type)
        return kind(**values)

    def value(self, name: str, annotation: Any) -> Any:
        if name in POOLS:
            return self.pick(POOLS[name])
        if known := alternatives(annotation):
            return self.pick(known)
        arguments = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
        origin = typing.get_origin(annotation)
        if origin is list:
            return [self.value("", arguments[0]) for _ in range(self.pick((0, 1, 2)))]
        if origin is dict:
            return {self.value("", arguments[0]): self.value("", arguments[1])}
        if arguments:
            return self.value(name, arguments[0])
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            return self._struct(annotation, {})
        simple = {str: ("a", "b", "c"), int: COUNTS, float: (0.5, 1.25), Any: (None, {"a": [1, "b"]})}
        return self.pick(simple[annotation])


def alternatives(annotation: Any) -> list[Any]:
    """Return the values of an enumeration, a literal or a truth value; none for other types."""
    if annotation is bool:
        return [False, True]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return list(annotation)
    return list(typing.get_args(annotation)) if typing.get_origin(annotation) is typing.Literal else []


def sweep(kind: type[Event], maker: Maker) -> Iterator[dict[str, Any]]:
    """Yield the fields of events that together have every alternative of every field, and each one left out."""
    for field in msgspec.structs.fields(kind):
        if field.name in STAMPED:
            continue
        for value in POOLS.get(field.name) or alternatives(field.type) or [maker.value(field.name, field.type)]:
            yield {field.name: value}
        if not field.required:
            default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            yield {field.name: default}


def fresh(**given: Any) -> Delegation:
    values = {
        "id": "20261121-004512-k3f9q",
        "title": "Tests for wrapping.py",
        "recipe": "tests",
        "state": State.PREPARING,
        "reservations": [],
        "workspace": "/home/ada/greeting",
        "delegator": "a",
        "attempts": [],
        "checks": [],
        "review": Review(pending=2, accepted=1, rejected=1),
        "confined": False,
        "usage": no_usage(),
        "cost_known": False,
        "asked_by": AskedBy(frontend="lsp", depth=0),
        "started_at": "2026-11-21T00:45:12.345Z",
        "last_seq": 0,
    }
    return Delegation(**values | given)


def walks() -> Iterator[tuple[str, list[Event], Delegation]]:
    """Yield title, events and the delegation before them."""
    example = json.loads((EXAMPLES / "notification.event.json").read_text(encoding="utf-8"))
    yield "a whole life", msgspec.convert(example["params"]["events"], list[AnyEvent]), fresh()
    busy = {"verdict": Verdict.VERIFIED, "rescue_ref": "refs/a", "superseded_by": "b", "worktree": "/w", "base": "c0"}
    for number, kind in enumerate(TYPES):
        maker = Maker(number)
        begun = [maker.event(events.Started, seq, attempt=seq) for seq in (1, 2)]
        asked = maker.event(events.Permission, 3, request_id="a", attempt=2)
        swept = [maker.event(kind, seq, **given) for seq, given in enumerate(sweep(kind, maker), start=4)]
        yield f"every field of {kind.__struct_config__.tag}", [*begun, asked, *swept], fresh(**busy)
    maker = Maker(100)
    for one in Confinement:
        agents = [
            maker.event(events.AgentStarted, seq, sandbox=Sandbox(*given))
            for seq, given in enumerate([(one, one), *((new, new) for new in reversed(Confinement))], start=1)
        ]
        yield f"sandboxes from {one}", agents, fresh()
    attempts = [
        maker.event(kind, 0, attempt=number, **given)
        for number in (1, 2, 3)
        for kind, given in (
            (events.Started, {"commit": None}),
            (events.UsageReport, {"cost_usd": "0.10", "estimated": number == 2, "input_tokens": 2**60}),
            (events.Checkpoint, {}),
        )
    ]
    yield "attempts that continue each other", numbered(attempts), fresh()
    pairs = itertools.product(typing.get_args(field_type("decision")), typing.get_args(field_type("was")))
    decided = [maker.event(events.Decided, seq, decision=new, was=old) for seq, (new, old) in enumerate(pairs, start=1)]
    yield "every decision", decided, fresh(superseded_by="b", state=State.FINISHED)
    ends = [
        maker.event(kind, 0, **given)
        for verdict in Verdict
        for kind, given in ((events.Finished, {"verdict": verdict}), (events.Amended, {}))
    ]
    yield "an edit after every verdict", numbered(ends), fresh()
    for number in range(WALKS):
        maker = Maker(1000 + number)
        steps = [maker.event(maker.pick(TYPES), 0) for _ in range(STEPS)]
        yield f"random walk {number + 1}", numbered(steps), fresh()


def field_type(name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(events.Decided) if field.name == name)


def numbered(found: list[Event]) -> list[Event]:
    return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(found, start=1)]


def example(title: str, happened: list[Event], before: Delegation) -> dict[str, Any]:
    steps, now = [], before
    for event in happened:
        after = fold(now, event)
        old, new = msgspec.to_builtins(now), msgspec.to_builtins(after)
        changed = {name: new.get(name) for name in old | new if old.get(name) != new.get(name)}
        steps.append({"event": msgspec.to_builtins(event), "changes": changed})
        now = after
    return {"title": title, "before": msgspec.to_builtins(before), "steps": steps}


def lines() -> list[str]:
    made = (example(title, happened, before) for title, happened, before in walks())
    return [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in made]


def test_the_examples_are_what_fold_computes():
    stored = PATH.read_text(encoding="utf-8").splitlines()
    for old, new in zip(stored, lines(), strict=True):
        assert json.loads(old) == json.loads(new), "run `make generate`"


def test_the_examples_contain_every_field_of_every_event():
    found: dict[str, list[set[str]]] = {}
    for line in PATH.read_text(encoding="utf-8").splitlines():
        for step in json.loads(line)["steps"]:
            found.setdefault(step["event"]["type"], []).append(set(step["event"]))
    for kind in TYPES:
        seen = found[str(kind.__struct_config__.tag)]
        for field in msgspec.structs.fields(kind):
            assert any(field.encode_name in names for names in seen), (kind, field.name)
            assert field.required or field.name in STAMPED or any(field.encode_name not in names for names in seen), (
                kind,
                field.name,
            )


if __name__ == "__main__":
    PATH.write_text("\n".join(lines()) + "\n", encoding="utf-8")
