"""Going on from a result: a reply to it in the same tree, or another try from the same base.

A reply's base is what the person sees now, and its tree is that plus the hunks that nobody has decided on. So what was
accepted is in the base as the person edited it, what was rejected is gone, and what was undecided is under review
again; the prompt says all of it. The parent's undecided hunks are taken over (``superseded``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from understudy.engine import ground, leases, places, resolve, settling, standing, start
from understudy.git import diff as git_diff
from understudy.git import follow, names, repository, rescue, tree
from understudy.git.faults import point
from understudy.git.store import Store
from understudy.journal import locks, reader, store, summary
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.delegations import Delegation, FileDiff, Hunk, HunkState
from understudy.model.delegators import Limits
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.spec import Origin, Spec
from understudy.model.states import State
from understudy.runners import registry

SHOWN_LINES = 60
"""Lines of one hunk in a prompt; what is longer is cut in the middle, the agent has the file."""
SHOWN_BYTES = 60_000
"""All hunks in a prompt together."""
SUPERSEDE_TRIES = 50


@dataclass(frozen=True)
class Made:
    """What a delegation starts from."""

    record: ground.Record
    store: Store
    base: events.Base
    notes: list[str] = field(default_factory=list)


# -- asking --------------------------------------------------------------------------------------------------------


def reply(folder: store.Folder, text: str, documents: Mapping[str, str], created_at: str) -> str:
    """Send a result back with words; return the id of the new delegation, which has the tree from now on.

    Errors: ``input_empty``, ``conflict`` (not finished, handed on already, somebody decides just now),
    ``base_unavailable`` (its tree is gone), and those of a start.
    """
    if not text.strip():
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY, "There is nothing to reply.", hint="Say what is to be done differently."
        )
    spec = store.read_spec(folder)
    with _settled(folder) as (writer, delegation):
        has_ground = (folder.path / "ground.json").exists()
        origin = Origin(kind="reply", parent=folder.id, base="", session_id=_session(delegation))
        files: list[FileDiff] = []
        said = [] if spec.origin is None else list(spec.origin.said)
        if has_ground:
            record, objects = ground.load(folder)
            leases.refuse_other(Path(record.root), folder.id)
            if delegation.head is not None:
                files = standing.files_of(folder, objects, record.base_commit, delegation.head)
            origin.base, origin.head = record.base_commit, delegation.head
            origin.undecided = [hunk for _, hunk in standing.in_state(files, HunkState.PENDING)]
            origin.words = words(
                objects, (record.base_commit, delegation.head or record.base_commit), files, said, text
            )
        else:
            if delegation.result is None or delegation.result.text is None:
                raise UnderstudyError(
                    ErrorKind.CONFLICT,
                    f"{folder.id} has no result to reply to.",
                    hint="Start it again: understudy retry " + folder.id,
                )
            origin.words = _about_answer(delegation.result.text, said, text)
        answered = delegation.result.text if delegation.result is not None else None
        if spec.recipe.returns == "text" and answered:
            origin.words = _about_answer(answered, said, text)
        origin.said = [*said, text]
        plan = _plan(spec, None, documents, fresh=True)
        identifier = _begin(
            plan,
            spec,
            origin,
            created_at,
            title=f"Reply: {text.strip().splitlines()[0]}"[:100],
            after=_hand_on(folder, has_ground),
        )
        if origin.undecided:
            writer.append(events.Superseded(by=identifier), attempt=0)
            point("superseded")
            writer.sync()
    return identifier


def retry(folder: store.Folder, delegator: str | None, created_at: str) -> str:
    """Try again from the original base, in a tree of its own; return the id of the new delegation.

    Errors: ``conflict`` (not finished), ``base_unavailable`` (its tree is gone), and those of a start.
    """
    spec = store.read_spec(folder)
    delegation = summary.load(folder)
    if delegation.state is not State.FINISHED:
        raise _running(delegation)
    after: Callable[[str], None] | None = None
    if (folder.path / "ground.json").exists():
        record, _ = ground.load(folder)
        origin = Origin(kind="retry", parent=folder.id, base=record.base_commit)
        if spec.origin is not None:
            origin.words, origin.said = spec.origin.words, spec.origin.said
    elif spec.origin is not None:
        # It ended before it had a base: the same start again.
        origin = spec.origin
        parent = leases.folder_of(spec.origin.parent)
        if origin.kind == "reply" and parent is not None:
            after = _hand_on(parent, (parent.path / "ground.json").exists())
    else:
        origin = Origin(kind="retry", parent=folder.id, base="")
    plan = _plan(spec, delegator, {}, fresh=not origin.base)
    return _begin(plan, spec, origin, created_at, title=delegation.title, after=after)


# -- what the new worker starts from -------------------------------------------------------------------------------


def next_base(
    origin: Origin,
    identifier: str,
    found: repository.Repository,
    buffers: Mapping[str | bytes, bytes],
    state: Path,
) -> Made:
    """Write the base of a reply into the parent's store and clear the tree for it; the old tree is rescued first."""
    parent = store.open_folder(origin.parent)
    record, objects = ground.load(parent)
    _supersede(parent, origin, identifier)
    leases.add(Path(record.root), identifier)
    head = origin.head or origin.base
    files = git_diff.file_diffs(objects, origin.base, head)
    wanted = set(origin.undecided)
    undecided = standing.selection([(f.path, hunk.id) for f in files for hunk in f.hunks if hunk.id in wanted])
    made = follow.follow_up(objects, found, origin.base, head, undecided, buffers=buffers)
    notes = list(made.base.notes)
    place = Path(record.tree)
    if place.is_dir():
        opened = tree.Tree.open(objects, place)
        reference = rescue.keep(state, found, opened, objects, f"{origin.parent}-{secrets.token_hex(2)}")
        opened.remove(state / "trash")
        point("tree cleared")
        notes.append(f"What was in the tree before can be brought back: {reference}.")
    for conflict in made.conflicts:
        where = f"line {_line(files, conflict.hunk)} of {names.readable(names.quote(conflict.path))}"
        notes.append(
            f"An undecided change at {where} does not fit what you see now; "
            f"it is still in the result of {origin.parent}."
        )
    return Made(
        record=ground.Record(
            root=record.root,
            tree=record.tree,
            base_commit=made.base.commit,
            start=made.start,
            parent=found.head_commit,
        ),
        store=objects,
        base=events.Base(commit=made.base.commit, files=made.base.files, left_out=made.base.left_out),
        notes=notes,
    )


def same_base(origin: Origin, claim: Callable[[], Path], tree_name: str) -> Made:
    """Copy the parent's store, which holds its base, to a place of its own."""
    parent = store.open_folder(origin.parent)
    if not origin.base:
        raise UnderstudyError(ErrorKind.BASE_UNAVAILABLE, f"{origin.parent} never had a base.", hint="Start it anew.")
    record, objects = ground.load(parent)
    root = claim()
    # What belongs to the parent's tree (its index) stays there; everything else is the base and its settings.
    shutil.copytree(objects.path, root / "store.git", symlinks=True, ignore=_of_the_tree)
    base = next((event for event in _events(parent) if isinstance(event, events.Base)), None)
    return Made(
        record=ground.Record(
            root=str(root),
            tree=str(root / tree_name),
            base_commit=record.base_commit,
            start=record.start,
            parent=record.parent,
        ),
        store=Store.open(root / "store.git"),
        base=events.Base(
            commit=record.base_commit,
            files=base.files if base is not None else 0,
            left_out=base.left_out if base is not None else [],
        ),
    )


# -- words ---------------------------------------------------------------------------------------------------------


def words(objects: Store, sides: tuple[str, str], files: list[FileDiff], said: list[str], text: str) -> str:
    """Return what a reply tells the agent: how its changes were taken, and what is asked for now."""
    room = SHOWN_BYTES
    parts = ["# What became of your changes"]
    for state, title in (
        (HunkState.ACCEPTED, "Accepted. These are in the files that you see, perhaps edited since; leave them."),
        (HunkState.REJECTED, "Rejected. These are not in the files any more; do not make them again as they were."),
        (HunkState.PENDING, "Not decided yet. These are in the files that you see; go on from them."),
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
    if said:
        parts.append("# What was asked for before\n\n" + "\n\n".join(item.strip() for item in said))
    return "\n\n".join([*parts, "# What is asked for now\n\n" + text.strip()])


def _about_answer(answer: str, said: list[str], text: str) -> str:
    boundary = secrets.token_hex(6)
    parts = [f"# Your answer before\n\n<<<{boundary}\n{answer[:SHOWN_BYTES].rstrip()}\n{boundary}>>>"]
    if said:
        parts.append("# What was asked for before\n\n" + "\n\n".join(item.strip() for item in said))
    return "\n\n".join([*parts, "# What is asked for now\n\n" + text.strip()])


def _described(file: FileDiff, hunk: Hunk) -> str:
    if hunk.old_lines or hunk.new_lines:
        where = f"line {hunk.old_start}" if file.status == "modified" else f"the file was {file.status}"
    else:
        where = "the whole file" if file.binary else f"{file.status}"
    reason = f" Why: {hunk.reason.strip()}" if hunk.reason and hunk.reason.strip() else ""
    return f"- `{names.readable(file.path)}`, {where}.{reason}"


def _shown(objects: Store, sides: tuple[str, str], file: FileDiff, hunk: Hunk) -> str:
    if file.binary:
        return ""
    with contextlib.suppress(UnderstudyError):
        old, new = standing.lines_of(objects, *sides, file, hunk)
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


# -- parts ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _settled(folder: store.Folder):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    """Hold a finished delegation, with or without a tree."""
    with settling.held(folder) as writer:
        if writer.delegation.state is not State.FINISHED:
            raise _running(writer.delegation)
        yield writer, writer.delegation


def _running(delegation: Delegation) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"{delegation.id} is {delegation.state}.",
        hint=f"Wait for its end, or cancel it: understudy cancel {delegation.id}",
    )


def _plan(spec: Spec, delegator: str | None, documents: Mapping[str, str], *, fresh: bool) -> resolve.Plan:
    """Resolve the parent's request anew: configuration, trust and checks may be others by now."""
    workspace = Path(spec.workspace)
    gone = {path for path in (*spec.files, *spec.context) if not (workspace / _path(path)).is_file()}
    params = msgspec.structs.replace(
        spec.params,
        delegator=delegator or spec.params.delegator or spec.delegator.name,
        workspace=str(workspace),
        # The base has them although the checkout may not any more.
        files=[places.uri_of(workspace / _path(path)) for path in spec.files if path not in gone],
        context=[places.uri_of(workspace / _path(path)) for path in spec.context if path not in gone],
        target=places.uri_of(workspace / _path(spec.target)) if spec.target is not None else None,
        base=spec.params.base if not fresh else None,
        limits=_limits(spec, delegator),
        buffers=None,
        idempotency_key=None,
        work_done_token=None,
    )
    decided = resolve.plan(params, documents, workspace)
    return dataclasses.replace(
        decided, files=[_path(path) for path in spec.files], context=[_path(path) for path in spec.context]
    )


def _limits(spec: Spec, delegator: str | None) -> Limits | None:
    """Return the limits that were in force, as far as a request may name them; another delegator has its own."""
    stored = spec.params.limits
    if stored is None or delegator not in {None, spec.delegator.name}:
        return None
    honoured = registry.abilities_of(spec.delegator).limits
    return Limits(**{name: value for name, value in msgspec.structs.asdict(stored).items() if name in honoured})


def _begin(
    plan: resolve.Plan,
    parent: Spec,
    origin: Origin,
    created_at: str,
    *,
    title: str,
    after: Callable[[str], None] | None,
) -> str:
    def build(identifier: str) -> Spec:
        spec = plan.spec(identifier, created_at)
        return msgspec.structs.replace(
            spec, title=title, parent_id=origin.parent, group_id=parent.group_id, origin=origin
        )

    folder, lock = store.create(build, plan.buffer_files())
    try:
        point("created")
        if after is not None:
            after(folder.id)
            point("handed on")
        start.spawn_worker(folder, lock)
        point("spawned")
    finally:
        os.close(lock)
    return folder.id


def _hand_on(parent: store.Folder, has_ground: bool) -> Callable[[str], None] | None:
    if not has_ground:
        return None
    record, _ = ground.load(parent)
    return lambda identifier: leases.add(Path(record.root), identifier)


def _supersede(parent: store.Folder, origin: Origin, identifier: str) -> None:
    """Say in the parent's journal that its undecided hunks were taken over, should the asker have died before."""
    if not origin.undecided or standing.read(parent).superseded_by is not None:
        return
    for _ in range(SUPERSEDE_TRIES):
        if standing.read(parent).superseded_by is not None:
            return
        lock = locks.try_lock(parent)
        if lock is None:
            time.sleep(0.05)
            continue
        try:
            with Writer(parent, lock) as writer:
                if standing.read(parent).superseded_by is None:
                    writer.append(events.Superseded(by=identifier), attempt=0)
            return
        finally:
            os.close(lock)


def _events(folder: store.Folder):  # type: ignore[no-untyped-def]  # noqa: ANN202 - events in order
    tail = reader.Tail(folder)
    while found := tail.read():
        yield from found


def _of_the_tree(folder: str, entries: list[str]) -> set[str]:
    if Path(folder).name == "understudy":
        return {entry for entry in entries if entry == "trees" or entry.startswith("tmp.")}
    return set()


def _session(delegation: Delegation) -> str | None:
    return next((attempt.session_id for attempt in reversed(delegation.attempts) if attempt.session_id), None)


def _line(files: list[FileDiff], hunk: str) -> int:
    return next((one.old_start for file in files for one in file.hunks if one.id == hunk), 0)


def _path(quoted: str) -> str:
    return os.fsdecode(names.unquote(quoted))
