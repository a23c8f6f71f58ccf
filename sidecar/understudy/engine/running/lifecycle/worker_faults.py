"""Report a bug, or a full disk, that a run met: a typed error for the user, the traceback in the worker's log."""

from __future__ import annotations

import contextlib
import errno

from understudy.journal.delegation_folder import Folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.timestamps import timestamp


def fault(folder: Folder, error: Exception) -> UnderstudyError:
    """Write the traceback to the worker's log, and return the error that ends the delegation."""
    import traceback

    with contextlib.suppress(OSError), (folder.path / "worker.log").open("a", encoding="utf-8") as log:
        log.write(f"{timestamp(precision='seconds')} ")
        log.writelines(traceback.format_exception(error))
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return UnderstudyError(
            ErrorKind.DISK_FULL,
            "The disk became full while the delegation was running.",
            hint="Free some space, then retry.",
        )
    return UnderstudyError(
        ErrorKind.INTERNAL,
        f"Internal error in the worker: {type(error).__name__}: {error}",
        hint="This is a bug in Understudy. Please report it; the log of the worker has the details.",
        log_paths=[str(folder.path / "worker.log")],
    )
