"""Remove the new tests that notice nothing from a result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from understudy.engine.review import amend
from understudy.engine.review import decisions as review
from understudy.git import diff as git_diff
from understudy.git import verification
from understudy.journal import delegation_folder
from understudy.judge.runs import evidence_record
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.mutation import noticed
from understudy.model.text import path_quoting
from understudy.model.text.name_list import name_list
from understudy.mutants.test_code.test_ids import KnownTests, LocatedTest
from understudy.mutants.test_code.without_tests import without_tests

_MOST_NAMED = 5


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
            amend.replace_file(at, os.fsencode(path), content)
        return DroppedTests(
            head=at.head,
            dropped=[test for test in chosen if test not in kept],
            files=[path_quoting.quote(os.fsencode(path)) for path in contents],
            kept=kept,
        )


def _idle(at: review.LockedResult) -> list[str]:
    """Return the tests of the result that notice nothing, from checks of exactly this result."""
    tree = verification.tree_of(at.store, at.head)
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
    record = evidence_record.read(at.folder.path)
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
