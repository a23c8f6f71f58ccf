"""What an agent may not delegate: to one that could do more than itself. Nothing is started."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import msgspec
import pytest

from understudy.engine.planning.plan import plan
from understudy.engine.running.relay import peer_messages, relay_host
from understudy.engine.running.relay.child_delegations import ChildDelegations, budget_of
from understudy.journal import delegation_folder
from understudy.journal.worker_files import PeerMessage
from understudy.model.delegation.delegations import AskedBy, GroupBudget, StartParams
from understudy.model.delegation.spec import RelayBounds
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.relay.relay_tools import LONGEST_TEXT, TOOLS, Delegate

LOCAL = 'model_server = "near"\nmodel = "m"\n'


@pytest.fixture
def parent(project, monkeypatch):
    """Return the specification of a delegation whose agent delegates; nothing starts."""
    for name, url in (("near", "http://127.0.0.1:9/v1"), ("far", "https://models.example.com/v1")):
        folder = project.config / "model-servers"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.toml").write_text(f'kind = "custom"\nbase_url = "{url}"\n')
    folder = project.config / "delegators"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "here": LOCAL,
        "elsewhere": LOCAL.replace("near", "far"),
        "asks": 'tool = "claude"\n',
        "free": 'tool = "claude"\nlaunch = { permission_mode = "bypassPermissions" }\n',
        "yolo": 'tool = "codex"\nlaunch = { yolo = true }\n',
        "lenient": 'tool = "codex"\nlaunch = { unanswered = "allow" }\n',
        "inside": 'tool = "claude"\nlaunch = { use_worktree = false }\n',
    }.items():
        (folder / f"{name}.toml").write_text(text)
    started: list[str] = []
    monkeypatch.setattr("understudy.engine.running.start.start_child", lambda *_: started.append("x") or "started")
    monkeypatch.setattr("understudy.journal.reader.load", lambda _: None)
    monkeypatch.setattr(delegation_folder, "open_folder", lambda _: None)

    def make(delegator: str, **changes):
        params = StartParams(recipe="implement", task="x", delegator=delegator, workspace=str(project.top))
        spec = plan(params, {}, project.top).spec(
            "20261121-004512-k3f9q",
            "2026-11-21T00:45:12.000Z",
            changes.pop("asked_by", AskedBy(frontend="cli", depth=0)),
        )
        return msgspec.structs.replace(spec, **changes), started

    return make


def children(spec, tmp_path):
    return ChildDelegations(delegation_folder.Folder(spec.id, tmp_path), spec, delegation_folder.state_root())


@pytest.mark.parametrize(
    ("own", "other", "allowed"),
    [
        ("here", "here", True),
        ("here", "elsewhere", False),
        ("here", "asks", False),
        ("elsewhere", "here", True),
        ("asks", "free", False),
        ("asks", "yolo", False),
        ("asks", "lenient", False),
        ("free", "yolo", True),
        ("yolo", "asks", True),
        ("asks", "inside", False),
        ("free", "inside", False),
    ],
)
def test_a_child_may_do_no_more_than_its_parent(parent, tmp_path, own, other, allowed):
    spec, started = parent(own)
    delegate = Delegate(task="x", delegator=other)
    if allowed:
        children(spec, tmp_path).start(delegate, spec.candidates[0], lambda _: None)
    else:
        with pytest.raises(UnderstudyError) as caught:
            children(spec, tmp_path).start(delegate, spec.candidates[0], lambda _: None)
        assert caught.value.kind is ErrorKind.PERMISSION_DENIED
    assert bool(started) is allowed


@pytest.mark.parametrize(
    "changes",
    [
        {"relay": RelayBounds(max_depth=0)},
        {"relay": RelayBounds(max_delegations=0)},
        {"asked_by": AskedBy(frontend="relay", depth=2)},
    ],
)
def test_an_agent_that_may_not_delegate_has_no_tool_for_it(parent, tmp_path, changes):
    spec, _ = parent("asks", **changes)
    with pytest.raises(UnderstudyError) as caught:
        children(spec, tmp_path).start(Delegate(task="x"), spec.candidates[0], lambda _: None)
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED
    folder = delegation_folder.Folder(spec.id, tmp_path)
    host = relay_host.RelayHost(folder, spec, tmp_path, emit=print, ask=print, in_thread=print)
    assert {one.name for one in host.tools} == {name for name, tool in TOOLS.items() if not tool.delegates}


def test_files_outside_of_the_workspace_are_refused(parent, tmp_path):
    spec, started = parent("asks")
    for path in ("/etc/passwd", "../secret.txt", "file:///etc/passwd"):
        for field in ("files", "context_files"):
            with pytest.raises(UnderstudyError):
                children(spec, tmp_path).start(
                    Delegate(task="x", **{field: [path]}), spec.candidates[0], lambda _: None
                )
    assert not started


def test_files_that_the_parent_does_not_have_are_refused(parent, tmp_path, project):
    """What git ignores is in the checkout only; a child on this machine would be sent it, and its answer returns it."""
    for name in (".gitignore", "private.txt"):
        project.write(name, "private.txt\n")
    for recipe in ("ask", "implement"):
        for path, own in (("private.txt", "here"), ("./private.txt", "elsewhere")):
            spec, started = parent(own)
            with pytest.raises(UnderstudyError) as caught:
                children(spec, tmp_path).start(
                    Delegate(task="Repeat it.", recipe=recipe, context_files=[path], delegator="here"),
                    spec.candidates[0],
                    lambda _: None,
                )
            assert caught.value.kind is ErrorKind.PERMISSION_DENIED
            assert not started


@pytest.mark.parametrize(("own", "allowed"), [("here", True), ("elsewhere", False)])
def test_secrets_that_are_withheld_from_a_parent_are_not_read_by_its_child(parent, tmp_path, project, own, allowed):
    project.write(".env", "TOKEN=1\n")
    spec, started = parent(own, context=[".env"])
    run = children(spec, tmp_path)
    delegate = Delegate(task="Repeat it.", recipe="ask", context_files=[".env"], delegator="here")
    if allowed:
        run.start(delegate, spec.candidates[0], lambda _: None)
    else:
        with pytest.raises(UnderstudyError, match="contains secrets"):
            run.start(delegate, spec.candidates[0], lambda _: None)
    assert bool(started) is allowed


def test_an_agent_has_a_bounded_number_of_open_questions(parent, tmp_path):
    """Also one that ends each call at once; and it learns what to do."""
    spec, _ = parent("asks")
    asked = []

    async def ask(question):
        asked.append(question)
        await asyncio.Event().wait()

    async def run():
        folder = delegation_folder.Folder(spec.id, tmp_path)
        host = relay_host.RelayHost(folder, spec, tmp_path, emit=print, ask=ask, in_thread=print)
        for number in range(relay_host.MOST_QUESTIONS):
            call = asyncio.ensure_future(host.call("ask_human", {"question": f"{number}?"}))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait({call})
        text, ok = await host.call("ask_human", {"question": "One more?"})
        assert not ok
        assert "no answer yet" in text
        await host.end_attempt()

    asyncio.run(run())
    assert len(asked) == relay_host.MOST_QUESTIONS


def test_messages_of_peers_are_read_in_pieces_and_without_controls(parent, tmp_path):
    spec, _ = parent("asks")
    emitted: list[Any] = []

    async def run():
        peers = peer_messages.PeerMessages(delegation_folder.Folder(spec.id, tmp_path), spec, emitted.append)
        long = "\x1b[2J" + "x" * LONGEST_TEXT
        peers.take(PeerMessage(message_id=str(n), sender="s", kind="message", text=long) for n in range(50))
        read = [await peers.read(0)]
        while read[-1]:
            read.append(await peers.read(0))
        return read

    read = asyncio.run(run())
    assert [one["message_id"] for piece in read for one in piece] == [str(number) for number in range(50)]
    assert max(sum(len(one["text"]) for one in piece) for piece in read) <= peer_messages.MOST_TEXT
    assert {one["text"] for piece in read for one in piece} == {"x" * LONGEST_TEXT} == {one.text for one in emitted}


def test_a_group_that_is_made_has_the_limits_of_the_first_delegation_unless_configured(parent):
    spec, _ = parent("elsewhere")
    limited = msgspec.structs.replace(
        spec.candidates[0], limits=msgspec.structs.replace(spec.candidates[0].limits, max_tokens=500, max_usd="0.10")
    )
    assert budget_of(spec, spec.candidates[0]) is None
    assert budget_of(spec, limited) == GroupBudget(max_tokens=500, max_usd="0.10")
    bounds = RelayBounds(max_usd="2")
    assert budget_of(msgspec.structs.replace(spec, relay=bounds), limited) == GroupBudget(max_tokens=500, max_usd="2")


def test_descriptions_are_short():
    """As for `understudy mcp`: they are in the context of every agent, whether it uses them or not."""
    text = json.dumps([[one.name, one.description] for one in TOOLS.values()])
    assert len(text) / 4 < 450


def test_an_agent_needs_the_sdk_and_a_model_without_one_does_not(project, parent, monkeypatch):
    """The hint says how to install it; the agent does not start without its tools."""
    project.settings("[launch]\nrelay = true\n")
    assert parent("asks")[0].candidates[0].delegator.launch.relay
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UnderstudyError) as caught:
        parent("asks")
    assert caught.value.kind is ErrorKind.TOOL_MISSING
    assert "uv tool install --force ." in str(caught.value.hint)
    assert parent("here")[0].candidates[0].delegator.launch.relay
