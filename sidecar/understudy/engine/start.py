"""The click: a folder with a spec, and a worker that holds its lock. A few milliseconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from understudy.engine.resolve import Plan
from understudy.journal import store
from understudy.model.spec import Spec
from understudy.process import detach


def begin(plan: Plan, created_at: str, key: str | None = None) -> str:
    """Make the delegation's folder and start its worker; return the id.

    The lock is taken before the folder can be seen and handed over by descriptor, so nobody ever sees this
    delegation without a holder. Whoever asked may be killed from here on: the worker is nobody's child.
    With an idempotency ``key``, the delegation that was begun with it before is returned instead.
    """

    def build(identifier: str) -> Spec:
        return plan.spec(identifier, created_at)

    lock: int | None
    if key is None:
        folder, lock = store.create(build, plan.buffer_files())
    else:
        folder, lock = store.create_once(key, build, plan.buffer_files())
    if lock is not None:
        try:
            spawn_worker(folder, lock)
        finally:
            os.close(lock)
    return folder.id


def spawn_worker(folder: store.Folder, lock: int, *, slot: int | None = None, only_check: bool = False) -> None:
    """Start ``understudy worker`` for a folder whose lock is held, and hand the lock (and a slot) to it."""
    argv = [sys.executable, "-P", "-m", "understudy", "worker", folder.id, str(lock)]
    descriptors = [lock]
    if slot is not None:
        argv.append(f"--slot={slot}")
        descriptors.append(slot)
    if only_check:
        argv.append("--check")
    # The worker is Understudy itself: it needs the asker's whole environment to resolve keys by name.
    # What it starts gets an environment made from an allow-list.
    environment = dict(os.environ) | {"UNDERSTUDY_STATE": str(store.state_root())}
    detach.start_detached(
        argv, env=environment, cwd=Path("/"), pass_fds=tuple(descriptors), log=folder.path / "worker.log"
    )
