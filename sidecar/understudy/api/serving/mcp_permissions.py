"""What the user's own configuration allows agents that call the MCP server."""

from __future__ import annotations

from understudy.config.loading import loader
from understudy.model.errors import ErrorKind, UnderstudyError


def may_decide() -> bool:
    """Return whether agents may accept and reject results; a workspace cannot allow it."""
    return loader.load(None, trusted=False).mcp.decide


def require_decide() -> None:
    """Raise ``permission_denied`` unless agents may decide."""
    if not may_decide():
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            "Agents may not accept or reject results.",
            hint="The user decides: understudy review ID. To let agents decide: `decide = true` under [mcp] in "
            "their own config.toml.",
        )
