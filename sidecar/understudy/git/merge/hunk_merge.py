"""Merge chosen hunks of a result into what the user sees now, in memory.

It is a three-way merge of bytes: the base, the base with the chosen hunks (the *partial result*), and what the user
sees now. Nothing is written: ``plan`` returns the changes, ``apply`` writes them. A follow-up starts from the pending
hunks in a new base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from understudy.git.base.capture import write_base
from understudy.git.base.index import Base
from understudy.git.changes import OTHER, Change, Entry, Reader, Selection, folders_of, reader, write_commit
from understudy.git.diff import Split, hunk_ids, line_splits, splits
from understudy.git.merge.line_edits import (
    Edit,
    Sides,
    disjoint_edits,
    edits_of,
    merge_edits,
    replace,
    reversed_edits,
    split_lines,
)
from understudy.git.object_store import ObjectStore
from understudy.git.objects import object_id, read_blobs, read_loose, write_blob, write_flat_tree
from understudy.git.repository import Repository, is_true
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

_FILES = frozenset({"100644", "100755"})


@dataclass(frozen=True, slots=True)
class HunkConflict:
    """A hunk with a conflict, and its three sides; None for a side without the file.

    For a hunk of lines, each side is the text of those lines (``yours``: their current text); for a hunk that is a
    whole file, each side is the content.
    """

    path: bytes
    hunk: str
    base: bytes | None
    result: bytes | None
    yours: bytes | None
    blocked: bool = False
    """The user's entry is neither a file nor a link but, for example, a folder."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The changes to write (without unchanged files), the hunks that they contain, and the conflicts."""

    changes: tuple[Change, ...]
    merged: Mapping[bytes, tuple[str, ...]]
    """Path of the ``FileDiff`` → ids of the hunks that are in ``changes`` or already in the user's file."""
    conflicts: tuple[HunkConflict, ...]


def plan(
    store: ObjectStore,
    base: str,
    head: str,
    selection: Selection,
    read_now: Reader,
    *,
    difference: list[Split] | None = None,
) -> MergePlan:
    """Merge the selected hunks of ``base``..``head`` into the files that ``read_now`` returns.

    A hunk with a conflict is left out, and the other hunks of its file are merged without it. Only the selected files
    are read. A rename is one hunk of the new path and makes two changes. ``difference``: the file splits, if known.

    Errors: ``invalid_params`` (no such file or hunk), ``base_unavailable``, ``file_too_large``.
    """
    file_splits = splits(store, base, head) if difference is None else difference
    picked = [_File(split, hunks) for split, hunks in _picked(file_splits, selection)]
    ignore_mode = not is_true(store.description["settings"].get("core.filemode"), default=True)
    for file in picked:
        file.look(read_now, ignore_mode=ignore_mode)
    _load_user_edits(store, picked)
    _load_contents(store, picked)
    changes: dict[bytes, Change] = {}
    merged: dict[bytes, tuple[str, ...]] = {}
    conflicts: list[HunkConflict] = []
    # Removals first: a file may replace a folder, and a folder may replace a file.
    leaving = Removals()
    for file in sorted(picked, key=lambda file: file.split.change.letter != "D"):
        outcome = file.merge(leaving)
        for change in outcome.changes:
            if change.before != change.after:
                changes[change.path] = change
                if change.after is None:
                    leaving.add(change.path)
        if outcome.merged:
            merged[file.path] = outcome.merged
        conflicts += outcome.conflicts
    order = {file.path: number for number, file in enumerate(picked)}
    return MergePlan(
        tuple(changes[path] for path in sorted(changes)),
        {path: merged[path] for path in order if path in merged},
        tuple(sorted(conflicts, key=lambda conflict: order[conflict.path])),
    )


def _picked(files: list[Split], selection: Selection) -> list[tuple[Split, list[str]]]:
    by_path = {split.change.path: split for split in files}
    picked = []
    for path in sorted(selection):
        split = by_path.get(path)
        if split is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"The result does not change {quote(path)}.", hint="Read the diff again."
            )
        every = hunk_ids(split)
        asked = selection[path]
        strange = sorted((asked or set()) - set(every))
        if strange:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"{quote(path)} has no hunk {strange[0]}.", hint="Read the diff again."
            )
        hunks = [identifier for identifier in every if asked is None or identifier in asked]
        if hunks:
            picked.append((split, hunks))
    return picked


@dataclass(slots=True)
class _Outcome:
    changes: list[Change] = field(default_factory=list)
    merged: tuple[str, ...] = ()
    conflicts: list[HunkConflict] = field(default_factory=list)


class _File:
    """The state of one selected file in ``plan``."""

    def __init__(self, split: Split, hunks: list[str]) -> None:
        self.split = split
        self.wanted = hunks
        change = split.change
        self.path = change.path
        self.source = change.source
        self.base: Entry | None = None
        self.result: Entry | None = None
        self.now: Entry | None = None
        """The entry at the old path, which differs from the path only for a rename."""
        self.target_now: Entry | None = None
        self.ignore_mode = False
        self.user_split: Split | None = None
        """The edits from the base to now, if lines must be merged and git computed them."""
        self.user_edits: list[Edit] | None = None
        """The same edits, if they were computed without git."""
        self.held: dict[str, bytes] = {}
        """The contents needed for that, by id."""

    def blobs(self) -> list[str]:
        change = self.split.change
        sides = ((change.old_mode, change.old_blob), (change.new_mode, change.new_blob))
        return [blob for mode, blob in sides if mode in {*_FILES, "120000"}]

    def look(self, read_now: Reader, *, ignore_mode: bool) -> None:
        self.now = read_now(self.source)
        self.target_now = read_now(self.path) if self.path != self.source else self.now
        self.ignore_mode = ignore_mode

    def load(self, contents: Mapping[str, bytes]) -> None:
        change = self.split.change
        self.base = _entry(change.old_mode, change.old_blob, contents)
        self.result = _entry(change.new_mode, change.new_blob, contents)

    def wants_user_edits(self, object_format: str) -> bool:
        """Whether lines must be merged, because all three texts differ. Otherwise no diff is needed."""
        change, now = self.split.change, self.now
        return (
            now is not None
            and {change.old_mode, change.new_mode, now.mode} <= _FILES
            and not self.split.binary
            and object_id("blob", now.content, object_format) not in {change.old_blob, change.new_blob}
        )

    def find_user_edits(self, store: ObjectStore, object_format: str) -> bool:
        """Find the edits from base to now without git, if the base is known and the user's edits do not overlap."""
        change, now = self.split.change, self.now
        result = read_loose(store.path, change.new_blob, object_format)
        if now is None or result is None:
            return False
        base = replace(split_lines(result), reversed_edits(self.split.ranges, self.split.removed))
        if object_id("blob", base, object_format) != change.old_blob:  # pragma: no cover - git's own patch
            return False
        self.held = {change.old_blob: base, change.new_blob: result}
        lines, every = split_lines(base), hunk_ids(self.split)
        edits = edits_of(self.split.ranges, self.split.added)
        if len(every) >= len(edits):  # the file is not a single hunk
            ids = every[len(every) - len(edits) :]
            edits = [edit for identifier, edit in zip(ids, edits, strict=True) if identifier in self.wanted]
        self.user_edits = disjoint_edits(lines, edits, split_lines(now.content))
        return self.user_edits is not None

    def known(self, object_format: str) -> dict[str, bytes]:
        """Return the contents of base and result by id, as far as they can be computed without git.

        They are computed from the current file and the patches, and used only if the id matches. This saves a start of
        git, a third of the time of an accept.
        """
        change = self.split.change
        contents = dict(self.held)

        def take(content: bytes, *blobs: str) -> None:
            identifier = object_id("blob", content, object_format)
            if identifier in blobs:
                contents[identifier] = content

        for entry in (self.now, self.target_now):
            if entry is not None and entry.mode != OTHER:
                take(entry.content, change.old_blob, change.new_blob)
        if self.now is not None and self.user_split is not None:
            lines = split_lines(self.now.content)
            take(replace(lines, reversed_edits(self.user_split.ranges, self.user_split.removed)), change.old_blob)
        if self.split.binary or change.letter == "T":
            return contents
        if change.letter == "A":
            take(b"".join(self.split.added), change.new_blob)
        elif change.letter == "D":
            take(b"".join(self.split.removed), change.old_blob)
        elif change.old_blob in contents:
            lines = split_lines(contents[change.old_blob])
            take(replace(lines, edits_of(self.split.ranges, self.split.added)), change.new_blob)
        elif change.new_blob in contents:
            lines = split_lines(contents[change.new_blob])
            take(replace(lines, reversed_edits(self.split.ranges, self.split.removed)), change.old_blob)
        return contents

    def merge(self, leaving: Removals) -> _Outcome:
        letter = self.split.change.letter
        if letter == "M" and not self.split.binary and self._regular():
            return self._merge_lines()
        if letter == "R":
            return self._merge_rename(leaving)
        return self._merge_whole(leaving)

    def _regular(self) -> bool:
        return all(entry is not None and entry.mode in _FILES for entry in (self.base, self.result))

    def _merge_lines(self) -> _Outcome:
        base, result, now = self.base, self.result, self.now
        assert base is not None  # noqa: S101 - what _regular said
        assert result is not None  # noqa: S101
        every = hunk_ids(self.split)
        modes = self.split.change.old_mode != self.split.change.new_mode
        if now is None or now.mode not in _FILES:
            return self._refused(self.wanted)
        lines = split_lines(base.content)
        edits = edits_of(self.split.ranges, self.split.added)
        ids = every[1:] if modes and self.split.ranges else every if self.split.ranges else []
        mode_id = every[0] if modes else None
        chosen = [(identifier, edit) for identifier, edit in zip(ids, edits, strict=True) if identifier in self.wanted]
        content, bad = now.content, dict[int, Sides]()
        if chosen and not (now.content == result.content and len(chosen) == len(edits)):
            content, bad = merge_edits(lines, [edit for _, edit in chosen], self._edits_now(lines, edits))
        conflicts = [
            HunkConflict(self.path, chosen[number][0], sides.base, sides.result, sides.yours)
            for number, sides in sorted(bad.items())
        ]
        mode = result.mode if mode_id in self.wanted else now.mode
        failed = {conflict.hunk for conflict in conflicts}
        merged = tuple(identifier for identifier in self.wanted if identifier not in failed)
        return _Outcome([Change(self.path, now, Entry(mode, content))], merged, conflicts)

    def _edits_now(self, lines: list[bytes], edits: list[Edit]) -> list[Edit]:
        now, base, result = self.now, self.base, self.result
        if now is None or base is None or now.content == base.content:
            return []
        if result is not None and now.content == result.content:
            return edits
        if self.user_edits is not None:
            return self.user_edits
        if self.user_split is None:  # pragma: no cover - _load_user_edits gave them
            return [Edit(0, len(lines), tuple(split_lines(now.content)))]
        return edits_of(self.user_split.ranges, self.user_split.added)

    def _merge_rename(self, leaving: Removals) -> _Outcome:
        base, result, now, target = self.base, self.result, self.now, self.target_now
        if base is None or result is None:  # pragma: no cover - a rename has both
            return self._refused(self.wanted)
        if now is None and target == result:
            return _Outcome(merged=tuple(self.wanted))
        free = target is None or (
            target.mode == OTHER and makes_room(self.path, target, leaving, Removals([self.source]))
        )
        moved = self._three_way(base, result, now) if now is not None and free else None
        if moved is None:
            return self._refused(self.wanted)
        return _Outcome(
            [Change(self.source, now, None), Change(self.path, None, moved, self.source)], tuple(self.wanted)
        )

    def _three_way(self, base: Entry, result: Entry, now: Entry) -> Entry | None:
        """Merge one whole file, contents and mode separately; None on a conflict."""
        if now == base:
            return result
        if now == result:
            return now
        if not {base.mode, result.mode, now.mode} <= _FILES:
            # A link's target cannot be merged in parts.
            same_kind = base.mode == now.mode == result.mode
            return now if same_kind and base.content == result.content else None
        mode = result.mode if now.mode == base.mode else now.mode
        if self.ignore_mode and base.mode != result.mode:
            mode = result.mode
        if now.content == base.content:
            return Entry(mode, result.content)
        if result.content in {now.content, base.content}:
            return Entry(mode, now.content)
        if self.split.binary:
            return None
        lines = split_lines(base.content)
        edits = edits_of(self.split.ranges, self.split.added)
        content, bad = merge_edits(lines, edits, self._edits_now(lines, edits))
        return None if bad else Entry(mode, content)

    def _merge_whole(self, leaving: Removals) -> _Outcome:
        base, result, now = self.base, self.result, self.now
        if {self.split.change.old_mode, self.split.change.new_mode} & {"160000"}:
            return self._refused(self.wanted)  # submodules are never changed
        outcome = _Outcome(merged=tuple(self.wanted))
        if now is not None and now.mode == OTHER and makes_room(self.path, now, leaving):
            now = None
        if now == result:
            return outcome
        if base is None or now is None or result is None:
            if self._contains_result(now):
                return outcome
            gone = base is not None and now is not None and result is None and self._untouched(base, now)
            if not (gone or (base is None and now is None)):
                return self._refused(self.wanted)
            outcome.changes = [Change(self.path, now, result)]
            return outcome
        after = self._three_way(base, result, now)
        if after is None:
            return self._refused(self.wanted)
        outcome.changes = [Change(self.path, now, after)]
        return outcome

    def _contains_result(self, now: Entry | None) -> bool:
        """Return whether the user's file has all lines of a new file: another result added it, and it grew since."""
        result = self.result
        if self.base is not None or result is None or now is None or self.split.binary:
            return False
        added, mine = (Edit(0, 0, tuple(split_lines(entry.content))) for entry in (result, now))
        return (
            now.mode == result.mode and result.mode in _FILES and merge_edits([], [added], [mine]) == (now.content, {})
        )

    def _untouched(self, base: Entry, now: Entry) -> bool:
        if self.ignore_mode and {base.mode, now.mode} <= _FILES:
            return base.content == now.content
        return base == now

    def _refused(self, hunks: list[str]) -> _Outcome:
        now = self.target_now if self.target_now is not None else self.now
        blocked = now is not None and now.mode == OTHER
        yours = None if now is None or blocked else now.content
        if self._regular() and self.split.change.letter == "M" and not self.split.binary:
            return _Outcome(conflicts=[self._line_conflict(hunk, yours, blocked) for hunk in hunks])
        base, result = (None if entry is None else entry.content for entry in (self.base, self.result))
        return _Outcome(conflicts=[HunkConflict(self.path, hunk, base, result, yours, blocked) for hunk in hunks])

    def _line_conflict(self, hunk: str, yours: bytes | None, blocked: bool) -> HunkConflict:
        """Return the sides of a hunk of lines whose file is gone or no longer a file."""
        base, result = self.base, self.result
        every = hunk_ids(self.split)
        offset = len(every) - len(self.split.ranges)
        number = every.index(hunk) - offset
        if base is None or result is None or number < 0:
            return HunkConflict(self.path, hunk, None, None, yours, blocked)
        edit = edits_of(self.split.ranges, self.split.added)[number]
        before = b"".join(split_lines(base.content)[edit.start : edit.end])
        return HunkConflict(self.path, hunk, before, b"".join(edit.lines), yours, blocked)


def _entry(mode: str, blob: str, contents: Mapping[str, bytes]) -> Entry | None:
    if mode == "000000":
        return None
    return Entry(mode, contents.get(blob, b""))


class Removals:
    """Files that a change removes. Whether it makes room for another file is found out without looking at all."""

    def __init__(self, paths: Iterable[bytes] = ()) -> None:
        """Add these paths."""
        self.paths: set[bytes] = set()
        self.folders: set[bytes] = set()
        for path in paths:
            self.add(path)

    def add(self, path: bytes) -> None:
        """Add a path."""
        self.paths.add(path)
        self.folders.update(folders_of(path))


def makes_room(path: bytes, there: Entry, *removals: Removals) -> bool:
    """Return whether removals free ``path`` for a file: of a file in its parent path, or of all files of a folder.

    A folder that contains files of the user stays.
    """
    if any(folder in removal.paths for folder in folders_of(path) for removal in removals):
        return True
    return any(path in removal.folders for removal in removals) and all(
        any(path + b"/" + name in removal.paths for removal in removals) for name in there.holds
    )


def _load_user_edits(store: ObjectStore, files: list[_File]) -> None:
    """Compute the user's edits since the base, with at most one call of git for all files."""
    object_format = str(store.description["objectFormat"])
    wanting = [
        file
        for file in files
        if file.wants_user_edits(object_format) and not file.find_user_edits(store, object_format)
    ]
    if not wanting:
        return
    before, after = [], []
    for number, file in enumerate(wanting):
        assert file.now is not None  # noqa: S101 - wants_user_edits said so
        name = b"%08d" % number
        before.append((name, "100644", file.split.change.old_blob))
        after.append((name, "100644", write_blob(store, file.now.content)))
    user_splits = line_splits(store, write_flat_tree(store, before), write_flat_tree(store, after))
    for number, file in enumerate(wanting):
        file.user_split = user_splits[b"%08d" % number]


def _load_contents(store: ObjectStore, files: list[_File]) -> None:
    object_format = str(store.description["objectFormat"])
    contents: dict[str, bytes] = {}
    for file in files:
        contents |= file.known(object_format)
    contents |= read_blobs(store, [blob for file in files for blob in file.blobs() if blob not in contents])
    for file in files:
        file.load(contents)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The new base, the commit to check out, and the pending hunks that it contains or does not contain."""

    base: Base
    start: str
    """The base plus the pending hunks, or the base if there are none. Diff ``base.commit``..``start``."""
    carried: Mapping[bytes, tuple[str, ...]]
    conflicts: tuple[HunkConflict, ...]


def follow_up(
    store: ObjectStore,
    repository: Repository,
    old_base: str,
    old_head: str,
    pending: Selection,
    *,
    buffers: Mapping[str | bytes, bytes] | None = None,
) -> FollowUp:
    """Write what the user sees now as the base, and merge the pending hunks of the old result into it.

    Accepted hunks are in the base, with the user's later edits; rejected hunks are gone. Raises the errors of
    ``capture.write_base`` and ``hunk_merge.plan``.
    """
    base = write_base(store, repository, buffers=buffers)
    planned = plan(store, old_base, old_head, pending, reader(store, base.commit))
    start = write_commit(store, base.commit, planned.changes, "Pending hunks")
    return FollowUp(base, start, planned.merged, planned.conflicts)
