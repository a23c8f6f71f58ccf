"""The language server: the method table and standard LSP for any editor, over stdio.

It translates, nothing else: every decision is made below, every run is a worker's. ``serve`` is the way in; ``server``
puts the parts together, ``protocol`` answers whatever bytes arrive as the specification says, ``client`` is the editor
as the features see it. Each feature is one module that registers itself (``actions``, ``progress``, ``surface`` …).
"""

from __future__ import annotations


def serve() -> int:
    """Serve the editor on stdin and stdout until it says ``exit``, closes the stream, or dies; return the exit code."""
    from understudy.faces.lsp.server import run  # noqa: PLC0415 - lsprotocol takes a third of a second to import

    return run()
