"""Report the result of a delegation: the verdict with its reservations, and the next step.

A delegation that this editor started gets a message; any other in its folders gets a line in the editor's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from lsprotocol import types

from understudy.api import result_files
from understudy.frontends.lsp.delegate.tracked_delegations import TrackedDelegations
from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.frontends.lsp.editor.user_messages import PERSON_SECONDS, can_ask, choose, log, say, show_document
from understudy.model.delegation import events as event_types
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.text import delegation_text
from understudy.model.text.sanitize import one_line
from understudy.model.verdicts import Verdict

REVIEW = "Review"
SHOW = "Show the answer"
ANSWER_CHARACTERS = 600
"""How much of an answer a message contains if the editor cannot show a document."""

_STOP_TYPING = ("neovim", "vim", "ale", "emacs", "eglot", "helix", "kak")
"""Prefixes of the names of clients in which a message with buttons, or a document, takes the keyboard focus: Neovim's
``inputlist()``, ``completing-read`` in lsp-mode and Eglot, Helix's picker. An agent may finish while the user types,
and a keystroke must not answer the message by accident."""

_SEVERITIES = {
    Verdict.VERIFIED: types.MessageType.Info,
    Verdict.ANSWERED: types.MessageType.Info,
    Verdict.CANCELLED: types.MessageType.Info,
    Verdict.NO_CHANGES: types.MessageType.Warning,
    Verdict.UNVERIFIED: types.MessageType.Warning,
    Verdict.CHECKS_FAILED: types.MessageType.Warning,
}
"""Verdict → severity of its message; every other verdict is an error."""


class ResultMessages:
    """The messages about results in one editor."""

    def __init__(self, client: Client, runs: TrackedDelegations, open_review: Callable[[str], Awaitable[None]]) -> None:
        """Follow the delegations in ``runs``."""
        self._client = client
        self._open_review = open_review
        self._runs = runs
        runs.on_update.append(self._update)

    def _update(self, delegation: Delegation, events: list[Any]) -> None:
        if delegation.verdict is None or not any(isinstance(event, event_types.Finished) for event in events):
            return
        if not self._runs.is_ours(delegation.id):
            log(self._client, message(delegation, elsewhere=True))
            return
        self._client.spawn(self._tell(delegation), f"end of {delegation.id}")

    async def _tell(self, delegation: Delegation) -> None:
        """Show the message, and do what the user chooses."""
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
        except (EditorRefused, TimeoutError):
            return
        if item == REVIEW:
            try:
                await self._open_review(delegation.id)
            except UnderstudyError as error:
                say(self._client, types.MessageType.Error, f"{error.message} {error.hint or ''}".strip())
        elif not await self._show(delegation, take_focus=True):
            say(self._client, severity, message(delegation, elsewhere=True))

    def _choice(self, delegation: Delegation) -> str | None:
        """Return the button of the message, if any."""
        if delegation.review.pending and self._client.options.review:
            return REVIEW
        if delegation.result is not None and delegation.result.text and not delegation.result.files:
            return SHOW
        return None

    async def _show(self, delegation: Delegation, *, take_focus: bool) -> bool:
        """Open the answer as a document; return whether the editor did."""
        try:
            path = await asyncio.to_thread(result_files.write_answer, delegation.id, _answer(delegation))
        except OSError:
            return False
        return await show_document(self._client, path, take_focus=take_focus)


def stops_typing(client: Client) -> bool:
    """Return whether a message with buttons would interrupt typing in this editor; assumed if it sent no name."""
    return not client.name or client.name.casefold().startswith(_STOP_TYPING)


def message(delegation: Delegation, *, elsewhere: bool = False) -> str:
    """Return the text of the message; ``elsewhere``: with the terminal command that shows the result."""
    who = f"“{one_line(delegation.title)}” by {delegation.delegator}"
    sentence = delegation_text.verdict_sentence(delegation)
    parts = [f"{who} is {sentence}."]
    if delegation.verdict in {Verdict.FAILED, Verdict.ANSWERED, Verdict.NO_CHANGES, Verdict.TIMED_OUT}:
        parts = [f"{who}: {sentence}."]
    if delegation.error is not None:
        parts += [delegation.error.hint] if delegation.error.hint else []
        parts += [f"Log: {path}" for path in (delegation.error.log_paths or [])[:1]]
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
        parts.append(f"Full answer: understudy show {delegation.id}\n\n{shown[:ANSWER_CHARACTERS]}…")
    elif elsewhere and pending:
        review = result_files.review_file(delegation.id)
        parts.append(f"Open {review} to decide, or run: understudy review {delegation.id}")
    elif elsewhere:
        parts.append(f"Details: understudy show {delegation.id}.")
    return " ".join(parts)


def _answer(delegation: Delegation) -> str:
    return (delegation.result.text if delegation.result is not None else None) or ""
