"""Instructions for other agents: where they are, and what was done to a file."""

from __future__ import annotations

from enum import StrEnum

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
