"""Parse the messages of Codex's app server, and encode messages to it.

The format was derived from the streams in ``tests/runners/recordings/codex`` and from the types that ``codex app-server
generate-ts`` prints (0.169.0). The conversation begins with three requests, each sent when the one before is answered:
``initialize``, ``thread/start`` or ``thread/resume``, and ``turn/start`` with the prompt.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.delegation import events
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import File, Phase, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import foreign_json
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

CAPABILITIES = declared("codex")
_COUNTS = {
    "input_tokens": "inputTokens",
    "cache_read_tokens": "cachedInputTokens",
    "cache_write_tokens": "cacheWriteInputTokens",
    "output_tokens": "outputTokens",
    "reasoning_tokens": "reasoningOutputTokens",
}
"""Our count → the field of Codex."""
_LONGEST_DETAIL = 4000
_METHOD_NOT_FOUND = -32601
_KINDS = {
    "contextWindowExceeded": ErrorKind.CONTEXT_TOO_LONG,
    "sessionBudgetExceeded": ErrorKind.BUDGET_EXHAUSTED,
    "usageLimitExceeded": ErrorKind.QUOTA_EXHAUSTED,
    "rateLimitExceeded": ErrorKind.RATE_LIMITED,
    "serverOverloaded": ErrorKind.OVERLOADED,
    "flexUnavailable": ErrorKind.OVERLOADED,
    "policyCapacityUnavailable": ErrorKind.OVERLOADED,
    "internalServerError": ErrorKind.OVERLOADED,
    "modelNotFound": ErrorKind.MODEL_NOT_FOUND,
    "cyberPolicy": ErrorKind.CONTENT_REFUSED,
    "misalignmentPolicyViolation": ErrorKind.CONTENT_REFUSED,
    "unauthorized": ErrorKind.AUTH_FAILED,
    "tooManyDenials": ErrorKind.PERMISSION_DENIED,
    # With an HTTP status, that decides.
    "httpConnectionFailed": ErrorKind.CONNECTION_FAILED,
    "responseStreamConnectionFailed": ErrorKind.CONNECTION_FAILED,
    "responseStreamDisconnected": ErrorKind.STREAM_TRUNCATED,
    "responseTooManyFailedAttempts": ErrorKind.CONNECTION_FAILED,
}
"""``codexErrorInfo`` of a failed turn → kind."""
_CHANGES = {"add": "added", "delete": "deleted", "update": "modified"}


class _Step(enum.IntEnum):
    """The requests of the conversation; the value is the id of the request."""

    INITIALIZE = 1
    THREAD = 2
    TURN = 3
    LATER = 4
    """An interrupt or another message."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a thread and its turn are started with."""

    tree: str
    model: str | None
    resumes: str | None
    """The thread to continue."""
    approval: str
    sandbox: Mapping[str, Any]


_Item = SourceItem | Reply


class CodexStream(RecordStream):
    """Parses the output of one run, and encodes the replies."""

    def __init__(self, tree: Path, session: Session) -> None:
        """Start a run; paths are reported relative to ``tree``."""
        self._session = session
        self._tree = WorktreePaths(tree)
        self._prompt: str | None = None
        self._thread = ""
        self._turn = ""
        self._streamed: set[str] = set()
        self._questions: dict[str, Any] = {}
        """Id of a question → the id of its request, which may be a number."""
        self._edits: dict[str, list[str]] = {}
        """Item → the files that it changes, while it has not ended."""
        self._used: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
        self._turns = 0
        self._calls = 0
        self._last_text = ""
        self._held: list[Message] = []
        """Messages from before the turn began."""
        self._resets_at: int | None = None

    # -- from Codex ------------------------------------------------------------------------------------------

    def read(self, record: dict[str, Any]) -> Iterable[_Item]:
        """Return the events of a message."""
        if "method" not in record:
            return self._answered(record)
        if "id" in record:
            return self._request(record)
        read = self._NOTIFICATIONS.get(str(record["method"]))
        return read(self, record["params"]) if read is not None else []

    def unread(self, record: dict[str, Any]) -> list[_Item] | None:
        """Return a refusal of a question, which must not wait forever."""
        return [_refused(record)] if "method" in record and "id" in record else None

    def _answered(self, response: dict[str, Any]) -> Iterator[_Item]:
        step = response.get("id")
        if "error" in response and step != _Step.LATER:
            message = string(response["error"].get("message")) or "no reason"
            unknown = self._session.resumes is not None and step == _Step.THREAD
            hint = "Start it again without the earlier session." if unknown else "Correct what it names, then retry."
            kind = ErrorKind.BAD_REQUEST if step != _Step.INITIALIZE else ErrorKind.TOOL_MISSING
            yield AgentFinished(error=ErrorInfo(kind, f"Codex refused the request: {message}", hint))
        elif step == _Step.INITIALIZE:
            yield Reply(data=line_of({"method": "initialized", "params": {}}) + self._start_thread())
        elif step == _Step.THREAD:
            self._thread = str(response["result"]["thread"]["id"])
            yield events.Session(session_id=self._thread)
            yield Reply(data=self._start_turn())
        elif step == _Step.TURN:
            self._turn = str(response["result"]["turn"]["id"])
            held, self._held = self._held, []
            for held_message in held:
                yield Reply(data=self.further(held_message))

    def _request(self, request: dict[str, Any]) -> Iterator[_Item]:
        params = request["params"]
        method, item = request["method"], string(params.get("itemId"))
        identifier = f"{request['id']}"
        if method == "item/commandExecution/requestApproval":
            command = _command(params["command"]) if isinstance(params.get("command"), str) else None
            title = f"Run {_first_line(command)}" if command else "Reach the network"
            question: dict[str, Any] = {"tool": "shell", "kind": "execute" if command else "fetch", "command": command}
        elif method == "item/fileChange/requestApproval":
            paths = self._edits.get(item) or []
            title = f"Edit {', '.join(paths[:3]) or 'files'}"[:200]
            question = {"tool": "apply_patch", "kind": "edit", "paths": paths or None}
        else:
            yield _refused(request)
            return
        self._questions[identifier] = request["id"]
        yield Question(
            question_id=identifier,
            title=title,
            detail=_detail(params),
            options=[
                PermissionOption(id="accept", title="Allow", kind="allow_once"),
                PermissionOption(id="acceptForSession", title="Allow for this run", kind="allow_always"),
                PermissionOption(id="decline", title="Reject", kind="reject_once"),
            ],
            **question,
        )

    def _resolved(self, params: dict[str, Any]) -> Iterator[_Item]:
        if self._questions.pop(str(params["requestId"]), None) is not None:
            yield QuestionWithdrawn(question_id=str(params["requestId"]))

    def _text(self, params: dict[str, Any]) -> Iterator[_Item]:
        self._streamed.add(str(params["itemId"]))
        yield Text(text=string(params["delta"]))

    def _thinking(self, params: dict[str, Any]) -> Iterator[_Item]:
        yield Thinking(text=string(params["delta"]))

    def _alive(self, _params: dict[str, Any]) -> Iterator[_Item]:
        yield Heartbeat()

    def _started(self, params: dict[str, Any]) -> Iterator[_Item]:
        item = params["item"]
        kind, identifier = item["type"], str(item["id"])
        if kind == "contextCompaction":
            yield Phase(text="Compacting its conversation")
        described = self._call(kind, item)
        if kind == "fileChange" and len(self._edits) < MOST_ITEMS:
            paths = [string(edit["path"]) for edit in item["changes"][:MOST_ITEMS]]
            self._edits[identifier] = [self._tree.relative(path) or path for path in paths]
        if described is not None:
            name, title, arguments = described
            self._calls += 1
            yield ToolCall(call_id=identifier, name=name, title=title, input=bounded(arguments))

    def _call(self, kind: str, item: dict[str, Any]) -> tuple[str, str, dict[str, Any]] | None:
        """Return name, title and input of a tool call; None for items of other kinds."""
        if kind == "commandExecution":
            command = _command(item["command"])
            return "shell", f"Run {_first_line(command)}", {"command": command, "cwd": item.get("cwd")}
        if kind == "fileChange":
            paths = [self._tree.relative(string(edit["path"])) or string(edit["path"]) for edit in item["changes"]]
            return "apply_patch", f"Edit {', '.join(paths[:3])}"[:200], {"changes": item["changes"]}
        if kind == "mcpToolCall":
            return (
                f"{item['server']}.{item['tool']}",
                f"{item['tool']} ({item['server']})",
                {"arguments": item["arguments"]},
            )
        if kind == "dynamicToolCall":
            return str(item["tool"]), str(item["tool"]), {"arguments": item["arguments"]}
        if kind == "webSearch":
            return "web_search", f"Search {string(item.get('query'))}"[:200], {"query": item.get("query")}
        return None

    def _completed(self, params: dict[str, Any]) -> Iterator[_Item]:
        item = params["item"]
        kind, identifier = item["type"], str(item["id"])
        if kind == "userMessage" and item.get("clientId"):
            yield MessageTaken(message_id=str(item["clientId"]))
        if kind == "agentMessage":
            self._last_text = string(item["text"])
            if identifier not in self._streamed and self._last_text:
                yield Text(text=self._last_text)
            self._streamed.discard(identifier)
            return
        if self._call(kind, item) is None:
            return
        good = item.get("status", "completed") == "completed" and item.get("exitCode") in {0, None}
        yield ToolResult(call_id=identifier, ok=good, output=_output(item))
        if kind == "fileChange":
            self._edits.pop(identifier, None)
            for edit in item["changes"] if good else ():
                path = self._tree.relative(string(edit["path"]))
                if path is not None:
                    change = "renamed" if edit["kind"].get("move_path") else _CHANGES[edit["kind"]["type"]]
                    yield File(path=path, change=change)  # type: ignore[arg-type]

    def _plan(self, params: dict[str, Any]) -> Iterator[_Item]:
        states = {"inProgress": "in_progress"}
        yield events.Plan(
            entries=[
                {"content": string(step["step"]), "status": states.get(step["status"], step["status"])}
                for step in params["plan"][:100]
            ]
        )

    def _usage(self, params: dict[str, Any]) -> Iterator[_Item]:
        # The sum of what each request of this turn used: the total of a resumed thread includes its earlier turns, and
        # the last use of these is reported again when it is resumed.
        if params["turnId"] != self._turn:
            return
        last = params["tokenUsage"]["last"]
        for name, field in _COUNTS.items():
            self._used[name] += whole(last.get(field))
        self._turns += 1
        yield UsageReport(**self._used, turns=self._turns, tool_calls=self._calls)

    def _rate_limits(self, params: dict[str, Any]) -> Iterator[_Item]:
        windows = [params["rateLimits"].get(name) for name in ("primary", "secondary")]
        full = [
            window["resetsAt"]
            for window in windows
            if window and window.get("usedPercent", 0) >= 100 and window.get("resetsAt")
        ]
        self._resets_at = max(full, default=None)
        yield from ()

    def _error(self, params: dict[str, Any]) -> Iterator[_Item]:
        if params.get("willRetry"):
            details = string(params["error"].get("additionalDetails"))
            yield Phase(text=f"{string(params['error']['message'])[:200]}{f' ({details[:200]})' if details else ''}")
            # It obeys the server's `Retry-After` of any length, without a word.
            yield Heartbeat(failure=failure_of({**params["error"], "message": details or params["error"]["message"]}))

    def _turn_ended(self, params: dict[str, Any]) -> Iterator[_Item]:
        turn = params["turn"]
        if turn["status"] == "completed":
            yield AgentFinished(text=self._last_text, summary=self._last_text or None)
        elif turn["status"] == "interrupted":
            yield AgentFinished(error=ErrorInfo(ErrorKind.TOOL_CRASHED, "Codex was interrupted.", "Try again."))
        else:
            yield AgentFinished(error=failure_of(turn["error"] or {}, self._resets_at))

    _NOTIFICATIONS = {  # noqa: RUF012 - never changed
        "serverRequest/resolved": _resolved,
        "item/agentMessage/delta": _text,
        "item/reasoning/summaryTextDelta": _thinking,
        "item/reasoning/textDelta": _thinking,
        "item/commandExecution/outputDelta": _alive,
        "item/fileChange/outputDelta": _alive,
        "item/fileChange/patchUpdated": _alive,
        "item/mcpToolCall/progress": _alive,
        "item/started": _started,
        "item/completed": _completed,
        "turn/plan/updated": _plan,
        "thread/tokenUsage/updated": _usage,
        "account/rateLimits/updated": _rate_limits,
        "error": _error,
        "turn/completed": _turn_ended,
    }

    # -- to Codex --------------------------------------------------------------------------------------------

    def message(self, text: str) -> bytes:
        """Return the line that begins the conversation."""
        self._prompt = text
        client = {"name": "understudy", "title": "Understudy", "version": "1"}
        return _call(_Step.INITIALIZE, "initialize", {"clientInfo": client, "capabilities": None})

    def further(self, message: Message) -> bytes:
        """Return the line that adds a message to the turn; before the turn, nothing: then it follows its beginning."""
        if not self._turn:
            self._held.append(message)
            return b""
        params = {
            "threadId": self._thread,
            "expectedTurnId": self._turn,
            "clientUserMessageId": message.message_id,
            "input": [_user_text(message.text)],
        }
        return _call(_Step.LATER, "turn/steer", params)

    def answer(self, question_id: str, option: PermissionOption, note: str | None) -> bytes:  # noqa: ARG002
        """Return the answer to a question; Codex takes no note."""
        identifier = self._questions.pop(question_id, question_id)
        return line_of({"id": identifier, "result": {"decision": option.id}})

    def interrupt(self) -> bytes:
        """Return the request to end the turn."""
        return _call(_Step.LATER, "turn/interrupt", {"threadId": self._thread, "turnId": self._turn})

    def explain(self, stderr: str) -> ErrorInfo | None:
        """Return why it exited before its first line."""
        if "unrecognized subcommand" in stderr or "unexpected argument" in stderr:
            hint = "Install the current version (npm install -g @openai/codex@latest), or correct `launch.flags`."
            return ErrorInfo(ErrorKind.TOOL_MISSING, f"This version of Codex cannot be driven: {stderr[:200]}", hint)
        if "Error loading config" in stderr or "error loading config" in stderr:
            return ErrorInfo(
                ErrorKind.CONFIG_INVALID, f"Codex refused its configuration: {stderr[:400]}", "Correct what it names."
            )
        return None

    def _start_thread(self) -> bytes:
        session = self._session
        # Read-only, because a thread that may write makes Codex trust the folder permanently; the turn may write.
        params = {
            "cwd": session.tree,
            "model": session.model,
            "approvalPolicy": session.approval,
            "sandbox": "read-only",
        }
        if session.resumes is None:
            return _call(_Step.THREAD, "thread/start", params)
        return _call(_Step.THREAD, "thread/resume", {"threadId": session.resumes, "excludeTurns": True, **params})

    def _start_turn(self) -> bytes:
        return _call(
            _Step.TURN,
            "turn/start",
            {
                "threadId": self._thread,
                "input": [_user_text(self._prompt or "")],
                "approvalPolicy": self._session.approval,
                "sandboxPolicy": self._session.sandbox,
            },
        )


def failure_of(error: Mapping[str, Any], resets_at: int | None = None) -> ErrorInfo:
    """Return the failure that a turn's ``error`` reports; ``resets_at``: when a used-up limit is lifted (epoch)."""
    text = string(error.get("message")) or "It gave no reason."
    info = error.get("codexErrorInfo")
    name, details = next(iter(info.items())) if isinstance(info, dict) and info else (info, None)
    status = details.get("httpStatusCode") if isinstance(details, dict) else None
    kind = _KINDS.get(str(name))
    if isinstance(status, int) and status >= 400:
        kind = None
    else:
        status = 0
    refusal = _body_of_refusal(text) if kind is None and not status else ""
    if refusal or name == "badRequest":  # of whatever is wrong: the text says what
        status, text = 400, refusal or text
    return failure(CAPABILITIES, text, kind=kind, status=status, resets_at=resets_at)


def _body_of_refusal(text: str) -> str:
    """Return the message of a refused request (HTTP 400), whose body Codex repeats as it is; else an empty text."""
    try:
        return string(foreign_json.decode(text)["error"]["message"])
    except (*foreign_json.UNREADABLE, TypeError, KeyError):
        return ""


def _call(step: _Step, method: str, params: dict[str, Any]) -> bytes:
    return line_of({"id": int(step), "method": method, "params": params})


def _user_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text.encode("utf-8", "replace").decode("utf-8"), "text_elements": []}


def _refused(request: Mapping[str, Any]) -> Reply:
    error = {"code": _METHOD_NOT_FOUND, "message": f"Understudy does not support {request['method']}."}
    return Reply(data=line_of({"id": request["id"], "error": error}))


_SHELLS = frozenset(f"{folder}/{name}" for folder in ("/bin", "/usr/bin") for name in ("bash", "sh", "zsh"))


def _command(line: str) -> str:
    """Return what a shell of the system was asked to run; else ``line`` itself.

    A model can name the shell, so a program of the worktree with the name of a shell must stay visible.
    """
    try:
        argv = shlex.split(line)
    except ValueError:
        return line
    is_script = len(argv) == 3 and argv[1] in {"-c", "-lc"} and argv[0] in _SHELLS
    return argv[2] if is_script else line


def _first_line(command: str) -> str:
    text = command.strip()
    first = text.split("\n")[0][:160]
    return first if first == text else f"{first} …"


def _detail(params: Mapping[str, Any]) -> str:
    """Return what a question is about, the reason that the agent gives last."""
    lines = [f"{name}: {params[name]}" for name in ("cwd", "grantRoot") if isinstance(params.get(name), str)]
    if isinstance(params.get("command"), str):
        lines.append(f"command: {shortened(_command(params['command']), _LONGEST_DETAIL)}")
    context = params.get("networkApprovalContext")
    if isinstance(context, dict):
        lines.append(f"host: {context.get('host')}")
    if isinstance(params.get("reason"), str):
        lines.append(f"The agent's reason: {shortened(params['reason'], _LONGEST_DETAIL)}")
    return "\n".join(lines)


def _output(item: Mapping[str, Any]) -> str:
    if isinstance(item.get("aggregatedOutput"), str):
        return str(item["aggregatedOutput"])
    for name in ("error", "result", "contentItems"):
        if item.get(name):
            return msgspec.json.encode(item[name]).decode()[:_LONGEST_DETAIL]
    return "" if item.get("status") == "completed" else str(item.get("status", ""))
