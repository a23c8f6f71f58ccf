"""Faults of our own: the person gets one sentence, the traceback goes into a file that they can send."""

from __future__ import annotations

import contextlib
import os
import time
import traceback

from understudy.model.errors import ErrorKind, UnderstudyError

KEPT_BYTES = 1_000_000
"""The log of faults starts anew above this size."""


def internal(what: str, error: BaseException) -> UnderstudyError:
    """Write ``error``'s traceback to ``<state>/faults.log`` and return the typed error that names the file."""
    if isinstance(error, OSError) and error.errno in {28, 122}:  # ENOSPC, EDQUOT: the commonest fault is a full disk
        return UnderstudyError(
            ErrorKind.STORE_FULL, f"{what}: the disk is full.", hint="Free some space and try again; nothing was lost."
        )
    path = None
    with contextlib.suppress(Exception):
        from understudy.journal.store import state_root  # noqa: PLC0415 - floor 2, only when it goes wrong

        path = state_root() / "faults.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        if path.exists() and path.stat().st_size > KEPT_BYTES:
            path.replace(path.with_suffix(".old"))
        descriptor = os.open(path, flags, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {what}\n")
            log.writelines(traceback.format_exception(error))
    return UnderstudyError(
        ErrorKind.INTERNAL,
        f"{what}: {type(error).__name__}: {error}",
        hint=f"This is a fault of Understudy; the details are in {path}." if path else "This is a fault of Understudy.",
    )
