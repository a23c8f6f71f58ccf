"""A scripted model server, delegators on it, and a project to ask about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from agent_model_server import ModelServer
from click.testing import CliRunner

from understudy.config import locations
from understudy.frontends.cli import app

FILE = "```python\nx = 1\n```\n"


@dataclass
class Asked:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The only line of stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)  # type: ignore[no-any-return]


@dataclass
class Served:
    """A project with a model server."""

    top: Path
    server: ModelServer

    def on(self, model: str, **more: Any) -> str:
        """Write a delegator on this model; return its name."""
        folder = locations.user_folder() / "delegators"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"m-{model.replace('_', '-')}"
        lines = {"name": name, "model_server": "scripted", "model": model, **more}
        (folder / f"{name}.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items()))
        return name

    def run(self, *arguments: str, stdin: bytes | None = None) -> Asked:
        """Run one command in this process, as the program does."""
        found = CliRunner().invoke(_main, ["--", *arguments], input=stdin, standalone_mode=False)
        assert found.exception is None, found.exception
        return Asked(found.return_value or 0, click.unstyle(found.stdout), click.unstyle(found.stderr))

    @property
    def sent(self) -> str:
        """The last message that the server got."""
        return str(self.server.requests[-1].body["messages"][-1]["content"])


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _main(arguments: tuple[str, ...]) -> int:
    return app.main(arguments)


@pytest.fixture
def served(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    _ = own_home
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (project / ".git" / name).mkdir()
    (project / "src" / "a.py").write_text("A = 1\n")
    (project / "src" / "B.py").write_text("B = 2\n")
    monkeypatch.chdir(project)
    with ModelServer(answers={"scholar": "Because.", "author": FILE, "blank": "  \n"}) as server:
        folder = locations.user_folder() / "model-servers"
        folder.mkdir(parents=True)
        (folder / "scripted.toml").write_text(f'name = "scripted"\nkind = "custom"\nbase_url = "{server.base_url}"\n')
        yield Served(project, server)


@pytest.fixture
def requests(served: Served) -> Callable[[], int]:
    """Count the requests that the server got."""
    return lambda: len(served.server.requests)
