"""A finished delegation that many tests begin with: made once in each process, and put back for each test.

What is put back has absolute paths in it, so these tests all get the same temporary folder, one after the other.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_saved: dict[str, tuple[Path, Any]] = {}


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new folder that has the same path in each test; afterwards it is kept under another one."""
    folder = tmp_path_factory.getbasetemp() / "same"
    folder.mkdir()
    yield folder
    folder.rename(tmp_path_factory.mktemp("was"))


@pytest.fixture
def made_once(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[], Any]], Any]:
    """Return what the function returns, with the folder as it was after the function ran for the first time."""

    def begin(name: str, make: Callable[[], Any]) -> Any:
        if name not in _saved:
            value = make()
            copy = tmp_path_factory.mktemp("saved")
            _copy(tmp_path, copy)
            _saved[name] = (copy, value)
        else:
            tmp_path.rename(tmp_path_factory.mktemp("was"))
            tmp_path.mkdir()
            _copy(_saved[name][0], tmp_path)
        return _saved[name][1]

    return begin


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)
