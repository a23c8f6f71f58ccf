"""Create delegations, alone or as a group: folders, and workers or entries in the queue. One takes milliseconds."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config.validation import delegator_rules
from understudy.engine.bases import base_recorder
from understudy.engine.checkout_runs import checkout_worktree
from understudy.engine.queueing import launcher, start_conditions
from understudy.files.durable import failpoint
from understudy.git import repository
from understudy.journal import delegation_folder, groups
from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import AskedBy, Group, GroupBudget, GroupKind
from understudy.model.delegation.spec import Origin, Spec
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.engine.planning.plan import Plan

MAX_TASKS = 200
"""The most tasks of one request: each holds a lock, and so a file descriptor, until all are created."""
_BaseKey = tuple[str, str, tuple[tuple[str, bytes], ...]]


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
        if plan.draft.in_checkout:
            checkout_worktree.refuse_if_taken(repository.locate(Path(plan.draft.workspace)).top)
        return plan.spec(identifier, created_at, asked_by)

    wait_for_a_candidate(plan)
    if plan.draft.params.group_id is not None:
        groups.read(plan.draft.params.group_id)
    lock: int | None
    if key is None:
        folder, lock = delegation_folder.create(build, plan.buffer_files())
    else:
        folder, lock = delegation_folder.create_once(key, build, plan.buffer_files())
    try:
        # With a key, an earlier start may have died between the folder and the group.
        group = plan.draft.params.group_id if lock is not None else delegation_folder.read_spec(folder).group_id
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


def require_budget(budget: GroupBudget | None) -> None:
    """Raise ``invalid_params`` for an invalid budget."""
    if budget is not None:
        for finding in delegator_rules.check_limits(Limits(max_tokens=budget.max_tokens, max_usd=budget.max_usd)):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The budget of the group: {finding.message}",
                hint=finding.hint,
                parameter="budget",
            )


def start_group(
    plans: Sequence[Plan],
    kind: GroupKind,
    created_at: str,
    asked_by: AskedBy,
    budget: GroupBudget | None,
    *,
    key: str | None = None,
    after: Sequence[Sequence[int]] | None = None,
) -> Group:
    """Create a group and its delegations, in order, and start their workers or let them wait; return the group.

    ``after`` has, for each plan, the numbers of the plans that must succeed before it starts, without cycles.

    Delegations of one workspace, kind of base and set of unsaved texts begin with the same commit, which is made before
    the first of them exists. If this process is killed before it started all of them, the others end as interrupted.
    With an idempotency ``key`` that was used before, return the group that was started with it.
    """
    root = delegation_folder.state_root()
    for plan in plans:
        wait_for_a_candidate(plan)
    with contextlib.ExitStack() as stack:
        earlier = stack.enter_context(groups.once(key))
        if earlier is not None:
            return earlier
        bases: dict[_BaseKey, tuple[Callable[[Sequence[str]], None], list[str]]] = {}
        for plan in plans:
            base = _base_of(plan)
            if base is not None and base not in bases:
                texts: dict[str | bytes, bytes] = {os.fsencode(path): text for path, text in plan.buffers.items()}
                capture = base_recorder.captured(root, Path(plan.draft.workspace), base[1], texts)
                bases[base] = stack.enter_context(capture), []
        group = groups.create(kind, asked_by, created_at, budget)
        claims: list[launcher.Claim] = []
        same_task = Counter((plan.title, plan.draft.candidates[0].delegator.name) for plan in plans)
        # Those that refer to each other need ids before the first of them exists.
        ids = delegation_folder.new_ids(len(plans)) if after is not None and any(after) else []
        try:
            for number, plan in enumerate(plans):
                others = [ids[other] for other in after[number]] if after is not None and ids else []

                def build(identifier: str, plan: Plan = plan, others: list[str] = others) -> Spec:
                    task = plan.title, plan.draft.candidates[0].delegator.name
                    spec = plan.spec(identifier, created_at, asked_by, group.id, with_files=same_task[task] > 1)
                    return msgspec.structs.replace(spec, after=others)

                identifier = ids[number] if ids else None
                folder, lock = delegation_folder.create(build, plan.buffer_files(), identifier=identifier)
                claims.append(launcher.Claim(folder, lock))
                base = _base_of(plan)
                if base is not None:
                    bases[base][1].append(folder.id)
            groups.add(group.id, *(claim.folder.id for claim in claims))
            if key is not None:
                groups.claim(key, group)
            for publish, members in bases.values():
                publish(members)
            failpoint("group created")
            # A task is held only because of others that are in the queue.
            if ids and after is not None:
                claims[:] = [claims[number] for number in start_conditions.submission_order(after)]
            while claims:
                claim = claims.pop(0)
                launcher.submit(claim.folder, claim.lock)
        finally:
            for claim in claims:
                os.close(claim.lock)
        return groups.read(group.id)


def wait_for_a_candidate(plan: Plan) -> None:
    """Let a delegation wait for the end of the first pause, if it may and all that can do it are paused."""
    if plan.waits:
        draft = plan.draft
        draft.start_at = start_conditions.end_of_first_pause(delegation_folder.state_root(), draft.candidates)
        if draft.start_at is not None:
            draft.explain.reason += f"; all that can do it are paused, so it waits until {draft.start_at}"


def _base_of(plan: Plan) -> _BaseKey | None:
    """Return what plans with the same base have in common: workspace, kind and unsaved texts; None without a base."""
    if not launcher.needs_worktree(plan.draft):
        return None
    return plan.draft.workspace, plan.draft.params.base or "current", tuple(sorted(plan.buffers.items()))
