"""Test ``initializationOptions.review: false``: the client gets everything except messages about results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from understudy.journal import delegation_folder

SAY = "window/showMessage"
ASK = "window/showMessageRequest"
SHOWN = "textDocument/publishDiagnostics"
DECIDE = "understudy/delegations/decide"
EXTENSION = {"trusted": True, "review": False, "subscribes": True}
"""The options that the VS Code extension sends."""


@pytest.fixture
def reviewed(workshop: Any) -> Any:
    """A project with a finished delegation: two hunks in one file, and a new one."""
    lines = [f"line {number}\n" for number in range(1, 31)]
    workshop.write("text.txt", "".join(lines))
    workshop.git("add", "-A")
    workshop.git("commit", "-qm", "more")
    lines[4], lines[19] = "five\n", "twenty\n"
    workshop.agent(
        "writer",
        {"write": "text.txt", "text": "".join(lines)},
        {"write": "new.txt", "text": "new\n"},
        {"result": True},
    )
    workshop.id = workshop.start("implement", "text.txt", task="Number them.", delegator="writer")
    assert workshop.call("delegations/wait", id=workshop.id, timeoutSeconds=60).review.pending == 3
    workshop.file = (workshop.top / "text.txt").as_uri()
    workshop.broken = workshop.config / "config.toml"
    workshop.broken.write_text('[defaults]\ndelegator = "missing"\n', encoding="utf-8")
    return workshop


class Morning:
    """The same session for every editor: open a review and a file of it, read and edit them, decide."""

    def __init__(self, workshop: Any, editor: Any, options: dict[str, Any], decides: int) -> None:
        self.workshop, self.editor = workshop, editor
        self.greeting = editor.begin(workshop.top, options=options)
        if options.get("subscribes"):
            editor.ask("understudy/delegations/subscribe", {})
        self.review = editor.open(delegation_folder.open_folder(workshop.id).review, language="diff")
        self.file = editor.open(workshop.top / "text.txt", language="plaintext")
        if options["review"]:
            self.told(self.review, 3)
            self.told(self.file, 2)
        self.settled(1)
        text = Path(delegation_folder.open_folder(workshop.id).review).read_text(encoding="utf-8").split("\n")
        self.line = text.index("-line 5")
        self.lenses = [self.on(uri, "textDocument/codeLens") for uri in (self.review, self.file)]
        places = ((self.review, self.line), (self.file, 4))
        self.actions = [action for place in places for action in editor.actions(*place)]
        self.fixes = [action for place in places for action in editor.actions(*place, only=["quickfix.review"])]
        at = {"line": self.line + 1, "character": 0}
        editor.change(self.review, 2, {"range": {"start": at, "end": at}, "text": "> Spell it out.\n"})
        self.settled(2)
        file = next(f for f in workshop.call("delegations/diff", id=workshop.id).files if f.path == "text.txt")
        decision = {"path": "text.txt", "hunk": file.hunks[decides].id, "decision": "reject", "reason": "no"}
        given = {"command": DECIDE, "arguments": [{"id": workshop.id, "decisions": [decision]}]}
        self.decided = editor.ask("workspace/executeCommand", given)
        if options["review"]:
            self.told(self.file, 1)
        wrong = {"command": "understudy/delegations/undo", "arguments": [{"undoToken": f"{workshop.id}.gone"}]}
        with pytest.raises(Exception, match="has no accept"):
            editor.ask("workspace/executeCommand", wrong)
        self.settled(3)

    def on(self, uri: str, method: str) -> Any:
        return self.editor.ask(method, {"textDocument": {"uri": uri}})

    def told(self, uri: str, count: int) -> None:
        self.editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and len(p["diagnostics"]) == count)

    def settled(self, version: int) -> None:
        """Wait for the diagnostics of another document: their delay after an edit is the same as in a review."""
        uri, mark = self.workshop.broken.as_uri(), self.editor.mark()
        text = f'[defaults]\ndelegator = "missing{version}"\n'
        if version == 1:
            self.editor.open(self.workshop.broken, text, language="toml")
        else:
            self.editor.change(uri, version, {"text": text})
        wanted = f"missing{version}"
        self.editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and wanted in json.dumps(p), after=mark)

    def end(self) -> list[dict[str, Any]]:
        """Shut the server down; return all messages that it has sent."""
        for uri in (self.review, self.file):
            self.editor.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert self.editor.leave() == 0
        self.editor.close()
        return [message for message in self.editor.heard if "method" in message]


@pytest.mark.parametrize("options", [{"review": False, "trusted": True}, EXTENSION])
def test_a_client_that_shows_results_itself_gets_no_hunks_from_the_server(
    reviewed: Any, start_editor: Any, options: dict[str, Any]
) -> None:
    shown = Morning(reviewed, start_editor(), {**options, "review": True}, decides=1)
    assert len(shown.lenses[0]) > 2
    assert {action["title"] for action in shown.fixes} >= {"Accept this hunk", "Reject this hunk"}
    assert any(message["method"] == SAY and "has no accept" in message["params"]["message"] for message in shown.end())

    own = Morning(reviewed, start_editor(), options, decides=0)
    heard = own.end()
    assert {message["params"]["uri"] for message in heard if message["method"] == SHOWN} == {reviewed.broken.as_uri()}
    assert {message["method"] for message in heard} <= {SHOWN, "understudy/changed", "understudy/event"}
    assert "quickfix.review" not in json.dumps(heard)
    assert (own.lenses, own.fixes) == ([[], []], [])

    # Everything else is as in other editors, and the client can still decide.
    assert own.greeting == shown.greeting
    assert own.actions == [one for one in shown.actions if not one["kind"].startswith("quickfix.review")] != []
    assert own.decided.keys() == shown.decided.keys()
    assert reviewed.call("delegations/get", id=reviewed.id).review.rejected == 2


def test_the_end_is_reported_without_a_review_to_open(reviewed: Any, editor: Any) -> None:
    editor.begin(reviewed.top, options={"review": False}, clientInfo={"name": "Visual Studio Code"})
    reviewed.broken.unlink()
    mark = editor.mark()
    params = {"recipe": "implement", "files": [reviewed.file], "task": "Again.", "delegator": "writer"}
    editor.ask("workspace/executeCommand", {"command": "understudy/delegations/start", "arguments": [params]})
    assert "3 changes wait" in editor.wait_for_method(SAY, after=mark)["message"]
    assert editor.leave() == 0
    editor.close()
    assert not editor.all_of(ASK)
    assert not editor.all_of("window/showDocument")
