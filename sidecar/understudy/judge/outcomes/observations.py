"""Read what runs of checks show about single tests, compare it, and keep it.

Reports come from test runners and probes, which are not trusted: sizes are bounded, lines may be malformed.

What checks showed on a base is kept by tree, check and environment, so that the next judgement need not run them. The
folder holds one file per outcome, at most ``_MOST_FILES``. Agents run as the user and can write to it, so a file counts
only if it has not changed since the run began, which was before its agent started.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from understudy.judge.outcomes.probe import Received
from understudy.judge.project.interpreter import Checkout
from understudy.model.text.sanitize import name_list
from understudy.model.wire import ready

_MOST_BYTES = 64 * 1024 * 1024
"""Largest report that is read; 100,000 tests with long names are smaller."""
_MOST_NAMED = 5
_TAIL_BYTES = 8 * 1024
"""Output kept in a check's result: two screens, and small enough for a journal line."""
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

FIXTURE = re.compile(r"setUp(?:Class|Module) \((.+)\)$")
"""The name under which unittest reports the fixture of a class or module, for all its tests."""
PASSED, FAILED, SKIPPED, MISSING = "passed", "failed", "skipped", "missing"
_MOST_FILES = 200
_MOST_KEPT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many tests passed, failed and were skipped."""

    passed: int
    failed: int
    skipped: int


@dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """What the probes of one run reported."""

    started: int = 0
    """Python test runs that started."""
    ended: int = 0
    """Python test runs that completed."""
    collected: frozenset[str] = frozenset()
    outcomes: dict[str, str] = field(default_factory=dict)
    """Test id → ``passed``, ``failed`` or ``skipped``."""
    collect_errors: frozenset[str] = frozenset()
    reran: bool = False
    """A plugin re-ran a failed test."""
    files: frozenset[str] = frozenset()
    """Loaded code files below the user's checkout, links resolved."""
    plugins: frozenset[str] = frozenset()
    """Files of pytest plugins, links resolved; plugins can change the outcome of tests."""
    node: bool = False
    """A Node program reported."""
    claimed: int = 0
    """The sum of the tests that passed in each run; a test that passed in two runs counts twice."""
    dropped: frozenset[str] = frozenset()
    """Tests that were found and then taken out without an option that deselects them."""
    contradicted: frozenset[str] = frozenset()
    """Tests that raised an exception and were reported as passed."""
    forged: int = 0
    """Lines of the report that no probe wrote."""
    missing: bool = False
    """Lines that a probe wrote did not arrive."""
    refused: int = 0
    """Programs that tests started and that asked for a key to sign reports."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Return why the report cannot be trusted: sentences that name tests and numbers."""
        sentences = []
        if self.forged:
            sentences.append(f"The report of the test run has lines that it did not write: {self.forged}.")
        if self.missing:
            sentences.append("Lines of the report of the test run are missing.")
        if self.refused:
            sentences.append(f"Tests, or what they started, asked for the key of the report: {self.refused} times.")
        if self.contradicted:
            tests = name_list(sorted(self.contradicted), _MOST_NAMED)
            sentences.append(f"Tests raised an exception and were reported as passed: {tests}.")
        return tuple(sentences)

    @property
    def counts(self) -> Counts:
        """Count the outcomes; a file that cannot be collected is a failure."""
        outcomes = list(self.outcomes.values())
        return Counts(
            passed=outcomes.count("passed"),
            failed=outcomes.count("failed") + len(self.collect_errors),
            skipped=outcomes.count("skipped"),
        )

    @property
    def silent(self) -> list[str]:
        """Return the collected tests without an outcome, except those of a skipped unittest class or module."""
        skipped = [match.group(1) for match in map(FIXTURE.match, self.outcomes) if match is not None]
        left = self.collected - self.outcomes.keys()
        return sorted(test for test in left if not any(test.startswith(f"{place}.") for place in skipped))

    @property
    def passed(self) -> frozenset[str]:
        """Return the tests that passed."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == "passed")


def read_probe(received: Received, folder: Path) -> ProbeReport:
    """Return what the probes reported through the channel, and those of Node in ``folder``."""
    started = ended = claimed = 0
    sets: dict[str, set[str]] = {name: set() for name in ("collected", "dropped", "contradicted", "files", "plugins")}
    phases: dict[str, set[str]] = {}
    collect_errors: set[str] = set()
    reran = False
    for session in received.sessions:
        of_session: dict[str, set[str]] = {}
        for entry in session:
            kind = str(entry.get("k"))
            if kind == "start":
                started += 1
            elif kind == "end":
                ended += 1
            elif kind in {"collected", "dropped", "contradicted"}:
                sets[kind].update(_texts(entry.get("ids")))
            elif kind in {"files", "plugins"}:
                sets[kind].update(_texts(entry.get("files")))
            elif kind == "collect_error":
                collect_errors.add(str(entry.get("id")))
            elif kind == "test":
                test, outcome = str(entry.get("id")), str(entry.get("outcome"))
                if outcome == "rerun":
                    reran = True
                    continue
                of_session.setdefault(test, set()).add(outcome)
        claimed += sum(_worst(seen) == "passed" for seen in of_session.values())
        for test, seen in of_session.items():
            phases.setdefault(test, set()).update(seen)
    node = sorted(folder.glob("*.node.json"))
    for path in node:
        sets["files"].update(_texts(read_json(path).get("files")))
    return ProbeReport(
        started=started,
        ended=ended,
        collected=frozenset(sets["collected"]),
        outcomes={test: _worst(seen) for test, seen in phases.items()},
        collect_errors=frozenset(collect_errors),
        reran=reran,
        files=frozenset(sets["files"]),
        plugins=frozenset(sets["plugins"]),
        node=bool(node),
        claimed=claimed,
        dropped=frozenset(sets["dropped"]),
        contradicted=frozenset(sets["contradicted"]),
        forged=received.forged,
        missing=received.missing,
        refused=received.refused,
    )


def _worst(outcomes: set[str]) -> str:
    return next((outcome for outcome in ("failed", "skipped", "passed") if outcome in outcomes), "failed")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if the file is missing or not an object."""
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def wrong_files(report: ProbeReport, checkout: Checkout, tree: Path) -> list[str]:
    """Return the loaded files of the user's checkout that are not in the tree, an environment or ``node_modules``."""
    inside = str(tree.resolve()) + os.sep
    return sorted(path for path in report.files if not path.startswith(inside) and checkout.relative(path) is not None)


def tail(*outputs: bytes) -> str:
    """Return the last 8 KiB of the outputs as clean text: no escape sequences, no control characters."""
    texts = []
    for output in outputs:
        # Read twice as much, because escape sequences are removed afterwards.
        text = output[-2 * _TAIL_BYTES :].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        texts.append(_CONTROL_CHARACTERS.sub("", ESCAPES.sub("", text)).strip("\n"))
    joined = "\n".join(text for text in texts if text)
    data = joined.encode()
    if len(data) <= _TAIL_BYTES:
        return joined
    return "…" + data[-_TAIL_BYTES:].decode("utf-8", "ignore")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return b""


def _texts(values: object) -> Iterable[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a check showed."""

    green: bool
    outcomes: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Test id → ``passed``, ``failed`` or ``skipped``; empty for a runner whose output names no tests."""
    passed: int | None = None
    """How many tests passed; None if the run did not tell."""
    failed: int | None = None
    skipped: int | None = None
    unbuilt: bool = False
    """Test files could not be compiled or loaded."""
    timed_out: bool = False
    started: bool = True

    @property
    def passing(self) -> frozenset[str]:
        """Return the tests that passed."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == PASSED)

    @property
    def all_passed(self) -> bool:
        """Return whether the run was green and nothing in it was skipped or hidden."""
        return self.green and not self.unbuilt and not self.skipped and self.passed != 0


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Tests that passed in an earlier run and did not pass in a later one."""

    tests: Mapping[str, str] = field(default_factory=dict)
    """Test id → its outcome in the later run: ``failed``, ``skipped`` or ``missing``."""
    unnamed: int = 0
    """Losses of runs that name no tests, at least 1 if the whole check is lost."""
    earlier: int = 0
    """How many tests passed in the earlier run."""

    def __bool__(self) -> bool:
        """Return whether anything was lost."""
        return bool(self.tests) or self.unnamed > 0

    @property
    def count(self) -> int:
        """Return how many tests were lost."""
        return len(self.tests) or self.unnamed

    def joined(self, other: Losses) -> Losses:
        """Return what was lost in any of two comparisons."""
        return Losses(
            tests={**other.tests, **self.tests},
            unnamed=max(self.unnamed, other.unnamed),
            earlier=max(self.earlier, other.earlier),
        )

    def only(self, tests: Iterable[str]) -> Losses:
        """Return the losses of some named tests."""
        return Losses(tests={test: self.tests[test] for test in tests}, earlier=self.earlier)

    def still(self, later: Losses) -> Losses:
        """Return what was lost in this and in a later comparison."""
        tests = {test: outcome for test, outcome in self.tests.items() if test in later.tests}
        return Losses(tests=tests, unnamed=min(self.unnamed, later.unnamed), earlier=self.earlier)


def losses(before: Observed, after: Observed) -> Losses:
    """Return the tests that passed in ``before`` and not in ``after``.

    A case of a parametrised test that got another id is not lost while as many cases of the test pass. Without ids,
    counts are compared; without counts, whether the check passed.
    """
    earlier = len(before.passing) or before.passed or 0
    if before.outcomes:
        cases = Counter(function_of(test) for test in after.passing)
        cases_before = Counter(function_of(test) for test in before.passing)
        lost = {}
        for test in sorted(before.passing):
            outcome = after.outcomes.get(test, MISSING)
            function = function_of(test)
            if outcome == PASSED or (
                outcome == MISSING and function != test and cases[function] >= cases_before[function]
            ):
                continue
            lost[test] = outcome
        if lost:
            return Losses(tests=lost, earlier=earlier)
    elif before.passed and before.passed > (after.passed or 0):
        return Losses(unnamed=before.passed - (after.passed or 0), earlier=earlier)
    return Losses(unnamed=int(before.green and not after.green), earlier=earlier)


def fewer(restored: Observed, result: Observed) -> Losses:
    """Return the tests of the base that pass on the result but no longer run, or are skipped, in the result's own run.

    Tests that were renamed are not among them: for each, the result has a new test that passes.
    """
    lost = losses(restored, result)
    if not lost.tests:
        return lost if restored.passed and not result.passed else Losses(earlier=lost.earlier)
    added = len(result.passing - restored.outcomes.keys())
    missing = [test for test, outcome in lost.tests.items() if outcome == MISSING]
    kept = {test: outcome for test, outcome in lost.tests.items() if outcome == SKIPPED}
    if len(missing) > added:
        kept.update(dict.fromkeys(missing, MISSING))
    return Losses(tests=kept, earlier=lost.earlier)


def hidden(base: Observed, restored: Observed, result: Observed) -> Losses:
    """Return the tests of the base that fail with the base's files, and do not fail in a green run of the result.

    Its edits of tests or of the check are why it is green, also where the base was red. A test is one of the base if
    the base's run shows it, or could not load all of them. If no test is named, failures are counted; if none are, the
    whole check counts as one.
    """
    if not result.green:
        return Losses()
    shows_all = bool(base.outcomes) and not base.unbuilt and not base.timed_out
    failed = [test for test, outcome in restored.outcomes.items() if outcome == FAILED]
    tests = {
        test: FAILED
        for test in sorted(failed)
        if result.outcomes.get(test) != FAILED and (test in base.outcomes or not shows_all)
    }
    unnamed = 0
    if not restored.green and not tests:
        # A run that counts its tests and has none is red as well: the first tests of a project are not hidden.
        has_none = not restored.outcomes and restored.passed == 0 and not restored.failed
        unnamed = 0 if restored.outcomes else restored.failed or 0
        unnamed = unnamed or int(restored.unbuilt or restored.timed_out or not has_none)
    earlier = len(base.outcomes.keys() | tests.keys())
    return Losses(tests=tests, unnamed=unnamed, earlier=earlier)


def given_up(before: Observed, after: Observed) -> Losses:
    """Return the tests that failed in ``before`` and are skipped, or no longer run, in ``after``.

    A case of a parametrised test that got another id is not given up while as many cases of the test run. Nor is a
    missing test if the run does not name the tests that pass. Without names, skipped and missing tests are counted.
    """
    if not before.outcomes and not after.outcomes:
        skipped = (after.skipped or 0) - (before.skipped or 0)
        gone = _total(before) - _total(after)
        return Losses(unnamed=max(0, min(before.failed or 0, max(skipped, gone))), earlier=_total(before))
    names_passing = bool(after.passing) or after.passed == 0
    failed = [test for test, outcome in before.outcomes.items() if outcome == FAILED]
    ran = Counter(function_of(test) for test, outcome in after.outcomes.items() if outcome != SKIPPED)
    ran_before = Counter(function_of(test) for test, outcome in before.outcomes.items() if outcome != SKIPPED)
    tests = {}
    for test in sorted(failed):
        outcome = after.outcomes.get(test, MISSING)
        function = function_of(test)
        renamed = outcome == MISSING and function != test and ran[function] >= ran_before[function]
        if outcome == SKIPPED or (outcome == MISSING and names_passing and not renamed):
            tests[test] = outcome
    return Losses(tests=tests, earlier=len(before.outcomes))


def repaired(before: Observed, after: Observed) -> bool:
    """Return whether something that fails in ``before`` passes in ``after``: a test, or the check if no test fails.

    A test that could not be loaded, or was not reached within the time, counts as failed.
    """
    if before.green or not (before.started and after.green):
        return False
    failed = [test for test, outcome in before.outcomes.items() if outcome == FAILED]
    names_passing = bool(after.passing)
    if any(after.outcomes.get(test, MISSING if names_passing else PASSED) == PASSED for test in failed):
        return True
    if before.unbuilt or before.timed_out:
        return not names_passing or any(test not in before.outcomes for test in after.passing)
    return not failed


def _total(run: Observed) -> int:
    return (run.passed or 0) + (run.failed or 0) + (run.skipped or 0)


def depends(lost: Losses, result: Observed, alone: Observed) -> bool:
    """Return whether the lost tests depend on the files that were restored in ``alone``, and only there."""
    for test in lost.tests:
        outcome = alone.outcomes.get(test, MISSING)
        passed = result.outcomes.get(test) == PASSED
        if outcome == FAILED or (passed and outcome != PASSED):
            return True
        if outcome == MISSING and alone.unbuilt:
            return True
    return not lost.tests and result.green and not alone.green


def lost_or_hidden(base: Observed, run: Observed, result: Observed | None) -> Losses:
    """Return the tests that passed on the base and do not with its files, or that fail there and not in ``result``."""
    missed = losses(base, run)
    return missed if result is None else missed.joined(hidden(base, run, result))


def newly_red(before: Observed, after: Observed) -> list[str]:
    """Return the tests that passed in ``before`` and fail in ``after``, or can no longer be loaded."""
    bad = {FAILED, MISSING} if after.unbuilt else {FAILED}
    return [test for test, outcome in losses(before, after).tests.items() if outcome in bad]


def function_of(test: str) -> str:
    """Return a test's id without its parameters."""
    return test.partition("[")[0]


class OutcomeCache:
    """A folder of outcomes; without a folder, outcomes are kept for this object only."""

    def __init__(self, folder: Path | None, *, since: float) -> None:
        """Create nothing on disk; ``since`` is a time (as of ``time.time``) before which no agent of this run wrote."""
        self._folder = folder
        self._since = since
        self._own: dict[str, Observed] = {}

    def get(self, key: str) -> Observed | None:
        """Return a kept outcome, or None if there is none that can be trusted."""
        if key in self._own or self._folder is None:
            return self._own.get(key)
        path = self._folder / _name(key)
        try:
            with path.open("rb") as stream:
                # ctime cannot be set to an earlier time, unlike mtime.
                if os.fstat(stream.fileno()).st_ctime >= self._since:
                    return None
                return msgspec.msgpack.decode(stream.read(_MOST_KEPT_BYTES), type=ready(Observed))
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, key: str, observed: Observed) -> None:
        """Keep an outcome, unless the run was cut off; errors of the disk are ignored."""
        if observed.timed_out or not observed.started:
            return
        self._own[key] = observed
        data = msgspec.msgpack.encode(observed)
        if self._folder is None or len(data) > _MOST_KEPT_BYTES:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = self._folder / f".{_name(key)}.{os.getpid()}"
            temporary.write_bytes(data)
            temporary.replace(self._folder / _name(key))
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        assert self._folder is not None  # noqa: S101 - checked by the caller
        files = sorted(self._folder.iterdir(), key=lambda path: path.lstat().st_mtime)
        for path in files[: max(0, len(files) - _MOST_FILES)]:
            path.unlink(missing_ok=True)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def printable(text: str) -> str:
    """Return ``text`` encodable as JSON: file names may not be UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
