"""Files that a decision writes next to the journal: its intent before it starts, and a record to undo it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from understudy.files import durable
from understudy.git.merge.undo import UndoRecord
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process.failpoints import failpoint

_RECORD_LIMIT = 64 * 1024 * 1024
_Kind = TypeVar("_Kind")


class HunkRef(msgspec.Struct, frozen=True):
    """A hunk by its file and id."""

    path: str
    hunk: str


class DecisionIntent(msgspec.Struct):
    """``decision-intent.json`` in the delegation's folder: what to complete if the deciding process dies."""

    kind: Literal["accept", "undo", "discard", "restore"]
    token: str = ""
    """The undo token, or the rescue ref of the worktree that is discarded or restored."""
    by: str = ""
    hunks: list[HunkRef] = []
    paths: list[str] = []
    """The paths of the ``applied`` event; for discard and restore, the folder of the worktree."""
    seconds: float = 0.0
    final: bool = False
    """Recovery completes the decision. If false, the file transaction shows whether it was committed."""


class UndoFile(msgspec.Struct):
    """``undo/<token>.json`` in the delegation's folder."""

    record: UndoRecord


def has_interrupted_decision(folder: delegation_folder.Folder) -> bool:
    """Return whether a decision was started but not completed."""
    return intent_file(folder).exists() or exchange_file(folder).exists()


def record_intent(folder: delegation_folder.Folder, intent: DecisionIntent) -> None:
    """Write the intent of a decision durably."""
    write(intent_file(folder), msgspec.json.encode(intent))
    failpoint("intended")


def write(path: Path, data: bytes) -> None:
    """Replace a file in a delegation's folder durably, creating the folder it is in."""
    with durable.named_failures(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        durable.replace(path, data, sync=True)


def read(path: Path, kind: type[_Kind]) -> _Kind:
    """Read a file written by ``write``; raise ``state_unavailable`` if it is damaged or missing."""
    with durable.named_failures(path):
        data = durable.read_whole(path, _RECORD_LIMIT)
    try:
        return msgspec.json.decode(data, type=ready(kind))
    except msgspec.DecodeError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{path} is damaged: {error}.",
            hint="Compare your files with the result, then delete that file.",
        ) from error


def intent_file(folder: delegation_folder.Folder) -> Path:
    """Return the path of the intent file, which exists only while a decision is in progress."""
    return folder.path / "decision-intent.json"


def exchange_file(folder: delegation_folder.Folder) -> Path:
    """Return the path of the file transaction's own journal, which exists only while the transaction is open."""
    return folder.path / "file-transaction"


def undo_file(folder: delegation_folder.Folder, token: str) -> Path:
    """Return the path of the record that undoes an accept."""
    return folder.path / "undo" / f"{token.rpartition('.')[2]}.json"
