"""Asking the editor's person whether a workspace may run anything: once, and again when what it allows has changed.

Nothing runs before: that is decided below, and this only asks. An editor that has withdrawn trust asks by itself, and
so does one that subscribed; they record the answer with ``workspace/trust``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.faces.harmless import one_line
from understudy.faces.lsp.client import Client, Refused
from understudy.faces.lsp.saying import can_ask, choose, say
from understudy.journal import store
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.config import trust
    from understudy.faces.lsp.server import Server

TRUST = "Trust"
NOT_NOW = "Not now"
PERSON_SECONDS = 3600.0
"""How long the question may stand in the editor."""
WAITED_SECONDS = 300.0
"""How long a start waits for the answer; then it is refused, and says why."""
LISTED = 12
"""Lines of what would be allowed; the rest is counted."""


class Trusting:
    """Who was asked what in this session."""

    def __init__(self, client: Client) -> None:
        """Ask nothing yet."""
        self._client = client
        self._asked: dict[Path, str] = {}
        """Workspace → the digest of what was shown last."""
        self._turn = asyncio.Lock()
        client.on_ready.append(self._look_later)
        client.on_folders.append(self._look_later)
        client.on_changed.append(self._changed)

    async def before_start(self, params: Any) -> None:
        """Ask about the workspace in which a person is about to start something, also when they put it off before."""
        if not self._asks() or not isinstance(params, dict):
            return
        try:
            workspace = await asyncio.to_thread(_workspace_of, params, self._client)
        except (UnderstudyError, ValueError, TypeError, AttributeError):
            return  # what is wrong with the parameters is for the start itself to say
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAITED_SECONDS):
                await self._ask_about(workspace, again=True)

    def _asks(self) -> bool:
        return self._client.options.trusted and not self._client.subscribed

    def _look_later(self) -> None:
        self._client.spawn(self._look(), "trust")

    def _changed(self, collections: frozenset[str]) -> None:
        if "trust" in collections:
            self._look_later()

    async def _look(self) -> None:
        for folder in self._client.folders:
            if not self._asks():
                return
            if await asyncio.to_thread(_is_ours, folder):
                continue  # an editor that makes the folder of review.diff a project of its own
            try:
                workspace = await asyncio.to_thread(_workspace_of, {"workspace": str(folder)}, self._client)
            except UnderstudyError:
                continue
            # A folder inside a repository is not where the configuration lies.
            self._client.watch(workspace)
            await self._ask_about(workspace, again=False)

    async def _ask_about(self, workspace: Path, *, again: bool) -> None:
        """Ask about one workspace, one question at a time; ``again``: although the person has said no."""
        async with self._turn:
            try:
                found, refused = await asyncio.to_thread(_standing, workspace)
            except (UnderstudyError, OSError):
                return
            if found.trusted or not self._asks():
                return
            if not again and (self._asked.get(workspace) == found.hash or refused):
                return
            if again and self._asked.get(workspace) == found.hash and not can_ask(self._client):
                return
            self._asked[workspace] = found.hash
            await self._ask(workspace, found)

    async def _ask(self, workspace: Path, found: trust.TrustStatus) -> None:
        if not can_ask(self._client):
            self._say(types.MessageType.Warning, f"{_words(workspace, found)}\n\n{_elsewhere(workspace)}")
            return
        try:
            title = await choose(
                self._client, types.MessageType.Warning, _words(workspace, found), [NOT_NOW, TRUST], PERSON_SECONDS
            )
        except Refused:
            self._say(types.MessageType.Warning, f"{_words(workspace, found)}\n\n{_elsewhere(workspace)}")
            return
        except TimeoutError:
            return
        if title is not None:
            await self._record(workspace, found.hash, trusted=title == TRUST)

    async def _record(self, workspace: Path, seen: str, *, trusted: bool) -> None:
        params = {"workspace": str(workspace), "trusted": trusted, "seen": seen}
        try:
            if not trusted and (await asyncio.to_thread(_standing, workspace))[0].trusted:
                return  # trusted elsewhere while this question stood here: to put it off is no withdrawal
            await self._client.call("workspace/trust", params)
        except UnderstudyError as error:
            # What it allows has changed while the person read: the next look asks again, about what is there now.
            self._say(types.MessageType.Warning, f"{error.message} {error.hint or ''}".strip())
            self._look_later()

    def _say(self, severity: types.MessageType, text: str) -> None:
        say(self._client, severity, text)


def _standing(workspace: Path) -> tuple[trust.TrustStatus, bool]:
    """Return how a workspace stands, and whether a person has said no to exactly what it allows now."""
    from understudy.config import trust  # noqa: PLC0415 - reads configuration, which an editor's start need not wait for

    root = store.state_root()
    found = trust.status(workspace, root)
    return found, found.known and not found.trusted and trust.was_refused(workspace, root, found.hash)


def _is_ours(folder: Path) -> bool:
    """Tell whether a folder holds what Understudy wrote, so that nothing is ever run in it."""
    own = Path(os.path.realpath(store.state_root()))
    found = Path(os.path.realpath(folder))
    return found == own or own in found.parents


def _workspace_of(params: dict[str, Any], client: Client) -> Path:
    from understudy.engine import places as workspaces  # noqa: PLC0415 - as above

    uris = [uri for uri in [*(params.get("files") or []), params.get("target"), *(params.get("context") or [])] if uri]
    return workspaces.workspace_of(uris, params.get("workspace"), next(iter(client.folders), None))


def _words(workspace: Path, found: trust.TrustStatus) -> str:
    lines = [f"Do you trust {one_line(str(workspace))}? Before you do, Understudy runs nothing in it."]
    if found.changed:
        lines += ["Different from what you trusted before:", *_listed(found.changed)]
    lines += ["Trusting it allows:", *_listed(found.allows)]
    return "\n".join(lines)


def _listed(items: list[str]) -> list[str]:
    more = [f"- and {len(items) - LISTED} more: understudy trust --status"] if len(items) > LISTED else []
    return [*(f"- {item}" for item in items[:LISTED]), *more]


def _elsewhere(workspace: Path) -> str:
    return f"To trust it, run in a terminal: understudy trust {shlex.quote(str(workspace))}"


def register(server: Server) -> None:
    """Ask."""
    trusting = Trusting(server.client)
    server.before.setdefault("delegations/start", []).append(trusting.before_start)
