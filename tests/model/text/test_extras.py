"""Test that what is said about an extra is what installs it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from understudy.model.errors import ErrorKind
from understudy.model.text import extras

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("extra", [extras.ACP, extras.MCP], ids=lambda one: one.name)
def test_the_hint_installs_what_the_project_declares(extra):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert declared[extra.name] == [extra.package + extra.versions]
    error = extra.missing("This needs", otherwise="Or do without it.")
    assert error.kind is ErrorKind.TOOL_MISSING
    assert f"uv tool install '.[{extra.name}]'" in error.hint
    assert f"-m pip install '{declared[extra.name][0]}'" in error.hint
    assert error.hint.endswith("Or do without it.")


def test_nothing_says_that_extras_come_from_a_package_index():
    """Understudy is not published there; another package could take its name."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *(ROOT / "sidecar").rglob("*.py")]
    wrong = re.compile(r"understudy\[\w+\]|(?:pip|pipx|uv tool) (?:install|inject) '?understudy\b")
    assert len(texts) > 500
    assert [str(path) for path in texts if wrong.search(path.read_text())] == []
