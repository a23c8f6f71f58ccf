"""The current folder of this process, which may have been deleted while it is in it."""

from __future__ import annotations

from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError


def current_folder() -> Path | None:
    """Return the current folder, None if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def require_current_folder() -> Path:
    """Return the current folder; raise ``invalid_params`` if it was deleted."""
    folder = current_folder()
    if folder is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "The current folder was deleted, and the command needs one.",
            hint="Change to a folder that exists: cd ~",
        )
    return folder
