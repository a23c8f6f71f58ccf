"""The list of features: each is a module with ``register(server)``; what answers one LSP method together meets here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.faces.lsp import gather, surface

if TYPE_CHECKING:
    from understudy.faces.lsp.server import Server


def register(server: Server) -> None:
    """Register every feature, in the order in which code actions and lenses are listed."""
    gather.register(server)
    surface.register(server)
