"""The language server: the method table and standard LSP for any editor, over stdio.

It only translates: ``api`` answers requests, and delegations run in workers. ``serve`` is the entry point. ``server``
reads the stream. ``session`` handles every message, and answers those that do not need lsprotocol. ``pygls_server``
serves the features, one module each; it is loaded after the editor has its answer to ``initialize``. Only modules that
``pygls_server`` imports may import lsprotocol.
"""

from __future__ import annotations


def serve() -> int:
    """Serve the editor on stdin and stdout until it says ``exit``, closes the stream, or dies; return the exit code."""
    from understudy.frontends.lsp.server import run

    return run()
