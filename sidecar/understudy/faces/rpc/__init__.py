"""Floor 6: the contract as JSON-RPC 2.0, one message a line, for programs.

``framing`` turns bytes into messages and refuses what is none, ``dispatch`` answers one request through
jsonrpcserver, ``session`` is one client (its requests, its subscriptions, exactly one answer each),
``serving`` opens the doors: stdio and a Unix socket. It must not know a method by name beyond how long
it may take: the methods are ``api.table``'s. Nothing here is imported by any other face.
"""

from __future__ import annotations


def serve_stdio() -> int:
    """Serve the client on stdin and stdout until its end; return the exit code."""
    from understudy.faces.rpc import serving  # noqa: PLC0415 - jsonrpcserver takes its time to import

    return serving.stdio()


def serve_socket(path: str) -> int:
    """Serve clients on a Unix socket at ``path`` until SIGINT or SIGTERM; return the exit code."""
    from understudy.faces.rpc import serving  # noqa: PLC0415 - as above

    return serving.unix_socket(path)
