"""The agent of one editor, and its server on stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from acp import schema
from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.interfaces import Client
from acp.meta import PROTOCOL_VERSION

from understudy import __version__
from understudy.api import error_answers
from understudy.api.error_answers import internal_error
from understudy.api.serving import waiting_delegations
from understudy.frontends import json_rpc
from understudy.frontends.acp import prompt_blocks, session_options, sessions, turns
from understudy.frontends.acp.event_updates import Update
from understudy.frontends.acp.message_transport import MessageTransport
from understudy.frontends.acp.session_caller import SessionCaller, Threads
from understudy.frontends.acp.sessions import Session
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _typed(
    function: Callable[_Parameters, Coroutine[Any, Any, _Result]],
) -> Callable[_Parameters, Coroutine[Any, Any, _Result]]:
    """Turn the errors of a handler into those of the protocol."""

    @functools.wraps(function)
    async def handler(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return await function(*args, **kwargs)
        except (RequestError, ConnectionError):
            raise
        except UnderstudyError as error:
            failure = error
        except Exception as error:
            failure = internal_error(f"acp {function.__name__}", error)
        code, message, data = error_answers.to_json_rpc(failure)
        # Clients show the message only.
        raise RequestError(code, f"{message} {failure.hint or ''}".strip(), data)

    return handler


class AcpAgent:
    """One client and its sessions; implements ``acp.interfaces.Agent``."""

    def __init__(self) -> None:
        """Open no session yet."""
        self._client: Client | None = None
        self._name: str | None = None
        self._sessions: dict[str, Session] = {}
        self._threads = Threads()
        self._tasks: set[asyncio.Task[Any]] = set()

    def on_connect(self, conn: Client) -> None:
        """Remember the connection."""
        self._client = conn

    async def close(self) -> None:
        """Stop following; what runs continues."""
        for task in [*self._tasks, *(session.turn for session in self._sessions.values() if session.turn is not None)]:
            task.cancel()

    # -- sessions --------------------------------------------------------------------------------------------

    @_typed
    async def initialize(self, client_info: schema.Implementation | None = None, **_: Any) -> schema.InitializeResponse:
        """Return what this agent can do."""
        if client_info is not None:
            self._name = f"{client_info.name} {client_info.version}".strip()
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="understudy", title="Understudy", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[],
        )

    @_typed
    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """Open a session in a folder."""
        session = await self._open(sessions.new_id(), cwd)
        return schema.NewSessionResponse(session_id=session.id, **session.choices)

    @_typed
    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Open an earlier session and send its history; what still runs is followed afterwards."""
        return schema.LoadSessionResponse(**(await self._reopen(cwd, session_id, replays=True)).choices)

    @_typed
    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> schema.ResumeSessionResponse:
        """Open an earlier session without its history."""
        return schema.ResumeSessionResponse(**(await self._reopen(cwd, session_id, replays=False)).choices)

    @_typed
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """Return the sessions of a workspace, and the delegations that were started elsewhere."""
        folders = [session.folder for session in self._sessions.values()]
        folder = sessions.require_folder(cwd) if cwd is not None else next(reversed(folders), None)
        if folder is None:
            return schema.ListSessionsResponse(sessions=[])
        caller = await self._caller("", folder)
        page, following = await self._threads.run(sessions.listed, caller, cursor)
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=entry.id, cwd=entry.workspace, title=entry.title, updated_at=entry.updated_at
                )
                for entry in page
            ],
            next_cursor=following,
        )

    @_typed
    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Cancel what the session's prompt does, and forget it; it can be loaded again."""
        session = self._require(session_id)
        await self._cancel(session)
        if session.turn is not None and not session.prompting:
            session.turn.cancel()
        del self._sessions[session_id]
        return schema.CloseSessionResponse()

    @_typed
    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """Choose a delegator."""
        session = self._require(session_id)
        await self._choose(session, session_options.DELEGATOR, mode_id)
        changed = schema.ConfigOptionUpdate(session_update="config_option_update", config_options=session.settings)
        self._after_answer(self._send(session, [changed]))
        return schema.SetSessionModeResponse()

    @_typed
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose a delegator or a recipe."""
        session = self._require(session_id)
        await self._choose(session, config_id, str(value))
        if config_id == session_options.DELEGATOR:
            mode = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=session.delegator)
            self._after_answer(self._send(session, [mode]))
        return schema.SetSessionConfigOptionResponse(config_options=session.settings)

    @_typed
    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Raise ``invalid_params``: delegators have their own logins."""
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"There is no login {method_id[:64]!r}.",
            hint="Log in with the tool of the delegator, or set a key: understudy servers set-key.",
        )

    # -- prompts ---------------------------------------------------------------------------------------------

    @_typed
    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        """Delegate what a prompt asks for, and answer when that has ended."""
        session = self._require(session_id)
        session.require_idle()
        session.prompting = True
        try:
            session.cancelled.clear()
            if session.turn is not None:
                session.turn.cancel()  # this prompt follows the delegation instead
                await asyncio.wait({session.turn})
                session.turn = None
            caller = await self._caller(session.id, session.folder, session.workspace)
            read = await self._threads.run(prompt_blocks.read, prompt, session.folder, session.workspace)
            if not read.text and not read.files and read.command is None:
                raise UnderstudyError(ErrorKind.INPUT_EMPTY, "The prompt is empty.", hint="Write what should be done.")
            caller.unsaved = read.unsaved
            return await turns.Turn(session, caller, self._connected, self._threads).run(read)
        finally:
            session.prompting = False

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the prompt of a session; what it started is cancelled, too."""
        session = self._sessions.get(session_id)
        if session is not None:
            await self._cancel(session)

    # -- parts -----------------------------------------------------------------------------------------------

    @property
    def _connected(self) -> Client:
        assert self._client is not None  # noqa: S101 - the SDK connects before it calls a handler
        return self._client

    async def _open(self, identifier: str, cwd: str) -> Session:
        if len(self._sessions) >= sessions.MOST_SESSIONS and identifier not in self._sessions:
            raise UnderstudyError(
                ErrorKind.OVERLOADED,
                f"{sessions.MOST_SESSIONS} sessions are open.",
                hint="Close some of them; they can be loaded again.",
            )
        folder = sessions.require_folder(cwd)
        caller = await self._caller(identifier, folder)
        options = await self._threads.run(session_options.read_options, caller)
        session = Session(identifier, folder, caller.workspace, options)
        self._sessions[identifier] = session
        commands = schema.AvailableCommandsUpdate(
            session_update="available_commands_update", available_commands=options.commands()
        )
        self._after_answer(self._send(session, [commands]))
        return session

    async def _reopen(self, cwd: str, identifier: str, *, replays: bool) -> Session:
        earlier = self._sessions.get(identifier)
        if earlier is not None:
            earlier.require_idle()
            if earlier.turn is not None:
                earlier.turn.cancel()
        caller = await self._caller(identifier, sessions.require_folder(cwd))
        members = await self._threads.run(sessions.members, caller, identifier)
        session = await self._open(identifier, cwd)
        turn = turns.Turn(session, caller, self._connected, self._threads)
        newest = members[-1]
        finished = newest.state is State.FINISHED
        if replays:
            finished = await turns.replay(turn, members)
        else:
            session.begin(newest.id, newest.last_seq)
        if newest.asked_by.frontend == "acp" and newest.delegator in session.options.delegators:
            session.delegator = newest.delegator
        session.recipe = newest.recipe if newest.recipe in session.options.recipes else session.recipe
        if not finished:
            session.turn = asyncio.create_task(_quietly(turn.follow()))
        return session

    async def _caller(self, session: str, folder: Path, workspace: Path | None = None) -> SessionCaller:
        """Return a caller in the workspace of a folder: the top level of its repository, if it has one."""
        caller = SessionCaller(workspace or folder, session, self._name)
        if workspace is None:
            trust = await self._threads.call(caller, "workspace/trust", workspace=str(folder))
            caller.workspace = Path(trust.workspace)
        return caller

    async def _choose(self, session: Session, option: str, value: str) -> None:
        caller = await self._caller(session.id, session.folder, session.workspace)
        # The user may have added a delegator since.
        session.options = await self._threads.run(session_options.read_options, caller)
        if option == session_options.DELEGATOR:
            session.delegator = session.options.require_delegator(value)
        elif option == session_options.RECIPE:
            session.recipe = session.options.require_recipe(value)
        else:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"There is no option {option[:64]!r}.",
                hint=f"The options are {session_options.DELEGATOR} and {session_options.RECIPE}.",
            )
        session.starts_new = True

    async def _cancel(self, session: Session) -> None:
        if not session.prompting and (session.turn is None or session.turn.done()):
            return
        session.cancelled.set()
        caller = await self._caller(session.id, session.folder, session.workspace)
        await turns.Turn(session, caller, self._connected, self._threads).cancel()

    def _require(self, identifier: str) -> Session:
        session = self._sessions.get(identifier)
        if session is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"There is no open session {identifier[:100]!r}.",
                hint="Create one with session/new, or open an earlier one with session/load.",
                parameter="sessionId",
            )
        return session

    async def _send(self, session: Session, updates: list[Update]) -> None:
        for update in updates:
            await self._connected.session_update(session_id=session.id, update=update)

    def _after_answer(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine after the answer of the handler that calls this: only then the client knows the session.

        The SDK sends the answer before the event loop comes to the new task.
        """

        def begin() -> None:
            task = asyncio.create_task(_quietly(coroutine))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        asyncio.get_running_loop().call_soon(begin)


async def _quietly(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that no request waits for; its errors are those of a client that is gone, or of a journal."""
    with contextlib.suppress(ConnectionError, UnderstudyError):
        await coroutine


def serve() -> int:
    """Serve until stdin ends."""
    # The SDK logs what it cannot handle, which may be text of the user.
    logging.getLogger().addHandler(logging.NullHandler())
    reading, writing = json_rpc.take_stdio()
    waiting_delegations.watch()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(reading, writing))
    return 0


async def _serve(reading: int, writing: int) -> None:
    agent: Any = AcpAgent()  # forking a session is the part of the SDK's `Agent` that it does not offer
    transport = MessageTransport(reading, writing)
    connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
    try:
        await connection.listen()
    finally:
        await agent.close()
        await connection.close()
