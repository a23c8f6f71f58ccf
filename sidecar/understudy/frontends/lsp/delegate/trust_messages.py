"""Ask the user whether to trust a workspace: once, and again when the effects of trusting it have changed.

This module only asks; the engine refuses to run anything in an untrusted workspace. An editor that revoked trust or
subscribed asks the user itself, and records the answer with ``workspace/trust``.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.api import result_files
from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.frontends.lsp.editor.user_messages import PERSON_SECONDS, can_ask, choose, say
from understudy.model.errors import UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import one_line

if TYPE_CHECKING:
    from understudy.api.messages import TrustResult

TRUST = "Trust"
NOT_NOW = "Not now"
WAITED_SECONDS = 300.0
"""How long a start waits for the answer; after that it is refused with the reason."""
LISTED = 12
"""How many effects are listed; the rest is counted."""


class TrustMessages:
    """The trust questions of one session."""

    def __init__(self, client: Client) -> None:
        """Ask nothing yet."""
        self._client = client
        self._asked: dict[Path, str] = {}
        """Workspace → the digest of the effects that were shown last."""
        self._turn = asyncio.Lock()
        client.on_ready.append(self._look_later)
        client.on_folders.append(self._look_later)
        client.on_changed.append(self._changed)
        client.before_command["delegations/start"] = self._before_start

    async def _before_start(self, params: Any) -> None:
        """Ask about the workspace in which the user is about to start something, even if they chose Not Now before."""
        if not self._asks() or not isinstance(params, dict):
            return
        place = _place_of(params, self._client)
        if place is None:
            return  # the start itself reports what is wrong with the parameters
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAITED_SECONDS):
                await self._ask_about(place, again=True)

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
            if await asyncio.to_thread(result_files.is_own, folder):
                continue  # an editor that opened review.diff may treat its folder as a project
            await self._ask_about(str(folder), again=False)

    async def _ask_about(self, place: str, *, again: bool) -> None:
        """Ask about the workspace of a file or folder, one question at a time; ``again``: even if the user declined."""
        async with self._turn:
            try:
                trust = await self._status(place)
            except UnderstudyError:
                return
            workspace = Path(trust.workspace)
            # Its configuration is at the top of the repository, which need not be a folder of the editor.
            self._client.watch(workspace)
            if trust.trusted or not self._asks():
                return
            if not again and (self._asked.get(workspace) == trust.digest or trust.declined):
                return
            if again and self._asked.get(workspace) == trust.digest and not can_ask(self._client):
                return
            self._asked[workspace] = trust.digest
            await self._ask(workspace, trust)

    async def _status(self, place: str) -> TrustResult:
        trust: TrustResult = await self._client.call("workspace/trust", {"workspace": place})
        return trust

    async def _ask(self, workspace: Path, trust: TrustResult) -> None:
        if not can_ask(self._client):
            say(self._client, types.MessageType.Warning, f"{_text(workspace, trust)}\n\n{_elsewhere(workspace)}")
            return
        try:
            title = await choose(
                self._client, types.MessageType.Warning, _text(workspace, trust), [NOT_NOW, TRUST], PERSON_SECONDS
            )
        except EditorRefused:
            say(self._client, types.MessageType.Warning, f"{_text(workspace, trust)}\n\n{_elsewhere(workspace)}")
            return
        except TimeoutError:
            return
        if title is not None:
            await self._record(workspace, trust.digest, trusted=title == TRUST)

    async def _record(self, workspace: Path, seen: str, *, trusted: bool) -> None:
        params = {"workspace": str(workspace), "trusted": trusted, "digest": seen}
        try:
            if not trusted and (await self._status(str(workspace))).trusted:
                return  # trusted elsewhere meanwhile: Not Now must not revoke that
            await self._client.call("workspace/trust", params)
        except UnderstudyError as error:
            # The effects changed while the user read them: ask again, with the current ones.
            say(self._client, types.MessageType.Warning, f"{error.message} {error.hint or ''}".strip())
            self._look_later()


def _place_of(params: dict[str, Any], client: Client) -> str | None:
    """Return the file or folder that determines the workspace of a start; None if its parameters are invalid."""
    if params.get("workspace") is not None:
        return params["workspace"] if isinstance(params["workspace"], str) else None
    lists = [value for name in ("files", "contextFiles") if isinstance(value := params.get(name), list)]
    named = [uri for uri in [*lists[:1], [params.get("target")], *lists[1:]] for uri in uri]
    first = next((uri for uri in named if isinstance(uri, str) and uri), None)
    if first is None:
        return str(client.folders[0]) if client.folders else None
    path = path_quoting.path_of(first)
    if path is None:
        return None
    # The file to write may not exist yet.
    return str(path if path.exists() else path.parent)


def _text(workspace: Path, trust: TrustResult) -> str:
    lines = [f"Do you trust {one_line(str(workspace))}? Until you do, Understudy runs nothing in it."]
    if trust.changed:
        lines += ["Changed since you last trusted it:", *_listed(trust.changed)]
    lines += ["Trusting it allows:", *_listed(trust.effects)]
    return "\n".join(lines)


def _listed(items: list[str]) -> list[str]:
    more = [f"- and {len(items) - LISTED} more: understudy trust --status"] if len(items) > LISTED else []
    return [*(f"- {item}" for item in items[:LISTED]), *more]


def _elsewhere(workspace: Path) -> str:
    return f"To trust it, run in a terminal: understudy trust {shlex.quote(str(workspace))}"
