"""Create a delegation: its folder, and a worker that holds its lock. Takes a few milliseconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from understudy.engine.planning.plan import Plan
from understudy.journal import delegation_folder, groups, state_folder
from understudy.model.delegations import AskedBy
from understudy.model.spec import Spec
from understudy.process import detached
from understudy.process.failpoints import failpoint


def start_delegation(plan: Plan, created_at: str, asked_by: AskedBy, key: str | None = None) -> str:
    """Create the delegation's folder and start its worker; return the id.

    The folder is locked before it becomes visible, and the lock is passed on by descriptor, so no process sees this
    delegation without a holder. The worker survives its caller: it is not a child of any process that may exit.
    With an idempotency ``key`` that was used before, return the delegation that was started with it.
    """

    def build(identifier: str) -> Spec:
        return plan.spec(identifier, created_at, asked_by)

    if plan.params.group_id is not None:
        groups.read(plan.params.group_id)
    lock: int | None
    if key is None:
        folder, lock = delegation_folder.create(build, plan.buffer_files())
    else:
        folder, lock = delegation_folder.create_once(key, build, plan.buffer_files())
    try:
        # With a key, an earlier start may have died between the folder and the group.
        group = plan.params.group_id if lock is not None else delegation_folder.read_spec(folder).group_id
        if group is not None:
            failpoint("before the group")
            groups.add(group, folder.id)
        if lock is not None:
            spawn_worker(folder, lock)
    finally:
        if lock is not None:
            os.close(lock)
    return folder.id


def spawn_worker(
    folder: delegation_folder.Folder, lock: int, *, slot: int | None = None, only_check: bool = False
) -> None:
    """Start ``understudy worker`` for a locked folder, and pass it the lock (and a slot)."""
    argv = [sys.executable, "-P", "-m", "understudy", "worker", folder.id, str(lock)]
    descriptors = [lock]
    if slot is not None:
        argv.append(f"--slot={slot}")
        descriptors.append(slot)
    if only_check:
        argv.append("--check")
    # The worker is Understudy itself: it needs the caller's whole environment to resolve keys by name.
    # Programs that it starts get an environment made from an allow-list.
    environment = dict(os.environ) | {"UNDERSTUDY_STATE": str(state_folder.state_root())}
    detached.start_detached(
        argv, env=environment, cwd=Path("/"), pass_fds=tuple(descriptors), log=folder.path / "worker.log"
    )
