"""Files that editors open: the ``review.diff`` of a delegation, and the text of an answer."""

from __future__ import annotations

import os
from pathlib import Path

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError

REVIEW = "review.diff"
_REVIEW_BYTES = 64 * 1024 * 1024
_ANSWERS = "answers"
MOST_ANSWERS = 50
"""How many answers to text requests are kept for editors; the ledger has no texts."""


def is_own(path: Path) -> bool:
    """Return whether a file or folder is in the state folder, where nothing is run or delegated."""
    root = delegation_folder.state_root()
    if path == root or root in path.parents:
        return True
    real, root = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    return real == root or root in real.parents


def delegation_of(path: Path) -> str | None:
    """Return the delegation whose ``review.diff`` a file is; None for any other file."""
    if path.name != REVIEW or not delegation_folder.is_id(path.parent.name):
        return None
    try:
        root = delegation_folder.delegations_root()
    except UnderstudyError:
        return None
    if path.parent.parent == root or os.path.realpath(path.parent.parent) == os.path.realpath(root):
        return path.parent.name
    return None


def review_file(delegation: str) -> Path:
    """Return where the ``review.diff`` of a delegation is, or will be. Errors: ``unknown_delegation``."""
    return delegation_folder.open_folder(delegation).review


def read_review(delegation: str) -> bytes:
    """Return ``review.diff`` as it is now, with the user's reasons in it.

    Errors: ``unknown_delegation``; ``conflict`` while there is no result; ``state_unavailable`` if it cannot be read.
    """
    path = review_file(delegation)
    try:
        return durable.read_whole(path, _REVIEW_BYTES)
    except FileNotFoundError:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{delegation} has no result yet.",
            hint=f"See its state: understudy show {delegation}",
        ) from None
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{path} cannot be read: {error.strerror}.",
            hint="Run `understudy doctor`.",
        ) from error


def original_review(delegation: str, head: str | None) -> str:
    """Return the text of ``review.diff`` as Understudy wrote it for this head, without the user's edits.

    Errors: ``unknown_delegation``; ``base_unavailable`` when the worktree was removed.
    """
    from understudy.engine.worktrees import worktree_record

    folder = delegation_folder.open_folder(delegation)
    kept, objects = worktree_record.load_record(folder)
    text = worktree_record.review_text(folder, objects, kept.base_commit, head or kept.base_commit)
    return text.decode("utf-8", "replace")


def write_answer(delegation: str, text: str) -> Path:
    """Write an answer beside the journal, where an editor can open it, and return the file.

    Errors: ``unknown_delegation``, ``disk_full``, ``state_unavailable``.
    """
    path = delegation_folder.open_folder(delegation).path / "answer.md"
    with durable.named_failures(path):  # another editor may write the same answer now
        durable.replace(path, text.encode("utf-8", "replace"), several_writers=True)
    return path


def write_text_answer(request: str, text: str) -> Path:
    """Write the answer to a text request where an editor can open it, remove the oldest ones, and return the file.

    Errors: ``disk_full``, ``state_unavailable``.
    """
    import contextlib

    folder = delegation_folder.state_root() / _ANSWERS
    path = folder / f"{request}.md"
    with durable.named_failures(path):
        folder.mkdir(mode=0o700, exist_ok=True)
        durable.replace(path, text.encode("utf-8", "replace"))
        for old in sorted(folder.glob("*.md"))[:-MOST_ANSWERS]:  # IDs begin with the time
            with contextlib.suppress(FileNotFoundError):
                old.unlink()
    return path
