"""Keep what is known about a worktree: its record, which delegation owns it, whether it was removed, its review file.

``<root>/owners`` lists a delegation and its follow-ups (the *chain*), oldest first; the last one owns the worktree.
When the worktree was removed, ``<root>/removed`` contains its rescue ref. The path stays reserved, because a worktree
is always restored to the same path: tools remember it, and so does the record of every delegation in the chain.

No process uses a worktree after it is marked as removed (``removed``). So after a crash, any process that finds the
mark next to a worktree can complete the removal. A rescue ref has the contents before the mark is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git import diff, repository, verification
from understudy.git.base import capture
from understudy.git.base.index import Base
from understudy.git.object_store import ObjectStore, disk_full_errors
from understudy.git.worktree import extra_files
from understudy.journal import delegation_folder, reader
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.wire import ready

_RECORD_LIMIT = 16 * 1024 * 1024
_OWNERS_LIMIT = 1024 * 1024
RESERVED = frozenset({"owners", "removed"})
"""Files that stay in the folder of a removed worktree, so that no other worktree gets its path."""
BASE_COPY, START_COPY, RESULT_COPY = "base.pack", "start.pack", "result.pack"
"""Files in a delegation's folder; the second only if its agent worked in the checkout."""
_REVIEW_HEAD = (
    "# Your editor's code actions on a change below accept it, reject it, or send the work back.",
    '# To say why, write lines that begin with "> " below the change. Such lines here, above the first file,',
    "# are about the whole work, and those right below a line with diff --git are about that file.",
    "",
)


class WorktreeRecord(msgspec.Struct):
    """``worktree.json`` in the delegation's folder."""

    root: str
    tree: str
    base_commit: str
    items: extra_files.ExtraFiles | None = None
    start: str | None = None
    """The commit that is checked out first, if it is not the base (a follow-up)."""
    parent: str | None = None
    """The parent of an exported commit: HEAD when the base was written, or the requested revision."""

    @property
    def start_commit(self) -> str:
        """Return the commit first checked out: the base, or for a reply the base with the pending hunks."""
        return self.start or self.base_commit


def read_record(folder: Folder) -> WorktreeRecord:
    """Return a delegation's record; raise ``base_unavailable`` if there is none."""
    try:
        data = durable.read_whole(folder.path / "worktree.json", _RECORD_LIMIT)
        return msgspec.json.decode(data, type=ready(WorktreeRecord), dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.DecodeError):
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{folder.id} has no worktree.",
            hint="Recipes that return text need none. For other recipes, `understudy show` shows what happened.",
        ) from None


def load_record(folder: Folder) -> tuple[WorktreeRecord, ObjectStore]:
    """Return a delegation's record and object store; raise ``base_unavailable`` if the worktree was removed."""
    record = read_record(folder)
    root = Path(record.root) / "store.git"
    reference = removed(Path(record.root))
    if reference is not None or not root.is_dir():
        restore = f"Restore it with `understudy restore {reference}`. " if reference else ""
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The worktree of {folder.id} was removed.",
            hint=f"{restore}The changes are in {folder.review}.",
        )
    return record, dataclasses.replace(ObjectStore.open(root), copies=copies_in(folder))


def copies_in(folder: Folder) -> tuple[Path, ...]:
    """Return the packs with a delegation's own base and result, outside the store that agents and checks can write."""
    return tuple(folder.path / name for name in (BASE_COPY, START_COPY, RESULT_COPY))


def listed_owners(root: Path) -> list[str]:
    """Return the ids in ``owners``, oldest first; empty if the file is missing."""
    with contextlib.suppress(OSError):
        return [
            line
            for line in durable.read_whole(root / "owners", _OWNERS_LIMIT).decode("ascii", "replace").split()
            if line
        ]
    return []


def chain(root: Path) -> list[str]:
    """Return the ids in ``owners``, oldest first, without the last follow-ups if they never took the worktree over."""
    ids = listed_owners(root)
    while len(ids) > 1 and never_took_over(ids[-1]):
        del ids[-1]
    return ids


def never_took_over(identifier: str) -> bool:
    """Return whether a follow-up finished before it got the worktree; then its parent still owns it."""
    folder = folder_of(identifier)
    if folder is None:
        return False
    with contextlib.suppress(UnderstudyError):
        follow_up = reader.load(folder)
        return follow_up.state is State.FINISHED and follow_up.worktree is None and follow_up.head is None
    return False


def follow_up_failed(root: Path, identifier: str) -> bool:
    """Return whether ``identifier`` owns the worktree again because its follow-up failed to take it over."""
    ids = listed_owners(root)
    return identifier in ids[:-1] and chain(root)[-1] == identifier


def forget_failed_follow_ups(root: Path) -> None:
    """Remove follow-ups from ``owners`` that never took the worktree over."""
    durable.replace(root / "owners", "".join(f"{owner}\n" for owner in chain(root)).encode("ascii"))


def assign(root: Path, identifier: str) -> None:
    """Make ``identifier`` the owner of the worktree."""
    ids = [owner for owner in chain(root) if owner != identifier]
    durable.replace(root / "owners", "".join(f"{owner}\n" for owner in [*ids, identifier]).encode("ascii"))


def require_owner(root: Path, identifier: str) -> None:
    """Raise ``conflict`` if a later delegation of the chain owns the worktree."""
    ids = chain(root)
    if ids and ids[-1] != identifier:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The worktree of {identifier} now belongs to its follow-up {ids[-1]}.",
            hint=f"Use {ids[-1]} instead.",
        )


def roots(state: Path) -> Iterator[Path]:
    """Yield the folder of every worktree, including removed ones."""
    trees = state / "worktrees"
    for folder in sorted(trees.iterdir()) if trees.is_dir() else []:
        for root in sorted(folder.iterdir()) if folder.is_dir() else []:
            if root.is_dir() and root.name.isdigit():
                yield root


def root_of(state: Path, identifier: str) -> Path | None:
    """Return the folder of the worktree whose chain contains ``identifier``."""
    return next((root for root in roots(state) if identifier in chain(root)), None)


def removed(root: Path) -> str | None:
    """Return the rescue ref of a removed worktree, None if the worktree exists."""
    with contextlib.suppress(OSError):
        return durable.read_whole(root / "removed", _OWNERS_LIMIT).decode("utf-8", "replace").strip()
    return None


def mark_removed(root: Path, rescue_ref: str | None) -> None:
    """Mark the worktree as removed, or with None as restored."""
    if rescue_ref is None:
        (root / "removed").unlink(missing_ok=True)
    else:
        durable.replace(root / "removed", rescue_ref.encode())


def folder_of(identifier: str) -> Folder | None:
    """Return a delegation's folder, None if it does not exist."""
    with contextlib.suppress(UnderstudyError):
        return delegation_folder.open_folder(identifier)
    return None


def has_failed_follow_up(delegation: Delegation) -> bool:
    """Return whether a follow-up of this delegation finished before it took over the worktree."""
    if delegation.state is not State.FINISHED or delegation.worktree is None or delegation.review.pending:
        return False
    return follow_up_failed(Path(delegation.worktree).parent, delegation.id)


def move_to_trash(root: Path, reference: str) -> None:
    """Mark the worktree at ``root`` as removed and move it to the trash; the ``RESERVED`` files stay."""
    mark_removed(root, reference)
    failpoint("marked")
    # The rescue ref contains the commits of the user's history that the base needs.
    for identifier in listed_owners(root):
        unpin(identifier, root)
        failpoint("unpinned")
    trash = delegation_folder.state_root() / "trash"
    trash.mkdir(mode=0o700, exist_ok=True)
    for entry in leftovers(root):
        entry.rename(trash / f"{root.parent.name}-{root.name}-{secrets.token_hex(6)}")
        failpoint("trashed")


def has_tree(tree: Path) -> bool:
    """Return whether a worktree's folder exists.

    Anything else with its name, such as a link that an agent made instead, is renamed, never followed: like the other
    entries beside it, it is removed with the worktree.
    """
    if not tree.is_symlink() and (tree.is_dir() or not tree.exists()):
        return tree.is_dir()
    tree.rename(tree.with_name(f".replaced-{secrets.token_hex(6)}"))
    return False


def unpin(identifier: str, root: Path) -> None:
    """Remove a delegation's pin from the user's repository; do nothing if the repository cannot be opened."""
    folder = folder_of(identifier)
    with contextlib.suppress(UnderstudyError, OSError):
        # If the delegation's folder is gone, its object store still knows the workspace.
        top = Path(reader.peek(folder).workspace) if folder is not None else ObjectStore.open(root / "store.git").top
        capture.unpin(repository.locate(top), identifier)


def leftovers(root: Path) -> list[Path]:
    """Return the existing entries at ``root`` that removal moves: the worktree and its store."""
    with contextlib.suppress(FileNotFoundError):
        return [entry for entry in root.iterdir() if entry.name not in RESERVED]
    return []


def pin(root: Path) -> None:
    """Pin the user's commits again that a restored worktree is based on."""
    for identifier in chain(root):
        folder = folder_of(identifier)
        if folder is None:
            continue
        # The user's repository may have lost the commit; the rescue ref contains what the worktree needs of it.
        with contextlib.suppress(UnderstudyError):
            record = read_record(folder)
            if record.parent:
                capture.pin(repository.locate(Path(reader.peek(folder).workspace)), identifier, record.parent)


def write_review(folder: Folder, objects: ObjectStore, base: str, head: str) -> None:
    """Write or replace ``review.diff``."""
    durable.replace(folder.review, review_text(folder, objects, base, head))


def review_text(folder: Folder, objects: ObjectStore, base: str, head: str) -> bytes:
    """Return the text of ``review.diff``: instructions for the reader, then the patch. Empty if nothing changed.

    Git and patch(1) ignore the lines above the first file.
    """
    patch = diff.unified(objects, base, head)
    title = " ".join(delegation_folder.read_spec(folder).title.split())
    lines = (f"# {title} ({folder.id})", *_REVIEW_HEAD)
    return b"".join(line.encode("utf-8", "replace") + b"\n" for line in lines) + patch if patch else b""


class SharedBase(msgspec.Struct, frozen=True):
    """What was captured. The objects are in ``store.git`` in a folder, those that HEAD lacks also in ``base.pack``."""

    base: Base
    kept: str | None
    """The commit that must stay in the user's repository: HEAD, or the requested revision."""


def capture_shared(
    folder: Path, repo: repository.Repository, *, kind: str, buffers: Mapping[str | bytes, bytes]
) -> SharedBase:
    """Capture what the user sees into an empty folder. Raises the errors of ``capture.write_base``."""
    store = ObjectStore.create(folder / "store.git", repo)
    base = capture.write_base(store, repo, kind=kind, buffers=buffers)
    kept = repo.head_commit if kind == "current" else base.commit
    if base.commit != kept:
        with disk_full_errors(folder):
            verification.write_copy(store, folder / BASE_COPY, base.commit, kept)
    return SharedBase(base, kept)


def copy_shared(folder: Path, store: Path, pack: Path) -> ObjectStore:
    """Copy the objects in ``folder`` to a new store and a new pack. Raises ``disk_full`` and ``state_unavailable``."""
    copied = ObjectStore.open(folder / "store.git").copy_to(store)
    with disk_full_errors(pack), suppress(FileNotFoundError):
        shutil.copyfile(folder / BASE_COPY, pack)
        pack.chmod(0o600)
    return copied
