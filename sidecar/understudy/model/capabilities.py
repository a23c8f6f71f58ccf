"""Declare what a tool, or a backend of Understudy's own loop, supports; every layer reads these declarations.

A declaration is a file in ``model/tools`` (agent CLIs), or the constant ``CAPABILITIES`` of a module there or in
``model/backends`` (protocols of model servers that our own loop supports), with the name of the tool or backend.
``config.discovery.declarations`` finds them. Validation refuses what a declaration does not list, and frontends offer
what it lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from understudy.model.wire import Wire

Returns = Literal["text", "file", "tree"]
"""What a recipe returns."""
MessageTime = Literal["during_turn", "after_turn", "next_attempt", "never"]
"""During its turn; as its next turn, in the same process; with a later attempt only; never: it takes no words."""
TIME_LIMITS = frozenset({"total_seconds", "idle_seconds", "first_event_seconds", "after_result_seconds"})
"""Fields of ``Limits`` that the driver enforces for every program."""
USAGE_LIMITS = frozenset({"max_turns", "max_output_tokens", "max_tokens", "max_usd"})
"""Fields of ``Limits`` that need reported usage."""
TASK_FILE = ".understudy-run/task.md"
"""The file in the worktree with the complete prompt, so that this is in no command line."""
DONE_FILE = ".understudy-run/done.md"
"""The file in the worktree that ends an attempt."""
START_PROMPT = f"Read the file {TASK_FILE} in the current folder to its end, and do what it says."
"""What the agent is started with, instead of the prompt."""
DONE_NOTE = f"""
# When you have finished

Someone waits for your report. When everything is done, and only then, write it as text, in a few lines: what you
changed, what you checked, and what is left to do. If you were asked for a text, the report is that text, complete.
Write it to `{DONE_FILE}.tmp` first, then rename that file to `{DONE_FILE}`:

    mv {DONE_FILE}.tmp {DONE_FILE}

Your session ends as soon as `{DONE_FILE}` exists.
"""
"""What follows every prompt in a terminal."""


class OptionValue(Wire, kw_only=True):
    """A value that an option may have."""

    value: str
    title: str
    """Its label in lists."""
    description: str = ""
    unrestricted: bool = False
    """Whether the tool does everything without asking."""


class RepositoryPath(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file or folder of a repository that configures a tool without asking the user."""

    path: str
    """POSIX, relative to the repository; a folder ends with a slash."""
    what: str
    """What it contains (``hooks of GitHub Copilot``)."""
    has_hooks: bool = False
    """Whether it is a JSON file whose ``hooks`` name commands that the tool runs."""
    rewritten: bool = False
    """Whether the tool rewrites this file in its newest format when it starts."""


class CostAddress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to see whether an agent talks to its vendor's server."""

    variable: str
    """The environment variable that leads it to another server."""
    host: str
    """The vendor's host."""
    settings: tuple[str, str]
    """The variable that names the folder of its user's settings with its default below the home. The file
    ``settings.json`` in it may set the variable in its table ``env``."""


class Install(Wire, kw_only=True):
    """How a user installs an agent CLI and logs in."""

    about: str
    """What it is, as a sentence."""
    command: str
    """The official command to install it, as a line for a terminal; Understudy never runs it."""
    login: str
    """How to log in afterwards, as a sentence."""
    login_command: str | None = None
    """The line for a terminal that starts the login."""
    url: str
    """The page that explains how to install it."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that Understudy knows about a tool or a backend before starting it."""

    name: str
    """The value of ``tool`` in a delegator; for a backend, its name in lists."""
    title: str
    """Its display name."""
    description: str | None = None
    """What it does, as a sentence, unless the name says it."""
    runner: str | None = None
    """The class that drives it, as ``module:Class``; ``None``: Understudy cannot drive it yet."""

    binaries: tuple[str, ...] = ()
    """Names of its program, the usual one first; empty: it is part of Understudy, or the delegator names it."""
    built_in: bool = False
    """Whether it is part of Understudy, and has the same version."""
    install: Install | None = None
    """How to install it, unless it is part of Understudy or named by the delegator."""
    command: tuple[str, ...] = ()
    """The ``launch.command`` that runs it as a custom command, while Understudy has no runner for it."""
    version_arguments: tuple[str, ...] = ("--version",)
    """Arguments with which the program prints its version (or at least its name) and exits; empty: it is not asked."""
    own_output: str | None = None
    """A pattern that the output must match, where other programs have the same name."""
    foreign_output: str | None = None
    """A pattern of the output of another program with the same name."""
    oldest_version: str | None = None
    """The oldest version that the runner supports."""
    node_version: str | None = None
    """The oldest Node.js on which its newest release installs: with an older one, npm takes an older release."""
    acp_command: tuple[str, ...] = ()
    """The program that speaks the Agent Client Protocol for it, with its arguments; empty: it has none."""
    acp_servers: bool = True
    """Whether it starts the tool servers that it is given over this protocol."""
    interactive: Interactive | None = None
    """How it runs in a terminal; ``None``: it does not, unless the delegator names the command."""

    launch: Mapping[str, tuple[OptionValue, ...]] = {}
    """Fields of ``Launch`` that have an effect → their allowed values (empty: any value of the type)."""
    reserved_flags: frozenset[str] = frozenset()
    """Flags that ``launch.flags`` must not have, because the runner sets them."""
    flag_fields: Mapping[str, str] = {}
    """Flags that ``launch.flags`` must not have, because a field of the delegator has the same effect → this field."""
    limits: frozenset[str] = TIME_LIMITS
    """Fields of ``Limits`` that have an effect."""
    usage_needs: tuple[str, str] | None = None
    """A field of ``Launch`` and the value that the usage limits require."""
    properties: bool = False
    """Whether every ``modelProperties`` has an effect: it is sent with each request."""
    own_properties: Mapping[str, str] = {}
    """The only ``modelProperties`` that have an effect, if not all have → what each does, as a sentence."""
    protocols: tuple[str, ...] = ()
    """Protocols of the model servers that it can use, the default first; empty: it cannot use one."""
    takes_model: bool = True
    """Whether ``model`` has an effect."""
    needs_model_server: bool = False
    """Whether it works only with a model server; then ``model`` is required too."""
    server_needs_model: bool = False
    """Whether ``model`` is required with a model server."""
    own_model: tuple[str, str] | None = None
    """The pattern of the ``model`` that is required without a model server, and how to find one, as a sentence.
    ``None``: it has a default that it may use."""
    sessions: bool = False
    """Whether a later attempt can continue the session of an earlier one."""
    messages: MessageTime = "next_attempt"
    """When it gets a message that the user sends while it works."""

    returns: frozenset[Returns] = frozenset({"text", "file", "tree"})
    """Kinds of recipes that it can run."""
    works_on: list[str] = msgspec.field(default_factory=list)
    """Endings of the files that it can work on; empty: any."""
    only_new_tests: bool = False
    """Whether it can run only recipes that are judged by new tests."""

    session_variables: tuple[str, ...] = ()
    """Environment variables in which it passes the id of its session to the programs that it starts."""
    repository_paths: tuple[RepositoryPath, ...] = ()
    """Its configuration in a repository, which trusting a workspace covers."""
    environment: Mapping[str, str] = {}
    """Variables that the runner sets unless the delegator's ``env`` does: no telemetry, no updates."""
    cost_address: CostAddress | None = None
    """It counts costs at its vendor's prices, which are true with that server only. ``None``: always."""
    process_in_worktree: bool = True
    """Whether it starts a process that can change the worktree (and everything else that the user can change)."""
    prompt_note: str = ""
    """What follows every prompt."""
    inline_files: bool = False
    """Whether the contents of files go into the prompt, because it cannot read files itself."""

    @property
    def follows_instructions(self) -> bool:
        """Whether a task's text and replies have an effect; not on an agent that works without a model."""
        return self.messages != "never"

    @property
    def install_hint(self) -> str:
        """Return how to install it, as a sentence for errors without the full stop."""
        if self.install is None:
            return f"Install {self.title}"
        node = f", with Node.js {self.node_version} or later" if self.node_version else ""
        return f"Install {self.title} ({self.install.command}{node})"

    @property
    def modes(self) -> tuple[str, ...]:
        """How it can be driven: without a terminal, through the Agent Client Protocol, or in tmux."""
        own_command = "command" in self.launch
        acp = ("acp",) if self.acp_command or own_command else ()
        return ("headless", *acp, *(("tmux",) if self.interactive or own_command else ()))

    @property
    def takes_model_server(self) -> bool:
        """Whether it can use a model server."""
        return bool(self.protocols)

    @property
    def permission_modes(self) -> tuple[OptionValue, ...]:
        """The allowed values of ``launch.permissionMode``."""
        return self.launch.get("permission_mode", ())

    def in_mode(self, mode: str | None) -> Capabilities | None:
        """Return what it supports in this ``mode`` of a delegator; None if Understudy cannot drive it like that."""
        if mode in {None, "headless"}:
            return self if self.runner is not None else None
        if mode not in self.modes:
            return None
        return self._over_acp() if mode == "acp" else self._in_terminal()

    def in_each_mode(self) -> list[Capabilities]:
        """Return what it supports in each mode in which Understudy can drive it."""
        return [capabilities for mode in self.modes if (capabilities := self.in_mode(mode)) is not None]

    def _over_acp(self) -> Capabilities:
        options: Mapping[str, tuple[OptionValue, ...]] = {"command": ()} if "command" in self.launch else {"flags": ()}
        # The protocol has every agent start servers on stdin and stdout; these do not, or not in folders like ours.
        relay: Mapping[str, tuple[OptionValue, ...]] = {"relay": ()} if self.acp_servers else {}
        program, install = self.acp_command[:1], self.install
        if install is not None and not set(program) & set(self.binaries):
            # An adapter: the maintained ones are packages of one organization, with the names of their programs.
            install = msgspec.structs.replace(install, command=f"npm install -g @agentclientprotocol/{program[0]}")
        return msgspec.structs.replace(
            self,
            runner=_ACP_RUNNER,
            binaries=program,
            install=install,
            launch={**options, "permission_mode": (), "yolo": (), "unanswered": UNANSWERED, **relay, **COMMON_FIELDS},
            limits=TIME_LIMITS | {"answer_seconds"},
            usage_needs=None,
            properties=False,
            own_properties={},
            protocols=(),
            needs_model_server=False,
            own_model=None,
            sessions=True,
            messages="after_turn",
        )

    def _in_terminal(self) -> Capabilities:
        how = self.interactive or Interactive(command=())
        launch: dict[str, tuple[OptionValue, ...]] = {"command": ()} if self.interactive is None else {}
        if how.permission_modes and how.takes_options:
            launch["permission_mode"] = tuple(
                mode for mode in self.permission_modes if mode.value in how.permission_modes
            )
        if how.yolo and how.takes_options:
            launch["yolo"] = ()
        if how.takes_options:
            launch["flags"] = ()
        if (how.relay and how.takes_options) or self.interactive is None:
            launch["relay"] = ()
        if self.interactive is not None and self.runner is not None:
            launch["without_tmux"] = WITHOUT_TMUX
        return msgspec.structs.replace(
            self,
            runner=_TMUX_RUNNER,
            launch={**launch, **PROMPT_FIELDS},
            limits=TIME_LIMITS - {"after_result_seconds"},
            usage_needs=None,
            properties=False,
            own_properties={},
            protocols=(),
            takes_model=how.takes_model or self.interactive is None,
            needs_model_server=False,
            sessions=False,
            messages="next_attempt",
            returns=frozenset({"text", "tree"}),
            prompt_note=DONE_NOTE,
        )

    def values(self, field: str) -> tuple[str, ...]:
        """Return the allowed values of a field of ``Launch``; empty: any value of its type."""
        return tuple(choice.value for choice in self.launch.get(field, ()))

    def supports_recipe(self, returns: str, judged_by: str) -> bool:
        """Return whether it can run a recipe with these properties."""
        return returns in self.returns and (judged_by == "new_tests" or not self.only_new_tests)


_ACP_RUNNER = "understudy.runners.acp.acp:Runner"


_TMUX_RUNNER = "understudy.runners.tmux.tmux_runner:Runner"


UNANSWERED = (
    OptionValue(value="reject", title="Reject", description="The request is rejected, and the agent goes on."),
    OptionValue(value="allow", title="Allow", description="The request is allowed."),
    OptionValue(value="stop", title="Stop", description="The attempt ends; its partial work is kept."),
)
"""Values of ``launch.unanswered``, for tools that ask for permission."""


WITHOUT_TMUX = (
    OptionValue(value="fail", title="Fail", description="The attempt fails, and says how to install tmux."),
    OptionValue(value="headless", title="Headless", description="The tool runs without a terminal, as in that mode."),
)
"""Values of ``launch.without_tmux``, for tools that also run without a terminal."""


PROMPT_FIELDS: Mapping[str, tuple[OptionValue, ...]] = {"prompt_prefix": (), "prompt_suffix": (), "branch": ()}
"""Fields of ``Launch`` that every delegator with a text prompt supports."""


COMMON_FIELDS: Mapping[str, tuple[OptionValue, ...]] = {**PROMPT_FIELDS, "use_worktree": ()}
"""Fields of ``Launch`` that every agent CLI with a text prompt supports."""


MODES = (
    OptionValue(
        value="headless", title="Headless", description="Started once for each task, in the format of the tool itself."
    ),
    OptionValue(
        value="acp",
        title="Agent Client Protocol",
        description="Driven over the protocol that editors use: questions, plans, changes and usage arrive typed.",
    ),
    OptionValue(
        value="tmux",
        title="Terminal (tmux)",
        description="Shown in a tmux pane, where you watch it and answer its questions.",
    ),
)
"""The values of ``Delegator.mode``."""


TITLES: Mapping[str, str] = {
    "model": "Model",
    "mode": "Mode",
    "permission_mode": "Permissions",
    "yolo": "Never ask for permission",
    "unanswered": "When no one answers",
    "flags": "More arguments",
    "prompt_prefix": "Text before every prompt",
    "prompt_suffix": "Text after every prompt",
    "branch": "Branch for verified results",
    "use_worktree": "Work in a worktree",
    "command": "Command",
    "prompt_delivery": "Prompt delivery",
    "output": "Output",
    "relay": "Relay tools",
    "without_tmux": "Without tmux",
    "total_seconds": "Time limit in seconds",
    "idle_seconds": "Idle limit in seconds",
    "first_event_seconds": "First event limit in seconds",
    "after_result_seconds": "Exit limit in seconds",
    "answer_seconds": "Answer limit in seconds",
    "max_turns": "Turn limit",
    "max_output_tokens": "Output token limit",
    "max_tokens": "Token limit",
    "max_usd": "Cost limit in US dollars",
    "temperature": "Temperature",
    "model_reasoning_effort": "Reasoning effort",
    "model_reasoning_summary": "Reasoning summaries",
    "model_verbosity": "Verbosity",
    "service_tier": "Service tier",
    "thinking": "Thinking",
    "contextWindow": "Context window in tokens",
    "maxTokens": "Tokens in one answer",
}
"""Fields of ``Launch`` and ``Limits``, and well-known model properties → their labels in forms."""


class Pane(Wire, kw_only=True):
    """A pane of a tmux server."""

    socket: str
    """Absolute path of the socket of its tmux server."""
    id: str
    """Its id on this server, such as `%3`."""


class Interactive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a tool is started in a terminal, for a user who can watch it and answer its questions."""

    command: tuple[str, ...]
    """Program and arguments, with the placeholders of commands. ``{options}`` are the arguments for the fields below
    that a delegator sets, and ``{prompt}`` is ``START_PROMPT``."""
    model: tuple[str, ...] = ()
    """Arguments that choose the model, with ``{model}``; empty: it cannot be chosen."""
    yolo: tuple[str, ...] = ()
    """Arguments that let it do everything without asking; empty: there are none."""
    permission_modes: Mapping[str, tuple[str, ...]] = {}
    """Values of ``launch.permissionMode`` → their arguments. In each it must be able to write ``DONE_FILE``."""
    relay: tuple[str, ...] = ()
    """Arguments that give it relay tools, with ``{mcpConfig}``; empty: it gets none."""
    default_mode: str | None = None
    """The one of them that applies unless the delegator sets one."""
    reserved_flags: frozenset[str] = frozenset()
    """Flags that ``launch.flags`` must not have: they would end this mode, or let the repository configure the tool."""
    prepare: str | None = None
    """A function, as ``module:function``, which raises for a task that it must not be started with, and returns
    variables that it gets in a terminal, besides those of every mode."""

    @property
    def takes_options(self) -> bool:
        """Whether arguments for options have a place in its command."""
        return "{options}" in self.command

    @property
    def takes_model(self) -> bool:
        """Whether the model can be chosen."""
        return bool(self.model and self.takes_options) or any("{model}" in word for word in self.command)
