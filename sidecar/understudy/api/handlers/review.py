"""Requests of review: look at hunks, decide, undo, amend, go on, answer, export, and the trees on disk."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from understudy.api import messages as m
from understudy.api import review_messages as r
from understudy.api.caller import Caller, editor_of
from understudy.api.delegations import _current as current
from understudy.api.delegations import _folder as folder_of
from understudy.api.delegations import _head as head_of
from understudy.journal import control, store
from understudy.model.errors import ErrorKind, UnderstudyError


def diff(caller: Caller, params: m.IdParams) -> m.DiffResult:
    """Return what changed, as files and hunks with the decision on each."""
    from understudy.engine import ground, standing  # noqa: PLC0415 - reading commands do not need all of the engine

    _ = caller
    folder = folder_of(params.id)
    delegation = current(folder)
    record, objects = ground.load(folder)
    head = head_of(delegation)
    return m.DiffResult(
        base=record.base_commit, head=head, files=standing.files_of(folder, objects, record.base_commit, head)
    )


def decide(caller: Caller, params: r.DecideParams) -> r.DecideResult:
    """Record decisions; accepted hunks are merged into what the person sees now."""
    from understudy.engine import review  # noqa: PLC0415 - as above
    from understudy.git import names  # noqa: PLC0415

    wishes = [
        review.Wish(one.path, one.hunk, one.decision == "accept", one.reason, one.by_hand) for one in params.decisions
    ]
    done = review.decide(
        folder_of(params.id),
        wishes,
        by=caller.name,
        documents=caller.documents(),
        flagged=params.flagged,
        editor=editor_of(caller),
    )
    return r.DecideResult(
        hunks=[hunk for file in done.files for hunk in file.hunks],
        moved=done.moved,
        conflicts=[
            r.Conflict(
                path=names.quote(one.path),
                hunk=one.hunk,
                base=_text(one.base),
                result=_text(one.result),
                yours=_text(one.yours),
                in_the_way=one.in_the_way,
            )
            for one in done.conflicts
        ],
        undo_token=done.undo_token,
    )


def undo(caller: Caller, params: r.UndoParams) -> m.Done:
    """Take an accept back; later edits stay."""
    from understudy.engine import review  # noqa: PLC0415 - as above

    review.undo(params.undo_token, by=caller.name, documents=caller.documents(), editor=editor_of(caller))
    return m.Done()


def amend(caller: Caller, params: r.AmendParams) -> r.AmendResult:
    """Replace a file on the result side by hand."""
    from understudy.engine import amending  # noqa: PLC0415 - as above

    _ = caller
    head, hunks = amending.amend(folder_of(params.id), params.path, params.text, params.head)
    return r.AmendResult(head=head, hunks=hunks)


def reply(caller: Caller, params: r.ReplyParams) -> r.StartedResult:
    """Send a result back with words."""
    from understudy.engine import followup  # noqa: PLC0415 - as above

    return r.StartedResult(id=followup.reply(folder_of(params.id), params.text, caller.documents(), _now()))


def retry(caller: Caller, params: r.RetryParams) -> r.StartedResult:
    """Try again from the original base."""
    from understudy.engine import followup  # noqa: PLC0415 - as above

    _ = caller
    folder = folder_of(params.id)
    current(folder)
    return r.StartedResult(id=followup.retry(folder, params.delegator, _now()))


def answer(caller: Caller, params: r.AnswerParams) -> m.Done:
    """Answer a question of an agent; the first valid answer counts."""
    from understudy.engine import questions  # noqa: PLC0415 - as above

    folder = folder_of(params.id)
    request = questions.open_question(current(folder).waiting_for, params.request_id, folder.id)
    given = control.Answer(request_id=params.request_id, option=params.option, note=params.note, by=caller.name)
    control.append_answer(folder, given, request)
    return m.Done()


def export(caller: Caller, params: r.ExportParams) -> r.ExportResult:
    """Take a result, without what was rejected, out as a branch, a commit or a patch."""
    from understudy.engine import exporting  # noqa: PLC0415 - as above

    _ = caller
    folder = folder_of(params.id)
    current(folder)
    if params.to == "branch" and not params.branch:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, "No branch is named.", hint="Give `branch`.")
    if params.to == "patch":
        return r.ExportResult(patch=exporting.patch(folder))
    done = exporting.commit(folder, params.message, params.branch if params.to == "branch" else None)
    return r.ExportResult(branch=params.branch if params.to == "branch" else None, commit=done.commit)


def discard(caller: Caller, params: m.IdParams) -> r.RescueResult:
    """Take the tree of a result away; the rescue ref brings it back."""
    from understudy.engine import housekeeping  # noqa: PLC0415 - as above

    _ = caller
    folder = folder_of(params.id)
    current(folder)
    return r.RescueResult(rescue_ref=housekeeping.discard(folder))


def worktrees(caller: Caller, params: m.Nothing) -> r.WorktreesResult:
    """Return every tree on disk."""
    from understudy import config  # noqa: PLC0415 - as above
    from understudy.engine import housekeeping  # noqa: PLC0415

    _ = caller, params
    keep_days = config.load(None, trusted=False).worktrees.keep_days
    return r.WorktreesResult(
        worktrees=[
            r.WorktreeEntry(
                id=place.id,
                path=str(place.tree),
                repo=place.delegation.workspace if place.delegation is not None else place.root.parent.name,
                bytes=housekeeping.size_of(place.root),
                state=place.state,
                leased_by=place.chain[-1] if place.delegation is not None else None,
            )
            for place in housekeeping.places(store.state_root(), keep_days)
        ],
        rescues=[
            r.RescueEntry(
                rescue_ref=one.ref,
                path=str(one.path),
                repo=str(one.top),
                at=_moment(one.time, "seconds"),
                notes=one.notes,
            )
            for one in housekeeping.rescues(store.state_root())
        ],
    )


def remove_worktree(caller: Caller, params: m.IdParams) -> r.RescueResult:
    """Take a tree away by its id in the list."""
    from understudy.engine import housekeeping  # noqa: PLC0415 - as above

    _ = caller
    return r.RescueResult(rescue_ref=housekeeping.remove(params.id))


def restore_worktree(caller: Caller, params: r.RestoreParams) -> r.RestoreResult:
    """Bring a tree back."""
    from understudy.engine import housekeeping  # noqa: PLC0415 - as above

    _ = caller
    return r.RestoreResult(path=str(housekeeping.restore(params.rescue_ref)))


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def _now() -> str:
    return _moment(time.time(), "milliseconds")


def _moment(seconds: float, exactly: str) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=exactly).replace("+00:00", "Z")
