"""Create a delegation: its folder, and a worker or an entry in the queue. Takes a few milliseconds."""

from __future__ import annotations

import os

import msgspec

from understudy.engine.checkout_runs import checkout_claim
from understudy.engine.planning.plan import Plan
from understudy.engine.queueing import launcher
from understudy.git import repository
from understudy.journal import delegation_folder, groups
from understudy.model.delegation.delegations import AskedBy
from understudy.model.delegation.spec import Origin, Spec
from understudy.process.failpoints import failpoint


def start_child(plan: Plan, created_at: str, asked_by: AskedBy, origin: Origin | None, group_id: str) -> str:
    """Create a delegation that the agent of another one asked for, and start its worker at once, without a slot.

    Its base is that of ``origin``, else what the user sees now.
    """

    def build(identifier: str) -> Spec:
        spec = plan.spec(identifier, created_at, asked_by, group_id)
        return msgspec.structs.replace(spec, origin=origin if launcher.needs_worktree(spec) else None)

    folder, lock = delegation_folder.create(build, plan.buffer_files())
    try:
        groups.add(group_id, folder.id)
        launcher.spawn_worker(folder, lock)
    finally:
        os.close(lock)
    return folder.id


def start_delegation(plan: Plan, created_at: str, asked_by: AskedBy, key: str | None = None) -> str:
    """Create the delegation's folder, start its worker or let it wait for a slot; return the id.

    The folder is locked before it becomes visible, and the lock is passed on to the worker by descriptor, so no process
    sees this delegation without a holder or an entry in the queue. The worker survives its caller: it is not a child of
    any process that may exit.
    With an idempotency ``key`` that was used before, return the delegation that was started with it.
    """

    def build(identifier: str) -> Spec:  # called for a new delegation only, not for a key that was used before
        if plan.in_checkout:
            checkout_claim.refuse_if_taken(repository.locate(plan.workspace).top)
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
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise
    if lock is not None:
        launcher.submit(folder, lock)
    return folder.id
