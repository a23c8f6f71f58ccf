"""What the tests of real servers and proxies share: ask and work through them, and read what each ended in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from understudy.config import locations
from understudy.frontends.cli import app
from understudy.journal import ledger
from understudy.model.config.delegators import AppliesTo, Delegator, Limits, ModelServer, Recipe, Scope
from understudy.model.delegation.events import Event
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.errors import UnderstudyError
from understudy.runners.model_loop.loop_runner import Runner
from understudy.runners.runner import Outcome, Task

KEY = "sk-test-SECRET1234567"
"""The key that the entries of the tests send."""
SOURCE = "def add(a, b):\n    return a - b\n"
PROTOCOLS = ("openai", "anthropic", "responses")


@dataclass
class Answered:
    """What ``ask`` printed and recorded."""

    code: int
    envelope: dict[str, Any]
    entry: LedgerEntry

    @property
    def kind(self) -> str:
        """The kind of the failure, ``answered`` if there is none."""
        return "answered" if self.envelope["ok"] else str(self.envelope["error"]["kind"])


@dataclass
class Worked:
    """What the tool loop ended in."""

    end: Outcome | UnderstudyError
    events: list[Event]
    tree: Path

    @property
    def kind(self) -> str:
        """The kind of the failure, ``finished`` if there is none."""
        return str(self.end.kind) if isinstance(self.end, UnderstudyError) else "finished"

    @property
    def source(self) -> str:
        """The file that the model may change."""
        return (self.tree / "calc.py").read_text()

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the events of a type."""
        return [event for event in self.events if isinstance(event, kind)]


class Person:
    """A user with a project, who uses one model server."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.loops = 0

    def ask(self, base_url: str, model: str, protocol: str = "openai", *, task: str = "Why?") -> Answered:
        """Run ``understudy ask --json`` in this process; it must end in one envelope and one entry of the ledger."""
        folder = locations.user_folder()
        entry = {"name": "served", "kind": "custom", "base_url": base_url, "protocols": [protocol]}
        delegator = {"name": "asked", "model_server": "served", "model": model}
        for kind, values in (("model-servers", entry), ("delegators", delegator)):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
            if kind == "model-servers":
                text += f'[api_key]\nfrom_env = "{_KEY_VARIABLE}"\n'
            (folder / kind / f"{values['name']}.toml").write_text(text)
        before = len(list(ledger.read()))
        arguments = ["ask", "--json", "-t", task, "calc.py", "-d", "asked"]
        found = CliRunner().invoke(_main, ["--", *arguments], standalone_mode=False)
        assert found.exception is None, found.exception
        (line,) = found.stdout.splitlines()
        (recorded,) = list(ledger.read())[before:]
        envelope = json.loads(line)
        assert KEY not in found.output
        assert (found.return_value == 0) == envelope["ok"] == (recorded.failure is None)
        assert envelope["ok"] or recorded.failure == envelope["error"]["kind"]
        return Answered(found.return_value or 0, envelope, recorded)

    def work(
        self,
        base_url: str,
        model: str,
        protocol: str = "openai",
        *,
        prompt: str = "Fix calc.py.",
        watch: Callable[[Event], None] | None = None,
        limits: Limits | None = None,
    ) -> Worked:
        """Let the tool loop fix a file in a worktree of its own; ``watch`` gets each event."""
        self.loops += 1
        tree = self.top.parent / f"tree-{self.loops}"
        (tree / ".git").mkdir(parents=True)
        (tree / ".git" / "config").write_text("[core]\n")
        (tree / "calc.py").write_text(SOURCE)
        recipe = Recipe(name="fix", title="Fix", returns="tree", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN)
        task = Task(
            delegation_id="d1",
            recipe=recipe,
            prompt=prompt,
            prompt_file=tree.parent / "prompt.md",
            worktree=tree,
            delegator=Delegator(name="cheap", model=model, model_server="served"),
            model_server=ModelServer(name="served", kind="custom", base_url=base_url, protocols=[protocol]),
            limits=limits or Limits(total_seconds=90, idle_seconds=60, first_event_seconds=60),
            key=lambda: KEY,
            trusted=True,
        )
        events: list[Event] = []

        def take(event: Event) -> None:
            events.append(event)
            if watch is not None:
                watch(event)

        try:
            end: Outcome | UnderstudyError = asyncio.run(Runner(backoff_seconds=0.01).run(task, take))
        except UnderstudyError as error:
            end = error
        return Worked(end, events, tree)


_KEY_VARIABLE = "UNDERSTUDY_TEST_KEY"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _main(arguments: tuple[str, ...]) -> int:
    return app.main(arguments)


@pytest.fixture
def person(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    _ = own_home
    top = tmp_path / "project"
    (top / ".git").mkdir(parents=True)
    (top / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (top / ".git" / name).mkdir()
    (top / "calc.py").write_text(SOURCE)
    monkeypatch.chdir(top)
    monkeypatch.setenv(_KEY_VARIABLE, KEY)
    return Person(top)
