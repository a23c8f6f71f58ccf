"""Apply the user's edit to a result: commit it as the new result and keep the decisions on unchanged hunks."""

from __future__ import annotations

import msgspec

from understudy.engine import text_encoding
from understudy.engine.review import decisions as review
from understudy.engine.review import review_state
from understudy.engine.worktrees import review_file
from understudy.git import commits, path_rules
from understudy.git import diff as git_diff
from understudy.journal import delegation_folder
from understudy.model import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, Hunk
from understudy.model.text import path_quoting
from understudy.model.verdicts import Reservation, Verdict

JUDGED = frozenset({Verdict.VERIFIED, Verdict.CHECKS_FAILED, Verdict.UNVERIFIED})
"""Verdicts that come from checks. The other verdicts do not change when the user edits the result."""


def amend(folder: delegation_folder.Folder, path: str, text: str, head: str) -> tuple[str, list[Hunk]]:
    """Replace the text of one file of the result; return the new result commit and the hunks of that file.

    Decisions on unchanged hunks stay. Errors: ``conflict`` (the result has changed since it was read), ``path_escape``
    (a result cannot contain this path), ``invalid_params`` (the file's encoding cannot represent the text).
    """
    with review.lock_result(folder) as at:
        review.refuse_without_result(at)
        if head != at.head:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"The result of {folder.id} has changed: it is {at.head[:12]}, no longer {head[:12]}.",
                hint="Read the result again, then edit it.",
            )
        raw = _checked_path(path)
        known = git_diff.read_file(at.store, at.head, raw) or git_diff.read_file(at.store, at.record.base_commit, raw)
        content = text_encoding.bytes_like(known[0] if known is not None else None, text)
        if content is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The text has characters that the encoding of {path} cannot represent.",
                hint="Use only characters of that encoding.",
            )
        files = replace_file(at, raw, content)
        return at.head, [hunk for file in files if file.path == path for hunk in file.hunks]


def replace_file(at: review.LockedResult, path: bytes, content: bytes | None) -> list[FileDiff]:
    """Commit another content of one file (None: without the file) as the result; return all files with their hunks."""
    folder, base, name = at.folder, at.record.base_commit, path_quoting.quote(path)
    new = commits.amend(at.store, base, at.head, path, content)
    before, before_verdict = at.files(), at.delegation.verdict
    after = git_diff.file_diffs(at.store, base, new)
    carried = _carried(at, before, after, name, new)
    touched = [hunk.id for file in after if file.path == name for hunk in file.hunks]
    edited = [hunk for hunk in touched if hunk not in carried]
    event = events.Amended(path=name, head=new, carried=carried, edited=edited)
    decisions = review_state.read(folder)
    decisions.take(event)
    files = decisions.on(after)
    review_file.write_review(folder, at.store, base, new)
    at.writer.append(msgspec.structs.replace(event, review=review_state.count(files)), attempt=0)
    if at.delegation.verdict is Verdict.UNVERIFIED and before_verdict in JUDGED:
        # The checks ran on the result before this edit.
        reservations = [*at.delegation.reservations]
        outdated = Reservation.CHECKS_OUTDATED if at.delegation.checks else Reservation.NO_CHECKS
        if outdated not in reservations:
            reservations.append(outdated)
        at.writer.append(events.Finished(verdict=Verdict.UNVERIFIED, reservations=reservations), attempt=0)
    at.writer.sync()
    return files


def _checked_path(path: str) -> bytes:
    try:
        raw = path_quoting.unquote(path)
    except ValueError as error:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"Invalid path {path!r}: {error}.", hint="Copy the path from the diff."
        ) from None
    if path_rules.refused(raw):
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"A result cannot contain {path!r}: the path is outside the workspace, or inside .git.",
            hint="Give the path of a file inside the workspace.",
        )
    return raw


def _carried(
    at: review.LockedResult, before: list[FileDiff], after: list[FileDiff], path: str, new: str
) -> dict[str, str]:
    """Map each new hunk to the old hunk that replaces the same lines with the same lines."""
    base = at.record.base_commit
    known: dict[tuple[object, ...], str] = {}
    for file in before:
        if file.path == path:
            for hunk in file.hunks:
                key = (file.status, file.binary, hunk.old_start, hunk.old_lines)
                known[*key, review_state.lines_of(at.store, base, at.head, file, hunk)] = hunk.id
    found = {}
    for file in after:
        if file.path == path and not file.binary:
            for hunk in file.hunks:
                key = (file.status, file.binary, hunk.old_start, hunk.old_lines)
                old = known.get((*key, review_state.lines_of(at.store, base, new, file, hunk)))
                if old is not None:
                    found[hunk.id] = old
    return found
