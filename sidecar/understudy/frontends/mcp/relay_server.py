"""The relay tools of one delegation, for its agent: ``understudy mcp --relay FOLDER``, which the agent starts.

It knows no delegation and reads no state: it passes each call to the worker, through the socket in ``FOLDER``, and the
worker decides what the agent may do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from understudy import __version__
from understudy.frontends.mcp.tools.client_requests import Context
from understudy.model.relay.relay_tools import CALL_SECONDS, SERVER

ANSWER_SECONDS = CALL_SECONDS + 10
"""The worker answers within the first part."""
REPORT_SECONDS = 5.0
"""How often a call that waits reports progress, so that the client goes on waiting."""
MOST_LINE_BYTES = 4 << 20
_GONE = "Understudy no longer serves this agent: its work has ended."


def serve(folder: str) -> int:
    """Serve until stdin ends."""
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_serve, Path(folder))
    return 0


async def _serve(folder: Path) -> None:
    server = new_server(folder)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def new_server(folder: Path) -> Server[Any]:
    """Return the server of the official SDK."""

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        answer = await exchange(folder, {})
        return types.ListToolsResult(
            tools=[
                types.Tool(name=tool["name"], description=tool["description"], input_schema=tool["inputSchema"])
                for tool in answer.get("tools") or []
            ]
        )

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        async with anyio.create_task_group() as group:
            group.start_soon(_report, context)
            answer = await exchange(folder, {"tool": params.name, "arguments": params.arguments or {}})
            group.cancel_scope.cancel()
        content = types.TextContent(type="text", text=answer.get("text", ""))
        return types.CallToolResult(content=[content], is_error=not answer.get("ok"))

    return Server(
        SERVER,
        version=__version__,
        title="Understudy",
        instructions="Ask the user, report progress, delegate parts of your work, and talk to the agents beside you.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def exchange(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Send one request to the worker and return its answer; one that says so if there is no worker."""
    try:
        token = (folder / "token").read_text("ascii")
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(folder / "socket"), limit=MOST_LINE_BYTES)
            try:
                writer.write(json.dumps({**request, "token": token}).encode() + b"\n")
                await writer.drain()
                answer = json.loads(await reader.readline())
            finally:
                writer.close()
    except (OSError, ValueError, TimeoutError):
        return {"ok": False, "text": _GONE}
    return answer if isinstance(answer, dict) else {"ok": False, "text": _GONE}


async def _report(context: Context) -> None:
    elapsed = 0.0
    while True:
        await anyio.sleep(REPORT_SECONDS)
        elapsed += REPORT_SECONDS
        await context.session.report_progress(elapsed, None, "waiting")
