"""The table of a group: in order, as high as the terminal allows, redrawn in place, plain lines in a pipe."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime

from journals import delegation_of_a_test as delegation

from understudy.frontends.cli.group.group_table import GroupTable
from understudy.frontends.cli.terminal.terminal import width_of
from understudy.model.delegation.delegations import Attempt, GroupBudget, no_usage
from understudy.model.states import State
from understudy.model.verdicts import Verdict

NOW = datetime(2026, 11, 21, 0, 45, 30, tzinfo=UTC)


def member(number: int, state: State = State.RUNNING, **changes):
    usage = no_usage()
    usage.input_tokens = 1000 * number
    attempt = Attempt(
        number=1,
        delegator="quick",
        model="m",
        started_at="2026-11-21T00:45:12.000Z",
        start_commit="",
        usage=usage,
    )
    given = {
        "id": f"20261121-004512-0000{number % 10}",
        "title": f"Task {number} with a title that is longer than most",
        "state": state,
        "usage": usage,
        "attempts": [] if state is State.QUEUED else [attempt],
        "finished_at": None,
        "cost_usd": "0.5",
        **changes,
    }
    return delegation(**given)


def drawn(members, *, columns: int = 80, lines: int = 24, budget=None) -> list[str]:
    stream = io.StringIO()
    table = GroupTable(stream, redraw=True, colour=False, budget=budget, size=lambda: (columns, lines), now=lambda: NOW)
    table.show(members)
    return stream.getvalue().splitlines()


def test_members_are_shown_in_order_with_a_summary():
    finished = member(1, State.FINISHED, verdict=Verdict.VERIFIED, finished_at="2026-11-21T00:45:19.000Z")
    found = drawn([finished, member(2), member(3, State.QUEUED, cost_usd=None)], budget=GroupBudget(max_usd="2.00"))
    assert [line.split()[0] for line in found] == ["TITLE", "1", "2", "3", "1"]
    assert re.search(r"Task 1 .* quick +verified +0:07 +1\.0k +\$0\.50$", found[1])
    assert re.search(r"Task 2 .* quick +running +0:18 +2\.0k +\$0\.50$", found[2])
    assert re.search(r"Task 3 .* quick +queued +3\.0k$", found[3])
    assert found[4] == "1 of 3 done · 1 running · 1 waiting · 0:18 · 6.0k tokens · $1.00 of $2.00"


def test_no_line_is_wider_than_the_terminal():
    wide = member(1, title="漢字を含む題名" * 9, activity="reading " * 30)
    for columns in (20, 40, 80, 120, 200):
        assert all(width_of(line) < columns for line in drawn([wide, member(2)], columns=columns))


def test_a_wide_terminal_shows_what_each_member_does():
    asks = member(3, activity="Read src/wrap.py")
    found = drawn([member(1, activity="Write tests"), asks], columns=120)
    assert found[0].endswith("ACTIVITY")
    assert found[1].endswith("Write tests")


def test_a_low_terminal_shows_those_at_work():
    many = [member(number, State.FINISHED, verdict=Verdict.FAILED) for number in range(1, 31)]
    many[20] = member(21)
    many[25] = member(26, State.QUEUED)
    found = drawn(many, lines=10)
    assert len(found) == 9, "one line is left for the cursor"
    assert [line.split()[0] for line in found[1:-2]] == ["1", "2", "3", "4", "21", "26"]
    assert found[-2] == "   and 24 more: 24 failed"


def test_a_new_drawing_replaces_the_old_one():
    stream = io.StringIO()
    size, time = [80, 24], [0.0]
    table = GroupTable(
        stream, redraw=True, colour=False, size=lambda: (size[0], size[1]), clock=lambda: time[0], now=lambda: NOW
    )
    table.show([member(1)])
    table.show([member(1)])
    assert stream.getvalue().count("TITLE") == 1, "not drawn again at once"
    time[0] = 1.0
    table.show([member(1)])
    assert "\r\x1b[3A\x1b[J" in stream.getvalue()
    size[0] = 30
    table.clear()
    assert stream.getvalue().endswith("\r\x1b[8A\x1b[J"), "the terminal has wrapped the lines"


def test_in_a_pipe_each_change_is_a_line():
    stream = io.StringIO()
    table = GroupTable(stream, redraw=False, colour=False, now=lambda: NOW)
    table.show([member(1), member(2, State.QUEUED)])
    table.show([member(1), member(2)])
    done = member(1, State.FINISHED, verdict=Verdict.VERIFIED, finished_at="2026-11-21T00:45:19.000Z")
    table.show([done, member(2)])
    title = "with a title that is longer than most (quick)"
    assert stream.getvalue().splitlines() == [
        f"1/2 Task 1 {title}: running",
        f"2/2 Task 2 {title}: queued",
        f"2/2 Task 2 {title}: running",
        f"1/2 Task 1 {title}: verified, 0:07, 1.0k, $0.50",
    ]


def test_a_member_that_comes_after_others_names_their_rows():
    first, second = member(1), member(2, State.FINISHED, verdict=Verdict.VERIFIED)
    third = member(3, State.QUEUED, after=[first.id, second.id], cost_usd=None)
    assert drawn([first, second, third], columns=120)[3].endswith("  after 1")
    stream = io.StringIO()
    GroupTable(stream, redraw=False, colour=False).show([first, second, third])
    assert stream.getvalue().splitlines()[2].endswith(": queued, after 1")
