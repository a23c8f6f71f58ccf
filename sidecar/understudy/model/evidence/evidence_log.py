"""Everything that was run to judge a result: the file ``evidence.json`` beside the journal."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.model.evidence.checks import JudgedMutant
from understudy.model.wire import Wire

RunOn = Literal["result", "base", "restored"]
"""The tree of a run: the result's, the base's, or the result's with some files as they are in the base."""


class EvidenceRun(Wire, kw_only=True):
    """One run of a check."""

    on: RunOn
    commit: str
    restored: list[str] = msgspec.field(default_factory=list)
    """Files that were as in the base, or removed because the base has none, for ``restored``."""
    argv: list[str]
    folder: str = "."
    """Where it ran, relative to the tree."""
    circumstances: str = ""
    """What was different from the first run, such as another order of the tests."""
    exit_code: int | None = None
    seconds: float
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    outcomes: dict[str, str] = msgspec.field(default_factory=dict)
    """Test id → ``passed``, ``failed`` or ``skipped``, at most 5,000; empty if the runner names no tests."""


class EvidenceCheck(Wire, kw_only=True):
    """Everything that was run for one check."""

    name: str
    runs: list[EvidenceRun] = msgspec.field(default_factory=list)
    mutants: list[JudgedMutant] = msgspec.field(default_factory=list)
    """All mutants of the sample, those that could not be built among them."""
    untried: list[str] = msgspec.field(default_factory=list)
    """What could not be found out about its tests, as parts of a sentence."""


class EvidenceLog(Wire, kw_only=True):
    """Everything that was run to judge one result."""

    base: str
    head: str
    tree: str
    interpreter: str | None = None
    interpreter_version: str | None = None
    checks: list[EvidenceCheck] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """What the judge told the user, such as what it could not look at."""
