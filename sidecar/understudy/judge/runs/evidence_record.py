"""Record what is run to judge a result, so that a reader can repeat it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.judge.runs.check_run import CheckOutcome, PreparedCheck, Variation
from understudy.judge.runs.steady_runs import describe
from understudy.model.evidence.checks import JudgedMutant
from understudy.model.evidence.evidence_log import EvidenceCheck, EvidenceLog, EvidenceRun, RunOn

FILE = "evidence.json"
_MOST_OUTCOMES = 5_000
_MOST_BYTES = 64 * 1024 * 1024


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
    ) -> None:
        """Add a run of the current check, or of the whole suite for its sake; ``bare`` is one without the probe."""
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

    def judged(self, mutants: Iterable[JudgedMutant]) -> None:
        """Add the mutants of the current check."""
        if self._check is not None:
            self._check.mutants.extend(mutants)

    def save(self, folder: Path) -> None:
        """Write the record beside the journal; errors are those of the disk, as ``UnderstudyError``."""
        durable.replace(folder / FILE, msgspec.json.encode(self.log))


def read(folder: Path) -> EvidenceLog | None:
    """Return the record of the last judgement; None if there is none that can be read."""
    try:
        return msgspec.json.decode(durable.read_whole(folder / FILE, _MOST_BYTES), type=EvidenceLog)
    except (OSError, msgspec.MsgspecError):
        return None


def printable(text: str) -> str:
    """Return ``text`` encodable as JSON: file names may not be UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
