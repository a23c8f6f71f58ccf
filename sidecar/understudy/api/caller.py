"""The interface between a frontend and request handlers: identity, open documents and subscriptions of the caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.files.user_file import current_folder as current_folder  # noqa: PLC0414 - for frontends
from understudy.files.user_file import require_current_folder as require_current_folder  # noqa: PLC0414
from understudy.model.delegation.delegations import AskedBy
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting, sanitize
from understudy.process.identity import peer_pid as peer_pid  # noqa: PLC0414 - for frontends
from understudy.process.identity import peer_uid as peer_uid  # noqa: PLC0414 - for frontends

if TYPE_CHECKING:
    import msgspec

    from understudy.engine.review.editor_documents import BufferEdit as BufferEdit  # noqa: PLC0414 - for frontends
    from understudy.engine.review.editor_documents import Editor as Editor  # noqa: PLC0414

DELEGATION_VARIABLE = "UNDERSTUDY_DELEGATION"
"""The environment variable with the id of the delegation to which a process belongs (``marked_processes``)."""
MAX_NAME_CHARACTERS = 200
"""Longest name of a client or session, in characters; longer names are cut."""


def surrounding_run(pid: int | None = None) -> str | None:
    """Return the run that a process, or this one, belongs to (``marked_processes.surrounding_run``)."""
    from understudy.process.guardian import marked_processes  # a text request does not need it

    return marked_processes.surrounding_run(pid)


def describe_asker(
    frontend: str,
    *,
    pid: int | None,
    cwd: Path | None,
    environ: Mapping[str, str],
    client: str | None = None,
) -> AskedBy:
    """Describe the client of a frontend; ``environ`` is the client's environment."""
    agent, variable = next(((tool, name) for tool, name in _sessions() if environ.get(name)), (None, ""))
    parent = environ.get(DELEGATION_VARIABLE)
    if parent is not None:
        from understudy.journal import delegation_folder

        parent = parent if delegation_folder.is_id(parent) else None
    return AskedBy(
        frontend=frontend,
        client=_name(client),
        session=_name(environ.get(variable)),
        agent=agent,
        pid=pid,
        cwd=None if cwd is None else path_quoting.quote(os.fsencode(cwd)),
        parent=parent,
        depth=0 if parent is None else _depth_of(parent) + 1,
    )


def _sessions() -> list[tuple[str, str]]:
    from understudy.config.discovery import declarations

    return [(tool.name, name) for tool in declarations.tools().values() for name in tool.session_variables]


def _depth_of(delegation: str) -> int:
    from understudy.journal import delegation_folder

    try:
        return delegation_folder.read_spec(delegation_folder.open_folder(delegation)).asked_by.depth
    except UnderstudyError:
        return 0  # it was removed while its agent still runs


def _name(text: str | None) -> str | None:
    return sanitize.one_line(text)[:MAX_NAME_CHARACTERS] or None if text else None


class Caller:
    """The caller of one request: identity, open documents and subscriptions. What is here is a caller without them.

    A process that an agent starts can call the API as the user's own programs do. ``Method.effect`` says what a method
    does; those that delegate or decide answer only outside of runs, in every frontend. This keeps an agent from
    deciding with Understudy's own programs. It does not confine the agent: without a sandbox, it can write to the same
    files.
    """

    name: str
    """The frontend: ``cli``, ``rpc``, ``lsp``, ``mcp`` or ``acp``."""

    def asked_by(self) -> AskedBy:
        """Return a description of the calling process, for the specification of a delegation."""
        raise NotImplementedError

    def folder(self) -> Path | None:
        """Return the folder for requests that name no file and no workspace."""
        return None

    def documents(self) -> Mapping[str, str]:
        """Return the open documents that may differ from the files on disk: URI → text."""
        return {}

    def opened(self) -> Sequence[Path]:
        """Return the folders that the caller's editor shows."""
        return ()

    def editor(self) -> Editor | None:
        """Return the caller as an editor, None if it cannot edit documents."""
        return None

    @property
    def distrusts(self) -> Callable[[Path], bool] | None:
        """Whether a workspace, by its real path, is untrusted in spite of the record; None: the record decides."""
        return None

    def trusts(self, workspace: Path) -> None:
        """Stop distrusting this workspace: the user trusted it through this caller."""

    def surrounding_run(self) -> str | None:
        """Return the run that the process of a client belongs to which did not start this one."""
        return None

    def refuse_inside_runs(self, what: str, *, except_in: Iterable[str] = (), starts: bool = False) -> None:
        """Raise ``permission_denied`` if this process, or the one that it stands for, belongs to a run.

        It may belong to a run in ``except_in``, which is read only inside a run. ``starts``: it would start work.
        """
        run = surrounding_run()
        if run is None:
            run = self.surrounding_run()
        if run is None or run in except_in:
            return
        where, hint = f"the run {run!r} of Understudy", "Finish the work; the user decides about it. "
        if starts:
            hint = "Do the work yourself, or use the relay tool `delegate`, if the user gave it to you. "
        hint += (
            "If you are the user, do it in your editor, or in a terminal that no agent opened and that has no variable "
            "UNDERSTUDY_DELEGATION."
        )
        if not run:
            where = "a run of Understudy, is in a container, or has already ended"
            hint += " The client of a socket must run outside containers until it has the answer."
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"{what} is for the user: the process that asks belongs to {where}.",
            hint=hint,
        )

    def cancelled(self) -> bool:
        """Return whether the caller cancelled this request; checked at least once a second while it waits."""
        return False

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Start sending ``understudy/event`` for one delegation or for all (``delegations/subscribe``)."""
        _ = delegation, after
        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            "This frontend cannot send notifications.",
            hint="Use delegations/events with waitSeconds.",
        )

    def unfollow(self, delegation: str | None) -> None:
        """Stop sending them."""

    def tell(self, name: str, params: msgspec.Struct) -> None:
        """Send a notification of the method table, by its name without prefix; waits for a client that reads slowly.

        Does nothing for a caller that cannot receive any. Errors: ``OSError`` if the client is gone.
        """


class TerminalCaller(Caller):
    """A caller without an editor: the command line, or a script."""

    name = "cli"

    def __init__(self, folder: Path | None = None) -> None:
        """Use ``folder`` for requests that name none."""
        self._folder = folder

    def asked_by(self) -> AskedBy:
        """Return the process that started this one, and the agent in whose environment it runs."""
        return describe_asker(self.name, pid=os.getppid(), cwd=self._folder, environ=os.environ)

    def folder(self) -> Path | None:
        """Return the folder given."""
        return self._folder
