"""One writer at a time in a folder, across processes; and files that are either the old or the new one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError

LOCK_SECONDS = 10.0
"""An edit takes milliseconds; whoever holds the lock this long is stuck."""

_POLL_SECONDS = 0.01


@contextlib.contextmanager
def folder_lock(folder: Path, *, timeout_seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the folder's lock; raises ``timed_out`` when somebody else holds it for too long.

    The lock is on the folder itself (flock on its descriptor), so that no lock file lies about in a
    repository. It ends with the process, however that ends.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UnderstudyError(
                        ErrorKind.TIMED_OUT,
                        f"Another process has been changing {folder} for {timeout_seconds:g} s.",
                        hint="Try again; if it stays so, look for a process that hangs.",
                    ) from None
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes, *, mode: int) -> None:
    """Put ``data`` in the place of ``path`` in one step that survives a power cut; raises ``OSError``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename or a removal in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
