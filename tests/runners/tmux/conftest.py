"""Fixtures for agents in tmux: a worktree, and tasks for the scripted agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tmux_server import TMUX, TmuxServer, tmux_server

from understudy.model.capabilities import DONE_NOTE
from understudy.model.config.delegators import AppliesTo, Delegator, Launch, Limits, Recipe, Scope
from understudy.model.errors import UnderstudyError
from understudy.runners.runner import Outcome, Task, runner_for

AGENT = Path(__file__).with_name("terminal_agent.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all tests of this folder where tmux is not installed."""
    for item in items:
        if not TMUX and AGENT.parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="tmux is not installed"))


class Desk:
    """A worktree, and agents that work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "the-tree"
        self.tree.mkdir()
        self.events: list[Any] = []
        self.mark = f"test-{os.getpid()}-{time.monotonic_ns()}"

    def task(self, *what: str, delegator: Delegator | None = None, returns: str = "tree", **more: Any) -> Task:
        command = [sys.executable, str(AGENT), *what, "{promptFile}"]
        values: dict[str, Any] = {
            "delegation_id": self.mark,
            "recipe": Recipe(
                name="implement", title="x", returns=returns, applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
            ),
            "prompt": "-Do what is asked.\n" + DONE_NOTE,
            "prompt_file": self.folder / "prompt.md",
            "worktree": self.tree,
            "delegator": delegator
            or Delegator(name="mine", tool="generic", mode="tmux", launch=Launch(command=command)),
            "limits": Limits(total_seconds=60),
            "stdout_log": self.folder / "stdout.log",
        }
        return Task(**(values | more))

    async def run(self, task: Task, defined: Any = None) -> Outcome | UnderstudyError:
        """Run to the end, and check that nothing is left: no process, and no file of the run."""
        try:
            runner = runner_for(task.delegator, task.model_server, defined)
            return await runner.run(task, self.events.append)
        except UnderstudyError as error:
            return error
        finally:
            assert not self.processes()
            assert not (self.tree / ".understudy-run").exists()

    def processes(self) -> list[str]:
        """Return the command lines of all processes with the mark of this desk."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """What the agent found when it started."""
        found: dict[str, Any] = json.loads((self.tree / "facts.json").read_text())
        return found

    async def until(self, condition: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait until the condition gives something."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, "not in time"
            await asyncio.sleep(0.01)
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def server() -> Iterator[TmuxServer]:
    with tmux_server() as made:
        yield made
