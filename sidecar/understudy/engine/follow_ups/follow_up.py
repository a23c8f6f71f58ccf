"""Continue from a result: reply to it in the same worktree, retry from the same base, or run its checks again.

The base of a reply is what the user sees now, and its worktree is that base plus the pending hunks. So accepted hunks
are in the base, including the user's later edits, rejected hunks are gone, and pending hunks are under review
again; the prompt lists them. The reply takes over the parent's pending hunks (``superseded``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from understudy.config.trust import records
from understudy.engine.checkout_runs import checkout_worktree
from understudy.engine.planning import delegator_choice, prompt
from understudy.engine.planning import plan as planning
from understudy.engine.queueing import launcher, start_conditions
from understudy.engine.review import decision_recovery, review_state
from understudy.engine.running import supervision
from understudy.engine.running.attempts import agent_conversation
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import load_record
from understudy.files.durable import failpoint
from understudy.git import repository
from understudy.git.object_store import ObjectStore
from understudy.journal import change_notifications, delegation_folder, groups, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation import events
from understudy.model.delegation.delegations import AskedBy, Delegation, LaunchOverride
from understudy.model.delegation.spec import Origin, Spec, session_owner
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import noticed
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.states import State
from understudy.model.text import path_quoting

SHOWN_LINES = 60
"""Lines of one hunk in a prompt; a longer hunk is cut in the middle, because the agent has the file."""
SHOWN_BYTES = 60_000
"""All hunks in a prompt together."""


# -- asking --------------------------------------------------------------------------------------------------------


def reply(folder: Folder, text: str, documents: Mapping[str, str], created_at: str, asked_by: AskedBy) -> str:
    """Send a result back with instructions; return the id of the new delegation, which takes over the worktree.

    Errors: ``input_empty``, ``conflict`` (not finished, already continued, or a decision is in progress),
    ``invalid_params`` (an agent that follows no instructions), ``base_unavailable`` (its worktree is gone), and those
    of a start.
    """
    if not text.strip():
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY, "The reply is empty.", hint="Write what the agent should do differently."
        )
    request = _Request(text, said=text)
    return _continue(folder, lambda _: request, documents, (created_at, asked_by))


def strengthen(
    folder: Folder,
    rounds: int | None,
    documents: Mapping[str, str],
    created_at: str,
    asked_by: AskedBy,
) -> str:
    """Send a result back with the changed places and small changes of the code that no test noticed.

    Return the id as ``reply`` does. Errors: those of ``reply``; ``input_empty`` if tests noticed every change.
    """

    def request(delegation: Delegation) -> _Request:
        if delegation.head is None:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"{folder.id} has no result whose tests could notice more.",
                hint=f"See what happened: understudy show {folder.id}",
            )
        evidence, places = noticed(check.mutation for check in delegation.checks), delegation.places
        if evidence is None and not prompt.shown_places(places):
            raise UnderstudyError(
                ErrorKind.INPUT_EMPTY,
                f"The tests of {folder.id} were not mutation-tested, so it is not known what they miss.",
                hint=f"Run `understudy check {folder.id}`; `understudy show {folder.id}` gives the reason.",
            )
        if not prompt.is_worth_strengthening(evidence, places):
            raise UnderstudyError(
                ErrorKind.INPUT_EMPTY,
                f"The tests of {folder.id} notice all of the small changes that were tried.",
                hint=f"To ask for other tests, describe them: understudy reply {folder.id} TEXT",
            )
        text = prompt.strengthen_request(evidence, places)
        return _Request(text, said=_STRENGTHEN, rounds=rounds)

    return _continue(folder, request, documents, (created_at, asked_by))


_SAME = "it did the earlier work"
"""The reason for the delegator of a follow-up that names none."""


_STRENGTHEN = "Write tests that notice more mistakes in the code."


@dataclasses.dataclass(frozen=True)
class _Request:
    """What the agent is asked for in a follow-up."""

    text: str
    said: str
    """The same for the prompts of later follow-ups."""
    rounds: int | None = None
    """None: as many as in the parent."""


def _continue(
    folder: Folder,
    request_of: Callable[[Delegation], _Request],
    documents: Mapping[str, str],
    asked: tuple[str, AskedBy],
) -> str:
    spec = delegation_folder.read_spec(folder)
    with _settled(folder) as (writer, delegation):
        if checkout_worktree.is_uncollected(folder.id):
            raise checkout_worktree.uncollected(folder.id)
        request = request_of(delegation)
        kept = agent_conversation.undelivered(folder, delegation)
        text = "\n\n".join([*(message.text for message in kept), request.text])
        has_ground = (folder.path / "worktree.json").exists()
        origin = Origin(kind="reply", parent=folder.id, base="", sessions=_sessions(delegation))
        files: list[FileDiff] = []
        earlier = [] if spec.origin is None else list(spec.origin.said)
        if has_ground:
            record, objects = load_record(folder)
            worktree_record.require_owner(Path(record.root), folder.id)
            if delegation.head is not None:
                files = review_state.files_of(folder, objects, record.base_commit, delegation.head)
            origin.base, origin.head = record.base_commit, delegation.head
            pending = [hunk for file in files for hunk in file.hunks if hunk.state is HunkState.PENDING]
            origin.undecided = [hunk.id for hunk in pending]
            origin.edited = [hunk.id for hunk in pending if hunk.edited]
            origin.words = reply_prompt(
                objects, (record.base_commit, delegation.head or record.base_commit), files, earlier, text
            )
        else:
            if delegation.result is None or delegation.result.text is None:
                raise UnderstudyError(
                    ErrorKind.CONFLICT,
                    f"{folder.id} has no result to reply to.",
                    hint="Start it again: understudy retry " + folder.id,
                )
            origin.words = answer_prompt(delegation.result.text, earlier, text)
        answered = delegation.result.text if delegation.result is not None else None
        if spec.recipe.returns == "text" and answered:
            origin.words = answer_prompt(answered, earlier, text)
        origin.said = [*earlier, *(message.text for message in kept), request.said]
        plan = _plan(spec, None, documents, fresh=True, rounds=request.rounds)
        agent_conversation.require_instructable(
            plan.draft.candidates[0], hint=f"Let another delegator do the work: understudy retry {folder.id} -d NAME"
        )
        if plan.draft.in_checkout:
            _require_in_checkout(plan, origin)
        identifier = _begin(
            plan,
            spec,
            origin,
            asked,
            title=_next_title(delegation.title),
            after=_hand_on(folder, has_ground),
        )
        recorded = {message.id for message in delegation.messages}
        for message in kept:
            if message.message_id not in recorded:  # its worker was killed before it read it
                said_then = events.UserMessage(
                    message_id=message.message_id, text=message.text, by=message.by, delivery="kept"
                )
                writer.append(said_then, attempt=0)
            writer.append(events.MessageDelivered(message_id=message.message_id), attempt=0)
        if origin.undecided:
            writer.append(events.Superseded(by=identifier), attempt=0)
            failpoint("superseded")
            writer.sync()
    return identifier


def _next_title(title: str) -> str:
    """Return the title of a follow-up: that of its task, which every list knows, and which round of it this is."""
    task, number = title, 1
    if round_of := re.fullmatch(r"(.*) \(round (\d{1,4})\)", title, re.DOTALL):
        task, number = round_of[1], int(round_of[2])
    return f"{task[:88]} (round {number + 1})"


def retry(
    folder: Folder,
    delegator: str | None,
    created_at: str,
    asked_by: AskedBy,
    launch: LaunchOverride | None = None,
    *,
    compare: bool = False,
) -> str:
    """Retry from the original base, in a separate worktree; return the id of the new delegation.

    Without ``launch``, the same delegator starts as it did before. ``compare``: both results are to be compared. They
    are in one group, which is made if there is none, and no other delegator takes over.

    Errors: ``conflict`` (not finished), ``base_unavailable`` (its worktree is gone), and those of a start.
    """
    spec = delegation_folder.read_spec(folder)
    delegation = reader.load(folder)
    if delegation.state is not State.FINISHED:
        raise decision_recovery.unfinished(delegation.id, delegation.state)
    after: Callable[[str], None] | None = None
    if (folder.path / "worktree.json").exists():
        record, _ = load_record(folder)
        origin = Origin(kind="retry", parent=folder.id, base=record.base_commit)
        if spec.origin is not None:
            origin.words, origin.said = spec.origin.words, spec.origin.said
    elif spec.origin is not None:
        # It ended before it had a base, so start it again.
        origin = spec.origin
        parent = worktree_record.folder_of(spec.origin.parent)
        if origin.kind == "reply" and parent is not None:
            after = _hand_on(parent, (parent.path / "worktree.json").exists())
    else:
        # It ended before it had a base, so the retry starts from the files as they are now.
        origin = Origin(kind="retry", parent=folder.id, base="")
    fresh = origin.kind == "reply" and not origin.base
    plan = _plan(spec, delegator, {}, fresh=fresh, launch=launch, fallback=[] if compare else None)
    if plan.draft.in_checkout:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{folder.id} cannot be retried in your checkout: a retry starts from the original base, in a worktree.",
            hint=f"Retry it in one (understudy retry {folder.id} --worktree), or start it again.",
        )
    waits_for = start_conditions.after_retries(spec)
    group_id = _comparison(folder, created_at, asked_by) if compare else spec.group_id
    return _begin(
        plan,
        msgspec.structs.replace(spec, group_id=group_id),
        origin,
        (created_at, asked_by),
        title=delegation.title,
        after=after,
        waits_for=waits_for,
    )


def _comparison(folder: Folder, created_at: str, asked_by: AskedBy) -> str:
    """Return the id of the group of a finished delegation, which joins a new one if it has none."""
    with decision_recovery.lock_finished(folder) as writer:
        if writer.delegation.group_id is not None:
            return writer.delegation.group_id
        group = groups.create("compare", asked_by, created_at)
        groups.add(group.id, folder.id)
        writer.append(events.Grouped(group_id=group.id), attempt=0)
        return group.id


# -- parts ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _settled(folder: Folder):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    """Lock a finished delegation, with or without a worktree."""
    with decision_recovery.lock_finished(folder) as writer:
        yield writer, writer.delegation


def _require_in_checkout(plan: planning.Plan, origin: Origin) -> None:
    """Raise ``conflict`` if the reply's agent cannot work in the checkout now."""
    if origin.undecided:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{len(origin.undecided)} changes of {origin.parent} are not decided, and not in your checkout.",
            hint="Accept or reject them, then reply again.",
        )
    checkout_worktree.refuse_if_taken(repository.locate(Path(plan.draft.workspace)).top)


def _plan(
    spec: Spec,
    delegator: str | None,
    documents: Mapping[str, str],
    *,
    fresh: bool,
    rounds: int | None = None,
    launch: LaunchOverride | None = None,
    fallback: list[str] | None = None,
) -> planning.Plan:
    """Plan the parent's request again: configuration, trust and checks may have changed."""
    workspace = Path(spec.workspace)
    gone = {path for path in (*spec.files, *spec.context) if not (workspace / _path(path)).is_file()}
    is_same = delegator in {None, spec.candidates[0].delegator.name}
    params = msgspec.structs.replace(
        spec.params,
        delegator=delegator or spec.params.delegator or spec.candidates[0].delegator.name,
        workspace=str(workspace),
        # The base has them, even if the checkout no longer does.
        files=[path_quoting.uri_of(workspace / _path(path)) for path in spec.files if path not in gone],
        context_files=[path_quoting.uri_of(workspace / _path(path)) for path in spec.context if path not in gone],
        target=path_quoting.uri_of(workspace / _path(spec.target)) if spec.target is not None else None,
        base=spec.params.base if not fresh else None,
        # Limits and launch options were chosen for the first delegator; another one may not support them.
        rounds=spec.params.rounds if rounds is None else rounds,
        launch=launch or (spec.params.launch if is_same else None),
        fallback=spec.params.fallback if fallback is None and is_same else fallback,
        limits=spec.params.limits if is_same else None,
        buffers=None,
        group_id=None,
        idempotency_key=None,
        work_done_token=None,
    )
    decided = planning.plan(params, documents, workspace, follow_up=delegator_choice.NAMED if delegator else _SAME)
    return dataclasses.replace(
        decided, files=[_path(path) for path in spec.files], context=[_path(path) for path in spec.context]
    )


def _begin(
    plan: planning.Plan,
    parent: Spec,
    origin: Origin,
    asked: tuple[str, AskedBy],
    *,
    title: str,
    after: Callable[[str], None] | None,
    waits_for: Sequence[str] = (),
) -> str:
    def build(identifier: str) -> Spec:
        spec = plan.spec(identifier, *asked)
        return msgspec.structs.replace(
            spec,
            title=title,
            parent_id=origin.parent,
            group_id=parent.group_id,
            origin=origin,
            after=list(waits_for),
            start_at=None,
        )

    folder, lock = delegation_folder.create(build, plan.buffer_files())
    try:
        failpoint("created")
        if after is not None:
            after(folder.id)
            failpoint("handed on")
        if parent.group_id is not None:
            groups.add(parent.group_id, folder.id)
    except BaseException:
        os.close(lock)
        raise
    launcher.submit(folder, lock)
    failpoint("spawned")
    return folder.id


def _hand_on(parent: Folder, has_ground: bool) -> Callable[[str], None] | None:
    if not has_ground:
        return None
    record, _ = load_record(parent)
    return lambda identifier: worktree_record.assign(Path(record.root), identifier)


def _sessions(delegation: Delegation) -> dict[str, str]:
    """Return the last session of each tool."""
    return {
        owner: attempt.session_id
        for attempt in delegation.attempts
        if attempt.session_id and (owner := session_owner(attempt.tool, attempt.delegator)) is not None
    }


# -- the prompt of a reply -----------------------------------------------------------------------------------------


def _path(quoted: str) -> str:
    return os.fsdecode(path_quoting.unquote(quoted))


def reply_prompt(
    objects: ObjectStore, sides: tuple[str, str], files: list[FileDiff], earlier: list[str], text: str
) -> str:
    """Return the prompt of a reply: the decisions on the agent's changes, and the new request."""
    room = SHOWN_BYTES
    parts = ["# What happened to your changes"]
    for state, title in (
        (HunkState.ACCEPTED, "Accepted. These are in the files that you see, perhaps edited since; leave them."),
        (HunkState.REJECTED, "Rejected. These are no longer in the files; do not make them again in the same way."),
        (HunkState.PENDING, "Not decided yet. These are in the files that you see; continue from them."),
    ):
        lines = []
        for file in files:
            for hunk in file.hunks:
                if hunk.state is state:
                    shown = _shown(objects, sides, file, hunk) if state is HunkState.REJECTED and room > 0 else ""
                    room -= len(shown)
                    lines.append(_described(file, hunk) + shown)
        if lines:
            parts.append(f"## {title}\n\n" + "\n".join(lines))
    if len(parts) == 1:
        parts = []
    if earlier:
        parts.append("# What was asked for before\n\n" + "\n\n".join(item.strip() for item in earlier))
    return "\n\n".join([*parts, "# What is asked for now\n\n" + text.strip()])


def answer_prompt(answer: str, earlier: list[str], text: str) -> str:
    """Return the prompt of a reply to a text answer."""
    boundary = secrets.token_hex(6)
    parts = [f"# Your previous answer\n\n<<<{boundary}\n{answer[:SHOWN_BYTES].rstrip()}\n{boundary}>>>"]
    if earlier:
        parts.append("# What was asked for before\n\n" + "\n\n".join(item.strip() for item in earlier))
    return "\n\n".join([*parts, "# What is asked for now\n\n" + text.strip()])


def _described(file: FileDiff, hunk: Hunk) -> str:
    if hunk.old_lines or hunk.new_lines:
        where = f"line {hunk.old_start}" if file.status == "modified" else f"the file was {file.status}"
    else:
        where = "the whole file" if file.binary else f"{file.status}"
    reason = f" Why: {hunk.reason.strip()}" if hunk.reason and hunk.reason.strip() else ""
    edited = hunk.edited and hunk.state is HunkState.PENDING
    keep = " The user edited it: keep the edit, unless you are asked to change it." if edited else ""
    return f"- `{path_quoting.readable(file.path)}`, {where}.{reason}{keep}"


def _shown(objects: ObjectStore, sides: tuple[str, str], file: FileDiff, hunk: Hunk) -> str:
    if file.binary:
        return ""
    with contextlib.suppress(UnderstudyError):
        old, new = review_state.lines_of(objects, *sides, file, hunk)
        lines = [
            f"{sign}{line.decode('utf-8', 'replace')}"
            for sign, side, count in (("-", old, hunk.old_lines), ("+", new, hunk.new_lines))
            for line in (side.split(b"\n") if count else [])
        ]
        if len(lines) > SHOWN_LINES:
            half = SHOWN_LINES // 2
            lines = [*lines[:half], f"… {len(lines) - SHOWN_LINES} lines …", *lines[-half:]]
        boundary = secrets.token_hex(6)
        return f"\n<<<{boundary}\n" + "\n".join(lines)[:SHOWN_BYTES] + f"\n{boundary}>>>"
    return ""


# -- the checks once more ------------------------------------------------------------------------------------------


def recheck(folder: Folder, cancelled: Callable[[], bool], *, limit_seconds: float) -> Delegation:
    """Start the worker and wait for its end; return the delegation with its new verdict.

    Errors: ``conflict`` (it has not finished, or is in use), ``base_unavailable`` (its worktree was removed),
    ``untrusted_workspace``, ``interrupted`` (the worker died before the checks began); ``timed_out`` and ``cancelled``
    end only the wait.
    """
    before = supervision.current(folder)
    if before.state is not State.FINISHED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{folder.id} is {before.state}; its checks run when the agent has finished.",
            hint=f"Wait for it: understudy wait {folder.id}",
        )
    load_record(folder)
    workspace = Path(before.workspace)
    if not workspace.is_dir():
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The workspace {workspace} does not exist.",
            hint="Restore the folder, then run the checks again.",
        )
    trust = records.status(workspace, delegation_folder.state_root())
    if not trust.trusted:
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{trust.why_not(workspace)}, so checks cannot run.",
            hint=repository.trust_hint(workspace),
        )
    # A worker that has just finished still holds its lock for a moment.
    lock = worker_files.lock_within(folder, decision_recovery.LOCK_SECONDS)
    if lock is None:
        raise worker_files.in_use(folder.id)
    try:
        launcher.spawn_worker(folder, lock, only_check=True)
    finally:
        os.close(lock)

    def ended() -> bool:
        # The lock was passed to the worker, so a free lock means that the worker has ended.
        return cancelled() or not worker_files.is_held(folder)

    with change_notifications.ChangeListener() as listener:
        has_ended = change_notifications.wait_for(ended, listener, limit_seconds)
    if cancelled():
        raise UnderstudyError(
            ErrorKind.CANCELLED,
            f"Stopped waiting; {folder.id} is still running.",
            hint=f"Watch it: understudy watch {folder.id}",
        )
    if not has_ended:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"The checks of {folder.id} are still running.",
            hint=f"Watch them: understudy watch {folder.id}",
        )
    after = supervision.current(folder)
    if after.last_seq == before.last_seq:
        raise UnderstudyError(
            ErrorKind.INTERRUPTED,
            f"The worker for the checks of {folder.id} ended before it started them.",
            hint="Run them again. If it happens again, its log says why.",
            log_paths=[str(folder.path / "worker.log")],
        )
    return after
