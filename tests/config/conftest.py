"""Fixtures: a user's configuration folder, a workspace, and problems as printed lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.config.configuration import Configuration
from understudy.config.loading.loader import load
from understudy.model.config.config_entries import Problem


@pytest.fixture
def user() -> Path:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "understudy"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def state() -> Path:
    return Path(os.environ["UNDERSTUDY_STATE"])


@pytest.fixture
def write() -> Callable[..., Path]:
    def write_file(path: Path, text: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


@pytest.fixture
def lines() -> Callable[[Configuration | list[Problem]], list[str]]:
    """Return problems as ``file:line:column: severity: message (hint)``, counted from one."""

    def spell(found: Configuration | list[Problem]) -> list[str]:
        spelled = []
        for problem in found.problems if isinstance(found, Configuration) else found:
            where = "-"
            if problem.location is not None:
                start = problem.location.range.start
                where = f"{problem.location.uri.rpartition('/')[2]}:{start.line + 1}:{start.character + 1}"
            hint = f" ({problem.hint})" if problem.hint else ""
            spelled.append(f"{where}: {problem.severity}: {problem.message}{hint}")
        return spelled

    return spell


@pytest.fixture
def loaded(user: Path) -> Callable[..., Configuration]:
    def load_it(workspace: Path | None = None, *, trusted: bool = True, **options: object) -> Configuration:
        return load(workspace, trusted=trusted and workspace is not None, **options)

    return load_it
