"""The worker process: ``understudy worker <id> <lock> [--slot=<fd>] [--check]`` runs one delegation.

It inherits the delegation's lock as a descriptor, whose number is an argument, and is detached from its parent. It
writes exactly one ``finished`` event, or ``queued``, and exits. If it dies, the next process that reads the folder
finds the lock free and writes the end (``journal.dead_workers``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from understudy.engine.running import connection_test
from understudy.journal import delegation_folder
from understudy.model.errors import UnderstudyError


def main(argv: list[str]) -> int:
    """Run the delegation named by ``argv``; return the process's exit code (0: finished or queued)."""
    if argv == ["--connection-test"]:
        return connection_test.serve()
    from understudy.engine.running import queue
    from understudy.engine.running.lifecycle import DelegationRun

    identifier, lock = argv[0], int(argv[1])
    os.set_inheritable(lock, False)
    slot = None
    for option in argv[2:]:
        if option.startswith("--slot="):
            slot = int(option.removeprefix("--slot="))
            os.set_inheritable(slot, False)
    os.umask(0o077)
    folder = delegation_folder.open_folder(identifier)
    spec = delegation_folder.read_spec(folder)
    run = DelegationRun(folder, spec, lock, slot)
    asyncio.run(run.run(only_check="--check" in argv))
    queue.start_next(run.root)
    _tidy(run.root)
    return 0


def _tidy(state: Path) -> None:
    """Remove expired files, now that no client waits for this process."""
    from understudy import config
    from understudy.engine.retention import expired_worktrees

    loaded = config.load(None, trusted=False)
    kept = loaded.worktrees
    with contextlib.suppress(UnderstudyError, OSError):
        expired_worktrees.expire(state, keep_days=kept.keep_days, keep_bytes=kept.keep_bytes, files=loaded.retention)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
