"""Test the lines of ``docs/editors.md`` for editors that no test runs, and its table of what each editor supports."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

TOP = Path(__file__).parents[4]
KATE = {"command", "root", "rootIndicationFileNames", "highlightingModeRegex"}
"""The keys that Kate reads (``addons/lspclient/lspclientservermanager.cpp``)."""


def test_helix(snippet: Callable[..., str]) -> None:
    found = tomllib.loads(snippet("Helix", "toml"))
    assert found["language-server"] == {"understudy": {"command": "understudy", "args": ["serve"]}}
    for language in found["language"]:
        assert set(language) == {"name", "language-servers"}
        assert "understudy" in language["language-servers"]


def test_kate(snippet: Callable[..., str]) -> None:
    found = json.loads(snippet("Kate", "json"))
    for server in found["servers"].values():
        assert set(server) <= KATE
        assert server["command"] == ["understudy", "serve"]
        re.compile(server["highlightingModeRegex"])


def test_every_test_that_the_table_names_exists() -> None:
    page = (TOP / "protocol" / "README.md").read_text(encoding="utf-8")
    section = page[page.index("\n## Editors\n") : page.index("\n## Configuration files\n")]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", section)
    assert len(named) >= 10
    for path, name in named:
        assert re.search(rf"^(?:async )?def {name}\(", (TOP / path).read_text(encoding="utf-8"), re.MULTILINE), name


def test_every_gap_has_its_reason() -> None:
    page = (TOP / "protocol" / "README.md").read_text(encoding="utf-8")
    section = page[page.index("\n## Editors\n") : page.index("\n## Configuration files\n")]
    cells = {cell.strip() for row in re.findall(r"^\|.*\|$", section, re.MULTILINE) for cell in row.split("|")[2:-1]}
    gaps = {cell for cell in cells if cell.isdigit()}
    assert gaps == set(re.findall(r"^(\d)\. ", section, re.MULTILINE))
    assert {"✔", "s"} <= cells
