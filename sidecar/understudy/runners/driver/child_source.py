"""A program as a source: JSON lines, or plain text, on its standard output.

    JsonLinesSource(task, command, parser)     one event format; with a ``Dialect`` the program is also written to
    TextSource(task, command)                  its output is the answer, complete when it exits

A program that reads its input although it got a prompt would wait forever, so its input is closed unless the prompt
is sent that way or the format is two-way. Most agents leave processes behind, so the whole process tree is ended.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from understudy.config import locality
from understudy.config.discovery import declarations
from understudy.model import wire
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import AgentStarted, Event, Note, Text
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text import foreign_json
from understudy.process import call_checks
from understudy.process.program_spec import AccessProfile, Program, Role, limits_of
from understudy.process.programs import children
from understudy.runners.driver.command_line import Command
from understudy.runners.driver.source import AgentFinished, Heartbeat, SourceItem, Unrecognized
from understudy.runners.runner import Message, Task
from understudy.secrets import Redactor

END_GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL: a cancel may take five seconds, and CLIs use the time to save their session."""
MAX_LINE_BYTES = 8 << 20
_NOISE_BYTES = 1000
_TORN_CHARACTERS = 200

_KILLED = "Retry. If it happens again, look for what kills processes on this machine, such as too little memory."
_SAID_WHY = "Fix what its output reports, then retry."
_SILENT = "It printed no reason: run its command in a terminal to see one, then retry."


SHOWN_CHARACTERS = 600
"""Characters of standard error, or of the last output, that a message quotes."""

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):|^  File \".*\", line \d+", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?:\w+\.)*[A-Za-z_]\w*(?:: .*)?$")
_ERROR = re.compile(r"^(?:Uncaught )?(?:\w+\.)*\w*(?:Error|Exception)\b(?: \[\w+\])?: .+")


MAX_JSON_CHARACTERS = 4 << 20
"""Longer output is not read: a report is short."""
_DEPTH = 5
_PLACES = ("result", "response", "summary", "answer", "text", "message", "content", "output", "item", "part", "parts")
"""Where agents put their last message, the most likely place first."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Bytes to send to the program at once, such as the refusal of a request. Used only in this module."""

    data: bytes


class LineParser(Protocol):
    """Parses one program's lines. One instance serves one attempt, so it may keep state."""

    def line(self, line: bytes) -> Sequence[SourceItem | Reply] | None:
        """Parse ``line``: None when it is not in the format, nothing when it is neither event nor sign of work."""
        ...


@runtime_checkable
class EndsByExit(LineParser, Protocol):
    """A one-way format in which the last line may be missing: the exit code or standard error tells the rest."""

    def ended(self, code: int, stderr: str) -> Sequence[SourceItem]:
        """Return the last items of a program that exited by itself without announcing a result."""
        ...


@runtime_checkable
class TakesMessages(LineParser, Protocol):
    """A two-way format in which the user may say more while the program works."""

    def further(self, message: Message) -> bytes:
        """Return the line that delivers another user message; nothing if it is sent when the turn ends."""
        ...


@runtime_checkable
class Dialect(LineParser, Protocol):
    """A two-way format: besides reading, it encodes what is written to the program."""

    def message(self, text: str) -> bytes:
        """Return the lines that deliver the prompt."""
        ...

    def answer(self, question_id: str, option: PermissionOption, note: str | None) -> bytes:
        """Return the line that answers a question."""
        ...

    def interrupt(self) -> bytes:
        """Return the line that ends the current turn."""
        ...

    def explain(self, stderr: str) -> ErrorInfo | None:
        """Return why a program failed that printed this on standard error, None when unknown."""
        ...


def agent_program(task: Task, command: Command, variables: Mapping[str, str], **streams: Any) -> Program:
    """Return the program of an agent, with the access that its tool's declaration asks for."""
    declared = declarations.tools().get(task.delegator.tool or "")
    role = Role.TEST_WRITER if declared is not None and declared.only_new_tests else Role.AGENT
    return Program(
        command.argv,
        command.cwd,
        variables,
        AccessProfile(role),
        mark=task.delegation_id,
        limits=limits_of(task.program_limits),
        confinement=task.sandbox,
        **streams,
    )


class _ChildSource:
    """Common base of all programs: start, process tree, exit code, standard error."""

    def __init__(self, task: Task, command: Command, dialect: Dialect | None = None) -> None:
        self.subject = f"Delegator {task.delegator.name!r}"
        self._task = task
        self._command = command
        self._environment, self._secrets = environment_of(task, command)
        self._dialect = dialect
        self._child: children.Child | None = None
        self._interrupted = False
        self._start_announced = False
        self._announced = False
        """Whether the program announced its result."""
        self._last_words = ""
        self.redactor = Redactor(self._secrets)

    async def _started(self) -> children.Child:
        if self._child is None:
            task, command = self._task, self._command
            # Raw logs could contain keys that the program prints, so only a redacted tail is kept.
            files = (None, None) if self._secrets else (task.stdout_log, task.stderr_log)
            self._child = await children.start(
                agent_program(
                    task,
                    command,
                    self._environment,
                    stdin=command.stdin if self._dialect is None else self._dialect.message(task.prompt),
                    keep_stdin=self._dialect is not None,
                    stdout_log=files[0],
                    stderr_log=files[1],
                )
            )
        return self._child

    def _announce_start(self, child: children.Child) -> AgentStarted | None:
        """Return the event of the program's start, once: the items may be read twice."""
        if self._start_announced:
            return None
        self._start_announced = True
        return AgentStarted(sandbox=child.sandbox)

    async def answer(self, question_id: str, option: PermissionOption, note: str | None) -> None:
        """Send the answer in the program's format; a one-way program asks no questions."""
        if self._dialect is not None:
            await self._write(self._dialect.answer(question_id, option, note))

    async def interrupt(self) -> None:
        """Ask a two-way program to end its turn; a one-way program can only be ended, so stop reading it."""
        self._interrupted = True
        if self._dialect is not None:
            await self._write(self._dialect.interrupt())

    async def send(self, message: Message) -> None:
        """Send another user message; a one-way program gets only its prompt."""
        stdin = self._child.stdin if self._child is not None else None
        if stdin is None or not isinstance(self._dialect, TakesMessages) or self._announced or self._interrupted:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{self.subject} cannot take messages now.",
                hint="Reply to its result instead.",
            )
        stdin.feed(self._dialect.further(message))

    async def explain(self) -> ErrorInfo | None:
        """Return the crash that the exit code or the signal indicates."""
        child = self._child
        if child is None or child.ended is None or child.ended.code == 0:
            return None
        if (exceeded := child.limit_error(self._last_words.encode())) is not None:
            return exceeded.info()
        stderr = self._stderr(child).strip()
        if self._dialect is not None and (explained := self._dialect.explain(stderr)) is not None:
            return explained
        ended = child.ended
        how = f"was killed by signal {ended.signal}" if ended.signal is not None else f"exited with code {ended.code}"
        after = " after announcing a result" if self._announced else ""
        # Some CLIs explain themselves on standard output only.
        shown = last_words(stderr or self.redactor.redact(self._last_words).strip())
        return ErrorInfo(
            ErrorKind.TOOL_CRASHED,
            f"{self.subject} {how}{after}: {shown}" if shown else f"{self.subject} {how}{after}.",
            _KILLED if ended.signal == signal.SIGKILL else _SAID_WHY if shown else _SILENT,
        )

    async def close(self) -> Sequence[Event]:
        """End the process tree: SIGTERM, then SIGKILL. Return a note about processes that the program left behind."""
        child = self._child
        if child is None:
            return []
        async with child:
            ended = await child.end(END_GRACE_SECONDS)
            if self._secrets and self._task.stderr_log is not None:
                _write_private(self._task.stderr_log, self.redactor.redact(child.stderr_tail()))
        if not ended.leftovers:
            return []
        return [Note(level="warning", text=f"The agent left {ended.leftovers} processes running; they were ended.")]

    def _stderr(self, child: children.Child) -> str:
        return self.redactor.redact(child.stderr_tail().decode("utf-8", "replace"))

    async def _write(self, data: bytes) -> None:
        stdin = self._child.stdin if self._child is not None else None
        if stdin is not None:
            with suppress(UnderstudyError):  # it has closed its input; its exit will say why
                await stdin.write(data)

    def _remember(self, text: str) -> None:
        # Twice the length shown, so that a secret is redacted before the text is cut.
        self._last_words = (self._last_words + text)[-2 * SHOWN_CHARACTERS :]


class TextSource(_ChildSource):
    """A program whose output is the answer, complete when it exits."""

    async def items(self) -> AsyncIterator[SourceItem]:
        """Yield the output as text, then the end if the exit code is 0."""
        child = await self._started()
        if (announcement := self._announce_start(child)) is not None:
            yield announcement
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # A text or a file was asked for as it is; of a change, the output is only a report.
        is_report = self._task.recipe.returns == "tree"
        output = ""
        while not self._interrupted and (chunk := await child.read_stdout()):
            text = decoder.decode(chunk)
            self._remember(text)
            if is_report and len(output) <= MAX_JSON_CHARACTERS:
                output += text
            yield Text(text=text) if text else Heartbeat()
        if self._interrupted:
            return
        if rest := decoder.decode(b"", final=True):
            yield Text(text=rest)
        if (await child.wait()).code == 0:
            yield AgentFinished(text=json_report(output) if is_report else None)


class JsonLinesSource(_ChildSource):
    """A program that prints one JSON object per line; with a ``Dialect`` it is also written to."""

    def __init__(self, task: Task, command: Command, parser: LineParser, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        """Prepare; the program starts with the first item. A ``Dialect`` delivers the prompt as its first message."""
        super().__init__(task, command, parser if isinstance(parser, Dialect) else None)
        self._parser = parser
        self._max_line_bytes = max_line_bytes
        self._ready: deque[SourceItem | Reply] = deque()
        self._torn = ""

    async def items(self) -> AsyncIterator[SourceItem]:
        """Yield the events of the lines until the program and everything it started have ended."""
        child = await self._started()
        if (announcement := self._announce_start(child)) is not None:
            yield announcement
        if self._interrupted and self._dialect is None:
            return
        lines = child.stdout_lines(self._max_line_bytes)
        while True:
            while self._ready:
                item = self._ready.popleft()
                if isinstance(item, Reply) and self._announced:
                    continue  # its input is closed
                if isinstance(item, Reply):
                    await self._write(item.data)
                    item = Heartbeat()
                elif isinstance(item, AgentFinished):
                    first, self._announced = not self._announced, True
                    if child.stdin is not None and first:
                        child.stdin.close()  # no other turn follows
                elif isinstance(item, Text):
                    self._remember(item.text)
                yield item
            line = await anext(lines, None)
            if line is None:
                break
            if line.strip():
                items = self._parser.line(line)
                if items is None:
                    items = [] if self._announced else self._unrecognized(child, line)
                self._ready.extend(items)
        ended = await child.wait()
        by_itself = not (self._announced or self._interrupted or self._torn)
        if by_itself and ended.code is not None and isinstance(self._parser, EndsByExit):
            for item in self._parser.ended(ended.code, self._stderr(child).strip()):
                yield item

    def _unrecognized(self, child: children.Child, line: bytes) -> Sequence[SourceItem]:
        text = self.redactor.redact(line.decode("utf-8", "replace"))
        if not child.last_line_complete and line.lstrip().startswith(b"{"):
            self._torn = text[-_TORN_CHARACTERS:]
            return []
        return [Unrecognized(text=text[:_NOISE_BYTES])]

    async def explain(self) -> ErrorInfo | None:
        """Return the crash, or an error for an incomplete last line of the output."""
        failure = await super().explain()
        if failure is None and self._torn:
            failure = ErrorInfo(
                ErrorKind.MALFORMED_OUTPUT,
                f"{self.subject} ended in the middle of a line: …{self._torn}",
                "Retry.",
            )
        return failure


def environment_of(task: Task, command: Command) -> tuple[dict[str, str], dict[str, str]]:
    """Return the complete environment of the program, and those of its values that are secret.

    It is the allow-listed base, an identity for commits, the variables that the tool's module sets, and the
    delegator's own variables, which override all others except the secrets that the tool's module sets. An agent that
    must not reach other machines gets no proxies.
    """
    name = task.delegator.name
    extra = dict(command.environment)
    for role in ("AUTHOR", "COMMITTER"):
        extra[f"GIT_{role}_NAME"] = f"{name} (Understudy)"
        extra[f"GIT_{role}_EMAIL"] = f"{name}@understudy.invalid"
    secrets = dict(command.secrets)
    network = not locality.is_bound(task.delegator, task.model_server)
    variables = call_checks.base_environment({**extra, **task.environment, **secrets}, network=network)
    return variables, {**task.secrets, **secrets}


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def last_words(text: str) -> str:
    """Return the last lines of ``text`` that fit, or the end of the last one; the error comes first if it is known.

    Some places show only the first line. Python names the error at the end of a traceback, Node.js in the middle.
    """
    shown = _last_lines(text)
    error = _error(shown)
    return shown if error is None or shown.startswith(error) else f"{error}\n{shown}"


def _last_lines(text: str) -> str:
    shown = text[-SHOWN_CHARACTERS:]
    if len(text) > len(shown) and "\n" in shown:
        shown = shown.partition("\n")[2]
        # Python marks a part of the line above: without that line, its ^^^^ mark nothing.
        while not any(map(str.isalnum, shown.partition("\n")[0])) and "\n" in shown:
            shown = shown.partition("\n")[2]
    return shown


def _error(text: str) -> str | None:
    """Return the line with which the text names an error, if it looks like an uncaught one."""
    lines = text.splitlines()
    if _TRACEBACK.search(text) and (matches := [line for line in lines if _EXCEPTION.match(line)]):
        return matches[-1]
    matches = [line for line in lines if _ERROR.match(line)]
    return matches[-1] if matches else None


def json_report(output: str) -> str | None:
    """Return the last message in ``output``; empty when it has none, None when ``output`` is not JSON.

    Output with other lines (a banner, a log) counts as JSON if at least half of its lines are events, which are objects
    with a ``type``, and if they have a message; what follows the last event is taken for it. Prose may quote an object.
    """
    if len(output) > MAX_JSON_CHARACTERS:
        return None
    documents = _documents(output)
    if documents is not None:
        return _last_message(documents)
    lines = [line for line in output.splitlines() if line.strip()]
    events = [(number, event) for number, line in enumerate(lines) if (event := _event(line)) is not None]
    if not events or 2 * len(events) < len(lines):
        return None
    rest = "\n".join(lines[events[-1][0] + 1 :]).strip()
    return rest or _last_message([event for _, event in events]) or None


def _documents(output: str) -> list[Any] | None:
    """Return the JSON documents that ``output`` consists of; None if there is anything else in it."""
    decoder, position, documents = json.JSONDecoder(), 0, []
    while position < len(output):
        if output[position].isspace():
            position += 1
            continue
        if output[position] not in "{[":
            return None
        try:
            document, position = decoder.raw_decode(output, position)
        except (ValueError, RecursionError):
            return None
        documents.append(wire.whole(document))
    return documents or None


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = foreign_json.decode(line)
    except foreign_json.UNREADABLE:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def _last_message(documents: list[Any]) -> str:
    return next((text for document in reversed(documents) if (text := _message(document, _DEPTH))), "")


def _message(value: Any, depth: int) -> str:
    """Return the message in a document: of a list the last one, of an object that in the most likely place."""
    if isinstance(value, list) and depth:
        return next((text for item in reversed(value) if (text := _message(item, depth - 1))), "")
    if isinstance(value, dict) and depth:
        for place in _PLACES:
            part = value.get(place)
            text = part.strip() if isinstance(part, str) else _message(part, depth - 1)
            if text:
                return text
    return ""
