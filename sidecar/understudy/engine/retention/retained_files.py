"""List what is kept on disk, and remove files of delegations after their time, expired keys and groups, and old pins.

All files are kept while a delegation runs or waits, has pending hunks, has an interrupted decision, is the parent of an
unfinished follow-up, or is not in the ledger yet. A journal is kept while its worktree exists. Each removal is one
rename or unlink under the delegation's lock, so a killed process leaves nothing half removed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from understudy.config.configuration import Retention
from understudy.engine.review import review_state
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import WorktreeRecord, read_record
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git import command, repository
from understudy.git.base import capture
from understudy.git.worktree import rescue
from understudy.journal import delegation_folder, ledger, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing import dead_workers
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

WorktreeState = Literal["working", "pending", "decided", "expired", "orphaned"]
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class FileUsage:
    """Bytes on disk by kind of file."""

    journals: int
    """The folders of all delegations, prompts and logs included."""
    prompts: int
    logs: int
    ledger: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A finished delegation with files that may be removed."""

    folder: Folder
    last: float
    """Seconds since 1970 of its last event."""
    has_worktree: bool


def usage(state: Path) -> FileUsage:
    """Return how much space the files of delegations take."""
    root = delegation_folder.delegations_root()
    folders = [Folder(name, root / name) for name in delegation_folder.ids()]
    return FileUsage(
        journals=sum(size_of(folder.path) for folder in folders),
        prompts=sum(_size(_prompts(folder)) for folder in folders),
        logs=sum(_size(_logs(folder)) for folder in folders),
        ledger=size_of(state / "ledger"),
    )


def expire_files(state: Path, kept: Retention, deadline: float) -> list[str]:
    """Remove expired files until ``deadline`` (monotonic seconds); return the ids of removed delegations.

    The caller holds ``expiry_lock``. The next call continues where this one ran out of time.
    """
    _complete_ledger(deadline)
    delegation_folder.remove_abandoned()
    candidates = _candidates(state, deadline)
    for files, days, most in (
        (_prompts, kept.prompt_days, kept.prompt_bytes),
        (_logs, kept.log_days, kept.log_bytes),
    ):
        for candidate in _due(candidates, files, days, most):
            if time.monotonic() < deadline:
                _locked(candidate, functools.partial(_remove, files))
    without_worktree = [candidate for candidate in candidates if not candidate.has_worktree]
    removed = [
        candidate.folder.id
        for candidate in _due(without_worktree, _everything, kept.journal_days, kept.journal_bytes)
        if time.monotonic() < deadline and _locked(candidate, functools.partial(_move_to_trash, state))
    ]
    _expire_keys(state, kept.key_days)
    _expire_groups(state, kept.group_days)
    return removed


def _complete_ledger(deadline: float) -> None:
    for identifier in ledger.open_ids():
        if time.monotonic() > deadline:
            return
        folder = worktree_record.folder_of(identifier)
        if folder is None:
            ledger.discard_open(identifier)
            continue
        with contextlib.suppress(UnderstudyError, OSError):
            dead_workers.complete_ledger(folder)


def _candidates(state: Path, deadline: float) -> list[_Candidate]:
    """Return the delegations with files that may be removed, oldest first; none when time runs out."""
    root = delegation_folder.delegations_root()
    in_place = {
        identifier
        for place in worktree_record.roots(state)
        if worktree_record.removed(place) is None
        for identifier in worktree_record.listed_owners(place)
    }
    needed: set[str] = set()
    candidates: list[_Candidate] = []
    for identifier in delegation_folder.ids():
        if time.monotonic() > deadline:
            return []  # a delegation that was not examined could need one of these
        folder = Folder(identifier, root / identifier)
        try:
            delegation = reader.peek(folder)
        except (UnderstudyError, OSError):
            continue
        if delegation.state is not State.FINISHED:
            needed.add(delegation.parent_id or "")
        elif not _is_pending(delegation):
            candidates.append(_Candidate(folder, last_event(folder, delegation), identifier in in_place))
    return sorted(
        (candidate for candidate in candidates if candidate.folder.id not in needed),
        key=lambda candidate: candidate.last,
    )


def _is_pending(delegation: Delegation) -> bool:
    """Return whether the user still has to decide on a result, or to look at the partial work of a killed worker."""
    if delegation.rescue_ref is not None:
        return False  # discarded, but kept in a rescue ref
    undecided = delegation.review.pending > 0 or never_collected(delegation)
    return undecided or worktree_record.has_failed_follow_up(delegation)


def _due(
    candidates: Iterable[_Candidate], files: Callable[[Folder], list[Path]], days: float, most: int
) -> list[_Candidate]:
    """Return files older than ``days`` (0: no limit), then the oldest until the rest fits into ``most`` bytes."""
    root = delegation_folder.delegations_root()
    total = sum(_size(files(Folder(name, root / name))) for name in delegation_folder.ids())
    oldest = time.time() - days * DAY_SECONDS if days > 0 else 0.0
    due = []
    for candidate in candidates:
        size = _size(files(candidate.folder))
        if size and (candidate.last < oldest or total > most):
            due.append(candidate)
            total -= size
    return due


def _locked(candidate: _Candidate, remove: Callable[[Folder], None]) -> bool:
    """Call ``remove`` under the delegation's lock, unless the delegation has changed in the meantime."""
    folder = candidate.folder
    with contextlib.suppress(UnderstudyError, OSError):
        lock = worker_files.try_lock(folder)
        if lock is None:
            return False
        try:
            delegation = reader.load(folder)
            is_same = delegation.state is State.FINISHED and last_event(folder, delegation) == candidate.last
            if is_same and not review_state.has_interrupted_decision(folder) and not ledger.is_open(folder):
                remove(folder)
                return True
        finally:
            os.close(lock)
    return False


def _move_to_trash(state: Path, folder: Folder) -> None:
    trash = state / "trash"
    trash.mkdir(mode=0o700, exist_ok=True)
    failpoint("journal expires")
    folder.path.rename(trash / f"{folder.id}-{secrets.token_hex(6)}")
    failpoint("journal expired")


def _prompts(folder: Folder) -> list[Path]:
    return [folder.prompt, folder.buffers]


def _logs(folder: Folder) -> list[Path]:
    return [*(path for _, path in folder.logs()), folder.path / "worker.log", folder.path / "checks"]


def _everything(folder: Folder) -> list[Path]:
    return [folder.path]


def _remove(files: Callable[[Folder], list[Path]], folder: Folder) -> None:
    for path in files(folder):
        failpoint("file expires")
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _size(paths: list[Path]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += path.lstat().st_blocks * 512 if not path.is_dir() else size_of(path)
    return total


def _expire_keys(state: Path, days: float) -> None:
    folder = state / "keys"
    if days > 0 and folder.is_dir():
        with contextlib.suppress(UnderstudyError, OSError), durable.file_lock(folder / ".lock"):
            _unlink_older(folder, time.time() - days * DAY_SECONDS)


def _expire_groups(state: Path, days: float) -> None:
    """Remove the groups that have not changed for ``days`` and whose delegations are all gone."""
    folder = state / "groups"
    if days <= 0 or not folder.is_dir():
        return
    used = set()
    for identifier in delegation_folder.ids():
        with contextlib.suppress(UnderstudyError, OSError):
            used.add(reader.peek(delegation_folder.open_folder(identifier)).group_id)
    with contextlib.suppress(UnderstudyError, OSError), durable.file_lock(state / "groups.lock"):
        _unlink_older(folder, time.time() - days * DAY_SECONDS, keep=lambda name: name.partition(".")[0] in used)


def _unlink_older(folder: Path, oldest: float, keep: Callable[[str], bool] = lambda _: False) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False) and not keep(entry.name):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < oldest:
                        Path(entry.path).unlink()


@dataclass(frozen=True, slots=True)
class WorktreeInfo:
    """A worktree on disk, and its state."""

    root: Path
    chain: tuple[str, ...]
    state: WorktreeState
    last: float
    """Seconds since 1970 of the last event of the delegation that has it (or of the folder)."""
    delegation: Delegation | None

    @property
    def id(self) -> str:
        """Return the id by which it is removed: the id of its delegation, or its path."""
        return self.chain[-1] if self.chain else f"{self.root.parent.name}/{self.root.name}"

    @property
    def tree(self) -> Path:
        """Return the folder of the worktree itself, or its parent folder if it is unknown."""
        record = _record(self.chain)
        return Path(record.tree) if record is not None else self.root


def list_worktrees(state: Path, keep_days: float) -> list[WorktreeInfo]:
    """Return every worktree that was created and not removed."""
    return [_place(root, keep_days) for root in worktree_record.roots(state) if worktree_record.removed(root) is None]


def trash(state: Path) -> list[Path]:
    """Return the removed worktrees that are not deleted yet."""
    folder = state / "trash"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def rescues(state: Path) -> list[rescue.Rescue]:
    """Return every removed worktree that can be restored, newest first; nothing exists at its path."""
    return [entry for entry in rescue.list_rescues(state) if not entry.path.is_dir()]


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk; files that vanish meanwhile do not count."""
    total = 0
    waiting = [os.fsencode(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _place(root: Path, keep_days: float) -> WorktreeInfo:
    chain = tuple(worktree_record.chain(root))
    folder = worktree_record.folder_of(chain[-1]) if chain else None
    if folder is None:
        return WorktreeInfo(root, chain, "orphaned", _modified(root), None)
    try:
        delegation = reader.load(folder)
    except UnderstudyError:
        return WorktreeInfo(root, chain, "orphaned", _modified(root), None)
    last = last_event(folder, delegation)
    state: WorktreeState
    if delegation.state is not State.FINISHED:
        state = "working"
    elif (
        delegation.review.pending
        or len(worktree_record.listed_owners(root)) > len(chain)
        or never_collected(delegation)
    ):
        # Also when a follow-up failed: its hunks are pending again. Pending work never expires.
        state = "pending"
    else:
        state = "expired" if time.time() - last > keep_days * DAY_SECONDS > 0 else "decided"
    return WorktreeInfo(root, chain, state, last, delegation)


def last_event(folder: Folder, delegation: Delegation) -> float:
    """Return when the last event of a delegation was written, in seconds since 1970."""
    return max(_seconds(delegation.finished_at), _modified(folder.events))


def never_collected(delegation: Delegation) -> bool:
    """Return whether the worker died while an agent ran, and the user has not looked at the partial work."""
    return bool(delegation.attempts) and delegation.worktree is not None and delegation.result is None


def _record(chain: Iterable[str]) -> WorktreeRecord | None:
    for identifier in reversed(list(chain)):
        folder = worktree_record.folder_of(identifier)
        if folder is not None:
            with contextlib.suppress(UnderstudyError):
                return read_record(folder)
    return None


def _seconds(at: str | None) -> float:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(at).timestamp() if at else 0.0
    return 0.0


def _modified(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def expiry_lock(state: Path, seconds: float = 0.0) -> contextlib.AbstractContextManager[bool]:
    """Lock the removal of expired files; yield False when another process still holds the lock after ``seconds``."""
    return durable.try_file_lock(state / "expiry.lock", seconds)


def orphaned_pins(workspaces: Iterable[Path]) -> list[tuple[Path, str]]:
    """Return (workspace, ref) for each pin whose delegation or worktree is gone."""
    return _references(workspaces, _orphaned)


def stale_exports(workspaces: Iterable[Path], keep_days: float) -> list[tuple[Path, str]]:
    """Return (workspace, ref) for each exported commit that no longer needs its own ref.

    A branch or tag contains it, or it is older than ``keep_days``.
    """
    oldest = time.time() - keep_days * DAY_SECONDS
    return _references(workspaces, lambda git_dir: _stale(git_dir, oldest))


def _references(workspaces: Iterable[Path], find: Callable[[Path], Iterator[str]]) -> list[tuple[Path, str]]:
    """Return (workspace, ref) for each ref that ``find`` returns for the git directory of a workspace."""
    found = []
    for workspace in sorted(set(workspaces)):
        with contextlib.suppress(UnderstudyError, OSError):
            git_dir = repository.locate(workspace).common_dir
            if git_dir is not None:
                found += [(workspace, name) for name in find(git_dir)]
    return found


def _stale(git_dir: Path, oldest: float) -> Iterator[str]:
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


def _orphaned(git_dir: Path) -> Iterator[str]:
    listing = command.git_output(
        "for-each-ref", "--format=%(refname)", capture.REFERENCES.rstrip("/"), git_dir=git_dir
    ).decode(errors="replace")
    state = delegation_folder.state_root()
    for name in listing.splitlines():
        identifier = capture.identifier_of(name)
        if identifier is not None and delegation_folder.is_id(identifier):
            root = worktree_record.root_of(state, identifier)
            folder = worktree_record.folder_of(identifier)
            living = folder is not None and reader.peek(folder).state is not State.FINISHED
            if not living and (root is None or worktree_record.removed(root) is not None):
                yield name
