"""What came of it, told at the end: the verdict with its reservations in words, and what to do next.

What this editor started ends with a message; what ran elsewhere for its folders, with a line in the editor's log.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.faces import words
from understudy.faces.harmless import one_line
from understudy.faces.lsp import places
from understudy.faces.lsp.client import Client, Refused
from understudy.faces.lsp.runs import Runs
from understudy.faces.lsp.saying import can_ask, choose, log, say
from understudy.journal import store
from understudy.model import events as e
from understudy.model.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import Verdict

if TYPE_CHECKING:
    from understudy.faces.lsp.server import Server

REVIEW = "Review"
SHOW = "Show the answer"
PERSON_SECONDS = 3600.0
"""How long a message with a choice may stand in the editor."""
ANSWER_CHARACTERS = 600
"""How much of an answer a message holds where the editor cannot show a document."""

_STOP_TYPING = ("neovim", "vim", "ale", "emacs", "eglot", "helix", "kak")
"""How the names of clients begin in which a message with a choice, or a document, takes the keyboard: Neovim's
``inputlist()``, ``completing-read`` in lsp-mode and Eglot, Helix's picker. An agent ends while a person types, who must
not answer by accident."""

_SEVERITIES = {
    Verdict.VERIFIED: types.MessageType.Info,
    Verdict.ANSWERED: types.MessageType.Info,
    Verdict.CANCELLED: types.MessageType.Info,
    Verdict.NO_CHANGES: types.MessageType.Warning,
    Verdict.UNVERIFIED: types.MessageType.Warning,
    Verdict.CHECKS_FAILED: types.MessageType.Warning,
}
"""Every other verdict is an error."""


class Endings:
    """Tells of ends."""

    def __init__(self, server: Server, runs: Runs) -> None:
        """Listen to ``runs``."""
        self._server = server
        self._client: Client = server.client
        self._runs = runs
        runs.on_update.append(self._update)

    def _update(self, delegation: Delegation, events: list[Any]) -> None:
        if delegation.verdict is None or not any(isinstance(event, e.Finished) for event in events):
            return
        if not self._runs.is_ours(delegation.id):
            log(self._client, message(delegation, elsewhere=True))
            return
        self._client.spawn(self._tell(delegation), f"end of {delegation.id}")

    async def _tell(self, delegation: Delegation) -> None:
        """Say it, and do what the person chooses."""
        item = self._choice(delegation)
        severity = _SEVERITIES.get(delegation.verdict or Verdict.FAILED, types.MessageType.Error)
        if item is None or not can_ask(self._client) or stops_typing(self._client):
            stays = item == SHOW and not stops_typing(self._client)
            shown = stays and await self._show(delegation, take_focus=False)
            say(self._client, severity, message(delegation, elsewhere=not shown))
            return
        try:
            if await choose(self._client, severity, message(delegation), [item], PERSON_SECONDS) is None:
                return
        except (Refused, TimeoutError):
            return
        if item == REVIEW:
            await self._review(delegation)
        elif not await self._show(delegation, take_focus=True):
            say(self._client, severity, message(delegation, elsewhere=True))

    def _choice(self, delegation: Delegation) -> str | None:
        """Return what there is to choose at the end."""
        if delegation.review.pending and self._client.options.review:
            return REVIEW
        if delegation.result is not None and delegation.result.text and not delegation.result.files:
            return SHOW
        return None

    async def _review(self, delegation: Delegation) -> None:
        try:
            await self._server.review.open(delegation.id)
        except UnderstudyError as error:
            say(self._client, types.MessageType.Error, f"{error.message} {error.hint or ''}".strip())

    async def _show(self, delegation: Delegation, *, take_focus: bool) -> bool:
        """Open the answer as a document; return whether the editor did."""
        if not self._client.can("window.showDocument.support"):
            return False
        try:
            path = await asyncio.to_thread(_answer_of, delegation)
            wanted = types.ShowDocumentParams(uri=places.uri_of(path), take_focus=take_focus)
            answer = await self._client.ask(types.WINDOW_SHOW_DOCUMENT, wanted)
        except (Refused, TimeoutError, OSError):
            return False
        return isinstance(answer, dict) and answer.get("success") is True


def stops_typing(client: Client) -> bool:
    """Tell whether asking in this editor interrupts a person who types; of one without a name that is assumed."""
    return not client.name or client.name.casefold().startswith(_STOP_TYPING)


def message(delegation: Delegation, *, elsewhere: bool = False) -> str:
    """Return the end in sentences; ``elsewhere``: with the command for a terminal that shows it."""
    who = f"“{one_line(delegation.title)}” by {delegation.delegator}"
    parts = [f"{who} is {words.verdict(delegation)}."]
    if delegation.verdict in {Verdict.FAILED, Verdict.ANSWERED, Verdict.NO_CHANGES, Verdict.TIMED_OUT}:
        parts = [f"{who}: {words.verdict(delegation)}."]
    if delegation.error is not None:
        parts.append(" ".join(part for part in (delegation.error.message, delegation.error.hint) if part))
    pending = delegation.review.pending
    if pending:
        changes = "1 change waits" if pending == 1 else f"{pending} changes wait"
        files = len(delegation.result.files) if delegation.result is not None else 0
        where = f" in {files} file{'' if files == 1 else 's'}" if files else ""
        parts.append(f"{changes}{where} for your decision.")
    text = delegation.result.text if delegation.result is not None and not delegation.result.files else None
    if elsewhere and text:
        shown = text.strip()
        if len(shown) <= ANSWER_CHARACTERS:
            return f"{' '.join(parts)}\n\n{shown}"
        parts.append(f"All of it: understudy show {delegation.id}\n\n{shown[:ANSWER_CHARACTERS]}…")
    elif elsewhere and pending:
        parts.append(f"Open {_review_of(delegation)} to decide, or run: understudy review {delegation.id}")
    elif elsewhere:
        parts.append(f"More of it: understudy show {delegation.id}.")
    return " ".join(parts)


def _review_of(delegation: Delegation) -> Path:
    return store.open_folder(delegation.id).review


def _answer_of(delegation: Delegation) -> Path:
    """Write the answer where an editor can open it, beside the journal, and return the file."""
    text = delegation.result.text if delegation.result is not None else None
    path = store.open_folder(delegation.id).path / "answer.md"
    # A name of its own: another editor may be writing the same.
    temporary = path.with_name(f"answer.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write((text or "").encode("utf-8", "replace"))
    temporary.replace(path)
    return path


def register(server: Server, runs: Runs) -> None:
    """Tell of ends."""
    Endings(server, runs)
