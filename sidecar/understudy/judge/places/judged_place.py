"""One changed place with what is known about it so far."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from understudy.judge.deciding.deciding_files import CODE_SUFFIXES
from understudy.judge.mutant_runners.mutant_runs import MutantResult
from understudy.judge.outcomes import observations
from understudy.judge.outcomes.observations import FAILED, MISSING, Observed, printable
from understudy.judge.places.changed_places import Place
from understudy.model.evidence.checks import MutantStatus
from understudy.model.places import ChangedPlace, PlaceEvidence
from understudy.model.text.path_quoting import quote

TIME_OVER = "the time for evidence was over before it was tried"


class TimeOver(Exception):  # noqa: N818 - nothing is wrong: what was not tried stays unlooked
    """The time for undoing places is over."""


@dataclass
class JudgedPlace:
    """A place, and what is known about it so far."""

    place: Place
    evidence: PlaceEvidence | None = None
    why: str = ""
    added: bool = False
    """Its lines in the result are noticed, by a mutant."""
    ran: bool = False
    """A test runs its lines in the result."""
    idle: bool = False
    """It has mutants, and no test runs one of them."""
    unreached: set[int] = field(default_factory=set)
    """Lines, from 1, with a mutant that no test of some check runs."""
    noticed: set[int] = field(default_factory=set)
    """Lines, from 1, with a mutant that a test of some check notices."""
    missed: set[int] = field(default_factory=set)
    """Lines, from 1, with a mutant that the tests of some check run and do not notice."""
    unbuilt: bool = False
    """Without it alone, the code or its tests cannot be loaded."""
    tried: bool = False
    """A check ran without it."""
    late: bool = False
    """The time was over before it was known whether tests noticed what it replaces."""
    inner: dict[str, frozenset[int]] | None = None
    """The functions inside of others that have some of its lines: name → lines; None: not looked for."""

    def show(self, evidence: PlaceEvidence, why: str) -> None:
        """Take evidence, and why it is one."""
        self.evidence, self.why = evidence, why

    def take_back(self, why: str) -> None:
        """Say why what was noticed is not all."""
        self.evidence, self.added, self.why = None, False, why

    def use_change(
        self, without: MutantResult, hollows: Mapping[str, MutantResult], unreliable: frozenset[str]
    ) -> None:
        """Take what the tests that run a place showed; what they did not show, the whole check may."""
        self.tried = without.status is MutantStatus.SURVIVED
        if without.status is MutantStatus.COMPILE_ERROR:
            self.tried = self.unbuilt = True
        by = [test for test in without.killers if test not in unreliable]
        if without.status is not MutantStatus.KILLED or not by:
            return
        for name, result in hollows.items():
            if result.status is MutantStatus.SURVIVED:
                self.tried, self.why = True, f"no test notices when `{printable(name)}` exists and does nothing"
                return
            failing = set(result.killers) - unreliable
            if not failing and result.status is not MutantStatus.COMPILE_ERROR:
                return
        self.tried = True
        self.show(PlaceEvidence.NOTICED, f"without it, {printable(by[0])} fails")

    def as_place(self) -> ChangedPlace:
        """Return what is known about it, or what its lack shows."""
        place = self.place
        evidence, why = self.evidence, self.why
        if evidence is PlaceEvidence.NOTICED and (unreached := self.unreached - self.noticed):
            evidence, why = PlaceEvidence.UNEXECUTED, f"no test runs line {min(unreached)}"
        if evidence is None:
            evidence, why = self._without_evidence()
        has_lines = place.new[1] > place.new[0] or place.old[1] > place.old[0]
        return ChangedPlace(
            hunk=place.hunk,
            path=quote(os.fsencode(place.path)),
            line=place.new[0] + 1 if has_lines else 0,
            lines=place.new[1] - place.new[0],
            function=printable(place.function),
            evidence=evidence,
            why=why,
        )

    def _without_evidence(self) -> tuple[PlaceEvidence, str]:
        place = self.place
        gone = place.old[1] > place.old[0] and place.new[0] == place.new[1]
        if self.why == TIME_OVER or not (self.tried or self.ran or self.idle or self.added):
            return PlaceEvidence.UNLOOKED, TIME_OVER
        if self.late and (self.added or gone):
            return PlaceEvidence.UNLOOKED, TIME_OVER
        if self.why and not self.added:
            return PlaceEvidence.UNNOTICED, self.why
        if PurePosixPath(place.path).suffix not in CODE_SUFFIXES and not self.ran:
            return PlaceEvidence.UNLOOKED, "no check notices what is in this file"
        if self.idle and not self.ran:
            return PlaceEvidence.UNEXECUTED, "no test runs it"
        if gone:
            return PlaceEvidence.UNNOTICED, "no test noticed what was removed"
        if self.added:
            return PlaceEvidence.UNNOTICED, "no test noticed what it replaces"
        return PlaceEvidence.UNNOTICED, "no test notices when it is undone"


def noticed_change(result: MutantResult) -> str:
    """Return why a place is noticed of which a test noticed a mutant."""
    by = f" ({printable(result.killers[0])})" if result.killers else ""
    return f"a test notices a small change of line {result.mutant.line}{by}"


def failing_test(green: Observed, run: Observed, unreliable: frozenset[str]) -> str | None:
    """Return the name of a test that fails without a place, "" if none does; None if that shows nothing.

    A test that cannot be loaded shows only that a name is used, not that anyone looks at what it does. An example in a
    docstring that is gone with its function shows nothing.
    """
    lost = observations.losses(green, run)
    failed = [test for test, outcome in lost.tests.items() if outcome == FAILED and test not in unreliable]
    if failed:
        return printable(failed[0])
    if lost.unnamed and not run.unbuilt:
        return "the check"
    gone = run.green and not run.unbuilt and all(how == MISSING for how in lost.tests.values())
    return None if run.unbuilt or (lost and not gone) else ""
