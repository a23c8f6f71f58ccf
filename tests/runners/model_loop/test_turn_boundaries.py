"""Test what happens between the turns of a model: messages of the user, checkpoints, and continued conversations."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from model_work import DONE, PROTOCOLS, call

from understudy.model.delegation.events import Session, ToolCall
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.runner import Message, Outcome

SLOW = "touch waiting; until test -e go; do sleep 0.02; done"


class Messages:
    """What the user says, handed over as soon as the source takes messages."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.send: Callable[[Message], Coroutine[Any, Any, None]] | None = None
        self.got: list[str] = []
        self.handed: asyncio.Task[None] | None = None

    def connect(self, send: Any) -> None:
        self.send = send
        self.handed = asyncio.get_running_loop().create_task(self._hand_over())

    async def _hand_over(self) -> None:
        for text in self.texts:
            await self.send(Message(message_id=text, text=text))

    def taken(self, message_id: str) -> None:
        self.got.append(message_id)


def said_in(body: dict[str, Any]) -> list[str]:
    """Return the texts of the user in a request, oldest first."""
    found = []
    for one in body.get("messages") or body["input"]:
        content = one.get("content")
        if one.get("role") == "user":
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            found += [block["text"] for block in blocks if block["type"] == "text"]
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_message_is_part_of_the_next_request(work, protocol):
    messages = Messages("Keep it short.", "And name the sign.")
    outcome = await work.run({"calls": [call("read_file", path="calc.py")]}, DONE, protocol=protocol, messages=messages)
    assert isinstance(outcome, Outcome), outcome
    assert said_in(work.requests[-1])[-1] == "The user says:\n\nKeep it short.\n\nAnd name the sign."
    assert messages.got == ["Keep it short.", "And name the sign."]
    assert len(work.requests) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_message_that_comes_with_the_last_answer_continues_the_work(work, protocol):
    messages = Messages("Read it, too.")
    outcome = await work.run(
        {"text": "Nothing to do."},
        {"text": "Nothing to do."},
        {"calls": [call("read_file", path="calc.py")]},
        {"text": "Read."},
        protocol=protocol,
        messages=messages,
    )
    assert isinstance(outcome, Outcome), outcome
    assert (outcome.summary, messages.got) == ("Read.", ["Read it, too."])
    assert len(work.of(ToolCall)) == 1
    with pytest.raises(UnderstudyError) as caught:
        await messages.send(Message(message_id="late", text="late"))
    assert caught.value.kind is ErrorKind.INVALID_PARAMS


async def test_a_message_is_not_recorded_as_delivered_when_its_request_fails(work):
    messages = Messages("Hello.")
    refused = {"refuse": [401, "no"]}
    error = await work.run({"calls": [call("list_files")]}, refused, messages=messages)
    assert error.kind is ErrorKind.AUTH_FAILED
    assert messages.got == []


async def test_a_turn_is_committed_while_the_model_thinks(work):
    done: list[str] = []

    async def checkpoint() -> None:
        await asyncio.sleep(0)
        done.append((work.tree / "calc.py").read_text())

    write = [call("write_file", path="calc.py", content=f"x = {number}\n") for number in range(3)]
    looking = {"calls": [call("read_file", path="calc.py")]}
    await work.run({"calls": write[:2]}, looking, {"calls": write[2:]}, looking, DONE, checkpoint=checkpoint)
    assert done == ["x = 1\n", "x = 2\n"], "turns that change nothing are not committed"


async def test_no_call_changes_files_during_a_checkpoint(work):
    order: list[str] = []

    async def checkpoint() -> None:
        order.append("begun")
        await asyncio.sleep(0.2)
        order.append((work.tree / "calc.py").read_text())

    write = [{"calls": [call("write_file", path="calc.py", content=f"x = {number}\n")]} for number in range(2)]
    await work.run(*write, DONE, checkpoint=checkpoint)
    assert order[:2] == ["begun", "x = 0\n"]


async def test_a_checkpoint_that_takes_long_is_not_made_after_each_turn(work):
    made: list[int] = []

    async def checkpoint() -> None:
        made.append(1)
        await asyncio.sleep(0.3)

    write = [{"calls": [call("write_file", path="calc.py", content=f"x = {number}\n")]} for number in range(10)]
    await work.run(*write, DONE, checkpoint=checkpoint)
    assert 1 <= len(made) < 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_later_attempt_continues_the_conversation(work, protocol):
    edit = {"thinking": "t", "calls": [call("edit_file", path="calc.py", old_string="a - b", new_string="a * b")]}
    await work.run(edit, {"text": "First."}, protocol=protocol)
    [session] = {one.session_id for one in work.of(Session)}
    before = work.requests[-1]
    outcome = await work.run(
        {"calls": [call("read_file", path="calc.py")]},
        {"text": "Second."},
        protocol=protocol,
        session_id=session,
        request="The check failed.",
        prompt="Everything again. The check failed.",
    )
    assert isinstance(outcome, Outcome), outcome
    name = "input" if protocol == "responses" else "messages"
    marks = ', "cache_control": {"type": "ephemeral"}'
    history, after = (json.loads(json.dumps(body).replace(marks, ""))[name] for body in (before, work.requests[0]))
    assert after[: len(history)] == history, "the provider's cache keeps what it has"
    assert said_in(work.requests[0])[-1] == "The check failed."
    assert "First." in json.dumps(after[len(history) :])
    assert {one.session_id for one in work.of(Session)} == {session}


async def test_a_conversation_that_is_not_kept_begins_again(work):
    outcome = await work.run(DONE, DONE, session_id="from-another-process", request="More.", prompt="All.\n\nMore.")
    assert isinstance(outcome, Outcome), outcome
    assert said_in(work.requests[0]) == ["All.\n\nMore."]
    [session] = {one.session_id for one in work.of(Session)}
    assert session != "from-another-process"


async def test_a_failed_attempt_is_continued_as_well(work):
    looking = {"calls": [call("read_file", path="calc.py")]}
    error = await work.run(looking, {"refuse": [500, "no"]})
    assert error.kind is not None
    [session] = {one.session_id for one in work.of(Session)}
    outcome = await work.run({"text": "Done."}, DONE, session_id=session, request="Go on.", prompt="x")
    assert isinstance(outcome, Outcome), outcome
    roles = [one["role"] for one in work.requests[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert all(len(list(group)) <= 1 for _, group in itertools.groupby(roles))
