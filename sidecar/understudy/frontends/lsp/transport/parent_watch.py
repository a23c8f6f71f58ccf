"""Detect the death of the editor when another process has inherited its end of the pipe and keeps it open."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

POLL_SECONDS = 5.0
"""How often to check on systems without pidfd_open(2), which Linux has since 5.3."""


def watch(process: int, died: Callable[[], None]) -> Callable[[], None]:
    """Call ``died`` in the running loop when the process ends; return a function that stops watching.

    A process that does not exist here is not watched: the editor may run in another container, with other process ids.
    In that case the end of the stream ends the session.
    """
    loop = asyncio.get_running_loop()
    if not alive(process):
        return _nothing
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(process)
        except OSError:
            pass
        else:
            loop.add_reader(descriptor, died)

            def stop() -> None:
                loop.remove_reader(descriptor)
                with contextlib.suppress(OSError):
                    os.close(descriptor)

            return stop
    task = loop.create_task(_poll(process, died))

    def end() -> None:
        task.cancel()

    return end


def alive(process: int) -> bool:
    """Return whether there is such a process."""
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


async def _poll(process: int, died: Callable[[], None]) -> None:
    while alive(process):  # noqa: ASYNC110 - such systems have no event for it
        await asyncio.sleep(POLL_SECONDS)
    died()


def _nothing() -> None:
    """Do nothing: the process is not watched."""
