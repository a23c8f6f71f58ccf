"""Layer 7: the API as tools of the Model Context Protocol, for other agents.

``first_answer`` answers a client's first request before the official SDK is imported. ``tool_table`` declares every
tool once: its function and description. ``tool_functions`` and ``seed_tools`` translate a call into requests of
``api.method_table``, ``tool_answers`` their results into what a model reads. ``mcp_server`` waits, reports progress,
passes questions on and connects them to the SDK, which is imported there, in ``client_requests``, in the transports and
in ``relay_server`` only: another server, for the agents that Understudy itself starts. No other frontend imports this
package.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.frontends.mcp.http_token import read_token
from understudy.model.text import lazy_packages


def serve_stdio(tool_sets: tuple[str, ...] = ()) -> int:
    """Serve the client on stdin and stdout until stdin ends; return the exit code.

    Errors: ``tool_missing`` without the official SDK.
    """
    require_sdk()
    from understudy.frontends.mcp import first_answer

    try:
        wire = first_answer.exchanged()
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    if wire is None:
        return 0
    from understudy.frontends.mcp import mcp_server

    return mcp_server.serve_stdio(tool_sets, wire)


def serve_http(tool_sets: tuple[str, ...], port: int, token_file: str | None, report: Callable[[str], None]) -> int:
    """Serve clients on a port of this machine until SIGINT or SIGTERM; ``report`` gets the address.

    Errors: ``tool_missing`` without the official SDK, ``secret_withheld`` without a token, ``already_exists``.
    """
    require_sdk()
    # First, because the transport imports the SDK and uvicorn.
    token = read_token(token_file)
    from understudy.frontends.mcp import http_transport

    return http_transport.serve(tool_sets, port, token, report)


def serve_relay(folder: str) -> int:
    """Serve the relay tools of one delegation to its agent, on stdin and stdout; return the exit code.

    Errors: ``tool_missing`` without the official SDK.
    """
    require_sdk()
    from understudy.frontends.mcp import relay_server

    return relay_server.serve(folder)


def require_sdk() -> None:
    """Raise ``tool_missing`` if the official SDK is not installed."""
    import importlib.util

    if importlib.util.find_spec("mcp") is None:
        raise lazy_packages.MCP.missing("The MCP server needs")
