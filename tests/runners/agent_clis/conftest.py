"""Fixtures for runners of agent CLIs: a worktree, and a program of the tool's name that replays recorded streams."""

import asyncio
import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from understudy.config.discovery import declarations
from understudy.model.config.delegators import AppliesTo, Delegator, Limits, Recipe, Scope
from understudy.model.errors import UnderstudyError
from understudy.runners.runner import Ask, Outcome, Task, runner_for

RUNNERS = Path(__file__).parents[1]


class Stage:
    """A worktree, and a program with the name of ``tool`` that replays its recordings."""

    patient = Limits(total_seconds=60, first_event_seconds=60, idle_seconds=60, after_result_seconds=60)
    """For programs that go on by themselves: on a busy machine, each of their steps may take seconds."""

    def __init__(self, tool: str, folder: Path) -> None:
        self.tool, self.folder, self.tree = tool, folder, folder / "the-tree"
        self.recordings = RUNNERS / "recordings" / tool
        self.tree.mkdir()
        self.heard = folder / "heard.jsonl"
        self.program = folder / "programs" / declarations.tools()[tool].binaries[0]
        self.program.parent.mkdir()
        self.program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{RUNNERS / "replay.py"}" "$@"\n')
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.events: list[Any] = []
        if tool == "pi":  # it needs the package around its program
            package = {"name": "@example/pi-coding-agent", "version": "0.73.1", "piConfig": {"configDir": ".pi"}}
            (self.program.parent / "package.json").write_text(json.dumps(package))
            (self.program.parent / "docs").mkdir()

    def task(
        self, recording: str, end: str = "", *, launch=None, env=None, returns="tree", properties=None, **more
    ) -> Task:
        """Return a task whose program replays ``recording``, and ends as ``end`` says (see ``replay``)."""
        environment = {
            "PATH": f"{self.program.parent}:/usr/bin:/bin",
            "REPLAY": str(self.recordings / f"{recording}.jsonl"),
            "REPLAY_HEARD": str(self.heard),
            "REPLAY_END": end,
        }
        values = {
            "delegation_id": f"test-{os.getpid()}-{time.monotonic_ns()}",
            "recipe": Recipe(
                name="implement", title="x", returns=returns, applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
            ),
            "prompt": "-Do what is asked.\n",
            "prompt_file": self.folder / "prompt.md",
            "worktree": self.tree,
            "delegator": Delegator(
                name=self.tool, tool=self.tool, model="m", launch=launch, env=env, model_properties=properties
            ),
            "environment": environment,
            "limits": self.patient,
            "stdout_log": self.folder / "stdout.log",
            "stderr_log": self.folder / "stderr.log",
        }
        return Task(**(values | more))

    async def run(self, task: Task) -> Outcome | UnderstudyError:
        """Run to the end, and check that no process is left."""
        self.events = []
        try:
            return await runner_for(task.delegator, task.model_server).run(task, self.events.append)
        except UnderstudyError as error:
            return error
        finally:
            assert processes_of(task) == []

    def of(self, kind: type) -> list[Any]:
        """Return the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def run_first(self, command: str) -> None:
        """Have the program run a shell command when it starts."""
        first, *others = self.program.read_text().splitlines(keepends=True)
        self.program.write_text("".join([first, f"{command}\n", *others]))

    def said_to_it(self) -> list[Any]:
        """Return what the program got: its arguments and environment, then its input, as JSON."""
        return [json.loads(line) for line in self.heard.read_text().splitlines()]


def processes_of(task: Task) -> list[psutil.Process]:
    """Return the processes that still belong to a task."""
    alive = []
    for process in psutil.process_iter():
        try:
            if task.delegation_id in process.environ().values():
                alive.append(process)
        except (psutil.Error, OSError):
            continue
    return alive


@pytest.fixture
def stage_for(tmp_path: Path) -> Callable[..., Stage]:
    """Return what makes the stage of a tool, in a folder of its own if one is named."""

    def make(tool: str, name: str = "") -> Stage:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return Stage(tool, folder)

    return make


@pytest.fixture
def stage(request: pytest.FixtureRequest, stage_for: Callable[[str], Stage]) -> Stage:
    """Return the stage of the tool that the test's file is named after (``test_codex.py``)."""
    return stage_for(request.path.stem.removeprefix("test_"))


@pytest.fixture
def choosing() -> Callable[..., Ask]:
    """Return what makes an ``ask``: it chooses the option of a kind, and records the questions in ``asked``."""

    def make(kind: str, note: str | None = None, seconds: float = 0.0, asked: list[Any] | None = None) -> Ask:
        async def ask(question: Any) -> Any:
            if asked is not None:
                asked.append(question)
            await asyncio.sleep(seconds)
            return next(option for option in question.options if option.kind == kind), note

        return ask

    return make
