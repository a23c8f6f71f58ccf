"""Packages that only a part of Understudy imports, and the words that say how to install one that is missing.

They are installed with Understudy, which starts without importing them.
"""

from __future__ import annotations

import sys

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError


class LazyPackage(msgspec.Struct, frozen=True):
    """A dependency of ``pyproject.toml``."""

    name: str
    versions: str

    def missing(self, what: str, *, otherwise: str | None = None) -> UnderstudyError:
        """Return ``tool_missing`` for ``what``, which needs the package; ``otherwise`` is another way out."""
        hint = (
            "Install Understudy again, in a clone of its repository: uv tool install --force . (or: pipx install "
            f"--force .). In an environment that has pip: {sys.executable} -m pip install '{self.name}{self.versions}'."
        )
        return UnderstudyError(
            ErrorKind.TOOL_MISSING,
            f"{what} the package `{self.name}`, which is not installed.",
            hint=f"{hint} {otherwise}" if otherwise else hint,
        )


ACP = LazyPackage("agent-client-protocol", ">=0.12.1,<0.13")
MCP = LazyPackage("mcp", ">=2.3,<3")
