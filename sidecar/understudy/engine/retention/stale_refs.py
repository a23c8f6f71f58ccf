"""Find refs of Understudy in user repositories that are no longer needed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from understudy.engine.retention.retained_files import DAY_SECONDS
from understudy.engine.worktrees import worktree_record
from understudy.git import repository
from understudy.git.base import capture
from understudy.journal import delegation_folder
from understudy.journal.summaries import summary
from understudy.model.errors import UnderstudyError
from understudy.model.states import State


def orphaned_pins(workspaces: Iterable[Path]) -> list[tuple[Path, str]]:
    """Return (workspace, ref) for each pin whose delegation or worktree is gone."""
    orphans = []
    for workspace in sorted(set(workspaces)):
        with contextlib.suppress(UnderstudyError, OSError):
            for name, gone in _pins(repository.locate(workspace)):
                if gone:
                    orphans.append((workspace, name))
    return orphans


def stale_exports(workspaces: Iterable[Path], keep_days: float) -> list[tuple[Path, str]]:
    """Return (workspace, ref) for each exported commit that no longer needs its own ref.

    A branch or tag contains it, or it is older than ``keep_days``.
    """
    stale = []
    for workspace in sorted(set(workspaces)):
        with contextlib.suppress(UnderstudyError, OSError):
            place = repository.locate(workspace)
            stale += [(workspace, name) for name in _exports(place, time.time() - keep_days * DAY_SECONDS)]
    return stale


def _exports(place: repository.Repository, oldest: float) -> Iterator[str]:
    from understudy.git import command

    if place.common_dir is None:
        return
    git_dir = place.common_dir
    listing = command.git_output(
        "for-each-ref", "--format=%(refname) %(committerdate:unix)", f"{capture.EXPORTED}*", git_dir=git_dir
    )
    for line in listing.decode(errors="replace").splitlines():
        name, _, made = line.rpartition(" ")
        taken = command.git_output(
            "for-each-ref", "--count=1", f"--contains={name}", "refs/heads", "refs/tags", git_dir=git_dir
        )
        if taken or int(made) < oldest:
            yield name


def _pins(place: repository.Repository) -> Iterator[tuple[str, bool]]:
    from understudy.git import command

    if place.common_dir is None:
        return
    listing = command.git_output(
        "for-each-ref", "--format=%(refname)", capture.REFERENCES.rstrip("/"), git_dir=place.common_dir
    ).decode(errors="replace")
    state = delegation_folder.state_root()
    for name in listing.splitlines():
        identifier = capture.identifier_of(name)
        if identifier is not None and delegation_folder.is_id(identifier):
            root = worktree_record.root_of(state, identifier)
            folder = worktree_record.folder_of(identifier)
            living = folder is not None and summary.peek(folder).state is not State.FINISHED
            yield name, not living and (root is None or worktree_record.removed(root) is not None)
