"""Test text recipes of an editor: one request of the server's own process, with the text that the editor shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from agent_model_server import ModelServer
from wait_until import until

from understudy.journal import delegation_folder, ledger

RUN = "understudy/text/run"
PROGRESS = "$/progress"
LONG = "word " * 400


@pytest.fixture
def models(workshop: Any) -> Iterator[ModelServer]:
    """Serve models; the default delegator is on ``scholar``."""
    with ModelServer(answers={"scholar": "Because.", "talker": LONG}) as server:
        files = {
            "model-servers/scripted.toml": f'name = "scripted"\nkind = "custom"\nbase_url = "{server.base_url}"\n',
            **{
                f"delegators/{model}.toml": f'name = "{model}"\nmodel_server = "scripted"\nmodel = "{model}"\n'
                for model in ("scholar", "talker", "stall")
            },
            "config.toml": '[defaults]\ndelegator = "scholar"\n',
        }
        for name, text in files.items():
            path = workshop.config / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield server


def sent(models: ModelServer) -> str:
    return str(models.requests[-1].body["messages"][-1]["content"])


def test_unsaved_text_is_asked_about_and_nothing_is_started(workshop: Any, models: ModelServer, editor: Any) -> None:
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py", "def unsaved():\n    return 1\n")
    new = editor.open(workshop.top / "only_in_the_editor.py", "NEW = 1\n")
    params = {
        "recipe": "ask",
        "task": "Why?",
        "files": [uri, new],
        "range": {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 9}},
    }
    preview = editor.ask("understudy/text/preview", params)
    assert not models.requests, "a preview sends nothing"
    answer = editor.ask(RUN, params)
    assert (answer["text"], answer["delegator"], answer["model"]) == ("Because.", "scholar", "scholar")
    assert "unsaved" in sent(models)
    assert "NEW = 1" in sent(models)
    assert "return a + b" not in sent(models), "the file on disk is not what the editor shows"
    assert "# Selected: lines 2 to 2 of `calc.py`" in sent(models)
    assert sent(models) in preview["prompt"]
    assert not list((delegation_folder.state_root() / "delegations").glob("*"))
    (entry,) = ledger.read()
    assert (entry.id, entry.recipe, entry.asked_by.frontend) == (answer["id"], "ask", "lsp")


def test_an_answer_arrives_in_pieces(workshop: Any, models: ModelServer, editor: Any) -> None:
    editor.begin(workshop.top)
    params = {"recipe": "ask", "task": "Why?", "delegator": "talker", "stream": "one", "workspace": str(workshop.top)}
    answer = editor.ask(RUN, params)
    pieces = editor.all_of("understudy/text")
    assert {piece["stream"] for piece in pieces} == {"one"}
    assert "".join(piece["text"] for piece in pieces).strip() == answer["text"].strip() == LONG.strip()
    _ = models


def test_a_cancelled_request_ends_while_the_server_is_silent(workshop: Any, models: ModelServer, editor: Any) -> None:
    editor.begin(workshop.top)
    params = {"recipe": "ask", "task": "Why?", "delegator": "stall", "stream": "one", "workspace": str(workshop.top)}
    identifier = editor.request(RUN, params)
    editor.wait_for_method("understudy/text")
    editor.notify("$/cancelRequest", {"id": identifier})
    assert editor.response_to(identifier)["error"]["data"]["kind"] == "cancelled"
    until(lambda: [entry.verdict for entry in ledger.read()] == ["cancelled"])
    _ = models


def test_a_delegator_with_an_agent_cli_is_refused(workshop: Any, models: ModelServer, editor: Any) -> None:
    workshop.agent("quick", "no_change")
    editor.begin(workshop.top)
    for method in (RUN, "understudy/text/preview"):
        found = editor.response_to(editor.request(method, {"recipe": "ask", "task": "Why?", "delegator": "quick"}))
        assert found["error"]["data"]["kind"] == "config_invalid"
    changes = editor.response_to(editor.request(RUN, {"recipe": "docs", "workspace": str(workshop.top), "task": "x"}))
    assert changes["error"]["data"]["parameter"] == "recipe"
    assert not models.requests


def test_what_is_ignored_or_secret_is_not_sent(workshop: Any, models: ModelServer, editor: Any) -> None:
    workshop.write(".gitignore", "*.log\n")
    workshop.write("src/build.log", "IGNORED\n")
    workshop.write("src/.env", "KEY=1\n")
    workshop.write("src/kept.py", "KEPT = 1\n")
    editor.begin(workshop.top)
    answer = editor.ask(RUN, {"recipe": "summarize", "files": [(workshop.top / "src").as_uri()]})
    assert "KEPT = 1" in sent(models)
    assert not any(word in sent(models) for word in ("IGNORED", "KEY=1"))
    assert any("src/.env is not sent" in note for note in answer["notes"])


def test_an_action_of_any_editor_shows_the_answer(workshop: Any, models: ModelServer, editor: Any) -> None:
    editor.answers["window/showMessageRequest"] = lambda params: params["actions"][0]
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    every = [f"refactor.delegate.{name}" for name in ("ask", "docs", "summarize")]
    actions = {action["title"]: action for action in editor.actions(uri, 0, 0, end=(1, 4), only=every)}
    assert "Answer the question in the selection" in actions
    assert "Delegate documentation for the selection" in actions, "what changes files is delegated"
    chosen = actions["Summarize the selection"]
    assert chosen["command"]["command"] == RUN
    answer = editor.run(chosen)
    shown = editor.wait_for_method("window/showDocument")
    assert shown["takeFocus"] is True
    path = delegation_folder.state_root() / "answers" / f"{answer['id']}.md"
    assert shown["uri"] == path.as_uri()
    assert path.read_text(encoding="utf-8") == "Because."
    asked = editor.wait_for_method("window/showMessageRequest")
    assert asked["message"].startswith("“summarize”: scholar answered in ")
    assert "unknown cost" in asked["message"]
    _ = models


def test_the_progress_of_an_action_cancels_its_request(workshop: Any, models: ModelServer, editor: Any) -> None:
    editor.begin(workshop.top)
    params = {"recipe": "ask", "task": "Why?", "delegator": "stall", "workspace": str(workshop.top)}
    identifier = editor.request("workspace/executeCommand", {"command": RUN, "arguments": [params]})
    begun = editor.wait_for_method(PROGRESS, lambda one: one["value"]["kind"] == "begin")
    assert begun["value"]["cancellable"] is True
    editor.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
    assert editor.response_to(identifier)["error"]["data"]["kind"] == "cancelled"
    editor.wait_for_method(PROGRESS, lambda one: one["value"]["kind"] == "end")
    assert not (delegation_folder.state_root() / "answers").exists()
    _ = models
