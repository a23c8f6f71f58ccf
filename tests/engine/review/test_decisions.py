"""Test accept, reject, undo and amend: the user's files and the journal after each decision."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from numbered_lines import LINES, RESULT, changed

from understudy.engine.review import review_state
from understudy.git.merge import hunk_merge
from understudy.journal import delegation_folder, worker_files
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting


@pytest.fixture
def reviewed(project, made_once):
    """A project with a finished delegation: three hunks in one file, a new file, a deleted one."""
    project.id = made_once("reviewed", lambda: number_lines(project))
    return project


def number_lines(project):
    project.write("text.txt", LINES)
    project.write("old.txt", "old\n")
    project.commit()
    project.program(
        "editor",
        f"""
        pathlib.Path("text.txt").write_text({RESULT!r})
        pathlib.Path("new.txt").write_text("new\\n")
        pathlib.Path("old.txt").unlink()
        say(type="result", ok=True)
        """,
    )
    done = project.run("implement", "text.txt", task="Number them.", delegator="editor")
    assert done.review.pending == 5
    return done.id


def hunks(project, path: str = "text.txt"):
    diff = project.call("delegations/diff", id=project.id)
    return next(file.hunks for file in diff.files if file.path == path)


def decide(project, *decisions, **more):
    return project.call("delegations/decide", id=project.id, decisions=list(decisions), **more)


def review(project):
    found = project.call("delegations/get", id=project.id).review
    return found.pending, found.accepted, found.rejected


def text(project, path: str = "text.txt") -> str:
    return (project.top / path).read_text()


def refused(kind: ErrorKind, call, *args, **kwargs) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        call(*args, **kwargs)
    assert caught.value.kind is kind, caught.value
    return caught.value


def test_one_hunk_a_file_and_everything(reviewed):
    before = reviewed.fingerprint()
    first = hunks(reviewed)[0]
    done = decide(reviewed, {"path": "text.txt", "hunk": first.id, "decision": "accept"})
    assert text(reviewed) == changed((5, "five\n"))
    assert review(reviewed) == (4, 1, 0)
    assert done.undo_token
    assert not done.conflicts
    assert [hunk.state for hunk in hunks(reviewed)] == ["accepted", "pending", "pending"]
    assert hunks(reviewed)[0].by == "cli"
    decide(reviewed, {"path": "text.txt", "decision": "accept"})
    assert text(reviewed) == RESULT
    assert (reviewed.top / "old.txt").exists()
    decide(reviewed, {"decision": "accept"})
    assert review(reviewed) == (0, 5, 0)
    assert text(reviewed, "new.txt") == "new\n"
    assert not (reviewed.top / "old.txt").exists()
    assert reviewed.fingerprint() == before, "index, HEAD and refs must not change"


def test_an_edit_of_the_user_is_merged(reviewed):
    reviewed.write("text.txt", "mine\n" + LINES)
    decide(reviewed, {"path": "text.txt", "decision": "accept"})
    assert text(reviewed) == "mine\n" + RESULT


@pytest.mark.parametrize("saves", [1, 2, 3])
def test_a_save_in_the_middle_of_an_accept_wins(reviewed, monkeypatch, saves):
    plan, saved = hunk_merge.plan, []

    def save_after(*arguments, **more):
        made = plan(*arguments, **more)
        if len(saved) < saves:
            saved.append(changed((1, f"saved {len(saved)}\n")))
            reviewed.write("text.txt", saved[-1])
        return made

    monkeypatch.setattr(hunk_merge, "plan", save_after)
    if saves < 3:
        decide(reviewed, {"path": "text.txt", "decision": "accept"})
        assert text(reviewed) == RESULT.replace("line 1\n", f"saved {saves - 1}\n", 1)
        assert review(reviewed) == (2, 3, 0)
    else:
        refused(ErrorKind.MERGE_CONFLICT, decide, reviewed, {"decision": "accept"})
        assert text(reviewed) == saved[-1]
        assert not (reviewed.top / "new.txt").exists()
        assert review(reviewed) == (5, 0, 0)
        folder = delegation_folder.open_folder(reviewed.id).path
        assert not (folder / "decision-intent.json").exists()
        assert list((folder / "undo").iterdir()) == []


def test_a_conflict_stays_pending_and_shows_its_three_sides(reviewed):
    reviewed.write("text.txt", changed((20, "mine\n")))
    done = decide(reviewed, {"path": "text.txt", "decision": "accept"})
    [conflict] = done.conflicts
    assert (conflict.base, conflict.result, conflict.yours) == ("line 20\n", "twenty\n", "mine\n")
    assert text(reviewed) == changed((5, "five\n"), (20, "mine\n"), (35, "thirty-five\n"))
    assert [(hunk.state, hunk.conflict) for hunk in hunks(reviewed)] == [
        ("accepted", False), ("pending", True), ("accepted", False)
    ]  # fmt: skip
    assert review(reviewed) == (3, 2, 0)
    assert reviewed.call("delegations/get", id=reviewed.id).conflicts == [conflict.hunk]
    reviewed.write("text.txt", changed((5, "five\n"), (35, "thirty-five\n")))
    decide(reviewed, {"path": "text.txt", "decision": "accept"})
    assert text(reviewed) == RESULT
    assert not any(hunk.conflict for hunk in hunks(reviewed))
    assert reviewed.call("delegations/get", id=reviewed.id).conflicts == []


def test_a_manual_merge_counts_as_accepted_and_changes_no_file(reviewed):
    reviewed.write("text.txt", changed((20, "mine\n")))
    decide(reviewed, {"path": "text.txt", "decision": "accept"})
    merged = changed((5, "five\n"), (20, "twenty, and mine\n"), (35, "thirty-five\n"))
    reviewed.write("text.txt", merged)
    second = hunks(reviewed)[1]
    wish = {"path": "text.txt", "hunk": second.id, "mergedManually": True}
    refused(ErrorKind.INVALID_PARAMS, decide, reviewed, wish | {"decision": "reject"})
    # In one call with a file that is to be merged: each goes its own way.
    done = decide(reviewed, wish | {"decision": "accept"}, {"path": "new.txt", "decision": "accept"})
    assert not done.conflicts
    assert done.decided[-1:] == [second.id]
    assert text(reviewed) == merged
    assert text(reviewed, "new.txt") == "new\n"
    assert [(hunk.state, hunk.conflict) for hunk in hunks(reviewed)] == [("accepted", False)] * 3
    assert review(reviewed) == (1, 4, 0)
    refused(ErrorKind.CONFLICT, decide, reviewed, {"path": "text.txt", "hunk": second.id, "decision": "reject"})
    reviewed.call("delegations/undo", undoToken=done.undo_token)
    assert text(reviewed) == merged, "undo must not change what the user merged manually"
    assert not (reviewed.top / "new.txt").exists()
    assert [hunk.state for hunk in hunks(reviewed)] == ["accepted", "pending", "accepted"]
    # Alone it is an accept, too.
    done = decide(reviewed, wish | {"decision": "accept"})
    assert done.decided == [second.id]
    assert done.undo_token
    assert text(reviewed) == merged


def test_rejected_with_a_reason_and_taken_up_again(reviewed):
    [new] = hunks(reviewed, "new.txt")
    decide(reviewed, {"path": "new.txt", "hunk": new.id, "decision": "reject", "reason": "Not needed."})
    assert not (reviewed.top / "new.txt").exists()
    [new] = hunks(reviewed, "new.txt")
    assert (new.state, new.reason, new.by) == ("rejected", "Not needed.", "cli")
    assert review(reviewed) == (4, 0, 1)
    decide(reviewed, {"decision": "accept"})
    assert not (reviewed.top / "new.txt").exists(), "accepting everything means all pending hunks"
    decide(reviewed, {"path": "new.txt", "hunk": new.id, "decision": "accept"})
    assert text(reviewed, "new.txt") == "new\n"
    assert review(reviewed) == (0, 5, 0)


def test_undo_keeps_later_edits(reviewed):
    token = decide(reviewed, {"decision": "accept"}).undo_token
    reviewed.write("text.txt", "mine\n" + RESULT)
    reviewed.call("delegations/undo", undoToken=token)
    assert text(reviewed) == "mine\n" + LINES
    assert text(reviewed, "old.txt") == "old\n"
    assert not (reviewed.top / "new.txt").exists()
    assert review(reviewed) == (5, 0, 0)
    refused(ErrorKind.CONFLICT, reviewed.call, "delegations/undo", undoToken=token)
    decide(reviewed, {"path": "text.txt", "decision": "accept"})
    assert text(reviewed) == "mine\n" + RESULT


def test_an_undo_compares_only_results_that_share_its_files(reviewed, monkeypatch):
    same = reviewed.run("implement", "text.txt", task="Number them.", delegator="editor").id
    reviewed.program("other", 'pathlib.Path("other.txt").write_text("other\\n")\nsay(type="result", ok=True)')
    other = reviewed.run("implement", task="Another file.", delegator="other").id
    undone = decide(reviewed, {"decision": "accept"}).undo_token
    for identifier in (same, other):
        reviewed.call("delegations/decide", id=identifier, decisions=[{"decision": "accept"}])
    compared = []
    files_of = review_state.files_of
    monkeypatch.setattr(
        review_state, "files_of", lambda folder, *more: compared.append(folder.id) or files_of(folder, *more)
    )
    reviewed.call("delegations/undo", undoToken=undone)
    assert reviewed.call("delegations/get", id=same).review.pending == 5
    assert other not in compared


def test_an_undo_that_overlaps_changes_nothing(reviewed):
    token = decide(reviewed, {"decision": "accept"}).undo_token
    mine = changed((5, "my five\n"), (20, "twenty\n"), (35, "thirty-five\n"))
    reviewed.write("text.txt", mine)
    refused(ErrorKind.MERGE_CONFLICT, reviewed.call, "delegations/undo", undoToken=token)
    assert text(reviewed) == mine
    assert not (reviewed.top / "old.txt").exists()
    assert review(reviewed) == (0, 5, 0)


def test_what_cannot_be_decided(reviewed):
    first = hunks(reviewed)[0]
    refused(ErrorKind.INVALID_PARAMS, decide, reviewed, {"path": "none.txt", "decision": "accept"})
    refused(ErrorKind.INVALID_PARAMS, decide, reviewed, {"path": "text.txt", "hunk": "0" * 12, "decision": "accept"})
    refused(ErrorKind.INVALID_PARAMS, decide, reviewed, {"hunk": first.id, "decision": "accept"})
    refused(ErrorKind.INVALID_PARAMS, reviewed.call, "delegations/undo", undoToken="nonsense")
    refused(ErrorKind.INVALID_PARAMS, reviewed.call, "delegations/undo", undoToken=reviewed.id + ".00000000")
    decide(reviewed, {"path": "text.txt", "hunk": first.id, "decision": "accept"})
    named = {"path": "text.txt", "hunk": first.id}
    refused(ErrorKind.CONFLICT, decide, reviewed, {**named, "decision": "reject"})
    decide(reviewed, {**named, "decision": "accept"})
    assert review(reviewed) == (4, 1, 0)


def test_who_holds_the_lock_decides(reviewed, monkeypatch):
    from understudy.engine.review import decision_recovery

    monkeypatch.setattr(decision_recovery, "LOCK_SECONDS", 0.05)
    folder = delegation_folder.open_folder(reviewed.id)
    lock = worker_files.try_lock(folder)
    assert lock is not None
    try:
        refused(ErrorKind.CONFLICT, decide, reviewed, {"decision": "accept"})
    finally:
        os.close(lock)
    assert text(reviewed) == LINES


def test_unsaved_text_of_the_caller_is_not_written_under(reviewed, monkeypatch):
    uri = (reviewed.top / "text.txt").as_uri()
    monkeypatch.setattr(reviewed.caller, "documents", lambda: {uri: "half a tho"})
    error = refused(ErrorKind.CONFLICT, decide, reviewed, {"decision": "accept"})
    assert error.names == ["text.txt"]
    decide(reviewed, {"path": "new.txt", "decision": "accept"})
    monkeypatch.setattr(reviewed.caller, "documents", lambda: {uri: LINES})
    decide(reviewed, {"decision": "accept"})
    assert text(reviewed) == RESULT


def test_flagged_files_need_explicit_consent(project):
    project.program(
        "sly",
        """
        pathlib.Path(".github/workflows").mkdir(parents=True)
        pathlib.Path(".github/workflows/ci.yml").write_text("on: push\\n")
        pathlib.Path("fine.txt").write_text("fine\\n")
        say(type="result", ok=True)
        """,
    )
    project.id = project.run("implement", task="Be sly.", delegator="sly").id
    error = refused(ErrorKind.CONFLICT, decide, project, {"decision": "accept"})
    assert error.names == [".github/workflows/ci.yml"]
    files = project.call("delegations/diff", id=project.id).files
    assert {file.path: file.flag_reason for file in files} == {
        ".github/workflows/ci.yml": "runs in continuous integration",
        "fine.txt": None,
    }, "a client can read the flags before it decides"
    assert not (project.top / "fine.txt").exists()
    decide(project, {"path": "fine.txt", "decision": "accept"})
    decide(project, {"decision": "accept"}, includeFlagged=True)
    assert (project.top / ".github/workflows/ci.yml").exists()


def test_amend_keeps_the_decisions_that_still_fit(reviewed):
    first, second, third = hunks(reviewed)
    decide(
        reviewed,
        {"path": "text.txt", "hunk": first.id, "decision": "accept"},
        {"path": "text.txt", "hunk": third.id, "decision": "reject", "reason": "No."},
    )
    head = reviewed.call("delegations/diff", id=reviewed.id).head
    edited = RESULT.replace("twenty\n", "score\n")
    done = reviewed.call("delegations/amend", id=reviewed.id, path="text.txt", text=edited, head=head)
    assert [(hunk.state, hunk.edited, hunk.reason) for hunk in done.hunks] == [
        ("accepted", False, None), ("pending", True, None), ("rejected", False, "No.")
    ]  # fmt: skip
    assert hunks(reviewed) == done.hunks
    assert review(reviewed) == (3, 1, 1)
    refused(ErrorKind.CONFLICT, reviewed.call, "delegations/amend", id=reviewed.id, path="text.txt", text="", head=head)
    assert second.id not in {hunk.id for hunk in done.hunks}
    decide(reviewed, {"path": "text.txt", "decision": "accept"})
    assert text(reviewed) == changed((5, "five\n"), (20, "score\n"))
    found = reviewed.call("delegations/get", id=reviewed.id)
    assert found.verdict == "unverified"
    assert "no_checks" in found.reservations
    assert b"score" in delegation_folder.open_folder(reviewed.id).review.read_bytes()


def test_an_accept_before_an_amend_can_be_undone_after_it(reviewed):
    first = hunks(reviewed)[0]
    token = decide(reviewed, {"path": "text.txt", "hunk": first.id, "decision": "accept"}).undo_token
    head = reviewed.call("delegations/diff", id=reviewed.id).head
    edited = RESULT.replace("twenty\n", "score\n")
    reviewed.call("delegations/amend", id=reviewed.id, path="text.txt", text=edited, head=head)
    reviewed.call("delegations/undo", undoToken=token)
    assert text(reviewed) == LINES
    assert review(reviewed) == (5, 0, 0)


def amend(project, path: str, content: str):
    head = project.call("delegations/diff", id=project.id).head
    return project.call("delegations/amend", id=project.id, path=path, text=content, head=head)


def undo_amend(project, path: str):
    head = project.call("delegations/diff", id=project.id).head
    return project.call("delegations/undoAmend", id=project.id, path=path, head=head)


def state(project):
    """Everything that a review shows, but the commit and the times."""
    diff = project.call("delegations/diff", id=project.id)
    return (
        diff.files,
        [file.path for file in diff.edited if file.undoable],
        project.call("delegations/get", id=project.id).review,
    )


def test_every_edit_can_be_undone_with_its_decisions(reviewed):
    first, second, third = hunks(reviewed)
    token = decide(reviewed, {"path": "text.txt", "hunk": first.id, "decision": "accept"}).undo_token
    decide(reviewed, {"path": "text.txt", "hunk": second.id, "decision": "reject", "reason": "No."})
    seen = [state(reviewed)]
    for content in (RESULT.replace("twenty\n", "score\n"), LINES):  # the second leaves the file without hunks
        amend(reviewed, "text.txt", content)
        seen.append(state(reviewed))
    amend(reviewed, "text.txt", LINES)  # no edit
    assert "text.txt" not in {file.path for file in seen[-1][0]}
    assert seen[-1][1] == ["text.txt"]
    reviewed.call("delegations/undo", undoToken=token)  # the first hunk, which no version has now
    assert undo_amend(reviewed, "text.txt").hunks[1].edited
    seen[1][0][-1].hunks[0] = hunks(reviewed)[0]  # its accept was undone meanwhile
    assert hunks(reviewed)[0].state == "pending"
    done = undo_amend(reviewed, "text.txt").hunks
    assert [(hunk.id, hunk.state, hunk.reason) for hunk in done] == [
        (first.id, "pending", None), (second.id, "rejected", "No."), (third.id, "pending", None)
    ]  # fmt: skip
    assert state(reviewed)[1] == []
    refused(ErrorKind.INVALID_PARAMS, undo_amend, reviewed, "text.txt")


def test_an_undone_edit_gives_the_verdict_back(reviewed):
    before = reviewed.call("delegations/get", id=reviewed.id)
    amend(reviewed, "new.txt", "newer\n")
    assert "no_checks" in reviewed.call("delegations/get", id=reviewed.id).reservations
    undo_amend(reviewed, "new.txt")
    after = reviewed.call("delegations/get", id=reviewed.id)
    assert (after.verdict, after.reservations) == (before.verdict, before.reservations)
    amend(reviewed, "old.txt", "restored\n")  # the result deleted it
    undo_amend(reviewed, "old.txt")
    assert [file.status for file in state(reviewed)[0] if file.path == "old.txt"] == ["deleted"]


def test_an_edit_that_was_accepted_is_not_undone_below_the_user(reviewed):
    edited = amend(reviewed, "text.txt", RESULT.replace("twenty\n", "score\n")).hunks[1]
    token = decide(reviewed, {"path": "text.txt", "hunk": edited.id, "decision": "accept"}).undo_token
    assert token in str(refused(ErrorKind.CONFLICT, undo_amend, reviewed, "text.txt").hint)
    reviewed.call("delegations/undo", undoToken=token)
    undo_amend(reviewed, "text.txt")
    assert not any(hunk.edited for hunk in hunks(reviewed))


def test_one_change_of_an_accept_is_undone_alone(reviewed):
    token = decide(reviewed, {"decision": "accept"}).undo_token
    (reviewed.top / "text.txt").write_text("mine\n" + RESULT)
    first, second, third = hunks(reviewed)
    assert {hunk.undo_token for hunk in (first, second, third)} == {token}
    reviewed.call("delegations/undo", undoToken=token, hunks=[second.id])
    assert text(reviewed) == "mine\n" + changed((5, "five\n"), (35, "thirty-five\n"))
    assert [hunk.state for hunk in hunks(reviewed)] == ["accepted", "pending", "accepted"]
    refused(ErrorKind.INVALID_PARAMS, reviewed.call, "delegations/undo", undoToken=token, hunks=[second.id])
    (new,) = hunks(reviewed, "new.txt")
    reviewed.call("delegations/undo", undoToken=token, hunks=[new.id])
    assert not (reviewed.top / "new.txt").exists()
    again = decide(reviewed, {"path": "text.txt", "hunk": second.id, "decision": "accept"}).undo_token
    assert text(reviewed) == "mine\n" + RESULT
    reviewed.call("delegations/undo", undoToken=token)
    assert text(reviewed) == "mine\n" + changed((20, "twenty\n"))
    assert text(reviewed, "old.txt") == "old\n"
    reviewed.call("delegations/undo", undoToken=again, hunks=[second.id])  # the last one ends the accept
    assert text(reviewed) == "mine\n" + LINES
    assert reviewed.call("delegations/diff", id=reviewed.id).undoable == []


def test_a_rejection_is_taken_back(reviewed):
    decide(reviewed, {"path": "text.txt", "decision": "reject", "reason": "No."})
    decide(reviewed, {"path": "text.txt", "hunk": hunks(reviewed)[0].id, "decision": "pending"})
    assert review(reviewed) == (3, 0, 2)
    decide(reviewed, {"decision": "pending"})
    assert review(reviewed) == (5, 0, 0)
    assert {hunk.reason for hunk in hunks(reviewed)} == {None}


def test_names_that_are_no_text_and_links_and_modes(project):
    project.write("run.sh", "echo\n")
    project.commit()
    project.program(
        "odd",
        """
        import os
        os.chmod("run.sh", 0o755)
        os.symlink("calc.py", "link")
        open(b"na\\xefve", "wb").write(b"\\0\\xff")
        say(type="result", ok=True)
        """,
    )
    project.id = project.run("implement", task="Be odd.", delegator="odd").id
    decide(project, {"path": path_quoting.quote(b"na\xefve"), "decision": "accept"}, {"decision": "accept"})
    assert os.access(project.top / "run.sh", os.X_OK)
    assert (project.top / "link").readlink() == Path("calc.py")
    assert (project.top / os.fsdecode(b"na\xefve")).read_bytes() == b"\0\xff"


def test_a_renamed_and_a_removed_file_have_their_attributes_again_after_an_undo(project):
    body = "".join(f"line {number}\n" for number in range(30))
    for name, mode in (("key.txt", 0o600), ("notes.txt", 0o640), ("kind.txt", 0o600)):
        project.write(name, f"{name}\n{body}")
        (project.top / name).chmod(mode)
        os.setxattr(project.top / name, "user.label", b"mine \xff")
    project.commit()
    project.program(
        "mover",
        """
        import os
        os.rename("key.txt", "moved.txt")
        with open("moved.txt", "a") as file:
            file.write("one more\\n")
        os.remove("notes.txt")
        os.remove("kind.txt")
        os.symlink("calc.py", "kind.txt")
        say(type="result", ok=True)
        """,
    )
    project.id = project.run("implement", task="Move it.", delegator="mover").id
    token = decide(project, {"decision": "accept"}).undo_token
    moved = project.top / "moved.txt"
    assert text(project, "moved.txt").endswith("one more\n")
    assert (moved.stat().st_mode & 0o777, os.getxattr(moved, "user.label")) == (0o600, b"mine \xff")
    moved.chmod(0o660)
    project.call("delegations/undo", undoToken=token)
    for name, mode in (("key.txt", 0o660), ("notes.txt", 0o640), ("kind.txt", 0o600)):
        assert text(project, name) == f"{name}\n{body}"
        assert (project.top / name).stat().st_mode & 0o777 == mode, name
        assert os.getxattr(project.top / name, "user.label") == b"mine \xff", name
    assert not moved.exists()


def test_a_file_that_comes_back_gets_no_rights_that_its_folder_gives_to_new_ones(project):
    def entries(*lines):
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *line) for line in lines)

    none = 0xFFFFFFFF
    project.program("remover", "pathlib.Path('calc.py').unlink()\nsay(type='result', ok=True)")
    (project.top / "calc.py").chmod(0o640)
    project.id = project.run("implement", task="Remove it.", delegator="remover").id
    acl = entries((1, 7, none), (2, 7, 1234), (4, 5, none), (0x10, 7, none), (0x20, 5, none))
    try:
        os.setxattr(project.top, "system.posix_acl_default", acl)
    except OSError:
        pytest.skip("this file system has no access control lists")
    token = decide(project, {"decision": "accept"}).undo_token
    project.call("delegations/undo", undoToken=token)
    assert (project.top / "calc.py").stat().st_mode & 0o777 == 0o640
    assert "system.posix_acl_access" not in os.listxattr(project.top / "calc.py")


def test_a_run_without_changes_is_dismissed_until_it_is_checked_again(project):
    project.program("idle", 'say(type="result", ok=True)')
    project.id = project.run("implement", task="Nothing.", delegator="idle").id
    for _ in range(2):
        project.call("delegations/dismissRun", id=project.id)
    found = project.call("delegations/get", id=project.id)
    assert (found.verdict, found.dismissed) == ("no_changes", True)
    kinds = [type(event).__name__ for event in project.call("delegations/events", id=project.id).events]
    assert kinds.count("Dismissed") == 1


def test_text_has_no_hunks(project):
    project.program("talker", 'say(type="result", ok=True, text="An answer.")')
    done = project.run("ask", task="What?", delegator="talker")
    project.id = done.id
    refused(ErrorKind.BASE_UNAVAILABLE, decide, project, {"decision": "accept"})


@pytest.mark.parametrize("kind", ["pipe", "link", "garbage"])
@pytest.mark.parametrize("name", ["file-transaction", "decision-intent.json", "worktree.json"])
def test_planted_files_among_the_records_do_not_block(reviewed, kind, name):
    place = delegation_folder.open_folder(reviewed.id).path / name
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to("/dev/zero")
    else:
        place.write_bytes(b"\xff[[[\n")
    with pytest.raises(UnderstudyError) as caught:
        decide(reviewed, {"decision": "accept"})
    assert caught.value.kind in {ErrorKind.STATE_UNAVAILABLE, ErrorKind.BASE_UNAVAILABLE}
    assert text(reviewed) == LINES


def test_every_file_that_wants_a_second_look_is_named_so_that_it_reads_as_one(project):
    project.program(
        "sly",
        """
        for number in range(42):
            pathlib.Path(f"d{number:02}").mkdir()
            pathlib.Path(f"d{number:02}/Makefile").write_text("all:\\n")
        pathlib.Path("all is fine\\n\\nx").mkdir()
        pathlib.Path("all is fine\\n\\nx/Makefile").write_text("all:\\n")
        say(type="result", ok=True)
        """,
    )
    project.id = project.run("implement", task="Be sly.", delegator="sly").id
    error = refused(ErrorKind.CONFLICT, decide, project, {"decision": "accept"})
    assert error.message.count("can run commands") == 40
    assert "and 3 more" in error.message
    assert "\n" not in error.message
    assert len(error.names) == 43
