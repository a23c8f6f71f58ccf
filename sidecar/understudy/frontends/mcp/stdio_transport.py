"""Serve one client on stdin and stdout."""

from __future__ import annotations

import contextlib

import anyio
from mcp.server.stdio import stdio_server

from understudy.api.caller import current_folder
from understudy.api.serving import waiting_delegations
from understudy.frontends.mcp import mcp_server


def serve(tool_sets: tuple[str, ...]) -> int:
    """Serve until stdin ends."""
    waiting_delegations.watch()
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_serve, tool_sets)
    return 0


async def _serve(tool_sets: tuple[str, ...]) -> None:
    server = mcp_server.new_server(tool_sets, current_folder(), local=True)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
