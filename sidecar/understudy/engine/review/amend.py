"""A person's own edits on the result side: a new result, split anew; decisions stay where the hunk is the same."""

from __future__ import annotations

import msgspec

from understudy.engine import ground, review, standing, texts
from understudy.git import commits, names
from understudy.git import diff as git_diff
from understudy.journal import store
from understudy.model import events
from understudy.model.delegations import FileDiff, Hunk
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import Reservation, Verdict

JUDGED = frozenset({Verdict.VERIFIED, Verdict.CHECKS_FAILED, Verdict.UNVERIFIED})
"""Verdicts that come from checks; how the work itself ended does not change with an edit."""


def amend(folder: store.Folder, path: str, text: str, head: str) -> tuple[str, list[Hunk]]:
    """Replace a file on the result side by hand; return the new result and the hunks of that file.

    Decisions on hunks that are the same as before hold. Errors: ``conflict`` (the result is another one by now),
    ``path_escape`` (a name that no result can have), ``invalid_params`` (the text does not fit the file's encoding).
    """
    with review.opened(folder) as at:
        review.refuse_without_result(at)
        if head != at.head:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"The result of {folder.id} is {at.head[:12]}, not {head[:12]} any more.",
                hint="Read it again, then edit.",
            )
        base = at.record.base_commit
        raw = _inside(path)
        known = git_diff.read_file(at.store, at.head, raw) or git_diff.read_file(at.store, base, raw)
        content = texts.bytes_like(known[0] if known is not None else None, text)
        if content is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The text does not fit the encoding of {path}.",
                hint="Keep to the characters of that encoding.",
            )
        before, before_verdict = at.files(), at.delegation.verdict
        new = commits.amend(at.store, base, at.head, raw, content)
        after = git_diff.file_diffs(at.store, base, new)
        carried = _carried(at, before, after, path, new)
        touched = [hunk.id for file in after if file.path == path for hunk in file.hunks]
        edited = [hunk for hunk in touched if hunk not in carried]
        event = events.Amended(path=path, head=new, carried=carried, edited=edited)
        decisions = standing.read(folder)
        decisions.take(event)
        files = decisions.on(after)
        ground.write_review(folder, at.store, base, new)
        at.writer.append(msgspec.structs.replace(event, review=standing.count(files)), attempt=0)
        if at.delegation.verdict is Verdict.UNVERIFIED and before_verdict in JUDGED:
            # The checks judged another tree.
            reservations = [*at.delegation.reservations]
            if Reservation.NO_CHECKS not in reservations:
                reservations.append(Reservation.NO_CHECKS)
            at.writer.append(events.Finished(verdict=Verdict.UNVERIFIED, reservations=reservations), attempt=0)
        at.writer.sync()
        return new, [hunk for file in files if file.path == path for hunk in file.hunks]


def _inside(path: str) -> bytes:
    try:
        raw = names.unquote(path)
    except ValueError as error:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{path!r} is no path: {error}.", hint="Name it as the diff does."
        ) from None
    if names.refused(raw):
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{path!r} is not a file that a result can have: it leads outside of the workspace, or into .git.",
            hint="Name a file by its path inside the workspace.",
        )
    return raw


def _carried(at: review.Opened, before: list[FileDiff], after: list[FileDiff], path: str, new: str) -> dict[str, str]:
    """Return hunk after → hunk before, where both replace the same lines by the same lines."""
    base = at.record.base_commit
    known: dict[tuple[object, ...], str] = {}
    for file in before:
        if file.path == path:
            for hunk in file.hunks:
                key = (file.status, file.binary, hunk.old_start, hunk.old_lines)
                known[*key, standing.lines_of(at.store, base, at.head, file, hunk)] = hunk.id
    found = {}
    for file in after:
        if file.path == path and not file.binary:
            for hunk in file.hunks:
                key = (file.status, file.binary, hunk.old_start, hunk.old_lines)
                old = known.get((*key, standing.lines_of(at.store, base, new, file, hunk)))
                if old is not None:
                    found[hunk.id] = old
    return found
