"""Test agents that work in the user's checkout: what they change is the result, and every change can be undone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from wait_until import until

from understudy.api.editor_files import accepted_documents
from understudy.files import user_file
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError

DONE = "say(type='result', ok=True, text='done')"
IN_CHECKOUT = {"useWorktree": False}


def files(top: Path) -> dict[str, tuple[int, bytes]]:
    """Return the kind, executable bit and content of every file of the checkout."""
    found = {}
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in [*names, *(one for one in folders if Path(folder, one).is_symlink())]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(top))] = (mode & 0o170100, content)
    return found


def notes(project: Any, identifier: str) -> str:
    return "\n".join(event.text for event in project.events(identifier) if type(event).__name__ == "Note")


def tokens(project: Any, identifier: str) -> list[str]:
    return [event.undo_token for event in project.events(identifier) if type(event).__name__ == "Applied"]


def start(project: Any, delegator: str = "doer", **params: Any) -> str:
    return project.start("implement", delegator=delegator, task="x", launch=IN_CHECKOUT, **params)


def run(project: Any, delegator: str = "doer", **params: Any) -> Any:
    done = project.finish(start(project, delegator, **params))
    for event in project.events(done.id):
        print(event)
    return done


def test_what_the_agent_changes_is_in_the_files_accepted_and_can_be_undone(project: Any) -> None:
    project.write("gone.txt", "gone\n")
    project.write("bin.dat", "x").write_bytes(bytes(range(256)))
    project.commit()
    project.write("mine.txt", "untracked, and mine\n")
    before, git = files(project.top), project.fingerprint()
    project.program(
        "doer",
        f"""
        assert os.getcwd() == {str(project.top)!r}, os.getcwd()
        pathlib.Path('new/deep').mkdir(parents=True)
        pathlib.Path('new/deep/a.txt').write_text('a')
        pathlib.Path('gone.txt').unlink()
        pathlib.Path('bin.dat').write_bytes(b'\\0changed')
        pathlib.Path('mine.txt').write_text('not only mine\\n')
        calc = pathlib.Path('calc.py')
        calc.write_text(calc.read_text().replace('a + b', 'b + a') + '\\n\\nX = 1\\n')
        calc.chmod(0o755)
        {DONE}
        """,
    )
    done = run(project)
    assert done.verdict == "unverified"
    assert done.reservations == ["no_checks", "not_isolated"], "its changes are not outside ones"
    assert {one.path for one in done.result.files} == {"new/deep/a.txt", "gone.txt", "bin.dat", "mine.txt", "calc.py"}
    shown = project.call("delegations/diff", id=done.id).files
    assert {hunk.state for file in shown for hunk in file.hunks} == {"accepted"}
    assert done.review.accepted == sum(len(file.hunks) for file in shown) >= 7
    assert done.review.pending == 0
    assert files(project.top) != before
    [token] = tokens(project, done.id)
    project.call("delegations/undo", undoToken=token)
    assert files(project.top) == before
    assert project.fingerprint() == git
    assert project.call("delegations/get", id=done.id).review.pending == done.review.accepted


class Stage:
    """An agent that waits in the middle of its work, by two pipes."""

    def __init__(self, project: Any, folder: Path, first: str, then: str = "") -> None:
        self.project = project
        self.pipes = [folder / "ready", folder / "go"]
        for pipe in self.pipes:
            os.mkfifo(pipe)
        ready, go = map(str, self.pipes)
        project.program(
            "doer",
            f"def write(name, text): pathlib.Path(name).write_text(text)\n{first}\n"
            f"open({ready!r}, 'w').close()\nopen({go!r}).close()\n{then}\n{DONE}",
        )

    def begin(self, **params: Any) -> str:
        """Start the agent, and return when it waits."""
        descriptor = os.open(self.pipes[0], os.O_RDONLY | os.O_NONBLOCK)
        try:
            identifier = start(self.project, **params)
            watched = select.poll()
            watched.register(descriptor, select.POLLIN)
            assert watched.poll(60_000), self.project.events(identifier)
        finally:
            os.close(descriptor)
        return identifier

    def release(self) -> None:
        """Let it continue."""
        os.close(until(self._opened, "the agent waits"))

    def _opened(self) -> int | None:
        with contextlib.suppress(OSError):  # no one reads it yet
            return os.open(self.pipes[1], os.O_WRONLY | os.O_NONBLOCK)
        return None

    def end(self, identifier: str) -> Any:
        """Let it continue, and return its delegation when it has finished."""
        self.release()
        done = self.project.finish(identifier)
        print(notes(self.project, identifier))
        return done

    def save(self, name: str, text: str) -> None:
        """Save a file as an editor does that reports it."""
        (self.project.top / name).write_text(text)
        accepted_documents.file_saved(self.project.top / name)


def test_what_the_user_saves_meanwhile_is_not_the_agents(project: Any, tmp_path: Path) -> None:
    for name in ("user.txt", "user_first.txt", "agent_first.txt"):
        project.write(name, "".join(f"line {number}\n" for number in range(9)))
    project.commit()
    stage = Stage(
        project,
        tmp_path,
        "write('agent_first.txt', 'AGENT\\n' + pathlib.Path('agent_first.txt').read_text())",
        "write('user_first.txt', pathlib.Path('user_first.txt').read_text() + 'AGENT\\n')",
    )
    identifier = stage.begin()
    for name in ("user.txt", "user_first.txt", "agent_first.txt"):
        stage.save(name, "USER\n" + (project.top / name).read_text())
    mine = (project.top / "agent_first.txt").read_text()
    assert mine.startswith("USER\nAGENT\n")
    done = stage.end(identifier)
    assert {one.path: (one.additions, one.deletions) for one in done.result.files} == {"user_first.txt": (1, 0)}
    said = notes(project, identifier)
    assert "You saved agent_first.txt, user.txt while the agent worked." in said
    assert "You and the agent both changed user_first.txt." in said
    project.call("delegations/undo", undoToken=tokens(project, identifier)[0])
    text = "".join(f"line {number}\n" for number in range(9))
    assert (project.top / "user.txt").read_text() == "USER\n" + text
    assert (project.top / "user_first.txt").read_text() == "USER\n" + text
    assert (project.top / "agent_first.txt").read_text() == mine
    kept = delegation_folder.open_folder(identifier).path.parent.parent / "checkout-runs"
    assert [one for one in kept.iterdir() if one.is_dir()] == [], "what was kept is removed"


def test_what_the_agent_writes_right_after_a_save_is_not_the_users(project: Any, tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(9))
    project.write("a.txt", lines)
    project.write("latin.txt", "one\n")
    project.commit()
    stage = Stage(project, tmp_path, "", "")
    identifier = stage.begin()
    # Both write before the editor's message arrives.
    (project.top / "a.txt").write_text("USER\n" + lines + "AGENT\n")
    accepted_documents.file_saved(project.top / "a.txt", "USER\n" + lines)
    (project.top / "latin.txt").write_bytes("größer\n".encode("latin-1"))
    accepted_documents.file_saved(project.top / "latin.txt", "größer\n")
    done = stage.end(identifier)
    assert {one.path: (one.additions, one.deletions) for one in done.result.files} == {"a.txt": (1, 0)}
    project.call("delegations/undo", undoToken=tokens(project, identifier)[0])
    assert (project.top / "a.txt").read_text() == "USER\n" + lines
    assert (project.top / "latin.txt").read_bytes() == "größer\n".encode("latin-1")


@pytest.mark.parametrize(
    ("disk", "text", "content"),
    [
        (b"a\n", "a\n", None),
        (b"a\r\n", "a\n", None),
        (b"a", "a\n", None),
        (b"\xef\xbb\xbfa\n", "a\n", None),
        (b"\xef\xbb\xbfb\n", "a\n", b"\xef\xbb\xbfa\n"),
        (b"b\n", "a\n", b"a\n"),
        (None, "a\n", b"a\n"),
        (b"\xff\n", "a\n", None),
    ],
)
def test_what_was_overwritten(disk: bytes | None, text: str, content: bytes | None) -> None:
    assert user_file.overwritten(disk, text) == content


def test_a_later_edit_of_the_user_stays_when_the_agents_change_is_undone(project: Any) -> None:
    project.write("a.txt", "".join(f"line {number}\n" for number in range(9)))
    project.commit()
    project.program("doer", f"f = pathlib.Path('a.txt'); f.write_text('AGENT\\n' + f.read_text())\n{DONE}")
    done = run(project)
    project.write("a.txt", (project.top / "a.txt").read_text() + "USER\n")
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert (project.top / "a.txt").read_text() == "".join(f"line {number}\n" for number in range(9)) + "USER\n"


def test_one_hunk_can_be_undone_and_accepted_again(project: Any) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    project.write("a.txt", "".join(lines))
    project.commit()
    project.program(
        "doer",
        f"f = pathlib.Path('a.txt'); f.write_text(f.read_text().replace('line 2\\n', 'AGENT\\n').replace('line 17\\n', ''))\n{DONE}",
    )
    done = run(project)
    whole = (project.top / "a.txt").read_text()
    first, second = project.call("delegations/diff", id=done.id).files[0].hunks
    project.call("delegations/undo", undoToken=first.undo_token, hunks=[first.id])
    assert (project.top / "a.txt").read_text() == "".join(lines).replace("line 17\n", "")
    states = [hunk.state for hunk in project.call("delegations/diff", id=done.id).files[0].hunks]
    assert states == ["pending", "accepted"]
    accept = {"path": "a.txt", "hunk": first.id, "decision": "accept"}
    project.call("delegations/decide", id=done.id, decisions=[accept])
    assert (project.top / "a.txt").read_text() == whole
    assert second.id != first.id


def test_unsaved_text_is_in_the_base_and_is_not_undone_as_the_agents(project: Any) -> None:
    project.write("a.txt", "".join(f"line {number}\n" for number in range(9)))
    project.write("b.txt", "on disk\n")
    project.commit()
    project.program("doer", f"f = pathlib.Path('a.txt'); f.write_text(f.read_text() + 'AGENT\\n')\n{DONE}")
    unsaved = "UNSAVED\n" + (project.top / "a.txt").read_text()
    buffers = [
        {"uri": str(project.top / "a.txt"), "text": unsaved},
        {"uri": str(project.top / "b.txt"), "text": "new\n"},
    ]
    done = run(project, buffers=buffers)
    assert "does not see the unsaved text of a.txt, b.txt" in notes(project, done.id)
    assert project.call("delegations/file", id=done.id, path="a.txt", side="base").text == unsaved
    assert project.call("delegations/file", id=done.id, path="a.txt", side="result").text == unsaved + "AGENT\n"
    assert [one.path for one in done.result.files] == ["a.txt"]
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert (project.top / "a.txt").read_text() == "".join(f"line {number}\n" for number in range(9))
    assert (project.top / "b.txt").read_text() == "on disk\n"


def test_what_the_user_changed_before_the_agent_started_is_theirs(project: Any) -> None:
    # The setup command stands for a person who edits between the request and the start of the agent.
    project.settings(f"""
        [worktrees]
        setup = ["{sys.executable}", "-c", "import pathlib; pathlib.Path('{project.top}/calc.py').write_text('mine = 1\\\\n')"]
    """)
    project.program("doer", f"pathlib.Path('a.txt').write_text('a')\n{DONE}")
    done = run(project)
    assert [one.path for one in done.result.files] == ["a.txt"]
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert (project.top / "calc.py").read_text() == "mine = 1\n"
    assert not (project.top / "a.txt").exists()


def test_files_that_the_base_lacks_are_said_and_stay(project: Any) -> None:
    project.write(".env", "KEY=1\n")
    project.write("ignored.txt", "old\n")
    project.write("same.secret", "same\n")
    nested = project.top / "nested"
    nested.mkdir()
    (nested / "file.txt").write_text("nested\n")
    project.git("init", "-q", "nested")
    project.program(
        "doer",
        f"""
        import shutil
        pathlib.Path('.env').write_text('KEY=2\\n')
        pathlib.Path('ignored.txt').write_text('new\\n')
        shutil.rmtree('nested/.git')
        pathlib.Path('nested/file.txt').write_text('changed\\n')
        pathlib.Path('new.txt').write_text('new\\n')
        {DONE}
        """,
    )
    done = run(project)
    assert [one.path for one in done.result.files] == ["new.txt"]
    said = notes(project, done.id)
    assert "changed: .env, ignored.txt. They are not part of the result" in said
    assert "nested/file.txt changed, which is not part of the result" in said
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert (project.top / ".env").read_text() == "KEY=2\n", "what no one recorded is never removed"
    assert (nested / "file.txt").read_text() == "changed\n"
    assert not (project.top / "new.txt").exists()


def test_a_file_that_git_stores_in_another_form_is_left_alone(project: Any) -> None:
    content = "content of a large file"
    digest = hashlib.sha256(content.encode()).hexdigest()
    project.write("big.dat", f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n")
    project.commit()
    project.write(".gitattributes", "*.dat filter=lfs\n")
    project.write("big.dat", content)
    project.program("doer", f"pathlib.Path('big.dat').write_text('changed')\npathlib.Path('a').write_text('a')\n{DONE}")
    done = run(project)
    assert [one.path for one in done.result.files] == ["a"]
    assert "big.dat changed, which is not part of the result" in notes(project, done.id)
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert (project.top / "big.dat").read_text() == "changed", "an undo never writes the pointer"
    assert not (project.top / "a").exists()


@pytest.mark.parametrize(
    ("commands", "words"),
    [
        ([["commit", "-qam", "by the agent"]], ["HEAD is at", "git reset --soft"]),
        ([["switch", "-qc", "elsewhere"]], ["The checkout is on elsewhere, and was on main."]),
        ([["stash", "-q"]], ["These references changed: stash."]),
        ([["branch", "other"]], ["These references changed: other."]),
        ([["config", "core.hooksPath", "x"]], ["These files of the git directory changed: config."]),
        ([["add", "calc.py"]], ["What is staged changed."]),
    ],
)
def test_changes_of_the_repository_are_said(project: Any, commands: list[list[str]], words: list[str]) -> None:
    project.program(
        "doer",
        f"""
        import subprocess
        pathlib.Path('calc.py').write_text('changed = 1\\n')
        for command in {commands!r}:
            subprocess.run(['git', *command], check=True)
        {DONE}
        """,
    )
    done = run(project)
    assert {"not_isolated", "outside_changed"} <= set(done.reservations)
    said = notes(project, done.id)
    assert "The repository changed while the agent worked" in said
    for word in words:
        assert word in said
    for token in tokens(project, done.id):
        project.call("delegations/undo", undoToken=token)
    assert (project.top / "calc.py").read_text() != "changed = 1\n"


def test_a_quiet_run_says_nothing_about_the_repository(project: Any) -> None:
    project.program("doer", f"import subprocess; subprocess.run(['git', 'status'], stdout=2)\n{DONE}")
    done = run(project)
    assert done.verdict == "no_changes"
    assert done.reservations == ["not_isolated"]
    assert "The repository changed" not in notes(project, done.id)
    assert tokens(project, done.id) == []


def test_the_undo_outlives_the_repository(project: Any) -> None:
    project.write("b.txt", "committed\n")
    project.commit()
    project.write("b.txt", "edited\n")
    before = files(project.top)
    project.program(
        "doer",
        f"""
        import shutil
        shutil.rmtree('.git')
        pathlib.Path('a.txt').write_text('a')
        pathlib.Path('b.txt').write_text('b')
        pathlib.Path('calc.py').unlink()
        {DONE}
        """,
    )
    done = run(project)
    assert (done.verdict, done.reservations) == ("unverified", ["no_checks", "outside_changed", "not_isolated"])
    assert "The repository was removed." in notes(project, done.id)
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert files(project.top) == before


def test_a_hook_that_the_agent_writes_is_said(project: Any) -> None:
    project.program(
        "doer",
        f"""
        hook = pathlib.Path('.git/hooks/pre-commit')
        hook.parent.mkdir(exist_ok=True)
        hook.write_text('#!/bin/sh\\n')
        hook.chmod(0o755)
        pathlib.Path('.vscode').mkdir()
        pathlib.Path('.vscode/tasks.json').write_text('{{}}')
        {DONE}
        """,
    )
    done = run(project)
    assert "hooks/pre-commit" in notes(project, done.id)
    assert "files that programs execute or follow, and they are in your checkout: .vscode/tasks.json" in notes(
        project, done.id
    )


def test_passing_checks_run_in_a_worktree_and_the_verdict_is_not_verified(project: Any) -> None:
    code = "import os, pathlib; assert len(os.listdir()) > 3; pathlib.Path('trace').write_text(os.getcwd())"
    project.settings(f"""
        [[checks]]
        name = "passes"
        argv = ["{sys.executable}", "-c", "{code}"]
    """)
    project.program("doer", f"pathlib.Path('new.md').write_text('x')\n{DONE}")
    done = run(project)
    assert [(check.name, check.ok) for check in done.checks] == [("passes", True)]
    assert (done.verdict, done.reservations) == ("unverified", ["not_isolated"])
    assert not (project.top / "trace").exists()
    done = project.call("delegations/check", id=done.id)
    assert (done.verdict, done.reservations) == ("unverified", ["not_isolated"])


def test_only_one_agent_at_a_time_works_in_a_checkout(project: Any, tmp_path: Path) -> None:
    stage = Stage(project, tmp_path, "")
    identifier = stage.begin()
    with pytest.raises(UnderstudyError) as raised:
        start(project)
    assert raised.value.kind is ErrorKind.CONFLICT
    assert raised.value.names == [identifier]
    project.agent("other", "no_change")
    assert project.run("implement", delegator="other", task="x").verdict == "no_changes", "in a worktree, it can"
    stage.end(identifier)


def test_a_start_that_is_repeated_with_its_key_is_the_same_one(project: Any, tmp_path: Path) -> None:
    stage = Stage(project, tmp_path, "")
    first = stage.begin(idempotencyKey="k")
    assert start(project, idempotencyKey="k") == first
    stage.end(first)


@pytest.mark.parametrize(
    "commands",
    [
        "mkdir .git/hooks/x; mkfifo .git/hooks/pipe; chmod 000 .git/hooks",
        "rm -f .git/packed-refs; mkfifo .git/packed-refs",
        "printf '.\\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 > .git/objects/info/alternates",
    ],
)
def test_a_repository_that_the_agent_made_odd_holds_nothing_up(project: Any, commands: str) -> None:
    (project.top / ".git" / "hooks" / "there.d").mkdir(parents=True)
    project.program(
        "doer",
        f"pathlib.Path('n.txt').write_text('n')\nimport subprocess\nsubprocess.run(['sh', '-c', {commands!r}], check=True)\n{DONE}",
    )
    done = run(project)
    assert (done.verdict, done.error) == ("unverified", None)
    [token] = tokens(project, done.id)
    project.call("delegations/undo", undoToken=token)
    assert not (project.top / "n.txt").exists()


def test_two_that_wait_for_the_same_checkout_do_not_mix(project: Any, tmp_path: Path) -> None:
    from understudy.engine.checkout_runs.checkout_worktree import CheckoutClaim

    identifier = "20260101-000000-00000"
    project.program("doer", DONE)
    claim = CheckoutClaim(project.top, identifier)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("understudy.engine.running.start.checkout_worktree.refuse_if_taken", lambda _: None)
            done = run(project)
    finally:
        claim.release(collected=True)
    assert done.verdict == "failed"
    assert done.error.kind is ErrorKind.CONFLICT
    assert identifier in done.error.message
    assert done.reservations == [], "it did not run"


@pytest.mark.parametrize("when", ["working", "intended"])
def test_a_killed_worker_leaves_the_files_and_a_check_collects_them(
    project: Any, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(project.top)
    stage = Stage(project, tmp_path, "write('a.txt', 'a')\nwrite('calc.py', 'changed')")
    if when == "intended":
        monkeypatch.setenv("UNDERSTUDY_FAILPOINT", "intended:1")
    identifier = stage.begin()
    monkeypatch.delenv("UNDERSTUDY_FAILPOINT", raising=False)
    if when == "working":
        holder = json.loads(delegation_folder.open_folder(identifier).lock.read_bytes())
        os.kill(holder["pid"], signal.SIGKILL)
    else:
        stage.release()
    done = project.finish(identifier)
    assert (done.verdict, done.reservations) == ("interrupted", ["not_isolated"])
    assert f"understudy check {identifier}" in done.error.hint
    assert (project.top / "calc.py").read_text() == "changed"
    if when == "working":
        with pytest.raises(UnderstudyError) as raised:
            project.call("delegations/reply", id=identifier, text="go on")
        assert raised.value.kind is ErrorKind.CONFLICT
        project.program("doer", DONE)
        other = run(project)
        assert other.error.kind is ErrorKind.CONFLICT
        assert identifier in other.error.message
    stage.save("a.txt", "mine now")
    done = project.call("delegations/check", id=identifier)
    if when == "working":
        assert done.error.hint.startswith("What the agent changed is collected")
    assert (done.verdict, done.reservations) == ("interrupted", ["not_isolated"])
    assert {hunk.state for file in project.call("delegations/diff", id=identifier).files for hunk in file.hunks} == {
        "accepted"
    }
    for token in tokens(project, identifier):
        if when == "working":
            project.call("delegations/undo", undoToken=token)
    if when == "working":
        assert files(project.top) == before | {"a.txt": files(project.top)["a.txt"]}
        assert (project.top / "a.txt").read_text() == "mine now"
    project.program("doer", DONE)
    assert run(project).verdict == "no_changes", "the checkout is free again"


def test_discarding_what_a_killed_worker_left_frees_the_checkout(project: Any, tmp_path: Path) -> None:
    stage = Stage(project, tmp_path, "write('a.txt', 'a')")
    identifier = stage.begin()
    os.kill(json.loads(delegation_folder.open_folder(identifier).lock.read_bytes())["pid"], signal.SIGKILL)
    project.finish(identifier)
    project.call("delegations/discard", id=identifier)
    project.program("doer", DONE)
    assert run(project).verdict == "no_changes"
    assert (project.top / "a.txt").read_text() == "a"


def test_a_cancel_keeps_what_was_done_and_it_can_be_undone(project: Any, tmp_path: Path) -> None:
    before = files(project.top)
    stage = Stage(project, tmp_path, "write('a.txt', 'a')\nwrite('calc.py', 'changed')")
    identifier = stage.begin()
    project.call("delegations/cancel", id=identifier)
    done = project.finish(identifier)
    assert (done.verdict, done.reservations) == ("cancelled", ["not_isolated"])
    assert done.review.accepted == 2
    project.call("delegations/undo", undoToken=tokens(project, identifier)[0])
    assert files(project.top) == before


def test_a_failed_attempt_is_collected_too(project: Any) -> None:
    before = files(project.top)
    project.program("doer", "pathlib.Path('a.txt').write_text('a'); sys.exit(3)")
    done = run(project)
    assert done.verdict == "failed"
    assert done.review.accepted == 1
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert files(project.top) == before


def test_a_reply_works_in_the_checkout_too_once_everything_is_decided(project: Any) -> None:
    project.program("doer", f"with open('log.txt', 'a') as f: f.write('turn\\n')\n{DONE}")
    done = run(project)
    second = project.finish(project.call("delegations/reply", id=done.id, text="again").id)
    assert (project.top / "log.txt").read_text() == "turn\nturn\n"
    assert second.review.accepted == 1
    project.call("delegations/undo", undoToken=tokens(project, second.id)[0])
    assert (project.top / "log.txt").read_text() == "turn\n"
    with pytest.raises(UnderstudyError) as raised:
        project.call("delegations/reply", id=second.id, text="once more")
    assert raised.value.kind is ErrorKind.CONFLICT
    assert "not decided" in raised.value.message
    with pytest.raises(UnderstudyError) as raised:
        project.call("delegations/retry", id=done.id)
    assert raised.value.kind is ErrorKind.CONFLICT


def test_a_recipe_that_returns_a_file_writes_it_to_the_checkout(project: Any) -> None:
    project.delegator("text", sys.executable, "-c", "print('the text')", output="text")
    target = str(project.top / "new.md")
    done = project.run("write", delegator="text", task="x", target=target, launch=IN_CHECKOUT)
    assert (project.top / "new.md").read_text() == "the text\n"
    assert [one.path for one in done.result.files] == ["new.md"]
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert not (project.top / "new.md").exists()


def test_untrusted_workspaces_are_refused(project: Any) -> None:
    project.program("doer", DONE)
    project.call("workspace/trust", workspace=str(project.top), trusted=False)
    with pytest.raises(UnderstudyError) as raised:
        start(project)
    assert raised.value.kind is ErrorKind.UNTRUSTED_WORKSPACE


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"base": "head"}, "`base`"),
        ({"rounds": 1}, "`rounds`"),
        ({"recipe": "ask"}, "`useWorktree`"),
        (
            {"delegator": "ghostwriter", "recipe": "tests"},
            "`launch.use_worktree` is not supported by the tool `ghostwriter`",
        ),
        ({"delegator": "served", "recipe": "tests"}, "`launch.use_worktree` is not supported by a model server"),
        ({"delegator": "kept"}, "`launch.branch` has no effect with `launch.use_worktree = false`"),
    ],
)
def test_what_cannot_be_done_in_a_checkout_is_refused_by_name(project: Any, params: dict[str, Any], words: str) -> None:
    project.settings("""
        [[model_servers]]
        name = "s"
        kind = "custom"
        base_url = "http://127.0.0.1:1"

        [[delegators]]
        name = "served"
        model_server = "s"
        model = "m"

        [[delegators]]
        name = "kept"
        tool = "generic"
        launch = { command = ["true"], branch = "x/{id}" }
    """)
    project.program("doer", DONE)
    given = {"recipe": "implement", "delegator": "doer", "task": "x"} | params
    recipe = given.pop("recipe")
    with pytest.raises(UnderstudyError) as raised:
        project.start(recipe, "calc.py", launch=IN_CHECKOUT, **given)
    assert raised.value.kind is ErrorKind.INVALID_PARAMS
    assert words in raised.value.message


def test_a_configured_delegator_works_in_the_checkout_except_for_answers(project: Any) -> None:
    project.settings("[launch]\nuse_worktree = false\nbranch = 'understudy/{id}'\n")
    project.program("doer", "say(type='text', text=os.getcwd())\nsay(type='result', ok=True, text=os.getcwd())")
    answered = project.run("ask", delegator="doer", task="where?")
    assert answered.verdict == "answered"
    assert answered.result.text != str(project.top)
    changed = project.run("implement", delegator="doer", task="x")
    assert changed.result.text == str(project.top)
    reasons = [event.reason for event in project.events(changed.id) if type(event).__name__ == "Started"]
    assert reasons == ["it was chosen for this run; from [launch]: use_worktree; in your checkout"], (
        "the branch is left out"
    )
    isolated = project.run("implement", delegator="doer", task="x", launch={"useWorktree": True})
    assert isolated.result.text != str(project.top)


def test_an_agent_over_acp_works_in_the_checkout(project: Any) -> None:
    pytest.importorskip("acp")
    agent = Path(__file__).parents[2] / "runners" / "agent_clis" / "acp_agent.py"
    command = json.dumps([sys.executable, str(agent), "edits"])
    project.settings(f"""
        [[delegators]]
        name = "agent"
        tool = "generic"
        mode = "acp"
        launch = {{ command = {command} }}
        permissions = [{{ decision = "allow", kind = "edit", path = "/made.txt" }}]
    """)
    done = run(project, "agent")
    assert f'"cwd": "{project.top}"' in done.result.text
    assert (project.top / "made.txt").read_text() == "made\n"
    assert [one.path for one in done.result.files] == ["made.txt"]
    project.call("delegations/undo", undoToken=tokens(project, done.id)[0])
    assert not (project.top / "made.txt").exists()
