"""Test what each frontend writes into a specification about the client that asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from understudy.api.caller import describe_asker
from understudy.journal import delegation_folder
from understudy.model.delegation.delegations import AskedBy

TASK = {"recipe": "implement", "task": "x"}


def written(identifier: str) -> AskedBy:
    return delegation_folder.read_spec(delegation_folder.open_folder(identifier)).asked_by


def test_every_frontend_names_the_client_that_asked(
    editor: Any, workshop: Any, rpc: Callable[..., Any], monkeypatch: Any
) -> None:
    start = {**TASK, "delegator": workshop.agent("worker", {"text": "done"}), "workspace": str(workshop.top)}
    editor.begin(workshop.top)
    asked = written(editor.ask("understudy/delegations/start", start)["id"])
    assert asked == AskedBy(
        frontend="lsp", client="test 1", pid=os.getpid(), cwd=str(workshop.top), session=None, parent=None, depth=0
    )

    client = rpc(cold=True, cwd=workshop.top, env={**os.environ, "CODEX_THREAD_ID": "thread-7"})
    client.ask(1, "delegations/start", start)
    asked = written(client.next()["result"]["id"])
    assert (asked.frontend, asked.session, asked.cwd) == ("rpc", "thread-7", str(workshop.top))
    assert asked.pid in {os.getpid(), client.process.pid}

    monkeypatch.setenv("CLAUDE_SESSION_ID", "session-3\x1b[31m")
    asked = written(workshop.start("implement", **{key: start[key] for key in ("task", "delegator")}))
    assert (asked.frontend, asked.pid, asked.depth) == ("cli", os.getppid(), 0), "what started the command"
    assert asked.session is not None
    assert asked.session.startswith("session-3")
    assert "\x1b" not in asked.session


def test_an_agent_that_asks_is_the_parent(workshop: Any) -> None:
    """Each level adds one; a value that is not an ID is ignored."""
    outer = workshop.start("implement", task="x", delegator=workshop.agent("worker", {"text": "done"}))

    def asked_in(run: str) -> AskedBy:
        return describe_asker("cli", pid=None, cwd=None, environ={"UNDERSTUDY_DELEGATION": run})

    spec = delegation_folder.open_folder(outer).path / "spec.json"
    assert [(one.parent, one.depth) for one in (asked_in(outer), asked_in("../" + outer))] == [(outer, 1), (None, 0)]
    spec.write_text(spec.read_text().replace('"depth":0', '"depth":1'))
    assert asked_in(outer).depth == 2


def test_a_program_started_by_an_agent_knows_its_delegation(workshop: Any) -> None:
    """The agent's own environment carries the id, so that what it starts through Understudy names its parent."""
    workshop.config.joinpath("delegators").mkdir(parents=True, exist_ok=True)
    workshop.config.joinpath("delegators", "nested.toml").write_text(
        'name = "nested"\ntool = "generic"\n[launch]\noutput = "text"\ncommand = '
        f'["{sys.executable}", "-c", "import os; print(os.environ[\'UNDERSTUDY_DELEGATION\'])"]\n'
    )
    identifier = workshop.start("implement", task="x", delegator="nested")
    assert workshop.call("delegations/wait", id=identifier, timeoutSeconds=30).result.text.strip() == identifier
