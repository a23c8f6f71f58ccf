"""Test that real agents get what the user says while they work: during the turn, or as the next one."""

import asyncio
from typing import Any

import pytest

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Launch
from understudy.model.delegation.events import Text, ToolCall
from understudy.runners.runner import Message, Outcome, Send

pytestmark = pytest.mark.heavy

WORDS = "Also keep the public names as they are, please."
MESSAGE = Message(message_id="3f0c6a52-8d0b-4a7e-9f6a-1c2b3d4e5f60", text=WORDS)


class Said:
    """Says one thing, as soon as the agent shows that it works."""

    def __init__(self, lab: Any) -> None:
        self.lab, self.taken_ids = lab, []
        self.task: asyncio.Task[None] | None = None

    def connect(self, send: Send) -> None:
        self.task = asyncio.get_running_loop().create_task(self._say(send))

    async def _say(self, send: Send) -> None:
        while not self.lab.of(ToolCall) and not self.lab.of(Text):
            await asyncio.sleep(0.005)
        await send(MESSAGE)

    def taken(self, message_id: str) -> None:
        self.taken_ids.append(message_id)


def tasks(lab: Any, tool: str, said: Said, ask: Any) -> Any:
    if tool == "claude":
        return lab.task("shell", ask=ask, messages=said)
    modes = {"codex": "untrusted", "qwen": "default"}
    launch = Launch(permission_mode=modes[tool]) if tool in modes else None
    model = "scripted-model" if tool == "pi" else "gpt-5.5"
    # pi does not ask: there, the message comes before the last of several steps.
    return lab.tool_task(tool, "edits" if tool == "pi" else "shell", ask=ask, launch=launch, model=model, messages=said)


@pytest.mark.parametrize("tool", ["claude", "codex", "qwen", "pi"])
async def test_a_message_reaches_the_model_once(lab, choose, tool):
    said = Said(lab)
    allow = choose("allow_once")

    async def ask(question):  # the turn goes on when the message is there
        await asyncio.wait_for(asyncio.shield(said.task), 20)
        await asyncio.sleep(0.3)
        return await allow(question)

    outcome = await lab.run(tasks(lab, tool, said, ask))
    assert isinstance(outcome, Outcome), outcome
    assert declarations.tools()[tool].messages in {"during_turn", "after_turn"}
    assert said.taken_ids == [MESSAGE.message_id]
    bodies = [request.body if isinstance(request.body, str) else str(request.body) for request in lab.server.requests]
    assert sum(WORDS in body for body in bodies) >= 1
    assert bodies[-1].count(WORDS) == 1
