"""``understudy worker <id> <lock> [--slot=<fd>] [--check]``: the process that owns one run.

It is started with the delegation's lock already held (the descriptor's number is an argument), is nobody's
child, and ends with exactly one ``finished`` event, or with ``queued``. Whatever happens to it, whoever looks
at the folder next finds the lock free and writes the end (``journal.recover``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from understudy.engine import queue
from understudy.engine.run import Run
from understudy.journal import store
from understudy.model.errors import UnderstudyError


def main(argv: list[str]) -> int:
    """Run the delegation named by ``argv``; return the process's exit code (0: it has an end, or is queued)."""
    identifier, lock = argv[0], int(argv[1])
    os.set_inheritable(lock, False)
    slot = None
    for option in argv[2:]:
        if option.startswith("--slot="):
            slot = int(option.removeprefix("--slot="))
            os.set_inheritable(slot, False)
    os.umask(0o077)
    folder = store.open_folder(identifier)
    spec = store.read_spec(folder)
    run = Run(folder, spec, lock, slot)
    asyncio.run(run.live(only_check="--check" in argv))
    queue.start_next(run.root)
    _tidy(run.root)
    return 0


def _tidy(state: Path) -> None:
    """Keep order among the trees, now that nobody waits for this process."""
    from understudy import config  # noqa: PLC0415 - after the work
    from understudy.engine import housekeeping  # noqa: PLC0415

    kept = config.load(None, trusted=False).worktrees
    with contextlib.suppress(UnderstudyError, OSError):
        housekeeping.tidy(state, keep_days=kept.keep_days, keep_bytes=kept.keep_bytes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
