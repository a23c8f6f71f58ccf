"""The formats of agent CLIs that Understudy drives itself, for other programs that print the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from understudy.model.capabilities import Capabilities
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.runners.agent_clis.streams.agent_failures import login_hint
from understudy.runners.driver.child_source import Dialect, EndsByExit, LineParser, Reply
from understudy.runners.driver.source import AgentFinished, Heartbeat, SourceItem
from understudy.runners.runner import Question


class OneWay:
    """Parses the lines of a program that got its prompt before; nothing can be written to it.

    Errors name the program, not the agent CLI whose format this is.
    """

    def __init__(self, parser: LineParser, agent: Capabilities, tool: ToolDefinition) -> None:
        """Take the ``parser`` of ``agent``, an agent CLI, for the output of ``tool``."""
        self._parser = parser
        self._known = agent
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
            else:
                yield item

    def _own(self, error: ErrorInfo) -> ErrorInfo:
        hint = login_hint(self._tool) if error.kind is ErrorKind.AUTH_FAILED else error.hint
        message = error.message.replace(self._known.title, self._tool.title, 1)
        return msgspec.structs.replace(error, message=message, hint=hint)
