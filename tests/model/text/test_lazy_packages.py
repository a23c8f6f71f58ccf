"""Test that what is said about a missing package is what installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from understudy.model.errors import ErrorKind
from understudy.model.text import lazy_packages

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("package", [lazy_packages.ACP, lazy_packages.MCP], ids=lambda package: package.name)
def test_the_normal_installation_has_it(package):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert package.name + package.versions in declared
    error = package.missing("This needs", otherwise="Or do without it.")
    assert error.kind is ErrorKind.TOOL_MISSING
    assert "uv tool install --force ." in error.hint
    assert f"-m pip install '{package.name}{package.versions}'" in error.hint
    assert error.hint.endswith("Or do without it.")


def test_the_command_line_starts_without_them():
    program = "import sys; from understudy.frontends.cli import app; app.main(['mcp', '--help'])\n"
    program += "sys.exit(sorted({'mcp', 'acp', 'pydantic'} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=60)


def test_nothing_says_that_understudy_comes_from_a_package_index():
    """Understudy is not published there; another package could take its name."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *(ROOT / "sidecar").rglob("*.py")]
    wrong = re.compile(r"understudy\[\w+\]|(?:pip|pipx|uv tool) (?:install|inject) '?understudy\b")
    assert len(texts) > 500
    assert [str(path) for path in texts if wrong.search(path.read_text())] == []
