"""Delegations to an agent in tmux, with real workers: the claim and the verdict, attaching, cancelling, kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killed_workers import holders, kill
from tmux_server import TMUX, tmux_server
from wait_until import until

from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError

pytestmark = [
    pytest.mark.skipif(not TMUX, reason="tmux is not installed"),
    pytest.mark.usefixtures("cold_workers"),  # which are found by their command line
]

AGENT = Path(__file__).parents[2] / "runners" / "tmux" / "terminal_agent.py"
SECRET = "a-secret-of-the-caller-0123456789"


@pytest.fixture
def server():
    with tmux_server() as made:
        yield made


def in_tmux(project, *what: str, name: str = "watched") -> str:
    folder = project.config / "delegators"
    folder.mkdir(parents=True, exist_ok=True)
    command = json.dumps([sys.executable, str(AGENT), *what, "{prompt}"])
    text = f'name = "{name}"\ntool = "generic"\nmode = "tmux"\nenv = {{ TOKEN = {{ from_env = "MY_TOKEN" }} }}\n'
    (folder / f"{name}.toml").write_text(f"{text}[launch]\ncommand = {command}\n")
    return name


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", SECRET)
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)


def alive(tag: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if tag in line:
            found.append(line)
    return found


def at_work(project, identifier, file="half.txt"):
    """Wait until the agent works; return the delegation."""
    found = project.until(identifier, lambda delegation: delegation.terminal is not None)
    until((Path(found.worktree) / file).exists, file)
    return found


def test_the_report_is_a_claim_and_a_check_decides(project):
    project.settings('[[checks]]\nname = "no"\nargv = ["test", "!", "-e", "half.txt"]\n')
    done = project.run("implement", delegator=in_tmux(project, "work"), task="half")
    assert (done.verdict, done.terminal) == ("checks_failed", None)
    assert done.result.summary == "I wrote half.txt, and checked nothing."
    assert sorted(stat.path for stat in done.result.files) == ["facts.json", "half.txt"]


@pytest.mark.heavy
def test_a_user_attaches_in_the_same_tmux_and_from_elsewhere(project, server, monkeypatch):
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    identifier = project.start("implement", delegator=in_tmux(project, "ask"), task="half")
    pane = at_work(project, identifier).terminal
    assert server.panes() == [server.first, pane.id]
    here = " ".join(server.variables.values())
    inside = project.call("delegations/attach", id=identifier, tmux=here).argv
    assert inside[-3:] == ["switch-client", "-t", pane.id]

    # From another tmux, as from any terminal: a client of the first one, in a pane of the second one.
    with tmux_server() as other:
        names = ("HOME", "UNDERSTUDY_STATE", "UNDERSTUDY_CONFIG")
        sets = [text for name in names for text in ("-e", f"{name}={os.environ[name]}")]
        command = [sys.executable, "-P", "-m", "understudy", "attach", identifier]
        shown = other("new-window", "-P", "-F", "#{pane_id}", *sets, *command)
        other.shows(shown, "May I write more?")
        other("send-keys", "-t", shown, "from afar", "Enter")
        done = project.finish(identifier)
    assert done.result.summary == "You said from afar."
    assert server.panes() == [server.first]
    with pytest.raises(UnderstudyError) as refused:
        project.call("delegations/attach", id=identifier)
    assert refused.value.kind is ErrorKind.INVALID_PARAMS
    assert "has no terminal" in refused.value.message


@pytest.mark.parametrize("beside", [True, False])
def test_a_cancel_ends_the_agent_and_its_pane(project, server, monkeypatch, beside):
    tag = f"600.{os.getpid()}3"
    if beside:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
    identifier = project.start("implement", delegator=in_tmux(project, "stubborn", tag), task="half")
    pane = at_work(project, identifier, "ready.txt").terminal
    done = project.call("delegations/cancel", id=identifier)
    assert (done.verdict, done.terminal) == ("cancelled", None)
    assert "half.txt" in [stat.path for stat in done.result.files]
    assert not alive(tag)
    if beside:
        assert server.panes() == [server.first]
    else:
        assert not alive(pane.socket)


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("what", ["worker", "worker and guardian"])
def test_a_killed_worker_leaves_nothing(project, server, monkeypatch, beside, what):
    tag = f"600.{os.getpid()}4"
    if beside:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
    identifier = project.start("implement", delegator=in_tmux(project, "stubborn", tag), task="half")
    pane = at_work(project, identifier, "ready.txt").terminal
    worker, *guardians = holders(identifier)
    assert guardians
    assert kill(worker, identifier)
    for pid in guardians if what == "worker and guardian" else []:
        kill(pid, identifier)  # unless it has ended already, because its worker has
    until(lambda: not alive(tag), "the agent has ended")
    if beside:
        until(lambda: server.panes() == [server.first], "its pane is closed")
    else:
        until(lambda: not alive(pane.socket), "its tmux has ended")
    done = project.finish(identifier)
    assert (done.verdict, done.terminal) == ("interrupted", None)


def test_a_stopped_pane_and_what_its_own_server_started_end_with_a_killed_worker(project):
    tag = f"600.{os.getpid()}5"
    identifier = project.start("implement", delegator=in_tmux(project, "ask"), task="half")
    pane = at_work(project, identifier).terminal
    said = subprocess.run(
        [TMUX, "-S", pane.socket, "run-shell", "-b", f"setsid sleep {tag}"], capture_output=True, check=False
    )
    assert said.returncode == 0, said.stderr
    until(lambda: alive(tag), "something that the tmux server started")
    inside = subprocess.run(
        [TMUX, "-S", pane.socket, "display-message", "-p", "-t", pane.id, "#{pane_pid}"],
        capture_output=True,
        check=True,
    )
    os.kill(int(inside.stdout), signal.SIGSTOP)
    worker, *_ = holders(identifier)
    assert kill(worker, identifier)
    done = project.finish(identifier)
    assert done.verdict == "interrupted"
    until(lambda: not alive(tag) and not alive(pane.socket), "all with the delegation's mark have ended")


def test_the_secret_is_nowhere_but_in_the_agent(project):
    identifier = project.start("implement", delegator=in_tmux(project, "ask"), task="half")
    found = at_work(project, identifier)
    facts = Path(found.worktree) / "facts.json"
    until(lambda: facts.exists() and facts.read_text().rstrip().endswith("}"), "the whole facts")
    shown = subprocess.run(
        [TMUX, "-S", found.terminal.socket, "show-environment", "-g"], capture_output=True, text=True, check=True
    )
    assert SECRET not in shown.stdout
    assert f"UNDERSTUDY_DELEGATION={identifier}" in shown.stdout
    assert not alive(SECRET)
    assert json.loads(facts.read_text())["env"]["TOKEN"] == SECRET
    facts.unlink()  # the agent wrote it down itself
    project.call("delegations/cancel", id=identifier)
    folder = delegation_folder.open_folder(identifier).path
    written = [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert written == []
    assert folder.is_relative_to(delegation_folder.state_root())
