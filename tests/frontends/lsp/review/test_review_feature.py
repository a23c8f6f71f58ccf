"""Test the review of a result in any editor, in ``review.diff`` and in the open files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numbered_lines import LINES, RESULT, changed
from wait_until import until

from understudy.journal import delegation_folder

DECIDE = "understudy/delegations/decide"
REPLY = "understudy/delegations/reply"
UNDO = "understudy/delegations/undo"
SAY = "window/showMessage"
SHOWN = "textDocument/publishDiagnostics"
PLAIN: dict[str, Any] = {"window": {}, "workspace": {}, "textDocument": {}}
"""The capabilities of an editor that supports almost nothing."""


class Buffers:
    """The documents of an editor that applies every ``workspace/applyEdit``."""

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
        """Insert whole lines before a line."""
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
    workshop.review = delegation_folder.open_folder(workshop.id).review
    return workshop


def diagnostics(editor: Any, uri: str, wanted: Callable[[list[Any]], Any], after: int = 0) -> list[dict[str, Any]]:
    """Wait for diagnostics of a document that satisfy ``wanted`` and return them."""
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
    assert found[3]["message"].startswith("Pending: text.txt, +1 -1. ")
    assert "Makefile can run commands in builds or tests." in found[0]["message"]
    assert reviewed.id in found[0]["message"]

    line = buffers.line(uri, "+five")
    offered = editor.actions(uri, line)
    assert titles(offered) == [
        "Accept this hunk",
        "Reject this hunk",
        "Accept the file text.txt (3 hunks)",
        "Reject the file text.txt (3 hunks)",
        "Accept all (5 hunks) except Makefile",
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
    assert reviewed.review.read_text() == buffers.text(uri), "what the user may be writing into is left alone"

    mark = editor.mark()
    editor.run(action(editor.actions(uri, line), "Undo the last accept"))
    diagnostics(editor, uri, lambda each: each[3]["severity"] == 3, mark)
    assert states(reviewed) == ["pending", "pending", "pending"]
    assert (reviewed.top / "text.txt").read_text() == LINES


def test_reasons_are_typed_into_the_review_and_go_back_with_it(reviewed: Any, editor: Any) -> None:
    editor.begin(reviewed.top)
    buffers = Buffers(editor)
    uri = buffers.open(reviewed.review, language="diff")
    buffers.insert(uri, buffers.line(uri, "+five") + 1, "> spell it in", "> Spanish 🎉")
    buffers.insert(uri, 1, "> Use Roman numbers.")
    line = buffers.line(uri, "+five")
    reject = action(editor.actions(uri, line), "Reject this hunk")
    assert reject["title"] == "Reject this hunk because: spell it in Spanish 🎉"
    mark = editor.mark()
    editor.run(reject)
    found = diagnostics(editor, uri, lambda each: each[3]["message"].startswith("Rejected"), mark)
    assert found[3]["message"].startswith("Rejected (spell it in Spanish 🎉): text.txt")
    hunk = next(f for f in reviewed.call("delegations/diff", id=reviewed.id).files if f.path == "text.txt").hunks[0]
    assert hunk.reason == "spell it in\nSpanish 🎉"
    assert hunk.by == "lsp"
    assert "Accept this hunk after all" in titles(editor.actions(uri, line))

    buffers.insert(uri, buffers.line(uri, "+twenty") + 1, "> XX")
    # Positions are those of the text in the editor, in which the user's comments move the lines below them.
    moved = diagnostics(editor, uri, lambda each: each[5]["range"]["start"]["line"] == buffers.line(uri, "-line 35"))
    assert moved[4]["range"]["start"]["line"] == buffers.line(uri, "-line 20")
    everything = editor.actions(uri, 0)
    assert action(everything, "Reject all (5 hunks)")["title"].endswith("with your 2 reasons")
    back = action(everything, "Send back to writer with your comments: Use Roman numbers.")
    mark = editor.mark()
    editor.run(back)
    said = editor.wait_for_method(SAY, after=mark)["message"]
    child = next(d for d in reviewed.call("delegations/list").delegations if d.parent_id == reviewed.id)
    assert said == f"Sent back as {child.id}."
    prompt = (
        (delegation_folder.open_folder(child.id).path / "prompt.md").read_text() if finish(reviewed, child.id) else ""
    )
    asked = prompt.partition("# What is asked for now")[2]
    assert asked.strip().startswith("Use Roman numbers.\n\nAbout `text.txt`, line 20: XX")
    assert asked.count("Spanish") == 0, "a reason is reported only with its rejected hunk"
    assert "Why: spell it in\nSpanish 🎉" in prompt
    after = diagnostics(editor, uri, lambda each: each[5]["message"].startswith("Taken over"), mark)
    assert f"Taken over by {child.id}" in after[5]["message"]
    assert titles(editor.actions(uri, line)) == [
        "Accept this hunk after all",
        f"Continue in the review of {child.id}, which took over the pending hunks",
    ]


def test_an_open_file_shows_its_hunks_where_they_are_now_and_takes_them_through_the_editor(
    reviewed: Any, editor: Any
) -> None:
    editor.begin(reviewed.top)
    buffers = Buffers(editor)
    uri = buffers.open(reviewed.top / "text.txt")
    found = diagnostics(editor, uri, lambda each: len(each) == 3)
    assert [one["range"] for one in found] == [
        {"start": {"line": line, "character": 0}, "end": {"line": line, "character": length}}
        for line, length in ((4, 6), (19, 7), (34, 7))
    ]
    mark = editor.mark()
    buffers.insert(uri, 0, "mine 🎉", "mine, too")
    moved = diagnostics(editor, uri, lambda each: each and each[0]["range"]["start"]["line"] == 6, mark)
    assert [one["range"]["start"]["line"] for one in moved] == [6, 21, 36]
    offered = editor.actions(uri, 6, triggerKind=2, diagnostics=[moved[0]])
    assert titles(offered)[:4] == [
        "Accept this hunk",
        "Reject this hunk",
        "Accept the file text.txt (3 hunks)",
        "Reject the file text.txt (3 hunks)",
    ]
    assert offered[0]["diagnostics"][0]["code"] == moved[0]["code"]
    assert [one for one in editor.actions(uri, 10, triggerKind=2) if "hunk" in one["title"]] == []
    lenses = editor.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert [(one["range"]["start"]["line"], one["command"]["title"]) for one in lenses] == [
        (line, title) for line in (6, 21, 36) for title in ("Accept", "Reject", "Review")
    ]
    mark = editor.mark()
    editor.run(offered[0])
    assert buffers.text(uri) == "mine 🎉\nmine, too\n" + changed((5, "five\n"))
    assert (reviewed.top / "text.txt").read_text() == LINES, "what is open in the editor is the editor's to save"
    [asked] = buffers.asked
    assert [one["textDocument"] for one in asked["edit"]["documentChanges"]] == [{"uri": uri, "version": 2}]
    left = diagnostics(editor, uri, lambda each: len(each) == 2, mark)
    assert [one["range"]["start"]["line"] for one in left] == [21, 36]
    assert states(reviewed) == ["accepted", "pending", "pending"]
    editor.wait_for_method("workspace/codeLens/refresh", after=mark)

    # An editor that refuses changes nothing, and the user reads why.
    mark = editor.mark()
    editor.answers["workspace/applyEdit"] = lambda _: {"applied": False, "failureReason": "no"}
    with pytest.raises(Exception, match="did not change text"):
        editor.run(action(editor.actions(uri, 21), "Accept this hunk"))
    assert editor.wait_for_method(SAY, after=mark)["type"] == 1
    assert states(reviewed) == ["accepted", "pending", "pending"]
    assert (reviewed.top / "text.txt").read_text() == LINES
    editor.answers["workspace/applyEdit"] = buffers.apply

    # Text typed during a merge is kept; the merge is repeated with it.
    def typed_meanwhile(params: Any) -> Any:
        editor.answers["workspace/applyEdit"] = buffers.apply
        buffers.insert(uri, 0, "meanwhile")
        return buffers.apply(params)

    editor.answers["workspace/applyEdit"] = typed_meanwhile
    editor.run(action(editor.actions(uri, 21), "Accept this hunk"))
    assert buffers.text(uri) == "meanwhile\nmine 🎉\nmine, too\n" + changed((5, "five\n"), (20, "twenty\n"))

    # A conflict stays pending, and its message says what to do.
    mark = editor.mark()
    buffers.write(uri, buffers.text(uri).replace("line 35", "my line"))
    diagnostics(editor, uri, lambda each: len(each) == 1 and each[0]["range"]["end"]["character"] == 7, mark)
    mark = editor.mark()
    editor.run(action(editor.actions(uri, 37), "Accept this hunk"))
    told = editor.wait_for_method(SAY, after=mark)
    assert told["type"] == 2
    assert told["message"].startswith("1 hunk conflicts with your version: text.txt line 35. ")
    conflict = diagnostics(editor, uri, lambda each: each and each[0]["severity"] == 2, mark)
    assert "It conflicts with your version." in conflict[0]["message"]
    # Marking a conflict as merged counts as an accept and can be undone, but undo keeps the user's text. The file must
    # be saved: otherwise, what was accepted could be in no file.
    with pytest.raises(Exception, match=r"Unsaved changes in text\.txt"):
        editor.run(action(editor.actions(uri, 37), "Mark this hunk as merged by hand"))
    reviewed.write("text.txt", buffers.text(uri))
    editor.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    editor.run(action(editor.actions(uri, 37), "Mark this hunk as merged by hand"))
    diagnostics(editor, uri, lambda each: not each, mark)
    assert states(reviewed) == ["accepted"] * 3
    editor.run(action(editor.actions(uri, 0), "Undo the last accept"))
    assert states(reviewed) == ["accepted", "accepted", "pending"]
    editor.run(action(editor.actions(uri, 37), "Reject this hunk"))
    diagnostics(editor, uri, lambda each: not each, mark)

    # The last accept can be undone.
    editor.run(action(editor.actions(uri, 0), "Undo the last accept"))
    editor.run(action(editor.actions(uri, 0), "Undo the last accept"))
    assert buffers.text(uri) == "meanwhile\nmine 🎉\nmine, too\n" + changed((35, "my line\n"))
    assert states(reviewed) == ["pending", "pending", "rejected"]
    assert "Undo the last accept" not in titles(editor.actions(uri, 0))


def test_accept_everything_and_flagged_files(reviewed: Any, editor: Any) -> None:
    editor.begin(reviewed.top)
    buffers = Buffers(editor)
    text = buffers.open(reviewed.top / "text.txt")
    uri = buffers.open(reviewed.review, language="diff")
    diagnostics(editor, uri, lambda each: len(each) == 6)
    mark = editor.mark()
    editor.run(action(editor.actions(uri, 0), "Accept all (5 hunks) except Makefile"))
    assert buffers.text(text) == RESULT
    assert (reviewed.top / "new.txt").read_text() == "new\n"
    assert not (reviewed.top / "old.txt").exists()
    assert not (reviewed.top / "Makefile").exists()
    diagnostics(editor, uri, lambda each: [one["severity"] for one in each] == [3, 4, 4, 4, 4, 4], mark)
    flagged = action(editor.actions(uri, buffers.line(uri, "+all:")), "Accept this hunk")
    assert flagged["title"] == "Accept this hunk although Makefile can run commands in builds or tests"
    editor.run(flagged)
    assert (reviewed.top / "Makefile").read_text() == "all:\n"
    editor.run(action(editor.actions(uri, 0), "Undo the last accept"))
    editor.run(action(editor.actions(uri, 0), "Undo the last accept"))
    assert not (reviewed.top / "Makefile").exists()
    assert (reviewed.top / "old.txt").exists()
    assert buffers.text(text) == LINES
    assert "Undo the last accept" not in titles(editor.actions(uri, 0))


def test_an_editor_that_supports_almost_nothing(reviewed: Any, editor: Any) -> None:
    editor.begin(reviewed.top, capabilities={**PLAIN, "general": {"positionEncodings": ["utf-8"]}})
    buffers = Buffers(editor)
    editor.ask("workspace/executeCommand", {"command": "understudy-review/open", "arguments": [{"id": reviewed.id}]})
    told = editor.wait_for_method(SAY)
    assert told == {"type": 3, "message": f"The review is in {reviewed.review}. Open that file in your editor."}
    uri = buffers.open(reviewed.review, language="diff")
    diagnostics(editor, uri, lambda each: len(each) == 6)
    buffers.insert(uri, buffers.line(uri, "+five") + 1, "> no")
    commands = editor.actions(uri, buffers.line(uri, "> no"))
    assert all(isinstance(one["command"], str) for one in commands)
    assert {one["command"] for one in commands} == {DECIDE, REPLY}
    editor.run(action(commands, "Reject this hunk because: no"))
    assert states(reviewed) == ["rejected", "pending", "pending"]
    # Nothing may be changed in the editor, so an unsaved file is not touched, and a saved one is changed on disk.
    text = buffers.open(reviewed.top / "text.txt")
    buffers.insert(text, 0, "überall 🎉")
    found = diagnostics(editor, text, lambda each: len(each) == 2 and each[0]["range"]["start"]["line"] == 20)
    assert found[0]["range"]["end"] == {"line": 20, "character": 7}
    mark = editor.mark()
    with pytest.raises(Exception, match="Unsaved changes"):
        editor.run(action(editor.actions(text, 20), "Accept this hunk"))
    assert "Save, then try again." in editor.wait_for_method(SAY, after=mark)["message"]
    assert not buffers.asked
    editor.notify("textDocument/didClose", {"textDocument": {"uri": text}})
    editor.run(action(editor.actions(uri, buffers.line(uri, "-line 20")), "Accept this hunk"))
    assert (reviewed.top / "text.txt").read_text() == changed((20, "twenty\n"))


def test_decisions_of_other_processes_are_shown(reviewed: Any, editor: Any, start_editor: Callable[..., Any]) -> None:
    editor.begin(reviewed.top)
    uri = editor.open(reviewed.top / "text.txt")
    review = editor.open(reviewed.review, language="diff")
    subscribed = start_editor()
    subscribed.begin(reviewed.top)
    subscribed.ask("understudy/delegations/subscribe", {})
    subscribed.open(reviewed.top / "text.txt")
    own = start_editor()
    own.begin(reviewed.top, options={"review": False})
    own.open(reviewed.top / "text.txt")
    elsewhere = start_editor()
    elsewhere.begin(reviewed.config)
    elsewhere.open(reviewed.top / "text.txt")
    for one in (editor, subscribed, elsewhere):
        diagnostics(one, uri, lambda each: len(each) == 3)
    marks = [one.mark() for one in (editor, subscribed)]
    first = next(f for f in reviewed.call("delegations/diff", id=reviewed.id).files if f.path == "text.txt").hunks[0]
    decision = {"path": "text.txt", "hunk": first.id, "decision": "reject", "reason": "no"}
    reviewed.call("delegations/decide", id=reviewed.id, decisions=[decision])
    for one, mark in zip((editor, subscribed), marks, strict=True):
        diagnostics(one, uri, lambda each: len(each) == 2, mark)
    diagnostics(editor, review, lambda each: each[3]["message"].startswith("Rejected (no)"), marks[0])
    assert own.actions(uri, 19, triggerKind=2) == []
    assert not [one for one in own.all_of(SHOWN) if one["diagnostics"]]

    # A second result on the same file: each hunk once, and each named by its delegation.
    mark = editor.mark()
    reviewed.agent("other", {"write": "text.txt", "text": changed((20, "XX\n"))}, {"result": True})
    second = reviewed.start("implement", "text.txt", task="Roman.", delegator="other")
    finish(reviewed, second)
    found = diagnostics(editor, uri, lambda each: len(each) == 3, mark)
    assert [one["range"]["start"]["line"] for one in found] == [19, 19, 34]
    assert len({one["code"] for one in found}) == 3
    both = [one["title"] for one in editor.actions(uri, 19, triggerKind=2)]
    assert sum(title.startswith("Accept this hunk (") and second in title for title in both) == 1
    assert sum(title.startswith("Accept this hunk (") and reviewed.id in title for title in both) == 1

    mark = editor.mark()
    for identifier in (second, reviewed.id):
        reviewed.call("delegations/discard", id=identifier)
    diagnostics(editor, uri, lambda each: not each, mark)
    diagnostics(editor, review, lambda each: not each, mark)
    editor.notify("textDocument/didClose", {"textDocument": {"uri": review}})
    assert editor.actions(review, 0, triggerKind=2) == []


def test_a_review_opens_at_the_hunk_and_below_what_was_typed(reviewed: Any, editor: Any) -> None:
    editor.begin(reviewed.top)
    buffers = Buffers(editor)
    text = buffers.open(reviewed.top / "text.txt")
    diagnostics(editor, text, lambda each: len(each) == 3)
    assert not editor.all_of("window/showDocument"), "nothing opens by itself"
    editor.run(action(editor.actions(text, 19), "Open this hunk"))
    shown = editor.wait_for_method("window/showDocument")
    assert shown["uri"] == reviewed.review.as_uri()
    assert shown["takeFocus"] is True
    lines = reviewed.review.read_text().split("\n")
    assert shown["selection"]["start"] == {"line": lines.index("-line 20"), "character": 0}
    uri = buffers.open(reviewed.review, language="diff")
    buffers.insert(uri, 1, "> one", "> two")
    mark = editor.mark()
    editor.run(action(editor.actions(text, 19), "Open this hunk"))
    shown = editor.wait_for_method("window/showDocument", after=mark)
    assert shown["selection"]["start"]["line"] == lines.index("-line 20") + 2
    # An editor that says it could not is told where the file is.
    editor.answers["window/showDocument"] = lambda _: {"success": False}
    editor.run(action(editor.actions(text, 19), "Open this hunk"))
    assert str(reviewed.review) in editor.wait_for_method(SAY, after=mark)["message"]


def test_an_editor_that_disconnects_instead_of_answering_leaves_no_partial_decision(
    reviewed: Any, start_editor: Callable[..., Any]
) -> None:
    editor = start_editor()
    editor.begin(reviewed.top)
    buffers = Buffers(editor)
    buffers.open(reviewed.top / "text.txt")
    uri = buffers.open(reviewed.review, language="diff")
    diagnostics(editor, uri, lambda each: len(each) == 6)
    no_answer = sys.modules[type(editor).__module__].NO_ANSWER
    editor.answers["workspace/applyEdit"] = lambda _: no_answer
    command = action(editor.actions(uri, 0), "Accept all (5 hunks)")["command"]
    waiting = editor.request(
        "workspace/executeCommand", {"command": command["command"], "arguments": command["arguments"]}
    )
    editor.wait_for_method("workspace/applyEdit")
    assert not [one for one in editor.heard if one.get("id") == waiting and "method" not in one]
    editor.close()
    # The next process finds the state unchanged.
    assert states(reviewed) == ["pending", "pending", "pending"]
    assert reviewed.call("delegations/get", id=reviewed.id).review.pending == 6
    assert (reviewed.top / "old.txt").exists()
    assert not (reviewed.top / "new.txt").exists()
    assert (reviewed.top / "text.txt").read_text() == LINES
    reviewed.call("delegations/decide", id=reviewed.id, decisions=[{"decision": "accept"}], includeFlagged=True)
    assert (reviewed.top / "text.txt").read_text() == RESULT


def test_names_and_output_of_an_agent_control_nothing(workshop: Any, editor: Any):
    hostile = ["a\x1b]0;x\x07.py", "b\nAccept all.py", "c\u202egpj.py", "d\u200b.py"]
    workshop.agent("w", *({"write": name, "text": "x\n"} for name in hostile), {"result": True})
    editor.begin(workshop.top)
    buffers = Buffers(editor)
    words = "Look\x1b[2J \u202eat this."
    calc = (workshop.top / "calc.py").as_uri()
    params = {"recipe": "implement", "task": words, "files": [calc], "delegator": "w"}
    command = {"command": "understudy/delegations/start", "arguments": [params]}
    identifier = editor.ask("workspace/executeCommand", command)["id"]
    finish(workshop, identifier)
    uri = buffers.open(delegation_folder.open_folder(identifier).review, language="diff")
    found = diagnostics(editor, uri, lambda found: len(found) == len(hostile))
    editor.wait_for_method("window/showMessageRequest")
    shown = [one["message"] for one in found]
    assert shown[1].startswith('Pending: "b\\nAccept all.py", added'), shown
    for line in range(len(buffers.texts[uri])):
        shown += titles(editor.actions(uri, line))
    lenses = editor.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    shown += [lens["command"]["title"] for lens in lenses]
    shown += [
        text for value in editor.all_of("$/progress") for text in value["value"].values() if isinstance(text, str)
    ]
    shown += [one["message"] for one in editor.all_of("window/showMessageRequest")]
    assert any("Look at this." in text for text in shown)
    assert [text for text in shown if not text.isprintable()] == []
    # What is done about such a file is still about that file.
    last = action(editor.actions(uri, len(buffers.texts[uri]) - 2), "Accept this hunk")
    editor.run(last)
    assert (workshop.top / "d\u200b.py").exists()


def test_the_checks_of_a_review_are_stopped_on_request(workshop: Any, editor: Any):
    config = workshop.top / ".understudy" / "config.toml"
    workshop.write(str(config.relative_to(workshop.top)), '[[checks]]\nname = "slow"\nargv = ["sleep", "600"]\n')
    workshop.trust()
    workshop.agent("w", {"write": "new.txt", "text": "x\n"}, {"result": True})
    identifier = workshop.start("implement", "calc.py", task="x", delegator="w")
    until(lambda: workshop.call("delegations/get", id=identifier).state == "checking")
    asked: list[Any] = []
    editor.answers["window/showMessageRequest"] = lambda asks: asked.append(asks) or asks["actions"][0]
    editor.begin(workshop.top)
    editor.ask("workspace/executeCommand", {"command": "understudy-review/open", "arguments": [{"id": identifier}]})
    until(lambda: workshop.call("delegations/get", id=identifier).state == "finished")
    assert asked[0]["message"] == f"The checks of {identifier} still run. You can decide when they have ended."
    uri = Buffers(editor).open(delegation_folder.open_folder(identifier).review, language="diff")
    diagnostics(editor, uri, lambda found: len(found) == 1)
    editor.run(action(editor.actions(uri), "Accept all (1 hunk)"))
    assert (workshop.top / "new.txt").read_text() == "x\n"


def test_lenses_name_their_result_if_a_file_has_several(workshop: Any, editor: Any):
    workshop.write("text.txt", LINES)
    workshop.git("add", "-A")
    workshop.git("commit", "-qm", "more")
    for name in ("one", "two"):
        workshop.agent(name, {"write": "text.txt", "text": changed((5, f"{name}\n"))}, {"result": True})
        finish(workshop, workshop.start("implement", "text.txt", task=f"Say {name}.", delegator=name))
    editor.begin(workshop.top)
    uri = Buffers(editor).open(workshop.top / "text.txt")
    diagnostics(editor, uri, lambda found: len(found) == 2)
    lenses = editor.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    shown = sorted(lens["command"]["title"] for lens in lenses)
    assert shown == [f"{what} (Say {name}.)" for what in ("Accept", "Reject", "Review") for name in ("one", "two")]


def test_a_review_that_was_sent_back_links_to_its_follow_up(reviewed: Any, editor: Any, tmp_path: Path):
    go = tmp_path / "go"
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    reviewed.agent(
        "writer", {"run": [sys.executable, "-c", waits]}, {"write": "new.txt", "text": "newer\n"}, {"result": True}
    )
    editor.begin(reviewed.top)
    uri = Buffers(editor).open(reviewed.review, language="diff")
    diagnostics(editor, uri, lambda found: len(found) == 6)
    newer = reviewed.call("delegations/reply", id=reviewed.id, text="Again.").id
    diagnostics(editor, uri, lambda found: all(one["severity"] == 4 for one in found))
    way = action(editor.actions(uri), "Continue in the review of " + newer)
    editor.run(way)
    editor.wait_for_method(
        SAY, lambda said: said["message"] == f"{newer} is not finished yet. You will get a message when it is."
    )
    go.touch()
    finish(reviewed, newer)
    editor.run(way)
    shown = editor.wait_for_method("window/showDocument")
    assert shown["uri"] == delegation_folder.open_folder(newer).review.as_uri()
