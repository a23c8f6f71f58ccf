"""Agent CLIs that users define in files: their commands, formats, options and failures, and what each supports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from understudy.model.capabilities import (
    COMMON_FIELDS,
    TIME_LIMITS,
    USAGE_LIMITS,
    Capabilities,
    Interactive,
    OptionValue,
    RepositoryPath,
)
from understudy.model.wire import Strict

OPTIONS_SLOT = "{options}"
"""The argument of a command that the arguments of all options replace."""
RUNNER = "understudy.runners.defined_tools.defined_tool:Runner"
ToolDialect = Literal["text", "json", "events", "claude", "codex", "opencode", "pi"]
EventName = Literal[
    "session", "text", "thinking", "phase", "plan", "tool_call", "tool_result", "file", "usage", "result", "failure"
]
FailureKind = Literal[
    "auth_failed",
    "quota_exhausted",
    "rate_limited",
    "overloaded",
    "bad_request",
    "context_too_long",
    "content_refused",
    "model_not_found",
    "connection_failed",
    "timed_out",
    "stream_truncated",
    "output_truncated",
    "budget_exhausted",
    "permission_denied",
    "config_invalid",
    "tool_missing",
    "tool_crashed",
]
MODEL = "{model}"
MCP_CONFIG = "{mcpConfig}"
SLOTS = (
    OptionValue(value="{prompt}", title="the task, as text"),
    OptionValue(
        value="{promptFile}",
        title="the path of a file with the task; without it and {prompt}, the task is sent to standard input",
    ),
    OptionValue(value=MODEL, title="the delegator's model"),
    OptionValue(value="{worktree}", title="the folder to work in, which is also the current folder"),
    OptionValue(
        value=MCP_CONFIG, title="the path of a file with the relay tools, as MCP servers; omitted without them"
    ),
    OptionValue(value="{sessionId}", title="the session to continue; omitted in the first turn"),
)
NAMES = tuple(slot.value.strip("{}") for slot in SLOTS)
SLOT = re.compile(r"\{(" + "|".join(NAMES) + r")\}")
_BRACES = re.compile(r"\{([A-Za-z]+)(\}|$)")
_SAME = 3
"""A word in braces that begins with this many letters of a slot was meant to be one; programs take other braces."""


class DefinedMode(Strict, kw_only=True):
    """A permission mode: its name, and the arguments that select it."""

    name: str
    """The value of `launch.permission_mode` in a delegator: the tool's own name of the mode."""
    arguments: list[str]
    """The arguments that select it."""
    description: str
    """What the tool may do without asking, as a sentence."""


class DefinedPath(Strict, kw_only=True):
    """A file or folder of a repository that configures the tool without asking the user."""

    path: str
    """Relative to the repository; a folder ends with a slash."""
    what: str
    """What it contains (`hooks of My Agent`), for the question whether to trust a workspace."""


class DefinedOptions(Strict, kw_only=True):
    """The arguments of options; each replaces `{options}` in the command when a delegator sets the option."""

    model: list[str] | None = None
    """Arguments that choose the model, with `{model}`."""
    yolo: list[str] | None = None
    """Arguments that let the tool do everything without asking."""
    resume: list[str] | None = None
    """Arguments that continue a session, with `{sessionId}`."""
    relay: list[str] | None = None
    """Arguments that name a file with MCP servers, with `{mcpConfig}`: JSON with `mcpServers`, as for Claude Code."""


class EventRule(Strict, kw_only=True):
    """A rule for the lines of a tool: which lines are an event, and where its values are.

    Values are found by paths such as `item.text`, `choices[0].text` and `content[*].text`. Every rule that matches a
    line applies, in the order of the file.
    """

    event: EventName
    """What the line reports."""
    when: dict[str, Any] = msgspec.field(default_factory=dict)
    """Path → the value that it must have, or a list of values of which it must have one; all must match."""
    session_id: str | None = None
    """Path to the session's ID."""
    text: str | None = None
    """Path to the text; several values are joined."""
    whole: bool | None = None
    """Whether each text is a whole message, of which the last is the answer; absent: they are parts of one answer."""
    summary: str | None = None
    """Path to a short report of the result."""
    contents: str | None = None
    """Path to the texts of the entries of a plan."""
    statuses: str | None = None
    """Path to the states of these entries (pending, in_progress, completed)."""
    call_id: str | None = None
    """Path to the ID that a tool call and its result share."""
    name: str | None = None
    """Path to the name of the tool that the agent uses."""
    title: str | None = None
    """Path to a short description of the call."""
    input: str | None = None
    """Path to the input of the call."""
    output: str | None = None
    """Path to the output of the call; several values are joined by line ends."""
    failed: dict[str, Any] | None = None
    """Path → the value that shows that the call failed, as in `when`."""
    path: str | None = None
    """Path to the changed file, or to several of them."""
    change: Literal["added", "modified", "deleted", "renamed"] | None = None
    """How the file changed; absent: modified."""
    totals: bool | None = None
    """Whether the counts are totals so far; absent: they are added up."""
    input_tokens: str | None = None
    """Path to the tokens read."""
    output_tokens: str | None = None
    """Path to the tokens written."""
    cache_read_tokens: str | None = None
    """Path to the tokens read from a cache."""
    cache_write_tokens: str | None = None
    """Path to the tokens written to a cache."""
    reasoning_tokens: str | None = None
    """Path to the tokens written as reasoning."""
    turns: str | None = None
    """Path to the number of turns; absent: each report counts as one turn."""
    cost_usd: str | None = None
    """Path to the cost in US dollars."""
    message: str | None = None
    """Path to the text of the error."""
    status: str | None = None
    """Path to the HTTP status of the error."""
    retry_at: str | None = None
    """Path to the time at which a used-up limit is lifted, in seconds since 1970."""


class FailureRule(Strict, kw_only=True):
    """A rule for failures: their kind, and how they are recognized. All given conditions must hold."""

    kind: FailureKind
    """The kind of the failure, which decides what the user is told to do."""
    exit_codes: list[int] | None = None
    """Exit codes of a program that ended without announcing a result."""
    when: dict[str, Any] | None = None
    """Path → value, as in `events`, in the line that reports the failure."""
    contains: list[str] | None = None
    """Texts of which the error must contain one, in any case: its message, or the end of standard error."""
    hint: str | None = None
    """What the user can do, as a sentence; absent: the usual hint for this kind."""


class ToolDefinition(Strict, kw_only=True):
    """An agent CLI that Understudy does not know: how it is started, what it prints, and how it fails."""

    name: str
    """The value of `tool` in delegators, and the name of its file."""
    title: str
    """Name to display in lists."""
    description: str | None = None
    """What it is, as a sentence."""
    command: list[str]
    """Program and arguments, with the placeholders `{options} {prompt} {promptFile} {model} {worktree} {sessionId}`."""
    prompt_delivery: Literal["argument", "stdin", "file"] | None = None
    """How it gets the prompt; absent: as the placeholders say, else on standard input."""
    interactive: list[str] | None = None
    """Program and arguments for the mode `tmux`, with the placeholders `{options} {prompt} {promptFile} {model}
    {worktree}`: its input and output are a terminal, so `{prompt}` or `{promptFile}` must be in it."""
    version: list[str] | None = None
    """Arguments with which it prints its version and exits; absent: it is not asked."""
    dialect: ToolDialect = "text"
    """What it prints: plain text, JSON lines that `events` describes (`json`), Understudy's own events (`events`), or
    the JSON lines of `claude -p --output-format stream-json`, `codex exec --json`, `opencode run --format json` or
    `pi --mode json`."""
    events: list[EventRule] = msgspec.field(default_factory=list)
    """Which of its lines are which events, for the dialect `json`."""
    completion: Literal["result", "exit"] | None = None
    """What ends an attempt, for the dialect `json`: a `result` event, or the exit code 0. Absent: `result` if a rule in
    `events` is for that event, else `exit`."""
    failures: list[FailureRule] = msgspec.field(default_factory=list)
    """How its failures are recognized; the first rule that matches decides."""
    options: DefinedOptions | None = None
    """Arguments of options. A delegator that sets an option without arguments here is refused."""
    permission_modes: list[DefinedMode] = msgspec.field(default_factory=list)
    """The values of `launch.permission_mode`."""
    env: dict[str, str] | None = None
    """Environment variables of its process (no telemetry, no updates); the `env` of a delegator overrides them."""
    repository_paths: list[DefinedPath] = msgspec.field(default_factory=list)
    """Files of a repository that it obeys: a workspace's trust covers them."""

    @property
    def program(self) -> str:
        """The program; empty if the command is."""
        return self.command[0] if self.command else ""

    def slots(self) -> set[str]:
        """Return the placeholders of the command and of the options, without braces."""
        options = self.options or DefinedOptions()
        texts = [*self.command, *(options.model or ()), *(options.resume or ()), *(options.relay or ())]
        return {name for text in texts for name in SLOT.findall(text)}

    def added_arguments(self) -> list[list[str]]:
        """Return the lists of arguments with which the program may be started besides those of the command."""
        options = self.options or DefinedOptions()
        lists = [self.version, (self.interactive or [])[1:], options.model, options.yolo, options.resume, options.relay]
        lists += [mode.arguments for mode in self.permission_modes]
        return [arguments for arguments in lists if arguments]

    @property
    def completes_by(self) -> Literal["result", "exit"]:
        """What ends an attempt with the dialect ``json``."""
        return self.completion or ("result" if any(rule.event == "result" for rule in self.events) else "exit")

    @property
    def reports_usage(self) -> bool:
        """Whether it reports tokens while it runs."""
        return self.dialect != "text" and (self.dialect != "json" or any(rule.event == "usage" for rule in self.events))

    @property
    def names_session(self) -> bool:
        """Whether it names its session, so that a later attempt can continue it."""
        return self.dialect != "text" and (
            self.dialect != "json" or any(rule.event == "session" for rule in self.events)
        )

    def capabilities(self) -> Capabilities:
        """Return what delegators of this tool may set."""
        options, slots = self.options or DefinedOptions(), self.slots()
        launch: dict[str, tuple[OptionValue, ...]] = dict(COMMON_FIELDS)
        if self.permission_modes:
            launch["permission_mode"] = tuple(
                OptionValue(value=mode.name, title=mode.name, description=mode.description)
                for mode in self.permission_modes
            )
        if options.yolo is not None:
            launch["yolo"] = ()
        if options.relay is not None or MCP_CONFIG in "\n".join(self.command):
            launch["relay"] = ()
        if OPTIONS_SLOT in self.command:
            launch["flags"] = ()
        interactive = None
        if self.interactive:
            interactive = Interactive(
                command=tuple(self.interactive),
                model=tuple(options.model or ()),
                yolo=tuple(options.yolo or ()),
                relay=tuple(options.relay or ()),
                permission_modes={mode.name: tuple(mode.arguments) for mode in self.permission_modes},
            )
        # A path in the worktree is known only when that exists.
        named = self.program and ("/" not in self.program or self.program.startswith("/"))
        return Capabilities(
            name=self.name,
            title=self.title,
            description=self.description,
            runner=RUNNER,
            interactive=interactive,
            binaries=(self.program,) if named else (),
            version_arguments=tuple(self.version or ()),
            launch=launch,
            limits=TIME_LIMITS | USAGE_LIMITS if self.reports_usage else TIME_LIMITS,
            takes_model="model" in slots,
            sessions="sessionId" in slots,
            repository_paths=tuple(RepositoryPath(path=path.path, what=path.what) for path in self.repository_paths),
            environment=self.env or {},
        )


def misspelt(command: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the arguments, by number, that contain a word in braces that was meant to be a slot, and that word.

    Also a slot at the end of an argument without its closing brace.
    """
    starts = {name[:_SAME].lower() for name in NAMES}
    for number, argument in enumerate(command):
        for match in _BRACES.finditer(argument):
            word, closed = match[1], bool(match[2])
            meant = match[0] == argument or word[:_SAME].lower() in starts
            if (word in NAMES and not closed) or (word not in NAMES and closed and meant):
                yield number, match[0]


def delivery_of(command: list[str], asked: str | None) -> tuple[str, str | None]:
    """Return how ``command`` gets its prompt (``argument``, ``file``, ``stdin``), and a contradiction if there is one.

    Without ``asked`` the template decides: ``{prompt}`` → argument, ``{promptFile}`` → file, neither → standard input.
    """
    joined = "\n".join(command)
    delivery = asked or ("argument" if "{prompt}" in joined else "file" if "{promptFile}" in joined else "stdin")
    if delivery != "argument" and "{prompt}" in joined:
        return delivery, f"delivers its prompt by {delivery} but has {{prompt}} in its command"
    if delivery == "file" and "{promptFile}" not in joined:
        return delivery, "delivers its prompt as a file but has no {promptFile} in its command"
    return delivery, None
