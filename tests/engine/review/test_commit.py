"""Test the commit of accepted files: exactly them, by the user's own git, with the evidence in the message."""

from __future__ import annotations

import pytest
from numbered_lines import LINES, RESULT, changed
from open_documents import Window, decide, refused, states

from understudy.engine.review import commit as commits
from understudy.model.errors import ErrorKind

MINE = "mine.txt"


@pytest.fixture
def accepted(window):
    """A project with an accepted text, a new file and a deleted one; beside them changed and staged files of the user."""
    window.git("config", "user.name", "Ada")
    window.git("config", "user.email", "ada@example.invalid")
    window.write(MINE, "staged\n")
    window.git("add", MINE)
    window.write("calc.py", "dirty\n")
    decide(window, "text.txt", "new.txt", "old.txt")
    return window


def commit(project, **more):
    return project.call("delegations/commit", id=project.id, **more)


def committed(project) -> list[str]:
    return project.git("show", "--format=", "--name-status", "--no-renames", "HEAD").splitlines()


def test_exactly_the_accepted_files_are_committed(accepted):
    before = accepted.git("rev-parse", "HEAD")
    shown = commit(accepted, dryRun=True)
    assert accepted.git("rev-parse", "HEAD") == before
    assert (shown.files, shown.mixed, shown.commit) == (["new.txt", "old.txt", "text.txt"], [], None)
    done = commit(accepted)
    assert committed(accepted) == ["A\tnew.txt", "D\told.txt", "M\ttext.txt"]
    assert accepted.git("rev-parse", "HEAD", "HEAD^").split() == [done.commit, before.strip()]
    assert accepted.git("status", "--porcelain").splitlines() == [" M calc.py", f"A  {MINE}"]
    message = accepted.git("log", "-1", "--format=%B").strip()
    assert message == done.message.strip() == shown.message.strip()
    title, blank, *body = message.splitlines()
    assert title.endswith("Number them.")
    assert blank == ""
    assert body[0] == "Delegated to editor with Understudy."
    assert body[1].startswith("Verdict: unverified: ")
    assert body[-1] == f"Delegation: {accepted.id}"
    assert "Accepted: 5 of 10 changes." in " ".join(body)
    error = refused(ErrorKind.INPUT_EMPTY, commit, accepted)
    assert error.hint == "Your last commit contains what was accepted."


def test_files_with_other_changes_of_the_user_are_named(accepted):
    accepted.write("text.txt", RESULT + "mine\n")
    assert commit(accepted, dryRun=True).mixed == ["text.txt"]
    done = commit(accepted, message="Number the lines\n\nAs asked.")
    assert done.mixed == ["text.txt"]
    assert accepted.git("log", "-1", "--format=%B").strip() == "Number the lines\n\nAs asked."
    assert accepted.git("show", "HEAD:text.txt") == RESULT + "mine\n"


def test_hooks_of_the_user_run_and_can_refuse(accepted):
    before = accepted.git("rev-parse", "HEAD"), accepted.git("status", "--porcelain")
    hook = accepted.write(".git/hooks/pre-commit", "#!/bin/sh\necho 'lines are too long' >&2\nexit 1\n")
    hook.chmod(0o755)
    error = refused(ErrorKind.CONFLICT, commit, accepted)
    assert "lines are too long" in error.message
    assert (accepted.git("rev-parse", "HEAD"), accepted.git("status", "--porcelain")) == before
    hook.write_text("#!/bin/sh\ngit diff --cached --name-only > seen\n")
    commit(accepted)
    assert (accepted.top / "seen").read_text().split() == ["new.txt", "old.txt", "text.txt"]


def test_nothing_of_an_untrusted_workspace_runs(accepted):
    hook = accepted.write(".git/hooks/pre-commit", "#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    accepted.git("config", "core.fsmonitor", "touch ran; false")
    accepted.call("workspace/trust", workspace=str(accepted.top), trusted=False)
    for more in ({}, {"dryRun": True}):
        refused(ErrorKind.UNTRUSTED_WORKSPACE, commit, accepted, **more)
    assert not (accepted.top / "ran").exists()


def test_unsaved_text_is_not_left_behind(accepted):
    accepted.caller.show("text.txt", changed((5, "five\n")))
    error = refused(ErrorKind.CONFLICT, commit, accepted)
    assert error.names == ["text.txt"]


def test_without_an_accept_there_is_nothing_to_commit(window):
    error = refused(ErrorKind.INPUT_EMPTY, commit, window)
    assert error.hint == "Accept changes first."
    assert set(states(window, "text.txt")) == {"pending"}
    assert (window.top / "text.txt").read_text() == LINES


def test_a_merge_is_not_concluded(accepted):
    accepted.git("commit", "-qm", "mine", "--", MINE)
    accepted.git("checkout", "-q", "-b", "other", "HEAD~1")
    accepted.git("commit", "-q", "--allow-empty", "-m", "other")
    accepted.git("checkout", "-q", "main")
    accepted.git("merge", "-q", "--no-commit", "--no-ff", "other")
    assert "merge" in refused(ErrorKind.CONFLICT, commit, accepted).message


def test_a_folder_where_an_accepted_file_was_is_not_committed(accepted):
    (accepted.top / "new.txt").unlink()
    accepted.write(".gitignore", "*.key\n")
    accepted.write("new.txt/private.key", "secret\n")
    assert commit(accepted, dryRun=True).files == ["old.txt", "text.txt"]
    commit(accepted)
    assert committed(accepted) == ["D\told.txt", "M\ttext.txt"]
    accepted.git("reset", "-q", "--soft", "HEAD~1")
    accepted.git("rm", "-q", "--cached", "text.txt")
    (accepted.top / "text.txt").unlink()
    accepted.write("text.txt/mine", "")
    accepted.git("add", "text.txt/mine")
    assert commit(accepted, dryRun=True).files == ["old.txt", "text.txt"]


def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file_are_committed(project):
    project.git("config", "user.name", "Ada")
    project.git("config", "user.email", "ada@example.invalid")
    project.write("one", "1\n")
    project.write("two/x", "2\n")
    project.write("two/y", "2\n")
    project.commit()
    source = """
        import shutil
        pathlib.Path("one").unlink()
        pathlib.Path("one").mkdir()
        pathlib.Path("one/x").write_text("3\\n")
        shutil.rmtree("two")
        pathlib.Path("two").write_text("4\\n")
        say(type="result", ok=True)
        """
    project.program("editor", source)
    project.id = project.run("implement", task="Exchange them.", delegator="editor").id
    project.caller = Window(project.top)
    decide(project)
    before = project.git("ls-files", "-s"), project.git("status", "--porcelain")
    hook = project.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    refused(ErrorKind.CONFLICT, commit, project)
    assert (project.git("ls-files", "-s"), project.git("status", "--porcelain")) == before
    hook.unlink()
    commit(project)
    assert committed(project) == ["D\tone", "A\tone/x", "A\ttwo", "D\ttwo/x", "D\ttwo/y"]
    assert project.git("status", "--porcelain") == ""


def test_an_interrupted_commit_leaves_the_index_as_it_was(accepted, monkeypatch):
    before = accepted.git("status", "--porcelain")
    run = commits.run_users_git

    def interrupted(*arguments, **more):
        if arguments[0] == "commit":
            raise KeyboardInterrupt
        return run(*arguments, **more)

    monkeypatch.setattr(commits, "run_users_git", interrupted)
    with pytest.raises(KeyboardInterrupt):
        commit(accepted)
    assert accepted.git("status", "--porcelain") == before
