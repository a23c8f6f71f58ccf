"""The page of evidence: what it says, and that no text of an agent can look like the page's own."""

from __future__ import annotations

import msgspec
import pytest

from understudy.model.delegation.delegations import AskedBy, Delegation, DelegationResult, no_usage
from understudy.model.evidence.checks import (
    BaseComparison,
    ChangedTest,
    CheckResult,
    JudgedMutant,
    MutantStatus,
    MutationResult,
)
from understudy.model.evidence.evidence_log import EvidenceCheck, EvidenceLog, EvidenceRun
from understudy.model.hunks import Review
from understudy.model.states import State
from understudy.model.verdicts import Reservation, ReservationFact, Verdict
from understudy.reports.evidence_page import evidence_page, fenced

HEAD, BASE, MIXED = "a" * 40, "b" * 40, "c" * 40
MISSED = JudgedMutant(
    id="5d1c0b7a9e42",
    path="calc.py",
    line=2,
    function="add",
    operator="arithmetic",
    before="return a + b",
    after="return a - b",
    status=MutantStatus.SURVIVED,
)
CHECK = CheckResult(
    name="suite",
    argv=["python", "-m", "pytest"],
    exit_code=0,
    seconds=1.0,
    tree="d" * 40,
    passed=2,
    output_tail="2 passed",
    mutation=MutationResult(
        killed=0, viable=1, executed=3, total=4, mutants=[MISSED], idle=["test_a.py::test_nothing"]
    ),
    flaky=False,
    fails_on_base=False,
    ok=True,
    required=True,
)


def run(on: str, commit: str, **changes: object) -> EvidenceRun:
    fields = {"on": on, "commit": commit, "argv": ["python", "-m", "pytest"], "seconds": 1.0, "exit_code": 0}
    return EvidenceRun(**{**fields, **changes})  # type: ignore[arg-type]


LOG = EvidenceLog(
    base=BASE,
    head=HEAD,
    tree="d" * 40,
    interpreter="/env/bin/python",
    interpreter_version="3.11.7",
    checks=[
        EvidenceCheck(
            name="suite",
            untried=["whether repaired tests pass for other inputs: the time was over"],
            runs=[
                run("result", HEAD, outcomes={"test_a.py::test_new": "passed", "test_a.py::test_old": "failed"}),
                run(
                    "result",
                    HEAD,
                    circumstances="in reverse order, with PYTHONHASHSEED=7 TZ=UTC, without Understudy's report",
                    outcomes={"test_a.py::test_new": "passed", "test_b.py::test_other": "passed"},
                ),
                run("restored", MIXED, restored=["tests/test a.py"]),
                run("base", BASE, outcomes={"test_a.py::test_old": "passed"}, folder="sub"),
            ],
            mutants=[MISSED, msgspec.structs.replace(MISSED, id="0" * 12, status=MutantStatus.COMPILE_ERROR)],
        )
    ],
    notes=["The tests of suite were not all run again."],
)


@pytest.fixture
def judged() -> Delegation:
    return Delegation(
        id="20261121-004512-k3f9q",
        title="Add a flag",
        recipe="implement",
        state=State.FINISHED,
        verdict=Verdict.UNVERIFIED,
        reservations=[Reservation.CHANGE_NOT_TESTED],
        workspace="/home/ada/greeting",
        delegator="quick",
        attempts=[],
        checks=[CHECK],
        review=Review(pending=1, accepted=0, rejected=0),
        confined=False,
        usage=no_usage(),
        cost_known=True,
        asked_by=AskedBy(frontend="cli", depth=0),
        started_at="2026-11-21T00:45:12.000Z",
        worktree="/state/trees/p/1",
        last_seq=1,
        result=DelegationResult(files=[], summary="Done."),
    )


def test_every_run_and_every_test_is_on_the_page_with_a_command_to_repeat_it(judged: Delegation) -> None:
    page = evidence_page(judged, LOG)
    assert "# Unverified: Add a flag" in page
    assert "**change not tested**: No test notices some of the changed places." in page
    assert f"Judged: commit `{HEAD[:12]}`" in page
    assert "Python 3.11.7: `/env/bin/python`." in page
    assert "| 2 | the result, in reverse order, with PYTHONHASHSEED=7 TZ=UTC, without Understudy's report | 0 |" in page
    assert f"git checkout --quiet --force --detach {HEAD}\nPYTHONHASHSEED=7 TZ=UTC python -m pytest\n" in page
    assert f"git checkout {BASE} -- 'tests/test a.py'" in page
    assert "(cd sub && python -m pytest)" in page
    assert r"| test\_a.py::test\_old | passed | failed |" in page
    assert r"| test\_a.py::test\_new | missing | passed |" in page
    assert r"| test\_b.py::test\_other | missing | passed |" in page, "only a later run had this test"
    assert (
        "- **not noticed**: calc.py:2 in add (`5d1c0b7a9e42`)\n\n```diff\n- return a + b\n+ return a - b\n```" in page
    )
    assert "could not be built or loaded" in page
    assert r"- test\_a.py::test\_nothing" in page
    assert "- The tests of suite were not all run again." in page
    assert "- 2 more possible changes of the code that suite tests." in page
    assert "- suite: whether repaired tests pass for other inputs: the time was over." in page
    assert "No sandbox" not in page, "nothing is known about a sandbox"


def test_a_reason_is_a_fact_not_the_alternatives_that_it_may_be_about(judged: Delegation) -> None:
    outside = Reservation.OUTSIDE_SCOPE
    facts = ["The result removes test_all in tests/test_a.py.", "It changes setup.py"]
    judged.reservations = [outside]
    judged.reservation_facts = [ReservationFact(reservation=outside, text=text) for text in facts]
    page = evidence_page(judged, None)
    assert r"- **outside scope**: The result removes test\_all in tests/test\_a.py. Look at them" in page
    assert "\n  - It changes setup.py\n" in page
    assert "makes earlier tests notice less" not in page


def test_nothing_is_said_of_the_base_where_it_was_not_run(judged: Delegation) -> None:
    check = msgspec.structs.replace(LOG.checks[0], runs=LOG.checks[0].runs[:2])
    page = evidence_page(judged, msgspec.structs.replace(LOG, checks=[check]))
    assert "On the base" not in page
    assert r"| test\_a.py::test\_old | failed |" in page


def test_without_a_record_the_page_says_what_is_missing(judged: Delegation) -> None:
    page = evidence_page(judged, None)
    assert "kept no record" in page
    assert "```text\npython -m pytest\n```" in page
    assert "- return a + b" in page


def test_earlier_results_are_marked_while_the_checks_run_again(judged: Delegation) -> None:
    running = msgspec.structs.replace(judged, state=State.CHECKING, verdict=None)
    assert "**The checks are running again." in evidence_page(running, None)
    assert "**The checks are running.**" in evidence_page(msgspec.structs.replace(running, checks=[]), None)


def test_names_that_a_reservation_is_about_are_listed(judged: Delegation) -> None:
    check = msgspec.structs.replace(
        CHECK,
        flaky_tests=["test_a"],
        changed_files=["lines.py"],
        checkout_files=["/home/me/lines.py"],
        tampered=["Lines are missing."],
        base=BaseComparison(
            earlier=312,
            lost=1,
            tests=[ChangedTest(test="test_b[*]", restored="failed", result="passed")],
            restored=["tests/test_b.py"],
        ),
    )
    page = evidence_page(msgspec.structs.replace(judged, checks=[check]), None)
    assert "once and failed once:\n\n- test\\_a\n" in page
    assert "changed while it ran:\n\n- lines.py\n" in page
    assert "from your checkout:\n\n- /home/me/lines.py\n" in page
    assert "cannot be trusted:\n\n- Lines are missing.\n" in page
    assert "1 of 312 earlier tests depend on what the result changed" in page
    assert r"- test\_b\[\*\]: failed → passed" in page


def test_untrusted_text_is_quoted(judged: Delegation) -> None:
    hostile = msgspec.structs.replace(
        judged,
        title="[click](command:evil)\n# Verified",
        checks=[msgspec.structs.replace(CHECK, output_tail="```\n<script>alert(1)</script>\n```\n")],
    )
    page = evidence_page(hostile, None)
    assert page.split("\n")[0] == r"# Unverified: \[click\]\(command:evil\) \# Verified"
    assert "````text\n```\n<script>alert(1)</script>\n```\n````" in page
    assert fenced("````") == "`````text\n````\n`````"
