"""How many requests a model server gets at once, and when, from all processes of this user together.

A slot is a file under ``<state>/server-slots`` that is locked while a request runs. The kernel frees it when the
process ends, in any way. After the server refused a request because there were too many, none is sent before the pause
that it asked for is over: others would be refused as well, and make it longer. Host and port identify a server, not its
name: two entries may mean the same server.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import time
from pathlib import Path
from urllib.parse import urlsplit

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.model.config.delegators import ModelServer
from understudy.model.errors import UnderstudyError
from understudy.runners.backends.http.http_errors import MAX_WAIT_SECONDS

_UNTIL = "until"
POLL_SECONDS = 0.25
"""Between two looks for a free slot: nothing announces that another process has freed one."""


class Slot:
    """A slot that this process holds until ``free``."""

    def __init__(self, descriptor: int) -> None:
        """Hold the lock of an open file."""
        self._descriptor = descriptor

    def free(self) -> None:
        """Let another request have it; also twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take(server: ModelServer) -> Slot | None:
    """Return a free slot of ``server``, which has a limit; None when all are taken. Raises what ``durable`` raises."""
    folder = _folder(server)
    with durable.named_failures(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(max(1, server.max_concurrent or 1)):
        descriptor = durable.try_lock(folder / str(number))
        if descriptor is not None:
            return Slot(descriptor)
    return None


def pause() -> float:
    """Return how long to wait before the next look, in seconds; spread, so that those who wait take turns."""
    return POLL_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311


def spread(seconds: float) -> float:
    """Return a pause for one of many that wait for ``seconds``, so that they do not all begin at once."""
    return seconds * random.uniform(1.0, 1.2) + random.uniform(0.0, 0.2)  # noqa: S311


def hold(server: ModelServer, seconds: float) -> None:
    """Let no request to ``server`` begin for ``seconds``, in any process; a longer pause that was set before stays."""
    seconds = min(seconds, MAX_WAIT_SECONDS)
    if seconds <= held_seconds(server):
        return
    place = _folder(server) / _UNTIL
    with contextlib.suppress(OSError, UnderstudyError):  # then only this process waits
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.replace(place, f"{time.time() + seconds:.3f}".encode())


def held_seconds(server: ModelServer) -> float:
    """Return how long no request to ``server`` may begin."""
    try:
        until = float(durable.read_whole(_folder(server) / _UNTIL, 64))
    except (OSError, UnderstudyError, ValueError):
        return 0.0
    left = until - time.time()
    return left if 0 < left <= MAX_WAIT_SECONDS else 0.0


def _folder(server: ModelServer) -> Path:
    parts = urlsplit(server.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    place = f"{(parts.hostname or '').lower()}:{port}"
    return delegation_folder.state_root() / "server-slots" / hashlib.sha256(place.encode()).hexdigest()[:16]
