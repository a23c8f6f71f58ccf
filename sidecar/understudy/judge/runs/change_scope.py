"""Find the changed paths that a recipe does not allow.

Globs have the syntax of ``.gitignore``: a pattern without a slash matches at any depth, ``**`` matches any folders.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from understudy.judge.runs.judged_tree import Change
from understudy.judge.runs.runner_registry import RUNNERS
from understudy.model.evidence.checks import Check

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_WRITTEN_BY_RUNNERS = frozenset(file for runner in RUNNERS for file in runner.completes)


def altered(differing: Iterable[str], check: Check, changes: Iterable[Change]) -> list[str]:
    """Return the paths of ``differing`` that a run of ``check`` must not have changed.

    Not reported are hidden files of the check, which replace files of the result, and lock files that the runner
    writes, unless the result changes them.
    """
    hidden = tuple(check.files) if check.hidden else ()
    changed = {path for _, path in changes}
    return [
        path
        for path in differing
        if not any(path == file or path.startswith(f"{file}/") for file in hidden)
        and (PurePosixPath(path).name not in _WRITTEN_BY_RUNNERS or path in changed)
    ]


def matching(paths: Iterable[str], globs: Sequence[str]) -> list[str]:
    """Return the paths that one of ``globs`` matches."""
    spec = _spec(tuple(globs))
    return [path for path in paths if spec.match_file(path)]


@functools.lru_cache(maxsize=16)
def _spec(globs: tuple[str, ...]) -> GitIgnoreSpec:
    # Compiling the two hundred globs that name tests takes longer than matching thousands of paths.
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines(globs)


def leading_out(tree: Path, changes: Sequence[Change]) -> list[str]:
    """Return the changed symbolic links that point outside the worktree, where content is not part of the result.

    The worktree must be checked out at the result.
    """
    links = []
    for status, path in changes:
        if status[:1] == "D":
            continue
        try:
            target = (tree / path).readlink()
        except OSError:
            continue
        # Compare the names only: links in between may change later.
        if target.is_absolute() or os.path.normpath(PurePosixPath(path).parent / target).startswith(".."):
            links.append(path)
    return links


def outside(changes: Sequence[Change], writes: Sequence[str] | None, *, only_adds_and_modifies: bool) -> list[str]:
    """Return the changed paths that a recipe may not write.

    If ``writes`` is None, every path is allowed. With ``only_adds_and_modifies`` (the recipe ``tests``), deletions,
    renames and changes of type (a file becomes a link) are never allowed.
    """
    paths = [path for _, path in changes]
    allowed = set(paths) if writes is None else set(matching(paths, writes))
    return [
        path
        for status, path in changes
        if path not in allowed or (only_adds_and_modifies and status[:1] not in {"A", "M"})
    ]
