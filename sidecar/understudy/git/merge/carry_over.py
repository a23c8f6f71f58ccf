"""Merge pending hunks into a new base, from which a follow-up starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.git.base.capture import write_base
from understudy.git.base.index import Base, BaseLimits
from understudy.git.changes import Selection
from understudy.git.commits import reader, write_commit
from understudy.git.merge.hunk_merge import HunkConflict, plan
from understudy.git.object_store import ObjectStore
from understudy.git.repository import Repository


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The new base, the commit to check out, and the pending hunks that it contains or does not contain."""

    base: Base
    start: str
    """The base plus the pending hunks, or the base if there are none. Diff ``base.commit``..``start``."""
    carried: Mapping[bytes, tuple[str, ...]]
    conflicts: tuple[HunkConflict, ...]


def follow_up(
    store: ObjectStore,
    repository: Repository,
    old_base: str,
    old_head: str,
    pending: Selection,
    *,
    buffers: Mapping[str | bytes, bytes] | None = None,
    limits: BaseLimits | None = None,
) -> FollowUp:
    """Write what the user sees now as the base, and merge the pending hunks of the old result into it.

    Accepted hunks are in the base, with the user's later edits; rejected hunks are gone. Raises the errors of
    ``capture.write_base`` and ``hunk_merge.plan``.
    """
    base = write_base(store, repository, buffers=buffers, limits=limits)
    planned = plan(store, old_base, old_head, pending, reader(store, base.commit))
    start = write_commit(store, base.commit, planned.changes, "Pending hunks")
    return FollowUp(base, start, planned.merged, planned.conflicts)
