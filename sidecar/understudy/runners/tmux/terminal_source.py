"""An agent in a terminal as a source: no events, but signs of work, its end, and the report that it writes.

What the agent prints is shown in the pane, kept in the log, and never interpreted. Whatever it prints, and whatever the
user types, is a sign of work: an agent whose question is not answered reaches the idle limit.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

from understudy.files import nofollow
from understudy.model.capabilities import DONE_FILE
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import AgentStarted, Event, Note
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text.sanitize import strip_controls
from understudy.process.pipes import socket_folder
from understudy.process.programs import children
from understudy.process.terminals import tmux
from understudy.process.terminals.pane_link import PaneLink, PaneSocket, Size
from understudy.process.terminals.tmux import Opened
from understudy.runners.driver.child_source import END_GRACE_SECONDS, agent_program, environment_of
from understudy.runners.driver.command_line import Command
from understudy.runners.driver.source import AgentFinished, Heartbeat, SourceItem
from understudy.runners.runner import Message, Task
from understudy.secrets import Redactor

LOOK_SECONDS = 0.2
"""How often to look for the report."""
PANE_SECONDS = 20.0
"""How long the program in a new pane may take; a machine that needs longer cannot run an agent."""
CLOSE_SECONDS = 0.5
_KEPT_BYTES = 16 * 1024
_SHOWN_CHARACTERS = 600


MOST_BYTES = 64 * 1024
MOST_EMPTY_LOOKS = 10
"""How often in a row the file may be empty: its writer may not have come further."""


class TerminalSource:
    """One attempt of one agent in a tmux pane."""

    def __init__(self, task: Task, command: Command, program: str) -> None:
        """Prepare; the agent starts with the first item. ``program`` is tmux."""
        self.subject = f"Delegator {task.delegator.name!r}"
        self._task = task
        self._command = command
        self._tmux = program
        self._environment, self._secrets = environment_of(task, command)
        self.redactor = Redactor(self._secrets)
        self._done = DoneFile(command.cwd, self.subject)
        self._folder: Path | None = None
        self._opened: Opened | None = None
        self._link: PaneLink | None = None
        self._child: children.Child | None = None
        self._relays: list[asyncio.Task[None]] = []
        self._last_words = bytearray()
        self._active = False
        self._reported = False
        self._interrupted = False

    async def items(self) -> AsyncIterator[SourceItem]:
        """Start the agent in a pane, yield signs of work, and return with its report or its end."""
        if self._interrupted:
            return
        child, opened, typing = await self._start()
        yield AgentStarted(sandbox=child.sandbox, terminal=opened.pane)
        while not (self._interrupted or self._reported):
            await asyncio.wait([typing], timeout=LOOK_SECONDS)
            ended, closed = child.ended is not None, typing.done()
            report = self._done.look(last=ended or closed)
            if report is not None:
                self._reported = True
                yield AgentFinished(text=report, summary=report)
            elif ended:
                return
            elif closed:
                raise UnderstudyError(
                    ErrorKind.TOOL_NO_RESULT,
                    f"The tmux pane of {self.subject[:1].lower() + self.subject[1:]} was closed before the agent had "
                    "finished.",
                    hint="Retry, and leave the pane open until the agent has finished.",
                )
            elif self._active:
                self._active = False
                yield Heartbeat()

    async def answer(self, question_id: str, option: PermissionOption, note: str | None) -> None:
        """Do nothing: the user answers in the pane."""

    async def interrupt(self) -> None:
        """Stop looking: an agent in a terminal can only be ended."""
        self._interrupted = True

    async def send(self, message: Message) -> None:
        """Refuse: the user types into the pane."""
        _ = message
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{self.subject} runs in a terminal.",
            hint="Say it there: `understudy attach` shows its pane.",
        )

    async def explain(self) -> ErrorInfo | None:
        """Return why the agent exited without a report; None if it has written one."""
        ended = self._child.ended if self._child is not None else None
        if self._reported or ended is None:
            return None
        if self._child is not None and (exceeded := self._child.limit_error(bytes(self._last_words))) is not None:
            return exceeded.info()
        # A key that contains an escape sequence is found only without it.
        output = self.redactor.redact(strip_controls(bytes(self._last_words).decode("utf-8", "replace")))
        lines = " ".join(output.split())[-_SHOWN_CHARACTERS:]
        how = f"was killed by signal {ended.signal}" if ended.signal is not None else f"exited with code {ended.code}"
        kind = ErrorKind.TOOL_NO_RESULT if ended.code == 0 else ErrorKind.TOOL_CRASHED
        message = f"{self.subject} {how} and wrote no report to {DONE_FILE}"
        return ErrorInfo(kind, f"{message}: {lines}" if lines else f"{message}.", "Partial work is kept.")

    async def close(self) -> Sequence[Event]:
        """End the agent and everything it started, then its pane; return a note about leftover processes."""
        notes: list[Event] = []
        if self._child is not None:
            async with self._child:
                ended = await self._child.end(END_GRACE_SECONDS)
                if ended.leftovers:
                    text = f"The agent left {ended.leftovers} processes running; they were ended."
                    notes.append(Note(level="warning", text=text))
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)
        if self._link is not None:
            await self._link.close(CLOSE_SECONDS)
        if self._opened is not None:
            with suppress(UnderstudyError):
                await asyncio.to_thread(tmux.end_server, self._tmux, self._opened)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        return notes

    # -- starting --------------------------------------------------------------------------------------------

    async def _start(self) -> tuple[children.Child, Opened, asyncio.Task[None]]:
        """Open the pane, then start the agent with a terminal of the pane's type and size."""
        task = self._task
        self._folder = socket_folder(task.prompt_file.parent / "terminal")
        async with PaneSocket(self._folder) as waiting:
            opened = self._opened = await asyncio.to_thread(self._open, waiting.argv(), self._folder / "tmux.sock")
            link = self._link = await waiting.connected(PANE_SECONDS)
        # Raw logs could contain keys that the agent prints.
        child = self._child = await children.start(
            agent_program(
                task,
                self._command,
                {**self._environment, "TERM": link.term},
                terminal=(link.size.rows, link.size.columns),
                stdout_log=None if self._secrets else task.stdout_log,
            )
        )
        typing = asyncio.create_task(self._type(link, child))
        self._relays = [typing, asyncio.create_task(self._show(link, child))]
        return child, opened, typing

    def _open(self, argv: list[str], own_socket: Path) -> Opened:
        """Open a pane beside the caller's, or on a server of its own where that is gone, or never was."""
        beside, tree = self._task.caller_pane, self._command.cwd
        mark = self._task.delegation_id
        if beside is not None and tmux.exists(self._tmux, beside):
            title = f"understudy: {self._task.delegator.name}"
            return tmux.open_beside(self._tmux, beside, argv, cwd=tree, mark=mark, title=title)
        return tmux.open_detached(self._tmux, own_socket, argv, cwd=tree, mark=mark, title="understudy")

    async def _show(self, link: PaneLink, child: children.Child) -> None:
        while data := await child.read_stdout():
            self._last_words = (self._last_words + data)[-_KEPT_BYTES:]
            self._active = True
            await link.show(data)

    async def _type(self, link: PaneLink, child: children.Child) -> None:
        async for heard in link.heard():
            self._active = True
            if child.terminal is None:
                continue
            if isinstance(heard, Size):
                child.terminal.resize(heard.rows, heard.columns)
            else:
                with suppress(UnderstudyError):  # it has ended, and its exit says why
                    await child.terminal.write(heard)


class DoneFile:
    """The report of one attempt."""

    def __init__(self, tree: Path, subject: str) -> None:
        """Expect the report in ``tree``; ``subject`` names the agent in messages."""
        self._tree = tree
        self._subject = subject
        self._before: bytes | None = None
        self._empty = 0

    def look(self, *, last: bool = False) -> str | None:
        """Return the report once it is complete; ``last``: its writer has ended, so it is complete now.

        Raises ``malformed_output`` for a link, anything else that is not a regular file, and a file that is too long;
        ``empty_output`` for an empty one.
        """
        try:
            content = nofollow.read(self._tree, DONE_FILE, MOST_BYTES)
        except UnderstudyError as error:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"The report of {self._subject[:1].lower() + self._subject[1:]} was not read: {error.message}",
                hint="Partial work is kept. Ask for a short text file.",
            ) from error
        if content is None:
            self._before = None
            return None
        if not content.strip():
            self._empty += 1
            if last or self._empty > MOST_EMPTY_LOOKS:
                raise UnderstudyError(
                    ErrorKind.EMPTY_OUTPUT,
                    f"{self._subject} wrote an empty report to {DONE_FILE}.",
                    hint="Partial work is kept. Retry, and watch it with `understudy attach`.",
                )
            return None
        before, self._before = self._before, content
        return content.decode("utf-8", "replace").strip() if last or before == content else None
