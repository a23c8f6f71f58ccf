"""The state machine that pauses delegators: every sequence of attempts keeps its rules."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from understudy.model.config.config_entries import CircuitState
from understudy.model.delegation.spec import PauseBounds
from understudy.model.errors import FailureClass
from understudy.policy import circuit as circuits
from understudy.policy.circuit import LONGEST_RETRY_SECONDS, Circuit
from understudy.process.identity import Identity

PROCESSES = [Identity(pid, 1, "boot") for pid in range(1, 5)]
BOUNDS = PauseBounds(failures=3, outage_pause_seconds=15, pause_minutes=5, longest_pause_minutes=60)
PASSES = {FailureClass.OVERLOAD, FailureClass.RATE_LIMIT, FailureClass.CRASH, FailureClass.STALL}
LEGAL = {
    CircuitState.CLOSED: {CircuitState.CLOSED, CircuitState.OPEN},
    CircuitState.OPEN: {CircuitState.OPEN, CircuitState.HALF_OPEN, CircuitState.CLOSED},
    CircuitState.HALF_OPEN: {CircuitState.HALF_OPEN, CircuitState.OPEN, CircuitState.CLOSED},
}
"""The transitions that ``CircuitState`` documents."""


class Circuits(RuleBasedStateMachine):
    """Processes that try one delegator, some without being admitted, and some that die."""

    def __init__(self) -> None:
        super().__init__()
        self.circuit = Circuit()
        self.kind = FailureClass.AUTH
        self.first_failure = 0.0
        self.now = 1_000_000.0
        self.alive = set(PROCESSES)
        self.running: set[Identity] = set()

    @initialize(kind=st.sampled_from(FailureClass))
    def fail_in_one_way(self, kind: FailureClass) -> None:
        self.kind = kind

    def change(self, after: Circuit) -> None:
        assert after.state in LEGAL[self.circuit.state]
        self.circuit = after

    @rule(seconds=st.sampled_from([0.0, 1.0, 299.0, 301.0, 3599.0, 3601.0, 8e5]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=st.sampled_from(PROCESSES), anyway=st.booleans())
    def begin(self, who: Identity, anyway: bool) -> None:
        before = self.circuit
        refused = circuits.refuses(before, now=self.now, by=who, alive=self.alive.__contains__)
        if before.state is CircuitState.CLOSED:
            assert not refused
        elif before.state is CircuitState.OPEN:
            assert refused == (self.now < before.until)
        else:
            assert refused == (before.probe != who and before.probe in self.alive), "one probe at a time"
        if not refused:
            self.change(circuits.admitted(before, who))
            assert self.circuit.probe == (None if before.state is CircuitState.CLOSED else who)
        if not refused or anyway:
            self.running.add(who)
            self.alive.add(who)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), retry=st.none() | st.sampled_from([-5.0, 60.0, 7200.0, 1e9]))
    def fail(self, data: st.DataObject, retry: float | None) -> None:
        who = data.draw(st.sampled_from(sorted(self.running, key=lambda one: one.pid)))
        self.running.discard(who)
        before, told = self.circuit, retry is not None and 0 < retry <= LONGEST_RETRY_SECONDS
        if not before.failures:
            self.first_failure = self.now
        after = circuits.failed(
            before,
            self.kind,
            now=self.now,
            message="m",
            bounds=BOUNDS,
            by=who,
            retry_at=None if retry is None else self.now + retry,
        )
        self.change(after)
        assert after.failures == before.failures + 1
        if told:
            assert after.state is CircuitState.OPEN
            assert after.until >= self.now + (retry or 0)
        elif before.state is CircuitState.CLOSED:
            assert after.state is (CircuitState.OPEN if after.failures >= 3 else CircuitState.CLOSED)
        elif before.state is CircuitState.HALF_OPEN and before.probe != who:
            assert (after.state, after.probe) == (CircuitState.HALF_OPEN, before.probe), "only the probe decides"
        elif before.state is CircuitState.HALF_OPEN:
            length = after.until - self.now
            assert after.state is CircuitState.OPEN
            outage = max(15, (self.now - self.first_failure) / 4)
            expected = outage if self.kind in PASSES else 300 * 2**before.pauses
            assert abs(length - min(expected, 3600)) < 0.01

    @precondition(lambda self: self.running)
    @rule(data=st.data(), works=st.booleans())
    def end(self, data: st.DataObject, works: bool) -> None:
        who = data.draw(st.sampled_from(sorted(self.running, key=lambda one: one.pid)))
        self.running.discard(who)
        if works:
            self.change(Circuit())
        else:
            self.change(circuits.released(self.circuit, who))
            assert self.circuit.probe != who

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(sorted(self.running, key=lambda one: one.pid)))
        self.running.discard(who)
        self.alive.discard(who)

    @invariant()
    def only_a_probe_is_half_open(self) -> None:
        assert (self.circuit.probe is not None) == (self.circuit.state is CircuitState.HALF_OPEN)
        assert self.circuit.until <= self.now + LONGEST_RETRY_SECONDS

    @invariant()
    def no_one_waits_forever(self) -> None:
        later = max(self.now, self.circuit.until)
        assert not circuits.refuses(self.circuit, now=later, by=PROCESSES[0], alive=lambda _: False)


TestCircuits = Circuits.TestCase


def test_a_clock_that_was_set_back_pauses_no_one_for_years() -> None:
    far = Circuit(state=CircuitState.OPEN, until=4e9, pauses=1)
    assert not circuits.refuses(far, now=1e9, by=PROCESSES[0], alive=lambda _: True)
