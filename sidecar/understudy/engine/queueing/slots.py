"""Slots: how many delegations run at once.

A slot is a file under ``<state>/slots`` that a worker keeps locked until it exits, so a killed worker frees it.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from understudy.files import durable


@dataclass
class Slot:
    """A slot that this process, or a worker it started, holds."""

    number: int
    """Counted from 0. A delegation that was configured with N slots takes one below N."""
    descriptor: int
    """Holds the lock; close-on-exec. -1: given up."""

    def close(self) -> None:
        """Give up this process's hold; a worker that inherited the descriptor keeps the slot."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def take_slot(root: Path, slots: int) -> Slot | None:
    """Return a free slot below ``slots``, None when all are taken. The lowest comes first.

    So a delegation that was started after the limit was lowered waits for those that run already. Raises the errors of
    ``durable.failure``.
    """
    folder = root / "slots"
    with durable.named_failures(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(max(1, slots)):
        with durable.named_failures(folder):
            descriptor = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return Slot(number, descriptor)
    return None
