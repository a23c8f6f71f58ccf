"""Trees on disk: which there are, taking them away (a rescue ref first), bringing them back, and keeping order.

A tree that was taken away is renamed into ``<state>/trash`` and deleted there in the background by a worker at its end;
its place stays reserved (``leases``). Nothing that nobody has decided on goes without a rescue ref, and nothing goes
before its time but by a person's request.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from understudy.engine import ground, leases, removal, review, settling
from understudy.git import base as git_base
from understudy.git import repository, rescue, sweep, tree
from understudy.git.faults import point
from understudy.git.store import Store
from understudy.journal import disk, locks, store, summary
from understudy.model.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

TreeState = Literal["working", "undecided", "decided", "expired", "orphaned"]
DAY_SECONDS = 86_400.0
RESTORE_SECONDS = 10.0
"""How long a tree without a delegation waits for somebody else's tidying."""
TIDY_SECONDS = 60.0
"""A worker on its way out tidies for about so long; the next one goes on."""


@dataclass(frozen=True, slots=True)
class Place:
    """A tree on disk, and what is known of it."""

    root: Path
    chain: tuple[str, ...]
    state: TreeState
    last: float
    """Seconds since 1970 of the last event of the delegation that has it (or of the folder)."""
    delegation: Delegation | None

    @property
    def id(self) -> str:
        """Return the id by which it is removed: of the delegation that has it, or its place."""
        return self.chain[-1] if self.chain else f"{self.root.parent.name}/{self.root.name}"

    @property
    def tree(self) -> Path:
        """Return the folder of the tree itself, or of all when nobody knows which it is."""
        record = _record(self.chain)
        return Path(record.tree) if record is not None else self.root


# -- looking -------------------------------------------------------------------------------------------------------


def places(state: Path, keep_days: float) -> list[Place]:
    """Return every tree that was made and not taken away."""
    return [_place(root, keep_days) for root in leases.roots(state) if leases.removed(root) is None]


def trash(state: Path) -> list[Path]:
    """Return what was taken away and is not deleted yet."""
    folder = state / "trash"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def rescues(state: Path) -> list[rescue.Rescue]:
    """Return every removed tree that can be brought back now, the newest first: nothing stands in its place."""
    return [one for one in rescue.kept(state) if not one.path.is_dir()]


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk; what vanishes meanwhile counts nothing."""
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


# -- taking away and bringing back ---------------------------------------------------------------------------------


def discard(folder: store.Folder) -> str:
    """Take the tree of a finished delegation away; return the rescue ref that brings it back.

    Errors: ``conflict`` (it runs, or a follow-up has the tree), ``base_unavailable`` (it has none, or it could not be
    brought back).
    """
    state = store.state_root()
    with review.opened(folder) as at:
        root = Path(at.record.root)
        leases.refuse_other(root, folder.id)
        if not Path(at.record.tree).is_dir():
            # A follow-up that died before it had made its own, or a person, has removed it: the result is in the store.
            tree.create_tree(at.store, at.head, Path(at.record.tree))
        reference = _keep(state, at.record, at.store, folder.id)
        point("rescued")
        # The mark on the place comes after this: then nobody works on what is about to go, whoever takes it there.
        intent = settling.Intent("discard", reference, paths=[at.record.tree], final=True)
        settling.intend(folder, intent)
        settling.carry_on(folder, at.writer, intent)
    return reference


def remove(identifier: str) -> str:
    """Take a tree away by the id that ``places`` gives it; return the rescue ref.

    Errors: ``unknown_delegation`` (no such tree), ``conflict``, ``base_unavailable`` (it cannot be rescued).
    """
    state = store.state_root()
    if "/" in identifier:
        root = next((root for root in leases.roots(state) if f"{root.parent.name}/{root.name}" == identifier), None)
    else:
        identifier = store.resolve_id(identifier) if leases.root_of(state, identifier) is None else identifier
        root = leases.root_of(state, identifier)
    if root is None or leases.removed(root) is not None:
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION, f"There is no tree {identifier!r}.", hint="See `understudy worktrees list`."
        )
    place = _place(root, keep_days=0)
    if place.state == "working":
        raise UnderstudyError(
            ErrorKind.CONFLICT, f"{place.id} works in that tree.", hint=f"Cancel it first: understudy cancel {place.id}"
        )
    folder = leases.folder_of(place.id)
    if folder is not None and (folder.path / "ground.json").exists():
        return discard(folder)
    return _remove_orphan(state, place)


def restore(rescue_ref: str) -> Path:
    """Bring a tree back to where it was; return its path.

    Errors: ``unknown_delegation`` (no such ref), ``target_exists`` (it is there).
    """
    state = store.state_root()
    found = next((one for one in rescue.kept(state) if one.ref == rescue_ref), None)
    if found is None:
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"There is no rescue ref {rescue_ref!r}.",
            hint="`discarded` events and `understudy worktrees remove` name them.",
            names=[one.ref for one in rescue.kept(state)][:10] or None,
        )
    began = time.monotonic()
    root = found.path.parent
    owner = next((one for one in reversed(leases.chain(root)) if leases.folder_of(one)), None)
    folder = leases.folder_of(owner) if owner is not None else None
    if folder is None:
        with _tidying(state, RESTORE_SECONDS) as mine:
            if not mine:
                raise UnderstudyError(
                    ErrorKind.CONFLICT, "Trees are being taken away just now.", hint="Try again in a moment."
                )
            path = _bring_back(state, found, root)
            leases.mark_removed(root, None)
        return path
    with settling.held(folder) as writer:
        if writer.delegation.state is not State.FINISHED:
            raise UnderstudyError(
                ErrorKind.CONFLICT, f"{folder.id} is {writer.delegation.state}.", hint="Wait for its end."
            )
        path = _bring_back(state, found, root)
        seconds = round(time.monotonic() - began, 3)
        intent = settling.Intent("restore", rescue_ref, paths=[str(path)], seconds=seconds, final=True)
        settling.intend(folder, intent)
        settling.carry_on(folder, writer, intent)
    return path


# -- keeping order -------------------------------------------------------------------------------------------------


def tidy(state: Path, *, keep_days: float, keep_bytes: int) -> list[str]:
    """Empty the trash, complete what was begun, and take away what is past its time; return the rescue refs made.

    One process at a time; the others leave at once.
    """
    with _tidying(state, 0.0) as mine:
        if not mine:
            return []
        deadline = time.monotonic() + TIDY_SECONDS
        _complete_removals(state)
        _clear_unused(state)
        empty_trash(state)
        done = []
        for place in _due(state, keep_days, keep_bytes):
            if time.monotonic() > deadline:
                break
            # Weighing all trees takes its time: what somebody has gone on with since is not due any more.
            if _place(place.root, keep_days).state in {"expired", "decided"}:
                with contextlib.suppress(UnderstudyError, OSError):
                    done.append(remove(place.id))
        empty_trash(state)
        return done


def empty_trash(state: Path) -> None:
    """Delete what was taken away."""
    for entry in trash(state):
        with contextlib.suppress(OSError):
            sweep.remove_tree(entry)


def orphaned_pins(workspaces: Iterable[Path]) -> list[tuple[Path, str]]:
    """Return (workspace, ref) for each ``refs/understudy/<id>`` whose delegation is gone or whose tree was removed."""
    found = []
    for workspace in sorted(set(workspaces)):
        with contextlib.suppress(UnderstudyError, OSError):
            for name, gone in _pins(repository.locate(workspace)):
                if gone:
                    found.append((workspace, name))
    return found


def stale_exports(workspaces: Iterable[Path], keep_days: float) -> list[tuple[Path, str]]:
    """Return (workspace, ref) for each exported commit that needs its own ref no more.

    That is one which a branch or tag has by now, or which is older than what is kept of anything else.
    """
    found = []
    for workspace in sorted(set(workspaces)):
        with contextlib.suppress(UnderstudyError, OSError):
            place = repository.locate(workspace)
            found += [(workspace, name) for name in _exports(place, time.time() - keep_days * DAY_SECONDS)]
    return found


def _exports(place: repository.Repository, oldest: float) -> Iterator[str]:
    from understudy.git import call  # noqa: PLC0415 - starts a process

    if place.common_dir is None:
        return
    git_dir = place.common_dir
    listing = call.git(
        "for-each-ref", "--format=%(refname) %(committerdate:unix)", f"{git_base.REFERENCES}export-*", git_dir=git_dir
    )
    for line in listing.decode(errors="replace").splitlines():
        name, _, made = line.rpartition(" ")
        taken = call.git("for-each-ref", "--count=1", f"--contains={name}", "refs/heads", "refs/tags", git_dir=git_dir)
        if taken or int(made) < oldest:
            yield name


def _pins(place: repository.Repository) -> Iterator[tuple[str, bool]]:
    from understudy.git import call  # noqa: PLC0415 - starts a process

    if place.common_dir is None:
        return
    listing = call.git(
        "for-each-ref", "--format=%(refname)", git_base.REFERENCES.rstrip("/"), git_dir=place.common_dir
    ).decode(errors="replace")
    state = store.state_root()
    for name in listing.splitlines():
        identifier = name.removeprefix(git_base.REFERENCES)
        if store.is_id(identifier):
            root = leases.root_of(state, identifier)
            folder = leases.folder_of(identifier)
            living = folder is not None and summary.peek(folder).state is not State.FINISHED
            yield name, not living and (root is None or leases.removed(root) is not None)


def _due(state: Path, keep_days: float, keep_bytes: int) -> list[Place]:
    """Return what is past its time, and, while all trees together are too large, decided ones, the oldest first."""
    every = places(state, keep_days)
    due = [place for place in every if place.state == "expired"]
    rest = sorted((place for place in every if place.state == "decided"), key=lambda place: place.last)
    if rest:
        sizes = {place.root: size_of(place.root) for place in every}
        total = sum(sizes.values()) - sum(sizes[place.root] for place in due)
        for place in rest:
            if total <= keep_bytes:
                break
            due.append(place)
            total -= sizes[place.root]
    return due


def _place(root: Path, keep_days: float) -> Place:
    chain = tuple(leases.chain(root))
    folder = leases.folder_of(chain[-1]) if chain else None
    if folder is None:
        return Place(root, chain, "orphaned", _modified(root), None)
    try:
        delegation = summary.load(folder)
    except UnderstudyError:
        return Place(root, chain, "orphaned", _modified(root), None)
    last = max(_seconds(delegation.finished_at), _modified(folder.events))
    state: TreeState
    if delegation.state is not State.FINISHED or locks.is_held(folder):
        state = "working"
    elif delegation.review.pending or len(leases.named(root)) > len(chain) or _never_collected(delegation):
        # Also when a follow-up came to nothing: what it was given is undecided again. Such work never goes by itself.
        state = "undecided"
    else:
        state = "expired" if time.time() - last > keep_days * DAY_SECONDS > 0 else "decided"
    return Place(root, chain, state, last, delegation)


def _never_collected(delegation: Delegation) -> bool:
    """Tell whether an agent was at work in the tree and nobody has seen what it left: its worker died."""
    return bool(delegation.attempts) and delegation.worktree is not None and delegation.result is None


def _keep(state: Path, record: ground.Record, objects: Store, name: str) -> str:
    opened = tree.Tree.open(objects, Path(record.tree))
    found = repository.locate(objects.top)
    also = set(_earlier_bases(Path(record.root)))
    try:
        return rescue.keep(state, found, opened, objects, name, also=also)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.ALREADY_EXISTS:
            raise
        return rescue.keep(state, found, opened, objects, f"{name}-{secrets.token_hex(3)}", also=also)


def _earlier_bases(root: Path) -> Iterator[str]:
    """Give the bases of a tree's chain: their results can be looked at, and their accepts undone, after a return."""
    for identifier in leases.chain(root):
        folder = leases.folder_of(identifier)
        if folder is not None:
            with contextlib.suppress(UnderstudyError):
                record = ground.read_record(folder)
                yield record.base_commit
                if record.parent:
                    yield record.parent


def _bring_back(state: Path, found: rescue.Rescue, root: Path) -> Path:
    """Write the tree where it was; its place stays marked as removed, so whoever finds a half of it takes it away."""
    reference = leases.removed(root)
    if reference is not None:
        removal.take_away(root, reference)
    elif found.path.is_dir() and any(found.path.iterdir()):
        raise UnderstudyError(
            ErrorKind.TARGET_EXISTS, f"{found.path} is there.", hint="Take that tree away first, if you mean it."
        )
    # First, so that nobody's `git gc` takes what the tree is going to borrow.
    removal.pin(root)
    point("pinned")
    path = rescue.restore(state, found.ref, found.path).path
    point("written back")
    return path


def _complete_removals(state: Path) -> None:
    """Finish what a process that died in the middle of taking a tree away, or bringing it back, has left."""
    for root in leases.roots(state):
        with contextlib.suppress(UnderstudyError, OSError):
            folder = leases.folder_of(next(reversed(leases.chain(root)), ""))
            if folder is None:
                _complete_removal(root)
            elif not settling.attend(folder) and (lock := locks.try_lock(folder)) is not None:
                try:
                    _complete_removal(root)
                finally:
                    os.close(lock)


def _complete_removal(root: Path) -> None:
    reference = leases.removed(root)
    if reference is not None and removal.leftovers(root):
        removal.take_away(root, reference)


def _clear_unused(state: Path) -> None:
    """Free places at which nothing was ever made: whoever claimed one died before it had a base."""
    for root in leases.roots(state):
        names = leases.named(root)
        with contextlib.suppress(UnderstudyError, OSError):
            if leases.removed(root) is not None or len(names) > 1:
                continue
            if not names:
                with _claimed(root) as mine:
                    if mine and not leases.named(root) and not removal.leftovers(root):
                        _free(state, root)
                continue
            folder = leases.folder_of(names[0])
            if folder is None or (lock := locks.try_lock(folder)) is None:
                continue
            try:
                ended = summary.load(folder).state is State.FINISHED
                if ended and not (folder.path / "ground.json").exists():
                    _free(state, root, folder)
            finally:
                os.close(lock)


def _free(state: Path, root: Path, folder: store.Folder | None = None) -> None:
    if folder is not None:
        removal.unpin(folder.id, root)
    aside = state / "trash"
    aside.mkdir(mode=0o700, exist_ok=True)
    root.rename(aside / f"{root.parent.name}-{root.name}-{secrets.token_hex(6)}")


@contextlib.contextmanager
def _claimed(root: Path) -> Iterator[bool]:
    """Hold the lock under which a place is claimed (``tree.claim_tree_path``), if nobody does."""
    descriptor = disk.open_regular(root.with_name(f"{root.name}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _remove_orphan(state: Path, place: Place) -> str:
    record = _record(place.chain)
    objects = Store.open(place.root / "store.git")
    folder = Path(record.tree) if record is not None else _only_tree(place.root)
    opened = tree.Tree.open(objects, folder)
    name = (place.id if place.chain else place.id.replace("/", "-")) + f"-{secrets.token_hex(3)}"
    reference = rescue.keep(state, repository.locate(objects.top), opened, objects, name)
    removal.take_away(place.root, reference)
    return reference


def _only_tree(root: Path) -> Path:
    # A name that begins with a point is what a restoration that was killed had written so far.
    found = [entry for entry in removal.leftovers(root) if entry.is_dir() and entry.name[:1] != "."]
    found = [entry for entry in found if entry.name != "store.git"]
    if len(found) != 1:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE, f"{root} holds no tree that could be kept.", hint=f"Look at it: {root}"
        )
    return found[0]


def _record(chain: Iterable[str]) -> ground.Record | None:
    for identifier in reversed(list(chain)):
        folder = leases.folder_of(identifier)
        if folder is not None:
            with contextlib.suppress(UnderstudyError):
                return ground.read_record(folder)
    return None


@contextlib.contextmanager
def _tidying(state: Path, seconds: float) -> Iterator[bool]:
    """Be the one who keeps order; give False when somebody else still is after ``seconds``."""
    descriptor = disk.open_regular(state / "tidying.lock", os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    yield False
                    return
                time.sleep(0.02)
        yield True
    finally:
        os.close(descriptor)


def _seconds(at: str | None) -> float:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(at).timestamp() if at else 0.0
    return 0.0


def _modified(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
