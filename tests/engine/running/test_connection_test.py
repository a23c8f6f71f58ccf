"""A delegator is tried with a real round trip: its program, asked for one word in an empty repository."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import psutil
import pytest

from understudy.model.errors import ErrorKind, UnderstudyError

ANSWERS = """
    for line in sys.stdin:
        pass
    pathlib.Path("left-behind").write_text("")
    say(type="text", text="ready")
    say(type="result", ok=True, summary="")
"""


def tried(project, name):
    found = project.call("delegators/test", name=name)
    return found.ok, [step.name for step in found.steps], found.steps[-1].message


def test_an_agent_is_asked_and_answers(project):
    ok, steps, message = tried(project, project.program("quick", ANSWERS))
    assert (ok, steps) == (True, ["configuration", "binary", "round_trip"]), message
    assert "ready" in message
    assert not (project.top / "left-behind").exists(), "it works in a repository of its own"


def test_it_works_in_a_repository(project):
    source = """
        say(type="text", text=str((pathlib.Path(".git") / "HEAD").exists()) + " " + str(sorted(os.listdir("."))))
        say(type="result", ok=True, summary="")
    """
    assert "True ['.git']" in tried(project, project.program("where", source))[2]


@pytest.mark.parametrize(("scenario", "says"), [("crash", "3"), ("error", ""), ("no_end", "")])
def test_an_agent_that_fails_says_why(project, scenario, says):
    ok, steps, message = tried(project, project.agent("failing", scenario))
    assert (ok, steps[-1]) == (False, "round_trip")
    assert says in message


def test_the_last_words_of_an_agent_stay_a_sentence_of_their_own(project):
    project.delegator("broken", "sh", "-c", "echo I cannot read the prompt >&2; exit 1")
    message = tried(project, "broken")[2]
    assert "exited with code 1: I cannot read the prompt. Fix " in message, message


def test_a_traceback_is_shown_as_its_error(project):
    project.delegator("broken", sys.executable, "-c", "open('none')")
    message = tried(project, "broken")[2]
    assert "exited with code 1: FileNotFoundError: [Errno 2] No such file or directory: 'none'. Fix " in message, (
        message
    )
    assert "Traceback" not in message


def test_an_agent_that_never_answers_is_given_up(project):
    project.delegator("mute", "sleep", "60", extra="[limits]\ntotal_seconds = 1\n")
    ok, _, message = tried(project, "mute")
    assert not ok
    assert "1 s" in message


def test_a_cancelled_test_leaves_no_agent(project, monkeypatch):
    project.delegator("mute", "sleep", f"60.{os.getpid()}")
    looks = iter([False, False])
    monkeypatch.setattr(project.caller, "cancelled", lambda: next(looks, True), raising=False)
    with pytest.raises(UnderstudyError) as caught:
        tried(project, "mute")
    assert caught.value.kind is ErrorKind.CANCELLED
    assert not sleeping(f"60.{os.getpid()}")


def test_the_process_that_asks_loads_neither_runners_nor_keys(project):
    project.program("quick", ANSWERS)
    code = """
import sys
from pathlib import Path
from understudy.api import method_table
from understudy.api.caller import TerminalCaller
found = method_table.call("delegators/test", {"name": "quick", "workspace": sys.argv[1]}, TerminalCaller(Path(sys.argv[1])))
assert found.ok, found
loaded = [name for name in sys.modules if name.startswith(("understudy.runners.", "understudy.secrets.keys", "httpx"))]
print(sorted(set(loaded) - {"understudy.runners.runner", "understudy.runners.runner"}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(project.top)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_an_agent_of_a_test_ends_with_the_process_that_asked(project):
    project.delegator("mute", "sleep", f"61.{os.getpid()}")
    argv = [sys.executable, "-m", "understudy", "delegators", "test", "mute"]
    asking = subprocess.Popen(argv, cwd=project.top, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: sleeping(f"61.{os.getpid()}"))
    [agent] = sleeping(f"61.{os.getpid()}")
    above = [" ".join(parent.cmdline()) for parent in agent.parents()]
    assert any("--connection-test" in line for line in above), above
    asking.kill()
    asking.wait(60)
    wait_until(lambda: not sleeping(f"61.{os.getpid()}"))


def sleeping(seconds):
    return [one for one in psutil.process_iter() if own_command(one) == ["sleep", seconds]]


def own_command(process):
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_not_there_is_not_asked(project):
    project.delegator("gone", "/nowhere/agent")
    ok, steps, _ = tried(project, "gone")
    assert (ok, steps[-1]) == (False, "binary")


def test_ghostwriter_asks_no_permission(project):
    ok, steps, message = tried(project, "ghostwriter")
    assert (ok, steps[-1]) == (True, "round_trip"), message
    assert "no model" in message
