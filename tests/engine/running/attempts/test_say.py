"""Test what the user says to a running agent: from `delegations/say` in one process to a program in another."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from wait_until import until

from understudy.engine.running.attempts import agent_conversation
from understudy.journal import delegation_folder, worker_files
from understudy.journal.summaries import fold
from understudy.model.delegation import events as e
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError

PROGRAM = '''#!@PYTHON@
"""Stands for Claude Code; MODE says what it does with a message."""
import json, os, pathlib, sys, time

folder = pathlib.Path(os.environ["STAGE"])
mode = os.environ["MODE"]
resumed = any(one.startswith("--resume") for one in sys.argv)


def say(**line):
    print(json.dumps({"session_id": "s-1", **line}), flush=True)


def text(words):
    content = [{"type": "text", "text": words}]
    say(type="assistant", message={"id": str(time.monotonic_ns()), "role": "assistant", "content": content})


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message = json.loads(line)
    with (folder / "heard.jsonl").open("a") as log:
        log.write(json.dumps({"resumed": resumed, "text": message["message"]["content"][0]["text"]}) + "\\n")
    return message


def take(message):
    say(type="user", isReplay=True, uuid=message["uuid"], message=message["message"])


def result():
    say(type="result", subtype="success", is_error=False, result="done")


hear()
say(type="system", subtype="init", claude_code_version="2.1.329")
text("Begun.")
if resumed or mode == "nothing":
    pathlib.Path("more.txt").write_text("more")
    result()
    hear()
    sys.exit(0)
pathlib.Path("work.txt").write_text("work")
if mode in ("steer", "next_turn"):
    message = hear()
    if mode == "next_turn":
        result()
    take(message)
    text("Heard it.")
    result()
    hear()
(folder / "waits").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
if mode == "crash":
    sys.exit(3)
result()
'''


class Stage:
    """A delegator whose program stands for Claude Code."""

    def __init__(self, project: Any, folder: Path) -> None:
        self.project, self.folder = project, folder
        folder.mkdir()
        program = folder / "programs" / "claude"
        program.parent.mkdir()
        program.write_text(PROGRAM.replace("@PYTHON@", sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def start(self, mode: str) -> str:
        delegators = self.project.config / "delegators"
        delegators.mkdir(parents=True, exist_ok=True)
        (delegators / "said.toml").write_text(
            f'name = "said"\ntool = "claude"\n[env]\nPATH = "{self.folder}/programs:/usr/bin:/bin"\n'
            f'STAGE = "{self.folder}"\nMODE = "{mode}"\n'
        )
        started: str = self.project.start("implement", "calc.py", delegator="said", task="Do it.")
        return started

    def begun(self, identifier: str) -> None:
        self.project.until(identifier, lambda found: found.activity == "answering")

    def until_it_waits(self) -> None:
        until((self.folder / "waits").exists)

    def refused(self, kind: ErrorKind, identifier: str, text: str) -> None:
        with pytest.raises(UnderstudyError) as raised:
            self.say(identifier, text)
        assert raised.value.kind is kind
        assert raised.value.hint

    def say(self, identifier: str, text: str) -> str:
        done: str = self.project.call("delegations/say", id=identifier, text=text).delivery
        return done

    def go(self) -> None:
        (self.folder / "go").touch()

    def heard(self) -> list[Any]:
        return [json.loads(line) for line in (self.folder / "heard.jsonl").read_text().splitlines()]

    def messages(self, found: Delegation) -> list[tuple[str, str, bool]]:
        assert found.messages == self.project.call("delegations/get", id=found.id).messages
        return [(one.text, one.delivery, one.delivered) for one in found.messages]


@pytest.fixture
def stage(project: Any, tmp_path: Path) -> Stage:
    return Stage(project, tmp_path / "stage")


@pytest.mark.parametrize("mode", ["steer", "next_turn"])
def test_an_agent_that_takes_messages_gets_them_while_it_works(stage: Stage, mode: str) -> None:
    identifier = stage.start(mode)
    stage.begun(identifier)
    words = 'Keep "é".\n/clear \x01'
    assert stage.say(identifier, words) == "sent"
    stage.go()
    done = stage.project.finish(identifier)
    assert done.error is None
    assert [one["text"] for one in stage.heard()][1:] == [words]
    assert stage.messages(done) == [('Keep "é". /clear \x01', "sent", True)]
    assert len(done.attempts) == 1
    kinds = [type(event) for event in stage.project.events(identifier)]
    assert kinds.index(e.UserMessage) < kinds.index(e.MessageDelivered) < kinds.index(e.Result)


@pytest.mark.parametrize("mode", ["ends", "crash"])
def test_what_the_agent_did_not_read_starts_another_attempt_in_its_session(stage: Stage, mode: str) -> None:
    identifier = stage.start(mode)
    stage.until_it_waits()
    assert stage.say(identifier, "And the empty string.") == "sent"
    stage.go()
    done = stage.project.finish(identifier)
    assert done.error is None
    assert [one.number for one in done.attempts] == [1, 2]
    first, second = stage.heard()
    assert (first["resumed"], second["resumed"]) == (False, True)
    assert "And the empty string." not in first["text"]
    assert second["text"].count("And the empty string.") == 1
    assert stage.messages(done) == [("And the empty string.", "sent", True)]
    assert {file.path for file in done.result.files} == {"work.txt", "more.txt"}


def test_a_message_before_the_start_is_in_the_first_prompt(stage: Stage) -> None:
    stage.project.settings(f'[limits]\nslots = 1\n[environment]\npython = "{sys.executable}"\n')
    busy = stage.start("ends")
    stage.until_it_waits()
    queued = stage.start("nothing")
    assert stage.say(queued, "Use pytest.") == "waiting"
    stage.go()
    stage.project.finish(busy)
    done = stage.project.finish(queued)
    assert "Use pytest." in stage.heard()[-1]["text"]
    assert (stage.messages(done), len(done.attempts)) == ([("Use pytest.", "waiting", True)], 1)


def test_what_a_killed_worker_did_not_deliver_goes_along_with_the_reply(stage: Stage) -> None:
    identifier = stage.start("ends")
    stage.until_it_waits()
    assert stage.say(identifier, "First words.") == "sent"
    folder = delegation_folder.open_folder(identifier)
    holder = worker_files.read_holder(folder)
    assert holder is not None
    os.kill(holder.identity.pid, SIGKILL)
    # One that the worker never read.
    worker_files.append_request(folder, worker_files.Say(message_id="m-2", text="Second words.", by="cli"))
    done = stage.project.finish(identifier)
    assert done.verdict == "interrupted"
    assert stage.messages(done) == [("First words.", "kept", False)]
    stage.refused(ErrorKind.CONFLICT, identifier, "Too late.")
    stage.go()
    reply = stage.project.call("delegations/reply", id=identifier, text="Now go on.").id
    stage.project.finish(reply)
    prompt = stage.heard()[-1]["text"]
    said = [prompt.count(words) for words in ("First words.", "Second words.", "Now go on.", "Too late.")]
    assert said == [1, 1, 1, 0]
    after = stage.project.call("delegations/get", id=identifier)
    assert stage.messages(after) == [("First words.", "kept", True), ("Second words.", "kept", True)]


def test_an_agent_without_a_session_leaves_the_message_to_the_reply(project: Any, tmp_path: Path) -> None:
    project.program(
        "plain",
        f"""
        say(type="text", text="Working.")
        while not pathlib.Path({str(tmp_path / "go")!r}).exists(): time.sleep(0.01)
        pathlib.Path("work.txt").write_text(sys.argv[-1] if len(sys.argv) > 1 else sys.stdin.read())
        say(type="result", ok=True)
        """,
    )
    identifier = project.start("implement", "calc.py", delegator="plain", task="Do it.")
    project.until(identifier, lambda found: found.activity == "Working.")
    assert project.call("delegations/say", id=identifier, text="More, please.").delivery == "waiting"
    (tmp_path / "go").touch()
    done = project.finish(identifier)
    assert [(one.delivery, one.delivered) for one in done.messages] == [("kept", False)]
    assert len(done.attempts) == 1
    assert any(
        "part of your next reply" in event.text for event in project.events(identifier) if isinstance(event, e.Note)
    )
    reply = project.finish(project.call("delegations/reply", id=identifier, text="Go on.").id)
    prompt = project.call("delegations/logs", id=reply.id).prompt
    assert (prompt.count("More, please."), prompt.count("Go on.")) == (1, 1)


def test_messages_are_bounded_and_leave_room_for_a_cancel(stage: Stage) -> None:
    identifier = stage.start("ends")
    stage.until_it_waits()
    stage.refused(ErrorKind.INPUT_EMPTY, identifier, " \n")
    stage.refused(ErrorKind.INVALID_PARAMS, identifier, "é" * (32 * 1024 + 1))
    folder = delegation_folder.open_folder(identifier)
    sizes = []

    def fill() -> None:
        while len(sizes) < 100:
            item = worker_files.Say(message_id=f"m-{len(sizes)}", text="\x01" * 64 * 1024, by="cli")
            worker_files.append_request(folder, item)
            sizes.append(folder.control.stat().st_size)

    with pytest.raises(UnderstudyError, match="as many messages"):
        fill()
    assert len(sizes) > 4
    assert sizes[-1] < worker_files.LARGEST_REQUESTS / 2
    assert stage.project.call("delegations/cancel", id=identifier).verdict == "cancelled"


def test_no_more_messages_are_taken_than_a_summary_keeps(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent_conversation.MOST_MESSAGES < fold.MOST_ATTEMPTS
    monkeypatch.setattr(agent_conversation, "MOST_MESSAGES", 2)
    identifier = stage.start("ends")
    stage.until_it_waits()
    for text in ("One.", "Two."):
        stage.say(identifier, text)
    stage.refused(ErrorKind.INVALID_PARAMS, identifier, "Three.")
    stage.project.call("delegations/cancel", id=identifier)


@pytest.mark.heavy
def test_an_agent_that_reads_no_words_refuses_them(project: Any) -> None:
    identifier = project.start("tests", "calc.py", delegator="ghostwriter")
    with pytest.raises(UnderstudyError) as raised:
        project.call("delegations/say", id=identifier, text="Be careful.")
    assert raised.value.kind is ErrorKind.INVALID_PARAMS
    assert raised.value.hint
    project.finish(identifier)
