"""Read the reports of test runners and probes, which are not trusted: sizes are bounded, lines may be malformed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.judge.probes.report_channel import Received
from understudy.judge.project.editable_installs import Checkout
from understudy.model.text.sanitize import name_list

_MOST_BYTES = 64 * 1024 * 1024
"""Largest report that is read; 100,000 tests with long names are smaller."""
_MOST_NAMED = 5
_TAIL_BYTES = 8 * 1024
"""Output kept in a check's result: two screens, and small enough for a journal line."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

FIXTURE = re.compile(r"setUp(?:Class|Module) \((.+)\)$")
"""The name under which unittest reports the fixture of a class or module, for all its tests."""


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
        texts.append(_CONTROL_CHARACTERS.sub("", _ANSI.sub("", text)).strip("\n"))
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
