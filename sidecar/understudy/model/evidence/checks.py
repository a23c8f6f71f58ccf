"""Check declarations and check results."""

from __future__ import annotations

import msgspec

from understudy.model.confinement import Sandbox
from understudy.model.evidence.mutation import MutationResult
from understudy.model.wire import Strict, Wire


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
