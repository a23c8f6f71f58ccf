"""Collect what the runs of checks show: the record of all runs, the results, and the reservations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from understudy.files import durable
from understudy.judge.outcomes.observations import printable
from understudy.judge.runs.check_run import CheckOutcome, Variation
from understudy.judge.runs.judged_tree import Change
from understudy.judge.runs.repeated_runs import describe
from understudy.judge.runs.runner_registry import RUNNERS, PreparedCheck, matching
from understudy.model.delegation.events import Event, Note
from understudy.model.evidence.checks import Check, CheckResult, JudgedMutant
from understudy.model.evidence.evidence_log import EvidenceCheck, EvidenceLog, EvidenceRun, RunOn
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation, ReservationFact
from understudy.model.wire import ready

if TYPE_CHECKING:  # a reader of the record needs neither
    from understudy.judge.base_runs.restored_runs import Finding
    from understudy.judge.mutation.mutation_evidence import MutationFinding

FILE = "evidence.json"
_MOST_OUTCOMES = 5_000
_MOST_BYTES = 64 * 1024 * 1024
_MOST_FACTS = 50
"""Most sentences about reservations that a result keeps."""
_MOST_ALTERED = 50
"""Most changed files that a result lists."""
_WRITTEN_BY_RUNNERS = frozenset(file for runner in RUNNERS for file in runner.completes)


class EvidenceRecord:
    """Collects the runs of one judgement."""

    def __init__(self, *, base: str, head: str, tree: str) -> None:
        """Start with no run; ``tree`` is the id of the result's tree."""
        self.log = EvidenceLog(base=base, head=head, tree=tree)
        self._restored: dict[str, list[str]] = {}
        self._check: EvidenceCheck | None = None

    def begin(self, name: str) -> None:
        """Add the following runs to the check ``name``."""
        self._check = EvidenceCheck(name=name)
        self.log.checks.append(self._check)

    def composed(self, commit: str, restored: Iterable[str]) -> None:
        """Remember which files of ``commit`` are those of the base."""
        self._restored[commit] = sorted(restored)

    def ran(
        self,
        plan: PreparedCheck,
        commit: str,
        outcome: CheckOutcome,
        variation: Variation | None,
        *,
        bare: bool,
        fresh: bool = False,
    ) -> None:
        """Add a run of the current check, or of the whole suite for its sake.

        ``bare`` is one without the probe, ``fresh`` one in a fresh clone.
        """
        if self._check is None:
            return
        on: RunOn = "result" if commit == self.log.head else "base" if commit == self.log.base else "restored"
        counts, outcomes = outcome.counts, outcome.observed.outcomes
        self._check.runs.append(
            EvidenceRun(
                on=on,
                commit=commit,
                restored=[printable(path) for path in self._restored.get(commit, [])] if on == "restored" else [],
                argv=[printable(argument) for argument in outcome.argv],
                folder=printable(plan.check.cwd or "."),
                circumstances=", ".join(
                    [
                        *([describe(variation)] if variation is not None else []),
                        *(["without Understudy's report"] if bare else []),
                        *(
                            [f"in a fresh clone{'' if outcome.hidden else ' that can see your checkout'}"]
                            if fresh
                            else []
                        ),
                    ]
                ),
                exit_code=outcome.code,
                seconds=round(outcome.seconds, 3),
                passed=counts.passed if counts is not None else outcome.observed.passed,
                failed=counts.failed if counts is not None else None,
                skipped=counts.skipped if counts is not None else outcome.observed.skipped,
                outcomes={printable(test): word for test, word in sorted(outcomes.items())[:_MOST_OUTCOMES]},
            )
        )

    def judged(self, mutants: Iterable[JudgedMutant], untried: Iterable[str] = ()) -> None:
        """Add the mutants of the current check, and what could not be found out about its tests."""
        if self._check is not None:
            self._check.mutants.extend(mutants)
            self._check.untried.extend(map(printable, untried))

    def save(self, folder: Path) -> None:
        """Write the record beside the journal; errors are those of the disk, as ``UnderstudyError``."""
        durable.replace(folder / FILE, msgspec.json.encode(self.log))


def read_record(folder: Path) -> EvidenceLog | None:
    """Return the record of the last judgement; None if there is none that can be read_record."""
    try:
        return msgspec.json.decode(durable.read_whole(folder / FILE, _MOST_BYTES), type=ready(EvidenceLog))
    except (OSError, msgspec.MsgspecError):
        return None


class ResultFindings:
    """Collects the reservations about one result, and reports each when it is found."""

    def __init__(self, record: EvidenceRecord, emit: Callable[[Event], None]) -> None:
        """Keep the sentences in ``record`` too; call no method outside the thread of the event loop."""
        self.reservations: set[Reservation] = set()
        self.facts: list[ReservationFact] = []
        """The sentences of the reservations, in the order in which they were found."""
        self._record = record
        self._emit = emit

    def reserve(self, *reservations: tuple[Reservation, str]) -> None:
        """Add reservations, each with the sentence that says why."""
        for reservation, text in reservations:
            self.reservations.add(reservation)
            fact = ReservationFact(reservation=reservation, text=printable(text))
            if fact not in self.facts and len(self.facts) < _MOST_FACTS:
                self.facts.append(fact)
            self.note(text)

    def note(self, *texts: str) -> None:
        """Emit warnings."""
        for text in texts:
            self._record.log.notes.append(printable(text))
            self._emit(Note(level="warning", text=printable(text)))


@dataclass(kw_only=True)
class CheckFindings:
    """What the runs of one check show."""

    check: Check
    flaky: bool = False
    fails_on_base: bool = False
    seconds: float = 0.0
    """The time of all runs."""
    _flaky_tests: set[str] = field(default_factory=set)
    _checkout_files: set[str] = field(default_factory=set)
    """Files of the user's checkout that were loaded instead of the result's."""
    _altered: set[str] = field(default_factory=set)
    """Tracked files that differed from the result after a run."""
    _distrust: dict[str, None] = field(default_factory=dict)
    """Why the reports cannot be trusted, as an ordered set of sentences."""

    def ran(self, outcome: CheckOutcome) -> None:
        """Add a run of the check itself."""
        self.seconds += outcome.seconds
        self._checkout_files.update(outcome.wrong)

    def repeated(self, *, flaky: bool, tests: Iterable[str], seconds: float) -> None:
        """Add runs on the same files; ``tests`` failed in some of them only."""
        self.flaky = self.flaky or flaky
        self._flaky_tests.update(tests)
        self.seconds += seconds

    def altered(self, paths: Iterable[str]) -> None:
        """Add tracked files that a run changed."""
        self._altered.update(paths)

    def distrust(self, sentences: Iterable[str]) -> None:
        """Add reasons not to believe the reports."""
        self._distrust |= dict.fromkeys(sentences)

    def contradicted(self, how: str) -> None:
        """Distrust the check, which passed, because of what ``how`` says; nothing if it is empty."""
        if how:
            self.distrust([f"{self.check.name} passed, but {how}"])

    def reservations(self) -> Iterator[tuple[Reservation, str]]:
        """Yield what prevents that a required check counts, each with a sentence."""
        name = self.check.name
        if self.flaky:
            tests = f": {name_list(sorted(self._flaky_tests))}" if self._flaky_tests else ""
            yield Reservation.FLAKY, f"The check {name} failed once and passed once on the same files{tests}."
        if self._altered:
            changed = name_list(sorted(self._altered))
            yield Reservation.TREE_CHANGED, f"Tracked files changed while the check {name} ran: {changed}."
        if self._distrust:
            yield Reservation.TAMPERED, f"The check {name}: {' '.join(self._distrust)}"
        if self.fails_on_base:
            yield Reservation.FAILS_ON_BASE, f"The check {name} already failed on the base, and still fails."
        if self._checkout_files:
            loaded = name_list(sorted(self._checkout_files))
            yield (
                Reservation.LOADED_CHECKOUT,
                f"The check {name} loaded files of your checkout instead of the result: {loaded}.",
            )

    def result(self, last: CheckOutcome, base: Finding, mutation: MutationFinding, *, tree: str) -> CheckResult:
        """Return the result: of the ``last`` run, and of what the base and the mutants showed."""
        counts = last.counts
        return CheckResult(
            name=self.check.name,
            argv=[printable(argument) for argument in last.argv],
            exit_code=last.code,
            seconds=round(last.seconds, 3),
            judging_seconds=round(self.seconds, 3),
            tree=tree,
            passed=counts.passed if counts is not None else None,
            failed=counts.failed if counts is not None else None,
            skipped=counts.skipped if counts is not None else None,
            output_tail=f"{last.output}\n{printable(base.red)}".strip() if base.red else last.output,
            mutation=mutation.result,
            flaky=self.flaky,
            flaky_tests=[printable(test) for test in sorted(self._flaky_tests)] or None,
            fails_on_base=self.fails_on_base,
            checkout_files=[printable(path) for path in sorted(self._checkout_files)] or None,
            changed_files=[printable(path) for path in sorted(self._altered)[:_MOST_ALTERED]] or None,
            ok=last.green and not base.red,
            required=self.check.required,
            sandbox=last.sandbox,
            base=base.comparison,
            tampered=[printable(text) for text in self._distrust] or None,
        )


def altered(differing: Iterable[str], check: Check, changes: Iterable[Change]) -> list[str]:
    """Return the paths of ``differing`` that a run of ``check`` must not have changed.

    Not reported are hidden files of the check, which replace files of the result, and lock files that the runner
    writes, unless the result changes them.
    """
    hidden = tuple(check.files) if check.hidden else ()
    changed = {path for _, path in changes}
    return [
        path
        for path in differing
        if not any(path == file or path.startswith(f"{file}/") for file in hidden)
        and (PurePosixPath(path).name not in _WRITTEN_BY_RUNNERS or path in changed)
    ]


def leading_out(tree: Path, changes: Sequence[Change]) -> list[str]:
    """Return the changed symbolic links that point outside the worktree, where content is not part of the result.

    The worktree must be checked out at the result.
    """
    links = []
    for status, path in changes:
        if status[:1] == "D":
            continue
        try:
            target = (tree / path).readlink()
        except OSError:
            continue
        # Compare the names only: links in between may change later.
        if target.is_absolute() or os.path.normpath(PurePosixPath(path).parent / target).startswith(".."):
            links.append(path)
    return links


def outside(changes: Sequence[Change], writes: Sequence[str] | None, *, only_adds_and_modifies: bool) -> list[str]:
    """Return the changed paths that a recipe may not write.

    If ``writes`` is None, every path is allowed. With ``only_adds_and_modifies`` (the recipe ``tests``), deletions,
    renames and changes of type (a file becomes a link) are never allowed.
    """
    paths = [path for _, path in changes]
    allowed = set(paths) if writes is None else set(matching(paths, writes))
    return [
        path
        for status, path in changes
        if path not in allowed or (only_adds_and_modifies and status[:1] not in {"A", "M"})
    ]
