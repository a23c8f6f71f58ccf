"""Read a commit of a store file by file, and make a commit of another with a few files changed."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.git.merge import Change, Reader
from understudy.git.store import Store


def reader(store: Store, commit: str) -> Reader:
    """Return a ``Reader`` of a commit, for ``merge.plan``."""
    raise NotImplementedError


def write_commit(store: Store, parent: str, changes: Iterable[Change], message: str) -> str:
    """Commit ``parent``'s files with ``changes`` (their ``after`` counts), on ``parent``; no difference: ``parent``."""
    raise NotImplementedError


def amend(store: Store, base: str, head: str, path: bytes, content: bytes) -> str:
    """Return a new head: ``head`` with the contents of ``path`` replaced, its mode kept; split it into hunks anew.

    ``path`` is a file of ``head``, or one that ``base`` has and the result deleted (it then comes back).
    Errors: ``invalid_params`` when it is neither, ``path_escape``.
    """
    raise NotImplementedError
