"""Rules that answer an agent's permission requests."""

from __future__ import annotations

from typing import Literal

from understudy.model.wire import Strict

PermissionKind = Literal["read", "edit", "execute", "fetch", "other"]
"""What a tool would do: read files, change files, run a command, access the network, or something else."""


class PermissionRule(Strict, kw_only=True):
    """Answers an agent's permission requests without asking; every given field must match."""

    decision: Literal["allow", "reject", "ask"]
    """`allow`, `reject`, or `ask` the user although a later rule matches."""
    kind: PermissionKind | None = None
    """What the tool would do; absent: anything."""
    command: str | None = None
    """First words of the command line (``npm test``). Allowed is only a simple command: one with operators,
    redirections or substitutions is never allowed by a rule; rejected is every command that contains it."""
    exact: bool = False
    """Allow the command only as it is, without further words."""
    path: str | None = None
    """Pattern of files, relative to the worktree (``src/**``). Allowed are only requests of which all files match and
    are in the worktree; rejected are those of which one matches."""
