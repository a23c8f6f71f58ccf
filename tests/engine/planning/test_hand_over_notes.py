"""The notes of a hand-over are bounded, and nothing in them looks like a part of the notes that it is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.planning.hand_over import MOST_BYTES, Notes
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Attempt, no_usage
from understudy.model.errors import ErrorInfo, ErrorKind

TEXT = st.text(max_size=3000)
FAILED = ErrorInfo(ErrorKind.QUOTA_EXHAUSTED, "No credit is left.")


def attempt(number, name="first"):
    return Attempt(
        number=number, delegator=name, model="m", started_at="", start_commit="c", usage=no_usage(), failure=FAILED
    )


def notes_of(*recorded, task="Do it.", files=(), since=1):
    notes = Notes(since)
    notes.read(recorded)
    return notes.text(task, [attempt(1)], list(files))


EVENTS = st.one_of(
    st.builds(events.Text, text=TEXT, attempt=st.just(1)),
    st.builds(events.ToolCall, call_id=st.sampled_from("abcdefgh"), name=TEXT, title=TEXT, input=st.none(),
              attempt=st.just(1)),
    st.builds(events.ToolResult, call_id=st.sampled_from("abcdefgh"), ok=st.booleans(), output=TEXT,
              attempt=st.just(1)),
    st.builds(events.Plan, entries=st.lists(st.one_of(TEXT, st.fixed_dictionaries({"content": TEXT}), st.none())),
              attempt=st.just(1)),
)  # fmt: skip


@given(st.lists(EVENTS, max_size=30), TEXT, st.lists(st.tuples(st.just("added"), TEXT), max_size=100))
def test_notes_are_bounded_and_have_only_their_own_headings(recorded, task, files):
    text = notes_of(*recorded, task=task, files=files)
    assert len(text.encode()) <= MOST_BYTES
    headings = [line for line in text.split("\n") if line.startswith("#")]
    assert len(headings) <= 6
    assert len(headings) == len(set(headings))


def call(number, title="pytest"):
    key = f"call {number}"
    return [
        events.ToolCall(call_id=key, name="Bash", title=f"{title} {number}", input=None, attempt=1),
        events.ToolResult(call_id=key, ok=True, output="ok", attempt=1),
    ]


def test_of_many_calls_the_last_ones_are_named():
    text = notes_of(*(event for number in range(1000) for event in call(number)))
    assert "pytest 999" in text
    assert "pytest 5\n" not in text
    assert "more" in text


def test_what_the_agent_said_last_is_what_follows_its_last_call():
    text = notes_of(
        events.Text(text="First I look.", attempt=1), *call(1), events.Text(text="Now I ", attempt=1),
        events.Text(text="write.", attempt=1),
    )  # fmt: skip
    assert "> Now I write." in text
    assert "First I look" not in text


def test_a_call_without_an_outcome_may_have_happened():
    text = notes_of(events.ToolCall(call_id="1", name="Bash", title="git push", input=None, attempt=1))
    assert "- no outcome: git push" in text


def test_attempts_whose_files_are_gone_are_left_out():
    assert "pytest" not in notes_of(*call(1), since=2)
