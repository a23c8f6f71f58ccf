"""Start what waits in the queue while a server runs, even if every worker was killed and no client asks."""

from __future__ import annotations

import threading

from understudy.api import error_answers
from understudy.model.errors import UnderstudyError

FIRST_SECONDS = 1.0
"""The first look waits until the server has answered its client."""
LOOK_SECONDS = 10.0
"""Workers that end and frontends that follow a delegation start the next one at once; this is for lost ones."""


def watch() -> None:
    """Serve the queue in a thread of this process: soon, and then every ten seconds."""
    threading.Thread(target=_watch, name="queue", daemon=True).start()


def _watch() -> None:
    pause = threading.Event()
    pause.wait(FIRST_SECONDS)
    from understudy.engine.queueing import launcher
    from understudy.journal import delegation_folder

    while True:
        try:
            launcher.start_waiting(delegation_folder.state_root())
        except UnderstudyError:
            pass  # a full disk or a state folder that cannot be used: every request reports it
        except Exception as error:
            error_answers.internal_error("queue", error)
        pause.wait(LOOK_SECONDS)
