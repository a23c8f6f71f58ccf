"""Check declarations, check results and mutation results."""

from __future__ import annotations

import msgspec

from understudy.model.confinement import Sandbox
from understudy.model.wire import Strict, Wire


class MutationResult(Wire, kw_only=True):
    """The result of the mutation test: the new tests run against deliberately broken code."""

    killed: int
    """Tests that fail when the code under test raises."""
    survived: list[str]
    """Ids of tests that pass although the code under test raises."""


class CheckResult(Wire, kw_only=True):
    """The result of one check on one tree."""

    name: str
    argv: list[str]
    exit_code: int | None = None
    seconds: float
    tree: str
    """Object ID of the tree that was judged."""
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    output_tail: str
    mutation: MutationResult | None = None
    flaky: bool
    fails_on_base: bool
    checkout_files: list[str] | None = None
    ok: bool
    """Whether the check passed on this tree (even if it is flaky)."""
    required: bool
    sandbox: Sandbox | None = None
    """The isolation of its process; absent when it could not be started."""


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
    """Globs of the files that decide what this check does; a result that changes one gets ``check_changed``."""
