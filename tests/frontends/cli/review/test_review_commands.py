"""The commands of review on real results: a scripted agent, real git, the whole command line."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
from click.testing import CliRunner
from wait_until import until

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.output import output_file
from understudy.frontends.cli.terminal import terminal
from understudy.journal import delegation_folder, worker_files

LINES = "".join(f"line {number}\n" for number in range(1, 31))
RESULT = LINES.replace("line 2\n", "line two\n").replace("line 20\n", "line twenty\n")
AGENT = """
import json, pathlib, sys
def say(**event): print(json.dumps(event), flush=True)
here = pathlib.Path('.')
(here / 'a.txt').write_text({result!r})
(here / 'new').mkdir(exist_ok=True)
(here / 'new/b.txt').write_text('new\\n')
(here / '.github').mkdir(exist_ok=True)
(here / '.github/x.yml').write_text('on: push\\n')
say(type='result', ok=True, text='done')
"""


class Bench:
    """A repository with a result to decide on."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.identifier = ""

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=True)
        return done.stdout

    def text(self, path: str) -> str:
        return (self.top / path).read_text()

    def call(self, method: str, **params: Any) -> Any:
        return method_table.call(method, params, TerminalCaller(self.top))

    def states(self) -> dict[str, list[str]]:
        files = self.call("delegations/diff", id=self.identifier).files
        return {file.path: [str(hunk.state) for hunk in file.hunks] for file in files}

    def hunk(self, path: str, number: int) -> str:
        files = {file.path: file for file in self.call("delegations/diff", id=self.identifier).files}
        return str(files[path].hunks[number].id)


@pytest.fixture
def bench(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    top = tmp_path / "project"
    top.mkdir()
    made = Bench(top)
    (top / "a.txt").write_text(LINES)
    made.git("init", "-q", "-b", "main")
    made.git("add", "-A")
    made.git("commit", "-qm", "all")
    delegators = own_home / "config" / "understudy" / "delegators"
    delegators.mkdir(parents=True)
    program = tmp_path / "agent.py"
    program.write_text(AGENT.format(result=RESULT))
    command = json.dumps([sys.executable, str(program)])
    (delegators / "doer.toml").write_text(
        f'name = "doer"\ntool = "generic"\n[launch]\ncommand = {command}\noutput = "events"\n'
    )
    made.call("workspace/trust", workspace=str(top), trusted=True)
    started = made.call("delegations/start", recipe="implement", task="x", delegator="doer", workspace=str(top))
    made.identifier = started.id
    assert made.call("delegations/wait", id=started.id, timeoutSeconds=60).verdict == "unverified"
    monkeypatch.chdir(top)
    yield made
    folders = [delegation_folder.open_folder(identifier) for identifier in delegation_folder.ids()]
    until(lambda: not any(worker_files.is_held(folder) for folder in folders), "every worker has ended")


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = app.main(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_accept_undo_reject_and_what_show_says(bench: Bench, run: Run) -> None:
    whole = bench.identifier
    assert f"next: understudy review {whole}" in run("show", whole)[1]
    second = bench.hunk("a.txt", 1)
    code, text, _ = run("accept", whole, f"a.txt:{second[:6]}", "new")
    assert code == exit_codes.Exit.OK
    assert "accepted: 2 hunks in 2 files\n" in text
    assert f"pending: 2 hunks; understudy review {whole}\n" in text
    assert bench.text("a.txt") == LINES.replace("line 20\n", "line twenty\n")
    assert bench.text("new/b.txt") == "new\n"
    token = next(line.split()[-1] for line in text.splitlines() if line.startswith("undo the accept: "))
    assert run("undo", token)[0] == exit_codes.Exit.OK
    assert bench.text("a.txt") == LINES
    assert not (bench.top / "new" / "b.txt").exists()
    _, text, _ = run("accept", whole, "new/", "--json")
    again = json.loads(text)["undoToken"]
    assert f"`understudy review {whole} --list`" in run("accept", whole, "new/")[2]
    assert run("undo", whole)[:2] == (0, f"Undone: {again}. Its hunks are pending again.\n"), "the last accept"
    code, _, error = run("undo")
    assert code == exit_codes.Exit.USAGE
    assert "the token that `accept` printed" in " ".join(error.split())
    code, _, error = run("undo", whole)
    assert code != 0
    assert f"Nothing of {whole} is accepted." in error
    code, text, _ = run("reject", whole, "a.txt", "--reason", "not like this", "--json")
    assert code == exit_codes.Exit.OK
    reasons = {hunk.get("reason") for hunk in json.loads(text)["hunks"]}
    assert reasons == {"not like this", None}
    assert bench.states()["a.txt"] == ["rejected", "rejected"]
    assert "hunks: 2 rejected, 2 pending" in run("show", whole)[1]
    code, text, _ = run("review", whole)
    assert code == exit_codes.Exit.OK
    rows = [line.split() for line in text.splitlines()]
    assert [f"a.txt:{second}", "rejected", "line", "20", "-", "not", "like", "this"] in rows


def test_a_rejection_is_undone(bench: Bench, run: Run) -> None:
    whole = bench.identifier
    second = bench.hunk("a.txt", 1)
    text = run("reject", whole, "a.txt:" + second)[1]
    undo = f"undo the rejection: understudy undo {whole} a.txt:{second}\n"
    assert text == f"rejected: 1 hunk in 1 file\n{undo}pending: 3 hunks; understudy review {whole}\n"
    assert f"understudy undo {whole} PATH" in run("undo", whole)[2], "nothing is accepted, but this is what was meant"
    code, text, _ = run(*undo.split("understudy ")[1].split())
    assert (code, text) == (0, f"pending again: 1 hunk in 1 file\npending: 4 hunks; understudy review {whole}\n")
    assert bench.states()["a.txt"] == ["pending", "pending"]
    code, _, error = run("undo", whole, "a.txt")
    assert code != 0
    assert "No hunk of a.txt is rejected." in error
    assert f"undo the rejection: understudy undo {whole} PATH[:HUNK]…" in run("reject", whole, "--all")[1]
    run("undo", whole, ".")
    assert {state for states in bench.states().values() for state in states} == {"pending"}


def test_flagged_files_need_confirmation(bench: Bench, run: Run) -> None:
    code, _, text = run("accept", bench.identifier, "--all")
    assert code == exit_codes.Exit.ERROR
    assert ".github/x.yml" in text
    assert "--include-flagged" in text
    assert bench.text("a.txt") == LINES
    assert run("accept", bench.identifier, "--all", "--include-flagged")[0] == exit_codes.Exit.OK
    assert bench.text("a.txt") == RESULT
    assert (bench.top / ".github" / "x.yml").exists()


def test_a_conflict_is_shown_stays_pending_and_has_an_exit_code(bench: Bench, run: Run) -> None:
    (bench.top / "a.txt").write_text(LINES.replace("line 2\n", "line zwei\n"))
    code, text, _ = run("accept", bench.identifier, "a.txt")
    assert code == exit_codes.Exit.CONFLICTS
    assert "has a conflict and stays pending" in text
    assert "conflicts: 1 hunk stays pending; edit the result or your file, or merge by hand" in text
    assert "yours now:\n    line zwei\n" in text
    assert "the base:\n    line 2\n" in text
    assert "the result:\n    line two\n" in text
    assert "accepted: 1 hunk in 1 file" in text
    mine = LINES.replace("line 2\n", "line zwei\n").replace("line 20\n", "line twenty\n")
    assert bench.text("a.txt") == mine
    assert bench.states()["a.txt"] == ["pending", "accepted"]
    code, text, _ = run("accept", bench.identifier, "a.txt", "--merged-manually")
    assert code == exit_codes.Exit.OK
    assert "accepted: 1 hunk in 1 file" in text
    assert bench.text("a.txt") == mine
    assert bench.states()["a.txt"] == ["accepted", "accepted"]


def test_amend_takes_a_file_or_stdin(bench: Bench, run: Run, tmp_path: Path) -> None:
    better = tmp_path / "better"
    better.write_text(LINES.replace("line 5\n", "line five\n"))
    code, text, _ = run("amend", bench.identifier, "a.txt", str(better))
    assert (code, text.splitlines()[0]) == (exit_codes.Exit.OK, "a.txt has 1 hunk now.")
    given = CliRunner().invoke(app.group, ["amend", bench.identifier, "a.txt", "-", "--json"], input=RESULT)
    assert given.exit_code == 0, given.output
    assert len(json.loads(given.output)["hunks"]) == 2
    assert bench.text("a.txt") == LINES
    assert run("amend", bench.identifier, "a.txt")[0] == exit_codes.Exit.USAGE
    code, text, _ = run("amend", bench.identifier, "a.txt", "--undo")
    assert (code, text.splitlines()[0]) == (exit_codes.Exit.OK, "a.txt has 1 hunk now.")
    assert run("amend", bench.identifier, "a.txt", str(better), "--undo")[0] == exit_codes.Exit.USAGE
    for path in ("../../x", "/etc/passwd", ".git/hooks/pre-commit"):
        code, text, _ = run("amend", bench.identifier, path, str(better), "--json")
        assert '"path_escape"' in text, text


def test_a_missing_or_blocked_file_is_named_in_a_conflict(bench: Bench, run: Run) -> None:
    (bench.top / "a.txt").unlink()
    (bench.top / "new/b.txt").mkdir(parents=True)
    code, text, _ = run("accept", bench.identifier, "a.txt", "new/b.txt")
    assert code == exit_codes.Exit.CONFLICTS
    assert text.count("yours now: no such file\n") == 2
    assert "the base:\n    line 2\n" in text
    assert "the result:\n    line two\n" in text
    assert "yours now: not a regular file\n" in text
    assert "the base: no such file\n" in text


def test_export_changes_nothing_else(bench: Bench, run: Run) -> None:
    whole = bench.identifier
    code, patch, _ = run("export", whole, "--to", "patch")
    assert code == exit_codes.Exit.OK
    assert "+line twenty\n" in patch
    for more in ((), ("--stat",), ("--json",)):
        code, text, said = run("diff", whole, "nosuch", *more)
        assert code == exit_codes.Exit.ERROR
        assert "The result does not change nosuch" in text + said
        assert run("diff", whole, "new", *more)[0] == run("diff", whole, ".", *more)[0] == exit_codes.Exit.OK
    assert run("export", whole, "--branch", "taken", "-m", "Take it")[:2] == (0, "taken\n")
    assert bench.git("log", "-1", "--format=%s", "taken") == "Take it\n"
    assert bench.git("show", "taken:a.txt") == RESULT
    assert "Name the form: --to branch --branch NAME, --to commit or --to patch." in run("export", whole)[2]
    assert "Name the new branch: --branch NAME." in run("export", whole, "--to", "branch")[2]
    assert "--to commit takes no --branch." in run("export", whole, "--to", "commit", "--branch", "b")[2]
    code, text, _ = run("export", whole, "--to", "commit", "--json")
    assert set(json.loads(text)) == {"commit"}
    assert bench.git("status", "--short") == ""


def test_commit_shows_what_it_commits_and_asks(bench: Bench, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bench.identifier
    (bench.top / "mine.txt").write_text("mine\n")
    code, _, said = run("commit", whole, "--yes")
    assert code == exit_codes.Exit.ERROR
    assert "Accept changes first." in said
    code, text, _ = run("accept", whole, "--all", "--include-flagged")
    assert f"next: understudy checks test\n      understudy commit {whole}\n" in text
    code, text, _ = run("commit", whole, "--dry-run")
    assert code == exit_codes.Exit.OK
    assert text.splitlines()[0].endswith("x")
    assert text.endswith("\n  .github/x.yml\n  a.txt\n  new/b.txt\n")
    assert run("commit", whole)[0] == exit_codes.Exit.USAGE, "it needs a terminal to ask"
    assert bench.git("log", "--format=%s") == "all\n"
    with monkeypatch.context() as patched:
        patched.setattr(terminal, "is_terminal", lambda _: True)
        asked = CliRunner().invoke(app.group, ["commit", whole], input="n\n")
    assert asked.exit_code != 0
    assert "Commit? [Y/n]" in asked.output
    assert bench.git("log", "--format=%s") == "all\n"
    code, text, _ = run("commit", whole, "--yes", "-m", "Number two lines")
    assert (code, text) == (exit_codes.Exit.OK, bench.git("rev-parse", "HEAD"))
    assert bench.git("show", "--format=%s", "--name-only").split("\n\n") == [
        "Number two lines", ".github/x.yml\na.txt\nnew/b.txt\n"
    ]  # fmt: skip
    assert bench.git("status", "--porcelain") == "?? mine.txt\n"
    assert '"input_empty"' in run("commit", whole, "--yes", "--json")[1]


def test_export_overwrites_only_what_it_may(
    bench: Bench, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "mine.patch"
    command = ["export", bench.identifier, "--to", "patch", "-o", str(target)]
    assert run(*command)[0] == exit_codes.Exit.OK
    target.write_text("notes\n")
    code, _, said = run(*command)
    assert (code, target.read_text()) == (exit_codes.Exit.ERROR, "notes\n")
    assert "already exists" in said
    assert "--force" in said
    patch = run("export", bench.identifier, "--to", "patch")[1]
    with monkeypatch.context() as patched:
        patched.setattr(terminal, "is_terminal", lambda _: True)
        for answer, content in (("n\n", "notes\n"), ("y\n", patch)):
            CliRunner().invoke(app.group, command, input=answer)
            assert target.read_text() == content
    target.write_text("notes\n")
    target.chmod(0o600)
    link = tmp_path / "link.patch"
    link.symlink_to(target)
    assert run(*command[:-1], str(link), "--force")[0] == exit_codes.Exit.OK
    assert (target.read_text(), target.stat().st_mode & 0o777, link.is_symlink()) == (patch, 0o600, True)


def test_an_export_that_cannot_be_written_leaves_the_file_as_it_was(bench: Bench, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "patches"
    folder.mkdir()
    target = folder / "mine.patch"
    command = ["export", bench.identifier, "--to", "patch", "-o", str(target)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for old, options in ((None, ()), ("notes\n", ("--force",))):
        if old is not None:
            target.write_text(old)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(output_file, "_create", _limited(output_file._create, before))
            code, _, said = run(*command, *options)
        assert code == exit_codes.Exit.ERROR
        assert f"No space left to write {target}" in said
        assert [path.read_text() for path in folder.iterdir()] == ([] if old is None else [old])


def _limited(create: Callable[..., None], before: tuple[int, int]) -> Callable[..., None]:
    """Return ``create`` for a file that may have 100 bytes: the limit of a process fails as a full disk does."""

    def limited(path: Path, data: bytes) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            create(path, data)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


def test_a_tree_that_became_a_link_is_discarded_and_never_followed(bench: Bench, run: Run, tmp_path: Path) -> None:
    tree = Path(bench.call("delegations/get", id=bench.identifier).worktree)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine\n")
    shutil.rmtree(tree)
    tree.symlink_to(elsewhere)
    assert run("discard", bench.identifier)[0] == exit_codes.Exit.OK
    assert not tree.is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["precious"]
    reference = bench.call("delegations/get", id=bench.identifier).rescue_ref
    assert run("restore", reference)[0] == exit_codes.Exit.OK
    assert (tree / "a.txt").read_text() == RESULT
    assert (elsewhere / "precious").read_text() == "mine\n"


def test_a_worktree_is_listed_discarded_and_restored(bench: Bench, run: Run) -> None:
    whole = bench.identifier
    tree = bench.call("delegations/get", id=whole).worktree
    code, text, _ = run("worktrees")
    assert code == exit_codes.Exit.OK
    assert tree in text
    assert "pending" in text
    code, text, _ = run("discard", whole)
    assert code == exit_codes.Exit.OK
    assert not Path(tree).exists()
    ref = text.split()[-1]
    for command in (("show", whole), ("worktrees", "list"), ("accept", whole, "a.txt")):
        code, text, said = run(*command)
        assert ref in text + said, command
    assert json.loads(run("show", whole, "--json")[1])["rescueRef"] == ref
    assert [one["path"] for one in json.loads(run("worktrees", "list", "--json")[1])["rescues"]] == [tree]
    code, text, _ = run("restore", ref)
    assert (code, text) == (exit_codes.Exit.OK, f"{tree}\n")
    assert (Path(tree) / "a.txt").read_text() == RESULT
    assert ref not in run("show", whole)[1] + run("worktrees", "list")[1]
    listed = json.loads(run("worktrees", "list", "--json")[1])["worktrees"]
    code, text, _ = run("worktrees", "remove", listed[0]["id"], "--json")
    assert code == exit_codes.Exit.OK
    assert run("restore", json.loads(text)["rescueRef"])[0] == exit_codes.Exit.OK


@pytest.mark.parametrize("columns", [80, 60])
def test_the_worktrees_on_a_terminal_have_whole_paths_and_references(
    bench: Bench, run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    whole = bench.identifier
    tree = bench.call("delegations/get", id=whole).worktree
    references = []
    for _ in range(2):
        references.append(run("discard", whole)[1].split()[-1])
        run("restore", whole)
    assert references[1] == f"{references[0]}-2"
    shown = terminal.short_path(tree)
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(terminal, "width", lambda: columns)
    header, *rows = run("worktrees")[1].splitlines()
    text = "\n".join(rows)
    assert header.split()[:3] == ["ID", "STATE", "SIZE"]
    assert rows[0].split()[0] == whole.rpartition("-")[2]
    assert whole not in rows[0], "the ID is shown once, in short"
    assert text.count(f"path {shown}") + text.count(f"  {shown}") >= 1, text
    assert "…" not in text
    run("discard", whole)
    text = run("worktrees")[1]
    assert all(reference in text.split() for reference in references)
    assert "understudy restore REF" in text


def test_reply_and_retry_start_and_follow_the_next_one(bench: Bench, run: Run) -> None:
    whole = bench.identifier
    run("reject", whole, "a.txt", "-m", "no")
    run("accept", whole, "new")
    code, text, said = run("reply", whole, "leave", "a.txt", "--json", "--quiet")
    assert code in {exit_codes.Exit.UNVERIFIED, exit_codes.Exit.NO_CHANGES}, (text, said)
    assert json.loads(text)["parentId"] == whole
    follow_up = json.loads(text)["id"]
    assert f"{follow_up} continues it, so decide there: understudy review {follow_up}" in run("undo", whole)[1]
    assert f"- decide in {follow_up}" in " ".join(run("review", whole)[1].split())
    code, text, said = run("retry", whole, "-d", "doer")
    assert code == exit_codes.Exit.UNVERIFIED, said
    assert f"starts {whole} again\n" in said
    assert "UNVERIFIED" in text
    assert run("reply", whole, " ")[0] == exit_codes.Exit.USAGE


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    given = {"COMP_WORDS": " ".join(["understudy", *words]), "COMP_CWORD": str(len(words))}
    done = forked.run(
        [],
        env={**os.environ, **given, "_UNDERSTUDY_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


def test_files_and_hunks_are_completed(bench: Bench) -> None:
    whole = bench.identifier
    assert completed("accept", whole, "a") == ["a.txt"]
    assert completed("reject", whole, "a.txt:") == [f"a.txt:{bench.hunk('a.txt', number)}" for number in (0, 1)]
    assert completed("amend", whole, "a.txt") == ["a.txt"]
    assert completed("accept", "nothing", "a") == []


def test_answer_without_open_questions(run: Run) -> None:
    code, text, _ = run("inbox", "--json")
    assert (code, json.loads(text)) == (exit_codes.Exit.OK, {"delegations": []})
    assert run("answer")[0] == exit_codes.Exit.ERROR


# -- on a terminal -------------------------------------------------------------------------------------------------


class Tmux:
    """A terminal of the test's own."""

    def __init__(self, socket: Path, folder: Path) -> None:
        self.argv = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self.do("new-session", "-d", "-x", "100", "-y", "50", "-c", str(folder), "sh")

    def do(self, *arguments: str) -> str:
        done = subprocess.run([*self.argv, *arguments], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    def type(self, text: str) -> None:
        self.do("send-keys", "-l", text)
        self.do("send-keys", "Enter")

    def until(self, text: str) -> str:
        def screen() -> str:
            return self.do("capture-pane", "-p", "-J", "-S", "-500")

        return until(lambda: text in (shown := screen()) and shown, screen)


@pytest.fixture
def tmux(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    monkeypatch.setenv("PS1", "$ ")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/new/newer/ "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("TMUX", raising=False)
    terminal = Tmux(tmp_path / "t", bench.top)
    yield terminal
    terminal.do("kill-server")


@pytest.mark.heavy
def test_a_review_on_a_real_terminal(bench: Bench, tmux: Tmux) -> None:
    tmux.type(f"{sys.executable} -m understudy review {bench.identifier[-5:]}; echo code $?.")
    assert ".github/x.yml" in tmux.until("(1/4) Accept this hunk")
    tmux.type("n")
    tmux.until("(2/4) Accept this hunk")
    tmux.type("r keep the number")
    tmux.until("(3/4) Accept this hunk")
    tmux.type("y")
    tmux.until("(4/4) Accept this hunk")
    assert bench.text("a.txt") == LINES, "nothing happens before the end"
    tmux.type("e")
    tmux.until("+newer")
    tmux.type("y")
    screen = tmux.until("code 0.")
    assert "accepted: 2 hunks in 2 files" in screen
    assert "rejected: 2 hunks in 2 files" in screen
    assert "undo the accept: understudy undo" in screen
    assert bench.text("a.txt") == LINES.replace("line 20\n", "line twenty\n")
    assert bench.text("new/b.txt") == "newer\n"
    assert bench.states() == {
        ".github/x.yml": ["rejected"],
        "a.txt": ["rejected", "accepted"],
        "new/b.txt": ["accepted"],
    }


@pytest.mark.heavy
def test_ctrl_c_decides_nothing(bench: Bench, tmux: Tmux) -> None:
    tmux.type(f"{sys.executable} -m understudy review {bench.identifier} a.txt; echo code $?.")
    tmux.until("(1/2) Accept this hunk")
    tmux.type("y")
    tmux.until("(2/2) Accept this hunk")
    tmux.do("send-keys", "C-c")
    tmux.until("code 130.")
    assert bench.text("a.txt") == LINES
    assert bench.states()["a.txt"] == ["pending", "pending"]


@pytest.mark.heavy
@pytest.mark.parametrize("key", ["", "n"])
def test_a_review_while_the_checks_run_says_so(bench: Bench, tmux: Tmux, run: Run, tmp_path: Path, key: str) -> None:
    flag = tmp_path / "checked"
    checks = Path(os.environ["UNDERSTUDY_CONFIG"]) / "checks"
    checks.mkdir()
    command = json.dumps(["sh", "-c", f"while [ ! -e {flag} ]; do sleep 0.1; done"])
    (checks / "slow.toml").write_text(f'name = "slow"\nargv = {command}\n')
    place = str(bench.top)
    started = bench.call("delegations/start", recipe="implement", task="x", delegator="doer", workspace=place)
    until(lambda: bench.call("delegations/get", id=started.id).state == "checking")
    assert "NO VERDICT YET: its checks still run\n" in run("review", started.id, "--list")[2]
    tmux.type(f"{sys.executable} -m understudy review {started.id}; echo code $?.")
    assert "NO VERDICT YET: its checks still run" in tmux.until("Wait for the verdict [Y/n/s/q]?")
    tmux.type(key)
    if key == "n":
        for number in range(1, 5):
            tmux.until(f"({number}/4) Accept this hunk")
            tmux.type("n" if number == 1 else "y")
        tmux.until("Your decisions are applied after the checks have ended")
        flag.touch()
        assert "VERIFIED: " in tmux.until("Apply your 4 decisions [Y/n]?")
        tmux.type("")
        tmux.until("accepted: 3 hunks")
    else:
        flag.touch()
        assert "check slow" in tmux.until("VERIFIED: ")
        tmux.until("(1/4) Accept this hunk")
        tmux.type("q")
    tmux.until("code 0.")
