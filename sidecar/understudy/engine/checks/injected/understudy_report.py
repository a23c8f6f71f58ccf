"""Write the report of a test run: one JSON object per line, one file per process.

The first line is ``start`` and the last is ``end``, so the report of a run that was killed or that called ``os._exit``
is recognised as incomplete.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from typing import Any, Callable, Dict, List, Optional, Set  # noqa: UP035 - Python 3.8

FOLDER = "UNDERSTUDY_PROBE_FOLDER"
ROOT = "UNDERSTUDY_PROBE_ROOT"
COLLECT = "UNDERSTUDY_PROBE_COLLECT"
ORDER = "UNDERSTUDY_PROBE_ORDER"
"""The order of the tests: ``reversed`` or ``shuffled:<seed>``; unset for the runner's own."""
ADDOPTS = "UNDERSTUDY_PROBE_ADDOPTS"
"""The options that the check added to ``PYTEST_ADDOPTS``."""

_LOADED_SUFFIXES = (".py", ".pyc", ".pyd", ".so")
_MOST_OPENED = 50_000
"""Most opened files to remember; a very large program has fewer modules."""


class Settings:
    """The settings of the probe, which the check passes in the environment."""

    def __init__(self, values: Dict[str, str]) -> None:  # noqa: UP006 - Python 3.8
        """Read the settings from ``values``: name → value of the environment variables."""
        self.values = values
        self.folder: str = values[FOLDER]
        self.root: str = values.get(ROOT, "")
        self.addopts: str = values.get(ADDOPTS, "")
        self.order: str = values.get(ORDER, "")
        self.collect_only = COLLECT in values


def take_settings() -> Optional[Settings]:  # noqa: UP045
    """Return the settings and remove them from the environment; None outside a check."""
    values = {}
    for name in (FOLDER, ROOT, COLLECT, ORDER, ADDOPTS):
        value = os.environ.pop(name, None)
        if value is not None:
            values[name] = value
    return Settings(values) if FOLDER in values else None


def reordered(tests: List[Any], order: str, groups: Callable[[Any], List[str]]) -> List[Any]:  # noqa: UP006
    """Return ``tests`` in another order; ``groups`` names the file and the class of a test, which stay together."""
    if order == "reversed":
        return list(reversed(tests))
    chance = random.Random(order)  # noqa: S311 - repeatable
    nested: Dict[str, Dict[str, List[Any]]] = {}  # noqa: UP006
    for test in tests:
        file, owner = groups(test)
        nested.setdefault(file, {}).setdefault(owner, []).append(test)
    found: List[Any] = []  # noqa: UP006
    files = list(nested.values())
    chance.shuffle(files)
    for classes in files:
        owners = list(classes.values())
        chance.shuffle(owners)
        for owned in owners:
            chance.shuffle(owned)
            found.extend(owned)
    return found


def append_line(
    path: str,
    entry: Dict[str, Any],  # noqa: UP006
    *,
    _open: Callable[..., int] = os.open,
    _write: Callable[..., int] = os.write,
    _close: Callable[..., None] = os.close,
    _dumps: Callable[..., str] = json.dumps,
) -> None:
    """Append ``entry`` to the file at ``path``.

    The functions are bound as defaults because a test may replace ``os`` or ``open`` (as pyfakefs does).
    """
    data = _dumps(entry).encode("utf-8") + b"\n"
    descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while data:
            data = data[_write(descriptor, data) :]
    finally:
        _close(descriptor)


class Recorder:
    """Writes the report of one process."""

    def __init__(self, settings: Settings, runner: str) -> None:
        """Create the report."""
        self._path = os.path.join(settings.folder, "{}-{}.jsonl".format(os.getpid(), os.urandom(6).hex()))  # noqa: PTH118, UP032
        self.line(k="start", runner=runner, python=sys.version.split()[0])

    def line(self, **entry: Any) -> None:
        """Append one entry."""
        append_line(self._path, entry)

    def outcome(self, test: str, when: str, outcome: str) -> None:
        """Append the outcome of one phase (``setup``, ``call``, ``teardown``) of a test."""
        self.line(k="test", id=test, when=when, outcome=outcome)


class Loaded:
    """Records the code files below a folder that this process loads."""

    def __init__(self, root: str) -> None:
        """Start recording files below ``root`` (links resolved); an empty ``root`` records nothing."""
        self._root = os.path.realpath(root) if root else ""
        self._opened: Set[str] = set()  # noqa: UP006
        if self._root:
            sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: Any) -> None:
        if event != "open" or len(self._opened) >= _MOST_OPENED:
            return
        path, mode = arguments[0], arguments[1]
        if isinstance(path, str) and path.endswith(_LOADED_SUFFIXES) and (mode is None or "r" in mode):
            self._opened.add(path)

    def files(self) -> List[str]:  # noqa: UP006
        """Return the loaded files below the root, links resolved, sorted."""
        if not self._root:
            return []
        found = set()
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None)
            if isinstance(name, str):
                found.add(name)
        below = set()
        for name in found | set(self._opened):
            resolved = os.path.realpath(name)
            if resolved.endswith(".pyc"):
                resolved = _source_of(resolved)
            if resolved.startswith(self._root + os.sep):
                below.add(resolved)
        return sorted(below)


def _source_of(compiled: str) -> str:
    try:
        return importlib.util.source_from_cache(compiled)
    except (RuntimeError, ValueError):  # the interpreter has no cache tag, or this is not the name of a compiled file
        return compiled
