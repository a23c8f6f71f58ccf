"""How every agent CLI is driven.

What is known of them decided the rules:

- exit code 0 means little: some CLIs exit 0 on every failure, others report errors as successes with a flag;
- some hang after their result, so the result starts a short timer, and what is ended then has succeeded;
- some read standard input although they got a prompt, so it is closed unless the prompt comes that way;
- some print log lines, keep-alives or spinners for ever, so only real events count as progress;
- most leave processes behind, so ``process`` ends the whole tree;
- some ask while they work (``dialogue``): those are interrupted in their own words before their tree is ended.

Success is a terminal event *and* exit code 0 *and* no error flag *and* a text where one is due. Kinds of failure:
``timed_out`` (no first event; the total), ``stalled`` (no event for too long), ``tool_crashed`` (exit code or signal),
``tool_no_result`` (exit 0 without a terminal event), ``malformed_output`` (ended in the middle of a line; a line
without an end), ``empty_output``, ``budget_exhausted``, and whatever kind the terminal event itself names.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from understudy.model.delegations import Usage, no_usage
from understudy.model.delegators import EnvReference
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.events import Event, Note, Plan, Session, Text, Thinking, ToolCall, ToolResult, UsageReport
from understudy.process import children, environment
from understudy.runners.base import (
    AFTER_RESULT_SECONDS,
    FIRST_EVENT_SECONDS,
    IDLE_SECONDS,
    Emit,
    Outcome,
    Task,
    estimate_tokens,
    over_budget,
    plain,
    plain_json,
)
from understudy.runners.clis.commands import Command
from understudy.runners.clis.dialogue import Conversation, Dialogue, Question, Send, Withdrawn, Working
from understudy.secrets import Redactor

END_GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL: a cancel has to be over in five seconds, and CLIs write their session meanwhile."""
INTERRUPT_SECONDS = 0.8
"""For a CLI to end its turn when it is asked to; those that can need a twentieth of that. A cancel has five seconds."""
MAX_LINE_BYTES = 8 << 20
MAX_EMITTED_CHARACTERS = 64 << 20
"""Of one attempt; what comes after is only counted, because a journal is kept for ever."""
MAX_TEXT_CHARACTERS = 8 << 20
"""Of an answer."""
_OUTPUT_CHARACTERS = 64 << 10
"""Of one tool result."""
_STDERR_SHOWN = 600
_MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A terminal event: the agent says that it is done, and how."""

    text: str | None = None
    summary: str | None = None
    error: ErrorInfo | None = None


Said = Event | Ending | Working | Question | Withdrawn | Send
"""What a line can hold; the last three only in a ``Conversation``."""


class Lines(Protocol):
    """Knows what one CLI's lines mean. Made anew for each attempt, so it may remember."""

    def line(self, line: bytes) -> Sequence[Said] | None:
        """Return what ``line`` holds: None when it is not of the format, nothing when it is neither event nor work."""
        ...


async def drive(task: Task, emit: Emit, command: Command, lines: Lines | None) -> Outcome:
    """Run ``command`` to its end and return what came of it; without ``lines``, its output is the answer as text.

    Cancelling ends the tree of processes before the cancellation goes on.
    """
    env, secrets = environment_of(task, command)
    run = _Run(task, emit, Redactor(secrets), lines)
    try:
        async with asyncio.timeout(task.limits.total_seconds) as total:
            child = await children.start(
                command.argv,
                cwd=command.cwd,
                env=env,
                mark=task.delegation_id,
                stdin=command.stdin,
                keep_stdin=command.keep_stdin,
                # Raw logs would hold whatever the program says about its keys: a redacted tail is kept instead.
                stdout_file=None if secrets else task.stdout_log,
                stderr_file=None if secrets else task.stderr_log,
            )
            async with child:
                try:
                    return await run.follow(child)
                except BaseException:
                    # Also when cancelled: the tree gets its grace, and is gone before anybody hears of it.
                    try:
                        await run.interrupt(child)
                    finally:
                        await child.end(END_GRACE_SECONDS)
                    raise
                finally:
                    if secrets and task.stderr_log is not None:
                        _keep(task.stderr_log, run.redactor.redact(child.stderr_tail()))
    except TimeoutError:
        if not total.expired():
            raise
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"{command.argv[0]} had not finished after {task.limits.total_seconds:g} s (totalSeconds).",
            hint="Raise the limit, or delegate a smaller piece. What it had done is kept.",
        ) from None


def environment_of(task: Task, command: Command | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the whole environment of the program, and those of its values that are secrets.

    It is the allow-listed base, an identity for commits, what the tool's file wants set, and the delegator's own
    variables, which win; a variable that the delegator takes from the environment by name has to be there
    (``config_invalid``). Secrets of the tool's file cannot be replaced.
    """
    name = task.delegator.name
    extra: dict[str, str] = dict(command.environment) if command is not None else {}
    for role in ("AUTHOR", "COMMITTER"):
        extra[f"GIT_{role}_NAME"] = f"{name} (Understudy)"
        extra[f"GIT_{role}_EMAIL"] = f"{name}@understudy.invalid"
    secrets: dict[str, str] = {}
    for variable, value in (task.delegator.env or {}).items():
        if not isinstance(value, EnvReference):
            extra[variable] = value
            continue
        found = task.environment.get(variable, os.environ.get(value.from_env))
        if found is None:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"Delegator {name!r} takes {variable} from the variable {value.from_env}, which is not set.",
                hint="Set it where your editor or shell starts Understudy, or remove it from the delegator's `env`.",
            )
        extra[variable] = secrets[variable] = found
    given = dict(command.secrets) if command is not None else {}
    return environment.base_environment({**extra, **task.environment, **given}), {**secrets, **given}


class _Run:
    """What one program has said so far."""

    def __init__(self, task: Task, emit: Emit, redactor: Redactor, lines: Lines | None) -> None:
        self._task = task
        self._emit_event = emit
        self.redactor = redactor
        self._lines = lines
        self._answer = redactor.text_stream()
        self._thought = redactor.text_stream()
        self._parts: list[str] = []
        self._characters = 0
        self._emitted = 0
        self._ending: Ending | None = None
        self._usage: UsageReport | None = None
        self._session: str | None = None
        self._calls = 0
        self._events = 0
        self._noise = 0
        self._torn: bytes | None = None
        self._dialogue: Dialogue | None = None
        self._clock: asyncio.Timeout | None = None

    async def follow(self, child: children.Child) -> Outcome:
        """Read the program to its end and judge it."""
        limits = self._task.limits
        first = limits.first_event_seconds or FIRST_EVENT_SECONDS
        clock = self._clock = asyncio.timeout(first)
        if child.stdin is not None and isinstance(self._lines, Conversation):
            self._dialogue = Dialogue(
                self._lines,
                child.stdin,
                ask=self._task.ask,
                emit=self._emit,
                answered=self._answered,
                clean=self._fit_to_show,
            )
        hung = False
        try:
            async with clock:
                await (self._read_text(child, clock) if self._lines is None else self._read_lines(child, clock))
                # A program that closes its output and lives on is still under the same timer.
                ended = await child.wait()
        except TimeoutError:
            if not clock.expired():
                raise
            if self._ending is None:
                raise self._too_slow(first) from None
            hung = True
            ended = await child.end(END_GRACE_SECONDS)
        finally:
            self._clock = None  # its time is over: nobody may move it any more
        if self._dialogue is not None:
            await self._dialogue.drop_questions()
        self._flush()
        if ended.leftovers:
            self._emit(Note(level="warning", text=f"It left {ended.leftovers} processes behind; they were ended."))
        if self._ending is not None and self._ending.error is not None:
            raise self._reported(self._ending.error)
        if hung:
            seconds = limits.after_result_seconds or AFTER_RESULT_SECONDS
            self._emit(Note(level="warning", text=f"It had not exited {seconds:g} s after its result and was ended."))
        elif ended.code != 0:
            raise self._crashed(child, ended)
        return self._outcome()

    async def _read_lines(self, child: children.Child, clock: asyncio.Timeout) -> None:
        assert self._lines is not None  # noqa: S101 - the caller looked
        async for line in child.stdout_lines(MAX_LINE_BYTES):
            if self._ending is not None:
                continue  # after the result nothing counts, but the pipe must not fill
            found = self._lines.line(line) if line.strip() else None
            if not found:
                if found is None:
                    self._no_event(line, complete=child.last_line_complete)
                continue
            for item in found:
                if isinstance(item, Ending):
                    self._ending = item
                    if self._dialogue is not None:
                        self._dialogue.hang_up()
                    break
                if isinstance(item, Event):
                    self._take(item)
                elif isinstance(item, Working):
                    self._events += 1
                elif self._dialogue is not None:
                    self._events += 1
                    await self._dialogue.take(item)
            self._move(clock)

    async def _read_text(self, child: children.Child, clock: asyncio.Timeout) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := await child.read_stdout():
            self._say(decoder.decode(chunk))
            self._events += 1
            self._move(clock)
        self._say(decoder.decode(b"", final=True))

    async def interrupt(self, child: children.Child) -> None:
        """Ask a CLI that can be asked to end its turn, and take what it still says; never raises but when cancelled."""
        if self._dialogue is None or self._lines is None or self._ending is not None or child.ended is not None:
            return
        with suppress(UnderstudyError, TimeoutError):
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self._dialogue.interrupt()
                async for line in child.stdout_lines(MAX_LINE_BYTES):
                    for item in self._lines.line(line) or ():
                        if isinstance(item, Ending):
                            self._dialogue.hang_up()
                            self._flush()
                            return
                        if isinstance(item, Event):
                            self._take(item)

    def _answered(self) -> None:
        if self._clock is not None and self._clock.when() is None:
            self._move(self._clock)

    def _fit_to_show(self, text: str) -> str:
        return plain(self.redactor.redact(text))

    def _move(self, clock: asyncio.Timeout) -> None:
        limits = self._task.limits
        if self._ending is None and self._dialogue is not None and self._dialogue.waiting:
            clock.reschedule(None)  # a person thinks as long as the question's own deadline allows
            return
        if self._ending is not None:
            seconds = limits.after_result_seconds or AFTER_RESULT_SECONDS
        else:
            seconds = limits.idle_seconds or IDLE_SECONDS
        clock.reschedule(asyncio.get_running_loop().time() + seconds)

    def _no_event(self, line: bytes, *, complete: bool) -> None:
        if not complete and line.lstrip().startswith(b"{"):
            self._torn = line
            return
        if line.strip():
            self._noise += 1
            if self._noise == 1:
                shown = plain(self.redactor.redact(line[:200].decode("utf-8", "replace")))
                self._emit(Note(level="info", text=f"Output that is no event is kept in the log only: {shown}"))

    def _take(self, event: Event) -> None:
        """Pass an event on: cleaned, counted, and held against the budget."""
        self._events += 1
        if isinstance(event, Text):
            self._say(event.text)
            return
        if isinstance(event, Thinking):
            self._think(self._thought.feed(event.text))
            return
        if isinstance(event, ToolResult):
            dropped = len(event.output) - _OUTPUT_CHARACTERS
            if dropped > 0:
                kept = event.output[:_OUTPUT_CHARACTERS]
                event.truncated_bytes = len(event.output.encode("utf-8", "replace")) - len(
                    kept.encode("utf-8", "replace")
                )
                event.output = kept
        elif isinstance(event, ToolCall):
            self._calls += 1
        elif isinstance(event, Session):
            self._session = plain(event.session_id)[:256]
        elif isinstance(event, UsageReport):
            self._usage = event
        self._emit(_clean(event, self.redactor))
        if isinstance(event, UsageReport):
            error = over_budget(
                self._task.limits,
                turns=event.turns,
                output_tokens=event.output_tokens,
                tokens=event.input_tokens + event.output_tokens,
                cost_usd=event.cost_usd,
            )
            if error is not None:
                raise error

    def _say(self, text: str) -> None:
        self._speak(self._answer.feed(text))

    def _speak(self, text: str) -> None:
        if not text:
            return
        self._characters += len(text)
        if self._characters <= MAX_TEXT_CHARACTERS:
            self._parts.append(text)
        self._emit(Text(text=plain(text)), len(text))

    def _think(self, text: str) -> None:
        if text:
            self._emit(Thinking(text=plain(text)), len(text))

    def _flush(self) -> None:
        self._think(self._thought.finish())
        self._speak(self._answer.finish())

    def _emit(self, event: Event, characters: int = 0) -> None:
        if isinstance(event, ToolCall | ToolResult | Plan):
            characters = len(msgspec.json.encode(event))
        before = self._emitted
        self._emitted += characters
        if characters == 0 or self._emitted <= MAX_EMITTED_CHARACTERS:
            self._emit_event(event)
        elif before <= MAX_EMITTED_CHARACTERS:
            self._emit_event(
                Note(
                    level="warning",
                    text=f"Its output is above {MAX_EMITTED_CHARACTERS} characters; what follows is not kept.",
                )
            )

    def _outcome(self) -> Outcome:
        task = self._task
        if self._lines is not None and self._ending is None:
            if self._torn is not None:
                shown = plain(self.redactor.redact(self._torn[-200:].decode("utf-8", "replace")))
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"{_who(task)} ended in the middle of a line: …{shown}",
                    hint="Retry; its log has everything it said.",
                )
            noise = f" {self._noise} lines of its output were no events." if self._noise else ""
            raise UnderstudyError(
                ErrorKind.TOOL_NO_RESULT,
                f"{_who(task)} exited without announcing a result.{noise}",
                hint="Retry; its log has everything it said. What it changed is kept.",
            )
        ending = self._ending or Ending()
        text = self.redactor.redact(ending.text) if ending.text is not None else "".join(self._parts)
        if task.recipe.returns != "tree":
            if not text.strip():
                raise UnderstudyError(
                    ErrorKind.EMPTY_OUTPUT,
                    f"{_who(task)} ended well and said nothing.",
                    hint="Retry, or choose another delegator.",
                )
            if len(text) > MAX_TEXT_CHARACTERS or self._characters > MAX_TEXT_CHARACTERS:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"{_who(task)} answered more than {MAX_TEXT_CHARACTERS} characters.",
                    hint="Its log has the beginning.",
                )
        usage, estimated = self._used(text)
        return Outcome(
            text=plain(text[:MAX_TEXT_CHARACTERS]) if task.recipe.returns != "file" else text,
            summary=plain(self.redactor.redact(ending.summary))[:_MESSAGE_CHARACTERS] if ending.summary else None,
            session_id=self._session,
            usage=usage,
            cost_usd=self._usage.cost_usd if self._usage else None,
            estimated=estimated,
        )

    def _used(self, text: str) -> tuple[Usage, bool]:
        usage = no_usage()
        if self._usage is not None:
            for name in Usage.__struct_fields__:
                setattr(usage, name, getattr(self._usage, name))
            usage.tool_calls = usage.tool_calls or self._calls
            return usage, self._usage.estimated
        usage.input_tokens = estimate_tokens(self._task.prompt)
        usage.output_tokens = estimate_tokens(text)
        usage.turns = 1
        usage.tool_calls = self._calls
        return usage, True

    def _too_slow(self, first: float) -> UnderstudyError:
        who = _who(self._task)
        noise = f" It printed {self._noise} lines that are no events." if self._noise else ""
        if self._events == 0:
            return UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"{who} gave no sign of life within {first:g} s (firstEventSeconds).{noise}",
                hint="Raise the limit if it takes long to start; it may be waiting for a login or a question.",
            )
        idle = self._task.limits.idle_seconds or IDLE_SECONDS
        return UnderstudyError(
            ErrorKind.STALLED,
            f"{who} did nothing for {idle:g} s (idleSeconds).{noise}",
            hint="Retry, or raise the limit. What it had done is kept.",
        )

    def _crashed(self, child: children.Child, ended: children.Exit) -> UnderstudyError:
        how = f"was ended by signal {ended.signal}" if ended.signal is not None else f"exited with code {ended.code}"
        said = plain(self.redactor.redact(child.stderr_tail().decode("utf-8", "replace"))).strip()
        if isinstance(self._lines, Conversation) and (known := self._lines.explain(said)) is not None:
            return self._reported(known)
        if not said:
            # Some CLIs explain themselves on standard output only.
            said = plain("".join(self._parts)).strip()
        after = " after announcing a result" if self._ending is not None else ""
        return UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            f"{_who(self._task)} {how}{after}" + (f": {said[-_STDERR_SHOWN:]}" if said else "."),
            hint="What it had done is kept; its log has everything it said.",
        )

    def _reported(self, error: ErrorInfo) -> UnderstudyError:
        message = plain(self.redactor.redact(error.message))[:_MESSAGE_CHARACTERS] or "It reported a failure."
        hint = plain(self.redactor.redact(error.hint))[:_MESSAGE_CHARACTERS] if error.hint else None
        return UnderstudyError(error.kind, message, hint=hint)


def _clean(event: Event, redactor: Redactor) -> Event:
    """Return ``event`` with every string in it harmless to terminals and free of known secrets."""
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str | list | dict):
            setattr(event, name, redactor.redact_json(plain_json(value)))
    return event


def _keep(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _who(task: Task) -> str:
    return f"Delegator {task.delegator.name!r}"
