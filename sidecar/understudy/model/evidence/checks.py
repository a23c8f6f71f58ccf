"""Checks, mutation testing, and how much evidence a result needs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from typing import Literal

import msgspec

from understudy.model.confinement import Sandbox
from understudy.model.wire import Strict, Wire

FEW_MUTANTS = 20
MANY_MUTANTS = 40
"""Mutants for a check that takes more than ``SLOW_SECONDS``: the share of its start in each run is small."""
SLOW_SECONDS = 2.0
LEAST_SECONDS = 60.0
SECONDS_FACTOR = 5.0


class ChangedTest(Wire, kw_only=True):
    """A test that passed on the base, and whose outcome on the result depends on what the result changed."""

    test: str
    """Its id."""
    restored: str
    """The outcome of the base's version on the result: `passed`, `failed`, `skipped` or `missing`."""
    result: str
    """The outcome of the result's version."""


class BaseComparison(Wire, kw_only=True):
    """What differs when the tests and the check-deciding files of the base judge the result."""

    earlier: int
    """Tests that passed before."""
    lost: int
    """How many of them do not pass without the result's edits, or no longer run."""
    tests: list[ChangedTest]
    """Those tests, at most 100; fewer if the runner names none."""
    restored: list[str]
    """Files that were restored or taken out, at most 100."""


class CheckResult(Wire, kw_only=True):
    """The result of one check on one tree."""

    name: str
    argv: list[str]
    exit_code: int | None = None
    seconds: float
    """Of the run that these counts and this exit code are from."""
    judging_seconds: float | None = None
    """Of all runs: this one, its repetitions, those on the base, and those of mutation testing."""
    tree: str
    """Object ID of the tree that was judged."""
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    output_tail: str
    mutation: MutationResult | None = None
    flaky: bool
    flaky_tests: list[str] | None = None
    """The tests that passed once and failed once, if the runner names them."""
    fails_on_base: bool
    checkout_files: list[str] | None = None
    changed_files: list[str] | None = None
    """Tracked files that differed from the tree after a run."""
    ok: bool
    """Whether the check passed on this tree (even if it is flaky)."""
    required: bool
    sandbox: Sandbox | None = None
    """The isolation of its process; absent when it could not be started."""
    base: BaseComparison | None = None
    """What the base's tests show; absent if they agree with the result's, or were not needed."""
    tampered: list[str] | None = None
    """Why the report of its test run cannot be trusted; absent if it can."""


class Check(Strict, kw_only=True):
    """A command whose exit code is evidence."""

    name: str
    """Its name in requests and recipes."""
    argv: list[str]
    """Slots: ``{python}`` (the project's interpreter), ``{tests}`` (the test files the result added or changed)."""
    cwd: str | None = None
    """Relative to the workspace."""
    env: dict[str, str] | None = None
    """Environment variables of its process, in addition to the project's own."""
    timeout_seconds: float | None = None
    """Seconds until it is killed and counts as failed."""
    required: bool = True
    """Whether a result can be `verified` only if this passes."""
    configured_by: list[str] = msgspec.field(default_factory=list)
    """Globs of further files that decide what this check does; scripts, tests and known configuration files are found.

    If the check passes only with a result's changes to such files, the result gets ``check_changed``.
    """
    hidden: bool = False
    """Keep this check and its files from agents; only in your own configuration."""
    files: list[str] = msgspec.field(default_factory=list)
    """Files of a hidden check, relative to your configuration folder; copied to the same paths of the worktree to
    judge, and removed afterwards."""


class MutantStatus(StrEnum):
    """The result of one mutant, in the words of the mutation-testing report schema that Stryker's viewers read."""

    KILLED = "Killed"
    """A test that passed on the unchanged code failed."""
    SURVIVED = "Survived"
    """All tests that execute the line passed. The mutant may be equivalent to the code."""
    TIMEOUT = "Timeout"
    """The tests took far longer than on the unchanged code, which counts as killed."""
    NO_COVERAGE = "NoCoverage"
    """No test executes the line, so none was run."""
    COMPILE_ERROR = "CompileError"
    """The mutated code could not be built, loaded or collected: it does not count."""
    IGNORED = "Ignored"
    """The user dismissed it: it does not count."""
    PENDING = "Pending"
    """It was not judged: the time was over, or its process ended early."""


class CodePlace(Wire, kw_only=True):
    """A line of the result."""

    path: str
    """A path inside the workspace, C-quoted when not UTF-8."""
    line: int
    """From 1."""


class JudgedMutant(Wire, kw_only=True):
    """A small change of the code, made in a copy, and whether the tests noticed it."""

    id: str
    """Stays the same while its line, its function and the change stay the same."""
    path: str
    """The changed file: a path inside the workspace, C-quoted when not UTF-8."""
    line: int
    """From 1."""
    function: str
    """Its function with the classes around it; empty for code outside functions."""
    operator: str
    """The kind of change, such as `comparison`."""
    before: str
    """The line as it is in the result; several lines if the change replaces them."""
    after: str
    """The same with the change."""
    status: MutantStatus
    killed_by: list[str] = msgspec.field(default_factory=list)
    """Ids of tests that failed; a run ends at the first."""


class Round(Wire, kw_only=True):
    """How many small changes of the code the tests noticed in one round, on the same changes as far as possible."""

    number: int
    """0 for the first result, then from 1 for each attempt to notice more."""
    killed: int
    """Mutants that the tests noticed."""
    viable: int
    """Mutants that count."""
    kept: bool
    """Whether the result of this round was kept; otherwise the result before it was restored."""
    why: str | None = None
    """Why it was not kept; absent if it was."""


class MutationResult(Wire, kw_only=True):
    """Which small changes of the code the tests of a check noticed."""

    scope: Literal["files", "changes"] = "files"
    """What was mutated: the files under test, or the lines that the result changed."""
    killed: int
    """Mutants that the tests noticed, those that got stuck among them."""
    viable: int = 0
    """Mutants that count: they could be built and were judged, on lines that the tests execute."""
    stuck: int = 0
    """Mutants on which the tests took far too long."""
    blind: int = 0
    """Killed mutants on which a test ran into an error or got stuck: any test that executes them notices that, even one
    that compares nothing. 0 if the runner does not tell."""
    executed: int = 0
    """All mutants on lines that the tests execute; a sample of them is judged."""
    total: int = 0
    """All mutants of these files or lines."""
    unexecuted: list[CodePlace] = msgspec.field(default_factory=list)
    """The first 60 lines with mutants that no test executes; fewer if the runner does not tell them."""
    dismissed: int = 0
    """Mutants that were left out because the user dismissed them."""
    mutants: list[JudgedMutant] = msgspec.field(default_factory=list)
    """The judged mutants: survivors first, then killed ones, at most 60."""
    idle: list[str] = msgspec.field(default_factory=list)
    """Ids of new tests that ran on mutants and killed none, at most 100."""
    unreliable: list[str] = msgspec.field(default_factory=list)
    """Ids of tests that failed although nothing a program does had changed; their kills do not count."""
    seconds: float = 0.0
    """How long it took."""
    unfinished: str | None = None
    """Why fewer mutants were judged than planned; absent if all were."""


NOTICED = frozenset({MutantStatus.KILLED, MutantStatus.TIMEOUT})


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """The mutants that the required checks noticed, and those that they did not."""

    killed: int
    viable: int
    kills: dict[str, JudgedMutant]
    """The listed mutants that a test noticed, by identity."""
    survivors: list[JudgedMutant]
    """Those that no check noticed."""
    idle: list[str]
    """Ids of new tests that noticed nothing."""
    scope: str
    """``files`` or ``changes``, see ``MutationResult``."""
    nothing_executed: bool
    """There are mutants, and the tests execute none of them."""
    sampled: bool
    """There are mutants on executed lines that were not judged."""
    listed: bool
    """Whether ``kills`` has every kill."""

    @property
    def can_be_better(self) -> bool:
        """Return whether there is something that better tests would notice."""
        return bool(self.survivors) or self.nothing_executed

    @property
    def judged(self) -> frozenset[str]:
        """Return the identities of the listed mutants."""
        return frozenset(self.kills) | {mutant.id for mutant in self.survivors}

    def gained(self, before: Noticed) -> bool:
        """Return whether these tests notice a mutant that those of ``before`` did not."""
        return self.killed > before.killed and not self.kills.keys() <= before.kills.keys()

    def lost(self, before: Noticed, changed: Iterable[str] = ()) -> list[JudgedMutant]:
        """Return the mutants that ``before`` noticed and these tests do not, except in ``changed`` files."""
        mine = {mutant.id for mutant in self.survivors}
        ours = set(changed)
        return [
            mutant
            for identity, mutant in before.kills.items()
            if identity in mine or (self.listed and identity not in self.kills and mutant.path not in ours)
        ]


def noticed(results: Iterable[MutationResult | None]) -> Noticed | None:
    """Return what the checks of a result noticed together; None if none was mutation-tested."""
    tested = [result for result in results if result is not None]
    if not tested:
        return None
    kills: dict[str, JudgedMutant] = {}
    missed: dict[str, JudgedMutant] = {}
    for mutant in chain.from_iterable(result.mutants for result in tested):
        if mutant.status in NOTICED:
            kills.setdefault(mutant.id, mutant)
        elif mutant.status is MutantStatus.SURVIVED:
            missed.setdefault(mutant.id, mutant)
    survivors = [mutant for identity, mutant in missed.items() if identity not in kills]
    alone = tested[0] if len(tested) == 1 else None
    return Noticed(
        killed=alone.killed if alone is not None else len(kills),
        viable=alone.viable if alone is not None else len(kills) + len(survivors),
        kills=kills,
        survivors=survivors,
        idle=list(dict.fromkeys(test for result in tested for test in result.idle)),
        scope=tested[0].scope,
        nothing_executed=all(result.total and not result.executed for result in tested),
        sampled=any(result.viable < result.executed for result in tested),
        listed=all(_lists_all(result) for result in tested),
    )


def _lists_all(result: MutationResult) -> bool:
    return sum(mutant.status in NOTICED for mutant in result.mutants) >= result.killed


class Evidence(Strict, kw_only=True):
    """``[evidence]``: bounds of mutation testing, and shares of mutants below which a result is not verified."""

    max_mutants: int | None = None
    """Most mutants per check. Absent: 20, or 40 for a check that takes more than 2 s."""
    seconds: float | None = None
    """Time for all evidence of a check: mutants, undone places, replaced code. Absent: 60 s or 5 times the check,
    whichever is more. What was not reached is named."""
    max_copies: int | None = None
    """Most private copies of a result in which mutants are tested at the same time. Absent: one for each processor.

    Each copy beyond the first takes a free slot of a delegation. With 1, mutants are tested one after another.
    """
    least_killed: float = 0.3
    """Share of the mutants on executed lines that tests must notice, from 0 to 1."""
    least_executed: float = 0.1
    """Share of the mutants of the files under test that new tests must execute, from 0 to 1."""

    def mutants_for(self, check_seconds: float) -> int:
        """Return the most mutants for a check that takes this long."""
        return self.max_mutants or (MANY_MUTANTS if check_seconds > SLOW_SECONDS else FEW_MUTANTS)

    def seconds_for(self, check_seconds: float) -> float:
        """Return the time for all evidence of a check that takes this long."""
        return self.seconds or max(LEAST_SECONDS, SECONDS_FACTOR * check_seconds)
