"""Protect the commits that delegations start from against garbage collection in the user's repository."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from understudy.git.command import git_output
from understudy.git.repository import Repository
from understudy.model.errors import ErrorKind, UnderstudyError

REFERENCES = "refs/understudy/"
"""Prefix of the only references that Understudy writes to the user's repository without being asked."""


def pin(repository: Repository, identifier: str, commit: str) -> None:
    """Keep ``commit`` (HEAD, or the revision a delegation starts from) in the user's repository.

    Writes only the reference ``refs/understudy/<identifier>``, with hooks off and no reflog. Does nothing without a
    repository, or when the commit is not the user's (before the first commit).
    """
    name = _reference_name(identifier)
    if repository.common_dir is None or not commit:
        return
    with _as_base_error(repository):
        git_output("update-ref", "--end-of-options", name, commit, git_dir=repository.common_dir)


def unpin(repository: Repository, identifier: str) -> None:
    """Remove the reference that ``pin`` wrote, if there is one."""
    name = _reference_name(identifier)
    if repository.common_dir is not None:
        with _as_base_error(repository):
            git_output("update-ref", "-d", "--end-of-options", name, git_dir=repository.common_dir)
        # git leaves the empty folder; it is removed with the last reference.
        with contextlib.suppress(OSError):
            (repository.common_dir / "refs" / "understudy").rmdir()


def _reference_name(identifier: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock\b|$)){0,127}", identifier):
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"{identifier!r} cannot be part of a reference's name.")
    return REFERENCES + identifier


@contextlib.contextmanager
def _as_base_error(repository: Repository) -> Iterator[None]:
    try:
        yield
    except UnderstudyError as error:
        if error.kind is not ErrorKind.INTERNAL:
            raise
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The starting commit could not be kept in {repository.top}: {error.message}",
            hint="Look for a stale lock file or missing permissions in its git folder.",
        ) from error
