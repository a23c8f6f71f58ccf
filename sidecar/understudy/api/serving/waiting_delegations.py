"""Start what waits in the queue and what schedules have due, while a server runs, even if no client asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from understudy.api import error_answers
from understudy.model.errors import UnderstudyError

FIRST_SECONDS = 1.0
"""The first look waits until the server has answered its client."""
LOOK_SECONDS = 10.0
"""Workers that end and frontends that follow a delegation start the next one at once; this is for lost ones."""
SCHEDULE_SECONDS = 30.0
"""How often schedules are looked at, of which each has a time to the minute."""


def watch() -> None:
    """Serve the queue and the schedules in a thread of this process: soon, and then again and again."""
    threading.Thread(target=_watch, name="queue", daemon=True).start()


def _watch() -> None:
    pause = threading.Event()
    pause.wait(FIRST_SECONDS)
    from understudy.engine.queueing import launcher
    from understudy.journal import delegation_folder

    looked = float("-inf")
    while True:
        _try("queue", lambda: launcher.start_waiting(delegation_folder.state_root()))
        if time.monotonic() - looked >= SCHEDULE_SECONDS:
            looked = time.monotonic()
            _try("schedules", _serve_schedules)
        pause.wait(LOOK_SECONDS)


def _try(what: str, call: Callable[[], object]) -> None:
    try:
        call()
    except UnderstudyError:
        pass  # a full disk or a state folder that cannot be used: every request reports it
    except Exception as error:
        error_answers.internal_error(what, error)


def _serve_schedules() -> None:
    """Start what is due; without a schedule, read no configuration."""
    from understudy.config import locations

    if locations.is_used(locations.FileKind.SCHEDULE):
        from understudy.api import messages
        from understudy.api.handlers.setup import schedules

        schedules.serve(schedules.ScheduleCaller(), messages.NoParams())
