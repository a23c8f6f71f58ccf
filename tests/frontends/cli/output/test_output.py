"""What people read: events as lines, the live view, the verdict card, diffs in colour."""

from __future__ import annotations

import io
import os
import re

import click
import msgspec
import pytest
import screens
from hypothesis import given
from hypothesis import strategies as st

from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.output import event_lines, live_view, output, verdict_card
from understudy.frontends.cli.review import diff, hunk_targets
from understudy.frontends.cli.terminal import terminal
from understudy.model import verdicts as verdict_words
from understudy.model.confinement import Confinement, Sandbox
from understudy.model.delegation import events as e
from understudy.model.delegation.delegations import Attempt, Count, DelegationResult, FileStat, Usage, no_usage
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.evidence.checks import (
    BaseComparison,
    ChangedTest,
    CheckResult,
    CodePlace,
    JudgedMutant,
    MutantStatus,
    MutationResult,
)
from understudy.model.hunks import FileDiff, Review
from understudy.model.places import ChangedPlace, PlaceEvidence
from understudy.model.states import State
from understudy.model.text import delegation_text, patches, path_quoting
from understudy.model.verdicts import Reservation, ReservationFact, Verdict

PLAIN = terminal.Paint(on=False)
MISSED = JudgedMutant(
    id="5d1c0b7a9e42",
    path="wrap.py",
    line=12,
    function="wrap",
    operator="comparison",
    before="if len(line) > width:",
    after="if len(line) >= width:",
    status=MutantStatus.SURVIVED,
)


def check_result(**changes) -> CheckResult:
    given_ = {
        "name": "pytest",
        "argv": ["pytest"],
        "exit_code": 0,
        "seconds": 1.24,
        "tree": "0" * 40,
        "passed": 6,
        "output_tail": "",
        "flaky": False,
        "fails_on_base": False,
        "ok": True,
        "required": True,
    }
    return CheckResult(**(given_ | changes))


def test_a_verified_card(delegation) -> None:
    found = delegation(
        verdict=Verdict.VERIFIED,
        sandbox=Sandbox(Confinement.BUBBLEWRAP, Confinement.BUBBLEWRAP),
        confined=True,
        worktree="/state/trees/p/1",
        attempts=[
            Attempt(
                number=1,
                delegator="quick",
                model="m",
                started_at="2026-11-21T00:45:12.000Z",
                finished_at="2026-11-21T00:46:22.500Z",
                start_commit="",
                usage=no_usage(),
                cost_usd="0.0123",
                cost_source="table",
                price_date="2026-11-23",
            )
        ],
        result=DelegationResult(files=[FileStat(path="tests/test_wrap.py", status="added", additions=40, deletions=0)]),
        checks=[check_result(mutation=MutationResult(killed=14, viable=20, executed=31, total=44))],
        usage=Usage(
            input_tokens=12_345,
            output_tokens=950,
            cache_read_tokens=11_000,
            cache_write_tokens=0,
            reasoning_tokens=0,
            turns=3,
            tool_calls=5,
        ),
        cost_usd="0.0123",
        cost_known=True,
    )
    assert verdict_card.card(found, PLAIN) == (
        "20261121-004512-k3f9q  Write tests: wrap.py\n"
        "VERIFIED: a required check passed on exactly this result, and there is no reservation\n"
        "\n"
        "✓ check pytest: 6 passed in 1.2 s\n"
        "    mutation test: the new tests notice 14 of 20 small changes on lines that they execute; 13 of 44 places are on lines that no test executes\n"
        "\n"
        "added    tests/test_wrap.py  +40 -0\n"
        "\n"
        "by quick in 1:10\n"
        "12.3k tokens in (11.0k cached), 950 out, $0.0123 (table 2026-11-23)\n"
        "worktree: /state/trees/p/1\n"
        "\n"
        "next: understudy diff 20261121-004512-k3f9q\n      understudy check 20261121-004512-k3f9q\n"
    )


def test_a_card_shows_how_earlier_tests_end(delegation) -> None:
    tests = [ChangedTest(test="test_a.py::test_one", restored="failed", result="passed")]
    base = BaseComparison(earlier=312, lost=1, tests=tests, restored=["test_a.py"])
    found = delegation(
        verdict=Verdict.UNVERIFIED, reservations=[Reservation.TESTS_CHANGED], checks=[check_result(base=base)]
    )
    card = verdict_card.card(found, PLAIN)
    assert "! tests changed: earlier tests pass only with this result's edits, or no longer run\n" in card
    assert (
        "    earlier tests: 1 of 312 do not pass as they were, or no longer run (as they were → in the result)\n"
        "      test_a.py::test_one: failed → passed\n"
    ) in card


def test_a_card_says_what_no_test_notices_beside_tested_places(delegation) -> None:
    untested = Reservation.CHANGE_NOT_TESTED
    text = "No test notices that changed code gives something else than before: f(1) gives 2, and gave 3."
    for evidence, count in ((PlaceEvidence.NOTICED, "1 of 1"), (PlaceEvidence.UNNOTICED, "0 of 1")):
        place = ChangedPlace(hunk="h", path="a.py", line=1, lines=1, function="f", evidence=evidence, why="so")
        facts = [ReservationFact(reservation=untested, text=text)]
        if evidence is PlaceEvidence.UNNOTICED:
            facts.append(ReservationFact(reservation=untested, text="0 of 1 changed place is tested. Not: a.py:1."))
        found = delegation(verdict=Verdict.UNVERIFIED, reservations=[untested], reservation_facts=facts, places=[place])
        card = verdict_card.card(found, PLAIN)
        assert card.count(f"    {text}\n") == 1
        assert card.count(f"{count} changed place is tested") == (evidence is PlaceEvidence.UNNOTICED)


def test_a_card_shows_what_its_reservations_are_about(delegation) -> None:
    gone = Reservation.OUTSIDE_SCOPE
    facts = [
        ReservationFact(reservation=gone, text="Tests or test cases were removed: tests/test_a.py::test_one."),
        ReservationFact(reservation=Reservation.FLAKY, text="This one no longer holds."),
    ]
    found = delegation(verdict=Verdict.UNVERIFIED, reservations=[gone], reservation_facts=facts)
    assert (
        "    Tests or test cases were removed: tests/test_a.py::test_one.\n    look at them in the diff\n"
    ) in verdict_card.card(found, PLAIN)
    sentence = "Tests or test cases were removed: tests/test_a.py::test_one"
    assert verdict_card.verdict_line(found, PLAIN) == f"UNVERIFIED: {sentence}"
    assert delegation_text.verdict_sentence(found) == f"unverified: {sentence}"
    facts += [ReservationFact(reservation=gone, text=f"Number {number}.") for number in range(40)]
    assert delegation_text.verdict_sentence(found) == f"unverified: {sentence} (and 40 more)"


def test_an_unverified_card_shows_why_and_the_next_step(delegation) -> None:
    found = delegation(
        verdict=Verdict.UNVERIFIED,
        sandbox=Sandbox(Confinement.NAMESPACE, Confinement.NAMESPACE),
        reservations=[Reservation.NO_MUTANT_KILLED, Reservation.FLAKY],
        worktree="/state/trees/p/1",
        checks=[
            check_result(
                mutation=MutationResult(
                    killed=0, viable=1, executed=1, total=9, idle=["tests/test_wrap.py::test_nothing"], mutants=[MISSED]
                )
            )
        ],
    )
    assert verdict_card.card(found, PLAIN) == (
        "20261121-004512-k3f9q  Write tests: wrap.py\n"
        "UNVERIFIED: there is a result, but check it before you rely on it\n"
        "\n"
        "! no mutant killed: no new test notices any wrong value\n"
        "    these tests prove nothing: ask for tests that compare results with what they should be\n"
        "! flaky: a check failed once and passed once on the same tree\n"
        "    run `understudy check 20261121-004512-k3f9q` again, and look for what is random, or depends on order, time zone or date\n"
        "\n"
        "✓ check pytest: 6 passed in 1.2 s\n"
        "    mutation test: the new tests notice 0 of 1 small change on lines that they execute; 8 of 9 places are on lines that no test executes\n"
        "      missed in wrap.py:12 in wrap (5d1c0b7a9e42)\n"
        "        - if len(line) > width:\n"
        "        + if len(line) >= width:\n"
        "      notices nothing: tests/test_wrap.py::test_nothing\n"
        "\n"
        "by quick, without a sandbox\n"
        "worktree: /state/trees/p/1\n"
        "\n"
        "next: understudy retry 20261121-004512-k3f9q\n      understudy watch 20261121-004512-k3f9q\n"
    )


def test_the_card_of_a_removed_worktree_shows_how_to_restore_it(delegation) -> None:
    undecided = Review(pending=2, accepted=0, rejected=0)
    text = verdict_card.card(delegation(worktree=None, rescue_ref="p/1", review=undecided), PLAIN)
    assert "next: understudy restore p/1\n      understudy diff 20261121-004512-k3f9q\n" in text
    assert "accept" not in text


def test_the_cards_of_a_follow_up_and_its_parent_link_to_each_other(delegation) -> None:
    text = verdict_card.card(delegation(superseded_by="20261121-004513-aaaaa"), PLAIN)
    assert "continued by 20261121-004513-aaaaa\n" in text
    assert "next: understudy show 20261121-004513-aaaaa\n" in text
    assert "follows 20261121-004511-bbbbb\n" in verdict_card.card(delegation(parent_id="20261121-004511-bbbbb"), PLAIN)


def test_the_card_of_a_run_in_the_checkout_does_not_say_to_undo_it_twice(delegation) -> None:
    advice = "to undo all: understudy undo"
    for accepted, expected in ((1, True), (0, False)):
        review = Review(pending=1 - accepted, accepted=accepted, rejected=0)
        found = delegation(
            verdict=Verdict.UNVERIFIED, reservations=[Reservation.NOT_ISOLATED], worktree="/tree", review=review
        )
        text = verdict_card.card(found, PLAIN)
        assert (advice in text, "you undid its changes" in text) == (expected, not expected)


@pytest.mark.parametrize(("kind", "useful"), [(ErrorKind.BASE_UNAVAILABLE, False), (ErrorKind.TOOL_CRASHED, True)])
def test_a_failed_card_proposes_a_retry_where_it_can_help(delegation, kind, useful) -> None:
    text = verdict_card.card(delegation(verdict=Verdict.FAILED, error=ErrorInfo(kind, "It failed.", "Do this.")), PLAIN)
    assert ("understudy retry" in text) == useful


def test_a_failed_card_shows_error_and_output(delegation) -> None:
    found = delegation(
        verdict=Verdict.CHECKS_FAILED,
        error=ErrorInfo(ErrorKind.TOOL_CRASHED, "it\x1b[31m broke", "look\x07 here"),
        checks=[
            check_result(
                ok=False, exit_code=1, passed=None, output_tail="one\n\x1b]0;title\x07two\n", checkout_files=["a.py"]
            )
        ],
    )
    text = verdict_card.card(found, PLAIN)
    assert "CHECKS FAILED: it broke\n    look here\n" in text
    assert "✗ check pytest: exit code 1 in 1.2 s\n    loaded from your checkout: a.py\n    | one\n    | two\n" in text


def test_a_failed_card_shows_the_first_failure_of_tap(delegation) -> None:
    output = "TAP version 13\nok 1 - fine\nnot ok 2 - globstar\n  error: 'false == true'\n" + "# count\n" * 20
    found = delegation(verdict=Verdict.CHECKS_FAILED, checks=[check_result(ok=False, exit_code=1, output_tail=output)])
    text = verdict_card.card(found, PLAIN)
    assert "    | not ok 2 - globstar\n    |   error: 'false == true'\n" in text
    assert "fine" not in text


@pytest.mark.parametrize(
    ("text", "shown", "cut"),
    [
        ("one\ntwo\n", "one\ntwo\n", False),
        ("row\n" * 100, "row\n" * 60 + "… the whole text: ", True),
        ("x" * 9000, "x" * 6000 + "…\n… the whole text: ", True),
        ("y" * 5999 + "\nzz", "y" * 5999 + "\n… the whole text: ", True),
    ],
)
def test_a_long_summary_is_cut_but_an_answer_is_not(delegation, text: str, shown: str, *, cut: bool) -> None:
    result = DelegationResult(text=text, files=[])
    worked = delegation(verdict=Verdict.UNVERIFIED, result=result)
    whole = f"understudy evidence {worked.id}\n"
    assert shown + (whole if cut else "") in verdict_card.card(worked, PLAIN)
    answered = verdict_card.card(delegation(verdict=Verdict.ANSWERED, result=result), PLAIN)
    assert text.rstrip() in answered
    assert whole not in answered


def test_an_accepted_result_can_be_undone(delegation) -> None:
    changed = DelegationResult(files=[FileStat(path="a.py", status="added", additions=1, deletions=0)])
    review = Review(pending=0, accepted=1, rejected=0)
    found = delegation(verdict=Verdict.VERIFIED, result=changed, review=review)
    assert f"      understudy undo {found.id}\n" in verdict_card.card(found, PLAIN)


def test_a_crash_keeps_its_lines_and_the_next_step_is_another_attempt(delegation) -> None:
    error = ErrorInfo(
        ErrorKind.TOOL_CRASHED,
        "It exited with code 3: one\n  two\n✗ three",
        "Correct it.",
        log_paths=["/a b/stderr.log", "/a b/stdout.log"],
    )
    text = verdict_card.card(delegation(verdict=Verdict.FAILED, error=error), PLAIN)
    assert "FAILED: It exited with code 3: one\n    |   two\n    | ✗ three\n    Correct it.\n" in text
    again = "next: understudy retry 20261121-004512-k3f9q\n      "
    logs = "less '/a b/stderr.log' '/a b/stdout.log'\n      "
    assert text.endswith(f"{again}{logs}understudy watch 20261121-004512-k3f9q\n")
    partial = delegation(verdict=Verdict.TIMED_OUT, review=Review(pending=2, accepted=0, rejected=0))
    assert f"{again}understudy review 20261121-004512-k3f9q\n" in verdict_card.card(partial, PLAIN)


def test_the_path_of_a_log_is_short_where_a_shell_understands_it(delegation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/you")
    logs = ["/home/you/a.log", "/home/you/b c.log"]
    found = delegation(verdict=Verdict.FAILED, error=ErrorInfo(ErrorKind.TOOL_CRASHED, "It failed.", log_paths=logs))
    assert "      less ~/a.log '/home/you/b c.log'\n" in verdict_card.card(found, PLAIN)


@pytest.mark.parametrize(("follows", "following"), [(True, "retry 20261121-004512-k3f9q"), (False, "delegators add")])
def test_what_works_without_a_model_is_not_asked_again(delegation, follows: bool, following: str) -> None:
    found = delegation(verdict=Verdict.NO_CHANGES)
    text = verdict_card.card(found, PLAIN, follows=lambda _: follows)
    assert f"next: understudy {following}\n      understudy watch 20261121-004512-k3f9q\n" in text
    other = verdict_card.card(found, PLAIN, follows=lambda _: follows, alternative=lambda _: "other")
    assert "retry 20261121-004512-k3f9q -d other\n" in other
    assert "delegators add" not in other


@pytest.mark.parametrize(
    ("verdict", "with_other"), [(Verdict.CANCELLED, False), (Verdict.TIMED_OUT, True), (Verdict.INTERRUPTED, True)]
)
def test_what_was_stopped_can_be_tried_again(delegation, verdict: Verdict, *, with_other: bool) -> None:
    found = delegation(verdict=verdict)
    text = verdict_card.card(found, PLAIN, follows=lambda _: False, alternative=lambda _: "other")
    assert f"next: understudy retry {found.id}\n" in text
    assert ("-d other" in text) == with_other


def test_what_only_a_model_can_do_is_for_the_delegator_that_is_there(delegation) -> None:
    found = delegation(verdict=Verdict.FAILED, error=ErrorInfo(ErrorKind.INPUT_EMPTY, "It is not Python.", "Sorry."))
    text = verdict_card.card(found, PLAIN, follows=lambda _: False, alternative=lambda _: "other")
    assert f"next: understudy retry {found.id} -d other\n" in text


def test_a_live_view_tells_a_failure_once() -> None:
    error = ErrorInfo(ErrorKind.TOOL_CRASHED, "It broke.")
    for ends, last in (
        ([e.AttemptFailed(error=error, will_retry=False)], "failed: It broke.\nfinished: failed\n"),
        ([], "finished: failed (It broke)\n"),
    ):
        screen = io.StringIO()
        view = live_view.View(screen, redraw=False, colour=False)
        for event in (*ends, e.Finished(verdict=Verdict.FAILED, reservations=[], error=error)):
            view.show(event)
        assert screen.getvalue() == last


def test_another_delegator_is_proposed_where_there_is_one(delegation) -> None:
    failed = delegation(verdict=Verdict.NO_CHANGES)
    for other, proposed in ((None, 0), ("second", 1)):
        text = verdict_card.card(failed, PLAIN, alternative=lambda _, other=other: other)
        assert text.count("understudy retry 20261121-004512-k3f9q -d second\n") == proposed
        assert text.count(" -d ") == proposed


def test_the_next_step_suits_a_result_that_fails_its_checks_and_an_agent_that_follows_no_words(delegation) -> None:
    reply, retry = "understudy reply 20261121-004512-k3f9q ", "understudy retry 20261121-004512-k3f9q -d second\n"
    for found in (
        delegation(verdict=Verdict.CHECKS_FAILED, review=Review(pending=1, accepted=0, rejected=0)),
        delegation(verdict=Verdict.VERIFIED, review=Review(pending=0, accepted=0, rejected=1)),
    ):
        text = verdict_card.card(found, PLAIN)
        assert reply in text
        assert "--all" not in text
        text = verdict_card.card(found, PLAIN, alternative=lambda _: "second", follows=lambda _: False)
        assert retry in text
        assert reply not in text
        assert "understudy retry 20261121-004512-k3f9q\n" not in text, "it would do the same again"


def test_every_verdict_and_reservation_is_explained_and_every_verdict_has_a_code(delegation) -> None:
    for verdict in Verdict:
        assert verdict_words.VERDICTS[verdict] in verdict_card.card(delegation(verdict=verdict), PLAIN)
        assert exit_codes.of_verdict(verdict) in exit_codes.Exit
    for reservation in Reservation:
        assert all(verdict_words.RESERVATIONS[reservation])
    assert exit_codes.of_verdict(Verdict.UNVERIFIED) != exit_codes.of_verdict(Verdict.VERIFIED) == 0


def test_what_uses_no_model_names_no_cost(delegation) -> None:
    assert "$0" not in verdict_card.card(delegation(cost_usd="0", cost_known=True), PLAIN)
    free = msgspec.structs.replace(no_usage(), input_tokens=10)
    assert "$0" in verdict_card.card(delegation(cost_usd="0", cost_known=True, usage=free), PLAIN)


def test_an_answer_is_shown_once(delegation) -> None:
    found = delegation(verdict=Verdict.ANSWERED, result=DelegationResult(text="Because.\n", files=[]))
    assert verdict_card.card(found, PLAIN).count("Because.") == 1
    assert "Because." not in verdict_card.card(found, PLAIN, shown_answer="Because.")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (MutationResult(killed=0), "the code under test has nothing to change"),
        (MutationResult(killed=0, total=3, scope="changes"), "the tests execute none of the changed code"),
        (
            MutationResult(killed=0, executed=2, total=3, unfinished="the time was over"),
            "nothing was judged: the time was over",
        ),
        (
            MutationResult(killed=2, viable=4, executed=4, total=4, scope="changes", stuck=1, dismissed=3),
            "the tests notice 2 of 4 small changes on lines that they execute; 1 by getting stuck; 3 dismissed",
        ),
        (
            MutationResult(
                killed=2,
                viable=2,
                executed=2,
                total=6,
                scope="changes",
                unexecuted=[CodePlace(path="money.py", line=line) for line in (41, 42, 57)],
            ),
            (
                "the tests notice 2 of 2 small changes on lines that they execute; 4 of 6 places are on lines that no "
                "test executes: money.py:41, money.py:42, money.py:57"
            ),
        ),
    ],
)
def test_the_mutation_test_as_text(result: MutationResult, words: str) -> None:
    assert verdict_card.mutation_text(result) == words


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (e.Base(commit="a" * 40, files=0, left_out=[]), "starts from aaaaaaaaaa (0 files)"),
        (
            e.Base(commit="a" * 40, files=1, left_out=["big.bin"]),
            "starts from aaaaaaaaaa (1 file); left out: big.bin",
        ),
        (e.Queued(position=2), "number 2 in the queue"),
        (
            e.Started(delegator="q", model="m", reason="you asked for it", tool="claude"),
            "q (claude, m) started: you asked for it",
        ),
        (e.ToolCall(call_id="1", name="Edit", title="Edit wrap.py", input={}), "→ Edit wrap.py"),
        (e.ToolResult(call_id="1", ok=True, output="fine"), None),
        (
            e.AttemptFailed(error=ErrorInfo(ErrorKind.OVERLOADED, "busy"), will_retry=True, wait_seconds=2.0),
            "failed: busy; retrying in 2 s",
        ),
        (
            e.AttemptFailed(error=ErrorInfo(ErrorKind.OVERLOADED, "busy."), will_retry=False, next_delegator="b"),
            "failed: busy; b is next",
        ),
        (
            e.AttemptFailed(error=ErrorInfo(ErrorKind.TOOL_CRASHED, "KeyError: 'a'\nTraceback\n  x"), will_retry=False),
            "failed: KeyError: 'a'",
        ),
        (e.Text(text="x"), None),
        (e.Note(level="warning", text="odd\nthing"), "warning: odd thing"),
        (
            e.Finished(verdict=Verdict.UNVERIFIED, reservations=[Reservation.NO_CHECKS]),
            "finished: unverified (no checks)",
        ),
        (e.CheckFinished.of(check_result(passed=0)), "✓ check pytest: no test ran in 1.2 s"),
        (
            e.CheckFinished.of(check_result(ok=False, failed=2, fails_on_base=True)),
            "✗ check pytest: 6 passed, 2 failed in 1.2 s, fails on the base, too",
        ),
        (
            e.CheckFinished.of(check_result(judging_seconds=12.24)),
            "✓ check pytest: 6 passed in 1.2 s, judged in 12.2 s",
        ),
        (e.File(path="a\x1b[2Jb", change="added"), 'added "a\\033[2Jb"'),
    ],
)
def test_an_event_is_one_line(event: e.Event, text: str | None) -> None:
    assert event_lines.line(event) == text


@given(st.text())
def test_control_characters_are_removed(text: str) -> None:
    cleaned = terminal.sanitize(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", cleaned)
    assert "\n" not in terminal.one_line(text)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;c2VjcmV0\x07x", "x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP+q\x1b\\x", "x"),
        ("a\rb", "a\nb"),
        ("\x9b2Jx", "x"),
        ("\x1b[", ""),
        ("a\u202eb", "ab"),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_hostile_text_is_sanitized(hostile: str, shown: str) -> None:
    assert terminal.sanitize(hostile) == shown


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_cut_text_fits(text: str, columns: int) -> None:
    assert terminal.width_of(terminal.cut(text, columns)) <= columns


def test_wide_characters_take_two_columns() -> None:
    assert terminal.width_of("日本e\u0301") == 5
    assert terminal.cut("日本語", 5) == "日本…"


class Screen(io.StringIO):
    """A terminal of one view: what a person would see."""

    def rows(self) -> list[str]:
        return screens.rows(self.getvalue(), 200)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def view_of(screen: io.StringIO, clock: Clock, **changes) -> live_view.View:
    return live_view.View(
        screen, **({"redraw": True, "colour": False, "columns": lambda: 60, "clock": clock} | changes)
    )


def test_the_live_view_keeps_lines_above_one_status_line() -> None:
    screen, clock = Screen(), Clock()
    view = view_of(screen, clock)
    view.show(e.Started(delegator="q", model="m", reason="you asked"))
    clock.now = 7
    view.show(
        e.ToolCall(
            call_id="1", name="Edit", title="Edit a file with a name that is much too long for a terminal", input={}
        )
    )
    view.show(
        e.UsageReport(
            input_tokens=12_000,
            output_tokens=300,
            cache_read_tokens=0,
            cache_write_tokens=0,
            reasoning_tokens=0,
            turns=1,
            tool_calls=1,
        )
    )
    clock.now = 8
    view.tick()
    assert screen.rows() == [
        "q (m) started: you asked",
        "→ Edit a file with a name that is much too long for a termi…",
        "running · 0:08 · 1 step · 12.3k tokens · Edit a file with …",
    ]
    assert all(len(row) <= 60 for row in screen.rows())
    view.clear()
    assert len(screen.rows()) == 2


def test_the_status_line_is_redrawn_rarely() -> None:
    screen, clock = Screen(), Clock()
    view = view_of(screen, clock)
    view.show(e.Phase(text="reading"))
    written = len(screen.getvalue())
    for _ in range(100):
        view.tick()
    assert len(screen.getvalue()) == written
    clock.now = 0.5
    view.tick()
    assert len(screen.getvalue()) == written  # nothing to say that is not there
    clock.now = 1.0
    view.tick()
    assert len(screen.getvalue()) > written


@pytest.mark.parametrize("watches", [False, True])
def test_the_output_of_a_custom_command_is_visible_while_it_runs(watches: bool) -> None:
    screen, clock = Screen(), Clock()
    view = view_of(screen, clock, prints_output=watches)
    view.show(e.Started(delegator="mine", tool="generic", model="mine", reason="chosen"))
    for piece in ("step 1\n", "step 2\nst", "ep 3\nhalf"):
        clock.now += 1
        view.show(e.Text(text=piece))
    *rows, status = screen.rows()
    assert rows == ["mine started: chosen", *(["  | step 1", "  | step 2", "  | step 3"] if watches else [])]
    assert status.endswith(" · step 3")


@pytest.mark.parametrize("redraw", [True, False])
def test_counts_are_in_the_status_of_a_terminal_only(redraw: bool) -> None:
    screen, clock = Screen(), Clock()
    view = view_of(screen, clock, redraw=redraw)
    view.show(e.CheckStarted(name="pytest"))
    place = ChangedPlace(
        hunk="a", path="a.py", line=3, lines=1, function="", evidence=PlaceEvidence.NOTICED, why="a test fails"
    )
    for done in (4, 8):
        clock.now += 1
        text = f"pytest: tried {done} of 40 small changes"
        view.show(e.Phase(text=text, count=Count(of="small_changes", done=done, total=40)))
        view.show(e.PlacesJudged(places=[place], total=2))
    lines = [row for row in screen.rows() if "small changes" in row]
    if redraw:
        assert [line.rpartition(" · ")[2] for line in lines] == ["pytest: tried 8 of 40 small changes"]
    else:
        assert lines == [f"pytest: tried {done} of 40 small changes" for done in (4, 8)]


def test_the_text_of_an_agent_is_no_activity() -> None:
    screen = Screen()
    view = view_of(screen, Clock(), prints_output=True)
    view.show(e.Started(delegator="claude", tool="claude", model="m", reason="chosen"))
    view.show(e.Text(text="I think\n"))
    assert "I think" not in screen.getvalue()


def test_commands_to_copy_are_not_cut() -> None:
    screen = Screen()
    view = view_of(screen, Clock())
    view.show(e.Applied(paths=["a.txt"], by="cli", undo_token="20261125-161847-387i1.17cf6a74"))
    view.show(e.Discarded(rescue_ref="boltons-c89f6b0f23/20261125-161847-387i1"))
    view.show(e.Note(level="info", text="The previous contents can be restored: understudy restore project-1/x"))
    *rows, _ = screen.rows()
    assert [row for row in rows if "understudy " in row] == [
        "  understudy undo 20261125-161847-387i1.17cf6a74",
        "  understudy restore boltons-c89f6b0f23/20261125-161847-387i1",
        "  understudy restore project-1/x",
    ]


def test_the_place_and_the_steps_of_a_delegation_are_not_cut() -> None:
    screen = Screen()
    view = view_of(screen, Clock())
    where = "/var/state/understudy/worktrees/project-f2d9961da0/1/a-project-with-a-long-name"
    view.show(e.Worktree(path=where, seconds=0.1))
    step = "tests-pytest: running the new tests again, in other orders and time zones"
    view.show(e.Phase(text=step))
    text = screen.getvalue()
    assert where in text
    assert " ".join(map(str.strip, screen.rows()[-3:-1])) == step


def test_a_pipe_gets_plain_lines() -> None:
    screen = Screen()
    view = view_of(screen, Clock(), redraw=False)
    view.show(e.Phase(text="reading"))
    view.show(e.Phase(text="reading"))
    view.tick()
    view.show(e.Finished(verdict=Verdict.VERIFIED, reservations=[]))
    view.clear()
    assert screen.getvalue() == "reading\nfinished: verified\n"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_no_colour_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.has_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.has_colour(Terminal())
    assert terminal.can_redraw(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.can_redraw(Terminal())
    assert not terminal.can_redraw(io.StringIO())


PATCH = b"""diff --git a/old.py b/new.py
--- a/old.py
+++ b/new.py
@@ -1,2 +1,2 @@
--- a comment of SQL
++ something
 diff --git is not at the beginning here
diff --git "a/t\\303\\244st.py" "b/t\\303\\244st.py"
--- a/x
+++ b/x
@@ -1 +1 @@
-a
+\x1b[2Jb
"""


@pytest.mark.parametrize("pager", ["", "no-such-pager -R", 'less "-R'])
def test_a_pager_that_cannot_be_started_is_left_out(pager: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("PAGER", pager)
    diff.show(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    assert click.unstyle(screen.getvalue()) == "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def test_a_pipe_gets_the_header_and_every_column_in_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "width", lambda: 40)
    row = {"ID": "7k2x9q", "REF": "-", "MODEL": "m" * 39, "COST": "reported by the agent, at some length"}
    output.table(tuple(row), [tuple(row.values())], below=("COST", "MODEL", "REF"))
    header, line = (re.split("  +", text) for text in capsys.readouterr().out.splitlines())
    assert header == list(row)
    assert line == list(row.values())


@pytest.mark.parametrize("columns", [120, 80, 60, 40, 20])
def test_a_narrow_terminal_loses_no_column_that_can_be_below_its_row(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(terminal, "width", lambda: columns)
    header = ("ID", "RECIPE", "USD", "MODEL", "BY")
    row = ("k3f9q", "implement", "0.0034", "qwen3-coder-480b", "-")
    output.table(header, [row], below=("MODEL", "BY", "USD", "RECIPE"))
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert all(terminal.width_of(line) <= columns or line == "  model qwen3-coder-480b" for line in lines)
    text = " ".join(lines)
    assert all(cell in text for cell in row[:4]), "people copy from here, so nothing is cut"
    assert "by" not in text.lower(), "no row has a value"


@pytest.mark.parametrize("columns", [120, 60, 30])
def test_prose_in_the_last_column_is_wrapped_and_never_cut(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "Several delegators are configured and none is the default for 'explain'."
    rows = [("explain", "-", why), ("tests", "ghostwriter", "it is the default")]
    output.table(("RECIPE", "DELEGATOR", "WHY"), rows, wrap=True)
    assert f"explain  -            {why}\n" in capsys.readouterr().out, "a pipe gets one line for each row"
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(terminal, "width", lambda: columns)
    output.table(("RECIPE", "DELEGATOR", "WHY"), rows, wrap=True)
    shown = click.unstyle(capsys.readouterr().out)
    assert all(terminal.width_of(line) <= columns for line in shown.splitlines())
    assert f"explain - {why} tests ghostwriter it is the default" in " ".join(shown.split())
    below = columns == 30
    assert ("WHY" in shown) is not below
    assert ("\n  it is the default" in shown) is below, "all of the column is in one place"


def test_columns_move_below_their_row_only_where_prose_below_it_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    why = "The program 'claude' was not found."
    shown = {}
    for columns in (30, 18):
        monkeypatch.setattr(terminal, "width", lambda columns=columns: columns)
        output.table(
            ("NAME", "MODEL", "FROM", "STATE"), [("claude", "sonnet", "user", why)], below=("FROM",), wrap=True
        )
        shown[columns] = click.unstyle(capsys.readouterr().out)
    assert shown[30] == "NAME    MODEL   FROM\nclaude  sonnet  user\n  The program 'claude' was not\n  found.\n"
    assert shown[18].startswith("NAME    MODEL\nclaude  sonnet\n  The program\n")
    assert shown[18].endswith("  from user\n")


def test_a_column_of_prose_without_a_value_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(terminal, "width", lambda: 20)
    output.table(("NAME", "FROM", "PROBLEM"), [("pytest", ".venv/lib/python3.11/site-packages", "")], wrap=True)
    assert click.unstyle(capsys.readouterr().out).split() == [
        "NAME",
        "FROM",
        "pytest",
        ".venv/lib/python3.11/site-packages",
    ]


def test_a_patch_is_split_by_file() -> None:
    parts = patches.split(PATCH)
    assert b"".join(parts) == PATCH
    assert [patches.concerns(part, {"new.py"}) for part in parts] == [True, False]
    assert [patches.concerns(part, {"täst.py"}) for part in parts] == [False, True]
    assert [patches.concerns(part, {"ew.py", "w.py"}) for part in parts] == [False, False]
    assert patches.split(b"") == []


def test_a_coloured_patch_is_the_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = diff.coloured(PATCH, terminal.Paint(on=True))
    assert "\x1b[2J" not in coloured
    assert terminal.sanitize(coloured) == PATCH.decode().replace("\x1b", "^[")
    rows = coloured.splitlines()
    assert rows[1].startswith("\x1b[1m")  # a header: bold
    assert rows[4].startswith("\x1b[31m")  # a removed line, though it looks like a header: red


def test_hidden_characters_are_visible_in_a_patch() -> None:
    patch = "@@ -0,0 +1,2 @@\n+ok = 1\rhidden = 2\n+if admin:\u202e # no\u2066\n".encode()
    rows = diff.coloured(patch, PLAIN).splitlines()
    assert rows[1:] == ["+ok = 1^Mhidden = 2", "+if admin:<U+202E> # no<U+2066>"]


@pytest.mark.parametrize(
    ("wire", "shown"),
    [
        ("src/täst  2.py", "src/täst  2.py"),
        ("a\nb", '"a\\nb"'),
        ("esc\x1b[31m.txt", '"esc\\033[31m.txt"'),
        (".vs\u200dcode/x", '".vs\\342\\200\\215code/x"'),
        (" led", '" led"'),
        ('"caf\\351.txt"', '"caf\\351.txt"'),
    ],
)
def test_a_printed_path_is_unambiguous_and_can_be_typed(wire: str, shown: str) -> None:
    assert terminal.path(wire) == shown
    other = FileDiff(path="other", status="added", binary=False, hunks=[])
    files = [other, FileDiff(path=wire, status="added", binary=False, hunks=[])]
    assert hunk_targets.wire(files, shown) == wire
    assert hunk_targets.wire(files, os.fsdecode(path_quoting.unquote(wire))) == wire
    assert hunk_targets.concerns(wire, shown)


def test_durations_and_counts() -> None:
    assert [delegation_text.duration(seconds) for seconds in (-1, 7, 754, 3723)] == ["0:00", "0:07", "12:34", "1:02:03"]
    assert [output.thousands(count) for count in (950, 12_345, 1_200_000)] == ["950", "12.3k", "1.2M"]


def test_the_card_of_a_running_delegation_shows_its_activity(delegation) -> None:
    text = verdict_card.card(delegation(state=State.RUNNING, finished_at=None, activity="Edit\x1b[2J wrap.py"), PLAIN)
    assert "RUNNING: Edit wrap.py" in text
    assert "understudy cancel 20261121-004512-k3f9q" in text


@pytest.mark.parametrize(
    ("home", "text", "shown"),
    [
        ("/srv/ada", "/srv/ada/state/1", "~/state/1"),
        ("/srv/ada/", "/srv/ada/state/1", "~/state/1"),
        ("/srv/ada", "/srv/adaline/1", "/srv/adaline/1"),
        ("/", "/state/1", "/state/1"),
        ("", "/state/1", "/state/1"),
    ],
)
def test_a_path_in_the_home_folder_is_shortened(monkeypatch: pytest.MonkeyPatch, home: str, text: str, shown: str):
    monkeypatch.setenv("HOME", home)
    assert terminal.short_path(text) == shown
