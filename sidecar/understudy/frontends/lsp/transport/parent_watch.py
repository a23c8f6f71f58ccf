"""Noticing that the editor died although its end of the pipe lives on, in a process that inherited it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

POLL_SECONDS = 5.0
"""Where the system cannot tell of a death by itself (pidfd_open(2): Linux 5.3)."""


def watch(process: int, died: Callable[[], None]) -> Callable[[], None]:
    """Call ``died`` in the running loop when the process ends; return what stops watching.

    A process that cannot be seen now is not watched: the editor may live in another container, whose numbers say
    nothing here. The end of the stream tells of its death then.
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
    """Tell whether there is such a process."""
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
    while alive(process):  # noqa: ASYNC110 - there is no event for it on such systems
        await asyncio.sleep(POLL_SECONDS)
    died()


def _nothing() -> None:
    """Stop what never began."""
