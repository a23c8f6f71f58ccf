"""Between a runner and the journal: nothing is lost, nothing changes its order, secrets do not get through."""

from __future__ import annotations

import asyncio

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.engine.running.run_context import LINES_A_SECOND, Emitter
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.secrets.redaction import Redactor

SECRET = "sk-0123456789abcdef"


class Paper:
    """A stand-in for the journal's writer that records the time of each write."""

    def __init__(self):
        self.lines = []
        self.full = False

    def append(self, event, *, attempt):
        if self.full:
            raise UnderstudyError(ErrorKind.DISK_FULL, "The disk is full.")
        self.lines.append((asyncio.get_running_loop().time(), attempt, event))
        return len(self.lines)


def flat(told):
    """Return a list of events with neighbouring deltas joined, as (type, text)."""
    joined = []
    for event in told:
        kind, text = type(event).__name__, getattr(event, "text", "")
        if kind in {"Text", "Thinking"} and joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        elif kind not in {"Text", "Thinking"} or text:
            joined.append((kind, text))
    return joined


told_events = st.lists(
    st.one_of(
        st.builds(lambda text: events.Text(text=text), st.text(max_size=8)),
        st.builds(lambda text: events.Thinking(text=text), st.text(max_size=8)),
        st.builds(lambda text: events.Phase(text=text), st.text(max_size=8)),
    ),
    max_size=40,
)


@given(told=told_events, redacting=st.booleans())
@settings(deadline=None, max_examples=examples(200))
def test_every_character_arrives_once_and_in_order(told, redacting):
    paper = Paper()

    async def tell():
        emitter = Emitter(paper, Redactor({"key": SECRET}) if redacting else None)
        for event in told:
            emitter(event)
        emitter.close()

    asyncio.run(tell())
    assert flat(event for _, _, event in paper.lines) == flat(told)


@given(pieces=st.lists(st.integers(min_value=1, max_value=len(SECRET)), min_size=1, max_size=6))
@settings(deadline=None)
def test_a_secret_in_pieces_is_found(pieces):
    text, cut = f"before {SECRET} after", []
    while text:
        size = pieces[len(cut) % len(pieces)]
        cut.append(text[:size])
        text = text[size:]
    paper = Paper()

    async def tell():
        emitter = Emitter(paper, Redactor({"key": SECRET}))
        for piece in cut:
            emitter(events.Text(text=piece))
        emitter.close()

    asyncio.run(tell())
    assert "".join(event.text for _, _, event in paper.lines) == "before <secret:key> after"


async def test_the_first_delta_is_written_at_once_and_the_rest_joined():
    paper = Paper()
    emitter = Emitter(paper)
    emitter(events.Text(text="first"))
    assert [event.text for _, _, event in paper.lines] == ["first"]
    began = asyncio.get_running_loop().time()
    count = 0
    while asyncio.get_running_loop().time() < began + 0.5:
        emitter(events.Text(text=f"{count} "))
        count += 1
        await asyncio.sleep(0)
    emitter.close()
    assert "".join(event.text for _, _, event in paper.lines[1:]).split() == [str(number) for number in range(count)]
    assert len(paper.lines) <= 0.5 * LINES_A_SECOND + 3


async def test_a_timer_writes_what_waits():
    paper = Paper()
    emitter = Emitter(paper)
    emitter(events.Text(text="a"))
    emitter(events.Text(text="b"))
    async with asyncio.timeout(60):
        while len(paper.lines) < 2:
            await asyncio.sleep(0.005)
    assert [event.text for _, _, event in paper.lines] == ["a", "b"]


async def test_a_full_disk_in_a_timer_is_raised_to_the_next(monkeypatch):
    loop, clock = asyncio.get_running_loop(), [100.0]
    monkeypatch.setattr(loop, "time", lambda: clock[0])  # a busy machine may need longer than the timer from a to b
    paper = Paper()
    emitter = Emitter(paper)
    emitter(events.Text(text="a"))
    emitter(events.Text(text="b"))
    paper.full = True
    clock[0] += 2 / LINES_A_SECOND
    for _ in range(3):  # the timer is due: it runs before these rounds of the loop are over
        await asyncio.sleep(0)
    with pytest.raises(UnderstudyError) as caught:
        emitter(events.Text(text="c"))
    assert caught.value.kind == "disk_full"
