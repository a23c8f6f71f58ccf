"""Compute the state of every hunk of a result from the diff of two commits and the records of decisions on disk.

A result is exported as a commit, a branch or a patch, without rejected hunks; a verified one is kept as a branch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.worktree_record import WorktreeRecord, load_record
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git import changes, repository
from understudy.git import diff as git_diff
from understudy.git.merge import export
from understudy.git.merge.undo import UndoRecord
from understudy.git.object_store import ObjectStore
from understudy.journal import reader
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.config import delegators
from understudy.model.delegation import events
from understudy.model.delegation.events import Event
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, Hunk, HunkState, Review
from understudy.model.places import ChangedPlace, PlaceEvidence, merged, untested
from understudy.model.text import path_quoting
from understudy.model.verdicts import DOUBTED, OF_NEW_TESTS, Reservation, Verdict
from understudy.model.wire import ready

Decision = Literal["accept", "reject", "pending"]
_STATES: dict[Decision, HunkState] = {
    "accept": HunkState.ACCEPTED,
    "reject": HunkState.REJECTED,
    "pending": HunkState.PENDING,
}
DECISIONS: dict[HunkState, Decision] = {state: decision for decision, state in _STATES.items()}
"""The name of a state in the ``decided`` event."""
_RECORD_LIMIT = 64 * 1024 * 1024
_Kind = TypeVar("_Kind")
PATCH_BYTES = 16 * 1024 * 1024
"""Largest patch that is returned; a patch is one response."""
SECONDS = 60.0
"""Time limit: the delegation's end waits for the branch. An export of 30,000 files takes 14 s."""


@dataclass(frozen=True, slots=True)
class HunkDecision:
    """The decision on one hunk."""

    path: str
    state: HunkState
    reason: str | None = None
    by: str | None = None
    conflict: bool = False
    token: str | None = None
    """The undo token of the accept that merged it into the user's files."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of one file that can be undone."""

    head: str
    """The result commit of the edit."""
    before: str
    """The result commit before it."""
    marks: dict[str, HunkDecision]
    """The decisions on the hunks of the file before it."""


@dataclass(slots=True)
class ReviewState:
    """The decisions in a journal, by hunk id; created by ``read``. Other hunks are pending, or superseded."""

    marks: dict[str, HunkDecision] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    superseded_by: str | None = None
    lapsed: bool = False
    """The last follow-up that superseded it failed before it took over."""
    applied: dict[str, events.Applied | None] = field(default_factory=dict)
    """Undo token → the accept, the latest last; None if it is undone."""
    partly_undone: set[str] = field(default_factory=set)
    """Undo tokens of accepts of which a hunk was undone."""
    discarded: str | None = None
    """The rescue ref of the last time the worktree was discarded."""
    head: str | None = None
    """The result commit."""
    edits: dict[str, list[Edit]] = field(default_factory=dict)
    """Wire path → its edits that are not undone, the latest last."""
    edited_at: dict[str, str] = field(default_factory=dict)
    """Wire path → when it was edited last, or its edit undone. Files edited later come later."""
    places: dict[str, list[ChangedPlace]] = field(default_factory=dict)
    """Hunk → its places, as the last checks found them."""
    doubted: bool = False
    """Whether a failed check or a reservation puts in doubt what tests noticed in the last checks."""
    has_weak_tests: bool = False
    """Whether the last checks did not show that new tests notice enough."""
    judged: dict[str, events.Finished] = field(default_factory=dict)
    """Result commit → the last verdict on it."""
    _open: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Apply one event; call this in the order of the journal."""
        if isinstance(event, events.Decided):
            before = self.marks.get(event.hunk)
            if before is not None and before.token is not None and event.decision == "pending":
                self.partly_undone.add(before.token)
            self.marks[event.hunk] = HunkDecision(
                event.path, _STATES[event.decision], event.reason, event.by, conflict=event.conflict
            )
            if event.decision == "accept":
                self._open.append(event.hunk)
        elif isinstance(event, events.Applied):
            for hunk in self._open:
                if hunk in self.marks:
                    self.marks[hunk] = replace(self.marks[hunk], token=event.undo_token)
            self._open = []
            if self.applied.get(event.undo_token) is None:
                self.applied.pop(event.undo_token, None)
            self.applied[event.undo_token] = event
        elif isinstance(event, events.Undone):
            self.applied[event.undo_token] = None
        elif isinstance(event, events.Discarded):
            self.discarded = event.rescue_ref
        elif isinstance(event, events.Superseded):
            self.superseded_by = event.by
            self.marks = {hunk: mark for hunk, mark in self.marks.items() if mark.state is not HunkState.PENDING}
        elif isinstance(event, events.Amended):
            self._amend(event)
        elif isinstance(event, events.Checkpoint):
            self.head = event.commit
        elif isinstance(event, events.Result):
            self.head = event.head or self.head
            self.places = {}
            self.doubted = self.has_weak_tests = False
        elif isinstance(event, events.PlacesJudged):
            places = [place for of_hunk in self.places.values() for place in of_hunk]
            self._set_places(merged(places, event.places))
        elif isinstance(event, events.Finished):
            self._set_places(event.places)
            failed = event.verdict is Verdict.CHECKS_FAILED
            self.doubted = failed or not DOUBTED.isdisjoint(event.reservations)
            self.has_weak_tests = not OF_NEW_TESTS.isdisjoint(event.reservations)
            if self.head is not None:
                self.judged[self.head] = event

    def _set_places(self, places: list[ChangedPlace]) -> None:
        self.places = {}
        for place in places:
            self.places.setdefault(place.hunk, []).append(place)

    def _amend(self, event: events.Amended) -> None:
        carried = {new: self.marks[old] for new, old in event.carried.items() if old in self.marks}
        edited = {new for new, old in event.carried.items() if old in self.edited}
        gone = {hunk: mark for hunk, mark in self.marks.items() if mark.path == event.path}
        self.edited_at.pop(event.path, None)
        self.edited_at[event.path] = event.at
        edits = self.edits.pop(event.path, [])
        if event.undoes is not None:
            restored = [edit for edit in edits if edit.head == event.undoes]
            edits = edits[: -len(restored)] if restored else edits
            # An accept that was undone meanwhile is no longer in the user's files.
            valid = {
                hunk: mark
                for edit in restored
                for hunk, mark in edit.marks.items()
                if mark.token is None or self.applied.get(mark.token)
            }
            carried = valid | carried
        elif self.head is not None:
            edits = [*edits, Edit(event.head, self.head, gone)]
        if edits:
            self.edits[event.path] = edits
        self.marks = {hunk: mark for hunk, mark in self.marks.items() if hunk not in gone} | carried
        self.edited |= edited | set(event.edited)
        self.head = event.head

    def accepted_by(self, token: str) -> list[HunkRef]:
        """Return the hunks that an accept merged into the user's files and that are not undone since."""
        return [
            HunkRef(mark.path, hunk)
            for hunk, mark in self.marks.items()
            if mark.token == token and mark.state is HunkState.ACCEPTED
        ]

    def on(self, files: list[FileDiff]) -> list[FileDiff]:
        """Return ``files`` with the state of every hunk."""
        return [msgspec.structs.replace(file, hunks=[self.hunk(hunk) for hunk in file.hunks]) for file in files]

    def hunk(self, hunk: Hunk) -> Hunk:
        """Return one hunk with its state and its places."""
        places = self.places.get(hunk.id, [])
        is_test = all(place.evidence is PlaceEvidence.NEW_TEST for place in places)
        doubted = self.doubted or (is_test and self.has_weak_tests)
        tested = not untested(places) and not doubted if places else None
        hunk = msgspec.structs.replace(hunk, places=places, tested=tested)
        mark = self.marks.get(hunk.id)
        edited = hunk.id in self.edited
        if mark is not None:
            return msgspec.structs.replace(
                hunk,
                state=mark.state,
                conflict=mark.conflict,
                edited=edited,
                reason=mark.reason,
                by=mark.by,
                undo_token=mark.token if mark.token is not None and self.applied.get(mark.token) else None,
            )
        if self.superseded_by is not None:
            return msgspec.structs.replace(hunk, state=HunkState.SUPERSEDED, edited=edited, by=self.superseded_by)
        return msgspec.structs.replace(hunk, edited=edited)


def read(folder: Folder) -> ReviewState:
    """Return the decisions in the journal of ``folder``."""
    state = ReviewState()
    tail = reader.Tail(folder)
    while batch := tail.read():
        for event in batch:
            state.take(event)
    if state.superseded_by is not None and worktree_record.never_took_over(state.superseded_by):
        # The follow-up was, for example, cancelled in the queue: these hunks are pending again.
        state.superseded_by, state.lapsed = None, True
    return state


def files_of(folder: Folder, store: ObjectStore, base: str, head: str) -> list[FileDiff]:
    """Return every changed file with the state of its hunks."""
    return read(folder).on(git_diff.file_diffs(store, base, head))


def count(files: list[FileDiff]) -> Review:
    """Return how many hunks are pending, accepted and rejected."""
    states = [hunk.state for file in files for hunk in file.hunks]
    return Review(
        pending=states.count(HunkState.PENDING),
        accepted=states.count(HunkState.ACCEPTED),
        rejected=states.count(HunkState.REJECTED),
    )


def selection(chosen: list[tuple[str, str]]) -> changes.Selection:
    """Convert (wire path, hunk) pairs to the selection that the git package takes."""
    selected: dict[bytes, set[str] | None] = {}
    for path, hunk in chosen:
        hunks = selected.setdefault(path_quoting.unquote(path), set())
        if hunks is not None:
            hunks.add(hunk)
    return selected


def in_state(files: list[FileDiff], *states: HunkState) -> list[tuple[str, str]]:
    """Return (wire path, hunk) of every hunk in one of ``states``."""
    return [(file.path, hunk.id) for file in files for hunk in file.hunks if hunk.state in states]


def lines_of(store: ObjectStore, base: str, head: str, file: FileDiff, hunk: Hunk) -> tuple[bytes, bytes]:
    """Return the old and the new lines of a hunk; both are empty for a mode or a binary change."""
    sides = []
    for commit, path, start, count_ in (
        (base, file.from_ or file.path, hunk.old_start, hunk.old_lines),
        (head, file.path, hunk.new_start, hunk.new_lines),
    ):
        blob = git_diff.read_file(store, commit, path_quoting.unquote(path)) if count_ else None
        lines = blob[0].split(b"\n") if blob is not None else []
        sides.append(b"\n".join(lines[start - 1 : start - 1 + count_]))
    return sides[0], sides[1]


class HunkRef(msgspec.Struct, frozen=True):
    """A hunk by its file and id."""

    path: str
    hunk: str


class DecisionIntent(msgspec.Struct):
    """``decision-intent.json`` in the delegation's folder: what to complete if the deciding process dies."""

    kind: Literal["accept", "undo", "discard", "restore"]
    token: str = ""
    """The undo token, or the rescue ref of the worktree that is discarded or restored."""
    by: str = ""
    hunks: list[HunkRef] = []
    paths: list[str] = []
    """The paths of the ``applied`` event; for discard and restore, the folder of the worktree."""
    seconds: float = 0.0
    final: bool = False
    """Recovery completes the decision. If false, the file transaction shows whether it was committed."""


class UndoFile(msgspec.Struct):
    """``undo/<token>.json`` in the delegation's folder."""

    record: UndoRecord


def has_interrupted_decision(folder: Folder) -> bool:
    """Return whether a decision was started but not completed."""
    return intent_file(folder).exists() or exchange_file(folder).exists()


def record_intent(folder: Folder, intent: DecisionIntent) -> None:
    """Write the intent of a decision durably."""
    write_record(intent_file(folder), msgspec.json.encode(intent))
    failpoint("intended")


def write_record(path: Path, data: bytes) -> None:
    """Replace a file in a delegation's folder durably, creating the folder it is in."""
    with durable.named_failures(path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        durable.replace(path, data, sync=True)


def read_record(path: Path, kind: type[_Kind]) -> _Kind:
    """Read a file written by ``write_record``; raise ``state_unavailable`` if it is damaged or missing."""
    with durable.named_failures(path):
        data = durable.read_whole(path, _RECORD_LIMIT)
    try:
        return msgspec.json.decode(data, type=ready(kind))
    except msgspec.DecodeError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{path} is damaged: {error}.",
            hint="Compare your files with the result, then delete that file.",
        ) from error


def intent_file(folder: Folder) -> Path:
    """Return the path of the intent file, which exists only while a decision is in progress."""
    return folder.path / "decision-intent.json"


def exchange_file(folder: Folder) -> Path:
    """Return the path of the file transaction's own journal, which exists only while the transaction is open."""
    return folder.path / "file-transaction"


def undo_file(folder: Folder, token: str) -> Path:
    """Return the path of the record that undoes an accept."""
    return folder.path / "undo" / f"{token.rpartition('.')[2]}.json"


def update(writer: Writer, files: Iterable[FileDiff]) -> None:
    """Write to the journal that all changed tests are confirmed, or no longer are, if that has changed.

    They are confirmed while every hunk of the tests that the question is about is accepted. ``files`` are the changed
    files of the result with the state of their hunks.
    """
    delegation = writer.delegation
    asked = delegation.verdict is Verdict.UNVERIFIED and delegation.reservations == [Reservation.TESTS_CHANGED]
    if not asked and not delegation.confirmed_tests:
        return
    compared = [check.base for check in delegation.checks if check.base is not None and check.required]
    tests = {path for base in compared for path in base.restored}
    hunks = [hunk for file in files if file.path in tests for hunk in file.hunks]
    confirmed = bool(hunks) and all(hunk.state is HunkState.ACCEPTED for hunk in hunks)
    if confirmed != bool(delegation.confirmed_tests):
        count = max(1, sum(base.lost for base in compared)) if confirmed else 0
        writer.append(events.Confirmed(tests=count), attempt=0)


def commit_result(folder: Folder, message: str | None, branch: str | None) -> export.Exported:
    """Commit the result on top of the commit that was the user's HEAD when the base was written."""
    record, objects, head, chosen = _chosen(folder)
    delegation = reader.load(folder)
    return export.export(
        objects,
        repository.locate(Path(delegation.workspace)),
        record.base_commit,
        head,
        parent=record.parent,
        message=message or f"{delegation.title}\n\nDelegation: {delegation.id}\n",
        branch=branch,
        selection=chosen,
    )


def result_patch(folder: Folder) -> str:
    """Return the result as a patch for ``git apply``; raise ``invalid_params`` if it is not UTF-8."""
    record, objects, head, chosen = _chosen(folder)
    content = export.patch(objects, record.base_commit, head, chosen)
    if len(content) > PATCH_BYTES:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"The patch is too large: {len(content)} bytes (limit {PATCH_BYTES}).",
            hint="Export a branch instead.",
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "The patch contains text that is not UTF-8, which a JSON response cannot contain.",
            hint="Export a branch or a commit instead.",
        ) from None


def _chosen(
    folder: Folder,
) -> tuple[WorktreeRecord, ObjectStore, str, changes.Selection | None]:
    record, objects = load_record(folder)
    head = reader.load(folder).head
    if head is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{folder.id} has no result to export.",
            hint=f"See what happened: understudy show {folder.id}",
        )
    files = files_of(folder, objects, record.base_commit, head)
    if not in_state(files, HunkState.REJECTED):
        return record, objects, head, None
    kept = in_state(files, HunkState.PENDING, HunkState.ACCEPTED, HunkState.SUPERSEDED)
    return record, objects, head, selection(kept)


def branch_of(spec: Spec, identifier: str, delegator: str) -> str | None:
    """Return the name of the branch for a result of ``delegator``; None if it is configured without one."""
    launch = next(
        (candidate.delegator.launch for candidate in spec.candidates if candidate.delegator.name == delegator), None
    )
    if launch is None or launch.branch is None or spec.recipe.returns == "text":
        return None
    return delegators.branch_name(launch.branch, identifier, spec.recipe.name, delegator)


def keep_branch(folder: Folder, name: str) -> str:
    """Commit the result on the new branch ``name`` and return a sentence for the user; raise as ``export`` does.

    Once a branch was made, none is made again: the user may have changed, renamed or deleted it.
    """
    made = folder.path / "branch"
    if made.exists():
        return "A branch was made when this was verified before; it is not changed or made again."
    exported = commit_result(folder, None, name)
    durable.replace(made, f"{exported.commit} {name}\n".encode())
    return " ".join([f"The result is also on the branch {name}.", *exported.notes])


def branch_failure(identifier: str, name: str, error: UnderstudyError) -> str:
    """Return why the branch was not made, and what the user can do."""
    if error.kind is ErrorKind.TIMED_OUT:
        return (
            f"The result is not on the branch {name}: git took longer than {SECONDS:g} s. "
            f"To make a branch later: understudy export {identifier} --to branch --branch NAME"
        )
    return " ".join([f"The result is not on the branch {name}: {error.message}", *([error.hint] if error.hint else [])])
