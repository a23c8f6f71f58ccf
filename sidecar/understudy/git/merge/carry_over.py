"""Where a follow-up starts: what the user sees now, with what is still undecided on top."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.git.base import Base, BaseLimits, write_base
from understudy.git.commits import reader, write_commit
from understudy.git.merge import HunkConflict, Selection, plan
from understudy.git.repository import Repository
from understudy.git.store import Store


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The new base, the commit that the tree is made of, and the undecided hunks that are in it or are not."""

    base: Base
    start: str
    """The base plus the undecided hunks; the base itself when there are none. Diff ``base.commit``..``start``."""
    carried: Mapping[bytes, tuple[str, ...]]
    conflicts: tuple[HunkConflict, ...]


def follow_up(
    store: Store,
    repository: Repository,
    old_base: str,
    old_head: str,
    undecided: Selection,
    *,
    buffers: Mapping[str | bytes, bytes] | None = None,
    limits: BaseLimits | None = None,
) -> FollowUp:
    """Write the base that the user sees now and merge the undecided hunks of the old result into it.

    What was accepted is in the base as the user edited it, what was rejected is gone. Errors: ``base.write_base``'s and
    ``merge.plan``'s.
    """
    base = write_base(store, repository, buffers=buffers, limits=limits)
    planned = plan(store, old_base, old_head, undecided, reader(store, base.commit))
    start = write_commit(store, base.commit, planned.changes, "What is undecided")
    return FollowUp(base, start, planned.merged, planned.conflicts)
