"""Parse Claude Code's JSON stream, and encode messages to it.

The format was derived from the streams in ``tests/runners/recordings/claude``. ``qwen_stream`` is a variant of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.config.delegators import PermissionKind
from understudy.model.delegation.delegations import PermissionOption, no_usage
from understudy.model.delegation.events import File, Phase, Session, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.tools import declared
from understudy.runners.agent_clis.streams.stream_values import (
    MOST_ITEMS,
    RecordStream,
    WorktreePaths,
    bounded,
    failure,
    line_of,
    shortened,
    string,
    whole,
)
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished, Heartbeat, MessageTaken, QuestionWithdrawn, SourceItem
from understudy.runners.runner import Message, Question

CAPABILITIES = declared("claude")
OLDEST = (2, 1, 0)
"""Earlier versions lack a part of the protocol (``--setting-sources``, questions on standard output)."""
LONGEST_DETAIL = 4000
"""Longest value shown in a question, in characters; a count replaces the omitted middle."""
LONGEST_QUESTION = 4 * LONGEST_DETAIL
_KINDS: dict[str, PermissionKind] = {
    **dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Read", "NotebookRead", "Glob", "Grep", "LS"), "read"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    "Bash": "execute",
}
"""Tool → what it does; all other tools, including those of MCP servers, are ``other``."""
_SEARCHES = frozenset({"Glob", "Grep", "LS"})
"""Tools that search the current folder unless a path is given."""

_OWN_WORDS = (
    (r"usage limit|quota|spend limit|hit your limit", ErrorKind.QUOTA_EXHAUSTED),
    (r"/login|not logged in|authentication|oauth token", ErrorKind.AUTH_FAILED),
    (r"usage policy|unable to respond to this request", ErrorKind.CONTENT_REFUSED),
    (r"no conversation found", ErrorKind.BAD_REQUEST),
)
"""Error texts of its own; the first match counts."""

_NOTHING = UsageReport(**msgspec.structs.asdict(no_usage()))

_Item = SourceItem | Reply


class ClaudeStream(RecordStream):
    """Parses the output of one run, and encodes the replies."""

    tool = CAPABILITIES
    version_field = "claude_code_version"
    oldest = OLDEST
    kinds: Mapping[str, PermissionKind] = _KINDS
    searches: frozenset[str] = _SEARCHES
    repeats_messages = True
    """Whether it repeats a message when it gets to it; one that does not has got to it when the turn before ended."""
    cache_in_input = False
    """Whether the reported input tokens include those that were read from a cache."""

    def __init__(self, tree: Path) -> None:
        """Start a run; paths are reported relative to ``tree``."""
        self._tree = WorktreePaths(tree)
        self._streamed: set[str] = set()
        self._message = ""
        self._session: str | None = None
        self._edits: dict[str, str] = {}
        self._inputs: dict[str, Any] = {}
        self._used: dict[str, tuple[int, int, int, int]] = {}
        self._calls = 0
        self._last_text = ""
        self._sent: list[str] = []
        """Messages that were sent and that it has not got to."""
        self._last_turn: AgentFinished | None = None
        """The end of the last turn, while the next one has not begun."""
        self._earlier: UsageReport | None = None
        """What the turns used that have ended."""
        self._background = 0
        """How many background tasks are open."""
        self._notified = False
        """Whether a task has ended since the last turn: that begins another turn."""

    # -- from Claude Code ------------------------------------------------------------------------------------

    def read(self, record: dict[str, Any]) -> Iterable[_Item]:
        """Return the events of a record."""
        if record.get("type") == "control_cancel_request":
            return [QuestionWithdrawn(question_id=str(record.get("request_id")))]
        read = {
            "system": self._system,
            "stream_event": self._stream,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "control_request": self._control,
        }.get(str(record.get("type")))
        return read(record) if read is not None else []

    def unread(self, record: dict[str, Any]) -> list[_Item] | None:
        """Return a refusal of a question, which must not wait forever."""
        return [_not_answered(record, "it")] if record.get("type") == "control_request" else None

    def ended(self, code: int, stderr: str) -> list[SourceItem]:  # noqa: ARG002
        """Return the end of the last turn, if it exited before the one that a message was to begin."""
        return [self._last_turn] if self._last_turn is not None and code == 0 else []

    def _system(self, record: dict[str, Any]) -> Iterator[_Item]:
        kind = record.get("subtype")
        if kind == "init":
            version = str(record.get(self.version_field, ""))
            if is_too_old(version, self.oldest):
                yield AgentFinished(error=self._too_old(f"{self.tool.title} {version} is too old for Understudy."))
                return
            if record.get("session_id") and record["session_id"] != self._session:
                self._session = str(record["session_id"])
                yield Session(session_id=self._session)
        elif kind == "api_retry":
            status = record.get("error_status") or record.get("error") or "no answer"
            count = f"{record.get('attempt')} of {record.get('max_retries')}"
            yield Phase(text=f"The API failed ({status}); retrying, {count}")
        elif kind == "status" and record.get("status") == "compacting":
            yield Phase(text="Compacting its conversation")
        elif kind == "task_notification":
            self._notified = True
            yield Heartbeat()
        elif kind == "background_tasks_changed":
            self._background = len(record["tasks"])
            if self._last_turn is not None and not (self._background or self._notified or self._sent):
                yield self._last_turn
            else:
                yield Heartbeat()

    def _stream(self, record: dict[str, Any]) -> Iterator[_Item]:
        event = record["event"]
        kind = event.get("type")
        if kind == "message_start":
            self._message = str(event["message"].get("id"))
            self._count(self._message, event["message"].get("usage"))
        elif kind == "message_delta":
            self._count(self._message, event.get("usage"))
            yield self._usage()
        elif kind == "content_block_delta" and record.get("parent_tool_use_id") is None:
            delta = event["delta"]
            if delta.get("type") == "text_delta":
                self._streamed.add(self._message)
                yield Text(text=string(delta["text"]))
            elif delta.get("type") == "thinking_delta":
                self._streamed.add(self._message)
                yield Thinking(text=string(delta["thinking"]))
            elif delta.get("type") == "input_json_delta":
                yield Heartbeat()  # it is writing the input of a tool, perhaps a whole file

    def _assistant(self, record: dict[str, Any]) -> Iterator[_Item]:
        self._last_turn = None
        message = record["message"]
        name = str(message.get("id"))
        if self._is_error(message):
            return  # an error instead of the model's answer; the result repeats it, with its kind
        if name not in self._used:
            self._count(name, message.get("usage"))
        mine = record.get("parent_tool_use_id") is None
        for block in message.get("content") or ():
            kind = block.get("type")
            if kind == "tool_use":
                yield self._tool_call(block)
            elif mine and kind == "text":
                self._last_text = string(block["text"])
                if name not in self._streamed and self._last_text:
                    yield Text(text=self._last_text)
            elif mine and kind == "thinking" and name not in self._streamed and block.get("thinking"):
                yield Thinking(text=string(block["thinking"]))

    def _tool_call(self, block: dict[str, Any]) -> ToolCall:
        self._calls += 1
        arguments = block.get("input") or {}
        identifier, tool = str(block.get("id")), str(block.get("name"))
        path = arguments.get("file_path") or arguments.get("notebook_path")
        if self.kinds.get(tool) == "edit" and isinstance(path, str) and len(self._edits) < MOST_ITEMS * 10:
            self._edits[identifier] = path
        return ToolCall(call_id=identifier, name=tool, title=self._title(tool, arguments), input=bounded(arguments))

    def _user(self, record: dict[str, Any]) -> Iterator[_Item]:
        if record.get("isReplay") and record.get("uuid") in self._sent:
            self._sent.remove(record["uuid"])
            yield MessageTaken(message_id=record["uuid"])
        content = record["message"].get("content")
        detail = record.get("tool_use_result")
        for block in content if isinstance(content, list) else ():
            if block.get("type") != "tool_result":
                continue
            identifier, good = str(block.get("tool_use_id")), not block.get("is_error")
            yield ToolResult(call_id=identifier, ok=good, output=_words(block.get("content")))
            path = self._edits.pop(identifier, None)
            relative = self._tree.relative(path) if path is not None and good else None
            if relative is not None:
                yield File(path=relative, change="added" if self._created({**block, "detail": detail}) else "modified")

    def _control(self, record: dict[str, Any]) -> Iterator[_Item]:
        identifier, request = str(record["request_id"]), record["request"]
        if request.get("subtype") != "can_use_tool":
            yield _not_answered(record, repr(request.get("subtype")))
            return
        arguments = request.get("input") or {}
        rules = [item for item in request.get("permission_suggestions") or () if item.get("type") == "addRules"]
        options = [PermissionOption(id="allow_once", title="Allow", kind="allow_once")]
        if rules:
            options.append(PermissionOption(id="allow_always", title="Allow for this run", kind="allow_always"))
        options.append(PermissionOption(id="reject_once", title="Reject", kind="reject_once"))
        self._inputs[identifier] = (arguments, rules)
        tool = str(request.get("tool_name"))
        kind = self.kinds.get(tool, "other")
        yield Question(
            question_id=identifier,
            title=self._title(tool, arguments),
            detail=self._detail(request, arguments),
            options=options,
            tool=tool,
            kind=kind,
            command=arguments["command"] if kind == "execute" and isinstance(arguments.get("command"), str) else None,
            paths=self._paths(tool, arguments) if kind in {"read", "edit"} else None,
        )

    def _result(self, record: dict[str, Any]) -> Iterator[_Item]:
        used = self._final_usage(record)
        yield used
        text = record.get("result") if isinstance(record.get("result"), str) else None
        failed = self._failure(record)
        if failed is not None:
            yield AgentFinished(error=failed)
            return
        # Sometimes the result is empty although the last message was not.
        text = text or self._last_text
        finished = AgentFinished(text=text, summary=text or None)
        if "result" in self._used:
            self._earlier, self._used = used, {}
        if not self._sent and not self._background:
            yield finished
            return
        # A message that was sent, or the end of a background task, begins another turn.
        self._last_turn, self._notified = finished, False
        if self._sent and not self.repeats_messages:
            yield MessageTaken(message_id=self._sent.pop(0))
        if self._background:
            tasks = "a background task" if self._background == 1 else f"{self._background} background tasks"
            yield Phase(text=f"Waiting for {tasks}")

    # -- to Claude Code --------------------------------------------------------------------------------------

    def message(self, text: str) -> bytes:
        """Return the line that delivers the prompt."""
        return line_of(self._user_message(text))

    def further(self, message: Message) -> bytes:
        """Return the line that delivers another message; it gets to it between two steps, or after its turn."""
        self._sent.append(message.message_id)
        return line_of({**self._user_message(message.text), "uuid": message.message_id})

    def _user_message(self, text: str) -> dict[str, Any]:
        # A message that begins with a slash would be run as one of its commands.
        text = text if not text.startswith("/") else f"\n{text}"
        content = [{"type": "text", "text": text.encode("utf-8", "replace").decode("utf-8")}]
        return {"type": "user", "message": {"role": "user", "content": content}}

    def answer(self, question_id: str, option: PermissionOption, note: str | None) -> bytes:
        """Return the answer to a question; an allowed rule applies to this run and is not saved."""
        arguments, rules = self._inputs.pop(question_id, ({}, []))
        answer: dict[str, Any]
        if option.kind.startswith("allow"):
            answer = {"behavior": "allow", "updatedInput": arguments}
            if option.kind == "allow_always":
                answer["updatedPermissions"] = [{**rule, "destination": "session"} for rule in rules]
        else:
            answer = {
                "behavior": "deny",
                "message": note
                or "The user denied permission. Continue without it, or explain why that is impossible.",
            }
        response = {"subtype": "success", "request_id": question_id, "response": answer}
        return line_of({"type": "control_response", "response": response})

    def interrupt(self) -> bytes:
        """Return the request to end the turn."""
        return line_of({"type": "control_request", "request_id": "interrupt", "request": {"subtype": "interrupt"}})

    def explain(self, stderr: str) -> ErrorInfo | None:
        """Return why it exited before its first line."""
        if "root/sudo" in stderr:
            hint = "Run as another user, or choose another permission mode."
            return ErrorInfo(ErrorKind.PERMISSION_DENIED, "Claude Code refuses to bypass permissions as root.", hint)
        if match := re.search(r"unknown option '?(-[^\s'=]*)", stderr):
            return self._too_old(f"This version of Claude Code does not know the option {match[1]}.")
        if "permission-prompt-tool" in stderr or "stream-json" in stderr:
            return self._too_old(f"This version of Claude Code does not support two-way JSON: {stderr[:200]}")
        return None

    # -- what differs between tools that speak this format -----------------------------------------------------

    def _is_error(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message is an error of the tool instead of the model's answer."""
        return message.get("model") == "<synthetic>"

    def _created(self, result: Mapping[str, Any]) -> bool:
        """Return whether the result of an edit says that it made a new file."""
        detail = result["detail"]
        return isinstance(detail, dict) and detail.get("type") == "create"

    def _failure(self, record: Mapping[str, Any]) -> ErrorInfo | None:
        """Return the failure that a ``result`` line reports."""
        return failure_of(record)

    def _too_old(self, message: str) -> ErrorInfo:
        hint = f"{self.tool.install_hint} again for the current version, or correct `launch.flags`."
        return ErrorInfo(ErrorKind.TOOL_MISSING, message, hint)

    # -- details ---------------------------------------------------------------------------------------------

    def _title(self, tool: str, arguments: Mapping[str, Any]) -> str:
        path = arguments.get("file_path") or arguments.get("notebook_path") or arguments.get("path")
        if self.kinds.get(tool) == "execute":
            command = str(arguments.get("command", "")).strip()
            first = command.split("\n")[0][:160]
            return f"Run {first}{'' if first == command else ' …'}"
        if isinstance(path, str):
            return f"{tool} {self._tree.relative(path) or path}"[:200]
        for name in ("url", "query", "pattern", "description", "skill", "subject"):
            if isinstance(arguments.get(name), str):
                return f"{tool} {arguments[name]}"[:200]
        return tool

    def _paths(self, tool: str, arguments: Mapping[str, Any]) -> list[str] | None:
        path = arguments.get("file_path") or arguments.get("notebook_path") or arguments.get("path")
        if path is None and tool in self.searches:
            path = "."
        return [self._tree.relative(path) or path] if isinstance(path, str) else None

    def _detail(self, request: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
        values = {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in arguments.items()
        }
        description = values.pop("description", None)
        lines = []
        if isinstance(request.get("blocked_path"), str):
            inside = self._tree.relative(request["blocked_path"])
            reason = f"{request['blocked_path']}, outside the folders that it may use" if inside is None else inside
            lines.append(f"It accesses {reason}.")
        if isinstance(request.get("decision_reason"), str):
            lines.append(f"Reason for asking: {shortened(request['decision_reason'], LONGEST_DETAIL)}")
        # The effect comes before the agent's description of it, and a long value does not displace a short one.
        for name, shown in sorted(values.items(), key=lambda item: len(item[1])):
            lines.append(f"{name}: {shortened(shown, LONGEST_DETAIL)}")
        if description is not None:
            lines.append(f"The agent's description: {shortened(description, LONGEST_DETAIL)}")
        return shortened("\n".join(lines), LONGEST_QUESTION)

    def _count(self, name: str, usage: Any) -> None:
        if isinstance(usage, dict):
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
            before = self._used.get(name, (0, 0, 0, 0))
            read, cached, written, out = (whole(usage.get(item), old) for item, old in zip(names, before, strict=True))
            self._used[name] = (read, cached, written, out)

    def _usage(self, thoughts: int = 0, cost: str | None = None) -> UsageReport:
        read, cached, written, out = (sum(column) for column in zip(*self._used.values(), strict=True))
        before = self._earlier or _NOTHING
        return UsageReport(
            # Anthropic's input count excludes what was cached; the contract's includes it.
            input_tokens=before.input_tokens + (read if self.cache_in_input else read + cached + written),
            output_tokens=before.output_tokens + out,
            cache_read_tokens=before.cache_read_tokens + cached,
            cache_write_tokens=before.cache_write_tokens + written,
            reasoning_tokens=before.reasoning_tokens + thoughts,
            turns=before.turns + len(self._used),
            tool_calls=self._calls,
            cost_usd=cost,
        )

    def _final_usage(self, record: dict[str, Any]) -> UsageReport:
        # By model, because that includes its subagents; and since the last result, because a resumed session starts
        # with its earlier usage. Versions without usage by model report only the total of the session.
        names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
        since = record.get("model_usage_since_last_result")
        fresh = isinstance(since, dict)
        by_model = since if fresh else record.get("modelUsage")
        models = [model for model in (by_model or {}).values() if isinstance(model, dict)]
        totals = [tuple(whole(model.get(name)) for name in names) for model in models]
        cost = sum(float(model.get("costUSD") or 0) for model in models) if fresh else record.get("total_cost_usd")
        turns = len(self._used) + (self._earlier.turns if self._earlier is not None else 0)
        if fresh and self._earlier is not None and self._earlier.cost_usd is not None:
            cost = float(cost or 0) + float(self._earlier.cost_usd)
        if totals and not fresh:
            self._earlier = None  # it includes them
        if totals:
            read, cached, written, out = (sum(column) for column in zip(*totals, strict=True))
            self._used = {"result": (read, cached, written, out)}
        elif not self._used:
            self._used = {"result": (0, 0, 0, 0)}
        thoughts = sum(whole(model.get("thinkingTokens")) for model in models)
        report = self._usage(thoughts, _money(cost))
        report.turns = turns
        return report


def failure_of(record: Mapping[str, Any]) -> ErrorInfo | None:
    """Return the failure that a ``result`` line reports, None for success.

    ``subtype`` says ``success`` for failed requests too: only ``is_error`` and the status count.
    """
    kind, reason = str(record.get("subtype")), str(record.get("terminal_reason", ""))
    if record.get("stop_reason") == "refusal":
        return ErrorInfo(ErrorKind.CONTENT_REFUSED, "The model refused the task.", "Reword the task.")
    if not record.get("is_error") and kind == "success":
        return None
    errors = record.get("errors")
    texts = [record["result"]] if record.get("result") else [str(text) for text in errors or ()]
    text = "; ".join(map(str, texts))[:1000] or f"The run ended with {reason or kind}."
    if kind == "error_max_turns":
        return ErrorInfo(ErrorKind.BUDGET_EXHAUSTED, f"Claude Code stopped: {text}", "Raise `max_turns`.")
    if kind == "error_max_budget_usd":
        return ErrorInfo(ErrorKind.BUDGET_EXHAUSTED, f"Claude Code stopped: {text}", "Raise `max_usd`.")
    if reason.startswith("aborted"):
        return ErrorInfo(ErrorKind.TOOL_CRASHED, f"Claude Code was interrupted ({reason}).", "Try again.")
    # The time at which a subscription's limit resets follows the text, in epoch seconds: "… limit reached|1767225600".
    until = re.search(r"limit reached\|(\d{10})\b", text)
    status = whole(record.get("api_error_status"))
    return failure(
        CAPABILITIES,
        text,
        kind=ErrorKind.CONTEXT_TOO_LONG if reason == "prompt_too_long" else _named_kind(text, status),
        status=status,
        resets_at=int(until[1]) if until is not None else None,
    )


def is_too_old(version: str, oldest: tuple[int, ...] = OLDEST) -> bool:
    """Return whether a version, as reported by the program, is known to lack what Understudy needs."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return match is not None and tuple(map(int, match.groups())) < oldest


def _named_kind(text: str, status: int) -> ErrorKind | None:
    """Return the kind that its own words name; a status decides first, except for quotas (400 or 429)."""
    named = next((kind for words, kind in _OWN_WORDS if re.search(words, text, re.IGNORECASE)), None)
    return named if not status or named is ErrorKind.QUOTA_EXHAUSTED else None


def _words(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in content[:MOST_ITEMS])
    return str(content) if content is not None else ""


def _money(value: Any) -> str | None:
    try:
        amount = Decimal(str(value)).quantize(Decimal("0.000001"))
    except InvalidOperation:
        return None
    return format(amount.normalize(), "f") if 0 <= amount < 10**9 else None


def _not_answered(record: Mapping[str, Any], what: str) -> Reply:
    error = {
        "subtype": "error",
        "request_id": record.get("request_id"),
        "error": f"Understudy does not support {what}.",
    }
    return Reply(data=line_of({"type": "control_response", "response": error}))
