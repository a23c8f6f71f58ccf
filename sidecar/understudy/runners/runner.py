"""The interface of every runner: ``Task`` in, events through ``emit``, ``Outcome`` out.

Failures are raised as ``UnderstudyError``; there is no failed ``Outcome``. The module of a runner is
imported when it is first needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from understudy.config.discovery import declarations
from understudy.model.capabilities import Capabilities, Pane
from understudy.model.config.delegators import Delegator, Launch, Limits, ModelServer, ProgramLimits, Recipe
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.confinement import Confinement
from understudy.model.delegation.delegations import PermissionOption, RequestKind, Usage
from understudy.model.delegation.events import Event
from understudy.model.relay.relay_tools import RelayTool
from understudy.policy.patience import Patience

AFTER_RESULT_SECONDS = 30.0
"""Some CLIs never exit after their result; thirty seconds is the usual grace."""
Emit = Callable[[Event], None]
"""Takes one event without ``seq``, ``at`` and ``attempt``; returns at once."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's request for permission to use one of its tools."""

    question_id: str
    """The agent's own id; it never leaves the runner."""
    title: str
    detail: str
    options: list[PermissionOption]
    """At least one rejects. Choose by ``kind``, never by ``id``."""
    tool: str
    """The tool, as the agent names it."""
    kind: RequestKind
    command: str | None = None
    """For ``execute``: the complete command line as the agent shows it."""
    paths: list[str] | None = None
    """All files that it would read or change: relative to the worktree where they are inside it, else as given."""
    altered: bool = False
    """Whether ``command`` or ``paths`` are not as the agent sent them (redacted, sanitised, left out)."""

    def fields(self) -> dict[str, Any]:
        """Return the fields that ``PermissionRequest`` and the ``Permission`` event share with this."""
        excluded = {"question_id", "altered"}
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in excluded}


Ask = Callable[[Question], Awaitable[tuple[PermissionOption, str | None]]]
"""Asks the user; returns the chosen option and a note.

It appends ``permission`` and ``permission_answered`` itself, asks one question at a time, and chooses the option that
rejects when no answer arrives within the limit ``answer_seconds``, or raises ``permission_denied`` to end the attempt.
Idle limits must not run while it waits.
"""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says to an agent that works."""

    message_id: str
    """A UUID."""
    text: str


Send = Callable[[Message], Awaitable[None]]
"""Hands a message to the agent; raises ``invalid_params`` when it can take none now."""


class Messages(Protocol):
    """What the user says during an attempt."""

    def connect(self, send: Send) -> None:
        """Hand messages over with ``send`` from now on, until the attempt ends."""
        ...

    def taken(self, message_id: str) -> None:
        """Note that the agent got a message."""
        ...


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool server of Understudy that the agent may use for this attempt. ``argv`` must not contain a secret."""

    name: str
    argv: list[str]


class ProjectPython(msgspec.Struct, frozen=True):
    """The project's Python as the checks of a result start it."""

    executable: str
    import_path: list[str] = msgspec.field(default_factory=list)
    """The folders that come first on its import path."""
    folder: str = ""
    """The folder of the project, relative to the worktree: where its tests are run."""
    on_path: bool = False
    """Whether it is the first one on PATH, which need not be the project's."""
    checkout: str = ""
    """The user's checkout, of which the worktree is a copy that an agent may have changed."""


class Relay(Protocol):
    """What an agent may do besides its work: ask the user, report progress, delegate, and talk to its peers."""

    @property
    def tools(self) -> Sequence[RelayTool]:
        """The tools that this agent gets."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether one of its calls waits for an answer. Idle limits must not run meanwhile."""
        ...

    def connect(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever ``waiting`` has changed."""
        ...

    async def call(self, name: str, arguments: Any) -> tuple[str, bool]:
        """Call a tool; return the text for the agent, and whether it succeeded. Raises nothing."""
        ...


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one attempt, completely resolved."""

    delegation_id: str
    recipe: Recipe
    prompt: str
    """The exact text that the agent gets, including prefix, suffix and files (see ``decorate``)."""
    prompt_file: Path
    """The same text on disk, outside the worktree."""
    worktree: Path | None
    """The isolated worktree; None for recipes that return text."""
    delegator: Delegator
    model_server: ModelServer | None = None
    files: list[str] = msgspec.field(default_factory=list)
    """The files to work on: POSIX paths relative to the workspace."""
    target: str | None = None
    """The file to write, for recipes that return a file; POSIX, relative."""
    interpreter: Callable[[], ProjectPython | None] | None = None
    """Finds the project's Python on demand; blocks while programs are asked for it."""
    limits: Limits = msgspec.field(default_factory=Limits)
    """The effective limits, including the delegator's own."""
    patience: Patience = msgspec.field(default_factory=Patience)
    """What applies where ``limits`` say nothing."""
    program_limits: ProgramLimits = msgspec.field(default_factory=ProgramLimits)
    """The limits of the programs that it starts."""
    tools: list[str] | None = None
    """The only tools of our own loop that its model gets (see ``loop_tools``); None: all."""
    session_id: str | None = None
    """The tool's session to resume."""
    request: str | None = None
    """What is asked for now, without what the session knows already; part of ``prompt``."""
    trusted: bool = False
    """Whether the user trusts the workspace, so that its settings for agents may be used."""
    mcp_servers: list[McpServer] = msgspec.field(default_factory=list)
    mcp_config: Path | None = None
    """The same servers in a file: JSON with ``mcpServers``."""
    relay: Relay | None = None
    """What the agent may do besides its work; None: nothing."""
    sandbox: Confinement = Confinement.NAMESPACE
    """The requested level."""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The delegator's environment variables."""
    secrets: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Names of the ``environment`` variables that were copied from this process: they must not be written anywhere."""
    key: Callable[[], str | None] | None = None
    """Reads the model server's key on demand."""
    ask: Ask | None = None
    """Asks the user the agent's questions; None where no one can be asked."""
    messages: Messages | None = None
    """What the user says meanwhile; None where no one can say anything."""
    checkpoint: Callable[[], Awaitable[None]] | None = None
    """Commits the files of the worktree as they are now; it raises nothing, and nothing may change them meanwhile."""
    caller_pane: Pane | None = None
    """The tmux pane that the user asked from; an agent in tmux is shown beside it."""
    stdout_log: Path | None = None
    stderr_log: Path | None = None
    """Where raw output is kept, up to a limit; None: it is not kept."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt that succeeded."""

    text: str | None = None
    summary: str | None = None
    session_id: str | None = None
    usage: Usage
    cost_usd: str | None = None
    """As the tool or the server reported it; None: not reported."""
    estimated: bool = False
    """Whether the usage is Understudy's estimate because it was not reported."""


class Runner(Protocol):
    """Drives one kind of agent."""

    capabilities: Capabilities

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Do ``task`` and report events through ``emit``; raise ``UnderstudyError`` when it fails.

        Cancelling the call ends everything that it started before it raises ``CancelledError``.
        """
        ...


def decorate(prompt: str, launch: Launch | None) -> str:
    """Return ``prompt`` between the delegator's ``promptPrefix`` and ``promptSuffix``.

    Every prompt is built with this, so that a preview shows exactly what will be sent.
    """
    if launch is None:
        return prompt
    return "\n\n".join(part for part in (launch.prompt_prefix, prompt, launch.prompt_suffix) if part)


def runner_for(delegator: Delegator, model_server: ModelServer | None, defined: ToolDefinition | None = None) -> Runner:
    """Return the runner of ``delegator`` on ``model_server``; raise ``unknown_tool`` when there is none.

    ``defined`` is the definition of its tool, for a tool that a file defines.
    ``config.validation`` has checked the delegator before a delegation is created.
    """
    supported = declarations.require_capabilities(delegator, model_server, defined)
    module, _, name = str(supported.runner).partition(":")
    runner = getattr(importlib.import_module(module), name)
    return cast("Runner", runner() if defined is None else runner(defined))
