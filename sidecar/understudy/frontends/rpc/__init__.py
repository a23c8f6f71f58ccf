"""Layer 7: the API as JSON-RPC 2.0, one message per line, for programs.

``frontends.json_lines`` splits bytes into messages, ``session`` is one client (its requests, each answered exactly once
through jsonrpcserver, and its subscriptions), ``listeners`` serve stdio and a Unix socket. It must not know a method by
name: the methods are in ``api.method_table``. No other frontend imports this package.
"""

from __future__ import annotations


def serve_stdio() -> int:
    """Serve the client on stdin and stdout until stdin ends; return the exit code."""
    from understudy.frontends.rpc import listeners

    return listeners.stdio()


def serve_socket(path: str) -> int:
    """Serve clients on a Unix socket at ``path`` until SIGINT or SIGTERM; return the exit code."""
    from understudy.frontends.rpc import listeners

    return listeners.unix_socket(path)
