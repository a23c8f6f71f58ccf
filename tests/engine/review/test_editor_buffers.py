"""Test accepting into open buffers: the editor's text changes as the file on disk would, all or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numbered_lines import LINES, RESULT, changed
from open_documents import decide, refused, states, undo

from understudy.api.editor_files.accepted_documents import AcceptedDocuments, reconcile
from understudy.engine.review import review_state
from understudy.git.apply import transaction
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError


def on_disk(project) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() + bytes([path.stat().st_mode & 0o100])
        for path in project.top.iterdir()
        if path.is_file()
    }


def test_an_open_file_changes_in_the_editor_and_the_others_on_disk(window):
    window.caller.show("text.txt", "mine\n" + LINES)
    done = decide(window)
    assert window.caller.text("text.txt") == "mine\n" + RESULT
    assert (window.top / "text.txt").read_text() == LINES, "an accept must not save the document"
    assert (window.top / "more.txt").read_text() == RESULT
    assert not (window.top / "old.txt").exists()
    assert os.access(window.top / "run.sh", os.X_OK)
    assert len(window.caller.asked) == 1
    assert set(states(window, "text.txt") + states(window, "old.txt")) == {"accepted"}
    window.caller.texts[window.caller.uri("text.txt")] += "later\n"
    undo(window, done)
    assert window.caller.text("text.txt") == "mine\n" + LINES + "later\n"
    assert (window.top / "more.txt").read_text() == LINES
    assert (window.top / "old.txt").exists()
    assert not (window.top / "new.txt").exists()
    assert set(states(window, "text.txt")) == {"pending"}


@pytest.mark.parametrize("saved", [True, False])
def test_undone_where_the_file_is_then(window, saved):
    window.caller.show("text.txt", "mine\n" + LINES)
    done = decide(window, "text.txt")
    if saved:
        window.write("text.txt", window.caller.text("text.txt"))
    window.caller.texts.clear()
    undo(window, done)
    assert (window.top / "text.txt").read_text() == ("mine\n" if saved else "") + LINES
    assert not window.caller.asked[1:]


def test_accepted_on_disk_and_undone_in_the_editor(window):
    done = decide(window, "text.txt", "run.sh")
    window.caller.show("text.txt")
    window.caller.show("run.sh", "echo 2\na\nb\nmine\n")
    undo(window, done)
    assert window.caller.text("text.txt") == LINES
    assert (window.top / "text.txt").read_text() == RESULT
    assert not os.access(window.top / "run.sh", os.X_OK), "a mode is the disk's"
    assert (window.top / "run.sh").read_text() == "echo 2\na\nb\n"
    assert window.caller.text("run.sh") == "echo\na\nb\nmine\n"


def test_a_conflict_is_reported_for_the_text_of_the_editor(window):
    window.caller.show("text.txt", changed((20, "mine\n")))
    done = decide(window, "text.txt")
    [conflict] = done.conflicts
    assert conflict.yours == "mine\n"
    assert window.caller.text("text.txt") == changed((5, "five\n"), (20, "mine\n"), (35, "thirty-five\n"))
    undo(window, done)
    assert window.caller.text("text.txt") == changed((20, "mine\n"))


@pytest.mark.parametrize("kind", [None, ErrorKind.TIMED_OUT if hasattr(ErrorKind, "TIMED_OUT") else ErrorKind.INTERNAL])
def test_refused_everything_is_as_before(window, kind):
    window.caller.show("text.txt")
    before = on_disk(window)
    window.caller.answers = [False if kind is None else UnderstudyError(kind, "No answer in 10 s.")]
    error = refused(ErrorKind.MERGE_CONFLICT, decide, window)
    assert "text.txt" in error.message
    assert error.hint
    assert len(window.caller.asked) == 1, "a person who said no is not asked again"
    assert on_disk(window) == before
    assert window.caller.text("text.txt") == LINES
    assert set(states(window, "text.txt") + states(window, "old.txt")) == {"pending"}
    assert not review_state.has_interrupted_decision(delegation_folder.open_folder(window.id))
    decide(window)
    assert window.caller.text("text.txt") == RESULT


def test_text_typed_during_a_merge_is_merged(window):
    window.caller.show("text.txt")
    before = on_disk(window)

    def type_something() -> None:
        window.caller.show("text.txt", "typed\n" + LINES)

    window.caller.answers = [type_something]
    done = decide(window)
    assert window.caller.text("text.txt") == "typed\n" + RESULT
    assert len(window.caller.asked) == 2
    assert on_disk(window)["text.txt"] == before["text.txt"]
    window.caller.answers = [lambda: window.caller.show("text.txt", "more\ntyped\n" + RESULT)]
    undo(window, done)
    assert window.caller.text("text.txt") == "more\ntyped\n" + LINES
    assert on_disk(window) == before


def test_when_the_commit_fails_the_editor_takes_its_edit_back(window, monkeypatch):
    window.caller.show("text.txt")
    before = on_disk(window)

    def fail(self, then=None):
        raise UnderstudyError(ErrorKind.DISK_FULL, "The disk is full.", hint="Make room.")

    with monkeypatch.context() as patch:
        patch.setattr(transaction.FileTransaction, "commit", fail)
        refused(ErrorKind.DISK_FULL, decide, window)
    assert on_disk(window) == before
    assert window.caller.text("text.txt") == LINES
    assert set(states(window, "text.txt")) == {"pending"}
    decide(window)
    assert window.caller.text("text.txt") == RESULT


def test_changes_on_disk_are_refused_while_the_file_is_unsaved(window):
    window.caller.show("text.txt", "half a tho")
    window.caller.fixed = {window.caller.uri("text.txt")}
    error = refused(ErrorKind.CONFLICT, decide, window)
    assert error.names == ["text.txt"]
    window.caller.fixed = set()
    window.caller.show("text.txt")
    window.caller.show("old.txt", "old\nand more\n")
    decide(window)
    assert (window.top / "old.txt").exists(), "a deletion of what has changed is a conflict"
    assert states(window, "old.txt") == ["pending"]


def test_an_open_file_that_is_deleted_renamed_or_no_text_goes_to_disk(window):
    for path in ("old.txt", "run.sh"):
        window.caller.show(path)
    window.caller.show("new.txt", "\n")  # an editor's window for a file that is not there yet
    done = decide(window)
    assert not (window.top / "old.txt").exists()
    assert (window.top / "new.txt").read_text() == "new\n"
    assert os.access(window.top / "run.sh", os.X_OK)
    assert (window.top / "run.sh").read_text() == "echo\na\nb\n"
    assert window.caller.text("run.sh") == "echo 2\na\nb\n"
    window.caller.texts.pop(window.caller.uri("new.txt"))
    window.caller.texts.pop(window.caller.uri("old.txt"))
    undo(window, done)
    assert (window.top / "old.txt").read_text() == "old\n"
    assert window.caller.text("run.sh") == "echo\na\nb\n"
    assert not os.access(window.top / "run.sh", os.X_OK)


def test_a_file_that_was_never_saved_changes_in_the_editor(window):
    window.program(
        "second",
        """
        pathlib.Path("fresh.py").write_text("def one():\\n    return 1\\n")
        say(type="result", ok=True)
        """,
    )
    window.caller.show("fresh.py", "def one():\n    return 0\n")
    window.id = window.run("implement", "fresh.py", task="Return one.", delegator="second").id
    window.caller.show("fresh.py", "# mine\n\n\ndef one():\n    return 0\n")
    before = on_disk(window)
    done = decide(window)
    assert not done.conflicts
    assert window.caller.text("fresh.py") == "# mine\n\n\ndef one():\n    return 1\n"
    assert on_disk(window) == before
    undo(window, done)
    assert window.caller.text("fresh.py") == "# mine\n\n\ndef one():\n    return 0\n"
    assert on_disk(window) == before


def test_a_file_that_was_never_saved_cannot_be_made_executable(window):
    window.program(
        "second",
        """
        import os
        os.chmod("fresh.sh", 0o755)
        say(type="result", ok=True)
        """,
    )
    window.caller.show("fresh.sh", "echo\n")
    window.id = window.run("implement", "fresh.sh", task="Let it run.", delegator="second").id
    assert refused(ErrorKind.CONFLICT, decide, window, includeFlagged=True).names == ["fresh.sh"]
    window.write("fresh.sh", "echo\n")
    decide(window, includeFlagged=True)
    assert os.access(window.top / "fresh.sh", os.X_OK)


def test_line_ends_that_the_editor_spells_its_own_way_are_undone(window):
    crlf = LINES.replace("\n", "\r\n")
    window.top.joinpath("text.txt").write_bytes(crlf.encode())
    window.git("commit", "-qam", "other line ends")
    result = crlf.replace("line 5\r\n", "five\n")
    window.program("unix", f'pathlib.Path("text.txt").write_bytes({result.encode()!r})\nsay(type="result", ok=True)')
    window.id = window.run("implement", "text.txt", task="Five.", delegator="unix").id
    window.caller.show("text.txt")
    edit = window.caller.edit

    def edit_with_own_ends(edits):
        done = edit(edits)
        window.caller.texts = {
            uri: "\r\n".join(text.splitlines()) + "\r\n" for uri, text in window.caller.texts.items()
        }
        return done

    window.caller.edit = edit_with_own_ends
    done = decide(window)
    assert window.caller.text("text.txt") == crlf.replace("line 5\r\n", "five\r\n")
    undo(window, done)
    assert window.caller.text("text.txt") == crlf


def killed(project, point: str, *paths: str) -> int:
    """Accept in a process that is killed at a failpoint; then apply its edits to the editor's text."""
    decisions = [{"path": path, "decision": "accept"} for path in paths] or [{"decision": "accept"}]
    edited = project.top.parent / "edited"
    edited.unlink(missing_ok=True)
    script = textwrap.dedent(f"""
        import pathlib
        from understudy.api import method_table
        from understudy.api.caller import TerminalCaller

        class Window(TerminalCaller):
            def documents(self):
                return {project.caller.texts!r}
            def editor(self):
                return self
            def editable(self):
                return self.documents()
            def edit(self, edits):
                [edit] = edits
                pathlib.Path({str(edited)!r}).write_text(edit.after)
                return True

        method_table.call("delegations/decide", {{"id": {project.id!r}, "decisions": {decisions!r}}}, Window(pathlib.Path.cwd()))
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "UNDERSTUDY_FAILPOINT": point}, check=False
    )
    if edited.exists():
        project.caller.show("text.txt", edited.read_text())
    return done.returncode


def restart_server(project) -> None:
    """Open the document again, as an editor does whose server was killed."""
    state = AcceptedDocuments().state_after(project.top / "text.txt", "open", project.caller.documents)
    if state is not None:
        reconcile(state, by="lsp")


def test_killed_after_the_edit_the_hunk_is_pending_and_accepted_again_changes_nothing(window):
    """The editor, a process of its own, has done it; the sidecar dies before it can say so."""
    before = on_disk(window)
    for paths in ([], ["text.txt"]):
        window.caller.show("text.txt", "mine\n" + LINES)
        assert killed(window, "edited:1", *paths) == -signal.SIGKILL
        assert window.caller.text("text.txt") == "mine\n" + RESULT
        assert set(states(window, "text.txt") + states(window, "more.txt")) == {"pending"}
        assert on_disk(window) == before
        assert not review_state.has_interrupted_decision(delegation_folder.open_folder(window.id))
    decide(window)
    assert not window.caller.asked, "it is there already"
    assert window.caller.text("text.txt") == "mine\n" + RESULT
    assert (window.top / "more.txt").read_text() == RESULT
    assert set(states(window, "text.txt") + states(window, "more.txt")) == {"accepted"}


@pytest.mark.heavy
@pytest.mark.parametrize("paths", [("text.txt",), ("text.txt", "more.txt", "new.txt", "run.sh")])
def test_killed_anywhere_it_is_all_or_nothing_and_can_be_completed_and_undone(window, paths):
    before = on_disk(window)
    after = None
    for number in range(1, 200):
        window.caller.show("text.txt", "mine\n" + LINES)
        code = killed(window, f"*:{number}", *paths)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        restart_server(window)
        [found] = {state for path in paths for state in states(window, path)}
        if found == "pending":
            assert on_disk(window) == before, number
            decide(window, *paths)
        assert window.caller.text("text.txt") == "mine\n" + RESULT
        after = after or on_disk(window)
        assert on_disk(window) == after, number
        [*_, applied] = [event for event in window.events(window.id) if type(event).__name__ == "Applied"]
        window.call("delegations/undo", undoToken=applied.undo_token)
        assert on_disk(window) == before, number
        assert window.caller.text("text.txt").startswith("mine\n")
        assert {state for path in paths for state in states(window, path)} == {"pending"}
    assert number > 5


FILES = ("text.txt", "more.txt")
LINE_EDITS = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from(["", "mine\n", "five\n", "twenty\n", "two\nlines\n", "é\r\n"])),
    max_size=4,
)
TEXTS = st.builds(
    lambda edits, ahead, done: ahead + (RESULT if done else changed(*edits)),
    LINE_EDITS,
    st.sampled_from(["", "ahead\n", "é\n"]),
    st.booleans(),
)
LATER = st.sampled_from([("", ""), ("later\n", ""), ("", "later\n")]) | st.just(("five\n", "six\n"))


def later(text: str, edit: tuple[str, str]) -> str:
    return text.replace("five\n", "six\n") if edit[0] == "five\n" else edit[0] + text + edit[1]


@pytest.mark.heavy
def test_accepted_in_the_editor_as_it_would_be_on_disk(window):
    """The same visible texts, in files or in an editor, become the same visible texts, and come back."""
    files = window.call("delegations/diff", id=window.id).files
    choices = [{"path": file.path, "hunk": hunk.id} for file in files for hunk in file.hunks if file.path in FILES]

    def put(texts: dict[str, str], opened: dict[str, str], codec: str, stale: str) -> None:
        """Set the texts that the user sees; files in ``opened`` have the text ``stale`` on disk."""
        window.caller.texts.clear()
        for path, text in texts.items():
            on_disk = stale if path in opened else text
            (window.top / path).write_bytes(on_disk.encode(codec))
            if path in opened:
                window.caller.show(path, text)

    def seen(codec: str) -> dict[str, str]:
        return {
            path: window.caller.texts.get(window.caller.uri(path), None)
            or (window.top / path).read_bytes().decode(codec)
            for path in FILES
        }

    def outcome(chosen, edit, codec):
        """Return what is seen after an accept, after an undo that comes after an edit, and what was said."""
        before = seen(codec)
        done = window.call("delegations/decide", id=window.id, decisions=chosen)
        accepted = seen(codec)
        told = [(one.path, one.hunk, one.yours) for one in done.conflicts]
        marks = states(window, "text.txt") + states(window, "more.txt")
        if done.undo_token is None:
            assert accepted == before
            return accepted, told, marks, None
        opened = {path for path in FILES if window.caller.uri(path) in window.caller.texts}
        for path in FILES:
            if path in opened:
                window.caller.show(path, later(accepted[path], edit))
            else:
                (window.top / path).write_bytes(later(accepted[path], edit).encode(codec))
        refusal = None
        try:
            undo(window, done)
        except UnderstudyError as error:
            refusal = error.kind, error.names
        undone = seen(codec)
        if refusal is not None or edit == ("", ""):
            for path in FILES:
                if path in opened:
                    window.caller.show(path, accepted[path])
                else:
                    (window.top / path).write_bytes(accepted[path].encode(codec))
            if refusal is not None:
                undo(window, done)
                assert seen(codec) == before
            else:
                assert undone == before
        assert set(states(window, "text.txt")) == {"pending"}
        return accepted, told, marks, (refusal, undone)

    @settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.fixed_dictionaries(dict.fromkeys(FILES, TEXTS)),
        st.sets(st.sampled_from(FILES), min_size=1),
        st.lists(st.sampled_from(choices), min_size=1, unique_by=lambda one: one["hunk"]),
        LATER,
        st.sampled_from(["utf-8", "latin-1"]),
    )
    def same(texts, opened, chosen, edit, codec):
        chosen = [{**one, "decision": "accept"} for one in chosen]
        if codec == "latin-1":  # what no UTF-8 is, so that it is found
            texts = {path: "caf\xe9\n" + text for path, text in texts.items()}
        stale = "caf\xe9\n" + LINES if codec == "latin-1" else LINES
        put(texts, {}, codec, stale)
        expected = outcome(chosen, edit, codec)
        put(texts, dict.fromkeys(opened, ""), codec, stale)
        found = outcome(chosen, edit, codec)
        assert found == expected
        for path in opened:
            assert (window.top / path).read_bytes() == stale.encode(codec), "an accept must not save open documents"

    same()
