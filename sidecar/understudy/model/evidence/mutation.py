"""The results of mutation testing: small changes of the code, and whether the tests noticed them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from understudy.model.wire import Wire


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
