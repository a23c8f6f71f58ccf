"""Delegators, model servers, and their launch options and limits."""

from __future__ import annotations

import enum
from typing import Any, Literal

from understudy.model.wire import Strict, Wire

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Names of delegators, model servers, recipes and checks, which are valid file names on every platform."""


class Scope(enum.StrEnum):
    """Where an entry is configured; later scopes override earlier ones."""

    BUILTIN = "builtin"
    """Shipped with Understudy."""
    USER = "user"
    """The user's configuration folder."""
    WORKSPACE = "workspace"
    """The repository's ``.understudy`` folder; used only while the workspace is trusted."""


class EnvReference(Strict, kw_only=True):
    """A value that is read from an environment variable when it is needed, and never stored."""

    from_env: str
    """Name of the environment variable."""


class KeyReference(Strict, kw_only=True):
    """Where an API key is stored; exactly one field is set."""

    from_env: str | None = None
    """Name of an environment variable."""
    keyring: str | None = None
    """Entry name in the operating system's keyring (service ``understudy``)."""
    file: str | None = None
    """Absolute path of a file that only its owner can read (mode 0600)."""


class Launch(Strict, kw_only=True):
    """How a tool is started. A field that the tool's runner does not support is refused, never ignored."""

    yolo: bool | None = None
    """Let the tool do everything without asking."""
    permission_mode: str | None = None
    """What the tool may do without asking: the tool's own name of a mode."""
    flags: list[str] | None = None
    """Further arguments for the tool, passed unchanged."""
    prompt_prefix: str | None = None
    """Text that every prompt begins with."""
    prompt_suffix: str | None = None
    """Text that every prompt ends with."""
    command: list[str] | None = None
    """Argument vector of a ``generic`` tool; slots: ``{model} {prompt} {promptFile} {worktree} {sessionId}``."""
    prompt_delivery: Literal["argument", "stdin", "file"] | None = None
    """How a `generic` tool gets its prompt: as an argument, on standard input, or in a file."""
    output: Literal["text", "events"] | None = None
    """What a ``generic`` tool prints: plain text until it exits, or one JSON event per line, ``result`` last."""


class Limits(Strict, kw_only=True):
    """Bounds of one delegation; times in seconds, money in USD as a decimal string."""

    total_seconds: float | None = None
    """From ``started`` to the end of the last attempt."""
    idle_seconds: float | None = None
    """Between two real events; keep-alives and output other than events do not count. Without `firstEventSeconds`, it
    also applies before the first event."""
    first_event_seconds: float | None = None
    """From the start of an attempt to its first event."""
    after_result_seconds: float | None = None
    """From the terminal event to the exit of the process."""
    answer_seconds: float | None = None
    """How long a permission request waits for the user; then it is rejected."""
    max_turns: int | None = None
    """Turns of the agent."""
    max_output_tokens: int | None = None
    """Tokens that the model writes, in all turns together."""
    max_tokens: int | None = None
    """Tokens read and written, in all turns together."""
    max_usd: str | None = None
    """Cost of all turns together, as far as the prices are known."""


class Delegator(Strict, kw_only=True):
    """A named pairing of an agent CLI, or of our own loop and a model server, with a model and launch options."""

    name: str
    """Its name in requests, defaults and lists, and the name of its file."""
    display_name: str | None = None
    """Name to display in lists."""
    tool: str | None = None
    """Agent CLI; absent: our own loop on ``model_server``."""
    model_server: str | None = None
    """The model server of our own loop, or of a tool that can use one."""
    model: str = ""
    """Model ID of the tool or the server; empty: the tool's default."""
    model_properties: dict[str, Any] | None = None
    """Properties sent unchanged with each request to a model server (``temperature``, …)."""
    launch: Launch | None = None
    """How the tool is started."""
    env: dict[str, str | EnvReference] | None = None
    """Environment variables of the tool's process; a key is given as a reference, never as a value."""
    limits: Limits | None = None
    """Limits of each delegation; the configuration supplies those that are absent here."""
    locality: Literal["local", "remote"] | None = None
    """`local`: everything that is sent stays on this machine; if that is impossible, the delegator fails."""
    extensions: dict[str, Any] | None = None
    """Values for other programs, never interpreted."""


class ModelServer(Strict, kw_only=True):
    """An inference endpoint."""

    name: str
    """Its name in delegators, and the name of its file."""
    display_name: str | None = None
    """Name to display in lists."""
    kind: str
    """The kind of server (see ``modelServers/presets``); ``custom`` for any other."""
    base_url: str
    """Base URL without ``/chat/completions`` (``http://127.0.0.1:11434/v1``)."""
    protocol: str | None = None
    """API of the server; `openai` unless declared."""
    api_key: KeyReference | None = None
    """Where its key is stored; the file never contains the key itself."""
    headers: dict[str, str] | None = None
    """HTTP headers sent with every request; not for keys."""
    locality: Literal["local", "remote"] | None = None
    """`local`: its address must be on this machine."""


class ModelPrice(Wire, kw_only=True):
    """Prices in USD per million tokens, as decimal strings."""

    input: str | None = None
    """Tokens read."""
    output: str | None = None
    """Tokens written."""


class Model(Wire, kw_only=True):
    """A model as its server lists it."""

    id: str
    """Model ID on its server."""
    context_tokens: int | None = None
    """Size of its context window in tokens."""
    price: ModelPrice | None = None
    """The server's prices, if it reports them."""
