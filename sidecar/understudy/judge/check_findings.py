"""Collect what the runs of a check show, and turn it into its result and into reservations about the whole result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from understudy.judge.base_runs.restored_runs import Finding
from understudy.judge.mutation.mutation_evidence import MutationFinding
from understudy.judge.runs.check_run import CheckOutcome
from understudy.judge.runs.evidence_record import EvidenceRecord, printable
from understudy.model.delegation.events import Event, Note
from understudy.model.evidence.checks import Check, CheckResult
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation, ReservationFact

_MOST_FACTS = 50
"""Most sentences about reservations that a result keeps."""
_MOST_ALTERED = 50
"""Most changed files that a result lists."""


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
