"""Test the driver on another kind of source, which the product does not have: a JSON-RPC peer over pipes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from programs import program

from understudy.model.config.delegators import AppliesTo, Delegator, Limits, Recipe, Scope
from understudy.model.delegation.delegations import PermissionOption, no_usage
from understudy.model.delegation.events import Event, Note, Permission, PermissionAnswered, Text, UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.process.programs import children
from understudy.runners.driver import driver
from understudy.runners.driver.source import AgentFinished, Heartbeat, SourceItem
from understudy.runners.runner import Message, Outcome, Question, Send, Task
from understudy.secrets import Redactor

AGENT = Path(__file__).with_name("rpc_agent.py")


class RpcSource:
    """A JSON-RPC peer: requests and answers in both directions, matched by id."""

    def __init__(self, task: Task, scenario: str) -> None:
        self.subject = f"Delegator {task.delegator.name!r}"
        self.redactor = Redactor({"key": "sk-secret-0123456789"})
        self.task, self.scenario = task, scenario
        self.child: children.Child | None = None
        self.calls: list[str] = []

    async def items(self) -> AsyncIterator[SourceItem]:
        if self.child is None:
            argv, mark = [sys.executable, str(AGENT), self.scenario], self.task.delegation_id
            self.child = await children.start(program(argv, AGENT.parent, mark=mark, keep_stdin=True))
            await self._write(id="turn", method="session/prompt", params={"text": self.task.prompt})
        async for line in self.child.stdout_lines():
            yield self._item(json.loads(line))
        await self.child.wait()

    def _item(self, message: dict[str, Any]) -> SourceItem:
        params = message.get("params", {})
        if message.get("id") == "turn":
            assert self.child is not None
            assert self.child.stdin is not None
            self.child.stdin.close()
            if "error" in message:
                return AgentFinished(error=ErrorInfo(ErrorKind.AUTH_FAILED, message["error"]["message"], "Log in."))
            return AgentFinished(summary=message["result"]["stopReason"])
        if message["method"] == "session/request_permission":
            options = [PermissionOption(id=kind, title=kind, kind=kind) for kind in params["options"]]
            return Question(
                question_id=message["id"],
                title=params["title"],
                detail="",
                options=options,
                tool="shell",
                kind="execute",
                command=params["command"],
            )
        if "tokens" in params:
            usage = no_usage()
            usage.input_tokens = params["tokens"]
            return UsageReport(**{name: getattr(usage, name) for name in usage.__struct_fields__})
        return Text(text=params["text"]) if "text" in params else Heartbeat()

    async def answer(self, question_id: str, option: PermissionOption, note: str | None) -> None:
        await self._write(id=question_id, result={"option": option.id, "note": note})

    async def interrupt(self) -> None:
        self.calls.append("interrupt")
        await self._write(method="session/cancel")

    async def send(self, message: Message) -> None:
        await self._write(method="session/steer", params={"text": message.text})

    async def explain(self) -> ErrorInfo | None:
        self.calls.append("explain")
        ended = self.child.ended if self.child is not None else None
        if self.child is None or ended is None or ended.code == 0:
            return None
        said = self.child.stderr_tail().decode().strip()
        return ErrorInfo(ErrorKind.TOOL_CRASHED, f"{self.subject} exited with code {ended.code}: {said}", None)

    async def close(self) -> Sequence[Event]:
        self.calls.append("close")
        if self.child is not None:
            await self.child.end(0.5)
        return [Note(level="info", text="closed")]

    async def _write(self, **message: object) -> None:
        assert self.child is not None
        assert self.child.stdin is not None
        await self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def a_task(folder: Path, **more: Any) -> Task:
    values: dict[str, Any] = {
        "delegation_id": f"test-{time.monotonic_ns()}",
        "recipe": Recipe(
            name="ask", title="Ask", returns="text", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
        ),
        "prompt": "go",
        "prompt_file": folder / "prompt.md",
        "worktree": None,
        "delegator": Delegator(name="peer", tool="generic"),
        "limits": Limits(total_seconds=60, first_event_seconds=60, idle_seconds=60, after_result_seconds=60),
    }
    return Task(**(values | more))


async def drive(source: RpcSource, limits: Limits | None = None) -> tuple[Outcome | UnderstudyError, list[Event]]:
    events: list[Event] = []
    try:
        return await driver.drive(source.task, events.append, source), events
    except UnderstudyError as error:
        return error, events


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


async def test_a_turn_that_ends_well(tmp_path):
    source = RpcSource(a_task(tmp_path, prompt="say sk-secret-0123456789"), "honest")
    outcome, events = await drive(source)
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == texts(events) == "You said: say <secret:key> "
    assert outcome.summary == "end_turn"
    assert source.calls == ["close", "explain"]
    assert any(isinstance(event, Note) and event.text == "closed" for event in events)


async def test_a_question_is_answered_under_its_own_id(tmp_path):
    asked: list[Question] = []

    async def ask(question: Question) -> tuple[PermissionOption, str | None]:
        asked.append(question)
        await asyncio.sleep(2.2)  # longer than the agent may be idle
        return question.options[0], None

    limits = Limits(total_seconds=60, first_event_seconds=60, idle_seconds=2)
    outcome, _ = await drive(RpcSource(a_task(tmp_path, ask=ask, limits=limits), "question"))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == "You said: go Asked. q-7: allow_once. "
    assert [(found.tool, found.kind, found.command, found.paths) for found in asked] == [
        ("shell", "execute", "rm -rf build", None)
    ]


async def test_where_no_one_can_be_asked_the_journal_has_the_typed_question(tmp_path):
    outcome, events = await drive(RpcSource(a_task(tmp_path), "question"))
    assert isinstance(outcome, Outcome), outcome
    assert "q-7: reject_once" in (outcome.text or "")
    [asked] = [event for event in events if isinstance(event, Permission)]
    assert (asked.tool, asked.kind, asked.command) == ("shell", "execute", "rm -rf build")
    [answered] = [event for event in events if isinstance(event, PermissionAnswered)]
    assert (answered.request_id, answered.option) == (asked.request_id, "reject_once")


@pytest.mark.parametrize(
    ("scenario", "limits", "kind", "words"),
    [
        ("stall", Limits(first_event_seconds=60, idle_seconds=2), ErrorKind.STALLED, "idle_seconds"),
        ("stubborn", Limits(total_seconds=1.5), ErrorKind.TIMED_OUT, "total_seconds"),
        ("spend", Limits(max_tokens=500), ErrorKind.BUDGET_EXHAUSTED, "maxTokens"),
        ("crash", Limits(), ErrorKind.TOOL_CRASHED, "code 3: the model went away"),
        ("refuse", Limits(), ErrorKind.AUTH_FAILED, "Authentication required"),
    ],
)
async def test_every_bad_end_has_its_kind_and_closes_the_source(tmp_path, scenario, limits, kind, words):
    source = RpcSource(a_task(tmp_path, limits=limits), scenario)
    error, events = await drive(source)
    assert isinstance(error, UnderstudyError), error
    assert error.kind is kind
    assert words in error.message
    assert source.calls.count("close") == 1
    assert source.child is not None
    assert source.child.ended is not None
    if scenario == "stall":
        # It was asked to end its turn first, and its last output was kept.
        assert source.calls[0] == "interrupt"
        assert texts(events) == "You said: go Stopped. "


async def test_a_cancel_interrupts_and_then_closes(tmp_path):
    source = RpcSource(a_task(tmp_path), "stall")
    events: list[Event] = []
    work = asyncio.create_task(driver.drive(source.task, events.append, source))
    async with asyncio.timeout(20):
        while not texts(events):
            await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert source.calls == ["interrupt", "close"]
    assert texts(events) == "You said: go Stopped. "


async def test_a_message_of_the_user_arrives_while_it_works(tmp_path):
    connected: asyncio.Future[Send] = asyncio.get_running_loop().create_future()

    class Said:
        taken = connect = staticmethod(connected.set_result)

    source = RpcSource(a_task(tmp_path, messages=Said()), "steer")
    events: list[Event] = []
    work = asyncio.create_task(driver.drive(source.task, events.append, source))
    async with asyncio.timeout(20):
        send = await connected
    await send(Message(message_id="m", text="use pytest"))
    outcome = await work
    assert outcome.text == "You said: go Then: use pytest. "
