"""Translate the events of a delegation into updates of its session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from acp import helpers, schema
from acp.helpers import update_agent_message_text as message
from acp.helpers import update_agent_thought_text as thought

from understudy.model.delegation import events
from understudy.model.errors import ErrorInfo
from understudy.model.evidence.checks import CheckResult
from understudy.model.places import news
from understudy.model.text import path_quoting, sanitize
from understudy.model.text.delegation_text import test_counts
from understudy.model.text.sanitize import one_line

Update = Any
"""One of the SDK's models for ``session/update``."""
MOST_OUTPUT = 20_000
"""Characters of a tool's output."""
MOST_INPUT = 20_000
MOST_ENTRIES = 100
MOST_PATHS = 20
_TITLE = 200
_PATH_FIELDS = ("path", "file_path", "filePath", "filename", "absolute_path", "notebook_path")
_KIND_WORDS: tuple[tuple[schema.ToolKind, tuple[str, ...]], ...] = (
    ("execute", ("bash", "shell", "exec", "command", "terminal", "run")),
    ("delete", ("delete", "remove")),
    ("move", ("move", "rename")),
    ("edit", ("edit", "write", "create", "patch", "replace", "insert", "update_file")),
    ("search", ("search", "grep", "glob", "find", "list", "ls")),
    ("fetch", ("fetch", "http", "web", "browse", "url")),
    ("read", ("read", "view", "cat", "open")),
    ("think", ("think", "plan", "todo")),
)
"""Kind → parts of the names that agents give such tools; the first match counts."""


@dataclass
class Translator:
    """Translates one delegation's events, in order; tool calls that began are remembered."""

    delegation: str
    workspace: Path
    tree: Path | None = None
    """Where the agent works: its paths are shown as those of the workspace."""
    open_calls: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    questions: dict[str, events.Permission] = field(default_factory=dict)
    """Those that are open."""
    spoke: bool = False
    """Whether the last attempt said something."""

    def updates(self, event: events.Event) -> Iterator[Update]:
        """Yield the updates for one event."""
        match event:
            case events.Worktree(path=path):
                self.tree = Path(path)
            case events.Started(delegator=delegator, reason=reason, model=model):
                self.spoke = False
                self.files.clear()
                shown = f" ({one_line(model)})" if model else ""
                yield thought(f"{one_line(delegator)}{shown} started: {one_line(reason)}\n")
            case events.Queued(position=position):
                yield thought(f"Number {position} in the queue.\n")
            case events.Phase(text=text):
                yield thought(f"{one_line(text)}\n")
            case events.Text(text=text):
                self.spoke = True
                yield message(sanitize.sanitize(text))
            case events.Thinking(text=text):
                yield thought(sanitize.sanitize(text))
            case events.Plan(entries=entries):
                yield plan_update(entries)
            case events.ToolCall():
                yield self._begun(event)
            case events.ToolResult():
                yield self._ended(event)
            case events.File(path=path, change=change):
                yield from self._changed(path, change)
            case events.UsageReport():
                yield self._usage(event)
            case events.CheckStarted(name=name):
                yield schema.ToolCallStart(
                    session_update="tool_call",
                    tool_call_id=self._id(f"check:{name}"),
                    title=f"Check {one_line(name)}"[:_TITLE],
                    kind="execute",
                    status="in_progress",
                )
            case events.PlacesJudged(places=places, total=total):
                yield thought(f"{one_line(news(places, total))}\n")
            case events.CheckFinished(name=name):
                yield self._checked(name, event.check_result())
            case events.Permission():
                yield self._asked(event)
            case events.PermissionAnswered():
                yield from self._answered(event)
            case events.AttemptFailed(error=error, next_delegator=following, continues=continues):
                how = "continues its work" if continues else "takes over, in a fresh worktree"
                after = f"\n\n{one_line(following)} {how}." if following else ""
                yield message(f"\n\n{failure(error)}{after}\n\n")
            case events.UserMessage(text=text):
                yield helpers.update_user_message_text(sanitize.sanitize(text))
            case events.Note(level=level, text=text, hint=hint):
                shown = one_line(f"{text} {hint}" if hint else text)
                yield thought(f"{shown}\n") if level == "info" else message(f"\n\n{level.capitalize()}: {shown}\n\n")
            case events.Result(text=text, summary=summary) if not self.spoke and (text or summary):
                yield message(sanitize.sanitize(text or summary or ""))
            case _:
                return

    def location(self, path: str) -> Path | None:
        """Return a path of the agent as one of the workspace; None outside both."""
        named = Path(path) if path and "\0" not in path else None
        if named is None:
            return None
        if not named.is_absolute():
            return None if ".." in PurePosixPath(path).parts else self.workspace / named
        for top in (self.tree, self.workspace):
            if top is not None and named.is_relative_to(top) and ".." not in named.parts:
                return self.workspace / named.relative_to(top)
        return None

    def _asked(self, event: events.Permission) -> schema.ToolCallStart:
        self.questions[event.request_id] = event
        return schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=self.permission_id(event.request_id),
            title=one_line(event.title)[:_TITLE] or "Question",
            kind="other" if event.kind == "question" else event.kind,
            status="pending",
        )

    def _answered(self, event: events.PermissionAnswered) -> Iterator[Update]:
        question = self.questions.pop(event.request_id, None)
        if question is None:
            return
        option = next((offered for offered in question.options if offered.id == event.option), None)
        allowed = option is not None and option.kind.startswith("allow")
        answer = one_line(option.title if option is not None else event.option)
        yield schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=self.permission_id(event.request_id),
            status="completed" if allowed else "failed",
            title=f"{one_line(question.title)[:_TITLE]}: {answer} (by {one_line(event.by)})",
        )

    def permission_id(self, request: str) -> str:
        """Return the id of the tool call that shows a permission request."""
        return self._id(f"permission:{request}")

    def _id(self, name: str) -> str:
        return f"{self.delegation}:{name}"

    def _begun(self, event: events.ToolCall) -> schema.ToolCallStart:
        self.open_calls.add(event.call_id)
        paths = self._paths(event.input)
        self.files.update(str(path) for path in paths)
        return schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=self._id(f"{event.attempt}:{event.call_id}"),
            title=one_line(event.title or event.name)[:_TITLE] or "tool",
            kind=kind_of(event.name),
            status="in_progress",
            locations=[schema.ToolCallLocation(path=str(path)) for path in paths] or None,
            raw_input=event.input if len(str(event.input)) <= MOST_INPUT else None,
        )

    def _ended(self, event: events.ToolResult) -> Update:
        output = sanitize.sanitize(event.output)
        cut = len(output) > MOST_OUTPUT or event.truncated_bytes
        shown = output[:MOST_OUTPUT] + ("\n[cut]" if cut else "")
        content: list[Any] | None = [helpers.tool_content(helpers.text_block(shown))] if shown else None
        status: Literal["completed", "failed"] = "completed" if event.ok else "failed"
        identifier = self._id(f"{event.attempt}:{event.call_id}")
        if event.call_id not in self.open_calls:
            return schema.ToolCallStart(
                session_update="tool_call", tool_call_id=identifier, title="tool", status=status, content=content
            )
        self.open_calls.discard(event.call_id)
        return schema.ToolCallProgress(
            session_update="tool_call_update", tool_call_id=identifier, status=status, content=content
        )

    def _changed(self, path: str, change: str) -> Iterator[Update]:
        """Yield a call for a file that no tool call has named: some agents report only the files."""
        place = self.location(path_quoting.readable(path))
        if place is None or str(place) in self.files:
            return
        self.files.add(str(place))
        kind: schema.ToolKind = "delete" if change == "deleted" else "move" if change == "renamed" else "edit"
        yield schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=self._id(f"file:{place}"),
            title=f"{change.capitalize()} {sanitize.path(path)}"[:_TITLE],
            kind=kind,
            status="completed",
            locations=[schema.ToolCallLocation(path=str(place))],
        )

    def _checked(self, name: str, result: CheckResult) -> schema.ToolCallProgress:
        shown = sanitize.sanitize(result.output_tail)[-MOST_OUTPUT:]
        text = f"{test_counts(result)} in {result.seconds:.1f} s"
        content: list[Any] = [helpers.tool_content(helpers.text_block(f"{text}\n\n{shown}".strip()))]
        return schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=self._id(f"check:{name}"),
            title=f"Check {one_line(name)}: {'passed' if result.ok else 'failed'}, {text}"[:_TITLE],
            status="completed" if result.ok else "failed",
            content=content,
        )

    def _usage(self, event: events.UsageReport) -> schema.UsageUpdate:
        cost = schema.Cost(amount=float(event.cost_usd), currency="USD") if event.cost_usd is not None else None
        return schema.UsageUpdate(
            session_update="usage_update",
            used=max(event.input_tokens + event.output_tokens, 0),
            size=0,  # the context window, which no agent reports
            cost=cost,
        )

    def _paths(self, tool_input: Any) -> list[Path]:
        if not isinstance(tool_input, Mapping):
            return []
        values = [tool_input[name] for name in _PATH_FIELDS if isinstance(tool_input.get(name), str)]
        listed = tool_input.get("paths")
        values += [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
        places = [self.location(value) for value in values[:MOST_PATHS]]
        return list(dict.fromkeys(place for place in places if place is not None))


def kind_of(name: str) -> schema.ToolKind:
    """Return the protocol's kind for a tool of an agent."""
    lowered = name.lower()
    if lowered in get_args(schema.ToolKind):
        return lowered  # type: ignore[return-value] # an agent that is driven over this protocol
    return next((kind for kind, words in _KIND_WORDS if any(word in lowered for word in words)), "other")


def plan_update(entries: list[Any]) -> schema.AgentPlanUpdate:
    """Return a plan; agents name the parts of an entry in several ways."""
    planned = []
    for entry in entries[:MOST_ENTRIES]:
        fields = entry if isinstance(entry, Mapping) else {"content": entry}
        text = next((fields[name] for name in ("content", "step", "text", "title") if fields.get(name)), "")
        status: Any = str(fields.get("status", "pending")).replace("-", "_").replace("inprogress", "in_progress")
        priority: Any = fields.get("priority")
        planned.append(
            schema.PlanEntry(
                content=one_line(str(text))[: _TITLE * 5],
                priority=priority if priority in get_args(schema.PlanEntryPriority) else "medium",
                status=status if status in get_args(schema.PlanEntryStatus) else "pending",
            )
        )
    return schema.AgentPlanUpdate(session_update="plan", entries=planned)


def failure(error: ErrorInfo) -> str:
    """Return an error of a delegation with its hint."""
    return one_line(error.message) + (f" {one_line(error.hint)}" if error.hint else "")
