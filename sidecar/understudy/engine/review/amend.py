"""Change a result: apply the user's edit, or drop new tests that notice nothing. Decisions on unchanged hunks stay."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from understudy.engine.review import decisions as review
from understudy.engine.review import review_state
from understudy.engine.worktrees import worktree_record
from understudy.files import user_file
from understudy.git import changes, path_rules
from understudy.git import diff as git_diff
from understudy.git.merge import hunk_merge
from understudy.git.object_store import ObjectStore
from understudy.git.verification import tree_of
from understudy.journal import delegation_folder
from understudy.judge import check_findings
from understudy.model.delegation import events
from understudy.model.delegation.spec import Origin
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import noticed
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation, Verdict
from understudy.mutants.test_code.removed_tests import without_tests
from understudy.mutants.test_code.test_ids import KnownTests, LocatedTest

JUDGED = frozenset({Verdict.VERIFIED, Verdict.CHECKS_FAILED, Verdict.UNVERIFIED})
"""Verdicts that come from checks. The other verdicts do not change when the user edits the result."""
_MOST_NAMED = 5


def amend(folder: delegation_folder.Folder, path: str, text: str, head: str) -> tuple[str, list[Hunk]]:
    """Replace the text of one file of the result; return the new result commit and the hunks of that file.

    Decisions on unchanged hunks stay. A text that changes nothing is not recorded. Errors: ``conflict`` (the result has
    changed since it was read), ``path_escape`` (a result cannot contain this path), ``invalid_params`` (the file's
    encoding cannot represent the text).
    """
    with review.lock_result(folder) as at:
        _refuse_changed(at, head)
        raw = _checked_path(path)
        existing = git_diff.read_file(at.store, at.head, raw) or git_diff.read_file(
            at.store, at.record.base_commit, raw
        )
        content = user_file.bytes_like(existing[0] if existing is not None else None, text)
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
    new = changes.amend(at.store, at.record.base_commit, at.head, path, content)
    return _replace_result(at, path_quoting.quote(path), new)


def undo_amend(folder: delegation_folder.Folder, path: str, head: str) -> tuple[str, list[Hunk]]:
    """Undo the last edit of one file of the result; return the new result commit and the hunks of that file.

    The file and the decisions on its hunks are as before the edit; if that makes the result equal to one that the
    checks judged, its verdict is valid again. Errors: ``conflict`` (the result has changed since it was read, or an
    edited hunk is in the user's files), ``invalid_params`` (the file has no edit to undo).
    """
    with review.lock_result(folder) as at:
        _refuse_changed(at, head)
        raw = _checked_path(path)
        edits = review_state.read(folder).edits.get(path)
        if not edits:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{path} has no edit to undo in the result of {folder.id}.",
                hint=f"`understudy show {folder.id}` lists the files of the result.",
            )
        new = changes.restore(at.store, at.head, edits[-1].before, raw)
        files = _replace_result(at, path, new, undoes=edits[-1].head)
        return new, [hunk for file in files if file.path == path for hunk in file.hunks]


def _refuse_changed(at: review.LockedResult, head: str) -> None:
    review.refuse_without_result(at)
    if head != at.head:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The result of {at.folder.id} has changed: it is {at.head[:12]}, no longer {head[:12]}.",
            hint="Read the result again, then edit it.",
        )


def _replace_result(at: review.LockedResult, path: str, new: str, undoes: str | None = None) -> list[FileDiff]:
    """Record that ``new`` is the result, which differs in the file ``path``; return all files with their hunks."""
    base = at.record.base_commit
    before, before_verdict = at.files(), at.delegation.verdict
    if new == at.head and undoes is None:
        return before
    after = git_diff.file_diffs(at.store, base, new)
    carried = _carried(at, before, after, path, new)
    touched = [hunk.id for file in after if file.path == path for hunk in file.hunks]
    if undoes is not None:
        _refuse_accepted(at, before, path, set(carried.values()))
    event = events.Amended(
        path=path,
        head=new,
        carried=carried,
        edited=[hunk for hunk in touched if hunk not in carried] if undoes is None else [],
        undoes=undoes,
    )
    decisions = review_state.read(at.folder)
    decisions.take(event)
    files = decisions.on(after)
    worktree_record.write_review(at.folder, at.store, base, new)
    at.writer.append(msgspec.structs.replace(event, review=review_state.count(files)), attempt=0)
    if at.delegation.verdict is Verdict.UNVERIFIED and before_verdict in JUDGED:
        judged = _judged_before(at, decisions, new)
        if judged is not None:
            at.writer.append(
                events.Finished(
                    verdict=judged.verdict,
                    reservations=judged.reservations,
                    reservation_facts=judged.reservation_facts,
                    places=judged.places,
                    error=judged.error,
                ),
                attempt=0,
            )
            review_state.update(at.writer, files)
        else:
            # The checks ran on the result before this edit.
            reservations = [*at.delegation.reservations]
            outdated = Reservation.CHECKS_OUTDATED if at.delegation.checks else Reservation.NO_CHECKS
            if outdated not in reservations:
                reservations.append(outdated)
            facts = at.delegation.reservation_facts
            at.writer.append(
                events.Finished(verdict=Verdict.UNVERIFIED, reservations=reservations, reservation_facts=facts),
                attempt=0,
            )
    at.writer.sync()
    return files


def _refuse_accepted(at: review.LockedResult, before: list[FileDiff], path: str, kept: set[str]) -> None:
    """Raise ``conflict`` if a hunk that the undo removes is in the user's files."""
    for file in before:
        for hunk in file.hunks:
            if file.path == path and hunk.state is HunkState.ACCEPTED and hunk.id not in kept:
                raise UnderstudyError(
                    ErrorKind.CONFLICT,
                    f"The edited hunk {hunk.id} of {path} is in your files.",
                    hint=f"Undo its accept first: understudy undo {hunk.undo_token}"
                    if hunk.undo_token is not None
                    else f"Undo its accept first: understudy show {at.folder.id}",
                )


def _judged_before(at: review.LockedResult, state: review_state.ReviewState, new: str) -> events.Finished | None:
    """Return the last verdict on the files of ``new``, if the known outcomes of the checks belong to exactly them."""
    tree = tree_of(at.store, new)
    if any(check.tree != tree for check in at.delegation.checks):
        return None
    return next(
        (finished for head, finished in reversed(state.judged.items()) if tree_of(at.store, head) == tree),
        None,
    )


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
    old_hunks: dict[tuple[object, ...], str] = {}
    for file in before:
        if file.path == path:
            for hunk in file.hunks:
                key = (file.status, file.binary, hunk.old_start, hunk.old_lines)
                old_hunks[*key, review_state.lines_of(at.store, base, at.head, file, hunk)] = hunk.id
    carried = {}
    for file in after:
        if file.path == path and not file.binary:
            for hunk in file.hunks:
                key = (file.status, file.binary, hunk.old_start, hunk.old_lines)
                old = old_hunks.get((*key, review_state.lines_of(at.store, base, new, file, hunk)))
                if old is not None:
                    carried[hunk.id] = old
    return carried


def lost_edits(origin: Origin, objects: ObjectStore, head: str) -> str | None:
    """Return a sentence about the user's edits of the parent's result that the result ``head`` of a reply lacks."""
    before = origin.head or origin.base
    lost = []
    for file in git_diff.file_diffs(objects, origin.base, before) if origin.edited else []:
        for hunk in file.hunks:
            if hunk.id in origin.edited:
                chosen = review_state.selection([(file.path, hunk.id)])
                plan = hunk_merge.plan(objects, origin.base, before, chosen, changes.reader(objects, head))
                if plan.changes or plan.conflicts:
                    lost.append(f"line {hunk.new_start} of {path_quoting.readable(file.path)}")
    if not lost:
        return None
    return (
        f"Changes that you had edited are not in this result as you left them: {name_list(lost, _MOST_NAMED)}. "
        f"They are in the result of {origin.parent}."
    )


@dataclass(frozen=True, slots=True)
class DroppedTests:
    """What a call removed."""

    head: str
    """The new result commit."""
    dropped: list[str]
    """Ids of the tests that are gone."""
    files: list[str]
    """The changed or deleted files, as wire paths."""
    kept: dict[str, str]
    """Id of a test that notices nothing → why it was not removed."""


def drop(folder: delegation_folder.Folder, tests: Sequence[str]) -> DroppedTests:
    """Remove the definitions of tests that notice nothing, of all such tests if ``tests`` is empty.

    The user's files and the base's tests stay. Each changed file is an edit as by ``amend``. Errors: those of
    ``amend``; ``conflict`` (the checks ran on an earlier result), ``input_empty`` (no test can be dropped),
    ``invalid_params`` (a test notices something, is in the base, or its definition is not found; nothing changes).
    """
    with review.lock_result(folder) as at:
        review.refuse_without_result(at)
        idle = _idle(at)
        unknown = [test for test in tests if test not in idle]
        if unknown:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"These tests are not among those that notice nothing: {name_list(unknown, _MOST_NAMED)}.",
                hint=f"The card lists them: understudy show {folder.id}",
                names=idle,
            )
        known_tests = _known_tests(at)
        chosen = {test: known_tests.find(test) for test in tests or idle}
        missing = [test for test, located in chosen.items() if located is None]
        if missing:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The definition of these tests was not found in the changed files: {name_list(missing, _MOST_NAMED)}.",
                hint=f"Name other tests, or edit the file: understudy amend {folder.id} PATH",
                names=missing,
            )
        others = {test: known_tests.find(test) for test in sorted(_others(at, idle))}
        kept: dict[str, str] = {}
        gone: dict[str, set[LocatedTest]] = {}
        for test, located in chosen.items():
            if located is None:
                continue
            why = _why_kept(known_tests, located, others)
            if why is None:
                gone.setdefault(located.path, set()).add(located)
            else:
                kept[test] = why
        if kept and (tests or not gone):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS if tests else ErrorKind.INPUT_EMPTY,
                f"No test was dropped: {'; '.join(f'{test} {why}' for test, why in list(kept.items())[:_MOST_NAMED])}.",
                hint="Name other tests." if tests else f"Edit the file instead: understudy amend {folder.id} PATH",
                names=list(kept),
            )
        contents = {path: _without(known_tests, path, ones) for path, ones in gone.items()}
        for path, content in contents.items():
            replace_file(at, os.fsencode(path), content)
        return DroppedTests(
            head=at.head,
            dropped=[test for test in chosen if test not in kept],
            files=[path_quoting.quote(os.fsencode(path)) for path in contents],
            kept=kept,
        )


def _idle(at: review.LockedResult) -> list[str]:
    """Return the tests of the result that notice nothing, from checks of exactly this result."""
    tree = tree_of(at.store, at.head)
    if any(check.mutation is not None and check.tree != tree for check in at.delegation.checks):
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The result of {at.folder.id} has changed since its checks ran.",
            hint=f"Run them again: understudy check {at.folder.id}",
        )
    evidence = noticed(check.mutation for check in at.delegation.checks)
    if evidence is None or not evidence.idle:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY,
            f"No test of {at.folder.id} is known to notice nothing.",
            hint=f"See what its checks showed: understudy show {at.folder.id}",
        )
    return evidence.idle


def _others(at: review.LockedResult, idle: Sequence[str]) -> set[str]:
    """Return all tests of the result that are not known to notice nothing."""
    record = check_findings.read_record(at.folder.path)
    checks = record.checks if record is not None else []
    tests = {test for check in checks for run in check.runs if run.on == "result" for test in run.outcomes}
    judged = [check.mutation for check in at.delegation.checks if check.mutation is not None]
    tests.update(test for result in judged for mutant in result.mutants for test in mutant.killed_by)
    return tests - set(idle)


def _known_tests(at: review.LockedResult) -> KnownTests:
    base, head = at.record.base_commit, at.head
    files = [
        (_path(file.path) if file.status != "deleted" else None, _path(file.from_ or file.path)) for file in at.files()
    ]

    def read(commit: str, path: str) -> bytes | None:
        try:
            blob = git_diff.read_file(at.store, commit, os.fsencode(path))
        except UnderstudyError as error:
            if error.kind is not ErrorKind.FILE_TOO_LARGE:
                raise
            return None
        return None if blob is None or blob[1] not in {"100644", "100755"} else blob[0]

    return KnownTests(files, lambda path: read(head, path), lambda path: read(base, path))


def _path(wire: str) -> str:
    return os.fsdecode(path_quoting.unquote(wire))


def _why_kept(known_tests: KnownTests, located: LocatedTest, others: dict[str, LocatedTest | None]) -> str | None:
    """Return why a definition must stay; None if it can go."""
    if not known_tests.is_new(located):
        return "exists in the base"
    for test, other in others.items():
        if other == located:
            return f"is also {test}, which may notice something"
        if other is None and located.may_be_inherited(test):
            return f"may be inherited as {test}, which may notice something"
    return None


def _without(known_tests: KnownTests, path: str, gone: set[LocatedTest]) -> bytes | None:
    try:
        return without_tests(
            path, known_tests.contents[path], {test.definition for test in gone}, known_tests.base[path]
        )
    except ValueError as error:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"The tests were not dropped: {error}.", hint="Edit the file instead."
        ) from None
