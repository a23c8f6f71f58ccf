"""Show documents in the editor, and messages with or without buttons; the text of messages is sanitized."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types

from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import sanitize

PERSON_SECONDS = 3600.0
"""How long a message with a choice is shown, unless it has a deadline."""
_log = logging.getLogger(__name__)


def say(client: Client, severity: types.MessageType, text: str) -> None:
    """Show a message."""
    client.notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(severity, sanitize(text)))


def log(client: Client, text: str) -> None:
    """Write a line into the editor's log."""
    client.notify(types.WINDOW_LOG_MESSAGE, types.LogMessageParams(types.MessageType.Info, sanitize(text)))


async def choose(
    client: Client, severity: types.MessageType, text: str, items: Sequence[str], limit: float
) -> str | None:
    """Show a message with buttons; return the title of the chosen one, None if the user chose none.

    Errors: ``EditorRefused``; ``TimeoutError`` after ``limit`` seconds.
    """
    params = types.ShowMessageRequestParams(
        severity, sanitize(text), [types.MessageActionItem(title=item) for item in items]
    )
    answer = await client.ask(types.WINDOW_SHOW_MESSAGE_REQUEST, params, limit)
    title = answer.get("title") if isinstance(answer, dict) else None
    return title if isinstance(title, str) and title in items else None


async def show_document(client: Client, path: Path, line: int | None = None, *, take_focus: bool = True) -> bool:
    """Open a file, at ``line`` if there is one; return whether the editor did."""
    if not client.can("window.showDocument.support"):
        return False
    at = None if line is None else types.Range(types.Position(line, 0), types.Position(line, 0))
    params = types.ShowDocumentParams(path_quoting.uri_of(path), take_focus=take_focus, selection=at)
    try:
        answer = await client.ask(types.WINDOW_SHOW_DOCUMENT, params)
    except (EditorRefused, TimeoutError) as error:
        _log.warning("%s could not be shown: %s", path, error)
        return False
    return isinstance(answer, dict) and answer.get("success") is True


def can_ask(client: Client) -> bool:
    """Return whether the client declared support for messages with buttons, even without details."""
    return client.capability("window.showMessage.messageActionItem") is not None
