"""What a worker does after its delegation has ended."""

from __future__ import annotations

import os

from understudy.engine.running.lifecycle import worker
from understudy.journal import delegation_folder


def test_expired_files_are_looked_for_once_a_minute_at_most():
    state = delegation_folder.state_root()
    (state / "trash" / "first").mkdir(parents=True)
    worker._tidy(state)
    assert not (state / "trash" / "first").exists()
    second = state / "trash" / "second"
    second.mkdir()
    worker._tidy(state)
    assert second.exists(), "another worker has just looked"
    then = (state / "tidied").stat().st_mtime - worker.TIDY_EVERY_SECONDS - 1
    os.utime(state / "tidied", (then, then))
    worker._tidy(state)
    assert not second.exists()
