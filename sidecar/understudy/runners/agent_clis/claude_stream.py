"""Parse Claude Code's JSON stream, and encode messages to it.

The format was derived from the streams in ``tests/runners/recordings/claude``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.delegations import PermissionKind, PermissionOption
from understudy.model.errors import ErrorInfo, ErrorKind, retry_time, scope_of
from understudy.model.events import File, Phase, Session, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished, Heartbeat, QuestionWithdrawn, SourceItem
from understudy.runners.runner import Question

OLDEST = (2, 1, 0)
"""Earlier versions lack a part of the protocol (``--setting-sources``, questions on standard output)."""
LONGEST_INPUT = 4000
"""Longest text kept of a tool's input, in characters; the change itself is in the worktree."""
LONGEST_DETAIL = 4000
"""Longest value shown in a question, in characters; a count replaces the omitted middle."""
LONGEST_QUESTION = 4 * LONGEST_DETAIL
MOST_ITEMS = 100
_MAX_COUNT = 10**12
_KINDS: dict[str, PermissionKind] = {
    **dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Read", "NotebookRead", "Glob", "Grep", "LS"), "read"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    "Bash": "execute",
}
"""Tool → what it does; all other tools, including those of MCP servers, are ``other``."""
_SEARCHES = frozenset({"Glob", "Grep", "LS"})
"""Tools that search the current folder unless a path is given."""

_STATUS_KINDS = {
    401: ErrorKind.AUTH_FAILED,
    403: ErrorKind.AUTH_FAILED,
    404: ErrorKind.MODEL_NOT_FOUND,
    408: ErrorKind.TIMED_OUT,
    413: ErrorKind.CONTEXT_TOO_LONG,
    429: ErrorKind.RATE_LIMITED,
}
_TEXT_KINDS = (
    (r"prompt is too long|context window|context_length", ErrorKind.CONTEXT_TOO_LONG),
    (r"credit balance|usage limit|quota|spend limit|hit your limit", ErrorKind.QUOTA_EXHAUSTED),
    (r"invalid api key|/login|not logged in|authentication|oauth token", ErrorKind.AUTH_FAILED),
    (r"was lost|ECONNRESET|stream_truncated|truncated|malformed response|closed mid", ErrorKind.STREAM_TRUNCATED),
    (r"connection refused|unable to connect|connection error|ENOTFOUND|ECONN", ErrorKind.CONNECTION_FAILED),
    (r"overloaded", ErrorKind.OVERLOADED),
    (r"timed out|timeout", ErrorKind.TIMED_OUT),
    (r"usage policy|unable to respond to this request", ErrorKind.CONTENT_REFUSED),
    (r"no conversation found", ErrorKind.BAD_REQUEST),
)
"""Its error texts, for errors without a status; the first match counts."""
_HINTS = {
    ErrorKind.AUTH_FAILED: "Log in with `claude` in a terminal, or give the delegator a key by reference.",
    ErrorKind.QUOTA_EXHAUSTED: "Wait until the limit is lifted, or choose another delegator.",
    ErrorKind.RATE_LIMITED: "Retry later.",
    ErrorKind.OVERLOADED: "Retry later.",
    ErrorKind.CONTEXT_TOO_LONG: "Delegate a smaller piece, with fewer files.",
    ErrorKind.MODEL_NOT_FOUND: "Correct the delegator's model.",
    ErrorKind.CONNECTION_FAILED: "Check whether the network, the proxy and the model server are up.",
    ErrorKind.STREAM_TRUNCATED: "Retry; if it happens often, check the proxies between you and the server.",
}


_Item = SourceItem | Reply


class ClaudeStream:
    """Parses the output of one run, and encodes the replies."""

    def __init__(self, tree: Path) -> None:
        """Start a run; paths are reported relative to ``tree``."""
        self._trees = [str(tree), os.path.realpath(tree)]
        self._streamed: set[str] = set()
        self._message = ""
        self._session: str | None = None
        self._edits: dict[str, str] = {}
        self._inputs: dict[str, Any] = {}
        self._used: dict[str, tuple[int, int, int, int]] = {}
        self._calls = 0
        self._last_text = ""

    # -- from Claude Code ------------------------------------------------------------------------------------

    def line(self, line: bytes) -> list[_Item] | None:
        """Parse one line and return its events."""
        try:
            said = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if not isinstance(said, dict):
            return None
        read = {
            "system": self._system,
            "stream_event": self._stream,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "control_request": self._control,
        }.get(str(said.get("type")))
        if said.get("type") == "control_cancel_request":
            return [QuestionWithdrawn(question_id=str(said.get("request_id")))]
        try:
            return list(read(said)) if read is not None else []
        except (AttributeError, TypeError, ValueError, KeyError):
            # Another version's structure: kept in the log only. But a question must not wait forever.
            return [_not_answered(said, "it")] if said.get("type") == "control_request" else None

    def _system(self, said: dict[str, Any]) -> Iterator[_Item]:
        kind = said.get("subtype")
        if kind == "init":
            version = str(said.get("claude_code_version", ""))
            if is_too_old(version):
                yield AgentFinished(error=_too_old(f"Claude Code {version} is too old for Understudy."))
                return
            if said.get("session_id") and said["session_id"] != self._session:
                self._session = str(said["session_id"])
                yield Session(session_id=self._session)
        elif kind == "api_retry":
            status = said.get("error_status") or said.get("error") or "no answer"
            count = f"{said.get('attempt')} of {said.get('max_retries')}"
            yield Phase(text=f"The API failed ({status}); retrying, {count}")
        elif kind == "status" and said.get("status") == "compacting":
            yield Phase(text="Compacting its conversation")

    def _stream(self, said: dict[str, Any]) -> Iterator[_Item]:
        event = said["event"]
        kind = event.get("type")
        if kind == "message_start":
            self._message = str(event["message"].get("id"))
            self._count(self._message, event["message"].get("usage"))
        elif kind == "message_delta":
            self._count(self._message, event.get("usage"))
            yield self._usage()
        elif kind == "content_block_delta" and said.get("parent_tool_use_id") is None:
            delta = event["delta"]
            if delta.get("type") == "text_delta":
                self._streamed.add(self._message)
                yield Text(text=_string(delta["text"]))
            elif delta.get("type") == "thinking_delta":
                self._streamed.add(self._message)
                yield Thinking(text=_string(delta["thinking"]))
            elif delta.get("type") == "input_json_delta":
                yield Heartbeat()  # it is writing the input of a tool, perhaps a whole file

    def _assistant(self, said: dict[str, Any]) -> Iterator[_Item]:
        message = said["message"]
        name = str(message.get("id"))
        if message.get("model") == "<synthetic>":
            return  # an error instead of the model's answer; the result repeats it, with its kind
        if name not in self._used:
            self._count(name, message.get("usage"))
        mine = said.get("parent_tool_use_id") is None
        for block in message.get("content") or ():
            kind = block.get("type")
            if kind == "tool_use":
                yield self._tool_call(block)
            elif mine and kind == "text":
                self._last_text = _string(block["text"])
                if name not in self._streamed and self._last_text:
                    yield Text(text=self._last_text)
            elif mine and kind == "thinking" and name not in self._streamed and block.get("thinking"):
                yield Thinking(text=_string(block["thinking"]))

    def _tool_call(self, block: dict[str, Any]) -> ToolCall:
        self._calls += 1
        given = block.get("input") or {}
        identifier, tool = str(block.get("id")), str(block.get("name"))
        path = given.get("file_path") or given.get("notebook_path")
        if _KINDS.get(tool) == "edit" and isinstance(path, str) and len(self._edits) < MOST_ITEMS * 10:
            self._edits[identifier] = path
        return ToolCall(call_id=identifier, name=tool, title=self._title(tool, given), input=bounded(given))

    def _user(self, said: dict[str, Any]) -> Iterator[_Item]:
        content = said["message"].get("content")
        detail = said.get("tool_use_result")
        for block in content if isinstance(content, list) else ():
            if block.get("type") != "tool_result":
                continue
            identifier, good = str(block.get("tool_use_id")), not block.get("is_error")
            yield ToolResult(call_id=identifier, ok=good, output=_words(block.get("content")))
            path = self._edits.pop(identifier, None)
            relative = self._relative(path) if path is not None and good else None
            if relative is not None:
                made = isinstance(detail, dict) and detail.get("type") == "create"
                yield File(path=relative, change="added" if made else "modified")

    def _control(self, said: dict[str, Any]) -> Iterator[_Item]:
        identifier, request = str(said["request_id"]), said["request"]
        if request.get("subtype") != "can_use_tool":
            yield _not_answered(said, repr(request.get("subtype")))
            return
        given = request.get("input") or {}
        rules = [item for item in request.get("permission_suggestions") or () if item.get("type") == "addRules"]
        options = [PermissionOption(id="allow_once", title="Allow", kind="allow_once")]
        if rules:
            options.append(PermissionOption(id="allow_always", title="Allow for this run", kind="allow_always"))
        options.append(PermissionOption(id="reject_once", title="Reject", kind="reject_once"))
        self._inputs[identifier] = (given, rules)
        tool = str(request.get("tool_name"))
        kind = _KINDS.get(tool, "other")
        yield Question(
            question_id=identifier,
            title=self._title(tool, given),
            detail=self._detail(request, given),
            options=options,
            tool=tool,
            kind=kind,
            command=given["command"] if kind == "execute" and isinstance(given.get("command"), str) else None,
            paths=self._paths(tool, given) if kind in {"read", "edit"} else None,
        )

    def _result(self, said: dict[str, Any]) -> Iterator[_Item]:
        yield self._final_usage(said)
        text = said.get("result") if isinstance(said.get("result"), str) else None
        failed = failure_of(said)
        if failed is not None:
            yield AgentFinished(error=failed)
        else:
            # Sometimes the result is empty although the last message was not.
            text = text or self._last_text
            yield AgentFinished(text=text, summary=text or None)

    # -- to Claude Code --------------------------------------------------------------------------------------

    def message(self, text: str) -> bytes:
        """Return the line that delivers a user message."""
        # A message that begins with a slash would be run as one of its commands.
        text = text if not text.startswith("/") else f"\n{text}"
        content = [{"type": "text", "text": text.encode("utf-8", "replace").decode("utf-8")}]
        return _line({"type": "user", "message": {"role": "user", "content": content}})

    def answer(self, question_id: str, option: PermissionOption, note: str | None) -> bytes:
        """Return the answer to a question; an allowed rule applies to this run and is not saved."""
        given, rules = self._inputs.pop(question_id, ({}, []))
        answer: dict[str, Any]
        if option.kind.startswith("allow"):
            answer = {"behavior": "allow", "updatedInput": given}
            if option.kind == "allow_always":
                answer["updatedPermissions"] = [{**rule, "destination": "session"} for rule in rules]
        else:
            answer = {
                "behavior": "deny",
                "message": note
                or "The user denied permission. Continue without it, or explain why that is impossible.",
            }
        response = {"subtype": "success", "request_id": question_id, "response": answer}
        return _line({"type": "control_response", "response": response})

    def interrupt(self) -> bytes:
        """Return the request to end the turn."""
        return _line({"type": "control_request", "request_id": "interrupt", "request": {"subtype": "interrupt"}})

    def explain(self, said: str) -> ErrorInfo | None:
        """Return why it exited before its first line."""
        if "root/sudo" in said:
            hint = "Run as another user, or choose another permission mode."
            return ErrorInfo(ErrorKind.PERMISSION_DENIED, "Claude Code refuses to bypass permissions as root.", hint)
        if found := re.search(r"unknown option '?(-[^\s'=]*)", said):
            return _too_old(f"This version of Claude Code does not know the option {found[1]}.")
        if "permission-prompt-tool" in said or "stream-json" in said:
            return _too_old(f"This version of Claude Code does not support two-way JSON: {said[:200]}")
        return None

    # -- details ---------------------------------------------------------------------------------------------

    def _title(self, tool: str, given: Mapping[str, Any]) -> str:
        path = given.get("file_path") or given.get("notebook_path") or given.get("path")
        if tool == "Bash":
            command = str(given.get("command", "")).strip()
            first = command.split("\n")[0][:160]
            return f"Run {first}{'' if first == command else ' …'}"
        if isinstance(path, str):
            return f"{tool} {self._relative(path) or path}"[:200]
        for name in ("url", "query", "pattern", "description", "skill", "subject"):
            if isinstance(given.get(name), str):
                return f"{tool} {given[name]}"[:200]
        return tool

    def _paths(self, tool: str, given: Mapping[str, Any]) -> list[str] | None:
        path = given.get("file_path") or given.get("notebook_path") or given.get("path")
        if path is None and tool in _SEARCHES:
            path = "."
        return [self._relative(path) or path] if isinstance(path, str) else None

    def _detail(self, request: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        values = {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in given.items()
        }
        said = values.pop("description", None)
        lines = []
        if isinstance(request.get("blocked_path"), str):
            lines.append(f"It accesses {request['blocked_path']}, outside the folders that it may use.")
        if isinstance(request.get("decision_reason"), str):
            lines.append(f"Reason for asking: {_shortened(request['decision_reason'], LONGEST_DETAIL)}")
        # The effect comes before the agent's description of it, and a long value does not displace a short one.
        for name, shown in sorted(values.items(), key=lambda item: len(item[1])):
            lines.append(f"{name}: {_shortened(shown, LONGEST_DETAIL)}")
        if said is not None:
            lines.append(f"The agent's description: {_shortened(said, LONGEST_DETAIL)}")
        return _shortened("\n".join(lines), LONGEST_QUESTION)

    def _relative(self, path: str) -> str | None:
        for tree in self._trees:
            relative = os.path.relpath(Path(tree, path), tree)
            if relative != ".." and not relative.startswith("../"):
                return relative
        return None

    def _count(self, name: str, usage: Any) -> None:
        if isinstance(usage, dict):
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
            before = self._used.get(name, (0, 0, 0, 0))
            read, cached, written, out = (_whole(usage.get(item), old) for item, old in zip(names, before, strict=True))
            self._used[name] = (read, cached, written, out)

    def _usage(self, thoughts: int = 0, cost: str | None = None) -> UsageReport:
        read, cached, written, out = (sum(column) for column in zip(*self._used.values(), strict=True))
        # Anthropic's input count excludes what was cached; the contract's includes it.
        return UsageReport(
            input_tokens=read + cached + written,
            output_tokens=out,
            cache_read_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=thoughts,
            turns=len(self._used),
            tool_calls=self._calls,
            cost_usd=cost,
        )

    def _final_usage(self, said: dict[str, Any]) -> UsageReport:
        # By model, because that includes its subagents; and since the last result, because a resumed session starts
        # with its earlier usage. Versions without usage by model report only the total of the session.
        names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
        since = said.get("model_usage_since_last_result")
        fresh = isinstance(since, dict)
        given = since if fresh else said.get("modelUsage")
        models = [model for model in (given or {}).values() if isinstance(model, dict)]
        totals = [tuple(_whole(model.get(name)) for name in names) for model in models]
        cost = sum(float(model.get("costUSD") or 0) for model in models) if fresh else said.get("total_cost_usd")
        turns = len(self._used)
        if totals:
            read, cached, written, out = (sum(column) for column in zip(*totals, strict=True))
            self._used = {"result": (read, cached, written, out)}
        elif not self._used:
            self._used = {"result": (0, 0, 0, 0)}
        thoughts = sum(_whole(model.get("thinkingTokens")) for model in models)
        report = self._usage(thoughts, _money(cost))
        report.turns = turns
        return report


def failure_of(said: Mapping[str, Any]) -> ErrorInfo | None:
    """Return the failure that a ``result`` line reports, None for success.

    ``subtype`` says ``success`` for failed requests too: only ``is_error`` and the status count.
    """
    kind, reason = str(said.get("subtype")), str(said.get("terminal_reason", ""))
    if said.get("stop_reason") == "refusal":
        return ErrorInfo(ErrorKind.CONTENT_REFUSED, "The model refused the task.", "Reword the task.")
    if not said.get("is_error") and kind == "success":
        return None
    errors = said.get("errors")
    texts = [said["result"]] if said.get("result") else [str(text) for text in errors or ()]
    text = "; ".join(map(str, texts))[:1000] or f"The run ended with {reason or kind}."
    if kind == "error_max_turns":
        return ErrorInfo(ErrorKind.BUDGET_EXHAUSTED, f"Claude Code stopped: {text}", "Raise `maxTurns`.")
    if kind == "error_max_budget_usd":
        return ErrorInfo(ErrorKind.BUDGET_EXHAUSTED, f"Claude Code stopped: {text}", "Raise `maxUsd`.")
    if reason.startswith("aborted"):
        return ErrorInfo(ErrorKind.TOOL_CRASHED, f"Claude Code was interrupted ({reason}).", "Try again.")
    found = _kind_of(said.get("api_error_status"), reason, text)
    # The time at which a subscription's limit resets follows the text, in epoch seconds: "… limit reached|1767225600".
    until = re.search(r"limit reached\|(\d{10})\b", text)
    return ErrorInfo(
        found,
        f"Claude Code failed: {text}",
        _HINTS.get(found, "Correct what it names, then retry."),
        retry_at=retry_time(int(until[1])) if until is not None else None,
        scope=scope_of(found),
    )


def is_too_old(version: str) -> bool:
    """Return whether a version, as reported by the program, is known to lack what Understudy needs."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) < OLDEST


def bounded(value: Any, depth: int = 6) -> Any:
    """Return a tool's input with long texts, long lists and deep nesting cut to a readable size."""
    if isinstance(value, str):
        more = len(value) - LONGEST_INPUT
        return value if more <= 0 else f"{value[:LONGEST_INPUT]}… ({more} more characters)"
    if depth == 0:
        return None
    if isinstance(value, list):
        return [bounded(item, depth - 1) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {str(name)[:200]: bounded(item, depth - 1) for name, item in list(value.items())[:MOST_ITEMS]}
    return value


def _shortened(text: str, longest: int) -> str:
    """Return the beginning and the end of a text, with a count of the omitted characters between them."""
    more = len(text) - longest
    if more <= 0:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {more} characters are not shown here …\n{text[-half:]}"


def _kind_of(status: Any, reason: str, text: str) -> ErrorKind:
    if reason == "prompt_too_long":
        return ErrorKind.CONTEXT_TOO_LONG
    said = next((kind for pattern, kind in _TEXT_KINDS if re.search(pattern, text, re.IGNORECASE)), None)
    if isinstance(status, int):
        if said is ErrorKind.QUOTA_EXHAUSTED:  # a text that arrives with status 429 or 400
            return said
        if status >= 500:
            return ErrorKind.OVERLOADED
        return _STATUS_KINDS.get(status, said or ErrorKind.BAD_REQUEST)
    return said or ErrorKind.TOOL_CRASHED


def _too_old(message: str) -> ErrorInfo:
    hint = "Install the current version (npm install -g @anthropic-ai/claude-code@latest), or correct `launch.flags`."
    return ErrorInfo(ErrorKind.TOOL_MISSING, message, hint)


def _words(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in content[:MOST_ITEMS])
    return str(content) if content is not None else ""


def _whole(value: Any, otherwise: int = 0) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MAX_COUNT else otherwise


def _money(value: Any) -> str | None:
    try:
        amount = Decimal(str(value)).quantize(Decimal("0.000001"))
    except InvalidOperation:
        return None
    return format(amount.normalize(), "f") if 0 <= amount < 10**9 else None


def _not_answered(said: Mapping[str, Any], what: str) -> Reply:
    error = {"subtype": "error", "request_id": said.get("request_id"), "error": f"Understudy does not support {what}."}
    return Reply(data=_line({"type": "control_response", "response": error}))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
