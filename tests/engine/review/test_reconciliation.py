"""Test that an accept which was reverted in the editor is pending again, and that nothing else makes it so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from numbered_lines import LINES, RESULT, changed
from open_documents import decide, refused, states, undo

from understudy.api.caller import TerminalCaller
from understudy.api.editor_files.accepted_documents import AcceptedDocuments, reconcile
from understudy.engine.review import decision_recovery, editor_documents
from understudy.journal import delegation_folder, worker_files
from understudy.model.errors import ErrorKind
from understudy.process import identity

FIRST, SECOND, THIRD = (5, "five\n"), (20, "twenty\n"), (35, "thirty-five\n")
ACCEPTED, PENDING = ["accepted"] * 3, ["pending"] * 3


@pytest.fixture
def opened(window):
    """A project whose ``text.txt`` is open in an editor, with both hunks accepted."""
    window.accepts = AcceptedDocuments()
    window.caller.show("text.txt")
    window.done = decide(window, "text.txt")
    assert window.caller.text("text.txt") == RESULT
    return window


def report(project, event: str, path: str = "text.txt") -> bool:
    """Report what happened to a document, as the language server does."""
    state = project.accepts.state_after(project.top / path, event, project.caller.documents)
    return state is not None and reconcile(state, by="lsp")


def edit(project, text: str) -> list[str]:
    """Change the text in the editor; return the states of the hunks."""
    project.caller.show("text.txt", text)
    report(project, "change")
    return states(project, "text.txt")


def save(project) -> list[str]:
    """Save the document; return the states of the hunks."""
    project.write("text.txt", project.caller.text("text.txt"))
    report(project, "save")
    return states(project, "text.txt")


def close(project) -> list[str]:
    """Close the document without saving it; return the states of the hunks."""
    project.caller.texts.clear()
    report(project, "close")
    return states(project, "text.txt")


def change_on_disk(project, text: str) -> list[str]:
    """Let another program write the file, which the editor reads again; return the states of the hunks."""
    project.write("text.txt", text)
    if report(project, "change") | bool(edit(project, text)):
        report(project, "later")
    return states(project, "text.txt")


# -- reverted --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [False, True])
def test_ctrl_z_makes_the_hunks_pending_and_redo_accepts_them(opened, saved):
    if saved:
        assert save(opened) == ACCEPTED
    assert edit(opened, LINES) == PENDING
    assert opened.call("delegations/get", id=opened.id).review.accepted == 0
    assert edit(opened, RESULT) == ACCEPTED
    assert edit(opened, LINES) == PENDING
    decide(opened, "text.txt")
    assert opened.caller.text("text.txt") == RESULT
    assert states(opened, "text.txt") == ACCEPTED


@pytest.mark.parametrize("how", ["undone", "reverted", "closed"])
def test_a_hunk_that_another_result_had_brought_is_pending_when_it_goes(window, how):
    first, second = window.id, window.run("implement", "text.txt", task="Number them.", delegator="editor").id
    window.accepts = AcceptedDocuments()
    window.caller.show("text.txt")
    brought = decide(window, "text.txt")
    window.id = second
    decide(window, "text.txt")
    assert window.caller.text("text.txt") == RESULT
    assert states(window, "text.txt") == ACCEPTED
    match how:
        case "undone":
            undo(window, brought)
        case "reverted":
            edit(window, LINES)
        case "closed":
            close(window)
    for window.id in (first, second):
        assert states(window, "text.txt") == PENDING
        assert window.call("delegations/get", id=window.id).review.accepted == 0


def test_undo_works_after_redo(opened):
    edit(opened, LINES)
    edit(opened, RESULT)
    undo(opened, opened.done)
    assert opened.caller.text("text.txt") == LINES
    assert states(opened, "text.txt") == PENDING


def test_undo_of_what_was_reverted_changes_nothing(opened):
    edit(opened, LINES + "mine\n")
    error = refused(ErrorKind.CONFLICT, undo, opened, opened.done)
    assert "already undone" in error.message
    assert opened.caller.text("text.txt") == LINES + "mine\n"


def test_undo_before_the_notice_changes_nothing(opened):
    opened.caller.show("text.txt", LINES)
    undo(opened, opened.done)
    assert opened.caller.text("text.txt") == LINES
    report(opened, "change")
    assert states(opened, "text.txt") == PENDING


def test_one_of_three_hunks(opened):
    assert edit(opened, changed(FIRST, SECOND)) == ["accepted", "accepted", "pending"]
    assert edit(opened, changed(FIRST, (12, "mine\n"), SECOND)) == ["accepted", "accepted", "pending"]
    assert edit(opened, changed(FIRST, (12, "mine\n"), SECOND, THIRD)) == ACCEPTED
    assert edit(opened, changed(SECOND, THIRD)) == ["pending", "accepted", "accepted"]
    undo(opened, opened.done)
    assert opened.caller.text("text.txt") == LINES
    assert states(opened, "text.txt") == PENDING


def test_closed_without_saving(opened):
    assert close(opened) == PENDING
    assert (opened.top / "text.txt").read_text() == LINES


def test_reverted_to_the_file_on_disk(opened):
    assert edit(opened, LINES) == PENDING  # the text in the editor is that of the file


def test_reverted_in_a_saved_file_and_closed_without_saving(opened):
    save(opened)
    assert edit(opened, LINES) == PENDING
    assert close(opened) == ACCEPTED, "the file has the change"


def test_reverted_and_saved_then_redone_and_closed_without_saving(opened):
    save(opened)
    assert edit(opened, LINES) == PENDING
    assert save(opened) == PENDING
    assert edit(opened, RESULT) == ACCEPTED
    assert close(opened) == PENDING


def test_an_editor_that_ended_without_saving(opened):
    opened.caller.texts.clear()
    opened.accepts = AcceptedDocuments()
    opened.caller.show("text.txt")
    report(opened, "open")
    assert states(opened, "text.txt") == PENDING


def test_three_accepts_of_one_file_are_reverted_one_after_the_other(window):
    window.accepts = AcceptedDocuments()
    window.caller.show("text.txt")
    files = window.call("delegations/diff", id=window.id).files
    for hunk in next(file for file in files if file.path == "text.txt").hunks:
        one = {"path": "text.txt", "hunk": hunk.id, "decision": "accept"}
        window.call("delegations/decide", id=window.id, decisions=[one])
    assert edit(window, changed(FIRST, SECOND)) == ["accepted", "accepted", "pending"]
    assert edit(window, changed(FIRST)) == ["accepted", "pending", "pending"]
    assert edit(window, LINES) == PENDING
    assert edit(window, changed(FIRST)) == ["accepted", "pending", "pending"]
    assert edit(window, RESULT) == ACCEPTED


def test_the_users_own_edits_may_be_reverted_with_it(window):
    window.accepts = AcceptedDocuments()
    window.caller.show("text.txt", LINES.replace("line 7\n", "line 7\ntyped\n"))
    decide(window, "text.txt")
    assert edit(window, LINES) == PENDING


def test_after_another_accept_redo_belongs_to_that_one(opened):
    edit(opened, LINES)
    newer = decide(opened, "text.txt")
    report(opened, "change")
    assert edit(opened, LINES) == PENDING
    assert edit(opened, RESULT) == ACCEPTED
    undo(opened, newer)
    assert opened.caller.text("text.txt") == LINES
    refused(ErrorKind.CONFLICT, undo, opened, opened.done)


def test_a_rejection_after_it_is_kept(opened):
    edit(opened, LINES)
    opened.call("delegations/decide", id=opened.id, decisions=[{"path": "text.txt", "decision": "reject"}])
    assert edit(opened, RESULT) == ["rejected"] * 3


# -- not reverted ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "first\n" + RESULT + "last\n",
        changed(FIRST, (6, "next to it\n"), SECOND, THIRD),
        changed((5, "five, edited\n"), SECOND, THIRD),
        changed((5, "  five\n"), SECOND, THIRD),
        changed((5, ""), SECOND, THIRD),
        changed((4, ""), (5, ""), (6, ""), SECOND, THIRD),
        RESULT.replace("\n", " \n"),
        RESULT.removesuffix("\n"),
        "",
    ],
    ids=["around", "next to it", "within", "indented", "removed", "block removed", "spaces", "no end", "emptied"],
)
def test_edits_of_the_user_leave_it_accepted(opened, text, saved):
    if saved:
        save(opened)
    assert edit(opened, text) == ACCEPTED
    assert save(opened) == ACCEPTED
    assert close(opened) == ACCEPTED


def git(project, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=project.top, check=True, capture_output=True)


def test_a_switch_of_branches_leaves_it_accepted(opened):
    save(opened)
    git(opened, "commit", "--quiet", "--all", "--message=accepted")
    git(opened, "checkout", "--quiet", "-b", "other", "HEAD~1")
    assert change_on_disk(opened, (opened.top / "text.txt").read_text()) == ACCEPTED
    edit(opened, LINES + "on the other branch\n")
    assert save(opened) == ACCEPTED
    opened.caller.texts.clear()
    opened.caller.show("text.txt")
    report(opened, "open")
    assert states(opened, "text.txt") == ACCEPTED


def test_a_switch_of_branches_while_the_file_is_closed_leaves_it_accepted(opened):
    save(opened)
    close(opened)
    git(opened, "stash", "--quiet")
    opened.caller.show("text.txt")
    assert report(opened, "open")
    assert not report(opened, "later")
    assert states(opened, "text.txt") == ACCEPTED


def test_the_notice_of_a_save_may_come_after_the_file_was_written(opened):
    save(opened)
    opened.caller.show("text.txt", LINES)
    opened.write("text.txt", LINES)
    assert report(opened, "change"), "another program, or the save of the editor?"
    assert states(opened, "text.txt") == ACCEPTED
    report(opened, "save")
    assert states(opened, "text.txt") == PENDING


def test_a_file_that_was_closed_at_the_accept_is_not_watched(window):
    window.accepts = AcceptedDocuments()
    decide(window, "text.txt")
    window.caller.show("text.txt")
    report(window, "open")
    assert edit(window, LINES) == ACCEPTED
    assert window.accepts.state_after(window.top / "text.txt", "change", window.caller.documents) is None


def test_what_another_frontend_accepted_in_an_open_file_can_be_reverted(window):
    window.accepts = AcceptedDocuments()
    editor, window.caller = window.caller, TerminalCaller(window.top)
    editor.show("text.txt")
    accepted = decide(window, "text.txt")
    window.caller = editor
    assert edit(window, RESULT) == ACCEPTED, "the editor reads the file again"
    assert edit(window, LINES) == PENDING
    assert edit(window, RESULT) == ACCEPTED
    assert edit(window, LINES) == PENDING
    assert save(window) == PENDING
    refused(ErrorKind.CONFLICT, undo, window, accepted)


def test_a_document_that_another_process_decides_about_is_compared_later(opened, monkeypatch):
    monkeypatch.setattr(decision_recovery, "LOCK_SECONDS", 0.01)
    lock = worker_files.try_lock(delegation_folder.open_folder(opened.id))
    opened.caller.show("text.txt", LINES)
    try:
        assert report(opened, "change")
    finally:
        os.close(lock)
    assert not report(opened, "later")
    assert states(opened, "text.txt") == PENDING


def test_an_editor_that_refuses_leaves_nothing_behind(window):
    window.accepts = AcceptedDocuments()
    window.caller.show("text.txt")
    window.caller.answers = [False]
    refused(ErrorKind.MERGE_CONFLICT, decide, window, "text.txt")
    assert window.accepts.state_after(window.top / "text.txt", "change", window.caller.documents) is None


def test_only_the_newest_accepts_are_remembered(project, monkeypatch):
    monkeypatch.setattr(editor_documents, "MOST_ACCEPTS", 3)
    for number in range(5):
        editor_documents.remember_accept(Path("/somewhere"), f"20260101-000000-aaaaa.{number}", [b"a.py"], {})
    accepts = editor_documents.EditorAccepts().of(Path("/somewhere/a.py"))
    assert [token[-1] for token in accepts] == ["2", "3", "4"]


def test_an_accept_that_another_process_forgets_meanwhile_is_no_error(project):
    editor_documents.remember_accept(Path("/somewhere"), "20260101-000000-aaaaa.1", [b"a.py"], {})
    folder = delegation_folder.state_root() / "editor-accepts"
    (folder / "20260101-000000-bbbbb.1.json").symlink_to("forgotten")
    editor_documents.remember_accept(Path("/somewhere"), "20260101-000000-aaaaa.2", [b"a.py"], {})
    accepts = editor_documents.EditorAccepts().of(Path("/somewhere/a.py"))
    assert [token[-1] for token in accepts] == ["1", "2"]


# -- the server has ended ----------------------------------------------------------------------------------------------


def end_server(project) -> None:
    """Let the accepts belong to a server that was killed."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        server = identity.of(process.pid)
        process.kill()
    project.caller.texts.clear()
    for token, _ in editor_documents.shown_by(editor_documents.this_process()):
        accept = editor_documents.load_accept(token)
        for file in accept.files.values():
            file.server = server
        editor_documents.save_accept(token, accept)


def test_what_a_dead_server_has_not_saved_is_pending(opened):
    end_server(opened)
    assert opened.call("delegations/list").delegations[0].review.accepted == 0
    assert states(opened, "text.txt") == PENDING
    assert not editor_documents.abandoned()


def test_what_a_dead_server_has_saved_stays_accepted(opened):
    save(opened)
    end_server(opened)
    assert states(opened, "text.txt") == ACCEPTED
    assert not editor_documents.abandoned()


def test_a_switch_of_branches_after_the_end_leaves_it_accepted(opened):
    save(opened)
    git(opened, "stash", "--quiet")
    end_server(opened)
    assert states(opened, "text.txt") == ACCEPTED
    assert not editor_documents.abandoned()


def test_a_second_document_of_a_dead_server_is_compared_too(window):
    window.accepts = AcceptedDocuments()
    window.caller.show("text.txt")
    window.caller.show("more.txt")
    decide(window, "text.txt", "more.txt")
    end_server(window)
    window.caller.show("text.txt", RESULT)
    report(window, "open")
    assert states(window, "text.txt") == ACCEPTED
    assert states(window, "more.txt") == PENDING


# -- merged by hand --------------------------------------------------------------------------------------------------


def test_a_conflict_is_marked_as_merged_only_once_the_file_is_saved(window):
    window.caller.show("text.txt", changed((5, "mine\n")))
    window.write("text.txt", changed((5, "mine\n")))
    conflict = decide(window, "text.txt").conflicts[0]
    one = {"path": "text.txt", "hunk": conflict.hunk, "decision": "accept", "mergedManually": True}
    merged = changed((5, "mine and five\n"), SECOND, THIRD)
    window.caller.show("text.txt", merged)
    error = refused(ErrorKind.CONFLICT, window.call, "delegations/decide", id=window.id, decisions=[one])
    assert "Unsaved changes in text.txt" in error.message
    assert error.hint == "Save, then try again."
    assert states(window, "text.txt") == ["pending", "accepted", "accepted"]
    window.write("text.txt", merged)
    window.call("delegations/decide", id=window.id, decisions=[one])
    assert states(window, "text.txt") == ACCEPTED
