"""A result is reviewed in any editor: on ``review.diff``, and in the files that are open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.journal import store

DECIDE = "understudy/delegations/decide"
REPLY = "understudy/delegations/reply"
UNDO = "understudy/delegations/undo"
SAY = "window/showMessage"
SHOWN = "textDocument/publishDiagnostics"
LINES = "".join(f"line {number}\n" for number in range(1, 41))
PLAIN: dict[str, Any] = {"window": {}, "workspace": {}, "textDocument": {}}
"""What an editor declares that can do next to nothing."""


def changed(*changes: tuple[int, str]) -> str:
    lines = LINES.splitlines(keepends=True)
    for number, text in changes:
        lines[number - 1] = text
    return "".join(lines)


RESULT = changed((5, "five\n"), (20, "twenty\n"), (35, "thirty-five\n"))


class Buffers:
    """The documents of an editor that does what ``workspace/applyEdit`` asks."""

    def __init__(self, editor: Any) -> None:
        self.editor = editor
        self.texts: dict[str, list[str]] = {}
        self.versions: dict[str, int] = {}
        self.asked: list[dict[str, Any]] = []
        editor.answers["workspace/applyEdit"] = self.apply

    def open(self, path: Path, text: str | None = None, language: str = "plaintext") -> str:
        found = path.read_text(encoding="utf-8") if text is None else text
        uri = self.editor.open(path, found, language=language)
        self.texts[uri], self.versions[uri] = found.split("\n"), 1
        return uri

    def text(self, uri: str) -> str:
        return "\n".join(self.texts[uri])

    def write(self, uri: str, text: str) -> None:
        self.texts[uri] = text.split("\n")
        self.versions[uri] += 1
        self.editor.change(uri, self.versions[uri], {"text": text})

    def insert(self, uri: str, line: int, *lines: str) -> None:
        """Type whole lines before a line."""
        self.texts[uri][line:line] = lines
        self.versions[uri] += 1
        at = {"line": line, "character": 0}
        self.editor.change(
            uri, self.versions[uri], {"range": {"start": at, "end": at}, "text": "".join(f"{one}\n" for one in lines)}
        )

    def line(self, uri: str, text: str) -> int:
        return self.texts[uri].index(text)

    def apply(self, params: Any) -> dict[str, Any]:
        self.asked.append(params)
        changes = params["edit"].get("documentChanges")
        if changes is None:
            changes = [{"textDocument": {"uri": u}, "edits": e} for u, e in params["edit"]["changes"].items()]
        for one in changes:
            version = one["textDocument"].get("version")
            if version is not None and version != self.versions[one["textDocument"]["uri"]]:
                return {"applied": False, "failureReason": "another version"}
        for one in changes:
            uri = one["textDocument"]["uri"]
            text = self.text(uri)
            for edit in sorted(one["edits"], key=lambda e: -e["range"]["start"]["line"]):
                text = _replaced(text, edit)
            self.write(uri, text)
        return {"applied": True}


def _replaced(text: str, edit: dict[str, Any]) -> str:
    lines = text.split("\n")

    def offset(place: dict[str, int]) -> int:
        return sum(len(line) + 1 for line in lines[: place["line"]]) + place["character"]

    start, end = offset(edit["range"]["start"]), offset(edit["range"]["end"])
    return text[:start] + edit["newText"] + text[end:]


def finish(workshop: Any, identifier: str) -> Any:
    done = workshop.call("delegations/wait", id=identifier, timeoutSeconds=60)
    assert done.state == "finished"
    return done


@pytest.fixture
def reviewed(workshop: Any) -> Any:
    """A project with a finished delegation: three hunks in one file, a new file, a deleted one, and a flagged one."""
    workshop.write("text.txt", LINES)
    workshop.write("old.txt", "old\n")
    workshop.git("add", "-A")
    workshop.git("commit", "-qm", "more")
    workshop.agent(
        "writer",
        {"write": "text.txt", "text": RESULT},
        {"write": "new.txt", "text": "new\n"},
        {"delete": "old.txt"},
        {"write": "Makefile", "text": "all:\n"},
        {"result": True},
    )
    workshop.id = workshop.start("implement", "text.txt", task="Number them.", delegator="writer")
    assert finish(workshop, workshop.id).review.pending == 6
    workshop.review = store.open_folder(workshop.id).review
    return workshop


def diagnostics(editor: Any, uri: str, wanted: Callable[[list[Any]], Any], after: int = 0) -> list[dict[str, Any]]:
    """Return what an editor is told about a document, as soon as it is wanted."""
    found = editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and wanted(p["diagnostics"]), after=after)
    return found["diagnostics"]


def titles(actions: list[dict[str, Any]]) -> list[str]:
    return [action["title"] for action in actions]


def action(actions: list[dict[str, Any]], beginning: str) -> dict[str, Any]:
    found = [one for one in actions if one["title"].startswith(beginning)]
    assert len(found) == 1, titles(actions)
    return found[0]


def states(workshop: Any, path: str = "text.txt") -> list[str]:
    diff = workshop.call("delegations/diff", id=workshop.id)
    return [str(hunk.state) for file in diff.files if file.path == path for hunk in file.hunks]


def test_each_hunk_is_a_diagnostic_and_is_decided_by_a_code_action(reviewed: Any, editor: Any) -> None:
    editor.begin(reviewed.top)
    buffers = Buffers(editor)
    uri = buffers.open(reviewed.review, language="diff")
    found = diagnostics(editor, uri, lambda each: len(each) == 6)
    assert {one["severity"] for one in found} == {3}
    assert [one["range"]["start"]["line"] for one in found] == sorted(one["range"]["start"]["line"] for one in found)
    texts = [buffers.texts[uri][one["range"]["start"]["line"]] for one in found]
    assert texts == ["+all:", "+new", "-old", "-line 5", "-line 20", "-line 35"]
    assert found[3]["message"].startswith("Not decided: text.txt, +1 -1. ")
    assert "Makefile can run commands in builds or tests." in found[0]["message"]
    assert reviewed.id in found[0]["message"]

    line = buffers.line(uri, "+five")
    offered = editor.actions(uri, line)
    assert titles(offered) == [
        "Accept this hunk",
        "Reject this hunk",
        "Accept the file text.txt (3 hunks)",
        "Reject the file text.txt (3 hunks)",
        "Accept all (5 hunks) but not Makefile",
        "Accept all (6 hunks) although Makefile can run commands in builds or tests",
        "Reject all (6 hunks)",
        "Send back to writer",
    ]
    assert {one["kind"] for one in offered} == {
        "quickfix.review.accept", "quickfix.review.reject", "quickfix.review.reply"
    }  # fmt: skip
    assert "code" not in offered[0].get("diagnostics", {})
    mark = editor.mark()
    editor.run(offered[0])
    assert states(reviewed) == ["accepted", "pending", "pending"]
    assert (reviewed.top / "text.txt").read_text() == changed((5, "five\n"))
    after = diagnostics(editor, uri, lambda each: each[3]["severity"] == 4, mark)
    assert after[3]["message"].startswith("Accepted: text.txt, +1 -1. ")
    editor.wait_for_method("workspace/codeLens/refresh", after=mark)
    assert reviewed.review.read_text() == buffers.text(uri), "what a person may be writing into is left alone"

    mark = editor.mark()
    editor.run(action(editor.actions(uri, line), "Undo the last accept"))
    diagnostics(editor, uri, lambda each: each[3]["severity"] == 3, mark)
    assert states(reviewed) == ["pending", "pending", "pending"]
    assert (reviewed.top / "text.txt").read_text() == LINES
