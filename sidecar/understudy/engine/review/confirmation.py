"""Let the user's accepts confirm changed tests: the only reservation then no longer holds."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.hunks import FileDiff, HunkState
from understudy.model.verdicts import Reservation, Verdict


def update(writer: Writer, files: Iterable[FileDiff]) -> None:
    """Write to the journal that all changed tests are confirmed, or no longer are, if that has changed.

    They are confirmed while every hunk of the tests that the question is about is accepted. ``files`` are the changed
    files of the result with the state of their hunks.
    """
    delegation = writer.delegation
    asked = delegation.verdict is Verdict.UNVERIFIED and delegation.reservations == [Reservation.TESTS_CHANGED]
    if not asked and not delegation.confirmed_tests:
        return
    compared = [check.base for check in delegation.checks if check.base is not None and check.required]
    tests = {path for base in compared for path in base.restored}
    hunks = [hunk for file in files if file.path in tests for hunk in file.hunks]
    confirmed = bool(hunks) and all(hunk.state is HunkState.ACCEPTED for hunk in hunks)
    if confirmed != bool(delegation.confirmed_tests):
        count = max(1, sum(base.lost for base in compared)) if confirmed else 0
        writer.append(events.Confirmed(tests=count), attempt=0)
