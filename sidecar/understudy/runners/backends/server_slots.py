"""How many requests a model server gets at once, from all processes of this user together.

A slot is a file under ``<state>/server-slots`` that is locked while a request runs. The kernel frees it when the
process ends, in any way. Host and port identify a server, not its name: two entries may mean the same server.
"""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from urllib.parse import urlsplit

from understudy.files import durable, locks
from understudy.journal import state_folder
from understudy.model.config.delegators import ModelServer

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
        descriptor = locks.try_lock(folder / str(number))
        if descriptor is not None:
            return Slot(descriptor)
    return None


def pause() -> float:
    """Return how long to wait before the next look, in seconds; spread, so that those who wait take turns."""
    return POLL_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311


def _folder(server: ModelServer) -> Path:
    parts = urlsplit(server.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    place = f"{(parts.hostname or '').lower()}:{port}"
    return state_folder.state_root() / "server-slots" / hashlib.sha256(place.encode()).hexdigest()[:16]
