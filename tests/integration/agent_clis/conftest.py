"""Fixtures for real agent CLIs: installed from the lock file into a cache outside the repository, run in an empty home."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import psutil
import pytest
from agent_model_server import ModelServer
from agent_programs import install, install_python

from understudy.config.discovery import declarations
from understudy.model.config.delegators import AppliesTo, Delegator, Launch, Limits, Recipe, Scope
from understudy.model.config.delegators import ModelServer as ModelServerEntry
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Event
from understudy.model.errors import UnderstudyError
from understudy.runners.runner import Outcome, Task, runner_for


@pytest.fixture(scope="session")
def programs() -> Path:
    found = install()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def python_programs() -> Path:
    found = install_python()
    if isinstance(found, str):
        pytest.skip(found)
    return found


class Lab:
    """One worktree, one empty home, one scripted server."""

    def __init__(self, programs: Path, folder: Path, server: ModelServer) -> None:
        self.programs, self.folder, self.server = programs, folder, server
        self.home, self.tree = folder / "empty-home", folder / "tree"
        self.home.mkdir()
        self.tree.mkdir()
        (self.tree / "greeting.py").write_text("def greet(name):\n    return 'Hello, ' + name\n")
        self.events: list[Event] = []
        self.times: list[float] = []
        self.began = 0.0

    def url(self, scenario: str) -> str:
        return f"http://127.0.0.1:{self.server.port}/s/{scenario}"

    def task(self, scenario: str, *, launch=None, limits=None, returns="tree", env=None, ask=None, **more) -> Task:
        environment = {
            "PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": self.url(scenario),
            "ANTHROPIC_API_KEY": "test-key-of-nobody",
            **{name: str(self.home) for name in os.environ if name.startswith("XDG_")},
        }
        environment |= env or {}
        values = {
            "delegation_id": f"test-{os.getpid()}-{time.monotonic_ns()}",
            "recipe": Recipe(
                name="implement", title="x", returns=returns, applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
            ),
            "prompt": "Do what is asked.",
            "prompt_file": self.folder / "prompt.md",
            "worktree": self.tree,
            "delegator": Delegator(name="claude", tool="claude", model="claude-sonnet-4-5", launch=launch or Launch()),
            "environment": {name: value for name, value in environment.items() if value is not None},
            "limits": limits
            or Limits(total_seconds=90, first_event_seconds=60, idle_seconds=60, after_result_seconds=10),
            "stdout_log": self.folder / "stdout.log",
            "stderr_log": self.folder / "stderr.log",
            "ask": ask,
        }
        return Task(**(values | more))

    def tool_task(
        self, tool: str, scenario: str, *, model="gpt-5.5", launch=None, url="", properties=None, **more
    ) -> Task:
        """Return a task for ``tool`` with the scripted model server, which takes no key, so that output is kept."""
        declared = declarations.tools()[tool]
        base = url or f"{self.url(scenario)}{'' if declared.protocols[0] == 'anthropic' else '/v1'}"
        server = ModelServerEntry(name="scripted", kind="custom", base_url=base, protocols=list(declared.protocols[:1]))
        delegator = Delegator(name=tool, tool=tool, model=model, launch=launch or Launch(), model_properties=properties)
        return self.task(scenario, delegator=delegator, model_server=server, **more)

    def commit(self) -> None:
        """Make the worktree a repository, with everything in it committed."""
        options = ["-c", "user.name=Tests", "-c", "user.email=tests@example.com"]
        for arguments in (["init", "-q"], ["add", "-A"], [*options, "commit", "-qm", "Start"]):
            subprocess.run(["git", *arguments], cwd=self.tree, check=True)

    async def run(self, task: Task, defined: ToolDefinition | None = None) -> Outcome | UnderstudyError:
        """Run to the end, and check that no process is left, and no file in the folder for temporary files."""
        self.began = time.monotonic()
        self.events.clear()
        self.times.clear()
        temporary = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            with mock.patch.object(tempfile, "tempdir", str(temporary)):
                return await runner_for(task.delegator, task.model_server, defined).run(task, self.take)
        except UnderstudyError as error:
            return error
        finally:
            self.none_left(task)
            assert list(temporary.iterdir()) == []

    def take(self, event: Event) -> None:
        self.events.append(event)
        self.times.append(time.monotonic())

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    @staticmethod
    def commands_of(task: Task) -> list[str]:
        """Return the command lines of the task's processes."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if task.delegation_id in process.environ().values():
                    found.append(" ".join(process.cmdline()))
        return found

    @staticmethod
    def none_left(task: Task) -> None:
        for process in psutil.process_iter():
            try:
                assert task.delegation_id not in process.environ().values(), process
            except (psutil.Error, OSError):
                continue


@pytest.fixture
def lab(programs, tmp_path):
    with ModelServer() as server:
        yield Lab(programs, tmp_path, server)


@pytest.fixture
def choose() -> Callable[..., Callable[..., Awaitable[tuple[PermissionOption, str | None]]]]:
    """Return an ``ask`` that chooses the option of a kind and records the questions."""

    def make(kind: str, note: str | None = None, asked: list | None = None):
        async def ask(question):
            if asked is not None:
                kinds = [option.kind for option in question.options]
                asked.append((time.monotonic(), question.title, question.detail, kinds))
            return next(option for option in question.options if option.kind == kind), note

        return ask

    return make
