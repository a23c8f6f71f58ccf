"""The worker process: ``understudy worker <id> <lock> [--slot=<number>:<fd>] [--check]`` runs one delegation.

It inherits the delegation's lock as a descriptor, whose number is an argument, and is detached from its parent. It
writes exactly one ``finished`` event. If it dies, the next process that reads the folder finds the lock free and writes
the end (``journal.writing.dead_workers``), or starts another worker if this one had not written ``started``.

While others wait for a slot, a worker that has ended its delegation runs the next one in its slot: starting Python and
reading the modules again would take longer than everything else that Understudy does for a delegation.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from understudy.journal import delegation_folder
from understudy.journal.delegation_folder import Folder
from understudy.model.errors import UnderstudyError

MOST_RUNS = 32
"""The most delegations in one process, one after another: what the first ones left in memory goes with it."""


TIDY_EVERY_SECONDS = 60.0
"""Looking for expired files reads the summary of every delegation: not for each of a thousand short ones."""


def main(argv: list[str]) -> int:
    """Run what ``argv`` says; return the process's exit code."""
    if len(argv) == 1:
        from understudy.engine.check_setup import check_trial
        from understudy.engine.running import connection_test

        workers = {connection_test.OPTION: connection_test.run_worker, check_trial.OPTION: check_trial.run_worker}
        return workers[argv[0]]()
    # Imported late: a process that records bases needs no checks.
    from understudy.engine.queueing import launcher

    os.umask(0o077)
    root = delegation_folder.state_root()
    if argv[0] == "--record-bases":
        from understudy.engine.bases import base_recorder

        base_recorder.record_all(root, _inherited(argv[1]))
        return 0
    if argv[0] == "--hold-keys":
        from understudy.engine.queueing import start_conditions

        start_conditions.hold_keys(root, argv[1], _inherited(argv[2]), lambda: launcher.start_waiting(root))
        return 0
    if argv[0] == "--timer":
        launcher.serve_moments(root, _inherited(argv[1]))
        return 0
    from understudy.engine.queueing.start_conditions import Slot
    from understudy.engine.running import notifier

    slot = None
    for option in argv[2:]:
        if option.startswith("--slot="):
            number, _, descriptor = option.removeprefix("--slot=").partition(":")
            slot = Slot(int(number), _inherited(descriptor))
    try:
        _run(delegation_folder.open_folder(argv[0]), _inherited(argv[1]), only_check="--check" in argv)
        for _ in range(MOST_RUNS - 1):
            claim = launcher.next_for(root, slot) if slot is not None else None
            if claim is None:
                break
            _log_to(claim.folder)
            _run(claim.folder, claim.lock)
    finally:
        if slot is not None:
            slot.close()
        launcher.start_waiting(root)
        notifier.finish(root)
    _tidy(root)
    return 0


def _run(folder: Folder, lock: int, *, only_check: bool = False) -> None:
    from understudy.engine.running.lifecycle.delegation_run import DelegationRun

    spec = delegation_folder.read_spec(folder)
    asyncio.run(DelegationRun(folder, spec, lock, only_check=only_check).run())


def _inherited(number: str) -> int:
    """Return a descriptor that this process inherited; its own children do not."""
    descriptor = int(number)
    os.set_inheritable(descriptor, False)
    return descriptor


def _log_to(folder: Folder) -> None:
    """Write what this process prints to the log of another delegation."""
    with contextlib.suppress(OSError):
        log = os.open(folder.path / "worker.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)


def _tidy(state: Path) -> None:
    """Remove expired files, now that no client waits for this process, unless another one has just begun to."""
    from understudy.config.loading import loader
    from understudy.engine.bases import base_recorder
    from understudy.engine.retention import discard

    with contextlib.suppress(UnderstudyError, OSError):
        base_recorder.tidy(state)
    stamp = state / "tidied"
    with contextlib.suppress(OSError):
        if stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < TIDY_EVERY_SECONDS:
            return
        stamp.touch(mode=0o600)
    loaded = loader.load(None, trusted=False)
    kept = loaded.worktrees
    with contextlib.suppress(UnderstudyError, OSError):
        discard.expire(state, keep_days=kept.keep_days, keep_bytes=kept.keep_bytes, files=loaded.retention)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
