"""Optional packages of Understudy, and the words that say how to install them.

Understudy is installed from a clone of its repository, so an extra is named as a path there.
"""

from __future__ import annotations

import sys

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError


class Extra(msgspec.Struct, frozen=True):
    """An extra of ``pyproject.toml``, with the one package that it installs."""

    name: str
    package: str
    versions: str

    def missing(self, what: str, *, otherwise: str | None = None) -> UnderstudyError:
        """Return ``tool_missing`` for ``what``, which needs the package; ``otherwise`` is another way out."""
        hint = (
            f"Install Understudy again with its extra `{self.name}`, in a clone of its repository: uv tool install "
            f"'.[{self.name}]' (or: pipx install --force '.[{self.name}]'). In an environment that has pip: "
            f"{sys.executable} -m pip install '{self.package}{self.versions}'."
        )
        return UnderstudyError(
            ErrorKind.TOOL_MISSING,
            f"{what} the package `{self.package}`, which is not installed.",
            hint=f"{hint} {otherwise}" if otherwise else hint,
        )


ACP = Extra("acp", "agent-client-protocol", ">=0.12.1,<0.13")
MCP = Extra("mcp", "mcp", ">=2.3,<3")
