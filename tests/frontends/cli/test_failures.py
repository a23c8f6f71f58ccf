"""Test that each failure, provoked for real, ends with a card that names its cause and what to do."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import forked
import pytest
from click.testing import CliRunner

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.frontends.cli import app
from understudy.frontends.cli.delegate import follower
from understudy.frontends.cli.terminal.terminal import HeldInterrupt
from understudy.model.delegation.events import Permission
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, own_home: Path) -> Run:
    """Run a command in a new repository that is trusted."""
    top = tmp_path / "project"
    top.mkdir()
    (top / "a.py").write_text("def f(x):\n    return x + 1\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=top, check=True)

    def call(
        *arguments: str,
        cwd: Path = top,
        program: Sequence[str] = (),
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        start = subprocess.run if program else forked.run
        return start(
            [*program, *arguments],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            check=False,
        )

    method_table.call("workspace/trust", {"workspace": str(top), "trusted": True}, TerminalCaller(top))
    return call


def script(folder: Path, name: str, text: str) -> str:
    """Write an executable shell script and return its path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_repository_of_another_user_is_refused_before_anything_starts(run: Run, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    top = tmp_path / "project"
    for path in (top, *top.rglob("*")):
        os.lchown(path, 65534, 65534)
    for command in (["start"], ["preview"]):
        refused = run(*command, "tests", "a.py")
        assert f"error: git refuses the repository {top} because it belongs to another user.\nhint: " in refused.stderr
    assert json.loads(run("list", "--json").stdout)["delegations"] == [], "nothing was started"
    doctor = run("doctor").stdout
    assert f"✗ repository: git refuses the repository {top} because it belongs to another user.\n    If you " in doctor
    proposed = re.search(r"run: (git config --global --add safe\.directory .+)", doctor)
    assert proposed is not None, doctor
    subprocess.run(shlex.split(proposed[1]), check=True)
    assert f"✓ repository: {top} is a git repository.\n" in run("doctor").stdout
    assert run("preview", "tests", "a.py").returncode == 0


AGENTS = {
    "a path without a program": (
        ["/no/such/program"],
        "The program '/no/such/program' was not found",
        "Install it there",
    ),
    "a name without a program": (
        ["no-such-program"],
        "The program 'no-such-program' was not found",
        "Install it, or add",
    ),
    "a crash that says why": ("echo 'no license' >&2; exit 3", "'mine' exited with code 3: no license", "Fix what"),
    "a crash that says nothing": ("exit 3", "'mine' exited with code 3", "It printed no reason: run its command in a"),
    "killed, as without memory": (
        "kill -9 $$",
        "'mine' was killed by signal 9",
        "Retry. If it happens again, look for",
    ),
    "a limit": ("sleep 60", "'mine' sent no event within 0.3 s (`first_event_seconds`)", "Raise the limit if"),
}


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_fails_names_cause_and_next_step(run: Run, tmp_path: Path, name: str) -> None:
    command, cause, todo = AGENTS[name]
    argv = command if isinstance(command, list) else [script(tmp_path, "agent", command)]
    run("delegators", "add", "mine", "--tool", "generic", "--", *argv)
    limit = ["--first-event-seconds", "0.3"] if name == "a limit" else []
    ended = run("start", "fix", "a.py", "-t", "x", *limit)
    assert re.search(rf"\n(FAILED|TIMED OUT): .*{re.escape(cause)}\n    {re.escape(todo)}", ended.stdout), ended.stdout
    [found] = json.loads(run("list", "--json").stdout)["delegations"]
    steps = ended.stdout.partition("next: ")[2]
    assert f"understudy retry {found['id']}\n" in steps
    assert " -d " not in steps, "no other delegator can do this"
    if found["verdict"] == "failed":
        assert f"  failed: {found['error']['kind'].replace('_', ' ')}  " in run("list").stdout
    assert cause in run("wait", found["id"]).stdout


def test_only_a_default_or_a_delegator_that_has_succeeded_is_proposed(run: Run, tmp_path: Path) -> None:
    run("delegators", "add", "mine", "--tool", "generic", "--", script(tmp_path, "agent", "exit 3"))
    run("start", "fix", "a.py", "-t", "x")
    [found] = json.loads(run("list", "--json").stdout)["delegations"]
    run("delegators", "add", "absent", "--tool", "generic", "--", "no-such-program")
    works = script(tmp_path, "works", "echo '# done' >> a.py")
    run("delegators", "add", "second", "--tool", "generic", "--", works)
    assert " -d " not in run("show", found["id"]).stdout, "nothing is known about it"
    run("start", "fix", "a.py", "-t", "x", "-d", "second")
    assert f"understudy retry {found['id']} -d second\n" in run("show", found["id"]).stdout, "it has done this"
    run("delegators", "add", "third", "--tool", "generic", "--", "true")
    run("delegators", "default", "third")
    assert f"understudy retry {found['id']} -d third\n" in run("show", found["id"]).stdout, "the default"


def test_what_concerns_no_delegator_proposes_no_other_one(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    script(old, "git", "echo git version 2.20.1")
    for name in ("mine", "second"):
        run("delegators", "add", name, "--tool", "generic", "--", "true")
    ended = run("start", "fix", "a.py", "-t", "x", "-d", "mine", PATH=f"{old}:{os.environ['PATH']}")
    assert f"error: {old}/git is too old: git version 2.20.1.\nhint: Install git 2.39 or newer.\n" in ended.stderr
    assert " -d " not in ended.stdout + ended.stderr


def test_a_damaged_repository_is_named(run: Run, tmp_path: Path) -> None:
    top = tmp_path / "project"
    run("delegators", "add", "mine", "--tool", "generic", "--", "true")
    for folder in (top / ".git" / "objects").glob("??"):
        shutil.rmtree(folder)
    ended = run("start", "fix", "a.py", "-t", "x")
    assert re.search(rf"\nFAILED: git cannot read the commit \w{{10}}, which is HEAD in {top}\n    \| ", ended.stdout)
    assert "\n    Run `git fsck` there; `git fetch` restores" in ended.stdout


def test_a_workspace_that_is_removed_meanwhile_is_named(run: Run, tmp_path: Path) -> None:
    top, here = tmp_path / "project", tmp_path
    run("delegators", "add", "mine", "--tool", "generic", "--", script(tmp_path, "agent", f"rm -rf {top}; echo > new"))
    ended = run("start", "fix", "a.py", "-t", "x")  # in the folder that is removed
    assert (
        f"\nFAILED: {top} was removed, and the worktree needs its repository\n    Restore it. The work is"
        in ended.stdout
    )
    assert "Internal error" not in ended.stderr
    [found] = json.loads(run("list", "--json", cwd=here).stdout)["delegations"]
    assert f"error: The workspace {top} does not exist.\nhint: Restore" in run("check", found["id"], cwd=here).stderr


def test_a_command_in_a_folder_that_was_deleted_says_so(run: Run, tmp_path: Path) -> None:
    for command in (["list"], ["status"], ["doctor"], ["start", "fix", "a.py"], ["delegators"]):
        gone = tmp_path / "gone"
        gone.mkdir()
        shell = f'rmdir {gone}; exec "$0" -m understudy "$@"'
        ended = run(*command, cwd=gone, program=("sh", "-c", shell, sys.executable))
        assert "Internal error" not in ended.stderr
        assert ended.returncode == 0 or command == ["doctor"] or "The current folder was deleted" in ended.stderr


def test_a_full_disk_is_named(run: Run, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", full], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("needs permission to mount a small disk")
    try:
        state = str(full / "state")
        run("trust", "--yes", UNDERSTUDY_STATE=state)
        agent = script(tmp_path, "agent", "dd if=/dev/zero of=big bs=1k count=4000 2>&1 | tail -1; echo x >> a.py")
        run("delegators", "add", "mine", "--tool", "generic", "--", agent, UNDERSTUDY_STATE=state)
        ended = run("start", "fix", "a.py", "-t", "x", UNDERSTUDY_STATE=state)
        assert re.search(r"\nFAILED: The disk .*is full.*\n    Free some space", ended.stdout), ended.stdout
        (full / "fill").write_bytes(b"")
        with contextlib.suppress(OSError), (full / "fill").open("wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        refused = run("start", "fix", "a.py", "-t", "x", UNDERSTUDY_STATE=state)
        assert "error: No space left to write " in refused.stderr
        assert "hint: Free some space on that disk" in refused.stderr
    finally:
        subprocess.run(["umount", "--lazy", full], check=True)


def test_a_state_folder_without_permission_is_named(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refused)
    found = CliRunner().invoke(app.group, ["doctor"], standalone_mode=False).output
    assert f"✗ state: Cannot use {own_home}/state/understudy: Permission denied.\n    Make the folder readable" in found


def test_a_broken_configuration_says_what_to_do(run: Run, own_home: Path) -> None:
    folder = own_home / "config" / "understudy"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text("x = [")
    refused = run("start", "fix", "a.py", "-t", "x").stderr
    assert re.search(rf"error: {folder}/config\.toml:1:\d+: .*This is not TOML", refused)
    assert "hint: Correct this place; until then, the whole file is ignored.\n" in refused


def test_a_result_without_checks_says_how_to_get_one(run: Run, tmp_path: Path) -> None:
    run("delegators", "add", "mine", "--tool", "generic", "--", script(tmp_path, "agent", "echo '# x' >> a.py"))
    card = run("start", "fix", "a.py", "-t", "x").stdout
    proposed = re.search(r"no required check ran\n    .*understudy (checks add)\); .*: understudy (check \S+)\n", card)
    assert proposed is not None, card
    run(*proposed[1].split(), "ok", "--no-test", "--", "true")
    run("trust", "--yes")
    assert "✓ check ok: " in run(*proposed[2].split()).stdout


def test_warnings_are_printed_without_progress(run: Run, tmp_path: Path) -> None:
    (tmp_path / "project" / "package.json").write_text("{}")
    agent = script(tmp_path, "agent", "echo x > a.test.js")
    run("delegators", "add", "mine", "--tool", "generic", "--", agent)
    done = run("start", "tests", "a.py", "-q", "-d", "mine")
    assert done.stderr.startswith("warning: The new JavaScript tests were not run: "), done.stdout
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("warns", [True, False])
def test_a_question_is_printed_without_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, warns: bool
) -> None:
    asked = Permission(seq=1, request_id="r", title="Go on?", detail="", options=[], deadline_action="stop")
    monkeypatch.setattr(follower, "follow", lambda *_, **__: iter([None, asked]))
    monkeypatch.setattr(follower, "call", lambda *_, **__: None)
    follower.Follower("an-id", None, warns=warns).run()
    told = "asks: Go on?\nAnswer with: understudy answer an-id\n" if warns else ""
    assert capsys.readouterr().err == told


def test_a_delegator_without_its_program_is_added_with_a_warning(run: Run) -> None:
    for arguments in (
        ["delegators", "add", "one", "--tool", "generic", "--", "no-such-program"],
        ["delegators", "add", "two", "--tool", "generic", "--mode", "acp", "--", "no-such-program"],
        ["delegators", "update", "one", "--", "no-such-program", "{prompt}"],
    ):
        added = run(*arguments)
        assert added.returncode == 0
        assert (
            "The program 'no-such-program' was not found.\n  Install it, or add its folder to PATH.\n" in added.stderr
        )
        assert "It is saved, but cannot be used yet. Afterwards, test it: understudy delegators test " in added.stderr
    assert run("delegators", "update", "one", "--", "true").stderr == ""


@pytest.mark.parametrize(("state", "cancelled"), [(State.QUEUED, True), (State.RUNNING, False)])
def test_a_start_that_a_full_disk_refuses_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, state: State, cancelled: bool
) -> None:
    asked: list[str] = []

    def call(method: str, **_: str) -> SimpleNamespace:
        asked.append(method)
        if method == "delegations/cancel":
            raise UnderstudyError(ErrorKind.DISK_FULL, "No space.")
        return SimpleNamespace(state=state)

    def stop(*_: object, **__: object) -> None:
        problem = UnderstudyError(ErrorKind.DISK_FULL, "No space left.", hint="Free some space.")
        raise UnderstudyError(ErrorKind.DISK_FULL, "an-id cannot start yet.", hint="It waits.") from problem

    monkeypatch.setattr(follower, "call", call)
    monkeypatch.setattr(follower, "follow_or_cancel", stop)
    with pytest.raises(UnderstudyError) as raised:
        follower.follow_started(
            SimpleNamespace(id="an-id"), "fix", "x", HeldInterrupt(), detach=False, quiet=True, as_json=False
        )
    assert ("delegations/cancel" in asked) == cancelled
    said = (raised.value.message, raised.value.hint)
    ended = ("an-id did not start, and will not: No space left.", "Free some space. Then start it again.")
    assert said == (ended if cancelled else ("an-id cannot start yet.", "It waits."))
