"""A notification says what Understudy knows, never code, and is short."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.integrations.notifications import message
from understudy.integrations.notifications.message import LONGEST_TEXT, LONGEST_TITLE
from understudy.model.config.delegators import PermissionRule
from understudy.model.delegation.delegations import (
    AskedBy,
    Delegation,
    DelegationResult,
    FileStat,
    PermissionOption,
    PermissionRequest,
    no_usage,
)
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.model.hunks import Review
from understudy.model.states import State
from understudy.model.verdicts import Reservation, Verdict

CODE = re.compile(r"[{}()\[\]<>;=`$\\|&*#^%\"~]")
"""Characters of which code is made, and none of our sentences."""
OPTIONS = [
    PermissionOption(id="a", title="Yes, do it", kind="allow_once"),
    PermissionOption(id="b", title="Always", kind="allow_always"),
    PermissionOption(id="c", title="No", kind="reject_once"),
    PermissionOption(id="d", title="Never", kind="reject_always"),
]
WRITTEN = st.one_of(
    st.text(max_size=300),
    st.sampled_from(
        [
            "def add(a, b):\n    return a + b",
            "key = 'sk-123'",
            "rm -rf /home/ada/work",
            "cat ../../etc/passwd",
            "Tests: calc.py",
            "npm test",
            "/home/ada/.ssh/id_rsa",
            "~/secret",
            "it's ../up",
        ]
    ),
)


def delegation(**fields):
    known = {
        "id": "20261121-004512-k3f9q",
        "title": "Tests: calc.py",
        "recipe": "tests",
        "state": State.FINISHED,
        "reservations": [],
        "workspace": "/home/ada/calc",
        "delegator": "cheap",
        "attempts": [],
        "checks": [],
        "review": Review(pending=0, accepted=0, rejected=0),
        "confined": True,
        "usage": no_usage(),
        "cost_known": False,
        "asked_by": AskedBy(frontend="cli", depth=0),
        "started_at": "2026-11-21T00:45:12.000Z",
        "last_seq": 9,
    }
    return Delegation(**{**known, **fields})


def question(kind="execute", options=None, **fields):
    known = {"request_id": "q1", "attempt": 1, "title": "Run it", "detail": "Run it", "deadline_action": "c"}
    return PermissionRequest(kind=kind, options=OPTIONS if options is None else options, **{**known, **fields})


def rule(command):
    return PermissionRule(decision="allow", kind="execute", command=command, exact=True)


def said(one):
    return f"{one.title}\n{one.text}"


@given(st.tuples(WRITTEN, WRITTEN, WRITTEN, WRITTEN), st.sampled_from(Verdict), st.lists(st.sampled_from(Reservation)))
def test_whatever_users_and_agents_write_no_code_is_sent_and_the_text_is_short(written, verdict, reservations):
    title, asked, command, output = written
    files = [FileStat(path=output, status="modified", additions=3, deletions=1)]
    about = delegation(
        title=title,
        verdict=verdict,
        reservations=reservations,
        error=ErrorInfo(ErrorKind.TOOL_CRASHED, output, output),
        result=DelegationResult(text=output, summary=output, files=files),
    )
    sent = [
        message.of_end(about),
        message.of_pause(about, asked, "2026-11-21T00:45:12Z", "rate_limit"),
        message.of_question(about, question(title=asked, detail=output, rule=rule(command), command=command)),
        message.of_question(about, question("question", title=asked, detail=asked)),
    ]
    for one in filter(None, sent):
        assert not CODE.search(said(one))
        assert len(one.title) <= LONGEST_TITLE
        assert len(one.text) <= LONGEST_TEXT
        assert one.text.count("\n") < 6
        assert not re.search(r"(?:^|[\s'])(?:/|\.\./)\w", said(one).replace("20261121", "")), said(one)
        if len(output) > 20:
            assert output not in said(one)


def test_an_end_says_the_verdict_and_how_much_changed():
    files = [
        FileStat(path="a.py", status="modified", additions=3, deletions=1),
        FileStat(path="b.py", status="added", additions=1, deletions=0),
    ]
    one = message.of_end(
        delegation(
            verdict=Verdict.UNVERIFIED,
            reservations=[Reservation.NO_CHECKS, Reservation.FLAKY],
            result=DelegationResult(files=files),
        )
    )
    assert (one.event, one.title) == ("verdict", "Unverified: Tests: calc.py")
    assert one.text.splitlines() == [
        "Unverified: there is a result, but check it before you rely on it.",
        "Reservation: no required check ran, and 1 more.",
        "2 files: 4 lines added, 1 removed.",
    ]


@pytest.mark.parametrize(
    ("verdict", "event"),
    [("failed", "failure"), ("timed_out", "failure"), ("budget_exhausted", "budget"), ("answered", "verdict")],
)
def test_each_verdict_has_its_event(verdict, event):
    assert message.of_end(delegation(verdict=Verdict(verdict))).event == event


def test_what_the_user_cancelled_is_no_news():
    assert message.of_end(delegation(verdict=Verdict.CANCELLED)) is None


def test_a_command_is_allowed_only_where_all_of_it_is_shown():
    shown = question(command="npm test", rule=rule("npm test"))
    assert "npm test" in message.of_question(delegation(), shown).text
    assert [(one.title, one.option) for one in message.buttons(shown)] == [("Allow once", "a"), ("Reject", "c")]
    for hidden in (
        question(command="npm test; curl x", rule=None),
        question(command="cat /etc/passwd", rule=rule("cat /etc/passwd")),
        question(command="npm " + "x" * 200, rule=rule("npm " + "x" * 200)),
    ):
        assert hidden.command not in message.of_question(delegation(), hidden).text
        assert [one.option for one in message.buttons(hidden)] == ["c"]


def test_an_agent_cannot_call_an_option_that_allows_reject():
    options = [
        PermissionOption(id="a", title="Reject", kind="allow_once"),
        PermissionOption(id="c", title="Allow once", kind="reject_once"),
    ]
    shown = message.buttons(question(options=options, rule=rule("npm test")))
    assert [(one.title, one.option) for one in shown] == [("Allow once", "a"), ("Reject", "c")]


def test_a_question_of_the_agent_has_its_choices_but_no_text_to_write():
    choices = [
        PermissionOption(id="1", title="Use SQLite", kind="allow_once"),
        PermissionOption(id="2", title="Use `dbm`", kind="allow_once"),
        PermissionOption(id="text", title="Answer with a text", kind="allow_once", takes_text=True),
        PermissionOption(id="no", title="Do not answer", kind="reject_once"),
    ]
    asked = question("question", choices, title="Which store?", detail="Which store?")
    assert "The agent asks: Which store?" in message.of_question(delegation(), asked).text
    assert [one.option for one in message.buttons(asked)] == ["1", "no"]
    longer = question("question", choices, title="Which store?", detail="Which store?\nclass A: ...")
    assert message.buttons(longer) == []
