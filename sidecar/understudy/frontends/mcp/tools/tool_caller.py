"""The caller of the API for one call of a tool."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.api import method_table
from understudy.api.caller import Caller, describe_asker
from understudy.model.delegation.delegations import AskedBy
from understudy.model.errors import ErrorKind, UnderstudyError


@dataclass(frozen=True)
class Client:
    """The program at the other end."""

    name: str | None
    """Name and version, as it introduced itself."""
    local: bool
    """Whether it started this process and passed its environment on."""
    roots: Sequence[Path] = ()
    """The folders that it works in, if it names them."""
    here: Path | None = None
    """The folder of this process, for clients without roots."""


@dataclass
class ToolCaller(Caller):
    """Answers requests of one call; its methods block, and are called in a thread."""

    client: Client
    name: str = "mcp"
    _cancelled: threading.Event = field(default_factory=threading.Event)

    def call(self, method: str, /, **params: Any) -> Any:
        """Answer one request; parameters that are None are left out."""
        return method_table.call(method, {key: value for key, value in params.items() if value is not None}, self)

    def cancel(self) -> None:
        """Stop waiting: the client cancelled the call, or is gone. What runs continues."""
        self._cancelled.set()

    def asked_by(self) -> AskedBy:
        """Return the client."""
        local = self.client.local
        return describe_asker(
            self.name,
            pid=os.getppid() if local else None,
            cwd=self.folder(),
            environ=os.environ if local else {},
            client=self.client.name,
        )

    def folder(self) -> Path | None:
        """Return the client's first root, else the folder of this process."""
        return next(iter(self.client.roots), self.client.here)

    def opened(self) -> Sequence[Path]:
        """Return the client's roots."""
        return self.client.roots

    def cancelled(self) -> bool:
        """Return whether the client cancelled the call."""
        return self._cancelled.is_set()

    def require_folder(self, named: str | None, files: Sequence[str] = ()) -> Path:
        """Return the folder that a call is about: the named one, else the root that has its first file, else the first.

        Errors: ``invalid_params``.
        """
        folder = self.folder()
        if named is not None:
            path = Path(named).expanduser()
            if not path.is_absolute() and folder is None:
                raise _no_folder()
            return path if folder is None else folder / path
        for root in self.client.roots:
            if files and Path(files[0]).is_relative_to(root):
                return root
        if folder is None:
            raise _no_folder()
        return folder


def _no_folder() -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        "No workspace is named.",
        hint="Pass `workspace` with an absolute path.",
        parameter="workspace",
    )
