"""An agent asks the user, reports progress, delegates and talks to its peers, through real MCP."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import psutil
import pytest

from understudy.engine.running.relay import relay_host
from understudy.journal import delegation_folder
from understudy.model.delegation import events as e
from understudy.model.errors import ErrorKind, UnderstudyError

QUICK = 'sys.stdin.read()\npathlib.Path("new.txt").write_text("made\\n")\nsay(type="result", ok=True, text="Done.")'


def ask(question: str, *choices: str):
    return {"call": "ask_human", "arguments": {"question": question, "choices": list(choices)}}


def delegate(task: str, delegator: str, **more):
    return {"call": "delegate", "arguments": {"task": task, "delegator": delegator, **more}}


ANSWERS = (
    ({"option": "text", "note": "sqlite"}, {"status": "answered", "answer": "sqlite"}),
    ({"option": "choice2"}, {"status": "answered", "answer": "b"}),
    ({"option": "choice1", "note": "old"}, {"status": "answered", "answer": "a", "note": "old"}),
)


@pytest.mark.parametrize(
    ("given", "answer"), [ANSWERS[0], *(pytest.param(*row, marks=pytest.mark.heavy) for row in ANSWERS[1:])]
)
def test_a_question_waits_for_the_user(project, relayed, said, given, answer):
    relayed("inquirer", [ask("Which database?", "a", "b")])
    identifier = project.start("implement", delegator="inquirer", task="x")
    asking = project.until(identifier, lambda one: one.waiting_for is not None).waiting_for
    assert (asking.title, asking.kind, asking.deadline_action) == ("Which database?", "question", "decline")
    assert [(one.title, one.takes_text) for one in asking.options] == [
        ("a", False), ("b", False), ("Answer with a text", True), ("Do not answer", False)
    ]  # fmt: skip
    project.call("delegations/answer", id=identifier, requestId=asking.request_id, **given)
    project.finish(identifier)
    assert [one["answer"] for one in said(identifier)] == [answer]
    assert not (delegation_folder.open_folder(identifier).path / "relay").exists()


@pytest.mark.heavy
def test_an_answer_with_a_text_needs_one(project, relayed):
    relayed("inquirer", [ask("Which database?")])
    identifier = project.start("implement", delegator="inquirer", task="x")
    asking = project.until(identifier, lambda one: one.waiting_for is not None).waiting_for
    for note in ({}, {"note": "  "}):
        with pytest.raises(UnderstudyError) as caught:
            project.call("delegations/answer", id=identifier, requestId=asking.request_id, option="text", **note)
        assert caught.value.kind is ErrorKind.INVALID_PARAMS
    project.call("delegations/cancel", id=identifier)
    [end] = [event for event in project.events(identifier) if isinstance(event, e.PermissionAnswered)]
    assert (end.option, end.by) == ("decline", "withdrawn")  # english: allow withdrawn - a wire value


@pytest.mark.heavy
def test_a_question_that_no_one_answers_is_declined_at_its_deadline(project, relayed, said):
    relayed("inquirer", [ask("Anyone?")], extra="[limits]\nanswer_seconds = 1\nidle_seconds = 3600\n")
    identifier = project.run("implement", delegator="inquirer", task="x").id
    [made] = said(identifier)
    assert made["answer"]["status"] == "unanswered"


@pytest.mark.heavy
def test_a_question_suspends_the_idle_limit(project, relayed, said):
    relayed(
        "inquirer", [ask("Anyone?")], extra="[limits]\nanswer_seconds = 5\nidle_seconds = 2\nfirst_event_seconds = 60\n"
    )
    done = project.run("implement", delegator="inquirer", task="x")
    assert done.error is None
    assert [one["answer"]["status"] for one in said(done.id)] == ["unanswered"]


@pytest.mark.heavy
def test_progress_is_an_event(project, relayed, said):
    relayed(
        "reporter",
        [{"call": "report_progress", "arguments": {"text": "parsing\n\x1b[1mfiles", "done": 3, "total": 10}}],
    )
    identifier = project.run("implement", delegator="reporter", task="x").id
    phases = [event.text for event in project.events(identifier) if isinstance(event, e.Phase)]
    [shown] = [text for text in phases if text.startswith("reports: ")]
    assert shown.endswith("(3 of 10)")
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert [one["ok"] for one in said(identifier)] == [True]


def test_an_agent_delegates_from_its_own_base_and_reads_the_result(project, relayed, said):
    project.write("unsaved.txt", "uncommitted\n")
    project.program("quick", QUICK)
    wait = {"call": "wait", "arguments": {"id": "@child@"}}
    diff = {"call": "diff", "arguments": {"id": "@child@"}}
    relayed("boss", [ask("Go?"), delegate("Make a file", "quick", files=["calc.py", "unsaved.txt"]), wait, diff])
    parent = project.start("implement", delegator="boss", task="x")
    asking = project.until(parent, lambda one: one.waiting_for is not None).waiting_for
    project.write("calc.py", "changed = True\n")  # after the parent began
    project.call("delegations/answer", id=parent, requestId=asking.request_id, option="text", note="yes")
    done = project.finish(parent)
    _, started, waited, patch = said(parent)
    assert started["answer"]["status"] == "running"
    assert waited["answer"]["files"] == ["added new.txt"]
    assert "+made" in patch["answer"]
    child = project.call("delegations/get", id=started["answer"]["id"])
    assert (child.asked_by.frontend, child.asked_by.parent, child.asked_by.depth) == ("relay", parent, 1)
    assert child.base == done.base
    assert child.parent_id is None
    assert (child.group_id, project.call("groups/get", id=child.group_id).kind) == (done.group_id, "relay")
    members = project.call("delegations/list", groupId=child.group_id).delegations
    assert {one.id for one in members} == {parent, child.id}
    assert child.review.pending == 1, "the user decides"
    assert not (project.top / "new.txt").exists()


@pytest.mark.heavy
def test_an_agent_sees_only_its_own_delegations(project, relayed, said):
    project.program("quick", QUICK)
    other = project.run("implement", delegator="quick", task="private").id
    calls = [{"call": name, "arguments": {"id": other}} for name in ("show", "wait", "diff", "cancel")]
    relayed("curious", [*calls, {"call": "accept", "arguments": {"id": other}}])
    identifier = project.run("implement", delegator="curious", task="x").id
    made = said(identifier)
    assert [one["ok"] for one in made] == [False] * 5
    assert all("private" not in str(one["answer"]) for one in made)


@pytest.mark.heavy
def test_peers_talk(project, relayed, said):
    """The parent asks its child, which answers; a broadcast and a message arrive, too."""
    read = {"call": "messages", "arguments": {"wait_seconds": 5}, "until": "messages"}
    reply = {"call": "reply", "arguments": {"message_id": "@message@", "text": "Forty-two."}}
    broadcast = {"call": "broadcast", "arguments": {"text": "Hello, all."}}
    peers = {"call": "peers", "until": "peers"}
    relayed(
        "child", [read, reply, peers, {"call": "message", "arguments": {"to": "@peer@", "text": "Bye."}}, broadcast]
    )
    talk = {"call": "ask", "arguments": {"to": "@peer@", "text": "How many?"}}
    relayed("boss", [delegate("Answer me", "child"), peers, talk, read, {**read, "until": None}])
    parent = project.run("implement", delegator="boss", task="x").id
    started, listed, asked, *heard = said(parent)
    child = started["answer"]["id"]
    assert [(one["id"], one["is"]) for one in listed["answer"]["peers"]] == [(child, "child")]
    assert asked["answer"]["answer"] == "Forty-two."
    texts = [(one["from"], one["kind"], one["text"]) for each in heard for one in each["answer"]["messages"]]
    assert texts == [(child, "message", "Bye."), (child, "broadcast", "Hello, all.")]
    messages = [event for event in project.events(child) if isinstance(event, e.AgentMessage)]
    assert [(one.sender, one.kind, one.text) for one in messages] == [(parent, "ask", "How many?")]


def test_no_one_else_can_use_the_tools(project, relayed):
    """Another process of the user, with the token, is not the agent."""
    relayed("inquirer", [ask("Wait.")])
    identifier = project.start("implement", delegator="inquirer", task="x")
    project.until(identifier, lambda one: one.waiting_for is not None)
    folder = _folder_of(identifier)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        ("socket", "token", "mcp.json"), 0o600
    )
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(relay_host.HELLO_SECONDS / 2)
        link.connect(str(folder / "socket"))
        # Before it says anything: whatever it holds a connection for, it holds none.
        assert json.loads(link.makefile().readline()) == {"ok": False, "text": "These tools belong to another agent."}
    project.call("delegations/cancel", id=identifier)
    assert not folder.exists()


def _folder_of(identifier: str) -> Path:
    """Return the folder of the socket, which the agent's MCP server names."""
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if "--relay" in line and identifier in process.environ().values():
                return Path(line[-1])
        except (psutil.Error, OSError):
            continue
    raise AssertionError(identifier)
