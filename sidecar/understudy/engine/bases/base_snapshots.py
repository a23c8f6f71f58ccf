"""Capture what the user sees at once for all delegations that wait, so that the base of none is late.

Making the object store of a delegation takes longer than reading the checkout: the last of 200 that were started at
once would get what the user sees 20 seconds later. So the process that records bases first captures the checkout for
all that were started until then, and only afterwards makes their stores, one after another::

    <state>/queue/snapshots/<n>/store.git, base.pack    what was captured
    <state>/queue/snapshots/<n>/snapshot.json           its commit

The ``store`` has who needs which. Delegations share a snapshot if they have the same workspace, kind of base and
unsaved text. Only the process that holds the recorder's lock creates and removes snapshots, except that a process that
starts many delegations at once captures theirs before it starts the first (``captured``). A worker that gets a slot
first uses the snapshot, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from understudy.engine.review import decision_recovery
from understudy.engine.worktrees import shared_base
from understudy.engine.worktrees.delegation_worktree import unsaved_text
from understudy.engine.worktrees.shared_base import SharedBase
from understudy.files import durable
from understudy.git import repository
from understudy.git.base import capture as git_base
from understudy.git.object_store import ObjectStore
from understudy.journal import delegation_folder
from understudy.model.errors import UnderstudyError
from understudy.model.wire import ready
from understudy.store import store

_LIMIT = 64 * 1024 * 1024
_LOCK = "lock"
"""Held by the process that made a snapshot for delegations that have no entry in the queue yet."""


def capture(root: Path, identifiers: Iterable[str], most_tries: int) -> None:
    """Capture what the user sees now for delegations that wait.

    A problem is left to the delegation: the process that makes its store meets it again, and reports it.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for identifier in identifiers:
        with contextlib.suppress(UnderstudyError, OSError):
            key = _key(identifier)
            if key is not None and store.count_try(root, identifier) < most_tries:
                groups.setdefault(key, []).append(identifier)
    for (workspace, kind, _), members in groups.items():
        with contextlib.suppress(UnderstudyError, OSError):
            folder = delegation_folder.open_folder(members[0])
            buffers = unsaved_text(folder, delegation_folder.read_spec(folder))
            with captured(root, Path(workspace), kind, buffers) as publish:
                publish(members)
    remove_unused(root)


def remove_unused(root: Path) -> None:
    """Remove the snapshots that no delegation needs, and unfinished ones. The caller holds the recorder's lock."""
    free = [folder for folder in _folders(root) if not durable.is_locked(folder / _LOCK)]
    for name in store.drop_snapshots(root, [folder.name for folder in free]) if free else ():
        shutil.rmtree(_place(root) / name, ignore_errors=True)


@contextlib.contextmanager
def captured(
    root: Path, workspace: Path, kind: str, buffers: Mapping[str | bytes, bytes]
) -> Iterator[Callable[[Sequence[str]], None]]:
    """Capture what the user sees now; yield a function that makes it the base of delegations, by their ids.

    No part of it is left if an error is raised. Raises the errors of ``git_base.write_base``.
    """
    place = _place(root)
    place.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=place))
    try:
        with durable.file_lock(folder / _LOCK):
            # An interrupted decision may have left the user's files partly changed.
            decision_recovery.recover_workspace(workspace)
            shared = shared_base.capture(folder, repository.locate(workspace), kind=kind, buffers=buffers)
            durable.replace(folder / "snapshot.json", msgspec.json.encode(shared))

            def publish(members: Sequence[str]) -> None:
                store.share_snapshot(root, folder.name, members)

            yield publish
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def current_tree(root: Path, repo: repository.Repository) -> str:
    """Return the id of the tree of what the user sees now, unsaved text aside; the snapshot is not kept.

    Raises the errors of ``git_base.write_base``.
    """
    place = _place(root)
    place.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with durable.file_lock(folder / _LOCK):
            return git_base.write_base(ObjectStore.create(folder / "store.git", repo), repo).tree


def find(root: Path, identifier: str) -> tuple[Path, SharedBase] | None:
    """Return the folder and the content of the snapshot for a delegation that is not recorded yet."""
    name = store.snapshot_of(root, identifier)
    if name is None:
        return None
    folder = _place(root) / name
    try:
        data = durable.read_whole(folder / "snapshot.json", _LIMIT)
        return folder, msgspec.json.decode(data, type=ready(SharedBase))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def any_left(root: Path) -> bool:
    """Return whether there is a snapshot."""
    return bool(_folders(root))


def _key(identifier: str) -> tuple[str, str, str] | None:
    """Return what delegations with the same snapshot have in common; None for a follow-up, which has its own base."""
    folder = delegation_folder.open_folder(identifier)
    spec = delegation_folder.read_spec(folder)
    if spec.origin is not None:
        return None
    digest = hashlib.sha256()
    for path, content in sorted(unsaved_text(folder, spec).items(), key=repr):
        digest.update(repr((path, len(content))).encode("utf-8", "surrogateescape") + content)
    return spec.workspace, spec.params.base or "current", digest.hexdigest()


def _folders(root: Path) -> list[Path]:
    try:
        return list(_place(root).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _place(root: Path) -> Path:
    return root / "queue" / "snapshots"
