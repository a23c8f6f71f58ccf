"""A tool that a file defines: its command, and a parser for what it prints."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Launch
from understudy.model.config.tool_definitions import DefinedOptions, EventRule, ToolDefinition
from understudy.model.delegation.events import UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text import foreign_json
from understudy.model.tools import declared
from understudy.process.programs.children import Child
from understudy.runners.agent_clis.launching import invalid
from understudy.runners.agent_clis.streams.claude_stream import ClaudeStream
from understudy.runners.agent_clis.streams.event_stream import EventLines
from understudy.runners.agent_clis.streams.opencode_stream import OpencodeStream
from understudy.runners.agent_clis.streams.stream_values import login_hint
from understudy.runners.defined_tools.event_rules import MappedLines, classified, matching, unmatched
from understudy.runners.driver import command_line, driver
from understudy.runners.driver.attempt import pays_vendor
from understudy.runners.driver.child_source import Dialect, EndsByExit, JsonLinesSource, LineParser, Reply, TextSource
from understudy.runners.driver.command_line import Command
from understudy.runners.driver.source import AgentFinished, Heartbeat, SourceItem
from understudy.runners.runner import Emit, Outcome, Question, Task
from understudy.secrets import Redactor

MAX_LINE_BYTES = 64 << 20
"""pi repeats all messages of a run in its last line, images included."""
_DIALECTS = Path(__file__).parent / "dialects"
_SHOWN_CHARACTERS = 160
"""The most characters of a line in a remark."""


class Runner:
    """Runs a tool that a file defines."""

    def __init__(self, tool: ToolDefinition) -> None:
        """Take the definition; validation has checked it."""
        self.capabilities = tool.capabilities()
        self._tool = tool

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the task to its end; kinds besides those of ``driver``: ``config_invalid``, those of the definition."""
        tool = self._tool
        with command_line.prepared(task, tool.command, tool.prompt_delivery, options_of(task, tool)) as prepared:
            command = replace(prepared, environment=self.capabilities.environment)
            source = _source(task, command, tool)
            return await driver.drive(task, emit, source)


def options_of(task: Task, tool: ToolDefinition) -> list[str]:
    """Return the arguments for the options of a task's delegator; raise ``config_invalid`` for a contradiction."""
    launch, options = task.delegator.launch or Launch(), tool.options or DefinedOptions()
    if launch.yolo and launch.permission_mode is not None:
        mode = launch.permission_mode
        raise invalid(task, f"sets `launch.yolo` and asks for the mode {mode!r}", "Remove one of them.")
    modes = {mode.name: mode.arguments for mode in tool.permission_modes}
    config = None if task.mcp_config is None else str(task.mcp_config)
    values = {"model": task.delegator.model, "sessionId": task.session_id, "mcpConfig": config}
    return [
        *(command_line.fill(options.model or [], values) if task.delegator.model else ()),
        *modes.get(launch.permission_mode or "", ()),
        *((options.yolo or ()) if launch.yolo else ()),
        *(command_line.fill(options.resume or [], values) if task.session_id else ()),
        *(command_line.fill(options.relay or [], values) if config is not None else ()),
        *(launch.flags or ()),
    ]


def parser_of(tool: ToolDefinition, tree: Path) -> LineParser:
    """Return the parser of what ``tool`` prints, with paths relative to ``tree``."""
    match tool.dialect:
        case "claude":
            return OneWay(ClaudeStream(tree), declared("claude"), tool)
        case "opencode":
            return OneWay(OpencodeStream(tree), declared("opencode"), tool)
        case "events":
            return EventLines()
        case _:
            rules = rules_of(tool.dialect) or tool
            return MappedLines(tool, rules, tree)


def remarks(tool: ToolDefinition, output: bytes) -> list[str]:
    """Return what in ``output``, the first bytes of a run, shows that the definition leaves something out."""
    if tool.dialect == "text":
        first = next((line for line in output.splitlines() if line.strip()), b"")
        return ["The output is JSON, and is used as text. Set `dialect`, or add rules."] if _is_object(first) else []
    rules = rules_of(tool.dialect) or (tool if tool.dialect == "json" else None)
    lines = unmatched(rules, output) if rules is not None else []
    if not lines:
        return []
    shown = lines[0] if len(lines[0]) <= _SHOWN_CHARACTERS else lines[0][: _SHOWN_CHARACTERS - 1] + "…"
    counted = "1 line matches" if len(lines) == 1 else f"{len(lines)} lines match"
    return [f"{counted} no rule; the first is {shown}"]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(foreign_json.decode(line), dict)
    except foreign_json.UNREADABLE:
        return False


def _source(task: Task, command: Command, tool: ToolDefinition) -> TextSource | JsonLinesSource:
    if tool.dialect == "text":
        return _Text(tool, task, command)
    parser = parser_of(tool, task.worktree or command.cwd)
    if isinstance(parser, OneWay):
        parser.knows_cost = pays_vendor(declared(tool.dialect), task, {**command.environment, **task.environment})
    return _JsonLines(tool, task, command, parser, MAX_LINE_BYTES)


class _Text(TextSource):
    """Plain text, with failures of the kinds that the definition gives them."""

    def __init__(self, tool: ToolDefinition, *source: Any) -> None:
        super().__init__(*source)
        self._tool = tool

    async def explain(self) -> ErrorInfo | None:
        """Return the crash, as the kind that the definition gives it."""
        crash = await super().explain()
        return crash and _typed(self._tool, crash, self._child, self.redactor)


class _JsonLines(JsonLinesSource):
    """JSON lines, with failures of the kinds that the definition gives them."""

    def __init__(self, tool: ToolDefinition, *source: Any) -> None:
        super().__init__(*source)
        self._tool = tool

    async def explain(self) -> ErrorInfo | None:
        """Return the crash, as the kind that the definition gives it."""
        crash = await super().explain()
        return crash and _typed(self._tool, crash, self._child, self.redactor)


def _typed(tool: ToolDefinition, crash: ErrorInfo, child: Child | None, redactor: Redactor) -> ErrorInfo:
    """Return a crash as the first rule of ``tool`` that matches says, or as it is."""
    if child is None or child.ended is None or crash.kind is not ErrorKind.TOOL_CRASHED:
        return crash
    stderr = redactor.redact(child.stderr_tail().decode("utf-8", "replace")).strip()
    if matching(tool, "", stderr=stderr, code=child.ended.code, record=None) is None:
        return crash
    error = classified(tool, "", stderr=stderr, code=child.ended.code)
    return msgspec.structs.replace(error, message=crash.message)


class OneWay:
    """Parses the lines of a program that got its prompt before; nothing can be written to it.

    Errors name the program, not the agent CLI whose format this is.
    """

    def __init__(self, parser: LineParser, capabilities: Capabilities, tool: ToolDefinition) -> None:
        """Take the parser of the agent CLI with these ``capabilities``, for the output of ``tool``."""
        self._parser = parser
        self._known = capabilities
        self.knows_cost = True
        """Whether the cost that its lines report is true: some agent CLIs count at the prices of their vendor only."""
        self._tool = tool.capabilities()

    def line(self, line: bytes) -> Sequence[SourceItem | Reply] | None:
        """Parse one line; a question ends the attempt, because it could never be answered."""
        try:
            items = self._parser.line(line)
        except UnderstudyError as error:
            raise UnderstudyError.from_info(self._own(error.info())) from None
        return None if items is None else list(self._items(items))

    def ended(self, code: int, stderr: str) -> Sequence[SourceItem]:
        """Return how a program ended that exited with ``code`` without announcing a result."""
        if isinstance(self._parser, EndsByExit):
            return list(self._items(self._parser.ended(code, stderr)))
        error = self._parser.explain(stderr) if code and isinstance(self._parser, Dialect) else None
        return [AgentFinished(error=self._own(error))] if error is not None else []

    def _items(self, items: Iterable[SourceItem | Reply]) -> Iterator[SourceItem]:
        for item in items:
            if isinstance(item, Reply):
                yield Heartbeat()
            elif isinstance(item, Question):
                error = ErrorInfo(
                    ErrorKind.PERMISSION_DENIED,
                    f"{self._tool.title} asks for permission ({item.title}), and cannot be answered.",
                    "Choose a permission mode in which it asks for nothing.",
                )
                yield AgentFinished(error=error)
            elif isinstance(item, AgentFinished) and item.error is not None:
                yield msgspec.structs.replace(item, error=self._own(item.error))
            elif isinstance(item, UsageReport) and not self.knows_cost:
                yield msgspec.structs.replace(item, cost_usd=None)
            else:
                yield item

    def _own(self, error: ErrorInfo) -> ErrorInfo:
        hint = login_hint(self._tool) if error.kind is ErrorKind.AUTH_FAILED else error.hint
        message = error.message.replace(self._known.title, self._tool.title, 1)
        return msgspec.structs.replace(error, message=message, hint=hint)


@functools.cache
def rules_of(dialect: str) -> ToolDefinition | None:
    """Return the definition whose rules are for the JSON lines of ``dialect``, if a file in ``dialects`` has one."""
    file = _DIALECTS / f"{dialect}.toml"
    if not file.is_file():
        return None
    definition = tomllib.loads(file.read_text(encoding="utf-8"))
    return ToolDefinition(name=dialect, **definition | {"events": [EventRule(**rule) for rule in definition["events"]]})
