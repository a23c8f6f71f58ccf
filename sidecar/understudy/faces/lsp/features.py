"""The list of features: each is a module with ``register(server)``; what answers one LSP method together meets here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.faces.lsp import actions, endings, gather, own, progress, questions, surface, trusting
from understudy.faces.lsp.runs import Runs

if TYPE_CHECKING:
    from understudy.faces.lsp.server import Server


def register(server: Server) -> None:
    """Register every feature, in the order in which code actions and lenses are listed."""
    gather.register(server)
    surface.register(server)
    own.register(server)
    trusting.register(server)
    runs = Runs(server.client)
    progress.register(server, runs)
    questions.register(server, runs)
    endings.register(server, runs)
    # After every other source: what delegates comes last.
    actions.register(server)
