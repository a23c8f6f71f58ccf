"""Turn the JSON lines of a tool into events, as the rules of its definition say."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.config.tool_definitions import EventRule, FailureRule, ToolDefinition
from understudy.model.delegation import events
from understudy.model.delegation.events import File, Phase, Plan, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import foreign_json
from understudy.runners.agent_clis.streams.event_stream import money
from understudy.runners.agent_clis.streams.stream_values import WorktreePaths, bounded, failure, string, whole
from understudy.runners.driver.source import AgentFinished, SourceItem

_SEARCHED_CHARACTERS = 64 << 10
"""The most characters of an error in which the texts of a rule are searched."""
_TITLE_CHARACTERS = 200
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,255}")
"""IDs of sessions; they become arguments of the next attempt, so one that looks like an option is ignored."""
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "turns")
_STATUSES: Mapping[Any, str] = {"completed": "completed", "in_progress": "in_progress", True: "completed"}
"""What a tool calls the state of an entry → the state; all others are pending."""
_PATHS = frozenset(EventRule.__struct_fields__) - {"event", "when", "failed", "whole", "change", "totals"}
"""Fields of a rule that are paths."""

Conditions = list[tuple[tuple[foreign_json.Step, ...], list[Any]]]


class _Compiled:
    """A rule with its paths parsed."""

    def __init__(self, rule: EventRule) -> None:
        self.rule = rule
        self.when = conditions(rule.when)
        self.failed = conditions(rule.failed or {})
        self.paths = {
            name: foreign_json.parse_path(path) for name in _PATHS if (path := getattr(rule, name)) is not None
        }

    def all(self, record: Any, name: str) -> list[Any]:
        """Return the values of a field, in order; none without the field."""
        return foreign_json.values_at(record, self.paths[name]) if name in self.paths else []

    def first(self, record: Any, name: str) -> Any:
        """Return the first value of a field; None if there is none."""
        return next(iter(self.all(record, name)), None)

    def text(self, record: Any, name: str, between: str = "") -> str:
        """Return the texts of a field, joined."""
        return between.join(value for value in self.all(record, name) if isinstance(value, str))


class MappedLines:
    """Parses the lines of one run."""

    def __init__(self, tool: ToolDefinition, rules: ToolDefinition, tree: Path) -> None:
        """Start a run of ``tool`` whose lines the events in ``rules`` describe; paths become relative to ``tree``."""
        self._tool = tool
        self._rules = [_Compiled(rule) for rule in rules.events]
        self._by_exit = rules.completes_by == "exit"
        self._tree = WorktreePaths(tree)
        self._session = ""
        self._message: str | None = None
        """The last whole message."""
        self._result: AgentFinished | None = None
        self._failure: tuple[str, int, float | None, Any] | None = None
        """The failure reported last: its text, HTTP status, the time at which a limit is lifted, and its line."""
        self._used: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
        self._cost: Decimal | None = None
        self._calls = 0

    def line(self, line: bytes) -> list[SourceItem] | None:
        """Parse one line and return its events."""
        try:
            record = foreign_json.decode(line)
        except foreign_json.UNREADABLE:
            return None
        if not isinstance(record, dict):
            return None
        items: list[SourceItem] = []
        for rule in self._rules:
            if holds(rule.when, record):
                items += self._events(rule, record)
        # Nothing counts after the end.
        return sorted(items, key=lambda item: isinstance(item, AgentFinished))

    def ended(self, code: int, stderr: str) -> list[SourceItem]:
        """Return how a program ended that exited with ``code`` without announcing a result."""
        if self._failure is not None:
            text, status, resets_at, record = self._failure
            error = classified(
                self._tool, text, stderr=stderr, code=code, record=record, status=status, resets_at=resets_at
            )
            return [AgentFinished(error=error)]
        if not self._by_exit or code != 0:
            return []
        return [self._result or AgentFinished(text=self._message, summary=self._message)]

    def _events(self, rule: _Compiled, record: dict[str, Any]) -> Iterator[SourceItem]:
        match rule.rule.event:
            case "session":
                session = rule.first(record, "session_id")
                if _SESSION.fullmatch(_printed(session)) and str(session) != self._session:
                    self._session = str(session)
                    yield events.Session(session_id=self._session)
            case "text":
                yield from self._text(rule, record)
            case "thinking":
                if thought := rule.text(record, "text"):
                    yield Thinking(text=thought)
            case "phase":
                if activity := rule.text(record, "text"):
                    yield Phase(text=activity[:_TITLE_CHARACTERS])
            case "plan":
                states = rule.all(record, "statuses")
                contents = [
                    str(content) for content in rule.all(record, "contents") if isinstance(content, str | int | float)
                ]
                named = [
                    *(
                        _STATUSES.get(state, "pending") if isinstance(state, str | bool) else "pending"
                        for state in states
                    )
                ]
                named += ["pending"] * len(contents)
                yield Plan(entries=[{"content": c, "status": s} for c, s in zip(contents, named, strict=False)])
            case "tool_call":
                yield self._call(rule, record)
            case "tool_result":
                outputs = [_printed(value) for value in rule.all(record, "output")]
                ok = not (rule.failed and holds(rule.failed, record))
                yield ToolResult(call_id=_printed(rule.first(record, "call_id")), ok=ok, output="\n".join(outputs))
            case "file":
                for path in rule.all(record, "path"):
                    if (relative := self._tree.relative(string(path))) not in {None, "."}:
                        yield File(path=str(relative), change=rule.rule.change or "modified")
            case "usage":
                yield self._usage(rule, record)
            case "result":
                self._failure = None
                text = rule.text(record, "text") or self._message
                self._result = AgentFinished(text=text, summary=rule.text(record, "summary") or text)
                if not self._by_exit:
                    yield self._result
            case "failure":
                self._result = None
                yield from self._failed(rule, record)

    def _text(self, rule: _Compiled, record: dict[str, Any]) -> Iterator[SourceItem]:
        text = rule.text(record, "text")
        if not text:
            return
        if rule.rule.whole:
            apart = "\n\n" if self._message is not None else ""
            self._message = text
            text = apart + text
        yield Text(text=text)

    def _call(self, rule: _Compiled, record: dict[str, Any]) -> ToolCall:
        self._calls += 1
        name = rule.text(record, "name") or "tool"
        return ToolCall(
            call_id=_printed(rule.first(record, "call_id")) or f"call-{self._calls}",
            name=name,
            title=(rule.text(record, "title") or name).partition("\n")[0][:_TITLE_CHARACTERS],
            input=bounded(rule.first(record, "input")),
        )

    def _usage(self, rule: _Compiled, record: dict[str, Any]) -> UsageReport:
        before = {} if rule.rule.totals else self._used
        cost = _amount(rule.first(record, "cost_usd"))
        for name in _COUNTS:
            counted = whole(rule.first(record, name)) if name in rule.paths else int(name == "turns")
            self._used[name] = whole(before.get(name, 0) + counted)
        if cost is not None:
            self._cost = cost if rule.rule.totals or self._cost is None else self._cost + cost
        amount = money(format(self._cost, "f")) if self._cost is not None else None
        return UsageReport(**self._used, tool_calls=self._calls, cost_usd=amount)

    def _failed(self, rule: _Compiled, record: dict[str, Any]) -> Iterator[SourceItem]:
        resets_at = rule.first(record, "retry_at")
        self._failure = (
            rule.text(record, "message") or _printed(rule.first(record, "message")),
            whole(rule.first(record, "status")),
            float(resets_at) if _is_time(resets_at) else None,
            record,
        )
        if not self._by_exit:
            text, status, lifted, _ = self._failure
            error = classified(self._tool, text, record=record, status=status, resets_at=lifted)
            yield AgentFinished(error=error)


def unmatched(rules: ToolDefinition, output: bytes) -> list[str]:
    """Return the lines of JSON in ``output`` that no rule uses, in order."""
    compiled = [_Compiled(rule) for rule in rules.events]
    unused = []
    for line in output.splitlines():
        with contextlib.suppress(*foreign_json.UNREADABLE):
            record = foreign_json.decode(line)
            if isinstance(record, dict) and not any(holds(rule.when, record) for rule in compiled):
                unused.append(line.decode(errors="replace"))
    return unused


def classified(
    tool: ToolDefinition,
    text: str,
    *,
    stderr: str = "",
    code: int | None = None,
    record: Any = None,
    status: int = 0,
    resets_at: float | None = None,
) -> ErrorInfo:
    """Return the failure with the message ``text``, as the first rule of ``tool`` that matches says.

    ``code`` is the exit code, None while it is unknown; ``record`` the line that reported the failure; ``status`` an
    HTTP status. Without a rule, the status and the message decide.
    """
    capabilities = tool.capabilities()
    rule = matching(tool, text, stderr=stderr, code=code, record=record)
    if rule is None:
        return failure(capabilities, text, status=status, resets_at=resets_at)
    error = failure(capabilities, text, kind=ErrorKind(rule.kind), resets_at=resets_at)
    return msgspec.structs.replace(error, hint=rule.hint) if rule.hint else error


def matching(tool: ToolDefinition, text: str, *, stderr: str, code: int | None, record: Any) -> FailureRule | None:
    """Return the first rule of ``tool`` for a failure whose conditions all hold."""
    words = f"{text[:_SEARCHED_CHARACTERS]}\n{stderr[-_SEARCHED_CHARACTERS:]}".casefold()
    for rule in tool.failures:
        if rule.exit_codes is not None and code not in rule.exit_codes:
            continue
        if rule.when is not None and (record is None or not holds(conditions(rule.when), record)):
            continue
        if rule.contains is not None and not any(phrase.casefold() in words for phrase in rule.contains):
            continue
        return rule
    return None


def conditions(declared: Mapping[str, Any]) -> Conditions:
    """Return conditions with their paths parsed, and with the values that each allows."""
    return [
        (foreign_json.parse_path(path), value if isinstance(value, list) else [value])
        for path, value in declared.items()
    ]


def holds(parsed: Conditions, record: Any) -> bool:
    """Return whether every condition holds: one of the values at its path is one of those that it allows."""
    return all(
        any(_same(value, allowed_value) for value in foreign_json.values_at(record, path) for allowed_value in allowed)
        for path, allowed in parsed
    )


def _same(value: Any, allowed: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    return isinstance(value, bool) == isinstance(allowed, bool) and bool(value == allowed)


def _is_time(value: Any) -> bool:
    """Return whether a value is a time in seconds since 1970, before the year 10000."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 253_402_300_800


def _printed(value: Any) -> str:
    """Return a value as text: a text as it is, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(bounded(value)).decode()


def _amount(value: Any) -> Decimal | None:
    """Return an amount of money; None if it is not a plausible one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return round(amount, 12).normalize() if amount.is_finite() and 0 <= amount < 10**9 else None
