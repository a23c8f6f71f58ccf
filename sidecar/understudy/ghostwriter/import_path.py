"""Ask the project's pytest what a test file imports, and from where: a check runs it in the same way."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from .confined_runs import ConfinedRuns
from .project_layout import import_mode

Run = Callable[..., str | None]
"""Runs the project's Python with arguments in the worktree."""
PROBE_SECONDS = 60.0

_TEST = """
import importlib.util, json, sys
extra = {extra!r}
if extra:
    sys.path.insert(0, extra)
try:
    loaded = sys.modules.get({module!r})
    file = getattr(loaded, "__file__", None) or importlib.util.find_spec({module!r}).origin
except Exception:
    file = None
with open({answer!r}, "w", encoding="utf-8") as answer:
    json.dump({{"path": sys.path, "file": file}}, answer)
def test_nothing():
    pass
"""
"""Written in the place of the new tests, and only collected."""

_PLUGIN = """
import json, sys, types
def told(name, value):
    if isinstance(value, types.ModuleType):
        return "import " + value.__name__ + (" as " + name if value.__name__ != name else "")
    place, own = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if place and own.isidentifier() and getattr(sys.modules.get(place), own, None) is value:
        return "from " + place + " import " + own + (" as " + name if own != name else "")
    return None
def record(item):
    names = item._request.getfixturevalue("doctest_namespace")
    with open({answer!r}, "w", encoding="utf-8") as answer:
        json.dump({{name: told(name, value) for name, value in names.items()}}, answer)
def pytest_collection_modifyitems(items):
    del items[1:]
    for item in items:
        item.runtest = lambda item=item: record(item)
"""
"""Sets up the first example of a module as pytest does, and reports the names it gets instead of running it."""


class ImportPath:
    """Finds out what a test file in a place of the project can import."""

    def __init__(self, confinement: ConfinedRuns, root: Path, run: Run) -> None:
        """Use the programs of one run."""
        self._confinement = confinement
        self._root = root
        self._run = run

    def of_tests(self, target: PurePosixPath, module: str, extra: str = "") -> tuple[list[str], str | None] | None:
        """Return the import path of a test file and the file that it imports as ``module``.

        None if pytest collects no file there. ``extra`` is a folder that the test file itself puts on its path.
        """
        answer = self._confinement.top / "imports.json"
        place = self._root / target
        with _placed(place, _TEST.format(extra=extra, module=module, answer=str(answer))):
            self._pytest("--collect-only", str(target))
        imported = _read(answer)
        return ([str(folder) for folder in imported["path"] if folder], imported["file"]) if imported else None

    def provided_names(self, path: PurePosixPath) -> dict[str, str]:
        """Return the names that a ``conftest.py`` adds to the namespace of examples, with the imports for them."""
        folders = [self._root / folder for folder in path.parents]
        pages = [folder / "conftest.py" for folder in folders]
        if not any(page.is_file() and b"doctest_namespace" in page.read_bytes() for page in pages):
            return {}
        answer = self._confinement.top / "namespace.json"
        plugin = self._confinement.top / "plugins" / "ghostwriter_namespace.py"
        plugin.parent.mkdir(exist_ok=True)
        plugin.write_text(_PLUGIN.format(answer=str(answer)), "utf-8")
        paths = os.pathsep.join([str(plugin.parent), *self._confinement.paths])
        self._pytest("-p", plugin.stem, "--doctest-modules", str(path), PYTHONPATH=paths)
        return {name: line for name, line in _read(answer).items() if line}

    def _pytest(self, *arguments: str, **environment: str) -> None:
        self._run(
            "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", *import_mode(self._root), *arguments,
            seconds=PROBE_SECONDS, **environment,
        )  # fmt: skip


@contextlib.contextmanager
def _placed(place: Path, text: str) -> Iterator[None]:
    """Write a file, and remove it with the folders that were made for it."""
    made = [parent for parent in place.parents if not parent.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.write_text(text, "utf-8")
        yield
    finally:
        place.unlink(missing_ok=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _read(answer: Path) -> dict[str, Any]:
    try:
        answered = json.loads(answer.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    finally:
        answer.unlink(missing_ok=True)
    return answered if isinstance(answered, dict) else {}
