"""Call tools of an MCP server as an agent does."""

from __future__ import annotations

import json
from typing import Any

from mcp import Client


class Tools:
    """A client, and how a test calls tools with it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def raw(self, tool: str, **arguments: Any) -> Any:
        return await self.client.call_tool(tool, arguments)

    async def text(self, tool: str, **arguments: Any) -> str:
        found = await self.raw(tool, **arguments)
        (content,) = found.content
        assert not found.is_error, content.text
        return str(content.text)

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        return json.loads(await self.text(tool, **arguments))

    async def error(self, tool: str, **arguments: Any) -> Any:
        found = await self.raw(tool, **arguments)
        assert found.is_error, found
        return json.loads(found.content[0].text)["error"]

    async def done(self, tool: str, **arguments: Any) -> Any:
        """Call a tool again while its work runs: an equal call attaches to it."""
        for _ in range(10):
            found = await self(tool, **arguments)
            if found.get("status") != "running":
                return found
        raise AssertionError(found)

    async def until(self, identifier: str, status: str) -> Any:
        """Wait, as a model does: call again while it runs."""
        for _ in range(10):
            found = await self("wait", id=identifier)
            if found["status"] != "running":
                assert found["status"] == status, found
                return found
        raise AssertionError(found)
