"""Remember for each receiver the outcome of its notifications: ``<state>/notifications/<name>.json``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.model.config.config_entries import NotificationState
from understudy.model.errors import ErrorInfo
from understudy.model.wire import ready, timestamp

_MOST_BYTES = 64 * 1024


def state(root: Path, name: str) -> NotificationState:
    """Return what is known about a receiver, without its problems."""
    try:
        return msgspec.json.decode(durable.read_whole(_file(root, name), _MOST_BYTES), type=ready(NotificationState))
    except (OSError, msgspec.MsgspecError):
        return NotificationState(problems=[])


def record(root: Path, name: str, error: ErrorInfo | None) -> None:
    """Record that a receiver took a notification, or why it did not get it. Raises the errors of a full disk."""
    with durable.file_lock(lock_of(root, name)):
        kept = state(root, name)
        if error is None:
            kept = NotificationState(problems=[], sent=kept.sent + 1, last_sent_at=timestamp(None, "seconds"))
        else:
            kept = msgspec.structs.replace(kept, failed=kept.failed + 1, last_error=error)
        file = _file(root, name)
        with durable.named_failures(file):
            durable.replace(file, msgspec.json.encode(kept))


def forget(root: Path, name: str) -> None:
    """Forget a receiver that was removed."""
    with durable.file_lock(lock_of(root, name)):
        _file(root, name).unlink(missing_ok=True)


def folder_of(root: Path) -> Path:
    """Return the folder of what is remembered, which exists."""
    folder = root / "notifications"
    with durable.named_failures(folder):
        folder.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
    return folder


def lock_of(root: Path, name: str) -> Path:
    """Return the lock of a receiver's file."""
    return folder_of(root) / f"{name}.lock"


def _file(root: Path, name: str) -> Path:
    return root / "notifications" / f"{name}.json"
