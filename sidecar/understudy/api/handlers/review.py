"""Review requests: diff, evidence, decide, undo, amend, reply, retry, answer, export, and worktrees on disk."""

from __future__ import annotations

from pathlib import Path

from understudy.api import messages, review_messages
from understudy.api.caller import Caller
from understudy.api.handlers.delegations import folder_of, head_of
from understudy.engine.running.supervision import current
from understudy.engine.worktrees.worktree_record import load_record
from understudy.git import diff as git_diff
from understudy.journal import change_notifications, delegation_folder, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation.delegations import PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import MutantStatus
from understudy.model.text import path_quoting
from understudy.model.wire import timestamp


def diff(caller: Caller, params: messages.IdParams) -> messages.DiffResult:
    """Return the result as files and hunks."""
    from understudy.engine.review import earlier_rejections, review_state

    folder = folder_of(params.id)
    delegation = current(folder)
    record, objects = load_record(folder)
    head = head_of(delegation)
    decisions = review_state.read(folder)
    files = decisions.on(git_diff.file_diffs(objects, record.base_commit, head))
    return messages.DiffResult(
        base=record.base_commit,
        head=head,
        files=earlier_rejections.marked(folder, files, earlier_rejections.DiffTexts(objects, record.base_commit, head)),
        undoable=[
            messages.UndoableAccept(undo_token=event.undo_token, paths=event.paths)
            for event in reversed(decisions.applied.values())
            if event is not None
        ],
        edited=[
            messages.EditedFile(path=path, at=at, undoable=path in decisions.edits)
            for path, at in reversed(decisions.edited_at.items())
        ],
    )


def decide(caller: Caller, params: review_messages.DecideParams) -> review_messages.DecideResult:
    """Accept hunks, merging them into the user's current files and buffers, or reject them with a reason."""
    from understudy.engine.review import decisions

    requests = [
        decisions.DecisionRequest(
            decision.path, decision.hunk, decision.decision, decision.reason, decision.merged_manually
        )
        for decision in params.decisions
    ]
    folder = folder_of(params.id)
    current(folder)
    outcome = decisions.decide(
        folder,
        requests,
        by=caller.name,
        documents=caller.documents(),
        flagged=params.include_flagged,
        editor=caller.editor(),
    )
    return review_messages.DecideResult(
        hunks=[hunk for file in outcome.files for hunk in file.hunks],
        decided=outcome.decided,
        conflicts=[
            review_messages.Conflict(
                path=path_quoting.quote(conflict.path),
                hunk=conflict.hunk,
                base=_text(conflict.base),
                result=_text(conflict.result),
                yours=_text(conflict.yours),
                blocked=conflict.blocked,
            )
            for conflict in outcome.conflicts
        ],
        undo_token=outcome.undo_token,
    )


def undo(caller: Caller, params: review_messages.UndoParams) -> messages.EmptyResult:
    """Undo an accept; keep later edits."""
    from understudy.engine.review import decisions

    decisions.undo(
        params.undo_token,
        only=params.hunks,
        by=caller.name,
        documents=caller.documents(),
        editor=caller.editor(),
    )
    return messages.EmptyResult()


def amend(caller: Caller, params: review_messages.AmendParams) -> review_messages.AmendResult:
    """Edit a file of the result; it is split into hunks again."""
    from understudy.engine.review import amend as amending

    head, hunks = amending.amend(folder_of(params.id), params.path, params.text, params.head)
    return review_messages.AmendResult(head=head, hunks=hunks)


def drop(caller: Caller, params: review_messages.DropParams) -> review_messages.DropResult:
    """Remove new tests that notice nothing from the result; amending the file restores them."""
    from understudy.engine.review import amend

    outcome = amend.drop(folder_of(params.id), params.tests)
    kept = [review_messages.KeptTest(test=test, why=why) for test, why in outcome.kept.items()]
    return review_messages.DropResult(head=outcome.head, dropped=outcome.dropped, files=outcome.files, kept=kept)


def undo_amend(caller: Caller, params: review_messages.UndoAmendParams) -> review_messages.AmendResult:
    """Undo the last edit of a file of the result; the decisions on it are as before the edit."""
    from understudy.engine.review import amend as amending

    head, hunks = amending.undo_amend(folder_of(params.id), params.path, params.head)
    return review_messages.AmendResult(head=head, hunks=hunks)


def reply(caller: Caller, params: review_messages.ReplyParams) -> review_messages.StartedResult:
    """Send a result back with instructions: a new delegation in the same worktree and tool session."""
    from understudy.engine.follow_ups import follow_up

    folder = folder_of(params.id)
    identifier = follow_up.reply(folder, params.text, caller.documents(), timestamp(), caller.asked_by())
    return review_messages.StartedResult(id=identifier)


def strengthen(caller: Caller, params: review_messages.StrengthenParams) -> review_messages.StartedResult:
    """Send a result back for tests that notice the small changes of the code that no test noticed."""
    from understudy.engine.follow_ups import follow_up

    folder = folder_of(params.id)
    current(folder)
    identifier = follow_up.strengthen(folder, params.rounds, caller.documents(), timestamp(), caller.asked_by())
    return review_messages.StartedResult(id=identifier)


def retry(caller: Caller, params: review_messages.RetryParams) -> review_messages.StartedResult:
    """Run a delegation again from its original base, optionally with another delegator."""
    from understudy.engine.follow_ups import follow_up

    folder = folder_of(params.id)
    current(folder)
    return review_messages.StartedResult(
        id=follow_up.retry(
            folder, params.delegator, timestamp(), caller.asked_by(), params.launch, compare=params.compare
        )
    )


def answer(caller: Caller, params: review_messages.AnswerParams) -> messages.EmptyResult:
    """Answer a permission request of an agent; the first valid answer counts, a second one is a conflict."""
    from understudy.engine.running import user_requests

    folder = folder_of(params.id)
    request = user_requests.open_question(current(folder).waiting_for, params.request_id, folder.id)
    if params.remember:
        _remember(folder, request, params.option)
    answer = worker_files.Answer(
        request_id=params.request_id,
        option=params.option,
        note=params.note,
        remember=params.remember,
        by=caller.name,
    )
    worker_files.append_answer(folder, answer, request)
    return messages.EmptyResult()


def say(caller: Caller, params: review_messages.SayParams) -> review_messages.SayResult:
    """Say something to the agent of a delegation in progress; what it does not get goes along with the next reply."""
    from understudy.engine.running.attempts import agent_conversation

    folder = folder_of(params.id)
    message_id, delivery = agent_conversation.say(folder, current(folder), params.text, by=caller.name)
    return review_messages.SayResult(message_id=message_id, delivery=delivery)


def _remember(folder: Folder, request: PermissionRequest, option: str) -> None:
    """Add the rule of ``request`` to its delegator; raise ``invalid_params`` for a request that allows none."""
    from understudy.api.handlers import configuration
    from understudy.config.editing.edit import Editor

    allowed = any(offered.id == option and offered.kind.startswith("allow") for offered in request.options)
    if request.rule is None or not allowed:
        why = "a rule for it would not be safe" if allowed else "only an answer that allows can be remembered"
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"The answer cannot be remembered: {why}.", hint="Answer without `remember`."
        )
    delegation = current(folder)
    workspace = Path(delegation.workspace)
    editor = Editor(workspace if workspace.is_dir() else None, state=delegation_folder.state_root())
    editor.add_rule(delegation.attempts[-1].delegator, request.rule)
    change_notifications.notify(configuration.CHANGED)


def export(caller: Caller, params: review_messages.ExportParams) -> review_messages.ExportResult:
    """Export a result, without rejected hunks, as a branch, commit or patch."""
    from understudy.engine.review import review_state

    folder = folder_of(params.id)
    current(folder)
    if params.to == "branch" and not params.branch:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, "`branch` is missing.", hint="Set `branch` to the name of the new branch."
        )
    if params.to == "patch":
        return review_messages.ExportResult(patch=review_state.result_patch(folder))
    exported = review_state.commit_result(folder, params.message, params.branch if params.to == "branch" else None)
    return review_messages.ExportResult(branch=params.branch if params.to == "branch" else None, commit=exported.commit)


def commit(caller: Caller, params: review_messages.CommitParams) -> review_messages.CommitResult:
    """Commit exactly the accepted files of a result, with the evidence in the message; what else is changed stays.

    The user's own git does it, with their hooks and signature: only in a trusted workspace.
    """
    from understudy.engine.review import commit as committing

    folder = folder_of(params.id)
    outcome = committing.commit(folder, params.message, caller.documents(), dry_run=params.dry_run)
    return review_messages.CommitResult(
        message=outcome.message, files=outcome.files, mixed=outcome.mixed, commit=outcome.commit
    )


def dismiss(caller: Caller, params: messages.IdParams) -> messages.EmptyResult:
    """Record that a finished run no longer needs the user's attention, until its checks run again."""
    from understudy.engine.review import decision_recovery

    decision_recovery.dismiss(folder_of(params.id), caller.name)
    return messages.EmptyResult()


def discard(caller: Caller, params: messages.IdParams) -> review_messages.RescueResult:
    """Discard a result and its worktree; the rescue ref restores it byte for byte."""
    from understudy.engine.retention.discard import discard as discard_worktree

    folder = folder_of(params.id)
    current(folder)
    return review_messages.RescueResult(rescue_ref=discard_worktree(folder))


def worktrees(caller: Caller, params: messages.NoParams) -> review_messages.WorktreesResult:
    """List the worktrees on disk with their owners."""
    from understudy.config.loading import loader
    from understudy.engine.retention import retained_files

    keep_days = loader.load(None, trusted=False).worktrees.keep_days
    return review_messages.WorktreesResult(
        worktrees=[
            review_messages.WorktreeEntry(
                id=place.id,
                path=str(place.tree),
                repo=place.delegation.workspace if place.delegation is not None else place.root.parent.name,
                bytes=retained_files.size_of(place.root),
                state=place.state,
                owner=place.chain[-1] if place.delegation is not None else None,
            )
            for place in retained_files.list_worktrees(delegation_folder.state_root(), keep_days)
        ],
        rescues=[
            review_messages.RescueEntry(
                rescue_ref=rescued.ref,
                path=str(rescued.path),
                repo=str(rescued.top),
                at=timestamp(rescued.time, "seconds"),
                notes=rescued.notes,
            )
            for rescued in retained_files.rescues(delegation_folder.state_root())
        ],
    )


def remove_worktree(caller: Caller, params: messages.IdParams) -> review_messages.RescueResult:
    """Remove a worktree by its ID in the list; the rescue ref restores it."""
    from understudy.engine.retention import discard

    return review_messages.RescueResult(rescue_ref=discard.remove(params.id))


def restore_worktree(caller: Caller, params: review_messages.RestoreParams) -> review_messages.RestoreResult:
    """Restore a removed worktree at its path."""
    from understudy.engine.retention import discard

    return review_messages.RestoreResult(path=str(discard.restore(params.rescue_ref)))


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def page(caller: Caller, params: messages.IdParams) -> messages.EvidenceResult:
    """Return everything that was looked at to judge a result, as one page with commands to repeat it."""
    from understudy.judge import check_findings
    from understudy.reports.evidence_page import evidence_page

    folder = folder_of(params.id)
    return messages.EvidenceResult(markdown=evidence_page(current(folder), check_findings.read_record(folder.path)))


def dismiss_mutants(caller: Caller, params: messages.DismissParams) -> messages.EmptyResult:
    """Leave out mutants that no test can notice from later judgements in this workspace.

    Errors: ``invalid_params``.
    """
    from understudy.judge.mutation import planning

    delegation = current(folder_of(params.id))
    survived = {
        mutant.id
        for check in delegation.checks
        if check.mutation is not None
        for mutant in check.mutation.mutants
        if mutant.status is MutantStatus.SURVIVED
    }
    unknown = [mutant for mutant in params.mutants if mutant not in survived]
    if unknown or not params.mutants:
        named = ", ".join(unknown[:5])
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"No change that the tests missed has the id {named}." if named else "No change is named.",
            hint=f"The card lists the ids: understudy show {delegation.id}",
        )
    planning.dismiss(delegation_folder.state_root(), delegation.workspace, params.mutants)
    return messages.EmptyResult()
