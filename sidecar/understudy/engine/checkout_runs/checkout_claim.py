"""Let one agent at a time work in a checkout, and keep what the user saves there meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from understudy.engine.review import decision_recovery, review_state
from understudy.engine.worktrees import worktree_record
from understudy.files import durable, locks
from understudy.git.checkout.repository_state import RepositoryState
from understudy.journal import delegation_folder, editor_saves
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

_LIMIT = 16 * 1024 * 1024


class CheckoutRecord(msgspec.Struct, kw_only=True):
    """``checkout.json`` in the folder of a delegation whose agent worked in the checkout."""

    commit: str
    """What was on disk when the agent started."""
    different: list[str]
    """See ``checkout_tree.Beginning``."""
    repository: RepositoryState
    collected: bool = False
    """The changes are the delegation's result, and their undo is recorded."""


class CheckoutClaim:
    """The right of this process to let an agent work in a checkout, until ``release`` or the end of the process."""

    def __init__(self, checkout: Path, identifier: str) -> None:
        """Take it for a delegation. Raises ``conflict`` if another works there, or left work that is not collected."""
        self._checkout = checkout
        place = _lock(checkout)
        with durable.named_failures(place):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            taken = locks.try_lock(place)
        if taken is None:
            raise _taken(checkout)
        self._descriptor = taken
        try:
            _forget_earlier(checkout, identifier)
            with durable.named_failures(place):
                durable.replace(_name(checkout), identifier.encode())
        except BaseException:
            self.release()
            raise

    def keep_saves(self) -> None:
        """Keep what the user saves in the checkout from here on."""
        editor_saves.forget_contents(self._checkout)
        editor_saves.keep_contents(self._checkout)

    def release(self, *, collected: bool = False) -> None:
        """Let others work there. If the work is ``collected``, what the user saved is no longer needed."""
        if self._descriptor >= 0:
            if collected:
                editor_saves.forget_contents(self._checkout)
            os.close(self._descriptor)
            self._descriptor = -1


def refuse_if_taken(checkout: Path) -> None:
    """Raise ``conflict`` if an agent works in the checkout now."""
    if locks.is_locked(_lock(checkout)):
        raise _taken(checkout)


def write_record(folder: delegation_folder.Folder, record: CheckoutRecord) -> None:
    """Write the record durably."""
    with durable.named_failures(folder.checkout):
        durable.replace(folder.checkout, msgspec.json.encode(record), sync=True)


def read_record(folder: delegation_folder.Folder) -> CheckoutRecord | None:
    """Return the record; None if no agent of this delegation has worked in the checkout."""
    with durable.named_failures(folder.checkout), suppress(FileNotFoundError):
        try:
            return msgspec.json.decode(durable.read_whole(folder.checkout, _LIMIT), type=ready(CheckoutRecord))
        except msgspec.MsgspecError as error:
            raise UnderstudyError(
                ErrorKind.STATE_UNAVAILABLE,
                f"{folder.checkout} is damaged: {error}.",
                hint="What the agent changed is in your checkout; compare it with `git diff`.",
            ) from error
    return None


def is_uncollected(identifier: str) -> bool:
    """Return whether an agent was killed in its checkout, and what it changed can still be collected."""
    folder = worktree_record.folder_of(identifier)
    if folder is None:
        return False
    with suppress(UnderstudyError):
        record = read_record(folder)
        if record is None or record.collected:
            return False
        decision_recovery.recover_delegation(folder)
        root = Path(worktree_record.read_record(folder).root)
        return not is_applied(folder) and worktree_record.removed(root) is None
    return False


def is_applied(folder: delegation_folder.Folder) -> bool:
    """Return whether the undo of what the agent changed is recorded: it was killed only after that."""
    return bool(review_state.read(folder).applied)


def uncollected(identifier: str) -> UnderstudyError:
    """Return the error for a delegation whose agent was killed in the checkout."""
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"The agent of {identifier} was interrupted in this checkout, and what it changed is not collected yet.",
        hint=f"Collect it with `understudy check {identifier}`, or give up its undo: understudy discard {identifier}",
        names=[identifier],
    )


def _forget_earlier(checkout: Path, identifier: str) -> None:
    """Remove what was kept for another delegation; raise ``conflict`` if that is still needed."""
    other = _last(checkout)
    if other is not None and other != identifier:
        if is_uncollected(other):
            raise uncollected(other)
        editor_saves.forget_contents(checkout)


def _taken(checkout: Path) -> UnderstudyError:
    other = _last(checkout)
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"The agent of {other or 'another delegation'} works in {checkout}; only one at a time can.",
        hint="Wait until it has finished, or let it work in a worktree: `useWorktree`.",
        names=[other] if other else None,
    )


def _last(checkout: Path) -> str | None:
    """Return the delegation that claimed the checkout last."""
    with suppress(OSError):
        name = durable.read_whole(_name(checkout), 256).decode("ascii", "replace")
        return name if delegation_folder.is_id(name) else None
    return None


def _lock(checkout: Path) -> Path:
    return editor_saves.keeper(checkout).with_suffix(".lock")


def _name(checkout: Path) -> Path:
    return editor_saves.keeper(checkout).with_suffix(".last")
