"""Diff two commits of a store: split the difference into hunks, count its lines, print it.

Only contents matter: attributes in the commits, external programs and text converters are ignored, so an agent cannot
hide a change by writing to `.gitattributes`.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from understudy.git import verification
from understudy.git.object_store import ObjectStore
from understudy.git.objects import read_blobs
from understudy.git.path_rules import flagged
from understudy.model.delegation.delegations import FileStat
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.text.hidden_text import why_hidden
from understudy.model.text.path_quoting import quote

Status = Literal["added", "deleted", "modified", "renamed", "mode", "type"]

FILE_BYTES = 32 * 1024 * 1024
"""A larger file is not read for a client (``read_file``) and counts as binary in a diff."""

UNIFIED_BYTES = 16 * 1024 * 1024
"""Largest diff of ``unified``; editors can open it, and users do not read more."""

_OPTIONS = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=none",
    "--find-renames=50%",
    "-l1000",
    "--diff-algorithm=histogram",
    "--no-indent-heuristic",
)
_LINK = "120000"
_CONFIG = {"core.bigFileThreshold": str(FILE_BYTES), "diff.ignoreSubmodules": "none"}
_MOVED = re.compile(rb"unable to normalize alternate object path: (.+)")
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WORDS: dict[str, Status] = {"A": "added", "D": "deleted", "M": "modified", "R": "renamed", "T": "type"}


LineRange = tuple[int, int, int, int]
"""Old start, old lines, new start, new lines: as in the ``@@`` line of `git diff -U0`."""


@dataclass(frozen=True, slots=True)
class RawChange:
    """One line of git's raw format."""

    letter: str
    old_mode: str
    new_mode: str
    old_blob: str
    new_blob: str
    path: bytes
    source: bytes

    @property
    def status(self) -> Status:
        """The status as in ``FileDiff``."""
        if self.letter == "M" and self.old_blob == self.new_blob:
            return "mode"
        return _WORDS[self.letter]


@dataclass(frozen=True, slots=True)
class Split:
    """One changed file and its ranges, before the ranges of a single-hunk file are joined."""

    change: RawChange
    binary: bool
    ranges: list[LineRange]
    removed: list[bytes]
    added: list[bytes]
    """The lines of all ranges in order, as in the patch, including line feeds."""
    like: bytes = b""
    """Another path of the result that some file systems take for a new one."""


@dataclass(slots=True)
class _Section:
    """One file of a patch."""

    binary: bool = False
    ranges: list[LineRange] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    added: list[bytes] = field(default_factory=list)


def file_diffs(store: ObjectStore, base: str, head: str) -> list[FileDiff]:
    """Return the changes from ``base`` to ``head`` by file, in the order of paths; every hunk is pending.

    A hunk is a maximal run of changed lines (histogram, no context), with starts as in `git diff -U0`: one-based, and
    for an empty side the line before. Creation, deletion, rename, change of type or mode and binary contents are one
    hunk each. If the mode changes along with the contents, its hunk comes first. Hunks without lines are all zeros.
    A hunk's id depends only on the path, both blobs and its place in the file.

    Errors: ``base_unavailable`` when a commit is missing, ``file_too_large`` for a difference beyond the limits.
    """
    return files_of(splits(store, base, head))


def files_of(difference: Iterable[Split]) -> list[FileDiff]:
    """Return ``file_diffs`` of what ``splits`` returned."""
    return [
        FileDiff(
            path=quote(split.change.path),
            from_=quote(split.change.source) if split.change.letter == "R" else None,
            status=split.change.status,
            binary=split.binary,
            flag_reason=_flag_reason(split),
            hunks=_hunks(split.change, split.ranges, binary=split.binary),
        )
        for split in difference
    ]


def _flag_reason(split: Split) -> str | None:
    """Return why an accept of a file needs consent: by its name, or because a reader cannot see what it adds."""
    change = split.change
    reason = flagged(change.path) or (flagged(change.source) if change.source != change.path else None)
    if reason is None and change.new_mode == _LINK and any(b".git" in line.strip().split(b"/") for line in split.added):
        return "is a link into a git directory"
    if reason is None and split.like:
        return f"has the name of {quote(split.like)}, but for upper and lower case or the form of its letters"
    return reason or why_hidden(line.decode("utf-8", "replace") for line in split.added)


def splits(store: ObjectStore, base: str, head: str, *, verified: bool = False) -> list[Split]:
    """Return the data for ``file_diffs`` from one call of git: paths as bytes, and every range of single-hunk files.

    Commits never change, so the last small differences are cached. ``verified``: the caller has just verified the
    objects of this change. Raises the errors of ``file_diffs``.
    """
    key = (str(store.path), base, head)
    remembered = _remembered.get(key)
    if remembered is None:
        if not verified:
            verification.require_change(store, base, head)
        remembered = _splits(store, base, head)
        if sum(len(line) for split in remembered for line in (*split.removed, *split.added)) <= _REMEMBERED_BYTES:
            while len(_remembered) >= _REMEMBERED:
                _remembered.pop(next(iter(_remembered)))
            _remembered[key] = remembered
    return list(remembered)


_REMEMBERED = 8
_REMEMBERED_BYTES = 1 << 20
_remembered: dict[tuple[str, str, str], list[Split]] = {}


def _splits(store: ObjectStore, base: str, head: str) -> list[Split]:
    output = _diff_tree(store, base, head, "--raw", "-p", "-U0", "-z", "--full-index")
    # Each raw line ends with a NUL, and another NUL follows the last; the patch still quotes its names.
    raw, _, patch = output.partition(b"\0\0")
    changes = _parse_changes(raw.split(b"\0")) if raw else []
    sections = _parse_sections(patch)
    like = _namesakes(store, head, [change.path for change in changes if change.letter in {"A", "R"}])
    file_splits = []
    position = 0
    for change in changes:
        # A change of type is printed as a deletion and a creation.
        count = 2 if change.letter == "T" else 1
        of_file = sections[position : position + count]
        position += count
        binary = any(section.binary for section in of_file)
        ranges = [] if binary else [line_range for section in of_file for line_range in section.ranges]
        removed, added = (of_file[0].removed, of_file[-1].added) if of_file else ([], [])
        file_splits.append(Split(change, binary, ranges, removed, added, like.get(change.path, b"")))
    if position != len(sections):
        raise UnderstudyError(ErrorKind.INTERNAL, f"The difference of {base[:12]} and {head[:12]} could not be parsed.")
    return file_splits


def _namesakes(store: ObjectStore, head: str, new: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return new path → a file or folder of ``head`` that macOS and Windows take for it, or for its folder."""
    if not new:
        return {}
    listed = store.git_output("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", head)
    names: dict[str, set[bytes]] = {}
    for path in listed.split(b"\0")[:-1]:
        for part in _with_folders(path):
            names.setdefault(_folded(part), set()).add(part)
    taken_for: dict[bytes, bytes] = {}
    for path in new:
        for part in _with_folders(path):
            others = names.get(_folded(part), set()) - {part}
            if others:
                taken_for.setdefault(path, min(others))
    return taken_for


def _with_folders(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _folded(path: bytes) -> str:
    return unicodedata.normalize("NFC", os.fsdecode(path)).casefold()


def hunk_ids(split: Split) -> list[str]:
    """Return the ids of a file's hunks in ``file_diffs``, in order."""
    return [hunk.id for hunk in _hunks(split.change, split.ranges, binary=split.binary)]


def line_splits(store: ObjectStore, base: str, head: str) -> dict[bytes, Split]:
    """Return path → ranges of changed lines between two trees, treating every content as text; for ``merge``."""
    verification.require_change(store, base, head)
    output = _diff_tree(store, base, head, "--raw", "-p", "-U0", "-z", "--full-index", "--text", "--no-renames")
    raw, _, patch = output.partition(b"\0\0")
    changes = _parse_changes(raw.split(b"\0")) if raw else []
    return {
        change.path: Split(change, section.binary, section.ranges, section.removed, section.added)
        for change, section in zip(changes, _parse_sections(patch), strict=True)
    }


def stats_of(difference: Iterable[Split]) -> list[FileStat]:
    """Return the number of added and deleted lines of each file that ``splits`` returned; binary files count none."""
    return [
        FileStat(
            path=quote(split.change.path),
            status=split.change.status,
            additions=sum(lines for _, _, _, lines in split.ranges),
            deletions=sum(lines for _, lines, _, _ in split.ranges),
        )
        for split in difference
    ]


def unified(store: ObjectStore, base: str, head: str) -> bytes:
    """Return an ordinary `git diff` with three lines of context.

    Above 16 MiB, only the headers of large files are included, so that one of them cannot displace the others. If it
    is still too large, it ends before the first file that does not fit, with a line that says so.
    """
    verification.require_change(store, base, head)
    arguments = ("-r", "-p", "-U3", "--full-index", *_OPTIONS, "--end-of-options", base, head)
    for shown in (FILE_BYTES, UNIFIED_BYTES // 16, UNIFIED_BYTES // 256):
        config = _CONFIG | {"core.bigFileThreshold": str(shown)}
        completed = store.run_git("diff-tree", *arguments, output_limit=UNIFIED_BYTES, extra_config=config)
        if completed.truncated:
            continue
        if completed.code != 0:
            raise _unavailable(base, head, completed.stderr)
        if shown < FILE_BYTES:
            return completed.stdout + b"# Files above %d bytes are too large to be shown.\n" % shown
        return completed.stdout
    whole = completed.stdout.rfind(b"\ndiff --git ") + 1
    return completed.stdout[:whole] + b"# The rest of this difference is too large to be shown.\n"


def changed_paths(store: ObjectStore, a: str, b: str) -> list[tuple[Status, bytes]]:
    """Return the status and path of every difference; a rename is a deletion and an addition."""
    return [(change.status, change.path) for change in _changes(store, a, b, "--no-renames")]


def read_file(store: ObjectStore, commit: str, path: bytes, *, limit: int = FILE_BYTES) -> tuple[bytes, str] | None:
    """Return the contents and git's mode of a file in a commit; None when there is no such file, or a submodule.

    A link's contents are its target. Raises ``file_too_large`` above ``limit`` bytes.
    """
    last = verification.find_path(store, commit, path)
    if last is None or last.kind != "blob":
        return None
    if last.size > limit:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"{quote(path)} has {last.size} bytes (limit {limit}).",
            hint="Open it in the worktree.",
        )
    return read_blobs(store, [last.identifier])[last.identifier], last.mode


def read_files(
    store: ObjectStore, commit: str, paths: Iterable[bytes], *, limit: int, total: int
) -> dict[bytes, bytes]:
    """Return the contents of regular files of a commit, with two calls of git.

    Left out are files above ``limit`` bytes, and all that follow once the contents have ``total`` bytes.
    """
    output = store.git_output("ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", commit)
    listed: dict[bytes, tuple[str, int]] = {}
    for entry in output.split(b"\0")[:-1]:
        details, _, path = entry.partition(b"\t")
        mode, _, identifier, size = details.split()
        if mode.startswith(b"100"):
            listed[path] = (identifier.decode("ascii"), int(size))
    identifiers: dict[bytes, str] = {}
    for path in paths:
        identifier_, bytes_ = listed.get(path, ("", limit + 1))
        if bytes_ <= limit:
            total -= bytes_
            if total < 0:
                break
            identifiers[path] = identifier_
    contents = read_blobs(store, identifiers.values())
    return {path: contents[identifier_] for path, identifier_ in identifiers.items()}


def _hunks(change: RawChange, ranges: list[LineRange], *, binary: bool) -> list[Hunk]:
    if binary or change.letter in {"A", "D", "R", "T"} or change.status == "mode":
        ranges = [_joined(ranges)]
    elif change.old_mode != change.new_mode:
        ranges = [(0, 0, 0, 0), *ranges]
    hunks = []
    for ordinal, (old_start, old_lines, new_start, new_lines) in enumerate(ranges):
        key = b"\0".join((change.path, change.old_blob.encode(), change.new_blob.encode(), str(ordinal).encode()))
        hunks.append(
            Hunk(
                id=hashlib.sha256(key).hexdigest()[:12],
                old_start=old_start,
                old_lines=old_lines,
                new_start=new_start,
                new_lines=new_lines,
                state=HunkState.PENDING,
                conflict=False,
                edited=False,
            )
        )
    return hunks


def _joined(ranges: list[LineRange]) -> LineRange:
    """Return the smallest range around all; a deletion and a creation (a change of type) become a replacement."""
    if not ranges:
        return 0, 0, 0, 0
    olds = [(start, start + lines) for start, lines, _, _ in ranges if lines]
    news = [(start, start + lines) for _, _, start, lines in ranges if lines]
    old_start, old_end = (min(s for s, _ in olds), max(e for _, e in olds)) if olds else (ranges[0][0], ranges[0][0])
    new_start, new_end = (min(s for s, _ in news), max(e for _, e in news)) if news else (ranges[0][2], ranges[0][2])
    return old_start, old_end - old_start, new_start, new_end - new_start


def _diff_tree(store: ObjectStore, base: str, head: str, *options: str) -> bytes:
    completed = store.run_git(
        "diff-tree", "-r", *_OPTIONS, *options, "--end-of-options", base, head, extra_config=_CONFIG
    )
    if completed.truncated:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"The difference of {base[:12]} and {head[:12]} is too large to be split into hunks.",
            hint="Review the files in the worktree.",
        )
    if completed.code != 0:
        raise _unavailable(base, head, completed.stderr)
    return completed.stdout


def _changes(store: ObjectStore, base: str, head: str, *options: str) -> list[RawChange]:
    return _parse_changes(_diff_tree(store, base, head, "--raw", "-z", "--full-index", *options).split(b"\0")[:-1])


def _parse_changes(fields: list[bytes]) -> list[RawChange]:
    changes = []
    position = 0
    while position < len(fields):
        old_mode, new_mode, old_blob, new_blob, letter = fields[position][1:].decode().split(" ")
        source = path = fields[position + 1]
        position += 2
        if letter[0] == "R":
            path = fields[position]
            position += 1
        changes.append(RawChange(letter[0], old_mode, new_mode, old_blob, new_blob, path, source))
    return changes


def _parse_sections(patch: bytes) -> list[_Section]:
    """Return the files of the patch, in git's order.

    Lines of contents begin with a sign or a backslash and names are quoted (``core.quotePath``), so a line that begins
    with ``diff --git`` or ``@@`` is git's own.
    """
    sections: list[_Section] = []
    last: list[bytes] = []
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            sections.append(_Section())
        elif line.startswith(b"Binary files "):
            sections[-1].binary = True
        elif line.startswith(b"@@ ") and (match := _HUNK.match(line)):
            old_start, old_lines, new_start, new_lines = match.groups()
            sections[-1].ranges.append((int(old_start), int(old_lines or 1), int(new_start), int(new_lines or 1)))
        elif sections and sections[-1].ranges and line[:1] in {b"+", b"-"}:
            last = sections[-1].added if line[:1] == b"+" else sections[-1].removed
            last.append(line[1:] + b"\n")
        elif line.startswith(b"\\ ") and last:
            last[-1] = last[-1][:-1]
    return sections


def _unavailable(base: str, head: str, stderr: bytes) -> UnderstudyError:
    moved = _MOVED.search(stderr)
    if moved is not None:
        place = moved[1].decode(errors="replace")
        return UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The repository that this delegation started from no longer exists at {place}.",
            hint="Move it back to that path. `understudy diff` still shows the change as text.",
        )
    return UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"{base[:12]} and {head[:12]} cannot be compared: {stderr.decode(errors='replace').strip()[-300:]}",
        hint="Their object store may have been removed.",
    )
