"""Fixtures for real agent CLIs: installed from the lock file into a cache outside the repository, run in an empty home."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from understudy.model.config.delegators import Delegator, Launch, Limits, Scope
from understudy.model.config.recipes import AppliesTo, Recipe
from understudy.model.delegations import PermissionOption
from understudy.model.errors import UnderstudyError
from understudy.model.events import Event
from understudy.runners.agent_clis.claude import Runner
from understudy.runners.runner import Outcome, Task
from understudy.testing.model_server import ModelServer

HERE = Path(__file__).parent
INSTALL_SECONDS = 600
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy-tests"
"""Looked up before the tests redirect it."""


def install() -> Path | str:
    """Return the folder with the CLIs' programs, or the reason why there is none."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    lock = (HERE / "package-lock.json").read_bytes()
    folder = CACHE / f"clis-{hashlib.sha256(lock).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    programs, ready = folder / "node_modules/.bin", folder / ".ready"
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # parallel test processes install once
        if not ready.exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(HERE / name, folder / name)
            done = subprocess.run(
                [npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True,
                check=False, timeout=INSTALL_SECONDS,
            )  # fmt: skip
            if done.returncode != 0:
                return f"npm ci failed: {done.stderr.strip()[-300:]}"
            ready.touch()
    return programs


@pytest.fixture(scope="session")
def programs() -> Path:
    found = install()
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

    async def run(self, task: Task) -> Outcome | UnderstudyError:
        """Run to the end, and check that no process is left."""
        self.began = time.monotonic()
        self.events.clear()
        self.times.clear()
        try:
            return await Runner().run(task, self.take)
        except UnderstudyError as error:
            return error
        finally:
            self.none_left(task)

    def take(self, event: Event) -> None:
        self.events.append(event)
        self.times.append(time.monotonic())

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

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
