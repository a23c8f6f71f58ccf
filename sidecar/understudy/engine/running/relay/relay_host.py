"""Execute the calls of an agent's relay tools, which reach the worker of its delegation through a socket.

The folder of the socket has a random token, mode 0600, which every request repeats, and a file that names the MCP
server for agents that read one. On Linux, a request counts only from a process of this worker's agent: the kernel
names the process at the other end, and it must descend from this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import secrets
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from understudy.engine.running.relay import child_delegations
from understudy.engine.running.relay.child_delegations import ChildDelegations
from understudy.engine.running.relay.peer_messages import PeerMessages
from understudy.files import durable
from understudy.journal.delegation_folder import Folder
from understudy.journal.worker_files import Item
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation, PermissionOption
from understudy.model.delegation.spec import Spec, SpecCandidate
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.relay import relay_tools as t
from understudy.model.relay.relay_tools import SERVER
from understudy.model.states import State
from understudy.model.text import foreign_json
from understudy.model.text.sanitize import one_line, strip_controls
from understudy.model.wire import ready
from understudy.process import identity, pipes
from understudy.process.guardian import marked_processes
from understudy.runners.runner import McpServer, Question

POLL_SECONDS = 0.5
"""How often a call that waits looks at a child."""
TITLE_CHARACTERS = 300
PROGRESS_CHARACTERS = 300
MOST_QUESTIONS = 16
"""Questions of an agent that are not answered; it may end a call and begin another."""
TEXT, DECLINE = "text", "decline"
"""The ids of the options of a question that are not choices of the agent."""
InThread = Callable[..., Awaitable[Any]]
Ask = Callable[[Question], Awaitable[tuple[PermissionOption, str | None]]]
SOCKET, TOKEN, CONFIG = "socket", "token", "mcp.json"
MOST_LINE_BYTES = 1 << 20
MOST_CALLS = 32
"""Calls at one time; further ones are refused."""
HELLO_SECONDS = 10.0
"""How long a connection may take to say what it wants."""
_NOT_YOURS = "These tools belong to another agent."


class RelayHost:
    """The relay tools of one run; for one event loop, and the ``Relay`` of each of its attempts."""

    def __init__(
        self,
        folder: Folder,
        spec: Spec,
        state: Path,
        *,
        emit: Callable[[events.Event], None],
        ask: Ask,
        in_thread: InThread,
    ) -> None:
        """Start without an agent."""
        self._emit = emit
        self._ask = ask
        self._in_thread = in_thread
        self._spec = spec
        self._children = ChildDelegations(folder, spec, state)
        self._peers = PeerMessages(folder, spec, emit)
        self._socket = RelaySocket(folder.path / "relay", self._answer)
        self._candidate = spec.candidates[0]
        self._questions: dict[tuple[str, ...], asyncio.Task[dict[str, Any]]] = {}
        self._waiting = 0
        self._changed: Callable[[], None] | None = None
        self._functions: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "ask_human": self._ask_human,
            "report_progress": self._report_progress,
            "delegate": self._delegate,
            "wait": self._wait,
            "show": self._show,
            "diff": self._diff,
            "cancel": self._cancel,
            "peers": self._list_peers,
            "message": self._message,
            "messages": self._messages,
            "ask": self._ask_peer,
            "reply": self._reply,
            "broadcast": self._broadcast,
        }

    @property
    def group_id(self) -> str | None:
        """The group of the delegation and its children."""
        return self._children.group_id

    # -- around an attempt -----------------------------------------------------------------------------------

    async def open(self, candidate: SpecCandidate) -> tuple[list[McpServer], Path | None]:
        """Serve the agent of an attempt; return the MCP server that it starts, and the file that names it.

        Our own loop starts none.
        """
        self._candidate = candidate
        self._changed = None
        self._children.open()
        if candidate.delegator.tool is None:
            return [], None
        folder = await self._socket.open()
        return [self._socket.server_in(folder)], folder / CONFIG

    def take(self, items: Iterable[Item]) -> None:
        """Read new lines of ``requests.jsonl``."""
        self._peers.take(items)

    async def end_attempt(self) -> None:
        """Cancel the questions of an agent that has ended."""
        self._changed = None
        for question in list(self._questions.values()):
            question.cancel()
        await asyncio.gather(*self._questions.values(), return_exceptions=True)
        self._questions.clear()

    async def close(self) -> None:
        """Stop serving agents, and stop what they delegated."""
        await self._socket.close()
        await self.end_attempt()
        await asyncio.to_thread(self._children.close)

    # -- what an agent calls ---------------------------------------------------------------------------------

    @property
    def tools(self) -> Sequence[t.RelayTool]:
        """The tools of this agent: without those for delegating where it may not."""
        may_delegate = self._spec.asked_by.depth < self._spec.relay.max_depth and self._spec.relay.max_delegations > 0
        return [tool for tool in t.TOOLS.values() if may_delegate or not tool.delegates]

    @property
    def waiting(self) -> bool:
        """Whether a call waits."""
        return self._waiting > 0

    def connect(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever ``waiting`` has changed."""
        self._changed = changed

    async def call(self, name: str, arguments: Any) -> tuple[str, bool]:
        """Execute a call."""
        tool = next((candidate for candidate in self.tools if candidate.name == name), None)
        if tool is None:
            names = ", ".join(candidate.name for candidate in self.tools)
            return f"There is no tool {name[:80]!r}. The tools are: {names}.", False
        self._count(1)
        try:
            answer = await self._functions[name](tool.decode(arguments))
        except UnderstudyError as error:
            names = f" Possible: {', '.join(error.names)}." if error.names else ""
            return f"{error.message} {error.hint or ''}{names}".strip(), False
        except Exception as error:
            # A bug must not end the work.
            return f"Internal error in Understudy: {type(error).__name__}: {error}", False
        finally:
            self._count(-1)
        if isinstance(answer, str):
            return answer, True
        if self._peers.unread:
            answer["unread_messages"] = self._peers.unread
        return msgspec.json.encode(answer).decode(), True

    async def _answer(self, request: Request) -> Response:
        if request.tool is None:
            tools = [
                {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
                for tool in self.tools
            ]
            return Response(ok=True, tools=tools)
        text, ok = await self.call(request.tool, request.arguments)
        return Response(ok=ok, text=text)

    def _count(self, change: int) -> None:
        self._waiting += change
        if self._changed is not None:
            self._changed()

    # -- the user --------------------------------------------------------------------------------------------

    async def _ask_human(self, args: t.AskHuman) -> dict[str, Any]:
        key = (args.question, *args.choices)
        if key not in self._questions:
            if len(self._questions) >= MOST_QUESTIONS:
                raise UnderstudyError(
                    ErrorKind.CONFLICT,
                    f"{len(self._questions)} of your questions have no answer yet.",
                    hint="Wait for these: make the same calls again.",
                )
            self._questions[key] = asyncio.ensure_future(self._put(args))
        question = self._questions[key]
        answered, _ = await asyncio.wait({question}, timeout=t.CALL_SECONDS)
        if not answered:
            return {"status": "waiting", "next": "make the same call again"}
        self._questions.pop(key, None)
        return question.result()

    async def _put(self, args: t.AskHuman) -> dict[str, Any]:
        choices = [
            PermissionOption(id=f"choice{number}", title=one_line(choice)[:TITLE_CHARACTERS], kind="allow_once")
            for number, choice in enumerate(args.choices, 1)
        ]
        option, note = await self._ask(
            Question(
                question_id="",
                title=one_line(args.question)[:TITLE_CHARACTERS],
                detail=strip_controls(args.question),
                options=[
                    *choices,
                    PermissionOption(id=TEXT, title="Answer with a text", kind="allow_once", takes_text=True),
                    PermissionOption(id=DECLINE, title="Do not answer", kind="reject_once"),
                ],
                tool="ask_human",
                kind="question",
            )
        )
        if option.id == DECLINE:
            reason = note or "The user did not answer."
            return {"status": "unanswered", "reason": reason, "next": "decide yourself, or say in your report"}
        if option.takes_text:
            return {"status": "answered", "answer": note or ""}
        chosen = args.choices[choices.index(option)]
        return {"status": "answered", "answer": chosen} | ({"note": note} if note else {})

    async def _report_progress(self, args: t.ReportProgress) -> dict[str, Any]:
        counted = ""
        if args.done is not None:
            counted = f" ({args.done:g} of {args.total:g})" if args.total is not None else f" ({args.done:g})"
        self._emit(events.Phase(text=f"reports: {one_line(args.text)[:PROGRESS_CHARACTERS]}{counted}"))
        return {"status": "reported"}

    # -- its delegations -------------------------------------------------------------------------------------

    async def _delegate(self, args: t.Delegate) -> dict[str, Any]:
        loop = asyncio.get_running_loop()

        def joined(group: str) -> None:
            loop.call_soon_threadsafe(self._emit, events.Grouped(group_id=group))

        start = partial(self._children.start, args, self._candidate, joined)
        # A start that was begun is finished: a child that no one knows would not end with its parent.
        delegation: Delegation = await asyncio.shield(self._in_thread(start))
        return child_delegations.brief(delegation)

    async def _show(self, args: t.Named) -> dict[str, Any]:
        return child_delegations.brief(await self._in_thread(self._children.get, args.id))

    async def _wait(self, args: t.Wait) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + args.timeout_seconds
        while True:
            delegation: Delegation = await self._in_thread(self._children.get, args.id)
            left = deadline - asyncio.get_running_loop().time()
            if delegation.state is State.FINISHED or left <= 0:
                return child_delegations.brief(delegation)
            await asyncio.sleep(min(POLL_SECONDS, left))

    async def _diff(self, args: t.Diff) -> str:
        return str(await self._in_thread(self._children.diff, args.id, args.files))

    async def _cancel(self, args: t.Named) -> dict[str, Any]:
        await self._in_thread(self._children.cancel, args.id)
        return {"status": "cancelled", "next": "show"}

    # -- its peers -------------------------------------------------------------------------------------------

    async def _list_peers(self, _: t.NoArguments) -> dict[str, Any]:
        peers = await self._in_thread(self._peers.peers, self.group_id)
        return {"peers": [self._peers.describe(peer) for peer in peers]}

    async def _message(self, args: t.Message) -> dict[str, Any]:
        [peer] = await self._in_thread(self._peers.send, self.group_id, args.to, args.text, "message")
        return {"status": "sent", "to": peer}

    async def _messages(self, args: t.Messages) -> dict[str, Any]:
        return {"messages": await self._peers.read(args.wait_seconds)}

    async def _ask_peer(self, args: t.Message) -> dict[str, Any]:
        async def send(message_id: str) -> None:
            await self._in_thread(self._peers.send, self.group_id, args.to, args.text, "ask", message_id)

        answer = await self._peers.answer_to(args.to, args.text, t.CALL_SECONDS, send)
        if answer is None:
            return {"status": "waiting", "next": "make the same call again, or continue without it"}
        return {"status": "answered", "answer": answer}

    async def _reply(self, args: t.Reply) -> dict[str, Any]:
        peer = await self._in_thread(self._peers.reply, self.group_id, args.message_id, args.text)
        return {"status": "sent", "to": peer}

    async def _broadcast(self, args: t.Broadcast) -> dict[str, Any]:
        reached = await self._in_thread(self._peers.send, self.group_id, "", args.text, "broadcast")
        return {"status": "sent", "to": reached}


class Request(msgspec.Struct, rename="camel"):
    """One request: the list of tools, or a call of one."""

    token: str
    tool: str | None = None
    """None: list the tools."""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class Response(msgspec.Struct, rename="camel", omit_defaults=True):
    """The answer to a request."""

    ok: bool
    text: str = ""
    tools: list[dict[str, Any]] | None = None


class RelaySocket:
    """The socket of one run, for one event loop."""

    def __init__(self, folder: Path, answer: Callable[[Request], Awaitable[Response]]) -> None:
        """Listen in ``folder``, or in one with a shorter path; ``answer`` answers what is allowed."""
        self._wanted = folder
        self._answer = answer
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._token = secrets.token_hex(32)
        self._calls: set[asyncio.Task[Any]] = set()

    async def open(self) -> Path:
        """Listen, unless that was done; return the folder."""
        if self._folder is not None:
            return self._folder
        folder = pipes.socket_folder(self._wanted)
        place = folder / SOCKET
        place.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._take, path=str(place), limit=MOST_LINE_BYTES)
        place.chmod(0o600)
        durable.replace(folder / TOKEN, self._token.encode())
        server = self.server_in(folder)
        config = {"mcpServers": {server.name: {"command": server.argv[0], "args": server.argv[1:]}}}
        durable.replace(folder / CONFIG, json.dumps(config).encode())
        self._folder = folder
        return folder

    @staticmethod
    def server_in(folder: Path) -> McpServer:
        """Return the MCP server that calls the socket in ``folder``; -P: the worktree must not shadow a module."""
        return McpServer(name=SERVER, argv=[sys.executable, "-P", "-m", "understudy", "mcp", "--relay", str(folder)])

    async def close(self) -> None:
        """Stop listening, end the calls, and remove the folder."""
        folder, self._folder = self._folder, None
        if self._server is not None:
            self._server.close()
            self._server = None
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(folder)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._calls.add(task)
        try:
            response = await self._respond(reader, writer)
            if response is not None:
                writer.write(msgspec.json.encode(response) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # it is gone, or this is the end
        finally:
            writer.close()
            if task is not None:
                self._calls.discard(task)

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Response | None:
        # Before anything is read: a process that has ended by then may have left its id to another one.
        if not _is_ours(writer):
            return Response(ok=False, text=_NOT_YOURS)
        if len(self._calls) > MOST_CALLS:
            return Response(ok=False, text="Too many calls at once.")
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                request = foreign_json.decode(
                    await reader.readline(), lambda data: msgspec.json.decode(data, type=ready(Request))
                )
        except (TimeoutError, ValueError, RecursionError, msgspec.MsgspecError):
            return Response(ok=False, text="Not a request.")
        if not hmac.compare_digest(request.token.encode(), self._token.encode()):
            return Response(ok=False, text=_NOT_YOURS)
        work = asyncio.ensure_future(self._answer(request))
        gone = asyncio.ensure_future(reader.read(1))  # nothing follows: this ends when the caller does
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            for unneeded in (work, gone):
                unneeded.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Return whether the process at the other end descends from this one; true where the kernel does not tell."""
    pid = identity.peer_pid(writer.get_extra_info("socket"))
    return pid is None or marked_processes.is_below(pid, os.getpid())
