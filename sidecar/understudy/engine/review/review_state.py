"""Where every hunk of a result stands: the diff of two immutable commits, with the decisions of the journal on top."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from understudy.engine import leases
from understudy.git import diff as git_diff
from understudy.git import merge, names
from understudy.git.store import Store
from understudy.journal import reader
from understudy.journal.store import Folder
from understudy.model import events
from understudy.model.delegations import FileDiff, Hunk, HunkState, Review
from understudy.model.events import Event

Decision = Literal["accept", "reject", "pending"]
_STATES: dict[Decision, HunkState] = {
    "accept": HunkState.ACCEPTED,
    "reject": HunkState.REJECTED,
    "pending": HunkState.PENDING,
}
DECISIONS: dict[HunkState, Decision] = {state: decision for decision, state in _STATES.items()}
"""How the ``decided`` event spells a state."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What was decided on one hunk."""

    path: str
    state: HunkState
    reason: str | None = None
    by: str | None = None
    conflict: bool = False
    token: str | None = None
    """The accept that brought it into the person's files."""


@dataclass(slots=True)
class Standing:
    """The decisions of a journal; ``read`` makes it. Hunks without a mark are pending, or superseded."""

    marks: dict[str, Mark] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    superseded_by: str | None = None
    lapsed: bool = False
    """It was superseded last by a follow-up that came to nothing."""
    applied: dict[str, bool] = field(default_factory=dict)
    """Undo token → whether it can still be taken back."""
    discarded: str | None = None
    """The rescue ref of the last time the tree was taken away."""
    _open: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Count one event, in order."""
        if isinstance(event, events.Decided):
            self.marks[event.hunk] = Mark(
                event.path, _STATES[event.decision], event.reason, event.by, conflict=event.conflict
            )
            if event.decision == "accept":
                self._open.append(event.hunk)
        elif isinstance(event, events.Applied):
            for hunk in self._open:
                if hunk in self.marks:
                    self.marks[hunk] = replace(self.marks[hunk], token=event.undo_token)
            self._open = []
            self.applied[event.undo_token] = True
        elif isinstance(event, events.Undone):
            self.applied[event.undo_token] = False
        elif isinstance(event, events.Discarded):
            self.discarded = event.rescue_ref
        elif isinstance(event, events.Superseded):
            self.superseded_by = event.by
            self.marks = {hunk: mark for hunk, mark in self.marks.items() if mark.state is not HunkState.PENDING}
        elif isinstance(event, events.Amended):
            self._amend(event)

    def _amend(self, event: events.Amended) -> None:
        carried = {new: self.marks[old] for new, old in event.carried.items() if old in self.marks}
        edited = {new for new, old in event.carried.items() if old in self.edited}
        gone = {hunk for hunk, mark in self.marks.items() if mark.path == event.path}
        self.marks = {hunk: mark for hunk, mark in self.marks.items() if hunk not in gone} | carried
        self.edited |= edited | set(event.edited)

    def on(self, files: list[FileDiff]) -> list[FileDiff]:
        """Return ``files`` with the state of every hunk."""
        return [msgspec.structs.replace(file, hunks=[self.hunk(hunk) for hunk in file.hunks]) for file in files]

    def hunk(self, hunk: Hunk) -> Hunk:
        """Return one hunk with its state."""
        mark = self.marks.get(hunk.id)
        edited = hunk.id in self.edited
        if mark is not None:
            return msgspec.structs.replace(
                hunk, state=mark.state, conflict=mark.conflict, edited=edited, reason=mark.reason, by=mark.by
            )
        if self.superseded_by is not None:
            return msgspec.structs.replace(hunk, state=HunkState.SUPERSEDED, edited=edited, by=self.superseded_by)
        return msgspec.structs.replace(hunk, edited=edited)


def read(folder: Folder) -> Standing:
    """Return what the journal of ``folder`` says about its hunks."""
    standing = Standing()
    tail = reader.Tail(folder)
    while found := tail.read():
        for event in found:
            standing.take(event)
    if standing.superseded_by is not None and leases.came_to_nothing(standing.superseded_by):
        # Cancelled in the queue, say: nobody has taken these hunks over.
        standing.superseded_by, standing.lapsed = None, True
    return standing


def files_of(folder: Folder, store: Store, base: str, head: str) -> list[FileDiff]:
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


def selection(chosen: list[tuple[str, str]]) -> merge.Selection:
    """Return (wire path, hunk) pairs as git's half takes them."""
    found: dict[bytes, set[str] | None] = {}
    for path, hunk in chosen:
        hunks = found.setdefault(names.unquote(path), set())
        if hunks is not None:
            hunks.add(hunk)
    return found


def in_state(files: list[FileDiff], *states: HunkState) -> list[tuple[str, str]]:
    """Return (wire path, hunk) of every hunk in one of ``states``."""
    return [(file.path, hunk.id) for file in files for hunk in file.hunks if hunk.state in states]


def lines_of(store: Store, base: str, head: str, file: FileDiff, hunk: Hunk) -> tuple[bytes, bytes]:
    """Return the lines of a hunk on both sides; nothing for hunks without lines (a mode, binary contents)."""
    sides = []
    for commit, path, start, count_ in (
        (base, file.from_ or file.path, hunk.old_start, hunk.old_lines),
        (head, file.path, hunk.new_start, hunk.new_lines),
    ):
        found = git_diff.read_file(store, commit, names.unquote(path)) if count_ else None
        lines = found[0].split(b"\n") if found is not None else []
        sides.append(b"\n".join(lines[start - 1 : start - 1 + count_]))
    return sides[0], sides[1]
