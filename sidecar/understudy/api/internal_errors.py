"""Internal errors: the user sees one sentence, the traceback goes into a log file for a bug report."""

from __future__ import annotations

import contextlib
import os
import traceback

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp

KEPT_BYTES = 1_000_000
"""The log file is rotated above this size."""


def internal_error(what: str, error: BaseException) -> UnderstudyError:
    """Write ``error``'s traceback to ``<state>/internal-errors.log`` and return the typed error with its path."""
    if isinstance(error, OSError) and error.errno in {28, 122}:  # ENOSPC, EDQUOT: the most common cause
        return UnderstudyError(
            ErrorKind.DISK_FULL, f"{what}: the disk is full.", hint="Free some space and try again; no data was lost."
        )
    path = None
    with contextlib.suppress(Exception):
        from understudy.journal.delegation_folder import state_root

        path = state_root() / "internal-errors.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        if path.exists() and path.stat().st_size > KEPT_BYTES:
            path.replace(path.with_suffix(".old"))
        descriptor = os.open(path, flags, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{timestamp(precision='seconds')} {what}\n")
            log.writelines(traceback.format_exception(error))
    return UnderstudyError(
        ErrorKind.INTERNAL,
        f"Internal error in {what}: {type(error).__name__}: {error}.",
        hint="This is a bug in Understudy. Please report it.",
        log_paths=[str(path)] if path else None,
    )
