"""Show messages in the editor, with or without buttons; their text is sanitized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from understudy.model.text.sanitize import sanitize

if TYPE_CHECKING:
    from understudy.frontends.lsp.editor.client import Client


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


def can_ask(client: Client) -> bool:
    """Return whether the client declared support for messages with buttons, even without details."""
    return client.capability("window.showMessage.messageActionItem") is not None
