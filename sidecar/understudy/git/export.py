"""Take a result into the user's repository as a branch or a commit, or out of it as a patch: the user's decision only.

The user's files, index and HEAD stay as they are. Hooks and filters never run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.git.merge import Selection
from understudy.git.repository import Repository
from understudy.git.store import Store


@dataclass(frozen=True, slots=True)
class Exported:
    """A commit in the user's repository, the full name of the reference that holds it, and sentences for a person."""

    commit: str
    reference: str
    notes: list[str] = field(default_factory=list)


def export(
    store: Store,
    repository: Repository,
    base: str,
    head: str,
    *,
    parent: str | None,
    message: str,
    branch: str | None = None,
    selection: Selection | None = None,
) -> Exported:
    """Commit the change ``base``..``head`` on ``parent`` (HEAD at the base; None: before the first commit).

    ``branch`` is a new branch's short name; without it the commit is held by ``refs/understudy/export-<commit>``.
    ``selection`` leaves hunks out (None: all). Contents are converted as the user's attributes and settings say (line
    endings, encodings); files with a filter are left out and noted. Where the user had uncommitted changes in a file,
    only the result's hunks are taken when they merge; else the whole file, noted.

    Errors: ``isolation_unavailable`` (no repository), ``already_exists`` (the branch), ``invalid_params`` (its name),
    ``config_invalid`` (no user.name or user.email), ``no_changes`` is ``input_empty``, ``base_unavailable``.
    """
    raise NotImplementedError


def patch(store: Store, base: str, head: str, selection: Selection | None = None) -> bytes:
    """Return the change as a patch that `git apply` takes, binary contents included; ``file_too_large``."""
    raise NotImplementedError
