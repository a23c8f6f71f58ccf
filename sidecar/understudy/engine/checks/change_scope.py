"""Which paths a result may touch, and which it may not touch without being asked about.

Globs are those of ``.gitignore``: a pattern without a slash matches at any depth, ``**`` crosses folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from understudy.engine.checks.tree import Change

DECIDES_ANY_CHECK = (
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "understudy_*.py",
    "/pytest.py",
    "/pytest/",
    "/_pytest/",
    "/unittest.py",
    "/unittest/",
    "/pluggy.py",
    "/pluggy/",
)
"""Files that change what a check in Python does, whatever was configured: hooks of the interpreter and of pytest, and
names at the top of the tree that stand before the test runner (and its probe) on the import path."""


def matching(paths: Iterable[str], globs: Sequence[str]) -> list[str]:
    """Return the paths that one of ``globs`` matches."""
    import pathspec  # noqa: PLC0415 - not needed by the quick commands of the command line

    spec = pathspec.GitIgnoreSpec.from_lines(globs)
    return [path for path in paths if spec.match_file(path)]


def check_changing(changes: Iterable[Change], configured_by: Sequence[str]) -> list[str]:
    """Return the changed paths that decide what a check does."""
    return matching((path for _, path in changes), [*configured_by, *DECIDES_ANY_CHECK])


def leading_out(tree: Path, changes: Sequence[Change]) -> list[str]:
    """Return the changed paths that are links out of the tree: what such a file holds is not part of the result.

    The tree is the result when this is asked.
    """
    found = []
    for status, path in changes:
        if status[:1] == "D":
            continue
        try:
            target = (tree / path).readlink()
        except OSError:
            continue
        # By the names alone: what the links in between are today, they need not be tomorrow.
        if target.is_absolute() or os.path.normpath(PurePosixPath(path).parent / target).startswith(".."):
            found.append(path)
    return found


def outside(changes: Sequence[Change], writes: Sequence[str] | None, *, only_adds_and_modifies: bool) -> list[str]:
    """Return the changed paths that a recipe does not write.

    ``writes`` ``None`` allows every path. ``only_adds_and_modifies`` is the recipe ``tests``: a deletion, a renaming
    and a file that becomes something else (a link) are outside, wherever they are.
    """
    paths = [path for _, path in changes]
    allowed = set(paths) if writes is None else set(matching(paths, writes))
    return [
        path
        for status, path in changes
        if path not in allowed or (only_adds_and_modifies and status[:1] not in {"A", "M"})
    ]
