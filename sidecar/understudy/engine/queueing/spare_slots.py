"""Slots that a running delegation takes beside its own while no other delegation waits for one."""

from __future__ import annotations

from pathlib import Path

from understudy.engine.queueing import launcher, queue_entries
from understudy.engine.queueing.slots import Slot, take_slot


class SpareSlot:
    """A slot that a delegation holds beside its own, as long as no other delegation waits for one."""

    def __init__(self, root: Path, slot: Slot) -> None:
        """Hold what ``take_slot`` returned."""
        self._root = root
        self._slot: Slot | None = slot

    @property
    def wanted(self) -> bool:
        """Return whether a delegation waits."""
        return bool(queue_entries.waiting(self._root))

    def close(self) -> None:
        """Free it and start what waits; do nothing if it is free."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.close()
            launcher.serve(self._root)


def spare_slot(root: Path, slots: int) -> SpareSlot | None:
    """Return a free slot if there is one and no delegation waits for it."""
    if queue_entries.waiting(root) or (slot := take_slot(root, slots)) is None:
        return None
    spare = SpareSlot(root, slot)
    if spare.wanted:
        # It was added meanwhile, and its start found this slot taken.
        spare.close()
        return None
    return spare
