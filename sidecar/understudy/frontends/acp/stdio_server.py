"""Serve one client on stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from typing import Any

from acp.agent.connection import AgentSideConnection

from understudy.api.serving import waiting_delegations
from understudy.frontends.acp.acp_agent import AcpAgent
from understudy.frontends.acp.message_transport import MessageTransport


def serve() -> int:
    """Serve until stdin ends."""
    # The SDK logs what it cannot handle, which may be text of the user.
    logging.getLogger().addHandler(logging.NullHandler())
    reading, writing = _take_stdio()
    waiting_delegations.watch()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(reading, writing))
    return 0


async def _serve(reading: int, writing: int) -> None:
    agent: Any = AcpAgent()  # forking a session is the part of the SDK's `Agent` that it does not offer
    transport = MessageTransport(reading, writing)
    connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
    try:
        await connection.listen()
    finally:
        await agent.close()
        await connection.close()


def _take_stdio() -> tuple[int, int]:
    """Move stdin and stdout to new descriptors and return them; nothing else can write into the stream."""
    reading, writing = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return reading, writing
