"""Parse the events of pi's RPC mode, and encode commands to it.

The format was derived from the streams in ``tests/runners/recordings/pi`` and from pi's ``docs/rpc.md`` (0.73.1).

Every update of a message repeats the whole message, and the end of a run every message of it, so each line is decoded
into a structure that has only the fields needed: the decoder skips all others.

A run may end several times: pi tries again after some failures, and after it made a conversation shorter. It announces
both in the same breath as the end, so whatever follows an end comes before the answer to a question that is asked then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec

from understudy.model.delegation import events
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import File, Phase, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import foreign_json
from understudy.model.tools import declared
from understudy.model.wire import ready
from understudy.runners.agent_clis.streams.stream_values import (
    MOST_ITEMS,
    WorktreePaths,
    bounded,
    failure,
    line_of,
    string,
    whole,
)
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished, Heartbeat, MessageTaken, SourceItem
from understudy.runners.runner import Message

CAPABILITIES = declared("pi")
MAX_LINE_BYTES = 64 << 20
"""The last line of a run repeats what the agent has read, images included."""
_STATUS = re.compile(r"^(?:Error: )?([45]\d\d)\b")
"""How the texts of failed requests begin."""
_START_FAILURES = (
    (re.compile(r"No session found matching|Stored session working directory"), ErrorKind.BAD_REQUEST),
    (re.compile(r"No API key|No models available|Authentication failed|Use /login"), ErrorKind.AUTH_FAILED),
    (re.compile(r'Model "[^"]*" not found'), ErrorKind.MODEL_NOT_FOUND),
    (re.compile(r"^Error: |Unknown option|Failed to load extension", re.MULTILINE), ErrorKind.CONFIG_INVALID),
)

"""What it prints on standard error before it exits without a line of output; the first match counts."""
_DIALOGS = frozenset({"select", "confirm", "input", "editor"})
_TITLES = {
    "bash": "Run",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "grep": "Search",
    "find": "Find",
    "ls": "List",
}

_Item = SourceItem | Reply


class _Line(msgspec.Struct, frozen=True):
    type: str = ""


class _Delta(msgspec.Struct, frozen=True):
    type: str = ""
    delta: str = ""


class _Update(msgspec.Struct, frozen=True, rename="camel"):
    assistant_message_event: _Delta


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Cost(msgspec.Struct, frozen=True):
    total: float = 0.0


class _Usage(msgspec.Struct, frozen=True, rename="camel"):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: _Cost = _Cost()


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"[]")
    usage: _Usage | None = None
    stop_reason: str = ""
    error_message: str = ""


class _MessageEnd(msgspec.Struct, frozen=True):
    message: _Message


class _ToolStart(msgspec.Struct, frozen=True, rename="camel"):
    tool_call_id: str
    tool_name: str
    args: dict[str, Any] = {}


class _Output(msgspec.Struct, frozen=True):
    content: list[_Block] = []


class _ToolEnd(msgspec.Struct, frozen=True, rename="camel"):
    tool_call_id: str
    result: _Output | None = None
    is_error: bool = False


class _Retry(msgspec.Struct, frozen=True, rename="camel"):
    attempt: int = 0
    max_attempts: int = 0
    error_message: str = ""


class _Compacted(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""
    will_retry: bool = False
    error_message: str | None = None


class _State(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str = ""


class _Response(msgspec.Struct, frozen=True):
    id: str | None = None
    command: str = ""
    success: bool = False
    error: str = ""
    data: _State | None = None


class _Dialog(msgspec.Struct, frozen=True):
    id: str
    method: str = ""


class PiStream:
    """Parses the output of one run, and encodes the replies."""

    def __init__(self, tree: Path) -> None:
        """Start a run; paths are reported relative to ``tree``."""
        self._tree = WorktreePaths(tree)
        self._sent: list[Message] = []
        """Messages that were sent and that it has not got to."""
        self._ends = 0
        """How often the run has ended; each end asks a question with this number."""
        self._continues = False
        """Whether the run continues after its last end."""
        self._last = _Message()
        """The last message of the model."""
        self._last_text = ""
        self._failed: str | None = None
        """Why its conversation could not be made shorter."""
        self._edits: dict[str, tuple[str, str]] = {}
        """Call → its tool and file, while it has not ended."""
        self._known: set[str] = set()
        """Files that it has read or written."""
        self._used = dict.fromkeys(("input", "output", "cache_read", "cache_write"), 0)
        self._cost = Decimal(0)
        self._turns = 0
        self._calls = 0

    # -- from pi ---------------------------------------------------------------------------------------------

    def line(self, line: bytes) -> list[_Item] | None:
        """Parse one line and return its events."""
        try:
            kind = foreign_json.decode(line, lambda data: msgspec.json.decode(data, type=ready(_Line))).type
            declared = self._LINES.get(kind)
            if declared is None:
                return [] if kind else None
            read, structure = declared
            return list(
                read(self, foreign_json.decode(line, lambda data: msgspec.json.decode(data, type=ready(structure))))
            )
        except foreign_json.UNREADABLE:
            return None  # another version's structure, or not in the format: kept in the log only

    def _response(self, response: _Response) -> Iterator[_Item]:
        if response.command == "prompt" and not response.success:
            yield AgentFinished(error=failure_of(response.error, _kind_at_start(response.error)))
        elif response.command == "get_state" and response.data is not None and response.data.session_id:
            if response.id == "start":
                yield events.Session(session_id=response.data.session_id)
            elif response.id == f"end-{self._ends}" and not self._continues:
                yield self._finished()

    def _finished(self) -> AgentFinished:
        last = self._last
        if self._failed is not None:
            return AgentFinished(error=failure_of(self._failed, ErrorKind.CONTEXT_TOO_LONG))
        if last.stop_reason == "error":
            return AgentFinished(error=failure_of(last.error_message, of_request=True))
        if last.stop_reason == "aborted":
            return AgentFinished(error=ErrorInfo(ErrorKind.TOOL_CRASHED, "pi was interrupted.", "Try again."))
        if last.stop_reason == "length":
            hint = "Delegate a smaller piece, or raise `maxTokens` in the delegator's model properties."
            return AgentFinished(
                error=ErrorInfo(ErrorKind.OUTPUT_TRUNCATED, "pi's model reached the limit of one answer.", hint)
            )
        return AgentFinished(text=self._last_text, summary=self._last_text or None)

    def _agent_started(self, _said: _Line) -> Iterator[_Item]:
        self._continues = True
        yield Heartbeat()

    def _agent_ended(self, _said: _Line) -> Iterator[_Item]:
        self._continues = False
        self._ends += 1
        yield Reply(data=line_of({"id": f"end-{self._ends}", "type": "get_state"}))

    def _update(self, update: _Update) -> Iterator[_Item]:
        change = update.assistant_message_event
        if change.type == "text_delta":
            yield Text(text=change.delta)
        elif change.type == "thinking_delta":
            yield Thinking(text=change.delta)
        else:
            yield Heartbeat()  # it is writing the input of a tool, perhaps a whole file

    def _message(self, ended: _MessageEnd) -> Iterator[_Item]:
        message = ended.message
        if message.role == "user" and self._sent:
            text = _text_of(message)
            taken = next((sent for sent in self._sent if _exact(sent.text) == text), None)
            if taken is not None:
                self._sent.remove(taken)
                yield MessageTaken(message_id=taken.message_id)
        if message.role != "assistant":
            return
        self._last = message
        self._last_text = _text_of(message)
        usage = message.usage
        if usage is None or message.stop_reason == "error":
            return
        used = self._used
        for name in used:
            used[name] += whole(getattr(usage, name))
        if 0 < usage.cost.total < 1e9:  # it is 0 for models without a price
            self._cost += Decimal(str(usage.cost.total))
        self._turns += 1
        yield UsageReport(
            # The reported input excludes what was cached; the contract's includes it.
            input_tokens=used["input"] + used["cache_read"] + used["cache_write"],
            output_tokens=used["output"],
            cache_read_tokens=used["cache_read"],
            cache_write_tokens=used["cache_write"],
            reasoning_tokens=0,
            turns=self._turns,
            tool_calls=self._calls,
            cost_usd=format(self._cost.quantize(Decimal("0.000001")).normalize(), "f") if self._cost else None,
        )

    def _tool_started(self, start: _ToolStart) -> Iterator[_Item]:
        self._calls += 1
        arguments = start.args
        path = string(arguments.get("path"))
        relative = (self._tree.relative(path) if path else None) or path
        if path and len(self._edits) < MOST_ITEMS:
            self._edits[start.tool_call_id] = (start.tool_name, path)
        shown = string(arguments.get("command")).strip() or string(arguments.get("pattern")) or relative
        first = shown.split("\n")[0][:160]
        title = f"{_TITLES.get(start.tool_name, start.tool_name.capitalize())} {first}{'' if first == shown else ' …'}"
        yield ToolCall(call_id=start.tool_call_id, name=start.tool_name, title=title.strip(), input=bounded(arguments))

    def _tool_ended(self, end: _ToolEnd) -> Iterator[_Item]:
        blocks = end.result.content[:MOST_ITEMS] if end.result is not None else []
        output = "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in blocks)
        yield ToolResult(call_id=end.tool_call_id, ok=not end.is_error, output=output)
        tool, path = self._edits.pop(end.tool_call_id, ("", ""))
        relative = self._tree.relative(path) if path and not end.is_error else None
        if relative is None:
            return
        if tool in {"write", "edit"}:
            # pi does not say whether a file is new; it writes known files only to replace them.
            is_new = tool == "write" and relative not in self._known
            change: Literal["added", "modified"] = "added" if is_new else "modified"
            yield File(path=relative, change=change)
        self._known.add(relative)

    def _alive(self, _said: _Line) -> Iterator[_Item]:
        yield Heartbeat()

    def _retrying(self, retry: _Retry) -> Iterator[_Item]:
        self._continues = True
        count = f"{retry.attempt} of {retry.max_attempts}"
        yield Phase(text=f"The request failed ({retry.error_message[:200]}); retrying, {count}")

    def _compacting(self, _said: _Line) -> Iterator[_Item]:
        self._continues = True
        yield Phase(text="Compacting its conversation")

    def _compacted(self, compaction: _Compacted) -> Iterator[_Item]:
        if compaction.will_retry:
            yield Heartbeat()
            return
        if compaction.reason == "overflow" and self._last.stop_reason == "error":
            self._failed = self._last.error_message or compaction.error_message or ""
        yield from self._agent_ended(_Line())

    def _dialog(self, dialog: _Dialog) -> Iterator[_Item]:
        # Only the user's own extensions ask; a dialog that is cancelled allows nothing.
        if dialog.method in _DIALOGS:
            yield Reply(data=line_of({"type": "extension_ui_response", "id": dialog.id, "cancelled": True}))

    _LINES: dict[str, tuple[Any, type]] = {  # noqa: RUF012 - never changed
        "response": (_response, _Response),
        "agent_start": (_agent_started, _Line),
        "agent_end": (_agent_ended, _Line),
        "turn_start": (_alive, _Line),
        "message_update": (_update, _Update),
        "message_end": (_message, _MessageEnd),
        "tool_execution_start": (_tool_started, _ToolStart),
        "tool_execution_update": (_alive, _Line),
        "tool_execution_end": (_tool_ended, _ToolEnd),
        "auto_retry_start": (_retrying, _Retry),
        "compaction_start": (_compacting, _Line),
        "compaction_end": (_compacted, _Compacted),
        "extension_ui_request": (_dialog, _Dialog),
    }

    # -- to pi -----------------------------------------------------------------------------------------------

    def message(self, text: str) -> bytes:
        """Return the lines that start the run with its prompt."""
        exact = text.encode("utf-8", "replace").decode("utf-8")
        ask = line_of({"id": "start", "type": "get_state"})
        return ask + line_of({"id": "prompt", "type": "prompt", "message": exact})

    def further(self, message: Message) -> bytes:
        """Return the line that steers the run; it gets to it between two steps."""
        self._sent.append(message)
        return line_of({"id": "steer", "type": "steer", "message": _exact(message.text)})

    def answer(self, question_id: str, option: PermissionOption, note: str | None) -> bytes:  # noqa: ARG002
        """Return nothing: pi asks no questions."""
        return b""

    def interrupt(self) -> bytes:
        """Return the command that ends the run."""
        return line_of({"id": "abort", "type": "abort"})

    def explain(self, stderr: str) -> ErrorInfo | None:
        """Return why it exited before its first line."""
        kind = _kind_at_start(stderr)
        if kind is ErrorKind.BAD_REQUEST:
            return ErrorInfo(kind, f"pi failed: {stderr[:1000]}", "Start it again without the earlier session.")
        return failure_of(stderr, kind) if kind is not None else None


def _text_of(message: _Message) -> str:
    try:
        blocks = foreign_json.decode(
            bytes(message.content), lambda data: msgspec.json.decode(data, type=ready(list[_Block] | str))
        )
    except msgspec.ValidationError:
        return ""
    return blocks if isinstance(blocks, str) else "".join(block.text for block in blocks if block.type == "text")


def _exact(text: str) -> str:
    # What begins with a slash would be replaced by a skill of that name.
    return ("\n" if text.startswith("/") else "") + text.encode("utf-8", "replace").decode("utf-8")


def failure_of(text: str, kind: ErrorKind | None = None, *, of_request: bool = False) -> ErrorInfo:
    """Return the failure of a request whose text pi repeats; the text begins with the HTTP status if there was one."""
    status = _STATUS.match(text)
    text = text.partition("\n\nUse /login")[0]  # what follows names files of its package, which is a temporary one
    code = int(status[1]) if status is not None else 0
    return failure(CAPABILITIES, text, kind=kind, status=code, of_request=of_request)


def _kind_at_start(text: str) -> ErrorKind | None:
    return next((kind for words, kind in _START_FAILURES if words.search(text)), None)
