"""Words for the person, in the editor's messages; whatever an agent put into them is made harmless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from understudy.faces.harmless import clean

if TYPE_CHECKING:
    from understudy.faces.lsp.client import Client


def say(client: Client, severity: types.MessageType, text: str) -> None:
    """Show a message."""
    client.notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(severity, clean(text)))


def log(client: Client, text: str) -> None:
    """Write a line into the editor's log."""
    client.notify(types.WINDOW_LOG_MESSAGE, types.LogMessageParams(types.MessageType.Info, clean(text)))


async def choose(
    client: Client, severity: types.MessageType, text: str, items: Sequence[str], limit: float
) -> str | None:
    """Show a message with items to choose from; return the chosen one, None for none of them.

    Errors: ``Refused``; ``TimeoutError`` after ``limit`` seconds.
    """
    params = types.ShowMessageRequestParams(
        severity, clean(text), [types.MessageActionItem(title=item) for item in items]
    )
    answer = await client.ask(types.WINDOW_SHOW_MESSAGE_REQUEST, params, limit)
    title = answer.get("title") if isinstance(answer, dict) else None
    return title if isinstance(title, str) and title in items else None


def can_ask(client: Client) -> bool:
    """Tell whether the client declared that its messages may have items to choose from, however little it said."""
    return client.capability("window.showMessage.messageActionItem") is not None
