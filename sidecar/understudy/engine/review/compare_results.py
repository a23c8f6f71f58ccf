"""Align the hunks of several results of one request: which of them change the same lines, and in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from understudy.engine.review import review_state
from understudy.engine.worktrees.worktree_record import load_record
from understudy.git import diff as git_diff
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation.compared_results import MOST_LINES, ComparedFile, ComparedHunk, ComparedPlace, Variant
from understudy.model.hunks import FileDiff, Hunk, HunkState

_WHOLE_FILE = (-1, 1 << 60)


@dataclass(frozen=True, slots=True)
class ComparableResult:
    """The changes of one result, in the order of paths."""

    id: str
    changes: list[tuple[git_diff.Split, FileDiff]]


@dataclass(frozen=True, slots=True)
class _Piece:
    """One hunk of one result."""

    result: str
    hunk: ComparedHunk
    span: tuple[int, int]
    """Where it is in the base, in half lines, so that an insertion is between two lines; neighbours overlap."""
    lines: tuple[int, int]
    """First line and number of lines in the base."""
    removed: tuple[bytes, ...]
    added: tuple[bytes, ...]
    note: str | None
    same: tuple[object, ...]
    """Equal for hunks that do the same."""


def read(folder: Folder, head: str) -> ComparableResult:
    """Read the changes and decisions of a finished delegation. Errors: ``base_unavailable``, ``file_too_large``."""
    record, objects = load_record(folder)
    splits = git_diff.splits(objects, record.base_commit, head)
    files = review_state.read(folder).on(git_diff.files_of(splits))
    return ComparableResult(folder.id, list(zip(splits, files, strict=True)))


def compare(results: Sequence[ComparableResult]) -> list[ComparedFile]:
    """Return every changed file, its places in the order of their lines."""
    pieces: dict[str, dict[str, list[_Piece]]] = {}
    flags: dict[str, str] = {}
    for result in results:
        for split, file in result.changes:
            if file.flag_reason is not None:
                flags.setdefault(file.path, file.flag_reason)
            # Lines of different bases have nothing to do with each other.
            pieces.setdefault(file.path, {}).setdefault(split.change.old_blob, []).extend(
                _pieces(result.id, split, file)
            )
    ids = [result.id for result in results]
    return [
        ComparedFile(
            path=path,
            flag_reason=flags.get(path),
            places=[_place(together, ids) for base in pieces[path].values() for together in _overlapping(base)],
        )
        for path in sorted(pieces)
    ]


def _pieces(result: str, split: git_diff.Split, file: FileDiff) -> Iterable[_Piece]:
    texts = _texts(split, file.hunks)
    for hunk, (removed, added) in zip(file.hunks, texts, strict=True):
        whole = file.status != "modified" or file.binary
        has_lines = bool(hunk.old_lines or hunk.new_lines)
        note = None
        if whole or not has_lines:
            note = _note(split, file)
        yield _Piece(
            result=result,
            hunk=ComparedHunk(
                delegation=result,
                hunk=hunk.id,
                path=file.path,
                state=hunk.state,
                conflict=hunk.conflict,
                tested=hunk.tested,
            ),
            span=_WHOLE_FILE if whole else _span(hunk) if has_lines else (-1, -1),
            lines=(0, 0) if whole or not has_lines else (hunk.old_start, hunk.old_lines),
            removed=removed,
            added=added,
            note=note,
            same=(file.status, split.change.new_blob, split.change.new_mode, split.change.source)
            if whole or not has_lines
            else (hunk.old_start, hunk.old_lines, added),
        )


def _span(hunk: Hunk) -> tuple[int, int]:
    if hunk.old_lines == 0:
        return 2 * hunk.old_start + 1, 2 * hunk.old_start + 1
    return 2 * hunk.old_start - 1, 2 * (hunk.old_start + hunk.old_lines) - 1


def _texts(split: git_diff.Split, hunks: Sequence[Hunk]) -> list[tuple[tuple[bytes, ...], tuple[bytes, ...]]]:
    """Return the removed and added lines of each hunk; a file that is one hunk has them all in it."""
    if len(hunks) == 1:
        return [(tuple(split.removed), tuple(split.added))]
    texts: list[tuple[tuple[bytes, ...], tuple[bytes, ...]]] = []
    removed = added = 0
    for hunk in hunks:
        texts.append(
            (
                tuple(split.removed[removed : removed + hunk.old_lines]),
                tuple(split.added[added : added + hunk.new_lines]),
            )
        )
        removed += hunk.old_lines
        added += hunk.new_lines
    return texts


def _note(split: git_diff.Split, file: FileDiff) -> str | None:
    change = split.change
    if file.status == "renamed":
        return f"Renamed from {file.from_}."
    if file.binary:
        return {"added": "New binary file.", "deleted": "Deleted binary file."}.get(file.status, "Binary file.")
    return {
        "added": "New file.",
        "deleted": "Deleted file.",
        "type": "Another type of file.",
    }.get(file.status, f"Mode {change.old_mode} → {change.new_mode}.")


def _overlapping(pieces: Iterable[_Piece]) -> Iterable[list[_Piece]]:
    """Return the pieces that change the same lines, or neighbouring ones, in the order of their lines."""
    together: list[_Piece] = []
    end = -2
    for piece in sorted(pieces, key=lambda piece: piece.span):
        if together and piece.span[0] > end:
            yield together
            together = []
            end = -2
        together.append(piece)
        end = max(end, piece.span[1])
    if together:
        yield together


def _place(pieces: Sequence[_Piece], ids: Sequence[str]) -> ComparedPlace:
    by_result = {result: [piece for piece in pieces if piece.result == result] for result in ids}
    groups: dict[tuple[object, ...], list[str]] = {}
    for result, its_pieces in by_result.items():
        if its_pieces:
            groups.setdefault(tuple(piece.same for piece in its_pieces), []).append(result)
    accepted = {piece.result for piece in pieces if piece.hunk.state is HunkState.ACCEPTED}
    variants = []
    for agreeing in sorted(groups.values(), key=len, reverse=True):
        first = by_result[agreeing[0]]
        removed = [line for piece in first for line in piece.removed]
        added = [line for piece in first for line in piece.added]
        notes = [piece.note for piece in first if piece.note is not None]
        is_accepted = any(result in accepted for result in agreeing)
        variants.append(
            Variant(
                delegations=agreeing,
                hunks=[piece.hunk for result in agreeing for piece in by_result[result]],
                removed=[_shown(line) for line in removed[:MOST_LINES]],
                added=[_shown(line) for line in added[:MOST_LINES]],
                omitted=max(0, len(removed) - MOST_LINES) + max(0, len(added) - MOST_LINES),
                note=" ".join(notes) or None,
                conflicts_with=[] if is_accepted else sorted(accepted),
            )
        )
    start = min(piece.lines[0] for piece in pieces)
    end = max(piece.lines[0] + piece.lines[1] for piece in pieces)
    return ComparedPlace(
        start=start,
        lines=end - start,
        variants=variants,
        unchanged=[result for result, its_pieces in by_result.items() if not its_pieces],
    )


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
