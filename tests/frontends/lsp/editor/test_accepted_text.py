"""Test that an editor which reverts accepted text makes its hunks pending, with and without a review of its own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from wait_until import until

from understudy.model.delegation.events import Decided

LINES = [f"line {number}\n" for number in range(1, 31)]
BEFORE = "".join(LINES)
AFTER = "".join([*LINES[:4], "five\n", *LINES[5:]])
VSCODE = {"trusted": True, "review": False, "subscribes": True}
ONLY_VSCODE = pytest.mark.parametrize("window", [VSCODE], indirect=True, ids=["own review"])


class Window:
    """One document of an editor that does what the server asks."""

    def __init__(self, workshop: Any, editor: Any) -> None:
        self.workshop, self.editor, self.version = workshop, editor, 1
        self.path = workshop.top / "text.txt"
        self.uri = self.path.as_uri()
        self.text = BEFORE
        editor.answers["workspace/applyEdit"] = self.apply

    def apply(self, _: Any) -> dict[str, bool]:
        """Make the change that the test expects."""
        self.show(AFTER)
        return {"applied": True}

    def show(self, text: str) -> None:
        """Replace the text."""
        self.text, self.version = text, self.version + 1
        self.editor.change(self.uri, self.version, {"text": text})

    def save(self) -> None:
        """Write the text to the file."""
        self.path.write_text(self.text, encoding="utf-8")
        self.editor.notify("textDocument/didSave", {"textDocument": {"uri": self.uri}})

    def close(self) -> None:
        """Close the document without saving it."""
        self.editor.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})

    def until_state(self, state: str) -> None:
        """Wait until every process reads this state of the hunk."""

        def state_now() -> str:
            [file] = self.workshop.call("delegations/diff", id=self.workshop.id).files
            return str(file.hunks[0].state)

        until(lambda: state_now() == state, f"the hunk is {state}")


@pytest.fixture(params=[VSCODE, {"review": True}], ids=["own review", "review of the server"])
def window(request: pytest.FixtureRequest, workshop: Any, editor: Any) -> Window:
    """An editor with an accepted hunk in an open file, which is not saved."""
    workshop.write("text.txt", BEFORE)
    workshop.git("add", "-A")
    workshop.git("commit", "-qm", "more")
    workshop.agent("writer", {"write": "text.txt", "text": AFTER}, {"result": True})
    workshop.id = workshop.start("implement", "text.txt", task="Number it.", delegator="writer")
    assert workshop.call("delegations/wait", id=workshop.id, timeoutSeconds=60).review.pending == 1
    editor.begin(workshop.top, options=request.param)
    window = Window(workshop, editor)
    editor.open(window.path, language="plaintext")
    decision = {"path": "text.txt", "decision": "accept"}
    editor.ask("understudy/delegations/decide", {"id": workshop.id, "decisions": [decision]})
    window.until_state("accepted")
    assert window.text == AFTER
    return window


def test_undo_redo_and_save_in_the_editor(window: Window) -> None:
    window.save()
    window.show(BEFORE)
    window.until_state("pending")
    window.show(AFTER)
    window.until_state("accepted")
    window.show(BEFORE)
    window.save()
    window.until_state("pending")


def test_closed_without_saving(window: Window) -> None:
    window.close()
    window.until_state("pending")


def decisions(window: Window) -> list[tuple[str, str]]:
    """Return the decisions in the journal, each with who made it; nothing is recovered before."""
    events = window.workshop.call("delegations/events", id=window.workshop.id).events
    return [(event.decision, event.by) for event in events if isinstance(event, Decided)]


def kill(window: Window) -> None:
    window.editor.process.kill()
    window.editor.process.wait()


def test_an_editor_that_ends_without_closing_its_documents(window: Window) -> None:
    window.editor.leave()
    assert decisions(window) == [("accept", "lsp"), ("pending", "lsp")]
    assert window.path.read_text() == BEFORE


@ONLY_VSCODE
def test_what_is_saved_just_before_an_editor_ends_counts(window: Window) -> None:
    window.save()
    window.show(BEFORE)
    window.save()
    window.show(AFTER)
    window.save()
    window.editor.leave()
    window.until_state("accepted")


@ONLY_VSCODE
def test_what_a_killed_editor_has_lost_is_pending_for_the_next_reader(window: Window, start_editor: Any) -> None:
    kill(window)
    assert window.workshop.call("delegations/get", id=window.workshop.id).review.pending == 1
    assert decisions(window) == [("accept", "lsp"), ("pending", "understudy")]
    other = start_editor()
    other.begin(window.workshop.top, options=VSCODE)
    other.open(window.path, AFTER, language="plaintext")  # the editor kept the unsaved text
    window.until_state("accepted")


@ONLY_VSCODE
def test_what_a_killed_editor_has_lost_can_be_accepted(window: Window) -> None:
    kill(window)
    decision = {"path": "text.txt", "decision": "accept"}
    window.workshop.call("delegations/decide", id=window.workshop.id, decisions=[decision])
    assert window.path.read_text() == AFTER


@ONLY_VSCODE
def test_a_session_begins_with_what_a_killed_editor_has_lost(window: Window, start_editor: Any) -> None:
    kill(window)
    other = start_editor()
    other.begin(window.workshop.top, options=VSCODE)
    until(lambda: len(decisions(window)) == 2, "the hunk is pending")
    assert decisions(window) == [("accept", "lsp"), ("pending", "lsp")]


@ONLY_VSCODE
def test_another_session_finds_what_an_editor_has_lost(window: Window, start_editor: Any) -> None:
    kill(window)
    other = start_editor()
    other.begin(window.workshop.top, options=VSCODE)
    other.open(window.path, language="plaintext")
    window.until_state("pending")


@ONLY_VSCODE
def test_another_editor_with_the_file_does_not_revert_a_live_accept(window: Window, start_editor: Any) -> None:
    other = start_editor()
    other.begin(window.workshop.top, options=VSCODE)
    uri = other.open(window.path, language="plaintext")
    other.change(uri, 2, {"text": BEFORE + "typed\n"})
    other.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    other.leave()  # it has compared everything
    assert decisions(window) == [("accept", "lsp")]
    window.show(BEFORE)
    window.until_state("pending")


@ONLY_VSCODE
def test_another_editor_takes_over_a_document_that_is_closed(window: Window, start_editor: Any) -> None:
    window.save()
    window.close()
    other = start_editor()
    other.begin(window.workshop.top, options=VSCODE)
    uri = other.open(window.path, language="plaintext")

    versions = itertools.count(2)

    def is_pending() -> bool:
        other.change(uri, next(versions), {"text": BEFORE})
        return decisions(window)[-1] == ("pending", "lsp")

    until(is_pending, "the hunk is pending")
