"""Who does the work: delegators, model servers, tools, recipes, checks, and where each was configured."""

from __future__ import annotations

import enum
from typing import Any, Literal

import msgspec

from understudy.model.errors import Location
from understudy.model.wire import Strict, Wire

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Names of delegators, model servers, recipes and checks: they become file names on every platform."""


class Scope(enum.StrEnum):
    """Where a configured thing comes from; later scopes override earlier ones."""

    BUILTIN = "builtin"
    """Shipped with Understudy."""
    USER = "user"
    """The person's own configuration folder."""
    WORKSPACE = "workspace"
    """The repository's ``.understudy`` folder; counts only while the workspace is trusted."""


class EnvReference(Strict, kw_only=True):
    """A value that is read from an environment variable when it is needed, and never stored."""

    from_env: str
    """Name of the environment variable."""


class KeyReference(Strict, kw_only=True):
    """Where an API key is found; exactly one field is set."""

    from_env: str | None = None
    """Name of an environment variable."""
    keyring: str | None = None
    """Entry name in the operating system's keyring (service ``understudy``)."""
    file: str | None = None
    """Absolute path of a file that only its owner can read (mode 0600)."""


class Launch(Strict, kw_only=True):
    """How a tool is started. A field that the tool's runner does not honour is refused, never ignored."""

    mode: Literal["headless", "tmux", "acp"] | None = None
    """How the tool is driven: without a terminal (the default), in tmux, or over the Agent Client Protocol."""
    yolo: bool | None = None
    """Let the tool do everything without asking."""
    permission_mode: str | None = None
    """What the tool may do without asking, in its own words."""
    flags: list[str] | None = None
    """Further arguments for the tool, as they are."""
    use_worktree: bool | None = None
    """Let the tool make a worktree of its own inside the one that it gets."""
    create_branch: bool | None = None
    """Let the tool make a branch of its own."""
    docker: bool | None = None
    """Run the tool in a container."""
    sandbox: Literal["off", "prefer", "require"] | None = None
    """Whether the tool is kept to its tree: not at all, where that can be done, or else it does not run."""
    prompt_prefix: str | None = None
    """Text that every prompt begins with."""
    prompt_suffix: str | None = None
    """Text that every prompt ends with."""
    relay: bool | None = None
    """Pass the tool's questions on to a person."""
    command: list[str] | None = None
    """Argument vector of a ``generic`` tool; slots: ``{model} {prompt} {promptFile} {worktree} {sessionId}``."""
    prompt_delivery: Literal["argument", "stdin", "file"] | None = None
    """How a `generic` tool gets its prompt: as an argument, on standard input, or as the name of a file."""
    output: Literal["text", "events"] | None = None
    """What a ``generic`` tool prints: plain text (its end is its exit), or a JSON event a line, ``result`` last."""


class Limits(Strict, kw_only=True):
    """Bounds of one delegation; times in seconds, money in USD as a decimal string."""

    total_seconds: float | None = None
    """From ``started`` to the end of the last attempt."""
    idle_seconds: float | None = None
    """Between two real events; keep-alives and output that is no event do not count."""
    first_event_seconds: float | None = None
    """From the start of an attempt to its first event."""
    after_result_seconds: float | None = None
    """From the terminal event to the exit of the process."""
    answer_seconds: float | None = None
    """How long a question of the agent waits for a person; then it is rejected."""
    max_turns: int | None = None
    """Turns of the agent."""
    max_output_tokens: int | None = None
    """Tokens that the model writes, all turns together."""
    max_tokens: int | None = None
    """Tokens read and written, all turns together."""
    max_usd: str | None = None
    """What all turns together may cost, as far as the prices are known."""


class RemoteAgent(Strict, kw_only=True):
    """An agent that runs on somebody else's platform."""

    platform: str
    """Whose platform it is."""
    id: str
    """What the platform calls it."""


class Delegator(Strict, kw_only=True):
    """A named pairing of an agent CLI, or of our own loop and a model server, with a model and launch options."""

    name: str
    """What it is called in requests, defaults and lists; also its file's name."""
    display_name: str | None = None
    """What people read in lists."""
    tool: str | None = None
    """Agent CLI; absent: our own loop on ``model_server``."""
    model_server: str | None = None
    """Where the models are: of our own loop, or of a tool that can be pointed at one."""
    model: str = ""
    """Model id as the tool or the server spells it; empty: the tool's own default."""
    model_properties: dict[str, Any] | None = None
    """Sent with each request to a model server, as they are (``temperature``, …)."""
    agent: str | None = None
    """An agent that the tool itself has defined."""
    launch: Launch | None = None
    """How the tool is started."""
    env: dict[str, str | EnvReference] | None = None
    """Variables of the tool's process; a value that is a key is referred to, never written down."""
    limits: Limits | None = None
    """Bounds of each delegation; what is not said here is taken from the configuration."""
    locality: Literal["local", "remote"] | None = None
    """`local`: what is sent stays on this machine, and when that cannot be, the delegator fails."""
    remote_agent: RemoteAgent | None = None
    """An agent on somebody else's platform."""
    extensions: dict[str, Any] | None = None
    """Kept for other programs, never interpreted."""


class ModelServer(Strict, kw_only=True):
    """An inference endpoint."""

    name: str
    """What delegators call it; also its file's name."""
    display_name: str | None = None
    """What people read in lists."""
    kind: str
    """``openai``, ``ollama``, ``lmstudio``, ``llamacpp``, ``vllm``, ``openrouter``, ``deepseek``, ``custom``."""
    base_url: str
    """Up to, not including, ``/chat/completions`` (``http://127.0.0.1:11434/v1``)."""
    protocol: Literal["openai", "anthropic", "auto"] | None = None
    """What it speaks; `openai` unless said."""
    api_key: KeyReference | None = None
    """Where its key is found; the key itself never stands in a file."""
    headers: dict[str, str] | None = None
    """Sent with every request; no keys."""
    locality: Literal["local", "remote"] | None = None
    """`local`: its address must be of this machine."""
    concurrency: int | None = None
    """Requests at once."""
    extra_env: dict[str, str] | None = None
    """Variables for tools that are pointed at it."""


class Model(Wire, kw_only=True):
    """A model as its server lists it."""

    id: str
    context_tokens: int | None = None
    price: dict[str, str] | None = None


class Check(Strict, kw_only=True):
    """A command whose exit code is evidence."""

    name: str
    """What requests and recipes call it."""
    argv: list[str]
    """Slots: ``{python}`` (the project's interpreter), ``{tests}`` (the test files the result added or changed)."""
    cwd: str | None = None
    """Relative to the workspace."""
    env: dict[str, str] | None = None
    """Variables of its process, beside the project's own."""
    timeout_seconds: float | None = None
    """When it is ended; then it counts as failed."""
    required: bool = True
    """Whether a result is only `verified` when this passes."""
    configured_by: list[str] = msgspec.field(default_factory=list)
    """Globs of the files that decide what this check does; a result that changes one gets ``check_changed``."""


class Fits(Strict, kw_only=True):
    """Where a recipe is offered."""

    languages: list[str] | None = None
    """Language ids as editors use them (`python`, `typescriptreact`); absent: every language."""
    on: list[Literal["file", "selection", "diagnostic"]]
    """What has to be under the cursor: a whole file, a selection, a diagnostic."""


class Recipe(Wire, kw_only=True):
    """A reusable task."""

    name: str
    title: str
    returns: Literal["text", "file", "tree"]
    writes: list[str] | None = None
    checks: list[str] | None = None
    delegator: str | None = None
    route: str | None = None
    fits: Fits
    scope: Scope
    location: Location | None = None
    prompt: str = ""
    """The instructions, in Markdown; what the person adds and the files follow them."""


class Problem(Wire, kw_only=True):
    """Something wrong with a configuration, and where."""

    severity: Literal["error", "warning", "information"]
    message: str
    hint: str | None = None
    location: Location | None = None


class EntryState(Wire, kw_only=True):
    """Whether a delegator can be used now."""

    ready: bool
    problems: list[Problem]
    circuit: Literal["closed", "open", "half_open"]
    open_until: str | None = None
    running: int
    queued: int


class DelegatorEntry(Wire, kw_only=True):
    """A delegator with where it comes from."""

    delegator: Delegator
    scope: Scope
    revision: str
    """Changes with every change of its file; pass it back to ``update`` and ``delete`` to be told of a conflict."""
    editable: bool
    location: Location | None = None
    state: EntryState


class ServerState(Wire, kw_only=True):
    """What is known of a model server."""

    reachable: bool | None = None
    problems: list[Problem]


class ModelServerEntry(Wire, kw_only=True):
    """A model server with where it comes from."""

    model_server: ModelServer
    scope: Scope
    revision: str
    editable: bool
    location: Location | None = None
    state: ServerState


class Honoured(Wire, kw_only=True):
    """What can be set for a delegator and has an effect there; anything else is refused, never ignored."""

    launch: list[str]
    """Fields of ``Launch``."""
    limits: list[str]
    """Fields of ``Limits``; those on turns, tokens and money of a program with plain output (``generic``) excepted."""
    properties: bool
    """``modelProperties`` are sent along."""


class ToolEntry(Wire, kw_only=True):
    """An agent CLI that Understudy knows, found on this machine or not."""

    name: str
    display_name: str
    found: bool
    path: str | None = None
    version: str | None = None
    runnable: bool
    """Whether this version of Understudy has a runner for it."""
    modes: list[str]
    models: list[str] | None = None
    honours: Honoured | None = None
    """What its delegators may set; absent where there is no runner for it."""
    problems: list[Problem]


class ProbeStep(Wire, kw_only=True):
    """One step of a probe: ``binary``, ``version``, ``endpoint``, ``key``, ``model``, ``round_trip``."""

    name: str
    ok: bool
    message: str
    seconds: float


class ProbeResult(Wire, kw_only=True):
    """What a probe found; ``ok`` when every step is."""

    ok: bool
    steps: list[ProbeStep]
