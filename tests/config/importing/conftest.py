"""Fixtures: an empty home, and a function that plans the import of a text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.config.editing.edit import Editor
from understudy.config.importing import import_plan


@pytest.fixture
def editor(user: Path) -> Editor:
    assert user.is_dir()
    return Editor(None, state=Path(os.environ["UNDERSTUDY_STATE"]))


@pytest.fixture
def planned(editor: Editor, tmp_path: Path) -> Callable[..., import_plan.ImportPlan]:
    """Return the plan for a file of a tool with this text."""

    def make(source: str, text: str | bytes, name: str = "given") -> import_plan.ImportPlan:
        file = tmp_path / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        draft = import_plan.read_source(source, file, None, {}, tmp_path / "home")  # type: ignore[arg-type]
        return import_plan.make_plan(draft, editor)

    return make
