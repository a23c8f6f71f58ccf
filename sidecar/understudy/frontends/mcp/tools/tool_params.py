"""The parameters of the tools. Names are as a model writes them; descriptions count towards its context."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Described = msgspec.Meta


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all: a parameter that a tool does not have is an error."""


class NoArguments(Arguments):
    """None."""


class Task(Arguments):
    """One piece of work."""

    task: Annotated[str, Described(description="Complete instructions: the agent sees nothing else.")]
    files: list[str] = []
    recipe: Annotated[str, Described(description="implement, fix, tests, docs, review …")] = "implement"
    delegator: str | None = None
    agent: str | None = None
    model: str | None = None
    context_files: list[str] = []
    checks: list[str] | None = None
    max_turns: int | None = None
    max_usd: str | None = None


class Start(Task):
    """Start one delegation."""

    workspace: str | None = None
    again: Annotated[bool, Described(description="Start even if an equal call's work would be returned.")] = False


class Batch(Arguments):
    """Start a group."""

    tasks: list[Task]
    max_tokens: int | None = None
    max_usd: str | None = None
    workspace: str | None = None
    again: bool = False


class Named(Arguments):
    """One delegation, or for some tools one group."""

    id: str


class Wait(Named):
    """Wait for a delegation or a group."""

    timeout_seconds: Annotated[float, Described(ge=0, le=45)] = 45


class Diff(Named):
    """The patch of a result."""

    files: list[str] = []


class Reply(Named):
    """Instructions for a finished delegation."""

    text: str


class Answer(Named):
    """The answer to a permission request."""

    option: str
    note: str | None = None


class Say(Named):
    """A message for a running delegation."""

    text: str


class Workspace(Arguments):
    """A workspace."""

    workspace: str | None = None


class Ask(Arguments):
    """A question about files."""

    question: str
    files: list[str] = []
    delegator: str | None = None
    model: str | None = None
    workspace: str | None = None
    again: bool = False


class Decide(Named):
    """A decision on a result."""

    decision: Literal["accept", "reject"]
    files: list[str] = []
    reason: str | None = None


class LocalAgentTask(Arguments):
    """A task of ``delegate_batch``, as claude-code-delegate-local has it."""

    agent_name: str
    task: str
    workdir: str = "."
    max_turns: int = 0
    model: str | None = None
    max_tokens: int | None = None


class LocalBatch(Arguments):
    """Parameters of ``delegate_batch``."""

    tasks: list[LocalAgentTask]


class ProviderTask(Arguments):
    """Parameters of ``delegate_to_provider``."""

    provider_url: str
    model: str
    agent_name: str
    task: str
    api_key: Annotated[Any, Described(description='Never a key: {"from_env": NAME} or nothing.')] = None
    workdir: str = "."
    max_turns: int = 0
    max_tokens: int | None = None
    mode_tag: str = "MODE:LOCAL"
