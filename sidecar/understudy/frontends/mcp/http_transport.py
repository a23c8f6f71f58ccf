"""Serve clients over streamable HTTP, on this machine only and with a token.

Every program that has the token can delegate as the user. The SDK checks ``Host`` and ``Origin``, which keeps
browsers out, as the token does.
"""

from __future__ import annotations

import hmac
import os
import signal
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import uvicorn

from understudy.api.caller import current_folder
from understudy.api.serving import waiting_delegations
from understudy.frontends.mcp import mcp_server
from understudy.frontends.mcp.http_token import TOKEN_VARIABLE
from understudy.model.errors import ErrorKind, UnderstudyError

_HOST = "127.0.0.1"
_MOST_CONNECTIONS = 256

_Scope = MutableMapping[str, Any]
_App = Callable[[Any, Any, Any], Awaitable[None]]


def serve(tool_sets: tuple[str, ...], port: int, token: str, report: Callable[[str], None]) -> int:
    """Serve on a port of 127.0.0.1 (0: any free one) until SIGINT or SIGTERM; ``report`` gets the address.

    Errors: ``already_exists`` for a port that is taken.
    """
    server = mcp_server.new_server(tool_sets, current_folder(), local=False)
    app = with_token(server.streamable_http_app(host=_HOST), token)
    # Children must not inherit it: they run as the user, but were not given it.
    os.environ.pop(TOKEN_VARIABLE, None)
    listener = _listen(port)
    with listener:
        waiting_delegations.watch()
        report(f"http://{_HOST}:{listener.getsockname()[1]}/mcp")
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="error",
            lifespan="on",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
            ws="none",
        )
        # Uvicorn stops at a signal, and then raises it again for the handlers that were there before.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        anyio.run(uvicorn.Server(config).serve, [listener])
    return 0


def with_token(app: _App, token: str) -> _App:
    """Return ``app`` behind a check of the header ``Authorization: Bearer``."""
    expected = f"Bearer {token}".encode()

    async def checked(scope: _Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(authorization, expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"A valid token is needed.\n"})
                return
        await app(scope, receive, send)

    return checked


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UnderstudyError(
            ErrorKind.ALREADY_EXISTS,
            f"Port {port} of {_HOST} cannot be used: {error.strerror}.",
            hint="Choose another one; 0 takes any free port.",
        ) from error
    return listener
