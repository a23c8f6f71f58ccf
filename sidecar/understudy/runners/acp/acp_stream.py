"""The conversation with an ACP agent: JSON-RPC 2.0, one message per line, with the models of the protocol's SDK.

It begins with requests that each wait for the answer to the one before: ``initialize``, ``session/new`` or
``session/load``, the choice of a model and of a mode where the delegator names one, and ``session/prompt``. The answer
to the prompt ends the run. Formats were derived from the streams in ``tests/runners/recordings/acp``.

``end_turn`` alone is not a success: Copilot and Codex's adapter answer so when the model server refused the request,
with the error as the text. What shows it: the answer has a member for the usage, but no model wrote anything and no
tool was called; and Copilot writes what it says itself in chunks that begin with ``Error:`` or ``Info:``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from acp import PROTOCOL_VERSION, schema
from acp.meta import AGENT_METHODS, CLIENT_METHODS
from pydantic import ValidationError

from understudy.model.capabilities import Capabilities
from understudy.model.delegation import events
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Phase, Text, Thinking, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.text import foreign_json
from understudy.runners.acp import acp_messages
from understudy.runners.acp.acp_messages import CANCELLED, Call, added, usage_of
from understudy.runners.agent_clis.streams.stream_values import WorktreePaths, line_of, string
from understudy.runners.driver.child_source import Reply
from understudy.runners.driver.source import AgentFinished, Heartbeat, MessageTaken, QuestionWithdrawn, SourceItem
from understudy.runners.runner import Message

_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_MOST_CALLS = 10_000
_MOST_OPEN_CALLS = 100
"""Tool calls of one turn whose state is kept: all, and those that have not ended."""
_LONGEST_ANSWER = 8 << 20
"""Characters of the last message that are kept; the driver refuses longer answers."""
_OWN_WORDS = {"Copilot": ("Error: ", "Info: ", "Warning: ")}
"""Name of an agent → how the chunks of its answer begin that it writes itself."""
_NOT_SPOKEN = ("unknown option", "unrecognized", "unexpected argument", "unknown argument", "unknown command")
_OFFERS_SHOWN = 20

_Item = SourceItem | Reply


class _Step(enum.IntEnum):
    """The requests of the conversation; the value is the id of the request."""

    INITIALIZE = 1
    SESSION = 2
    MODEL = 3
    MODE = 4
    PROMPT = 5


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a session is started with."""

    model: str | None = None
    """One of the agent's models; None: its default."""
    mode: str | None = None
    """One of the agent's modes, by id or name; None: its default."""
    allows_everything: bool = False
    """Whether every question is answered with permission."""
    resumes: str | None = None
    """The session to continue."""
    servers: list[dict[str, Any]] = field(default_factory=list)
    """MCP servers, as the protocol describes them."""


class AcpStream:
    """Parses what one run of an agent sends, and encodes what it gets."""

    def __init__(self, tree: Path, tool: Capabilities, session: Session) -> None:
        """Start a run in the folder ``tree``; paths are reported relative to it."""
        self._cwd = str(tree)
        self._tree = WorktreePaths(tree)
        self._tool = tool
        self._session = session
        self._prompt: str | None = None
        self._step = _Step.INITIALIZE
        self._awaited = 0
        """The id of the request that was sent last."""
        self._agent = ""
        self._logins: list[str] = []
        self._loads = False
        self._id = session.resumes or ""
        self._offered: dict[str, Any] = {}
        """The answer that opened the session, with the modes and models that it offers."""
        self._calls: dict[str, Call] = {}
        self._questions: dict[str, Any] = {}
        """Id of a question → the id of its request, which may be a number."""
        self._rejected = False
        self._text: list[str] = []
        """The agent's last message: what it wrote since its last tool call."""
        self._characters = 0
        self._message_id: str | None = None
        self._own_error: str | None = None
        """The error that the agent wrote into its answer, if nothing followed."""
        self._queue: list[Message] = []
        """What the user said meanwhile: the protocol takes one prompt at a time."""
        self._earlier: UsageReport | None = None
        """What the turns used that have ended."""
        self._cost: tuple[float, float] | None = None
        """Cost of the session before this prompt and now, in USD; None: not known."""

    # -- from the agent --------------------------------------------------------------------------------------

    def line(self, line: bytes) -> list[_Item] | None:
        """Parse one line and return its events."""
        try:
            message = foreign_json.decode(line)
        except foreign_json.UNREADABLE:
            return None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return None
        try:
            if "method" not in message:
                return list(self._answered(message))
            if "id" in message:
                return list(self._request(message))
            return list(self._notification(message))
        except (ValidationError, AttributeError, TypeError, ValueError, KeyError):
            # Another version's structure: kept in the log only. But a question must not wait forever, and neither
            # must we for an answer that cannot be read.
            if "method" not in message:
                return [AgentFinished(error=self._malformed(message))] if message.get("id") == self._awaited else None
            return (
                [_refused(message, _INVALID_PARAMS, "Understudy cannot read the parameters.")]
                if "id" in message
                else None
            )

    def _answered(self, response: dict[str, Any]) -> Iterator[_Item]:
        if response.get("id") != self._awaited:
            return
        if "error" in response:
            yield AgentFinished(error=self._refusal(response["error"]))
            return
        result = response["result"]
        if self._step is _Step.INITIALIZE:
            yield from self._initialized(schema.InitializeResponse.model_validate(result))
        elif self._step is _Step.SESSION:
            self._opened(result or {})
            if self._loads:
                yield events.Session(session_id=self._id)
            yield from self._configure(_Step.MODEL)
        elif self._step is _Step.PROMPT:
            yield from self._ended(schema.PromptResponse.model_validate(result), result)
        else:
            yield from self._configure(_Step(self._step + 1))

    def _initialized(self, result: schema.InitializeResponse) -> Iterator[_Item]:
        if result.protocol_version != PROTOCOL_VERSION:
            message = (
                f"{self._tool.title} speaks version {result.protocol_version} of the Agent Client Protocol; "
                f"Understudy speaks {PROTOCOL_VERSION}."
            )
            yield AgentFinished(error=ErrorInfo(ErrorKind.TOOL_MISSING, message, "Install another version of it."))
            return
        self._agent = result.agent_info.name if result.agent_info is not None else ""
        self._logins = [method.description or method.name for method in result.auth_methods or []]
        self._loads = bool(result.agent_capabilities and result.agent_capabilities.load_session)
        session = {"cwd": self._cwd, "mcpServers": self._session.servers}
        if self._session.resumes is None:
            yield self._send(_Step.SESSION, AGENT_METHODS["session_new"], session)
        elif self._loads:
            yield self._send(_Step.SESSION, AGENT_METHODS["session_load"], {"sessionId": self._id, **session})
        else:
            message = f"{self._tool.title} cannot continue an earlier session over the Agent Client Protocol."
            hint = "Start it again without the earlier session."
            yield AgentFinished(error=ErrorInfo(ErrorKind.BAD_REQUEST, message, hint))

    def _opened(self, result: dict[str, Any]) -> None:
        # The answer to `session/load` has no id, and the SDK does not know `models`, which some agents still send.
        opened = schema.NewSessionResponse.model_validate({"sessionId": self._id, **result})
        self._id = opened.session_id
        self._offered = result

    def _configure(self, step: _Step) -> Iterator[_Item]:
        """Send the request of ``step``, or the first one after it that is needed."""
        if step is _Step.MODEL:
            requested, what, field_name = self._session.model, "model", "model"
        elif step is _Step.MODE:
            requested, what, field_name = self._session.mode, "mode", "launch.permission_mode"
        else:
            self._cost = None if self._session.resumes is not None and self._cost is None else (self._cost or (0, 0))
            yield self._send_prompt(self._prompt or "")
            return
        if requested is None:
            yield from self._configure(_Step(step + 1))
            return
        choices = choices_of(self._offered, what)
        chosen = next((choice for choice in choices if choice.matches(requested)), None)
        if chosen is not None and not chosen.is_current:
            yield self._send(step, chosen.method, {"sessionId": self._id, **chosen.params})
        elif chosen is not None:
            yield from self._configure(_Step(step + 1))
        else:
            names = list(dict.fromkeys(choice.value for choice in choices))
            offers = ", ".join(names[:_OFFERS_SHOWN]) + (", …" if len(names) > _OFFERS_SHOWN else "")
            message = f"{self._tool.title} offers no {what} {requested!r} over the Agent Client Protocol."
            hint = (
                f"Set `{field_name}` to one of: {offers}." if names else f"It offers no choice: remove `{field_name}`."
            )
            kind = ErrorKind.MODEL_NOT_FOUND if what == "model" and names else ErrorKind.CONFIG_INVALID
            yield AgentFinished(error=ErrorInfo(kind, message, hint))

    def _request(self, request: dict[str, Any]) -> Iterator[_Item]:
        if request["method"] != CLIENT_METHODS["session_request_permission"]:
            yield _refused(request, _METHOD_NOT_FOUND, f"Understudy does not support {str(request['method'])[:100]}.")
            return
        asked = schema.RequestPermissionRequest.model_validate(request["params"])
        identifier = msgspec.json.encode(request["id"]).decode()
        call = self._call(asked.tool_call)
        self._questions[identifier] = request["id"]
        yield from call.begin(self._tree)
        question = call.question(identifier, asked.options, self._tree)
        allowed = _allowing(question.options) if self._session.allows_everything else None
        yield Reply(data=self.answer(identifier, allowed, None)) if allowed is not None else question

    def _notification(self, notification: dict[str, Any]) -> Iterator[_Item]:
        method, params = notification["method"], notification.get("params")
        if method == "$/cancel_request":
            identifier = msgspec.json.encode(params["requestId"]).decode() if isinstance(params, dict) else ""
            if self._questions.pop(identifier, None) is not None:
                yield QuestionWithdrawn(question_id=identifier)
        if method != CLIENT_METHODS["session_update"]:
            return
        update = schema.SessionNotification.model_validate(params).update
        if isinstance(update, schema.UsageUpdate):
            yield from self._counted(update)
        elif self._step is _Step.PROMPT:  # before that, a loaded session is repeated
            yield from self._updated(update)
        else:
            yield Heartbeat()

    def _updated(self, update: Any) -> Iterator[_Item]:
        match update:
            case schema.AgentMessageChunk(content=schema.TextContentBlock(text=text)):
                yield from self._said(text, update.message_id)
            case schema.AgentThoughtChunk(content=schema.TextContentBlock(text=text)):
                yield Thinking(text=text)
            case schema.ToolCallStart() | schema.ToolCallProgress():
                yield from self._worked(update)
            case schema.AgentPlanUpdate(entries=entries):
                yield events.Plan(
                    entries=[{"content": entry.content, "status": entry.status} for entry in entries[:100]]
                )
            case _:
                yield Heartbeat()

    def _said(self, text: str, message_id: str | None) -> Iterator[_Item]:
        if message_id != self._message_id:
            self._message_id = message_id
            self._forget_text()
        self._own_error = None
        if text.startswith(_OWN_WORDS.get(self._agent, ("\0",))):
            if text.startswith("Error: "):
                self._own_error = text.removeprefix("Error: ")
            yield Phase(text=text[:300])
            return
        if self._characters <= _LONGEST_ANSWER:
            self._text.append(text)
            self._characters += len(text)
        yield Text(text=text)

    def _forget_text(self) -> None:
        self._text.clear()
        self._characters = 0

    def _worked(self, update: schema.ToolCallStart | schema.ToolCallProgress) -> Iterator[_Item]:
        self._forget_text()
        self._own_error = None
        call = self._call(update)
        has_ended = update.status in {"completed", "failed"}
        # Many begin without their input, and name it in the next message.
        if has_ended or call.input is not None or call.edits or call.locations:
            yield from call.begin(self._tree)
        if has_ended:
            yield from call.end(self._tree, ok=update.status == "completed")
        else:
            yield Heartbeat()

    def _call(self, update: Any) -> Call:
        call = self._calls.get(update.tool_call_id)
        if call is None:
            call = Call(update.tool_call_id)
            is_full = len(self._calls) >= _MOST_CALLS
            if not is_full and sum(not other.ended for other in self._calls.values()) < _MOST_OPEN_CALLS:
                self._calls[update.tool_call_id] = call
        call.update(update)
        return call

    def _counted(self, update: schema.UsageUpdate) -> Iterator[_Item]:
        if update.cost is not None and update.cost.currency.upper() == "USD" and update.cost.amount >= 0:
            before = self._cost[0] if self._cost is not None else None
            if self._step is not _Step.PROMPT:
                self._cost = (update.cost.amount, update.cost.amount)
            elif before is not None:
                self._cost = (before, update.cost.amount)
        yield Heartbeat()

    def _ended(self, result: schema.PromptResponse, raw: Mapping[str, Any]) -> Iterator[_Item]:
        spent = None if self._cost is None or self._cost[1] <= 0 else f"{max(0.0, self._cost[1] - self._cost[0]):.6f}"
        used = usage_of(result.usage, result.field_meta, calls=len(self._calls), cost_usd=spent)
        if used is not None:
            yield added(self._earlier, used)
        text = "".join(self._text)
        meta = raw.get("_meta")
        reports_usage = "usage" in raw or (isinstance(meta, dict) and "quota" in meta)
        error = acp_messages.failure_of_stop(self._tool, result.stop_reason, rejected=self._rejected)
        if error is None and self._own_error is not None:
            error = acp_messages.failure_of_answer(self._tool, self._own_error)
        elif error is None and reports_usage and not self._calls and (used is None or used.output_tokens == 0):
            error = acp_messages.failure_of_answer(self._tool, text)
        if error is None and self._queue:
            self._earlier = added(self._earlier, used) if used is not None else self._earlier
            self._forget_text()
            message = self._queue.pop(0)
            yield self._send_prompt(message.text)
            yield MessageTaken(message_id=message.message_id)
            return
        yield AgentFinished(text=text or None, summary=text.strip() or None, error=error)

    # -- failures --------------------------------------------------------------------------------------------

    def _refusal(self, error: Any) -> ErrorInfo:
        """Return why the request of the current step was refused."""
        error_info = acp_messages.failure_of_error(self._tool, error, self._logins)
        if self._step is _Step.INITIALIZE:
            hint = "Check that the program speaks the Agent Client Protocol with these arguments."
            return msgspec.structs.replace(error_info, kind=ErrorKind.TOOL_MISSING, hint=hint)
        is_specific = error_info.kind not in {ErrorKind.TOOL_CRASHED, ErrorKind.BAD_REQUEST}
        if self._step is _Step.SESSION and self._session.resumes is not None and not is_specific:
            hint = "Start it again without the earlier session."
            return msgspec.structs.replace(error_info, kind=ErrorKind.BAD_REQUEST, hint=hint)
        return error_info

    def _malformed(self, response: dict[str, Any]) -> ErrorInfo:
        shown = msgspec.json.encode(response.get("result")).decode("utf-8", "replace")[:300]
        message = f"{self._tool.title} answered the request {self._step.name.lower()} with {shown}."
        return ErrorInfo(ErrorKind.MALFORMED_OUTPUT, message, "Update it, or drive it in another mode.")

    def explain(self, stderr: str) -> ErrorInfo | None:
        """Return why it exited before it answered."""
        if self._step is _Step.INITIALIZE and any(words in stderr.lower() for words in _NOT_SPOKEN):
            message = f"This version of {self._tool.title} does not speak the Agent Client Protocol: {stderr[:300]}"
            return ErrorInfo(ErrorKind.TOOL_MISSING, message, "Install the current version, or correct its arguments.")
        return None

    # -- to the agent ----------------------------------------------------------------------------------------

    def message(self, text: str) -> bytes:
        """Return the line that begins the conversation."""
        self._prompt = text
        nothing = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": nothing,
            "clientInfo": {"name": "understudy", "title": "Understudy", "version": "1"},
        }
        return self._send(_Step.INITIALIZE, AGENT_METHODS["initialize"], params).data

    def further(self, message: Message) -> bytes:
        """Keep a message as the next prompt: the protocol has no further message to a running turn."""
        self._queue.append(message)
        return b""

    def answer(self, question_id: str, option: PermissionOption, note: str | None) -> bytes:  # noqa: ARG002
        """Return the answer to a question; the protocol has no place for a note."""
        if question_id not in self._questions:
            return b""  # the agent cancelled it
        if option.kind.startswith("reject"):
            self._rejected = True
        outcome = {"outcome": "selected", "optionId": option.id}
        return _outcome(self._questions.pop(question_id), outcome if option.id != CANCELLED else None)

    def interrupt(self) -> bytes:
        """Return the lines that end the turn: open questions are answered as cancelled."""
        lines = [_outcome(identifier, None) for identifier in self._questions.values()]
        self._questions.clear()
        if self._step is _Step.PROMPT:
            cancel = {"jsonrpc": "2.0", "method": AGENT_METHODS["session_cancel"], "params": {"sessionId": self._id}}
            lines.append(line_of(cancel))
        return b"".join(lines)

    def _send_prompt(self, text: str) -> Reply:
        prompt = [{"type": "text", "text": text.encode("utf-8", "replace").decode("utf-8")}]
        return self._send(_Step.PROMPT, AGENT_METHODS["session_prompt"], {"sessionId": self._id, "prompt": prompt})

    def _send(self, step: _Step, method: str, params: Mapping[str, Any]) -> Reply:
        self._step = step
        self._awaited = max(step, self._awaited + 1)  # a further prompt has an id of its own
        return Reply(data=line_of({"jsonrpc": "2.0", "id": self._awaited, "method": method, "params": params}))


def _allowing(options: Sequence[PermissionOption]) -> PermissionOption | None:
    """Return the option that allows what was asked, and no more if there is one: agents refuse to allow everything.

    Gemini CLI answers an edit that is allowed for the whole session with an error in a folder that it does not trust.
    """
    return next((option for kind in ("allow_once", "allow_always") for option in options if option.kind == kind), None)


def _outcome(identifier: Any, selected: Mapping[str, Any] | None) -> bytes:
    result = {"outcome": selected if selected is not None else {"outcome": "cancelled"}}
    return line_of({"jsonrpc": "2.0", "id": identifier, "result": result})


def _refused(request: Mapping[str, Any], code: int, message: str) -> Reply:
    return Reply(data=line_of({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A model or a mode that the agent offers, and the request that selects it."""

    value: str
    name: str
    is_current: bool
    method: str
    params: Mapping[str, Any]

    def matches(self, asked: str) -> bool:
        """Return whether the user means it: by id, by name, or by the last part of an id that is a URL."""
        last = self.value.rpartition("#")[2]
        return asked == self.value or asked.lower() in {self.name.lower(), last.lower()}


def choices_of(offered: Mapping[str, Any], what: str) -> list[Choice]:
    """Return the models or modes in the answer that opened a session, in each of the places where agents offer them."""
    opened = schema.NewSessionResponse.model_validate({"sessionId": "", **offered})
    choices = [
        Choice(
            value=choice.value,
            name=choice.name,
            is_current=choice.value == option.current_value,
            method=AGENT_METHODS["session_set_config_option"],
            params={"configId": option.id, "value": choice.value},
        )
        for option in opened.config_options or []
        if isinstance(option, schema.SessionConfigOptionSelect) and what in {option.category, option.id}
        for choice in _flat(option.options)
    ]
    if what == "mode" and opened.modes is not None:
        choices += [
            Choice(
                value=choice.id,
                name=choice.name,
                is_current=choice.id == opened.modes.current_mode_id,
                method=AGENT_METHODS["session_set_mode"],
                params={"modeId": choice.id},
            )
            for choice in opened.modes.available_modes
        ]
    models = offered.get("models") if what == "model" else None
    if isinstance(models, dict):
        # An unstable part of earlier versions of the protocol, which is still all that Gemini and Qwen have.
        current = string(models.get("currentModelId"))
        listed = [choice for choice in models.get("availableModels") or [] if isinstance(choice, dict)]
        names = {string(choice.get("modelId")): string(choice.get("name")) for choice in listed}
        if current:
            names.setdefault(current, "")
        choices += [
            Choice(
                value=value,
                name=name,
                is_current=value == current,
                method="session/set_model",
                params={"modelId": value},
            )
            for value, name in names.items()
            if value
        ]
    return choices


def _flat(options: Sequence[Any]) -> Iterator[schema.SessionConfigSelectOption]:
    for option in options:
        yield from option.options if isinstance(option, schema.SessionConfigSelectGroup) else [option]
