"""Sessions: what is open, and which delegations belong to a session that is loaded.

A delegation belongs to the session in its ``asked_by``; a delegation from elsewhere is a session of its own, with the
id of the delegation, so that an editor can continue what was started in a terminal.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.api.serving import conversations
from understudy.frontends.acp.event_updates import Translator
from understudy.frontends.acp.session_caller import NAME, SessionCaller
from understudy.frontends.acp.session_options import DEFAULT, FIRST_RECIPE, Options
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import one_line

PREFIX = "understudy-"
MOST_SESSIONS = 1000
PAGE = 1000
LISTED = 100
"""Sessions on one page."""


@dataclass
class Session:
    """A conversation with one delegator after the other, in one workspace."""

    id: str
    folder: Path
    """The client's folder, in which relative paths of commands start."""
    workspace: Path
    options: Options
    delegator: str = DEFAULT
    recipe: str = FIRST_RECIPE
    translator: Translator | None = None
    """Of the newest delegation; None before the first."""
    seq: int = 0
    """The last event of it that the client has."""
    starts_new: bool = False
    """Whether the user chose another delegator or recipe after the newest delegation began."""
    turn: asyncio.Task[object] | None = None
    """The prompt that runs, or what follows a delegation that ran when the session was loaded."""
    prompting: bool = False
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the prompt that runs is cancelled."""

    @property
    def newest(self) -> str | None:
        """The id of the newest delegation."""
        return None if self.translator is None else self.translator.delegation

    @property
    def settings(self) -> list[Any]:
        """What the user can choose, with what is chosen."""
        return [*self.options.config_options(self.delegator, self.recipe)]

    @property
    def choices(self) -> dict[str, Any]:
        """The same as fields of the answer that opens a session: as modes for older clients, too."""
        return {"modes": self.options.modes(self.delegator), "config_options": self.settings}

    def require_idle(self) -> None:
        """Raise ``conflict`` while a prompt runs."""
        if self.prompting:
            raise UnderstudyError(
                ErrorKind.CONFLICT, "A prompt is running in this session.", hint="Wait for its answer, or cancel it."
            )

    def begin(self, delegation: str, after: int = 0) -> None:
        """Continue with a delegation, after its event with this number."""
        self.translator = Translator(delegation, self.workspace)
        self.seq = after
        self.starts_new = False


@dataclass(frozen=True)
class Listed:
    """A session that can be loaded."""

    id: str
    title: str
    workspace: str
    updated_at: str


def new_id() -> str:
    """Return an id for a new session."""
    return f"{PREFIX}{secrets.token_hex(10)}"


def require_folder(cwd: str) -> Path:
    """Return an absolute path to a folder. Errors: ``invalid_params``."""
    path = Path(cwd)
    try:
        if path.is_absolute() and path.is_dir():
            return path
    except (OSError, ValueError):
        pass
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"`cwd` is {cwd[:500]!r}, which is not the absolute path of a folder.",
        hint="Open a folder in the editor.",
        parameter="cwd",
    )


def members(caller: SessionCaller, session: str) -> list[Delegation]:
    """Return the delegations of a session, oldest first; blocks. Errors: ``invalid_params`` if there is none."""
    if conversations.is_delegation(session):
        delegations = _chain(caller, session)
    else:
        everything = _all(caller) if session.startswith(PREFIX) else ()
        delegations = [
            delegation
            for delegation in everything
            if delegation.asked_by.frontend == NAME and delegation.asked_by.session == session
        ]
        delegations.reverse()
    if not delegations:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"There is no session {session[:100]!r} in {caller.workspace}.",
            hint="Start a new session: one without a prompt is not kept.",
            parameter="sessionId",
        )
    while (following := delegations[-1].superseded_by) is not None and all(
        delegation.id != following for delegation in delegations
    ):
        delegations.append(caller.call("delegations/get", id=following))  # a reply from elsewhere
    return delegations


def listed(caller: SessionCaller, cursor: str | None) -> tuple[list[Listed], str | None]:
    """Return a page of the sessions of a workspace, the last used first; blocks."""
    by_id: dict[str, Listed] = {}
    for delegation in _all(caller):
        mine = delegation.asked_by.frontend == NAME and (delegation.asked_by.session or "").startswith(PREFIX)
        if not mine and delegation.superseded_by is not None:
            continue  # its follow-up is the session
        identifier = delegation.asked_by.session if mine and delegation.asked_by.session else delegation.id
        last = by_id.get(identifier)
        # The oldest delegation has the title of the whole conversation.
        at = last.updated_at if last is not None else delegation.finished_at or delegation.started_at
        by_id[identifier] = Listed(identifier, one_line(delegation.title), delegation.workspace, at)
    entries = list(by_id.values())
    first = next((number for number, entry in enumerate(entries) if entry.id == cursor), 0) if cursor else 0
    following = entries[first + LISTED].id if len(entries) > first + LISTED else None
    return entries[first : first + LISTED], following


def _chain(caller: SessionCaller, identifier: str) -> list[Delegation]:
    chain = [caller.call("delegations/get", id=identifier)]
    while (parent := chain[0].parent_id) is not None and all(delegation.id != parent for delegation in chain):
        try:
            chain.insert(0, caller.call("delegations/get", id=parent))
        except UnderstudyError:
            break  # its journal has expired
    return chain


def _all(caller: SessionCaller) -> Iterator[Delegation]:
    """Yield the delegations of the workspace, newest first."""
    cursor: str | None = None
    while True:
        page = caller.call(
            "delegations/list", workspace=path_quoting.uri_of(caller.workspace), limit=PAGE, cursor=cursor
        )
        yield from page.delegations
        cursor = page.cursor
        if cursor is None:
            return
