"""A program that would use up the machine is ended, whatever it is for, and the user learns what to change."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap

import pytest
from project_python import project_python

from understudy.ghostwriter.confined_runs import ConfinedRuns
from understudy.model.confinement import Confinement
from understudy.process.programs import children

BOUNDS = {"max_memory_bytes": 150 << 20, "max_processes": 30, "max_file_bytes": 5 << 20}
GREEDY = {
    "max_memory_bytes": "held = b'x' * (200 << 20); import time; time.sleep(600)",
    "max_processes": "import os, time; [os.fork() for _ in range(6)]; time.sleep(600)",
    "max_file_bytes": "import os; os.execvp('truncate', ['truncate', '-s', '1G', 'large'])",
}


@pytest.fixture(params=GREEDY)
def key(request):
    return request.param


@pytest.fixture
def limited(project):
    def settings(text=""):
        bounds = "\n".join(f"{name} = {value}" for name, value in BOUNDS.items())
        head = f'[environment]\npython = "{project_python()}"\n[programs]\n{bounds}\n'
        project.settings(head + textwrap.dedent(text))

    settings()
    project.limit = settings
    project.program("quick", "pathlib.Path('new.txt').write_text('x')\nsay(type='result', ok=True, text='done')")
    return project


def argv(key):
    return json.dumps([sys.executable, "-I", "-c", GREEDY[key]])


def test_an_agent(limited, key):
    limited.program("greedy", f"pathlib.Path('half.txt').write_text('half')\n{GREEDY[key]}")
    done = limited.run("implement", delegator="greedy", task="x")
    assert (done.verdict, done.error.kind) == ("failed", "resource_limit")
    assert done.error.message.startswith("The agent ")
    assert f"`{key}` under [programs]" in done.error.hint
    assert "half.txt" in [stat.path for stat in done.result.files], "partial work is kept"


def test_a_check(limited, key):
    limited.write("step.py", "pass\n")
    limited.commit()
    limited.program(
        "sly", f"pathlib.Path('step.py').write_text({GREEDY[key]!r})\nsay(type='result', ok=True, text='done')"
    )
    limited.limit(f'[[checks]]\nname = "step"\nargv = ["{sys.executable}", "step.py"]\n')
    limited.trust()
    done = limited.run("implement", delegator="sly", task="x")
    assert done.verdict == "checks_failed"
    [check] = done.checks
    assert "The check " in check.output_tail
    assert f"`{key}` under [programs]" in check.output_tail


def test_the_setup_of_a_worktree(limited, key):
    limited.limit(f"[worktrees]\nsetup = {argv(key)}\n")
    done = limited.run("implement", delegator="quick", task="x")
    assert (done.verdict, done.error.kind) == ("failed", "resource_limit")
    assert done.error.message.startswith("The setup command ")
    assert f"`{key}` under [programs]" in done.error.hint


async def test_the_code_that_the_ghostwriter_calls(tmp_path):
    """Its own tests show that memory is limited, too."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "top").mkdir()
    runs = await asyncio.to_thread(ConfinedRuns, tmp_path / "top", sys.executable, tmp_path / "tree")
    for greedy, what in [
        (GREEDY["max_file_bytes"], "tried to write a file"),
        ("import os, time; [os.fork() for _ in range(7)]; time.sleep(600)", "started more than 64 processes"),
    ]:
        program = runs.confined([sys.executable, "-I", "-c", greedy], runs.environment(), b"", 60)
        done = await children.run(program, timeout_seconds=60)
        assert done.limit_error is not None
        assert f"The test writer {sys.executable!r} {what}" in done.limit_error.message
        assert done.sandbox.asked is Confinement.NAMESPACE
