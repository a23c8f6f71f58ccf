"""Real projects, real workers: what every test of the engine starts from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from killed_workers import processes_of
from project_python import project_python

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.journal import delegation_folder, reader
from understudy.model.delegation.delegations import Delegation

MODULE = '''"""Small sums."""


def add(a, b):
    """Return the sum."""
    return a + b


def clamp(value, low, high):
    """Return value within [low, high]."""
    if value < low:
        return low
    return high if value > high else value
'''


class Project:
    """A repository of the test's own and a person who works in it."""

    def __init__(self, top: Path, config: Path) -> None:
        self.top = top
        self.config = config
        self.caller = TerminalCaller(top)

    def git(self, *args: str, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=self.top, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def write(self, path: str, text: str) -> Path:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "all")

    def call(self, method: str, **params: Any) -> Any:
        return method_table.call(method, params, self.caller)

    def trust(self) -> None:
        self.call("workspace/trust", workspace=str(self.top), trusted=True)

    def settings(self, text: str) -> None:
        self.config.mkdir(parents=True, exist_ok=True)
        (self.config / "config.toml").write_text(textwrap.dedent(text))

    def delegator(self, name: str, *command: str, output: str = "events", extra: str = "") -> str:
        folder = self.config / "delegators"
        folder.mkdir(parents=True, exist_ok=True)
        text = f'name = "{name}"\ntool = "generic"\n{extra}\n[launch]\ncommand = {json.dumps(list(command))}\noutput = "{output}"\n'
        (folder / f"{name}.toml").write_text(text)
        return name

    def agent(self, name: str, *arguments: str) -> str:
        """Make a delegator of the scripted agent."""
        return self.delegator(name, sys.executable, "-m", "understudy.testing.agent", *arguments)

    def program(self, name: str, source: str) -> str:
        """Make a delegator of a Python program that prints events."""
        file = self.config / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        prelude = "import json, os, pathlib, sys, time\ndef say(**event): print(json.dumps(event), flush=True)\n"
        file.write_text(prelude + textwrap.dedent(source))
        return self.delegator(name, sys.executable, str(file))

    def start(self, recipe: str = "tests", *files: str, **params: Any) -> str:
        uris = [str(self.top / file) for file in files]
        return self.call("delegations/start", recipe=recipe, files=uris, workspace=str(self.top), **params).id

    def finish(self, identifier: str, seconds: float = 120) -> Delegation:
        found: Delegation = self.call("delegations/wait", id=identifier, timeoutSeconds=seconds)
        assert found.state == "finished", (found.state, self.events(identifier)[-5:])
        return found

    def run(self, recipe: str = "tests", *files: str, **params: Any) -> Delegation:
        done = self.finish(self.start(recipe, *files, **params))
        for event in self.events(done.id):
            print(event)  # shown by pytest when the test fails
        return done

    def events(self, identifier: str) -> list[Any]:
        return reader.read_events(delegation_folder.open_folder(identifier), 0, 100_000)

    def until(self, identifier: str, condition: Callable[[Delegation], bool], seconds: float = 60) -> Delegation:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found: Delegation = self.call("delegations/get", id=identifier)
            if condition(found):
                return found
            assert found.state != "finished", found
            self.call("delegations/events", id=identifier, after=found.last_seq, waitSeconds=1)
        raise AssertionError(self.events(identifier)[-5:])

    def fingerprint(self) -> dict[str, bytes]:
        """Return every file of the user's repository, but for the one ref."""
        found = {}
        for folder, _, names in os.walk(self.top / ".git"):
            for name in names:
                path = Path(folder) / name
                if "refs/understudy" not in str(path):
                    found[str(path.relative_to(self.top))] = path.read_bytes()
        return found


@pytest.fixture
def config_folder(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = own_home / "config" / "understudy"
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, config_folder: Path) -> Iterator[Project]:
    top = tmp_path / "project"
    top.mkdir()
    made = Project(top, config_folder)
    made.git("init", "-q", "-b", "main")
    made.write("calc.py", MODULE)
    made.write(".gitignore", "ignored.txt\n__pycache__/\n")
    made.commit()
    made.trust()
    made.settings(f'[environment]\npython = "{project_python()}"\n')
    yield made
    left = processes_of(str(delegation_folder.state_root()))
    assert not left, left


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what the workers logged beside a failure."""
    report = yield
    if report.failed and "project" in getattr(item, "funcargs", {}):
        for log in sorted(delegation_folder.state_root().glob("delegations/*/worker.log")):
            report.sections.append((str(log), log.read_text(errors="replace")[-4000:]))
    return report
