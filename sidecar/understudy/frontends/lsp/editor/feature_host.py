"""The interface of the server for features, so that no feature imports the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from understudy.frontends.lsp.editor.aggregator import Aggregator
from understudy.frontends.lsp.editor.client import Client


class Review(Protocol):
    """The feature that shows results for review."""

    async def open(self, delegation: str) -> None:
        """Show the review of a delegation. Errors: ``unknown_delegation``."""
        ...


class FeatureHost(Protocol):
    """The objects that the features of one editor share."""

    client: Client
    aggregator: Aggregator
    """Combines the answers of several features to one request."""
    review: Review
    """Set by the review feature."""
    on_progress_cancel: list[Callable[[str | int], None]]
    """Called with the token of a progress that the user cancelled."""

    def answer(self, method: str, handler: Callable[[Any], Awaitable[Any]]) -> None:
        """Register the handler of a standard request."""
        ...

    def add_command(self, name: str, handler: Callable[..., Awaitable[Any]]) -> None:
        """Register the handler of a command, which gets the command's arguments."""
        ...
