"""Test the server before its features are loaded: its capabilities, its imports, and the order of its answers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder

from understudy.api import method_table
from understudy.api.method_table import PROTOCOL_VERSION
from understudy.frontends.lsp import pygls_server, session
from understudy.frontends.lsp.editor.client import Client


def test_the_declared_capabilities_are_those_that_pygls_derives_from_the_features():
    converter = pygls_server.prepare()
    server = pygls_server.PyglsServer(Client(), converter)
    features = {
        *server.protocol.fm.features,
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CLOSE,
        types.TEXT_DOCUMENT_DID_SAVE,
    }
    built = ServerCapabilitiesBuilder(
        types.ClientCapabilities(),
        features,
        {
            types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(
                code_action_kinds=list(session.CODE_ACTION_KINDS), resolve_provider=False
            ),
        },
        [*(method_table.PREFIX + name for name in method_table.METHODS), *server.protocol.fm.commands],
        types.TextDocumentSyncKind.Incremental,
        None,
        "utf-16",
    ).build()
    declared = session.initialize_result("utf-16")["capabilities"]
    ours = {"workspace", "experimental"}
    derived = converter.unstructure(built)
    assert _plain({key: value for key, value in declared.items() if key not in ours}) == _plain(
        {key: value for key, value in derived.items() if key not in ours}
    )
    structured = converter.structure(declared, types.ServerCapabilities)
    assert converter.unstructure(structured).keys() == declared.keys()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def test_the_answer_to_initialize_needs_no_lsprotocol():
    """A plain pygls server spends most of the time until this answer on the import of lsprotocol."""
    program = textwrap.dedent("""
        import asyncio, os, sys
        from understudy.frontends.lsp import server
        from understudy.frontends.lsp.transport import framing
        reading, client = os.pipe()
        answers, writing = os.pipe()
        os.write(client, framing.frame(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'))
        os.close(client)
        asyncio.run(server.Server().serve(reading, writing))
        assert b'"capabilities"' in os.read(answers, 1 << 16)
        print([name for name in ("lsprotocol", "pygls", "cattrs", "attrs") if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def slow_editor(start_editor: Any, tmp_path: Path) -> Any:
    """Start a server that waits for the file ``go`` before it imports lsprotocol."""
    folder = tmp_path / "slow" / "lsprotocol"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        textwrap.dedent(f"""
            import pathlib, time
            until = time.monotonic() + 60
            while not pathlib.Path({str(tmp_path / "go")!r}).exists() and time.monotonic() < until:
                time.sleep(0.01)
            import importlib.metadata
            __path__.append(str(importlib.metadata.distribution("lsprotocol").locate_file("lsprotocol")))
        """),
        encoding="utf-8",
    )
    editor = start_editor(cold=True, env={**os.environ, "PYTHONPATH": str(folder.parent)})
    editor.go = (tmp_path / "go").touch
    return editor


def test_the_contract_is_served_while_the_features_are_loaded(slow_editor: Any, tmp_path: Path):
    slow_editor.begin(tmp_path)
    assert slow_editor.ask("understudy/version")["protocolVersion"] == PROTOCOL_VERSION
    uri = slow_editor.open(tmp_path / "a.py", "x")
    assert slow_editor.ask("understudy/delegations/list")["delegations"] == []
    asked = slow_editor.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    slow_editor.go()
    assert slow_editor.result_of(asked) == []


def test_messages_keep_their_order_around_a_request_that_waits_for_the_features(slow_editor: Any, tmp_path: Path):
    """Later messages must not overtake a standard request: a change would give it another text."""
    slow_editor.begin(tmp_path)
    uri = slow_editor.open(tmp_path / "a.py", "x")
    lenses = {"textDocument": {"uri": uri}}
    asked = [slow_editor.request("textDocument/codeLens", lenses) for _ in range(3)]
    asked.append(slow_editor.request("understudy/no/such"))
    asked.append(slow_editor.request("textDocument/codeLens", {}))
    slow_editor.notify("$/cancelRequest", {"id": asked[0]})
    slow_editor.go()
    for one in asked:
        assert slow_editor.response_to(one)
    answered = [message["id"] for message in slow_editor.heard[1:] if "method" not in message]
    assert sorted(answered) == sorted(asked)
    assert slow_editor.leave() == 0


def test_the_features_know_what_was_opened_and_started_before_they_were_loaded(slow_editor: Any, workshop: Any):
    config = workshop.config / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    agent = workshop.agent("quick", {"type": "text", "text": "done"})
    slow_editor.begin(workshop.top)
    uri = slow_editor.open(config, "nonsense = 1\n", language="toml")
    start = {"recipe": "ask", "task": "what is it", "delegator": agent}
    identifier = slow_editor.ask("understudy/delegations/start", start)["id"]
    slow_editor.go()
    slow_editor.wait_for_method("textDocument/publishDiagnostics", lambda p: p["uri"] == uri and p["diagnostics"])
    ended = lambda p: "what is it" in p["message"]  # noqa: E731
    assert slow_editor.wait_for_method("window/showMessage", ended)
    assert identifier


@pytest.mark.parametrize("subscribes", [True, False])
def test_a_client_that_reads_before_it_subscribes_learns_of_the_changes_in_between(
    editor: Any, workshop: Any, subscribes: bool
):
    editor.begin(workshop.top, options={"subscribes": subscribes})
    names = [entry["delegator"]["name"] for entry in editor.ask("understudy/delegators/list")["delegators"]]
    workshop.agent("late", "liar")
    assert "late" not in names
    editor.ask("understudy/delegations/subscribe")
    editor.wait_for_method("understudy/changed", lambda params: "delegators" in params["collections"])


@pytest.mark.parametrize("politely", [True, False])
def test_a_session_may_end_while_the_features_are_loaded(slow_editor: Any, politely: bool):
    slow_editor.begin()
    if politely:
        assert slow_editor.ask("shutdown") is None
    slow_editor.notify("exit", None)
    slow_editor.go()
    assert slow_editor.process.wait(60) == (0 if politely else 1)
    assert slow_editor.errors == b""


def test_the_end_of_the_stream_while_a_request_waits_for_the_features(slow_editor: Any, tmp_path: Path):
    slow_editor.begin(tmp_path)
    slow_editor.request("textDocument/codeLens", {})
    slow_editor.process.stdin.close()
    slow_editor.go()
    assert slow_editor.process.wait(60) == 1
    assert slow_editor.errors == b""


def test_a_notification_sent_as_a_request_is_an_unknown_method(editor: Any):
    """pygls has handlers for some of them, which would keep a second copy of every document."""
    editor.begin()
    for method in ("textDocument/didOpen", "initialized", "exit", "$/setTrace", "notebookDocument/didOpen"):
        assert editor.response_to(editor.request(method, {}))["error"]["code"] == -32601
    assert editor.ask("understudy/version")["protocolVersion"] == PROTOCOL_VERSION


def test_an_installation_without_lsprotocol_ends_with_an_error(start_editor: Any, tmp_path: Path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "lsprotocol.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    editor = start_editor(cold=True, env={**os.environ, "PYTHONPATH": str(tmp_path / "broken")})
    editor.begin()
    assert editor.process.wait(60) == 1
    editor.close()
    assert b"not installed" in editor.errors
