"""What is written into files of other agents: instructions, and the registration of our MCP server."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from understudy.model.wire import Wire


class InstructionState(StrEnum):
    """The state of the instructions in one file."""

    ABSENT = "absent"
    """There are none."""
    INSTALLED = "installed"
    """They are there, in the current version."""
    OUTDATED = "outdated"
    """They are there, in another version."""
    EDITED = "edited"
    """Someone has changed them: they are neither replaced nor removed unless forced."""
    FOREIGN = "foreign"
    """A skill of the same name was not written by Understudy: it is never replaced."""
    UNREADABLE = "unreadable"
    """The file cannot be read; see ``problem``."""


class InstructionTarget(Wire, kw_only=True):
    """One place where instructions can be."""

    name: str
    title: str
    path: str
    state: InstructionState
    found: bool
    """Whether the agent's folder exists; where it does, the instructions are installed unless others are named."""
    problem: str | None = None


class InstructionChange(Wire, kw_only=True):
    """What was done to one file, or would be."""

    name: str
    path: str
    before: InstructionState
    after: InstructionState
    diff: str = ""
    """Unified diff of the change; empty if nothing changes. Bytes that are not UTF-8 are shown as U+FFFD."""
    problem: str | None = None
    """Why the file stays as it is, and what to do."""


class RegistrationState(StrEnum):
    """The state of our entry in one client."""

    ABSENT = "absent"
    """There is none, or the client that would list it was not found."""
    REGISTERED = "registered"
    """It is there, and starts this Understudy."""
    OUTDATED = "outdated"
    """It is there, and starts another Understudy, or other tools."""
    FOREIGN = "foreign"
    """An entry of this name does not start Understudy: it is neither replaced nor removed."""
    UNKNOWN = "unknown"
    """The client did not list it (see ``problem``), or its file has the name, but cannot be parsed."""


class McpClient(Wire, kw_only=True):
    """One client, and our entry in its configuration."""

    name: str
    title: str
    path: str
    state: RegistrationState
    found: bool
    """Whether the client's program or folder exists; if so, the server is registered unless others are named."""
    workspace: bool
    """Whether the file belongs to the workspace."""
    problem: str | None = None


class McpClientChange(Wire, kw_only=True):
    """What was done to the configuration of one client, or would be."""

    name: str
    title: str
    path: str
    before: RegistrationState
    after: RegistrationState
    commands: list[list[str]] = msgspec.field(default_factory=list)
    """The commands of the client that do it, as argument vectors."""
    snippet: str = ""
    """What the file at ``path`` needs, where the client has no command."""
    writes: bool = False
    """Whether the file is created with the snippet, or removed because it has nothing else."""
    problem: str | None = None
    """Why nothing was done, or not everything, and what to do."""
    next: str | None = None
    """What the user has to do: in the file, or before the client starts the server."""
