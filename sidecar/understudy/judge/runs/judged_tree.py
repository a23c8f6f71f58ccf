"""Define the worktree that the checks need, and what is judged in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from understudy.judge.runs.check_run import CheckContext
from understudy.model.errors import ErrorKind, UnderstudyError

Change = tuple[str, str]
"""A letter of ``git diff --name-status`` (``A M D R T``) and a POSIX path. For ``R`` it is the new path; an
implementation that detects renames lists the old path as ``D``."""


class JudgedTree(Protocol):
    """A worktree that can be reset to exactly a commit. Methods block; they are called from a thread, one at a time."""

    @property
    def path(self) -> Path:
        """Return the folder of the worktree, an absolute path outside the user's checkout."""
        ...

    def materialise(self, commit: str) -> None:
        """Reset the worktree to exactly ``commit``: keep extra files, remove all others, even ignored ones."""
        ...

    def differing(self, commit: str) -> list[str]:
        """Return the tracked files whose content, kind or executable bit differs from ``commit``, or that are gone."""
        ...

    def tree_of(self, commit: str) -> str:
        """Return the id of the tree object of ``commit``."""
        ...

    def changed_paths(self, base: str, head: str) -> list[Change]:
        """Return what changed from ``base`` to ``head``."""
        ...

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in ``commit``; None if there is no such file."""
        ...

    def read_many(self, commit: str, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of the files of ``commit`` among ``paths`` that are not large, within a bound."""
        ...

    def paths(self, commit: str) -> list[str]:
        """Return the paths of all files of ``commit``."""
        ...

    def compose(self, head: str, base: str, files: Mapping[str, bytes | None]) -> str:
        """Return a commit that is ``head`` with some files replaced, or ``head`` itself if nothing differs.

        A file gets the given content; for None it becomes as it is in ``base``, or is removed if ``base`` lacks it.
        """
        ...


def read_unless_large(tree: JudgedTree, commit: str, path: str) -> bytes | None:
    """Return the content of a file in ``commit``; None if there is no such file, or if it is too large."""
    try:
        return tree.read(commit, path)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.FILE_TOO_LARGE:
            raise
        return None


@dataclass(frozen=True, kw_only=True)
class ResultToJudge:
    """A result and its base, and how checks run on them."""

    tree: JudgedTree
    base: str
    head: str
    changes: Sequence[Change]
    """From ``base`` to ``head``."""
    files: Sequence[str]
    """The files named as the code under test or under change."""
    context: CheckContext
    test_patterns: Sequence[str]
    """Patterns of test files that the project's configuration adds."""
