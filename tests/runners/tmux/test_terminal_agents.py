"""Test agents with ``mode = "tmux"`` on a real tmux, with a scripted agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from tmux_server import TMUX

from understudy.model.capabilities import Pane
from understudy.model.config.delegators import Delegator, Launch, Limits
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.events import AgentStarted, Note
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.runner import Outcome
from understudy.runners.tmux import terminal_source

AGENT = Path(__file__).with_name("terminal_agent.py")
SECRET = "a-secret-of-the-caller-0123456789"


async def test_the_report_ends_the_attempt_and_is_only_its_summary(desk):
    outcome = await desk.run(desk.task("work"))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == outcome.summary == "I wrote half.txt, and checked nothing."
    assert outcome.estimated
    assert desk.facts["task"].startswith("-Do what is asked.\n")
    assert "done.md" in desk.facts["task"]
    assert desk.facts["terminals"] == [True, True, True]
    assert desk.facts["controlling"]
    assert "working …" in (desk.folder / "stdout.log").read_text()
    assert not (desk.folder / "terminal").exists()


async def test_the_report_is_the_answer_of_a_recipe_that_returns_text(desk):
    outcome = await desk.run(desk.task("in-place", returns="text"))
    assert isinstance(outcome, Outcome), outcome
    assert outcome.text == "First line, second line."


async def test_the_pane_is_beside_the_callers_and_the_user_answers_in_it(desk, server):
    environment = {"TOKEN": SECRET, "PLAIN": "value"}
    before = server.panes()
    task = desk.task("ask", caller_pane=server.pane, environment=environment, secrets={"TOKEN": SECRET})
    running = asyncio.create_task(desk.run(task))
    pane = await desk.until(lambda: desk.events and desk.events[0].terminal)
    assert isinstance(desk.events[0], AgentStarted)
    assert pane.socket == str(server.socket)
    assert server.panes() == [*before, pane.id], "in the caller's window, although another one is shown"
    assert server("display-message", "-p", "-t", server.first, "#{pane_active}") == "1"
    await desk.until(lambda: "May I write more?" in server("capture-pane", "-p", "-t", pane.id))

    # What the agent has, tmux does not have, and no command line shows.
    for scope in ([], ["-g"]):
        assert SECRET not in server("show-environment", *scope)
    assert not any(SECRET in line or "what is asked" in line for line in command_lines())
    inside = int(server("display-message", "-p", "-t", pane.id, "#{pane_pid}"))
    assert SECRET.encode() not in Path(f"/proc/{inside}/environ").read_bytes()
    found = desk.facts["env"]
    assert (found["TOKEN"], found["PLAIN"]) == (SECRET, "value")
    assert "ONLY_SERVER" not in found
    assert "TMUX" not in found
    assert found["TERM"] == server("show-options", "-gv", "default-terminal")
    rows, columns = server("display-message", "-p", "-t", pane.id, "#{pane_height} #{pane_width}").split()
    assert desk.facts["size"] == [int(columns), int(rows)]

    server("send-keys", "-t", pane.id, "yes, you may", "Enter")
    outcome = await running
    assert isinstance(outcome, Outcome), outcome
    assert outcome.summary == "You said yes, you may."
    assert server.panes() == before, "the pane is gone, although the user's panes remain after their programs"
    assert not (desk.folder / "stdout.log").exists(), "it could contain the secret"


async def test_further_panes_are_below_each_other(desk, server, tmp_path):
    first = asyncio.create_task(desk.run(desk.task("ask", caller_pane=server.pane)))
    one = (await desk.until(lambda: desk.events and desk.events[0].terminal)).id
    (tmp_path / "other").mkdir()
    other = type(desk)(tmp_path / "other")
    second = asyncio.create_task(other.run(other.task("ask", caller_pane=server.pane)))
    two = (await desk.until(lambda: other.events and other.events[0].terminal)).id
    place = "#{pane_left} #{pane_top}"
    (left, top), (left_of_two, top_of_two) = (
        map(int, server("display-message", "-p", "-t", pane, place).split()) for pane in (one, two)
    )
    assert (left_of_two, top) == (left, 0)
    assert top_of_two > 0
    for pane in (one, two):
        server("send-keys", "-t", pane, "go", "Enter")
    assert all(isinstance(outcome, Outcome) for outcome in await asyncio.gather(first, second))


async def test_a_caller_whose_pane_is_gone_gets_a_session_of_its_own(desk):
    gone = Pane(socket="/tmp/no-such-server", id="%7")
    outcome = await desk.run(desk.task("work", caller_pane=gone))
    assert isinstance(outcome, Outcome), outcome
    assert desk.events[0].terminal.socket != gone.socket


async def test_a_closed_pane_is_noticed(desk, server):
    running = asyncio.create_task(desk.run(desk.task("ask", caller_pane=server.pane)))
    pane = await desk.until(lambda: desk.events and desk.events[0].terminal)
    await desk.until((desk.tree / "half.txt").exists)
    server("kill-pane", "-t", pane.id)
    failure = await running
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.TOOL_NO_RESULT
    assert "was closed before the agent had finished" in failure.message


async def test_a_killed_tmux_server_is_noticed(desk, server):
    running = asyncio.create_task(desk.run(desk.task("ask", caller_pane=server.pane)))
    await desk.until((desk.tree / "half.txt").exists)
    os.kill(int(server("display-message", "-p", "#{pid}")), 9)
    failure = await running
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.TOOL_NO_RESULT


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("link", ErrorKind.MALFORMED_OUTPUT, "link or a special file"),
        ("pipe", ErrorKind.MALFORMED_OUTPUT, "is not a regular file"),
        ("long", ErrorKind.MALFORMED_OUTPUT, "longer than 65536 bytes"),
        ("empty", ErrorKind.EMPTY_OUTPUT, "an empty report"),
    ],
)
async def test_an_odd_report_is_refused(desk, monkeypatch, what, kind, words):
    monkeypatch.setattr(terminal_source, "MOST_EMPTY_LOOKS", 1)
    failure = await desk.run(desk.task(what))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind
    assert words in failure.message


@pytest.mark.parametrize(("code", "kind"), [("0", ErrorKind.TOOL_NO_RESULT), ("3", ErrorKind.TOOL_CRASHED)])
async def test_an_exit_without_a_report_shows_the_last_words(desk, code, kind):
    failure = await desk.run(desk.task("exit", code))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind
    assert f"exited with code {code} and wrote no report" in failure.message
    assert failure.message.endswith("No credit left.")


async def test_the_last_words_are_shown_without_secrets(desk):
    failure = await desk.run(desk.task("leak", environment={"TOKEN": SECRET}, secrets={"TOKEN": SECRET}))
    assert isinstance(failure, UnderstudyError), failure
    assert "my token:" in failure.message
    assert SECRET not in failure.message


async def test_limits_apply_and_nothing_survives_them(desk):
    tag = f"600.{os.getpid()}1"
    failure = await desk.run(desk.task("stubborn", tag, limits=Limits(idle_seconds=1)))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.STALLED
    assert not any(tag in line for line in command_lines())


async def test_a_cancel_leaves_nothing(desk, server):
    tag = f"600.{os.getpid()}2"
    running = asyncio.create_task(desk.run(desk.task("stubborn", tag, caller_pane=server.pane)))
    await desk.until((desk.tree / "ready.txt").exists)
    before = asyncio.get_running_loop().time()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.get_running_loop().time() - before < 20, "the promise is five seconds on an idle machine"
    assert not any(tag in line for line in command_lines())
    assert len(server.panes()) == 1


async def test_without_tmux_it_says_what_to_install(desk, tmp_path):
    (tmp_path / "empty").mkdir()
    failure = await desk.run(desk.task("work", environment={"PATH": str(tmp_path / "empty")}))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.TOOL_MISSING
    assert "apt install tmux" in (failure.hint or "")
    assert "headless" not in (failure.hint or ""), "a custom command has no other mode"


async def test_without_tmux_it_runs_headless_where_that_is_configured(desk, tmp_path):
    (tmp_path / "empty").mkdir()
    defined = ToolDefinition(
        name="scribe",
        title="Scribe",
        command=[sys.executable, "-c", "import sys; print('headless:', sys.stdin.read().strip())"],
        interactive=[sys.executable, str(AGENT), "work", "{prompt}"],
    )
    environment = {"PATH": str(tmp_path / "empty")}
    for without, expected in ((None, UnderstudyError), ("headless", Outcome)):
        delegator = Delegator(name="s", tool="scribe", mode="tmux", launch=Launch(without_tmux=without))
        found = await desk.run(desk.task(delegator=delegator, environment=environment, returns="text"), defined=defined)
        assert isinstance(found, expected), found
    assert found.text == "headless: -Do what is asked.\n", "without the words about a report"
    assert [event.text for event in desk.events if isinstance(event, Note)] == [
        "tmux is not installed, so the agent runs without a terminal (`launch.without_tmux`)."
    ]


def told(tool: str, launch: Launch | None = None, model: str = "") -> Delegator:
    return Delegator(name=tool, tool=tool, mode="tmux", model=model, launch=launch)


def fake(folder: Path, name: str) -> None:
    """Make a program of this name that works like the scripted agent."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{AGENT}" work "$@"\n')
    program.chmod(0o755)
    (folder / "tmux").unlink(missing_ok=True)
    (folder / "tmux").symlink_to(TMUX)


@pytest.mark.parametrize(
    ("delegator", "arguments"),
    [
        (
            told("claude", Launch(flags=["--effort=high"]), "opus"),
            [
                *("--strict-mcp-config", "--setting-sources=user", "--model=opus", "--permission-mode=acceptEdits"),
                *("--effort=high", "--", "PROMPT"),
            ],
        ),
        (
            told("claude", Launch(permission_mode="default")),
            ["--strict-mcp-config", "--setting-sources=user", "--permission-mode=default", "--", "PROMPT"],
        ),
        (
            told("codex", Launch(), "gpt-5.5"),
            [
                *("-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"),
                *("-c", 'projects={"TREE"={trust_level="untrusted"}}', "--model", "gpt-5.5"),
                *("--ask-for-approval", "on-request", "--sandbox", "workspace-write", "--", "PROMPT"),
            ],
        ),
        (told("opencode", None, "lab/m"), ["--model", "lab/m", "--prompt", "PROMPT"]),
        (told("cursor", Launch(yolo=True)), ["--force", "--", "PROMPT"]),
    ],
)
async def test_each_tool_is_started_as_its_declaration_says(desk, tmp_path, delegator, arguments):
    fake(tmp_path / "programs", "cursor-agent" if delegator.tool == "cursor" else delegator.tool)
    environment = {"PATH": f"{tmp_path / 'programs'}:/usr/bin:/bin"}
    outcome = await desk.run(desk.task(delegator=delegator, environment=environment))
    assert isinstance(outcome, Outcome), outcome
    prompt = "Read the file .understudy-run/task.md in the current folder to its end, and do what it says."
    expected = [word.replace("TREE", str(desk.tree)) if word != "PROMPT" else prompt for word in arguments]
    assert desk.facts["more"] == expected
    if delegator.tool == "opencode":
        assert desk.facts["env"]["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
        settings = json.loads(desk.facts["env"]["OPENCODE_CONFIG_CONTENT"])
        assert settings["enabled_providers"] == ["lab"], "it would use a hosted model for one that it does not find"


@pytest.mark.parametrize(
    ("delegator", "words"),
    [
        (told("claude", Launch(flags=["--print"])), "--print"),
        (told("claude", Launch(yolo=True, permission_mode="default")), "launch.yolo"),
        (told("opencode"), "names neither a model server nor a model with its provider"),
        (told("opencode", None, "a/b"), "load code or remote files"),
    ],
)
async def test_what_cannot_apply_in_a_terminal_is_refused(desk, tmp_path, delegator, words):
    fake(tmp_path / "programs", delegator.tool)
    if delegator.model:
        (desk.tree / ".opencode" / "plugin").mkdir(parents=True)
    failure = await desk.run(desk.task(delegator=delegator, environment={"PATH": str(tmp_path / "programs")}))
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is ErrorKind.CONFIG_INVALID
    assert words in failure.message


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
