"""A base that is captured once for several delegations, and copied into the object store of each."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from understudy.engine.worktrees.worktree_record import BASE_COPY
from understudy.git import repository, verification
from understudy.git.base import capture as git_base
from understudy.git.base.index import Base
from understudy.git.object_store import ObjectStore, disk_full_errors


class SharedBase(msgspec.Struct, frozen=True):
    """What was captured. The objects are in ``store.git`` in a folder, those that HEAD lacks also in ``base.pack``."""

    base: Base
    kept: str | None
    """The commit that must stay in the user's repository: HEAD, or the requested revision."""


def capture(
    folder: Path, repo: repository.Repository, *, kind: str, buffers: Mapping[str | bytes, bytes]
) -> SharedBase:
    """Capture what the user sees into an empty folder. Raises the errors of ``git_base.write_base``."""
    store = ObjectStore.create(folder / "store.git", repo)
    base = git_base.write_base(store, repo, kind=kind, buffers=buffers)
    kept = repo.head_commit if kind == "current" else base.commit
    if base.commit != kept:
        with disk_full_errors(folder):
            verification.write_copy(store, folder / BASE_COPY, base.commit, kept)
    return SharedBase(base, kept)


def copy(folder: Path, store: Path, pack: Path) -> ObjectStore:
    """Copy the objects in ``folder`` to a new store and a new pack. Raises ``disk_full`` and ``state_unavailable``."""
    copied = ObjectStore.open(folder / "store.git").copy_to(store)
    with disk_full_errors(pack), suppress(FileNotFoundError):
        shutil.copyfile(folder / BASE_COPY, pack)
        pack.chmod(0o600)
    return copied
